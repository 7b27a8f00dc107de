"""Private least squares: `DPRidge` and `DPLinearRegression`.

A fit releases bounds, unless stated; the number of rows, where it is private; the mean of the
target; the mean and mean square of every column, unless noise would hide them; and one noisy
matrix: the second moment of the rows with their target or targets, standardised and clipped to a
norm. Predictions shrink coefficients by what the noise hides; `summary()` does not (_solving.py).
Where the target's bounds are not stated and rows are few, one point amid the targets is all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from skdp.base.batch_invariant import products
from skdp.base.classifiers import (
    COUNT_SHARE,
    Floats,
    Standard,
    TargetRegressor,
    standardised,
)
from skdp.base.mixin import WEIGHT_BOUND, check_weight_bound
from skdp.confidence.equations import check_level
from skdp.core import Mean, ScaledBox, Session
from skdp.linear_model._solving import (
    HIDDEN,
    Errors,
    Estimate,
    Prior,
    Summary,
    constrained,
    least_squares,
    shrunk,
)
from skdp.parameters import FLAG, Reals, Table, check_parameter
from skdp.planning import Allowance, row_count, weight_bound_in
from skdp.queries import (
    GramRelease,
    OfColumn,
    SecondMoment,
    StandardBall,
    WeightedBall,
)
from skdp.tabular import dense_blocks, listed

__all__ = ["DPLinearRegression", "DPRidge"]

# The mean of the target gets the least share with this noise, in half widths, within limits; more
# than the upper one where noise hides everything else.
_MEAN_NOISE, _MEAN_SHARE, _MEAN_ONLY = 0.04, (0.02, 0.4), 0.98
_MOMENTS_SHARE = 0.1
_MEANS_USEFUL = 0.3  # noise of the means of columns, in half widths
_NARROW = 1.6  # a target whose scale is hidden is narrower by this factor than a uniform one
_LEAST_SCALE = 0.05  # of a column, in half widths: predictions reach no further from its center
_TAU = 0.25  # the constant feature, as a part of the radius
# A row's norm is clipped to so many times its expected one (from, to) that noise has this edge
# beside a variance of 1.
_RADII, _EDGE = (0.5, 4.0), 0.05
# With less noise than this, the norm is that of the longest row within the bounds, and coefficients
# have errors. From .05 to .2 predictions hardly differ (22 tables), except that with .2 those from
# collinear columns lose .02 in R squared.
_WHOLE_EDGE = 0.1
# Predictions leave a column out if its variance is hidden, and below this part of the average. (If
# all hidden ones were left out, R squared would be .1 less where noise is large.)
_STILL = 0.1
_LARGEST = 1e300
_SHORT = "No standard errors: noise is too large for bounds that are so wide: {} {}"
_HIDDEN = (
    "No standard errors: noise hides a direction of the columns. If columns are not collinear (one-"
    "hot columns that add up to 1 are: leave one out), {} {}"
)
_FLAT = (
    "Without {}, which noise hides or which does not vary within its bounds: errors of the others "
    "are relative to a regression without it. "
)
_LEARNED = (
    "No standard errors: what lies beyond the learned bounds of {} is not known. State bounds and "
    "target_bounds."
)
_WEIGHTED = (
    "No standard errors: rows have weights, and what lies beyond learned bounds is not known. "
    "State bounds and target_bounds."
)
_NO_WEIGHTS = "No standard errors: noise hides the sum of the weights."
_OF_ROWS = (
    "No standard errors: rows have weights, or a unit may have several rows. of='rows' has errors "
    "for the rows at hand."
)
_CONSTRAINED = (
    "No standard errors: they are not known without an intercept, nor where coefficients may not "
    "be below 0."
)
_LIMITED = "No standard errors: the penalty is too large for the scale of a column."
_NAMED, _WIDE = 3, 5.0  # columns that a note names, and how far their bounds reach at least
# Deviations of noise, over half the root of the dimension, in which the least direction is seen.
_MARGIN, _BARELY = 2.5, 0.2
_LONGER = 2.5  # Whole rows turn out to need so many times the planned rows.
_SHRUNK = "These are not shrunk; predictions use coef_, which is."
_NO_CONSTANT = 2.0**-30  # weighted rows bring their own
_SEEN = 10.0  # standard errors of the sum of weights, above which coefficients have errors


def _least_share(noise: Callable[[float], float], most: float) -> float:
    """Return the least part of an allowance, up to 1, with so little noise."""
    parts: list[float] = np.geomspace(_MEAN_SHARE[0], 1.0, 40).tolist()
    return next((part for part in parts if noise(part) <= most), 1.0)


def _noise_over_rows(allowance: Allowance, n: float, d: int, width: int) -> float:
    """Return the edge of the noise on moments of short rows, over what they may show.

    Rows of the least norm have the square d / 4 and that of the targets; the largest eigenvalue of
    d columns that are alike is about 1 + d / 8 (in 12 development tables).
    """
    square = _RADII[0] ** 2 * _square(d, width)
    return allowance.gram_std(width) * square / n / (1.0 + d / 8.0)


def _stretch(d: int, width: int) -> float:
    """Return by how much a scaled target is longer than a scaled column, of d.

    Noise of the products with the target falls by as much, and that of all others hardly grows.
    """
    return (d / (width - d)) ** 0.33 if d else 1.0


def _square(d: int, width: int) -> float:
    """Return the expected squared norm of a standardised row with its targets."""
    return d + (width - d) * _stretch(d, width) ** 2


def _mean_of_target(
    session: Session, low: Floats, high: Floats, n: float, width: int
) -> tuple[Floats, Floats]:
    """Release the mean of the targets by itself; return it and its standard error."""
    query, allowance, d = Mean(ScaledBox(low, high)), Allowance.left(session), width - low.size
    share = _least_share(lambda part: allowance.part(part).query_std(query) / n, _MEAN_NOISE)
    hopeless = _noise_over_rows(allowance, n, d, width) > 1.0
    share = min(share, _MEAN_ONLY if hopeless else _MEAN_SHARE[1]) * float(session.remaining)
    release = session.answer(OfColumn(d, query, width), share, name="mean of the target")
    half, mean = high / 2 - low / 2, np.clip(release.value, -1.0, 1.0)
    return (high / 2 + low / 2) + mean * half, float(np.mean(release.std)) * half


def _standardised(session: Session, low: Floats, high: Floats, n: float, share: float) -> Standard:
    """Return center and scale of columns and target, from moments or at least from means."""
    allowance = Allowance.left(session, 1.0)
    standard = standardised(session, allowance, low, high, n, share, again=True)
    means = Mean(ScaledBox(low, high))
    if math.isfinite(standard.spread) or (
        allowance.part(share).query_std(means) / n > _MEANS_USEFUL
    ):
        return standard
    mean = np.clip(session.answer(means, share).value, -1.0, 1.0)
    return replace(standard, center=standard.center + mean * (high / 2 - low / 2))


def _stretched(standard: Standard, low: Floats, high: Floats, center: Floats) -> Standard:
    """Return the standard of columns and targets about this center of the targets.

    Scales have a least part of the bounds, and the targets are scaled up.
    """
    width = low.size
    scale, middle = standard.scale[:width].copy(), standard.center[:width].copy()
    scale = np.where(high > low, np.maximum(scale, _LEAST_SCALE * (high / 2 - low / 2)), scale)
    d = width - center.size
    scale[d:] /= _stretch(d, width) * (1.0 if math.isfinite(standard.spread) else _NARROW)
    middle[d:] = center
    return replace(standard, center=middle, scale=scale)


def _equations(
    gram: GramRelease, penalty: Floats, n: float, t: float, varies: NDArray[np.bool_]
) -> tuple[Floats, Floats, float]:
    """Return M, m and the deviation of their noise, of columns and the constant t.

    Columns whose bounds are equal are 0, so that their entries are noise.
    """
    d = len(penalty)
    M, m = np.empty((d + 1, d + 1)), np.empty(d + 1)
    M[:d, :d] = gram.second_moment[:d, :d] / n + np.diag(penalty / n)
    M[:d, d] = M[d, :d] = t * gram.total[:d] / n
    M[d, d] = t * t * gram.n / n
    m[:d], m[d] = gram.second_moment[:d, d] / n, t * gram.total[d] / n
    return *_without(M, m, ~varies), gram.std / n


def _without(M: Floats, m: Floats, columns: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Return the equations without these columns, whose coefficients are 0."""
    flat = np.flatnonzero(columns)
    M, m = M.copy(), m.copy()
    M[flat], M[:, flat], m[flat] = 0.0, 0.0, 0.0
    M[flat, flat] = 1.0
    return M, m


