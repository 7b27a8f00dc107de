"""Rows with a target or a label: what linear models and naive Bayes are made of.

Released: noisy integers, from which second moments of rows with their targets, gradients of a
logistic loss, counts, sums and squares of the rows of each label are computed. A row comes with its
target or label, and so does its neighbour: either may change with the other.

**Rows with targets** (`skdp.tabular.check_with_target`) have the target as one more column, the
last. Bounds, means and second moments of such rows are those of any other rows, and so are their
proofs.

**Standardised rows** (`StandardBall`). x is clipped to a box, then z = (x - c) / s, with public or
released c and s: one IEEE operation on one number at a time. z is clipped to a norm by
`skdp.core.clipping.clip_to_norm`, which verifies sum q_j**2 <= norm**2 in integers.

**Weighted rows** (`WeightedBall`). The last column of a row is its weight v, which is clipped to
[0, b], b public. With q the integers of the others, of norm at most N, and a public constant t, the
row becomes rint(sqrt(v / b) (q, t)): one division, one root, one product and one rounding of one
number at a time. sqrt(v / b) <= 1, and rounding is monotone and leaves integers, so no coordinate
is further from 0 than that of (q, t): the norm is at most sqrt(N**2 + t**2), whatever the weight.
A sum of products of such rows is that of (q, t) weighted by v / b, up to rounding, and its
sensitivity is that of any rows in a ball of this norm (second_moments.md). *Attained* by
rows of weight b. The weight of a row changes with the row: it is private, b is not.

**Gradients** (`LogisticGradient`). A row gives r x (q, t): q its integers, t a public constant for
the intercept, r = p(theta) - onehot(label) rounded to steps of 2**-16. theta is rounded to integers
k 2**-b such that ||k_c|| sqrt(norm**2 + t**2) <= 2**52. By Cauchy and Schwarz no partial sum of
k . (q, t) exceeds that, so products are exact in any order, and a row's logits depend on the row
alone. What follows is elementwise: exp(x) is expit(x) / expit(-x), of which scipy evaluates one
number at a time, and sums over classes are added in the order of the classes. `clip_to_norm` brings
r to integers with sum r_c**2 <= R**2, R = 2**16 clip, verified as above; a label that is none of
the classes has r = 0. So the Frobenius norm of a row's part is at most R sqrt(norm**2 + t**2): that
is the sensitivity in L2 if a row is added or removed, and twice that if it is replaced. *Attained*
by a row whose label is certainly wrong; and under replace-one by two such rows of opposite labels
that differ in the direction of a large theta only. |r| <= 2**17 and |q| < 2**18, so a product over
2**16 rows is below 2**51 and exact.

**Logits as rows** (`LogitBall`). A row is mapped to its logits at a public or released theta, each
a function of the row alone to the last bit, as above; `clip_to_norm` brings them to integers with
sum q_k**2 <= norm**2, verified as above. So what is proved of the rows of any ball holds for them,
and that of `LogisticGradient` for gradients of a model of these logits.

**Counts of labels** (`LabelCounts`): a row adds one to one count or to none. L1 1, squared L2 1
(A); 2 and 2 (R).

**Moments of labels** (`LabelMoments`). A row adds (q, p) to the part of its label, nothing to
others, with q in [-Q, Q] in each of d columns and p = round(q**2 / Q) - Q/2, as in
moments.md. A: the bound of there, squared L2 5/4 d Q**2, and L1 3/2 d Q (both at
|q| = Q). R: within a label the bound of there, squared L2 4 d Q**2 (without rounding, (a - b)**2
(1 + (a + b)**2) Q**2 a column for q = a Q and b Q: at most (2 - s)**2 (1 + s**2) Q**2 with s =
|a + b|, which falls from 4 at s = 0); from one label to another the squares add, 5/2 d Q**2, which
is less. L1: 3 d Q.

**Sums of vectors of labels** (`LabelVectors`). A row adds q, ||q|| <= norm, to the part of its
label: norm in L2 (A); 2 norm within a label, sqrt(2) norm from one to another, so 2 norm (R).

**Counts of categories** (`LabelCategories`): a row adds one to one cell a column of its label's
table, or to none: L1 d, squared L2 d (A); 2 d and 2 d (R).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from skdp.core.clipping import (
    GRID_BITS,
    NORM_BITS,
    Floats,
    ScaledBox,
    check_bits,
    check_radius,
    check_width,
    clip_to_norm,
    isqrt_up,
    power_of_two_grid,
    vector,
)
from skdp.core.mechanisms import Independent, Spherical
from skdp.core.privacy_filter import Release, released
from skdp.core.query import Noisy, Query, Terms, check_ascending, reviewed
from skdp.core.sums import histogram_sensitivity, sum_sensitivity
from skdp.core.table import REPLACE_ONE, PrivateTable, as_total, fold, total_dtype
from skdp.queries.histograms import label_sums
from skdp.tabular.rows import Rows

__all__ = [
    "LabelCategories",
    "LabelCounts",
    "LabelMoments",
    "LabelVectors",
    "LogisticGradient",
    "LogitBall",
    "StandardBall",
    "WeightedBall",
    "softmax",
]

_RESIDUAL_BITS = 16
_PRODUCT_BITS = 52
_FINEST = 40  # bits of theta beyond the point, at most


# --- a view -----------------------------------------------------------------------------------


@reviewed
class StandardBall:
    """Rows clipped to a box, centred and scaled column by column, then clipped to an L2 norm.

    Parameters
    ----------
    low, high : array-like of shape (d,)
        Public or released bounds, in user units.
    center, scale : array-like of shape (d,)
        Public or released, in user units; scales are positive.
    radius : float
        Bound on the norm of what is scaled, positive.
    bits : int, default=17
        The radius has 2**bits to 2**(bits + 1) grid steps; at most 30.
    """

    def __init__(
        self,
        low: ArrayLike,
        high: ArrayLike,
        center: ArrayLike,
        scale: ArrayLike,
        radius: float,
        *,
        bits: int = GRID_BITS,
    ) -> None:
        self.low, self.high = vector(low), vector(high)
        self.middle, self.scale = vector(center), vector(scale)
        if len({side.size for side in (self.low, self.high, self.middle, self.scale)}) != 1:
            raise ValueError("low, high, center and scale must have as many numbers")
        self.radius = float(radius)
        if not (0.0 < self.radius < math.inf and np.all(self.scale > 0.0)):
            raise ValueError("radius and scale must be positive")
        self.n_dims = self.low.size
        step = power_of_two_grid(self.radius, check_bits(bits, NORM_BITS))
        self.center = np.zeros(self.n_dims)  # of what rows are mapped to
        self.grid = np.full(self.n_dims, step)
        self.norm = math.floor(self.radius / step)
        self.half = np.full(self.n_dims, float(self.norm))

    def at(self, bits: int) -> StandardBall:
        """Return the same view with another number of steps."""
        return StandardBall(
            self.low, self.high, self.middle, self.scale, self.radius, bits=min(bits, NORM_BITS)
        )

    def map(self, block: Floats) -> Floats:
        """Map float rows to integers with sum q_j**2 <= norm**2."""
        check_width(block, self.n_dims)
        z = np.clip(block, self.low, self.high)
        z -= self.middle
        z /= self.scale
        return clip_to_norm(z, float(self.grid[0]), self.norm)


@reviewed
class WeightedBall:
    """Rows of a ball with a constant behind them, times the root of a part of their own weight.

    The last column of a row is its weight, clipped to [0, most] and divided by `most`. A second
    moment of these is that of (row, constant), weighted; see the module.

    Parameters
    ----------
    ball : StandardBall or Ball
        Of the columns before the weight.
    constant : float
        As a part of the ball's radius, in [0, 1].
    most : float
        Public bound of weights; finite, above 0.
    """

    def __init__(self, ball: Any, constant: float, most: float) -> None:
        if not (0.0 <= constant <= 1.0 and 0.0 < most < math.inf):
            raise ValueError("constant must be in [0, 1], and most finite and positive")
        self.ball = ball
        self.constant, self.most = float(constant), float(most)
        self.n_dims = ball.n_dims + 1
        step = float(ball.grid[0])
        self.last = min(max(round(self.constant * ball.norm), 0), ball.norm)
        self.norm = isqrt_up(ball.norm**2 + self.last**2)
        self.center = np.zeros(self.n_dims)
        self.grid = np.full(self.n_dims, step)
        self.half = np.append(ball.half, float(self.last))

    def at(self, bits: int) -> WeightedBall:
        """Return the same map with another number of steps."""
        return WeightedBall(self.ball.at(min(bits, NORM_BITS - 1)), self.constant, self.most)

    def map(self, block: Floats) -> Floats:
        """Map float rows to integers with sum q_j**2 <= norm**2."""
        check_width(block, self.n_dims)
        root = np.clip(block[:, -1], 0.0, self.most)
        root /= self.most
        np.sqrt(root, out=root)
        z = np.empty((len(block), self.n_dims))
        z[:, :-1] = self.ball.map(block[:, :-1])
        z[:, -1] = self.last
        z *= root[:, None]
        return clip_to_norm(z, 1.0, self.norm)


# --- the gradient of a logistic loss ----------------------------------------------------------


def softmax(logits: Floats) -> Floats:
    """Return probabilities of the classes, (n, K), row by row; of one column expit of it, (n, 1).

    Guarantee: a row's probabilities depend on its logits only, to the last bit.
    """
    if logits.shape[1] == 1:
        return expit(logits)
    below = logits - logits.max(axis=1, keepdims=True)
    weights: Floats = expit(below) / expit(-below)
    total = weights[:, 0].copy()
    for column in weights.T[1:]:
        total += column
    weights /= total[:, None]
    return weights


@reviewed
@dataclass(frozen=True, eq=False)
class LogisticGradient(Query):
    """The gradient of the logistic loss, summed over labelled rows; see the module.

    Attributes
    ----------
    view : StandardBall or Ball
    intercept : float
        The constant last coordinate of each row, as a part of the view's radius; in [0, 1].
    theta : ndarray of shape (K, d + 1)
        Where: coefficients of the view's coordinates, and of the constant. K is 1 for two classes.
    offset : ndarray of shape (K,)
        Public or released, added to the logits.
    clip : float
        Bound on the norm of a row's residuals, in (0, 2).

    Returns
    -------
    gradient : Release, of shape (K, d + 1)
    """

    name: ClassVar[str] = "gradient of the logistic loss"
    view: Any
    intercept: float
    theta: Floats
    offset: Floats
    clip: float

    def prepared(self, terms: Terms) -> LogisticGradient:
        return replace(self, view=self.view.at(GRID_BITS))

    @property
    def _last(self) -> int:
        return int(min(max(round(self.intercept * self.view.norm), 0), self.view.norm))

    @property
    def _bound(self) -> int:
        """The bound on a row's residuals, in steps."""
        return max(1, math.floor(min(self.clip, 2.0) * 2**_RESIDUAL_BITS))

    @property
    def _norm2(self) -> int:
        return int(self.view.norm**2 + self._last**2)

    @property
    def unit(self) -> float:
        return float(self.view.grid[0]) * 2.0**-_RESIDUAL_BITS

    def check_shapes(self) -> None:
        """Refuse numbers that would be repeated over rows, or over logits."""
        if self.theta.ndim != 2 or self.theta.shape[1] != self.view.n_dims + 1:
            raise ValueError(f"theta must have {self.view.n_dims + 1} columns")
        if self.offset.shape not in ((), (len(self.theta),)):
            raise ValueError("offset must be a number for each row of theta")

    def logits(self, q: Floats) -> Floats:
        """Return the logits of mapped rows, each a function of its row to the last bit."""
        largest = max(float(np.linalg.norm(self.theta, axis=1).max(initial=0.0)), 2.0**-60)
        room = _PRODUCT_BITS - 1 - math.ceil(math.log2(math.sqrt(self._norm2) * largest))
        bits = min(room, _FINEST)
        k = np.rint(np.ldexp(self.theta, bits))
        product = q @ k[:, :-1].T + float(self._last) * k[:, -1]
        product *= float(self.view.grid[0]) * 2.0**-bits
        return product + self.offset

    def residuals(self, q: Floats, codes: NDArray[np.int64]) -> Floats:
        """Return the clipped residuals of mapped rows, integers; 0 of those without a label."""
        n_logits = len(self.theta)
        residual = softmax(self.logits(q))
        if n_logits == 1:
            residual[:, 0] -= codes == 1
        else:
            residual -= codes[:, None] == np.arange(n_logits)
        residual[codes < 0] = 0.0
        return clip_to_norm(residual, 2.0**-_RESIDUAL_BITS, self._bound)

    def products(self, r: Floats, q: Floats, dtype: type) -> NDArray:
        """Return the sum of r x (q, t) over rows of integers."""
        constant = as_total(r.sum(axis=0) * self._last, dtype)
        return np.column_stack([as_total(r.T @ q, dtype), constant])

    def exact(self, table: PrivateTable) -> NDArray:
        self.check_shapes()
        rows, view, d = table.rows, self.view, self.view.n_dims
        n_logits = len(self.theta)
        dtype = total_dtype(rows, 2**36)

        def add(block: tuple[Floats, NDArray[np.int64]], totals: list[NDArray]) -> None:
            q = view.map(block[0])
            totals[0] += self.products(self.residuals(q, block[1]), q, dtype)

        def fresh() -> list[NDArray]:
            return [np.zeros((n_logits, d + 1), dtype=dtype)]

        (total,) = table.fold(add, fresh, width=max(d, n_logits), read="labelled")
        return total

    def sensitivity(self, relation: str) -> Spherical:
        size = isqrt_up(self._bound**2 * self._norm2)
        return Spherical(2 * size if relation == REPLACE_ONE else max(1, size))

    def decoded(self, noisy: Noisy) -> Release:
        values = noisy.values.astype(np.float64).reshape(self.theta.shape)
        return released(values * self.unit, noisy.std * self.unit)


