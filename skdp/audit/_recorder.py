"""Record and replay for any library: its noise primitives are wrapped while a mechanism runs.

Nothing is released: tables are made up. A mechanism is run on one table, and what each primitive
was given and returned is recorded. It is run again on a neighbour, and the primitives return what
was recorded. Whatever differs then passed no primitive: other calls, other parameters of noise (a
sensitivity read off the rows), another output. What was given may differ by the stated sensitivity.
One pair of runs decides, without any statistics.

References
----------
Cebere, Erb, Desfontaines, Bellet & Fitzsimons 2026, "Privacy in theory, bugs in practice: grey-box
auditing of differential privacy libraries", PETS (Re:cord-play).
"""

from __future__ import annotations

import functools
import inspect
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from skdp.audit._compare import difference

__all__ = ["Primitive", "Replay", "replay_mechanism"]


@dataclass(frozen=True)
class Primitive:
    """A function or method of a library that adds noise, and how to read its arguments.

    Attributes
    ----------
    name : str
        Dotted name: ``"library.module.function"`` or ``"library.module.Class.method"``.
    value : str
        Name of the private argument: the exact statistic before noise.
    sensitivity : callable or None
        ``sensitivity(arguments) -> float``: how far the value may move, given the other arguments
        of the call by name (`self` for a method). None: not checked.
    distance : callable or None
        ``distance(a, b) -> float``; None: the sum of absolute differences.
    parameters : callable or None
        ``parameters(arguments) -> object``: what must be equal on both tables. None: all other
        arguments, and the attributes of `self`.
    """

    name: str
    value: str
    sensitivity: Callable[[dict[str, Any]], float] | None = None
    distance: Callable[[Any, Any], float] | None = None
    parameters: Callable[[dict[str, Any]], Any] | None = None


@dataclass(frozen=True)
class Replay:
    """What a mechanism did on a neighbouring table, with the noise of the first table.

    Attributes
    ----------
    problems : tuple of str
        What depends on rows without having passed through a primitive; it contains no values.
    n_releases : int
        Calls of primitives on the first table.
    ratios : tuple of float
        How far each value moved, divided by its sensitivity; NaN if this is not checked.
    """

    problems: tuple[str, ...]
    n_releases: int
    ratios: tuple[float, ...]

    @property
    def passed(self) -> bool:
        """Whether no problem was found."""
        return not self.problems


@dataclass
class _Call:
    name: str
    value: Any
    parameters: Any
    allowed: float
    released: Any


def _found(name: str) -> tuple[Any, str]:
    """Return who holds the attribute of a dotted name, and its last part."""
    head, _, last = name.rpartition(".")
    parts = head.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            holder = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            holder = getattr(holder, part)
        return holder, last
    raise ModuleNotFoundError(f"there is no module for {name!r}")


def _distance(a: Any, b: Any) -> float:
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    return float(np.abs(x - y).sum()) if x.shape == y.shape else float("inf")


class _Transcript:
    """Calls of primitives in one run; those of an earlier run are returned where there is one."""

    def __init__(self, source: list[_Call] | None) -> None:
        self.calls: list[_Call] = []
        self.source = source
        self.inside = False

    def called(self, primitive: Primitive, function: Any, args: Any, named: Any) -> Any:
        if self.inside:  # a primitive that is made of another one is one release
            return function(*args, **named)
        bound = inspect.signature(function).bind(*args, **named)
        bound.apply_defaults()
        arguments = dict(bound.arguments)
        allowed = primitive.sensitivity(arguments) if primitive.sensitivity else float("nan")
        parameters = (
            primitive.parameters(arguments)
            if primitive.parameters
            else [
                dict(vars(v)) if k == "self" and hasattr(v, "__dict__") else v
                for k, v in arguments.items()
                if k != primitive.value
            ]
        )
        call = _Call(primitive.name, arguments[primitive.value], parameters, float(allowed), None)
        at = len(self.calls)
        self.calls.append(call)
        recorded = self.source[at] if self.source is not None and at < len(self.source) else None
        if recorded is not None and recorded.name == call.name:
            call.released = recorded.released
        else:
            self.inside = True
            try:
                call.released = function(*args, **named)
            finally:
                self.inside = False
        return call.released


