"""Budgets, fits and certificates as HTML or text.

Every text that somebody could have chosen (names, notes, paths) is escaped. Colours come from the
notebook (``currentColor``), for light and dark themes; no information is in colour alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from html import escape
from typing import TYPE_CHECKING, Any

from skdp.budget.account import Account
from skdp.budget.operations import Known
from skdp.budget.reading import Statement, time_of_day
from skdp.budget.schema import Terms, Totals
from skdp.exceptions import LedgerError, SealedBudgetError
from skdp.loss.charge import Charge, Cost
from skdp.loss.conversions import Amount, attacker_sentence, loss_text, rounded_amount

if TYPE_CHECKING:
    from skdp.budget.budget import PrivacyBudget

SHOWN = 50  # charges in the table; older ones are counted

CHARGE_HEAD = ["#", "when (UTC)", "estimator", "epsilon", "delta", "noise", "releases", "note"]
_CERTIFICATE_HEAD = ("release", "mechanism", "sensitivity", "noise scale", "share")
_GDP = ("Gaussian allowance (mu squared)", "separate delta")
_LABELS = {
    "basic": ("epsilon", "delta"),
    "gdp": _GDP,
    "gdp_residue": _GDP,
    "pld": ("epsilon of the plans", "delta of the plans"),
    "zcdp": ("Gaussian allowance (rho)", "separate delta"),
}

# Two blues that keep a contrast of 3:1 or more against both white and near-black.
_SPENT = "background:#3b82c4"
_ASIDE = "background:repeating-linear-gradient(45deg,#3b82c4 0 3px,transparent 3px 7px)"


# --- tables ---------------------------------------------------------------------------------------


def _is_numeric(rows: Sequence[Sequence[object]], n_columns: int) -> list[bool]:
    """Return for each column whether it holds numbers, which stand to the right."""
    return [bool(rows) and isinstance(rows[0][i], int | float) for i in range(n_columns)]


def html_table(head: Sequence[str], rows: Sequence[Sequence[object]], caption: str = "") -> str:
    """Return a table as HTML, with all texts escaped."""
    right = _is_numeric(rows, len(head))

    def line(cells: Sequence[object], tag: str) -> str:
        return "".join(
            f'<{tag} style="text-align:{"right" if is_right else "left"};padding:2px 10px 2px 0">'
            f"{escape(str(cell))}</{tag[:2]}>"
            for cell, is_right in zip(cells, right, strict=True)
        )

    header = line(head, 'th scope="col"')
    title = f'<caption style="text-align:left;caption-side:top">{escape(caption)}</caption>'
    body = "".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
    return (
        f'<table style="border-collapse:collapse;margin-top:6px">{title if caption else ""}'
        f"<thead><tr>{header}</tr></thead><tbody>{body}</tbody></table>"
    )


def printable(cell: object) -> str:
    """Return a text on one line; control characters become escapes, so no terminal obeys them."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(cell))


