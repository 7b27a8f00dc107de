"""`RowSum`: the sum over the rows of a bounded integer image of each row, in cells.

Counts, sums, means, moments, histograms, sums by label and gradients are all of this one type. A
query of it has three parts:

* The **image** v(x) of a row x is a vector of integers. It states bounds on v(x) in L1 and squared
  L2 (`l1`, `l2_squared`), and on v(x) - v(x') (`change_l1`, `change_l2_squared`).
* The **cells** come in blocks. A row is in at most one cell of each block, and v(x) is added to
  each of its cells. Without cells there is one sum.
* The **weight** of a row is private, like the row. It is clipped to [0, weight_bound]; with s =
  weight / weight_bound the row adds s v(x), rounded to integers.

With a **count**, each row also adds a public constant C (times s) to one more number, which is the
number of rows, or their total weight, in the same release.

Sensitivity, with p blocks, and L = l1, N = l2_squared:

=============================  ================================  ===============================
..                             L1                                squared L2
=============================  ================================  ===============================
a row is added or removed      p L + C                           p N + C**2
a row is replaced              p max(change_l1, 2 L*)            p max(change_l2_squared, 2 N*)
the same, with weights         the larger of the two above, and what rounding adds
=============================  ================================  ===============================

(*) only where there are cells.

Where the image bounds its coordinates, by B, and those of a change, by B', the largest changes of
all cells (or of the one sum, with its count) add up to p max(B, C) at most if a row is added or
removed, and to p max(B', 2 B*) if it is replaced; with weights to the larger of B' + 1 (rounding),
2 B*, B and C. Proof: PROOFS.md, "Sums".
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skdp.core.clipping import SUM_BITS, Floats, isqrt_up
from skdp.core.mechanisms import Cubes, Independent, Spherical
from skdp.core.privacy_filter import Release, released
from skdp.core.query import Noisy, Query, Terms, moved_by, reviewed
from skdp.core.table import REPLACE_ONE, PrivateTable, as_total, total_dtype

if TYPE_CHECKING:
    from skdp.core.privacy_filter import Meter, Share

Ints = NDArray[np.int64]


class Image:
    """The bounded integer vector that each row adds; see the module.

    A subclass is a registered value of public numbers. The image of a row must depend on that row,
    its label and its cells alone, to the last bit.

    - `what` (str): What is added up, for certificates.
    - `one_sign` (bool): Whether no coordinate is negative, and the larger of the bounds on an image
      and on a change holds for the maxima max(v_j, v'_j), too. Then rounding weighted images adds
      nothing.
    - `whole` (bool): False if `blocks` yields real numbers, which are rounded after they have been
      weighted.
    - `weight_bits` (int): The images of rows with weights have steps 2**weight_bits times as fine.
    - `needs_labels` (bool)
    - `least` (int): Rows that a pass should read at a time.
    - `own_pass` (bool): Whether `table_total` makes the sum, and not `blocks`. There are no cells
      and weights then.
    - `of_units` (bool): Whether units are added up, which may have no rows.
    - `runs_user_code` (bool): Whether `user_total` makes the sum, from what a user's code makes of
      the rows.
    """

    what = "values"
    one_sign = False
    whole = True
    weight_bits = 0
    needs_labels = False
    least = 256
    own_pass = False
    runs_user_code = False
    of_units = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the image of one row; () for a number."""
        return ()

    @property
    def unit(self) -> Any:
        """User units a step: a number, or one a coordinate."""
        return 1.0

    @property
    def l1(self) -> int:
        """Bound on the L1 norm of the image of a row, in steps."""
        raise NotImplementedError

    @property
    def l2_squared(self) -> int:
        """Bound on the squared L2 norm of the image of a row, in steps."""
        raise NotImplementedError

    @property
    def count_weight(self) -> int:
        """The constant C that counts a row."""
        return 1

    @property
    def width(self) -> int:
        """Numbers a row that a pass over the rows needs at a time, beside the row."""
        return math.prod(self.shape)

    @property
    def change_l1(self) -> int:
        """Bound on the L1 norm of the difference of two images."""
        return 2 * self.l1

    @property
    def change_l2_squared(self) -> int:
        """Bound on the squared L2 norm of the difference of two images."""
        return 4 * self.l2_squared

    @property
    def largest(self) -> int:
        """Bound on the coordinates of an image, in steps."""
        return self.l1

    @property
    def entry_bounds(self) -> tuple[int, int] | None:
        """Bounds on every coordinate of an image, and of a difference of two; None: not stated."""
        return None

    def prepared(self, terms: Terms) -> Any:
        """Return the image with what it chooses by public terms: the number of its steps, say."""
        return self

    @property
    def in_cubes(self) -> tuple[Any, float]:
        """The prepared image as it is best under noise of cubes, and what its step is worth."""
        return self, 1.0

    def check_table(self, table: PrivateTable) -> None:
        """Refuse a table whose public facts the image does not fit."""

    def source(self, table: PrivateTable) -> PrivateTable:
        """Return the table whose rows `total` is handed: a map of each row alone, or the row."""
        return table

    def blocks(self, x: Any, labels: Any, cells: Any) -> Iterator[Floats]:
        """Yield the images of rows, some coordinates at a time: arrays of shape (n, k).

        An array may be overwritten when the next one is asked for. `cells` are those of the rows,
        (n, p); None without cells.
        """
        raise NotImplementedError

    def total(self, x: Any, labels: Any, weights: Floats | None, dtype: type) -> NDArray:
        """Return the sum of the images, exactly; weights are fractions in [0, 1]."""
        parts = []
        for block in self.blocks(x, labels, None):
            q = self.weighted(block, weights)
            total = q.sum(axis=0) if q.shape[1] == 1 else np.ones(len(q)) @ q
            parts.append(as_total(total, dtype))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def table_total(self, table: PrivateTable) -> NDArray:
        """Return the sum, exactly: of rows that are read otherwise than in chunks."""
        raise NotImplementedError

    def user_total(self, table: PrivateTable, meter: Meter, share: Share, name: str) -> NDArray:
        """Return the sum of the images that a user's code makes of rows, in isolation."""
        raise NotImplementedError

    def weighted(self, q: Floats, weights: Floats | None) -> Floats:
        """Return images times weights, as integers in steps 2**weight_bits times as fine."""
        if weights is None:
            return q if self.whole else np.rint(q)
        return np.rint(q * (2.0**self.weight_bits * weights)[:, None])

    def decoded(self, sums: Floats, std: float, count: Release | None) -> Any:
        """Return the answer from noisy sums, in steps: post-processing."""
        return released(sums * self.unit, std * self.unit)


class Range(Image):
    """An image whose coordinates lie between 0 and `largest`, which a subclass states.

    So no coordinate of a difference of two images is larger than `largest` either.
    """

    one_sign = True

    @property
    def l1(self) -> int:
        return math.prod(self.shape) * self.largest

    @property
    def l2_squared(self) -> int:
        return math.prod(self.shape) * self.largest**2

    change_l1, change_l2_squared = l1, l2_squared


class RowCells:
    """Cells that a row is added to: in blocks, at most one cell of each; see the module.

    A subclass is a registered value of public numbers. The cells of a row must depend on that row
    and its label alone.

    - `everywhere` (bool): Whether each row is in a cell of every block.
    - `needs_labels` (bool)
    - `image_first` (bool): Whether the shape of the image comes before that of the cells.
    - `read` (str): The method of the rows that hands them over.
    """

    everywhere = False
    needs_labels = False
    image_first = False
    read = "chunk"

    @property
    def what(self) -> str:
        """What a cell stands for, for certificates."""
        return "cell"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the exact sums, which comes before that of the image."""
        raise NotImplementedError

    @property
    def spans(self) -> list[tuple[int, int]]:
        """First cell and end of each block, in the order of all cells; one block by default.

        Blocks may share a span, but not a cell.
        """
        return [(0, math.prod(self.shape))]

    @property
    def answer_shape(self) -> tuple[int, ...]:
        """The shape of the answer; that of the exact sums by default."""
        return self.shape

    @property
    def least(self) -> int:
        """Rows that a pass should read at a time."""
        return 256

    def check_table(self, table: PrivateTable) -> None:
        """Refuse a table whose public facts the cells do not fit."""

    def of_rows(self, x: Any, labels: Any) -> Ints:
        """Return the cell of each row in each block, (n, p); -1 for none."""
        raise NotImplementedError


def weight_fractions(weights: NDArray, weight_bound: float) -> Floats:
    """Return weights, clipped to [0, weight_bound], as fractions of it.

    Two operations on one number: the fraction of a row depends on its own weight alone.
    """
    if not 0.0 < weight_bound < math.inf:
        raise ValueError(f"weight_bound must be finite and positive, got {weight_bound!r}")
    return np.clip(weights, 0.0, weight_bound) / weight_bound


@reviewed
@dataclass(frozen=True, eq=False)
class RowSum(Query):
    """The sum over the rows of an image of each row, in cells.

    Guarantee: the sensitivities in the module's table.

    - `cells`: None: one sum over all rows.
    - `noise` ({"vector", "entries", "smaller"}): Noise for the L2 norm of all numbers together, for
      each number by itself, or the smaller one of both in a pure session.
    - `weight_bound`: Public bound of the rows' weights; None for rows without weights.
    - `count`: Whether the image needs the number of rows, or their total weight. It is released
      with the sums where it is private.
    - `name`: Of the release.
    - `constant`: C, 0 without a count. A session sets it: where rows are replaced, the largest that
      costs nothing.
    """

    image: Any
    cells: Any = None
    noise: str = "vector"
    weight_bound: float | None = None
    count: bool = False
    name: str = "sum"  # type: ignore[misc]
    constant: int = 0

    @property
    def described(self) -> str:
        weighted = "" if self.weight_bound is None else "weighted "
        by = "" if self.cells is None else f" by {self.cells.what}"
        return f"{super().described}: {weighted}{self.image.what}{by}"

    def prepared(self, terms: Terms) -> RowSum:
        image = self.image.prepared(terms)
        ball = self._with_count(image, terms)
        if not terms.pure or image.entry_bounds is None:
            return ball
        in_cubes, worth = image.in_cubes
        cube = self._with_count(in_cubes, terms, in_cubes=True)
        return cube if worth * cube.steps_std(terms) < ball.steps_std(terms) else ball

    def steps_std(self, terms: Terms) -> float:
        """Return the deviation, in steps, of the noise on an entry, once the query is prepared."""
        size = moved_by(RowSum, self, terms.stability)
        return float(size.std(self.entries, terms.level, pure=terms.pure))

    def _with_count(self, image: Any, terms: Terms, *, in_cubes: bool = False) -> RowSum:
        """Return the query of an image, with the largest count that costs nothing, if any does."""
        if not self.count or (self.weight_bound is None and terms.n_rows is not None):
            return replace(self, image=image, constant=0)
        constant = image.count_weight
        if in_cubes:  # no further than the sums
            constant = image.entry_bounds[terms.replaces] * self._scale
        elif terms.replaces and self.noise == "vector":
            # A row that enters or leaves, or loses its weight, moves no more than another one.
            constant = math.isqrt(max(0, image.change_l2_squared - image.l2_squared))
        return replace(self, image=image, constant=max(1, constant))

    @property
    def _scale(self) -> int:
        return 1 if self.weight_bound is None else 1 << self.image.weight_bits

    @property
    def unit(self) -> float:
        return float(np.max(self.image.unit)) / self._scale

    @property
    def entries(self) -> int:
        """How many integers are released, once the query is prepared."""
        n_cells = 1 if self.cells is None else math.prod(self.cells.shape)
        return math.prod(self.image.shape) * n_cells + (self.constant > 0)

    @property
    def of_values_alone(self) -> bool:
        """Whether it reads the values of rows alone: neither labels nor weights, in no cells."""
        return not self.image.own_pass and self._is_plain

    @property
    def _is_plain(self) -> bool:
        return self.cells is None and self.weight_bound is None and not self.image.needs_labels

    # --- the exact sums ---------------------------------------------------------------------------

    def check_table(self, table: PrivateTable) -> None:
        self.image.check_table(table)
        if self.cells is not None:
            self.cells.check_table(table)
        if (self.image.runs_user_code or self.image.own_pass) and not self._is_plain:
            raise TypeError("images with a pass of their own have neither cells nor weights")
        if self.image.of_units and (self.count or self.constant):
            # A unit may have rows in one table alone, so that its count does not cancel.
            raise TypeError("sums over units have no count beside them")

    def exact(self, table: PrivateTable) -> NDArray:
        image, cells = self.image, self.cells
        if cells is None and self.weight_bound is None and type(image) is One:
            return np.array([table.n], dtype=np.int64)
        if image.own_pass:
            return self._counted(image.table_total(table), table, None)
        largest = max(image.largest * self._scale, self.constant)
        dtype = total_dtype(table.rows, largest)
        labelled = image.needs_labels or (cells is not None and cells.needs_labels)
        bound = self.weight_bound
        weighted = bound is not None
        size = math.prod(image.shape)
        n_cells = 1 if cells is None else math.prod(cells.shape)

        def add(block: Any, totals: list[NDArray]) -> None:
            x, *others = block if labelled or weighted else (block,)
            labels = others[0] if labelled else None
            weights = None
            if bound is not None:
                weights = weight_fractions(others[-1], bound)
                if self.constant:
                    counted = np.rint(weights * float(self.constant))
                    totals[1] += as_total(counted.sum(keepdims=True), dtype)
            if cells is None:
                totals[0] += image.total(x, labels, weights, dtype).reshape(size, 1)
            else:
                self._add_in_cells(x, labels, weights, totals[0])

        def fresh() -> list[NDArray]:
            return [np.zeros((size, n_cells), dtype=dtype), np.zeros(1, dtype=dtype)]

        kinds = ["weighted"] * weighted + ["labelled"] * labelled
        read = "_".join(kinds) or ("chunk" if cells is None else cells.read)
        width = max(image.width, 1 if cells is None else len(cells.spans))
        least = image.least if cells is None else cells.least
        total, count = image.source(table).fold(add, fresh, width=width, least=least, read=read)
        return self._counted(self._shaped(total), table, count if weighted else None)

    def exact_in_session(
        self, table: PrivateTable, meter: Meter, share: Share, name: str
    ) -> NDArray:
        if not self.image.runs_user_code:
            return self.exact(table)
        return self._counted(self.image.user_total(table, meter, share, name), table, None)

    def _counted(self, total: NDArray, table: PrivateTable, count: NDArray | None) -> NDArray:
        """Return exact sums, with their count behind them where it is released."""
        if not self.constant:
            return total
        if count is None:
            n = self.constant * table.n
            count = np.array([n], dtype=total.dtype if n < 2**62 else object)
        return np.concatenate([total.ravel(), count])

    def _add_in_cells(self, x: Any, labels: Any, weights: Floats | None, total: NDArray) -> None:
        """Add the images of rows to their cells, in place; `total` has shape (size, cells)."""
        cells, dtype = self.cells, object if total.dtype == object else np.int64
        where = cells.of_rows(x, labels)
        # A cell before all others takes the rows that are in none. All blocks at once: no cell is
        # in two of them, so that a row adds to each cell once at most.
        none = 0 if cells.everywhere else 1
        places, n_places = (where.T + none).ravel(), total.shape[1] + none
        if type(self.image) is One and weights is None:
            total[0] += np.bincount(places, minlength=n_places)[none:]
            return
        images = (self.image.weighted(q, weights) for q in self.image.blocks(x, labels, where))
        if where.shape[1] == 1 and total.shape[1] <= 16:
            # A product with the rows' marks: exact like all sums of a chunk, in whatever order.
            marks = (where == np.arange(total.shape[1])).T.astype(np.float64)
            total += np.concatenate([as_total(marks @ q, dtype) for q in images], axis=1).T
            return
        for k, column in enumerate(column for q in images for column in q.T):
            part = np.bincount(places, np.tile(column, where.shape[1]), n_places)[none:]
            total[k] += as_total(part, dtype)

    def _shaped(self, total: NDArray) -> NDArray:
        """Return the sums in the shape in which they are released."""
        image, cells = self.image, self.cells
        if cells is None:
            return total.reshape(image.shape or (1,))
        if cells.image_first:
            return total.reshape(*image.shape, *cells.shape)
        return np.ascontiguousarray(total.T).reshape(*cells.shape, *image.shape)

    # --- by how much they move --------------------------------------------------------------------

    def _cubes(self, relation: str) -> Cubes | None:
        """Return a bound on the largest changes of all cells, if the image bounds its entries."""
        image, cells = self.image, self.cells
        bounds = image.entry_bounds
        if bounds is None or (cells is not None and (self.constant or cells.image_first)):
            return None
        norm, change = (self._scale * bound for bound in bounds)
        size = max(norm, self.constant)
        if relation == REPLACE_ONE:
            size = change
            if self.weight_bound is not None:  # with weights two roundings may add a step
                size = max(change + 1, norm, self.constant)
            if cells is not None:
                size = max(size, 2 * norm)
        blocks, parts = (1, 1) if cells is None else (len(cells.spans), math.prod(cells.shape))
        return Cubes(max(1, blocks * size), parts)

    def sensitivity(self, relation: str) -> Spherical | Independent:
        image, cells, scale = self.image, self.cells, self._scale
        blocks = 1 if cells is None else len(cells.spans)
        norm1, norm2 = image.l1 * scale, image.l2_squared * scale**2
        added1, added2 = blocks * norm1 + self.constant, blocks * norm2 + self.constant**2
        l1, l2_squared = added1, added2
        if relation == REPLACE_ONE:
            l1, l2_squared = image.change_l1 * scale, image.change_l2_squared * scale**2
            if cells is not None:
                l1, l2_squared = max(l1, 2 * norm1), max(l2_squared, 2 * norm2)
            l1, l2_squared = blocks * l1, blocks * l2_squared
            if self.weight_bound is not None:
                l1, l2_squared = max(l1, added1), max(l2_squared, added2)
                if self.constant or not image.one_sign:
                    entries = blocks * math.prod(image.shape) + (self.constant > 0)
                    rounded = isqrt_up(l2_squared) + 2 * isqrt_up(entries)
                    l1, l2_squared = 2 * added1, min(rounded**2, 4 * added2)
        # At least 1: noise for a change of nothing would have no scale.
        l1, l2_squared = max(1, l1), max(1, l2_squared)
        if self.noise == "vector":
            return Spherical(isqrt_up(l2_squared), self._cubes(relation))
        if self.noise not in ("entries", "smaller"):
            raise ValueError(f"noise must be 'vector', 'entries' or 'smaller', got {self.noise!r}")
        if self.noise == "entries":
            return Independent(l1, l2_squared)
        return Independent(l1, l2_squared, or_spherical=True, cubes=self._cubes(relation))

    # --- the answer -------------------------------------------------------------------------------

    def decoded(self, noisy: Noisy) -> Any:
        values, std, count = noisy.values, noisy.std / self._scale, None
        if self.constant:
            count_std = noisy.std / self.constant
            least = 1.0 if self.weight_bound is None else count_std
            count = released(max(least, float(values[-1]) / self.constant), count_std)
            values = values[:-1]
        elif self.count and noisy.terms.n_rows is not None:
            count = released(max(1.0, float(noisy.terms.n_rows)), 0.0)
        shape = self.image.shape
        if self.cells is not None:
            of_cells = self.cells.answer_shape
            shape = (*shape, *of_cells) if self.cells.image_first else (*of_cells, *shape)
        sums = values.astype(np.float64).reshape(shape)
        if self._scale > 1:
            sums = sums / self._scale
        return self.image.decoded(sums, std, count)


# --- images ---------------------------------------------------------------------------------------


@reviewed
@dataclass(frozen=True, eq=False)
class One(Image):
    """The number 1 for each row: sums are numbers of rows.

    Of rows with weights it is their weight, as a fraction of the bound in steps of 2**-30.
    """

    what = "number of rows"
    l1 = l2_squared = 1
    change_l1 = change_l2_squared = 0
    one_sign = True
    weight_bits = 30

    def blocks(self, x: Any, labels: Any, cells: Any) -> Iterator[Floats]:
        yield np.ones((len(x), 1))


@reviewed
@dataclass(frozen=True, eq=False)
class Values(Image):
    """The clipped values of each row, as a view maps them.

    The answer is their sum, in user units from the view's centre; with a count it is their mean.

    - `bits`: Of the view's steps; None: as many as it has.
    - `count_error`: Whether the error of a mean covers the noise on the number of rows (first
      order).
    """

    what = "clipped values"
    view: Any
    bits: int | None = None
    count_error: bool = False

    def prepared(self, terms: Terms) -> Values:
        return self if self.bits is None else replace(self, view=self.view.at(self.bits), bits=None)

    @property
    def shape(self) -> tuple[int, ...]:
        return (int(self.view.n_dims),)

    @property
    def unit(self) -> Floats:
        grid: Floats = self.view.grid
        return grid

    @property
    def l1(self) -> int:
        return sum(int(half) for half in self.view.half)

    @property
    def l2_squared(self) -> int:
        return int(getattr(self.view, "norm_squared", self.view.norm**2))

    @property
    def _widths(self) -> list[int] | None:
        """By how many steps each coordinate may change, in a box that need not be about 0."""
        lowest = getattr(self.view, "lowest", None)
        return None if lowest is None else [int(w) for w in self.view.highest - lowest]

    @property
    def change_l2_squared(self) -> int:
        widths = self._widths
        return 4 * int(self.view.norm) ** 2 if widths is None else sum(w**2 for w in widths)

    @property
    def largest(self) -> int:
        return int(self.view.half.max(initial=0.0))

    @property
    def entry_bounds(self) -> tuple[int, int]:
        largest, widths = self.largest, self._widths
        return largest, 2 * largest if widths is None else max(widths, default=0)

    @property
    def count_weight(self) -> int:
        """A third of the norm: under add-or-remove a mean has 5% more noise than its sum."""
        return max(1, int(self.view.norm) // 3)

    def blocks(self, x: Any, labels: Any, cells: Any) -> Iterator[Floats]:
        yield self.view.map(x)

    def decoded(self, sums: Floats, std: float, count: Release | None) -> Release:
        view = self.view
        if count is None:
            return released(sums * view.grid, np.broadcast_to(std * view.grid, sums.shape))
        steps = np.clip(sums / (n := float(count.value)), -view.half, view.half)
        more = steps * float(count.std) / std if self.count_error and count.std else 0.0
        error = std / n * view.grid * np.sqrt(1.0 + more**2)
        return replace(released(view.center + steps * view.grid, error), count=count)


# --- the simplest queries -------------------------------------------------------------------------


def Count() -> RowSum:
    """Return the query of the number of rows, where it is private."""
    return RowSum(One(), noise="entries", name="count")


def Sum(view: Any) -> RowSum:
    """Return the query of the sum of x - view.center over the rows, in user units."""
    return RowSum(Values(view, SUM_BITS))


def Mean(view: Any, count_error: bool = False, weight_bound: float | None = None) -> RowSum:
    """Return the query of the mean of the clipped rows, in user units.

    - `count_error`: Whether the standard error covers the noise of a private number of rows (first
      order). That of a weighted mean always does.
    - `weight_bound`: Public bound of the weights of rows that have them.
    """
    image = Values(view, SUM_BITS, count_error or weight_bound is not None)
    name = "mean" if weight_bound is None else "weighted mean"
    return RowSum(image, weight_bound=weight_bound, count=True, name=name)
