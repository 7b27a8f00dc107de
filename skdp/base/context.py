"""The one entrance to a session: of estimators, statistics functions and scorers.

`CallContext` refuses another unit than the budget's, charges, and opens the session. `public_key`
digests public parameters: the key of seeded noise, which stays the same from version to version.
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
from skdp.core import PRIVATE_ROWS, PrivacyCertificate, Session, Unit, open_session
from skdp.loss.conversions import check_delta, check_positive
from skdp.parameters import Integers, check_parameter
from skdp.tabular import Rows, name_of_ids

# --- keys of seeded noise -------------------------------------------------------------------------

_LEFT_OUT = ("budget", "n_jobs", "random_state", "privacy_")
# Parameters that fitted estimators have got since streams were recorded, with their defaults.
_LATER = {"weight_bound": None}
_DEEPEST = 30
_PLAIN = (bool, int, float, complex, str, bytes, np.generic, type(None))


def changed_parameters(estimator: BaseEstimator) -> dict[str, Any]:
    """Return the parameters that differ from their defaults, but for budget, seed and jobs."""
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(type(estimator).__init__).parameters.items()
    }
    return {
        name: value
        for name, value in sorted(estimator.get_params(deep=False).items())
        if name not in _LEFT_OUT and not _same(value, defaults.get(name, inspect.Parameter.empty))
    }


def _same(value: Any, default: Any) -> bool:
    """Say whether a parameter has its default; types count, since 1 is not True."""
    return value is default or (
        type(value) is type(default)
        and isinstance(value, str | int | float | tuple)
        and _text(value) == _text(default)
    )


def _text(value: Any) -> str:
    """Return the representation of a plain value; of integers too long for one, in another base."""
    return f"{value:x}" if isinstance(value, int) and abs(value) > 10**1000 else repr(value)


def public_key(value: Any, *, fitted: bool = False) -> str:
    """Return a digest of a public value by its content.

    Of an estimator, its parameters are read; with `fitted`, everything that it holds.
    """
    digest = hashlib.blake2b(digest_size=20)
    _add(digest, value, fitted, 0)
    return digest.hexdigest()


def _add(digest: Any, value: Any, fitted: bool, depth: int) -> None:
    """Add one value to the digest; each kind begins with its name, so that none is another's."""

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
    """Return what an object holds, but for budget, seed and certificate."""
    if dataclasses.is_dataclass(value):
        state = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    else:
        state = dict(getattr(value, "__dict__", {}))
    return {
        name: content
        for name, content in state.items()
        if name not in _LEFT_OUT and not (name in _LATER and content is _LATER[name])
    }


def _foreign(value: Any) -> str:
    """Return a digest of somebody else's object: of its pickle, or of what it shows."""
    try:
        content: str = joblib.hash(value, hash_name="sha1")
    except (pickle.PicklingError, AttributeError, TypeError):  # a lambda among them
        content = repr(value)
    return content


# --- the entrance to a session --------------------------------------------------------------------

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
