"""Importance weights w(x) = p_private(x) / p_public(x): train on public rows, reweighted.

Only the weights cost privacy. A table of both samples comes with y = 1 at the private rows and
y = 0 at the public ones; only the private rows are protected.
"""

from skdp.density_ratio._logistic import DPLogisticRatio
from skdp.density_ratio._samples import stack_samples
from skdp.density_ratio._ulsif import DPuLSIF

__all__ = ["DPLogisticRatio", "DPuLSIF", "stack_samples"]
