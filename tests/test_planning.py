"""What a plan counts on is what the session adds: noise of a share, before and in a fit."""

from __future__ import annotations

import numpy as np
import pytest

from skdp import DPKMeans, PrivacyBudget
from skdp.core import Ball, Mean, open_session
from skdp.planning import Allowance
from skdp.queries import SecondMoment, moments
from skdp.tabular import check_rows

X = np.random.default_rng(0).uniform(-1, 1, (500, 3))
RELATIONS = ["replace_one", "add_or_remove_one"]


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_parts_add_up_to_the_whole(delta):
    whole = DPKMeans(epsilon=0.5, delta=delta)._allowance()
    parts = [whole.part(share) for share in (0.2, 0.3, 0.5)]
    power = 1 if whole.pure else 2
    assert sum(part.level**power for part in parts) == pytest.approx(whole.level**power)
    assert whole.pure == (delta == 0)
    assert whole.pure_epsilon == 0.5 or delta > 0


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_planned_noise_is_that_of_the_release(relation, delta):
    """To 5%: K-norm and Gaussian noise; rounding may add a little, and n is noisy."""
    budget = PrivacyBudget(10.0, 1e-3, adjacency=relation)
    rows = check_rows(X, estimator="test")
    with open_session(rows, estimator="test", epsilon=4.0, delta=delta, budget=budget) as session:
        share = 0.2
        planned = Allowance.left(session, share)
        assert planned.adjacency == relation
        ball = Ball(np.zeros(3), 2.0)
        mean = session.answer(Mean(ball), share)
        assert np.mean(mean.std) * 500 == pytest.approx(planned.sum_std(2.0, 3), rel=0.2)
        first, _, count = session.answer(moments(-np.ones(3), np.ones(3)), share)
        n = float(count.value)
        assert np.mean(first.std) * n == pytest.approx(planned.moments_std(3), rel=0.05)
        count = session.row_count(share)
        assert float(count.std) == pytest.approx(
            0.0 if planned.replace else planned.count_std, rel=0.1
        )
        gram = session.answer(SecondMoment(Ball(np.zeros(3), 1.0), 0.25), share)
        assert gram.noise == planned.gram_noise("auto", 4)
