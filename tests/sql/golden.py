"""What seeded queries release, written down: a change of the code that changes a bit shows here.

``python -m tests.sql.golden`` records golden.json anew; commit it with the reason. Queries
cut rows by DuckDB's hash, so the record names its version: `test_sql_golden` is skipped elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

import skdp
from skdp.core.transcript import record
from tests.sql.shop import database, shop

FILE = Path(__file__).with_suffix(".json")
QUERIES = {
    "counts": "SELECT browser, COUNT(*) AS n FROM visits GROUP BY browser",
    "no key": "SELECT COUNT(*), SUM(minutes), AVG(price), MEDIAN(minutes) FROM visits",
    "declared keys": "SELECT device, STDDEV(minutes), COUNT(DISTINCT uid) FROM visits GROUP BY 1",
    "expressions": "SELECT month(day), SUM(minutes / 3) / COUNT(*) FROM visits GROUP BY 1",
    "owners": "SELECT i_kind, SUM(i_price * i_n) FROM item, orders WHERE o_id = i_order GROUP BY 1",
    "inner": "SELECT AVG(t) FROM (SELECT uid, SUM(price) AS t FROM visits GROUP BY uid)",
    "public": "SELECT n_name, COUNT(*) FROM customer JOIN nation ON c_nation = n_id GROUP BY 1",
    "number": "SELECT COUNT(*) FROM visits WHERE minutes > (SELECT AVG(minutes) FROM visits)",
    "released": "SELECT MAX(c) FROM (SELECT browser, COUNT(*) AS c FROM visits GROUP BY browser)",
}


def hashed(value: Any) -> str:
    return hashlib.blake2b(repr(value).encode(), digest_size=8).hexdigest()


def outcome(query: str, delta: float) -> dict[str, Any]:
    """Return what one seeded query released: names, exact and released integers, the answer."""
    with warnings.catch_warnings(), skdp.config_context(noise="seeded"), record() as transcript:
        warnings.simplefilter("ignore")
        given = {"delta": delta, "max_rows_per_unit": 6, "random_state": 7}
        answer = database(shop()).sql(query, epsilon=2.0, **given)
    releases = [
        [
            entry.name,
            repr(float(entry.sensitivity)),
            hashed(np.asarray(entry.exact).tolist()),
            hashed(np.asarray(entry.released).tolist()),
        ]
        for entry in transcript.entries
    ]
    # The last digits of what is computed from releases differ between processors.
    rows = [
        [f"{value:.9g}" if isinstance(value, float) else value for value in row]
        for row in answer.fetchall()
    ]
    return {"releases": releases, "answer": hashed(rows)}


def cells() -> list[tuple[str, str, float]]:
    """Return names, queries and deltas; keys that nobody declared need one."""
    pure = ("no key", "declared keys", "inner", "number")
    return [
        (f"{name}|{delta:g}", query, delta)
        for name, query in QUERIES.items()
        for delta in ((0.0, 1e-3) if name in pure else (1e-3,))
    ]


def main() -> None:
    found = {name: outcome(query, delta) for name, query, delta in cells()}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(cell)}" for name, cell in found.items())
    FILE.write_text(f'{{"duckdb": "{duckdb.__version__}", "cells": {{\n{lines}\n}}}}\n')
    print(f"{len(found)} queries recorded")


if __name__ == "__main__":
    main()
