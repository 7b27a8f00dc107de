"""Calibrated probabilities, from released counts of how often a score is right.

A fit releases how many rows of each outcome are in each bin of its own lead (the logit of two
classes; else the lead of the best class over the next). The curve from leads to probabilities is
the mean of many logistic curves, weighted by how well they fit the counts (with their known noise)
and by how plausible they are. So probabilities are near to the shares of the classes where noise
hides whether the scores tell anything.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_ndtr, logit, logsumexp

from skdp.core import Session
from skdp.planning import Allowance
from skdp.queries import leads, score_counts, softmax

__all__ = [
    "Calibration",
    "Recalibration",
    "SoftLabels",
    "calibration_share",
    "shrunk_shares",
    "signal_of",
    "typical_lead",
]

Floats = NDArray[np.float64]

_SHARES_OF_ALLOWANCE = (0.02, 0.05, 0.1)  # of what is left when classes are counted
# Bins of leads end at these multiples of a typical lead, on either side of 0, which noise and
# columns that depend on each other may make a hundred times too small or too large. Of 16 bins on a
# side, 2, 4, 8 or 16 are one, until the noise of all counts together is below a part of the rows.
_EDGES = 2.0 ** np.arange(-7, 8)
_WIDTHS, _NOISY, _QUIET = (1, 2, 4, 8, 16), 0.1, 0.05
_SPREAD_OF_LEADS = 1.5  # prior deviation of the logarithm (to base 2) of leads
# The curves: their spread of logits over the rows, their logits in the middle (in prior deviations)
# and where they bend, in median leads; and their prior: the spread is less than that of the model
# itself, and within the limits, which stand for an area under the ROC curve of .58 to .92.
_SPREADS, _MIDDLES, _BENDS = np.geomspace(0.05, 12, 16), np.linspace(-3, 3, 17), (0.3, 1.0, 4.0)
_MIDDLE, _SHRINKAGE, _SPREAD, _LIMITS = 0.7, 0.8, 1.0, (0.3, 5.0)
_SLOWEST = 1e-3  # spread of a curve that keeps the order of rows and tells nothing else
_RATIO = 0.15
_LEAST_SIGNAL = 0.3
_SHARES = 0.5  # prior deviation of the share of one of k classes, times k
_MOST_DOUBT = 0.1  # part of rows far from 0 that may have another class than their lead says
_LEAST_NOISE = 0.1  # of a count, in rows, below which the arithmetic would lose digits
_MISFIT = 0.02  # of the mean of a curve, beside the noise of the shares of classes


def signal_of(means: Floats, noise: Floats, shares: Floats) -> float:
    """Return which part of the distances between means of classes is not noise, in [0, 1].

    `means` (K, d) are in units of the columns' deviations; `noise` is that of each mean.
    """
    away = means - shares @ means
    squares = float(shares @ np.square(away).sum(axis=1))
    of_noise = float(shares @ np.broadcast_to(np.square(noise), means.shape).sum(axis=1))
    return min(max(1.0 - of_noise / max(squares, 1e-300), 0.0), 1.0)


def calibration_share(session: Session, n: float, n_classes: int) -> Fraction:
    """Return the share for counts of leads: the smallest with little noise, or a tenth."""
    if n_classes < 2:
        return Fraction(0)
    sides = 2 if n_classes == 2 else 1
    for part in map(Fraction, map(str, _SHARES_OF_ALLOWANCE)):
        share: Fraction = part * session.remaining
        noise = Allowance.left(session, share).cell_std / max(n, 1.0)
        if noise * math.sqrt(2 * sides * 16) <= _QUIET:
            break
    return share


def shrunk_shares(counts: Floats, spread: float) -> Floats:
    """Return the shares of classes, shrunk towards equal ones as their noise asks for."""
    n, k = float(counts.sum()), len(counts)
    shares = counts / n
    squares, noise = (_SHARES / k) ** 2, (spread / n) ** 2
    shrunk: Floats = 1 / k + squares / (squares + noise) * (shares - 1 / k)
    return shrunk


def typical_lead(means: Floats, deviation: float, shares: Floats) -> float:
    """Return a lead of normal rows with these means of classes (K, d) and this deviation."""
    away = means - shares @ means
    distance = math.sqrt(2 * float(shares @ np.square(away).sum(axis=1)))
    return distance * deviation + distance**2 / 2


def _places(lead: Floats, unit: float) -> Floats:
    """Return leads on a scale that is linear up to a unit, and logarithmic beyond."""
    return np.arcsinh(np.clip(lead, -1e150, 1e150) / unit)


@dataclass(frozen=True)
class Calibration:
    """Logits of classes from a model's scores.

    - `shares` of shape (K,): The shares of the classes, shrunk by their noise.
    - `leads`, `logits` of shape (m,): The curve. Of two classes: the logit of the second one, at
      its lead. Of more: what a lead over a class adds to the logarithm of the ratio of their
      shares.
    """

    scores: Any
    shares: Floats
    leads: Floats
    logits: Floats

    @classmethod
    def fitted(
        cls,
        session: Session,
        scores: Any,
        typical: float,
        signal: float,
        counts: Floats,
        spread: float,
        most: float | None = None,
    ) -> Calibration:
        """Release counts of leads for all that is left, and fit the curve; of one class nothing.

        - `typical`: A lead, as far as the model knows.
        - `signal`: Which part of the differences of classes is not noise; see `signal_of`.
        - `counts` of shape (K,): Noisy counts of the classes, with this `spread`; as fractions of
          `most`, if rows have weights.
        """
        if len(counts) < 2:
            return cls(scores, np.ones(1), np.zeros(1), np.zeros(1))
        unit = min(max(float(typical), 1e-6), 1e6) if math.isfinite(typical) else 1.0
        two = len(counts) == 2
        std = Allowance.left(session).cell_std
        width = _width(std / max(float(counts.sum()), 1.0), two)
        edges = unit * _EDGES[width - 1 :: width]
        cuts = np.concatenate([-edges[::-1], [0.0], edges]) if two else edges
        release = session.answer(score_counts(scores, cuts, most))
        shares = shrunk_shares(counts, spread)
        noise = max(float(np.mean(release.std)), _LEAST_NOISE)
        side = unit * np.append(_EDGES[0] / 2, _EDGES * math.sqrt(2))  # in the narrowest bins
        at = np.concatenate([-side[::-1], side]) if two else side
        likely = np.exp(-0.5 * (np.log2(np.abs(at) / unit) / _SPREAD_OF_LEADS) ** 2)
        within = (likely / likely.sum()).reshape(len(release.value), -1)
        curve = _curve(np.array(release.value), noise, at, within, signal, shares, counts, spread)
        far = unit * np.geomspace(1e-4, 1e4, 160)
        points = np.concatenate([-far[::-1], [0.0], far]) if two else np.append(0.0, far)
        return cls(scores, shares, points, curve(points))

    def of_rows(self, X: Floats) -> Floats:
        """Return the logits of rows: (n, 1) of the second of two classes, or (n, K)."""
        scores = self.scores.of_rows(X)
        if scores.shape[1] == 2:
            return np.interp(scores[:, 1] - scores[:, 0], self.leads, self.logits)[:, None]
        behind = scores.max(axis=1, keepdims=True) - scores
        return np.log(self.shares) - np.interp(behind, self.leads, self.logits)


def _width(noise: float, two: bool) -> int:
    """Return how many of the narrowest bins are one, for the noise of a count in rows of all."""
    sides = 2 if two else 1
    able = [w for w in _WIDTHS if noise * math.sqrt(2 * sides * 16 / w) <= _NOISY]
    return able[0] if able else _WIDTHS[-1]


def _curve(
    counts: Floats,
    std: float,
    at: Floats,
    within: Floats,
    signal: float,
    shares: Floats,
    of_classes: Floats,
    spread: float,
    ratio: float = 0.0,
) -> Any:
    """Return the function from leads to logits that is the mean of curves.

    Rows of each bin (a row of `within`) have leads `at`, in the same order, with these
    probabilities, as far as the model knows. `ratio` is the mean logarithm of the share of the
    first of several classes over that of the next.
    """
    n = float(of_classes.sum())
    signal = max(signal, _LEAST_SIGNAL)
    two = len(shares) == 2
    # How many rows are in each bin: as counted where that is clear, else as the model says.
    of_bins = within.sum(axis=1)
    within = within / of_bins[:, None]
    rows = np.maximum(counts.sum(axis=1) - std, 0.0) + std * len(counts) / 4 * of_bins
    weights = ((rows / rows.sum())[:, None] * within).ravel()
    order = np.argsort(np.abs(at), kind="stable")
    median = float(np.abs(at)[order][np.searchsorted(np.cumsum(weights[order]), 0.5)])
    p = float(shares[1])
    error = math.hypot(spread / n, _MISFIT)
    middle = float(logit(min(max(p, 1e-4), 1 - 1e-4))) if two else ratio
    offsets = middle + _MIDDLES * (_MIDDLE if two else _RATIO)
    expected = n * rows / rows.sum()
    curves: list[tuple[float, float, float]] = []
    fits: list[float] = []
    for bend in _BENDS:
        places = _places(at, bend * median)
        centre = float(weights @ places) if two else 0.0
        sd = max(math.sqrt(float(weights @ (places - centre) ** 2)), 1e-9)
        # Logits as they are, on this scale.
        own = float(np.clip(bend * median * sd, _LIMITS[0], _LIMITS[1] * signal**2))
        prior = math.log(own * _SHRINKAGE * signal)
        for spread_of_logits in np.append(_SPREADS, _SLOWEST):
            slope = spread_of_logits / sd
            chances = expit(offsets[:, None] + slope * (places - centre))  # a row for each offset
            means = (chances.reshape(-1, *within.shape) * within).sum(axis=2)
            fit = _fit(means, counts, std, expected)
            fit -= _MIDDLES**2 / 2
            if spread_of_logits == _SLOWEST:
                fit += math.log(max(1.0 - signal, _LEAST_SIGNAL) * 3)
            else:
                fit -= ((math.log(spread_of_logits) - prior) / _SPREAD) ** 2 / 2
                fit += math.log(signal)
            if two:
                fit -= ((np.array([weights @ row for row in chances]) - p) / error) ** 2 / 2
            fits.extend(fit.tolist())
            shift = slope * centre if two else offsets
            curves.extend((bend * median, offset, slope) for offset in offsets - shift)
    weight = np.exp(np.array(fits) - logsumexp(fits))
    kept = weight > 1e-6

    def curve(leads: Floats) -> Floats:
        chance = np.zeros(len(leads))
        rest = np.zeros(len(leads))
        places = {bend * median: _places(leads, bend * median) for bend in _BENDS}
        for w, (bend, offset, slope) in zip(weight[kept], np.array(curves)[kept], strict=True):
            z = offset + slope * places[bend]
            chance += w * expit(z)
            rest += w * expit(-z)
        # Counts with this noise do not show that rarer exceptions are missing.
        doubt = min(std / max(n, 1.0), _MOST_DOUBT)
        chance, rest = ((1 - doubt) * p + doubt / 2 for p in (chance, rest))
        return np.asarray(np.log(chance) - np.log(rest))

    return curve


def _fit(chance: Floats, counts: Floats, std: float, rows: Floats) -> Floats:
    """Return the log likelihood of noisy counts of wrong and right rows, for chances to be right.

    `chance` has a row for each curve and a column for each bin.

    The number of rows of a bin is unknown: none, or any number up to all of them.
    """
    wrong, right = counts[:, 0], counts[:, 1]
    q = 1.0 - chance
    squares = chance**2 + q**2
    sampling = np.maximum(rows, 0.0) * chance * q
    apart = (q * right - chance * wrong) ** 2 / (squares * std**2 + sampling)
    along = (chance * right + q * wrong) / (std * np.sqrt(squares))
    width = np.sqrt(2 * math.pi / squares) * std / max(float(rows.sum()) / 4, std)
    some = np.log(width) - apart / 2 + log_ndtr(along)
    some += 0.5 * np.log(squares * std**2 / (squares * std**2 + sampling))
    none = -(wrong**2 + right**2) / (2 * std**2)
    return np.logaddexp(some, none).sum(axis=1)


# --- any estimator, through a released model ------------------------------------------------------

_BINS, _PLACES = (8, 4, 2), 8  # of leads of synthetic rows, and leads that stand for those of a bin
_TABLES_SIGNAL = 0.45  # of the leads of fitted tables: they follow noise, too
_LEAST_SLOPE = 1e-3  # of a logit, which keeps the order of rows
_TEMPERATURES = np.geomspace(1e-3, 8.0, 50)
_FURTHER, _STEPS = 20.0, 20  # the most that a class loses for being further behind; of a search


@dataclass(frozen=True)
class SoftLabels:
    """Shares of the classes, and for synthetic rows their calibrated probabilities and weights."""

    shares: Floats
    chances: Floats
    weights: Floats

    @classmethod
    def released(
        cls, session: Session, scores: Any, codes: NDArray, shares: Floats, n: float, spread: float
    ) -> SoftLabels:
        """Release counts of leads for all that is left.

        Bins are between quantiles of the leads of synthetic rows, `codes`. `spread` is the noise of
        the number of rows of a class.
        """
        two = scores.n_classes == 2
        own = scores.of_rows(codes)
        lead = leads(own)[0]
        std = Allowance.left(session).cell_std / max(n, 1.0)
        n_bins = next((b for b in _BINS if std * math.sqrt(2 * b) <= _NOISY), _BINS[-1])
        cuts = np.unique(np.quantile(lead, np.arange(1, n_bins) / n_bins))
        release = session.answer(score_counts(scores, cuts))
        place = np.searchsorted(cuts, lead, side="right")
        at = np.zeros((cuts.size + 1, _PLACES))
        for b in range(cuts.size + 1):
            inside = lead[place == b] if (place == b).any() else cuts[[min(b, cuts.size - 1)]]
            at[b] = np.quantile(inside, (np.arange(_PLACES) + 0.5) / _PLACES)
        mass = np.bincount(place, minlength=len(at)) / len(lead)
        within = np.tile(np.maximum(mass, 1e-6)[:, None] / _PLACES, (1, _PLACES))
        counts, noise = np.array(release.value), max(float(np.mean(release.std)), _LEAST_NOISE)
        of_classes = n * shares
        shares = shrunk_shares(of_classes, spread)
        signal = _TABLES_SIGNAL
        first, following = np.argsort(-own, axis=1)[:, :2].T
        ratio = float(np.mean(np.log(shares[first] / shares[following])))
        curve = _curve(counts, noise, at.ravel(), within, signal, shares, of_classes, spread, ratio)
        if two:
            chances = softmax(curve(lead)[:, None])
            chances = np.hstack([1.0 - chances, chances])
        else:
            behind = np.clip(own.max(axis=1, keepdims=True) - own, 0.0, 1e3)
            logs = np.log(shares) - curve(behind.ravel()).reshape(behind.shape)
            in_two = (counts.sum() - noise * math.sqrt(counts.size)) / max(n, 1.0)
            chances = _first_two(logs, behind, in_two)
        # Rows of a bin count as those that were released in it; with noise, as synthetic ones.
        part = np.maximum(counts.sum(axis=1), 0.0) + 2 * noise * len(at) * mass
        weights = (part / part.sum() / np.maximum(mass, 1e-6))[place]
        return cls(shares, chances, weights)

    def of(self, classes: list[int]) -> SoftLabels:
        """Return those of some classes."""
        if classes == list(range(len(self.shares))):
            return self
        chances, shares = self.chances[:, classes], self.shares[classes]
        chances = chances / chances.sum(axis=1, keepdims=True)
        return SoftLabels(shares / shares.sum(), chances, self.weights)

    def of_estimator(self, logs: Floats) -> Recalibration:
        """Return what calibrates an estimator with these log probabilities for the same rows."""
        if logs.shape[1] == 2:
            return Recalibration(self.shares, *self._line(logs[:, 1] - logs[:, 0]))
        base, own = np.log(self.shares), self._own(logs)
        losses = []
        for slope in _TEMPERATURES:
            fitted = np.log(np.maximum(softmax(base + slope * (logs - own)), 1e-300))
            losses.append(-float((self.weights[:, None] * self.chances * fitted).sum()))
        slope = float(_TEMPERATURES[int(np.argmin(losses))])
        return Recalibration(self.shares, base - slope * own, slope)

    @staticmethod
    def _own(logs: Floats) -> Floats:
        """Return the logarithms of an estimator's mean probabilities."""
        own: Floats = np.log(np.maximum(np.exp(logs).mean(axis=0), 1e-6))
        return own

    def _line(self, logit_: Floats) -> tuple[Floats, float]:
        """Return intercept and slope of the weighted logistic regression on an own logit."""
        middle, scale = float(logit_.mean()), max(float(logit_.std()), 1e-6)
        z = np.column_stack([np.ones(len(logit_)), (logit_ - middle) / scale])
        at = np.zeros(2)
        for _ in range(30):
            p = expit(z @ at)
            gradient = z.T @ (self.weights * (p - self.chances[:, 1])) / len(z)
            curvature = (z.T * (self.weights * p * (1 - p))) @ z / len(z) + 1e-6 * np.eye(2)
            at = at - np.clip(np.linalg.solve(curvature, gradient), -2.0, 2.0)
        slope = max(float(at[1]), _LEAST_SLOPE) / scale
        return np.array([0.0, float(at[0]) - slope * middle]), slope


