"""Privacy loss distributions: the total of planned releases.

Every price stands for a pair of distributions that dominates the release: randomized response for
epsilon-DP, two normal distributions for mu-GDP, and for a delta a draw that tells everything. What
is released of a plan is as private as the product of its pairs (PROOFS.md, beside this file).

How it is computed. Losses of the pure prices lie on a grid. One that is between two points of it
is split onto both, so that its mass under P and under Q stay: (1 - exp(x - loss))+ is a convex
function of exp(-loss), so each delta only grows (Jensen's inequality). Everything is added and
multiplied with numbers >= 0, so a rounding error is a small part of each mass; it is counted, and
added. Prices that are small beside the grid count as Gaussian ones, which dominate them (Dong, Roth
& Su 2022, Proposition 3). What is cut off above counts as infinite, what is cut off below is moved
up. All Gaussian prices are one, exactly, and enter by the closed form of their delta. No Fourier
transform is taken: its errors are absolute, and would be the larger part of a small delta
(doc/accountants.md compares with dp-accounting).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, ndtr

from skdp.loss.charge import Cost
from skdp.loss.conversions import exact, pure_mu, round_up, smallest

_U = 2.0**-52  # twice the rounding error of one operation
_POINTS = 2**15  # of the grid, about
_TAIL = 1e-30  # mass that is cut off at each end, at most, each time
_LARGEST = 10**50  # sums and numbers of prices; plans beyond count as telling all
_SPARSE = 64  # so many points are added one by one


@dataclass(frozen=True)
class Losses:
    """Masses under P of the losses (first + i) * step; the rest of the mass is infinite.

    No mass is smaller than it should be by more than the part `error` of itself; `infinite` is the
    mass of outcomes that tell everything.
    """

    first: int
    masses: NDArray[np.float64]
    infinite: float = 0.0
    error: float = 0.0

    def and_(self, other: Losses) -> Losses:
        """Return the losses of both releases together."""
        many, few = (self, other) if self.masses.size >= other.masses.size else (other, self)
        points = np.flatnonzero(few.masses)
        if points.size <= _SPARSE:
            masses = np.zeros(many.masses.size + few.masses.size - 1)
            for point in points:
                masses[point : point + many.masses.size] += few.masses[point] * many.masses
        else:
            masses = np.convolve(many.masses, few.masses)  # sums of products, no transform
        return Losses(
            self.first + other.first,
            masses,
            self.infinite + other.infinite,
            self.error + other.error + (points.size + 2) * _U,
        )

    def times(self, n: int) -> Losses:
        """Return the losses of `n` such releases together."""
        power, total = self, self if n % 2 else None
        while n := n // 2:
            power = power.and_(power).trimmed()
            if n % 2:
                total = power if total is None else total.and_(power).trimmed()
        assert total is not None
        return total

    def trimmed(self) -> Losses:
        """Return the same without its tails: the upper counts as infinite, the lower moves up."""
        if self.masses.size < 256:
            return self
        low = int(np.searchsorted(np.cumsum(self.masses), _TAIL))
        high = int(np.searchsorted(np.cumsum(self.masses[::-1]), _TAIL))
        masses = self.masses[low : self.masses.size - high].copy()
        masses[0] += self.masses[:low].sum()
        infinite = self.infinite + (1 + 1e-9) * float(self.masses[self.masses.size - high :].sum())
        return Losses(self.first + low, masses, infinite, self.error + self.masses.size * _U)


def _pure(epsilon: Fraction, step: Fraction) -> Losses:
    """Return randomized response at epsilon, each of its losses split onto two points."""
    low = epsilon // step
    over = epsilon - low * step
    above = 1 / (1 + math.exp(-epsilon)) * (1 + 8 * _U)  # upwards, as all that follows
    below = math.exp(-epsilon) * above
    if not over:
        masses = np.zeros(2 * int(low) + 1)
        masses[0], masses[-1] = below, above
        return Losses(-int(low), masses)
    # With losses 0 and `step`, of which `over` is between: the part that goes up keeps the sum
    # of the masses and that of their products with exp(-loss).
    up = math.expm1(-over) / math.expm1(-step)
    down = math.exp(-over) * math.expm1(-(step - over)) / math.expm1(-step)
    masses = np.zeros(2 * int(low) + 3)
    masses[-1] += above * up
    masses[-2] += above * down
    # -epsilon lies `step - over` above the point below it
    masses[1] += below * math.expm1(-(step - over)) / math.expm1(-step)
    masses[0] += below * math.exp(-(step - over)) * math.expm1(-over) / math.expm1(-step)
    return Losses(-int(low) - 1, masses * (1 + 32 * _U))


def _step(charges: Mapping[Fraction, int]) -> Fraction:
    """Return the width of the grid: one that all losses lie on, if it can be had."""
    root = math.hypot(*(math.sqrt(n) * float(epsilon) for epsilon, n in charges.items()))
    # All losses but a mass of 1e-30 lie within 12 times the root of the sum of squares of their
    # mean (Hoeffding's inequality), and all of them within their sum.
    reach = min(24 * root, 2 * float(sum(n * e for e, n in charges.items())))
    denominator = math.lcm(*(epsilon.denominator for epsilon in charges))
    common = Fraction(math.gcd(*(int(e * denominator) for e in charges)), denominator)
    return common if reach <= _POINTS * common else Fraction(reach / _POINTS)


def _gaussian_deltas(epsilons: NDArray[np.float64], mu: float) -> NDArray[np.float64]:
    """Return upper bounds on the delta of mu-GDP at each epsilon, of any sign; see `gdp_delta`."""
    if mu == 0:
        return -np.expm1(np.minimum(epsilons, 0.0))
    size = np.abs(epsilons)
    mu = max(mu, 1e-100)  # upwards
    with np.errstate(over="ignore", under="ignore"):
        ratio = size / mu
        a, b = mu / 2 - ratio, -mu / 2 - ratio
        scale = np.exp(-np.minimum(a * a, 1500.0) / 2) / 2
        second = erfcx(-b / math.sqrt(2))
        slack = 1e-12 + 1e-15 * (a * a + (np.abs(a) + 1) * ratio)
        near = ndtr(a) * (1 + slack) - scale * second * (1 - slack)
        first = erfcx(np.maximum(-a, 0.0) / math.sqrt(2))
        far = scale * ((first - second) + slack * (first + second))
    deltas = np.clip(np.where(a < 0, far, near), 0.0, 1.0)
    below = -np.expm1(-size) + np.exp(-size) * deltas * (1 + 8 * _U)
    return np.where(epsilons < 0, below, deltas)


@dataclass(frozen=True)
class PlanLoss:
    """What releases that were fixed in advance amount to together."""

    losses: Losses  # of the pure releases
    step: float  # of their grid
    mu: float  # of all Gaussian releases
    separate: float  # the probability that one of the separate deltas happens

    def delta(self, epsilon: float) -> float:
        """Return an upper bound on the smallest delta at this epsilon (at least 0), in [0, 1]."""
        losses = self.losses
        points = (losses.first + np.arange(losses.masses.size)) * self.step
        remaining = (epsilon - points) - 4 * _U * (
            epsilon + np.abs(points)
        )  # downwards: more delta
        mean = float(np.sum(losses.masses * _gaussian_deltas(remaining, self.mu)))
        error = losses.error + (losses.masses.size + 64) * _U
        mean = min(1.0, mean * (1 + 2 * error) + losses.infinite * (1 + 8 * _U))
        bound = (self.separate + (1 - self.separate) * mean) * (1 + 8 * _U)
        return min(1.0, bound + 1e-300)  # of masses too small for a float

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon at this delta in [0, 1), rounded up, or infinity."""
        if self.separate + self.losses.infinite >= delta:
            return math.inf
        top = (self.losses.first + self.losses.masses.size) * self.step
        if math.isinf(top + 40 * self.mu * (1 + self.mu)) or self.delta(1e4 + top) > delta:
            return math.inf
        # The decimal that repr shows of the result may lie an ulp below it.
        return math.nextafter(smallest(lambda e: self.delta(e) <= delta, 1.0), math.inf)


