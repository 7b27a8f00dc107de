"""Every estimator under the contract, and the one table of failures that are expected.

A new estimator joins by an entry in `CASES`, a new function of `skdp.statistics` by one in `CALLS`;
nothing else in this folder names them, except for the worst pairs of `test_neighbour` and
`test_audit`, which are theirs. `test_complete` walks the package for what is missing here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, is_classifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import validate_data

from skdp import metrics, statistics
from skdp.base import PrivateMixin, check_bounds
from skdp.budget import PrivacyBudget
from skdp.cluster import DPKMeans
from skdp.core import Box, Mean, Session, open_session
from skdp.decomposition import DPPCA
from skdp.density_ratio import DPLogisticRatio, DPuLSIF
from skdp.discriminant_analysis import DPLinearDiscriminantAnalysis
from skdp.ensemble import (
    DPExplainableBoostingClassifier,
    DPExplainableBoostingRegressor,
    DPRandomForestClassifier,
    DPSubsampleAggregate,
    DPTrainOnRelease,
)
from skdp.feature_selection import DPSelectKBest
from skdp.impute import DPSimpleImputer
from skdp.linear_model import DPLinearRegression, DPLogisticRegression, DPRidge
from skdp.model_selection import DPGridSearchCV, DPRandomizedSearchCV, private_scorer
from skdp.naive_bayes import DPCategoricalNB, DPGaussianNB
from skdp.neighbors import DPHistogramDensity, DPKernelDensity, DPNearestCentroid
from skdp.preprocessing import (
    DPKBinsDiscretizer,
    DPMinMaxScaler,
    DPOneHotEncoder,
    DPOrdinalEncoder,
    DPStandardScaler,
)
from skdp.quantile import DPMedian, DPQuantile, DPQuantileTransformer, DPRobustScaler
from skdp.synthetic import (
    Bins,
    DPEmpiricalCDF,
    DPMarginalSynthesizer,
    MWEMReleaser,
    PrivateMultiplicativeWeights,
    SmallDBReleaser,
    conjunctions,
    thresholds,
)
from skdp.tabular import Rows, check_samples
from tests.views import box_of

RELATIONS = ("replace_one", "add_or_remove_one")
DELTAS = (0.0, 1e-5)


class Toy(TransformerMixin, PrivateMixin, BaseEstimator):
    """The smallest private estimator: it subtracts a private mean. Twins below break its rules."""

    def __init__(
        self,
        *,
        bounds: Any = (-1.0, 1.0),
        epsilon: float = 1.0,
        delta: float = 0.0,
        max_rows_per_unit: Any = "private",
        budget: PrivacyBudget | None = None,
        random_state: Any = None,
    ) -> None:
        self.bounds = bounds
        self.epsilon = epsilon
        self.delta = delta
        self.max_rows_per_unit = max_rows_per_unit
        self.budget = budget
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Toy:
        with self._all_or_nothing(groups):
            rows = self._open(X)
            low, high = check_bounds(self.bounds, rows.n_features)
            with self._session(rows) as session:
                self.mean_ = session.answer(Mean(box_of(session, low, high)), self._share(X)).value
                self.privacy_ = session.certificate()
        return self

    def _share(self, X: Any) -> float | None:
        return None

    def transform(self, X: Any) -> Any:
        return self._public_array(X) - self.mean_


class ToyRatio(PrivateMixin, BaseEstimator):
    """The smallest estimator of two samples: a private mean beside the public rows' own."""

    def __init__(
        self,
        *,
        bounds: Any = (-1.0, 1.0),
        epsilon: float = 1.0,
        delta: float = 0.0,
        max_rows_per_unit: Any = "private",
        budget: PrivacyBudget | None = None,
        random_state: Any = None,
    ) -> None:
        self.bounds = bounds
        self.epsilon = epsilon
        self.delta = delta
        self.max_rows_per_unit = max_rows_per_unit
        self.budget = budget
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def fit(self, X: Any, y: Any, *, groups: Any = None) -> ToyRatio:
        with self._all_or_nothing(groups):
            self._check_privacy_parameters()
            rows, public = check_samples(
                X, y, estimator=type(self).__name__, allow_empty=self._allow_empty
            )
            validate_data(self, X, skip_check_array=True)
            self.low_, self.high_ = check_bounds(self.bounds, rows.n_features)
            with self._session(rows) as session:
                self.mean_ = session.answer(Mean(self._view(session))).value
                self.privacy_ = session.certificate()
            self.public_mean_ = np.clip(public, self.low_, self.high_).mean(axis=0)
        return self

    def _view(self, session: Session) -> Box:
        return box_of(session, self.low_, self.high_)

    def predict(self, X: Any) -> Any:
        """Return weights: larger on the private mean's side."""
        rows = np.clip(self._public_array(X), self.low_, self.high_)
        return np.exp((rows * (self.mean_ - self.public_mean_)).sum(axis=1))

    def score(self, X: Any, y: Any) -> float:
        weights, private = self.predict(X), np.asarray(y) == 1
        return float(weights[private].sum() - weights[~private].sum())


