"""The budget's promises under races, forks and kills, without any estimator.

Each test says what the ledger must hold afterwards. A process is killed with SIGKILL, which no
handler sees.
"""

from __future__ import annotations

import collections
import multiprocessing
import os
import signal
import threading

import pytest

from skdp.budget import Cost, PrivacyBudget
from skdp.exceptions import BudgetExceededError

ONE = Cost(1.0)


def spend(budget, epsilon=1.0):
    return budget.charge(Cost(epsilon), estimator="Fake")


def fork(function):
    """Run `function` in a forked child, which ends with exit code 0 if it returns; give its pid."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            function()
            code = 0
        finally:
            os._exit(code)
    return pid


def ended(pid):
    """Wait for a child and return its exit code; a signal is negative."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def charge_until_refused(budget):
    """Charge as long as it is granted; return how often."""
    granted = 0
    while True:
        try:
            spend(budget)
        except BudgetExceededError:
            return granted
        granted += 1


def race(budget, threads, start, results):
    """Let some threads of this process charge until nothing is left."""
    counts = []

    def run():
        start.wait()
        counts.append(charge_until_refused(budget))

    workers = [threading.Thread(target=run) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(counts) == threads
    results.put((os.getpid(), sum(counts)))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_eight_threads_and_four_processes_race_for_100_charges(method):
    context = multiprocessing.get_context(method)
    budget, results = PrivacyBudget(100.0), context.SimpleQueue()
    start = context.Barrier(4 * 2 + 8)
    processes = [context.Process(target=race, args=(budget, 2, start, results)) for _ in range(4)]
    for process in processes:
        process.start()
    race(budget, 8, start, results)
    for process in processes:
        process.join()
        assert process.exitcode == 0
    granted = dict(results.get() for _ in range(5))
    assert sum(granted.values()) == 100
    assert budget.spent.epsilon == 100
    assert collections.Counter(c.pid for c in budget.charges) == {
        pid: n for pid, n in granted.items() if n
    }
    with pytest.raises(BudgetExceededError):
        spend(budget, 1e-9)


def test_concurrent_reservations_never_set_aside_more_than_there_is():
    budget, held, lock = PrivacyBudget(10.0), [], threading.Lock()
    barrier = threading.Barrier(8)

    def hold():
        barrier.wait()
        try:
            reservation = budget.reserve(3 * ONE)
            reservation.__enter__()
        except BudgetExceededError:
            return
        with lock:
            held.append(reservation)

    threads = [threading.Thread(target=hold) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(held) == 3
    assert budget.remaining.epsilon == 1


@pytest.mark.slow
def test_forks_in_the_middle_of_other_threads_charges():
    """A child never inherits a half-open transaction, of which SQLite would wait for the end."""
    budget, stop = PrivacyBudget(1e6), threading.Event()

    def keep_charging():
        while not stop.is_set():
            spend(budget)

    threads = [threading.Thread(target=keep_charging) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            pid = fork(lambda: spend(budget, 0.001))
            assert ended(pid) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert sum(c.epsilon == 0.001 for c in budget.charges) == 20


# -- kills ------------------------------------------------------------------------------------


def kill_self(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)


def test_killed_before_the_charge_it_is_not_counted(monkeypatch):
    budget = PrivacyBudget(3.0)

    def child():
        monkeypatch.setattr(type(budget._ledger), "record", kill_self)
        spend(budget)

    assert ended(fork(child)) == -signal.SIGKILL
    assert budget.spent.epsilon == 0


def test_killed_between_the_insertion_and_the_commit_it_is_not_counted(monkeypatch):
    budget = PrivacyBudget(3.0)
    spend(budget)
    insert = type(budget._ledger)._insert

    def insert_and_die(*args):
        insert(*args)
        kill_self()

    def child():
        monkeypatch.setattr(type(budget._ledger), "_insert", insert_and_die)
        spend(budget)

    assert ended(fork(child)) == -signal.SIGKILL
    assert budget.spent.epsilon == 1
    spend(budget, 2.0)  # what the dead process left half done is rolled back, its lock is gone
    assert budget.remaining.epsilon == 0


def test_killed_after_the_charge_it_is_counted():
    budget = PrivacyBudget(3.0)

    def child():
        spend(budget)
        kill_self()

    assert ended(fork(child)) == -signal.SIGKILL
    assert budget.spent.epsilon == 1


def test_ten_tenths_and_then_a_billionth():
    budget = PrivacyBudget(1.0)
    for _ in range(10):
        spend(budget, 0.1)
    with pytest.raises(BudgetExceededError):
        spend(budget, 1e-9)
    assert budget.spent.epsilon == 1


def test_too_small_for_a_search_is_refused_before_a_row_is_read():
    budget, touched = PrivacyBudget(15.0), []
    with pytest.raises(BudgetExceededError), budget.reserve(16 * ONE):
        touched.append("data")
    assert (touched, budget.charges, budget.remaining.epsilon) == ([], [], 15)
