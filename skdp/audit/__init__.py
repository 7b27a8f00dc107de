"""Audits of private estimators: replay, neighbour distances, and a statistical lower bound.

Nothing is released under a guarantee here. The first two audits read *exact* statistics of the
rows that they are given, so they are for made-up rows, never for private ones:

* `replay_check` finds whatever reached a fitted estimator without passing a session;
* `neighbour_check` compares each exact statistic on two neighbouring tables with the sensitivity
  that its noise was calibrated to;
* `audit` fits many times on two neighbouring tables and looks at outputs only: a lower bound on
  epsilon (and mu) at a stated confidence, for any estimator of scikit-learn's shape.

None of them charges a budget: every budget among the estimator's parameters is replaced by a
stand-in of the same neighbouring relation, which grants everything and writes no ledger.

References
----------
Jagielski, Ullman & Oprea 2020, "Auditing differentially private machine learning", section 4
(lower bounds on epsilon by Clopper-Pearson intervals).

Dong, Roth & Su 2022, "Gaussian differential privacy", Definition 2.1 (trade-off curves).
"""

from __future__ import annotations

from skdp.audit._statistical import AuditResult, audit
from skdp.audit._transcripts import ReleaseDistance, neighbour_check, replay_check

__all__ = ["AuditResult", "ReleaseDistance", "audit", "neighbour_check", "replay_check"]
