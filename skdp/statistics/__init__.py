"""Private statistics for everyday use: each call is one charge and returns its standard error.

Each function checks its arguments and the rows, charges (epsilon, delta) to its budget under its
own name, and returns a `Released`: values, their standard errors, and a certificate. A row is the
privacy unit (without `groups`), so statistics are over rows, for each column. With ``axis=None``
the cells of each row are added up as well.
"""

from skdp.statistics._call import Released
from skdp.statistics._compare import Comparison, compare
from skdp.statistics._describe import Description, describe
from skdp.statistics._expected import expected_error
from skdp.statistics._histograms import (
    histogram,
    histogram2d,
    histogramdd,
    median,
    percentile,
    quantile,
    subset_sums,
)
from skdp.statistics._moments import (
    correlation,
    count,
    count_nonzero,
    covariance,
    mean,
    rows_left_out,
    std,
    sum,  # noqa: A004  as numpy's
    var,
)
from skdp.statistics._queries import QuerySession, mst_cost, query_session

__all__ = [
    "Comparison", "Description", "QuerySession", "Released", "compare", "correlation", "count",
    "count_nonzero", "covariance", "describe", "expected_error", "histogram", "histogram2d",
    "histogramdd", "mean", "median", "mst_cost", "percentile", "quantile", "query_session",
    "rows_left_out", "std", "subset_sums", "sum", "var",
]  # fmt: skip
