"""Released numbers with their standard errors and confidence intervals.

`Released` is the answer of `skdp.statistics` and `skdp.metrics`. `limits` has the intervals of
means and quantiles, for the rows and for a population, and `equations` those of quotients.
"""

from skdp.confidence.equations import Source
from skdp.confidence.released import Released, released_metric

__all__ = ["Released", "Source", "released_metric"]
