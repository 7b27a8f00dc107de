"""How far released centres may be from the means of their rows, besides the noise on them.

Two things count beside the noise: what clipping residuals to a norm takes from their sums, and how
far means move when rows change their nearest centre after the last step. Both are bounded or
estimated from what is released already (noisy counts and means of the leaves of a tree, mean
squares of residuals) and from public bounds.

A residual r of norm x, above the radius R, loses the part w(x) = 1 - R / x of itself. What a column
of clipped sums misses is the sum of r_j w(x) over rows. Of rows that lie at most A above and B
below their centre, with norms of at most X, w is at most w(X), x**2 K and x k, where K and k are
the largest w(x) / x**2 and w(x) / x for x up to X. So the mean of the positive part of r_j w(x) is
at most

- A times the mean of w, itself at most w(X) and K times the mean of x**2;
- w(X) times the mean of the positive part of r_j, which is at most A (B + m) / (A + B) where the
  mean of r_j is m: that of rows at both ends of the range;
- k times the root of the mean of r_j**2 times the mean of x**2 (Cauchy and Schwarz);

and the negative part alike. The two have different signs, so only the larger counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from skdp._clusters import PublicBox

Floats = NDArray[np.float64]

_DRAWS = 2**14  # points that stand for all rows
_TINY = float(np.finfo(float).tiny)


class CenterErrors(Protocol):
    """What is known of the rows about centres, all in user units."""

    def lost(
        self, centers: Floats, units: Floats, radius: float, sizes: Floats, offsets: Floats
    ) -> tuple[Floats, Floats]:
        """Return what clipping takes from sums of residuals at most; and the doubt about it.

        Parameters
        ----------
        centers : ndarray of shape (k, d)
        units : ndarray of shape (d,)
        radius : float
            Residuals are clipped to this norm in the units.
        sizes : ndarray of shape (k,)
            Noisy numbers of rows.
        offsets : ndarray of shape (k, d)
            Noisy means of clipped residuals.

        Returns
        -------
        most, std : ndarray of shape (k, d)
            A noisy bound of the absolute value, and its standard error.
        """

    def moved(self, before: Floats, after: Floats) -> Floats:
        """Return about how far means of rows move where these centres take the place of those."""


def _parts(reach: Floats, radius: float) -> tuple[Floats, Floats, Floats]:
    """Return the largest w(x), w(x) / x and w(x) / x**2 for x up to `reach`; see above."""
    radius = max(radius, _TINY)
    x = np.maximum(reach, radius)

    def part(limit: float) -> tuple[Floats, Floats]:
        at = np.minimum(x, limit * radius)
        return 1 - radius / at, at

    (once, at), (twice, far) = part(2.0), part(1.5)
    return 1 - radius / x, once / at, twice / far**2


def _quotients(values: Floats, units: Floats) -> Floats:
    """Return values in the units; 0 for a column that counts as constant."""
    return values * np.divide(1.0, units, out=np.zeros_like(units), where=units > 0)


# --- from the leaves of a tree -------------------------------------------------------------------


@dataclass(frozen=True)
class Leaves:
    """Released leaves of a tree, in the tree's units.

    Attributes
    ----------
    low, high : ndarray of shape (l, d)
    means : ndarray of shape (l, d)
        Of their rows; NaN where none stands clear of the noise.
    rows, errors : ndarray of shape (l,)
        Their numbers of rows, noisy, and standard errors.
    """

    low: Floats
    high: Floats
    means: Floats
    rows: Floats
    errors: Floats

    def _about(self, centers: Floats) -> tuple[NDArray[np.intp], NDArray[np.bool_], Floats, Floats]:
        """Return the nearest centre of each leaf; where means are known; means and mean squares.

        In a leaf with a mean m rows have at most the variance (high - m)(m - low), whatever their
        distribution; where no mean stands clear of the noise, all are in the farthest corner.
        """
        known = np.isfinite(self.means)
        middle = np.where(known, self.means, self.low / 2 + self.high / 2)
        apart = np.square(middle[:, None] - centers).sum(axis=2)
        group = np.argmin(apart, axis=1)
        center = centers[group]
        corner = np.maximum(self.high - center, center - self.low)
        variance = (self.high - middle) * (middle - self.low)
        squares = np.where(known, (middle - center) ** 2 + variance, corner**2)
        return group, known, middle - center, squares

    def most_squares(self, centers: Floats, n: float) -> Floats:
        """Return mean squares by column of n rows about their centre: the most there can be.

        Two standard errors of the leaves' counts are added.
        """
        *_, squares = self._about(centers)
        total = np.maximum(self.rows, 0.0) @ squares
        return (total + 2 * np.sqrt(self.errors**2 @ squares**2)) / n

    def most_lost(self, centers: Floats, units: Floats, radius: float) -> tuple[Floats, Floats]:
        """Return what clipping takes from each centre's sum at most, by column, and its doubt.

        A bound for the rows of a leaf, times the noisy number of them. Counts below 0 are summed
        as they are: the noise of many empty leaves adds up to nothing.
        """
        group, known, offset, squares = self._about(centers)
        above, below = self.high - centers[group], centers[group] - self.low
        corner = _quotients(np.maximum(above, below), units)
        whole, once, twice = _parts(np.linalg.norm(corner, axis=1), radius)
        norms = (_quotients(np.sqrt(squares), units) ** 2).sum(axis=1)
        weight = np.minimum(whole, twice * norms)[:, None]
        average = np.sqrt(squares) * (once * np.sqrt(norms))[:, None]
        width = np.maximum(self.high - self.low, _TINY)
        own = (group == np.arange(len(centers))[:, None]).astype(np.float64)
        most, doubt = np.zeros_like(centers), np.zeros_like(centers)
        for far, other, mean in ((above, below, offset), (below, above, -offset)):
            far, ends = np.maximum(far, 0.0), far * (other + mean) / width
            part = np.where(other <= 0, mean, np.maximum(ends, 0.0))
            part = np.where(known, part, far) * whole[:, None]
            lost = np.minimum(np.minimum(part, far * weight), average)
            most = np.maximum(most, own @ (self.rows[:, None] * lost))
            doubt = np.maximum(doubt, np.sqrt(own @ (self.errors[:, None] * lost) ** 2))
        return most, doubt

    def _points(self, ends: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """Return points that stand for rows, and their weights, from a fixed sequence.

        In each leaf and column they have the leaf's mean: uniform on both sides of it, or all at
        the two ends of the leaf, where `ends` says so.
        """
        kept = np.isfinite(self.means).all(axis=1)
        low, high, mean = self.low[kept], self.high[kept], self.means[kept]
        each, d = max(_DRAWS // max(len(low), 1), 1), low.shape[1]
        steps = _irrational(2 * d)
        index = np.arange(1.0, each * len(low) + 1).reshape(len(low), each, 1)
        draws = np.mod(index * steps, 1.0)
        side, along = draws[..., :d], draws[..., d:]
        width = np.maximum(high - low, _TINY)
        upper = side < ((mean - low) / width)[:, None]
        end = np.where(upper, high[:, None], low[:, None])
        middle = mean[:, None]
        points = np.where(ends, end, middle + (end - middle) * along)
        weights = np.repeat(np.maximum(self.rows[kept], 0.0) / each, each)
        return points.reshape(-1, d), weights

    def moved(self, before: Floats, after: Floats) -> Floats:
        """Return about how far means of rows move from one assignment to the next.

        Points that stand for the rows are assigned twice. All that come and all that go count by
        their distance, without their signs, so that chance cannot balance them. In a column that
        is not cut rows may be uniform or at both ends (0 and 1): the larger counts.
        """
        uncut = (np.ptp(self.low, axis=0) == 0) & (np.ptp(self.high, axis=0) == 0)
        found = np.zeros_like(after)
        for ends in (np.zeros_like(uncut), uncut) if uncut.any() else (uncut,):
            points, weights = self._points(ends)
            old, new = _nearest(points, before), _nearest(points, after)
            change = np.flatnonzero(old != new)
            total = np.zeros_like(after)
            for group in (old[change], new[change]):
                distance = np.abs(points[change] - after[group])
                np.add.at(total, group, distance * weights[change, None])
            size = np.bincount(new, weights=weights, minlength=len(after))
            found = np.maximum(found, total / np.maximum(size, 1.0)[:, None])
        return found


def _irrational(d: int) -> Floats:
    """Return d steps whose multiples, modulo 1, fill a cube evenly (Roberts's sequence)."""
    root = 1.5
    for _ in range(60):
        root = (1 + root) ** (1 / (d + 1))
    return root ** -np.arange(1.0, d + 1)


def _nearest(points: Floats, centers: Floats) -> NDArray[np.intp]:
    """Return the index of the nearest centre, the first of equal ones."""
    norms = np.einsum("ij,ij->i", centers, centers)
    return np.argmin(norms - 2.0 * (points @ centers.T), axis=1)


@dataclass(frozen=True)
class FromLeaves:
    """What the leaves of a tree say; the tree's unit and the middle of its box are public."""

    leaves: Leaves
    middle: Floats
    unit: float

    def lost(
        self, centers: Floats, units: Floats, radius: float, sizes: Floats, offsets: Floats
    ) -> tuple[Floats, Floats]:
        at = (centers - self.middle) / self.unit
        most, std = self.leaves.most_lost(at, units / self.unit, radius)
        return self.unit * most, self.unit * std

    def moved(self, before: Floats, after: Floats) -> Floats:
        one, two = ((centers - self.middle) / self.unit for centers in (before, after))
        return self.unit * self.leaves.moved(one, two)


# --- without leaves ------------------------------------------------------------------------------


@dataclass(frozen=True)
class FromSquares:
    """What root mean square residuals say, at most, of n rows: they may all be in one cluster.

    Attributes
    ----------
    box : PublicBox
    rms : ndarray of shape (d,)
    n : float
    """

    box: PublicBox
    rms: Floats
    n: float

    def lost(
        self, centers: Floats, units: Floats, radius: float, sizes: Floats, offsets: Floats
    ) -> tuple[Floats, Floats]:
        above, below = self.box.high - centers, centers - self.box.low
        corner = _quotients(np.maximum(above, below), units)
        whole, once, twice = (
            part[:, None] for part in _parts(np.linalg.norm(corner, axis=1), radius)
        )
        norms = float((_quotients(self.rms, units) ** 2).sum())
        rows = sizes[:, None]
        weight = np.minimum(whole * rows, twice * norms * self.n)
        average = self.n * self.rms * once * np.sqrt(norms)
        width = np.maximum(above + below, _TINY)
        most = np.zeros_like(centers)
        for far, other, mean in ((above, below, offsets), (below, above, -offsets)):
            # The mean of r_j is that of clipped residuals and what is lost: solved for the latter.
            part = whole * far / width
            ends = rows * np.maximum(other + mean, 0.0) * part / (1 - part)
            most = np.maximum(most, np.minimum(np.minimum(ends, far * weight), average))
        return most, np.zeros_like(centers)

    def moved(self, before: Floats, after: Floats) -> Floats:
        """Return the length of the step; 0 for one centre, which has all rows."""
        return np.abs(after - before) * (len(after) > 1)
