"""Marks every test here as `verified`, puts the contract's cases within reach, has a fixture."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "contract"))


@pytest.hookimpl(tryfirst=True)  # before -m selects by markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.verified)


@pytest.fixture
def symbolic() -> Any:
    """Return the helpers for symbolic numbers; skip a test where a solver is missing."""
    for solver in ("bitwuzla", "z3"):
        pytest.importorskip(solver, reason="needs the extra 'verified'")
    from tests.verified import symbolic as helpers

    return helpers
