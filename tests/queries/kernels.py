"""Rows, centres and kernels; one value in the plainest way; images whose Gram matrix is one."""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np

from skdp import PrivacyBudget, core
from skdp.queries import KernelMap
from skdp.tabular import Rows, check_rows

KERNELS = ["rbf", "laplacian"]
SCALES = [4.0, 0.5, 3.0, 1.0, 0.5]  # not in order: a chain with one scale twice, and one alone

RNG = np.random.default_rng(0)
X = RNG.normal(size=(700, 3))
CENTERS = RNG.normal(size=(12, 3))


def rows_of(X) -> Rows:
    return check_rows(np.asarray(X, dtype=float), estimator="T", allow_empty=True)


def open_session(X=X, *, epsilon=1.0, delta=0.0, adjacency="replace_one", seed=None):
    budget = None if seed is not None else PrivacyBudget(1e9, 0.5, adjacency=adjacency)
    return core.open_session(
        rows_of(X), estimator="T", epsilon=epsilon, delta=delta, budget=budget, random_state=seed
    )


def slow_value(k: KernelMap, gamma: float, q, c) -> Decimal:
    """One kernel value from integers, in the plainest way, to 40 digits."""
    step = Fraction(float(k.box.grid[0]))
    apart = [abs(int(a) - int(b)) for a, b in zip(q, c, strict=True)]
    if k.kernel == "rbf":
        exponent = Fraction(gamma) * sum(v * v for v in apart) * step**2
    else:
        exponent = Fraction(gamma) * sum(apart) * step
    with decimal.localcontext(decimal.Context(prec=40)):
        return (-Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp()


def whitened(k: KernelMap, rtol: float = 1e-6):
    """Return the stacked images K_j**(-1/2) k_j over the root of J, and what undoes each scale."""
    b, part = k.n_centers, 1 / math.sqrt(k.n_scales)
    blocks, restore = [], []
    for j, gram in enumerate(k.gram()):
        values, vectors = np.linalg.eigh(gram)
        values, vectors = values[values > rtol * values[-1]], vectors[:, values > rtol * values[-1]]
        block = np.zeros((len(values), k.n_dims))
        block[:, j * b : (j + 1) * b] = part * (vectors / np.sqrt(values)).T
        blocks.append(block)
        restore.append(vectors * np.sqrt(values) / part)
    matrix = np.vstack(blocks)
    undo = np.zeros((k.n_dims, len(matrix)))
    column = 0
    for j, back in enumerate(restore):
        undo[j * b : (j + 1) * b, column : column + back.shape[1]] = back
        column += back.shape[1]
    return matrix, undo
