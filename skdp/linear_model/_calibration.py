"""Slope and offsets of a released logit: a few gradients of as many parameters as there are logits.

A descent with clipped residuals that stops early ranks rows well, but its probabilities are wrong:
clipping weighs the rows of a rare class less, and early stopping leaves coefficients short. What is
asked here is the gradient of the unclipped loss of a u(x) + b, where u is the released logit, a one
number and b one for each logit. Its noise is that of these few numbers, not of all coefficients.

Everything but these gradients is post-processing: they are compared to those of a model, in which
logits are normal, of unknown spread. The last points are near the solution, where only the
derivative of the gradient is the model's, so that the solution is right for other logits too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares
from scipy.special import ndtri

from skdp.core import Session
from skdp.planning import Allowance
from skdp.queries import LogisticGradient, LogitBall, logistic_gradient, softmax

__all__ = ["CALIBRATION_SHARE", "Calibration", "calibrated", "is_useful"]

Floats = NDArray[np.float64]

CALIBRATION_SHARE = Fraction(1, 10)  # of what is left for gradients
# Noise of a gradient, in rows, above which none is asked: of one logit, and of a class of more.
_MOST_NOISE = (0.1, 0.18)
# Of the gradients, of what is left.
_PARTS = (Fraction(3, 20), Fraction(4, 17), Fraction(6, 13), Fraction(1))
_CONSTANT = 0.7  # as a part of the bound on logits
# Standard errors of what is expected: of the logarithms of slope and spread, and of offsets.
_SLOPE, _SPREAD, _OFFSET = 0.5, 0.5, 0.5
_LEAST_SIGNAL = 0.19  # a part of the squares of coefficients
_MISFIT = 0.15  # of the model's gradients, relative
_COUNT_MISFIT = 0.05  # of the model's shares of classes, relative
_N_POINTS = 512
_LIMIT = 4.0  # of those logarithms


def is_useful(allowance: Allowance, n: float, n_logits: int) -> bool:
    """Say whether gradients for a part of this allowance say more than their noise."""
    part = allowance.part(CALIBRATION_SHARE)
    norm = math.hypot(1.0, _CONSTANT) / _CONSTANT * (1.0 if n_logits == 1 else math.sqrt(2))
    std = part.vector_std((1 + allowance.replace) * norm, n_logits * (n_logits + 1))
    return std / n <= _MOST_NOISE[n_logits > 1] / n_logits


@dataclass
class Calibration:
    """What is known of the slope and the offsets.

    Attributes
    ----------
    points : ndarray of shape (m, n_logits)
        Of the model: logits without offset, of spread 1.
    counts, spread : ndarray, float
        Of the rows of each logit's class, and the noise of one.
    n : float
    slope, offset : float, ndarray of shape (n_logits,)
        The best guess, and at first what is expected.
    asked : list
        Slope, offset, the gradient's parts and their standard errors, of each point.
    """

    points: Floats
    counts: Floats
    spread: float
    n: float
    slope: float
    offset: Floats
    asked: list[tuple[float, Floats, Floats, Floats]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._expected = np.concatenate([[math.log(self.slope), 0.0], self.offset])
        self._errors = np.concatenate([[_SLOPE, _SPREAD], np.full(self.offset.size, _OFFSET)])
        self._at = self._expected.copy()

    def _distance(self, at: Floats) -> Floats:
        """Return by how much everything known is missed, in standard errors."""
        u = self.points * math.exp(at[1])
        p = softmax(math.exp(at[0]) * u + at[2:])
        error = np.hypot(self.spread, _COUNT_MISFIT * self.counts)
        out = [
            (at - self._expected) / self._errors,
            (self.n * p.mean(axis=0) - self.counts) / error,
        ]
        for slope, offset, parts, errors in self.asked:
            r = softmax(slope * u + offset) - p
            found = self.n * np.append((r * u).sum(axis=1).mean(), r.mean(axis=0))
            out.append((found - parts) / errors)
        return np.nan_to_num(np.concatenate(out), posinf=1e9, neginf=-1e9)

    def solve(self) -> None:
        """Set slope and offset to what misses least."""
        reach = np.concatenate([[_LIMIT, _LIMIT], np.full(self.offset.size, 20.0)])
        low, high = self._expected - reach, self._expected + reach
        start = np.clip(self._at, low + 1e-6, high - 1e-6)
        found = least_squares(self._distance, start, bounds=(low, high), max_nfev=30)
        self._at = found.x
        self.slope, self.offset = math.exp(found.x[0]), found.x[2:].copy()

    def ask(
        self, session: Session, share: Any, view: LogitBall, most: float | None, name: str
    ) -> None:
        """Ask for the gradient at slope and offset."""
        k = self.offset.size
        theta = np.column_stack([self.slope * np.eye(k), np.zeros(k)])
        clip = 1.0 if k == 1 else 1.4143  # none: the largest norm of residuals
        query = logistic_gradient(view, _CONSTANT, theta, self.offset, clip, most)
        release = session.answer(query, share, name=name)
        std, constant = float(np.mean(release.std)), _CONSTANT * view.radius
        parts = np.append(np.trace(release.value[:, :-1]), release.value[:, -1] / constant)
        noise = np.append(std * math.sqrt(k), np.full(k, std / constant))
        errors = np.hypot(noise, _MISFIT * np.abs(parts))
        self.asked.append((self.slope, self.offset, parts, np.maximum(errors, 1e-9 * self.n)))


def _normal_points(m: int, d: int) -> Floats:
    """Return points of a normal law, spread evenly: quantiles of multiples of irrational steps."""
    root = 2.0
    for _ in range(60):  # to the solution of root**(d + 1) = root + 1
        root = (1.0 + root) ** (1.0 / (d + 1))
    steps = root ** -np.arange(1.0, d + 1)
    found: Floats = ndtri((0.5 + np.arange(1, m + 1)[:, None] * steps) % 1.0)
    return np.clip(found, -4.0, 4.0)


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
    """Return slope and offsets of the logits ``theta @ q``, with all that is left in the session.

    Parameters
    ----------
    theta : ndarray of shape (n_logits, d)
        Of the view's coordinates.
    offset : ndarray of shape (n_logits,)
        Without calibration.
    counts, spread : ndarray of shape (n_classes,), float
    spread_of_logits : float
        What is expected, if that of normal rows is 1.
    noise : float
        On each number of theta.
    useful : bool
        Whether gradients are asked; without them nothing changes.
    most : float or None
        Of weights.
    """
    if not useful:
        return 1.0, offset
    k, n = len(theta), float(counts.sum())
    axes, sizes, _ = np.linalg.svd(np.nan_to_num(theta), full_matrices=False)
    half = _normal_points(_N_POINTS // 2, sizes.size) @ (axes * sizes).T
    points = np.concatenate([half, -half])
    # Of coefficients that are mostly noise, less: the slope of a regression on them.
    signal = 1.0 - theta.size * noise**2 / max(float((theta**2).sum()), 1e-300)
    expected = min(1.0, 1.5 * math.sqrt(max(signal, _LEAST_SIGNAL)))
    known = Calibration(
        points * spread_of_logits, counts[1:] if k == 1 else counts, spread, n, expected, offset
    )
    known.solve()
    radius = view.radius * max(float(np.linalg.norm(theta, 2)), 1e-9)
    padded = np.column_stack([theta, np.zeros(k)])
    ball = LogitBall(LogisticGradient(view, 0.0, padded, np.zeros(k), 1.0), radius)
    best = known.slope
    for i, part in enumerate(_PARTS):
        known.slope = best if i else 0.0  # where logits are all the same, for their spread
        name = f"gradient of slope and offsets {i + 1}"
        known.ask(session, part * session.remaining, ball, most, name)
        if i:
            known.solve()
            best = known.slope
    return known.slope, known.offset
