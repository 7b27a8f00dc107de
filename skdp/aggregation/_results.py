"""Aggregates and their intervals, computed from released sums by key.

The target of an interval is the aggregate of the bounded and clipped rows. It covers only noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.aggregation._intervals import (
    LEVEL,
    Z,
    half_width,
    quantile_bins,
    quotient_intervals,
    tree_excess,
    variance_interval,
)
from skdp.aggregation._plan import TREE_DEPTH, Aggregate, terms_of
from skdp.confidence.limits import spread_seen
from skdp.core import Release
from skdp.planning import Allowance
from skdp.tabular import KeyTerm

Floats = NDArray[np.float64]

_AT_ANY_LEVEL = ("count", "distinct_units", "sum", "mean")


def column_of(one: Aggregate) -> list[str]:
    """Return the names of an aggregate's columns: one, or one a bin."""
    if one.kind == "histogram":
        return [f"{one.name}_{i}" for i in range(len(one.edges) - 1)]
    return [one.name]


def no_columns(one: Aggregate) -> dict[str, list[Any]]:
    """Return the columns of an aggregate, all empty."""
    empty: dict[str, list[Any]] = {}
    for name in column_of(one):
        empty |= {name: [], f"{name}_low": [], f"{name}_high": []}
    if one.kind == "mean":
        empty |= {f"{one.name}_population_low": [], f"{one.name}_population_high": []}
    return empty


def check_outputs(by: list[str], unit: str | None, aggregates: list[Aggregate]) -> None:
    """Raise if ids are aggregated, or if two columns of the result would have the same name."""
    known = dict.fromkeys(by, "the key column")
    for one in aggregates:
        if unit is not None and one.column == unit:
            raise ValueError(f"{one.name}: column {unit!r} is the unit, of ids")
        for name in no_columns(one):
            if name in known:
                raise ValueError(
                    f"{one.name}: its column {name!r} of the result would replace that of "
                    f"{known[name]}: give the aggregate another name"
                )
            known[name] = f"aggregate {one.name!r}"


def about_means(term: KeyTerm, means: list[Any]) -> KeyTerm:
    """Return the term for squared deviations of units from released means."""
    middle = (term.low + term.high) / 2
    half = term.top // 2
    centers = np.clip(np.round((np.array(means) - middle) / term.grid), -half, half)
    steps = tuple(centers.astype(np.int64).tolist())
    return KeyTerm("about", term.column, term.low, term.high, centers=steps)


def left_out_of(out: Release, pure: bool) -> dict[str, float]:
    """Return how many keys and rows bounding left out, with intervals of 95%."""
    width = 2.2 * np.asarray(out.std) if pure else 1.96 * np.asarray(out.std) + 0.5
    found = {}
    for i, name in enumerate(("keys", "rows")):
        value = float(out.value[i])
        found[name] = max(value, 0.0)
        found[f"{name}_low"] = max(value - float(width[i]), 0.0)
        found[f"{name}_high"] = max(value + float(width[i]), 0.0)
    return found


_UNCLEAR = (
    "{}: units are too few for this epsilon to learn bounds of {}: values may lie far beyond "
    "them, and there are no intervals. State bounds, or take a larger epsilon"
)
_LEFT_OUT = (
    "{}: about {:.0%} of the rows were left out, to bound what one unit adds ({} keys, and {} rows "
    "in each). Counts and sums, and their intervals, are of the other rows. Take a larger epsilon, "
    "or state max_keys_per_unit and max_rows_per_unit"
)
_MANY = 0.1  # of the rows


def share_left_out(by: Any, kept: float) -> float | None:
    """Return the share of rows that bounding left out if it is clearly above a tenth, else None.

    `kept` is a released number of rows that were counted.
    """
    rows, least = (by.left_out_.get(key, 0.0) for key in ("rows", "rows_low"))
    return rows / (kept + rows) if least > _MANY * max(kept + rows, 1.0) else None


