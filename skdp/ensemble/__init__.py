"""Any scikit-learn estimator made private: sample and aggregate.

`DPSubsampleAggregate` fits clones of an estimator on disjoint blocks of the private rows and
releases what they agree on.
"""

from skdp.ensemble._subsample import DPSubsampleAggregate

__all__ = ["DPSubsampleAggregate"]
