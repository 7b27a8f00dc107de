"""What parameters may be: constraints, public labels, bounds of columns.

A class has a table of constraints. A constraint is a word, None, a set of numbers (`Integers`,
`Reals`), `FLAG`, or a function of value and name that raises; a tuple holds alternatives. Errors
name the parameter, its allowed values and its value, and come before any charge.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets


@dataclass(frozen=True)
class Integers:
    """The integers from `low` to `high`; None: no end on that side."""

    low: int | None = None
    high: int | None = None
    convert: ClassVar[type] = int

    def __str__(self) -> str:
        least = "" if self.low is None else f"at least {self.low}"
        most = "" if self.high is None else f"at most {self.high}"
        ends = " and ".join(filter(None, (least, most)))
        return f"an integer of {ends}" if ends else "an integer"

    def is_kind(self, value: Any) -> bool:
        """Say whether the value is of the right type, in range or not."""
        return isinstance(value, numbers.Integral) and not isinstance(value, bool)

    def has(self, value: Any) -> bool:
        """Say whether a value of the right type is in range."""
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)


@dataclass(frozen=True)
class Reals:
    """The numbers of an interval, as `closed` says "[]", "()", "(]" or "[)"."""

    low: float
    high: float = math.inf
    closed: str = "[]"
    convert: ClassVar[type] = float

    def __str__(self) -> str:
        return f"a number in {self.closed[0]}{self.low:g}, {self.high:g}{self.closed[1]}"

    def is_kind(self, value: Any) -> bool:
        """Say whether the value is of the right type, in range or not."""
        return isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)

    def has(self, value: Any) -> bool:
        """Say whether a value of the right type is in range; NaN is not, nor a huge integer."""
        try:
            number = float(value)
        except OverflowError:
            return False
        above = number > self.low or (self.closed[0] == "[" and number == self.low)
        below = number < self.high or (self.closed[1] == "]" and number == self.high)
        return above and below


@dataclass(frozen=True)
class _Flags:
    convert: ClassVar[type] = bool

    def __str__(self) -> str:
        return "True or False"

    def is_kind(self, value: Any) -> bool:
        """Say whether the value is a bool, of Python or of numpy."""
        return isinstance(value, bool | np.bool_)

    def has(self, value: Any) -> bool:
        """Return True: every bool is allowed."""
        return True


Set = Integers | Reals | _Flags
Constraint = str | None | Set | Callable[[Any, str], Any]
Table = Mapping[str, Constraint | tuple[Constraint, ...]]

_LONGEST = 10**7  # entries of a parameter
_MOST_CLASSES = 2**16
MOST_NUMBERS = 2**25  # of an array of results: a quarter of a gigabyte

FLAG = _Flags()
FRACTION = Reals(0, 1, "()")
STEP = (None, Reals(0, math.inf, "()"))


def check_parameter(value: Any, name: str, *allowed: Constraint) -> Any:
    """Return a parameter, numbers as an int or a float, or raise an error that says what it may be.

    That is a ValueError if the type is right, or if only words are allowed; else a TypeError.
    """
    if len(allowed) == 1 and callable(allowed[0]):
        return allowed[0](value, name)
    words = [choice for choice in allowed if isinstance(choice, str)]
    sets = [choice for choice in allowed if isinstance(choice, Set)]
    if (value is None and None in allowed) or (isinstance(value, str) and value in words):
        return value
    wrong: type[Exception] = ValueError if words and not sets else TypeError
    for numbers_of in sets:
        if numbers_of.is_kind(value):
            if numbers_of.has(value):
                return numbers_of.convert(value)
            wrong = ValueError
    wrong = ValueError if isinstance(value, str) and words else wrong
    *first, last = [str(item) if isinstance(item, Set) else repr(item) for item in allowed]
    text = f"{', '.join(first)} or {last}" if first else last
    got = type(value).__name__ if wrong is TypeError else shown(value)
    raise wrong(f"{name} must be {text}, got {got}")


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Turn errors that other code raises for a public parameter into errors that name it."""
    try:
        yield
    except Exception as error:
        try:
            text = str(error)
        except Exception:  # noqa: BLE001
            text = type(error).__name__
        if name in text and isinstance(error, TypeError | ValueError):
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        text = text if len(text) <= 400 else f"{text[:400]}..."
        failure = kind(f"{name}: {text}")
    else:
        return
    raise failure  # not in the handler: the other error says no more


