"""Queries as text: parsed to one syntax tree, and refused with their place and a way out.

A refusal says what is refused, where, why, and what to write instead. It quotes no data.

The spelling of Wilson et al. (2020), Section 3, and of GoogleSQL is read too: SELECT WITH
ANONYMIZATION OPTIONS(...), ANON_COUNT(* CLAMPED BETWEEN ...), WITH DIFFERENTIAL_PRIVACY. Options
leave the text and become parameters; ``CLAMPED BETWEEN`` and ``contribution_bounds_per_group``
become an argument that the parser knows.

There, a unit's rows of a key are aggregated first, and that one value is clamped: so COUNT, SUM and
AVG are those of one row a unit and key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from sqlglot import ErrorLevel, TokenType, exp, parse, tokenize
from sqlglot.errors import SqlglotError

from skdp.exceptions import QueryRefusedError

__all__ = [
    "SOURCES",
    "OverUnits",
    "clamp_of",
    "conjuncts",
    "is_anonymized",
    "only",
    "parsed",
    "place_of",
    "plain_aggregate",
    "refusal",
    "refuse",
    "refuse_bounds",
    "said",
]


# Parts of the syntax tree, as SQL writes them.
_WRITTEN = {
    "alias": "an alias",
    "default": "DEFAULT",
    "distinct": "DISTINCT",
    "except": "EXCLUDE",
    "expression": "a further argument",
    "expressions": "further arguments",
    "group": "GROUP BY",
    "into": "INTO",
    "joins": "a JOIN in parentheses",
    "kind": "AS STRUCT or AS VALUE",
    "limit_options": "a percentage or WITH TIES",
    "locks": "FOR UPDATE or FOR SHARE",
    "method": "NATURAL, ASOF or POSITIONAL JOIN",
    "on": "DISTINCT ON",
    "order": "ORDER BY",
    "pivots": "PIVOT or UNPIVOT",
    "sample": "TABLESAMPLE or USING SAMPLE",
    "this": "an argument",
}
_INSTEAD = {
    "method": "write JOIN ... ON with the columns that must be equal",
    "on": "use GROUP BY and an aggregate",
    "except": "list the columns by name",
    "rename": "list the columns by name, and rename them with AS",
    "replace": "list the columns by name, with the expressions that replace them",
}

# Why FROM, WHERE or a subquery is refused, and what to write instead.
SOURCES = {
    "no from": ("the query has no FROM clause", "name a declared table in FROM"),
    "lengths": ("the rows of VALUES have different lengths", "give each row as many values"),
    "types": (
        "a column of VALUES has values of different types",
        "convert them to one type with CAST",
    ),
    "no select": (
        "the subquery of EXISTS or IN is not one SELECT",
        "write EXISTS (SELECT ...) or x IN (SELECT ...), without UNION in it",
    ),
    "left": (
        "a public table on the left of a LEFT JOIN has rows that belong to no privacy unit",
        "put the private table on the left, or use JOIN",
    ),
    "one column": ("the subquery of IN has several columns", "select one column in it"),
    "chosen": (
        "private rows in EXISTS or IN would decide which rows of public tables are shown",
        "put the private table into FROM of the outer query",
    ),
    "other units": (
        "the subquery reads rows of other privacy units than that of the row around it",
        "equate in its WHERE its unit column, or the key of an owner, with that of the outer query",
    ),
    "no type": (
        "a column of the subquery is NULL in every row and has no type",
        "write CASE WHEN FALSE THEN 0 END for a number, CASE WHEN FALSE THEN '' END for a text",
    ),
    "too long": (
        "the query becomes too long when its subqueries are put into it",
        "use fewer or shorter subqueries",
    ),
    "union": (
        "UNION without ALL would compare rows of several privacy units: only public tables have it",
        "use UNION ALL",
    ),
    "mixed": (
        "UNION ALL of a private and a public table has rows that belong to no privacy unit",
        "use only private or only public tables on both sides",
    ),
    "columns": (
        "the two sides of UNION ALL have different numbers of columns",
        "select as many columns on both sides",
    ),
    "recursive": ("WITH RECURSIVE is not supported", "use WITH without RECURSIVE"),
}


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
    """Return the error for a part of a query: what is refused and why, and what to write."""
    way = f" {instead[0].upper()}{instead[1:]}." if instead else ""
    return QueryRefusedError(f"{place_of(node)}{reason}.{way} Nothing was charged.")


def refuse(node: Any, reason: str, instead: str = "") -> NoReturn:
    """Raise for a part of a query.

    Raises
    ------
    QueryRefusedError
    """
    raise refusal(node, reason, instead)


def refuse_bounds(node: Any, names: Iterable[str], known: Iterable[str] = ()) -> NoReturn:
    """Refuse bounds of expressions that the query does not aggregate.

    Raises
    ------
    QueryRefusedError
    """
    listed = ", ".join(map(repr, sorted(set(known))))
    way = "name an expression as the query aggregates it" + f": {listed}" * bool(listed)
    given = ", ".join(map(repr, sorted(names)))
    refuse(node, f"the parameter bounds names {given}, which the query does not aggregate", way)


def only(node: Any, *names: str) -> None:
    """Refuse a node with other parts than these: what is not listed is not supported."""
    for name, value in node.args.items():
        if name not in names and value not in (None, False, []):
            part = name.strip("_")
            what = _WRITTEN.get(part, part.replace("_", " ").upper())
            kind = type(node).__name__.upper()
            where = {"SELECT": " in this SELECT", "JOIN": ""}.get(kind)
            where = f" in {said(node)}" if where is None else where
            refuse(node, f"{what} is not supported{where}", _INSTEAD.get(part, "leave it out"))


_LONGEST = 100_000
_STARTS = (TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN)
_NAMES = {
    "epsilon": "epsilon",
    "delta": "delta",
    "kappa": "max_keys_per_unit",
    "max_groups_contributed": "max_keys_per_unit",
}
_AGGREGATES: dict[str, type] = {
    "anon_count": exp.Count,
    "anon_sum": exp.Sum,
    "anon_avg": exp.Avg,
    "anon_var": exp.VariancePop,
    "anon_var_pop": exp.VariancePop,
    "anon_stddev": exp.StddevPop,
    "anon_stddev_pop": exp.StddevPop,
    "anon_percentile": exp.PercentileCont,
    "anon_percentile_cont": exp.PercentileCont,
}
_BOUNDS = "contribution_bounds_per_group"


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
        text, options = _without_options(text, tokens)
        statements = [
            item for item in parse(text, read="duckdb", error_level=ErrorLevel.RAISE) if item
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
    statement = with_extracts(statements[0])
    while isinstance(statement, exp.Subquery) and not any(
        value for name, value in statement.args.items() if name != "this"
    ):
        statement = statement.this
    return statement, options


def _place(error: SqlglotError) -> str:
    details = getattr(error, "errors", None) or [{}]
    line, column = details[0].get("line"), details[0].get("col")
    return f"line {line}, column {column}: " if line else ""


def with_extracts(tree: exp.Expr) -> exp.Expr:
    """Return a tree in which DATE_PART('part', x) is EXTRACT(part FROM x)."""
    for node in list(tree.find_all(exp.Anonymous)):
        if str(node.this).lower() in ("date_part", "datepart") and len(node.expressions) == 2:
            part, value = node.expressions
            if isinstance(part, exp.Literal) and part.is_string and str(part.this).isalpha():
                extract = exp.Extract(this=exp.var(str(part.this)), expression=value.copy())
                node.replace(extract)
                tree = extract if node is tree else tree
    return tree


def conjuncts(node: exp.Expr | None) -> Iterator[exp.Expr]:
    """Yield what ANDs hold together."""
    stack = [] if node is None else [node]
    while stack:
        at = stack.pop()
        while isinstance(at, exp.Paren):
            at = at.this
        if isinstance(at, exp.And):
            stack += [at.expression, at.this]
        else:
            yield at


# --- the spelling of Wilson et al. and of GoogleSQL ---------------------------------------------


@dataclass(frozen=True)
class Options:
    """What a query says of itself: whether in the source's spelling, and its parameters."""

    used: bool = False
    values: tuple[tuple[str, float], ...] = ()