def _rows(n: float) -> str:
    """Return a number of rows with two digits."""
    return f"{float(f'{n:.1e}'):,.0f}"


def _asked(rows: float, seen: float, least: float = math.inf) -> str:
    """Say what would give errors: so many rows over what is seen of the least direction, if any.

    If nothing tells that number, at least `least`.
    """
    number = ""
    if seen > _BARELY and math.isfinite(rows):
        number = f"n * epsilon = {_rows(rows / min(seen, 1.0))}"
    elif math.isfinite(least):
        number = f"n * epsilon of at least {_rows(least)}"
    return f"{number or 'more rows, a larger epsilon'} or narrower bounds would give some."


def _widest(
    names: tuple[str, ...], standard: Standard, low: Floats, high: Floats, stretch: float
) -> str:
    """Name the columns whose bounds are widest beside the released spread of their rows."""
    if standard.hidden is None:
        return ""
    reach = np.maximum(high - standard.center, standard.center - low) / standard.scale
    reach[-1] /= stretch
    order = [j for j in np.argsort(-reach, kind="stable")[:_NAMED] if reach[j] > _WIDE]
    of = (*names[:-1], "the target")
    each = [f"{of[j]} ({'over ' * bool(standard.hidden[j])}{reach[j]:.2g})" for j in order]
    beside = "Widest, in standard deviations from the mean: "
    return f"{beside}{', '.join(each)}." if each else ""


