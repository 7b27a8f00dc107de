"""DPGroupBy: containers, keys, bad input before any charge, replay, coverage of its intervals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import binom
from sklearn.base import clone

from skdp import PrivacyBudget
from skdp.aggregation import DPGroupBy
from skdp.core.transcript import record, replay
from skdp.exceptions import BudgetExceededError
from skdp.tabular import check_grouped
from skdp.tabular.contributions import KeyTerm
from tests.folding import each

duckdb = pytest.importorskip("duckdb")

RELATIONS = ("add_or_remove_one", "replace_one")
PAGES = ["about", "faq", "home"]


def visits(seed=0, users=3000, rows=12_000):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "user": rng.integers(0, users, rows),
            "page": rng.choice([*PAGES, "rare"], rows, p=[0.3, 0.2, 0.4999, 0.0001]),
            "seconds": np.where(rng.random(rows) < 0.05, np.nan, rng.gamma(2.0, 10.0, rows)),
        }
    )


SPEC = {
    "visits": "count",
    "users": "distinct_units",
    "total": ("sum", "seconds"),
    "mean": ("mean", "seconds", (0, 60)),
    "spread": ("std", "seconds", (0, 60)),
    "variance": ("variance", "seconds", (0, 60)),
    "median": ("quantile", "seconds", 0.5),
    "hist": ("histogram", "seconds", [0, 10, 60]),
}


def make(relation="add_or_remove_one", budget=None, **parameters):
    budget = budget or PrivacyBudget(100, 0.5, adjacency=relation, unit="user")
    parameters = {"epsilon": 20.0, "bounds": {"seconds": (0, 60)}, "budget": budget, **parameters}
    return DPGroupBy("page", "user", **parameters)


@each("relation", RELATIONS)
@each("parameters", [{}, {"keys": PAGES}, {"keys": PAGES, "delta": 0.0}])
def test_everything_near_the_truth(relation, parameters):
    table = visits()
    fitted = make(relation, **parameters).agg(**SPEC).fit(table)
    out = fitted.table_.set_index("page")
    true = table.groupby("page").seconds.agg(["size", "mean", "std"])
    assert fitted.keys_ == PAGES
    for page in PAGES:
        row = out.loc[page]
        assert abs(row["visits"] / true.loc[page, "size"] - 1) < 0.7
        assert row["mean_low"] <= row["mean"] <= row["mean_high"]
        assert row["mean_population_low"] <= row["mean_low"] + 1e-9
        assert abs(row["mean"] - true.loc[page, "mean"]) < 12
        assert row["median_low"] <= row["median"] <= row["median_high"]
        assert row["spread_low"] <= row["spread"] <= row["spread_high"]
    assert set(fitted.left_out_) == {
        f"{a}{b}" for a in ("keys", "rows") for b in ("", "_low", "_high")
    }
    assert fitted.privacy_.unit == "user"


@each("kind", ["pandas", "polars", "pyarrow", "dict", "duckdb", "parquet"])
def test_every_container(kind, tmp_path):
    table = visits()
    path = tmp_path / "visits.parquet"
    given = {
        "pandas": lambda: table,
        "polars": lambda: pl.from_pandas(table),
        "pyarrow": lambda: pa.Table.from_pandas(table),
        "dict": lambda: {name: table[name].to_numpy() for name in table},
        "duckdb": lambda: duckdb.from_arrow(pa.Table.from_pandas(table)),
        "parquet": lambda: (table.to_parquet(path), str(path))[1],
    }[kind]()
    fitted = make(max_keys_per_unit=3, max_rows_per_unit=4).agg(visits="count", m=SPEC["mean"])
    out = fitted.fit(given).table_
    if kind not in ("duckdb", "parquet"):
        assert type(out) is type(given)
    pages = list(out["page"].to_pylist() if kind == "pyarrow" else out["page"])
    assert pages == PAGES
    assert sorted(fitted.to_dict()) == PAGES


def test_several_key_columns_and_other_types():
    rng = np.random.default_rng(1)
    table = pd.DataFrame(
        {
            "user": rng.integers(0, 2000, 8000).astype(str),
            "day": pd.to_datetime("2026-01-01") + pd.to_timedelta(rng.integers(0, 2, 8000), "D"),
            "level": rng.integers(0, 2, 8000),
        }
    )
    budget = PrivacyBudget(100, 0.1, adjacency="add_or_remove_one", unit="user")
    for given in (table, duckdb.from_arrow(pa.Table.from_pandas(table))):
        fitted = DPGroupBy(["day", "level"], "user", epsilon=10, budget=budget).agg(n="count")
        assert len(fitted.fit(given).keys_) == 4
        assert list(fitted.table_)[:2] == ["day", "level"]


def test_keys_alone_and_stated_keys():
    table = visits()
    alone = make(max_keys_per_unit=3).fit(table)
    assert list(alone.table_.columns) == ["page"] and alone.keys_ == PAGES
    stated = make(keys=["home", "no such page"]).agg(visits="count").fit(table)
    assert stated.keys_ == ["home", "no such page"]
    assert abs(stated.table_["visits"][1]) < 200


def test_the_price_is_what_is_charged():
    for parameters in ({}, {"keys": PAGES}, {"keys": PAGES, "delta": 0.0}):
        budget = PrivacyBudget(2, 1e-3, adjacency="add_or_remove_one", unit="user")
        aggregation = make(budget=budget, epsilon=1.5, **parameters).agg(**SPEC)
        cost = aggregation.privacy_cost()
        aggregation.fit(visits())
        spent = budget.spent
        assert (spent.epsilon, spent.delta) == (cost.epsilon, cost.delta)
        assert sum(one.share for one in aggregation.privacy_.releases) <= 1 + 1e-9
        with pytest.raises(BudgetExceededError):
            aggregation.fit(visits())


def test_expected_error_is_near_what_a_fit_shows():
    caps = {"max_keys_per_unit": 3, "max_rows_per_unit": 4}
    for delta in (0.0, 1e-6):
        aggregation = make(keys=PAGES, delta=delta, **caps).agg(**SPEC)
        expected = aggregation.expected_error(rows_per_key=4000)
        out = aggregation.fit(visits()).table_
        for name in ("visits", "users", "mean", "total"):
            shown = (out[f"{name}_high"] - out[f"{name}_low"]).to_numpy()[2] / 2
            assert 0.6 < shown / expected[name] < 1.7
    with pytest.raises(ValueError, match="max_keys_per_unit"):
        make().agg(visits="count").expected_error()
    with pytest.raises(ValueError, match="rows_per_key"):
        make(**caps).agg(m=SPEC["mean"]).expected_error()


def test_clone_and_parameters():
    aggregation = make().agg(visits="count")
    assert clone(aggregation).get_params()["aggregates"] == {"visits": "count"}


@pytest.mark.parametrize("relation", RELATIONS)
def test_it_looks_at_its_releases_only(relation):
    """Replayed on another table, everything that is fitted is the same."""
    first, second = visits(0), visits(7, users=50, rows=400)
    aggregation = make(relation).agg(**SPEC)
    with record() as transcript:
        shown = aggregation.fit(first)
        before = shown.table_, shown.keys_, shown.bounds_, shown.left_out_
        caps = shown.max_keys_per_unit_, shown.max_rows_per_unit_
    again = make(relation).agg(**SPEC)
    with replay(transcript):
        again.fit(second)
    pd.testing.assert_frame_equal(again.table_, before[0])
    assert (again.keys_, again.bounds_, again.left_out_) == before[1:]
    assert (again.max_keys_per_unit_, again.max_rows_per_unit_) == caps


# --- bad input ------------------------------------------------------------------------------------


def changed(**columns):
    return visits(rows=200).assign(**columns)


SECRET = "Mr. Secret"
BAD = [
    (changed(seconds=[SECRET] * 200), {}, "column 'seconds' must hold numbers"),
    (visits(rows=200).drop(columns="seconds"), {}, "no column 'seconds'; it has 'user"),
    (visits(rows=200).drop(columns="user"), {}, "no column 'user'"),
    (visits(rows=200), {"by": "user"}, "'user' is the unit"),
    (visits(rows=200), {"bounds": {"seconds": (60, 0)}}, "'seconds' must be finite, the lower"),
    (visits(rows=200), {"keys": []}, "at least one"),
    (visits(rows=200), {"keys": ["a", "a"]}, "no key twice"),
    (visits(rows=200), {"delta": 0.0}, "private keys need delta"),
    (visits(rows=200), {"delta": 1e-50}, "private keys need delta of 1e-29 or more"),
    (visits(rows=200), {"max_keys_per_unit": 0}, "max_keys_per_unit"),
    (visits(rows=200), {"unit": "page_id"}, "unit"),
    (visits(rows=200), {"aggregates": {"x": "mode"}}, "x: an aggregate must be one of"),
    (visits(rows=200), {"aggregates": ["count"]}, "aggregates must be a dict"),
    (visits(rows=200), {"aggregates": {"page": "count"}}, "'page' of the result .* key column"),
    (
        visits(rows=200),
        {"aggregates": {"n": "count", "n_low": "distinct_units"}},
        "n_low: its column 'n_low' of the result would replace that of aggregate 'n'",
    ),
    (visits(rows=200), {"bounds": (0, 60)}, "bounds must be 'private' or a dict"),
    (visits(rows=200), {"bounds": np.array([0, 60])}, "bounds must be 'private' or a dict"),
    (visits(rows=200), {"bounds": {"seconds": "05"}}, r"two numbers, \(low, high\)"),
    (visits(rows=200), {"aggregates": {"x": ("mean", "user")}}, "'user' is the unit"),
    (visits(rows=200), {"aggregates": {"x": ("quantile", "seconds", 2)}}, "q between"),
]


@each(("table", "parameters", "text"), BAD, ids=range(len(BAD)))
def test_bad_input_is_named_before_any_charge(table, parameters, text):
    budget = PrivacyBudget(100, 0.5, adjacency="add_or_remove_one", unit="user")
    aggregation = make(budget=budget).agg(m=("mean", "seconds"), n="count")
    aggregation.set_params(**parameters)
    with pytest.raises((TypeError, ValueError), match=text) as caught:
        aggregation.fit(table)
    assert SECRET not in str(caught.value) and caught.value.__cause__ is None
    assert budget.spent.epsilon == 0 and not hasattr(aggregation, "table_")


@each(
    ("given", "text"),
    [
        (
            "counts",
            "'count' and 'distinct_units', or a tuple of one of 'median', 'sum'.*got 'counts'",
        ),
        (("mode", "seconds"), r"got \('mode', 'seconds'\)"),
        (("seconds", "mode"), r"got \('seconds', 'mode'\)"),
        (("seconds", "quantile"), "q between"),
        (("median", "seconds", 0.5), r"two numbers, \(low, high\)"),
        (max, "got <built-in function max>"),
        (None, "got None"),
        (("count", "seconds"), "'count' takes no column: write n='count'"),
        ("sum", "'sum' needs the name of a column"),
        (("sum", "seconds", 0, 60), r"two numbers, \(low, high\)"),
        (("sum", "seconds", (0, 60), 1), "'sum' takes no more than"),
        (("quantile", "seconds", 0.5, (0, 60), 1), r"column, q, \(low, high\)\)"),
        (("histogram", "seconds", 10), "needs edges, a sequence of two numbers"),
    ],
)
def test_what_is_no_aggregate_is_refused_where_it_is_stated(given, text):
    with pytest.raises((TypeError, ValueError), match=f"^n: .*{text}"):
        make().agg(n=given)


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("SELECT 1 AS \"user\", 'a' AS page, 'x' AS seconds", "'seconds' must hold numbers"),
        ('SELECT 1 AS "user", [1] AS page, 1.0 AS seconds', "'page' cannot be of its type"),
        ('SELECT 1 AS "user", 1 AS page, 1.0 AS seconds', "'page' must be of its type"),
    ],
)
def test_bad_input_in_duckdb(sql, text):
    budget = PrivacyBudget(100, 0.5, adjacency="add_or_remove_one", unit="user")
    aggregation = make(budget=budget, keys=PAGES).agg(m=("mean", "seconds"))
    with pytest.raises((TypeError, ValueError), match=text):
        aggregation.fit(duckdb.sql(sql))
    assert budget.spent.epsilon == 0


def test_an_empty_table_is_refused_where_its_length_is_public():
    empty = visits().iloc[:0]
    with pytest.raises(ValueError, match="no rows"):
        rows = PrivacyBudget(100, 0.5)  # under "replace_one": one row
        make(budget=rows).set_params(unit=None).agg(n="count").fit(empty)
    assert len(make(keys=PAGES).agg(n="count").fit(empty).table_) == 3


@pytest.mark.parametrize(
    ("unit", "text"), [(None, "no budget of|protects one row"), ("id", "'id'")]
)
def test_another_unit_than_the_budgets_is_refused(unit, text):
    budget = PrivacyBudget(100, 0.5, unit=unit)
    with pytest.raises(ValueError, match=text):
        make(budget=budget).agg(n="count").fit(visits())
    assert budget.spent.epsilon == 0


def test_access_logs():
    """The example of Wilson et al.: visits by browser; a rare browser stays out."""
    rng = np.random.default_rng(0)
    agents = np.array(["Mozilla/5.0", "AppleWebKit/537.36", "Chrome/77.0"])
    users = rng.integers(0, 2000, 7009)
    log = pd.DataFrame({"uid": users, "browser_agent": agents[users % 3]})
    log = pd.concat([log, pd.DataFrame({"uid": [9999], "browser_agent": ["Mozilla/1.22"]})])
    budget = PrivacyBudget(1, 1e-5, adjacency="add_or_remove_one", unit="uid")
    by = DPGroupBy("browser_agent", "uid", max_keys_per_unit=1, max_rows_per_unit=8, budget=budget)
    shown = by.agg(visits="count").fit(log).to_dict()
    assert sorted(shown) == sorted(agents)  # the odds of another outcome are below 1e-5
    true = log.browser_agent.value_counts()
    assert all(abs(shown[name]["visits"] - true[name]) < 400 for name in agents)


# --- coverage -------------------------------------------------------------------------------------

K, CAP = 8, 3


def coverage_table():
    rng = np.random.default_rng(5)
    k = np.minimum(rng.geometric(0.3, 4000) - 1, K - 1)
    return pd.DataFrame({"u": rng.integers(0, 700, 4000), "k": k, "v": rng.normal(k, 8)})


def truth(table):
    """Return the aggregates of rows as bounded and clipped: each weighs min(1, CAP / m)."""
    table = table.assign(w=np.minimum(1, CAP / table.groupby(["u", "k"]).v.transform("size")))
    v = table.v.clip(-20, 40)
    groups = [(v[table.k == k], table.w[table.k == k]) for k in range(K)]
    mean = np.array([np.average(a, weights=w) for a, w in groups])
    variance = np.array(
        [np.average((a - m) ** 2, weights=w) for (a, w), m in zip(groups, mean, strict=True)]
    )

    def quantile(a, w, q):
        order = np.argsort(a.to_numpy())
        reached = np.cumsum(w.to_numpy()[order])
        return a.to_numpy()[order][np.searchsorted(reached, q * reached[-1])]

    terms = [KeyTerm("rows"), KeyTerm("units"), KeyTerm("sum", "v", -20, 40, zero=True)]
    rows = check_grouped(table, by=["k"], unit="u", columns=["v"])
    exact = rows.totals(list(range(K)), terms, K, CAP).astype(float)
    return {
        "count": exact[:, 0],
        "units": exact[:, 1],
        "sum": exact[:, 2] * terms[2].grid,
        "mean": mean,
        "variance": variance,
        "std": np.sqrt(variance),
        "q": np.array([quantile(a, w, 0.7) for a, w in groups]),
    }


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("epsilon", "delta", "relation"), [(40.0, 0.0, RELATIONS[0]), (10.0, 1e-6, RELATIONS[1])]
)
def test_intervals_hold_what_they_say(epsilon, delta, relation):
    """Of 60 fits with 8 keys each: at least what 94.5% leaves, but for a chance of 1e-7."""
    table, runs = coverage_table(), 60
    value = ("v", (-20, 40))
    spec = {
        "count": "count", "units": "distinct_units", "q": ("quantile", "v", 0.7, (-20, 40)),
        **{kind: (kind, *value) for kind in ("sum", "mean", "variance", "std")},
    }  # fmt: skip
    true = truth(table)
    held = dict.fromkeys(true, 0)
    for _ in range(runs):
        budget = PrivacyBudget(epsilon, 0.1, adjacency=relation, unit="u")
        by = DPGroupBy(
            "k", "u", epsilon=epsilon, delta=delta, keys=list(range(K)), max_keys_per_unit=K,
            max_rows_per_unit=CAP, budget=budget,
        )  # fmt: skip
        out = by.agg(**spec).fit(table).table_
        for name, exact in true.items():
            low, high = (out[f"{name}_{end}"].to_numpy() for end in ("low", "high"))
            # Quotients of integers: a mean of rounded values is off by less than 1e-6.
            held[name] += int(((low <= exact + 1e-6) & (exact <= high + 1e-6)).sum())
    for name, times in held.items():
        assert times >= binom.ppf(1e-7, runs * K, 0.945), name
    for name in ("count", "units", "sum", "mean"):  # and not wildly more often
        assert held[name] <= binom.isf(1e-7, runs * K, 0.965), name


@pytest.mark.parametrize("caps", [{}, {"max_keys_per_unit": 1, "max_rows_per_unit": 1}])
def test_a_certificate_shows_the_share_of_the_keys_beside_their_delta(caps):
    fitted = make(**caps).agg(visits="count").fit(visits(users=900, rows=1800))
    of_keys = [one for one in fitted.privacy_.releases if one.delta]
    lines = [one for one in str(fitted.privacy_).split("\n") if "%, delta" in one]
    shares = [float(line.split("%, delta")[0].split()[-1]) for line in lines]
    assert shares == [pytest.approx(100 * one.share, abs=0.05) for one in of_keys]
    assert sum(shares) > 40
    shown = fitted.privacy_._repr_html_()
    assert all(f"{one.share:.1%}, delta {one.delta:.4g}<" in shown for one in of_keys)


@pytest.mark.parametrize("by", [["k"], ["k", "j"]])
def test_an_integer_of_ten_thousand_digits_is_a_key_like_others(by):
    """Its text is not asked for: one cell would decide whether a fit that is paid for fails."""
    n, spent = 300, []
    for cell in (7, 10**10_000):
        table = {"u": np.arange(n), "k": [1] * (n - 1) + [cell], "j": ["x"] * n}
        budget = PrivacyBudget(5.0, 1e-5, unit="u", adjacency="add_or_remove_one")
        made = DPGroupBy(
            by=by, unit="u", aggregates={"n": "count"}, epsilon=2.0, delta=1e-6, budget=budget
        ).fit(table)
        assert len(made.table_["n"]) == 1
        spent.append(budget.spent.epsilon)
    assert spent == [2.0, 2.0]
