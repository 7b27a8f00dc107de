"""Disjoint parts, and the same charges under every accountant."""

from __future__ import annotations

import datetime
import itertools
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdp import DPStandardScaler
from skdp.budget import Cost, PrivacyBudget, compare_accountants, parallel_cost, plan_epsilon
from skdp.budget.account import accountant_of
from skdp.budget.schema import Terms
from skdp.core.transcript import record
from skdp.exceptions import BudgetExceededError, LedgerError
from skdp.loss.conversions import Amount
from skdp.model_selection import fit_parts
from skdp.tabular.records import split_by_key
from tests.folding import each

COSTS = [
    Cost(0.5),
    Cost(0.2, 1e-8),
    Cost(0.3, 1e-7, mu=0.05),
    Cost(0.25, 2e-7, mu=0.04, separate_delta=5e-8),
    Cost(0.1) + Cost(0.3, 1e-7, mu=0.05),
    3 * Cost(0.05),
    Cost(0.01, 1e-7, mu=0.3),  # a mu that its epsilon does not tell, beside parts without delta
]
FILTERS = ["basic", "gdp", "gdp_residue", "zcdp"]


def keeper(name):
    return accountant_of(Terms(5.0, 1e-5, "replace_one", name, 0.0))


@each("name", FILTERS)
@each("size", [1, 2, 3, 4])
def test_the_price_covers_every_part_and_every_move(name, size):
    accountant = keeper(name)
    for parts in itertools.product(COSTS, repeat=size):
        prices = [accountant.price(cost) for cost in parts]
        for adjacency in ("add_or_remove_one", "replace_one"):
            priced = accountant.price(parallel_cost(list(parts), adjacency))
            changed = [[price] for price in prices]
            if adjacency == "replace_one":
                changed += [list(pair) for pair in itertools.combinations(prices, 2)]
            for touched in changed:
                assert sum(touched, Amount()).fits(priced)


def test_equal_parts_keep_their_components():
    cost = Cost(0.1) + Cost(0.3, 1e-7, mu=0.05)
    assert parallel_cost([cost] * 20, "add_or_remove_one") == cost
    assert parallel_cost([cost] * 20, "replace_one") == 2 * cost
    assert parallel_cost([cost], "replace_one") == cost  # nowhere else to move to


def test_a_row_that_moves_is_why_two_parts_count():
    """Two noiseless-but-for-their-price counts: exact worst case of a moved row."""
    high = math.exp(0.5) / (1 + math.exp(0.5))
    # One randomized response in each part, of which both turn when a row moves.
    moved = math.log(high * high / ((1 - high) * (1 - high)))
    assert moved == pytest.approx(parallel_cost([Cost(0.5), Cost(0.5)], "replace_one").epsilon)
    assert moved > parallel_cost([Cost(0.5), Cost(0.5)], "add_or_remove_one").epsilon


def test_what_parallel_cannot_be_is_refused():
    with pytest.raises(ValueError, match="adjacency must be"):
        parallel_cost(COSTS, "zero_out")
    for bad in ([], Cost(0.1), "x"):
        with pytest.raises(TypeError, match="costs must be"):
            parallel_cost(bad, "replace_one")
    with pytest.raises(TypeError, match="cost must be"):
        parallel_cost([0.1], "replace_one")


def test_every_accountant_on_the_same_charges():
    found = {one.accountant: one for one in compare_accountants(100 * Cost(0.1), 1e-6)}
    assert found["basic"].epsilon == 10.0
    assert found["gdp"].epsilon == pytest.approx(6.330, abs=0.001)
    assert found["zcdp"].epsilon == pytest.approx(5.22, abs=0.01)
    assert found["gdp_residue"].epsilon == pytest.approx(4.92, abs=0.01)
    assert found["pld"].epsilon == plan_epsilon(100 * Cost(0.1), 1e-6)
    assert found["pld"].loss == 0.0
    assert found["basic"].loss == 10.0 - found["pld"].epsilon
    assert [name for name, one in found.items() if not one.adaptive] == ["pld"]


@pytest.mark.slow
@pytest.mark.parametrize("cost", [100 * Cost(0.1), 3 * Cost(0.5) + 2 * Cost(0.3, 1e-6, mu=0.07)])
def test_a_budget_of_that_epsilon_grants_the_charges_and_a_smaller_one_does_not(cost):
    for one in compare_accountants([cost], 1e-5):

        def ask(factor, name=one.accountant, epsilon=one.epsilon):
            budget = PrivacyBudget(epsilon * factor, 1e-5, accountant=name)
            (budget.reserve if name == "pld" else budget.check)(cost)

        ask(1.0005)
        with pytest.raises(BudgetExceededError):
            ask(0.99)


def test_separate_deltas_have_their_place_or_none():
    cost = 3 * Cost(0.1, 1e-7)
    for one in compare_accountants(cost, 2e-7):
        assert one.epsilon == math.inf
        assert one.loss == 0.0
    assert all(math.isfinite(one.epsilon) for one in compare_accountants(cost, 1e-6))
    with pytest.raises(ValueError, match="delta must be above 0"):
        compare_accountants(cost, 0.0)


