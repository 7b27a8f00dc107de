"""Rows by unit and key in DuckDB: a relation, or Parquet files; what is not in memory.

Nothing is released here. The integers are those of `skdp.tabular.grouped.GroupedTable` for the same
ranks: values are put into steps one by one and added up as integers, so that neither the order of
rows nor the number of threads changes a bit. Only results by key come to Python.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.tabular.grouped import (
    _CENTER_BITS,
    FRACTION_BITS,
    VALUE_BITS,
    GroupedRows,
    KeyTerm,
    check_names,
    secret_number,
    term_width,
)
from skdp.tabular.grouped_keys import key_order, plain_key

__all__ = ["GroupedRelation", "is_relation", "open_relation"]

_NUMBERS: tuple[str, ...] = (
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "BOOLEAN"),
    *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT", "DECIMAL"),
)
_MOST_PACKED_KEYS, _MOST_PACKED_ROWS = 2**22, 2**10


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
    try:
        return duckdb.connect().read_parquet(path)
    except duckdb.Error:
        raise ValueError(f"{path!r} could not be read as Parquet") from None


def _name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def _number(value: float) -> str:
    """Return a float as SQL: read from its shortest text, which is exact."""
    return f"'{value!r}'::DOUBLE"


def _family(kind: str) -> str:
    """Return what the keys of a column of this type are."""
    kind = kind.upper()
    if kind.endswith("]"):
        return ""
    kind = kind.partition("(")[0]
    if kind == "BOOLEAN":
        return "boolean"
    if kind in _NUMBERS:
        return "number"
    if kind in ("VARCHAR", "ENUM"):
        return "text"
    return "date" if kind.startswith(("DATE", "TIMESTAMP")) and "TIME ZONE" not in kind else ""


def _literal(value: Any) -> tuple[str, str]:
    """Return a listed key as SQL, and of which family it is."""
    if isinstance(value, bool):
        return str(value).upper(), "boolean"
    if isinstance(value, int):
        return str(value), "number"
    if isinstance(value, float):
        return _number(value), "number"
    if isinstance(value, np.datetime64):
        return f"TIMESTAMP '{str(value.astype('datetime64[us]')).replace('T', ' ')}'", "date"
    if isinstance(value, str):
        quoted = value.replace("'", "''")
        return f"'{quoted}'", "text"
    return "", "none"


def open_relation(
    table: Any,
    *,
    by: Sequence[str],
    unit: str,
    columns: Sequence[str],
    random_state: Any,
    allow_empty: bool,
) -> GroupedRelation:
    """Return a checked relation; see `skdp.tabular.grouped.check_grouped`."""
    relation = _opened(table)
    names = list(relation.columns)
    check_names(names, by=by, unit=unit, columns=columns)
    kinds = {name: str(kind) for name, kind in zip(names, relation.types, strict=True)}
    for name in by:
        if not _family(kinds[name]) or kinds[name].startswith("DECIMAL"):  # read as Decimal
            raise TypeError(f"keys of column {name!r} must be text, numbers, booleans or dates")
    for name in columns:
        if _family(kinds[name]) not in ("number", "boolean"):
            raise TypeError(f"column {name!r} must hold numbers")
    rows = GroupedRelation(relation, by, unit, columns, kinds, random_state)
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
    ) -> None:
        super().__init__(n_features=len(columns), unit_name=unit)
        self._relation, self._by, self._unit = relation, list(by), unit
        self._kinds = kinds
        self._unit_count: int | None = None
        self.secret = secret_number(random_state, self.digest)

    def _fetch(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a query; what an engine says of an error may quote a cell."""
        try:
            found: list[tuple[Any, ...]] = self._relation.query("skdp_rows", sql).fetchall()
        except Exception:  # noqa: BLE001
            raise RuntimeError("DuckDB could not run a query on the table") from None
        return found

    def check(self, allow_empty: bool) -> None:
        """Raise for missing ids or keys, and for no rows."""
        tests = ["count(*) = 0"]
        for name in (self._unit, *self._by):
            missing = f"{_name(name)} IS NULL"
            if self._kinds[name].upper() in ("FLOAT", "DOUBLE"):
                missing += f" OR isnan({_name(name)})"
            tests.append(f"coalesce(bool_or({missing}), false)")
        empty, *missing_in = self._fetch(f"SELECT {', '.join(tests)} FROM skdp_rows")[0]
        if empty and not allow_empty:
            raise ValueError("table has no rows")
        for name, found in zip((self._unit, *self._by), missing_in, strict=True):
            what = "unit" if name == self._unit else "key"
            if found:
                raise ValueError(
                    f"{what} column {name!r} has missing values; drop these rows, or put in a "
                    "value that says so"
                )

    @property
    def _n(self) -> int:
        """The number of units."""
        if self._unit_count is None:
            counted = f"SELECT count(DISTINCT {_name(self._unit)}) FROM skdp_rows"
            self._unit_count = int(self._fetch(counted)[0][0])
        return self._unit_count

    def digest(self) -> bytes:
        """Return a hash of the content, for seeded noise: the same in any order of rows."""
        cells = ", ".join(_name(name) for name in self._kinds)
        found = self._fetch(f"SELECT count(*), sum(hash({cells})::HUGEINT) FROM skdp_rows")
        return hashlib.blake2b(repr((sorted(self._kinds), found)).encode(), digest_size=32).digest()

    # --- parts of queries -------------------------------------------------------------------------

    @property
    def _key(self) -> str:
        if len(self._by) == 1:
            return _name(self._by[0])
        return f"row({', '.join(_name(name) for name in self._by)})"

    def _as_key(self, value: Any) -> Any:
        if len(self._by) == 1:
            return plain_key(value, self._by[0])
        parts = value.values() if isinstance(value, dict) else value
        return tuple(plain_key(part, name) for part, name in zip(parts, self._by, strict=True))

    def check_keys(self, keys: Sequence[Any]) -> None:
        """Raise for listed keys of another kind than their column; both are public."""
        for key in keys:
            for part, name in zip(self._parts(key), self._by, strict=True):
                if _literal(part)[1] != _family(self._kinds[name]):
                    raise TypeError(f"keys of column {name!r} must be of its type")

    def _parts(self, key: Any) -> tuple[Any, ...]:
        return (key,) if len(self._by) == 1 else tuple(key)

    def _listed(self, keys: Sequence[Any]) -> tuple[str, str]:
        """Return a table of listed keys with their places, and how rows are joined with it."""
        fields = [f"k{i}" for i in range(len(self._by))]
        rows = [
            f"({', '.join(_literal(part)[0] for part in self._parts(key))}, {i})"
            for i, key in enumerate(keys)
        ] or [f"({', '.join(['NULL'] * len(self._by))}, 0)"]
        table = f"listed({', '.join(fields)}, code) AS (VALUES {', '.join(rows)})"
        return table, " AND ".join(
            f"skdp_rows.{_name(name)} = listed.{name_of}"
            for name, name_of in zip(self._by, fields, strict=True)
        )

    def _rank(self, salt: int) -> str:
        """Return the secret rank of a listed key of a unit: no two of a unit are equal."""
        return f"((hash(u, code::BIGINT, {salt}::UBIGINT) >> 32) << 32) | code::UBIGINT"

    def _pairs(
        self, keys: Sequence[Any], extra: Sequence[str] = (), *, materialized: bool = True
    ) -> str:
        """Return the common tables with what every unit has in every listed key."""
        table, on = self._listed(keys)
        sums = "".join(f", {one}" for one in extra)
        how = "MATERIALIZED " if materialized else ""
        return (
            f"WITH {table}, pairs AS {how}(SELECT skdp_rows.{_name(self._unit)} AS u, "
            f"listed.code AS code, count(*) AS n{sums} FROM skdp_rows JOIN listed ON {on} "
            "GROUP BY ALL)"
        )

    def _kept(self, max_keys: int, salt: int) -> str:
        """Return tables in which units have their keys of the smallest ranks only."""
        return (
            f", ranked AS (SELECT *, {self._rank(salt)} AS place FROM pairs), "
            f"least_of AS (SELECT u, min(place, {max_keys}) AS places FROM ranked GROUP BY u "
            f"HAVING count(*) > {max_keys}), "
            f"limits AS (SELECT u, places[{max_keys}] AS most FROM least_of), "
            "kept AS (SELECT ranked.* FROM ranked LEFT JOIN limits ON ranked.u = limits.u "
            "WHERE limits.u IS NULL OR ranked.place <= limits.most)"
        )

    # --- what queries read: as `GroupedTable` has it ----------------------------------------------

    def key_weights(
        self, weights: list[int], salt: int, without: Sequence[Any]
    ) -> tuple[list[Any], list[int]]:
        """Return keys and sums of weights of their units; see `GroupedTable.key_weights`."""
        most = len(weights)
        table, on = self._listed(without)
        rank = f"{{'h': hash(u, k, {salt}::UBIGINT), 'k': k}}"
        own = f"{{'h': hash(pairs.u, pairs.k, {salt}::UBIGINT), 'k': pairs.k}}"
        rows = (
            f"WITH {table}, pairs AS MATERIALIZED (SELECT DISTINCT {_name(self._unit)} AS u, "
            f"{self._key} AS k FROM skdp_rows ANTI JOIN listed ON {on}), "
            "sizes AS (SELECT u, count(*) AS size FROM pairs GROUP BY u), "
            f"least_of AS (SELECT u, min({rank}, {most}) AS places FROM pairs SEMI JOIN "
            f"(SELECT u FROM sizes WHERE size > {most}) AS large USING (u) GROUP BY u), "
            f"limits AS (SELECT u, places[{most}] AS most FROM least_of), "
            "kept AS (SELECT pairs.u AS u, pairs.k AS k FROM pairs LEFT JOIN limits "
            f"ON pairs.u = limits.u WHERE limits.u IS NULL OR {own} <= limits.most) "
        )
        weight = "1" if set(weights) == {1} else f"{weights}[least(size, {most})]"
        source = "kept" if weight == "1" else "kept JOIN sizes USING (u)"
        found = self._fetch(f"{rows} SELECT k, sum({weight}) FROM {source} GROUP BY k")
        named = sorted(((self._as_key(key), int(total)) for key, total in found), key=_by_key)
        return [key for key, _ in named], [total for _, total in named]

    def shapes(
        self, keys: Sequence[Any] | None, key_edges: Sequence[int], row_edges: Sequence[int]
    ) -> NDArray[np.int64]:
        """Count units by keys and rows; see `GroupedTable.shapes`."""
        salt = self.salt(-1)
        if keys is None:
            pairs = (
                f"WITH pairs AS (SELECT {_name(self._unit)} AS u, {self._key} AS code, "
                "count(*) AS n FROM skdp_rows GROUP BY ALL)"
            )
            rank = f"{{'h': hash(u, code, {salt}::UBIGINT), 'k': code}}"
        else:
            pairs, rank = self._pairs(keys), self._rank(salt)
        units = (
            f"{pairs}, units AS (SELECT count(*) AS c, arg_min(n, {rank}) AS r "
            "FROM pairs GROUP BY u)"
        )
        cells = np.zeros(len(key_edges) + len(row_edges), dtype=np.int64)
        found = self._fetch(
            f"{units} SELECT {_cell('c', key_edges)}, {_cell('r', row_edges)}, count(*) FROM units "
            "GROUP BY ALL"
        )
        for i, j, count in found:
            cells[i] += count
            cells[len(key_edges) + j] += count
        return cells

    def spread(self, column: str, edges: Sequence[float]) -> NDArray[np.int64]:
        """Return how the values of units are spread over bins; see `GroupedTable.spread`."""
        x = f"skdp_rows.{_name(column)}::DOUBLE"
        inner = [f"({x} >= {_number(edge)})::BIGINT" for edge in edges[1:-1]]
        found = self._fetch(
            f"WITH parts AS (SELECT {_name(self._unit)} AS u, ({' + '.join(inner)}) AS bin, "
            f"count(*) AS c FROM skdp_rows WHERE {x} IS NOT NULL AND NOT isnan({x}) GROUP BY ALL), "
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
            f"{self._pairs(keys)}{self._kept(max_keys, self.salt(-2))}, "
            "whole AS (SELECT u, count(*) AS c, sum(n) AS n FROM pairs GROUP BY u), "
            f"stays AS (SELECT u, sum(least(n, {max_rows})) AS n FROM kept GROUP BY u) "
            f"SELECT coalesce(sum(least(greatest(c - {max_keys}, 0), {most_keys})), 0), "
            f"coalesce(sum(least(whole.n - stays.n, {most_rows})), 0) "
            "FROM whole JOIN stays ON whole.u = stays.u"
        )
        gone, rows = self._fetch(lost)[0]
        return np.array([int(gone), int(rows)], dtype=np.int64)

    def totals(
        self, keys: Sequence[Any], terms: Sequence[KeyTerm], max_keys: int, max_rows: int
    ) -> NDArray:
        """Return the integers of terms for every key; see `GroupedTable.totals`."""
        out = np.zeros((len(keys), sum(map(term_width, terms))), dtype=object)
        starts = np.cumsum([0, *map(term_width, terms)])[:-1].tolist()
        plain = [i for i, term in enumerate(terms) if term.kind not in ("bins", "leaves")]
        if plain:
            columns = [starts[i] for i in plain]
            found = self._plain_totals(keys, [terms[i] for i in plain], max_keys, max_rows)
            for code, *values in found:
                out[code, columns] = [int(value) for value in values]
        for start, term in zip(starts, terms, strict=True):
            if term.kind in ("bins", "leaves"):
                for code, place, value in self._binned(keys, term, max_keys, max_rows):
                    out[code, start + place] = int(value)
        return out

    def _packs(self, keys: Sequence[Any], max_rows: int) -> bool:
        """Say whether a rank, a key's place and the rows that count fit into one word."""
        return len(keys) < _MOST_PACKED_KEYS and max_rows < _MOST_PACKED_ROWS

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
                f"{self._pairs(keys, materialized=False)}, units AS MATERIALIZED (SELECT "
                f"count(*) AS c, sum(n)::BIGINT AS n, min({word}, {max_keys}) AS words FROM pairs "
                "GROUP BY u), words AS (SELECT unnest(words) AS w FROM units) "
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
        salt = self.salt(-2)
        counts = {"rows": 0, "units": 1}
        if self._packs(keys, max_rows) and all(term.kind in counts for term in terms):
            by_code = self._packed(keys, max_keys, max_rows, max_keys, max_keys * max_rows)[1]
            return [(code, *(two[counts[term.kind]] for term in terms)) for code, two in by_code]
        sums, values = [], []
        for i, term in enumerate(terms):
            if term.kind in ("rows", "units"):
                values.append(f"sum(least(n, {max_rows}))" if term.kind == "rows" else "count(*)")
                continue
            x = f"skdp_rows.{_name(term.column)}::DOUBLE"
            there = f"FILTER (WHERE {x} IS NOT NULL AND NOT isnan({x}))"
            sums.append(f"count(*) {there} AS m{i}")
            counted = f"least(m{i}, {max_rows})"
            if term.kind == "filled":
                values.append(f"sum({counted})")
                continue
            steps = _steps(x, term)
            if term.kind == "square":
                steps = (
                    f"(((2 * {steps} - {term.top}) * (2 * {steps} - {term.top})) >> {VALUE_BITS})"
                )
            sums.append(f"coalesce(sum({steps}) {there}, 0)::BIGINT AS s{i}")
            total = f"({_bounded(f's{i}', f'm{i}', max_rows)} - {counted} * {term.offset})"
            if term.kind == "about":
                center = f"{list(term.centers)}[code + 1]::BIGINT"
                shifted = f"(({total} - {center} * {counted}) >> {_CENTER_BITS})"
                total = f"({shifted}::HUGEINT * {shifted}::HUGEINT)"
            values.append(f"sum({total})")
        return self._fetch(
            f"{self._pairs(keys, sums)}{self._kept(max_keys, salt)} "
            f"SELECT code, {', '.join(values)} FROM kept GROUP BY code"
        )

    def _binned(
        self, keys: Sequence[Any], term: KeyTerm, max_keys: int, max_rows: int
    ) -> list[tuple[Any, ...]]:
        """Return (place of the key, bin, parts of rows)."""
        x = f"skdp_rows.{_name(term.column)}::DOUBLE"
        if term.kind == "leaves":
            last = 2**term.depth - 1
            place = f"least({_steps(x, term)} >> {VALUE_BITS - term.depth}, {last})"
        else:
            inner = [f"({x} >= {_number(edge)})::BIGINT" for edge in term.edges[1:-1]]
            place = f"({' + '.join(inner) or '0'})"
        _, on = self._listed(keys)
        count = _bounded(f"(c << {FRACTION_BITS})", "m", max_rows)
        return self._fetch(
            f"{self._pairs(keys)}{self._kept(max_keys, self.salt(-2))}, "
            f"parts AS (SELECT skdp_rows.{_name(self._unit)} AS u, listed.code AS code, "
            f"{place} AS bin, count(*) AS c FROM skdp_rows JOIN listed ON {on} "
            f"WHERE {x} IS NOT NULL AND NOT isnan({x}) GROUP BY ALL), "
            "shares AS (SELECT parts.*, (sum(c) OVER (PARTITION BY parts.u, parts.code))::BIGINT "
            "AS m FROM parts SEMI JOIN kept ON parts.u = kept.u AND parts.code = kept.code) "
            f"SELECT code, bin, sum({count}) FROM shares GROUP BY code, bin"
        )


def _by_key(pair: tuple[Any, int]) -> Any:
    return key_order(pair[0])


def _cell(column: str, edges: Sequence[int]) -> str:
    """Return the last of ascending edges that an integer reaches, as SQL."""
    above = [f"({column} >= {edge})::BIGINT" for edge in edges[1:]]
    return f"({' + '.join(above) or '0'})"


def _steps(x: str, term: KeyTerm) -> str:
    """Return a value in steps, as `skdp.tabular.grouped.steps_of` has it: the same operations."""
    clipped = f"least(greatest({x}, {_number(term.low)}), {_number(term.high)})"
    scaled = f"floor(({clipped} - {_number(term.base)}) * {_number(1.0 / term.grid)} + 0.5)"
    return f"least(greatest({scaled}, 0), {term.top})::BIGINT"


def _bounded(sums: str, rows: str, max_rows: int) -> str:
    """Return sums of rows of which max_rows count, as `skdp.tabular.grouped.bounded` has it."""
    return (
        f"(CASE WHEN {rows} > {max_rows} THEN ({sums} // {rows}) * {max_rows} + "
        f"(({sums} % {rows}) * {max_rows}) // {rows} ELSE {sums} END)"
    )
