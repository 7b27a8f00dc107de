"""Sessions: charged before noise, metered exactly, calibrated to the claim, replayable."""

from __future__ import annotations

import contextlib
import copy
import json
import math
import os
import pickle
import sys
import threading
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from skdp import PrivacyBudget, PrivacyLeakError, SeededNoiseWarning, core
from skdp.budget import gdp_delta, pure_mu
from skdp.core import Ball, Box, Mean, Sum, UserFunction, mechanisms, transcript
from skdp.core import noise as sampling
from skdp.core import privacy_filter as release
from skdp.core import sums as statistics
from skdp.loss import conversions
from skdp.queries import (
    AssignedSums,
    BoxTree,
    CellQuantile,
    LearnedBounds,
    NormBins,
    SecondMoment,
    moments,
    norm_from_bins,
    row_counts,
    score_mean,
    second_moments,
)
from skdp.tabular import check_rows, opaque_rows
from tests.core.sessions import X, open_session
from tests.folding import each
from tests.views import ball_of, box_of

RELATIONS = ["replace_one", "add_or_remove_one"]
DELTAS = [0.0, 1e-6]


# --- charging and metering -----------------------------------------------------------------------


def test_the_budget_is_charged_once_on_opening_and_before_noise(monkeypatch):
    seen = []
    budget = PrivacyBudget(2.0)
    monkeypatch.setattr(
        release, "_failpoint", lambda name: seen.append((name, budget.spent.epsilon))
    )
    rows = check_rows(X, estimator="T")
    with core.open_session(rows, estimator="T", epsilon=0.5, budget=budget) as session:
        session.answer(Sum(box_of(session, -1, 1)), 0.5)
        session.answer(Sum(box_of(session, -1, 1)), 0.5)
    assert seen == [
        ("before_charge", 0.0), ("after_charge", 0.5), ("after_noise", 0.5), ("after_noise", 0.5)
    ]  # fmt: skip
    assert budget.spent.epsilon == 0.5


def test_ten_tenths_fit_and_nothing_more_does():
    session = open_session()
    for _ in range(10):
        session.answer(Sum(box_of(session, -1, 1)), 0.1)
    assert session.remaining == 0
    with pytest.raises(PrivacyLeakError, match="share"):
        session.answer(Sum(box_of(session, -1, 1)), 1e-9)
    with pytest.raises(PrivacyLeakError, match="share"):
        session.answer(Sum(box_of(session, -1, 1)))


@pytest.mark.parametrize("share", [0.0, -0.1, 1.1, math.nan])
def test_impossible_shares_are_refused(share):
    with pytest.raises((PrivacyLeakError, ValueError)):
        open_session().answer(Sum(Box([-1, -1], [1, 1])), share)


def test_an_overdrawn_release_draws_no_noise(monkeypatch):
    session = open_session()
    session.answer(Sum(box_of(session, -1, 1)), 0.75)
    monkeypatch.setattr(sampling, "k_norm", lambda *a, **k: pytest.fail("noise was drawn"))
    with pytest.raises(PrivacyLeakError, match="0\\.25 of the session"):
        session.answer(Sum(box_of(session, -1, 1)), 0.5)


# What a meter shows; a new name is a new way to the allowance, and needs a proof.
METER = {
    "add_noise", "check", "claimed_separate_delta", "entropy", "fraction", "history", "level", "mu",
    "noise_seed", "per_step", "post_processing_rng", "pure", "record", "relation", "release",
    "remaining", "reseed", "separate_delta", "spending", "take", "take_separate_delta",
    "unit", "without_releases",
}  # fmt: skip


def privacy_filter(delta):
    return release.PrivacyFilter(
        lambda: b"", estimator="T", epsilon=1.0, delta=delta, separate_delta=0.0, budget=None
    )