_ALL = PlanLoss(Losses(0, np.zeros(1), infinite=1.0), 1.0, 0.0, 0.0)  # what tells everything


def plan_loss(cost: Cost) -> PlanLoss:
    """Return what a plan amounts to; `cost` is the sum of all planned prices.

    Examples
    --------
    >>> from skdp.budget import Cost
    >>> from skdp.loss.pld import plan_loss
    >>> round(plan_loss(100 * Cost(0.1)).epsilon(1e-6), 2)
    4.77
    """
    charges: Counter[Fraction] = Counter()
    square, safe = Fraction(0), 0.0  # the log of the probability that no separate delta happens
    for single, n in cost.components:
        if n > _LARGEST:
            return _ALL
        if single.mu is None:
            charges[exact(single.epsilon)] += n
            safe += n * math.log1p(-single.delta)
        else:
            square += n * exact(single.mu) ** 2
            safe += n * math.log1p(-single.separate_delta)
    if sum(n * epsilon for epsilon, n in charges.items()) > _LARGEST or square > _LARGEST:
        return _ALL
    step = _step(charges) if charges else Fraction(1)
    # Where the grid is too wide, Gaussian releases stand for pure ones: split onto points that are
    # `step` apart, a loss of epsilon has a square of epsilon * step. The normal distributions that
    # dominate it have 1.58 epsilon^2, which is less.
    fine = {epsilon: n for epsilon, n in charges.items() if 2 * epsilon < step}
    square += sum(n * exact(pure_mu(float(epsilon))) ** 2 for epsilon, n in fine.items())
    losses = Losses(0, np.ones(1))
    for i, epsilon in enumerate(sorted(charges.keys() - fine.keys())):
        losses = losses.and_(_pure(epsilon, step).times(charges[epsilon]))
        if i % 16 == 15:
            losses = losses.trimmed()
    losses = losses.trimmed()
    mu = math.nextafter(math.sqrt(round_up(square)) * (1 + 4 * _U), math.inf) if square else 0.0
    separate = min(1.0, -math.expm1(safe) * (1 + 1e-12))  # upwards
    return PlanLoss(losses, float(step), mu, separate)
