"""The epsilon that buys an error: `choose_epsilon`, the inverse of ``expected_error``."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone

from skdp import statistics
from skdp.base.expected_error import Search, within
from skdp.loss.conversions import check_positive
from skdp.parameters import check_integer, naming

_TOLERANCE = 1.005  # how close the search comes, as a ratio; then digits are cut
# Errors of rehearsed fits: a few rehearsals show where the search is, until the error is within a
# factor of _NEAR of the limit. Then all are made, at _MORE of that epsilon, until an error is met
# and above _ENOUGH of the limit. Either ends where epsilon is within a factor of _CLOSE.
_NEAR, _MORE, _ENOUGH, _CLOSE = 1.25, 1.08, 0.75, 1.15
_ROUGH, _FULL = 10, 8  # answers at most
_MOST = _ROUGH + _FULL + 2


def answers(estimator: Any, n_samples: int, options: dict[str, Any]) -> Callable[[float], Any]:
    """Return a function from epsilon to the expected error."""
    if isinstance(estimator, str):
        return lambda epsilon: statistics.expected_error(
            estimator, n_samples, epsilon=epsilon, **options
        )
    if not hasattr(estimator, "expected_error") or "epsilon" not in estimator.get_params():
        raise TypeError(
            f"{type(estimator).__name__} cannot say how large its error will be: choose_epsilon "
            "takes an estimator with a parameter epsilon and a method expected_error (of a "
            "pipeline, one of its steps), or the name of a function of skdp.statistics."
        )
    taken = list(inspect.signature(estimator.expected_error).parameters)[1:]
    if other := sorted(set(options) - set(taken)):
        raise TypeError(
            f"{type(estimator).__name__}.expected_error does not take {', '.join(other)}; it takes "
            f"n_samples and {', '.join(taken)}."
        )

    def answer(epsilon: float) -> Any:
        return clone(estimator).set_params(epsilon=epsilon).expected_error(n_samples, **options)

    return answer


def _cut(epsilon: float) -> float:
    """Round up to three digits."""
    unit = 10.0 ** (math.floor(math.log10(epsilon)) - 2)
    return float(f"{math.ceil(epsilon / unit - 1e-9) * unit:.3g}")


def choose_epsilon(
    estimator: Any,
    *,
    error: Any,
    n_samples: int,
    low: float = 1e-3,
    high: float = 100.0,
    progress: Callable[[int, int, str], Any] | None = None,
    **options: Any,
) -> float:
    """Return the smallest epsilon whose expected error is no larger than `error`.

    Parameters
    ----------
    estimator : estimator or str
        An estimator with ``expected_error``: its `epsilon` is not used, its other parameters are.
        Or the name of a function of `skdp.statistics`, such as ``"mean"``.
    error : float or array-like
        The largest acceptable error, in the unit of ``expected_error``: one number for all its
        results, or one for each.
    n_samples : int
        Number of rows, as far as it is public.
    low, high : float, default=1e-3, 100.0
        The range in which epsilon is searched.
    progress : callable or None, default=None
        Called as ``progress(done, most, what)`` after each answer of ``expected_error``, at most
        `most` times; for searches that rehearse fits, which may take seconds to minutes.
    **options
        Arguments of ``expected_error``: ``n_features``, ``like``, and for a function of
        `skdp.statistics` its parameters.

    Returns
    -------
    epsilon : float
        With three digits, rounded up; `low` if that is enough. Its own ``expected_error`` is never
        above `error`. If fits are rehearsed, epsilon may be half as large again as needed: the
        error there was 0.63 to 1 of `error` in the searches that were tried, and less where it
        jumps (k-means finds its clusters from some epsilon on).

    Raises
    ------
    TypeError
        If the estimator has no ``expected_error``, or if that does not take these options.
    ValueError
        If `high` is not enough, if an error is not above 0, or if ``expected_error`` has no answer
        without more arguments.

    Notes
    -----
    **Privacy.** *Released*, *sensitivity*, *mechanism*, *charged*: nothing, because no private row
    is read. The rows of ``like`` and their number must be public. Choose `error` by the purpose of
    the result, not by looking at results on the private rows.

    The error is relative to the clipped rows, unless the Notes of the estimator say otherwise, so
    bounds that are too narrow make it small.

    Examples
    --------
    >>> from skdp import DPStandardScaler, choose_epsilon
    >>> scaler = DPStandardScaler(bounds=(0, 100))
    >>> epsilon = choose_epsilon(scaler, error=0.02, n_samples=5_000, n_features=3)
    >>> bool(scaler.set_params(epsilon=epsilon).expected_error(5_000, 3) <= 0.02)
    True
    >>> choose_epsilon("count", error=5.0, n_samples=1_000, n_rows="private")  # rows
    0.283
    """
    with naming("error"):
        limit = np.asarray(error, dtype=np.float64)
    if not (limit > 0).all() or limit.size == 0:
        raise ValueError("error must be a number above 0, or an array of such.")
    low, high = check_positive(low, "low"), check_positive(high, "high")
    if low > high:
        raise ValueError(f"low must be at most high; got low={low!r}, high={high!r}.")
    n_samples = check_integer(n_samples, "n_samples", low=1, high=2**53)
    width = options.get("n_features")
    if width is not None:
        check_integer(width, "n_features", low=1, high=2**20)
    if not (progress is None or callable(progress)):
        raise TypeError(f"progress must be a function or None, got {type(progress).__name__}")
    answer, numbers = answers(estimator, n_samples, options), itertools.count(1)
    search = Search()
    known: dict[tuple[float, bool], float] = {}

    def ratio(epsilon: float, *, may_be_refused: bool = True) -> float:
        """Return the expected error over the limit: the largest of several; inf if refused."""
        if (asked := (epsilon, search.rough)) in known:
            return known[asked]
        errors = np.asarray(math.nan)
        try:
            with within(search):
                errors = np.asarray(answer(epsilon), dtype=np.float64)
        except ValueError:
            if not may_be_refused:
                raise
        if progress is not None:
            progress(next(numbers), _MOST, f"error at epsilon={epsilon:.3g}")
        worst = float(np.max(errors / limit))
        if math.isnan(worst):
            worst = math.inf
        elif np.all(errors <= limit):
            worst = min(worst, 1.0)
        else:
            worst = max(worst, math.nextafter(1, 2))
        known[asked] = worst
        return worst

    # Many rows and a large epsilon are the most expensive, so 1 is asked first; a refusal there may
    # be due to noise alone.
    start = min(max(1.0, low), high)
    if math.isinf(ratio(start)):
        ratio(high, may_be_refused=False)
    if search.was_rough:
        bracket = _approach(ratio, low, high, start)
        search.rough = False
        if (found := _settle(ratio, low, high, *bracket)) is not None:
            return found
    if (at_high := ratio(high, may_be_refused=False)) > 1:
        raise ValueError(
            f"At epsilon={high:g} the expected error is {at_high:.3g} times error={error}: have "
            "more rows, ask for coarser results, or allow a larger error."
        )
    return high if search.was_rough else _bisected(ratio, low, high)


def _bisected(ratio: Callable[[float], float], low: float, high: float) -> float:
    """Return where the ratio is 1, of errors that are computed without rehearsals."""
    if ratio(low) <= 1:
        return low
    below, above = low, high
    while above > _TOLERANCE * below:
        middle = math.sqrt(below * above)
        below, above = (below, middle) if ratio(middle) <= 1 else (middle, above)
    epsilon = _cut(above)
    while ratio(epsilon) > 1:
        epsilon = _cut(epsilon * _TOLERANCE)
        if epsilon >= high:
            return high
    return min(epsilon, high)


def _approach(
    ratio: Callable[[float], float], low: float, high: float, epsilon: float
) -> tuple[float, float, float]:
    """Return about where the ratio is 1, the power with which it falls, and an epsilon below."""
    below, above, power = low, high, 1.0
    before = epsilon, math.inf
    for _ in range(_ROUGH):
        now = ratio(epsilon)
        below, above = (epsilon, above) if now > 1 else (below, epsilon)
        if all(0 < one < math.inf for one in (now, before[1])):
            slope = math.log(before[1] / now) / math.log(epsilon / before[0])
            power = min(max(slope, 0.3), 3.0)
        before = epsilon, now
        epsilon = min(max(_moved(epsilon, now, power), low), high)
        if 1 / _NEAR < now < _NEAR or epsilon == before[0]:
            break
        if above <= _CLOSE * below:
            epsilon = above
            break
        if not (below < epsilon < above or epsilon == low == below or epsilon == high == above):
            epsilon = math.sqrt(below * above)
    return epsilon, power, below


def _settle(
    ratio: Callable[[float], float],
    low: float,
    high: float,
    epsilon: float,
    power: float,
    unmet: float,
) -> float | None:
    """Return the smallest epsilon tried whose ratio is at most 1; None if none is."""
    met, epsilon = math.inf, _MORE * epsilon
    for _ in range(_FULL):
        epsilon = min(max(_cut(epsilon), low), high)
        if epsilon >= met:
            break
        now = ratio(epsilon)
        unmet, met = (max(unmet, epsilon), met) if now > 1 else (unmet, epsilon)
        if epsilon in (low, high) and (now <= 1) == (epsilon == low):
            break
        if _ENOUGH < now <= 1 or met <= _CLOSE * unmet:
            break
        epsilon = _MORE * min(_moved(epsilon, now, power), 2.0 * epsilon)
        if not unmet < epsilon < met:  # halves, where the error jumps
            epsilon = math.sqrt(unmet * min(met, high))
    return met if met < math.inf else None


def _moved(epsilon: float, ratio: float, power: float) -> float:
    """Return where the ratio is 1, if it falls with this power of epsilon."""
    if 0 < ratio < math.inf:
        return epsilon * ratio ** (1 / power)
    return epsilon * (10.0 if ratio else 0.1)
