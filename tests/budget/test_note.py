"""Who spends: the note of a budget is written with its charges, wherever they are made."""

from __future__ import annotations

import pickle
import subprocess
import sys

import joblib
import pytest

from skdp import PrivacyBudget
from skdp.budget import Cost
from skdp.budget.opening import Handle
from skdp.exceptions import LedgerError
from skdp.ledger import export_json, show


def charge(budget, note=""):
    return budget.charge(Cost(0.1), estimator="mean", note=note).note


@pytest.fixture
def path(tmp_path):
    return tmp_path / "patients.budget"


def test_charges_have_the_note_of_their_budget(path):
    ana = PrivacyBudget(1.0, ledger=path, note="Ana")
    ben = PrivacyBudget.open(path, note="Ben: model")
    other = PrivacyBudget.open(path)
    assert [charge(ana), charge(ben), charge(other), charge(ben, "extra")] == [
        "Ana", "Ben: model", "", "Ben: model: extra",
    ]  # fmt: skip
    assert [one.note for one in ana.charges] == ["Ana", "Ben: model", "", "Ben: model: extra"]
    text = show(path)
    assert "process" in text and "Ben: model" in text and str(ana.charges[0].pid) in text
    assert '"note": "Ana"' in export_json(path)
    assert (ana.note, other.note) == ("Ana", "")


def test_workers_and_other_processes_keep_it(path):
    ana = PrivacyBudget(1.0, ledger=path, note="Ana", unit="user", accountant="basic")
    joblib.Parallel(2)(joblib.delayed(charge)(ana) for _ in range(2))
    code = "import pickle, sys; from skdp.budget import Cost; "
    code += "budget = pickle.load(sys.stdin.buffer); "
    code += "budget.charge(Cost(0.1), estimator='mean'); print(budget.note, budget.unit)"
    ran = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(ana), capture_output=True, check=True
    )
    assert ran.stdout.split() == [b"Ana", b"user"]
    assert [one.note for one in ana.charges] == ["Ana"] * 3
    assert pickle.loads(pickle.dumps(ana)) is ana
    assert ana.__sklearn_clone__() is ana


@pytest.mark.parametrize("note", ["", "Ana"])
@pytest.mark.parametrize("terms", [{}, {"unit": "user"}, {"delta": 0.1, "accountant": "pld"}])
def test_values_of_a_handle_come_back(path, terms, note):
    budget = PrivacyBudget(1.0, ledger=path, note=note, **terms)
    _, values = budget.__reduce__()
    *found, own_note, tokens = values
    assert (own_note, tokens) == (note, ())
    handle = Handle.of(budget._account)
    assert found == list(handle.state().values())
    assert Handle.from_state(handle.state()) == handle


def test_the_cache_of_joblib_does_not_ask_who(path):
    ana, ben = PrivacyBudget(1.0, ledger=path, note="Ana"), PrivacyBudget.open(path, note="Ben")
    assert joblib.hash(ana) == joblib.hash(ben)


@pytest.mark.parametrize(
    "terms",
    [
        {"epsilon": 1.5, "delta": 1e-6, "accountant": "gdp", "separate_delta": 1e-7},
        {"epsilon": 2.0, "adjacency": "add_or_remove_one", "unit": "user_id"},
        {"epsilon": 2.0, "delta": 0.2, "accountant": "pld", "plans": [(0.5, 0.1), (1.5, 0.1)]},
        {"epsilon": 1.0, "dataset": "patients", "n_rows": [500]},
    ],
)
def test_open_states_what_the_ledger_was_made_with(path, terms):
    made, opened = PrivacyBudget(ledger=path, **terms), PrivacyBudget.open(path)
    for name in ("epsilon", "delta", "accountant", "adjacency", "unit", "separate_delta", "dataset",
                 "n_rows", "ledger"):  # fmt: skip
        assert getattr(made, name) == getattr(opened, name)
    assert made._terms == opened._terms


def test_open_makes_no_ledger_and_a_note_is_a_text(path):
    with pytest.raises(LedgerError, match="must exist"):
        PrivacyBudget.open(path)
    assert not path.exists()
    for call in (lambda: PrivacyBudget(1.0, note=3), lambda: PrivacyBudget(1.0, note=None)):
        with pytest.raises(TypeError, match="note must be a str"):
            call()
