"""Reservations: all or nothing before the first fit, unused parts free again, fail closed."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
from pathlib import Path

import joblib
import pytest

from skdp.budget import Cost, PrivacyBudget, PrivacyLoss, gdp_mu
from skdp.exceptions import BudgetExceededError, SealedBudgetError

ONE = Cost(1.0)
ROOT = Path(__file__).resolve().parents[2]


def spend(budget, epsilon=1.0):
    return budget.charge(Cost(epsilon), estimator="Fake")


def spend_and_fail(budget):
    spend(budget)
    raise KeyError


def in_child(function):
    """Run `function` in a forked child and return its exit code (0: it returned)."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            function()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_what_is_set_aside_is_neither_spent_nor_free():
    budget = PrivacyBudget(10.0)
    with budget.reserve(6 * ONE, note="folds"):
        assert budget.spent == PrivacyLoss(0.0, 0.0)
        assert budget.remaining == PrivacyLoss(4.0, 0.0)
        spend(budget, 2.0)
        assert (budget.spent.epsilon, budget.remaining.epsilon) == (2.0, 4.0)
        (record,) = budget.reservations
        assert (record.epsilon, record.note, record.open) == (6.0, "folds", True)
        assert record.pid == os.getpid()
    assert (budget.spent.epsilon, budget.remaining.epsilon) == (2.0, 8.0)
    assert not budget.reservations[0].open


def test_charges_beyond_the_reservation_draw_from_what_is_free():
    budget = PrivacyBudget(10.0)
    with budget.reserve(6 * ONE):
        budget.check(Cost(10.0))
        spend(budget, 9.0)
        with pytest.raises(BudgetExceededError, match=r"epsilon=1\.0, delta=0\.0 left"):
            spend(budget, 1.1)
        spend(budget)
    assert budget.remaining.epsilon == 0


def test_too_small_a_budget_is_refused_before_anything():
    budget = PrivacyBudget(10.0)
    spend(budget)
    with pytest.raises(BudgetExceededError):
        budget.reserve(10 * ONE)  # at the call already
    reservation = budget.reserve(9 * ONE)
    spend(budget)  # somebody was faster
    with pytest.raises(BudgetExceededError), reservation:
        raise AssertionError("the block ran")
    assert budget.reservations == []
    assert budget.remaining.epsilon == 8


def test_nested_reservations_need_their_whole_price_each_and_the_inner_is_drawn_first():
    budget = PrivacyBudget(10.0)
    with budget.reserve(6 * ONE):
        with pytest.raises(BudgetExceededError):
            budget.reserve(5 * ONE)
        with budget.reserve(3 * ONE):
            assert budget.remaining.epsilon == 1
            spend(budget, 2.0)
        assert budget.remaining.epsilon == 2  # 2 of the inner 3 are spent, the outer 6 are whole
        spend(budget, 6.0)
        assert budget.remaining.epsilon == 2
    assert budget.remaining.epsilon == 2


def test_an_exception_in_the_block_frees_the_rest():
    budget = PrivacyBudget(10.0)
    with pytest.raises(KeyError), budget.reserve(6 * ONE):
        spend_and_fail(budget)
    assert budget.remaining.epsilon == 9


def test_a_reservation_is_entered_once():
    budget = PrivacyBudget(10.0)
    reservation = budget.reserve(ONE)
    with reservation:
        pass
    with pytest.raises(RuntimeError, match="entered once"), reservation:
        pass


def test_prices_of_sums_are_set_aside_under_the_accountant():
    budget = PrivacyBudget(1.0, 1e-6, accountant="gdp")
    fit = Cost(0.2, 1e-8, mu=gdp_mu(0.2, 1e-8))
    n = 1
    while True:
        try:
            budget.reserve((n + 1) * fit)
        except BudgetExceededError:
            break
        n += 1
    assert n > 5  # sums would allow five
    with budget.reserve(n * fit):
        for _ in range(n):
            budget.charge(fit, estimator="Fake")
        with pytest.raises(BudgetExceededError):
            budget.charge(fit, estimator="Fake")


def test_other_threads_and_processes_draw_from_it():
    budget = PrivacyBudget(10.0)
    with budget.reserve(10 * ONE):
        thread = threading.Thread(target=spend, args=(budget,))
        thread.start()
        thread.join()
        assert in_child(lambda: spend(budget, 2.0)) == 0
        assert budget.spent.epsilon == 3
        with pytest.raises(BudgetExceededError):
            budget.reserve(ONE)
    assert budget.remaining.epsilon == 7


OTHER = """
import pickle, sys
from skdp import BudgetExceededError
from skdp.budget import Cost, PrivacyBudget

kind, path, *prices = sys.argv[1:]
if kind == "opened":
    budget = PrivacyBudget(10.0, ledger=path)
else:
    budget = pickle.load(open(kind, "rb"))
for price in map(float, prices):
    try:
        budget.check(Cost(price))
        budget.charge(Cost(price), estimator="Other")
        print("granted")
    except BudgetExceededError:
        print("refused")
"""


