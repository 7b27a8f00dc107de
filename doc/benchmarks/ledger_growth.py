"""What a charge costs after few and after many charges, and what a budget adds to a fit.

python doc/benchmarks/ledger_growth.py
"""

from __future__ import annotations

import functools
import math
import os
import statistics
import tempfile
import time
import warnings

import numpy as np
from sklearn.model_selection import GridSearchCV

import skdp
from skdp import DPKMeans, DPStandardScaler, PrivacyBudget, ledger
from skdp.budget import Cost
from skdp.exceptions import UncountedFitWarning


def quantiles(call, times):
    """Return the smallest and the median processor time of a call, and its median wall time."""
    processor, wall = [], []
    for _ in range(times):
        start, began = time.thread_time(), time.perf_counter()
        call()
        processor.append(1000 * (time.thread_time() - start))
        wall.append(1000 * (time.perf_counter() - began))
    return min(processor), statistics.median(processor), statistics.median(wall)


def show(name, found):
    print(f"{name:45} {found[0]:8.3f} {found[1]:8.3f} {found[2]:8.3f}")


def growth(folder, many):
    """Charge different amounts to a ledger in memory, and measure on the way and in files."""
    terms = {"accountant": "gdp", "separate_delta": 1e-4}
    numbers = iter(range(2 * many))

    def charge(budget):
        budget.charge(Cost(0.001 + next(numbers) * 1e-7), estimator="x")

    memory, done = PrivacyBudget(1e6, 1e-3, **terms), 0
    for wanted in (75, many):
        for _ in range(wanted - done):
            charge(memory)
        path = os.path.join(folder, f"{wanted}.budget")
        memory.backup(path)
        start = time.perf_counter()
        file = PrivacyBudget(1e6, 1e-3, ledger=path, **terms)
        opening = 1000 * (time.perf_counter() - start)
        show(f"a charge after {wanted:,}, in memory", quantiles(lambda: charge(memory), 100))
        show(f"a charge after {wanted:,}, a file", quantiles(lambda b=file: charge(b), 100))
        print(f"opening and checking {wanted:,} charges: {opening:.0f} ms")
        shown = {
            "repr": functools.partial(repr, file),
            "HTML": file._repr_html_,
            "show": functools.partial(ledger.show, path),
            "verify": functools.partial(ledger.verified, path),
        }
        for name, act in shown.items():
            show(f"{name} after {wanted:,}", quantiles(act, 3))
        done = wanted + 100


def nothing(estimator, X, y=None):
    """Score nothing: the search is of fits only."""
    return 0.0


def search(times=3):
    """Time 1,000 fits of a search on two processes, without a budget and with one."""
    X = np.random.default_rng(0).random((5_000, 4))
    grid = {"n_clusters": list(range(2, 202))}
    found = {}
    for _ in range(times):
        for name, where in (("no budget", None), ("a budget", "shared"), ("a budget, a file", "")):
            with tempfile.TemporaryDirectory() as folder:
                budget = None
                if where is not None:
                    path = None if where else os.path.join(folder, "search.budget")
                    budget = PrivacyBudget(1e9, ledger=path)
                model = DPKMeans(bounds=(0, 1), budget=budget)
                searched = GridSearchCV(model, grid, scoring=nothing, refit=False, n_jobs=2)
                start = time.perf_counter()
                searched.fit(X)
                found[name] = min(found.get(name, math.inf), time.perf_counter() - start)
                assert budget is None or budget.spent.epsilon == 1000
    for name, seconds in found.items():
        ratio = seconds / found["no budget"]
        print(
            f"a search of 1,000 fits of DPKMeans, n_jobs=2, {name:18} {seconds:7.2f} s {ratio:6.3f}"
        )


def main():
    print(f"skdp {skdp.__version__}; milliseconds: least and median processor time, median wall")
    X = np.random.default_rng(0).random((100, 3))

    def scaler(budget):
        return DPStandardScaler(epsilon=1.0, bounds=(0, 1), budget=budget)

    warnings.simplefilter("ignore", UncountedFitWarning)
    shared = PrivacyBudget(1e9)
    shared.__reduce__()  # as pickling does
    for name, budget in (
        ("no budget", None),
        ("a budget in memory", PrivacyBudget(1e9)),
        ("a budget without a path that was shared", shared),
    ):
        fit = scaler(budget).fit
        show(f"a fit of 100 rows, {name}", quantiles(lambda fit=fit: fit(X), 500))
    folder = "/dev/shm" if os.path.isdir("/dev/shm") else None  # no disk in the figures
    with tempfile.TemporaryDirectory(dir=folder) as place:
        growth(place, 100_000)
    search()


if __name__ == "__main__":
    main()
