"""What the estimators of this package are made of: parameter checks and the fit they share.

Nothing is released here, except that `QuantileFit` asks an open session for bounds and quantiles.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skdp import kernel
from skdp._scalers import Floats, Pair, Scaler, full_level
from skdp.base import check_bounds, check_step

__all__ = ["QuantileFit", "check_choice"]

_MISSED = 0.05  # chance that a released quantile is further off than `expected_error`
_POINTS = 2.0**19  # candidates of a column, at most, without a step


def _check_step(step: Any, prior: Any) -> float | None:
    """Return the step as a float, or None; check the prior, which is for candidates without it."""
    if not (isinstance(prior, str) and prior in ("uniform", "log")):
        raise ValueError(f"prior must be 'uniform' or 'log', got {prior!r}")
    value = check_step(step)
    if value is not None and prior != "uniform":
        raise ValueError("prior='log' spaces the candidates itself: it excludes a step")
    return value


def check_choice(value: Any, name: str, choices: Sequence[str]) -> str:
    """Return a parameter that is one of several words, or raise."""
    if not (isinstance(value, str) and value in choices):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return value


def _check_multiples(step: float | None, stated: Pair | None) -> None:
    """Refuse a step that has no candidate in a column's stated bounds."""
    if step is None or stated is None:
        return
    for j, (low, high) in enumerate(zip(*stated, strict=True)):
        first, last = kernel.multiples(float(low), float(high), step)
        if first > last:
            raise ValueError(
                f"step must have a multiple within bounds, got step={step} for bounds "
                f"({low}, {high}) of column {j}"
            )


class QuantileFit(Scaler):
    """The fit that all share: checks, the session, bounds, quantiles of every column."""

    step: float | None
    prior: str

    @abstractmethod
    def _levels(self) -> list[float]:
        """Return the levels that a fit releases, ascending; none if it releases nothing."""

    def _is_free(self) -> bool:
        return not self._levels()

    def _check_mechanism(self) -> str:
        return "exponential"

    def _opened(self, rows: kernel.Rows) -> kernel.Session:
        """Charge the budget and open the session."""
        return self._session(rows)

    def _check_release(self, d: int, stated: Pair | None) -> None:
        """Refuse noise that the doors would refuse after the charge."""

    def _fit_quantiles(self, X: ArrayLike) -> Floats:
        """Charge the budget; set bounds_ and privacy_; return quantiles (n_levels, n_features)."""
        levels = self._levels()
        mechanism = self._check_mechanism()
        step = _check_step(self.step, self.prior)
        rows = self._open(X)
        stated = check_bounds(self.bounds, rows.n_features, self._names())
        _check_multiples(step, stated)
        self._check_release(rows.n_features, stated)
        if not levels:
            self.bounds_: Pair | None = stated
            self.privacy_ = self._nothing_released()
            return np.empty((0, rows.n_features))
        with self._opened(rows) as session:
            self.bounds_ = self._bounds_in(session, stated)
            view = session.box(*self.bounds_, per_feature=True)
            values = self._release(session, view, levels, mechanism, step)
            self.privacy_ = session.certificate()
        return np.ascontiguousarray(values.T)

    def _release(
        self,
        session: kernel.Session,
        view: kernel.Box,
        levels: list[float],
        mechanism: str,
        step: float | None,
    ) -> Floats:
        """Return released quantiles of shape (n_features, n_levels)."""
        if mechanism == "global":
            return session.noisy_quantiles(view, levels).value
        return session.quantiles(view, levels, step=step, prior=self.prior).value

    def expected_error(self, n_samples: int, n_features: int | None = None) -> float:
        """Return which part of the rows lies at most between a quantile and its release.

        Nothing is fitted, read or charged: it answers whether epsilon is enough. It is a bound for
        any rows, as clipped to the stated bounds and rounded to the nearest candidate, which 95% of
        releases of a column and level keep; most are several times closer. There is none for
        learned bounds, which may be far off: with few rows, or more than 2**40 from 0.

        Parameters
        ----------
        n_samples : int
            Number of rows, as far as it is public.
        n_features : int, default=None
            Number of columns; ``n_features_in_`` after `fit`.

        Returns
        -------
        error : float
            A difference of levels: with 0.01, a released median may have 49% of the rows below it.
            At most 1, which says that epsilon is not enough for any guarantee. Zero if nothing is
            released.

        Raises
        ------
        ValueError
            If the mechanism is not ``"exponential"``, or bounds are not stated: nothing holds for
            all rows then.
        """
        n, d = self._sizes(n_samples, n_features)
        if self._check_mechanism() != "exponential":
            raise ValueError("expected_error has a bound for mechanism='exponential' only")
        levels, cost = self._levels(), self.privacy_cost()
        if cost is None or not levels:
            return 0.0
        step = _check_step(self.step, self.prior)
        stated = check_bounds(self.bounds, d, self._names())
        if stated is None:
            raise ValueError(
                "bounds must be stated for expected_error: learned ones may miss any part of the "
                "rows"
            )
        _check_multiples(step, stated)
        points = _POINTS
        if step is not None:
            with np.errstate(over="ignore", invalid="ignore"):
                widest = float(np.max(stated[1] / step - stated[0] / step))
            points = min(widest + 1.0, 2.0**40) if math.isfinite(widest) else _POINTS
        pure = cost.mu is None
        ranks = kernel.rank_scale(levels, full_level(cost), d, pure=pure, adjacency=self._adjacency)
        # Every round of the recursion adds the error of its own choice. All but the last choose a
        # place among equal rows too, as narrow as 1/n of a candidate.
        rounds = len(levels).bit_length()
        points *= min(n, 2**16) if rounds > 1 else 1
        return min(rounds * ranks * math.log(points * rounds / _MISSED) / n, 1.0)
