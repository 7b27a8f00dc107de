"""Private densities and centroids: `DPKernelDensity`, `DPHistogramDensity`, `DPNearestCentroid`.

Each of them releases something once: a mean of kernel features, a histogram, or a mean of each
class. All later answers (densities at any points, samples, labels) are computed from this release,
as many as you like.
"""

from skdp.neighbors._centroid import DPNearestCentroid
from skdp.neighbors._density import DPHistogramDensity
from skdp.neighbors._kde import DPKernelDensity

__all__ = ["DPHistogramDensity", "DPKernelDensity", "DPNearestCentroid"]
