"""Audits that read the transcript: replay on other rows, distances between neighbours."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from skdp.audit._compare import difference
from skdp.audit._subject import Subject, fitted_clone, subject_of
from skdp.budget import exact
from skdp.core.transcript import Transcript, record, replay
from skdp.exceptions import PrivacyLeakError

# Distances in float norms carry rounding errors of a few units in the last place, relative to
# entries that cancel in their difference; integer distances are compared exactly.
_TOLERANCE = 1e-9

# What is called on public rows after a fit, where the estimator has it.
_OUTPUTS = ("predict", "transform", "predict_proba", "decision_function", "score_samples", "score")


def _n_rows(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


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
    """Check that every session that released something was paid for, by whom the fit names.

    An estimator without a budget has nobody who pays: then its stated price has to cover them all.
    """
    # What a private search fits is paid for by the search, which checks what its runs claim.
    used = [one for one in transcript.sessions if one.releases and not one.inner]
    if subject.budgets:
        own = list(subject.budgets.values())
        for session in used:
            if session.budget is None or not any(session.budget is budget for budget in own):
                raise AssertionError(
                    f"a session of {session.estimator!r} was opened on no budget of the estimator's"
                )
    costs = [entry[0] for entry in charged if isinstance(entry, tuple)]
    if subject.budgets and len(costs) < len(used):
        raise AssertionError("there are more sessions than charges")
    price = estimator.privacy_cost() if hasattr(estimator, "privacy_cost") else None
    for name in ("epsilon", "delta"):
        spent = sum((exact(getattr(session.cost, name)) for session in used), start=Fraction(0))
        paid = sum((exact(getattr(cost, name)) for cost in costs), start=Fraction(0))
        if subject.budgets and spent > paid:
            raise AssertionError(f"sessions may lose more {name} than the budget was charged")
        if price is not None and spent > exact(getattr(price, name)):
            raise AssertionError(f"sessions may lose more {name} than privacy_cost() says")


def _class_data(estimator: Any) -> dict[str, Any]:
    """Return what is stored on the classes of an estimator and of its steps, by name."""
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
    rows. Every session that the fit opens must be charged in full to the estimator's budget, and
    must be within `privacy_cost`. Arrays are compared with their layout and the memory that they
    are views of. Objects that cannot be inspected (a lock, an open file, a traceback) count as
    different.

    Parameters
    ----------
    estimator : estimator
        It is not changed, and its budget, if any, is not charged. A ``random_state`` of None is set
        to 0, so that the randomness of post-processing is repeated.
    X, X_other : array-like of shape (n_samples, n_features)
        Made-up rows, as different as the domain allows. They must have equal lengths under
        ``"replace_one"``, where the length is public, and different lengths under
        ``"add_or_remove_one"``.
    y, y_other : array-like, default=None
        Passed to `fit` if given. If they mark two samples (1 private, 0 public), X and X_other must
        have the same public rows in the same order, and under ``"replace_one"`` y_other must equal
        y.
    groups, groups_other : array-like, default=None
        Passed to `fit` if given (to every private step of a pipeline). X and X_other must then have
        different lengths.
    X_public : array-like of shape (n_rows, n_features), default=None
        Public rows for which outputs are compared; None: X_other.
    y_public : array-like of shape (n_rows,), default=None
        Passed to `score` if given. None: y_other together with X_other, otherwise nothing.

    Raises
    ------
    AssertionError
        If something differs, or if `fit` raises on X_other only. The message names what differs,
        without values.
    ValueError
        If the lengths do not fit the relation.
    Exception
        Whatever `fit` raises on X, because there is then no fitted estimator to compare.

    Notes
    -----
    A pass is not a proof. Two fits are compared, each the first fit of a fresh clone. An estimator
    passes if it leaks in one fit out of a thousand, for rows unlike both tables, or only when it is
    fitted again. Class attributes that `fit` sets are compared. Class attributes that it changes in
    place, and all other state outside the estimator (modules, files, closures of its methods), are
    seen only through outputs for public rows. Running time and memory use are not compared.

    **Privacy.** Nothing is released. The recording holds exact statistics of the rows in memory:
    use made-up rows.

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
    if public_n != (_n_rows(X) == _n_rows(X_other)):
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
    if set(names) != set(names_other):
        odd = sorted(set(names) ^ set(names_other))
        raise AssertionError(f"attribute {odd[0]} is set on some rows only")
    if names != names_other:
        raise AssertionError("the order in which attributes are set depends on rows")
    for name in names:
        _compare(getattr(first, name), getattr(second, name), name)
    if X_public is None:
        X_public, y_public = X_other, y_other if y_public is None else y_public
    answers = _outputs(first, X_public, y_public)
    answers_other = _outputs(second, X_public, y_public)
    for name in answers:
        _compare(answers[name], answers_other[name], f"{name}(X_public)")
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


def _releases(
    subject: Subject, X: Any, y: Any, groups: Any, source: Transcript | None
) -> Transcript:
    with record() if source is None else replay(source) as transcript:
        fitted_clone(subject, X, y, groups)
    return transcript


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
    while the session returns the recorded releases. So both fits see the same earlier releases, as
    adaptive composition assumes. Each pair of exact statistics must be within the declared
    sensitivity in its norm: exactly for integer norms, up to rounding for others.

    Parameters
    ----------
    estimator : estimator
        It is not changed, and its budget, if any, is not charged. A ``random_state`` of None is set
        to 0.
    X, X_neighbour : array-like of shape (n_samples, n_features)
        Made-up neighbouring tables: one row is replaced under ``"replace_one"``, and added or
        removed under ``"add_or_remove_one"``. It is not checked that they are neighbours.
    y, y_neighbour : array-like, default=None
        Passed to `fit` if given. If they mark two samples (1 private, 0 public), the tables must
        differ in one private row; an added or removed row takes its mark along.
    groups, groups_neighbour : array-like, default=None
        Passed to `fit` if given. The tables must then differ in all rows of one unit, with the rows
        of the other units in the same order. Both fits use the same rows of the other units.

    Returns
    -------
    distances : list of ReleaseDistance
        One for each release, in order. If distance = sensitivity for some pair, the sensitivity is
        not larger than needed.

    Raises
    ------
    AssertionError
        If a statistic moves further than declared. The message names the release, without values.

    Notes
    -----
    **Privacy.** Nothing is released under a guarantee: the distances are exact. Use made-up rows.

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
    transcript = _releases(subject, X, y, groups, None)
    try:
        other = _releases(subject, X_neighbour, y_neighbour, groups_neighbour, transcript)
    except PrivacyLeakError as error:
        raise AssertionError(f"the order of releases depends on rows: {error}") from None
    if len(other.entries) != len(transcript.entries):
        raise AssertionError("the number of releases depends on rows")
    found = []
    for position, (a, b) in enumerate(zip(transcript.entries, other.entries, strict=True)):
        what = f"release {position} ({a.name!r})"
        if a.sensitivity != b.sensitivity:
            raise AssertionError(f"{what}: the declared sensitivity depends on rows")
        if np.shape(a.exact) != np.shape(b.exact):
            raise AssertionError(f"{what}: the shape of the statistic depends on rows")
        distance = max(a.distance(a.exact, b.exact), b.distance(b.exact, a.exact))
        whole = float(distance).is_integer() and float(a.sensitivity).is_integer()
        slack = 0.0 if whole and distance < 2**53 else _TOLERANCE * a.sensitivity
        if not distance <= a.sensitivity + slack:
            raise AssertionError(
                f"{what}: the statistic moved further than its declared sensitivity "
                f"{a.sensitivity:g}"
            )
        found.append(ReleaseDistance(a.name, float(distance), float(a.sensitivity)))
    return found
