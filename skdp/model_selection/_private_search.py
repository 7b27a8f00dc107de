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
from skdp._parameters import Integers, Table
from skdp.budget import PrivacyBudget
from skdp.core import public_generator
from skdp.model_selection._search_base import PrivateSearch

__all__ = ["DPGridSearchCV", "DPRandomizedSearchCV"]


class DPGridSearchCV(PrivateSearch):
    """Search a grid over a private estimator, for one cost whatever its size.

    The private counterpart of scikit-learn's ``GridSearchCV``. There, a grid of 20 candidates in 5
    folds is 100 fits, and their sum is the cost. Here a secret number of runs is made: each draws a
    candidate at random, fits it on a random part of the rows and scores it, with noise, on the
    others. Only the best run comes out. The whole costs what three runs do (less with delta > 0),
    so a run has a third of epsilon, and not a hundredth.

    Parameters
    ----------
    estimator : estimator
        A private estimator of skdp, or a pipeline whose steps are private or learn nothing from
        rows. Its own ``epsilon``, ``delta`` and ``budget`` are not used, but for this: private
        steps share a run's allowance in proportion to their ``epsilon``.
    param_grid : dict or list of dict
        As for ``GridSearchCV``; public. With ``epsilon`` of steps in it, the search tries ways of
        sharing.
    scoring : {"accuracy"} or PrivateScorer, default=None
        What a run is scored by: a mean of bounded scores of rows, see `private_scorer`, whose
        epsilon and budget are not used. None: accuracy, for classifiers.
    n_runs : "auto" or int, default="auto"
        Expected number of runs, at least 2, public. ``"auto"``: two a candidate, from 10 to 100.
        More find better candidates and take longer; pure, they cost nothing, else little.
    runs : {"geometric", "logarithmic"}, default="geometric"
        Distribution of the number of runs. ``"logarithmic"`` costs two pure runs instead of three,
        but often makes very few.
    test_size : float, default=0.25
        Part of the rows that a run is scored on; each row, or unit, is in it with this probability.
    epsilon : float, default=1.0
        Privacy loss of a fit; finite, above 0. Here of the whole search.
    delta : float, default=0.0
        In [0, 1). Of the whole search. Zero: pure noise in every run. Above: Gaussian noise.
    max_rows_per_unit : int or "private", default="private"
        With `groups`, how many rows of one unit count in each fit and in each score, where steps
        and scorer state none of their own; ``"private"``: each of these chooses it, for 10% of
        its allowance.
    budget : PrivacyBudget or None, default=None
        Budget to charge; it also sets the neighbouring relation. None: the budget of an enclosing
        ``with budget:`` block, if there is one.
    random_state : int, RandomState or None, default=None
        Seeds post-processing, and noise only inside ``skdp.config_context(noise="seeded")``. What a
        search draws is secret, and follows it only there, too.

    Attributes
    ----------
    best_estimator_ : estimator
        The fitted model of the best run, fitted on a part of the rows. There is no refit.
    best_params_ : dict
        Its parameters in the grid.
    best_score_ : float
        The noisy score of the best run: the highest of many, so too high as a rule. For an
        estimate, score `best_estimator_` with a `private_scorer` on rows that were kept back.
    scorer_ : str
        The metric.
    classes_ : ndarray
        Of a classifier.
    n_features_in_, feature_names_in_ : int, ndarray of shape (n_features_in_,)
        Number of columns; their names, if X has names that are strings.
    privacy_ : skdp.core.PrivacyCertificate
        The one charge.

    Raises
    ------
    TypeError, ValueError
        In `fit`, before anything is charged: any candidate with a parameter out of its range, a
        step that is not private, rows that are no finite numbers; with `groups`, another unit than
        the budget's, and a step that takes no groups.
    BudgetExceededError, SealedBudgetError, LedgerError
        In `fit`, if the budget cannot grant (epsilon, delta).
    RuntimeError
        In `fit`, charged: every run failed.

    See Also
    --------
    DPRandomizedSearchCV : With candidates drawn from distributions.
    search_cost : The cost of scikit-learn's own searches.

    Notes
    -----
    **Privacy.** *Released*: which candidate was best, its fitted model and its noisy score.
    *Sensitivity*: of a run, its fit and its score see disjoint rows, so a row changes one of the
    two; each loses at most what `run_cost` says. With `groups`, all rows of a unit are in one of
    the two, and each protects the unit. *Mechanism*: the best of K independent runs,
    K truncated geometric (or logarithmic) and secret. Pure runs of epsilon_b: 3 epsilon_b (2
    epsilon_b). Gaussian runs: the bound by privacy profiles. *Charged*: (epsilon, delta), once,
    before any row is read, to ``budget``; runs have no line of their own. Proof:
    ``skdp/queries/best_of_runs.md``.

    **Not protected: time.** A search takes as long as its K runs, and who knows K knows more than
    the cost covers. Do not publish how long it took.
    **Nor what your own code keeps.** A function in a step that counts or logs its calls knows K,
    too.

    There is no ``cv_results_``: it would be the release of every run. ``cv`` and ``refit`` are
    missing for the same reason: folds are fitted K - 1 times each, and a refit is a further fit.
    To refit, fit ``clone(search.best_estimator_)`` with a budget of its own.

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
        return list(ParameterGrid(self.param_grid))

    def _n_candidates(self) -> int:
        return len(ParameterGrid(self.param_grid))


class DPRandomizedSearchCV(PrivateSearch):
    """Search candidates drawn from distributions, for one cost whatever their number.

    As `DPGridSearchCV`, which says what a run is and what it costs. The list of candidates is drawn
    before any row is read, from the operating system's entropy.

    Parameters
    ----------
    estimator : estimator
        As in `DPGridSearchCV`.
    param_distributions : dict or list of dict
        As for ``RandomizedSearchCV``: lists, or distributions with ``rvs``; public.
    n_iter : int, default=20
        Number of candidates that are drawn.
    scoring : {"accuracy"} or PrivateScorer, default=None
        As in `DPGridSearchCV`.
    n_runs : "auto" or int, default="auto"
        Expected number of runs; ``"auto"``: two a candidate, from 10 to 100.
    runs : {"geometric", "logarithmic"}, default="geometric"
        Distribution of the number of runs.
    test_size : float, default=0.25
        Part of the rows that a run is scored on.
    epsilon : float, default=1.0
        Privacy loss of a fit; finite, above 0. Here of the whole search.
    delta : float, default=0.0
        In [0, 1). Of the whole search.
    max_rows_per_unit : int or "private", default="private"
        With `groups`, how many rows of one unit count in each fit and in each score, where steps
        and scorer state none of their own; ``"private"``: each of these chooses it, for 10% of
        its allowance.
    budget : PrivacyBudget or None, default=None
        Budget to charge; it also sets the neighbouring relation. None: the budget of an enclosing
        ``with budget:`` block, if there is one.
    random_state : int, RandomState or None, default=None
        Seeds post-processing, and noise only inside ``skdp.config_context(noise="seeded")``. What a
        search draws is secret, and follows it only there, too.

    Attributes
    ----------
    best_estimator_ : estimator
        The fitted model of the best run, fitted on a part of the rows. There is no refit.
    best_params_ : dict
        What was drawn for it.
    best_score_ : float
        The noisy score of the best run: the highest of many, so too high as a rule.
    scorer_ : str
        The metric.
    classes_ : ndarray
        Of a classifier.
    n_features_in_, feature_names_in_ : int, ndarray of shape (n_features_in_,)
        Number of columns; their names, if X has names that are strings.
    privacy_ : skdp.core.PrivacyCertificate
        The one charge.

    Raises
    ------
    TypeError, ValueError
        In `fit`, before anything is charged, as `DPGridSearchCV`.
    BudgetExceededError, SealedBudgetError, LedgerError
        In `fit`, if the budget cannot grant (epsilon, delta).
    RuntimeError
        In `fit`, charged: every run failed.

    See Also
    --------
    DPGridSearchCV : With all candidates of a grid.

    Notes
    -----
    **Privacy.** *Released*: parameters, model and noisy score of the best run. *Sensitivity* and
    *mechanism*: those of `DPGridSearchCV`; candidates are drawn without a look at rows. *Charged*:
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

    _parameter_table: ClassVar[Table] = {"n_iter": Integers(1, 10**5)}

    def _candidate_params(self) -> list[Mapping[str, Any]]:
        seed = None
        if noise_is_seeded() and self.random_state is not None:
            seed = repr(self.random_state).encode()
        drawn = int(public_generator(seed).integers(2**32))
        return list(ParameterSampler(self.param_distributions, self.n_iter, random_state=drawn))

    def _n_candidates(self) -> int:
        return int(self.n_iter)
