"""Objective perturbation: right to oracles, certified, within its bounds, which are attained."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression

from skdp import PrivacyBudget, core
from skdp.core import transcript
from skdp.core.clipping import clip_to_norm
from skdp.core.table import PrivateTable, stability_of
from skdp.exceptions import PrivacyLeakError
from skdp.loss.conversions import gdp_delta
from skdp.queries import LogisticObjective, StandardBall, images, views
from skdp.queries import logistic as of
from skdp.tabular import check_labelled
from tests.folding import each

A, R = "add_or_remove_one", "replace_one"
RNG = np.random.default_rng(3)
X = RNG.normal(size=(300, 3))
VIEW = StandardBall([-9.0] * 3, [9.0] * 3, [0.0] * 3, [1.0] * 3, 4.0)
BUDGETS = {relation: PrivacyBudget(1e12, 0.5, adjacency=relation) for relation in (A, R)}


def labels(n_classes):
    scores = X @ np.arange(3 * n_classes).reshape(3, n_classes) / 4 % 1.7
    return (scores + np.random.default_rng(4).gumbel(size=scores.shape)).argmax(axis=1)


def rows_of(x, y, n_classes):
    return check_labelled(x, y, classes=np.arange(n_classes), estimator="T", allow_empty=True)


def query(n_classes, penalty=0.1, cap=1.0, offset=None, **options):
    if offset is None:
        offset = np.zeros(1 if n_classes == 2 else n_classes)
    return LogisticObjective(VIEW, 0.25, offset, penalty, cap, **options)


def problem(x, y, n_classes, k_bits=60, **options):
    """Return the exact objective of a query, without noise."""
    asked = query(n_classes, **options)
    table = PrivateTable(rows_of(x, y, n_classes), stability_of(R))
    return of._Objective(
        table, VIEW, asked.last, asked.scale, asked.offset, asked.cap, None,
        Fraction(asked.penalty), k_bits,
    )  # fmt: skip


def answered(n_classes, y, **options):
    epsilon, delta = options.pop("epsilon", 1e9), options.pop("separate_delta", 0.0)
    with core.open_session(
        rows_of(X, y, n_classes), estimator="T", epsilon=epsilon, separate_delta=delta
    ) as session:
        release = session.answer(query(n_classes, **options))
        return release, session.certificate()


# --- against oracles -----------------------------------------------------------------------------


@each("n_classes", [2, 4])
@each("delta", [0.0, 1e-6])
def test_it_equals_scikit_learns(n_classes, delta):
    y = labels(n_classes)
    release, certificate = answered(
        n_classes, y, tau=1e-8, separate=delta > 0, separate_delta=delta, epsilon=1e12
    )
    z = np.column_stack([VIEW.map(X) * VIEW.grid, np.ones(len(X))])
    scale = query(n_classes).scale / VIEW.grid[0]
    constant = query(n_classes).last * VIEW.grid[0]
    z[:, -1] = constant
    theirs = LogisticRegression(C=10.0, fit_intercept=False, tol=1e-12, max_iter=5000)
    coef = theirs.fit(z * scale, y).coef_ * scale
    coef[:, -1] *= constant
    np.testing.assert_allclose(release.value, coef, atol=2e-3)
    assert certificate.delta == delta and certificate.mu is None
    assert [record.delta for record in certificate.releases] == [delta]


def slow_gradient(objective, x, y, k):
    """Return the gradient at k 2**-bits in 50 digits."""
    with mpmath.workdps(50):
        n_logits, dims = objective.shape
        theta = [mpmath.mpf(int(v)) / 2**objective.bits for v in k]
        penalty = mpmath.mpf(objective.penalty.numerator) / objective.penalty.denominator
        total = [penalty * v for v in theta]
        for q, label in zip(VIEW.map(np.array(x)), y, strict=True):
            z = [mpmath.mpf(objective.scale) * v for v in (*q.tolist(), objective.last)]
            t = [
                mpmath.mpf(float(o)) + mpmath.fdot(theta[j * dims : (j + 1) * dims], z)
                for j, o in enumerate(objective.offset)
            ]
            if n_logits == 1:
                sign = 1 if label == 1 else -1
                r = [-sign * min(1 / (1 + mpmath.exp(sign * t[0])), mpmath.mpf(objective.cap))]
            else:
                total_weight = mpmath.fsum(mpmath.exp(v) for v in t)
                p = [mpmath.exp(v) / total_weight for v in t]
                u = mpmath.fsum(v for j, v in enumerate(p) if j != label)  # not 1 - p: digits
                factor = min(mpmath.mpf(1), objective.cap / u)
                r = [factor * (-u if j == label else v) for j, v in enumerate(p)]
            for j, i in itertools.product(range(n_logits), range(dims)):
                total[j * dims + i] += r[j] * z[i]
        return total


@each("n_classes", [2, 3])
@each("cap", [0.25, 1.0])
def test_the_gradient_is_within_its_error_and_the_minimum_is_certified(n_classes, cap):
    """Far points too, where logits are in the hundreds and two limbs are not enough."""
    x, y = X[:12] * 3, labels(n_classes)[:12]
    n_logits = 1 if n_classes == 2 else n_classes
    offset = np.linspace(-2.0, 3.0, n_logits)
    objective = problem(x, y, n_classes, cap=cap, offset=offset, penalty=0.01)
    rng = np.random.default_rng(0)
    minimum = of.minimum(objective, Fraction(1, 10**8))
    points = [minimum] + [
        np.array([int(v * 2**60) for v in size * rng.normal(size=n_logits * 4)], dtype=object)
        for size in (1.0, 300.0)
    ]
    for at, k in enumerate(points):
        gradient, error = objective.evaluate(k)
        exact = slow_gradient(objective, x, y, k)
        with mpmath.workdps(50):
            off = mpmath.sqrt(sum((g.numerator / mpmath.mpf(g.denominator) - e) ** 2
                                  for g, e in zip(gradient, exact, strict=True)))  # fmt: skip
            assert off <= error.numerator / mpmath.mpf(error.denominator)
            if at == 0:
                assert mpmath.norm(exact) <= 1e-8
        assert float(error) < 1e-10 * len(x)


@each("n_classes", [2, 3])
@each("penalty", [1e-6, 0.03, 50.0])
@each("std", [1e-3, 10.0])
def test_a_search_ends_wherever_it_may_go(n_classes, penalty, std):
    """The error of a gradient is at most a quarter of tau at the longest theta of a search."""
    n_logits = 1 if n_classes == 2 else n_classes
    offset = np.linspace(-2.0, 3.0, n_logits)
    objective = problem(X, labels(n_classes), n_classes, offset=offset, penalty=penalty)
    n, dims = len(X), 4
    tau = of.least_tau(n, n_logits, dims, penalty, std, offset, 5.0)
    of_b = 4.0 * std * (math.sqrt(n_logits * dims) + 15.0)
    longest = (of_b + math.sqrt(of_b**2 + 2.0 * penalty * n * 5.0)) / penalty
    k = np.array([0] * (n_logits * dims), dtype=object)
    k[0] = int(longest * 2.0**objective.bits)
    _, error = objective.evaluate(k)
    assert tau / 200 < float(error) <= tau / 4


def test_rows_of_no_class_and_of_no_weight_do_not_count():
    y = labels(3)
    few = problem(X[:200], y[:200], 3)
    rows = rows_of(X, y, 3)
    rows._y = np.where(np.arange(300) < 200, y, -1)
    others = of._Objective(**{**vars(few), "table": PrivateTable(rows, stability_of(R))})
    k = np.array([int(v * 2**60) for v in np.linspace(-1, 1, 12)], dtype=object)
    assert (few.totals(k) == others.totals(k)).all()


# --- what is proved ------------------------------------------------------------------------------


def gradients(t, y, cap):
    return of._losses(np.atleast_2d(np.asarray(t, dtype=float)), np.array([y]), cap)[0][0]


@each("relation", [R, A])
@each("n_classes", [2, 3, 5])
@each("cap", [0.3, 1.0])
def test_the_gradient_moves_as_far_as_stated_and_no_further(n_classes, cap, relation):
    """For fixed theta: the rows' logits differ, and so may their labels."""
    n_logits = 1 if n_classes == 2 else n_classes
    rng = np.random.default_rng(1)
    bound = float(of._sensitivity(n_logits, cap, relation))
    largest = 0.0
    for _ in range(300):
        y, other = rng.integers(0, n_classes, 2)
        # The worst: each row is certain of the other's label; z = z'.
        t = np.zeros(n_logits)
        t[-1 if n_logits == 1 else other] = 40.0 * (1 if n_logits > 1 or not y else -1)
        t_other = np.zeros(n_logits)
        t_other[-1 if n_logits == 1 else y] = 40.0 * (1 if n_logits > 1 or not other else -1)
        if rng.random() < 0.5:
            t, t_other = rng.normal(size=(2, n_logits)) * 3
        moved = gradients(t, y, cap)
        if relation == R:
            moved = moved - gradients(t_other, other, cap)
        largest = max(largest, float(np.linalg.norm(moved)))
    assert 0.999 * bound <= largest <= bound


