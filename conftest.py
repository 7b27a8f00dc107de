"""What every test and doctest shares: seeded noise, figures without a display, and what runs when.

Outside of this suite a ``random_state`` seeds no noise; what is so outside is tested with
``system_noise``.
"""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import skdp
from skdp.budget import ambient
from skdp.core.noise import SeededEntropy, entropy

ROOT = Path(__file__).parent
os.environ["MPLBACKEND"] = "Agg"

# Of a long test with MANY items the one-minute run has a FEW.
FEW, MANY = 2, 20
# What a run leaves out, and what runs it.
LEFT_OUT = {
    "ci": 'that CI runs, too: python -m pytest -m "not exhaustive"',
    "exhaustive": "of many minutes: python tests/exhaustive.py",
    "since": "that no change since then can break: run without --since",
}
# What to do after a run of all tests, by its exit status.
NEXT = {
    0: "All passed. Next: use skdp (doc/get_started.md), check it (doc/trust.md) or extend it "
    "(CONTRIBUTING.md).",
    1: "Next: `python -m pytest -n 0 --lf` repeats what failed. In a report, quote what "
    "`python -m skdp` prints.",
}
_COUNTS: Counter[str] = Counter()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--since``."""
    parser.addoption(
        "--since",
        metavar="REVISION",
        help="run the tests that a change since a revision of git can break (tests/selection.py)",
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Collect without looking for garbage, which takes a third of the time and finds none."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before -m selects by markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what takes long, by `tests/longer.txt`; leave out what no change can break."""
    lines = (ROOT / "tests" / "longer.txt").read_text("utf-8").splitlines()
    marks = {name: mark for mark, name in (line.split() for line in lines)}
    cases = defaultdict(list)
    for item in items:
        if item.get_closest_marker("statistical"):
            item.add_marker("ci")
        if item.get_closest_marker("ci"):
            item.user_properties.append(("run", "ci"))  # tests/longer.py does not count it
        cases[item.nodeid.partition("[")[0]].append(item)
    for name in marks.keys() & cases.keys():
        many = sorted(cases[name], key=lambda item: item.nodeid)  # the same ones in any order
        for item in many[FEW:] if marks[name] == "slow" and len(many) >= MANY else many:
            item.add_marker(marks[name])
    for item in items:
        if item.get_closest_marker("ci") or item.get_closest_marker("exhaustive"):
            item.add_marker("slow")
    if config.option.since is not None:
        _leave_out_what_no_change_breaks(config, items)


def _leave_out_what_no_change_breaks(config: pytest.Config, items: list[pytest.Item]) -> None:
    from tests.selection import changed_since, selected

    files = selected(changed_since(config.option.since))
    if files is None:
        _COUNTS["everything"] += 1
    else:
        out = [item for item in items if item.path.relative_to(ROOT).as_posix() not in files]
        _COUNTS["since"] += len(out)
        config.hook.pytest_deselected(items=out)
        left = {id(item) for item in out}
        items[:] = [item for item in items if id(item) not in left]


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Count what markers leave out."""
    for item in items:
        for marker in ("exhaustive", "ci"):
            if item.get_closest_marker(marker):
                _COUNTS[marker] += 1
                break


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> Iterator[None]:
    """Let a worker tell the process that reports; all workers collect the same items.

    The last line of the run of all tests says what to do next.
    """
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = dict(_COUNTS)
    yield
    reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.config.args_source.name == "TESTPATHS" and exitstatus in NEXT and reporter:
        reporter.write_line(NEXT[exitstatus])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a worker has counted."""
    _COUNTS.update(Counter(getattr(node, "workeroutput", {}).get("left_out", {})) - _COUNTS)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say what was left out, and how to run it."""
    if _COUNTS["everything"]:
        terminalreporter.write_line(
            "Nothing was left out by --since: it names no revision, or what all tests share changed"
        )
    for kind, how in LEFT_OUT.items():
        if _COUNTS[kind]:
            terminalreporter.write_line(f"Left out: {_COUNTS[kind]} tests {how}")


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
        stream = SeededEntropy(0, f"{name}|{label}".encode(errors="surrogatepass"))

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
