"""Boxes and balls with as many columns as a session's table has; queries of blocks."""

from __future__ import annotations

import numpy as np

from skdp.core import Ball, Box, Mean
from skdp.queries import CellQuantile, OfBlocks, SmoothMedian


def box_of(session, low, high, *, per_feature=False):
    """Return the box of scalars, or of one number a column."""
    shape = (session.n_features,)
    return Box(np.broadcast_to(low, shape), np.broadcast_to(high, shape), per_feature=per_feature)


def ball_of(session, center, radius):
    """Return the ball about a scalar, or about one number a column."""
    return Ball(np.broadcast_to(center, (session.n_features,)), radius)


def block_mean(run, view):
    """Return the query of the mean of what blocks answer."""
    return OfBlocks(run, Mean(view))


def block_median(run, view, n_cells=1024):
    """Return the query of the median of what blocks answer."""
    return OfBlocks(run, CellQuantile(view, 0.5, n_cells))


def block_smooth_median(run, view, **options):
    """Return the query of the median of what blocks answer, under smooth noise."""
    return OfBlocks(run, SmoothMedian(view, **options))