@each("n_classes", [2, 3, 6])
@each("cap", [0.25, 0.6, 1.0])
def test_determinants_are_within_j(n_classes, cap):
    """Of one row more; for a replaced one in logistic.md. Attained where all is uncertain."""
    n_logits, penalty = (1 if n_classes == 2 else n_classes), 0.7
    rng = np.random.default_rng(2)
    bound = of.determinant_loss(n_logits, cap, penalty)
    losses = []
    for trial in range(200):
        t = rng.normal(size=(1, n_logits)) * (0.0 if trial == 0 else 2.0)
        y = np.array([rng.integers(n_classes)])
        total = np.zeros((n_logits, 1, n_logits, 1))
        _, p, factor = of._losses(t, y, cap, curvature=True)
        of._add_curvature(total, np.zeros((1, 0)), 1.0, p, factor)
        matrix = total.reshape(n_logits, n_logits)
        matrix = np.triu(matrix) + np.triu(matrix, 1).T
        step = 1e-6  # the Hessian is the derivative of the gradient
        other = np.array([
            (gradients(t[0] + step * e, y[0], cap) - gradients(t[0] - step * e, y[0], cap))
            / (2 * step) for e in np.eye(n_logits)
        ])  # fmt: skip
        np.testing.assert_allclose(matrix, other, atol=1e-5)
        losses.append(np.linalg.slogdet(np.eye(n_logits) + matrix / penalty)[1])
    assert max(losses) <= bound
    if cap == 1.0:
        assert max(losses) >= 0.999 * bound


