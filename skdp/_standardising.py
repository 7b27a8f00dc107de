"""Centers, scales and counts of classes that supervised fits ask for before anything else.

Nothing is released here, except that functions ask an open session. With `most`, rows have weights:
a row counts by the part of this bound that its weight is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skdp.core import Mean, ScaledBox, Session
from skdp.planning import Allowance
from skdp.queries import Labels, moments, row_counts

Floats = NDArray[np.float64]

COUNT_SHARE = 0.02
# Of a class's count: above this noise, a share more.
_COUNTS_WELL, _MORE_COUNTS = 0.2, 0.1
_CENTER_USEFUL = 1.0  # noise of the mean of all columns' means, in half widths
_REACH = 4.0  # scales from the mean of a column, that narrower bounds reach
_USEFUL = 0.1  # noise of a column's mean square, in squares of half its width
_SHORTEST = 1e-3  # norm that rows may have at least, in scales: of constant columns


@dataclass(frozen=True)
class Standard:
    """Center and scale of the columns, in user units.

    Attributes
    ----------
    center, scale : ndarray of shape (d,)
        Scales are positive.
    spread : float
        The trace of the covariance of what is centred and scaled, up to noise; NaN if nothing but
        the bounds is known.
    """

    center: Floats
    scale: Floats
    spread: float

    def reach(self, low: Floats, high: Floats) -> float:
        """Return the largest norm that a row within bounds has, centred and scaled."""
        with np.errstate(over="ignore"):
            far = np.maximum(high - self.center, self.center - low) / self.scale
            return max(float(np.linalg.norm(far)), _SHORTEST)


def standardised(
    session: Session,
    allowance: Allowance,
    low: Floats,
    high: Floats,
    n: float,
    share: float,
    *,
    again: bool = False,
    most: float | None = None,
) -> Standard:
    """Release means and mean squares where they say something; else take the middle of the bounds.

    A variance counts as at least twice its noise. A column of which nothing is known is taken for
    uniform. With `again`, where bounds are so wide that noise hides what is in them, narrower ones
    are asked once more: for those who clip rows in predictions too, as the scale of a column of
    rare values may come out far too small.
    """
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    flat = half <= 0
    error = allowance.part(share).moments_std(low.size) / n if share else math.inf
    if error > _USEFUL:
        return Standard(middle, np.where(flat, 1.0, half / math.sqrt(3)), math.nan)
    center, scale, spread, hidden = _measured(session, low, high, error, share, most)
    narrow = hidden & (_REACH * scale < half / _REACH)
    if again and narrow.any():
        low = np.where(narrow, np.maximum(low, center - _REACH * scale), low)
        high = np.where(narrow, np.minimum(high, center + _REACH * scale), high)
        center, scale, spread, _ = _measured(session, low, high, error, share, most)
    return Standard(center, scale, spread)


def _measured(
    session: Session,
    low: Floats,
    high: Floats,
    error: float,
    share: float,
    most: float | None,
) -> tuple[Floats, Floats, float, NDArray[np.bool_]]:
    """Return center, scale and `Standard.spread` of clipped columns, and whose scale is noise."""
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    flat = half <= 0
    query = moments(low, high, most)
    mean, square, _ = session.answer(query, share)
    variance = np.maximum(square.value - mean.value**2, 0.0)
    least = max(2 * error, 2.0**-24)
    floored = np.clip(variance, least, 1.0)
    scale = np.sqrt(floored) * half
    scale = np.where(flat | (scale < 1e-290), 1.0, scale)
    spread = float((variance / floored)[~flat].sum())
    return middle + mean.value * half, scale, spread, ~flat & (variance <= least)


def class_counts(
    session: Session, n_classes: int, most: float | None = None
) -> tuple[Floats, float]:
    """Return the number of rows of each class, at least 1, and the noise of one."""
    name = "counts of labels" if most is None else "weights of labels"
    query = row_counts(Labels(n_classes), name, most)
    first = session.answer(query, COUNT_SHARE)
    counts, std = np.array(first.value), float(first.std)
    if std > _COUNTS_WELL * max(float(counts.sum()), 1.0) / n_classes:
        second = session.answer(query, _MORE_COUNTS, name="counts of labels, again")
        part = std**2 / (std**2 + float(second.std) ** 2)
        counts = counts + part * (second.value - counts)
        std *= float(second.std) / math.hypot(std, float(second.std))
    return np.maximum(counts, 1.0), std


def standard_for_classes(
    session: Session,
    allowance: Allowance,
    low: Floats,
    high: Floats,
    n: float,
    part: float,
    most: float | None = None,
) -> Standard:
    """Return center and scale of the columns: of the rows where noise allows, else of the bounds.

    `part` is the part of what is left that this may take.
    """
    share = part * float(session.remaining)
    found = standardised(session, allowance, low, high, n, share, again=True, most=most)
    if math.isfinite(found.spread):
        return found
    d = low.size
    # Of many columns the mean over all of them, at least, is known.
    if allowance.part(share).sum_std(math.sqrt(d), d) / n / math.sqrt(d) > _CENTER_USEFUL:
        return found
    box = ScaledBox(low, high)
    release = session.answer(Mean(box, weight_bound=most), share)
    mean = _shrunk(release.value, float(np.mean(release.std)))
    return Standard(found.center + mean * (high / 2 - low / 2), found.scale, math.nan)


def _shrunk(mean: Floats, std: float) -> Floats:
    """Shrink noisy means of columns towards their own mean, by the rule of James and Stein."""
    if mean.size < 4:
        return mean
    middle = mean.mean()
    away = mean - middle
    kept = max(0.0, 1.0 - (mean.size - 3) * std**2 / max(float(away @ away), 1e-300))
    return np.clip(middle + kept * away, -1.0, 1.0)
