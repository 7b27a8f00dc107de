"""Scores of classes at public rows in a few public directions: what few blocks can still tell.

Nothing is released here. A block's scores at P public rows are P numbers, and noise for all of them
would drown what few blocks say. Their parts along a few directions that are smooth in the public
rows are few numbers, and noise for these is small. Directions come from public rows alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_FLAT = 1e-9  # of the largest singular value: no direction


def directions(public: Floats, most: int) -> Floats:
    """Return orthonormal directions over public rows, shape (n_rows, k), the smoothest first.

    The constant, then the principal components of the standardized columns, then those of a
    Gaussian kernel between the rows, whose width is their median distance.

    Parameters
    ----------
    public : ndarray of shape (n_rows, n_features)
    most : int
        Directions wanted; fewer are returned where rows have no more.
    """
    n = len(public)
    most = min(most, n)
    with np.errstate(all="ignore"):
        half = np.abs(public).max(axis=0, initial=0.0)
        scaled = public / np.where(half > 0, half, 1.0)  # squares of huge values overflow
        centred = scaled - scaled.mean(axis=0)
        width = np.sqrt(np.mean(np.square(centred), axis=0))
        z = np.where(width > _FLAT, centred / np.where(width > _FLAT, width, 1.0), 0.0)
    found = [np.full((n, 1), n**-0.5)]
    left, sizes, _ = np.linalg.svd(z, full_matrices=False)
    found.append(left[:, sizes > _FLAT * max(float(sizes.max(initial=0.0)), 1e-300)])
    basis = np.column_stack(found)
    if basis.shape[1] < most:
        squares = np.square(z).sum(axis=1)
        distances = np.maximum(squares[:, None] + squares - 2.0 * (z @ z.T), 0.0)
        typical = float(np.median(distances))
        if typical > 0:
            values, vectors = np.linalg.eigh(np.exp(-distances / typical))
            order = np.argsort(values)[::-1][: 2 * most]
            order = order[values[order] > _FLAT * values.max()]
            basis = _joined(basis, vectors[:, order])
    return basis[:, :most]


def _joined(basis: Floats, more: Floats) -> Floats:
    """Return an orthonormal basis of both, the first columns kept, repetitions left out."""
    for column in more.T:
        rest = column
        for _ in range(2):  # once leaves rounding
            rest = rest - basis @ (basis.T @ rest)
        size = float(np.linalg.norm(rest))
        if size > 1e-3:
            basis = np.column_stack([basis, rest / size])
    return basis


def radius(n_classes: int) -> float:
    """Return the largest norm of a block's parts: that of a row's scores, less equal ones.

    Scores of two classes are one number, their difference, in [-1, 1]; those of more are parts of
    1, from which 1/n_classes is taken.
    """
    return 1.0 if n_classes == 2 else float((1.0 - 1.0 / n_classes) ** 0.5)


def restored(parts: Floats, basis: Floats, n_classes: int) -> Floats:
    """Return scores at the public rows, shape (n_rows, n_classes), from released parts."""
    n, k = basis.shape
    found = n**0.5 * (basis @ parts.reshape(k, -1))
    if n_classes == 2:
        found = np.column_stack([0.5 - found[:, 0] / 2, 0.5 + found[:, 0] / 2])
    else:
        found = found + 1.0 / n_classes
    return np.asarray(np.clip(found, 0.0, 1.0))
