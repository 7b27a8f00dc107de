"""Domains that nobody stated: what types say, what is learned at which price, what is refused."""

from __future__ import annotations

import datetime
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.tree import DecisionTreeClassifier

from skdp import DPTrainOnRelease, PrivacyBudget, config_context
from skdp.core import PrivateTable, open_session
from skdp.core.table import Stability
from skdp.queries import learn_domain
from skdp.queries.learned_domain import categories_of, edges_of
from skdp.synthetic import Bins, Domain, DPMarginalSynthesizer, MWEMReleaser, conjunctions
from skdp.tabular import ColumnPlan, check_uncoded, column_plans, table_schema
from tests.folding import each

N = 6000


def people(n=N, seed=0):
    """Return a table of all types that people have."""
    rng = np.random.default_rng(seed)
    days = np.datetime64("2020-01-01") + rng.integers(0, 700, n)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "city": np.where(np.arange(n) == 7, "Atlantis", rng.choice(["a", "b"], n)),
            "money": np.where(rng.random(n) < 0.8, 0.0, rng.lognormal(8, 1, n)),
            "left": rng.random(n) < 0.3,
            "day": days.astype("M8[us]"),
            "score": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
            "kind": pd.Categorical(rng.choice(["p", "q"], n), categories=["p", "q", "rare"]),
        }
    )


@pytest.fixture(scope="module")
def fitted():
    with config_context(noise="seeded"):
        return DPMarginalSynthesizer(epsilon=8.0, delta=1e-6, random_state=0).fit(people())


def test_no_domain_at_all(fitted):
    """Every column is learned, shown, and released in its own type."""
    columns, source = fitted.domain_.columns, fitted.domain_source_
    assert list(columns) == list(people().columns)
    assert columns["city"] == ["a", "b", "other"]  # one row alone does not show
    assert columns["kind"] == ["p", "q", "other"]
    assert columns["left"] == [False, True]
    assert source["left"] == "type"
    assert source["city"] == "selected categories"
    assert source["age"] == "learned numbers"
    age, money, score = (columns[name] for name in ("age", "money", "score"))
    assert age.integer
    assert age.edges[0] < 25
    assert age.edges[-1] > 80
    assert money.edges[0] <= 0.0
    assert score.missing
    assert not money.missing
    assert columns["day"].kind == "moment"
    table = fitted.database_
    assert [str(a)[:5] for a in table.dtypes] == [str(a)[:5] for a in people().dtypes]
    assert abs((table["money"] == 0.0).mean() - 0.8) < 0.1
    assert abs(table["score"].isna().mean() - 0.2) < 0.1
    assert abs((table["day"].dt.year == 2020).mean() - 366 / 700) < 0.15
    np.testing.assert_allclose(table["age"].mean(), 53.5, atol=6)


def test_the_price_is_that_which_is_told(fitted):
    cost = fitted.privacy_cost()
    assert (cost.epsilon, cost.delta, cost.separate_delta) == (8.0, 1e-6, 5e-7)
    assert fitted.privacy_.mu == cost.mu
    assert fitted.privacy_.delta == cost.delta
    assert sum(r.delta for r in fitted.privacy_.releases) <= 5e-7 * (1 + 1e-9)
    assert DPMarginalSynthesizer(delta=1e-6).privacy_cost() == DPMarginalSynthesizer(
        domain={"a": 2}, delta=1e-6
    ).privacy_cost(n_features=2)
    assert not DPMarginalSynthesizer(domain={"a": 2}, delta=1e-6).privacy_cost().separate_delta


def test_no_delta_for_text():
    budget = PrivacyBudget(2.0)
    with pytest.raises(ValueError, match=r"\['city', 'kind'\] are not stated.*delta=1e-6"):
        DPMarginalSynthesizer(budget=budget).fit(people(50))
    assert budget.spent.epsilon == 0
    stated = {"city": ["a", "b"], "kind": ["p", "q"], "age": (18, 90, 12)}
    with pytest.warns(UserWarning, match="may be far from their values"):
        made = DPMarginalSynthesizer(domain=stated, budget=budget).fit(people(500))
    assert made.domain_.columns["age"] == Bins.regular(18, 90, 12, integer=True)
    assert made.domain_source_["money"] == "learned numbers"
    assert budget.spent.epsilon == 1.0


