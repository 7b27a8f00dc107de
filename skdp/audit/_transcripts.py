"""Audits that read the transcript: replay on other rows, distances between neighbours.

**Comparison.** A value is compared in up to three ways, and each must agree: its content where it
is of a known kind (numbers, text, containers, arrays, functions), its attributes, and what pickle
would take of it. A value that none of them can look into counts as different. Messages name the
place, not the value.

**Any library** (`replay_mechanism`). The noise primitives of a library are wrapped while a
mechanism runs on one table; their arguments and results are recorded. On a neighbour they return
the recorded results. Whatever differs then passed no primitive: other calls, other parameters of
noise (a sensitivity read off the rows), another output. The exact value may differ by the stated
sensitivity. One pair of runs decides, without statistics.

References
----------
Cebere, Erb, Desfontaines, Bellet & Fitzsimons 2026, "Privacy in theory, bugs in practice: grey-box
auditing of differential privacy libraries", PETS (Re:cord-play).
"""

from __future__ import annotations

import functools
import inspect
import pkgutil
import random
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from numpy.typing import ArrayLike

from skdp._docstrings import shared_texts
from skdp.audit._statistical import Subject, fitted_clone, subject_of
from skdp.budget import exact
from skdp.core.transcript import Transcript, record, replay
from skdp.exceptions import PrivacyLeakError
from skdp.parameters import rows_in

# Distances in float norms carry rounding errors of a few units in the last place, relative to
# entries that cancel in their difference; integer distances are compared exactly.
_TOLERANCE = 1e-9

# Methods that are called on public rows after a fit, where the estimator has them.
_OUTPUTS = ("predict", "transform", "predict_proba", "decision_function", "score_samples", "score")


def _compare(a: Any, b: Any, path: str) -> None:
    where = difference(a, b, path, {})
    if where is not None:
        raise AssertionError(
            f"{where} differs although every release was the same: it depends on rows in a way "
            "that did not pass a session"
        )


def _outputs(estimator: Any, X: Any, y: Any) -> dict[str, Any]:
    """Return what a fitted estimator answers about public rows, errors by their type."""
    answers: dict[str, Any] = {}
    for name in _OUTPUTS:
        if hasattr(estimator, name):
            targets = () if y is None or name != "score" else (y,)
            try:
                answers[name] = getattr(estimator, name)(X, *targets)
            except (TypeError, ValueError, AttributeError, NotImplementedError) as error:
                answers[name] = type(error).__name__
    return answers


def _check_sessions(
    subject: Subject, estimator: Any, transcript: Transcript, charged: list[Any]
) -> None:
    """Check that every session that released something was paid for, by the estimator's budget.

    Without a budget, the price that the estimator states has to cover them all.
    """
    # Runs inside a private search are paid for by the search, which checks what its runs claim.
    used = [s for s in transcript.sessions if s.releases and not s.inner]
    costs = [entry[0] for entry in charged if isinstance(entry, tuple)]
    budget = subject.budget
    if budget is not None:
        for session in used:
            if session.budget is not budget:
                raise AssertionError(
                    f"a session of {session.estimator!r} was opened on no budget of the estimator's"
                )
        if len(costs) < len(used):
            raise AssertionError("there are more sessions than charges")
    price = estimator.privacy_cost() if hasattr(estimator, "privacy_cost") else None
    for name in ("epsilon", "delta"):
        spent = sum((exact(getattr(session.cost, name)) for session in used), start=Fraction(0))
        paid = sum((exact(getattr(cost, name)) for cost in costs), start=Fraction(0))
        if budget is not None and spent > paid:
            raise AssertionError(f"sessions may lose more {name} than the budget was charged")
        if price is not None and spent > exact(getattr(price, name)):
            raise AssertionError(f"sessions may lose more {name} than privacy_cost() says")


def _class_data(estimator: Any) -> dict[str, Any]:
    """Return the attributes of the classes of an estimator and of its steps, by name."""
    steps = [estimator]
    if hasattr(estimator, "get_params"):
        steps += [v for v in estimator.get_params(deep=True).values() if hasattr(v, "fit")]
    classes = dict.fromkeys(cls for step in steps for cls in type(step).__mro__)
    return {
        f"class attribute {cls.__qualname__}.{name}": value
        for cls in classes
        for name, value in vars(cls).items()
        if not name.startswith("__")
    }


