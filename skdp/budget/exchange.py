"""Exchanges with a server that may never answer, with deadlines.

A driver waits inside C code, where interrupts work differently in each version. So each connection
is used by a thread of its own (`Line`), for which callers wait until a deadline. A connection that
did not answer in time is dropped: its socket is shut down, which also ends the wait of its thread.
It is never used again, because its place in the protocol is unknown.

A fork copies no threads. The child must not use the lines of its parent; closing them would end the
parent's transactions.
"""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

_SLICE = 0.5  # seconds; where waiting for a lock cannot be interrupted (Windows), Ctrl-C takes this
_THREAD = "skdp ledger"


class Silence(Exception):
    """No answer came before the deadline, so the connection was dropped."""


def here() -> bool:
    """Whether this thread serves a connection: only a destructor can want another one there."""
    return threading.current_thread().name == _THREAD


class _Answer:
    def __init__(self) -> None:
        self.done = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None


class Line:
    """A connection to a server (made by `connect`), and the thread that alone uses it."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        self.pid = os.getpid()
        self._connect = connect
        self._calls = queue.SimpleQueue[tuple[Callable[[Any], Any], _Answer] | None]()
        self._dropped = False
        self._raw: Any = None
        self._socket: socket.socket | None = None
        self._thread = threading.Thread(target=self._run, daemon=True, name=_THREAD)
        try:
            self._thread.start()
        except BaseException:  # Ctrl-C while it starts
            self.drop()
            raise

    # -- in the thread ------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._dropped and (task := self._calls.get()) is not None:
            call, answer = task
            try:
                answer.result = call(self._raw)
            except BaseException as error:  # noqa: BLE001  for the thread that waits
                answer.error = error
            answer.done.set()
            del task, call, answer  # a result may be large
        with contextlib.suppress(Exception):
            if self._raw is not None:
                self._raw.close()
        if self._socket is not None:
            self._socket.close()

    def _open(self, _: Any) -> None:
        raw = self._connect()
        # A second descriptor of the same socket: the driver may close its own at any time, and the
        # number of a closed one may be somebody else's by the time that it is shut down.
        self._socket = socket.fromfd(raw.fileno(), socket.AF_INET, socket.SOCK_STREAM)
        self._raw = raw

    # -- in other threads ---------------------------------------------------------------------

    def open(self, timeout: float) -> BaseException | None:
        """Connect; return why that failed, if it did."""
        return self.ask(self._open, timeout)[1]

    def ask(self, call: Callable[[Any], Any], timeout: float) -> tuple[Any, BaseException | None]:
        """Return what `call` returns for the connection, and the error that it raised if it did.

        The error is returned, not raised: raised again by the caller, it would stay the context of
        the caller's own error, with the text of the server in it.
        """
        if not self.mine():
            return None, Silence("this connection was dropped")
        answer, until = _Answer(), time.monotonic() + timeout
        try:
            self._calls.put((call, answer))
            while not answer.done.wait(min(max(until - time.monotonic(), 0.0), _SLICE)):
                if time.monotonic() >= until:
                    break
        except BaseException:  # Ctrl-C, or a signal handler that raises
            self.drop()
            raise
        if not answer.done.is_set():
            self.drop()
            return None, Silence(f"no answer within {max(timeout, 0.0):.3g} s")
        return answer.result, answer.error

    def mine(self) -> bool:
        """Whether it was made by this process and not dropped."""
        return not self._dropped and self.pid == os.getpid()

    def usable(self) -> bool:
        """Whether the connection seems open."""
        return self.mine() and self._raw is not None and not self._raw.closed

    def in_transaction(self) -> bool:
        """Whether a transaction is open; not to be called during an exchange."""
        return self.usable() and self._raw.info.transaction_status != 0

    def drop(self) -> None:
        """Give the connection up, without a word to the server and without waiting."""
        if self.pid != os.getpid():  # a shutdown by a child would end its parent's transaction
            return
        self._dropped = True
        self._calls.put(None)
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self, timeout: float = 1.0) -> None:
        """Say goodbye to the server, within the timeout."""
        if self.mine():
            self._calls.put(None)
            self._thread.join(max(timeout, 0.0))
            self.drop()


def with_addresses(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a connection with the addresses of its hosts, or raise OSError.

    libpq asks name servers itself, and may hold Python's global lock meanwhile.
    """
    if options.get("hostaddr") or options.get("service") or os.environ.get("PGSERVICE"):
        return options
    hosts = str(options.get("host") or os.environ.get("PGHOST", "")).split(",")
    ports = str(options.get("port") or os.environ.get("PGPORT", "")).split(",")
    if len(ports) not in (1, len(hosts)) or os.environ.get("PGHOSTADDR"):
        return options  # libpq says what is wrong
    ports = ports * len(hosts) if len(ports) == 1 else ports
    places = []
    for host, port in zip(hosts, ports, strict=True):
        if not host or host.startswith(("/", "@")):
            places.append((host, "", port))  # a socket of this machine
            continue
        with contextlib.suppress(OSError, UnicodeError):
            answers = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            addresses = dict.fromkeys(str(answer[4][0]) for answer in answers)
            places += [(host, address, port) for address in addresses]
    if not places:
        raise OSError("no address")
    if not any(address for _, address, _ in places):
        return options
    names, numeric, port_list = (",".join(part) for part in zip(*places, strict=True))
    resolved = {**options, "host": names, "hostaddr": numeric}
    return {**resolved, "port": port_list} if any(port_list.split(",")) else resolved
