"""Images of rows: what `RowSum` adds up, each with the bounds that it states.

Claim for every image: it is an integer vector within its stated bounds, and its row and label alone
decide it, to the last bit. All steps are single IEEE operations on one number, sums in the order of
columns or classes, or exact products of integers. PROOFS.md, "Sums", does the rest.

**Moments** (`Moments`). Each column adds (a q, b p) with |q| <= Q and p = round(q**2 / Q) - Q/2: L1
(a + b/2) d Q, squared L2 (a**2 + b**2 / 4) d Q**2, a change of it 4 a**2 d Q**2 up to b/a = 13/8.
Proof: moments.md.

**Residuals** (`AdditiveResiduals`, `LogisticGradient`) are r = p(logits) - onehot(label).
1. The logits depend on the row alone; so does p: exp(x) is expit(x) / expit(-x), which scipy
   evaluates one number at a time. r = 0 for a label that is no class.
2. `clip_to_norm` makes integers of r and verifies ||r|| <= R = 2**16 clip. By Cauchy and Schwarz
   the L1 norm is at most sqrt(K) R for K logits; a change is at most twice these.
3. |r| <= 2**17, so sums over 2**16 rows are exact.
*Attained* by a row whose label is certainly wrong. (In the same cells of an additive model two rows
have the same p, and their residuals differ by 1.)

**Errors** (`AdditiveErrors`). The prediction (offset and scores of the row's cells) less the
clipped target, over a public unit, is rounded and clipped to an integer |r| <= R = 2**16.
*Attained* by targets a unit away, on either side.

**Gradients** (`LogisticGradient`) are r x (q, t): residuals, the row's integers, and a public
constant t for the intercept.
1. theta is rounded to integers k 2**-b with ||k_c|| sqrt(norm**2 + t**2) <= 2**52. By Cauchy and
   Schwarz no partial sum of k . (q, t) is larger: products are exact in any order, and a row's
   logits depend on the row alone.
2. The Frobenius norm is at most R sqrt(norm**2 + t**2), and twice that for a change.
3. |r| <= 2**17 and |q| < 2**18, so a product over 2**16 rows is below 2**51.
4. With weights r becomes rint(2**15 s r), of norm at most 2**15 R (PROOFS.md, "Sums"). It is split,
   2**16 h + l with |h| <= 2**16 and 0 <= l < 2**16; products with q over a chunk are below
   2**16 2**16 2**18 = 2**50, and are put together as integers.
*Attained* by a row whose label is certainly wrong; for a change by two such rows of opposite labels
that differ in the direction of a large theta only.

**Rows beyond a bound** (`Beyond`). min(max(c - k, 0), M) for a unit with c rows: from 0 to M.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from skdp.core.clipping import (
    GRID_BITS,
    Floats,
    ScaledBox,
    View,
    clip_to_norm,
    isqrt_up,
)
from skdp.core.privacy_filter import Release, released
from skdp.core.query import Terms, reviewed
from skdp.core.sums import Image, Range, RowSum, Values
from skdp.core.table import PrivateTable, as_total
from skdp.queries.cells import ColumnCells, Labels, additive
from skdp.queries.views import AboutZero, LogitBall, TargetBox, mapped

Ints = NDArray[np.int64]

_RESIDUAL_BITS = 16
_PRODUCT_BITS = 52
_FINEST = 40  # bits of theta beyond the point, at most
_HALF_BITS = 16  # of the lower half of weighted residuals


# --- moments --------------------------------------------------------------------------------------

# Factors of values and squares: a replaced row moves the sums no further than with (8, 0).
_WHERE_REPLACED = 8, 13
_LEAST_STEPS = 128  # of a half width, for which the proof in moments.md holds


@reviewed
@dataclass(frozen=True, eq=False)
class Moments(Image):
    """Values relative to a box, u in [-1, 1], and their squares less one half: (u, u**2 - 1/2).

    With a count the answer is (mean, mean square, count), in [-1, 1] and [0, 1]; the errors of the
    first two cover the noise on the sums alone. Without a count it is the two sums.

    A session sets `factors`, (a, b): a row adds (a u, b (u**2 - 1/2)). The larger b, the less noise
    mean squares have.
    """

    what = "clipped values and their squares"
    view: Any
    factors: tuple[int, int] = (1, 1)

    def prepared(self, terms: Terms) -> Moments:
        return replace(self, factors=_WHERE_REPLACED if terms.replaces else (1, 1))

    @property
    def in_cubes(self) -> tuple[Moments, float]:
        """With squares times 2, which move as far as values.

        Steps are compared by the error of a variance where the mean is half way to a bound.
        """
        a, b = self.factors
        return replace(self, factors=(1, 2)), math.hypot(1.0, 0.5) / math.hypot(1.0 / a, 1.0 / b)

    def check_table(self, table: Any) -> None:
        if self.view.steps < _LEAST_STEPS:
            raise ValueError(f"moments need a view of at least {_LEAST_STEPS} steps: 7 bits")

    @property
    def shape(self) -> tuple[int, ...]:
        return (2 * self.view.n_dims,)

    @property
    def unit(self) -> Floats:
        return np.repeat(
            [1.0 / (factor * self.view.steps) for factor in self.factors], self.view.n_dims
        )

    @property
    def count_weight(self) -> int:
        """The half width of a column."""
        return int(self.view.steps)

    @property
    def _squared(self) -> int:
        return int(self.view.n_dims) * int(self.view.steps) ** 2

    @property
    def l1(self) -> int:
        a, b = self.factors
        return (2 * a + b) * int(self.view.n_dims) * int(self.view.steps) // 2  # Q is even

    @property
    def l2_squared(self) -> int:
        a, b = self.factors
        return (4 * a * a + b * b) * self._squared // 4  # Q**2 is a multiple of 4

    @property
    def change_l2_squared(self) -> int:
        a, b = self.factors
        return 4 * a * a * self._squared if 8 * b <= 13 * a else 4 * self.l2_squared

    @property
    def largest(self) -> int:
        a, b = self.factors
        return max(2 * a, b) * int(self.view.steps) // 2

    @property
    def entry_bounds(self) -> tuple[int, int]:
        return self.largest, 2 * self.largest

    def blocks(self, x: Any, labels: Any, cells: Any) -> Iterator[Floats]:
        scale, (a, b) = self.view.steps, self.factors
        q = self.view.map(x)
        yield a * q
        # q**2 is above 2**53, so it is rounded: one operation on one number.
        q *= q
        q *= 1.0 / scale
        np.rint(q, out=q)
        q -= scale // 2
        q *= b
        yield q

    @property
    def width(self) -> int:
        return int(self.view.n_dims)  # values first, then squares

    def total(self, x: Any, labels: Any, weights: Floats | None, dtype: type) -> NDArray:
        """Return the sum of the blocks; what is the same for all rows follows their sum."""
        if weights is not None:
            return super().total(x, labels, weights, dtype)
        scale, (a, b) = self.view.steps, self.factors
        q, ones = self.view.map(x), np.ones(len(x))
        values = a * as_total(ones @ q, dtype)
        q *= q
        q *= 1.0 / scale
        squares = as_total(ones @ np.rint(q, out=q), dtype)
        return np.concatenate([values, b * (squares - len(x) * (scale // 2))])

    def decoded(self, sums: Floats, std: float, count: Release | None) -> Any:
        d, n = self.view.n_dims, 1.0 if count is None else float(count.value)
        values = sums / n * self.unit
        first, second = (std / n / (factor * self.view.steps) for factor in self.factors)
        mean, square = values[..., :d], values[..., d:]
        if count is None:
            return released(mean, first), released(square, second)
        mean, square = np.clip(mean, -1.0, 1.0), np.clip(square + 0.5, 0.0, 1.0)
        return released(mean, first), released(square, second), count


def moments(low: ArrayLike, high: ArrayLike, weight_bound: float | None = None) -> RowSum:
    """Return the query of mean and mean square of each column, relative to a box, and the count.

    The answer is (mean, mean square, count), the first two in [-1, 1] and [0, 1]. With a weight
    bound they are weighted, and the count is the total weight in units of the bound.
    """
    name = "moments" if weight_bound is None else "weighted moments"
    image = Moments(ScaledBox(low, high))
    return RowSum(image, weight_bound=weight_bound, count=True, name=name)


def target_moments(low: float, high: float) -> RowSum:
    """Return the query of mean and mean square of the target, the last column, and the count."""
    image = Moments(TargetBox(np.array([low]), np.array([high])))
    return RowSum(image, count=True, name="moments of the target")


def target_sums(low: float, high: float, cells: ColumnCells) -> RowSum:
    """Return the query of the sums of the target, the last column, in the cells of the others.

    The answer has shape (1, number of cells); a target in [-1, 1] is relative to a box.
    """
    image = Values(TargetBox(np.array([low]), np.array([high])))
    return RowSum(image, cells, noise="smaller", name="sums of the target")


def label_moments(
    low: Floats, high: Floats, n_labels: int, weight_bound: float | None = None
) -> RowSum:
    """Return the query of the sums of u and of u**2 - 1/2 over the rows of each label.

    The answer is two arrays of shape (n_labels, d); u in [-1, 1] is relative to a box. With a
    weight bound they are weighted, in units of the bound.
    """
    image, cells = Moments(ScaledBox(low, high)), Labels(n_labels)
    return RowSum(image, cells, "smaller", weight_bound, name="moments of labels")


# --- sums by label --------------------------------------------------------------------------------


def label_vectors(view: View, n_labels: int, weight_bound: float | None = None) -> RowSum:
    """Return the query of the sums of a view's rows of each label, (n_labels, d).

    With a weight bound they are weighted, in units of the bound.
    """
    cells = Labels(n_labels)
    return RowSum(Values(view), cells, weight_bound=weight_bound, name="vectors of labels")


def label_sums(low: Floats, high: Floats, n_labels: int) -> RowSum:
    """Return the query of the sums of the clipped rows of each label, (n_labels, d).

    The box need not contain 0, so no counts are needed.
    """
    image = Values(AboutZero(low, high, per_feature=True))
    return RowSum(image, Labels(n_labels), noise="smaller", name="label sums")


# --- residuals of models --------------------------------------------------------------------------


def softmax(logits: Floats) -> Floats:
    """Return the probabilities of the classes, (n, K); of one column of logits its expit, (n, 1).

    Guarantee: a row's probabilities depend on its logits alone, to the last bit.
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


