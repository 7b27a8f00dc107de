"""Noise scaled to a smooth sensitivity, for quantiles, spanning trees and queries of others.

Released: f + round(kappa S Z), S a beta-smooth bound on the local sensitivity of the integer f, Z
of an *admissible* distribution: Cauchy's or Student's (pure epsilon-DP, exact constants below), or
Laplace's, which is (epsilon, delta)-DP and never pure. S and the noise's scale are private. log S
is rounded towards more noise on a public ladder, and kappa is calibrated for the rounded values.
Proofs: smooth_sensitivity.md.

References
----------
K. Nissim, S. Raskhodnikova, A. Smith (2007), "Smooth sensitivity and sampling in private data
analysis", STOC, sections 2 and 3.1; M. Bun, T. Steinke (2019), "Average-case averages: private
algorithms for smooth sensitivity and mean estimation", NeurIPS (Student's noise).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.core import noise as samplers
from skdp.core.noise import exact as noise_exact
from skdp.core.noise.deviates import BITS, Deviates, draw_normal
from skdp.core.noise.entropy import Entropy, resolve
from skdp.core.noise.exact import (
    as_order,
    check_scales,
    exp_bracket,
    put,
)
from skdp.core.privacy_filter import Meter, Share, exact_fraction
from skdp.loss import conversions
from skdp.loss.conversions import round_up

_SMALLEST_DELTA = 1e-250
NOISES = ("cauchy", "student", "laplace")

UP = 1 + 2.0**-40  # covers a few roundings of elementary functions
LARGEST_EPSILON = 64.0  # beyond, noise would be below the sampler's scales: that of 64 is taken
STEPS = 32  # of the ladder in beta; one of them pays for rounding
FLOOR_BITS = 20  # the ladder ends at 2**-20 steps of f's grid
LOG_ERROR = 2e-12  # of a computed log S; a step of the ladder has at least twice that
SMALLEST_BETA = 2 * STEPS * LOG_ERROR
LARGEST_SCALE = {"cauchy": 2.0**80, "student": 2.0**80, "laplace": 2.0**52}


# --- admissible noise ----------------------------------------------------------------------------


def student_kappa(epsilon: float, beta: float, nu: int) -> float:
    """Return the least kappa with which f + kappa S T_nu is epsilon-DP, rounded up.

    Guarantee: for all f, f', S, S' with |f - f'| <= min(S, S') and |log S - log S'| <= beta, the
    two densities are within a factor exp(epsilon) everywhere; with a smaller kappa some are not.

    - `epsilon`: In (0, 500].
    - `beta`: In [0, epsilon / nu).
    - `nu`: Degrees of freedom, at least 1; 1 for Cauchy noise.

    Examples
    --------
    >>> round(student_kappa(0.1, 0.05, 1), 2)
    11.26
    """
    # Differences in rational numbers: in floats they would cancel near beta = epsilon / nu.
    e, b = Fraction(epsilon), Fraction(beta)
    if nu < 1 or not 0 < e <= 500 or not 0 <= b < e / nu:
        raise ValueError("need 0 < epsilon <= 500, nu >= 1 and 0 <= beta < epsilon / nu")
    reach = (2 * e - (nu - 1) * b) / (nu + 1)
    # cosh x - cosh y = 2 sinh((x + y) / 2) sinh((x - y) / 2)
    at_zero = 2 * math.sinh(e / (nu + 1)) ** 2
    at_beta = 2 * math.sinh((reach + b) / 2) * math.sinh((reach - b) / 2) * math.exp(b)
    return UP / math.sqrt(2 * nu * min(at_zero, at_beta))


def laplace_kappa(epsilon: float, delta: float) -> tuple[float, float]:
    """Return kappa and beta with which f + kappa S Laplace is (epsilon, delta)-DP; never pure.

    kappa = 2 / epsilon: half of epsilon pays for the shift. The other half pays for the change of
    scale: beta = epsilon / (2 log(2 / delta)), or less for a large epsilon.

    Guarantee: for all f, f', S, S' with |f - f'| <= min(S, S') and |log S - log S'| <= beta.

    - `epsilon`: In (0, 500].
    - `delta`: In (0, 1).

    Examples
    --------
    >>> kappa, beta = laplace_kappa(1.0, 1e-6)
    >>> round(kappa, 3), round(beta, 4)
    (2.0, 0.0345)
    """
    if not (0 < epsilon <= 500 and 0 < delta < 1):
        raise ValueError("need 0 < epsilon <= 500 and 0 < delta < 1")
    beta = min(epsilon / (2 * math.log(2 / delta)), epsilon / 2)  # a larger scale costs beta
    # P(|Z| > t) where the ratio of Laplace densities of scales 1 and exp(-beta) passes
    # exp(epsilon / 2): t = (epsilon / 2 + beta) / (exp(beta) - 1).
    while (epsilon / 2 + beta) / math.expm1(beta) < math.log(1 / delta) * UP:
        beta *= 1 - 2.0**-6
    return 2 / epsilon * UP, beta / UP


@dataclass(frozen=True)
class SmoothNoise:
    """A calibrated admissible noise of scale kappa S; nu are degrees of freedom, 0 for Laplace.

    log of the rounded S may move by at most beta between neighbours.
    """

    kind: str
    nu: int
    epsilon: float
    delta: float
    beta: Fraction
    kappa: Fraction

    def draw(self, scales: list[Fraction], entropy: Entropy | None) -> NDArray:
        """Draw one rounded variable for each scale, exactly distributed."""
        exact = np.empty(len(scales), dtype=object)
        exact[:] = scales
        if self.kind == "laplace":  # K-norm noise in one dimension is a rounded Laplace variable
            return np.asarray(samplers.k_norm(1, exact, len(scales), entropy=entropy))[:, 0]
        return rounded_student_t(self.nu, exact, entropy=entropy)


def choose_noise(kind: str, epsilon: float, *, delta: float = 0.0, nu: int = 3) -> SmoothNoise:
    """Calibrate a noise; beta is epsilon / (2 nu), or that of `laplace_kappa`.

    - raises ValueError: if the kind is unknown, Laplace's has no delta, nu is not in [1, 1024], or
      epsilon is so small that a step of the ladder would be lost in rounding.
    - raises TypeError: if nu is not an int.
    """
    if kind not in NOISES:
        raise ValueError(f"noise must be one of {NOISES}, got {kind!r}")
    e = min(epsilon, LARGEST_EPSILON)
    if kind == "laplace":
        if not delta > 0:
            raise ValueError(
                "noise='laplace' is not pure: it needs a delta of its own (separate_delta)"
            )
        degrees = 0
        kappa, beta = laplace_kappa(e, delta)
    else:
        degrees = 1 if kind == "cauchy" else as_order(nu, "nu", 1024)
        beta = e / (2 * degrees)
        # The ladder's scales are rational; the error of their logarithms is far below this.
        kappa = student_kappa(e, beta * UP, degrees)
    if beta < SMALLEST_BETA:
        raise ValueError(
            f"smooth sensitivity needs a larger epsilon a feature, got {epsilon:g} "
            f"(its beta would be below {SMALLEST_BETA:g})"
        )
    own_delta = delta if kind == "laplace" else 0.0
    return SmoothNoise(kind, degrees, e, own_delta, Fraction(beta), Fraction(kappa))


@dataclass(frozen=True)
class Ladder:
    """The public scales width * exp(-h j), j = 0 .. last, on which S is rounded up.

    With log S known within LOG_ERROR, `level` is the greatest j with width exp(-h j) >= S, or one
    less: smooth_sensitivity.md, "The ladder". `width` is the largest possible S, in steps of f.
    """

    width: int
    h: Fraction

    @property
    def beta(self) -> float:
        """By how much the exact log S may move between neighbours."""
        return float((STEPS - 1) * self.h)

    @property
    def last(self) -> int:
        """The lowest rung, at most 2**-20 steps."""
        return math.ceil((math.log(self.width) + FLOOR_BITS * math.log(2)) / float(self.h)) + 1

    @property
    def reach(self) -> int:
        """The number k of changed rows beyond which exp(-beta k) width is below the last rung."""
        return self.last // (STEPS - 1) + 2

    def level(self, log_s: float) -> int:
        """Return the rung of S; `last` for S = 0."""
        if log_s == -math.inf:
            return self.last
        below = (math.log(self.width) - log_s - LOG_ERROR) / float(self.h)
        return min(max(math.floor(below), 0), self.last)

    def scale(self, level: int) -> Fraction:
        """Return width exp(-h level), rounded up by less than 2**-100 of it."""
        bits = 160
        return Fraction(self.width * exp_bracket(self.h * level, bits)[1], 1 << bits)


# --- the queries ----------------------------------------------------------------------------------


Statistic = Callable[[list[Ladder]], tuple[NDArray, list[int]]]


def _moved(ladders: list[Ladder]) -> Callable[[NDArray, NDArray], float]:
    """Return the distance of two exact statistics of rows (f, level): at most 1 is allowed.

    The largest |f - f'| over the smaller scale, and difference of levels over STEPS.
    """

    def distance(a: NDArray, b: NDArray) -> float:
        worst = Fraction(0)
        for ladder, (f, j), (g, k) in zip(ladders, a.tolist(), b.tolist(), strict=True):
            worst = max(worst, Fraction(abs(f - g)) / ladder.scale(max(j, k)))
            worst = max(worst, Fraction(abs(j - k), STEPS))
        return float(worst)

    return distance


def part_noise(
    level: float, widths: list[int], *, pure: bool, delta: float, noise: str, nu: int = 3
) -> SmoothNoise:
    """Return the noise of each of some numbers under a level (epsilon or mu), and `delta`.

    - raises ValueError: as `choose_noise`, or if noise for these largest sensitivities would have
      no bound.
    """
    parts = len(widths)
    epsilon = level / parts if pure else conversions.pure_part(level, parts)
    delta = delta / parts if noise == "laplace" else 0.0
    how = choose_noise(noise, epsilon / UP, delta=delta / UP, nu=nu)
    if float(how.kappa) * max(widths, default=1) > LARGEST_SCALE[noise]:
        raise ValueError("smooth sensitivity needs a larger share: the noise has no bound")
    return how


def planned_noise(query: Any, allowance: Any, delta: float = 0.0) -> SmoothNoise:
    """Return the noise of each number of a query under a `skdp.planning.Allowance`, or raise.

    `delta` is that of Laplace noise. A session refuses what is refused here.
    """
    return part_noise(
        allowance.level,
        query.widths,
        pure=allowance.pure,
        delta=delta,
        noise=query.noise,
        nu=query.nu,
    )


def smooth_release(
    meter: Meter,
    name: str,
    widths: list[int],
    statistic: Statistic,
    share: Share = None,
    *,
    noise: str = "cauchy",
    nu: int = 3,
    unit: float = 1.0,
) -> NDArray:
    """Release integers with noise scaled to their smooth sensitivities.

    Guarantee: if `statistic` maps the ladder of each number to integers f and the level of each S
    as `Ladder` says, each number is (epsilon, delta)-DP for its part of the share, delta = 0 but
    for Laplace noise. That takes all of `separate_delta`, once a session. In a Gaussian session the
    noise is pure for the share's mu. `widths` are the largest possible sensitivities, public and at
    least 1. Unknown noise or a scale out of range is refused before anything is taken.
    """
    parts = len(widths)
    # Where units have so many rows that nothing remains of that delta for one, Cauchy noise.
    claimed, of_one = meter.claimed_separate_delta, meter.separate_delta / parts
    if noise == "laplace" and claimed and of_one < _SMALLEST_DELTA:
        noise = "cauchy"
    share = meter.fraction(share)
    level, delta = meter.level(share), meter.separate_delta
    how = part_noise(level, widths, pure=meter.pure, delta=delta, noise=noise, nu=nu)
    if noise == "laplace":
        meter.take_separate_delta(exact_fraction(meter.separate_delta), name)
    fraction, _ = meter.take(share, name)
    ladders = [Ladder(width, how.beta / STEPS) for width in widths]
    f, levels = statistic(ladders)
    exact = np.array([*zip(f.tolist(), levels, strict=True)], dtype=object).reshape(parts, 2)

    def add() -> NDArray:
        scales = [how.kappa * s.scale(j) for s, j in zip(ladders, levels, strict=True)]
        total = exact[:, 0] + how.draw(scales, meter.entropy).astype(object)
        return np.asarray(total)

    noisy = meter.release(name, exact, 1.0, _moved(ladders), add, (parts,))
    kind = {"cauchy": "Cauchy", "student": f"Student ({how.nu})", "laplace": "Laplace"}[how.kind]
    meter.record(
        name,
        f"rounded {kind}, smooth sensitivity",
        f"smooth, beta = {float(how.beta):.4g}",
        max(widths) * unit,
        float(how.kappa) * max(widths) * unit,
        fraction,
        delta=round_up(exact_fraction(meter.separate_delta)) if noise == "laplace" else 0.0,
    )
    return noisy


# --- rounded Student noise ------------------------------------------------------------------------

# T = N_0 / sqrt((N_1**2 + ... + N_nu**2) / nu) with independent standard normal N_i has Student's
# distribution with nu degrees of freedom; nu = 1 is Cauchy's. The normal deviates have unlimited
# precision. Values are computed in float64 with a forward error bound, and doubtful ones again in
# integers with more bits.

_SMALLEST_SCALE = Fraction(1, 1 << 100)
_LARGEST_STUDENT_SCALE = Fraction(1 << 80)
_MAX_DEGREES = 1 << 10
_VALUES = 1 << 14  # deviates a float pass looks at
_GUARD = 16  # further bits of a square root of a quotient


def rounded_student_t(nu: int, scales: Any, *, entropy: Entropy | None = None) -> np.ndarray:
    """Draw the nearest integers to scale * T, T of Student's distribution with nu degrees.

    Guarantee: exactly distributed, given fair independent bits; Python integers if one does not fit
    int64. Scales, one a draw, count at their exact rational values, in [2**-100, 2**80]. nu is in
    [1, 1024]; no charge here.
    """
    width = as_order(nu, "nu", _MAX_DEGREES) + 1
    scales = check_scales(scales, "scales", _SMALLEST_SCALE, _LARGEST_STUDENT_SCALE)
    n, factor, source = scales.size, scales.astype(np.float64), resolve(entropy)
    drawn = draw_normal(n * width, source)
    out = np.empty(n, dtype=np.int64)
    step = max(1, _VALUES // width)
    doubtful = [np.array(sorted({k // width for k in drawn.held}), dtype=np.intp)]
    for start in range(0, n, step):
        part = slice(start, min(start + step, n))
        g = drawn.x[part.start * width : part.stop * width].reshape(-1, width)
        sure = _round(g, factor[part], out[part])
        doubtful.append(np.flatnonzero(~sure) + start)
    where = np.unique(np.concatenate(doubtful))
    bits = BITS
    while where.size:
        bits += 64
        uncertain = []
        for start in range(0, where.size, step):
            now = where[start : start + step]
            exact_scales = [Fraction(scale) for scale in scales[now].tolist()]
            values, sure = _round_exactly(drawn, exact_scales, now, nu, bits, source)
            out = put(out, now[sure], values[sure].tolist())
            uncertain.append(now[~sure])
        where = np.concatenate(uncertain)
    return out


def _round(g: np.ndarray, scale: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Round scale * g_0 sqrt(nu) / ||g_1 .. g_nu|| into `out`; return which are certain.

    Error bound, with u = 2**-53, w = 2**-48 and y the computed value:
    1. the norm: relative (nu + 2) u / 2 + u, and sqrt(nu) w / norm from unknown bits;
    2. the scale, the root of nu, two products and a quotient: relative 5 u;
    3. g_0 moves by w, that is y by (scale sqrt(nu) / norm) w.
    These first-order terms are taken 1.25 times, which covers the higher orders while their sum is
    below 2**-10; others are not certain.
    """
    nu = g.shape[1] - 1
    with np.errstate(all="ignore"):
        norm = np.sqrt((g[:, 1:] * g[:, 1:]).sum(axis=1))
        factor = scale * math.sqrt(nu) / norm
        y = factor * g[:, 0]
        relative = (1.5 * nu + 8) * 2.0**-53 + math.sqrt(nu) * 2.0**-BITS / norm
        error = (np.abs(y) * relative + factor * 2.0**-BITS) * 1.25 + noise_exact.SLACK
        nearest = np.rint(y)
        fits = np.abs(y) < 2.0**62  # False for NaN too
        sure = (np.abs(y - nearest) < 0.5 - error) & fits & (relative < 2.0**-10)
        out[...] = np.where(fits, nearest, 0.0)
    return np.asarray(sure)


