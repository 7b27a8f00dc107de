"""Density ratios: two samples in one table, weights, score, effective size; logistic ones.

``fit(X, y)`` gets both samples: y = 1 marks the private rows, y = 0 the public ones. Only the
private rows are protected; the public sample enters every result exactly. `DPLogisticRatio`
releases a ridge logistic regression that tells private rows from public ones, by output
perturbation, and computes weights from it.
"""

from __future__ import annotations

import hashlib
import math
import sys
from dataclasses import field
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.special import logsumexp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from skdp._docstrings import documenter
from skdp.base import PrivateMixin, check_integer, refuse_units
from skdp.budget import exact
from skdp.core import Box, Release
from skdp.parameters import Reals, Table, check_parameter
from skdp.planning import Allowance, row_count
from skdp.queries import LogisticMinimiser, UnitBall
from skdp.tabular import (
    Rows,
    array_of,
    array_of_rows,
    check_marks,
    check_public_array,
    check_samples,
    checked,
)
from skdp.user_code import or_raise

documented = documenter(
    {
        "samples": """
            X : array-like or table of shape (n_samples, n_features)
                Both samples, of finite numbers; see `stack_samples`. Rows in parts (`skdp.engines`)
                are refused.
            y : array-like of shape (n_samples,)
                1 for a private row, 0 for a public one. Only the private rows are protected.
            groups : array-like of shape (n_samples,), default=None
            """,
        "effective": """
            (sum w)**2 / sum w**2 over the public rows: the number of equally weighted rows that
            would be as good.
            """,
        "two_samples": """
            A model that is trained on public rows with these weights approximates one that is
            trained on private rows. ``fit(X, y)`` takes both samples in one table (see
            `stack_samples`): y = 1 marks private rows, y = 0 public ones. **Only the rows with
            y = 1 are private**; the public sample enters every result exactly. A preceding
            transformer that is not private (a StandardScaler, say) reveals something about the
            private rows if it is fitted on both samples. Scale by public bounds instead, or with a
            private scaler that charges the budget.
            """,
        "what_is_used": """
            `predict` and `score` use the release and the caller's rows. `score` is exact, so
            on private rows it is as private as the rows are. Under ``"replace_one"`` the number of
            private rows is public, and so is y.
            """,
    }
)

# --- two samples in one table ---------------------------------------------------------------------


def _library(table: Any) -> str:
    """Return the library of a table; ``"numpy"`` for whatever becomes an array."""
    # A table of a library exists only if the library has been imported.
    for name, kind in [("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table")]:
        module = sys.modules.get(name)
        if module is not None and isinstance(table, getattr(module, kind, ())):
            return name
    return "numpy"


def _as_array(sample: Any, name: str, width: int | None = None) -> NDArray:
    """Return a sample as an array of two dimensions, or raise a fixed text.

    `width` is that of a sample without rows: an empty list has none, and an error would reveal that
    it is empty.
    """
    if sparse.issparse(sample):
        raise TypeError(f"{name} must be a dense array or a table; use {name}.toarray()")
    if isinstance(sample, np.ma.MaskedArray):
        raise TypeError(f"{name} must not be a masked array; use {name}.filled(...)")
    # Cell by cell: one cell of text would turn all others into text.
    read: Any = array_of_rows if isinstance(sample, list | tuple) else array_of
    text = f"{name} must be a table or an array of shape (n_samples, n_features)"
    array: NDArray | None = or_raise(lambda: read(sample), lambda: ValueError(text))
    if array is not None and array.shape == (0,) and width is not None:
        array = array.reshape(0, width)
    if array is None or array.ndim != 2:
        raise ValueError(text)
    return array


def _common_dtype(first: np.dtype, second: np.dtype) -> np.dtype:
    """Return a dtype that keeps the cells of both as they are: numbers never turn into text."""
    kinds = {first.kind, second.kind}
    if kinds <= set("biufc") or (len(kinds) == 1 and "V" not in kinds):
        return np.result_type(first, second)
    return np.dtype(object)


