"""Private principal component analysis: `DPPCA`.

A fit releases the number of rows, where it is private; the centre and the radius of the ball that
rows are clipped to, unless stated; and one noisy matrix, which holds the second moment and the sum
of the rows about the centre.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg, sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from skdp.base import PRIVATE, PrivateMixin, in_precision_of, keeps_precision
from skdp.base.batch_invariant import products
from skdp.base.expected_error import ExpectedErrorMixin
from skdp.core import Ball, Mean, Release, Session
from skdp.parameters import FLAG, FRACTION, Integers, Reals, Table, check_parameter
from skdp.planning import SEMICIRCLE_EDGE, WISHART_EDGE, Allowance, row_count
from skdp.queries import NormBins, SecondMoment, norm_from_bins, row_counts
from skdp.tabular import check_public_array, check_sparse, dense_blocks

__all__ = ["DPPCA"]

Floats = NDArray[np.float64]

# Shares of the fit's allowance (of epsilon, or of mu**2 where noise is Gaussian). The second moment
# takes the remainder.
COUNT_SHARE = 0.02  # a private number of rows: ten times more precise than the Gram's own entry
_RADIUS_SHARES = (0.005, 0.05)  # least and most for a private radius
# Noise hides rows in eight bins of the norm unless they are so many times a count's noise. Few rows
# may need a larger share to be seen.
_SEEN, _SEEN_SHARE = 7.5 * math.sqrt(8), 0.25
_MEAN_SHARES = (0.03, 0.25)  # least and most for a private centre
_MEAN_ERROR = 0.1  # aim: an error of the centre of a tenth of the radius
_MEAN_USELESS = 0.5  # above half the radius a private centre is no better than the origin
_PROBED = 0.1  # above this share for a centre, a third of it tests whether one is needed
_TIGHTEN_SHARE = 0.03  # at most, for a radius inside a stated one
_BLIND = 0.7  # counts with more noise than this part of the rows tell nothing of a radius
_CLEAR_OF_NOISE = 10.6  # standard deviations above which a learned radius counts rows
# The constant feature of the augmented row, as a part of the radius: 2% more noise on the second
# moment; the mean's noise is 1 / (0.15 sqrt(2)) = 4.7 times that of its own release.
TAU = 0.15

# --- shares and clipping, before the data ---------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """Shares of a fit, and how far to clip, from public or released numbers."""

    allowance: Allowance
    dims: int
    n: float
    noise: str

    @property
    def pure(self) -> bool:
        """Whether noise is that of pure differential privacy."""
        return self.allowance.pure

    def edge(self, allowance: Allowance) -> float:
        """Return the edge of the noise on a covariance of rows of norm 1, for this allowance."""
        size = self.dims + 1
        return allowance.spectral_edge(size, allowance.gram_noise(self.noise, size)) / self.n

    @property
    def relative_noise(self) -> float:
        """The noise's edge of a second moment that takes the whole allowance."""
        return self.edge(self.allowance)

    def left(self, center: Floats | None, bound: float | None) -> float:
        """Return the least share of a second moment; refuse a radius that noise would hide."""
        share = 1.0 if self.allowance.replace else 1 - COUNT_SHARE
        if center is None and self.mean_share:
            share -= self.mean_share + self.radius_share
        if bound is not None:
            return share - self.tighten_share
        if not self.sees_rows:
            raise ValueError(
                f"norm_bound must be stated for n_samples = {self.n:g} at epsilon = "
                f"{self.allowance.pure_epsilon:g}: noise would hide where so few rows are, and the "
                "error is in units of what is learned"
            )
        return share - self.radius_share

    @property
    def radius_share(self) -> float:
        """Share for learning a radius.

        The radius covers the bins of the norm whose count is clear of the noise, so a smaller share
        leaves out a longer tail. A radius r costs spectral noise of ``relative_noise * r**2``, and
        a leading component loses about a tenth of the length that rows lose: see `tail`.
        """
        noise = self.allowance.cell_std
        low, high = _RADIUS_SHARES
        power = 1 if self.pure else 2
        share = min(max((_CLEAR_OF_NOISE * noise / self.tail) ** power, low), high)
        return min(max((_SEEN * noise / self.n) ** power, share), _SEEN_SHARE)

    @property
    def sees_rows(self) -> bool:
        """Whether the share of a private radius shows where most rows are."""
        return _SEEN * self.allowance.part(self.radius_share).cell_std <= self.n

    @property
    def tail(self) -> float:
        """Number of rows that a radius may leave out: ten times the noise, at most 30%."""
        return self.n * min(10 * self.relative_noise, 0.3)

    @property
    def tighten_share(self) -> float:
        """Share for a radius inside a stated one, or 0 where its noise would hide all rows."""
        share = min(self.radius_share, _TIGHTEN_SHARE)
        return share if 2 * self.allowance.part(share).cell_std <= _BLIND * self.n else 0.0

    @property
    def probe_share(self) -> float:
        """Part of `mean_share` that tests whether rows are off the origin; 0 if that cannot pay."""
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
        mean = Mean(Ball(np.zeros(self.dims), 1.0))
        return math.sqrt(self.dims) * self.allowance.query_std(mean) / self.n

    @property
    def mean_share(self) -> float:
        """Share for a private centre, or 0 where it would not pay.

        The error of a private mean is about `_mean_factor` of the radius at full share. It grows as
        share**-1/2 under Gaussian noise and as 1 / share under the K-norm mechanism.
        """
        power = 1.0 if self.pure else 0.5
        low, high = _MEAN_SHARES
        share = min(max((self._mean_factor / _MEAN_ERROR) ** (1 / power), low), high)
        return share if self._mean_error(share) <= _MEAN_USELESS else 0.0

    def radius(self, bound: float) -> float:
        """Return the radius to clip to, given a bound on the norms: less where noise dominates.

        Clipping keeps the directions of rows, and shrinks the noise as fast as the second moment.
        So the radius is lowered, to three quarters at most, if the noise's edge is above three
        times the average variance of rows on the sphere.
        """
        excess = self.relative_noise * self.dims
        return bound * (1.0 if excess <= 3 else max(math.sqrt(3 / excess), 0.75))


