"""`expected_error` of statistics and scalers: what calls then state, or refused with a reason."""

from __future__ import annotations

import numpy as np
import pytest

from skdp import DPStandardScaler, PrivacyBudget, statistics
from skdp.statistics import expected_error
from tests.folding import each

N = 6000
A, R = "add_or_remove_one", "replace_one"


def tables():
    rng = np.random.default_rng(0)
    uniform, binary = rng.random((N, 2)), (rng.random((N, 2)) < 0.2) * 1.0
    return {"uniform": uniform, "binary": binary, "skewed": rng.exponential(0.1, (N, 2)).clip(0, 1)}


def options(relation, delta):
    return {"epsilon": 3.0, "delta": delta, "budget": PrivacyBudget(99, 0.1, adjacency=relation)}


@each("kind", sorted(tables()))
@each("relation", [A, R])
@each("delta", [0.0, 1e-6])
@each("name", ["sum", "mean", "var", "std", "covariance", "count_nonzero"])
def test_it_is_what_a_call_states_of_rows_like_those_given(name, delta, relation, kind):
    X, public = tables()[kind], tables()[kind][: N // 3]
    more = options(relation, delta)
    if name != "count_nonzero":
        more["bounds"] = (0, 1)
    expected = expected_error(name, N, like=public, **more)
    calls = [getattr(statistics, name)(X, **more).std for _ in range(9)]
    stated = np.sqrt(np.mean(np.square(calls), axis=0))
    assert expected.shape == stated.shape
    assert np.all(np.abs(np.log(expected / stated)) < np.log(1.3))


def test_sums_and_means_of_public_numbers_need_no_rows():
    for delta in (0.0, 1e-6):
        more = {"bounds": (-1.0, 3.0), "epsilon": 0.5, "delta": delta, "n_rows": "public"}
        for name in ("sum", "mean"):
            stated = getattr(statistics, name)(np.zeros((700, 3)), **more).std
            np.testing.assert_allclose(expected_error(name, 700, 3, **more), stated, rtol=1e-6)
        flat = statistics.mean(np.zeros(700), **more).std
        np.testing.assert_allclose(expected_error("mean", 700, **more), flat, rtol=1e-6)


def test_an_earlier_release_tells_where_a_mean_lies():
    more = {"bounds": (0, 10), "epsilon": 2.0}
    release = statistics.mean(np.full(N, 9.0), **more)
    expected = expected_error("mean", N, like=release, **more)
    assert expected == pytest.approx(release.std, rel=0.1)


def test_counts():
    assert expected_error("count", 50, epsilon=1.0) == statistics.count([1.0] * 50).std
    found, _ = statistics.histogram(np.ones(50), bins=[0.0, 1.0, 2.0])
    np.testing.assert_allclose(expected_error("histogram", 50, bins=[0.0, 1.0, 2.0]), found.std)
    found = statistics.subset_sums(np.ones(5), ["a"] * 5, classes=["a", "b"], bounds=(0, 1)).std
    expected = expected_error("subset_sums", 5, classes=["a", "b"], bounds=(0, 1))
    np.testing.assert_allclose(expected, found)


@each(
    ("name", "more", "match"),
    [
        ("mean", {}, "bounds must be stated"),
        ("std", {"like": np.ones(9)}, "bounds must be stated"),
        ("histogram", {}, "learned bounds depend on the rows"),
        ("mean", {"bounds": (0, 1)}, "where it lies"),
        ("var", {"bounds": (0, 1), "n_rows": "public"}, "depends on the rows"),
        ("median", {}, r"ranks.*DPQuantile\(0.5\).expected_error\(n_samples, like=rows\)"),
        ("mst_cost", {}, "smooth"),
        ("query_session", {}, "share"),
        ("minimum", {}, "function must be"),
    ],
)
def test_refused_with_the_reason(name, more, match):
    with pytest.raises(ValueError, match=match):
        expected_error(name, 100, **more)


def test_nothing_is_charged():
    budget = PrivacyBudget(1.0)
    expected_error("mean", 100, like=np.ones(5), bounds=(0, 2), budget=budget)
    assert budget.spent.epsilon == 0


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_scaler_knows_where_means_lie(delta):
    X = tables()["skewed"]
    scaler = DPStandardScaler(bounds=(0, 1), **options(A, delta))
    with pytest.raises(ValueError, match="where it lies"):
        scaler.expected_error(N, 2)
    fitted = scaler.fit(X)
    stated = np.sqrt(np.mean(fitted.mean_std_error_**2))
    for like in (X[:500], fitted):
        assert scaler.expected_error(N, 2, like=like) == pytest.approx(stated, rel=0.1)
    with pytest.raises(ValueError, match="like must be given, as public rows"):
        DPStandardScaler(**options(A, delta)).expected_error(N, 2, like=fitted)