def shown(value: Any, max_length: int = 80) -> str:
    """Return a public value for a message; its type, if it is long or has no repr."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  the caller's own class, or an integer of too many digits
        text = ""
    return text if 0 < len(text) <= max_length else type(value).__name__


def check_parameters(owner: Any, table: Table) -> None:
    """Check the attributes of an object by a table of constraints."""
    for name, allowed in table.items():
        several = allowed if isinstance(allowed, tuple) else (allowed,)
        check_parameter(getattr(owner, name), name, *several)


def check_kinds(owner: Any) -> None:
    """Refuse values that no parameter may have; see `check_kind`."""
    for name, value in vars(owner).items():
        if not (name.endswith("_") or name.startswith("_")):
            check_kind(value, name)


def check_kind(value: Any, name: str) -> None:
    """Refuse iterators, arrays of no dimensions and endless ranges."""
    if isinstance(value, Iterator):
        kind = type(value).__name__
        raise TypeError(f"{name} must not be a {kind}, which can be read once: pass a list")
    if isinstance(value, np.ndarray) and not value.ndim:
        raise TypeError(f"{name} must not be an array of no dimensions: pass its value")
    check_length(value, name)


def check_length(value: Any, name: str) -> None:
    """Refuse ranges, or lists of ranges, whose numbers would fill the memory."""
    parts = value if isinstance(value, list | tuple) else (value,)
    for part in parts:
        if isinstance(part, range) and part[:_LONGEST] != part:
            raise ValueError(f"{name} must have at most {_LONGEST} entries")


def check_size(name: str, numbers: int) -> None:
    """Refuse a parameter whose results would fill the memory."""
    if numbers > MOST_NUMBERS:
        raise ValueError(
            f"{name} would make results of {float(numbers):.2g} numbers, and at most "
            f"{MOST_NUMBERS} are possible: state less"
        )


def check_integer(value: Any, name: str, *, low: int, high: int | None = None) -> int:
    """Return an integer parameter, or raise an error that says what it may be."""
    return int(check_parameter(value, name, Integers(low, high)))


def became_text(array: NDArray, labels: Iterable[Any]) -> bool:
    """Say whether an array turned numbers beside text into text."""
    text = {"U": str, "S": bytes}.get(array.dtype.kind)
    return text is not None and not all(isinstance(label, text) for label in labels)


def different_labels(labels: Any, problem: str) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return public labels, sorted, and the place of each given one; or raise the problem."""
    # A string is a sequence of letters, and a set has no order: neither is a list of labels.
    if labels is None or isinstance(labels, str | bytes | Mapping | AbstractSet):
        raise TypeError(f"{problem}, got {type(labels).__name__}")
    check_length(labels, problem.partition(" ")[0])
    try:
        given = list(labels)
        array = np.asarray(labels if hasattr(labels, "dtype") else given)
        known, order = np.unique(array, return_inverse=True)
        missing = bool(np.any(array != array)) or any(label is None for label in given)
    except (TypeError, ValueError):
        raise TypeError(problem) from None
    if became_text(array, given):
        raise TypeError(problem)
    infinite = array.dtype.kind == "f" and not np.isfinite(array).all()
    if array.ndim != 1 or not array.size or known.size != array.size or missing or infinite:
        raise ValueError(problem)
    return known, order


def check_classes(classes: Any, fewest: int = 2) -> NDArray:
    """Return the public class labels, sorted."""
    with naming("classes"):
        check_length(classes, "classes")
        array = np.asarray(classes)
        if array.size > _MOST_CLASSES:
            raise ValueError(f"there must be at most {_MOST_CLASSES}, got {array.size}")
    if classes is None or array.ndim != 1:
        raise ValueError(
            "classes must be given for a classifier: all class labels, from public knowledge, "
            "because those that occur in y are private"
        )
    labels: NDArray | None = None
    with suppress(TypeError):
        labels = np.unique(array)
    given = array if hasattr(classes, "dtype") else classes
    if labels is None or became_text(labels, given):
        raise ValueError("classes must be labels of one type")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError("classes must be finite, or text")
    if len(labels) < fewest:
        number = "two class labels" if fewest > 1 else "one class label"
        raise ValueError(f"classes must hold at least {number}")
    check_classification_targets(labels)
    return labels


# --- bounds of columns ----------------------------------------------------------------------------

