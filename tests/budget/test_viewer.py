"""``python -m skdp.ledger``: what it shows of a ledger, what it finds wrong; it only reads."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys

import pytest

from skdp import ledger
from skdp.budget import Cost, PrivacyBudget
from skdp.exceptions import LedgerError

BUDGETS = {
    "basic": {},
    "gdp": {"accountant": "gdp", "separate_delta": 1e-7},
    "gdp_residue": {"accountant": "gdp_residue", "separate_delta": 1e-7},
    "zcdp": {"accountant": "zcdp", "separate_delta": 1e-7},
    "pld": {"accountant": "pld", "plans": [(3.0, 5e-7), (2.0, 5e-7)]},
}


def make(path, accountant="basic"):
    """Make a ledger with four charges, a closed reservation, and an open one."""
    budget = PrivacyBudget(5.0, 1e-6, ledger=path, dataset="trips", **BUDGETS[accountant])
    costs = [Cost(0.1), Cost(0.2, 1e-7, mu=0.02), Cost(0.1), Cost(0.3, 1e-8)]
    with budget.reserve([*costs, Cost(0.1)], note="<b>four\x1b[31m fits</b>"):
        for cost in costs:
            budget.charge(cost, estimator="DPPCA", releases=[{"name": "mean", "share": 0.5}])
    budget.reserve(Cost(0.05)).__enter__()
    return budget


@pytest.fixture(params=list(BUDGETS))
def path(request, tmp_path):
    found = tmp_path / "a.budget"
    make(found, request.param)
    return found


def change(path, statement):
    with sqlite3.connect(path) as connection:
        connection.execute(statement)
    connection.close()


def test_a_ledger_is_shown(path):
    text = ledger.show(path)
    assert "data set trips" in text
    assert text.count("DPPCA") == 4
    assert "<b>four\\x1b[31m fits</b>" in text  # and no escape for the terminal
    assert "\x1b" not in text


def test_a_sound_ledger_is_found_sound_and_what_nobody_knows_is_said(path):
    sound, text = ledger.verified(path)
    assert sound, text
    assert "wrong" not in text
    assert "an older copy" in text
    assert "no budget" in text


def test_an_export_holds_everything_but_tokens(path):
    whole = json.loads(ledger.export_json(path))
    assert [charge["estimator"] for charge in whole["charges"]] == ["DPPCA"] * 4
    assert whole["charges"][1]["components"][0]["mu"] == 0.02
    assert whole["charges"][0]["releases"] == [{"name": "mean", "share": 0.5}]
    assert [one["open"] for one in whole["reservations"]] == [False, True]
    assert whole["ledger"]["format"] == 4
    assert "token" not in json.dumps(whole)
    page = ledger.export_html(path)
    assert page.startswith("<!DOCTYPE html>")
    assert "&lt;b&gt;four" in page
    assert "<script" not in page


def test_nothing_is_written(path):
    before = path.read_bytes()
    for act in (ledger.show, ledger.verified, ledger.export_json, ledger.export_html):
        act(path)
    assert path.read_bytes() == before
    assert sorted(os.listdir(path.parent)) == ["a.budget", "a.budget.lock"]


WRONG = {
    "a charge is gone": ("DELETE FROM charges WHERE number = 2", "missing"),
    "a charge is cheaper": ("UPDATE charges SET main = '0' WHERE number = 1", ""),
    "less is said to be spent": ("UPDATE totals SET charged_main = '0.001'", "totals"),
    "less is set aside": ("UPDATE totals SET aside_main = '0'", "totals"),
    "the last charge is gone from the totals": ("UPDATE totals SET charges = 3", "totals"),
    "no number": ("UPDATE charges SET apart = 'x' WHERE number = 4", ""),
    "no releases": ("UPDATE charges SET releases = 'none' WHERE number = 4", "releases"),
    "releases that are none": ("UPDATE charges SET releases = '[1]' WHERE number = 4", "releases"),
    "no price": ("UPDATE charges SET components = '[[' WHERE number = 4", "read"),
}


@pytest.mark.parametrize("what", list(WRONG))
def test_what_was_changed_is_found(path, what):
    statement, word = WRONG[what]
    change(path, statement)
    sound, text = ledger.verified(path)
    assert not sound
    assert any(line.startswith("wrong") and word in line for line in text.splitlines())


@pytest.mark.parametrize("accountant", [name for name in BUDGETS if name != "pld"])
def test_a_price_that_is_not_that_of_its_components_is_found(tmp_path, accountant):
    path = tmp_path / "a.budget"
    make(path, accountant)
    change(path, "UPDATE charges SET components = '[[1, 0.9, 0.0, null, 0.0]]' WHERE number = 3")
    sound, text = ledger.verified(path)
    assert not sound
    assert "#3" in text


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE items SET unused = 2 WHERE plan = 1 AND kind = '[\"pure\", 0.1]'",
        "DELETE FROM draws WHERE charge = 3",
        "UPDATE plans SET part = 1",
        "UPDATE reservations SET components = '[[9, 0.3, 0.0, null, 0.0]]' WHERE number = 1",
    ],
)
def test_a_plan_that_was_changed_is_found(tmp_path, statement):
    path = tmp_path / "a.budget"
    make(path, "pld")
    change(path, statement)
    assert not ledger.verified(path)[0]


def test_what_a_reader_should_know_is_noted(tmp_path):
    path = tmp_path / "a.budget"
    budget = PrivacyBudget(5.0, ledger=path)
    budget.charge(Cost(0.1), estimator="A", seeded=True)
    change(path, "UPDATE charges SET at = '2999-01-01T00:00:00+00:00'")
    budget.charge(Cost(0.1), estimator="A")
    budget.backup(tmp_path / "b.budget")
    sound, text = ledger.verified(tmp_path / "b.budget")
    assert sound
    for word in ("seeded", "clock", "no release", "backup of", "charged by skdp"):
        assert word in text


def test_a_ledger_of_an_earlier_format_is_shown_as_it_is(tmp_path):
    path = tmp_path / "a.budget"
    make(path)
    for table in ("plans", "items", "draws"):
        change(path, f"DROP TABLE {table}")
    change(path, "ALTER TABLE ledger DROP COLUMN plans")
    change(path, "ALTER TABLE ledger DROP COLUMN unit")
    change(path, "PRAGMA user_version = 2")
    before = path.read_bytes()
    sound, text = ledger.verified(path)
    assert sound
    assert "format 2" in text
    assert path.read_bytes() == before
    change(path, "PRAGMA user_version = 9")
    with pytest.raises(LedgerError, match="format 9"):
        ledger.show(path)


def test_many_charges_are_counted(tmp_path):
    path = tmp_path / "a.budget"
    budget = PrivacyBudget(500.0, ledger=path)
    for _ in range(52):
        budget.charge(Cost(0.1), estimator="DPPCA")
    assert "52 charges, the last 50 of them" in ledger.show(path)
    assert ledger.show(path).count("DPPCA") == 50
    assert ledger.show(path, every=True).count("DPPCA") == 52


def test_a_long_plan_is_shown_in_part(tmp_path):
    path = tmp_path / "a.budget"
    budget = PrivacyBudget(5.0, 1e-6, ledger=path, accountant="pld")
    with budget.reserve([Cost(round(0.01 + i / 1000, 3)) for i in range(25)]):
        budget.charge(Cost(0.02), estimator="A")
    assert "and 5 other prices" in ledger.show(path)
    assert ledger.verified(path)[0]


def test_the_commands(tmp_path, capsys):
    path, copy = tmp_path / "a.budget", tmp_path / "copy.budget"
    make(path)
    assert ledger.main(["show", str(path)]) == 0
    assert capsys.readouterr().out == ledger.show(path)
    assert ledger.main(["export", str(path)]) == 0
    json.loads(capsys.readouterr().out)
    assert ledger.main(["export", str(path), "--format", "html"]) == 0
    assert "<table" in capsys.readouterr().out
    assert ledger.main(["backup", str(path), str(copy)]) == 0
    assert ledger.main(["verify", str(copy)]) == 0
    assert "backup of" in capsys.readouterr().out
    change(copy, "UPDATE charges SET main = '0' WHERE number = 1")
    assert ledger.main(["verify", str(copy)]) == 1
    text = tmp_path / "text"
    text.write_text("x" * 100)
    for bad in (tmp_path / "nothing", text, tmp_path):
        capsys.readouterr()
        assert ledger.main(["show", str(bad)]) == 2
        assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.slow
def test_the_module_is_a_program_and_a_backup_is_whole_while_others_charge(tmp_path):
    path, copy = tmp_path / "a.budget", tmp_path / "copy.budget"
    budget = PrivacyBudget(1000.0, ledger=path)
    command = [sys.executable, "-m", "skdp.ledger", "backup", str(path), str(copy)]
    process = subprocess.Popen(command)
    while process.poll() is None:
        budget.charge(Cost(0.1), estimator="A")
    assert process.returncode == 0
    assert ledger.verified(copy)[0]


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_ledger_that_may_only_be_read_is_shown(tmp_path):
    folder = tmp_path / "read_only"
    folder.mkdir()
    make(folder / "a.budget")
    (folder / "a.budget.lock").unlink()
    os.chmod(folder / "a.budget", 0o444)
    os.chmod(folder, 0o555)
    try:
        assert "DPPCA" in ledger.show(folder / "a.budget")
    finally:
        os.chmod(folder, 0o755)


@pytest.mark.parametrize(
    "change_to",
    ["components = '[[1, -5.0, 0.0, null, 0.0]]'", "at = 'yesterday'", "releases = 'x'"],
)
def test_a_row_that_cannot_be_read_is_an_error_of_the_ledger(tmp_path, change_to, capsys):
    found = tmp_path / "a.budget"
    make(found)
    change(found, f"UPDATE charges SET {change_to} WHERE number = 1")
    for command in ("show", "export"):
        assert ledger.main([command, str(found)]) == 2
    assert "a row of it cannot be read" in capsys.readouterr().err


# --- giving back what lost processes reserved ----------------------------------------------------


RUN = """
import contextlib, io, json, sys
from skdp import ledger

