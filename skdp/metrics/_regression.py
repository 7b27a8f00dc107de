"""R², mean squared and mean absolute error of predictions on held-out private rows.

Released are sums and sums of squares of errors and targets, and the number of rows, in one vector.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skdp._docstrings import documenter, parameters_of
from skdp.base import check_bounds
from skdp.base.context import public_key
from skdp.budget import PrivacyBudget
from skdp.confidence import Released, released_metric
from skdp.confidence.equations import Equation, Floats, Noise, Pair
from skdp.core import PrivacyCertificate
from skdp.metrics._classification import TEXTS, context_of
from skdp.parameters import BoundsWithRisk, Reals, shown
from skdp.planning import bounds_in, learned_before
from skdp.queries import LearnedBox, moments
from skdp.tabular import check_errors

_LARGEST_BOUND, _SMALLEST_BOUND = 1e100, 1e-100
_UNKNOWN = (
    "bounds could not be learned well enough, so that intervals allow anything: state max_error "
    "(and target_bounds)"
)
_STATED = "of errors clipped to max_error = {0:g}"

documented = documenter(
    {
        **TEXTS,
        "numbers": """
            y_true : array-like of shape (n_samples,)
                Private numbers of held-out rows.
            """,
        "target_bounds": """
            target_bounds : "private" or tuple (low, high), default="private"
                Range of `y_true`, from public knowledge; numbers beyond it count as the nearest
                bound. ``"private"`` learns it.
            max_error : "private" or float, default="private"
                The bound to which absolute errors are clipped, from public knowledge. ``"private"``
                learns it. If either this or `target_bounds` is not stated, both are learned, for 14
                to 80% of the allowance.
            """,
        "max_error": """
            max_error : "private" or float, default="private"
                The bound to which absolute errors are clipped, from public knowledge. ``"private"``
                learns it, for 14 to 80% of the allowance.
            """,
        "errors_and_targets": """
            Parameters
            ----------
            {numbers}
            {y_pred}
            {target_bounds}
            {privacy}
            """,
        "errors": """
            Parameters
            ----------
            {numbers}
            {y_pred}
            {max_error}
            {privacy}
            """,
        "line": """
            >>> import numpy as np
            >>> from skdp import metrics
            >>> x = np.linspace(-1, 1, 5000)
            >>> y = x + np.sin(x * 1e4) / 4
            """,
    }
)


@dataclass(frozen=True)
class _Sums:
    """Noisy sums over the rows.

    `noise` is that on first sums; `square_std` and `n_std` are the standard deviations of that on
    sums of squares and on the number of rows (0 if it is public).

    Errors are u + 1 in [0, 2], in units of half of `most`, their bound. Targets are v in [-1, 1],
    in units of `target_half`, half the width of their bounds. The sums are those of u, u**2 - 1/2,
    v and v**2 - 1/2 (NaN without targets). `clipped`: the errors due to learned bounds of the means
    of u + 1 and (u + 1)**2, and of the variance of v.
    """

    first: float
    second: float
    n: float
    most: float
    noise: Noise
    square_std: float
    n_std: float
    clipped: tuple[float, float, float]
    learned: bool
    target_first: float = math.nan
    target_second: float = math.nan
    target_half: float = math.nan

    @property
    def square(self) -> float:
        """The sum of (u + 1)**2."""
        return self.second + 2.0 * self.first + 1.5 * self.n

    @property
    def _variances(self) -> Floats:
        """Those of the noise on a first sum, a sum of squares and the number of rows."""
        return np.square([self.noise.std, self.square_std, self.n_std])

    def absolute(self) -> Equation:
        """Return the equation of the mean of u + 1."""
        (first, _, count), n = self._variances, self.n
        moved = (n * self.clipped[0]) ** 2
        return Equation(self.first + n, n, first + count + moved, count, count)

    def squared(self) -> Equation:
        """Return the equation of the mean of (u + 1)**2."""
        variances, n = self._variances, self.n
        alpha = variances @ [4.0, 1.0, 2.25] + (n * self.clipped[1]) ** 2
        return Equation(self.square, n, alpha, 1.5 * variances[2], variances[2])

    def unexplained(self) -> Equation:
        """Return the equation of 1 - R²: n sum of squared errors, over n**2 times the variance.

        Both are of degree two in the sums, with gradient g and Hessian H. Noise of the diagonal
        covariance V adds the bias tr(V H) / 2, which is subtracted, and the variance g V g +
        tr(V H V H) / 2 if it is Gaussian; twice the second term is allowed for.
        """
        variances, n = self._variances, self.n
        first, second, count = variances
        scale = (self.most / 2 / self.target_half) ** 2
        spread = n * self.target_second + n * n / 2 - self.target_first**2
        # By u, u**2, n; and by v, v**2, n.
        up = np.array([2 * n, n, self.square + 1.5 * n]) * scale
        down = np.array([-2 * self.target_first, n, self.target_second + n])
        moved = (scale * n * n * self.clipped[1]) ** 2, (n * n * self.clipped[2]) ** 2
        return Equation(
            scale * (n * self.square - 1.5 * count),
            spread + first - 0.5 * count,
            variances @ up**2 + scale**2 * count * (8 * first + 2 * second + 9 * count) + moved[0],
            count * up[2] * down[2] + 3 * scale * count**2,
            variances @ down**2 + 4 * first**2 + count * (2 * second + count) + moved[1],
        )


def _absolute_limits(sums: _Sums, level: float, sampled: bool) -> Pair:
    equation = sums.absolute()
    width, end = sums.noise.width(level), math.inf if sums.learned else 2.0
    if sampled:
        n, root = sums.n, float(np.clip(equation.root, 0.0, 2.0))
        most = min(float(sums.squared().interval(sums.noise.width(0.99), 0.0, 4.0)[1]), 4.0)
        # The variance of a mean in [0, 2] is at most this, or what the mean square leaves.
        if root * (2 - root) <= most - root**2:
            equation = equation.more(0.0, -n, -n)
        else:
            equation = equation.more(n * most, 0.0, -n)
    low, high = equation.interval(width, 0.0, end)
    return low * sums.most / 2, high * sums.most / 2


def _squared_limits(sums: _Sums, level: float, sampled: bool) -> Pair:
    equation = sums.squared()
    if sampled:  # the variance of squares in [0, 4]
        equation = equation.more(0.0, -2 * sums.n, -sums.n)
    end = math.inf if sums.learned else 4.0
    low, high = equation.interval(sums.noise.width(level), 0.0, end)
    return low * sums.most**2 / 4, high * sums.most**2 / 4


def _root_limits(sums: _Sums, level: float, sampled: bool) -> Pair:
    low, high = _squared_limits(sums, level, sampled)
    return np.sqrt(low), np.sqrt(high)


def _r2_limits(sums: _Sums, level: float, sampled: bool) -> Pair:
    equation = sums.unexplained()
    if sampled:
        # A row adds k (e**2 - E) - theta ((v - m)**2 - V): by (a - b)**2 <= 2 a**2 + 2 b**2, and
        # the variances of squares within their bounds.
        n, scale = sums.n, (sums.most / 2 / sums.target_half) ** 2
        mean = float(np.clip(sums.square / n, 0.0, 4.0))
        middle = float(np.clip(sums.target_first / n, -1.0, 1.0))
        variance = float(np.clip(sums.target_second / n + 0.5 - middle**2, 0.0, 1.0))
        of_errors = scale**2 * mean * (4 - mean)
        of_targets = variance * ((1 + abs(middle)) ** 2 - variance)
        equation = equation.more(2 * n**3 * of_errors, 0.0, 2 * n**3 * of_targets)
    low, high = equation.interval(sums.noise.width(level), 0.0, math.inf)
    return 1.0 - high, 1.0 - low


@dataclass(frozen=True, eq=False, repr=False)
class RegressionErrors:
    """Noisy sums of errors and targets, and metrics computed from them at no further cost.

    Attributes
    ----------
    max_error : float
        The bound to which absolute errors were clipped, stated or learned.
    target_bounds : tuple of float or None
        The bounds to which targets were clipped; None without targets.
    privacy : skdp.core.PrivacyCertificate
    sums : object
        The released sums.
    """

    max_error: float
    target_bounds: tuple[float, float] | None
    privacy: PrivacyCertificate
    sums: Any

    def __repr__(self) -> str:
        errors = {"mae": self.mae(), "rmse": self.rmse()}
        if self.target_bounds is not None:
            errors["r2"] = self.r2()
        text = ", ".join(f"{name}: {float(error):.4g}" for name, error in errors.items())
        return f"RegressionErrors({text}, max_error={self.max_error:.4g})"

    def _metric(self, value: float, limits: Any) -> Released:
        if not self.sums.learned:
            note = _STATED.format(self.max_error)
        else:
            note = "" if np.isfinite(self.sums.clipped).all() else _UNKNOWN
        return released_metric(value, partial(limits, self.sums), self.privacy, note)

    def mae(self) -> Released:
        """Return the mean absolute error.

        Returns
        -------
        error : Released
            In the units of the targets.
        """
        root = float(np.clip(self.sums.absolute().root, 0.0, 2.0))
        return self._metric(root * self.max_error / 2, _absolute_limits)

    def mse(self) -> Released:
        """Return the mean squared error.

        Returns
        -------
        error : Released
            In squared units of the targets.
        """
        return self._metric(self._mean_square(), _squared_limits)

    def rmse(self) -> Released:
        """Return the root mean squared error.

        Returns
        -------
        error : Released
            In the units of the targets.
        """
        return self._metric(math.sqrt(self._mean_square()), _root_limits)

    def _mean_square(self) -> float:
        return float(np.clip(self.sums.squared().root, 0.0, 4.0)) * self.max_error**2 / 4

    def r2(self) -> Released:
        """Return the coefficient of determination R².

        Returns
        -------
        r2 : Released
            At most 1. If noise hides the variance of the targets, it is NaN, and its interval
            starts at minus infinity.

        Raises
        ------
        ValueError
            If no targets were released with the errors.
        """
        if self.target_bounds is None:
            raise ValueError("r2 needs the sums of the targets: see regression_errors")
        root = self.sums.unexplained().root
        return self._metric(1.0 - float(np.maximum(root, 0.0)), _r2_limits)


def _check_most(max_error: Any) -> float | None:
    """Return the stated bound of absolute errors, or None for ``"private"``."""
    if isinstance(max_error, str) and max_error == "private":
        return None
    allowed = Reals(0.0, _LARGEST_BOUND, "(]")
    if not (allowed.is_kind(max_error) and allowed.has(max_error)):
        raise ValueError(
            "max_error must be 'private' or a positive number from public knowledge: what absolute "
            f"errors are clipped to; got {shown(max_error)}"
        )
    return float(max_error)


def _check_targets(bounds: Any) -> tuple[float, float] | None:
    """Return the stated bounds of targets, or None for ``"private"``."""
    try:
        stated = check_bounds(bounds, 1)
    except (TypeError, ValueError) as error:
        text = str(error)
        raise type(error)(f"target_{text}" if text.startswith("bounds") else text) from None
    if stated is None:
        return None
    low, high = (float(side[0]) for side in stated)
    if not high / 2 - low / 2 >= _SMALLEST_BOUND or max(abs(low), abs(high)) > _LARGEST_BOUND:
        raise ValueError(
            f"target_bounds must be two numbers within {_LARGEST_BOUND:g} of 0, low < high by at "
            f"least {2 * _SMALLEST_BOUND:g}"
        )
    learned = getattr(stated, "learned", None)  # of `BoundsWithRisk`
    return (low, high) if learned is None else BoundsWithRisk(low, high, learned)


def _errors(name: str, arguments: Mapping[str, Any]) -> RegressionErrors:
    """Charge, and release the sums under the name of a function."""
    targets = "target_bounds" in arguments
    most = _check_most(arguments["max_error"])
    pair = _check_targets(arguments["target_bounds"]) if targets else None
    context = context_of(name, arguments)
    context.unit()
    y_true, y_pred = arguments["y_true"], arguments["y_pred"]
    rows = check_errors(y_true, y_pred, estimator=name, targets=targets)
    ends = [*([pair] if targets else []), None if most is None else (0.0, most)]
    stated: Pair | None = None
    if None not in ends:
        lows, highs = np.array(ends, dtype=np.float64).T
        stated = lows, highs
    with context.open(rows, lambda: public_key((name, most, pair))) as session:
        (low, high), learned = bounds_in(session, stated, errors=True, share=None)
        low, high = _used(low, high, most, pair)
        first, second, count = session.answer(moments(low, high))
        n = float(count.value)
        privacy = session.certificate()
        noise = Noise(float(first.std) * n, session.pure, integer=False)
    half, max_error = float(high[0] / 2 - low[0] / 2), float(high[-1])
    of_target = learned if pair is None else learned_before(pair)
    middle = float(low[0] / 2 + high[0] / 2 + first.value[0] * (high[0] - low[0]) / 2)
    boxes = learned if most is None else None, of_target if targets else None
    clipped = _clipped(*boxes, max_error / 2, half, middle)
    first_sums, second_sums = first.value * n, (second.value - 0.5) * n
    of_targets = (float(first_sums[0]), float(second_sums[0]), half) if targets else ()
    stds = float(second.std) * n, float(count.std)
    of_errors = float(first_sums[-1]), float(second_sums[-1]), n, max_error, noise, *stds
    sums = _Sums(*of_errors, clipped, any(boxes), *of_targets)
    bounds = (float(low[0]), float(high[0])) if targets else None
    return RegressionErrors(max_error, bounds, privacy, sums)


def _used(
    low: Floats, high: Floats, most: float | None, pair: tuple[float, float] | None
) -> tuple[Floats, Floats]:
    """Return bounds with what is stated in its place; errors begin at 0, and no box is flat."""
    low, high = np.array(low, dtype=np.float64), np.array(high, dtype=np.float64)
    low[-1] = 0.0
    high[-1] = max(float(high[-1]), _SMALLEST_BOUND) if most is None else most
    if len(low) > 1:
        if pair is not None:
            low[0], high[0] = pair
        if not low[0] < high[0]:
            wide = max(abs(float(low[0])), 1.0) * 2.0**-20
            low[0], high[0] = low[0] - wide, high[0] + wide
    return low, high


def _clipped(
    of_errors: LearnedBox | None,
    of_targets: LearnedBox | None,
    error_half: float,
    target_half: float,
    middle: float,
) -> tuple[float, float, float]:
    """Return what learned bounds may have clipped of the means; 0 of what is stated."""
    absolute = squared = variance = 0.0
    if of_errors is not None:
        absolute = float(of_errors.mean_error()[-1]) / error_half
        squared = float(of_errors.square_errors(np.zeros(len(of_errors.low)))[-1]) / error_half**2
    if of_targets is not None:
        centers = np.full(len(of_targets.low), middle)
        variance = float(of_targets.square_errors(centers)[0]) / target_half**2
    return absolute, squared, variance


@documented
def regression_errors(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    target_bounds: Any = "private",
    max_error: Any = "private",
    groups: Any = None,
    max_rows_per_unit: Any = "private",
    epsilon: float = 1.0,
    delta: float | None = None,
    budget: PrivacyBudget | None = None,
    random_state: Any = None,
) -> RegressionErrors:
    """Return R², mean squared and mean absolute error of held-out private rows, for one charge.

    {errors_and_targets}

    {raises}

    Notes
    -----
    **Privacy.** *Released*: bounds, if not stated, then sums and sums of squares of errors and
    targets, in units of half the width of their bounds, with the number of rows. *Sensitivity*:
    that of `skdp.queries.moments` of two columns. *Mechanism*: K-norm or rounded Gaussian noise,
    whichever is less.
    {public_model}

    Examples
    --------
    {line}
    >>> errors = metrics.regression_errors(y, x, target_bounds=(-2, 2), max_error=0.5)
    >>> bool(0.8 < float(errors.r2()) < 1), bool(abs(float(errors.mae()) - 0.16) < 0.05)
    (True, True)
    """
    return _errors("regression_errors", locals())


@documented
@parameters_of(regression_errors, _errors)
def r2_score(errors: RegressionErrors) -> Released:
    """Return the coefficient of determination R² of held-out private rows.

    {errors_and_targets}

    Returns
    -------
    r2 : Released
        At most 1; NaN if noise hides the variance of the targets.

    {raises}

    Notes
    -----
    **Privacy.** *Released*, *sensitivity*, *mechanism*: as for `regression_errors`, which also
    gives the mean errors at the same cost.

    Examples
    --------
    {line}
    >>> r2 = metrics.r2_score(y, x, target_bounds=(-2, 2), max_error=0.5)
    >>> bool(0.8 < float(r2) < 1)
    True
    """
    return errors.r2()


@documented
def mean_squared_error(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    max_error: Any = "private",
    groups: Any = None,
    max_rows_per_unit: Any = "private",
    epsilon: float = 1.0,
    delta: float | None = None,
    budget: PrivacyBudget | None = None,
    random_state: Any = None,
) -> Released:
    """Return the mean squared error of held-out private rows.

    {errors}

    Returns
    -------
    error : Released
        In squared units of the targets.

    {raises}

    Notes
    -----
    **Privacy.** *Released*: a bound, if not stated, then the sums of errors and of their squares,
    in units of half the width of this bound, with the number of rows. *Sensitivity*: that of
    `skdp.queries.moments` of one column. *Mechanism*: K-norm or rounded Gaussian noise, whichever
    is less.
    {public_model}

    Examples
    --------
    {line}
    >>> error = metrics.mean_squared_error(y, x, max_error=0.5)
    >>> bool(abs(float(error) - 0.031) < 0.01)
    True
    """
    return _errors("mean_squared_error", locals()).mse()


@documented
@parameters_of(mean_squared_error, _errors)
def mean_absolute_error(errors: RegressionErrors) -> Released:
    """Return the mean absolute error of held-out private rows.

    {errors}

    Returns
    -------
    error : Released
        In the units of the targets.

    {raises}

    Notes
    -----
    **Privacy.** *Released*, *sensitivity*, *mechanism*: as for `mean_squared_error`.

    Examples
    --------
    {line}
    >>> error = metrics.mean_absolute_error(y, x, max_error=0.5)
    >>> bool(abs(float(error) - 0.16) < 0.05)
    True
    """
    return errors.mae()
