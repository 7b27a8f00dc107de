"""Private densities: `DPKernelDensity` and its plain baseline `DPHistogramDensity`.

Both release something finite once (a mean of kernel features, a histogram) and answer any number
of later questions from it: densities at any points, samples.
"""

from skdp.neighbors._histogram import DPHistogramDensity
from skdp.neighbors._kde import DPKernelDensity

__all__ = ["DPHistogramDensity", "DPKernelDensity"]
