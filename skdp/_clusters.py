"""What a k-means fit knows beforehand, and what it ends with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PublicBox:
    """The public box of a fit, in user units, and the public bound of its rows' weights, if any.

    Rows with weights count by the part of the bound that their weight is, everywhere.
    """

    low: Floats
    high: Floats
    most: float | None = None

    @property
    def middle(self) -> Floats:
        """The middle of the box."""
        return self.low / 2 + self.high / 2

    @property
    def half(self) -> Floats:
        """Half widths of the columns."""
        return np.maximum(self.high / 2 - self.low / 2, 0.0)

    @property
    def radius(self) -> float:
        """Half the diagonal."""
        return float(np.linalg.norm(self.half))

    def clip(self, points: Floats) -> Floats:
        """Return points moved into the box."""
        return np.clip(points, self.low, self.high)


@dataclass(frozen=True)
class Clustering:
    """What a fit ends with.

    Attributes
    ----------
    centers : ndarray of shape (k, d)
    center_std : ndarray of shape (k, d)
        Standard error of each coordinate.
    noise_std : ndarray of shape (k, d)
        The part of it that is noise alone.
    counts : ndarray of shape (k,)
    count_std : float
    residuals : ndarray of shape (d,)
        Released root mean square residual of each column; NaN where none was released, or where
        the truth may be more than six times as large.
    n_iter : int
        Releases of sums by nearest centre.
    """

    centers: Floats
    center_std: Floats
    noise_std: Floats
    counts: Floats
    count_std: float
    residuals: Floats
    n_iter: int = 1
