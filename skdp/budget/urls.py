"""URLs of ledgers in a database, and the secrets in them.

A text that looks like another form of connection (``host=... password=...``) is refused as a path:
a file would carry the password in its name. A `pathlib.Path` is always a file.

Secrets are the options that libpq itself hides (those that it displays as ``*``, and those for
debugging), and whatever is called like one. They stay in the memory of this process, beside the
URL without them. Every refusal has a fixed text, because the refused text may hold a secret.
"""

from __future__ import annotations

import functools
import re
import unicodedata
import urllib.parse

_FORM = "postgresql://user@host:port/database?ledger=name"
NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")

# The options of libpq up to PostgreSQL 19; an installed libpq may know more.
_LIBPQ = (
    "application_name channel_binding client_encoding connect_timeout dbname "
    "fallback_application_name gssdelegation gssencmode gsslib host hostaddr keepalives "
    "keepalives_count keepalives_idle keepalives_interval krbsrvname load_balance_hosts "
    "max_protocol_version min_protocol_version oauth_client_id oauth_client_secret oauth_issuer "
    "oauth_scope options passfile password port replication require_auth requirepeer "
    "scram_client_key scram_server_key service servicefile ssl_max_protocol_version "
    "ssl_min_protocol_version sslcert sslcertmode sslcompression sslcrl sslcrldir sslkey "
    "sslkeylogfile sslmode sslnegotiation sslpassword sslrootcert sslsni target_session_attrs "
    "tcp_user_timeout user"
)
_OPTIONS = frozenset(_LIBPQ.split())
_SECRET_WORD = r"(?:pass(?!file)|pwd|secret|token|credential|key)"
_SECRET = re.compile(_SECRET_WORD)

# Forms of connections, in texts of lower case. A path may have a "=" in a later folder of it. What
# may repeat is bounded, or ends at the first sign that it lacks: a search takes linear time.
_IS = r"\s{0,40}="
_CONNECTION = (
    re.compile(r"://"),
    re.compile(r"^[^/\\]*="),
    re.compile(
        rf"(?:(?<![a-z0-9_])(?:{'|'.join(sorted(_OPTIONS))})|{_SECRET_WORD}\w{{0,40}}){_IS}"
    ),
    re.compile(r"^\s*(?:jdbc|pgsql|psql|postgres\w*)(?:\+\w+)?:"),
    # user:password@, but not the colon of a drive
    re.compile(r"^(?:[a-z]:[/\\][^:]*|(?![a-z]:[/\\])[^:]*):.*@", re.DOTALL),
    re.compile(r"^[^:]*:(?:\d+|\*):[^:]*:[^:]*:"),  # a line of ~/.pgpass
)
# A secret inside a text that is shown: of an option, a note, the name of a data set.
_LOGIN = re.compile(r"://[^/\s:]*:[^/\s]*@|^[^/\s:]*:[^/\s@]*@")
_GIVEN = re.compile(rf"{_SECRET_WORD}\w{{0,40}}{_IS}")
_WORDS = re.compile(rf"(?:passw|pwd|secret|scram_client_key|scram_server_key)\w{{0,40}}{_IS}")

# What a URL without secrets needs beside it, in this process alone.
_SECRETS: dict[str, dict[str, str]] = {}


def _forms(text: str) -> list[str]:
    """Return a text in lower case, and what percent-encoding and odd letters hide in it."""
    forms = [text]
    for _ in range(3):
        forms.append(urllib.parse.unquote(forms[-1]))
    return [unicodedata.normalize("NFKC", form).lower() for form in dict.fromkeys(forms)]


def is_url(ledger: object) -> bool:
    """Whether a user means a database: the prefix of its URL says so."""
    return isinstance(ledger, str) and ledger.startswith(("postgresql://", "postgres://"))


def check_path(name: str, *, explicit: bool) -> None:
    """Raise ValueError for the form of a connection; of an `explicit` path, only of a URL."""
    patterns = (_CONNECTION[3],) if explicit else _CONNECTION
    if any(pattern.search(form) for form in _forms(name) for pattern in patterns):
        raise ValueError(
            f"ledger must be the path of a file or a URL {_FORM}. This text has the form of "
            "another connection (://, key=value or user:password@), and no file gets such a name. "
            "If it is a path, give pathlib.Path(...); on the command line, begin it with ./"
        )


_LITERAL = re.compile(r"""("[^"]*")|('(?:[^']|'')*')|(?<![\w.])\d+(?:\.\d*)?(?:e[+-]?\d+)?""", re.I)


def without_literals(text: str) -> str:
    """Return an expression of SQL with a placeholder for each text and number: these name people.

    Names of columns in double quotes stay.
    """
    return _LITERAL.sub(lambda found: found[1] or ("<text>" if found[2] else "<number>"), text)


