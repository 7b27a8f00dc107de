"""Inspect a ledger from the command line: ``python -m skdp.ledger COMMAND PATH``.

A ledger holds names, prices, noise and times, but no data. Nothing is charged, only ``backup``
writes a file, and only ``release`` changes a ledger. `PATH` may be the URL of a ledger in
PostgreSQL; no message repeats its password.

- ``show`` prints the terms, what is spent, what is left, the charges, reservations and plans.
- ``verify`` recomputes every sum from the charges and reservations, every price from its
  components, and the rest of every plan. It lists what a ledger cannot tell, and ends with status 1
  if something is wrong.
- ``export`` prints the ledger as JSON or HTML.
- ``backup`` copies the ledger as of one moment; others may charge it meanwhile.
- ``release`` gives back what reservations hold whose process was killed or lost its connection.
  `show` lists them with their numbers. A search that still runs may then be unable to pay for all
  its fits; more than the budget can never be spent.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import sqlite3
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from skdp._docstrings import shared_texts
from skdp._version import __version__
from skdp.budget import plans
from skdp.budget.ledger import Ledger
from skdp.budget.opening import ledger_path, opened, path_of
from skdp.budget.plans import Plan
from skdp.budget.reading import Statement
from skdp.budget.reports.html import (
    CHARGE_HEAD,
    SHOWN,
    budget_html,
    charge_cells,
    printable,
    text_table,
)
from skdp.budget.schema import Terms, Totals, cost_of, reservation_of
from skdp.budget.verification import UNKNOWABLE, readable, rows_of, verify
from skdp.exceptions import LedgerError, SealedBudgetError
from skdp.loss.charge import Charge, ReservationRecord
from skdp.loss.conversions import loss_text, rounded_amount

__all__ = ["backup", "export_html", "export_json", "main", "release", "show", "verified"]

_KINDS = 20  # prices of a plan that `show` prints
_SHOWN = 50  # charges that `show` prints; the older ones are counted


def _process(record: Charge | ReservationRecord) -> str:
    return f"{record.pid} on {record.host}" if record.host else str(record.pid)


def _reservation_row(record: ReservationRecord, now: datetime.datetime) -> list[object]:
    age = str(datetime.timedelta(seconds=max(int((now - record.when).total_seconds()), 0)))
    state = f"open for {age}" if record.open else "closed"
    when = record.when.strftime("%Y-%m-%d %H:%M:%S")
    losses = [rounded_amount(record.epsilon), rounded_amount(record.delta)]
    return [record.number, when, state, *losses, _process(record), record.note]


def _plan_lines(terms: Terms, all_plans: Sequence[Plan]) -> list[str]:
    lines = []
    for plan in all_plans:
        epsilon, delta = terms.plans[plan.part]
        state = "open" if plan.open else "drawn from" if plan.drawn else "freed"
        lines.append(f"plan {plan.number}, {state}, of at most ({epsilon!r}, {delta!r}):")
        lines += [
            f"  {unused} of {times} left: {', '.join(str(part) for part in json.loads(kind))}"
            for kind, times, unused in plan.items[:_KINDS]
        ]
        if len(plan.items) > _KINDS:
            lines.append(f"  and {len(plan.items) - _KINDS} other prices")
    return lines


@shared_texts
def show(path: str | os.PathLike[str], *, every: bool = False, page: int = 1) -> str:
    """Return a ledger as a table.

    Parameters
    ----------
    path : str or os.PathLike
        Of the ledger.
    every : bool, default=False
        Show all charges and reservations; otherwise at most 50 of each.
    page : int, default=1
        1: the last 50 charges; 2: the 50 before them, and so on.

    Examples
    --------
    >>> import os, tempfile
    >>> from skdp.budget import Cost, PrivacyBudget
    >>> from skdp.ledger import show
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "a.budget")
    ...     budget = PrivacyBudget(1.0, ledger=path)
    ...     _ = budget.charge(Cost(0.25), estimator="DPPCA")
    ...     print(show(path).splitlines()[1])
    spent epsilon=0.25, delta=0.0; remaining epsilon=0.75, delta=0.0
    """
    if page < 1:
        raise ValueError("page must be at least 1.")
    with readable(path) as (connection, _):
        return _table(connection, every, page)


def _table(connection: sqlite3.Connection, every: bool, page: int) -> str:
    count = Totals.read(connection).charges
    end = max(count + 1 - _SHOWN * (page - 1), 1)
    statement = Statement.read(connection) if every else Statement.read(connection, _SHOWN, end)
    all_plans = plans.read(connection, cost_of)
    (reserved,) = connection.execute("SELECT COUNT(*) FROM reservations").fetchone()
    # Open ones are shown however old they are: somebody may have to give them back.
    still_open = connection.execute(
        "SELECT * FROM reservations WHERE closed IS NULL ORDER BY number LIMIT 1000"
    ).fetchall()
    reservations = {record.number: record for record in map(reservation_of, still_open)}
    facts, terms, charges = statement.facts, statement.terms, statement.charges
    named = f", data set {facts['dataset']}" if facts["dataset"] else ""
    unit = "" if terms.unit is None else f", unit {terms.unit}"
    what = f"accountant {terms.accountant}, adjacency {terms.adjacency}{unit}{named}"
    lines = [
        f"budget {loss_text(terms)}, {printable(what)}",
        f"spent {loss_text(statement.spent)}; remaining {loss_text(statement.remaining, up=False)}",
        "",
    ]
    if len(charges) < count:
        which = f"page {page} of {-(-count // _SHOWN)}, from the last:"
        last = f"the last {len(charges)} of them (the others: --page, --all):"
        lines.append(f"{count} charges, {last if page == 1 else which}")
    if charges:
        head = [*CHARGE_HEAD[:-1], "process", "note"]
        lines += text_table(head, [[*charge_cells(c)[:-1], _process(c), c.note] for c in charges])
    elif not count:
        lines.append("Nothing was charged yet.")
    reservations |= {record.number: record for record in statement.reservations}
    if reservations:
        now = datetime.datetime.now(datetime.UTC)
        head = ["#", "reserved (UTC)", "state", "epsilon", "delta", "process", "note"]
        rows = [_reservation_row(reservations[number], now) for number in sorted(reservations)]
        if len(rows) < reserved:
            lines += ["", f"{reserved} reservations, {len(rows)} of them (open, or the last):"]
        lines += ["", *text_table(head, rows)]
    if all_plans:
        lines += ["", *_plan_lines(terms, all_plans)]
    return "\n".join(lines) + "\n"


# --- checks and copies ----------------------------------------------------------------------------


def verified(path: str | os.PathLike[str]) -> tuple[bool, str]:
    """Check a ledger; return whether it is sound, and what was found.

    Parameters
    ----------
    path : str or os.PathLike
        Of the ledger.

    Returns
    -------
    sound : bool
    text : str
        A line for each check, and what no ledger can tell.
    """
    with readable(path) as (connection, version):
        findings = verify(connection)
    sound = all(finding.level != "wrong" for finding in findings)
    lines = [f"{finding.level:5}  {finding.text}" for finding in findings]
    lines.append(f"note   the file has format {version}")
    lines += ["", "What no ledger can say:", *(f"- {text}" for text in UNKNOWABLE)]
    return sound, "\n".join(lines) + "\n"


def _fields(record: Any, names: str) -> dict[str, Any]:
    """Return attributes of a record by name, times as text."""
    values = {name: getattr(record, name) for name in names.split()}
    times = {n: t.isoformat() for n, t in values.items() if isinstance(t, datetime.datetime)}
    return values | times


_PRICE = "epsilon delta mu separate_delta"
_CHARGE = "number when estimator epsilon delta mechanism seeded note pid skdp_version"
_RESERVATION = "when epsilon delta note number pid host open"
_TERMS = "epsilon delta adjacency unit accountant separate_delta plans"


def _charge_json(charge: Charge) -> dict[str, Any]:
    components = [
        {"times": times, **_fields(single, _PRICE)} for single, times in charge.cost.components
    ]
    return {**_fields(charge, _CHARGE), "components": components, "releases": charge.releases}


def _plan_json(plan: Plan) -> dict[str, Any]:
    items = [
        {"kind": json.loads(kind), "times": times, "unused": unused}
        for kind, times, unused in plan.items
    ]
    return {**_fields(plan, "number part drawn open"), "items": items}


@shared_texts
def export_json(path: str | os.PathLike[str]) -> str:
    """Return the whole ledger as JSON, with the results of the checks.

    Parameters
    ----------
    path : str or os.PathLike
        Of the ledger.
    """
    with readable(path) as (connection, version):
        return json.dumps(_everything(connection, version), indent=2) + "\n"


def _everything(connection: sqlite3.Connection, version: int) -> dict[str, Any]:
    findings, statement = verify(connection), Statement.read(connection)
    facts = {
        name: statement.facts[name]
        for name in ("id", "created", "skdp_version", "dataset", "n_rows", "backup_of")
    }
    return {
        "ledger": {**facts, "format": version, "exported_by": __version__},
        "terms": _fields(statement.terms, _TERMS),
        "spent": _fields(statement.spent, "epsilon delta"),
        "remaining": _fields(statement.remaining, "epsilon delta"),
        "charges": [_charge_json(charge) for charge in statement.charges],
        "reservations": [_fields(record, _RESERVATION) for record in statement.reservations],
        "plans": [_plan_json(plan) for plan in statement.plans],
        "verified": [_fields(finding, "level text") for finding in findings],
        "unknowable": UNKNOWABLE,
    }


def export_html(path: str | os.PathLike[str]) -> str:
    """Return a ledger as an HTML page: the view that notebooks show.

    Parameters
    ----------
    path : str or os.PathLike
        Of the ledger.

    Returns
    -------
    text : str
        A page without scripts or links.
    """
    with readable(path) as (connection, _):
        statement, name = Statement.read(connection, SHOWN), ledger_path(path, True)
        body = budget_html(statement.terms, statement, statement.facts["dataset"], name)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Ledger</title></head>'
        f"<body>{body}</body></html>\n"
    )


def backup(path: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Copy a ledger to another file, as `PrivacyBudget.backup` does; the ledger stays as it is.

    Parameters
    ----------
    path, target : str or os.PathLike
        Of the ledger and of the copy.
    """
    source, copy = ledger_path(path, True), path_of(target)
    with readable(path) as (connection, _):
        Ledger.write_copy(connection, source, copy)


