"""Tables with cells that no error may show, and what an error carries beside its text."""

from __future__ import annotations

import datetime
import decimal
import fractions
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse

WORD, NUMBER = "CANARY", 739173.73917
TRACES = (WORD, WORD.encode().hex(), "739173", "7.39173", "0x1.68ed")
N = 40  # rows of a table


class Odd:
    """A cell whose conversions fail with a text that quotes it."""

    def _fail(self, *given: Any, **options: Any) -> Any:
        raise ValueError(f"{WORD}: {NUMBER}")

    __float__ = __int__ = __index__ = __array__ = __hash__ = __eq__ = __lt__ = _fail
    __bool__ = __len__ = __iter__ = __str__ = _fail

    def __repr__(self) -> str:
        return WORD


class Subclass(np.ndarray):
    """An array whose own code fails with a text that quotes its cells."""

    def __array_function__(self, *given: Any, **options: Any) -> Any:
        raise TypeError(f"{WORD}: {NUMBER}")


class NoArray:
    """A table whose conversion fails with a text that quotes its cells."""

    shape = (N, 3)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise ValueError(f"{WORD}: {NUMBER}")

    def __len__(self) -> int:
        return N

    def __getitem__(self, place: Any) -> Any:
        raise KeyError(f"{WORD}: {NUMBER}")


ODD_CELLS: dict[str, Any] = {
    "text": WORD,
    "number as text": str(NUMBER),
    "bytes": WORD.encode(),
    "text no UTF-8 has": f"\ud800{WORD}",
    "date": datetime.date(1917, 7, 3),
    "zoned": datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC),
    "decimal": decimal.Decimal("7391737391737391737391e999"),
    "signalling": decimal.Decimal("sNaN739173"),
    "huge integer": 739173 * 10**400,
    "fraction": fractions.Fraction(739173 * 10**400, 3),
    "complex": complex(NUMBER, 1),
    "missing": None,
    "nan": float("nan"),
    "infinite": float("inf"),
    "dict": {WORD: NUMBER},
    "list": [WORD, NUMBER],
    "set": {WORD},
    "tuple": (WORD, NUMBER),
    "object": Odd(),
    "array": np.array([NUMBER, NUMBER]),
    "type": type(WORD, (), {}),
    "exception": ValueError(WORD),
}


