"""Deep comparison of fitted attributes: to the last bit, and naming the place, not the value.

Nothing is released. A value is compared in up to three ways, and each must agree: its content
where it is of a known kind (numbers, text, containers, arrays, functions), its attributes, and what
pickle would take of it. A value that none of them can look into counts as different.
"""

from __future__ import annotations

import types
import weakref
from typing import Any

import numpy as np

# Pairs under comparison, for objects that contain themselves. Both are kept alive: a number that
# a new object took over would make it pass unseen.
Seen = dict[tuple[int, int], tuple[Any, Any]]

_HEAP_TYPE = 1 << 9  # of type.__flags__: not a static class of C
_EXACT = (bool, bytes, complex, dict, float, frozenset, int, list, set, str, tuple)

# What pandas keeps on an object for itself; its content is compared by what it pickles.
_OF_PANDAS = {
    *("_accessors", "_attrs", "_cache", "_cacher", "_data", "_engine", "_flags", "_hidden_attrs"),
    *("_id", "_is_copy", "_item_cache", "_mgr", "_name", "_no_setting_name", "_range"),
    "_references",
}


def difference(a: Any, b: Any, path: str, seen: Seen) -> str | None:
    """Return the path of the first difference of two values, or None; never a value."""
    if a is b or (id(a), id(b)) in seen:
        return None
    seen[id(a), id(b)] = a, b
    if type(a) is not type(b):
        return path
    kind = _content(a)
    if kind is not None:
        found = _content_difference(kind, _content(b), path, seen)
        if found is not None or type(a) in _EXACT:
            return found
    state_a, state_b = _state(a), _state(b)
    found = difference(state_a, state_b, path, seen)
    if found is not None:
        return found
    pickled_a, pickled_b = _pickled(a), _pickled(b)
    if pickled_a is not None or pickled_b is not None:
        # The content of a known kind comes again in here; what else there is comes too, such as
        # the factory of a defaultdict or a field that a class of C hides.
        return difference(pickled_a, pickled_b, path, seen)
    hidden = not all(c is object or c.__flags__ & _HEAP_TYPE for c in type(a).__mro__)
    known = kind is not None or type(a) is object or (state_a and not hidden)
    return None if known else path


def _content_difference(a: Any, b: Any, path: str, seen: Seen) -> str | None:
    """Compare two results of `_content`: bytes, or pairs of a step in the path and a value."""
    if isinstance(a, bytes):
        return None if a == b else path
    if len(a) != len(b):
        return path
    for (key_a, x), (key_b, y) in zip(a, b, strict=True):
        # A key goes into the path, so into a message, only once it is known to be the same.
        if difference(key_a, key_b, path, seen) is not None:
            return path
        found = difference(x, y, f"{path}{_step(key_a)}", seen)
        if found is not None:
            return found
    return None


def _step(key: Any) -> str:
    return str(key) if isinstance(key, _Name) else f"[{key!r}]"


class _Name(str):
    """A part of a value that is no item of it, in a path."""

    __slots__ = ()


def _named(value: Any, *names: str) -> list[tuple[Any, Any]]:
    return [(_Name(f".{name}"), getattr(value, name)) for name in names]


def _content(value: Any) -> bytes | list[tuple[Any, Any]] | None:
    """Return what a value of a known kind consists of, whatever its subclass shows; or None."""
    if isinstance(value, np.ndarray):
        return _array_content(value)
    if isinstance(value, np.void):
        # A row of a structured array keeps the whole array alive as its base.
        return [*_named(value, "dtype", "base"), (_Name(""), value.tolist()), _layout(value)]
    if isinstance(value, np.generic):
        return [*_named(value, "dtype"), (_Name(""), value.tobytes())]
    if isinstance(value, np.dtype):
        parts = _named(value, "str", "names", "metadata", "fields", "subdtype", "itemsize")
        return [*parts, *_named(value, "alignment")]
    if isinstance(value, float | complex):
        # Bit by bit: -0.0 is not 0.0 here, and NaN equals itself.
        return np.asarray(complex(value) if isinstance(value, complex) else float(value)).tobytes()
    if isinstance(value, int):
        return int.__repr__(value).encode()
    if isinstance(value, str):
        return str.encode(value, "utf-8", "surrogatepass")
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    return _container_content(value)


