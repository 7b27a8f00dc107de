"""The files of a ledger: pipes and devices, damage of every kind, backups, and many charges."""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import os
import random
import socket
import sqlite3
import subprocess
import sys
import threading
import time

import pytest

from skdp import ledger
from skdp.budget import Cost, PrivacyBudget, schema
from skdp.exceptions import LedgerError, SealedBudgetError
from skdp.loss.conversions import Amount, decimal_text
from tests.budget.test_growth import make_old


def bind(path):
    with contextlib.chdir(os.path.dirname(path)):  # names of sockets are short
        socket.socket(socket.AF_UNIX).bind(os.path.basename(path))


def link_to_a_pipe(path):
    os.mkfifo(path + ".pipe")
    os.symlink(path + ".pipe", path)


STRANGE = {
    "a pipe": os.mkfifo,
    "a folder": os.mkdir,
    "a socket": bind,
    "a device": lambda path: os.symlink("/dev/zero", path),
    "a link to a pipe": link_to_a_pipe,
}

ACTS = """
import sys, time
from skdp import ledger
from skdp.budget import Cost, PrivacyBudget
for line in sys.stdin:
    path = line.strip().removesuffix("?")
    budget = PrivacyBudget.open(path) if line.strip() == path else None
    print("go", flush=True)
    sys.stdin.readline()
    acts = {
        "open": lambda: PrivacyBudget.open(path),
        "make": lambda: PrivacyBudget(1.0, ledger=path, dataset="x"),
        "second": lambda: PrivacyBudget(1.0, ledger=path + ".second", dataset="x") and 1 / 0,
        "show": lambda: 1 / 0 if ledger.main(["show", path]) == 2 else None,
    }
    if budget is not None:
        acts |= {
            "charge": lambda: budget.charge(Cost(0.1), estimator="x"),
            "backup": lambda: budget.backup(path + ".copy"),
            "repr": lambda: (repr(budget), budget._repr_html_(), 1 / 0),
        }
    for name, act in acts.items():
        started = time.monotonic()
        try:
            act()
            error = "none"
        except Exception as caught:
            error = type(caught).__name__
        print(name, error, time.monotonic() - started, sep=",", flush=True)
    print("done", flush=True)
"""


@contextlib.contextmanager
def killed_after(child, seconds):
    timer = threading.Timer(seconds, child.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def test_what_is_no_plain_file_is_refused_at_once(tmp_path):
    """By a process that does not know the ledger yet, and by one that has it open."""
    command = [sys.executable, "-c", ACTS]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, bufsize=1, **pipes) as child:
        for known, suffix in itertools.product((False, True), ("", ".lock", "-journal", "-wal")):
            for kind in STRANGE if not suffix else ("a pipe", "a device"):
                path = str(tmp_path / f"{known}{suffix}{kind}".replace(" ", "") / "a.budget")
                os.mkdir(os.path.dirname(path))
                if known:
                    PrivacyBudget(1.0, ledger=path).charge(Cost(0.1), estimator="x")
                child.stdin.write(f"{path}{'' if known else '?'}\n")
                assert child.stdout.readline() == "go\n"
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path + suffix)
                STRANGE[kind](path + suffix)
                child.stdin.write("\n")
                with killed_after(child, 60):
                    lines = list(itertools.takewhile(len, iter(child.stdout.readline, "done\n")))
                assert child.poll() is None, f"{kind} as {suffix or 'the ledger'} hangs"
                assert len(lines) == (7 if known else 4)
                for name, error, seconds in (line.strip().split(",") for line in lines):
                    fine = {"LedgerError", "SealedBudgetError"}
                    if name in ("second", "show", "repr"):
                        fine = {"ZeroDivisionError"}
                    assert error in fine, (kind, suffix, name, error)
                    assert float(seconds) < 5, (kind, suffix, name)  # 1 on an idle machine


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest(), os.stat(path).st_mtime_ns


