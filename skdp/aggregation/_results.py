"""Aggregates, their intervals and notes, computed from released sums by key."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.aggregation._intervals import (
    LEVEL,
    Z,
    expected_rows,
    half_width,
    quantile_bins,
    quotient_intervals,
    selected_interval,
    tree_excess,
    values_of,
    variance_interval,
)
from skdp.aggregation._plan import TREE_DEPTH, Aggregate, terms_of
from skdp.budget import exact
from skdp.confidence import Released, Source
from skdp.confidence.limits import MetricLimits, spread_seen
from skdp.core import PrivacyCertificate, Release
from skdp.loss.conversions import round_up
from skdp.planning import Allowance
from skdp.queries import KeyCounts
from skdp.tabular import KeyTerm, listed

Floats = NDArray[np.float64]

_CLEAR = 10.0  # deviations of noise that a number of rows must have, for the error of a mean
_BEYOND = 5.0  # deviations above the least count that shows: selection changes little there
_AT_ANY_LEVEL = ("count", "distinct_units", "sum", "mean")


def column_of(aggregate: Aggregate) -> list[str]:
    """Return the names of an aggregate's columns: one, or one for each bin."""
    if aggregate.kind == "histogram":
        return [f"{aggregate.name}_{i}" for i in range(len(aggregate.edges) - 1)]
    return [aggregate.name]


def no_columns(aggregate: Aggregate) -> dict[str, list[Any]]:
    """Return the columns of an aggregate, all empty."""
    names = [f"{name}{end}" for name in column_of(aggregate) for end in ("", "_low", "_high")]
    if aggregate.kind == "mean":
        names += [f"{aggregate.name}_population_low", f"{aggregate.name}_population_high"]
    return {name: [] for name in names}


def check_outputs(by: list[str], unit: str | None, aggregates: list[Aggregate]) -> None:
    """Raise if ids are aggregated, or if two columns of the result would have the same name."""
    known = dict.fromkeys(by, "the key column")
    for aggregate in aggregates:
        if unit is not None and aggregate.column == unit:
            raise ValueError(f"{aggregate.name}: column {unit!r} is the unit, of ids")
        for name in no_columns(aggregate):
            if name in known:
                raise ValueError(
                    f"{aggregate.name}: its column {name!r} of the result would replace that of "
                    f"{known[name]}: give the aggregate another name"
                )
            known[name] = f"aggregate {aggregate.name!r}"


def about_means(term: KeyTerm, means: list[Any]) -> KeyTerm:
    """Return the term for squared deviations of units from released means."""
    middle = (term.low + term.high) / 2
    half = term.top // 2
    centers = np.clip(np.round((np.array(means) - middle) / term.grid), -half, half)
    steps = tuple(centers.astype(np.int64).tolist())
    return KeyTerm("about", term.column, term.low, term.high, centers=steps)


def left_out_of(out: Release, pure: bool) -> dict[str, float]:
    """Return the numbers of keys and rows beyond the caps, with intervals at 95%."""
    widths = 2.2 * np.asarray(out.std) if pure else 1.96 * np.asarray(out.std) + 0.5
    numbers = {}
    for name, value, width in zip(("keys", "rows"), out.value, widths, strict=True):
        for end, shift in (("", 0.0), ("_low", -float(width)), ("_high", float(width))):
            numbers[name + end] = max(float(value) + shift, 0.0)
    return numbers


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
_STATE = (
    "Counts and sums do not include them, and intervals are of the rows that count, not of all. "
    "State max_keys_per_unit and max_rows_per_unit to set these limits"
)


def share_left_out(by: Any, counted: float) -> float | None:
    """Return the share of rows beyond the caps if it is clearly above a tenth, else None.

    `counted` is a released number of rows within the caps.
    """
    rows, least = (by.left_out_.get(key, 0.0) for key in ("rows", "rows_low"))
    return rows / (counted + rows) if least > _MANY * max(counted + rows, 1.0) else None


