"""Answers as numbers: intervals cover, and arithmetic keeps an error only where it has one."""

from __future__ import annotations

import copy
import json
import math
import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import norm
from sklearn.dummy import DummyClassifier
from sklearn.metrics import make_scorer
from sklearn.model_selection import cross_val_score

import skdp
from skdp import PrivacyBudget, metrics, statistics
from skdp.confidence import Source
from skdp.statistics import Released
from tests.folding import each

X = np.random.default_rng(0).normal(size=(500, 3))
A = {"budget": PrivacyBudget(1e6, 0.5, adjacency="add_or_remove_one")}


@pytest.fixture
def two(system_noise):
    ask = {"bounds": (-5, 5), "epsilon": 1.0, "n_rows": "public"}
    return statistics.mean(X, **ask), statistics.mean(X, **ask)


@each("level", [0.5, 0.9, 0.95, 0.99, 0.999, 0.99999])
@each("epsilon", [0.01, 0.1, 1.0, 2.0, 4.0, 6.0, 10.0, 20.0])
def test_the_interval_of_a_count_covers_by_its_exact_distribution(epsilon, level):
    count = statistics.count(X, epsilon=epsilon, delta=0.0, **A)
    low, high = count.interval(level)
    half = math.floor((float(high) - float(low)) / 2 + 1e-9)
    p = math.exp(-epsilon)
    beyond = 2 * p ** (half + 1) / (1 + p)
    assert beyond <= 1 - level
    # And it is not much wider than it has to be: 2 whole numbers, or half as wide again.
    least = max(math.ceil(math.log((1 - level) * (1 + p) / 2) / -epsilon) - 1, 0)
    assert half <= max(1.5 * least + 1, least + 2)


def test_the_interval_of_gaussian_noise_and_of_sums_of_laplace_noise_covers():
    # One noise is `share` of the variance of a sum of two, by numerical convolution of densities.
    x = np.linspace(-60, 60, 24_001)
    step = x[1] - x[0]
    for share in (1.0, 0.9, 0.7, 0.5):
        scales = np.sqrt(np.array([share, 1 - share]) / 2)
        density = np.exp(-np.abs(x) / scales[0]) / (2 * scales[0])
        if share < 1:
            other = np.exp(-np.abs(x) / scales[1]) / (2 * scales[1])
            density = np.convolve(density, other, mode="same") * step
        for level in (0.5, 0.68, 0.8, 0.9, 0.95, 0.99, 0.999):
            half = Released(np.array(0.5), np.array(1.0), None).interval(level)[1] - 0.5
            assert density[np.abs(x) <= half].sum() * step >= level - 1e-3
            assert half >= norm.ppf(0.5 + level / 2) - 1e-9


def test_ends_of_a_number_are_plain_floats():
    one = statistics.mean(X[:, 0], bounds=(-5, 5), intervals=True)
    for answer in (one, one + 1.0):
        assert [type(end) for end in answer.interval()] == [float, float]
    low, high = one.population_interval()
    assert repr((low, high)) == f"({low}, {high})"
    assert statistics.mean(X, bounds=(-5, 5)).interval()[0].shape == (3,)


@pytest.mark.statistical
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_intervals_of_means_cover(system_noise, delta):
    ask = {"bounds": (-5, 5), "epsilon": 0.5, "delta": delta, "n_rows": "public"}
    truth, inside, runs = X.mean(axis=0), 0, 1000
    for _ in range(runs):
        low, high = statistics.mean(X, **ask).interval(0.9)
        inside += np.count_nonzero((low <= truth) & (truth <= high))
    # Three entries a run, at most wholly dependent: 6 standard errors of 1000 runs below 0.9.
    assert inside / (3 * runs) > 0.9 - 6 * math.sqrt(0.09 / runs)