@pytest.mark.parametrize("name", [*FILTERS, "pld"])
def test_the_history_ends_at_what_was_spent(name):
    budget = PrivacyBudget(5.0, 1e-6, accountant=name)
    assert budget.history() == []
    with budget.reserve(5 * Cost(0.1)):
        for _ in range(5):
            budget.charge(Cost(0.1), estimator="A")
    history = budget.history()
    assert len(history) == 5
    assert history[-1][1] == budget.spent
    assert [when for when, _ in history] == [charge.when for charge in budget.charges]
    epsilons = [loss.epsilon for _, loss in history]
    assert epsilons == sorted(epsilons)


def test_the_second_price_keeps_its_gaussian_part():
    """A part whose mu its epsilon does not tell, beside one without delta: both mu count."""
    costs = [Cost(0.1, 0.3, mu=0.7), Cost(5.0)]
    price = parallel_cost(costs, "replace_one")
    assert keeper("gdp").price(price).main >= sum(keeper("gdp").price(c).main for c in costs)
    assert (price.epsilon, price.delta) == (5.1, 0.3)


# --- budgets of parts -----------------------------------------------------------------------------


def test_parts_are_paid_once_before_anything_is_fitted():
    for adjacency, price in [("add_or_remove_one", (0.5, 1e-6)), ("replace_one", (1.0, None))]:
        budget = PrivacyBudget(2.0, 1e-4, adjacency=adjacency)
        parts = budget.parallel(["a", "b", "c"], epsilon=0.5, delta=1e-6)
        assert list(parts) == ["a", "b", "c"]
        assert budget.spent.epsilon == price[0]
        moved = (1 + math.exp(0.5)) * 1e-6
        assert budget.spent.delta == pytest.approx(price[1] or moved, rel=1e-12)
        assert budget.spent.delta >= (price[1] or moved)
        (charge,) = budget.charges
        assert charge.note == "disjoint parts: a, b, c"
        for one in parts.values():
            assert (one.adjacency, one.epsilon, one.delta) == ("add_or_remove_one", 0.5, 1e-6)
            assert one.spent.epsilon == 0


def test_a_row_within_its_part_is_why_replacing_costs_two_steps():
    """The exact loss of Laplace noise on the count of each part, for all ways a row may change."""
    epsilon = 0.5
    price = PrivacyBudget(5.0)
    price.parallel(["a", "b"], epsilon=epsilon)
    for change in [(1, -1), (2, 0), (-1, 0)]:  # moved; replaced, two steps; to no part
        assert sum(abs(step) * epsilon for step in change) <= price.spent.epsilon


def test_parts_that_cannot_be_are_refused_before_the_charge(tmp_path):
    budget = PrivacyBudget(1.0, 1e-6, adjacency="add_or_remove_one")
    for bad in ("ab", [], 3, {"a"}):
        with pytest.raises(TypeError, match="parts must be"):
            budget.parallel(bad, epsilon=0.5)
    with pytest.raises(ValueError, match="different names"):
        budget.parallel(["a", "a"], epsilon=0.5)
    with pytest.raises(TypeError, match="a name of parts must be a str"):
        budget.parallel([1], epsilon=0.5)
    with pytest.raises(ValueError, match="epsilon must be"):
        budget.parallel(["a"], epsilon=0)
    with pytest.raises(LedgerError, match="directory that exists"):
        budget.parallel({"a": tmp_path / "none" / "a"}, epsilon=0.5)
    with pytest.raises(BudgetExceededError):
        budget.parallel({"a": tmp_path / "a"}, epsilon=1.5)
    assert not list(tmp_path.iterdir())
    planned = PrivacyBudget(1.0, 1e-6, accountant="pld")
    with pytest.raises(ValueError, match='accountant="pld"'):
        planned.parallel(["a"], epsilon=0.5)
    assert budget.spent.epsilon == planned.spent.epsilon == 0


def test_a_part_s_ledger_outlives_its_process(tmp_path):
    budget = PrivacyBudget(1.0)
    path = tmp_path / "a"
    budget.parallel({"a": path}, epsilon=0.25)["a"].charge(Cost(0.1), estimator="x")
    again = PrivacyBudget(0.25, ledger=path, adjacency="add_or_remove_one", must_exist=True)
    assert again.remaining.epsilon == 0.15


KEYS = np.array(["n", "s", "n", "w", "s", "n"], dtype=object)
ROWS = np.arange(12.0).reshape(6, 2)


