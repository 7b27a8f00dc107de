"""A search over private estimators at one cost: `DPGridSearchCV`, `DPRandomizedSearchCV`.

Released, under the (epsilon, delta) of the search: the parameters, the fitted model and the noisy
score of the best of a secret number of runs. Nothing of the other runs: no table of results, no
progress, no line in the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from sklearn.model_selection import ParameterGrid, ParameterSampler

from skdp._config import noise_is_seeded
from skdp.budget import PrivacyBudget
from skdp.core import public_generator
from skdp.model_selection._search_base import PrivateSearch
from skdp.parameters import Integers, Table, naming

_MOST_CANDIDATES = 10**5  # each is checked before the charge


def _counted(candidates: int) -> int:
    """Return a number of candidates, if a search can have so many."""
    if not 1 <= candidates <= _MOST_CANDIDATES:
        raise ValueError(f"from 1 to {_MOST_CANDIDATES} candidates can be tried, got {candidates}")
    return candidates


class DPGridSearchCV(PrivateSearch):
    """Search a grid of parameters of a private estimator, at one cost for a grid of any size.

    The private counterpart of scikit-learn's ``GridSearchCV``. There, a grid of 20 candidates in 5
    folds needs 100 fits, and their costs add up. This search makes a secret number of runs instead.
    Each run draws a candidate at random, fits it on a random part of the rows, and scores it with
    noise on the other rows. Only the best run is released. The whole search costs as much as three
    runs (less with delta > 0), so each run gets a third of epsilon, not a hundredth.

    Parameters
    ----------
    estimator : estimator
        A private estimator of skdp, or a pipeline whose steps are private or learn nothing from
        rows. Its ``epsilon``, ``delta`` and ``budget`` are not used, except that private steps
        share the allowance of a run in proportion to their ``epsilon``. What they learn for a part
        of delta (categories, classes) has half of `delta` of the search.
    param_grid : dict or list of dict
        As for ``GridSearchCV``; public. If it contains the ``epsilon`` of steps, the search tries
        different ways of sharing the allowance.
    scoring : {"accuracy", "neg_brier_score"} or PrivateScorer, default=None
        The score of a run: a mean of bounded scores of rows, see `private_scorer` (its epsilon and
        budget are not used). None: accuracy, for classifiers. Where one class is rare, accuracy
        may choose a model that never predicts it; "neg_brier_score" needs probabilities.
    n_runs : "auto" or int, default="auto"
        Expected number of runs, at least 2; public. ``"auto"``: two for each candidate, but from 10
        to 100. More runs find better candidates and take longer. They cost nothing with pure noise,
        and little otherwise.
    runs : {"geometric", "logarithmic"}, default="geometric"
        Distribution of the number of runs. ``"logarithmic"`` costs as much as two pure runs instead
        of three, but often makes very few runs.
    test_size : float, default=0.25
        Part of the rows on which a run is scored. Each row (or unit) is in it with this
        probability.
    epsilon : float, default=1.0
        Privacy loss of a fit; finite, above 0. Here a fit is the whole search.
    delta : float, default=0.0
        In [0, 1). For the whole search. Zero: pure noise in every run. Above: Gaussian noise.
    max_rows_per_unit : int or "private", default="private"
        With `groups`: how many rows of each unit are used at most, in each fit and each score,
        unless a step or the scorer states its own number. ``"private"``: each of them chooses the
        number, for 10% of its allowance.
    budget : PrivacyBudget or None, default=None
        Budget to charge; it also sets the neighbouring relation. None: the budget of an enclosing
        ``with budget:`` block, if there is one.
    random_state : int, RandomState or None, default=None
        Seeds post-processing, and noise only inside ``skdp.config_context(noise="seeded")``. The
        random draws of a search are secret; they are seeded only there, too.

    Attributes
    ----------
    best_estimator_ : estimator
        The model of the best run, fitted on a part of the rows. There is no refit.
    best_params_ : dict
        Parameters of the best run.
    best_score_ : float
        The noisy score of the best run. It is the highest of many, so it is usually too high. For
        an estimate, score `best_estimator_` with a `private_scorer` on held-out rows.
    scorer_ : str
        The metric.
    classes_ : ndarray
        Only for a classifier: its classes.
    n_features_in_, feature_names_in_ : int, ndarray of shape (n_features_in_,)
        Number of columns; their names, if X has names that are strings.
    privacy_ : skdp.core.PrivacyCertificate
        The one charge.

    Raises
    ------
    TypeError, ValueError
        In `fit`, before anything is charged: if any candidate has a parameter out of range, if a
        step is not private, or if X has a cell that a step refuses (text in a column of numbers,
        NaN, infinity); with `groups`, if their unit is not the budget's, or if a step takes no
        groups.
    BudgetExceededError, SealedBudgetError, LedgerError
        In `fit`, if the budget cannot grant (epsilon, delta).
    RuntimeError
        In `fit`, after the charge: if every run failed.

    See Also
    --------
    DPRandomizedSearchCV : With candidates drawn from distributions.
    search_cost : The cost of scikit-learn's own searches.

    Notes
    -----
    **Privacy.** *Released*: which candidate was best, its fitted model and its noisy score.
    *Sensitivity*: the fit and the score of a run use disjoint rows, so a row affects only one of
    them; the privacy loss of each is at most `run_cost`. With `groups`, all rows of a unit are in
    one of the two, and each protects the unit. *Mechanism*: the best of K independent runs; K is
    secret, with a truncated geometric (or logarithmic) distribution. With pure runs of epsilon_b
    each, the search costs 3 epsilon_b (or 2 epsilon_b). With Gaussian runs, the bound by privacy
    profiles holds. *Charged*: (epsilon, delta), once, before any row is read, to ``budget``. Runs
    have no line of their own in the ledger. Proof: ``skdp/queries/best_of_runs.md``.

    **Not protected: time.** The duration of a search reveals K, and the cost does not cover that.
    Do not publish how long it took. **Nor what your own code keeps.** A function in a step that
    counts or logs its calls knows K, too.

    There is no ``cv_results_``, because it would release every run. ``cv`` and ``refit`` are
    missing for a similar reason: with folds, each row would be in several fits, and a refit is a
    further fit. To refit, fit ``clone(search.best_estimator_)`` with a budget of its own.

    References
    ----------
    Papernot & Steinke 2022, "Hyperparameter tuning with Renyi differential privacy", Corollary 3.

    Koskela, Redberg & Wang 2024, "Privacy profiles for private selection", section 4.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPGridSearchCV, PrivacyBudget
    >>> from skdp.neighbors import DPNearestCentroid
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2)) + 2.0 * (np.arange(400) % 2)[:, None]
    >>> budget = PrivacyBudget(3.0)
    >>> search = DPGridSearchCV(
    ...     DPNearestCentroid(classes=[0, 1]),
    ...     {"bounds": [(-3, 5), (-30, 50)]},
    ...     n_runs=4,
    ...     epsilon=3.0,
    ...     budget=budget,
    ... )
    >>> search.run_cost().epsilon
    1.0
    >>> search = search.fit(X, np.arange(400) % 2)
    >>> len(budget.charges), sorted(search.best_params_)
    (1, ['bounds'])
    """

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        *,
        scoring: Any = None,
        n_runs: Any = "auto",
        runs: str = "geometric",
        test_size: float = 0.25,
        epsilon: float = 1.0,
        delta: float = 0.0,
        max_rows_per_unit: Any = "private",
        budget: PrivacyBudget | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.scoring = scoring
        self.n_runs = n_runs
        self.runs = runs
        self.test_size = test_size
        self.epsilon = epsilon
        self.delta = delta
        self.max_rows_per_unit = max_rows_per_unit
        self.budget = budget
        self.random_state = random_state

    def _candidate_params(self) -> list[Mapping[str, Any]]:
        with naming("param_grid"):
            self._n_candidates()
            return list(ParameterGrid(self.param_grid))

    def _n_candidates(self) -> int:
        with naming("param_grid"):
            return _counted(len(ParameterGrid(self.param_grid)))


class DPRandomizedSearchCV(PrivateSearch):
    """Search candidates drawn from distributions, at one cost for any number of them.

    Works like `DPGridSearchCV`; see there what a run is and what it costs. The list of candidates
    is drawn before any row is read, with the operating system's randomness.

    Parameters
    ----------
    estimator : estimator
        As in `DPGridSearchCV`.
    param_distributions : dict or list of dict
        As for ``RandomizedSearchCV``: lists, or distributions with ``rvs``; public.
    n_iter : int, default=20
        Number of candidates to draw.
    scoring : {"accuracy", "neg_brier_score"} or PrivateScorer, default=None
        As in `DPGridSearchCV`.
    n_runs : "auto" or int, default="auto"
        Expected number of runs. ``"auto"``: two for each candidate, but from 10 to 100.
    runs : {"geometric", "logarithmic"}, default="geometric"
        Distribution of the number of runs.
    test_size : float, default=0.25
        Part of the rows on which a run is scored.
    epsilon : float, default=1.0
        Privacy loss of a fit; finite, above 0. Here a fit is the whole search.
    delta : float, default=0.0
        In [0, 1). For the whole search.
    max_rows_per_unit : int or "private", default="private"
        With `groups`: how many rows of each unit are used at most, in each fit and each score,
        unless a step or the scorer states its own number. ``"private"``: each of them chooses the
        number, for 10% of its allowance.
    budget : PrivacyBudget or None, default=None
        Budget to charge; it also sets the neighbouring relation. None: the budget of an enclosing
        ``with budget:`` block, if there is one.
    random_state : int, RandomState or None, default=None
        Seeds post-processing, and noise only inside ``skdp.config_context(noise="seeded")``. The
        random draws of a search are secret; they are seeded only there, too.

    Attributes
    ----------
    best_estimator_ : estimator
        The model of the best run, fitted on a part of the rows. There is no refit.
    best_params_ : dict
        Parameters of the best run, as drawn.
    best_score_ : float
        The noisy score of the best run. It is the highest of many, so it is usually too high.
    scorer_ : str
        The metric.
    classes_ : ndarray
        Only for a classifier: its classes.
    n_features_in_, feature_names_in_ : int, ndarray of shape (n_features_in_,)
        Number of columns; their names, if X has names that are strings.
    privacy_ : skdp.core.PrivacyCertificate
        The one charge.

    Raises
    ------
    TypeError, ValueError
        In `fit`, before anything is charged, as for `DPGridSearchCV`.
    BudgetExceededError, SealedBudgetError, LedgerError
        In `fit`, if the budget cannot grant (epsilon, delta).
    RuntimeError
        In `fit`, after the charge: if every run failed.

    See Also
    --------
    DPGridSearchCV : With all candidates of a grid.

    Notes
    -----
    **Privacy.** *Released*: parameters, model and noisy score of the best run. *Sensitivity* and
    *mechanism*: those of `DPGridSearchCV`; candidates are drawn without reading rows. *Charged*:
    (epsilon, delta), once, before any row is read. Time is not protected. Proof:
    ``skdp/queries/best_of_runs.md``.

    References
    ----------
    Papernot & Steinke 2022, "Hyperparameter tuning with Renyi differential privacy", Corollary 3.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.stats import loguniform
    >>> from skdp import DPRandomizedSearchCV, DPRidge
    >>> from skdp.model_selection import private_scorer
    >>> search = DPRandomizedSearchCV(
    ...     DPRidge(bounds=(-1, 1), target_bounds=(-1, 1)),
    ...     {"alpha": loguniform(1e-2, 1e2)},
    ...     scoring=private_scorer("neg_mean_absolute_error", epsilon=1.0, bounds=2.0),
    ...     n_iter=5,
    ...     n_runs=4,
    ... )
    >>> search.privacy_cost().epsilon
    1.0
    """

    def __init__(
        self,
        estimator: Any,
        param_distributions: Any,
        *,
        n_iter: int = 20,
        scoring: Any = None,
        n_runs: Any = "auto",
        runs: str = "geometric",
        test_size: float = 0.25,
        epsilon: float = 1.0,
        delta: float = 0.0,
        max_rows_per_unit: Any = "private",
        budget: PrivacyBudget | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.param_distributions = param_distributions
        self.n_iter = n_iter
        self.scoring = scoring
        self.n_runs = n_runs
        self.runs = runs
        self.test_size = test_size
        self.epsilon = epsilon
        self.delta = delta
        self.max_rows_per_unit = max_rows_per_unit
        self.budget = budget
        self.random_state = random_state

    _parameter_table: ClassVar[Table] = {"n_iter": Integers(1, _MOST_CANDIDATES)}

    def _candidate_params(self) -> list[Mapping[str, Any]]:
        seed = None
        if noise_is_seeded() and self.random_state is not None:
            with naming("random_state"):
                seed = repr(self.random_state).encode()
        drawn = int(public_generator(seed).integers(2**32))
        with naming("param_distributions"):
            sampler = ParameterSampler(self.param_distributions, self.n_iter, random_state=drawn)
            params = list(sampler)
            _counted(len(params))
            return params

    def _n_candidates(self) -> int:
        return int(self.n_iter)