done = []
for command in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = ledger.main(command)
        except SystemExit as error:
            status = error.code
    done.append([status, out.getvalue(), err.getvalue()])
print(json.dumps(done))
"""


def run(*commands):
    """Run commands of the program, one after the other, in another process."""
    words = json.dumps([[str(word) for word in command] for command in commands])
    done = subprocess.run(
        [sys.executable, "-c", RUN, words], capture_output=True, text=True, timeout=120, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("path", ["basic", "pld"], indirect=True)
def test_an_open_reservation_is_listed_and_given_back(path):
    budget = PrivacyBudget.open(path)
    before, spent = budget.remaining, budget.spent
    assert [one.number for one in budget.reservations if one.open] == [2]
    line = next(one for one in ledger.show(path).splitlines() if "open for" in one)
    assert line.split()[0] == "2"
    assert str(os.getpid()) in line
    closed, given_back, none = run(
        ("release", path, 1), ("release", path, 2), ("release", path, "--all")
    )
    assert closed[:2] == [2, ""]
    assert "no open reservation 1" in closed[2]
    assert given_back[0] == 0
    assert f"reservation 2 of process {os.getpid()}" in given_back[1]
    assert none[1] == "No reservation is open.\n"
    assert not any(one.open for one in budget.reservations)
    assert budget.spent == spent  # nothing is refunded
    assert before.epsilon <= budget.remaining.epsilon
    assert budget.remaining.epsilon + spent.epsilon <= 5.0 or budget.accountant != "basic"
    assert ledger.verified(path)[0]


def test_all_reservations_are_given_back_and_old_ones_are_still_shown(tmp_path):
    budget = PrivacyBudget(5.0, ledger=tmp_path / "a.budget")
    held = [budget.reserve(Cost(0.25)) for _ in range(3)]
    for one in held:
        one.__enter__()
    for _ in range(60):
        with budget.reserve(Cost(0.25)):
            pass
    text = ledger.show(tmp_path / "a.budget")
    assert text.count("open for") == 3
    assert "63 reservations" in text
    bad = ("release", "x"), ("release", "x", "1", "--all"), ("release", "x", "one")
    (status, out, _), *refused = run(("release", tmp_path / "a.budget", "--all"), *bad)
    assert status == 0
    assert [one[0] for one in refused] == [2, 2, 2]
    assert out.count("was given back") == 3
    assert budget.remaining.epsilon == 5.0
    held[0].__exit__(None, None, None)  # its process finds that it was given back
    assert budget.remaining.epsilon == 5.0
