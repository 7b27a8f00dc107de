"""Audits of private estimators: replay, neighbour distances, and a statistical lower bound.

The first two audits read *exact* statistics of the rows that they are given, so use them with
made-up rows, never with private ones:

* `replay_check` finds information that reached a fitted estimator without passing a session;
* `neighbour_check` compares how far each exact statistic moves between two neighbouring tables with
  the sensitivity that its noise was calibrated to;
* `audit` fits many times on two neighbouring tables, and looks only at outputs: it returns a lower
  bound on epsilon (and mu) at a stated confidence, for any estimator with scikit-learn's interface.

For mechanisms of any library, callables ``mechanism(table, rng) -> output``:

* `replay_mechanism` records the inputs of a library's noise primitives, and replays them on a
  neighbour;
* `exact_epsilon` follows every choice of a small discrete mechanism;
* `black_box_bound` (and `bound_from_outputs`) bound epsilon, delta and mu from outputs alone;
* `find_violation` searches neighbouring tables for a pair that refutes a claim;
* `one_run_audit` guesses after a single run which canaries were in the table;
* ``pytest --dp-audit`` runs these in tests, and controls their false alarms together
  (`pytest_skdp`).

No audit charges a budget: each budget among the parameters of the estimator is replaced by a
stand-in with the same neighbouring relation, which grants everything and writes no ledger.
"""

from __future__ import annotations

from skdp.audit._black_box import (
    LowerBound,
    Search,
    black_box_bound,
    bound_from_outputs,
    find_violation,
    neighbouring_tables,
    structured_pairs,
)
from skdp.audit._exact import EnumeratedChoices, exact_distribution, exact_epsilon
from skdp.audit._one_run import OneRunBound, bound_from_guesses, one_run_audit
from skdp.audit._statistical import AuditResult, audit
from skdp.audit._transcripts import (
    Primitive,
    ReleaseDistance,
    Replay,
    neighbour_check,
    replay_check,
    replay_mechanism,
)

__all__ = [
    "AuditResult", "EnumeratedChoices", "LowerBound", "OneRunBound", "Primitive",
    "ReleaseDistance", "Replay", "Search", "audit", "black_box_bound", "bound_from_guesses",
    "bound_from_outputs", "exact_distribution", "exact_epsilon", "find_violation",
    "neighbour_check", "neighbouring_tables", "one_run_audit", "replay_check",
    "replay_mechanism", "structured_pairs",
]  # fmt: skip
