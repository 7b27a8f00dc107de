"""skdp: scikit-learn-compatible estimators that are differentially private."""

from skdp._choose_epsilon import choose_epsilon
from skdp._config import config_context, get_config
from skdp._make_private import make_private
from skdp._version import __version__ as __version__
from skdp.budget import PrivacyBudget, PrivacyLoss
from skdp.cluster import DPKMeans
from skdp.decomposition import DPPCA
from skdp.density_ratio import DPLogisticRatio, DPuLSIF
from skdp.ensemble import DPSubsampleAggregate, DPTrainOnRelease
from skdp.exceptions import (
    BudgetExceededError,
    LedgerError,
    PrivacyLeakError,
    PublicRowCountWarning,
    PublishedRowsWarning,
    SealedBudgetError,
    SeededNoiseWarning,
    UncountedFitWarning,
)
from skdp.feature_selection import DPSelectKBest
from skdp.impute import DPSimpleImputer
from skdp.linear_model import DPLinearRegression, DPLogisticRegression, DPRidge
from skdp.model_selection import DPGridSearchCV, DPRandomizedSearchCV, check_pipeline, plan
from skdp.neighbors import DPHistogramDensity, DPKernelDensity
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
    Domain,
    DPEmpiricalCDF,
    DPMarginalSynthesizer,
    MWEMReleaser,
    PrivateMultiplicativeWeights,
    SmallDBReleaser,
    conjunctions,
    intervals,
    linear_queries,
    parities,
    thresholds,
)

__all__ = [
    "DPPCA",
    "Bins",
    "BudgetExceededError",
    "DPEmpiricalCDF",
    "DPGridSearchCV",
    "DPHistogramDensity",
    "DPKBinsDiscretizer",
    "DPKMeans",
    "DPKernelDensity",
    "DPLinearRegression",
    "DPLogisticRatio",
    "DPLogisticRegression",
    "DPMarginalSynthesizer",
    "DPMedian",
    "DPMinMaxScaler",
    "DPOneHotEncoder",
    "DPOrdinalEncoder",
    "DPQuantile",
    "DPQuantileTransformer",
    "DPRandomizedSearchCV",
    "DPRidge",
    "DPRobustScaler",
    "DPSelectKBest",
    "DPSimpleImputer",
    "DPStandardScaler",
    "DPSubsampleAggregate",
    "DPTrainOnRelease",
    "DPuLSIF",
    "Domain",
    "LedgerError",
    "MWEMReleaser",
    "PrivacyBudget",
    "PrivacyLeakError",
    "PrivacyLoss",
    "PrivateMultiplicativeWeights",
    "PublicRowCountWarning",
    "PublishedRowsWarning",
    "SealedBudgetError",
    "SeededNoiseWarning",
    "SmallDBReleaser",
    "UncountedFitWarning",
    "check_pipeline",
    "choose_epsilon",
    "config_context",
    "conjunctions",
    "get_config",
    "intervals",
    "linear_queries",
    "make_private",
    "parities",
    "plan",
    "thresholds",
]
