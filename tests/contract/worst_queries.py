"""Every query with its worst pair of rows, or of whole tables: it attains its sensitivity there."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from cases import Case, make
from neighbours import D
from toys import OneRelease

from skdp.core import Ball, Box, Mean, Sum, UserFunction
from skdp.queries import (
    AdditiveScores,
    AssignedSums,
    BlockVotes,
    BoxTree,
    Categories,
    CategoryScores,
    CellQuantile,
    Cells,
    ColumnCells,
    Grid,
    Labelled,
    Labels,
    LearnedBounds,
    LinearScores,
    LogisticGradient,
    LogitBall,
    MarginalCells,
    MedianScores,
    NoisyQuantiles,
    NormalScores,
    NormBins,
    NormMedian,
    OfColumn,
    OnBlocks,
    Quantiles,
    ScoreCells,
    SecondMoment,
    SmallTable,
    SmoothMedian,
    SpanningCost,
    SparseVector,
    StandardBall,
    ThresholdTable,
    WeightedBall,
    Workload,
    WorstMarginal,
    WorstQuery,
    additive_errors,
    additive_gradient,
    column_box,
    function_mean,
    label_moments,
    label_sums,
    label_vectors,
    logistic_gradient,
    moments,
    row_counts,
    score_mean,
    squared_offsets,
    sum_view,
    target_moments,
    tree_box,
    workload_answer,
)
from skdp.queries.smooth_sensitivity.ladders import smooth_release
from skdp.tabular import Bins, Domain, check_coded, check_labelled, check_with_target, with_weights
from tests.views import ball_of, block_mean, block_median, block_smooth_median, box_of

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


def assigned(s, most=None):
    return s.answer(AssignedSums(box(s), CENTERS, 0.5, most=most))[0].value


def assigned_in_units(s):
    return s.answer(AssignedSums(box(s), CENTERS, 1.0, units=[1.0, 0.5, 20.0]))[0].value


def squares(s, most=None):
    return s.answer(squared_offsets(box(s), -np.ones((1, s.n_features)), most)).value


def mean_in_units(s):
    return s.answer(Mean(column_box(-np.ones(D), np.ones(D), [3.0, 0.01, 1.0], s.level()))).value


def leaf_sums_in_units(s, most=None):
    low = np.array([-1.0, -1e-4, -1.0])
    return s.answer(BoxTree(tree_box(low, -low), 2, most)).sums([4, 5, 6, 7])[0].value


def node_counts(s, most=None):
    return s.answer(BoxTree(box(s), 2, most)).counts([4, 5, 3]).value


def score(s):
    return s.answer(score_mean(UserFunction(lambda X, y: X[:, 0]), -1.0, 1.0)).value


def sum_of_box(s):
    return s.answer(Sum(box(s))).value


def mean_of_box(s):
    return s.answer(Mean(box(s))).value


def mean_of_some_columns(s):
    return s.answer(OfColumn(1, Mean(Box(-np.ones(D - 1), np.ones(D - 1))), D)).value


def clipped_sum(low, high, **options):
    """Return the sum that `statistics.sum` asks for."""

    def ask(s):
        about_zero = s.adjacency != "replace_one"
        view = sum_view(low, high, s.n_features, about_zero=about_zero, **options)
        return s.answer(Sum(view)).value

    return ask


def clipped_mean(s):
    return s.answer(Mean(sum_view(-1, 1, s.n_features), count_error=True)).value


def of_moments(s):
    return s.answer(moments(-np.ones(D), np.ones(D)))[0].value


def norms_below(s):
    bins = NormBins(np.zeros(s.n_features), 5.0, low=-40, high=1, descending=True)
    return s.answer(row_counts(bins, "norms below")).value


def norm_bound(s):
    return s.answer(row_counts(NormBins(np.zeros(s.n_features)), "norm histogram"), 0.5)


def middle(q):
    return lambda s: s.answer(CellQuantile(box(s), q)).value


def learned_lows(s):
    return s.answer(LearnedBounds()).low


def middle_distance(s):
    return s.answer(NormMedian(-np.ones(s.n_features), 400.0))


def noisy_median(s):
    return s.answer(NoisyQuantiles(box_of(s, -1, 1), 0.5)).value


def statistical_query(s):
    return s.answer(function_mean(UserFunction(lambda x: x[0]))).value


def leaf_sums(s):
    return s.answer(BoxTree(box(s), 2)).sums([4, 5, 6, 7])[0].value


def of_labels(low, high):
    return lambda s: (
        s.answer(label_sums(*(np.full(s.n_features, float(end)) for end in (low, high)), 2)).value
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
        self._context()
        labels = np.where(np.abs(X[:, 0]) > 1.5, "far", "near")
        return check_labelled(
            X, labels, estimator="OneRelease", classes=np.array(["far", "near"]),
            allow_empty=self._allow_empty,
        )  # fmt: skip


class WeightedRelease(OneRelease):
    """A query of rows whose weight is the size of their first cell."""

    def _open(self, X):
        return with_weights(super()._open(X), np.abs(X[:, 0]), estimator="OneRelease")


class LabelledWeightedRelease(LabelledRelease):
    """The same of labelled rows."""

    def _open(self, X):
        return with_weights(super()._open(X), np.abs(X[:, 0]), estimator="OneRelease")


class TargetRelease(OneRelease):
    """A query of rows with a target, the opposite of their first cell."""

    def _open(self, X):
        self._context()
        return check_with_target(X, -X[:, 0], estimator="OneRelease", allow_empty=self._allow_empty)


class CodedRelease(OneRelease):
    """A query of rows that are coded by a public domain: which side of 0 each cell is."""

    def _open(self, X):
        self._context()
        domain = Domain([Bins([-10.0, 0.0, 10.0])] * D)
        return check_coded(X, domain, estimator="OneRelease", allow_empty=self._allow_empty)


PAIRS_OF_SIDES = Workload((2,) * D, [Cells((0, 1)), Cells((1, 2))])
ABOVE = 3  # the query for rows above 0 in the first two columns


def of_queries(kind, *arguments):
    return lambda s: s.answer(kind(PAIRS_OF_SIDES, *arguments))


def is_far(s):
    comparisons = s.answer(SparseVector(2.0, 3))
    return comparisons.is_far(workload_answer(PAIRS_OF_SIDES, ABOVE), 0.0)


# A public table that a row which leaves `ABOVE` for the opposite cell is further from twice.
BELIEVED = np.tile([0, 0, 0, 100], 2)


def weighted_moments(s):
    """Every weight is above the bound, or 0."""
    return s.answer(moments(-np.ones(D), np.ones(D), 0.25))[0].value


def weighted_mean(s):
    return s.answer(Mean(box(s), weight_bound=0.25)).value


def gradient(theta, clip=1.0, n_logits=1, most=None):
    """Return the gradient at theta times the second column: rows of doubt differ in it alone."""

    def ask(s):
        d = s.n_features
        view = StandardBall(-np.ones(d), np.ones(d), np.zeros(d), np.ones(d), 1.0)
        coef = np.zeros((n_logits, d + 1))
        coef[:, 1] = [-theta, theta, 0.0] if n_logits == 3 else theta
        offset = np.zeros(n_logits)
        return s.answer(logistic_gradient(view, 0.5, coef, offset, clip, most)).value

    return ask


def logit_gradient(theta, n_logits=1, most=None, *, beyond=False):
    """Return the gradient of slope and offsets of logits; rows of doubt differ in the sign of r.

    They are close to each other at the edge of the ball, or far beyond it on either side.
    """

    def ask(s):
        d = s.n_features
        view = StandardBall(-np.ones(d), np.ones(d), np.zeros(d), np.ones(d), 1.0)
        coef = np.zeros((n_logits, d + 1))
        coef[:, 1] = [-1.0, 1.0, 0.0] if n_logits == 3 else 1.0
        edge = np.array([-1.0, 1.0, 0.0]) if n_logits == 3 else np.ones(1)
        if beyond:
            coef, edge = 1e6 * coef, 0.0 * edge
        ball = LogitBall(LogisticGradient(view, 0.5, coef, edge, 1.0), 1.01 * math.sqrt(n_logits))
        slope = np.column_stack([theta * np.eye(n_logits), np.zeros(n_logits)])
        clip = 1.0 if n_logits == 1 else math.sqrt(2)
        return s.answer(logistic_gradient(ball, 0.5, slope, -theta * edge, clip, most)).value

    return ask


HALVES = ColumnCells((np.array([0.0]),) * D)


def cell_gradient(score, clip=1.0, n_logits=1):
    """Return the gradient where the cells of the second column decide; the others say nothing."""

    def ask(s):
        scores = np.zeros((n_logits, 2 * D))
        scores[-1 if n_logits == 1 else 1, 2:4] = -score, score
        if n_logits > 1:
            scores[0, 2:4] = score, -score
        return s.answer(additive_gradient(HALVES, scores, np.zeros(n_logits), clip)).value

    return ask


def cell_errors(s):
    """Return the errors of rows that share all cells, clipped: targets are -1 to 1."""
    one = ColumnCells((np.array([5.0]),) * D, n_targets=1)
    return s.answer(additive_errors(one, np.zeros(2 * D), 0.0, -1.0, 1.0, 0.25)).value


def of_target(s):
    return s.answer(target_moments(-1.0, 1.0))[2]


def of_classes(query, *arguments, **options):
    return lambda s: s.answer(query(*arguments, 2, **options))


def counts_of(cells, most=None):
    return lambda s: s.answer(row_counts(cells, "counts", most)).value


def of_vectors(s, most=None):
    return s.answer(label_vectors(ball(s), 2, most)).value


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
# Scores of two classes whose leads have the sign of a row's sum.
CUTS, ENDS = np.array([-1.0, 0.0, 1.0]), np.array([-np.ones(D), np.ones(D)])
LINEAR = LinearScores(Ball(np.zeros(D), 1.0), ENDS, np.zeros(2))
NORMAL = NormalScores(-np.ones(D), np.ones(D), ENDS, np.ones((2, D)))
MEDIANS = MedianScores(-np.ones(D), np.ones(D), ENDS, np.ones(D))
STEPS = AdditiveScores(ColumnCells((np.zeros(1),) * D), np.array([[0.0] * 2 * D, [-1.0, 1.0] * D]))
OF_SIGNS = CategoryScores(SIGNS, (np.array([[0.0, -1.0], [-1.0, 0.0]]),) * D)
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
    ("mean of some columns", mean_of_some_columns, BOTH, R + A, CORNERS, 0.99),
    ("moments", of_moments, BOTH, R + A, CORNERS, 0.99),
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
    ("edge histogram", counts_of(Grid((np.array([-1.0, 0.0, 1.0]),) * D)), BOTH,
     R + A, CORNERS, 0.99),
    # Two labels of three columns: Laplace noise for the sum of bounds in 6 numbers, or K-norm.
    ("label sums", of_labels(-1, 1), BOTH, R + A, CORNERS, 0.99),
    ("label sums, relabelled", of_labels(0, 1), BOTH, R + A, RELABELLED, 0.99),
    ("label gradient", gradient(1e6), BOTH, R + A, WRONG, 0.99),
    ("label gradient, three classes", gradient(1e6, math.sqrt(2), 3), BOTH, R + A, WRONG, 0.99),
    ("label counts", counts_of(Labels(2)), BOTH, R + A, RELABELLED, 0.99),
    ("label moments", of_classes(label_moments, -np.ones(D), np.ones(D)), GAUSS, R + A,
     CORNERS, 0.99),
    ("label moments", of_classes(label_moments, -np.ones(D), np.ones(D)), PURE, A, CORNERS,
     0.99),
    ("label vectors", of_vectors, BOTH, R + A, POLES, 0.99),
    ("label cell counts", counts_of(Labelled(HALVES)), BOTH, R + A, CORNERS, 0.99),
    ("label logit gradient", logit_gradient(1e6), BOTH, R + A, WRONG, 0.98),
    ("label logit gradient of three", logit_gradient(1e6, 3), BOTH, R + A, WRONG, 0.8),
    ("label gradient of long logits", logit_gradient(1e6, beyond=True), BOTH, A, WRONG, 0.99),
    ("label cell gradient", cell_gradient(1e6), BOTH, A, WRONG, 0.99),
    # Rows with opposite residuals are in different cells of one column of three at least: in L2
    # they move sqrt(10 / 12) of the bound.
    ("label cell gradient", cell_gradient(1e6), PURE, R, WRONG, 0.99),
    ("label cell gradient", cell_gradient(1e6), GAUSS, R, WRONG, 0.91),
    ("label cell gradient of three", cell_gradient(1e6, math.sqrt(2), 3), GAUSS, A, WRONG, 0.99),
    ("label cell gradient of three", cell_gradient(1e6, math.sqrt(2), 3), GAUSS, R, WRONG, 0.91),
    ("label categories", counts_of(Categories(SIGNS, 2)), BOTH, R + A, CORNERS, 0.99),
    ("label leads", counts_of(ScoreCells(LINEAR, CUTS)), BOTH, R + A, CORNERS, 0.99),
    ("label leads, normal", counts_of(ScoreCells(NORMAL, CUTS)), BOTH, R + A, CORNERS, 0.99),
    ("label leads, medians", counts_of(ScoreCells(MEDIANS, CUTS)), BOTH, R + A, CORNERS, 0.99),
    ("label leads, terms", counts_of(ScoreCells(STEPS, CUTS)), BOTH, R + A, CORNERS, 0.99),
    ("label leads, categories", counts_of(ScoreCells(OF_SIGNS, CUTS)), BOTH, R + A, CORNERS, 0.99),
    ("weighted gram with a target", weighted_gram, BOTH, A, (np.array([-1.0, 0.0, 0.0]), None),
     0.99),
    ("weighted gram with a target, of no weight", weighted_gram, BOTH, R, (
        np.array([-1.0, 0.0, 0.0]), np.array([1.0, 0.0, 0.0])), 0.49),
    ("gram with a target", standard_gram, BOTH, A, (np.array([1.0, 0.0, 0.0]), None), 0.99),
    ("moments with weights", weighted_moments, BOTH, R + A, CORNERS, 0.99),
    ("nearest centres with weights", partial(assigned, most=0.25), BOTH, R + A, NEAR, 0.99),
    ("squared offsets with weights", partial(squares, most=0.25), BOTH, R + A, CORNERS, 0.99),
    ("tree counts with weights", partial(node_counts, most=0.25), BOTH, R + A, CORNERS, 0.99),
    ("tree sums with weights", partial(leaf_sums_in_units, most=0.25), BOTH, R + A, CORNERS, 0.99),
    # The total weight has the room that is left: a row that loses its weight moves as far.
    ("moments with weights, of no weight", weighted_moments, BOTH, R, NOTHING, 0.99),
    ("mean with weights", weighted_mean, BOTH, R + A, CORNERS, 0.99),
    ("mean with weights, of no weight", weighted_mean, BOTH, R, NOTHING, 0.99),
    ("count with weights", counts_of(None, 0.25), BOTH, A, CORNERS, 0.99),
    ("count with weights, of no weight", counts_of(None, 0.25), BOTH, R,
     NOTHING, 0.99),
    ("label counts with weights", counts_of(Labels(2), 0.25), BOTH, R + A,
     RELABELLED, 0.99),
    ("label moments with weights",
     of_classes(label_moments, -np.ones(D), np.ones(D), weight_bound=0.25), GAUSS, R + A, CORNERS,
     0.99),
    ("label vectors with weights", partial(of_vectors, most=0.25), BOTH, R + A, POLES, 0.99),
    ("label gradient with weights", gradient(1e6, most=0.25), BOTH, R + A, WRONG, 0.99),
    ("label logit gradient with weights", logit_gradient(1e6, most=0.25), BOTH, R + A, WRONG, 0.98),
    ("label gradient of three with weights", gradient(1e6, math.sqrt(2), 3, 0.25), BOTH, R + A,
     WRONG, 0.99),
    ("target moments", of_target, BOTH, R + A, CORNERS, 0.99),
    ("target cell counts", counts_of(ColumnCells(HALVES.cuts, n_targets=1)), BOTH, R + A,
     CORNERS, 0.99),
    ("cell counts", counts_of(HALVES), BOTH, R + A, CORNERS, 0.99),
    ("target cell errors", cell_errors, BOTH, R + A, CORNERS, 0.99),
    ("threshold table", lambda s: s.answer(
        ThresholdTable(np.array([-1.0, 0.0, 1.0]), 2)), BOTH, R + A, CORNERS, 0.99),
    ("coded, an answer", of_queries(workload_answer, ABOVE), BOTH, R + A, CORNERS, 0.99),
    ("coded, worst query", of_queries(WorstQuery, np.zeros(8)), BOTH, R + A, CORNERS, 0.99),
    ("coded, worst marginal", of_queries(WorstMarginal, BELIEVED, np.zeros(2)), BOTH, R + A,
     CORNERS, 0.99),
    ("coded, worst marginal or none", of_queries(WorstMarginal, BELIEVED, np.zeros(2), True), BOTH,
     R + A, CORNERS, 0.99),
    ("coded, marginal", counts_of(MarginalCells((2,) * D, (0, 1))), BOTH, R + A,
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
MOVED_LABEL = (
    np.array([[0.0], [0.0], [1.0], [2.0], [2.0]]),
    np.array([[0.0], [0.0], [3.0], [2.0], [2.0]]),
)
FAR = np.append(np.zeros((400, 1)), [[1e6]], axis=0)
NEAREST = np.append(np.zeros((400, 1)), [[-1.0]], axis=0)


def smooth(**options):
    return lambda s: s.answer(SmoothMedian(box_of(s, 0, 1), **options)).value


def levels(q, end=1, **options):
    return lambda s: s.answer(Quantiles(box_of(s, -end, end), q, **options)).value


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
    ("quantiles by label", levels(0.5, n_labels=2), BOTH, *R, OF_THREE, -OF_THREE, 0.99),
    ("quantiles by label, a row less", levels(0.5, n_labels=2), BOTH, *A, OF_THREE, OF_THREE[:-1],
     0.99),
    ("quantiles by label, another label", levels(0.5, 4, n_labels=2), PURE, *R, *MOVED_LABEL, 0.99),
    ("learned bounds", learned_lows, BOTH, *R, FAR, -FAR, 0.99),
    ("learned bounds, a row less", learned_lows, BOTH, *A, FAR, FAR[:-1], 0.99),
    ("median of distances", middle_distance, BOTH, *R, FAR, NEAREST, 0.99),
    ("median of distances, a row less", middle_distance, BOTH, *A, FAR, FAR[:-1], 0.99),
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
    if "with weights" in name:
        kind = LabelledWeightedRelease if "label" in name else WeightedRelease
    kind = CodedRelease if "coded" in name else kind
    kind = TargetRelease if "target" in name else kind
    return make(Case(name, lambda **p: kind(ask, **p)), delta, relation)