@pytest.mark.parametrize("kind", ["pandas", "pyarrow"])
def test_categories_of_a_type_where_the_user_says_so(kind):
    table = people(300)[["kind", "left"]]
    if kind == "pyarrow":
        table = pa.Table.from_pandas(table)
    made = DPMarginalSynthesizer(categories="dtype").fit(table)
    assert made.domain_.column(0) == ["p", "q", "rare", None]
    assert set(made.domain_source_.values()) == {"type"}


def test_an_enumeration_is_public_and_polars_categories_are_no_list():
    table = pl.DataFrame({"a": ["x", "y"] * 50, "b": [True, None] * 50})
    typed = table.with_columns(pl.col("a").cast(pl.Enum(["x", "y", "z"])))
    made = MWEMReleaser(conjunctions(1)).fit(typed)
    assert made.domain_.columns == {"a": ["x", "y", "z", None], "b": [False, True, None]}
    with pytest.raises(ValueError, match="holds no list of its own; cast it to Enum"):
        DPMarginalSynthesizer(categories="dtype").fit(
            table.with_columns(pl.col("a").cast(pl.Categorical))
        )


def test_who_does_not_learn_says_so():
    with pytest.raises(ValueError, match=r"does not state \['age'\]"):
        MWEMReleaser(conjunctions(1)).fit(people(50)[["age", "left"]])


@pytest.mark.parametrize("container", ["frame", "array"])
def test_whole_numbers_stay_whole_where_the_domain_says_so(container):
    """Their range is learned; a column of floats with missing values says nothing of them."""
    rng = np.random.default_rng(0)
    age = np.where(rng.random(N) < 0.1, np.nan, rng.integers(18, 90, N))
    table = pd.DataFrame({"age": age, "flag": (rng.random(N) < 0.3) * 1.0, "x": rng.random(N)})
    stated = {"age": "integer", "flag": "integer"}
    if container == "array":
        table, stated = table.to_numpy(), {0: "integer", 1: "integer"}
    made = DPMarginalSynthesizer(domain=stated, epsilon=4.0, delta=1e-6, random_state=0).fit(table)
    assert list(made.domain_source_.values()) == ["learned numbers"] * 3
    age, flag, x = np.asarray(made.database_).T
    assert np.isnan(age).any()
    assert (age[~np.isnan(age)] % 1 == 0).all()
    assert (flag % 1 == 0).all()
    assert abs(np.mean(flag == 1.0) - 0.3) < 0.05
    assert not (x % 1 == 0).all()
    assert made.privacy_.delta == made.privacy_cost().delta
    assert made.domain_.column(0).integer


def test_who_cannot_be_whole_is_refused_for_free():
    budget = PrivacyBudget(1.0)
    for table, domain, match in (
        (pd.DataFrame({"a": ["x"] * 9}), {"a": "integer"}, "'a' is stated as 'integer', but its"),
        (np.zeros((9, 1)), ["integer"], r"column 0 is stated as 'integer', so its range must be"),
    ):
        with pytest.raises(TypeError, match=match):
            DPMarginalSynthesizer(domain=domain, budget=budget).fit(table)
    with pytest.raises(ValueError, match=r"does not state \['age'\]"):
        MWEMReleaser(conjunctions(1), domain={"age": "integer"}).fit(people(50)[["age"]])
    assert budget.spent.epsilon == 0


def test_order_by_name():
    table = people(400)[["left", "age"]]
    domain = Domain({"age": Bins.regular(18, 90, 6), "left": [False, True]})
    for stated in (domain, {"age": (18, 90, 6), "left": [False, True]}):
        made = DPMarginalSynthesizer(domain=stated).fit(table)
        assert made.domain_.names == ("left", "age")
        assert made.domain_source_ == {"left": "stated", "age": "stated"}


def test_unknown_names_and_types():
    with pytest.raises(ValueError, match=r"names columns that X does not have: \['agee'\]"):
        DPMarginalSynthesizer(domain={"agee": 3}).fit(people(50))
    with pytest.raises(ValueError, match=r"column 'x' is of type time.*state its values"):
        DPMarginalSynthesizer().fit(pl.DataFrame({"x": [datetime.time(1)]}))


def test_few_rows_are_told_of():
    with pytest.warns(UserWarning, match="no value of columns") as warned:
        DPMarginalSynthesizer(epsilon=0.1, delta=1e-6).fit(people(200))
    assert any("may be far from their values" in str(one.message) for one in warned)


