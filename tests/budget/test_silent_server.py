"""A server that accepts a connection and says nothing: it holds up one ledger, for a while."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from skdp import DPStandardScaler, PrivacyBudget, ledger
from skdp.budget import Cost, postgres
from skdp.exceptions import LedgerError
from tests.budget.proxy import COMMIT, Proxy
from tests.budget.server import start_server

pytest.importorskip("psycopg", reason="a ledger in PostgreSQL needs psycopg")

pytestmark = pytest.mark.slow

SOON = 20.0  # seconds in which something ends that does not wait, on a loaded machine


@pytest.fixture
def silent():
    """Return the port of a server that accepts connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield listener.getsockname()[1]


@contextlib.contextmanager
def short_deadlines():
    """Wait for a short while only; for use where a server is silent, or soon will be."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_CONNECT", "_ANSWER", "_COMMIT", "_ASK", "_LOCK", "_MORE"):
            patch.setattr(postgres, name, 2, raising=False)
        yield


def url_of(port, options=""):
    return f"postgresql://owner@127.0.0.1:{port}/postgres?ledger=x{options}"


def ended(call, seconds):
    """Call in a thread; return whether it ended in time, and what it raised."""
    errors = []

    def run():
        try:
            call()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    with short_deadlines():
        thread.start()
        thread.join(seconds)
    return not thread.is_alive(), errors[0] if errors else None


@pytest.mark.parametrize("options", ["", "&connect_timeout=0", "&sslmode=require"])
def test_a_server_that_never_answers_is_given_up(silent, options):
    in_time, error = ended(lambda: PrivacyBudget(1.0, ledger=url_of(silent, options)), SOON)
    assert in_time
    assert isinstance(error, LedgerError)
    assert "does not answer" in str(error)


def test_of_several_silent_hosts_none_is_waited_for_without_end(silent):
    hosts = ",".join([f"127.0.0.1:{silent}"] * 10)
    in_time, error = ended(
        lambda: PrivacyBudget(1.0, ledger=f"postgresql://owner@{hosts}/postgres"), SOON
    )
    assert in_time
    assert isinstance(error, LedgerError)


def test_a_name_server_that_never_answers_is_given_up(monkeypatch):
    forever = threading.Event()
    ask = socket.getaddrinfo

    def asked(host, *arguments, **more):
        if host == "db.example.org":
            forever.wait()
        return ask(host, *arguments, **more)

    monkeypatch.setattr(socket, "getaddrinfo", asked)
    in_time, error = ended(
        lambda: PrivacyBudget(1.0, ledger="postgresql://owner@db.example.org/x"), SOON
    )
    forever.set()
    assert in_time
    assert "does not answer" in str(error)


def test_a_silent_server_holds_up_its_own_ledger_alone(silent, tmp_path):
    """With the deadlines as they are: while one thread waits, everything else goes on."""
    budget = PrivacyBudget(1.0, ledger=tmp_path / "a.budget")
    waiting = threading.Thread(
        target=_quietly, args=(lambda: PrivacyBudget(1.0, ledger=url_of(silent)),), daemon=True
    )
    waiting.start()
    while url_of(silent) not in postgres._OPEN and waiting.is_alive():
        time.sleep(0.01)
    start = time.monotonic()
    budget.charge(Cost(0.1), estimator="A")
    PrivacyBudget(1.0).charge(Cost(0.1), estimator="A")
    repr(budget)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            budget.charge(Cost(0.1), estimator="child")
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert time.monotonic() - start < 9  # the others wait for ten or more
    assert waiting.is_alive()
    assert len(budget.charges) == 2


def _quietly(call):
    with contextlib.suppress(LedgerError):
        call()


# --- with a real server behind a proxy that falls silent ------------------------------------------


@pytest.fixture(scope="module")
def server():
    one = start_server()
    yield one
    one.close()


@pytest.fixture
def proxy(server):
    one = Proxy(server.port)
    yield one
    one.thaw()
    one.close()


@pytest.fixture
def name():
    name.number += 1
    return f"s{name.number}"


name.number = 0


@pytest.mark.parametrize(
    ("statement", "after"),
    [
        (b"BEGIN", False),
        (b"FOR UPDATE", True),
        (b"INSERT INTO charges", True),
        (b"INSERT INTO commits", True),
        (COMMIT, False),
        (COMMIT, True),
    ],
)
def test_wherever_a_server_falls_silent_the_error_says_whether_the_charge_may_count(
    server, proxy, name, statement, after
):
    budget = PrivacyBudget(1.0, ledger=server.url(name, proxy.port))
    budget.charge(Cost(0.1), estimator="A")
    proxy.freeze, proxy.freeze_after = statement, after
    in_time, error = ended(lambda: budget.charge(Cost(0.1), estimator="B"), SOON)
    assert in_time
    assert proxy.frozen.is_set()
    assert isinstance(error, LedgerError)
    written = len(server.sql(f"SELECT 1 FROM {name}.charges")) == 2
    assert written == (statement == COMMIT and after)
    may_count = "it counts if it was" in str(error)
    assert may_count == (statement == COMMIT)
    assert may_count or "Nothing was" in str(error)
    # What is shown does not wait, and says what was seen last.
    start = time.monotonic()
    text, page = repr(budget), budget._repr_html_()
    estimator = (
        repr(DPStandardScaler(budget=budget)) + DPStandardScaler(budget=budget)._repr_html_()
    )
    assert time.monotonic() - start < 5
    assert "remaining=(0.9, 0.0) as of" in text
    assert "remaining: epsilon=0.9" in page
    assert "has epsilon=0.9, delta=0.0 left as of" in estimator
    proxy.thaw()
    assert budget.spent.epsilon == (0.2 if written else 0.1)
    budget.charge(Cost(0.1), estimator="C")
    assert ledger.verified(server.url(name))[0]


def test_reads_reservations_and_what_pickles_need_have_deadlines(server, proxy, name):
    budget = PrivacyBudget(1.0, ledger=server.url(name, proxy.port))
    held = budget.reserve(Cost(0.3))
    held.__enter__()
    proxy.frozen.set()
    for use in (
        lambda: budget.spent,
        lambda: budget.reserve(Cost(0.1)).__enter__(),
        lambda: held.__exit__(None, None, None),
    ):
        in_time, error = ended(use, SOON)
        assert in_time
        assert isinstance(error, LedgerError)
    in_time, error = ended(lambda: budget.sealed, SOON)
    assert in_time
    assert error is None
    assert "as of" in repr(budget)
    proxy.thaw()
    # The reservation whose end was lost is given back by hand.
    assert "reservation 1 of process" in ledger.release(budget.ledger, [1])
    assert budget.remaining.epsilon == 1.0


def test_a_commit_that_waits_for_a_standby_is_not_waited_for(server, proxy, name):
    budget = PrivacyBudget(1.0, ledger=server.url(name))
    server.sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()")
    try:
        deadline = time.monotonic() + SOON
        error = None
        while error is None and time.monotonic() < deadline:  # a reload takes its time
            in_time, error = ended(lambda: budget.charge(Cost(0.1), estimator="A"), 2 * SOON)
            assert in_time
        assert "it counts if it was" in str(error)
    finally:
        server.sql(
            "ALTER SYSTEM RESET synchronous_standby_names",
            "SELECT pg_reload_conf()",
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'",
        )


SCRIPT = """
import atexit, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from skdp import PrivacyBudget
from skdp.budget import Cost
budget = PrivacyBudget(1.0, ledger=sys.argv[1])
budget.charge(Cost(0.1), estimator="A")
print("ready", flush=True)
sys.stdin.readline()
try:
    budget.charge(Cost(0.1), estimator="B")
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.stdin.readline()
    print(budget.charge(Cost(0.1), estimator="C").number, flush=True)
