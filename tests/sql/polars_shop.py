"""The shop, with polars as the engine."""

from __future__ import annotations

from skdp import PrivacyBudget
from skdp.sql import PrivateDatabase
from tests.sql.shop import TABLES


def on_polars(con, **kinds):
    """Return a database of the same tables, whose rows polars computes."""
    tables = {name: con.sql(f"SELECT * FROM {name}").to_arrow_table() for name in TABLES}
    budget = PrivacyBudget(1e4, 0.5, adjacency="add_or_remove_one", unit="uid")
    return PrivateDatabase(tables | kinds, tables=TABLES, budget=budget, engine="polars")