@reviewed
class LogitBall:
    """The logits of rows at a public or released theta, clipped to an L2 norm; see the module.

    Parameters
    ----------
    gradient : LogisticGradient
        Whose logits.
    radius : float
        Bound on the norm of a row's logits, positive.
    bits : int, default=17
        The radius has 2**bits to 2**(bits + 1) grid steps; at most 30.
    """

    def __init__(self, gradient: LogisticGradient, radius: float, *, bits: int = GRID_BITS) -> None:
        gradient.check_shapes()
        self.gradient = replace(gradient, view=gradient.view.at(GRID_BITS))
        self.radius = check_radius(float(radius))
        self.n_dims = len(gradient.theta)
        step = power_of_two_grid(self.radius, check_bits(bits, NORM_BITS))
        self.center = np.zeros(self.n_dims)
        self.grid = np.full(self.n_dims, step)
        self.norm = math.floor(self.radius / step)
        self.half = np.full(self.n_dims, float(self.norm))

    def at(self, bits: int) -> LogitBall:
        """Return the same view with another number of steps."""
        return LogitBall(self.gradient, self.radius, bits=min(bits, NORM_BITS))

    def map(self, block: Floats) -> Floats:
        """Map float rows to integers with sum q_k**2 <= norm**2."""
        logits = self.gradient.logits(self.gradient.view.map(block))
        return clip_to_norm(logits, float(self.grid[0]), self.norm)


