"""Exactly distributed noise and its entropy.

Every function here is a function of independent fair bits, and its result has exactly the stated
distribution: no float decides anything without a proven error bound, and what a float cannot decide
is decided in integers, with more bits drawn as needed. Nothing here sees private data or charges a
budget; a session does.

===============================  =================================================================
`discrete_laplace`               pure epsilon for an integer statistic of known L1 sensitivity
`rounded_gaussian`               Gaussian differential privacy, the rounding of the ideal Gaussian
`k_norm`                         pure epsilon on an L2 ball
`exponential_mechanism`          a choice among public candidates
`uniform_below`                  a uniform integer of any size
`OSEntropy`, `SeededEntropy`     where the bits come from
`lent_generators`                the global generators, for a user's code, and back again
`public_generator`               data-independent randomness for post-processing; never for noise
===============================  =================================================================

How it is built, from the bottom: ``entropy`` (bits), ``exact`` (integer brackets of exp, rational
scales), ``deviates`` (normal and Laplace deviates of unlimited precision), ``additive`` (their
certified rounding: independent noise on integers), ``vectors`` (K-norm noise) and ``exponential``
(choices). What one query alone draws stands beside it in `skdp.queries`.
"""

from __future__ import annotations

from skdp.core.noise.additive import discrete_laplace, rounded_gaussian
from skdp.core.noise.entropy import (
    Entropy,
    OSEntropy,
    SeededEntropy,
    lent_generators,
    public_generator,
)
from skdp.core.noise.exact import uniform_below
from skdp.core.noise.exponential import exponential_mechanism
from skdp.core.noise.vectors import k_norm

__all__ = [
    "Entropy",
    "OSEntropy",
    "SeededEntropy",
    "discrete_laplace",
    "exponential_mechanism",
    "k_norm",
    "lent_generators",
    "public_generator",
    "rounded_gaussian",
    "uniform_below",
]
