"""What the estimators of this package are made of: parameter checks and the fit they share.

Nothing is released here, except that `QuantileFit` asks an open session for bounds and quantiles.
"""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from skdp.base.expected_error import check_like, rehearsal, rehearsal_rng, stretched, unanswered
from skdp.base.scalers import Floats, Pair, Scaler, present_columns
from skdp.core import Box, Session
from skdp.parameters import STEP, Table
from skdp.planning import bounds_in
from skdp.quantile._expected import rank_distance, rank_errors
from skdp.queries import Lattice, NoisyQuantiles, Quantiles, allowances, multiples, rank_scale
from skdp.tabular import Rows

_MISSED = 0.05  # chance that a released quantile is further off than `error_bound`
_DRAWS = 800  # quantiles that are drawn for an expected error: it is then told to about 4%
_FITS = 160
_TABLES = 16  # of public rows
_LEARNINGS = 24  # of bounds, on public rows: where they fail, they fail now and then
_POINTS = 2.0**19  # candidates of a column, at most, without a step


def _check_multiples(step: float | None, stated: Pair | None) -> None:
    """Refuse a step that has no candidate in a column's stated bounds."""
    if step is None or stated is None:
        return
    for j, (low, high) in enumerate(zip(*stated, strict=True)):
        first, last = multiples(float(low), float(high), step)
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

    _parameter_table: ClassVar[Table] = {"step": STEP, "prior": ("uniform", "log")}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.step is not None and self.prior != "uniform":
            raise ValueError("step must be None with prior='log', which sets the candidates itself")

    @property
    def _way(self) -> str:
        """The mechanism: of estimators that have no choice, the exponential one."""
        return "exponential"

    @property
    def _step(self) -> float | None:
        return None if self.step is None else float(self.step)

    def _stated_bounds(self, n_features: int, names: Sequence[Any] | None = None) -> Pair | None:
        stated = super()._stated_bounds(n_features, names)
        _check_multiples(self._step, stated)
        return stated

    def _opened(self, rows: Rows) -> Session:
        """Charge the budget and open the session."""
        return self._session(rows)

    def _check_release(self, d: int, stated: Pair | None) -> None:
        """Refuse noise that a query would refuse after the charge."""

    def _fit_quantiles(self, X: ArrayLike) -> Floats:
        """Charge the budget; set bounds_ and privacy_; return quantiles (n_levels, n_features)."""
        rows = self._open(X)
        levels = self._levels()
        stated = self._stated_bounds(rows.n_features)
        self._check_release(rows.n_features, stated)
        if not levels:
            self.bounds_: Pair | None = stated
            self.privacy_ = self._context().nothing_released()
            return np.empty((0, rows.n_features))
        if self._omits:
            return self._fit_present(rows, stated, levels)
        with self._opened(rows) as session:
            self.bounds_, _ = bounds_in(session, stated)
            view = Box(*self.bounds_, per_feature=True)
            values = self._release(session, view, levels)
            self.privacy_ = session.certificate()
        return np.ascontiguousarray(values.T)

    def _fit_present(self, rows: Any, stated: Pair | None, levels: list[float]) -> Floats:
        """Do the same a column at a time, of the rows that have a value in it."""
        found, low, high = [], np.empty(rows.n_features), np.empty(rows.n_features)
        with self._opened(rows) as session:
            for column in present_columns(session, rows.plans, stated, audit=False):
                asked = Quantiles(column.box, levels, step=self._step, prior=self.prior)
                found.append(column.answer(asked, "quantiles").value[0])
                low[column.number], high[column.number] = column.low, column.high
            self.privacy_ = session.certificate()
        self.bounds_ = low, high
        return np.ascontiguousarray(np.array(found).T)

    def _release(self, session: Session, view: Box, levels: list[float]) -> Floats:
        """Return released quantiles of shape (n_features, n_levels)."""
        if self._way == "global":
            return session.answer(NoisyQuantiles(view, levels)).value
        return session.answer(Quantiles(view, levels, step=self._step, prior=self.prior)).value

    def _expected_error(self, n: int, d: int, like: Any) -> float:
        levels = self._levels()
        if not levels:
            return 0.0
        self._refuse_error_of_present()
        stated = self._stated_bounds(d)
        if like is None:
            raise unanswered(
                self,
                "the rows: on how often values repeat, and on how much of the bounds they fill",
                " (of DPMedian, DPQuantile or DPQuantileTransformer). error_bound() holds for any "
                "rows",
            )
        rng = rehearsal_rng()
        tables = [self._columns_like(like, n, d, rng) for _ in range(_TABLES)]
        if self._way != "exponential":
            return self._error_of_fits(tables, levels)
        share = Fraction(1)
        if stated is None:
            boxes, share = self._rehearsed_bounds(tables)
        else:
            boxes = [stated] * _TABLES
        allowance = self._allowance().part(share)
        rounds = len(levels).bit_length()
        _, whole, half = allowances(allowance.level, d * rounds, pure=allowance.pure)
        draws = max(3, math.ceil(_DRAWS / (len(levels) * d * len(boxes))))
        found = [
            rank_errors(
                columns[:, j],
                Lattice(float(low[j]), float(high[j]), self._step, self.prior),
                levels,
                (whole, half),
                replace=allowance.replace,
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

    def _error_of_fits(self, tables: list[Floats], levels: list[float]) -> float:
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
        return float(np.median(found) if self._way == "smooth" else np.mean(found))

    def error_bound(self, n_samples: int, n_features: int | None = None) -> float:
        """Return a bound on the part of the rows that lies between a quantile and its release.

        Nothing is fitted, read or charged. Use it to see whether epsilon is large enough, whatever
        the rows are. For each column and level, 95% of releases keep this bound; most are far
        closer. It holds for the rows after clipping to the stated bounds and rounding to the
        nearest candidate. It is not available for learned bounds, which may be far off (with few
        rows, or with values more than 2**89 from 0).

        Parameters
        ----------
        n_samples : int
            Number of rows, as far as it is public.
        n_features : int, default=None
            Number of columns; ``n_features_in_`` after `fit`.

        Returns
        -------
        error : float
            A difference of levels, which is a part of the rows: with 0.01, a released median may
            have 49% of the rows below it. At most 1, which means that epsilon is too small for any
            guarantee. Zero if nothing is released.

        Raises
        ------
        ValueError
            If the mechanism is not ``"exponential"``, or if bounds are not stated: there is no
            bound for all rows then.
        """
        n, d = self._sizes(n_samples, n_features, bounds=self.bounds)
        if self._way != "exponential":
            raise ValueError("error_bound holds for mechanism='exponential' only")
        levels = self._levels()
        if not levels:
            return 0.0
        self._refuse_error_of_present()
        step, stated = self._step, self._stated_bounds(d)
        if stated is None:
            raise ValueError(
                "bounds must be stated for error_bound: learned ones may miss any part of the rows"
            )
        points = _POINTS
        if step is not None:
            with np.errstate(over="ignore", invalid="ignore"):
                widest = float(np.max(stated[1] / step - stated[0] / step))
            points = min(widest + 1.0, 2.0**40) if math.isfinite(widest) else _POINTS
        whole = self._allowance()
        ranks = rank_scale(levels, whole.level, d, pure=whole.pure, adjacency=whole.adjacency)
        # Every round of the recursion adds the error of its own choice. All but the last choose a
        # place among equal rows too, as narrow as 1/n of a candidate.
        rounds = len(levels).bit_length()
        points *= min(n, 2**16) if rounds > 1 else 1
        return min(rounds * ranks * math.log(points * rounds / _MISSED) / n, 1.0)