def _marks(n_private: int, n_public: int) -> NDArray[np.int8]:
    """Return 1 at the places of private rows: evenly spread, by the two sizes only.

    The k-th of n private rows goes to floor((k + 1/2) N / n) of N places. In any run of m places
    there are m n / N of them up to less than 1.
    """
    if n_public == 0:
        raise ValueError("public must have at least one row")
    marks = np.zeros(n_private + n_public, dtype=np.int8)
    if n_private:
        k = np.arange(n_private, dtype=np.int64)
        marks[(2 * k + 1) * marks.size // (2 * n_private)] = 1
    return marks


def _stack_arrays(private: Any, public: Any) -> tuple[NDArray, NDArray[np.int8]]:
    others = _as_array(public, "public")
    rows = _as_array(private, "private", others.shape[1])
    if rows.shape[1] != others.shape[1]:
        raise ValueError(
            f"public must have the columns of private, in the same order: private has "
            f"{rows.shape[1]} columns, public has {others.shape[1]}"
        )
    marks = _marks(len(rows), len(others))
    stacked = np.empty((marks.size, rows.shape[1]), _common_dtype(rows.dtype, others.dtype))
    stacked[marks == 1] = rows
    stacked[marks == 0] = others
    return stacked, marks


def _stack_tables(private: Any, public: Any, library: str) -> tuple[Any, NDArray[np.int8]]:
    """Stack two tables of one library, which has been imported, because they exist."""
    names = [getattr(t, "column_names", getattr(t, "columns", ())) for t in (private, public)]
    if list(names[0]) != list(names[1]):
        raise ValueError("public must have the columns of private, in the same order")
    marks = _marks(private.shape[0], public.shape[0])
    order = np.empty(marks.size, dtype=np.int64)  # which row of (private, public) goes to a place
    order[marks == 1] = np.arange(private.shape[0])
    order[marks == 0] = np.arange(private.shape[0], marks.size)
    module: Any = sys.modules[library]
    stacked: Any = None
    try:
        if library == "pandas":
            stacked = module.concat([private, public], ignore_index=True).take(order)
            stacked.index = range(marks.size)
        elif library == "polars":
            stacked = module.concat([private, public], how="vertical_relaxed", rechunk=False)
            stacked = stacked[order]
        else:
            schemas = [private.schema, public.schema]
            schema = module.unify_schemas(schemas, promote_options="permissive")
            # Rounded where an integer has no float: whether one does must decide nothing.
            parts = [table.cast(schema, safe=False) for table in (private, public)]
            stacked = module.concat_tables(parts).take(order)
    except Exception:  # noqa: BLE001  the text of an error may quote a cell
        stacked = None
    if stacked is None:
        raise TypeError("the columns of private and public must have types that go together")
    return stacked, marks


def stack_samples(*, private: Any, public: Any) -> tuple[Any, NDArray[np.int8]]:
    """Put a private and a public sample into one table, and mark which row is which.

    The result is what `DPuLSIF` and the tools of scikit-learn take. **Only the rows with y = 1 are
    private, and X holds them as they are**: X is as private as `private`. Arguments must be passed
    by name: if the samples were swapped, the private one would be published.

    Parameters
    ----------
    private : table or array-like of shape (n_private, n_features)
        The private sample; it may have no rows.
    public : table or array-like of shape (n_public, n_features)
        The public sample: at least one row, in the same kind of container, with the same columns in
        the same order: pandas, polars and pyarrow tables, or arrays and lists of lists.

    Returns
    -------
    X : table or ndarray of shape (n_private + n_public, n_features)
        Both samples, in their kind of container (a pandas table with a new index 0, 1, ...), or an
        array for arrays and lists. Dtypes that both samples have are kept.
    y : ndarray of int8 of shape (n_private + n_public,)
        1 for a row of the private sample, 0 for one of the public sample.

    Raises
    ------
    TypeError
        If the samples are different kinds of container, are sparse, or have columns whose types do
        not go together.
    ValueError
        If the public sample has no row, the columns differ, or a sample is not two-dimensional.

    See Also
    --------
    DPuLSIF : Density ratio of the two samples.
    skdp.model_selection.PerRecordKFold : Folds under ``"add_or_remove_one"``.

    Notes
    -----
    The samples are interleaved evenly: among any m consecutive rows, the number of private rows
    differs by less than 1 from m * n_private / (n_private + n_public). So a ``KFold`` that does not
    shuffle has both samples in every fold, in proportion. Within each sample the order is kept.
    Positions depend on the two sizes only, and fits do not use them.

    Under ``"replace_one"`` the sizes are public, and so is y. Two tables that differ in one private
    row then give folds that differ in that row only. Under ``"add_or_remove_one"`` the number of
    private rows is private, and so is y: one more row moves the others. A fit on all of X keeps its
    guarantee, but the folds of ``KFold`` are not neighbouring tables, and fits on them do not have
    the guarantee that their ledger states. Use `PerRecordKFold` instead.

    Examples
    --------
    >>> from skdp.density_ratio import stack_samples
    >>> X, y = stack_samples(private=[[1.0], [2.0]], public=[[10.0], [20.0], [30.0], [40.0]])
    >>> X.ravel()  # one column
    array([10.,  1., 20., 30.,  2., 40.])
    >>> y
    array([0, 1, 0, 0, 1, 0], dtype=int8)
    """
    private, public = checked(private, "private"), checked(public, "public")
    library = _library(private)
    if _library(public) != library:
        raise TypeError("private and public must be the same kind of table")
    if library == "numpy":
        return _stack_arrays(private, public)
    return _stack_tables(private, public, library)


# --- weights and their score ----------------------------------------------------------------------

Floats = NDArray[np.float64]
LARGEST_WEIGHT = 1e100  # finite, and so are squares and their sums


def check_candidates(
    value: Any, name: str, low: float = 1e-300, high: float = 1e300, most: int = 100
) -> Floats | None:
    """Return positive numbers to choose from, or None for ``"private"``."""
    text = f"{name} must be 'private', a number in [{low:g}, {high:g}] or at most {most} of them"
    if isinstance(value, str):
        if value == "private":
            return None
        raise ValueError(f"{text}, got {value!r}")
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        candidates = np.atleast_1d(np.asarray(value, dtype=np.float64))
    except OverflowError:
        raise ValueError(text) from None
    except (TypeError, ValueError):
        raise TypeError(f"{text}, got {type(value).__name__}") from None
    good = candidates.ndim == 1 and 0 < candidates.size <= most
    if not (good and np.all((candidates >= low) & (candidates <= high))):  # False for NaN
        raise ValueError(text)
    return candidates


def rate_of(value: Any) -> Fraction | None:
    """Return a public sampling rate as the fraction of its decimal, or None."""
    return None if value is None else exact(float(value))


def effective_sample_size(weights: Floats) -> float:
    """Return (sum w)**2 / sum w**2 (Kish): that many equal weights would average noise as well."""
    largest = float(weights.max(initial=0.0))
    if largest == 0.0:
        return 0.0
    scaled = weights / largest  # neither sum overflows
    return float(scaled.sum() ** 2 / np.square(scaled).sum())


class DensityRatio(PrivateMixin):
    """Two samples in, weights out; an estimator adds `_weights` and `_weights_std`."""

    _tags = ("target_tags.required",)

    def _open_samples(self, X: Any, y: Any) -> tuple[Rows, Floats, NDArray[np.bool_]]:
        """Check parameters and both samples; record the schema. Charges nothing.

        Returns the private rows, the public ones as an array, and the marks of all rows, which are
        public under "replace_one" only.
        """
        self._check_parameters()
        rows, public = check_samples(X, y, **self._entrance)
        private = check_marks(y, X.shape[0] if hasattr(X, "shape") else len(X), **self._entrance)
        validate_data(self, X, reset=True, skip_check_array=True)
        return rows, public, private

    def _context_of(self, public: Floats) -> str:
        """Return a digest of the public sample: seeded fits that differ in it share no noise."""
        names = repr(list(getattr(self, "feature_names_in_", [])))
        digest = hashlib.blake2b(names.encode(), digest_size=16)
        digest.update(np.ascontiguousarray(public).tobytes())
        return digest.hexdigest()

    def _weights(self, values: Floats) -> Floats:
        """Return the weights of the caller's rows."""
        raise NotImplementedError

    def _weights_std(self, values: Floats, weights: Floats) -> Floats:
        """Return the standard deviation that noise gives these weights of the caller's rows."""
        raise NotImplementedError

    def predict(self, X: ArrayLike, return_std: bool = False) -> Any:
        """Return the density ratio p_private / p_public at the caller's rows.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Usually the public sample, which is to be weighted.
        return_std : bool, default=False
            Also return the standard deviation of the weights due to noise.

        Returns
        -------
        weights : ndarray of shape (n_samples,)
            Finite and at least 0; their mean over the public sample is about 1 where noise is weak.
        std : ndarray of shape (n_samples,)
            Only with ``return_std=True``: the standard deviation of each weight due to the noise of
            the release, to first order, before the weight is cut off at 0, for the ridge and
            bandwidth of this fit. It does not include the effect of noise on their choice, nor the
            errors of sampling and of the model.
        """
        values = self._public_array(X)
        weights = self._weights(values)
        return (weights, self._weights_std(values, weights)) if return_std else weights

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Return -J: the private rows' mean weight minus half the public rows' mean squared weight.

        This is the least-squares criterion of the source; greater is better. **It is exact, so it
        is not private**: a search that uses it reveals something about the private folds, and the
        ledger covers the fits only. `DPuLSIF` chooses ridge and bandwidth without it.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            1 for rows of the private sample, 0 for rows of the public one.
        """
        values = self._public_array(X)
        private = check_marks(y, len(values), **self._entrance)
        weights = self._weights(values)
        linear = float(weights[private].mean()) if private.any() else 0.0
        return linear - 0.5 * float(np.square(weights[~private]).mean())


# --- by classification ----------------------------------------------------------------------------

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
        """
        self._check_parameters()
        n = check_integer(n_samples, "n_samples", low=1)
        public = check_public_array(X_public, estimator=type(self).__name__)
        refuse_units(type(self).__name__, self._context().budget)
        allowance = self._allowance(public.shape[1])
        if not allowance.replace:
            allowance = allowance.part(1 - _COUNT_SHARE)
        return self._plan(float(n), self._view(public), public, allowance)[1]