def elsewhere(kind, path, *prices):
    """Charge in a fresh process, by a pickle or by opening the file; tell how it went."""
    done = subprocess.run(
        [sys.executable, "-c", OTHER, str(kind), str(path), *map(str, prices)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.slow
def test_a_reservation_belongs_to_whoever_holds_its_token(tmp_path):
    path = tmp_path / "a.budget"
    budget = PrivacyBudget(10.0, ledger=path)
    before, inside = tmp_path / "before", tmp_path / "inside"
    before.write_bytes(pickle.dumps(budget))
    same_file = PrivacyBudget(10.0, ledger=path)  # opened by itself, in this process
    with budget.reserve(6 * ONE):
        inside.write_bytes(pickle.dumps(budget))
        for kind in ("opened", before):
            assert elsewhere(kind, path, 4.5, 1.0) == ["refused", "granted"]
        with pytest.raises(BudgetExceededError):
            spend(same_file, 2.5)
        assert elsewhere(inside, path, 3.0) == ["granted"]
        assert budget.remaining.epsilon == 2
        spend(budget, 5.0)  # 3 of its reservation, 2 that were free
        assert elsewhere("opened", path, 0.1) == ["refused"]
    assert budget.spent.epsilon == 10


@pytest.mark.slow
def test_a_token_is_void_when_its_reservation_closes(tmp_path):
    path, inside = tmp_path / "a.budget", tmp_path / "inside"
    budget = PrivacyBudget(10.0, ledger=path)
    with budget.reserve(6 * ONE):
        inside.write_bytes(pickle.dumps(budget))
    with budget.reserve(6 * ONE):
        assert elsewhere(inside, path, 4.5, 4.0) == ["refused", "granted"]


def test_the_token_is_secret(tmp_path):
    path = tmp_path / "a.budget"
    budget = PrivacyBudget(10.0, ledger=path)
    digest = joblib.hash(budget)
    with budget.reserve(6 * ONE) as reservation:
        token = reservation._token
        assert len(token) == 32
        assert token.encode() in pickle.dumps(budget)
        shown = [repr(budget), repr(reservation), budget._repr_html_(), repr(budget.reservations)]
        with pytest.raises(BudgetExceededError) as caught:
            spend(budget, 11.0)
        assert not any(token in text for text in [*shown, str(caught.value)])
        assert token.encode() not in path.read_bytes()
        assert joblib.hash(budget) == digest  # the cache of a pipeline knows it again
    assert token.encode() not in pickle.dumps(budget)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_workers_draw_from_the_reservation(method):
    context = multiprocessing.get_context(method)
    budget = PrivacyBudget(6.0)
    with budget.reserve(6 * ONE):
        process = context.Process(target=spend, args=(budget, 2.0))
        process.start()
        process.join()
        assert process.exitcode == 0
        assert (budget.spent.epsilon, budget.remaining.epsilon) == (2, 0)
    assert budget.remaining.epsilon == 4


def test_a_forked_child_does_not_end_its_parents_reservation():
    budget = PrivacyBudget(10.0)
    with budget.reserve(6 * ONE) as reservation:
        assert in_child(lambda: reservation.__exit__(None, None, None)) == 0
        assert budget.remaining.epsilon == 4


def test_what_a_killed_process_set_aside_stays_set_aside_until_released(tmp_path):
    path = tmp_path / "a.budget"
    budget = PrivacyBudget(10.0, ledger=path)

    def hold():
        with budget.reserve(6 * ONE):
            spend(budget)
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(hold) == -signal.SIGKILL
    assert (budget.spent.epsilon, budget.remaining.epsilon) == (1, 4)
    again = PrivacyBudget(10.0, ledger=path)  # reopening keeps it too
    assert again.remaining.epsilon == 4
    with pytest.raises(BudgetExceededError):
        spend(again, 4.1)
    assert again.release_reservations() == 1
    assert again.release_reservations() == 0
    spend(again, 9.0)
    assert budget.remaining.epsilon == 0


def test_releasing_what_a_live_block_holds_cannot_overspend():
    budget = PrivacyBudget(10.0)
    with budget.reserve(6 * ONE):
        assert budget.release_reservations() == 1
        spend(budget, 10.0)
        with pytest.raises(BudgetExceededError):
            spend(budget)
    assert budget.spent.epsilon == 10


def test_leaving_the_block_without_a_ledger():
    budget = PrivacyBudget(10.0)
    path = budget.__reduce__()[1][0]
    with pytest.raises(SealedBudgetError), budget.reserve(ONE):
        os.unlink(path)
    budget = PrivacyBudget(10.0)
    path = budget.__reduce__()[1][0]
    reservation = budget.reserve(ONE)
    with pytest.raises(KeyError), reservation:  # the block's own error goes first
        {os.unlink(path): 1}["no such key"]


class PriceWithNote(Cost):
    note = "splitter does not keep neighbours"


def test_the_note_of_a_price_is_recorded():
    budget = PrivacyBudget(10.0)
    with budget.reserve(PriceWithNote(1.0)), budget.reserve(PriceWithNote(1.0), note="mine"):
        pass
    assert [r.note for r in budget.reservations] == [PriceWithNote.note, "mine"]
    assert PriceWithNote.note in budget._repr_html_()
    with pytest.raises(TypeError, match="note must be a str"):
        budget.reserve(ONE, note=3)
    with pytest.raises(TypeError, match=r"cost must be a skdp\.budget\.Cost"):
        budget.reserve(16)
