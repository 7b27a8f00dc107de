"""A lower bound on the privacy loss from many fits on two neighbouring tables."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skdp._config import config_context
from skdp.audit._intervals import (
    Floats,
    auc_mu_bound,
    epsilon_bound,
    held_out_bound,
    mu_bound,
)
from skdp.audit._subject import Subject, fit_parameters, subject_of
from skdp.base import check_integer
from skdp.budget import Cost, gdp_mu


@dataclass(frozen=True)
class AuditResult:
    """Lower bounds on the privacy loss, proved by many fits on two neighbouring tables.

    Attributes
    ----------
    epsilon_lower : float
        No (epsilon, delta) guarantee with this delta and a smaller epsilon is true.
    mu_lower : float
        No mu-GDP guarantee with a smaller mu is true.
    epsilon, delta : float
        The claim.
    mu : float or None
        The claimed mu, if noise is Gaussian.
    confidence : float
        Probability, over the noise of the fits, that both lower bounds hold.
    n_runs : int
        Fits on each table.
    """

    epsilon_lower: float
    mu_lower: float
    epsilon: float
    delta: float
    mu: float | None
    confidence: float
    n_runs: int

    @property
    def passed(self) -> bool:
        """Whether the claim survives: no lower bound exceeds it."""
        gaussian = self.mu is None or self.mu_lower <= self.mu
        return self.epsilon_lower <= self.epsilon and gaussian


def n_chosen_on(n_runs: int) -> int:
    """Return how many runs choose the event; the bound is as sharp as the others are many."""
    return n_runs // 4


def bounds_of(
    a: Floats, b: Floats, *, delta: float, gaussian: bool, confidence: float, learned: bool
) -> tuple[float, float]:
    """Return lower bounds on epsilon and mu that hold together, from scores of many runs.

    Parameters
    ----------
    gaussian : bool
        The claim is one of mu: nearly all of the error goes to the bound on mu, of that the most to
        pairs.
    learned : bool
        What the score is was learned on the first quarter of the runs, which pairs leave out then.
    """
    alpha, n = 1.0 - confidence, n_chosen_on(a.size)
    of_epsilon = 0.1 * alpha if gaussian else 0.75 * alpha
    of_mu = alpha - of_epsilon
    epsilon = held_out_bound(a, b, lambda p, q: epsilon_bound(p, q, delta), of_epsilon, n)
    skip = n if learned else 0
    mu = max(
        held_out_bound(a, b, mu_bound, 0.35 * of_mu, n),
        auc_mu_bound(a[skip:], b[skip:], 0.65 * of_mu),
    )
    return epsilon, mu


def _as_scores(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Project vector statistics on a line that tells the tables apart in the first runs.

    Each coordinate is clipped to the range of its middle values, because noise with heavy tails
    would decide the line otherwise, and Fisher's discriminant is taken.
    """
    if a.shape[1] == 1:
        return a[:, 0], b[:, 0]
    n = n_chosen_on(len(a))
    first_a, first_b = a[:n], b[:n]
    low, high = np.quantile(np.concatenate([first_a, first_b]), [0.02, 0.98], axis=0)
    first_a, first_b = np.clip(first_a, low, high), np.clip(first_b, low, high)
    # In units of each coordinate's spread, which may differ by any factor.
    spread = np.concatenate([first_a, first_b]).std(axis=0)
    unit = np.where(spread > 0, spread, 1.0)
    within = np.cov(first_a / unit, rowvar=False) + np.cov(first_b / unit, rowvar=False)
    gap = (first_a.mean(axis=0) - first_b.mean(axis=0)) / unit
    line = np.linalg.solve(within + 1e-6 * np.eye(len(gap)), gap) / unit
    return np.clip(a, low, high) @ line, np.clip(b, low, high) @ line


def _collect(
    subject: Subject,
    X: Any,
    y: Any,
    groups: Any,
    statistic: Callable[[Any], Any],
    n: int,
    seed: int | None,
) -> Floats:
    """Fit n times and return the statistics, shape (n, dimensions)."""
    values = []
    estimator = copy.copy(subject.estimator)
    more = fit_parameters(estimator, groups)
    names = [k for k in estimator.get_params() if k.rpartition("__")[2] == "random_state"]
    for run in range(n):
        if seed is not None:
            estimator.set_params(**dict.fromkeys(names, seed + run))
        estimator.fit(X, **more) if y is None else estimator.fit(X, y, **more)
        values.append(np.asarray(statistic(estimator), dtype=np.float64).ravel())
    found = np.array(values)
    if found.ndim != 2 or np.isnan(found).any():
        raise ValueError("statistic must return as many numbers for every fit, and no NaN")
    return found


