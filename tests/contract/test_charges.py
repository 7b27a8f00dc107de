"""Charges: what sessions may lose is what the budget is charged, what was announced and is shown.

Every estimator and every function is fitted under a real budget while a transcript notes every
session that is opened, by whomever and on whatever budget. Their sum is what the ledger holds.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from calls import CALLS, Called
from cases import RELATIONS, Case, make, of_every_pair, rows
from estimators import CASES
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from toys import Toy, ToyRatio

from skdp.audit import replay_check
from skdp.budget import PrivacyBudget, exact
from skdp.core import privacy_filter as release
from skdp.core.transcript import record

N = 40


def total(costs, name):
    return sum((exact(getattr(cost, name)) for cost in costs), start=Fraction(0))


def parts_of(estimator):
    """Return the steps of a pipeline, or the estimator itself."""
    if isinstance(estimator, Pipeline):
        return [step for _, step in estimator.steps]
    return [estimator]


def price(estimator, n=N):
    """Return (epsilon, delta) of a fit of n rows as it is announced; a pipeline's is the sum."""
    parts = parts_of(estimator)
    costs = [cost for part in parts if (cost := part.privacy_cost(n_samples=n)) is not None]
    return total(costs, "epsilon"), total(costs, "delta")


def shown(fitted):
    """Return (epsilon, delta) of a fit as its certificates show it."""
    parts = parts_of(fitted)
    return tuple(
        sum((exact(getattr(part.privacy_, name)) for part in parts), start=Fraction(0))
        for name in ("epsilon", "delta")
    )


def check_charges(case, delta, relation, n=N):
    """Fit under a budget, and check the sessions of the fit against it; return both."""
    budget = PrivacyBudget(1e6, 0.9, adjacency=relation)
    estimator = case.make(epsilon=1.0, delta=delta, budget=budget, random_state=None)
    X, y = case.table(rows(n, case.n_features, 0))
    with record() as transcript:
        fitted = estimator.fit(X) if y is None else estimator.fit(X, y)
    used = [one for one in transcript.sessions if one.releases and not one.inner]
    assert bool(used) == bool(transcript.entries) == any(price(estimator, n))
    for session in used:
        assert session.budget is budget, f"{session.estimator}: a session that nobody counts here"
    charges = budget.charges
    for name, announced, visible in zip(
        ("epsilon", "delta"), price(estimator, n), shown(fitted), strict=True
    ):
        spent = total([session.cost for session in used], name)
        assert spent == exact(getattr(budget.spent, name)), name
        assert spent == total([charge.cost for charge in charges], name), name
        assert spent == announced, name
        assert spent == visible, name
    assert len(charges) == len(used)
    check_composition(fitted)
    return estimator, budget


def check_composition(fitted):
    """Check that what the releases of each fit lose adds up to its claim at most."""
    for part in parts_of(fitted):
        claim, releases = part.privacy_, part.privacy_.releases
        assert math.fsum(one.share for one in releases) <= 1 + 1e-9
        if claim.mu is None:
            assert math.fsum(one.epsilon or 0.0 for one in releases) <= claim.epsilon
        else:
            assert math.fsum((one.mu or 0.0) ** 2 for one in releases) <= claim.mu**2
        assert math.fsum(one.delta for one in releases) <= claim.delta


@of_every_pair
@pytest.mark.parametrize("case", CASES + CALLS, ids=lambda c: c.name)
def test_sessions_charge_what_was_announced_and_is_shown(case, pairs):
    for delta, relation in pairs:
        if relation in case.relations:
            check_charges_twice(case, delta, relation)


def check_charges_twice(case, delta, relation):
    estimator, budget = check_charges(case, delta, relation)
    # Again, as a clone: the same cost once more, and nothing comes back.
    before = budget.spent
    X, y = case.table(rows(N, case.n_features, 1))
    again = clone(estimator)
    again.fit(X) if y is None else again.fit(X, y)
    assert exact(budget.spent.epsilon) == 2 * exact(before.epsilon)
    del again
    assert exact(budget.spent.epsilon) == 2 * exact(before.epsilon)


class Stopped(Exception):
    pass


