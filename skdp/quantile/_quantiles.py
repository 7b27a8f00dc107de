"""Private medians and quantiles of every column: `DPMedian` and `DPQuantile`.

Released by the exponential mechanism over all points of a public grid, or over the multiples of a
`step`; on demand with noise at the smooth sensitivity, and for comparison with noise at the global
one. Every fit is (epsilon, delta)-differentially private as a whole.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from skdp._parameters import Table
from skdp._scalers import Floats, Pair
from skdp.budget import Cost, PrivacyBudget
from skdp.core import Box, Session
from skdp.planning import LEARNING_SHARE
from skdp.quantile._base import QuantileFit
from skdp.queries import SmoothMedian, check_levels, choose_noise
from skdp.tabular import Rows


class _SmoothFit(QuantileFit):
    """A fit that may add noise at the smooth sensitivity, for estimators with `noise`."""

    _in_parts = True

    mechanism: str
    noise: str

    _parameter_table: ClassVar[Table] = {
        "noise": ("cauchy", "student", "laplace"),
        "mechanism": ("exponential", "smooth", "global"),
    }

    @property
    def _way(self) -> str:
        return self.mechanism

    def _check_parameters(self) -> None:
        super()._check_parameters()
        found, noise = self.mechanism, self.noise
        if found != "smooth" and noise != "cauchy":
            raise ValueError(f"noise={noise!r} is for mechanism='smooth' only, not {found!r}")
        if found != "exponential":
            # Neither is used: accepted, it would be taken for what decided the candidates.
            for name, default in (("step", None), ("prior", "uniform")):
                value = getattr(self, name)
                if value != default:
                    raise ValueError(
                        f"{name}={value!r} is for mechanism='exponential' only, not {found!r}"
                    )
        if found == "smooth" and noise == "laplace" and self.delta == 0:
            raise ValueError(
                "noise='laplace' scaled to smooth sensitivity is private only with delta > 0; "
                "'cauchy' and 'student' do not need it"
            )
        if found == "smooth" and noise == "laplace" and len(self._levels()) > 1:
            raise ValueError(
                "noise='laplace' scaled to smooth sensitivity allows one level only, because it "
                "spends all of delta; 'cauchy' and 'student' allow several"
            )

    def _one_place(self) -> str:
        if self.mechanism == "smooth":
            return "smooth sensitivity reads whole sorted columns; mechanism='exponential' does not"
        return super()._one_place()

    def _is_laplace(self) -> bool:
        """Say whether delta is all spent by Laplace noise at the smooth sensitivity."""
        return self.mechanism == "smooth" and self.noise == "laplace"

    def privacy_cost(self, n_samples: int | None = None, n_features: int | None = None) -> Cost:
        """Return the cost of one fit, before any data is touched.

        Parameters
        ----------
        n_samples, n_features : int, default=None
            Not used: the cost does not depend on them.

        Returns
        -------
        cost : skdp.budget.Cost
        """
        cost = super().privacy_cost(n_samples, n_features)
        assert cost is not None  # a median is always released
        if not self._is_laplace():
            return cost
        return Cost(epsilon=cost.epsilon, delta=cost.delta, separate_delta=cost.delta)

    def _opened(self, rows: Rows) -> Session:
        if self._is_laplace():
            return self._session(rows, delta=0.0, separate_delta=self.delta)
        return self._session(rows)

    def _check_release(self, d: int, stated: Pair | None) -> None:
        """Refuse here what the query would refuse after the charge."""
        if self.mechanism != "smooth":
            return
        share = 1.0 if stated is not None else 1.0 - LEARNING_SHARE - 0.02
        parts = d * max(len(self._levels()), 1)
        delta = float(self.delta) / d if self.noise == "laplace" else 0.0
        each = self._allowance().part(share / parts).pure_epsilon
        choose_noise(self.noise, each * (1 - 1e-9), delta=delta * (1 - 1e-9))

    def _release(self, session: Session, view: Box, levels: list[float]) -> Floats:
        if self.mechanism != "smooth":
            return super()._release(session, view, levels)
        share = session.remaining / len(levels)
        found = [
            session.answer(SmoothMedian(view, q=q, noise=self.noise), share).value for q in levels
        ]
        # Levels have noise of their own: sorted, they are no further off, and do not cross.
        return np.sort(np.stack(found, axis=1), axis=1)


class DPMedian(_SmoothFit):
    """Differentially private median of every column.

    Parameters
    ----------
    bounds : "private" or tuple (low, high) or mapping, default="private"
        Range of each column, from public knowledge: two numbers, two arrays, or a mapping from
        column name to (low, high); values beyond them count as the nearest bound; this does not
        move a median that lies within them. ``"private"`` learns them, for at most a fifth of the
        allowance. State them if there are few rows.
    mechanism : {"exponential", "smooth", "global"}, default="exponential"
        ``"exponential"`` chooses among public candidates: the closer in rank to the median, the
        likelier. ``"smooth"`` adds `noise` scaled to the smooth sensitivity. ``"global"`` adds
        Laplace noise (Gaussian with ``delta``) scaled to the whole width of the bounds, however
        many rows there are. It is here only for comparison.
    step : float or None, default=None
        For the exponential mechanism: the candidates are the multiples of `step` within the bounds,
        for example 1.0 for integers. None: about 2**18 to 2**19 equally spaced points. State it
        whenever values repeat: with enough rows, the median of integers is then found exactly.
        Stated bounds must contain a multiple of it.
    prior : {"uniform", "log"}, default="uniform"
        For the exponential mechanism without a step: ``"uniform"`` candidates are equally spaced;
        the spacing of ``"log"`` candidates grows with the distance from 0, over ten powers of two.
        Use ``"log"`` if public knowledge says that values near 0 are likelier than values near the
        bounds: with few rows, the noise then goes less far.
    noise : {"cauchy", "student", "laplace"}, default="cauchy"
        Only for the smooth mechanism; leave the default for others. Noise with heavy tails gives
        pure epsilon-DP; Laplace noise needs ``delta > 0``.
    epsilon : float, default=1.0
        Privacy loss of a fit; finite, above 0.
    delta : float, default=0.0
        In [0, 1). Above zero, the privacy losses of the columns add up more slowly, and those of
        the exponential mechanism count half. ``noise="laplace"`` spends all of delta.
    max_rows_per_unit : int or "private", default="private"
        With `groups`: how many rows of each unit are used at most. ``"private"`` chooses this
        number for 10% of the allowance, so that about 99 in 100 units keep all their rows.
    budget : PrivacyBudget or None, default=None
        Budget to charge; it also sets the neighbouring relation. None: the budget of an enclosing
        ``with budget:`` block, if there is one.
    random_state : int, RandomState or None, default=None
        Seeds post-processing, and noise only inside ``skdp.config_context(noise="seeded")``.

    Attributes
    ----------
    median_ : ndarray of shape (n_features,)
        Released medians, within `bounds_`. Exception: if no multiple of `step` lies within learned
        bounds, the multiple nearest to their middle.
    bounds_ : tuple of two ndarrays of shape (n_features,)
        The bounds, stated or learned.
    n_features_in_, feature_names_in_ : int, ndarray of shape (n_features_in_,)
        Number of columns; their names, if X has names that are strings.
    max_rows_per_unit_ : int
        With `groups`: how many rows of each unit were used at most.
    privacy_ : skdp.core.PrivacyCertificate
        What was released, by which mechanism, at which cost.

    Raises
    ------
    TypeError, ValueError
        In `fit`, before anything is charged: if a parameter is out of range, or if X is not a dense
        table of finite numbers.
    BudgetExceededError, SealedBudgetError, LedgerError
        In `fit`, if the budget cannot grant (epsilon, delta).

    See Also
    --------
    DPQuantile : Several quantiles at once.
    DPRobustScaler : Centre by the median, scale by the interquartile range.

    Notes
    -----
    **Privacy.** *Released*: bounds, if not stated (from a median of each column, and counts of
    distances from it), and one value for each column. *Sensitivity* of a candidate's score, which
    is its distance in ranks from the median: 1/2 if a row is added or removed, 1 if one is
    replaced. *Mechanism*: the exponential mechanism over all candidates, with an equal part of the
    allowance for each column. For ``"global"``: discrete Laplace or rounded Gaussian noise scaled
    to the width of the bounds. For ``"smooth"``: admissible noise scaled to the smooth sensitivity.
    *Charged*: (epsilon, delta), once, before any noise, to ``budget``.

    No error depends on the values in the rows. Without rows, all candidates are equally likely.

    ``transform`` subtracts the medians. Its output is as private as the rows that it is given.

    **Expected error.** In ranks: the number of rows between the released value and the exact
    quantile, averaged over releases, levels and columns (for ``mechanism="smooth"``, whose noise
    has heavy tails, the median instead). If `step` is stated, rows count as rounded to its
    multiples. It needs `like`: public rows, or an earlier fit of `DPMedian`, `DPQuantile` or
    `DPQuantileTransformer`. The rows matter: if values repeat, a quantile may be found exactly; if
    they fill a small part of the bounds, few rows are not enough. `error_bound` holds for any rows.
    It is a part of the rows instead of a number of ranks, and far larger.

    References
    ----------
    Smith 2011, "Privacy-preserving statistical estimation with optimal convergence rates",
    Algorithm 2 (private quantiles).

    McSherry & Talwar 2007, "Mechanism design via differential privacy", Theorem 6.

    Nissim, Raskhodnikova & Smith 2007, "Smooth sensitivity and sampling in private data
    analysis", Section 3.1 (median).

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.quantile import DPMedian
    >>> ages = np.random.default_rng(0).integers(18, 90, size=(5000, 1))
    >>> DPMedian(bounds=(0, 120), step=1, random_state=0).fit(ages).median_, np.median(ages)
    (array([54.]), np.float64(54.0))
    """

    median_: Floats

    def __init__(
        self,
        *,
        bounds: Any = "private",
        mechanism: str = "exponential",
        step: float | None = None,
        prior: str = "uniform",
        noise: str = "cauchy",
        epsilon: float = 1.0,
        delta: float = 0.0,
        max_rows_per_unit: Any = "private",
        budget: PrivacyBudget | None = None,
        random_state: Any = None,
    ) -> None:
        self.bounds = bounds
        self.mechanism = mechanism
        self.step = step
        self.prior = prior
        self.noise = noise
        self.epsilon = epsilon
        self.delta = delta
        self.max_rows_per_unit = max_rows_per_unit
        self.budget = budget
        self.random_state = random_state

    def _levels(self) -> list[float]:
        return [0.5]

    def fit(self, X: ArrayLike, y: Any = None, *, groups: Any = None) -> Self:
        """Charge the budget and release the medians.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Private rows, finite numbers. May be in parts (`skdp.engines`) unless
            mechanism="smooth".
        y : None, ignored
        groups : array-like of shape (n_samples,), default=None
            Id of the unit (a user, say) that each row belongs to. All rows of one id are protected
            together. A budget with a `unit` needs groups; any other budget refuses them.
            Rows without an id are left out if a unit is added or removed, and refused otherwise.

        Returns
        -------
        self : DPMedian
        """
        with self._all_or_nothing(groups):
            self.median_ = self._fit_quantiles(X)[0]
        return self

    def _forward(self, values: Floats) -> Floats:
        return values - self.median_

    def _backward(self, values: Floats) -> Floats:
        return values + self.median_

    def predict(self, X: ArrayLike) -> Floats:
        """Return the medians once for each row given: a constant prediction.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)

        Returns
        -------
        medians : ndarray of shape (n_samples, n_features)
        """
        n = len(self._public_array(X))
        return np.tile(self.median_, (n, 1))


class DPQuantile(_SmoothFit):
    """Differentially private quantiles of every column, all levels at once.

    Parameters
    ----------
    q : float or sequence of float, default=(0.25, 0.5, 0.75)
        Levels in [0, 1], strictly increasing. Their number m costs no more than a factor
        floor(log2 m) + 1 of epsilon.
    bounds : "private" or tuple (low, high) or mapping, default="private"
        Range of each column, from public knowledge: two numbers, two arrays, or a mapping from
        column name to (low, high); values beyond them count as the nearest bound. ``"private"``
        learns them, for at most a fifth of the allowance. State them if there are few rows.
    mechanism : {"exponential", "smooth", "global"}, default="exponential"
        ``"exponential"`` chooses among public candidates: the closer in rank to the quantile, the
        likelier. ``"smooth"`` adds `noise` scaled to the smooth sensitivity. Each level gets an
        equal part of the allowance, so m levels cost a factor m. ``"global"`` adds Laplace noise
        (Gaussian with ``delta``) scaled to the whole width of the bounds, however many rows there
        are. It is here only for comparison, and its quantiles may cross.
    step : float or None, default=None
        For the exponential mechanism: the candidates are the multiples of `step` within the bounds,
        for example 1.0 for integers. None: about 2**18 to 2**19 equally spaced points. State it
        whenever values repeat. Stated bounds must contain a multiple of it.
    prior : {"uniform", "log"}, default="uniform"
        For the exponential mechanism without a step: ``"uniform"`` candidates are equally spaced;
        the spacing of ``"log"`` candidates grows with the distance from 0, over ten powers of two.
        Use ``"log"`` if public knowledge says that values near 0 are likelier than values near the
        bounds.
    noise : {"cauchy", "student", "laplace"}, default="cauchy"
        Only for the smooth mechanism; leave the default for others. Noise with heavy tails gives
        pure epsilon-DP; Laplace noise needs ``delta > 0`` and a single level.
    epsilon : float, default=1.0
        Privacy loss of a fit; finite, above 0.
    delta : float, default=0.0
        In [0, 1). Above zero, the privacy losses of columns and rounds add up more slowly, and
        those of the exponential mechanism count half.
    max_rows_per_unit : int or "private", default="private"
        With `groups`: how many rows of each unit are used at most. ``"private"`` chooses this
        number for 10% of the allowance, so that about 99 in 100 units keep all their rows.
    budget : PrivacyBudget or None, default=None
        Budget to charge; it also sets the neighbouring relation. None: the budget of an enclosing
        ``with budget:`` block, if there is one.
    random_state : int, RandomState or None, default=None
        Seeds post-processing, and noise only inside ``skdp.config_context(noise="seeded")``.

    Attributes
    ----------
    quantiles_ : ndarray of shape (n_quantiles, n_features)
        Released quantiles, one row for each level, as ``numpy.quantile`` returns them with
        ``axis=0``. They do not decrease (except with ``"global"``), and they are within `bounds_`.
        Exception: if no multiple of `step` lies within learned bounds, they are the multiple
        nearest to their middle.
    q_ : ndarray of shape (n_quantiles,)
        The levels.
    bounds_ : tuple of two ndarrays of shape (n_features,)
        The bounds, stated or learned.
    n_features_in_, feature_names_in_ : int, ndarray of shape (n_features_in_,)
        Number of columns; their names, if X has names that are strings.
    max_rows_per_unit_ : int
        With `groups`: how many rows of each unit were used at most.
    privacy_ : skdp.core.PrivacyCertificate
        What was released, by which mechanism, at which cost.

    Raises
    ------
    TypeError, ValueError
        In `fit`, before anything is charged: if a parameter is out of range, or if X is not a dense
        table of finite numbers.
    BudgetExceededError, SealedBudgetError, LedgerError
        In `fit`, if the budget cannot grant (epsilon, delta).

    See Also
    --------
    DPMedian : One level.
    DPQuantileTransformer : Map columns to a uniform or normal distribution.

    Notes
    -----
    **Privacy.** *Released*: bounds, if not stated (from a median of each column, and counts of
    distances from it), and the quantiles. *Mechanism*: the exponential mechanism over all
    candidates. The quantile of the middle level is chosen first. It divides the rows into two
    parts; in each part, the middle one of the remaining levels is chosen, and so on. There are
    floor(log2 m) + 1 rounds for m levels, each with an equal part of the allowance. *Sensitivity*
    of a candidate's score, which is its distance in ranks from the quantile: max(q, 1 - q) if a row
    is added or removed, where q is the level relative to the part (one part of each round sees the
    row); 1 if a row is replaced (two parts of a round may see it). *Charged*: (epsilon, delta),
    once, before any noise, to ``budget``.

    Levels 0 and 1 are poorly defined under noise: any candidate beyond all rows is as good as the
    smallest or the largest value. No error depends on the values in the rows.

    ``transform`` subtracts the quantiles of the middle level (the lower of the two middle levels,
    if their number is even). Its output is as private as the rows that it is given.

    **Expected error.** In ranks: the number of rows between the released value and the exact
    quantile, averaged over releases, levels and columns (for ``mechanism="smooth"``, whose noise
    has heavy tails, the median instead). If `step` is stated, rows count as rounded to its
    multiples. It needs `like`: public rows, or an earlier fit of `DPMedian`, `DPQuantile` or
    `DPQuantileTransformer`. The rows matter: if values repeat, a quantile may be found exactly; if
    they fill a small part of the bounds, few rows are not enough. `error_bound` holds for any rows.
    It is a part of the rows instead of a number of ranks, and far larger.

    References
    ----------
    Kaplan, Schnapp & Stemmer 2022, "Differentially private approximate quantiles", Algorithm 1.

    Dong, Durfee & Rogers 2020, "Optimal differential privacy composition for exponential
    mechanisms", Section 3 (bounded range).

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.quantile import DPQuantile
    >>> X = np.random.default_rng(0).exponential(10.0, size=(20_000, 1))
    >>> quantile = DPQuantile([0.1, 0.5, 0.9], bounds=(0, 1000), random_state=0).fit(X)
    >>> np.abs(quantile.quantiles_ - np.quantile(X, [0.1, 0.5, 0.9], axis=0)).max() < 0.5
    np.True_
    >>> like = np.random.default_rng(1).exponential(12.0, size=(1000, 1))  # made up
    >>> 2 < quantile.expected_error(20_000, like=like) < 20  # ranks
    True
    >>> round(quantile.error_bound(20_000), 3)  # a part of the rows, whatever they are
    0.017
    """

    quantiles_: Floats
    q_: Floats

    def __init__(
        self,
        q: ArrayLike = (0.25, 0.5, 0.75),
        *,
        bounds: Any = "private",
        mechanism: str = "exponential",
        step: float | None = None,
        prior: str = "uniform",
        noise: str = "cauchy",
        epsilon: float = 1.0,
        delta: float = 0.0,
        max_rows_per_unit: Any = "private",
        budget: PrivacyBudget | None = None,
        random_state: Any = None,
    ) -> None:
        self.q = q
        self.bounds = bounds
        self.mechanism = mechanism
        self.step = step
        self.prior = prior
        self.noise = noise
        self.epsilon = epsilon
        self.delta = delta
        self.max_rows_per_unit = max_rows_per_unit
        self.budget = budget
        self.random_state = random_state

    _parameter_table: ClassVar[Table] = {
        "q": lambda value, name: check_levels(value),
    }

    def _levels(self) -> list[float]:
        return [float(level) for level in check_levels(self.q)]

    def fit(self, X: ArrayLike, y: Any = None, *, groups: Any = None) -> Self:
        """Charge the budget and release the quantiles.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Private rows, finite numbers. May be in parts (`skdp.engines`) unless
            mechanism="smooth".
        y : None, ignored
        groups : array-like of shape (n_samples,), default=None
            Id of the unit (a user, say) that each row belongs to. All rows of one id are protected
            together. A budget with a `unit` needs groups; any other budget refuses them.
            Rows without an id are left out if a unit is added or removed, and refused otherwise.

        Returns
        -------
        self : DPQuantile
        """
        with self._all_or_nothing(groups):
            self.quantiles_ = self._fit_quantiles(X)
            self.q_ = np.array(self._levels())
        return self

    def _forward(self, values: Floats) -> Floats:
        return values - self.quantiles_[(len(self.q_) - 1) // 2]

    def _backward(self, values: Floats) -> Floats:
        return values + self.quantiles_[(len(self.q_) - 1) // 2]

    def predict(self, X: ArrayLike) -> Floats:
        """Return the quantiles once for each row given: a constant prediction.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)

        Returns
        -------
        quantiles : ndarray of shape (n_samples, n_features, n_quantiles)
        """
        n = len(self._public_array(X))
        return np.tile(self.quantiles_.T, (n, 1, 1))
