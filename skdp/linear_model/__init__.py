"""Private linear models: least squares, ridge and logistic regression.

A fit releases noisy second moments of the clipped rows with their targets, or noisy gradients of a
loss. Coefficients, errors and predictions are computed from these. Public numbers and earlier
releases decide what a fit asks for, and which share of its allowance each release takes.
"""

from skdp.linear_model._logistic import DPLogisticRegression
from skdp.linear_model._ridge import DPLinearRegression, DPRidge

__all__ = ["DPLinearRegression", "DPLogisticRegression", "DPRidge"]