def test_multiples_and_sums_with_public_numbers(two):
    a, _ = two
    for made, value, std in (
        (a * 3, a.value * 3, a.std * 3),
        (-2 * a, a.value * -2, a.std * 2),
        (a / 4, a.value / 4, a.std / 4),
        (a + 1, a.value + 1, a.std),
        (10 - a, 10 - a.value, a.std),
        (a - np.array([1, 2, 3]), a.value - [1, 2, 3], a.std),
        (np.array([1.0, 2, 3]) * a, a.value * [1, 2, 3], a.std * [1, 2, 3]),
        (np.float64(2) * a, a.value * 2, a.std * 2),
        (-a, -a.value, a.std),
    ):
        assert isinstance(made, Released)
        np.testing.assert_allclose(made.value, value)
        np.testing.assert_allclose(made.std, std)
        assert made.privacy is a.privacy
        assert made.bounds is None


SUMS = {
    "difference": lambda a, b: a - b,
    "of entries": lambda a, b: a.sum() + b[0],
    "same release": lambda a, b: 2 * a - a / 2 + (a + b) - b,
    "by axis": lambda a, b: (a[:, None] * [[1.0, 2.0], [3.0, 4.0], [0.0, 5.0]]).sum(axis=0),
    "contrast": lambda a, b: a @ np.array([1.0, -2.0, 1.0]) - b.mean(),
    "broadcast": lambda a, b: a[::-1, None] + b[None, [0, 2]],
    "masked": lambda a, b: a[np.array([True, False, True])] - b[2],
    "nothing": lambda a, b: (a - a).sum() + 3.0,
}


@each("name", list(SUMS))
def test_errors_of_sums_are_those_of_their_covariance_matrix(name):
    # The matrix is applied to what the same expression makes of each unit vector.
    g = np.random.default_rng(1)
    parts = [[g.uniform(1, 2, 3) * size for size in (1.0, 0.5, 0.3)] for _ in range(2)]
    answers = []
    for noise, shared, clipping in parts:
        own = {"shared": shared, "clipping": clipping, "uncorrelated": True}
        std = np.sqrt(noise**2 + shared**2 + clipping**2)
        errors = Source.of_session(None, noise, **own)
        answers.append(Released(g.normal(size=3), std, None, errors=errors))
    made = SUMS[name](*answers)
    origin = SUMS[name](np.zeros(3), np.zeros(3))
    rows = [SUMS[name](*unit) - origin for unit in np.eye(6).reshape(6, 2, 3)]
    factors = np.reshape(rows, (6, -1)).T
    square = sum(
        np.square(f * noise).sum(axis=1) + (f @ shared) ** 2
        for f, (noise, shared, _) in zip((factors[:, :3], factors[:, 3:]), parts, strict=True)
    )
    clipping = np.abs(factors) @ np.concatenate([part[2] for part in parts])
    np.testing.assert_allclose(np.ravel(made.std), np.sqrt(square + clipping**2), atol=1e-12)
    np.testing.assert_allclose(np.asarray(made), SUMS[name](*map(np.asarray, answers)))


def test_two_answers(two):
    a, b = two
    np.testing.assert_allclose((a - b).std, np.sqrt(2) * a.std)
    np.testing.assert_allclose((a + b).value, a.value + b.value)
    assert (a + b).privacy == (a.privacy, b.privacy)
    far = statistics.mean(X + 4, bounds=(-5, 5))  # with the noise of one number of rows
    assert far.sum().std > 1.1 * np.linalg.norm(far.std)
    assert far[0] - far[1] < far.sum() and (far[0] - far[1]).std < np.linalg.norm(far[:2].std)
    variances = statistics.var(X, bounds=(-5, 5))
    alone = Released(a.value, a.std, a.privacy)  # nobody says what else has its noise
    for made in (a * b, a / b, 1 / a, variances[0] + variances[1], alone + b, alone.sum()):
        assert np.isnan(made.std).all()
        assert not np.isnan(made.value).any()
    for made in (variances - variances, alone - alone, (a * b) - (a * b) * 0 - a + a):
        assert not made.std.any() or np.isnan(made.std).all()
    np.testing.assert_allclose((variances - statistics.var(X, bounds=(-5, 5))).std[0],
                               np.sqrt(2) * variances.std[0], rtol=0.2)  # fmt: skip


