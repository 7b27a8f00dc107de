"""A shop: customers own orders, orders own items; visits by user; public nations."""

from __future__ import annotations

import functools

import duckdb
import numpy as np

from skdp import PrivacyBudget
from skdp.sql import PrivateDatabase

TABLES = {
    "visits": {"unit": "uid", "columns": {"minutes": (0, 240)}, "keys": {"device": ["pc", "tv"]}},
    "customer": {"unit": "c_id"},
    "orders": {"unit": "o_customer", "columns": {"o_price": (0, 1000)}},
    "item": {"owner": ("i_order", "orders", "o_id"), "columns": {"i_price": (0, 100)}},
    "nation": "public",
}


SCHEMA = {
    "visits": {
        "uid": "BIGINT",
        "browser": "VARCHAR",
        "device": "VARCHAR",
        "minutes": "DOUBLE",
        "pages": "INTEGER",
        "day": "DATE",
        "seen": "TIMESTAMP",
        "price": "DECIMAL(12, 2)",
        "ok": "BOOLEAN",
        "note": "VARCHAR",
    },
    "customer": {"c_id": "BIGINT", "c_nation": "INTEGER", "c_name": "VARCHAR"},
    "orders": {"o_id": "BIGINT", "o_customer": "BIGINT", "o_price": "DOUBLE", "o_day": "DATE"},
    "item": {"i_order": "BIGINT", "i_price": "DOUBLE", "i_kind": "VARCHAR", "i_n": "INTEGER"},
}


@functools.cache
def rows_of_shop(users, seed):
    """Return the rows of every private table, by user."""
    rng = np.random.default_rng(seed)
    found = {name: [] for name in SCHEMA}

    def maybe(value):
        return None if rng.random() < 0.1 else value

    for user in range(users):
        for _ in range(rng.integers(0, 12)):
            row = (
                *(user, maybe(["chrome", "firefox", "it's"][rng.integers(3)])),
                *(maybe(["pc", "tv", "pad"][rng.integers(3)]), maybe(float(rng.gamma(2, 20)))),
                *(maybe(int(rng.integers(-3, 9))), maybe(f"2026-01-{rng.integers(1, 29):02d}")),
                *(maybe("2026-01-05 10:30:00"), maybe(round(float(rng.random()) * 90, 2))),
                *(maybe(bool(rng.integers(2))), maybe(["12", "x", "1e999", ""][rng.integers(4)])),
            )
            found["visits"].append((user, row))
        found["customer"].append((user, (user, maybe(int(rng.integers(3))), f"user {user}")))
        for j in range(rng.integers(0, 4)):
            order = user * 10 + j
            price = maybe(float(rng.random() * 500))
            found["orders"].append((user, (order, user, price, "2026-02-01")))
            for _ in range(rng.integers(0, 4)):
                kind, price = "ab"[rng.integers(2)], maybe(float(rng.random() * 50))
                found["item"].append((user, (order, price, kind, int(rng.integers(1, 5)))))
    return found


def shop(users=200, seed=0, without=None):
    """Return a connection with the shop, without one user."""
    con = duckdb.connect(":memory:")
    con.execute("CREATE TABLE nation (n_id INTEGER, n_name VARCHAR, n_size INTEGER)")
    con.execute("CREATE TABLE secret (x INTEGER)")
    con.execute(
        "INSERT INTO nation VALUES (0, 'north', 5), (1, 'south', 7), (1, 'twice', 9), "
        "(2, NULL, NULL), (9, 'empty', 1)"
    )
    for name, rows in rows_of_shop(users, seed).items():
        columns = SCHEMA[name]
        con.execute(f"CREATE TABLE {name} ({', '.join(map(' '.join, columns.items()))})")
        kept = [row for user, row in rows if user != without]
        if kept:
            given = [list(cells) for cells in zip(*kept, strict=True)]
            parts = ", ".join(f"unnest(?::{kind}[])" for kind in columns.values())
            con.execute(f"INSERT INTO {name} SELECT {parts}", given)
    return con


def database(con=None, **parameters):
    """Return a private database over the shop, with much to spend."""
    given = {"epsilon": 10_000, "delta": 0.5, **parameters}
    budget = PrivacyBudget(
        given["epsilon"], given["delta"], adjacency="add_or_remove_one", unit="uid"
    )
    return PrivateDatabase(con or shop(), tables=TABLES, budget=budget)


def rows_of(con, plan):
    """Return the rows that a plan aggregates, sorted, by unit."""
    found = {}
    for unit, *rest in con.execute(plan.rows).fetchall():
        found.setdefault(unit, []).append(repr(rest))
    return {unit: sorted(rows) for unit, rows in found.items()}


def parts_of(db, query, **stated):
    """Return a query in parts and their aggregations, as `PrivateDatabase.sql` has them."""
    caps = {"max_keys_per_unit": "private", "max_rows_per_unit": "private"}
    given = {"epsilon": 1.0, "delta": 1e-6, "key_method": "auto", **caps, **stated}
    return db._planned(db._catalog, query, None, given)
