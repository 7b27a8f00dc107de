"""The ledger file: reopening, files that are no ledger, permissions, locks, full disks."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sqlite3
import stat
import tempfile
import time
from pathlib import Path

import pytest

from skdp import DPStandardScaler
from skdp.budget import Cost, PrivacyBudget, PrivacyLoss
from skdp.budget import ledger as ledger_module
from skdp.exceptions import BudgetExceededError, LedgerError, SealedBudgetError
from tests.folding import each

# An ordinary user, for the tests of permissions when they are run as root, whom none bind.
NOBODY = 65534


def spend(budget, epsilon=1.0):
    return budget.charge(Cost(epsilon), estimator="Fake")


def path_of(budget):
    return Path(budget.__reduce__()[1][0])


def in_child(function):
    """Run `function` in a forked child; return the text it returns."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write, function().encode())
        except BaseException as error:
            os.write(write, f"unexpected {error!r}".encode())
        finally:
            os._exit(0)
    os.close(write)
    with open(read, "rb") as pipe:
        text = pipe.read().decode()
    os.waitpid(pid, 0)
    return text


def as_ordinary_user(function):
    """Run `function` in a forked child without root's rights; return the text it returns."""

    def without_rights():
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        return function()

    return in_child(without_rights)


@pytest.fixture
def open_folder():
    """Make a folder that every user may enter, unlike pytest's tmp_path."""
    folder = Path(tempfile.mkdtemp(prefix="skdp-test-"))
    folder.chmod(0o777)
    yield folder
    folder.chmod(0o777)
    shutil.rmtree(folder)


# -- reopening --------------------------------------------------------------------------------


def test_spent_stays_spent(tmp_path):
    path = tmp_path / "a b#?%20ü.budget"
    budget = PrivacyBudget(3.0, 1e-6, ledger=path)
    spend(budget, 2.5)
    again = PrivacyBudget(3.0, 1e-6, ledger=str(path))
    assert again is not budget
    assert again.spent == PrivacyLoss(2.5, 0.0)
    assert again.charges == budget.charges
    with pytest.raises(BudgetExceededError):
        spend(again)
    spend(again, 0.5)
    assert budget.remaining.epsilon == 0
    assert sorted(os.listdir(tmp_path)) == [path.name, path.name + ".lock"]


def test_a_relative_path_is_fixed_when_the_budget_is_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    budget = PrivacyBudget(3.0, ledger="a.budget")
    monkeypatch.chdir("/")
    spend(budget)
    assert path_of(budget) == (tmp_path / "a.budget").resolve()
    assert budget.ledger == str((tmp_path / "a.budget").resolve())
    assert repr(budget.ledger) in repr(budget)
    assert PrivacyBudget(3.0, ledger=tmp_path / "a.budget").spent.epsilon == 1


def test_a_link_leads_to_the_same_ledger(tmp_path):
    budget = PrivacyBudget(3.0, ledger=tmp_path / "a.budget")
    (tmp_path / "link").symlink_to(tmp_path / "a.budget")
    spend(PrivacyBudget(3.0, ledger=tmp_path / "link"))
    assert budget.spent.epsilon == 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"epsilon": 4.0}, r"made with epsilon=3\.0, not 4\.0\."),
        ({"delta": 1e-5}, r"made with delta=1e-06, not 1e-05\."),
        ({"adjacency": "add_or_remove_one"}, "made with adjacency=replace_one, not add_or"),
        (
            {"accountant": "basic", "separate_delta": 0},
            "made with accountant=gdp, not basic; separate_delta",
        ),
        ({"separate_delta": 2e-7}, "made with separate_delta=1e-07, not 2e-07"),
    ],
)
def test_reopening_with_other_terms_names_them(tmp_path, changed, message):
    terms = {"epsilon": 3.0, "delta": 1e-6, "accountant": "gdp", "separate_delta": 1e-7}
    PrivacyBudget(**terms, ledger=tmp_path / "a.budget")
    with pytest.raises(ValueError, match=message):
        PrivacyBudget(**{**terms, **changed}, ledger=tmp_path / "a.budget")


def test_two_processes_that_create_the_same_ledger_share_it(tmp_path, monkeypatch):
    path = tmp_path / "a.budget"
    create = ledger_module.Ledger.create

    def slow(cls_path, terms, facts):
        if not path.exists():  # another process is faster, between the look and the creation
            other = create(str(path), terms, facts)
            assert other.present()
        return create(cls_path, terms, facts)

    monkeypatch.setattr(ledger_module.Ledger, "create", slow)
    budget = PrivacyBudget(3.0, ledger=path)
    spend(budget)
    assert PrivacyBudget(3.0, ledger=path).spent.epsilon == 1
    assert sorted(os.listdir(tmp_path)) == [path.name, path.name + ".lock"]


