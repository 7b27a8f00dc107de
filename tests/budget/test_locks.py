"""No charge is lost, whatever other code does with the files of a ledger meanwhile."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from skdp.budget import Cost, PrivacyBudget, locks
from skdp.exceptions import LedgerError
from tests.folding import each

SCRIPT = Path(__file__).resolve().parents[2] / "doc" / "benchmarks" / "ledger_races.py"


def spend(budget, epsilon=1.0):
    return budget.charge(Cost(epsilon), estimator="Fake")


@pytest.mark.slow
def test_what_is_granted_is_recorded_while_others_read_and_copy_the_files():
    """A few seconds of the script that runs for a minute outside CI.

    Of processes that fork, which inherit open files. `test_ledger_table` has a race of others.
    """
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--seconds", "3", "--start", "fork"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_sqlites_own_locks_would_lose_charges():
    """The test above can fail: without the sidecar's lock it does."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--seconds", "3", "--start", "fork", "--unlocked"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr


def hold(path, ready, release):
    with locks.FileLock(path, 10.0):
        ready.set()
        release.wait(60)


@pytest.fixture
def held(tmp_path):
    """Another process that holds the lock of a ledger; yield the ledger and how to end it."""
    budget = PrivacyBudget(10.0, ledger=tmp_path / "a.budget")
    context = multiprocessing.get_context("fork")
    ready, release = context.Event(), context.Event()
    process = context.Process(target=hold, args=(budget.ledger, ready, release))
    process.start()
    assert ready.wait(60)
    yield budget, release
    release.set()
    process.join()


@pytest.mark.slow
def test_a_lock_is_waited_for(held):
    budget, release = held
    timer = threading.Timer(0.3, release.set)
    timer.start()
    spend(budget)
    assert release.is_set()
    assert budget.spent.epsilon == 1


@pytest.mark.slow
def test_a_lock_that_is_not_released_refuses_the_charge(held):
    budget, _ = held
    budget._ledger.timeout = 0.2
    start = time.monotonic()
    with pytest.raises(LedgerError, match=r"locked by another process \(waited 0\.2 s\)"):
        spend(budget)
    assert time.monotonic() - start >= 0.15


@pytest.mark.slow
def test_other_descriptors_of_the_sidecar_change_nothing(held, tmp_path):
    budget, _ = held
    budget._ledger.timeout = 0.2
    for _ in range(3):
        with open(locks.sidecar(budget.ledger), "rb") as file:
            file.read()
        shutil.copy(locks.sidecar(budget.ledger), tmp_path / "copy")
        with pytest.raises(LedgerError, match="locked"):
            spend(budget)


@pytest.mark.parametrize("replaced", [False, True])
def test_a_sidecar_that_goes_during_a_transaction_undoes_it(tmp_path, monkeypatch, replaced):
    budget = PrivacyBudget(10.0, ledger=tmp_path / "a.budget")
    name = locks.sidecar(budget.ledger)
    insert = type(budget._ledger)._insert

    def insert_and_remove(self, *args):
        os.unlink(name)
        if replaced:
            Path(name).touch()
        return insert(self, *args)

    monkeypatch.setattr(type(budget._ledger), "_insert", insert_and_remove)
    with pytest.raises(LedgerError, match=r"removed or replaced.*Nothing was released"):
        spend(budget)
    monkeypatch.undo()
    assert budget.charges == []
    spend(budget)
    assert PrivacyBudget(10.0, ledger=budget.ledger).spent.epsilon == 1


def test_a_sidecar_that_is_replaced_while_it_is_waited_for(tmp_path, monkeypatch):
    """A lock on a file that has lost its name protects from nobody: the new one is locked."""
    budget = PrivacyBudget(10.0, ledger=tmp_path / "a.budget")
    spend(budget)
    name, flock, tries = locks.sidecar(budget.ledger), fcntl.flock, []

    def replace_then_lock(file, how):
        if how & fcntl.LOCK_EX:
            tries.append(how)
            if len(tries) < 3:
                os.unlink(name)
                Path(name).touch()
        flock(file, how)

    monkeypatch.setattr(locks.fcntl, "flock", replace_then_lock)
    spend(budget)
    assert len(tries) == 3
    monkeypatch.undo()
    assert budget.spent.epsilon == 2


def test_a_ledger_without_a_sidecar_gets_one_with_its_rights(tmp_path):
    budget = PrivacyBudget(10.0, ledger=tmp_path / "a.budget")
    os.chmod(budget.ledger, 0o664)
    Path(locks.sidecar(budget.ledger)).unlink(missing_ok=True)
    spend(budget)
    assert os.stat(locks.sidecar(budget.ledger)).st_mode & 0o777 == 0o664


MOUNTS = """\
22 28 0:20 / /proc rw - proc proc rw
28 1 254:0 / / rw - ext4 /dev/vda rw
40 28 0:50 / /net rw - {kind} server:/x rw
41 40 0:51 / /net/local\\040disk rw - xfs /dev/sdb rw
42 41 0:52 / /net/local\\040disk/m rw - tmpfs tmpfs rw
43 41 0:53 / /net/local\\040disk/m rw - {kind} server:/y rw
"""


@each("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "fuse"])
def test_network_file_systems_are_known(tmp_path, monkeypatch, kind):
    (tmp_path / "mounts").write_text(MOUNTS.format(kind=kind))
    monkeypatch.setattr(locks, "_MOUNTS", str(tmp_path / "mounts"))
    found = locks.network_file_system
    assert found("/net/a.budget") == kind
    assert found("/net/local disk/a.budget") is None
    assert found("/net/local disk/m/a.budget") == kind  # the later mount hides the earlier
    assert found("/network/a.budget") is None
    assert found("/a.budget") is None


def test_a_ledger_on_a_network_file_system_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "a.budget"
    budget = PrivacyBudget(10.0, ledger=path)
    point = str(tmp_path).replace(" ", "\\040")  # as the kernel writes it
    (tmp_path / "mounts").write_text(f"1 1 0:1 / {point} rw - nfs4 server:/x rw\n")
    monkeypatch.setattr(locks, "_MOUNTS", str(tmp_path / "mounts"))
    for name in ("a.budget", "b.budget"):
        with pytest.raises(LedgerError, match=r"network file system \(nfs4\).*local disk"):
            PrivacyBudget(10.0, ledger=tmp_path / name)
    assert not (tmp_path / "b.budget").exists()
    spend(budget)  # it was found to be local when it was made


def test_without_a_table_of_mounts_nothing_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(locks, "_MOUNTS", str(tmp_path / "no"))
    assert locks.network_file_system("/net/a") is None


def test_a_child_that_holds_a_copy_of_the_descriptor_does_not_keep_the_lock(tmp_path):
    budget = PrivacyBudget(10.0, ledger=tmp_path / "a.budget")
    with locks.FileLock(budget.ledger, 1.0) as lock:
        copy = os.dup(lock._file)  # as in a child that C code forks
    try:
        budget._ledger.timeout = 0.5
        spend(budget)
    finally:
        os.close(copy)
