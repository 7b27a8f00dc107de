"""What a plan counts on is what the session adds: noise of a share, before and in a fit."""

from __future__ import annotations

import copy
import math
import re
from pathlib import Path

import numpy as np
import pytest

import skdp
from skdp import DPKMeans, PrivacyBudget, config_context
from skdp.cluster import _lloyd
from skdp.core import (
    Ball,
    Box,
    Count,
    Mean,
    RowSum,
    ScaledBox,
    Sum,
    UserFunction,
    check_allowance,
    open_session,
)
from skdp.core.mechanisms import Independent, Spherical
from skdp.core.query import reviewed_types
from skdp.core.sums import Values
from skdp.decomposition import DPPCA
from skdp.density_ratio import DPLogisticRatio, DPuLSIF, stack_samples
from skdp.ensemble._blocks import SCORES, Noise
from skdp.ensemble._boosting import _noise
from skdp.neighbors import DPHistogramDensity, DPKernelDensity
from skdp.planning import WISHART_EDGE, Allowance
from skdp.queries import (
    AssignedSums,
    BlockVotes,
    ColumnCells,
    Grid,
    KernelMap,
    KernelMean,
    LogisticMinimiser,
    NoisyQuantiles,
    OfBlocks,
    OnBlocks,
    SecondMoment,
    SmoothMedian,
    SpanningCost,
    StandardBall,
    Symmetric,
    additive_errors,
    feature_means,
    label_moments,
    label_sums,
    label_vectors,
    logistic_gradient,
    moments,
    planned_noise,
    row_counts,
    squared_offsets,
    whitened_mean,
)
from skdp.queries.grouped_sums import Joint
from skdp.queries.smooth_sensitivity import ladders
from skdp.tabular import check_labelled, check_rows
from tests.folding import each
from tests.queries.kernels import whitened

X = np.random.default_rng(0).uniform(-1, 1, (500, 3))
Y = np.arange(500) % 2
RELATIONS = ["replace_one", "add_or_remove_one"]


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_parts_add_up_to_the_whole(delta):
    whole = DPKMeans(epsilon=0.5, delta=delta)._allowance()
    parts = [whole.part(share) for share in (0.2, 0.3, 0.5)]
    power = 1 if whole.pure else 2
    assert sum(part.level**power for part in parts) == pytest.approx(whole.level**power)
    assert whole.pure == (delta == 0)
    assert whole.pure_epsilon == 0.5 or delta > 0


# --- the noise that is drawn ----------------------------------------------------------------------


@pytest.fixture
def drawn(monkeypatch):
    """Return the deviations of all noise that is drawn, in user units; of sums beside counts."""
    return noted(monkeypatch)


def noted(monkeypatch):
    deviations = []
    for kind in (Independent, Spherical, Joint, Symmetric):

        def noised(self, meter, label, exact, share, unit=1.0, right=kind.noised):
            answer = right(self, meter, label, exact, share, unit)
            deviations.append(float(np.max(np.atleast_1d(answer[1])[..., -1])) * unit)
            return answer

        monkeypatch.setattr(kind, "noised", noised)
    return deviations


def opened(relation, delta, epsilon=2.0, n_classes=2):
    budget = PrivacyBudget(1e7, 1e-3, adjacency=relation)
    rows = check_labelled(X, Y, estimator="T", classes=np.arange(n_classes))
    return open_session(rows, estimator="T", epsilon=epsilon, delta=delta, budget=budget)