def squared_norms(n_classes, y, other, c):
    """Return those of all vertices for two rows with z . z' = c."""
    e = np.eye(n_classes)
    ends = [[np.zeros(n_classes), *(e[j] - e[own] for j in range(n_classes) if j != own)]
            for own in (y, other)]  # fmt: skip
    return sorted(
        (d @ d + b @ b - 2 * c * (d @ b) for d, b in itertools.product(*ends)), reverse=True
    )


@each("n_classes", [2, 3, 7])
def test_no_pair_of_rows_has_more_or_longer_vertices(n_classes):
    stated = [part for n, part in of._vertices(n_classes, R) for _ in range(n)] + [0.0]
    stated.sort(reverse=True)
    for other, c in itertools.product((0, 1), (-1.0, -0.3, 0.0, 0.8, 1.0)):
        found = squared_norms(n_classes, 0, other, c)
        assert len(found) == len(stated)
        assert all(a <= 8 * b + 1e-12 for a, b in zip(found, stated, strict=True))
    assert squared_norms(n_classes, 0, 0, -1.0)[n_classes - 2] == pytest.approx(8)


@each("cap", [0.25, 1.0])
@each("common", [[], [0, 1], [1, 1, 1]])
def test_the_loss_of_one_number_is_within_the_claim(cap, common):
    """Two classes and the constant alone: the exact loss, by integration over b."""
    penalty, x, delta = 2.0, 1.0, 1e-3
    mu = of.objective_mu(x, delta, 1, R)
    sigma = float(of._sensitivity(1, cap, R)) / mu
    epsilon = x + of.determinant_loss(1, cap, penalty)
    theta = np.linspace(-40.0, 40.0, 400_001)

    def density(y, sigma):
        gradient, hessian = np.zeros(theta.size), np.zeros(theta.size)
        for label in y:
            sign = 1.0 if label == 1 else -1.0
            u = 1 / (1 + np.exp(sign * theta))
            gradient += -sign * np.minimum(u, cap)
            hessian += np.where(u < cap, u * (1 - u), 0.0)
        b = -gradient - penalty * theta
        return norm.pdf(b, scale=sigma) * (penalty + hessian)

    step = theta[1] - theta[0]

    def lost(sigma):
        one, other = density([*common, 1], sigma), density([*common, 0], sigma)
        assert one.sum() * step == pytest.approx(1.0, abs=1e-4)  # it jumps where the cap begins
        return max(
            np.maximum(a - math.exp(epsilon) * b, 0.0).sum() * step
            for a, b in ((one, other), (other, one))
        )

    assert lost(sigma) <= delta
    assert lost(0.8 * sigma) > delta or cap == 1.0  # where residuals fall with b, it is less


