"""The code around a fit: its callers, attributes that they miss, and its callbacks.

Callers are found in the frames of the stack, before a fit is charged:

- Callers that would fail after the charge are refused: yellowbrick's visualizers, for example, then
  ask for the labels of private rows.
- Searches whose folds are not neighbouring tables are refused, or warned of.
- Callers that show the same rows without noise are warned of (`skdp.base.leaks`).

Callbacks (scikit-learn 1.9 and later) get the estimator, whose attributes are public or released at
every moment, and names and numbers of tasks; never rows, labels or the models of blocks. How long
tasks take is not protected.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from sklearn.base import BaseEstimator
from sklearn.model_selection import BaseCrossValidator, BaseShuffleSplit, PredefinedSplit

from skdp.base.leaks import (
    ASKING,
    FUNCTIONS,
    Leak,
    has_price,
    leaks_of,
    leaks_of_function,
    scorers_in,
)
from skdp.exceptions import NonPrivatePartWarning, action_of_filters

_IMPORTANCES = "yellowbrick.model_selection.importances"

# Modules that call ``fit``, and what they need afterwards.
_NEEDS = {
    "yellowbrick.cluster": "the labels of private rows, and distances to them",
    _IMPORTANCES: "feature_importances_ or coef_",
}
# Splitters refused for budgets of users: one user moves others between the folds, or the number of
# fits reveals the number of users or rows.
_USERS_SPLITTERS = {
    "GroupKFold": "balances its folds by the sizes of all users, so that one user moves others",
    "GroupShuffleSplit": "draws a number of users that depends on how many users there are, by "
    "their positions",
    "LeaveOneGroupOut": "fits once for each user, so the ledger would reveal how many users "
    "there are",
    "LeavePGroupsOut": "fits at least once for each user, so the ledger would reveal how many "
    "users there are",
    "StratifiedGroupKFold": "balances its folds by the sizes and labels of all users, so that one "
    "user moves others",
}
_USERS_SPLITTERS |= dict.fromkeys(
    ("LeaveOneOut", "LeavePOut"),
    "fits at least once for each row, so the ledger would reveal the number of rows, which is "
    "private if users have many rows",
)
_SEARCHES = ("sklearn.model_selection._search", "sklearn.model_selection._validation")

# Modules whose frames pass a fit on.
_BETWEEN = ("skdp", "sklearn", "contextlib", "mlflow", "joblib", "yellowbrick.base")


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame and those that called it, outwards."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _package(frame: FrameType) -> str:
    return _module(frame).partition(".")[0]


def _caller() -> str:
    """Return the name of the module that asked for this fit."""
    modules = (_module(frame) for frame in _frames(sys._getframe(1)))
    others = (m for m in modules if not {m, m.partition(".")[0]} & set(_BETWEEN))
    return next(others, "")


def is_asked_by(module: str) -> bool:
    """Say whether a function of a module is among the callers of this fit."""
    return any(_module(frame) == module for frame in _frames(sys._getframe(1)))


def is_asked_with(module: str, argument: str) -> bool:
    """Say whether a function of a module among the callers of this fit was given an argument."""
    frames = (frame for frame in _frames(sys._getframe(1)) if _module(frame) == module)
    return any(frame.f_locals.get(argument) is not None for frame in frames)


def refused_for_users(splitter: Any) -> tuple[str, str]:
    """Return the name of a splitter that is refused for budgets of users, and why; else ""."""
    for kind in type(splitter).__mro__:
        if why := _USERS_SPLITTERS.get(kind.__name__):
            return kind.__name__, why
    return "", ""


def check_folds_of_caller(estimator: Any, unit: str | None) -> str:
    """Refuse a fit, or a clone, of a search whose folds one user of the table changes.

    Returns the warning if folds are drawn by position or by labels, else "". `unit` is the
    budget's, None for a row.
    """
    name = type(estimator).__name__
    for frame in _frames(sys._getframe(1)):
        if _module(frame) not in _SEARCHES:
            continue
        for splitter in (frame.f_locals.get("cv"), frame.f_locals.get("cv_orig")):
            kind, why = refused_for_users(splitter) if unit is not None else ("", "")
            if kind:
                raise ValueError(
                    f"{name}: {kind} {why}; the budget protects one {unit!r}, so the sum of the "
                    "charges would be no guarantee for the search. Use PerRecordKFold, which draws "
                    "the fold of each user alone. Nothing was charged for this fit."
                )
            if _draws_together(splitter):
                protected = "a record" if unit is None else f"one {unit!r}"
                return (
                    f"{name}: {protected} more or less moves other rows between the folds of "
                    f"{type(splitter).__name__}, and the number of rows is private under this "
                    "budget, so the sum of the charges is no guarantee for the search. Use "
                    "skdp.model_selection.PerRecordKFold."
                )
    return ""


def _draws_together(splitter: Any) -> bool:
    """Say whether a splitter of scikit-learn draws the folds of all rows together."""
    kind = type(splitter)
    if not isinstance(splitter, BaseCrossValidator | BaseShuffleSplit):
        return False
    return kind.__module__.startswith("sklearn.") and not (
        isinstance(splitter, PredefinedSplit) or kind.__name__ == "_CVIterableWrapper"
    )


def check_caller(estimator: Any) -> None:
    """Refuse a fit whose caller would fail after the charge."""
    caller = _caller()
    for module, needs in _NEEDS.items():
        model = module == _IMPORTANCES and hasattr(estimator, "predict")  # some have coef_
        if f"{caller}.".startswith(f"{module}.") and not model:
            raise TypeError(
                f"{type(estimator).__name__} is not fitted by {caller}: it would be charged, and "
                f"then asked for {needs}, which it does not release. Fit it yourself, and draw "
                "what it released: skdp.inspection has displays"
            )


def rows_asked_for(estimator: Any) -> str:
    """Return the caller that asks for the rows back after the fit; "" for none."""
    for frame in _frames(sys._getframe(1)):
        name = frame.f_code.co_name
        if name in ("fit_transform", "fit_predict") and frame.f_locals.get("self") is estimator:
            return str(name)
        if name == "_fit_transform_one" and _module(frame) == "sklearn.pipeline":
            return "a step of a pipeline that is not the last"
    return ""


# --- callers that leak --------------------------------------------------------------------------

_FITS = frozenset({"fit", "fit_transform", "fit_predict", "fit_resample", "partial_fit"})
_CLONES = "__sklearn_clone__"
_DISPLAYED = "from_estimator"
_NAMES = _FITS | {_CLONES, _DISPLAYED} | FUNCTIONS.keys()
_PASS_ON = ("sklearn", "joblib", "contextlib", "skdp")
_PARALLEL = "sklearn.utils.parallel"
# Arguments of the only public function that scikit-learn sends to workers: by stacking.
_STACKING = {"cv", "method", "n_jobs", "params", "verbose"}

# (kind of caller, what leaks): warnings given in this process, by whoever put its own object here.
_WARNED: dict[tuple[str, str], object] = {}


class _Caller(NamedTuple):
    """Who fits, clones or scores an estimator."""

    kind: str
    self: Any  # None for a function
    arguments: Any
    frame: FrameType

    def holds(self, part: Any) -> bool:
        """Say whether the caller was given this very estimator or scorer."""
        arguments = self.arguments if self.self is None else vars(self.self)
        parts = [arguments.get("estimator"), *scorers_in(arguments.get("scoring"))]
        return any(value is part for value in (*parts, *_estimators_in(self.self)))


def _callers(start: FrameType | None, own: Any) -> Iterator[_Caller]:
    """Yield the callers from a frame outwards, and those that clone if somebody fits the clone.

    A function is left out if a class or function of scikit-learn calls it. `own` is the fitted
    estimator; None: the innermost private one.
    """
    function: _Caller | None = None  # until its own caller is known
    clones: list[_Caller] = []
    for frame in _frames(start):
        name = frame.f_code.co_name
        if name not in _NAMES:
            if function is not None:
                if _is_own_task(frame):
                    function = None  # its caller may be in another process
                elif _package(frame) not in _PASS_ON:
                    yield function
                    function = None
        elif name in _FITS or name == _CLONES:
            caller = frame.f_locals.get("self")
            if has_price(caller):
                if own is None:
                    own = caller
                elif caller is not own and _package(frame) == "skdp":
                    break  # a private search or ensemble: what it does is in its own price
            elif isinstance(caller, BaseEstimator):
                fitting = _Caller(type(caller).__name__, caller, {}, frame)
                if name == _CLONES:
                    clones.append(fitting)
                else:
                    yield from clones
                    yield fitting
                    clones, function = [], None
        elif _package(frame) == "sklearn":
            arguments = frame.f_locals
            if name == _DISPLAYED:
                name = getattr(arguments.get("cls"), "__name__", "")
            if name in FUNCTIONS:
                yield from clones
                clones, function = [], _Caller(name, None, arguments, frame)
    if function is not None:
        yield function


def _is_own_task(frame: FrameType) -> bool:
    """Say whether a frame runs a task of scikit-learn's own; others use its ``Parallel``, too."""
    if _module(frame) != _PARALLEL or frame.f_code.co_name != "__call__":
        return False
    task = getattr(frame.f_locals.get("self"), "function", None)  # none: that is Parallel
    name = str(getattr(task, "__name__", ""))
    if not str(getattr(task, "__module__", "")).startswith("sklearn."):
        return False
    stacks = name == "cross_val_predict" and frame.f_locals.get("kwargs", {}).keys() == _STACKING
    return name.startswith("_") or stacks