ONES = np.ones(3)
CELLS = ColumnCells((np.zeros(1),) * 3)
KERNEL = KernelMap(X[:5], np.array([1.0, 0.5]))
QUERIES = {
    "sum": Sum(Box(-ONES, ONES)),
    "mean": Mean(Ball(np.zeros(3), 1.0)),
    "mean of a box": Mean(_lloyd.column_box(-ONES, ONES, ONES, 1.0)),
    "count": Count(),
    "moments": moments(-ONES, ONES),
    "moments of labels": label_moments(-ONES, ONES, 2),
    "sums of labels": label_sums(-ONES, ONES, 2),
    "vectors of labels": label_vectors(Ball(np.zeros(3), 1.0), 2),
    "cells": row_counts(Grid((np.linspace(-1, 1, 9),) * 3), "histogram"),
    "cells of columns": row_counts(CELLS, "histogram"),
    "errors in cells": additive_errors(CELLS, np.zeros(6), 0.0, -1.0, 1.0, 1.0),
    "the smaller noise": RowSum(Values(Box(-ONES, ONES), 8), noise="smaller"),
    "gradient": logistic_gradient(Ball(np.zeros(3), 2.0), 0.5, np.ones((1, 4)), np.zeros(1), 0.3),
    "squares": squared_offsets(Box(-ONES, ONES), X[:2]),
    "nearest centres": AssignedSums(Box(-ONES, ONES), X[:4], 1.5, count_share=0.3),
    "second moment": SecondMoment(Ball(np.zeros(3), 1.0), 0.25),
    "second moment, wishart": SecondMoment(Ball(np.zeros(3), 1.0), 0.25, "wishart"),
    "second moment, laplace": SecondMoment(Ball(np.zeros(3), 1.0), 0.25, "laplace"),
    "kernel mean": KernelMean(KERNEL, whitened(KERNEL)[0]),
    "kernel values": feature_means(KERNEL),
    "quantiles under noise": NoisyQuantiles(Box(-ONES, ONES), (0.25, 0.5)),
}


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("epsilon", [1e-4, 2.0, 1e6])
@each("name", QUERIES)
def test_the_noise_of_a_query_is_what_a_session_draws(name, relation, delta, epsilon, monkeypatch):
    """To 12 digits, whether a statistic is shortened or not.

    A second moment chooses its steps by the number of rows, which moves its norm by 2**-17 at most.
    """
    drawn = noted(monkeypatch)
    with opened(relation, delta, epsilon) as session:
        planned = Allowance.left(session, 0.5).query_std(QUERIES[name])
        session.answer(QUERIES[name], 0.5)
    rel = 2**-15 if name.startswith("second moment") else 1e-12
    assert planned == pytest.approx(drawn[-1], rel=rel)


# --- plans of estimators ------------------------------------------------------------------------


def half(X, y, seed):
    return np.full(4, 0.5)


def votes(X, y, seed):
    return np.ones(4)


def of_blocks(view):
    return OfBlocks(OnBlocks(UserFunction(half), 20), Mean(view))


def edge(planned, noise):
    """Return the deviation that a spectral edge of four columns stands for."""
    of_one = WISHART_EDGE * 4 / math.sqrt(10) if noise == "wishart" else 2 * math.sqrt(4)
    return planned.spectral_edge(4, noise) / of_one


