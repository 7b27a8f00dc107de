"""`describe`: the numbers of pandas without noise, errors that cover, refusals before a charge."""

from __future__ import annotations

import copy
import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import skdp
from skdp import PrivacyBudget
from tests.folding import each
from tests.statistics.calls import ADJACENCIES, UNMETERED

N = 3000


def mixed(rng, n=N):
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "spent": np.where(rng.random(n) < 0.4, 0.0, rng.lognormal(3, 1, n)),
            "height": np.where(rng.random(n) < 0.1, np.nan, rng.normal(170, 10, n)),
            "city": rng.choice(["Rome", "Oslo", None], n, p=[0.6, 0.3, 0.1]),
            "member": rng.random(n) < 0.3,
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
        }
    )


@pytest.fixture
def table():
    return mixed(np.random.default_rng(0))


@each("adjacency", ADJACENCIES)
def test_with_little_noise_it_says_what_pandas_says(adjacency):
    table = mixed(np.random.default_rng(0))
    options = {"epsilon": 200.0, "delta": 1e-6, "budget": UNMETERED[adjacency]}
    bounds = {"age": (0, 120), "spent": (0, 1000), "height": (100, 250)}
    look = skdp.describe(table, bounds=bounds, **options)
    frame, expected = look.to_frame(), table.describe(include="all")
    numbers = ["age", "spent", "height"]
    for name in ("mean", "std", "25%", "50%", "75%"):
        tolerance = 0.1 if name == "std" else 5e-2  # few rows spend far more
        got, wanted = (t.loc[name, numbers].astype(float) for t in (frame, expected))
        np.testing.assert_allclose(got, wanted, rtol=tolerance)
    np.testing.assert_allclose(frame.loc["missing"].astype(float), table.isna().mean(), atol=2e-3)
    zeros = frame.loc["zeros", numbers].astype(float)
    np.testing.assert_allclose(
        zeros, (table[numbers] == 0).sum() / table[numbers].count(), atol=2e-3
    )
    for label in ("city", "member"):
        counts, n = look.counts[label], table[label].value_counts(dropna=False)
        known = dict(zip(counts.labels["category"], counts.value, strict=True))
        assert {k: round(v) for k, v in known.items() if k is not None} == {
            k: v for k, v in n.items() if k is not None and k == k
        }
        assert frame.loc["top", label] == expected.loc["top", label]
    assert abs(frame.loc["50%", "day"] - table["day"].median()) < pd.Timedelta(days=1)
    assert abs(frame.loc["std", "day"] - table["day"].std()) < pd.Timedelta(days=30)
    assert pd.Timedelta(0) < look.to_frame(std=True).loc["mean", "day"] < pd.Timedelta(days=9)
    assert look.bounds["age"] == (0.0, 120.0)
    assert look.bounds["day"][0] < 18262 < look.bounds["day"][1]  # 2020-01-01, in days


def test_learned_bounds_carry_their_risk_into_later_errors():
    """With little noise, what the bounds clip is most of the error of a mean.

    Of 20 fits at most 4 may be off by more than two errors: with plain bounds about 13 are.
    """
    rng, off, plain = np.random.default_rng(0), [], []
    for i in range(20):
        pay = pd.DataFrame({"pay": rng.lognormal(8, 1.5, 5000), "age": rng.integers(18, 90, 5000)})
        bounds = skdp.describe(pay, n_rows="public", random_state=i).bounds
        exact = pay["pay"].mean()
        later = [
            skdp.statistics.mean(pay["pay"], bounds=bounds["pay"], epsilon=20.0),
            skdp.statistics.mean(pay, bounds=bounds, epsilon=20.0)[0],
        ]
        scaler = clone(skdp.DPStandardScaler(bounds=pickle.loads(pickle.dumps(bounds)), epsilon=20))
        scaler.fit(pay)
        pairs = [(m.value, m.std) for m in later] + [(scaler.mean_[0], scaler.mean_std_error_[0])]
        again = skdp.describe(pay, bounds=copy.deepcopy(bounds), epsilon=20.0).numbers["mean"][0]
        pairs.append((again.value, again.std))
        off.append([abs(value - exact) > 2.0 * std for value, std in pairs])
        stated = skdp.statistics.mean(pay["pay"], bounds=tuple(bounds["pay"]), epsilon=20.0)
        plain.append(abs(stated.value - exact) > 2.0 * stated.std)
    assert (np.sum(off, axis=0) <= 4).all() and sum(plain) > 6
    assert bounds == {name: tuple(pair) for name, pair in bounds.items()}


