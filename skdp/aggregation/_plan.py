"""What an aggregation asks for: specifications, terms, shares of the allowance, caps.

Nothing is released here: public numbers, and what has been released.
"""

from __future__ import annotations

import itertools
import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.confidence.limits import heavy_z
from skdp.parameters import check_length
from skdp.queries import MAX_ROWS_PER_UNIT
from skdp.tabular import KeyTerm, identity, read_cell

Floats = NDArray[np.float64]

TREE_DEPTH = 7
_FIRST = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128, 192, 256)
KEY_EDGES = (*_FIRST, 512, 1024, 4096)
ROW_EDGES = (*_FIRST, 512, 1024, 4096, MAX_ROWS_PER_UNIT)
_MOST_KEYS = 256  # of a unit, where that is not stated
_EXPONENTS = range(-20, 61)
SPREAD_EDGES = (
    *(-(2.0**k) for k in reversed(_EXPONENTS)),
    0.0,
    *(2.0**k for k in _EXPONENTS),
)

# Weights of shares; an aggregate's are 60.
_LEARNED, _SHAPES, _LEFT_OUT, _KEYS, _AGGREGATES = 8, 8, 2, 60, 60

_LARGER = 0.02  # chance that noise passes for units of more keys or rows
_WINDOWS = (1, 2, 4, 8)  # bins that are looked at together
# What is left out is a bias, which no interval shows: it weighs as much as twice the noise. Over
# 80 fits of five tables under each relation the error of counts was 5% smaller to 7% larger than
# with a weight of 1, and with 3 it was up to 18% larger. For flights by destination it is 18%
# smaller (root mean square), and that of the median destination 30% larger.
_WEIGHT = 2.0

# Chances that noise alone is seen: in any bin of a spread, and in the bin beside what was seen.
_ALONE, _BESIDE = 0.002, 0.003
_HIDDEN = 0.05  # the part of all units that may be hidden by noise

WITH_VALUES = ("sum", "mean", "variance", "std", "quantile", "histogram")
KINDS = ("count", "distinct_units", *WITH_VALUES)
_CLIPPED = ("sum", "mean", "variance", "std", "quantile")


@dataclass(frozen=True)
class Aggregate:
    """One aggregate: its column of the result, what it is, of which column, clipped to what."""

    name: str
    kind: str
    column: str = ""
    bounds: tuple[float, float] | None = None
    q: float = 0.5
    edges: tuple[float, ...] = ()


def _pair(value: Any, name: str, column: str) -> tuple[float, float]:
    """Return bounds as two floats, or raise."""
    try:
        low, high = (float(one) for one in (() if isinstance(value, str | bytes) else value))
    except (TypeError, ValueError):
        raise TypeError(
            f"{name}: bounds of column {column!r} must be two numbers, (low, high)"
        ) from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(
            f"{name}: bounds of column {column!r} must be finite, the lower one first, "
            f"got ({low:g}, {high:g})"
        )
    if not 1e-100 < high - low < 1e100:
        raise ValueError(f"{name}: bounds of column {column!r} must be 1e-100 to 1e100 apart")
    return low, high


def check_aggregates(aggregates: Mapping[str, Any], bounds: Any) -> list[Aggregate]:
    """Return the aggregates that specifications name, or raise."""
    if not isinstance(aggregates, Mapping):
        raise TypeError(
            "aggregates must be a dict from names of the result to aggregates, such as "
            f"{{'visits': 'count'}}, got {type(aggregates).__name__}"
        )
    stated = {} if isinstance(bounds, str) and bounds == "private" else stated_bounds(bounds)
    return [_aggregate(name, spec, stated) for name, spec in aggregates.items()]


