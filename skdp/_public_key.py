"""Keys of seeded noise: a digest of public parameters that stays the same from version to version.

Nothing is released here. A seeded fit (tests and teaching only) draws its noise from a stream
keyed by its seed, its rows and its public parameters. The key of parameters names a class by its
name, not by its module, and leaves out what has its default: a class that moves, or a new
parameter, changes no stream. Where two values are taken for one, no noise is shared all the same:
every release's stream is keyed by the value that it protects, too (`skdp.core.privacy_filter`).
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import pickle
from collections.abc import Mapping, Set
from functools import partial
from typing import Any

import joblib
import numpy as np
from sklearn.base import BaseEstimator

_LEFT_OUT = ("budget", "n_jobs", "random_state", "privacy_")
# Parameters that fitted estimators have got since streams were recorded, with their defaults.
_LATER = {"weight_bound": None}
_DEEPEST = 30
_PLAIN = (bool, int, float, complex, str, bytes, np.generic, type(None))


def changed_parameters(estimator: BaseEstimator) -> dict[str, Any]:
    """Return the parameters that differ from their defaults, but for budget, seed and jobs."""
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(type(estimator).__init__).parameters.items()
    }
    return {
        name: value
        for name, value in sorted(estimator.get_params(deep=False).items())
        if name not in _LEFT_OUT and not _same(value, defaults.get(name, inspect.Parameter.empty))
    }


def _same(value: Any, default: Any) -> bool:
    """Say whether a parameter has its default; types count, since 1 is not True."""
    return value is default or (
        type(value) is type(default)
        and isinstance(value, str | int | float | tuple)
        and _text(value) == _text(default)
    )


def _text(value: Any) -> str:
    """Return the representation of a plain value; of integers too long for one, in another base."""
    return f"{value:x}" if isinstance(value, int) and abs(value) > 10**1000 else repr(value)


def public_key(value: Any, *, fitted: bool = False) -> str:
    """Return a digest of a public value by its content.

    Parameters
    ----------
    value : object
        Plain values, arrays, tables, estimators, functions and containers of them.
    fitted : bool, default=False
        Of estimators, read everything they hold and not their parameters only.
    """
    digest = hashlib.blake2b(digest_size=20)
    _add(digest, value, fitted, 0)
    return digest.hexdigest()


def _add(digest: Any, value: Any, fitted: bool, depth: int) -> None:
    """Add one value to the digest; each kind begins with its name, so that none is another's."""

    def add(kind: str, *parts: Any) -> None:
        digest.update(f"{kind}:{len(parts)};".encode())
        for part in parts:
            _add(digest, part, fitted, depth + 1)

    def note(text: str) -> None:
        digest.update(f"{len(text)}:{text};".encode())

    name = type(value).__name__
    if depth > _DEEPEST or name == "PrivacyBudget":
        note(name)
    elif isinstance(value, _PLAIN):
        note(f"{name} {_text(value)}")
    elif isinstance(value, np.ndarray):
        plain = np.ascontiguousarray(value)
        note(f"array {plain.dtype} {plain.shape}")
        if plain.dtype.hasobject:
            add("objects", *plain.ravel().tolist())
        else:
            digest.update(plain.tobytes())
    elif isinstance(value, list | tuple):
        add(name, *value)
    elif isinstance(value, Set):
        add(name, *sorted(public_key(one, fitted=fitted) for one in value))
    elif isinstance(value, Mapping):
        add(name, *value.items())
    elif isinstance(value, partial):
        add(name, value.func, value.args, value.keywords)
    elif isinstance(value, type):
        note(f"class {value.__name__}")
    elif isinstance(value, BaseEstimator):
        add(name, sorted(_state(value).items()) if fitted else changed_parameters(value))
    elif type(value).__module__.partition(".")[0] == "skdp":
        add(name, sorted(_state(value).items()))
    elif inspect.isroutine(value) and value.__module__.partition(".")[0] in ("skdp", "numpy"):
        note(f"function {value.__qualname__}")
    else:
        note(_foreign(value))


def _state(value: Any) -> dict[str, Any]:
    """Return what an object holds, but for budget, seed and certificate."""
    if dataclasses.is_dataclass(value):
        state = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    else:
        state = dict(getattr(value, "__dict__", {}))
    return {
        name: held
        for name, held in state.items()
        if name not in _LEFT_OUT and not (name in _LATER and held is _LATER[name])
    }


def _foreign(value: Any) -> str:
    """Return a digest of somebody else's object: of its pickle, or of what it shows."""
    try:
        content: str = joblib.hash(value, hash_name="sha1")
    except (pickle.PicklingError, AttributeError, TypeError):  # a lambda among them
        content = repr(value)
    return content
