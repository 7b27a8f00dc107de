"""`DPSimpleImputer`: what missing cells become, from values of their columns."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline

from skdp import DPLogisticRegression, DPOneHotEncoder, PrivacyBudget
from skdp.audit import neighbour_check, replay_check
from skdp.core import Box, Count, Mean, RowSum, ScaledBox, Sum, Unit, open_session
from skdp.core.table import PrivateTable, stability_of
from skdp.core.transcript import record, replay
from skdp.impute import DPSimpleImputer
from skdp.queries import FilledCells, MarginalCells, OfColumn, present_means, row_counts
from skdp.queries.columns import PresentValues
from skdp.tabular import check_columns, check_rows, with_missing
from tests.folding import each
from tests.views import box_of

pd = pytest.importorskip("pandas")

RELATIONS = ("add_or_remove_one", "replace_one")


def numbers(n=4000):
    rng = np.random.default_rng(0)
    age = rng.integers(18, 90, n).astype(float)
    money = np.where(rng.random(n) < 0.4, 0.0, rng.lognormal(3, 0.5, n))
    age[::5], money[1::3] = np.nan, np.nan
    return pd.DataFrame({"age": age, "money": money, "owns": rng.random(n) < 0.7})


def words(n=4000):
    rng = np.random.default_rng(0)
    job = rng.choice(["a", "b", "c"], p=[0.2, 0.5, 0.3], size=n).astype(object)
    job[::4] = None
    return pd.DataFrame({"job": job, "rooms": rng.choice([1, 2, 3], p=[0.1, 0.2, 0.7], size=n)})


BOUNDS = {"age": (0, 120), "money": (0, 200), "owns": (0, 1)}


@each("relation", RELATIONS)
@each("strategy", ["mean", "median"])
@each("bounds", ["private", BOUNDS], ids=["private", "stated"])
def test_without_noise_it_is_scikit_learns(strategy, bounds, relation):
    X = numbers()
    budget = PrivacyBudget(1e6, adjacency=relation)
    ours = DPSimpleImputer(strategy=strategy, bounds=bounds, epsilon=1e5, budget=budget).fit(X)
    theirs = SimpleImputer(strategy=strategy).fit(X.astype(float))
    assert ours.statistics_ == pytest.approx(theirs.statistics_, rel=0.01, abs=0.01)
    filled = ours.transform(X)
    assert filled == pytest.approx(theirs.transform(X.astype(float)), rel=0.01, abs=0.01)
    assert budget.spent.epsilon == 1e5
    assert sum(one.share for one in ours.privacy_.releases) == pytest.approx(1.0)
    assert np.isnan(ours.statistics_std_error_).all() == (strategy == "median")


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("relation", RELATIONS)
def test_standard_errors_of_means(relation, delta):
    """Twelve means within 4.5 standard errors, one in 20,000 tables not, and not far within."""
    X = numbers()
    options = {"bounds": BOUNDS, "epsilon": 1.0, "delta": delta}
    off = []
    for _ in range(4):
        budget = PrivacyBudget(2.0, 1e-3, adjacency=relation)
        fitted = DPSimpleImputer(**options, budget=budget).fit(X)
        clipped = [X[c].clip(*BOUNDS[c]).mean() for c in X]
        off.append((fitted.statistics_ - clipped) / fitted.statistics_std_error_)
    assert 0.2 < np.abs(off).max() < 8.0


@pytest.mark.parametrize("categories", ["private", [["a", "b", "c"], [1, 2, 3]]])
def test_most_frequent_values(categories):
    X = words()
    budget = PrivacyBudget(1.0, 1e-6)
    imputer = DPSimpleImputer(
        strategy="most_frequent", categories=categories, delta=1e-6, budget=budget
    )
    imputer.fit(X)
    assert imputer.statistics_.tolist() == ["b", 3]
    assert imputer.transform(X)[0].tolist() == ["b", X["rooms"][0]]
    assert budget.spent.epsilon == 1.0
    assert (
        budget.spent.delta
        == imputer.privacy_cost().delta
        == (1e-6 if categories == "private" else 0)
    )


def test_nothing_is_found_in_few_rows_and_it_is_said():
    X = words(30)
    with pytest.warns(UserWarning, match=r"no category of columns 'job', 'rooms'"):
        imputer = DPSimpleImputer(strategy="most_frequent", delta=1e-6).fit(X)
    assert imputer.transform(X)[0, 0] is None


@each("strategy", ["mean", "median"])
@each("bounds", ["private", (0, 100)])
def test_it_warns_where_rows_are_too_few(strategy, bounds):
    ages = np.random.default_rng(0).normal(50, 10, (10_000, 1))
    imputer = DPSimpleImputer(strategy=strategy, bounds=bounds)
    with pytest.warns(UserWarning, match="DPSimpleImputer: .*: rows are too few for this epsilon"):
        imputer.fit(ages[:10])
    with warnings.catch_warnings(action="error"):
        imputer.fit(ages)


def test_a_constant_is_free_and_indicators_are_of_every_column():
    X = words(8)
    imputer = DPSimpleImputer(strategy="constant", fill_value="none", add_indicator=True).fit(X)
    assert imputer.privacy_cost() is None
    assert imputer.privacy_.epsilon == 0
    filled = imputer.transform(X)
    assert filled[0].tolist()[0] == "none"
    assert filled[:, 2:].tolist() == [[float(i % 4 == 0), 0.0] for i in range(8)]
    assert imputer.get_feature_names_out().tolist()[2:] == [
        "missingindicator_job",
        "missingindicator_rooms",
    ]
    assert imputer.inverse_transform(filled)[0, 0] is None
    again = DPSimpleImputer(strategy="constant").fit_transform(np.array([[np.nan], [2.0]]))
    assert again.tolist() == [[0.0], [2.0]]
    assert again.dtype == float
    numeric = DPSimpleImputer(bounds=(0, 1), add_indicator=True).fit([[np.nan], [1.0]])
    made = numeric.transform([[np.nan], [1.0]])
    np.testing.assert_array_equal(numeric.inverse_transform(made), [[np.nan], [1.0]])


@each(
    "options", [{}, {"strategy": "most_frequent", "categories": [[1, 2], [1, 2]]}], ids=["mean", ""]
)
def test_a_column_is_left_out_where_its_released_count_says_that_it_is_empty(options):
    X = np.array([[np.nan, 2.0], [np.nan, np.nan]] * 5000)
    made = {"bounds": (0, 4), "delta": 1e-6, "add_indicator": True, **options}
    imputer = DPSimpleImputer(**made).fit(X)
    with pytest.warns(UserWarning, match=r"Skipping features .*\['x0'\]"):
        filled = imputer.transform(X)
    assert filled.shape == (10_000, 3) and np.isnan(imputer.statistics_).tolist() == [True, False]
    assert imputer.get_feature_names_out().tolist() == [
        "x1",
        "missingindicator_x0",
        "missingindicator_x1",
    ]
    np.testing.assert_array_equal(imputer.inverse_transform(filled), X)
    for other in ({"keep_empty_features": True}, {"epsilon": 0.01}):  # noise hides what is there
        imputer = DPSimpleImputer(**{**made, **other})
        with warnings.catch_warnings(action="ignore"):
            assert imputer.fit(X).transform(X).shape == (10_000, 4)


@pytest.mark.parametrize("module", ["polars", "pyarrow"])
def test_other_tables(module):
    library = pytest.importorskip(module)
    X = numbers()
    columns = {c: [None if v != v else v for v in X[c].tolist()] for c in X}
    table = library.DataFrame(columns) if module == "polars" else library.table(columns)
    fitted = DPSimpleImputer(bounds=BOUNDS, epsilon=1e5).fit(table)
    assert fitted.statistics_[0] == pytest.approx(X["age"].mean(), rel=0.01)
    assert np.isfinite(fitted.transform(table)).all()


@each(
    ("options", "X", "named"),
    [
        ({"strategy": "modal"}, numbers, "strategy"),
        ({"strategy": "mean"}, words, "numeric"),
        ({"strategy": "most_frequent", "delta": 0.0}, words, "categories must be given where"),
        ({"strategy": "most_frequent", "categories": [["a"]]}, words, "one list each"),
        ({"strategy": "constant", "fill_value": np.nan}, words, "fill_value"),
        ({"strategy": "constant", "fill_value": "x"}, numbers, "cannot be cast"),
        ({"strategy": "constant"}, lambda: np.array([["a"]]), "does not support data"),
        ({"missing_values": "?"}, lambda: np.ones((2, 2)), "both numerical"),
        ({"bounds": {"age": (0, 1)}}, numbers, "bounds must state every column"),
        ({}, lambda: pd.DataFrame({"a": [1.0, np.inf]}), "infinity"),
    ],
)
def test_what_is_refused_costs_nothing(options, X, named):
    budget = PrivacyBudget(10.0, 1e-3)
    with pytest.raises((ValueError, TypeError), match=named):
        DPSimpleImputer(budget=budget, **options).fit(X())
    assert budget.spent.epsilon == 0


@pytest.mark.parametrize("missing", [None, "b"])
def test_no_cell_decides_about_the_type_of_others(missing):
    """Whole numbers above 2**53 would be others as floats: one row would change all."""
    cells = np.array([[2**53 + 1], [2**53], [True], [1]], dtype=object)
    imputer = DPSimpleImputer(strategy="constant", fill_value=0).fit(cells)
    alone = [imputer.transform(cells[i : i + 1])[0, 0] for i in range(4)]
    other = np.append(cells, [[missing]], axis=0)
    together = imputer.transform(other)[:4, 0].tolist()
    assert together == alone == [2**53 + 1, 2**53, True, 1]
    assert [type(one) for one in together] == [int, int, bool, int]


@each("relation", RELATIONS)
@each("strategy", ["mean", "median", "most_frequent"])
def test_replay_and_neighbours_with_missing_cells(strategy, relation):
    budget = PrivacyBudget(1000.0, 0.5, adjacency=relation)
    imputer = DPSimpleImputer(strategy=strategy, epsilon=5.0, delta=1e-5, budget=budget)
    X = numbers(300).to_numpy(dtype=float)
    other, near = X[::-1].copy(), X.copy()
    other[::4] = np.nan
    near[1], near[0] = np.nan, [1e9, -5.0, np.nan]  # of one row more, and of one replaced
    near[1] = X[1]
    if relation == "add_or_remove_one":  # whose number of rows is private
        other, near = other[1:], X[1:]
    replay_check(imputer, X, other)
    neighbour_check(imputer, X, near)


def test_groups():
    X, users = numbers(), np.arange(4000) // 2
    budget = PrivacyBudget(40.0, unit="user_id")
    imputer = DPSimpleImputer(bounds=BOUNDS, epsilon=40.0, budget=budget, max_rows_per_unit=2)
    imputer.fit(X, groups=users)
    assert imputer.statistics_[0] == pytest.approx(X["age"].mean(), rel=0.1)


def test_in_a_pipeline_with_one_budget():
    X = pd.concat([numbers(), words()], axis=1)
    y = (X["money"].fillna(0) > 15).to_numpy()
    budget = PrivacyBudget(4.0, 1e-5)
    private = {"epsilon": 1.0, "delta": 1e-6, "budget": budget}
    columns = ColumnTransformer(
        [
            ("numbers", DPSimpleImputer(bounds=(0, 120), **private), ["age", "money"]),
            (
                "words",
                make_pipeline(
                    DPSimpleImputer(strategy="most_frequent", **private), DPOneHotEncoder(**private)
                ),
                ["job", "rooms"],
            ),
        ]
    )
    model = make_pipeline(columns, DPLogisticRegression(classes=[0, 1], bounds=(0, 120), **private))
    assert 0.4 < model.fit(X, y).score(X, y) <= 1
    assert budget.spent.epsilon == 4.0


def test_a_column_is_asked_a_few_queries_of_rows_of_its_own():
    options = {"estimator": "test", "epsilon": 1.0}
    rows = check_columns([[1.0, np.nan], [np.nan, 2.0]], estimator="test")
    with (
        open_session(rows, **options) as session,
        pytest.raises(TypeError, match="without cells, labels and weights"),
    ):
        session.answer(OfColumn(0, row_counts(MarginalCells((2,), (0,)), "marginal")))
    with (
        open_session(check_rows(np.zeros((2, 2)), estimator="test"), **options) as session,
        pytest.raises(TypeError, match="columns of their own"),
    ):
        session.answer(OfColumn(0, Mean(box_of(session, [0.0], [1.0]))))


@each("relation", ["replace_one", "add_or_remove_one"])
@each("delta", [0.0, 1e-5])
def test_a_column_of_a_unit_moves_by_as_many_rows_as_it_has(relation, delta):
    """Not by twice as many where its rows are replaced: they may enter the column, or leave it."""
    users = np.arange(20) // 2
    X = np.where(users == 3, 1.0, np.linspace(-1, 1, 20))[:, None]
    gone = np.where(users == 3, np.nan, X[:, 0])[:, None]
    turned, removed = (
        np.where(users == 3, -1.0, X[:, 0])[:, None],
        (X[users != 3], users[users != 3]),
    )
    view = Box([-1.0], [1.0])
    for query, other, least in (
        (OfColumn(0, Count()), gone, 1.0),
        (OfColumn(0, Sum(view)), gone, 0.499 if relation == "replace_one" else 1.0),
        (OfColumn(0, Sum(view)), turned, 0.999),
        (RowSum(FilledCells((0,)), noise="smaller"), gone, 1.0),
        (present_means([-1.0], [1.0], (0,)), gone, 0.999),
        (present_means([-1.0], [1.0], (0,)), turned, 0.999),
        (present_means([-1.0], [1.0], ()), turned, 0.999),
    ):
        pairs = ((other, users) if relation == "replace_one" else removed), (X, users)
        transcripts = []
        for table, ids in pairs:
            budget = PrivacyBudget(10.0, 0.1, adjacency=relation, unit="user")
            rows = check_columns(table, estimator="test").of_units(ids, "test", relation)
            noted = replay(transcripts[0]) if transcripts else record()
            with (
                noted as transcript,
                open_session(
                    rows, estimator="test", epsilon=1.0, delta=delta, budget=budget,
                    unit=Unit("user", 2),
                ) as session,
            ):  # fmt: skip
                session.answer(query)
            transcripts.append(transcript)
        (a,), (b,) = (transcript.entries for transcript in transcripts)
        assert least * 0.999 < a.distance(a.exact, b.exact) / a.sensitivity <= 1.0


CELLS = st.sampled_from([np.nan, 0.0, -1.0, 1.0, 5e-324, -1e300, 1e308, 0.3])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=6),
    st.sampled_from([1, 22_000]),
    st.booleans(),
)
def test_joint_means_add_up_each_cell_by_itself(rows, times, in_frame):
    """Also in columns without width, and with missing cells in some chunks only."""
    low, high = np.array([-1.0, 0.3, -9.0]), np.array([1.0, 0.3, 0.2])
    image = PresentValues(ScaledBox(low, high), (0, 1), count=7)
    X = np.repeat(np.array(rows), [times] + [1] * (len(rows) - 1), axis=0)
    checked = check_columns(pd.DataFrame(X) if in_frame else X, estimator="test")
    expected = [0] * 5
    for i, row in enumerate(rows):
        for j, cell in enumerate(row):
            half = high[j] / 2 - low[j] / 2
            u = (cell - (low[j] / 2 + high[j] / 2)) / half if half else 0.0
            step = 0 if np.isnan(cell) else round(min(max(u, -1.0), 1.0) * 2**30)
            expected[j] += step * (1 if i else times)
            if j < 2 and not np.isnan(cell):
                expected[3 + j] += 7 * (1 if i else times)
    table = PrivateTable(checked, stability_of("replace_one"))
    assert image.table_total(table).tolist() == expected
    missing = FilledCells((0, 2), missing=True).table_total(table)
    assert missing.tolist() == np.isnan(X).sum(axis=0)[[0, 2]].tolist()
    for j in range(3):
        present = X[~np.isnan(X[:, j]), j]
        np.testing.assert_array_equal(checked.column(j).chunk(0, len(present))[:, 0], present)


def missing_some(rng, n):
    X = rng.normal(40.0, 10.0, size=(n, 2))
    X[rng.random(X.shape) < 0.2] = np.nan
    return X


@pytest.mark.parametrize("strategy", ["mean", "median"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_expected_error_of_numbers_is_about_that_of_fits(strategy, delta):
    """Of 60 fits, means of absolute errors: their ratio has an error of .15 at most."""
    rng = np.random.default_rng(0)
    imputer = DPSimpleImputer(strategy=strategy, bounds=(0, 100), epsilon=0.5, delta=delta)
    of_column = np.nanmean if strategy == "mean" else np.nanmedian
    found = []
    for _ in range(60):
        X = missing_some(rng, 2000)
        found.append(np.mean(np.abs(imputer.fit(X).statistics_ - of_column(X, axis=0)) / 10))
    expected = imputer.expected_error(2000, like=missing_some(rng, 500))
    assert 0.5 < expected / np.mean(found) < 2
    assert imputer.expected_error(20_000, like=missing_some(rng, 500)) < expected / 4


def test_the_expected_error_of_frequent_values_is_a_part_of_the_columns():
    rng = np.random.default_rng(0)
    rows = np.array(list("aaaabbbc"), dtype=object)[rng.integers(0, 8, (300, 2))]
    rows[rng.random(rows.shape) < 0.1] = None
    stated = DPSimpleImputer(strategy="most_frequent", categories=[["a", "b", "c"]] * 2)
    few, many = (stated.set_params(epsilon=0.3).expected_error(n, like=rows) for n in (30, 3000))
    assert 0.1 < few < 0.9 and many < 0.1
    private = DPSimpleImputer(strategy="most_frequent", delta=1e-6)
    assert private.expected_error(10, like=rows) == 1.0
    assert private.expected_error(3000, like=rows) < 0.1


def test_an_expected_error_of_cells_reads_and_charges_nothing():
    assert DPSimpleImputer(strategy="constant").expected_error(10) == 0
    budget = PrivacyBudget(1.0)
    imputer = DPSimpleImputer(budget=budget, bounds={"a": (0, 1), "b": (0, 9)})
    for like, text in (
        (None, "like must be given"),
        ([[1.0, np.nan]] * 3, "value in every column"),
    ):
        with pytest.raises(ValueError, match=text):
            imputer.expected_error(500, like=like)
    frame = pd.DataFrame({"b": [1.0, 2.0, np.nan], "a": [0.5, 0.5, 0.25]})
    assert 0 < imputer.expected_error(5000, like=frame) < 1
    assert budget.spent.epsilon == 0 and not hasattr(imputer, "statistics_")


@pytest.mark.parametrize("hits", [True, False])
def test_cells_with_the_stated_mark_are_missing_and_types_do_not_depend_on_cells(hits):
    X = np.array([[1.0, 2.0], [-9.0 if hits else 3.0, 4.0], [5.0, 6.0]])
    objects = X.astype(object)
    for rows in (X, pd.DataFrame(X, columns=["a", "b"]).astype(int), objects):
        marked = with_missing(rows, -9, estimator="")
        types = {str(t) for t in getattr(marked, "dtypes", [getattr(marked, "dtype", None)])}
        assert types == ({"object"} if rows is objects else {"float64"})
        assert pd.isna(np.asarray(marked)).sum() == hits
    for mark in ("?", True, -9):  # cells that are missing anyway change nothing
        column = pd.DataFrame({"a": pd.array([1, None if hits else 2, 3], dtype="Int64")})
        assert np.isnan(np.asarray(with_missing(column, mark, estimator=""))).sum() == hits
    frequent = {"strategy": "constant", "fill_value": "?", "missing_values": "none"}
    names = pd.DataFrame({"a": ["x", "none"], "b": [None, "y"]})
    assert DPSimpleImputer(**frequent).fit_transform(names).tolist() == [["x", "?"], ["?", "y"]]


def test_medians_within_bounds_of_all_columns_together_are_warned_of():
    """Learned bounds were one box for 13 columns: medians were 370 deviations off, in silence."""
    X = np.random.default_rng(0).normal(size=(178, 13)) * np.logspace(-1, 3, 13)
    with pytest.warns(UserWarning, match="may be far from their rows: rows are too few"):
        DPSimpleImputer(strategy="median", epsilon=5.0, delta=0.0).fit(X)
