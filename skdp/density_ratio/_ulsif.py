"""DPuLSIF: private least-squares importance fitting, with every variant of its source.

The mean of kernel values (or of a bounded basis) over the private rows is released, with noisy
centres where these come from the private rows. One variant, asked for by its name, publishes raw
private rows. Ridge and bandwidth are chosen from the release.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from skdp.base import check_integer, refuse_units
from skdp.base.expected_error import NOISELESS, check_like, mean_error, rehearsal, resampled
from skdp.base.nystroem import Features, independent_features, nystroem_features
from skdp.budget import Cost, PrivacyBudget
from skdp.core import Box, Release, Session, UserFunction
from skdp.density_ratio._base import (
    LARGEST_WEIGHT,
    DensityRatio,
    check_candidates,
    documented,
    effective_sample_size,
    rate_of,
)
from skdp.density_ratio._features import (
    PUBLISHED,
    BasisValues,
    KernelValues,
    Moments,
    PublicMoments,
    box_of_centers,
    choose,
    fit_basis,
    is_elementwise,
    public_moments,
    published_delta,
    rates_of,
    refuse_published,
    solve,
    stated_centers,
    warn_published,
)
from skdp.parameters import Integers, Reals, Table, check_parameter
from skdp.planning import Allowance, row_count
from skdp.queries import (
    KernelMap,
    KernelMean,
    NoisySample,
    PublishedRows,
    basis_mean,
    feature_means,
)
from skdp.tabular import check_public_array

Floats = NDArray[np.float64]

_RIDGES = (1e-8, 1e8)
_ALPHAS = np.logspace(-4, 2, 13)  # private choice of the ridge
_COUNT_SHARE = 0.02  # where the number of private rows is private: what planning needs of it
_CENTERS_SHARE = 0.5  # as the source: half for the noisy centres, half for the means
_MAX_CENTERS = 2000


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
    epsilon : float, default=1.0
    delta : float, default=0.0
        In [0, 1). Above zero, noise is Gaussian. If private rows are published: the most that may
        be charged for that.
    {fit}

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
    {columns_seen}

    Raises
    ------
    TypeError, ValueError
        In `fit`, before anything is charged: if a parameter is out of range, if X is not a dense
        table of finite numbers, if y has values other than 0 and 1 or only one of them, or if
        `delta` is below the share of private rows that would be published.
    BudgetExceededError, SealedBudgetError, LedgerError

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
    what rounding may add (certified, about 0.1%); of independent means: the largest sum of kernel
    values over the centres; of a basis: the diagonal of its bounds. A noisy centre moves by at most
    the diameter of `bounds`; its epsilon is amplified by sampling n_centers of n rows. *Mechanism*:
    K-norm noise or (``"independent"``) discrete Laplace noise if delta = 0, else rounded Gaussian
    noise; K-norm noise on centres. *Charged*: (epsilon, delta), once, before any noise, to
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

    centers_: Floats | None
    gamma_: float | None
    coef_: Floats

    def __init__(
        self,
        centers: Any = "public",
        *,
        n_centers: int = 100,
        kernel: str = "rbf",
        gamma: Any = "private",
        alpha: Any = "private",
        basis: Any = None,
        basis_bounds: Any = None,
        noise: str = "correlated",
        baseline: float = 1.0,
        nonnegative: str = "weights",
        bounds: Any = "public",
        sampling_rate: float | None = None,
        epsilon: float = 1.0,
        delta: float = 0.0,
        max_rows_per_unit: Any = "private",
        budget: PrivacyBudget | None = None,
        random_state: Any = None,
    ) -> None:
        self.centers = centers
        self.n_centers = n_centers
        self.kernel = kernel
        self.gamma = gamma
        self.alpha = alpha
        self.basis = basis
        self.basis_bounds = basis_bounds
        self.noise = noise
        self.baseline = baseline
        self.nonnegative = nonnegative
        self.bounds = bounds
        self.sampling_rate = sampling_rate
        self.epsilon = epsilon
        self.delta = delta
        self.max_rows_per_unit = max_rows_per_unit
        self.budget = budget
        self.random_state = random_state

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
            refuse_published(self._adjacency, self.sampling_rate, self._context().counts_users)

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
        return published_delta(rate, float(self.delta))

    def fit(self, X: ArrayLike, y: ArrayLike, *, groups: Any = None) -> Self:
        """Charge the budget, release the private rows' mean features, and fit the ratio.

        Parameters
        ----------
        {samples}

        Returns
        -------
        self : DPuLSIF
        """
        with self._all_or_nothing(groups):
            rows, public, private = self._open_samples(X, y)
            stated = stated_centers(self.centers, public.shape[1], _MAX_CENTERS)
            is_public = isinstance(self.bounds, str)
            bounds = None if is_public else self._stated_bounds(public.shape[1])
            box = box_of_centers(bounds, public)
            gammas = rates_of(self.gamma, self.kernel, public)
            basis = fit_basis(self.basis, self.basis_bounds, X, public)
            moments = None if basis is None else public_moments(basis, public)
            published = self._published(int(private.sum()))
            if self._publishes:
                warn_published()
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
                    self._fit_kernel(session, public, stated, box, gammas)
                else:
                    self._fit_basis(session, public, basis, moments)
                self.privacy_ = session.certificate()
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
                lambda size: Allowance.left(session).features_std(size) / n,
            )
            release, count = session.answer(KernelMean(features.map, plan.matrix))
        else:
            plan = independent_features(len(gammas), len(features.map.centers))
            release, count = session.answer(feature_means(features.map))
        self.centers_ = features.map.centers
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
            # Nothing but noise, which has pushed every weight below 0: all rows weigh the same.
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

        Nothing private is read and nothing is charged: it answers whether epsilon is enough. Rows
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
            If `like` is not given, or if centres come from the private rows, whose places nobody
            knows.

        Examples
        --------
        >>> import numpy as np
        >>> from skdp import DPuLSIF
        >>> public = np.linspace(-1.0, 1.0, 50)[:, None]
        >>> like = np.random.default_rng(0).normal(0.3, 0.4, size=(500, 1))  # made up
        >>> 1e-3 < DPuLSIF(epsilon=1.0).expected_error(10_000, public, like=like) < 3e-3
        True
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
        private = check_like(self, like, public.shape[1])
        with rehearsal(self, self._adjacency) as unfitted:

            def error(number: int) -> float:
                rows = resampled(private, n, number)
                X = np.concatenate([rows, public])
                y = np.repeat([1, 0], [len(rows), len(public)])
                fitted = unfitted(number).fit(X, y)
                same: dict[str, Any] = {"alpha": fitted.alpha_}
                if fitted.gamma_ is not None:
                    same["gamma"] = fitted.gamma_
                plain = unfitted(number, epsilon=NOISELESS, **same).fit(X, y)
                moved = fitted.predict(public) - plain.predict(public)
                return math.sqrt(float(np.mean(np.square(moved))))

            return mean_error(error)
