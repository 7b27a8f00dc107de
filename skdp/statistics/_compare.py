"""`compare`: differences of released means and shares, with intervals and p-values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from skdp._docstrings import shared_texts
from skdp.confidence import Released
from skdp.confidence.equations import Floats, check_level
from skdp.parameters import check_parameter

__all__ = ["Comparison", "compare"]

_KNOWN = 0.95  # the level of the intervals of a GROUP BY
_SMALLEST = 1e-9  # of a p-value: tails further out are not those of the intervals
_STEPS = 40  # of a bisection
_OF_COLUMNS = (
    "compare: the columns of one table have the same rows, so their means depend on each other: "
    "compare answers about different rows, as of the groups of a GROUP BY; or of='rows'"
)
_PAIRS = "compare: first has one number; give second, or an answer with one number for each group"


@shared_texts
@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Differences of released numbers; made by `compare`.

    Attributes
    ----------
    first, second : ndarray of object
        What each difference is between: labels, or positions.
    difference : ndarray of shape (n_comparisons,)
        Of the first minus the second.
    low, high : ndarray of shape (n_comparisons,)
        Intervals; with a correction, all of them hold together at the stated level.
    p_value : ndarray of shape (n_comparisons,)
        Of no difference, two-sided, corrected; at least 1e-9. NaN where an error is not known.
    """

    first: NDArray[np.object_]
    second: NDArray[np.object_]
    difference: Floats
    low: Floats
    high: Floats
    p_value: Floats

    def to_frame(self) -> Any:
        """Return a pandas DataFrame, a row for each comparison."""
        import pandas as pd

        return pd.DataFrame(dict(vars(self)))

    def __repr__(self) -> str:
        rows = zip(*vars(self).values(), strict=True)
        return "\n".join(
            f"{a} - {b}: {d:.4g} ({low:.4g} to {high:.4g}), p = {p:.3g}"
            for a, b, d, low, high, p in rows
        )


@shared_texts
def compare(
    first: Released,
    second: Released | None = None,
    *,
    level: float = 0.95,
    of: str = "population",
    correction: str | None = "holm",
) -> Comparison:
    """Compare released means or shares of different groups of rows.

    Parameters
    ----------
    first : Released
        With `second` one or more numbers; alone one for each group, of which all pairs are
        compared: an aggregate of `DPGroupBy.released_`, say.
    second : Released, default=None
        In the shape of `first`.
    level : float, default=0.95
        Of the intervals.
    of : {"population", "rows"}, default="population"
        What differs: the populations that the rows were drawn from, with noise and sampling, or the
        rows at hand, with noise alone. For populations the rows behind two numbers must be
        different ones, drawn independently of each other, and the answers must have
        `Released.population_interval`.
    correction : {"holm"} or None, default="holm"
        For several comparisons: p-values by Holm's method, intervals at 1 - (1 - level) / k.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, or nothing was released that tells how much the rows differ.

    Notes
    -----
    **Privacy.** *Released*, *sensitivity*, *mechanism*: none, as only released numbers are used.
    *Charged*: nothing.

    Of populations, the interval of a difference is that of Zou and Donner: with a in (l, u) and b
    in (m, v) it is a - b less the root of (a - l)**2 + (v - b)**2, and likewise above. The p-value
    is one minus the level at which the interval reaches 0. Of rows, it is that of ``first -
    second``, whose error is NaN where two numbers have noise in common in an unknown way.

    References
    ----------
    Zou & Donner 2008, "Construction of confidence limits about effect measures: a general
    approach", Section 2.

    Holm 1979, "A simple sequentially rejective multiple test procedure", Section 2.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import statistics
    >>> rng = np.random.default_rng(0)
    >>> options = {"bounds": (0, 100), "intervals": True, "random_state": 0}
    >>> north = statistics.mean(rng.normal(52, 10, 4000), **options)
    >>> south = statistics.mean(rng.normal(50, 10, 4000), **options)
    >>> comparison = statistics.compare(north, south)
    >>> bool(comparison.low[0] > 0), bool(comparison.p_value[0] < 0.01)
    (True, True)
    """
    check_parameter(of, "of", "population", "rows")
    check_parameter(correction, "correction", "holm", None)
    level = check_level(level)
    pairs = _pairs(first, second, of)
    k = len(pairs)
    ends_at = [_ends(a, b, of) for _, a, _, b in pairs]
    simultaneous = 1.0 - (1.0 - level) / k if correction else level
    low, high = np.array([ends(simultaneous) for ends in ends_at]).T
    p_value = np.array([_p_value(ends) for ends in ends_at])
    difference = np.array([float(a.value) - float(b.value) for _, a, _, b in pairs])
    names = np.empty((2, k), dtype=object)
    names[0], names[1] = [pair[0] for pair in pairs], [pair[2] for pair in pairs]
    p_value = _holm(p_value) if correction else p_value
    return Comparison(names[0], names[1], difference, low, high, p_value)


