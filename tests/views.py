"""Boxes and balls with as many columns as a session's table has."""

from __future__ import annotations

import numpy as np

from skdp.core import Ball, Box


def box_of(session, low, high, *, per_feature=False):
    """Return the box of scalars, or of one number a column."""
    shape = (session.n_features,)
    return Box(np.broadcast_to(low, shape), np.broadcast_to(high, shape), per_feature=per_feature)


def ball_of(session, center, radius):
    """Return the ball about a scalar, or about one number a column."""
    return Ball(np.broadcast_to(center, (session.n_features,)), radius)
