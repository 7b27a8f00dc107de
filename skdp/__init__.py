"""skdp: scikit-learn-compatible estimators that are differentially private."""

from skdp.budget import PrivacyBudget, PrivacyLoss
from skdp.cluster import DPKMeans
from skdp.decomposition import DPPCA
from skdp.density_ratio import DPLogisticRatio, DPuLSIF
from skdp.ensemble import DPSubsampleAggregate
from skdp.exceptions import (
    BudgetExceededError,
    LedgerError,
    PrivacyLeakError,
    PublishedRowsWarning,
    SealedBudgetError,
    SeededNoiseWarning,
)
from skdp.preprocessing import DPMinMaxScaler, DPStandardScaler
from skdp.quantile import DPMedian, DPQuantile, DPQuantileTransformer, DPRobustScaler

__version__ = "0.1.0"

__all__ = [
    "DPPCA",
    "BudgetExceededError",
    "DPKMeans",
    "DPLogisticRatio",
    "DPMedian",
    "DPMinMaxScaler",
    "DPQuantile",
    "DPQuantileTransformer",
    "DPRobustScaler",
    "DPStandardScaler",
    "DPSubsampleAggregate",
    "DPuLSIF",
    "LedgerError",
    "PrivacyBudget",
    "PrivacyLeakError",
    "PrivacyLoss",
    "PublishedRowsWarning",
    "SealedBudgetError",
    "SeededNoiseWarning",
]