# What is planned, as a part of an entry's noise; what is asked; how much they may differ: integers
# that stand for norms are rounded, and bounds of kernel means are certified.
LONG = StandardBall(-ONES, ONES, np.zeros(3), ONES, 3.0)
PLANS = {
    "cells": (lambda p: p.cell_std, QUERIES["cells"], 1e-12),
    "mean noise of cells": (
        lambda p: p.mean_cell_noise / math.sqrt(0.5 if p.pure else 2 / math.pi),
        QUERIES["cells"],
        1e-12,
    ),
    "scale of cells": (
        lambda p: p.cell_scale * (math.sqrt(2) if p.pure else 1.0),
        QUERIES["cells"],
        1e-12,
    ),
    "moments": (lambda p: p.moments_std(3), QUERIES["moments"], 1e-12),
    "edge": (lambda p: edge(p, p.gram_noise("auto", 4)), SecondMoment(LONG, 1e-9), 1e-4),
    "edge, wishart": (lambda p: edge(p, "wishart"), SecondMoment(LONG, 1e-9, "wishart"), 1e-4),
    "edge, laplace": (lambda p: edge(p, "laplace"), SecondMoment(LONG, 1e-9, "laplace"), 0.2),
    "whitened features": (
        lambda p: p.query_std(whitened_mean(len(whitened(KERNEL)[0]))),
        QUERIES["kernel mean"],
        1e-4,
    ),
    "votes of two": (
        lambda p: Noise("vote", 2, p)._std(4),
        BlockVotes(OnBlocks(UserFunction(votes), 20), 4, 2),
        1e-3,
    ),
    "votes of three": (  # of a margin, the difference of two counts
        lambda p: Noise("vote", 3, p)._std(4) / math.sqrt(2),
        BlockVotes(OnBlocks(UserFunction(votes), 20), 4, 3),
        1e-12,
    ),
    "scores": (lambda p: Noise(SCORES, 2, p)._std(4) / 2, of_blocks(Ball(np.zeros(4), 1.0)), 1e-4),
    "means of blocks": (
        lambda p: Noise("mean", 2, p)._std(4),
        of_blocks(ScaledBox(-np.ones(4), np.ones(4))),
        1e-12,
    ),
    "minimiser": (
        lambda p: LogisticMinimiser(Box(-ONES, ONES), X[:9], 1.0).planned_std(p) / 5.0,
        LogisticMinimiser(Box(-ONES, ONES), X[:9], 5.0),
        1e-4,
    ),
}


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@each("name", PLANS)
def test_what_estimators_plan_with_is_what_a_session_draws(name, relation, delta, monkeypatch):
    plan, query, rel = PLANS[name]
    if name == "votes of three" and not delta:
        pytest.skip("the winners are chosen by the exponential mechanism")
    drawn = noted(monkeypatch)
    with opened(relation, delta, n_classes=3) as session:
        planned = plan(Allowance.left(session, 0.5))
        session.answer(query, 0.5)
    unit = 9.0 if name.startswith("edge") else 1.0  # of squares of the radius
    assert planned * unit == pytest.approx(drawn[-1], rel=rel)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_boosting_plans_with_the_noise_of_its_errors(relation, delta, drawn):
    with opened(relation, delta) as session:
        planned = _noise(session, CELLS, np.ones(6), 6.0)  # the mean of 6 cells with a row each
        session.answer(QUERIES["errors in cells"])
    assert planned == pytest.approx(drawn[-1], rel=1e-12)


# --- whole fits -----------------------------------------------------------------------------------


@pytest.fixture
def planned(monkeypatch):
    """Return the deviations that are planned: of which query, and how large."""
    deviations, right = [], Allowance.query_std

    def query_std(self, query):
        deviations.append((query, right(self, query)))
        return deviations[-1][1]

    monkeypatch.setattr(Allowance, "query_std", query_std)
    return deviations


def of(kind, deviations):
    """Return the last deviation of a query of this image, cells or type."""
    found = []
    for query, std in deviations:
        parts = {type(getattr(query, name, None)).__name__ for name in ("image", "cells")}
        if kind in parts | {type(query).__name__}:
            found.append(std)
    return found[-1]


