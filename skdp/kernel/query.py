"""Queries: what may be asked of private rows, each a value that carries its sensitivity.

Nothing is released here; `Session.answer` does. A query is a frozen dataclass of public numbers. An
additive one (`Query`) has ``exact(table)``, integers, and ``sensitivity(relation)``, by how much
they move between neighbours, side by side in one file with the proof; the session adds the noise
that this asks for. Every other mechanism (`Measurement`: a choice, a threshold test, a noisy
sample, ...) is a value, too, and releases by itself.

Guarantee: a session answers registered types only, by exact type. `reviewed` registers those of
this package; `register_query` those of anybody else, which certificate and ledger then name as
unreviewed. So nobody hands in a number with a sensitivity of their own beside it.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from skdp.kernel.doors import Doors
    from skdp.kernel.table import PrivateTable

__all__ = [
    "Choice",
    "Independent",
    "Measurement",
    "Noisy",
    "Query",
    "Sensitivity",
    "Spherical",
    "Symmetric",
    "Terms",
    "check_query",
    "is_reviewed",
    "owned",
    "register_query",
    "reviewed",
    "reviewed_types",
]


@dataclass(frozen=True)
class Independent:
    """Every entry gets noise of its own: rounded Gaussian, or discrete Laplace if pure.

    Attributes
    ----------
    l1, l2_squared : int
        Bounds on the L1 norm and on the squared L2 norm of a change, in steps.
    or_spherical : bool
        In a pure session take K-norm noise for the L2 norm where that is less.
    """

    l1: int
    l2_squared: int
    or_spherical: bool = False


@dataclass(frozen=True)
class Spherical:
    """The whole vector gets noise of one L2 scale: rounded Gaussian, or K-norm if pure.

    Attributes
    ----------
    l2 : int
        Bound on the L2 norm of a change, in steps, rounded up.
    """

    l2: int


@dataclass(frozen=True)
class Symmetric:
    """A symmetric matrix gets symmetric noise, of the kind that is named.

    Attributes
    ----------
    frobenius, nuclear, upper_l1 : int
        Bounds on these norms of a change, in steps squared; the last of its upper triangle.
    noise : {"gaussian", "wishart", "laplace"}
    """

    frobenius: int
    nuclear: int
    upper_l1: int
    noise: str


Sensitivity = Independent | Spherical | Symmetric


@dataclass(frozen=True)
class Terms:
    """What a query may know of the session that answers it; all of it is public.

    Attributes
    ----------
    relation : {"replace_one", "add_or_remove_one"}
    pure : bool
        Whether noise is pure, or Gaussian.
    level : float
        The epsilon (pure) or mu that this answer may lose.
    n_rows : int or None
        The number of rows where the relation makes it public.
    """

    relation: str
    pure: bool
    level: float
    n_rows: int | None


@dataclass(frozen=True)
class Noisy:
    """The answer to a query in steps, before it is put into the user's units.

    Attributes
    ----------
    values : ndarray of int
    std : float
        Of an entry (off the diagonal, of a matrix), in steps.
    terms : Terms
    """

    values: NDArray
    std: float
    terms: Terms


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

    def exact(self, table: PrivateTable) -> NDArray:
        """Return the exact integers; private."""
        raise NotImplementedError

    def sensitivity(self, relation: str) -> Sensitivity:
        """Return by how much `exact` moves between neighbouring tables, at most."""
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
        """Return by how much any score moves between neighbouring tables, at most."""
        raise NotImplementedError

    def decoded(self, chosen: NDArray) -> Any:
        """Return what the chosen candidates mean: post-processing."""
        raise NotImplementedError


class Measurement:
    """A mechanism that is more than noise on a vector; it releases by itself.

    A subclass is a frozen dataclass of public values, registered like a `Query`; its proof stands
    in its file. `measure` is handed the trusted side of the session.
    """

    name: ClassVar[str] = "measurement"

    def measure(self, core: Doors, share: Fraction | float | None, name: str) -> Any:
        """Release, and return what came out in the user's units."""
        raise NotImplementedError


# --- the register -----------------------------------------------------------------------------

T = TypeVar("T")

_REVIEWED: set[type] = set()
_UNREVIEWED: set[type] = set()
_PLAIN = {int, float, bool, str, bytes, type(None), Fraction, *np.sctypeDict.values()} - {
    np.object_
}