def remarks(
    by: Any, aggregates: list[Aggregate], unclear: set[str], columns: Mapping[str, list[Any]]
) -> list[str]:
    """Return warnings: learned bounds that are a guess, and many rows beyond the caps.

    `unclear` has the names of the aggregates whose learned bounds are a guess.
    """
    name = "DPGroupBy"
    guessed = sorted({aggregate.column for aggregate in aggregates if aggregate.name in unclear})
    texts = [_UNCLEAR.format(name, listed(guessed))] if guessed else []
    counts = [aggregate.name for aggregate in aggregates if aggregate.kind == "count"]
    private = isinstance(by.max_keys_per_unit, str) or isinstance(by.max_rows_per_unit, str)
    if counts and private and by.unit is not None:
        share = share_left_out(by, sum(columns[counts[0]]))
        if share is not None:
            caps = by.max_keys_per_unit_, by.max_rows_per_unit_
            texts.append(_LEFT_OUT.format(name, share, *caps))
    return texts


def notes_of(by: Any, kinds: set[str]) -> list[str]:
    """Return notes on the rows that intervals cover, if caps were chosen privately.

    On tables of users with several rows, intervals contain the number of all rows in 50 to 90% of
    fits, and seldom where tails are heavy.
    """
    of_units = kinds == {"distinct_units"}
    private = isinstance(by.max_keys_per_unit, str) or (
        isinstance(by.max_rows_per_unit, str) and not of_units
    )
    added_up = kinds & {"count", "sum", "histogram", "distinct_units"}
    if not private or not getattr(by, "left_out_", {}) or not added_up:
        return []
    return [f"{limits_of(by)}. {left_out_text(by, of_units=of_units)} {_STATE}"]


def limits_of(by: Any) -> str:
    """Return a sentence on how many keys and rows of a unit count."""
    keys, rows = by.max_keys_per_unit_, by.max_rows_per_unit_
    return (
        f"a unit counts in at most {keys} {'key' if keys == 1 else 'keys'}, with at most {rows} of "
        "its rows in each"
    )


def left_out_text(by: Any, *, of_units: bool) -> str:
    """Return a sentence on the released number of keys or rows beyond the caps."""
    name, what = ("keys", "keys of units") if of_units else ("rows", "rows")
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
    """Return the standard deviation of the noise: the same for all numbers of a release here."""
    return float(np.max(release.std))


def _with(name: str, value: Any, low: Any, high: Any) -> dict[str, list[Any]]:
    return {name: _list(value), f"{name}_low": _list(low), f"{name}_high": _list(high)}


def _list(values: Any) -> list[Any]:
    return np.asarray(values, dtype=float).tolist()


def interval_of(
    aggregate: Aggregate,
    releases: list[Release],
    *,
    pure: bool,
    spread: Release | None = None,
    law: KeyCounts | None = None,
    level: float = LEVEL,
) -> dict[str, list[Any]]:
    """Return the columns of an aggregate; with `spread`, the interval of a population's mean.

    `law` is that of a count which has selected the keys. Numbers are clipped to their intervals.
    ValueError if intervals of this aggregate are known only at 95% and `level` is another one.
    """
    kind = aggregate.kind
    if level != LEVEL and (kind not in _AT_ANY_LEVEL or spread is not None):
        raise ValueError(f"{aggregate.name}: intervals of a {kind} are known at 95% alone")
    if aggregate.chosen:
        return _with(
            aggregate.name,
            *values_of(aggregate, releases, std_of(releases[-1]), pure=pure),
        )
    term = terms_of(aggregate)[-1]
    if kind == "mean":
        return _mean(aggregate.name, term, releases, pure=pure, spread=spread, level=level)
    if kind == "quantile":
        return _quantile(aggregate, term, releases[0], pure=pure)
    if kind in ("variance", "std"):
        return _variance(aggregate, term, releases, pure=pure)
    value, of_sum = releases[0].value, kind == "sum"
    step = {"sum": term.grid, "histogram": 2.0**-10}.get(kind, 1.0)
    width = half_width(std_of(releases[0]), step, pure=pure, level=level)
    least = -math.inf if of_sum and term.low < 0 else 0.0
    most = 0.0 if of_sum and term.high <= 0 else math.inf
    if law is None:
        low, high = (np.clip(value + shift, least, most) for shift in (-width, width))
    else:
        low, high = selected_interval(value, law.scale, law.threshold, pure=law.pure, level=level)
    shown = np.clip(value, low, high)
    out: dict[str, list[Any]] = {}
    for i, name in enumerate(column_of(aggregate)):
        out |= _with(name, shown[:, i], low[:, i], high[:, i])
    if kind in ("count", "distinct_units"):
        return {name: [round(cell) for cell in cells] for name, cells in out.items()}
    return out


