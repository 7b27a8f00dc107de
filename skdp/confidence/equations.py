"""Errors of sums and quotients of released numbers, of moments and of roots.

`Errors` adds up the errors of several released numbers. The rest of the module is on quotients.

A metric is the root theta of A - theta B, where A and B are polynomials in released numbers. Its
interval holds all theta for which A - theta B is within some standard deviations of 0 (Fieller
1954). Unlike a standard error of the quotient, this covers however small B is. The variance of
A - theta B is quadratic in theta, so the ends are roots of a quadratic.
"""

from __future__ import annotations

import math
import numbers
import uuid
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from skdp.core import current_transcript

Floats = NDArray[np.float64]
Pair = tuple[Floats, Floats]


def check_level(level: Any) -> float:
    """Return the level of an interval, above 0 and below 1."""
    if not isinstance(level, numbers.Real) or not 0 < float(level) < 1:
        raise ValueError(f"level must be a number above 0 and below 1; got {level!r}.")
    return float(level)


def discrete_laplace_reach(std: Any, level: float) -> Any:
    """Return the whole number that discrete Laplace noise stays within at this level."""
    # P(|N| > k) = 2 p**(k + 1) / (1 + p), and the variance is 2 p / (1 - p)**2.
    square = np.square(std)
    # (s + 1 - sqrt(2 s + 1)) / s without cancellation.
    p = np.maximum(square / (square + 1.0 + np.sqrt(2.0 * square + 1.0)), 1e-300)
    return np.ceil(np.log((1.0 - level) * (1.0 + p) / 2.0) / np.log(p)) - 1.0


@dataclass(frozen=True)
class Noise:
    """Independent noise of several released numbers, with one standard deviation.

    `pure` noise has the tails of (sums of) Laplace noise, other noise is Gaussian. `integer`: on
    whole numbers.
    """

    std: float
    pure: bool
    integer: bool = True

    def width(self, level: float) -> float:
        """Return the half width, in standard deviations, for a sum of such noise at this level."""
        # Sums of Laplace noises lie between one such noise and a Gaussian.
        gaussian = float(norm.ppf(0.5 + level / 2))
        return max(gaussian, -math.log(1.0 - level) / math.sqrt(2.0)) if self.pure else gaussian

    def reach(self, level: float) -> float:
        """Return the standard deviation for `width`, enlarged for noise on whole numbers."""
        # Rounding moves a Gaussian by up to a half; sums of few discrete Laplace noises reach at
        # most a half further than continuous ones.
        if not self.integer or self.std <= 0:
            return self.std
        width = self.width(level)
        if not self.pure:
            return self.std + 0.5 / width
        return max(self.std + 0.5 / width, float(discrete_laplace_reach(self.std, level)) / width)


@dataclass(frozen=True)
class Equation:
    """A - theta B = 0; A - theta B has the variance alpha - 2 beta theta + gamma theta**2.

    All five are numbers, or arrays of one shape.
    """

    a: Any
    b: Any
    alpha: Any
    beta: Any
    gamma: Any

    @property
    def root(self) -> Floats:
        """The metric; NaN where B is 0 or below, because noise hides all rows."""
        a, b = np.asarray(self.a, dtype=np.float64), np.asarray(self.b, dtype=np.float64)
        with np.errstate(all="ignore"):
            return np.asarray(np.where(b > 0, a / b, np.nan))

    def more(self, alpha: Any, beta: Any, gamma: Any) -> Equation:
        """Return the equation with a further independent variance."""
        return Equation(self.a, self.b, self.alpha + alpha, self.beta + beta, self.gamma + gamma)

    def interval(self, width: float, low: float, high: float) -> Pair:
        """Return the hull of all theta in [low, high] with |A - theta B| <= `width` deviations.

        If noise moves the root out of its range, the interval keeps its length on the other side,
        so that it never shrinks to a point.
        """
        a, b, alpha, beta, gamma = (
            np.asarray(term, dtype=np.float64)
            for term in (self.a, self.b, self.alpha, self.beta, self.gamma)
        )
        w2 = width * width
        with np.errstate(all="ignore"):
            # (b**2 - w2 gamma) t**2 - 2 (a b - w2 beta) t + (a**2 - w2 alpha) <= 0
            second, first, none = b * b - w2 * gamma, a * b - w2 * beta, a * a - w2 * alpha
            clear = (second > 0) & (b > 0)
            spread = np.sqrt(np.maximum(first * first - second * none, 0.0))
            lower, upper = (first - spread) / second, (first + spread) / second
            root = a / b
            clear &= np.isfinite(spread)
            inside = np.clip(root, low, high)
            lower = np.minimum(lower, inside - (root - lower))
            upper = np.maximum(upper, inside + (upper - root))
        lower = np.where(clear, np.clip(lower, low, high), low)
        upper = np.where(clear, np.clip(upper, low, high), high)
        return lower, upper


