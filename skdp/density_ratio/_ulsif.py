"""DPuLSIF: private least-squares importance fitting, with every variant of its source.

The mean of kernel values (or of a bounded basis) over the private rows is released, with noisy
centres where these come from the private rows. One variant, asked for by its name, publishes raw
private rows. Ridge and bandwidth are chosen from the release.
"""

from __future__ import annotations

import contextlib
import copy
import math
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    OneHotEncoder,
    PolynomialFeatures,
    SplineTransformer,
)

from skdp.base import check_bounds, check_integer, refuse_units
from skdp.base.expected_error import NOISELESS, Fresh, check_like, mean_error, resampled
from skdp.base.nystroem import (
    LEAST_SIGNAL,
    Features,
    independent_features,
    nystroem_features,
)
from skdp.budget import Cost, PrivacyBudget
from skdp.core import Box, Release, Session, UserFunction
from skdp.density_ratio._ratio import (
    LARGEST_WEIGHT,
    DensityRatio,
    check_candidates,
    documented,
    effective_sample_size,
    rate_of,
)
from skdp.exceptions import PublishedRowsWarning, warn_caller
from skdp.loss.conversions import round_up
from skdp.parameters import Integers, Reals, Table, check_parameter
from skdp.planning import Allowance, row_count
from skdp.queries import (
    KernelMap,
    KernelMean,
    NoisySample,
    PublishedRows,
    basis_mean,
    feature_means,
    whitened_mean,
)
from skdp.tabular import as_dense, check_public_array
from skdp.user_code import suppress_warnings

Floats = NDArray[np.float64]

_RIDGES = (1e-8, 1e8)
_ALPHAS = np.logspace(-4, 2, 13)  # private choice of the ridge
_COUNT_SHARE = 0.02  # for a private number of private rows, which plans
_CENTERS_SHARE = 0.5  # as the source: half for the noisy centres, half for the means
_TYPICAL_FEATURES = 20  # their number, for the choice between K-norm and Gaussian noise
_MAX_CENTERS = 2000
_TRIED_ROWS = 2048  # public rows on which leaving one out is tried
_BLOCK_VALUES = 2**20

# --- feature values of public rows ----------------------------------------------------------------


