"""What every test and doctest shares: seeded noise, and figures drawn without a display.

Outside of this suite a ``random_state`` seeds no noise; what is so outside is tested with
``system_noise``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

import skdp
from skdp.budget import ambient

os.environ["MPLBACKEND"] = "Agg"


@pytest.fixture(scope="session", autouse=True)
def _seeded_noise() -> Iterator[None]:
    """Let ``random_state`` seed noise in tests, doctests, audits and scikit-learn's checks."""
    with skdp.config_context(noise="seeded"):
        yield


@pytest.fixture
def system_noise() -> Iterator[None]:
    """Take it back: noise comes from the operating system, as it does for everybody else."""
    with skdp.config_context(noise="system"):
        yield


@pytest.fixture(autouse=True)
def _no_budget_of_another_test() -> None:
    """Forget the budgets that are still there: beside one, a fit without a budget warns."""
    ambient._LIVE.clear()


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[None]:
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
