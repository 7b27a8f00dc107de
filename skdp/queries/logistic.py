"""The certified minimiser of a regularised logistic loss, under noise.

Released: the parameters of a logistic regression of private rows against public ones, perturbed at
the sensitivity of the exact minimiser (output perturbation). That sensitivity holds for the
minimiser in real numbers; so the solver goes on until it has *proved* that the gradient at its
answer is at most tau, which costs 2 tau / alpha more. The gradient is computed in integers but for
one elementwise function, so its error is a small multiple of the number of rows. Proofs:
logistic.md.

References
----------
K. Chaudhuri, C. Monteleoni, A. Sarwate (2011), "Differentially private empirical risk
minimization", JMLR 12, section 3.2 and corollary 8; Z. Ji, C. Elkan (2013), "Differential privacy
based on importance weighting", Machine Learning 93, section 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from skdp.core.clipping import GRID_BITS, Floats, View, isqrt_up, power_of_two_grid
from skdp.core.mechanisms import Spherical
from skdp.core.privacy_filter import Release, Share, released
from skdp.core.query import Measurement, reviewed
from skdp.core.table import REPLACE_ONE, as_total, fold, total_dtype
from skdp.tabular.rows import Rows

if TYPE_CHECKING:
    from skdp.core.privacy_filter import Meter
    from skdp.core.table import PrivateTable

__all__ = [
    "LogisticMinimiser",
    "UnitBall",
    "minimiser",
    "minimiser_sensitivity",
]

WEIGHT_ERROR = Fraction(1, 2**50)  # of a row's weight expit(t): logistic.md
WEIGHT_BITS, LIMB_BITS, LIMBS = 54, 18, 3  # weights in integers of 18 bits: exact block sums
_SEARCH_STEPS = 200  # of one line search, by halving: far below the grid of theta

ALPHAS = (1e-6, 1e12)
TAUS = (1e-4, 1e-1)
LARGEST_PUBLIC_WEIGHT = 2.0**32


class UnitBall:
    """The map from rows to z, ||z|| <= 1, with a constant last coordinate for the intercept.

    z = scale * (q, norm) for the integers q of a view, ||q|| <= norm: features and intercept have
    at most 1 / sqrt(2) each. The scale is rounded down, so the bound holds for exact real numbers.

    - `view`: Public bounds and at most 2**18 steps, so that sums of products are exact.
    """

    def __init__(self, view: View) -> None:
        if float(view.half.max(initial=0.0)) > 2.0 ** (GRID_BITS + 1):
            raise ValueError("view must have at most 2**18 steps: Box(..., bits=17)")
        self.view = view
        self.n_dims = view.n_dims + 1
        self.norm = max(1, view.norm)  # a box without width maps to 0
        scale = 1 / math.sqrt(2 * self.norm**2)
        while Fraction(scale) ** 2 * 2 * self.norm**2 > 1:
            scale = math.nextafter(scale, 0.0)
        self.scale = scale

    def features(self, X: Floats) -> Floats:
        """Return z of public rows, shape (m, d + 1)."""
        with np.errstate(all="ignore"):
            q = self.view.map(X)
        return np.concatenate([q, np.full((len(q), 1), float(self.norm))], axis=1) * self.scale


@dataclass(frozen=True)
class _Loss:
    """The exact loss: rows, weights and ridge; see `minimiser`."""

    ball: UnitBall
    private: Rows
    public: Rows
    public_weight: Fraction
    alpha: Fraction
    bits: int  # theta = k * 2**-bits, k integers

    def evaluate(self, k: NDArray) -> tuple[list[Fraction], Fraction, Floats]:
        """Return the gradient at theta = k 2**-bits, a bound on its L2 error, and the Hessian.

        The Hessian is plain floats: only the choice of the next step depends on it.
        """
        ball, scale = self.ball, Fraction(self.ball.scale)
        limbs, width = limbs_of(k[:, None], ball.norm)
        limbs = limbs[:, 0]
        first, curvature = _pass(self.private, ball, limbs, width, self.bits, -1.0)
        other, public_curvature = _pass(self.public, ball, limbs, width, self.bits, 1.0)
        unit = scale / 2**WEIGHT_BITS
        gradient = [
            unit * (self.public_weight * int(b) - int(a)) + self.alpha * int(c) / 2**self.bits
            for a, b, c in zip(first, other, k, strict=True)
        ]
        hessian = curvature + float(self.public_weight) * public_curvature
        hessian *= self.ball.scale**2
        hessian[np.diag_indices(len(k))] += float(self.alpha)
        parts = limbs.shape[1]
        # Adding more than two limbs in float64 may lose up to one unit of the third.
        lost = scale * Fraction(2) ** (width * (parts - 3) - self.bits) if parts > 2 else 0
        weights = self.private._n + self.public_weight * self.public._n
        return gradient, weights * (WEIGHT_ERROR + lost), hessian


def limbs_of(k: NDArray, norm: int) -> tuple[Floats, int]:
    """Return columns (D, m) of Python integers as limbs (D, m, parts), highest first, and a width.

    A limb is below 2**width in size, with sum |q_j| 2**width <= sqrt(2 D) norm 2**width <= 2**53
    for the integers of a row, so that products with rows are exact in whatever order BLAS adds.
    """
    width = 53 - isqrt_up(2 * len(k) * norm**2).bit_length()
    largest = max(abs(int(v)) for v in k.flat)
    parts = max(1, -(-largest.bit_length() // width))
    limbs = np.empty((*k.shape, parts))
    for at, v in np.ndenumerate(k):
        sign, remaining = (-1 if v < 0 else 1), abs(int(v))
        for j in reversed(range(parts)):
            limbs[(*at, j)] = sign * (remaining & ((1 << width) - 1))
            remaining >>= width
    return limbs, width


def pieces_of(weights: Floats) -> Floats:
    """Return numbers (n, m) of at most 1, rounded to 2**-54, as pieces of 18 bits, (n, m * 3)."""
    remaining = np.rint(weights * 2.0**WEIGHT_BITS)
    pieces = np.empty((*weights.shape, LIMBS))
    for j in range(LIMBS):
        unit = math.ldexp(1.0, LIMB_BITS * (LIMBS - 1 - j))
        pieces[..., j] = np.floor(remaining / unit)
        remaining -= pieces[..., j] * unit
    return pieces.reshape(len(weights), -1)


def _pass(
    rows: Rows, ball: UnitBall, limbs: Floats, width: int, bits: int, sign: float
) -> tuple[NDArray, Floats]:
    """Return sum of w_i (q_i, norm) 2**54, exactly for the rounded weights, and sum w(1-w) zz'.

    w_i = expit(sign * theta . z_i).
    """
    d, norm, parts = ball.view.n_dims, float(ball.norm), limbs.shape[1]
    to_t = sign * math.ldexp(ball.scale, -bits)
    units = [math.ldexp(1.0, width * (parts - 1 - j)) for j in range(parts)]
    dtype = total_dtype(rows, 2 ** (2 * LIMB_BITS))

    def add(block: Floats, totals: list[NDArray]) -> None:
        q = ball.view.map(block)
        products = q @ limbs[:d] + norm * limbs[d]  # exact integers
        t = products[:, 0] * units[0]
        for j in range(1, parts):  # from the top: each sum is rounded relative to itself
            t += products[:, j] * units[j]
        t *= to_t
        weight = expit(t)
        pieces = pieces_of(weight[:, None])
        # At most 2**16 rows * 2**18 * 2**18 = 2**52.
        totals[0][:d] += as_total(q.T @ pieces, dtype)
        totals[0][d] += as_total(np.ones(len(q)) @ pieces, dtype)
        slope = weight * expit(-t)
        weighted = q * slope[:, None]
        totals[1][:d, :d] += weighted.T @ q
        totals[1][:d, d] += weighted.sum(axis=0) * norm
        totals[1][d, d] += slope.sum() * norm**2

    def fresh() -> list[NDArray]:
        return [np.zeros((d + 1, LIMBS), dtype=dtype), np.zeros((d + 1, d + 1))]

    sums, curvature = fold(rows, add, fresh, least=4 * d)
    curvature[d, :d] = curvature[:d, d]
    powers = np.array([1 << (LIMB_BITS * (LIMBS - 1 - j)) for j in range(LIMBS)], dtype=object)
    total = sums.astype(object) @ powers
    total[d] *= ball.norm
    return total, curvature


def _certified(gradient: list[Fraction], error: Fraction, tau: Fraction) -> bool:
    """Decide, in exact arithmetic, whether norm + error <= tau."""
    room = tau - error
    return room >= 0 and sum((g * g for g in gradient), start=Fraction(0)) <= room**2


def _moved(k: NDArray, step: list[Fraction] | Floats, bits: int) -> NDArray:
    """Return k + step on the grid, in Python integers."""
    return np.array(
        [int(a) + round(Fraction(s) * 2**bits) for a, s in zip(k, step, strict=True)], dtype=object
    )


def _slope(gradient: list[Fraction], step: Floats) -> float:
    """Return the directional derivative, up to rounding that steers the search only."""
    return math.fsum(float(g) * float(s) for g, s in zip(gradient, step, strict=True))


def _descent(gradient: list[Fraction], hessian: Floats) -> Floats:
    """Return Newton's step; the negative gradient where floats cannot give a descent direction."""
    g = np.array([float(v) for v in gradient])
    try:
        step = np.linalg.solve(hessian, -g)
    except np.linalg.LinAlgError:
        step = -g
    # Far above what rounding can do to the slope: what passes is a descent direction.
    least = 1e-14 * float(np.linalg.norm(g)) * float(np.linalg.norm(step))
    if not (np.isfinite(step).all() and _slope(gradient, step) < -least):
        step = -g
    return step