def replay_check(
    estimator: Any,
    X: ArrayLike,
    X_other: ArrayLike,
    *,
    y: Any = None,
    y_other: Any = None,
    groups: Any = None,
    groups_other: Any = None,
    X_public: ArrayLike | None = None,
    y_public: Any = None,
) -> None:
    """Check that a fit learns about its rows only from releases.

    A clone is fitted on X, and every release is recorded. Another clone is fitted on X_other, while
    the kernel returns the recorded releases. Then everything that can be observed about the two
    must be equal to the last bit: all attributes (including private ones and the certificate),
    warnings, charges, and the outputs of `predict`, `transform` and similar methods for public
    rows. Every session must be charged in full to the estimator's budget, within `privacy_cost`.
    Arrays are compared with their layout and the memory that they are views of. Objects that cannot
    be inspected (a lock, an open file, a traceback) count as different.

    Parameters
    ----------
    estimator : estimator
        It is not changed, and its budget, if any, is not charged. A ``random_state`` of None is set
        to 0.
    X, X_other : array-like of shape (n_samples, n_features)
        Made-up rows, as different as the domain allows: of equal lengths under ``"replace_one"``,
        where the length is public, of different lengths under ``"add_or_remove_one"``.
    y, y_other : array-like, default=None
        Passed to `fit` if given. If they mark two samples (1 private, 0 public), X and X_other must
        have the same public rows in the same order, and under ``"replace_one"`` y_other must equal
        y.
    groups, groups_other : array-like, default=None
        Passed to `fit` (to every private step of a pipeline); the lengths must then differ.
    X_public : array-like of shape (n_rows, n_features), default=None
        Public rows for which outputs are compared; None: X_other.
    y_public : array-like of shape (n_rows,), default=None
        Passed to `score`. None: y_other if X_public is None, too.

    Raises
    ------
    AssertionError
        If something differs, or if `fit` raises on X_other only. The message names what differs,
        without values.
    ValueError
        If the lengths do not fit the relation.
    Exception
        Whatever `fit` raises on X.

    Notes
    -----
    A pass is not a proof: the first fits of two fresh clones are compared. An estimator passes if
    it leaks in one fit out of a thousand, for rows unlike both tables, or only when it is fitted
    again. Class attributes are compared if `fit` sets them. If it changes them in place, they and
    all other state outside the estimator (modules, files, closures of its methods) are seen only
    through outputs for public rows. Running time and memory use are not compared.

    **Privacy.** The recording has exact statistics of the rows: use made-up rows.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.audit import replay_check
    >>> from skdp.preprocessing import DPStandardScaler
    >>> rng = np.random.default_rng(0)
    >>> X, X_other = rng.normal(size=(50, 2)), rng.uniform(5, 9, size=(50, 2))
    >>> replay_check(DPStandardScaler(bounds=(-10, 10)), X, X_other)
    """
    subject = subject_of(estimator, seed=0)
    public_n = subject.adjacency == "replace_one" and groups is None
    if public_n != (rows_in(X) == rows_in(X_other)):
        raise ValueError(
            f"X_other must have {'as many' if public_n else 'more or fewer'} rows "
            f"{'as' if public_n else 'than'} X under {subject.adjacency!r}"
            f"{'' if groups is None else ' with groups'}"
        )
    with record() as transcript:
        first, warned, charged = fitted_clone(subject, X, y, groups)
    on_classes = _class_data(first)
    with replay(transcript) as second_transcript:
        try:
            second, warned_other, charged_other = fitted_clone(
                subject, X_other, y_other, groups_other
            )
        except PrivacyLeakError as error:
            raise AssertionError(f"the order of releases depends on rows: {error}") from None
        except Exception as error:  # noqa: BLE001  # any error that one table alone causes
            # Its text may quote a cell; its type says enough.
            raise AssertionError(
                f"fit raised {type(error).__name__} on the other rows only"
            ) from None
    if len(second_transcript.entries) != len(transcript.entries):
        raise AssertionError("the number of releases depends on rows")
    _compare(charged, charged_other, "the charge to the budget")
    _compare(warned, warned_other, "the list of warnings")
    names, names_other = list(vars(first)), list(vars(second))
    if odd := sorted(set(names) ^ set(names_other)):
        raise AssertionError(f"attribute {odd[0]} is set on some rows only")
    if names != names_other:
        raise AssertionError("the order in which attributes are set depends on rows")
    for name in names:
        _compare(getattr(first, name), getattr(second, name), name)
    if X_public is None:
        X_public, y_public = X_other, y_other if y_public is None else y_public
    answers = _outputs(first, X_public, y_public)
    answers_other = _outputs(second, X_public, y_public)
    for name, answer in answers.items():
        _compare(answer, answers_other[name], f"{name}(X_public)")
    for name, value in _class_data(second).items():
        _compare(on_classes.get(name), value, name)
    _check_sessions(subject, first, transcript, charged)


