"""A report for who signs: a budget, its charges and what it promises, as one page and as JSON.

All of it comes from the ledger, and from certificates and fitted estimators that the caller hands
in. It names estimators, columns and mechanisms; values of keys and categories it only counts.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from skdp._version import __version__
from skdp.budget.reports.html import grouped_releases, html_table
from skdp.budget.schema import check_columns, check_tables
from skdp.budget.urls import without_literals
from skdp.budget.verification import UNKNOWABLE, rows_of, verify
from skdp.loss.charge import PrivacyLoss
from skdp.loss.conversions import attacker_sentence, loss_text, rounded_amount

if TYPE_CHECKING:
    from skdp.budget.budget import PrivacyBudget
    from skdp.loss.charge import Charge

__all__ = ["charges_frame", "write_report"]

_ROW = (
    "One row of the table is protected. A person with several rows is not protected as a whole: "
    "what all their rows say together may show."
)
_UNIT = "Each {unit} is protected as a whole: all rows of one {unit} together."
_REPLACE = (
    "Two tables are compared that differ in what one {unit} says. The number of {unit}s is public."
)
_REMOVE = "Two tables are compared: one has one {unit} more than the other."
_FACTOR = (
    "No result, and no set of results, is more than {factor} times as likely with one of them as "
    "with the other{more}."
)
_RELEASES = ("release", "mechanism", "sensitivity", "noise scale", "share")
# What queries of these types learn; a release names the type that answered.
_LEARNED = {
    "LearnedBounds": "bounds",
    "SelectKeys": "keys, categories or classes",
    "CountedKeys": "keys or categories",
    "RowsPerUnit": "rows of a unit that count",
    "UnitShapes": "keys and rows of a unit that count",
}
_GRANT = "PrivacyBudget.parallel"  # a charge for disjoint parts, each with a ledger of its own
_DELTAS = tuple(10.0**-k for k in range(12, 1, -1))

_STYLE = """
body{font:15px/1.45 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;
color:#1a1a1a;background:#fff}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem;border-bottom:1px solid #999}
h3{font-size:1rem;margin-bottom:.2rem}table{font-size:.85rem}td,th{vertical-align:top}
section{overflow-x:auto}.promise{border-left:4px solid #3b82c4;padding-left:1rem}
.wrong{color:#a40000;font-weight:bold}dt{float:left;clear:left;width:11rem;color:#555}
.sign span{display:inline-block;width:16rem;margin:3rem 2rem 0 0;border-top:1px solid}
@media print{body{max-width:none;margin:0}h2,h3{break-after:avoid}tr,.sign{break-inside:avoid}}
"""


# --- what is handed in ----------------------------------------------------------------------------


def _fits_of(name: str, fitted: Any, columns: Any = None) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield (step, certificate, estimator or None, columns) of a certificate, answer or estimator.

    `columns` are the names that steps before give to arrays, or None.
    """
    columns = getattr(fitted, "feature_names_in_", columns)
    if isinstance(fitted, Mapping):
        for key, value in fitted.items():
            yield from _fits_of(f"{name}{key}", value)
        return
    if isinstance(fitted, list | tuple):
        for entry in fitted:
            yield from _fits_of(name, entry)
        return
    if hasattr(fitted, "releases"):
        yield name, fitted, None, None
        return
    own = getattr(fitted, "privacy_", None) or getattr(fitted, "privacy", None)
    if own is not None:
        described = isinstance(getattr(fitted, "bounds", None), Mapping)
        estimator = fitted if hasattr(fitted, "privacy_") or described else None
        for certificate in own if isinstance(own, tuple) else (own,):
            yield name, certificate, estimator, columns
        return
    prefix = f"{name}." if name else ""
    steps = getattr(fitted, "steps", None) or getattr(fitted, "transformers_", None)
    if steps is None and getattr(fitted, "best_estimator_", None) is not None:
        steps = [("best_estimator", fitted.best_estimator_)]
    if steps is None:
        raise TypeError(
            "certificates must be certificates, answers or fitted estimators with privacy_, got "
            f"{type(fitted).__name__}"
        )
    for i, step in enumerate(steps):
        part, names = step[1], _names_behind(fitted, i, columns) if i else columns
        if part is None or isinstance(part, str) or not hasattr(part, "__dict__"):
            continue
        try:
            yield from _fits_of(f"{prefix}{step[0]}", part, names)
        except TypeError:
            yield f"{prefix}{step[0]}", None, part, None  # a step without privacy


def _names_behind(fitted: Any, i: int, columns: Any) -> list[str] | None:
    """Return the names of what step i of a pipeline gets: of columns, or else positions.

    An encoder's names hold categories, which a report does not show.
    """
    if columns is None:
        return None
    try:
        names = [str(name).rpartition("__")[2] for name in fitted[:i].get_feature_names_out()]
    except (AttributeError, TypeError, ValueError):  # a step without names, or no pipeline
        return None
    return [name if name in columns else str(j) for j, name in enumerate(names)]


def _plain_range(estimator: Any, columns: Any) -> dict[str, list[float]] | None:
    """Return the bounds that an estimator has clipped to, by column."""
    bounds = getattr(estimator, "bounds_", None)
    if isinstance(known := getattr(estimator, "bounds", None), Mapping) and bounds is None:
        return {str(name): [float(low), float(high)] for name, (low, high) in known.items()}
    try:
        low, high = ([float(v) for v in side] for side in bounds)  # type: ignore[union-attr]
    except (TypeError, ValueError):
        return None
    names = range(len(low)) if columns is None or len(columns) != len(low) else columns
    return {str(n): [a, b] for n, a, b in zip(names, low, high, strict=True)}


def _fit_facts(
    step: str, certificate: Any, estimator: Any, columns: Any, numbers: dict[str, list[Charge]]
) -> Any:
    if certificate is None:
        return {"step": step, "estimator": type(estimator).__name__, "private": False}
    facts = {"step": step, "private": True, **certificate.to_dict()}
    places = numbers.get(_key(certificate.estimator, facts["releases"]), [])
    # A certificate has no number: of equal fits the first charge is that of the first certificate.
    charge = places.pop(0) if certificate.charged and places else None
    facts["charge"] = charge and charge.number
    if charge:  # a ledger quotes no literals of a query
        facts["releases"] = list(charge.releases)
    queries = " ".join(release.get("query", "") for release in facts["releases"])
    facts["learned"] = [what for name, what in _LEARNED.items() if f".{name}" in queries]
    facts["releases"] = [_without_quotes(release) for release in facts["releases"]]
    if estimator is None:
        return facts
    if columns is not None and len(columns) != getattr(estimator, "n_features_in_", len(columns)):
        columns = None
    facts["columns"] = None if columns is None else [str(name) for name in columns]
    facts["bounds"] = _plain_range(estimator, columns)
    classes = getattr(estimator, "classes_", None)
    facts["n_classes"] = None if classes is None else len(classes)
    return facts


def _without_quotes(release: Mapping[str, Any]) -> dict[str, Any]:
    """Return a release without texts in quotes in its name: a query's text may name people."""
    return {**release, "name": re.sub(r"'[^']*'", "'...'", str(release.get("name", "")))}


def _key(estimator: str, releases: Any) -> str:
    """Return a text that a charge and the certificate of the same fit have in common."""
    named = [{**one, "name": without_literals(str(one.get("name", "")))} for one in releases]
    return json.dumps([estimator, named], sort_keys=True, default=str)


# --- facts ----------------------------------------------------------------------------------------


def _up(x: float) -> str:
    """Return a number with three digits, rounded up."""
    shown = rounded_amount(x, 3)
    return f"{shown:,.0f}" if shown >= 1000.0 else f"{shown:g}"


def promise_of(budget: PrivacyBudget, epsilon: float, delta: float) -> list[str]:
    """Return what an (epsilon, delta) of this budget promises, sentence by sentence."""
    unit = budget.unit or "row"
    first = _ROW if budget.unit is None else _UNIT.format(unit=unit)
    relation = _REPLACE if budget.adjacency == "replace_one" else _REMOVE
    sentences = [first, relation.format(unit=unit)]
    if epsilon < 20.0:
        more = f", and a chance of {_up(delta)} on top of that" if delta else ""
        sentences.append(_FACTOR.format(factor=_up(math.exp(epsilon)), more=more))
    meaning = attacker_sentence(epsilon, delta, budget.adjacency, budget.unit)
    return sentences + [meaning] * bool(meaning)


def _remarks(charges: Sequence[Charge], fits: Sequence[Any]) -> list[str]:
    """Return what a reader must know besides."""

    def some(chosen: Sequence[Charge]) -> str:
        more = f" and {len(chosen) - 10} more" if len(chosen) > 10 else ""
        return ", ".join(f"#{charge.number} {charge.estimator}" for charge in chosen[:10]) + more

    remarks = []
    if seeded := [charge for charge in charges if charge.seeded]:
        remarks.append(f"Noise from a seed, which whoever knows it can remove: {some(seeded)}.")
    unreviewed = [
        c for c in charges if any(not release.get("reviewed", True) for release in c.releases)
    ]
    if unreviewed:
        remarks.append(
            f"Queries by others, who vouch for what a row may move in them: {some(unreviewed)}."
        )
    grants = [charge for charge in charges if charge.estimator == _GRANT]
    if grants:
        remarks.append(
            f"Paid for disjoint parts of the table: {some(grants)}. Fits on a part are in a ledger "
            "of its own, and within this charge."
        )
    if silent := [c for c in charges if not c.releases and c.estimator != _GRANT]:
        remarks.append(f"No release is listed (the fit failed, or still runs): {some(silent)}.")
    uncounted = [f for f in fits if f["private"] and f["charge"] is None and f["epsilon"] > 0]
    if uncounted:
        names = ", ".join(f["step"] or f["estimator"] for f in uncounted[:10])
        remarks.append(
            "Not among the charges of this ledger, so the total above does not count them"
            + (", unless they were fitted on parts that it paid for" if grants else "")
            + f": {names}."
        )
    if open_ones := [f for f in fits if not f["private"]]:
        names = ", ".join(f"{f['step']} ({f['estimator']})" for f in open_ones[:10])
        remarks.append(f"Steps without a certificate; they must not depend on the rows: {names}.")
    return remarks


def report_facts(budget: PrivacyBudget, certificates: Any) -> dict[str, Any]:
    """Return everything that a report says, as plain types."""
    charges = budget.charges
    numbers: dict[str, list[Charge]] = {}
    for c in charges:
        numbers.setdefault(_key(c.estimator, c.releases), []).append(c)
    fits = [_fit_facts(*fit, numbers) for fit in _fits_of("", certificates)]
    steps = {fit["charge"]: fit["step"] for fit in fits if fit.get("charge")}
    named = rows_of(budget.ledger) if budget.ledger else contextlib.nullcontext()
    with contextlib.closing(budget._ledger.snapshot()) as copy, named:
        check_tables(copy)
        check_columns(copy)
        findings = verify(copy)
    spent, left = budget.spent, budget.remaining
    curve = [
        [delta, epsilon]
        for delta, epsilon in zip(_DELTAS, budget.curve(_DELTAS), strict=True)
        if math.isfinite(epsilon)
    ]
    return {
        "made": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "skdp_version": __version__,
        "dataset": budget.dataset,
        "unit": budget.unit or "row",
        "adjacency": budget.adjacency,
        "n_rows": list(budget.n_rows),
        "ledger": budget.ledger,
        "accountant": budget.accountant,
        "budget": {"epsilon": budget.epsilon, "delta": budget.delta},
        "spent": {"epsilon": spent.epsilon, "delta": spent.delta},
        "remaining": {"epsilon": left.epsilon, "delta": left.delta},
        "promise": promise_of(budget, budget.epsilon, budget.delta),
        "promise_so_far": promise_of(budget, spent.epsilon, spent.delta)[2:],
        "curve": curve,
        "charges": [
            {
                "number": c.number,
                "when": c.when.isoformat(timespec="seconds"),
                "step": steps.get(c.number, ""),
                "estimator": c.estimator,
                "note": c.note,
                "epsilon": c.epsilon,
                "delta": c.delta,
                "noise": c.mechanism,
                "seeded": c.seeded,
                "skdp_version": c.skdp_version,
                "releases": [_without_quotes(release) for release in c.releases],
            }
            for c in charges
        ],
        "fits": fits,
        "remarks": _remarks(charges, fits),
        "verified": [{"level": f.level, "text": f.text} for f in findings],
        "unknowable": list(UNKNOWABLE),
    }


# --- a page ---------------------------------------------------------------------------------------


def _curve_svg(curve: Sequence[Sequence[float]]) -> str:
    """Return a picture of epsilon over delta."""
    if len(curve) < 2:
        return ""
    x = [math.log10(delta) for delta, _ in curve]
    top = max(epsilon for _, epsilon in curve) or 1.0
    width = x[-1] - x[0]
    points = " ".join(
        f"{50 + 300 * (a - x[0]) / width:.1f},{110 - 90 * epsilon / top:.1f}"
        for a, (_, epsilon) in zip(x, curve, strict=True)
    )
    first, last = curve[0], curve[-1]
    ends = [f"{rounded_amount(e, 3):g} at delta {rounded_amount(d):g}" for d, e in (first, last)]
    words = "epsilon " + ", ".join(ends)
    if first[1] == last[1]:
        return f"<p>{escape(words)}</p>"
    return (
        f'<svg width="380" height="140" role="img" aria-label="{escape(words)}">'
        '<path d="M50 20V110H350" fill="none" stroke="#555"/>'
        f'<polyline points="{points}" fill="none" stroke="#3b82c4" stroke-width="2"/>'
        f'<text x="44" y="24" text-anchor="end" font-size="11">{top:.3g}</text>'
        '<text x="44" y="112" text-anchor="end" font-size="11">0</text>'
        f'<text x="50" y="126" font-size="11">delta {curve[0][0]:g}</text>'
        f'<text x="350" y="126" text-anchor="end" font-size="11">{curve[-1][0]:g}</text></svg>'
    )


def _release_table(releases: Sequence[Mapping[str, Any]]) -> str:
    records = []
    for release in releases:
        known = {"reviewed": True, "query": "", "delta": 0.0, "share": 0.0, **release}
        for name in ("sensitivity", "scale"):
            known[name] = math.inf if known.get(name) is None else known[name]
        records.append(SimpleNamespace(**{"norm": "", "mechanism": "", "name": "", **known}))
    return html_table(_RELEASES, grouped_releases(records)) if records else ""


def _list(sentences: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(s)}</li>' for s in sentences)}</ul>"


def _fit_text(fit: Mapping[str, Any]) -> str:
    name = f"{fit['step']}: {fit['estimator']}" if fit["step"] else fit["estimator"]
    if not fit["private"]:
        return f"<h3>{escape(name)}</h3><p>has no certificate</p>"
    price = loss_text(PrivacyLoss(fit["epsilon"], fit["delta"]))
    lines = [f"{price} for one {fit['unit']}, relation {fit['adjacency']}"]
    counted = fit["charge"]
    lines.append("charge #" + str(counted) if counted else "not among the charges of this ledger")
    if fit.get("max_rows_per_unit") is not None:
        lines.append(f"at most {fit['max_rows_per_unit']:,} rows of one {fit['unit']} were used")
    if fit.get("columns"):
        lines.append(f"columns: {', '.join(fit['columns'])}")
    if fit.get("learned"):
        lines.append(f"learned at a price: {', '.join(fit['learned'])}")
    if fit.get("n_classes"):
        lines.append(f"{fit['n_classes']} classes")
    if fit.get("bounds"):
        ends = [f"{c} {a:.6g} to {b:.6g}" for c, (a, b) in list(fit["bounds"].items())[:50]]
        lines.append(f"values beyond these count as the nearest: {'; '.join(ends)}")
    return f"<h3>{escape(name)}</h3>{_list(lines)}{_release_table(fit['releases'])}"


def report_page(facts: Mapping[str, Any]) -> str:
    """Return a report as a page without scripts or links."""
    unit = facts["unit"]
    spent, whole, left = (facts[name] for name in ("spent", "budget", "remaining"))
    entries = {
        "data set": facts["dataset"] or "not named",
        "protected unit": unit,
        "relation": facts["adjacency"],
        "rows, if public": ", ".join(f"{n:,}" for n in facts["n_rows"]) or "not stated",
        "ledger": facts["ledger"] or "in memory",
        "accountant": facts["accountant"],
        "budget": loss_text(PrivacyLoss(**whole)),
        "spent": loss_text(PrivacyLoss(**spent)),
        "left": loss_text(PrivacyLoss(**left), up=False),
        "report made": f"{facts['made']}, by skdp {facts['skdp_version']}",
    }
    details = "".join(f"<dt>{escape(k)}</dt><dd>{escape(str(v))}</dd>" for k, v in entries.items())
    head = ("#", "when (UTC)", "step", "estimator", "epsilon", "delta", "noise", "note")
    charges = [
        (
            c["number"], c["when"][:19].replace("T", " "), c["step"], c["estimator"],
            rounded_amount(c["epsilon"]), rounded_amount(c["delta"]),
            c["noise"] + (", seeded" if c["seeded"] else ""), c["note"],
        )
        for c in facts["charges"]
    ]  # fmt: skip
    described = {fit.get("charge") for fit in facts["fits"]}
    each = "".join(
        f"<h3>#{c['number']} {escape(c['step'] or c['estimator'])}</h3>"
        f"{_release_table(c['releases'])}"
        for c in facts["charges"]
        if c["number"] not in described
    )
    sound = not any(f["level"] == "wrong" for f in facts["verified"])
    verdict = "The ledger is sound." if sound else "The ledger is NOT sound."
    findings = "".join(
        f'<li class="{escape(f["level"])}">{escape(f["level"])}: {escape(f["text"])}</li>'
        for f in facts["verified"]
    )
    parts = [
        "<h1>Privacy report</h1>",
        f"<dl>{details}</dl>",
        "<h2>What is promised</h2><div class='promise'>"
        + "".join(f"<p>{escape(s)}</p>" for s in facts["promise"])
        + "</div>",
    ]
    if facts["promise_so_far"]:
        so_far = " ".join(facts["promise_so_far"])
        parts.append(f"<p>So far, of what is spent: {escape(so_far)}</p>")
    if facts["remarks"]:
        parts.append(f"<h2>To know before you sign</h2>{_list(facts['remarks'])}")
    parts += [
        f"<h2>Charges</h2>{html_table(head, charges) if charges else '<p>none</p>'}",
        "<h2>How they add up</h2><p>Epsilon of all charges together, at each delta.</p>"
        + _curve_svg(facts["curve"]),
    ]
    if facts["fits"]:
        parts.append(f"<h2>Fits</h2>{''.join(map(_fit_text, facts['fits']))}")
    if each:
        parts.append(f"<h2>{'Other charges' if described else 'What was released'}</h2>{each}")
    parts += [
        f"<h2>Checks of the ledger</h2><p><b>{verdict}</b></p><ul>{findings}</ul>",
        f"<h2>What no ledger can say</h2>{_list(facts['unknowable'])}",
        "<div class='sign'><span>date</span><span>name</span><span>signature</span></div>",
    ]
    body = "".join(f"<section>{part}</section>" for part in parts)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>Privacy report</title>'
        f"<style>{_STYLE}</style></head><body>{body}</body></html>\n"
    )


def write_report(budget: PrivacyBudget, path: Any, certificates: Any) -> None:
    """Write a report as a page, and the same facts as JSON beside it."""
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"path must end with .html, got {str(path)!r}")
    facts = report_facts(budget, certificates)
    target.write_text(report_page(facts), encoding="utf-8")
    text = json.dumps(facts, indent=2, default=str) + "\n"
    target.with_suffix(".json").write_text(text, encoding="utf-8")


def charges_frame(charges: Sequence[Charge]) -> Any:
    """Return charges as a pandas DataFrame, a row for each."""
    try:
        import pandas as pd
    except ImportError:
        raise ImportError("to_frame needs pandas: pip install pandas.") from None
    names = "number when estimator epsilon delta mechanism mu seeded note pid host skdp_version"
    rows = [
        {**{name: getattr(c, name) for name in names.split()}, "releases": len(c.releases)}
        for c in charges
    ]
    return pd.DataFrame(rows, columns=[*names.split(), "releases"]).set_index("number")
