r"""A query on one Parquet file or DuckDB table, counted in a ledger, from the command line.

python -m skdp.sql visits.parquet --unit uid --ledger visits.budget --total 3 1e-5 \
    --epsilon 0.5 --bounds minutes 0 240 "SELECT browser, AVG(minutes) FROM visits GROUP BY browser"

The table of a Parquet file has the name of the file. The answer is written as CSV, its notes go to
the error stream, and its certificate to the file of --certificate.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from skdp.budget import PrivacyBudget
from skdp.sql._answers import Answer
from skdp.sql._database import PrivateDatabase, print_progress


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m skdp.sql", description="Private SQL.")
    parser.add_argument("file", help="a Parquet file, or a DuckDB file with --table")
    parser.add_argument("query")
    parser.add_argument(
        "--table", help="the table of a DuckDB file; or another name for a Parquet file"
    )
    parser.add_argument(
        "--unit", help="column that names the privacy unit; without it, each row is one"
    )
    parser.add_argument("--ledger", required=True, help="ledger file of the budget")
    parser.add_argument("--total", nargs=2, type=float, metavar=("EPSILON", "DELTA"), required=True,
                        help="budget of all queries together")  # fmt: skip
    parser.add_argument("--epsilon", type=float, help="epsilon of this query, 1 if not given")
    parser.add_argument("--delta", type=float, help="delta of this query, 1e-6 if not given")
    parser.add_argument("--bounds", nargs=3, action="append", default=[],
                        metavar=("COLUMN", "LOW", "HIGH"),
                        help="bounds of a column, from public knowledge")  # fmt: skip
    parser.add_argument(
        "--explain",
        action="store_true",
        help="show the cost of the query, without spending anything",
    )
    parser.add_argument("--progress", action="store_true", help="show the progress of the query")
    parser.add_argument(
        "--certificate", help="file to which the certificate of the release is written"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer one query; return the exit status: 0, or 2 after an error."""
    given = _parser().parse_args(arguments)
    try:
        result = _answered(given)
    except (OSError, TypeError, ValueError, RuntimeError) as error:
        print(error, file=sys.stderr)  # noqa: T201
        for item in getattr(error, "subqueries", []):  # they are paid for
            item.to_pandas().to_csv(sys.stdout, index=False)
        return 2
    if isinstance(result, str):
        print(result)  # noqa: T201
        return 0
    result.to_pandas().to_csv(sys.stdout, index=False)
    for note in result.notes:
        print(f"note: {note}", file=sys.stderr)  # noqa: T201
    if given.certificate:
        Path(given.certificate).write_text(result.to_json(indent=2), encoding="utf-8")
    return 0


def _answered(given: Any) -> Answer | str:
    parquet = given.file.endswith((".parquet", ".parq"))
    table = given.table or Path(given.file).stem
    bounds = {name: (float(low), float(high)) for name, low, high in given.bounds}
    budget = PrivacyBudget(
        *given.total, adjacency="add_or_remove_one", unit=given.unit, ledger=given.ledger
    )
    database = PrivateDatabase(
        {table: given.file} if parquet else given.file,
        tables={table: {"unit": given.unit, "columns": bounds}},
        budget=budget,
    )
    price = {"epsilon": given.epsilon, "delta": given.delta}
    if given.explain:
        return database.explain(given.query, **price)
    return database.sql(given.query, **price, progress=print_progress if given.progress else None)


if __name__ == "__main__":
    sys.exit(main())
