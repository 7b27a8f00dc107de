"""What a database says of tables before they are read: whether they are what a ledger made.

A name in a database may lead to anything: a view, a table with rules, triggers, policies or
defaults. Those run functions of whoever made them, with the rights of whoever reads or writes. So
nothing is read or written before PostgreSQL's own catalog has said that each table is a plain one,
with the columns, defaults and indexes of a ledger, and belongs to the owner of its schema. The
catalog is read with ``search_path`` set to ``pg_catalog``, so that no operator or function of
others takes part; a schema that has such is refused.

One table has one ledger. Which ledgers of a database there are, and of which data sets, stands in
comments on one table of each (`marker`). They are in the catalog, too: PostgreSQL lets nobody but
the owner of a ledger write its comment, and reading it runs nothing. Whoever may make a schema can
lie there, so that a new ledger is refused, but cannot hide the ledgers of others or change them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any

__all__ = ["REGISTERED", "check", "key_of", "marker", "problem", "read_marker", "register"]

_TABLES = (
    "ledger",
    "charges",
    "reservations",
    "totals",
    "plans",
    "items",
    "draws",
    "commits",
    "skdp_format",
)
_MARKER = re.compile(r"skdp ledger (\w+), data set (none|sha256:[0-9a-f]{64})")

# Kinds of constraints: p and u are primary and unique keys, n is NOT NULL (from PostgreSQL 18 on).
# Types by number, which nobody can take over: 20 is bigint, 25 is text.
_CHECK = """
SELECT want.name, pg_catalog.current_setting('fsync') AS fsync, n.oid IS NOT NULL AS in_schema,
    c.oid IS NOT NULL AS there,
    pg_catalog.pg_has_role(n.nspowner, 'USAGE') AS own,
    CASE WHEN c.oid IS NULL THEN NULL
    WHEN c.relkind <> 'r' OR c.relpersistence <> 'p' OR c.relispartition
        THEN 'is no plain table'
    WHEN c.relowner <> n.nspowner
        THEN 'belongs to another role than its schema'
    WHEN EXISTS (SELECT FROM pg_catalog.pg_rewrite WHERE ev_class = c.oid)
        THEN 'has rules'
    WHEN EXISTS (SELECT FROM pg_catalog.pg_trigger WHERE tgrelid = c.oid)
        THEN 'has triggers'
    WHEN c.relrowsecurity OR c.relforcerowsecurity
        THEN 'has row security'
    WHEN EXISTS (SELECT FROM pg_catalog.pg_inherits WHERE inhrelid = c.oid OR inhparent = c.oid)
        THEN 'inherits, or is inherited'
    WHEN EXISTS (SELECT FROM pg_catalog.pg_constraint
            WHERE conrelid = c.oid AND contype NOT IN ('p', 'u', 'n'))
        THEN 'has constraints that a ledger does not have'
    WHEN EXISTS (SELECT FROM pg_catalog.pg_attribute WHERE attrelid = c.oid AND attnum > 0
            AND NOT attisdropped AND atttypid NOT IN (20, 25))
        THEN 'has columns that a ledger does not have'
    WHEN EXISTS (SELECT FROM pg_catalog.pg_attrdef WHERE adrelid = c.oid
            AND pg_catalog.pg_get_expr(adbin, adrelid) <> '''''::text')
        THEN 'has defaults that a ledger does not have'
    WHEN EXISTS (SELECT FROM pg_catalog.pg_index WHERE indrelid = c.oid AND (indexprs IS NOT NULL
            OR pg_catalog.replace(pg_catalog.pg_get_expr(indpred, indrelid), '"', '')
                <> '(closed IS NULL)'))
        THEN 'has indexes that a ledger does not have'
    WHEN EXISTS (SELECT FROM pg_catalog.pg_depend WHERE refobjid = n.oid
            AND refclassid = 'pg_catalog.pg_namespace'::pg_catalog.regclass
            AND classid IN ('pg_catalog.pg_proc'::pg_catalog.regclass,
                'pg_catalog.pg_operator'::pg_catalog.regclass))
        THEN 'lies in a schema with functions or operators'
    END AS problem
FROM (VALUES {tables}) AS want (name)
LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = '{name}'
LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = want.name
"""

# Every table that may be the ledger of a schema, and what its comment says.
REGISTERED = """
SELECT n.nspname, d.description, n.nspowner = me.oid AS mine
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace AND n.nspowner = c.relowner
JOIN pg_catalog.pg_roles me ON me.rolname = CURRENT_USER
LEFT JOIN pg_catalog.pg_description d ON d.objoid = c.oid AND d.objsubid = 0
    AND d.classoid = 'pg_catalog.pg_class'::pg_catalog.regclass
WHERE c.relname = 'skdp_format' AND c.relkind = 'r'
ORDER BY n.nspname
"""


def check(name: str) -> str:
    """Return the statement that asks the catalog about the tables of a schema.

    Parameters
    ----------
    name : str
        Of the schema: lower-case letters, digits and _.
    """
    tables = ", ".join(f"('{table}'::pg_catalog.name)" for table in _TABLES)
    return _CHECK.format(name=name, tables=tables)


def problem(rows: Sequence[Any]) -> str | None:
    """Return why the tables of a schema are not read, in words; None if they can be."""
    for row in rows:
        if row["problem"] is not None:
            return (
                f"its table {row['name']} {row['problem']}, so that reading or writing it could "
                "run code of others"
            )
    missing = [row["name"] for row in rows if not row["there"]]
    return f"it has no table {missing[0]}" if missing else None


def key_of(text: str) -> int:
    """Return the number of an advisory lock for a text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big", signed=True)


def marker(ledger_id: str, dataset: str | None) -> str:
    """Return what the comment of a ledger says; the name of its data set only as a hash.

    Everybody who may connect to a database can read the comments in it.
    """
    named = "none" if dataset is None else f"sha256:{hashlib.sha256(dataset.encode()).hexdigest()}"
    return f"skdp ledger {ledger_id}, data set {named}"


def read_marker(comment: str | None) -> str | None:
    """Return the data set in a comment, "none" or a hash; None if no ledger wrote it."""
    found = _MARKER.fullmatch(comment or "")
    return None if found is None else found[2]


def register(name: str, ledger_id: str, dataset: str | None) -> str:
    """Return the statement that writes the comment of a ledger."""
    text = marker(ledger_id, dataset)
    if not _MARKER.fullmatch(text):
        raise ValueError("The identity of a ledger has letters and digits alone.")
    return f"COMMENT ON TABLE \"{name}\".skdp_format IS '{text}'"
