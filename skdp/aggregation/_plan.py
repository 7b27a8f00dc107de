"""Aggregates as stated, shares of the allowance, and caps from released histograms."""

from __future__ import annotations

import functools
import itertools
import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.confidence.limits import heavy_z
from skdp.core import Release
from skdp.parameters import check_length
from skdp.queries import MAX_ROWS_PER_UNIT
from skdp.tabular import KeyTerm, identity, read_cell

Floats = NDArray[np.float64]
Caps = tuple[int | None, int | None]  # on keys and on rows, None where they are private

TREE_DEPTH = 7
# Quantiles of one column: each of so many is chosen by itself, more come from one tree of counts.
_CHOSEN = 2
_FIRST = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128, 192, 256)
KEY_EDGES = (*_FIRST, 512, 1024, 4096)
ROW_EDGES = (*_FIRST, 512, 1024, 4096, MAX_ROWS_PER_UNIT)
_MOST_KEYS = 256  # of a unit, where that is not stated
_EXPONENTS = range(-20, 61)
SPREAD_EDGES = (*(-(2.0**k) for k in reversed(_EXPONENTS)), 0.0, *(2.0**k for k in _EXPONENTS))

_LARGER = 0.005  # chance that noise looks like units with more keys or rows
_WINDOWS = (1, 2, 4, 8)  # numbers of bins that are tested together
# Rows beyond the caps are a bias, which no interval shows: it weighs as much as twice the noise.
# Over 80 fits of five tables under each relation the error of counts was 5% smaller to 7% larger
# than with a weight of 1, and with 3 it was up to 18% larger.
_WEIGHT = 2.0
_KEPT = 0.95  # of the rows, at least, by the released histograms: noise must not hide a bias

# Chances that noise alone looks like units: in any bin of a spread, and next to occupied bins.
_ALONE, _BESIDE = 0.002, 0.003
_HIDDEN = 0.05  # largest share of the units that noise may hide

WITH_VALUES = ("sum", "mean", "variance", "std", "quantile", "histogram")
KINDS = ("count", "distinct_units", *WITH_VALUES)


@dataclass(frozen=True)
class Aggregate:
    """One aggregate: its name in the result, its kind, and its column with bounds."""

    name: str
    kind: str
    column: str = ""
    bounds: tuple[float, float] | None = None
    q: float = 0.5
    edges: tuple[float, ...] = ()
    of_tree: bool = False  # a quantile that is computed from a tree of counts, not chosen

    @property
    def chosen(self) -> str:
        """What is chosen: equal texts are one choice; empty if it is no chosen quantile."""
        is_chosen = self.kind == "quantile" and not self.of_tree
        return repr((self.column, self.bounds, self.q)) if is_chosen else ""


def pair_of(bounds: Any, what: str) -> tuple[float, float]:
    """Return bounds as two floats, or raise."""
    try:
        low, high = map(float, () if isinstance(bounds, str | bytes) else bounds)
    except (TypeError, ValueError):
        raise TypeError(f"{what} must be two numbers, (low, high)") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"{what} must be finite, the lower one first, got ({low:g}, {high:g})")
    return low, high


def _pair(bounds: Any, name: str, column: str) -> tuple[float, float]:
    what = f"{name}: bounds of column {column!r}"
    low, high = pair_of(bounds, what)
    if not 1e-100 < high - low < 1e100:
        raise ValueError(f"{what} must be 1e-100 to 1e100 apart")
    return low, high


def check_aggregates(aggregates: Mapping[str, Any], bounds: Any) -> list[Aggregate]:
    """Return the aggregates that specifications name, or raise."""
    if not isinstance(aggregates, Mapping):
        raise TypeError(
            "aggregates must be a dict from names of the result to aggregates, such as "
            f"{{'visits': 'count'}}, got {type(aggregates).__name__}"
        )
    stated = {} if isinstance(bounds, str) and bounds == "private" else stated_bounds(bounds)
    stated_ones = [_aggregate(name, spec, stated) for name, spec in aggregates.items()]
    columns = list({a.chosen: (a.column, a.bounds) for a in stated_ones if a.chosen}.values())
    many = {column for column in columns if columns.count(column) > _CHOSEN}
    return [
        replace(a, of_tree=True) if a.chosen and (a.column, a.bounds) in many else a
        for a in stated_ones
    ]