def test_a_file_system_without_hard_links(tmp_path, monkeypatch):
    def no_link(*args):
        raise PermissionError

    monkeypatch.setattr(os, "link", no_link)
    path = tmp_path / "a.budget"
    spend(PrivacyBudget(3.0, ledger=path))
    assert PrivacyBudget(3.0, ledger=path).spent.epsilon == 1
    draft = tmp_path / "draft"
    draft.touch()
    with pytest.raises(FileExistsError):  # never replaces a ledger
        ledger_module.publish(str(draft), str(path))


def test_a_temporary_ledger_is_private_to_its_owner():
    assert stat.S_IMODE(path_of(PrivacyBudget(1.0)).stat().st_mode) == 0o600


@each("accountant", ["basic", "zcdp"])
def test_a_charge_is_one_transaction_and_a_fit_writes_one_more(tmp_path, monkeypatch, accountant):
    """Each costs five syncs of the disk; reading costs none."""
    path, connect = tmp_path / "a.budget", ledger_module.Ledger._connect
    terms = {"delta": 1e-6, "separate_delta": 1e-7, "accountant": accountant}
    budget = PrivacyBudget(9.0, ledger=path, **terms if accountant != "basic" else {})
    statements = []

    def traced(ledger, mode):
        connection = connect(ledger, mode)
        connection.set_trace_callback(statements.append)
        return connection

    monkeypatch.setattr(ledger_module.Ledger, "_connect", traced)

    def commits(act):
        statements.clear()
        act()
        assert not any("journal_mode" in one for one in statements)
        assert any("synchronous = EXTRA" in one for one in statements)
        return statements.count("COMMIT")

    assert commits(lambda: budget.charge(Cost(0.5), estimator="Fake")) == 1
    with budget.reserve(Cost(0.5)):  # drawing from what is set aside is no second one
        assert commits(lambda: budget.charge(Cost(0.25), estimator="Fake")) == 1
    # The second describes what was released: known, and written, after the noise is drawn.
    scaler = DPStandardScaler(epsilon=0.5, bounds=(0, 1), budget=budget)
    assert commits(lambda: scaler.fit([[0.0], [1.0]])) == 2
    assert commits(lambda: (budget.spent, budget.remaining, budget.charges)) == 0


def test_commits_are_durable(tmp_path):
    budget = PrivacyBudget(1.0, ledger=tmp_path / "a.budget")
    with budget._ledger._transaction(write=True) as connection:
        assert connection.execute("PRAGMA synchronous").fetchone()[0] == 3  # EXTRA
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "delete"


# -- files that are no ledger -----------------------------------------------------------------


def other_database(path):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE ledger (id TEXT)")
    connection.commit()
    connection.close()


BAD_FILES = {
    "a text": lambda path: path.write_text("epsilon = 3\n" * 200),
    "empty": lambda path: path.touch(),
    "another database": other_database,
    "a directory": lambda path: path.mkdir(),
    "a pipe": os.mkfifo,
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_a_file_that_is_no_ledger_is_refused_and_left_alone(tmp_path, kind):
    path = tmp_path / "x"
    BAD_FILES[kind](path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(LedgerError, match="ledger must be"):
        PrivacyBudget(3.0, ledger=path)
    assert before is None or path.read_bytes() == before
    assert os.listdir(tmp_path) == ["x"]


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(LedgerError, match="directory that exists"):
        PrivacyBudget(3.0, ledger=tmp_path / "no" / "a.budget")


def test_a_ledger_of_a_later_format(tmp_path):
    budget = PrivacyBudget(3.0, ledger=tmp_path / "a.budget")
    with sqlite3.connect(tmp_path / "a.budget") as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(LedgerError, match="format 99"):
        spend(budget)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b"SQLite format 3\0" + b"\xff" * 4096),
        lambda path: path.write_bytes(path.read_bytes()[:5000]),
        lambda path: path.write_bytes(b""),
    ],
)
def test_a_damaged_ledger_grants_nothing(tmp_path, damage):
    path = tmp_path / "a.budget"
    budget = PrivacyBudget(3.0, ledger=path)
    damage(path)
    with pytest.raises((LedgerError, SealedBudgetError)):
        spend(budget)
    with pytest.raises(LedgerError):
        PrivacyBudget(3.0, ledger=path)


@each("column", ["charges.main", "totals.charged_main", "totals.aside_apart"])
@each("amount", ["one", "-1", "1/0", "1e-99999999999", b"1"])
def test_a_damaged_amount_grants_nothing(tmp_path, amount, column):
    budget = PrivacyBudget(3.0, ledger=tmp_path / "a.budget")
    spend(budget)
    with sqlite3.connect(tmp_path / "a.budget") as connection:
        connection.execute(
            f"UPDATE {column.partition('.')[0]} SET {column.partition('.')[2]} = ?", (amount,)
        )
    connection.close()
    with pytest.raises(LedgerError, match="is damaged"):
        PrivacyBudget(3.0, ledger=tmp_path / "a.budget")
    if column.startswith("totals"):
        with pytest.raises(LedgerError, match="is damaged"):
            spend(budget)