def column(cell: Any, n: int = N) -> list[Any]:
    """Return cells of which one is odd, the others numbers that must not be shown either."""
    return [cell if i == n // 2 else NUMBER + i for i in range(n)]


def objects(cell: Any, n: int = N) -> np.ndarray:
    """Return one column of objects."""
    out = np.empty(n, dtype=object)
    for i, one in enumerate(column(cell, n)):
        out[i] = one
    return out


def tables(n: int = N, width: int = 3) -> Iterator[tuple[str, Any]]:
    """Yield (name, table): some are refused by their type, some for one cell, some are taken."""
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    for name, cell in ODD_CELLS.items():
        cells = np.full((n, width), NUMBER, dtype=object)
        cells[n // 2, width - 1] = cell if not isinstance(cell, np.ndarray) else None
        yield f"objects with {name}", cells
        yield f"lists with {name}", cells.tolist()
        yield f"pandas with {name}", pd.DataFrame(cells, columns=list("abc")[:width])
    words = [f"{WORD}{i % 5}" for i in range(n)]
    numbers = [NUMBER + i for i in range(n)]

    def framed(last: Any) -> Any:
        return pd.DataFrame({**dict.fromkeys(list("ab")[: width - 1], numbers), "c": last})

    yield "text", np.array([words] * width).T
    yield "bytes", np.array([words] * width).T.astype("S")
    yield "records", np.zeros(n, dtype=[(WORD, float), ("b", float)])
    yield "dates", np.full((n, width), "1917-07-03", "datetime64[s]")
    yield "complex", np.full((n, width), NUMBER + 1j)
    yield "masked", np.ma.masked_greater(np.full((n, width), NUMBER), 5)
    yield "flat", np.full(n, NUMBER)
    yield "cube", np.full((n, width, 2), NUMBER)
    yield "ragged", [[NUMBER] * (1 + i % 2) for i in range(n)]
    yield "subclass", np.full((n, width), NUMBER).view(Subclass)
    yield "no array", NoArray()
    yield "a word", WORD
    yield "a dict", {"a": words}
    yield "a set", set(words)
    yield "a generator", (one for one in words)
    yield "an odd object", Odd()
    yield "pandas category", framed(pd.Categorical(words))
    yield "pandas category of numbers", framed(pd.Categorical(numbers))
    yield "pandas text", framed(pd.array(words, "string"))
    yield "pandas dates", framed(pd.to_datetime(["1917-07-03"] * n))
    yield "pandas periods", framed(pd.period_range("1917-07", periods=n))
    yield "pandas intervals", framed(pd.interval_range(0, NUMBER, periods=n))
    yield "pandas sparse", framed(pd.arrays.SparseArray(words, fill_value=WORD))
    yield "pandas of Arrow", framed(pd.array(words, pd.ArrowDtype(pa.string())))
    yield (
        "pandas of Arrow dictionaries",
        framed(pd.array(words, pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string())))),
    )
    yield "pandas with missing integers", framed(pd.array([739173] * (n - 1) + [None], "Int64"))
    first = {"a": numbers, "b": numbers} if width > 2 else {"a": numbers}
    yield "polars text", pl.DataFrame({**first, "c": words})
    yield "polars enum", pl.DataFrame({**first, "c": pl.Series(words, dtype=pl.Enum(words[:5]))})
    yield "polars category", pl.DataFrame({**first, "c": pl.Series(words, dtype=pl.Categorical)})
    yield "polars objects", pl.DataFrame({**first, "c": pl.Series(words, dtype=pl.Object)})
    yield "polars structs", pl.DataFrame({**first, "c": [{WORD: NUMBER}] * n})
    yield "polars lists", pl.DataFrame({**first, "c": [[NUMBER]] * n})
    yield "polars decimals", pl.DataFrame({**first, "c": [decimal.Decimal("739173.1")] * n})
    yield "polars lazy", pl.LazyFrame({**first, "c": words})
    yield (
        "polars lazy cast",
        pl.LazyFrame({**first, "c": words}).with_columns(pl.col("c").cast(float)),
    )
    arrow = {"text": pa.array(words), "dictionary": pa.array(words).dictionary_encode()} | {
        "structs": pa.array([{WORD: NUMBER}] * n),
        "lists": pa.array([[NUMBER]] * n),
        "binary": pa.array(words, pa.binary()),
        "decimals": pa.array([decimal.Decimal("739173.1")] * n),
        "dates": pa.array([datetime.date(1917, 7, 3)] * n),
    }
    for name, cells in arrow.items():
        yield f"Arrow {name}", pa.table({**first, "c": cells})
    yield "sparse", sparse.csr_array(np.diag(column(np.nan))[:, :width])
    yield "sparse objects", sparse.coo_array(np.full((n, width), NUMBER))


def told(error: BaseException) -> str:
    """Return all that an exception carries: texts, attributes, causes, contexts, groups, notes."""
    texts: list[str] = []
    found: set[int] = set()
    queue: list[Any] = [error]
    while queue:
        one = queue.pop()
        if one is None or id(one) in found:
            continue
        found.add(id(one))
        if not isinstance(one, BaseException):
            # An error that holds an object of the caller holds his rows.
            plain = isinstance(one, str | bytes | int | float | bool | tuple | type)
            texts.append(repr(one) if plain else f"{WORD} in a {type(one).__name__}")
            continue
        texts += [str(one), repr(one)]
        names = [
            name
            for name in {*dir(type(one)), *getattr(one, "__dict__", {})}
            if not name.startswith("_")
        ]
        queue += [*one.args, *getattr(one, "__notes__", []), one.__cause__, one.__context__]
        queue += [v for name in names if not callable(v := getattr(one, name, None))]
        queue += list(getattr(one, "exceptions", ()))
    return "\n".join([*texts, *traceback.format_exception_only(error)])


def leak_of(call: Callable[[], Any]) -> tuple[str, str]:
    """Return what became of a call, and the first thing that it told of a cell, or ""."""
    raised: BaseException | None = None
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            call()
        except BaseException as error:
            raised = error
    texts = [str(one.message) for one in heard]
    if raised is not None:
        texts.append(told(raised))
    shown = next((text for text in texts if any(trace in text for trace in TRACES)), "")
    return "returned" if raised is None else type(raised).__name__, shown