def reviewed(cls: type[T]) -> type[T]:
    """Register a type of this package: a query, or a public value that queries hold.

    Values cannot be changed once they are made: a bound must be the same when rows are clipped to
    it and when noise is scaled to it.
    """
    _REVIEWED.add(cls)
    if not dataclasses.is_dataclass(cls):
        _seal(cls)
    return cls


def _seal(cls: type[Any]) -> None:
    """Make the instances of a type refuse changes after their construction."""
    construct = cls.__init__

    @functools.wraps(construct)
    def sealed(self: Any, *arguments: Any, **options: Any) -> None:
        construct(self, *arguments, **options)
        if type(self) is not cls:  # another type, which no session answers
            return
        for value in vars(self).values():
            if type(value) is np.ndarray and value.flags.owndata:
                value.setflags(write=False)
        object.__setattr__(self, "_sealed", True)

    def refuse(self: Any, name: str, value: Any) -> None:
        if "_sealed" in vars(self):
            raise AttributeError(f"{type(self).__name__} cannot be changed; make another one")
        object.__setattr__(self, name, value)

    cls.__init__ = sealed
    cls.__setattr__ = refuse  # type: ignore[assignment]


def register_query(cls: type[T]) -> type[T]:
    """Let sessions answer a query type that is not of skdp.

    Certificate and ledger name it as unreviewed: nobody but its author says that its sensitivity
    holds.

    Raises
    ------
    TypeError
        If it is no frozen dataclass with ``exact``, ``sensitivity`` and ``decoded``.
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
    if issubclass(cls, Measurement) or not (complete and frozen):
        raise TypeError(
            "a query must be a frozen dataclass that derives from skdp.kernel.Query and has "
            "exact(table), sensitivity(relation) and decoded(noisy), or from Choice and has "
            "scores(table), sensitivity(relation) and decoded(chosen)"
        )
    if cls not in _REVIEWED:
        _UNREVIEWED.add(cls)
    return cls


def reviewed_types() -> frozenset[type]:
    """Return the types of this package that are registered; tests walk them."""
    return frozenset(_REVIEWED)


def is_reviewed(cls: type) -> bool:
    """Say whether a query type is of this package."""
    return cls in _REVIEWED


def check_query(query: Any) -> type[Any]:
    """Return the type of a query that sessions answer, or raise.

    Raises
    ------
    TypeError
        If neither it nor what it holds is registered.
    """
    kind = type(query)
    if not issubclass(kind, Query | Choice | Measurement) or kind not in _REVIEWED | _UNREVIEWED:
        raise TypeError(
            f"a session answers the queries of skdp.kernel and registered ones, got {kind.__name__}"
        )
    for field in dataclasses.fields(query):
        _check_held(getattr(query, field.name), kind, field.name)
    return kind


def owned(query: Any) -> Any:
    """Return a copy of a query with arrays of its own, which nobody else can change meanwhile."""
    twin = copy.copy(query)
    for field in dataclasses.fields(query):
        object.__setattr__(twin, field.name, _owned(getattr(query, field.name)))
    return twin


def _owned(value: Any) -> Any:
    """Return a copy of arrays and of what holds them; anything else as it is."""
    if type(value) is np.ndarray:
        mine = np.array(value)
        mine.setflags(write=False)
        return mine
    if type(value) in (tuple, list):
        return type(value)(_owned(one) for one in value)
    return value


def _check_held(value: Any, kind: type, field: str) -> None:
    """Raise if a query holds anything but plain public values and registered ones."""
    if type(value) in _PLAIN or type(value) is UserFunction:
        return
    # What is reviewed holds nothing that is not.
    if type(value) in _REVIEWED or (kind in _UNREVIEWED and type(value) in _UNREVIEWED):
        # What it holds, too: a map of rows that rests on another map, say.
        for one in vars(value).values():
            _check_held(one, kind, field)
        return
    if type(value) is np.ndarray and not value.dtype.hasobject:
        return
    if type(value) in (tuple, list):
        for one in value:
            _check_held(one, kind, field)
        return
    raise TypeError(
        f"{field} of {kind.__name__} must be made of numbers, texts, arrays and types of "
        f"skdp.kernel, got {type(value).__name__}"
    )


@reviewed
@dataclass(frozen=True, eq=False)
class UserFunction:
    """A user's callable, as far as a query may hold one: its results are clipped in the kernel."""

    call: Callable[..., Any]
