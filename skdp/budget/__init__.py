"""What a release costs and whether it may happen. Nothing in this package ever sees data.

:class:`PrivacyBudget` is the object that users hold; :class:`Cost` is the price of a fit, known
before any data is touched; the accountants decide how prices add up.
"""

from __future__ import annotations

from skdp.budget.accountants import gdp_delta, gdp_mu, pure_mu, zcdp_delta
from skdp.budget.amounts import exact
from skdp.budget.budget import PrivacyBudget, Reservation
from skdp.budget.charge import Charge, Cost, PrivacyLoss, ReservationRecord

__all__ = [
    "Charge",
    "Cost",
    "PrivacyBudget",
    "PrivacyLoss",
    "Reservation",
    "ReservationRecord",
    "exact",
    "gdp_delta",
    "gdp_mu",
    "pure_mu",
    "zcdp_delta",
]