def _residual_bound(clip: float) -> int:
    """Return the bound on the norm of a row's residuals, in steps."""
    return max(1, math.floor(min(clip, 2.0) * 2**_RESIDUAL_BITS))


def _residuals(logits: Floats, labels: Ints, bound: int) -> Floats:
    """Return p - onehot(label), clipped to integers; 0 for rows without a known label."""
    residual = softmax(logits)
    if residual.shape[1] == 1:
        residual[:, 0] -= labels == 1
    else:
        residual -= labels[:, None] == np.arange(residual.shape[1])
    residual[labels < 0] = 0.0
    if residual.shape[1] > 1:
        return clip_to_norm(residual, 2.0**-_RESIDUAL_BITS, bound)
    # The norm of one number is its size: the same integers, faster. These two bound NaN, too.
    residual *= 2.0**_RESIDUAL_BITS
    np.rint(residual, out=residual)
    np.fmax(residual, -bound, out=residual)
    return np.fmin(residual, bound, out=residual)


@reviewed
@dataclass(frozen=True, eq=False)
class AdditiveResiduals(Image):
    """The residuals of an additive logistic model; its logits are the scores of a row's cells.

    `scores` (K, number of cells) and `offset` (K,) make the logits, K = 1 for two classes; `clip`
    in (0, 2) bounds the norm of a row's residuals.
    """

    what = "residuals of an additive model"
    unit = 2.0**-_RESIDUAL_BITS
    needs_labels = True
    scores: Floats
    offset: Floats
    clip: float

    def __post_init__(self) -> None:
        if self.scores.ndim != 2:
            raise ValueError(f"scores must have shape (K, n_cells), got {self.scores.shape}")
        # An offset of another shape could be repeated over rows, and differ from row to row.
        if self.offset.shape != (len(self.scores),):
            raise ValueError(f"offset must be a number for each of the {len(self.scores)} logits")

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.scores),)

    @property
    def l1(self) -> int:
        return isqrt_up(len(self.scores) * self.l2_squared)

    @property
    def l2_squared(self) -> int:
        return _residual_bound(self.clip) ** 2

    @property
    def largest(self) -> int:
        return 2**18

    def blocks(self, x: Any, labels: Any, cells: Any) -> Iterator[Floats]:
        logits = self.offset + additive(self.scores, cells)
        yield _residuals(logits, labels, _residual_bound(self.clip))


