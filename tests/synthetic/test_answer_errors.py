"""Errors of a synthetic table: least squares, coverage, misfit, and NaN where nothing is known."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import skdp
from skdp import DPTrainOnRelease, PrivacyBudget
from skdp.synthetic import (
    DPMarginalSynthesizer,
    conjunctions,
    intervals,
    linear_queries,
    parities,
    thresholds,
)
from skdp.synthetic._graphical import AnswerErrors, Measurements, Model, Tree, fit_model
from skdp.synthetic._queries import query_names

SIZES = (2, 3, 2, 4)


def lifted(s):
    """Return the matrix from the flat joint table to the flat table of some columns."""
    codes = np.indices(SIZES).reshape(len(SIZES), -1)
    shape = tuple(SIZES[a] for a in s)
    flat = np.ravel_multi_index(tuple(codes[a] for a in s), shape)
    return (flat == np.arange(np.prod(shape))[:, None]).astype(float)


@st.composite
def measurements(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sets = draw(st.sets(st.sets(st.integers(0, 3), min_size=1, max_size=3).map(frozenset),
                        min_size=1, max_size=5))  # fmt: skip
    tables = {}
    for s in sorted(map(tuple, map(sorted, sets))):
        size = int(np.prod([SIZES[a] for a in s]))
        tables[s] = 500 / size + 20 * rng.normal(size=size), float(rng.choice([5.0, 20.0]))
    return Measurements(SIZES, tables, 500.0, 0.0, 5e-4, False)


@settings(max_examples=25)
@given(measurements())
def test_consistent_tables_are_the_least_squares(noisy):
    """Against the joint table of any signs that is nearest to all tables."""
    matrix = np.vstack([lifted(s) / std for s, (_, std) in noisy.tables.items()])
    values = np.concatenate([table / std for table, std in noisy.tables.values()])
    joint = np.linalg.lstsq(matrix, values, rcond=None)[0]
    found = noisy.consistent()
    for s, (table, std) in found.tables.items():
        np.testing.assert_allclose(table, lifted(s) @ joint, atol=1e-8)
        assert std == noisy.tables[s][1]
    # Potentials of the noise that no distribution can follow cancel each other.
    tree = Tree(SIZES, noisy.tables)
    model = Model(tree, {s: np.cos(np.arange(t.size)) for s, (t, _) in noisy.tables.items()})
    for s in noisy.tables:
        same = noisy.agreeing(model).marginal(s)
        np.testing.assert_allclose(same, model.marginal(s), atol=1e-9)


def table(n, seed):
    """Return rows of six columns that depend on each other in a chain."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, 4, n)]
    for size in (3, 2, 5, 2, 4):
        keep = rng.random(n) < 0.6
        columns.append(np.where(keep, columns[-1] % size, rng.integers(0, size, n)))
    return np.column_stack(columns), [4, 3, 2, 5, 2, 4]


@pytest.mark.parametrize(("epsilon", "delta", "n"), [(0.5, 0.0, 2000), (1.0, 1e-6, 4000)])
def test_errors_cover_and_are_not_too_wide(epsilon, delta, n):
    """Seeded, so it never fails by chance; in 5 fits, on cells and on sums of half of them."""
    inside, squares, tables = [], [], []
    with skdp.config_context(noise="seeded", uncounted_fits="allow"):
        for seed in range(5):
            X, sizes = table(n, seed)
            budget = PrivacyBudget(
                epsilon, delta, adjacency=("add_or_remove_one", "replace_one")[seed % 2]
            )
            release = DPMarginalSynthesizer(
                domain=sizes, epsilon=epsilon, delta=delta, random_state=seed, budget=budget
            ).fit(X)
            rng = np.random.default_rng(seed)
            for s in release.measured_:
                shape = tuple(sizes[a] for a in s)
                flat = np.ravel_multi_index(tuple(X[:, a] for a in s), shape)
                exact = np.bincount(flat, minlength=np.prod(shape)) / n
                weights = np.vstack([np.eye(exact.size), rng.random((6, exact.size)) < 0.5])
                answers = release.answers(linear_queries(weights, columns=list(s)))
                np.testing.assert_allclose(
                    answers.value, release.predict(linear_queries(weights, columns=list(s)))
                )
                low, high = answers.interval()
                truth = np.clip(weights @ exact, 1e-9, 1 - 1e-9)
                inside.append(np.mean((low - 2e-9 <= truth) & (truth <= high + 2e-9)))
                squares.append(
                    [np.square(answers.std).sum(), np.square(answers.value - truth).sum()]
                )
                errors = release.answer_errors_[s]
                wrong = np.abs(answers.value[: exact.size] - exact).sum() / 2
                tables.append([errors["noise"] + errors["misfit"], wrong])
    claimed, true = np.sqrt(np.sum(squares, axis=0))
    assert np.mean(inside) >= 0.945
    assert 0.9 * true <= claimed <= 1.7 * true
    claimed, true = np.mean(tables, axis=0)
    assert 0.8 * true <= claimed <= 1.7 * true


