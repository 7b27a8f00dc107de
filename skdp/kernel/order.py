"""The smooth sensitivity of an order statistic, under both relations.

Nothing is released here. Integers in [low, high]; x_(r) is the r-th smallest, `low` for r < 1 and
`high` for r > n. Every function returns the order statistic and log of its smooth sensitivity S,
the least beta-smooth bound on its local sensitivity. Changes of more than `reach` rows are left
out: the caller's floor on S is above what they are worth. Proofs: kernel/README.md, "Smooth
sensitivity".

References
----------
K. Nissim, S. Raskhodnikova, A. Smith (2007), "Smooth sensitivity and sampling in private data
analysis", STOC, section 3.1.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.kernel.protect import Floats

__all__ = [
    "log_best_gap",
    "log_smooth_add",
    "log_smooth_median_add",
    "log_smooth_replace",
    "order_window",
    "rank_of",
    "smooth_sensitivity",
]

_SMALL = 128  # rows of a staircase that are searched whole


def smooth_sensitivity(
    values: ArrayLike, q: Fraction, low: int, high: int, beta: float, *, replace: bool
) -> tuple[int, float]:
    """Return the q-quantile of integers in [low, high] and its beta-smooth sensitivity.

    Public numbers only, for teaching and tests: neither of the two may be shown of private rows.

    Parameters
    ----------
    values : array-like of int, shape (n,)
    q : Fraction
        In [0, 1]; the quantile is x_(max(1, ceil(q n))), and `low` of no values.
    low, high : int
        Bounds, within 2**31; values outside are clipped.
    beta : float
        Positive.
    replace : bool
        Replace-one, or add-or-remove-one.

    Returns
    -------
    quantile : int
    sensitivity : float
        0 where it is below exp(-150) times the width.

    Examples
    --------
    >>> smooth_sensitivity([0, 0, 0, 1, 1, 1, 1], Fraction(1, 2), 0, 1, 0.5, replace=True)
    (1, 1.0)
    """
    x = np.clip(np.asarray(values), low, high).astype(np.int32)
    reach = min(len(x) + 1, int(150 / beta) + 2)
    if replace:
        f, log_s = log_smooth_replace(x, rank_of(q, len(x)), low, high, beta, reach)
    else:
        f, log_s = log_smooth_add(x, q, low, high, beta, reach)
    return f, math.exp(log_s)


def rank_of(q: Fraction, n: int) -> int:
    """Return the rank of the q-quantile of n values: max(1, ceil(q n)); 0 if there are none."""
    return max(1, math.ceil(q * n)) if n else 0


def order_window(
    x: NDArray[np.int32], first: int, last: int, low: int, high: int
) -> NDArray[np.int64]:
    """Return the order statistics x_(first) .. x_(last): `low` below rank 1, `high` above n.

    Sorts what is asked for only; `x` is reordered.
    """
    n = len(x)
    start, stop = max(first, 1), min(last, n)
    out = np.empty(last - first + 1, dtype=np.int64)
    out[: max(start - first, 0)] = low
    out[max(stop - first + 1, 0) :] = high
    if start <= stop:
        if 4 * (stop - start + 1) < n:
            x.partition([start - 1, stop - 1])
            middle = np.sort(x[start - 1 : stop])
        else:
            x.sort()
            middle = x[start - 1 : stop]
        out[start - first : stop - first + 1] = middle
    return out


def _monotone_max(u: Floats, v: Floats, row: Floats, column: Floats) -> float:
    """Return max over (r, c) of (u_r + v_c) row_r column_c, the columns of the maxima ascending.

    Divide and conquer, all rows of a level at once: the best column of a row lies between those of
    its neighbours of the level above. See kernel/README.md for why they ascend and for what a
    comparison lost in rounding costs.
    """
    rows, columns = len(u), len(v)
    best_at = np.zeros(rows, dtype=np.int64)
    best = 0.0
    stride = 1 << max(rows.bit_length() - 1, 0)
    while stride:
        now = np.arange(stride - 1, rows, 2 * stride)
        before, after = now - stride, now + stride
        lo = np.where(before >= 0, best_at[np.maximum(before, 0)], 0)
        hi = np.where(after < rows, best_at[np.minimum(after, rows - 1)], columns - 1)
        lengths = np.maximum(hi - lo, 0) + 1
        starts = np.cumsum(lengths) - lengths
        c = np.arange(lengths.sum()) + np.repeat(lo - starts, lengths)
        value = (np.repeat(u[now], lengths) + v[c]) * column[c]
        value = np.where(value > 0, value, -c)  # no gap: further and further out of the question
        top = np.maximum.reduceat(value, starts)
        hit = np.flatnonzero(value == np.repeat(top, lengths))
        owner = np.searchsorted(starts, hit, side="right") - 1
        best_at[now[owner]] = c[hit]
        best = max(best, float((top * row[now]).max()))
        stride //= 2
    return best


def log_best_gap(left: NDArray[np.int64], right: NDArray[np.int64], beta: float) -> float:
    """Return log of max (left_a + right_b) exp(-beta (a + b - 1)), (a, b) != (0, 0); -inf if 0.

    left_a = x_m - x_{m-a} and right_b = x_{m+b} - x_m ascend from 0. beta times a length is at
    most about 40 (`Ladder.reach`), so nothing underflows.
    """

    def few(length: int) -> NDArray[np.int64]:
        powers = 2 ** np.arange(max(length - 1, 1).bit_length())
        return np.unique(np.concatenate([[0, length - 1], powers[powers < length]]))

    # A lower bound from a few pairs; more changes than `most` are worth less than that.
    a, b = few(len(left)), few(len(right))
    gaps = (left[a][:, None] + right[b][None, :]) * np.exp(-beta * (a[:, None] + b[None, :] - 1))
    least = float(gaps.max())
    if least <= 0.0:
        return -math.inf
    widest = float(left[-1] + right[-1])
    most = int(min(math.log(widest / least) / beta + 3, len(left) + len(right)))
    left, right = left[: most + 1], right[: most + 1]
    # Of equal values, the nearest to the median is as wide and cheaper.
    a = np.flatnonzero(np.diff(left, prepend=-1))[::-1]
    b = np.flatnonzero(np.diff(right, prepend=-1))
    best = _monotone_max(
        left[a].astype(np.float64),
        right[b].astype(np.float64),
        np.exp(-beta * a),
        np.exp(-beta * b),
    )
    return math.log(best) + beta


def log_smooth_replace(
    x: NDArray[np.int32], m: int, low: int, high: int, beta: float, reach: int
) -> tuple[int, float]:
    """Return x_(m) and log of its smooth sensitivity under replace-one.

    S = max over i <= m <= j, i < j of exp(-beta (j - i - 1)) (x_(j) - x_(i)), pairs of more than
    `reach` changed rows left out.
    """
    first, last = max(0, m - reach - 1), min(len(x) + 1, m + reach + 1)
    window = order_window(x, first, last, low, high)
    at = m - first
    left = window[at] - window[: at + 1][::-1]
    right = window[at:] - window[at]
    return int(window[at]), log_best_gap(left, right, beta)


def log_smooth_median_add(
    x: NDArray[np.int32], low: int, high: int, beta: float, reach: int
) -> tuple[int, float]:
    """Return the median and log of its smooth sensitivity under add-or-remove-one.

    S = max over i of exp(-beta (n - 2 i - 1)) (x_(n - i) - x_(i)) and
    exp(-beta (n - 2 i)) (x_(n + 1 - i) - x_(i)); the median of no rows is `low`.
    """
    n = len(x)
    first = max(0, (n - reach) // 2)
    window = order_window(x, first, n + 1 - first, low, high)
    size = len(window)  # n + 2 - 2 first; window[p] is rank first + p
    i = np.arange(size // 2)
    gaps = window[::-1][: size // 2] - window[: size // 2]  # ranks i and n + 1 - i
    best = _log_max(gaps, beta * (n - 2 * (first + i)))
    i = np.arange((size - 1) // 2)
    gaps = window[: size - 1][::-1][: len(i)] - window[: len(i)]  # ranks i and n - i
    best = max(best, _log_max(gaps, beta * (n - 2 * (first + i) - 1)))
    return int(window[rank_of(Fraction(1, 2), n) - first]), best


def log_smooth_add(
    x: NDArray[np.int32], q: Fraction, low: int, high: int, beta: float, reach: int
) -> tuple[int, float]:
    """Return the q-quantile and log of its smooth sensitivity under add-or-remove-one.

    Of no rows it is `low`. For q <= 1/2: S = max over i <= t(r), i < j = n + 1 - r, of
    exp(-beta (n - r - 2 i + max(i, t(r) - 1))) (x_(j) - x_(i)), t(r) = max(1, ceil(q r / (1 - q)))
    and t(0) = 0. For q > 1/2 the same upside down with t(r) = floor(r (1 - q) / q) + 1.
    """
    n = len(x)
    if not n:
        return low, math.log(high - low) if high > low else -math.inf
    m, a, b = rank_of(q, n), q.numerator, q.denominator
    down = q > Fraction(1, 2)
    center = n + 1 - m if down else m
    first, last = max(0, center - reach - 1), min(n + 1, center + reach + 1)
    if down:  # ranks from above: x upside down
        window = -order_window(x, n + 1 - last, n + 1 - first, low, high)[::-1]
    else:
        window = order_window(x, first, last, low, high)
    f = int(window[center - first])
    window = window - f
    j = np.arange(max(1, first), last + 1)
    r = n + 1 - j
    if down:
        top = np.array([v * (b - a) // a + 1 for v in r.tolist()], dtype=np.int64)
    else:
        top = np.array([-(-a * v // (b - a)) for v in r.tolist()], dtype=np.int64)
        top = np.where(r > 0, np.maximum(top, 1), 0)
    best = -math.inf
    for i in (top, top - 1):  # no row is added: cost n - i - r
        keep = (i >= first) & (i < j)
        gaps = window[j[keep] - first] - window[i[keep] - first]
        best = max(best, _log_max(gaps, beta * (n - i[keep] - r[keep])))
    if best > -math.inf:  # changes that even the widest gap would not be worth
        most = int((math.log(max(high - low, 1)) - best) / beta) + 3
        keep = np.abs(j - center) <= most + 1
        j, top = j[keep], top[keep]
        first = max(first, center - most - 1)
        window = window[len(window) - (last - first + 1) :]
    inside = _staircase_max(window, j, top - 1, first, center, beta)
    return (-f if down else f), max(best, inside)


def _staircase_max(
    window: NDArray[np.int64],
    j: NDArray[np.int64],
    most: NDArray[np.int64],
    first: int,
    center: int,
    beta: float,
) -> float:
    """Return log of max (x_j - x_i) exp(-beta (j - 1 + most_j - 2 i)) over first <= i <= most_j.

    `most` descends as j ascends. Cut into rectangles, and small staircases that are searched whole.
    """
    # Of equal values, the lowest j is the cheapest and has the most partners.
    keep = np.flatnonzero(np.diff(window[j - first], prepend=window[0] - 1))
    j, most = j[keep], most[keep]
    upper = window[j - first].astype(np.float64)
    lower = -window.astype(np.float64)
    # j - 1 + most - 2 i, in parts about the center: nothing overflows.
    row = np.exp(-beta * ((most - center) + (j - center) - 1))
    column = np.exp(2 * beta * (np.arange(len(window)) + first - center))
    most = np.minimum(most, first + len(window) - 1)
    best = 0.0
    todo = [(0, len(j), first)]
    while todo:
        start, stop, base = todo.pop()  # rows start .. stop - 1, columns from rank base on
        if start >= stop or most[start] < base:
            continue
        if stop - start <= _SMALL:
            i = np.arange(base, int(most[start]) + 1)
            value = (upper[start:stop, None] + lower[i - first]) * column[i - first]
            value[i[None, :] > most[start:stop, None]] = 0.0
            best = max(best, float((value.max(axis=1) * row[start:stop]).max()))
            continue
        middle = (start + stop) // 2  # rows start .. middle all reach up to most[middle]
        end = int(most[middle])
        if end >= base:
            i = np.arange(base, end + 1)
            # Of equal values, the last is the cheapest.
            i = i[np.flatnonzero(np.diff(window[i - first], append=window[-1] + 1))]
            part = slice(start, middle + 1)
            at = i - first
            found = _monotone_max(upper[part], lower[at], row[part], column[at])
            best = max(best, found)
        todo += [(start, middle, max(base, end + 1)), (middle + 1, stop, base)]
    return math.log(best) if best > 0 else -math.inf


def _log_max(gaps: NDArray[np.int64], cost: NDArray[Any]) -> float:
    """Return the largest log gap - cost; -inf if there is none above 0."""
    keep = gaps > 0
    if not keep.any():
        return -math.inf
    return float((np.log(gaps[keep]) - cost[keep]).max())
