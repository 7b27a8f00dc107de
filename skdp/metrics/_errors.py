"""What sums of errors say: R², mean squared and mean absolute error, with their intervals.

Nothing is released here: everything is computed from the sums that `Moments` answers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from skdp.confidence.equations import Equation, Noise, Pair
from skdp.core import PrivacyCertificate
from skdp.metrics._estimate import Estimate, estimate

__all__ = ["RegressionErrors", "Sums"]

_UNKNOWN = (
    "bounds could not be learned well enough, so that intervals allow anything: state max_error "
    "(and target_bounds)"
)
_STATED = "of errors clipped to max_error = {0:g}"


@dataclass(frozen=True)
class Sums:
    """Noisy sums over the rows, all with one standard deviation, and what clipping may have moved.

    Errors are u + 1 in [0, 2], in units of half of `most`; numbers v in [-1, 1], in half widths of
    their bounds.

    Attributes
    ----------
    first, second, n : float
        Of u, of u**2 - 1/2, and the number of rows.
    most : float
        What errors are clipped to.
    target_first, target_second, target_half : float
        Of v, of v**2 - 1/2, and the half width; NaN without targets.
    clipped : tuple of float
        Of the means of u + 1, of its square, and of the variance of v: errors of learned bounds.
    learned : bool
    """

    first: float
    second: float
    n: float
    most: float
    noise: Noise
    clipped: tuple[float, float, float]
    learned: bool
    target_first: float = math.nan
    target_second: float = math.nan
    target_half: float = math.nan

    @property
    def square(self) -> float:
        """The sum of (u + 1)**2."""
        return self.second + 2.0 * self.first + 1.5 * self.n

    def absolute(self) -> Equation:
        """Return the equation of the mean of u + 1."""
        square, n = self.noise.std**2, self.n
        moved = (n * self.clipped[0]) ** 2
        return Equation(self.first + n, n, 2 * square + moved, square, square)

    def squared(self) -> Equation:
        """Return the equation of the mean of (u + 1)**2."""
        square, n = self.noise.std**2, self.n
        moved = (n * self.clipped[1]) ** 2
        return Equation(self.square, n, 7.25 * square + moved, 1.5 * square, square)

    def unexplained(self) -> Equation:
        """Return the equation of 1 - R²: n sum of squared errors, over n**2 times the variance.

        Both are of degree two in the sums x, so beside the gradient g and the noise s**2 |g|**2
        there are those of the Hessian H: a bias s**2 tr(H) / 2, which is taken away, and a variance
        of s**4 |H|**2 / 2 of Gaussian noise; twice that is allowed for.
        """
        s2, n = self.noise.std**2, self.n
        scale = (self.most / 2 / self.target_half) ** 2
        spread = n * self.target_second + n * n / 2 - self.target_first**2
        # By u, u**2, n; and by v, v**2, n.
        up = np.array([2 * n, n, self.square + 1.5 * n]) * scale
        down = np.array([-2 * self.target_first, n, self.target_second + n])
        moved = (scale * n * n * self.clipped[1]) ** 2, (n * n * self.clipped[2]) ** 2
        return Equation(
            scale * (n * self.square - 1.5 * s2),
            spread + 0.5 * s2,
            s2 * (up @ up) + 19 * scale**2 * s2**2 + moved[0],
            s2 * up[2] * down[2] + 3 * scale * s2**2,
            s2 * (down @ down) + 7 * s2**2 + moved[1],
        )


def _absolute_limits(sums: Sums, level: float, sampled: bool) -> Pair:
    equation = sums.absolute()
    width, end = sums.noise.width(level), math.inf if sums.learned else 2.0
    if sampled:
        n, root = sums.n, float(np.clip(equation.root, 0.0, 2.0))
        most = min(float(sums.squared().interval(sums.noise.width(0.99), 0.0, 4.0)[1]), 4.0)
        # The variance of a mean in [0, 2] is at most this, or what the mean square leaves.
        if root * (2 - root) <= most - root**2:
            equation = equation.more(0.0, -n, -n)
        else:
            equation = equation.more(n * most, 0.0, -n)
    low, high = equation.interval(width, 0.0, end)
    return low * sums.most / 2, high * sums.most / 2


def _squared_limits(sums: Sums, level: float, sampled: bool) -> Pair:
    equation = sums.squared()
    if sampled:  # the variance of squares in [0, 4]
        equation = equation.more(0.0, -2 * sums.n, -sums.n)
    end = math.inf if sums.learned else 4.0
    low, high = equation.interval(sums.noise.width(level), 0.0, end)
    return low * sums.most**2 / 4, high * sums.most**2 / 4


def _root_limits(sums: Sums, level: float, sampled: bool) -> Pair:
    low, high = _squared_limits(sums, level, sampled)
    return np.sqrt(low), np.sqrt(high)


def _r2_limits(sums: Sums, level: float, sampled: bool) -> Pair:
    equation = sums.unexplained()
    if sampled:
        # A row adds k (e**2 - E) - theta ((v - m)**2 - V): by (a - b)**2 <= 2 a**2 + 2 b**2, and
        # the variances of squares within their bounds.
        n, scale = sums.n, (sums.most / 2 / sums.target_half) ** 2
        mean = float(np.clip(sums.square / n, 0.0, 4.0))
        middle = float(np.clip(sums.target_first / n, -1.0, 1.0))
        variance = float(np.clip(sums.target_second / n + 0.5 - middle**2, 0.0, 1.0))
        of_errors = scale**2 * mean * (4 - mean)
        of_targets = variance * ((1 + abs(middle)) ** 2 - variance)
        equation = equation.more(2 * n**3 * of_errors, 0.0, 2 * n**3 * of_targets)
    low, high = equation.interval(sums.noise.width(level), 0.0, math.inf)
    return 1.0 - high, 1.0 - low


@dataclass(frozen=True, eq=False, repr=False)
class RegressionErrors:
    """Noisy sums of errors and targets, and metrics computed from them at no further cost.

    Attributes
    ----------
    max_error : float
        The bound to which absolute errors were clipped, stated or learned.
    target_bounds : tuple of float or None
        The bounds to which targets were clipped; None without targets.
    privacy : skdp.core.PrivacyCertificate
        What was released, by which mechanism, at which cost.
    sums : object
        The released sums.
    """

    max_error: float
    target_bounds: tuple[float, float] | None
    privacy: PrivacyCertificate
    sums: Any

    def __repr__(self) -> str:
        found = {"mae": self.mae(), "rmse": self.rmse()}
        if self.target_bounds is not None:
            found["r2"] = self.r2()
        shown = ", ".join(f"{name}: {float(one):.4g}" for name, one in found.items())
        return f"RegressionErrors({shown}, max_error={self.max_error:.4g})"

    def _estimate(self, value: float, limits: Any) -> Estimate:
        if not self.sums.learned:
            note = _STATED.format(self.max_error)
        else:
            note = "" if np.isfinite(self.sums.clipped).all() else _UNKNOWN
        return estimate(value, partial(limits, self.sums), self.privacy, note)

    def mae(self) -> Estimate:
        """Return the mean absolute error.

        Returns
        -------
        error : Estimate
            In the units of the targets.
        """
        root = float(np.clip(self.sums.absolute().root, 0.0, 2.0))
        return self._estimate(root * self.max_error / 2, _absolute_limits)

    def mse(self) -> Estimate:
        """Return the mean squared error.

        Returns
        -------
        error : Estimate
            In squared units of the targets.
        """
        return self._estimate(self._mean_square(), _squared_limits)

    def rmse(self) -> Estimate:
        """Return the root mean squared error.

        Returns
        -------
        error : Estimate
            In the units of the targets.
        """
        return self._estimate(math.sqrt(self._mean_square()), _root_limits)

    def _mean_square(self) -> float:
        return float(np.clip(self.sums.squared().root, 0.0, 4.0)) * self.max_error**2 / 4

    def r2(self) -> Estimate:
        """Return the coefficient of determination R².

        Returns
        -------
        r2 : Estimate
            At most 1. If noise hides the variance of the targets, it is NaN, and its interval
            starts at minus infinity.

        Raises
        ------
        ValueError
            If no targets were released with the errors.
        """
        if self.target_bounds is None:
            raise ValueError("r2 needs the sums of the targets: see regression_errors")
        root = self.sums.unexplained().root
        return self._estimate(1.0 - float(np.maximum(root, 0.0)), _r2_limits)
