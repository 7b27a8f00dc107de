"""Private principal component analysis.

Released, under the (epsilon, delta) of one fit: the second moment, the sum and (where it is
private) the number of rows, from one noisy matrix about a centre; before it, unless the caller
states them, the centre and the radius of the ball that the rows are clipped to. Everything that
`DPPCA` shows is computed from these releases and from public parameters.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skdp import kernel
from skdp.base import PrivateMixin, check_integer
from skdp.budget import PrivacyBudget

__all__ = ["DPPCA"]

Floats = NDArray[np.float64]

_LARGEST_ROW = 1e290  # of the caller's rows: sums of 8192 products stay finite
_NOISES = ("auto", "gaussian", "wishart", "laplace")
_PRIVATE = "private"

# Shares of the fit's allowance (of epsilon, or of mu**2 where noise is Gaussian); what is left
# goes to the second moment.
_COUNT_SHARE = 0.02  # a private number of rows: ten times sharper than the Gram's own entry
_RADIUS_SHARES = (0.005, 0.05)  # least and most for a private radius
_SEEN_SHARE = 0.25  # the most, where rows are so few that they would not be seen at all
_SEEN = 7.5 * math.sqrt(8)  # rows in two octaves are seen above so many times a count's noise
_MEAN_SHARES = (0.03, 0.25)  # least and most for a private centre
_MEAN_ERROR = 0.1  # aim: an error of the centre of a tenth of the radius
_MEAN_USELESS = 0.5  # above half the radius a private centre is no better than the origin
_PROBED = 0.1  # above this share for a centre, a third of it says whether one is needed
_TIGHTEN_SHARE = 0.03  # at most, for a radius inside a stated one
_BLIND = 0.7  # of the rows: counts with more noise say nothing of a radius
# Standard deviations that the kernel's radius wants between a count and nothing.
_CLEAR_OF_NOISE = 10.6
# The constant feature of the augmented row, as a part of the radius: 2% more noise on the second
# moment; the mean's noise is 1 / (0.15 sqrt(2)) = 4.7 times what its own release would have.
_TAU = 0.15

# Largest eigenvalue of W1 - W2 over d, W_i Wishart of about d degrees of freedom and scale 1: the
# edge of the free difference of two Marchenko-Pastur laws of ratio 1. Its R-transform is
# 2 z / (1 - z**2), so the edge is the minimum over z in (0, 1) of (1 + z**2) / (z - z**3).
_WISHART_EDGE = math.sqrt((11 + 5 * math.sqrt(5)) / 2)
# A semicircle of the same variance (2 d + 2 off the diagonal) ends earlier.
_SEMICIRCLE_EDGE = math.sqrt(8)


# --- before the data: what noise to expect ----------------------------------------------------


def _matrix_noise_edge(level: float, pure: bool, replace: bool, dims: int, noise: str) -> float:
    """Return about the largest eigenvalue of the noise on a Gram matrix of rows of norm 1.

    Parameters
    ----------
    level : float
        Epsilon of the release, or its mu where ``pure`` is False.
    dims : int
        Number of columns.
    noise : {"gaussian", "wishart", "laplace"}
    """
    epsilon = level if pure else kernel.pure_epsilon_from_mu(level)
    if noise == "gaussian":
        # GOE with off-diagonal variance sigma**2 / 2: edge sigma sqrt(2 dims).
        return (math.sqrt(2) if replace else 1.0) / level * math.sqrt(2 * dims)
    if noise == "wishart":
        return _WISHART_EDGE * dims * (2.0 if replace else 1.0) / (2 * epsilon)
    # Independent entries of standard deviation s: edge 2 s sqrt(dims).
    sensitivity = math.sqrt(dims**2 / 2 + dims + 1) if replace else (dims + 1) / 2
    return 2 * math.sqrt(2) * sensitivity / epsilon * math.sqrt(dims)


def _choose_noise(noise: str, level: float, pure: bool, replace: bool, dims: int) -> str:
    """Return the mechanism: for ``"auto"`` the one of the smaller spectral noise."""
    if noise != "auto":
        return noise
    choices = ["wishart"] if pure else ["gaussian", "wishart"]
    return min(choices, key=lambda name: _matrix_noise_edge(level, pure, replace, dims, name))


@dataclass(frozen=True)
class _Plan:
    """What public numbers decide before a row counts: shares, and how far to clip.

    Parameters
    ----------
    level : float
        Epsilon of the fit, or its mu where ``pure`` is False.
    n : float
        Number of rows, public or released.
    noise : str
        As the estimator's parameter.
    """

    level: float
    pure: bool
    replace: bool
    dims: int
    n: float
    noise: str

    @property
    def relative_noise(self) -> float:
        """The noise's edge on a covariance of rows of norm 1, if all were spent on it."""
        options = (self.level, self.pure, self.replace, self.dims + 1)
        return _matrix_noise_edge(*options, _choose_noise(self.noise, *options)) / self.n

    @property
    def radius_share(self) -> float:
        """Share for learning a radius.

        The kernel's radius covers the quarter octaves of the norm whose noisy count stands clear
        of the noise. A smaller share thus costs less and leaves out a longer tail, which pays
        where noise grows with the radius: r costs spectral noise of ``relative_noise * r**2``,
        and a leading component loses about a tenth of what rows are shortened by. So the tail to
        leave out is ten times ``relative_noise`` of the rows, at most 30%.
        """
        clear = _CLEAR_OF_NOISE * self._count_noise
        low, high = _RADIUS_SHARES
        power = 1 if self.pure else 2
        share = min(max((clear / self.tail) ** power, low), high)
        return min(max((_SEEN * self._count_noise / self.n) ** power, share), _SEEN_SHARE)

    @property
    def sees_rows(self) -> bool:
        """Whether the share of a private radius shows where most rows are."""
        share = self.radius_share if self.pure else math.sqrt(self.radius_share)
        return _SEEN * self._count_noise / share <= self.n

    @property
    def tail(self) -> float:
        """Number of rows that a radius may leave out: see `radius_share`."""
        return self.n * min(10 * self.relative_noise, 0.3)

    @property
    def _count_noise(self) -> float:
        """The noise of a count at the full allowance."""
        moved = (2.0 if self.pure else math.sqrt(2)) if self.replace else 1.0
        return moved * (math.sqrt(2) if self.pure else 1.0) / self.level

    @property
    def tighten_share(self) -> float:
        """Share for a radius inside a stated one, or 0 where its noise would hide all rows."""
        share = min(self.radius_share, _TIGHTEN_SHARE)
        noise = self._count_noise / (share if self.pure else math.sqrt(share))
        return share if 2 * noise <= _BLIND * self.n else 0.0

    @property
    def probe_share(self) -> float:
        """Part of `mean_share` that says whether the rest would pay, or 0: no question.

        Rows that were centred beforehand need no private centre. A third of a large share tells,
        unless its noise would hide a mean of half the radius.
        """
        share = self.mean_share
        if share <= _PROBED:
            return 0.0
        probe = share / 3
        return probe if self._mean_error(probe) <= _MEAN_USELESS else 0.0

    def _mean_error(self, share: float) -> float:
        """Return the error of a private mean, as a part of the radius."""
        return self._mean_factor / share ** (1.0 if self.pure else 0.5)

    @property
    def _mean_factor(self) -> float:
        sensitivity = 2.0 if self.replace else math.sqrt(10) / 3
        spread = math.sqrt(self.dims + 1) if self.pure else 1.0
        return math.sqrt(self.dims) * spread * sensitivity / (self.level * self.n)

    @property
    def mean_share(self) -> float:
        """Share for a private centre, or 0 where it would not pay.

        The error of a private mean of n rows of norm at most r is about factor * r at full share
        (L2 sensitivity 2r, or sqrt(1 + 1/9) r with a private n); it grows as share**-1/2 under
        Gaussian noise and as 1 / share under the K-norm mechanism.
        """
        power = 1.0 if self.pure else 0.5
        low, high = _MEAN_SHARES
        share = min(max((self._mean_factor / _MEAN_ERROR) ** (1 / power), low), high)
        return share if self._mean_error(share) <= _MEAN_USELESS else 0.0

    def radius(self, bound: float) -> float:
        """Return the radius to clip to, given a bound on the norms: less where noise dominates.

        Clipping keeps the directions of rows, and no row's part in the second moment shrinks
        faster than the noise. So where the noise's edge is above three times the average variance
        that rows on the sphere would have, the radius is lowered, to three quarters at most.
        """
        excess = self.relative_noise * self.dims
        return bound * (1.0 if excess <= 3 else max(math.sqrt(3 / excess), 0.75))


