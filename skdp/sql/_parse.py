"""From text to one statement of the syntax tree, or a refusal with its place."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import ErrorLevel, TokenType, exp, parse, tokenize
from sqlglot.errors import SqlglotError

from skdp.exceptions import QueryRefusedError
from skdp.sql._dialect import Options, without_options

__all__ = ["conjuncts", "parsed"]

_LONGEST = 100_000
_STARTS = (TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN)


def parsed(text: str) -> tuple[exp.Expr, Options]:
    """Return the one statement of a text, and the options that it states.

    Raises
    ------
    TypeError
        If it is no text.
    QueryRefusedError
        If it is no SQL, more than one statement, or none that selects.
    """
    if not isinstance(text, str):
        raise TypeError(f"the query must be a string, got {type(text).__name__}")
    if len(text) > _LONGEST:
        raise QueryRefusedError(
            f"the query has more than {_LONGEST:,} characters. Shorten it, for example by joining "
            "a public table instead of a list of values. Nothing was charged."
        )
    try:
        tokens = tokenize(text, read="duckdb")
        first = tokens[0].token_type if tokens else None
        if first not in _STARTS:
            raise QueryRefusedError(
                "the query must start with SELECT or WITH; other statements are not run. Nothing "
                "was charged."
            )
        text, options = without_options(text, tokens)
        statements = [
            one for one in parse(text, read="duckdb", error_level=ErrorLevel.RAISE) if one
        ]
    except SqlglotError as error:
        reason = f"{_place(error)}the query cannot be parsed as SQL of DuckDB"
        way = "Correct its syntax"
        if "clamped" in text.lower():
            way += ": CLAMPED BETWEEN needs SELECT WITH ANONYMIZATION OPTIONS(...) at the start"
        raise QueryRefusedError(f"{reason}. {way}. Nothing was charged.") from None
    except RecursionError:
        raise QueryRefusedError(
            "the query is nested too deeply. Use fewer levels of parentheses and subqueries. "
            "Nothing was charged."
        ) from None
    if len(statements) != 1:
        raise QueryRefusedError(
            f"the query must be one statement, got {len(statements)}. Run each by itself. Nothing "
            "was charged."
        )
    statement = statements[0]
    while isinstance(statement, exp.Subquery) and not any(
        value for name, value in statement.args.items() if name != "this"
    ):
        statement = statement.this
    return statement, options


def _place(error: SqlglotError) -> str:
    details = getattr(error, "errors", None) or [{}]
    line, column = details[0].get("line"), details[0].get("col")
    return f"line {line}, column {column}: " if line else ""


def conjuncts(node: exp.Expr | None) -> Iterator[exp.Expr]:
    """Yield what ANDs hold together."""
    if node is None:
        return
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.And):
        yield from conjuncts(node.this)
        yield from conjuncts(node.expression)
    else:
        yield node
