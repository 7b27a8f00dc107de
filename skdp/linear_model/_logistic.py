"""Private logistic regression by noisy gradient descent: `DPLogisticRegression`.

A fit releases bounds, unless stated; the number of rows of each class; the mean of every column
and, where noise allows, its mean square; in each step of the descent a noisy gradient of the loss
over all rows; and four gradients of its slope and offsets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import least_squares
from scipy.special import ndtri

from skdp.base.batch_invariant import products
from skdp.base.callers import reported_steps
from skdp.base.classifiers import Floats, LabelledClassifier
from skdp.base.mixin import WEIGHT_BOUND
from skdp.budget import PrivacyBudget
from skdp.core import Ball, RowSum, Session
from skdp.parameters import Table
from skdp.planning import Allowance
from skdp.queries import LogisticGradient, LogitBall, StandardBall, logistic_gradient, softmax

# --- slope and offsets ----------------------------------------------------------------------------

# A descent with clipped residuals that stops early ranks rows well, but its probabilities are
# wrong: clipping weighs the rows of a rare class less, and early stopping leaves coefficients
# short. So a few gradients of the unclipped loss of a u(x) + b are released, where u is the logit
# of the descent, a one number and b one for each logit. The noise is that of these few numbers, not
# of all coefficients.
#
# The gradients are compared to those of a model in which logits are normal, of unknown spread. The
# last points are near the solution, where only the derivative of the gradient is the model's, so
# that the solution is right for other logits too.

CALIBRATION_SHARE = Fraction(1, 10)  # of the share of all gradients
# Noise of a gradient, in rows, above which none is released: of one logit, and of a class of more.
_MOST_NOISE = (0.1, 0.18)
# Shares of the four gradients, each of the remaining share.
_PARTS = (Fraction(3, 20), Fraction(4, 17), Fraction(6, 13), Fraction(1))
_CONSTANT = 0.7  # as a part of the bound on logits
# Prior standard deviations of the logarithms of slope and spread, and of offsets.
_SLOPE, _SPREAD, _OFFSET = 0.5, 0.5, 0.5
_LIMIT = 4.0  # on the distance of these logarithms from their prior means
_LEAST_SIGNAL = 0.19  # a part of the squares of coefficients
# Relative errors of the model: of its gradients, and of its shares of classes.
_MISFIT, _COUNT_MISFIT = 0.15, 0.05
_N_POINTS = 512


def _gradient(n_logits: int, dims: int) -> RowSum:
    """Return the query of a gradient, for plans: of rows and residuals of norm 1."""
    theta = np.zeros((n_logits, dims))
    return logistic_gradient(Ball(np.zeros(dims - 1), 1.0), 0.0, theta, theta[:, 0], 1.0)


def is_useful(allowance: Allowance, n: float, n_logits: int) -> bool:
    """Say whether gradients for a part of this allowance are larger than their noise."""
    part = allowance.part(CALIBRATION_SHARE)
    norm = math.hypot(1.0, _CONSTANT) / _CONSTANT * (1.0 if n_logits == 1 else math.sqrt(2))
    std = norm * part.query_std(_gradient(n_logits, n_logits + 1))
    return std / n <= _MOST_NOISE[n_logits > 1] / n_logits


@dataclass
class Calibration:
    """The slope and the offsets (n_logits,), fitted to released gradients; at first the prior.

    `points` (m, n_logits) are logits of the model without offset, of spread 1. `counts` are the
    rows of each logit's class, with noise `spread`. `gradients` keeps, of each release, slope,
    offset, the gradient's parts and their standard errors.
    """

    points: Floats
    counts: Floats
    spread: float
    n: float
    slope: float
    offset: Floats
    gradients: list[tuple[float, Floats, Floats, Floats]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._expected = np.concatenate([[math.log(self.slope), 0.0], self.offset])
        self._errors = np.concatenate([[_SLOPE, _SPREAD], np.full(self.offset.size, _OFFSET)])
        self._at = self._expected.copy()

    def _distance(self, at: Floats) -> Floats:
        """Return the distances from the prior and all releases, in standard errors."""
        u = self.points * math.exp(at[1])
        p = softmax(math.exp(at[0]) * u + at[2:])
        error = np.hypot(self.spread, _COUNT_MISFIT * self.counts)
        out = [
            (at - self._expected) / self._errors,
            (self.n * p.mean(axis=0) - self.counts) / error,
        ]
        for slope, offset, parts, errors in self.gradients:
            r = softmax(slope * u + offset) - p
            modelled = self.n * np.append((r * u).sum(axis=1).mean(), r.mean(axis=0))
            out.append((modelled - parts) / errors)
        return np.nan_to_num(np.concatenate(out), posinf=1e9, neginf=-1e9)

    def solve(self) -> None:
        """Set slope and offset by least squares."""
        reach = np.concatenate([[_LIMIT, _LIMIT], np.full(self.offset.size, 20.0)])
        low, high = self._expected - reach, self._expected + reach
        start = np.clip(self._at, low + 1e-6, high - 1e-6)
        self._at = least_squares(self._distance, start, bounds=(low, high), max_nfev=30).x
        self.slope, self.offset = math.exp(self._at[0]), self._at[2:].copy()

    def release(
        self, session: Session, share: Any, view: LogitBall, most: float | None, name: str
    ) -> None:
        """Release the gradient at slope and offset."""
        k = self.offset.size
        theta = np.column_stack([self.slope * np.eye(k), np.zeros(k)])
        clip = 1.0 if k == 1 else 1.4143  # the largest norm of residuals, so no clipping
        query = logistic_gradient(view, _CONSTANT, theta, self.offset, clip, most)
        release = session.answer(query, share, name=name)
        std, constant = float(np.mean(release.std)), _CONSTANT * view.radius
        parts = np.append(np.trace(release.value[:, :-1]), release.value[:, -1] / constant)
        noise = np.append(std * math.sqrt(k), np.full(k, std / constant))
        errors = np.hypot(noise, _MISFIT * np.abs(parts))
        self.gradients.append((self.slope, self.offset, parts, np.maximum(errors, 1e-9 * self.n)))


def _normal_points(m: int, d: int) -> Floats:
    """Return evenly spread normal points: quantiles of multiples of irrational steps."""
    root = 2.0
    for _ in range(60):  # to the solution of root**(d + 1) = root + 1
        root = (1.0 + root) ** (1.0 / (d + 1))
    steps = root ** -np.arange(1.0, d + 1)
    quantiles = ndtri((0.5 + np.arange(1, m + 1)[:, None] * steps) % 1.0)
    return np.asarray(np.clip(quantiles, -4.0, 4.0))


def calibrated(
    session: Session,
    view: Any,
    theta: Floats,
    offset: Floats,
    counts: Floats,
    spread: float,
    spread_of_logits: float,
    noise: float,
    *,
    useful: bool,
    most: float | None,
) -> tuple[float, Floats]:
    """Return slope and offsets of the logits ``theta @ q``, for the session's remaining share.

    `theta` (n_logits, d) has noise `noise` on each number. Unless `useful`, nothing is released,
    the slope is 1 and `offset` is returned. `spread_of_logits` is relative to normal rows; `most`
    bounds weights.
    """
    if not useful:
        return 1.0, offset
    k, n = len(theta), float(counts.sum())
    axes, sizes, _ = np.linalg.svd(np.nan_to_num(theta), full_matrices=False)
    half = _normal_points(_N_POINTS // 2, sizes.size) @ (axes * sizes).T
    points = np.concatenate([half, -half])
    # The prior slope: that of a regression on noisy coefficients, so less if they are mostly noise.
    signal = 1.0 - theta.size * noise**2 / max(float((theta**2).sum()), 1e-300)
    expected = min(1.0, 1.5 * math.sqrt(max(signal, _LEAST_SIGNAL)))
    own = counts[1:] if k == 1 else counts
    fitted = Calibration(points * spread_of_logits, own, spread, n, expected, offset)
    fitted.solve()
    radius = view.radius * max(float(np.linalg.norm(theta, 2)), 1e-9)
    padded = np.column_stack([theta, np.zeros(k)])
    ball = LogitBall(LogisticGradient(view, 0.0, padded, np.zeros(k), 1.0), radius)
    best = fitted.slope
    for i, part in enumerate(_PARTS):
        fitted.slope = best if i else 0.0  # at slope 0 the gradient shows the spread of logits
        name = f"gradient of slope and offsets {i + 1}"
        fitted.release(session, part * session.remaining, ball, most, name)
        if i:
            fitted.solve()
            best = fitted.slope
    return fitted.slope, fitted.offset


# --- the estimator --------------------------------------------------------------------------------

_CENTER_SHARES = (0.2, 0.05)  # for two classes, and for more
# The intercept's coordinate, as a part of the radius, for two classes and for more.
_CONSTANTS = (0.25, 0.1)
# Bounds on a row's residuals and norm: the least and the most; between, a factor over the noise.
_CLIPS, _CLIP_NOISE, _CLIP_OF_MORE = (0.25, 0.5), 0.15, 0.3
_RADII, _RADIUS_NOISE, _RADIUS_OF_MORE = (0.4, 1.0), 0.01, 0.6
_SHORTER = 0.7
_LARGEST = 1e300


@dataclass(frozen=True)
class _Plan:
    """Settings of the descent, from public or released numbers and the allowance for gradients.

    `n_logits` is 1 for two classes; `dims` counts columns and the constant.
    """

    allowance: Allowance
    n: float
    n_logits: int
    dims: int

    @property
    def relative_noise(self) -> float:
        """Norm of the noise of one gradient for all of the allowance, for rows of norm 1."""
        noise = self.allowance.query_std(_gradient(self.n_logits, self.dims))
        return noise * math.sqrt(self.n_logits * self.dims) / self.n

    @property
    def clip(self) -> float:
        """Bound on the norm of a row's residuals, which else is 1, or sqrt(2) for more classes.

        It shrinks the noise of all gradients, but only the first gradients: later residuals are
        small anyway.
        """
        if self.n_logits > 1:
            return _CLIP_OF_MORE
        return min(max(_CLIP_NOISE / self.relative_noise, _CLIPS[0]), _CLIPS[1])

    @property
    def n_steps(self) -> int:
        """Number of gradients.

        Together they have as much noise as a single one with Gaussian noise, and more, by the
        square root of their number, with pure noise.
        """
        if self.allowance.pure:
            return int(min(max(round(0.4 / self.relative_noise), 1), 20))
        return int(min(max(round(3.0 / self.relative_noise), 10), 40))

    @property
    def rate(self) -> float:
        """Length of a step, for rows of norm 1."""
        return 10.0 if self.n_logits == 1 else 40.0

    @property
    def radius(self) -> float:
        """Norm to which scaled rows are clipped, in units of the root of the number of columns."""
        least = _RADIUS_OF_MORE if self.n_logits > 1 else _RADII[0]
        return min(max(_RADIUS_NOISE / self.relative_noise, least), _RADII[1])

    @property
    def constant(self) -> float:
        """The coordinate of the intercept, as a part of the radius."""
        return _CONSTANTS[self.n_logits > 1]


class DPLogisticRegression(LabelledClassifier):
    """Logistic regression by noisy gradient descent, for two classes or more.

    The private counterpart of scikit-learn's ``LogisticRegression``. There are no parameters to
    tune: the number of steps, their length and the clipping are computed from public numbers. There
    is no penalty: stopping early has the same effect. Probabilities are calibrated, unless rows are
    few. ``set_callbacks(ProgressBar())`` of scikit-learn 1.9 shows how many steps are done.

    Parameters
    ----------
    classes : "private" or array-like of shape (n_classes,), default="private"
    bounds : "private" or tuple (low, high) or mapping, default="private"
    weight_bound : float or None, default=None
    epsilon : float, default=1.0
    delta : float or None, default=None
    max_rows_per_unit : int or "private", default="private"
    budget : PrivacyBudget or None, default=None
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    class_count_ : ndarray of shape (n_classes,)
        Noisy number of rows of each class, at least 1. With `sample_weight` the noisy sum of
        clipped weights, at least `weight_bound`.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients, in the units of X.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    coef_std_error_ : ndarray, as `coef_`
        Always NaN: the descent stops early, so no exact solution exists to measure an error from.
    bounds_ : tuple of two ndarrays of shape (n_features,)
    center_, scale_ : ndarray of shape (n_features,)
        Columns are centred and scaled by these values before rows are clipped.
    radius_ : float
        The norm to which a centred and scaled row is clipped, in `fit` and in predictions.
    n_iter_ : int
        Number of steps.
    n_features_in_, feature_names_in_ : int, ndarray of shape (n_features_in_,)
    max_rows_per_unit_ : int
    privacy_ : skdp.core.PrivacyCertificate

    Raises
    ------
    TypeError, ValueError
        In `fit`, before anything is charged: if a parameter is out of range, if `classes` is
        private and delta is 0, if X is not a dense table of finite numbers, or if a label is
        missing.
    BudgetExceededError, SealedBudgetError, LedgerError

    See Also
    --------
    DPRidge : For numbers. With few rows of two classes, coded as 0 and 1, it may rank rows better.

    Notes
    -----
    **Privacy.** A row and its label are protected together. *Released*: classes and bounds, if not
    stated; the number of rows of each class (2% of the allowance, or 12% where rows are few); the
    means and mean squares of the columns, or the means only, unless noise would hide them (at most
    20%); then, in each step, a gradient: the sum over rows of the outer product of r and z. Here z
    is the clipped row with a constant, and r the predicted probabilities minus the indicator of the
    label, clipped in norm. Last, for a tenth of the gradients' share, unless noise would hide them,
    four gradients in which z is the logit of the descent (for several classes: their logits), and r
    is not clipped. *Sensitivity* of a gradient in L2, where R is the product of the bounds on the
    norms of r and z: R if a row is added or removed, 2 R if one is replaced. *Mechanism*: K-norm or
    rounded Gaussian noise, whichever is less, with equal shares for all steps of the descent.
    *Charged*: at most (epsilon, delta), once, before any noise, to ``budget``.

    **Weights.** A row and its weight are protected together. A row of weight v counts v / b times,
    where b is the `weight_bound` and v is clipped to [0, b]: in the counts of the classes, in the
    moments of the columns (with which the total weight is released) and in the gradients. It adds
    no more than a row of weight b, which has the *sensitivity* above. The noise is as large as for
    sum(v) / b rows, so state a bound near the weights of most rows. Classes are selected, and
    bounds are learned, without weights. Proof: ``skdp/core/PROOFS.md``.

    **Descent.** It starts at the logarithms of the shares of the classes. The result is the mean of
    the second half of the steps. Shortening all rows to nearly the same length loses little,
    because their directions separate the classes; and it reduces the noise.

    **Probabilities.** Clipped r weigh rare classes less, and stopping early moves coefficients. So
    a slope, common to all logits, and an offset for each are fitted to gradients without clipping:
    mean probabilities are then the shares of the classes, up to noise. Coefficients are those of
    shortened rows, so they are somewhat larger than those of whole rows. Where noise would hide
    these gradients, probabilities are not calibrated: without delta, under "replace_one", below
    about 1,700 rows of two classes at epsilon 0.5 (900 at 1), and below 3,200 of three at 1. Under
    "add_or_remove_one" half as many rows are enough.

    References
    ----------
    Bassily, Smith & Thakurta 2014, "Private empirical risk minimization: efficient algorithms and
    tight error bounds", section 2 (noisy gradients; here of all rows).

    Dong, Roth & Su 2022, "Gaussian differential privacy", Corollary 2 (steps compose).

    ``skdp/queries/images.py`` (the gradient's bounds, in integers).

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.linear_model import DPLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = np.where(X @ [1.0, -1.0] > 0, "yes", "no")
    >>> model = DPLogisticRegression(classes=["no", "yes"], bounds=(-4, 4), delta=1e-6).fit(X, y)
    >>> model.predict([[2.0, -2.0], [-2.0, 2.0]])
    array(['yes', 'no'], dtype='<U3')
    >>> model.score(X, y) > 0.9
    True
    """

    _n_progress_tasks = 1
    _parameter_table: ClassVar[Table] = {"weight_bound": WEIGHT_BOUND}

    def __init__(
        self,
        *,
        classes: Any = "private",
        bounds: Any = "private",
        weight_bound: float | None = None,
        epsilon: float = 1.0,
        delta: float | None = None,
        max_rows_per_unit: Any = "private",
        budget: PrivacyBudget | None = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            classes=classes,
            bounds=bounds,
            epsilon=epsilon,
            delta=delta,
            max_rows_per_unit=max_rows_per_unit,
            budget=budget,
            random_state=random_state,
        )
        self.weight_bound = weight_bound

    def fit(
        self, X: ArrayLike, y: ArrayLike, *, sample_weight: Any = None, groups: Any = None
    ) -> Self:
        """Charge the budget and fit.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Private rows, finite numbers. May be in parts (`skdp.engines`).
        y : array-like of shape (n_samples,)
            Private labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Private weights of the losses of rows, finite numbers, clipped to [0, `weight_bound`],
            which must be stated. With rows in one table only.
        groups : array-like of shape (n_samples,), default=None

        Returns
        -------
        self : DPLogisticRegression
        """
        with self._all_or_nothing(groups):
            return self._fitted(X, y, sample_weight)

    @property
    def _n_releases(self) -> int:
        return 5

    def _noise_of(self, allowance: Allowance, n_features: int | None) -> float:
        return (
            math.nan
            if n_features is None
            else allowance.part(1 / self._n_releases).ball_std(n_features + 1)
        )

    def _fit(
        self,
        session: Session,
        public: Any,
        n_classes: int,
        most: float | None = None,  # that a weight may be
    ) -> None:
        start = self._started(session, public, n_classes, _CENTER_SHARES[n_classes > 2], most)
        d, standard = start.low.size, start.standard
        n_logits = 1 if n_classes == 2 else n_classes
        useful = is_useful(start.allowance, start.n, n_logits)
        descent = (1 - CALIBRATION_SHARE) if useful else Fraction(1)
        plan = _Plan(start.allowance.part(descent), start.n, n_logits, d + 1)
        radius = self.radius_ = plan.radius * math.sqrt(d)
        view = start.view(radius)
        logs = np.log(start.counts + start.spread)  # a ratio that noise hides is shrunk to 1
        logs -= logs.mean()
        offset = logs[1:] - logs[:1] if n_logits == 1 else logs
        theta, noise = _descend(session, plan, view, offset, most, descent * session.remaining)
        self.n_iter_ = plan.n_steps
        offset = offset + theta[:, -1] * plan.constant * radius
        theta = theta[:, :-1]
        if n_logits > 1:
            theta, offset = theta - theta.mean(axis=0), offset - offset.mean()
        counted = start.counts, start.spread, min(1.0, plan.radius)
        slope, offset = calibrated(
            session, view, theta, offset, *counted, noise, useful=useful, most=most
        )
        theta = slope * theta
        coef = theta / standard.scale
        intercept = offset - coef @ standard.center
        self.coef_ = np.clip(np.nan_to_num(coef), -_LARGEST, _LARGEST)
        self.intercept_ = np.clip(np.nan_to_num(intercept), -_LARGEST, _LARGEST)
        self.coef_std_error_ = np.full(coef.shape, math.nan)
        self._view, self._theta, self._offset = view, theta, offset

    # --- predicting ---------------------------------------------------------------------------

    def _logits(self, X: Any) -> Floats:
        """Return the logits of the caller's rows, shape (n, n_logits)."""
        with np.errstate(all="ignore"):
            logits = products(self._mapped(X), self._theta) + self._offset
        return np.clip(logits, -_LARGEST, _LARGEST)

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return the logits of the caller's rows.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Clipped as rows are in `fit`.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes those of the second one.
        """
        logits = self._scores(X)
        return logits[:, 0] if logits.shape[1] == 1 else logits


def _descend(
    session: Session,
    plan: _Plan,
    view: StandardBall,
    offset: Floats,
    most: float | None,
    share: Fraction,
) -> tuple[Floats, float]:
    """Return the mean of the second half of the points of a noisy descent, and its noise.

    The noise is that on each number, where the loss is flat.
    """
    theta, before = (np.zeros((plan.n_logits, plan.dims)) for _ in range(2))
    total, n_points, variance = np.zeros_like(theta), 0, 0.0
    steps = plan.n_steps
    unit = plan.n * view.radius**2
    rate = plan.rate
    for step in reported_steps(steps):
        query = logistic_gradient(view, plan.constant, theta, offset, plan.clip, most)
        release = session.answer(query, share / steps, name=f"gradient {step + 1}")
        gradient, std = release.value, float(np.mean(release.std))
        # A step that turns back, by more than noise does, was too long.
        if step and float((gradient * before).sum()) < -3 * std**2 * math.sqrt(theta.size):
            rate *= _SHORTER
        before = gradient
        theta = theta - rate / unit * gradient
        first = max(step, steps // 2)  # of the points in the mean that contain this step
        variance += (rate / unit * std * (steps - first) / (steps - steps // 2)) ** 2
        if 2 * (step + 1) > steps:
            total, n_points = total + theta, n_points + 1
    mean: Floats = total / max(n_points, 1)
    return mean, math.sqrt(variance)