def text_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Return the lines of a table."""
    texts = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *texts, strict=True)]
    right = _is_numeric(rows, len(head))

    def line(cells: Sequence[str]) -> str:
        parts = zip(cells, widths, right, strict=True)
        return "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in parts).rstrip()

    return [line(head), line(["-" * width for width in widths]), *(line(row) for row in texts)]


# --- a budget -------------------------------------------------------------------------------------


def _bar(label: str, spent: Fraction, aside: Fraction, cap: Fraction) -> str:
    """Return one bar, with its text for screen readers."""
    spent_share, aside_share = (
        float(max(min(part / cap, Fraction(1)), Fraction(0))) * 100 for part in (spent, aside)
    )
    words = f"{label}: {spent_share:.3g}% spent"
    if aside_share:
        words += f", {aside_share:.3g}% set aside"
    words += f", {max(100 - spent_share - aside_share, 0):.3g}% left"
    segments = "".join(
        f'<div style="width:{width:.2f}%;height:100%;{style}"></div>'
        for width, style in ((spent_share, _SPENT), (aside_share, _ASIDE))
        if width
    )
    return (
        f'<div style="margin:4px 0">{escape(words)}'
        f'<div role="img" aria-label="{escape(words)}" style="display:flex;height:12px;'
        'max-width:420px;border:1px solid currentColor;border-radius:3px;overflow:hidden">'
        f"{segments}</div></div>"
    )


def _bars(terms: Terms, totals: Totals, cap: Amount) -> str:
    return "".join(
        _bar(label, getattr(totals.charged, part), getattr(totals.aside, part), getattr(cap, part))
        for label, part in zip(_LABELS[terms.accountant], ("main", "separate"), strict=True)
        if getattr(cap, part) > 0
    )


def charge_cells(charge: Charge) -> list[object]:
    """Return the cells of a charge under `CHARGE_HEAD`."""
    return [
        charge.number,
        charge.when.strftime("%Y-%m-%d %H:%M:%S"),
        charge.estimator,
        rounded_amount(charge.epsilon),
        rounded_amount(charge.delta),
        charge.mechanism + (", seeded" if charge.seeded else ""),
        len(charge.releases),
        charge.note,
    ]


def budget_html(
    terms: Terms, content: Statement | Known | str, dataset: str | None, ledger: str | None
) -> str:
    """Return the HTML view of a budget; `content` is a str where the ledger cannot be read."""
    title = (
        f"<div><strong>PrivacyBudget</strong> {loss_text(terms)}, "
        f"accountant {escape(terms.accountant)}, "
        f"adjacency {escape(terms.adjacency)}, unit {escape(terms.unit or 'one row')}"
        + (f", data set {escape(dataset)}" if dataset else "")
        + (f", ledger {escape(ledger)}" if ledger else "")
        + "</div>"
    )
    if isinstance(content, str):
        body = f"<div>{escape(content)}</div>"
    else:
        body = _last_seen(terms, content) if isinstance(content, Known) else _body(terms, content)
    return f'<div style="font-family:inherit;color:inherit;line-height:1.4">{title}{body}</div>'


def _last_seen(terms: Terms, known: Known) -> str:
    account = Account(terms)
    remaining, count = account.remaining_at(known), known.totals.charges
    words = (
        f"<div>remaining: {loss_text(remaining, up=False)}, after {count} "
        f"charge{'s' if count != 1 else ''}, as of {time_of_day(known.when)}</div>"
    )
    more = "<div>The server was not asked again: budget.remaining and budget.charges ask it.</div>"
    return words + _bars(terms, known.totals, account.accountant.cap) + more


def _body(terms: Terms, statement: Statement) -> str:
    spent, remaining = statement.spent, statement.remaining
    meaning = attacker_sentence(spent.epsilon, spent.delta, terms.adjacency, terms.unit)
    words = (
        f"<div>spent: {loss_text(spent)}; remaining: {loss_text(remaining, up=False)}</div>"
        f"<div>{escape(meaning)}</div>"
    )
    bars = _bars(terms, statement.totals, statement.accountant.cap)
    charges, count = statement.charges[-SHOWN:], statement.totals.charges
    caption = f"{count} charge" + ("s" if count > 1 else "")
    if count > len(charges):
        caption += f", the last {len(charges)} of them"
    table = html_table(CHARGE_HEAD, [charge_cells(charge) for charge in charges], caption)
    table = table if count else "<div>Nothing was charged yet.</div>"
    notes = dict.fromkeys(entry.note for entry in statement.reservations[-SHOWN:] if entry.note)
    remarks = "".join(f"<div>Reservation: {escape(note)}</div>" for note in notes)
    return words + bars + table + remarks


# --- a fit and its certificate --------------------------------------------------------------------


def fit_html(cost: Cost | None, budget: PrivacyBudget | None, released: str) -> str:
    """Return the price of a fit (None: no release), its budget, and its certificate `released`."""
    head = '<details open style="line-height:1.4"><summary>Privacy</summary>'
    if cost is None:
        return f"{head}<div>A fit releases nothing, and costs nothing.</div>{released}</details>"
    relation, unit = ("replace_one", None) if budget is None else (budget.adjacency, budget.unit)
    words = [f"A fit costs {loss_text(cost)}."]
    if not released:  # a certificate says so itself
        words.append(attacker_sentence(cost.epsilon, cost.delta, relation, unit))
    if budget is None:
        words.append("No budget counts it: budget=PrivacyBudget(...) would.")
    else:
        try:
            remaining, when = budget._remaining_shown()  # no server is asked for this
            words.append(
                f"Its budget of {loss_text(budget)} has {loss_text(remaining, up=False)} "
                f"left{when}."
            )
        except (LedgerError, SealedBudgetError):
            words.append("The ledger of its budget cannot be read.")
    text = "".join(f"<div>{escape(sentence)}</div>" for sentence in words)
    return f"{head}{text}{released}</details>"


def grouped_releases(releases: Sequence[Any]) -> list[tuple[str, ...]]:
    """Return the releases as rows; those that differ only in a number of their name share a row."""
    alike: dict[tuple[str, ...], list[Any]] = {}
    for r in releases:
        shown = (
            re.sub(r"\d+", "#", r.name),
            "" if r.reviewed else f" (unreviewed query {r.query})",
            r.mechanism,
            f"{r.sensitivity:.4g} ({r.norm})",
            f"{r.scale:.4g}",
            "delta" if r.delta else "",
        )
        alike.setdefault(shown, []).append(r)
    rows = []
    for (_, unreviewed, *cells, takes_delta), records in alike.items():
        names = list(dict.fromkeys(r.name for r in records))
        name = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
        times = f"{len(records)} × " if len(records) > 1 else ""
        share, delta = sum(r.share for r in records), sum(r.delta for r in records)
        # A release may take both: keys take a share of the noise's allowance, and a delta.
        parts = [f"{share:.1%}"] if share or not takes_delta else []
        parts += [f"delta {rounded_amount(delta, 4):g}"] if takes_delta else []
        rows.append((f"{times}{name}{unreviewed}", *cells, ", ".join(parts)))
    return rows


def _claim(certificate: Any) -> list[str]:
    """Return the guarantee of a fit, and what it means."""
    charged = "yes" if certificate.charged else "no: no budget counts this fit"
    max_rows = certificate.max_rows_per_unit
    rows = "" if max_rows is None else f" ({max_rows:,} of its rows at most)"
    seeded = " Seeded: the noise can be reproduced." if certificate.seeded else ""
    unit = None if certificate.unit == "row" else certificate.unit
    epsilon, delta, adjacency = certificate.epsilon, certificate.delta, certificate.adjacency
    shown = f"({rounded_amount(epsilon):g}, {rounded_amount(delta):g})"
    claim = (
        f"{certificate.estimator}: {shown}-differentially private for one "
        f"{certificate.unit}{rows}, relation {adjacency}; charged: {charged}. "
        f"skdp {certificate.skdp_version}.{seeded}"
    )
    return [claim, attacker_sentence(epsilon, delta, adjacency, unit)]


def certificate_html(certificate: Any) -> str:
    """Return a certificate as HTML for notebooks."""
    table = html_table(_CERTIFICATE_HEAD, grouped_releases(certificate.releases))
    return f"<div><p>{escape(' '.join(_claim(certificate)))}</p>{table}</div>"


def certificate_text(certificate: Any) -> str:
    """Return a certificate as text for terminals and files."""
    table = text_table(_CERTIFICATE_HEAD, grouped_releases(certificate.releases))
    lines = [*_claim(certificate), "", *table]
    queries = sorted({r.query for r in certificate.releases if r.query})
    if queries:
        lines += ["", f"answered by: {', '.join(queries)} (the module of each names its proof)"]
    return "\n".join(lines)
