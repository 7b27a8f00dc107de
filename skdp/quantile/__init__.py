"""Private medians and quantiles, and the transformers that are built on them.

`DPMedian` and `DPQuantile` release order statistics of every column; `DPRobustScaler` and
`DPQuantileTransformer` are post-processing of such quantiles.
"""

from skdp.quantile._quantiles import DPMedian, DPQuantile
from skdp.quantile._transformers import DPQuantileTransformer, DPRobustScaler

__all__ = ["DPMedian", "DPQuantile", "DPQuantileTransformer", "DPRobustScaler"]
