"""DPLogisticRatio: private importance weights by probabilistic classification.

A ridge logistic regression that tells private rows from public ones is released by output
perturbation. Weights are computed from it.
"""

from __future__ import annotations

import math
from dataclasses import field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp
from sklearn.base import BaseEstimator

from skdp.base import check_integer, refuse_units
from skdp.core import Box, Release
from skdp.density_ratio._base import LARGEST_WEIGHT, DensityRatio, documented, effective_sample_size
from skdp.parameters import Reals, Table, check_parameter
from skdp.planning import Allowance, row_count
from skdp.queries import LogisticMinimiser, UnitBall
from skdp.tabular import check_public_array

Floats = NDArray[np.float64]

_ALPHAS = (1e-6, 1e12)  # the range of the kernel's solver
_COUNT_SHARE = 0.05  # where the number of private rows is private: both samples weigh the same
_MOST_ROWS = 2.0**32
_LARGEST_EXPONENT = math.log(LARGEST_WEIGHT)


def ridge_rule(n: float, variance: float, n_dims: int, noise: float) -> float:
    """Return a ridge that balances shrinkage against noise, by public numbers only.

    Along a feature of `variance` v, the loss of two samples that weigh n each has a curvature of
    about h = n v / 2. A ridge alpha shrinks theta by about alpha ||theta|| / h; noise adds sqrt(D)
    noise / alpha, where `noise` is that of a coordinate for a ridge of 1. They are equal at
    alpha**2 = h sqrt(D) noise / ||theta||. For a shift of one standard deviation ||theta|| = 1 /
    sqrt(v). The factor 2 errs on the side of shrinkage: errors of weights grow exponentially with
    noise.
    """
    alpha = 2.0 * math.sqrt(n * variance**1.5 / 2 * math.sqrt(n_dims) * noise)
    return min(max(alpha, 1e-3), _ALPHAS[1])


