"""Candidates of a private search: shares of a run, and checks before the charge.

The private steps of a candidate share the allowance of one run in proportion to their ``epsilon``
(of epsilon where noise is pure, of mu squared where it is Gaussian). Steps that need a delta beside
that of noise, to learn categories, share the separate delta of a run equally.

A cell that a step refuses makes each run fail that fits its row, which would tell of the row. So
the steps that read cells of X check them once, before the charge. The output of steps without noise
is checked for the steps behind them, and so are the cells that a private step passes on unchanged
(missing ones, and text). What public steps make of noisy output is not followed.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import get_tags

from skdp.base import check_without_rows, request_groups
from skdp.base.leaks import EXACT_CLASSES, EXACT_SPARSE, has_price, is_search, steps_of
from skdp.base.mixin import noise_compared
from skdp.budget import Cost, PrivacyBudget, exact, gdp_mu, pure_mu
from skdp.core import PRIVATE_ROWS, Unit, check_unit
from skdp.loss.conversions import check_positive, largest, round_down
from skdp.model_selection._check import HIGH, look_into
from skdp.model_selection._pricing import price_or_none, private_parts
from skdp.planning import Allowance
from skdp.queries import BaseRun
from skdp.tabular import ONE_PLACE, check_categorical, check_columns, check_rows, refuse_parts
from skdp.user_code import no_restart, run_isolated, silent


@lru_cache(maxsize=1024)
def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the largest epsilon for which (epsilon, delta) gives at most this mu."""
    return largest(lambda e: gdp_mu(e, delta) <= mu, mu) * (1 - 1e-12)


@lru_cache(maxsize=1024)
def _pure_epsilon(mu: float) -> float:
    return largest(lambda e: pure_mu(e) <= mu, mu) * (1 - 1e-12)


def _separate_delta(part: Any) -> float:
    """Return the delta of a step that is not for noise, with its present parameters."""
    cost = price_or_none(part)
    components = () if cost is None else cost.components
    return float(sum(times * single.separate_delta for single, times in components))


def needs_separate_delta(estimator: Any, delta: float) -> bool:
    """Say whether a step would need a delta beside that of its noise."""
    parts = [clone(part) for _, part in private_parts(estimator)]
    able = [part for part in parts if "delta" in part.get_params(deep=False)]
    return delta > 0 and any(_separate_delta(part.set_params(delta=delta)) > 0 for part in able)


def noise_of(
    candidates: Sequence[Any], allowance: Allowance, n_features: int | None
) -> list[float]:
    """Return the noise of all private steps of all candidates, each as if it were alone."""
    parts = [part for candidate in candidates for _, part in private_parts(candidate)]
    parts = [part for part in parts if part.privacy_cost() is not None]  # those that release
    return [noise_compared(part, allowance, n_features) for part in parts]


def _learning(part: Any, mu: float, separate: float) -> dict[str, float]:
    """Return the epsilon and delta with which a step has at most this mu and separate delta."""
    # A little less, so that rounding cannot push the steps together above the run's delta.
    separate *= 1 - 1e-9
    part.set_params(delta=separate)
    # The separate delta is proportional to delta; the remainder is for noise.
    used = _separate_delta(part) / separate
    delta = separate / used
    epsilon = gaussian_epsilon(mu, delta * (1 - used)) if used < 1 else _pure_epsilon(mu)
    return {"epsilon": epsilon, "delta": delta}


def allot(estimator: Any, base: BaseRun, delta: float) -> Any:
    """Set epsilon and delta of the private steps that release something; return the estimator."""
    parts = [part for _, part in private_parts(estimator)]
    for part in parts:
        if "delta" in part.get_params(deep=False):
            part.set_params(delta=0.0 if base.mu is None else delta)
    weights = [exact(check_positive(part.epsilon, "epsilon")) for part in parts]
    paying = [(p, w) for p, w in zip(parts, weights, strict=True) if price_or_none(p) is not None]
    total = sum((weight for _, weight in paying), start=Fraction(0))
    learning = [p for p, _ in paying if base.separate_delta > 0 and _separate_delta(p) > 0]
    for part, weight in paying:
        share = weight / total
        if base.mu is None:
            assert base.epsilon is not None
            part.set_params(epsilon=round_down(exact(base.epsilon) * share))
            continue
        # Squares of mu add up over steps; the last factor covers rounding.
        mu = base.mu * float(share) ** 0.5 * (1 - 1e-12)
        if part in learning:
            part.set_params(**_learning(part, mu, base.separate_delta / len(learning)))
        elif "delta" in part.get_params(deep=False):
            part.set_params(epsilon=gaussian_epsilon(mu, delta))
        else:
            part.set_params(epsilon=_pure_epsilon(mu))
    return estimator


