"""What the first steps of a candidate read of X, checked before a private search is charged.

Nothing is released here. A cell that a step refuses would make each run fail that fits or scores
its row, and that would tell of the row. So each step that reads cells of X has its own check made
of them, once, before the charge, as when it is fitted by itself. What a step of pure
post-processing makes of X (a public step, or a private one with everything stated) is checked for
the steps behind it.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import get_tags

from skdp.budget import PrivacyBudget
from skdp.model_selection._pricing import private_parts
from skdp.model_selection._searches import has_price, steps_of
from skdp.tabular import ONE_PLACE, check_categorical, check_columns, check_rows, refuse_parts
from skdp.user_code import no_restart, run_isolated, silent

__all__ = ["check_first_steps"]

_FAILS = (
    "the step {name} cannot transform X, so every run of the search would fail. It releases "
    "nothing, so its error is not shown; fit it by itself on public rows that resemble the "
    "private ones"
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
    # Of containers that scikit-learn hands numbers to, and of rows as they come.
    with config_context(transform_output="default", enable_metadata_routing=False):
        _Check(estimator, allow_empty).read([candidate], X)


class _Check:
    """Follows X through the steps of a candidate up to the first whose output is noisy."""

    def __init__(self, estimator: str, allow_empty: bool) -> None:
        self.estimator, self.allow_empty = estimator, allow_empty

    def read(self, steps: list[Any], X: Any) -> None:
        """Check X for the first of some steps, and what that makes of it for the others."""
        while steps and (steps[0] is None or isinstance(steps[0], str)):
            if steps[0] == "drop":
                return
            steps = steps[1:]
        if not steps:
            return
        step, behind = steps[0], steps[1:]
        if isinstance(step, Pipeline):
            self.read([part for _, part in step.steps] + behind, X)
        elif not has_price(step) and not private_parts(step):
            if behind:
                self.read(behind, self._made(step, X))
        elif isinstance(step, ColumnTransformer):
            self._columns(step, behind, X)
        elif isinstance(step, FeatureUnion):
            for _, part in step.transformer_list:
                self.read([part, *behind], X)
        elif not has_price(step) and (parts := steps_of(step)) is not None:
            for name, part, _ in parts:
                if name != "transformer":  # of targets
                    self.read([part, *behind], X)
        elif has_price(step) and step.privacy_cost() is None and hasattr(step, "transform"):
            self.read(behind, self._made(step, X))
        else:
            self._leaf(step, behind, X)

    def _columns(self, step: ColumnTransformer, behind: list[Any], X: Any) -> None:
        """Let scikit-learn choose the columns, and check those of each part."""
        # Steps behind that choose columns, too, do so by the names that all parts together have.
        behind = [] if any(isinstance(one, ColumnTransformer) for one in behind) else behind
        parts = [
            (
                name,
                part if isinstance(part, str) and part == "drop" else _Reader(self, part, behind),
                columns,
            )
            for name, part, columns in step.transformers
        ]
        rest = step.remainder
        if not (isinstance(rest, str) and rest == "drop"):
            rest = _Reader(self, rest, behind)
        ColumnTransformer(parts, remainder=rest, sparse_threshold=0).fit(X)

    def _made(self, step: Any, X: Any) -> Any:
        """Return what a step that releases nothing makes of X; raise if it cannot."""
        copied = step if isinstance(step, FrozenEstimator) else clone(step)
        if has_price(copied):  # all is stated: what it refuses, it says in public words
            if "budget" in copied.get_params(deep=False):
                copied.set_params(budget=PrivacyBudget(1.0, adjacency="add_or_remove_one"))
            with silent():
                return copied.fit(X).transform(X)
        with silent():
            made = run_isolated(lambda: copied.fit(X).transform(X), None, no_restart)
        if made is None:
            raise ValueError(_FAILS.format(name=type(step).__name__))
        return made

    def _leaf(self, step: Any, behind: list[Any], X: Any) -> None:
        """Check X as the fit of a private step does."""
        tags = get_tags(step).input_tags
        options: dict[str, Any] = {"estimator": self.estimator, "allow_empty": self.allow_empty}
        if sparse.issparse(X):
            X = sparse.csr_array(X).data.reshape(-1, 1)  # of the cells, which are all it may refuse
            if len(X):
                check_rows(X, estimator=self.estimator)
        elif tags.string or tags.categorical:
            if hasattr(step, "transform"):  # tables of other columns are read by `learned` plans
                check_categorical(X, **options)
        elif tags.allow_nan and (
            not behind or _takes_nan(behind[0]) or not hasattr(step, "nan_policy")
        ):
            check_columns(X, **options)
        else:
            check_rows(X, **options)
        for name in ("encoded_missing_value", "unknown_value"):
            value = getattr(step, name, None)
            nan = isinstance(value, float) and math.isnan(value)
            if nan and behind and not _takes_nan(behind[0]):
                raise ValueError(_NAN_CODES.format(name=type(step).__name__, parameter=name))


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
