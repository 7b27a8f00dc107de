"""Statistics of rows with weights of their own: a row counts by a part of what it would count.

Released: moments, sums, totals of labels and gradients in which a row with the private weight v
counts v / b times, v clipped to [0, b], b public.

Guarantee: a row adds a bounded integer vector that depends on the row and its weight only, and is
in no coordinate further from 0 than that of a row of weight b. The sum of all weights is private
under both relations; nothing is divided by a number of rows. Proofs: weighted.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from skdp.core.clipping import SUM_BITS, Floats, ScaledBox, isqrt_up
from skdp.core.mechanisms import Independent, Spherical
from skdp.core.privacy_filter import Release, released
from skdp.core.query import Noisy, Query, Terms, reviewed
from skdp.core.table import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    PrivateTable,
    as_total,
    total_dtype,
)
from skdp.queries.row_weights import parts_of, steps_of

if TYPE_CHECKING:
    from skdp.queries.linear import LogisticGradient

__all__ = [
    "WeightedCount",
    "WeightedGradient",
    "WeightedLabelCounts",
    "WeightedMean",
    "WeightedMoments",
]

_WEIGHT_BITS = 30  # a weight of b has 2**30 steps, where weights are added up
_FINER_BITS, _HALF_BITS = 15, 16  # of weighted residuals; of their lower halves
# Rounding may move each coordinate of the difference of two rows by less than this many steps.
_ROUNDED = 2


def _weighted(q: Floats, parts: Floats) -> Floats:
    """Return integer-valued rows times their parts, rounded; no coordinate is further from 0."""
    return np.rint(q * parts[:, None])


@reviewed
@dataclass(frozen=True, eq=False)
class WeightedMoments(Query):
    """Weighted mean and mean square of every feature, relative to the box; and the total weight.

    A row adds (v / b) (u, u**2 - 1/2, c), u in [-1, 1]. Guarantee: L2, squared: (5/4 + c**2 / d) d
    (A); the larger of that and 4 d (R). c is 1 (A), and the largest that 4 d leaves (R).

    Attributes
    ----------
    low, high : ndarray of shape (d,)
    most : float
        Public bound b of weights; finite, above 0.
    relation : str
        What c is for; a session sets it.

    Returns
    -------
    mean, mean_square : Release
        In [-1, 1] and [0, 1]. The error is that of the noise on sums alone.
    total : Release
        Of the weights, in units of them: at least the noise on it.
    """

    name: ClassVar[str] = "weighted moments"
    low: Floats
    high: Floats
    most: float
    relation: str = ADD_OR_REMOVE_ONE

    def prepared(self, terms: Terms) -> WeightedMoments:
        return replace(self, relation=terms.relation)

    @property
    def _view(self) -> ScaledBox:
        return ScaledBox(self.low, self.high)

    @property
    def _last(self) -> int:
        """The last coordinate of a row of weight b, c in steps."""
        view = self._view
        if self.relation == REPLACE_ONE:
            return math.isqrt(11 * view.n_dims * view.steps**2 // 4)
        return view.steps

    @property
    def unit(self) -> float:
        return 1 / self._view.steps

    def exact(self, table: PrivateTable) -> NDArray:
        view, last = self._view, self._last
        d, scale = view.n_dims, view.steps
        dtype = total_dtype(table.rows, last)

        def add(block: tuple[Floats, NDArray], totals: list[NDArray]) -> None:
            parts = parts_of(block[1], self.most)
            ones = np.ones(len(parts))
            q = view.map(block[0])
            totals[0][:d] += as_total(ones @ _weighted(q, parts), dtype)
            # As in `exact_moments`.
            q *= q
            q *= 1.0 / scale
            np.rint(q, out=q)
            q -= scale // 2
            totals[0][d:-1] += as_total(ones @ _weighted(q, parts), dtype)
            totals[0][-1:] += as_total(ones[None] @ np.rint(parts * float(last)), dtype)

        def fresh() -> list[NDArray]:
            return [np.zeros(2 * d + 1, dtype=dtype)]

        (total,) = table.fold(add, fresh, width=2 * d + 1, read="weighted")
        return total

    def sensitivity(self, relation: str) -> Spherical:
        view = self._view
        d, scale = view.n_dims, view.steps
        size = isqrt_up(-(-5 * d * scale**2 // 4) + self._last**2)
        if relation == REPLACE_ONE:
            size = max(size, isqrt_up(4 * d * scale**2)) + _ROUNDED * isqrt_up(2 * d + 1)
        return Spherical(size)

    def decoded(self, noisy: Noisy) -> tuple[Release, Release, Release]:
        view, last = self._view, self._last
        d, scale = view.n_dims, view.steps
        values = noisy.values.astype(np.float64)
        noise = float(noisy.std) / last
        total = max(float(values[-1]) / last, noise)
        found = values[:-1] / total / scale
        error = noisy.std / total / scale
        mean = np.clip(found[:d], -1.0, 1.0)
        square = np.clip(found[d:] + 0.5, 0.0, 1.0)
        weight = released(total * self.most, noise * self.most)
        return released(mean, error), released(square, error), weight


@reviewed
@dataclass(frozen=True, eq=False)
class WeightedMean(Query):
    """The weighted mean of the clipped rows, in user units.

    A row adds (v / b) (q, C). Guarantee: L2, squared: norm**2 + C**2 (A); the larger of that and
    4 norm**2 (R). C is norm / 3 (A), and sqrt(3) norm (R).

    Attributes
    ----------
    view : View
    most : float
        Public bound b of weights; finite, above 0.
    relation : str
        What C is for; a session sets it.

    Returns
    -------
    mean : Release
        The error counts the noise of the total weight.
    """

    name: ClassVar[str] = "weighted mean"
    view: Any
    most: float
    relation: str = ADD_OR_REMOVE_ONE

    def prepared(self, terms: Terms) -> WeightedMean:
        return replace(self, view=self.view.at(SUM_BITS), relation=terms.relation)

    @property
    def _last(self) -> int:
        norm = int(self.view.norm)
        return max(1, math.isqrt(3 * norm**2) if self.relation == REPLACE_ONE else norm // 3)

    @property
    def unit(self) -> float:
        return float(self.view.grid.max())

    def exact(self, table: PrivateTable) -> NDArray:
        view, last = self.view, self._last
        dtype = total_dtype(table.rows, max(last, int(view.half.max(initial=0.0))))

        def add(block: tuple[Floats, NDArray], totals: list[NDArray]) -> None:
            parts = parts_of(block[1], self.most)
            ones = np.ones(len(parts))
            totals[0][:-1] += as_total(ones @ _weighted(view.map(block[0]), parts), dtype)
            totals[0][-1:] += as_total(ones[None] @ np.rint(parts * float(last)), dtype)

        def fresh() -> list[NDArray]:
            return [np.zeros(view.n_dims + 1, dtype=dtype)]

        (total,) = table.fold(add, fresh, width=view.n_dims, read="weighted")
        return total

    def sensitivity(self, relation: str) -> Spherical:
        norm = int(self.view.norm)
        size = isqrt_up(norm**2 + self._last**2)
        if relation == REPLACE_ONE:
            size = max(size, 2 * norm) + _ROUNDED * isqrt_up(self.view.n_dims + 1)
        return Spherical(size)

    def decoded(self, noisy: Noisy) -> Release:
        view, last = self.view, self._last
        values = noisy.values.astype(np.float64)
        total = max(float(values[-1]) / last, float(noisy.std) / last)
        steps = np.clip(values[:-1] / total, -view.half, view.half)
        error = noisy.std / total * view.grid * np.sqrt(1.0 + (steps / last) ** 2)
        return released(view.center + steps * view.grid, error)


@reviewed
@dataclass(frozen=True, eq=False)
class WeightedCount(Query):
    """The sum of v / b over the rows.

    Guarantee: 1, under both relations.

    Attributes
    ----------
    most : float
        Public bound b of weights; finite, above 0.
    """

    name: ClassVar[str] = "total weight"
    most: float

    @property
    def unit(self) -> float:
        return 2.0**-_WEIGHT_BITS

    def exact(self, table: PrivateTable) -> NDArray:
        dtype = total_dtype(table.rows, 2**_WEIGHT_BITS)

        def add(block: tuple[Floats, NDArray], totals: list[NDArray]) -> None:
            steps = steps_of(block[1], self.most, _WEIGHT_BITS)
            totals[0] += as_total(steps.sum(keepdims=True), dtype)

        (total,) = table.fold(add, lambda: [np.zeros(1, dtype=dtype)], read="weighted")
        return total

    def sensitivity(self, relation: str) -> Independent:
        return Independent(2**_WEIGHT_BITS, 4**_WEIGHT_BITS)

    def decoded(self, noisy: Noisy) -> Release:
        return released(float(noisy.values[0]) * self.unit, noisy.std * self.unit)


@reviewed
@dataclass(frozen=True, eq=False)
class WeightedLabelCounts(Query):
    """The sum of v / b over the rows of each label; others are in none.

    Guarantee: L1 1, squared L2 1 (A); 2 and 2 (R).

    Attributes
    ----------
    n_labels : int
    most : float
        Public bound b of weights; finite, above 0.
    """

    name: ClassVar[str] = "weights of labels"
    n_labels: int
    most: float

    @property
    def unit(self) -> float:
        return 2.0**-_WEIGHT_BITS

    def exact(self, table: PrivateTable) -> NDArray:
        dtype = total_dtype(table.rows, 2**_WEIGHT_BITS)

        def add(block: tuple[Floats, NDArray[np.int64], NDArray], totals: list[NDArray]) -> None:
            known = block[1] >= 0
            weights = steps_of(block[2], self.most, _WEIGHT_BITS)
            part = np.bincount(block[1][known], weights=weights[known], minlength=self.n_labels)
            totals[0] += as_total(part, dtype)

        def fresh() -> list[NDArray]:
            return [np.zeros(self.n_labels, dtype=dtype)]

        (total,) = table.fold(add, fresh, read="weighted_labelled")
        return total

    def sensitivity(self, relation: str) -> Independent:
        times = 2 if relation == REPLACE_ONE else 1
        return Independent(times * 2**_WEIGHT_BITS, times * 4**_WEIGHT_BITS)

    def decoded(self, noisy: Noisy) -> Release:
        return released(noisy.values.astype(np.float64) * self.unit, noisy.std * self.unit)


@reviewed
@dataclass(frozen=True, eq=False)
class WeightedGradient(Query):
    """The gradient of the logistic loss in which a row's loss counts v / b times.

    Guarantee: that of `LogisticGradient`, in steps 2**15 times as fine.

    Attributes
    ----------
    gradient : LogisticGradient
        Of rows without weights.
    most : float
        Public bound b of weights; finite, above 0.

    Returns
    -------
    gradient : Release, of shape (K, d + 1)
    """

    name: ClassVar[str] = "weighted gradient of the logistic loss"
    gradient: LogisticGradient
    most: float

    def prepared(self, terms: Terms) -> WeightedGradient:
        return replace(self, gradient=self.gradient.prepared(terms))

    @property
    def unit(self) -> float:
        return self.gradient.unit * 2.0**-_FINER_BITS

    def exact(self, table: PrivateTable) -> NDArray:
        gradient = self.gradient
        gradient.check_shapes()
        shape = gradient.theta.shape
        dtype = total_dtype(table.rows, 2**36)

        def add(block: tuple[Floats, NDArray[np.int64], NDArray], totals: list[NDArray]) -> None:
            q = gradient.view.map(block[0])
            r = gradient.residuals(q, block[1])
            r *= 2.0**_FINER_BITS
            r = _weighted(r, parts_of(block[2], self.most))  # at most 2**32
            high = np.floor(r * 2.0**-_HALF_BITS)
            r -= high * 2.0**_HALF_BITS
            for half, total in zip((high, r), totals, strict=True):
                total += gradient.products(half, q, dtype)

        def fresh() -> list[NDArray]:
            return [np.zeros(shape, dtype=dtype) for _ in range(2)]

        high, low = table.fold(add, fresh, width=max(shape), read="weighted_labelled")
        exact: NDArray = (high.astype(object) << _HALF_BITS) + low.astype(object)
        return exact

    def sensitivity(self, relation: str) -> Spherical:
        return self.gradient.sensitivity(relation).times(2**_FINER_BITS)

    def decoded(self, noisy: Noisy) -> Release:
        values = noisy.values.astype(np.float64).reshape(self.gradient.theta.shape)
        return released(values * self.unit, noisy.std * self.unit)