def check_bounds_used(aggregates: list[Aggregate], bounds: Any) -> None:
    """Refuse bounds of unknown columns while bounds are learned: likely a typo."""
    stated = set() if isinstance(bounds, str) else set(map(str, bounds))
    unknown = sorted(stated - {aggregate.column for aggregate in aggregates})
    learned = sorted({aggregate.column for aggregate in aggregates if learns(aggregate)})
    if unknown and learned:
        raise ValueError(
            f"bounds must be of columns that are aggregated: {unknown} are not, and {learned} have "
            "no bounds"
        )


def stated_bounds(bounds: Any) -> dict[str, tuple[float, float]]:
    """Return bounds by column as pairs of floats, or raise."""
    if not isinstance(bounds, Mapping):
        raise TypeError("bounds must be 'private' or a dict from columns to (low, high)")
    return {column: _pair(pair, "bounds", column) for column, pair in bounds.items()}


def _aggregate(name: str, spec: Any, stated: Mapping[str, tuple[float, float]]) -> Aggregate:
    parts = [spec] if isinstance(spec, str) else spec
    if isinstance(parts, Sequence) and len(parts) > 1:
        kind, column, *rest = parts
        if kind not in (*KINDS, "median") and column in (*WITH_VALUES, "median"):  # as in pandas
            kind, column = column, kind
        parts = ("quantile", column, 0.5, *rest) if kind == "median" else (kind, column, *rest)
    if not isinstance(parts, Sequence) or not parts or parts[0] not in KINDS:
        values = ", ".join(map(repr, WITH_VALUES))
        raise ValueError(
            f"{name}: an aggregate must be one of 'count' and 'distinct_units', or a tuple of one "
            f"of 'median', {values} and its column: ('mean', 'amount'), say, or ('quantile', "
            f"'amount', 0.9); got {spec!r:.80}"
        )
    kind, *rest = parts
    if kind not in WITH_VALUES:
        if rest:
            raise ValueError(f"{name}: {kind!r} takes no column: write {name}={kind!r}")
        return Aggregate(name, kind)
    if not rest or not isinstance(rest[0], str):
        raise ValueError(f"{name}: {kind!r} needs the name of a column: ({kind!r}, column, ...)")
    column, *rest = rest
    aggregate = Aggregate(name, kind, column, stated.get(column))
    if kind == "quantile":
        q, *rest = rest or [None]
        if not isinstance(q, numbers.Real) or isinstance(q, bool) or not 0 < float(q) < 1:
            raise ValueError(f"{name}: 'quantile' needs q between 0 and 1: ('quantile', column, q)")
        aggregate = replace(aggregate, q=float(q))
    if kind == "histogram":
        return replace(aggregate, edges=_edges(name, column, rest))
    if rest:
        aggregate = replace(aggregate, bounds=_pair(rest[0], name, column))
    if len(rest) > 1:
        wanted = "column, q, (low, high)" if kind == "quantile" else "column, (low, high)"
        raise ValueError(f"{name}: {kind!r} takes no more than ({kind!r}, {wanted})")
    return aggregate


def _edges(name: str, column: str, rest: Sequence[Any]) -> tuple[float, ...]:
    try:
        edges = tuple(float(edge) for edge in rest[0])
    except (TypeError, ValueError, IndexError):
        raise TypeError(
            f"{name}: 'histogram' of {column!r} needs edges, a sequence of two numbers or more: "
            "('histogram', column, [0, 10, 20])"
        ) from None
    if len(rest) > 1 or not 2 <= len(edges) <= 257 or not all(map(math.isfinite, edges)):
        raise ValueError(f"{name}: edges of {column!r} must be 2 to 257 finite numbers")
    if any(b <= a for a, b in itertools.pairwise(edges)):
        raise ValueError(f"{name}: edges of column {column!r} must ascend")
    return edges


