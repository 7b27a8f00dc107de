"""A dry run: what a fit refuses, found on made-up rows of the caller's columns.

The fit itself runs, on rows made up from names, types and a number of rows, up to its charge. What
a fit refuses from public facts it refuses before its charge, so no second list of its rules is
needed. A step whose output the next step needs is fitted to the end, with made-up noise.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import joblib
import numpy as np
from sklearn import get_config
from sklearn.base import OneToOneFeatureMixin, clone, is_classifier
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from skdp.base.leaks import has_price, is_search, quoted_cells, scorers_in, steps_of
from skdp.budget import PrivacyBudget
from skdp.budget.account import charging_nothing
from skdp.budget.ambient import ambient_budget, ledger_of
from skdp.budget.budget import StandInBudget
from skdp.exceptions import BudgetExceededError
from skdp.model_selection._pricing import below, budget_of, candidates_of
from skdp.tabular import cut, name_of_ids

MOST_ROWS = 100_000  # that are made up
ENOUGH_ROWS = 1_000  # where no number is stated
_MOST_CANDIDATES = 20
_METHODS = ("fit", "fit_transform", "fit_predict")
_NUMBERS = "biuf"

Problem = tuple[str, str, str]  # where, what, way out


# --- made-up rows -------------------------------------------------------------------------------


def _cells(dtype: Any, n: int) -> Any:
    """Return n cells of a type of numpy or pandas: 0 and 1, "a" and "b", a date."""
    import pandas as pd

    kind = getattr(dtype, "kind", "O")
    turns = np.arange(n) % 2
    if isinstance(dtype, pd.CategoricalDtype):
        codes = turns % max(len(dtype.categories), 1) if len(dtype.categories) else turns * 0 - 1
        return pd.Categorical.from_codes(codes, dtype=dtype)
    if kind in _NUMBERS:
        return (
            pd.array(turns, dtype=dtype) if not isinstance(dtype, np.dtype) else turns.astype(dtype)
        )
    if kind in "mM":
        return pd.Series(np.zeros(n, dtype="int64")).astype(dtype)
    words = np.array(["a", "b"], dtype=object)[turns]
    return words if kind in "OT" and isinstance(dtype, np.dtype) else pd.array(words, dtype=dtype)


def _empty(X: Any, name: str) -> Any:
    """Return a table or column without its rows."""
    if X is None:
        return None
    with contextlib.suppress(Exception):
        if any(hasattr(X, known) for known in ("dtype", "dtypes", "schema", "type")):
            return cut(X, 0, 0)
    raise TypeError(
        f"{name} must be a table or column with types, such as {name}.iloc[:0] of pandas or "
        f"{name}[:0] of numpy, got {type(X).__name__}"
    )


def rows_like(X: Any, n: int) -> Any:
    """Return n made-up rows with the names and types of a table; no cell of it is read."""
    import pandas as pd

    if isinstance(X, pd.DataFrame):
        columns = [pd.Series(_cells(dtype, n), dtype=dtype) for dtype in X.dtypes]
        made = pd.concat(columns, axis=1) if columns else pd.DataFrame(index=range(n))
        made.columns = X.columns
        return made
    if isinstance(X, pd.Series):
        return pd.Series(_cells(X.dtype, n), dtype=X.dtype, name=X.name)
    if hasattr(X, "to_pandas") or hasattr(X, "to_arrow"):  # polars and pyarrow: nothing to round
        return _columnar(X, n)
    empty = np.asarray(X)
    if empty.dtype.kind == "O" or empty.dtype.kind in _NUMBERS:
        column = _cells(empty.dtype, n)
    else:
        column = np.asarray(_cells(np.dtype(object), n)).astype(empty.dtype)
    shape = (n, *empty.shape[1:])
    return np.broadcast_to(column.reshape(n, *[1] * (len(shape) - 1)), shape).copy()


def _columnar(X: Any, n: int) -> Any:
    """Return made-up rows of a table or column of polars or pyarrow."""
    made = rows_like(cut(X, 0, 0).to_pandas(), n)
    if hasattr(X, "clear"):  # polars
        polars = import_module("polars")
        schema = X.schema if hasattr(X, "columns") else {X.name or "": X.dtype}
        whole = polars.from_pandas(made if hasattr(X, "columns") else made.to_frame(X.name or ""))
        whole = whole.cast(dict(schema))
        return whole if hasattr(X, "columns") else whole.to_series()
    pa = import_module("pyarrow")
    if hasattr(X, "schema"):
        return pa.Table.from_pandas(made, preserve_index=False).cast(X.schema)
    return pa.array(made).cast(X.type)


def _labels(estimator: Any, n: int) -> Any:
    """Return labels for an estimator that needs some, where the caller has none."""
    last = _last(estimator) or estimator
    classes = getattr(last, "classes", None)
    if is_classifier(last) and isinstance(classes, list | tuple | np.ndarray) and len(classes):
        return np.asarray(classes)[np.arange(n) % len(classes)]
    return np.arange(n) % 2 if is_classifier(last) else np.arange(n) % 2.0


def _last(estimator: Any) -> Any:
    """Return the step whose fit is the last of an estimator's; None where there are several."""
    if isinstance(estimator, Pipeline):
        return _last(estimator.steps[-1][1])
    if isinstance(estimator, TransformedTargetRegressor):
        return _last(estimator.regressor)
    return estimator if has_price(estimator) or steps_of(estimator) is None else None