def _estimators_in(caller: Any) -> list[Any]:
    try:
        return [caller, *caller.get_params(deep=True).values()]
    except (AttributeError, TypeError, ValueError):  # of a class of others, or wrong parameters
        return []


def warn_of_callers(name: str, private_n: bool, own: Any = None) -> None:
    """Warn if a caller around this fit, clone or score shows its rows without noise.

    `name` is that of the part that charges, `own` the part that is fitted or cloned; None: the
    innermost private estimator on the stack. `private_n`: the number of rows is private.
    """
    frame = sys._getframe(1)
    worker = _worker(frame)
    if worker == "process":
        return  # the caller has cloned or pickled the estimator in the parent, which warned
    for caller in _callers(frame, own):
        _warn(caller, name if own is None else own, _leaks(caller, private_n))
    if worker == "thread":
        warn_of_other_threads(_innermost(frame) if own is None else own, private_n)


def _worker(frame: FrameType | None) -> str:
    """Return where scikit-learn has sent this fit: "process", "thread"; "" where others run it.

    If the task that others have sent is itself a caller, or the innermost task was sent from here,
    the callers are on this stack.
    """
    sent = False
    for outer in _frames(frame):
        module = _module(outer)
        if module in ("multiprocessing.process", "threading"):
            return ("thread" if module == "threading" else "process") if sent else ""
        if module == _PARALLEL:  # frames that are no call draw tasks, maybe in a thread of joblib
            sent = _is_own_task(outer) or outer.f_code.co_name != "__call__"
        if _package(outer) not in (*_PASS_ON, "concurrent", "multiprocessing"):
            break
    return ""