@documented
class DPLogisticRatio(DensityRatio, BaseEstimator):
    """Private density ratio of a private and a public sample, by logistic regression.

    Estimates the importance weights w(x) = p_private(x) / p_public(x) as exp(coef . x), up to a
    constant.
    {two_samples}

    The logarithm of the weights is linear in x, which suits samples that differ in their means. If
    they differ in other ways (in spread or shape), `DPuLSIF` is the better choice.

    Parameters
    ----------
    alpha : "auto" or float, default="auto"
        Ridge, in [1e-6, 1e12]: alpha / 2 ||theta||**2 is added to the loss, a sum over rows scaled
        into the unit ball. A larger alpha gives less noise and more equal weights. ``"auto"``
        depends on the number of rows (noisy where it is private), the spread of the public rows,
        the number of columns, epsilon and delta.
    bounds : "public" or tuple (low, high), default="public"
        Box to which rows are clipped, from public knowledge. ``"public"`` takes the range of the
        public sample: no weights are needed outside it.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features_in_,)
        Change of the logarithm of the weight when a column grows by one unit, inside the bounds.
    intercept_ : float
        The logarithm of the weight of a row at the centre of the bounds.
    center_ : ndarray of shape (n_features_in_,)
        The centre of the bounds.
    alpha_ : float
        The ridge.
    effective_sample_size_ : float
        {effective}
    noise_std_ : float
        Standard deviation of a weight due to noise, to first order: the root mean square over
        public rows. If it is about 1 or more, the weights are only noise.

    Raises
    ------
    TypeError, ValueError
        ... Also if y has values other than 0 and 1, or only one of them.

    See Also
    --------
    DPuLSIF : Density ratios of any shape, by least squares.
    stack_samples : Makes X and y from two tables.

    Notes
    -----
    **Privacy.** *Released*: theta, which minimises the logistic loss of private against public rows
    plus alpha / 2 ||theta||**2 (rows are scaled into the unit ball, and both samples have the same
    weight); under ``"add_or_remove_one"`` also a noisy number of private rows, for 5% of the
    allowance. *Sensitivity* of theta: 1 / alpha if a row is added or removed, sqrt(2) / alpha if
    one is replaced; plus 2 tau / alpha, because the solver stops once it has proved that the
    gradient is at most tau = 0.001. *Mechanism*: K-norm or rounded Gaussian noise, whichever is
    less; on the number of rows, discrete Laplace noise where that on theta is K-norm noise. The
    weights, their scaling to a mean of 1 over the public sample, and the ridge are post-processing.

    {what_is_used}

    References
    ----------
    Ji & Elkan 2013, "Differential privacy based on importance weighting", Machine Learning 93,
    section 4 (the method; its noise is for any ridge, and here both samples weigh the same).

    Chaudhuri, Monteleoni & Sarwate 2011, "Differentially private empirical risk minimization",
    section 3.2 and corollary 8 (output perturbation).

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPLogisticRatio
    >>> from skdp.density_ratio import stack_samples
    >>> rng = np.random.default_rng(0)
    >>> public, private = rng.normal(0, 1, (500, 2)), rng.normal(0.7, 1, (5000, 2))
    >>> X, y = stack_samples(private=private, public=public)
    >>> ratio = DPLogisticRatio(epsilon=3.0).fit(X, y)
    >>> weights = ratio.predict(public)
    >>> bool(np.all(np.abs(np.average(public, axis=0, weights=weights) - 0.7) < 0.3))
    True
    """

    alpha: Any = field(default="auto", kw_only=False)
    bounds: Any = "public"

    _parameter_table: ClassVar[Table] = {"alpha": ("auto", Reals(*_ALPHAS))}

    def fit(self, X: ArrayLike, y: ArrayLike, *, groups: Any = None) -> Self:
        """Charge the budget, release a logistic regression of the samples, and compute the weights.

        Parameters
        ----------
        {samples}
        """
        with self._all_or_nothing(groups):
            rows, public, _ = self._open_samples(X, y)
            view = self._view(public)
            with (
                self._session(rows, context=self._context_of(public)) as session,
                np.errstate(all="ignore"),
            ):
                n = min(row_count(session, _COUNT_SHARE), _MOST_ROWS)
                alpha, _ = self._plan(n, view, public, Allowance.left(session))
                self.alpha_ = alpha
                release = session.answer(
                    LogisticMinimiser(view, public, self.alpha_, public_weight=n / len(public))
                )
                self.privacy_ = session.certificate()
            with np.errstate(all="ignore"):
                self._set(view, public, release)
        return self

    def _noise_of(self, allowance: Allowance, n_features: int | None) -> float:
        return math.nan if n_features is None else allowance.ball_std(n_features)

    def _view(self, public: Floats) -> Box:
        """Return the public box, with a scale of its own for each column."""
        if isinstance(self.bounds, str):
            check_parameter(self.bounds, "bounds", "public")
            return Box(public.min(axis=0), public.max(axis=0), per_feature=True)
        stated = self._stated_bounds(public.shape[1])
        assert stated is not None
        return Box(*stated, per_feature=True)

    def _plan(
        self, n: float, view: Box, public: Floats, allowance: Allowance
    ) -> tuple[float, float]:
        """Return the ridge, and how far its noise moves the logarithms of public weights."""
        features = UnitBall(view).features(public)
        noise = LogisticMinimiser(view, public, 1.0).planned_std(allowance)
        alpha = self.alpha
        if alpha == "auto":
            variance = float(features[:, :-1].var(axis=0).mean())
            alpha = ridge_rule(n, variance, features.shape[1], noise)
        spread = math.sqrt(float(features.var(axis=0).sum()))
        return float(alpha), noise / alpha * spread

    def _set(self, view: Box, public: Floats, release: Release) -> None:
        """Set the fitted attributes from the release and the public rows."""
        self._ball = UnitBall(view)
        self._theta = release.value
        features = self._ball.features(public)
        linear = features @ self._theta
        # Their mean over the public sample is 1; sums of exponentials without overflow.
        self._log_mean = float(logsumexp(linear)) - math.log(len(public))
        weights = self._weights(public)
        self.effective_sample_size_ = effective_sample_size(weights)
        shares = weights / max(float(weights.sum()), 1e-300)
        self._mean = shares @ features
        self._std = float(release.std)
        std = self._noise(weights, features)
        self.noise_std_ = min(float(np.sqrt(np.mean(std**2))), LARGEST_WEIGHT)
        # In the user's units; a column of (nearly) no width has no slope.
        slope = np.zeros(view.n_dims)
        with np.errstate(all="ignore"):
            np.divide(
                self._theta[:-1] * self._ball.scale, view.grid, out=slope, where=view.half > 0
            )
        self.coef_ = np.clip(np.nan_to_num(slope), -LARGEST_WEIGHT, LARGEST_WEIGHT)
        self.center_ = view.center.copy()
        self.intercept_ = (
            float(self._theta[-1]) * self._ball.scale * self._ball.norm - self._log_mean
        )

    def _noise(self, weights: Floats, features: Floats) -> Floats:
        """Return the standard deviation of weights, to first order in that of theta."""
        reach = np.sqrt(np.square(features - self._mean).sum(axis=1))
        return np.minimum(weights * reach * self._std, LARGEST_WEIGHT)

    def _weights(self, values: Floats) -> Floats:
        """Return exp(theta . z - log mean), capped where it would overflow."""
        with np.errstate(all="ignore"):
            exponents = self._ball.features(values) @ self._theta - self._log_mean
            weights: Floats = np.exp(np.minimum(exponents, _LARGEST_EXPONENT))
        return weights

    def _weights_std(self, values: Floats, weights: Floats) -> Floats:
        return self._noise(weights, self._ball.features(values))

    def expected_error(self, n_samples: int, X_public: ArrayLike) -> float:
        """Return the standard error of the logarithm of a weight due to noise, before a fit.

        Nothing is fitted, read or charged. An error well below 1 is about the factor by which noise
        changes weights.

        Parameters
        ----------
        n_samples : int
            Number of private rows, as far as it is public.
        X_public : array-like of shape (n_public, n_features)
            The public sample.

        Returns
        -------
        error : float
            Standard deviation of the logarithm of a weight, relative to the mean over the public
            rows: the root mean square over these rows. It does not depend on the private rows.

        Examples
        --------
        >>> import numpy as np
        >>> from skdp import DPLogisticRatio
        >>> public = np.linspace(-1.0, 1.0, 50)[:, None]
        >>> round(DPLogisticRatio(epsilon=1.0).expected_error(10_000, public), 3)
        0.014
        """
        self._check_parameters()
        n = check_integer(n_samples, "n_samples", low=1)
        public = check_public_array(X_public, estimator=type(self).__name__)
        refuse_units(type(self).__name__, self._context().budget)
        allowance = self._allowance(public.shape[1])
        if not allowance.replace:
            allowance = allowance.part(1 - _COUNT_SHARE)
        return self._plan(float(n), self._view(public), public, allowance)[1]
