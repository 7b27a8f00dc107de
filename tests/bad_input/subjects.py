"""Every estimator as the tests of bad input use it, and what a refusal must not leave behind.

A refusal names the parameter, quotes no cell of X anywhere in the chain of exceptions, comes
before anything is charged and leaves the estimator as it was, fitted or not.
"""

from __future__ import annotations

import copy
import functools
import traceback

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import PolynomialFeatures
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from skdp import PrivacyBudget
from skdp.cluster import DPKMeans
from skdp.decomposition import DPPCA
from skdp.density_ratio import DPLogisticRatio, DPuLSIF
from skdp.discriminant_analysis import DPLinearDiscriminantAnalysis
from skdp.ensemble import (
    DPExplainableBoostingClassifier,
    DPExplainableBoostingRegressor,
    DPSubsampleAggregate,
)
from skdp.linear_model import DPLogisticRegression, DPRidge
from skdp.naive_bayes import DPGaussianNB
from skdp.neighbors import DPHistogramDensity, DPKernelDensity, DPNearestCentroid
from skdp.preprocessing import DPKBinsDiscretizer, DPMinMaxScaler, DPStandardScaler
from skdp.quantile import DPMedian, DPQuantile, DPQuantileTransformer, DPRobustScaler
from skdp.synthetic import (
    Bins,
    DPEmpiricalCDF,
    DPMarginalSynthesizer,
    MWEMReleaser,
    PrivateMultiplicativeWeights,
    SmallDBReleaser,
    conjunctions,
)

# Cells that no message may quote, and how they would look in one.
WORD, NUMBER = "SECRET", 123456.789
TRACES = ("SECRET", "123456", "1.23456", "0x1.e24")

ESTIMATORS = {
    "standard_scaler": DPStandardScaler(),
    "minmax_scaler": DPMinMaxScaler(),
    "bins": DPKBinsDiscretizer(3, encode="ordinal"),
    "pca": DPPCA(2),
    "kmeans": DPKMeans(3),
    "kmeans_lloyd": DPKMeans(3, algorithm="lloyd", max_iter=2),
    "median": DPMedian(),
    "quantile": DPQuantile(),
    "robust_scaler": DPRobustScaler(),
    "quantile_transformer": DPQuantileTransformer(n_quantiles=5),
    "kernel_density": DPKernelDensity(),
    "histogram_density": DPHistogramDensity(),
    "empirical_cdf": DPEmpiricalCDF(n_cells=50),
    "ulsif": DPuLSIF(n_centers=10),
    "logistic": DPLogisticRatio(),
    # Of labels 0 and 1, as marks are.
    "vote": DPSubsampleAggregate(
        DecisionTreeClassifier(max_depth=1),
        public=np.random.default_rng(1).normal(size=(8, 4)),
        classes=[0, 1],
        n_blocks=3,
    ),
    "ridge": DPRidge(),  # of targets 0 and 1
    "gaussian_nb": DPGaussianNB(classes=[0, 1]),
    "nearest_centroid": DPNearestCentroid(classes=[0, 1]),
    "discriminant_analysis": DPLinearDiscriminantAnalysis(classes=[0, 1]),
    "logistic_regression": DPLogisticRegression(classes=[0, 1]),
    "boosting": DPExplainableBoostingClassifier(classes=[0, 1]),
    "boosting_regressor": DPExplainableBoostingRegressor(),  # of targets 0 and 1
    "marginals": DPMarginalSynthesizer(domain=Bins.regular(-2, 2, 2)),
    "small_db": SmallDBReleaser(
        conjunctions(1), size=3, domain=Bins.regular(-2, 2, 2), candidates=20
    ),
    "mwem": MWEMReleaser(conjunctions(1), domain=Bins.regular(-2, 2, 2), n_rounds=2),
    "online": PrivateMultiplicativeWeights(Bins.regular(-2, 2, 2), n_updates=2),
}
# These take cells of any kind: a domain says what becomes of them.
RELEASERS = ["marginals", "small_db", "mwem", "online"]
# Their labels, bounds and public rows, and private rows of any values, are in test_ensemble.py and
# test_linear_model.py.
APART = [
    "vote",
    "ridge",
    "logistic_regression",
    "boosting",
    "boosting_regressor",
    "gaussian_nb",
    "nearest_centroid",
    "discriminant_analysis",
]
# Other code for private rows of any values; what is refused before, is refused by the same code.
VARIANTS = {
    "ulsif_noisy": DPuLSIF("noisy", n_centers=5, noise="independent"),
    "ulsif_basis": DPuLSIF(basis=PolynomialFeatures(2), basis_bounds=(-5, 5)),
}
# Of two samples: fitted with marks, y = 1 for a private row and y = 0 for a public one.
MARKED = {
    name: e
    for name, e in ESTIMATORS.items()
    if get_tags(e).target_tags.required and name not in APART
}
BOUNDED = {name: e for name, e in ESTIMATORS.items() if hasattr(e, "bounds") and name not in APART}
every_estimator = pytest.mark.parametrize("kind", ESTIMATORS)
# For what happens in the charge itself: every fit goes through it (tests/contract/test_charges.py).
a_few_estimators = pytest.mark.parametrize("kind", ["standard_scaler", "vote", "ulsif", "online"])
every_numeric_estimator = pytest.mark.parametrize(
    "kind", [kind for kind in ESTIMATORS if kind not in RELEASERS]
)
every_releaser = pytest.mark.parametrize("kind", RELEASERS)
every_variant = pytest.mark.parametrize(
    "kind", [name for name in (*ESTIMATORS, *VARIANTS) if name not in APART]
)
every_estimator_of_two_samples = pytest.mark.parametrize("kind", MARKED)
every_bounded_estimator = pytest.mark.parametrize("kind", BOUNDED)
fitted_or_not = pytest.mark.parametrize("fitted", [False, True], ids=["unfitted", "fitted"])

