"""Private least squares: `DPRidge` and `DPLinearRegression`.

A fit releases bounds, unless stated; the number of rows, where it is private; the mean and mean
square of every column and of the target, unless noise would hide them; and one noisy matrix: the
second moment of the rows with their targets, standardised and clipped to a norm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from skdp.base.batch_invariant import products
from skdp.base.classifiers import COUNT_SHARE, Floats, TargetRegressor, standardised
from skdp.base.mixin import WEIGHT_BOUND, check_weight_bound
from skdp.budget import PrivacyBudget
from skdp.core import Session
from skdp.parameters import Reals, Table
from skdp.planning import SEMICIRCLE_EDGE, WISHART_EDGE, Allowance, row_count
from skdp.queries import GramRelease, SecondMoment, StandardBall, WeightedBall
from skdp.tabular import dense_blocks

__all__ = ["DPLinearRegression", "DPRidge"]

_MOMENTS_SHARE = 0.1
_TAU = 0.25  # the constant feature, as a part of the radius
# A row's norm is clipped to so many times the root of the number of columns (from, to) that noise
# has this edge beside a variance of 1.
_RADII, _EDGE = (0.3, 4.0), 0.05
_CLEAR = 4.0  # times the noise's edge: an eigenvalue above it is not shrunk
_LARGEST = 1e300
_NO_CONSTANT = 2.0**-30  # weighted rows bring their own
_SEEN = 10.0  # standard errors of the sum of weights, above which coefficients have errors


@dataclass(frozen=True)
class _Solution:
    """Coefficients of standardised rows, with their covariance in units of the noise's variance."""

    coef: Floats
    intercept: float
    noise: Floats  # covariance of (coef, intercept); NaN where directions were shrunk
    inverse: Floats  # of the second moment of (columns, 1), for the error of sampling
    residual: float  # mean square
    edge: float


def _radius(allowance: Allowance, n: float, dims: int, reach: float) -> float:
    """Return the clipping norm of standardised rows: all of `reach`, or less if noise dominates."""
    edge = allowance.spectral_edge(dims, allowance.gram_noise("auto", dims)) / n
    if edge * reach**2 <= _EDGE:
        return reach
    factor = min(max(math.sqrt(_EDGE / (edge * dims)), _RADII[0]), _RADII[1])
    return min(factor * math.sqrt(dims), reach)


def _solve(gram: GramRelease, penalty: Floats, n: float, radius: float) -> _Solution:
    """Return least squares from a noisy second moment of (columns, target), with an intercept.

    In the eigenbasis of the noisy covariance, b / w becomes b w / (w**2 + edge**2) for eigenvalues
    w that noise may explain, and 0 for negative ones.
    """
    d = len(penalty)
    second, mean = gram.second_moment / n, gram.total / n
    covariance = second - np.outer(mean, mean)
    A, b = covariance[:d, :d] + np.diag(penalty / n), covariance[:d, d]
    std = gram.std / n
    tails = WISHART_EDGE / SEMICIRCLE_EDGE if gram.noise == "wishart" else 1.0
    edge = 2.0 * std * math.sqrt(d) * tails
    w, V = np.linalg.eigh((A + A.T) / 2)
    clear = w > max(_CLEAR * edge, 2.0**-40)
    with np.errstate(all="ignore"):
        gain = np.where(clear, 1.0 / w, np.where(w > 0, w / (w**2 + edge**2), 0.0))
    gain = np.nan_to_num(gain, nan=0.0, posinf=0.0)
    coef = V @ (gain * (V.T @ b))
    intercept = float(mean[d] - mean[:d] @ coef)
    residual = float(covariance[d, d] - 2 * b @ coef + coef @ covariance[:d, :d] @ coef)
    # First order, in the columns and the constant t: theta moves by -M^-1 F E u, with F E u the
    # rows of the noise E but for that of the target, and u = (-coef, 1, -intercept / t).
    t = _TAU * radius
    full = np.full((d + 1, d + 1), math.nan)
    inverse = full.copy()
    if clear.all():
        moment = np.zeros((d + 1, d + 1))
        moment[:d, :d] = second[:d, :d] + np.diag(penalty / n)
        moment[:d, d] = moment[d, :d] = mean[:d] * t
        moment[d, d] = t * t
        inverse = np.linalg.pinv(moment)
        u = np.append(coef, intercept / t)
        moved = (u @ u + 1.0) * np.eye(d + 1) + np.outer(u, u)
        full = inverse @ moved @ inverse * std**2
        full[d, :] *= t
        full[:, d] *= t
        inverse[d, :] *= t
        inverse[:, d] *= t
    return _Solution(coef, intercept, full, inverse, max(residual, 0.0), edge)


