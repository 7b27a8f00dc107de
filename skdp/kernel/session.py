"""Sessions: a budget is charged once, and queries are answered from what it bought.

A session is opened on checked rows with an allowance (see `skdp.kernel.release`); `answer` releases
the answer to a query, which carries its sensitivity (see `skdp.kernel.query`). Views (`box`,
`ball`, `project`) bound rows and release nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skdp.budget import PrivacyBudget
from skdp.kernel.doors import Doors
from skdp.kernel.protect import (
    Ball,
    Box,
    Projection,
    View,
)
from skdp.kernel.rows import Rows

__all__ = ["Session", "open_session"]


class Session(Doors):
    """A metered conversation with one table of private rows; open it with `open_session`."""

    # --- views --------------------------------------------------------------------------------

    def box(self, low: ArrayLike, high: ArrayLike, *, per_feature: bool = False) -> Box:
        """Return the view of the rows clipped to a public box (scalars or one per feature)."""
        shape = (self.n_features,)
        return Box(
            np.broadcast_to(low, shape), np.broadcast_to(high, shape), per_feature=per_feature
        )

    def ball(self, center: ArrayLike, radius: float) -> Ball:
        """Return the view of the rows minus a public centre, clipped to an L2 norm."""
        return Ball(np.broadcast_to(center, (self.n_features,)), radius)

    def project(self, view: View, components: ArrayLike, radius: ArrayLike) -> Projection:
        """Return the view projected on released components (k, d) and clipped to a box."""
        return Projection(view, components, radius)


def open_session(
    rows: Rows,
    *,
    estimator: str,
    epsilon: float,
    delta: float = 0.0,
    delta_apart: float = 0.0,
    budget: PrivacyBudget | None = None,
    random_state: Any = None,
    context: str = "",
) -> Session:
    """Charge (epsilon, delta + delta_apart) to the budget and return a session on the rows.

    Guarantee: the charge is in the ledger before any noise is drawn; everything the session
    releases is (epsilon, delta + delta_apart)-differentially private together.

    Parameters
    ----------
    rows : Rows
        From `check_rows`.
    estimator : str
        Name in ledger and certificate.
    epsilon, delta : float
        Valid (`skdp.base` checks them for estimators).
    delta_apart : float, default=0.0
        For one release with a delta of its own (`PublishedRows`, or Laplace noise in
        `skdp.kernel.smooth`); other noise has none of it.
    budget : PrivacyBudget or None
        Shared ledger; None means the fit stands alone, under replace-one.
    random_state : None, int or RandomState
        Seeds post-processing; and noise, which is then reproducible and marked so, but only inside
        ``skdp.config_context(noise="seeded")``.
    context : str
        Public parameters of the fit; keys the stream of seeded noise.

    Returns
    -------
    session : Session
        A context manager.

    Raises
    ------
    BudgetExceededError, SealedBudgetError, LedgerError
        Nothing was charged then.
    """
    return Session(
        rows,
        estimator=estimator,
        epsilon=epsilon,
        delta=delta,
        delta_apart=delta_apart,
        budget=budget,
        random_state=random_state,
        context=context,
    )
