"""`RowSum` by enumeration: every row, every replacement, of small images, cells and weights.

The sensitivity that is declared is compared with by how much the exact sums move between all pairs
of neighbours. A sum is additive, so what one row adds to an empty table says everything.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from skdp.core import Box, ScaledBox
from skdp.core.query import owned
from skdp.core.sums import Image, One, RowCells, RowSum
from skdp.core.table import PrivateTable, stability_of
from skdp.queries import AssignedSums
from skdp.queries.cells import Grid, Labelled, Labels
from skdp.queries.grouped_sums import squared_offsets
from skdp.queries.images import Moments

RELATIONS = ("replace_one", "add_or_remove_one")
BOUND = 2.0  # of weights; they are 0, 1/2 and 1 of it, and beyond


class Listed(Image):
    """An image from a list: the first number of a row says which."""

    shape, l1, l2_squared, entry_bounds = None, None, None, None

    def __init__(self, *vectors, one_sign=False, bits=0):
        self.vectors = np.array(vectors, dtype=float)
        self.shape = (self.vectors.shape[1],)
        self.one_sign, self.weight_bits = one_sign, bits
        changes = [a - b for a, b in itertools.product(self.vectors, repeat=2)]
        self.l1, self.l2_squared = largest(self.vectors)
        self._change = largest(changes)
        self.entry_bounds = tuple(int(np.abs(v).max()) for v in (self.vectors, changes))

    @property
    def change_l1(self):
        return self._change[0]

    @property
    def change_l2_squared(self):
        return self._change[1]

    def blocks(self, x, labels, cells):
        images = self.vectors[x[:, 0].astype(int)]
        yield images[:, :1].copy()
        if images.shape[1] > 1:
            yield images[:, 1:].copy()


def largest(vectors):
    """Return the largest L1 norm and the largest squared L2 norm of some vectors of integers."""
    whole = [[int(v) for v in np.ravel(vector)] for vector in vectors]
    return max(sum(map(abs, v)) for v in whole), max(sum(k * k for k in v) for v in whole)


class Blocks(RowCells):
    """Blocks of cells; each number of a row after the first is its cell in one block, -1 none."""

    shape = None

    def __init__(self, n_blocks, n_cells, *, everywhere=True, image_first=False):
        self.n_blocks, self.n_cells = n_blocks, n_cells
        self.everywhere, self.image_first = everywhere, image_first
        self.shape = (n_blocks * n_cells,)

    @property
    def spans(self):
        return [(j * self.n_cells, (j + 1) * self.n_cells) for j in range(self.n_blocks)]

    @property
    def choices(self):
        own = range(0 if self.everywhere else -1, self.n_cells)
        return list(itertools.product(own, repeat=self.n_blocks))

    def of_rows(self, x, labels):
        own = x[:, 1:].astype(np.int64)
        starts = self.n_cells * np.arange(self.n_blocks)
        return np.where(own >= 0, own + starts, -1)


class Rows:
    """Rows and weights in memory."""

    filtered, n_is_private, units = False, False, None

    def __init__(self, rows, weights):
        self.x, self.weights = np.array(rows, dtype=float), np.array(weights, dtype=float)
        self._n, self.n_features = self.x.shape

    def spans(self, *, width=1, least=256):
        return [(0, self._n)] if self._n else []

    def chunk(self, start, stop):
        return self.x[start:stop].copy()

    def weighted(self, start, stop):
        return self.chunk(start, stop), self.weights[start:stop].copy()


IMAGES = {
    "one number of either sign": Listed([2], [-2], [1], [0]),
    "of one sign": Listed([4, 0], [0, 4], [4, 4], [0, 0], one_sign=True),
    "always the same": Listed([3], one_sign=True),
    "far from 0": Listed([5, 4], [4, 5], [4, 4]),
    "of unlike numbers": Listed([3, 1, 0], [1, -2, 2], [0, 0, -3]),
    "in finer steps": Listed([3, 1], [-1, -2], bits=5),
    # What a count in every cell is: a constant beside the image, which cancels within a cell.
    "with a count in every cell": Listed([2, 3], [-2, 3], [1, 3]),
}
CELLS = {
    "no cells": None,
    "two cells": Blocks(1, 2),
    "two cells or none": Blocks(1, 2, everywhere=False),
    "two blocks": Blocks(2, 2, image_first=True),
    "two blocks, or none": Blocks(2, 3, everywhere=False),
}


def all_rows(image, cells, weighted):
    """Return every row: image, cells, weight."""
    places = [()] if cells is None else cells.choices
    weights = (0.0, 0.3 * BOUND, BOUND, 7.0, -1.0) if weighted else (1.0,)
    return [
        ((k, *place), weight)
        for k, place, weight in itertools.product(range(len(image.vectors)), places, weights)
    ]


def table_of(rows):
    return PrivateTable(
        Rows([r for r, _ in rows], [w for _, w in rows]), stability_of("replace_one")
    )


@pytest.mark.parametrize("constant", [0, 1, 3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cells", CELLS)
@pytest.mark.parametrize("image", IMAGES)
def test_no_sum_moves_further_and_one_moves_as_far(image, cells, weighted, constant):
    image, cells = IMAGES[image], CELLS[cells]
    bound = BOUND if weighted else None
    query = RowSum(image, cells, noise="entries", weight_bound=bound, constant=constant)
    parts = [query.exact(table_of([row])).ravel() for row in all_rows(image, cells, weighted)]
    added = largest(parts)
    moved = np.array(parts, dtype=np.int64)
    moved = np.abs(moved[:, None] - moved)
    replaced = int(moved.sum(axis=2).max()), int((moved**2).sum(axis=2).max())
    assert query.sensitivity("add_or_remove_one").l1 == added[0]
    assert query.sensitivity("add_or_remove_one").l2_squared == added[1]
    size = query.sensitivity("replace_one")
    if not weighted or (image.one_sign and not constant):
        # Where nothing moves, the noise still has a scale.
        assert (size.l1, size.l2_squared) == (max(replaced[0], 1), max(replaced[1], 1))
        return
    # Rounding may add up to two steps a number, which no small row attains.
    blocks = 1 if cells is None else cells.n_blocks
    allowed = math.sqrt(replaced[1]) + 2 * math.sqrt(blocks * image.shape[0] + 1) + 3
    assert replaced[1] <= size.l2_squared <= allowed**2
    assert replaced[0] <= size.l1 == 2 * added[0]


@pytest.mark.parametrize("constant", [0, 1, 3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cells", CELLS)
@pytest.mark.parametrize("image", IMAGES)
def test_the_largest_changes_of_cells_add_up_to_the_box(image, cells, weighted, constant):
    image, cells = IMAGES[image], CELLS[cells]
    bound = BOUND if weighted else None
    query = RowSum(image, cells, weight_bound=bound, constant=constant)
    cubes = [query.sensitivity(relation).cubes for relation in RELATIONS]
    if cells is not None and (constant or cells.image_first):
        assert cubes == [
            None,
            None,
        ]  # a count is no cell, and numbers of a cell are not side by side
        return
    rows = all_rows(image, cells, weighted)
    parts = np.array([query.exact(table_of([row])).ravel() for row in rows], dtype=np.int64)
    changes = [parts[:, None] - parts, parts]
    for bound, change in zip(cubes, changes, strict=True):
        each = np.abs(change).reshape(*change.shape[:-1], bound.parts, -1).max(axis=-1)
        moved = max(1, int(each.sum(axis=-1).max()))
        rounded = len(cells.spans) if cells is not None else 1
        assert moved <= bound.size <= moved + (rounded if weighted else 0)


def test_what_a_smaller_table_says_is_not_enough():
    """Three bounds that leave out a count, or a weight: rows move further than each of them."""
    with_count = IMAGES["with a count in every cell"]
    query = RowSum(with_count, CELLS["two cells"], noise="entries")
    assert query.sensitivity("replace_one").l1 == 10 > 2 * 2  # the norm without the count
    assert query.sensitivity("replace_one").l2_squared == 26 > 4 * 2**2
    same = RowSum(IMAGES["always the same"], weight_bound=BOUND, noise="entries", constant=2)
    assert same.sensitivity("replace_one").l1 >= 3 + 2 > 2  # a change of rows without weights is 0


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cells", CELLS)
def test_a_sum_is_what_its_rows_add(cells, weighted):
    """In any shape, of rows that are in cells or in none."""
    image, cells = IMAGES["of unlike numbers"], CELLS[cells]
    bound = BOUND if weighted else None
    query = RowSum(image, cells, weight_bound=bound, constant=2)
    rows = all_rows(image, cells, weighted)
    exact = query.exact(table_of(rows))
    np.testing.assert_array_equal(exact, sum(query.exact(table_of([row])) for row in rows))
    size = 1 if cells is None else cells.shape[0]
    expected = np.zeros((size, 3), dtype=np.int64)
    count = 0
    for (k, *place), weight in rows:
        part = min(max(weight, 0.0), BOUND) / BOUND if weighted else 1.0
        count += round(2 * part)
        image_of_row = [round(v * part) for v in image.vectors[k]]
        for j, own in enumerate(place if cells is not None else (0,)):
            if own >= 0:
                expected[own + j * (cells.n_cells if cells is not None else 0)] += image_of_row
    if cells is not None and cells.image_first:
        expected = expected.T
    assert exact.tolist() == [*expected.ravel().tolist(), count]


def test_a_kind_of_noise_that_is_none_is_refused():
    with pytest.raises(ValueError, match="noise must be 'vector', 'entries' or 'smaller'"):
        RowSum(IMAGES["always the same"], noise="joint").sensitivity("replace_one")


def losses_of(changes, size, power):
    """Return what changes lose of counts and of sums, in parts of those of one row, (n, 2).

    power : 2 for squares of mu, 1 for epsilons.
    """
    counts = np.abs(changes[:, :, 0]) / size.unit_steps
    norms = np.sqrt((changes[:, :, 1:].astype(float) ** 2).sum(axis=2)) / size.bounds
    return np.stack([(counts**power).sum(axis=1), (norms**power).sum(axis=1)], axis=1)


@pytest.mark.parametrize("weight_bound", [None, 2.0])
def test_counts_and_sums_of_centres_move_as_their_joint_sensitivity_says(weight_bound):
    """Every row of some, and every replacement; for any share of the counts."""
    centers, box = np.array([[-1.0, 0.0], [1.0, 0.0]]), Box([-2.0, -2.0], [2.0, 2.0])
    query = AssignedSums(box, centers, 1.0, most=weight_bound, size=1024)
    query = replace(query, bits=0 if weight_bound is None else 4)
    ends = [-2.0, -1.0, 0.0, 0.3, 2.0]
    rows = [(np.array(x), w) for x in itertools.product(ends, ends) for w in (0.0, 0.7, 2.0)]
    parts = np.array([query.exact(table_of([row])) for row in rows], dtype=np.int64)
    pairs = (parts[:, None] - parts).reshape(-1, *parts.shape[1:])
    for relation, changes in (("add_or_remove_one", parts), ("replace_one", pairs)):
        size = query.sensitivity(relation)
        for share in (0.0, 0.3, 0.5, 1.0):
            both = np.array([share, 1 - share])
            allowed = max(float(both @ change) for change in size.changes)
            moved = float((losses_of(changes, size, 2) @ both).max())
            assert 0.98 * allowed <= moved <= allowed * (1 + 1e-9)
            assert (losses_of(changes, size, 1) @ both).max() <= size.rows * (1 + 1e-9)


def test_a_unit_of_several_rows_replaces_some_and_adds_others():
    query = AssignedSums(Box([0.0], [1.0]), [[0.0], [1.0]], 1.0, size=16)
    replaced, added = (query.sensitivity(relation) for relation in RELATIONS)
    assert set(replaced.times(3).changes) == {(18, 18), (0, 36)}
    assert replaced.times(3).rows == 6
    assert set(added.times(4).either(replaced).changes) == {(16, 16), (2, 2), (0, 4)}
    assert added.times(4).either(replaced).rows == 4


def test_what_no_bound_covers_is_refused_or_in_no_cell():
    assert Labels(2).of_rows(None, np.array([0, 1, 2, -1]))[:, 0].tolist() == [0, 1, -1, -1]
    with pytest.raises(ValueError, match="ascending"):
        Labelled(Grid((np.array([0.0, 2.0, 1.0]),))).check_table(None)
    with pytest.raises(ValueError, match="even number of steps"):
        Moments(ScaledBox(np.array([-1.0]), np.array([1.0]), 0)).check_table(None)
    Moments(ScaledBox(np.array([-1.0]), np.array([1.0]), 1)).check_table(None)


def test_a_bound_that_is_set_on_a_part_of_a_query_is_not_taken():
    image = One()
    vars(image)["l1"] = vars(image)["l2_squared"] = 0
    query = owned(RowSum(image, noise="entries"))
    assert query.image.l1 == 1
    assert query.sensitivity("add_or_remove_one").l1 == 1


def test_centres_beyond_a_box_of_no_width_add_nothing():
    box = Box(np.array([1.7e308]), np.array([1.7e308]))
    image = squared_offsets(box, [[-1.7e308]]).image
    with np.errstate(all="ignore"):
        (block,) = image.blocks(np.array([[1.7e308]]), None, None)
    assert block.tolist() == [[0.0]]