# --- spectra, after the release -------------------------------------------------------------------


def shrink_to_zero(vector: Floats, std: float) -> Floats:
    """Return a noisy vector after positive-part James-Stein shrinkage towards zero."""
    norm2 = float(vector @ vector)
    if vector.size < 3 or norm2 == 0.0:
        return vector
    return vector * max(0.0, 1 - (vector.size - 2) * std**2 / norm2)


def flip_signs(components: Floats) -> Floats:
    """Make the entry of largest absolute value of every row positive."""
    largest = np.argmax(np.abs(components), axis=1)
    signs = np.sign(components[np.arange(len(components)), largest])
    return components * np.where(signs == 0, 1.0, signs)[:, None]


@dataclass(frozen=True)
class Spectrum:
    """Eigenvectors of a noisy covariance, and the variances that they explain."""

    components: Floats  # (d, d), rows, by decreasing noisy eigenvalue
    variances: Floats  # (d,)
    eigenvalues: Floats  # (d,), noisy
    total: float
    edge: float  # of a semicircle with the variance of the noise

    def number(self, wanted: int | float) -> int:
        """Return the number of components: stated, or enough for a part of the variance."""
        if isinstance(wanted, int):
            return wanted
        parts = np.cumsum(self.variances) / self.total if self.total > 0 else self.variances
        return min(int(np.searchsorted(parts, wanted, side="right")) + 1, self.variances.size)


def explained_by_noisy_vectors(noisy: Floats, total: float, edge: float) -> Floats:
    """Return the variance along each eigenvector of a noisy covariance.

    In spiked models an eigenvalue l shows as w = l + s**2 / l, with an edge of the noise of 2 s,
    and the noisy eigenvector explains l (1 - s**2 / l**2) = sqrt(w**2 - edge**2) (Gavish &
    Donoho 2017). Eigenvectors below the edge are noise, and share the remaining variance equally.
    """
    strong = noisy > edge
    # sqrt(w**2 - edge**2), of which the squares would overflow under the largest norm bounds.
    root = np.sqrt(np.maximum(noisy - edge, 0.0)) * np.sqrt(np.maximum(noisy + edge, 0.0))
    variances = np.where(strong, root, 0.0)
    average = max(total - float(variances.sum()), 0.0) / max(noisy.size - int(strong.sum()), 1)
    # The average may exceed a variance just above the edge; decreasing order is the contract.
    return np.sort(np.where(strong, variances, average))[::-1]


