"""Certified minimisers of regularised logistic losses, under noise.

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
based on importance weighting", Machine Learning 93, section 4. Objective perturbation: section 3.3
of the first; R. Iyengar, J. Near, D. Song, O. Thakkar, A. Thakurta, L. Wang (2019), "Towards
practical differentially private convex optimization", Algorithm 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from skdp.core import noise as samplers
from skdp.core.clipping import GRID_BITS, Floats, View, isqrt_up, power_of_two_grid
from skdp.core.mechanisms import Spherical, l2, sigma_up
from skdp.core.privacy_filter import Meter, Release, Share, exact_fraction, released
from skdp.core.query import Measurement, reviewed
from skdp.core.sums import weight_fractions
from skdp.core.table import REPLACE_ONE, PrivateTable, as_total, fold, total_dtype
from skdp.loss.conversions import gdp_delta, largest, pure_epsilon_from_mu
from skdp.queries.images import softmax
from skdp.queries.views import mapped
from skdp.tabular.rows import Rows

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


# --- objective perturbation -----------------------------------------------------------------------
#
# Released is the minimiser theta of
#
#     sum_i w_i loss_i(theta) + penalty / 2 ||theta||**2 + b . theta
#
# with noise b. Nobody sees b; but theta determines it, so that the density of theta is known
# (logistic.md). The solver goes on until it has *proved* that the gradient at its answer is at most
# tau. How far the answer may be from the exact minimiser is hidden by a second, much smaller noise.


PENALTIES = (1e-9, 1e12)
OBJECTIVE_TAUS = (1e-9, 1e6)
LARGEST_OFFSET = 1e3
POLISH = Fraction(1, 100)  # of a release's epsilon: hides how far the solver is from the minimiser
_LINEAR_BITS = 40  # steps of b in the bound on a row's gradient, as a power of two
_NOISE_BITS = 50  # of an entry of b, at most: the samplers draw exactly up to 2**52


# --- the privacy loss ----------------------------------------------------------------------------


def slope_bound(n_logits: int, cap: float) -> float:
    """Return beta: the Hessian of a row's loss has at most r eigenvalues, of mean at most beta.

    r is 1 for one logit, else the number of classes minus 1.
    """
    if n_logits == 1:
        u = min(cap, 0.5)
        return u * (1 - u)
    k = n_logits
    u = min(cap, (k - 1) / k)
    return u * (2 - u * k / (k - 1)) / (k - 1)


def determinant_loss(n_logits: int, cap: float, penalty: float) -> float:
    """Return J, rounded up: the logarithm of the ratio of two Jacobian determinants is below it."""
    rank = max(1, n_logits - 1)
    return rank * math.log1p(slope_bound(n_logits, cap) / penalty) * (1 + 1e-12)


def _vertices(n_logits: int, relation: str) -> list[tuple[int, float]]:
    """Return how many changes of the gradient are at the vertices, and their squared norms.

    As parts of the largest squared norm, rounded up: logistic.md, "Gaussian noise".
    """
    k = max(2, n_logits)
    if relation != REPLACE_ONE:
        return [(k - 1, 1.0)]
    return [(k - 1, 1.0), ((k - 1) * (k - 2), 0.75), (2 * (k - 1), 0.25)]


def objective_mu(epsilon: float, delta: float, n_logits: int, relation: str) -> float:
    """Return the largest ratio of sensitivity to Gaussian noise of b for (epsilon, delta).

    The epsilon is without J and without the second noise. 0.0 if there is no such ratio.
    """
    if not (epsilon > 0.0 and delta > 0.0):
        return 0.0
    epsilon, delta = math.nextafter(epsilon, 0.0), math.nextafter(delta, 0.0)
    vertices = _vertices(n_logits, relation)

    def holds(mu: float) -> bool:
        terms = [
            n * gdp_delta(epsilon, math.sqrt(part) * mu * (1 + 2**-50)) for n, part in vertices
        ]
        return sum(terms) * (1 + 1e-12) <= delta

    return largest(holds, 1.0)


def _sensitivity(n_logits: int, cap: float, relation: str) -> Fraction:
    """Return by how much the gradient of the loss moves in L2, rounded up."""
    squared = Fraction(cap) ** 2 * (1 if n_logits == 1 else 2)
    size = Fraction(isqrt_up(math.ceil(squared * 2**80)), 2**40)
    return size * (2 if relation == REPLACE_ONE else 1)


def objective_std(
    epsilon: float,
    delta: float,
    n_logits: int,
    dims: int,
    cap: float,
    penalty: float,
    relation: str,
) -> tuple[float, bool]:
    """Return the deviation of an entry of b, and whether the noise is pure, for a whole share.

    Infinite where J takes all of epsilon.
    """
    left = epsilon * (1 - float(POLISH)) - determinant_loss(n_logits, cap, penalty)
    if left <= 0.0:
        return math.inf, True
    size = float(_sensitivity(n_logits, cap, relation))
    pure = size * math.sqrt(n_logits * dims + 1) / left
    mu = objective_mu(left, delta, n_logits, relation)
    return (size / mu, False) if mu * pure > size else (pure, True)


def least_tau(
    n: float, n_logits: int, dims: int, penalty: float, std: float, offset: Floats, loss: float
) -> float:
    """Return the tau from which the search is sure to end, up to a chance of 1e-17.

    - `n`: No fewer than there are rows.
    - `std`: The deviation of an entry of b.
    - `loss`: No less than the mean loss at theta = 0.
    """
    size = n_logits * dims
    longest = 4.0 * std * (math.sqrt(size) + 15.0)  # of b
    longest = (longest + math.sqrt(longest**2 + 2.0 * penalty * n * loss)) / penalty  # of theta
    largest_t = float(np.abs(offset).max()) + longest * (3.0 + math.sqrt(2.0 * dims))
    limbs = 2.0 + math.log2(2.0 + longest) / 20.0 + 4.0
    of_logits = math.sqrt(n_logits) * ((limbs + 6.0) * largest_t / 2.0**54 + 2.0**-60)
    return 8.0 * n * (of_logits + (n_logits + 16.0) / 2.0**51)


# --- the loss ------------------------------------------------------------------------------------


def _losses(
    t: Floats, labels: NDArray, cap: float, *, curvature: bool = False
) -> tuple[Floats, Floats, Floats]:
    """Return the gradients of the losses of rows by their logits, and what Hessians are made of.

    `labels` are -1 where a row has none of the classes; it has no loss.
    """
    known = labels >= 0
    if t.shape[1] == 1:
        sign = np.where(labels == 1, 1.0, -1.0)
        u = softmax(-sign[:, None] * t)[:, 0]  # the probability of the other class
        residual = np.where(known, -sign * np.minimum(u, cap), 0.0)[:, None]
        slope = np.where(known & (u < cap), u * (1.0 - u), 0.0) if curvature else u
        return residual, slope[:, None], slope
    p = softmax(t)
    rows = np.arange(len(p))
    own = np.maximum(labels, 0)
    if curvature:
        p = np.array(p)
    likely = p[rows, own].copy()
    p[rows, own] = 0.0
    u = p.sum(axis=1)  # not 1 - p, which cancels
    factor = np.where(known, np.minimum(1.0, cap / np.maximum(u, 1e-300)), 0.0)
    residual = p * factor[:, None]
    residual[rows, own] = -u * factor
    if not curvature:
        return residual, p, u
    # Uncapped: diag(p) - pp'. Capped, where p_y is left out: cap (diag(q) - qq'), q = p / u.
    inside = u < cap
    p[rows, own] = np.where(inside, likely, 0.0)
    total = np.where(inside, 1.0, np.maximum(u, 1e-300))
    p /= total[:, None]
    return residual, p, np.where(known, np.where(inside, 1.0, cap), 0.0)


@dataclass(frozen=True)
class _Objective:
    """The exact objective, without its noise where `linear` is None."""

    table: Any
    view: Any
    last: int
    scale: float
    offset: Floats
    cap: float
    most: float | None
    penalty: Fraction
    bits: int  # theta = k * 2**-bits, k integers
    linear: NDArray | None = None  # b = linear * unit
    unit: Fraction = Fraction(0)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of logits, and of coordinates with the constant."""
        return len(self.offset), self.view.n_dims + 1

    def _fold(self, k: NDArray, size: int, *, curvature: bool) -> list[NDArray]:
        """Add up what `self._add` makes of the rows at theta = k 2**-bits."""
        n_logits, dims = self.shape
        limbs, width = limbs_of(k.reshape(n_logits, dims).T, self.view.norm)
        parts = limbs.shape[2]
        units = [math.ldexp(1.0, width * (parts - 1 - j)) for j in range(parts)]
        to_t = math.ldexp(self.scale, -self.bits)
        d, last = dims - 1, float(self.last)
        columns, edge = limbs[:d].reshape(d, -1), last * limbs[d].ravel()
        # What other processes run holds public values only.
        offset, cap, most = self.offset, self.cap, self.most
        dtype = total_dtype(self.table.rows, 2 ** (2 * LIMB_BITS))

        def add(block: Any, totals: list[NDArray]) -> None:
            q, labels, *weights = block
            products = (q @ columns + edge).reshape(len(q), n_logits, parts)  # exact integers
            t = np.zeros((len(q), n_logits))
            for j in range(parts):  # from the top: each sum is rounded relative to itself
                t += products[:, :, j] * units[j]
            t *= to_t
            t += offset
            residual, p, factor = _losses(t, labels, cap, curvature=curvature)
            if most is not None:
                fractions = weight_fractions(weights[0], most)
                residual = residual * fractions[:, None]
                factor = factor * fractions
            if curvature:
                _add_curvature(totals[0], q, last, p, factor)
                return
            # At most 2**16 rows * 2**18 * 2**18 = 2**52.
            pieces = pieces_of(residual)
            totals[0][:d] += as_total(q.T @ pieces, dtype)
            totals[0][d] += as_total(pieces.sum(axis=0), dtype)

        def fresh() -> list[NDArray]:
            if curvature:
                return [np.zeros((n_logits, dims, n_logits, dims))]
            return [np.zeros((dims, n_logits * LIMBS), dtype=dtype)]

        read = "labelled" if self.most is None else "weighted_labelled"
        images = mapped(self.table, self.view)
        return images.fold(add, fresh, width=size, least=4 * dims, read=read)

    def totals(self, k: NDArray) -> NDArray:
        """Return the sum of w_i r_i x (q_i, last) 2**54, exactly for the rounded residuals."""
        n_logits, dims = self.shape
        (sums,) = self._fold(k, n_logits, curvature=False)
        powers = np.array([1 << (LIMB_BITS * (LIMBS - 1 - j)) for j in range(LIMBS)], dtype=object)
        total = sums.astype(object).reshape(dims, n_logits, LIMBS) @ powers
        total[-1] *= self.last
        return total.T.ravel()

    def evaluate(self, k: NDArray) -> tuple[list[Fraction], Fraction]:
        """Return the gradient at theta = k 2**-bits, and a bound on its L2 error."""
        scale = Fraction(self.scale) / 2**WEIGHT_BITS
        ridge = self.penalty / 2**self.bits
        gradient = [scale * int(g) + ridge * int(c) for g, c in zip(self.totals(k), k, strict=True)]
        if self.linear is not None:
            gradient = [g + self.unit * int(b) for g, b in zip(gradient, self.linear, strict=True)]
        n_logits, dims = self.shape
        squares = max(sum(int(v) ** 2 for v in row) for row in k.reshape(n_logits, dims))
        longest = Fraction(isqrt_up(squares) + 1, 2**self.bits)
        largest_t = Fraction(float(np.abs(self.offset).max())) + longest * (2 + isqrt_up(2 * dims))
        width = 53 - isqrt_up(2 * dims * self.view.norm**2).bit_length()
        parts = max(1, -(-max(abs(int(v)) for v in k).bit_length() // width))
        # From the third limb on, a sum may lose one unit of the third.
        lost = Fraction(2) ** (width * (parts - 3) - self.bits) if parts > 2 else Fraction(0)
        of_logits = isqrt_up(n_logits) * ((parts + 6) * largest_t / 2**54 + lost)
        return gradient, self.table.rows._n * (of_logits + Fraction(n_logits + 16, 2**51))

    def hessian(self, k: NDArray) -> Floats:
        """Return the Hessian in plain floats: only the choice of the next step depends on it."""
        n_logits, dims = self.shape
        (blocks,) = self._fold(k, n_logits, curvature=True)
        for j in range(n_logits):
            for i in range(j):
                blocks[j, :, i] = blocks[i, :, j].T
        matrix = blocks.reshape(n_logits * dims, n_logits * dims) * self.scale**2
        matrix[np.diag_indices(len(matrix))] += float(self.penalty)
        return matrix


def _add_curvature(total: Floats, q: Floats, last: float, p: Floats, factor: Floats) -> None:
    """Add the Hessians of the losses of a block of rows, for pairs of logits i <= j."""
    n_logits = p.shape[1]
    if n_logits == 1:
        root = np.sqrt(factor)
        q *= root[:, None]
        matrix, edge = total[0, :, 0], q.T @ root * last
        matrix[:-1, :-1] += q.T @ q  # symmetric: numpy computes one half
        matrix[:-1, -1] += edge
        matrix[-1, :-1] += edge
        matrix[-1, -1] += factor.sum() * last**2
        return
    z = np.column_stack([q, np.full(len(q), last)])
    for i in range(n_logits):
        weighted = z * (p[:, i] * factor)[:, None]
        total[i, :, i] += weighted.T @ z
        for j in range(i, n_logits):
            total[i, :, j] -= weighted.T @ (z * p[:, j : j + 1])


def minimum(objective: _Objective, tau: Fraction) -> NDArray:
    """Return k: theta = k 2**-bits has a gradient of norm at most tau, for certain.

    Newton's method with a line search on the slope, which ends (logistic.md).
    """
    k = np.array([0] * math.prod(objective.shape), dtype=object)
    gradient, error = objective.evaluate(k)
    hessian, before = np.zeros((0, 0)), math.inf
    while not _certified(gradient, error, tau):
        norm = math.sqrt(math.fsum(float(g) ** 2 for g in gradient))
        if not norm < before / 10 or not hessian.size:  # else that of an earlier point will do
            hessian = objective.hessian(k)
        before = norm
        step = _descent(gradient, hessian)
        k, (gradient, error) = _along(objective, k, step, _slope(gradient, step), tau)
    return k


# --- the query -----------------------------------------------------------------------------------


@reviewed
@dataclass(frozen=True, eq=False)
class LogisticObjective(Measurement):
    """A penalised logistic regression of labelled rows, by objective perturbation.

    A row's logits are offset + theta . z, where z = (x, constant) is its map to a ball with a
    constant last coordinate, scaled to a norm of at most 1. There is one logit, that of the second
    class, for two classes, or one for each class.

    Guarantee: epsilon-DP for the share's epsilon, or (epsilon, delta)-DP with the session's
    separate delta: J for the ratio of determinants, the noise of b for the remaining epsilon, and
    a hundredth for the second noise. A row moves the gradient by cap (one logit) or cap sqrt 2;
    twice that where it is replaced. Proof: logistic.md.

    - `view`: With at most 2**18 steps.
    - `constant`: The last coordinate, as a part of the view's norm, in [0, 1].
    - `offset` of shape (n_logits,): Public or released.
    - `penalty`: Of theta, for |z| <= 1; in [1e-9, 1e12].
    - `cap`: In (0, 1]: bound on the slope of a row's loss. Beyond it the loss goes on linearly.
    - `tau`: In [1e-9, 1e6], and at least `least_tau`: below it the search may not end.
    - `separate`: Whether b has Gaussian noise, for the session's `separate_delta`.
    - returns: theta * z of shape (n_logits, d + 1), for z in units of the view: the constant's
      coordinate is that of a column of ones. std: the deviation of an entry of b.
    """

    name: ClassVar[str] = "logistic regression, objective perturbation"
    view: Any
    constant: float
    offset: Floats
    penalty: float
    cap: float = 1.0
    tau: float = 1e-5
    separate: bool = False
    weight_bound: float | None = None

    def __post_init__(self) -> None:
        if self.offset.ndim != 1 or not 1 <= self.offset.size != 2:
            raise ValueError("offset must have one number, or one for each of 3 classes or more")
        if not np.abs(self.offset).max() <= LARGEST_OFFSET:
            raise ValueError(f"offset must be within {LARGEST_OFFSET:g}")
        if float(self.view.half.max(initial=0.0)) > 2.0 ** (GRID_BITS + 1):
            raise ValueError("view must have at most 2**18 steps: bits=17")

    @property
    def last(self) -> int:
        """The constant coordinate, in steps of the view."""
        return min(max(round(self.constant * self.view.norm), 1), self.view.norm)

    @property
    def scale(self) -> float:
        """What makes the integers of a row a vector of norm 1 at most, rounded down."""
        squared = self.view.norm**2 + self.last**2
        scale = 1 / math.sqrt(squared)
        while Fraction(scale) ** 2 * squared > 1:
            scale = math.nextafter(scale, 0.0)
        return scale

    def measure(self, table: PrivateTable, meter: Meter, share: Share, name: str) -> Release:
        _check_number(self.constant, "constant", 0.0, 1.0)
        penalty = _check_number(self.penalty, "penalty", *PENALTIES)
        cap = _check_number(self.cap, "cap", 2**-10, 1.0)
        tau = Fraction(_check_number(self.tau, "tau", *OBJECTIVE_TAUS))
        self.view.map(np.zeros((0, table.n_features)))  # refuses rows of other columns
        n_logits, dims = self.offset.size, self.view.n_dims + 1
        size = n_logits * dims
        delta = exact_fraction(meter.separate_delta) if self.separate else Fraction(0)
        noise = _Noise.of(self, penalty, cap, delta, meter, share, table.relation)
        bits = 72 + max(0, math.ceil(math.log2(penalty)))
        start = _Objective(
            table, self.view, self.last, self.scale, self.offset, cap, self.weight_bound,
            Fraction(penalty), bits,
        )  # fmt: skip
        exact = start.totals(np.array([0] * size, dtype=object))
        if delta:
            meter.take_separate_delta(delta, name)
        fraction, _ = meter.take(share, name)
        # Steps of the exact gradient at theta = 0; rounding moves each residual by half a step.
        step = Fraction(self.scale) / 2**WEIGHT_BITS
        moved = math.ceil(noise.sensitivity / step) + 2 * isqrt_up(size) * self.view.norm
        # b is rounded to steps, which moves it by half a step in each coordinate at most.
        slack = 2 * (tau + noise.unit * Fraction(isqrt_up(size), 2)) / Fraction(penalty)
        grid = power_of_two_grid(float(slack))
        second = (math.ceil(slack / Fraction(grid)) + isqrt_up(size)) / noise.second

        def make() -> NDArray:
            b = noise.draw(size, meter.entropy).astype(object)
            k = minimum(replace(start, linear=b, unit=noise.unit), tau)
            steps = [round(Fraction(int(v), 2**bits) / Fraction(grid)) for v in k]
            hidden = samplers.k_norm(size, second, entropy=meter.entropy)
            return np.array(steps, dtype=object) + hidden.astype(object)

        value = meter.release(name, exact, moved, l2, make, (size,))
        what = "rounded Gaussian" if self.separate else "K-norm"
        meter.record(
            name,
            f"objective perturbation, {what}",
            "L2 of the gradient",
            float(noise.sensitivity),
            float(noise.scale * noise.unit),
            fraction,
            delta=float(delta),
        )
        theta = value.astype(np.float64).reshape(n_logits, dims) * grid * self.scale
        theta[:, :-1] /= self.view.grid
        theta[:, -1] *= self.last
        return released(theta, noise.std(size))


@dataclass(frozen=True)
class _Noise:
    """The noise of b in steps of `unit`, and the epsilon of the second noise."""

    sensitivity: Fraction
    unit: Fraction
    scale: Fraction
    second: Fraction
    pure: bool

    @classmethod
    def of(
        cls,
        query: LogisticObjective,
        penalty: float,
        cap: float,
        delta: Fraction,
        meter: Meter,
        share: Share,
        relation: str,
    ) -> _Noise:
        """Return the noise for a share, or raise before it is taken."""
        n_logits, size = query.offset.size, query.offset.size * (query.view.n_dims + 1)
        level = meter.level(share)
        epsilon = Fraction(level if meter.pure else pure_epsilon_from_mu(level))
        second = epsilon * POLISH
        left = epsilon - second - Fraction(determinant_loss(n_logits, cap, penalty))
        if left <= 0:
            raise ValueError("penalty is too small for this share: J is larger than its epsilon")
        sensitivity = _sensitivity(n_logits, cap, relation)
        mu = objective_mu(float(left) * (1 - 2**-50), float(delta), n_logits, relation)
        if query.separate and not mu > 0:
            raise ValueError("Gaussian noise needs a session with a separate delta")
        spread = 1 / mu if query.separate else math.sqrt(size + 1) / float(left)
        bits = min(_LINEAR_BITS, _NOISE_BITS - math.ceil(math.log2(spread)))
        if bits < 1:
            raise ValueError("the share is too small: noise would be beyond what is drawn exactly")
        scale = Fraction(sigma_up(2**bits, mu)) if query.separate else 2**bits / left
        return cls(sensitivity, sensitivity / 2**bits, scale, second, not query.separate)

    def draw(self, size: int, entropy: Any) -> NDArray:
        """Return b in steps."""
        if self.pure:
            return np.asarray(samplers.k_norm(size, self.scale, entropy=entropy))
        return np.asarray(samplers.rounded_gaussian(self.scale, (size,), entropy=entropy))

    def std(self, size: int) -> float:
        """Return the deviation of an entry of b."""
        return float(self.scale * self.unit) * (math.sqrt(size + 1) if self.pure else 1.0)
