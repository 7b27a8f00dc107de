"""Ledgers of plans: what is granted, what it costs, and what is never given back."""

from __future__ import annotations

import pickle
import sqlite3
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from skdp import DPKMeans
from skdp.budget import Cost, PrivacyBudget, PrivacyLoss, ledger, plan_epsilon, schema
from skdp.exceptions import BudgetExceededError, LedgerError
from skdp.model_selection import search_cost
from tests.folding import each

PURE = Cost(0.1)
GAUSS = Cost(0.3, 1e-7, mu=0.05)


def plan_budget(**options):
    return PrivacyBudget(5.0, 1e-6, accountant="pld", **options)


def test_a_plan_costs_less_than_the_sum_and_its_first_draw_pays_for_all():
    budget = plan_budget()
    assert budget.remaining == PrivacyLoss(5.0, 1e-6)
    with budget.reserve([100 * PURE, GAUSS]):
        assert budget.spent == PrivacyLoss(0.0, 0.0)
        budget.charge(PURE, estimator="A")
        first = budget.spent
        assert 4.77 < first.epsilon < 4.8
        assert first.delta == 1e-6
        budget.charge(PURE, estimator="A")
        budget.charge(GAUSS, estimator="B")
        assert budget.spent == first
    assert first.epsilon == plan_epsilon(100 * PURE + GAUSS, 1e-6)
    assert [charge.cost for charge in budget.charges] == [PURE, PURE, GAUSS]


def test_nothing_is_granted_without_a_plan_or_beside_it():
    budget = plan_budget()
    with pytest.raises(BudgetExceededError, match=r"No plan .* budget\.reserve"):
        budget.check(PURE)
    with pytest.raises(BudgetExceededError, match="A: no plan"):
        budget.charge(PURE, estimator="A")
    with budget.reserve([2 * PURE, GAUSS]):
        with pytest.raises(BudgetExceededError):
            budget.charge(Cost(0.11), estimator="A")
        with pytest.raises(BudgetExceededError):
            budget.charge(Cost(0.3, 1e-7, mu=0.05, separate_delta=1e-9), estimator="A")
        with pytest.raises(BudgetExceededError):
            budget.charge(Cost(0.1, 1e-9), estimator="A")
        assert budget.spent.epsilon == 0
        budget.charge(2 * PURE, estimator="A")
        with pytest.raises(BudgetExceededError):
            budget.charge(PURE, estimator="A")
        budget.check(GAUSS)


def test_a_price_pays_for_a_smaller_fit_of_its_kind():
    budget = plan_budget()
    with budget.reserve([Cost(0.1), Cost(0.2), Cost(0.3), GAUSS]):
        assert budget.fits(Cost(0.15)) == 2
        assert budget.fits(Cost(0.05)) == 3
        assert budget.fits(Cost(0.1) + Cost(0.2)) == 1
        assert budget.fits(2 * Cost(0.2) + Cost(0.05)) == 1
        budget.charge(Cost(0.2), estimator="A")  # the same one first
        assert budget.fits(Cost(0.2)) == 1
        budget.charge(Cost(0.05), estimator="A")  # then the smallest that is enough
        assert budget.fits(Cost(0.3)) == 1
        budget.charge(Cost(0.2), estimator="A")
        assert budget.fits(Cost(0.01)) == 0  # a Gaussian price pays for no pure fit
        budget.charge(Cost(0.3, 1e-7, mu=0.03), estimator="A")
        assert budget.fits(Cost(0.3, 1e-7, mu=0.001)) == 0


def test_a_gaussian_price_pays_for_the_same_noise_whatever_its_claim():
    budget = plan_budget()
    with budget.reserve(GAUSS):
        budget.charge(Cost(0.29, 2e-7, mu=0.05), estimator="A")