def test_a_meter_can_check_take_and_release_and_nothing_else():
    meter = privacy_filter(0.0).meter()
    assert {name for name in dir(meter) if not name.startswith("_")} == METER
    with pytest.raises(AttributeError):
        meter.own = 1
    for name in ("pure", "mu", "remaining", "separate_delta"):
        with pytest.raises(AttributeError):
            setattr(meter, name, 1)
    for duplicate in (copy.deepcopy, pickle.dumps):
        with pytest.raises(PrivacyLeakError, match="copied"):
            duplicate(meter)


def test_no_public_name_of_a_meter_leads_to_the_filter():
    """Nor a context manager of it, nor what these keep."""
    whole = privacy_filter(0.0)
    meter = whole.meter()
    for thing in (meter, meter.per_step(2), meter.spending("x"), meter.without_releases()):
        held = [getattr(thing, name, None) for name in dir(thing) if not name.startswith("_")]
        parts = [part for one in held for part in (one if isinstance(one, tuple) else [one])]
        assert all(part is not whole for part in parts), thing


def a_release(meter):
    return meter.add_noise("x", np.zeros(1, np.int64), 1, mechanisms.l1, lambda: np.ones(1, int))


def test_a_release_needs_a_share_an_open_session_and_no_rows_at_hand():
    whole = privacy_filter(0.0)
    meter = whole.meter()
    with pytest.raises(PrivacyLeakError, match="before any share"):
        a_release(meter)
    meter.take(0.5, "x")
    assert a_release(meter) == 1
    with meter.without_releases(), pytest.raises(PrivacyLeakError, match="runs on the rows"):
        a_release(meter)
    whole.close()
    with pytest.raises(PrivacyLeakError, match="closed"):
        a_release(meter)


@each("steps", [0, -1, 0.5, Fraction(1, 2), True, None])
def test_a_meter_has_whole_steps(steps):
    """Half a step would have twice the allowance."""
    with pytest.raises(PrivacyLeakError, match="steps"):
        privacy_filter(0.0).meter().per_step(2).per_step(steps)


@pytest.mark.parametrize("delta", DELTAS)
def test_the_rest_of_an_allowance_is_not_spent_twice(delta):
    """A meter that was made before `_keep_rest` can take nothing more, and its twin neither."""
    whole = privacy_filter(delta)
    old = whole.meter()
    twin = old.per_step(2)
    old.take(0.25, "first")
    lost = old.level(0.25)
    whole._keep_rest()
    for meter in (old, twin):
        for share in (1e-9, None):
            with pytest.raises(PrivacyLeakError, match="share"):
                meter.take(share, "old")
    new = whole.meter()
    rest = new.level(None)
    new.take(None, "rest")
    with pytest.raises(PrivacyLeakError, match="nothing"):
        whole._keep_rest()
    claim = 1.0 if delta == 0 else whole.claimed_mu
    spent = lost + rest if delta == 0 else math.hypot(lost, rest)
    assert claim * (1 - 1e-12) <= spent <= claim


def test_rows_say_whether_their_number_is_private():
    """No default: a class that forgets it would publish the number."""

    class Forgets:
        n_features, filtered, _n = 1, False, 3

    stability = core.table.stability_of("replace_one")
    for wrong in (Forgets(), type("Odd", (Forgets,), {"n_is_private": None})()):
        with pytest.raises(TypeError, match="n_is_private"):
            core.table.PrivateTable(wrong, stability)
    for private in (False, True):
        rows = type("Says", (Forgets,), {"n_is_private": private})()
        assert core.table.PrivateTable(rows, stability).n_is_public is not private


def test_a_closed_session_releases_nothing():
    with open_session() as session:
        pass
    with pytest.raises(PrivacyLeakError, match="closed"):
        session.answer(Sum(box_of(session, -1, 1)), 0.5)


@pytest.mark.parametrize("delta", DELTAS)
def test_levels_add_up_to_the_claim_rounded_down(delta):
    session = open_session(delta=delta, epsilon=0.7)
    shares = [0.1, 0.2, 0.3, 0.4]
    levels = [session.level(s) for s in shares]
    if delta:
        assert math.fsum(v * v for v in levels) <= session._meter.mu**2
        assert gdp_delta(0.7, math.sqrt(math.fsum(v * v for v in levels))) <= delta
        assert math.fsum(v * v for v in levels) >= session._meter.mu**2 * (1 - 1e-12)
    else:
        assert sum(map(Fraction, levels)) <= Fraction(7, 10)
        assert math.fsum(levels) == pytest.approx(0.7, rel=1e-12)


