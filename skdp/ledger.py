"""Inspect a ledger from the command line: ``python -m skdp.ledger show|verify|export|backup PATH``.

A ledger holds names, prices, noise and times, but no data. So nothing is released here. Nothing is
charged, and only ``backup`` writes a file.

- ``show`` prints the terms, what is spent, what is left, the charges, reservations and plans.
- ``verify`` recomputes every sum and price, and lists what a ledger cannot tell. It ends with
  status 1 if something is wrong.
- ``export`` prints the ledger as JSON or HTML.
- ``backup`` copies the ledger as of one moment; others may charge it meanwhile.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from skdp._version import __version__
from skdp.budget.account import accountant_of, plain_sum
from skdp.budget.amounts import Amount
from skdp.budget.arguments import ledger_path, path_of
from skdp.budget.charge import Charge, Cost, PrivacyLoss
from skdp.budget.files import is_url
from skdp.budget.html import SHOWN, budget_html, printable, text_table
from skdp.budget.ledger import Ledger
from skdp.budget.opening import opened
from skdp.budget.plans import Plan
from skdp.budget.plans import read as read_plans
from skdp.budget.schema import Contents, Terms, Totals, cost_of
from skdp.budget.snapshot import snapshot
from skdp.budget.statement import Statement
from skdp.budget.verification import UNKNOWABLE, UNREADABLE, verify
from skdp.exceptions import LedgerError, SealedBudgetError

__all__ = ["backup", "export_html", "export_json", "main", "show", "verified"]

_KINDS = 20  # prices of a plan that `show` prints
_SHOWN = 50  # charges that `show` prints; the older ones are counted


@contextlib.contextmanager
def _readable(path: str | os.PathLike[str]) -> Iterator[tuple[sqlite3.Connection, int]]:
    """Open a copy of a ledger; yield it and its format. A row that is no ledger's is an error."""
    connection, found = snapshot(path)
    try:
        with contextlib.closing(connection):
            yield connection, found
    except UNREADABLE as error:
        raise LedgerError(f"The ledger {path} is damaged: a row of it cannot be read.") from error


def _statement(
    connection: sqlite3.Connection, last: int | None = None, before: int | None = None
) -> Statement:
    contents = Contents.read(connection, last, before)
    accountant = accountant_of(contents.terms)
    plain = Amount()
    if accountant.stateful:
        rows = connection.execute("SELECT components, COUNT(*) FROM charges GROUP BY components")
        plain = plain_sum(accountant, dict(rows.fetchall()))
    return Statement.of(contents, plain)


def _pair(loss: PrivacyLoss) -> str:
    return f"epsilon={loss.epsilon!r}, delta={loss.delta!r}"


def _charge_row(charge: Charge) -> list[object]:
    seeded = ", seeded" if charge.seeded else ""
    return [
        charge.number,
        charge.when.strftime("%Y-%m-%d %H:%M:%S"),
        charge.estimator,
        charge.epsilon,
        charge.delta,
        charge.mechanism + seeded,
        len(charge.releases),
        f"{charge.pid} on {charge.host}" if charge.host else str(charge.pid),
        charge.note,
    ]


def _plan_lines(terms: Terms, plans: Sequence[Plan]) -> list[str]:
    lines = []
    for plan in plans:
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

    Returns
    -------
    text : str

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
    with _readable(path) as (connection, _):
        return _table(connection, every, page)