def spectrum_of(
    second_moment: Floats, mean: Floats, n: float, std: float, radius: float
) -> Spectrum:
    """Return the spectrum of M / n - mean mean' (with n - 1 degrees of freedom), never negative.

    M is the released sum of (x - c)(x - c)', with noise `std` in an off-diagonal entry. Norms of x
    - c are at most `radius`, so no covariance has a trace above radius**2 n / (n - 1).
    """
    d = mean.size
    unbiased = n / (n - 1) if n >= 2 else 1.0
    # The division comes first: a sum of squares close to the largest float must not overflow.
    covariance = second_moment / n
    covariance -= np.outer(mean, mean)
    covariance *= unbiased
    covariance = covariance + covariance.T
    covariance /= 2
    # The columns of its transpose, which is the same, lie in memory: it is not copied once more.
    noisy, vectors = linalg.eigh(covariance.T, overwrite_a=True)
    del covariance
    noisy, vectors = noisy[::-1], vectors[:, ::-1]
    edge = 2 * std / n * math.sqrt(d) * unbiased
    largest = radius**2 * unbiased
    total = float(np.clip(noisy.sum(), 0.0, largest))
    variances = explained_by_noisy_vectors(noisy, total, edge)
    if variances.sum() > largest:
        variances = variances * (largest / variances.sum())
    total = max(total, float(variances.sum()))
    return Spectrum(flip_signs(vectors.T), variances, noisy, total, edge)


# --- the estimator --------------------------------------------------------------------------------

_LARGEST_ROW = 1e290  # of the caller's rows: sums of 8192 products stay finite


def _check_center(value: Any, n_features: int) -> Floats | None:
    """Return the stated centre, or None for ``"private"``."""
    if isinstance(value, str) and value == PRIVATE:
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


def _check_components(value: Any, most: int | None = None) -> int | float | None:
    """Return the number of components, a part of the variance, or None for all of them."""
    if isinstance(value, str) and value == "mle":
        raise ValueError(
            "n_components='mle' is not private here: Minka's method needs eigenvalues without "
            "noise. Take a number, a part of the variance such as 0.95, or the n_resolved_ of a "
            "fit with n_components=None"
        )
    n_components: int | float | None = check_parameter(
        value, "n_components", None, Integers(1, most), FRACTION
    )
    return n_components


