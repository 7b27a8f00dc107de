"""The table that private statistics are called on."""

from __future__ import annotations

import numpy as np
import pytest

from tests.statistics.calls import HIGH, LOW


@pytest.fixture(scope="module")
def X():
    """Rows within LOW and HIGH, columns of very different scales, a fifth of one column 0."""
    rng = np.random.default_rng(0)
    X = LOW + (HIGH - LOW) * rng.beta([2, 5, 3], [5, 2, 3], size=(1500, 3))
    X[:300, 0] = 0.0
    return X