def _along(
    loss: Any, k: NDArray, step: Floats, slope: float, limit: Fraction
) -> tuple[NDArray, Any]:
    """Return a point along a descent direction, and the gradient there.

    The loss is convex, so its slope grows along the step, from `slope` < 0 to above 0. Doubling and
    halving find a length at which it lies in [slope / 2, 0]; the loss falls up to there.
    """
    low, high, length = 0.0, math.inf, 1.0
    best: tuple[NDArray, Any] | None = None
    for _ in range(_SEARCH_STEPS):
        point = _moved(k, length * step, loss.bits)
        result = loss.evaluate(point)
        if _certified(result[0], result[1], limit):
            return point, result
        slope_there = _slope(result[0], step)
        if slope_there <= 0.0:
            low, best = length, (point, result)
            if slope_there >= slope / 2:
                break
        else:
            high = length
        length = (low + high) / 2 if high < math.inf else 2.0 * length
    return best if best is not None else (point, result)


def minimiser(
    private: Rows,
    public: Rows,
    ball: UnitBall,
    *,
    public_weight: float,
    alpha: float,
    tau: float,
) -> tuple[NDArray, int]:
    """Return k and public bits: theta = k 2**-bits has a gradient of norm at most tau, for certain.

    Newton's method with a line search on the slope, which ends (logistic.md). The loss is that of
    `LogisticMinimiser`.
    """
    bits = 72 + max(0, math.ceil(math.log2(alpha)))
    limit = Fraction(tau)
    loss = _Loss(ball, private, public, Fraction(public_weight), Fraction(alpha), bits)
    k = np.array([0] * ball.n_dims, dtype=object)
    gradient, error, hessian = loss.evaluate(k)
    while not _certified(gradient, error, limit):
        step = _descent(gradient, hessian)
        k, (gradient, error, hessian) = _along(loss, k, step, _slope(gradient, step), limit)
    return k, bits