def audit(
    estimator: Any,
    X: ArrayLike,
    X_neighbour: ArrayLike,
    statistic: str | Callable[[Any], ArrayLike],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    y: Any = None,
    y_neighbour: Any = None,
    groups: Any = None,
    groups_neighbour: Any = None,
    n_runs: int = 4000,
    confidence: float = 0.999,
    random_state: int | None = None,
) -> AuditResult:
    """Bound the privacy loss of an estimator from below, using its outputs on two neighbours.

    The estimator is fitted `n_runs` times on each table. The first quarter of the runs is used to
    choose a threshold. The event "statistic at or above the threshold" (or below it) should tell
    the tables apart as well as possible. The other runs bound the two probabilities p and q of this
    event by Clopper-Pearson intervals. Since ``p <= exp(epsilon) q + delta`` must hold, this gives
    a lower bound on epsilon, whatever the estimator does inside. Since
    ``Phi^-1(p) - Phi^-1(q) <= mu`` holds under mu-GDP, it also gives one on mu. A second bound on
    mu comes from pairs of runs, one on each table: the statistic is larger on the one table with
    probability at most ``Phi(mu / sqrt(2))``.

    Parameters
    ----------
    estimator : estimator
        It is not changed, and its budget, if any, is not charged.
    X, X_neighbour : array-like of shape (n_samples, n_features)
        Neighbouring tables, preferably a worst-case pair for the estimator: few rows, extreme
        values.
    statistic : str or callable
        Name of a fitted attribute, or a function of the fitted estimator. Several numbers are
        projected on the line that tells the tables apart best in the first quarter of the runs.
    epsilon, delta : float, default=None
        The claim to test. None: the claim of the estimator.
    y, y_neighbour : array-like, default=None
        Passed to `fit` if given.
    groups, groups_neighbour : array-like, default=None
        Passed to `fit` if given. The tables then differ in all rows of one unit.
    n_runs : int, default=4000
        Fits on each table, at least 20.
    confidence : float, default=0.999
        In (0, 1): probability that the lower bounds hold. So a correct estimator fails with
        probability at most ``1 - confidence``.
    random_state : int or None, default=None
        None: noise comes from the operating system. An int seeds the noise of every run
        differently, so that an audit of skdp's estimators can be repeated.

    Returns
    -------
    result : AuditResult

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range.

    Notes
    -----
    **Privacy.** A single fit is as private as the estimator makes it, but thousands of fits on the
    same rows are not private: use made-up rows. A small lower bound proves nothing; a large one
    disproves the claim.

    How far the bound is below the truth depends on epsilon and the number of runs. The table shows
    the easiest case: a variant that releases one number with two thirds of the noise that its claim
    needs. It is caught at confidence 0.999 in these shares of audits (200 simulated audits each):

    =========================== =========
    claim                       4000 runs
    =========================== =========
    epsilon = 0.1                      0%
    epsilon = 0.3                     43%
    epsilon = 1                       99%
    epsilon = 2.5                    100%
    Gaussian, (0.5, 1e-6)             14%
    Gaussian, (1, 1e-6)               80%
    Gaussian, (3, 1e-6)              100%
    =========================== =========

    An estimator with several releases, or a pair of tables that is not the worst case, is caught
    less often. So audit at epsilon >= 1 if the same code makes the noise at every epsilon, with
    more runs than the default if you can. A pass at epsilon = 0.1 says next to nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.audit import audit
    >>> from skdp.preprocessing import DPStandardScaler
    >>> X, X_neighbour = np.array([[1.0]]), np.array([[-1.0]])
    >>> scaler = DPStandardScaler(bounds=(-1, 1), epsilon=3.0)
    >>> audit(scaler, X, X_neighbour, "mean_", n_runs=500, random_state=0).passed
    True
    >>> audit(scaler, X, X_neighbour, "mean_", epsilon=1.0, n_runs=500, random_state=0).passed
    False
    """
    n = check_integer(n_runs, "n_runs", low=20)
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must be a number in (0, 1), got {confidence!r}")
    subject = subject_of(estimator, seed=random_state, only_unset=False)
    claim = _claim(subject.estimator, epsilon, delta)
    measured = attrgetter(statistic) if isinstance(statistic, str) else statistic
    with config_context(noise="seeded"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seed = None if random_state is None else int(random_state)
        first = _collect(subject, X, y, groups, measured, n, seed)
        # Other seeds: the two samples must be independent.
        second = _collect(
            subject,
            X_neighbour,
            y_neighbour,
            groups_neighbour,
            measured,
            n,
            None if seed is None else seed + n,
        )
    if first.shape[1] != second.shape[1]:
        raise ValueError("statistic must return as many numbers for every fit, and no NaN")
    a, b = _as_scores(first, second)
    epsilon_lower, mu_lower = bounds_of(
        a,
        b,
        delta=claim.delta,
        gaussian=claim.mu is not None,
        confidence=confidence,
        learned=first.shape[1] > 1,
    )
    return AuditResult(
        epsilon_lower=epsilon_lower,
        mu_lower=mu_lower,
        epsilon=claim.epsilon,
        delta=claim.delta,
        mu=claim.mu,
        confidence=float(confidence),
        n_runs=n,
    )


def _claim(estimator: Any, epsilon: float | None, delta: float | None) -> Cost:
    """Return the claim under test; mu follows from (epsilon, delta) where noise is Gaussian."""
    own = estimator.privacy_cost() if hasattr(estimator, "privacy_cost") else None
    if own is None:
        if epsilon is None:
            raise ValueError("epsilon must be given: the estimator states no cost")
        return Cost(epsilon, delta or 0.0)
    if epsilon is None and delta is None:
        return own
    claimed_epsilon = own.epsilon if epsilon is None else epsilon
    claimed_delta = own.delta if delta is None else delta
    gaussian = claimed_delta > 0 and own.mu is not None
    mu = gdp_mu(claimed_epsilon, claimed_delta) if gaussian else None
    return Cost(claimed_epsilon, claimed_delta, mu=mu)
