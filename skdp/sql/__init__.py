"""Private SQL over DuckDB: `PrivateDatabase`. It needs sqlglot and DuckDB (the extra ``sql``)."""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("sqlglot") is None or find_spec("duckdb") is None:
    raise ImportError("skdp.sql needs sqlglot and DuckDB: pip install 'skdp[sql]'")

from skdp.sql._answers import Answer
from skdp.sql._database import PrivateDatabase, load_ipython_extension

__all__ = ["Answer", "PrivateDatabase", "load_ipython_extension"]
