"""Private linear models: least squares, ridge and logistic regression.

Released: noisy second moments of clipped rows with their targets, or noisy gradients of a loss;
coefficients, errors and predictions are computed from these. What each fit asks for, and at which
share of its allowance, follows from public numbers and earlier releases.
"""

from skdp.linear_model._logistic import DPLogisticRegression
from skdp.linear_model._ridge import DPLinearRegression, DPRidge

__all__ = ["DPLinearRegression", "DPLogisticRegression", "DPRidge"]
