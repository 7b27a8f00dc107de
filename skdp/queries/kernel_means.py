"""Private means of feature maps: kernel values at public centres, or a user's map of one row.

Releases the mean over the rows of kernel values k_j(x, c_l) at several scales j: a public linear
image of them (sensitivity 1, or sqrt(2) under replace-one, if the image is whitened by the Gram
matrices, whatever the number of centres), or each with independent noise; and the mean of any
clipped map of a row. Centres, kernels and maps are public. Kernel values are integers in steps of
2**-30, decided by a row alone, so that sums are exact like all statistics here. Proofs:
kernel_means.md.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.core.clipping import SUM_BITS, Ball, Box, Floats, isqrt_up
from skdp.core.mechanisms import Spherical
from skdp.core.privacy_filter import Release, released
from skdp.core.query import Noisy, Query, Terms, UserFunction, reviewed
from skdp.core.sums import Image, RowSum, Values
from skdp.core.table import ADD_OR_REMOVE_ONE, REPLACE_ONE, as_total, total_dtype
from skdp.tabular.containers import to_float
from skdp.tabular.rows import as_dense
from skdp.user_code import run_isolated, user_code

if TYPE_CHECKING:
    from skdp.core.privacy_filter import Meter, Share
    from skdp.core.table import PrivateTable
from skdp.queries.kernel_maps import (
    _IMAGE_BITS,
    _MATRIX_BITS,
    _ROUND_UP,
    _STEP_BITS,
    KernelMap,
)

__all__ = [
    "BasisOfRow",
    "KernelFeatures",
    "KernelMean",
    "LinearImage",
    "basis_mean",
    "feature_means",
]


class LinearImage:
    """Public linear image a(x) = M k(x) of a row's kernel values, with a certified bound.

    Guarantee: nothing private is read. For M rounded to integers, and k the exact kernel values of
    any row, the norm of M k(x) is at most `bound`, and that of M (k(x) - k(x')) at most sqrt(2)
    times as much (kernel_means.md).

    Parameters
    ----------
    kernel : KernelMap
    matrix : array-like of shape (r, n_scales * b)
        Finite, not all zero. With K_j the Gram matrix of scale j and p = 1 / n_scales, the bound is
        the root of the largest eigenvalue of M diag(K_1 / p, ..., K_J / p) M', or a little more.

    Attributes
    ----------
    bound : float
    step : float
        User units of one step of `apply`: a power of two, 2**19 to 2**20 steps to the bound.

    Raises
    ------
    ValueError
        If the matrix is not as described; it is public.
    """

    def __init__(self, kernel: KernelMap, matrix: ArrayLike) -> None:
        m = np.array(matrix, dtype=np.float64)
        if m.ndim != 2 or not len(m) or m.shape[1] != kernel.n_dims:
            raise ValueError(f"matrix must have shape (n_features_out, {kernel.n_dims})")
        if not np.isfinite(m).all() or not 1e-100 < np.abs(m).max(initial=0.0) < 1e100:
            raise ValueError(
                "matrix must be finite, and its largest entry between 1e-100 and 1e100"
            )
        self._kernel = kernel
        self._bits = _MATRIX_BITS - math.frexp(float(np.abs(m).max()))[1]
        self._matrix = np.rint(m * 2.0**self._bits).astype(np.int64)
        self.bound = self._certified()
        self._step_bits = _IMAGE_BITS - math.frexp(self.bound)[1]
        self.step = 2.0**-self._step_bits

    def _certified(self) -> float:
        """Return an upper bound on the square root of the largest eigenvalue.

        M is exact; the Gram matrices are known up to the kernel's `error` an entry. The infinity
        norm bounds the eigenvalue; to it are added the rounding errors of both products, at most
        2 gamma_b + gamma_b**2 times |M||K||M|' (Higham 2002, section 3.5), those of the sum over
        the scales, and what the error of K can do.
        """
        b = self._kernel.n_centers
        scales = self._kernel.n_scales
        unit = 2.0**-53
        gamma = (b + 2) * unit / (1 - (b + 2) * unit)
        product: Any = 0.0
        spread: Any = 0.0
        slack: Any = 0.0
        for j, gram in enumerate(self._kernel.gram()):
            m = self._matrix[:, j * b : (j + 1) * b] * 2.0**-self._bits  # exact
            size = np.abs(m)
            product = product + m @ gram @ m.T
            spread = spread + (size @ np.abs(gram) @ size.T).sum(axis=1)
            weight = size.sum(axis=1)
            slack = slack + weight * weight.sum()
        rows = np.abs(product).sum(axis=1) + self._kernel.error * slack
        rows += (2.1 * gamma + (scales + 1) * unit) * spread
        return math.sqrt(float(rows.max()) * scales * _ROUND_UP)

    def apply(self, total: NDArray) -> NDArray:
        """Return floor(M total) of an exact sum of images, in steps."""
        sums = [int(v) for v in total]
        # Not negative: by the slack alone the bound is above 2**-22 of M's largest entry.
        shift = self._bits + _STEP_BITS - self._step_bits
        # Python's shifts are exact, and to the right they round down.
        whole = [sum(map(operator.mul, row.tolist(), sums)) >> shift for row in self._matrix]
        large = any(abs(v) >= 2**62 for v in whole)
        return np.array(whole, dtype=object if large else np.int64)

    def sensitivity(self, adjacency: str) -> int:
        """Return the L2 sensitivity of `apply` of the sum, in steps, rounded up.

        A: bound, and what the steps of kernel values can add. R: sqrt(2) bound, and twice that.
        Rounding down moves each of the r coordinates by less than a step.
        """
        replace = adjacency == REPLACE_ONE
        m = self._matrix * 2.0**-self._bits
        entry = 2.0**-_STEP_BITS + self._kernel.error
        lost = math.sqrt(self._kernel.n_dims) * entry * math.sqrt(np.sum(m * m))
        size = math.sqrt(2) * self.bound + 2 * lost if replace else self.bound + lost
        return math.ceil(size / self.step * _ROUND_UP + math.sqrt(len(m))) + 1


# --- a user's map of one row -------------------------------------------------------------------


def _features(
    transform: Callable[[Any], Any], X: Any, restart: Callable[[int], None]
) -> Floats | None:
    """Return what the map makes of rows as a float array, or None where it fails."""

    def make() -> Floats | None:
        made = transform(X)
        return to_float(as_dense(made))[0]

    values: Floats | None = run_isolated(make, None, restart)
    return values


def _row_features(
    transform: Callable[[Any], Any],
    X: Floats,
    view: Box | Ball,
    restart: Callable[[int], None],
) -> Floats:
    """Apply the user's map to rows and clip; a row that fails becomes zeros, and it alone."""
    length = len(X)
    # A copy: the map may write into it, or keep it.
    values = _features(transform, X.copy(), restart)
    if values is None or values.shape != (length, view.n_dims):
        if length == 1:
            return np.zeros((1, view.n_dims))
        # One bad row must not decide for the others: ask for each row alone.
        return np.concatenate(
            [_row_features(transform, X[i : i + 1], view, restart) for i in range(length)]
        )
    finite: NDArray[np.bool_] = np.logical_and.reduce(np.isfinite(values), axis=1)
    q = view.map(np.where(finite[:, None], values, 0.0))
    q[~finite] = 0.0
    return q


# --- queries ----------------------------------------------------------------------------------


@reviewed
@dataclass(frozen=True, eq=False)
class KernelMean(Query):
    """The mean of a public linear image M k(x) of the kernel values, and n.

    Guarantee: the certified sensitivity of `LinearImage`: its bound c (A), sqrt(2) c (R), in
    L2. Where n is private, (w n, sum) is one release, w = c / 3.

    It is no `RowSum`: M is applied to the exact sum of all rows and rounded once, which is finer
    than what a rounded image of each row could be.

    Parameters
    ----------
    matrix : array-like of shape (r, n_scales * b)
        M, public. Whitened by the Gram matrices it has c = 1.
    image, count_weight
        What a session makes of the matrix; w where n is private, else 0.

    Returns
    -------
    mean : Release, value of shape (r,)
    n : Release
        Number of rows: exact where it is public, noisy otherwise; at least 1.
    """

    name: ClassVar[str] = "kernel mean"
    kernel: KernelMap
    matrix: Any
    image: Any = None
    count_weight: int = 0

    def prepared(self, terms: Terms) -> KernelMean:
        image = LinearImage(self.kernel, self.matrix)
        weight = image.sensitivity(terms.relation) // 3 if terms.n_rows is None else 0
        return replace(self, image=image, count_weight=weight)

    @property
    def unit(self) -> float:
        return float(self.image.step)

    def check_table(self, table: PrivateTable) -> None:
        check_features(self.kernel, table)

    def exact(self, table: PrivateTable) -> NDArray:
        sums: NDArray = self.image.apply(self.kernel.total(table.rows))
        if not self.count_weight:
            return sums
        n = self.count_weight * table.n
        return np.concatenate([sums, np.array([n], dtype=sums.dtype if n < 2**62 else object)])

    def sensitivity(self, relation: str) -> Spherical:
        size = self.image.sensitivity(relation)
        if relation == REPLACE_ONE:
            return Spherical(size)
        return Spherical(isqrt_up(self.count_weight**2 + size**2))

    def decoded(self, noisy: Noisy) -> tuple[Release, Release]:
        values, n, n_std = noisy.values.astype(np.float64), float(noisy.terms.n_rows or 0), 0.0
        if self.count_weight:
            n, n_std = float(values[-1]) / self.count_weight, noisy.std / self.count_weight
            values = values[:-1]
        n = max(1.0, n)
        step = self.image.step
        return released(values / n * step, noisy.std / n * step), released(n, n_std)


def check_features(kernel: KernelMap, table: PrivateTable) -> None:
    """Refuse centres that have other columns than the rows."""
    if kernel.n_features != table.n_features:
        raise ValueError(
            f"the centres have {kernel.n_features} features, the rows {table.n_features}"
        )


@reviewed
@dataclass(frozen=True, eq=False)
class KernelFeatures(Image):
    """The kernel values k_j(x, c_l) of a row; bounds: kernel_means.md, "Nearest centre".

    Attributes
    ----------
    kernel : KernelMap
    count_weight : int
        w, which balances the noise of sums and count for means of about 1/2: (S / 4)**(1/3) with
        the L1 bound S in a pure session, (S2 / 4)**(1/4) with the squared L2 one otherwise; a
        session sets it.
    """

    what = "kernel values at public centres"
    one_sign = True
    least = 2048
    kernel: KernelMap
    count_weight: int = 1

    def prepared(self, terms: Terms) -> KernelFeatures:
        step = 2.0**-_STEP_BITS
        best = (self.l1 * step / 4) ** (1 / 3)
        if not terms.pure:
            best = (self.l2_squared * step**2 / 4) ** 0.25
        return replace(self, count_weight=max(1, math.ceil(best / step)))

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.kernel.n_dims,)

    @property
    def unit(self) -> float:
        return 2.0**-_STEP_BITS

    @property
    def l1(self) -> int:
        return self.kernel.sensitivity(ADD_OR_REMOVE_ONE)[0]

    @property
    def l2_squared(self) -> int:
        return self.kernel.sensitivity(ADD_OR_REMOVE_ONE)[1]

    @property
    def change_l1(self) -> int:
        return self.kernel.sensitivity(REPLACE_ONE)[0]

    @property
    def change_l2_squared(self) -> int:
        return self.kernel.sensitivity(REPLACE_ONE)[1]

    @property
    def largest(self) -> int:
        return 2**_STEP_BITS

    def check_table(self, table: PrivateTable) -> None:
        check_features(self.kernel, table)

    def blocks(self, x: Any, labels: Any, cells: Any) -> Iterator[Floats]:
        yield self.kernel.map(x)

    def total(self, x: Any, labels: Any, weights: Floats | None, dtype: type) -> NDArray:
        if weights is not None:
            return super().total(x, labels, weights, dtype)
        total = np.zeros(self.kernel.n_dims, dtype=dtype)
        for part in self.kernel.parts(x):
            total += as_total(np.ones(len(part)) @ part, dtype)
        return total

    def decoded(self, sums: Floats, std: float, count: Release | None) -> Any:
        if count is None:
            return super().decoded(sums, std, count)
        n = float(count.value)
        return released(sums / n * self.unit, std / n * self.unit), count


def feature_means(kernel: KernelMap) -> RowSum:
    """Return the query of the mean of every k_j(x, c_l) with independent noise, and n.

    The answer is (mean, n), the mean of shape (n_scales * b,).
    """
    return RowSum(KernelFeatures(kernel), noise="entries", count=True, name="feature means")


@reviewed
@dataclass(frozen=True, eq=False)
class BasisOfRow(Values):
    """A user's features of a row, clipped by a view; see `basis_mean`.

    Attributes
    ----------
    transform : UserFunction
        Public; without memory.
    exact_blocks : bool
    """

    what = "a user's features of each row"
    runs_user_code = True
    transform: Any = None
    exact_blocks: bool = False

    def blocks(self, x: Any, labels: Any, cells: Any) -> Iterator[Floats]:
        raise TypeError("only a session runs a user's code")

    def user_total(self, table: PrivateTable, meter: Meter, share: Share, name: str) -> NDArray:
        rows, view = table.rows, self.view
        dtype = total_dtype(rows, self.largest)
        total: NDArray = np.zeros(view.n_dims, dtype=dtype)
        width = max(table.n_features, view.n_dims)
        with user_code(meter, share, name) as restart:
            for start, stop in rows.spans(width=width):
                block = rows.chunk(start, stop)
                whole = self.exact_blocks
                parts = [block] if whole else [block[i : i + 1] for i in range(len(block))]
                for part in parts:
                    q = _row_features(self.transform.call, part, view, restart)
                    total += as_total(np.ones(len(q)) @ q, dtype)
        return total

    def decoded(self, sums: Floats, std: float, count: Release | None) -> Any:
        return super().decoded(sums, std, count), count


def basis_mean(transform: UserFunction, view: Box | Ball, exact_blocks: bool = False) -> RowSum:
    """Return the query of the mean over rows of a user's features of one row, and n.

    The map gets one row at a time, as a float64 array of shape (1, d) of its own, and returns
    an array (dense, sparse or a table) of shape (1, b). Where it raises, or returns another
    shape or anything that is not finite, the row counts as the view's centre. With
    ``exact_blocks`` it gets blocks; one that fails is tried again row by row. That is sound
    only for maps that give a row the same bits in every block: elementwise ufuncs do, BLAS
    does not. Every call must start from the same state: a map that remembers rows would let
    one of them move the features of others.

    The answer is (mean, n), the mean of shape (b,).
    """
    image = BasisOfRow(view, SUM_BITS, transform=transform, exact_blocks=exact_blocks)
    return RowSum(image, count=True, name="basis mean")
