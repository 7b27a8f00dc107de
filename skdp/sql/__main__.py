"""A query on one Parquet file or DuckDB table, counted in a ledger, from the command line.

python -m skdp.sql visits.parquet "SELECT browser, COUNT(*) FROM visits GROUP BY browser" --unit uid
python -m skdp.sql visits.parquet --unit uid --ledger visits.budget --total 3 1e-5 \
    --epsilon 0.5 --bounds minutes 0 240 "SELECT browser, AVG(minutes) FROM visits GROUP BY browser"

The table of a Parquet file has the name of the file. The answer is written as CSV or JSON, and what
was not stated, like all notes, to the error stream. Exit status: 0, an answer; 1, a failure of the
file, the ledger or the engine; 2, a wrong call; 3, a refused query; 4, an exhausted budget.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from skdp.budget import PrivacyBudget
from skdp.exceptions import BudgetExceededError, QueryRefusedError
from skdp.loss.charge import PrivacyLoss
from skdp.loss.conversions import loss_text
from skdp.sql._answers import Answer
from skdp.sql._database import PrivateDatabase, print_progress
from skdp.sql._syntax import parsed

_PARQUET = (".parquet", ".parq")
_DUCKDB = b"DUCK"  # from the ninth byte
_TOTAL = (5.0, 1e-5)  # of a new ledger
_PRICE = {"epsilon": 1.0, "delta": 1e-6}
_EXCEEDED = (
    "the price of this query is {}, and the ledger {!r} has {} left: nothing was charged. Give a "
    "smaller --epsilon or --delta, or use earlier answers, which stay free. The total of a ledger "
    "cannot be raised; a new one (--ledger, --total) adds to it, which whoever is responsible for "
    "the data decides"
)


def _cap(text: str) -> int | str:
    return text if text == "private" else int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m skdp.sql", description="Private SQL.")
    parser.add_argument("file", help="a Parquet file, or a DuckDB file with --table")
    parser.add_argument("query")
    for name, text in (
        ("table", "the table of a DuckDB file; or another name for a Parquet file"),
        ("unit", "column that names the privacy unit; without it, each row is one"),
        ("ledger", "ledger file of the budget: FILE.budget if not given"),
        ("certificate", "file to which the certificate of the release is written"),
    ):
        parser.add_argument(f"--{name}", help=text)
    parser.add_argument("--total", nargs=2, type=float, metavar=("EPSILON", "DELTA"),
                        help="budget of all queries together; of a new ledger "
                        f"{_TOTAL[0]:g} and {_TOTAL[1]:g} if not given")  # fmt: skip
    parser.add_argument("--epsilon", type=float, help="epsilon of this query, 1 if not given")
    parser.add_argument("--delta", type=float, help="delta of this query, 1e-6 if not given")
    parser.add_argument("--bounds", nargs=3, action="append", default=[],
                        metavar=("COLUMN", "LOW", "HIGH"),
                        help="bounds of a column, from public knowledge")  # fmt: skip
    for name, what in (("keys", "keys of a unit"), ("rows", "of its rows in a key")):
        parser.add_argument(f"--max-{name}-per-unit", type=_cap, default="private", metavar="N",
                            help=f"at most so many {what}; chosen privately")  # fmt: skip
    parser.add_argument("--public", action="append", default=[], metavar="NAME[=FILE]",
                        help="a public table: Parquet file, or in the DuckDB file")  # fmt: skip
    parser.add_argument("--format", choices=("csv", "json"), default="csv")
    parser.add_argument("--rows-per-key", type=float, metavar="N",
                        help="rows of a key, about, for the errors of --explain")  # fmt: skip
    for name, text in (
        (
            "log-literals",
            "write the whole query into the ledger, with literals that may name people",
        ),
        ("explain", "show the cost of the query, without spending anything"),
        ("verbose", "with --explain: show the SQL of the rows, too"),
        ("progress", "show the progress of the query"),
    ):
        parser.add_argument(f"--{name}", action="store_true", help=text)
    return parser


def _say(text: Any) -> None:
    print(text, file=sys.stderr)  # noqa: T201


def _write(answer: Answer, form: str) -> None:
    frame = answer.to_pandas()
    if form == "json":
        print(frame.to_json(orient="records", date_format="iso"))  # noqa: T201
    else:
        frame.to_csv(sys.stdout, index=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer one query; return the exit status."""
    given = _parser().parse_args(arguments)
    try:
        result = _answered(given)
    except (OSError, TypeError, ValueError, RuntimeError) as error:
        _say(_text_of(error, given))
        for item in getattr(error, "subqueries", []):  # they are paid for
            _write(item, given.format)
        if isinstance(error, QueryRefusedError):
            return 3
        if isinstance(error, BudgetExceededError):
            return 4
        return 1 if isinstance(error, OSError | RuntimeError) else 2
    if isinstance(result, str):
        print(result)  # noqa: T201
        return 0
    _write(result, given.format)
    for note in result.notes:
        _say(f"note: {note}")
    if given.certificate:
        Path(given.certificate).write_text(result.to_json(indent=2), encoding="utf-8")
    return 0


