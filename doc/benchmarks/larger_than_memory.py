"""Fits on Parquet files, streams and a generator of rows, beside the same on a memory map.

python doc/benchmarks/larger_than_memory.py [rows] [rows of the generator]

Every measurement is a process of its own, so that its peak of memory is its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

COLUMNS, FILES = 4, 8
NAMES = [f"x{j}" for j in range(COLUMNS)]


def block(k, rows):
    """Return the k-th part of the rows."""
    return np.random.default_rng(k).normal(0, 0.7, size=(rows, COLUMNS))


def write(folder, n):
    """Write the rows as an array and as Parquet files."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    each = n // FILES
    shape = each * FILES, COLUMNS
    array = np.lib.format.open_memmap(folder / "rows.npy", "w+", np.float64, shape)
    for k in range(FILES):
        part = block(k, each)
        array[k * each : (k + 1) * each] = part
        table = pa.table(dict(zip(NAMES, part.T, strict=True)))
        pq.write_table(table, folder / f"part{k}.parquet", row_group_size=2**19)
    array.flush()


class Generated:
    """Makes the rows of a part anew in every pass."""

    def __call__(self, k):
        size = 2**16
        for step in range(16):
            yield np.random.default_rng([k, step]).random((size, 1), dtype=np.float32)


def source(way, folder, n):
    """Return what is fitted."""
    from skdp import engines
    from skdp.engines import Threads

    if way == "memory map":
        return np.load(folder / "rows.npy", mmap_mode="r")
    if way == "Parquet, threads":
        return engines.read_parquet(folder)
    if way == "Parquet, dask threads":
        return engines.read_parquet(folder, engine="dask")
    if way == "Arrow stream":
        import pyarrow.dataset as ds

        files = [str(path) for path in sorted(folder.glob("*.parquet"))]
        return engines.from_stream(lambda: ds.dataset(files).scanner().to_reader())
    if way == "DuckDB":
        import duckdb

        return engines.from_stream(
            lambda: duckdb.connect().sql(f"SELECT * FROM '{folder}/*.parquet'")
        )
    parts = range(-(-n // 2**20))
    return engines.Source(tuple(parts), Generated(), Threads(), (np.zeros((0, 1)),))


def estimator(name):
    """Return an estimator without noise of its own time."""
    from skdp import DPPCA, DPKMeans, DPStandardScaler

    return {
        "scaler": lambda: DPStandardScaler(bounds=(-2, 2)),
        "scaler, bounds learned": DPStandardScaler,
        "pca": lambda: DPPCA(2, norm_bound=4.0, center=0.0, delta=1e-6),
        "kmeans": lambda: DPKMeans(4, bounds=(-2, 2)),
    }[name]()


def measure(way, name, folder, n):
    """Fit once and print seconds, processor seconds and the peak of memory in MB."""
    X = source(way, Path(folder), int(n))
    model = estimator(name)
    wall, before = time.perf_counter(), time.process_time()
    model.fit(X)
    wall, used = time.perf_counter() - wall, time.process_time() - before
    # Not `ru_maxrss`, which a process takes over from the one that starts it.
    status = Path("/proc/self/status").read_text()
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    print(wall, used, int(peak.split()[1]) / 1024)


def measured(way, name, folder, n, times=3):
    """Return the least seconds, the least processor seconds and the largest peak of some fits."""
    command = [sys.executable, __file__, "measure", way, name, str(folder), str(n)]
    runs = []
    for _ in range(times):
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        runs.append([float(word) for word in done.stdout.split()])
    walls, used, peaks = zip(*runs, strict=True)
    return min(walls), min(used), max(peaks)


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000_000
    many = int(sys.argv[2]) if len(sys.argv) > 2 else 10**9
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, n)
        print(f"{n:,} rows of {COLUMNS} columns, {os.cpu_count()} cores; least of 3 fits")
        print(f"{'fit':24} {'rows from':22} {'s':>7} {'ratio':>6} {'cpu s':>7} {'peak MB':>8}")
        for what in ("scaler", "scaler, bounds learned", "pca", "kmeans"):
            ways = ["memory map", "Parquet, threads"]
            if what == "scaler":
                ways += ["Parquet, dask threads", "Arrow stream", "DuckDB"]
            first = None
            for way in ways:
                wall, used, peak = measured(way, what, folder, n)
                first = first or wall
                print(
                    f"{what:24} {way:22} {wall:7.2f} {wall / first:6.2f} {used:7.2f} {peak:8.0f}",
                    flush=True,
                )
        if many:
            wall, used, peak = measured("generated", "scaler", folder, many, times=1)
            rate = 2 * many / used / 1e6  # a fit is two passes: the check, and the moments
            print(f"{many:,} rows of 1 column, generated: {wall:.0f} s, {used:.0f} cpu s, peak "
                  f"{peak:.0f} MB; {rate:.0f} million rows a second, pass and core")  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure(*sys.argv[2:])
    else:
        main()
