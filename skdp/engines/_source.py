"""A table in parts: handles of its parts, how one is read, and the engine that visits them.

Nothing is released here. A source holds no row (unless it is made of arrays), and reading is all
that it does: it is never handed a session, a seed or a budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Engine", "Part", "Source", "Task", "needed"]

Totals = list[NDArray]


def needed(module: str, extra: str) -> Any:
    """Return an optional module, or say how it is installed."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        name = module.partition(".")[0]
        if error.name != name:
            raise
        raise ModuleNotFoundError(
            f'This needs {name}: pip install {name}, or ".[{extra}]" in a checkout.', name=name
        ) from None


class Part(NamedTuple):
    """One part of a table, as an engine takes it to where it is read.

    Attributes
    ----------
    number : int
        Its place among the parts.
    handle : object
        What the reader takes; picklable where the engine has other processes.
    wanted : ndarray of int, or None
        The rows of the part that are asked for, ascending; None for all.
    """

    number: int
    handle: Any
    wanted: NDArray[np.int64] | None = None


class Task(Protocol):
    """What is done with a part where it lies: public closures only.

    Attributes
    ----------
    reads : tuple or None
        Names of the columns that it reads; None for all.
    """

    @property
    def reads(self) -> tuple[Any, ...] | None: ...

    def __call__(self, part: Part) -> Totals:
        """Return the totals of a part; it never raises for what is in the part."""

    def over(self, part: Part, batches: Iterable[Any]) -> Totals:
        """Return the totals of a part whose batches the engine has read itself."""

    def zero(self) -> Totals:
        """Return the totals of no rows."""

    def added(self, one: Totals, other: Totals) -> Totals:
        """Add up two totals, exactly."""


class Engine(Protocol):
    """Visits parts: in threads, or on other machines.

    One whose parts are not in this process may have ``fetched(reader, number, handle, columns)``,
    which yields batches of a part here: GROUP BY needs all rows of a unit in one place.
    """

    def map_add(self, task: Task, parts: Sequence[Part]) -> Totals:
        """Return the sum of ``task(part)`` over the parts, each counted once, in any order."""


@dataclass(frozen=True, repr=False, eq=False)
class Source:
    """A table in parts, to be passed instead of X; made by the functions of `skdp.engines`.

    Attributes
    ----------
    handles : tuple
        One for each part.
    reader : callable
        Takes a handle and yields batches of its rows: two-dimensional arrays, or tables of pandas,
        polars or pyarrow. It may be called any number of times.
    engine : Engine
    heads : tuple
        Tables without rows, as the reader yields them: the public part of each part.
    columns : tuple or None
        Names of the columns to read, in order; None: all columns, or columns without names.
    """

    handles: tuple[Any, ...]
    reader: Callable[[Any], Iterable[Any]]
    engine: Engine
    heads: tuple[Any, ...]
    columns: tuple[Any, ...] | None = None

    def __repr__(self) -> str:
        return f"Source({len(self.handles)} parts, engine={type(self.engine).__name__})"

    def __len__(self) -> int:
        raise TypeError("the number of rows of a table in parts is not known; it may be private")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        raise TypeError(
            "a table in parts cannot be made an array: it would be as large as all of its parts"
        )

    def __iter__(self) -> Any:
        raise TypeError("a table in parts is read in place: pass it to fit instead of X")

    def select(self, columns: Sequence[Any]) -> Source:
        """Return the same parts with some columns only, in this order.

        Parameters
        ----------
        columns : sequence
            Names.

        Returns
        -------
        source : Source
        """
        return replace(self, columns=names_of(columns))


def names_of(columns: Any) -> tuple[Any, ...] | None:
    """Return names of columns as a tuple, None as it is."""
    if columns is None:
        return None
    if isinstance(columns, str | bytes) or not isinstance(columns, Iterable):
        raise TypeError(f"columns must be a sequence of names, got {type(columns).__name__}")
    return tuple(columns)