def test_a_ledger_that_is_gone_or_was_replaced_seals_the_budget(tmp_path):
    budget = PrivacyBudget(3.0, ledger=tmp_path / "a.budget")
    spend(budget)
    os.rename(tmp_path / "a.budget", tmp_path / "b.budget")
    for call in (lambda: spend(budget), lambda: budget.check(Cost(1.0)), lambda: budget.spent):
        with pytest.raises(SealedBudgetError, match="not there"):
            call()
    assert budget.sealed
    PrivacyBudget(3.0, ledger=tmp_path / "a.budget")  # somebody starts afresh at the same place
    with pytest.raises(SealedBudgetError, match="replaced by another one"):
        spend(budget)
    os.replace(tmp_path / "b.budget", tmp_path / "a.budget")
    spend(budget)
    assert not budget.sealed
    assert budget.spent.epsilon == 2


# -- permissions, locks, space ----------------------------------------------------------------


def run_isolated(function):
    try:
        function()
    except LedgerError as error:
        return str(error)
    return "no error"


@pytest.mark.parametrize(("file_mode", "folder_mode"), [(0o444, 0o777), (0o666, 0o555)])
def test_a_read_only_file_or_folder(open_folder, file_mode, folder_mode):
    path = open_folder / "a.budget"
    budget = PrivacyBudget(3.0, ledger=path)
    path.chmod(file_mode)
    open_folder.chmod(folder_mode)
    for call in (lambda: spend(budget), lambda: PrivacyBudget(3.0, ledger=path)):
        text = as_ordinary_user(lambda call=call: run_isolated(call))
        assert "the file and its directory must be writable" in text
        assert str(path) in text
    assert budget.charges == []


def test_a_new_ledger_in_a_read_only_folder_and_an_unreadable_ledger(open_folder):
    path = open_folder / "a.budget"
    open_folder.chmod(0o555)
    text = as_ordinary_user(lambda: run_isolated(lambda: PrivacyBudget(3.0, ledger=path)))
    assert "must be writable" in text
    open_folder.chmod(0o777)
    budget = PrivacyBudget(3.0, ledger=path)
    path.chmod(0o000)
    text = as_ordinary_user(lambda: run_isolated(lambda: spend(budget)))
    assert "cannot be opened" in text


def test_a_locked_ledger_is_waited_for_and_then_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger_module, "TIMEOUT", 0.2)
    path = tmp_path / "a.budget"
    budget = PrivacyBudget(3.0, ledger=path)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    for call in (
        lambda: spend(budget),
        lambda: budget.check(Cost(1.0)),
        lambda: PrivacyBudget(3.0, ledger=path),
    ):
        start = time.monotonic()
        with pytest.raises(LedgerError, match=r"locked by another process \(waited 0\.2 s\)"):
            call()
        assert 0.15 < time.monotonic() - start < 5
    holder.execute("ROLLBACK")
    holder.close()
    spend(budget)
    assert len(budget.charges) == 1


def test_the_wait_for_a_lock_is_ten_seconds():
    assert PrivacyBudget(1.0)._ledger.timeout == 10


def test_a_full_disk(tmp_path, monkeypatch):
    path = tmp_path / "a.budget"
    budget = PrivacyBudget(1e6, ledger=path)
    spend(budget)
    connect = ledger_module.Ledger._connect

    def full(self, mode):
        connection = connect(self, mode)
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {max(pages, 1)}")
        return connection

    monkeypatch.setattr(ledger_module.Ledger, "_connect", full)
    note = "x" * 100_000
    with pytest.raises(LedgerError, match="disk is full"):
        budget.charge(Cost(1.0), estimator="Fake", note=note)
    with pytest.raises(LedgerError, match="disk is full"):
        budget.reserve(Cost(1.0), note=note).__enter__()
    with pytest.raises(LedgerError, match=r"b\.budget cannot grow: the disk is full"):
        PrivacyBudget(1.0, ledger=tmp_path / "b.budget")
    monkeypatch.undo()
    assert (len(budget.charges), budget.reservations) == (1, [])
    assert sorted(os.listdir(tmp_path)) == ["a.budget", "a.budget.lock"]
    spend(budget)


def test_a_journal_that_cannot_be_written(tmp_path):
    """A limit on file sizes stops the write after SQLite has begun it; nothing is left of it."""
    budget = PrivacyBudget(1e6, ledger=tmp_path / "a.budget")
    spend(budget)

    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))
        return run_isolated(lambda: spend(budget))

    assert "disk" in in_child(limited)
    assert len(budget.charges) == 1
    spend(budget)
    assert len(budget.charges) == 2
