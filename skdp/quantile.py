"""Private medians and quantiles of every column, and the fit that their transformers share.

The exponential mechanism chooses among the points of a public grid, or the multiples of a `step`.
Other mechanisms add noise scaled to the smooth or to the global sensitivity. Proofs: quantiles.md.
"""

from __future__ import annotations

import importlib
import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from skdp._docstrings import documenter
from skdp.base.expected_error import (
    Fresh,
    check_like,
    mean_error,
    rehearsal,
    rehearsal_rng,
    rehearsals,
    stretched,
    unanswered,
)
from skdp.base.mixin import learned_alone
from skdp.base.transformers import (
    Floats,
    Pair,
    Scaler,
    present_bounds,
    present_columns,
    warn_of_far_bounds,
)
from skdp.core import Box, Session
from skdp.parameters import STEP, Table
from skdp.planning import LEARNING_SHARE, Allowance, bounds_in
from skdp.queries import (
    SPREAD_BITS,
    Lattice,
    LearnedBox,
    NoisyQuantiles,
    Quantiles,
    RankedColumn,
    SmoothMedian,
    allowances,
    check_levels,
    multiples,
    planned_noise,
    rank_scale,
    rates,
    recursion,
)

if TYPE_CHECKING:
    from skdp.preprocessing import DPQuantileTransformer as DPQuantileTransformer
    from skdp.preprocessing import DPRobustScaler as DPRobustScaler

__all__ = ["DPMedian", "DPQuantile", "DPQuantileTransformer", "DPRobustScaler"]


def __getattr__(name: str) -> Any:
    if name in ("DPQuantileTransformer", "DPRobustScaler"):  # where they were until 0.2
        return getattr(importlib.import_module("skdp.preprocessing"), name)
    raise AttributeError(f"module 'skdp.quantile' has no attribute {name!r}")


_MISSED = 0.05  # chance that a released quantile is further off than `error_bound`
_DRAWS = 800  # of quantiles, for an expected error: its relative error is then about 4%
_FITS = 160  # for an expected error of other mechanisms
_TABLES = 16  # drawn from public rows
_LEARNINGS = 8  # of bounds from public rows, at least: they seldom fail
_POINTS = 2.0**19  # candidates of a column, at most, without a step
_NO_CHANCE = 40.0  # candidates with odds below exp(-40) are not drawn

# What the docstrings of all estimators of quantiles share.
TEXTS = {
    "bounds": """
        bounds : "private" or tuple (low, high) or mapping, default="private"
            ... State them if there are few rows.
        """,
    "candidates": """
        step : float or None, default=None
            The candidates for a quantile are the multiples of `step` within the bounds, for example
            1.0 for integers. None: about 2**18 to 2**19 equally spaced points. State it whenever
            values repeat: with enough rows, quantiles of integers are then found exactly. Stated
            bounds must contain a multiple of it.
        prior : {"uniform", "log"}, default="uniform"
            Without a step: ``"uniform"`` candidates are equally spaced; the spacing of ``"log"``
            candidates grows with the distance from 0, over ten powers of two. Use ``"log"`` if
            public knowledge says that values near 0 are likelier than values near the bounds, as
            for amounts of money: with few rows, the noise then goes less far.
        """,
    "mechanism": """
        mechanism : {"exponential", "smooth", "global"}, default="exponential"
            ``"exponential"`` chooses among public candidates (see `step` and `prior`): the closer
            in rank to the quantile, the likelier. ``"smooth"`` adds `noise` scaled to the smooth
            sensitivity; m levels cost a factor m. ``"global"`` adds Laplace or Gaussian noise,
            whichever is less, scaled to the whole width of the bounds, however many rows there are.
            It is here only for comparison, and its quantiles may cross.
        """,
    "noise": """
        noise : {"cauchy", "student", "laplace"}, default="cauchy"
            Only for the smooth mechanism; leave the default for others. Noise with heavy tails
            gives pure epsilon-DP; Laplace noise needs ``delta > 0`` and a single level.
        delta : float or None, default=None
            ... ``noise="laplace"`` spends all of delta.
        """,
    "private_rows": """
        X : array-like or table of shape (n_samples, n_features)
            Private rows, finite numbers. May be in parts (`skdp.engines`) unless
            mechanism="smooth".
        y : None, ignored
        groups : array-like of shape (n_samples,), default=None
        """,
    "ranks": """
        If `step` is stated, rows count as rounded to its multiples. It needs `like`: public
        rows, or an earlier fit of `DPMedian`, `DPQuantile` or `DPQuantileTransformer`. The rows
        matter: if values repeat, a quantile may be found exactly; if they fill a small part of
        the bounds, few rows are not enough. `error_bound` holds for any rows. It is a part of
        the rows instead of a number of ranks, and far larger.
        """,
    "error_in_ranks": """
        **Expected error.** In ranks: the number of rows between the released value and the
        exact quantile, averaged over releases, levels and columns.
        {ranks}
        """,
    "error_in_heavy_ranks": """
        **Expected error.** In ranks: the number of rows between the released value and the
        exact quantile, averaged over releases, levels and columns (for ``mechanism="smooth"``,
        whose noise has heavy tails, the median instead).
        {ranks}
        """,
}
documented = documenter(TEXTS)

