"""The exponential mechanism over a public list of candidates, exactly distributed.

P(i) is proportional to multiplicity_i * exp(-eta * score_i), scores integers, lower is better.
With scores of sensitivity s and eta = epsilon / (2 s) the choice is epsilon-DP; eta = epsilon / s
suffices when all scores move in the same direction. A multiplicity stands for that many candidates
of one score (the grid points of an interval, the multisets of a level); it must be public, or be
covered by the caller's proof.

Method: inversion. V is a uniform with lazily extended bits; the choice is the first i whose
cumulative weight exceeds V times the total. Weights and sums are computed in float64 with an
error bound, and if V is nearer to a boundary than that, in integers with more bits.

References
----------
F. McSherry, K. Talwar (2007), "Mechanism design via differential privacy", FOCS, Theorem 6.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from skdp.core.noise import exact
from skdp.core.noise.entropy import Entropy, resolve
from skdp.core.noise.exact import as_rational, bits_of, exp_bracket

_DIGIT = 6  # bits of a score handled by one table; pairs of tables are multiplied out
_MAX_ETA = Fraction(1 << 60)


def exponential_mechanism(
    scores: Any,
    eta: Any,
    multiplicities: Any = None,
    *,
    entropy: Entropy | None = None,
    whole: Callable[[], tuple[Any, Any]] | None = None,
    others: float = 2.0**-60,
    bits: int | None = None,
) -> int:
    """Choose an index with probability proportional to multiplicity * exp(-eta * score).

    - `scores`: Integers of any size; lower is better.
    - `eta`: Rate, at its exact rational value; in [0, 2**60].
    - `multiplicities`: Non-negative integers of any size, not all zero; None for ones.
    - `entropy`: Source of bits; None for the operating system.
    - `whole`: Returns the scores and multiplicities of all candidates, if those given are but an
      interval of them, with the lowest score. It is called for the draws that the others could
      decide; the index counts in it then. The choice is the same as among all.
    - `others`: Weight of the others, at most, where a candidate of the lowest score has weight 1.
    - `bits`: The first 64 bits of V, if they are drawn already.
    - returns: An index in [0, n).
    - raises TypeError, ValueError: if scores or multiplicities are not integers, have the wrong
      shape, are empty or all zero, or `eta` is not a finite number in the range. The texts quote no
      score.

    **Guarantee.** Exactly distributed, given fair independent bits.
    **Privacy.** (2 eta s)-DP for scores of sensitivity s. The caller charges.
    """
    rate = as_rational(eta, "eta", Fraction(0), _MAX_ETA)
    live, score, count = _candidates(scores, multiplicities)
    source = resolve(entropy)
    v = bits_of(source, 64) if bits is None else bits
    choice = _choose_float(score, count, rate, v, 0.0 if whole is None else others)
    if choice is None and whole is not None:
        live, score, count = _candidates(*whole())
        choice = _choose_float(score, count, rate, v, 0.0)
    if choice is None:
        choice = _choose_exactly(score, count, rate, v, source)
    return int(live[choice])


def _candidates(scores: Any, multiplicities: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the indices of candidates, their scores above the lowest, and multiplicities."""
    score = _integers(scores, "scores")
    if multiplicities is None:
        count = np.ones(score.size, dtype=np.int64)
    else:
        count = _integers(multiplicities, "multiplicities")
        if count.shape != score.shape:
            raise ValueError("multiplicities must have the shape of scores.")
        if bool((count < 0).any()):
            raise ValueError("multiplicities must not be negative.")
    live = np.flatnonzero(count > 0)
    if not live.size:
        raise ValueError("there must be a candidate with a multiplicity of at least 1.")
    if live.size < score.size:
        score, count = score[live], count[live]
    return live, _above_lowest(score), count


def _integers(values: Any, name: str) -> np.ndarray:
    """Return a 1-D int64 array, or an object array of Python ints if they do not fit."""
    # a list is taken as it is: numpy would turn a mixture of int64 and uint64 into floats
    array = np.asarray(values) if hasattr(values, "dtype") else np.array(values, dtype=object)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must be a non-empty one-dimensional array.")
    if array.dtype == object:
        if not all(isinstance(v, (int, np.integer)) for v in array.tolist()):
            raise TypeError(f"{name} must be integers.")
        array = np.array([int(v) for v in array.tolist()], dtype=object)
    elif array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers.")
    if array.dtype.kind == "u":  # which would wrap around
        array = array.astype(object)
    try:
        return array.astype(np.int64, copy=False)
    except OverflowError:
        return array


def _above_lowest(score: np.ndarray) -> np.ndarray:
    """Return the scores minus their minimum, without overflow."""
    low = int(score.min())
    return (score.astype(object) if int(score.max()) - low >= 1 << 63 else score) - low


