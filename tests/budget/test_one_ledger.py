"""One table has one ledger: names of data sets, backups, paths that must be there."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sqlite3

import pytest

from skdp.budget import Cost, PrivacyBudget
from skdp.exceptions import LedgerError, SealedBudgetError


def spend(budget, epsilon=1.0):
    return budget.charge(Cost(epsilon), estimator="Fake")


def test_a_second_ledger_of_a_data_set_is_refused_and_the_first_named(tmp_path):
    first = PrivacyBudget(3.0, ledger=tmp_path / "a.budget", dataset="patients")
    assert first.dataset == "patients"
    with pytest.raises(LedgerError, match=r"would have two: .*b\.budget and .*a\.budget"):
        PrivacyBudget(3.0, ledger=tmp_path / "b.budget", dataset="patients")
    assert not (tmp_path / "b.budget").exists()
    PrivacyBudget(3.0, ledger=tmp_path / "b.budget", dataset="others")
    PrivacyBudget(3.0, ledger=tmp_path / "c.budget")
    (tmp_path / "elsewhere").mkdir()
    PrivacyBudget(3.0, ledger=tmp_path / "elsewhere" / "b.budget", dataset="patients")
    (tmp_path / "d.txt").write_text("patients")
    again = PrivacyBudget(3.0, ledger=tmp_path / "a.budget", dataset="patients")
    spend(again)
    assert PrivacyBudget(3.0, ledger=tmp_path / "a.budget").dataset == "patients"
    assert first.spent.epsilon == 1


def test_a_copied_ledger_is_a_second_one(tmp_path):
    PrivacyBudget(3.0, ledger=tmp_path / "a.budget", dataset="patients")
    shutil.copy(tmp_path / "a.budget", tmp_path / "b.budget")
    for name in ("a.budget", "b.budget"):  # nobody can tell which is the right one
        with pytest.raises(LedgerError, match="One table has one ledger"):
            PrivacyBudget(3.0, ledger=tmp_path / name)
    os.link(tmp_path / "a.budget", tmp_path / "elsewhere")
    os.unlink(tmp_path / "b.budget")
    PrivacyBudget(3.0, ledger=tmp_path / "a.budget")  # another name of the same file is none


def test_a_ledger_is_named_once(tmp_path):
    path = tmp_path / "a.budget"
    PrivacyBudget(3.0, ledger=path)
    PrivacyBudget(3.0, ledger=path, dataset="patients")
    with pytest.raises(ValueError, match="made with dataset=patients, not others"):
        PrivacyBudget(3.0, ledger=path, dataset="others")
    for wrong in (3, ""):
        with pytest.raises((TypeError, ValueError), match="dataset must be"):
            PrivacyBudget(3.0, ledger=path, dataset=wrong)


def make(folder, i, start, results):
    start.wait()
    try:
        PrivacyBudget(3.0, ledger=f"{folder}/{i}.budget", dataset="patients")
    except LedgerError:
        results.put(0)
    else:
        results.put(1)


def test_of_two_processes_that_make_the_ledger_of_a_data_set_one_is_refused(tmp_path):
    context = multiprocessing.get_context("fork")
    start, results = context.Barrier(4), context.SimpleQueue()
    processes = [context.Process(target=make, args=(tmp_path, i, start, results)) for i in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert sum(results.get() for _ in processes) == 1


def test_a_path_that_must_be_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LedgerError, match=f"must_exist=True; {tmp_path.resolve()}/a.budget"):
        PrivacyBudget(3.0, ledger="a.budget", must_exist=True)
    assert os.listdir(tmp_path) == []
    spend(PrivacyBudget(3.0, ledger="a.budget"))
    budget = PrivacyBudget(3.0, ledger="a.budget", must_exist=True)
    assert budget.spent.epsilon == 1
    assert repr(str(tmp_path.resolve() / "a.budget")) in repr(budget)
    with pytest.raises(ValueError, match="must_exist=True needs the path"):
        PrivacyBudget(3.0, must_exist=True)


def test_a_backup_is_whole_and_no_second_ledger(tmp_path):
    path, copy = tmp_path / "a.budget", tmp_path / "copy.budget"
    budget = PrivacyBudget(9.0, 1e-6, ledger=path, dataset="patients")
    spend(budget)
    budget.backup(copy)
    spend(budget)
    with pytest.raises(LedgerError, match=r"copy\.budget is a backup of .*a\.budget"):
        PrivacyBudget(9.0, 1e-6, ledger=copy)
    PrivacyBudget(9.0, 1e-6, ledger=path, dataset="patients")  # which the copy does not hinder
    budget.backup(copy)  # an earlier backup is replaced
    with sqlite3.connect(copy) as connection:
        assert connection.execute("SELECT COUNT(*) FROM charges").fetchone() == (2,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    path.unlink()
    with pytest.raises(SealedBudgetError):
        budget.backup(tmp_path / "other")
    restored = PrivacyBudget(9.0, 1e-6, ledger=copy)
    assert (restored.spent.epsilon, restored.dataset) == (2, "patients")
    spend(restored)
    with pytest.raises(LedgerError, match="One table has one ledger"):
        PrivacyBudget(9.0, 1e-6, ledger=path, dataset="patients")


def test_a_backup_that_is_moved_back(tmp_path):
    path, copy = tmp_path / "a.budget", tmp_path / "copy.budget"
    budget = PrivacyBudget(9.0, ledger=path)
    spend(budget)
    budget.backup(copy)
    os.replace(copy, path)
    assert PrivacyBudget(9.0, ledger=path).spent.epsilon == 1
    spend(budget)  # the same ledger


@pytest.mark.parametrize("kind", ["text", "ledger", "itself", "folder"])
def test_a_backup_replaces_nothing_else(tmp_path, kind):
    budget, target = PrivacyBudget(9.0, ledger=tmp_path / "a.budget"), tmp_path / "b"
    if kind == "text":
        target.write_text("text")
    elif kind == "ledger":
        PrivacyBudget(9.0, ledger=target)
    elif kind == "itself":
        target = tmp_path / "a.budget"
    else:
        target.mkdir()
    before = target.read_bytes() if target.is_file() else None
    with pytest.raises(LedgerError, match=r"never replaces another file|its own backup"):
        budget.backup(target)
    assert (target.read_bytes() if target.is_file() else None) == before
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".new")]


def test_a_backup_of_a_ledger_in_memory(tmp_path):
    budget = PrivacyBudget(9.0)
    spend(budget)
    budget.backup(tmp_path / "a.budget")
    assert PrivacyBudget(9.0, ledger=tmp_path / "a.budget").spent.epsilon == 1


def test_a_backup_while_others_charge(tmp_path):
    path = tmp_path / "a.budget"
    budget = PrivacyBudget(1e6, ledger=path)
    context = multiprocessing.get_context("fork")
    stop = context.Event()
    process = context.Process(target=charge_until, args=(budget, stop))
    process.start()
    sums = []
    for i in range(5):
        budget.backup(tmp_path / f"{i}")
        sums.append(backed_up(tmp_path / f"{i}"))
    stop.set()
    process.join()
    assert sums == sorted(sums)
    assert sums[-1] <= budget.spent.epsilon


def charge_until(budget, stop):
    while not stop.is_set():
        spend(budget)


def backed_up(path):
    """Return what a backup holds, checked."""
    moved = path.parent / "moved"
    moved.mkdir(exist_ok=True)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE ledger SET backup_of = NULL")
    connection.close()
    return PrivacyBudget(1e6, ledger=path).spent.epsilon
