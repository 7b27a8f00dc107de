"""Marks every test here as `verified`, leaves out what has passed on this text, has a fixture.

A checker has the same result on the same text. So CI leaves the checkers out where `record.py` has
run all of them on this text of the core, the queries and the tables, and of the checkers. Any
other text, and any other version of a tool, and they run. With another ``-m`` they always run.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "contract"))


@pytest.hookimpl(tryfirst=True)  # before -m selects by markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of this folder; leave out checkers whose committed result is of this tree."""
    from tests.verified.record import checkers, is_of_this_tree

    here = [item for item in items if HERE in item.path.parents]
    for item in here:
        item.add_marker(pytest.mark.verified)
    files = set(checkers())
    if here and "not exhaustive" in config.option.markexpr and is_of_this_tree():
        config.hook.pytest_deselected(items=[item for item in here if item.path in files])
        items[:] = [item for item in items if item.path not in files]


@pytest.fixture
def symbolic() -> Any:
    """Return the helpers for symbolic numbers; skip a test where a solver is missing."""
    for solver in ("bitwuzla", "z3"):
        pytest.importorskip(solver, reason="needs the extra 'verified'")
    from tests.verified import symbolic as helpers

    return helpers