def release(path: str | os.PathLike[str], numbers: Sequence[int] | None = None) -> str:
    """Give back what open reservations hold, for example those of a process that was killed.

    Nothing is refunded: what was charged stays charged. A process that still needs its reservation
    can then only spend what is free.

    Parameters
    ----------
    path : str or os.PathLike
        Of the ledger.
    numbers : sequence of int or None, default=None
        Of the reservations, as `show` lists them; None: all that are open now.

    Returns
    -------
    text : str
        A line for each.

    Raises
    ------
    LedgerError
        If one of them is not open; then none is given back.
    """
    ledger = opened(ledger_path(path, True))
    with rows_of(path):
        reservations = map(reservation_of, ledger.rows("reservations"))
        records = {record.number: record for record in reservations if record.open}
    wanted = sorted(records) if numbers is None else list(dict.fromkeys(numbers))
    missing = [str(number) for number in wanted if number not in records]
    if missing:
        raise LedgerError(
            f"The ledger {ledger.path} has no open reservation {', '.join(missing)}; nothing was "
            "given back. The command show lists them."
        )
    lines = []
    for number in wanted:
        record, freed = records[number], ledger.release(number)
        when = f"{record.when:%Y-%m-%d %H:%M:%S} UTC"
        what = f"reservation {number} of process {_process(record)} ({when})"
        lines.append(f"{what} {'was given back' if freed else 'had been closed meanwhile'}")
    return "".join(f"{printable(line)}\n" for line in lines or ["No reservation is open."])


