"""Importance weights w(x) = p_private(x) / p_public(x): train on public rows, reweighted.

The estimators take one table with both samples: y = 1 marks the private rows, y = 0 the public
ones. Only the private rows are protected, and only the fit of the weights costs privacy.
"""

from skdp.density_ratio._ratio import DPLogisticRatio, stack_samples
from skdp.density_ratio._ulsif import DPuLSIF

__all__ = ["DPLogisticRatio", "DPuLSIF", "stack_samples"]