class _Marked:
    """Fits an estimator of two samples on whatever targets scikit-learn's checks bring.

    Rows are marked in turn, public and private, because marks other than 0 and 1 are refused.
    None and targets of another length go through as they are.
    """

    def fit(self, X: Any, y: Any = None) -> Any:
        return super().fit(X, _in_turn(X, y))  # type: ignore[misc]

    def score(self, X: Any, y: Any = None) -> float:
        return super().score(X, _in_turn(X, y))  # type: ignore[misc]


def _in_turn(X: Any, y: Any) -> Any:
    n = np.shape(X)[0] if np.ndim(X) else 0
    return np.arange(n) % 2 if np.ndim(y) and len(y) == n else y


class MarkedToyRatio(_Marked, ToyRatio):
    pass


class MarkedDPuLSIF(_Marked, DPuLSIF):
    pass


class MarkedDPLogisticRatio(_Marked, DPLogisticRatio):
    pass


class CheckedAggregate(DPSubsampleAggregate):
    """States what is public from the rows that scikit-learn's checks bring, whatever they are."""

    def fit(self, X: Any, y: Any = None) -> Any:
        stated = self.classes, self.public, self.bounds
        try:
            self.public, self.bounds, self.classes = np.zeros((5, 1)), (-1.0, 1.0), [0, 1]
            try:
                table, targets = np.asarray(X), np.asarray(y)
                if np.iscomplexobj(table) or np.iscomplexobj(targets):
                    raise TypeError
                self.public = table.astype(float)
                if is_classifier(self.estimator):
                    found = np.unique(targets)
                    self.classes = found if len(found) > 1 else [0, 1]
                elif self.output == "predictions":
                    self.bounds = float(np.min(targets)), float(np.max(targets))
                else:
                    self.bounds = (-100.0, 100.0)
            except (TypeError, ValueError):
                pass  # bad input, which the fit has to refuse
            return super().fit(X, y)
        finally:
            self.classes, self.public, self.bounds = stated


class WeightedRidge(DPRidge):
    """A row's weight is told by its second cell."""

    def fit(self, X: Any, y: Any, *, groups: Any = None) -> Any:
        return super().fit(X, y, sample_weight=1.0 + np.asarray(X)[:, 1], groups=groups)


class CheckedVote(CheckedAggregate):
    pass


class CheckedPrediction(CheckedAggregate):
    pass


class CheckedParameters(CheckedAggregate):
    pass


class _Classes:
    """States the classes that scikit-learn's checks bring, whatever they are."""

    def fit(self, X: Any, y: Any = None) -> Any:
        stated, self.classes = self.classes, [0, 1]
        try:
            try:
                found = np.unique(np.asarray(y))
                self.classes = found if y is not None and len(found) > 1 else [0, 1]
            except (TypeError, ValueError):
                pass  # bad input, which the fit has to refuse
            return super().fit(X, y)  # type: ignore[misc]
        finally:
            self.classes = stated


class CheckedBoosting(_Classes, DPExplainableBoostingClassifier):
    pass


class CheckedForest(_Classes, DPRandomForestClassifier):
    pass


class CheckedLogisticRegression(_Classes, DPLogisticRegression):
    pass


class CheckedGaussianNB(_Classes, DPGaussianNB):
    pass


class CheckedNearestCentroid(_Classes, DPNearestCentroid):
    pass


class CheckedDiscriminantAnalysis(_Classes, DPLinearDiscriminantAnalysis):
    pass


class CheckedSelectKBest(_Classes, DPSelectKBest):
    pass


class _Categories:
    """States the categories that scikit-learn's checks bring, whatever they are."""

    def fit(self, X: Any, y: Any = None) -> Any:
        stated, self.categories = self.categories, [[0.0]]
        try:
            try:
                table = np.asarray(X)
                if table.ndim == 2 and not np.iscomplexobj(table):
                    self.categories = [np.unique(one.astype(float)) for one in table.T]
            except (TypeError, ValueError):
                pass  # bad input, which the fit has to refuse
            return super().fit(X, y)  # type: ignore[misc]
        finally:
            self.categories = stated


class CheckedOneHotEncoder(_Categories, DPOneHotEncoder):
    pass


class CheckedOrdinalEncoder(_Categories, DPOrdinalEncoder):
    pass


class CheckedCategoricalNB(_Classes, DPCategoricalNB):
    """States the categories, too."""

    def fit(self, X: Any, y: Any = None) -> Any:
        stated, self.categories = self.categories, [[0.0]]
        try:
            try:
                table = np.asarray(X)
                if table.ndim == 2 and not np.iscomplexobj(table):
                    columns = table.astype(float).T
                    self.categories = [
                        np.unique(one[np.isfinite(one)]) if np.isfinite(one).any() else [0.0]
                        for one in columns
                    ]
            except (TypeError, ValueError):
                pass  # bad input, which the fit has to refuse
            return super().fit(X, y)
        finally:
            self.categories = stated


