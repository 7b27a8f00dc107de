"""Discrete Laplace noise of any rational scale, exactly distributed.

Released by nobody here: the session adds the noise to an exact integer statistic. With scale
t = sensitivity / epsilon the sum is epsilon-DP (pure), since the distribution below is exact.

Distribution: P(K = k) = (1 - q) / (1 + q) * q**|k|, q = exp(-1/t), the two-sided geometric.

Method. Let X be a standard Laplace deviate: floor(t |X|) = k has probability q**k (1 - q). Draw K =
trunc(t X), and draw again when X < 0 and K = 0: then K = k > 0 and K = -k < 0 have weights
(1 - q) q**|k| / 2 each, and K = 0 has weight (1 - q) / 2: the distribution above up to a
factor. A draw is rejected with probability (1 - q) / 2 = about 1 / (2 t).

The truncation is certified (see ``rounding``).

References
----------
A. Ghosh, T. Roughgarden, M. Sundararajan (2012), "Universally utility-maximizing privacy
mechanisms", SIAM J. Comput. 41(6) (the two-sided geometric mechanism).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from skdp.core.noise.deviates import Deviates, draw_laplace
from skdp.core.noise.entropy import Entropy, resolve
from skdp.core.noise.exact import as_rational, as_shape
from skdp.core.noise.rounding import round_scaled

__all__ = [
    "discrete_laplace",
]

_MIN_SCALE = Fraction(1, 1 << 100)
_MAX_SCALE = Fraction(1 << 52)


def discrete_laplace(
    scale: int | float | Fraction, size: Any = None, *, entropy: Entropy | None = None
) -> Any:
    """Draw exact discrete Laplace noise, P(k) proportional to exp(-abs(k) / scale).

    Parameters
    ----------
    scale : int, float or Fraction
        Scale in grid steps, taken at its exact rational value; in [2**-100, 2**52].
    size : int, tuple of int or None
        Shape of the result; None for a single int.
    entropy : Entropy or None
        Source of bits; None for the operating system.

    Returns
    -------
    int or ndarray of int64 (Python integers if one does not fit, probability below exp(-1000))

    Raises
    ------
    TypeError, ValueError
        If `scale` is not a finite number in the range, or `size` is no shape.

    Notes
    -----
    **Guarantee.** Exactly distributed for every rational scale, given fair independent bits.
    **Privacy.** Added to an integer statistic of L1 sensitivity s, it is (s / scale)-DP. The
    caller charges.

    Examples
    --------
    >>> from skdp.core.noise import SeededEntropy, discrete_laplace
    >>> discrete_laplace(1000, (2, 3), entropy=SeededEntropy(0)).shape
    (2, 3)
    """
    t = as_rational(scale, "scale", _MIN_SCALE, _MAX_SCALE)
    shape = as_shape(size)
    source = resolve(entropy)
    n = 1 if shape is None else math.prod(shape)
    out = np.empty(n, dtype=np.int64)
    todo: np.ndarray | None = None
    while todo is None or todo.size:
        drawn = draw_laplace(n if todo is None else todo.size, source)
        values = round_scaled(drawn, t, False, source)
        zero = np.flatnonzero(values == 0)
        again = zero[_negative(drawn, zero)]
        if todo is None:
            out, todo = values, again
        else:
            out = out.astype(object) if values.dtype == object else out
            out[todo] = values
            todo = todo[again]
    return int(out[0]) if shape is None else out.reshape(shape)


def _negative(drawn: Deviates, where: np.ndarray) -> np.ndarray:
    """Whether the deviates at `where` are negative (their prefixes tell)."""
    out = drawn.x[where] < 0
    if drawn.held:
        for i, k in enumerate(where.tolist()):
            if k in drawn.held:
                out[i] = drawn.held[k][0] < 0
    return out
