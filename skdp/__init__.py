"""skdp: scikit-learn-compatible estimators that are differentially private."""

from skdp.budget import PrivacyBudget
from skdp.exceptions import (
    BudgetExceededError,
    LedgerError,
    PrivacyLeakError,
    SealedBudgetError,
    SeededNoiseWarning,
)

__version__ = "0.1.0"

__all__ = [
    "BudgetExceededError",
    "LedgerError",
    "PrivacyBudget",
    "PrivacyLeakError",
    "SealedBudgetError",
    "SeededNoiseWarning",
]
