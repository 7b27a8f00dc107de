"""Every short sequence of requests to a session's allowance: what is let through adds up.

The shipped `PrivacyFilter` and its meters are driven, not a model of them. A depth-first search
makes every request at every point; after each branch the state is put back. What was let through
is added up exactly: epsilons in a pure session, squares of levels in a Gaussian one.

Requests: shares of all sizes, valid or not, of meters with 1, 2 and 6 steps; checks; a separate
delta; requests from code that runs on rows; the end of the session; and `_keep_rest`, by which the
session turns what remains into a new allowance. Meters from before and after it are both used.

What several steps make of a separate delta is computed here, as an exact fraction that is certainly
not below it.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Any, NamedTuple

import mpmath
import pytest

from skdp.core.privacy_filter import Meter, PrivacyFilter
from skdp.exceptions import PrivacyLeakError
from skdp.loss.conversions import exact

ABOUT = ("skdp/loss/conversions.py", "skdp/core/privacy_filter.py")
NEEDS = ()

SHARES = (
    None,
    Fraction(1, 3),
    0.1,
    0.3,
    0.7,
    Fraction(2, 3),
    0.9999999999999999,
    1e-16,
    1.0,
)
FEW_SHARES = SHARES[:4]
NO_SHARES = (0.0, -0.5, 1.0000000000000002, Fraction(0), Fraction(3, 2), float("nan"))
NO_STEPS = (0, -1, 0.5, True)


class Request(NamedTuple):
    """One request: what is done, with which meter, and its argument."""

    kind: str
    meter: int = 0
    argument: Any = None


class Lost(NamedTuple):
    """What the requests so far have let through: losses, and separate deltas."""

    loss: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)


# Meters 0 to 2 are made when the session is opened, 3 and 4 after the last `_keep_rest`.
STEPS = (1, 2, 6, 1, 2)


def requests(separate_delta):
    """Return every request that the search makes at each point."""
    made = [Request("take", 0, share) for share in SHARES]
    made += [Request("take", meter, share) for meter in (1, 2, 3, 4) for share in FEW_SHARES]
    made += [Request("refused", 0, share) for share in NO_SHARES]
    made += [Request("steps", 0, steps) for steps in NO_STEPS]
    made += [Request("check", 1, 0.7), Request("on rows", 0, 0.1), Request("close")]
    made += [Request("keep rest"), Request("keep rest on rows")]
    if separate_delta:
        # Two steps make more than twice as much of a delta, and here less than four times.
        probabilities = [exact(separate_delta) / k for k in (1, 2, 4)]
        made += [Request("separate", meter, p) for meter in (0, 1, 4) for p in probabilities]
    return made


def exp_up(x):
    """Return a fraction that is not below exp(x), for 0 <= x < 20, and hardly above.

    The series, of which the rest is less than twice its first term; all terms are positive.
    """
    total, term = Fraction(0), Fraction(1)
    for k in range(1, 100):
        total, term = total + term, term * x / k
    return Fraction(math.ceil((total + 2 * term) * 2**200), 2**200)


def pure_loss(mu):
    """Return the loss of a pure release that is made in mu-GDP: Phi(mu/2) = exp(x)/(1 + exp(x)).

    Less by a millionth: such losses are rounded down.
    """
    with mpmath.workdps(40):
        half = mpmath.mpf(mu) / 2
        x = mpmath.log(mpmath.ncdf(half) / mpmath.ncdf(-half))
        return Fraction(int(x * 2**120), 2**120) * (1 - Fraction(1, 10**6))


@functools.cache
def growth(steps, part, epsilon, mu):
    """Return a bound on what so many steps make of a delta of one of them.

    Of (e, delta)-DP for a step, k steps make delta * (1 + exp(e) + ... + exp((k - 1) e)).
    """
    each = epsilon * part / steps
    if mu is not None:
        each = max(each, pure_loss(mu * float(part) ** 0.5 / steps))
    return sum(exp_up(i * each) for i in range(steps))


class Search:
    """The search of one session's allowance.

    Parameters
    ----------
    epsilon, delta, separate_delta : float
        Of the claim.
    """

    def __init__(self, epsilon, delta, separate_delta):
        self.filter = PrivacyFilter(
            lambda: b"",
            estimator="checker",
            epsilon=epsilon,
            delta=delta,
            separate_delta=separate_delta,
            budget=None,
        )
        first, second = self.filter.meter(), self.filter.meter().per_step(2)
        self.meters: list[Meter] = [first, second, second.per_step(3)]
        self.epsilon = exact(epsilon)
        self.claimed = self.epsilon if delta == 0 else Fraction(self.filter.claimed_mu) ** 2
        # The growth of a delta with several steps is rounded upwards.
        self.claimed_delta = exact(separate_delta) * (1 + Fraction(1, 2**39))
        self.requests = requests(separate_delta)
        self.n_requests, self.most = 0, Fraction(0)

    # --- the state ------------------------------------------------------------------------------

    def state(self):
        """Return everything that a request may change."""
        f = self.filter
        shares = {id(meter._shares): meter._shares for meter in self.meters} | {
            id(f._shares): f._shares
        }
        return (
            f._shares,
            [(one, one.part, one.spent) for one in shares.values()],
            (f._separate_delta_is_spent, f._is_open, f._passes),
            tuple(self.meters),
        )

    def restore(self, state):
        """Put everything back."""
        f = self.filter
        f._shares = state[0]
        for shares, part, spent in state[1]:
            shares.part, shares.spent = part, spent
        f._separate_delta_is_spent, f._is_open, f._passes = state[2]
        self.meters = list(state[3])

    # --- requests -------------------------------------------------------------------------------

    def make(self, request):
        """Make a request; return what it let through, None if it must not change anything."""
        kind, place, argument = request
        if kind == "keep rest":
            self.filter._keep_rest()
            self.meters[3:] = [self.filter.meter(), self.filter.meter().per_step(2)]
            return Lost()
        if kind == "close":
            self.filter.close()
            return Lost()
        meter = self.meters[place]
        if kind == "take":
            return Lost(loss=self.loss_of(meter, STEPS[place], *meter.take(argument, "a")))
        if kind == "separate":
            meter.take_separate_delta(argument, "a")
            part = meter._shares.part
            grown = growth(STEPS[place], part, self.epsilon, self.filter.claimed_mu)
            return Lost(delta=argument * grown)
        if kind == "check":
            meter.check(argument, "a")
            return None
        if kind == "steps":
            meter.per_step(argument)
        elif kind == "refused":
            meter.take(argument, "a")
        else:
            with meter.without_releases():
                self.filter._keep_rest() if kind == "keep rest on rows" else meter.take(
                    argument, "a"
                )
        pytest.fail(f"{request} was not refused")
        return None

    def loss_of(self, meter, steps, fraction, epsilon):
        """Return what a release of this share may lose for all steps of a unit."""
        if meter.pure:
            return epsilon * steps
        return (Fraction(meter.level(fraction)) * steps) ** 2

    # --- the search -----------------------------------------------------------------------------

    def run(self, depth, lost=Lost(), path=()):  # noqa: B008  an immutable value
        """Make every sequence of so many requests, and check the sums after each."""
        before = self.state()
        for request in self.requests:
            if request.meter >= len(self.meters):
                continue  # `_keep_rest` has not been called
            self.n_requests += 1
            try:
                more = self.make(request)
            except (PrivacyLeakError, ValueError):
                more = None
            if more is None:  # refused, or a check: the same requests would follow
                assert self.state() == before, (*path, request)
                continue
            total = Lost(lost.loss + more.loss, lost.delta + more.delta)
            assert total.loss <= self.claimed, (*path, request)
            assert total.delta <= self.claimed_delta, (*path, request)
            self.most = max(self.most, total.loss)
            if depth > 1:
                self.run(depth - 1, total, (*path, request))
            self.restore(before)


# Epsilon, delta and separate delta of a claim, and how many requests a sequence has.
CLAIMS = {
    "pure": (1.0, 0.0, 0.0, 5),
    "pure, separate delta": (0.1, 0.0, 1e-6, 4),
    "gaussian": (3.3, 1e-6, 0.0, 5),
    "gaussian, separate delta": (1e-3, 1e-9, 1e-9, 4),
}


@pytest.mark.slow
@pytest.mark.parametrize("claim", CLAIMS)
def test_every_sequence_of_requests(claim, record_property):
    """Whatever is requested, no more is lost than what was claimed, and a refusal changes nothing.

    Domain: every sequence of four requests; of five, where there is no separate delta. Method:
    exhaustive; sums are exact fractions.
    """
    *claimed, depth = CLAIMS[claim]
    search = Search(*claimed)
    search.run(depth)
    record_property("requests", search.n_requests)
    record_property("most_lost_of_claimed", float(search.most / search.claimed))
    # Some sequence takes all that was claimed, but for the rounding of levels.
    assert search.most >= search.claimed * (1 - Fraction(1, 2**45))
