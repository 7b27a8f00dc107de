"""Rows by unit and key in DuckDB: a relation, or Parquet files; what is not in memory.

Nothing is released here. The integers are those of `skdp.tabular.grouped.GroupedTable` for the same
ranks: values are put into steps one by one and added up as integers, so that neither the order of
rows nor the number of threads changes a bit. Only results by key come to Python.

What every unit has in every key, its *pairs*, is counted once, into a temporary table of the
relation's own connection that is sorted by unit: what is asked of units finds each of them in one
place then. `close` drops it.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.exceptions import SourceError
from skdp.tabular.grouped import (
    CENTER_BITS,
    FRACTION_BITS,
    GroupedRows,
    KeyTerm,
    check_names,
    secret_number,
    term_width,
)
from skdp.tabular.grouped_keys import family_of_key, key_order, told_apart, with_zone
from skdp.tabular.grouped_sql import (
    bin_of,
    bounded_sql,
    column_of,
    family,
    integers,
    key_cell,
    key_sql,
    literal,
    place_of_edges,
    quoted,
    reached,
    square_sql,
    steps_sql,
    there,
    unit_sql,
)
from skdp.tabular.relation_plans import check_plan
from skdp.user_code import or_raise

__all__ = ["GroupedRelation", "is_relation", "open_relation"]

_MOST_PACKED_KEYS, _MOST_PACKED_ROWS = 2**22, 2**10
_COUNTS = ("rows", "units")
_BINNED = ("bins", "leaves")


_UNREADABLE = (
    "the parts could not be read as they were checked: a part is gone, has columns of other types, "
    "or DuckDB failed. Nothing is released by this fit; what was charged stays charged."
)
_CHANGED = (
    "the parts have another number of rows than when they were checked. Nothing is released by "
    "this fit; what was charged stays charged."
)


_FAILED = "DuckDB could not run a query on the table"


def _fetched(relation: Any, sql: str) -> list[tuple[Any, ...]]:
    done = relation.query("skdp_rows", sql)
    return [] if done is None else list(done.fetchall())


def is_relation(table: Any) -> bool:
    """Say whether a table is a DuckDB relation, or names Parquet files."""
    if isinstance(table, str | os.PathLike):
        return True
    return type(table).__name__ == "DuckDBPyRelation" and hasattr(table, "query")


def _opened(table: Any) -> Any:
    if not isinstance(table, str | os.PathLike):
        return table
    path = os.fspath(table)
    if not path.endswith((".parquet", ".parq")):
        raise ValueError("a table that is named by a path must be Parquet files (.parquet)")
    if "*" not in path and not Path(path).exists():
        raise FileNotFoundError(f"no file {path!r}")
    try:
        import duckdb
    except ImportError:
        raise ImportError(
            "Parquet files are read by DuckDB: pip install duckdb, or hand in a table"
        ) from None
    return or_raise(
        lambda: duckdb.connect().read_parquet(path),
        lambda: ValueError(f"{path!r} could not be read as Parquet"),
    )


def open_relation(
    table: Any,
    *,
    by: Sequence[str],
    unit: str,
    columns: Sequence[str],
    random_state: Any,
    allow_empty: bool,
    stream: Any = None,
) -> GroupedRelation:
    """Return a checked relation; see `skdp.tabular.grouped.check_grouped`."""
    relation = _opened(table)
    if stream is None:  # a stream is checked batch by batch
        check_plan(relation)
    names = list(relation.columns)
    check_names(names, by=by, unit=unit, columns=columns)
    kinds = {name: str(kind) for name, kind in zip(names, relation.types, strict=True)}
    for name in by:
        if "WITH TIME ZONE" in kinds[name].upper():
            raise ValueError(with_zone(name))
        if not family(kinds[name]) or kinds[name].startswith("DECIMAL"):  # read as Decimal
            raise TypeError(f"keys of column {name!r} must be text, numbers, booleans or dates")
    for name in columns:
        if family(kinds[name]) not in ("number", "boolean"):
            raise TypeError(f"column {name!r} must hold numbers")
    rows = GroupedRelation(relation, by, unit, columns, kinds, random_state, stream)
    rows.check(allow_empty)
    return rows


class GroupedRelation(GroupedRows):
    """Rows of a DuckDB relation, by unit and key."""

    def __init__(
        self,
        relation: Any,
        by: Sequence[str],
        unit: str,
        columns: Sequence[str],
        kinds: dict[str, str],
        random_state: Any = None,
        stream: Any = None,
    ) -> None:
        self._stream = stream  # of a table in parts: what counts the rows of every pass
        super().__init__(n_features=len(columns), unit_name=unit)
        self._relation, self._by, self._unit = relation, list(by), unit
        self._kinds = kinds
        self._u = unit_sql(unit, kinds[unit])
        self._unit_count: int | None = None
        self._tag = f"skdp_{uuid.uuid4().hex}"
        self._tables: dict[Any, str] = {}  # what has been put into temporary tables
        self._sums: dict[str, str] = {}  # of every pair: SQL and the name of its column
        self._codes: dict[Any, int] | None = None  # of private keys
        self._names: list[Any] = []
        self.secret = secret_number(random_state, self.digest)

    def _fetch(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a query; what an engine says of an error may quote a cell."""
        found: list[tuple[Any, ...]] = or_raise(
            lambda: _fetched(self._relation, sql),
            lambda: RuntimeError(_FAILED) if self._stream is None else SourceError(_UNREADABLE),
        )
        if self._stream is not None and self._stream.changed:
            # What was bounded by the rows of one pass must not be added up from those of another.
            raise SourceError(_CHANGED)
        return found

    def _table(self, what: Any, sql: str) -> str:
        """Return the name of a temporary table, which is made if there is none."""
        if what not in self._tables:
            name = f"{self._tag}_{len(self._tables)}"
            self._fetch(f"CREATE TEMP TABLE {name} AS {sql}")
            self._tables[what] = name
        return self._tables[what]

    def close(self) -> None:
        """Drop temporary tables."""
        while self._tables:
            self._fetch(f"DROP TABLE IF EXISTS {self._tables.popitem()[1]}")
        self.kept.clear()
        self._codes = None

    def check(self, allow_empty: bool) -> None:
        """Raise for missing ids or keys, and for no rows."""
        tests = ["count(*) = 0"]
        columns = (self._unit, *self._by)
        for name, cell in zip(columns, (self._u, *self._k), strict=True):
            missing = f"{cell} IS NULL"
            if self._kinds[name].upper() in ("FLOAT", "DOUBLE"):
                missing += f" OR isnan({cell})"
            tests.append(f"coalesce(bool_or({missing}), false)")
        empty, *missing_in = self._fetch(f"SELECT {', '.join(tests)} FROM skdp_rows")[0]
        if empty and not allow_empty:
            raise ValueError("table has no rows")
        for name, found in zip(columns, missing_in, strict=True):
            if found:
                what = "unit" if name == self._unit else "key"
                dates = what == "key" and family(self._kinds[name]) == "date"
                raise ValueError(
                    f"{what} column {name!r} has missing values{' or infinite dates' * dates}; "
                    "drop these rows, or put in a value that says so"
                )
        self._table("probe", "SELECT 1 AS one")  # that there may be such tables, before any charge
        self.close()

    @property
    def _n(self) -> int:
        """The number of units."""
        if self._unit_count is None:
            counted = f"SELECT count(DISTINCT {self._u}) FROM skdp_rows"
            self._unit_count = int(self._fetch(counted)[0][0])
        return self._unit_count

    def digest(self) -> bytes:
        """Return a hash of the content, for seeded noise: the same in any order of rows."""
        cells = ", ".join(quoted(name) for name in self._kinds)
        found = self._fetch(f"SELECT count(*), sum(hash({cells})::HUGEINT) FROM skdp_rows")
        return hashlib.blake2b(repr((sorted(self._kinds), found)).encode(), digest_size=32).digest()

    # --- pairs of a unit and a key ----------------------------------------------------------------

    @property
    def _k(self) -> list[str]:
        """Key columns as they are compared."""
        return [key_sql(name, self._kinds[name]) for name in self._by]

    @property
    def _fields(self) -> list[str]:
        return [f"k{i}" for i in range(len(self._by))]

    def check_keys(self, keys: Sequence[Any]) -> None:
        """Raise for listed keys of another type than their column; both are public."""
        for key in keys:
            for part, name in zip(self._parts(key), self._by, strict=True):
                if family_of_key(part) != family(self._kinds[name]):
                    raise TypeError(f"keys of column {name!r} must be of its type")

    def _parts(self, key: Any) -> tuple[Any, ...]:
        return (key,) if len(self._by) == 1 else tuple(key)

    def prepare(self, keys: Sequence[Any] | None, terms: Sequence[KeyTerm]) -> None:
        """Say for what pairs will be asked, so that one pass over the rows is enough."""
        for term in terms:
            self._sums_of(term)
        if keys is None:
            self._private()

    def _sums_of(self, term: KeyTerm) -> tuple[str, str]:
        """Return the columns of pairs with the number of a term's values and their sum, "" if none.

        They are added to those that pairs have; where pairs are there without them, all is made
        anew.
        """
        if term.kind in _COUNTS:
            return "", ""
        where = f"CASE WHEN {there(term.column)} THEN"
        asked = [f"count({where} 1 END)"]
        if term.kind not in ("filled", *_BINNED):
            steps = square_sql(term) if term.kind == "square" else steps_sql(term)
            asked.append(f"coalesce(sum({where} {steps} END), 0)::BIGINT")
        if any(sql not in self._sums for sql in asked):
            self.close()
        names = [self._sums.setdefault(sql, f"s{len(self._sums)}") for sql in asked]
        return names[0], names[-1] if len(names) > 1 else ""

    def _counted(self, listed: str, more: str) -> str:
        """Return SQL that counts every unit's rows of every listed key, sorted by unit."""
        sums = "".join(f", {sql} AS {name}" for sql, name in self._sums.items())
        return (
            f"SELECT {self._u} AS u, listed.code AS code{more}, count(*) AS n{sums} FROM skdp_rows "
            f"JOIN {listed} AS listed ON {self._joined()} GROUP BY ALL ORDER BY u"
        )

    def _joined(self) -> str:
        return " AND ".join(
            f"{cell} = listed.{name}" for cell, name in zip(self._k, self._fields, strict=True)
        )

    def _private(self) -> str:
        """Return the table of all pairs, of keys that nobody listed; `kh` is a hash of the key."""
        fields = ", ".join(self._fields)
        # What is not said is up to settings of the connection: codes would name other keys.
        ascending = ", ".join(f"{name} ASC NULLS LAST" for name in self._fields)
        cells = ", ".join(
            f"{cell} AS {name}" for cell, name in zip(self._k, self._fields, strict=True)
        )
        keys = self._table(
            "keys",
            f"SELECT *, (row_number() OVER (ORDER BY {ascending}) - 1)::BIGINT AS code, "
            f"hash({fields}) AS kh FROM (SELECT DISTINCT {cells} FROM skdp_rows)",
        )
        if self._codes is None:
            found = self._fetch(f"SELECT {fields} FROM {keys} ORDER BY code ASC")
            kinds = [(name, self._kinds[name]) for name in self._by]
            named = [
                tuple(key_cell(cell, *kind) for cell, kind in zip(cells, kinds, strict=True))
                for cells in found
            ]
            self._names = [key[0] for key in named] if len(self._by) == 1 else named
            self._codes = {told_apart(key): i for i, key in enumerate(self._names)}
        return self._table("all pairs", self._counted(keys, ", any_value(listed.kh) AS kh"))

    def _places(self, keys: Sequence[Any]) -> str:
        """Return the codes of private keys and their places in a list, as SQL."""
        codes = self._codes or {}
        known = [(codes.get(told_apart(key), -1), i) for i, key in enumerate(keys)]
        known = [pair for pair in known if pair[0] >= 0]
        return integers([code for code, _ in known], [i for _, i in known])

    def _listed(self, keys: Sequence[Any]) -> str:
        """Return a table of listed keys with their places, as SQL."""
        fields = ", ".join(self._fields)
        if self._codes is not None:
            return (
                f"(SELECT {fields}, place::BIGINT AS code FROM {self._tables['keys']} AS known "
                f"JOIN {self._places(keys)} AS places(found, place) ON known.code = places.found)"
            )
        parts = list(zip(*map(self._parts, keys), strict=True))
        columns = [
            column_of(part, self._kinds[name])
            for part, name in zip(parts, self._by, strict=False)  # none, of no keys
        ]
        if columns and all(columns):
            codes = f"unnest(range({len(keys)}))::BIGINT"
            made = ", ".join(map(str, (*columns, codes)))
            return f"(SELECT * FROM (SELECT {made}) AS stated({fields}, code))"
        rows = [
            f"({', '.join(self._literals(key))}, {i}::BIGINT)" for i, key in enumerate(keys)
        ] or [f"({', '.join(['NULL'] * len(self._by))}, NULL::BIGINT)"]
        return f"(SELECT * FROM (VALUES {', '.join(rows)}) AS stated({fields}, code))"

    def _literals(self, key: Any) -> list[str]:
        return [
            literal(part, self._kinds[name])
            for part, name in zip(self._parts(key), self._by, strict=True)
        ]

    def _pairs(self, keys: Sequence[Any]) -> str:
        """Return the pairs of listed keys, `code` being the place in the list, as SQL."""
        if self._codes is None:
            return self._table(("pairs", tuple(keys)), self._counted(self._listed(keys), ""))
        return self._table(
            ("pairs", tuple(keys)),
            f"SELECT own.* REPLACE (place::BIGINT AS code) FROM {self._private()} AS own "
            f"JOIN {self._places(keys)} AS places(found, place) ON own.code = places.found",
        )

    def _units(self, keys: Sequence[Any], max_keys: int) -> str:
        """Return what units have in listed keys: how many, rows, the last of the smallest ranks."""
        rank = _rank("code", self.salt(-2))
        return self._table(
            ("units", tuple(keys), max_keys),
            "SELECT u, count(*) AS c, sum(n)::BIGINT AS n, "
            f"list_max({_smallest(rank, max_keys)}) AS last "
            f"FROM {self._pairs(keys)} GROUP BY u",
        )

    def _kept(self, keys: Sequence[Any], max_keys: int) -> str:
        """Return the pairs in which units have their keys of the smallest ranks only.

        No two ranks of a unit are equal, so no more than max_keys are at or below the last of the
        smallest. A unit that the join did not find would be left out, not let through.
        """
        units, rank = self._units(keys, max_keys), _rank("own.code", self.salt(-2), unit="own.u")
        return self._table(
            ("kept", tuple(keys), max_keys),
            f"SELECT own.* FROM {self._pairs(keys)} AS own JOIN {units} AS most ON own.u = most.u "
            f"WHERE ({rank}) <= most.last",
        )

    # --- what queries read: as `GroupedTable` has it ----------------------------------------------

    def key_weights(
        self, weights: list[int], salt: int, without: Sequence[Any]
    ) -> tuple[list[Any], list[int]]:
        """Return keys and sums of weights of their units; see `GroupedTable.key_weights`."""
        pairs, most = self._private(), len(weights)
        rank = _rank("code", salt, "kh")
        gone = f"{self._places(without)} AS gone(code, place)"
        weight = "1" if set(weights) == {1} else f"{weights}[least(len(ws), {most})]"
        found = self._fetch(
            f"WITH units AS (SELECT {_smallest(rank, most)} AS ws FROM {pairs} AS own "
            f"ANTI JOIN {gone} ON own.code = gone.code GROUP BY u), "
            f"each AS (SELECT unnest(ws) AS word, {weight} AS w FROM units) "
            f"SELECT ({_code_of('word')}) AS code, sum(w) FROM each GROUP BY 1"
        )
        named = sorted(((self._names[code], int(total)) for code, total in found), key=_by_key)
        return [key for key, _ in named], [total for _, total in named]

    def shapes(
        self, keys: Sequence[Any] | None, key_edges: Sequence[int], row_edges: Sequence[int]
    ) -> NDArray[np.int64]:
        """Count units by keys and rows; see `GroupedTable.shapes`."""
        salt = self.salt(-1)
        if keys is None:
            pairs, rank = self._private(), _rank("code", salt, "kh")
        else:
            pairs, rank = self._pairs(keys), _rank("code", salt)
        cells = np.zeros(len(key_edges) + len(row_edges), dtype=np.int64)
        found = self._fetch(
            f"WITH units AS (SELECT count(*) AS c, arg_min(n, {rank}) AS r FROM {pairs} GROUP BY u)"
            f" SELECT {_last('c', key_edges)}, {_last('r', row_edges)}, count(*) FROM units "
            "GROUP BY ALL"
        )
        for i, j, count in found:
            cells[i] += count
            cells[len(key_edges) + j] += count
        return cells

    def spread(self, column: str, edges: Sequence[float]) -> NDArray[np.int64]:
        """Return how the values of units are spread over bins; see `GroupedTable.spread`."""
        found = self._fetch(
            f"WITH parts AS (SELECT {self._u} AS u, {place_of_edges(column, edges)} AS bin, "
            f"count(*) AS c FROM skdp_rows WHERE {there(column)} GROUP BY ALL), "
            "whole AS (SELECT u, sum(c)::BIGINT AS m FROM parts GROUP BY u) "
            f"SELECT bin, sum((c << {FRACTION_BITS}) // m) FROM parts JOIN whole USING (u) "
            "GROUP BY bin"
        )
        out = np.zeros(len(edges) - 1, dtype=np.int64)
        for place, count in found:
            out[place] = int(count)
        return out

    def left_out(
        self, keys: Sequence[Any], max_keys: int, max_rows: int, most_keys: int, most_rows: int
    ) -> NDArray[np.int64]:
        """Return keys of units, and rows, that bounding left out; see `GroupedTable.left_out`."""
        if self._packs(keys, max_rows):
            found = self._packed(keys, max_keys, max_rows, most_keys, most_rows)
            return np.array(found[0], dtype=np.int64)
        lost = (
            f"WITH stays AS (SELECT u, sum(least(n, {max_rows})) AS n "
            f"FROM {self._kept(keys, max_keys)} GROUP BY u) "
            f"SELECT coalesce(sum(least(greatest(c - {max_keys}, 0), {most_keys})), 0), "
            f"coalesce(sum(least(whole.n - stays.n, {most_rows})), 0) "
            f"FROM {self._units(keys, max_keys)} AS whole JOIN stays ON whole.u = stays.u"
        )
        gone, rows = self._fetch(lost)[0]
        return np.array([int(gone), int(rows)], dtype=np.int64)

    def totals(
        self, keys: Sequence[Any], terms: Sequence[KeyTerm], max_keys: int, max_rows: int
    ) -> NDArray:
        """Return the integers of terms for every key; see `GroupedTable.totals`."""
        out = np.zeros((len(keys), sum(map(term_width, terms))), dtype=object)
        starts = np.cumsum([0, *map(term_width, terms)])[:-1].tolist()
        plain = [i for i, term in enumerate(terms) if term.kind not in _BINNED]
        if plain:
            columns = [starts[i] for i in plain]
            found = self._plain_totals(keys, [terms[i] for i in plain], max_keys, max_rows)
            for code, *values in found:
                out[code, columns] = [int(value) for value in values]
        for start, term in zip(starts, terms, strict=True):
            if term.kind in _BINNED:
                for code, place, value in self._binned(keys, term, max_keys, max_rows):
                    out[code, start + place] = int(value)
        return out

    def _packs(self, keys: Sequence[Any], max_rows: int) -> bool:
        """Say whether one pass does: a rank, a key's place and the rows that count in one word."""
        short = len(keys) < _MOST_PACKED_KEYS and max_rows < _MOST_PACKED_ROWS
        return short and not self._sums  # else the pairs that are kept are needed anyway

    def _packed(
        self, keys: Sequence[Any], max_keys: int, max_rows: int, most_keys: int, most_rows: int
    ) -> tuple[tuple[int, int], list[tuple[int, tuple[int, int]]]]:
        """Return what is left out, and rows and units by key, in one pass.

        A rank and what it contributes stand in one word: no pair is looked up again.
        """
        asked = ("packed", tuple(keys), max_keys, max_rows, most_keys, most_rows)
        if asked not in self.kept:
            word = (
                f"((hash(u, code::BIGINT, {self.salt(-2)}::UBIGINT) >> 32) << 32) | "
                f"(code::UBIGINT << 10) | least(n, {max_rows})::UBIGINT"
            )
            found = self._fetch(
                "WITH units AS MATERIALIZED (SELECT count(*) AS c, sum(n)::BIGINT AS n, "
                f"{_smallest(word, max_keys)} AS words FROM {self._pairs(keys)} GROUP BY u), "
                "words AS (SELECT unnest(words) AS w FROM units) "
                "SELECT ((w >> 10) & 4194303)::BIGINT, sum(w & 1023)::BIGINT, count(*) FROM words "
                f"GROUP BY 1 UNION ALL SELECT -1, sum(least(greatest(c - {max_keys}, 0), "
                f"{most_keys}))::BIGINT, sum(least(n - list_sum(list_transform(words, "
                f"lambda w: w & 1023)), {most_rows}))::BIGINT FROM units"
            )
            lost = next((rest for code, *rest in found if code < 0), [0, 0])
            by_code = [(code, (int(a), int(b))) for code, a, b in found if code >= 0]
            self.kept[asked] = ((int(lost[0] or 0), int(lost[1] or 0)), by_code)
        out: tuple[tuple[int, int], list[tuple[int, tuple[int, int]]]] = self.kept[asked]
        return out

    def _plain_totals(
        self, keys: Sequence[Any], terms: list[KeyTerm], max_keys: int, max_rows: int
    ) -> list[tuple[Any, ...]]:
        columns = [self._sums_of(term) for term in terms]
        if self._packs(keys, max_rows) and all(term.kind in _COUNTS for term in terms):
            by_code = self._packed(keys, max_keys, max_rows, max_keys, max_keys * max_rows)[1]
            return [
                (code, *(two[_COUNTS.index(one.kind)] for one in terms)) for code, two in by_code
            ]
        values, centers = [], ""
        for i, (term, (rows, sums)) in enumerate(zip(terms, columns, strict=True)):
            if term.kind in _COUNTS:
                values.append(f"sum(least(n, {max_rows}))" if term.kind == "rows" else "count(*)")
                continue
            counted = f"least({rows}, {max_rows})"
            if term.kind == "filled":
                values.append(f"sum({counted})")
                continue
            total = f"({bounded_sql(sums, rows, max_rows)} - {counted} * {term.offset})"
            if term.kind == "about":
                places = integers(range(len(term.centers)), term.centers)
                centers += f" JOIN {places} AS c{i}(place, center) ON code = c{i}.place"
                shifted = f"(({total} - c{i}.center * {counted}) >> {CENTER_BITS})"
                total = f"({shifted} * {shifted})"  # at most 2**58
            values.append(f"sum({total})")
        return self._fetch(
            f"SELECT code, {', '.join(values)} FROM {self._kept(keys, max_keys)}{centers} "
            "GROUP BY code"
        )

    def _binned(
        self, keys: Sequence[Any], term: KeyTerm, max_keys: int, max_rows: int
    ) -> list[tuple[Any, ...]]:
        """Return (place of the key, bin, parts of rows).

        Where a unit has no more than max_rows in a key each of its rows counts, so those of all
        such units are counted together; others by unit.
        """
        filled, _ = self._sums_of(KeyTerm("filled", term.column))
        whole = f"c << {FRACTION_BITS}"
        return self._fetch(
            f"WITH parts AS (SELECT kept.code AS code, {bin_of(term)} AS bin, "
            f"CASE WHEN kept.{filled} > {max_rows} THEN kept.u END AS own, "
            f"any_value(kept.{filled})::BIGINT AS m, count(*) AS c FROM skdp_rows "
            f"JOIN {self._listed(keys)} AS listed ON {self._joined()} "
            f"JOIN {self._kept(keys, max_keys)} AS kept ON kept.code = listed.code "
            f"AND kept.u = {self._u} WHERE {there(term.column)} GROUP BY ALL) "
            f"SELECT code, bin, sum(CASE WHEN own IS NULL THEN {whole} ELSE "
            f"{bounded_sql(f'({whole})', 'm', max_rows)} END) FROM parts GROUP BY code, bin"
        )


def _by_key(pair: tuple[Any, int]) -> Any:
    return key_order(pair[0])


def _rank(code: str, salt: int, key: str = "", unit: str = "u") -> str:
    """Return the secret rank of a key of a unit: no two of a unit are equal.

    A hash of the unit, the key (its place, where that is public) and the salt; then the place.
    """
    word = f"hash({unit}, {key or f'{code}::BIGINT'}, {salt}::UBIGINT)"
    return f"(({word} >> 32) << 32) | {code}::UBIGINT"


def _smallest(word: str, most: int) -> str:
    """Return the aggregate of a unit's smallest words, in any order.

    A heap is faster for few of them. Most units have no more than many, and are not sorted.
    """
    if most <= 8:
        return f"min({word}, {most})"
    words = f"list({word})"
    return f"CASE WHEN count(*) > {most} THEN list_sort({words}, 'ASC')[:{most}] ELSE {words} END"


def _code_of(rank: str) -> str:
    return f"{rank} & 4294967295"


def _last(column: str, edges: Sequence[int]) -> str:
    """Return the last of ascending edges that an integer reaches, as SQL."""
    return reached(column, [str(edge) for edge in edges[1:]])
