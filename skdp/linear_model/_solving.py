"""Linear equations with noisy moments: coefficients for predictions, and those with errors.

The moments are of standardised rows z = (columns, t) with a constant t, and of their target y,
both about 0: M = mean zz', m = mean zy, each with symmetric noise E, e whose entries have the
deviation s (on the diagonal sqrt(2) s).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["HIDDEN", "Estimate", "Prior", "Summary", "least_squares", "shrunk"]

Floats = NDArray[np.float64]

# An eigenvalue above so many times the edge of the noise has a gain that noise hardly moves: where
# all are, nothing is shrunk.
_CLEAR = 4.0
# What the columns may explain of the target, before anything is seen: nothing, or one of these
# parts of its variance. All are equally likely.
_EXPLAINED = (0.0, 0.01, 0.025, 0.06, 0.16, 0.4, 1.0)
_LITTLE = 0.0005  # explained: less counts as nothing
# Pure noise is not normal, so that its likelihood counts by this power.
_TRUST = 0.5
_LEFT = 0.25  # noise of M, as a part, after eigenvalues are moved
_LONGEST = 1e8  # eigenvalue; a column with this penalty has a coefficient of about 0
# Noise of the least eigenvalue has about the deviation s. Those that are seen are too large where
# few of a table's fits have them: with 2, collinear columns with errors in half of the fits had
# intervals that covered 78 to 92%.
HIDDEN = 4.0
_WIDER = 2.0  # deviations by which the coefficients may be longer than they are seen to be


def noise_edge(s: float, dims: int) -> float:
    """Return about the largest eigenvalue of the noise."""
    return 2.0 * s * math.sqrt(dims)


@dataclass(frozen=True)
class Prior:
    """What is known about coefficients before the moments are seen.

    If columns explain all of the target, squares of coefficients are about `square`. `constant` is
    the standard error of the coefficient 0 of the constant, `trace` the most that M may have.
    """

    square: Floats
    constant: float
    trace: float


def shrunk(M: Floats, m: Floats, s: float, prior: Prior) -> tuple[Floats, float]:
    """Return coefficients for predictions, and the level of shrinkage: inf where they are 0.

    They are the mean of theta under normal priors, for m = M theta + noise. Noise of M moves its
    eigenvalues w apart, by s**2 sum(1 / (w - others)), which is undone; those below 0 become 0. The
    noise of m is then that of e and of what is left of E theta. Each part that the columns may
    explain has a likelihood, by which the coefficients are averaged.
    """
    w, V = np.linalg.eigh(M)
    dims = w.size
    if w[0] > _CLEAR * noise_edge(s, dims) and w[0] > 2.0**-40 * w[-1]:
        return V @ ((V.T @ m) / w), 0.0
    s = max(s, 1e-150)
    w, V = np.linalg.eigh(np.clip(M, -_LONGEST, _LONGEST))
    apart = np.subtract.outer(w, w)
    w = np.maximum(w - s**2 * (apart / (apart**2 + s**2)).sum(axis=1), 0.0)
    w *= min(prior.trace / max(float(w.sum()), 1e-300), 1.0)
    moment = (V * w) @ V.T
    theta, likelihood, precision = [], [], []
    for part in _EXPLAINED:
        square = part * prior.square
        variance = np.append(square, prior.constant**2)
        noise = s**2 * (1.0 + _LEFT * float(square.sum()))
        covariance = (moment * variance) @ moment + noise * np.eye(dims)
        try:
            solved = np.linalg.solve(covariance, m)
        except np.linalg.LinAlgError:  # numbers far apart: the noise is below their rounding
            continue
        found = variance * (moment @ solved)
        value = -float(m @ solved + np.linalg.slogdet(covariance)[1]) / 2.0
        if math.isfinite(value) and np.isfinite(found).all():
            theta.append(found)
            likelihood.append(value)
            precision.append(float(square.mean()) / noise)
    if not theta:
        return np.zeros(dims), math.inf
    weight = np.exp(_TRUST * (np.array(likelihood) - max(likelihood)))
    weight /= weight.sum()
    mean = weight @ np.array(theta)
    if float((mean[:-1] ** 2 / prior.square).sum()) <= _LITTLE * (dims - 1):
        mean[:-1] = 0.0
        return mean, math.inf
    return mean, float((weight @ precision) ** -0.5)


@dataclass(frozen=True)
class Estimate:
    """Coefficients with nothing but the stated penalty, and the covariance of their noise.

    `inverse` is that of M. All is NaN if M is not positive definite, or noise alone may make it so.
    """

    theta: Floats
    noise: Floats
    inverse: Floats
    residual: float  # mean square
    seen: float  # the least eigenvalue of M, in those that are just seen
    smallest: float  # that eigenvalue


def least_squares(M: Floats, m: Floats, s: float, square: float, prior: Prior) -> Estimate:
    """Return the solution of M theta = m, with its errors; `square` is the mean of y**2.

    The true moments M - E and m - e have solutions theta0 with (M - E) theta0 = m - e. So exactly,
    theta0 - theta = M^-1 (E theta0 - e), with the noisy M that is known. E theta0 - e has the
    covariance s**2 ((1 + |theta0|**2) I + theta0 theta0'). There the noisy theta is too long by
    what noise adds to its square, which is subtracted.
    """
    w, V = np.linalg.eigh(M)
    dims = w.size
    seen = float(w[0] / max(HIDDEN * s, 2.0**-40 * w[-1], 1e-300))
    if not seen > 1.0:
        nothing = np.full((dims, dims), math.nan)
        return Estimate(nothing[0], nothing, nothing, math.nan, seen, float(w[0]))
    inverse = (V / w) @ V.T
    theta = inverse @ m
    length = float(theta @ theta)
    # With the covariance of a length L: |theta|**2 = L + s**2 sum((1 + L + (V'theta)**2) / w**2).
    gains = float((w**-2.0).sum())
    added = s**2 * (gains + float(((V.T @ theta) ** 2 / w**2).sum()))
    known = max((length - added) / (1.0 + s**2 * gains), 0.0)
    shorter, _ = shrunk(M, m, s, prior)
    known = min(max(known, float(shorter @ shorter)), length)

    def covariance(known: float) -> Floats:
        outer = np.outer(theta, theta) * (known / max(length, 1e-300))
        return inverse @ ((1.0 + known) * np.eye(dims) + outer) @ inverse * s**2

    # Noise that makes theta too short makes this covariance too small, too. Without the two
    # deviations, 95% intervals of two collinear columns covered 85 to 92%.
    spread = math.sqrt(float(theta @ covariance(known) @ theta) / max(length, 1e-300))
    noise = covariance((math.sqrt(known) + _WIDER * spread) ** 2)
    residual = max(square - float(2.0 * m @ theta - theta @ M @ theta), 0.0)
    return Estimate(theta, noise, inverse, residual, seen, float(w[0]))


@dataclass(frozen=True)
class Summary:
    """Coefficients that are not shrunk, with their standard errors; the last is the intercept.

    Printed as a table.

    Attributes
    ----------
    names : tuple of str
    coef : ndarray of shape (n_features + 1,)
        Of least squares with nothing but the stated penalty.
    std_error : ndarray of shape (n_features + 1,)
        Relative to the coefficients of all rows, clipped to stated bounds only.
    population_std_error : ndarray of shape (n_features + 1,)
        Relative to the coefficients of the population.
    note : str
        Why there are no errors, and how many rows times epsilon would give some; or which
        coefficients predictions use.
    """

    names: tuple[str, ...]
    coef: Floats
    std_error: Floats
    population_std_error: Floats
    note: str

    def __str__(self) -> str:
        width = max(len("intercept"), *(len(name) for name in self.names))
        lines = [f"{'':{width}} {'coef':>12} {'std error':>12} {'of population':>14}"]
        numbers = zip(self.names, self.coef, self.std_error, self.population_std_error, strict=True)
        lines += [f"{name:{width}} {a:12.5g} {b:12.3g} {c:14.3g}" for name, a, b, c in numbers]
        return "\n".join([*lines, self.note])