def _weighted(gram: GramRelease, radius: float) -> tuple[GramRelease, bool]:
    """Split the constant off the moments of weighted rows; say whether noise hides their weight.

    The constant's sum of squares is that of the weights, in parts of the largest one.
    """
    t = _TAU * radius
    moment = gram.second_moment
    weight, error = float(moment[-1, -1]) / t**2, gram.diagonal_std / t**2
    total = moment[:-1, -1] / t
    gram = replace(gram, second_moment=moment[:-1, :-1], total=total, n=max(weight, 1.0))
    return gram, weight > _SEEN * error


class _LeastSquares(TargetRegressor):
    """Least squares, without or with a penalty."""

    _takes_sparse = True

    alpha: float = 0.0
    weight_bound: Any

    # --- fitting ------------------------------------------------------------------------------

    def fit(
        self, X: ArrayLike, y: ArrayLike, *, sample_weight: Any = None, groups: Any = None
    ) -> Self:
        """Charge the budget and fit.

        Parameters
        ----------
        X : array-like, sparse matrix or table of shape (n_samples, n_features)
            Private rows of finite numbers. The time for sparse rows depends on how many cells they
            store. May be in parts (`skdp.engines`).
        y : array-like of shape (n_samples,)
            Private targets, finite numbers.
        sample_weight : array-like of shape (n_samples,), default=None
            Private weights of the squared errors of the rows: finite numbers, clipped to [0,
            `weight_bound`], which must be stated.
        groups : array-like of shape (n_samples,), default=None

        Returns
        -------
        self : object
        """
        with self._all_or_nothing(groups):
            if sample_weight is None:
                return self._fitted(X, y)
            self._check_parameters()
            return self._fitted(X, y, sample_weight, most=check_weight_bound(self))

    def _noise_of(self, allowance: Allowance, n_features: int | None) -> float:
        # Bounds are stated: of learned ones, which take more, the noise of learning is compared.
        # With a share of .4, coefficients of 2 columns had 1.25 times the error with a delta.
        return math.nan if n_features is None else allowance.part(0.85).gram_std(n_features + 1)

    def _fit(
        self,
        session: Session,
        columns: Any,
        target: Any,
        width: int,
        most: float | None = None,  # that a weight may be
    ) -> None:
        d = width - 1
        weights = () if most is None else ((np.zeros(1), np.array([most])),)
        low, high, learned, known = self._boxed(session, columns, target, width, *weights)
        n = row_count(session, COUNT_SHARE, learned)
        share = _MOMENTS_SHARE * float(session.remaining)
        standard = standardised(session, Allowance.left(session, 1.0), low, high, n, share)
        total = n  # of weights, in parts of the largest: for the plan
        if most is not None:
            total = max(n * min(float(standard.center[width]) / most, 1.0), 1.0)
            standard = replace(
                standard, center=standard.center[:width], scale=standard.scale[:width]
            )
            low, high, known = low[:width], high[:width], known[:width]
        reach = standard.reach(low, high)
        radius = _radius(Allowance.left(session), total, width, reach)
        view = StandardBall(low, high, standard.center, standard.scale, radius)
        if most is None:
            gram, seen = session.answer(SecondMoment(view, _TAU)), True
        else:
            weighted = WeightedBall(view, _TAU, most)
            gram, seen = _weighted(session.answer(SecondMoment(weighted, _NO_CONSTANT)), radius)
            total = gram.n
        scale, units = standard.scale[:d], standard.scale[d]
        squares = np.maximum(scale, 1e-150) ** 2  # never 0, by which no penalty is NaN
        penalty = np.minimum(float(self.alpha) / squares / (most or 1.0), _LARGEST)
        solution = _solve(gram, penalty, total, radius)
        coef = solution.coef * units / scale
        self.coef_ = np.clip(np.nan_to_num(coef), -_LARGEST, _LARGEST)
        intercept = standard.center[d] + units * solution.intercept
        intercept -= float(self.coef_ @ standard.center[:d])
        self.intercept_ = float(np.clip(intercept, -_LARGEST, _LARGEST))
        # In user units; of the intercept, at the origin of X.
        back = np.diag(np.append(units / scale, units))
        back[d, :d] = -standard.center[:d] * units / scale
        noisy = back @ solution.noise @ back.T
        if learned is not None and most is None:
            noisy = noisy + self._beyond(learned, standard, solution, back, known)
        # Shortened rows, a limited penalty and weights with learned bounds give other coefficients.
        limited = bool(np.any(penalty >= _LARGEST))
        if radius < reach or not seen or limited or (learned is not None and most is not None):
            noisy = noisy + math.nan
        sampled = noisy + back @ solution.inverse @ back.T * solution.residual / n
        error, population = (np.sqrt(np.maximum(np.diag(m), 0.0)) for m in (noisy, sampled))
        # Rows of one unit are alike, so their number does not tell the error for a population; and
        # errors may be larger where weights are small.
        if self.alpha or most is not None or session.max_rows_per_unit not in (None, 1):
            population = population + math.nan
        self.coef_std_error_ = error[:d]
        self.intercept_std_error_ = float(error[d])
        self.coef_population_std_error_ = population[:d]
        self.n_samples_ = n
        self.bounds_ = low[:d].copy(), high[:d].copy()
        self.target_bounds_ = float(low[d]), float(high[d])
        self.center_, self.scale_, self.radius_ = standard.center, standard.scale, radius
        self.noise_level_ = float(solution.edge)

    @staticmethod
    def _beyond(
        learned: Any, standard: Any, solution: _Solution, back: Floats, stated: Any
    ) -> Floats:
        """Return the squared effect of rows beyond learned bounds on the coefficients."""
        d = len(solution.coef)
        products = learned.product_errors(standard.center)
        means = learned.mean_error()
        # Clipping to stated bounds is no error.
        products[np.ix_(stated, stated)] = 0.0
        means = np.where(stated, 0.0, means) / standard.scale
        products = products / np.outer(standard.scale, standard.scale)
        u = np.abs(np.append(solution.coef, 1.0))
        moved = np.append(products[:d] @ u + means[:d] * abs(solution.intercept), means @ u)
        reach: Floats = np.abs(back @ solution.inverse) @ moved
        return np.diag(reach**2)

    # --- predicting ---------------------------------------------------------------------------

    def predict(self, X: ArrayLike) -> Floats:
        """Predict the target of the caller's rows.

        Parameters
        ----------
        X : array-like, sparse matrix or table of shape (n_samples, n_features)
            These rows are not clipped.

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        if sparse.issparse(X):
            check_is_fitted(self)
            return np.concatenate([self.predict(block) for block in dense_blocks(X)])
        with np.errstate(over="ignore", invalid="ignore"):
            predicted = products(self._public_array(X), self.coef_[None, :])[:, 0] + self.intercept_
        return np.clip(np.nan_to_num(predicted), -_LARGEST, _LARGEST)


class DPRidge(_LeastSquares):
    """Linear least squares with l2 penalty, from one private second moment.

    The private counterpart of scikit-learn's ``Ridge``, for one target.

    Parameters
    ----------
    alpha : float, default=1.0
        Weight of the penalty ``alpha * ||coef||**2``, as in ``Ridge``; at least 0. In directions
        that noise hides, coefficients are shrunk further (see Notes).
    bounds : "private" or tuple (low, high) or mapping, default="private"
    target_bounds : "private" or tuple (low, high), default="private"
        Range of the target. If either this or `bounds` is not stated, the cost of learning is that
        of all columns and the target.
    weight_bound : float or None, default=None
    epsilon : float, default=1.0
    delta : float or None, default=None
    max_rows_per_unit : int or "private", default="private"
    budget : PrivacyBudget or None, default=None
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients, in the units of X and y.
    intercept_ : float
    coef_std_error_ : ndarray of shape (n_features,)
        Standard error of `coef_` due to noise and, with learned bounds, rows beyond them; relative
        to the coefficients of all rows, clipped to stated bounds only. NaN if noise hides a
        direction, if rows are shortened (see Notes), or if learned bounds cannot be trusted.
    intercept_std_error_ : float
        Standard error of `intercept_`, in the same sense.
    coef_population_std_error_ : ndarray of shape (n_features,)
        Standard error due to noise and sampling, relative to the coefficients of the population, if
        the errors of all rows have the same variance. NaN as above, with a penalty above 0, and if
        a unit may have several rows (`groups`).
    n_samples_ : float
        Number of rows: exact under ``"replace_one"``, where it is public; otherwise noisy.
    bounds_ : tuple of two ndarrays of shape (n_features,)
    target_bounds_ : tuple of two floats
    center_, scale_ : ndarray of shape (n_features + 1,)
        Before rows are clipped, the columns are centred and scaled by these values. The last entry
        is for the target.
    radius_ : float
        The norm to which a centred and scaled row, including its target, is clipped.
    noise_level_ : float
        Noise hides the eigenvalues of the covariance of the scaled columns that are below this
        level.
    n_features_in_, feature_names_in_ : int, ndarray of shape (n_features_in_,)
    max_rows_per_unit_ : int
    privacy_ : skdp.core.PrivacyCertificate

    Raises
    ------
    TypeError, ValueError
        In `fit`, before anything is charged: if a parameter is out of range, if X is not a table of
        finite numbers, or if y is not one finite number for each row.
    BudgetExceededError, SealedBudgetError, LedgerError

    See Also
    --------
    DPLinearRegression : Without a penalty.

    Notes
    -----
    **Privacy.** A row and its target are protected together. *Released*: bounds, if not stated; the
    number of rows, where it is private (2% of the allowance); the sums and sums of squares of all
    columns and the target (10%; skipped if their noise would hide them); then the second moment of
    z = (clipped row, clipped target, constant), as one symmetric matrix. *Sensitivity* of the
    matrix, where gamma is the largest norm of z: if a row is added or removed, gamma**2 in the
    Frobenius norm and in the nuclear norm; if a row is replaced, sqrt(2) gamma**2 in the Frobenius
    norm and 2 gamma**2 in the nuclear norm. *Mechanism*: Gaussian noise, or the symmetrised Wishart
    mechanism, whichever is less. *Charged*: at most (epsilon, delta), once, before any noise, to
    ``budget``.

    **Clipping.** Values are clipped to their bounds. Then rows are centred and scaled, together
    with their targets, and clipped to the norm `radius_`. If the noise is small enough, no row
    within the bounds exceeds it. If noise dominates, long rows are shortened together with their
    targets, which keeps a linear relation through the center, but gives the row less weight. How
    far the coefficients then are from those of all rows is not known, so their errors are NaN. More
    rows, a larger epsilon or narrower bounds help.

    **Weights.** With `sample_weight` the matrix is the second moment of sqrt(v / b) z, where v is
    the clipped weight of a row and b is `weight_bound`. These vectors lie in the same ball, so the
    sensitivity is the same. Noise is as large as for sum(v) / b rows, so state a bound near the
    weights of most rows. Standard errors are relative to the coefficients of all rows with their
    clipped weights. They are NaN with learned bounds; `coef_population_std_error_` is always NaN.

    **Shrinkage.** Let e be the edge of the noise: the largest eigenvalue that noise alone would
    show. In the eigenbasis of the noisy covariance, a direction whose eigenvalue w is well above e
    is divided by w, as in least squares. The other directions are multiplied by w / (w**2 + e**2),
    or by 0 where w is negative.

    References
    ----------
    Wang 2018, "Revisiting differentially private linear regression: optimal and adaptive prediction
    & estimation in unbounded domain", Algorithm 2.

    Dwork, Talwar, Thakurta & Zhang 2014, "Analyze Gauss", Algorithm 1 (here with isotropic noise).

    ``skdp/queries/second_moments.md`` (sensitivities, the symmetrised Wishart mechanism).

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.linear_model import DPRidge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, (20_000, 2))
    >>> y = X @ [2.0, -1.0] + 5 + rng.normal(size=20_000)
    >>> model = DPRidge(bounds=(0, 10), target_bounds=(-10, 30), delta=1e-6).fit(X, y)
    >>> np.abs(model.coef_ - [2.0, -1.0]) < 0.2
    array([ True,  True])
    >>> model.predict([[5.0, 5.0]]).round()
    array([10.])
    """

    _parameter_table: ClassVar[Table] = {
        "alpha": Reals(0, math.inf, "[)"),
        "weight_bound": WEIGHT_BOUND,
    }

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        bounds: Any = "private",
        target_bounds: Any = "private",
        weight_bound: float | None = None,
        epsilon: float = 1.0,
        delta: float | None = None,
        max_rows_per_unit: Any = "private",
        budget: PrivacyBudget | None = None,
        random_state: Any = None,
    ) -> None:
        self.alpha = alpha
        self.bounds = bounds
        self.target_bounds = target_bounds
        self.weight_bound = weight_bound
        self.epsilon = epsilon
        self.delta = delta
        self.max_rows_per_unit = max_rows_per_unit
        self.budget = budget
        self.random_state = random_state


class DPLinearRegression(_LeastSquares):
    """Ordinary least squares, from one private second moment: `DPRidge` without a penalty.

    The private counterpart of scikit-learn's ``LinearRegression``, for one target. Parameters,
    attributes, privacy and errors are those of `DPRidge` with `alpha` = 0.

    Parameters
    ----------
    bounds : "private" or tuple (low, high) or mapping, default="private"
    target_bounds : "private" or tuple (low, high), default="private"
        Range of the target.
    weight_bound : float or None, default=None
    epsilon : float, default=1.0
    delta : float or None, default=None
    max_rows_per_unit : int or "private", default="private"
    budget : PrivacyBudget or None, default=None
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients, in the units of X and y.
    intercept_ : float
    coef_std_error_, coef_population_std_error_ : ndarray of shape (n_features,)
        Standard errors relative to the coefficients of the clipped rows, and to those of the
        population; NaN where they cannot be known. See `DPRidge` for these and all other
        attributes.

    Raises
    ------
    TypeError, ValueError
        In `fit`, before anything is charged: if a parameter is out of range, if X is not a table of
        finite numbers, or if y is not one finite number for each row.
    BudgetExceededError, SealedBudgetError, LedgerError

    See Also
    --------
    DPRidge : With a penalty.

    Notes
    -----
    **Privacy.** *Released*, *Sensitivity*, *Mechanism* and *Charged*: as for `DPRidge`.

    References
    ----------
    Wang 2018, "Revisiting differentially private linear regression", Algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.linear_model import DPLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 1, (20_000, 1))
    >>> y = 3 * X[:, 0] + rng.normal(size=20_000)
    >>> model = DPLinearRegression(bounds=(0, 1), target_bounds=(-5, 8), delta=1e-6).fit(X, y)
    >>> bool(abs(model.coef_[0] - 3) < 5 * model.coef_population_std_error_[0])
    True
    """

    _parameter_table: ClassVar[Table] = {"weight_bound": WEIGHT_BOUND}

    def __init__(
        self,
        *,
        bounds: Any = "private",
        target_bounds: Any = "private",
        weight_bound: float | None = None,
        epsilon: float = 1.0,
        delta: float | None = None,
        max_rows_per_unit: Any = "private",
        budget: PrivacyBudget | None = None,
        random_state: Any = None,
    ) -> None:
        self.bounds = bounds
        self.target_bounds = target_bounds
        self.weight_bound = weight_bound
        self.epsilon = epsilon
        self.delta = delta
        self.max_rows_per_unit = max_rows_per_unit
        self.budget = budget
        self.random_state = random_state
