"""One fit by every engine, and beside it the same method of scikit-learn and of dask-ml.

python doc/benchmarks/engines.py [rows]

Of every way the second fit of a process is timed: the first starts workers and the Java runtime.
Processor time is that of the process and of all its children. scikit-learn fits a memory map,
all others read the same Parquet files. The methods of the others are not private. Needs dask-ml,
pyspark with a Java runtime, psutil; what is missing is left out, and said.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import warnings
from datetime import date
from pathlib import Path

from larger_than_memory import COLUMNS, estimator, write

METHODS = ("scaler", "pca", "kmeans")
OURS = ("threads", "dask threads", "dask workers", "spark files", "spark frame")
OTHERS = ("scikit-learn", "dask-ml")


def used():
    """Return the processor seconds of this process and of all that it has started."""
    import psutil

    own = psutil.Process()
    total = 0.0
    for process in (own, *own.children(recursive=True)):
        times = process.cpu_times()
        total += times.user + times.system
    return total


def peer(way, name):
    """Return the estimator of another library, as large as ours."""
    if way == "scikit-learn":
        from sklearn.cluster import KMeans
        from sklearn.decomposition import PCA
        from sklearn.preprocessing import StandardScaler

        return {
            "scaler": StandardScaler,
            "pca": lambda: PCA(2),
            "kmeans": lambda: KMeans(4, n_init=1, random_state=0),
        }[name]()
    from dask_ml.cluster import KMeans
    from dask_ml.decomposition import PCA
    from dask_ml.preprocessing import StandardScaler

    return {
        "scaler": StandardScaler,
        "pca": lambda: PCA(2, svd_solver="tsqr"),
        "kmeans": lambda: KMeans(4, random_state=0),
    }[name]()


def opened(way, folder):
    """Return what is fitted, once whatever visits it has been started."""
    from skdp import engines

    if way == "threads":
        return engines.read_parquet(folder)
    if way == "scikit-learn":
        import numpy as np

        return np.load(folder / "rows.npy", mmap_mode="r")
    if way == "dask-ml":
        import dask.dataframe as dd

        return dd.read_parquet(str(folder / "*.parquet")).to_dask_array(lengths=True)
    if way.startswith("dask"):
        if way == "dask workers":
            from distributed import Client

            Client(n_workers=2, threads_per_worker=1, dashboard_address=None)
        return engines.read_parquet(folder, engine="dask")
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    if way == "spark files":
        return engines.read_parquet(folder, engine="spark")
    return engines.from_spark(session.read.parquet(str(folder / "*.parquet")))


def measure(way, name, folder):
    """Fit twice and print the seconds and the processor seconds of the second fit."""
    warnings.simplefilter("ignore")
    X = opened(way, Path(folder))
    make = (lambda: peer(way, name)) if way in OTHERS else (lambda: estimator(name))
    make().fit(X)
    wall, before = time.perf_counter(), used()
    make().fit(X)
    print("found", time.perf_counter() - wall, used() - before, flush=True)
    if way.startswith(("dask w", "spark")):
        os._exit(0)  # their own ends take long, and say much


def measured(way, name, folder, times=3):
    """Return the least seconds and processor seconds of some processes, or why there are none."""
    command = [sys.executable, "-W", "ignore", __file__, "measure", way, name, str(folder)]
    found = []
    for _ in range(times):
        done = subprocess.run(command, capture_output=True, text=True)
        lines = [line for line in done.stdout.splitlines() if line.startswith("found")]
        if not lines:
            return (done.stderr.strip().splitlines() or ["?"])[-1][:60]
        found.append([float(word) for word in lines[-1].split()[1:]])
    return tuple(map(min, zip(*found, strict=True)))


def versions():
    """Return what was installed."""
    from importlib.metadata import PackageNotFoundError, version

    out = []
    for name in ("numpy", "pyarrow", "dask", "dask-ml", "pyspark", "scikit-learn"):
        try:
            out.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            out.append(f"no {name}")
    return ", ".join(out)


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000_000
    print(f"{date.today()}, {versions()}")
    print(
        f"{n:,} rows of {COLUMNS} columns in 8 files, {os.cpu_count()} cores; least of 3 processes"
    )
    print(f"{'fit':8} {'way':16} {'s':>7} {'cpu s':>7} {'cpu, of threads':>16}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, n)
        for what in METHODS:
            first = None
            for way in (*OURS, *OTHERS):
                found = measured(way, what, folder)
                if isinstance(found, str):
                    print(f"{what:8} {way:16} not run: {found}", flush=True)
                    continue
                wall, cpu = found
                first = first or cpu
                print(f"{what:8} {way:16} {wall:7.2f} {cpu:7.2f} {cpu / first:16.2f}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure(*sys.argv[2:])
    else:
        main()
