"""The locks of a ledger: one for the threads of a process, one file for its processes.

Nothing is released here. SQLite locks a file with POSIX record locks, which belong to the process:
they vanish as soon as *any* code of the process closes *any* descriptor of that file (a backup, a
hash, a look at it). So every transaction holds an ``flock`` on a sidecar file, ``<ledger>.lock``,
beside the ledger. Such a lock belongs to the open file description, which nobody else has:
whatever else reads, copies or closes the ledger or the sidecar does not touch it.

- **Threads**: a transaction runs under one lock of the process, from open to close.
- **Forks**: a fork waits for that lock, so no child inherits a transaction. A child that C code
  forks may hold a copy of the descriptor for a moment; the lock is released explicitly, for all
  copies, and not by closing the file.
- **A sidecar that is removed or replaced**: the lock counts only while the name still leads to
  the file that was locked. That is asked after locking, and again before a commit.
- **Network file systems** (NFS, CIFS, FUSE and the like) are refused: there, a lock may be one
  machine's own, may be lost with the connection, or may be a record lock in disguise. Linux says
  what a file system is; elsewhere this is not checked.
- **Windows** has no ``flock``, and does not need it: SQLite's locks belong to the handle there.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import threading
import time
from collections.abc import Callable, Iterator

from skdp.exceptions import LedgerError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "FileLock",
    "at_fork",
    "folder_locked",
    "network_file_system",
    "one_at_a_time",
    "sidecar",
]

_MOUNTS = "/proc/self/mountinfo"

# Types of file systems whose locks are not kept by this machine's kernel alone. FUSE can be
# anything, and says nothing of what it is.
_NETWORK = re.compile(
    r"nfs\d?|cifs|smb\w*|ncpfs|afs|coda|9p|ceph|glusterfs|lustre|gpfs|beegfs|pvfs2|orangefs"
    r"|virtiofs|vboxsf|prl_fs|fuse(ctl|blk|\..*)?"
)

# Held from the opening of a connection to its closing, and across every fork.
_ONE = threading.RLock()
_BEFORE_FORK: list[Callable[[], None]] = []

# A process that charges in a loop, on a slow disk, would take the lock back before one that waits
# has woken up. So whoever held it for long lets this many seconds pass before it asks again.
_PAUSE = 0.002
_free_again = 0.0  # when this process may ask


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    """Hold the lock of this process, which a fork waits for."""
    with _ONE:  # the child of a fork has another one
        yield


def at_fork(before: Callable[[], None]) -> None:
    """Call `before` under the lock before every fork."""
    _BEFORE_FORK.append(before)


def _before_fork() -> None:
    _ONE.acquire()
    for call in _BEFORE_FORK:
        call()


def _after_fork_in_child() -> None:
    global _ONE
    _ONE = threading.RLock()


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=lambda: _ONE.release(),
        after_in_child=_after_fork_in_child,
    )


def sidecar(path: str) -> str:
    """Return the name of the file that is locked for the ledger at `path`."""
    return path + ".lock"


class FileLock:
    """An exclusive lock on a sidecar file, for one transaction.

    Parameters
    ----------
    path : str
        Of the ledger.
    timeout : float
        Seconds to wait for other processes.
    """

    def __init__(self, path: str, timeout: float) -> None:
        self.path, self.timeout = path, timeout
        self._name = sidecar(path)
        self._file = -1
        self._since = 0.0

    def __enter__(self) -> FileLock:
        """Wait for the lock.

        Raises
        ------
        LedgerError
            If it is not free in time, or there can be none.
        """
        if fcntl is None:
            return self
        deadline = time.monotonic() + self.timeout
        if (pause := _free_again - time.monotonic()) > 0:
            time.sleep(min(pause, _PAUSE))
        try:
            while True:
                self._file = self._open()
                self._lock(deadline)
                if self.holds():
                    self._since = time.monotonic()
                    return self
                self._close()  # somebody removed or replaced the sidecar in between: again
        except BaseException:  # an interrupt, too
            self._close()
            raise

    def _lock(self, deadline: float) -> None:
        """Lock the file that is open."""
        reason = "lies on a file system without locks (flock); put it on a local disk"
        with contextlib.suppress(OSError):
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                # The kernel wakes those that wait in turn; who polls might never have its turn.
                file, self._file = self._file, -1
                if _wait_for(file, deadline):
                    self._file = file
                    return
                reason = f"is locked by another process (waited {self.timeout:g} s)"
        raise LedgerError(f"The ledger {self.path} {reason}. Nothing was released.")

    def __exit__(self, *error: object) -> None:
        global _free_again
        self._close()
        now = time.monotonic()
        if now - self._since > 10 * _PAUSE:
            _free_again = now + _PAUSE

    def holds(self) -> bool:
        """Whether the sidecar is still the file that is locked here."""
        if fcntl is None:
            return True
        mine = os.fstat(self._file)
        try:
            there = os.stat(self._name, follow_symlinks=False)
        except OSError:
            return False
        return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)

    def _open(self) -> int:
        """Open the sidecar, making it if it is not there, for whoever may use the ledger."""
        flags = os.O_CLOEXEC | os.O_NOFOLLOW
        while True:
            try:
                return os.open(self._name, os.O_RDONLY | flags)
            except FileNotFoundError:
                pass
            except OSError:
                break
            try:
                file = os.open(self._name, os.O_RDWR | os.O_CREAT | os.O_EXCL | flags, 0o600)
            except FileExistsError:
                continue
            except OSError:
                break
            with contextlib.suppress(OSError):
                os.fchmod(file, stat.S_IMODE(os.stat(self.path).st_mode) & 0o666)
            return file
        raise LedgerError(
            f"The ledger {self.path} cannot be locked: {self._name} cannot be opened; the file and "
            "its directory must be writable. Nothing was released."
        ) from None

    def _close(self) -> None:
        file, self._file = self._file, -1
        if file >= 0:
            _unlock(file)


def _unlock(file: int) -> None:
    with contextlib.suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_UN)  # for copies in forked children, too
    os.close(file)


def _wait_for(file: int, deadline: float) -> bool:
    """Wait for a lock in a thread; return whether it came in time. If not, close the file."""
    turn, done = threading.Lock(), threading.Event()
    given_up = False

    def wait() -> None:
        fcntl.flock(file, fcntl.LOCK_EX)
        with turn:
            done.set()
            if given_up:
                _unlock(file)

    threading.Thread(target=wait, daemon=True).start()
    in_time = False
    try:
        in_time = done.wait(max(deadline - time.monotonic(), 0.0))
    finally:
        with turn:
            given_up = not in_time
            if given_up and done.is_set():
                _unlock(file)
    return in_time


@contextlib.contextmanager
def folder_locked(folder: str, timeout: float) -> Iterator[None]:
    """Hold a lock on a folder, so that of two new ledgers of one data set one is refused."""
    if fcntl is None:
        yield
        return
    file = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + timeout
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise LedgerError(
                        f"The folder {folder} is locked by another process (waited {timeout:g} s)."
                    ) from None
                time.sleep(0.002)
        yield
    finally:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_UN)
        os.close(file)


def network_file_system(path: str) -> str | None:
    """Return the type of the file system at `path` if its locks cannot be trusted, else None."""
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except OSError:  # not Linux
        return None
    best, kind = -1, ""
    for line in lines:
        mount, _, rest = line.partition(" - ")
        words, types = mount.split(" "), rest.split(" ")
        if len(words) < 5:
            continue
        # The kernel writes blanks and backslashes of names in octal.
        point = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), words[4])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= best:  # a later mount on the same point hides the earlier
            best, kind = len(point), types[0]
    return kind if _NETWORK.fullmatch(kind) else None
