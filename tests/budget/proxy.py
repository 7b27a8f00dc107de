"""A proxy between a client and PostgreSQL that loses a COMMIT, or its answer, or falls silent."""

from __future__ import annotations

import contextlib
import select
import socket
import threading

COMMIT = b"COMMIT\x00"


class Proxy:
    """Forwards bytes; `lose` says what happens to the next COMMIT.

    "request": the connection is cut before the server gets it. "answer": the server gets it and
    answers, and the connection is cut before the client gets that.

    `freeze` is a part of a statement: from the next one that has it on, the proxy forwards nothing
    more, and connections stay open. Before it: `freeze_after` is False; the server does not get it.
    After it: the server gets it, and nobody its answer. `frozen` is set once that has happened;
    new connections are taken, and nothing is said on them. `thaw` ends all that.
    """

    def __init__(self, port: int) -> None:
        self.target = port
        self.lose: str | None = None
        self.refuse = False
        self.lost = 0
        self.freeze: bytes | None = None
        self.freeze_after = False
        self.frozen = threading.Event()
        self.open: list[socket.socket] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                if self.refuse:
                    client.close()
                    continue
                self.open.append(client)
                if self.frozen.is_set():
                    continue
                threading.Thread(target=self._forward, args=(client,), daemon=True).start()

    def _forward(self, client: socket.socket) -> None:
        target = ("127.0.0.1", self.target)
        with contextlib.suppress(OSError), client, socket.create_connection(target) as server:
            while True:
                ready, _, _ = select.select([client, server], [], [])
                for one in ready:
                    data = one.recv(1 << 16)
                    if not data:
                        return
                    if self.frozen.is_set():
                        continue
                    if one is client and self.freeze is not None and self.freeze in data:
                        if self.freeze_after:
                            server.sendall(data)
                        self.frozen.set()
                        continue
                    if one is client and COMMIT in data and self.lose:
                        how, self.lose = self.lose, None
                        self.lost += 1
                        if how == "answer":
                            server.sendall(data)
                            server.recv(1 << 16)
                        return
                    (server if one is client else client).sendall(data)

    def thaw(self) -> None:
        """Cut what is frozen, and forward again."""
        self.freeze = None
        self.frozen.clear()
        for one in self.open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self.open.clear()

    def close(self) -> None:
        """Take no more connections."""
        self.listener.close()