def test_the_number_of_rows_is_public_only_where_the_relation_says_so():
    assert open_session().n_rows == 500
    assert open_session().row_count(0.5).value == 500
    private = open_session(adjacency="add_or_remove_one")
    with pytest.raises(PrivacyLeakError, match="private"):
        _ = private.n_rows
    assert private.row_count(0.5).std > 0
    assert private.remaining == Fraction(1, 2)


def test_gaussian_noise_in_a_pure_session_is_refused():
    session = open_session()
    with pytest.raises(PrivacyLeakError, match="delta = 0"):
        session.answer(SecondMoment(ball_of(session, 0, 1.0), noise="gaussian"))
    with pytest.raises(ValueError, match="noise must be"):
        open_session().answer(SecondMoment(ball_of(session, 0, 1.0), noise="uniform"))


def test_overlapping_tree_nodes_are_refused():
    tree = open_session().answer(BoxTree(Box([-1, -1], [1, 1]), 4))
    for nodes in ([1, 2], [4, 4], [2, 9], [5, 21]):
        with pytest.raises(PrivacyLeakError, match="disjoint"):
            tree.counts(nodes, 0.1)
        with pytest.raises(PrivacyLeakError, match="disjoint"):
            tree.sums(nodes, 0.1)
    for nodes in ([0], [32], []):
        with pytest.raises(PrivacyLeakError, match="heap"):
            tree.counts(nodes, 0.1)
    assert tree.counts([2, 6, 14, 30, 31], 0.1).value.shape == (5,)


def test_released_arrays_are_read_only():
    session = open_session()
    value = session.answer(Sum(box_of(session, -1, 1)), 0.5).value
    with pytest.raises(ValueError, match="read-only"):
        value[0] = 0.0


# --- seeded noise --------------------------------------------------------------------------------


def one_sum(X, seed, **options):
    session = open_session(X, seed=seed, **options)
    return session.answer(Sum(box_of(session, -1, 1)), 1.0).value


def test_seeded_noise_repeats_for_the_same_rows_and_differs_for_others():
    """Two folds of a search must not share noise: their difference would be exact."""
    np.testing.assert_array_equal(one_sum(X, 0), one_sum(X, 0))
    assert not np.array_equal(one_sum(X, 0), one_sum(X, 1))
    other = X.copy()
    other[0] = 0.5
    exact = (other - X).sum(axis=0)
    assert not np.any(np.isclose(one_sum(other, 0) - one_sum(X, 0), exact, atol=1e-3))
    # The same rows at another epsilon: noise is not a multiple of the other's.
    noise = [one_sum(X, 0, epsilon=e) - X.sum(axis=0) for e in (1.0, 2.0)]
    assert not np.allclose(noise[0], 2 * noise[1], rtol=1e-3)


def test_unseeded_noise_is_fresh_and_does_not_warn(recwarn):
    a, b = (open_session().answer(Sum(Box([-1, -1], [1, 1])), 1.0).value for _ in range(2))
    assert not np.array_equal(a, b)
    assert not [w for w in recwarn if issubclass(w.category, SeededNoiseWarning)]


def test_post_processing_randomness_follows_seed_and_releases_not_rows():
    def draw(X, recorded=None):
        session = open_session(X, seed=0)
        manager = transcript.record() if recorded is None else transcript.replay(recorded)
        with manager as t:
            session.answer(Sum(box_of(session, -1, 1)), 1.0)
            return session.post_processing_rng().integers(2**60), t

    first, recorded = draw(X)
    assert draw(X[::-1] * 0.3, recorded)[0] == first
    assert draw(X[::-1] * 0.3)[0] != first


