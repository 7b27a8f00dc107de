"""The locks of a ledger: between threads, and between processes.

SQLite locks a file with POSIX record locks, which belong to the process: they vanish as soon as
*any* code of the process closes *any* descriptor of that file (a backup, a hash, a look at it). So
every transaction holds an ``flock`` on a sidecar file, ``<ledger>.lock``. Such a lock belongs to
the open file description, which nobody else has: whatever reads, copies or closes the ledger or the
sidecar does not touch it.

- **Threads**: the threads of a process take turns at each ledger (`Turn`), from the opening of a
  transaction to its closing. Code that interrupts a transaction (a signal handler, a destructor)
  and wants another one of the same ledger gets an error at once: it would wait for itself.
- **Forks**: a fork waits, for a while, until it has the turns of all ledgers in files and in
  memory, so no child inherits a transaction. A signal handler that forks in the middle of one
  cannot wait: the child's copy of that transaction cannot be committed. A child that C code forks
  may have a copy of the descriptor; so the lock is released explicitly, for all copies, and not by
  closing the file.
- **A sidecar that is removed or replaced**: the lock counts only while the name still leads to the
  file that was locked. This is checked after locking, and again before a commit.
- **Network file systems** (NFS, CIFS, FUSE and the like) are refused: a lock there may hold on one
  machine alone, or be lost with the connection. Other systems than Linux do not say what a file
  system is, so nothing is checked there.
- **Windows** has no ``flock``, and does not need it: SQLite's locks belong to the handle there.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import stat
import threading
import time
import weakref
from collections.abc import Callable, Hashable, Iterator

from skdp.exceptions import LedgerError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_MOUNTS = "/proc/self/mountinfo"

# Types of file systems whose locks are not kept by this machine's kernel alone. FUSE can be
# anything, and says nothing of what it is.
_NETWORK = re.compile(
    r"nfs\d?|cifs|smb\w*|ncpfs|afs|coda|9p|ceph|glusterfs|lustre|gpfs|beegfs|pvfs2|orangefs"
    r"|virtiofs|vboxsf|prl_fs|fuse(ctl|blk|\..*)?"
)

_FORK = 10.0  # seconds that a fork waits for the transactions of other threads
_BEFORE_FORK: list[Callable[[set[Turn]], None]] = []

# A process that charges in a loop on a slow disk would take the lock back before a waiting process
# has woken up. So after holding it for long, a process pauses so many seconds.
_PAUSE = 0.002
_free_again = 0.0  # when this process may ask


class Busy(LedgerError):
    """A lock of a ledger is held by others; nothing is wrong with the ledger."""


class Turn:
    """The right to a transaction of one ledger, which one thread of a process has at a time.

    `shown` is the name of the ledger in messages. Where a transaction may wait for a `network`, a
    fork does not wait for the turn; the child has a new one.
    """

    def __init__(self, shown: str, *, network: bool = False) -> None:
        self.shown, self.network = shown, network
        # Reentrant, because such a lock knows its owner: it is set and cleared by the same
        # instruction that takes and releases the lock, so that no signal comes in between.
        self._lock = threading.RLock()
        _ALL[next(_NUMBERS)] = self

    @contextlib.contextmanager
    def taken(self, timeout: float) -> Iterator[None]:
        """Hold the turn, after `timeout` seconds of waiting for other threads at most.

        Raises LedgerError if another thread holds it all the time; at once if this thread holds it.
        """
        lock = self._lock  # the child of a fork has another one
        if self.held():
            raise Busy(
                f"The ledger {self.shown} is in the middle of another transaction of this thread, "
                "which a signal handler, a destructor or a callback interrupted in order to use "
                "the same ledger. Nothing was charged or released by it: fit after the "
                "transaction, or in another thread."
            )
        try:
            if not lock.acquire(timeout=min(max(timeout, 0.0), threading.TIMEOUT_MAX)):
                raise Busy(
                    f"The ledger {self.shown} is used by another thread of this process (waited "
                    f"{timeout:g} s). Nothing was released."
                )
            yield
        finally:
            try:  # noqa: SIM105  the first call here releases: a signal may come after any call
                lock.release()
            except RuntimeError:  # not taken
                pass

    def held(self) -> bool:
        """Whether this thread of this process holds the turn."""
        owned: bool = self._lock._is_owned()  # type: ignore[attr-defined]
        return owned


_NUMBERS = itertools.count()
_ALL: weakref.WeakValueDictionary[int, Turn] = weakref.WeakValueDictionary()
_SHARED: weakref.WeakValueDictionary[Hashable, Turn] = weakref.WeakValueDictionary()


def shared_turn(key: Hashable, shown: str, *, network: bool = False) -> Turn:
    """Return the turn of this process for a key; the caller must keep it while it is needed."""
    turn = _SHARED.get(key)
    if turn is None:
        turn = _SHARED.setdefault(key, Turn(shown, network=network))
    turn.shown = shown
    return turn


def turn_of_file(path: str, turn: Turn | None = None) -> Turn:
    """Return the turn of a file or folder, by inode, because record locks belong to the inode."""
    status = os.stat(path)
    key = (status.st_dev, status.st_ino)
    if turn is not None:
        _SHARED[key] = turn
        return turn
    return shared_turn(key, path)


# Has as `taken` the turns that this thread took for the forks it is in the middle of.
_forks = threading.local()


def at_fork(before: Callable[[set[Turn]], None]) -> None:
    """Call `before` with the turns that are held for a fork before every fork."""
    _BEFORE_FORK.append(before)


def _before_fork() -> None:
    taken: list[Turn] = []
    vars(_forks).setdefault("taken", []).append(taken)
    deadline = time.monotonic() + _FORK
    for reference in _ALL.valuerefs():  # in the same order in all threads
        turn = reference()
        # Held here already: a signal handler forks in the middle of a transaction.
        if turn is not None and not turn.network and not turn.held():
            taken.append(turn)
            turn._lock.acquire(timeout=max(deadline - time.monotonic(), 0.0))
    mine = {turn for turn in taken if turn.held()}
    for call in _BEFORE_FORK:
        call(mine)


def _after_fork_in_parent() -> None:
    if forks := getattr(_forks, "taken", None):
        for turn in forks.pop():
            with contextlib.suppress(RuntimeError):  # it did not come in time
                turn._lock.release()


def _after_fork_in_child() -> None:
    global _forks
    _forks = threading.local()
    for reference in _ALL.valuerefs():
        turn = reference()
        if turn is not None:
            turn._lock = threading.RLock()


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )


def sidecar(path: str) -> str:
    """Return the name of the file that is locked for the ledger at `path`."""
    return path + ".lock"


class FileLock:
    """An exclusive lock on the sidecar file of the ledger at `path`, for one transaction."""

    def __init__(self, path: str, timeout: float) -> None:
        self.path, self.timeout = path, timeout
        self._name = sidecar(path)
        self._file = -1
        self._since = 0.0
        self._pid = os.getpid()

    def __enter__(self) -> FileLock:
        """Wait for the lock; raise LedgerError if it is not free in time, or there can be none."""
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
        with contextlib.suppress(OSError):
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                # The kernel wakes waiting threads in order; polling might never succeed.
                file, self._file = self._file, -1
                if _wait_for(file, deadline):
                    self._file = file
                    return
            raise Busy(
                f"The ledger {self.path} is locked by another process (waited {self.timeout:g} s). "
                "Nothing was released."
            )
        raise LedgerError(
            f"The ledger {self.path} lies on a file system without locks (flock); put it on a "
            "local disk. Nothing was released."
        )

    def __exit__(self, *error: object) -> None:
        global _free_again
        self._close()
        now = time.monotonic()
        if now - self._since > 10 * _PAUSE:
            _free_again = now + _PAUSE

    def holds(self) -> bool:
        """Whether the sidecar is still the file that is locked here, by this process."""
        if os.getpid() != self._pid:  # forked in the middle of a transaction
            return False
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
            try:  # not to wait for the writer of a pipe
                file = os.open(self._name, os.O_RDONLY | os.O_NONBLOCK | flags)
                if stat.S_ISREG(os.fstat(file).st_mode):
                    return file
                os.close(file)
                break
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
            f"The ledger {self.path} cannot be locked: {self._name} cannot be opened, or is no "
            "plain file; the file and its directory must be writable. Nothing was released."
        ) from None

    def _close(self) -> None:
        file, self._file = self._file, -1
        if file >= 0 and os.getpid() == self._pid:
            _unlock(file)
        elif file >= 0:  # the lock is the parent's, which may be in the middle of its transaction
            os.close(file)


def _unlock(file: int) -> None:
    with contextlib.suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_UN)  # also ends the lock of copies in forked children
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

    try:
        threading.Thread(target=wait, daemon=True).start()
    except RuntimeError:  # the interpreter is ending, or the process may have no more threads
        return _poll(file, deadline)
    in_time = False
    try:
        in_time = done.wait(max(deadline - time.monotonic(), 0.0))
    finally:
        with turn:
            given_up = not in_time
            if given_up and done.is_set():
                _unlock(file)
    return in_time


def _poll(file: int, deadline: float) -> bool:
    """Ask for a lock again and again; return whether it came in time. If not, close the file."""
    try:
        while time.monotonic() < deadline:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                file = -1
                return True
            time.sleep(_PAUSE)
    finally:
        if file >= 0:
            os.close(file)
    return False


@contextlib.contextmanager
def folder_locked(folder: str, timeout: float) -> Iterator[None]:
    """Hold a lock on a folder, so that of two new ledgers of one data set one is refused."""
    with turn_of_file(folder).taken(timeout), contextlib.ExitStack() as stack:
        deadline = time.monotonic() + timeout
        if fcntl is not None:
            file, pid = os.open(folder, os.O_RDONLY | os.O_CLOEXEC), os.getpid()
            # The lock of a child that was forked in the block is its parent's.
            stack.callback(lambda: _unlock(file) if os.getpid() == pid else os.close(file))
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= deadline:
                        raise Busy(
                            f"The folder {folder} is locked by another process "
                            f"(waited {timeout:g} s)."
                        ) from None
                    time.sleep(_PAUSE)
        yield


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
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), words[4])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= best:  # a later mount on the same point hides the earlier
            best, kind = len(point), types[0]
    return kind if _NETWORK.fullmatch(kind) else None
