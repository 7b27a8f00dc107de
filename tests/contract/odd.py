"""Odd values for parameters and tables, and the rule that a refusal of one has to keep.

The rule: whatever raises is a TypeError or a ValueError whose text names the argument, nothing is
charged for it, and neither time nor memory runs out. A value that is accepted has to give a result
that can be used.
"""

from __future__ import annotations

import contextlib
import datetime
import math
import re
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

from skdp.budget import PrivacyBudget

SECONDS = 60  # for a single call: generous, a machine may be loaded
MEMORY = 3 * 2**30  # beside what the process has


class Silent:
    """An object whose representation cannot be had."""

    def __repr__(self) -> str:
        raise RuntimeError("no representation")


class Unsized:
    """Looks like an array, and cannot be indexed."""

    shape, ndim, dtype = (40, 3), 2, np.dtype(float)

    def __len__(self) -> int:
        return 40


class Untrue:
    """Compares with nothing."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise TypeError("not comparable")


# Made anew for each call: a generator can be read once.
VALUES: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "nan": lambda: math.nan,
    "inf": lambda: math.inf,
    "-inf": lambda: -math.inf,
    "0": lambda: 0,
    "-1": lambda: -1,
    "-0.0": lambda: -0.0,
    "1e308": lambda: 1e308,
    "-1e308": lambda: -1e308,
    "1e-7": lambda: 1e-7,
    "2e-6": lambda: 2e-6,
    "1e-99": lambda: 1e-99,
    "5e-324": lambda: 5e-324,
    "10**400": lambda: 10**400,
    "10**5000": lambda: 10**5000,
    "2**63": lambda: 2**63,
    "2**31": lambda: 2**31,
    "10**9": lambda: 10**9,
    "10**6": lambda: 10**6,
    "True": lambda: True,
    "2": lambda: 2,
    "0.5": lambda: 0.5,
    "empty text": lambda: "",
    "text": lambda: "odd",
    "auto": lambda: "auto",
    "private": lambda: "private",
    "bytes": lambda: b"odd",
    "empty list": list,
    "empty tuple": tuple,
    "empty dict": dict,
    "empty set": set,
    "empty array": lambda: np.empty(0),
    "no rows": lambda: np.empty((0, 3)),
    "no columns": lambda: np.empty((3, 0)),
    "nested": lambda: [[[1, 2], [3]], []],
    "ragged": lambda: [[1, 2], [3]],
    "reversed": lambda: (1, 0),
    "reversed columns": lambda: ([1.0] * 3, [0.0] * 3),
    "equal": lambda: (0.5, 0.5),
    "nan pair": lambda: (math.nan, 1),
    "infinite pair": lambda: (-math.inf, math.inf),
    "wide pair": lambda: (-1e308, 1e308),
    "narrow pair": lambda: (0, 5e-324),
    "text pair": lambda: ("a", "b"),
    "None pair": lambda: (None, None),
    "huge pair": lambda: (0, 10**400),
    "generator": lambda: (i for i in range(2)),
    "range": lambda: range(3),
    "long range": lambda: range(10**12),
    "million": lambda: range(10**6),
    "date": lambda: datetime.date(2020, 1, 1),
    "datetime64": lambda: np.datetime64("2020-01-01"),
    "NaT": lambda: np.datetime64("NaT"),
    "timedelta": lambda: datetime.timedelta(1),
    "decimal": lambda: Decimal("0.5"),
    "decimal nan": lambda: Decimal("nan"),
    "decimal snan": lambda: Decimal("snan"),
    "fraction": lambda: Fraction(1, 3),
    "float32": lambda: np.float32(0.5),
    "float16 inf": lambda: np.float16(np.inf),
    "int8": lambda: np.int8(1),
    "uint64": lambda: np.uint64(2**64 - 1),
    "0-d": lambda: np.array(1.0),
    "0-d object": lambda: np.array(None),
    "array of text": lambda: np.array(["a", "b"]),
    "array of objects": lambda: np.array([None, 1, "a"], dtype=object),
    "list of None": lambda: [None],
    "list of nan": lambda: [math.nan, math.nan],
    "dict": lambda: {"a": 1},
    "dict of None": lambda: {None: None},
    "set": lambda: {1, 2},
    "complex": lambda: 1j,
    "object": object,
    "type": lambda: int,
    "function": lambda: len,
    "lambda": lambda: lambda *arguments, **options: None,
    "Ellipsis": lambda: ...,
    "slice": lambda: slice(None),
    "NA": lambda: pd.NA,
    "series": lambda: pd.Series([0.5, 1.5]),
    "frame": lambda: pd.DataFrame({"a": [0.5]}),
    "silent": Silent,
    "untrue": Untrue,
}

TABLES: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "number": lambda: 5,
    "text": lambda: "odd",
    "bytes": lambda: b"odd",
    "empty list": list,
    "empty rows": lambda: [[]],
    "no rows": lambda: np.empty((0, 3)),
    "no columns": lambda: np.empty((40, 0)),
    "0-d": lambda: np.array(1.0),
    "0-d object": lambda: np.array(object()),
    "three dimensions": lambda: np.zeros((4, 3, 2)),
    "ragged": lambda: [[1, 2], [3]],
    "nested": lambda: [[[1, 2]], [[3]]],
    "objects": lambda: np.full((40, 3), object()),
    "dicts": lambda: [{} for _ in range(40)],
    "generator": lambda: (row for row in np.zeros((40, 3))),
    "map": lambda: map(list, np.zeros((40, 3))),
    "dict": lambda: {"a": [1, 2], "b": [3, 4]},
    "set": lambda: {1, 2, 3},
    "object": object,
    "type": lambda: np.ndarray,
    "function": lambda: len,
    "complex": lambda: np.full((40, 3), 1j),
    "dates": lambda: np.full((40, 3), np.datetime64("2020-01-01")),
    "structured": lambda: np.zeros(40, dtype=[("a", float), ("b", "U3")]),
    "void": lambda: np.zeros((40, 3), dtype="V4"),
    "unsized": Unsized,
    "shapeless": lambda: memoryview(b"123"),
    "empty frame": pd.DataFrame,
    "frame of lists": lambda: pd.DataFrame({"a": [[1], [2]], "b": [{}, ()]}),
    "two names": lambda: pd.DataFrame(np.zeros((40, 3)), columns=["a", "a", "a"]),
    "huge integers": lambda: [[10**400] * 3] * 40,
    "one row": lambda: np.zeros((1, 3)),
    "two rows": lambda: np.zeros((2, 3)),
    "longer": lambda: np.zeros((41, 3)),
    "wide": lambda: np.zeros((40, 4)),
    "flat": lambda: np.zeros(40),
    "too wide": lambda: np.zeros((4, 9000)),
    "silent": Silent,
}


# What an error may name instead: where two parameters contradict one another.
RELATED = {
    "domain": ("queries", "target"),
    "columns": ("domain", "order", "q"),
    "order": ("columns", "queries"),
    "by": ("column", "columns"),
    "estimator": ("function",),
    "X": ("table",),
    "q": ("queries",),
    "n_features": ("error",),
    "low": ("high",),
}


@dataclass
class Subject:
    """A public class or function, and arguments with which it works.

    `call` gets a budget and all arguments; an argument that is in no call is not tried.
    """

    name: str
    call: Callable[..., Any]
    arguments: dict[str, Any]
    tables: tuple[str, ...] = ()  # which of the arguments hold rows
    skipped: frozenset[str] = frozenset()
    budget: Callable[[], PrivacyBudget] = field(default=lambda: PrivacyBudget(1e12, 0.99))


class OutOfTime(BaseException):
    """No Exception, so that nothing takes it for a failure of its own."""


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Stop what takes too long or too much memory, where the system can."""
    stack = contextlib.ExitStack()
    with stack:
        if hasattr(signal, "SIGALRM") and threading.current_thread() is threading.main_thread():

            def stop(*_: Any) -> None:
                raise OutOfTime

            stack.callback(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, stop))
            stack.callback(signal.setitimer, signal.ITIMER_REAL, 0)
            signal.setitimer(signal.ITIMER_REAL, SECONDS)
        with contextlib.suppress(ImportError, OSError, ValueError):
            import resource

            with open("/proc/self/statm") as file:
                now = int(file.read().split()[0]) * resource.getpagesize()
            limits = resource.getrlimit(resource.RLIMIT_AS)
            stack.callback(resource.setrlimit, resource.RLIMIT_AS, limits)
            resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, limits[1]))
        yield


def fault(subject: Subject, argument: str, value: str, budget: PrivacyBudget) -> str:
    """Return what is wrong with how one odd value is treated; "" if nothing is."""
    made = (TABLES if argument in subject.tables else VALUES)[value]()
    before = budget.spent, len(budget.charges)
    label = f"{subject.name}({argument}={value})"
    try:
        with limited(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            subject.call(budget, **{**subject.arguments, argument: made})
    except (TypeError, ValueError) as error:
        text = f"{type(error).__name__}: {error}"
        # A table may be refused for what a parameter says of it.
        names = (argument, *RELATED.get(argument, ()))
        if argument in subject.tables:
            names = (*names, *subject.arguments)
        named = any(re.search(rf"\b{name}\b", text) for name in names)
        wrong = "" if named else "does not name it: "
    except OutOfTime:
        text, wrong = f"{SECONDS} s", "takes too long: "
    except Exception as error:
        text, wrong = f"{type(error).__name__}: {error}", "raises another error: "
    else:
        return ""
    if (budget.spent, len(budget.charges)) != before:
        wrong = f"charged, {wrong}"
    return f"{label} {wrong}{text[:300]}" if wrong else ""
