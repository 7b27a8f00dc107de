"""What the steps of a candidate refuse of X, checked before a private search is charged.

Nothing is released here. A cell that a step refuses makes each run fail that fits its row, and that
tells of the row, as the error of a fit by itself does. So the steps that read cells of X make their
own checks of them, once, before the charge. What steps without noise make of X (public ones, and
private ones with everything stated) is checked for the steps behind them, and so are the cells
that a private step passes on as they are: missing ones, and text. Not followed is what public steps
make of the output of noisy ones.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import get_tags

from skdp.base.leaks import has_price, steps_of
from skdp.budget import PrivacyBudget
from skdp.model_selection._pricing import private_parts
from skdp.tabular import ONE_PLACE, check_categorical, check_columns, check_rows, refuse_parts
from skdp.user_code import no_restart, run_isolated, silent

__all__ = ["check_first_steps", "check_targets_of"]

_FAILS = (
    "the step {name} cannot transform X, so every run of the search would fail. It releases "
    "nothing, so its error is not shown; fit it by itself on public rows that resemble the "
    "private ones"
)
_TARGETS = (
    "func of TransformedTargetRegressor must give a finite number for every y in a private search: "
    "clip y to public bounds within it"
)
_WEIGHTS = (
    "transformer_weights of a {name} must be None in a private search: what they make of a cell is "
    "not checked before. Scale columns by a step of the pipeline"
)
_NAN_CODES = (
    "{name}: {parameter} must be a number in a pipeline that is searched, where no step behind it "
    "takes NaN: a missing cell would make its runs fail"
)


def check_first_steps(candidate: Any, X: Any, estimator: str, allow_empty: bool) -> None:
    """Raise what the steps of a candidate that read X would raise for its cells.

    Parameters
    ----------
    candidate : estimator
        Checked, and with its parts of a run.
    X : array-like or table of shape (n_samples, n_features)
    estimator : str
        Name for error messages.
    allow_empty : bool
        Accept no rows.

    Raises
    ------
    TypeError, ValueError
        With fixed texts, as fits of the steps by themselves do.
    """
    refuse_parts(X, estimator, ONE_PLACE)
    if sparse.issparse(X):
        check_rows(X, estimator=estimator)
    with config_context(transform_output="default", enable_metadata_routing=False):
        _Check(estimator, allow_empty).read([candidate], X)


def check_targets_of(candidate: Any, y: Any) -> None:
    """Raise if a candidate makes targets of y that are not finite.

    Parameters
    ----------
    candidate : estimator
    y : array-like of shape (n_samples,)
        Finite numbers.
    """
    for part in [candidate, *candidate.get_params(deep=True).values()]:
        if isinstance(part, TransformedTargetRegressor) and part.func is not None:
            targets = np.asarray(y, dtype=np.float64).reshape(-1, 1)
            with silent(), np.errstate(all="ignore"):
                made = run_isolated(
                    functools.partial(_as_floats, part.func, targets), None, no_restart
                )
            if made is None or not np.isfinite(made).all():
                raise ValueError(_TARGETS)


def _as_floats(function: Any, values: Any) -> Any:
    return np.asarray(function(values), dtype=np.float64)


class _Numbers(BaseEstimator):
    """Stands for what is behind a ColumnTransformer or FeatureUnion, and reads cells of X there."""

    def __init__(self, missing: bool) -> None:
        self.missing = missing


class _Check:
    """Follows X through the steps of a candidate up to the first that adds noise."""

    def __init__(self, estimator: str, allow_empty: bool) -> None:
        self.estimator, self.allow_empty = estimator, allow_empty

    def read(self, steps: list[Any], X: Any) -> None:
        """Check X for the first of some steps, and what that makes of it for the others."""
        steps = _flat(steps)
        if not steps:
            return
        step, behind = steps[0], steps[1:]
        if isinstance(step, str):  # "drop"
            return
        parts = private_parts(step)
        if isinstance(step, _Numbers):
            self._numbers(X, missing=step.missing and not _nullable(X))
        elif not has_price(step) and all(part.privacy_cost() is None for _, part in parts):
            if behind:
                self.read(behind, self._made(step, X))
        elif isinstance(step, ColumnTransformer | FeatureUnion):
            self._parts(step, behind, X)
        elif not has_price(step) and (inside := steps_of(step)) is not None:
            for name, part, _ in inside:
                if name != "transformer":  # of targets
                    self.read([part], X)
        elif has_price(step) and step.privacy_cost() is None and hasattr(step, "transform"):
            self.read(behind, self._made(step, X))
        else:
            self._leaf(step, behind, X)

    def _parts(self, step: Any, behind: list[Any], X: Any) -> None:
        """Check what each part of a container reads, and that numbers are what it passes on."""
        if step.transformer_weights is not None:
            raise ValueError(_WEIGHTS.format(name=type(step).__name__))
        if behind and not _takes_text(behind[0]):
            behind = [_Numbers(_may_have_nan(behind))]
        else:
            behind = []
        if isinstance(step, FeatureUnion):
            for _, part in step.transformer_list:
                self.read([part, *behind], X)
            return

        def reader(part: Any) -> Any:
            dropped = isinstance(part, str) and part == "drop"
            return part if dropped else _Reader(self, part, behind)

        # scikit-learn chooses the columns, and refuses what it refuses.
        parts = [(name, reader(part), columns) for name, part, columns in step.transformers]
        ColumnTransformer(parts, remainder=reader(step.remainder), sparse_threshold=0).fit(X)

    def _made(self, step: Any, X: Any) -> Any:
        """Return what a step that releases nothing makes of X; raise if it cannot."""
        copied = step if isinstance(step, FrozenEstimator) else clone(step)
        for _, part in private_parts(copied):
            if "budget" in part.get_params(deep=False):
                part.set_params(budget=PrivacyBudget(1.0, adjacency="add_or_remove_one"))
        with silent():
            if has_price(copied):  # what it refuses, it says in public words
                return copied.fit(X).transform(X)
            made = run_isolated(lambda: copied.fit(X).transform(X), None, no_restart)
        if made is None:
            raise ValueError(_FAILS.format(name=type(step).__name__))
        return made

    def _numbers(self, X: Any, *, missing: bool) -> None:
        """Check that cells are finite numbers, or missing."""
        if sparse.issparse(X):
            X = sparse.csr_array(X).data.reshape(-1, 1)
            if len(X):
                check_rows(X, estimator=self.estimator)
            return
        check = check_columns if missing else check_rows
        check(X, estimator=self.estimator, allow_empty=self.allow_empty)

    def _leaf(self, step: Any, behind: list[Any], X: Any) -> None:
        """Check X as the fit of a private step does, and what that passes on."""
        tags = get_tags(step).input_tags
        if tags.string or tags.categorical:
            if hasattr(step, "transform"):  # tables of other columns are read by `learned` plans
                check_categorical(X, estimator=self.estimator, allow_empty=self.allow_empty)
            fills = hasattr(step, "strategy")  # and leaves all other cells
            if fills and behind and not _takes_text(behind[0]):
                self._numbers(X, missing=True)
        else:
            kept = _keeps_nan(step) and behind and not _may_have_nan(behind)
            self._numbers(X, missing=bool(tags.allow_nan) and not kept)
        for name in ("encoded_missing_value", "unknown_value"):
            value = getattr(step, name, None)
            nan = isinstance(value, float) and math.isnan(value)
            if nan and behind and not _may_have_nan(behind):
                raise ValueError(_NAN_CODES.format(name=type(step).__name__, parameter=name))


def _flat(steps: list[Any]) -> list[Any]:
    """Return steps without those that pass everything on, pipelines as their steps."""
    found: list[Any] = []
    for step in steps:
        if isinstance(step, Pipeline):
            found += _flat([part for _, part in step.steps])
        elif step is not None and not (isinstance(step, str) and step == "passthrough"):
            found.append(step)
    return found


def _keeps_nan(step: Any) -> bool:
    """Say whether a step leaves missing cells missing."""
    return getattr(step, "nan_policy", "raise") == "omit"


def _may_have_nan(steps: list[Any]) -> bool:
    """Say whether steps take missing cells, or fill them before one that does not."""
    for step in _flat(steps):
        if not _takes_nan(step):
            return False
        if not _keeps_nan(step):
            return True
    return True


def _takes_text(step: Any) -> bool:
    tags = get_tags(step).input_tags if hasattr(step, "get_params") else None
    return tags is not None and bool(tags.string or tags.categorical)


def _nullable(X: Any) -> bool:
    """Say whether X has columns of numbers whose missing cells scikit-learn refuses to stack."""
    types = getattr(X, "dtypes", ())
    return hasattr(X, "iloc") and any(not isinstance(one, np.dtype) for one in types)


def _takes_nan(step: Any) -> bool:
    return hasattr(step, "get_params") and bool(get_tags(step).input_tags.allow_nan)


class _Reader(BaseEstimator):
    """A part of a ColumnTransformer that checks its columns and makes nothing of them."""

    def __init__(self, check: Any, step: Any, behind: Any) -> None:
        self.check = check
        self.step = step
        self.behind = behind

    def __sklearn_clone__(self) -> Self:
        return self

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the columns."""
        self.check.read([self.step, *self.behind], X)
        return self

    def transform(self, X: Any) -> Any:
        """Return a column of zeros."""
        return np.zeros((X.shape[0], 1))
