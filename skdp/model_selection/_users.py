"""What a candidate of a private search needs for units of many rows: groups, passed on to steps.

Nothing is released here and no row is read.
"""

from __future__ import annotations

import inspect
from typing import Any

from sklearn import config_context
from sklearn.compose import TransformedTargetRegressor

from skdp.base import request_groups
from skdp.base.leaks import is_search
from skdp.core import PRIVATE_ROWS, Unit, check_unit
from skdp.model_selection._pricing import private_parts

__all__ = ["ask_for_groups", "fit_with_groups"]

_NO_GROUPS = (
    "{where}: its fit takes no groups=, so it protects rows only, and the search protects all rows "
    "of one {unit!r}. Take an estimator that takes groups, or search with a budget without a unit"
)
_TARGETS = (
    "{where}: TransformedTargetRegressor passes no groups on to its transformer. Transform targets "
    "from public knowledge, by func= and inverse_func="
)


def ask_for_groups(candidate: Any, unit: str, most: Any, adjacency: str) -> None:
    """Have the private steps of a candidate asked for groups, in place; raise where one cannot.

    Parameters
    ----------
    candidate : estimator
        Its steps have their parts of a run.
    unit : str
        The name of the unit.
    most : int or "private"
        Rows of a unit that count in steps that state none by themselves.
    adjacency : str
        The relation of the search's budget.

    Raises
    ------
    TypeError, ValueError
        With the step and the way out.
    """
    for path, part in private_parts(candidate):
        where = f"step {path} ({type(part).__name__})" if path else type(part).__name__
        if is_search(part) or not hasattr(part, "set_fit_request"):
            raise TypeError(_NO_GROUPS.format(where=where, unit=unit))
        if "groups" not in inspect.signature(part.fit).parameters:
            raise TypeError(_NO_GROUPS.format(where=where, unit=unit))
        outer = candidate.get_params(deep=True).get(path.rpartition("__")[0], candidate)
        inner = path.rpartition("__")[2]
        if isinstance(outer, TransformedTargetRegressor) and inner == "transformer":
            raise TypeError(_TARGETS.format(where=where))
        request_groups(part)
        if getattr(part, "max_rows_per_unit", None) == PRIVATE_ROWS:
            part.set_params(max_rows_per_unit=most)
        stated = getattr(part, "max_rows_per_unit", PRIVATE_ROWS)
        cost = part.privacy_cost()
        if cost is not None and stated != PRIVATE_ROWS:
            try:
                delta = 0.0 if cost.mu is None else cost.delta
                check_unit(Unit(unit, stated), adjacency, cost.epsilon, delta)
            except ValueError as error:
                raise ValueError(f"{where}: {error}") from None


def fit_with_groups(model: Any, X: Any, y: Any, groups: Any) -> Any:
    """Fit a candidate whose steps ask for groups."""
    arguments = (X,) if y is None else (X, y)
    with config_context(enable_metadata_routing=True):  # of this thread only
        return model.fit(*arguments, groups=groups)