class _Parser(argparse.ArgumentParser):
    """A parser whose errors do not repeat the arguments, which may hold a password."""

    def error(self, message: str) -> NoReturn:
        """Print what is missing, or that the arguments are wrong, and exit."""
        if not message.startswith("the following arguments are required"):
            message = "these are not the arguments of a command"
        self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: {message}; --help lists them.\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m skdp.ledger", description="Inspect a ledger.")
    commands = parser.add_subparsers(dest="command", required=True)
    shown = commands.add_parser("show", help="print the ledger")
    shown.add_argument("path")
    shown.add_argument("--all", action="store_true", help="show all charges, not only the last 50")
    shown.add_argument("--page", type=int, default=1, metavar="N", help="2: the 50 before, ...")
    commands.add_parser(
        "verify", help="check the ledger; exit status 1 if something is wrong"
    ).add_argument("path")
    exported = commands.add_parser("export", help="print the ledger as JSON or HTML")
    exported.add_argument("path")
    exported.add_argument("--format", choices=("json", "html"), default="json")
    backup = commands.add_parser("backup", help="copy the ledger as of one moment")
    backup.add_argument("path")
    backup.add_argument("target")
    released = commands.add_parser(
        "release", help="give back what reservations of lost processes hold"
    )
    released.add_argument("path")
    which = released.add_mutually_exclusive_group(required=True)
    which.add_argument("number", nargs="*", type=int, default=[], help="as show lists them")
    which.add_argument("--all", action="store_true", help="all that are open now")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return the status of the process.

    Parameters
    ----------
    arguments : sequence of str or None, default=None
        Arguments of the command line, which is read by default.

    Returns
    -------
    status : int
        0; 1 if `verify` finds something wrong; 2 if the ledger cannot be read or is not named
        right.
    """
    options = _parser().parse_args(arguments)
    status, text = 0, ""
    try:
        if options.command == "show":
            text = show(options.path, every=options.all, page=max(options.page, 1))
        elif options.command == "verify":
            sound, text = verified(options.path)
            status = 0 if sound else 1
        elif options.command == "export":
            text = (export_json if options.format == "json" else export_html)(options.path)
        elif options.command == "release":
            text = release(options.path, None if options.all else options.number)
        else:
            backup(options.path, options.target)
    except (LedgerError, SealedBudgetError, ValueError, OSError, ImportError) as error:
        sys.stderr.write(f"{printable(error)}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    with contextlib.suppress(BrokenPipeError):  # a reader such as `head` has seen enough
        _write(text)
    return status


def _write(text: str) -> None:
    """Print a text, whatever the terminal can show of it."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes once more at its end, and would complain there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


if __name__ == "__main__":
    sys.exit(main())
