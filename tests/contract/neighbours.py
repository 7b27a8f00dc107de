"""Pairs of neighbouring tables: drawn of delicate values, and worst for some statistic."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from skdp.audit import neighbour_check

D = 3

# Values at which arithmetic is delicate: signed zeros, denormals, the largest floats, neighbours of
# bounds and of powers of two (boundaries of bins and of cells), and of 1/3 (no grid point).
DELICATE = [0.0, -0.0, 5e-324, -2.3e-308, 1e-12, 1e300, -1e300, 1.7976931348623157e308, 1 / 3, 16.0]
DELICATE += [s * v for s in (1, -1) for b in (0.25, 0.5, 1.0) for v in
             (b, np.nextafter(b, 0), np.nextafter(b, 2))]  # fmt: skip
ONE_CELL = 2 / 4096
DELICATE += [-1 + ONE_CELL, np.nextafter(-1 + ONE_CELL, 0), np.nextafter(-1 + ONE_CELL, -1)]

values = st.sampled_from(DELICATE) | st.floats(-2, 2) | st.floats(allow_nan=False, width=64,
                                                                  allow_infinity=False)  # fmt: skip


@st.composite
def neighbours(draw, relation, d):
    """Draw (X, X'): one row replaced or removed, at the first, last or a middle place."""
    row = st.lists(values, min_size=d, max_size=d)
    n = draw(st.integers(2, 6))
    X = np.array([draw(row) for _ in range(n)])
    place = draw(st.sampled_from([0, n - 1, n // 2]))
    if relation == "replace_one":
        other = X.copy()
        other[place] = draw(row)
    else:
        other = np.delete(X, place, axis=0)
        if draw(st.booleans()):
            X, other = other, X
    return X, other


def check_neighbours(estimator, case, X, other):
    """Check neighbouring private rows, among the same public ones where the case has such.

    Tables of two lengths have their private rows at other places: nothing may be made of these.
    """
    (X, y), (other, y_other) = case.table(X), case.table(other, len(X) != len(other))
    return neighbour_check(estimator, X, other, y=y, y_neighbour=y_other)


def worst_pairs(d):
    """Return pairs of rows (or a row alone) that are worst for one statistic or another."""
    e = np.eye(d)
    ones = np.ones(d)
    signs = np.where(np.arange(d) % 2, -1.0, 1.0)
    # The eigenvectors of S = [[J, J], [J, -J]], at an angle of 22.5 degrees to the halves.
    half = np.arange(d) < (d + 1) // 2
    up, down = math.cos(math.pi / 8), math.sin(math.pi / 8)
    s_first = np.where(half, up, down) / math.sqrt(d / 2)
    s_second = np.where(half, down, -up) / math.sqrt(d / 2)
    sphere = np.random.default_rng(3).normal(size=(2, d))
    sphere /= np.linalg.norm(sphere, axis=1)[:, None]
    third = np.full(d, 1 / math.sqrt(d))
    return {
        "poles": (e[0], -e[0]),
        "orthogonal": (e[0], e[-1]),
        "corners": (ones, -ones),
        "far corners": (1e300 * ones, -1e300 * ones),
        "alternating": (signs, -signs),
        "diagonals": (third, signs / math.sqrt(d)),
        "laplace gram": (s_first, s_second),
        "sphere": (sphere[0], sphere[1]),
        "sphere, one ulp out": (np.nextafter(sphere[0], 2 * sphere[0]), -sphere[0]),
        "opposite on the sphere": (third, -third),
        "denormal and huge": (5e-324 * ones, 1e300 * e[0]),
        "zeros of two signs": (0.0 * ones, -0.0 * ones),
        "tau": (e[0], -0.0225 * e[0] + math.sqrt(1 - 0.0225**2) * e[-1]),
    }


def tables(relation, first, second):
    others = np.zeros((2, D))
    X = np.vstack([others, first])
    return (X, np.vstack([others, second])) if relation == "replace_one" else (X, others)