@each("relation", [R, A])
@each("n_classes", [2, 3, 10])
def test_mu_uses_all_of_delta(n_classes, relation):
    mu = of.objective_mu(0.8, 1e-6, n_classes, relation)
    vertices = of._vertices(n_classes, relation)
    spent = sum(n * gdp_delta(0.8, mu * math.sqrt(part)) for n, part in vertices)
    assert 0.999e-6 < spent <= 1e-6
    single = ndtr(-0.8 / mu + mu / 2) - math.exp(0.8) * ndtr(-0.8 / mu - mu / 2)
    assert (n_classes - 1) * single <= 1e-6
    assert of.objective_mu(0.0, 1e-6, n_classes, relation) == 0.0
    assert of.objective_mu(1.0, 0.0, n_classes, relation) == 0.0


@each("relation", [R, A])
@each("delta", [0.0, 1e-6])
def test_plans_count_on_the_noise_that_is_drawn(relation, delta):
    y = labels(3)
    with core.open_session(
        rows_of(X, y, 3), estimator="T", epsilon=3.0, separate_delta=delta, budget=BUDGETS[relation]
    ) as session:
        release = session.answer(query(3, penalty=2.0, cap=0.5, separate=delta > 0))
    std, pure = of.objective_std(3.0, delta, 3, 4, 0.5, 2.0, relation)
    # The less of the two; with few numbers pure noise is.
    assert pure
    if delta:
        left = 3.0 * 0.99 - of.determinant_loss(3, 0.5, 2.0)
        mu = of.objective_mu(left, delta, 3, relation)
        gaussian = float(of._sensitivity(3, 0.5, relation)) / mu
        assert gaussian > std
        many, of_many = of.objective_std(3.0, delta, 3, 400, 0.5, 2.0, relation)
        assert not of_many and many == pytest.approx(gaussian)
        std = gaussian
    assert release.std == pytest.approx(std, rel=1e-6)


