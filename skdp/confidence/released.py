"""`Released`: a released number or array with its standard error and its confidence intervals."""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import InitVar, dataclass, field, fields
from html import escape
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from skdp._docstrings import shared_texts
from skdp.confidence.equations import Errors, Floats, Pair, Source, check_level
from skdp.confidence.limits import Limits, MetricLimits, NoiseLimits, plain_ends
from skdp.core import PrivacyCertificate

_UNITS = (
    "no interval for a population: rows of one unit depend on each other, and how much is not "
    "released"
)


_ARITHMETIC = (np.add, np.subtract, np.multiply, np.divide)


def _frozen(values: Any) -> Floats:
    out = np.array(values, dtype=np.float64)
    out.setflags(write=False)
    return out


def _number(array: Floats) -> Any:
    """Return an array, or the number in an array without dimensions."""
    return array if array.ndim else float(array)


def _compared_by(compare: Callable[[Any, Any], Any]) -> Any:
    return lambda self, other: compare(self.value, _plain(other))


@shared_texts
@dataclass(frozen=True, eq=False, repr=False)
class Released(NDArrayOperatorsMixin):
    """A released number or array, with its standard error and confidence intervals.

    A number behaves as a float, an array as a NumPy array: comparisons, `round`, `sorted`, `hash`,
    `math`, methods such as ``min``, and functions of NumPy use the values, and return plain numbers
    and arrays. Indexing, iteration, sums, differences, means, and products and quotients with
    public numbers return a `Released` with its standard error:

    - Different releases have independent noise: squared errors add up. Errors of learned bounds may
      all have one sign: these add up without squares.
    - One release may stand in a result several times: ``a - a`` has the error 0, and ``a + a``
      twice that of ``a``, also after copying and pickling.
    - Sums of entries of one release have a known error for counts, sums and means.
    - Otherwise the error is NaN: for products and quotients of two answers, for entries of one
      release whose noise may be correlated, and for two answers with seeded noise.

    Attributes
    ----------
    value : float or ndarray
        The released values; a float for a number. NaN for a metric if noise hides all rows.
    std : float or ndarray
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
    errors : object
        Which releases the errors come from, for sums.

    Examples
    --------
    >>> from skdp import statistics
    >>> ages = [18.0, 35.0, 52.0] * 100_000
    >>> a = statistics.mean(ages, bounds=(0, 100))
    >>> b = statistics.mean(ages, bounds=(0, 100))
    >>> round(a), a > 30, (a - a).std
    (35, True, 0.0)
    >>> bool(abs((a - b).std ** 2 - (a.std**2 + b.std**2)) < 1e-12)
    True
    """

    value: Any
    std: Any
    privacy: PrivacyCertificate | tuple[PrivacyCertificate, ...]
    bounds: Pair | None = None
    note: str = ""
    limits: Limits = None  # type: ignore[assignment]  # set below
    labels: Mapping[str, NDArray] = field(default_factory=dict)
    errors: InitVar[Any] = None  # a `Source` or `Errors`; None: nothing is known but `std`

    def __post_init__(self, errors: Errors | Source | None) -> None:
        value = _frozen(self.value)
        std = _frozen(np.broadcast_to(self.std, value.shape))
        bounds = self.bounds and (_frozen(self.bounds[0]), _frozen(self.bounds[1]))
        limits = NoiseLimits(value, std) if self.limits is None else self.limits
        if errors is None:
            errors = Source(_certificates(self.privacy), std.ravel())
        if isinstance(errors, Source):
            errors = Errors.of(errors)
        own = {"value": _number(value), "std": _number(std), "bounds": bounds, "limits": limits}
        for name, content in {**own, "_array": value, "errors": errors}.items():
            object.__setattr__(self, name, content)

    def __reduce__(self) -> Any:  # a copy is read-only, too
        arguments = tuple(getattr(self, entry.name) for entry in fields(self))
        return type(self), (*arguments, self.errors)

    # -- as a number and as an array ----------------------------------------------------------

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        return np.array(self._array, dtype=dtype, copy=copy)

    def __getattr__(self, name: str) -> Any:
        """Return what an array of the values has by this name: ``shape``, ``min``, ``item``."""
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._array, name)

    def __float__(self) -> float:
        return float(self._array)

    def __int__(self) -> int:
        return int(self._array)

    __trunc__ = __int__

    def __bool__(self) -> bool:
        return bool(self._array)

    def __abs__(self) -> Any:
        return abs(self.value)

    def __round__(self, ndigits: int | None = None) -> Any:
        if self.ndim:
            return self._array.round(ndigits or 0)
        return round(self.value, ndigits)

    __eq__, __ne__ = _compared_by(operator.eq), _compared_by(operator.ne)
    __lt__, __le__ = _compared_by(operator.lt), _compared_by(operator.le)
    __gt__, __ge__ = _compared_by(operator.gt), _compared_by(operator.ge)

    def __hash__(self) -> int:
        return hash(self.value)

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, index: Any) -> Released:
        labels = {name: np.asarray(cells[index]) for name, cells in self.labels.items()}
        places = np.asarray(_places(self._array)[index])
        return Released(
            self._array[index], np.asarray(self.std)[index], self.privacy, None, self.note,
            self.limits.at(index), labels, self.errors.at(places.ravel()),
        )  # fmt: skip

    def __iter__(self) -> Iterator[Released]:
        return map(self.__getitem__, range(len(self)))

    def __str__(self) -> str:
        return format(self, "")

    def __format__(self, spec: str) -> str:
        std = np.ravel(self.std)
        # Of a share, say, no standard error is known, but an interval is: then nothing is unknown.
        low = np.ravel(self.interval()[0]) if np.isnan(std).any() else std

        def text(place: Any) -> str:
            value, error = float(self._array.flat[place]), float(std[place])
            if math.isnan(error):
                return f"{value:{spec}}" + " ± ?" * math.isnan(low[place])
            own = spec
            if not spec and 0 < error < math.inf:  # two digits of the error
                decimals = max(0, 1 - math.floor(math.log10(error)))
                own = f".{decimals}f" if decimals < 16 else ".6g"
            shown = f"{error:{own}}"
            if error > 0 and not any(digit in shown for digit in "123456789in"):
                shown = f"{error:.1g}"  # an error that is not 0 is not shown as 0
            return f"{value:{own}} ± {shown}"

        if not self.ndim:
            return text(0)
        of_places: Any = {"int": text}
        return np.array2string(_places(self._array), separator=", ", formatter=of_places)

    def __repr__(self) -> str:
        note = f", note={self.note!r}" if self.note else ""
        if not self._has_std and not self.ndim:
            low, high = self.interval()
            if not np.isnan(low):
                return (
                    f"Released(value={self.value!r}, noise at 95%: {low:.4g} to {high:.4g}{note})"
                )
        return f"Released(value={self.value!r}, std={self.std!r}{note})"

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

    def labelled(self, labels: Mapping[str, NDArray]) -> Released:
        """Return the same numbers with other labels.

        Parameters
        ----------
        labels : mapping of str to ndarray
            In the shape of ``value``.
        """
        own = self.value, self.std, self.privacy, self.bounds, self.note, self.limits
        return Released(*own, labels, self.errors)

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
        return pd.DataFrame(self._columns(level))

    def to_dict(self, level: float = 0.95) -> dict[str, Any]:
        """Return the columns of `to_frame` as lists of Python's types; of a number its cells.

        Parameters
        ----------
        level : float, default=0.95
            Of the interval.
        """
        columns = {name: column.tolist() for name, column in self._columns(level).items()}
        return columns if self.ndim else {name: cells[0] for name, cells in columns.items()}

    def _columns(self, level: float) -> dict[str, NDArray]:
        low, high = self.interval(level)
        columns = {**self.labels, "value": self.value, "std": self.std, "low": low, "high": high}
        if self.limits.of_population:
            ends = self.population_interval(level)
            columns |= dict(zip(("population_low", "population_high"), ends, strict=True))
        return {name: np.ravel(column) for name, column in columns.items()}

    # -- arithmetic ---------------------------------------------------------------------------

    def sum(self, axis: Any = None) -> Released:
        """Return the sum of the entries, with its standard error.

        Parameters
        ----------
        axis : int, tuple of int or None, default=None
            As in `numpy.sum`.
        """
        return self._summed(np.sum(self._array, axis=axis), axis)

    def mean(self, axis: Any = None) -> Released:
        """Return the mean of the entries, with its standard error.

        Parameters
        ----------
        axis : int, tuple of int or None, default=None
            As in `numpy.mean`.
        """
        total = np.sum(self._array, axis=axis)
        return self._summed(total, axis) / (self._array.size / max(np.size(total), 1))

    def _summed(self, total: Any, axis: Any) -> Released:
        every = tuple(range(self.ndim)) if axis is None else axis
        axes = every if isinstance(every, tuple) else (every,)
        places = np.moveaxis(_places(self._array), axes, tuple(range(-len(axes), 0)))
        size = np.size(total)
        places = places.reshape(size, self._array.size // max(size, 1))
        return _made(total, self.errors.sums(places), self.note)

    def _combined(self, ufunc: Any, *inputs: Any) -> Released | None:
        """Return a sum, difference, product or quotient; None if `inputs` are no numbers."""
        numbers = [_numbers(x) for x in inputs]
        if any(x is None for x in numbers):
            return None
        answers = [x for x in inputs if isinstance(x, Released)]
        factors: list[Any] = [1.0, -1.0 if ufunc is np.subtract else 1.0]
        linear = ufunc in (np.add, np.subtract)
        with np.errstate(all="ignore"):
            value = np.asarray(ufunc(*numbers))
            if not linear and len(answers) == 1:
                linear = ufunc is np.multiply or inputs[0] is answers[0]
                factors = [ufunc(1.0, numbers[inputs[0] is answers[0]])] * 2
        errors = Errors.none(value.size)
        for x, number, factor in zip(inputs, numbers, factors, strict=True):
            if isinstance(x, Released):
                places = np.broadcast_to(_places(number), value.shape).ravel()
                errors += x.errors.at(places, np.broadcast_to(factor, value.shape).ravel())
        made = _made(value, errors, next((x.note for x in answers if x.note), ""))
        if linear:
            return made
        return Released(value, np.nan, made.privacy, None, made.note)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Keep the error in arithmetic; all other functions get the values alone."""
        if any(x is self for x in options.get("out", ())):
            del options["out"]  # m += 1 is m = m + 1: answers do not change
        if method == "__call__" and not options:
            if ufunc is np.positive:
                return self
            if ufunc is np.negative:
                ufunc, inputs = np.multiply, (self, -1.0)
            if ufunc is np.matmul and all(np.ndim(x) == 1 for x in inputs):
                return np.multiply(*inputs).sum()
            made = self._combined(ufunc, *inputs) if ufunc in _ARITHMETIC else None
            if made is not None:
                return made
        return getattr(ufunc, method)(*_plain(inputs), **_plain(options))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Let sums and means keep their error; all other functions get the values alone."""
        if function in (np.sum, np.mean) and args and args[0] is self and set(kwargs) <= {"axis"}:
            return getattr(self, function.__name__)(*args[1:], **kwargs)
        return function(*_plain(args), **_plain(kwargs))


def released_metric(
    value: Any, ends: Callable[[float, bool], Pair], privacy: PrivacyCertificate, note: str = ""
) -> Released:
    """Return a metric; `ends` has its interval by level, for noise or also for sampling."""
    users = privacy.max_rows_per_unit is not None
    note = "; ".join(text for text in (note, _UNITS if users else "") if text)
    return Released(value, np.array(np.nan), privacy, None, note, MetricLimits(ends, users))


def _shown(cell: Any) -> str:
    return f"{cell:.6g}" if isinstance(cell, float) else escape(str(cell))


def _places(array: NDArray) -> NDArray[np.intp]:
    """Return the place of each entry in C order, in the shape of an array."""
    return np.arange(array.size).reshape(array.shape)


def _certificates(privacy: Any) -> tuple[PrivacyCertificate, ...]:
    return privacy if isinstance(privacy, tuple) else (privacy,)


def _made(value: Any, errors: Errors, note: str) -> Released:
    """Return an answer computed from others."""
    certificates = [privacy for source in errors.sources for privacy in source.privacy]
    certificates = list({id(privacy): privacy for privacy in certificates}.values())
    privacy = certificates[0] if len(certificates) == 1 else tuple(certificates)
    std = errors.std.reshape(np.shape(value))
    return Released(value, std, privacy, None, note, errors=errors)


def _plain(value: Any) -> Any:
    """Return arguments with values in the place of answers."""
    if isinstance(value, Released):
        return value.value
    if type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    return {k: _plain(v) for k, v in value.items()} if isinstance(value, dict) else value


def _numbers(value: Any) -> Any:
    """Return the numbers of an argument of arithmetic; None for other things."""
    if isinstance(value, Released):
        return np.asarray(value)
    if isinstance(value, numbers.Real):
        return float(value)
    if type(value) in (list, tuple) and not _holds_answers(value):
        value = np.asarray(value)
    return value if type(value) is np.ndarray and value.dtype.kind in "biuf" else None


def _holds_answers(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_holds_answers, value))
    return isinstance(value, Released)