def test_a_plan_that_nothing_was_drawn_from_is_freed_and_no_other():
    budget = plan_budget()
    with budget.reserve([PURE]):
        assert budget.remaining == PrivacyLoss(0.0, 0.0)
        with pytest.raises(BudgetExceededError, match="taken"):
            budget.reserve([GAUSS])
    assert budget.remaining == PrivacyLoss(5.0, 1e-6)
    with pytest.raises(BudgetExceededError):
        budget.charge(PURE, estimator="A")  # a freed plan holds nothing
    with budget.reserve([3 * PURE]):
        budget.charge(PURE, estimator="A")
    spent = budget.spent
    assert budget.remaining == PrivacyLoss(0.0, 0.0)
    assert budget.release_reservations() == 0
    with pytest.raises(BudgetExceededError):
        budget.reserve([PURE])
    budget.charge(2 * PURE, estimator="A")  # the rest of the plan is still there
    assert budget.spent == spent
    with pytest.raises(BudgetExceededError):
        budget.charge(PURE, estimator="A")


def test_an_error_in_the_block_gives_nothing_back():
    budget = plan_budget()
    with pytest.raises(RuntimeError), budget.reserve([2 * PURE]):
        budget.charge(PURE, estimator="A")
        raise RuntimeError
    assert budget.spent.epsilon > 0
    assert budget.fits(PURE) == 1


def test_a_plan_that_is_too_large_is_refused_and_says_what_it_comes_to():
    budget = plan_budget()
    with pytest.raises(BudgetExceededError, match=r"As a plan it comes to epsilon=5\.3"):
        budget.reserve(120 * PURE)
    with pytest.raises(BudgetExceededError, match="deltas do not fit"):
        budget.reserve(Cost(0.1, 1e-6))
    assert budget.reservations == []


def test_several_plans_each_have_their_part_and_add_up():
    budget = plan_budget(plans=[(2.0, 4e-7), (3.0, 6e-7)])
    with budget.reserve([Cost(2.5)]):  # does not fit into the first part
        assert budget.remaining == PrivacyLoss(2.0, 4e-7)
        budget.charge(Cost(2.5), estimator="A")
    with budget.reserve([Cost(0.5), Cost(0.5)]):
        budget.charge(Cost(0.5), estimator="A")
    expected = plan_epsilon(Cost(2.5), 6e-7) + plan_epsilon(2 * Cost(0.5), 4e-7)
    assert budget.spent.epsilon == pytest.approx(expected, rel=1e-12)
    assert budget.spent.delta == 1e-6
    assert budget.remaining == PrivacyLoss(0.0, 0.0)
    with pytest.raises(BudgetExceededError, match="taken"):
        budget.reserve([Cost(0.001)])


def test_a_freed_part_is_taken_again():
    budget = plan_budget(plans=[(2.0, 4e-7), (3.0, 6e-7)])
    for _ in range(3):
        with budget.reserve([Cost(1.5)]), budget.reserve([Cost(2.0)]):
            assert budget.remaining == PrivacyLoss(0.0, 0.0)
    assert budget.remaining == PrivacyLoss(3.0, 6e-7)


@each(
    ("plans", "error", "match"),
    [
        ([(3.0, 5e-7), (2.1, 5e-7)], ValueError, "epsilons of all plans"),
        ([(3.0, 5e-7), (2.0, 6e-7)], ValueError, "deltas of all plans"),
        ([(3.0, 0.0)], ValueError, "delta in"),
        ([], TypeError, "list of pairs"),
        ([3.0], TypeError, "list of pairs"),
        ([(0.0, 1e-7)], ValueError, "epsilon of a plan"),
        (3, TypeError, "list of pairs"),
    ],
)
def test_parts_that_do_not_fit_are_refused(plans, error, match):
    with pytest.raises(error, match=match):
        plan_budget(plans=plans)


def test_what_the_accountant_cannot_keep_is_refused():
    with pytest.raises(ValueError, match="delta must be above 0"):
        PrivacyBudget(1.0, accountant="pld")
    with pytest.raises(ValueError, match="separate_delta must be 0"):
        plan_budget(separate_delta=1e-7)
    with pytest.raises(ValueError, match='plans must be None but under accountant="pld"'):
        PrivacyBudget(1.0, 1e-6, plans=[(1.0, 1e-6)])


