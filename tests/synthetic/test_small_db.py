"""SmallDBReleaser: its exact output distribution, its theorem, and what it makes of tables."""

from __future__ import annotations

import itertools
import math
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import stats
from sklearn.base import clone

from skdp import PrivacyBudget, SmallDBReleaser
from skdp.budget import gdp_mu
from skdp.budget.budget import StandInBudget
from skdp.core.transcript import record
from skdp.queries import public_tables, table_rate
from skdp.queries import small_databases as small_tables
from skdp.synthetic import (
    Bins,
    Domain,
    conjunctions,
    intervals,
    linear_queries,
    parities,
    thresholds,
)
from tests.folding import each

RELATIONS = ("replace_one", "add_or_remove_one")
TAIL = 1e-6  # false alarms of each chi-squared test


def dense(queries, domain):
    work = queries.workload(domain)
    return work.coefficients(np.arange(domain.n_cells)) / work.one


def probabilities(queries, domain, X, size, epsilon, tables=None):
    """Return {cells: probability}: the definition, over all multisets or listed tables."""
    matrix = dense(queries, domain)
    cells = np.ravel_multi_index(np.asarray(X, dtype=int).T.reshape(domain.n_columns, -1),
                                 domain.sizes)  # fmt: skip
    exact, n = matrix[:, cells].sum(axis=1), len(cells)
    if tables is None:
        tables = itertools.combinations_with_replacement(range(domain.n_cells), size)
    weights: dict[tuple[int, ...], float] = {}
    for table in tables:
        error = np.abs(exact - n * matrix[:, list(table)].mean(axis=1)).max()
        key = tuple(sorted(int(cell) for cell in table))
        score = math.ceil(error - 1e-9)
        weights[key] = weights.get(key, 0.0) + math.exp(-epsilon / 2 * score)
    total = sum(weights.values())
    return {table: weight / total for table, weight in weights.items()}


UNMETERED = StandInBudget("add_or_remove_one")


def drawn(estimator, X, runs):
    """Return how often each table was released."""
    found: dict[tuple[int, ...], int] = {}
    for _ in range(runs):
        codes = clone(estimator).fit(X)._codes
        table = tuple(np.ravel_multi_index(codes.T, estimator.domain.sizes).tolist())
        found[table] = found.get(table, 0) + 1
    return found


def tail(found, expected, runs):
    """Return the chi-squared tail; tables expected fewer than 5 times are put together."""
    assert set(found) <= set(expected)
    counts = np.array([found.get(table, 0) for table in expected])
    means = runs * np.array(list(expected.values()))
    rare = means < 5
    if rare.any():
        counts = np.append(counts[~rare], counts[rare].sum())
        means = np.append(means[~rare], means[rare].sum())
    if means[-1] < 1e-9:
        counts, means = counts[:-1], means[:-1]
    return stats.chisquare(counts, means).pvalue


CASES = {
    "conjunctions": (conjunctions(1), Domain([2, 2]), 2, "all"),
    "weights": (linear_queries([[0, 0.5, 1], [1, 0.25, 0]]), Domain([3]), 3, "all"),
    "thresholds": (thresholds(), Domain([4]), 2, "all"),
    "thresholds, by enumeration": (thresholds() + thresholds([0]), Domain([4]), 2, "all"),
    "intervals": (intervals(), Domain([3]), 2, "all"),
    "a list": (conjunctions(2), Domain([3, 3]), 2, 12),
}
ROWS = {
    1: np.array([[0], [0], [2], [1], [2]]),
    2: np.array([[0, 0], [1, 1], [1, 0], [1, 1], [1, 1]]),
}


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("name", "relation"), [(name, RELATIONS[i % 2]) for i, name in enumerate(CASES)]
)
def test_the_distribution_is_exactly_the_exponential_mechanism(name, relation):
    """And the test finds noise at 2/3 and at 3/2 of the scale."""
    queries, domain, size, candidates = CASES[name]
    X, epsilon, runs = ROWS[domain.n_columns], 3.0, 1200
    estimator = SmallDBReleaser(
        queries,
        size=size,
        domain=domain,
        candidates=candidates,
        epsilon=epsilon,
        budget=None if relation == "replace_one" else UNMETERED,
    )
    listed = None
    if candidates != "all":
        listed = public_tables(domain.n_cells, size, candidates, 0)
    found = drawn(estimator, X, runs)

    def against(epsilon):
        return tail(found, probabilities(queries, domain, X, size, epsilon, listed), runs)

    assert against(epsilon) > TAIL
    assert against(epsilon * 2 / 3) < TAIL
    assert against(epsilon * 3 / 2) < TAIL


