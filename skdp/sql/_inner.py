"""Aggregates inside units: of subqueries that group by the unit. Exact, and seen by nobody.

Nothing is released here. What comes out is a row of its unit like any other. Sums are those of
integers or of numbers with nine decimals, added exactly: in floats the order in which rows come
would move the last bits, and rows of others would decide it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from skdp.sql._expressions import Expr, compiled, condition
from skdp.sql._refusals import only, refuse, said
from skdp.sql._typed import TO_NUMBERS, WORDS, canonical

__all__ = ["InnerAggregates"]


@dataclass(eq=False)
class InnerAggregates:
    """Names and aggregates of a SELECT that groups by what leads to a unit."""

    rows: Any
    keys: list[Expr]

    def column(self, node: exp.Column) -> Expr:
        """Return a column that is grouped by."""
        reason = f"{said(node)} is neither in GROUP BY nor inside of an aggregate"
        refuse(node, reason, f"add it to GROUP BY, or use an aggregate such as MAX({said(node)})")

    def special(self, node: exp.Expr) -> Expr | None:
        """Return an aggregate, or what is grouped by."""
        filtered = None
        if isinstance(node, exp.Filter):
            only(node, "this", "expression")
            filtered = condition(node.expression.this, self.rows).sql
            node = node.this
        if isinstance(node, exp.AggFunc | exp.WithinGroup | exp.IgnoreNulls):
            return self._aggregate(node, "" if filtered is None else f" FILTER (WHERE {filtered})")
        if isinstance(node, exp.Literal | exp.Boolean | exp.Null | exp.Interval):
            return None
        try:
            own = compiled(node, self.rows)
        except ValueError:
            return None
        own_sql = canonical(own.sql, own.family)
        return next((key for key in self.keys if key.sql == own_sql), None)

    def _aggregate(self, node: exp.Expr, tail: str) -> Expr:
        if isinstance(node, exp.Count):
            only(node, "this", "big_int")
            if isinstance(node.this, exp.Star):
                return Expr(f"count(*){tail}", "int")
            distinct, of = "", node.this
            if isinstance(of, exp.Distinct):
                only(of, "expressions")
                if len(of.expressions) != 1:
                    reason = f"{said(node)} counts several expressions together"
                    refuse(node, reason, "count one expression")
                distinct, of = "DISTINCT ", of.expressions[0]
            return Expr(f"count({distinct}{compiled(of, self.rows).sql}){tail}", "int")
        if type(node) not in (exp.Sum, exp.Avg, exp.Min, exp.Max):
            reason = f"the aggregate {said(node)} is not supported inside of a subquery"
            refuse(node, reason, "use COUNT, SUM, AVG, MIN or MAX")
        only(node, "this")
        one = compiled(node.this, self.rows)
        if isinstance(node, exp.Min | exp.Max):
            name = "min" if isinstance(node, exp.Min) else "max"
            if one.family in ("other", "null"):
                reason = f"{said(node)} is not supported: {said(node.this)} holds"
                way = "use it on numbers, text, booleans, dates or timestamps"
                refuse(node, f"{reason} {WORDS[one.family]}", way)
            value = canonical(one.sql, one.family)
            return Expr(f"{name}({value}){tail}", one.family, one.bounds)
        if one.family not in ("int", "num"):
            reason = f"{said(node)} needs numbers, but {said(node.this)} holds"
            refuse(node, f"{reason} {WORDS[one.family]}", TO_NUMBERS)
        if isinstance(node, exp.Sum) and one.family == "int":
            return Expr(f"TRY_CAST(sum(TRY_CAST({one.sql} AS HUGEINT)){tail} AS BIGINT)", "int")
        fixed = f"TRY_CAST({one.sql} AS DECIMAL(28, 9))"
        total = f"TRY_CAST(sum({fixed}){tail} AS DOUBLE)"
        if isinstance(node, exp.Sum):
            return Expr(total, "num")
        return Expr(f"({total} / NULLIF(count({fixed}){tail}, 0))", "num", one.bounds)
