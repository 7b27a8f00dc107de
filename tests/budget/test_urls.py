"""Names of ledgers in databases: no secret of any of them is shown, and none becomes a file."""

from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
import pickle
import sys
import time
import traceback
import urllib.parse

import pytest

from skdp import PrivacyBudget, ledger
from skdp.budget import Cost, urls
from skdp.budget.opening import snapshot
from skdp.exceptions import LedgerError
from tests.budget.server import free_port

SECRET = "s3cr3t"


def texts_of(error):
    """Return every text of an error, and of all that it knows as its cause."""
    seen, todo, texts = set(), [error], ["".join(traceback.format_exception(error))]
    while todo:
        one = todo.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        texts += [str(one), repr(one), repr(one.args), *getattr(one, "__notes__", ())]
        todo += [one.__cause__, one.__context__]
    return texts


KEYS = (
    "password",
    "Password",
    "PASSWORD",
    "%70assword",
    "pass%77ord",
    "%2570assword",
    "\N{FULLWIDTH LATIN SMALL LETTER P}assword",
    "sslpassword",
    "sslPassword",
    "oauth_client_secret",
    "OAuth_Client_Secret",
    "scram_client_key",
    "scram_server_key",
    "sslkeylogfile",
    "passwd",
    "pwd",
    "access_token",
)
PLACES = (
    "postgresql://u@{host}/x?{key}={secret}",
    "postgres://{host}/x?sslmode=disable&{key}={secret}",
    "postgresql:///x?host=127.0.0.1&{key}={secret}",
    "postgresql://u@{host}/x?{key}={secret}&ledger=y",
    "postgresql://u@{host}/x?ledger={key}={secret}",
    "postgresql://u@{host}/x?options=-c%20my.{key}%3D{secret}",
    "postgresql://u@{host}/x?dbname=host%3Dh%20{key}%3D{secret}",
    "postgresql://u@{host}/host=h%20{key}={secret}",
    "postgresql://u@{host}/host%3Dh%20{key}%3D{secret}",
    "postgresql://u%20{key}={secret}@{host}/x",
    "postgresql://{host},h%20{key}%3D{secret}/x",
    "postgresql+psycopg://u@{host}/x?{key}={secret}",
    "PostgreSQL://u@{host}/x?{key}={secret}",
    " postgresql://u@{host}/x?{key}={secret}",
    "jdbc:postgresql://{host}/x?user=u&{key}={secret}",
    "postgresql:{host}/x?{key}={secret}",
    "{host}/x?{key}={secret}",
    "host=127.0.0.1 {key}={secret}",
    "{key}={secret} host=127.0.0.1",
    "\t{key} = '{secret}'",
    "dbname=x  {key}  =  {secret}",
    "Host=127.0.0.1;{key}={secret}",
    "/tmp/x {key}={secret}",
    "service=mine\n{key}={secret}",
)
LOGINS = (
    "postgresql://u:{secret}@{host}/x",
    "postgres://u:{secret}@{host}",
    "postgresql://:{secret}@{host}/x",
    "postgresql://u:{secret}%40@{host}/x",
    "postgresql://u:a@{secret}@{host}/x",
    "postgresql://u:a:{secret}@{host}/x",
    "postgresql://u%3A{secret}@{host}/x",
    "postgresql://u:{secret}@[::1]:1/x",
    "postgresql://u:{secret}@{host},127.0.0.1:1/x?target_session_attrs=read-write",
    "postgresql://u:{secret}@%2Ftmp%2Fnone/x",
    "postgresql://u:1/{secret}@{host}/x",
    "postgresql://u:1?{secret}@{host}/x",
    "postgresql://u:{secret}#@{host}/x",
    "postgresql://u:{secret} @{host}/x",
    "postgresql://u:{secret}\\@{host}/x",
    "postgresql://u@v:{secret}@{host}/x",
    "postgresql://u:{secret}@{host}/x?ledger=UPPER",
    "postgresql://u:{secret}@{host}/x?password={secret}",
    "postgresql://u:{secret}@h:port/x",
    "postgresql://u:{secret}@{host}/x?service={secret2}",
    "postgresql://u@{host}/x?oauth_issuer=https://u:{secret}@h/",
    "postgresql+asyncpg://u:{secret}@{host}/x",
    " postgresql://u:{secret}@{host}/x",
    "POSTGRES://u:{secret}@{host}/x",
    "postgresql:/u:{secret}@{host}/x",
    "postgresql:u:{secret}@{host}",
    "//u:{secret}@{host}/x",
    "u:{secret}@{host}/x",
    "u:{secret}@{host}",
    "127.0.0.1:5432:x:u:{secret}",
    "PGPASSWORD={secret} psql",
    "mysql://u:{secret}@{host}/x",
    "file://u:{secret}@{host}/x",
    "sqlite:///{secret}?password={secret}",
)