def _choose_float(
    score: np.ndarray, count: np.ndarray, rate: Fraction, v: int, omitted: float
) -> int | None:
    """Invert in float64; None if the answer is not certain. V is in [v, v + 1) / 2**64.

    Bounds, u = 2**-53. exp(-rate s) is the product over the base-64 digits of s of table values
    that are correct to 1.01 u (if subnormal, to 2**-1074); m digits and the count make at most
    2 m + 2 factors and roundings: relative error (2 m + 3) u. Underflow, and scores beyond the cap
    (true weight below 2**-1074), add at most count * 2**-1000; since the lowest score has weight
    >= 1 and counts are below 2**900 this is under 2**-100 of the total. A running sum of n positive
    terms errs by n u of the total at most, in any order. So every partial sum is within
    rho = (n + 2 m + 8) u * 1.01 of the total S, relative to S, and V S within rho + 4 u; we compare
    with a margin of 4 rho. Candidates on either side that are left out, of weight `omitted` at
    most, move each partial sum, and S, by no more: rho has it too, relative to S.
    """
    n, digits = score.size, 2 * len(_exp_tables(rate))
    if score.dtype == object or int(count.max()) >= 1 << 900:
        return None
    weight = count.astype(np.float64)  # correctly rounded, from int64 and from Python ints
    weight *= exp_weights(score, rate)
    sums = np.cumsum(weight)
    rho = (n + 2 * digits + 8) * 2.0**-53 * 1.01 + exact.SLACK + omitted / sums[-1]
    target = (v * 2.0**-64) * sums[-1]
    reach = 4.0 * rho * sums[-1]
    if omitted and target < reach:
        return None
    first = int(np.searchsorted(sums, target - reach, side="right"))
    last = int(np.searchsorted(sums, target + reach, side="right"))
    return first if first == last and first < n else None


def exp_weights(scores: np.ndarray, rate: Fraction) -> np.ndarray:
    """Return exp(-rate * score) of int64 scores; relative error below 2**-48 if above 2**-1000."""
    weights = (scores <= _cap(rate)).astype(np.float64)
    # All digits that the rate allows, also where the scores have fewer: their number would show in
    # the time that a draw takes.
    for k, table in enumerate(_exp_tables(rate)):
        weights *= table[(scores >> (2 * _DIGIT * k)) & (table.size - 1)]
    return weights


def _cap(rate: Fraction) -> int:
    """Return a score beyond which weights are below 2**-1074, at most 2**63 - 1."""
    return min(math.ceil(745 / rate), 2**63 - 1) if rate else 2**63 - 1


@functools.lru_cache(maxsize=32)
def _exp_tables(rate: Fraction) -> tuple[np.ndarray, ...]:
    """Return the tables of all pairs of digits that a score may have, whatever the scores are.

    The cache belongs to the process: what is in it must be decided by the rate, which is public,
    and not by how large the scores of a call are.
    """
    pairs = -(-_cap(rate).bit_length() // (2 * _DIGIT)) if rate else 0
    tables = [_exp_table(rate, k) for k in range(2 * pairs)]
    both = zip(tables[::2], tables[1::2], strict=True)
    # Read-only, as all share them: the cache holds nothing but powers of exp(-rate).
    return tuple(np.frombuffer(np.outer(high, low).tobytes()) for low, high in both)


def _exp_table(rate: Fraction, k: int) -> np.ndarray:
    """Return exp(-rate * digit * 64**k) for digit = 0..63, correct to 1.01 * 2**-53 relative."""
    out = np.zeros(1 << _DIGIT)
    for digit in range(1 << _DIGIT):
        x = rate * (digit << (_DIGIT * k))
        if x > 745:  # exp(-745) < 2**-1074
            break
        bits = 64 + math.ceil(x * 3 / 2)  # 64 significant bits: exp(-x) > 2**(-1.5 x)
        out[digit] = float(Fraction(exp_bracket(x, bits)[0], 1 << bits))
    return out


def _choose_exactly(
    score: np.ndarray, count: np.ndarray, rate: Fraction, v: int, entropy: Entropy
) -> int:
    """Invert in integers, with as many bits of V as it takes."""
    counts = [int(c) for c in count.tolist()]
    levels, which = np.unique(score, return_inverse=True)
    room = sum(counts).bit_length() + 64
    bits = 64
    while True:
        brackets = [exp_bracket(rate * int(s), bits + room) for s in levels.tolist()]
        low, high, lows, highs = 0, 0, [], []
        for c, level in zip(counts, which.tolist(), strict=True):
            low += c * brackets[level][0]
            high += c * brackets[level][1]
            lows.append(low)
            highs.append(high)
        # first index whose cumulative weight exceeds V * total, for the extremes of both
        first = _first_above(highs, v * low, bits)
        last = _first_above(lows, (v + 1) * high, bits)
        if first == last:
            return first
        v, bits = (v << 64) | bits_of(entropy, 64), bits + 64


def _first_above(sums: list[int], target: int, bits: int) -> int:
    """Return the first index with sums[index] * 2**bits >= target, or the length."""
    lo, hi = 0, len(sums)
    while lo < hi:
        mid = (lo + hi) // 2
        if sums[mid] << bits >= target:
            hi = mid
        else:
            lo = mid + 1
    return lo