def _round_exactly(
    drawn: Deviates,
    scales: list[Fraction],
    where: np.ndarray,
    nu: int,
    bits: int,
    entropy: Entropy,
) -> tuple[np.ndarray, np.ndarray]:
    """Round the values `where` with prefixes of `bits` bits; return them and which are certain.

    |g_0| is in [m_0, m_0 + 1] 2**-bits, the root of the mean square of the others in [low, high]
    2**-(bits + guard). So |Z| is in [p m_0 2**guard / (q high), p (m_0 + 1) 2**guard / (q low)] for
    the scale p/q. The upper end has probability zero.
    """
    width = nu + 1
    flat = (where[:, None] * width + np.arange(width)).ravel()
    m = drawn.prefixes(flat, bits, entropy).reshape(-1, width)
    values = np.empty(where.size, dtype=object)
    sure = np.zeros(where.size, dtype=bool)
    for i, (row, scale) in enumerate(zip(m.tolist(), scales, strict=True)):
        size = [v if v >= 0 else -v - 1 for v in row]
        low = math.isqrt((sum(v * v for v in size[1:]) << 2 * _GUARD) // nu)
        high = math.isqrt((sum((v + 1) ** 2 for v in size[1:]) << 2 * _GUARD) // nu + 1) + 1
        p, q = scale.numerator << _GUARD, scale.denominator
        least = (2 * p * size[0] + q * high) // (2 * q * high)
        values[i] = least if row[0] >= 0 else -least
        if low:
            sure[i] = least == (2 * p * (size[0] + 1) + q * low - 1) // (2 * q * low)
    return values, sure
