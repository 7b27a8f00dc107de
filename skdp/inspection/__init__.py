"""Displays of what was released: a budget, clusters, metrics of held-out rows, error by epsilon.

Nothing is released here: a display is computed from a ledger, from fitted attributes or from what
`skdp.metrics` has released. Anyone who may see these may see the figure. Displays of metrics can
also call `skdp.metrics` themselves, which is charged. matplotlib is imported when something is
plotted.

Displays follow scikit-learn's convention: ``from_...`` computes and plots, the object keeps what
was plotted, ``plot`` draws it again, and ``ax_`` and ``figure_`` hold the result.
"""

from __future__ import annotations

from skdp.inspection._budget import BudgetDisplay, PrivacyCurveDisplay, SpentDisplay
from skdp.inspection._clusters import CentersDisplay, ClusterDisplay
from skdp.inspection._explorer import ErrorExplorer
from skdp.inspection._metrics import (
    PrivateCalibrationDisplay,
    PrivateConfusionMatrixDisplay,
    PrivateRocCurveDisplay,
)
from skdp.inspection._utility import ComponentsDisplay, IntervalDisplay, PrivacyUtilityDisplay

__all__ = [
    "BudgetDisplay",
    "CentersDisplay",
    "ClusterDisplay",
    "ComponentsDisplay",
    "ErrorExplorer",
    "IntervalDisplay",
    "PrivacyCurveDisplay",
    "PrivacyUtilityDisplay",
    "PrivateCalibrationDisplay",
    "PrivateConfusionMatrixDisplay",
    "PrivateRocCurveDisplay",
    "SpentDisplay",
]