# --- neighbours -------------------------------------------------------------------------------


class ReleaseDistance(NamedTuple):
    """How far one exact statistic moved between two neighbouring tables.

    Attributes
    ----------
    name : str
        Name of the release.
    distance : float
        In the norm and the units of `sensitivity`.
    sensitivity : float
        The declared bound.
    """

    name: str
    distance: float
    sensitivity: float


def neighbour_check(
    estimator: Any,
    X: ArrayLike,
    X_neighbour: ArrayLike,
    *,
    y: Any = None,
    y_neighbour: Any = None,
    groups: Any = None,
    groups_neighbour: Any = None,
) -> list[ReleaseDistance]:
    """Check that no exact statistic moves by more than its declared sensitivity.

    A clone is fitted on X, and its releases are recorded. Another clone is fitted on X_neighbour,
    while the session returns the recorded releases: both see the same earlier releases, as adaptive
    composition assumes. Each pair of exact statistics must be within the declared sensitivity in
    its norm: exactly for integer norms, up to rounding for others.

    Parameters
    ----------
    estimator : estimator
        It is not changed, and its budget, if any, is not charged. A ``random_state`` of None is set
        to 0.
    X, X_neighbour : array-like of shape (n_samples, n_features)
        Made-up neighbouring tables (not checked): one row is replaced under ``"replace_one"``, and
        added or removed under ``"add_or_remove_one"``.
    y, y_neighbour : array-like, default=None
        Passed to `fit` if given. If they mark two samples (1 private, 0 public), the tables must
        differ in one private row; an added or removed row takes its mark along.
    groups, groups_neighbour : array-like, default=None
        Passed to `fit` if given. The tables must then differ in all rows of one unit, with the rows
        of the other units in the same order. Both fits use the same rows of the other units.

    Returns
    -------
    distances : list of ReleaseDistance
        One for each release, in order. A distance equal to its sensitivity shows that the
        sensitivity is not larger than needed.

    Raises
    ------
    AssertionError
        If a statistic moves further than declared. The message names the release, without values.

    Notes
    -----
    **Privacy.** The distances are exact: use made-up rows.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.audit import neighbour_check
    >>> from skdp.preprocessing import DPStandardScaler
    >>> X = np.zeros((5, 1))
    >>> X_neighbour = X.copy()
    >>> X[0], X_neighbour[0] = -1, 1
    >>> for name, distance, sensitivity in neighbour_check(
    ...     DPStandardScaler(bounds=(-1, 1)), X, X_neighbour
    ... ):
    ...     print(name, distance / sensitivity)
    moments 1.0
    """
    subject = subject_of(estimator, seed=0)
    with record() as transcript:
        fitted_clone(subject, X, y, groups)
    with replay(transcript) as other:
        try:
            fitted_clone(subject, X_neighbour, y_neighbour, groups_neighbour)
        except PrivacyLeakError as error:
            raise AssertionError(f"the order of releases depends on rows: {error}") from None
    if len(other.entries) != len(transcript.entries):
        raise AssertionError("the number of releases depends on rows")
    distances = []
    for position, (a, b) in enumerate(zip(transcript.entries, other.entries, strict=True)):
        what = f"release {position} ({a.name!r})"
        if a.sensitivity != b.sensitivity:
            raise AssertionError(f"{what}: the declared sensitivity depends on rows")
        if np.shape(a.exact) != np.shape(b.exact):
            raise AssertionError(f"{what}: the shape of the statistic depends on rows")
        distance = max(a.distance(a.exact, b.exact), b.distance(b.exact, a.exact))
        exact_norm = float(distance).is_integer() and float(a.sensitivity).is_integer()
        slack = 0.0 if exact_norm and distance < 2**53 else _TOLERANCE * a.sensitivity
        if not distance <= a.sensitivity + slack:
            raise AssertionError(
                f"{what}: the statistic moved further than its declared sensitivity "
                f"{a.sensitivity:g}"
            )
        distances.append(ReleaseDistance(a.name, float(distance), float(a.sensitivity)))
    return distances


# --- comparison to the last bit -------------------------------------------------------------------

# Pairs under comparison, by id, for objects that contain themselves. They are kept alive: a new
# object with the id of an old one would pass unseen.
Seen = dict[tuple[int, int], tuple[Any, Any]]