# --- after the release: spectra ---------------------------------------------------------------


def _shrink_to_zero(vector: Floats, std: float) -> Floats:
    """Return a noisy vector after positive-part James-Stein shrinkage towards zero."""
    norm2 = float(vector @ vector)
    if vector.size < 3 or norm2 == 0.0:
        return vector
    return vector * max(0.0, 1 - (vector.size - 2) * std**2 / norm2)


def _flip_signs(components: Floats) -> Floats:
    """Make the entry of largest absolute value of every row positive."""
    largest = np.argmax(np.abs(components), axis=1)
    signs = np.sign(components[np.arange(len(components)), largest])
    return components * np.where(signs == 0, 1.0, signs)[:, None]


@dataclass(frozen=True)
class _Spectrum:
    """Eigenvectors of a noisy covariance with the variances they explain."""

    components: Floats  # (d, d), rows, by decreasing noisy eigenvalue
    variances: Floats  # (d,)
    eigenvalues: Floats  # (d,), noisy
    total: float
    edge: float  # of a semicircle with the variance of the noise


def _explained_by_noisy_vectors(noisy: Floats, total: float, edge: float) -> Floats:
    """Return the variance along each eigenvector of a noisy covariance.

    In spiked models an eigenvalue l shows as w = l + s**2 / l, with an edge of the noise of 2 s,
    and the noisy eigenvector explains l (1 - s**2 / l**2) = sqrt(w**2 - edge**2) (Gavish &
    Donoho 2017). An eigenvector below the edge is noise: it explains the average of what the
    others leave.
    """
    strong = noisy > edge
    # sqrt(w**2 - edge**2), of which the squares would overflow under the largest norm bounds.
    root = np.sqrt(np.maximum(noisy - edge, 0.0)) * np.sqrt(np.maximum(noisy + edge, 0.0))
    variances = np.where(strong, root, 0.0)
    rest = max(total - float(variances.sum()), 0.0) / max(noisy.size - int(strong.sum()), 1)
    # The average may exceed a variance just above the edge; decreasing order is the contract.
    return np.sort(np.where(strong, variances, rest))[::-1]


