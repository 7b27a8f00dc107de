"""The closed list of SQL expressions that are answered: of each its operands and its rule.

A rule says the type, the SQL and the bounds of a node. `skdp.sql.ir` says why no node raises;
`skdp.sql.operators` and `skdp.sql.functions` have the rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from sqlglot import exp

from skdp.sql._refusals import OverUnits, only, refusal, refuse, said
from skdp.sql.functions import FUNCTIONS, SHIFTED
from skdp.sql.ir import Node, TooLargeError, Tree
from skdp.sql.operators import OPERATORS, Rule, tested

__all__ = ["RELEASED", "RULES", "Scope", "compiled", "condition", "value_of_subquery"]

RELEASED = "skdp_released"  # in the meta of a subquery: what it has released
_ONE_SET = "write columns in GROUP BY, and one query for each set of columns"
_INSTEAD: dict[type, str] = {
    **dict.fromkeys((exp.Cube, exp.Rollup, exp.GroupingSets), _ONE_SET),
    **dict.fromkeys((exp.CurrentDate, exp.CurrentTimestamp), "write the date itself"),
}
_CHAIN = 50  # longer chains of +, AND, OR and || are computed in pairs: nesting has a limit
_CHAINS: tuple[tuple[type, ...], ...] = ((exp.Add, exp.Sub), (exp.And,), (exp.Or,), (exp.DPipe,))
RULES: dict[type, Rule] = OPERATORS | FUNCTIONS  # what is answered, by exact type of syntax


class Scope(Protocol):
    """Where an expression stands: what its names mean, and what else it may hold there."""

    @property
    def tree(self) -> Tree:
        """Return the nodes of the query."""

    def column(self, node: exp.Column) -> Node:
        """Return what a name means, or refuse it."""

    def special(self, node: exp.Expr) -> Node | None:
        """Return what a node means here and nowhere else; None for what means the same."""


def compiled(root: exp.Expr, scope: Scope) -> Node:
    """Return an expression as a node, or refuse it. Each part is looked at once.

    Raises
    ------
    QueryRefusedError
    """
    seen, at = scope.tree.seen, id(scope)
    stack: list[tuple[exp.Expr, Rule | None, list[exp.Expr]]] = [(root, None, [])]
    while stack:
        node, rule, parts = stack.pop()
        if (at, id(node)) in seen:
            continue
        try:
            if rule is None:
                found = _whole(node, scope)
                if found is None:
                    rule, parts = _rule(node)
                    if not parts:
                        found = rule.made(scope.tree, node)
            else:
                found = rule.made(scope.tree, node, *(seen[at, id(part)][0] for part in parts))
        except TooLargeError as error:
            refuse(node, str(error), "use fewer or shorter parts, or compute some in a subquery")
        if found is None:
            stack.append((node, rule, parts))
            stack += [(part, None, []) for part in reversed(parts)]
        else:
            seen[at, id(node)] = found, node, scope  # both are kept: their ids stay theirs
    one: Node = seen[at, id(root)][0]
    return one


def _whole(node: exp.Expr, scope: Scope) -> Node | None:
    """Return what is no operator: a column, a subquery, what only this scope knows."""
    if isinstance(node, exp.Subquery):
        return value_of_subquery(node)
    found = scope.special(node)
    if found is None and isinstance(node, exp.Column):
        found = scope.column(node)
    return found


def _rule(node: exp.Expr) -> tuple[Rule, list[exp.Expr]]:
    """Return the rule for a node and its operands."""
    kinds = next((kinds for kinds in _CHAINS if isinstance(node, kinds)), None)
    if kinds is not None:
        terms: list[tuple[exp.Expr, exp.Expr]] = []
        at: exp.Expr = node
        while isinstance(at, kinds) and not isinstance(at.expression, exp.Interval):
            terms.append((at.expression, at))
            at = at.this
        if len(terms) > _CHAIN:
            for _, one in terms:
                only(one, "this", "expression", "typed", "safe")
            terms = [(at, exp.Add()), *reversed(terms)]
            signs = ["-" if isinstance(of, exp.Sub) else "+" for _, of in terms]
            adds = isinstance(node, exp.Add | exp.Sub)
            step = None if adds else RULES[type(node)].made
            return Rule(_chained(step, signs)), [term for term, _ in terms]
    if isinstance(getattr(node, "expression", None), exp.Interval):
        if not isinstance(node, exp.Add | exp.Sub):
            reason = f"{said(node)}: an interval can only be added to or subtracted from a date"
            refuse(node, reason, "write for example x + INTERVAL 3 DAY")
        return SHIFTED, SHIFTED.parts(node)
    found = RULES.get(type(node))
    if found is None:
        if isinstance(node, exp.Window):
            reason = f"the window function {said(node)} would show values of single rows"
            refuse(node, reason, "use GROUP BY and an aggregate")
        way = _INSTEAD.get(
            type(node),
            "use arithmetic, comparisons, CASE, COALESCE, CAST, and functions of numbers, text and "
            "dates that the documentation on private SQL lists",
        )
        refuse(node, f"{said(node)} is not on the list of supported SQL expressions", way)
    return found, found.parts(node)


def _chained(step: Any, signs: list[str]) -> Callable[..., Node]:
    """Return the rule of a long chain: its terms are put together in pairs."""

    def made(tree: Tree, node: exp.Expr, *terms: Node) -> Node:
        rest = list(zip(signs, terms, strict=True))
        while len(rest) > 1:
            pairs = []
            for (a_sign, a), *more in (rest[i : i + 2] for i in range(0, len(rest), 2)):
                if not more:
                    pairs.append((a_sign, a))
                    continue
                ((b_sign, b),) = more
                if step is not None:
                    pairs.append(("+", step(tree, node, a, b)))
                elif a_sign == b_sign:
                    pairs.append((a_sign, RULES[exp.Add].made(tree, node, a, b)))
                else:
                    first, second = (a, b) if a_sign == "+" else (b, a)
                    pairs.append(("+", RULES[exp.Sub].made(tree, node, first, second)))
            rest = pairs
        return rest[0][1]

    return made


def value_of_subquery(node: exp.Subquery) -> Node:
    """Return the number that a subquery has released.

    Raises
    ------
    OverUnits
        If it is to be released first.
    """
    known = node.meta.get(RELEASED)  # a comment of the query may hold text of this name
    if isinstance(known, Node):
        return known
    only(node, "this")
    error = refusal(
        node,
        f"the subquery {said(node)} inside an expression is not supported",
        "write a subquery with one aggregate over all rows, without GROUP BY; EXISTS and IN are "
        "allowed as conditions of WHERE, by themselves or joined by AND",
    )
    raise OverUnits(node.this, str(error))


def condition(node: exp.Expr, scope: Scope) -> Node:
    """Return an expression that is true, false or NULL."""
    return tested(node, compiled(node, scope))