def remarks(
    by: Any, aggregates: list[Aggregate], unclear: set[str], columns: Mapping[str, list[Any]]
) -> list[str]:
    """Return warnings on bounds that are a guess, and on many rows that were left out.

    `unclear` are names of aggregates whose learned bounds are a guess; `columns` are released.
    """
    name = "DPGroupBy"
    guessed = sorted({one.column for one in aggregates if one.name in unclear})
    texts = [_UNCLEAR.format(name, ", ".join(guessed))] if guessed else []
    counts = [one.name for one in aggregates if one.kind == "count"]
    stated = by.unit is None or not (
        isinstance(by.max_keys_per_unit, str) or isinstance(by.max_rows_per_unit, str)
    )
    if counts and not stated:
        share = share_left_out(by, sum(columns[counts[0]]))
        if share is not None:
            caps = by.max_keys_per_unit_, by.max_rows_per_unit_
            texts.append(_LEFT_OUT.format(name, share, *caps))
    return texts


def notes_of(by: Any, kinds: set[str]) -> list[str]:
    """Return notes on the rows that intervals cover, if caps were found privately.

    Intervals do not cover rows beyond the caps. On tables of users with several rows they contain
    the number of all rows in 50 to 90% of fits, and seldom where tails are heavy.
    """
    keys, rows = by.max_keys_per_unit, by.max_rows_per_unit
    out = getattr(by, "left_out_", {})
    of_units = kinds == {"distinct_units"}
    found = isinstance(keys, str) or (isinstance(rows, str) and not of_units)
    if not found or not out or not kinds & _ADDED_UP:
        return []
    return [f"{limits_of(by)}. {left_out_text(by, of_units=of_units)} {_STATE}"]


_ADDED_UP = {"count", "sum", "histogram", "distinct_units"}
_STATE = (
    "Counts and sums do not include them, and intervals are of the rows that count, not of all. "
    "State max_keys_per_unit and max_rows_per_unit to set these limits"
)


def limits_of(by: Any) -> str:
    """Return a sentence on how many keys and rows of a unit count."""
    keys, rows = by.max_keys_per_unit_, by.max_rows_per_unit_
    return (
        f"a unit counts in at most {keys} {'key' if keys == 1 else 'keys'}, with at most {rows} of "
        "its rows in each"
    )


def left_out_text(by: Any, *, of_units: bool) -> str:
    """Return a sentence on how many keys or rows were left out, by the released numbers."""
    name = "keys" if of_units else "rows"
    what = "keys of units" if of_units else "rows"
    out = by.left_out_
    low, high = math.floor(out[f"{name}_low"]), math.ceil(out[f"{name}_high"])
    if not low:
        return f"Up to about {high:,} {what} were left out: noise hides how many."
    return f"About {round(out[name]):,} {what} were left out ({low:,} to {high:,})."


def columns_of_result(table: Any) -> dict[str, list[Any]]:
    """Return the columns of a released table of any kind, as lists."""
    if hasattr(table, "column_names"):  # pyarrow
        return {name: table[name].to_pylist() for name in table.column_names}
    return {name: list(table[name]) for name in getattr(table, "columns", table)}


def std_of(release: Release) -> float:
    return float(np.max(release.std))


def _with(name: str, value: Any, low: Any, high: Any) -> dict[str, list[Any]]:
    return {name: _list(value), f"{name}_low": _list(low), f"{name}_high": _list(high)}


def _list(values: Any) -> list[Any]:
    return np.asarray(values, dtype=float).tolist()


def interval_of(
    one: Aggregate,
    terms: list[KeyTerm],
    releases: list[Release],
    *,
    pure: bool,
    spread: Release | None = None,
    level: float = LEVEL,
) -> dict[str, list[Any]]:
    """Return the columns of an aggregate; with `spread`, the interval of a population's mean.

    ValueError if intervals of this aggregate are known only at 95% and `level` is another one.
    """
    if level != LEVEL and (one.kind not in _AT_ANY_LEVEL or spread is not None):
        raise ValueError(f"{one.name}: intervals of a {one.kind} are known at 95% alone")
    if one.kind in ("count", "distinct_units", "sum", "histogram"):
        value, term, of_sum = releases[0].value, terms[0], one.kind == "sum"
        step = {"sum": term.grid, "histogram": 2.0**-10}.get(one.kind, 1.0)
        width = half_width(std_of(releases[0]), step, pure=pure, level=level)
        least = -math.inf if of_sum and term.low < 0 else 0.0
        most = 0.0 if of_sum and term.high <= 0 else math.inf
        low, high = (np.clip(value + way, least, most) for way in (-width, width))
        out: dict[str, list[Any]] = {}
        for i, name in enumerate(column_of(one)):
            out |= _with(name, value[:, i], low[:, i], high[:, i])
        whole = one.kind in ("count", "distinct_units")
        return {name: [round(cell) for cell in out[name]] for name in out} if whole else out
    if one.kind == "mean":
        return _mean(one, terms, releases, pure=pure, spread=spread, level=level)
    if one.kind == "quantile":
        return _quantile(one, terms[0], releases[0], pure=pure)
    return _variance(one, terms, releases, pure=pure)