def terms_of(aggregate: Aggregate) -> list[KeyTerm]:
    """Return the sums by key from which an aggregate with bounds is computed; chosen ones: none."""
    kind, column = aggregate.kind, aggregate.column
    if aggregate.chosen:
        return []
    if kind in ("count", "distinct_units"):
        return [KeyTerm("rows" if kind == "count" else "units")]
    if kind == "histogram":
        return [KeyTerm("bins", column, edges=aggregate.edges)]
    assert aggregate.bounds is not None
    low, high = aggregate.bounds
    if kind == "sum":
        return [KeyTerm("sum", column, low, high, zero=True)]
    if kind == "quantile":
        return [KeyTerm("leaves", column, low, high, depth=TREE_DEPTH)]
    terms = [KeyTerm("filled", column), KeyTerm("sum", column, low, high)]
    return terms if kind == "mean" else [*terms, KeyTerm("square", column, low, high)]


def learns(aggregate: Aggregate) -> bool:
    """Say whether the bounds of an aggregate are learned."""
    return bool(aggregate.column) and aggregate.bounds is None and aggregate.kind != "histogram"


def with_bounds(
    aggregates: list[Aggregate], learned: Mapping[str, tuple[float, float]]
) -> list[Aggregate]:
    """Return the aggregates, those without bounds with the learned bounds of their column."""
    return [replace(a, bounds=learned[a.column]) if learns(a) else a for a in aggregates]


def distinct_terms(terms: Iterable[KeyTerm]) -> list[KeyTerm]:
    """Return terms once each, in order."""
    return list({repr(term): term for term in terms}.values())


# --- caps and bounds from released histograms -----------------------------------------------------


def _deviations(chance: float, pure: bool, terms: int = 1) -> float:
    """Return the number of standard deviations that a sum of `terms` noises rarely exceeds."""
    return float(heavy_z(3.0 / terms if pure else 0.0, 1 - 2 * chance))


def _seen(counts: Floats, std: float, pure: bool, edges: Sequence[int]) -> Floats:
    """Return counts of units by bin, zero where they may be noise alone.

    The last occupied bin is the last that exceeds noise, alone or with the 1, 3 or 7 bins after it.
    Below it, a bin needs one standard deviation. If no bin exceeds noise, all units are in the
    first one.
    """
    last, before = -1, np.r_[0.0, np.cumsum(counts)]
    for i, edge in enumerate(edges):
        # Rarer for bins of large numbers: a cap of thousands that is noise would ruin all answers.
        chance = min(_LARGER, 10 * _LARGER / edge**1.5) / len(_WINDOWS)
        for width in _WINDOWS:
            if i + width > len(counts):
                break
            limit = _deviations(chance, pure, width) * std * math.sqrt(width)
            if before[i + width] - before[i] > limit:
                part = np.cumsum(np.maximum(counts[i : i + width], 0.0))
                last = max(last, i + int(np.searchsorted(part, part[-1] / 2)))
    if last < 0:
        return np.r_[1.0, np.zeros(len(counts) - 1)]
    visible = np.where(counts > std, counts, 0.0)
    visible[last] = max(visible[last], std / 2)
    visible[last + 1 :] = 0
    return visible


def _caps_of(seen: Floats, edges: Sequence[int]) -> Sequence[int]:
    return edges[: int(np.flatnonzero(seen)[-1]) + 2]


def _typical(edges: Sequence[int]) -> Floats:
    """Return the geometric middle of each bin."""
    last = [edge - 1 for edge in edges[1:]] + [edges[-1]]
    return np.sqrt(np.array(edges, dtype=float) * np.array(last))


_KEYS_OF_UNIT, _ROWS_OF_KEY = _typical(KEY_EDGES), _typical(ROW_EDGES)


def _part_kept(weights: Floats, numbers: Floats, cap: float) -> float:
    """Return the share of a total that remains if no unit adds more than `cap`."""
    return float(weights @ np.minimum(numbers, cap)) / float(weights @ numbers)


