"""Price a search before it runs, split its records into folds, and score candidates privately.

What each of these releases:

- `search_cost` and `cross_val_cost` release nothing. They add up what every fit and every private
  score of a search will charge. With this price, `PrivacyBudget.reserve` can refuse a search before
  any row is read. Otherwise a search that runs out of budget would continue with a part of its
  candidates, because scikit-learn turns an exception in ``fit`` into a NaN score.
- `plan` releases nothing: it lists every future charge, with the error that it buys.
- `check_pipeline` releases nothing: it reads parameters, and reports what no ledger can see.
- `private_scorer` releases one noisy mean of clipped per-row scores in each call; it is ε-DP.
- `fit_parts` fits a clone on each disjoint part of a table; each fit is charged to the budget of
  its part.
- `DPGridSearchCV` and `DPRandomizedSearchCV` release the best of a secret number of runs, for one
  charge.
- `PerRecordKFold` releases nothing: it assigns each record to a fold by a keyed hash of its
  content, so that the folds of neighbouring tables are neighbouring tables.

**The ledger covers the fits, not the choice.** ``best_params_``, ``best_score_`` and
``cv_results_`` of a search come from scores on private folds. They are private only if the scorer
is private (`private_scorer`). Otherwise the search releases them without a charge, and no ledger
shows it.
"""

from skdp.model_selection._check import Finding, PipelineCheck, check_pipeline
from skdp.model_selection._folds import PerRecordKFold, fit_parts
from skdp.model_selection._plan import (
    ChargePlan,
    PlannedCharge,
    SearchCost,
    cross_val_cost,
    plan,
    search_cost,
)
from skdp.model_selection._private_search import DPGridSearchCV, DPRandomizedSearchCV
from skdp.model_selection._scorer import PrivateScorer, private_scorer

__all__ = [
    "ChargePlan",
    "DPGridSearchCV",
    "DPRandomizedSearchCV",
    "Finding",
    "PerRecordKFold",
    "PipelineCheck",
    "PlannedCharge",
    "PrivateScorer",
    "SearchCost",
    "check_pipeline",
    "cross_val_cost",
    "fit_parts",
    "plan",
    "private_scorer",
    "search_cost",
]