def _spectrum(
    second_moment: Floats, mean: Floats, n: float, std: float, radius: float
) -> _Spectrum:
    """Return the spectrum of M / n - mean mean' (with n - 1 degrees of freedom), never negative.

    Parameters
    ----------
    second_moment : ndarray of shape (d, d)
        Released sum of (x - c)(x - c)'.
    mean : ndarray of shape (d,)
        Of x - c.
    n : float
        At least 1.
    std : float
        Of an off-diagonal entry of ``second_moment``.
    radius : float
        Bound on ||x - c||: no covariance has a trace above radius**2 n / (n - 1).
    """
    d = mean.size
    unbiased = n / (n - 1) if n >= 2 else 1.0
    # The division comes first: a sum of squares close to the largest float must not overflow.
    covariance = (second_moment / n - np.outer(mean, mean)) * unbiased
    noisy, vectors = linalg.eigh((covariance + covariance.T) / 2)
    noisy, vectors = noisy[::-1], vectors[:, ::-1]
    edge = 2 * std / n * math.sqrt(d) * unbiased
    largest = radius**2 * unbiased
    total = float(np.clip(noisy.sum(), 0.0, largest))
    variances = _explained_by_noisy_vectors(noisy, total, edge)
    if variances.sum() > largest:
        variances = variances * (largest / variances.sum())
    total = max(total, float(variances.sum()))
    return _Spectrum(_flip_signs(vectors.T), variances, noisy, total, edge)


# --- parameters -------------------------------------------------------------------------------