@pytest.mark.parametrize("kind", ["numpy", "list", "pandas", "polars", "pyarrow"])
def test_each_part_is_fitted_on_the_rows_that_its_key_names(kind):
    names = ["x", "y"]
    X, by = {
        "numpy": lambda: (ROWS, KEYS),
        "list": lambda: (ROWS.tolist(), KEYS.tolist()),
        "pandas": lambda: (pd.DataFrame(ROWS, columns=names), pd.Series(KEYS)),
        "polars": lambda: (pl.DataFrame(ROWS, schema=names), pl.Series(KEYS.tolist())),
        "pyarrow": lambda: (pa.table(dict(zip(names, ROWS.T, strict=True))), pa.array(KEYS)),
    }[kind]()
    budget = PrivacyBudget(100.0, adjacency="add_or_remove_one")
    parts = budget.parallel(["n", "s", "e"], epsilon=50.0)
    scaler = DPStandardScaler(bounds=(0, 12), epsilon=50.0, random_state=0)
    with record() as transcript:
        fitted = fit_parts(scaler, X, by=by, parts=parts)
    counts = [entry.exact.ravel()[-1] for entry in transcript.entries]
    found = {name: ROWS[name == KEYS].mean(axis=0) for name in ("n", "s")}
    for name, mean in found.items():
        np.testing.assert_allclose(fitted[name].mean_, mean, atol=2.0)
    assert len(counts) >= 3  # of the part without rows, too
    assert [one.spent.epsilon for one in parts.values()] == [50.0] * 3
    assert budget.spent.epsilon == 50.0


def test_parts_of_other_budgets_and_lengths_are_refused():
    scaler = DPStandardScaler(bounds=(0, 12))
    with pytest.raises(ValueError, match="add_or_remove_one"):
        fit_parts(scaler, ROWS, by=KEYS, parts={"n": PrivacyBudget(1.0)})
    for bad in ({}, [PrivacyBudget(1.0)], {1: PrivacyBudget(1.0)}):
        with pytest.raises(TypeError, match="parts must be"):
            fit_parts(scaler, ROWS, by=KEYS, parts=bad)
    parts = PrivacyBudget(9.0).parallel(["n"], epsilon=1.0)
    for by in (KEYS[:5], "n", None):
        with pytest.raises(ValueError, match="an entry for each row"):
            fit_parts(scaler, ROWS, by=by, parts=parts)
    assert parts["n"].spent.epsilon == 0


class Odd:
    def __str__(self):
        raise RuntimeError("31337.125")


def test_a_key_that_cannot_be_read_is_in_no_part():
    keys = [Odd(), None, float("nan"), "n", 1, "1"]
    parts = PrivacyBudget(2e3).parallel(["n", "1"], epsilon=1e3)
    fitted = fit_parts(DPStandardScaler(bounds=(0, 12), epsilon=1e3), ROWS, by=keys, parts=parts)
    np.testing.assert_allclose(fitted["n"].mean_, ROWS[3], atol=0.5)
    np.testing.assert_allclose(fitted["1"].mean_, ROWS[4:].mean(axis=0), atol=0.5)


def test_one_missing_key_moves_no_other_row():
    """It makes floats of a column of whole numbers: where 1.0 were no 1, all parts were empty."""
    for by in ([1, 1, 2, 2, 1, 2], [1, 1, 2, 2, 1, None]):
        column = pd.Series(by)  # of integers, then of floats
        assert (column.dtype.kind == "f") == (None in by)
        for keys in (column, by, pa.array(by), np.array(by, dtype=object)):
            for names in (["1", "2"], ["1.0", "2.0"]):
                first, second = split_by_key(ROWS, None, keys, names)
                assert first[0].tolist() == ROWS[[0, 1, 4]].tolist()
                assert second[0].tolist() == ROWS[[2, 3, *([] if None in by else [5])]].tolist()


def test_dates_name_parts_whatever_holds_them():
    day = datetime.date(2026, 1, 31)
    noon = datetime.datetime(2026, 1, 31, 12)
    cells = [day, noon, day, None, day, noon]
    for keys in (cells, pd.Series(pd.to_datetime(pd.Series(cells))), pa.array(
        [c and pd.Timestamp(c).to_pydatetime() for c in cells]
    )):  # fmt: skip
        days, noons = split_by_key(ROWS, None, keys, ["2026-01-31", "2026-01-31T12:00:00"])
        assert len(days[0]) == 3
        assert len(noons[0]) == 2


def test_ledgers_of_parts_that_cannot_be_are_refused_before_the_charge(tmp_path):
    budget = PrivacyBudget(2.0)
    PrivacyBudget(1.0, ledger=tmp_path / "other")
    with pytest.raises(ValueError, match="made with"):
        budget.parallel({"a": tmp_path / "other"}, epsilon=0.5)
    with pytest.raises(ValueError, match="ledger of its own"):
        budget.parallel({"a": tmp_path / "one", "b": tmp_path / "one"}, epsilon=0.5)
    assert budget.spent.epsilon == 0
    assert [path.name for path in tmp_path.iterdir() if path.name == "one"] == []


def test_a_delta_that_a_replaced_row_makes_too_large_is_named():
    for epsilon, delta in ((20.0, 1e-6), (800.0, 1e-310), (1.0, 0.3)):
        budget = PrivacyBudget(3e3, 0.5, adjacency="replace_one")
        with pytest.raises(ValueError, match=r"delta must be below 1 / \(1 \+ exp\(epsilon\)\)"):
            budget.parallel(["a"], epsilon=epsilon, delta=delta)
        assert budget.spent.epsilon == 0.0
    assert PrivacyBudget(3e3, adjacency="replace_one").parallel(["a"], epsilon=800.0)
