"""The one entrance to a session: of estimators, statistics functions and scorers.

Nothing is released here. `CallContext` refuses another unit than the budget's, charges, and opens
the session.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from skdp._clients import warn_of_callers
from skdp._config import noise_is_seeded, uncounted_fits_are_allowed
from skdp._parameters import Integers, check_parameter
from skdp.budget import PrivacyBudget
from skdp.budget.ambient import ambient_budget, check_counted
from skdp.core import PRIVATE_ROWS, PrivacyCertificate, Session, Unit, open_session
from skdp.loss.conversions import check_delta, check_positive
from skdp.tabular import Rows, name_of_ids

__all__ = ["CallContext", "unit_of"]

SMALLEST_DELTA = 1e-100  # of a part of it, floats must tell what a unit may lose in many rows

_NO_GROUPS = (
    "{name}: the budget protects all rows of one {unit!r}, but no groups= say to whom each row "
    "belongs. Pass the ids: {way}. Nothing was charged for this fit."
)
_FITS = (
    "fit(X, groups=ids). In a pipeline: fit(X, <step>__groups=ids). Searches, and all pipelines "
    "with sklearn.set_config(enable_metadata_routing=True), pass groups=ids on to the estimators "
    "that request them: .set_fit_request(groups=True) on each private step, "
    ".set_score_request(groups=True) on a private scorer"
)
_NO_UNIT = (
    "{name}: with groups= the unit has several rows, but the budget protects one row, so its "
    "total would be no guarantee for a unit. Make a budget with that unit, PrivacyBudget(..., "
    "unit={unit!r}), or leave groups out. Nothing was charged for this fit."
)
_NO_BUDGET_OF_UNIT = (
    "{name}: it protects all rows of one {unit!r}, but the budget protects one row, so its total "
    "would be no guarantee. Make a budget with that unit, PrivacyBudget(..., unit={unit!r}); if "
    "each row is a unit, write unit=None. Nothing was charged for this fit."
)
_OTHER_UNIT = (
    "{name}: groups are named {other!r}, but the budget protects one {unit!r}: pass the ids with "
    "that name, or a budget with another unit. Nothing was charged for this fit."
)
_ROW = (
    "{name}: ids are named 'row', which in certificates means a single row; give them another "
    "name. Nothing was charged for this fit."
)


@dataclass(frozen=True)
class CallContext:
    """One fit, call or score: whose it is, what it may lose, what counts it.

    The one entrance of estimators, statistics functions and scorers to a session. It stands for
    the moment in which it is made: a budget of None is the ambient one of then.
    """

    name: str
    epsilon: float
    delta: float = 0.0
    budget: PrivacyBudget | None = None
    random_state: Any = None
    groups: Any = field(default=None, kw_only=True)
    max_rows_per_unit: Any = field(default=PRIVATE_ROWS, kw_only=True)

    def __post_init__(self) -> None:
        # Named, because a pipeline has many steps.
        try:
            check_positive(self.epsilon, "epsilon")
            if 0 < check_delta(self.delta) < SMALLEST_DELTA:
                raise ValueError(
                    f"delta must be 0, or at least {SMALLEST_DELTA:g}, got {self.delta!r}"
                )
            if not (self.budget is None or isinstance(self.budget, PrivacyBudget)):
                kind = type(self.budget).__name__
                raise TypeError(f"budget must be a PrivacyBudget or None, got {kind}")
            if isinstance(self.random_state, int) and abs(self.random_state) > 10**1000:
                raise ValueError("random_state must have at most 1000 digits")
            check_parameter(
                self.max_rows_per_unit, "max_rows_per_unit", PRIVATE_ROWS, Integers(1, 2**31)
            )
        except (TypeError, ValueError) as error:
            raise type(error)(f"{self.name}: {error}") from None
        if self.budget is None:
            object.__setattr__(self, "budget", ambient_budget())

    @property
    def adjacency(self) -> str:
        """The neighbouring relation of the table as it is given."""
        return "replace_one" if self.budget is None else self.budget.adjacency

    @property
    def counts_users(self) -> bool:
        """Whether the privacy unit is not a row: the number of rows is private then."""
        return self.groups is not None or unit_of(self.budget) is not None

    @property
    def allows_empty(self) -> bool:
        """Whether a table without rows is one like others: their number is private."""
        return self.adjacency == "add_or_remove_one" or self.counts_users

    def unit(self) -> Unit | None:
        """Return the privacy unit, None for one row; refuse another one than the budget's.

        Raises
        ------
        ValueError
            With the way out; nothing has been charged.
        """
        promised = unit_of(self.budget)
        if self.groups is None:
            if promised is not None:
                # Functions are called by themselves; classes and scorers may be inside pipelines.
                function = self.name.isidentifier() and self.name[0].islower()
                way = f"{self.name}(..., groups=ids)" if function else _FITS
                raise ValueError(_NO_GROUPS.format(name=self.name, unit=promised, way=way))
            return None
        name = name_of_ids(self.groups)
        if self.budget is not None and promised is None:
            raise ValueError(_NO_UNIT.format(name=self.name, unit=name or "user_id"))
        if promised is not None and name not in (None, promised):
            raise ValueError(_OTHER_UNIT.format(name=self.name, unit=promised, other=name))
        if name is not None:
            self._check_name(name)
        return Unit(promised or name or "unit", self.max_rows_per_unit)

    def _check_name(self, name: str) -> None:
        """Refuse ids of a name that certificates have for units of one row."""
        if name.strip() == "row":
            raise ValueError(_ROW.format(name=self.name))

    def check_unit(self, name: str) -> None:
        """Refuse a unit, whose rows a table holds together, that is not the budget's.

        Raises
        ------
        ValueError
            With the way out; nothing has been charged.
        """
        self._check_name(name)
        promised = unit_of(self.budget)
        if self.budget is not None and promised is None:
            raise ValueError(_NO_BUDGET_OF_UNIT.format(name=self.name, unit=name))
        if promised is not None and name != promised:
            raise ValueError(
                f"{self.name}: unit is {name!r}, but the budget protects one {promised!r}: a "
                "total of both would be no guarantee for either. Use a budget with that unit. "
                "Nothing was charged for this fit."
            )

    def open(
        self,
        rows: Rows,
        key: Callable[[], str],
        *,
        delta: float | None = None,
        separate_delta: float = 0.0,
    ) -> Session:
        """Charge the budget and return the session.

        Parameters
        ----------
        rows : Rows
        key : callable
            Returns public text that keys seeded noise; called where noise is seeded.
        delta : float, default=None
            Of Gaussian noise; None: all that `separate_delta` leaves.
        separate_delta : float, default=0.0
            Charged beside it: of published rows, or of Laplace noise of smooth scale.
        """
        whole: str | None = getattr(rows, "unit_name", None)
        if whole is not None:
            self.check_unit(whole)
        unit = self.unit() if whole is None else None
        if self.budget is None and not uncounted_fits_are_allowed():
            check_counted(self.name)
        if unit is not None:
            rows = rows.of_units(self.groups, self.name, self.adjacency)
        if self.budget is not None:
            warn_of_callers(self.name, self.allows_empty)
        seeded = self.random_state is not None and noise_is_seeded()
        return open_session(
            rows,
            estimator=self.name,
            epsilon=self.epsilon,
            delta=self.delta - separate_delta if delta is None else delta,
            separate_delta=separate_delta,
            budget=self.budget,
            random_state=self.random_state,
            context=key() if seeded else "",
            unit=unit,
        )

    def nothing_released(self) -> PrivacyCertificate:
        """Return the certificate of an answer that is public; nothing is charged."""
        return PrivacyCertificate(
            estimator=self.name,
            adjacency=self.adjacency,
            unit="row",
            epsilon=0.0,
            delta=0.0,
            mu=None,
            seeded=False,
            charged=False,
            releases=(),
        )


def unit_of(budget: PrivacyBudget | None) -> str | None:
    """Return a budget's unit; None for what is no budget of ours, which the session refuses."""
    return getattr(budget, "unit", None)
