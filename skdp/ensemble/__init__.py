"""Ensembles: boosted additive models, and any scikit-learn estimator made private.

`DPSubsampleAggregate` fits clones of an estimator on disjoint blocks of the private rows and
releases what they agree on. `DPTrainOnRelease` trains an estimator on a private synthetic table
that is made for its target. `DPExplainableBoostingClassifier` and `DPExplainableBoostingRegressor`
learn a curve for each column from noisy residuals.
"""

from skdp.ensemble._boosting import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor
from skdp.ensemble._release import DPTrainOnRelease
from skdp.ensemble._subsample import DPSubsampleAggregate

__all__ = [
    "DPExplainableBoostingClassifier",
    "DPExplainableBoostingRegressor",
    "DPSubsampleAggregate",
    "DPTrainOnRelease",
]