def _named(path: str, part: Any) -> str:
    return f"step {path} ({type(part).__name__})" if path else type(part).__name__


def _at(where: str, part: Any, error: TypeError | ValueError) -> TypeError | ValueError:
    """Return an error of a step that begins with its place."""
    return type(error)(f"{where}: {str(error).removeprefix(type(part).__name__ + ': ')}")


def check_candidate(candidate: Any, base: BaseRun) -> None:
    """Refuse a candidate that no run may fit; the error names the step and the way out."""
    parts = private_parts(candidate)
    if not parts:
        raise TypeError(
            f"estimator must be private, or a pipeline with private steps, got "
            f"{type(candidate).__name__}: take its private counterpart, which skdp.make_private "
            "names, or DPTrainOnRelease, on whose released_xy() any search is free"
        )
    for path, part in parts:
        if hasattr(part, "run_cost"):
            raise TypeError(f"{_named(path, part)}: a search inside of a private search is refused")
        try:
            check_without_rows(part)
        except (TypeError, ValueError) as error:
            raise _at(_named(path, part), part, error) from None
    for finding in look_into(candidate, passes_ids=True):
        if finding.severity == HIGH or finding.what in (EXACT_CLASSES, EXACT_SPARSE):
            raise TypeError(f"{finding.where}: {finding.what}. Instead: {finding.way_out}")
    for path, value in candidate.get_params(deep=True).items():
        if path.rpartition("__")[2] == "memory" and value is not None:
            raise ValueError(
                f"{path} must be None in a private search, got {type(value).__name__}: the cache "
                "would keep every run, and how many there were"
            )
    costs: list[Cost] = []
    for path, part in parts:
        where = _named(path, part)
        try:
            cost = part.privacy_cost()
        except (TypeError, ValueError) as error:
            raise _at(where, part, error) from None
        if cost is None:
            continue
        if not base.covers([cost]):
            raise ValueError(
                f"{where} costs more than its part of a run, {cost}: its delta is neither that of "
                "Gaussian noise nor apart, so a private search has no bound for it"
            )
        costs.append(cost)
    if not base.covers(costs):
        raise ValueError("the steps of a candidate together lose more than a run may")


# --- groups of users ------------------------------------------------------------------------------

_NO_GROUPS = (
    "{where}: its fit takes no groups=, so it protects rows only, and the search protects all rows "
    "of one {unit!r}. Take an estimator that takes groups, or search with a budget without a unit"
)
_TARGETS_WITHOUT_GROUPS = (
    "{where}: TransformedTargetRegressor passes no groups on to its transformer. Transform targets "
    "from public knowledge, by func= and inverse_func="
)


def ask_for_groups(candidate: Any, unit: str, max_rows: Any, adjacency: str) -> None:
    """Let the private steps of a candidate request groups, in place; refuse steps that cannot.

    `max_rows` of a unit count in steps that state no number. Steps must have their share of a run.
    """
    for path, part in private_parts(candidate):
        where = _named(path, part)
        takes = not is_search(part) and hasattr(part, "set_fit_request")
        if not (takes and "groups" in inspect.signature(part.fit).parameters):
            raise TypeError(_NO_GROUPS.format(where=where, unit=unit))
        outer = candidate.get_params(deep=True).get(path.rpartition("__")[0], candidate)
        inner = path.rpartition("__")[2]
        if isinstance(outer, TransformedTargetRegressor) and inner == "transformer":
            raise TypeError(_TARGETS_WITHOUT_GROUPS.format(where=where))
        request_groups(part)
        if getattr(part, "max_rows_per_unit", None) == PRIVATE_ROWS:
            part.set_params(max_rows_per_unit=max_rows)
        stated = getattr(part, "max_rows_per_unit", PRIVATE_ROWS)
        cost = part.privacy_cost()
        if cost is not None and stated != PRIVATE_ROWS:
            try:
                delta = 0.0 if cost.mu is None else cost.delta
                check_unit(Unit(unit, stated), adjacency, cost.epsilon, delta)
            except ValueError as error:
                raise ValueError(f"{where}: {error}") from None


