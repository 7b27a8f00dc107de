"""What every private estimator shares: parameter checks, the session, the cost, the certificate.

An estimator inherits `PrivateMixin` beside scikit-learn's own mixins
and follows one shape::

    def fit(self, X, y=None):
        with self._all_or_nothing():
            rows = self._open(X)                    # parameters and rows checked, nothing charged
            bounds = self._stated_bounds(rows.n_features)
            with self._session(rows) as session:    # charged here
                ...                                 # releases and post-processing
        return self
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import MISSING, Field, field
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, dataclass_transform

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils import estimator_html_repr
from sklearn.utils.metadata_routing import MetadataRequest
from sklearn.utils.validation import check_is_fitted, validate_data

from skdp._docstrings import shared_texts
from skdp.base.callers import (
    CallbackSupportMixin,
    check_caller,
    check_folds_of_caller,
    is_asked_by,
    is_asked_with,
    refuse_weights,
    rows_asked_for,
    tell_callbacks,
    warn_of_askers,
    warn_of_callers,
    warn_of_other_threads,
    why_absent,
)
from skdp.base.context import CallContext, allowed_delta, public_key, unit_of
from skdp.budget import Cost, PrivacyBudget
from skdp.budget.ambient import ambient_budget
from skdp.core import PRIVATE_ROWS, Session, check_allowance
from skdp.exceptions import FoldsWarning, warn_caller, warnings_at_end
from skdp.parameters import (
    PRIVATE,
    Reals,
    Table,
    check_bounds,
    check_integer,
    check_kinds,
    check_parameters,
    columns_of,
    columns_of_bounds,
    labels_of_bounds,
    names_of,
)
from skdp.planning import Allowance, bounds_in
from skdp.tabular import ONE_PLACE, Rows, check_public_array, check_rows, with_weights
from skdp.user_code import untracked

_POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD
# What a fit with groups holds until it ends. The ids are private: they are no attribute of the
# estimator, which callbacks are given.
_ALLOWANCE = "_allowance_of_fit"
_DELTAS = "_deltas_of_fit"
_GROUPS: ContextVar[tuple[Any, Any]] = ContextVar("groups of a fit", default=(None, None))


def in_precision_of(
    X: Any, values: NDArray[np.float64], narrow: tuple[str, ...] = ("float32",)
) -> NDArray[Any]:
    """Return transformed rows in the type of the caller's X, if that is a `narrow` one."""
    types = (X.dtype,) if hasattr(X, "dtype") else getattr(X, "dtypes", ())
    names = {str(dtype).lower() for dtype in types}
    if len(names) != 1 or not names <= set(narrow):
        return values
    dtype = np.dtype(names.pop())
    largest = np.finfo(dtype).max
    return np.clip(values, -largest, largest).astype(dtype)


def keeps_precision(tags: Any) -> Any:
    """Return the tags of a transformer that returns float32 for float32."""
    tags.transformer_tags.preserves_dtype = ["float64", "float32"]
    return tags


@contextmanager
def unchanged_on_error(estimator: Any) -> Iterator[None]:
    """Leave the attributes of an estimator exactly as they were if the block raises."""
    own: Any = vars(estimator)
    before = dict(own)
    try:
        yield
    except BaseException:
        own.clear()
        own.update(before)
        raise


def _n_is_private(budget: Any) -> bool:
    """Say whether the number of rows is private under a budget."""
    return unit_of(budget) is not None or getattr(budget, "adjacency", "") == "add_or_remove_one"