@dataclass
class KernelValues:
    """Kernel values at public (or released) centres, scale by scale."""

    map: KernelMap
    gammas: Floats

    def chunks(self, values: Floats) -> Iterator[tuple[slice, Floats]]:
        """Yield the features of the caller's rows, block by block."""
        step = max(1, _BLOCK_VALUES // self.map.n_dims)
        for start in range(0, len(values), step):
            part = slice(start, start + step)
            yield part, self.map.evaluate(values[part])


# Transformers that give a row the same bits in every block, which may therefore be mapped at once.
_ELEMENTWISE = (KBinsDiscretizer, OneHotEncoder, PolynomialFeatures, SplineTransformer)


def is_elementwise(transformer: Any) -> bool:
    """Tell whether a transformer gives a row the same bits in every block."""
    if type(transformer) is Pipeline:
        return all(is_elementwise(step) for _, step in transformer.steps)
    if type(transformer) is FeatureUnion:
        return all(is_elementwise(step) for _, step in transformer.transformer_list)
    if type(transformer) is ColumnTransformer:
        steps = [step for _, step, _ in transformer.transformers]
        return all(is_elementwise(step) for step in [*steps, transformer.remainder])
    if isinstance(transformer, str):
        return transformer in ("drop", "passthrough")
    return type(transformer) in _ELEMENTWISE


@dataclass
class BasisValues:
    """Outputs of a public transformer, clipped to their stated bounds (b,).

    The transformer is fitted on the public rows. Every call gets a copy of it, so it remembers no
    row. It gets new tables of float64 with the names of the columns, so no type, category or index
    of the caller's table, which holds private rows too, reaches it.
    """

    transformer: Any
    low: Floats
    high: Floats
    columns: list[str] | None

    gammas = np.array([math.nan])

    def transforming(self) -> Callable[[Floats], Any]:
        """Return a function that maps rows with a fresh copy of the transformer each time."""
        fresh = copier(self.transformer)
        return lambda values: fresh().transform(as_table(values, self.columns))

    def chunks(self, values: Floats) -> Iterator[tuple[slice, Floats]]:
        """Yield the features of the caller's rows, mapped as private rows are, block by block."""
        transform = self.transforming()
        step = max(1, _BLOCK_VALUES // max(len(self.low), values.shape[1]))
        with suppress_warnings():
            for start in range(0, len(values), step):
                part = slice(start, start + step)
                yield part, self._outputs(transform, values[part])

    def _outputs(self, transform: Callable[[Floats], Any], values: Floats) -> Floats:
        """Return clipped features; a row that fails has the middle of the bounds."""
        outputs = None
        with contextlib.suppress(Exception):
            outputs = dense(transform(values.copy()))
        if outputs is None or outputs.shape != (len(values), len(self.low)):
            if len(values) > 1:
                parts = [self._outputs(transform, values[i : i + 1]) for i in range(len(values))]
                return np.concatenate(parts)
            outputs = np.full((len(values), len(self.low)), math.nan)
        failed = ~np.isfinite(outputs).all(axis=1)
        outputs = np.clip(outputs, self.low, self.high)
        outputs[failed] = self.low / 2 + self.high / 2
        return outputs


def copier(transformer: Any) -> Callable[[], Any]:
    """Return a function that gives a fresh copy of a fitted transformer; TypeError if none can."""
    with contextlib.suppress(Exception):  # a lambda inside, or whatever a class refuses with
        pickled = pickle.dumps(transformer)
        pickle.loads(pickled)
        return lambda: pickle.loads(pickled)
    with contextlib.suppress(Exception):
        copy.deepcopy(transformer)
        return lambda: copy.deepcopy(transformer)
    raise TypeError("basis must be a transformer that can be pickled or copied")


def as_table(values: Floats, columns: list[str] | None) -> Any:
    """Return rows as a new array or, with names, as a new pandas table; all float64."""
    values = np.array(values, dtype=np.float64, order="C")
    if columns is None:
        return values
    # A table of pandas exists only if pandas has been imported.
    return sys.modules["pandas"].DataFrame(values, columns=columns)


def dense(output: Any) -> Floats:
    """Return a transformer's output as a float array."""
    return np.array(as_dense(output, "the output of basis"), dtype=np.float64)


def fit_basis(basis: Any, bounds: Any, X: Any, public: Floats) -> BasisValues | None:
    """Fit a clone of a basis on the public rows only, and check its stated bounds.

    Of X, which the caller passed, only the names of the columns are used.
    """
    if basis is None:
        return None
    known = hasattr(basis, "fit") and hasattr(basis, "transform")
    if isinstance(basis, type) or not known:
        raise TypeError(f"basis must be a transformer or None, got {type(basis).__name__}")
    inside = [basis, *getattr(basis, "get_params", dict)().values()]
    if any(hasattr(part, "privacy_cost") or isinstance(part, PrivacyBudget) for part in inside):
        raise ValueError("basis must be a transformer that spends no privacy budget")
    columns = list(X.columns) if hasattr(X, "iloc") and hasattr(X, "columns") else None
    with suppress_warnings():
        fitted = clone(basis).fit(as_table(public, columns))
        outputs = dense(copier(fitted)().transform(as_table(public, columns)))
    if outputs.ndim != 2 or len(outputs) != len(public) or outputs.shape[1] == 0:
        raise ValueError("basis must give one row of features for every row")
    text = (
        "basis_bounds must be a pair (low, high) of numbers within 1e9 of 0, or of one number "
        f"for each of the {outputs.shape[1]} outputs of basis, low <= high"
    )
    try:
        pair = check_bounds(bounds, outputs.shape[1])
    except (TypeError, ValueError):
        raise ValueError(text) from None
    if pair is None or max(np.abs(side).max() for side in pair) > 1e9:
        raise ValueError(text)
    return BasisValues(fitted, *pair, columns)


@dataclass
class PublicMoments:
    """Moments of the public rows' features, and the features of some rows."""

    second: Floats
    first: Floats
    tried: Floats
    n: int


def public_moments(features: KernelValues | BasisValues, values: Floats) -> PublicMoments:
    """Return moments of the public rows' features, computed in blocks."""
    n = len(values)
    tried = np.unique(np.linspace(0, n - 1, min(n, _TRIED_ROWS)).astype(np.intp))
    second: Any = 0.0
    first: Any = 0.0
    rows = []
    for part, block in features.chunks(values):
        second = second + block.T @ block
        first = first + block.sum(axis=0)
        inside = tried[(tried >= part.start) & (tried < part.stop)] - part.start
        rows.append(block[inside])
    return PublicMoments(second / n, first / n, np.vstack(rows), n)


# --- least squares on released moments ------------------------------------------------------------

# The model is w(x) = w0 + a.f(x) with features f; the criterion is J(w) = E_public[w**2] / 2 -
# E_private[w] (Kanamori, Hido & Sugiyama 2009, eq. 5), whose only private part is h, the mean of
# the features over the private rows. The public part is exact; h is known up to noise of a known
# covariance, which the criterion takes into account. So ridge and features are chosen by it as
# post-processing, at no cost.

# A ridge is judged by J plus so many standard deviations of the noise in J, lest a small ridge
# wins by luck: where both samples were alike and noise was strong, the worst tenth of the
# weights was half as wrong as with 0; 0.5 and more shrank too much elsewhere.
CAUTION = 0.25


@dataclass(frozen=True)
class Moments:
    """Moments of both samples, for one set of features f.

    `second` (b, b) and `first` (b,) are means of f f' and f over `n_public` public rows (H of the
    source), `rows` (m, b) features of some of these, on which leaving one out is tried. `private`
    (b,) is the released mean of f over `n_private` private rows (h of the source); the noise in it
    is noise @ z, z of mean 0 and covariance I.
    """

    second: Floats
    first: Floats
    rows: Floats
    n_public: int
    private: Floats
    noise: Floats
    n_private: float


def solve(moments: Moments, alpha: float, baseline: float) -> tuple[Floats, Floats]:
    """Return the minimiser a of J(w0 + a.f) + alpha |a|**2 / 2, and the matrix of its noise.

    With w0 = 0 it is uLSIF's (H + alpha I)^-1 h, eq. 15 of the source before truncation. The noise
    in a is matrix @ z, z of mean 0 and covariance I.
    """
    values, basis = np.linalg.eigh(moments.second)  # a ridge on top of it is never singular
    inverse = 1.0 / (np.maximum(values, 0.0) + alpha)
    sides = np.column_stack([moments.private - baseline * moments.first, moments.noise])
    solved = basis @ (inverse[:, None] * (basis.T @ sides))
    return solved[:, 0], solved[:, 1:]


def criterion(moments: Moments, alphas: Floats, baseline: float) -> tuple[Floats, Floats]:
    """Return the leave-one-out criterion J of every ridge, and its standard deviation; low is good.

    Leaving a public row out changes the public moments by a rank one term, so that one
    eigendecomposition serves all (Sherman & Morrison). With h + e for h, E[e] = 0 and Cov(e) = S,
    the term -h'a is too small by tr(A^-1 S), A = H + alpha I: the private rows would judge
    themselves. So that trace is added (Mallows' Cp), with S the covariance of the noise plus that
    of sampling, which is estimated under the fitted weights on the public rows. In directions in
    which public rows vary less than the noise, h'a counts as 0, a little too little gain, because
    the difference of two huge traces would decide otherwise.

    To second order J is -g'B g up to constants, g the noisy side of the normal equations and B =
    A^-1 - A^-1 H A^-1 / 2; noise of covariance S gives it the variance 2 tr(BSBS) + 4 g'BSBg.
    """
    n = moments.n_public
    others = max(n - 1, 1)
    values, basis = np.linalg.eigh(moments.second)
    values = np.maximum(values, 0.0)
    rows = moments.rows @ basis
    private = moments.private @ basis
    # h minus the public mean without row i is start + baseline f_i / (n - 1).
    start = private - baseline * (moments.first @ basis) * (n / others)
    noise = basis.T @ moments.noise
    seen = values >= LEAST_SIGNAL**2 * np.square(noise).sum(axis=1)
    own_noise = noise * seen[:, None]
    side = private - baseline * (moments.first @ basis)
    result, std = np.empty(len(alphas)), np.empty(len(alphas))
    for k, alpha in enumerate(alphas):
        inverse = 1.0 / (values * (n / others) + alpha)
        scaled = rows * inverse
        leverage = np.minimum(np.einsum("ij,ij->i", scaled, rows) / others, 1 - 1e-9)
        gain = 1.0 / (others * (1.0 - leverage))
        fit = scaled @ start + baseline * leverage  # f_i' A^-1 (h - public mean without row i)
        own = scaled @ (private * seen)
        left_out = fit / (1.0 - leverage)
        linear = (private * seen) @ (inverse * start) + own * (baseline / others + fit * gain)
        weights = np.maximum(baseline + left_out, 0.0)
        total = weights.sum()
        spread = 0.0
        if total > 0:
            weights /= total
            mean = weights @ rows
            variance = weights @ rows**2 - mean**2
            spread = float(inverse @ np.maximum(variance, 0.0)) / moments.n_private
        trace = float(np.sum(inverse[:, None] * own_noise**2))
        products = np.einsum("ij,ij->i", scaled @ noise, scaled @ own_noise)
        trace += float(np.mean(products * gain))
        quadratic = 0.5 * np.mean((baseline + left_out) ** 2)
        result[k] = quadratic - baseline - np.mean(linear) + trace + spread
        form = inverse * (1.0 - 0.5 * values * inverse)  # B, diagonal here
        inner = own_noise.T @ (form[:, None] * own_noise)  # tr(BSBS) = |N'BN|**2, S = NN'
        linear_part = np.square(own_noise.T @ (form * side)).sum()
        std[k] = np.sqrt(2.0 * np.square(inner).sum() + 4.0 * linear_part)
    return result, std


def choose(every: Sequence[Moments], alphas: Floats, baseline: float) -> tuple[int, float]:
    """Return the best features and ridge by the criterion; the largest ridge if it cannot tell."""
    best = (math.inf, 0, float(alphas.max()))
    if len(every) == len(alphas) == 1:
        return best[1:]
    for j, moments in enumerate(every):
        loss, std = criterion(moments, alphas, baseline)
        values = loss + CAUTION * std
        k = int(np.argmin(values))
        if values[k] < best[0]:
            best = (float(values[k]), j, float(alphas[k]))
    return best[1:]


def median_distance(rows: Floats) -> float:
    """Return the median Euclidean distance of distinct rows; 1 if all are the same."""
    unit = float(np.abs(rows).max(initial=0.0)) or 1.0
    rows = rows / unit  # squares of huge rows would overflow
    square = np.einsum("ij,ij->i", rows, rows)
    distances = square[:, None] + square - 2.0 * (rows @ rows.T)
    scale = float(square.max(initial=0.0)) * 1e-12
    distances = distances[np.triu_indices(len(rows), 1)]
    positive = distances[distances > scale]
    return float(np.sqrt(np.median(positive))) * unit if positive.size else 1.0


# --- centers and rates of kernels -----------------------------------------------------------------

PUBLISHED = "published_private_rows"
_SCALES = (1.0, 0.5)  # private choice of the bandwidth: these times the median public distance


def stated_centers(centers: Any, n_features: int, most: int) -> Floats | None:
    """Return centres that the user states, or None for a word."""
    if isinstance(centers, str):
        return None
    try:
        stated = np.asarray(centers, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        stated = np.zeros(())
    good = stated.ndim == 2 and 0 < len(stated) <= most and stated.shape[1] == n_features
    if not good or not np.isfinite(stated).all():
        raise ValueError(
            "centers must be 'public', 'noisy', an array of shape (n_centers, n_features) of "
            f"finite numbers, or {PUBLISHED!r}"
        )
    return stated


def rates_of(gamma: Any, kernel: str, public: Floats) -> Floats:
    """Return the rates to choose from, ascending; they depend on public rows only."""
    stated = check_candidates(gamma, "gamma")
    if stated is not None:
        return np.unique(stated)
    sample = np.unique(np.linspace(0, len(public) - 1, min(len(public), 500)).astype(np.intp))
    typical = median_distance(public[sample])
    rates = 1.0 / (np.array(_SCALES) * min(max(typical, 1e-100), 1e100))
    return rates if kernel == "laplacian" else 0.5 * rates**2


# --- the estimator --------------------------------------------------------------------------------


@documented
class DPuLSIF(DensityRatio, BaseEstimator):
    """Private density ratio of a private and a public sample, by least squares (uLSIF).

    Estimates the importance weights w(x) = p_private(x) / p_public(x).
    {two_samples}

    Parameters
    ----------
    centers : str or array of shape (n_centers, n_features), default="public"
        Centres of the kernel. ``"public"``: rows of the public sample (variant B of the source). An
        array: public points of your own. ``"noisy"``: private rows with noise (variant A), for half
        of the allowance. ``"published_private_rows"`` (variant C) **publishes raw private rows**:
        use it only to reproduce experiments. Whoever is among the centres has no privacy.
    n_centers : int, default=100
        Number of centres, 1 to 2000. If there are fewer public rows (under ``"replace_one"`` also
        if there are fewer private rows), their number.
    kernel : {"rbf", "laplacian"}, default="rbf"
        ``exp(-gamma * squared Euclidean distance)`` or ``exp(-gamma * L1 distance)``.
    gamma : "private", float or sequence of floats, default="private"
        Rate of the kernel, 1e-300 to 1e300. From several (at most 8), the criterion chooses one by
        the release: this costs no privacy, but noise grows with the root of their number.
        ``"private"`` offers two bandwidths: the median distance of public rows, and half of it.
    alpha : "private", float or sequence of floats, default="private"
        Ridge, 1e-8 to 1e8. From several (at most 100), the criterion chooses one, at no further
        cost. ``"private"`` offers 1e-4 to 100.
    basis : transformer or None, default=None
        The parametric variant: features instead of kernels, such as ``PolynomialFeatures`` on
        bounded columns, ``SplineTransformer`` or ``OneHotEncoder``. A clone is fitted on the public
        rows only, and each use gets a fresh copy, which cannot remember rows. It must not contain
        private rows or spend a budget. It gets float64 arrays (with names, pandas tables): private
        rows one at a time, which takes a millisecond each, or in blocks for the transformers named
        here and pipelines of them. If it fails on a row or returns something that is not finite,
        the row counts as the middle of the bounds.
    basis_bounds : tuple (low, high) or None, default=None
        Bounds of the outputs of `basis`, within 1e9 of 0, from public knowledge: two numbers, or
        two arrays with one number for each output. Outputs are clipped to them, and noise is scaled
        to them.
    noise : {"correlated", "independent"}, default="correlated"
        ``"correlated"``: noise with the covariance of the kernel; it does not grow with the number
        of centres. ``"independent"``: noise on each mean, as in the source; it does grow.
    baseline : float, default=1.0
        The weight that every row tends to as the ridge grows: if there is nothing but noise, rows
        weigh the same. 0 is the source's model; ``nonnegative="coefficients"`` needs it.
    nonnegative : {"weights", "coefficients"}, default="weights"
        What is cut off at 0. ``"coefficients"`` is the source's choice (eq. 19). It was worse, and
        the choice of `alpha` does not take it into account, so state `alpha` with it.
    bounds : "public" or tuple (low, high), default="public"
        Box of noisy centres, from public knowledge. ``"public"`` takes the range of the public
        sample: no weights are needed outside it.
    sampling_rate : float or None, default=None
        Only under ``"add_or_remove_one"``: the public probability, in (0, 1], with which a private
        row is sampled for private centres. None computes it from the noisy number of rows. It must
        be given if private rows are published, because it is then the delta.
    delta : float or None, default=None
        ... If private rows are published: the most that may be charged for that.

    Attributes
    ----------
    centers_ : ndarray of shape (n_centers, n_features) or None
        The centres, rounded to the kernel's grid; None with a basis.
    gamma_, alpha_ : float
        The rate (None with a basis) and the ridge that were stated or chosen.
    coef_ : ndarray of shape (n_coefs,)
        Coefficients of the kernel values at the centres (for each gamma in turn), or of the basis.
    baseline_ : float
        ``predict`` is ``max(0, baseline_ + features @ coef_)``. If noise pushes the weights of all
        public rows to 0, it is 1 and `coef_` is 0; `noise_std_` still says how much noise that was.
    effective_sample_size_ : float
        {effective}
    noise_std_ : float
        Standard deviation of a weight due to noise, as of `predict` (for the chosen `gamma_` and
        `alpha_`): root mean square over public rows. About 1 or more: the weights are only noise.

    Raises
    ------
    TypeError, ValueError
        ... Also if y has values other than 0 and 1 or only one of them, or if `delta` is below the
        share of private rows that would be published.

    See Also
    --------
    stack_samples : Makes X and y from two tables.

    Notes
    -----
    **Privacy.** *Released*: with ``noise="correlated"``, the mean over the private rows of features
    psi of norm at most 1 (kernel values at the centres, whitened by their Gram matrix, without the
    directions in which public rows vary less than the noise); with ``"independent"``, the mean of
    each kernel value; with a basis, the mean of its clipped outputs. Under ``"add_or_remove_one"``
    also the number of private rows (twice: 2% of the allowance for planning, and with the means).
    With ``centers="noisy"`` also noisy private rows, for half of the allowance. *Sensitivity* of
    the sum of psi: 1 if a row is added or removed, sqrt(2) if one is replaced, both enlarged by
    the rounding error (certified, about 0.1%); of independent means: the largest sum of kernel
    values over the centres; of a basis: the diagonal of its bounds. A noisy centre moves by at most
    the diameter of `bounds`; its epsilon is amplified by sampling n_centers of n rows. *Mechanism*:
    K-norm noise (``"independent"``: discrete Laplace noise) or rounded Gaussian noise, whichever is
    less; K-norm noise on centres. *Charged*: at most (epsilon, delta), once, before any noise, to
    `budget`; if private rows are published, (epsilon, n_centers / n), or (epsilon, sampling_rate)
    under ``"add_or_remove_one"``. The second moment H of the features depends only on public rows
    and released centres, so the choice of gamma and alpha is post-processing.

    {what_is_used}

    References
    ----------
    Kanamori, Hido & Sugiyama 2009, "A least-squares approach to direct importance estimation",
    section 3 (uLSIF) and section 3.2 (leaving one out).

    Takabayashi, Arai & Nakagawa, "Differentially private least-squares importance fitting",
    section 3 (the variants; its bC/n is loose, and its eq. 23 holds for sampling without
    replacement under "replace_one").

    Balle, Barthe & Gaboardi 2018, "Privacy amplification by subsampling", Theorems 8 and 9.

    Hall, Rinaldo & Wasserman 2013, "Differential privacy for functions and functional data",
    Corollary 9 (the correlated noise, as a Gaussian process).

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPuLSIF
    >>> from skdp.density_ratio import stack_samples
    >>> rng = np.random.default_rng(0)
    >>> public, private = rng.normal(0, 1, (500, 1)), rng.normal(1, 0.7, (5000, 1))
    >>> X, y = stack_samples(private=private, public=public)
    >>> ratio = DPuLSIF(epsilon=1.0).fit(X, y)
    >>> weights = ratio.predict(public)
    >>> bool(abs(np.average(public[:, 0], weights=weights) - 1.0) < 0.3)
    True
    """

    centers: Any = field(default="public", kw_only=False)
    n_centers: int = 100
    kernel: str = "rbf"
    gamma: Any = "private"
    alpha: Any = "private"
    basis: Any = None
    basis_bounds: Any = None
    noise: str = "correlated"
    baseline: float = 1.0
    nonnegative: str = "weights"
    bounds: Any = "public"
    sampling_rate: float | None = None

    _parameter_table: ClassVar[Table] = {
        "n_centers": Integers(1, _MAX_CENTERS),
        "kernel": ("rbf", "laplacian"),
        "noise": ("correlated", "independent"),
        "nonnegative": ("weights", "coefficients"),
        "baseline": Reals(0, 1e6),
        "gamma": partial(check_candidates, most=8),
        "alpha": partial(check_candidates, low=_RIDGES[0], high=_RIDGES[1]),
        "sampling_rate": (None, Reals(2.0**-32, 1)),
    }

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if isinstance(self.centers, str):
            check_parameter(self.centers, "centers", "public", "noisy", PUBLISHED)
        if isinstance(self.bounds, str):
            check_parameter(self.bounds, "bounds", "public")
        if self.nonnegative == "coefficients" and self.baseline != 0:
            raise ValueError(
                "baseline must be 0 with nonnegative='coefficients': no weight could be below it"
            )
        if self.basis is not None and not (
            isinstance(self.centers, str) and self.centers == "public"
        ):
            raise ValueError("centers must be 'public', its default, with a basis: it has none")
        if (self.basis is None) != (self.basis_bounds is None):
            raise ValueError(
                "basis_bounds must be a pair (low, high) that bounds the outputs of basis, and "
                "None without a basis: the noise is scaled to it"
            )
        if self._publishes:
            if self._context().counts_users:
                raise ValueError(
                    f"centers must not be {PUBLISHED!r} where a unit has many rows (groups): each "
                    "would be published with a probability of its own"
                )
            if self._adjacency == "add_or_remove_one" and self.sampling_rate is None:
                raise ValueError(
                    f"sampling_rate must be given for centers={PUBLISHED!r} under "
                    "'add_or_remove_one': delta = n_centers / n would publish the number of rows"
                )

    def _noise_of(self, allowance: Allowance, n_features: int | None) -> float:
        if self.basis is not None:
            return math.nan
        # Of many kernels: pure noise grows with their number.
        return allowance.query_std(whitened_mean(_TYPICAL_FEATURES))

    @property
    def _publishes(self) -> bool:
        return self.basis is None and isinstance(self.centers, str) and self.centers == PUBLISHED

    def _published(self, n_private: int) -> float:
        """Return the delta that publishing rows costs; refuse if delta is smaller."""
        if not self._publishes:
            return 0.0
        rate = rate_of(self.sampling_rate)
        if self._adjacency == "replace_one":
            rate = Fraction(min(self.n_centers, n_private), n_private)
        assert rate is not None
        # The nearest float to the share is enough: the charge is rounded up.
        if self._allowed_delta < float(rate):
            raise ValueError(
                f"delta must be at least {round_up(rate)!r}, the share of the private rows that "
                f"centers={PUBLISHED!r} publishes, got {self._allowed_delta!r}"
            )
        return round_up(rate)

    def fit(self, X: ArrayLike, y: ArrayLike, *, groups: Any = None) -> Self:
        """Charge the budget, release the private rows' mean features, and fit the ratio.

        Parameters
        ----------
        {samples}
        """
        with self._all_or_nothing(groups):
            rows, public, private = self._open_samples(X, y)
            stated = stated_centers(self.centers, public.shape[1], _MAX_CENTERS)
            is_public = isinstance(self.bounds, str)
            bounds = None if is_public else self._stated_bounds(public.shape[1])
            if bounds is None:
                far = 1e100  # the noise has a scale of its own beyond
                bounds = public.min(axis=0).clip(-far, far), public.max(axis=0).clip(-far, far)
            elif max(np.abs(side).max() for side in bounds) > 1e100:
                raise ValueError("bounds must be 'public' or a pair (low, high) within 1e100 of 0")
            gammas = rates_of(self.gamma, self.kernel, public)
            basis = fit_basis(self.basis, self.basis_bounds, X, public)
            moments = None if basis is None else public_moments(basis, public)
            published = self._published(int(private.sum()))
            if self._publishes:
                warn_caller(
                    f"centers={PUBLISHED!r} publishes raw private rows: each private row ends "
                    "up in centers_ with the probability charged as delta.",
                    PublishedRowsWarning,
                )
            with (
                self._session(
                    rows,
                    delta=0.0 if self._publishes else None,
                    separate_delta=published,
                    context=self._context_of(public),
                ) as session,
                np.errstate(all="ignore"),
            ):
                if basis is None or moments is None:
                    self._fit_kernel(session, public, stated, bounds, gammas)
                else:
                    self._fit_basis(session, public, basis, moments)
        return self

    def _fit_kernel(
        self,
        session: Session,
        public: Floats,
        stated: Floats | None,
        box: tuple[Floats, Floats],
        gammas: Floats,
    ) -> None:
        """Choose centres, release the kernel means, and solve."""
        replace = session.adjacency == "replace_one"
        correlated = self.noise == "correlated"
        noisy = isinstance(self.centers, str) and self.centers == "noisy"
        needs_rate = noisy and self.sampling_rate is None
        n = float(session.n_rows) if replace else math.nan
        if not replace and (correlated or needs_rate):
            n = row_count(session, _COUNT_SHARE)
        centers = self._centers(session, public, stated, box, n)
        features = KernelValues(KernelMap(centers, gammas, kernel=self.kernel), gammas)
        moments = public_moments(features, public)
        if correlated:
            plan = nystroem_features(
                features.map.gram(),
                moments.second,
                lambda size: Allowance.left(session).query_std(whitened_mean(size)) / n,
            )
            release, count = session.answer(KernelMean(features.map, plan.matrix))
        else:
            plan = independent_features(len(gammas), len(features.map.centers))
            release, count = session.answer(feature_means(features.map))
        self.centers_: Floats | None = features.map.centers
        self._solve(features, plan, moments, public, release, count)

    def _centers(
        self,
        session: Session,
        public: Floats,
        stated: Floats | None,
        box: tuple[Floats, Floats],
        n: float,
    ) -> Floats:
        """Return public or released centres."""
        if stated is not None:
            return stated
        size = self.n_centers
        rate = rate_of(self.sampling_rate)
        if self.centers == "public":
            if len(public) <= size:
                return public
            chosen = session.post_processing_rng().choice(len(public), size, replace=False)
            return public[np.sort(chosen)]
        replace = session.adjacency == "replace_one"
        if replace:
            size, rate = min(size, session.n_rows), None
        if self.centers == "noisy":
            if not replace and rate is None:
                rate = Fraction(min(1.0, max(size / n, 2.0**-32)))
            share = session.remaining * Fraction(_CENTERS_SHARE)
            view = Box(*box)
            return session.answer(NoisySample(view, size, rate=rate), share).value
        return session.answer(PublishedRows(size, rate=rate, dummy=(box[0] / 2 + box[1] / 2)))

    def _fit_basis(
        self,
        session: Session,
        public: Floats,
        basis: BasisValues,
        moments: PublicMoments,
    ) -> None:
        """Release the mean of the basis over the private rows and solve."""
        view = Box(basis.low, basis.high, per_feature=True)
        blocks = is_elementwise(self.basis)
        mean = basis_mean(UserFunction(basis.transforming()), view, exact_blocks=blocks)
        release, count = session.answer(mean)
        self.centers_ = None
        plan = independent_features(1, len(basis.low))
        self._solve(basis, plan, moments, public, release, count)

    def _solve(
        self,
        features: KernelValues | BasisValues,
        plan: Features,
        moments: PublicMoments,
        public: Floats,
        release: Release,
        n_private: Release,
    ) -> None:
        """Choose scale and ridge by the criterion, and set the fitted attributes."""
        baseline = float(self.baseline)
        alphas = check_candidates(self.alpha, "alpha")
        alphas = _ALPHAS if alphas is None else alphas
        n = float(n_private.value)
        relative = float(n_private.std) / n  # a mean over a noisy n errs by as much
        matrix = plan.matrix
        second = matrix @ moments.second @ matrix.T
        first = matrix @ moments.first
        tried = moments.tried @ matrix.T
        std = np.broadcast_to(np.asarray(release.std, dtype=np.float64), release.value.shape)
        every = [
            Moments(
                second=restore @ second @ restore.T,
                first=restore @ first,
                rows=tried @ restore.T,
                n_public=moments.n,
                private=restore @ release.value,
                noise=np.column_stack([restore * std, relative * (restore @ release.value)]),
                n_private=n,
            )
            for restore in plan.restore
        ]
        j, alpha = choose(every, alphas, baseline)
        coef, noise = solve(every[j], alpha, baseline)
        if self.nonnegative == "coefficients":
            coef = np.maximum(coef, 0.0)  # eq. 19 of the source
        back = matrix.T @ plan.restore[j].T
        self._features = features
        self.alpha_ = alpha
        self.gamma_ = float(features.gammas[j]) if self.centers_ is not None else None
        self.baseline_ = baseline
        self.coef_ = back @ coef
        self._noise_coef = back @ noise
        weights = self._weights(public)
        if not np.isfinite(self.coef_).all() or not weights.any():
            # Noise alone has pushed every weight below 0: all rows weigh the same.
            # `noise_std_` stays that of the weights before they were cut off.
            self.baseline_, self.coef_ = 1.0, np.zeros_like(self.coef_)
            weights = np.ones(len(public))
        self.effective_sample_size_ = effective_sample_size(weights)
        with np.errstate(all="ignore"):
            square = np.mean(np.square(moments.tried @ self._noise_coef).sum(axis=1))
        # A number beyond floats is capped, not dropped: the noise is huge, not unknown.
        self.noise_std_ = min(float(np.sqrt(np.nan_to_num(square, nan=np.inf))), LARGEST_WEIGHT)

    def _weights(self, values: Floats) -> Floats:
        """Return max(0, w0 + f(x).coef), block by block."""
        weights = np.empty(len(values))
        with np.errstate(all="ignore"):
            for part, block in self._features.chunks(values):
                weights[part] = self.baseline_ + block @ self.coef_
        return np.clip(np.nan_to_num(weights, nan=0.0), 0.0, LARGEST_WEIGHT)

    def _weights_std(self, values: Floats, weights: Floats) -> Floats:
        std = np.empty(len(values))
        with np.errstate(all="ignore"):
            for part, block in self._features.chunks(values):
                std[part] = np.sqrt(np.square(block @ self._noise_coef).sum(axis=1))
        return np.clip(np.nan_to_num(std, nan=np.inf), 0.0, LARGEST_WEIGHT)

    def privacy_cost(self, n_samples: int | None = None, n_features: int | None = None) -> Cost:
        """Return the cost of one fit, before any data is touched.

        Parameters
        ----------
        n_samples, n_features : int, default=None

        Returns
        -------
        cost : skdp.budget.Cost
            The (epsilon, delta) that one fit charges. For the variant that publishes private rows
            it is an upper bound: the delta of a fit is the share of rows that it publishes.
        """
        cost = super().privacy_cost(n_samples, n_features)
        if not self._publishes:
            return cost
        return Cost(epsilon=cost.epsilon, delta=cost.delta, separate_delta=cost.delta)

    def expected_error(
        self, n_samples: int, X_public: ArrayLike, *, like: ArrayLike | None = None
    ) -> float:
        """Return how far noise will move the weights of the public rows, on average over fits.

        Nothing private is read and nothing is charged. Rows
        that stand for the private ones are fitted a few times, each time with fresh noise. The
        errors of sampling and of the model are not included.

        Parameters
        ----------
        n_samples : int
            Number of private rows, as far as it is public.
        X_public : array-like of shape (n_public, n_features)
            The public sample.
        like : array-like of shape (n_like, n_features)
            Any number of public rows that resemble the *private* sample (made-up ones will do).
            There is no default, because ridge and bandwidth depend on the release.

        Returns
        -------
        error : float
            In the unit of the weights, whose mean over the public sample is about 1. It is the root
            mean square, over the public rows, of the difference from the weights without noise at
            the same bandwidth and ridge, averaged over fits.

        Raises
        ------
        ValueError
            If `like` is not given, or if centres come from the private rows.
        """
        n = check_integer(n_samples, "n_samples", low=1)
        self._check_parameters()
        refuse_units(type(self).__name__, self._context().budget)
        public = check_public_array(X_public, estimator=type(self).__name__)
        if isinstance(self.centers, str) and self.centers != "public":
            raise ValueError(
                f"centers={self.centers!r} has no expected error: it depends on the centres, which "
                "come from the private rows. Use centers='public', or state centres"
            )
        if like is None:
            raise ValueError(
                "like must be given: the error of DPuLSIF depends on the ridge and the bandwidth, "
                "which follow the private sample. State public rows that resemble it (made-up ones "
                "will do)"
            )
        draw = resampled(check_like(self, like, public.shape[1]), n)

        def error(fresh: Fresh, number: int) -> float:
            rows = draw(number)
            X = np.concatenate([rows, public])
            y = np.repeat([1, 0], [len(rows), len(public)])
            fitted = fresh(number).fit(X, y)
            same: dict[str, Any] = {"alpha": fitted.alpha_}
            if fitted.gamma_ is not None:
                same["gamma"] = fitted.gamma_
            plain = fresh(number, epsilon=NOISELESS, **same).fit(X, y)
            moved = fitted.predict(public) - plain.predict(public)
            return math.sqrt(float(np.mean(np.square(moved))))

        return mean_error(self, error)