def test_a_backup_leaves_its_source_as_it_is(tmp_path):
    path, copy = tmp_path / "old.budget", tmp_path / "copy.budget"
    make_old(path, [(0.1, 0.0), (0.2, 1e-7)])
    before = digest(path)
    assert ledger.main(["backup", str(path), str(copy)]) == 0
    assert digest(path) == before
    with contextlib.closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone()[0] == schema.FORMAT
        stated = connection.execute("SELECT backup_of FROM ledger").fetchone()
    assert stated == (str(path),)
    assert ledger.main(["backup", str(path), str(copy)]) == 0  # an earlier backup is replaced
    unpickle = PrivacyBudget(1.0).__reduce__()[0]
    budget = unpickle(str(path), "old", 5.0, 1e-5, "replace_one", "basic", 0.0)
    with pytest.raises(LedgerError, match="own backup"):
        budget.backup(path)


def commands(path):
    for words in (["show"], ["show", "--all"], ["verify"], ["export"]):
        yield [*words, path]
    yield ["export", "--format", "html", path]
    yield ["backup", path, path + ".copy"]


def said(command):
    """Run a command; return its status and what it wrote."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = ledger.main(command)
    return status, out.getvalue(), err.getvalue()


def check(path, what):
    """Check that each command says in one line what is wrong, or gives a verdict."""
    for command in commands(path):
        started = time.monotonic()
        status, out, err = said(command)
        if status == 2:
            assert out == "" and err.endswith("\n") and err.count("\n") == 1, (what, command, err)
        else:
            assert status in ((0, 1) if command[0] == "verify" else (0,)), (what, command)
            assert err == "" and (out or command[0] == "backup"), (what, command, err)
        assert time.monotonic() - started < 20, (what, command)
    with contextlib.suppress(OSError):
        os.unlink(path + ".copy")


def ledgers(folder):
    for accountant in ("basic", "gdp", "gdp_residue", "pld"):
        path = folder / f"{accountant}.budget"
        budget = PrivacyBudget(5.0, 1e-5, ledger=path, accountant=accountant, dataset=accountant)
        with budget.reserve(Cost(0.5), note="plan"):
            budget.charge(Cost(0.5), estimator="A", note="n")
        if accountant != "pld":
            budget.charge(Cost(0.01), estimator="B", releases=[{"name": "mean"}])
        yield path.read_bytes()


def damaged(data, rng):
    """Return a file with some bytes changed, lost, or more."""
    found = bytearray(data)
    kind = rng.choice(["bit", "bytes", "cut", "zeros", "more", "header", "text", "pages"])
    if kind == "bit":
        found[rng.randrange(len(found))] ^= 1 << rng.randrange(8)
    elif kind == "bytes":
        for _ in range(rng.randrange(2, 200)):
            found[rng.randrange(len(found))] = rng.randrange(256)
    elif kind == "cut":
        found = found[: rng.randrange(len(found))]
    elif kind == "zeros":
        start = rng.randrange(len(found))
        found[start : start + 4096] = bytes(len(found[start : start + 4096]))
    elif kind == "more":
        found += rng.randbytes(rng.randrange(5000))
    elif kind == "header":
        found[rng.randrange(100)] = rng.randrange(256)
    elif kind == "text":
        for word in (b"CREATE", b"charges", b"null", b"[[", b"2026", b"TEXT"):
            at = found.find(word)
            if at >= 0 and rng.random() < 0.5:
                found[at + rng.randrange(2)] = rng.randrange(256)
    else:
        one, other = (4096 * rng.randrange(len(found) // 4096) for _ in range(2))
        pages = found[one : one + 4096], found[other : other + 4096]
        found[other : other + 4096], found[one : one + 4096] = pages
    return kind, bytes(found)


@pytest.mark.parametrize("seed", range(2))
def test_a_damaged_file_is_told_in_one_line(tmp_path, seed):
    rng, path = random.Random(seed), str(tmp_path / "x.budget")
    contents = list(ledgers(tmp_path))
    for turn in range(120):
        kind, found = damaged(rng.choice(contents), rng)
        with open(path, "wb") as file:
            file.write(found)
        check(path, (seed, turn, kind))
        with open(path, "rb") as file:
            assert file.read() == found  # nothing that reads has changed it


ODD = [
    None, b"\x00\xff", "", "x", -1, 2**63 - 1, 1e308, "nan", "1e999", "9" * 5000, "[]", "[1]",
    "[[1]]", "[[1,0.1,0,null,0]]", "[[0.5,0.1,0,null,0]]", "[[1,1e400,0,null,0]]", "[" * 100_000,
    "{}", "null", "pld", "zcdp", "\n\x1b[2J", "2026-13-45", "[[-1,0.1,0,null,0]]", "0", 0,
    "[[1,true,0,null,0]]", '[[1,"x",0,null,0]]', "[[1,0.1,0,1e308,0]]", "[[5.0,1e-5],[1,1]]",
]  # fmt: skip


@pytest.mark.parametrize("seed", range(2))
def test_a_ledger_with_odd_cells_or_tables_is_told_in_one_line(tmp_path, seed):
    rng, path = random.Random(seed), str(tmp_path / "x.budget")
    contents = list(ledgers(tmp_path))
    for turn in range(120):
        with open(path, "wb") as file:
            file.write(rng.choice(contents))
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            query = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
            table = rng.choice([row[0] for row in connection.execute(query)])
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            column, endless = rng.choice(columns), "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL"
            statement = rng.choice(
                6 * [f"UPDATE {table} SET {column} = ?"]
                + [
                    f"DROP TABLE {table}",
                    f"DELETE FROM {table}",
                    f"ALTER TABLE {table} RENAME COLUMN {column} TO other",
                    f"INSERT INTO {table} SELECT * FROM {table}",
                    f"PRAGMA user_version = {rng.choice([0, -1, 1, 2, 3, 5, 2**31 - 1])}",
                    f"CREATE TRIGGER t AFTER UPDATE ON {table} BEGIN DELETE FROM {table}; END",
                    f"CREATE VIEW v AS {endless} SELECT x + 1 FROM r) SELECT x FROM r",
                ]
            )
            values = (rng.choice(ODD),) if "?" in statement else ()
            with contextlib.suppress(sqlite3.Error):
                connection.execute(statement, values)
        check(path, (seed, turn, statement, values))
        with contextlib.suppress(LedgerError, SealedBudgetError, ValueError):
            budget = PrivacyBudget.open(path)
            repr(budget), budget._repr_html_()
            budget.charge(Cost(0.001), estimator="x")


@pytest.mark.parametrize("cells", ["components = 'null'", "components = '[[['", "at = X'ff'"])
def test_damaged_reservations_are_not_given_back(tmp_path, cells):
    path = tmp_path / "x.budget"
    reservation = PrivacyBudget(1.0, ledger=path).reserve(Cost(0.5))
    with reservation:
        with contextlib.closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(f"UPDATE reservations SET {cells}")
        status, out, err = said(["release", str(path), "--all"])
        assert (status, out, err.count("\n")) == (2, "", 1)
        with contextlib.closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("DELETE FROM reservations")


def test_a_refused_backup_leaves_nothing_beside_the_other_file(tmp_path):
    budget = PrivacyBudget(1.0, ledger=tmp_path / "a.budget")
    (tmp_path / "photo").write_bytes(b"no ledger")
    with pytest.raises(LedgerError, match="never replaces"):
        budget.backup(tmp_path / "photo")
    assert not (tmp_path / "photo.lock").exists()


def test_what_is_printed_fits_any_terminal_and_may_be_cut_off(tmp_path):
    path = tmp_path / "a.budget"
    PrivacyBudget(1.0, ledger=path, note="Größe").charge(Cost(0.5), estimator="x")
    words = [sys.executable, "-m", "skdp.ledger", "show", str(path)]
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(words, capture_output=True, env=ascii_only)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"Gr\\xf6" in done.stdout
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        child.stdout.close()
        assert (child.stderr.read(), child.wait(60)) == (b"", 0)


@pytest.mark.parametrize("command", ["show", "verify", "export", "backup"])
def test_what_is_no_ledger_is_told_in_one_line(tmp_path, command):
    (tmp_path / "empty").touch()
    (tmp_path / "random").write_bytes(random.Random(0).randbytes(10_000))
    (tmp_path / "text").write_text("epsilon = 1\n" * 1000)
    with contextlib.closing(sqlite3.connect(tmp_path / "other")) as connection:
        connection.executescript("CREATE TABLE ledger (x); PRAGMA application_id = 7;")
    os.mkfifo(tmp_path / "pipe")
    for name in ("empty", "random", "text", "other", "pipe", "no such file", ".", "a/b", "\0", ""):
        path = str(tmp_path / name) if name else ""
        status, out, err = said([command, path] + [str(tmp_path / "copy")] * (command == "backup"))
        assert (status, out, err.count("\n")) == (2, "", 1), (name, err)


# --- many charges ---------------------------------------------------------------------------------


def fill(budget, n):
    """Write n charges of different prices, as if each had been made."""
    accountant, total = budget._account.accountant, Amount()
    with budget._ledger._transaction(write=True) as connection:
        for number in range(1, n + 1):
            cost = Cost(1e-3 + number * 1e-9)
            price = accountant.price(cost)
            total = total + price
            row = {
                "number": number, "at": "2026-01-01T00:00:00+00:00", "pid": 1, "estimator": "x",
                "components": schema.components_json(cost), "seeded": 0, "releases": "[{}]",
                "note": "", "main": decimal_text(price.main), "apart": decimal_text(price.separate),
                "skdp_version": "0",
            }  # fmt: skip
            schema.insert(connection, "charges", row)
        schema.Totals(n, total, Amount()).write(connection)
        budget._ledger._commit(connection)


def counted(monkeypatch, act):
    """Return how many charges an act reads the price of."""
    read, real = [], schema.singles_of

    def singles_of(text):
        read.append(text)
        return real(text)

    monkeypatch.setattr(schema, "singles_of", singles_of)
    act()
    monkeypatch.setattr(schema, "singles_of", real)
    return len(read)


@pytest.mark.parametrize("accountant", ["basic", "gdp", "gdp_residue", "zcdp"])
def test_shown_values_read_the_last_charges_alone(tmp_path, monkeypatch, accountant):
    path = tmp_path / "a.budget"
    terms = {} if accountant == "basic" else {"accountant": accountant}
    fill(PrivacyBudget(1e4, 1e-2, ledger=path, **terms), 2_000)
    budget = PrivacyBudget(1e4, 1e-2, ledger=path, **terms)
    plain = accountant == "gdp_residue"  # whose sum needs every price once, when it is opened
    assert counted(monkeypatch, lambda: repr(budget)) == 0
    assert counted(monkeypatch, lambda: budget.spent) == 0
    assert counted(monkeypatch, lambda: budget._repr_html_()) <= 100
    assert counted(monkeypatch, lambda: ledger.show(path)) <= 100 + 2_000 * plain
    html = budget._repr_html_()
    assert "2000 charges, the last 50 of them" in html and html.count("<tr>") == 51
    before = budget.spent
    for _ in range(3):
        budget.charge(Cost(0.5), estimator="y")
    assert budget.spent.epsilon > before.epsilon
    assert budget.spent == PrivacyBudget(1e4, 1e-2, ledger=path, **terms).spent
    assert ledger.verified(path)[0]


def test_the_pages_of_a_ledger(tmp_path, capsys):
    path = tmp_path / "a.budget"
    fill(PrivacyBudget(1e4, ledger=path), 120)

    def numbers(*words):
        assert ledger.main(["show", str(path), *words]) == 0
        lines = capsys.readouterr().out.splitlines()
        return [int(line.split()[0]) for line in lines if " x " in line]

    assert numbers() == numbers("--page", "1") == list(range(71, 121))
    assert numbers("--page", "2") == list(range(21, 71))
    assert numbers("--page", "3") == list(range(1, 21))
    assert numbers("--page", "4") == []
    assert numbers("--all") == list(range(1, 121))


def test_a_busy_file_is_waited_for_in_python(tmp_path, monkeypatch):
    """SQLite's own wait is in C, where Ctrl-C does not reach it."""
    path = tmp_path / "a.budget"
    budget = PrivacyBudget(3.0, ledger=path)
    waits = []
    monkeypatch.setattr("time.sleep", waits.append)
    budget._ledger.timeout = 0.2
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(LedgerError, match="locked by another process"):
            budget.charge(Cost(1.0), estimator="x")
    assert waits