@dataclass(frozen=True)
class Shapes:
    """Released histograms of units, by keys and by rows in a key, and the law of their noise."""

    by_keys: Floats
    by_rows: Floats
    std: float
    pure: bool

    @classmethod
    def of(cls, releases: tuple[Release, Release], pure: bool) -> Shapes:
        """Return the shapes that a session of pure or Gaussian noise has released."""
        by_keys, by_rows = (np.array(release.value) for release in releases)
        return cls(by_keys, by_rows, float(np.max(releases[0].std)), pure)

    @functools.cached_property
    def units(self) -> Floats:
        """Visible units by keys."""
        return _seen(self.by_keys, self.std, self.pure, KEY_EDGES)

    @functools.cached_property
    def rows(self) -> Floats:
        """Shares of the visible units by rows in a key."""
        seen = _seen(self.by_rows, self.std, self.pure, ROW_EDGES)
        return seen / seen.sum()

    def upper_cap(self) -> int:
        """Return the smallest edge with 95% of the visible units at or below it."""
        place = int(np.searchsorted(np.cumsum(self.units), 0.95 * self.units.sum()))
        return min(int(KEY_EDGES[min(place + 1, len(KEY_EDGES) - 1)]), _MOST_KEYS)

    def weights(self) -> tuple[float, float]:
        """Return the mean of the root of a unit's keys, and the mean of its rows in a key."""
        roots = float(self.units @ np.sqrt(_KEYS_OF_UNIT)) / float(self.units.sum())
        return roots, float(self.rows @ _ROWS_OF_KEY)

    def _keeping(
        self, stated: Caps, most: int, n_keys: float, *, of_rows: bool
    ) -> dict[tuple[int, int], float]:
        """Return the caps that keep 95% of rows, or as many as any; and the share of each.

        Tried are caps up to the end of the last occupied bin, of keys up to `most`.
        """
        key_caps: Sequence[int] = [cap for cap in _caps_of(self.units, KEY_EDGES) if cap <= most]
        key_caps = [stated[0]] if stated[0] else key_caps
        row_caps = [stated[1]] if stated[1] else _caps_of(self.rows, ROW_EDGES)
        parts = {}
        for caps in itertools.product(key_caps, row_caps if of_rows else [1]):
            part = _part_kept(self.units, _KEYS_OF_UNIT, min(caps[0], n_keys))
            parts[caps] = part * _part_kept(self.rows, _ROWS_OF_KEY, caps[1]) if of_rows else part
        least = min(_KEPT, max(parts.values()))
        return {caps: part for caps, part in parts.items() if part >= least}

    def best_caps(
        self, stated: Caps, n_keys: int, *, noise: float, power: float, of_rows: bool
    ) -> tuple[tuple[int, int], float]:
        """Return the stated caps, or those of the smallest error that keep 95% of rows, and it.

        `noise` is that of a count with caps of 1, and grows with the power `power` of the cap on
        keys. `of_rows`: rows are counted or added up; for means and quantiles a row of partial
        weight does less harm. If no caps keep so much (one of them may be stated), those that keep
        the most are taken.
        """
        total = float(self.units @ _KEYS_OF_UNIT) * float(self.rows @ _ROWS_OF_KEY)
        errors = {}
        for caps, kept in self._keeping(stated, n_keys, n_keys, of_rows=True).items():
            size = noise * caps[0] ** power * caps[1] * n_keys / total
            missing = 1 - kept
            errors[caps] = size + _WEIGHT * missing if of_rows else size / kept + 0.2 * missing
        best = min(errors, key=errors.__getitem__)
        return best, errors[best]

    def counting_caps(
        self, stated: Caps, threshold: Callable[[tuple[int, int]], float], *, of_rows: bool
    ) -> tuple[tuple[int, int], float]:
        """Return the caps for which counts that select their keys show the smallest keys.

        Of the caps that keep 95% of rows, those with the smallest threshold in rows of a key before
        bounding; and this number. Without `of_rows`, units are counted.
        """
        kept = self._keeping(stated, _MOST_KEYS, math.inf, of_rows=of_rows)
        # With the same cap on keys, more rows than are needed only add noise.
        smallest = {keys: min(r for k, r in kept if k == keys) for keys, _ in kept}
        errors = {caps: threshold(caps) / kept[caps] for caps in smallest.items()}
        best = min(errors, key=errors.__getitem__)
        return best, errors[best]


