"""Seeded queries release what they released when the record was made, on both engines."""

from __future__ import annotations

import json

import duckdb
import pytest

from tests.folding import each
from tests.sql import golden

HELD = json.loads(golden.FILE.read_text())

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(HELD["duckdb"] != duckdb.__version__, reason="another DuckDB hashes rows"),
]


@each("engine", golden.ENGINES)
@pytest.mark.parametrize(("name", "query", "delta"), golden.cells())
def test_the_record(name, query, delta, engine):
    """``python -m tests.sql.golden`` records it anew, with a reason in the commit."""
    assert golden.outcome(query, delta, engine) == HELD["cells"][name]


def test_the_record_tells_queries_apart():
    answers = [cell["answer"] for cell in HELD["cells"].values()]
    assert len(set(answers)) == len(golden.cells()) == len(answers)
