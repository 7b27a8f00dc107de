"""What the functions of this package return: a number, or an array, with the error of its noise.

Nothing is released here: intervals, arithmetic and displays are computed from what was released.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from skdp.confidence.limits import Limits, plain_ends
from skdp.core import PrivacyCertificate

__all__ = ["Released"]

Floats = NDArray[np.float64]
Pair = tuple[Floats, Floats]


def _width(level: float) -> float:
    """Return how many standard errors from the truth noise is with this probability, or less.

    The wider of a Gaussian and a Laplace distribution: sums of noises lie between.
    """
    return max(float(norm.ppf(0.5 + level / 2)), -math.log(1.0 - level) / math.sqrt(2.0))


def _whole_width(std: Floats, level: float) -> Floats:
    """Return the same for noise on whole numbers: discrete Laplace, or Gaussian and rounded.

    Discrete Laplace noise has P(|N| > k) = 2 p**(k + 1) / (1 + p) and variance 2 p / (1 - p)**2.
    """
    square = np.where(std > 0, std, 1.0) ** 2
    # (s + 1 - sqrt(2 s + 1)) / s without cancellation.
    p = np.maximum(square / (square + 1.0 + np.sqrt(2.0 * square + 1.0)), 1e-300)
    laplace = np.ceil(np.log((1.0 - level) * (1.0 + p) / 2.0) / np.log(p)) - 1.0
    return np.maximum(laplace, float(norm.ppf(0.5 + level / 2)) * std + 1.0)


def _shown(cell: Any) -> str:
    """Return a cell of a table for notebooks."""
    return f"{cell:.6g}" if isinstance(cell, float) else escape(str(cell))


def _check_level(level: float) -> float:
    if not isinstance(level, numbers.Real) or not 0 < level < 1:
        raise ValueError(f"level must be a number above 0 and below 1; got {level!r}.")
    return float(level)


def _frozen(values: Any) -> Floats:
    out = np.array(values, dtype=np.float64)
    out.setflags(write=False)
    return out


@dataclass(frozen=True, eq=False, repr=False)
class Released:
    """A released number or array, with its standard error.

    NumPy functions, indexing and iteration use the array of its values; ``float`` returns a single
    value. Standard errors are carried over where this is valid: through sums and differences of two
    answers, whose noises are independent (so that squared errors add up), and through products and
    quotients with public numbers. For everything else the error is NaN: products of two answers,
    sums of entries of one answer (whose noises may be dependent), answers with seeded noise.

    Attributes
    ----------
    value : ndarray
        The released values; an array without dimensions for a number.
    std : ndarray
        Standard error of each entry, in the shape of ``value``. It is relative to the exact answer
        for the rows clipped to ``bounds``; to first order if the value is a quotient or product.
        With learned bounds it includes the effect of clipping on ordinary columns, so it also holds
        for the unclipped rows. This may fail if there are rows far from the others, too few to be
        seen. With stated bounds it does not include clipping. It never includes sampling. NaN if it
        cannot be known: because its size depends on private rows, or because bounds could not be
        learned well enough (few rows, or more rows beyond them than their noise and tails explain).
        In the latter case the repr asks you to state ``bounds``.
    privacy : skdp.core.PrivacyCertificate or tuple of them
        What was released, by which mechanism, at which cost: for every release that the answer was
        computed from.
    bounds : tuple of two ndarrays, or None
        The bounds (low, high) to which cells were clipped, stated or learned; None if there are
        none.
    note : str
        Why an error is NaN, if learned bounds or the mechanism are the reason; or which rows may be
        in no cell; otherwise empty.
    limits : object or None
        What `interval` and `population_interval` use of a call with ``intervals=True``.
    labels : dict of ndarray
        What each entry is of, for `to_frame`: its column, level, class or cell. Empty after
        arithmetic.
    """

    value: Floats
    std: Floats
    privacy: PrivacyCertificate | tuple[PrivacyCertificate, ...]
    bounds: Pair | None = None
    note: str = ""
    limits: Limits | None = None
    labels: Mapping[str, NDArray] = field(default_factory=dict)

    # -- as a number and as an array ----------------------------------------------------------

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        return np.array(self.value, dtype=dtype, copy=copy)

    def __float__(self) -> float:
        return float(self.value)

    def __len__(self) -> int:
        return len(self.value)

    def __getitem__(self, index: Any) -> Released:
        found = self._with(self.value[index], self.std[index])
        limits = None if self.limits is None else self.limits.at(index)
        labels = {name: np.asarray(one[index]) for name, one in self.labels.items()}
        return replace(found, limits=limits, labels=labels)

    def __iter__(self) -> Iterator[Released]:
        return (self[i] for i in range(len(self)))

    def __format__(self, spec: str) -> str:
        if self.value.ndim:
            raise TypeError("only an answer of one number can be formatted; index it first")
        return f"{float(self.value):{spec}} ± {float(self.std):{spec}}"

    def __repr__(self) -> str:
        note = f", note={self.note!r}" if self.note else ""
        value, std = (one if one.ndim else one.item() for one in (self.value, self.std))
        return f"Released(value={value!r}, std={std!r}{note})"

    def _repr_html_(self) -> str:
        """Return a table of the values and their intervals, for notebooks."""
        low, high = self.interval()
        columns = [*self.labels.values(), self.value, self.std, low, high]
        cells = list(zip(*(np.ravel(one) for one in columns), strict=True))
        shown = "".join(
            "<tr>" + "".join(f"<td>{_shown(one)}</td>" for one in row) + "</tr>"
            for row in cells[:50]
        )
        more = f"<p>and {len(cells) - 50} more</p>" if len(cells) > 50 else ""
        note = f"<p>{escape(self.note)}</p>" if self.note else ""
        head = [*self.labels, "value", "standard error", "95% of noise, from", "to"]
        names = "".join(f"<th>{escape(name)}</th>" for name in head)
        return f"<table><thead><tr>{names}</tr></thead><tbody>{shown}</tbody></table>{more}{note}"

    # -- its error ----------------------------------------------------------------------------

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Return an interval for the answer without noise, with at least this probability.

        It is for the rows as clipped to ``bounds``, and for each entry by itself. It does not cover
        a population that the rows were drawn from: see `population_interval`. Its width is that for
        Laplace noise or for Gaussian noise of this standard error, whichever is wider. For medians
        and quantiles released with ``intervals=True`` it is found from counts of rows.

        Parameters
        ----------
        level : float, default=0.95
            Above 0 and below 1.

        Returns
        -------
        low, high : ndarray, or float
            Of the shape of ``value``, floats if it is a number; NaN where ``std`` is.

        Raises
        ------
        ValueError
            If `level` is out of its range.
        """
        level = _check_level(level)
        if self.limits is not None and (known := self.limits.noise(level)) is not None:
            return plain_ends(*known)
        half = _width(level) * self.std
        whole = (self.value == np.rint(self.value)) & (self.std > 0)
        half = np.where(whole, np.maximum(half, _whole_width(self.std, level)), half)
        return plain_ends(self.value - half, self.value + half)

    def population_interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Return an interval for the population that the rows were drawn from.

        It covers noise and sampling, for each entry by itself: the mean, median or quantile of the
        population, after clipping to ``bounds``. It needs rows (or units, with `groups`) that were
        drawn independently of each other from that population. If several rows are of one unit,
        the interval allows for rows of a unit that are all alike, so it may be far too wide.
        Coverage is approximate for few rows and for levels near 0 or 1.

        Parameters
        ----------
        level : float, default=0.95
            Above 0 and below 1.

        Returns
        -------
        low, high : ndarray, or float
            Of the shape of ``value``, floats if it is a number; NaN where ``std`` of a mean is.

        Raises
        ------
        ValueError
            If `level` is out of its range, or if nothing was released that tells the variance of
            the population: it needs `mean`, `median` or `quantile` with ``intervals=True``.
        """
        level = _check_level(level)
        if self.limits is None:
            raise ValueError(
                "population_interval needs an answer of mean, median or quantile with "
                "intervals=True, not computed further: others do not release how much rows differ"
            )
        return plain_ends(*self.limits.population(level))

    def to_frame(self, level: float = 0.95) -> Any:
        """Return a pandas DataFrame: for each entry a row of its labels, value, std and intervals.

        Parameters
        ----------
        level : float, default=0.95
            Of the interval.

        Returns
        -------
        frame : pandas.DataFrame
            Entries of more than one dimension stand in C order.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError:
            raise ImportError("to_frame needs pandas: pip install pandas.") from None
        low, high = self.interval(level)
        named = {**self.labels, "value": self.value, "std": self.std, "low": low, "high": high}
        if self.limits is not None:
            ends = self.population_interval(level)
            named |= dict(zip(("population_low", "population_high"), ends, strict=True))
        return pd.DataFrame({name: np.ravel(column) for name, column in named.items()})

    # -- arithmetic ---------------------------------------------------------------------------

    def _with(self, value: Any, std: Any, other: Released | None = None) -> Released:
        """Return what was computed from this answer, and from another."""
        value = _frozen(value)
        std = _frozen(np.broadcast_to(std, value.shape))
        found = (*_certificates(self), *(() if other is None else _certificates(other)))
        certificates = tuple({id(one): one for one in found}.values())
        note = self.note or (other.note if other is not None else "")
        privacy = certificates[0] if len(certificates) == 1 else certificates
        return Released(value, std, privacy, None, note)

    def _independent_of(self, other: Released) -> bool:
        mine, theirs = _certificates(self), _certificates(other)
        shared = {id(one) for one in mine} & {id(one) for one in theirs}
        return not shared and not any(one.seeded for one in (*mine, *theirs))

    def _combined(self, other: Any, of: Callable[[Any, Any], Any], *, linear: bool) -> Any:
        if isinstance(other, Released):
            value = of(self.value, other.value)
            known = linear and self._independent_of(other)
            return self._with(value, np.hypot(self.std, other.std) if known else np.nan, other)
        if not _is_numbers(other):
            return NotImplemented
        public = np.asarray(other, dtype=np.float64)
        with np.errstate(all="ignore"):
            std = self.std if linear else np.abs(of(self.std, public))
            return self._with(of(self.value, public), std)

    def __add__(self, other: Any) -> Any:
        return self._combined(other, np.add, linear=True)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._combined(other, np.subtract, linear=True)

    def __rsub__(self, other: Any) -> Any:
        return (-self) + other

    def __mul__(self, other: Any) -> Any:
        return self._combined(other, np.multiply, linear=False)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return self._combined(other, np.divide, linear=False)

    def __rtruediv__(self, other: Any) -> Any:
        if not _is_numbers(other):
            return NotImplemented
        with np.errstate(all="ignore"):
            return self._with(np.divide(other, self.value), np.nan)  # no error of first order

    def __neg__(self) -> Released:
        return self._with(-self.value, self.std)

    def __pos__(self) -> Released:
        return self

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Let ``array + answer`` be an answer; every other function gets the values alone."""
        reflected = {
            np.add: "__radd__", np.subtract: "__rsub__", np.multiply: "__rmul__",
            np.divide: "__rtruediv__",
        }  # fmt: skip
        if method == "__call__" and not options and ufunc in reflected:
            first, second = inputs
            if first is not self and not isinstance(first, Released):
                return getattr(second, reflected[ufunc])(first)
        plain = [one.value if isinstance(one, Released) else one for one in inputs]
        return getattr(ufunc, method)(*plain, **options)


def _certificates(answer: Released) -> tuple[PrivacyCertificate, ...]:
    return answer.privacy if isinstance(answer.privacy, tuple) else (answer.privacy,)


def _is_numbers(value: Any) -> bool:
    """Whether a value is a public number, or an array of such."""
    if isinstance(value, bool | str | bytes) or value is None:
        return False
    return isinstance(value, numbers.Real) or (
        isinstance(value, np.ndarray) and value.dtype.kind in "iuf"
    )
