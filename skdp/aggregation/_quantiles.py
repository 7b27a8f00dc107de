"""Quantiles by key: a choice for each key, and an interval from counts around it.

Three points are chosen for each key: the quantile, and two that lie a public number of rows below
and above it. They give six edges around the quantile, and noisy counts of the rows between these.
An end of the interval is the innermost edge that is clearly on its side of the quantile, by these
counts alone: so the interval holds for every column, however its values are spread.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.aggregation._plan import Aggregate
from skdp.confidence.limits import heavy_z
from skdp.core import Release, Session, released
from skdp.planning import Allowance
from skdp.queries import POINT_BITS, KeyQuantiles, KeyTotals, rows_off, unit_sum
from skdp.tabular import KeyTerm

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# The true quantile is on one side of the chosen one, or equal to it. Edges on the other side are on
# their side of the true one, too. So only one end of an interval can fail, and it may in 5%: these
# are two-sided limits of 90%.
_LEVEL = 0.90
# Of the share of a quantile: for the quantile itself, for each of the other two points, and for the
# counts. Edges lie at these multiples of the distance to the points. These numbers make intervals
# of evenly spread rows about the shortest, in a simulation: with edges at the points alone they are
# twice as long.
_VALUE, _END, _COUNTS = Fraction(55, 100), Fraction(8, 100), Fraction(29, 100)
_EDGES = (2.5, 1.0, 0.4)
_MARGIN = 2.3  # deviations by which a point lies beyond the limit of the counts' noise
_LENGTH = 0.45  # of that distance: the usual distance to the end of the interval
_MOST = 2**39  # rows that are added at an end


def _weights(q: float) -> Floats:
    """Return how the counts of cells add up to the rows before each edge, less q of all rows."""
    cells = 2 * len(_EDGES) + 1
    before = np.tril(np.ones((cells - 1, cells)))
    return before - q


def _limits(q: float, std: float, *, pure: bool) -> Floats:
    """Return the 90% limit of the noise at each edge; `std` is that of a cell."""
    squares = _weights(q) ** 2
    variance = squares.sum(axis=1)
    kurtosis = 3 * (squares**2).sum(axis=1) / variance**2
    limit = heavy_z(kurtosis if pure else 0.0, _LEVEL) * np.sqrt(variance) * std
    return np.asarray(limit)


def _distances(part: Allowance, q: float, caps: Sequence[int]) -> tuple[float, float]:
    """Return how many rows the other points lie below and above the quantile; public."""
    max_keys, max_rows = caps
    cuts = ((0,) * (2 * len(_EDGES)),)
    counts = unit_sum(KeyTotals(("",), (KeyTerm("between", cuts=cuts),), 0, max_keys, max_rows))
    std = part.part(_COUNTS).query_std(counts)
    off = rows_off(
        part.part(_END).level, q, max_keys, max_rows, pure=part.pure, relation=part.adjacency
    )
    limits, noise = _limits(q, std, pure=part.pure), std * np.sqrt((_weights(q) ** 2).sum(axis=1))
    rows = limits + _MARGIN * np.hypot(noise, math.sqrt(2) * off)
    return float(rows[0]), float(rows[-1])


def expected_rows(part: Allowance, q: float, caps: Sequence[int]) -> float:
    """Return about half the length of an interval, in rows."""
    return _LENGTH * sum(_distances(part, q, caps)) / 2


def choose_quantile(
    session: Session, aggregate: Aggregate, keys: tuple[Any, ...], caps: Sequence[int], share: Any
) -> list[Release]:
    """Release the chosen points, the edges around them, and the counts between these."""
    assert aggregate.bounds is not None
    q, column, bounds = aggregate.q, aggregate.column, aggregate.bounds
    term, share = KeyTerm("points", column, *bounds), Fraction(share)
    below, above = _distances(Allowance.left(session, share), q, caps)

    def ask(part: Fraction, name: str, **beside: int) -> Release:
        query = KeyQuantiles(keys, term, q, *caps, **beside)
        release: Release = session.answer(query, share * part, name=f"{name} {q:g} {column}")
        return release

    # Of rows that are added below, a part q is below the new quantile in rank.
    value = ask(_VALUE, "quantile")
    low = ask(_END, "below quantile", below=_rows(below / (1 - q)))
    high = ask(_END, "above quantile", above=_rows(above / q))
    points, lows, highs = (r.value.astype(np.int64) for r in (value, low, high))
    cuts = _cuts(points, lows, highs)
    between = KeyTerm("between", column, *bounds, cuts=tuple(map(tuple, cuts.tolist())))
    totals = unit_sum(KeyTotals(keys, (between,), 0, *caps))
    name = f"rows around quantile {q:g} {column}"
    counts = session.answer(totals, share * _COUNTS, name=name)
    return [value, released(cuts.astype(np.float64), np.nan), counts]


def _rows(rows: float) -> int:
    return math.ceil(min(max(rows, 1.0), _MOST))


def _cuts(points: Ints, lows: Ints, highs: Ints) -> Ints:
    """Return the edges of each key, ascending: a row at a point is before the edge above it."""
    sides = []
    for end, sign in ((lows, -1), (highs, 1)):
        distance = np.maximum(np.abs(points - end), 1)
        sides.append([points + sign * np.ceil(f * distance).astype(np.int64) for f in _EDGES])
    below, above = sides
    cuts = np.stack([*below, *(edge + 1 for edge in reversed(above))], axis=1)
    return np.clip(cuts, 0, (1 << POINT_BITS) + 1)


def quantile_ends(
    points: Floats, cuts: Floats, counts: Floats, std: float, q: float, *, pure: bool
) -> tuple[Floats, Floats]:
    """Return the first and last point of the interval of each key.

    Edges are looked at from the outermost inwards, until one is not clear of the noise. So the
    interval fails only if the first edge that is beyond the quantile is clear by noise alone.
    """
    n, top = len(_EDGES), 1 << POINT_BITS
    excess, limits = counts @ _weights(q).T, _limits(q, std, pure=pure)
    below = (excess[:, :n] < -limits[:n]) | (cuts[:, :n] <= 0)
    above = ((excess[:, n:] > limits[n:]) | (cuts[:, n:] > top))[:, ::-1]
    ends = []
    for clear, edges, bound in (
        (below, cuts[:, :n], 0),
        (above, cuts[:, n:][:, ::-1] - 1, top),
    ):
        edges = np.c_[np.full(len(points), bound), edges]
        several = np.logical_and.accumulate(clear, axis=1).sum(axis=1)
        ends.append(edges[np.arange(len(points)), several])
    return ends[0], ends[1]


def values_of(
    aggregate: Aggregate, releases: Sequence[Release], std: float, *, pure: bool
) -> tuple[Floats, Floats, Floats]:
    """Return quantiles and the ends of their intervals, in user units.

    A value counts at its nearest point: so the ends are half a step further out.
    """
    assert aggregate.bounds is not None
    points, cuts, counts = (release.value for release in releases)
    low, high = aggregate.bounds
    first, last = quantile_ends(points, cuts, counts, std, aggregate.q, pure=pure)
    step = (high - low) / 2**POINT_BITS
    return tuple(
        np.clip(low + places * step, low, high) for places in (points, first - 0.5, last + 0.5)
    )