def check_bounds_used(aggregates: list[Aggregate], bounds: Any) -> None:
    """Refuse bounds of other columns where the bounds of one would be learned: a typo, likely."""
    stated = set() if isinstance(bounds, str) else set(map(str, bounds))
    unknown = sorted(stated - {str(one.column) for one in aggregates})
    learned = sorted({str(one.column) for one in aggregates if learns(one)})
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
    if not isinstance(parts, Sequence) or not parts or parts[0] not in KINDS:
        values = ", ".join(map(repr, WITH_VALUES))
        raise ValueError(
            f"{name}: an aggregate must be one of 'count' and 'distinct_units', or a tuple of one "
            f"of {values} and its column: ('mean', 'amount'), say, or ('quantile', 'amount', 0.5) "
            f"for the median; got {spec!r:.80}"
        )
    kind, *rest = parts
    if kind not in WITH_VALUES:
        if rest:
            raise ValueError(f"{name}: {kind!r} takes no column: write {name}={kind!r}")
        return Aggregate(name, kind)
    if not rest or not isinstance(rest[0], str):
        raise ValueError(f"{name}: {kind!r} needs the name of a column: ({kind!r}, column, ...)")
    column, *rest = rest
    made = Aggregate(name, kind, column, stated.get(column))
    if kind == "quantile":
        q, *rest = rest or [None]
        if not isinstance(q, numbers.Real) or isinstance(q, bool) or not 0 < float(q) < 1:
            raise ValueError(f"{name}: 'quantile' needs q between 0 and 1: ('quantile', column, q)")
        made = replace(made, q=float(q))
    if kind == "histogram":
        return replace(made, edges=_edges(name, column, rest))
    if rest:
        made = replace(made, bounds=_pair(rest[0], name, column))
    if len(rest) > 1:
        wanted = "column, q, (low, high)" if kind == "quantile" else "column, (low, high)"
        raise ValueError(f"{name}: {kind!r} takes no more than ({kind!r}, {wanted})")
    return made


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


def terms_of(one: Aggregate) -> list[KeyTerm]:
    """Return what an aggregate, which has its bounds, is computed from."""
    if one.kind == "count":
        return [KeyTerm("rows")]
    if one.kind == "distinct_units":
        return [KeyTerm("units")]
    if one.kind == "histogram":
        return [KeyTerm("bins", one.column, edges=one.edges)]
    assert one.bounds is not None
    low, high = one.bounds
    if one.kind == "sum":
        return [KeyTerm("sum", one.column, low, high, zero=True)]
    if one.kind == "quantile":
        return [KeyTerm("leaves", one.column, low, high, depth=TREE_DEPTH)]
    both = [KeyTerm("filled", one.column), KeyTerm("sum", one.column, low, high)]
    return both if one.kind == "mean" else [*both, KeyTerm("square", one.column, low, high)]


def learns(one: Aggregate) -> bool:
    """Say whether an aggregate clips to bounds that nobody stated."""
    return bool(one.column) and one.bounds is None and one.kind != "histogram"


def check_guesses(
    aggregates: list[Aggregate],
    known: Mapping[str, tuple[float, float]],
    rows_per_key: float | None,
) -> None:
    """Raise if the expected error of an aggregate needs what is not known."""
    for one in aggregates:
        if learns(one) and one.column not in known:
            raise ValueError(
                f"bounds of column {one.column!r} are learned: state a guess, "
                f"bounds={{{one.column!r}: (low, high)}}"
            )
        if one.kind in ("mean", "variance", "std", "quantile") and not rows_per_key:
            raise ValueError(f"{one.name}: rows_per_key must be given")


def with_bounds(
    aggregates: list[Aggregate], learned: Mapping[str, tuple[float, float]]
) -> list[Aggregate]:
    """Return aggregates that have bounds, of their column where they state none."""
    return [replace(one, bounds=learned[one.column]) if learns(one) else one for one in aggregates]


def distinct_terms(terms: Iterable[KeyTerm]) -> list[KeyTerm]:
    """Return terms once each, in order."""
    return list({repr(term): term for term in terms}.values())


# --- caps and bounds from released histograms -----------------------------------------------------


def _typical(edges: Sequence[int]) -> Floats:
    """Return a typical number of each bin: the geometric middle of its least and its largest."""
    last = [edge - 1 for edge in edges[1:]] + [edges[-1]]
    return np.sqrt(np.array(edges, dtype=float) * np.array(last))


def _deviations(chance: float, pure: bool, terms: int = 1) -> float:
    """Return how many deviations a sum of so many noises exceeds with this chance."""
    return float(heavy_z(3.0 / terms if pure else 0.0, 1 - 2 * chance))


