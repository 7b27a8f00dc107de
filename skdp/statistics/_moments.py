"""Counts, sums, means, variances, covariances, correlations.

Released are the number of rows, sums over rows, or the matrix of second moments, with sums and the
number of rows. Statistics and standard errors are computed from these numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from skdp.base import CallContext, check_integer
from skdp.base.context import public_key
from skdp.budget import PrivacyBudget
from skdp.confidence.equations import FOURTH_MOMENT, moment_errors, root_error
from skdp.confidence.limits import MeanLimits, spread_seen
from skdp.core import (
    Mean,
    PrivacyCertificate,
    Release,
    ScaledBox,
    Session,
    Sum,
    open_session,
    released,
)
from skdp.parameters import FLAG, check_parameter
from skdp.planning import Allowance
from skdp.queries import GramRelease, LearnedBox, SecondMoment, moments, rows_beyond, sum_view
from skdp.statistics._call import (
    Call,
    Floats,
    Options,
    Released,
    check_axis,
    check_ddof,
    documented,
    result,
)
from skdp.tabular import UnitCounts, check_units, checked, holds_numbers, is_parts

_QUOTIENT = 1.0  # deviations of noise by which a variance in a denominator may be too large
_NO_VARIANCE = 1e-12  # in squares of the half width: what rounding leaves of a variance of 0
_MOST_ROWS = 2**31  # of one unit

# --- counts, sums, means --------------------------------------------------------------------------


def _countable(X: Any, omits: bool) -> Any:
    """Return rows to be counted: of a table of any types, whose cells are not read, rows of 0."""
    if omits or is_parts(X) or not (hasattr(X, "iloc") or hasattr(X, "to_pandas")):
        return X
    X = checked(X, "X")
    return X if holds_numbers(X) else np.zeros((len(X), 1))


@documented
def count(X: ArrayLike, **options: Unpack[Options]) -> Released:
    """Return the number of rows.

    Parameters
    ----------
    X : array-like or table
        Private rows; with ``nan_policy="raise"`` a table may have columns of any type.
    {rows}

    {raises}

    Notes
    -----
    **Privacy.** *Released*: the number of rows. *Sensitivity*: 1. *Mechanism*: discrete Laplace or
    rounded Gaussian noise, whichever is less. With ``n_rows="public"`` the number is exact and
    free.

    Examples
    --------
    >>> from skdp import statistics
    >>> statistics.count([3.0, None, 5.0], nan_policy="omit", epsilon=20, random_state=0)
    Released(value=2.0, std=6.420519653322878e-05)
    """
    call = Call.of("count", options)
    rows, _ = call.table(_countable(X, call.omits))
    if call.n_rows == "public":
        # Without a budget: the exact number is public, so nothing is charged.
        privacy: Any = {"epsilon": call.epsilon}
        with open_session(
            rows, estimator="count", random_state=call.random_state, **privacy
        ) as free:
            return result(free.n_rows, 0.0, call.nothing_released())
    with call.opened(rows, ()) as session:
        release = session.row_count()
        return result(release.value, release.std, session.certificate())


@documented
def rows_left_out(
    groups: ArrayLike,
    max_rows_per_unit: int,
    *,
    at_most: int | None = None,
    epsilon: float = 1.0,
    delta: float | None = None,
    budget: PrivacyBudget | None = None,
    random_state: Any = None,
) -> Released:
    """Return how many rows a fit leaves out because of its `max_rows_per_unit`.

    Parameters
    ----------
    groups : array-like of shape (n_samples,)
        Id of the unit that each row belongs to, as in the fit.
    max_rows_per_unit : int
        That of the fit: its parameter, or its ``max_rows_per_unit_``.
    at_most : int, default=None
        The largest number of left-out rows that is counted for one unit; noise grows with it. None:
        `max_rows_per_unit`.
    {call}

    Returns
    -------
    released : Released
        Neither rounded nor cut off at 0. If a unit has more than `at_most` rows beyond the bound,
        more rows are left out than this number says.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, if an id is missing, or if the budget has another unit.
        Nothing is then charged.
    BudgetExceededError, SealedBudgetError, LedgerError
        If the budget cannot pay the cost.

    Notes
    -----
    **Privacy.** *Released*: the sum over units of the rows beyond the bound, at most `at_most` for
    each unit. *Sensitivity*: `at_most`, whether a unit is added or removed, or replaced by another.
    *Mechanism*: discrete Laplace or rounded Gaussian noise, whichever is less. *Charged*: at most
    (epsilon, delta), once, as "rows_left_out".

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import PrivacyBudget, statistics
    >>> budget = PrivacyBudget(1.0, adjacency="add_or_remove_one", unit="user")
    >>> visits = np.repeat(np.arange(10_000), 5)  # five of each user, of which three count
    >>> round(statistics.rows_left_out(visits, 3, budget=budget, random_state=0), -3)
    20000.0
    """
    name = "rows_left_out"
    if groups is None:
        raise TypeError(f"{name}: groups must be ids, one for each row")
    bound = check_integer(max_rows_per_unit, "max_rows_per_unit", low=1, high=_MOST_ROWS)
    most = bound if at_most is None else check_integer(at_most, "at_most", low=1, high=_MOST_ROWS)
    call = CallContext(name, epsilon, delta, budget, random_state, groups=groups)
    unit = call.unit()
    assert unit is not None
    units = check_units(groups, None, estimator=name, adjacency=call.adjacency)
    rows: Any = UnitCounts(units, unit.name)
    with call.open(rows, lambda: public_key((bound, most))) as session:
        release = session.answer(rows_beyond(bound, most))
        return result(release.value, release.std, session.certificate())


@documented
def count_nonzero(
    X: ArrayLike, *, axis: int | None = 0, keepdims: bool = False, **options: Unpack[Options]
) -> Released:
    """Return the number of cells that are not 0.

    Parameters
    ----------
    {X}
    {axis}
    {rows}

    Returns
    -------
    released : Released
        Neither rounded nor cut off at 0, so it has no bias.

    {raises}

    Notes
    -----
    **Privacy.** *Released*: one number for each column, or one for all cells. *Sensitivity*: the
    square root of the number of columns (L2); for ``axis=None``, the number of columns.
    *Mechanism*: K-norm or rounded Gaussian noise, whichever is less.

    Examples
    --------
    >>> from skdp import statistics
    >>> late = [0.0, 12.0, 0.0, 45.0] * 250_000
    >>> round(statistics.count_nonzero(late, random_state=0), -2)
    500000.0
    """
    call = Call.of("count_nonzero", options)
    across = check_axis(axis, keepdims, all_cells=True)
    rows, flat = call.table(X)
    noise = _noise_of_sums(1 if across else rows.n_features)
    with call.opened(rows, (across,), noise=noise) as session:
        release = _sum(session, 0.0, 1.0, nonzero=True, across=across, name="count_nonzero")
        privacy = session.certificate()
    shape: Any = {"flat": flat, "across": across, "keepdims": keepdims, "names": rows.names}
    return result(release.value, release.std, privacy, uncorrelated=True, **shape)


def _noise_of_sums(size: int) -> Callable[[Allowance], float]:
    """Return the noise of so many sums, by allowance."""
    return lambda allowance: allowance.box_std(size)


def _sum(
    session: Session,
    low: Floats | float,
    high: Floats | float,
    *,
    across: bool,
    nonzero: bool = False,
    name: str = "sum",
) -> Release:
    """Release the sum of the clipped rows."""
    public_n = session.adjacency == "replace_one"
    options: Any = {"nonzero": nonzero, "across": across, "about_zero": not public_n}
    view = sum_view(low, high, session.n_features, **options)
    total: Release = session.answer(Sum(view), name=name)
    # With a public number of rows, cells are relative to the middle of their bounds: less noise.
    base = session.n_rows * view.center if public_n else view.center
    return released(base + total.value, total.std)


def _clipped(learned: LearnedBox | None, *, across: bool, mean: bool = False) -> Any:
    """Return the errors of sums or means that come from learned bounds."""
    if learned is None:
        return 0.0
    clipped = learned.mean_error() if mean else learned.sum_error()
    # In a sum over columns, their errors may have one sign.
    return np.sum(clipped, keepdims=True) if across else clipped


@documented
def sum(  # noqa: A001  as numpy's
    X: ArrayLike,
    *,
    axis: int | None = 0,
    keepdims: bool = False,
    bounds: Any = "private",
    **options: Unpack[Options],
) -> Released:
    """Return the sum of the rows, clipped to bounds.

    Parameters
    ----------
    {X}
    {axis}
    {bounds}
    {rows}

    {raises}

    Notes
    -----
    **Privacy.** *Released*: bounds, if not stated, and one number for each column, or one for all
    cells. *Sensitivity* (L2): if a row is replaced, the diagonal of the bounds; if one is added or
    removed, the distance of their furthest corner from 0. *Mechanism*: K-norm or rounded Gaussian
    noise, whichever is less.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import statistics
    >>> minutes = np.arange(1000) % 60
    >>> total = statistics.sum(minutes, bounds=(0, 60))
    >>> bool(abs(total.value - minutes.sum()) < 20 * total.std)
    True
    """
    call = Call.of("sum", options)
    across = check_axis(axis, keepdims, all_cells=True)
    rows, flat = call.table(X)
    noise = _noise_of_sums(1 if across else rows.n_features)
    with call.bounded(rows, bounds, (across,), noise) as (session, low, high, learned):
        release = _sum(session, low, high, across=across)
        clipping = _clipped(learned, across=across)
        privacy = session.certificate()
    shape: Any = {"flat": flat, "across": across, "keepdims": keepdims, "names": rows.names}
    shape |= {"bounds": (low, high), "learned": learned}
    shape |= {"clipping": clipping, "uncorrelated": True}
    return result(release.value, np.hypot(release.std, clipping), privacy, **shape)


@documented
def mean(
    X: ArrayLike,
    *,
    axis: int | None = 0,
    keepdims: bool = False,
    intervals: bool = False,
    bounds: Any = "private",
    **options: Unpack[Options],
) -> Released:
    """Return the mean of the rows, clipped to bounds.

    Parameters
    ----------
    {X}
    {axis}
    intervals : bool, default=False
        True: also release the mean square, so that `Released.population_interval` is known. The
        noise of uniform values was then 1 to 1.7 times as large. Only with ``axis=0``.
    {bounds}
    {rows}

    Returns
    -------
    released : Released
        Within the bounds.

    {raises}

    Notes
    -----
    **Privacy.** *Released*: bounds, if not stated, and one number for each column, or one for all
    cells. *Sensitivity* (L2): if the number of rows is public, the diagonal of the bounds divided
    by that number; otherwise that of the sum together with the number of rows, which are released
    as one vector. *Mechanism*: K-norm or rounded Gaussian noise, whichever is less. With
    ``intervals=True``: what `var` releases.

    Examples
    --------
    {ages}
    >>> answer = statistics.mean(ages, bounds=(0, 120), random_state=0)
    >>> bool(abs(answer.value - ages.mean()) < 4 * answer.std)
    True
    """
    call = Call.of("mean", options)
    across = check_axis(axis, keepdims, all_cells=True)
    check_parameter(intervals, "intervals", FLAG)
    if intervals:
        return _mean_with_intervals(call, X, bounds, keepdims, across=across)
    rows, flat = call.table(X)
    noise = _noise_of_sums(1 if across else rows.n_features)
    with call.bounded(rows, bounds, (across,), noise) as (session, low, high, learned):
        view = sum_view(low, high, rows.n_features, across=across)
        release = session.answer(Mean(view, count_error=True))
        clipping = _clipped(learned, across=across, mean=True)
        privacy = session.certificate()
    # Every mean is divided by one number of rows, whose noise they share.
    shared = (release.value - view.center) * release.count.std / release.count.value
    cells = rows.n_features if across else 1
    value, std = release.value / cells, np.hypot(release.std, clipping) / cells
    shape: Any = {"flat": flat, "across": across, "keepdims": keepdims, "names": rows.names}
    shape |= {"bounds": (low, high), "learned": learned, "uncorrelated": True}
    return result(value, std, privacy, shared=shared / cells, clipping=clipping / cells, **shape)


def _mean_with_intervals(
    call: Call, X: ArrayLike, bounds: Any, keepdims: bool, *, across: bool
) -> Released:
    """Return means with intervals for the means of a population."""
    if across:
        raise ValueError("axis must be 0 with intervals=True: cells of one row are not independent")
    rows, flat = call.table(X)
    less = lambda allowance: allowance.moments_std(rows.n_features)  # noqa: E731
    with call.bounded(rows, bounds, ("intervals",), less) as (session, low, high, learned):
        first, second, count = session.answer(moments(low, high))
        n = float(count.value)
        clusters = float(session.max_rows_per_unit or 1)
        pure, privacy = session.pure, session.certificate()
    center, half = low / 2 + high / 2, high / 2 - low / 2
    noise = float(first.std), float(second.std), float(count.std) / n
    error, spread_error = moment_errors(first.value, second.value, *noise)
    value = np.clip(center + half * first.value, low, high)
    error, spread_error = half * error, half**2 * spread_error
    clipping = _clipped(learned, across=False, mean=True)
    error = np.hypot(error, clipping)
    if learned is not None:
        spread_error = np.hypot(spread_error, learned.square_errors(value))
    spread = spread_seen((second.value - first.value**2) * half**2, spread_error)
    limits = MeanLimits(value, error, clusters * spread / max(n - 1.0, 1.0), low, high, pure)
    shape: Any = {"flat": flat, "keepdims": keepdims, "names": rows.names, "limits": limits}
    shape |= {"bounds": (low, high), "learned": learned, "clipping": clipping}
    return result(value, error, privacy, **shape)


# --- variances, covariances, correlations ---------------------------------------------------------


def _per_freedom(n: float, ddof: int) -> float:
    """Return n / (n - ddof) with at least one degree of freedom: a noisy n may be small."""
    return n / max(n - ddof, 1.0)


def _variance(
    call: Call, X: ArrayLike, bounds: Any, ddof: int
) -> tuple[Floats, Floats, PrivacyCertificate, dict[str, Any]]:
    """Return variances, their standard errors, the certificate, and keywords of `result`."""
    rows, flat = call.table(X)
    less = lambda allowance: allowance.variance_std(rows.n_features)  # noqa: E731
    with call.bounded(rows, bounds, (ddof,), less) as (session, low, high, learned):
        first, second, count = session.answer(moments(low, high))
        n = float(count.value)
        privacy = session.certificate()
    noise = float(first.std), float(second.std), float(count.std) / n
    _, error = moment_errors(first.value, second.value, *noise)
    scale = (high / 2 - low / 2) ** 2 * _per_freedom(n, ddof)
    variance = np.maximum(second.value - first.value**2, 0.0) * scale
    error, clipping = error * scale, np.zeros(1)
    if learned is not None:
        center = low / 2 + high / 2 + first.value * (high / 2 - low / 2)
        clipping = learned.square_errors(center) * _per_freedom(n, ddof)
        error = np.hypot(error, clipping)
    shape = {
        "clipping": clipping,
        "flat": flat,
        "bounds": (low, high),
        "names": rows.names,
        "learned": learned,
    }
    return variance, error, privacy, shape


@documented
def var(
    X: ArrayLike,
    *,
    axis: int = 0,
    keepdims: bool = False,
    ddof: int = 0,
    bounds: Any = "private",
    **options: Unpack[Options],
) -> Released:
    """Return the variance of each column, clipped to bounds.

    {dispersion}

    Notes
    -----
    **Privacy.** *Released*: bounds, if not stated, then the mean and the mean square of each
    column as one vector, with the number of rows where it is private. *Sensitivity* (L2) of the
    sums of u and of f (u**2 - 1/2), where u in [-1, 1] is a value in half widths of the bounds, for
    d columns: 2 sqrt(d) with f = 13/8 if a row may be replaced, sqrt(5 d / 4 + 1) with f = 1 if
    rows are added or removed alone. Of the largest entry, with f = 2: 2 and 1. *Mechanism*: K-norm
    noise of the ball or the cube, or rounded Gaussian noise, whichever is least. *Charged*: at most
    (epsilon, delta), once, as "var".

    Examples
    --------
    {uniform}
    >>> round(statistics.var(x, bounds=(-1, 1)), 1)
    0.3
    """
    call = Call.of("var", options)
    check_axis(axis, keepdims)
    variance, error, privacy, shape = _variance(call, X, bounds, check_ddof(ddof))
    return result(variance, error, privacy, keepdims=keepdims, **shape)


@documented
def std(
    X: ArrayLike,
    *,
    axis: int = 0,
    keepdims: bool = False,
    ddof: int = 0,
    bounds: Any = "private",
    **options: Unpack[Options],
) -> Released:
    """Return the standard deviation of each column, clipped to bounds.

    {dispersion}

    Notes
    -----
    **Privacy.** As for `var`: this is the square root of its answer. *Released*, *sensitivity*,
    *mechanism*: as there.

    Examples
    --------
    {uniform}
    >>> round(statistics.std(x, bounds=(-1, 1), random_state=0), 2)
    0.58
    """
    call = Call.of("std", options)
    check_axis(axis, keepdims)
    variance, error, privacy, shape = _variance(call, X, bounds, check_ddof(ddof))
    deviation, error = np.sqrt(variance), root_error(variance, error)
    shape["clipping"] = error * (shape["learned"] is not None)
    return result(deviation, error, privacy, keepdims=keepdims, **shape)


@dataclass(frozen=True)
class _Moments:
    """Released covariances of the columns, in units of their half widths, divided by n.

    `center` are means relative to the middle of the bounds. `lifted` is by how much each entry
    moved to make the matrix positive semidefinite, `clipped` its error due to learned bounds.
    """

    center: Floats
    covariance: Floats
    lifted: Floats
    half: Floats
    gram: GramRelease
    privacy: PrivacyCertificate
    bounds: tuple[Floats, Floats] | None = None
    clipped: Any = 0.0
    learned: LearnedBox | None = None

    def errors(self, scale: Floats, pull: Floats) -> Floats:
        """Return the standard errors of C_jk - pull_jk (C_jj + C_kk).

        C is the covariance in units of scale_j scale_k; `pull` is symmetric with a diagonal of 0.
        The noise of a column's sum is in each of its covariances, that of the number of rows in
        all, so derivatives are added up before they are squared. Entries of the noisy matrix are
        uncorrelated, so their squares add up. Products of the errors of two means count too: on few
        rows they are not small.
        """
        gram, units = self.gram, np.outer(scale, scale)
        center, covariance = self.center / scale, self.covariance / units
        # Products. Off the diagonal C_jk has noise of its own, and that of C_jj and C_kk.
        own = (gram.diagonal_std / scale**2) ** 2
        products = (gram.std / units) ** 2 + pull**2 * np.add.outer(own, own)
        np.fill_diagonal(products, own)
        # Sums. That of column j moves C_jk by -c_k, C_jj by -2 c_j, and C_kk not at all.
        moved = (center - 2 * pull * center[:, None]) * (gram.total_std / scale)[:, None]
        sums = moved**2 + (moved**2).T
        np.fill_diagonal(sums, 4 * moved.diagonal() ** 2)  # both sums are the same one
        # Number of rows. C_jk = m_jk / n - t_j t_k / n**2 has the derivative below, over n.
        rise = np.outer(center, center) - covariance
        rise -= pull * np.add.outer(rise.diagonal(), rise.diagonal())
        first_order = (products + sums + (rise * gram.n_std) ** 2) / gram.n**2
        # Second order: the errors of two means, that of the number of rows in both.
        common = np.outer(center, center) * gram.n_std**2
        mean_errors = (gram.total_std / scale) ** 2 + common.diagonal()
        crossed = (np.outer(mean_errors, mean_errors) + 2 * common**2) / gram.n**4
        np.fill_diagonal(crossed, FOURTH_MOMENT * mean_errors**2 / gram.n**4)
        crossed += pull**2 * np.add.outer(crossed.diagonal(), crossed.diagonal())
        lifted = self.lifted / units
        lifted += np.abs(pull) * np.add.outer(lifted.diagonal(), lifted.diagonal())
        # A third of the change, so that three standard errors hold.
        errors: Floats = np.sqrt(first_order + crossed) + lifted / 3.0
        if 3 * gram.n_std > gram.n:  # noise hides the number of rows: only the bounds are known
            errors = np.maximum(errors, (np.abs(covariance) + 1.0 / units) / 3.0)
        return errors


def _moments(call: Call, X: ArrayLike, bounds: Any, ddof: int) -> _Moments:
    """Release the second moment of the clipped columns."""
    rows, _ = call.table(X)
    noise = lambda allowance: allowance.gram_std(rows.n_features)  # noqa: E731
    with call.bounded(rows, bounds, (ddof,), noise) as (session, low, high, learned):
        gram = session.answer(SecondMoment(ScaledBox(low, high)))
        privacy = session.certificate()
    half = high / 2 - low / 2
    moments = covariance_of(gram, half, privacy)
    clipped: Any = 0.0
    if learned is not None:
        clipped = learned.product_errors(low / 2 + high / 2 + moments.center * half)
        clipped = clipped / np.outer(half, half)
    return replace(moments, bounds=(low, high), clipped=clipped, learned=learned)


def covariance_of(gram: GramRelease, half: Floats, privacy: PrivacyCertificate) -> _Moments:
    """Return the covariances of a released second moment."""
    center = gram.total / gram.n
    noisy = gram.second_moment / gram.n - np.outer(center, center)
    values, vectors = np.linalg.eigh(noisy)
    psd = (vectors * np.maximum(values, 0.0)) @ vectors.T
    psd = (psd + psd.T) / 2
    return _Moments(center, psd, np.abs(psd - noisy), half, gram, privacy)


@documented
def covariance(
    X: ArrayLike, *, ddof: int = 1, bounds: Any = "private", **options: Unpack[Options]
) -> Released:
    """Return the covariance matrix of the columns, clipped to bounds.

    Parameters
    ----------
    {variables}
    ddof : int, default=1
        The divisor is the number of rows minus this.
    {bounds}
    {rows}

    Returns
    -------
    released : Released, value of shape (n_features, n_features)
        Positive semidefinite: negative eigenvalues, which noise may cause, are set to 0. The
        standard error includes the change that this makes. If noise hides a private number of rows,
        it also includes a third of the largest value that the bounds allow.

    {raises}

    Notes
    -----
    **Privacy.** *Released*: bounds, if not stated, then one matrix: the second moment of the
    columns, in units of half the widths of their bounds, with their sums and the number of rows.
    *Sensitivity*: that of rows in a ball of radius sqrt(d), see ``skdp/queries/second_moments.md``.
    *Mechanism*: symmetrised Wishart or rounded Gaussian noise, whichever is less.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import statistics
    >>> x = np.random.default_rng(0).uniform(-1, 1, size=(100000, 2))
    >>> statistics.covariance(x, bounds=(-1, 1), random_state=0).value.diagonal().round(2)
    array([0.33, 0.33])
    """
    call = Call.of("covariance", options)
    ddof = check_ddof(ddof)
    moments = _moments(call, X, bounds, ddof)
    d = len(moments.half)
    errors = np.hypot(moments.errors(np.ones(d), np.zeros((d, d))), moments.clipped)
    units = np.outer(moments.half, moments.half) * _per_freedom(moments.gram.n, ddof)
    values, errors = moments.covariance * units, errors * units
    # The change that makes the matrix positive semidefinite may have one sign, as clipping has.
    shape: Any = {"bounds": moments.bounds, "learned": moments.learned, "clipping": errors}
    return result(values, errors, moments.privacy, **shape)


def coefficients_of(moments: _Moments) -> tuple[Floats, Floats]:
    """Return correlation coefficients off the diagonal, and their standard errors."""
    variance = moments.covariance.diagonal()
    known = variance > _NO_VARIANCE
    scale = np.sqrt(np.where(known, variance, 1.0))
    both_known = np.outer(known, known)
    ratios = moments.covariance / np.outer(scale, scale)
    coefficients = np.where(both_known, np.clip(ratios, -1.0, 1.0), 0.0)
    np.fill_diagonal(coefficients, 0.0)
    # r = C_jk in units of the standard deviations, which noise moves as well: to first order
    # dr = dC_jk - r / 2 (dC_jj + dC_kk). If the noise of a variance is no small part of it, errors
    # are enlarged; if noise hides the variance, they are NaN.
    errors = moments.errors(scale, coefficients / 2)
    d = len(scale)
    part = moments.errors(scale, np.zeros((d, d))).diagonal()
    worst = np.maximum.outer(part, part)
    errors = errors / np.maximum(1.0 - _QUOTIENT * worst, 1e-9)
    # The clipping errors of a variance and of a covariance may have one sign.
    clipped = np.zeros((d, d)) + moments.clipped / np.outer(scale, scale)
    clipped += np.abs(coefficients) / 2 * np.add.outer(clipped.diagonal(), clipped.diagonal())
    errors = np.hypot(errors, clipped)
    clear = both_known & (_QUOTIENT * worst < 1.0)
    return coefficients, np.where(clear, np.minimum(errors, 1.0), np.nan)


@documented
def correlation(X: ArrayLike, *, bounds: Any = "private", **options: Unpack[Options]) -> Released:
    """Return the matrix of correlation coefficients of the columns, clipped to bounds.

    Parameters
    ----------
    {variables}
    {bounds}
    {rows}

    Returns
    -------
    released : Released, value of shape (n_features, n_features)
        In [-1, 1], with ones on the diagonal. 0 for the coefficients of a column whose released
        variance is 0. The standard error is at most 1. It is too large if noise reaches the ends of
        the range, and NaN if noise hides a variance: the coefficient is then meaningless.

    {raises}

    Notes
    -----
    **Privacy.** Computed from what `covariance` releases. *Released*, *sensitivity*, *mechanism*:
    as there.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import statistics
    >>> x = np.random.default_rng(0).uniform(-1, 1, size=100000)
    >>> table = np.column_stack([x, -x])
    >>> statistics.correlation(table, bounds=(-1, 1), random_state=0).value[0, 1].round(1)
    np.float64(-1.0)
    """
    call = Call.of("correlation", options)
    moments = _moments(call, X, bounds, 0)
    coefficients, errors = coefficients_of(moments)
    np.fill_diagonal(coefficients, 1.0)
    np.fill_diagonal(errors, 0.0)
    shape: Any = {"bounds": moments.bounds, "learned": moments.learned, "clipping": errors}
    return result(coefficients, errors, moments.privacy, **shape)
