"""Ensembles: boosted additive models, random forests, and any scikit-learn estimator made private.

`DPSubsampleAggregate` fits clones of an estimator on disjoint blocks of the private rows and
releases what they agree on. `DPTrainOnRelease` trains one on a synthetic table made for its target.
`DPExplainableBoostingClassifier` learns a curve of each column from noisy residuals,
`DPRandomForestClassifier` counts classes in the leaves of random trees.
"""

from skdp.ensemble._boosting import DPExplainableBoostingClassifier
from skdp.ensemble._forest import DPRandomForestClassifier
from skdp.ensemble._release import DPTrainOnRelease
from skdp.ensemble._subsample import DPSubsampleAggregate

__all__ = [
    "DPExplainableBoostingClassifier",
    "DPRandomForestClassifier",
    "DPSubsampleAggregate",
    "DPTrainOnRelease",
]