class AmbientBudgetMixin:
    """Clones and pickles made inside ``with budget:`` keep that budget."""

    budget: PrivacyBudget | None

    def __sklearn_clone__(self) -> Any:
        copied = super().__sklearn_clone__()  # type: ignore[misc]
        if copied.budget is None:
            copied.budget = ambient_budget()
        return copied

    def __getstate__(self) -> Any:
        state: Any = super().__getstate__()
        budget = ambient_budget() if self.budget is None else self.budget
        if budget is not None:
            warn_of_other_threads(self, _n_is_private(budget))
            if self.budget is None:
                state = {**state, "budget": budget}
        return state


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
class DeclaredParameters:
    """Estimators whose constructor is made from the attributes that their classes declare.

    ``shrinkage: Any = None`` declares a keyword parameter, ``field(default=..., kw_only=False)``
    one that may be positional, ``field(init=False)`` an attribute that a fit sets. A class with
    its own `__init__` keeps it.
    """

    # None: an attribute that is no parameter, although one of a base class may be.
    _declared: ClassVar[dict[str, inspect.Parameter | None]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own, declared = inspect.get_annotations(cls), dict[str, inspect.Parameter | None]()
        made = cls.__init__ is object.__init__ or hasattr(cls.__init__, "_is_made")
        for name in [name for name in own if name in vars(cls)]:
            value = vars(cls)[name]
            if not isinstance(value, Field):
                if name.startswith("_") or "ClassVar" in str(own[name]) or not made:
                    continue
                value = field(default=value)
            delattr(cls, name)
            default = inspect.Parameter.empty if value.default is MISSING else value.default
            kind = _POSITIONAL if value.kw_only is False else inspect.Parameter.KEYWORD_ONLY
            parameter = inspect.Parameter(name, kind, default=default, annotation=own[name])
            declared[name] = parameter if value.init else None
            if not value.init and value.default is not MISSING:
                setattr(cls, name, default)
        for base in cls.__mro__[1:]:  # own parameters stand before the inherited ones
            declared = declared | {**vars(base).get("_declared", {}), **declared}
        cls._declared = declared
        if made and issubclass(cls, BaseEstimator):
            cls.__init__ = _constructor(cls)  # type: ignore[method-assign]


def _constructor(cls: type[DeclaredParameters]) -> Any:
    """Return the `__init__` that stores the declared parameters of a class unchanged."""
    itself = inspect.Parameter("self", _POSITIONAL)
    parameters = sorted(filter(None, cls._declared.values()), key=lambda entry: entry.kind)
    signature = inspect.Signature([itself, *parameters], return_annotation="None")

    def __init__(*args: Any, **options: Any) -> None:
        try:
            bound = signature.bind(*args, **options)
        except TypeError as error:
            raise TypeError(f"{cls.__name__}.__init__() {error}") from None
        bound.apply_defaults()
        values = dict(bound.arguments)
        estimator = values.pop("self")
        for name, value in values.items():
            setattr(estimator, name, value)

    made: Any = __init__
    made.__signature__, made._is_made = signature, True
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    return made


@shared_texts
class PrivateMixin(CallbackSupportMixin, AmbientBudgetMixin, DeclaredParameters):
    """Parameter checks, session, price and certificate of a private estimator."""

    epsilon: float = 1.0
    delta: float | None = None
    max_rows_per_unit: Any = "private"
    budget: PrivacyBudget | None = None
    random_state: Any = None

    # Whether its queries read rows by `fold` and `gathered` only, so that they may be in parts.
    _in_parts: ClassVar[bool] = False
    # What callbacks are told of a fit: at most one sequence of steps.
    _progress_task: ClassVar[str] = "step"
    _n_progress_tasks: ClassVar[int] = 0
    # What its tags say beside those of scikit-learn's own mixins: "input_tags.sparse", say.
    _tags: ClassVar[tuple[str, ...]] = ()
    # What the parameters of this class may be; those of every estimator are checked without it.
    _parameter_table: ClassVar[Table] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        shared_texts(cls)
        refuse_weights(cls)
        tell_callbacks(cls)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        for kind in type(self).__mro__:
            for name in vars(kind).get("_tags", ()):
                group, _, tag = name.partition(".")
                setattr(getattr(tags, group), tag, True)
        return tags

    def __sklearn_clone__(self) -> Any:
        budget = ambient_budget() if self.budget is None else self.budget
        private = _n_is_private(budget)
        if budget is not None:
            warn_of_callers(type(self).__name__, private, self)
        if private and (warning := check_folds_of_caller(self, unit_of(budget))):
            warn_caller(warning, FoldsWarning)
        return super().__sklearn_clone__()

    if not TYPE_CHECKING:  # or every attribute would pass for one that is there

        def __getattr__(self, name: str) -> Any:
            # Say why an attribute is missing that scikit-learn's own estimator has.
            if reason := why_absent(type(self), name):
                raise AttributeError(reason, name=name, obj=self)
            return object.__getattribute__(self, name)  # raises again what it raised

    def _groups(self) -> Any:
        """Return the ids of rows, within a fit with groups; else None."""
        owner, groups = _GROUPS.get()
        return groups if owner is self else None

    def _context(self) -> CallContext:
        """Return the context of a fit now; raise for wrong privacy parameters."""
        return CallContext(
            type(self).__name__,
            self.epsilon,
            self.delta,
            self.budget,
            self.random_state,
            groups=self._groups(),
            # Estimators of others may be without it; then a fit with groups learns it.
            max_rows_per_unit=getattr(self, "max_rows_per_unit", PRIVATE_ROWS),
        )

    def _check_parameters(self) -> None:
        """Refuse wrong parameters; estimators add checks of several parameters together."""
        self._context()
        for kind in type(self).__mro__:
            check_parameters(self, vars(kind).get("_parameter_table", {}))

    def _check_without_rows(self) -> None:
        """Raise what every fit raises for these parameters, whatever the rows are."""
        self._check_parameters()
        if self._may_learn_bounds:
            self._check_bounds_without_rows()

    def _one_place(self) -> str:
        """Return why a fit needs all rows in one place, and what to use; "" if it does not."""
        if not self._in_parts:
            return ONE_PLACE
        caller = rows_asked_for(self)
        if not caller:
            return ""
        return f"{caller} returns as many rows as it gets: fit the steps one by one"

    @property
    def _may_learn_bounds(self) -> bool:
        """Whether this class has bounds of columns that may be learned."""
        bounds = inspect.signature(type(self)).parameters.get("bounds")
        return bounds is not None and bounds.default == PRIVATE

    @property
    def _bounds_of_columns(self) -> Any:
        """The bounds, if they are of columns and may be learned; else None."""
        return self.bounds if self._may_learn_bounds else None  # type: ignore[attr-defined]

    def _check_bounds_without_rows(self) -> Any:
        """Return the bounds for as many columns as they have."""
        bounds = self.bounds  # type: ignore[attr-defined]
        n_features = columns_of_bounds(bounds) or 1
        return self._stated_bounds(n_features, labels_of_bounds(bounds) or range(n_features))

    def _stated_bounds(
        self, n_features: int, names: Sequence[Any] | None = None
    ) -> tuple[NDArray, NDArray] | None:
        """Return stated bounds of each column, or None for ``"private"``."""
        bounds = self.bounds  # type: ignore[attr-defined]
        return check_bounds(bounds, n_features, self._names() if names is None else names)

    @property
    def _adjacency(self) -> str:
        """The relation of the table of a fit; with units, its number of rows is private."""
        budget = ambient_budget() if self.budget is None else self.budget
        if self._groups() is not None or unit_of(budget) is not None:
            return "add_or_remove_one"
        return "replace_one" if budget is None else budget.adjacency

    def _allowance(self, n_features: int | None = None) -> Allowance:
        """Return the allowance for the noise of a fit; in a fit with groups, that of one row."""
        if (allowance := vars(self).get(_ALLOWANCE)) is not None:
            return allowance
        cost = self.privacy_cost(n_features=n_features)
        return Allowance(cost.epsilon, cost.mu, self._adjacency)

    @property
    def _allow_empty(self) -> bool:
        """Whether an empty table is accepted, because the number of rows is private."""
        return self._adjacency == "add_or_remove_one"

    @property
    def _entrance(self) -> dict[str, Any]:
        """Options of the checks of rows."""
        return {"estimator": type(self).__name__, "allow_empty": self._allow_empty}

    @contextmanager
    def _all_or_nothing(self, groups: Any = None) -> Iterator[None]:
        """Leave the estimator as it was if the block raises; `groups` are the ids of this fit.

        Callers that would fail after the charge are refused. mlflow logs nothing inside.
        """
        check_kinds(self)
        check_caller(self)
        with warnings_at_end(), unchanged_on_error(self):
            vars(self).pop("max_rows_per_unit_", None)  # of an earlier fit
            outer = _GROUPS.set((self, groups))
            try:
                unit = self._context().unit()
                if unit is not None:
                    check_folds_of_caller(self, unit.name)
                with untracked():
                    yield
            finally:
                _GROUPS.reset(outer)
                vars(self).pop(_ALLOWANCE, None)
                vars(self).pop(_DELTAS, None)

    def _open(self, X: Any, *, reset: bool = True) -> Rows:
        """Check parameters and rows, and record names and number of columns."""
        self._check_parameters()
        rows = check_rows(X, **self._entrance, one_place=self._one_place())
        validate_data(self, getattr(rows, "head", X), reset=reset, skip_check_array=True)
        return rows

    @contextmanager
    def _session(self, rows: Rows, **options: Any) -> Iterator[Session]:
        """Charge the budget, yield the session, and set its certificate; see `_opened`."""
        with self._opened(rows, **options) as session:
            yield session
            self.privacy_ = session.certificate()

    def _opened(
        self,
        rows: Rows,
        *,
        delta: float | None = None,
        separate_delta: float | None = None,
        context: str = "",
    ) -> Session:
        """Charge the budget and open the session; deltas default to `_deltas`.

        `context` keys seeded noise, beside the parameters.
        """
        if delta is None:
            delta, separate_delta = self._deltas(self._context().public_rows(rows))
        key = lambda: public_key(self) + context  # noqa: E731
        separate = separate_delta or 0.0
        session = self._context().open(rows, key, delta=delta, separate_delta=separate)
        if session.max_rows_per_unit is not None:
            self.max_rows_per_unit_ = session.max_rows_per_unit
            setattr(self, _ALLOWANCE, Allowance.left(session))
        return session

    @property
    def _repr_html_(self) -> Callable[[], str]:
        """scikit-learn's HTML with the cost of a fit; missing if its display is "text"."""
        if get_config()["display"] != "diagram":
            raise AttributeError("_repr_html_ is there where sklearn.get_config()['display'] says")
        return self._as_html

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Return text and HTML for notebooks."""
        shown = {"text/plain": repr(self)}
        if get_config()["display"] == "diagram":
            shown["text/html"] = self._as_html()
        return shown

    def _as_html(self) -> str:
        try:
            cost = self.privacy_cost()
        except (TypeError, ValueError):  # of parameters that no fit takes
            return str(estimator_html_repr(self))
        from skdp.budget.reports.html import fit_html  # imported where it is shown

        budget = ambient_budget() if self.budget is None else self.budget
        released = getattr(self, "privacy_", None)
        return str(estimator_html_repr(self)) + fit_html(
            cost, budget, "" if released is None else released._repr_html_()
        )

    def _public_array(self, X: Any) -> NDArray[np.float64]:
        """Return the caller's X as float64 of shape (n, n_features_in_); refuse an unfitted one."""
        check_is_fitted(self)
        if getattr(getattr(self, "privacy_", None), "charged", False):
            warn_of_askers(self, self._allow_empty)
        values = check_public_array(X, **self._entrance)
        validate_data(self, X, reset=False, skip_check_array=True)
        return values

    def _names(self) -> Sequence[Any] | None:
        """Return the names of the columns; before a fit those of the bounds."""
        labels = labels_of_bounds(getattr(self, "bounds", None))
        if not hasattr(self, "n_features_in_") and labels is not None:
            return labels
        return getattr(self, "feature_names_in_", None)

    def _sizes(self, n_samples: int, n_features: int | None, *, bounds: Any) -> tuple[int, int]:
        """Check the arguments of `error_bound`: numbers of rows and columns."""
        self._check_parameters()
        refuse_units(type(self).__name__, ambient_budget() if self.budget is None else self.budget)
        n = check_integer(n_samples, "n_samples", low=1)
        return n, self._n_columns(n_features, bounds=bounds)

    def _n_columns(self, n_features: int | None, *, like: Any = None, bounds: Any = None) -> int:
        """Return the number of columns; refuse arguments, fits, rows and bounds that disagree."""
        if n_features is None:
            n_features = getattr(self, "n_features_in_", None)
        else:
            n_features = check_integer(n_features, "n_features", low=1)
        for source, width in (("like", columns_of(like)), ("bounds", columns_of_bounds(bounds))):
            if width is None:
                continue
            if source == "bounds" and isinstance(bounds, Mapping) and width > (n_features or width):
                continue  # of a table with more columns
            if n_features is not None and n_features != width:
                raise ValueError(
                    f"{source} must have n_features = {n_features} columns, got {width}"
                )
            n_features = width
        if n_features is None:
            raise ValueError("n_features must be given before fit, an integer of at least 1")
        return n_features

    def _by_position(self, like: Any) -> Self:
        """Return this estimator with bounds by position: rehearsals fit arrays, without names."""
        bounds = getattr(self, "bounds", None)
        labels = labels_of_bounds(bounds)
        if labels is None:
            return self
        names = names_of(like) or self._names()
        width = len(labels) if names is None else len(names)
        copied = copy.copy(self)
        copied.bounds = check_bounds(bounds, width, names)  # type: ignore[attr-defined]
        return copied

    @property
    def _allowed_delta(self) -> float:
        return allowed_delta(self)

    @property
    def _learns(self) -> bool:
        """Whether a fit learns keys, categories or classes, which needs delta."""
        return False

    @property
    def _n_releases(self) -> int:
        """About how many releases share the allowance of a fit, where bounds are learned.

        Shares of epsilon add up, of Gaussian noise squares do: many favour Gaussian noise.
        """
        return 1

    def _noise_of(self, allowance: Allowance, n_features: int | None) -> float:
        """Return the deviation of the noise on what a fit is for.

        A fit draws pure noise where this is no more than with Gaussian noise. NaN asks for Gaussian
        noise wherever delta allows it: the number of columns decides and is not known, or the
        estimator does more with it.
        """
        return allowance.cell_std

    def _noise_compared(self, allowance: Allowance, n_features: int | None) -> float:
        """Return `_noise_of`, or that of learning bounds, on which more depends."""
        noise = self._noise_of(allowance, n_features)
        if math.isnan(noise) or not isinstance(self._bounds_of_columns, str):
            return noise
        if n_features is None:
            return math.nan
        return allowance.part(1 / self._n_releases).learning_std(n_features)

    def _split_delta(self, n_features: int | None = None) -> tuple[float, float]:
        """Return the delta of Gaussian noise, 0 where noise is pure, and that of other mechanisms.

        It is the same until a fit ends, whatever others take from the budget in the meantime.
        """
        in_fit = _GROUPS.get()[0] is self
        if in_fit and (deltas := vars(self).get(_DELTAS)) is not None:
            return deltas
        if n_features is None:
            n_features = getattr(self, "n_features_in_", None)
        if n_features is None:
            n_features = columns_of_bounds(self._bounds_of_columns) or None
        noise = partial(self._noise_compared, n_features=n_features)
        deltas = self._context().split_delta(noise, learns=self._learns)
        if in_fit and n_features is not None:
            vars(self)[_DELTAS] = deltas
        return deltas

    def _deltas(self, n_samples: int | None, n_features: int | None = None) -> tuple[float, float]:
        """Return `_split_delta` for a number of rows; None where it is private or not known."""
        return self._split_delta(n_features)

    def privacy_cost(self, n_samples: int | None = None, n_features: int | None = None) -> Cost:
        """Return the cost of one fit, before any data is touched.

        {sizes}

        Returns
        -------
        cost : skdp.budget.Cost
            The (epsilon, delta) that one fit charges, and its mu where noise is Gaussian. Where
            numbers of rows or columns decide about the noise and are not known, an upper bound.
            Without a budget, rows count as public: with `groups`, or under a budget that takes them
            as private, a fit may also charge delta.
        """
        public = None if self._context().allows_empty else n_samples
        if n_samples is not None:
            check_integer(n_samples, "n_samples", low=0)
        epsilon, (delta, separate) = float(self.epsilon), self._deltas(public, n_features)
        mu = check_allowance(epsilon, delta) if delta > 0 else None
        return Cost(epsilon=epsilon, delta=delta + separate, mu=mu, separate_delta=separate)


def refuse_units(name: str, budget: PrivacyBudget | None) -> None:
    """Refuse an expected error for units, as their numbers of rows are private."""
    if budget is not None and budget.unit is not None:
        raise ValueError(
            f"{name}: there is no expected error for a budget whose unit is {budget.unit!r}: it "
            "depends on how many rows each unit has. That of a budget of "
            "adjacency='add_or_remove_one' without a unit, at epsilon / k, is about that of k "
            "rows a unit"
        )


def request_groups(estimator: Any) -> None:
    """Have metadata routing pass groups on to a fit, in place."""
    # `set_fit_request` would keep the estimator, with its budget, beside the request.
    estimator._metadata_request = MetadataRequest(owner=type(estimator).__name__)
    estimator._metadata_request.fit.add_request(param="groups", alias=True)


def check_without_rows(estimator: Any) -> None:
    """Raise what every fit of an estimator raises for its parameters, whatever the rows are."""
    if isinstance(estimator, PrivateMixin):
        estimator._check_without_rows()


def noise_compared(estimator: Any, allowance: Allowance, n_features: int | None) -> float:
    """Return the noise by which an estimator chooses; that of a count for those of others."""
    if not isinstance(estimator, PrivateMixin):
        return allowance.cell_std
    return estimator._noise_compared(allowance, n_features)


def learned_alone(estimator: Any, X: Any) -> tuple[tuple[NDArray, NDArray], Fraction]:
    """Return the bounds that a fit learns before all else, and the share that it has left."""
    with estimator._all_or_nothing(None), estimator._session(estimator._open(X)) as session:
        return bounds_in(session, None)[0], session.remaining


# --- weights of rows ------------------------------------------------------------------------------

WEIGHT_BOUND = (PRIVATE, Reals(0, math.inf, "()"))  # what the parameter may be

_OF_PRESENT = (
    "{name}: sample_weight needs nan_policy='raise': with 'omit' each column is asked of rows of "
    "its own, without weights. Fill missing cells before (DPSimpleImputer), or leave weights out. "
    "Nothing was charged for this fit."
)
_OF_OTHERS = (
    "{name}: AdaBoost weighs a row by the errors on all rows, so its weights move with every row, "
    "and no ledger sees it. Use DPExplainableBoostingClassifier or DPTrainOnRelease. Nothing was "
    "charged."
)

_BAGGING = "sklearn.ensemble._bagging"
_OF_BAGGING = (
    "{name}: Bagging draws rows by their weights, over the sum of all weights, so one weight moves "
    "what every row is drawn for, and no ledger sees it. Leave sample_weight out. Nothing was "
    "charged for this fit."
)
_OF_COUNTS = (
    "{name}: in Bagging weights are the numbers of times that rows are drawn. Say how many count: "
    "{name}(weight_bound=...). Nothing was charged for this fit."
)


def check_weight_bound(estimator: Any) -> Any:
    """Return the bound of weights, stated or "private"; its range is checked with parameters."""
    name = type(estimator).__name__
    if is_asked_by("sklearn.ensemble._weight_boosting"):
        raise TypeError(_OF_OTHERS.format(name=name))
    if is_asked_with(_BAGGING, "sample_weight"):
        raise TypeError(_OF_BAGGING.format(name=name))
    if estimator.weight_bound == PRIVATE and is_asked_by(_BAGGING):
        raise TypeError(_OF_COUNTS.format(name=name))
    return estimator.weight_bound


def weighted_rows(estimator: Any, rows: Any, sample_weight: Any) -> tuple[Any, Any]:
    """Return rows with their weights, and the weights' bound or "private"; None without weights."""
    if hasattr(estimator, "weight_bound"):
        estimator.weight_bound_ = None
    if sample_weight is None:
        return rows, None
    if getattr(estimator, "nan_policy", "raise") == "omit":
        raise ValueError(_OF_PRESENT.format(name=type(estimator).__name__))
    most = check_weight_bound(estimator)
    return with_weights(rows, sample_weight, estimator=type(estimator).__name__), most