# --- expected error in ranks ----------------------------------------------------------------------


@dataclass(frozen=True)
class _Runs:
    """A sorted column as alternating runs: places without rows, and one place with rows."""

    starts: NDArray[np.int64]
    below: NDArray[np.int64]  # rows below
    up_to: NDArray[np.int64]  # rows below or at the place

    @classmethod
    def of(cls, points: NDArray[np.int64], counted: NDArray[np.int64]) -> _Runs:
        starts = np.zeros(2 * points.size + 1, dtype=np.int64)
        below, up_to = np.zeros((2, starts.size), dtype=np.int64)
        starts[1::2], starts[2::2] = points, points + 1
        below[1::2] = counted[:-1]
        below[2::2] = up_to[1::2] = up_to[2::2] = counted[1:]
        return cls(starts, below, up_to)

    def draw(
        self,
        low: int,
        high: int,
        cuts: tuple[int, int],
        q: float,
        rate: float,
        rng: np.random.Generator,
    ) -> int:
        """Draw a place from low to high, with odds exp(-rate) for each rank off level q."""
        target = cuts[0] + q * (cuts[1] - cuts[0])
        reach = (_NO_CHANCE + math.log(high - low + 1.0)) / rate
        first = int(np.searchsorted(self.starts, low, side="right")) - 1
        last = int(np.searchsorted(self.starts, high, side="right"))
        # Whole ranks: for a float, numpy would copy the whole column as floats.
        near = int(np.searchsorted(self.up_to, math.ceil(max(target - reach, 0.0))))
        most = math.floor(min(target + reach, float(self.up_to[-1])))
        far = int(np.searchsorted(self.below, most, side="right"))
        near, far = max(near, first), min(far, last)
        if near >= far:
            near, far = first, last
        starts = np.maximum(self.starts[near:far], low)
        ends = np.append(self.starts[near + 1 : far], high + 1)
        if far < last:
            ends[-1] = self.starts[far]
        below = np.minimum(np.maximum(self.below[near:far], cuts[0]), cuts[1])
        up_to = np.minimum(np.maximum(self.up_to[near:far], cuts[0]), cuts[1])
        off = np.maximum(np.maximum(below - target, target - up_to), 0.0)
        lengths = np.maximum(ends - starts, 0)
        with np.errstate(divide="ignore"):
            logs = np.log(lengths.astype(np.float64)) - rate * off
        weights = np.cumsum(np.exp(logs - logs.max()))
        run = int(np.searchsorted(weights, rng.random() * weights[-1], side="right"))
        run = min(run, len(weights) - 1)
        return int(starts[run]) + int(rng.integers(0, max(int(lengths[run]), 1)))


