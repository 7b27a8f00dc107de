"""Queries: values of public numbers that carry their sensitivity.

`Session.answer` releases the answer to a query. A query is a frozen dataclass of public numbers. An
additive one (`Query`) has ``exact(table)``, integers, and ``sensitivity(relation)``, by how much
they move between neighbours, side by side in one file with the proof; the session adds the noise
that this asks for. Every other mechanism (`Measurement`: a choice, a threshold test, a noisy
sample, ...) is a value, too, and releases by itself.

Guarantee: a session answers registered types only, by exact type. `reviewed` registers those of
this package; `register_query` those of anybody else, which certificate and ledger then name as
unreviewed. So nobody hands in a number with a sensitivity of their own beside it.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from skdp.core.table import ADD_OR_REMOVE_ONE, REPLACE_ONE, PrivateTable, Stability

if TYPE_CHECKING:
    from skdp.core.privacy_filter import Meter, Share


class Sensitivity(Protocol):
    """By how much an answer moves, and the noise that this asks for; see `skdp.core.mechanisms`."""

    def times(self, k: int) -> Any:
        """Return the bounds for k rows."""

    def either(self, other: Any) -> Any:
        """Return bounds for a change of this kind or of the other."""

    def std(self, entries: int, level: float, *, pure: bool) -> Any:
        """Return the standard deviation that `noised` would; level is epsilon or mu."""

    def noised(
        self, meter: Meter, name: str, exact: NDArray, share: Share, unit: float
    ) -> tuple[NDArray, Any]:
        """Return the integers with noise, and its standard deviation in steps."""


@dataclass(frozen=True)
class Terms:
    """What a query may know of the session that answers it; all of it is public.

    - `stability`: How many rows one unit replaces, and how many it adds or removes.
    - `pure`: Whether noise is pure, or Gaussian.
    - `level`: The epsilon (pure) or mu that this answer may lose.
    - `n_rows`: The number of rows where the relation makes it public.
    """

    stability: Stability
    pure: bool
    level: float
    n_rows: int | None

    @property
    def relation(self) -> str:
        """The relation between tables that differ by one step."""
        return self.stability.relation

    @property
    def replaces(self) -> bool:
        """Whether a row may be replaced, which may move sums further than one more or less."""
        return self.stability.replacements > 0


@dataclass(frozen=True)
class Noisy:
    """The answer to a query in steps, before it is put into the user's units.

    - `std`: Of an entry (off the diagonal, of a matrix), in steps; of sums in groups, of each
      group.
    """

    values: NDArray
    std: Any
    terms: Terms


def terms_of(table: PrivateTable, meter: Meter, share: Share) -> Terms:
    """Return what a query may know: nothing of it depends on private rows."""
    return Terms(
        stability=table.stability,
        pure=meter.pure,
        level=meter.level(share),
        n_rows=table.n if table.n_is_public else None,
    )


class Query:
    """An additive query: exact integers, and by how much these move between neighbours.

    A subclass is a frozen dataclass of public values, registered by `reviewed` or
    `register_query`. `unit` says in the certificate what a step is in the user's units.
    """

    name: ClassVar[str] = "query"

    def prepared(self, terms: Terms) -> Any:
        """Return the query with what it chooses by public terms: the number of its steps, say."""
        return self

    @property
    def unit(self) -> float:
        """User units a step, for the certificate."""
        return 1.0

    @property
    def described(self) -> str:
        """What is computed, for the certificate; of types of skdp alone."""
        return f"{type(self).__module__}.{type(self).__qualname__}"

    def check_table(self, table: PrivateTable) -> None:
        """Refuse a table whose public facts the query does not fit; that costs nothing."""

    def exact(self, table: PrivateTable) -> NDArray:
        """Return the exact integers; private."""
        raise NotImplementedError

    def exact_in_session(
        self, table: PrivateTable, meter: Meter, share: Share, name: str
    ) -> NDArray:
        """Return `exact`; a query of skdp that runs a user's code does so in isolation here."""
        return self.exact(table)

    def sensitivity(self, relation: str) -> Sensitivity:
        """Return by how much `exact` moves, at most, for a row replaced, or added or removed."""
        raise NotImplementedError

    def decoded(self, noisy: Noisy) -> Any:
        """Return the answer in the user's units: post-processing."""
        raise NotImplementedError