def _check_norm_bound(value: Any) -> float | None:
    """Return the stated bound, or None for ``"private"``."""
    if isinstance(value, str) and value == _PRIVATE:
        return None
    # Squares of what is allowed stay far inside the range of float64.
    allowed = "norm_bound must be 'private' or a number from 1e-100 to 1e100"
    if isinstance(value, bool | np.bool_) or not isinstance(value, str | numbers.Real):
        raise TypeError(f"{allowed}, got {type(value).__name__}")
    # Compared as it is: float() of a huge int overflows.
    if not isinstance(value, int | float | np.number) or not 1e-100 <= value <= 1e100:
        raise ValueError(f"{allowed}, got {value!r}")
    return float(value)


def _check_center(value: Any, n_features: int) -> Floats | None:
    """Return the stated centre, or None for ``"private"``."""
    if isinstance(value, str) and value == _PRIVATE:
        return None
    allowed = f"center must be 'private', one finite number, or one per feature ({n_features})"
    try:
        center = np.asarray(value, dtype=np.float64)
    except OverflowError:
        raise ValueError(f"{allowed}, got a value that is not finite") from None
    except (TypeError, ValueError):
        raise TypeError(f"{allowed}, got {type(value).__name__}") from None
    if center.ndim > 1 or (center.ndim == 1 and center.size != n_features):
        raise ValueError(f"{allowed}, got shape {center.shape}")
    if not np.isfinite(center).all():
        raise ValueError(f"{allowed}, got a value that is not finite")
    return np.broadcast_to(center, (n_features,)).copy()


class DPPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateMixin, BaseEstimator):
    """Principal component analysis with differential privacy.

    The rows are clipped to a ball; their second moment and their sum leave it in one noisy
    symmetric matrix, whose centred eigenvectors are the components. The variances are corrected
    for what noise adds to eigenvalues and takes from eigenvectors.

    Parameters
    ----------
    n_components : int, default=None
        Number of components, at most ``n_features``; None keeps all.
    whiten : bool, default=False
        Divide the transformed coordinates by the square root of ``explained_variance_``.
    center : "private", float or array-like of shape (n_features,), default="private"
        Point that the ball of the rows is centred at. State it where it is public knowledge (0
        after a private scaler): a stated centre costs nothing. ``"private"`` learns one with 3%
        to 25% of the allowance, more where ``epsilon * n`` is small, and keeps the origin where
        it is too small for any. Where that is much, a third of it says first whether the rows lie
        off the origin at all; if not, the rest goes to the second moment. ``mean_`` is learned in
        either case.
    norm_bound : "private" or float, default="private"
        Euclidean norm, in units of X, to which ``x - center`` is clipped (``x`` itself with
        ``center="private"``, which learns a radius about the private centre too). Rows
        outside are moved onto the sphere, never rejected. ``"private"`` learns it with at most 5%
        of the allowance. Where noise dominates (by public numbers alone), the radius in use,
        ``norm_bound_``, is lower by up to a quarter.
    noise : {"auto", "gaussian", "wishart", "laplace"}, default="auto"
        Noise on the second moment. ``"gaussian"`` needs ``delta > 0``. ``"auto"``: the smaller
        spectral noise of ``"gaussian"`` and ``"wishart"`` for ``delta > 0``, ``"wishart"`` for
        ``delta = 0``.
    epsilon : float, default=1.0
        Privacy loss of one fit.
    delta : float, default=0.0
        Probability that the loss exceeds epsilon, in the usual sense. Zero: pure epsilon-DP.
        With few features and a large epsilon a pure fit may have less noise; compare
        `expected_error` at both.
    budget : PrivacyBudget, default=None
        Shared budget that is charged; it also sets the neighbouring relation. None: the fit
        stands alone, and one row is replaced between neighbours.
    random_state : int, RandomState instance or None, default=None
        Seeds post-processing only: noise comes from the operating system. Inside
        ``skdp.config_context(noise="seeded")``, for tests and teaching, it seeds the noise as well.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal directions, by decreasing noisy variance; the largest entry of each in
        absolute value is positive.
    explained_variance_ : ndarray of shape (n_components,)
        Estimated variance of the clipped rows along each component.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        ``explained_variance_`` over the estimated total variance (zeros if that is zero).
    singular_values_ : ndarray of shape (n_components,)
        ``sqrt(explained_variance_ * (n_samples_ - 1))``: an estimate from the released values.
    mean_ : ndarray of shape (n_features,)
        Estimated mean of the clipped rows.
    mean_std_error_ : float
        Standard error by noise of a coordinate of ``mean_``.
    noise_level_ : float
        Largest eigenvalue that noise alone would show in the covariance, in squared units of X.
        NaN where the radius could not be learned.
    n_resolved_ : int
        Number of components whose noisy eigenvalue exceeds ``noise_level_``, at most
        ``n_components_``; the others are about as good as random directions.
    noise_variance_ : float
        Average variance in the directions that were left out; zero if none was.
    norm_bound_ : float
        Radius of the ball in use. Where noise hides all rows it cannot be learned: it is the square
        root of the number of features then, as for standardised rows, ``noise_level_`` is NaN and
        ``n_resolved_`` 0. State `norm_bound`, or take more epsilon.
    center_ : ndarray of shape (n_features,)
        Centre of the ball, stated or learned.
    noise_ : {"gaussian", "wishart", "laplace"}
        Mechanism of the second moment.
    n_samples_ : float
        Number of rows: exact where it is public (replace-one), noisy otherwise.
    n_components_ : int
        Number of components.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has names that are strings.
    privacy_ : skdp.kernel.PrivacyCertificate
        What was released, by which mechanism, at which price.

    Raises
    ------
    TypeError, ValueError
        In `fit`, before anything is charged: a parameter out of its range, ``n_components``
        above the number of features, ``noise="gaussian"`` with ``delta=0``, rows that are not
        finite numbers.
    BudgetExceededError, SealedBudgetError, LedgerError
        In `fit`, if the budget cannot grant (epsilon, delta).

    Notes
    -----
    **Privacy.** *Released*: the number of rows n (exact and free under replace-one, else with 2%
    of the allowance); a radius about the centre, if not stated (a histogram of norms by quarter
    octaves; with at most 3%, of norms below a stated one); the mean of the rows clipped to it, if
    no centre is stated (in two parts, where the first may say that none is needed), and then a
    radius about that mean (at most 5% of the allowance; only if the mean is further from the
    origin than half the first radius); the matrix of sums of zz', z = (x - center, 0.15 r) with x
    clipped to the radius r, with all that is left. *Sensitivity* of that matrix, with
    g = r**2 (1 + 0.15**2): Frobenius norm g if a row is added or removed, sqrt(2) g if one is
    replaced; nuclear norm g, respectively 2 g. *Mechanism*: rounded Gaussian noise isotropic in the
    Frobenius norm; or a difference of two Wishart matrices, pure epsilon-DP; or discrete Laplace
    noise on the upper triangle. *Charged*: (epsilon, delta), once, before any noise, to ``budget``.

    **Few or odd rows.** Nothing raises or warns because of what the rows hold. Constant columns,
    one row, fewer rows than features, all rows equal: there are always ``n_components``
    orthonormal components, those beyond ``n_resolved_`` being directions of noise. Rows so few
    that the noise exceeds any possible variance leave variances between zero and twice the square
    of the radius.

    **Variances.** What noise does to eigenvalues is corrected: an eigenvalue w above the noise's
    edge e counts as ``sqrt(w**2 - e**2)``, the variance that its eigenvector explains in
    expectation, and those below the edge share what remains of the trace equally. Without noise
    this is scikit-learn's PCA. The mean is shrunk towards the centre by the James-Stein rule.

    The output of ``transform`` on private rows is as private as these rows are.

    References
    ----------
    Dwork, Talwar, Thakurta & Zhang 2014, "Analyze Gauss: optimal bounds for privacy-preserving
    principal component analysis", Algorithm 1 (Gaussian noise; here with isotropic noise).

    Gavish & Donoho 2017, "Optimal shrinkage of singular values", section 3 (Frobenius loss).

    ``skdp/kernel/README.md``, "Gram matrix" (sensitivities, the symmetrised Wishart mechanism).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdp import DPPCA
    >>> X = load_digits().data
    >>> pca = DPPCA(10, norm_bound=80.0, delta=1e-6, random_state=0).fit(X)
    >>> pca.transform(X).shape
    (1797, 10)
    >>> pca.noise_
    'gaussian'
    >>> pca.privacy_.epsilon
    1.0
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        whiten: bool = False,
        center: str | float | ArrayLike = "private",
        norm_bound: str | float = "private",
        noise: str = "auto",
        epsilon: float = 1.0,
        delta: float = 0.0,
        budget: PrivacyBudget | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.whiten = whiten
        self.center = center
        self.norm_bound = norm_bound
        self.noise = noise
        self.epsilon = epsilon
        self.delta = delta
        self.budget = budget
        self.random_state = random_state

    # --- fitting ------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        """Refuse parameters that no X makes valid."""
        self._check_privacy_parameters()
        if self.n_components is not None:
            check_integer(self.n_components, "n_components", low=1)
        if not isinstance(self.whiten, bool | np.bool_):
            raise TypeError(f"whiten must be a bool, got {type(self.whiten).__name__}")
        if self.noise not in _NOISES:
            raise ValueError(f"noise must be one of {_NOISES}, got {self.noise!r}")
        if self.noise == "gaussian" and self.delta == 0:
            raise ValueError(
                "noise='gaussian' needs delta above 0; for delta=0 noise may be 'auto', 'wishart' "
                "or 'laplace'"
            )
        _check_norm_bound(self.norm_bound)

    def _check_without_rows(self) -> None:
        self._check_parameters()

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Charge the budget and fit the components.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Private rows, finite numbers.
        y : None
            Ignored.

        Returns
        -------
        self : DPPCA
        """
        with self._all_or_nothing():
            self._check_parameters()
            rows = self._open(X)
            d = rows.n_features
            k = d
            if self.n_components is not None:
                k = check_integer(self.n_components, "n_components", low=1, high=d)
            stated_center = _check_center(self.center, d)
            stated_bound = _check_norm_bound(self.norm_bound)
            with self._session(rows) as session:
                n = max(1.0, float(session.row_count(_COUNT_SHARE).value))
                replace = session.adjacency == "replace_one"
                plan = _Plan(session.level(1.0), session.pure, replace, d, n, self.noise)
                center, radius, known = _ball(session, plan, stated_center, stated_bound)
                level = session.level(session.rest)
                noise = _choose_noise(self.noise, level, session.pure, replace, d + 1)
                gram = session.answer(
                    kernel.SecondMoment(session.ball(center, radius), _TAU, noise)
                )
                self.privacy_ = session.certificate()
            shift_std = gram.total_std / n
            shift = _shrink_to_zero(gram.total / n, shift_std)
            # The mean of rows in a ball is in the ball.
            shift = shift * min(1.0, radius / max(float(np.linalg.norm(shift)), radius))
            spectrum = _spectrum(gram.second_moment, shift, n, gram.std, radius)
            self.center_, self.norm_bound_ = center, radius
            self.noise_ = gram.noise
            self.n_samples_ = n
            self.mean_ = center + shift
            self.mean_std_error_ = float(shift_std)
            self._keep(spectrum, k, n)
            if not known:
                self.noise_level_, self.n_resolved_ = math.nan, 0
        return self

    def _keep(self, spectrum: _Spectrum, k: int, n: float) -> None:
        """Set the attributes that depend on the number of components."""
        d = spectrum.variances.size
        kept = spectrum.variances[:k]
        self.n_components_ = k
        self.components_ = spectrum.components[:k].copy()
        self.explained_variance_ = kept.copy()
        total = spectrum.total
        self.explained_variance_ratio_ = kept / total if total > 0 else np.zeros(k)
        self.singular_values_ = np.sqrt(kept * max(n - 1, 0.0))
        self.noise_variance_ = max(total - float(kept.sum()), 0.0) / (d - k) if k < d else 0.0
        # The spectrum of Wishart noise has longer tails than a semicircle of its variance.
        tails = _WISHART_EDGE / _SEMICIRCLE_EDGE if self.noise_ == "wishart" else 1.0
        self.noise_level_ = spectrum.edge * tails
        self.n_resolved_ = int(np.sum(spectrum.eigenvalues[:k] > self.noise_level_))

    # --- using the components -----------------------------------------------------------------

    @property
    def _n_features_out(self) -> int:
        """Number of output columns, for the names of the features."""
        return self.components_.shape[0]

    def _scale(self) -> Floats:
        """Return what whitening divides by; one where a component explains nothing."""
        scale = np.sqrt(self.explained_variance_)
        smallest = np.finfo(np.float64).eps * scale.max(initial=0.0)
        return np.where(scale > smallest, scale, 1.0)

    def transform(self, X: ArrayLike) -> Floats:
        """Project the caller's rows on the components.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Not clipped. If they are private, so is the result.

        Returns
        -------
        X_new : ndarray of shape (n_samples, n_components)
        """
        # A huge row must not become NaN here: the next step's error would tell of it.
        values = np.clip(self._public_array(X), -_LARGEST_ROW, _LARGEST_ROW)
        projected = values @ self.components_.T - self.mean_ @ self.components_.T
        if self.whiten:
            with np.errstate(over="ignore"):
                projected /= self._scale()
        return np.clip(projected, -_LARGEST_ROW, _LARGEST_ROW)

    def inverse_transform(self, X: ArrayLike) -> Floats:
        """Return to the space of the features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)

        Returns
        -------
        X_original : ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        values = kernel.check_public_array(
            X, estimator=type(self).__name__, allow_empty=self._allow_empty
        )
        if values.shape[1] != self.n_components_:
            raise ValueError(
                f"X must have {self.n_components_} columns, one per component, got "
                f"{values.shape[1]}"
            )
        if self.whiten:
            values = values * self._scale()
        return values @ self.components_ + self.mean_

    def get_covariance(self) -> Floats:
        """Return the model's covariance: the components, and ``noise_variance_`` elsewhere.

        Returns
        -------
        covariance : ndarray of shape (n_features, n_features)
            Positive semidefinite.
        """
        check_is_fitted(self)
        excess = np.maximum(self.explained_variance_ - self.noise_variance_, 0.0)
        covariance = (self.components_.T * excess) @ self.components_
        covariance[np.diag_indices_from(covariance)] += self.noise_variance_
        return covariance

    def get_precision(self) -> Floats:
        """Return the inverse of the model's covariance (pseudo-inverse where it is singular).

        Returns
        -------
        precision : ndarray of shape (n_features, n_features)
        """
        precision: Floats = linalg.pinvh(self.get_covariance())
        return precision

    def expected_error(
        self, n_samples: int, n_features: int | None = None, *, like: Any = None
    ) -> float:
        """Return about the smallest variance that a component needs to stand out of the noise.

        Unit: the square of ``norm_bound_``, the radius in use (which is learned, or lowered inside
        a stated bound). It is the largest eigenvalue of the noise on the covariance
        (``noise_level_ / norm_bound_**2`` of a fit) and needs no rows. Nothing is fitted, read or
        charged: it answers whether epsilon is enough. For a private centre it counts all that a
        centre may cost.

        Parameters
        ----------
        n_samples : int
            Number of rows, as far as it is public.
        n_features : int, default=None
            Needed before `fit`, unless `like` has it; ``n_features_in_`` afterwards.
        like : array-like of shape (n, n_features) or fitted DPPCA, default=None
            Public rows or an earlier fit, of which the number of columns is taken.

        Returns
        -------
        error : float

        Examples
        --------
        >>> from skdp import DPPCA
        >>> round(DPPCA(norm_bound=36.0, center=0, delta=1e-6).expected_error(1797, 64), 3)
        0.039
        """
        self._check_parameters()
        n, d = self._sizes(n_samples, n_features, like=like)
        replace = self._adjacency == "replace_one"
        cost = self.privacy_cost(n, d)
        pure = cost.mu is None
        full = float(self.epsilon) if pure else float(cost.mu or 0.0)
        plan = _Plan(full, pure, replace, d, float(n), self.noise)
        share = 1.0 if replace else 1 - _COUNT_SHARE
        if _check_center(self.center, d) is None and plan.mean_share:
            share -= plan.mean_share + plan.radius_share
        stated = _check_norm_bound(self.norm_bound) is not None
        if not (stated or plan.sees_rows):
            raise ValueError(
                f"norm_bound must be stated for n_samples = {n} at epsilon = {self.epsilon:g}: "
                "noise would hide where so few rows are, and the error is in units of what is "
                "learned"
            )
        share -= plan.tighten_share if stated else plan.radius_share
        level = full * (share if pure else math.sqrt(share))
        noise = _choose_noise(self.noise, level, pure, replace, d + 1)
        edge = _matrix_noise_edge(level, pure, replace, d + 1, noise) * (1 + _TAU**2)
        return edge / n


def _ball(
    session: kernel.Session, plan: _Plan, center: Floats | None, bound: float | None
) -> tuple[Floats, float, bool]:
    """Return centre and radius of the rows' ball, stated or learned, and whether it is known.

    Every decision is made on public values and on releases that the session has paid for. Where
    noise hides all rows, the radius is that of standardised ones.
    """
    first = np.zeros(plan.dims) if center is None else center
    known = True
    if bound is None:
        outer = session.answer(kernel.NormBound(first), plan.radius_share)
        known = math.isfinite(outer)
        outer = outer if known else math.sqrt(plan.dims)
    else:
        outer = _tightened(session, plan, first, bound)
    if center is not None or not plan.mean_share:
        return first, plan.radius(outer), known
    view = session.ball(first, outer)
    mean, std = _center(session.answer(kernel.Mean(view), plan.probe_share or plan.mean_share))
    if plan.probe_share:
        if not _is_clear(mean, std, session.pure):
            return first, plan.radius(outer), known
        again, again_std = _center(
            session.answer(kernel.Mean(view), plan.mean_share - plan.probe_share)
        )
        part = std**2 / (std**2 + again_std**2)
        mean, std = mean + part * (again - mean), std * again_std / math.hypot(std, again_std)
    mean = _shrink_to_zero(mean, std)
    # Rows about a mean close to the origin are hardly shorter than about the origin.
    if np.linalg.norm(mean) > outer / 2:
        nearer = session.answer(kernel.NormBound(mean), plan.radius_share)
        outer = min(outer, nearer) if math.isfinite(nearer) else outer
    return mean, plan.radius(outer), known


def _center(release: kernel.Release) -> tuple[Floats, float]:
    """Return a released mean and the standard deviation of its noise."""
    return np.array(release.value), float(np.mean(release.std))


def _is_clear(mean: Floats, std: float, pure: bool) -> bool:
    """Say whether a noisy mean is longer than noise alone makes it, by two standard deviations.

    The squared length of K-norm noise scatters by 2 / sqrt(d), of Gaussian noise by sqrt(2 / d).
    """
    d = mean.size
    scatter = 2 / math.sqrt(d) if pure else math.sqrt(2 / d)
    return float(mean @ mean) > d * std**2 * (1 + 2 * scatter)


def _tightened(session: kernel.Session, plan: _Plan, center: Floats, bound: float) -> float:
    """Return a radius within the stated bound, lower where hardly a row is near the bound.

    Steps down by quarter octaves as long as the rows further out are no more than those that a
    learned radius leaves out, or than noise can tell from none, however much noise there is:
    clipping too many rows keeps their directions, while a radius far beyond all rows multiplies the
    noise. (Standardised breast cancer at epsilon = 1, bound 100, pure replace-one: .75 of the
    variance; .20 where steps end as soon as noise could hide most rows.)
    """
    share = plan.tighten_share
    if not share:
        return bound
    counts = session.answer(kernel.NormsBelow(center, bound), share)
    beyond = np.cumsum(counts.value)[:-1]
    noise = 2 * float(counts.std) * np.sqrt(np.arange(1, beyond.size + 1))
    allowed = beyond <= np.maximum(plan.tail, noise)
    steps = int(np.argmin(allowed)) if not allowed.all() else allowed.size
    return bound * 2.0 ** (-max(steps - 1, 0) / 4)