class DPPCA(
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ExpectedErrorMixin,
    PrivateMixin,
    BaseEstimator,
):
    """Principal component analysis with differential privacy.

    The rows are clipped to a ball. Their second moment and their sum are released as one noisy
    symmetric matrix. The components are the eigenvectors of the covariance that follows from it;
    the variances are corrected for the effects of noise.

    Parameters
    ----------
    n_components : int or float, default=None
        Number of components, at most ``n_features``; None keeps all. A number between 0 and 1 keeps
        as many components as explain more than this part of the released variance; with few rows
        many of them may be noise: compare ``n_resolved_``.
    whiten : bool, default=False
        Divide the transformed coordinates by the square root of ``explained_variance_``.
    center : "private", float or array-like of shape (n_features,), default="private"
        Centre of the ball that rows are clipped to. State it where it is public knowledge (0 after
        a private scaler): a stated centre costs nothing. ``"private"`` learns a centre with 3% to
        25% of the allowance, more where ``epsilon * n`` is smaller; the origin is used if none
        would be useful. Above 10%, a third of the share may first test whether the rows lie off the
        origin at all. ``mean_`` is learned in any case.
    norm_bound : "private" or float, default="private"
        Euclidean norm, in units of X, to which ``x - center`` is clipped. With ``center="private"``
        it bounds the norm of ``x`` itself, and a radius about the private centre is learned too.
        Rows outside are moved onto the sphere, never rejected. ``"private"`` learns the norm with
        at most 5% of the allowance, or up to 25% where rows are few. Where noise dominates, the
        radius in use, ``norm_bound_``, is lower by up to a quarter.
    noise : {"auto", "gaussian", "wishart", "laplace"}, default="auto"
        Noise on the second moment. ``"gaussian"`` needs ``delta > 0``; ``"auto"`` takes it or
        ``"wishart"``, whichever has the smaller spectral norm, and ``"wishart"`` without delta.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal directions, in order of decreasing noisy variance. The largest entry of each (in
        absolute value) is positive.
    explained_variance_ : ndarray of shape (n_components,)
        Estimated variance of the clipped rows along each component.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        ``explained_variance_`` over the estimated total variance (zeros if the total is zero).
    singular_values_ : ndarray of shape (n_components,)
        ``sqrt(explained_variance_ * (n_samples_ - 1))``: an estimate from the released values.
    mean_ : ndarray of shape (n_features,)
        Estimated mean of the clipped rows.
    mean_std_error_ : float
        Standard error due to noise of each coordinate of ``mean_``.
    noise_level_ : float
        Largest eigenvalue that noise alone would show in the covariance, in squared units of X.
        NaN where the radius could not be learned.
    n_resolved_ : int
        Number of components whose noisy eigenvalue exceeds ``noise_level_``, at most
        ``n_components_``; the others are about as good as random directions.
    noise_variance_ : float
        Average variance in the directions that were left out; zero if none were.
    norm_bound_ : float
        Radius of the ball in use. If noise hides all rows, it is the root of the number of
        features, as for standardised rows; ``noise_level_`` is then NaN and ``n_resolved_`` 0.
        State `norm_bound`, or use a larger epsilon.
    center_ : ndarray of shape (n_features,)
        Centre of the ball, stated or learned.
    noise_ : {"gaussian", "wishart", "laplace"}
        Mechanism of the second moment.
    n_samples_ : float
        Number of rows: exact where it is public (replace-one), noisy otherwise.
    n_components_ : int
        Number of components.

    Raises
    ------
    TypeError, ValueError
        ... Also if ``n_components`` is above the number of features, or if `noise` is
        ``"gaussian"`` and `delta` is 0.

    Notes
    -----
    **Privacy.** *Released*, in this order: the number of rows n (exact and free under replace-one,
    else with 2% of the allowance); if no radius is stated, a radius about the centre, from a
    histogram of norms with four bins to each power of two (if one is stated, a histogram of the
    norms below it, with at most 3%); if no centre is stated, the mean of the rows clipped to that
    radius (possibly in two parts, of which the first may show that no centre is needed), and then a
    radius about that mean (only if the mean is further from the origin than half the first radius;
    its share is that of the first radius); with all that is left, the matrix of sums of zz', where
    z = (x - center, 0.15 r) and x is clipped to the radius r. *Sensitivity* of that matrix, with g
    = r**2 (1 + 0.15**2): in the Frobenius norm g if a row is added or removed, sqrt(2) g if a row
    is replaced; in the nuclear norm g and 2 g. *Mechanism*: rounded Gaussian noise, isotropic in
    the Frobenius norm; or the difference of two Wishart matrices, which is pure epsilon-DP; or
    discrete Laplace noise on the upper triangle.

    **Few or odd rows.** No error or warning depends on the values in the rows. There are always
    ``n_components`` orthonormal components, even for a single row or equal rows; those beyond
    ``n_resolved_`` are directions of noise.

    **Variances.** Let e be the edge of the noise: the largest eigenvalue that noise alone would
    show. An eigenvalue w above e counts as ``sqrt(w**2 - e**2)``, the variance that its eigenvector
    explains in expectation. The eigenvalues below e share the remaining trace equally. Without
    noise this is scikit-learn's PCA. The mean is shrunk towards the centre by the James-Stein rule.

    **Expected error.** The largest eigenvalue of the noise on the covariance, in units of the
    square of ``norm_bound_``: about the smallest variance that a component needs to stand out from
    the noise. It needs no rows. For a private centre it assumes the highest possible cost.

    References
    ----------
    Dwork, Talwar, Thakurta & Zhang 2014, "Analyze Gauss: optimal bounds for privacy-preserving
    principal component analysis", Algorithm 1 (Gaussian noise; here with isotropic noise).

    Gavish & Donoho 2017, "Optimal shrinkage of singular values", section 3 (Frobenius loss).

    ``skdp/queries/second_moments.md`` (sensitivities, the symmetrised Wishart mechanism).

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
    >>> round(DPPCA(norm_bound=36.0, center=0, delta=1e-6).expected_error(1797, 64), 3)
    0.039
    """

    n_components: int | float | None = field(default=None, kw_only=False)
    whiten: bool = False
    center: str | float | ArrayLike = "private"
    norm_bound: str | float = "private"
    noise: str = "auto"

    _in_parts = True

    # --- fitting ------------------------------------------------------------------------------

    _parameter_table: ClassVar[Table] = {
        "n_components": lambda value, _: _check_components(value),
        "whiten": FLAG,
        "noise": ("auto", "gaussian", "wishart", "laplace"),
        "norm_bound": (PRIVATE, Reals(1e-100, 1e100)),  # whose squares stay far inside float64
    }

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.noise == "gaussian" and self._allowed_delta == 0:
            raise ValueError(
                "noise='gaussian' needs delta above 0; for delta=0 noise may be 'auto', 'wishart' "
                "or 'laplace'"
            )

    def _noise_of(self, allowance: Allowance, n_features: int | None) -> float:
        if n_features is None or self.noise == "gaussian":
            return math.nan
        noise = "auto" if self.noise == "auto" else self.noise
        # Counts of norms and a mean have small shares, in which pure noise is larger.
        return allowance.part(0.4).spectral_edge(
            n_features, allowance.gram_noise(noise, n_features)
        )

    def _stated_radius(self) -> float | None:
        return None if isinstance(self.norm_bound, str) else float(self.norm_bound)

    def fit(self, X: ArrayLike, y: Any = None, *, groups: Any = None) -> Self:
        """Charge the budget and fit the components.

        Parameters
        ----------
        X : array-like, sparse matrix or table of shape (n_samples, n_features)
            Private rows of finite numbers. The time for sparse rows depends on how many cells they
            store. May be in parts (`skdp.engines`).
        """
        with self._all_or_nothing(groups):
            rows = self._open(X)
            d = rows.n_features
            wanted = _check_components(self.n_components, d)
            stated_center = _check_center(self.center, d)
            stated_bound = self._stated_radius()
            with self._session(rows) as session:
                n = row_count(session, COUNT_SHARE)
                plan = Plan(Allowance.left(session, 1.0), d, n, self.noise)
                center, radius, known = _ball(session, plan, stated_center, stated_bound)
                noise = Allowance.left(session).gram_noise(self.noise, d + 1)
                gram = session.answer(SecondMoment(Ball(center, radius), TAU, noise))
            shift_std = gram.total_std / n
            shift = shrink_to_zero(gram.total / n, shift_std)
            # The mean of rows in a ball is in the ball.
            shift = shift * min(1.0, radius / max(float(np.linalg.norm(shift)), radius))
            spectrum = spectrum_of(gram.second_moment, shift, n, gram.std, radius)
            self.center_, self.norm_bound_ = center, radius
            self.noise_ = gram.noise
            self.n_samples_ = n
            self.mean_ = center + shift
            self.mean_std_error_ = float(shift_std)
            self._keep(spectrum, spectrum.number(d if wanted is None else wanted), n)
            if not known:
                self.noise_level_, self.n_resolved_ = math.nan, 0
        return self

    def _keep(self, spectrum: Spectrum, k: int, n: float) -> None:
        """Set the attributes that depend on the number of components."""
        d = spectrum.variances.size
        variances, total = spectrum.variances[:k].copy(), spectrum.total
        self.n_components_ = k
        self.components_ = spectrum.components[:k].copy()
        self.explained_variance_ = variances
        self.explained_variance_ratio_ = variances / total if total > 0 else np.zeros(k)
        self.singular_values_ = np.sqrt(variances * max(n - 1, 0.0))
        self.noise_variance_ = max(total - float(variances.sum()), 0.0) / (d - k) if k < d else 0.0
        # The spectrum of Wishart noise has longer tails than a semicircle of its variance.
        tails = WISHART_EDGE / SEMICIRCLE_EDGE if self.noise_ == "wishart" else 1.0
        self.noise_level_ = spectrum.edge * tails
        self.n_resolved_ = int(np.sum(spectrum.eigenvalues[:k] > self.noise_level_))

    # --- using the components -----------------------------------------------------------------

    def __sklearn_tags__(self) -> Any:
        tags = keeps_precision(super().__sklearn_tags__())
        tags.input_tags.sparse = True
        return tags

    def _open(self, X: Any, *, reset: bool = True) -> Any:
        if not sparse.issparse(X):
            return super()._open(X, reset=reset)
        self._check_parameters()
        rows = check_sparse(X, **self._entrance)
        validate_data(self, X, reset=reset, skip_check_array=True)
        return rows

    @property
    def _n_features_out(self) -> int:
        """Number of output columns, for the names of the features."""
        return self.components_.shape[0]

    def _scale(self) -> Floats:
        """Return the divisors of whitening; 1 where a component explains nothing."""
        scale = np.sqrt(self.explained_variance_)
        smallest = np.finfo(np.float64).eps * scale.max(initial=0.0)
        return np.where(scale > smallest, scale, 1.0)

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Project the caller's rows on the components.

        Parameters
        ----------
        X : array-like, sparse matrix or table of shape (n_samples, n_features)
            These rows are not clipped. If they are private, so is the result.

        Returns
        -------
        X_new : ndarray of shape (n_samples, n_components)
            float64, or float32 if X is.
        """
        if sparse.issparse(X):
            check_is_fitted(self)
            return np.vstack([self.transform(block) for block in dense_blocks(X)])
        # A huge row must not become NaN here: the next step's error would reveal it.
        values = np.clip(self._public_array(X), -_LARGEST_ROW, _LARGEST_ROW)
        projected = products(values, self.components_)
        projected -= products(self.mean_[None], self.components_)
        if self.whiten:
            with np.errstate(over="ignore"):
                projected /= self._scale()
        return in_precision_of(X, np.clip(projected, -_LARGEST_ROW, _LARGEST_ROW))

    def inverse_transform(self, X: ArrayLike) -> NDArray[Any]:
        """Map projected rows back to the space of the features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
        """
        check_is_fitted(self)
        values = check_public_array(X, **self._entrance)
        if values.shape[1] != self.n_components_:
            raise ValueError(
                f"X must have {self.n_components_} columns, one per component, got "
                f"{values.shape[1]}"
            )
        if self.whiten:
            values = values * self._scale()
        return in_precision_of(X, values @ self.components_ + self.mean_)

    def get_covariance(self) -> Floats:
        """Return the model's covariance: that of the components, and ``noise_variance_`` elsewhere.

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

    def score_samples(self, X: ArrayLike) -> Floats:
        """Return the log-likelihood of the caller's rows under the model's Gaussian.

        Parameters
        ----------
        X : array-like, sparse matrix or table of shape (n_samples, n_features)
            If they are private, so is the result.

        Returns
        -------
        log_likelihood : ndarray of shape (n_samples,)
            Minus infinity if the model has no variance in some direction.
        """
        if sparse.issparse(X):
            check_is_fitted(self)
            return np.concatenate([self.score_samples(block) for block in dense_blocks(X)])
        values = self._public_array(X) - self.mean_
        variances, directions = linalg.eigh(self.get_covariance())
        if variances[0] <= 10 * variances.size * np.finfo(np.float64).eps * variances[-1]:
            return np.full(len(values), -math.inf)
        with np.errstate(over="ignore"):
            distances = np.square(values @ directions / np.sqrt(variances)).sum(axis=1)
        return -0.5 * (distances + np.log(2 * math.pi * variances).sum())

    def score(self, X: ArrayLike, y: Any = None) -> float:
        """Return the mean log-likelihood of the caller's rows, as private as these rows are.

        Returns
        -------
        log_likelihood : float
            0 without rows.
        """
        likelihoods = self.score_samples(X)
        return float(likelihoods.mean()) if likelihoods.size else 0.0

    def _expected_error(self, n: int, d: int, like: Any) -> float:
        plan = Plan(self._allowance(d), d, float(n), self.noise)
        share = plan.left(_check_center(self.center, d), self._stated_radius())
        return plan.edge(plan.allowance.part(share)) * (1 + TAU**2)