def test_a_release_is_known_again_in_copies(two):
    a, b = (pickle.loads(pickle.dumps(answer)) for answer in two)
    for again in (a, copy.copy(a), copy.deepcopy(a), pickle.loads(pickle.dumps(two[0] + 0))):
        assert not (again - two[0]).std.any()
        np.testing.assert_allclose((again + two[0]).std, 2 * a.std)
        assert (again + two[0]).privacy == a.privacy
        np.testing.assert_allclose((again - b).std, np.sqrt(2) * a.std)
        assert not again.value.flags.writeable


def test_errors_of_learned_bounds_may_have_one_sign():
    x = np.random.default_rng(0).exponential(size=20_000)
    # Of the same bits in every run: some bounds are learned so well that they leave no such error.
    with skdp.config_context(noise="system"):
        a, b = statistics.mean(x), statistics.mean(x)
    assert np.hypot(a.std, b.std) * 1.001 < (a + b).std <= (a.std + b.std) * 1.001
    assert (a - b).std == (a + b).std


def test_seeded_noise_may_repeat():
    ask = {"bounds": (-5, 5), "n_rows": "public", "random_state": 0}
    a, b = statistics.mean(X, **ask), statistics.mean(X, **ask)
    assert np.array_equal(a.value, b.value)
    assert np.isnan((a - b).std).all()
    assert not (a - a).std.any()


@pytest.mark.statistical
def test_the_error_of_a_sum_is_what_happens(system_noise):
    ask, high = {"bounds": (-5, 5), "n_rows": "public"}, np.clip(X + 4, -5, 5)
    differences, sums = [], []
    for _ in range(500):
        made = statistics.mean(X, **ask) - statistics.mean(X, **ask)
        differences.append(made.value / made.std)
        # Their number of rows is private, and its noise in all three means, which are far from 0.
        total = statistics.mean(high, bounds=(-5, 5)).sum()
        sums.append((total.value - high.mean(axis=0).sum()) / total.std)
    # 1,500 squares of sums of two Laplace noises, kurtosis 4.5: standard error 0.048 at most 0.084
    # where entries are wholly dependent; 5 of them. Without the shared noise sums have 1.7.
    assert abs(np.mean(np.square(differences)) - 1) < 0.42
    assert abs(np.mean(np.square(sums)) - 1) < 0.42