def minimiser_sensitivity(alpha: float, tau: float, adjacency: str) -> Fraction:
    """Return the L2 sensitivity of a certified minimiser, rounded up.

    A: (1 + 2 tau) / alpha. R: (sqrt 2 + 2 tau) / alpha, as the intercept does not move.
    """
    row = Fraction(isqrt_up(2 << 80), 1 << 40) if adjacency == REPLACE_ONE else Fraction(1)
    return (row + 2 * Fraction(tau)) / Fraction(alpha)


def _on_grid(k: NDArray, bits: int, grid: float) -> NDArray:
    """Return k 2**-bits in steps of a power of two, rounded to nearest."""
    step = Fraction(grid)
    values = [round(Fraction(int(v), 2**bits) / step) for v in k]
    wide = any(abs(v) >= 2**62 for v in values)
    return np.array(values, dtype=object if wide else np.int64)


def _check_number(value: float, name: str, low: float, high: float) -> float:
    """Return a public number as a float, or raise."""
    number = float(value)
    if not low <= number <= high:  # False for NaN too
        raise ValueError(f"{name} must be in [{low:g}, {high:g}], got {number!r}")
    return number


@reviewed
@dataclass(frozen=True, eq=False)
class LogisticMinimiser(Measurement):
    """The logistic regression of the private rows against public ones.

    theta* minimises the sum over private rows of log(1 + exp(-theta . z)), plus public_weight times
    the sum over public rows of log(1 + exp(theta . z)), plus alpha / 2 ||theta||**2; z is
    `UnitBall(view)`.

    Guarantee: output perturbation at the sensitivity 1 / alpha (A), sqrt 2 / alpha (R), plus
    2 tau / alpha for the certified gradient and sqrt(d + 1) steps for rounding to a public grid.
    K-norm noise, or rounded Gaussian.

    - `public` of shape (m, d): Public rows, finite; m may be 0.
    - `alpha`: Ridge, public; in [1e-6, 1e12].
    - `public_weight`: At least 0.
    - `tau`: In [1e-4, 0.1].
    - returns: theta of shape (d + 1,), the intercept's coordinate last; std of one coordinate.
    - raises ValueError: if a parameter is out of range, before anything is taken from the
      allowance.
    """

    name: ClassVar[str] = "logistic regression"
    view: Any
    public: Floats
    alpha: float
    public_weight: float = 1.0
    tau: float = 1e-3

    def __post_init__(self) -> None:
        if self.public.ndim != 2 or self.public.shape[1] != self.view.n_dims:
            raise ValueError(f"public must have shape (m, {self.view.n_dims})")

    def _bounds(self, relation: str) -> tuple[Spherical, float]:
        """Return the sensitivity for one row, in steps of a grid, and this grid."""
        size = minimiser_sensitivity(self.alpha, self.tau, relation)
        grid = power_of_two_grid(float(size))
        # Rounding to the grid moves either solution by half a step a coordinate at most.
        return Spherical(math.ceil(size / Fraction(grid)) + isqrt_up(self.view.n_dims + 1)), grid

    def planned_std(self, allowance: Any) -> float:
        """Return the deviation of the noise on a coordinate, for a `skdp.planning.Allowance`."""
        bounds, grid = self._bounds(allowance.adjacency)
        return float(allowance.std(bounds, self.view.n_dims + 1)) * grid

    def measure(self, table: PrivateTable, meter: Meter, share: Share, name: str) -> Release:
        alpha = _check_number(self.alpha, "alpha", *ALPHAS)
        tau = _check_number(self.tau, "tau", *TAUS)
        largest = LARGEST_PUBLIC_WEIGHT / max(1, len(self.public))
        weight = _check_number(self.public_weight, "public_weight", 0.0, largest)
        ball = UnitBall(self.view)
        # Refuses rows of other columns, also where there are none.
        self.view.map(np.zeros((0, table.n_features)))
        bounds, grid = self._bounds(table.relation)
        k, bits = minimiser(
            table.rows, Rows(self.public), ball, public_weight=weight, alpha=alpha, tau=tau
        )
        exact = _on_grid(k, bits, grid)
        noisy, std = bounds.noised(meter, name, exact, share, grid)
        return released(noisy.astype(np.float64) * grid, std * grid)