class Choice:
    """A choice by the exponential mechanism: integer scores, and by how much one of them moves.

    A subclass is a frozen dataclass of public values, registered like a `Query`. A row of scores is
    one choice; all of an answer share its allowance equally.
    """

    name: ClassVar[str] = "choice"

    def scores(self, table: PrivateTable) -> NDArray:
        """Return exact integer scores, (choices, candidates), lower is better; private."""
        raise NotImplementedError

    def sensitivity(self, relation: str) -> int:
        """Return by how much any score moves, at most, for a row replaced, or added or removed."""
        raise NotImplementedError

    def decoded(self, chosen: NDArray) -> Any:
        """Return what the chosen candidates mean: post-processing."""
        raise NotImplementedError


class Measurement:
    """A mechanism that is more than noise on a vector; it releases by itself.

    A subclass is a frozen dataclass of public values, registered like a `Query`; its proof stands
    in its file. `measure` is handed the private table and the session's privacy filter: those of
    this package only. Its guarantee is for one step, by default of ``table.relation``; where a unit
    may change more, the filter gives each step its part of the allowance (group privacy).
    """

    name: ClassVar[str] = "measurement"

    @staticmethod
    def steps(query: Any, table: PrivateTable) -> int:
        """Return how many of the steps that its guarantee is for one unit may change."""
        return table.stability.steps

    def measure(self, table: PrivateTable, meter: Meter, share: Share, name: str) -> Any:
        """Release, and return what came out in the user's units."""
        raise NotImplementedError


class Derived:
    """A query of a table that is derived from the private one: of one column, of blocks' answers.

    A subclass is a frozen dataclass of public values, registered like a `Query`, with the field
    `query`; its proof stands in its file and says which stability the derived table has, for a unit
    of the caller's table. The session answers the query on that table.
    """

    name: ClassVar[str] = "derived table"

    def table(self, table: PrivateTable, meter: Meter, share: Share, name: str) -> PrivateTable:
        """Return the derived table, or raise if the query is none for it."""
        raise NotImplementedError


def moved_by(kind: type[Any], query: Any, stability: Stability) -> Any:
    """Return by how much the answer to a query moves for one unit: the worst its table may do.

    A bound for k changed rows is k times that for one, by the triangle inequality.
    """
    sizes = [
        (kind.sensitivity(query, relation), k)
        for relation, k in (
            (REPLACE_ONE, stability.replacements),
            (ADD_OR_REMOVE_ONE, stability.additions),
        )
        if k
    ]
    if issubclass(kind, Choice):
        return max(k * size for size, k in sizes)
    return functools.reduce(lambda a, b: a.either(b), (size.times(k) for size, k in sizes))


def checked_integers(exact: Any, kind: type) -> NDArray:
    """Return the exact statistic of a query, or raise: noise on integers hides no fraction.

    Of a type of skdp the kind of its array is looked at, of another every entry.
    """
    is_whole = type(exact) is np.ndarray and exact.dtype.kind in "iuO"
    if is_whole and exact.dtype.kind == "O" and not is_reviewed(kind):
        is_whole = all(type(item) is int for item in exact.flat)
    if not is_whole:
        raise TypeError(f"{kind.__name__}.exact must return an array of integers")
    # NumPy adds unsigned integers and signed ones as floats, which round.
    return exact.astype(object) if exact.dtype.kind == "u" else exact


# --- the register -----------------------------------------------------------------------------

T = TypeVar("T")

# By identity, which no type can lie about as it could about being equal; all of them stay alive.
_REVIEWED: dict[int, type] = {}
_UNREVIEWED: dict[int, type] = {}
_SCALARS: tuple[Any, ...] = tuple(np.sctypeDict.values())
# Python's own; nobody can change them.
_NATIVE: tuple[Any, ...] = (
    *(int, float, bool, str, bytes, type(None), Fraction),
    *(datetime.date, datetime.time, Decimal, UUID),  # keys
)
_PLAIN: dict[int, type] = {
    id(plain): plain for plain in (*_NATIVE, *_SCALARS) if plain is not np.object_
}


