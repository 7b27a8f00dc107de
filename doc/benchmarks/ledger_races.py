"""Charge one ledger from several processes while all of them read, copy and close its files.

POSIX record locks, which SQLite uses, vanish when any code of a process closes any descriptor of
the file. Threads here do nothing else: they read the ledger and its lock file, copy both, and look
at them with SQLite, every millisecond. What was granted must be what is recorded.

    python doc/benchmarks/ledger_races.py --seconds 60 --start spawn
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing as mp
import os
import queue as queues
import shutil
import sqlite3
import sys
import tempfile
import threading
import time

from skdp.budget import Cost, PrivacyBudget, locks
from skdp.exceptions import LedgerError, SealedBudgetError


class Unlocked(locks.FileLock):
    """What protected a ledger before there was a lock file: nothing but SQLite."""

    def __enter__(self):
        return self

    def holds(self):
        return True


def look(path, stop, folder):
    """Read, copy and close the files of a ledger until `stop`."""
    copy = os.path.join(folder, f"copy-{os.getpid()}")
    while not stop.is_set():
        for name in (path, path + ".lock", path + "-journal"):
            with contextlib.suppress(OSError):
                with open(name, "rb") as file:
                    file.read(100)
                shutil.copyfile(name, copy)
        time.sleep(0.001)


def charge(path, queue, seconds, folder, unlocked):
    """Charge as often as possible; tell how often it was granted, and the errors."""
    if unlocked:
        locks.FileLock = Unlocked
    stop = threading.Event()
    granted, errors = 0, {}
    budget = PrivacyBudget(1000.0, ledger=path)
    threads = [threading.Thread(target=look, args=(path, stop, folder)) for _ in range(2)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            budget.charge(Cost(0.001), estimator="x")
            granted += 1
        except (LedgerError, SealedBudgetError) as error:
            text = f"{type(error).__name__}: {error}"
            errors[text] = errors.get(text, 0) + 1
    stop.set()
    for thread in threads:
        thread.join()
    queue.put((granted, errors))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--start", default="spawn", choices=["spawn", "fork", "forkserver"])
    parser.add_argument("--unlocked", action="store_true", help="as before: it must fail")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.budget")
        PrivacyBudget(1000.0, ledger=path)
        context = mp.get_context(options.start)
        queue = context.Queue()
        arguments = (path, queue, options.seconds, folder, options.unlocked)
        processes = [
            context.Process(target=charge, args=arguments) for _ in range(options.processes)
        ]
        for process in processes:
            process.start()
        results = []
        while len(results) < len(processes):
            try:
                results.append(queue.get(timeout=1.0))
            except queues.Empty:
                if not any(process.is_alive() for process in processes):
                    break
        for process in processes:
            process.join()
        granted = sum(count for count, _ in results)
        errors = {text: n for _, found in results for text, n in found.items()}
        try:
            recorded = len(PrivacyBudget(1000.0, ledger=path).charges)
            with contextlib.closing(sqlite3.connect(path)) as connection:
                check = connection.execute("PRAGMA integrity_check").fetchone()[0]
        except (LedgerError, sqlite3.Error) as error:
            recorded, check = -1, repr(error)
    print(f"granted {granted}, recorded {recorded}, integrity {check}, errors {errors}")
    whole = len(results) == len(processes)
    sys.exit(not (whole and granted == recorded > 0 and check == "ok" and not errors))


if __name__ == "__main__":
    main()
