"""What a charge costs after few and after many charges, and what a budget adds to a fit.

python doc/benchmarks/ledger_growth.py
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
import warnings

import numpy as np

import skdp
from skdp import DPStandardScaler, PrivacyBudget
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


def growth(ledger, name, many):
    """Charge different amounts, and measure on the way."""
    budget = PrivacyBudget(1e6, 1e-3, ledger=ledger, accountant="gdp", delta_apart=1e-4)
    numbers = iter(range(many + 200))

    def charge():
        budget.charge(Cost(0.001 + next(numbers) * 1e-7), estimator="x")

    for _ in range(25):
        charge()
    show(f"{name}: a charge after 75", quantiles(charge, 100))
    for _ in range(many - 125):
        charge()
    show(f"{name}: a charge after {many:,}", quantiles(charge, 100))
    if ledger is not None:
        start = time.perf_counter()
        PrivacyBudget(1e6, 1e-3, ledger=ledger, accountant="gdp", delta_apart=1e-4)
        print(f"{name}: opening and checking {time.perf_counter() - start:.2f} s")


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
    growth(None, "in memory", 100_000)
    folder = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=folder) as place:
        growth(os.path.join(place, "a.budget"), "a file in memory", 100_000)


if __name__ == "__main__":
    main()
