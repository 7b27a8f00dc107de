"""What every test and doctest shares: seeded noise, and figures drawn without a display.

Outside of this suite a ``random_state`` seeds no noise; what is so outside is tested with
``system_noise``.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import skdp
from skdp.budget import ambient
from skdp.core.noise import SeededEntropy, entropy

os.environ["MPLBACKEND"] = "Agg"

# Of a test with more cases than FEW, the one-minute run has this many, or this part of them.
FEW, PART = 2, 100
LONGER = set((Path(__file__).parent / "tests" / "longer.txt").read_text("utf-8").split())


@pytest.hookimpl(tryfirst=True)  # before -m selects by markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark long tests as slow, and most cases of tests with many of them: together they are."""
    cases = defaultdict(list)
    for item in items:
        name, bracket, _ = item.nodeid.partition("[")
        if name in LONGER:
            item.add_marker(pytest.mark.slow)
        if bracket:
            cases[name].append(item)
    for many in cases.values():
        kept = max(FEW, len(many) // PART)
        many.sort(key=lambda item: item.nodeid)  # the same ones in any order of the tests
        for i, item in enumerate(many):
            if (i + 1) * kept // len(many) == i * kept // len(many):
                item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session", autouse=True)
def _seeded_noise() -> Iterator[None]:
    """Let ``random_state`` seed noise in tests, doctests, audits and scikit-learn's checks."""
    with skdp.config_context(noise="seeded"):
        yield


@pytest.fixture(autouse=True)
def _the_same_bits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what has no ``random_state`` draw the same bits in every run of a test.

    So a test of a random statement passes always or never. Processes that a test starts draw from
    the operating system, and so does a test with ``system_noise``.
    """
    if "system_noise" in request.fixturenames:
        return
    name, process = request.node.nodeid, os.getpid()
    stream = SeededEntropy(0, name.encode())

    def urandom(n: int) -> bytes:
        return stream.bytes(n) if os.getpid() == process else os.urandom(n)

    def restart(label: str) -> None:  # for the cases of one item (tests/folding.py)
        nonlocal stream
        stream = SeededEntropy(0, f"{name}|{label}".encode())

    monkeypatch.setattr(entropy, "os", SimpleNamespace(urandom=urandom, restart=restart))


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
