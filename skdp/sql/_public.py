"""Queries on public tables alone: no noise, no charge. They are compiled as subqueries are."""

from __future__ import annotations

from sqlglot import exp

from skdp.sql._answer import Answer
from skdp.sql._catalog import Catalog
from skdp.sql._parse import parsed
from skdp.sql._refusals import only, refuse
from skdp.sql._sources import Compiler
from skdp.sql._typed import quoted

__all__ = ["public_answer"]


def public_answer(catalog: Catalog, query: str) -> Answer:
    """Return the exact answer to a query that reads public tables alone."""
    select, _ = parsed(query)
    order, limits = select.args.pop("order", None), {}
    for name in ("limit", "offset"):
        part = select.args.pop(name, None)
        if part is not None:
            only(part, "expression")
            if not str(part.expression.this).isdigit():
                refuse(part, f"{name.upper()} needs a stated integer")
            limits[name] = int(part.expression.this)
    relation = Compiler(catalog).derived(select, {})
    if relation.private:  # decided by the planner before: never so
        refuse(select, "this query reads private tables")
    names = list(relation.fields)
    columns = ", ".join(f"{one.name} AS {quoted(n)}" for n, one in relation.fields.items())
    sql = f"SELECT {columns} FROM ({relation.sql}) AS answer"
    orders = []
    for one in () if order is None else order.expressions:
        only(one, "this", "desc", "nulls_first")
        of = one.this
        name = of.name.lower() if isinstance(of, exp.Column) else str(of.this)
        place = int(name) - 1 if name.isdigit() else (names.index(name) if name in names else -1)
        if not 0 <= place < len(names):
            refuse(one, "ORDER BY names a column of the answer", "give it a name with AS")
        orders.append(f"{place + 1} {'DESC' if one.args.get('desc') else 'ASC'}")
    sql += f" ORDER BY {', '.join(orders)}" if orders else ""
    sql += "".join(f" {name.upper()} {value}" for name, value in limits.items())
    cursor = catalog.cursor()
    try:
        answer = cursor.sql(sql).to_arrow_table()
    except Exception:  # noqa: BLE001
        raise RuntimeError("DuckDB could not answer the query") from None
    import duckdb

    own = duckdb.connect(":memory:")
    own.register("given", answer)
    own.execute("CREATE TABLE answer AS SELECT * FROM given")
    cursor.close()
    return Answer(own.table("answer"), query, sql, [])
