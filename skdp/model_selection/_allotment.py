"""What the private steps of a candidate get of the allowance of one run.

Nothing is released here and no row is read. Steps share as their own ``epsilon`` says: as weights,
of epsilon where noise is pure, of mu squared where it is Gaussian. Steps with a delta apart from
that of noise (learned categories, say) share the separate delta of a run equally.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

from sklearn.base import clone

from skdp._callers import EXACT_CLASSES, EXACT_SPARSE
from skdp.base import check_without_rows
from skdp.budget import Cost, exact, gdp_mu, pure_mu
from skdp.loss.amounts import check_positive, round_down
from skdp.loss.conversions import largest
from skdp.model_selection._check import look_into
from skdp.model_selection._findings import HIGH
from skdp.model_selection._pricing import private_parts
from skdp.queries import BaseRun

__all__ = ["allot", "check_candidate", "gaussian_epsilon", "needs_separate_delta"]


@lru_cache(maxsize=1024)
def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the largest epsilon for which (epsilon, delta) buys at most this mu."""
    return largest(lambda e: gdp_mu(e, delta) <= mu, mu) * (1 - 1e-12)


@lru_cache(maxsize=1024)
def _pure_epsilon(mu: float) -> float:
    return largest(lambda e: pure_mu(e) <= mu, mu) * (1 - 1e-12)


def _cost(part: Any) -> Cost | None:
    """Return the cost of a step in its present parameters; None also if they are wrong.

    `check_candidate` raises then, with the name of the step.
    """
    try:
        cost: Cost | None = part.privacy_cost()
    except (TypeError, ValueError):
        return None
    return cost


def _separate_delta(part: Any) -> float:
    """Return the delta that a step has apart from that of its noise, in its present parameters."""
    cost = _cost(part)
    if cost is None:
        return 0.0
    return float(sum(times * single.separate_delta for single, times in cost.components))


def needs_separate_delta(estimator: Any, delta: float) -> bool:
    """Say whether a step learns something for a delta of its own, if it has a delta."""
    parts = [clone(part) for _, part in private_parts(estimator)]
    able = [part for part in parts if "delta" in part.get_params(deep=False)]
    return delta > 0 and any(_separate_delta(part.set_params(delta=delta)) > 0 for part in able)


def _learning(part: Any, mu: float, apart: float) -> dict[str, float]:
    """Return the epsilon and delta with which a step has this mu and this delta apart, at most."""
    apart *= 1 - 1e-9
    part.set_params(delta=apart)
    used = _separate_delta(part) / apart  # a part of delta; the rest is for noise
    delta = apart / used
    epsilon = gaussian_epsilon(mu, delta * (1 - used)) if used < 1 else _pure_epsilon(mu)
    return {"epsilon": epsilon, "delta": delta}


def allot(estimator: Any, base: BaseRun, delta: float) -> Any:
    """Give the private steps of an estimator their parts of a run, in place, and return it.

    Steps that release nothing, as all is stated, get none.
    """
    every = [part for _, part in private_parts(estimator)]
    for part in every:
        if "delta" in part.get_params(deep=False):
            part.set_params(delta=0.0 if base.mu is None else delta)
    weights = [exact(check_positive(part.epsilon, "epsilon")) for part in every]
    paying = [(p, w) for p, w in zip(every, weights, strict=True) if _cost(p) is not None]
    whole = sum((weight for _, weight in paying), start=Fraction(0))
    learning = [p for p, _ in paying if base.separate_delta > 0 and _separate_delta(p) > 0]
    for part, weight in paying:
        share = weight / whole
        if base.mu is None:
            assert base.epsilon is not None
            part.set_params(epsilon=round_down(exact(base.epsilon) * share))
            continue
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
    """Return the error of a step with its place before it, and the name of its class once."""
    return type(error)(f"{where}: {str(error).removeprefix(type(part).__name__ + ': ')}")


def check_candidate(candidate: Any, base: BaseRun) -> None:
    """Raise for what no run of a candidate may be; its steps have their parts of a run.

    Raises
    ------
    TypeError, ValueError
        With the step and the way out.
    """
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