# --- counts, sums and squares of the rows of each label ------------------------------------------


def _by_label(
    rows: Rows,
    add: Callable[[Floats, NDArray[np.int64], NDArray], None],
    shape: int | tuple[int, int],
    dtype: type = np.int64,
) -> NDArray:
    """Add up what `add` makes of the rows of each block that have a label, exactly."""

    def add_known(block: tuple[Floats, NDArray[np.int64]], totals: list[NDArray]) -> None:
        known = block[1] >= 0
        add(block[0][known], block[1][known], totals[0])

    (total,) = fold(rows, add_known, lambda: [np.zeros(shape, dtype=dtype)], read="labelled")
    return total


@reviewed
@dataclass(frozen=True, eq=False)
class LabelCounts(Query):
    """The number of rows of each label, from `skdp.tabular.check_labelled`; others are in none.

    Guarantee: L1 1, squared L2 1 (A); 2 and 2 (R).
    """

    name: ClassVar[str] = "counts of labels"
    n_labels: int

    def exact(self, table: PrivateTable) -> NDArray:
        def add(block: Floats, codes: NDArray[np.int64], total: NDArray) -> None:
            total += np.bincount(codes, minlength=self.n_labels)

        return _by_label(table.rows, add, self.n_labels)

    def sensitivity(self, relation: str) -> Independent:
        size = histogram_sensitivity(1, relation)
        return Independent(size, size)

    def decoded(self, noisy: Noisy) -> Release:
        return released(noisy.values, noisy.std)


