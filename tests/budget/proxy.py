"""A proxy between a client and PostgreSQL that can lose a COMMIT, or the answer to it."""

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
    """

    def __init__(self, port: int) -> None:
        self.target = port
        self.lose: str | None = None
        self.refuse = False
        self.lost = 0
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
                    if one is client and COMMIT in data and self.lose:
                        how, self.lose = self.lose, None
                        self.lost += 1
                        if how == "answer":
                            server.sendall(data)
                            server.recv(1 << 16)
                        return
                    (server if one is client else client).sendall(data)

    def close(self) -> None:
        """Take no more connections."""
        self.listener.close()
