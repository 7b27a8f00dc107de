"""SQL for rows by unit and key: keys and ids as DuckDB is to compare them, values in steps.

Nothing is released here. Text is compared byte by byte, whatever the collation of its column: where
"Ann" and "ann" were one, the spelling of one row would name the key of all. Dates are compared in
microseconds. A stated key is an exact value of its column's type, or NULL, which no row has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from skdp.tabular.grouped import VALUE_BITS, KeyTerm
from skdp.tabular.grouped_keys import plain_key

__all__ = [
    "bin_of",
    "bounded_sql",
    "column_of",
    "family",
    "integers",
    "key_cell",
    "key_sql",
    "literal",
    "place_of_edges",
    "quoted",
    "reached",
    "square_sql",
    "steps_sql",
    "there",
    "unit_sql",
]

_FLOATS = ("FLOAT", "DOUBLE")
_NUMBERS = (
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", *_FLOATS),
    *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT", "DECIMAL"),
)


def quoted(column: str) -> str:
    """Return a name of a column."""
    return '"' + column.replace('"', '""') + '"'


def _cell(column: str) -> str:
    return f"skdp_rows.{quoted(column)}"


def _number(value: float) -> str:
    """Return a float: read from its shortest text, which is exact."""
    return f"'{value!r}'::DOUBLE"


def family(kind: str) -> str:
    """Return what the cells of a column of this type are; "" for what is no key."""
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


def unit_sql(column: str, kind: str) -> str:
    """Return an id as it is compared."""
    text = family(kind) == "text"
    return f"encode({_cell(column)}::VARCHAR)" if text else _cell(column)


def key_sql(column: str, kind: str) -> str:
    """Return a key as it is compared; NULL for dates that microseconds cannot count."""
    what = family(kind)
    if what == "text":
        return f"encode({_cell(column)}::VARCHAR)"
    if what == "date":
        return f"epoch_us(try_cast({_cell(column)} AS TIMESTAMP))"
    return f"{_cell(column)}::DOUBLE" if kind.upper() in _FLOATS else _cell(column)


def key_cell(value: Any, column: str, kind: str) -> Any:
    """Return what `key_sql` has yielded as a plain key."""
    what = family(kind)
    if what == "text":
        return bytes(value).decode("utf-8", "surrogateescape")  # Arrow does not check its texts
    if what == "date":
        return np.datetime64(int(value), "us")
    return plain_key(value, column)


def literal(value: Any, kind: str) -> str:
    """Return a stated key, of its column's family, as `key_sql` yields it."""
    if isinstance(value, str):
        return f"from_hex('{value.encode('utf-8', 'surrogatepass').hex()}')"
    if isinstance(value, np.datetime64):
        return f"{int(value.astype('datetime64[us]').astype(np.int64))}::BIGINT"
    if isinstance(value, bool):
        return str(value).upper()
    if kind.upper() in _FLOATS:
        try:
            near = float(value)
        except OverflowError:
            return "NULL::DOUBLE"
        return _number(near) if near == value else "NULL::DOUBLE"
    whole = int(value) if value == value and abs(value) < 2**128 and int(value) == value else None
    return f"NULL::{kind}" if whole is None else f"TRY_CAST('{whole}' AS {kind})"


def column_of(values: Sequence[Any], kind: str) -> str | None:
    """Return stated keys as `literal` has each, from one text, which is read fast; None: not so."""
    if values and all(isinstance(value, str) for value in values):
        texts = [value.encode("utf-8", "surrogatepass").hex() for value in values]
        return f"from_hex({_unnested(texts)})"
    whole = family(kind) == "number" and kind.upper() not in _FLOATS
    if values and whole and all(type(value) is int and abs(value) < 2**63 for value in values):
        return f"TRY_CAST({_unnested(map(str, values))} AS {kind})"
    return None


def integers(*columns: Sequence[int]) -> str:
    """Return a table of whole numbers, of columns of one length: one text each is read fast."""
    if not columns[0]:
        return f"(SELECT {', '.join(['NULL::BIGINT'] * len(columns))})"
    cells = [f"{_unnested(map(str, column))}::BIGINT" for column in columns]
    return f"(SELECT {', '.join(cells)})"


def _unnested(texts: Iterable[str]) -> str:
    return f"unnest(string_split('{','.join(texts)}', ','))"


# --- values ---------------------------------------------------------------------------------------


def _value(column: str) -> str:
    return f"{_cell(column)}::DOUBLE"


def there(column: str) -> str:
    """Return whether a row has a value."""
    return f"{_value(column)} IS NOT NULL AND NOT isnan({_value(column)})"


def steps_sql(term: KeyTerm) -> str:
    """Return a value in steps, as `skdp.tabular.grouped.steps_of` has it: the same operations."""
    clipped = f"least(greatest({_value(term.column)}, {_number(term.low)}), {_number(term.high)})"
    scaled = f"floor(({clipped} - {_number(term.base)}) * {_number(1.0 / term.grid)} + 0.5)"
    return f"least(greatest({scaled}, 0), {term.top})::BIGINT"


def square_sql(term: KeyTerm) -> str:
    """Return the square of a value about the middle, in steps."""
    about = f"(2 * {steps_sql(term)} - {term.top})"
    return f"(({about} * {about}) >> {VALUE_BITS})"


def reached(value: str, edges: Sequence[str]) -> str:
    """Return how many of ascending numbers a value reaches: by halves, few comparisons a row."""

    def between(low: int, high: int) -> str:
        if low == high:
            return str(low)
        middle = (low + high) // 2
        above, below = between(middle + 1, high), between(low, middle)
        return f"CASE WHEN {value} >= {edges[middle]} THEN {above} ELSE {below} END"

    return f"({between(0, len(edges))})::BIGINT"


def place_of_edges(column: str, edges: Sequence[float]) -> str:
    """Return in which bin a value is; the outer bins hold what is beyond."""
    return reached(_value(column), [_number(edge) for edge in edges[1:-1]])


def bin_of(term: KeyTerm) -> str:
    """Return the bin of a value, of a histogram or a tree."""
    if term.kind == "bins":
        return place_of_edges(term.column, term.edges)
    return f"least({steps_sql(term)} >> {VALUE_BITS - term.depth}, {2**term.depth - 1})"


def bounded_sql(sums: str, rows: str, max_rows: int) -> str:
    """Return sums of rows of which max_rows count, as `skdp.tabular.grouped.bounded` has it."""
    return (
        f"(CASE WHEN {rows} > {max_rows} THEN ({sums} // {rows}) * {max_rows} + "
        f"(({sums} % {rows}) * {max_rows}) // {rows} ELSE {sums} END)"
    )
