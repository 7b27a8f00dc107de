"""What an exact private kernel mean costs in time, over one pass of scikit-learn's rbf_kernel.

Prints one table, for n rows, 200 public centres and 10 dimensions: the exact whitened statistic
(before noise) with one scale and with two, gamma and 4 gamma, and a whole fit of DPuLSIF (two
scales, 2,000 public rows), over `sklearn.metrics.pairwise.rbf_kernel` on the same blocks with its
column sums (one gamma), in the same process. The whitening matrix is made from the Gram matrices
inside the time. skdp uses up to four threads. The goal is at most 3.

Run it with ``python doc/benchmarks/kernel_mean.py``; ``--quick`` takes a tenth of the rows.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel

from skdp import DPuLSIF
from skdp.density_ratio import stack_samples
from skdp.queries import KernelMap, LinearImage
from skdp.tabular import check_rows

N_CENTERS = 200
N_FEATURES = 10
GAMMA = 0.05
GOAL = 3.0


def one_pass(X: np.ndarray, centers: np.ndarray, spans: Sequence[tuple[int, int]]) -> np.ndarray:
    """Return the kernel mean of blocks as scikit-learn computes it, in floats."""
    total = np.zeros(len(centers))
    for start, stop in spans:
        total += rbf_kernel(X[start:stop], centers, gamma=GAMMA).sum(axis=0)
    return total / len(X)


def whitening(k: KernelMap) -> np.ndarray:
    """Return the stacked inverse roots of the Gram matrices, over the root of their number."""
    blocks = []
    for j, gram in enumerate(k.gram()):
        values, vectors = np.linalg.eigh(gram)
        keep = values > 1e-6 * values[-1]
        block = np.zeros((keep.sum(), k.n_dims))
        root = (vectors[:, keep] / np.sqrt(values[keep])).T
        block[:, j * k.n_centers : (j + 1) * k.n_centers] = root
        blocks.append(block / np.sqrt(k.n_scales))
    return np.vstack(blocks)


def exact(rows: Any, gammas: Sequence[float], centers: np.ndarray) -> np.ndarray:
    """Return the whitened statistic: kernel, certified whitening and the pass over all rows."""
    k = KernelMap(centers, gammas)
    return LinearImage(k, whitening(k)).apply(k.total(rows))


def best_times(runs: Sequence[Callable[[], Any]], repeats: int = 5) -> list[float]:
    """Return each run's shortest time in seconds; they take turns, as machines are shared."""
    times = [[] for _ in runs]
    for _ in range(repeats):
        for run, taken in zip(runs, times, strict=True):
            start = time.perf_counter()
            run()
            taken.append(time.perf_counter() - start)
    return [min(taken) for taken in times]


def time_table(n: int) -> None:
    """Print the times and their ratios."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, N_FEATURES))
    centers = rng.normal(size=(N_CENTERS, N_FEATURES))
    rows = check_rows(X, estimator="benchmark")
    spans = rows.spans(width=N_CENTERS, least=2048)  # as `KernelMap.total`
    scales = {"one scale": [GAMMA], "two scales": [GAMMA, 4 * GAMMA]}
    runs = [partial(exact, rows, gammas, centers) for gammas in scales.values()]
    # A whole fit: check of the rows, digest of seeded noise left out, release, choice of the ridge.
    both, y = stack_samples(private=X, public=rng.normal(size=(2000, N_FEATURES)))
    scales["DPuLSIF, a whole fit"] = []
    runs.append(partial(DPuLSIF(n_centers=N_CENTERS).fit, both, y))
    reference, *taken = best_times([partial(one_pass, X, centers, spans), *runs])
    print(
        f"\nWhitened kernel statistic, n = {n:,}, {N_CENTERS} centres, d = {N_FEATURES}, over "
        f"rbf_kernel in blocks of {spans[0][1]} rows (goal: at most {GOAL:g})"
    )
    print(f"{'scikit-learn rbf_kernel, one scale':42}{reference:8.3f} s{1:8.2f}")
    for name, seconds in zip(scales, taken, strict=True):
        label = name if name.startswith("DP") else f"exact, {name}"
        print(f"{label:42}{seconds:8.3f} s{seconds / reference:8.2f}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    options = parser.parse_args(arguments)
    time_table(100_000 if options.quick else 1_000_000)


if __name__ == "__main__":
    main()
