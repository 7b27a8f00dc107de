"""Parses queries to syntax trees, and words refusals.

A refusal says what is refused, where, why, and what to write instead. It quotes no data.

The syntax of Wilson et al. (2020), Section 3, and of GoogleSQL is read too: SELECT WITH
ANONYMIZATION OPTIONS(...), ANON_COUNT(* CLAMPED BETWEEN ...), WITH DIFFERENTIAL_PRIVACY. Options
leave the text and become parameters; ``CLAMPED BETWEEN`` and ``contribution_bounds_per_group``
become an argument that the parser knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from sqlglot import ErrorLevel, TokenType, exp, parse, tokenize
from sqlglot.errors import SqlglotError

from skdp.exceptions import QueryRefusedError

# Names of parts of the syntax tree, where SQL has another name.
_WRITTEN = {
    "alias": "an alias",
    "except": "EXCLUDE",
    "expression": "a further argument",
    "expressions": "further arguments",
    "group": "GROUP BY",
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

TOO_LONG = (
    "the query becomes too long when its subqueries are put into it",
    "use fewer or shorter subqueries",
)


class OverUnits(QueryRefusedError):
    """Refuses a subquery that aggregates over units; `node` is its SELECT, to be released first."""

    def __init__(self, node: Any, text: str) -> None:
        super().__init__(text)
        self.node = node

    def __reduce__(self) -> Any:  # without the syntax tree
        return QueryRefusedError, self.args


def place_of(node: Any) -> str:
    """Return the line and column of a node, or an empty text."""
    for part in node.walk() if node is not None else ():
        meta = part.meta
        if "line" in meta and "col" in meta:
            length = meta["end"] - meta["start"]
            return f"line {meta['line']}, column {max(meta['col'] - length, 1)}: "
    return ""


def said(node: Any) -> str:
    """Return a node as SQL, shortened to 60 characters."""
    text = node.sql(dialect="duckdb")
    return text if len(text) <= 60 else f"{text[:57]}..."


def refusal(node: Any, reason: str, instead: str = "") -> QueryRefusedError:
    """Return the error that refuses a node: the reason, and what to write instead."""
    way = f" {instead[0].upper()}{instead[1:]}." if instead else ""
    return QueryRefusedError(f"{place_of(node)}{reason}.{way} Nothing was charged.")


def refuse(node: Any, reason: str, instead: str = "") -> NoReturn:
    """Raise `refusal`."""
    raise refusal(node, reason, instead)


def only(node: Any, *names: str) -> None:
    """Refuse a node that has other parts than these."""
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
_SYNTAXES = ("anonymization", "differential_privacy")
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
    """Return the one statement of a query, and the options that it states, or refuse it."""
    if not isinstance(text, str):
        raise TypeError(f"the query must be a string, got {type(text).__name__}")
    if len(text) > _LONGEST:
        way = "shorten it, for example by joining a public table instead of a list of values"
        refuse(None, f"the query has more than {_LONGEST:,} characters", way)
    try:
        tokens = tokenize(text, read="duckdb")
        if not tokens or tokens[0].token_type not in _STARTS:
            refuse(None, "the query must start with SELECT or WITH; other statements are not run")
        text, options = _without_options(text, tokens)
        statements = list(filter(None, parse(text, "duckdb", error_level=ErrorLevel.RAISE)))
    except SqlglotError as error:
        details = (getattr(error, "errors", None) or [{}])[0]
        place = f"line {details['line']}, column {details['col']}: " if details.get("line") else ""
        way = "correct its syntax"
        if "clamped" in text.lower():
            way += ": CLAMPED BETWEEN needs SELECT WITH ANONYMIZATION OPTIONS(...) at the start"
        raise refusal(None, f"{place}the query cannot be parsed as SQL of DuckDB", way) from None
    except RecursionError:
        way = "use fewer levels of parentheses and subqueries"
        raise refusal(None, "the query is nested too deeply", way) from None
    if len(statements) != 1:
        reason = f"the query must be one statement, got {len(statements)}"
        refuse(None, reason, "run each by itself")
    statement = with_extracts(statements[0])
    while isinstance(statement, exp.Subquery) and not any(
        value for name, value in statement.args.items() if name != "this"
    ):
        statement = statement.this
    return statement, options


_STRINGS = (
    exp.BitString, exp.ByteString, exp.Heredoc, exp.HexString, exp.National, exp.RawString,
    exp.UnicodeString,
)  # fmt: skip
_DATED = ("DATE", "TIME", "TIMESTAMP")
_LONGEST_NOTE = 10_000


def without_literals(statement: exp.Expr) -> str:
    """Return a query with a placeholder for each literal: a ledger names it, and nobody in it.

    Names of tables and columns stay; comments are left out.
    """

    def masked(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal):
            kind = node.to.sql("duckdb").upper()
            if kind.startswith(_DATED):
                return exp.var("<date>" if kind == "DATE" else "<time>")
        if isinstance(node, exp.Literal):
            return exp.var("<text>" if node.is_string else "<number>")
        return exp.var("<text>") if isinstance(node, _STRINGS) else node

    text = statement.copy().transform(masked).sql("duckdb", comments=False)
    left = {token.token_type.name for token in tokenize(text, read="duckdb")}
    if any(name == "NUMBER" or name.endswith("STRING") for name in left):
        return "a query with literals"  # of a kind that is not known here
    text = re.sub(r"(<\w+>)(?:, \1)+", r"\1, ...", text)
    return text if len(text) <= _LONGEST_NOTE else f"{text[: _LONGEST_NOTE - 3]}..."


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
    """Yield the conditions that AND combines, without their parentheses."""
    stack = [] if node is None else [node]
    while stack:
        part = stack.pop().unnest()
        if isinstance(part, exp.And):
            stack += [part.expression, part.this]
        else:
            yield part


def signed_digits(node: exp.Expr | None, *, text: bool = False) -> str:
    """Return a literal number with its sign; an empty text for anything else."""
    number = node.this if isinstance(node, exp.Neg) else node
    if not isinstance(number, exp.Literal) or (number.is_string and not text):
        return ""
    return "-" * isinstance(node, exp.Neg) + str(number.this)


def item_at(node: exp.Expr, clause: str, items: list[tuple[str, exp.Expr]]) -> exp.Expr | None:
    """Return the item of SELECT that a number in GROUP BY or ORDER BY means, None for no number."""
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    place = int(node.this) if str(node.this).isdigit() else 0
    if not 1 <= place <= len(items):
        reason = f"{clause} {said(node)} is not the number of a column of SELECT"
        refuse(node, reason, f"use a number from 1 to {len(items)}, or a name")
    return items[place - 1][1]


# --- the syntax of Wilson et al. and of GoogleSQL -----------------------------------------------


@dataclass(frozen=True)
class Options:
    """Whether a query is in the syntax of Wilson et al., and the parameters that it states."""

    used: bool = False
    values: tuple[tuple[str, float], ...] = ()


def _wrong(token: Any, reason: str) -> QueryRefusedError:
    place = f"line {token.line}, column {max(token.col - len(token.text) + 1, 1)}: "
    return refusal(None, place + reason)


def _without_options(text: str, tokens: list[Any]) -> tuple[str, Options]:
    """Return a query without its options, with clamps as arguments; and the options."""
    words = [token.text.lower() for token in tokens]
    edits: list[tuple[int, int, str]] = []
    options = Options()
    for i, token in enumerate(tokens):
        name = words[i + 2] if i + 2 < len(words) else ""
        if words[i : i + 2] == ["select", "with"] and name in _SYNTAXES:
            if i != 0:
                reason = f"SELECT WITH {name.upper()} is allowed only at the start of the query"
                raise _wrong(token, f"{reason}. Give epsilon and delta there, or as parameters")
            last, values = _read(tokens, i + 3)
            options = Options(True, tuple(values.items()))
            edits.append((tokens[i + 1].start, tokens[last].end + 1, ""))
        if options.used and i and words[i : i + 2] == ["clamped", "between"]:
            edits.append((tokens[i - 1].end + 1, token.start, ", "))
        if options.used and words[i] == _BOUNDS:
            edits += _named_bounds(tokens, words, i)
    for start, end, new in sorted(edits, reverse=True):
        # Characters and lines keep their places, which refusals name.
        rest = "".join(c if c == "\n" else " " for c in text[start + len(new) : end])
        text = text[:start] + new + rest + text[end:]
    return text, options


def _read(tokens: list[Any], at: int) -> tuple[int, dict[str, float]]:
    """Return the place of the end of OPTIONS(...), and its values."""
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
        # A token of 1_000 is longer than its text.
        if (
            token is None
            or token.token_type != TokenType.NUMBER
            or token.end - token.start + 1 != len(token.text)
        ):
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
    """Return edits from `f(x, ... => (0, 10))` to `anon_f(x, clamped BETWEEN 0 AND 10)`."""
    first = next((m for m in range(i, len(words)) if words[m] == "("), len(words))
    last = next((m for m in range(first, len(words)) if words[m] == ")"), len(words))
    comma = next((m for m in range(first, last) if words[m] == ","), None)
    depth, opened = 0, i  # the parenthesis that the function opened
    while opened > 0 and not (words[opened] == "(" and depth == 0):
        depth += {")": 1, "(": -1}.get(words[opened], 0)
        opened -= 1
    if comma is None or last == len(words) or opened == 0:
        reason = f"{_BOUNDS} must be the last argument of an aggregate"
        raise _wrong(tokens[i], f"{reason}, written as {_BOUNDS} => (0, 10)")
    return [
        (tokens[opened - 1].start, tokens[opened - 1].start, "anon_"),
        (tokens[i].start, tokens[first].end + 1, "clamped BETWEEN "),
        (tokens[comma].start, tokens[comma].end + 1, " AND "),
        (tokens[last].start, tokens[last].end + 1, " "),
    ]


def is_anonymized(node: exp.Expr) -> bool:
    """Say whether a node is an aggregate in the syntax of Wilson et al."""
    return isinstance(node, exp.Anonymous) and str(node.this).lower() in _AGGREGATES


def clamp_of(node: exp.Expr) -> tuple[float, float] | None:
    """Return the bounds of CLAMPED BETWEEN in an aggregate, None without it."""
    last = node.expressions[-1] if node.expressions else None
    if not (isinstance(last, exp.Between) and said(last.this).lower() == "clamped"):
        return None
    ends = last.args["low"], last.args["high"]
    bounds = f"the bounds {said(ends[0])} and {said(ends[1])} of an aggregate"
    if not all(map(signed_digits, ends)):
        way = f"write for example CLAMPED BETWEEN 0 AND 10, or {_BOUNDS} => (0, 10)"
        refuse(node, f"{bounds} must be literal numbers", way)
    low, high = (float(signed_digits(end)) for end in ends)
    if max(abs(low), abs(high)) > 1e100:
        refuse(node, f"{bounds} are too large", "write numbers between -1e100 and 1e100")
    if not low < high:
        reason = f"{bounds} are not in order: the first must be below the second"
        refuse(node, reason, "write the lower number first")
    return low, high


def plain_aggregate(node: exp.Expr) -> exp.Expr:
    """Return an aggregate of Wilson et al. in plain SQL, without CLAMPED BETWEEN; others as is."""
    if not is_anonymized(node):
        return node
    parts = list(node.expressions)
    if clamp_of(node) is not None:
        parts.pop()
    kind = _AGGREGATES[str(node.this).lower()]
    names = ("this", "expression") if kind is exp.PercentileCont else ("this",)
    if len(parts) != len(names):
        way = (
            "write ANON_PERCENTILE(x, 0.5), or one expression for the other functions; CLAMPED "
            "BETWEEN ... AND ... may follow it"
        )
        refuse(node, f"{said(node)} has the wrong number of arguments", way)
    arguments = {name: part.copy() for name, part in zip(names, parts, strict=True)}
    aggregate: exp.Expr = kind(**arguments)
    return aggregate