Pair = tuple[Any, Released, Any, Released]


def _pairs(first: Any, second: Any, of: str) -> list[Pair]:
    """Return the pairs of numbers to compare, each with its name."""
    for answer, name in ((first, "first"), (second, "second")):
        if not isinstance(answer, Released) and not (answer is None and name == "second"):
            raise TypeError(f"compare: {name} must be Released, got {type(answer).__name__}")
    if second is None:
        if np.size(first.value) < 2:
            raise ValueError(_PAIRS)
        if of == "population" and (not first.labels or "column" in first.labels):
            raise ValueError(_OF_COLUMNS)
        entries = _entries(first, "")
        return [(*one, *other) for one, other in combinations(entries, 2)]
    if np.shape(first.value) != np.shape(second.value):
        raise ValueError("compare: first and second must have the same shape")
    both = zip(_entries(first, "first"), _entries(second, "second"), strict=True)
    return [(*one, *other) for one, other in both]


def _entries(answer: Released, name: str) -> list[tuple[Any, Released]]:
    """Return the numbers of an answer, each with its label."""
    if not np.ndim(answer.value):
        return [(name or 0, answer)]
    places = list(np.ndindex(np.shape(answer.value)))
    labels = []
    for place in places:
        cells = [values[place] for values in answer.labels.values()]
        own = cells[0] if len(cells) == 1 else tuple(cells) if cells else place[-1]
        labels.append(own)
    return [(label, answer[place]) for label, place in zip(labels, places, strict=True)]


def _ends(a: Released, b: Released, of: str) -> Callable[[float], tuple[float, float]]:
    """Return what computes the interval of a - b at a level."""
    if of == "rows":
        return (a - b).interval
    x, y = float(a.value), float(b.value)

    def ends(level: float) -> tuple[float, float]:
        (low, high), (least, most) = _of_population(a, level), _of_population(b, level)
        below = np.hypot(x - low, most - y)
        return x - y - below, x - y + np.hypot(high - x, y - least)

    return ends


def _of_population(answer: Released, level: float) -> tuple[float, float]:
    """Return an interval for a population; where one level alone is known, by normal quantiles."""
    try:
        return answer.population_interval(level)
    except ValueError:
        low, high = answer.population_interval(_KNOWN)  # or the error of what has none
    value, times = float(answer.value), float(ndtri(0.5 + level / 2) / ndtri(0.5 + _KNOWN / 2))
    return value - times * (value - low), value + times * (high - value)


def _p_value(ends: Callable[[float], tuple[float, float]]) -> float:
    """Return one minus the largest level at which an interval leaves 0 out."""
    low, high = ends(0.5)
    if np.isnan(low) or np.isnan(high):
        return float("nan")
    inside, outside = np.log(_SMALLEST), np.log(1.0 - 1e-9)  # of p: 0 is inside, or out
    low, high = ends(1.0 - _SMALLEST)
    if not low <= 0.0 <= high:
        return _SMALLEST
    for _ in range(_STEPS):
        middle = (inside + outside) / 2.0
        low, high = ends(1.0 - float(np.exp(middle)))
        if low <= 0.0 <= high:
            inside = middle
        else:
            outside = middle
    return float(np.exp(inside))


def _holm(p: Floats) -> Floats:
    """Return p-values corrected for several comparisons; NaN stays, and counts as one of them."""
    order = np.argsort(p, kind="stable")  # NaN last
    times = len(p) - np.arange(len(p))
    corrected = np.empty_like(p)
    known = np.maximum.accumulate(np.minimum(p[order] * times, 1.0))
    corrected[order] = np.where(np.isnan(p[order]), np.nan, known)
    return corrected