class CheckedTrainOnRelease(DPTrainOnRelease):
    """States the domain of what scikit-learn's checks bring, whatever it is."""

    def fit(self, X: Any, y: Any = None) -> Any:
        stated, self.domain = self.domain, 2
        try:
            try:
                table, targets = np.asarray(X), np.asarray(y)
                if table.ndim == 2 and not np.iscomplexobj(table):
                    columns: list[Any] = []
                    for one in table.astype(float).T:
                        good = one[np.isfinite(one)]
                        low, high = (good.min(), good.max()) if good.size else (0.0, 1.0)
                        columns.append(Bins.regular(float(low) - 0.01, float(high) + 0.01, 6))
                    classes = [0, 1]
                    if y is not None:
                        found = np.unique(targets)
                        classes = found if len(found) > 1 else classes
                    self.domain = [*columns, classes]
            except (TypeError, ValueError):
                pass  # bad input, which the fit has to refuse
            return super().fit(X, y)
        finally:
            self.domain = stated


@dataclass(frozen=True)
class Case:
    """An estimator as the contract meets it.

    Attributes
    ----------
    name : str
    make : callable
        Makes an unfitted estimator from keyword-only privacy parameters; rows of the contract lie
        around [-1, 1], and far outside of it too.
    sklearn : bool
        Whether scikit-learn's checks run on it; configurations of one class need them once.
    n_features : int
        Of the rows that it is tested on.
    samples : bool
        Whether it is fitted on two samples, of which the rows with y = 1 alone are private.
    marked : callable or None
        Of two samples, and of labels: what scikit-learn's checks run on, since they bring any y.
    labels : callable or None
        From rows to their private labels, each decided by its row.
    relations : tuple of str
        Under which there are releases; a function may have none, or no meaning, under the other.
    """

    name: str
    make: Callable[..., Any]
    sklearn: bool = False
    n_features: int = 3
    samples: bool = False
    marked: Callable[..., Any] | None = None
    labels: Callable[[np.ndarray], np.ndarray] | None = None
    relations: tuple[str, ...] = RELATIONS

    def checked(self, **privacy: Any) -> Any:
        """Return what scikit-learn's checks run on."""
        return (self.marked or self.make)(**privacy)

    def table(self, private: np.ndarray, places: int = 0) -> tuple[np.ndarray, np.ndarray | None]:
        """Return (X, y) of these private rows, with the same public ones wherever it has such."""
        if self.labels is not None:
            return private, self.labels(private)
        if not self.samples:
            return private, None
        return two_samples(private, rows(N_PUBLIC, self.n_features, 11), places)


N_PUBLIC = 9