def _shortened(
    allowance: Allowance,
    n: float,
    standard: Standard,
    low: Floats,
    high: Floats,
    deviations: Floats,
    d: int,
) -> tuple[Standard, float, float]:
    """Return the standard of the rows, the norm that they are clipped to, and the noise.

    The noise is that of whole rows, over the most with which rows stay whole. Of d columns, the
    `deviations` may be below the scales.

    If rows stay whole, the scale of a column with deviation a and bounds up to b from the center is
    sqrt(a b): noise is that of the squared norm sum(b**2 / scale**2) times squares of scales, and
    by Cauchy and Schwarz these scales minimise sum(b**2 / scale**2) sum(scale**2 / a**2).
    """
    edge = allowance.gram_std(low.size) / n
    center, scale, width = standard.center, deviations, low.size
    far = np.maximum(high - center, center - low)
    whole = replace(standard, scale=np.where(far > scale, np.sqrt(far) * np.sqrt(scale), scale))
    reach = whole.reach(low, high)
    # On average over the columns that are seen, beside a variance of 1.
    squares = (whole.scale / scale)[:d] ** 2
    hidden = None if standard.hidden is None else standard.hidden[:d]
    average = float(np.mean(squares if hidden is None or hidden.all() else squares[~hidden]))
    noise = edge * reach**2 * average / _WHOLE_EDGE
    if noise <= 1.0:
        return whole, reach, noise
    square = _square(d, width)
    factor = min(max(math.sqrt(_EDGE / (edge * square)), _RADII[0]), _RADII[1])
    return standard, min(factor * math.sqrt(square), standard.reach(low, high)), noise


def _weighted(gram: GramRelease, radius: float) -> tuple[GramRelease, bool]:
    """Split the constant off the moments of weighted rows; say whether noise hides their weight.

    The constant's sum of squares is that of the weights, in parts of the largest one.
    """
    t = _TAU * radius
    moment = gram.second_moment
    weight, error = float(moment[-1, -1]) / t**2, gram.diagonal_std / t**2
    total = moment[:-1, -1] / t
    gram = replace(gram, second_moment=moment[:-1, :-1], total=total, n=max(weight, 1.0))
    return gram, weight > _SEEN * error


@dataclass(frozen=True)
class _Moments:
    """What a fit has released, of the columns and one target, or of several.

    `short` is the noise of whole rows, over the most with which rows stay whole.
    """

    gram: GramRelease
    standard: Standard
    measured: Standard  # before scales were widened for whole rows
    low: Floats
    high: Floats
    known: NDArray[np.bool_]  # which bounds were stated
    learned: Any
    center: Any  # of the target, and its standard error
    error: Any
    total: float  # weight of the rows, in parts of the largest
    radius: float
    short: float
    stretch: float
    alpha: Any

    def of(self, d: int, j: int) -> _Moments:
        """Return those of the d columns and target j alone."""
        ix = np.append(np.arange(d), d + j)
        second = np.ascontiguousarray(self.gram.second_moment[np.ix_(ix, ix)])

        def part(of: Standard) -> Standard:
            hidden = None if of.hidden is None else of.hidden[ix]
            return replace(of, center=of.center[ix], scale=of.scale[ix], hidden=hidden)

        return replace(
            self,
            gram=replace(self.gram, second_moment=second, total=self.gram.total[ix]),
            standard=part(self.standard),
            measured=part(self.measured),
            low=self.low[ix],
            high=self.high[ix],
            known=self.known[ix],
            learned=None if self.learned is None else self.learned.columns(ix),
            center=float(self.center[j]),
            error=float(self.error[j]),
            alpha=float(self.alpha[j]),
        )