@pytest.mark.statistical
def test_no_rows_give_every_table_the_same_chance():
    queries, domain, size, _ = CASES["conjunctions"]
    estimator = SmallDBReleaser(queries, size=size, domain=domain, epsilon=9.0, budget=UNMETERED)
    found = drawn(estimator, np.empty((0, 2)), 1000)
    assert tail(found, probabilities(queries, domain, np.empty((0, 2)), size, 1.0), 1000) > TAIL


@pytest.mark.statistical
def test_delta_buys_twice_the_rate():
    """A choice of range epsilon is GDP like epsilon / 2: PROOFS.md, bounded range."""
    queries, domain, size, _ = CASES["conjunctions"]
    estimator = SmallDBReleaser(queries, size=size, domain=domain, epsilon=2.0, delta=0.05)
    found = drawn(estimator, ROWS[2], 1500)
    rate = float(table_rate(gdp_mu(2.0, 0.05), pure=False))
    assert tail(found, probabilities(queries, domain, ROWS[2], size, 2 * rate), 1500) > TAIL
    assert tail(found, probabilities(queries, domain, ROWS[2], size, rate), 1500) < TAIL


# --- sizes and the theorem ----------------------------------------------------------------------


def size_of(queries, domain, **parameters):
    fitted = SmallDBReleaser(
        queries, domain=domain, candidates=5, random_state=0, **parameters
    ).fit(np.zeros((3, domain.n_columns)))
    return len(fitted.database_)


def test_the_sizes_are_those_of_the_theorems():
    domain = Domain.binary(4)
    q = conjunctions(2).workload(domain).n_queries
    for alpha in (0.3, 0.1, 0.05):
        wanted = math.floor(math.log(2 * q) / (2 * alpha**2)) + 1
        assert size_of(conjunctions(2), domain, alpha=alpha) == wanted
        source = math.ceil(math.log(q) / alpha**2)
        assert size_of(conjunctions(2), domain, alpha=alpha, size="source") == source
    assert size_of(conjunctions(2), domain, size=7) == 7
    # One query: ln 1 = 0, and a table has a row.
    assert size_of(linear_queries(np.ones(16)), domain, size="source") == 1
    grid = Domain([Bins.regular(0, 1, 50)])
    for alpha, wanted in ((0.5, 1), (0.1, 5), (0.03, 17)):
        fitted = SmallDBReleaser(thresholds(), alpha=alpha, domain=grid).fit(np.ones((4, 1)))
        assert len(fitted.database_) == wanted


def test_a_table_of_the_size_answers_within_alpha():
    """The best table of all is within alpha of any rows: what the sizes are for."""
    rng = np.random.default_rng(0)
    for queries, domain, alpha in (
        (conjunctions(1), Domain([3, 2]), 0.45),
        (thresholds(), Domain([6]), 0.13),
        (parities(2), Domain([2, 2, 2]), 0.4),
    ):
        for _ in range(3):
            X = np.column_stack([rng.integers(0, k, 40) for k in domain.sizes])
            X = X[rng.integers(0, rng.integers(1, 41), 400)]  # few of the rows, many times
            fitted = SmallDBReleaser(queries, alpha=alpha, domain=domain, epsilon=1e4).fit(X)
            truth = queries.workload(domain).answers(_counts(X, domain)) / len(X)
            assert np.abs(fitted.predict(queries) - truth).max() <= alpha + 1 / len(X)


def _counts(X, domain):
    counts = np.zeros(domain.sizes, dtype=np.int64)
    np.add.at(counts, tuple(X.T), 1)
    return counts