STATED = {"bounds": (-1, 1), "epsilon": 2.0}
# A fit, and what is planned for a release that it draws.
FITS = {
    "histogram": (lambda o: DPHistogramDensity(**STATED, **o).fit(X), "Labels", 1e-12),
    "density of cells": (
        lambda o: DPKernelDensity(features="cells", **STATED, **o).fit(X[:, :1]),
        "Labels",
        1e-12,
    ),
}


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("name", FITS)
def test_a_fit_plans_with_what_it_draws_last(name, relation, delta, planned, drawn):
    fit, kind, rel = FITS[name]
    fit({"budget": PrivacyBudget(10.0, 1e-3, adjacency=relation), "delta": delta})
    assert of(kind, planned) == pytest.approx(drawn[-1], rel=rel)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize(
    "bounds", [(-1, 1), ([-1, -5, 2], [1, 5, 2]), ([-1, -500, 0], [1, 500, 1])]
)
def test_one_mean_is_planned_with_the_noise_that_it_has(relation, delta, bounds):
    """In half widths; with a private number of rows to 5%, which is noisy."""
    budget = PrivacyBudget(10.0, 1e-3, adjacency=relation)
    model = DPKMeans(1, bounds=bounds, delta=delta, epsilon=2.0, budget=budget).fit(X)
    low, high = (np.broadcast_to(side, 3) for side in bounds)
    wide = high > low
    relative = model.cluster_centers_noise_std_[0, wide] / (high - low)[wide] * 2
    happened = math.sqrt(np.square(relative).sum() / 3)
    rel = 1e-9 if relation == "replace_one" else 0.05
    assert model.expected_error(500, 3) == pytest.approx(happened, rel=rel)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_centres_are_refined_with_the_noise_that_is_planned(delta, planned, drawn):
    """It is proportional to the radius, and planned for a radius of 1 and each number of steps."""
    rows = np.repeat(0.8 * np.array([[-1.0, -1.0], [1.0, 1.0]]), 5000, axis=0)
    rows += np.random.default_rng(0).normal(0, 0.05, rows.shape)
    with config_context(noise="seeded"):
        model = DPKMeans(2, bounds=(-1, 1), epsilon=2.0, delta=delta, random_state=0)
        model.set_params(budget=PrivacyBudget(10.0, 1e-3)).fit(rows)
    refined = next(r for r in model.privacy_.releases if r.name == "refinement: sums")
    assert of("AssignedSums", planned) * refined.sensitivity == pytest.approx(drawn[-1], rel=1e-4)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_centre_of_components_is_planned_with_its_noise(relation, delta, planned, drawn):
    """For all of the allowance and a radius of 1; the centre takes a part of both."""
    budget = PrivacyBudget(40.0, 1e-3, adjacency=relation)
    rows = np.tile(X, (8, 1))
    model = DPPCA(1, norm_bound=2.0, epsilon=20.0, delta=delta, budget=budget).fit(rows)
    mean = next(r for r in model.privacy_.releases if r.name == "mean")
    part = float(mean.share) ** (1.0 if model.privacy_.mu is None else 0.5)
    radius = mean.sensitivity / (2.0 if relation == "replace_one" else math.sqrt(10) / 3)
    unit = next(std for query, std in planned if getattr(query, "name", "") == "mean")
    assert unit * radius / part == pytest.approx(drawn[-2], rel=1e-3)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_density_ratios_are_planned_with_their_noise(relation, delta, planned, drawn, monkeypatch):
    public = np.random.default_rng(1).uniform(-1, 1, (60, 3))
    data = stack_samples(private=X, public=public)
    options = {"delta": delta, "epsilon": 20.0}
    DPuLSIF(**options, budget=PrivacyBudget(40.0, 1e-3, adjacency=relation)).fit(*data)
    # Planned for each number of features; the noise of as many as were released is drawn.
    stds = [std for query, std in planned if type(query).__name__ == "_WhitenedMean"]
    assert min(abs(std / drawn[-1] - 1) for std in stds) < 1e-4
    minimised, right = [], LogisticMinimiser.planned_std

    def planned_std(self, allowance):
        minimised.append(right(self, allowance))
        return minimised[-1]

    monkeypatch.setattr(LogisticMinimiser, "planned_std", planned_std)
    budget = PrivacyBudget(40.0, 1e-3, adjacency=relation)
    model = DPLogisticRatio(bounds=(-1, 1), **options, budget=budget).fit(*data)
    assert minimised[-1] / model.alpha_ == pytest.approx(drawn[-1], rel=1e-4)


