"""Answers: tables with an interval beside each number, from released keys and aggregates.

They are DuckDB tables in a database of their own, which holds nothing private.
"""

from __future__ import annotations

import html
import itertools
import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache, partial
from typing import Any

import numpy as np

from skdp._docstrings import shared_texts
from skdp.aggregation._intervals import LEVEL, limits_of, no_columns, notes_of, share_left_out
from skdp.confidence import Released
from skdp.confidence.limits import MetricLimits
from skdp.core import PrivacyCertificate
from skdp.sql._catalog import Table
from skdp.sql._plan import CHOSEN, Plan, conditional_notes, ends_of
from skdp.sql.ir import quoted


@shared_texts
@dataclass(eq=False, repr=False)
class Answer:
    """The released answer of a query, as a DuckDB table; it contains nothing private.

    Attributes
    ----------
    relation : duckdb.DuckDBPyRelation
        A relation in a database of its own. Every number ``x`` has an interval, ``x_low`` to
        ``x_high``. In 95% of releases (measured: 94.3 to 100%, depending on the aggregate) it
        contains the number for the bounded and clipped rows without noise; in at least 95% if ``x``
        is computed from several aggregates. NULL if there is no interval: also where rows, keys or
        values behind ``x`` depend on what a subquery released with noise, as in ``WHERE minutes >
        (SELECT AVG(minutes) FROM visits)``. That noise is in no interval; `notes` names the column,
        the subquery and the released value. A mean also has ``x_population_low`` and
        ``x_population_high``.
    privacy_ : PrivacyCertificate or None
        Certificate of the last release; None if only public tables or released subqueries were
        read.
    sql : str
        The query as it was asked.
    rewritten : str
        DuckDB's SQL for the rows that were aggregated.
    notes : list of str
        How the answer differs from what the query says: for counts and sums with private limits on
        what a unit contributes, also that intervals are of the rows within them, not of all.
    max_keys_per_unit_, max_rows_per_unit_ : int or None
        The bounds on the contribution of a unit.
    bounds_ : dict
        For each clipped expression, its bounds.
    left_out_ : dict
        How many rows were left out by bounding contributions, with intervals.
    released_ : dict
        For each column of numbers a `skdp.statistics.Released`, as in `skdp.aggregation.DPGroupBy`:
        counts and sums are as they were drawn. Standard errors of expressions are NaN, and their
        intervals known at 95% alone.
    subqueries : list of Answer
        Answers of subqueries that aggregate over units. They were released before the rest, each
        for its part of the price.
    """

    relation: Any
    sql: str
    rewritten: str
    notes: list[str]
    privacy_: PrivacyCertificate | None = None
    max_keys_per_unit_: int | None = None
    max_rows_per_unit_: int | None = None
    bounds_: dict[str, tuple[float, float]] = field(default_factory=dict)
    left_out_: dict[str, float] = field(default_factory=dict)
    subqueries: list[Answer] = field(default_factory=list)
    released_: dict[str, Released] = field(default_factory=dict)

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self.relation.columns)

    def to_pandas(self) -> Any:
        """Return the answer as a pandas data frame."""
        return self.relation.df()

    def to_polars(self) -> Any:
        """Return the answer as a polars data frame."""
        return self.relation.pl()

    def to_arrow(self) -> Any:
        """Return the answer as a pyarrow table."""
        return self.relation.to_arrow_table()

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return the rows as tuples."""
        rows: list[tuple[Any, ...]] = self.relation.fetchall()
        return rows

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the answer as a dict of lists."""
        rows = self.fetchall()
        return {name: [row[i] for row in rows] for i, name in enumerate(self.columns)}

    def certificate(self) -> dict[str, Any]:
        """Return the release in plain types: query, aggregated rows, bounding, releases."""
        return {
            "query": self.sql,
            "rows": self.rewritten,
            "notes": self.notes,
            "bounding": {
                "max_keys_per_unit": self.max_keys_per_unit_,
                "max_rows_per_unit": self.max_rows_per_unit_,
                "bounds": {name: list(pair) for name, pair in self.bounds_.items()},
                "left_out": self.left_out_,
            },
            "privacy": None if self.privacy_ is None else self.privacy_.to_dict(),
            "subqueries": [subquery.certificate() for subquery in self.subqueries],
        }

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the certificate as JSON."""
        return json.dumps(self.certificate(), indent=indent)

    def __len__(self) -> int:
        return len(self.fetchall())

    def __repr__(self) -> str:
        notes = "".join(f"\n({note})" for note in self.notes)
        return f"{self.relation}{notes}"

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        return str(self.to_pandas().to_html(index=False)) + notes


_NUMBERS = (int, float, Decimal)
_PLACE = "skdp_place"


@dataclass(eq=False)
class Subquery:
    """A subquery that is released first: a temporary table, which is empty until then."""

    plan: Plan
    table: Table
    text: str = ""  # its SQL
    is_number: bool = False  # it stands in an expression, and not for a table
    answer: Answer | None = None

    def put(self, connection: Any) -> None:
        """Put the table into a database, with the answer if there is one."""
        name = self.table.source.rpartition(".")[2]
        columns = self.table.columns.values()
        listed = ", ".join(f"{quoted(column.name)} {column.kind}" for column in columns)
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} ({listed})")
        if self.answer is None:
            return
        connection.register("skdp_answer", self.answer.to_arrow())
        names = ", ".join(quoted(column.name) for column in columns)
        connection.execute(f"INSERT INTO {name} SELECT {names} FROM skdp_answer")
        connection.unregister("skdp_answer")


@cache
def _of_process(_process: int) -> Any:
    import duckdb

    return duckdb.connect(":memory:", config={"enable_external_access": "false"})


def own_database() -> Any:
    """Return a connection for temporary tables of released numbers.

    All share one database: to open one takes longer than most queries. A forked process has its
    own.
    """
    cursor = _of_process(os.getpid()).cursor()
    cursor.execute("SET TimeZone = 'UTC'")
    return cursor


def encoded_keys(plan: Plan) -> list[Any]:
    """Return declared keys as the texts of `Key.encoded`; ValueError if a column cannot hold one.

    DuckDB itself writes them, as it writes the keys of rows.
    """
    connection = own_database()
    columns: list[list[str]] = []
    for key in plan.keys:
        type_ = key.row.type
        cast = f"TRY_CAST(? AS {type_.sql})"
        if type_.kind == "zoned":
            cast = f"timezone('UTC', {cast})"
        sql = f"SELECT coalesce('=' || CAST({cast} AS VARCHAR), '')"
        columns.append([])
        for value in key.known or ():
            ((text,),) = connection.execute(sql, [value]).fetchall()
            number = isinstance(value, _NUMBERS) and not isinstance(value, bool)
            rounds = type_.kind in ("int", "decimal") and number
            if (text == "") != (value is None) or (
                rounds and Decimal(str(value)) != Decimal(text[1:])
            ):
                raise ValueError(
                    f"'keys' of {key.label!r} has a value that is no {type_.sql}, the type of the "
                    "column. Correct the declaration of the table"
                )
            columns[-1].append(text)
    connection.close()
    keys = itertools.product(*columns)
    return list(dict.fromkeys(key[0] if len(key) == 1 else key for key in keys))


def _released_columns(plan: Plan) -> list[tuple[str, str]]:
    """Return the columns that `DPGroupBy` releases, with their types."""
    columns = [(name, "VARCHAR") for name in plan.by]
    for aggregate in plan.aggregates:
        kind = "BIGINT" if aggregate.is_count else "DOUBLE"
        columns += [(name, kind) for name in no_columns(aggregate)]
        of_several = [parts for name, parts in plan.levels if name == aggregate.name]
        columns += [(end, kind) for parts in of_several for end in ends_of(aggregate.name, parts)]
    return columns


def _database_of(plan: Plan, subqueries: Sequence[Subquery]) -> Any:
    """Return a database with an empty table of released columns, and the tables of subqueries."""
    connection = own_database()
    listed = ", ".join(f"{quoted(name)} {kind}" for name, kind in _released_columns(plan))
    connection.execute(f"CREATE TEMP TABLE released ({listed})")
    for subquery in subqueries:
        subquery.put(connection)
    return connection


def _selected(plan: Plan, *further: str) -> str:
    """Return SQL of an answer over released columns, and of further columns of them."""
    selected = {}
    for output in plan.outputs:
        name = output.name
        selected[name] = output.sql
        if output.measured:  # a NULL has no interval, and neither has a number that is `given`
            valid = "FALSE" if output.given else f"({output.sql}) IS NOT NULL"
            selected[f"{name}_low"] = f"CASE WHEN {valid} THEN {output.low} END"
            selected[f"{name}_high"] = f"CASE WHEN {valid} THEN {output.high} END"
        for end in ("low", "high") if output.population else ():
            value = quoted(f"{output.population}_population_{end}")
            value = f"CASE WHEN FALSE THEN {value} END" if output.given else value
            selected[f"{name}_population_{end}"] = value
    sql = ", ".join([*(f"{value} AS {quoted(name)}" for name, value in selected.items()), *further])
    return f"SELECT {sql} FROM released{plan.tail}"


def columns_of_answer(plan: Plan, subqueries: Sequence[Subquery]) -> list[tuple[str, str]]:
    """Return names and types of the columns that an answer will have."""
    connection = _database_of(plan, subqueries)
    result = connection.execute(f"DESCRIBE {_selected(plan)}").fetchall()
    connection.close()
    return [(row[0], row[1]) for row in result]


def answer_of(plan: Plan, by: Any, subqueries: Sequence[Subquery] = ()) -> Answer:
    """Return the answer to a query from a fitted aggregation."""
    columns = _released_columns(plan)
    connection = _database_of(plan, subqueries)
    counts = {aggregate.name for aggregate in plan.aggregates if aggregate.counts_rows}
    released = {name: by.table_[name] for name, _ in columns if name in by.table_}
    for name, parts in plan.levels:
        ends = by.released_[name].interval(1 - 0.05 / parts)
        released |= dict(zip(ends_of(name, parts), ends, strict=True))
    cells = {name: _cells(released[name], name, counts) for name, _ in columns}
    if cells[columns[0][0]]:
        listed = ", ".join(f"unnest(?::{kind}[])" for _, kind in columns)
        connection.execute(f"INSERT INTO released SELECT {listed}", list(cells.values()))
    # Rows of the answer are found by their place among those that were released.
    connection.execute(f"CREATE TEMP TABLE placed AS {_selected(plan, f'rowid AS {_PLACE}')}")
    connection.execute(f"CREATE TEMP TABLE answer AS SELECT * EXCLUDE ({_PLACE}) FROM placed")
    places = [place for (place,) in connection.execute(f"SELECT {_PLACE} FROM placed").fetchall()]
    return Answer(
        connection.table("answer"),
        plan.text,
        plan.rows,
        [*plan.notes, *conditional_notes(plan, subqueries), *_bounding(plan, by)],
        by.privacy_,
        getattr(by, "max_keys_per_unit_", None),
        getattr(by, "max_rows_per_unit_", None),
        {
            aggregate.column: by.bounds_[aggregate.name]
            for aggregate in plan.aggregates
            if aggregate.name in by.bounds_
        },
        dict(getattr(by, "left_out_", {})),
        released_=_released_numbers(plan, by, places, connection),
    )


def _released_numbers(
    plan: Plan, by: Any, places: list[int], connection: Any
) -> dict[str, Released]:
    """Return the columns of numbers of an answer, with what is known of their errors."""
    aggregates = {quoted(name): by.released_[name] for name in by.released_}
    labels, released = {}, {}
    for output in plan.outputs:
        if output.key:
            rows = connection.execute(f"SELECT {quoted(output.name)} FROM answer").fetchall()
            labels[output.name] = np.empty(len(rows), dtype=object)
            labels[output.name][:] = [key for (key,) in rows]
        elif output.sql in aggregates and not output.given:
            released[output.name] = aggregates[output.sql][np.array(places, dtype=np.intp)]
        elif output.measured:
            names = [f"{output.name}{end}" for end in ("", "_low", "_high")]
            cells = ", ".join(f"TRY_CAST({quoted(name)} AS DOUBLE)" for name in names)
            rows = connection.execute(f"SELECT {cells} FROM answer").fetchall()
            value, low, high = np.array(rows, dtype=np.float64).reshape(-1, 3).T
            limits = MetricLimits(partial(_at_95_percent, low, high), False, of_population=False)
            released[output.name] = Released(value, np.nan, by.privacy_, limits=limits)
    if CHOSEN in plan.notes:  # an error that holds for every key is too small for those chosen
        released = {
            name: Released(numbers.value, np.nan, numbers.privacy, note=CHOSEN)
            for name, numbers in released.items()
        }
    return {name: numbers.labelled(labels) for name, numbers in released.items()}


def _at_95_percent(low: Any, high: Any, level: float, sampled: bool) -> tuple[Any, Any]:
    if level != LEVEL:
        raise ValueError("intervals of expressions are known at 95% alone")
    return low, high


def _bounding(plan: Plan, by: Any) -> list[str]:
    """Return notes on rows beyond the caps and values beyond the bounds.

    Rows are always noted for counts and sums with private caps; otherwise if they are more than a
    tenth, or if there are any and no number of rows was released.
    """
    notes = notes_of(by, {aggregate.kind for aggregate in plan.aggregates})
    out = getattr(by, "left_out_", {})
    counts = [aggregate.name for aggregate in plan.aggregates if aggregate.kind == "count"]
    counted = float(sum(by.table_[counts[0]])) if counts and out else None
    of_units = all(aggregate.kind == "distinct_units" for aggregate in plan.aggregates)
    any_left_out = bool(out) and out["keys_low" if of_units else "rows_low"] > 0
    many = counted is None or share_left_out(by, counted) is not None
    if any_left_out and many and not notes:
        notes.append(limits_of(by, of_units=of_units))
    for name, units in sorted(getattr(by, "hidden_units_", {}).items()):
        notes.append(
            f"{name} was clipped to learned bounds: beyond them fewer than about {units:,} units "
            "between two powers of two are not noticed, and intervals are about clipped values. "
            "State bounds"
        )
    return notes


def _cells(column: Any, name: str, counts: set[str]) -> list[Any]:
    """Return a released column as plain values; numbers of rows rounded, outwards for ends."""
    values = [value.item() if isinstance(value, np.generic) else value for value in column]
    stem, _, end = name.partition("_")
    if stem not in counts:
        values = [_fitting(value) if isinstance(value, int) else value for value in values]
        return [None if end and value != value else value for value in values]
    to = {"low": np.floor, "high": np.ceil}.get(end.partition("_")[0], np.rint)
    return [_fitting(int(to(value))) if math.isfinite(value) else None for value in values]


def _fitting(value: int) -> int:
    """Return the nearest BIGINT: at a tiny epsilon, noise is larger than all of them."""
    return max(-(2**63), min(value, 2**63 - 1))