def _wrong(token: Any, reason: str) -> QueryRefusedError:
    where = f"line {token.line}, column {max(token.col - len(token.text) + 1, 1)}: "
    return QueryRefusedError(f"{where}{reason}. Nothing was charged.")


def _without_options(text: str, tokens: list[Any]) -> tuple[str, Options]:
    """Return a query without its options, with clamps as arguments; and the options."""
    words = [token.text.lower() for token in tokens]
    edits: list[tuple[int, int, str]] = []
    options = Options()
    for i, token in enumerate(tokens):
        if words[i] == "select" and words[i + 1 : i + 2] == ["with"]:
            name = words[i + 2] if i + 2 < len(words) else ""
            if name not in ("anonymization", "differential_privacy"):
                continue
            if i != 0:
                reason = f"SELECT WITH {name.upper()} is allowed only at the start of the query"
                raise _wrong(token, f"{reason}. Give epsilon and delta there, or as parameters")
            last, values = _read(tokens, i + 3)
            options = Options(True, tuple(values.items()))
            edits.append((tokens[i + 1].start, tokens[last].end + 1, ""))
    for i, token in enumerate(tokens):
        if not options.used or i == 0:
            continue
        if words[i] == "clamped" and words[i + 1 : i + 2] == ["between"]:
            edits.append((tokens[i - 1].end + 1, token.start, ", "))
        if words[i] == _BOUNDS:
            edits += _named_bounds(tokens, words, i)
    for start, end, new in sorted(edits, reverse=True):
        hole = text[start:end]
        rest = "".join(c if c == "\n" else " " for c in hole[len(new) :])
        text = text[:start] + new + rest + text[end:]
    return text, options


def _digits(token: Any) -> bool:
    """Say whether a number was written as 1_000: DuckDB's way, and not the source's."""
    return bool(token.end - token.start + 1 != len(token.text))