# --- cells that steps refuse ----------------------------------------------------------------------

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
    """Refuse cells that the steps of a candidate would refuse, with the fixed texts of fits.

    Steps must have their share of a run.
    """
    refuse_parts(X, estimator, ONE_PLACE)
    if sparse.issparse(X):
        check_rows(X, estimator=estimator)
    with config_context(transform_output="default", enable_metadata_routing=False):
        _Check(estimator, allow_empty).read([candidate], X)


def check_targets_of(candidate: Any, y: Any) -> None:
    """Refuse a candidate that makes targets of finite y that are not finite."""
    for part in [candidate, *candidate.get_params(deep=True).values()]:
        if isinstance(part, TransformedTargetRegressor) and part.func is not None:
            targets = np.asarray(y, dtype=np.float64).reshape(-1, 1)

            def transform(function: Any = part.func, targets: Any = targets) -> Any:
                return np.asarray(function(targets), dtype=np.float64)

            with silent(), np.errstate(all="ignore"):
                transformed = run_isolated(transform, None, no_restart)
            if transformed is None or not np.isfinite(transformed).all():
                raise ValueError(_TARGETS)


@dataclass
class _Numbers:
    """Stands for a step that reads numbers behind a ColumnTransformer or FeatureUnion."""

    missing: bool


class _Check:
    """Follows X through the steps of a candidate up to the first that adds noise."""

    def __init__(self, estimator: str, allow_empty: bool) -> None:
        self.estimator, self.allow_empty = estimator, allow_empty

    def read(self, steps: list[Any], X: Any) -> None:
        """Check X for the first step, and its output for the others."""
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
        """Check the columns that each part of a container reads, and that it passes on numbers."""
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
        """Return the output of a step that releases nothing; refuse X if it fails."""
        copied = step if isinstance(step, FrozenEstimator) else clone(step)
        for _, part in private_parts(copied):
            if "budget" in part.get_params(deep=False):
                part.set_params(budget=PrivacyBudget(1.0, adjacency="add_or_remove_one"))
        with silent():
            if has_price(copied):  # the errors of skdp quote no cell
                return copied.fit(X).transform(X)
            output = run_isolated(lambda: copied.fit(X).transform(X), None, no_restart)
        if output is None:
            raise ValueError(_FAILS.format(name=type(step).__name__))
        return output

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
        """Check X as the fit of a private step does, and the cells that it passes on."""
        tags = get_tags(step).input_tags
        if tags.string or tags.categorical:
            if hasattr(step, "transform"):  # other estimators of text learn a domain from any table
                check_categorical(X, estimator=self.estimator, allow_empty=self.allow_empty)
            fills = hasattr(step, "strategy")  # an imputer leaves all other cells as they are
            if fills and behind and not _takes_text(behind[0]):
                self._numbers(X, missing=True)
        else:
            passed_on = _keeps_nan(step) and behind and not _may_have_nan(behind)
            self._numbers(X, missing=bool(tags.allow_nan) and not passed_on)
        for name in ("encoded_missing_value", "unknown_value"):
            value = getattr(step, name, None)
            nan = isinstance(value, float) and math.isnan(value)
            if nan and behind and not _may_have_nan(behind):
                raise ValueError(_NAN_CODES.format(name=type(step).__name__, parameter=name))


def _flat(steps: list[Any]) -> list[Any]:
    """Return the steps inside pipelines, without those that pass everything on."""
    flat: list[Any] = []
    for step in steps:
        if isinstance(step, Pipeline):
            flat += _flat([part for _, part in step.steps])
        elif step is not None and not (isinstance(step, str) and step == "passthrough"):
            flat.append(step)
    return flat


def _keeps_nan(step: Any) -> bool:
    """Say whether a step leaves missing cells missing."""
    return getattr(step, "nan_policy", "raise") == "omit"


def _may_have_nan(steps: list[Any]) -> bool:
    """Say whether steps take missing cells, or fill them before one that does not."""
    for step in _flat(steps):
        if not (hasattr(step, "get_params") and get_tags(step).input_tags.allow_nan):
            return False
        if not _keeps_nan(step):
            return True
    return True


def _takes_text(step: Any) -> bool:
    tags = get_tags(step).input_tags if hasattr(step, "get_params") else None
    return tags is not None and bool(tags.string or tags.categorical)


def _nullable(X: Any) -> bool:
    """Say whether X has nullable columns, whose missing cells scikit-learn refuses to stack."""
    types = getattr(X, "dtypes", ())
    return hasattr(X, "iloc") and any(not isinstance(dtype, np.dtype) for dtype in types)


class _Reader(BaseEstimator):
    """A part of a ColumnTransformer that only checks its columns."""

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