def proportion_equation(
    part: Any, other: Any, cells: Any, others: Any, std: float, *, sampled: bool, clip: bool = True
) -> Equation:
    """Return the equation of part / (part + other), of noisy sums of so many counts each.

    With `clip` sums below 0 count as 0. With `sampled` the rows are drawn from a population.
    """
    a, c = (np.asarray(total, dtype=np.float64) for total in (part, other))
    if clip:
        a, c = np.maximum(a, 0.0), np.maximum(c, 0.0)
    square, cells, others = std * std, np.asarray(cells), np.asarray(others)
    # The variance of (1 - theta) part - theta other.
    equation = Equation(a, a + c, square * cells, square * cells, square * (cells + others))
    # Sampling adds n theta (1 - theta) (Wilson 1927).
    return equation.more(0.0, -(a + c) / 2, -(a + c)) if sampled else equation


def proportions(
    part: Any, other: Any, cells: Any, others: Any, noise: Noise, level: float, sampled: bool
) -> Pair:
    """Return the intervals of part / (part + other); see `proportion_equation`."""
    width = noise.width(level)
    # Numbers of rows that are drawn are whole, too.
    std = noise.reach(level) + (0.5 / width if sampled else 0.0)
    equation = proportion_equation(part, other, cells, others, std, sampled=sampled)
    return equation.interval(width, 0.0, 1.0)


# --- standard errors of moments and roots ---------------------------------------------------------

FOURTH_MOMENT = 5.0  # of noise over its squared variance; 3 for a normal deviate, 6 for a Laplace


def moment_errors(
    mean: Floats, square: Floats, mean_noise: Any, square_noise: Any, count_noise: Any
) -> tuple[Floats, Floats]:
    """Return the standard errors of mean and variance from those of the two moments.

    All are in units of the half width. `mean_noise` and `square_noise` are the noise on the two
    sums, over the number of rows; `count_noise` is that on the number of rows, over the number: 0
    if it is public.
    """
    # A released mean differs from the exact mean m by (noise of the sum - m times the noise of the
    # number) / released number; m itself is known up to the noise.
    near = np.minimum(np.abs(mean) + mean_noise, 1.0)
    mean_error = np.hypot(mean_noise, count_noise * near)
    moved = square - 0.5 - 2.0 * mean**2
    # The variance is square - mean**2: on few rows the square of the mean's error counts, too.
    variance = np.square(square_noise) + (2.0 * mean * mean_noise) ** 2 + (count_noise * moved) ** 2
    return mean_error, np.sqrt(variance + FOURTH_MOMENT * mean_error**4)


def root_error(value: Floats, error: Floats) -> Floats:
    """Return the standard error of the square root of a released number that is at least 0.

    If the number moves by k of its standard errors, for any k from 1 to 3, the root moves by at
    most k of these. Downwards the move per k is largest at the k that ends at 0, upwards at k = 1.
    """
    reach = np.clip(value / np.where(error > 0, error, 1.0), 1.0, 3.0)
    down = (np.sqrt(value) - np.sqrt(np.maximum(value - reach * error, 0.0))) / reach
    up = np.sqrt(value + error) - np.sqrt(value)
    return np.maximum(down, up)


# --- errors of sums -------------------------------------------------------------------------------


def new_key() -> str:
    """Return a name that nothing else has, in any process; copies and pickles keep it."""
    transcript = current_transcript()
    if transcript is not None:  # an audit compares fits: names must follow from releases alone
        return f"audited {len(transcript.entries)}"
    return uuid.uuid4().hex


@dataclass(frozen=True, eq=False)
class Source:
    """The errors of the entries of one release.

    - `noise` of shape (n,): Standard deviation of each entry's noise.
    - `shared` of shape (n,): How much of one further noise each entry has: that of the number of
      rows, in means.
    - `clipping` of shape (n,): Errors that may have one sign, in all entries of all releases: they
      add up without squares.
    - `uncorrelated`: Whether the noise of entries is; else a sum of two of them has an unknown
      error.
    - `session`: Names the session that drew the noise. Different sessions draw independently,
      unless both are seeded. Empty if the session is not known: nothing is then known of sums with
      others.
    - `key`: Names this release.
    """

    privacy: tuple[Any, ...]
    noise: Floats
    shared: Any = 0.0
    clipping: Any = 0.0
    uncorrelated: bool = False
    session: str = ""
    key: str = field(default_factory=new_key)

    @classmethod
    def of_session(cls, privacy: Any, noise: Any, **options: Any) -> Source:
        """Return the errors of the only release of a session."""
        session = new_key()
        return cls((privacy,), np.ravel(noise), session=session, key=session, **options)

    @property
    def seeded(self) -> bool:
        """Whether other releases may have the same noise, drawn with the same seed."""
        return any(getattr(privacy, "seeded", False) for privacy in self.privacy)