def test_a_model_takes_the_risk_of_columns_and_target():
    rng = np.random.default_rng(0)
    x = pd.DataFrame({"a": rng.exponential(3, 20_000), "b": rng.normal(0, 1, 20_000)})
    y = x["a"] + x["b"] + rng.normal(0, 1, 20_000)
    bounds = skdp.describe(x.assign(y=y), epsilon=4.0, delta=1e-6).bounds
    errors = {}
    for name, kept in (("learned", lambda pair: pair), ("stated", tuple)):
        pairs = {label: kept(pair) for label, pair in bounds.items()}
        target = pairs.pop("y")
        model = skdp.DPRidge(bounds=pairs, target_bounds=target, epsilon=9.0, random_state=0)
        with skdp.config_context(noise="seeded"):
            errors[name] = model.fit(x, y).summary().std_error
    assert (errors["learned"] > errors["stated"]).all()


def test_what_it_learned_serves_other_calls(table):
    look = skdp.describe(table, epsilon=20.0, delta=1e-6)
    numbers = table[["age", "spent"]]
    scaler = skdp.DPStandardScaler(
        bounds={name: look.bounds[name] for name in numbers}, epsilon=9.0
    )
    assert abs(scaler.fit(numbers).mean_[0] - table["age"].mean()) < 5
    synthetic = skdp.DPMarginalSynthesizer(domain=look.domain, epsilon=9.0).fit(table)
    assert list(synthetic.database_.columns) == list(table.columns)


def test_its_errors_cover():
    """Of more than 400 numbers at most 15 may be off by more than three errors.

    Laplace noise is in 1.4%: more than 15 of 480 with a probability of .002. With errors of half
    the size 12% are.
    """
    rng, off, wide = np.random.default_rng(1), [], []
    for i in range(60):
        table = mixed(rng, 4000)[["age", "height"]]
        look = skdp.describe(table, epsilon=20.0, bounds=(0, 300), random_state=i)
        for name, exact in (
            ("mean", table.mean()), ("std", table.std(ddof=0)),
            ("zeros", (table == 0).sum() / table.count()), ("missing", table.isna().mean()),
        ):  # fmt: skip
            answer = look.missing if name == "missing" else look.numbers[name]
            known = answer.std > 0
            away = np.abs(answer.value - exact.to_numpy())[known] / answer.std[known]
            off += (away > 3.0).tolist()
            wide += away.tolist()
    assert len(off) > 400
    assert sum(off) <= 15
    assert 0.4 < np.sqrt(np.mean(np.square(wide))) < 1.3  # and the errors are not far too wide


def test_its_numbers_can_be_added(table):
    look = skdp.describe(table[["age", "height"]], bounds=(0, 300), epsilon=5.0)
    means, spread = look.numbers["mean"], look.numbers["std"]
    total = means.sum()
    assert total.std == pytest.approx(np.hypot(*means.std))
    assert (means[0] - means[0]).std == 0.0
    # Both come from one release, and how their noise depends is not said.
    assert np.isnan((means[0] + spread[0]).std)


