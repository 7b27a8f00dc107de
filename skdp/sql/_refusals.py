"""Refusals: why, where in the query, and what would work. They quote the query, never a cell."""

from __future__ import annotations

from typing import Any, NoReturn

from skdp.exceptions import QueryRefusedError

__all__ = ["OverUnits", "only", "place_of", "refusal", "refuse", "said"]


class OverUnits(QueryRefusedError):
    """A subquery that aggregates over units: refused here, to be released before the rest.

    Attributes
    ----------
    node : sqlglot.exp.Expr
        Its SELECT.
    """

    def __init__(self, node: Any, text: str) -> None:
        super().__init__(text)
        self.node = node

    def __reduce__(self) -> Any:  # without the syntax tree
        return QueryRefusedError, self.args


def place_of(node: Any) -> str:
    """Return where a node of the syntax tree stands, as far as its parts say."""
    for part in node.walk() if node is not None else ():
        meta = part.meta
        if "line" in meta and "col" in meta:
            length = meta["end"] - meta["start"]
            return f"line {meta['line']}, column {max(meta['col'] - length, 1)}: "
    return ""


def said(node: Any) -> str:
    """Return a part of the query as text, shortened."""
    text = node.sql(dialect="duckdb")
    return text if len(text) <= 60 else f"{text[:57]}..."


def refusal(node: Any, reason: str, instead: str = "") -> QueryRefusedError:
    """Return the error for a part of a query: why, and what would work instead."""
    way = f" {instead[0].upper()}{instead[1:]}." if instead else ""
    return QueryRefusedError(f"{place_of(node)}{reason}.{way} Nothing was charged.")


def refuse(node: Any, reason: str, instead: str = "") -> NoReturn:
    """Raise for a part of a query.

    Raises
    ------
    QueryRefusedError
    """
    raise refusal(node, reason, instead)


def only(node: Any, *names: str) -> None:
    """Refuse a node that has more to it than these parts: what is not known is not accepted."""
    for name, value in node.args.items():
        if name not in names and value not in (None, False, []):
            part = name.strip("_").replace("_", " ")
            what = type(node).__name__.upper()
            refuse(node, f"{what} with {part!r} is not answered here")