@dataclass(frozen=True)
class Ends:
    """The intervals of a column of an aggregate; a value to be pickled.

    `selected` are the keys with their counts where a count has selected them, `law` is the same
    where the aggregate is this count. With `unclear` bounds nothing is known.
    """

    aggregate: Aggregate
    name: str
    releases: list[Release]
    columns: dict[str, list[Any]]
    pure: bool
    law: KeyCounts | None
    selected: KeyCounts | None
    unclear: bool

    def __call__(self, level: float, sampled: bool) -> tuple[Floats, Floats]:
        """Return intervals for the rows, or for the population (at 95% alone)."""
        columns, of = self.columns, "_population" if sampled else ""
        if sampled and level != LEVEL:
            raise ValueError(f"{self.name}: intervals for the population are known at 95% alone")
        if level != LEVEL:
            columns = interval_of(
                self.aggregate, self.releases, pure=self.pure, law=self.law, level=level
            )
        low, high = (np.array(columns[f"{self.name}{of}{end}"], float) for end in ("_low", "_high"))
        return (low * np.nan, high * np.nan) if self.unclear else (low, high)

    @property
    def value(self) -> Floats:
        """The numbers: those of sums and counts as they were drawn, before they are clipped."""
        if self.aggregate.kind not in ("count", "distinct_units", "sum", "histogram"):
            return np.array(self.columns[self.name], dtype=np.float64)
        drawn: Floats = self.releases[0].value[:, column_of(self.aggregate).index(self.name)]
        return drawn

    @property
    def std(self) -> Any:
        """Standard errors; NaN where noise hides a key, or the count that showed it is small."""
        kind, stds = self.aggregate.kind, [std_of(r) for r in self.releases]
        std: Any = np.nan
        enough: Any = not self.unclear
        if kind in ("count", "distinct_units", "sum", "histogram"):
            std = stds[0]
        elif kind == "mean":
            term = terms_of(self.aggregate)[-1]
            count = self.releases[0].value[:, 0]
            enough = enough & (count >= _CLEAR * stds[0])
            count = np.where(enough, count, 1.0)
            std = np.hypot(stds[1], (self.value - (term.low + term.high) / 2) * stds[0]) / count
        if self.selected is not None and (self.law is not None or kind == "mean"):
            least = self.selected.threshold + _BEYOND * float(np.max(self.selected.std))
            enough = enough & (self.selected.counts >= least)
        return np.where(enough, std, np.nan)

    def released(
        self, privacy: PrivacyCertificate, session: str, labels: Mapping[str, Any]
    ) -> Released:
        """Return the column as released numbers; `session` names that of the fit."""
        value, aggregate = self.value, self.aggregate
        std = np.broadcast_to(self.std, value.shape)
        own = {"session": session, "key": f"{session} {self.name}"}
        errors = Source((privacy,), std, uncorrelated=True, **own)
        limits = MetricLimits(self, users=False, of_population=aggregate.kind == "mean")
        ends: Any = aggregate.bounds and tuple(np.array([end]) for end in aggregate.bounds)
        return Released(value, std, privacy, ends, "", limits, labels, errors)


def joined(first: PrivacyCertificate | None, second: PrivacyCertificate) -> PrivacyCertificate:
    """Return the certificate of two sessions, one after the other: what they claim adds up."""
    if first is None:
        return second
    parts = [exact(one.epsilon) for one in (first, second)]
    releases = tuple(
        replace(record, share=float(exact(record.share) * part / sum(parts)))
        for one, part in zip((first, second), parts, strict=True)
        for record in one.releases
    )
    epsilon = round_up(sum(parts, Fraction(0)))
    return replace(second, epsilon=epsilon, mu=None, releases=releases)