def test_bad_random_state_is_refused_before_the_charge():
    budget = PrivacyBudget(1.0)
    rows = check_rows(X, estimator="T")
    for bad in ("0", 1.5, True):
        with pytest.raises(ValueError, match="random_state"):
            core.open_session(rows, estimator="T", epsilon=1.0, budget=budget, random_state=bad)
    assert budget.spent.epsilon == 0


# --- scores --------------------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", RELATIONS)
def test_mean_score_sees_one_row_at_a_time_and_swallows_its_errors(adjacency):
    seen = []

    def score(X, y):
        seen.append(len(X))
        if X[0, 0] > 0.9:
            raise RuntimeError("a row that must not decide anything")
        return np.where(X[:, 0] > 0.8, np.nan, X[:, 0])

    budget = PrivacyBudget(1e6, adjacency=adjacency)
    rows = opaque_rows(X, None)
    with core.open_session(rows, estimator="T", epsilon=1e4, budget=budget) as session:
        result = session.answer(score_mean(UserFunction(score), -1.0, 1.0))
    assert set(seen) == {1}
    expected = np.where(X[:, 0] > 0.8, -1.0, X[:, 0]).mean()
    assert float(result.value) == pytest.approx(expected, abs=1e-3)


def test_mean_score_in_blocks_equals_row_by_row():
    def score(X, y):
        if len(X) > 1 and X[7, 0] > 2:
            raise RuntimeError
        return X[:, 0] ** 2

    budget = PrivacyBudget(1e6)
    values = []
    for blocks in (False, True):
        rows = opaque_rows(X, None)
        with (
            core.open_session(rows, estimator="T", epsilon=1e5, budget=budget) as session,
            transcript.record() as t,
        ):
            session.answer(score_mean(UserFunction(score), 0.0, 1.0, blocks))
        values.append(t.entries[0].exact.tolist())
    assert values[0] == values[1]


# --- certificate and transcript -------------------------------------------------------------------


@pytest.mark.parametrize("delta", DELTAS)
def test_the_certificate_holds_every_release_and_its_shares_sum_to_what_was_used(delta):
    session = open_session(delta=delta)
    session.answer(Sum(box_of(session, -1, 1)), 0.25)
    session.answer(SecondMoment(ball_of(session, 0, 1)), 0.25)
    session.answer(AssignedSums(box_of(session, -1, 1), [[0, 0], [1, 1]], 0.5), 0.25)
    certificate = session.certificate()
    assert json.loads(certificate.to_json())["releases"][0]["name"] == "sum"
    names = [r.name for r in certificate.releases]
    assert names == ["sum", "second moment", "assigned sums: counts", "assigned sums: sums"]
    assert sum(r.share for r in certificate.releases) == pytest.approx(0.75)
    html = certificate._repr_html_()
    assert html.count("<tr>") == 5
    assert certificate.charged and not certificate.seeded and certificate.unit == "row"


def test_replay_refuses_another_sequence_of_releases():
    with transcript.record() as recorded:
        session = open_session()
        session.answer(Sum(box_of(session, -1, 1)), 0.5)
    with transcript.replay(recorded), pytest.raises(PrivacyLeakError, match="replay"):
        session = open_session()
        session.answer(SecondMoment(ball_of(session, 0, 1)), 0.5)
    with transcript.replay(recorded), pytest.raises(PrivacyLeakError, match="replay"):
        session = open_session()
        session.answer(Sum(box_of(session, -1, 1)), 0.5)
        session.answer(Sum(box_of(session, -1, 1)), 0.5)


# --- calibration ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mu", [1e-6, 1e-3, 0.1, 1.0, 8.0])
def test_pure_epsilon_from_mu_is_the_inverse_rounded_down(mu):
    epsilon = conversions.pure_epsilon_from_mu(mu)
    assert pure_mu(epsilon) <= mu
    assert pure_mu(epsilon * (1 + 1e-6)) > mu


def test_pure_parts_compose_within_mu():
    each = conversions.pure_part(0.3, 7)
    assert 7 * pure_mu(each) ** 2 <= 0.3**2