def forms():
    host = f"127.0.0.1:{free_port()}"
    for place, key in itertools.product(PLACES, KEYS):
        yield place.format(key=key, secret=SECRET, host=host)
    for login in LOGINS:
        yield login.format(secret=SECRET, host=host, secret2="mine")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("driver", [True, False])
def test_no_form_of_a_connection_shows_a_secret_or_becomes_a_file(folder, monkeypatch, driver):
    if driver:
        pytest.importorskip("psycopg", reason="asks libpq which of its options are secret")
        psycopg = sys.modules["psycopg"]

        def refused(*arguments, **more):  # as a server would, with everything that it was told
            raise psycopg.OperationalError(f"{arguments} {more}")

        monkeypatch.setattr(psycopg, "connect", refused)
    else:
        monkeypatch.setitem(sys.modules, "psycopg", None)
    urls._known_options.cache_clear()
    try:
        for form in forms():
            _try(form)
            assert not os.listdir(folder), form
    finally:
        urls._known_options.cache_clear()


def _try(form):
    uses = (
        lambda: PrivacyBudget(1.0, ledger=form),
        lambda: PrivacyBudget.open(form),
        lambda: PrivacyBudget(1.0).parallel({"a": form}, epsilon=0.1),
        lambda: PrivacyBudget(1.0).backup(form),
        lambda: snapshot(form),
    )
    for use in uses:
        with pytest.raises((ValueError, LedgerError, ImportError)) as caught:
            use()
        assert not any(SECRET in text for text in texts_of(caught.value)), form


def test_the_command_line_shows_no_secret(folder, capsys):
    urls_ = [place.format(key="Password", secret=SECRET, host="127.0.0.1:1") for place in PLACES]
    for form in urls_ + [one.format(secret=SECRET, host="h:p", secret2="") for one in LOGINS]:
        for arguments in (
            ["show", form],
            ["verify", form],
            ["export", form, "--format", "html"],
            ["backup", form, "copy"],
            ["backup", "copy", form],
            ["release", form, "1"],
            ["release", "1", form],
            ["show", "a.budget", form],
            [form],
            ["show", "--all", "--" + form],
        ):
            with pytest.raises(SystemExit) as caught:
                sys.exit(ledger.main(arguments))
            assert caught.value.code == 2
    shown = capsys.readouterr()
    assert SECRET not in shown.out + shown.err
    assert not os.listdir(folder)


def test_public_texts_of_a_ledger_hold_no_login(folder):
    budget = PrivacyBudget(1.0)
    for text in (
        f"postgresql://u:{SECRET}@h/x",
        f"host=h password={SECRET}",
        f"OAUTH_CLIENT_SECRET = {SECRET}",
        f"u:{SECRET}@h",
    ):
        for use in (
            lambda text=text: PrivacyBudget(1.0, dataset=text),
            lambda text=text: PrivacyBudget(1.0, ledger="a.budget", dataset=text),
            lambda text=text: PrivacyBudget(1.0, note=text),
            lambda text=text: budget.reserve(Cost(0.1), note=text),
            lambda text=text: budget.charge(Cost(0.1), estimator="A", note=text),
        ):
            with pytest.raises(ValueError, match="must be public") as caught:
                use()
            assert not any(SECRET in one for one in texts_of(caught.value))
    for text in ("patients 2024", "Ben: k = 5, a@b.c", "10:30 @ Kyoto", "https://example.org/a"):
        PrivacyBudget(1.0, dataset=text, note=text)


