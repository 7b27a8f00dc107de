"""Neighbours: no exact statistic moves by more than its declared sensitivity, some by all of it.

Three parts. Every estimator on drawn and on adversarial pairs of neighbouring tables; every query
of a session on its worst pair, where the sensitivity must be attained (so that the check can
fail); and queries broken on purpose, which the check must find.
"""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from cases import DELTAS, RELATIONS, Case, make
from estimators import CASES
from hypothesis import given, settings
from hypothesis import strategies as st
from toys import OneRelease, ToyRatio

from skdp.audit import neighbour_check
from skdp.budget import PrivacyBudget
from skdp.core import Box, Mean, Moments, SecondMoment, Sum, UserFunction, mechanisms, session
from skdp.core import clipping as protect
from skdp.core import session as session_module
from skdp.core import sums as statistics
from skdp.core.query import Choice, Measurement, Query, reviewed_types
from skdp.queries import (
    AssignedSums,
    BlockVotes,
    BoxTree,
    CellCounts,
    CellErrors,
    CellGradient,
    CellQuantile,
    Cells,
    ColumnCells,
    EdgeHistogram,
    FunctionMean,
    LabelCategories,
    LabelCounts,
    LabelMoments,
    LabelSums,
    LabelVectors,
    LeafCounts,
    LearnedBounds,
    LogisticGradient,
    Marginal,
    NoisyQuantiles,
    NormBound,
    NormsBelow,
    Quantiles,
    ScoreMean,
    SmallTable,
    SmoothMedian,
    SpanningCost,
    SparseVector,
    SplitTrees,
    SquaredOffsets,
    StandardBall,
    TargetMoments,
    ThresholdTable,
    WeightedBall,
    Workload,
    WorkloadAnswer,
    WorstMarginal,
    WorstQuery,
    column_box,
    tree_box,
    trees,
)
from skdp.queries import grouped_sums as groups
from skdp.queries.column_sums import sum_view
from skdp.queries.smooth_sensitivity.ladders import smooth_release
from skdp.tabular import Bins, Domain, check_coded, check_labelled, check_with_target
from skdp.user_code import OnBlocks
from tests.views import ball_of, block_mean, block_median, block_smooth_median, box_of

D = 3

# Values at which arithmetic is delicate: signed zeros, denormals, the largest floats, neighbours of
# bounds and of powers of two (boundaries of bins and of cells), and of 1/3 (no grid point).
DELICATE = [0.0, -0.0, 5e-324, -2.3e-308, 1e-12, 1e300, -1e300, 1.7976931348623157e308, 1 / 3, 16.0]
DELICATE += [s * v for s in (1, -1) for b in (0.25, 0.5, 1.0) for v in
             (b, np.nextafter(b, 0), np.nextafter(b, 2))]  # fmt: skip
ONE_CELL = 2 / 4096
DELICATE += [-1 + ONE_CELL, np.nextafter(-1 + ONE_CELL, 0), np.nextafter(-1 + ONE_CELL, -1)]

values = st.sampled_from(DELICATE) | st.floats(-2, 2) | st.floats(allow_nan=False, width=64,
                                                                  allow_infinity=False)  # fmt: skip


