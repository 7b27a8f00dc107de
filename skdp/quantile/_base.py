"""What the estimators of this package are made of: parameter checks and the fit they share.

Nothing is released here, except that `QuantileFit` asks an open session for bounds and quantiles.
"""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from skdp import kernel
from skdp._rehearsal import check_like, rehearsal, rehearsal_rng, stretched, unanswered
from skdp._scalers import Floats, Pair, Scaler, full_level
from skdp.base import check_bounds, check_step
from skdp.quantile._expected import rank_distance, rank_errors

__all__ = ["QuantileFit", "check_choice"]

_MISSED = 0.05  # chance that a released quantile is further off than `error_bound`
_DRAWS = 800  # quantiles that are drawn for an expected error: it is then told to about 4%
_FITS = 160
_TABLES = 16  # of public rows
_LEARNINGS = 24  # of bounds, on public rows: where they fail, they fail now and then
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


def released_curve(fitted: Any) -> tuple[Floats, Floats] | None:
    """Return levels from 0 to 1 and values (n_levels, n_features) of a fit, if it has them."""
    check_is_fitted(fitted)
    if hasattr(fitted, "references_"):
        return fitted.references_, fitted.quantiles_
    if hasattr(fitted, "median_"):
        levels, values = np.array([0.5]), fitted.median_[None]
    elif hasattr(fitted, "quantiles_"):
        levels, values = fitted.q_, fitted.quantiles_
    else:
        return None
    low, high = fitted.bounds_
    values = np.vstack([low, np.clip(values, low, high), high])
    return np.concatenate([[0.0], levels, [1.0]]), values


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

    def _check_without_rows(self) -> None:
        super()._check_without_rows()
        self._levels()
        self._check_mechanism()
        stated = self._check_bounds_without_rows()
        _check_multiples(_check_step(self.step, self.prior), stated)

    def _opened(self, rows: kernel.Rows) -> kernel.Session:
        """Charge the budget and open the session."""
        return self._session(rows)

    def _check_release(self, d: int, stated: Pair | None) -> None:
        """Refuse noise that a query would refuse after the charge."""

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
            return session.answer(kernel.NoisyQuantiles(view, levels)).value
        return session.answer(kernel.Quantiles(view, levels, step=step, prior=self.prior)).value

    def expected_error(
        self, n_samples: int, n_features: int | None = None, *, like: Any = None
    ) -> float:
        """Return how many ranks lie between a quantile and its release, on average.

        Nothing private is read and nothing is charged: it answers whether epsilon is enough. The
        same choices are drawn for public rows, with noise of their own. `error_bound` holds for
        any rows, as a part of the rows, and is far larger.

        Parameters
        ----------
        n_samples : int
            Number of rows, as far as it is public.
        n_features : int, default=None
            Number of columns; ``n_features_in_`` after `fit`, else those of `like`.
        like : array-like of shape (n_like, n_features), or fitted estimator
            Public rows that resemble the private ones (made-up ones will do), of any number; or an
            earlier fit of `DPMedian`, `DPQuantile` or `DPQuantileTransformer`, whose release stands
            for rows. There is no default: where values repeat, a quantile may be found exactly, and
            where they fill a small part of the bounds, few rows are not enough.

        Returns
        -------
        error : float
            Unit: ranks. The mean, over releases, levels and columns, of the number of rows between
            the released value and the level; of rows rounded to multiples of `step`, if it is
            stated. For ``mechanism="smooth"``, whose noise has heavy tails, the median. Zero if
            nothing is released.

        Raises
        ------
        ValueError
            If `like` is not given.
        """
        if (planned := self._by_position(like)) is not self:
            return planned.expected_error(n_samples, n_features, like=like)
        n, d = self._sizes(n_samples, n_features, like=like, bounds=self.bounds)
        mechanism, levels = self._check_mechanism(), self._levels()
        self._check_privacy_parameters()
        if not levels:
            return 0.0
        step = _check_step(self.step, self.prior)
        stated = check_bounds(self.bounds, d)
        _check_multiples(step, stated)
        if like is None:
            raise unanswered(
                self,
                "the rows: on how often values repeat, and on how much of the bounds they fill",
                " (of DPMedian, DPQuantile or DPQuantileTransformer). error_bound() holds for any "
                "rows",
            )
        rng = rehearsal_rng()
        tables = [self._columns_like(like, n, d, rng) for _ in range(_TABLES)]
        if mechanism != "exponential":
            return self._error_of_fits(tables, levels, mechanism)
        share = Fraction(1)
        if stated is None:
            boxes, share = self._rehearsed_bounds(tables)
        else:
            boxes = [stated] * _TABLES
        cost = self.privacy_cost()
        assert cost is not None  # levels are released
        pure = cost.mu is None
        level = full_level(cost)
        level = level * float(share) if pure else level * math.sqrt(share)
        rounds = len(levels).bit_length()
        _, whole, half = kernel.allowances(level, d * rounds, pure=pure)
        draws = max(3, math.ceil(_DRAWS / (len(levels) * d * len(boxes))))
        found = [
            rank_errors(
                columns[:, j],
                kernel.Lattice(float(low[j]), float(high[j]), step, self.prior),
                levels,
                (whole, half),
                replace=self._adjacency == "replace_one",
                draws=draws,
                rng=rng,
            ).mean()
            for columns, (low, high) in zip(itertools.cycle(tables), boxes, strict=False)
            for j in range(d)
        ]
        return float(np.mean(found))

    def _columns_like(self, like: Any, n: int, d: int, rng: np.random.Generator) -> Floats:
        """Return n public values of every column, each sorted: shape (n, d)."""
        if isinstance(like, QuantileFit):
            curve = released_curve(like)
            if curve is None or curve[1].shape[1] != d:
                raise ValueError(
                    "like must be public rows, or a fitted DPMedian, DPQuantile or "
                    f"DPQuantileTransformer of {d} columns, got {type(like).__name__}"
                )
            q, values = curve
            at = np.sort(rng.random(n))
            columns = [np.interp(at, q, values[:, j]) for j in range(d)]
        else:
            columns = [stretched(column, n, rng) for column in check_like(self, like, d).T]
        return np.column_stack(columns)

    def _rehearsed_bounds(self, tables: list[Floats]) -> tuple[list[Pair], Fraction]:
        """Return bounds learned from public rows, and the share that is left for quantiles."""
        boxes, share = [], Fraction(1)
        with rehearsal(self, self._adjacency) as made:
            for number in range(_LEARNINGS):
                fitted = made(number).fit(tables[number % len(tables)])
                boxes.append(fitted.bounds_)
                share = Fraction(fitted.privacy_.releases[-1].share)
        return boxes, share

    def _error_of_fits(self, tables: list[Floats], levels: list[float], mechanism: str) -> float:
        """Return the distance in ranks over fits to public rows: the mean, or a median."""
        found = []
        with rehearsal(self, self._adjacency) as made:
            for number in range(_FITS):
                columns = tables[number % len(tables)]
                curve = released_curve(made(number).fit(columns))
                assert curve is not None
                values = curve[1][1 : 1 + len(levels)]
                found += [
                    rank_distance(column, values[:, j], levels)
                    for j, column in enumerate(columns.T)
                ]
        return float(np.median(found) if mechanism == "smooth" else np.mean(found))

    def error_bound(self, n_samples: int, n_features: int | None = None) -> float:
        """Return which part of the rows lies at most between a quantile and its release.

        Nothing is fitted, read or charged: it answers whether epsilon is enough for any rows. It
        holds for them as clipped to the stated bounds and rounded to the nearest candidate, which
        95% of releases of a column and level keep; most are far closer. There is none for
        learned bounds, which may be far off: with few rows, or more than 2**89 from 0.

        Parameters
        ----------
        n_samples : int
            Number of rows, as far as it is public.
        n_features : int, default=None
            Number of columns; ``n_features_in_`` after `fit`.

        Returns
        -------
        error : float
            Unit: a difference of levels, the part of the rows between the two: with 0.01, a
            released median may have 49% of the rows below it. At most 1, which says that epsilon is
            not enough for any guarantee. Zero if nothing is released.

        Raises
        ------
        ValueError
            If the mechanism is not ``"exponential"``, or bounds are not stated: nothing holds for
            all rows then.
        """
        n, d = self._sizes(n_samples, n_features, bounds=self.bounds)
        if self._check_mechanism() != "exponential":
            raise ValueError("error_bound holds for mechanism='exponential' only")
        levels, cost = self._levels(), self.privacy_cost()
        if cost is None or not levels:
            return 0.0
        step = _check_step(self.step, self.prior)
        stated = check_bounds(self.bounds, d, self._names())
        if stated is None:
            raise ValueError(
                "bounds must be stated for error_bound: learned ones may miss any part of the rows"
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
