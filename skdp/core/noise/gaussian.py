"""Rounded Gaussian noise: the nearest integer to an ideal N(0, sigma**2), exactly distributed.

P(K = k) = Phi((k + 1/2) / sigma) - Phi((k - 1/2) / sigma). For an integer statistic f, f + K is the
rounding of f + N(0, sigma**2): post-processing of the ideal Gaussian mechanism. So the analytic
calibration (Balle & Wang 2018) and Gaussian differential privacy hold exactly, in any dimension.

Method: a certified rounding (see ``rounding``) of sigma times a normal deviate (``deviates``).

References
----------
B. Balle, Y.-X. Wang (2018), "Improving the Gaussian mechanism for differential privacy", ICML,
Theorem 8. J. Dong, A. Roth, W. J. Su (2022), "Gaussian differential privacy", JRSS B 84(1).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from skdp.core.noise.deviates import draw_normal
from skdp.core.noise.entropy import Entropy, resolve
from skdp.core.noise.exact import as_rational, as_shape, check_scales
from skdp.core.noise.rounding import round_scaled

__all__ = [
    "rounded_gaussian",
]

_MIN_SIGMA = Fraction(1, 1 << 100)
_MAX_SIGMA = Fraction(1 << 52)


def rounded_gaussian(sigma: Any, size: Any = None, *, entropy: Entropy | None = None) -> Any:
    """Draw the nearest integers to ideal Gaussian variables.

    Parameters
    ----------
    sigma : int, float, Fraction or array of float
        Standard deviation in grid steps, at its exact rational value; in [2**-100, 2**52]. An
        array is broadcast to `size`.
    size : int, tuple of int or None
        Shape of the result; None for the shape of `sigma` (an int for a scalar).
    entropy : Entropy or None
        Source of bits; None for the operating system.

    Returns
    -------
    int or ndarray of int64 (Python integers if one does not fit, probability below exp(-1000))

    Raises
    ------
    TypeError, ValueError
        If a sigma is not a finite number in the range, or does not broadcast to `size`.

    Notes
    -----
    **Guarantee.** Exactly distributed, given fair independent bits.
    **Privacy.** Added to an integer statistic of L2 sensitivity s, it is (s / sigma)-GDP. The
    caller charges.

    Examples
    --------
    >>> from skdp.core.noise import SeededEntropy, rounded_gaussian
    >>> rounded_gaussian([1e3, 2e3], (5, 2), entropy=SeededEntropy(0)).shape
    (5, 2)
    """
    shape = as_shape(size)
    source = resolve(entropy)
    if np.ndim(sigma) == 0:
        exact_sigma = as_rational(sigma, "sigma", _MIN_SIGMA, _MAX_SIGMA)
        n = 1 if shape is None else math.prod(shape)
        out = round_scaled(draw_normal(n, source), exact_sigma, True, source)
        return int(out[0]) if shape is None else out.reshape(shape)
    sigmas = check_scales(sigma, "sigma", _MIN_SIGMA, _MAX_SIGMA)
    if shape is None:
        shape = sigmas.shape
    try:
        sigmas = np.broadcast_to(sigmas, shape)
    except ValueError:
        raise ValueError("sigma must broadcast to size.") from None
    n = math.prod(shape)
    return round_scaled(draw_normal(n, source), sigmas.ravel(), True, source).reshape(shape)