class _LeastSquares(TargetRegressor):
    """Least squares, without or with a penalty."""

    _takes_sparse = _takes_table = True
    _one_row = False  # coefficients of a y of one column have one dimension, as in `Ridge`

    alpha: Any = field(init=False, default=0.0)
    fit_intercept: bool = True
    positive: bool = False
    bounds: Any = "private"
    target_bounds: Any = "private"
    weight_bound: Any = "private"

    _parameter_table: ClassVar[Table] = {
        "fit_intercept": FLAG,
        "positive": FLAG,
        "weight_bound": WEIGHT_BOUND,
    }

    # --- fitting ------------------------------------------------------------------------------

    def _target_bounds(self, n_targets: int | None = None) -> Any:
        penalties = np.size(self.alpha)
        if n_targets and np.ndim(self.alpha) and penalties != n_targets:
            raise ValueError(
                f"alpha: Number of targets and number of penalties do not correspond: {penalties} "
                f"!= {n_targets}"
            )
        return super()._target_bounds(n_targets)

    def fit(
        self, X: ArrayLike, y: ArrayLike, *, sample_weight: Any = None, groups: Any = None
    ) -> Self:
        """Charge the budget and fit.

        Parameters
        ----------
        X : array-like, sparse matrix or table of shape (n_samples, n_features)
            Private rows of finite numbers. The time for sparse rows depends on how many cells they
            store. May be in parts (`skdp.engines`).
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Private targets, finite numbers.
        sample_weight : array-like of shape (n_samples,), default=None
            ... They weigh squared errors.
        """
        with self._all_or_nothing(groups):
            if sample_weight is None:
                self._fitted(X, y)
            else:
                self._check_parameters()
                self._fitted(X, y, sample_weight, most=check_weight_bound(self))
        return self

    def _noise_of(self, allowance: Allowance, n_features: int | None) -> float:
        # Bounds are stated: of learned ones, which take more, the noise of learning is compared.
        # With a share of .4, coefficients of 2 columns had 1.25 times the error with a delta.
        return math.nan if n_features is None else allowance.part(0.85).gram_std(n_features + 1)

    def _fit(
        self,
        session: Session,
        columns: Any,
        target: Any,
        width: int,
        most: Any = None,  # that a weight may be
        n_targets: int | None = None,  # of targets of two dimensions
    ) -> None:
        k = n_targets or 1
        d = width - k
        n = row_count(session, COUNT_SHARE)
        self.weight_bound_ = most = weight_bound_in(session, most, width)
        weights = () if most is None else ((np.zeros(1), np.array([most])),)
        if self._times_short(session, target, n, k) > 1.0:
            self._fit_constant(session, columns, target, width, n, n_targets)
            return
        low, high, learned, known = self._boxed(
            session, columns, target, width, *weights, n=n, targets=k
        )
        center, error = _mean_of_target(session, low[d:width], high[d:width], n, width)
        share = _MOMENTS_SHARE * float(session.remaining)
        standard = _standardised(session, low, high, n, share)
        total = n  # of weights, in parts of the largest: for the plan
        if most is not None:
            total = max(n * min(float(standard.center[width]) / most, 1.0), 1.0)
        low, high, known = low[:width], high[:width], known[:width]
        deviations = standard.scale
        standard = _stretched(standard, low, high, center)
        # Scales have a least part of the bounds. Deviations that are clearly seen may be below.
        clear = np.resize(standard.clear, width) & (np.arange(width) < d)
        measured = replace(standard, scale=np.where(clear, deviations[:width], standard.scale))
        allowance = Allowance.left(session)
        standard, radius, short = _shortened(
            allowance, total, standard, low, high, measured.scale, d
        )
        view = StandardBall(low, high, standard.center, standard.scale, radius)
        if most is None:
            gram, weights_seen = session.answer(SecondMoment(view, _TAU)), True
        else:
            of_weights = session.answer(SecondMoment(WeightedBall(view, _TAU, most), _NO_CONSTANT))
            gram, weights_seen = _weighted(of_weights, radius)
            total = gram.n
        moments = _Moments(
            gram, standard, measured, low, high, known, learned, center, error, total, radius,
            short, _stretch(d, width), np.broadcast_to(np.asarray(self.alpha, dtype=np.float64), k),
        )  # fmt: skip
        units = standard.scale[d:]
        variances = np.diag(gram.second_moment)[d : d + k] / total
        spreads = np.sqrt(np.maximum(variances, 0.0)) * units
        self._warn_of_noisy_mean(error, spreads, low[d:], high[d:])
        self.n_samples_ = n
        self.bounds_ = low[:d].copy(), high[:d].copy()
        self.center_, self.scale_, self.radius_ = standard.center, standard.scale, radius
        # Rows of one unit are alike, so their number does not tell the error for a population; and
        # errors may be larger where weights are small.
        of_rows = most is not None or session.max_rows_per_unit not in (None, 1)
        options: Any = {"most": most, "weights_seen": weights_seen, "of_rows": of_rows}
        each = [self._solved(moments.of(d, j), n, **options) for j in range(k)]
        self._set(each, low[d:], high[d:], n_targets)

    def _set(self, each: list[Any], low: Floats, high: Floats, n_targets: int | None) -> None:
        """Set the attributes of each target: numbers and vectors for one, else arrays."""
        columns = [list(values) for values in zip(*each, strict=True)]
        self._inference: list[Any] = columns.pop()
        of_all = [values[0] if n_targets is None else np.array(values) for values in columns]
        if n_targets == 1 and self._one_row:
            of_all = [values[0] if values.ndim == 2 else values for values in of_all]
        self.coef_, self.intercept_, self.noise_level_ = of_all[:3]
        self.coef_std_error_, self.intercept_std_error_, self.coef_population_std_error_ = of_all[
            3:
        ]
        ends = low.copy(), high.copy()
        self.target_bounds_ = (float(low[0]), float(high[0])) if n_targets is None else ends

    def _solved(
        self, of: _Moments, n: float, *, most: float | None, weights_seen: bool, of_rows: bool
    ) -> tuple[Any, ...]:
        """Return what predicts one target, its errors, and what `summary` says of it."""
        gram, standard, total, radius, short = of.gram, of.standard, of.total, of.radius, of.short
        low, high, known, learned, center = of.low, of.high, of.known, of.learned, of.center
        d = low.size - 1
        width, stretch = len(self.scale_), of.stretch
        scale, units, t = standard.scale[:d], standard.scale[d], _TAU * radius
        squares = np.maximum(scale, 1e-150) ** 2  # never 0, by which no penalty is NaN
        penalty = np.minimum(of.alpha / squares / (most or 1.0), _LARGEST)
        varies = high[:d] > low[:d]
        M, m, std = _equations(gram, penalty, total, t, varies)
        # The mean of the centred target is 0 by its own release, but not that of weighted rows.
        shown = min(float(of.error / units), 1e100) if most is None else stretch
        # In shortened rows, columns and target have the variance 1, but for the stretch; in whole
        # rows, where bounds may be wide, that which was released.
        variances = np.diag(gram.second_moment) / total
        variance = max(float(variances[:d].mean()), _LEAST_SCALE)
        square = np.full(d, stretch**2 / d / max(variance, 1.0))
        if short <= 1.0:
            of_target = min(max(float(variances[d]), std), stretch**2)
            square = of_target / d / np.clip(variances[:d], 4.0 * std, None)
        most_trace = radius**2 + t**2 + float(penalty.sum()) / total
        prior = Prior(square, shown / t, most_trace)
        back = np.diag(np.append(units / scale, units * t))
        back[d, :d] = -standard.center[:d] * units / scale
        back[:, :d] *= varies  # coefficients of other columns are 0 by the bounds
        start = np.append(np.zeros(d), center)
        # A column that does not vary would have a large coefficient, of mere noise.
        still = variances[:d] <= min(HIDDEN * std, _STILL * max(float(variances[:d].mean()), 0.0))
        still &= varies
        seen_M, seen_m = _without(M, m, still)
        spectrum = np.linalg.eigh(seen_M)
        theta, noise_level = shrunk(seen_M, seen_m, std, prior, spectrum)
        line = None if self.fit_intercept else (back[d], center)
        limits: Any = {"line": line, "positive": self.positive}
        free = self.fit_intercept and not self.positive
        if not free:
            theta = constrained(theta, seen_M, std, **limits)
        solution = np.clip(np.nan_to_num(start + back @ theta), -_LARGEST, _LARGEST)
        solution[:d] = np.maximum(solution[:d], 0.0) if self.positive else solution[:d]
        intercept = solution[d] if self.fit_intercept else 0.0
        # Columns that do not vary, as far as noise shows, tell nothing of the others.
        hidden = (np.diag(M)[:d] <= HIDDEN * std) & varies
        if hidden.any():
            M, m = _without(M, m, hidden)
        if not np.array_equal(M, seen_M):
            spectrum = np.linalg.eigh(M)
        of_target = float(gram.second_moment[d, d]) / total
        pulls = np.append(np.where(varies & ~hidden, penalty, 0.0) / total, 0.0)
        least = least_squares(M, m, std, of_target, pulls, n, spectrum)
        if not free and least.seen > 1.0:
            least = replace(least, theta=constrained(least.theta, M, std, **limits))
        beyond = np.zeros(d + 1)
        if learned is not None and most is None:
            beyond = self._beyond(learned, standard, least, back, known, hidden, t)
        names = (*map(str, getattr(self, "feature_names_in_", range(d))), "intercept")
        why = ""
        rows = n * float(self.epsilon)
        if standard.hidden is None or standard.hidden[:d].any():
            rows = math.inf  # Of columns whose scale is hidden, nothing tells how many are needed.
        if short > 1.0:
            # Noise of whole rows has the edge _WHOLE_EDGE then, beside columns with variance 1.
            seen = (least.smallest - std) / variance * math.sqrt(width) / (_MARGIN * _WHOLE_EDGE)
            least_rows = n * float(self.epsilon) * short * _LONGER
            least_rows = math.inf if standard.hidden is None else least_rows
            wide = _widest(names, of.measured, low, high, stretch)
            why = _SHORT.format(_asked(rows * short * _LONGER, seen, least_rows), wide)
        elif not least.seen > 1.0:
            seen = (least.smallest - std) / least.smallest * least.seen / 1.25
            wide = _widest(names, of.measured, low, high, stretch)
            why = _HIDDEN.format(_asked(rows, seen), wide)
        elif not free:
            why = _CONSTRAINED
        elif not weights_seen:
            why = _NO_WEIGHTS
        elif learned is not None and most is not None:
            why = _WEIGHTED
        elif learned is not None and not np.isfinite(beyond).all():
            unknown = np.flatnonzero(~(learned.sound | known | np.append(hidden, False)))
            which = listed([(*names[:d], "the target")[j] for j in unknown])
            why = _LEARNED.format(which or "some columns")
        elif np.any(penalty >= _LARGEST):
            why = _LIMITED
        if why:
            beyond = beyond + math.nan
        elif noise_level:
            why = _SHRUNK
        if hidden.any():
            beyond[:d][hidden] = math.nan
            start[:d][hidden] = math.nan
            why = _FLAT.format(listed([names[j] for j in np.flatnonzero(hidden)])) + why
        pure = gram.noise == "wishart"
        errors = {
            "rows": least.errors(start, back, beyond, population=False, pure=pure),
            "population": least.errors(
                start, back, beyond + (math.nan if of_rows else 0.0), population=True, pure=pure
            ),
        }
        # What is not shrunk is the estimate itself.
        same = math.nan if noise_level or (still | hidden).any() else 0.0
        of_all = errors["rows"].std_error + same
        of_population = errors["population"].std_error[:d] + same
        inference = names, errors, why
        return (
            solution[:d], intercept, noise_level, of_all[:d], float(of_all[d]), of_population,
            inference,
        )  # fmt: skip

    def _fit_constant(
        self,
        session: Session,
        columns: Any,
        target: Any,
        width: int,
        n: float,
        n_targets: int | None,
    ) -> None:
        """Predict a point amid the targets of few rows."""
        k = n_targets or 1
        d = width - k
        points, note, low, high = self._points(session, columns, target, width, n, k)
        unknown = np.full(d + 1, math.nan)
        names = (*map(str, getattr(self, "feature_names_in_", range(d))), "intercept")
        errors = Errors(unknown, unknown, unknown, unknown, unknown)
        inference = names, {"rows": errors, "population": errors}, note
        each = []
        for middle in points.tolist():
            none, of_population = unknown[:d].copy(), unknown[:d].copy()
            point = middle * bool(self.fit_intercept)
            each.append((np.zeros(d), point, math.inf, none, math.nan, of_population, inference))
        self._set(each, low[d:], high[d:], n_targets)
        self.n_samples_ = n
        self.bounds_ = low[:d].copy(), high[:d].copy()
        self.center_, self.scale_ = low / 2 + high / 2, high / 2 - low / 2
        self.radius_ = math.nan

    @staticmethod
    def _beyond(
        learned: Any,
        standard: Any,
        least: Estimate,
        back: Floats,
        stated: Any,
        hidden: Any,
        t: float,
    ) -> Floats:
        """Return the squared effect of rows beyond learned bounds on the coefficients."""
        d = len(least.theta) - 1
        products = learned.product_errors(standard.center)
        means = learned.mean_error()
        # Clipping to stated bounds is no error.
        products[np.ix_(stated, stated)] = 0.0
        without = np.append(hidden, False)
        products[without], products[:, without] = 0.0, 0.0
        means = np.where(stated | without, 0.0, means) / standard.scale
        products = products / np.outer(standard.scale, standard.scale)
        # Errors of different columns are independent, as different rows are beyond their bounds.
        u, constant = np.append(least.theta[:d], 1.0) ** 2, (t * least.theta[d]) ** 2
        moved = np.append(products[:d] ** 2 @ u + means[:d] ** 2 * constant, t**2 * means**2 @ u)
        return np.asarray((back @ least.inverse) ** 2 @ moved)

    def summary(
        self, level: float = 0.95, *, of: str = "population", target: int | None = None
    ) -> Summary:
        """Return coefficients that are not shrunk, with errors, tests and intervals.

        Predictions use `coef_`, which is shrunk where that makes them better. An interval about
        shrunk coefficients would not cover those of least squares.

        Parameters
        ----------
        level : float, default=0.95
            Of the intervals.
        of : {"population", "rows"}, default="population"
            Whose coefficients are estimated: those of the population that the rows were drawn from,
            with errors due to sampling and noise, or those of the rows at hand, with errors due to
            noise alone.
        target : int, default=None
            Which one of several, by its column in y.

        Returns
        -------
        summary : Summary
            `names`, `coef`, `std_error`, `z`, `p_value`, `low` and `high` of the columns and the
            intercept, and a `note`, which says why errors are NaN. `to_frame()` is a data frame.

        Notes
        -----
        Coefficients are those of rows, or of a population, clipped to stated bounds. Released
        moments do not show whether the residuals vary more for some rows than for others. Errors of
        a population hold if they do not, as those of ``OLS(...).fit()`` in statsmodels do. Bounds
        that clip a skewed column make them vary: with 1% of its cells clipped, 95% intervals
        covered 92%. With a penalty that moves coefficients much, columns must be about normal, too.
        """
        check_is_fitted(self)
        check_parameter(of, "of", "population", "rows")
        level = check_level(level)
        if target is None and len(self._inference) == 1:
            target = 0
        if not (isinstance(target, int) and 0 <= target < len(self._inference)):
            raise ValueError(
                f"target must be an integer from 0 to {len(self._inference) - 1}, got {target!r}"
            )
        names, both, note = self._inference[target]
        errors: Errors = both[of]
        if np.isnan(errors.a).all() and not np.isnan(both["rows"].a).all():
            note = f"{_OF_ROWS} {note}".strip()
        return Summary(
            names, errors.estimate, errors.std_error, *errors.test(), *errors.interval(level),
            level, of, note,
        )  # fmt: skip

    # --- predicting ---------------------------------------------------------------------------

    def predict(self, X: ArrayLike) -> Floats:
        """Predict the target of the caller's rows.

        Parameters
        ----------
        X : array-like, sparse matrix or table of shape (n_samples, n_features)
            Clipped to `bounds_`.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Within `target_bounds_`.
        """
        if sparse.issparse(X):
            check_is_fitted(self)
            return np.concatenate([self.predict(block) for block in dense_blocks(X)])
        with np.errstate(over="ignore", invalid="ignore"):
            clipped = np.clip(self._public_array(X), *self.bounds_)
            predicted = products(clipped, np.atleast_2d(self.coef_))
            predicted = (predicted[:, 0] if self.coef_.ndim == 1 else predicted) + self.intercept_
        return np.clip(np.nan_to_num(predicted), *self.target_bounds_)


