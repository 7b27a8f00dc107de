"""Budgets that cannot pay and ledgers that cannot be written: nothing is released."""

from __future__ import annotations

import os
import pickle
import shutil
import sqlite3
import tempfile
import traceback
from pathlib import Path

import pytest
from subjects import (
    GOOD,
    a_few_estimators,
    answer,
    every_estimator,
    fit,
    fitted_or_not,
    prepared,
    refused,
)

from skdp import PrivacyBudget
from skdp.budget import Cost
from skdp.budget import ledger as ledger_module
from skdp.exceptions import BudgetExceededError, LedgerError, SealedBudgetError


@fitted_or_not
@every_estimator
def test_budget_too_small(kind, fitted):
    first = prepared(kind, fitted)
    for budget, privacy in (
        (PrivacyBudget(0.5, 1e-3), {"epsilon": 1.0}),
        (PrivacyBudget(1.0, 1e-6, accountant="gdp"), {"epsilon": 1.1, "delta": 1e-6}),
    ):
        first.set_params(budget=budget, **privacy)
        text = refused(first, lambda e: fit(e, GOOD), BudgetExceededError, "budget")
        assert "Nothing was charged" in text
        assert budget.charges == []


def ledgered(kind, fitted, path):
    """Return the estimator with a budget whose ledger has this path."""
    return prepared(kind, fitted, PrivacyBudget(100.0, 1e-3, ledger=path))


@fitted_or_not
@a_few_estimators
def test_ledger_deleted(kind, fitted, tmp_path):
    path = tmp_path / "a.budget"
    estimator = ledgered(kind, fitted, path)
    path.unlink()
    refused(
        estimator, lambda e: fit(e, GOOD), SealedBudgetError, "budget.*a\\.budget", charged=False
    )
    assert estimator.budget.sealed
    assert not path.exists()  # and nothing made it anew


@fitted_or_not
@every_estimator
def test_budget_sealed(kind, fitted, tmp_path):
    """As a model is after it was unpickled where its ledger is not."""
    path = tmp_path / "a.budget"
    model = pickle.dumps(ledgered(kind, fitted, path))
    path.rename(tmp_path / "elsewhere")
    estimator = pickle.loads(model)
    assert estimator.budget.sealed
    refused(estimator, lambda e: fit(e, GOOD), SealedBudgetError, "budget", charged=False)
    if fitted:
        assert len(answer(estimator, GOOD)) == len(GOOD)


@fitted_or_not
@a_few_estimators
def test_ledger_of_another_kind(kind, fitted, tmp_path):
    path = tmp_path / "a.budget"
    estimator = ledgered(kind, fitted, path)
    for content in (b"not a ledger at all, " * 100, b"", b"SQLite format 3\0" + bytes(4000)):
        path.write_bytes(content)
        refused(
            estimator,
            lambda e: fit(e, GOOD),
            (LedgerError, SealedBudgetError),
            "ledger.*a\\.budget",
            charged=False,
        )
        assert path.read_bytes() == content
    path.unlink()
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE flights (delay REAL)")
    other.close()
    refused(
        estimator,
        lambda e: fit(e, GOOD),
        (LedgerError, SealedBudgetError),
        "ledger.*a\\.budget",
        charged=False,
    )
    # Nor can a budget be made on such a file.
    for ledger in (path, tmp_path, tmp_path / "nowhere" / "b.budget"):
        with pytest.raises(LedgerError, match="ledger"):
            PrivacyBudget(1.0, ledger=ledger)


@fitted_or_not
@a_few_estimators
def test_ledger_locked(kind, fitted, tmp_path, monkeypatch):
    monkeypatch.setattr(ledger_module, "TIMEOUT", 0.05)
    path = tmp_path / "a.budget"
    estimator = ledgered(kind, fitted, path)
    before = estimator.budget.charges
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    refused(estimator, lambda e: fit(e, GOOD), LedgerError, "ledger.*locked", charged=False)
    holder.execute("ROLLBACK")
    holder.close()
    assert estimator.budget.charges == before
    fit(estimator, GOOD)


@fitted_or_not
@a_few_estimators
def test_disk_full(kind, fitted, tmp_path, monkeypatch):
    path = tmp_path / "a.budget"
    estimator = ledgered(kind, fitted, path)
    connect = ledger_module.Ledger._connect

    def full(ledger, mode):
        connection = connect(ledger, mode)
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    monkeypatch.setattr(ledger_module.Ledger, "_connect", full)
    for size in (2000, 300, 0):  # fill the pages, until nothing as short as a fit's charge fits
        with pytest.raises(LedgerError, match="disk is full"):
            while True:
                estimator.budget.charge(Cost(1.0), estimator="", note="x" * size)
    refused(estimator, lambda e: fit(e, GOOD), LedgerError, "ledger.*disk is full")


@pytest.fixture
def open_folder():
    """Make a folder that every user may enter, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="skdp-test-"))
    folder.chmod(0o777)
    yield folder
    folder.chmod(0o777)
    shutil.rmtree(folder)


@fitted_or_not
@a_few_estimators
def test_ledger_read_only(kind, fitted, open_folder):
    path = open_folder / "a.budget"
    estimator = ledgered(kind, fitted, path)
    before = estimator.budget.charges
    path.chmod(0o444)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:  # permissions bind ordinary users only, and the tests may be run by root
        verdict = "as it should be"
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            refused(estimator, lambda e: fit(e, GOOD), LedgerError, "ledger.*must be writable")
        except BaseException as error:
            verdict = "".join(traceback.format_exception(error))
        finally:
            os.write(write, verdict.encode()[:60_000])
            os._exit(0)
    os.close(write)
    with open(read, "rb") as pipe:
        assert pipe.read().decode() == "as it should be"
    os.waitpid(pid, 0)
    assert estimator.budget.charges == before
