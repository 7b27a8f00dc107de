"""Seeded queries release what they released when the record was made."""

from __future__ import annotations

import json

import duckdb
import pytest

from tests.sql import golden

HELD = json.loads(golden.FILE.read_text())

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(HELD["duckdb"] != duckdb.__version__, reason="another DuckDB hashes rows"),
]


@pytest.mark.parametrize(("name", "query", "delta"), golden.cells())
def test_the_record(name, query, delta):
    """``python -m tests.sql.golden`` records it anew, with a reason in the commit."""
    assert golden.outcome(query, delta) == HELD["cells"][name]


def test_the_record_tells_queries_apart():
    answers = [cell["answer"] for cell in HELD["cells"].values()]
    assert len(set(answers)) == len(golden.cells()) == len(answers)
