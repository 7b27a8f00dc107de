"""Logistic regression by noisy gradient descent, for a session whose noise is Gaussian.

Steps share one mu, which many small releases add up to as well as a single one. So the descent is
used where objective perturbation has no price in mu, or a dear one: see `DPLogisticRegression`. It
starts at the logarithms of the shares of the classes; of two classes, a penalty that grows with the
noise draws it there. The result is the mean of the second half of the steps. Then a slope, common
to all logits, and an offset for each are fitted to gradients without clipping.

References
----------
Bassily, Smith & Thakurta 2014, "Private empirical risk minimization: efficient algorithms and tight
error bounds", section 2 (noisy gradients; here of all rows).

Dong, Roth & Su 2022, "Gaussian differential privacy", Corollary 2 (steps compose).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.optimize import least_squares, minimize
from scipy.special import logsumexp, ndtri

from skdp.base.classifiers import Floats, Start
from skdp.core import Ball, RowSum, Session
from skdp.planning import Allowance
from skdp.queries import LogisticGradient, LogitBall, StandardBall, logistic_gradient, softmax

__all__ = ["CENTER_SHARES", "descended", "is_hidden", "noise_penalty"]

# The prior variance of a row's logit, and the noise of logits where the loss is flat.
_LOGIT_VARIANCE, _FLAT_NOISE = 2.0, 2.0


def noise_penalty(std: float, n: float, doubt: float, dims: int, part: float) -> float:
    """Return the penalty for a noise of deviation `std` in the gradient, for rows of norm 1.

    The larger of two: Bayes' for logits of prior variance v where a column has the curvature of
    rows that are hard to tell apart, s**2 dims / (v n doubt); and s sqrt(part) / t, which keeps the
    noise of logits at t where rows are separable, so that the loss has no curvature at all.

    - `doubt`: The mean of p (1 - p) over the shares of the classes.
    - `part`: Of a row's squared norm that is one column's.
    """
    bayes = std**2 * dims / (_LOGIT_VARIANCE * n * doubt)
    return max(bayes, std * math.sqrt(part) / _FLAT_NOISE)


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
_MOST_NOISE = (0.2, 0.18)
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

    def shrink(self, theta: Floats, penalty: float) -> None:
        """Set slope and offset to those that a penalty of the coefficients would leave."""
        u = self.points * math.exp(self._at[1])
        p = softmax(self.slope * u + self.offset)
        weight = penalty * float((theta**2).sum())

        def loss(at: Floats) -> tuple[float, Floats]:
            z = at[0] * u + at[1:]
            r = softmax(z) - p
            logits = z if z.shape[1] > 1 else np.column_stack([z, np.zeros(len(z))])
            value = (logsumexp(logits, axis=1) - (p * z).sum(axis=1)).mean()
            slopes = np.append((r * u).sum(axis=1).mean(), r.mean(axis=0))
            slopes[0] += weight / self.n * at[0]
            return value + weight / self.n * at[0] ** 2 / 2, slopes

        free = [(None, None)] * self.offset.size
        at = minimize(
            loss, np.append(self.slope, self.offset), jac=True, bounds=[(0.0, None), *free]
        ).x
        self.slope, self.offset = float(at[0]), at[1:]

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
    penalty: float,
) -> tuple[float, Floats]:
    """Return slope and offsets of the logits ``theta @ q``, for the session's remaining share.

    `theta` (n_logits, d) has noise `noise` on each number. Unless `useful`, nothing is released,
    the slope is 1 and `offset` is returned. `spread_of_logits` is relative to normal rows; `most`
    bounds weights.
    """
    if not useful:
        return 1.0, offset
    # The prior slope: that of a regression on noisy coefficients, so less if they are mostly noise.
    signal = 1.0 - theta.size * noise**2 / max(float((theta**2).sum()), 1e-300)
    expected = min(1.0, 1.5 * math.sqrt(max(signal, _LEAST_SIGNAL)))
    k, n = len(theta), float(counts.sum())
    axes, sizes, _ = np.linalg.svd(np.nan_to_num(theta), full_matrices=False)
    half = _normal_points(_N_POINTS // 2, sizes.size) @ (axes * sizes).T
    points = np.concatenate([half, -half])
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
    if penalty:
        fitted.shrink(theta, penalty)
    return fitted.slope, fitted.offset


# --- the descent ---------------------------------------------------------------------------------

CENTER_SHARES = (0.2, 0.05)  # for two classes, and for more
# The intercept's coordinate, as a part of the radius, for two classes and for more.
_CONSTANTS = (0.25, 0.1)
# Bounds on a row's residuals and norm: the least and the most; between, a factor over the noise.
_CLIPS, _CLIP_NOISE, _CLIP_OF_MORE = (0.25, 0.5), 0.15, 0.3
_RADII, _RADIUS_NOISE, _RADIUS_OF_MORE = (0.4, 1.0), 0.01, 0.6
_MOST_STEPS = (20, 40)
# Of more than two classes, a logit has about their number as variance, without noise; noise itself
# is estimated so roughly that no coefficient shrinks by more than this.
_LEAST_OF_MORE = 0.15
_SHORTER = 0.7


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
    def _length(self) -> int:
        """Length of the descent, in steps for rows of norm 1.

        Its gradients have as much noise together as a single one with Gaussian noise, and more, by
        the square root of their number, with pure noise.
        """
        if self.allowance.pure:
            return int(min(max(round(0.4 / self.relative_noise), 1), 20))
        return int(min(max(round(3.0 / self.relative_noise), 10), 40))

    @property
    def n_steps(self) -> int:
        """Number of gradients: fewer, longer steps fit as well, in less time."""
        return min(self._length, _MOST_STEPS[self.n_logits > 1])

    @property
    def rate(self) -> float:
        """Length of a step, for rows of norm 1."""
        return (10.0 if self.n_logits == 1 else 40.0) * self._length / self.n_steps

    @property
    def radius(self) -> float:
        """Norm to which scaled rows are clipped, in units of the root of the number of columns."""
        least = _RADIUS_OF_MORE if self.n_logits > 1 else _RADII[0]
        return min(max(_RADIUS_NOISE / self.relative_noise, least), _RADII[1])

    @property
    def constant(self) -> float:
        """The coordinate of the intercept, as a part of the radius."""
        return _CONSTANTS[self.n_logits > 1]

    def penalty(self, counts: Floats) -> float:
        """Return what noise asks for, of the coefficients of rows in the view's units."""
        shares = counts / counts.sum()
        std = self.allowance.query_std(_gradient(self.n_logits, self.dims)) * self.clip
        part = min(1.0, 1.0 / self.radius**2)
        least = noise_penalty(std, self.n, float((shares * (1.0 - shares)).mean()), self.dims, part)
        return least * self.radius**2 * (self.dims - 1)


