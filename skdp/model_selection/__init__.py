"""Prices of searches, folds of records, and private searches and scores.

- `search_cost` and `cross_val_cost` add up what all fits and private scores of a search will
  charge, so that `PrivacyBudget.reserve` can refuse a search before any row is read. (A search that
  runs out of budget would continue with some of its candidates, because scikit-learn turns an
  exception in ``fit`` into a NaN score.) `plan` lists every future charge, with its error.
- `check_pipeline` reads parameters, and reports what no ledger can see.
- `private_scorer` releases one noisy mean of clipped per-row scores in each call.
- `DPGridSearchCV` and `DPRandomizedSearchCV` release the best of a secret number of runs, for one
  charge.
- `PerRecordKFold` assigns each record to a fold by a keyed hash of its content. `fit_parts` fits a
  clone on each disjoint part of a table, charged to the budget of its part.

**The ledger covers the fits, not the choice.** ``best_params_``, ``best_score_`` and
``cv_results_`` of scikit-learn's searches come from scores on private folds. They are private only
if the scorer is private. Otherwise the search releases them, and no ledger shows it.
"""

from skdp.model_selection._check import Finding, PipelineCheck, check_pipeline
from skdp.model_selection._folds import (
    PerRecordKFold,
    TrainTestSplit,
    fit_parts,
    private_train_test_split,
)
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
    "ChargePlan", "DPGridSearchCV", "DPRandomizedSearchCV", "Finding", "PerRecordKFold",
    "PipelineCheck", "PlannedCharge", "PrivateScorer", "SearchCost", "TrainTestSplit",
    "check_pipeline", "cross_val_cost", "fit_parts", "plan", "private_scorer",
    "private_train_test_split", "search_cost",
]  # fmt: skip
