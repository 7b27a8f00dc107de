"""Private searches over pipelines of mixed tables: learned categories, cells checked beforehand."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone, is_classifier
from sklearn.compose import (
    ColumnTransformer,
    TransformedTargetRegressor,
    make_column_selector,
    make_column_transformer,
)
from sklearn.decomposition import PCA
from sklearn.ensemble import VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from skdp import (
    DPPCA,
    DPCategoricalNB,
    DPExplainableBoostingClassifier,
    DPExplainableBoostingRegressor,
    DPGaussianNB,
    DPGridSearchCV,
    DPKBinsDiscretizer,
    DPKMeans,
    DPLinearDiscriminantAnalysis,
    DPLinearRegression,
    DPLogisticRegression,
    DPMedian,
    DPMinMaxScaler,
    DPNearestCentroid,
    DPOneHotEncoder,
    DPOrdinalEncoder,
    DPQuantile,
    DPQuantileTransformer,
    DPRidge,
    DPRobustScaler,
    DPSelectKBest,
    DPSimpleImputer,
    DPStandardScaler,
    DPTargetEncoder,
    DPTrainOnRelease,
    PrivacyBudget,
)
from skdp.base.batch_invariant import exact_rows, interpolated
from skdp.budget import Cost
from skdp.core.transcript import record
from skdp.model_selection import _scorer, private_scorer
from tests.folding import each

N = 600
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "age": RNG.integers(18, 70, N),
        "pay": RNG.lognormal(10, 0.5, N),
        "dept": RNG.choice(["a", "b", "c"], N),
    }
)
Y = np.where((TABLE["age"] > 40) | (TABLE["dept"] == "a"), "yes", "no")
SCALER = DPMinMaxScaler(bounds={"age": (18, 70), "pay": (0, 1e5)})
MODEL = DPLogisticRegression(classes=["no", "yes"], bounds=(0, 1))


def encoding(encoder=None, scaler=SCALER, columns=("age", "pay"), **options):
    encoder = DPOneHotEncoder() if encoder is None else encoder
    return make_column_transformer((scaler, list(columns)), (encoder, ["dept"]), **options)


def search(estimator=None, model=MODEL, **options):
    estimator = make_pipeline(encoding(), model) if estimator is None else estimator
    options = {"epsilon": 60.0, "delta": 1e-4, "n_runs": 2} | options
    return DPGridSearchCV(estimator, {}, **options)


@pytest.mark.parametrize("adjacency", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("classes", [["no", "yes"], "private"])
def test_categories_and_classes_are_learned_in_every_run(adjacency, classes):
    budget = PrivacyBudget(60.0, 1e-4, adjacency=adjacency)
    model = search(model=DPLogisticRegression(classes=classes, bounds=(0, 1)), budget=budget)
    model.fit(TABLE, Y)
    assert len(budget.charges) == 1 and budget.remaining.delta == 0
    assert list(model.classes_) == ["no", "yes"]
    assert set(model.predict(TABLE)) <= {"no", "yes"}
    encoder = model.best_estimator_[0].named_transformers_["dponehotencoder"]
    assert [list(one) for one in encoder.categories_] == [["a", "b", "c"]]
    assert model.feature_names_in_.tolist() == ["age", "pay", "dept"]


def test_a_search_by_probabilities():
    model = search(scoring="neg_brier_score").fit(TABLE, Y)
    assert model.scorer_ == "neg_brier_score" and -0.5 < model.best_score_ < 0.1
    with pytest.raises(TypeError, match="predict_proba"):
        search(
            make_pipeline(SCALER_ALL, DPKMeans(2, bounds=(0, 1))), scoring="neg_brier_score"
        ).fit(TABLE[["age", "pay"]], Y)


def test_half_of_delta_is_for_what_runs_learn():
    stated = search(make_pipeline(encoding(DPOneHotEncoder(categories=[["a", "b"]])), MODEL))
    assert stated.run_cost().separate_delta == 0
    learned = search(n_runs=10)
    cost = learned.run_cost()
    assert cost.separate_delta == pytest.approx(1e-4 / 2 / 10)
    assert 0.9 * stated.set_params(n_runs=10).run_cost().mu < cost.mu < stated.run_cost().mu
    asked: list[Cost] = []

    class Watching(DPLogisticRegression):
        def fit(self, X, y, *, groups=None):
            super().fit(X, y, groups=groups)
            asked.append([one[0] for one in self.budget.asked if isinstance(one, tuple)])
            return self

    learned.set_params(
        estimator__dplogisticregression=Watching(classes=["no", "yes"], bounds=(0, 1))
    )
    learned.fit(TABLE, Y)
    assert asked
    for costs in asked:
        parts = [part for one in costs for part, _ in one.components]
        assert len(parts) == 2
        mu = sum(one.mu**2 for one in parts) ** 0.5
        assert mu <= cost.mu and mu == pytest.approx(cost.mu)
        apart = sum(one.separate_delta for one in parts)
        assert apart <= cost.separate_delta and apart == pytest.approx(cost.separate_delta)


def test_steps_that_release_nothing_get_nothing_of_a_run():
    model = search(make_pipeline(encoding(DPOneHotEncoder(categories=[["a", "b", "c"]])), MODEL))
    model.fit(TABLE, Y)
    assert model.run_cost().mu is None
    assert model.best_estimator_[-1].epsilon == pytest.approx(model.run_cost().epsilon)


def test_without_delta_what_is_learned_is_refused_with_the_step():
    with pytest.raises(ValueError, match=r"dponehotencoder.*delta"):
        search(delta=0.0, budget=PrivacyBudget(100)).fit(TABLE, Y)


def changed(column, value):
    table = TABLE.copy()
    table[column] = table[column].astype(object)
    table.loc[3, column] = value
    return table


NUMBERS = TABLE[["age", "pay"]]
LOG = FunctionTransformer(np.log)


@each(
    ("estimator", "table", "text"),
    [
        (None, changed("age", np.nan), "NaN"),
        (None, changed("age", np.inf), "infinity"),
        (None, changed("age", "old"), "must be numeric"),
        (None, TABLE.assign(dept=pd.Timestamp("2026-01-01")), "dates"),
        (None, NUMBERS, "dept"),
        (
            make_pipeline(encoding(columns=["age"], remainder="passthrough"), MODEL),
            changed("pay", "much"),
            "must be numeric",
        ),
        (
            make_pipeline(encoding(columns=["age"], remainder=SCALER), MODEL),
            changed("pay", np.nan),
            "NaN",
        ),
        (
            make_pipeline(
                encoding(DPOneHotEncoder(categories=[["a", "b"]], handle_unknown="error")), MODEL
            ),
            TABLE,
            "cannot transform X",
        ),
        (
            make_pipeline(encoding(DPOrdinalEncoder(encoded_missing_value=np.nan)), MODEL),
            TABLE,
            "encoded_missing_value must be a number",
        ),
        (make_pipeline(LOG, MODEL), NUMBERS.assign(age=0.0), "infinity"),
        (
            make_pipeline(FunctionTransformer(lambda X: X + "a"), MODEL),
            NUMBERS,
            "cannot transform X",
        ),
        (
            make_pipeline(
                FeatureUnion([("a", SCALER), ("b", DPStandardScaler(bounds=(0, 1e5)))]), MODEL
            ),
            changed("age", np.nan)[["age", "pay"]],
            "NaN",
        ),
        (
            make_pipeline(DPStandardScaler(bounds=(0, 1e5), nan_policy="omit"), MODEL),
            changed("age", np.nan)[["age", "pay"]],
            "NaN",
        ),
        (
            make_pipeline(DPSimpleImputer(bounds=(0, 1e5)), MODEL),
            changed("age", np.inf)[["age", "pay"]],
            "infinity",
        ),
        # What an imputer of text leaves, numbers are expected behind.
        (
            make_pipeline(DPSimpleImputer(strategy="most_frequent"), MODEL),
            changed("age", "x")[["age"]],
            "must be numeric",
        ),
        # NaN goes through two steps that leave it.
        (
            make_pipeline(
                DPStandardScaler(bounds=(0, 1e5), nan_policy="omit"),
                DPMinMaxScaler(bounds=(0, 1e5), nan_policy="omit"),
                MODEL,
            ),
            changed("age", np.nan)[["age", "pay"]],
            "NaN",
        ),
        (
            make_pipeline(
                ColumnTransformer(
                    [("s", DPStandardScaler(bounds=(0, 1)), [0, 1])],
                    transformer_weights={"s": 10.0},
                ),
                MODEL,
            ),
            NUMBERS,
            "transformer_weights",
        ),
        # Of a ColumnTransformer behind another one, what the first passes on is checked.
        (
            make_pipeline(
                encoding(columns=["age"], remainder="passthrough"),
                ColumnTransformer(
                    [("s", DPStandardScaler(bounds=(0, 1e5)), [0, 1])], remainder="passthrough"
                ),
                MODEL,
            ),
            changed("pay", np.nan),
            "NaN",
        ),
        # scikit-learn stacks no column with NA.
        (
            make_pipeline(
                encoding(columns=["age"], remainder="passthrough"),
                DPSimpleImputer(bounds=(0, 100)),
                MODEL,
            ),
            TABLE.assign(pay=pd.array([None, *[1] * (N - 1)], dtype="Int64")),
            "NaN",
        ),
        (
            search(make_pipeline(DPOrdinalEncoder(categories=[[1, 2]] * 2), MODEL)),
            NUMBERS,
            "search inside of a private search",
        ),
        (
            make_pipeline(encoding(OneHotEncoder(categories=[["a", "b", "c"]])), MODEL),
            TABLE,
            "sparse_threshold=0",
        ),
        (
            VotingClassifier([("a", DPLogisticRegression(classes=["no", "yes"]))]),
            NUMBERS,
            "classes_ are the labels",
        ),
    ],
)
def test_cells_that_steps_refuse_are_refused_before_the_charge(estimator, table, text):
    """Else each run that meets the cell would fail, and all of them do: one row would show."""
    budget = PrivacyBudget(100.0, 0.1)
    with pytest.raises((TypeError, ValueError), match=text):
        search(estimator, budget=budget).fit(table, Y)
    assert budget.charges == []


def test_targets_that_a_candidate_refuses_are_refused_before_the_charge():
    budget, y = PrivacyBudget(100.0, 0.1), np.linspace(0, 1, N)
    scoring = private_scorer("neg_mean_absolute_error", epsilon=1.0, bounds=2.0)
    ridge = DPRidge(bounds=(0, 1e5), target_bounds=(-9, 9))
    logs = TransformedTargetRegressor(ridge, func=np.log, inverse_func=np.exp, check_inverse=False)
    with pytest.raises(ValueError, match="func of TransformedTargetRegressor"):
        search(logs, scoring=scoring, budget=budget).fit(NUMBERS, y)
    # The last step is one of the candidate's own.
    steps = Pipeline([("s", DPMinMaxScaler(bounds=(0, 1e5))), ("m", "passthrough")])
    chosen = DPGridSearchCV(steps, {"m": [ridge]}, scoring=scoring, delta=1e-6, budget=budget)
    with pytest.raises(ValueError, match="y"):
        chosen.fit(NUMBERS, np.where(y == 0, np.nan, y))
    assert budget.charges == []


@each(
    ("estimator", "table"),
    [
        # Steps behind see all columns, not those of one part.
        (
            make_pipeline(
                encoding(scaler=DPStandardScaler(bounds=(0, 1e5))),
                DPMinMaxScaler(bounds=(np.zeros(5), np.full(5, 9.0))),
                MODEL,
            ),
            TABLE,
        ),
        (
            make_pipeline(
                encoding(DPOrdinalEncoder(), columns=["age"]),
                FunctionTransformer(lambda X: X[:, [0, 1]]),
                MODEL,
            ),
            TABLE,
        ),
        (
            make_pipeline(DPSimpleImputer(bounds=(0, 1e5)), MODEL),
            changed("age", np.nan)[["age", "pay"]],
        ),
        (None, changed("dept", None)),
        (
            make_pipeline(
                make_column_transformer(
                    (OneHotEncoder(categories=[["a", "b", "c"]], sparse_output=False), ["dept"]),
                    (
                        make_pipeline(
                            DPSimpleImputer(bounds=(0, 1e5)), SCALER.set_params(bounds=(0, 1e5))
                        ),
                        ["age", "pay"],
                    ),
                ),
                MODEL,
            ),
            changed("age", np.nan),
        ),
        (
            make_pipeline(
                ColumnTransformer(
                    [
                        ("n", "passthrough", make_column_selector(dtype_include=np.number)),
                        ("t", "drop", ["dept"]),
                    ]
                ),
                DPMinMaxScaler(bounds=(0, 1e5)),
                MODEL,
            ),
            TABLE,
        ),
    ],
)
@each("output", ["default", "pandas"])
def test_what_steps_take_is_taken(estimator, table, output):
    model = search(estimator)
    if estimator is None or output == "default":
        model.estimator.set_output(transform=output)
    model.fit(table, Y)
    assert model.predict(table).shape == (N,)


# --- scores of blocks ---------------------------------------------------------------------------


def fitted(estimator):
    budget = PrivacyBudget(1e6, 0.5)
    for name in estimator.get_params():
        if name.endswith("__delta"):
            estimator.set_params(**{name: 1e-3})
    for _, step in estimator.steps:
        assert step is not None
    with budget:
        return estimator.fit(TABLE, Y)


BLOCKS = {
    "one-hot": lambda: make_pipeline(encoding(), MODEL),
    "ordinal": lambda: make_pipeline(
        encoding(DPOrdinalEncoder(), DPStandardScaler(bounds=(0, 1e5))), MODEL
    ),
    "filled": lambda: make_pipeline(
        encoding(scaler=DPSimpleImputer(bounds=(0, 1e5))), SCALER_ALL, MODEL
    ),
    "named": lambda: make_pipeline(encoding(), MODEL).set_output(transform="pandas"),
    "projected": lambda: make_pipeline(encoding(), DPPCA(n_components=2, norm_bound=2.0), MODEL),
    "union": lambda: make_pipeline(encoding(), FeatureUnion([("a", "passthrough")]), MODEL),
}
SCALER_ALL = DPMinMaxScaler(bounds=(0, 1e5))


@pytest.mark.parametrize("case", BLOCKS)
def test_steps_give_each_row_its_own_bits(case):
    """In any block, whatever rows are beside it: the sensitivity rests on that."""
    model = fitted(BLOCKS[case]())
    assert _scorer._is_exact("accuracy", model, TABLE)
    rng = np.random.default_rng(1)

    def reached(rows):
        with exact_rows():
            for step in model[:-1]:
                rows = step.transform(rows)
        return np.asarray(rows, dtype=np.float64)

    whole = reached(TABLE)
    for _ in range(20):
        some = np.sort(rng.choice(N, size=rng.integers(1, N), replace=False))
        assert np.array_equal(reached(TABLE.iloc[some]), whole[some])
    accuracy = _scorer._METRICS["accuracy"][0]
    with exact_rows():
        alone = [accuracy(model, TABLE[i : i + 1], Y[i : i + 1])[0] for i in range(60)]
        assert np.array_equal(accuracy(model, TABLE[:60], Y[:60]), alone)


WIDE = RNG.normal(size=(400, 37)) * 10.0 ** RNG.uniform(-3, 3, 37)
LABELS = (WIDE / np.abs(WIDE).max(axis=0)).sum(axis=1) > 0
MODELS = [
    DPCategoricalNB(categories=[list(range(3))] * 37, classes=[0, 1]),
    DPExplainableBoostingClassifier(classes=[0, 1], bounds=(-1e3, 1e3)),
    DPExplainableBoostingRegressor(bounds=(-1e3, 1e3), target_bounds=(-1, 1)),
    DPGaussianNB(classes=[0, 1], bounds=(-1e3, 1e3)),
    DPLinearDiscriminantAnalysis(classes=[0, 1], bounds=(-1e3, 1e3)),
    DPLinearRegression(bounds=(-1e3, 1e3), target_bounds=(-1, 1)),
    DPLogisticRegression(classes=[0, 1], bounds=(-1e3, 1e3)),
    DPNearestCentroid(classes=[0, 1], bounds=(-1e3, 1e3)),
    DPRidge(bounds=(-1e3, 1e3), target_bounds=(-1, 1)),
]


@pytest.mark.parametrize("estimator", MODELS, ids=lambda one: type(one).__name__)
def test_models_give_each_row_its_own_bits(estimator):
    assert {type(one).__name__ for one in MODELS} == set(_scorer._EXACT)
    metric = "accuracy" if is_classifier(estimator) else "neg_mean_squared_error"
    assert _scorer._is_exact(metric, estimator, WIDE)
    rows = np.abs(WIDE).astype(int) % 3 if "Categorical" in type(estimator).__name__ else WIDE
    options = {"epsilon": 5.0, "budget": PrivacyBudget(10.0, 0.1)}
    if "delta" in estimator.get_params():
        options["delta"] = 1e-3
    model = clone(estimator).set_params(**options).fit(rows, LABELS.astype(int))
    numbers = model.predict_proba if is_classifier(model) else model.predict
    rng = np.random.default_rng(3)
    with exact_rows():
        whole = numbers(rows)
        for size in (1, 1, 2, 3, 7, 50, 399):
            some = np.sort(rng.choice(len(rows), size=size, replace=False))
            assert np.array_equal(numbers(rows[some]), whole[some])
    assert np.allclose(numbers(rows), whole, rtol=1e-9, atol=1e-9 * np.abs(whole).max())


BOX, CODES = {"bounds": (-1e3, 1e3)}, {"categories": [list(range(3))] * 37}
MAPS = [
    DPKBinsDiscretizer(6, encode="ordinal", **BOX),
    DPMedian(**BOX),
    DPMinMaxScaler(**BOX),
    DPOneHotEncoder(**CODES),
    DPOrdinalEncoder(**CODES),
    DPPCA(n_components=5, center=0.0, norm_bound=1e3),
    DPPCA(n_components=5, whiten=True),
    DPQuantile([0.1, 0.6], **BOX),
    DPQuantileTransformer(n_quantiles=9, output_distribution="normal", **BOX),
    DPQuantileTransformer(n_quantiles=40, bounds=(0, 0.1)),  # landmarks that coincide
    DPRobustScaler(**BOX),
    DPSelectKBest(k=20, classes=[0, 1], **BOX),
    DPSimpleImputer(**BOX),
    DPStandardScaler(**BOX),
    DPTargetEncoder(target_type="binary", **CODES),
]


@pytest.mark.parametrize("estimator", MAPS, ids=lambda one: type(one).__name__)
@each("dtype", [np.float64, np.float32])
def test_transformers_give_each_row_its_own_bits(estimator, dtype):
    """The oracle of scores of blocks: one row at a time."""
    assert {type(one).__name__ for one in MAPS} == set(_scorer._ROW_BY_ROW)
    assert _scorer._is_exact("accuracy", make_pipeline(estimator, MODELS[-1]), WIDE) is True
    coded = "Encoder" in type(estimator).__name__
    rows = (np.abs(WIDE).astype(int) % 3 if coded else WIDE).astype(dtype)
    rows[:20, :] *= 0  # ties with landmarks
    steps = clone(estimator).set_params(epsilon=5.0, budget=PrivacyBudget(10.0, 0.1), delta=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # bins that coincide
        steps.fit(rows, LABELS.astype(int))
    rng = np.random.default_rng(3)
    with exact_rows():
        alone = np.concatenate([steps.transform(rows[i : i + 1]) for i in range(60)])
        for size in (2, 3, 7, 8, 9, 33, 60, 399):
            some = np.r_[rng.permutation(60)[:size], rng.integers(60, 400, max(size - 60, 0))]
            for block in (rows[some], np.asfortranarray(rows[some])):
                assert steps.transform(block)[:60].tobytes() == alone[some[:60]].tobytes()
    whole = steps.transform(rows)[:60]
    near = np.finfo(dtype).eps * 50 * np.abs(whole).max()
    assert np.allclose(alone, whole, rtol=1e-6, atol=near)


def test_interpolation_in_any_block_is_that_of_numpy():
    rng = np.random.default_rng(0)
    for scale in (1.0, 1e-310, 1.7e308):
        for _ in range(200):
            marks = np.sort(rng.choice([-1.0, -0.5, 0.0, 0.3, 1.0], rng.integers(2, 8))) * scale
            levels = np.sort(rng.choice([0.0, 0.1, 0.5, 1.0], marks.size))
            values = np.append(rng.uniform(-1, 1, 20) * scale, [*marks, -np.inf, np.inf, np.nan])
            with np.errstate(all="ignore"), exact_rows():
                found = interpolated(values, marks, levels)
            assert np.allclose(found, np.interp(values, marks, levels), 1e-12, 0, equal_nan=True)


def test_labels_of_a_column_do_not_depend_on_missing_ones():
    big = 2**53 + 1
    for whole in (pl.Series([big, None, 3]), pd.Series([big, None, 3], dtype="Int64")):
        assert _scorer._labels(whole).tolist()[0] == big
        assert _scorer._labels(whole[:1]).tolist() == [big]


PASSING = make_pipeline(FeatureUnion([("p", "passthrough")]), DPOneHotEncoder(), MODEL)
WHOLE = [2**53 + 1] * N


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"x": pd.array(WHOLE, dtype="Int64")}),
        pl.DataFrame({"x": WHOLE}),
        pd.DataFrame({"x": pd.Categorical(WHOLE)}),
    ],
)
def test_columns_whose_type_a_missing_cell_decides_go_row_by_row(table):
    """scikit-learn stacks them as floats if one is missing, and others are then other numbers."""
    assert _scorer._is_exact("accuracy", PASSING, pd.DataFrame({"x": WHOLE}))
    assert not _scorer._is_exact("accuracy", PASSING, table)


class Mine(DPMinMaxScaler):
    """A subclass, whose code is not known."""


@pytest.mark.parametrize(
    "estimator",
    [
        make_pipeline(encoding(), PCA(2), MODEL),
        make_pipeline(encoding(scaler=Mine(bounds=(0, 1e5))), MODEL),
        make_pipeline(encoding(), FunctionTransformer(np.abs), MODEL),
        make_pipeline(encoding(DPOneHotEncoder(sparse_output=True), sparse_threshold=0), MODEL),
    ],
)
def test_of_other_steps_each_row_goes_alone(estimator):
    assert not _scorer._is_exact("accuracy", fitted(estimator), TABLE)


def test_users_code_gets_each_row_alone():
    estimator = make_pipeline(SCALER_ALL, DPTrainOnRelease(LogisticRegression()))
    assert not _scorer._is_exact("accuracy", estimator, TABLE)
    sparse = make_pipeline(DPKBinsDiscretizer(encode="onehot"), MODEL)
    assert not _scorer._is_exact("accuracy", sparse, TABLE)


def test_a_row_moves_a_score_of_blocks_no_further_than_declared():
    model = fitted(BLOCKS["one-hot"]())
    scorer = private_scorer("accuracy", epsilon=1.0)
    rng = np.random.default_rng(2)
    for _ in range(20):
        place = int(rng.integers(N))
        other, labels = TABLE.copy(), Y.copy()
        other.loc[place, "dept"], labels[place] = "zzz", "yes"
        with record() as a:
            scorer(model, TABLE, Y)
        with record() as b:
            scorer(model, other, labels)
        (one,), (two,) = a.entries, b.entries
        assert one.distance(one.exact, two.exact) <= one.sensitivity