PRIVATE = "private"

_BOUNDS = (
    "bounds must be 'private', a pair (low, high) of numbers, a pair (lows, highs) of two lists or "
    "arrays with one number per feature, or a mapping from column name to (low, high)"
)


def _has_pairs(bounds: Any) -> bool:
    """Say whether bounds look like one pair for each column: for two columns that is ambiguous."""
    if isinstance(bounds, list) or (isinstance(bounds, np.ndarray) and bounds.ndim):
        return any(_ndim(side) > 0 for side in bounds)
    return isinstance(bounds, tuple) and any(isinstance(side, tuple) for side in bounds)


def _ndim(side: Any) -> int:
    """Return the number of dimensions of a bound; 2 for lists of several lengths."""
    try:
        return int(np.ndim(side))
    except (TypeError, ValueError):
        return 2


class BoundsWithRisk(tuple[Any, Any]):
    """Bounds (low, high) that `skdp.describe` learned, and what the rows beyond them may weigh.

    Answers within these bounds have that in their errors. Otherwise this is a tuple, equal to one
    that was typed; ``tuple(bounds)`` is one, and states the same bounds as public knowledge.

    - `low`, `high` of shape (n_columns,)
    - `learned`: Of each column; None where bounds were stated.
    """

    learned: tuple[Any, ...]

    def __new__(cls, low: Any, high: Any, learned: tuple[Any, ...]) -> Self:  # noqa: D102
        pair = super().__new__(cls, (low, high))
        pair.learned = learned
        return pair

    def __getnewargs__(self) -> tuple[Any, ...]:  # of copy and pickle
        return (*self, self.learned)


def _learned_of(pair: Any) -> tuple[Any, ...]:
    return pair.learned if isinstance(pair, BoundsWithRisk) else (None,)


def _by_name(
    bounds: Mapping[Any, Any], n_features: int, names: Sequence[Any] | None
) -> tuple[Any, Any]:
    """Return lows and highs in the order of the columns."""
    if names is None and all(isinstance(name, numbers.Integral) for name in bounds):
        names = range(n_features)
    if names is None:
        way_out = (
            "; of an array the names are 0, 1, ..., and behind a step that makes arrays "
            "step.set_output(transform='pandas') keeps them"
        )
        if n_features == 1 and len(bounds) == 1:
            ((name, pair),) = bounds.items()
            way_out = f": of one column pass a table, as df[[{name!r}]], or write bounds={pair!r}"
        raise TypeError(
            f"bounds by column name need a table with column names, got rows without{way_out}"
        )
    unknown = [name for name in bounds if name not in names]
    if missing := [name for name in names if name not in bounds]:
        no_columns = f"; X does not have: {unknown}" if unknown else ""
        raise ValueError(
            f"bounds must state every column; there are none for {missing}{no_columns}"
        )
    # Names beyond those of X are of other columns of the caller's table. A misspelt one leaves a
    # column of X without bounds, so it was refused above. Positions have no spelling.
    if unknown and isinstance(names, range):
        raise ValueError(f"bounds name columns that X does not have: {unknown}")
    for name in names:
        pair = bounds[name]
        if isinstance(pair, str) or _ndim(pair) != 1 or len(pair) != 2:
            raise TypeError(
                f"bounds of column {name!r} must be a pair (low, high) of numbers; learned and "
                "stated bounds do not mix"
            )
        if any(_ndim(side) or np.asarray(side).dtype.kind not in "biufO" for side in pair):
            raise TypeError(f"bounds of column {name!r} must be a pair (low, high) of numbers")
    lows, highs = [bounds[name][0] for name in names], [bounds[name][1] for name in names]
    return BoundsWithRisk(lows, highs, tuple(_learned_of(bounds[name])[0] for name in names))


def _labels(side: Any) -> list[Any] | None:
    """Return the index of a bound that is a Series, unless it only counts positions."""
    if not (hasattr(side, "iloc") and hasattr(side, "index")) or _ndim(side) != 1:
        return None
    labels = list(side.index)
    return None if labels == list(range(len(labels))) else labels


def _aligned(side: Any, name: str, n_features: int, names: Sequence[Any] | None) -> Any:
    """Return a bound in the order of the columns; its index may have another order."""
    labels = _labels(side)
    if labels is None:
        return side
    columns = list(range(n_features) if names is None else names)
    if len(labels) != len(columns) or set(labels) != set(columns):
        raise ValueError(
            f"bounds: the index of {name} must hold each column once, got {labels} for "
            f"{columns}. For bounds by position pass {name}.to_numpy()"
        )
    return np.asarray(side)[[labels.index(column) for column in columns]]


