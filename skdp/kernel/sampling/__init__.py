"""Exactly distributed noise and its entropy; see the modules for the proofs."""

from __future__ import annotations

from .entropy import Entropy, OSEntropy, SeededEntropy, public_generator
from .exact import uniform_below
from .exponential import exponential_mechanism
from .gaussian import rounded_gaussian
from .laplace import discrete_laplace
from .vectors import k_norm
from .wishart import symmetrized_wishart

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