@st.composite
def neighbours(draw, relation, d):
    """Draw (X, X'): one row replaced or removed, at the first, last or a middle place."""
    row = st.lists(values, min_size=d, max_size=d)
    n = draw(st.integers(2, 6))
    X = np.array([draw(row) for _ in range(n)])
    place = draw(st.sampled_from([0, n - 1, n // 2]))
    if relation == "replace_one":
        other = X.copy()
        other[place] = draw(row)
    else:
        other = np.delete(X, place, axis=0)
        if draw(st.booleans()):
            X, other = other, X
    return X, other


def check_neighbours(estimator, case, X, other):
    """Check neighbouring private rows, among the same public ones where the case has such.

    Tables of two lengths have their private rows at other places: nothing may be made of these.
    """
    (X, y), (other, y_other) = case.table(X), case.table(other, len(X) != len(other))
    return neighbour_check(estimator, X, other, y=y, y_neighbour=y_other)


@pytest.mark.slow
@pytest.mark.in_turn
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_drawn_neighbours(case, delta, relation):
    estimator = make(case, delta, relation)

    @settings(
        max_examples=10 if case.samples else 15, deadline=None, database=None, derandomize=True
    )
    @given(pair=neighbours(relation, case.n_features))
    def check(pair):
        check_neighbours(estimator, case, *pair)

    check()


def worst_pairs(d):
    """Return pairs of rows (or a row alone) that are worst for one statistic or another."""
    e = np.eye(d)
    ones = np.ones(d)
    signs = np.where(np.arange(d) % 2, -1.0, 1.0)
    # The eigenvectors of S = [[J, J], [J, -J]], at an angle of 22.5 degrees to the halves.
    half = np.arange(d) < (d + 1) // 2
    up, down = math.cos(math.pi / 8), math.sin(math.pi / 8)
    s_first = np.where(half, up, down) / math.sqrt(d / 2)
    s_second = np.where(half, down, -up) / math.sqrt(d / 2)
    sphere = np.random.default_rng(3).normal(size=(2, d))
    sphere /= np.linalg.norm(sphere, axis=1)[:, None]
    third = np.full(d, 1 / math.sqrt(d))
    return {
        "poles": (e[0], -e[0]),
        "orthogonal": (e[0], e[-1]),
        "corners": (ones, -ones),
        "far corners": (1e300 * ones, -1e300 * ones),
        "alternating": (signs, -signs),
        "diagonals": (third, signs / math.sqrt(d)),
        "laplace gram": (s_first, s_second),
        "sphere": (sphere[0], sphere[1]),
        "sphere, one ulp out": (np.nextafter(sphere[0], 2 * sphere[0]), -sphere[0]),
        "opposite on the sphere": (third, -third),
        "denormal and huge": (5e-324 * ones, 1e300 * e[0]),
        "zeros of two signs": (0.0 * ones, -0.0 * ones),
        "tau": (e[0], -0.0225 * e[0] + math.sqrt(1 - 0.0225**2) * e[-1]),
    }


@pytest.mark.in_turn
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_adversarial_neighbours(case, delta, relation):
    estimator, d = make(case, delta, relation), case.n_features
    # Others that sit still, that stretch the learned bounds, and that lie on the first row.
    tables = itertools.cycle(
        itertools.product((0, 2, 3), (np.zeros((3, d)), np.full((3, d), -7.5), np.eye(3, d)))
    )
    for x, moved in worst_pairs(d).values():
        for place, others in itertools.islice(tables, 2):
            X = np.insert(others, place, x, axis=0)
            changed = np.insert(others, place, moved, axis=0)
            other = changed if relation == "replace_one" else others
            check_neighbours(estimator, case, X, other)


# --- every query on its worst pair -------------------------------------------------------------

TAU = 0.25


def tau_pair(d):
    """Return two rows of norm 1 with x.x' = -TAU**2: augmented, they are orthogonal."""
    e = np.eye(d)
    return e[0], -(TAU**2) * e[0] + math.sqrt(1 - TAU**4) * e[-1]


def ball(s):
    return ball_of(s, np.zeros(s.n_features), 1.0)


def box(s):
    return box_of(s, -np.ones(s.n_features), np.ones(s.n_features))


def gram(noise, tau=TAU):
    return lambda s: s.answer(SecondMoment(ball(s), tau=tau, noise=noise)).n


CENTERS = np.array([[-1.0, 0, 0], [1.0, 0, 0]])
NEAR = np.array([1.0, 0.5, 0.0]), np.array([-1.0, 0.5, 0.0])  # residuals of the full radius, 1/2


def assigned(s):
    return s.answer(AssignedSums(box(s), CENTERS, 0.5))[0].value


def assigned_in_units(s):
    return s.answer(AssignedSums(box(s), CENTERS, 1.0, units=[1.0, 0.5, 20.0]))[0].value


def squares(s):
    return s.answer(SquaredOffsets(box(s), -np.ones((1, s.n_features)))).value


def mean_in_units(s):
    return s.answer(Mean(column_box(-np.ones(D), np.ones(D), [3.0, 0.01, 1.0], s.level()))).value


def leaf_sums_in_units(s):
    low = np.array([-1.0, -1e-4, -1.0])
    return s.answer(BoxTree(tree_box(low, -low), 2)).sums([4, 5, 6, 7])[0].value


def node_counts(s):
    return s.answer(BoxTree(box(s), 2)).counts([4, 5, 3]).value


def score(s):
    return s.answer(ScoreMean(UserFunction(lambda X, y: X[:, 0]), -1.0, 1.0)).value


def sum_of_box(s):
    return s.answer(Sum(box(s))).value


def mean_of_box(s):
    return s.answer(Mean(box(s))).value


def clipped_sum(low, high, **options):
    """Return the sum that `statistics.sum` asks for."""

    def ask(s):
        about_zero = s.adjacency != "replace_one"
        view = sum_view(low, high, s.n_features, about_zero=about_zero, **options)
        return s.answer(Sum(view)).value

    return ask


def clipped_mean(s):
    return s.answer(Mean(sum_view(-1, 1, s.n_features), count_error=True)).value


def moments(s):
    return s.answer(Moments(-np.ones(D), np.ones(D)))[0].value


def norms_below(s):
    return s.answer(NormsBelow(np.zeros(s.n_features), 5.0)).value


def norm_bound(s):
    return s.answer(NormBound(np.zeros(s.n_features)), 0.5)


def middle(q):
    return lambda s: s.answer(CellQuantile(box(s), q)).value


def learned_lows(s):
    return s.answer(LearnedBounds()).low


def noisy_median(s):
    return s.answer(NoisyQuantiles(box_of(s, -1, 1), 0.5)).value


def statistical_query(s):
    return s.answer(FunctionMean(UserFunction(lambda x: x[0]))).value


def leaf_sums(s):
    return s.answer(BoxTree(box(s), 2)).sums([4, 5, 6, 7])[0].value


def of_labels(low, high):
    return lambda s: (
        s.answer(LabelSums(*(np.full(s.n_features, float(end)) for end in (low, high)), 2)).value
    )


def nonzero(across):
    return clipped_sum(0, 1, nonzero=True, across=across)


def turned(X, y, seed, width=2):
    """Return what the model of a block says: one row turns it."""
    return np.full(width, float(np.max(X, initial=-1.0) > 0.5))


def of_blocks(query, *arguments, **options):
    run = OnBlocks(UserFunction(turned), 3)
    return lambda s: s.answer(query(run, *arguments, **options))


class LabelledRelease(OneRelease):
    """A query of rows with labels, which a row alone decides."""

    def _open(self, X):
        self._check_privacy_parameters()
        labels = np.where(np.abs(X[:, 0]) > 1.5, "far", "near")
        return check_labelled(
            X, labels, estimator="OneRelease", classes=np.array(["far", "near"]),
            allow_empty=self._allow_empty,
        )  # fmt: skip


class TargetRelease(OneRelease):
    """A query of rows with a target, the opposite of their first cell."""

    def _open(self, X):
        self._check_privacy_parameters()
        return check_with_target(X, -X[:, 0], estimator="OneRelease", allow_empty=self._allow_empty)


class CodedRelease(OneRelease):
    """A query of rows that are coded by a public domain: which side of 0 each cell is."""

    def _open(self, X):
        self._check_privacy_parameters()
        domain = Domain([Bins([-10.0, 0.0, 10.0])] * D)
        return check_coded(X, domain, estimator="OneRelease", allow_empty=self._allow_empty)


PAIRS_OF_SIDES = Workload((2,) * D, [Cells((0, 1)), Cells((1, 2))])
ABOVE = 3  # the query for rows above 0 in the first two columns


def of_queries(kind, *arguments):
    return lambda s: s.answer(kind(PAIRS_OF_SIDES, *arguments))


def is_far(s):
    comparisons = s.answer(SparseVector(2.0, 3))
    return comparisons.is_far(WorkloadAnswer(PAIRS_OF_SIDES, ABOVE), 0.0)


# A public table that a row which leaves `ABOVE` for the opposite cell is further from twice.
BELIEVED = [np.array([0, 0, 0, 100])] * 2


def gradient(theta, clip=1.0, n_logits=1):
    """Return the gradient at theta times the second column: rows of doubt differ in it alone."""

    def ask(s):
        d = s.n_features
        view = StandardBall(-np.ones(d), np.ones(d), np.zeros(d), np.ones(d), 1.0)
        coef = np.zeros((n_logits, d + 1))
        coef[:, 1] = [-theta, theta, 0.0] if n_logits == 3 else theta
        offset = np.zeros(n_logits)
        return s.answer(LogisticGradient(view, 0.5, coef, offset, clip)).value

    return ask


STUMPS = SplitTrees(np.array([[0, 1, 1], [2, 0, 0]]), np.zeros((2, 3)), D)
HALVES = ColumnCells((np.array([0.0]),) * D)


def cell_gradient(score, clip=1.0, n_logits=1):
    """Return the gradient where the cells of the second column decide; the others say nothing."""

    def ask(s):
        scores = np.zeros((n_logits, 2 * D))
        scores[-1 if n_logits == 1 else 1, 2:4] = -score, score
        if n_logits > 1:
            scores[0, 2:4] = score, -score
        return s.answer(CellGradient(HALVES, scores, np.zeros(n_logits), clip)).value

    return ask


def cell_errors(s):
    """Return the errors of rows that share all cells, clipped: targets are -1 to 1."""
    one = ColumnCells((np.array([5.0]),) * D)
    return s.answer(CellErrors(one, np.zeros(2 * D), 0.0, -1.0, 1.0, 0.25)).value


def target_moments(s):
    return s.answer(TargetMoments(np.array([-1.0]), np.array([1.0])))[2]


def of_classes(kind, *arguments):
    return lambda s: s.answer(kind(*arguments, 2))


def label_vectors(s):
    return s.answer(LabelVectors(ball(s), 2)).value


def standard_gram(s):
    d = s.n_features
    view = StandardBall(-np.ones(d), np.ones(d), np.zeros(d), np.full(d, 0.5), 2.0)
    return s.answer(SecondMoment(view, tau=TAU)).n


def weighted_gram(s):
    """Take the last column, that of the target, for weights: a weight of 1 is clipped to 1/4."""
    d = s.n_features - 1
    ball = StandardBall(-np.ones(d), np.ones(d), np.zeros(d), np.full(d, 0.5), 2.0)
    return s.answer(SecondMoment(WeightedBall(ball, TAU, 0.25), tau=2.0**-30)).n


CORNERS = np.ones(D), -np.ones(D)
# Labels are "near" (1): certainly wrong below 0 in the second column, and "far" (0) above; the
# first column is on the sphere or beyond.
WRONG = np.array([1.0, -1e-3, 0.0]), np.array([1.6, 1e-3, 0.0])
SIGNS = (np.array([-1.0, 1.0]),) * D
RELABELLED = np.ones(D), 2 * np.ones(D)  # as far, and of another label
NOTHING = np.ones(D), np.zeros(D)
TWO = Box([0, 0], [1, 1])
POLES = np.eye(D)[0], -np.eye(D)[0]
NORMS = np.ones(D), 9 * np.ones(D)
BOTH, PURE, GAUSS = (0.0, 1e-5), (0.0,), (1e-5,)
R, A = ("replace_one",), ("add_or_remove_one",)

# (name, what is asked, deltas, relations, the two rows, least distance / sensitivity). Under
# add-or-remove the first row alone counts. 0.99 unless a reason is given.
QUERIES = [
    ("sum of a box", sum_of_box, BOTH, R + A, CORNERS, 0.99),
    ("sum of a ball", lambda s: s.answer(Sum(ball(s))).value, BOTH, R + A, POLES, 0.99),
    ("mean", mean_of_box, BOTH, R + A, CORNERS, 0.99),
    ("moments", moments, BOTH, R + A, CORNERS, 0.99),
    ("count", lambda s: s.row_count().value, BOTH, A, CORNERS, 0.99),
    ("gram, gaussian", gram("gaussian"), GAUSS, R + A, tau_pair(D), 0.99),
    ("gram, wishart", gram("wishart"), BOTH, R + A, tau_pair(D), 0.99),
    # All |z_j| equal, the augmented one included: tight.
    ("gram, laplace, A", gram("laplace", D**-0.5), PURE, A, (np.full(D, D**-0.5), None), 0.99),
    # The bound holds for any two vectors of length gamma; ours share their last coordinate, whose
    # square cancels. A numerical maximum over such pairs is 0.913 of it (0.97 in 6 dimensions).
    ("gram, laplace, R", gram("laplace"), PURE, R, None, 0.90),
    ("nearest centres", assigned, BOTH, R + A, NEAR, 0.99),
    ("nearest centres, units", assigned_in_units, BOTH, R + A, NEAR, 0.99),
    ("squared offsets", squares, BOTH, R + A, CORNERS, 0.99),
    ("mean, units", mean_in_units, BOTH, R + A, CORNERS, 0.99),
    ("tree sums, units", leaf_sums_in_units, BOTH, R + A, CORNERS, 0.99),
    ("tree counts", node_counts, BOTH, R + A, CORNERS, 0.99),
    ("tree sums", leaf_sums, BOTH, R + A, CORNERS, 0.99),
    ("norm bound", norm_bound, BOTH, R + A, NORMS, 0.99),
    ("norms below", norms_below, BOTH, R + A, NORMS, 0.99),
    ("median", middle(0.5), BOTH, R + A, CORNERS, 0.99),
    ("quantile", middle(0.9), BOTH, R + A, CORNERS, 0.99),
    ("score", score, BOTH, R + A, CORNERS, 0.99),
    ("clipped sum", clipped_sum(-1, 1), BOTH, R + A, CORNERS, 0.99),
    ("clipped sum, far from 0", clipped_sum(5, 7), BOTH, A, NORMS[::-1], 0.99),
    ("sum of totals", clipped_sum(-1, 1, across=True), BOTH, R + A, CORNERS, 0.99),
    ("not zero", nonzero(False), BOTH, R + A, NOTHING, 0.99),
    ("not zero in all", nonzero(True), BOTH, R + A, NOTHING, 0.99),
    ("clipped mean", clipped_mean, BOTH, R + A, CORNERS, 0.99),
    ("statistical query", statistical_query, BOTH, R + A, CORNERS, 0.99),
    ("edge histogram", lambda s: s.answer(
        EdgeHistogram((np.array([-1.0, 0.0, 1.0]),) * D)).value, BOTH,
     R + A, CORNERS, 0.99),
    # Two labels of three columns: Laplace noise for the sum of bounds in 6 numbers, or K-norm.
    ("label sums", of_labels(-1, 1), BOTH, R + A, CORNERS, 0.99),
    ("label sums, relabelled", of_labels(0, 1), BOTH, R + A, RELABELLED, 0.99),
    ("label gradient", gradient(1e6), BOTH, R + A, WRONG, 0.99),
    ("label gradient, three classes", gradient(1e6, math.sqrt(2), 3), BOTH, R + A, WRONG, 0.99),
    ("label counts", of_classes(LabelCounts), BOTH, R + A, RELABELLED, 0.99),
    ("label moments", of_classes(LabelMoments, -np.ones(D), np.ones(D)), GAUSS, R + A,
     CORNERS, 0.99),
    ("label moments", of_classes(LabelMoments, -np.ones(D), np.ones(D)), PURE, A, CORNERS,
     0.99),
    ("label vectors", label_vectors, BOTH, R + A, POLES, 0.99),
    ("label cell counts", lambda s: s.answer(CellCounts(HALVES)), BOTH, R + A, CORNERS, 0.99),
    ("label cell gradient", cell_gradient(1e6), BOTH, A, WRONG, 0.99),
    # Rows with opposite residuals are in different cells of one column of three at least: in L2
    # they move sqrt(10 / 12) of the bound.
    ("label cell gradient", cell_gradient(1e6), PURE, R, WRONG, 0.99),
    ("label cell gradient", cell_gradient(1e6), GAUSS, R, WRONG, 0.91),
    ("label cell gradient of three", cell_gradient(1e6, math.sqrt(2), 3), GAUSS, A, WRONG, 0.99),
    ("label cell gradient of three", cell_gradient(1e6, math.sqrt(2), 3), GAUSS, R, WRONG, 0.91),
    ("label leaf counts", of_classes(LeafCounts, STUMPS), BOTH, R + A, CORNERS, 0.99),
    ("label categories", of_classes(LabelCategories, SIGNS), BOTH, R + A, CORNERS, 0.99),
    ("weighted gram with a target", weighted_gram, BOTH, A, (np.array([-1.0, 0.0, 0.0]), None),
     0.99),
    ("weighted gram with a target, of no weight", weighted_gram, BOTH, R, (
        np.array([-1.0, 0.0, 0.0]), np.array([1.0, 0.0, 0.0])), 0.49),
    ("gram with a target", standard_gram, BOTH, A, (np.array([1.0, 0.0, 0.0]), None), 0.99),
    ("target moments", target_moments, BOTH, R + A, CORNERS, 0.99),
    ("target cell counts", lambda s: s.answer(CellCounts(HALVES, labelled=False)), BOTH, R + A,
     CORNERS, 0.99),
    ("target cell errors", cell_errors, BOTH, R + A, CORNERS, 0.99),
    ("threshold table", lambda s: s.answer(
        ThresholdTable(np.array([-1.0, 0.0, 1.0]), 2)), BOTH, R + A, CORNERS, 0.99),
    ("coded, an answer", of_queries(WorkloadAnswer, ABOVE), BOTH, R + A, CORNERS, 0.99),
    ("coded, worst query", of_queries(WorstQuery, np.zeros(8)), BOTH, R + A, CORNERS, 0.99),
    ("coded, worst marginal", of_queries(WorstMarginal, BELIEVED, np.zeros(2)), BOTH, R + A,
     CORNERS, 0.99),
    ("coded, marginal", lambda s: s.answer(Marginal((2,) * D, (0, 1))).value, BOTH, R + A,
     CORNERS, 0.99),
    ("coded, small table", of_queries(SmallTable, 1), BOTH, R + A, CORNERS, 0.99),
    ("coded, above threshold", is_far, BOTH, R + A, CORNERS, 0.99),
    ("votes of blocks", of_blocks(BlockVotes, 2, 2), BOTH, R + A, CORNERS, 0.99),
    ("votes of blocks, 3 classes", of_blocks(BlockVotes, 2, 3), BOTH, R + A, CORNERS, 0.99),
    ("mean of blocks", of_blocks(block_mean, TWO), BOTH, R + A, CORNERS, 0.99),
    ("median of blocks", of_blocks(block_median, TWO), BOTH, R + A, CORNERS, 0.99),
    # The median stays where it is, and the smooth sensitivity moves by all of beta but what its
    # ladder keeps for rounding: 30 or 31 steps of 32.
    ("smooth median of blocks", of_blocks(block_smooth_median, TWO), BOTH, R + A, CORNERS,
     0.93),
]  # fmt: skip

# The same for pairs of whole tables, which are worst for statistics of ranks: (name, what is asked,
# deltas, relation, X, X', least distance / sensitivity of the release that moves most).
ONES, ZEROS = np.ones((1, D)), np.zeros((1, D))
SEVEN = np.repeat([[0.0], [1.0]], [3, 4], axis=0)  # medians 1 and 0
SEVEN_R, SEVEN_A = np.repeat([[0.0], [1.0]], [4, 3], axis=0), SEVEN[:-1]
LOPSIDED = np.repeat([[0.0], [1.0]], [2, 5], axis=0)
ENDS = np.repeat([-1.0, 1.0], [2, 3])[:, None] * ONES
TWENTY = np.zeros((20, 1))
OF_THREE = np.array([[0.0], [0.0], [1.0]])
FAR = np.append(np.zeros((400, 1)), [[1e6]], axis=0)


def smooth(**options):
    return lambda s: s.answer(SmoothMedian(box_of(s, 0, 1), **options)).value


def levels(q, **options):
    return lambda s: s.answer(Quantiles(box_of(s, -1, 1), q, **options)).value


def own_statistic(s):
    """Release the number of rows above 1/2, whose sensitivity is 1 everywhere, of 8 at most."""

    def statistic(ladders):
        block = np.concatenate([np.zeros(0), *(b[:, 0] for b in s._table.rows.chunks())])
        return np.array([(block > 0.5).sum()]), [ladders[0].level(0.0)]

    return smooth_release(s._meter, "own", [8], statistic)


def each_its_block(s):
    return s.answer(
        block_smooth_median(OnBlocks(UserFunction(lambda X, y, seed: X[:, 0]), 7), box_of(s, 0, 1))
    ).value


def tree_cost(n_vertices, edges):
    return lambda s: s.answer(SpanningCost(box_of(s, 0, 1), n_vertices, edges)).value


TRIANGLE = [[0, 1], [1, 2], [2, 0]]
SHORTCUT = np.array([[0.0], [1.0], [1.0]]), np.array([[1.0], [1.0], [1.0]])
MEDIAN_ENDS = np.repeat([-1.0, 1.0], [3, 2])[:, None] * ONES

WHOLE = [
    ("smooth median", smooth(), BOTH, *R, SEVEN, SEVEN_R, 0.99),
    ("smooth median, a row less", smooth(), BOTH, *A, SEVEN, SEVEN_A, 0.99),
    ("smooth median, a row more", smooth(), BOTH, *A, SEVEN_A, SEVEN, 0.99),
    ("smooth median, student", smooth(noise="student"), BOTH, *R, SEVEN, SEVEN_R, 0.99),
    ("smooth median, student, a row less", smooth(noise="student"), BOTH, *A, SEVEN, SEVEN_A, 0.99),
    # Here the median stays, and the smooth sensitivity moves by all of beta, as above.
    ("smooth median, scale", smooth(), BOTH, *R, SEVEN, LOPSIDED, 0.93),
    ("smooth quartile, scale", smooth(q=0.25), BOTH, *A, SEVEN, SEVEN[1:], 0.93),
    ("smooth release", own_statistic, BOTH, *R, SEVEN, SEVEN_R, 0.95),
    ("smooth release, a row less", own_statistic, BOTH, *A, SEVEN, SEVEN_A, 0.95),
    ("smooth median of blocks", each_its_block, BOTH, *R, SEVEN, SEVEN_R, 0.99),
    ("quantiles, median", levels(0.5), BOTH, *R, OF_THREE, -OF_THREE, 0.99),
    ("quantiles, median, a row less", levels(0.5), BOTH, *A, OF_THREE, OF_THREE[:-1], 0.99),
    ("quantiles, 9 of 10", levels(0.9), BOTH, *A, np.append(TWENTY, [[1.0]], axis=0), TWENTY, 0.99),
    ("quantiles, of integers", levels(0.5, step=1.0), BOTH, *R, OF_THREE, -OF_THREE, 0.49),
    ("quantiles, three", levels([0.25, 0.5, 0.75]), BOTH, *R, ENDS, MEDIAN_ENDS, 0.49),
    ("learned bounds", learned_lows, BOTH, *R, FAR, -FAR, 0.99),
    ("learned bounds, a row less", learned_lows, BOTH, *A, FAR, FAR[:-1], 0.99),
    ("noisy quantiles", noisy_median, BOTH, *R, ENDS,
     MEDIAN_ENDS, 0.99),
    ("noisy quantiles, a row less", noisy_median, BOTH, *A,
     ENDS, ENDS[:-1], 0.99),
    ("spanning tree, a bridge", tree_cost(2, [[0, 1]]), BOTH, *R, ONES[:, :1], ZEROS[:, :1], 0.99),
    ("spanning tree, a shortcut", tree_cost(3, TRIANGLE), BOTH, *R, *SHORTCUT, 0.99),
]  # fmt: skip


def laplace_pair():
    """Return the pair of rows that moves the upper triangle most, by a coarse search."""

    def moved(p):
        z, v = (np.append(q / max(1, np.linalg.norm(q)), TAU) for q in (p[:D], p[D:]))
        return np.abs((np.outer(z, z) - np.outer(v, v))[np.triu_indices(D + 1)]).sum()

    rng = np.random.default_rng(0)
    best = max(rng.normal(size=(300, 2 * D)), key=moved)
    for step in np.geomspace(0.5, 1e-3, 60):
        best = max([best, *(best + step * rng.normal(size=(40, 2 * D)))], key=moved)
    return tuple(q / max(1, np.linalg.norm(q)) for q in (best[:D], best[D:]))


def release_case(name, ask, relation, delta=0.0):
    """Return an estimator that asks a query; rows have labels where it needs them."""
    kind = LabelledRelease if "label" in name or "block" in name else OneRelease
    kind = CodedRelease if "coded" in name else kind
    kind = TargetRelease if "target" in name else kind
    return make(Case(name, lambda **p: kind(ask, **p)), delta, relation)


def tables(relation, first, second):
    others = np.zeros((2, D))
    X = np.vstack([others, first])
    return (X, np.vstack([others, second])) if relation == "replace_one" else (X, others)


@pytest.mark.parametrize(
    ("name", "ask", "delta", "relation", "pair", "least"),
    [
        pytest.param(name, ask, delta, relation, pair, least, id=f"{name}-{delta}-{relation}")
        for name, ask, deltas, relations, pair, least in QUERIES
        for delta in deltas
        for relation in relations
    ],
)
def test_a_sensitivity_is_attained(name, ask, delta, relation, pair, least):
    pair = laplace_pair() if pair is None else pair
    found = neighbour_check(release_case(name, ask, relation, delta), *tables(relation, *pair))
    assert found
    for _, distance, sensitivity in found:
        assert distance >= least * sensitivity


@pytest.mark.parametrize(
    ("name", "ask", "delta", "relation", "X", "other", "least"),
    [
        pytest.param(name, ask, delta, relation, X, other, least, id=f"{name}-{delta}")
        for name, ask, deltas, relation, X, other, least in WHOLE
        for delta in deltas
    ],
)
def test_a_sensitivity_is_attained_by_whole_tables(name, ask, delta, relation, X, other, least):
    found = neighbour_check(release_case(name, ask, relation, delta), X, other)
    assert max(distance / sensitivity for _, distance, sensitivity in found) >= least


TESTS = Path(__file__).parents[1]
# Queries whose neighbour tests need rows of their own: where they are.
ELSEWHERE = {
    "RowsBeyond": "contract/test_users.py",
    "BasisMean": "queries/test_kernel_means.py",
    "BestOfRuns": "queries/test_best_of_runs.py",
    "FeatureMeans": "queries/test_kernel_means.py",
    "KernelMean": "queries/test_kernel_means.py",
    "KeyTotals": "queries/test_key_totals.py",
    "LearnDomain": "queries/test_learned_domain.py",
    "LeftOut": "queries/test_key_totals.py",
    "LogisticMinimiser": "queries/test_logistic.py",
    "NoisySample": "queries/test_samples.py",
    "PublishedRows": "queries/test_samples.py",
    "OfColumn": "test_impute.py",
    "RowsPerUnit": "core/test_units.py",
    "SelectCategories": "test_encoders.py",
    "SelectClasses": "queries/test_class_selection.py",
    "SelectKeys": "queries/test_key_selection.py",
    "UnitShapes": "queries/test_key_totals.py",
    "UnitSpread": "queries/test_key_totals.py",
}


def test_every_query_is_here(monkeypatch):
    """A registered query of every type is asked above, or in the file that is named."""
    asked = set()
    check = session_module.check_query

    def noted_query(query):
        asked.add(type(query))
        return check(query)

    monkeypatch.setattr(session_module, "check_query", noted_query)
    kinds = {kind for kind in reviewed_types() if issubclass(kind, Query | Choice | Measurement)}
    for name, file in ELSEWHERE.items():
        assert f"{name}(" in (TESTS / file).read_text()
    budgets = {relation: PrivacyBudget(1e6, 0.5, adjacency=relation) for relation in RELATIONS}
    cases = [(*entry[:3], entry[3][0], np.zeros((3, D))) for entry in QUERIES]
    for name, ask, deltas, relation, X in cases + [entry[:5] for entry in WHOLE]:
        release_case(name, ask, relation, deltas[0]).set_params(budget=budgets[relation]).fit(X)
    kinds = {kind for kind in kinds if kind.__name__ not in ELSEWHERE}
    assert len(kinds) > 10
    assert {kind for kind in asked if kind.__name__ not in ELSEWHERE} == kinds


def test_a_free_count_is_no_release():
    """Under replace-one the number of rows is public; nothing is released for it."""
    release = OneRelease(lambda s: s.row_count().value)
    assert neighbour_check(release, *tables("replace_one", *CORNERS)) == []


def test_a_row_that_stays_in_its_group_moves_less_than_declared():
    """Under replace-one a joint release is calibrated to a row that changes its group."""
    stays = np.array([1.0, 0.5, 0.0]), np.array([1.0, -0.5, 0.0])
    for delta in DELTAS:
        found = neighbour_check(OneRelease(assigned, delta=delta), *tables("replace_one", *stays))
        for _, distance, sensitivity in found:
            assert 0.4 < distance / sensitivity <= 1.0


def test_sums_beyond_int64_are_compared_exactly():
    """Distances of Python integers: 2**80 and one more differ by one."""
    for distance in (mechanisms.l1, mechanisms.l2):
        a = np.array([2**80, -(2**80)], dtype=object)
        assert distance(a, a + np.array([0, 1], dtype=object)) == 1.0


# --- queries broken on purpose ----------------------------------------------------------------


def privacy(delta, relation):
    """Return the parameters of a fit whose budget has this relation."""
    budget = PrivacyBudget(9.0, 0.5, adjacency=relation)
    return {"delta": delta, "budget": budget}


def must_be_found(ask, delta, relation, pair, match="moved further"):
    release = make(Case("broken", lambda **p: OneRelease(ask, **p)), delta, relation)
    with pytest.raises(AssertionError, match=match) as caught:
        neighbour_check(release, *tables(relation, *pair))
    return caught.value


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_a_box_that_does_not_clip_is_found(monkeypatch, delta, relation):
    def unclipped(self, block):
        return np.trunc((block - self.center) / self.grid)

    monkeypatch.setattr(protect.Box, "map", unclipped)
    pair = 1.01 * CORNERS[0], 1.01 * CORNERS[1]
    for ask in (sum_of_box, mean_of_box):
        error = must_be_found(ask, delta, relation, pair)
        assert "1.01" not in str(error)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_a_ball_clipped_in_floats_is_found(monkeypatch, delta, relation):
    """Rounding to nearest after a float clip leaves the sphere by a fraction of a step.

    On a coarse grid, where that is more than the rounding of distances.
    """

    def rounded(x, grid, radius):
        norms = np.maximum(np.linalg.norm(x, axis=1), 1e-300)[:, None]
        return np.rint(x * np.minimum(1.0, radius * grid / norms) / grid)

    monkeypatch.setattr(protect, "clip_to_norm", rounded)
    monkeypatch.setattr(protect, "NORM_BITS", 17)
    sphere = np.random.default_rng(0).normal(size=(500, D))
    sphere /= np.linalg.norm(sphere, axis=1)[:, None]
    longest = max(sphere, key=lambda u: np.linalg.norm(np.rint(u * 2**17)))
    pair = longest, -longest
    must_be_found(lambda s: s.answer(Sum(ball(s))).value, delta, relation, pair)


@pytest.mark.parametrize(
    ("owner", "function", "ask", "pair"),
    [
        (statistics, "sum_sensitivity", sum_of_box, CORNERS),
        (statistics, "gram_sensitivity", gram("auto"), tau_pair(D)),
    ],
)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_a_sensitivity_too_small_by_root_two_is_found(
    monkeypatch, owner, function, ask, pair, delta, relation
):
    correct = getattr(owner, function)
    monkeypatch.setattr(owner, function, lambda *a, **k: math.ceil(correct(*a, **k) / math.sqrt(2)))
    must_be_found(ask, delta, relation, pair)


@pytest.mark.parametrize("delta", DELTAS)
def test_add_or_remove_noise_under_replace_one_is_found(monkeypatch, delta):
    """The commonest mistake: the sensitivity of one relation under the other."""
    correct = statistics.sum_sensitivity
    monkeypatch.setattr(
        statistics, "sum_sensitivity", lambda view, _, **k: correct(view, "add_or_remove_one", **k)
    )
    must_be_found(mean_of_box, delta, "replace_one", CORNERS)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_residuals_that_are_not_clipped_are_found(monkeypatch, delta, relation):
    monkeypatch.setattr(groups, "round_to_norm", lambda q, radius: np.rint(q))
    must_be_found(
        assigned, delta, relation, (np.array([1.0, 1.0, 1.0]), np.array([-1.0, 1.0, 1.0]))
    )


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_rows_far_from_every_centre_move_no_further(delta, relation):
    corners = np.array([1.0, 1.0, 1.0]), np.array([-1.0, 1.0, 1.0])
    neighbour_check(OneRelease(assigned, **privacy(delta, relation)), *tables(relation, *corners))


@pytest.mark.parametrize("delta", DELTAS)
def test_leaf_sums_about_the_wrong_point_are_found(monkeypatch, delta):
    """Sums about 0 instead of the leaf's centre: the sensitivity is not local any more."""
    monkeypatch.setattr(
        trees.CellTable,
        "node_sums",
        lambda self, nodes, _: (
            self._sum_prefix[self._span(nodes)[1]] - self._sum_prefix[self._span(nodes)[0]]
        ),
    )
    must_be_found(leaf_sums, delta, "add_or_remove_one", CORNERS)


def test_a_declared_sensitivity_read_from_rows_is_found():
    def ask(s):
        largest = float(np.abs(np.concatenate(list(s._table.rows.chunks()))).max())
        return s.answer(Sum(ball_of(s, 0.0, largest))).value

    release = OneRelease(ask)
    # The grid follows the radius, so both are declared in steps; the radii differ by a half.
    with pytest.raises(AssertionError, match="declared sensitivity depends on rows"):
        neighbour_check(release, *tables("replace_one", CORNERS[0], 1.5 * CORNERS[1]))


CHANGED = np.ones((4, D)), np.vstack([np.ones((3, D)), -np.ones((1, D))])


class NarrowsByNumber(ToyRatio):
    """Divides by the exact number of private rows before the noise, as if it were public."""

    def fit(self, X, y):
        self._n = int(np.sum(y))
        return super().fit(X, y)

    def _view(self, session):
        return box_of(session, self.low_, self.high_ / self._n)


class AsksByPositions(ToyRatio):
    """Asks twice if the first row of the table is private."""

    def fit(self, X, y):
        self._first = y[0]
        return super().fit(X, y)

    def _view(self, session):
        if self._first:
            session.row_count(0.1)
        return super()._view(session)


def test_the_number_of_private_rows_in_a_statistic_is_found():
    case = Case("broken", NarrowsByNumber, samples=True)
    broken = make(case, 0.0, "add_or_remove_one")
    with pytest.raises(AssertionError, match="declared sensitivity depends on rows"):
        check_neighbours(broken, case, np.ones((4, D)), np.ones((3, D)))
    check_neighbours(make(case, 0.0), case, *CHANGED)


def test_positions_of_private_rows_in_a_branch_are_found():
    case = Case("broken", AsksByPositions, samples=True)
    broken = make(case, 0.0, "add_or_remove_one")
    public, y = np.zeros((3, D)), np.array([0, 0, 0])
    with pytest.raises(AssertionError, match=r"(order|number) of releases"):
        neighbour_check(
            broken, np.vstack([public, np.ones((1, D))]), np.vstack([np.ones((2, D)), public]),
            y=np.append(y, 1), y_neighbour=np.append([1, 1], y),
        )  # fmt: skip
    check_neighbours(make(case, 0.0), case, *CHANGED)


def test_a_moved_private_row_attains_the_sensitivity_among_public_ones():
    """A worst pair of private rows, at both relations; the public rows take no part in it."""
    case = Case("toy", ToyRatio, samples=True)
    for delta in DELTAS:
        for relation, other in zip(RELATIONS, (CHANGED[1], CHANGED[0][:3]), strict=True):
            found = check_neighbours(make(case, delta, relation), case, CHANGED[0], other)
            assert len(found) == 1
            assert found[0].distance >= 0.99 * found[0].sensitivity


def test_a_number_of_releases_that_depends_on_rows_is_found():
    def ask(s):
        positive = next(iter(s._table.rows.chunks()))[-1, 0] > 0
        s.answer(Sum(box(s)), 0.5)
        return s.answer(Sum(box(s)), 0.5).value if positive else None

    with pytest.raises(AssertionError, match="number of releases"):
        neighbour_check(OneRelease(ask), *tables("replace_one", *CORNERS))
    with pytest.raises(AssertionError, match="order of releases"):
        neighbour_check(OneRelease(ask), *tables("replace_one", *CORNERS[::-1]))


def test_a_release_outside_the_transcript_is_the_replay_audit_s_to_find():
    """What passes no query leaves no distance: the audits complete each other."""
    assert session.Session.n_rows is not None
    release = OneRelease(lambda s: float(next(iter(s._table.rows.chunks())).sum()))
    assert neighbour_check(release, *tables("replace_one", *CORNERS)) == []
