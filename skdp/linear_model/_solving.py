"""Linear equations with noisy moments: coefficients for predictions, and those with errors.

The moments are of standardised rows z = (columns, t) with a constant t, and of their target y,
both about 0: M = mean zz', m = mean zy, each with symmetric noise E, e whose entries have the
deviation s (on the diagonal sqrt(2) s).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import lsq_linear
from scipy.special import stdtr, stdtrit

__all__ = [
    "HIDDEN",
    "Errors",
    "Estimate",
    "Prior",
    "Summary",
    "constrained",
    "least_squares",
    "shrunk",
]

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


def shrunk(
    M: Floats, m: Floats, s: float, prior: Prior, spectrum: tuple[Floats, Floats]
) -> tuple[Floats, float]:
    """Return coefficients for predictions, and the level of shrinkage: inf where they are 0.

    They are the mean of theta under normal priors, for m = M theta + noise. Noise of M moves its
    eigenvalues w apart, by s**2 sum(1 / (w - others)), which is undone; those below 0 become 0. The
    noise of m is then that of e and of what is left of E theta. Each part that the columns may
    explain has a likelihood, by which the coefficients are averaged. `spectrum` is that of M, as
    `numpy.linalg.eigh` returns it.
    """
    w, V = spectrum
    dims = w.size
    if w[0] > _CLEAR * noise_edge(s, dims) and w[0] > 2.0**-40 * w[-1]:
        return V @ ((V.T @ m) / w), 0.0
    s = max(s, 1e-150)
    if np.abs(M).max() > _LONGEST:
        w, V = np.linalg.eigh(np.clip(M, -_LONGEST, _LONGEST))
    apart = np.subtract.outer(w, w)
    squares = np.square(apart)
    squares += s**2
    apart /= squares
    w = np.maximum(w - s**2 * apart.sum(axis=1), 0.0)
    del apart, squares  # as large as M
    w *= min(prior.trace / max(float(w.sum()), 1e-300), 1.0)
    moment = (V * w) @ V.T
    theta, likelihood, precision = [], [], []
    explained = (moment[:, :-1] * prior.square) @ moment[:-1]
    always = prior.constant**2 * np.outer(moment[:, -1], moment[-1])
    for part in _EXPLAINED:
        square = part * prior.square
        variance = np.append(square, prior.constant**2)
        noise = s**2 * (1.0 + _LEFT * float(square.sum()))
        covariance = part * explained + always
        covariance.flat[:: dims + 1] += noise
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
class Errors:
    """Errors of estimates whose variance depends on the true value.

    It is a + b x + c x**2 where the true value is estimate + x. Errors are about those of a t
    distribution with `df` degrees of freedom, scaled to this variance.
    """

    estimate: Floats
    a: Floats
    b: Floats
    c: Floats
    df: Floats

    def interval(self, level: float) -> tuple[Floats, Floats]:
        """Return the ends of the values that a test does not reject; NaN where one is infinite."""
        quantile = np.asarray(stdtrit(self.df, (1.0 + level) / 2.0))
        return self._within(quantile * np.sqrt(1.0 - 2.0 / self.df))

    def _within(self, q: Any) -> tuple[Floats, Floats]:
        """Return the ends of the values with x**2 <= q**2 (a + b x + c x**2)."""
        q = np.square(q)
        square = np.where(q * self.c < 1.0, 1.0 - q * self.c, math.nan)
        half = q * self.b / 2.0
        root = np.sqrt(half**2 + square * q * self.a)
        return self.estimate + (half - root) / square, self.estimate + (half + root) / square

    @property
    def std_error(self) -> Floats:
        """The length of an interval of 1.96 standard errors, over 3.92."""
        low, high = self._within(1.96)
        return np.asarray((high - low) / 3.92)

    def test(self) -> tuple[Floats, Floats]:
        """Return z and the two-sided p-value of the hypothesis that the true value is 0."""
        x = -self.estimate
        with np.errstate(divide="ignore", invalid="ignore"):
            z = self.estimate / np.sqrt(self.a + self.b * x + self.c * x**2)
        return z, np.asarray(2.0 * stdtr(self.df, -np.abs(z) / np.sqrt(1.0 - 2.0 / self.df)))


def constrained(
    theta: Floats, M: Floats, s: float, line: tuple[Floats, float] | None, *, positive: bool
) -> Floats:
    """Return the allowed coefficients that are nearest to theta by M, so that predictions are.

    Of those with ``c @ theta + c0 = 0``, where `line` is (c, c0), and if `positive` none but the
    constant's below 0. Directions that noise hides count as much as its edge.
    """
    M, theta = np.clip(np.nan_to_num(M), -_LONGEST, _LONGEST), np.nan_to_num(theta)
    w, V = np.linalg.eigh(M)
    edge = noise_edge(s, w.size)
    if w[0] <= _CLEAR * edge:
        w = np.maximum(w, max(edge, 1e-300))
    metric, last = np.sqrt(w)[:, None] * V.T, theta.size - 1
    free, fixed = np.eye(last + 1), np.zeros(last + 1)
    if line is not None:  # the constant's coefficient follows from the others
        c, c0 = line
        free = np.vstack([np.eye(last), -c[:last] / c[last]])
        fixed[last] = -c0 / c[last]
    least = np.full(free.shape[1], -np.inf)
    if positive:
        least[:last] = 0.0
    found = lsq_linear(metric @ free, metric @ (theta - fixed), bounds=(least, np.inf)).x
    return np.asarray(fixed + free @ found)


@dataclass(frozen=True)
class Estimate:
    """The solution theta of M theta = m, with nothing but the stated penalty.

    `inverse` is that of M. All is NaN if M is not positive definite, or noise alone may make it so.
    `sampling` is the covariance that sampling gives to M theta0 - m, if theta0 is the solution of a
    population.
    """

    theta: Floats
    inverse: Floats
    sampling: Floats
    s: float
    seen: float  # the least eigenvalue of M, in those that are just seen
    smallest: float  # that eigenvalue

    def errors(
        self, start: Floats, back: Floats, more: Floats, *, population: bool, pure: bool
    ) -> Errors:
        """Return the errors of start + back @ theta; `more` is added to their variances.

        The true moments M - E and m - e have solutions theta0 with (M - E) theta0 = m - e. So
        exactly, theta0 - theta = M^-1 (E theta0 - e), with the noisy M that is known. E theta0 - e
        has the covariance s**2 ((1 + |theta0|**2) I + theta0 theta0'), which depends on theta0. So
        an interval has the values of a coefficient that a test does not reject (as Fieller's of a
        ratio). If a coefficient is known, generalised least squares estimates theta0 by
        theta + u x. What noise then adds to the square of its length is subtracted.
        """
        theta, inverse, square, dims = self.theta, self.inverse, self.s**2, self.theta.size
        if not self.seen > 1.0:
            nothing = start + np.full(len(back), math.nan)
            df = nothing if pure else np.full_like(nothing, math.inf)
            return Errors(nothing, nothing, nothing, nothing, df)
        length = float(theta @ theta)
        middle = square * ((1.0 + length) * np.eye(dims) + np.outer(theta, theta))
        sampling = self.sampling if population else np.zeros_like(middle)
        covariance = inverse @ (middle + sampling) @ inverse
        g, u = inverse @ back.T, covariance @ back.T
        variance = np.maximum((back.T * u).sum(axis=0), 1e-300)
        added = np.trace(covariance) - (u**2).sum(axis=0) / variance
        u = u / variance
        gg, gu, uu = ((x * y).sum(axis=0) for x, y in ((g, g), (g, u), (u, u)))
        tg, tu = theta @ g, theta @ u
        # The square of the length of theta + u x is at least 0.
        known = np.maximum(length - added, tu**2 / np.maximum(uu, 1e-300))
        noise = square * ((1.0 + known) * gg + tg**2)
        a = noise + (g * (sampling @ g)).sum(axis=0) + more
        b, c = 2.0 * square * (tu * gg + tg * gu), square * (uu * gg + gu**2)
        df = np.full(a.shape, math.inf)
        if pure:
            # Entries of Wishart noise have heavy tails. The noise of a coefficient is the trace of
            # W A, whose excess kurtosis is 6 sum(l**4) / (dims + 2) / sum(l**2)**2, where A has the
            # eigenvalues l = (tg +- sqrt(far)) / 2.
            far, near = (1.0 + length) * gg, tg**2
            kurtosis = 3.0 * (near**2 + 6.0 * near * far + far**2) / (dims + 2.0)
            kurtosis = kurtosis * (noise / np.maximum((near + far) * a, 1e-300)) ** 2
            df = 4.0 + 6.0 / np.maximum(kurtosis, 1e-9)
        return Errors(start + back @ theta, a, b, c, df)


def least_squares(
    M: Floats,
    m: Floats,
    s: float,
    square: float,
    penalty: Floats,
    n: float,
    spectrum: tuple[Floats, Floats],
) -> Estimate:
    """Solve M theta = m, where M has the diagonal `penalty`; `square` is the mean of y**2.

    A row with the residual u = y - z'theta0 has the part -zu / n in M theta0 - m. If the variance
    of the residuals of least squares is the same everywhere and there is no penalty, the mean of
    zz'u**2 is that of zz' times u**2. With a penalty P this holds about: exactly, if columns are
    normal, with P theta0 theta0'P in addition.
    """
    w, V = spectrum
    dims = w.size
    seen = float(w[0] / max(HIDDEN * s, 2.0**-40 * w[-1], 1e-300))
    if not seen > 1.0:
        nothing = np.full((dims, dims), math.nan)
        return Estimate(nothing[0], nothing, nothing, s, seen, float(w[0]))
    inverse = (V / w) @ V.T
    theta = inverse @ m
    pulled = penalty * theta
    # Residuals are smaller than those of theta0, as theta follows the noise, and the rows.
    followed = s**2 * ((1.0 + theta @ theta) * np.trace(inverse) + theta @ inverse @ theta)
    residual = float(square - m @ theta - pulled @ theta + followed)
    residual = min(max(residual, 0.0), square) * n / max(n - dims, 1.0)
    sampling = (residual * (M - np.diag(penalty)) + np.outer(pulled, pulled)) / n
    return Estimate(theta, inverse, sampling, s, seen, float(w[0]))


@dataclass(frozen=True)
class Summary:
    """Coefficients with standard errors, tests and intervals; the last is the intercept.

    Printed as a table.

    - `coef` of shape (n_features + 1,): Of least squares with nothing but the stated penalty.
    - `std_error` of shape (n_features + 1,)
    - `z`, `p_value` of shape (n_features + 1,): Test of the hypothesis that a coefficient is 0.
      Where noise is large, z is not ``coef / std_error``, as errors depend on the coefficient.
    - `low`, `high` of shape (n_features + 1,): Interval at the level `level`.
    - `of` ({"population", "rows"}): Of which coefficients these are errors.
    - `note`: Why there are no errors, and what would give some; or which coefficients predictions
      use.
    """

    names: tuple[str, ...]
    coef: Floats
    std_error: Floats
    z: Floats
    p_value: Floats
    low: Floats
    high: Floats
    level: float
    of: str
    note: str

    def to_frame(self) -> Any:
        """Return a pandas DataFrame, a row for each coefficient.

        - returns: Indexed by name.
        """
        import pandas as pd

        columns = ("coef", "std_error", "z", "p_value", "low", "high")
        numbers = {name: getattr(self, name) for name in columns}
        return pd.DataFrame(numbers, index=pd.Index(self.names))

    def __str__(self) -> str:
        width = max(len("intercept"), *(len(name) for name in self.names))
        ends = (f"[{(1 - self.level) / 2:.3g}", f"{(1 + self.level) / 2:.3g}]")
        heads = ("coef", "std error", "z", "p", *ends)
        lines = [" " * width + "".join(f"{head:>12}" for head in heads)]
        numbers = zip(
            self.coef, self.std_error, self.z, self.p_value, self.low, self.high, strict=True
        )
        lines += [
            f"{name:{width}}{a:12.5g}{b:12.3g}{z:12.2f}{p:12.3g}{low:12.5g}{high:12.5g}"
            for name, (a, b, z, p, low, high) in zip(self.names, numbers, strict=True)
        ]
        return "\n".join([*lines, f"Errors are those of the {self.of}. {self.note}".strip()])
