"""What a release costs, and whether the budget can pay for it. This package never sees data.

:class:`PrivacyBudget` is the object that users pass to estimators. :class:`Cost` is the price of a
fit; it is known before any data is touched. Accountants are the rules by which prices add up.
"""

from __future__ import annotations

from skdp.budget.account import Reservation
from skdp.budget.budget import PrivacyBudget
from skdp.loss.accountants import gdp_delta, gdp_mu, plan_epsilon, pure_mu, zcdp_delta
from skdp.loss.amounts import exact
from skdp.loss.charge import Charge, Cost, PrivacyLoss, ReservationRecord
from skdp.loss.comparison import Conversion, compare_accountants
from skdp.loss.conversions import guessing_chance
from skdp.loss.parallel import parallel_cost

__all__ = [
    "Charge",
    "Conversion",
    "Cost",
    "PrivacyBudget",
    "PrivacyLoss",
    "Reservation",
    "ReservationRecord",
    "compare_accountants",
    "exact",
    "gdp_delta",
    "gdp_mu",
    "guessing_chance",
    "parallel_cost",
    "plan_epsilon",
    "pure_mu",
    "zcdp_delta",
]