def test_a_long_text_is_looked_through_in_linear_time():
    parts = ("x", "passw", "secret ", "key=", "://", "a:", ":", "@", "%70", "é", "host ", "\t", "=")
    start = time.monotonic()
    for part in parts:
        text = part * (200_000 // len(part))
        for call in (
            lambda text=text: urls.check_public(text, "note"),
            lambda text=text: urls.check_path(text, explicit=False),
            lambda text=text: urls.normal_url(f"postgresql://h/x?options={text}"),
        ):
            with contextlib.suppress(ValueError):
                call()
    assert time.monotonic() - start < 30


def test_whatever_libpq_calls_secret_is_kept_apart():
    pq = pytest.importorskip("psycopg", reason="psycopg brings libpq").pq
    options = {one.keyword.decode(): one.dispchar for one in pq.Conninfo.get_defaults()}
    hidden = {name for name, how in options.items() if how in (b"*", b"D")}
    assert {"password", "sslpassword"} <= hidden
    for name in options:
        url = urls.normal_url(f"postgresql://h/x?{name}={SECRET}")
        assert (SECRET not in url) or name not in hidden
        assert urls.normal_url(url) == url


def test_what_is_no_secret_is_kept_as_it_was_meant():
    for url, normal, secrets in (
        (
            "postgres://u:p%40%2F%3A@h/x?password_=",
            None,
            {},
        ),
        (
            "postgres://a%40b:p%40%2F%3A@h:5,[::1]:6/x?sslmode=require",
            "postgresql://a%40b@h:5,[::1]:6/x?sslmode=require&ledger=skdp",
            {"password": "p@/:"},
        ),
        (
            "postgresql://h?password=a+b%20c&ssl=true&ledger=y",
            "postgresql://h?sslmode=require&ledger=y",
            {"password": "a+b c"},
        ),
        (
            "postgresql://%2Fvar%2Frun/x?options=-c%20a%3Db&passfile=/home/p&service=s",
            (
                "postgresql://%2Fvar%2Frun/x?options=-c%20a%3Db&passfile=%2Fhome%2Fp&service=s"
                "&ledger=skdp"
            ),
            {},
        ),
    ):
        if normal is None:
            with pytest.raises(ValueError, match="libpq knows"):
                urls.normal_url(url)
            continue
        assert urls.normal_url(url) == normal
        assert urls.normal_url(normal) == normal
        assert urls.secrets_of(normal) == secrets
        assert not any(urllib.parse.quote(one) in normal for one in secrets.values())


@pytest.mark.parametrize(
    "path",
    [
        'postgresql://h/x?ledger=a"; DROP SCHEMA b CASCADE; --',
        "postgresql://h/x",
        "postgresql://h/x?sslkeylogfile=/tmp/keys&ledger=a",
        f"postgresql://h/x?oauth_client_secret={SECRET}&ledger=a",
        f"postgresql://h/x?Password={SECRET}&ledger=a",
    ],
)
def test_a_loaded_budget_names_a_ledger_as_it_is_kept(path):
    budget = PrivacyBudget(1.0)
    loaded = PrivacyBudget.__new__(PrivacyBudget)
    with pytest.raises(ValueError, match="not the URL of a ledger") as caught:
        loaded.__setstate__({**budget.__getstate__(), "path": path, "temporary": False})
    assert not any(SECRET in text for text in texts_of(caught.value))


def test_paths_with_odd_names_are_files_where_they_are_meant_as_such(folder):
    os.makedirs("year=2024")
    for path in (
        "./year=2024/a.budget",
        str(folder / "year=2024" / "b.budget"),
        pathlib.Path("year=2024/c.budget"),
        pathlib.Path("host=x password=y"),
        pathlib.Path("u:p@h"),
        "me@home.budget",
        "10:30.budget",
        "keyboard.budget",
    ):
        budget = PrivacyBudget(1.0, ledger=path)
        assert budget.ledger == os.path.realpath(path)
        assert pickle.loads(pickle.dumps(budget)) is budget
    for path in ("year=2024/d.budget", "host=x", "password=y.budget"):
        with pytest.raises(ValueError, match=r"pathlib\.Path"):
            PrivacyBudget(1.0, ledger=path)
    with pytest.raises(ValueError, match="another connection"):  # Path() takes a slash away
        PrivacyBudget(1.0, ledger=pathlib.Path(f"postgresql://u:{SECRET}@h/x"))
