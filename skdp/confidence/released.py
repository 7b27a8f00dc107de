"""`Released`: a released number or array with its standard error and its confidence intervals."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.confidence.equations import Floats, Pair, check_level
from skdp.confidence.limits import Limits, MetricLimits, NoiseLimits, plain_ends
from skdp.core import PrivacyCertificate

__all__ = ["Released", "released_metric"]

_UNITS = (
    "no interval for a population: rows of one unit depend on each other, and how much is not "
    "released"
)


def _frozen(values: Any) -> Floats:
    out = np.array(values, dtype=np.float64)
    out.setflags(write=False)
    return out


@dataclass(frozen=True, eq=False, repr=False)
class Released:
    """A released number or array, with its standard error and confidence intervals.

    NumPy functions, indexing and iteration use the array of its values; ``float`` returns a single
    value. Arithmetic keeps the standard error where it is known: for sums and differences of two
    answers with independent noise (their squared errors add up), and for products and quotients
    with public numbers. Otherwise the error is NaN: for products of two answers, for sums of
    entries of one answer (their noise may be dependent), and for answers with seeded noise.

    Attributes
    ----------
    value : ndarray
        The released values; an array without dimensions for a number. NaN for a metric if noise
        hides all rows.
    std : ndarray
        Standard error of each entry, in the shape of ``value``, relative to the exact answer for
        the rows clipped to ``bounds``; to first order for quotients and products. With learned
        bounds it includes clipping of ordinary columns, so it also holds for the unclipped rows,
        unless a few rows are far from all others. With stated bounds it does not include clipping.
        It never includes sampling. NaN if it is not known: quantiles and costs of trees have errors
        that depend on private rows, metrics have intervals instead, and bounds may not have been
        learned well enough (few rows, or too many beyond them: state ``bounds`` then).
    privacy : skdp.core.PrivacyCertificate or tuple of them
        The certificates of all releases that the answer was computed from.
    bounds : tuple of two ndarrays, or None
        The bounds (low, high) to which cells were clipped, stated or learned; None if there are
        none.
    note : str
        Why an error is NaN, or which rows may be in no cell; usually empty.
    limits : object
        Computes `interval` and `population_interval`. By default from ``std`` alone.
    labels : dict of ndarray
        What each entry is of, for `to_frame`: its column, level, class or cell. Empty after
        arithmetic.
    """

    value: Floats
    std: Floats
    privacy: PrivacyCertificate | tuple[PrivacyCertificate, ...]
    bounds: Pair | None = None
    note: str = ""
    limits: Limits = None  # type: ignore[assignment]  # set below
    labels: Mapping[str, NDArray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        value = _frozen(self.value)
        std = _frozen(np.broadcast_to(self.std, value.shape))
        bounds = self.bounds and (_frozen(self.bounds[0]), _frozen(self.bounds[1]))
        limits = NoiseLimits(value, std) if self.limits is None else self.limits
        for name, own in (("value", value), ("std", std), ("bounds", bounds), ("limits", limits)):
            object.__setattr__(self, name, own)

    # -- as a number and as an array ----------------------------------------------------------

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        return np.array(self.value, dtype=dtype, copy=copy)

    def __float__(self) -> float:
        return float(self.value)

    def __len__(self) -> int:
        return len(self.value)

    def __getitem__(self, index: Any) -> Released:
        labels = {name: np.asarray(cells[index]) for name, cells in self.labels.items()}
        entries = self._with(self.value[index], self.std[index])
        return replace(entries, limits=self.limits.at(index), labels=labels)

    def __iter__(self) -> Iterator[Released]:
        return (self[i] for i in range(len(self)))

    def __format__(self, spec: str) -> str:
        if self.value.ndim:
            raise TypeError("only an answer of one number can be formatted; index it first")
        error = f" ± {float(self.std):{spec}}" if self._has_std else ""
        return f"{float(self.value):{spec}}{error}"

    def __repr__(self) -> str:
        note = f", note={self.note!r}" if self.note else ""
        value, std = (side if side.ndim else side.item() for side in (self.value, self.std))
        if not self._has_std and not self.value.ndim:
            low, high = self.interval()
            if not np.isnan(low):
                return f"Released(value={value!r}, noise at 95%: {low:.4g} to {high:.4g}{note})"
        return f"Released(value={value!r}, std={std!r}{note})"

    @property
    def _has_std(self) -> bool:
        return not bool(np.isnan(self.std).all())

    def _repr_html_(self) -> str:
        """Return a table of the values and their intervals, for notebooks."""
        columns = {**self.labels, "value": self.value}
        if self._has_std:
            columns["standard error"] = self.std
        columns["95% of noise, from"], columns["to"] = self.interval()
        names = list(columns)
        if self.limits.of_population:
            names += ["95% for the population, from", "to"]
            columns["first"], columns["last"] = self.population_interval()
        rows = list(zip(*(np.ravel(column) for column in columns.values()), strict=True))
        text = "".join(
            "<tr>" + "".join(f"<td>{_shown(cell)}</td>" for cell in row) + "</tr>"
            for row in rows[:50]
        )
        more = f"<p>and {len(rows) - 50} more</p>" if len(rows) > 50 else ""
        note = f"<p>{escape(self.note)}</p>" if self.note else ""
        head = "".join(f"<th>{escape(name)}</th>" for name in names)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{text}</tbody></table>{more}{note}"

    # -- its error ----------------------------------------------------------------------------

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Return an interval for the answer without noise, with at least this probability.

        It is for the rows clipped to ``bounds``, and for each entry by itself. It does not cover a
        population: see `population_interval`. Its width is that for Laplace or for Gaussian noise
        of this standard error, whichever is wider; for metrics, and for quantiles released with
        ``intervals=True``, it is computed from noisy counts.

        Parameters
        ----------
        level : float, default=0.95
            Above 0 and below 1.

        Returns
        -------
        low, high : ndarray, or float
            Of the shape of ``value``, floats if it is a number. NaN where nothing is known of the
            error; the whole range of a metric if noise hides the rows.

        Raises
        ------
        ValueError
            If `level` is out of its range.
        """
        return plain_ends(*self.limits.noise(check_level(level)))

    def population_interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Return an interval for the population that the rows were drawn from.

        It covers noise and sampling, for each entry by itself: the mean, quantile or metric of the
        population, clipped to ``bounds``. Rows (units, with `groups`) must have been drawn from it
        independently of each other and of the training of a model. With units, the interval of a
        mean or quantile allows for rows of a unit that are all alike, so it may be far too wide.
        Coverage is approximate for few rows and for levels near 0 or 1.

        Parameters
        ----------
        level : float, default=0.95
            Above 0 and below 1.

        Returns
        -------
        low, high : ndarray, or float
            Of the shape of ``value``, floats if it is a number; NaN where ``std`` of a mean is, and
            for metrics if units have many rows, because these are dependent.

        Raises
        ------
        ValueError
            If `level` is out of its range, or if nothing was released that tells the variance of
            the population: it needs a metric, or `mean`, `median` or `quantile` with
            ``intervals=True``.
        """
        return plain_ends(*self.limits.population(check_level(level)))

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
        columns = {**self.labels, "value": self.value, "std": self.std, "low": low, "high": high}
        if self.limits.of_population:
            ends = self.population_interval(level)
            columns |= dict(zip(("population_low", "population_high"), ends, strict=True))
        return pd.DataFrame({name: np.ravel(column) for name, column in columns.items()})

    # -- arithmetic ---------------------------------------------------------------------------

    def _with(self, value: Any, std: Any, other: Released | None = None) -> Released:
        """Return an answer computed from this one, and from another."""
        certificates = _certificates(self) + (() if other is None else _certificates(other))
        certificates = tuple({id(privacy): privacy for privacy in certificates}.values())
        note = self.note or (other.note if other is not None else "")
        privacy = certificates[0] if len(certificates) == 1 else certificates
        return Released(value, std, privacy, None, note)

    def _independent_of(self, other: Released) -> bool:
        mine, theirs = _certificates(self), _certificates(other)
        shared = {id(privacy) for privacy in mine} & {id(privacy) for privacy in theirs}
        return not shared and not any(privacy.seeded for privacy in mine + theirs)

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
        """Make ``array + answer`` an answer; all other functions get the values alone."""
        reflected = {
            np.add: "__radd__", np.subtract: "__rsub__", np.multiply: "__rmul__",
            np.divide: "__rtruediv__",
        }  # fmt: skip
        if method == "__call__" and not options and ufunc in reflected:
            first, second = inputs
            if first is not self and not isinstance(first, Released):
                return getattr(second, reflected[ufunc])(first)
        plain = [x.value if isinstance(x, Released) else x for x in inputs]
        return getattr(ufunc, method)(*plain, **options)


def released_metric(
    value: Any, ends: Callable[[float, bool], Pair], privacy: PrivacyCertificate, note: str = ""
) -> Released:
    """Return a metric; `ends` has its interval by level, for noise or also for sampling."""
    users = privacy.max_rows_per_unit is not None
    note = "; ".join(text for text in (note, _UNITS if users else "") if text)
    return Released(value, np.array(np.nan), privacy, None, note, MetricLimits(ends, users))


def _shown(cell: Any) -> str:
    return f"{cell:.6g}" if isinstance(cell, float) else escape(str(cell))


def _certificates(answer: Released) -> tuple[PrivacyCertificate, ...]:
    return answer.privacy if isinstance(answer.privacy, tuple) else (answer.privacy,)


def _is_numbers(value: Any) -> bool:
    """Whether a value is a number or an array of numbers."""
    if isinstance(value, bool | str | bytes) or value is None:
        return False
    return isinstance(value, numbers.Real) or (
        isinstance(value, np.ndarray) and value.dtype.kind in "iuf"
    )