def _rank_distance(ordered: Floats, values: Floats, levels: Sequence[float]) -> Floats:
    """Return the ranks between each value, shape (..., m), and its level of the rows."""
    target = len(ordered) * np.asarray(levels, dtype=np.float64)
    below = np.searchsorted(ordered, values, side="left")
    up_to = np.searchsorted(ordered, values, side="right")
    return np.maximum(np.maximum(below - target, target - up_to), 0.0)


def _rank_errors(
    ordered: Floats,
    lattice: Lattice,
    levels: Sequence[float],
    allowance: tuple[Fraction, Fraction],
    *,
    replace: bool,
    draws: int,
    rng: np.random.Generator,
) -> Floats:
    """Return ranks between drawn and exact quantiles of one sorted public column, (draws, m).

    Draws the choices of `skdp.queries.quantiles` in floating point, among candidates that are near
    enough in rank, so the time hardly depends on the number of rows. `allowance` is that of a
    round: the last two of `allowances`.
    """
    rounds = recursion(check_levels(levels))
    m, bits = len(levels), SPREAD_BITS
    numbers = lattice.number(ordered)
    column = RankedColumn.of_sorted(numbers)
    points = _Runs.of(column.points, column.below)
    places = _Runs.of(*column.places(0, column.points.size)) if len(rounds) > 1 else points
    steps = [
        list(zip(nodes, rates(nodes, *allowance, replace=replace), strict=True)) for nodes in rounds
    ]
    drawn = np.empty((draws, m), dtype=np.int64)
    for i in range(draws):
        chosen = {-1: 0, m: (lattice.size << bits) - 1}
        cuts = {-1: 0, m: len(ordered)}
        for nodes in steps:
            for node, eta in nodes:
                low, high = chosen[node.left], chosen[node.right]
                part = cuts[node.left], cuts[node.right]
                q, rate = float(node.level), float(eta * node.level.denominator)
                if node.leaf:
                    place = points.draw(low >> bits, high >> bits, part, q, rate, rng) << bits
                else:
                    place = places.draw(low, high, part, q, rate, rng)
                chosen[node.place] = place
                if not node.leaf:
                    cuts[node.place] = min(max(column.rows_below(place), part[0]), part[1])
        drawn[i] = [chosen[j] >> bits for j in range(m)]
    # With a step, the values themselves are rounded to its multiples.
    rows = lattice.value(numbers) if lattice.step else ordered
    return _rank_distance(rows, lattice.value(drawn), levels)


# --- the fit --------------------------------------------------------------------------------------


