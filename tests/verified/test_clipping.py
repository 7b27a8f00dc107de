"""Row maps: their bounds hold for every double, or for every row of a grid.

`Box.map` and `ScaledBox.map` run on symbolic doubles, so the result is a proof for all inputs.
`clip_to_norm` (which `Ball.map` calls) sums squares over columns, which is too much for the solver:
it runs on every row of several grids and on rows within two steps of large spheres, and the bound
is compared in integers.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from skdp.core import clipping
from skdp.core.clipping import Box, ScaledBox, _outside, clip_to_norm

ABOUT = ("skdp/core/clipping.py",)
NEEDS = ("bitwuzla", "z3")


# --- boxes: all doubles -------------------------------------------------------------------------


@pytest.fixture
def symbolic(symbolic, monkeypatch):
    """Return the helpers for symbolic numbers, with numpy in `clipping` able to round them."""
    monkeypatch.setattr(clipping, "np", symbolic.NumpyForSymbols())
    return symbolic


def box_of_any_doubles(symbolic, center, grid, half):
    """Return a one-column `Box` whose public numbers are symbolic, without its constructor."""
    view = Box.__new__(Box)
    view.__dict__.update(
        n_dims=1,
        center=symbolic.array_of(center),
        grid=symbolic.array_of(grid),
        half=symbolic.array_of(half),
    )
    return view


def scaled_box_of_any_doubles(symbolic, middle, half_width):
    """Return a one-column `ScaledBox` of 2**30 steps whose bounds are symbolic."""
    example = ScaledBox([-1.0], [1.0], 30)
    view = ScaledBox.__new__(ScaledBox)
    view.__dict__.update({name: v for name, v in vars(example).items() if name != "_sealed"})
    view.__dict__.update(middle=symbolic.array_of(middle), _divisor=symbolic.array_of(half_width))
    return view


def search_box(symbolic, *, half_is_whole):
    """Look for a row that `Box.map` maps to a fraction, or beyond `half`."""
    import z3

    x, center, grid, half = symbolic.doubles("xcgh")
    assumptions = [symbolic.is_finite(term) for term in (x, center, grid, half)]
    assumptions += [
        z3.fpGT(grid, symbolic.double(2.0**-1022)),
        z3.fpGEQ(half, symbolic.double(0.0)),
        z3.fpLEQ(half, symbolic.double(2.0**32)),
    ]
    if half_is_whole:
        assumptions.append(symbolic.is_whole(half))
    view = box_of_any_doubles(symbolic, center, grid, half)

    def bounded_integer(image):
        q = symbolic.double(image[0, 0])
        return z3.And(z3.fpLEQ(z3.fpAbs(q), half), symbolic.is_whole(q))

    return symbolic.counterexample(
        lambda: view.map(symbolic.array_of(x).reshape(1, 1)),
        assumptions,
        bounded_integer,
        symbolic.bitwuzla_answer,
    )


def search_scaled_box(symbolic, *, bound):
    """Look for a row that `ScaledBox.map` maps to a fraction, or beyond a bound."""
    import z3

    x, middle, half_width = symbolic.doubles("xmw")
    assumptions = [symbolic.is_finite(term) for term in (x, middle, half_width)]
    assumptions.append(z3.fpGT(half_width, symbolic.double(0.0)))
    view = scaled_box_of_any_doubles(symbolic, middle, half_width)

    def bounded_integer(image):
        q = symbolic.double(image[0, 0])
        return z3.And(z3.fpLEQ(z3.fpAbs(q), symbolic.double(bound)), symbolic.is_whole(q))

    return symbolic.counterexample(
        lambda: view.map(symbolic.array_of(x).reshape(1, 1)),
        assumptions,
        bounded_integer,
        symbolic.bitwuzla_answer,
    )


def test_box_maps_every_double_to_a_bounded_integer(symbolic, record_property):
    """`Box.map` returns an integer of at most `half` steps.

    Domain: every finite cell, centre, grid above 2**-1022, and whole `half` from 0 to 2**32.
    Method: numpy runs on symbolic doubles; Bitwuzla finds no counterexample on any path.
    """
    n_paths, found = search_box(symbolic, half_is_whole=True)
    record_property("paths", n_paths)
    assert found == "none"


def test_scaled_box_maps_every_double_to_a_bounded_integer(symbolic, record_property):
    """`ScaledBox.map` returns an integer of at most 2**30 steps.

    Domain: every finite cell and middle, every finite half width above 0. Method: as above.
    """
    n_paths, found = search_scaled_box(symbolic, bound=2.0**30)
    record_property("paths", n_paths)
    assert found == "none"


def test_false_claims_about_boxes_are_refuted(symbolic):
    """Controls: the solver finds a counterexample where there is one.

    A `half` that is no integer lets rounding leave the box; a bound of one step less is exceeded.
    """
    assert search_box(symbolic, half_is_whole=False)[1] == "found"
    assert search_scaled_box(symbolic, bound=2.0**30 - 1)[1] == "found"


# --- balls: grids of rows -----------------------------------------------------------------------

# Dimension, radii in steps, and rows a step. Rows reach three steps beyond the radius.
GRIDS = ((1, range(40), 8), (2, range(13), 4), (3, range(4), 2))
LARGE_RADII = (2**26 - 1, 2**26, 2**26 + 1, 2**30 - 1, 2**30, 2**31 - 1)
FAR = np.finfo(float).max


def squared_norm(row):
    """Return the sum of squares of an integer-valued row, exactly."""
    return sum(int(value) ** 2 for value in row)


def test_clip_to_norm_on_every_row_of_a_grid(record_property):
    """Rows inside the ball go to the nearest step, all others to integers within the norm.

    Domain: rows at eighths of a step in one dimension (radius 0 to 39), at quarters in two
    (0 to 12), at halves in three (0 to 3), on grids of 1 and 2**-20. Method: exhaustive; these
    sums of squares are exact in float64.
    """
    n_rows = 0
    for n_dims, radii, parts in GRIDS:
        for radius in radii:
            axis = np.arange(-(radius + 3) * parts, (radius + 3) * parts + 1) / parts
            rows = np.array(list(itertools.product(axis, repeat=n_dims)))
            nearest = np.rint(rows)
            inside = (nearest**2).sum(axis=1) <= radius**2
            for grid in (1.0, 2.0**-20):
                image = clip_to_norm(rows * grid, grid, radius)
                assert np.array_equal(image, np.rint(image))
                assert ((image**2).sum(axis=1) <= radius**2).all()
                assert np.array_equal(image[inside], nearest[inside])
                n_rows += len(rows)
    record_property("rows", n_rows)


def test_clip_to_norm_near_large_spheres(record_property):
    """What is outside is told exactly, and clipped rows are within the norm.

    Domain: rows within two steps of spheres of radius 2**26 - 1 to 2**31 - 1 in 1, 2, 3, 50 and
    8192 dimensions, in seeded directions. Method: comparison with Python integers.
    """
    rng, n_rows = np.random.default_rng(0), 0
    for radius, n_dims in itertools.product(LARGE_RADII, (1, 2, 3, 50, 8192)):
        directions = rng.normal(size=(60 if n_dims < 8192 else 4, n_dims))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        rows = np.rint(directions * radius)
        rows[:, 0] += rng.integers(-2, 3, size=len(rows))
        truth = [i for i, row in enumerate(rows) if squared_norm(row) > radius**2]
        assert _outside(rows.copy(), radius).tolist() == truth
        assert all(squared_norm(q) <= radius**2 for q in clip_to_norm(rows.copy(), 1.0, radius))
        n_rows += len(rows)
    for row in ([FAR, FAR], [-FAR, 5e-324], [np.inf, 1.0], [np.inf, -np.inf], [5e-324, 5e-324]):
        (image,) = clip_to_norm(np.array([row]), 1.0, 1000)
        assert squared_norm(image) <= 1000**2
        n_rows += 1
    record_property("rows", n_rows)