def test_sigma_is_rounded_up():
    for sensitivity, mu in [(1.0, 0.3), (7.0, 1 / 3), (2.0**40, 0.1)]:
        assert Fraction(mechanisms.sigma_up(sensitivity, mu)) >= Fraction(sensitivity) / Fraction(
            mu
        )


def test_gaussian_sum_matches_the_profile_of_balle_and_wang():
    """delta(epsilon) of the released sum, by integration of the two densities at distance Delta."""
    session = open_session(delta=1e-6, epsilon=1.0)
    ratio = session._meter.mu
    x = np.linspace(-12, 12, 400_001)
    p, q = stats.norm.pdf(x), stats.norm.pdf(x, loc=ratio)
    delta = np.trapezoid(np.maximum(p - math.e * q, 0), x)
    assert delta == pytest.approx(1e-6, rel=1e-3)
    view = Box([-1.0], [1.0])
    assert statistics.RowSum(statistics.Values(view)).sensitivity("replace_one").l2 == 2**18


# --- extremes ------------------------------------------------------------------------------------


@each("adjacency", RELATIONS)
@each(("epsilon", "delta"), [(1e-6, 0.0), (1e-6, 1e-5), (1e8, 0.0), (700.0, 1e-9)])
def test_every_door_works_from_the_smallest_to_a_huge_epsilon(epsilon, delta, adjacency):
    def fresh():
        return open_session(epsilon=epsilon, delta=delta, adjacency=adjacency, total=1e9)

    s = fresh()
    box, ball = box_of(s, -1, 1), ball_of(s, 0, 1)
    values = [
        s.row_count(0.01).value,
        s.answer(Sum(box), 0.01).value,
        s.answer(Mean(box), 0.01).value,
        s.answer(moments([-1, -1], [1, 1]), 0.01)[0].value,
        s.answer(CellQuantile(box, 0.5), 0.01).value,
        s.answer(AssignedSums(box, [[0, 0]], 0.1, count_share=0.01), 0.01)[1].value,
        s.answer(BoxTree(box, 5)).sums(np.arange(32, 64), 0.01)[1].value,
        s.answer(SecondMoment(ball), 0.01).second_moment,
        s.answer(SecondMoment(ball, noise="wishart"), 0.01).second_moment,
        s.answer(SecondMoment(ball, noise="laplace"), 0.01).second_moment,
        s.answer(LearnedBounds(), 0.01).low,
    ]
    counts = s.answer(row_counts(NormBins(np.zeros(2)), "norm histogram"), 0.01)
    bound = norm_from_bins(counts.value, counts.std, NormBins(np.zeros(2)).low)
    assert bound > 0 or (np.isnan(bound) and epsilon < 1)  # noise hides all rows
    assert all(np.isfinite(v).all() for v in values)


def test_levels_too_small_for_any_sampler_are_refused_before_the_charge():
    budget = PrivacyBudget(1.0, 0.5)
    rows = check_rows(X, estimator="T")
    for epsilon, delta in [(1e-9, 0.0), (1e-7, 1e-12)]:
        with pytest.raises(ValueError, match="epsilon must be at least"):
            core.open_session(rows, estimator="T", epsilon=epsilon, delta=delta, budget=budget)
    assert budget.spent.epsilon == 0


def test_a_coarser_grid_changes_the_second_moment_by_less_than_its_step():
    fine, coarse = (Ball(np.zeros(2), 1.0, bits=b) for b in (17, 9))
    q = [second_moments.exact_gram(check_rows(X, estimator="T"), v)[0] for v in (fine, coarse)]
    moments = [a.astype(float) * v.grid[0] ** 2 for a, v in zip(q, (fine, coarse), strict=True)]
    np.testing.assert_allclose(moments[0], moments[1], atol=len(X) * 4 * 2.0**-9)


# --- the ledger learns what was released ---------------------------------------------------------


