"""The notebook view of a budget: bars of what is spent and a table of the charges.

Nothing is released here: the view shows the ledger, which holds no data. Every text that somebody
could have chosen (names, notes, paths) is escaped. Colours come from the notebook: text is
``currentColor``, so light and dark themes both work, and no information is in colour alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from html import escape
from typing import TYPE_CHECKING, Any

from skdp.budget.account import Account
from skdp.budget.operations import Known
from skdp.budget.reading import remaining_shown, time_of_day
from skdp.budget.schema import Terms, Totals
from skdp.budget.statement import Statement
from skdp.exceptions import LedgerError, SealedBudgetError
from skdp.loss.amounts import Amount
from skdp.loss.charge import Charge, Cost
from skdp.loss.meaning import attacker_sentence

if TYPE_CHECKING:
    from skdp.budget.budget import PrivacyBudget

__all__ = [
    "SHOWN",
    "budget_html",
    "certificate_html",
    "certificate_text",
    "fit_html",
    "grouped_releases",
    "printable",
    "text_table",
]

SHOWN = 50  # charges in the table; older ones are counted

_LABELS = {
    "basic": ("epsilon", "delta"),
    "gdp": ("Gaussian allowance (mu squared)", "separate delta"),
    "gdp_residue": ("Gaussian allowance (mu squared)", "separate delta"),
    "pld": ("epsilon of the plans", "delta of the plans"),
    "zcdp": ("Gaussian allowance (rho)", "separate delta"),
}

# Two blues that keep a contrast of 3:1 or more against both white and near-black.
_SPENT = "background:#3b82c4"
_ASIDE = "background:repeating-linear-gradient(45deg,#3b82c4 0 3px,transparent 3px 7px)"


def _cell(text: object, tag: str = "td", align: str = "left") -> str:
    scope = ' scope="col"' if tag == "th" else ""
    style = f"text-align:{align};padding:2px 10px 2px 0"
    return f'<{tag}{scope} style="{style}">{escape(str(text))}</{tag}>'


def _percent(part: Fraction, whole: Fraction) -> float:
    return float(max(min(part / whole, Fraction(1)), Fraction(0))) * 100


def _bar(label: str, spent: Fraction, aside: Fraction, cap: Fraction) -> str:
    """One bar; a screen reader hears its text."""
    one, two = _percent(spent, cap), _percent(aside, cap)
    words = f"{label}: {one:.3g}% spent"
    if two:
        words += f", {two:.3g}% set aside"
    words += f", {max(100 - one - two, 0):.3g}% left"
    segments = "".join(
        f'<div style="width:{width:.2f}%;height:100%;{style}"></div>'
        for width, style in ((one, _SPENT), (two, _ASIDE))
        if width
    )
    return (
        f'<div style="margin:4px 0">{escape(words)}'
        f'<div role="img" aria-label="{escape(words)}" style="display:flex;height:12px;'
        'max-width:420px;border:1px solid currentColor;border-radius:3px;overflow:hidden">'
        f"{segments}</div></div>"
    )


def _row(number: int, charge: Charge) -> str:
    kind = charge.mechanism + (", seeded" if charge.seeded else "")
    return (
        "<tr>"
        + _cell(number, align="right")
        + _cell(charge.when.strftime("%Y-%m-%d %H:%M:%S"))
        + _cell(charge.estimator)
        + _cell(repr(charge.epsilon), align="right")
        + _cell(repr(charge.delta), align="right")
        + _cell(kind)
        + _cell(len(charge.releases), align="right")
        + _cell(charge.note)
        + "</tr>"
    )


def _table(charges: Sequence[Charge], count: int) -> str:
    """Return the table of the last of so many charges."""
    if not count:
        return "<div>Nothing was charged yet.</div>"
    charges = charges[-SHOWN:]
    first = count - len(charges)
    caption = f"{count} charge" + ("s" if count > 1 else "")
    if first:
        caption += f", the last {len(charges)} of them"
    head = "".join(
        _cell(name, "th", align)
        for name, align in (
            ("#", "right"),
            ("when (UTC)", "left"),
            ("estimator", "left"),
            ("epsilon", "right"),
            ("delta", "right"),
            ("noise", "left"),
            ("releases", "right"),
            ("note", "left"),
        )
    )
    rows = "".join(_row(first + i + 1, charge) for i, charge in enumerate(charges))
    return (
        '<table style="border-collapse:collapse;margin-top:6px">'
        f'<caption style="text-align:left;caption-side:top">{escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    )


def budget_html(
    terms: Terms, found: Statement | Known | str, dataset: str | None, ledger: str | None
) -> str:
    """Return the HTML view of a budget; where the ledger cannot be read, the view says so.

    Parameters
    ----------
    terms : Terms
        Of the budget.
    found : Statement, Known or str
        What its ledger says, what a server's ledger said last, or why that cannot be read.
    dataset, ledger : str or None
        The name of the table, and the path of the ledger.

    Returns
    -------
    html : str
        A self-contained fragment without scripts or links.
    """
    title = (
        f"<div><strong>PrivacyBudget</strong> epsilon={terms.epsilon!r}, "
        f"delta={terms.delta!r}, accountant {escape(terms.accountant)}, "
        f"adjacency {escape(terms.adjacency)}, unit {escape(terms.unit or 'one row')}"
        + (f", data set {escape(dataset)}" if dataset else "")
        + (f", ledger {escape(ledger)}" if ledger else "")
        + "</div>"
    )
    if isinstance(found, str):
        body = f"<div>{escape(found)}</div>"
    else:
        body = _last_seen(terms, found) if isinstance(found, Known) else _body(terms, found)
    return f'<div style="font-family:inherit;color:inherit;line-height:1.4">{title}{body}</div>'


def _bars(terms: Terms, totals: Totals, cap: Amount) -> str:
    return "".join(
        _bar(label, getattr(totals.charged, part), getattr(totals.aside, part), getattr(cap, part))
        for label, part in zip(_LABELS[terms.accountant], ("main", "apart"), strict=True)
        if getattr(cap, part) > 0
    )


def _last_seen(terms: Terms, known: Known) -> str:
    """Return what this process saw last of a ledger on a server, which is not asked again."""
    account = Account(terms)
    left, count = account.remaining_at(known), known.totals.charges
    words = (
        f"<div>remaining: epsilon={left.epsilon!r}, delta={left.delta!r}, after {count} "
        f"charge{'s' if count != 1 else ''}, as of {time_of_day(known.when)}</div>"
    )
    more = "<div>The server was not asked again: budget.remaining and budget.charges ask it.</div>"
    return words + _bars(terms, known.totals, account.accountant.cap) + more


def _body(terms: Terms, found: Statement) -> str:
    spent, left = found.spent, found.remaining
    totals = found.contents.totals
    bars = _bars(terms, totals, found.accountant.cap)
    meaning = attacker_sentence(spent.epsilon, spent.delta, terms.adjacency, terms.unit)
    words = (
        f"<div>spent: epsilon={spent.epsilon!r}, delta={spent.delta!r}; "
        f"remaining: epsilon={left.epsilon!r}, delta={left.delta!r}</div>"
        f"<div>{escape(meaning)}</div>"
    )
    notes = dict.fromkeys(one.note for one in found.contents.reservations[-SHOWN:] if one.note)
    remarks = "".join(f"<div>Reservation: {escape(note)}</div>" for note in notes)
    return words + bars + _table(found.contents.charges, totals.charges) + remarks


def fit_html(cost: Cost | None, budget: PrivacyBudget | None, released: str) -> str:
    """Return what a fit costs, who counts it and what it has released, as HTML.

    Parameters
    ----------
    cost : Cost or None
        Of one fit; None where it releases nothing.
    budget : PrivacyBudget or None
        Its ledger is read.
    released : str
        The HTML of a certificate; empty before a fit.
    """
    head = '<details open style="line-height:1.4"><summary>Privacy</summary>'
    if cost is None:
        return f"{head}<div>A fit releases nothing, and costs nothing.</div>{released}</details>"
    relation = "replace_one" if budget is None else budget.adjacency
    unit = None if budget is None else budget.unit
    meaning = attacker_sentence(cost.epsilon, cost.delta, relation, unit)
    words = [f"A fit costs epsilon={cost.epsilon!r}, delta={cost.delta!r}."]
    words += [] if released else [meaning]  # a certificate says so itself
    if budget is None:
        words.append("No budget counts it: budget=PrivacyBudget(...) would.")
    else:
        try:
            left, when = remaining_shown(budget)  # no server is asked for this
            words.append(
                f"Its budget has epsilon={left.epsilon!r} of {budget.epsilon!r} left, "
                f"delta={left.delta!r} of {budget.delta!r}{when}."
            )
        except (LedgerError, SealedBudgetError):
            words.append("The ledger of its budget cannot be read.")
    text = "".join(f"<div>{escape(one)}</div>" for one in words)
    return f"{head}{text}{released}</details>"


def grouped_releases(releases: Sequence[Any]) -> list[tuple[str, ...]]:
    """Return the releases as rows of text; those that differ in a number of their name are one.

    Each is (what, mechanism, sensitivity, noise scale, share), the share that of all of them; with
    the delta that they took apart from it, if any.
    """
    alike: dict[tuple[str, ...], list[Any]] = {}
    for r in releases:
        shown = (
            re.sub(r"\d+", "#", r.name),
            "" if r.reviewed else f" (unreviewed query {r.query})",
            r.mechanism,
            f"{r.sensitivity:.4g} ({r.norm})",
            f"{r.scale:.4g}",
            "delta" if r.delta else "share",
        )
        alike.setdefault(shown, []).append(r)
    rows = []
    for (_, unreviewed, *cells, kind), records in alike.items():
        names = list(dict.fromkeys(r.name for r in records))
        name = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
        times = f"{len(records)} × " if len(records) > 1 else ""
        share, delta = sum(r.share for r in records), sum(r.delta for r in records)
        # A release may take both: keys take a share of the noise's allowance, and a delta.
        parts = [f"{share:.1%}"] if share or kind == "share" else []
        parts += [f"delta {delta:.4g}"] if kind == "delta" else []
        rows.append((f"{times}{name}{unreviewed}", *cells, ", ".join(parts)))
    return rows


def _claim(certificate: Any) -> str:
    """Return which guarantee a fit has."""
    charged = "yes" if certificate.charged else "no: no budget counts this fit"
    most = certificate.max_rows_per_unit
    each = "" if most is None else f" ({most:,} of its rows at most)"
    seeded = " Seeded: the noise can be reproduced." if certificate.seeded else ""
    return (
        f"{certificate.estimator}: ({certificate.epsilon:g}, {certificate.delta:g})-differentially "
        f"private for one {certificate.unit}{each}, relation {certificate.adjacency}; "
        f"charged: {charged}. skdp {certificate.skdp_version}.{seeded}"
    )


def _meaning(certificate: Any) -> str:
    """Return what the guarantee means."""
    unit = None if certificate.unit == "row" else certificate.unit
    return attacker_sentence(certificate.epsilon, certificate.delta, certificate.adjacency, unit)


def certificate_html(certificate: Any) -> str:
    """Return what a fit has released as a table for notebooks."""
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
        for cells in grouped_releases(certificate.releases)
    )
    return (
        f"<div><p>{escape(_claim(certificate))} {escape(_meaning(certificate))}</p>"
        "<table><thead><tr><th>release</th><th>mechanism</th><th>sensitivity</th>"
        f"<th>noise scale</th><th>share</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )


# --- as text --------------------------------------------------------------------------------------


def printable(cell: object) -> str:
    """Return a text on one line; what a terminal would obey is shown as an escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(cell))


def text_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Return the lines of a table; numbers stand to the right."""
    texts = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [list(head), *texts]) for i in range(len(head))]
    right = [bool(rows) and isinstance(rows[0][i], int | float) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        parts = zip(cells, widths, right, strict=True)
        return "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in parts).rstrip()

    return [line(head), line(["-" * width for width in widths]), *(line(row) for row in texts)]


def certificate_text(certificate: Any) -> str:
    """Return what a fit has released as a text for terminals and files."""
    head = ("release", "mechanism", "sensitivity", "noise scale", "share")
    lines = [_claim(certificate), _meaning(certificate), ""]
    lines += text_table(head, grouped_releases(certificate.releases))
    queries = sorted({r.query for r in certificate.releases if r.query})
    if queries:
        lines += ["", f"answered by: {', '.join(queries)} (the module of each names its proof)"]
    return "\n".join(lines)