@pytest.mark.parametrize(
    ("queries", "domain", "parameters"),
    [
        (conjunctions(1), Domain([3, 2]), {"size": 6}),
        (thresholds(), Domain([Bins.regular(0, 200, 100)]), {"alpha": 0.05}),
        (thresholds(), Domain([Bins.regular(0, 200, 100)]), {"alpha": 0.05, "delta": 1e-6}),
    ],
)
def test_error_bound_is_kept_by_releases(queries, domain, parameters):
    """By all but beta of them; by far most of them (binomial test at 1e-6)."""
    rng = np.random.default_rng(1)
    n, epsilon, beta, runs = 400, 0.5, 0.05, 60
    X = np.column_stack([np.minimum(rng.exponential(40, n), 199)] * domain.n_columns)
    X = X if isinstance(domain.column(0), Bins) else rng.integers(0, 2, (n, 2))
    estimator = SmallDBReleaser(queries, domain=domain, epsilon=epsilon, **parameters)
    bound = estimator.error_bound(n, beta=beta)
    assert 0 < bound < 1
    codes = np.column_stack([domain.codes(j, X[:, j])[0] for j in range(domain.n_columns)])
    truth = queries.workload(domain).answers(_counts(codes, domain)) / n
    missed = sum(
        np.abs(clone(estimator).fit(X).predict(queries) - truth).max() > bound for _ in range(runs)
    )
    assert missed <= stats.binom.isf(1e-6, runs, beta)


def test_error_bound_is_the_formula():
    e = SmallDBReleaser(conjunctions(2), domain=2, size=5, epsilon=2.0)
    q, number = 12, math.comb(8 + 4, 5)
    wanted = math.sqrt(math.log(2 * q) / 10) + (math.log(number / 0.01) / 1.0 + 1) / 300
    assert e.error_bound(300, 3, beta=0.01) == pytest.approx(wanted)
    e = SmallDBReleaser(thresholds(), domain=Domain([50]), alpha=0.1, epsilon=0.2)
    wanted = 0.1 + (math.log(math.comb(54, 5) / 0.05) / 0.1 + 1) / 10_000
    assert e.error_bound(10_000) == pytest.approx(wanted)
    e = SmallDBReleaser(conjunctions(1), domain=Domain.binary(30), candidates=100, epsilon=1.0)
    assert e.error_bound(1000) == pytest.approx((math.log(100 / 0.05) / 0.5 + 1) / 1000)
    assert e.error_bound(3) == 1.0
    # It says what a fit would cost where none is possible.
    assert SmallDBReleaser(domain=Domain.binary(16)).error_bound(10**9) < 0.11
    more = [e.error_bound(n) for n in (100, 200, 10**4)]
    assert more == sorted(more, reverse=True)


@pytest.mark.parametrize(
    ("arguments", "options", "match"),
    [
        ((0,), {}, "n_samples"),
        ((100,), {"beta": 0.0}, "beta"),
        ((100,), {"beta": 1}, "beta"),
        ((100, 0), {}, "n_features"),
    ],
)
def test_bad_arguments_of_error_bound(arguments, options, match):
    with pytest.raises(ValueError, match=match):
        SmallDBReleaser(domain=2).error_bound(*arguments, **options)
    with pytest.raises(TypeError, match=r"beta must be a number in \(0, 1\), got str"):
        SmallDBReleaser(domain=2).error_bound(100, beta="x")


def test_error_bound_needs_the_number_of_columns():
    e = SmallDBReleaser(conjunctions(1), domain=2, size=9)
    with pytest.raises(ValueError, match="n_features must be given before fit"):
        e.error_bound(10)
    assert e.fit(np.zeros((4, 2))).error_bound(10) == e.error_bound(10, 2)
    assert e.error_bound(10**6, 2) < e.error_bound(10**6, 5)
    with pytest.raises(TypeError, match="domain"):
        SmallDBReleaser().error_bound(10)


# --- ranges -------------------------------------------------------------------------------------


