"""Private logistic regression: `DPLogisticRegression`, by objective perturbation or by descent.

A fit releases bounds, unless stated; the number of rows of each class; the mean of every column
and, where noise allows, its mean square; then the minimiser of a penalised loss with a noisy linear
term (`skdp.queries.logistic`). What the penalty, the clipping of rows and the bound on slopes are,
follows from public or released numbers. Where Gaussian noise of that term has no proof, or is dear,
noisy gradients are released instead (`skdp.linear_model._descent`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from skdp.base.batch_invariant import products
from skdp.base.classifiers import (
    Floats,
    LabelledClassifier,
    Standard,
    label_counts,
    learning_size,
    standard_for_classes,
)
from skdp.base.mixin import WEIGHT_BOUND
from skdp.core import Session
from skdp.linear_model._descent import CENTER_SHARES, descended, is_hidden, noise_penalty
from skdp.loss.conversions import check_positive, gdp_delta, gdp_mu, pure_epsilon_from_mu
from skdp.parameters import FLAG, Reals, Table, columns_of_bounds
from skdp.planning import Allowance
from skdp.queries import (
    LogisticObjective,
    StandardBall,
    least_tau,
    objective_std,
    slope_bound,
)

# --- the plan -------------------------------------------------------------------------------------

# Of the allowance, for the rows of each class; the second one too where noise is above a part of
# the mean class: the noise of shares moves all logits.
_COUNT_SHARES, _COUNT_NOISE = (0.03, 0.07), 0.05
# Share of centers and scales: as much as makes their noise this small, in half widths.
_MOMENT_SHARES, _MOMENT_NOISE = (0.02, 0.15), 0.01
_DETERMINANT = 0.1  # the most that the determinants (J) may take of a release's epsilon
_CONSTANT = 0.25  # the intercept's coordinate, as a part of the radius
# Bounds on a row's slope and norm: the least and the most; between, a factor over the noise. Norms
# are in units of the root mean square. Rows of thrice that are outliers: reaching for them costs
# all rows noise.
_CAPS, _CAP_NOISE = (0.25, 1.0), 0.02
_RADII, _RADIUS_NOISE, _RADIUS_NOISE_OF_MORE = (0.4, 3.0), 0.0025, 0.002
# Below so many rows of a class for each column, planes separate many classes, or nearly so. A bound
# on slopes costs little then: few rows have a slope above it.
_ROWS_A_COLUMN = 30.0
_FINEST = 1e-3  # error of logits by the solver
# Epsilon from which noise in the loss serves as well as Gaussian gradients: of two classes with
# bounds stated, where it is Gaussian too and where it is pure; and of more classes, or with bounds
# learned (cancer, spam7, OJ, diabetes, parted in two; digits and wine).
_SERVES = (1.0, 3.0, 30.0)
# Up to so many coefficients of more than two classes pure noise in the loss is no worse than
# Gaussian gradients (BEPS, wine; not Chile, storms, digits).
_FEW_COEFFICIENTS = 45
# Rows times epsilon below which the shares of the classes are predicted where bounds are learned:
# fits of wine, iris and a synthetic table had a log loss up to .2 above theirs (the mean of 8).
_FEW_ROWS = 150.0
_LARGEST = 1e300
_LARGEST_PENALTY = 1e12


@dataclass(frozen=True)
class _Plan:
    """Settings of the regression, from public or released numbers and the allowance for it.

    `shares` are those of classes; `dims` counts columns and the constant; `reach` is the norm of
    the longest standardised row. There are at most `most_rows` rows. With `delta`, b may have
    Gaussian noise. `wanted` is the caller's penalty of the coefficients of standardised columns,
    `constant` the intercept's coordinate, as a part of the radius.
    """

    epsilon: float
    delta: float
    relation: str
    n: float
    most_rows: float
    shares: Floats
    dims: int
    reach: float
    wanted: float
    constant: float

    @property
    def n_logits(self) -> int:
        """1 for two classes, else their number."""
        return 1 if self.shares.size == 2 else self.shares.size

    def _std(self, cap: float, penalty: float) -> tuple[float, bool]:
        of_query = self.n_logits, self.dims, cap, penalty, self.relation
        return objective_std(self.epsilon, self.delta, *of_query)

    @property
    def relative_noise(self) -> float:
        """The norm of b without a cap, relative to the number of rows."""
        std, _ = self._std(1.0, self._least(1.0))
        return std * math.sqrt(self.n_logits * self.dims) / self.n

    def _least(self, cap: float) -> float:
        """Return the penalty at which determinants take the most that they may."""
        rank = max(1, self.n_logits - 1)
        part = min(_DETERMINANT * self.epsilon / rank, 50.0)
        least = slope_bound(self.n_logits, cap) / math.expm1(part)
        return min(max(least, 1e-9), _LARGEST_PENALTY)

    @property
    def cap(self) -> float:
        """Bound on the slope of a row's loss: more than that much more noise would cost.

        A rare class is weighed less by it, so it is no less than what makes classes unequal.
        """
        rows = self.n / (self.shares.size * self.dims)
        noise = _CAP_NOISE * min(1.0, rows / _ROWS_A_COLUMN) ** 2
        least, most = _CAPS
        if self.n_logits == 1:
            least = max(least, 1.0 - 2.0 * float(self.shares.min()))
        return min(max(noise / self.relative_noise, least), most)

    @property
    def radius(self) -> float:
        """Norm to which scaled rows are clipped."""
        noise = _RADIUS_NOISE if self.n_logits == 1 else _RADIUS_NOISE_OF_MORE
        least, most = _RADII
        factor = min(max(noise / self.relative_noise, least), most)
        return min(factor * math.sqrt(self.dims - 1), self.reach)

    @property
    def penalty(self) -> float:
        """The penalty of theta, for rows of norm 1.

        The largest of the wanted one, what bounds the determinants, and `noise_penalty`.
        """
        radius, cap = self.radius, self.cap
        part = min(1.0, (self.dims - 1) / radius**2)  # of a row's squared norm that is one column's
        doubt = float((self.shares * (1.0 - self.shares)).mean())
        wanted = min(self.wanted / (radius**2 * (1.0 + self.constant**2)), _LARGEST_PENALTY)
        penalty = limit = self._least(cap)
        for _ in range(4):  # J depends on the penalty, and the noise on J: it settles quickly
            std, _ = self._std(cap, penalty)
            of_noise = noise_penalty(std, self.n, doubt, self.dims, part)
            penalty = min(max(limit, wanted, of_noise), _LARGEST_PENALTY)
        return penalty

    @property
    def noise_is_pure(self) -> bool:
        """Whether b has pure noise."""
        return self._std(self.cap, self.penalty)[1]

    @property
    def tau(self) -> float:
        """How small a gradient ends the search: logits are then off by `_FINEST`, or rounding."""
        size = self.n_logits * self.dims
        penalty = self.penalty
        # The second noise, and for a large epsilon the search itself, move logits little.
        most = self.epsilon / (200.0 * math.sqrt(size))
        fine = _FINEST * penalty * min(most, 1.0 / most)
        std, _ = self._std(self.cap, penalty)
        loss = -math.log(float(self.shares.min()))
        of_search = self.most_rows, self.n_logits, self.dims, penalty, std
        least = least_tau(*of_search, np.log(self.shares), loss)
        return min(max(fine, least, 1e-9), 1e6)


class DPLogisticRegression(LabelledClassifier):
    """Logistic regression with noise in its loss, for two classes or more.

    The private counterpart of scikit-learn's ``LogisticRegression``. There is nothing to tune: a
    larger penalty than that of `C`, the clipping of rows and the bound on slopes follow from public
    and released numbers. With much noise the penalty is large, and probabilities are near the
    shares of the classes; `penalty_` shows it. A descent (see Notes) of more than two classes has a
    penalty for `C` below 1 only, and may be worse than the shares if few rows leave it no gradients
    for its slope.

    Parameters
    ----------
    C : float, default=1.0
        Inverse of the weight of the penalty ``||coef||**2 / 2`` beside the sum of the losses, as in
        ``LogisticRegression``; above 0. It is that of coefficients of standardised columns, so no
        scaler is needed. Noise sets a least penalty, which no `C` undercuts.
    fit_intercept : bool, default=True
        Without an intercept, columns are scaled but not centred. Columns far from 0 then have more
        noise.
    class_weight : dict {label: weight} or "balanced" or None, default=None
        Public weights of the classes; a class without one has 1. They move the intercept, by the
        logarithm of the weight, and nothing else: noise and `coef_` are those of the fit without.
        In ``LogisticRegression``, where weights multiply losses, coefficients move too, unless the
        model is true. ``"balanced"``: inverse to the released shares. Needs an intercept.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    class_count_ : ndarray of shape (n_classes,)
        Noisy number of rows of each class, at least 1. With `sample_weight` the noisy sum of
        clipped weights, at least `weight_bound`.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients, in the units of X.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    coef_std_error_ : ndarray, as `coef_`
        Always NaN: how far noise moves a coefficient depends on the curvature of the loss, which is
        not released.
    weight_bound_ : float or None
    bounds_ : tuple of two ndarrays of shape (n_features,)
    center_, scale_ : ndarray of shape (n_features,)
    radius_ : float
    penalty_ : float
        The loss has the term ``penalty_ / 2 ||theta||**2``, for rows of norm 1 and a constant of a
        quarter of `radius_`. NaN after a descent (see Notes).
    slope_bound_ : float
        Bound on the slope of a row's loss, at most 1: the loss goes on linearly beyond it. NaN
        after a descent.

    See Also
    --------
    DPRidge : For numbers. With few rows of two classes, coded as 0 and 1, it may rank rows better.

    Notes
    -----
    **Privacy.** A row and its label are protected together. *Released*: classes and bounds, if not
    stated; the number of rows of each class (3% of the allowance, 10% where rows are few); the
    means and mean squares of the columns, or the means only, unless noise would hide them (2 to
    15%, twice that if some columns are measured again); for the remaining allowance theta, the
    minimiser of the loss plus a penalty plus b . theta with noise b, and over it a second, small
    noise. *Sensitivity* of the gradient of the loss, in L2: `slope_bound_` if a row is added or
    removed (for more than two classes, sqrt(2) times that), twice that if one is replaced.
    *Mechanism*: objective perturbation; b has K-norm noise or, where that is less and delta allows
    it, rounded Gaussian noise. All other noise is pure. *Charged*: at most (epsilon, delta), once,
    before any noise, to ``budget``; no mu, as Gaussian noise of b has a proof for (epsilon, delta)
    alone. Without an intercept the same is released, of rows that are scaled and clipped about 0,
    with a constant of one step of the grid, which predictions leave out: rows lie in the same ball,
    so the sensitivity is the same. Proof: ``skdp/queries/logistic.md``.

    **Descent.** With a delta, noisy gradients are released in place of the minimiser where they are
    more accurate. For two classes, with classes and bounds stated, that is below epsilon = 1, and
    below 3 if `groups` are stated or the accountant is not "basic": Gaussian noise of b has no
    price then. For all other fits with an intercept it is below 30; for more than two classes with
    few coefficients, under the same condition. There are 10 to 20 gradients (to 40 for more than
    two classes), with equal shares. Each is the sum over rows of the outer product of r and z: z is
    the clipped row with a constant, r the predicted probabilities minus the indicator of the label,
    clipped in norm. A slope and offsets are fitted last, unless noise would hide them, from four
    gradients for a tenth of the share: there z are the logits, and r is not clipped. A penalty of
    1/C - 1, if that is above 0, shortens the steps and the slope; for two classes, one that grows
    with the noise shortens the steps. *Sensitivity* of a gradient in L2, where R is the product of
    the bounds on the norms of r and z: R if a row is added or removed, 2 R if one is replaced
    (``skdp/queries/images.py``). *Mechanism*: rounded Gaussian noise. If a gradient's noise is
    longer than all rows, b has pure noise within the remaining mu instead.

    **Weights.** A row and its weight are protected together. A row of weight v counts v / b times,
    where b is the `weight_bound` and v is clipped to [0, b]: in the counts of the classes, in the
    moments of the columns (with which the total weight is released) and in the loss. It adds
    no more than a row of weight b, which has the *sensitivity* above. The noise is as large as for
    sum(v) / b rows, so state a bound near the weights of most rows. Classes are selected, and
    bounds are learned, without weights. Proof: ``skdp/core/PROOFS.md``.

    **Probabilities.** Logits start at the logarithms of the noisy shares of the classes, and the
    penalty draws them there. With noise, rows are shortened to a fraction of their norm, and slopes
    are bounded: that reduces the noise, and it makes predictions for rows that are hard to tell
    apart too sure, while the penalty makes all predictions less sure. A bound on slopes weighs rare
    classes less, so it is larger the less equal two classes are. All of this ends as n epsilon
    grows, but for outliers: rows are shortened to three times the root mean square norm, or less.

    References
    ----------
    Chaudhuri, Monteleoni & Sarwate 2011, "Differentially private empirical risk minimization",
    section 3.3 (objective perturbation).

    Iyengar, Near, Song, Thakkar, Thakurta & Wang 2019, "Towards practical differentially private
    convex optimization", Algorithm 1 (approximate minimisers).

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.linear_model import DPLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = np.where(X @ [1.0, -1.0] > 0, "yes", "no")
    >>> model = DPLogisticRegression(classes=["no", "yes"], bounds=(-4, 4), delta=1e-6).fit(X, y)
    >>> model.predict([[2.0, -2.0], [-2.0, 2.0]])
    array(['yes', 'no'], dtype='<U3')
    >>> model.score(X, y) > 0.9
    True
    """

    C: float = 1.0
    fit_intercept: bool = True
    class_weight: Any = None
    classes: Any = "private"
    bounds: Any = "private"
    weight_bound: Any = "private"

    _parameter_table: ClassVar[Table] = {
        "C": Reals(0, math.inf, "(]"),
        "fit_intercept": FLAG,
        "weight_bound": WEIGHT_BOUND,
    }

    def fit(
        self, X: ArrayLike, y: ArrayLike, *, sample_weight: Any = None, groups: Any = None
    ) -> Self:
        """Charge the budget and fit.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Private labels.
        sample_weight : array-like of shape (n_samples,), default=None
            ... They weigh losses. With rows in one table only.
        """
        with self._all_or_nothing(groups):
            return self._fitted(X, y, sample_weight)

    @property
    def _n_releases(self) -> int:
        return 3

    def _by_descent(self, n_features: int | None = None) -> bool:
        """Whether Gaussian noise, if there is any, is that of gradients: by public facts.

        Gaussian noise in the loss has no price under accountants that add up mu, for groups of
        rows, and beside classes that are learned; for several classes it is dear. Beside it, bounds
        and means are learned with pure noise, which is dear for many columns, so that it does not
        serve a small epsilon. A descent fits offsets.
        """
        if not self.fit_intercept:
            return False
        context, classes = self._context(), self._check_classes()
        budget, two = context.budget, classes is not None and len(classes) == 2
        pure, basic = context.epsilon, budget is None or budget.accountant == "basic"
        if not basic and context.allowed_delta:
            pure = pure_epsilon_from_mu(gdp_mu(context.epsilon, context.allowed_delta))
        learns_bounds = isinstance(self.bounds, str)
        if not (two or learns_bounds or classes is None):
            if n_features is None:
                n_features = getattr(self, "n_features_in_", None)
            n_features = n_features or columns_of_bounds(self._bounds_of_columns)
            if n_features and (n_features + 1) * len(classes) <= _FEW_COEFFICIENTS:
                return (context.counts_users or not basic) and pure < _SERVES[2]
        if not two or learns_bounds:
            return pure < _SERVES[2]
        return pure < _SERVES[context.counts_users or not basic]

    def _noise_of(self, allowance: Allowance, n_features: int | None) -> float:
        if n_features is None:
            return math.nan
        if self._by_descent(n_features):
            return allowance.part(1 / 5).ball_std(n_features + 1)
        classes = self._check_classes()
        n_classes = 2 if classes is None else len(classes)
        n_logits = 1 if n_classes == 2 else n_classes
        delta = 0.0 if allowance.mu is None else gdp_delta(allowance.epsilon, allowance.mu)
        main = 0.7 * allowance.epsilon  # about what other releases leave
        of_query = n_logits, n_features + 1, 1.0, _LARGEST_PENALTY, allowance.adjacency
        return objective_std(main, delta, *of_query)[0]

    def _noise_compared(self, allowance: Allowance, n_features: int | None) -> float:
        # Bounds are learned with pure noise in either case.
        return math.nan if self._learns_classes else self._noise_of(allowance, n_features)

    def _split_delta(self, n_features: int | None = None) -> tuple[float, float]:
        """Return the delta of other noise, and the separate one: of b, or of learning classes.

        Only an accountant that adds up (epsilon, delta) has a price for Gaussian noise of b. Under
        others all other noise is Gaussian, and b has pure noise within its mu. In a descent all
        noise is of one kind.
        """
        noise, separate = super()._split_delta(n_features)
        context = self._context()
        if self._by_descent(n_features):
            return noise, separate
        if context.budget is not None and context.budget.accountant != "basic":
            return noise, separate
        # In groups of rows Gaussian noise of b has no proof.
        of_objective = 0.0 if context.counts_users and not self._learns_classes else noise
        return 0.0, of_objective + separate

    def _fit(
        self,
        session: Session,
        public: Any,
        n_classes: int,
        most: float | None = None,  # that a weight may be
    ) -> None:
        start, more = None, n_classes > 2
        if self._by_descent() and not session.pure:
            start = self._started(session, public, n_classes, CENTER_SHARES[more], most)
            learned = start.learned
        else:
            learned = self._bounds(session, public)
        if learned is not None and learning_size(session, learned.n) < _FEW_ROWS:
            bounds = self.bounds_
            self._forget()
            self.bounds_ = bounds
            self._fit_constant(session, n_classes, most)
            return
        if start is not None:
            n_logits = n_classes if more else 1
            if not is_hidden(start, n_logits):
                penalty = max(1.0 / float(self.C) - 1.0, 0.0) / (most or 1.0)
                result = descended(session, start, n_logits, most, penalty)
                self._set(start.standard, start.counts + start.spread, *result)
                self.radius_ = self._view.radius
                self.penalty_ = self.slope_bound_ = math.nan
                return
            counts, spread, standard = start.counts, start.spread, start.standard
        else:
            counts, spread, standard = self._standardised(session, n_classes, most)
        if not self.fit_intercept:  # the logits of a row of zeros are 0
            scale = np.hypot(standard.scale, standard.center)
            standard = replace(standard, center=np.zeros_like(scale), scale=scale)
            self.center_, self.scale_ = standard.center, standard.scale
        low, high = self.bounds_
        d, n = low.size, float(counts.sum())
        # A ratio that noise hides is shrunk to 1.
        shares = (counts + spread) / (counts + spread).sum()
        separate = 0.0 if self._learns_classes or not session.pure else self._split_delta()[1]
        plan = _Plan(
            Allowance.left(session).pure_epsilon, separate, session.adjacency, n,
            n + 45.0 * spread * n_classes, shares, d + 1, standard.reach(low, high),
            1.0 / float(self.C) / (most or 1.0), _CONSTANT if self.fit_intercept else 0.0,
        )  # fmt: skip
        self.radius_, self.penalty_, self.slope_bound_ = plan.radius, plan.penalty, plan.cap
        view = StandardBall(low, high, standard.center, standard.scale, self.radius_)
        logs = np.log(shares)
        offset = logs[1:] - logs[:1] if n_classes == 2 else logs - logs.mean()
        if not self.fit_intercept:
            offset = np.zeros_like(offset)
        gaussian = not plan.noise_is_pure
        theta = session.answer(
            LogisticObjective(
                view, plan.constant, offset, plan.penalty, plan.cap, plan.tau, gaussian, most
            )
        ).value
        if self.fit_intercept:
            offset = offset + theta[:, -1]
        theta = theta[:, :-1]
        if n_classes > 2:
            theta, offset = theta - theta.mean(axis=0), offset - offset.mean()
        self._set(standard, shares, view, theta, offset)

    def _standardised(
        self, session: Session, n_classes: int, most: float | None
    ) -> tuple[Floats, float, Standard]:
        """Release the rows of each class, centers and scales; return also the noise of counts."""
        low, high = self.bounds_
        d = low.size
        query = label_counts(n_classes, most)
        allowed = float(session.remaining)
        release = session.answer(query, _COUNT_SHARES[0] * allowed)
        counts, spread = release.value, float(release.std)
        if spread * n_classes > _COUNT_NOISE * max(float(counts.sum()), 1.0):
            more = session.answer(query, _COUNT_SHARES[1] * allowed, name=f"{query.name}, again")
            part = spread**2 / (spread**2 + float(more.std) ** 2)  # weighted by inverse variances
            counts, spread = (
                counts + part * (more.value - counts),
                float(more.std) * math.sqrt(part),
            )
        counts = np.maximum(counts, 1.0)
        n = float(counts.sum())
        self.class_count_ = counts if most is None else counts * most
        allowance = Allowance.left(session)
        share = allowance.moments_std(d) / n / _MOMENT_NOISE
        share = min(
            max(share if allowance.pure else share**2, _MOMENT_SHARES[0]), _MOMENT_SHARES[1]
        )
        standard = standard_for_classes(session, allowance, low, high, n, share, most)
        self.center_, self.scale_ = standard.center, standard.scale
        return counts, spread, standard

    def _check_parameters(self) -> None:
        super()._check_parameters()
        weights = self.class_weight
        if weights is not None and not self.fit_intercept:
            raise ValueError("class_weight moves the intercept: it needs fit_intercept=True")
        if isinstance(weights, Mapping):
            for label, weight in weights.items():
                check_positive(weight, f"class_weight[{label!r}]")
            classes = self._check_classes()
            if classes is not None and (unknown := set(weights) - set(classes.tolist())):
                raise ValueError(f"class_weight has labels that classes has not: {unknown}")
        elif weights is not None and not (isinstance(weights, str) and weights == "balanced"):
            raise ValueError(
                f"class_weight must be a mapping from label to weight, 'balanced' or None, got "
                f"{weights!r}"
            )

    def _moved(self, offset: Floats, shares: Floats) -> Floats:
        """Return the logits' offset with the weights of classes, whose shares are these."""
        if self.class_weight is None:
            return offset
        if isinstance(self.class_weight, Mapping):
            labels = self.classes_.tolist()
            logs = np.log([float(self.class_weight.get(label, 1.0)) for label in labels])
        else:
            logs = -np.log(shares)
        return offset + (logs[1:] - logs[:1] if offset.size == 1 else logs - logs.mean())

    def _fit_constant(self, session: Session, n_classes: int, most: float | None = None) -> None:
        super()._fit_constant(session, n_classes, most)
        if n_classes > 1:
            assert self._constant is not None
            self._constant = self._moved(self._constant, self.class_count_)

    def _set(
        self,
        standard: Standard,
        shares: Floats,
        view: StandardBall,
        theta: Floats,
        offset: Floats,
    ) -> None:
        """Set the coefficients of the view's units, and those of X."""
        offset = self._moved(offset, shares)
        coef = theta / standard.scale
        intercept = offset - coef @ standard.center
        self.coef_ = np.clip(np.nan_to_num(coef), -_LARGEST, _LARGEST)
        self.intercept_ = np.clip(np.nan_to_num(intercept), -_LARGEST, _LARGEST)
        self.coef_std_error_ = np.full(coef.shape, math.nan)
        self._view, self._theta, self._offset = view, theta, offset

    # --- predicting ---------------------------------------------------------------------------

    def _logits_of(self, rows: Floats) -> Floats:
        mapped = self._view.map(rows) * self._view.grid
        return np.clip(products(mapped, self._theta) + self._offset, -_LARGEST, _LARGEST)

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return the logits of the caller's rows.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Clipped as rows are in `fit`.
        """
        logits = self._scores(X)
        return logits[:, 0] if logits.shape[1] == 1 else logits