def labels_of_bounds(bounds: Any) -> list[Any] | None:
    """Return the column names in bounds, in their own order, or None."""
    if isinstance(bounds, Mapping):
        return list(bounds)
    if not isinstance(bounds, tuple):
        return None
    return next((labels for side in bounds if (labels := _labels(side)) is not None), None)


def check_bounds(
    bounds: Any, n_features: int, names: Sequence[Any] | None = None
) -> tuple[NDArray, NDArray] | None:
    """Return (low, high) as arrays of length n_features, or None for ``"private"``.

    `names` of the columns are needed for bounds by column name.
    """
    if isinstance(bounds, str):
        if bounds == PRIVATE:
            return None
        raise ValueError(f"bounds must be 'private' or a pair (low, high), got {bounds!r}")
    if isinstance(bounds, Mapping):
        bounds = _by_name(bounds, n_features, names)
    elif _has_pairs(bounds):
        raise TypeError(
            f"{_BOUNDS}. A list of pairs is none of these: for columns a and b with bounds (0, 1) "
            "and (0, 9) write ([0, 0], [1, 9]) or {'a': (0, 1), 'b': (0, 9)}"
        )
    if isinstance(bounds, Iterator):  # a second fit would find it empty
        raise TypeError(_BOUNDS)
    try:
        low, high = bounds
    except (TypeError, ValueError):
        raise TypeError(_BOUNDS) from None
    learned = _learned_of(bounds)
    low = _aligned(low, "low", n_features, names)
    high = _aligned(high, "high", n_features, names)
    try:
        sides = [np.asarray(low), np.asarray(high)]
        if any(side.dtype.kind not in "biufO" for side in sides):  # text, dates, complex
            raise TypeError
        pair = [np.asarray(side, dtype=np.float64) for side in sides]
    except OverflowError:
        raise ValueError("bounds: low and high must be finite") from None
    except (TypeError, ValueError):
        raise TypeError(_BOUNDS) from None
    for side, name in zip(pair, ("low", "high"), strict=True):
        if side.ndim > 1 or (side.ndim == 1 and side.size != n_features):
            raise ValueError(
                f"bounds: {name} must be one number or have one per feature ({n_features}), got "
                f"shape {side.shape}"
            )
        if not np.isfinite(side).all():
            raise ValueError(f"bounds: {name} must be finite")
    low_array, high_array = (np.broadcast_to(side, (n_features,)).copy() for side in pair)
    if np.any(wrong := low_array > high_array):
        labels = range(n_features) if names is None else names
        which = [label for label, bad in zip(labels, wrong, strict=True) if bad]
        raise ValueError(
            f"bounds: low must not exceed high for any feature, as it does for {which}"
        )
    if any(box is not None for box in learned):
        every = learned * n_features if len(learned) == 1 else learned
        return BoundsWithRisk(low_array, high_array, every)
    return low_array, high_array


def columns_of_bounds(bounds: Any) -> int | None:
    """Return the number of columns in stated bounds, or None."""
    if isinstance(bounds, Mapping):
        return len(bounds)
    if isinstance(bounds, str) or not isinstance(bounds, Sequence | np.ndarray):
        return None
    sizes = [np.size(side) for side in bounds if _ndim(side) == 1]
    return max(sizes, default=None)


def names_of(like: Any) -> Sequence[Any] | None:
    """Return the column names of public rows or of an earlier fit, or None."""
    for attribute in ("feature_names_in_", "column_names", "columns"):
        names = getattr(like, attribute, None)
        if names is not None:
            return list(names)
    return None


def rows_in(table: Any) -> int:
    """Return the number of rows of an array, table or list."""
    if hasattr(table, "shape"):
        return int(table.shape[0])
    return len(table) if hasattr(table, "__len__") else len(np.asarray(table))


def columns_of(like: Any) -> int | None:
    """Return the number of columns of public rows or of an earlier fit, or None."""
    width = getattr(like, "n_features_in_", None)
    if width is None:
        shape: Any = getattr(like, "shape", None) or (() if like is None else np.shape(like))
        width = shape[1] if len(shape) == 2 else None
    return None if width is None else int(width)