@reviewed
@dataclass(frozen=True, eq=False)
class AdditiveErrors(Image):
    """The errors of an additive model of a target, the last column, in units of `largest_error`.

    `scores` (one a cell) and `offset` make the prediction; the target is clipped to [low, high],
    the error to `largest_error` > 0, all in user units.
    """

    what = "errors of an additive model"
    unit = 2.0**-_RESIDUAL_BITS
    l1, l2_squared = 2**_RESIDUAL_BITS, 4**_RESIDUAL_BITS
    scores: Floats
    offset: float
    low: float
    high: float
    largest_error: float

    def __post_init__(self) -> None:
        if self.scores.ndim != 1:
            raise ValueError(f"scores must have shape (n_cells,), got {self.scores.shape}")
        for name in ("offset", "low", "high", "largest_error"):
            if np.ndim(getattr(self, name)):  # it could differ from row to row
                raise ValueError(f"{name} must be a number")

    def blocks(self, x: Any, labels: Any, cells: Any) -> Iterator[Floats]:
        error = self.offset + additive(self.scores[None, :], cells)
        error -= np.clip(x[:, -1:], self.low, self.high)
        error /= self.largest_error
        yield clip_to_norm(error, self.unit, self.l1)


def _check_scores(cells: ColumnCells, scores: Floats) -> None:
    """Refuse scores that are not one a cell."""
    if scores.shape[-1:] != cells.shape:
        raise ValueError(f"scores must have {cells.shape[0]} columns, one a cell of `cells`")