def test_the_ledger_lists_the_releases_of_a_charge_when_the_session_ends():
    budget = PrivacyBudget(2.0)
    rows = check_rows(X, estimator="T")
    with core.open_session(rows, estimator="T", epsilon=0.5, budget=budget) as session:
        session.answer(Sum(box_of(session, -1, 1)), 0.5, name="first")
        assert budget.charges[0].releases == ()
    with (
        pytest.raises(ZeroDivisionError),
        core.open_session(rows, estimator="T", epsilon=0.5, budget=budget) as session,
    ):
        session.answer(Sum(box_of(session, -1, 1)), 0.25, name="second")
        _ = 1 / 0
    assert [[r["name"] for r in c.releases] for c in budget.charges] == [["first"], ["second"]]
    assert budget.charges[0].releases[0]["mechanism"] == "K-norm of the cube"
    assert budget.spent.epsilon == 1.0


def test_a_fit_that_is_paid_for_survives_a_ledger_that_went_away(tmp_path):
    path = tmp_path / "x.budget"
    budget = PrivacyBudget(2.0, ledger=path)
    rows = check_rows(X, estimator="T")
    with core.open_session(rows, estimator="T", epsilon=0.5, budget=budget) as session:
        path.unlink()
        assert np.isfinite(session.answer(Sum(box_of(session, -1, 1)), 0.5).value).all()


# --- sessions that are copied, forked or raced --------------------------------------------------


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_session_cannot_be_duplicated(duplicate):
    with pytest.raises(PrivacyLeakError, match="copied"):
        duplicate(open_session())


def test_a_forked_child_cannot_release_under_the_parents_charge():
    session = open_session()
    child = os.fork()
    if child == 0:
        try:
            session.answer(Sum(box_of(session, -1, 1)), 0.5)
        except PrivacyLeakError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    session.answer(Sum(box_of(session, -1, 1)), 0.5)


@pytest.mark.slow
def test_threads_cannot_take_a_share_twice():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-7)
    try:
        for _ in range(100):
            session = open_session()
            granted = []

            def take(session=session, granted=granted):
                with contextlib.suppress(PrivacyLeakError):
                    granted.append(session._meter.take(0.6, "x"))

            threads = [threading.Thread(target=take) for _ in range(4)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            assert len(granted) == 1
    finally:
        sys.setswitchinterval(interval)


def test_one_failing_row_moves_a_private_score_by_one_row_only():
    """Also where the score of a row depends on its block, as BLAS makes it (adversarial reader)."""

    def score(X, y):
        if not np.isfinite(X).all():
            raise ValueError
        return np.full(len(X), 1.0 if len(X) > 1 else 0.0)  # a block scores other than a row alone

    exact = []
    bad = X.copy()
    bad[3] = np.nan
    for data in (X, bad):
        rows = opaque_rows(data, None)
        with (
            core.open_session(rows, estimator="T", epsilon=1.0) as session,
            transcript.record() as t,
        ):
            session.answer(score_mean(UserFunction(score), 0.0, 1.0))
        exact.append(t.entries[0])
    assert exact[0].distance(exact[0].exact, exact[1].exact) <= exact[0].sensitivity


def test_rows_that_turn_into_nan_after_the_check_count_as_zero():
    data = np.ones((5, 2))
    rows = check_rows(data, estimator="T")
    data[2] = np.nan
    session = core.open_session(rows, estimator="T", epsilon=1.0)
    with transcript.record() as t:
        session.answer(Sum(box_of(session, -2, 2)), 1.0)
    assert t.entries[0].exact.tolist() == [4 * 2**30] * 2


def test_a_box_without_width_is_released_with_noise():
    for adjacency in RELATIONS:
        session = open_session(adjacency=adjacency)
        assert np.isfinite(session.answer(Sum(box_of(session, 1, 1)), 0.5).value).all()
        assert np.isfinite(session.answer(Mean(box_of(session, 1, 1)), 0.5).value).all()


def test_the_digest_of_rows_knows_their_shape():
    data = np.arange(24.0)
    digests = {
        check_rows(data.reshape(shape), estimator="T").digest() for shape in [(6, 4), (4, 6)]
    }
    assert len(digests) == 2
