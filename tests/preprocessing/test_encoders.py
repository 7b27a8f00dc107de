"""Encoders: scikit-learn's where categories are known, and what a private selection finds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import binom
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from skdp import DPLogisticRegression, DPStandardScaler, PrivacyBudget
from skdp.audit import neighbour_check, replay_check
from skdp.core import open_session
from skdp.core.privacy_filter import PrivacyFilter
from skdp.core.session import Session
from skdp.core.table import PrivateTable, stability_of
from skdp.model_selection import search_cost
from skdp.preprocessing import DPOneHotEncoder, DPOrdinalEncoder
from skdp.queries import key_selection as selection
from skdp.queries import select_categories
from skdp.tabular import cell_key, check_keyed, check_rows
from tests.folding import each

pd = pytest.importorskip("pandas")

RELATIONS = ("add_or_remove_one", "replace_one")
ENCODERS = (DPOneHotEncoder, DPOrdinalEncoder)
ALPHA = 1e-7
SMALL = pd.DataFrame({"a": ["x", "y", "z", "x"], "b": [1, 3, 1, 2]})
STATED = [["x", "y", "z"], [1, 2, 3]]


def table(n=3000):
    rng = np.random.default_rng(0)
    city = rng.choice(["Bern", "Rome", "Oslo"], p=[0.6, 0.3, 0.1], size=n).astype(object)
    rooms = rng.integers(1, 4, n).astype(float)
    city[:3], rooms[:200] = ["Atlantis", 7, None], np.nan
    return pd.DataFrame({"city": city, "rooms": rooms, "owned": rng.random(n) < 0.4})


# --- stated categories ---------------------------------------------------------------------------


@each("drop", [None, "first", "if_binary"])
@each("as_sparse", [False, True])
def test_one_hot_with_stated_categories_is_scikit_learns(drop, as_sparse):
    options = {"categories": STATED, "drop": drop, "sparse_output": as_sparse}
    ours = DPOneHotEncoder(**options).fit(SMALL)
    theirs = OneHotEncoder(**options).fit(SMALL)
    a, b = ours.transform(SMALL), theirs.transform(SMALL)
    assert sparse.issparse(a) == as_sparse
    assert abs(a - b).max() == 0
    assert ours.get_feature_names_out().tolist() == theirs.get_feature_names_out().tolist()
    assert ours.inverse_transform(a).tolist() == theirs.inverse_transform(b).tolist()
    assert ours.privacy_cost() is None
    assert ours.privacy_.epsilon == 0
    assert (ours.drop_idx_ is None) == (theirs.drop_idx_ is None)


def test_ordinal_with_stated_categories_is_scikit_learns():
    ours = DPOrdinalEncoder(categories=STATED).fit(SMALL)
    theirs = OrdinalEncoder(categories=STATED).fit(SMALL)
    codes = ours.transform(SMALL)
    assert codes.tolist() == theirs.transform(SMALL).tolist()
    assert ours.inverse_transform(codes).tolist() == theirs.inverse_transform(codes).tolist()
    assert ours.get_feature_names_out().tolist() == ["a", "b"]


def test_unknown_and_missing_cells():
    X = pd.DataFrame({"a": ["x", "q", None], "b": [1.0, np.nan, 9.0]})
    one = DPOneHotEncoder(categories={"b": [1, np.nan], "a": ["x"]}).fit(SMALL)
    assert one.transform(X).tolist() == [[1, 1, 0], [0, 0, 1], [0, 0, 0]]
    assert one.get_feature_names_out().tolist() == ["a_x", "b_1.0", "b_nan"]
    assert one.inverse_transform(one.transform(X))[2].tolist() == [None, None]
    codes = DPOrdinalEncoder(categories=STATED, unknown_value=-2, encoded_missing_value=np.nan).fit(
        SMALL
    )
    np.testing.assert_array_equal(codes.transform(X), [[0, 0], [-2, np.nan], [np.nan, -2]])
    assert codes.inverse_transform(codes.transform(X))[1:].tolist() == [[None, None]] * 2
    with pytest.raises(ValueError, match="must hold codes"):
        codes.inverse_transform([[3, 0]])


@pytest.mark.parametrize("kind", ENCODERS)
def test_error_is_raised_before_the_charge_and_quotes_no_cell(kind):
    encoder = kind(categories=STATED, handle_unknown="error").fit(SMALL)
    bad = SMALL.replace({"a": {"y": "SECRET"}})
    for refused in (lambda: encoder.transform(bad), lambda: kind(**encoder.get_params()).fit(bad)):
        with pytest.raises(ValueError, match=r"columns \['a'\] that are not") as caught:
            refused()
        assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("kind", ENCODERS)
@pytest.mark.parametrize(
    ("categories", "found"),
    [
        ("dtype", [["u", "v"], [False, True]]),
        (["dtype", [1, 0]], [["u", "v"], [1, 0]]),
    ],
)
def test_a_type_that_lists_its_categories(kind, categories, found):
    cells = ["v", "u", "v"]
    X = pd.DataFrame({"a": pd.Categorical(cells, ["u", "v"]), "b": [True, False, True]})
    encoder = kind(categories=categories).fit(X)
    assert [one.tolist() for one in encoder.categories_] == found
    assert encoder.transform(X).sum() > 0
    polars = pytest.importorskip("polars")
    P = polars.DataFrame(
        {"a": polars.Series(cells, dtype=polars.Enum(["u", "v"])), "b": [True, False, True]}
    )
    assert kind(categories=categories).fit(P).transform(P).tolist() == encoder.transform(X).tolist()
    with pytest.raises(ValueError, match="lists no categories"):
        kind(categories="dtype").fit(SMALL)


# --- selected categories -------------------------------------------------------------------------


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("kind", ENCODERS)
def test_categories_of_enough_rows_are_found(kind, relation):
    X = table()
    budget = PrivacyBudget(1.0, 1e-6, adjacency=relation)
    encoder = kind(delta=1e-6, budget=budget)
    cost = encoder.privacy_cost()
    encoder.fit(X)
    city, rooms, owned = (one.tolist() for one in encoder.categories_)
    assert city == ["Bern", "Oslo", "Rome"]
    assert rooms[:3] == [1, 2, 3]
    assert len(rooms) == (4 if kind is DPOneHotEncoder else 3)  # what is missing, too
    assert owned == [False, True]
    assert (budget.spent.epsilon, budget.spent.delta) == (cost.epsilon, cost.delta) == (1.0, 1e-6)
    assert encoder.privacy_.releases[0].name.startswith("categories")
    known = encoder.transform(X)
    assert np.isfinite(known).all()
    assert kind().set_params(**encoder.get_params()).expected_error(3000, like=X) < 0.01
    assert encoder.expected_error(40, like=X) > 0.5


@pytest.mark.statistical
@each("relation", RELATIONS)
@each("n_columns", [1, 2, 4])
def test_noise_is_that_which_shows_rarer_categories(n_columns, relation):
    """At least 0.95 of the categories of the other noise; measured 0.96 to 1.6 times as many."""
    p = 1 / np.arange(1, 2001)
    draw = np.random.default_rng(1).choice(2000, (20_000, n_columns), p=p / p.sum())
    words = draw.astype(str).astype(object)

    def found(pure=None):
        encoder = DPOrdinalEncoder(delta=1e-6, budget=PrivacyBudget(1e3, 0.1, adjacency=relation))
        if pure is not None:
            encoder._noise_of = lambda allowance, _: float(allowance.pure != pure)
        fits = [encoder.fit(words) for _ in range(2)]
        assert pure in (None, encoder.privacy_.mu is None)
        return sum(sum(map(len, fit.categories_)) for fit in fits), encoder.privacy_.mu is None

    best, is_pure = found()
    assert is_pure == (n_columns * RELATIONS.index(relation) + n_columns <= 2)
    assert best >= 0.95 * found(pure=not is_pure)[0]


def test_what_is_rare_has_a_column_where_asked():
    X = table()
    encoder = DPOneHotEncoder(delta=1e-6, handle_unknown="infrequent_if_exist").fit(X[["city"]])
    assert encoder.get_feature_names_out().tolist()[-1] == "city_infrequent_sklearn"
    made = encoder.transform(X[["city"]])
    assert made[:3, -1].tolist() == [1, 1, 1]
    assert encoder.inverse_transform(made)[0, 0] == "infrequent_sklearn"
    assert (made.sum(axis=1) == 1).all()


def test_columns_of_both_kinds_in_any_container():
    X = table()
    categories = {"city": "private", "rooms": [1, 2, 3], "owned": "dtype"}
    encoder = DPOneHotEncoder(categories=categories, delta=1e-6).fit(X)
    assert encoder.has_infrequent_.tolist() == [False] * 3
    names = encoder.get_feature_names_out()
    for module, made in (
        ("polars", lambda m: m.DataFrame({c: list(map(str, X[c])) for c in X})),
        ("pyarrow", lambda m: m.table({c: list(map(str, X[c])) for c in X})),
    ):
        other = made(pytest.importorskip(module))
        fitted = DPOneHotEncoder(delta=1e-6).fit(other)
        assert [len(one) for one in fitted.categories_] == [3, 4, 2]
        assert fitted.get_feature_names_out()[0] == names[0] == "city_Bern"
    array = DPOneHotEncoder(delta=1e-6).fit(X.to_numpy(dtype=object))
    assert array.get_feature_names_out()[0] == "x0_Bern"


@pytest.mark.parametrize("kind", ENCODERS)
def test_nothing_is_found_in_few_rows_and_it_is_said(kind):
    with pytest.warns(UserWarning, match=r"no category of columns 'city'"):
        encoder = kind(delta=1e-6).fit(table(20))
    assert [len(one) for one in encoder.categories_] == [0, 0, 0]
    assert encoder.transform(table(20)).shape == (20, 0 if kind is DPOneHotEncoder else 3)


@each(
    ("options", "named"),
    [
        ({"delta": 0.0}, "categories must be given where delta is 0"),
        ({"categories": "auto"}, "'auto' would read"),
        ({"categories": None}, "categories must be"),
        ({"categories": [["x"]]}, "one list each"),
        ({"categories": {"city": ["x"]}}, "none for"),
        ({"categories": [["x", "x"], [1], [2]]}, "distinct"),
        ({"categories": ["x", [1], [2]]}, "must be a list"),
        ({"categories": [[1j], [1], [2]]}, "must be text"),
        ({"handle_unknown": "error", "delta": 1e-6}, "handle_unknown='error'"),
        ({"handle_unknown": "sometimes"}, "handle_unknown"),
    ],
)
@each("kind", ENCODERS)
def test_what_is_refused_costs_nothing(kind, options, named):
    budget = PrivacyBudget(10.0, 1e-3)
    with pytest.raises((ValueError, TypeError), match=named):
        kind(budget=budget, **options).fit(table(50))
    assert budget.spent.epsilon == 0


def test_dates_are_refused():
    X = pd.DataFrame({"day": pd.to_datetime(["2020-01-01"] * 3)})
    with pytest.raises(TypeError, match="type of column 'day' is of dates"):
        DPOneHotEncoder(delta=1e-6).fit(X)


def test_in_a_pipeline_with_one_budget_and_a_price():
    X = table()
    y = (X["city"] == "Bern").to_numpy() ^ (np.arange(len(X)) % 10 == 0)
    budget = PrivacyBudget(3.0, 1e-5)
    private = {"epsilon": 1.0, "delta": 1e-6, "budget": budget}
    columns = ColumnTransformer(
        [
            ("city", DPOneHotEncoder(**private), ["city"]),
            ("owned", DPStandardScaler(bounds=(0, 1), **private), ["owned"]),
        ]
    )
    model = make_pipeline(columns, DPLogisticRegression(bounds=(-3, 3), classes=[0, 1], **private))
    assert model.fit(X, y).score(X, y) > 0.8
    assert budget.spent.epsilon == 3.0
    search = GridSearchCV(model, {"dplogisticregression__epsilon": [1.0, 2.0]}, cv=2, refit=False)
    cost = search_cost(search, len(X))
    assert cost.epsilon == pytest.approx(2 * (3.0 + 4.0))
    model.set_params(columntransformer__city__categories=[["Bern", "Oslo", "Rome"]])
    assert search_cost(search, len(X)).epsilon == pytest.approx(2 * (2.0 + 3.0))


# --- the contract of the selection ---------------------------------------------------------------


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("kind", ENCODERS)
def test_replay_and_neighbours(kind, relation):
    budget = PrivacyBudget(1000.0, 0.5, adjacency=relation)
    encoder = kind(epsilon=5.0, delta=1e-5, budget=budget)
    X = table(600).to_numpy(dtype=object)
    other, near = X[::-1].copy(), X.copy()
    other[::3, 0] = "third"
    near[0] = ["third", 1.0, True]
    if relation == "add_or_remove_one":  # whose number of rows is private
        other, near = other[1:], X[1:]
    replay_check(encoder, X, other)
    neighbour_check(encoder, X, near)


def _shows(runs, relation):
    """Return in how many runs values of one row show, at a separate delta of 0.1."""
    rows = check_keyed(np.array([["alone", 1, True]], dtype=object), [0, 1, 2], missing=True)
    options = {"estimator": "test", "epsilon": 1.0, "delta": 0.05, "budget": None}
    seen = 0
    for _ in range(runs):
        whole = PrivacyFilter(rows.digest, separate_delta=0.1, **options)
        found = Session(PrivateTable(rows, stability_of(relation)), whole).answer(
            select_categories(3)
        )
        seen += bool(found)
    return seen


@pytest.mark.statistical
@pytest.mark.parametrize("relation", RELATIONS)
def test_values_of_one_row_show_no_more_often_than_delta(relation, monkeypatch):
    """False alarms: 1e-7 a relation."""
    runs, limit = 400, 0.1 if relation == "add_or_remove_one" else 0.05
    assert _shows(runs, relation) <= binom.isf(ALPHA, runs, limit)
    monkeypatch.setattr(selection, "gaussian_threshold", lambda weights, *_: weights[0])
    assert _shows(runs, relation) > binom.isf(ALPHA, runs, limit)  # a threshold that hides nothing


def test_groups():
    X, users = table()[["city", "owned"]], np.arange(3000) // 2
    budget = PrivacyBudget(4.0, 1e-6, unit="user_id")
    encoder = DPOneHotEncoder(epsilon=4.0, delta=1e-6, budget=budget, max_rows_per_unit=2)
    encoder.fit(X, groups=users)
    assert encoder.categories_[0].tolist() == ["Bern", "Oslo", "Rome"]
    assert budget.spent.epsilon == 4.0


def test_a_cells_key_is_its_own():
    cells = ["1", 1, 1.0, True, np.float32(1), None, np.nan, pd.NA, b"1", np.datetime64("2020")]
    keys = [("text", "1"), ("number", 1), ("number", 1), ("boolean", True), ("number", 1)]
    assert [cell_key(cell) for cell in cells] == [*keys, *[("missing", None)] * 3, None, None]


def test_weights_of_a_row_are_one_vector_of_norm_one():
    X = np.array([["a", "b", "c"], ["a", None, None], ["a", "b", None]], dtype=object)
    rows = check_keyed(X, [0, 1, 2], missing=False)
    keys, totals = rows.key_weights([100, 10, 1], 0, ())
    assert dict(zip(keys, totals, strict=True)) == {
        (0, "text", "a"): 111, (1, "text", "b"): 11, (2, "text", "c"): 1,
    }  # fmt: skip
    assert rows.key_weights([100, 10, 1], 0, [(0, "text", "a")])[1] == [110, 10]


def test_only_keyed_rows_are_selected_from():
    rows = check_rows(np.zeros((3, 1)), estimator="test")
    whole = PrivacyFilter(
        rows.digest, estimator="test", epsilon=1.0, delta=0.05, separate_delta=0.05, budget=None
    )
    session = Session(PrivateTable(rows, stability_of("replace_one")), whole)
    with pytest.raises(TypeError, match="rows that have keys"):
        session.answer(select_categories(1))


def test_all_keys_of_a_row_count():
    """A row that has more keys than weights would fail, and whether it has them is private."""
    rows = check_keyed(np.array([["a", 1], ["b", None]], dtype=object), [0, 1], missing=False)
    options = {"epsilon": 1.0, "delta": 0.05, "separate_delta": 0.05}
    with open_session(rows, estimator="test", **options) as session:
        with pytest.raises(ValueError, match="at least 2"):
            session.answer(select_categories(1))
        assert session.remaining == 1


def test_infrequent_categories_are_those_of_released_counts():
    X = np.repeat([["x", "p"], ["y", "q"], ["z", "p"], ["w", "q"]], [3000, 1500, 300, 200], axis=0)
    budget = PrivacyBudget(20, 1e-4)
    stated = {"categories": [["x", "y", "z", "w"], ["p", "q"]], "budget": budget, "epsilon": 4.0}
    rare = {"min_frequency": 0.1, "handle_unknown": "infrequent_if_exist"}
    theirs = OneHotEncoder(sparse_output=False, categories=stated["categories"], **rare).fit(X)
    ours = DPOneHotEncoder(**stated, **rare).fit(X)
    assert float(budget.spent.epsilon) == 4
    assert ours.infrequent_categories_[0].tolist() == ["z", "w"]
    assert ours.infrequent_categories_[1] is None
    assert ours.get_feature_names_out().tolist() == theirs.get_feature_names_out().tolist()
    rows = np.array([["z", "q"], ["new", "p"]])
    assert np.array_equal(ours.transform(rows), theirs.transform(rows))
    learned = DPOrdinalEncoder(max_categories=2, budget=budget, delta=1e-6, epsilon=4.0).fit(X)
    assert float(budget.spent.epsilon) == 8
    assert learned.infrequent_categories_[0].tolist() == ["w", "y", "z"]
    codes = learned.transform([["x", "p"], ["z", "q"]])
    assert codes.tolist() == [[0, 0], [1, 1]]
    assert learned.inverse_transform(codes)[1, 0] == "infrequent_sklearn"
    with pytest.raises(ValueError, match="not found among"):  # before a charge
        DPOneHotEncoder(**{**stated, "drop": ["v", "p"]}, **rare).fit(X)
    assert float(budget.spent.epsilon) == 8
