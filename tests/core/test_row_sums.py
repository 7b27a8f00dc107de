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

from skdp.core import Ball, Box, Mean, ScaledBox
from skdp.core.mechanisms import Cubes
from skdp.core.query import Terms, UserFunction, moved_by, owned
from skdp.core.sums import Image, One, RowCells, RowSum
from skdp.core.table import PrivateTable, Stability, stability_of
from skdp.queries import AssignedSums, moments, score_mean
from skdp.queries.cells import Grid, Labelled, Labels
from skdp.queries.grouped_sums import squared_offsets
from skdp.queries.images import Moments
from skdp.tabular import check_rows

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


CORNER = np.ones((1, 3))
COUNTED = {
    "mean of a box": (Mean(Box(-np.ones(3), np.ones(3))), CORNER),
    "mean of a ball": (Mean(Ball(np.zeros(3), 1.0)), CORNER),
    "mean of one column": (Mean(Box([-1.0], [1.0])), CORNER[:, :1]),
    "moments": (moments(-np.ones(3), np.ones(3)), CORNER),
    "moments of one column": (moments([-1.0], [1.0]), CORNER[:, :1]),
    "score": (score_mean(UserFunction(len), -1.0, 1.0), None),
}


def exact_of(query, rows):
    """Return what some rows add, as integers."""
    rows = check_rows(rows, estimator="rows", allow_empty=True)
    return query.exact(PrivateTable(rows, stability_of("replace_one"))).astype(object)


def drawn_for(bounds, query, pure):
    """Return the norm whose noise is drawn, and the bound in it."""
    least = bounds.least(query.entries, pure=pure)
    return ("cube", least.size) if isinstance(least, Cubes) else ("ball", least.l2)


@pytest.mark.parametrize("stability", [Stability(1, 1), Stability(3, 3)], ids=["filter", "unit"])
@pytest.mark.parametrize("pure", [True, False])
@pytest.mark.parametrize("name", COUNTED)
def test_a_count_costs_nothing_where_rows_are_replaced(name, pure, stability):
    """Rows that are replaced, and rows that enter, both move the sums as far as is stated."""
    query, corner = COUNTED[name]
    query = query.prepared(Terms(stability, pure, 1.0, None))
    k = stability.replacements
    norm, size = drawn_for(moved_by(RowSum, query, stability), query, pure)
    uncounted = replace(query, constant=0).sensitivity("replace_one").times(k)
    assert (norm, size) == drawn_for(uncounted, query, pure)
    if corner is None:
        return
    ends = [exact_of(query, np.repeat(sign * corner, k, axis=0)) for sign in (1, -1)]
    for change in (ends[0] - ends[1], ends[0]):
        moved = max(map(abs, change)) if norm == "cube" else math.sqrt(sum(change**2))
        assert (1 - 1e-6) * size <= moved <= size


@pytest.mark.parametrize("pure", [True, False])
def test_the_free_count_is_not_free_where_rows_are_added(pure):
    """The weight that is free where rows are replaced would double what an added row moves."""
    for query, least in ((COUNTED["mean of a box"][0], 1.7), (COUNTED["moments"][0], 1.3)):
        added, replaced = (
            query.prepared(Terms(stability, pure, 1.0, None))
            for stability in (Stability(0, 1), Stability(1, 1))
        )
        stds = [
            part.sensitivity("add_or_remove_one").std(part.entries, 1.0, pure=pure) * part.unit
            for part in (added, replaced)
        ]
        assert stds[1] > least * stds[0]


def test_squares_have_less_noise_than_values():
    """8/13 of it where rows are replaced, half of it in cubes; the cube for many columns."""
    found = {}
    for d, pure, stability in itertools.product((1, 20), (True, False), ((1, 0), (1, 1), (0, 1))):
        terms = Terms(Stability(*stability), pure, 1.0, 1 if stability == (1, 0) else None)
        query = moments(-np.ones(d), np.ones(d)).prepared(terms)
        found[d, pure, stability] = query.image.factors
    assert {found[d, False, (0, 1)] for d in (1, 20)} == {(1, 1)}
    assert {found[d, False, (1, a)] for d in (1, 20) for a in (0, 1)} == {(8, 13)}
    assert [found[1, True, (1, a)] for a in (0, 1)] == [(8, 13)] * 2
    assert {found[20, True, (1, 0)], found[20, True, (1, 1)], found[20, True, (0, 1)]} == {(1, 2)}


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
    query = RowSum(One(), Labelled(Grid((np.array([0.0, 1.0, 2.0]),))))
    query.cells.cells.edges[0][:] = [0.0, 2.0, 1.0]  # changed after it was made
    with pytest.raises(ValueError, match="ascending"):
        owned(query)
    with pytest.raises(ValueError, match="at least 128 steps"):
        Moments(ScaledBox(np.array([-1.0]), np.array([1.0]), 6)).check_table(None)
    Moments(ScaledBox(np.array([-1.0]), np.array([1.0]), 7)).check_table(None)


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
