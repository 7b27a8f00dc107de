"""`check_pipeline`: what it finds, where it says it is, and silence where all is well."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    AdaBoostRegressor,
    BaggingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.experimental import enable_halving_search_cv, enable_iterative_imputer  # noqa: F401
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    HalvingGridSearchCV,
    KFold,
    LeaveOneOut,
    RandomizedSearchCV,
    StratifiedKFold,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    StandardScaler,
)
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.utils import all_estimators

from skdp import (
    DPPCA,
    DPKMeans,
    DPMinMaxScaler,
    DPQuantileTransformer,
    DPStandardScaler,
    DPSubsampleAggregate,
    PrivacyBudget,
    check_pipeline,
)
from skdp.density_ratio import DPuLSIF
from skdp.model_selection import PerRecordKFold, search_cost
from skdp.neighbors import DPHistogramDensity
from skdp.quantile import DPQuantile
from skdp.synthetic import DPEmpiricalCDF
from tests.folding import each
from tests.model_selection.findings import BUDGET, REMOVE, found, kmeans, places, scaler, scorer

X = np.random.default_rng(0).normal(size=(60, 3))


class Doubling(TransformerMixin, BaseEstimator):
    """Resamples, as the steps of imbalanced-learn do."""

    def fit(self, X, y=None):
        return self

    def fit_resample(self, X, y):
        return np.vstack([X, X]), np.hstack([y, y])


# --- nothing to be found ------------------------------------------------------------------------

FINE = {
    "an estimator": kmeans(),
    "a pipeline": make_pipeline(scaler(), DPPCA(2, budget=BUDGET), kmeans()),
    "steps that are left out": Pipeline([("a", "passthrough"), ("b", None), ("c", kmeans())]),
    "steps that learn nothing": make_pipeline(
        Normalizer(),
        PolynomialFeatures(),
        FunctionTransformer(np.log1p),
        FunctionTransformer(),
        OneHotEncoder(categories=[["a", "b"]], handle_unknown="ignore"),
        SimpleImputer(strategy="constant", fill_value=0.0, keep_empty_features=True),
        scaler(),
    ),
    "columns": make_pipeline(
        ColumnTransformer(
            [("a", scaler(), ["x", "y"]), ("b", "drop", [1])], remainder="passthrough"
        ),
        kmeans(),
    ),
    "a union": FeatureUnion([("a", scaler()), ("b", DPPCA(1, budget=BUDGET)), ("c", "drop")]),
    "what is never fitted again": make_pipeline(FrozenEstimator(StandardScaler().fit(X)), kmeans()),
    "any estimator on blocks": DPSubsampleAggregate(
        make_pipeline(StandardScaler(), RandomForestClassifier(bootstrap=True)),
        public=X,
        budget=BUDGET,
    ),
    "a target": TransformedTargetRegressor(
        DPSubsampleAggregate(LinearRegression(), public=X, bounds=(0, 1), budget=BUDGET),
        func=np.log1p,
        inverse_func=np.expm1,
        check_inverse=False,
    ),
    "a search": GridSearchCV(kmeans(), {"n_clusters": [2, 3]}, scoring=scorer(), cv=KFold(3)),
    "a search under add-or-remove": GridSearchCV(
        kmeans(REMOVE), {"n_clusters": [2, 3]}, scoring=scorer(REMOVE), cv=PerRecordKFold(3)
    ),
    "a search in a pipeline": make_pipeline(
        scaler(), GridSearchCV(kmeans(), {"n_clusters": [2]}, scoring=scorer(), cv=3)
    ),
}


@each("name", FINE)
def test_nothing_is_found_where_all_is_well(name):
    assert found(FINE[name]) == []
    assert not check_pipeline(FINE[name])


# --- steps that are not private -----------------------------------------------------------------


@each(
    ("estimator", "where", "way_out"),
    [
        (
            make_pipeline(StandardScaler(), kmeans()),
            "standardscaler (StandardScaler)",
            "DPStandardScaler",
        ),
        (make_pipeline(scaler(), KMeans()), "kmeans (KMeans)", "DPKMeans"),
        (make_pipeline(scaler(), PCA(2)), "pca (PCA)", "DPPCA"),
        (
            make_pipeline(make_pipeline(scaler(), LogisticRegression())),
            "pipeline__logisticregression (LogisticRegression)",
            "DPLogisticRegression",
        ),
        (
            ColumnTransformer(
                [("age", MinMaxScaler(), ["age", "height"]), ("rest", scaler(), [2])]
            ),
            "age (MinMaxScaler), columns ['age', 'height']",
            "DPMinMaxScaler",
        ),
        (
            ColumnTransformer([("all", MinMaxScaler(), make_column_selector())]),
            "all (MinMaxScaler), columns chosen by make_column_selector",
            "DPMinMaxScaler",
        ),
        (
            ColumnTransformer([("a", scaler(), [0])], remainder=OneHotEncoder()),
            "remainder (OneHotEncoder), columns 'all others'",
            "categories=",
        ),
        (FeatureUnion([("a", scaler()), ("b", PCA())]), "b (PCA)", "DPPCA"),
        (
            TransformedTargetRegressor(
                DPSubsampleAggregate(LinearRegression(), public=X, bounds=(0, 1), budget=BUDGET),
                transformer=StandardScaler(),
            ),
            "transformer (StandardScaler)",
            "DPStandardScaler",
        ),
        (
            VotingRegressor([("a", LinearRegression())]),
            "a (LinearRegression)",
            "DPLinearRegression",
        ),
        (
            GridSearchCV(make_pipeline(PCA(), kmeans()), {}, scoring=scorer(), cv=KFold(2)),
            "estimator__pca (PCA)",
            "DPPCA",
        ),
        (  # a candidate brings the step
            GridSearchCV(
                make_pipeline(scaler(), kmeans()),
                {"dpstandardscaler": [scaler(), "passthrough", StandardScaler()]},
                scoring=scorer(),
                cv=KFold(2),
            ),
            "estimator__dpstandardscaler (StandardScaler)",
            "DPStandardScaler",
        ),
        (GaussianProcessRegressor(), "GaussianProcessRegressor", "DPSubsampleAggregate"),
        (SimpleImputer(), "SimpleImputer", "fill_value"),
        (SimpleImputer(strategy="constant", add_indicator=True), "SimpleImputer", "fill_value"),
        (SimpleImputer(strategy="constant"), "SimpleImputer", "keep_empty_features=True"),
        (OneHotEncoder(categories=[["a"]], min_frequency=2), "OneHotEncoder", "categories"),
    ],
)
def test_a_step_that_is_not_private(estimator, where, way_out):
    (one,) = (f for f in check_pipeline(estimator) if f.severity == "high")
    assert one.where == where
    assert "without noise" in one.what
    assert way_out in one.way_out


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_any_estimator_of_scikit_learn_can_be_looked_at():
    for name, kind in all_estimators():
        for params in ({}, {"estimator": kmeans()}, {"estimators": [("a", kmeans())]}):
            try:
                made = kind(**params)
            except TypeError:
                continue  # takes no such parameter
            if params:
                assert any("DPKMeans" in repr(v) for v in made.get_params(deep=False).values())
            assert isinstance(repr(check_pipeline(made)), str), name


def test_a_function_is_not_looked_into():
    (one,) = check_pipeline(make_pipeline(FunctionTransformer(lambda X: X - X.mean(0)), kmeans()))
    assert (one.severity, one.where) == ("low", "functiontransformer (FunctionTransformer)")


def test_what_passes_for_learning_nothing_answers_row_by_row():
    """Every transformer of scikit-learn that is passed: fitted on other rows, it does the same."""
    rows = np.abs(X) + 1.0
    for name, kind in all_estimators(type_filter="transformer"):
        try:
            made = kind()
        except TypeError:
            continue  # needs what we do not know
        if check_pipeline(made) or name in ("FeatureHasher", "HashingVectorizer"):
            continue  # hash text
        if "random_state" in made.get_params():
            made.set_params(random_state=0)  # what it draws does not depend on rows either
        one, other = clone(made).fit(rows), clone(made).fit(rows[:30] * 100)
        whole = one.transform(rows)
        np.testing.assert_array_equal(whole, other.transform(rows), err_msg=name)
        alone = np.vstack([one.transform(rows[i : i + 1]) for i in range(3)])
        np.testing.assert_allclose(np.asarray(whole)[:3], alone, atol=1e-9, err_msg=name)


# --- meta-estimators and resampling -------------------------------------------------------------


def voter():
    return DPSubsampleAggregate(LogisticRegression(), public=X, budget=BUDGET)


@each(
    ("estimator", "word"),
    [
        (BaggingClassifier(voter()), "counts several times"),
        (BaggingClassifier(voter(), bootstrap=False, max_samples=0.5), "drawn by position"),
        (AdaBoostRegressor(voter()), "counts several times"),
        (StackingClassifier([("a", voter())]), "final_estimator"),
        (OneVsRestClassifier(voter()), "once for each class"),
        (MultiOutputClassifier(voter()), "each column of y"),
        (SelfTrainingClassifier(voter()), "as often as private rows"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_meta_estimator_with_a_private_one_inside(estimator, word):
    name = type(estimator).__name__
    # It shows nothing without noise, but nobody can price it.
    severity = "medium" if name == "MultiOutputClassifier" else "high"
    assert [where for where, what in found(estimator, severity) if word in what] == [name]
    (one,) = (f for f in check_pipeline(estimator) if f.where == name)
    assert name in one.way_out
    with pytest.raises(TypeError, match="how often") as caught:
        search_cost(GridSearchCV(estimator, {}, cv=KFold(2)))
    assert word in str(caught.value)


def test_resampling():
    pipe = Pipeline([("more", Doubling()), ("scale", scaler())])
    assert [where for where, what in found(pipe) if "counts several times" in what] == [
        "more (Doubling)"
    ]
    imblearn = pytest.importorskip("imblearn")
    from imblearn.over_sampling import SMOTE

    assert imblearn
    from imblearn.pipeline import make_pipeline as imb

    pipe = imb(SMOTE(), scaler(), voter())
    assert [where for where, what in found(pipe) if "counts several times" in what] == [
        "smote (SMOTE)"
    ]


def test_memory_classes_and_checks_of_inverses():
    target = TransformedTargetRegressor(
        DPSubsampleAggregate(LinearRegression(), public=X, bounds=(0, 1), budget=BUDGET),
        func=np.exp,
        inverse_func=np.log,
    )
    ((where, what),) = found(target, "medium")
    assert where == "TransformedTargetRegressor"
    assert "check_inverse" in what
    votes = [("a", DPSubsampleAggregate(LogisticRegression(), public=X, budget=BUDGET))]
    assert "classes_" in found(VotingClassifier(votes), "medium")[0][1]
    assert places(Pipeline([("a", scaler())], memory="nowhere"), "medium") == ["Pipeline"]


# --- searches -----------------------------------------------------------------------------------


@each(
    ("budget", "cv", "severity", "word"),
    [
        (BUDGET, StratifiedKFold(3), "medium", "labels"),
        (BUDGET, GroupKFold(3), "medium", "groups"),
        (BUDGET, PerRecordKFold(3), "medium", "add_or_remove_one"),
        (REMOVE, KFold(3), "medium", "only PerRecordKFold"),
        (REMOVE, LeaveOneOut(), "high", "tell the number of rows"),
        (BUDGET, [([0, 0, 1], [2])], "high", "more than once"),
    ],
)
def test_a_splitter(budget, cv, severity, word):
    search = GridSearchCV(kmeans(budget), {}, scoring=scorer(budget), cv=cv)
    ((where, what),) = found(search, severity)
    assert where == "GridSearchCV"
    assert word in what


def test_halving_under_add_or_remove():
    search = HalvingGridSearchCV(kmeans(REMOVE), {"n_clusters": [2]}, scoring=scorer(REMOVE))
    (one,) = check_pipeline(make_pipeline(scaler(REMOVE), search))
    assert (one.severity, one.where) == ("high", "halvinggridsearchcv (HalvingGridSearchCV)")
    assert "PerRecordKFold" in one.way_out


def test_a_scorer_that_is_not_private():
    for scoring in (None, "accuracy", {"a": scorer(), "b": "accuracy"}):
        search = GridSearchCV(kmeans(), {}, scoring=scoring, refit=False, cv=KFold(2))
        ((where, what),) = found(search)
        assert where == "GridSearchCV"
        assert "private folds" in what


def test_candidates_that_are_not_known():
    from scipy import stats

    search = RandomizedSearchCV(
        make_pipeline(StandardScaler(), kmeans()),
        {"dpkmeans__epsilon": stats.uniform(0.5, 1)},
        scoring=scorer(),
        cv=KFold(2),
    )
    assert places(search) == ["estimator__standardscaler (StandardScaler)"]
    assert "candidates are not known" in found(search, "medium")[0][1]


# --- the result ---------------------------------------------------------------------------------


def test_the_result_is_a_sequence_worst_first():
    check = check_pipeline(make_pipeline(StandardScaler(), kmeans(max_iter=300), kmeans(None)))
    assert [one.severity for one in check] == ["high", "high", "low"]
    assert len(check) == 3
    assert bool(check)
    assert check[0] in check
    text = repr(check)
    assert text.startswith("check_pipeline: 3 findings\n  [high] standardscaler (StandardScaler):")
    assert "Instead: DPStandardScaler." in text


def test_the_html_escapes_and_is_in_that_of_a_price():
    search = GridSearchCV(
        Pipeline([("<b>", StandardScaler()), ("k", kmeans())]), {"k__n_clusters": [2, 3]}, cv=2
    )
    check = check_pipeline(search)
    page = check._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    cost = search_cost(search)
    assert list(cost.findings) == list(check)
    assert page in cost._repr_html_()
    assert "5 fits" in cost._repr_html_()
    assert "nothing found" in check_pipeline(kmeans())._repr_html_()


def test_nothing_is_changed_charged_or_fitted():
    budget = PrivacyBudget(1.0)
    search = GridSearchCV(make_pipeline(PCA(), kmeans(budget)), {"pca__n_components": [1, 2]})
    before = repr(search)
    check_pipeline(search)
    assert (repr(search), budget.charges) == (before, [])
    assert not hasattr(search, "best_estimator_")


@pytest.mark.parametrize("wrong", [None, "kmeans", DPKMeans, 3, [kmeans()]])
def test_what_is_no_estimator_is_refused(wrong):
    with pytest.raises(TypeError, match="estimator must be an estimator or a search"):
        check_pipeline(wrong)


def test_aggregates_need_public_rows():
    tree = DPSubsampleAggregate(LinearRegression(), bounds=(0, 1), budget=BUDGET)
    ((_, what),) = found(tree, "high")
    assert "no public rows" in what
    assert found(tree.set_params(public=X)) == []


@each(
    ("wrong", "word"),
    [
        (DPKMeans(n_clusters=0), "n_clusters"),
        (DPKMeans(n_clusters=2.5), "n_clusters"),
        (DPKMeans(algorithm="elkan"), "algorithm"),
        (DPKMeans(max_iter=-1), "max_iter"),
        (DPKMeans(epsilon=1e-30), "epsilon"),
        (DPKMeans(epsilon=1e16), "epsilon"),
        (DPKMeans(bounds=(1, 0)), "bounds"),
        (DPKMeans(bounds="auto"), "bounds"),
        (DPKMeans(bounds=None), "bounds"),
        (DPKMeans(bounds=[(0, 1)] * 3), "bounds"),
        (DPPCA(noise="gaussian"), "noise"),
        (DPPCA(norm_bound=-1), "norm_bound"),
        (DPPCA(n_components=1.5), "n_components"),
        (DPStandardScaler(bounds=([0, 1], [1, 0])), "bounds"),
        (DPStandardScaler(with_mean="no"), "with_mean"),
        (DPMinMaxScaler(feature_range=(1, 0)), "feature_range"),
        (DPQuantile([2.0]), "q must"),
        (DPQuantile(step=-1), "step"),
        (DPQuantileTransformer(bounds={"a": (1, 0)}), "bounds"),
        (DPHistogramDensity(bounds="auto"), "bounds"),
        (DPEmpiricalCDF(n_cells=0), "n_cells"),
        (DPuLSIF(n_centers=0), "n_centers"),
        (DPSubsampleAggregate(KMeans(), public=X), "estimator"),
    ],
)
def test_what_every_fit_refuses_is_named_by_step(wrong, word):
    wrong.budget = BUDGET
    before = wrong.get_params(deep=False)
    pipe = Pipeline([("first", scaler()), ("second", wrong)])
    where, what = found(pipe, "high")[0]
    assert where == f"second ({type(wrong).__name__})"
    assert word in what
    y = np.arange(len(X)) % 2
    with pytest.raises((TypeError, ValueError), match=word):  # and it is true
        wrong.fit(X, y)
    assert BUDGET.charges == []
    assert wrong.get_params(deep=False) == before