def _container_content(value: Any) -> list[tuple[Any, Any]] | None:
    if isinstance(value, dict):
        return list(dict.items(value))
    if isinstance(value, types.MappingProxyType):
        return list(value.items())
    bases: tuple[Any, ...] = (list, tuple, set, frozenset)
    for base in bases:
        if isinstance(value, base):
            # A set in its own order: one built by the same steps from the same values repeats it.
            return list(enumerate(base.__iter__(value)))
    if isinstance(value, types.FunctionType):
        names = ("__code__", "__defaults__", "__kwdefaults__", "__closure__", "__name__", "__doc__")
        return _named(value, *names, "__annotations__")
    if isinstance(value, types.MethodType):
        return _named(value, "__func__", "__self__")
    if isinstance(value, types.CodeType):
        return _named(value, "co_code", "co_consts", "co_names", "co_varnames", "co_freevars")
    if isinstance(value, types.CellType):
        return _cell_content(value)
    if isinstance(value, weakref.ref):
        return [(_Name(""), value())]
    if isinstance(value, BaseException):
        # A traceback holds every local variable of fit; it is not comparable, so it differs.
        return _named(value, "args", "__cause__", "__context__", "__traceback__")
    return None


def _cell_content(cell: types.CellType) -> list[tuple[Any, Any]]:
    try:
        return _named(cell, "cell_contents")
    except ValueError:  # empty
        return []


def _array_content(value: Any) -> list[tuple[Any, Any]]:
    """Return type, layout and memory of an array, and of what the memory is borrowed from.

    Through a plain view: a masked array shows no value under its mask. The base is part of it
    because a view of one entry keeps, and pickles to, nothing else, yet holds the whole table.
    """
    plain = np.ndarray.view(value, np.ndarray)
    objects = value.dtype.hasobject
    return [
        *_named(value, "dtype", "shape"),
        _layout(value),
        (_Name(""), plain.tolist() if objects else plain.tobytes()),
        (_Name(".base"), _owner(value)),
    ]


def _layout(value: Any) -> tuple[Any, Any]:
    flags = value.flags
    return _Name(".flags"), (value.strides, flags.writeable, flags.owndata, flags.aligned)


def _owner(array: Any) -> Any:
    """Return what lends an array its memory, in a form that can be compared."""
    base = array.base
    if base is None or isinstance(base, np.ndarray | bytes | bytearray):
        return base
    if hasattr(base, "__array_interface__") and hasattr(base, "base"):
        return base.base  # numpy's stand-in for strided views; the rest of it is an address
    try:
        return memoryview(base).tobytes()
    except (TypeError, ValueError, BufferError):
        return base


def _state(value: Any) -> dict[str, Any] | None:
    """Return the attributes of an object, slots included, in the order in which they were set."""
    if isinstance(value, type | types.ModuleType):
        return None
    named = dict(getattr(value, "__dict__", {}))
    if _is_pandas(value):
        named = {name: kept for name, kept in named.items() if name not in _OF_PANDAS}
    for cls in type(value).__mro__:
        if not cls.__flags__ & _HEAP_TYPE:
            continue
        for name, member in vars(cls).items():
            if isinstance(member, types.MemberDescriptorType) and hasattr(value, member.__name__):
                named.setdefault(name, member.__get__(value))
    return named or None


def _is_pandas(value: Any) -> bool:
    return any(cls.__module__.partition(".")[0] == "pandas" for cls in type(value).__mro__)


def _pickled(value: Any) -> list[Any] | str | None:
    """Return what pickle would take of an object, or None where it would take nothing."""
    if isinstance(value, np.ndarray | np.generic | np.dtype | weakref.ref | BaseException):
        return None  # compared as their kind; subclasses by their attributes
    try:
        reduced = value.__reduce_ex__(4)
    except Exception:  # noqa: BLE001  # whatever a class refuses with
        return None
    if isinstance(reduced, str):
        return reduced
    head, items = list(reduced[:3]), reduced[3:5]
    return head + [None if each is None else list(each) for each in items]