def _mean(
    name: str,
    term: KeyTerm,
    releases: list[Release],
    *,
    pure: bool,
    spread: Release | None,
    level: float,
) -> dict[str, list[Any]]:
    count, total = (release.value[:, 0] for release in releases)
    stds = std_of(releases[1]), std_of(releases[0])
    middle, half = (term.low + term.high) / 2, (term.high - term.low) / 2
    extra: Any = 0.0
    if spread is not None:
        extra = spread_seen(spread.value[:, 0], std_of(spread)) * term.grid**2 * _STEPS
    lows, highs = quotient_intervals(
        total, count, *stds, low=-half, high=half, pure=pure, extra=extra, level=level
    )
    if spread is not None:
        return {
            f"{name}_population_low": _list(middle + lows),
            f"{name}_population_high": _list(middle + highs),
        }
    value = np.clip(total / np.maximum(count, 1.0), lows, highs)
    return _with(name, middle + value, middle + lows, middle + highs)


# Squares of a unit's sums are released in squares of 2**30 steps: `KeyTotals.unit`.
_STEPS = 2.0**60


def _variance(
    aggregate: Aggregate, term: KeyTerm, releases: list[Release], *, pure: bool
) -> dict[str, list[Any]]:
    """Return variances (divided by the number of rows), or standard deviations."""
    half = (term.high - term.low) / 2
    count, total, square = (release.value[:, 0] for release in releases)
    # Sums are in user units, squares in half widths, about one half.
    stds = std_of(releases[0]), std_of(releases[1]) / half, std_of(releases[2])
    ends = variance_interval(count, total / half, square, stds, pure=pure)
    shown = np.sqrt if aggregate.kind == "std" else np.asarray
    return _with(aggregate.name, *(shown(end * half**2) for end in ends))


def _quantile(
    aggregate: Aggregate, term: KeyTerm, release: Release, *, pure: bool
) -> dict[str, list[Any]]:
    """Return quantiles of a tree, interpolated within their bins."""
    value, first, last = quantile_bins(
        release.value, std_of(release), term.depth, aggregate.q, pure=pure
    )
    low, width = term.low, (term.high - term.low) / 2**term.depth
    ends = np.minimum(first, np.floor(value)), np.maximum(last + 1, np.ceil(value))
    return _with(
        aggregate.name, *(np.clip(low + x * width, low, term.high) for x in (value, *ends))
    )


def expected_width(
    aggregate: Aggregate, part: Allowance, caps: Sequence[int], rows_per_key: float
) -> float:
    """Return the approximate half width of an aggregate's interval, from public numbers."""
    max_keys, max_rows = caps
    if aggregate.chosen:
        return expected_rows(part, aggregate.q, caps) / rows_per_key
    kind, term = aggregate.kind, terms_of(aggregate)[-1]
    replace = 2.0 if part.pure else math.sqrt(2)
    z = 2.12 if part.pure else Z

    def width(bound: float, signed: bool = False) -> float:
        factor = (2.0 if signed else replace) if part.replace else 1.0
        if part.pure:
            return z * (math.sqrt(2) * factor * max_keys * bound / part.level)
        return z * (factor * math.sqrt(max_keys) * bound / part.level)

    if kind == "distinct_units":
        return width(1.0)
    if kind in ("count", "histogram"):
        return width(max_rows)
    if kind == "sum":
        return width(max_rows * max(abs(term.low), abs(term.high)), True)
    if kind == "quantile":
        nodes = TREE_DEPTH if part.pure else math.sqrt(TREE_DEPTH)
        # The edge at the quantile of evenly spread values.
        edge = tree_excess(TREE_DEPTH, aggregate.q)[round(aggregate.q * 2**TREE_DEPTH)]
        return width(max_rows * nodes) * float(np.linalg.norm(edge)) / rows_per_key
    half = (term.high - term.low) / 2
    mean = width(max_rows * half, True) / rows_per_key
    return half * mean if kind == "variance" else mean
