"""Displays of what was released: a budget, clusters on a plane, and centres in the data's units.

Nothing is released here, and no private row is asked for: every display is computed from a
ledger or from fitted attributes, so a figure may be shown to whoever may see the model.
matplotlib is imported when something is plotted.

A display follows scikit-learn's convention: ``from_...`` computes and plots, the object keeps
what it plotted, ``plot`` draws it again, and ``ax_`` and ``figure_`` hold the result.
"""

from __future__ import annotations

from skdp.inspection._budget import BudgetDisplay, PrivacyCurveDisplay, SpentDisplay
from skdp.inspection._clusters import CentersDisplay, ClusterDisplay

__all__ = [
    "BudgetDisplay",
    "CentersDisplay",
    "ClusterDisplay",
    "PrivacyCurveDisplay",
    "SpentDisplay",
]