def reviewed(cls: type[T]) -> type[T]:
    """Register a type of this package: a query, or a public value that queries hold.

    Values cannot be changed once they are made: a bound must be the same when rows are clipped to
    it and when noise is scaled to it.
    """
    if cls.__module__.partition(".")[0] != "skdp":
        raise TypeError("what is not of skdp is registered by register_query")
    _REVIEWED[id(cls)] = cls
    (_take_python_numbers if dataclasses.is_dataclass(cls) else _seal)(cls)
    return cls


def _python(value: Any) -> Any:
    """Return numpy's numbers as Python's: a sensitivity that is made of them must not wrap."""
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return value.item()
    if type(value) is list or (type(value) is tuple and not _is_native(value)):
        return type(value)(_python(item) for item in value)
    return value


def _is_native(values: Sequence[Any], but: type | None = None) -> bool:
    """Say whether all values are of Python's own types, except one; fast, for thousands of keys."""
    return {id(kind) for kind in _NATIVE if kind is not but}.issuperset(map(id, map(type, values)))


def _take_python_numbers(cls: type[Any]) -> None:
    """Make the constructor of a type take numpy's numbers as Python's."""
    construct = cls.__init__

    @functools.wraps(construct)
    def construct_plain(self: Any, *arguments: Any, **options: Any) -> None:
        options = {name: _python(value) for name, value in options.items()}
        construct(self, *map(_python, arguments), **options)

    cls.__init__ = construct_plain


def _seal(cls: type[Any]) -> None:
    """Make the instances of a type refuse changes after their construction."""
    _take_python_numbers(cls)
    construct = cls.__init__

    @functools.wraps(construct)
    def sealed(self: Any, *arguments: Any, **options: Any) -> None:
        construct(self, *arguments, **options)
        if type(self) is not cls:  # another type, which no session answers
            return
        for name, value in list(vars(self).items()):
            if type(value) is np.ndarray and value.dtype.kind in "biuf":
                if not np.isfinite(value).all():
                    raise ValueError(f"{cls.__name__} must be made of finite numbers")
                object.__setattr__(self, name, _frozen(value))
            elif type(value) is float and not math.isfinite(value):
                raise ValueError(f"{cls.__name__} must be made of finite numbers")
        object.__setattr__(self, "_sealed", True)

    def refuse(self: Any, name: str, value: Any) -> None:
        if "_sealed" in vars(self):
            raise AttributeError(f"{type(self).__name__} cannot be changed; make another one")
        object.__setattr__(self, name, value)

    cls.__init__ = sealed
    cls.__setattr__ = refuse  # type: ignore[assignment]


def _frozen(value: NDArray) -> NDArray:
    """Return a copy of an array that nobody can make writeable again."""
    frozen: NDArray = np.frombuffer(np.ascontiguousarray(value).tobytes(), value.dtype)
    return frozen.reshape(value.shape)


def register_query(cls: type[T]) -> type[T]:
    """Let sessions answer a query type that is not of skdp.

    Certificate and ledger name it as unreviewed: nobody but its author says that its sensitivity
    holds.

    - raises TypeError: if it is no frozen dataclass with ``exact``, ``sensitivity`` and
      ``decoded``.
    """
    base, parts = (
        (Choice, ("scores", "sensitivity", "decoded"))
        if issubclass(cls, Choice)
        else (Query, ("exact", "sensitivity", "decoded"))
    )
    complete = issubclass(cls, base) and all(
        getattr(cls, part) is not getattr(base, part) for part in parts
    )
    options: Any = getattr(cls, "__dataclass_params__", None)
    frozen = options is not None and options.frozen
    if issubclass(cls, Measurement | Derived) or not (complete and frozen):
        raise TypeError(
            "a query must be a frozen dataclass that derives from skdp.core.Query and has "
            "exact(table), sensitivity(relation) and decoded(noisy), or from Choice and has "
            "scores(table), sensitivity(relation) and decoded(chosen)"
        )
    if id(cls) not in _REVIEWED:
        _UNREVIEWED[id(cls)] = cls
    return cls


def reviewed_types() -> frozenset[type]:
    """Return the types of this package that are registered; tests walk them."""
    return frozenset(_REVIEWED.values())


def is_reviewed(cls: type) -> bool:
    """Say whether a query type is of this package."""
    return id(cls) in _REVIEWED