def _seen(counts: Floats, std: float, pure: bool, edges: Sequence[int]) -> Floats:
    """Return counts of units without what noise alone shows.

    Units are spread over bins, none of which may stand out of noise while several together do. So
    there are units from a bin on if that bin, or 2, 4 or 8 from it on, hold more than noise does
    but for a small chance. It is the smaller the larger the numbers of the bin are: a bin of large
    numbers weighs much, and a cap of thousands that comes of noise would ruin all answers. Below
    the last such bin one deviation is enough. If there is none, all units are in the first bin.
    """
    last, before = -1, np.r_[0.0, np.cumsum(counts)]
    for i, edge in enumerate(edges):
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
    kept = np.where(counts > std, counts, 0.0)
    kept[last] = max(kept[last], std / 2)
    kept[last + 1 :] = 0
    return kept


def upper_cap(by_keys: Floats, std: float, *, pure: bool) -> int:
    """Return the least edge at or below which 95% of units is, as far as can be seen."""
    seen = _seen(by_keys, std, pure, KEY_EDGES)
    place = int(np.searchsorted(np.cumsum(seen), 0.95 * seen.sum()))
    return min(int(KEY_EDGES[min(place + 1, len(KEY_EDGES) - 1)]), _MOST_KEYS)


def _caps_of(seen: Floats, edges: Sequence[int]) -> Sequence[int]:
    """Return the caps to try: up to the end of the last bin that is seen, and no further."""
    return edges[: int(np.flatnonzero(seen)[-1]) + 2]


def best_caps(
    by_keys: Floats,
    by_rows: Floats,
    std: float,
    n_keys: int,
    *,
    noise: float,
    power: float,
    of_rows: bool,
    pure: bool,
    max_keys: int | None,
    max_rows: int | None,
) -> tuple[int, int]:
    """Return the caps for which noise and what is left out are least together.

    What is left out weighs `_WEIGHT` times as much.

    Parameters
    ----------
    by_keys, by_rows : ndarray
        Noisy numbers of units by keys, and by rows in one of these.
    noise : float
        That of a count of units, if a unit had one key.
    power : float
        Noise grows with this power of the cap on keys.
    of_rows : bool
        Whether rows are counted or added up; else only shares of them are asked for, to which a
        row that counts in part does less harm.
    pure : bool
        Whether noise is Laplace's; else it is Gaussian.
    max_keys, max_rows : int or None
        As stated.
    """
    many, m = _seen(by_keys, std, pure, KEY_EDGES), _typical(KEY_EDGES)
    rows, r = _seen(by_rows, std, pure, ROW_EDGES), _typical(ROW_EDGES)
    rows = rows / rows.sum()
    whole = float(many @ m) * float(rows @ r)
    key_caps = [cap for cap in _caps_of(many, KEY_EDGES) if cap <= n_keys]
    row_caps = _caps_of(rows, ROW_EDGES)

    def error(caps: tuple[int, int]) -> float:
        kept = float(many @ np.minimum(m, caps[0])) * float(rows @ np.minimum(r, caps[1]))
        size = noise * caps[0] ** power * caps[1] * n_keys
        if of_rows:
            return size / whole + _WEIGHT * (1 - kept / whole)
        return size / kept + 0.2 * (1 - kept / whole)

    choices = [
        (c, k)
        for c in ([max_keys] if max_keys else key_caps)
        for k in ([max_rows] if max_rows else row_caps)
    ]
    return min(choices, key=error)


