"""What a metric is released as: a number, or an array, with two intervals that are told apart.

Nothing is released here: intervals and displays are computed from what was released.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.confidence.equations import Floats, Pair, check_level
from skdp.confidence.limits import plain_ends
from skdp.core import PrivacyCertificate

__all__ = ["Estimate"]

_UNITS = (
    "no interval for a population: rows of one unit depend on each other, and how much is not "
    "released"
)


@dataclass(frozen=True, eq=False, repr=False)
class Estimate:
    """A metric of held-out private rows, with intervals for its noise and for the population.

    NumPy functions use the array of its values; ``float`` returns a single value.

    Attributes
    ----------
    value : ndarray
        The released values; an array without dimensions for a number. NaN if noise hides all rows.
    privacy : skdp.core.PrivacyCertificate
        What was released, by which mechanism, at which cost.
    note : str
        What else to know about the value and the intervals; otherwise empty.
    limits : callable
        A function that returns the ends of the intervals, given a level and whether the interval is
        for the population.

    Notes
    -----
    **Privacy.** Everything is computed from what was released.
    """

    value: Floats
    privacy: PrivacyCertificate
    limits: Callable[[float, bool], Pair]
    note: str = ""
    units: bool = field(default=False)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        return np.array(self.value, dtype=dtype, copy=copy)

    def __float__(self) -> float:
        return float(self.value)

    def __len__(self) -> int:
        return len(self.value)

    def __getitem__(self, index: Any) -> Estimate:
        return estimate(
            self.value[index], partial(_indexed, self.limits, index), self.privacy, self.note
        )

    def __format__(self, spec: str) -> str:
        if self.value.ndim:
            raise TypeError("only a metric of one number can be formatted")
        return f"{float(self.value):{spec}}"

    def __repr__(self) -> str:
        low, high = self.interval()
        if self.value.ndim:
            return f"Estimate(value={self.value!r})"
        return f"Estimate({self.value:.4g}, noise at 95%: {low:.4g} to {high:.4g})"

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Return an interval for the metric of the held-out rows, with at least this probability.

        It covers the noise only, not the sampling of the rows from a population. For an array, each
        interval holds individually.

        Parameters
        ----------
        level : float, default=0.95
            Above 0 and below 1.

        Returns
        -------
        low, high : ndarray, or float
            Of the shape of ``value``, floats if it is a number; the whole possible range if noise
            hides the rows.

        Raises
        ------
        ValueError
            If `level` is out of its range.
        """
        return self._ends(check_level(level), False)

    def population_interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Return an interval for the metric of the population that the rows were drawn from.

        It covers noise and sampling, if rows were drawn independently of each other and of the
        training of the model. It holds with at least this probability; with more if the variance of
        the contributions of rows is only bounded, not released.

        Parameters
        ----------
        level : float, default=0.95
            Above 0 and below 1.

        Returns
        -------
        low, high : ndarray, or float
            Of the shape of ``value``, floats if it is a number; NaN if units have many rows,
            because these are dependent.

        Raises
        ------
        ValueError
            If `level` is out of its range.
        """
        level = check_level(level)
        if self.units:
            unknown = np.full(self.value.shape, np.nan)
            return plain_ends(unknown, unknown.copy())
        return self._ends(level, True)

    def _ends(self, level: float, sampled: bool) -> tuple[Any, Any]:
        return plain_ends(*self.limits(level, sampled))

    def to_frame(self, level: float = 0.95) -> Any:
        """Return a pandas DataFrame with a row for each entry.

        Parameters
        ----------
        level : float, default=0.95
            Level of the intervals.

        Returns
        -------
        frame : pandas.DataFrame
            Columns: value, low, high, population_low, population_high.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError:
            raise ImportError("to_frame needs pandas: pip install pandas.") from None
        return pd.DataFrame({name: np.ravel(one) for name, one in self._columns(level).items()})

    def _columns(self, level: float) -> dict[str, Floats]:
        low, high = self.interval(level)
        first, last = self.population_interval(level)
        return {
            "value": self.value,
            "low": low,
            "high": high,
            "population_low": first,
            "population_high": last,
        }

    def _repr_html_(self) -> str:
        """Return a table of the values and their intervals, for notebooks."""
        cells = np.stack([np.ravel(one) for one in self._columns(0.95).values()], axis=1)
        shown = "".join(
            "<tr>" + "".join(f"<td>{one:.4g}</td>" for one in row) + "</tr>" for row in cells[:50]
        )
        more = f"<p>and {len(cells) - 50} more</p>" if len(cells) > 50 else ""
        notes = [self.note] if self.note else []
        notes += [_UNITS] if self.units else []
        text = "".join(f"<p>{escape(note)}</p>" for note in notes)
        return (
            "<table><thead><tr><th>value</th><th>95% of noise, from</th><th>to</th>"
            "<th>95% for the population, from</th><th>to</th></tr></thead>"
            f"<tbody>{shown}</tbody></table>{more}{text}"
        )


def _indexed(
    limits: Callable[[float, bool], Pair], index: Any, level: float, sampled: bool
) -> Pair:
    low, high = limits(level, sampled)
    return low[index], high[index]


def estimate(
    value: Any,
    limits: Callable[[float, bool], Pair],
    privacy: PrivacyCertificate,
    note: str = "",
) -> Estimate:
    """Return an estimate whose arrays cannot be written to."""
    array = np.array(value, dtype=np.float64)
    array.setflags(write=False)
    units = privacy.max_rows_per_unit is not None
    return Estimate(array, privacy, limits, note, units)