def test_classes_and_numbers_of_a_model():
    table = people(4000)[["age", "money"]]
    y = np.where(table["age"] > 50, "old", "young")
    tree = DecisionTreeClassifier(max_depth=3)
    made = DPTrainOnRelease(tree, epsilon=4.0, delta=1e-6).fit(table, y)
    assert made.domain_.columns["target"] == ["old", "young", "other"]
    assert made.classes_.tolist() == ["old", "young"]  # the rest has no label
    assert made.score(table, y) > 0.8
    both = table.assign(old=y)
    made = DPTrainOnRelease(tree, target="old", domain={"old": ["old", "young"]}, epsilon=4.0)
    assert made.fit(both).score(both, both["old"]) > 0.8


def awkward(n=240):
    """Return tables of which no cell may make a fit fail, once it is charged."""
    rng = np.random.default_rng(1)
    mixed = np.array([1, "x", None, 2.5, True, object] * (n // 6), dtype=object)
    return {
        "mixed": pd.DataFrame({"a": mixed}),
        "missing": pd.DataFrame({"a": [None] * n, "b": [np.nan] * n}),
        "words": pd.DataFrame({"a": rng.choice(["nan", "", "other", "None"], n)}),
        "huge": pd.DataFrame({"a": rng.choice([1e308, -1e308], n)}),
        "infinite": pd.DataFrame({"a": rng.choice([np.inf, 1.0, np.nan], n)}),
        "largest": pd.DataFrame({"a": np.full(n, 2**64 - 1, dtype=np.uint64)}),
        "constant": pd.DataFrame({"a": np.zeros(n), "b": "k"}),
        "nullable": pd.DataFrame({"a": pd.array([0, None] * (n // 2), dtype="Int64")}),
        "short": pd.DataFrame({"a": rng.normal(size=n).astype(np.float16)}),
        "zone": pd.DataFrame({"a": pd.date_range("2020", periods=n, tz="Europe/Paris")}),
        "spans": pd.DataFrame({"a": pd.to_timedelta(np.arange(n), unit="s")}),
        "numbers": pd.DataFrame({"a": pd.Categorical(rng.integers(0, 3, n))}),
        "intervals": pd.DataFrame({"a": pd.cut(rng.random(n), 3)}),
        "polars": pl.DataFrame({"a": [datetime.date(2020, 1, 1)] * n, "b": [None] * n}),
        "decimals": pl.DataFrame({"a": pl.Series([1, 2] * (n // 2)).cast(pl.Decimal(10, 2))}),
        "arrow": pa.table({"a": pa.array(np.arange(n), pa.int32()).cast(pa.date32())}),
        "dictionary": pa.table({"a": pa.array(["x", None] * (n // 2)).dictionary_encode()}),
        "text": rng.choice(["a", "b"], (n, 2)),
        "days": np.datetime64("2020-01-01") + rng.integers(0, 99, (n, 1)),
        "lists": [[1, "x"], [2, "y"]] * (n // 2),
    }


@pytest.mark.filterwarnings("ignore::UserWarning")
@each("name", awkward())
def test_no_cell_makes_a_fit_fail(name):
    table = awkward()[name]
    for adjacency, epsilon in (("replace_one", 1e-3), ("add_or_remove_one", 8.0)):
        budget = PrivacyBudget(9.0, 1e-5, adjacency=adjacency)
        made = DPMarginalSynthesizer(epsilon=epsilon, delta=1e-6, budget=budget).fit(table)
        assert type(made.database_) is (np.ndarray if isinstance(table, list) else type(table))


# --- the query ------------------------------------------------------------------------------------


def uncoded(table):
    table, schema = table_schema(table, estimator="test")
    return check_uncoded(table, column_plans({}, table, schema), named=True)


def test_a_row_shares_its_weight_among_its_keys():
    rows = uncoded(pd.DataFrame({"a": ["x", "x", None], "b": ["y", "z", "y"]}))
    keys, totals = rows.key_weights([6, 4], 0, [])
    found = dict(zip(keys, totals, strict=True))
    assert found[0, "text", "x"] == 8
    assert found[0, "missing", None] == 4
    keys, totals = rows.key_weights([6, 4], 0, [(0, "text", "x")])
    found = dict(zip(keys, totals, strict=True))
    assert found == {(0, "missing", None): 4, (1, "text", "y"): 10, (1, "text", "z"): 6}
    left = rows.keep(np.array([1, 2]))
    assert dict(zip(*left.key_weights([6, 4], 0, []), strict=True))[0, "text", "x"] == 4
    assert rows.missing_counts([]).tolist() == []


def test_what_cannot_be_read_is_missing():
    plans = [ColumnPlan("a", "learned numbers", missing=True)]
    cells = np.array([[1.0], [np.inf], ["x"], [None]], dtype=object)
    rows = check_uncoded(cells, plans, named=False)
    assert rows.missing_counts([0]).tolist() == [3]
    assert rows.column(0)._n == 1


def test_edges_increase():
    rng = np.random.default_rng(0)
    for whole in (False, True):
        for _ in range(200):
            low = (
                float(rng.integers(-5, 5)) if whole else rng.normal() * 10.0 ** rng.integers(-9, 9)
            )
            high = low + (float(rng.integers(1, 9)) if whole else abs(rng.normal()) + 1e-9)
            inside = np.sort(rng.choice([low, high, 0.0, *rng.uniform(low, high, 3)], 8))
            quantiles = np.rint(inside) if whole else inside
            edges = edges_of(low, high, quantiles, whole=whole)
            Bins(edges)
            assert edges[0] <= low
            assert edges[-1] >= high
            if low <= 0.0 <= high:  # zero is alone in its bin
                j = int(np.searchsorted(edges, 0.0, side="right")) - 1
                assert edges[j + 1] - edges[j] <= (1.0 if whole else 1e-300)


def test_categories_that_python_takes_for_one():
    plan = ColumnPlan("a", "selected categories")
    keys = [(0, "number", 1), (0, "boolean", True), (0, "missing", None), (0, "text", "other")]
    assert categories_of(keys[:3], plan) == [1, None]
    assert categories_of(keys, plan) == [1, "other", None]
    assert categories_of(keys[2:], plan) == [None, "other"]
    assert categories_of([], plan) == ["other"]


def test_a_domain_is_learned_of_rows_without_codes_only():
    rows = uncoded(people(100))
    table = PrivateTable(rows, Stability(1, 0))
    assert "people" not in repr(table)
    with open_session(rows, estimator="test", epsilon=1.0, delta=1e-6, separate_delta=1e-6) as s:
        domain = learn_domain(s, rows.plans, 100.0, 4, Fraction(1, 2), named=True).domain
        assert rows.sizes == domain.sizes
        assert float(s.remaining) >= 0.5


# --- bins of dates, and of what is missing --------------------------------------------------------


def test_bins_of_dates_and_missing_values():
    first, last = np.datetime64("2020-01-01"), np.datetime64("2020-01-05")
    bins = Bins.regular(first, last, 4, missing=True)
    assert bins.size == 5
    assert repr(bins) == "Bins(4 cells from 2020-01-01 to 2020-01-05, and missing)"
    domain = Domain({"day": bins})
    days = pd.Series(["2020-01-02", None, "2019-01-01", "2021-01-01"], dtype="M8[us]")
    zoned = days.dt.tz_localize("UTC")
    for cells in (days, zoned, pl.Series(days.to_numpy()).to_numpy(), pa.array(days)):
        codes, outside = domain.codes(0, cells)
        assert codes.tolist() == [1, 4, 0, 3]
        assert outside.tolist() == [False, False, True, True]
    assert np.isnat(domain.values(0, np.array([4]))[0])
    assert domain.values(0, np.array([0]))[0] == np.datetime64("2020-01-01T12")
    spans = Bins([datetime.timedelta(0), datetime.timedelta(hours=1), datetime.timedelta(hours=3)])
    assert spans.kind == "span"
    assert Domain([spans]).codes(0, np.array([90], dtype="m8[m]"))[0].tolist() == [1]
    with pytest.raises(TypeError, match="convert them to numbers"):
        DPMarginalSynthesizer(domain=Domain({"d": Bins([0, 1])})).fit(pd.DataFrame({"d": days}))


def test_numbers_that_are_missing_stay_so():
    domain = {"a": Bins([0, 1, 2], missing=True, integer=True)}
    frame = pd.DataFrame({"a": pd.array([0, None, 1, None] * 100, dtype="Int64")})
    for table in (frame, pl.from_pandas(frame), pa.Table.from_pandas(frame), frame.astype(float)):
        with config_context(noise="seeded"):
            made = DPMarginalSynthesizer(domain=domain, epsilon=50, random_state=0).fit(table)
        column = made.database_["a"]
        missing = column.null_count if hasattr(column, "null_count") else column.isna().sum()
        assert 190 < (missing() if callable(missing) else missing) < 210