@reviewed
@dataclass(frozen=True, eq=False)
class LabelMoments(Query):
    """The sums of u and of u**2 - 1/2 of the rows of each label, u in [-1, 1] relative to a box.

    Guarantee: see the module.

    Returns
    -------
    sums, squares : Release, of shape (n_labels, d)
    """

    name: ClassVar[str] = "moments of labels"
    low: Floats
    high: Floats
    n_labels: int

    @property
    def _view(self) -> ScaledBox:
        return ScaledBox(self.low, self.high)

    @property
    def unit(self) -> float:
        return 1 / self._view.steps

    def exact(self, table: PrivateTable) -> NDArray:
        view = self._view
        d, scale = view.n_dims, view.steps
        dtype = total_dtype(table.rows, scale)

        def add(block: Floats, codes: NDArray[np.int64], total: NDArray) -> None:
            q = view.map(block)
            p = q * q
            p *= 1.0 / scale
            np.rint(p, out=p)
            p -= scale // 2
            for j, column in enumerate(np.concatenate([q, p], axis=1).T):
                part = np.bincount(codes, weights=column, minlength=self.n_labels)
                total[:, j] += as_total(part, dtype)

        return _by_label(table.rows, add, (self.n_labels, 2 * d), dtype)

    def sensitivity(self, relation: str) -> Independent:
        view = self._view
        d, scale = view.n_dims, view.steps
        l1, l2_squared = 3 * d * scale // 2, -(-5 * d * scale**2 // 4)  # scale is even
        if relation == REPLACE_ONE:
            l1, l2_squared = 3 * d * scale, 4 * d * scale**2
        return Independent(l1, l2_squared, or_spherical=True)

    def decoded(self, noisy: Noisy) -> tuple[Release, Release]:
        d = self._view.n_dims
        values = noisy.values.astype(np.float64).reshape(self.n_labels, 2 * d) * self.unit
        std = noisy.std * self.unit
        return released(values[:, :d], std), released(values[:, d:], std)


