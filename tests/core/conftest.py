"""A fixture of the tests that force fallbacks of the samplers."""

from __future__ import annotations

import pytest

from skdp.core.noise import exact


@pytest.fixture
def slack(monkeypatch):
    """Return a function that makes every float filter as imprecise as told."""

    def set_slack(value: float) -> None:
        monkeypatch.setattr(exact, "SLACK", value)

    return set_slack
