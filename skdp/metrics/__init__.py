"""Private evaluation: scikit-learn's metrics of a public model on held-out private rows.

Each function charges (epsilon, delta) once, under its own name, and returns a `Released`: a number
or an array with an interval for its noise, and an interval for the population that the rows were
drawn from. `confusion_matrix`, `score_histogram` and `regression_errors` return objects from which
several metrics can be computed at no further cost. The number of rows counts as private, so the
rows may be a selection.
"""

from skdp.metrics._classification import (
    ConfusionMatrix,
    ScoreHistogram,
    accuracy_score,
    balanced_accuracy_score,
    calibration_curve,
    confusion_matrix,
    roc_auc_score,
    roc_curve,
    score_histogram,
)
from skdp.metrics._regression import (
    RegressionErrors,
    mean_absolute_error,
    mean_squared_error,
    r2_score,
    regression_errors,
)

__all__ = [
    "ConfusionMatrix", "RegressionErrors", "ScoreHistogram", "accuracy_score",
    "balanced_accuracy_score", "calibration_curve", "confusion_matrix", "mean_absolute_error",
    "mean_squared_error", "r2_score", "regression_errors", "roc_auc_score", "roc_curve",
    "score_histogram",
]  # fmt: skip
