"""Values of polars that rewritten queries make: their kinds, and the refusal of all others.

Nothing is released here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from sqlglot import exp

from skdp.exceptions import QueryRefusedError
from skdp.sql._refusals import said

__all__ = [
    "Compile",
    "Value",
    "alike",
    "choice",
    "dtype_of",
    "lit",
    "not_proved",
    "null",
    "polars",
    "ratio",
    "unproved",
]


@dataclass(frozen=True)
class Value:
    """An expression of polars and what it holds.

    Attributes
    ----------
    expr : polars.Expr
    kind : str
        ``"int"`` (64 bits), ``"huge"`` (128), ``"num"``, ``"text"``, ``"bool"``, ``"date"``
        (days), ``"time"`` (microseconds), ``"fixed"`` (nine decimals, in 128 bits), ``"null"``, or
        ``"decimal"``, a column's, which can be made a number of.
    tame : bool
        Of dates and times: of the years that are computed with, to 10,000 years about, or NULL.
    stated : bool
        Whether the query states this number.
    """

    expr: Any
    kind: str
    tame: bool = False
    stated: bool = False


Compile = Callable[[exp.Expr], Value]


def not_proved(node: Any) -> NoReturn:
    """Refuse what is not proved equal in both engines.

    Raises
    ------
    QueryRefusedError
    """
    raise unproved(node)


def unproved(node: Any) -> QueryRefusedError:
    """Return the refusal of `not_proved`."""
    what = node if isinstance(node, str) else said(node)
    return QueryRefusedError(
        f"engine='polars' does not support {what} (as the query is rewritten for DuckDB): its "
        "result is not proved equal to that of DuckDB. Use engine='duckdb', the default. Nothing "
        "was charged."
    )


def polars() -> Any:
    import polars as module

    return module


def dtype_of(kind: str) -> Any:
    """Return the type of polars that a kind of value has."""
    pl = polars()
    whole = {"int": pl.Int64, "date": pl.Int64, "time": pl.Int64, "huge": pl.Int128}
    rest = {"fixed": pl.Int128, "num": pl.Float64, "text": pl.String, "bool": pl.Boolean}
    return {**whole, **rest, "null": pl.Null}[kind]


def lit(value: Any, kind: str) -> Value:
    return Value(polars().lit(value, dtype=dtype_of(kind)), kind)


def null(kind: str) -> Any:
    return polars().lit(None, dtype=dtype_of(kind))


def choice(test: Any, then: Any, other: Any) -> Any:
    return polars().when(test).then(then).otherwise(other)


def ratio(a: Any, b: Any) -> Any:
    """Return a quotient of doubles, rounded once.

    By one number polars multiplies with its reciprocal, which rounds twice: so it is never given
    one, but as many as there are rows. Where `a` is NULL so is the quotient.
    """
    return a / (b + a.is_null().cast(polars().Float64))


def alike(node: exp.Expr, *values: Value) -> tuple[str, list[Any]]:
    """Return the kind that values have in common, and each as it."""
    kinds = {one.kind for one in values} - {"null"}
    if not kinds:
        return "null", [one.expr for one in values]
    kind = next(iter(kinds)) if len(kinds) == 1 else ""
    if kinds == {"int", "huge"}:
        kind = "huge"
    elif kinds == {"int", "num"} and all(one.stated for one in values if one.kind == "int"):
        kind = "num"
    if not kind or kind in ("decimal", "fixed"):
        not_proved(node)
    kept = [null(kind) if one.kind == "null" else one.expr.cast(dtype_of(kind)) for one in values]
    return kind, kept