@contextmanager
def _wrapped(primitives: Sequence[Primitive], transcript: _Transcript) -> Iterator[None]:
    undo = []
    try:
        for primitive in primitives:
            holder, last = _found(primitive.name)
            original = inspect.getattr_static(holder, last)

            @functools.wraps(original)
            def wrapper(
                *args: Any, _of: Primitive = primitive, _original: Any = original, **named: Any
            ) -> Any:
                return transcript.called(_of, _original, args, named)

            undo.append((holder, last, original))
            setattr(holder, last, wrapper)
        yield
    finally:
        for holder, last, original in reversed(undo):
            setattr(holder, last, original)


@contextmanager
def _global_seeds(seed: int) -> Iterator[None]:
    """Let post-processing that draws from global generators repeat itself."""
    before, numpys = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        yield
    finally:
        random.setstate(before)
        np.random.set_state(numpys)  # noqa: NPY002


def _run(mechanism: Any, table: Any, seed: int) -> Any:
    try:
        with _global_seeds(seed):
            return mechanism(table, np.random.default_rng(seed))
    except Exception as error:  # noqa: BLE001  # that it occurs may depend on rows
        return f"raised {type(error).__name__}: {error}"


def replay_mechanism(
    mechanism: Callable[[Any, np.random.Generator], Any],
    table: Any,
    neighbour: Any,
    primitives: Sequence[Primitive],
    *,
    random_state: int = 0,
) -> Replay:
    """Run a mechanism of any library on two neighbours with the same noise, and compare.

    Parameters
    ----------
    mechanism : callable
        ``mechanism(table, rng) -> output``. Its primitives must be looked up when they are called
        (a method, or an attribute of a module).
    table, neighbour : object
        Made-up neighbouring tables.
    primitives : sequence of Primitive
        The functions with which the library adds noise.
    random_state : int, default=0
        Seeds `rng` and the global generators of numpy and Python on both tables.

    Returns
    -------
    found : Replay

    Notes
    -----
    **Privacy.** Exact statistics are held while it runs: use made-up rows. Noise that is drawn
    outside the listed primitives shows up as a problem or, with the same seed, not at all.

    Examples
    --------
    A mean that reads its bounds off the rows:

    >>> import numpy as np
    >>> from skdp.audit import Primitive, replay_mechanism
    >>> class Noise:
    ...     @staticmethod
    ...     def add(value, width):
    ...         return value + np.random.laplace(0, width)
    >>> def mean(table, rng):
    ...     return Noise.add(np.mean(table), np.ptp(table) / len(table))
    >>> import sys
    >>> Noise.__module__ = __name__
    >>> primitive = Primitive(f"{__name__}.Noise.add", "value")
    >>> setattr(sys.modules[__name__], "Noise", Noise)
    >>> replay_mechanism(mean, [0.0, 1.0], [0.0, 5.0], [primitive]).passed
    False
    """
    first, second = _Transcript(None), _Transcript(None)
    with _wrapped(primitives, first):
        output = _run(mechanism, table, random_state)
    second.source = first.calls
    with _wrapped(primitives, second):
        other = _run(mechanism, neighbour, random_state)
    problems, ratios = [], []
    if len(first.calls) != len(second.calls):
        problems.append("the number of releases depends on rows")
    for i, (a, b) in enumerate(zip(first.calls, second.calls, strict=False)):
        what = f"release {i} ({a.name})"
        if a.name != b.name:
            problems.append(f"{what}: another primitive is called on other rows")
            break
        if difference(a.parameters, b.parameters, "parameters", {}) is not None:
            problems.append(f"{what}: a parameter of the noise depends on rows")
        far = next(p for p in primitives if p.name == a.name).distance or _distance
        moved = float(far(a.value, b.value))
        if np.isnan(a.allowed):  # nobody looks
            ratios.append(a.allowed)
            continue
        ratios.append(moved / a.allowed if a.allowed else float("inf" if moved else 0.0))
        if not moved <= a.allowed * (1 + 1e-9):  # a distance of NaN is none
            problems.append(f"{what}: the value moved further than its sensitivity")
    if difference(output, other, "output", {}) is not None:
        problems.append("the output depends on rows although every release was the same")
    return Replay(tuple(problems), len(first.calls), tuple(ratios))
