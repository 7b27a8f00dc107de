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
                "noise='laplace' scaled to smooth sensitivity is private with delta > 0 only; "
                "'cauchy' and 'student' do without"
            )
        if found == "smooth" and noise == "laplace" and len(self._levels()) > 1:
            raise ValueError(
                "noise='laplace' scaled to smooth sensitivity serves one level: delta pays for it "
                "once; 'cauchy' and 'student' serve several"
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
            Accepted for symmetry; the cost does not depend on them.

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
        Of the columns, from public knowledge: two numbers, two arrays, or a mapping from column
        name to (low, high); values beyond them count as the nearest bound, which moves no median
        that lies within. ``"private"`` learns them, for at most a fifth of the allowance. State
        them for few rows.
    mechanism : {"exponential", "smooth", "global"}, default="exponential"
        ``"exponential"`` chooses among public candidates by their distance in ranks.
        ``"smooth"`` adds `noise` scaled to the smooth sensitivity. ``"global"`` adds Laplace noise
        (Gaussian with ``delta``) for the whole width of the bounds, however many rows there are: it
        is here for comparison.
    step : float or None, default=None
        For the exponential mechanism: the candidates are the multiples of it within the bounds, as
        1.0 for integers. None: about 2**18 to 2**19 points at equal distances. State it wherever
        values repeat: the median of integers is then found exactly, with enough rows. Stated
        bounds must hold a multiple of it.
    prior : {"uniform", "log"}, default="uniform"
        For the exponential mechanism without a step: candidates at equal distances, or at
        distances that grow with the distance from 0, over ten powers of two. Public knowledge that
        values near 0 are likelier than values near the bounds: noise on few rows then goes less
        far.
    noise : {"cauchy", "student", "laplace"}, default="cauchy"
        For the smooth mechanism, and to be left alone for others: heavy tails for pure epsilon,
        Laplace noise where ``delta > 0``.
    epsilon : float, default=1.0
        Privacy loss of a fit; finite, above 0.
    delta : float, default=0.0
        In [0, 1). Above zero, the losses of the columns add up less quickly, and the exponential
        mechanism's count half; ``noise="laplace"`` spends all of it.
    max_rows_per_unit : int or "private", default="private"
        With `groups`, how many rows of one unit count; ``"private"`` chooses it for 10% of the
        allowance, so that about 99 in 100 units keep all of theirs.
    budget : PrivacyBudget or None, default=None
        Ledger to charge, and its relation; None: that of ``with budget:``, or no ledger.
    random_state : int, RandomState or None, default=None
        Seeds post-processing, and noise only inside ``skdp.config_context(noise="seeded")``.

    Attributes
    ----------
    median_ : ndarray of shape (n_features,)
        Released medians, within `bounds_`; but for a `step` of which no multiple lies within
        learned bounds: then the multiple nearest to their middle.
    bounds_ : tuple of two ndarrays of shape (n_features,)
        The bounds, stated or learned.
    n_features_in_, feature_names_in_ : int, ndarray of shape (n_features_in_,)
        Number of columns; their names, if X has names that are strings.
    max_rows_per_unit_ : int
        With `groups`: how many rows of one unit counted.
    privacy_ : skdp.core.PrivacyCertificate
        What was released, by which mechanism, at which cost.

    Raises
    ------
    TypeError, ValueError
        In `fit`, before anything is charged: a parameter out of its range, X not a dense table of
        finite numbers.
    BudgetExceededError, SealedBudgetError, LedgerError
        In `fit`, if the budget cannot grant (epsilon, delta).

    See Also
    --------
    DPQuantile : Several quantiles at once.
    DPRobustScaler : Centre by the median, scale by the interquartile range.

    Notes
    -----
    **Privacy.** *Released*: bounds, if not stated (a median and counts of distances of each
    column), and one value a column. *Sensitivity* of a candidate's score, its distance in
    ranks from the median: 1/2 if a row is added or removed, 1 if one is replaced. *Mechanism*:
    the exponential mechanism over all candidates, each column taking an equal part; for
    ``"global"`` discrete Laplace or rounded Gaussian noise at the width of the bounds, for
    ``"smooth"`` admissible noise at the smooth sensitivity. *Charged*: (epsilon, delta), once,
    before any noise, to ``budget``.

    Nothing raises because of what the rows hold. Without rows, every candidate is as likely as
    any other.

    ``transform`` subtracts the medians. Its output is as private as the rows it is given.

    **Expected error.** In ranks: the mean, over releases, levels and columns, of the number of rows
    between the released value and the level (of rows rounded to multiples of `step`, if it is
    stated); for ``mechanism="smooth"``, whose noise has heavy tails, the median. It needs `like`,
    public rows or an earlier fit of `DPMedian`, `DPQuantile` or `DPQuantileTransformer`: where
    values repeat, a quantile may be found exactly, and where they fill a small part of the bounds,
    few rows are not enough. `error_bound` holds for any rows, as a part of the rows, and is far
    larger.

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
            Ids of whose each row is: all rows of one id are protected together. A budget with a
            `unit` needs them, one without refuses them.

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
        Of the columns, from public knowledge: two numbers, two arrays, or a mapping from column
        name to (low, high); values beyond them count as the nearest bound. ``"private"`` learns
        them, for at most a fifth of the allowance. State them for few rows.
    mechanism : {"exponential", "smooth", "global"}, default="exponential"
        ``"exponential"`` chooses among public candidates by their distance in ranks. ``"smooth"``
        adds `noise` scaled to the smooth sensitivity, each level with an equal part of the
        allowance: m levels cost a factor m. ``"global"`` adds Laplace noise (Gaussian with
        ``delta``) for the whole width of the bounds, however many rows there are: it is here for
        comparison, and its quantiles may cross.
    step : float or None, default=None
        For the exponential mechanism: the candidates are the multiples of it within the bounds, as
        1.0 for integers. None: about 2**18 to 2**19 points at equal distances. State it wherever
        values repeat. Stated bounds must hold a multiple of it.
    prior : {"uniform", "log"}, default="uniform"
        For the exponential mechanism without a step: candidates at equal distances, or at
        distances that grow with the distance from 0, over ten powers of two. Public knowledge that
        values near 0 are likelier than values near the bounds.
    noise : {"cauchy", "student", "laplace"}, default="cauchy"
        For the smooth mechanism, and to be left alone for others: heavy tails for pure epsilon;
        Laplace noise where ``delta > 0``, for one level.
    epsilon : float, default=1.0
        Privacy loss of a fit; finite, above 0.
    delta : float, default=0.0
        In [0, 1). Above zero, the losses of columns and rounds add up less quickly, and the
        exponential mechanism's count half.
    max_rows_per_unit : int or "private", default="private"
        With `groups`, how many rows of one unit count; ``"private"`` chooses it for 10% of the
        allowance, so that about 99 in 100 units keep all of theirs.
    budget : PrivacyBudget or None, default=None
        Ledger to charge, and its relation; None: that of ``with budget:``, or no ledger.
    random_state : int, RandomState or None, default=None
        Seeds post-processing, and noise only inside ``skdp.config_context(noise="seeded")``.

    Attributes
    ----------
    quantiles_ : ndarray of shape (n_quantiles, n_features)
        Released quantiles, one row a level as ``numpy.quantile`` with ``axis=0`` has them; within
        `bounds_`, and not decreasing (but for ``"global"``). Not within them if no multiple of a
        `step` lies within learned bounds: then the multiple nearest to their middle.
    q_ : ndarray of shape (n_quantiles,)
        The levels.
    bounds_ : tuple of two ndarrays of shape (n_features,)
        The bounds, stated or learned.
    n_features_in_, feature_names_in_ : int, ndarray of shape (n_features_in_,)
        Number of columns; their names, if X has names that are strings.
    max_rows_per_unit_ : int
        With `groups`: how many rows of one unit counted.
    privacy_ : skdp.core.PrivacyCertificate
        What was released, by which mechanism, at which cost.

    Raises
    ------
    TypeError, ValueError
        In `fit`, before anything is charged: a parameter out of its range, X not a dense table of
        finite numbers.
    BudgetExceededError, SealedBudgetError, LedgerError
        In `fit`, if the budget cannot grant (epsilon, delta).

    See Also
    --------
    DPMedian : One level.
    DPQuantileTransformer : Map columns to a uniform or normal distribution.

    Notes
    -----
    **Privacy.** *Released*: bounds, if not stated (a median and counts of distances of each
    column), and the quantiles. *Mechanism*: the exponential mechanism over all candidates. The
    middle level is chosen first, then the middle ones of the levels on either side, among the rows
    on that side, and so on: floor(log2 m) + 1 rounds with an equal part of the allowance each.
    *Sensitivity* of a candidate's score, its distance in ranks from the quantile: max(q, 1 - q),
    q relative to the part, if a row is added or removed, which one part of a round sees; 1 if one
    is replaced, which two parts may see. *Charged*: (epsilon, delta), once, before any noise, to
    ``budget``.

    A level of 0 or 1 is poorly defined under noise: any candidate beyond all rows is as good as
    the least or the greatest value. Nothing raises because of what the rows hold.

    ``transform`` subtracts the quantiles of the middle level (the lower one of two). Its output is
    as private as the rows it is given.

    **Expected error.** In ranks: the mean, over releases, levels and columns, of the number of rows
    between the released value and the level (of rows rounded to multiples of `step`, if it is
    stated); for ``mechanism="smooth"``, whose noise has heavy tails, the median. It needs `like`,
    public rows or an earlier fit of `DPMedian`, `DPQuantile` or `DPQuantileTransformer`: where
    values repeat, a quantile may be found exactly, and where they fill a small part of the bounds,
    few rows are not enough. `error_bound` holds for any rows, as a part of the rows, and is far
    larger.

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
            Ids of whose each row is: all rows of one id are protected together. A budget with a
            `unit` needs them, one without refuses them.

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
