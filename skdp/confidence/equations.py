"""Intervals of ratios of released numbers: what their noise leaves open, and what sampling does.

Nothing is released here. A metric is the root theta of A - theta B, where A and B are polynomials
of degree one or two in numbers that were released with uncorrelated noise. In an interval are all
theta for which A - theta B is no further from 0 than it is, with the probability that is asked for,
at the truth (Fieller 1954): that holds however small B is, where a standard error of the quotient
says nothing. The variance of A - theta B is quadratic in theta, so the ends are roots of a
quadratic.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

Floats = NDArray[np.float64]
Pair = tuple[Floats, Floats]

__all__ = ["Equation", "Noise", "Pair", "check_level", "proportion_equation", "proportions"]


def check_level(level: Any) -> float:
    """Return the level of an interval, above 0 and below 1."""
    if not isinstance(level, numbers.Real) or not 0 < float(level) < 1:
        raise ValueError(f"level must be a number above 0 and below 1; got {level!r}.")
    return float(level)


@dataclass(frozen=True)
class Noise:
    """Noise of released numbers, each of its own.

    Attributes
    ----------
    std : float
    pure : bool
        Whether its tails are those of Laplace noise (or of sums of such); else Gaussian.
    whole : bool
        Whether it is on whole numbers.
    """

    std: float
    pure: bool
    whole: bool = True

    def width(self, level: float) -> float:
        """Return how many standard deviations a sum of such noise stays within at this level.

        Sums of Laplace noises lie between one such noise and a Gaussian.
        """
        gaussian = float(norm.ppf(0.5 + level / 2))
        return max(gaussian, -math.log(1.0 - level) / math.sqrt(2.0)) if self.pure else gaussian

    def reach(self, level: float) -> float:
        """Return the standard deviation for `width`: larger where whole numbers ask for it.

        By half of one: a Gaussian moves by that where it is rounded, and a few whole numbers with
        discrete Laplace noise add up to one. One alone has P(|N| > k) = 2 p**(k + 1) / (1 + p) and
        variance 2 p / (1 - p)**2.
        """
        if not self.whole or self.std <= 0:
            return self.std
        width = self.width(level)
        if not self.pure:
            return self.std + 0.5 / width
        square = self.std**2
        p = max(square / (square + 1.0 + math.sqrt(2.0 * square + 1.0)), 1e-300)
        steps = math.ceil(math.log((1.0 - level) * (1.0 + p) / 2.0) / math.log(p)) - 1.0
        return max(self.std + 0.5 / width, steps / width)


@dataclass(frozen=True)
class Equation:
    """A - theta B = 0, and the variance of it: alpha - 2 beta theta + gamma theta**2.

    Attributes
    ----------
    a, b, alpha, beta, gamma : ndarray
        Of one shape, or numbers.
    """

    a: Any
    b: Any
    alpha: Any
    beta: Any
    gamma: Any

    @property
    def root(self) -> Floats:
        """The metric; NaN where B is 0 or below: no row is known."""
        a, b = np.asarray(self.a, dtype=np.float64), np.asarray(self.b, dtype=np.float64)
        with np.errstate(all="ignore"):
            return np.asarray(np.where(b > 0, a / b, np.nan))

    def more(self, alpha: Any, beta: Any, gamma: Any) -> Equation:
        """Return the equation with a further independent variance."""
        return Equation(self.a, self.b, self.alpha + alpha, self.beta + beta, self.gamma + gamma)

    def interval(self, width: float, low: float, high: float) -> Pair:
        """Return the hull of all theta in [low, high] with |A - theta B| within `width` of 0.

        Where noise has taken the root out of its range the interval keeps its length on the other
        side: it never ends as a point.
        """
        a, b, alpha, beta, gamma = (
            np.asarray(one, dtype=np.float64)
            for one in (self.a, self.b, self.alpha, self.beta, self.gamma)
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

    With `clip` sums below 0 count as 0, which moves them towards the truth. With `sampled` the rows
    are drawn from a population: part - theta (part + other) then has the variance
    n theta (1 - theta) more (Wilson 1927).
    """
    a, c = (np.asarray(one, dtype=np.float64) for one in (part, other))
    if clip:
        a, c = np.maximum(a, 0.0), np.maximum(c, 0.0)
    square = std * std
    # (1 - theta) part - theta other.
    equation = Equation(
        a,
        a + c,
        square * np.asarray(cells),
        square * np.asarray(cells),
        square * (np.asarray(cells) + np.asarray(others)),
    )
    return equation.more(0.0, -(a + c) / 2, -(a + c)) if sampled else equation


def proportions(
    part: Any, other: Any, cells: Any, others: Any, noise: Noise, level: float, *, sampled: bool
) -> Pair:
    """Return the intervals of part / (part + other); see `proportion_equation`."""
    width = noise.width(level)
    # Numbers of rows that are drawn are whole, too.
    std = noise.reach(level) + (0.5 / width if sampled else 0.0)
    equation = proportion_equation(part, other, cells, others, std, sampled=sampled)
    return equation.interval(width, 0.0, 1.0)