def check_text(value: object, name: str) -> str:
    """Return a str, or raise."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str; got {type(value).__name__}.")
    return value


def check_public(value: object, name: str) -> str:
    """Return a str that stands in the ledger, or raise if it holds the login of a connection."""
    text = check_text(value, name)
    if any(_LOGIN.search(form) or _WORDS.search(form) for form in _forms(text)):
        raise ValueError(f"{name} must be public, and must not hold the password of a connection.")
    return text


@functools.cache
def _known_options() -> dict[str, bool]:
    """Return the options of libpq, and whether each is secret."""
    known = {name: _SECRET.search(name) is not None for name in (*_OPTIONS, "ssl")}
    try:
        from psycopg import pq
    except ImportError:
        return known
    for option in pq.Conninfo.get_defaults():
        name = option.keyword.decode()
        hidden = option.dispchar in (b"*", b"D")
        known[name] = hidden or _SECRET.search(name) is not None
    return known


def _bad(why: str) -> ValueError:
    return ValueError(f"ledger must be a URL {_FORM}: {why}.")


def _is_host(text: str) -> bool:
    """Whether a text is a host, an address in brackets or a folder of sockets, with its port."""
    host, _, port = text.partition(":") if "[" not in text else text.partition("]:")
    if port and not (port.isascii() and port.isdecimal()):
        return False
    if host.startswith("["):
        return re.fullmatch(r"\[[0-9A-Fa-f:.]+(?:%\w+)?\]?", host) is not None
    return re.fullmatch(r"[\w.~/-]*", urllib.parse.unquote(host)) is not None


def normal_url(ledger: str) -> str:
    """Return the URL without secrets, which this process remembers, or raise ValueError.

    The form is ``postgresql://user@host,host:port/database?ledger=name``, with parameters of libpq;
    `name` is the schema, "skdp" by default. A visible part that may hold a secret is refused.
    """
    if re.search(r"[\s\x00-\x1f\x7f#\\]", ledger):
        raise _bad("blanks and the characters # and \\ must be percent-encoded")
    address, _, query = ledger.partition("://")[2].partition("?")
    authority, slash, database = address.partition("/")
    login, _, hosts = authority.rpartition("@")
    user, has_password, password = login.partition(":")
    if not all(map(_is_host, hosts.split(","))):
        raise _bad("its hosts and ports cannot be read")
    if "@" in user:
        raise _bad("an @ in the name of a user or in a password is written %40")
    user, plain = urllib.parse.unquote(user), urllib.parse.unquote(database)
    if any(mark in user for mark in ":=/\0") or any(mark in plain for mark in "=@\0"):
        raise _bad("a user or a database cannot have a name with : = / or @")
    options = _options(query)
    name = options.pop("ledger", "skdp")
    if not NAME.fullmatch(name) or name.startswith("pg_"):
        raise _bad("its parameter ledger= is a name of lower-case letters, digits and _")
    known = _known_options()
    secrets = {key: options.pop(key) for key in tuple(options) if known[key]}
    if has_password:
        if "password" in secrets:
            raise _bad("a password is given once")
        secrets["password"] = urllib.parse.unquote(password)
    for text in (plain, *options.values()):
        if any(_LOGIN.search(form) or _GIVEN.search(form) for form in _forms(text)):
            raise _bad("a password or key stands in a parameter of its own, password= for example")
    given = [*sorted(options.items()), ("ledger", name)]
    query = "&".join(f"{key}={urllib.parse.quote(value, safe='')}" for key, value in given)
    who = f"{urllib.parse.quote(user, safe='')}@" if user else ""
    shown = f"postgresql://{who}{hosts}{slash}{database}?{query}"
    if secrets:
        _SECRETS[shown] = secrets
    return shown


def _options(query: str) -> dict[str, str]:
    """Return the parameters of a URL by name, or raise."""
    options: dict[str, str] = {}
    known = _known_options()
    for pair in filter(None, query.split("&")):
        key, equals, value = pair.partition("=")
        key, value = urllib.parse.unquote(key), urllib.parse.unquote(value)
        if not equals or (key != "ledger" and key not in known) or "\0" in value:
            raise _bad("one of its parameters is none that libpq knows (in lower case)")
        if key == "ssl":  # as JDBC writes it
            if value != "true":
                raise _bad("ssl= can only be true; sslmode= says more")
            key, value = "sslmode", "require"
        if key in options:
            raise _bad("every parameter is given once")
        options[key] = value
    return options


def parts_of(shown: str) -> tuple[str, dict[str, str], str]:
    """Return the server, the options and the schema of a URL without secrets, or raise.

    The URL may come from somebody else's file: an option may name a file to write to.
    """
    server, _, query = shown.partition("?")
    options = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
    name = options.pop("ledger", "")
    known = _known_options()
    if not NAME.fullmatch(name) or any(known.get(key, True) for key in options):
        raise ValueError("This is not the URL of a ledger as a budget keeps it.")
    return server, options, name


def secrets_of(shown: str) -> dict[str, str]:
    """Return the secrets that this process was given beside a URL."""
    return _SECRETS.get(shown, {})