def learned_range(counts: Floats, std: float, pure: bool) -> tuple[tuple[float, float], int, bool]:
    """Return bounds that hold the values of nearly all units, from a spread over `SPREAD_EDGES`.

    Bins that noise alone would hardly show in any of the bins are seen. From these on outwards, so
    is a bin that noise would show in three tables of a thousand, the rarer the further away it is.
    Bounds are one bin further out: without that, intervals of means of lognormal values missed the
    mean of all values in 1 to 24 of 25 fits, with it in 1 to 3 (3,000 to 40,000 units).

    Parameters
    ----------
    counts : ndarray
        Noisy numbers of units by bin.
    std : float
        Of their noise.
    pure : bool
        Whether noise is Laplace's; else it is Gaussian.

    Returns
    -------
    bounds : tuple (low, high)
    hidden : int
        Fewer units than about that many in one bin beyond the bounds are not noticed.
    clear : bool
        Whether that is at most a twentieth of the units; else nothing is known of the column.
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
    seen = float(counts[first : last + 1].sum())
    # A bin further on each side holds most of a tail that noise hides. The innermost bins stand for
    # zero: a column of zeros still has a width. Where zero is the least that is seen, the bin below
    # it would hold values down to -1e-6 alone: clipped at 0, they move by less than that.
    low = 0.0 if edges[first] == 0.0 else float(edges[max(first - 1, 0)])
    high = float(edges[min(last + 2, len(counts))])
    return (low, high), math.ceil(least), least <= _HIDDEN * seen


def _reach(counts: Floats, least: Floats) -> int:
    """Return how many bins further the last one is that has units, each step from one to the next.

    A bin that is k further than the one before it needs ``least[k - 1]`` units.
    """
    end = 0
    while True:
        further = np.flatnonzero(counts[end:] > least[: len(counts) - end])
        if not further.size:
            return end
        end += int(further[0]) + 1


# --- stated keys, shares --------------------------------------------------------------------------


def check_keys(stated: Any, by: Sequence[str]) -> tuple[Any, ...]:
    """Return stated keys in a tuple, or raise. Their types are checked with those of the table.

    Parameters
    ----------
    stated : list of keys, array, Series, or dict
        A dict has a list for each key column, and stands for all combinations.
    by : sequence of str
        Key columns: keys of several are tuples.
    """
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
    text = len(by) == 1 and set(map(type, keys)) == {str}
    for key in () if text else keys:
        if len(by) > 1 and (not isinstance(key, tuple) or len(key) != len(by)):
            raise ValueError(f"keys must be tuples of {len(by)}, one part for each of by")
        for part in key if len(by) > 1 else (key,):
            if part is not None and read_cell(part) is None:
                raise TypeError(
                    "stated keys must be text, numbers, booleans, dates, timestamps, times, "
                    "durations, bytes, UUIDs or intervals, and none may be NaN"
                )
    if not keys or len(set(keys if text else map(_read_key, keys))) < len(keys):
        raise ValueError("keys must be at least one, and no key twice")
    return tuple(keys)


def _read_key(key: Any) -> Any:
    return identity(tuple(map(read_cell, key)) if isinstance(key, tuple) else read_cell(key))


def shares_of(
    aggregates: list[Aggregate],
    *,
    listed: bool,
    private_keys: bool,
    private_rows: bool,
    bounding: bool = True,
) -> dict[str, Fraction]:
    """Return the share of each kind of release: exact fractions, together at most 1.

    Parameters
    ----------
    aggregates : list of Aggregate
    listed : bool
        Whether keys are stated.
    private_keys, private_rows : bool
        Whether the caps on keys, and on rows, are to be found.
    bounding : bool, default=True
        Whether caps may leave anything out.
    """
    private = private_keys or private_rows
    learned = {one.column for one in aggregates if learns(one)}
    # Learned bounds may be other than any that are stated: their terms count apart.
    bounded = with_bounds(aggregates, dict.fromkeys(learned, (0.0, math.nan)))
    terms = distinct_terms(term for one in bounded for term in terms_of(one))
    spreads = sum(one.kind == "mean" for one in aggregates)
    weights = {
        "learned": _LEARNED * len(learned),
        "shapes": _SHAPES if private and (aggregates or private_keys) else 0,
        "found": _SHAPES if not listed and private and aggregates else 0,
        "keys": 0 if listed else _KEYS,
        "left_out": _LEFT_OUT if aggregates and bounding else 0,
        "terms": _AGGREGATES if aggregates else 0,
    }
    whole = sum(weights.values())
    shares = {name: Fraction(weight, whole) for name, weight in weights.items()}
    if learned:
        shares["learned"] /= len(learned)
    if aggregates:
        shares["term"] = shares["terms"] / (2 * len(terms) + spreads) * 2
        shares["spread"] = shares["term"] / 2
    return shares