@each(
    ("parameters", "X", "match"),
    [
        (
            {},
            np.zeros((9, 16)),
            r"480 queries .* 65,536 cells, tables of 344 points: .* 10\*\*.*=K.*MWEMReleaser",
        ),
        (
            {"size": 3},
            np.zeros((9, 10)),
            "180 queries .* 1,024 cells, tables of 3 points: there are 179,481,600 of",
        ),
        (
            {"size": 3, "domain": 3},
            np.zeros((9, 6)),
            "729 cells, tables of 3 points: there are 64,836,045 of these, .* larger alpha.*=K",
        ),
        # Just above the limits: the same text.
        ({"size": 34}, np.zeros((9, 3)), "there are 22,481,940 of these, .* larger alpha.*=K"),
        (
            {"size": 12, "queries": [conjunctions(3)] * 4},
            np.zeros((9, 4)),
            "17,383,860 of these takes too many steps. Use a larger alpha.*=K",
        ),
        ({"alpha": 1e-6}, np.zeros((9, 3)), r"alpha=1e-06 needs a table of 1.59e\+12 points"),
        ({"alpha": 1e-160}, np.zeros((9, 3)), "alpha=1e-160 needs a table of more than"),
        ({"alpha": 1e-300, "size": "source"}, np.zeros((9, 3)), "alpha=1e-300 needs a table of"),
        (
            {"alpha": 5e-324, "queries": thresholds(), "domain": 9},
            np.zeros((9, 1)),
            "alpha=5e-324 needs a table of more than",
        ),
        ({"candidates": 20_001_000, "size": 1}, np.zeros((9, 3)), "candidates are too many to sco"),
        ({"candidates": 2**20}, np.zeros((9, 16)), "1,048,576 candidates are too many"),
        ({"candidates": 9}, np.zeros((9, 70)), r"about 10\*\*21 cells"),
        (
            {"queries": thresholds(), "domain": 60_000, "size": 5000},
            np.zeros((9, 1)),
            "60,000 cells.*Use a larger alpha or a smaller size",
        ),
    ],
)
def test_ranges_that_are_too_large_are_refused_with_their_sizes(parameters, X, match):
    budget = PrivacyBudget(1.0)
    e = SmallDBReleaser(**{"domain": 2, "budget": budget, **parameters})
    with pytest.raises(ValueError, match=match):
        e.fit(X)
    assert budget.charges == []
    assert not hasattr(e, "n_features_in_")


def test_the_path_of_thresholds_is_taken_where_it_may_be():
    """A sum of thresholds of one column; not for other queries, nor for more columns."""
    for queries, domain, method in (
        (thresholds(), Domain([20]), "paths"),
        (thresholds() + thresholds([0]), Domain([20]), "paths"),
        (thresholds() + parities(1), Domain([20]), "all"),
        (thresholds(), Domain([4, 5]), "all"),
        (conjunctions(1), Domain([20]), "all"),
    ):
        assert SmallDBReleaser(queries)._range(domain).method == method
        assert SmallDBReleaser(queries, candidates=5)._range(domain).method == "list"


def test_a_large_domain_with_candidates():
    """The list is public: the same in every fit, whatever the rows and the seed."""
    X = np.random.default_rng(0).integers(0, 2, (50, 40))
    e = SmallDBReleaser(conjunctions(1), size=3, domain=2, candidates=40, epsilon=1e6)
    codes = [clone(e).set_params(random_state=seed).fit(X)._codes for seed in (None, 0, 1)]
    assert all(np.array_equal(codes[0], other) for other in codes)
    assert codes[0].shape == (3, 40)


@pytest.mark.parametrize("kept", [2**27, 0])
def test_sums_over_points_with_a_matrix_and_without(kept, monkeypatch):
    """Against the coefficients of every query on every cell."""
    monkeypatch.setattr(small_tables, "_LARGEST_MATRIX", kept)
    monkeypatch.setattr(small_tables, "_BLOCK_VALUES", 500)
    domain = Domain([3, 2, 4])
    for queries in (
        conjunctions(2) + conjunctions(2, monotone=True) + thresholds() + intervals() + parities(),
        conjunctions(1) + linear_queries(np.random.default_rng(0).random((4, 24))),
    ):
        work = queries.workload(domain)
        cells = np.random.default_rng(1).integers(24, size=(100, 5))
        sums = small_tables._Scorer(work, 24, 5).sums(cells)
        assert np.array_equal(sums, work.coefficients(np.arange(24))[:, cells].sum(axis=2).T)


def test_many_cells_and_queries_take_little_memory():
    """No table of all queries on all cells is made where there are 10**6 of each."""
    SmallDBReleaser(conjunctions(2), domain=1000, size=2, candidates=5).fit(np.zeros((5, 2)))


# --- tables -------------------------------------------------------------------------------------

MIXED = Domain({"origin": ["EWR", "JFK", None], "delay": Bins([-60, 0, 15, 900]), "n": 2})
FRAME = pd.DataFrame(
    {"origin": ["JFK", None, "EWR", "JFK"], "delay": [3.0, -5.0, 2000.0, 4.0], "n": [0, 1, 1, 0]}
)


