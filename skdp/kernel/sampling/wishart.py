"""Symmetrised Wishart noise (pure epsilon for a second-moment matrix), exactly rounded.

M = round(W1 - W2), W_i = scale * G_i G_i^T, G_i of shape (d, d+1) standard normal.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from .deviates import BITS, draw_normal
from .entropy import Entropy, resolve
from .exact import as_rational, as_shape

__all__ = ["symmetrized_wishart"]

_MIN_SCALE = Fraction(1, 1 << 100)
_MAX_SCALE = Fraction(1 << 62)


def symmetrized_wishart(d: int, scale: Any, *, entropy: Entropy | None = None) -> np.ndarray:
    """Slow version."""
    c = as_rational(scale, "scale", _MIN_SCALE, _MAX_SCALE)
    shape = as_shape(d)
    if shape is None or len(shape) != 1 or shape[0] < 1:
        raise ValueError("d must be an int of at least 1.")
    source = resolve(entropy)
    k = 2 * (d + 1)
    drawn = draw_normal(d * k, source)
    where = np.arange(d * k)
    bits = BITS
    sign = np.array([1] * (d + 1) + [-1] * (d + 1), dtype=object)
    while True:
        bits += 64
        g = drawn.prefixes(where, bits, source).reshape(d, k)
        w = (g * sign).dot(g.T)
        norm1 = np.abs(g).sum(axis=1)
        err = norm1[:, None] + norm1[None, :] + k
        below = c.denominator << (2 * bits)
        lo = (2 * c.numerator * (w - err) + below) // (2 * below)
        hi = (2 * c.numerator * (w + err) + below) // (2 * below)
        if (lo == hi).all():
            try:
                return lo.astype(np.int64)
            except OverflowError:
                return lo