@pytest.mark.parametrize("accountant", ["basic", "gdp", "zcdp", "pld"])
def test_a_list_of_prices_is_a_price(accountant):
    budget = PrivacyBudget(5.0, 1e-6, accountant=accountant)
    with budget.reserve([PURE, 2 * PURE, GAUSS]):
        budget.charge(PURE, estimator="A")
        budget.charge(GAUSS, estimator="A")
    (record,) = budget.reservations
    assert record.epsilon == 0.6
    for bad in ([], [PURE, 0.1], "x"):
        with pytest.raises(TypeError, match="cost must be"):
            budget.reserve(bad)


def test_fits_counts_what_would_be_granted():
    budget = PrivacyBudget(1.0, 1e-6, accountant="gdp")
    count = budget.fits(PURE)
    for _ in range(count):
        budget.charge(PURE, estimator="A")
    assert budget.fits(PURE) == 0
    with pytest.raises(BudgetExceededError):
        budget.charge(PURE, estimator="A")
    budget = PrivacyBudget(1.0)
    assert budget.fits(Cost(0.1)) == 10
    assert budget.fits(Cost(0.1, 1e-9)) == 0
    with budget.reserve(Cost(0.6)):
        assert budget.fits(Cost(0.3)) == 3  # of what is held and of what is free
    planned = plan_budget()
    assert planned.fits(PURE) == 0
    with planned.reserve([5 * PURE, GAUSS]):
        assert planned.fits(PURE) == 5
        assert planned.fits(2 * PURE) == 2
        assert planned.fits(PURE + GAUSS) == 1


@pytest.mark.slow
def test_a_search_is_a_plan_whichever_candidate_it_refits():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(300, 2))
    model = DPKMeans(2, bounds=(0, 1))
    for best in (0.2, 0.4):
        budget = plan_budget()
        search = GridSearchCV(
            model.set_params(budget=budget),
            {"epsilon": [0.2, 0.4]},
            cv=3,
            scoring=lambda estimator, X, best=best: -abs(estimator.epsilon - best),
        )
        with budget.reserve(search_cost(search)):
            search.fit(X)
        assert search.best_params_ == {"epsilon": best}
        assert len(budget.charges) == 7
        assert budget.spent.epsilon < 2.3


def test_fits_estimators_and_their_announced_prices():
    X = [[0.1, 0.2], [0.8, 0.9]] * 50
    model = DPKMeans(2, epsilon=0.5, bounds=(0, 1))
    budget = plan_budget()
    with budget.reserve([3 * model.privacy_cost()]):
        for _ in range(3):
            model.set_params(budget=budget).fit(X)
    assert len(budget.charges) == 3
    with pytest.raises(BudgetExceededError, match="DPKMeans: no plan"):
        model.fit(X)


