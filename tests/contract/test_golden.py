"""Seeded fits release what they released when the record was made, to the last bit."""

from __future__ import annotations

import golden
import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def held():
    if not golden.FILE.exists():
        pytest.skip("nothing is recorded: python tests/contract/golden.py")
    content = golden.load()
    if content["where"] != golden.machine():
        pytest.skip(f"recorded with {content['where']}: floats may differ in their last bits here")
    return content["cells"]


@pytest.mark.parametrize(("name", "case", "delta", "relation", "kind"), golden.cells())
def test_the_record(held, name, case, delta, relation, kind):
    """tests/contract/golden.py records it anew, with a reason in the commit."""
    found = golden.outcome(case, delta, relation, kind)
    assert golden.differences(name, held.get(name, "nothing recorded"), found) == []
