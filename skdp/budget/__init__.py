"""Privacy budgets and their ledgers. This package never sees data.

:class:`PrivacyBudget` is the object that users pass to estimators. :class:`Cost` is the price of a
fit; it is known before any data is touched. Accountants are the rules by which prices add up.
"""

from __future__ import annotations

from skdp.budget.account import Reservation
from skdp.budget.budget import PrivacyBudget
from skdp.loss.accountants import plan_epsilon
from skdp.loss.charge import Charge, Cost, PrivacyLoss, ReservationRecord
from skdp.loss.composition import Conversion, compare_accountants, parallel_cost
from skdp.loss.conversions import exact, gdp_delta, gdp_mu, guessing_chance, pure_mu, zcdp_delta

__all__ = [
    "Charge", "Conversion", "Cost", "PrivacyBudget", "PrivacyLoss", "Reservation",
    "ReservationRecord", "compare_accountants", "exact", "gdp_delta", "gdp_mu",
    "guessing_chance", "parallel_cost", "plan_epsilon", "pure_mu", "zcdp_delta",
]  # fmt: skip