def learned_range(counts: Floats, std: float, pure: bool) -> tuple[tuple[float, float], int, bool]:
    """Return bounds that hold the values of nearly all units, from a spread over `SPREAD_EDGES`.

    A bin is occupied if noise alone would hardly reach its count in any bin; next to an occupied
    bin a smaller count is enough. Also returned: the number of units that one bin beyond the bounds
    may hide, and whether that is at most a twentieth of the units (else the bounds are a guess).
    """
    edges, floor = np.array(SPREAD_EDGES), 0.002 * float(np.maximum(counts, 0).sum())
    least = max(_deviations(_ALONE / len(counts), pure) * std, floor)
    places = np.flatnonzero(counts > least)
    if not places.size:
        places = np.array([int(np.argmax(counts))])
    first, last = int(places[0]), int(places[-1])
    beside = np.array([_deviations(_BESIDE / k**2, pure) for k in range(1, len(counts))])
    beside = np.clip(beside * std, floor, least)
    first -= _reach(counts[:first][::-1], beside)
    last += _reach(counts[last + 1 :], beside)
    visible = float(counts[first : last + 1].sum())
    # One bin further on each side holds most of a tail that noise hides: without it, intervals of
    # means of lognormal values missed the mean of all values in 1 to 24 of 25 fits, with it in 1 to
    # 3 (3,000 to 40,000 units). Below 0 that bin has values down to -1e-6 alone: it is left out.
    low = 0.0 if edges[first] == 0.0 else float(edges[max(first - 1, 0)])
    high = float(edges[min(last + 2, len(counts))])
    return (low, high), math.ceil(least), least <= _HIDDEN * visible


def _reach(counts: Floats, least: Floats) -> int:
    """Return the number of bins up to the last occupied one.

    A bin that is k bins after the previous occupied one needs ``least[k - 1]`` units.
    """
    end = 0
    while True:
        further = np.flatnonzero(counts[end:] > least[: len(counts) - end])
        if not further.size:
            return end
        end += int(further[0]) + 1


# --- stated keys ----------------------------------------------------------------------------------


def check_keys(stated: Any, by: Sequence[str]) -> tuple[Any, ...]:
    """Return stated keys in a tuple, or raise. Their types are checked against the table later."""
    if isinstance(stated, Mapping):
        if set(stated) != set(by):
            raise ValueError(f"keys must have a list for each of the columns {list(by)}")
        lists = [check_keys(stated[name], [name]) for name in by]
        keys = list(itertools.product(*lists) if len(by) > 1 else lists[0])
    elif (
        isinstance(stated, str | bytes)
        or hasattr(stated, "columns")
        or not isinstance(stated, Iterable)
    ):
        raise TypeError("keys must be 'private', a list of keys, or a dict of lists")
    else:
        # Of numpy's dates, `tolist` would make counts of ticks.
        keys = list(stated.to_pylist() if hasattr(stated, "to_pylist") else stated)
    check_length(keys, "keys")
    values: list[Any] = keys
    if len(by) > 1 or set(map(type, keys)) != {str}:  # of texts there is nothing to read
        values = []
        for key in keys:
            if len(by) > 1 and (not isinstance(key, tuple) or len(key) != len(by)):
                raise ValueError(f"keys must be tuples of {len(by)}, one part for each of by")
            parts = key if len(by) > 1 else (key,)
            read = tuple(map(read_cell, parts))
            if any(a is None and b is not None for a, b in zip(read, parts, strict=True)):
                raise TypeError(
                    "stated keys must be text, numbers, booleans, dates, timestamps, times, "
                    "durations, bytes, UUIDs or intervals, and none may be NaN"
                )
            values.append(identity(read))
    if not keys or len(set(values)) < len(keys):
        raise ValueError("keys must be at least one, and no key twice")
    return tuple(keys)
