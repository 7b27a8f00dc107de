"""Private statistics on neighbouring tables: the same answer, and no statistic too far.

A call is recorded and replayed on a neighbouring table, where it must end in the same answer and no
exact statistic may move further than it declares.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skdp import PrivacyBudget, PublicRowCountWarning, statistics
from skdp.core import ScaledBox
from skdp.core.transcript import record, replay
from skdp.queries import label_sums
from skdp.queries import views as maps
from tests.folding import each
from tests.statistics.calls import ADJACENCIES, CALLS, HIGH, IDS, LOW, UNMETERED, WHOLE


def neighbour(X, adjacency, kind):
    if adjacency == "replace_one":
        other = X.copy()
        other[4] = [1e300, -1e300, HIGH[2]] if kind else LOW
        X = X.copy()
        X[4] = HIGH
        return X, other
    X = X.copy()
    X[4] = HIGH if kind else [-1e300, HIGH[1], 0.0]
    return X, np.delete(X, 4, axis=0)


@each("delta", [0.0, 1e-6])
@each("adjacency", ADJACENCIES)
@each("kind", [0, 1])
@each(("name", "call", "more"), CALLS, ids=IDS)
def test_a_replay_on_a_neighbour_ends_the_same(X, name, call, more, kind, adjacency, delta):
    options = {"delta": delta, "budget": UNMETERED[adjacency], **more}
    if adjacency == "replace_one":
        options["n_rows"] = "public"
    X, other = neighbour(X[:60], adjacency, kind)
    with record() as transcript:
        first = call(X, **options)
    with replay(transcript) as again:
        second = call(other, **options)
    assert_array_equal(first.value, second.value)
    assert_array_equal(first.std, second.std)
    assert len(transcript.entries) == len(again.entries)
    for a, b in zip(transcript.entries, again.entries, strict=True):
        assert a.sensitivity == b.sensitivity
        assert a.distance(a.exact, b.exact) <= a.sensitivity * (1 + 1e-12)


@each("adjacency", ADJACENCIES)
@each(("name", "call", "more"), CALLS, ids=IDS)
def test_a_replay_on_a_neighbour_with_a_gap(X, name, call, more, adjacency):
    options = {"nan_policy": "omit", "budget": UNMETERED[adjacency], **more}
    X = X[:60].copy()
    X[::7, 0] = np.nan
    for row in ([np.nan] * 3, LOW, HIGH):
        other = X.copy()
        other[3] = row
        with record() as transcript:
            first = call(X, **options)
        with replay(transcript) as again:
            second = call(other, **options)
        assert_array_equal(first.value, second.value)
        # Of the rows that are left, one is gone or one is new: a step of the other relation each.
        steps = 1 if np.isnan(row).any() else 2
        for a, b in zip(transcript.entries, again.entries, strict=True):
            assert a.distance(a.exact, b.exact) <= steps * a.sensitivity * (1 + 1e-12)


@each("delta", [0.0, 1e-6])
@each(("name", "call", "more"), CALLS, ids=IDS)
def test_a_replay_on_a_neighbour_of_a_filtered_table(X, name, call, more, delta):
    """A row of the whole table is replaced: the filter keeps both, one of them, or none."""
    budget = PrivacyBudget(100.0, 1e-2)
    X = X[:60].copy()
    X[4] = HIGH
    other = X.copy()
    other[4] = LOW
    with record() as transcript:
        first = call(X, delta=delta, budget=budget, **more)
    assert budget.spent.epsilon == 1.0  # the count too
    assert first.privacy.adjacency == "replace_one"
    for neighbour, steps in ((other, 2), (np.delete(X, 4, axis=0), 1), (X, 0)):
        with replay(transcript) as again:
            second = call(neighbour, delta=delta, budget=UNMETERED["replace_one"], **more)
        assert_array_equal(first.value, second.value)
        assert_array_equal(first.std, second.std)
        assert len(transcript.entries) == len(again.entries) > 0
        for a, b in zip(transcript.entries, again.entries, strict=True):
            assert a.sensitivity == b.sensitivity
            assert a.distance(a.exact, b.exact) <= steps * a.sensitivity * (1 + 1e-12)
    # The records say what both steps lose, and together it is within the claim.
    gaussian = first.privacy.mu is not None
    level = first.privacy.mu if gaussian else first.privacy.epsilon
    parts = [r.mu if gaussian else r.epsilon for r in first.privacy.releases]
    whole = math.sqrt(math.fsum(v**2 for v in parts)) if gaussian else math.fsum(parts)
    assert whole <= level * (1 + 1e-9)


@pytest.mark.parametrize("function", [statistics.count, statistics.mean, statistics.query_session])
def test_bad_numbers_of_rows_are_refused_for_free(function):
    budget = PrivacyBudget(1.0)
    other = PrivacyBudget(1.0, adjacency="add_or_remove_one")
    for value in ("yes", None, 5, True):
        with pytest.raises(ValueError, match="n_rows must be 'private' or 'public'"):
            function([1.0], n_rows=value, budget=budget)
    with pytest.raises(ValueError, match="n_rows must be 'private' with nan_policy='omit'"):
        function([1.0], n_rows="public", nan_policy="omit", budget=budget)
    with pytest.raises(ValueError, match="n_rows must be 'private' for a budget"):
        function([1.0], n_rows="public", budget=other)
    assert budget.spent.epsilon == other.spent.epsilon == 0.0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("first", [0, 400])
def test_no_warning_tells_of_a_private_number_of_rows(X, first):
    """The budget is not bound to it, and does not compare it with one that it is bound to."""
    budget = PrivacyBudget(10.0)
    if first:
        statistics.mean(X[:first], n_rows="public", epsilon=0.1, budget=budget, **WHOLE)
    for n in (231, 17, 0, 333):
        statistics.mean(X[:n], epsilon=0.1, budget=budget, **WHOLE)
        statistics.count(X[:n], epsilon=0.1, budget=budget)
    statistics.mean(X[:400], n_rows="public", epsilon=0.1, budget=budget, **WHOLE)
    with pytest.warns(PublicRowCountWarning):
        statistics.mean(X[:231], n_rows="public", epsilon=0.1, budget=budget, **WHOLE)


def test_the_count_of_a_filtered_table_is_noisy_and_charged(X):
    budget = PrivacyBudget(1.0)
    kept = X[X[:, 0] > 0]
    answers = [statistics.count(kept, epsilon=0.1, budget=budget) for _ in range(5)]
    assert len({float(a) for a in answers}) > 1
    assert budget.spent.epsilon == pytest.approx(0.5)
    assert all(a.std == pytest.approx(math.sqrt(2) / 0.1, rel=0.01) for a in answers)
    free = statistics.count(X, n_rows="public", epsilon=0.1, budget=budget)
    assert (float(free), float(free.std)) == (len(X), 0.0)
    assert budget.spent.epsilon == pytest.approx(0.5)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_the_sensitivities_of_sums_are_attained(adjacency):
    options = {"bounds": (2.0, 5.0), "budget": UNMETERED[adjacency]}
    if adjacency == "replace_one":
        options["n_rows"] = "public"
    pairs = {"replace_one": ([5.0, 3.0], [2.0, 3.0]), "add_or_remove_one": ([5.0, 3.0], [3.0])}
    for call in (statistics.sum, statistics.count_nonzero):
        with record() as transcript:
            free = {name: value for name, value in options.items() if name != "bounds"}
            more = options if call is statistics.sum else free
            a, b = pairs[adjacency]
            call(a if call is statistics.sum else [1.0, 1.0], **more)
            call(b if call is statistics.sum else [0.0, 1.0][2 - len(b) :], **more)
        a, b = transcript.entries
        assert a.distance(a.exact, b.exact) == pytest.approx(a.sensitivity, rel=1e-4)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_label_sums_of_all_pairs_of_corners(adjacency):
    # Every corner of the box in every class, against every other: the bounds hold and one is met.
    for low, high in (((-1.0, -2.0), (1.0, 2.0)), ((3.0, 1.0), (4.0, 2.0))):
        view = maps.AboutZero(low, high, per_feature=True)
        size = label_sums(np.array(low), np.array(high), 2).sensitivity(adjacency)
        corners = view.map(np.array(list(itertools.product(*zip(low, high, strict=True)))))
        images = [np.concatenate([q, 0 * q]) for q in corners]
        images += [np.concatenate([0 * q, q]) for q in corners]
        images = np.array(images)
        differences = images
        if adjacency == "replace_one":
            differences = (images[:, None] - images[None]).reshape(-1, 4)
        assert np.abs(differences).sum(axis=1).max() == size.l1
        assert (differences**2).sum(axis=1).max() == size.l2_squared


DELICATE = [0.0, -0.0, 5e-324, 1e300, -1e300, 1 / 3, 16.0, 2.0, 24.0, np.nextafter(24, 0), -60.0]


@pytest.mark.parametrize("d", [1, 3, 20])
def test_views_map_each_row_alone_and_within_their_bounds(d):
    rng = np.random.default_rng(d)
    rows = rng.choice(DELICATE, size=(300, d)) * rng.choice([1.0, 1.0, 1 / 7], size=(300, 1))
    low, high = np.full(d, -3.0), np.linspace(1, 20, d)
    boxes = [maps.AboutZero(low, high, per_feature=p) for p in (True, False)]
    views = [*boxes, maps.NonZero(boxes[0]), maps.Total(boxes[1])]
    views += [ScaledBox(low, high), ScaledBox(low, high).at(6)]
    for view in views:
        q = view.map(rows)
        assert_array_equal(q, np.vstack([view.map(row[None]) for row in rows]))
        assert_array_equal(q, np.trunc(q))
        assert np.all(np.abs(q) <= view.half)
        assert all(sum(int(v) ** 2 for v in row) <= view.norm**2 for row in q)


@each("epsilon", [1e-6, 1e-4])
@each(("name", "call", "more"), CALLS, ids=IDS)
def test_little_epsilon_gives_answers(X, name, call, more, epsilon):
    assert np.isfinite(call(X[:50], epsilon=epsilon, random_state=0, **more).value).all()
    budget = UNMETERED["add_or_remove_one"]
    found = call(X[:50], epsilon=epsilon, budget=budget, random_state=0, **more)
    assert np.isfinite(found.value).all()