def _mean(
    one: Aggregate,
    terms: list[KeyTerm],
    releases: list[Release],
    *,
    pure: bool,
    spread: Release | None,
    level: float = LEVEL,
) -> dict[str, list[Any]]:
    count, total = (release.value[:, 0] for release in releases)
    stds = std_of(releases[1]), std_of(releases[0])
    low, high = terms[1].low, terms[1].high
    middle, half = (low + high) / 2, (high - low) / 2
    extra: Any = 0.0
    if spread is not None:
        extra = spread_seen(spread.value[:, 0], std_of(spread)) * terms[1].grid ** 2 * _STEPS
    lows, highs = quotient_intervals(
        total, count, *stds, low=-half, high=half, pure=pure, extra=extra, level=level
    )
    if spread is not None:
        return {
            f"{one.name}_population_low": _list(middle + lows),
            f"{one.name}_population_high": _list(middle + highs),
        }
    value = np.clip(total / np.maximum(count, 1.0), lows, highs)
    return _with(one.name, middle + value, middle + lows, middle + highs)


# Squares of a unit's sums are released in squares of 2**30 steps: `KeyTotals.unit`.
_STEPS = 2.0**60


def _variance(
    one: Aggregate, terms: list[KeyTerm], releases: list[Release], *, pure: bool
) -> dict[str, list[Any]]:
    """Return variances (divided by the number of rows), or standard deviations."""
    half = (terms[1].high - terms[1].low) / 2
    count, total, square = (release.value[:, 0] for release in releases)
    # Sums are in user units, squares in half widths, about one half.
    s0, s1, s2 = std_of(releases[0]), std_of(releases[1]) / half, std_of(releases[2])
    value, low, high = variance_interval(count, total / half, square, (s0, s1, s2), pure=pure)
    scale = half**2
    if one.kind == "std":
        return _with(one.name, *(np.sqrt(v * scale) for v in (value, low, high)))
    return _with(one.name, value * scale, low * scale, high * scale)


def _quantile(
    one: Aggregate, term: KeyTerm, release: Release, *, pure: bool
) -> dict[str, list[Any]]:
    """Return quantiles: the bin in which the share q of the rows is reached, interpolated."""
    value, first, last = quantile_bins(release.value, std_of(release), term.depth, one.q, pure=pure)
    low, width = term.low, (term.high - term.low) / 2**term.depth
    ends = np.minimum(first, np.floor(value)), np.maximum(last + 1, np.ceil(value))
    return _with(one.name, *(np.clip(low + x * width, low, term.high) for x in (value, *ends)))


def expected_width(
    one: Aggregate, part: Allowance, caps: Sequence[int], rows_per_key: float
) -> float:
    """Return the approximate half width of an aggregate's interval, from public numbers."""
    (max_keys, max_rows), terms = caps, terms_of(one)
    replace = 2.0 if part.pure else math.sqrt(2)

    def std(bound: float, signed: bool = False) -> float:
        grown = (2.0 if signed else replace) if part.replace else 1.0
        if part.pure:
            return math.sqrt(2) * grown * max_keys * bound / part.level
        return grown * math.sqrt(max_keys) * bound / part.level

    z = 2.12 if part.pure else Z
    if one.kind == "distinct_units":
        return z * std(1.0)
    if one.kind in ("count", "histogram"):
        return z * std(max_rows)
    if one.kind == "sum":
        return z * std(max_rows * max(abs(terms[0].low), abs(terms[0].high)), True)
    if one.kind == "quantile":
        nodes = TREE_DEPTH if part.pure else math.sqrt(TREE_DEPTH)
        edge = tree_excess(TREE_DEPTH, one.q)[round(one.q * 2**TREE_DEPTH)]  # of even values
        return z * std(max_rows * nodes) * float(np.linalg.norm(edge)) / rows_per_key
    half = (terms[1].high - terms[1].low) / 2
    mean = z * std(max_rows * half, True) / rows_per_key
    return half * mean if one.kind == "variance" else mean
