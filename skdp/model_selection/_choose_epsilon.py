"""The epsilon that buys an error: `choose_epsilon`, the inverse of ``expected_error``."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone

from skdp import statistics
from skdp.loss.conversions import check_positive
from skdp.parameters import check_integer, naming

_TOLERANCE = 1.005  # how close the search comes, as a ratio; then digits are cut


def _answers(estimator: Any, n_samples: int, options: dict[str, Any]) -> Callable[[float], Any]:
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
    **options
        Arguments of ``expected_error``: ``n_features``, ``like``, and for a function of
        `skdp.statistics` its parameters.

    Returns
    -------
    epsilon : float
        With three digits, rounded up; `low` if that is enough. Precise to about 5% if the error is
        estimated by rehearsed fits.

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
    answer = _answers(estimator, n_samples, options)

    def met(errors: Any) -> bool:
        return bool(np.all(np.asarray(errors, dtype=np.float64) <= limit))  # NaN is not

    def enough(epsilon: float) -> bool:
        try:
            return met(answer(epsilon))
        except ValueError:  # too much noise, because there was an answer at `high`
            return False

    least = answer(high)  # refuses wrong arguments first
    if not met(least):
        raise ValueError(
            f"At epsilon={high:g} the expected error is {np.asarray(least)}, more than "
            f"error={error}: have more rows, ask for coarser results, or allow a larger error."
        )
    if enough(low):
        return low
    below, above = low, high
    while above > _TOLERANCE * below:
        middle = math.sqrt(below * above)
        below, above = (below, middle) if enough(middle) else (middle, above)
    epsilon = _cut(above)
    while not enough(epsilon):  # rehearsed errors do not fall evenly
        epsilon = _cut(epsilon * _TOLERANCE)
        if epsilon >= high:
            return high
    return min(epsilon, high)