def _first_two(logs: Floats, behind: Floats, share: float) -> Floats:
    """Return probabilities, in which the first two classes of rows have this share at least.

    The curve is known for these two. Classes that are further behind lose as much more of their
    logarithms as that needs, in proportion to how far they are behind the second.
    """
    order = np.sort(behind, axis=1)
    second = order[:, 1:2]
    further = np.arcsinh(np.maximum(behind - second, 0.0) / max(float(np.median(second)), 1e-9))
    low, high = 0.0, _FURTHER
    chances = softmax(logs)
    for _ in range(_STEPS):
        of_two = float(np.where(behind <= second, chances, 0.0).sum(axis=1).mean())
        middle = (low + high) / 2
        if of_two >= share and low == 0.0 and high == _FURTHER:
            break
        chances = softmax(logs - middle * further)
        more = float(np.where(behind <= second, chances, 0.0).sum(axis=1).mean()) < share
        low, high = (middle, high) if more else (low, middle)
    return chances


@dataclass(frozen=True)
class Recalibration:
    """Offsets (K,) and a slope of an estimator's log probabilities."""

    shares: Floats
    offset: Floats
    slope: float

    def of_logs(self, logs: Floats) -> Floats:
        """Return calibrated probabilities."""
        return softmax(self.offset + self.slope * logs)