def _innermost(frame: FrameType | None) -> Any:
    """Return the private estimator or scorer that is fitted or called; None for neither."""
    for outer in _frames(frame):
        if outer.f_code.co_name in _FITS or outer.f_code.co_name == "__call__":
            part = outer.f_locals.get("self")
            if has_price(part):
                return part
    return None


def warn_of_askers(estimator: Any, private_n: bool) -> None:
    """Warn if a function that explains a fitted estimator asks for this prediction."""
    frames = _frames(sys._getframe(1))
    frame = next((frame for frame in frames if frame.f_code.co_name in ASKING), None)
    for caller in _callers(frame, estimator):
        if caller.kind in FUNCTIONS:
            _warn(caller, estimator, _leaks(caller, private_n))


def warn_of_other_threads(part: Any, private_n: bool) -> None:
    """Warn if a caller in any thread holds this part, which a thread of joblib pickles or uses."""
    stacks = sys._current_frames()
    stacks[threading.get_ident()] = sys._getframe(1)  # this frame holds `stacks`: no cycle
    for top in stacks.values():
        for caller in _callers(top, part):
            if not caller.holds(part):
                continue
            _warn(caller, part, _leaks(caller, private_n))
            for inner in _estimators_in(caller.self)[1:]:
                between = _Caller(type(inner).__name__, inner, {}, caller.frame)
                if isinstance(inner, BaseEstimator) and between.holds(part):
                    _warn(between, part, _leaks(between, private_n))