def check_query(query: Any) -> type[Any]:
    """Return the type of a query that sessions answer, or raise.

    - raises TypeError: if neither it nor what it holds is registered.
    """
    kind = type(query)
    known = id(kind) in _REVIEWED or id(kind) in _UNREVIEWED
    if not known or not issubclass(kind, Query | Choice | Measurement | Derived):
        raise TypeError(
            f"a session answers the queries of skdp and registered ones, got {kind.__name__}"
        )
    names = [field.name for field in dataclasses.fields(query)]
    if set(vars(query)) - set(names):
        raise TypeError(f"{kind.__name__} holds what is no field of it")
    for name in names:
        # What a choice holds its answers against may be infinite, and is made integers there; so
        # may what names groups, of which nothing is computed.
        infinite = issubclass(kind, Choice) or name in getattr(kind, "names", ())
        _check_held(getattr(query, name), kind, f"{name} of {kind.__name__}", infinite)
    return kind


def owned(query: Any) -> Any:
    """Return a copy of a query with arrays of its own, which nobody else can change meanwhile.

    A query of skdp checks the copy as it checked itself: arrays may have changed since.
    """
    copied = object.__new__(type(query))  # without what is no field: it could hide a bound
    for field in dataclasses.fields(query):
        object.__setattr__(copied, field.name, _owned(getattr(query, field.name)))
    if is_reviewed(type(query)) and hasattr(query, "__post_init__"):
        copied.__post_init__()
    return copied


def _owned(value: Any) -> Any:
    """Return a copy of arrays and of what holds them, and numbers as Python's."""
    if dataclasses.is_dataclass(value) and id(type(value)) in _REVIEWED:
        return owned(value)
    if type(value) is np.ndarray:
        mine = np.array(value)
        mine.setflags(write=False)
        return mine
    if type(value) is list or (type(value) is tuple and not _is_native(value)):
        return type(value)(_owned(item) for item in value)
    return _python(value)


def check_ascending(values: Any, name: str) -> None:
    """Refuse edges that descend somewhere: a search among them could depend on other rows.

    - raises ValueError: also for those of more than one dimension, and for NaN.
    """
    edges = np.asarray(values)
    if edges.ndim != 1 or not bool(np.all(edges[:-1] <= edges[1:])):
        raise ValueError(f"{name} must be one-dimensional and ascending")


def _check_held(value: Any, kind: type, where: str, infinite: bool) -> None:
    """Raise if a query holds anything but plain public values and registered ones.

    `where` names the field for the error, and the image, cells or view that has it; `infinite`
    says whether its numbers may be.
    """
    type_id = id(type(value))
    if type_id in _PLAIN:
        if type(value) is float and not math.isfinite(value) and not infinite:
            raise ValueError(f"{where} must be finite")
        return
    if type(value) is UserFunction and set(vars(value)) == {"call"}:
        return
    # What is reviewed holds nothing that is not.
    if (type_id in _REVIEWED and type(value) is not UserFunction) or (
        id(kind) in _UNREVIEWED and type_id in _UNREVIEWED
    ):
        # What it holds, too: a map of rows that rests on another map, say.
        for name, part in vars(value).items():
            # Of cuts that values are only compared with, an infinite one is beyond them all.
            only_compared = type(part) is np.ndarray and getattr(type(value), "compares", False)
            if not (only_compared and not np.isnan(part).any()):
                named = infinite or name in getattr(type(value), "names", ())
                _check_held(part, kind, f"{name} of {type(value).__name__}", named)
        return
    if type(value) is np.ndarray and value.dtype.kind in "biuf":
        # Public answers that scores are held against are made integers by the choice itself.
        known = value.dtype.kind != "f" or issubclass(kind, Choice) or np.isfinite(value).all()
        if not known:
            raise ValueError(f"{where} must be finite, not NaN")
        return
    if type(value) in (tuple, list):
        for part in () if _is_native(value, but=float) else value:
            _check_held(part, kind, where, infinite)
        return
    raise TypeError(
        f"{where} must be made of numbers, texts, arrays of numbers and types of skdp, got "
        f"{type(value).__name__}"
    )


@reviewed
@dataclass(frozen=True, eq=False)
class UserFunction:
    """A user's callable, as far as a query may hold one: its results are clipped in the core."""

    call: Callable[..., Any]
