"""Parameters out of range: refused by name, before anything is charged."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures
from subjects import (
    GOOD,
    MARKED,
    NUMBER,
    both,
    every_bounded_estimator,
    every_estimator,
    fit,
    named,
    prepared,
    refused,
)

from skdp import PrivacyBudget
from skdp.neighbors import DPHistogramDensity
from skdp.synthetic import Domain, conjunctions, linear_queries, thresholds
from tests.folding import each

PARAMETERS = [
    *[("epsilon", value, ValueError) for value in (0, 0.0, -1, -1e-300, np.nan, np.inf, -np.inf)],
    ("epsilon", 10**400, ValueError),
    *[("epsilon", value, TypeError) for value in ("1", "", True, None, 1j, [1.0], np.ones(1))],
    *[("delta", value, ValueError) for value in (1, 1.0, 1.5, -1e-9, np.nan, np.inf, -np.inf)],
    *[("delta", value, TypeError) for value in ("0", False, 0j, [0.0])],
    *[("budget", value, TypeError) for value in (1.0, "flights.budget", {}, PrivacyBudget)],
    *[("random_state", value, ValueError) for value in ("0", 1.5, [0], True)],
    ("random_state", np.random.default_rng(0), ValueError),
]


@each(("name", "value", "error"), PARAMETERS, ids=named)
@every_estimator
def test_bad_privacy_parameters(kind, name, value, error):
    for estimator in both(kind, **{name: value}):
        refused(estimator, lambda e: fit(e, np.full((20, 4), NUMBER)), error, name)
        if name in ("epsilon", "delta", "budget"):
            refused(estimator, lambda e: e.privacy_cost(), error, name)


BOUNDS = [
    ("reversed", (1, 0), ValueError),
    ("one reversed", ([0, 0, 5, 0], [1, 1, 4, 1]), ValueError),
    ("too short", ([0, 0], [1, 1]), ValueError),
    ("too long", ([0] * 5, 1), ValueError),
    ("no entries", ([], []), ValueError),
    ("two dimensions", (np.zeros((1, 4)), np.ones((1, 4))), ValueError),
    ("nan", (0, np.nan), ValueError),
    ("infinity", (-np.inf, np.inf), ValueError),
    ("one nan", ([0, 0, np.nan, 0], 1), ValueError),
    ("none in it", (None, 1), (TypeError, ValueError)),
    ("too large for a float", (0, 10**400), ValueError),
    ("other word", "public", ValueError),
    ("empty word", "", ValueError),
    ("words", ("a", "b"), TypeError),
    ("number", 5, TypeError),
    ("none", None, TypeError),
    ("one side", (1,), TypeError),
    ("three sides", (0, 1, 2), TypeError),
    ("complex", (0, 1j), TypeError),
    ("objects", (object(), object()), TypeError),
    ("dates", (np.datetime64("2020"), np.datetime64("2021")), TypeError),
]


@each(("bounds", "error"), [pytest.param(*case[1:], id=case[0]) for case in BOUNDS])
@every_bounded_estimator
def test_bad_bounds(kind, bounds, error):
    if kind in MARKED and bounds == "public":  # their default; they learn none
        bounds = "private"
    for estimator in both(kind, bounds=bounds):
        refused(estimator, lambda e: fit(e, np.full((20, 4), NUMBER)), error, "bounds")


CANDIDATES = [("ulsif", "gamma"), ("ulsif", "alpha")]
QUANTILES = ("median", "quantile", "robust_scaler", "quantile_transformer")
OWN = [
    *[("pca", "norm_bound", v, ValueError) for v in (0, -1.0, np.nan, np.inf, "big", 10**400)],
    *[("pca", "norm_bound", v, TypeError) for v in (True, None, [1.0, 2.0])],
    *[("pca", "center", v, ValueError) for v in ([0, 0], np.nan, [0, 0, 0, np.inf])],
    *[("pca", "center", v, (TypeError, ValueError)) for v in ("middle", None, object(), 10**400)],
    *[("pca", "n_components", v, ValueError) for v in (0, -1, 5)],
    *[("pca", "n_components", v, (TypeError, ValueError)) for v in (1.5, "mle", True)],
    *[("pca", "noise", v, (TypeError, ValueError)) for v in ("normal", None, 1)],
    *[("pca", "whiten", v, TypeError) for v in ("no", None, 2)],
    *[("kmeans", "n_clusters", v, ValueError) for v in (0, -3)],
    *[("kmeans", "n_clusters", v, TypeError) for v in (2.0, "8", None, True)],
    *[("kmeans", "max_iter", v, ValueError) for v in (0, -1)],
    *[("kmeans", "max_iter", v, TypeError) for v in (1.0, "5", None, True)],
    *[("kmeans", "algorithm", v, (TypeError, ValueError)) for v in ("elkan", None, 1, [])],
    *[("standard_scaler", name, "no", TypeError) for name in ("with_mean", "with_std")],
    *[("minmax_scaler", "feature_range", v, ValueError) for v in ((1, 1), (0, np.nan), 5)],
    *[("minmax_scaler", "q", v, (TypeError, ValueError)) for v in ("low", 0, 0.7, None, True)],
    ("minmax_scaler", "clip", "no", TypeError),
    *[("quantile", "q", v, ValueError) for v in ([], (), -0.1, 1.5, np.nan, [0.5, np.inf])],
    *[("quantile", "q", v, ValueError) for v in ([0.5, 0.25], [0.5, 0.5], [[0.1, 0.5]])],
    *[("quantile", "q", v, TypeError) for v in ("median", None, True, 1j, {}, [None], object())],
    *[("median", "mechanism", v, ValueError) for v in ("laplace", "", None, 1, [])],
    *[("quantile", "mechanism", v, ValueError) for v in ("laplace", "", None, 1, [])],
    *[("median", "noise", v, ValueError) for v in ("normal", None, 1, [])],
    *[(k, "step", v, ValueError) for k in QUANTILES for v in (0, -1.0, np.nan, np.inf, 10**400)],
    *[(k, "step", v, TypeError) for k in QUANTILES for v in ("1", True, 1j, [1.0])],
    *[(k, "prior", v, ValueError) for k in QUANTILES for v in ("normal", "", None, 1, [])],
    *[("robust_scaler", name, "no", TypeError) for name in ("with_centering", "with_scaling")],
    ("robust_scaler", "unit_variance", 1, TypeError),
    *[("robust_scaler", "quantile_range", v, ValueError) for v in ((75, 25), (5, 5), (-1, 50))],
    *[("robust_scaler", "quantile_range", v, ValueError) for v in ((1, 101), 5, "all", None)],
    *[("quantile_transformer", "n_quantiles", v, ValueError) for v in (0, 2, -5, 10_001)],
    *[("quantile_transformer", "n_quantiles", v, TypeError) for v in (5.0, "9", None, True)],
    *[("quantile_transformer", "output_distribution", v, ValueError) for v in ("log", None, 1)],
    *[("kernel_density", "bandwidth", v, ValueError) for v in (0, -1.0, np.nan, np.inf, "fast")],
    *[("kernel_density", "bandwidth", v, TypeError) for v in (None, True, 1j, [1.0])],
    *[("kernel_density", "spacing", v, ValueError) for v in (0, 0.39, 1.6, np.nan)],
    *[("kernel_density", "spacing", v, TypeError) for v in ("wide", None, True)],
    *[("kernel_density", "features", v, ValueError) for v in ("gaussian", "", None, 1, [])],
    ("kernel_density", "bounds", (0, 1e101), ValueError),
    *[("histogram_density", "bins", v, ValueError) for v in (0, -1, "sturges", "", 2**6, [2, 3])],
    *[("histogram_density", "bins", v, ValueError) for v in ([1, 2, 3, [0.0, np.nan]], np.ones(3))],
    *[("histogram_density", "bins", v, (TypeError, ValueError)) for v in (None, True, 2.5, {})],
    *[("ulsif", "centers", v, ValueError) for v in ("private", "", 1, None, [1.0], [], object())],
    *[("ulsif", "centers", v, ValueError) for v in (np.ones((3, 2)), np.full((3, 4), np.nan))],
    ("ulsif", "centers", np.ones((2001, 4)), ValueError),
    *[("ulsif", "n_centers", v, ValueError) for v in (0, -1, 2001)],
    *[("ulsif", "n_centers", v, TypeError) for v in (2.0, "8", None, True)],
    *[("ulsif", "kernel", v, ValueError) for v in ("gaussian", "", None, 1, [], np.exp)],
    *[(k, n, v, ValueError) for k, n in CANDIDATES for v in (0, -1.0, np.nan, np.inf, "auto", "")],
    *[(k, n, v, ValueError) for k, n in CANDIDATES for v in ([], [1.0, 0.0], [[1.0]], [1.0] * 101)],
    *[
        (k, n, v, (TypeError, ValueError))
        for k, n in CANDIDATES
        for v in (None, True, 1j, {}, 10**400)
    ],
    ("ulsif", "gamma", [1.0] * 9, ValueError),
    *[
        ("logistic", "alpha", v, ValueError)
        for v in (0, -1.0, 1e-7, 1e13, np.nan, np.inf, "private")
    ],
    *[("logistic", "alpha", v, TypeError) for v in (None, True, 1j, [1.0], {})],
    ("logistic", "alpha", 10**400, (TypeError, ValueError)),
    *[("ulsif", "noise", v, ValueError) for v in ("gaussian", "", None, 1, [])],
    *[("ulsif", "nonnegative", v, ValueError) for v in ("no", None, True)],
    *[("ulsif", "baseline", v, ValueError) for v in (-1, np.nan, np.inf)],
    *[("ulsif", "baseline", v, TypeError) for v in ("1", None, True)],
    *[("ulsif", "sampling_rate", v, ValueError) for v in (0, -0.5, 1.5, np.nan)],
    *[("ulsif", "sampling_rate", v, TypeError) for v in ("0.5", True, [0.5])],
    # The noise is scaled to the stated bounds: a basis has none of its own.
    ("ulsif", "basis", PolynomialFeatures(), ValueError),
    ("ulsif", "basis_bounds", (0, 1), ValueError),
    *[("marginals", "max_cells", v, ValueError) for v in (0, 7, -1, 2**23)],
    *[("marginals", "max_cells", v, TypeError) for v in (None, 8.0, True, "all", [8])],
    *[("marginals", "domain", v, TypeError) for v in (2.0, "all", [2.5], True, object())],
    *[("marginals", "domain", v, ValueError) for v in (0, -2, 2**20, Domain([2] * 3), {"a": 2})],
    *[("marginals", "queries", v, TypeError) for v in (1, "all", object(), [1], np.ones(4))],
    *[("marginals", "queries", v, ValueError) for v in ([], conjunctions(5))],
    *[("small_db", "alpha", v, ValueError) for v in (0, 1, 1.5, -0.1, np.nan, np.inf)],
    *[("small_db", "alpha", v, TypeError) for v in ("0.1", None, True, 1j, [0.1])],
    *[("small_db", "size", v, ValueError) for v in (0, -1, 2**40, "all", "")],
    *[("small_db", "size", v, TypeError) for v in (2.0, None, True, [3])],
    *[("small_db", "candidates", v, ValueError) for v in (0, -1, 2**40, "some", "")],
    *[("small_db", "candidates", v, TypeError) for v in (2.0, None, True, [3])],
    *[("small_db", "domain", v, TypeError) for v in (2.0, "all", [2.5], True, object())],
    *[("small_db", "domain", v, ValueError) for v in (None, 0, -2, 2**20, [2] * 3, {"a": 2})],
    *[("small_db", "queries", v, TypeError) for v in (None, 1, "all", object(), [1], np.ones(4))],
    *[("small_db", "queries", v, ValueError) for v in ([], conjunctions(5))],
    *[("mwem", "n_rounds", v, ValueError) for v in (0, -1, 2**40, "all", "")],
    *[("mwem", "n_rounds", v, TypeError) for v in (2.0, None, True, [3])],
    *[("mwem", "measure", v, ValueError) for v in ("", "cells", None, 1, [1])],
    *[("mwem", "domain", v, TypeError) for v in (2.0, "all", [2.5], object())],
    *[("mwem", "domain", v, ValueError) for v in (None, 0, 2**10, [2] * 3, {"a": 2})],
    *[("mwem", "queries", v, TypeError) for v in (None, 1, "all", object(), [1], np.ones(4))],
    *[("mwem", "queries", v, ValueError) for v in ([], conjunctions(5))],
    *[("online", "alpha", v, ValueError) for v in (0, 1, 1.5, -0.1, np.nan, np.inf)],
    *[("online", "alpha", v, TypeError) for v in ("0.1", None, True, 1j, [0.1])],
    *[("online", "n_updates", v, ValueError) for v in (0, -1, 2**60, "all", "")],
    *[("online", "n_updates", v, TypeError) for v in (2.0, None, True, [3])],
    *[("online", "domain", v, ValueError) for v in (0, 2**10, Domain([2] * 3), {"a": 2})],
]


@each(("kind", "name", "value", "error"), OWN, ids=named)
def test_bad_parameters_of_their_own(kind, name, value, error):
    for estimator in both(kind, **{name: value}):
        refused(estimator, lambda e: fit(e, np.full((20, 4), NUMBER)), error, name)


@each(
    "value",
    [(0, np.inf), (-np.inf, 0), (0, np.nan), (1, 0), (None, 1), (0,), 5, "private", "public", {},
     ([0] * 4, [1] * 4), ([], []), (np.zeros((1, 5)), np.ones((1, 5))), (0, 10**400), (0, 1j)],
    ids=named,
)  # fmt: skip
def test_bounds_that_do_not_bound_a_basis(value):
    for estimator in both("ulsif", basis=PolynomialFeatures(1), basis_bounds=value):
        refused(estimator, lambda e: fit(e, GOOD), (TypeError, ValueError), "basis_bounds")


@pytest.mark.parametrize("value", [5, "poly", PolynomialFeatures, abs, {}], ids=named)
def test_a_basis_that_is_no_transformer(value):
    for estimator in both("ulsif", basis=value, basis_bounds=(0, 1)):
        refused(estimator, lambda e: fit(e, GOOD), TypeError, "basis")


@pytest.mark.parametrize(
    "output", [lambda X: X[:1], lambda X: X[0], lambda X: X[:, :0]], ids=range(3)
)
def test_a_basis_that_gives_no_row_for_every_row(output):
    transformer = FunctionTransformer(output)
    estimator = prepared("ulsif", False, basis=transformer, basis_bounds=(-9, 9))
    refused(estimator, lambda e: fit(e, GOOD), ValueError, "basis")


@each(
    ("queries", "error", "match"),
    [
        (linear_queries(np.ones((2, 15))), ValueError, "q has 15 cells a query.* 16"),
        (linear_queries(lambda row: row[0] + 2), ValueError, r"q must lie in \[0, 1\].* 3\.0"),
        (linear_queries(lambda row: np.nan), ValueError, "q must lie in .* nan"),
        (lambda row: None, TypeError, "q must return numbers.* NoneType"),
        (conjunctions(2, columns=[0, 4]), ValueError, "no column 4"),
        (conjunctions(2, columns=["a", "b"]), ValueError, "no column 'a'"),
        (conjunctions(2, columns=[0, 0]), ValueError, "columns must be distinct"),
        (conjunctions(2, columns=[1]), ValueError, "order=2 is above"),
        (conjunctions(1, monotone=True, values=9), ValueError, "values: 9 is not in the domain"),
        (thresholds(["b"]), ValueError, "no column 'b'"),
    ],
)
def test_queries_that_do_not_fit_the_domain(queries, error, match):
    for estimator in both("small_db", queries=queries):
        refused(estimator, lambda e: fit(e, GOOD), error, match)


@pytest.mark.parametrize("size", [3, "auto", "source", 10**6])
def test_too_many_small_tables(size):
    """Refused with the sizes, and what to use instead; at once, however many there are."""
    estimator = prepared("small_db", False, candidates="all", size=size, domain=100)
    match = "400 queries on a domain of 100,000,000 cells.*MWEMReleaser"
    refused(estimator, lambda e: fit(e, GOOD), ValueError, match)


def test_bounds_without_room_for_the_bins_are_refused_for_free():
    budget = PrivacyBudget(1.0)
    X = np.zeros((200, 2))
    estimator = DPHistogramDensity(bounds=(1, 1 + 2**-52), budget=budget)
    with pytest.raises(ValueError, match="bounds are too close"):
        estimator.fit(X)
    assert budget.spent.epsilon == 0