def _leaks(caller: _Caller, private_n: bool) -> list[Leak]:
    """Return the leaks of a caller; none if its parameters cannot be read."""
    if caller.self is None:
        return list(leaks_of_function(caller.kind, caller.arguments, private_n))
    try:
        return list(leaks_of(caller.self, private_n))
    except (AttributeError, TypeError, ValueError):  # the caller itself will say so
        return []


def _charges(part: Any) -> bool:
    """Say whether a fit of a private part charges anything."""
    try:
        return part.privacy_cost() is not None
    except (TypeError, ValueError):  # of parameters that a caller may set to others
        return True


def _warn(caller: _Caller, part: Any, leaks: Iterable[Leak]) -> None:
    """Warn of leaks, once in a process for each kind of caller and each reason.

    `part` charges a budget; or it is the name of that.
    """
    for what, way_out in leaks:
        key = caller.kind, what
        if key in _WARNED or not (isinstance(part, str) or _charges(part)):
            continue
        mine = object()
        if _WARNED.setdefault(key, mine) is not mine:
            continue  # another thread does at this moment
        name = part if isinstance(part, str) else type(part).__name__
        text = (
            f"{caller.kind} around {name}: {what}. No budget pays for that. Instead: {way_out}. "
            "If the rows are public, filter skdp.exceptions.NonPrivatePartWarning."
        )
        frame = caller.frame
        while frame.f_back is not None and _package(frame) in _PASS_ON:
            frame = frame.f_back
        shown = False
        try:
            warnings.warn_explicit(
                text,
                NonPrivatePartWarning,
                frame.f_code.co_filename,
                frame.f_lineno,
                module=frame.f_globals.get("__name__"),
            )
            shown = action_of_filters(text, NonPrivatePartWarning, frame) != "ignore"
        finally:
            if not shown:  # ignored here, or an error: the next time warns again
                _WARNED.pop(key, None)


# --- attributes and parameters that private estimators do not have --------------------------------

_ROWS = "it would reveal where each private row lies"
_PARTIAL_FIT = (
    "each batch would be a fit of its own, with its own charge. Fit all rows at once; if they do "
    "not fit into memory, pass them in parts: skdp.engines.read_parquet(...) or from_stream(...)"
)

# By the name of a class, then by that of the attribute. "" stands for every class.
_ABSENT: dict[str, dict[str, str]] = {
    "": {"partial_fit": _PARTIAL_FIT},
    "DPKMeans": {
        "labels_": f"{_ROWS}. predict(X) labels rows that you may see",
        "inertia_": (
            "it is an exact sum over private rows. -score(X) computes it for rows that you may "
            "see; private_scorer('neg_inertia', ...) releases a private one"
        ),
    },
    "DPKernelDensity": {
        "tree_": "it holds the private rows. score_samples(X) and pdf(X) answer without them"
    },
    "DPQuantileTransformer": {
        "n_quantiles_": "it depends on the number of rows. quantiles_ has as many as n_quantiles"
    },
    "DPStandardScaler": {"n_samples_seen_": "the number of rows may be private"},
    "DPMinMaxScaler": {"n_samples_seen_": "the number of rows may be private"},
}


def why_absent(kind: type, name: str) -> str:
    """Return the message of an AttributeError, or "" for what nobody expects."""
    for owner in (*(base.__name__ for base in kind.__mro__), ""):
        reason = _ABSENT.get(owner, {}).get(name)
        if reason:
            return f"{kind.__name__} has no {name}: {reason}."
    return ""


_WEIGHTS = (
    "{name} takes no sample_weight: the weight of a row is private, and it would scale the "
    "influence of the row, so noise would have to cover the largest weight. Leave weights out; "
    "or sample rows by weight before the fit: keep each row with probability min(weight / w, 1), "
    "independently of the others, for a w from public knowledge, and fit the kept rows with a "
    "budget of adjacency='add_or_remove_one'. Nothing was charged for this fit."
)
_TAKING_ROWS = ("fit", "fit_predict", "fit_transform")


def refuse_weights(kind: type) -> None:
    """Have the fits of a class refuse `sample_weight` by name, if they do not take it."""
    for name in _TAKING_ROWS:
        fit = vars(kind).get(name)
        if not inspect.isfunction(fit):
            continue
        known = inspect.signature(fit).parameters
        passes_on = any(entry.kind is entry.VAR_KEYWORD for entry in known.values())
        if not passes_on and "sample_weight" not in known:
            setattr(kind, name, _without_weights(fit))