def two_samples(
    private: np.ndarray, public: np.ndarray, places: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return (X, y): both samples in their order, y = 1 private, shuffled by the number `places`.

    Tables of as many rows and of one `places` have the same y.
    """
    y = np.repeat([1, 0], [len(private), len(public)])
    np.random.default_rng(places).shuffle(y)
    X = np.empty((y.size, public.shape[1]))
    X[y == 1], X[y == 0] = private, public
    return X, y


def _pipeline(**privacy: Any) -> Any:
    return make_pipeline(
        DPStandardScaler(bounds=(-1, 1), **privacy),
        DPPCA(2, norm_bound=4.0, center=0.0, **privacy),
        DPKMeans(2, bounds=(-4, 4), **privacy),
    )


def _ratio(name: str, **parameters: Any) -> Case:
    return Case(name, lambda **p: DPuLSIF(**parameters, **p), samples=True)


def _smooth(**privacy: Any) -> Any:
    noise = "laplace" if privacy.get("delta", 0.0) > 0 else "student"
    return DPMedian(bounds=(-1, 1), mechanism="smooth", noise=noise, **privacy)


SPLINES = {"basis": SplineTransformer(4), "basis_bounds": (0.0, 1.0)}  # any row's lie in there


def _two(X: np.ndarray) -> np.ndarray:
    return np.where(X[:, 0] > 0.1, "yes", "no")


def _three(X: np.ndarray) -> np.ndarray:
    return (X[:, 0] > 0.1) + 1 * (X[:, 1] > 0.0) + 4 * (X[:, 2] > 1.0)  # the last is no class


def _aggregate(name: str, model: Any, labels: Any, **parameters: Any) -> Case:
    options = {
        "public": np.random.default_rng(11).normal(0, 0.7, (6, 3)),
        "n_blocks": 3,
        **parameters,
    }
    return Case(name, lambda **p: DPSubsampleAggregate(model, **options, **p), labels=labels)


def _checked(name: str, cls: type, model: Any, labels: Any, **options: Any) -> Case:
    """Return a case whose checks, which demand accuracy at n = 100, have hardly any noise."""
    case = _aggregate(name, model, labels, **options)
    return replace(
        case,
        sklearn=True,
        marked=lambda **p: cls(
            model, epsilon=1e5, output=options.get("output", "predictions"), **p
        ),
    )


THREES = conjunctions(3)
HALVES, TENTHS = Bins.regular(-1, 1, 2), Bins.regular(-1, 1, 20)


def _with_delta(privacy: dict[str, Any]) -> dict[str, Any]:
    """Return parameters with a delta, without which nothing is selected."""
    return {**privacy, "delta": max(privacy["delta"], 1e-6)}


def _search(cls: type, *choices: Any, **privacy: Any) -> Any:
    budget = privacy.get("budget")
    inertia = private_scorer("neg_inertia", epsilon=1.0, bounds=12.0, budget=budget)
    estimator = DPKMeans(2, bounds=(-1, 1), algorithm="lloyd", max_iter=1, budget=budget)
    return cls(estimator, *choices, scoring=inertia, n_runs=2, **privacy)


def _small_db(name: str, queries: Any, **parameters: Any) -> Case:
    features = {"n_features": 1} if parameters["domain"] is TENTHS else {}
    return Case(name, lambda **p: SmallDBReleaser(queries, **parameters, **p), **features)


class AskedOnline(PrivateMultiplicativeWeights):
    """Asks in its fit whether each column is in its upper half, until its updates are used up."""

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Any:
        super().fit(X, groups=groups)
        self.answers_ = []
        try:
            for j in 2 * list(range(self.n_features_in_)):
                if self.n_updates_left_:
                    one = conjunctions(1, monotone=True, columns=[j])
                    self.answers_.append(self.answer(one))
        finally:
            self.close()
        return self


CASES = (
    Case("toy", Toy, sklearn=True),
    Case("standard_scaler", lambda **p: DPStandardScaler(bounds=(-1, 1), **p)),
    Case("standard_scaler_private", DPStandardScaler, sklearn=True),
    Case("minmax_scaler", DPMinMaxScaler, sklearn=True),
    Case("minmax_scaler_stated", lambda **p: DPMinMaxScaler(bounds=(-1, 1), **p)),
    Case("pca", lambda **p: DPPCA(norm_bound=1.0, center=0.0, **p)),
    Case("pca_private", DPPCA, sklearn=True),
    Case("pca_laplace", lambda **p: DPPCA(norm_bound=1.0, noise="laplace", **p)),
    Case("pca_wishart", lambda **p: DPPCA(1, norm_bound=1.0, noise="wishart", **p)),
    Case("kmeans", lambda **p: DPKMeans(2, bounds=(-1, 1), **p)),
    Case("kmeans_private", DPKMeans, sklearn=True),
    Case("kmeans_lloyd", lambda **p: DPKMeans(2, algorithm="lloyd", **p), sklearn=True),
    # Enough epsilon for the subspace not to be given up, features enough for there to be one.
    Case(
        "kmeans_subspace",
        lambda **p: DPKMeans(2, bounds=(-1, 1), **{**p, "epsilon": 50.0}),
        n_features=13,
    ),
    Case("pipeline", _pipeline),
    Case("median", DPMedian, sklearn=True),
    Case("median_step", lambda **p: DPMedian(bounds=(-1, 1), step=0.25, **p)),
    Case("median_smooth", lambda **p: DPMedian(mechanism="smooth", **p), sklearn=True),
    Case("median_smooth_stated", _smooth),
    Case("median_global", lambda **p: DPMedian(bounds=(-1, 1), mechanism="global", **p)),
    Case("quantile", DPQuantile, sklearn=True),
    Case("quantile_stated", lambda **p: DPQuantile((0, 0.5, 0.9, 1), bounds=(-1, 1), **p)),
    Case("quantile_log", lambda **p: DPQuantile(0.3, prior="log", **p)),
    Case("robust_scaler", DPRobustScaler, sklearn=True),
    Case("quantile_transformer", DPQuantileTransformer, sklearn=True),
    Case(
        "quantile_normal",
        lambda **p: DPQuantileTransformer(
            n_quantiles=6, bounds=(-1, 1), step=0.1, output_distribution="normal", **p
        ),
    ),
    Case("kernel_density", DPKernelDensity, sklearn=True),
    Case(
        "kernel_density_stated",
        lambda **p: DPKernelDensity(bandwidth=1.5, bounds=(-1, 1), features="kernel", **p),
    ),
    Case(
        "kernel_density_cells",
        lambda **p: DPKernelDensity(bandwidth=1.0, bounds=(-1, 1), features="cells", **p),
    ),
    Case("histogram_density", DPHistogramDensity, sklearn=True),
    Case(
        "histogram_density_stated",
        lambda **p: DPHistogramDensity(bins=[2, [-1.0, 0.0, 0.5], 3], bounds=(-1, 1), **p),
    ),
    Case("empirical_cdf", DPEmpiricalCDF, sklearn=True),
    Case("empirical_cdf_stated", lambda **p: DPEmpiricalCDF(grid=[-1, 0, 0.5, 1], size=3, **p)),
    Case("toy_ratio", ToyRatio, sklearn=True, samples=True, marked=MarkedToyRatio),
    Case("ulsif", DPuLSIF, sklearn=True, samples=True, marked=MarkedDPuLSIF),
    _ratio("ulsif_b", noise="independent", gamma=0.5, baseline=0.0, nonnegative="coefficients"),
    _ratio("ulsif_a", centers="noisy", noise="independent", n_centers=4, gamma=0.5, alpha=0.1),
    _ratio("ulsif_a_rate", centers="noisy", n_centers=4, bounds=(-1, 1), sampling_rate=0.5),
    _ratio("ulsif_stated", centers=np.eye(3), kernel="laplacian", gamma=(0.25, 1.0, 3.0)),
    _ratio("ulsif_basis", **SPLINES),
    Case("logistic", DPLogisticRatio, sklearn=True, samples=True, marked=MarkedDPLogisticRatio),
    Case("logistic_stated", lambda **p: DPLogisticRatio(0.1, bounds=(-1, 1), **p), samples=True),
    _checked(
        "vote", CheckedVote, LogisticRegression(), _two, classes=["no", "yes"], aggregate="vote"
    ),
    _aggregate("scores", LogisticRegression(), _two, classes=["no", "yes"], aggregate="scores"),
    _aggregate(
        "scores_of_three",
        DecisionTreeClassifier(max_depth=2),
        _three,
        classes=[0, 1, 2],
        n_blocks="auto",
    ),
    _aggregate(
        "vote_of_three",
        DecisionTreeClassifier(max_depth=2),
        _three,
        aggregate="vote",
        classes=[0, 1, 2],
        student=LogisticRegression(),
        n_blocks="auto",
        n_queries=4,
    ),
    _checked(
        "prediction",
        CheckedPrediction,
        Ridge(),
        lambda X: X[:, 0],
        bounds=(-1, 1),
        n_blocks="auto",
        n_queries="auto",
    ),
    _aggregate(
        "median_prediction",
        Ridge(),
        lambda X: X[:, 0],
        bounds=(-1, 1),
        aggregate="median",
    ),
    _checked(
        "parameters",
        CheckedParameters,
        LogisticRegression(),
        _two,
        classes=["no", "yes"],
        bounds=(-5, 5),
        output="parameters",
    ),
    _aggregate(
        "median_parameters",
        LinearRegression(),
        lambda X: X[:, 0],
        bounds=(-5, 5),
        output="parameters",
        aggregate="median",
    ),
    _aggregate(
        "smooth_parameters",
        LinearRegression(),
        lambda X: X[:, 0],
        bounds=(-5, 5),
        output="parameters",
        aggregate="smooth_median",
    ),
    Case(
        "ridge",
        lambda **p: DPRidge(bounds=(-1, 1), target_bounds=(-1, 1), **p),
        labels=lambda X: X[:, 0],
    ),
    Case(
        "ridge_private",
        DPRidge,
        sklearn=True,
        marked=lambda **p: DPRidge(weight_bound=5.0, epsilon=1e5, **p),
        labels=lambda X: X[:, 0],
    ),
    Case(
        "ridge_weighted",
        lambda **p: WeightedRidge(bounds=(-1, 1), target_bounds=(-1, 1), weight_bound=2.0, **p),
        labels=lambda X: X[:, 0],
    ),
    Case(
        "linear_regression",
        lambda **p: DPLinearRegression(bounds=(-1, 1), target_bounds=(-2, 2), **p),
        labels=lambda X: X[:, 1],
    ),
    Case(
        "logistic_regression",
        lambda **p: DPLogisticRegression(classes=["no", "yes"], bounds=(-1, 1), **p),
        sklearn=True,
        marked=lambda **p: CheckedLogisticRegression(epsilon=1e5, **p),
        labels=_two,
    ),
    Case(
        "logistic_regression_of_three",
        lambda **p: DPLogisticRegression(classes=[0, 1, 2], **p),
        labels=_three,
    ),
    Case(
        "boosting",
        lambda **p: DPExplainableBoostingClassifier(4, classes=["no", "yes"], bounds=(-1, 1), **p),
        sklearn=True,
        marked=lambda **p: CheckedBoosting(epsilon=1e5, **p),
        labels=_two,
    ),
    Case(
        "boosting_of_three",
        lambda **p: DPExplainableBoostingClassifier(8, classes=[0, 1, 2], **p),
        labels=_three,
    ),
    Case(
        "boosting_regressor",
        lambda **p: DPExplainableBoostingRegressor(4, bounds=(-1, 1), target_bounds=(-1, 1), **p),
        labels=lambda X: X[:, 0],
    ),
    Case(
        "boosting_regressor_private",
        DPExplainableBoostingRegressor,
        sklearn=True,
        marked=lambda **p: DPExplainableBoostingRegressor(epsilon=1e5, **p),
        labels=lambda X: X[:, 0],
    ),
    Case(
        "forest",
        lambda **p: DPRandomForestClassifier(
            5, max_depth=2, classes=["no", "yes"], bounds=(-1, 1), **p
        ),
        sklearn=True,
        marked=lambda **p: CheckedForest(epsilon=1e5, **p),
        labels=_two,
    ),
    Case(
        "forest_of_three",
        lambda **p: DPRandomForestClassifier(classes=[0, 1, 2], **p),
        labels=_three,
    ),
    Case(
        "gaussian_nb",
        lambda **p: DPGaussianNB(classes=["no", "yes"], bounds=(-1, 1), **p),
        sklearn=True,
        marked=lambda **p: CheckedGaussianNB(epsilon=1e5, **p),
        labels=_two,
    ),
    Case(
        "categorical_nb",
        lambda **p: DPCategoricalNB([[-1, 0, 1]] * 3, classes=[0, 1, 2], **p),
        sklearn=True,
        marked=lambda **p: CheckedCategoricalNB(epsilon=1e5, **p),
        labels=_three,
    ),
    Case(
        "nearest_centroid",
        lambda **p: DPNearestCentroid(classes=[0, 1, 2], bounds=(-1, 1), **p),
        sklearn=True,
        marked=lambda **p: CheckedNearestCentroid(epsilon=1e5, **p),
        labels=_three,
    ),
    Case(
        "discriminant_analysis",
        lambda **p: DPLinearDiscriminantAnalysis(classes=["no", "yes"], bounds=(-1, 1), **p),
        sklearn=True,
        marked=lambda **p: CheckedDiscriminantAnalysis(epsilon=1e5, **p),
        labels=_two,
    ),
    Case("grid_search", partial(_search, DPGridSearchCV, {"n_clusters": [1, 3]})),
    Case(
        "random_search",
        partial(_search, DPRandomizedSearchCV, {"max_iter": [1]}, n_iter=1),
    ),
    _small_db("small_db", conjunctions(2), size=2, domain=HALVES),
    _small_db("small_db_thresholds", thresholds(), domain=TENTHS),
    replace(
        _small_db("small_db_list", conjunctions(1), size=3, domain=HALVES, candidates=50),
        sklearn=True,
    ),
    Case("marginals", lambda **p: DPMarginalSynthesizer(domain=HALVES, **p), sklearn=True),
    Case(
        "train_on_release",
        lambda **p: DPTrainOnRelease(
            DecisionTreeClassifier(max_depth=2), domain=[*[HALVES] * 3, ["no", "yes"]], **p
        ),
        sklearn=True,
        marked=lambda **p: CheckedTrainOnRelease(
            DecisionTreeClassifier(max_depth=4), max_cells=256, epsilon=1e5, **p
        ),
        labels=_two,
    ),
    Case(
        "train_on_release_numbers",
        lambda **p: DPTrainOnRelease(LinearRegression(), domain=HALVES, target=1, **p),
        labels=lambda X: X[:, 1],
    ),
    Case("marginals_of_three", lambda **p: DPMarginalSynthesizer(THREES, domain=HALVES, **p)),
    Case("mwem", lambda **p: MWEMReleaser(domain=HALVES, n_rounds=2, **p), sklearn=True),
    Case("mwem_all", lambda **p: MWEMReleaser(conjunctions(1), domain=TENTHS, **p)),
    Case(
        "mwem_queries",
        lambda **p: MWEMReleaser(domain=HALVES, n_rounds=3, measure="queries", **p),
    ),
    Case(
        "online",
        lambda **p: AskedOnline(HALVES, n_updates=2, **p),
        sklearn=True,
        marked=lambda **p: PrivateMultiplicativeWeights(HALVES, n_updates=2, **p),
    ),
    Case("bins", DPKBinsDiscretizer, sklearn=True),
    Case("bins_uniform", lambda **p: DPKBinsDiscretizer(3, strategy="uniform", **p)),
    Case(
        "one_hot",
        lambda **p: DPOneHotEncoder(**_with_delta(p)),
        sklearn=True,
        marked=lambda **p: CheckedOneHotEncoder(**p),
    ),
    Case(
        "ordinal",
        lambda **p: DPOrdinalEncoder(
            categories=["private", [0.5, -0.5, 1], "private"], **_with_delta(p)
        ),
        sklearn=True,
        marked=lambda **p: CheckedOrdinalEncoder(**p),
    ),
    Case(
        "select_classes",
        lambda **p: DPSelectKBest(k=1, classes=["no", "yes"], bounds=(-1, 1), **p),
        sklearn=True,
        marked=lambda **p: CheckedSelectKBest(k=1, **p),
        n_features=2,
        labels=_two,
    ),
    Case(
        "select_numbers",
        lambda **p: DPSelectKBest("f_regression", k=1, bounds=(-1, 1), target_bounds=(-1, 1), **p),
        n_features=2,
        labels=lambda X: X[:, 1],
    ),
    Case("imputer", DPSimpleImputer, sklearn=True, n_features=1),
    Case("imputer_stated", lambda **p: DPSimpleImputer(bounds=(-1, 1), **p), n_features=2),
    Case(
        "imputer_median",
        lambda **p: DPSimpleImputer(strategy="median", bounds=(-1, 1), **p),
        n_features=1,
    ),
    Case(
        "imputer_frequent",
        lambda **p: DPSimpleImputer(
            strategy="most_frequent",
            categories=["private", [0.5, -0.5]],
            **_with_delta(p),
        ),
        n_features=2,
    ),
    Case(
        "standard_scaler_omit",
        lambda **p: DPStandardScaler(bounds=(-1, 1), nan_policy="omit", **p),
        n_features=2,
    ),
    Case(
        "minmax_scaler_omit",
        lambda **p: DPMinMaxScaler(nan_policy="omit", **p),
        n_features=1,
    ),
    Case(
        "robust_scaler_omit",
        lambda **p: DPRobustScaler(bounds=(-1, 1), nan_policy="omit", **p),
        n_features=1,
    ),
    Case(
        "quantile_transformer_omit",
        lambda **p: DPQuantileTransformer(n_quantiles=3, bounds=(-1, 1), nan_policy="omit", **p),
        n_features=1,
    ),
)


class Called(PrivateMixin, BaseEstimator):
    """A function of `skdp.statistics` as an estimator: its fit keeps what a call returns."""

    def __init__(
        self,
        function: Callable[..., Any],
        options: Any = None,
        *,
        epsilon: float = 1.0,
        delta: float = 0.0,
        max_rows_per_unit: Any = "private",
        budget: PrivacyBudget | None = None,
        random_state: Any = None,
    ) -> None:
        self.function = function
        self.options = options
        self.epsilon = epsilon
        self.delta = delta
        self.max_rows_per_unit = max_rows_per_unit
        self.budget = budget
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Called:
        with self._all_or_nothing(groups):
            privacy = {name: getattr(self, name) for name in ("epsilon", "delta", "budget")}
            if groups is not None:
                privacy |= {"groups": groups, "max_rows_per_unit": self.max_rows_per_unit}
            self.released_ = self.function(
                X, random_state=self.random_state, **privacy, **(self.options or {})
            )
            self.privacy_ = self.released_.privacy
        return self


def _call(name: str, function: Any = None, *, relations: Any = RELATIONS, **options: Any) -> Case:
    function = function or getattr(statistics, name)
    if options.get("bounds") is None:
        options.pop("bounds", None)
    else:
        name += "_stated"
    return Case(
        f"statistics.{name}", lambda **p: Called(function, options, **p), relations=relations
    )


def _of_columns(name: str, n: int | None, *arguments: Any) -> Callable[..., Any]:
    """Return a call on the first n columns (None: on one as a flat sequence); its first result."""

    def call(X: Any, **options: Any) -> Any:
        table = np.asarray(X)
        columns = table[:, 0] if n is None else table[:, :n]
        return getattr(statistics, name)(columns, *arguments, **options)[0]

    return call


def _asked(X: Any, **options: Any) -> Any:
    with statistics.query_session(X, n_queries=2, **options) as session:
        session.ask(lambda row: row[0] > 0)
        return session.ask(lambda row: row[1] ** 2)


def _subset(X: Any, **options: Any) -> Any:
    return statistics.subset_sums(X, _three(np.asarray(X)), classes=[0, 1, 2], **options)


def _path(X: Any, **options: Any) -> Any:
    """Return the cost of a tree in a cycle of many edges, with the first column as weights."""
    weights = np.asarray(X)[:100, 0]
    n = min(len(weights), 6)
    edges = [[i % n, (i + 1) % n] for i in range(len(weights))]
    return statistics.mst_cost(n, edges, weights, 1.0, **options)


UNIT = (-1, 1)

CALLS = (
    _call("count", relations=("add_or_remove_one",)),
    _call("count_nonzero"),
    _call("count_nonzero_of_rows", partial(statistics.count_nonzero, axis=None)),
    _call("sum"),
    _call("sum", bounds=UNIT),
    _call("mean"),
    _call("mean", bounds=UNIT),
    _call("mean_of_rows", partial(statistics.mean, axis=None), bounds=UNIT),
    _call("var", bounds=UNIT),
    _call("std"),
    _call("covariance"),
    _call("correlation", bounds=UNIT),
    _call("histogram", _of_columns("histogram", None)),
    _call("histogram2d", _of_columns("histogram2d", 2), bounds=UNIT),
    _call("histogramdd", _of_columns("histogramdd", 3, 3), bounds=UNIT),
    _call("subset_sums", _subset, bounds=UNIT),
    _call("quantile", lambda X, **o: statistics.quantile(X, [0.1, 0.5, 0.9], **o)),
    _call("median", bounds=UNIT),
    _call("query_session", _asked),
    _call("mst_cost", _path, relations=("replace_one",)),
)


def _metric(name: str, pairs: str, **options: Any) -> Case:
    """Return a case of `skdp.metrics`: labels, scores or numbers are made of two columns."""

    def call(X: Any, **privacy: Any) -> Any:
        a, b = np.asarray(X)[:, 0], np.asarray(X)[:, 1]
        y = {"labels": (_three(np.asarray(X)), np.where(a > 0, 2, 1)), "scores": (a > 0, b)}
        return getattr(metrics, name)(*y.get(pairs, (a, b)), **options, **privacy)

    return Case(f"metrics.{name}", lambda **p: Called(call, {}, **p), relations=RELATIONS)


# One for each kind of release: `tests/test_metrics.py` shows that the others release no more.
CALLS += (
    _metric("accuracy_score", "labels", labels=[0, 1, 2]),
    _metric("confusion_matrix", "labels", labels=[2, 1, 0]),
    _metric("score_histogram", "scores", labels=[False, True], bins=4),
    _metric("regression_errors", "numbers", target_bounds=UNIT, max_error=1.0),
    _metric("r2_score", "numbers"),
)

# Checks of scikit-learn that an estimator cannot pass and stay private, each with its reason.
# No reason may be about fitting, cloning, pickling or parameters. An entry that passes is a
# failure (strict), so the table cannot outlive its reasons.
EXPECTED_FAILURES: dict[str, dict[str, str]] = {
    "DPKMeans": {
        "check_clustering": "reads labels_, the exact assignment of private rows: never released",
    },
    "DPRidge": {
        "check_all_zero_sample_weights_error": "an error would tell of private weights",
        "check_sample_weight_equivalence_on_dense_data": "demands the accuracy of no noise",
        "check_sample_weight_equivalence_on_sparse_data": "demands the accuracy of no noise",
    },
}


def make(
    case: Case,
    delta: float,
    relation: str = "replace_one",
    epsilon: float = 1.0,
    unit: str | None = None,
) -> Any:
    """Return an unfitted estimator; under replace-one it has no budget, as most users' have."""
    budget = None
    if relation != "replace_one" or unit is not None:
        budget = _budget(relation, unit)
    return case.make(epsilon=epsilon, delta=delta, budget=budget, random_state=None)


_BUDGETS: dict[tuple[str, str | None], PrivacyBudget] = {}


def _budget(relation: str, unit: str | None = None) -> PrivacyBudget:
    """Return one budget a relation; audits replace it by a stand-in, so nothing is charged."""
    key = relation, unit
    if key not in _BUDGETS:
        _BUDGETS[key] = PrivacyBudget(1.0, 1e-3, adjacency=relation, unit=unit)
    return _BUDGETS[key]


def rows(n: int, d: int, seed: int) -> np.ndarray:
    """Return made-up rows, partly outside [-1, 1]."""
    return np.random.default_rng(seed).normal(0, 0.7, size=(n, d))


class OneRelease(PrivateMixin, BaseEstimator):
    """An estimator that asks a session for one thing; for tests of a single query.

    Parameters
    ----------
    ask : callable
        From the session to what is kept as ``answer_``.
    """

    def __init__(
        self,
        ask: Callable[[Any], Any],
        *,
        epsilon: float = 1.0,
        delta: float = 0.0,
        max_rows_per_unit: Any = "private",
        budget: PrivacyBudget | None = None,
        random_state: Any = None,
    ) -> None:
        self.ask = ask
        self.epsilon = epsilon
        self.delta = delta
        self.max_rows_per_unit = max_rows_per_unit
        self.budget = budget
        self.random_state = random_state

    def _session(self, rows: Rows) -> Session:
        # Without the mixin's digest of parameters, which cannot read a lambda.
        context = self._context()
        unit = context.unit()
        return open_session(
            rows if unit is None else rows.of_units(context.groups, context.name),
            unit=unit,
            estimator="OneRelease",
            epsilon=self.epsilon,
            delta=self.delta,
            budget=self.budget,
            random_state=self.random_state,
        )

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> OneRelease:
        with self._all_or_nothing(groups):
            rows = self._open(X)
            with self._session(rows) as session:
                self.answer_ = self.ask(session)
                self.privacy_ = session.certificate()
        return self