def test_nothing_is_known_of_columns_that_no_table_holds():
    X, sizes = table(3000, 0)
    with skdp.config_context(noise="seeded", uncounted_fits="allow"):
        release = DPMarginalSynthesizer(
            conjunctions(2, columns=[0, 1, 2]), domain=sizes, epsilon=5.0, random_state=0
        ).fit(X)
    answers = release.answers(conjunctions(1) + conjunctions(2, columns=[4, 5]))
    singles = sum(sizes)
    names = answers.to_frame()["query"]
    assert names[5] == "column 1 = 1" and names[singles + 4] == "column 4 = 1, column 5 = 0"
    assert np.isfinite(answers.std[:singles]).all() and np.isnan(answers.std[singles:]).all()
    assert "no measured table" in answers.note and np.isnan(answers.interval()[0][singles:]).all()
    assert list(release.answer_errors_) == release.measured_
    whole = release.answers(linear_queries(np.ones((1, 4)), columns=[0]))
    assert whole.value[0] == pytest.approx(1) and whole.std[0] < 1e-6
    again = pickle.loads(pickle.dumps(release))
    assert not again._errors._refits  # made anew, the same ones
    np.testing.assert_array_equal(again.answers(conjunctions(1)).std, answers.std[:singles])
    with pytest.raises(AttributeError):  # scikit-learn's NotFittedError is one
        DPMarginalSynthesizer().answer_errors_  # noqa: B018


def test_queries_have_names():
    """A cell by its columns; a run by its ends; weights by columns and a number."""
    bins = skdp.synthetic.Bins([0, 15, 60], missing=True)
    domain = skdp.Domain({"to": ["JFK", "EWR"], "late": bins})
    queries = conjunctions(2, monotone=True, values={"to": "JFK", "late": 60}) + conjunctions(1)
    queries += thresholds("late") + intervals("to")
    assert query_names(queries + parities(2), domain) == [
        "to = JFK, late in [15, 60]", "to = JFK", "to = EWR",
        "late in [0, 15)", "late in [15, 60]", "late missing", "late in [0, 15)", "late in [0, 60]",
        "to = JFK", "to = JFK to EWR", "to = EWR", "parities 0 of to, late",
    ]  # fmt: skip
    names = query_names(intervals("late"), domain)
    assert names[2] == "late in [0, 60] or missing" and names[5] == "late missing"


def test_a_model_that_misses_its_tables_has_a_misfit():
    rng = np.random.default_rng(0)
    tables = {(0,): (np.array([900.0, 100.0]) + rng.normal(0, 5, 2), 5.0),
              (0, 1): (np.array([890.0, 5, 5, 10, 40, 50]) + rng.normal(0, 5, 6), 5.0)}  # fmt: skip
    noisy = Measurements((2, 3), tables, 1000.0, 0.0, 5e-4, False)
    model = noisy.fitted(None, 400)
    assert max(misfit for _, misfit in AnswerErrors(noisy, model).of_tables().values()) == 0.0
    uniform = fit_model((2, 3), replace(noisy, tables=tables).tables, 1000.0, max_iter=0)
    errors = AnswerErrors(noisy, uniform)
    truth = np.array([890, 5, 5, 10, 40, 50]) / 1000
    noise, misfit = errors.of_tables()[0, 1]
    assert misfit > 0.2 > noise
    work = conjunctions(2).workload(skdp.Domain([2, 3]))
    off = np.abs(uniform.marginal((0, 1)) - truth)
    assert np.sqrt(np.square(off).sum()) < 1.2 * np.sqrt(np.square(errors.std(work)).sum())


def test_of_a_model_trained_on_a_release():
    X, sizes = table(3000, 1)
    X[:, 5] = X[:, 5] > 1
    with skdp.config_context(noise="seeded", uncounted_fits="allow"):
        model = DPTrainOnRelease(
            LogisticRegression(), domain=[*sizes[:5], 2], epsilon=5.0, random_state=0
        ).fit(X)
    assert list(model.answer_errors_) == model.measured_
    assert all(0 < parts["noise"] < 0.3 for parts in model.answer_errors_.values())