def additive_gradient(cells: ColumnCells, scores: Floats, offset: Floats, clip: float) -> RowSum:
    """Return the query of the gradient of an additive logistic model, (K, number of cells)."""
    _check_scores(cells, scores)
    image = AdditiveResiduals(scores, offset, clip)
    return RowSum(image, cells, noise="entries", name="gradient of an additive model")


def additive_errors(
    cells: ColumnCells,
    scores: Floats,
    offset: float,
    low: float,
    high: float,
    largest_error: float,
) -> RowSum:
    """Return the query of predictions less targets of an additive model, summed in each cell.

    In units of `largest_error`. The target is the column after those of the cells.
    """
    _check_scores(cells, scores)
    image = AdditiveErrors(scores, offset, low, high, largest_error)
    return RowSum(image, cells, noise="entries", name="errors of an additive model")


@reviewed
@dataclass(frozen=True, eq=False)
class LogisticGradient(Image):
    """The gradient of the logistic loss of a labelled row.

    - `intercept`: The constant last coordinate of each row, as a part of the view's radius; in [0,
      1].
    - `theta` of shape (K, d + 1): Coefficients of the view's coordinates and of the constant; K is
      1 for two classes.
    - `offset` of shape (K,): Public or released; it is added to the logits.
    - `clip`: Bound on the norm of a row's residuals, in (0, 2).
    """

    what = "gradient of the logistic loss"
    needs_labels = True
    weight_bits = 15
    view: Any
    intercept: float
    theta: Floats
    offset: Floats
    clip: float

    def __post_init__(self) -> None:
        if self.theta.ndim != 2 or self.theta.shape[1] != self.view.n_dims + 1:
            raise ValueError(f"theta must have {self.view.n_dims + 1} columns")
        # An offset of another shape could be repeated over rows.
        if self.offset.shape not in ((), (len(self.theta),)):
            raise ValueError("offset must be a number for each row of theta")

    def prepared(self, terms: Terms) -> LogisticGradient:
        return replace(self, view=self.view.at(GRID_BITS))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.theta.shape

    @property
    def width(self) -> int:
        return self.theta.size

    @property
    def unit(self) -> float:
        return float(self.view.grid[0]) * 2.0**-_RESIDUAL_BITS

    @property
    def l1(self) -> int:
        return isqrt_up(self.theta.size * self.l2_squared)

    @property
    def l2_squared(self) -> int:
        # The square of a whole number of steps, which is what noise is scaled to.
        return isqrt_up(_residual_bound(self.clip) ** 2 * self._norm2) ** 2

    @property
    def largest(self) -> int:
        return 2**36

    @property
    def _last(self) -> int:
        return int(min(max(round(self.intercept * self.view.norm), 0), self.view.norm))

    @property
    def _norm2(self) -> int:
        return int(self.view.norm**2 + self._last**2)

    def logits(self, q: Floats) -> Floats:
        """Return the logits of mapped rows, each a function of its row to the last bit."""
        largest = max(float(np.linalg.norm(self.theta, axis=1).max(initial=0.0)), 2.0**-60)
        room = _PRODUCT_BITS - 1 - math.ceil(math.log2(math.sqrt(self._norm2) * largest))
        bits = min(room, _FINEST)
        k = np.rint(np.ldexp(self.theta, bits))
        product = q @ k[:, :-1].T + float(self._last) * k[:, -1]
        product *= float(self.view.grid[0]) * 2.0**-bits
        return product + self.offset

    def source(self, table: PrivateTable) -> PrivateTable:
        """Return the table of mapped rows: a descent asks for many gradients of them."""
        view = self.view
        return mapped(table, view.gradient.view if isinstance(view, LogitBall) else view)

    def total(self, x: Any, labels: Any, weights: Floats | None, dtype: type) -> NDArray:
        q = self.view.of_mapped(x) if isinstance(self.view, LogitBall) else x
        r = _residuals(self.logits(q), labels, _residual_bound(self.clip))
        if weights is None:
            return self._products(r, q, dtype)
        r = self.weighted(r, weights)  # at most 2**32
        high = np.floor(r * 2.0**-_HALF_BITS)
        r -= high * 2.0**_HALF_BITS
        upper: NDArray = self._products(high, q, dtype) << _HALF_BITS
        return upper + self._products(r, q, dtype)

    def _products(self, r: Floats, q: Floats, dtype: type) -> NDArray:
        """Return the sum of r x (q, t) over rows of integers."""
        constant = as_total(r.sum(axis=0) * self._last, dtype)
        return np.column_stack([as_total(r.T @ q, dtype), constant])