def _descend(
    session: Session,
    plan: _Plan,
    view: StandardBall,
    offset: Floats,
    most: float | None,
    share: Fraction,
    penalties: Floats,
) -> tuple[Floats, float]:
    """Return the mean of the second half of the points of a noisy descent, and its noise.

    The noise is that on each number. `penalties` are those of the coordinates.
    """
    theta = np.zeros((plan.n_logits, plan.dims))
    total, n_points, rate, steps = np.zeros_like(theta), 0, plan.rate, plan.n_steps
    unit = plan.n * view.radius**2
    rates, gradients = np.zeros(steps), np.zeros((steps, theta.size))
    for step in range(steps):
        query = logistic_gradient(view, plan.constant, theta, offset, plan.clip, most)
        release = session.answer(query, share / steps, name=f"gradient {step + 1}")
        gradient, std = release.value / unit, float(np.mean(release.std)) / unit
        gradients[step] = gradient.ravel()
        # A step that turns back, by more than noise does, was too long.
        turned = step and float(gradients[step] @ gradients[step - 1])
        if turned < -3 * std**2 * math.sqrt(theta.size):
            rate *= _SHORTER
        rates[step] = rate
        theta = (theta - rate * gradient) / (1.0 + rate * penalties / unit)
        if 2 * (step + 1) > steps:
            total, n_points = total + theta, n_points + 1
    mean: Floats = total / max(n_points, 1)
    return mean, std * _noise_of_mean(rates, gradients, std, steps - n_points)


def _noise_of_mean(rates: Floats, gradients: Floats, std: float, first: int) -> float:
    """Return the noise of the mean of the points from a step on, over that of a gradient.

    The curvature of the loss draws points back. Released gradients tell it: from one step to the
    next the product of gradient and step grows by curvature times the step's square.
    """
    steps, size = gradients.shape
    moves = -rates[:-1, None] * gradients[:-1]
    squares = (moves**2).sum(axis=1)
    grown = (gradients[1:] * moves).sum(axis=1) + squares / rates[:-1] - rates[:-1] * size * std**2
    curvature = float(grown.sum()) / max(float(squares.sum()), 1e-300)
    # By half of its own error less: too large a curvature would hide noise.
    curvature -= 1.0 / (rates[0] * math.sqrt(2.0 * max(steps - 1, 1) * size))
    moved, summed = np.zeros(steps), np.zeros(steps)
    for step, rate in enumerate(rates):
        moved *= min(max(1.0 - rate * curvature, 0.0), 1.0)
        moved[step] = rate
        if step >= first:
            summed += moved
    return float(np.linalg.norm(summed)) / max(steps - first, 1)


def is_hidden(start: Start, n_logits: int) -> bool:
    """Say whether the noise of a gradient is longer than all rows: steps would be noise alone."""
    return _Plan(start.allowance, start.n, n_logits, start.low.size + 1).relative_noise > 1.0


def descended(
    session: Session, start: Start, n_logits: int, most: float | None, penalty: float = 0.0
) -> tuple[StandardBall, Floats, Floats]:
    """Return the view of rows, the coefficients of its units (n_logits, d), and the offsets.

    For all that is left in the session. `most` bounds weights; `penalty` is of the coefficients of
    standardised columns, beside the sum of losses.
    """
    d = start.low.size
    useful = is_useful(start.allowance, start.n, n_logits)
    part = (1 - CALIBRATION_SHARE) if useful else Fraction(1)
    plan = _Plan(start.allowance.part(part), start.n, n_logits, d + 1)
    radius = plan.radius * math.sqrt(d)
    view = start.view(radius)
    logs = np.log(start.counts + start.spread)  # a ratio that noise hides is shrunk to 1
    logs -= logs.mean()
    offset = logs[1:] - logs[:1] if n_logits == 1 else logs
    penalties = np.full(d + 1, plan.penalty(start.counts) if n_logits == 1 else 0.0)
    penalties[:-1] += penalty
    theta, noise = _descend(session, plan, view, offset, most, part * session.remaining, penalties)
    if n_logits > 1 and not useful:  # nothing else will tell how much of it is noise
        theta *= max(n_logits / (n_logits + (noise * radius) ** 2), _LEAST_OF_MORE)
    offset = offset + theta[:, -1] * plan.constant * radius
    theta = theta[:, :-1]
    if n_logits > 1:
        theta, offset = theta - theta.mean(axis=0), offset - offset.mean()
    counted = start.counts, start.spread, min(1.0, plan.radius)
    slope, offset = calibrated(
        session, view, theta, offset, *counted, noise, useful=useful, most=most, penalty=penalty
    )
    return view, slope * theta, offset
