"""Junction trees against the whole table, the fit against its optimum, synthetic mixed tables."""

from __future__ import annotations

import itertools
import math
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from skdp import PrivacyBudget
from skdp.budget import gdp_mu
from skdp.synthetic import Bins, Domain, DPMarginalSynthesizer, conjunctions, linear_queries
from skdp.synthetic import _marginals as marginals_module
from skdp.synthetic._graphical import Elimination, Growth, Model, Tree, clique_size, fit_model
from tests.folding import each

NLTCS = Path(__file__).parents[1] / "data" / "nltcs.csv.gz"


def dense(sizes, potentials):
    """Return the distribution over the whole domain, and the log of its normaliser."""
    table = np.zeros(sizes)
    for clique, values in potentials.items():
        table = table + values.reshape([k if a in clique else 1 for a, k in enumerate(sizes)])
    weights = np.exp(table)
    return weights / weights.sum(), math.log(weights.sum())


def summed(table, columns):
    """Return the flat marginal table of a table over all columns."""
    return table.sum(axis=tuple(a for a in range(table.ndim) if a not in columns)).reshape(-1)


@st.composite
def models(draw):
    """Draw sizes of columns, sets of columns, and potentials."""
    sizes = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=6)))
    columns = st.sets(st.integers(0, len(sizes) - 1), min_size=1, max_size=3)
    cliques = draw(st.lists(columns, max_size=6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    found = {tuple(sorted(c)) for c in cliques}
    return sizes, {c: rng.normal(0, 3, math.prod(sizes[a] for a in c)) for c in found}


def smallest_bag_next(sizes, cliques):
    """Eliminate columns by the definition: the oracle of `Elimination`."""
    edges = [{a}.union(*(c for c in cliques if a in c)) for a in range(len(sizes))]
    remaining = set(range(len(sizes)))
    while remaining:
        v = min(remaining, key=lambda a: (math.prod(sizes[b] for b in edges[a]), -sizes[a], a))
        remaining.remove(v)
        yield v, frozenset(edges[v])
        edges = [(e | edges[v]) - {v} if v in e else e for e in edges]


def tree_size(sizes, cliques):
    return sum(math.prod(sizes[a] for a in bag) for _, bag in smallest_bag_next(sizes, cliques))


@settings(deadline=None, max_examples=60)
@given(models())
def test_trees_agree_with_the_whole_table(drawn):
    sizes, potentials = drawn
    steps = [step[:2] for step in Elimination(sizes, potentials)]
    assert steps == list(smallest_bag_next(sizes, potentials))
    model = Model(Tree(sizes, potentials), potentials)
    table, normaliser = dense(sizes, potentials)
    assert model.log_normaliser == pytest.approx(normaliser, abs=1e-9)
    every = range(len(sizes))
    for k in range(1, len(sizes) + 1):
        for columns in itertools.combinations(every, k):
            np.testing.assert_allclose(model.marginal(columns), summed(table, columns), atol=1e-12)
            largest, together = model.work(columns)
            assert largest >= model.marginal(columns).size
            # Bags that hold these columns too need no more than what `work` says, or a better
            # order of elimination has been missed by a little.
            size = tree_size(sizes, [*potentials, columns])
            assert size <= 2 * (model.tree.n_cells + together)
            assert Growth(sizes, potentials, size).fits(columns)
            assert not Growth(sizes, potentials, size - 1).fits(columns)
    for v, bag in enumerate(model.tree.bags):
        np.testing.assert_allclose(model.joints[v].reshape(-1), summed(table, bag), atol=1e-12)
    codes = np.argwhere(np.ones(sizes))
    np.testing.assert_allclose(model.fractions(codes), table.reshape(-1), atol=1e-12)
    assert tree_size(sizes, potentials) == model.tree.n_cells
    assert tree_size(sizes, [tuple(every)]) == clique_size(sizes, every)


def test_a_chain_of_many_columns_has_small_bags():
    sizes = (10,) * 60
    chain = [(i, i + 1) for i in range(59)]
    tree = Tree(sizes, chain)
    assert max(len(bag) for bag in tree.bags) == 2
    assert tree.n_cells == 59 * 100 + 10
    model = Model(tree, {c: np.eye(10).reshape(-1) for c in chain})
    # The ends of a symmetric chain: the transition matrix to the power of its length.
    step = (np.ones((10, 10)) + (math.e - 1) * np.eye(10)) / (9 + math.e)
    expected = np.linalg.matrix_power(step, 59) / 10
    np.testing.assert_allclose(model.marginal((0, 59)), expected.reshape(-1), rtol=1e-9)


def test_impossible_cells_are_no_trouble():
    """Potentials so low that cells have probability zero, whole rows of a table among them."""
    table = np.array([[0.0, -5000.0], [-5000.0, -5000.0], [-5000.0, -5000.0]])
    model = Model(Tree((3, 2, 2), [(0, 1), (1, 2)]), {(0, 1): table.reshape(-1)})
    np.testing.assert_allclose(model.marginal((0, 2)), [0.5, 0.5, 0, 0, 0, 0])
    codes = model.sample(50, np.random.default_rng(0))
    assert not codes[:, :2].any()


@pytest.mark.parametrize("generator", [np.random.default_rng, np.random.RandomState])
def test_samples_have_the_model_s_distribution(generator):
    sizes = (3, 2, 4, 2)
    draw = np.random.default_rng(1)
    potentials = {c: draw.normal(size=math.prod(sizes[a] for a in c)) for c in
                  [(0, 1), (1, 2), (0, 2), (3,)]}  # fmt: skip
    model = Model(Tree(sizes, potentials), potentials)
    n = 20_000
    codes = model.sample(n, generator(0))
    for k in (1, 2, 3):
        for columns in itertools.combinations(range(4), k):
            shape = tuple(sizes[a] for a in columns)
            flat = np.ravel_multi_index(tuple(codes[:, a] for a in columns), shape)
            counts = np.bincount(flat, minlength=math.prod(shape))
            # Six standard deviations of independent rows, at fixed seeds.
            p = model.marginal(columns)
            assert np.all(np.abs(counts - n * p) <= 6 * np.sqrt(n * p * (1 - p)) + 1)
    # Columns that are drawn first are as even as whole numbers can be.
    last = model.tree.order[-1]
    counts = np.bincount(codes[:, last], minlength=sizes[last])
    assert np.all(np.abs(counts - n * model.marginal((last,))) < 2)


def test_the_fit_is_the_least_of_its_objective():
    sizes, total = (2, 3, 2), 500.0
    rng = np.random.default_rng(3)
    truth = rng.dirichlet(np.ones(12)).reshape(sizes)
    tables = {}
    for columns, std in [((0,), 5.0), ((0, 1), 20.0), ((1, 2), 10.0), ((0, 2), 30.0)]:
        exact = total * summed(truth, columns)
        tables[columns] = (exact + rng.normal(0, std, exact.size), std)
    smoothing = 3.0
    model = fit_model(sizes, tables, total, smoothing=smoothing, max_iter=2000)

    def objective(logits):
        p = np.exp(logits - logits.max())
        p = (p / p.sum()).reshape(sizes)
        loss = smoothing * float((p * np.log(12 * p)).sum())
        for columns, (counts, std) in tables.items():
            loss += float(((total * summed(p, columns) - counts) ** 2).sum()) / (2 * std**2)
        return loss

    # Over the whole table, from far away, without any tree.
    best = minimize(objective, rng.normal(size=12), method="L-BFGS-B",
                    options={"maxiter": 5000, "ftol": 1e-14, "maxfun": 10**6})  # fmt: skip
    fitted = model.fractions(np.argwhere(np.ones(sizes)))
    assert objective(np.log(fitted)) <= best.fun + 1e-3
    p = np.exp(best.x - best.x.max())
    np.testing.assert_allclose(fitted, p / p.sum(), atol=2e-3)


def test_nothing_measured_is_the_uniform_distribution():
    model = fit_model((2, 3), {}, 10.0)
    np.testing.assert_allclose(model.marginal((0, 1)), 1 / 6)


# --- the estimator ------------------------------------------------------------------------------

RNG = np.random.default_rng(5)
N = 4000
HOUR = RNG.integers(0, 24, N)
TABLE = pd.DataFrame(
    {
        "origin": RNG.choice(["EWR", "JFK", "LGA"], N, p=[0.5, 0.3, 0.2]),
        "hour": HOUR,
        "delay": np.round(RNG.exponential(1.0 + 2.0 * HOUR), 1),
        "night": HOUR >= 20,
        "gate": RNG.integers(0, 400, N),
        "day": RNG.integers(1, 366, N),
    }
)
DOMAIN = Domain(
    {
        "origin": ["EWR", "JFK", "LGA", None],
        "hour": 24,
        "delay": Bins([0, 5, 15, 30, 60, 500]),
        "night": [False, True],
        "gate": Bins.regular(0, 400, 20, integer=True),
        "day": Bins.regular(1, 366, 73, integer=True),
    }
)


def synthetic(**parameters):
    options = {"domain": DOMAIN, "epsilon": 5.0, "random_state": 0, **parameters}
    return DPMarginalSynthesizer(options.pop("queries", None), **options)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_mixed_tables_of_many_cells(delta):
    assert DOMAIN.n_cells > 2**20
    found = synthetic(delta=delta).fit(TABLE)
    table = found.database_
    assert list(table.columns) == list(TABLE.columns)
    assert found.n_samples_ == len(table) == N
    assert set(table["origin"].dropna()) == {"EWR", "JFK", "LGA"}
    assert table["gate"].between(0, 400).all()
    assert (table["gate"] % 1 == 0).all()
    # What depends on the hour does so in the synthetic table.
    assert ((table["hour"] >= 20) == table["night"]).mean() > 0.95
    late = [t.loc[t["hour"] >= 12, "delay"].gt(30).mean() for t in (TABLE, table)]
    assert abs(late[0] - late[1]) < 0.1
    assert tuple(TABLE.columns[[1, 3]]) in found.measured_
    # Answers are those of the model, not of one sample of it.
    ask = linear_queries(lambda row: row["hour"] >= 20 and row["night"], columns=["hour", "night"])
    assert abs(found.predict(ask)[0] - (TABLE["night"]).mean()) < 0.03
    pairs = conjunctions(2, columns=["night", "hour"])
    assert found.predict(pairs).sum() == pytest.approx(1.0)
    assert found.predict(TABLE[:7]).shape == (7,)
    # Samples are repeated with a random_state, and are in the form of X.
    pd.testing.assert_frame_equal(found.sample(9, random_state=1), found.sample(9, random_state=1))
    copy = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(copy.predict(pairs), found.predict(pairs))


@pytest.mark.slow
def test_every_container():
    frame = synthetic().fit(pl.from_pandas(TABLE)).sample(5, random_state=0)
    assert isinstance(frame, pl.DataFrame)
    assert frame.columns == list(TABLE.columns)
    array = synthetic().fit(TABLE.to_numpy(dtype=object)).database_
    assert array.dtype == object
    numbers = DPMarginalSynthesizer(domain=4, random_state=0).fit(np.ones((50, 3), int)).database_
    assert numbers.dtype.kind in "iu"


@each("relation", ["replace_one", "add_or_remove_one"])
@each("delta", [0.0, 1e-6])
@each("epsilon", [1e-3, 1.0, 1e4])
@each("columns", [["night"], ["night", "hour"], ["origin", "hour", "delay"]])
def test_the_allowance_is_spent_to_the_last_part(columns, epsilon, delta, relation):
    """And no more than it: a session refuses what goes beyond."""
    budget = PrivacyBudget(epsilon, delta, adjacency=relation)
    domain = Domain({name: DOMAIN.column(DOMAIN.position(name)) for name in columns})
    found = synthetic(domain=domain, epsilon=epsilon, delta=delta, budget=budget, random_state=None)
    found.fit(TABLE[columns])
    certificate = found.privacy_
    assert sum(r.share for r in certificate.releases) == pytest.approx(1.0, abs=1e-12)
    assert certificate.epsilon == epsilon and certificate.delta in (0.0, delta)
    assert 1 <= found.n_samples_ <= 2**20
    counted = [r for r in certificate.releases if r.name == "count"]
    assert len(counted) == (relation == "add_or_remove_one")
    if relation == "replace_one":
        assert found.n_samples_ == N


@each("delta", [0.0, 1e-6])
def test_every_column_is_measured_however_much_noise(delta):
    """Where noise hides all pairs, columns have the whole allowance, wide ones more of it."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, (N, 8))
    rows[:, 0] = rng.integers(0, 16, N)
    hidden = synthetic(epsilon=0.001, delta=delta, domain=[16] + [2] * 7).fit(rows)
    assert hidden.measured_ == [(a,) for a in range(8)]
    shares = [r.share for r in hidden.privacy_.releases]
    assert shares[0] == pytest.approx(8 ** (1 / 2 if not delta else 2 / 3) * shares[1], rel=1e-3)
    some = synthetic(epsilon=0.1, delta=delta, domain=[16] + [2] * 7).fit(rows)
    assert [r.name for r in some.privacy_.releases[:8]] == [f"table of {a}" for a in range(8)]
    assert any(len(s) == 2 for s in some.measured_)


@each("relation", ["replace_one", "add_or_remove_one"])
@each("delta", [0.0, 1e-6])
def test_a_parity_of_three_columns_is_found(delta, relation):
    """No table of two or three columns shows it; the larger table that comes last does."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2, (20_000, 6))
    rows = np.column_stack([bits, bits[:, :3].sum(axis=1) % 2 ^ (rng.random(20_000) < 0.05)])
    budget = PrivacyBudget(1.0, 1e-6, adjacency=relation)
    found = synthetic(domain=2, epsilon=1.0, delta=delta, budget=budget).fit(rows)
    assert (0, 1, 2, 6) in found.measured_
    shown = found.predict(linear_queries(lambda row: row[0] ^ row[1] ^ row[2] == row[6]))
    assert shown[0] == pytest.approx(0.95, abs=0.03)
    assert sum(r.share for r in found.privacy_.releases) == pytest.approx(1.0, abs=1e-12)


def test_no_larger_table_of_columns_that_know_nothing_of_each_other():
    rows = np.random.default_rng(0).integers(0, 2, (20_000, 6))
    found = synthetic(domain=2, epsilon=1.0, delta=1e-6).fit(rows)
    assert "choice of a larger table" in [r.name for r in found.privacy_.releases]
    assert all(len(s) < 3 for s in found.measured_)


def test_the_private_number_of_rows_is_estimated_from_all_tables():
    """A fiftieth of the allowance alone would be off by 280 rows (one standard deviation)."""
    rng = np.random.default_rng(0)
    budget = PrivacyBudget(1e4, adjacency="add_or_remove_one")
    fit = synthetic(domain=2, epsilon=0.25, delta=0.0, budget=budget, random_state=None).fit
    rows = rng.integers(0, 2, (5000, 4))
    off = [fit(rows).n_samples_ - 5000 for _ in range(12)]
    assert np.sqrt(np.mean(np.square(off))) < 150


@pytest.mark.slow
@pytest.mark.parametrize("max_cells", [8, 60])
def test_the_model_stays_small(max_cells):
    """Of columns that all depend on each other, too."""
    rng = np.random.default_rng(0)
    rows = np.repeat(rng.integers(0, 4, (3000, 1)), 8, axis=1)
    rows[rng.random(rows.shape) < 0.1] = 0
    found = synthetic(domain=4, queries=conjunctions(3), max_cells=max_cells, epsilon=50.0)
    found.fit(rows)
    assert found._model.tree.n_cells <= max_cells + 8 * 4
    assert all(clique_size([4] * 8, s) <= max_cells for s in found.measured_ if len(s) > 1)
    assert found.predict(conjunctions(1)).reshape(8, 4).sum(axis=1) == pytest.approx(np.ones(8))


@each(
    ("parameters", "match"),
    [
        ({"domain": Domain([100] * 80)}, "3160 sets of columns have .* cells; at most"),
        ({"domain": Domain.binary(40), "queries": conjunctions(4)}, "more than 65536 sets"),
        ({"max_cells": 4}, "max_cells must be .*at least 8"),
        ({"max_cells": 2**23}, "max_cells must be .*at most 4194304"),
        ({"queries": []}, "queries must hold at least one"),
        ({"queries": conjunctions(7)}, "order=7 is above"),
    ],
)
def test_what_is_too_large_is_refused_for_free(parameters, match):
    budget = PrivacyBudget(10.0)
    domain = parameters.get("domain", DOMAIN)
    X = TABLE if domain is DOMAIN else np.zeros((3, domain.n_columns))
    with pytest.raises(ValueError, match=match):
        synthetic(budget=budget, **parameters).fit(X)
    assert budget.charges == []


@pytest.mark.slow
def test_answers_that_need_too_large_a_table(monkeypatch):
    found = synthetic().fit(TABLE)
    monkeypatch.setattr(marginals_module, "LARGEST_ANSWER", 100)
    with pytest.raises(ValueError, match=r"queries on columns .* at most 100 are possible"):
        found.predict(conjunctions(2))


def of_disabilities():
    """Return the NLTCS table, 21,574 rows of 16 binary columns."""
    table = pd.read_csv(NLTCS)
    return np.repeat(table.to_numpy()[:, :16], table["count"], axis=0)


@pytest.mark.slow
def test_all_tables_of_three_columns():
    """Mean error beside noise on every one of the 560 tables, at a fixed seed."""
    X = of_disabilities()
    domain, queries = Domain.binary(16), conjunctions(3)
    whole = np.zeros((2,) * 16)
    np.add.at(whole, tuple(X.T), 1 / len(X))
    true = queries.workload(domain).answers(whole)
    found = synthetic(queries=queries, domain=domain, epsilon=1.0, delta=1e-6).fit(X)
    error = np.abs(found.predict(queries) - true)
    # All tables together: L2 sensitivity sqrt(2 * 560).
    plain = math.sqrt(2 * 560) / gdp_mu(1.0, 1e-6) * math.sqrt(2 / math.pi)
    assert error.mean() < 0.6 * plain / len(X)
    uniform = np.abs(1 / 8 - true)
    assert error.mean() < 0.1 * uniform.mean()
    assert error.max() < 0.5 * uniform.max()


WIDE = [85, 9, 100, 16, 16, 7, 15, 6, 5, 2, 120, 100, 99, 42, 2]  # as a census table has


def test_every_column_is_measured_before_any_pair():
    """Where noise hides wide columns, too: of what they hold, a pair would tell next to nothing."""
    rng = np.random.default_rng(0)
    common = rng.random(20_000)
    X = np.column_stack([(common ** (1 + k % 3) * size).astype(int) for k, size in enumerate(WIDE)])
    budget = PrivacyBudget(1.0, 1e-5, adjacency="add_or_remove_one")
    model = DPMarginalSynthesizer(domain=Domain(WIDE), epsilon=0.3, delta=1e-6, budget=budget)
    model.fit(X)
    names = [one["name"] for one in budget.charges[0].releases]
    assert [s for s in model.measured_ if len(s) == 1] == [(a,) for a in range(len(WIDE))]
    assert any(len(s) > 1 for s in model.measured_)
    assert "choice of a table" not in names[: 1 + len(WIDE)]


def test_triples_of_wide_columns_are_candidates_as_far_as_they_fit():
    asked = itertools.combinations(range(len(WIDE)), 3)
    found = marginals_module.candidate_sets(asked, WIDE, 2**16)
    assert sum(len(s) == 2 for s in found) == 105
    triples = [s for s in found if len(s) == 3]
    assert len(triples) > 300
    cells = sum(math.prod(WIDE[a] for a in s) for s in found)
    assert cells <= marginals_module.MAX_HELD