@each("relation", [R, A])
@each("n_classes", [2, 3])
def test_no_neighbour_moves_the_noted_gradient_further(n_classes, relation):
    """At theta = 0; and a row that is certain to be wrong moves it that far."""
    offset = np.array([30.0]) if n_classes == 2 else np.array([0.0, 30.0, 0.0])
    x, y = np.full((3, 3), 3.0), np.array([0, 0, 1])
    certain = problem(x, y, n_classes, offset=offset)
    zero = np.array([0] * math.prod(certain.shape), dtype=object)
    kept = problem(x[:2], y[:2], n_classes, offset=offset).totals(zero)
    notes = []
    for rows in ((x, y), (x[:2], y[:2]) if relation == A else (x, np.array([0, 0, 0]))):
        with (
            transcript.record() as log,
            core.open_session(
                rows_of(*rows, n_classes), estimator="T", epsilon=1.0, budget=BUDGETS[relation]
            ) as session,
        ):
            session.answer(query(n_classes, penalty=3.0, offset=offset))
        notes.append(log.entries[-1])
    one, other = notes
    moved = one.distance(one.exact, other.exact)
    assert moved <= one.sensitivity
    alone = problem(x[:1], np.array([0]), n_classes, offset=offset).totals(zero)
    size = of._sensitivity(1 if n_classes == 2 else 3, 1.0, A) / Fraction(certain.scale) * 2**54
    assert one.distance(alone, zero) == pytest.approx(float(size), rel=1e-3)
    assert (kept == 2 * alone).all()


# --- refusals ------------------------------------------------------------------------------------


def test_what_has_no_proof_is_refused_before_anything_is_taken():
    y = labels(2)
    with pytest.raises(ValueError, match="penalty is too small for this share"):
        answered(2, y, epsilon=0.1, penalty=1e-3)
    with pytest.raises(ValueError, match="needs a session with a separate delta"):
        answered(2, y, separate=True)
    for offset in (np.zeros(2), np.zeros((1, 1)), np.array([2e3])):
        with pytest.raises(ValueError, match="offset must"):
            query(2, offset=offset)
    with pytest.raises(ValueError, match="cap must be in"):
        answered(2, y, cap=0.0)
    with core.open_session(
        rows_of(X, y, 2), estimator="T", epsilon=9.0, separate_delta=1e-6
    ) as session:
        session.answer(query(2, separate=True), 0.5)
        with pytest.raises(PrivacyLeakError, match="separate_delta has been spent"):
            session.answer(query(2, separate=True))
        assert float(session.remaining) == 0.5


# --- fast paths ----------------------------------------------------------------------------------


@given(st.integers(0, 40), st.lists(st.tuples(st.integers(0, 299), st.integers(1, 300))))
def test_mapped_rows_are_the_images_of_rows(n_kept, spans):
    table = PrivateTable(rows_of(X, labels(2), 2), stability_of(R))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(views, "_KEPT_BYTES", 12 * n_kept)
        rows = views.mapped(table, VIEW).rows
        assert views.mapped(table, VIEW.at(17)).rows is rows
    for start, size in [*spans, *spans, (0, 300)]:
        q, codes = rows.labelled(start, min(start + size, 300))
        np.testing.assert_array_equal(q, VIEW.map(X[start : start + size]))
        np.testing.assert_array_equal(codes, labels(2)[start : start + size])
        q[:] = np.nan  # the caller's own
    assert views.mapped(table, VIEW.at(16)).rows is not rows


@given(st.lists(st.floats(-1.5, 1.5) | st.sampled_from([-math.inf, math.inf])), st.floats(0, 2))
def test_one_residual_is_clipped_as_a_norm_is(logits, clip):
    t, bound = np.array(logits).reshape(-1, 1) * 8, images._residual_bound(clip)
    known = np.arange(len(t)) % 3 - 1
    expected = images.softmax(t)
    expected[:, 0] -= known == 1
    expected[known < 0] = 0.0
    got = images._residuals(t, known, bound)
    np.testing.assert_array_equal(got, clip_to_norm(expected, 2.0**-16, bound))
    assert np.abs(images._residuals(np.full((1, 1), np.nan), np.array([1]), bound)) <= bound
