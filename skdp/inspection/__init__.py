"""Displays of releases: budgets, clusters, metrics of held-out rows, error by epsilon.

A display is computed from a ledger, from fitted attributes or from released metrics, so anyone who
may see these may see the figure. Displays of metrics can also call `skdp.metrics` themselves, which
is charged. `cluster_table` says in numbers what clusters are, and `evaluate_by` how wrong a
model is in each group of private rows, which is charged.

Displays follow scikit-learn's convention: ``from_...`` computes and plots, the object keeps what
was plotted, ``plot`` draws it again, and ``ax_`` and ``figure_`` hold the result.
"""

from __future__ import annotations

from skdp.inspection._budget import (
    BudgetDisplay,
    ErrorExplorer,
    IntervalDisplay,
    PrivacyCurveDisplay,
    PrivacyUtilityDisplay,
    SpentDisplay,
)
from skdp.inspection._clusters import (
    CentersDisplay,
    ClusterDisplay,
    ClusterTable,
    ComponentsDisplay,
    cluster_table,
)
from skdp.inspection._groups import GroupEvaluation, evaluate_by
from skdp.inspection._metrics import (
    PrivateCalibrationDisplay,
    PrivateConfusionMatrixDisplay,
    PrivateRocCurveDisplay,
)

__all__ = [
    "BudgetDisplay", "CentersDisplay", "ClusterDisplay", "ClusterTable", "ComponentsDisplay",
    "ErrorExplorer", "GroupEvaluation", "IntervalDisplay", "PrivacyCurveDisplay",
    "PrivacyUtilityDisplay", "PrivateCalibrationDisplay", "PrivateConfusionMatrixDisplay",
    "PrivateRocCurveDisplay", "SpentDisplay", "cluster_table", "evaluate_by",
]  # fmt: skip