NUMBER = {
    "round": lambda m: (round(m, 2), round(m), round(m, -1), np.round(m, 1)),
    "conversion": lambda m: (int(m), float(m), bool(m), complex(m).real, abs(m), abs(-m)),
    "math": lambda m: (math.sqrt(m), math.floor(m), math.ceil(m), math.trunc(m), np.exp(m)),
    "comparison": lambda m: (m > 0.4, m <= m, m != 0.4, m == "a", m == m * 1, m in [1, m]),
    "order": lambda m: (sorted([m, 0.1, 2]), max(m, 0.3), sum([m, m]), [m, 3].index(m)),
    "arithmetic": lambda m: (m**2, m // 0.1, m % 0.2, 2**m, divmod(m, 0.2)[0], 1 / m, -m, +m),
    "hash": lambda m: (hash(m), len({m, float(m)}), {float(m): 1}[m], m == Fraction(float(m))),
    "json": lambda m: [float(x) for x in json.loads(json.dumps([float(m), m > 0.4, round(m, 3)]))],
}
ARRAY = {
    "comparison": lambda v: (v > 0.4, np.float64(0.4) < v, v == v[0], v != v, v[v > 0.4], v == "a"),
    "methods": lambda v: (v.round(1), v.min(), v.argmax(), v.tolist(), v.shape, v.T, v.clip(0, 1)),
    "functions": lambda v: (
        np.round(v, 1),
        np.std(v),
        np.max(v),
        np.concatenate([v, v]),
        np.abs(v),
    ),
    "sums": lambda v: (v.sum(), np.sum(v), v.mean(), np.mean(v, axis=0), v @ v, v.sum(axis=0)),
    "indexing": lambda v: (v[0], v[-2:], v[[0, 2]], v[None], v[...], list(v), len(v), v[0] in v),
    "tables": lambda v: (pd.Series(v), pd.DataFrame({"a": v, "b": v > 0})["a"] - v),
    "polars": lambda v: (pl.Series(np.asarray(v)), pl.Series([1.0, 2.0]) - v[0]),
}


@each("name", [*NUMBER, *ARRAY])
def test_a_number_behaves_as_a_float_and_an_array_as_an_array(name):
    answer = statistics.mean(X[:, :3] + 2, bounds=(-5, 5))
    use = ARRAY.get(name) or NUMBER[name]
    answer = answer if name in ARRAY else answer[1]
    assert type(answer.value) is (np.ndarray if name in ARRAY else float)
    for one, plain in zip(use(answer), use(answer.value), strict=True):
        np.testing.assert_allclose(np.asarray(one, float), np.asarray(plain, float))
        assert isinstance(one, type(plain) | Released)


def test_as_an_array(two):
    a, _ = two
    assert a[1].std == a.std[1]
    assert isinstance(np.sqrt(np.abs(a)), np.ndarray)
    assert f"{a[0]:.3f}" == f"{a.value[0]:.3f} ± {a.std[0]:.3f}"
    assert f"{a:.3f}" == f"[{', '.join(f'{one:.3f}' for one in a)}]" and str(a[0]) == f"{a[0]}"
    assert f"{Released(1234.5678, 0.01234, None)}" == "1234.568 ± 0.012"
    assert f"{Released(2.0, np.nan, None)} {Released(2.0, 0, None)}" == "2.0 ± ? 2.0 ± 0.0"
    with pytest.raises(TypeError):
        a + "1"
    for refused in (hash, iter, len):
        with pytest.raises(TypeError):
            refused(a if refused is hash else a[0])
    with pytest.raises(ValueError, match="ambiguous"):
        bool(a)
    with pytest.raises(ValueError, match="level must be"):
        a.interval(1.0)
    assert a._repr_html_().count("<tr>") == 4
    assert not a.value.flags.writeable
    assert not (a + 1).value.flags.writeable
    changed = a
    changed += 1
    np.testing.assert_array_equal(changed, a.value + 1)


def test_a_released_score_is_a_score():
    labels = {"labels": [0, 1], "epsilon": 50.0}
    scorer = make_scorer(metrics.accuracy_score, **labels)
    found = cross_val_score(DummyClassifier(), X, np.arange(500) % 4 > 0, scoring=scorer, cv=2)
    np.testing.assert_allclose(found, 0.75, atol=0.05)


def test_to_frame(two):
    frame = two[0].to_frame(0.9)
    low, high = two[0].interval(0.9)
    assert list(frame.columns) == ["value", "std", "low", "high"]
    np.testing.assert_array_equal(frame["low"], low)
    np.testing.assert_array_equal(frame["high"], high)
    assert two[0].to_dict(0.9) == frame.to_dict("list")
    assert json.loads(json.dumps(two[0][0].to_dict(0.9))) == frame.iloc[0].to_dict()


def test_what_has_no_error_has_no_interval():
    median = statistics.median(X, bounds=(-5, 5))
    low, high = median.interval()
    assert np.isnan(low).all()
    assert np.isnan(high).all()
    exact = statistics.count(X, n_rows="public")
    assert [float(side) for side in exact.interval()] == [500, 500]


def test_notes_say_what_else_there_is_to_know():
    ages = np.arange(2000) % 70 + 18.0
    median = statistics.median(ages, bounds=(0, 120))
    assert np.isnan(median.std) and "intervals=True" in median.note and median.note in repr(median)
    stated, _ = statistics.histogram(ages, 3, bounds=(0, 120))
    learned, _ = statistics.histogram(ages, 3)
    assert not stated.note and "in no cell" in learned.note
