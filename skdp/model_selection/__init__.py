"""Price a search before it runs, split records for it, and score its candidates privately.

What is released here, under which guarantee:

- `search_cost` and `cross_val_cost` release nothing: they add up what every fit and every
  private score of a search will charge, so that `PrivacyBudget.reserve` can refuse a search
  that cannot be paid before any row is read. scikit-learn turns an exception in ``fit`` into
  a NaN score, so without it a search would run on with a part of its candidates.
- `plan` releases nothing: it lists every charge to come, with the error that it buys.
- `check_pipeline` releases nothing: it reads parameters and names what no ledger can see.
- `private_scorer` releases one noisy mean of clipped per-row scores a call, ε-DP.
- `fit_parts` fits a clone on each of some disjoint parts, each charged to its part's budget.
- `DPGridSearchCV` and `DPRandomizedSearchCV` release the best of a secret number of runs, one
  charge for the whole search.
- `PerRecordKFold` releases nothing: it assigns each record to a fold by a keyed hash of its
  content, so that the folds of neighbouring tables are neighbouring tables.

**The ledger covers the fits, not the choice.** ``best_params_``, ``best_score_`` and
``cv_results_`` of a search come from scores on private folds. They are private only if the
scorer is (`private_scorer`); a search whose scorer is not has released them for free, and no
ledger shows it.
"""

from skdp.model_selection._check import check_pipeline
from skdp.model_selection._cost import SearchCost, cross_val_cost, search_cost
from skdp.model_selection._findings import Finding, PipelineCheck
from skdp.model_selection._folds import PerRecordKFold
from skdp.model_selection._parts import fit_parts
from skdp.model_selection._plan import ChargePlan, PlannedCharge, plan
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
