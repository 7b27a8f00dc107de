"""Exactly distributed noise and its entropy; see the modules for the proofs."""

from __future__ import annotations

from skdp.kernel.sampling.entropy import Entropy, OSEntropy, SeededEntropy, public_generator
from skdp.kernel.sampling.exact import uniform_below
from skdp.kernel.sampling.exponential import exponential_mechanism
from skdp.kernel.sampling.gaussian import rounded_gaussian
from skdp.kernel.sampling.laplace import discrete_laplace
from skdp.kernel.sampling.vectors import k_norm
from skdp.kernel.sampling.wishart import symmetrized_wishart

__all__ = [
    "Entropy",
    "OSEntropy",
    "SeededEntropy",
    "discrete_laplace",
    "exponential_mechanism",
    "k_norm",
    "public_generator",
    "rounded_gaussian",
    "symmetrized_wishart",
    "uniform_below",
]