def test_refusals_come_before_the_charge(table):
    budget = PrivacyBudget(1.0)
    with pytest.raises(ValueError, match=r"categories of columns \['city'\]"):
        skdp.describe(table, budget=budget)
    with pytest.raises(ValueError, match="no columns of numbers"):
        skdp.describe(table, delta=1e-6, bounds={"city": (0, 1)}, budget=budget)
    with pytest.raises(ValueError, match="categories"):
        skdp.describe(table, categories="all", budget=budget)
    assert not budget.charges
    with pytest.raises(ValueError, match="n_rows"):
        skdp.describe(table, n_rows="public", groups=np.arange(N), epsilon=0.5)


def test_it_warns_where_rows_are_too_few():
    few = pd.DataFrame({"pay": np.random.default_rng(0).lognormal(8, 1, 200)})
    with pytest.warns(UserWarning, match="bounds of columns 'pay' may be far off"):
        look = skdp.describe(few, epsilon=0.5)
    assert np.isnan(look.numbers["mean"].std).all()
    with warnings.catch_warnings(action="error"):
        skdp.describe(few, epsilon=0.5, bounds=(0, 1e5))
    # The named product of rows and epsilon is enough, wherever the noise falls.
    with pytest.warns(UserWarning, match="hides columns 'pay': .* are about [0-9]") as caught:
        skdp.describe(few, epsilon=0.05, bounds=(0, 1e5))
    enough = 1.3 * float(str(caught[0].message).split()[-1]) / len(few)
    with warnings.catch_warnings(action="error"):
        skdp.describe(few, epsilon=enough, bounds=(0, 1e5))


def test_as_many_rows_as_it_asks_for_are_enough():
    rng = np.random.default_rng(0)
    with pytest.warns(UserWarning, match="rows are too few") as caught:
        skdp.describe(pd.DataFrame(rng.normal(size=(1500, 6))), epsilon=1.0, delta=0.0)
    rows = int(re.search(r"\(about ([0-9,]+)\)", str(caught[0].message))[1].replace(",", ""))
    with warnings.catch_warnings(action="ignore"):
        look = skdp.describe(pd.DataFrame(rng.normal(size=(rows, 6))), epsilon=1.0, delta=0.0)
    assert np.isnan(look.numbers["mean"].std).sum() <= 2  # half as many: all of them


def test_text_of_one_person_is_not_shown(table):
    table.loc[0, "city"] = "Atlantis"
    looks = [skdp.describe(table, epsilon=5.0, delta=1e-6) for _ in range(20)]
    shown = {c for look in looks for c in look.counts["city"].labels["category"]}
    assert "Atlantis" not in shown and "Rome" in shown  # shown with a probability below 20 delta
    assert "Atlantis" not in repr(looks[0].domain)


def test_one_charge_for_everything(table):
    budget = PrivacyBudget(1.0, 1e-5)
    skdp.describe(table, budget=budget, epsilon=0.5)
    (charge,) = budget.charges
    assert charge.estimator == "describe" and budget.spent.epsilon == 0.5


def test_the_page_escapes_what_users_name():
    table = pd.DataFrame({"<b>": np.arange(2000) % 7, "c": ["<i>x", "<i>x", "y", "z"] * 500})
    page = skdp.describe(table, delta=1e-6, epsilon=10.0).to_html()
    assert "<b>" not in page and "<i>" not in page
    assert "&lt;b&gt;" in page and "&lt;i&gt;x" in page
    assert page.count("<svg") == 2


def test_users_with_many_rows_are_protected_as_a_whole(table):
    look = skdp.describe(
        table, bounds={"age": (0, 120)}, groups=np.arange(N) // 3, epsilon=20.0, delta=1e-6
    )
    assert look.privacy.max_rows_per_unit is not None
    assert abs(look.numbers["mean"].value[0] - table["age"].mean()) < 5


@each("make", [np.asarray, list, pd.Series], ids=["array", "list", "series"])
def test_a_single_column(make):
    ages = np.random.default_rng(0).integers(18, 90, 4000)
    if make is list:
        pytest.importorskip("polars")
        import polars as pl

        make = pl.Series
    look = skdp.describe(make(ages), epsilon=5.0)
    assert abs(look.numbers["mean"].value[0] - ages.mean()) < 2
