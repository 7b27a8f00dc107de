"""`CallContext`: how estimators, statistics functions and scorers charge and open a session.

`public_key` digests public parameters. It keys seeded noise, so it must not change.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import pickle
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import joblib
import numpy as np
from sklearn.base import BaseEstimator

from skdp._config import noise_is_seeded, uncounted_fits_are_allowed
from skdp.base.callers import warn_of_callers
from skdp.budget import PrivacyBudget
from skdp.budget.ambient import ambient_budget, check_counted
from skdp.budget.budget import StandInBudget, not_a_budget
from skdp.core import PRIVATE_ROWS, PrivacyCertificate, Session, Unit, open_session
from skdp.loss.conversions import check_delta, check_positive, exact, round_down
from skdp.parameters import Integers, check_parameter
from skdp.planning import Allowance, pure_is_less
from skdp.tabular import Rows, name_of_ids, public_length

# --- keys of seeded noise -------------------------------------------------------------------------

_LEFT_OUT = ("budget", "n_jobs", "random_state", "privacy_")
# Values of what was added to fitted estimators since seeded noise was recorded, without weights.
_LATER = {"weight_bound": (None, "private"), "weight_bound_": (None,)}
_FORMER_DELTA = 0.0  # the default when seeded noise was recorded
_DEEPEST = 30
_PLAIN = (bool, int, float, complex, str, bytes, np.generic, type(None))


def changed_parameters(estimator: BaseEstimator) -> dict[str, Any]:
    """Return the parameters that are not at their defaults, except budget, seed and jobs."""
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(type(estimator).__init__).parameters.items()
    }
    former = getattr(estimator, "_former_delta", _FORMER_DELTA)
    return {
        name: value
        for name, value in sorted(estimator.get_params(deep=False).items())
        if name not in _LEFT_OUT
        and not _same(value, defaults.get(name, inspect.Parameter.empty))
        and not (name == "delta" and _same(value, former))
    }


def _same(value: Any, default: Any) -> bool:
    """Say whether a parameter has its default; 1 is not True."""
    return value is default or (
        type(value) is type(default)
        and isinstance(value, str | int | float | tuple)
        and _text(value) == _text(default)
    )


def _text(value: Any) -> str:
    """Return the representation of a plain value; hexadecimal for integers too long for it."""
    return f"{value:x}" if isinstance(value, int) and abs(value) > 10**1000 else repr(value)


def public_key(value: Any, *, fitted: bool = False) -> str:
    """Return a digest of a public value: of an estimator, its parameters or (fitted) its state."""
    digest = hashlib.blake2b(digest_size=20)
    _add(digest, value, fitted, 0)
    return digest.hexdigest()


def _add(digest: Any, value: Any, fitted: bool, depth: int) -> None:
    """Add a value to the digest; each kind begins with its name, so that no two kinds collide."""

    def add(kind: str, *parts: Any) -> None:
        digest.update(f"{kind}:{len(parts)};".encode())
        for part in parts:
            _add(digest, part, fitted, depth + 1)

    def note(text: str) -> None:
        digest.update(f"{len(text)}:{text};".encode())

    name = type(value).__name__
    if depth > _DEEPEST or name == "PrivacyBudget":
        note(name)
    elif isinstance(value, _PLAIN):
        note(f"{name} {_text(value)}")
    elif isinstance(value, np.ndarray):
        plain = np.ascontiguousarray(value)
        note(f"array {plain.dtype} {plain.shape}")
        if plain.dtype.hasobject:
            add("objects", *plain.ravel().tolist())
        else:
            digest.update(plain.tobytes())
    elif isinstance(value, list | tuple):
        add(name, *value)
    elif isinstance(value, Set):
        add(name, *sorted(public_key(item, fitted=fitted) for item in value))
    elif isinstance(value, Mapping):
        add(name, *value.items())
    elif isinstance(value, partial):
        add(name, value.func, value.args, value.keywords)
    elif isinstance(value, type):
        note(f"class {value.__name__}")
    elif isinstance(value, BaseEstimator):
        add(name, sorted(_state(value).items()) if fitted else changed_parameters(value))
    elif type(value).__module__.partition(".")[0] == "skdp":
        add(name, sorted(_state(value).items()))
    elif inspect.isroutine(value) and value.__module__.partition(".")[0] in ("skdp", "numpy"):
        note(f"function {value.__qualname__}")
    else:
        note(_foreign(value))


def _state(value: Any) -> dict[str, Any]:
    """Return the attributes of an object, except budget, seed and certificate."""
    if dataclasses.is_dataclass(value):
        state = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    else:
        state = dict(getattr(value, "__dict__", {}))
    return {
        name: part
        for name, part in state.items()
        if name not in _LEFT_OUT
        and not (isinstance(part, str | None) and part in _LATER.get(name, ()))
    }


def _foreign(value: Any) -> str:
    """Return a digest of an object of another library: of its pickle, or else its repr."""
    try:
        return str(joblib.hash(value, hash_name="sha1"))
    except (pickle.PicklingError, AttributeError, TypeError):  # a lambda, for example
        return repr(value)


# --- the entrance to a session --------------------------------------------------------------------

SMALLEST_DELTA = 1e-100  # floats must hold the part of it that one of many rows of a unit gets
DEFAULT_PART = 100  # a call with delta=None takes one part of so many of the budget's delta

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


def noise_of_a_count(allowance: Allowance) -> float:
    """Return the noise of one count, the main query of many calls."""
    return allowance.cell_std


@dataclass(frozen=True)
class CallContext:
    """A fit, call or score: its name, allowance, budget and privacy unit.

    If the budget is None, it takes the ambient one when it is made.
    """

    name: str
    epsilon: float
    delta: float | None = None
    budget: PrivacyBudget | None = None
    random_state: Any = None
    groups: Any = field(default=None, kw_only=True)
    max_rows_per_unit: Any = field(default=PRIVATE_ROWS, kw_only=True)

    def __post_init__(self) -> None:
        # Errors get the name, because a pipeline has many steps.
        try:
            check_positive(self.epsilon, "epsilon")
            if self.delta is not None and 0 < check_delta(self.delta) < SMALLEST_DELTA:
                raise ValueError(
                    f"delta must be 0, or at least {SMALLEST_DELTA:g}, got {self.delta!r}"
                )
            if not (self.budget is None or isinstance(self.budget, PrivacyBudget)):
                raise not_a_budget(self.budget)
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
    def allowed_delta(self) -> float:
        """The most that the call takes: for None a hundredth of the budget's, 0 without one."""
        if self.delta is not None:
            return float(self.delta)
        if self.budget is None or (
            isinstance(self.budget, StandInBudget) and self.budget.tell is None
        ):
            return 0.0  # a stand-in's call has numbers from the call that it stands in
        # The session refuses an object that is a budget by its `__class__` alone.
        if getattr(self.budget, "accountant", "") == "pld":
            return 0.0  # fits have the price of a plan, which was asked without the budget
        # Of the decimal: 1e-5 / 100 is 1.0000000000000001e-07, of which 100 do not fit into 1e-5.
        part = round_down(exact(getattr(self.budget, "delta", 0.0)) / DEFAULT_PART)
        return part if part >= SMALLEST_DELTA else 0.0

    def split_delta(
        self, noise: Callable[[Allowance], float], *, learns: bool = False
    ) -> tuple[float, float]:
        """Return the delta of Gaussian noise, 0 where noise is pure, and that of what is learned.

        - `noise`: The deviation of the noise on what the call is for; see
          `skdp.planning.pure_is_less`.
        - `learns`: Whether keys, categories or classes are learned: with half of delta beside
          Gaussian noise, with all of it beside pure noise.
        """
        delta = self.allowed_delta
        gaussian = delta / 2 if learns else delta
        replaces = self.adjacency == "replace_one"
        rule = float(self.epsilon), gaussian, self.budget, noise, self._relation
        if pure_is_less(*rule, replaces=replaces):
            return 0.0, delta if learns else 0.0
        if self.delta is None and not learns and self._is_short_of(gaussian):
            return 0.0, 0.0
        return gaussian, delta - gaussian

    @property
    def _relation(self) -> str:
        """The relation of the rows that queries see."""
        return "add_or_remove_one" if self.counts_users else self.adjacency

    def _is_short_of(self, delta: float) -> bool:
        """Say whether the budget has less delta left, so that only pure noise can be paid."""
        budget = self.budget
        if budget is None or budget.accountant != "basic":
            return False
        return float(budget.remaining.delta) < delta

    @property
    def adjacency(self) -> str:
        """The neighbouring relation of the given table."""
        return "replace_one" if self.budget is None else self.budget.adjacency

    @property
    def counts_users(self) -> bool:
        """Whether the privacy unit is not a row; then the number of rows is private."""
        return self.groups is not None or unit_of(self.budget) is not None

    @property
    def allows_empty(self) -> bool:
        """Whether an empty table is accepted, because the number of rows is private."""
        return self.adjacency == "add_or_remove_one" or self.counts_users

    def public_rows(self, rows: Rows) -> int | None:
        """Return the number of rows where all neighbouring tables have the same, else None."""
        return None if self.allows_empty else public_length(rows)

    def unit(self) -> Unit | None:
        """Return the privacy unit, None for a row; refuse a unit other than the budget's."""
        promised = unit_of(self.budget)
        if self.groups is None:
            if promised is not None:
                # Classes and scorers may be inside pipelines, functions are not.
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
        """Refuse the name "row", which in certificates means single rows."""
        if name.strip() == "row":
            raise ValueError(_ROW.format(name=self.name))

    def check_unit(self, name: str) -> None:
        """Refuse the unit of a table that holds the rows of units, unless it is the budget's."""
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
        noise: Callable[[Allowance], float] = noise_of_a_count,
        delta: float | None = None,
        separate_delta: float = 0.0,
    ) -> Session:
        """Charge the budget and return the session.

        - `key`: Returns public text that keys seeded noise.
        - `noise`: See `split_delta`.
        - `delta`: Of Gaussian noise; 0: noise is pure. None: as `split_delta` says.
        - `separate_delta`: Delta of other mechanisms: published rows, Laplace noise of smooth
          scale, selections.
        """
        if delta is None:
            delta, _ = self.split_delta(noise)
        unit_of_table: str | None = getattr(rows, "unit_name", None)
        if unit_of_table is not None:
            self.check_unit(unit_of_table)
        unit = self.unit() if unit_of_table is None else None
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
            delta=delta,
            separate_delta=separate_delta,
            budget=self.budget,
            random_state=self.random_state,
            context=key() if seeded else "",
            unit=unit,
        )

    def nothing_released(self) -> PrivacyCertificate:
        """Return the certificate of a public answer, which costs nothing."""
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


def allowed_delta(estimator: Any) -> float:
    """Return the most that a fit of an estimator takes of delta."""
    name, own = type(estimator).__name__, (estimator.delta, estimator.budget)
    return CallContext(name, 1.0, *own).allowed_delta


def unit_of(budget: PrivacyBudget | None) -> str | None:
    """Return a budget's unit; None for other objects, which the session refuses."""
    return getattr(budget, "unit", None)