@dataclass(frozen=True, eq=False)
class Errors:
    """Errors of numbers: each is a sum of k multiples of the errors of entries of releases.

    - `source` of shape (k,): The place of each term's release among the sources.
    - `entry` of shape (k, n): The entry of the release, for each term of each number.
    - `factor` of shape (k, n)
    """

    sources: tuple[Source, ...]
    source: NDArray[np.intp]
    entry: NDArray[np.intp]
    factor: Floats

    @classmethod
    def of(cls, source: Source) -> Errors:
        """Return the errors of the entries of a release."""
        size = source.noise.size
        return cls((source,), np.zeros(1, np.intp), np.arange(size)[None], np.ones((1, size)))

    @classmethod
    def none(cls, size: int) -> Errors:
        """Return the errors of public numbers."""
        no_terms = np.zeros((0, size))
        return cls((), np.zeros(0, np.intp), no_terms.astype(np.intp), no_terms)

    def at(self, places: NDArray[np.intp], factor: Any = 1.0) -> Errors:
        """Return the errors of multiples of the numbers at some places, of shape (m,)."""
        scaled = self.factor[:, places] * factor
        return replace(self, entry=self.entry[:, places], factor=scaled)

    def __add__(self, other: Errors) -> Errors:
        known = {source.key: source for source in (*self.sources, *other.sources)}
        place = {key: i for i, key in enumerate(known)}
        others = np.array([place[source.key] for source in other.sources], dtype=np.intp)
        return Errors(
            tuple(known.values()),
            np.concatenate([self.source, others[other.source]]),
            np.concatenate([self.entry, other.entry]),
            np.concatenate([self.factor, other.factor]),
        )

    def sums(self, places: NDArray[np.intp]) -> Errors:
        """Return the errors of sums of p numbers each, whose places have the shape (m, p)."""
        m, p = places.shape
        terms = len(self.source) * p
        entry = np.moveaxis(self.entry[:, places], 2, 1).reshape(terms, m)
        factor = np.moveaxis(self.factor[:, places], 2, 1).reshape(terms, m)
        return Errors(self.sources, np.repeat(self.source, p), entry, factor)

    @property
    def std(self) -> Floats:
        """The standard error of each number; NaN where it depends on unknown correlations."""
        n = self.entry.shape[1]
        variance, clipping, total = np.zeros((3, n))
        used = {"": np.zeros(n)}  # by session, and "seeded": how many releases are in each number
        for i, source in enumerate(self.sources):
            own = self.source == i
            entry, factor = _joined(self.entry[own], self.factor[own])
            present = factor != 0

            def parts(of: Any, source: Any = source, terms: Any = (entry, factor, present)) -> Any:
                entry, factor, present = terms
                of = np.broadcast_to(of, source.noise.shape)
                return np.where(present, factor * of[entry], 0.0)  # 0 times NaN is 0 here

            square = np.sum(np.square(parts(source.noise)), axis=0)
            square += np.square(np.sum(parts(source.shared), axis=0))
            unknown = (np.count_nonzero(present, axis=0) > 1) & (not source.uncorrelated)
            variance += np.where(unknown, np.nan, square)
            clipping += np.sum(np.abs(parts(source.clipping)), axis=0)
            is_used = np.any(present, axis=0)
            total += is_used
            for name in (source.session, *["seeded"] * source.seeded):
                used[name] = used.get(name, 0.0) + is_used
        dependent = (used.pop("") > 0) & (total > 1)
        for number in used.values():
            dependent |= number > 1
        return np.where(dependent, np.nan, np.sqrt(variance + np.square(clipping)))


def _joined(entry: NDArray[np.intp], factor: Floats) -> tuple[NDArray[np.intp], Floats]:
    """Return terms of shape (k, n) with the factors of equal entries added up in one term."""
    if len(entry) < 2:
        return entry, factor
    order = np.argsort(entry, axis=0, kind="stable")
    entry = np.take_along_axis(entry, order, axis=0)
    factor = np.take_along_axis(factor, order, axis=0)
    starts = np.concatenate([np.zeros((1, entry.shape[1]), bool), entry[1:] != entry[:-1]])
    places = np.cumsum(starts, axis=0), np.arange(entry.shape[1])
    joined, total = np.zeros_like(entry), np.zeros_like(factor)
    joined[places] = entry
    np.add.at(total, places, factor)
    return joined, total