@pytest.mark.parametrize(
    "form", [lambda f: f, pl.from_pandas, pa.Table.from_pandas, lambda f: f.to_numpy()]
)
def test_a_mixed_table_comes_back_as_one(form):
    e = SmallDBReleaser(conjunctions(2), size=2, domain=MIXED, epsilon=1e4)
    fitted = e.fit(form(FRAME))
    for table, rows in ((fitted.database_, 2), (fitted.sample(7, random_state=0), 7)):
        assert type(table) is type(form(FRAME))
        assert table.shape == (rows, 3)
    if isinstance(fitted.database_, pd.DataFrame):
        assert list(fitted.database_.columns) == ["origin", "delay", "n"]
        assert set(fitted.database_["delay"]) <= {-30.0, 7.5, 457.5}
        drawn = fitted.sample(500, random_state=1)
        assert drawn["delay"].nunique() > 400  # uniform in the cell
        assert drawn.equals(fitted.sample(500, random_state=1))
        assert list(fitted.feature_names_in_) == ["origin", "delay", "n"]
    # Of four rows, two answer everything exactly only if they are half of them each.
    assert fitted.predict(conjunctions(2)).sum() == pytest.approx(3)
    fractions = fitted.predict(fitted.database_)
    assert fractions.min() >= 0.5


def test_samples_are_of_the_released_rows():
    e = SmallDBReleaser(conjunctions(1), size=3, domain=Domain([4, 4]), random_state=0)
    fitted = e.fit(np.array([[0, 1], [2, 3], [2, 2]]))
    rows = {tuple(row) for row in fitted.database_.tolist()}
    assert {tuple(row) for row in fitted.sample(200, random_state=0).tolist()} == rows
    assert len(fitted.sample()) == 1
    for n in (0, -1):
        with pytest.raises(ValueError, match="n_samples"):
            fitted.sample(n)


def test_answers_of_queries_asked_later():
    """Each is the mean of its definition over the released rows."""
    fitted = SmallDBReleaser(conjunctions(1), size=4, domain=MIXED, random_state=0).fit(FRAME)
    rows = fitted.database_
    for queries in (
        conjunctions(3),
        thresholds(),
        parities(2) + intervals("delay"),
        linear_queries(np.random.default_rng(0).random((5, 18))),
    ):
        expected = dense(queries, MIXED)[:, np.ravel_multi_index(fitted._codes.T, MIXED.sizes)]
        assert np.allclose(fitted.predict(queries), expected.mean(axis=1), atol=1e-12)

    def late(row):
        return row["origin"] == "JFK" and row["delay"] > 0

    at_jfk = np.mean((rows["origin"] == "JFK") & (rows["delay"] > 0))
    assert fitted.predict(late).tolist() == [at_jfk]
    both = fitted.predict([late, conjunctions(1, columns="n")])
    assert both.tolist() == [at_jfk, np.mean(rows["n"] == 0), np.mean(rows["n"] == 1)]
    with pytest.raises(ValueError, match=r"q must lie in \[0, 1\]"):
        fitted.predict(lambda row: 2)
    with pytest.raises(ValueError, match="at least one query"):
        fitted.predict([])
    # Functions need no table of the whole domain.
    wide = SmallDBReleaser(conjunctions(1), size=2, domain=2, candidates=3).fit(np.zeros((4, 60)))
    assert wide.predict(lambda row: row[59]).tolist() == [wide.database_[:, 59].mean()]


def test_two_releases_of_the_ledger():
    budget = PrivacyBudget(1.0)
    e = SmallDBReleaser(thresholds(), domain=Domain([9]), epsilon=0.5, budget=budget)
    for _ in range(2):
        e.fit(np.arange(9)[:, None])
    assert budget.remaining.epsilon == 0
    (release,) = e.privacy_.releases
    assert release.mechanism.startswith("exponential mechanism")
    assert (release.sensitivity, release.scale) == (1.0, 4.0)
    model = pickle.loads(pickle.dumps(e))
    assert np.array_equal(model.predict(thresholds()), e.predict(thresholds()))


def test_nothing_of_the_rows_stays_in_the_model():
    """All that is kept is the released table, and what was stated."""
    with record() as transcript:
        fitted = SmallDBReleaser(conjunctions(1), size=2, domain=Domain([3, 3])).fit(
            np.array([[0, 1], [2, 2], [1, 1]])
        )
    (entry,) = transcript.entries
    assert np.array_equal(np.ravel_multi_index(fitted._codes.T, (3, 3)), entry.released)
    kept = {k for k in vars(fitted) if k not in fitted.get_params()}
    assert kept == {"domain_", "_schema", "n_features_in_", "privacy_", "_codes", "database_"}
