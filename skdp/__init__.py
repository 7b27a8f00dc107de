"""skdp: scikit-learn-compatible estimators that are differentially private.

A name is imported when it is first used, so that ``import skdp`` costs hardly anything.
"""

from importlib import import_module
from typing import Any

from skdp import _forks as _forks  # a process may be forked before it imports budgets
from skdp._version import __version__ as __version__

# The module of each name; `__init__.pyi` says the same to type checkers.
_HOMES = {
    "Bins": "synthetic",
    "BudgetExceededError": "exceptions",
    "DPCategoricalNB": "naive_bayes",
    "DPEmpiricalCDF": "synthetic",
    "DPExplainableBoostingClassifier": "ensemble",
    "DPExplainableBoostingRegressor": "ensemble",
    "DPGaussianNB": "naive_bayes",
    "DPGridSearchCV": "model_selection",
    "DPHistogramDensity": "neighbors",
    "DPKBinsDiscretizer": "preprocessing",
    "DPKMeans": "cluster",
    "DPKernelDensity": "neighbors",
    "DPLinearDiscriminantAnalysis": "discriminant_analysis",
    "DPLinearRegression": "linear_model",
    "DPLogisticRatio": "density_ratio",
    "DPLogisticRegression": "linear_model",
    "DPMarginalSynthesizer": "synthetic",
    "DPMedian": "quantile",
    "DPMinMaxScaler": "preprocessing",
    "DPNearestCentroid": "neighbors",
    "DPOneHotEncoder": "preprocessing",
    "DPOrdinalEncoder": "preprocessing",
    "DPPCA": "decomposition",
    "DPQuantile": "quantile",
    "DPQuantileTransformer": "preprocessing",
    "DPRandomizedSearchCV": "model_selection",
    "DPRidge": "linear_model",
    "DPRobustScaler": "preprocessing",
    "DPSelectKBest": "feature_selection",
    "DPSimpleImputer": "impute",
    "DPStandardScaler": "preprocessing",
    "DPSubsampleAggregate": "ensemble",
    "DPTargetEncoder": "preprocessing",
    "DPTrainOnRelease": "ensemble",
    "DPuLSIF": "density_ratio",
    "Domain": "synthetic",
    "FoldsWarning": "exceptions",
    "LargeDeltaWarning": "exceptions",
    "LedgerError": "exceptions",
    "MWEMReleaser": "synthetic",
    "NonPrivatePartWarning": "exceptions",
    "PrivacyBudget": "budget",
    "PrivacyLeakError": "exceptions",
    "PrivacyLoss": "budget",
    "PrivateMultiplicativeWeights": "synthetic",
    "PublicRowCountWarning": "exceptions",
    "PublishedRowsWarning": "exceptions",
    "SealedBudgetError": "exceptions",
    "SeededNoiseWarning": "exceptions",
    "SmallDBReleaser": "synthetic",
    "UncountedFitWarning": "exceptions",
    "check_pipeline": "model_selection",
    "choose_epsilon": "model_selection._choose_epsilon",
    "config_context": "_config",
    "conjunctions": "synthetic",
    "describe": "statistics",
    "get_config": "_config",
    "intervals": "synthetic",
    "linear_queries": "synthetic",
    "make_private": "_make_private",
    "pad_time": "_config",
    "parities": "synthetic",
    "plan": "model_selection",
    "show_versions": "_version",
    "thresholds": "synthetic",
}
_SUBMODULES = (
    "aggregation", "audit", "base", "budget", "cluster", "confidence", "core", "decomposition",
    "density_ratio", "discriminant_analysis", "engines", "ensemble", "exceptions",
    "feature_selection", "impute", "inspection", "ledger", "linear_model", "loss", "metrics",
    "model_selection", "naive_bayes", "neighbors", "parameters", "planning", "preprocessing",
    "quantile", "queries", "sql", "statistics", "synthetic", "tabular", "user_code",
)  # fmt: skip

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(f"skdp.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    if name in _SUBMODULES:
        return import_module(f"skdp.{name}")
    raise AttributeError(f"module 'skdp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES})