def _ball(
    session: Session, plan: Plan, center: Floats | None, bound: float | None
) -> tuple[Floats, float, bool]:
    """Return centre and radius of the rows' ball, stated or learned.

    Also False where noise hides all rows, so that the radius is that of standardised rows.
    """
    first = np.zeros(plan.dims) if center is None else center
    known = True
    if bound is None:
        outer = _norm_bound(session, first, plan.radius_share)
        known = math.isfinite(outer)
        outer = outer if known else math.sqrt(plan.dims)
    else:
        outer = _tightened(session, plan, first, bound)
    if center is not None or not plan.mean_share:
        return first, plan.radius(outer), known
    view = Ball(first, outer)
    mean, std = _center(session.answer(Mean(view), plan.probe_share or plan.mean_share))
    if plan.probe_share:
        if not _is_clear(mean, std, session.pure):
            return first, plan.radius(outer), known
        again, again_std = _center(session.answer(Mean(view), plan.mean_share - plan.probe_share))
        part = std**2 / (std**2 + again_std**2)
        mean, std = mean + part * (again - mean), std * again_std / math.hypot(std, again_std)
    mean = shrink_to_zero(mean, std)
    # A mean close to the origin hardly makes rows shorter, so the first radius is good enough.
    if np.linalg.norm(mean) > outer / 2:
        nearer = _norm_bound(session, mean, plan.radius_share)
        outer = min(outer, nearer) if math.isfinite(nearer) else outer
    return mean, plan.radius(outer), known