@pytest.mark.parametrize("case", CASES + CALLS, ids=lambda c: c.name)
def test_a_fit_that_fails_after_its_charge_gets_nothing_back(case, monkeypatch):
    """After the first noise at the latest the charge stands, whatever becomes of the fit."""
    relation = case.relations[-1]

    def stop(name):
        if name == "after_noise":
            raise Stopped

    budget = PrivacyBudget(1e6, 0.9, adjacency=relation)
    estimator = case.make(epsilon=1.0, delta=0.0, budget=budget, random_state=None)
    epsilon, _ = price(estimator)
    if not epsilon:
        pytest.skip("nothing is released")
    X, y = case.table(rows(N, case.n_features, 0))
    monkeypatch.setattr(release, "_failpoint", stop)
    with pytest.raises(Stopped):
        estimator.fit(X) if y is None else estimator.fit(X, y)
    # A pipeline stops in its first step.
    assert exact(budget.spent.epsilon) == (1 if case.name == "pipeline" else epsilon)
    assert len(budget.charges) == 1


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_a_paid_fit_outlives_its_warnings(case):
    """Where a filter makes errors of warnings, what was paid for is kept all the same."""
    budget = PrivacyBudget(1e6, 0.9)
    estimator = case.make(epsilon=1.0, delta=0.0, budget=budget, random_state=None)
    for part in parts_of(estimator):
        defaults = inspect.signature(type(part)).parameters
        for name in {"bounds", "target_bounds"} & set(part.get_params()):
            if defaults[name].default == "private":
                part.set_params(**{name: "private"})
    X, y = case.table(rows(N, case.n_features, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with contextlib.suppress(Warning):
            estimator.fit(X) if y is None else estimator.fit(X, y)
    kept = sum(hasattr(part, "privacy_") for part in parts_of(estimator))
    assert len(budget.charges) <= kept


# --- what must be found --------------------------------------------------------------------------


class AsksForFree(Toy):
    """Learns its bounds in a second session that no budget knows of."""

    def fit(self, X, y=None):
        free = Toy(epsilon=self.epsilon, bounds=self.bounds).fit(X)
        super().fit(X)
        self.other_ = free.mean_
        return self


class AsksAnotherBudget(Toy):
    def fit(self, X, y=None):
        own = PrivacyBudget(1e6, 0.9, adjacency=self._adjacency)
        other = Toy(epsilon=self.epsilon, bounds=self.bounds, budget=own).fit(X)
        super().fit(X)
        self.other_ = other.mean_
        return self


class AnnouncesLess(Toy):
    def privacy_cost(self, n_samples=None, n_features=None):
        return Toy(epsilon=self.epsilon / 2).privacy_cost()


class HalfIsCharged(Toy):
    """Charges a cost of its own and opens its session on none."""

    def _opened(self, rows, **options):
        if self.budget is not None:
            half = Toy(epsilon=self.epsilon / 2).privacy_cost()
            self.budget.charge(half, estimator="Toy")
        budget, self.budget = self.budget, None
        try:
            return super()._opened(rows)
        finally:
            self.budget = budget


@pytest.mark.parametrize("broken", [AsksForFree, AsksAnotherBudget, AnnouncesLess, HalfIsCharged])
def test_what_nobody_counts_is_found(broken):
    case = Case("broken", broken)
    with pytest.raises(AssertionError):
        check_charges(case, 0.0, "replace_one")
    estimator = case.make(budget=PrivacyBudget(9.0))
    with pytest.raises(AssertionError, match="session"):
        replay_check(estimator, rows(9, 3, 0), rows(9, 3, 1))


@pytest.mark.parametrize("broken", [AsksForFree, AsksAnotherBudget, AnnouncesLess])
def test_replay_finds_it_without_a_budget_too(broken):
    """Then the cost that is announced has to cover every session."""
    with pytest.raises(AssertionError, match="privacy_cost"):
        replay_check(make(Case("broken", broken), 0.0), rows(9, 3, 0), rows(9, 3, 1))


def test_a_session_without_a_release_costs_nothing():
    """One that is opened to look at what is public: its cost is nobody's business."""

    class Looks(Toy):
        def fit(self, X, y=None):
            rows = self._open(X)
            with Toy(epsilon=9.0)._session(rows) as session:
                assert session.n_rows == len(X)
            return super().fit(X)

    check_charges(Case("looks", Looks), 0.0, "replace_one")
    replay_check(make(Case("looks", Looks), 0.0), rows(9, 3, 0), rows(9, 3, 1))


def test_two_samples_are_charged_once():
    case = Case("toy_ratio", ToyRatio, samples=True)
    for relation in RELATIONS:
        check_charges(case, 0.0, relation)


def test_the_transcript_notes_sessions_on_both_relations_and_in_order():
    budgets = [PrivacyBudget(9.0, adjacency=relation) for relation in RELATIONS]
    with record() as transcript:
        for budget in (*budgets, None):
            Toy(budget=budget, epsilon=0.5).fit(np.zeros((4, 2)))
    assert [session.budget for session in transcript.sessions] == [*budgets, None]
    assert [session.cost.epsilon for session in transcript.sessions] == [0.5] * 3
    assert all(session.releases == 1 for session in transcript.sessions)


def test_a_function_is_a_case_like_an_estimator():
    fitted = Called(np.mean, {}, epsilon=2.0)
    assert fitted.privacy_cost().epsilon == 2.0
