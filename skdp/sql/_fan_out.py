"""How many rows a join may make of one, bounded before any row is read.

Nothing is released here. A join that makes very many rows of a few may fail for want of memory, and
where the rows of one unit decide that, the failure tells of them. So

- public tables multiply a row by at most `MOST_MATCHES` together, by their own rows alone, which
  are public;
- private tables that are tied by units, not by a key, count at most so many rows of a unit each
  that a unit has at most `MOST_PAIRS` in the join, with what public tables make of them. Which ones
  is decided by a hash of each row's own cells: no other unit has a say in it.

What is left is the size of the whole, for which the page on SQL says what is not promised.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from skdp.exceptions import QueryRefusedError
from skdp.sql._expressions import compiled
from skdp.sql._parse import conjuncts
from skdp.sql._refusals import refusal, refuse
from skdp.sql._relations import Relation, RowScope
from skdp.user_code import cancellable, or_raise

__all__ = ["MOST_OF_UNIONS", "Equality", "capped", "check_public", "equalities", "private_cap"]

MOST_MATCHES = 1_000
MOST_PAIRS = 10**6
MOST_OF_UNIONS = 4 * MOST_PAIRS
_UNKNOWN = 10**9


@dataclass(frozen=True)
class Equality:
    """A column of a table that a test equates with something.

    Attributes
    ----------
    handle, column : str
        In SQL.
    unique : bool
        Whether the column names one row.
    others : frozenset of str
        Tables of the same SELECT on the other side.
    outer_unique : bool
        Whether the other side is a column of the SELECT around it that names one row there.
    """

    handle: str
    column: str
    unique: bool
    others: frozenset[str]
    outer_unique: bool = False


def equalities(node: exp.Expr | None, scope: RowScope) -> Iterable[Equality]:
    """Yield what ANDs equate, for each side that is a column of this SELECT."""
    for test in conjuncts(node):
        if not isinstance(test, exp.EQ):
            continue
        for one, other in ((test.this, test.expression), (test.expression, test.this)):
            found = scope.own(one) if isinstance(one, exp.Column) else None
            if found is None:
                continue
            field, handle = found
            inside = [scope.own(column) for column in other.find_all(exp.Column)]
            others = frozenset(of for known in inside if known for of in known[1:])
            if handle in others or _rounds(field.family, other, scope):
                continue
            outer = None
            if isinstance(other, exp.Column) and not others and scope.parent is not None:
                outer = scope.parent.own(other)
            yield Equality(
                handle, field.name, field.unique, others, bool(outer and outer[0].unique)
            )


def _rounds(family: str, other: exp.Expr, scope: RowScope) -> bool:
    """Say whether an equation compares integers as DOUBLE, where a thousand of them are one."""
    return family == "int" and compiled(other, scope).family == "num"


def check_public(node: exp.Expr, catalog: Any, scope: RowScope, equated: list[Equality]) -> int:
    """Return how many rows public tables make of one, by what is in them; refuse too many."""
    waiting = {handle: one for _, one, handle in scope.tables if not one.private}
    if not waiting or (len(waiting) == len(scope.tables) and scope.parent is None):
        return math.prod(one.matches for _, one, _ in scope.tables)
    reached = {handle for _, one, handle in scope.tables if one.private}
    most = math.prod(one.matches for _, one, _ in scope.tables)  # of subqueries
    alone = scope.parent is not None and len(waiting) == len(scope.tables)

    def counted() -> int:
        most = 1
        with catalog.reading() as cursor:
            while waiting:
                found = {
                    handle: 1 if alone and one.released is not None else _matches(cursor, one, [
                        e.column for e in equated if e.handle == handle and e.others <= reached
                    ])
                    for handle, one in waiting.items()
                }  # fmt: skip
                least = min(found, key=found.__getitem__)
                if found[least] == _UNKNOWN:
                    refuse(
                        node,
                        "the join with a released subquery does not equate all columns of its "
                        "GROUP BY, so how many of its rows match one row is not known beforehand",
                        "select all columns of GROUP BY in the subquery and equate each of them, "
                        "or run the subquery first as a query of its own",
                    )
                most *= max(found[least], 1)
                reached.add(least)
                del waiting[least]
        return most

    way = "check that the public tables of the query still exist"
    most *= or_raise(
        counted,
        lambda: refusal(node, "DuckDB cannot read a public table of the query", way),
        own=(QueryRefusedError,),
    )
    if most > MOST_MATCHES:
        refuse(
            node,
            f"joins with public tables can give {most:,} rows for one row; at most "
            f"{MOST_MATCHES:,} are allowed",
            "add conditions that equate columns of each public table with columns of other tables "
            "or with constants",
        )
    return most


def _matches(cursor: Any, relation: Relation, columns: list[str]) -> int:
    """Return the largest number of rows of a public table that agree in some columns."""
    if relation.released is not None:  # there are no rows yet
        return 1 if set(relation.released) <= set(columns) else _UNKNOWN
    if not columns:
        sql = f"SELECT count(*) FROM ({relation.sql})"
    else:
        names = ", ".join(dict.fromkeys(columns))
        sql = f"SELECT max(n) FROM (SELECT count(*) AS n FROM ({relation.sql}) GROUP BY {names})"
    found = cancellable(lambda: cursor.execute(sql).fetchone(), cursor.interrupt)
    return int(found[0] or 0)


def private_cap(scope: RowScope, equated: list[Equality], matches: int) -> tuple[int | None, int]:
    """Return how many rows of a unit each private table may have, and how many its join has then.

    None for all of them, and 0 for as many as the unit has itself: a table that is reached by a
    column that names one row of it multiplies nothing. `matches` is what public tables make of a
    row, those inside of subqueries among them.
    """
    own = [(handle, one) for _, one, handle in scope.tables if one.private]
    if not own:
        return None, 0
    private = [handle for handle, _ in own]
    most = min(_many(root, private, equated) for root in private)
    if scope.parent is not None and not any(
        e.handle in private and (e.unique or e.outer_unique) and not e.others for e in equated
    ):
        most += 1  # beside the rows of the SELECT around it
    here = max(matches // math.prod(one.matches for _, one in own), 1)
    before = max(one.pairs for _, one in own)
    if most <= 1 and before * here <= MOST_OF_UNIONS:
        return None, before * here
    return max(math.floor((MOST_PAIRS / here) ** (1 / most) + 1e-9), 1), MOST_PAIRS


def _many(root: str, private: list[str], equated: list[Equality]) -> int:
    reached, most = {root}, 1
    while len(reached) < len(private):
        tied = next(
            (
                e.handle
                for e in equated
                if e.unique and e.handle in private and e.handle not in reached
                and e.others and e.others <= reached
            ),
            None,
        )  # fmt: skip
        if tied is None:
            tied = next(handle for handle in private if handle not in reached)
            most += 1
        reached.add(tied)
    return most


def capped(relation: Relation, cap: int, handle: str) -> str:
    """Return a private relation with at most so many rows of each unit.

    Only the rows of units that have more are put in order.
    """
    names = [one.name for one in relation.fields.values()]
    plain = [one.name for one in relation.fields.values() if one.family not in ("other", "null")]
    order = ", ".join(f"{one} ASC" for one in [f"hash({', '.join(names)})", *plain])
    own, many = f"{handle}_own", f"{handle}_many"
    once = "MATERIALIZED" if relation.pairs else "NOT MATERIALIZED"
    return (
        f"WITH {own} AS {once} ({relation.sql}), "
        f"{many} AS (SELECT u AS m FROM {own} GROUP BY u HAVING count(*) > {cap}) "
        f"SELECT * FROM {own} ANTI JOIN {many} ON u = m UNION ALL "
        f"(SELECT * FROM {own} SEMI JOIN {many} ON u = m "
        f"QUALIFY row_number() OVER (PARTITION BY u ORDER BY {order}) <= {cap})"
    )
