"""Whitened kernel features (Nystroem), from public centres, for density ratios and densities.

For scale j with Gram matrix K_j = k_j(c_i, c_l), the map psi_j(x) = K_j^{-1/2} k_j(x) is a
projection in the kernel's Hilbert space, so |psi_j| <= 1 for any number of centres (Williams &
Seeger 2001). The scales are stacked, each divided by the root of their number, so the norm stays
below 1. Directions with less variance over the public rows than noise are left out, because the
noise of a pure release grows with the number of directions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_RTOL = 1e-6  # eigenvalues of a Gram matrix below this part of the largest are zero
# Least root mean square of a direction, in deviations of noise; 1 to 2 were equally good in one to
# ten dimensions, 0.5 was worse.
LEAST_SIGNAL = 2.0


@dataclass(frozen=True)
class Features:
    """A linear map of kernel values to features, and its inverses.

    `matrix` (r, n_scales * b) maps the kernel values of a row, scale by scale, to features;
    `restore` has a matrix (b, r) for each scale, from features to the kernel values at the centres.
    """

    matrix: Floats
    restore: tuple[Floats, ...]


def nystroem_features(
    grams: list[Floats], second: Floats, noise: Callable[[int], float]
) -> Features:
    """Return the stacked whitened features that vary over the public rows by more than noise.

    `grams` are the kernel matrices (b, b) of the centres by scale, `second` is the mean product of
    the kernel values of public rows, `noise` the deviation of the noise for a number of features.
    """
    b = len(grams[0])
    part = 1.0 / np.sqrt(len(grams))
    whiten, restore = [], []
    for j, gram in enumerate(grams):
        values, vectors = np.linalg.eigh(gram)
        keep = values > _RTOL * values[-1]
        root = np.sqrt(values[keep])
        block = np.zeros((int(keep.sum()), len(grams) * b))
        block[:, j * b : (j + 1) * b] = part * (vectors[:, keep] / root).T
        whiten.append(block)
        restore.append(vectors[:, keep] * root / part)
    stacked = np.vstack(whiten)
    variances, directions = np.linalg.eigh(stacked @ second @ stacked.T)
    variances, directions = variances[::-1], directions[:, ::-1]
    sizes = np.sqrt(np.maximum(variances, 0.0))
    loud = [size > LEAST_SIGNAL * noise(r + 1) for r, size in enumerate(sizes)]
    rank = max(1, int(np.sum(loud)))
    chosen = directions[:, :rank]
    edges = np.cumsum([0] + [len(block) for block in whiten])
    return Features(
        matrix=chosen.T @ stacked,
        restore=tuple(
            scale @ chosen[start:stop]
            for scale, start, stop in zip(restore, edges[:-1], edges[1:], strict=True)
        ),
    )


def independent_features(n_scales: int, b: int) -> Features:
    """Return the kernel values themselves as features."""
    identity = np.eye(n_scales * b)
    return Features(
        matrix=identity,
        restore=tuple(identity[j * b : (j + 1) * b] for j in range(n_scales)),
    )