def check_multiples(step: float | None, stated: Pair | None) -> None:
    """Refuse a step without a candidate in the stated bounds of a column."""
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
    """Return the levels, from 0 to 1, and values (n_levels, n_features) of a fit, if it has any."""
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
    """A fit that releases bounds and quantiles of every column in one session."""

    step: float | None = field(init=False)
    prior: str = field(init=False)

    @abstractmethod
    def _levels(self) -> list[float]:
        """Return the released levels, ascending; none if a fit releases nothing."""

    def _is_free(self) -> bool:
        return not self._levels()

    _parameter_table: ClassVar[Table] = {"step": STEP, "prior": ("uniform", "log")}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.step is not None and self.prior != "uniform":
            raise ValueError("step must be None with prior='log', which sets the candidates itself")

    mechanism: str = field(init=False, default="exponential")  # of classes without this parameter

    @property
    def _step(self) -> float | None:
        return None if self.step is None else float(self.step)

    def _stated_bounds(self, n_features: int, names: Sequence[Any] | None = None) -> Pair | None:
        stated = super()._stated_bounds(n_features, names)
        check_multiples(self._step, stated)
        return stated

    def _noise_of(self, allowance: Allowance, n_features: int | None) -> float:
        if n_features is None:
            return math.nan
        return allowance.choice_scale(n_features * len(self._levels()).bit_length())

    def _check_release(self, d: int, stated: Pair | None) -> None:
        """Refuse noise that a query would refuse only after the charge."""

    def _fit_quantiles(self, X: ArrayLike) -> tuple[Floats, LearnedBox | None]:
        """Set bounds_ and privacy_; return quantiles, (n_levels, n_features), and what was learned.

        Callers warn of learned bounds once the fit is complete.
        """
        rows = self._open(X)
        levels = self._levels()
        stated = self._stated_bounds(rows.n_features)
        self._check_release(rows.n_features, stated)
        if not levels:
            self.bounds_: Pair | None = stated
            self.privacy_ = self._context().nothing_released()
            return np.empty((0, rows.n_features)), None
        if self._omits:
            return self._fit_present(rows, stated, levels)
        with self._session(rows) as session:
            self.bounds_, learned = bounds_in(session, stated)
            view = Box(*self.bounds_, per_feature=True)
            values = self._release(session, view, levels)
        return np.ascontiguousarray(values.T), learned

    def _fit_present(
        self, rows: Any, stated: Pair | None, levels: list[float]
    ) -> tuple[Floats, LearnedBox | None]:
        """Release bounds and quantiles of each column over its non-missing rows."""
        values = []
        with self._session(rows) as session:
            self.bounds_, learned = present_bounds(session, rows.plans, stated, audit=False)
            for column in present_columns(session, rows.plans, self.bounds_):
                query = Quantiles(column.box, levels, step=self._step, prior=self.prior)
                values.append(column.answer(query, "quantiles").value[0])
        return np.ascontiguousarray(np.array(values).T), learned

    def _release(self, session: Session, view: Box, levels: list[float]) -> Floats:
        """Return released quantiles of shape (n_features, n_levels)."""
        if self.mechanism == "global":
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
        tables = [self._columns_like(like, n, d, rng) for _ in range(rehearsals(_TABLES))]
        if self.mechanism != "exponential":
            return self._error_of_fits(tables, levels)
        draws = math.ceil(rehearsals(_DRAWS) / (len(levels) * d * len(tables)))
        rounds = len(levels).bit_length()

        def error(columns: Floats, bounds: Pair, share: Fraction) -> float:
            allowance = self._allowance(d).part(share)
            _, *of_round = allowances(allowance.level, d * rounds, pure=allowance.pure)
            errors = [
                _rank_errors(
                    column,
                    Lattice(float(low), float(high), self._step, self.prior),
                    levels,
                    (of_round[0], of_round[1]),
                    replace=allowance.replace,
                    draws=draws,
                    rng=rng,
                ).mean()
                for column, low, high in zip(columns.T, *bounds, strict=True)
            ]
            return float(np.mean(errors))

        def with_learned(fresh: Fresh, number: int) -> float:
            columns = tables[number % len(tables)]
            return error(columns, *learned_alone(fresh(number), columns))

        if stated is None:
            return mean_error(self, with_learned, least=_LEARNINGS, precision=0.05)
        return float(np.mean([error(columns, stated, Fraction(1)) for columns in tables]))

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

    def _error_of_fits(self, tables: list[Floats], levels: list[float]) -> float:
        """Return the distance in ranks, over fits to public rows: the mean, or a median."""
        ranks = []
        with rehearsal(self) as fresh:
            for number in range(rehearsals(_FITS)):
                columns = tables[number % len(tables)]
                curve = released_curve(fresh(number).fit(columns))
                assert curve is not None
                values = curve[1][1 : 1 + len(levels)]
                ranks += [
                    _rank_distance(column, values[:, j], levels)
                    for j, column in enumerate(columns.T)
                ]
        return float(np.median(ranks) if self.mechanism == "smooth" else np.mean(ranks))

    def error_bound(self, n_samples: int, n_features: int | None = None) -> float:
        """Return a bound on the part of the rows that lies between a quantile and its release.

        Nothing is fitted, read or charged. It tells whether epsilon is large enough, whatever the
        rows are. For each column and level, 95% of releases keep this bound; most are far closer.
        It holds for rows clipped to the stated bounds and rounded to the nearest candidate.

        Parameters
        ----------
        n_samples : int
            Number of rows, as far as it is public.
        n_features : int, default=None

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
        if self.mechanism != "exponential":
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
        fit = self._allowance(d)
        ranks = rank_scale(levels, fit.level, d, pure=fit.pure, adjacency=fit.adjacency)
        # Every round of the recursion adds the error of its own choice. All but the last also
        # choose a place among equal rows, as narrow as 1/n of a candidate.
        rounds = len(levels).bit_length()
        points *= min(n, 2**16) if rounds > 1 else 1
        return min(rounds * ranks * math.log(points * rounds / _MISSED) / n, 1.0)


# --- medians and quantiles ------------------------------------------------------------------------


class _SmoothFit(QuantileFit):
    """A fit with the parameters `mechanism` and `noise`."""

    bounds: Any = "private"
    mechanism: str = "exponential"
    step: float | None = None
    prior: str = "uniform"
    noise: str = "cauchy"

    _in_parts = True
    _parameter_table: ClassVar[Table] = {
        "noise": ("cauchy", "student", "laplace"),
        "mechanism": ("exponential", "smooth", "global"),
    }

    def _check_parameters(self) -> None:
        super()._check_parameters()
        mechanism, noise = self.mechanism, self.noise
        if mechanism != "smooth" and noise != "cauchy":
            raise ValueError(f"noise={noise!r} is for mechanism='smooth' only, not {mechanism!r}")
        if mechanism != "exponential":
            for name, default in (("step", None), ("prior", "uniform")):
                value = getattr(self, name)
                if value != default:
                    raise ValueError(
                        f"{name}={value!r} is for mechanism='exponential' only, not {mechanism!r}"
                    )
        if mechanism == "smooth" and noise == "laplace" and self._allowed_delta == 0:
            raise ValueError(
                "noise='laplace' scaled to smooth sensitivity is private only with delta > 0; "
                "'cauchy' and 'student' do not need it"
            )
        if mechanism == "smooth" and noise == "laplace" and len(self._levels()) > 1:
            raise ValueError(
                "noise='laplace' scaled to smooth sensitivity allows one level only, because it "
                "spends all of delta; 'cauchy' and 'student' allow several"
            )

    def _one_place(self) -> str:
        if self.mechanism == "smooth":
            return "smooth sensitivity reads whole sorted columns; mechanism='exponential' does not"
        return super()._one_place()

    def _noise_of(self, allowance: Allowance, n_features: int | None) -> float:
        if self.mechanism == "exponential":
            return super()._noise_of(allowance, n_features)
        # Each quantile is a pure release, beside Gaussian noise of bounds, too.
        parts = (n_features or math.nan) * max(len(self._levels()), 1)
        return 1 / allowance.part(1 / parts).pure_epsilon if n_features else math.nan

    def _split_delta(self, n_features: int | None = None) -> tuple[float, float]:
        # Laplace noise scaled to smooth sensitivity spends all of delta, and is no Gaussian noise.
        laplace = self.mechanism == "smooth" and self.noise == "laplace"
        return (0.0, self._allowed_delta) if laplace else super()._split_delta(n_features)

    def _check_release(self, d: int, stated: Pair | None) -> None:
        """Refuse here what the query would refuse after the charge."""
        if self.mechanism != "smooth":
            return
        # A little less than the session has, so that rounding there is no refusal.
        share = (1.0 if stated is not None else 1.0 - LEARNING_SHARE - 0.02) * (1 - 1e-9)
        allowance = self._allowance(d).part(share / max(len(self._levels()), 1))
        low, high = stated or (np.zeros(d), np.ones(d))
        query = SmoothMedian(Box(low, high, per_feature=True), noise=self.noise)
        planned_noise(query, allowance, self._allowed_delta * (1 - 1e-9))

    def _release(self, session: Session, view: Box, levels: list[float]) -> Floats:
        if self.mechanism != "smooth":
            return super()._release(session, view, levels)
        share = session.remaining / len(levels)
        values = [
            session.answer(SmoothMedian(view, q=q, noise=self.noise), share).value for q in levels
        ]
        # Sorting moves no quantile away from the exact ones, and they do not cross.
        return np.sort(np.stack(values, axis=1), axis=1)


@documented
class DPMedian(_SmoothFit):
    """Differentially private median of every column.

    Parameters
    ----------
    bounds : "private" or tuple (low, high) or mapping, default="private"
        ... A median within the bounds is not moved by that. State them if there are few rows.
    {mechanism}
    {candidates}
    {noise}

    Attributes
    ----------
    median_ : ndarray of shape (n_features,)
        Released medians, within `bounds_`. Exception: if no multiple of `step` lies within learned
        bounds, the multiple nearest to their middle.
    bounds_ : tuple of two ndarrays of shape (n_features,)

    See Also
    --------
    DPQuantile : Several quantiles at once.
    DPRobustScaler : Centre by the median, scale by the interquartile range.

    Notes
    -----
    **Privacy.** *Released*: bounds, if not stated (from a median of each column, and counts of
    distances from it), and one value for each column. *Sensitivity* of a candidate's score, which
    is its distance in ranks from the median: 1/2 if a row is added or removed, 1 if one is
    replaced. *Mechanism*: the exponential mechanism over all candidates, with an equal part of the
    allowance for each column. For ``"global"``: discrete Laplace or rounded Gaussian noise,
    whichever is less, scaled to the width of the bounds. For ``"smooth"``: admissible noise scaled
    to the smooth sensitivity.

    No error depends on the values in the rows. Without rows, all candidates are equally likely.

    ``transform`` subtracts the medians. Its output is as private as the rows that it is given.

    {error_in_heavy_ranks}

    References
    ----------
    Smith 2011, "Privacy-preserving statistical estimation with optimal convergence rates",
    Algorithm 2 (private quantiles).

    McSherry & Talwar 2007, "Mechanism design via differential privacy", Theorem 6.

    Nissim, Raskhodnikova & Smith 2007, "Smooth sensitivity and sampling in private data
    analysis", Section 3.1 (median).

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.quantile import DPMedian
    >>> ages = np.random.default_rng(0).integers(18, 90, size=(5000, 1))
    >>> DPMedian(bounds=(0, 120), step=1, random_state=0).fit(ages).median_, np.median(ages)
    (array([54.]), np.float64(54.0))
    """

    def _levels(self) -> list[float]:
        return [0.5]

    def fit(self, X: ArrayLike, y: Any = None, *, groups: Any = None) -> Self:
        """Charge the budget and release the medians.

        Parameters
        ----------
        {private_rows}
        """
        with self._all_or_nothing(groups):
            medians, learned = self._fit_quantiles(X)
            self.median_ = medians[0]
        warn_of_far_bounds(self, learned)
        return self

    def _forward(self, values: Floats) -> Floats:
        return values - self.median_

    def _backward(self, values: Floats) -> Floats:
        return values + self.median_

    def predict(self, X: ArrayLike) -> Floats:
        """Return the medians once for each row given: a constant prediction.

        Returns
        -------
        medians : ndarray of shape (n_samples, n_features)
        """
        rows = len(self._public_array(X))
        return np.tile(self.median_, (rows, 1))


@documented
class DPQuantile(_SmoothFit):
    """Differentially private quantiles of every column, all levels at once.

    Parameters
    ----------
    q : float or sequence of float, default=(0.25, 0.5, 0.75)
        Levels in [0, 1], strictly increasing. Their number m costs no more than a factor
        floor(log2 m) + 1 of epsilon.
    {bounds}
    {mechanism}
    {candidates}
    {noise}

    Attributes
    ----------
    quantiles_ : ndarray of shape (n_quantiles, n_features)
        Released quantiles, one row for each level, as ``numpy.quantile`` returns them with
        ``axis=0``. They do not decrease (except with ``"global"``), and they are within `bounds_`.
        Exception: if no multiple of `step` lies within learned bounds, they are the multiple
        nearest to their middle.
    q_ : ndarray of shape (n_quantiles,)
        The levels.
    bounds_ : tuple of two ndarrays of shape (n_features,)

    See Also
    --------
    DPMedian : One level.
    DPQuantileTransformer : Map columns to a uniform or normal distribution.

    Notes
    -----
    **Privacy.** *Released*: bounds, if not stated (from a median of each column, and counts of
    distances from it), and the quantiles. *Mechanism*: the exponential mechanism over all
    candidates. The quantile of the middle level is chosen first. It divides the rows into two
    parts; in each part, the middle one of the remaining levels is chosen, and so on. There are
    floor(log2 m) + 1 rounds for m levels, each with an equal part of the allowance. *Sensitivity*
    of a candidate's score, which is its distance in ranks from the quantile: max(q, 1 - q) if a row
    is added or removed, where q is the level relative to the part (one part of each round sees the
    row); 1 if a row is replaced (two parts of a round may see it).

    Levels 0 and 1 are poorly defined under noise: any candidate beyond all rows is as good as the
    smallest or the largest value. No error depends on the values in the rows.

    ``transform`` subtracts the quantiles of the middle level (the lower of the two middle levels,
    if their number is even). Its output is as private as the rows that it is given.

    {error_in_heavy_ranks}

    References
    ----------
    Kaplan, Schnapp & Stemmer 2022, "Differentially private approximate quantiles", Algorithm 1.

    Dong, Durfee & Rogers 2020, "Optimal differential privacy composition for exponential
    mechanisms", Section 3 (bounded range).

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.quantile import DPQuantile
    >>> X = np.random.default_rng(0).exponential(10.0, size=(20_000, 1))
    >>> quantile = DPQuantile([0.1, 0.5, 0.9], bounds=(0, 1000), random_state=0).fit(X)
    >>> np.abs(quantile.quantiles_ - np.quantile(X, [0.1, 0.5, 0.9], axis=0)).max() < 0.5
    np.True_
    >>> like = np.random.default_rng(1).exponential(12.0, size=(1000, 1))  # made up
    >>> 2 < quantile.expected_error(20_000, like=like) < 20  # ranks
    True
    >>> round(quantile.error_bound(20_000), 3)  # a part of the rows, whatever they are
    0.017
    """

    q: ArrayLike = field(default=(0.25, 0.5, 0.75), kw_only=False)

    _parameter_table: ClassVar[Table] = {"q": lambda value, name: check_levels(value)}

    def _levels(self) -> list[float]:
        return [float(level) for level in check_levels(self.q)]

    def fit(self, X: ArrayLike, y: Any = None, *, groups: Any = None) -> Self:
        """Charge the budget and release the quantiles.

        Parameters
        ----------
        {private_rows}
        """
        with self._all_or_nothing(groups):
            self.quantiles_, learned = self._fit_quantiles(X)
            self.q_ = np.array(self._levels())
        warn_of_far_bounds(self, learned)
        return self

    def _forward(self, values: Floats) -> Floats:
        return values - self.quantiles_[(len(self.q_) - 1) // 2]

    def _backward(self, values: Floats) -> Floats:
        return values + self.quantiles_[(len(self.q_) - 1) // 2]

    def predict(self, X: ArrayLike) -> Floats:
        """Return the quantiles once for each row given: a constant prediction.

        Returns
        -------
        quantiles : ndarray of shape (n_samples, n_features, n_quantiles)
        """
        rows = len(self._public_array(X))
        return np.tile(self.quantiles_.T, (rows, 1, 1))