GOOD = np.random.default_rng(0).normal(size=(60, 4))


def takes_marks(estimator):
    return get_tags(estimator).target_tags.required


def marks(X):
    """Return marks of as many rows as X has, if it has any number: the odd rows are private."""
    try:
        n = X.shape[0] if hasattr(X, "shape") else len(X)
    except (TypeError, IndexError):
        n = 2
    return np.arange(n) % 2


def fit(estimator, X):
    """Fit the estimator on these rows, marked if need be."""
    return estimator.fit(X, marks(X)) if takes_marks(estimator) else estimator.fit(X)


def score(estimator, X):
    return estimator.score(X, marks(X)) if takes_marks(estimator) else estimator.score(X)


def answer(estimator, X):
    """Return what the estimator says of rows."""
    known = ("predict", "transform", "score_samples")
    return getattr(estimator, next(m for m in known if hasattr(estimator, m)))(X)


def chain(error):
    """Return every text that an exception carries: messages, notes, causes and contexts."""
    texts, found, queue = [], set(), [error]
    while queue:
        one = queue.pop()
        if one is None or id(one) in found:
            continue
        found.add(id(one))
        texts += [str(one), repr(one), repr(one.args), *getattr(one, "__notes__", [])]
        queue += [one.__cause__, one.__context__]
    return "\n".join([*texts, *traceback.format_exception(error)])


@functools.cache
def _shared(kind, fitted):
    """Return an estimator with a budget of its own; tests work on copies, and charge nothing."""
    estimator = clone(ESTIMATORS[kind]).set_params(budget=PrivacyBudget(100.0, 1e-3))
    return fit(estimator, GOOD) if fitted else estimator


def prepared(kind, fitted, own_budget=None, **parameters):
    """Return a copy of an estimator, fitted on good rows if asked for, with a budget."""
    if own_budget is None:
        return copy.deepcopy(_shared(kind, fitted)).set_params(**parameters)
    estimator = clone(ESTIMATORS[kind]).set_params(budget=own_budget)
    return (fit(estimator, GOOD) if fitted else estimator).set_params(**parameters)


def both(kind, **parameters):
    """Return two copies, one of them fitted before: a refusal leaves either as it was."""
    return [prepared(kind, fitted, **parameters) for fitted in (False, True)]


def named(value):
    """Return the name of a test's parameter, the same in every process."""
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, tuple) and all(isinstance(one, type) for one in value):
        return "-".join(one.__name__ for one in value)
    text = repr(value)
    return type(value).__name__ if " at 0x" in text or len(text) > 30 else text


def refused(estimator, call, errors, match, *, charged=True):
    """Assert that the call is refused and leaves no trace; return the error's texts."""
    before = dict(vars(estimator))
    budget = estimator.budget if charged and isinstance(estimator.budget, PrivacyBudget) else None
    charges, spent = (budget.charges, budget.spent) if budget else (None, None)
    with pytest.raises(errors, match=match) as caught:
        call(estimator)
    texts = chain(caught.value)
    assert not [trace for trace in TRACES if trace in texts]
    # The same attributes, and the very same objects.
    assert vars(estimator).keys() == before.keys()
    assert all(value is before[name] for name, value in vars(estimator).items())
    if not any(name.endswith("_") and not name.startswith("_") for name in before):
        with pytest.raises(NotFittedError):
            check_is_fitted(estimator)
    if budget:
        assert (budget.charges, budget.spent) == (charges, spent)
    return texts
