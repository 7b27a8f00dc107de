"""Variant C of DPuLSIF publishes raw private rows: shown, charged and warned of as such.

It is there to reproduce experiments. These tests are no contract that it keeps; they prove that it
leaks, so that nobody takes it for private, and that no other variant does.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from audit_pairs import CONFIDENCE
from cases import RELATIONS, two_samples

from skdp import PrivacyBudget
from skdp.audit import audit
from skdp.core.transcript import record
from skdp.density_ratio import DPuLSIF
from skdp.exceptions import PublishedRowsWarning

PUBLISHED = "published_private_rows"
N, B = 48, 6
PRIVATE = np.random.default_rng(0).uniform(-1, 1, size=(N, 3))
PUBLIC = np.random.default_rng(1).uniform(-1, 1, size=(25, 3))
X, Y = two_samples(PRIVATE, PUBLIC)
GRID = 1e-4  # centres lie on the kernel's grid, a row's nearest point of which is nearer than this


def variant_c(budget=None, **parameters):
    options = {"n_centers": B, "delta": 0.2, "sampling_rate": 0.125, **parameters}
    return DPuLSIF(PUBLISHED, budget=budget, **options)


def nearest(points, table):
    """Return the largest difference in any coordinate of each point from its nearest row."""
    return np.abs(points[:, None] - table).max(axis=2).min(axis=1)


def test_its_centres_are_private_rows():
    with (
        pytest.warns(PublishedRowsWarning, match="publishes raw private rows"),
        record() as transcript,
    ):
        fitted = variant_c().fit(X, Y)
    shown = transcript.entries[0].released
    # To the last bit, six different ones.
    found = [np.flatnonzero((row == PRIVATE).all(axis=1)) for row in shown]
    assert [len(places) for places in found] == [1] * B
    assert len({int(places[0]) for places in found}) == B
    # And by anybody who looks at the model.
    assert fitted.centers_.shape == (B, 3)
    assert (nearest(fitted.centers_, PRIVATE) < GRID).all()
    assert (nearest(fitted.centers_, PUBLIC) > 10 * GRID).all()


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_ledger_shows_the_share_that_is_published(relation):
    budget = PrivacyBudget(10.0, 0.5, adjacency=relation)
    with pytest.warns(PublishedRowsWarning):
        fitted = variant_c(budget, epsilon=2.0).fit(X, Y)
    share = B / N if relation == "replace_one" else 0.125  # the stated rate
    (charge,) = budget.charges
    assert (charge.epsilon, charge.delta) == (2.0, share)
    assert budget.spent.delta == share
    assert fitted.privacy_.delta == share
    shown = [r for r in fitted.privacy_.releases if r.mechanism == "raw rows published"]
    assert [(r.sensitivity, r.delta) for r in shown] == [(np.inf, share)]
    assert sum(r.delta for r in fitted.privacy_.releases) == share
    # Its price, before it is known which share it will be: an upper bound.
    assert variant_c().privacy_cost().delta == 0.2
    if relation == "add_or_remove_one":
        # Cut or filled with dummies to a public number of centres.
        assert fitted.centers_.shape == (B, 3)
        assert (nearest(fitted.centers_, PRIVATE) < GRID).sum() >= 1


@pytest.mark.parametrize("relation", RELATIONS)
def test_it_refuses_a_delta_below_that_share_and_charges_nothing(relation):
    budget = PrivacyBudget(10.0, 0.5, adjacency=relation)
    for delta in (0.0, 1e-6, np.nextafter(0.125, 0)):
        with pytest.raises(ValueError, match=r"delta must be at least 0\.125"):
            variant_c(budget, delta=delta).fit(X, Y)
    assert budget.charges == []
    # Where the number of rows is private, so is n_centers / n.
    if relation == "add_or_remove_one":
        with pytest.raises(ValueError, match="sampling_rate must be given"):
            variant_c(budget, sampling_rate=None).fit(X, Y)


def sees(fitted):
    """Say whether the row at 9 is among the centres."""
    return float((fitted.centers_ > 8.9).any())


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore::skdp.exceptions.PublishedRowsWarning")
def test_what_it_charges_is_what_it_leaks():
    """One of two rows: delta = 0.5 holds whatever epsilon is, and half of it does not."""
    first, y = two_samples(np.array([[0.1], [9.0]]), np.array([[0.0], [9.0], [1.0]]))
    second, _ = two_samples(np.array([[0.1], [0.4]]), np.array([[0.0], [9.0], [1.0]]))
    estimator = DPuLSIF(
        PUBLISHED, n_centers=1, gamma=1.0, alpha=0.1, noise="independent", epsilon=0.01, delta=0.5
    )
    options = {"y": y, "y_neighbour": y, "n_runs": 500, "confidence": CONFIDENCE, "random_state": 0}
    assert audit(estimator, first, second, sees, **options).passed
    assert audit(estimator, first, second, sees, epsilon=0.01, delta=0.25, **options).refuted


@pytest.mark.parametrize(
    "centers", ["public", "noisy", np.eye(3)], ids=["public", "noisy", "stated"]
)
def test_no_other_variant_shows_a_row_or_warns(centers):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = DPuLSIF(centers, n_centers=B, epsilon=50.0).fit(X, Y)
    assert (nearest(fitted.centers_, PRIVATE) > 10 * GRID).all()
