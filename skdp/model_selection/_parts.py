"""Fits on disjoint parts of one table, each with the budget of its part.

Nothing is released here beyond what each fit releases. A row is in the part that its own key
names, or in none, so the parts are disjoint whatever the rows hold: what `PrivacyBudget.parallel`
asks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn.base import clone

from skdp.budget import PrivacyBudget
from skdp.tabular import split_by_key

__all__ = ["fit_parts"]


def fit_parts(
    estimator: Any, X: Any, y: Any = None, *, by: Any, parts: Mapping[str, PrivacyBudget]
) -> dict[str, Any]:
    """Fit a clone on each part of a table.

    Parameters
    ----------
    estimator : estimator
        An estimator of skdp with a `budget` parameter; each clone gets its budget from `parts`.
    X : array-like or table of shape (n_samples, n_features)
    y : array-like of shape (n_samples,), default=None
    by : array-like of shape (n_samples,)
        The key of each row, for example a column. A row belongs to the part whose name is the text
        of its key ("1" for 1 and 1.0, "2026-01-31" for that day). Rows without a key, or with
        another key, are in no part.
    parts : dict of str to PrivacyBudget
        As :meth:`skdp.PrivacyBudget.parallel` returned it.

    Returns
    -------
    fitted : dict of str to estimator
        One for each name of a part, even if no row has that key.

    Raises
    ------
    TypeError, ValueError
        If `parts` does not hold different budgets, each with the relation "add_or_remove_one" and
        without a unit, or if `by` and X differ in length. Nothing is then fitted.

    Notes
    -----
    **Privacy.** Released: what each fit releases about its part; it is charged to the budget of
    that part. The key of a row alone decides its part, so each row is in at most one part.
    """
    _check_parts(parts)
    split = split_by_key(X, y, by, list(parts))
    return {
        name: clone(estimator).set_params(budget=parts[name]).fit(*part)
        for name, part in zip(parts, split, strict=True)
    }


def _check_parts(parts: Any) -> None:
    """Raise if these are no budgets of parts."""
    if not isinstance(parts, Mapping) or not parts:
        raise TypeError("parts must be what PrivacyBudget.parallel returned: a dict of budgets.")
    for name, budget in parts.items():
        if not isinstance(name, str) or not isinstance(budget, PrivacyBudget):
            raise TypeError("parts must be a dict of names and budgets.")
        if budget.unit is not None:
            raise ValueError(
                f"the budget of a part protects one {budget.unit!r}, whose rows may have several "
                "keys: such parts are not disjoint. Split by something that each unit has once, "
                "and fit each part with groups= and its own budget."
            )
        if budget.adjacency != "add_or_remove_one":
            raise ValueError(
                'the budget of a part must have adjacency="add_or_remove_one": the number of its '
                "rows is private. Take PrivacyBudget.parallel."
            )