# -- the file ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_plan_survives_its_process_and_its_rest_is_there_for_the_next(tmp_path):
    path = tmp_path / "a.budget"
    code = (
        "import os\n"
        "from skdp.budget import Cost, PrivacyBudget\n"
        f"budget = PrivacyBudget(5.0, 1e-6, accountant='pld', ledger={str(path)!r})\n"
        "budget.reserve([3 * Cost(0.1)]).__enter__()\n"
        "budget.charge(Cost(0.1), estimator='A')\n"
        "os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=".")
    budget = plan_budget(ledger=path)
    with pytest.raises(BudgetExceededError):
        budget.charge(PURE, estimator="A")  # it may be that the other process still lives
    assert budget.release_reservations() == 1
    spent = budget.spent
    budget.charge(2 * PURE, estimator="A")
    assert budget.spent == spent
    assert budget.fits(PURE) == 0


@pytest.mark.slow
def test_only_who_holds_the_token_draws_from_an_open_plan(tmp_path):
    path = tmp_path / "a.budget"
    budget = plan_budget(ledger=path)
    with budget.reserve([2 * PURE]):
        code = (
            "import pickle, sys\n"
            "from skdp.budget import Cost, PrivacyBudget\n"
            "from skdp.exceptions import BudgetExceededError\n"
            f"other = PrivacyBudget(5.0, 1e-6, accountant='pld', ledger={str(path)!r})\n"
            "assert other.fits(Cost(0.1)) == 0\n"
            "worker = pickle.loads(sys.stdin.buffer.read())\n"
            "worker.charge(Cost(0.1), estimator='A')\n"
        )
        handle = pickle.dumps(budget)
        subprocess.run([sys.executable, "-c", code], input=handle, check=True)
        assert budget.fits(PURE) == 1
    assert len(budget.charges) == 1


def test_other_parts_are_other_terms(tmp_path):
    path = tmp_path / "a.budget"
    plan_budget(ledger=path, plans=[(2.0, 5e-7), (3.0, 5e-7)])
    with pytest.raises(ValueError, match="made with plans="):
        plan_budget(ledger=path)
    again = plan_budget(ledger=path, plans=[(2.0, 5e-7), (3.0, 5e-7)])
    assert pickle.loads(pickle.dumps(again)).remaining == PrivacyLoss(3.0, 5e-7)


def test_an_older_skdp_refuses_the_file_and_an_older_file_is_upgraded(tmp_path):
    path = tmp_path / "a.budget"
    PrivacyBudget(1.0, ledger=path).charge(PURE, estimator="A")
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone()[0] == schema.FORMAT == 4
        # As 0.2.0.dev0 wrote it before there were plans.
        for table in ("plans", "items", "draws"):
            connection.execute(f"DROP TABLE {table}")
        connection.execute("ALTER TABLE ledger DROP COLUMN plans")
        connection.execute("ALTER TABLE ledger DROP COLUMN unit")
        connection.execute("PRAGMA user_version = 2")
    connection.close()
    ledger._CHECKED.clear()
    budget = PrivacyBudget(1.0, ledger=path)
    budget.charge(PURE, estimator="A")
    assert budget.spent.epsilon == 0.2
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone()[0] == 4
        connection.execute("PRAGMA user_version = 5")
    connection.close()
    with pytest.raises(LedgerError, match="format 5"):
        budget.charge(PURE, estimator="A")


def test_the_totals_of_a_ledger_of_plans_are_those_of_its_charges(tmp_path):
    path = tmp_path / "a.budget"
    budget = plan_budget(ledger=path, plans=[(2.0, 4e-7), (3.0, 6e-7)])
    with budget.reserve([3 * PURE]), budget.reserve([GAUSS, PURE]):
        budget.charge(GAUSS, estimator="A")
        budget.charge(PURE, estimator="A")
        budget.charge(PURE, estimator="A")
    with sqlite3.connect(path) as connection:
        connection.row_factory = sqlite3.Row
        assert schema.Totals.read(connection) == schema.Totals.counted(connection)
        assert schema.Totals.read(connection).aside.main == Fraction(0)
    connection.close()
    assert budget.fits(PURE) == 2


def test_the_curve_of_what_was_spent():
    deltas = [1e-9, 1e-6, 1e-3]
    for accountant in ("gdp", "zcdp"):
        budget = PrivacyBudget(20.0, 1e-6, accountant=accountant)
        assert budget.curve(deltas) == [0.0, 0.0, 0.0]
        budget.charge(30 * PURE, estimator="A")
        found = budget.curve(deltas)
        assert found == sorted(found, reverse=True)
        assert found[1] == pytest.approx(budget.spent.epsilon, rel=1e-9)
    basic = PrivacyBudget(20.0, 1e-6)
    basic.charge(GAUSS, estimator="A")
    assert basic.curve([1e-8, 1e-7]) == [float("inf"), 0.3]
    planned = plan_budget(plans=[(2.5, 5e-7), (2.5, 5e-7)])
    with planned.reserve([10 * PURE]), planned.reserve([GAUSS]):
        planned.charge(PURE, estimator="A")

    assert planned.curve([5e-7])[0] == pytest.approx(planned.spent.epsilon, rel=1e-6)
    assert planned.curve(deltas) == sorted(planned.curve(deltas), reverse=True)


def test_a_notebook_shows_a_budget_of_plans():
    budget = plan_budget()
    with budget.reserve([3 * PURE], note="three fits"):
        budget.charge(PURE, estimator="A")
        text = budget._repr_html_()
    assert "epsilon of the plans" in text
    assert "three fits" in text
