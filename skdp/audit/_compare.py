"""Deep comparison of fitted attributes: to the last bit, and naming the place, not the value."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["difference"]

# Pairs under comparison, for objects that contain themselves. Both are kept alive: a number that
# a new object took over would make it pass unseen.
Seen = dict[tuple[int, int], tuple[Any, Any]]


def difference(a: Any, b: Any, path: str, seen: Seen) -> str | None:
    """Return the path of the first difference of two values, or None; never a value."""
    if a is b or (id(a), id(b)) in seen:
        return None
    seen[id(a), id(b)] = a, b
    if type(a) is not type(b):
        return path
    if isinstance(a, float | np.floating | complex | np.complexfloating):
        # Bit by bit: -0.0 is not 0.0 here, and NaN equals itself.
        return None if np.asarray(a).tobytes() == np.asarray(b).tobytes() else path
    if isinstance(a, np.ndarray):
        return _array_difference(a, b, path, seen)
    if isinstance(a, Mapping):
        if list(map(repr, a)) != list(map(repr, b)):
            return path
        pairs = zip(a.values(), b.values(), strict=True)
        steps = (f"{path}[{key!r}]" for key in a)
        return _first(pairs, steps, seen)
    if isinstance(a, list | tuple):
        if len(a) != len(b):
            return path
        return _first(zip(a, b, strict=True), (f"{path}[{i}]" for i in range(len(a))), seen)
    if isinstance(a, np.random.RandomState):
        return difference(a.get_state(legacy=False), b.get_state(legacy=False), path, seen)
    if isinstance(a, np.random.Generator):
        return difference(a.bit_generator.state, b.bit_generator.state, path, seen)
    state_a, state_b = _state(a), _state(b)
    if state_a is not None and state_b is not None:
        return difference(state_a, state_b, path, seen)
    return None if _same(a, b) else path


def _array_difference(a: NDArray, b: NDArray, path: str, seen: Seen) -> str | None:
    if a.dtype != b.dtype or a.shape != b.shape:
        return path
    if a.dtype == object:
        return difference(a.tolist(), b.tolist(), path, seen)
    return None if a.tobytes() == b.tobytes() else path


def _first(pairs: Any, steps: Any, seen: Seen) -> str | None:
    found = (difference(x, y, step, seen) for (x, y), step in zip(pairs, steps, strict=True))
    return next((path for path in found if path is not None), None)


def _state(value: Any) -> dict[str, Any] | None:
    """Return the attributes of an object of a Python class, or None for anything else."""
    named = dict(getattr(value, "__dict__", {}))
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name) and name not in {"__dict__", "__weakref__"}:
                named[name] = getattr(value, name)
    return named or None


def _same(a: Any, b: Any) -> bool:
    """Compare what has no attributes of its own: by value, else by its pickle."""
    try:
        equal = a == b
        if isinstance(equal, bool | np.bool_):
            return bool(equal) or (a != a and b != b)
    except (TypeError, ValueError):
        pass
    try:
        return pickle.dumps(a) == pickle.dumps(b)
    except (TypeError, AttributeError, pickle.PicklingError):
        return False