def test_no_deviation_is_written_twice():
    """Every deviation of an `Allowance` is `std` of a sensitivity, whose scale stands beside it."""
    names = [name for name in vars(Allowance) if re.search("std|noise|scale|edge", name)]
    assert names == [
        "query_std", "std", "cell_std", "cell_scale", "mean_cell_noise", "moments_std",
        "variance_std", "box_std", "ball_std", "bins_std", "learning_std", "choice_scale",
        "gram_std", "spectral_edge", "gram_noise",
    ]  # fmt: skip
    drawing = {kind for kind in reviewed_types() if hasattr(kind, "noised")}
    assert drawing == {Independent, Spherical, Joint, Symmetric}
    assert all(callable(getattr(kind, "std", None)) for kind in drawing)
    source = Path(skdp.planning.__file__).read_text(encoding="utf-8")
    assert source.count("/ self.level") == 0


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("noise", ["cauchy", "student", "laplace"])
@pytest.mark.parametrize("kind", ["median", "tree"])
def test_smooth_noise_is_planned_as_a_session_draws_it(kind, noise, delta, monkeypatch):
    if noise == "laplace" and not delta:
        pytest.skip("it is not pure")
    found, right = [], ladders.part_noise

    def part_noise(*levels, **options):
        found.append(right(*levels, **options))
        return found[-1]

    monkeypatch.setattr(ladders, "part_noise", part_noise)
    query = SmoothMedian(Box(-ONES, ONES), noise=noise)
    rows = check_rows(X, estimator="T")
    if kind == "tree":
        edges = np.c_[np.arange(500), np.arange(1, 501)]
        query = SpanningCost(Box([-1.0], [1.0]), 501, edges, noise=noise)
        rows = check_rows(X[:, :1], estimator="T")
    deltas = {"separate_delta" if noise == "laplace" else "delta": delta}
    budget = PrivacyBudget(10.0, 1e-3)
    with open_session(rows, estimator="T", epsilon=2.0, budget=budget, **deltas) as session:
        planned = planned_noise(query, Allowance.left(session, 0.5), delta)
        session.answer(query, 0.5)
    assert found[-1].kind == noise
    for name in ("epsilon", "delta", "beta", "kappa"):
        drawn = float(getattr(found[-1], name))
        assert float(getattr(planned, name)) == pytest.approx(drawn, rel=1e-9)


# --- rows that a filter leaves --------------------------------------------------------------------

FILTERED = ("sum", "mean", "count", "moments", "cells", "cells of columns", "the smaller noise")


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("name", FILTERED)
def test_the_noise_of_rows_that_a_filter_leaves(name, delta, drawn):
    """A row is replaced, or enters or leaves: both count, as they do in the session."""
    query = QUERIES[name]
    rows = copy.copy(check_rows(X, estimator="test"))
    rows.filtered = True
    budget = PrivacyBudget(1e7, 1e-3)
    with open_session(rows, estimator="test", epsilon=2.0, delta=delta, budget=budget) as session:
        session.answer(query)
    mu = check_allowance(2.0, delta)
    planned = Allowance(2.0, mu, "add_or_remove_one", replaces=True).query_std(query)
    assert planned == pytest.approx(drawn[-1], rel=1e-9)
    added = Allowance(2.0, mu, "add_or_remove_one").query_std(query)
    assert name == "count" or added < 0.999 * planned
    replaced = Allowance(2.0, mu, "replace_one").query_std(query)
    assert Allowance(2.0, mu, "replace_one", replaces=True).query_std(query) == replaced


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("mu", [None, 0.3])
@pytest.mark.parametrize("d", [1, 20])
def test_the_noise_of_a_variance_is_that_of_squares(relation, mu, d):
    planned = Allowance(1.0, mu, relation)
    factors = moments(-np.ones(d), np.ones(d)).prepared(planned._terms).image.factors
    expected = planned.moments_std(d) * factors[0] / factors[1]
    assert planned.variance_std(d) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_gaussian_noise_is_taken_for_variances_where_no_mean_makes_them_noisier(relation, epsilon):
    gaussian = False
    for d in (1, 5, 20, 40, 60, 100, 200):
        pure = Allowance(epsilon, None, relation)
        other = Allowance(epsilon, check_allowance(epsilon, 1e-6), relation)
        taken = other.variance_std(d) < pure.variance_std(d)
        gaussian |= taken
        for mean in (0.0, 0.3, 1.0):  # in half widths from the middle
            errors = [
                np.hypot(one.variance_std(d), 2 * mean * one.moments_std(d))
                for one in (pure, other)
            ]
            assert not taken or errors[1] <= errors[0]
    assert gaussian
