"""Processor seconds and memory of `DPGroupBy`, beside DuckDB's GROUP BY of the same rows.

A million rows, 100,000 users, 16,000 text keys. Each fit runs in a process of its own, once before
it is measured with 1,000 rows, so that imports do not count. Memory is the peak during the fit less
what the process held before it (Linux alone says that). Writes results/group_by_speed.txt.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd

from skdp import PrivacyBudget
from skdp.aggregation import DPGroupBy

ROWS, USERS, KEYS = 1_000_000, 100_000, 16_000
PLAIN = {
    "counts": "SELECT k, count(*) FROM visits GROUP BY k",
    "mean": "SELECT k, count(v), avg(v) FROM visits GROUP BY k",
    "median": "SELECT k, median(v) FROM visits GROUP BY k",
}
AGGREGATES = {
    "counts": {"n": "count"},
    "mean": {"m": ("mean", "v", (0, 10))},
    "median": {"m": ("quantile", "v", 0.5, (0, 10))},
}


def visits_of(rows: int) -> pd.DataFrame:
    """Return rows of users; half of the rows are of a hundred keys, which private keys show."""
    rng = np.random.default_rng(0)
    key = rng.integers(0, KEYS, rows) // np.where(rng.random(rows) < 0.5, 1, KEYS // 100)
    names = np.array([f"page {i:05d}" for i in range(KEYS)])
    return pd.DataFrame(
        {"u": rng.integers(0, USERS, rows), "k": names[key], "v": rng.random(rows) * 10}
    )


def in_duckdb(visits: pd.DataFrame) -> duckdb.DuckDBPyConnection:
    engine = duckdb.connect()
    engine.execute("SET threads = 1")
    engine.register("frame", visits)
    engine.execute("CREATE TABLE visits AS SELECT * FROM frame")
    engine.unregister("frame")
    return engine


def measured(what: str, container: str, keys: str) -> dict[str, float]:
    """Return the processor seconds, megabytes and number of keys of one fit or plain query."""

    def ready(rows: int):
        visits = visits_of(rows)
        engine = None if container == "pandas" else in_duckdb(visits)
        if container == "plain":
            return lambda: len(engine.execute(PLAIN[what]).fetchall())
        stated = {"keys": [f"page {i:05d}" for i in range(KEYS)]} if keys == "stated" else {}
        budget = PrivacyBudget(1000, 0.1, adjacency="add_or_remove_one", unit="u")
        by = DPGroupBy(
            "k", "u", delta=1e-6, budget=budget, max_keys_per_unit=5, max_rows_per_unit=2, **stated
        ).agg(**AGGREGATES[what])
        table = visits if engine is None else engine.table("visits")
        return lambda: len(by.fit(table).keys_)

    ready(1000)()
    work = ready(ROWS)
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # the peak starts anew
    before, start = megabytes("VmRSS"), time.process_time()
    found = work()
    seconds = time.process_time() - start
    return {"seconds": seconds, "megabytes": megabytes("VmHWM") - before, "keys": found}


def megabytes(field: str) -> float:
    """Return a field of the status of this process: what it holds (VmRSS), or its peak (VmHWM)."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split(f"{field}:")[1].split()[0]) / 1024


def apart(*which: str) -> dict[str, float]:
    """Return what `measured` returns in a process of its own."""
    command = [sys.executable, __file__, "--one", *which]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--one", nargs=3)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured(*options.one)))
        return
    cases = [
        (what, container, keys)
        for what in PLAIN
        for container, keys in [
            ("plain", "all"), ("pandas", "stated"), ("DuckDB", "stated"),
            ("pandas", "private"), ("DuckDB", "private"),
        ]
    ]  # fmt: skip
    runs = [{case: apart(*case) for case in cases} for _ in range(options.runs)]
    middle = {
        case: {name: statistics.median(run[case][name] for run in runs) for name in runs[0][case]}
        for case in cases
    }
    lines = ["| what | table | keys | processor seconds | times plain | MB |", "|" + "---|" * 6]
    for what, container, keys in cases:
        row, plain = middle[what, container, keys], middle[what, "plain", "all"]
        times = row["seconds"] / plain["seconds"]
        lines.append(
            f"| {what} | {container} | {keys}, {row['keys']:,.0f} | {row['seconds']:.2f} | "
            f"{times:.1f} | {row['megabytes']:+.0f} |"
        )
    versions = (
        f"DuckDB {duckdb.__version__}, pandas {pd.__version__}, numpy {np.__version__}, "
        f"Python {platform.python_version()}"
    )
    text = (
        f"{ROWS:,} rows, {USERS:,} users, {KEYS:,} text keys, at most 5 keys of a user and 2 rows "
        f"in each; one thread.\nMedians of {options.runs} runs, each in a process of its own; "
        f"{datetime.date.today():%d %B %Y}, {versions}.\n"
        '"plain" is DuckDB\'s GROUP BY of all rows, without intervals; '
        "MB is the peak less what the process held before.\n\n"
    )
    (Path(__file__).parent / "results" / "group_by_speed.txt").write_text(
        text + "\n".join(lines) + "\n", encoding="utf-8"
    )
    print(text + "\n".join(lines))


if __name__ == "__main__":
    main()