def _check_alpha(value: Any, name: str) -> Any:
    """Return a penalty, or one for each target, or raise."""
    several = isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim == 1)
    for one in value if several and len(value) else [value]:
        check_parameter(one, name, Reals(0, math.inf, "[)"))
    return value


class DPRidge(_LeastSquares):
    """Linear least squares with l2 penalty, from one private second moment.

    The private counterpart of scikit-learn's ``Ridge``. With several targets (y of two dimensions)
    all attributes of the target have one entry for each, as in ``Ridge``.

    Parameters
    ----------
    alpha : float or array-like of shape (n_targets,), default=1.0
        Weight of the penalty ``alpha * ||coef||**2``, as in ``Ridge``; at least 0. For predictions,
        coefficients are shrunk further in directions that noise hides (see Notes).
    fit_intercept : bool, default=True
        Without an intercept, or with `positive`, coefficients are the nearest ones that are
        allowed, by the released moments; they have no standard errors.
    positive : bool, default=False
        No coefficient is below 0.
    target_bounds : "private" or tuple (low, high), default="private"
        Range of the target, or arrays with one number for each of several. If not stated, it is
        learned first, with 10% of the allowance at most (up to 50% for few rows); `bounds` with at
        most 20%.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Coefficients of predictions, in the units of X and y; 0 where only the mean is predicted.
    intercept_ : float or ndarray of shape (n_targets,)
    coef_std_error_ : ndarray, as `coef_`
        Standard error of `coef_` due to noise and, with learned bounds, rows beyond them; relative
        to the coefficients of all rows, clipped to stated bounds only. NaN if `coef_` is shrunk
        (`summary()` has coefficients that are not), if rows are shortened (see Notes), or if
        learned bounds cannot be trusted.
    intercept_std_error_ : float or ndarray of shape (n_targets,)
        Standard error of `intercept_`, in the same sense.
    coef_population_std_error_ : ndarray, as `coef_`
        Standard error due to noise and sampling, relative to the coefficients of the population.
        NaN as above, and if a unit may have several rows (`groups`). See `summary` for the
        conditions.
    n_samples_ : float
        Number of rows: exact under ``"replace_one"``, where it is public; otherwise noisy.
    weight_bound_ : float or None
    bounds_ : tuple of two ndarrays of shape (n_features,)
    target_bounds_ : tuple of two floats or two ndarrays of shape (n_targets,)
    center_, scale_ : ndarray of shape (n_features + n_targets,)
        Before rows are clipped to a norm, the columns are centred and scaled by these values. The
        last entries are for the targets.
    radius_ : float
        The norm to which a centred and scaled row, including its target, is clipped; NaN if only a
        point amid the targets was learned.
    noise_level_ : float or ndarray of shape (n_targets,)
        Shrinkage of `coef_`: 0 if there is none, else the noise of m over the deviation of the
        prior (see Notes); infinity if the mean, or about the median, of the target is predicted for
        every row.

    See Also
    --------
    DPLinearRegression : Without a penalty.

    Notes
    -----
    **Privacy.** A row and its target are protected together. *Released*: bounds, if not stated; the
    number of rows, where it is private (2% of the allowance); the mean of the target (2 to 40%, so
    that its noise is .04 half widths of its bounds; 98% if noise would hide all else); the sums and
    sums of squares of all columns and the target (10%; sums alone, or nothing, if noise would hide
    them); then the second moment of z = (clipped row, clipped target, constant), as one symmetric
    matrix. Of few rows (below), only a point amid the targets (75%) and bounds of the columns, if
    not stated. *Sensitivity* of the matrix, where gamma is
    the largest norm of z: if a row is added or removed, gamma**2 in the Frobenius norm and in the
    nuclear norm; if a row is replaced, sqrt(2) gamma**2 in the Frobenius norm and 2 gamma**2 in the
    nuclear norm. *Mechanism*: Gaussian noise, or the symmetrised Wishart mechanism, whichever is
    less.

    **Several targets.** A row and all its targets are protected together, and are one vector: the
    matrix above is that of z = (clipped row, clipped targets, constant), released once, and so are
    the bounds and the mean of the targets. *Sensitivity*, *Mechanism* and *Charged* are the same:
    `radius_` bounds the norm of the row with all its targets. So the fit costs what it costs for
    one target; its noise is larger, by the square of that norm. For k targets the limits of few
    rows are k times those below.

    **Clipping.** Values are clipped to their bounds. Then rows are centred and scaled, together
    with their targets, and clipped to the norm `radius_`. If the noise is small enough, no row
    within the bounds exceeds it. If it is larger, long rows are shortened together with their
    targets, which keeps a linear relation through the center, but gives the row less weight. How
    far the coefficients then are from those of all rows is not known, so their errors are NaN. More
    rows, a larger epsilon or narrower bounds help; the note of `summary()` says how many.

    **Weights.** With `sample_weight` the matrix is the second moment of sqrt(v / b) z, where v is
    the clipped weight of a row and b is `weight_bound`. These vectors lie in the same ball, so the
    sensitivity is the same. Noise is as large as for sum(v) / b rows, so state a bound near the
    weights of most rows. Standard errors are relative to the coefficients of all rows with their
    clipped weights. They are NaN with learned bounds; `coef_population_std_error_` is always NaN.

    **Predictions.** A constant is one more column. M and m are the noisy mean products of columns
    with each other and with the target. Noise moves the eigenvalues of M apart, which is undone;
    none is below 0. A column whose variance noise hides has the coefficient 0. Coefficients are
    posterior means under a normal prior, as those of ridge regression are. The variance of the
    prior says which part of the target the columns explain: six parts from 1% to 100%, and none,
    are averaged by their likelihoods. If they explain next to nothing, the mean of the target is
    predicted. If all eigenvalues are clear of the noise, nothing is shrunk. Rows are clipped to
    `bounds_`, predictions to `target_bounds_`.

    **Few rows.** Where rows times epsilon are below 300 with learned bounds of the target, or below
    100 with stated ones, all predictions are one released point, about its median, and a warning
    says so. There noise is pure, also with a delta, if the number of rows is public; Gaussian noise
    takes more rows. A warning also says where bounds of the target are so wide that noise on its
    mean is a large part of how far targets differ.

    **Inference.** An interval about shrunk coefficients does not cover those of least squares, so
    `summary()` solves M coef = m with no penalty but `alpha`. Its errors are NaN if M is not
    positive definite beyond what noise may do, as with collinear columns. With one-hot columns
    leave one category out. With learned bounds errors are larger than needed: 1.3 to 4 times (three
    tables).

    References
    ----------
    Wang 2018, "Revisiting differentially private linear regression: optimal and adaptive prediction
    & estimation in unbounded domain", Algorithm 2.

    Dwork, Talwar, Thakurta & Zhang 2014, "Analyze Gauss", Algorithm 1 (here with isotropic noise).

    ``skdp/queries/second_moments.md`` (sensitivities, the symmetrised Wishart mechanism).

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.linear_model import DPRidge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, (20_000, 2))
    >>> y = X @ [2.0, -1.0] + 5 + rng.normal(size=20_000)
    >>> model = DPRidge(bounds=(0, 10), target_bounds=(-10, 30), delta=1e-6).fit(X, y)
    >>> np.abs(model.coef_ - [2.0, -1.0]) < 0.2
    array([ True,  True])
    >>> model.predict([[5.0, 5.0]]).round()
    array([10.])
    """

    alpha: Any = field(default=1.0, kw_only=False)

    _one_row = True
    _parameter_table: ClassVar[Table] = {"alpha": _check_alpha}


