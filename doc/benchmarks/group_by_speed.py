"""Processor seconds of `DPGroupBy` of a DuckDB table, beside a GROUP BY with COUNT(DISTINCT unit).

10 million rows, 1 million users, 1,000 keys; both in one run. Writes results/group_by_speed.txt.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import duckdb

from skdp import PrivacyBudget
from skdp.aggregation import DPGroupBy

PLAIN = "SELECT k, count(*), count(DISTINCT u) FROM visits GROUP BY k"


def seconds(work) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    engine = duckdb.connect()
    engine.execute("SET threads = 2")
    engine.execute(
        f"CREATE TABLE visits AS SELECT (random() * {options.rows // 10})::BIGINT AS u, "
        f"(random() * 999)::BIGINT AS k, random() * 10 AS v FROM range({options.rows})"
    )
    visits = engine.table("visits")
    budget = PrivacyBudget(1000, 0.1, adjacency="add_or_remove_one", unit="u")
    stated = {"keys": list(range(1000)), "max_keys_per_unit": 5, "max_rows_per_unit": 2}

    def fitted(aggregates, **parameters):
        DPGroupBy("k", "u", budget=budget, **parameters).agg(**aggregates).fit(visits)

    counts = {"visits": "count", "users": "distinct_units"}
    means = {**counts, "mean": ("mean", "v", (0, 10))}
    lines = ["| what | processor seconds | times the plain query |", "|---|---|---|"]
    plain, found = (
        [],
        {"counts, keys and caps stated": [], "counts and a mean": [], "all private": []},
    )
    for _ in range(options.runs):
        plain.append(seconds(lambda: engine.execute(PLAIN).fetchall()))
        found["counts, keys and caps stated"].append(seconds(lambda: fitted(counts, **stated)))
        found["counts and a mean"].append(seconds(lambda: fitted(means, **stated)))
        found["all private"].append(seconds(lambda: fitted(counts)))
    base = statistics.median(plain)
    lines.append(f"| plain GROUP BY | {base:.2f} | 1 |")
    for name, times in found.items():
        middle = statistics.median(times)
        lines.append(f"| DPGroupBy, {name} | {middle:.2f} | {middle / base:.1f} |")
    text = (
        f"{options.rows:,} rows, {options.rows // 10:,} users, 1,000 keys, "
        f"two threads of DuckDB; medians of {options.runs} runs, DuckDB {duckdb.__version__}.\n\n"
    )
    (Path(__file__).parent / "results" / "group_by_speed.txt").write_text(
        text + "\n".join(lines) + "\n", encoding="utf-8"
    )
    print("\n".join(lines))


if __name__ == "__main__":
    main()