# --- the run ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class _Step:
    """A step, and where it is; `position` has (steps follow one another, number) a container."""

    estimator: Any
    path: str = ""
    columns: Any = None
    position: tuple[tuple[bool, int], ...] = ()

    @property
    def where(self) -> str:
        place = place_of(self.estimator, self.path)
        return place if self.columns is None else f"{place}, {public_columns(self.columns)}"

    def below(self, number: int, name: str, estimator: Any, columns: Any) -> _Step:
        """Return a step of this container."""
        position = (*self.position, (isinstance(self.estimator, Pipeline), number))
        return _Step(estimator, below(self.path, name), columns, position)

    def is_after(self, position: tuple[tuple[bool, int], ...]) -> bool:
        """Say whether this step is handed what the step at a position has made."""
        for mine, other in zip(self.position, position, strict=False):
            if mine != other:
                return mine[0] and mine[1] > other[1]
        return False


class _Accepted(BaseException):
    """The last step is charged: the fit is accepted."""


class DryRun:
    """Fits copies of estimators on made-up rows, and keeps what they refuse.

    - `problems` (list of (where, what, way out))
    - `lost` (list of positions): Of steps that were refused, and whose output is not known: steps
      after them are left out.
    """

    def __init__(self, X: Any, y: Any, groups: Any, n_rows: int | None) -> None:
        self.n = min(ENOUGH_ROWS if n_rows is None else n_rows, MOST_ROWS)
        self.X, self.y, self.groups = (
            _empty(part, name) for part, name in ((X, "X"), (y, "y"), (groups, "groups"))
        )
        self.problems: list[Problem] = []
        self._budgets: dict[Any, StandInBudget] = {}
        self._running: Any = None  # (where, whether it is the last) of the step whose fit runs
        self._charged = False
        self.lost: list[tuple[tuple[bool, int], ...]] = []

    def run(self, estimator: Any, path: str = "", n: int | None = None) -> None:
        """Fit a copy of an estimator up to its last charge, and keep what its steps refuse."""
        try:
            copied = clone(estimator)
        except (TypeError, ValueError, RuntimeError) as error:
            self._add(path or type(estimator).__name__, f"cannot be cloned: {error}", "fit a copy")
            return
        n = self.n if n is None else n
        with contextlib.ExitStack() as stack:
            if (around := ambient_budget()) is not None:
                stack.enter_context(self._asking(around))
            stack.enter_context(joblib.parallel_config(backend="sequential"))
            stack.enter_context(charging_nothing())
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
            try:
                y = None if self.y is None else rows_like(self.y, n)
                if y is None and get_tags(copied).target_tags.required:
                    y = _labels(copied, n)
                self._prepare(_Step(copied, path), _last(copied), n)
                takes_y = "y" in inspect.signature(copied.fit).parameters
                copied.fit(rows_like(self.X, n), **({"y": y} if takes_y else {}))
            except _Accepted:
                pass
            except Exception as error:  # noqa: BLE001  # of a container, between its steps
                if not self.lost:
                    self._refused(place_of(copied, path), error)

    def _add(self, where: str, what: str, way_out: str) -> None:
        self.problems.append((where, what.rstrip("."), way_out))

    def _refused(self, where: str, error: Exception) -> None:
        way_out = "other parameters or columns, as the message says"
        if isinstance(error, BudgetExceededError):
            way_out = "a smaller epsilon or delta, as the message says"
        self._add(where, str(error), way_out)

    def _prepare(self, step: _Step, last: Any, n: int) -> None:
        """Give every step inside a fit that keeps what it refuses."""
        estimator = step.estimator
        if estimator is None or isinstance(estimator, str | type | FrozenEstimator):
            return
        if hasattr(estimator, "get_params") and steps_of(estimator) is None:
            self._take_budgets(estimator)
        if not (has_price(estimator) or is_search(estimator)):
            if (steps := steps_of(estimator)) is not None:
                if isinstance(estimator, Pipeline):
                    estimator.memory = None  # a cache would keep made-up rows
                for i, inner in enumerate(steps):
                    self._prepare(step.below(i, *inner), last, n)
                return
            if not hasattr(estimator, "fit"):
                return
        for name in _METHODS:
            if (method := getattr(estimator, name, None)) is not None:
                run = self._search(estimator, step.path, n) if is_search(estimator) else method
                setattr(estimator, name, self._kept(step, method, run, estimator is last))
        # A container that clones its steps fits this very copy.
        estimator.__sklearn_clone__ = lambda: estimator

    def _search(self, search: Any, path: str, n: int) -> Callable[..., Any]:
        """Return what stands for the fit of a search: those of its candidates."""

        def fit(X: Any, y: Any = None, **options: Any) -> Any:
            try:
                candidates, _ = candidates_of(search, n, self.groups)
            except (TypeError, ValueError):  # `check_pipeline` says so
                candidates = [search.estimator]
            inner = DryRun(X, y, self.groups, n)
            for candidate in candidates[:_MOST_CANDIDATES]:
                inner.run(candidate, below(path, "estimator"), max(n // 2, 1))
            self.problems += inner.problems
            raise _Accepted

        return fit

    def _take_budgets(self, step: Any) -> None:
        """Let a step, and what it holds, ask its ledgers without charging them."""
        for name, value in step.get_params(deep=True).items():
            if isinstance(value, PrivacyBudget):
                step.set_params(**{name: self._asking(value)})
        for scorer in scorers_in(getattr(step, "scoring", None)):
            if isinstance(getattr(scorer, "budget", None), PrivacyBudget):
                scorer.budget = self._asking(scorer.budget)
        if getattr(step, "budget", False) is None:
            step.budget = self._asking(budget_of(step))

    def _asking(self, budget: PrivacyBudget | None) -> PrivacyBudget:
        key = None if budget is None else ledger_of(budget)
        if key not in self._budgets:
            ids = None if self.groups is None else name_of_ids(self.groups) or "unit"
            real = PrivacyBudget(1e12, unit=ids) if budget is None else budget
            tell = functools.partial(self._told, counts=budget is not None)
            self._budgets[key] = StandInBudget.of(real, tell)
        return self._budgets[key]

    def _told(self, error: Exception | None, counts: bool) -> None:
        """Go on after a charge, or stop at that of the last step."""
        self._charged = True
        where, is_last = self._running
        if error is not None and counts:
            self._refused(where, error)
        if is_last:
            raise _Accepted

    def _kept(
        self, step: _Step, method: Callable[..., Any], run: Callable[..., Any], is_last: bool
    ) -> Callable[..., Any]:
        """Return a fit that keeps what it refuses, and hands on made-up rows all the same."""
        private = has_price(step.estimator)
        takes_ids = private and "groups" in inspect.signature(method).parameters

        @functools.wraps(method)
        def fit(X: Any, *arguments: Any, **options: Any) -> Any:
            if self._running is not None:  # fit_transform calls fit, a meta-estimator its parts
                return run(X, *arguments, **options)
            if not any(step.is_after(position) for position in self.lost):
                if self.groups is not None and takes_ids:
                    options.setdefault("groups", rows_like(self.groups, len(X)))
                self._running, self._charged = (step.where, is_last), False
                try:
                    return run(X, *arguments, **options)
                except Exception as error:  # noqa: BLE001  # whatever a fit raises
                    # Whether a step that quotes cells fails depends on the cells that are made up,
                    # and so does what an encoder with stated categories says of unknown ones.
                    of_cells = not private and any(quoted_cells(step.estimator))
                    of_cells = of_cells or "Found unknown categories" in str(error)
                    if not (self._charged or of_cells):
                        self._refused(step.where, error)
                finally:
                    self._running = None
            if is_last:
                raise _Accepted
            keeps_columns = isinstance(step.estimator, OneToOneFeatureMixin)
            if not keeps_columns:
                self.lost.append(step.position)
            return _output_like(step.estimator, X, keeps_columns)

        return fit


def place_of(estimator: Any, path: str) -> str:
    name = type(estimator).__name__
    return f"{path} ({name})" if path else name


def public_columns(columns: Any) -> str:
    """Return the columns of a step of a `ColumnTransformer` as text; their names are public."""
    if callable(columns):
        return f"columns chosen by {type(columns).__name__}"
    text = repr(columns.tolist() if isinstance(columns, np.ndarray) else columns)
    return f"columns {text if len(text) <= 80 else text[:77] + '...'}"


def _output_like(estimator: Any, X: Any, keeps_columns: bool) -> Any:
    """Return made-up output of a transformer: a column for each of X, or one."""
    import pandas as pd

    named = isinstance(X, pd.DataFrame) and keeps_columns
    names = list(X.columns) if named else list(range(np.shape(X)[1] if keeps_columns else 1))
    made = pd.DataFrame(np.zeros((len(X), len(names))), columns=names)
    own = getattr(estimator, "_sklearn_output_config", {})  # of set_output
    asked_for = own.get("transform") or get_config()["transform_output"]
    return made if asked_for == "pandas" else made.to_numpy()
