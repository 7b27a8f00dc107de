"""The weight of a row as a part of a public bound: a number from 0 to 1, or whole steps of it.

Nothing is released here. Proofs: weighted.md.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["parts_of", "steps_of"]

Floats = NDArray[np.float64]


def parts_of(weights: NDArray, most: float) -> Floats:
    """Return weights, clipped to [0, most], as parts of `most`: two operations on one number."""
    if not 0.0 < most < math.inf:
        raise ValueError(f"most must be finite and positive, got {most!r}")
    return np.clip(weights, 0.0, most) / most


def steps_of(weights: NDArray, most: float, bits: int) -> Floats:
    """Return the same in steps of 2**-bits, rounded: integers from 0 to 2**bits."""
    return np.rint(parts_of(weights, most) * 2.0**bits)
