"""A small database of users with rows in several tables, and what tests ask of it."""

from __future__ import annotations

import pytest

duckdb = pytest.importorskip("duckdb")
pytest.importorskip("sqlglot")
