"""Any scikit-learn estimator made private: sample and aggregate, or training on a release.

`DPSubsampleAggregate` fits clones of an estimator on disjoint blocks of the private rows and
releases what they agree on. `DPTrainOnRelease` trains one on a synthetic table made for its target.
"""

from skdp.ensemble._release import DPTrainOnRelease
from skdp.ensemble._subsample import DPSubsampleAggregate

__all__ = ["DPSubsampleAggregate", "DPTrainOnRelease"]