@reviewed
@dataclass(frozen=True, eq=False)
class LabelVectors(Query):
    """The sum of the mapped rows of each label, (n_labels, d), in the view's units.

    Guarantee: norm in L2 (A), 2 norm (R).
    """

    name: ClassVar[str] = "vectors of labels"
    view: Any
    n_labels: int

    @property
    def unit(self) -> float:
        return float(self.view.grid[0])

    def exact(self, table: PrivateTable) -> NDArray:
        return label_sums(table.rows, self.view, self.n_labels)

    def sensitivity(self, relation: str) -> Spherical:
        return Spherical(sum_sensitivity(self.view, relation))

    def decoded(self, noisy: Noisy) -> Release:
        values = noisy.values.astype(np.float64).reshape(self.n_labels, self.view.n_dims)
        return released(values * self.unit, noisy.std * self.unit)


@reviewed
@dataclass(frozen=True, eq=False)
class LabelCategories(Query):
    """The number of rows of each label and category, column by column.

    A cell counts as the category that it equals; one that is none of them is in no count.
    Guarantee: L1 d, squared L2 d (A); 2 d and 2 d (R).

    Attributes
    ----------
    categories : tuple of ndarray
        Of each column, public, sorted numbers.

    Returns
    -------
    counts : Release, of shape (n_labels, number of categories of all columns)
    """

    name: ClassVar[str] = "categories of labels"
    categories: tuple[Floats, ...]
    n_labels: int

    def exact(self, table: PrivateTable) -> NDArray:
        for one in self.categories:
            check_ascending(one, "categories")
        sizes = [len(one) for one in self.categories]
        starts = np.concatenate([[0], np.cumsum(sizes)])

        def add(block: Floats, codes: NDArray[np.int64], total: NDArray) -> None:
            check_width(block, len(self.categories))
            width = int(starts[-1])
            for values, known, start in zip(block.T, self.categories, starts, strict=False):
                place = np.minimum(np.searchsorted(known, values), len(known) - 1)
                found = known[place] == values
                flat = codes[found] * width + start + place[found]
                total += np.bincount(flat, minlength=total.size).reshape(total.shape)

        return _by_label(table.rows, add, (self.n_labels, int(starts[-1])))

    def sensitivity(self, relation: str) -> Independent:
        size = histogram_sensitivity(len(self.categories), relation)
        return Independent(size, size)

    def decoded(self, noisy: Noisy) -> Release:
        return released(noisy.values, noisy.std)