def _norm_bound(session: Session, center: Floats, share: Any) -> float:
    """Release a bound on most rows' distance from a centre; NaN if noise hides all rows."""
    bins = NormBins(center)
    counts = session.answer(row_counts(bins, "norm histogram"), share)
    return norm_from_bins(counts.value, float(counts.std), bins.low)


def _center(release: Release) -> tuple[Floats, float]:
    """Return a released mean and the standard deviation of its noise."""
    return np.array(release.value), float(np.mean(release.std))


def _is_clear(mean: Floats, std: float, pure: bool) -> bool:
    """Say whether a noisy mean is longer than noise alone makes it, by two standard deviations.

    The squared length of K-norm noise scatters by 2 / sqrt(d), of Gaussian noise by sqrt(2 / d).
    """
    d = mean.size
    scatter = 2 / math.sqrt(d) if pure else math.sqrt(2 / d)
    return float(mean @ mean) > d * std**2 * (1 + 2 * scatter)


def _tightened(session: Session, plan: Plan, center: Floats, bound: float) -> float:
    """Return a radius within the stated bound, lower where hardly a row is near the bound.

    Steps down by quarter-power bins as long as the rows further out are no more than those that a
    learned radius leaves out, or than noise can hide: clipping too many rows keeps their
    directions, but a radius far beyond all rows multiplies the noise.
    """
    share = plan.tighten_share
    if not share:
        return bound
    # Norms from the bound down to a thousandth of it, the longest rows first.
    bins = NormBins(center, bound, low=-40, high=1, descending=True)
    counts = session.answer(row_counts(bins, "norms below"), share)
    outside = np.cumsum(counts.value)[:-1]
    noise = 2 * float(counts.std) * np.sqrt(np.arange(1, outside.size + 1))
    allowed = outside <= np.maximum(plan.tail, noise)
    steps = int(np.argmin(allowed)) if not allowed.all() else allowed.size
    return bound * 2.0 ** (-max(steps - 1, 0) / 4)
