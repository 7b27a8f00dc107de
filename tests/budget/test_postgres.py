"""A ledger in PostgreSQL: grants what an SQLite ledger grants, and loses nothing, whatever breaks.

The server comes from Debian's package. Its configuration says ``synchronous_commit = off``, so
that what the ledger sets for itself is what counts.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from skdp import DPStandardScaler, PrivacyBudget, ledger
from skdp.budget import Cost, postgres
from skdp.exceptions import BudgetExceededError, LedgerError, SealedBudgetError
from skdp.loss.conversions import loss_text
from tests.budget.proxy import Proxy
from tests.budget.server import free_port, start_server
from tests.folding import each

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server():
    one = start_server()
    yield one
    one.close()


@pytest.fixture
def name():
    name.number += 1
    return f"t{name.number}"


name.number = 0


def lines(server, name):
    return server.sql(f'SELECT number, main FROM "{name}".charges ORDER BY number')


def test_it_does_what_a_file_does(server, name, tmp_path):
    rng = np.random.default_rng(0)
    terms = {"epsilon": 1.0, "delta": 1e-5, "accountant": "gdp", "separate_delta": 1e-6}
    budgets = [
        PrivacyBudget(**terms, ledger=server.url(name)),
        PrivacyBudget(**terms, ledger=tmp_path / "a.budget"),
    ]
    costs = [
        Cost(0.1),
        Cost(0.25, 2e-7),
        Cost(0.5, 1e-6, mu=0.1, separate_delta=1e-7),
        3 * Cost(0.01),
    ]
    refused = 0
    for _ in range(40):
        cost, reserve = costs[rng.integers(4)], rng.random() < 0.3
        seen = []
        for budget in budgets:
            try:
                if reserve:
                    with budget.reserve(2 * cost):
                        budget.charge(cost, estimator="A", releases=[{"name": "x"}])
                else:
                    budget.charge(cost, estimator="B", note="why")
                seen.append("granted")
            except BudgetExceededError as error:
                seen.append(str(error).replace(str(budget.ledger), ""))
        assert seen[0] == seen[1]
        refused += "granted" not in seen
        assert budgets[0].spent == budgets[1].spent
        assert budgets[0].remaining == budgets[1].remaining
    assert 5 < refused < 35
    made = [
        [(c.number, c.estimator, c.cost, c.releases, c.note) for c in budget.charges]
        for budget in budgets
    ]
    assert made[0] == made[1]
    assert len(made[0]) > 5
    assert [(r.epsilon, r.open) for r in budgets[0].reservations] == [
        (r.epsilon, r.open) for r in budgets[1].reservations
    ]
    assert {c.host for c in budgets[0].charges} == {os.uname().nodename}
    assert ledger.verified(server.url(name))[0]
    budgets[0].backup(tmp_path / "copy.budget")
    assert ledger.verified(tmp_path / "copy.budget")[0]
    assert f"spent {loss_text(budgets[1].spent)}" in ledger.show(tmp_path / "copy.budget")


def test_a_backup_replaces_an_earlier_one_and_nothing_else(server, name, tmp_path):
    budget, copy = PrivacyBudget(1.0, ledger=server.url(name)), tmp_path / "copy.budget"
    budget.backup(copy)
    budget.charge(Cost(0.25), estimator="A")
    budget.backup(copy)
    assert "spent epsilon=0.25, delta=0.0" in ledger.show(copy)
    other = tmp_path / "other.budget"
    PrivacyBudget(1.0, ledger=other)
    (tmp_path / "photo").write_bytes(b"no ledger")
    for path in (other, tmp_path / "photo"):
        before = path.read_bytes()
        with pytest.raises(LedgerError, match="never replaces another file"):
            budget.backup(path)
        assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir() if ".new" in p.name) == []


def test_plans_are_drawn_from_as_in_a_file(server, name):
    budget = PrivacyBudget(5.0, 1e-6, accountant="pld", ledger=server.url(name))
    with budget.reserve([Cost(0.1)] * 3):
        for _ in range(3):
            budget.charge(Cost(0.1), estimator="A")
        with pytest.raises(BudgetExceededError):
            budget.charge(Cost(0.1), estimator="A")
    assert ledger.verified(server.url(name))[0]


def test_fits_in_workers_are_charged_once(server, name):
    X = np.random.default_rng(0).normal(size=(200, 2))
    budget = PrivacyBudget(10.0, ledger=server.url(name))
    model = DPStandardScaler(bounds=(-5, 5), epsilon=0.1, budget=budget)
    search = GridSearchCV(
        model, {"epsilon": [0.1, 0.2]}, cv=3, n_jobs=2, scoring=lambda *a: 0.0, refit=False
    )
    search.fit(X)
    assert len(budget.charges) == 6
    assert budget.spent.epsilon == pytest.approx(0.9)


def test_a_fork_leaves_the_parents_connection_alone(server, name):
    budget = PrivacyBudget(1.0, ledger=server.url(name))
    budget.charge(Cost(0.1), estimator="parent")
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            budget.charge(Cost(0.2), estimator="child")
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    budget.charge(Cost(0.1), estimator="parent")
    assert [c.estimator for c in budget.charges] == ["parent", "child", "parent"]


# --- races and deaths ---------------------------------------------------------------------------


def _take(url, granted, cost=0.01, before=None):
    if before is not None:
        before()
    budget = PrivacyBudget(1.0, ledger=url)
    with contextlib.suppress(BudgetExceededError):
        while True:
            budget.charge(Cost(cost), estimator="A")
            with granted.get_lock():
                granted.value += 1


def run_all(target, arguments, n=16):
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=target, args=arguments(i)) for i in range(n)]
    for one in processes:
        one.start()
    for one in processes:
        one.join(120)
    assert all(one.exitcode is not None for one in processes)
    return [one.exitcode for one in processes]


def test_sixteen_processes_get_a_hundred_charges(server, name):
    granted = multiprocessing.Value("i", 0)
    codes = run_all(_take, lambda i: (server.url(name), granted))
    assert codes == [0] * 16
    assert granted.value == 100
    assert len(lines(server, name)) == 100
    assert ledger.verified(server.url(name))[0]


def _without_lock():
    # The bug: nobody waits for the transaction before. A pause makes the interleaving sure.
    execute = postgres._Statements.execute

    def unlocked(self, statement, values=(), **more):
        if "FOR UPDATE" in statement:
            statement = statement.replace("FOR UPDATE", "")
        if statement.startswith("UPDATE totals"):
            time.sleep(0.3)
        return execute(self, statement, values, **more)

    postgres._Statements.execute = unlocked
    insert = postgres.PostgresLedger._insert
    # Numbers that cannot collide, which would be found.
    postgres.PostgresLedger._insert = lambda self, c, table, row: insert(
        self, c, table, {**row, "number": os.getpid()} if table == "charges" else row
    )


def test_the_race_finds_a_ledger_that_does_not_lock(server, name):
    PrivacyBudget(1.0, ledger=server.url(name))
    granted = multiprocessing.Value("i", 0)
    run_all(_take, lambda i: (server.url(name), granted, 1.0, _without_lock), n=4)
    assert granted.value > 1


def _die(url, granted, dead, when):
    """Charge once, race against the others, and die at the next commit if `when` says so.

    Whoever lives leaves charges for those who are to die, and first ones for those who live,
    however late these come to run: 8 charge once first, and 8 four times.
    """
    commit = postgres.PostgresLedger._commit

    def killed(self, connection):
        if when == "after":
            commit(self, connection)
        with dead.get_lock():
            dead.value += 1
        os.kill(os.getpid(), signal.SIGKILL)

    budget = PrivacyBudget(1.0, ledger=url)
    for _ in range(1 if when else 4):
        budget.charge(Cost(0.01), estimator="A")
        with granted.get_lock():
            granted.value += 1
    if when is not None:
        postgres.PostgresLedger._commit = killed
    else:
        deadline = time.monotonic() + 120
        while (dead.value < 8 or granted.value < 40) and time.monotonic() < deadline:
            time.sleep(0.01)
    _take(url, granted)


def test_processes_killed_inside_a_transaction_leave_no_lock_and_no_half(server, name):
    granted, dead = multiprocessing.Value("i", 0), multiprocessing.Value("i", 0)
    PrivacyBudget(1.0, ledger=server.url(name))
    how = ["before", "after", None, None] * 4
    codes = run_all(_die, lambda i: (server.url(name), granted, dead, how[i]))
    assert sorted(codes) == [-9] * 8 + [0] * 8
    charged = lines(server, name)
    # Noise is drawn once a charge has returned: no more of it than charges.
    assert len(charged) == 100
    assert granted.value == 96  # four committed, and died before they knew
    assert ledger.verified(server.url(name))[0]


def test_a_server_that_restarts_loses_nothing(server, name):
    url = server.url(name)
    budget = PrivacyBudget(1.0, ledger=url)
    granted = multiprocessing.Value("i", 0)
    script = (
        "import sys, time\n"
        "from skdp import PrivacyBudget\n"
        "from skdp.budget import Cost\n"
        "from skdp.exceptions import BudgetExceededError, LedgerError\n"
        "b = PrivacyBudget(1.0, ledger=sys.argv[1]); n = 0\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    try:\n"
        "        b.charge(Cost(0.002), estimator='A'); n += 1\n"
        "    except BudgetExceededError:\n"
        "        break\n"
        "    except LedgerError:\n"
        "        time.sleep(0.1)\n"
        "print(n)\n"
    )
    clients = [
        subprocess.Popen([sys.executable, "-c", script, url], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for one in clients:
        assert one.stdout.readline() == "ready\n"
    time.sleep(0.3)
    server.stop("immediate")  # as a power failure: the log is replayed
    server.start()
    noise = sum(int(one.communicate(timeout=120)[0]) for one in clients)
    del granted
    assert len(lines(server, name)) == 500  # synchronous_commit is off but for the ledger
    assert noise <= 500
    assert noise >= 500 - 3  # a commit whose answer was lost with the server
    assert budget.spent.epsilon == 1.0


@pytest.fixture
def proxy(server):
    one = Proxy(server.port)
    yield one
    one.close()


@pytest.mark.parametrize("lose", ["request", "answer"])
def test_a_commit_whose_answer_is_lost_is_asked_about(server, proxy, name, lose):
    budget = PrivacyBudget(1.0, ledger=server.url(name, proxy.port))
    budget.charge(Cost(0.1), estimator="A")
    proxy.lose = lose
    if lose == "answer":
        charge = budget.charge(Cost(0.1), estimator="B")
        assert charge.number == 2
    else:
        with pytest.raises(LedgerError, match="did not commit"):
            budget.charge(Cost(0.1), estimator="B")
    assert proxy.lost == 1
    budget.charge(Cost(0.1), estimator="C")
    expected = 3 if lose == "answer" else 2
    assert [number for number, _ in lines(server, name)] == list(range(1, expected + 1))
    assert budget.spent.epsilon == pytest.approx(0.1 * expected)


def test_where_nobody_answers_no_noise_is_drawn_and_the_charge_may_count(
    server, proxy, name, monkeypatch
):
    monkeypatch.setattr(postgres, "_ASK", 1.0)
    budget = PrivacyBudget(1.0, ledger=server.url(name, proxy.port))
    proxy.lose, proxy.refuse = "answer", True
    with pytest.raises(LedgerError, match="it counts if it was"):
        budget.charge(Cost(0.1), estimator="A")
    proxy.refuse = False
    assert budget.spent.epsilon == 0.1


def test_a_client_that_hangs_is_put_out(server, name, monkeypatch):
    monkeypatch.setattr(postgres, "_IDLE", 1)
    url = server.url(name)
    budget = PrivacyBudget(1.0, ledger=url)
    pid = os.fork()
    if pid == 0:
        with budget._ledger._transaction(write=True):
            time.sleep(60)
        os._exit(0)
    try:
        time.sleep(0.5)
        budget.charge(Cost(0.1), estimator="A")  # waits for about a second
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert len(lines(server, name)) == 1


def test_a_transaction_is_durable_whatever_the_server_says(server, name):
    budget = PrivacyBudget(1.0, ledger=server.url(name))
    assert server.sql("SHOW synchronous_commit") == [("off",)]
    with budget._ledger._transaction(write=True) as connection:
        assert connection.execute("SHOW synchronous_commit").fetchone()[0] == "on"
        assert connection.execute("SHOW transaction_isolation").fetchone()[0] == "read committed"


# --- who may do what ----------------------------------------------------------------------------


def test_a_role_of_least_privileges_charges_and_rewrites_nothing(server, name):
    import psycopg

    PrivacyBudget(1.0, ledger=server.url(name), dataset=f"table of {name}")
    server.sql(f"CREATE ROLE {name}_client LOGIN", *[
        one for one in postgres.grants(f"{name}_client", name).split("\n") if one
    ])  # fmt: skip
    url = server.url(name, user=f"{name}_client")
    budget = PrivacyBudget(1.0, ledger=url)
    with budget.reserve(Cost(0.3)):
        budget.charge(Cost(0.2), estimator="A")
    assert budget.spent.epsilon == 0.2
    plain = url.partition("?")[0]
    for statement in (
        "DELETE FROM {}.charges",
        "UPDATE {}.charges SET main = '0'",
        "UPDATE {}.ledger SET epsilon = '100'",
        "DROP TABLE {}.charges",
        "TRUNCATE {}.commits",
    ):
        with psycopg.connect(plain) as connection, pytest.raises(psycopg.Error):
            connection.execute(statement.format(name))
    with pytest.raises(LedgerError, match="does not allow this role"):
        PrivacyBudget(1.0, ledger=server.url(f"{name}_more", user=f"{name}_client"))


def test_totals_that_were_moved_by_hand_are_found(server, name):
    PrivacyBudget(1.0, ledger=server.url(name)).charge(Cost(0.5), estimator="A")
    server.sql(f"UPDATE {name}.totals SET charged_main = '0'")
    assert not ledger.verified(server.url(name))[0]
    postgres._CHECKED.clear()
    with pytest.raises(LedgerError, match="damaged"):
        PrivacyBudget(1.0, ledger=server.url(name))


def test_passwords_stay_in_the_process(server, name):
    secret = "s3cr3t-and-more"
    url = server.url(name).replace("owner@", f"owner:{secret}@")
    budget = PrivacyBudget(1.0, ledger=url)
    budget.charge(Cost(0.1), estimator="A")
    texts = [repr(budget), budget._repr_html_(), str(budget.ledger), repr(budget.charges)]
    assert not any(secret in text for text in texts)
    assert secret.encode() not in pickle.dumps(budget)
    with pytest.raises(ValueError, match="was made with") as error:
        PrivacyBudget(2.0, ledger=url)
    assert secret not in str(error.value)
    bad = url.replace(str(server.port), str(free_port())) + f"&password={secret}"
    with pytest.raises((LedgerError, ValueError)) as error:
        PrivacyBudget(1.0, ledger=bad)
    assert secret not in str(error.value)


def test_a_refused_login_says_where_passwords_belong(server, name):
    text = (server.data / "pg_hba.conf").read_text()
    (server.data / "pg_hba.conf").write_text("host all guarded all scram-sha-256\n" + text)
    server.sql("CREATE ROLE guarded LOGIN PASSWORD 'right'", "SELECT pg_reload_conf()")
    with pytest.raises(LedgerError, match="PGPASSWORD"):
        PrivacyBudget(1.0, ledger=server.url(name, user="guarded:wrong"))
    server.sql("GRANT CREATE ON DATABASE postgres TO guarded")
    budget = PrivacyBudget(1.0, ledger=server.url(name, user="guarded:right"))
    budget.charge(Cost(0.1), estimator="A")


@each(
    "url",
    [
        "postgresql://h:notaport/db",
        "postgresql://h:1,g:notaport/db",
        "postgresql://h/db?ledger=A-B",
        "postgresql://h/db?ledger=pg_catalog",
        "postgresql://h/db?ledger=a&ledger=b",
        'postgresql://h/db?ledger=a"; DROP TABLE x; --',
        "postgresql://h/db#x",
    ],
)
def test_a_url_that_names_no_ledger_is_refused(url):
    with pytest.raises(ValueError, match="ledger must be a URL"):
        PrivacyBudget(1.0, ledger=url)


def test_of_several_hosts_the_one_that_writes_is_taken(server, name):
    url = server.url(name).replace("@", f"@127.0.0.1:{free_port()},")
    budget = PrivacyBudget(1.0, ledger=f"{url}&target_session_attrs=read-write")
    budget.charge(Cost(0.1), estimator="A")
    assert len(lines(server, name)) == 1
    assert not budget.sealed


def test_a_budget_whose_server_is_down_is_sealed(server, proxy, name):
    budget = PrivacyBudget(1.0, ledger=server.url(name, proxy.port))
    assert not budget.sealed
    proxy.refuse = True
    postgres._OPEN.pop(budget.ledger)[1].close()
    assert budget.sealed
    with pytest.raises(LedgerError, match="cannot be reached"):
        budget.charge(Cost(0.1), estimator="A")
    proxy.refuse = False
    budget.charge(Cost(0.1), estimator="A")


def test_what_is_no_ledger_is_refused(server, name):
    with pytest.raises(LedgerError, match="cannot be reached"):
        PrivacyBudget(1.0, ledger=f"postgresql://owner@127.0.0.1:{free_port()}/postgres")
    with pytest.raises(LedgerError, match="ledger must exist"):
        PrivacyBudget(1.0, ledger=server.url(name), must_exist=True)
    server.sql(f"CREATE SCHEMA {name}")
    with pytest.raises(LedgerError, match="is there, and is no ledger"):
        PrivacyBudget(1.0, ledger=server.url(name))


def test_a_ledger_is_opened_as_it_was_made_and_says_who_charges(server, name):
    with pytest.raises(LedgerError, match="ledger must exist"):
        PrivacyBudget.open(server.url(name))
    PrivacyBudget(2.0, 1e-6, ledger=server.url(name), unit="user", accountant="zcdp")
    budget = PrivacyBudget.open(server.url(name), note="Ben")
    assert (budget.epsilon, budget.unit, budget.accountant) == (2.0, "user", "zcdp")
    assert budget.charge(Cost(0.1), estimator="A").note == "Ben"
    assert pickle.loads(pickle.dumps(budget)).note == "Ben"


def test_one_table_has_one_ledger_of_a_database(server, name):
    data = f"table of {name}"
    PrivacyBudget(1.0, ledger=server.url(name), dataset=data)
    with pytest.raises(LedgerError, match="One table has one ledger"):
        PrivacyBudget(1.0, ledger=server.url(f"{name}b"), dataset=data)
    assert PrivacyBudget(1.0, ledger=server.url(name)).dataset == data


def test_a_ledger_that_was_dropped_or_replaced_seals_the_budget(server, name):
    budget = PrivacyBudget(1.0, ledger=server.url(name))
    server.sql(f"DROP SCHEMA {name} CASCADE")
    with pytest.raises(SealedBudgetError, match="is not there"):
        budget.charge(Cost(0.1), estimator="A")
    PrivacyBudget(1.0, ledger=server.url(name))
    with pytest.raises(SealedBudgetError, match="was replaced"):
        budget.charge(Cost(0.1), estimator="A")


def until(happened, seconds=60):
    """Wait for what a server does in its own time."""
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_server_that_may_forget_is_refused(server, name):
    budget = PrivacyBudget(1.0, ledger=server.url(name))

    def refused():
        with contextlib.suppress(BudgetExceededError):
            try:
                budget.charge(Cost(0.0001), estimator="A")
            except LedgerError as error:
                return "fsync=off" in str(error)
        return False

    server.sql("ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
    try:
        until(refused)
    finally:
        server.sql("ALTER SYSTEM RESET fsync", "SELECT pg_reload_conf()")
    until(lambda: not refused())


def test_a_server_that_only_reads_is_refused(server, name):
    budget = PrivacyBudget(1.0, ledger=server.url(name))
    url = f"{server.url(name)}&options=-c%20default_transaction_read_only%3Don"
    budget.charge(Cost(0.1), estimator="A")
    with pytest.raises(LedgerError, match="only reads"):
        PrivacyBudget(1.0, ledger=url)
