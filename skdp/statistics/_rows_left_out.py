"""How many rows a fit with groups leaves out.

Released: one number, under noise. Guarantee: that of `skdp.core.RowSum`.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from skdp._public_key import public_key
from skdp.base import CallContext, check_integer
from skdp.budget import PrivacyBudget
from skdp.queries import rows_beyond
from skdp.statistics._call import Released, result
from skdp.tabular import UnitCounts, check_units

_LARGEST = 2**31


def rows_left_out(
    groups: ArrayLike,
    max_rows_per_unit: int,
    *,
    at_most: int | None = None,
    epsilon: float = 1.0,
    delta: float = 0.0,
    budget: PrivacyBudget | None = None,
    random_state: Any = None,
) -> Released:
    """Return how many rows a fit leaves out because of its `max_rows_per_unit`.

    Parameters
    ----------
    groups : array-like of shape (n_samples,)
        Id of the unit that each row belongs to, as in the fit.
    max_rows_per_unit : int
        That of the fit: its parameter, or its ``max_rows_per_unit_``.
    at_most : int, default=None
        The largest number of left-out rows that is counted for one unit; noise grows with it. None:
        `max_rows_per_unit`.
    epsilon, delta : float, default=1.0, 0.0
        Privacy loss of the call.
    budget : PrivacyBudget or None, default=None
        Budget to charge; it also sets the neighbouring relation. None: the budget of an enclosing
        ``with budget:`` block, if there is one.
    random_state : int, RandomState or None, default=None
        Seeds post-processing, and noise only inside ``skdp.config_context(noise="seeded")``.

    Returns
    -------
    released : Released
        Neither rounded nor cut off at 0. If a unit has more than `at_most` rows beyond the bound,
        more rows are left out than this number says.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, if an id is missing, or if the budget has another unit.
        Nothing is then charged.
    BudgetExceededError, SealedBudgetError, LedgerError
        If the budget cannot grant (epsilon, delta).

    Notes
    -----
    **Privacy.** *Released*: the sum over units of the rows beyond the bound, at most `at_most` for
    each unit. *Sensitivity*: `at_most`, whether a unit is added or removed, or replaced by another.
    *Mechanism*: discrete Laplace, or rounded Gaussian if delta > 0. *Charged*: (epsilon, delta),
    once, as "rows_left_out".

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import PrivacyBudget, statistics
    >>> budget = PrivacyBudget(1.0, adjacency="add_or_remove_one", unit="user")
    >>> visits = np.repeat(np.arange(10_000), 5)  # five of each user, of which three count
    >>> statistics.rows_left_out(visits, 3, budget=budget, random_state=0).value.round(-3)
    np.float64(20000.0)
    """
    name = "rows_left_out"
    if groups is None:
        raise TypeError(f"{name}: groups must be ids, one for each row")
    kept = check_integer(max_rows_per_unit, "max_rows_per_unit", low=1, high=_LARGEST)
    most = kept if at_most is None else check_integer(at_most, "at_most", low=1, high=_LARGEST)
    call = CallContext(name, epsilon, delta, budget, random_state, groups=groups)
    unit = call.unit()
    assert unit is not None
    units = check_units(groups, None, estimator=name, adjacency=call.adjacency)
    rows: Any = UnitCounts(units, unit.name)
    with call.open(rows, lambda: public_key((kept, most))) as session:
        release = session.answer(rows_beyond(kept, most))
        return result(release.value, release.std, session.certificate(), flat=False)
