"""What every test and doctest shares: drawn examples that repeat themselves, and seeded noise.

`pytest --hypothesis-profile=default` draws other examples each time, to look for more. Outside of
this suite a ``random_state`` seeds no noise; what is so outside is tested with ``system_noise``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

import skdp

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")


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
