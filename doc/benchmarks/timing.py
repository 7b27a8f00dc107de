"""How much the time of a draw and of a fit tells about one cell.

Fits on two neighbouring tables take turns, in random order, so that drift of the machine is the
same for both; what counts is the processor's time, which is what a clock shows on an idle machine.
The advantage (true less false positives) of the best threshold of times is estimated, and bounded
from below at confidence 0.999 whichever threshold that is: both empirical distribution functions
are within sqrt(log(2 / 0.0005) / (2 TIMES)) of the true ones (Dvoretzky, Kiefer & Wolfowitz with
Massart's constant). The control fits equal
tables. A charge is handed no row (`skdp.budget` imports nothing that holds any),
so its time can tell only what the cost tells, which is public.

    python doc/benchmarks/timing.py [TIMES]
"""

from __future__ import annotations

import datetime
import subprocess
import sys
import time
import warnings

import numpy as np

import skdp
from skdp.cluster import DPKMeans
from skdp.core.noise import discrete_laplace, exponential_mechanism
from skdp.core.transcript import record, replay
from skdp.preprocessing import DPStandardScaler
from skdp.quantile import DPMedian

TIMES = int(sys.argv[1]) if len(sys.argv) > 1 else 6000
ROWS = 200


def table(cell):
    X = np.resize([[0.25], [-0.25]], (ROWS, 1)).astype(float)
    X[0, 0] = cell
    return X


BOX = {"epsilon": 1.0, "bounds": (-1, 1)}
SCALER, MEDIAN, KMEANS = DPStandardScaler(**BOX), DPMedian(**BOX), DPKMeans(2, **BOX)


def scores(best):
    values = np.arange(64, dtype=np.int64)
    values[best] = 64
    return values


def replayed(estimator):
    """Return its fit with the releases of its first one.

    The time of what follows from releases tells no more than they do.
    """
    with record() as releases:
        estimator.fit(table(0.25))

    def fit(X):
        with replay(releases):
            estimator.fit(X)

    return fit


CASES = [
    ("scaler, equal tables (control)", SCALER.fit, table(0.25), table(0.25)),
    ("scaler, a cell from 0.25 to -1", SCALER.fit, table(0.25), table(-1.0)),
    ("scaler, a cell far outside the bounds", SCALER.fit, table(0.25), table(1e300)),
    ("scaler, a subnormal cell", SCALER.fit, table(0.25), table(5e-324)),
    ("median, a cell from 0.25 to -1", MEDIAN.fit, table(0.25), table(-1.0)),
    ("k-means, a cell from 0.25 to -1", KMEANS.fit, table(0.25), table(-1.0)),
    ("k-means, the same with equal releases", replayed(KMEANS), table(0.25), table(-1.0)),
    ("Laplace draw and sum, 0 or 2**40", lambda x: x + discrete_laplace(10.0, size=8), 0, 2**40),
    (
        "exponential mechanism, best candidate first or last",
        lambda s: exponential_mechanism(s, 1),
        scores(0),
        scores(63),
    ),
]


def times_of(run, first, second, rng):
    found = [[], []]
    for which in rng.permutation(np.repeat([0, 1], TIMES)):
        started = time.thread_time_ns()
        run((first, second)[which])
        found[which].append(float(time.thread_time_ns() - started))
    return found


def main():
    rng = np.random.default_rng(0)
    words = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
    print(f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}, skdp {skdp.__version__} at {commit}\n")
    print("| what | times each | medians, µs | advantage, proved | best threshold, measured |")
    print("|---|---|---|---|---|", flush=True)
    for name, run, first, second in CASES:
        run(first)
        a, b = times_of(run, first, second, rng)
        cuts = np.sort(np.concatenate([a, b]))
        gap = np.searchsorted(np.sort(a), cuts) - np.searchsorted(np.sort(b), cuts)
        advantage = np.abs(gap).max() / TIMES
        proved = max(0.0, advantage - 2 * np.sqrt(np.log(2 / 0.0005) / (2 * TIMES)))
        print(
            f"| {name} | {TIMES} | {np.median(a) / 1e3:.0f}, {np.median(b) / 1e3:.0f} "
            f"| {proved:.3f} | {advantage:.3f} |",
            flush=True,
        )


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