def _read(tokens: list[Any], at: int) -> tuple[int, dict[str, float]]:
    """Return where OPTIONS(...) ends, and what it says."""
    texts = [token.text for token in tokens[at:]]
    if len(texts) < 3 or texts[0].lower() != "options" or texts[1] != "(":
        name = tokens[at - 1].text.upper()
        reason = f"WITH {name} must be followed by OPTIONS(...)"
        raise _wrong(tokens[at - 1], f"{reason}, such as OPTIONS(epsilon = 1, delta = 1e-6)")
    values: dict[str, float] = {}
    i = 2
    while i < len(texts) and texts[i] != ")":
        name = _NAMES.get(texts[i].lower())
        if name is None:
            reason = f"{texts[i]!r} is not an option. The options are {', '.join(_NAMES)}"
            raise _wrong(tokens[at + i], reason)
        if name in values:
            raise _wrong(tokens[at + i], f"option {texts[i]!r} is given twice. Give it once")
        token = tokens[at + i + 2] if len(texts) > i + 2 and texts[i + 1] == "=" else None
        if token is None or token.token_type != TokenType.NUMBER or _digits(token):
            reason = f"option {texts[i]!r} must be set to a number. Write {texts[i]} = 0.5 or the"
            raise _wrong(tokens[at + i], f"{reason} like, without underscores in the number")
        values[name] = float(token.text)
        if name == "max_keys_per_unit" and not (values[name].is_integer() and values[name] >= 1):
            reason = f"option {texts[i]!r} must be an integer of 1 or more"
            raise _wrong(tokens[at + i], f"{reason}: the number of keys in which a unit counts")
        i += 3
        if i < len(texts) and texts[i] == ",":
            i += 1
    if i == len(texts):
        raise _wrong(tokens[-1], "the closing parenthesis of OPTIONS(...) is missing")
    return at + i, values


def _named_bounds(tokens: list[Any], words: list[str], i: int) -> list[tuple[int, int, str]]:
    """Return edits that make CLAMPED of bounds by name, and of its function one that takes it."""
    j = i + 1
    while j < len(tokens) and words[j] != "(":
        j += 1
    k = j
    while k < len(tokens) and words[k] != ")":
        k += 1
    comma = next((m for m in range(j, k) if words[m] == ","), None)
    depth, m = 0, i
    while m > 0 and not (words[m] == "(" and depth == 0):
        depth += {")": 1, "(": -1}.get(words[m], 0)
        m -= 1
    if comma is None or k >= len(tokens) or m == 0:
        reason = f"{_BOUNDS} must be the last argument of an aggregate"
        raise _wrong(tokens[i], f"{reason}, written as {_BOUNDS} => (0, 10)")
    return [
        (tokens[m - 1].start, tokens[m - 1].start, "anon_"),
        (tokens[i].start, tokens[j].end + 1, "clamped BETWEEN "),
        (tokens[comma].start, tokens[comma].end + 1, " AND "),
        (tokens[k].start, tokens[k].end + 1, " "),
    ]


def is_anonymized(node: exp.Expr) -> bool:
    """Say whether this is an aggregate in the source's spelling."""
    return isinstance(node, exp.Anonymous) and str(node.this).lower() in _AGGREGATES


def clamp_of(node: exp.Expr) -> tuple[float, float] | None:
    """Return the clamp of an aggregate in the source's spelling, None for none."""
    last = node.expressions[-1] if node.expressions else None
    if not (isinstance(last, exp.Between) and said(last.this).lower() == "clamped"):
        return None
    ends = []
    bounds = f"the bounds {said(last.args['low'])} and {said(last.args['high'])} of an aggregate"
    for name in ("low", "high"):
        item = last.args[name]
        sign = -1.0 if isinstance(item, exp.Neg) else 1.0
        inner = item.this if isinstance(item, exp.Neg) else item
        if not isinstance(inner, exp.Literal) or inner.is_string:
            way = f"write for example CLAMPED BETWEEN 0 AND 10, or {_BOUNDS} => (0, 10)"
            refuse(node, f"{bounds} must be literal numbers", way)
        ends.append(sign * float(inner.this))
    if max(abs(end) for end in ends) > 1e100:
        refuse(node, f"{bounds} are too large", "write numbers between -1e100 and 1e100")
    if not ends[0] < ends[1]:
        reason = f"{bounds} are not in order: the first must be below the second"
        refuse(node, reason, "write the lower number first")
    return ends[0], ends[1]


def plain_aggregate(node: exp.Anonymous) -> exp.Expr:
    """Return an aggregate as plain SQL spells it, without its clamp."""
    parts = list(node.expressions)
    if clamp_of(node) is not None:
        parts.pop()
    kind = _AGGREGATES[str(node.this).lower()]
    if len(parts) != (2 if kind is exp.PercentileCont else 1):
        way = (
            "write ANON_PERCENTILE(x, 0.5), or one expression for the other functions; CLAMPED "
            "BETWEEN ... AND ... may follow it"
        )
        refuse(node, f"{said(node)} has the wrong number of arguments", way)
    part: exp.Expr = kind(this=parts[0].copy())
    if len(parts) == 2:
        part.set("expression", parts[1].copy())
    return part