_HEAP_TYPE = 1 << 9  # of type.__flags__: not a static class of C
_EXACT = (bool, bytes, complex, dict, float, frozenset, int, list, set, str, tuple)

# Attributes that pandas keeps for itself; the content of a table is compared by its pickle.
_OF_PANDAS = {
    *("_accessors", "_attrs", "_cache", "_cacher", "_data", "_engine", "_flags", "_hidden_attrs"),
    *("_id", "_is_copy", "_item_cache", "_mgr", "_name", "_no_setting_name", "_range"),
    "_references",
}

# Attributes that make up the content of a value. The traceback of an error holds every local
# variable of fit; it is not comparable, so it differs.
_PARTS: dict[type, tuple[str, ...]] = {
    np.dtype: ("str", "names", "metadata", "fields", "subdtype", "itemsize", "alignment"),
    types.FunctionType: (
        *("__code__", "__defaults__", "__kwdefaults__", "__closure__", "__name__", "__doc__"),
        "__annotations__",
    ),
    types.MethodType: ("__func__", "__self__"),
    types.CodeType: ("co_code", "co_consts", "co_names", "co_varnames", "co_freevars"),
    BaseException: ("args", "__cause__", "__context__", "__traceback__"),
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
        where = _content_difference(kind, _content(b), path, seen)
        if where is not None or type(a) in _EXACT:
            return where
    state_a, state_b = _state(a), _state(b)
    where = difference(state_a, state_b, path, seen)
    if where is not None:
        return where
    pickled_a, pickled_b = _pickled(a), _pickled(b)
    if pickled_a is not None or pickled_b is not None:
        # Beside the content of a known kind, a pickle has the factory of a defaultdict, or a field
        # that a class of C hides.
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
        step = str(key_a) if isinstance(key_a, _Name) else f"[{key_a!r}]"
        where = difference(x, y, f"{path}{step}", seen)
        if where is not None:
            return where
    return None


class _Name(str):
    """A part of a value that is not one of its items, in a path."""

    __slots__ = ()


def _named(value: Any, *names: str) -> list[tuple[Any, Any]]:
    return [(_Name(f".{name}"), getattr(value, name)) for name in names]


def _content(value: Any) -> bytes | list[tuple[Any, Any]] | None:
    """Return the content of a value of a known kind, bypassing its subclass; or None."""
    if isinstance(value, np.ndarray):
        return _array_content(value)
    if isinstance(value, np.void):
        # A row of a structured array keeps the whole array alive as its base.
        return [*_named(value, "dtype", "base"), (_Name(""), value.tolist()), _layout(value)]
    if isinstance(value, np.generic):
        return [*_named(value, "dtype"), (_Name(""), value.tobytes())]
    if isinstance(value, float | complex):
        # Bit by bit: -0.0 is not 0.0 here, and NaN equals itself.
        return np.asarray(complex(value) if isinstance(value, complex) else float(value)).tobytes()
    if isinstance(value, int):
        return int.__repr__(value).encode()
    if isinstance(value, str):
        return str.encode(value, "utf-8", "surrogatepass")
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    if isinstance(value, dict):
        return list(dict.items(value))
    if isinstance(value, types.MappingProxyType):
        return list(value.items())
    bases: tuple[Any, ...] = (list, tuple, set, frozenset)
    for base in bases:
        if isinstance(value, base):
            # A set in its own order: one built by the same steps from the same values repeats it.
            return list(enumerate(base.__iter__(value)))
    for kind, names in _PARTS.items():
        if isinstance(value, kind):
            return _named(value, *names)
    if isinstance(value, types.CellType):
        try:
            return _named(value, "cell_contents")
        except ValueError:  # empty
            return []
    if isinstance(value, weakref.ref):
        return [(_Name(""), value())]
    return None


def _array_content(value: Any) -> list[tuple[Any, Any]]:
    """Return type, layout and memory of an array, and of its base.

    Through a plain view: a masked array shows no value under its mask. A view of one entry keeps,
    and pickles to, nothing else, yet its base is the whole table.
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
    """Return the owner of an array's memory, in a form that can be compared."""
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
    if any(cls.__module__.partition(".")[0] == "pandas" for cls in type(value).__mro__):
        named = {name: item for name, item in named.items() if name not in _OF_PANDAS}
    for cls in type(value).__mro__:
        if not cls.__flags__ & _HEAP_TYPE:
            continue
        for name, member in vars(cls).items():
            if isinstance(member, types.MemberDescriptorType) and hasattr(value, member.__name__):
                named.setdefault(name, member.__get__(value))
    return named or None


def _pickled(value: Any) -> list[Any] | str | None:
    """Return the parts of an object's pickle, or None if it has none."""
    if isinstance(value, np.ndarray | np.generic | np.dtype | weakref.ref | BaseException):
        return None  # compared as their kind; subclasses by their attributes
    try:
        reduced = value.__reduce_ex__(4)
    except Exception:  # noqa: BLE001  # whatever a class refuses with
        return None
    if isinstance(reduced, str):
        return reduced
    head, items = list(reduced[:3]), reduced[3:5]
    return head + [None if item is None else list(item) for item in items]


# --- primitives of any library --------------------------------------------------------------------


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
        ``parameters(arguments) -> object`` that must be equal on both tables. None: all other
        arguments, and the attributes of `self`.
    """

    name: str
    value: str
    sensitivity: Callable[[dict[str, Any]], float] | None = None
    distance: Callable[[Any, Any], float] | None = None
    parameters: Callable[[dict[str, Any]], Any] | None = None


@dataclass(frozen=True)
class Replay:
    """The behaviour of a mechanism on a neighbouring table, with the noise of the first table.

    Attributes
    ----------
    problems : tuple of str
        Whatever depends on rows without having passed through a primitive; without values.
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
        """Whether there is no problem."""
        return not self.problems


@dataclass
class _Call:
    name: str
    value: Any
    parameters: Any
    allowed: float
    released: Any


def _distance(a: Any, b: Any) -> float:
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    return float(np.abs(x - y).sum()) if x.shape == y.shape else float("inf")


class _Transcript:
    """Calls of primitives in one run; they return the results of the `source` run, if any."""

    def __init__(self, source: list[_Call] | None = None) -> None:
        self.calls: list[_Call] = []
        self.source = source or []
        self.inside = False

    def called(self, primitive: Primitive, function: Any, args: Any, named: Any) -> Any:
        if self.inside:  # a primitive that is made of another one is one release
            return function(*args, **named)
        bound = inspect.signature(function).bind(*args, **named)
        bound.apply_defaults()
        arguments = dict(bound.arguments)
        allowed = primitive.sensitivity(arguments) if primitive.sensitivity else float("nan")
        if primitive.parameters:
            parameters = primitive.parameters(arguments)
        else:
            parameters = [
                dict(vars(v)) if k == "self" and hasattr(v, "__dict__") else v
                for k, v in arguments.items()
                if k != primitive.value
            ]
        call = _Call(primitive.name, arguments[primitive.value], parameters, float(allowed), None)
        at = len(self.calls)
        self.calls.append(call)
        if at < len(self.source) and self.source[at].name == call.name:
            call.released = self.source[at].released
            return call.released
        self.inside = True
        try:
            call.released = function(*args, **named)
        finally:
            self.inside = False
        return call.released


@contextmanager
def _wrapped(primitives: Sequence[Primitive], transcript: _Transcript) -> Iterator[None]:
    with ExitStack() as stack:
        for primitive in primitives:
            head, _, last = primitive.name.rpartition(".")
            holder = pkgutil.resolve_name(head)
            original = inspect.getattr_static(holder, last)  # as stored, not as bound

            @functools.wraps(original)
            def wrapper(
                *args: Any, _of: Primitive = primitive, _original: Any = original, **named: Any
            ) -> Any:
                return transcript.called(_of, _original, args, named)

            stack.enter_context(mock.patch.object(holder, last, wrapper))
        yield


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


@shared_texts
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

    Notes
    -----
    **Privacy.** Exact statistics are kept while it runs: use made-up rows. Noise that is drawn
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
    first = _Transcript()
    with _wrapped(primitives, first):
        output = _run(mechanism, table, random_state)
    second = _Transcript(first.calls)
    with _wrapped(primitives, second):
        other = _run(mechanism, neighbour, random_state)
    problems, ratios = [], []
    if not first.calls:
        problems.append("no primitive was called: nothing was tested")
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
        if np.isnan(a.allowed):  # not checked
            ratios.append(a.allowed)
            continue
        ratios.append(moved / a.allowed if a.allowed else float("inf" if moved else 0.0))
        if not moved <= a.allowed * (1 + 1e-9):  # also if the distance is NaN
            problems.append(f"{what}: the value moved further than its sensitivity")
    if difference(output, other, "output", {}) is not None:
        problems.append("the output depends on rows although every release was the same")
    return Replay(tuple(problems), len(first.calls), tuple(ratios))
