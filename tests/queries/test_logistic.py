"""The certified minimiser: always certified, right to the oracles, within its sensitivity."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from skdp import PrivacyBudget, core
from skdp.core import Ball, Box, transcript
from skdp.queries import LogisticMinimiser
from skdp.queries import logistic as solve
from skdp.queries.logistic import UnitBall, minimiser, minimiser_sensitivity
from skdp.tabular import check_rows
from skdp.tabular.rows import Rows
from tests.folding import each

RELATIONS = ["replace_one", "add_or_remove_one"]
R, A = RELATIONS
RNG = np.random.default_rng(5)
PRIVATE = RNG.normal(1.0, 1.0, size=(300, 3))
PUBLIC = RNG.normal(0.0, 1.0, size=(80, 3))
BOX = Box([-4.0] * 3, [4.0] * 3)


def logistic(*arguments, **options):
    return LogisticMinimiser(BOX, PUBLIC, *arguments, **options)


def solved(private, public, view=BOX, *, public_weight=1.0, alpha=1.0, tau=1e-4):
    ball = UnitBall(view)
    k, bits = minimiser(
        Rows(private), Rows(public), ball, public_weight=public_weight, alpha=alpha, tau=tau
    )
    return np.array([float(Fraction(int(v), 2**bits)) for v in k]), k, bits


def exact_gradient(private, public, view, weight, alpha, k, bits):
    """Return the gradient at k 2**-bits in 60 digits: the slow oracle of the certificate."""
    with mpmath.workdps(60):
        ball = UnitBall(view)
        theta = [mpmath.mpf(int(v)) / 2**bits for v in k]
        total = [mpmath.mpf(alpha) * v for v in theta]
        for table, sign, w in ((private, -1, 1.0), (public, 1, weight)):
            for q in view.map(np.array(table, dtype=float)):
                z = [mpmath.mpf(ball.scale) * v for v in (*q.tolist(), ball.norm)]
                t = sign * mpmath.fdot(theta, z)
                force = sign * mpmath.mpf(w) / (1 + mpmath.exp(-t))
                total = [a + force * b for a, b in zip(total, z, strict=True)]
        return total


def norm_of(gradient):
    with mpmath.workdps(60):
        return mpmath.sqrt(sum(g * g for g in gradient))


# --- the map onto the unit ball ------------------------------------------------------------------


@pytest.mark.parametrize(
    "view",
    [
        BOX,
        Ball([0.0, 1.0], 3.7),
        Box([0, -1e-3, 5], [1, 1e5, 5], per_feature=True),
        Box([2.0], [2.0]),
        Box([-1e-307] * 2, [1e-307] * 2),
    ],
)
def test_rows_are_mapped_into_the_unit_ball_exactly(view):
    rng = np.random.default_rng(0)
    ball = UnitBall(view)
    rows = rng.normal(size=(50, view.n_dims)) * 10.0 ** rng.integers(-310, 308, (50, 1))
    with np.errstate(all="ignore"):
        q = view.map(np.vstack([rows, view.center + view.half * view.grid]))
    for row in q.tolist():
        squares = sum(Fraction(v) ** 2 for v in (*row, ball.norm)) * Fraction(ball.scale) ** 2
        assert squares <= 1
    z = ball.features(rows)
    assert z.shape == (50, view.n_dims + 1) and np.isfinite(z).all()
    assert z[:, -1] == pytest.approx(math.sqrt(0.5))


@pytest.mark.parametrize("view", [Box([-1.0], [1.0], bits=31), Ball([0.0], 1.0, bits=30)])
def test_sums_of_longer_steps_would_be_rounded(view):
    """2**16 rows of 2**31 steps times 2**18: the sum would depend on the order of the rows."""
    with pytest.raises(ValueError, match=r"view must have at most 2\*\*18 steps"):
        UnitBall(view)
    budget = PrivacyBudget(1.0)
    with (
        core.open_session(check_rows(PRIVATE[:, :1], estimator="T"), estimator="T", epsilon=1.0,
                          budget=budget) as session,
        pytest.raises(ValueError, match=r"view must have at most 2\*\*18 steps"),
    ):  # fmt: skip
        session.answer(LogisticMinimiser(view, PUBLIC[:, :1], 1.0))
    assert UnitBall(Box([-1.0], [2.0])).n_dims == 2


# --- against oracles -----------------------------------------------------------------------------


@each("alpha", [0.1, 1.0, 30.0])
@each("weight", [0.5, 1.0, 7.0])
def test_it_equals_scikit_learn_and_scipy(alpha, weight):
    theta, _, _ = solved(PRIVATE, PUBLIC, public_weight=weight, alpha=alpha, tau=1e-9)
    ball = UnitBall(BOX)
    Z, E = ball.features(PRIVATE), ball.features(PUBLIC)
    y = np.repeat([1, 0], [len(Z), len(E)])
    model = LogisticRegression(
        C=1 / alpha, fit_intercept=False, tol=1e-12, max_iter=10_000, solver="newton-cholesky"
    ).fit(np.vstack([Z, E]), y, sample_weight=np.where(y == 1, 1.0, weight))
    np.testing.assert_allclose(theta, model.coef_[0], atol=1e-6)

    def loss(t):
        value = np.logaddexp(0, -Z @ t).sum() + weight * np.logaddexp(0, E @ t).sum()
        slope = -Z.T @ expit(-Z @ t) + weight * E.T @ expit(E @ t)
        return value + alpha / 2 * t @ t, slope + alpha * t

    found = minimize(loss, np.zeros(4), jac=True, method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose(theta, found.x, atol=1e-6)


FAR = np.repeat([[3.0, 3.0, 3.0]], 20, axis=0)
CASES = {
    "usual": (PRIVATE[:30], PUBLIC[:10]),
    "separable": (np.abs(PRIVATE[:30]) + 0.1, -np.abs(PUBLIC[:10]) - 0.1),
    "barely separable": (FAR + 1e-4, FAR),
    "one row": (PRIVATE[:1], PUBLIC[:1]),
    "empty private": (PRIVATE[:0], PUBLIC[:5]),
    "empty public": (PRIVATE[:5], PUBLIC[:0]),
    "both empty": (PRIVATE[:0], PUBLIC[:0]),
    "duplicates": (FAR, FAR),
    "constant columns": (PRIVATE[:20] * [1, 0, 0] + [0, 9, 0], PUBLIC[:9] * [1, 0, 0]),
    "outside": (PRIVATE[:9] * 1e300, PUBLIC[:9] * 1e300),
}


@each("alpha", [1e-6, 1e-3, 1.0, 1e6, 1e12])
@each("case", CASES)
def test_every_solution_is_certified_and_the_certificate_is_true(case, alpha):
    private, public = CASES[case]
    _, k, bits = solved(private, public, public_weight=2.5, alpha=alpha)
    assert norm_of(exact_gradient(private, public, BOX, 2.5, alpha, k, bits)) <= 1e-4


@pytest.mark.parametrize("size", [2**10, 2**72, 2**80, 2**110, 2**150])
def test_the_stated_error_bounds_the_error_of_the_gradient(size):
    """At thetas of any length: products with huge ones cancel in exact integers."""
    rng = np.random.default_rng(0)
    ball, private, public = UnitBall(BOX), PRIVATE[:12], PUBLIC[:4]
    exact = Fraction(3, 2)
    loss = solve._Loss(ball, Rows(private), Rows(public), exact, Fraction(1, 8), 72)
    for _ in range(4):
        k = np.array([int(v * 2**52) * size // 2**52 for v in rng.normal(size=4)], dtype=object)
        # Nearly orthogonal to the first row: its products cancel.
        q = [int(v) for v in (*BOX.map(private[:1])[0], ball.norm)]
        k[3] = -sum(a * b for a, b in zip(q[:3], k[:3], strict=True)) // q[3]
        gradient, error, _ = loss.evaluate(k)
        true = exact_gradient(private, public, BOX, 1.5, 0.125, k, 72)
        with mpmath.workdps(60):
            computed = [mpmath.mpf(g.numerator) / g.denominator for g in gradient]
            difference = [a - b for a, b in zip(computed, true, strict=True)]
            assert norm_of(difference) <= mpmath.mpf(error.numerator) / error.denominator
        assert error <= 18 * solve.WEIGHT_ERROR * (1 + Fraction(size, 2**100))


def test_expit_is_as_good_as_the_proof_needs():
    """Within 4 * 2**-53 of the exact value, at either sign and any size."""
    rng = np.random.default_rng(0)
    t = np.concatenate([rng.normal(0, s, 2000) for s in (1e-3, 1, 5, 30, 300)])
    values = expit(t)
    with mpmath.workdps(40):
        worst = max(
            abs(mpmath.mpf(v) - 1 / (1 + mpmath.exp(-mpmath.mpf(x))))
            for v, x in zip(values.tolist(), t.tolist(), strict=True)
        )
        assert worst <= mpmath.mpf(2) ** -51


def test_the_hessian_is_the_derivative_of_the_gradient():
    loss = solve._Loss(UnitBall(BOX), Rows(PRIVATE), Rows(PUBLIC), Fraction(2), Fraction(1, 4), 72)
    k = np.array([int(v * 2**72) for v in (0.5, -1.0, 2.0, 0.25)], dtype=object)
    gradient, _, hessian = loss.evaluate(k)
    step = 2**40
    for j in range(4):
        moved = k.copy()
        moved[j] += step
        column = [
            float((b - a) * Fraction(2**72, step))
            for a, b in zip(gradient, loss.evaluate(moved)[0], strict=True)
        ]
        np.testing.assert_allclose(hessian[:, j], column, rtol=1e-6, atol=1e-6)


def test_the_sums_are_the_same_bits_in_any_order_and_any_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    table = rng.normal(size=(5000, 3))
    k = np.array([int(v * 2**72) for v in (0.5, -1.0, 2.0, 0.25)], dtype=object)
    gradients = []
    for rows in (table, table[::-1], rng.permutation(table)):
        loss = solve._Loss(UnitBall(BOX), Rows(rows), Rows(PUBLIC), Fraction(1), Fraction(1), 72)
        gradients.append(loss.evaluate(k)[0])
        monkeypatch.setattr("skdp.core.table._BLOCK_ROWS", 257)
        gradients.append(loss.evaluate(k)[0])
        monkeypatch.setattr("skdp.core.table._PARALLEL_VALUES", 1)
        gradients.append(loss.evaluate(k)[0])
    assert all(g == gradients[0] for g in gradients)


def test_without_newton_gradient_descent_gets_there(monkeypatch):
    monkeypatch.setattr(np.linalg, "solve", lambda hessian, g: -g)  # points uphill
    _, k, bits = solved(PRIVATE[:20], PUBLIC[:10], alpha=2.0)
    gradient = exact_gradient(PRIVATE[:20], PUBLIC[:10], BOX, 1.0, 2.0, k, bits)
    assert norm_of(gradient) <= 1e-4


@pytest.mark.parametrize("hessian", [np.zeros((2, 2)), np.full((2, 2), np.nan), -np.eye(2)])
def test_a_hessian_without_descent_gives_the_negative_gradient(hessian):
    assert np.array_equal(solve._descent([Fraction(1)] * 2, hessian), [-1.0, -1.0])


@each("alpha", [1e-6, 1e-4, 1.0])
@each("weight", [1.0, 1000.0, 454.0, 2.0**32 / 11])
@each("moved", [False, True])
def test_the_search_ends_soon_where_newton_with_halved_steps_never_did(
    monkeypatch, alpha, weight, moved
):
    """Whether a fit ends must not be decided by a row: 100 evaluations, where 42 were seen."""
    calls = []
    evaluate = solve._Loss.evaluate

    def counted(loss, k):
        calls.append(None)
        assert len(calls) <= 100
        return evaluate(loss, k)

    monkeypatch.setattr(solve._Loss, "evaluate", counted)
    public = (1 - 2.0 ** -np.arange(11))[:, None]
    private = np.ones((5000, 1))
    private[0] = -1.0 if moved else 1.0
    ball = UnitBall(Box([-1.0], [1.0], per_feature=True))
    solve.minimiser(Rows(private), Rows(public), ball, public_weight=weight, alpha=alpha, tau=1e-3)


def test_many_features():
    rng = np.random.default_rng(0)
    private, public = rng.normal(0.2, 1, size=(200, 300)), rng.normal(size=(200, 300))
    view = Box([-4.0] * 300, [4.0] * 300)
    _, k, bits = solved(private, public, view, alpha=0.01)
    loss = solve._Loss(
        UnitBall(view), Rows(private), Rows(public), Fraction(1), Fraction(1, 100), bits
    )
    gradient, error, _ = loss.evaluate(k)
    assert math.sqrt(sum(float(g) ** 2 for g in gradient)) + float(error) <= 1.01e-4


# --- sensitivity ---------------------------------------------------------------------------------


def test_the_sensitivity_in_numbers():
    assert minimiser_sensitivity(4.0, 0.001, A) == (1 + 2 * Fraction(0.001)) / 4
    root = minimiser_sensitivity(1.0, 1e-4, R) - 2 * Fraction(1e-4)
    assert root**2 >= 2 and float(root) == pytest.approx(math.sqrt(2), rel=1e-11)


@pytest.mark.parametrize("alpha", [0.1, 5.0])
def test_neighbours_are_within_the_sensitivity_and_replace_one_attains_it(alpha):
    """Public rows at the origin make every private row count fully; its features have no curvature.

    Then a row that goes from one end to the other moves theta by 2 / sqrt(2) / alpha.
    """
    view = Ball([0.0, 0.0], 1.0)
    crowd = np.zeros((50, 2))
    tables = [np.array([[0.0, 1.0]]), np.array([[0.0, -1.0]]), np.zeros((0, 2))]
    up, down, none = (solved(t, crowd, view, public_weight=1e7, alpha=alpha)[0] for t in tables)
    replaced = float(minimiser_sensitivity(alpha, 1e-4, R))
    assert 0.98 * replaced <= np.linalg.norm(up - down) <= replaced
    added = float(minimiser_sensitivity(alpha, 1e-4, A))
    assert 0.69 * added <= np.linalg.norm(up - none) <= added


@pytest.mark.parametrize("seed", range(5))
def test_random_neighbours_are_within_the_sensitivity(seed):
    rng = np.random.default_rng(seed)
    private, public = rng.normal(size=(6, 3)) * 3, rng.normal(size=(3, 3))
    alpha = float(10.0 ** rng.uniform(-3, 1))
    one = solved(private, public, alpha=alpha)[0]
    fewer = solved(private[1:], public, alpha=alpha)[0]
    other = solved(np.vstack([-9 * private[:1], private[1:]]), public, alpha=alpha)[0]
    assert np.linalg.norm(one - fewer) <= float(minimiser_sensitivity(alpha, 1e-4, A))
    assert np.linalg.norm(one - other) <= float(minimiser_sensitivity(alpha, 1e-4, R))


# --- the query ----------------------------------------------------------------------------------


def open_session(X=PRIVATE, *, epsilon=1.0, delta=0.0, adjacency=R, seed=None):
    budget = PrivacyBudget(1e12, 0.5, adjacency=adjacency)
    rows = check_rows(X, estimator="T", allow_empty=adjacency == A)
    return core.open_session(
        rows, estimator="T", epsilon=epsilon, delta=delta, budget=budget, random_state=seed
    )


@pytest.mark.parametrize("adjacency", RELATIONS)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_release_is_the_solution_with_noise_of_its_sensitivity(adjacency, delta):
    session = open_session(epsilon=1e9, adjacency=adjacency)
    theta = session.answer(logistic(2.0)).value
    np.testing.assert_allclose(theta, solved(PRIVATE, PUBLIC, alpha=2.0)[0], atol=3e-3)
    session = open_session(delta=delta, adjacency=adjacency)
    release = session.answer(logistic(2.0, tau=1e-4), 0.25)
    size = float(minimiser_sensitivity(2.0, 1e-4, adjacency))
    scale = size / session.level(0.25) * (1.0 if delta else math.sqrt(5))
    assert release.std == pytest.approx(scale, rel=1e-4)
    assert session.remaining == Fraction(3, 4)
    record = session.certificate().releases[0]
    assert record.sensitivity == pytest.approx(size, rel=1e-4) and record.sensitivity >= size


@pytest.mark.parametrize("adjacency", RELATIONS)
def test_replay_and_neighbours_in_the_transcript(adjacency):
    other = PRIVATE.copy()
    other[0] = [-4, 4, -4]
    other = other if adjacency == R else other[1:]
    with transcript.record() as first:
        value = open_session(adjacency=adjacency).answer(logistic(0.05)).value
    with transcript.replay(first) as second:
        again = open_session(other, adjacency=adjacency).answer(logistic(0.05)).value
    np.testing.assert_array_equal(value, again)
    (a,), (b,) = first.entries, second.entries
    assert 0 < a.distance(a.exact, b.exact) <= a.sensitivity == b.sensitivity


@each(
    ("options", "match"),
    [
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": math.nan}, "alpha"),
        ({"alpha": 1e13}, "alpha"),
        ({"alpha": 1.0, "tau": 0.0}, "tau"),
        ({"alpha": 1.0, "tau": 1.0}, "tau"),
        ({"alpha": 1.0, "public_weight": -1.0}, "public_weight"),
        ({"alpha": 1.0, "public_weight": math.inf}, "public_weight"),
    ],
)
def test_parameters_out_of_range_are_refused_and_take_nothing(options, match):
    session = open_session()
    with pytest.raises(ValueError, match=match):
        session.answer(logistic(**options))
    assert session.remaining == 1


def test_an_empty_private_table_is_a_table():
    release = open_session(PRIVATE[:0], adjacency=A).answer(logistic(1.0))
    assert release.value.shape == (4,) and np.isfinite(release.value).all()


@pytest.mark.parametrize("alpha", [1e-6, 1e12])
def test_extreme_ridges_are_released(alpha):
    for delta in (0.0, 1e-6):
        release = open_session(delta=delta).answer(logistic(alpha))
        assert np.isfinite(release.value).all()