def _table(connection: sqlite3.Connection, every: bool, page: int) -> str:
    count = Totals.read(connection).charges
    end = max(count + 1 - _SHOWN * (page - 1), 1)
    statement = _statement(connection) if every else _statement(connection, _SHOWN, end)
    plans = read_plans(connection, cost_of)
    (reserved,) = connection.execute("SELECT COUNT(*) FROM reservations").fetchone()
    contents, spent, left = statement.contents, statement.spent, statement.remaining
    terms, charges = contents.terms, contents.charges
    named = f", data set {contents.facts['dataset']}" if contents.facts["dataset"] else ""
    unit = "" if terms.unit is None else f", unit {terms.unit}"
    what = f"accountant {terms.accountant}, adjacency {terms.adjacency}{unit}{named}"
    lines = [
        f"budget epsilon={terms.epsilon!r}, delta={terms.delta!r}, {printable(what)}",
        f"spent {_pair(spent)}; remaining {_pair(left)}",
        "",
    ]
    if len(charges) < count and page == 1:
        lines.append(
            f"{count} charges, the last {len(charges)} of them (the others: --page, --all):"
        )
    elif len(charges) < count:
        lines.append(f"{count} charges, page {page} of {-(-count // _SHOWN)}, from the last:")
    if charges:
        head: tuple[str, ...] = (
            "#",
            "when (UTC)",
            "estimator",
            "epsilon",
            "delta",
            "noise",
            "releases",
            "process",
            "note",
        )
        lines += text_table(head, [_charge_row(charge) for charge in charges])
    elif not count:
        lines.append("Nothing was charged yet.")
    if contents.reservations:
        head = ("reserved (UTC)", "epsilon", "delta", "open", "note")
        rows = [
            [r.when.strftime("%Y-%m-%d %H:%M:%S"), r.epsilon, r.delta, r.open, r.note]
            for r in contents.reservations
        ]
        if len(rows) < reserved:
            lines += ["", f"{reserved} reservations, the last {len(rows)} of them:"]
        lines += ["", *text_table(head, rows)]
    if plans:
        lines += ["", *_plan_lines(statement.contents.terms, plans)]
    return "\n".join(lines) + "\n"


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
        A line for each check, and what a ledger cannot tell.
    """
    with _readable(path) as (connection, found):
        findings = verify(connection)
    sound = all(finding.level != "wrong" for finding in findings)
    lines = [f"{finding.level:5}  {finding.text}" for finding in findings]
    lines.append(f"note   the file has format {found}")
    lines += ["", "What no ledger can say:", *(f"- {text}" for text in UNKNOWABLE)]
    return sound, "\n".join(lines) + "\n"


def _cost_json(cost: Cost) -> list[dict[str, Any]]:
    return [
        {
            "times": times,
            "epsilon": single.epsilon,
            "delta": single.delta,
            "mu": single.mu,
            "separate_delta": single.separate_delta,
        }
        for single, times in cost.components
    ]


def _plan_json(plan: Plan) -> dict[str, Any]:
    return {
        "number": plan.number,
        "part": plan.part,
        "drawn": plan.drawn,
        "open": plan.open,
        "items": [
            {"kind": json.loads(kind), "times": times, "unused": unused}
            for kind, times, unused in plan.items
        ],
    }


def export_json(path: str | os.PathLike[str]) -> str:
    """Return the whole ledger as JSON, with the results of the checks.

    Parameters
    ----------
    path : str or os.PathLike
        Of the ledger.

    Returns
    -------
    text : str
    """
    with _readable(path) as (connection, found):
        return json.dumps(_whole(connection, found), indent=2) + "\n"


def _whole(connection: sqlite3.Connection, found: int) -> dict[str, Any]:
    findings, statement = verify(connection), _statement(connection)
    contents, terms = statement.contents, statement.contents.terms
    facts = {
        name: contents.facts[name]
        for name in ("id", "created", "skdp_version", "dataset", "n_rows", "backup_of")
    }
    return {
        "ledger": {**facts, "format": found, "exported_by": __version__},
        "terms": {
            "epsilon": terms.epsilon,
            "delta": terms.delta,
            "adjacency": terms.adjacency,
            "unit": terms.unit,
            "accountant": terms.accountant,
            "separate_delta": terms.separate_delta,
            "plans": terms.plans,
        },
        "spent": {"epsilon": statement.spent.epsilon, "delta": statement.spent.delta},
        "remaining": {"epsilon": statement.remaining.epsilon, "delta": statement.remaining.delta},
        "charges": [
            {
                "number": charge.number,
                "when": charge.when.isoformat(),
                "estimator": charge.estimator,
                "epsilon": charge.epsilon,
                "delta": charge.delta,
                "mechanism": charge.mechanism,
                "seeded": charge.seeded,
                "note": charge.note,
                "pid": charge.pid,
                "skdp_version": charge.skdp_version,
                "components": _cost_json(charge.cost),
                "releases": charge.releases,
            }
            for charge in contents.charges
        ],
        "reservations": [
            {
                "when": one.when.isoformat(),
                "epsilon": one.epsilon,
                "delta": one.delta,
                "note": one.note,
                "pid": one.pid,
                "open": one.open,
            }
            for one in contents.reservations
        ],
        "plans": [_plan_json(plan) for plan in contents.plans],
        "verified": [{"level": one.level, "text": one.text} for one in findings],
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
    with _readable(path) as (connection, _):
        statement = _statement(connection, SHOWN)
        contents = statement.contents
        body = budget_html(contents.terms, statement, contents.facts["dataset"], os.fspath(path))
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
    if is_url(path):
        opened(ledger_path(path, True)).backup(path_of(target))
        return
    with _readable(path) as (connection, _):
        Ledger.write_copy(connection, path_of(path), path_of(target))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m skdp.ledger", description="Inspect a ledger.")
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
        0; 1 if `verify` finds something wrong; 2 if the ledger cannot be read.
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
        else:
            backup(options.path, options.target)
    except (LedgerError, SealedBudgetError, ValueError, OSError, ImportError) as error:
        sys.stderr.write(f"{printable(error)}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    sys.stdout.write(text)
    return status


if __name__ == "__main__":
    sys.exit(main())
