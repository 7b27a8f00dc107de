"""Docstrings of public functions and classes, filled from one table of shared texts.

A docstring has the line ``{budget}`` where the text on `budget` belongs. Texts of several
parameters stand under one name: ``{privacy}`` ends the list of each function that charges.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from textwrap import dedent, indent
from typing import Any, ParamSpec, TypeVar

__all__ = ["documenter", "parameters_of"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_TEXTS = {
    "groups": """
        groups : array-like of shape (n_samples,), default=None
            Id of the unit (a user, say) that each row belongs to. All rows of one id are protected
            together. A budget with a `unit` needs groups; any other budget refuses them.
            Rows without an id are left out if a unit is added or removed, and refused otherwise.
        """,
    "max_rows_per_unit": """
        max_rows_per_unit : int or "private", default="private"
            With `groups`: how many rows of each unit are used at most. ``"private"`` chooses this
            number for 10% of the allowance, so that about 99 in 100 units keep all their rows.
        """,
    "budget": """
        budget : PrivacyBudget or None, default=None
            Budget to charge; it also sets the neighbouring relation. None: the budget of an
            enclosing ``with budget:`` block, if there is one.
        """,
    "random_state": """
        random_state : int, RandomState or None, default=None
            Seeds post-processing, and noise only inside ``skdp.config_context(noise="seeded")``.
        """,
    "call": """
        epsilon, delta : float, default=1.0, 0.0
            Privacy loss of the call.
        {budget}
        {random_state}
        """,
    "privacy": "{groups}\n{max_rows_per_unit}\n{call}",
    "fit": "{max_rows_per_unit}\n{budget}\n{random_state}",
    "columns_seen": """
        n_features_in_, feature_names_in_ : int, ndarray of shape (n_features_in_,)
            Number of columns; their names, if X has names that are strings.
        max_rows_per_unit_ : int
            With `groups`: how many rows of each unit were used at most.
        privacy_ : skdp.core.PrivacyCertificate
            What was released, by which mechanism, at which cost.
        """,
    "charge_raises": """
        BudgetExceededError, SealedBudgetError, LedgerError
            If the budget cannot grant (epsilon, delta).
        """,
    "fit_raises": """
        Raises
        ------
        TypeError, ValueError
            In `fit`, before anything is charged: if a parameter is out of range, or if X is not a
            dense table of finite numbers.
        BudgetExceededError, SealedBudgetError, LedgerError
            In `fit`, if the budget cannot grant (epsilon, delta).
        """,
}


def _filled(text: str, table: Mapping[str, str]) -> str:
    """Replace each line ``{name}`` by the text of that name, indented as the line is."""

    def entry(line: re.Match[str]) -> str:
        return indent(_filled(dedent(table[line[2]]).strip(), table), line[1])

    return re.sub(r"^( *)\{(\w+)\}$", entry, text, flags=re.MULTILINE)


def documenter(texts: Mapping[str, str] | None = None) -> Callable[[T], T]:
    """Return a decorator that fills the docstring of a function, or of a class and its methods.

    `texts` are those of one package, beside the shared ones.
    """
    table = {**_TEXTS, **(texts or {})}

    def documented(item: T) -> T:
        methods = vars(item).values() if inspect.isclass(item) else ()
        for part in (item, *(getattr(method, "__func__", method) for method in methods)):
            if (part is item or inspect.isfunction(part)) and part.__doc__:
                part.__doc__ = _filled(part.__doc__, table)
        return item

    return documented


def parameters_of(
    like: Callable[P, Any], release: Callable[[str, dict[str, Any]], R], **defaults: Any
) -> Callable[[Callable[[R], T]], Callable[P, T]]:
    """Return a decorator that gives a function of released numbers the parameters of another.

    ``release(name, arguments)`` charges under the function's name, and the function computes its
    answer from what that returns. `defaults` differ from those of `like`.
    """

    def decorated(compute: Callable[[R], T]) -> Callable[P, T]:
        name = compute.__name__
        parameters = [
            parameter.replace(default=defaults.get(parameter.name, parameter.default))
            for parameter in inspect.signature(like).parameters.values()
        ]
        answer = inspect.signature(compute).return_annotation
        signature = inspect.Signature(parameters, return_annotation=answer)

        def function(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{name}(): {error}") from None
            bound.apply_defaults()
            return compute(release(name, dict(bound.arguments)))

        function.__name__ = function.__qualname__ = name
        function.__module__, function.__doc__ = compute.__module__, compute.__doc__
        function.__signature__ = signature  # type: ignore[attr-defined]
        return function

    return decorated