def logistic_gradient(
    view: View,
    intercept: float,
    theta: Floats,
    offset: Floats,
    clip: float,
    weight_bound: float | None = None,
) -> RowSum:
    """Return the query of the gradient of the logistic loss, (K, d + 1); see `LogisticGradient`."""
    name = "gradient of the logistic loss"
    return RowSum(
        LogisticGradient(view, intercept, theta, offset, clip),
        weight_bound=weight_bound,
        name=name if weight_bound is None else f"weighted {name}",
    )


# --- others ---------------------------------------------------------------------------------------


@reviewed
@dataclass(frozen=True, eq=False)
class Beyond(Range):
    """The rows of a unit beyond `max_rows`, at most `most`, in a table with a row for each unit."""

    what = "rows beyond a bound"
    max_rows: int
    most: int

    def __post_init__(self) -> None:
        if min(self.max_rows, self.most) < 1:
            raise ValueError("max_rows and most must be at least 1")

    @property
    def largest(self) -> int:
        return self.most

    def blocks(self, x: Any, labels: Any, cells: Any) -> Iterator[Floats]:
        yield np.clip(x - self.max_rows, 0.0, self.most)


def rows_beyond(max_rows: int, most: int) -> RowSum:
    """Return the query of the number of rows beyond `max_rows` a unit, at most `most` of each."""
    return RowSum(Beyond(max_rows, most), noise="entries", name="rows left out")
