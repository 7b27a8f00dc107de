"""Exactly distributed noise and its entropy.

Every function here is a function of independent fair bits, and its result has exactly the stated
distribution: no float decides anything without a proven error bound, and what a float cannot decide
is decided in integers, with more bits drawn as needed. Nothing here sees private data or charges a
budget; the kernel's release does.

===============================  =================================================================
`discrete_laplace`               pure epsilon for an integer statistic of known L1 sensitivity
`rounded_gaussian`               Gaussian differential privacy, the rounding of the ideal Gaussian
`k_norm`                         pure epsilon on an L2 ball
`rounded_cauchy`                 pure epsilon under smooth sensitivity
`rounded_student_t`              the same with lighter tails
`symmetrized_wishart`            pure epsilon for a symmetric matrix of known nuclear sensitivity
`exponential_mechanism`          a choice among public candidates
`threshold_table`                a choice among all small tables, by Kolmogorov-Smirnov distance
`uniform_below`                  a uniform integer of any size
`OSEntropy`, `SeededEntropy`     where the bits come from
`lent_generators`                the global generators, for a user's code, and back again
`public_generator`               data-independent randomness for post-processing; never for noise
===============================  =================================================================

How it is built, from the bottom: ``entropy`` (bits), ``exact`` (integer brackets of exp, rational
scales), ``deviates`` (normal and Laplace deviates of unlimited precision), ``rounding`` (certified
rounding of a scaled deviate), and one module for each function.
"""

from __future__ import annotations

from skdp.kernel.sampling.entropy import (
    Entropy,
    OSEntropy,
    SeededEntropy,
    lent_generators,
    public_generator,
)
from skdp.kernel.sampling.exact import uniform_below
from skdp.kernel.sampling.exponential import exponential_mechanism
from skdp.kernel.sampling.gaussian import rounded_gaussian
from skdp.kernel.sampling.heavy_tails import rounded_cauchy, rounded_student_t
from skdp.kernel.sampling.laplace import discrete_laplace
from skdp.kernel.sampling.lattice import n_multisets, threshold_table
from skdp.kernel.sampling.vectors import k_norm
from skdp.kernel.sampling.wishart import symmetrized_wishart

__all__ = [
    "Entropy",
    "OSEntropy",
    "SeededEntropy",
    "discrete_laplace",
    "exponential_mechanism",
    "k_norm",
    "lent_generators",
    "n_multisets",
    "public_generator",
    "rounded_cauchy",
    "rounded_gaussian",
    "rounded_student_t",
    "symmetrized_wishart",
    "threshold_table",
    "uniform_below",
]