class DPLinearRegression(_LeastSquares):
    """Ordinary least squares, from one private second moment: `DPRidge` without a penalty.

    The private counterpart of scikit-learn's ``LinearRegression``, for one target or several.
    Parameters, attributes, privacy and errors are those of `DPRidge` with `alpha` = 0.

    Parameters
    ----------
    fit_intercept : bool, default=True
    positive : bool, default=False
        No coefficient is below 0.
    target_bounds : "private" or tuple (low, high), default="private"
        Range of the target, or arrays with one number for each of several.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Coefficients, in the units of X and y.
    intercept_ : float or ndarray of shape (n_targets,)
    coef_std_error_, coef_population_std_error_ : ndarray, as `coef_`
        Standard errors relative to the coefficients of the clipped rows, and to those of the
        population; NaN where they cannot be known. See `DPRidge` for these and all other
        attributes.

    See Also
    --------
    DPRidge : With a penalty.

    Notes
    -----
    **Privacy.** *Released*, *Sensitivity*, *Mechanism* and *Charged*: as for `DPRidge`.

    References
    ----------
    Wang 2018, "Revisiting differentially private linear regression", Algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.linear_model import DPLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 1, (20_000, 1))
    >>> y = 3 * X[:, 0] + rng.normal(size=20_000)
    >>> model = DPLinearRegression(bounds=(0, 1), target_bounds=(-5, 8), delta=1e-6).fit(X, y)
    >>> bool(abs(model.coef_[0] - 3) < 5 * model.coef_population_std_error_[0])
    True
    """
