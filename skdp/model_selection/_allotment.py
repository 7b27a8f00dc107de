"""What the private steps of a candidate get of the allowance of one run.

Nothing is released here and no row is read. Steps share as their own ``epsilon`` says: as weights,
of epsilon where noise is pure, of mu squared where it is Gaussian.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

from skdp.base import check_without_rows
from skdp.budget import Cost, exact, gdp_mu, pure_mu
from skdp.budget.amounts import check_positive, round_down
from skdp.budget.conversions import largest
from skdp.model_selection._check import look_into
from skdp.model_selection._findings import HIGH
from skdp.model_selection._pricing import private_parts
from skdp.queries import BaseRun

__all__ = ["allot", "check_candidate", "gaussian_epsilon"]


@lru_cache(maxsize=1024)
def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the largest epsilon for which (epsilon, delta) buys at most this mu."""
    return largest(lambda e: gdp_mu(e, delta) <= mu, mu) * (1 - 1e-12)


@lru_cache(maxsize=1024)
def _pure_epsilon(mu: float) -> float:
    return largest(lambda e: pure_mu(e) <= mu, mu) * (1 - 1e-12)


def allot(estimator: Any, base: BaseRun, delta: float) -> Any:
    """Give the private steps of an estimator their parts of a run, in place, and return it."""
    parts = [part for _, part in private_parts(estimator)]
    weights = [exact(check_positive(part.epsilon, "epsilon")) for part in parts]
    for part, weight in zip(parts, weights, strict=True):
        share = weight / sum(weights, start=Fraction(0))
        has_delta = "delta" in part.get_params(deep=False)
        if base.mu is None:
            assert base.epsilon is not None
            changes = {"epsilon": round_down(exact(base.epsilon) * share)}
            if has_delta:
                changes["delta"] = 0.0
        else:
            mu = base.mu * float(share) ** 0.5 * (1 - 1e-12)
            changes = {"epsilon": gaussian_epsilon(mu, delta) if has_delta else _pure_epsilon(mu)}
            if has_delta:
                changes["delta"] = delta
        part.set_params(**changes)
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
        try:
            check_without_rows(part)
        except (TypeError, ValueError) as error:
            raise _at(_named(path, part), part, error) from None
    for finding in look_into(candidate, passes_ids=True):
        if finding.severity == HIGH:
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
                f"{where} loses more than pure or Gaussian noise of its epsilon and delta does "
                f"(price {cost}), which a private search has no bound for. State what it would "
                "learn (categories, classes); or, where pure noise will do, search with delta=0"
            )
        costs.append(cost)
    if not base.covers(costs):
        raise ValueError("the steps of a candidate together lose more than a run may")