def _without_weights(fit: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fit)
    def unweighted(self: Any, *args: Any, sample_weight: Any = None, **options: Any) -> Any:
        if sample_weight is not None:
            raise TypeError(_WEIGHTS.format(name=type(self).__name__))
        return fit(self, *args, **options)

    return unweighted


# --- callbacks ------------------------------------------------------------------------------------

if TYPE_CHECKING:

    class CallbackSupportMixin:
        """That of scikit-learn, whose types are not stated."""

        def set_callbacks(self, *callbacks: Any) -> Self: ...  # noqa: D102

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]: ...  # noqa: D103

else:
    try:
        from sklearn.callback import CallbackSupportMixin, with_callbacks
    except ImportError:  # scikit-learn before 1.9: nothing can be told

        class CallbackSupportMixin:
            """Stands in for that of scikit-learn; there is no ``set_callbacks`` then."""

        def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:  # noqa: D103
            return method


def tell_callbacks(kind: type[Any]) -> None:
    """Have the fit of a class report its begin, its end and its steps to callbacks."""
    fit = vars(kind).get("fit")
    if inspect.isfunction(fit):
        kind.fit = _reporting(fit)


def _reporting(fit: Callable[..., Any]) -> Callable[..., Any]:
    @with_callbacks
    def reporting(self: Any, *args: Any, **options: Any) -> Any:
        context = self._init_callback_context(max_subtasks=self._n_progress_tasks)
        with Progress(self, context, self._progress_task):
            return fit(self, *args, **options)

    @functools.wraps(fit)
    def fitted(self: Any, *args: Any, **options: Any) -> Any:
        if hasattr(self, "_callback_fit_ctx"):  # the fit of a base class, reported already
            return fit(self, *args, **options)
        if getattr(self, "_skl_callbacks", None):  # set by `set_callbacks`
            return reporting(self, *args, **options)
        # A fit within another fit is no step of that one.
        before = _CURRENT.set(None)
        try:
            return fit(self, *args, **options)
        finally:
            _CURRENT.reset(before)

    return fitted


class Progress:
    """The tasks of a fit for callbacks; within the block, `reported_steps` reports steps."""

    def __init__(self, estimator: Any, context: Any, name: str = "block") -> None:
        self._estimator = estimator
        self._name = name
        self._root = context
        self._tasks: Any = None
        context.call_on_fit_task_begin(estimator=estimator)

    def _report(self, done: int, n_tasks: int | None) -> None:
        estimator = self._estimator
        if self._tasks is None:
            self._tasks = self._root.subcontext(f"{self._name}s", max_subtasks=n_tasks)
            self._tasks.call_on_fit_task_begin(estimator=estimator)
        task = self._tasks.subcontext(self._name)
        task.call_on_fit_task_begin(estimator=estimator)
        task.call_on_fit_task_end(estimator=estimator)
        if done == n_tasks:
            self._end_tasks()

    def _end_tasks(self) -> None:
        if self._tasks is not None:
            self._tasks.call_on_fit_task_end(estimator=self._estimator)
        self._tasks = None

    def __enter__(self) -> None:
        self._before = _CURRENT.set(self._report)

    def __exit__(self, *raised: object) -> None:
        _CURRENT.reset(self._before)
        if raised[0] is None:
            self._end_tasks()  # if their number was not known
            self._root.call_on_fit_task_end(estimator=self._estimator)


# Reports blocks or steps of the fit in this thread.
_CURRENT: ContextVar[Callable[[int, int | None], None] | None] = ContextVar(
    "progress", default=None
)


def listener() -> Callable[[int, int | None], None] | None:
    """Return the function to report blocks to, ``(done, n_tasks)``; None if nobody listens."""
    return _CURRENT.get()


def reported_steps(n_steps: int | None) -> Iterator[int]:
    """Yield the numbers of steps, and report each finished step to the callbacks of the fit.

    `n_steps` is public or computed from releases; None if it is not known before.
    """
    report = _CURRENT.get()
    for step in itertools.count() if n_steps is None else range(n_steps):
        yield step
        if report is not None:
            report(step + 1, n_steps)
