"""A PostgreSQL server for tests, from Debian's package; tests are skipped where there is none."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest


def _programs() -> Path | None:
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += [Path(one) for one in sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)]
    return next((one for one in folders if (one / "postgres").exists()), None)


def free_port() -> int:
    """Return a port that nobody listens to."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Server:
    """A cluster in a folder of its own; PostgreSQL refuses to run as root, so it has a user."""

    def __init__(self, programs: Path) -> None:
        self.programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="skdp-postgres-"))
        self.port = free_port()
        self.user: str | None = None
        if os.getuid() == 0:
            names = {one.pw_name for one in pwd.getpwall()}
            self.user = "postgres" if "postgres" in names else "nobody"
            shutil.chown(self.folder, self.user)
        self.data = self.folder / "data"
        self.run("initdb", "-D", self.data, "-U", "owner", "-A", "trust", "-E", "UTF8", "--no-sync")
        with open(self.data / "postgresql.conf", "a", encoding="utf-8") as file:
            file.write(
                f"port = {self.port}\nlisten_addresses = '127.0.0.1'\nmax_connections = 60\n"
                f"unix_socket_directories = '{self.folder}'\nsynchronous_commit = off\n"
            )
        self.start()

    def run(self, program: str, *arguments: object) -> None:
        """Run a program of the server as its user."""
        command = [str(self.programs / program), *map(str, arguments)]
        subprocess.run(
            command, user=self.user, check=True, cwd=self.folder, env={"LC_ALL": "C.UTF-8"},
            stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT, timeout=120,
        )  # fmt: skip

    def start(self) -> None:
        """Start it, and wait until it answers."""
        log = self.folder / "log"
        self.run("pg_ctl", "-D", self.data, "-l", log, "-w", "-t", "60", "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop it."""
        self.run("pg_ctl", "-D", self.data, "-w", "-t", "60", "-m", mode, "stop")

    def url(self, name: str, port: int | None = None, user: str = "owner") -> str:
        """Return the URL of a ledger."""
        return f"postgresql://{user}@127.0.0.1:{port or self.port}/postgres?ledger={name}"

    def sql(self, *statements: str) -> list[tuple]:
        """Run statements as the owner; return the rows of the last."""
        import psycopg

        with psycopg.connect(
            f"postgresql://owner@127.0.0.1:{self.port}/postgres", autocommit=True
        ) as connection:
            for one in statements:
                cursor = connection.execute(one)
            return cursor.fetchall() if cursor.description else []

    def close(self) -> None:
        """Stop it, and remove its folder."""
        for mode in ("fast", "immediate"):
            try:
                self.stop(mode)
                break
            except subprocess.SubprocessError:
                time.sleep(1)
        shutil.rmtree(self.folder, ignore_errors=True)


def start_server() -> Server:
    """Return a server, or skip."""
    pytest.importorskip("psycopg", reason="a ledger in PostgreSQL needs psycopg")
    if os.name != "posix":
        pytest.skip("the server of these tests starts on POSIX alone")
    programs = _programs()
    if programs is None:
        pytest.skip("there is no PostgreSQL server here (Debian: apt-get install postgresql)")
    try:
        return Server(programs)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"PostgreSQL does not start here: {type(error).__name__}")
