"""Private densities and centroids: `DPKernelDensity`, `DPHistogramDensity`, `DPNearestCentroid`.

All release something finite once (a mean of kernel features, a histogram, a mean of each class) and
answer any number of later questions from it: densities at any points, samples, labels.
"""

from skdp.neighbors._centroid import DPNearestCentroid
from skdp.neighbors._histogram import DPHistogramDensity
from skdp.neighbors._kde import DPKernelDensity

__all__ = ["DPHistogramDensity", "DPKernelDensity", "DPNearestCentroid"]