"""


@pytest.mark.parametrize(("statement", "written"), [(b"FOR UPDATE", False), (COMMIT, True)])
def test_ctrl_c_ends_an_exchange_and_its_connection(server, proxy, name, statement, written):
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, server.url(name, proxy.port)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as child:  # fmt: skip
        try:
            assert child.stdout.readline() == "ready\n"
            proxy.freeze, proxy.freeze_after = statement, True
            child.stdin.write("\n")
            child.stdin.flush()
            assert proxy.frozen.wait(60)
            start = time.monotonic()
            child.send_signal(signal.SIGINT)
            assert child.stdout.readline() == "interrupted\n"
            assert time.monotonic() - start < 4  # two, and as much again on a loaded machine
            proxy.thaw()
            child.stdin.write("\n")
            child.stdin.flush()
            assert child.stdout.readline() == f"{3 if written else 2}\n"
            proxy.frozen.set()  # nobody answers at the end
            assert child.wait(SOON) == 0
        finally:
            child.kill()
    assert ledger.verified(server.url(name))[0]


def test_an_unpickled_budget_of_a_silent_server_is_sealed_and_shown(server, proxy, name):
    import pickle

    from skdp.budget import budget as module

    url = server.url(name, proxy.port)
    data = pickle.dumps(PrivacyBudget(1.0, ledger=url))
    module._LIVE.clear()
    postgres._KNOWN.clear()
    proxy.frozen.set()
    loaded = []
    in_time, error = ended(lambda: loaded.append(pickle.loads(data)), SOON)
    assert in_time
    assert error is None
    start = time.monotonic()
    assert "sealed" in repr(loaded[0])
    assert "has not seen the ledger yet" in loaded[0]._repr_html_()
    assert time.monotonic() - start < 5
    in_time, error = ended(lambda: loaded[0].charge(Cost(0.1), estimator="A"), SOON)
    assert in_time
    assert isinstance(error, LedgerError)


def test_a_connection_that_was_given_up_leaves_no_thread_and_no_socket(server, proxy, name):
    budget = PrivacyBudget(1.0, ledger=server.url(name, proxy.port))
    assert budget.ledger is not None
    line = postgres._OPEN[budget.ledger][1]
    proxy.freeze, proxy.freeze_after = b"FOR UPDATE", True
    in_time, error = ended(lambda: budget.charge(Cost(0.1), estimator="B"), SOON)
    assert in_time
    assert isinstance(error, LedgerError)
    line._thread.join(SOON)  # its wait was ended, though nobody answered
    assert not line._thread.is_alive()
    assert line._socket.fileno() == -1
    assert line._raw.closed
