"""Private releases on a public domain: small tables, linear queries and synthetic tables.

A `Domain` states, from public knowledge, which values each column may have. Queries are made by
`conjunctions`, `thresholds`, `intervals`, `parities` or `linear_queries`. A release answers these
queries, and others of the same kind.
"""

from skdp.synthetic._marginals import DPMarginalSynthesizer
from skdp.synthetic._queries import (
    Queries,
    conjunctions,
    intervals,
    linear_queries,
    parities,
    thresholds,
)
from skdp.synthetic._small_db import DPEmpiricalCDF, SmallDBReleaser
from skdp.synthetic._weights import MWEMReleaser, PrivateMultiplicativeWeights
from skdp.tabular import Bins, Domain

__all__ = [
    "Bins",
    "DPEmpiricalCDF",
    "DPMarginalSynthesizer",
    "Domain",
    "MWEMReleaser",
    "PrivateMultiplicativeWeights",
    "Queries",
    "SmallDBReleaser",
    "conjunctions",
    "intervals",
    "linear_queries",
    "parities",
    "thresholds",
]
