"""How much noise a guarantee needs, rounded outwards: the core's side of the conversions.

Pure functions of public numbers; nothing is released here. The conversions themselves, mu from
(epsilon, delta) and mu from pure epsilon, live with the accountants (`skdp.budget.accountants`),
so that the cost in the ledger and the noise in the release come from one place.

References
----------
Dong, Roth & Su 2022, "Gaussian differential privacy", Corollary 2.13 and Proposition 2.7; Balle &
Wang 2018, "Improving the Gaussian mechanism", Theorem 8 (the analytic calibration).
"""

from __future__ import annotations

import math

from scipy.special import log_ndtr

__all__ = [
    "pure_epsilon_from_mu",
    "pure_part",
    "sigma_up",
]


def pure_epsilon_from_mu(mu: float) -> float:
    """Return an epsilon such that every epsilon-DP release is mu-GDP, rounded down.

    The inverse of `pure_mu`: epsilon = log Phi(mu/2) - log Phi(-mu/2).

    Parameters
    ----------
    mu : float
        Above 0.

    Returns
    -------
    epsilon : float

    Examples
    --------
    >>> epsilon = pure_epsilon_from_mu(0.5)
    >>> from skdp.budget import pure_mu
    >>> pure_mu(epsilon) <= 0.5
    True
    """
    # log_ndtr is good to about 1e-13; their difference is at least 0.79 mu and the two terms are
    # at most log 2 + mu**2 / 8 + ..., so 1e-9 covers it for mu >= 1e-3. Below, the tangent
    # epsilon = sqrt(2 / pi) mu bounds the curve from below (it is convex and starts at 0).
    if mu < 1e-3:
        return math.sqrt(2 / math.pi) * mu * (1 - 1e-9)
    return float(log_ndtr(mu / 2) - log_ndtr(-mu / 2)) * (1 - 1e-9)


def pure_part(mu: float, parts: int) -> float:
    """Return the epsilon that each of `parts` pure releases may have within mu-GDP together."""
    return pure_epsilon_from_mu(mu / math.sqrt(parts) * (1 - 2**-50))


def laplace_std(scale: float) -> float:
    """Return the standard deviation of discrete Laplace noise, which is small below scale 1.

    The variance is 2 q / (1 - q)**2 with q = exp(-1 / scale), that is 1 / (2 sinh(1 / 2 scale)**2).
    """
    return math.sqrt(0.5) / math.sinh(min(0.5 / scale, 700.0))


def sigma_up(sensitivity: float, mu: float) -> float:
    """Return sensitivity / mu, rounded up: the Gaussian scale of a mu-GDP release."""
    return float(sensitivity) / mu * (1 + 2**-50)