def _ledger_of(given: Any) -> str:
    return given.ledger or f"{given.file}.budget"


def _text_of(error: Exception, given: Any) -> Any:
    if not isinstance(error, BudgetExceededError) or error.remaining is None:
        return error
    if "was charged" in str(error) and "othing was charged" not in str(error):
        return error  # of a query in two parts, the first of which is paid
    left = loss_text(error.remaining, up=False)
    return _EXCEEDED.format(loss_text(error.cost), _ledger_of(given), left)


def _budget_of(given: Any) -> PrivacyBudget:
    """Return the budget of the call, and say what the caller has not stated."""
    if not Path(given.file).exists():
        raise FileNotFoundError(f"there is no file {given.file!r}")
    if not given.file.endswith(_PARQUET):
        with Path(given.file).open("rb") as file:
            if file.read(12)[8:] != _DUCKDB:
                raise ValueError(
                    f"{given.file!r} is neither a Parquet file (.parquet) nor one of DuckDB. "
                    "pandas.read_csv(...).to_parquet(...) makes one of a CSV file"
                )
    path = _ledger_of(given)
    exists = Path(path).exists()
    if given.total is None and exists:
        budget = PrivacyBudget.open(path)
        if budget.unit != given.unit:
            raise ValueError(
                f"the ledger {path!r} protects one {budget.unit or 'row'!r}: "
                + (f"give --unit {budget.unit}" if budget.unit else "leave --unit out")
            )
        return budget
    total = _TOTAL if given.total is None else given.total
    if not exists:
        way = "add_or_remove_one: how many units have rows is private, too"
        _say(f"new ledger {path!r}: {loss_text(PrivacyLoss(*total))} (--total), {way}")
    return PrivacyBudget(*total, adjacency="add_or_remove_one", unit=given.unit, ledger=path)


def _database_of(given: Any) -> PrivateDatabase:
    parquet = given.file.endswith(_PARQUET)
    table = given.table or Path(given.file).stem
    bounds = {name: (float(low), float(high)) for name, low, high in given.bounds}
    files = {table: given.file}
    tables: dict[str, Any] = {table: {"unit": given.unit, "columns": bounds}}
    for text in given.public:
        name, _, file = text.partition("=")
        if bool(file) != parquet:
            way = "NAME=FILE beside a Parquet file" if parquet else "NAME for a DuckDB file"
            raise ValueError(f"--public must be {way}, got {text!r}")
        tables[name], files[name] = "public", file
    return PrivateDatabase(
        files if parquet else given.file,
        tables=tables,
        budget=_budget_of(given),
        log_literals=given.log_literals,
    )


def _answered(given: Any) -> Answer | str:
    stated = dict(parsed(given.query)[1].values)
    database = _database_of(given)
    said = {name: getattr(given, name) for name in _PRICE}
    if usual := {n: v for n, v in _PRICE.items() if said[n] is None and n not in stated}:
        prices = ", ".join(f"{name} {value:g} (--{name})" for name, value in usual.items())
        _say(f"price of this query: {prices}")
    if given.unit is None:
        _say("protected: each row by itself (--unit COLUMN protects all rows of one unit)")
    price = {
        **said,
        "max_keys_per_unit": given.max_keys_per_unit,
        "max_rows_per_unit": given.max_rows_per_unit,
    }
    if given.explain:
        if given.rows_per_key is not None and not given.rows_per_key > 0:
            raise ValueError("--rows-per-key must be above 0")
        text = database.explain(given.query, **price, rows_per_key=given.rows_per_key)
        return text if given.verbose else re.sub(r"(?m)^rows: .*\n?", "", text)
    return database.sql(given.query, **price, progress=print_progress if given.progress else None)


if __name__ == "__main__":
    sys.exit(main())
