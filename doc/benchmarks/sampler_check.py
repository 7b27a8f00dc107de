"""Discrete Laplace noise beside OpenDP's, by chi-square; rounded Gaussian noise by its cells.

    OPENDP=/path/to/python/with/opendp python doc/benchmarks/sampler_check.py [DRAWS]

Ours: DRAWS (ten million by default); theirs: a hundredth, at least 100,000, for each scale. Two
samples are compared by chi-square over the values that both give often enough, tails merged; our
draws are also compared with the exact probabilities. Theirs of a Gaussian are drawn from the
discrete Gaussian, which is another distribution than a rounded one: only ours is compared, with its
exact cells.
"""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
import time

import numpy as np
from scipy import stats

import skdp
from skdp.core.noise import discrete_laplace, rounded_gaussian

DRAWS = int(float(sys.argv[1])) if len(sys.argv) > 1 else 10_000_000
THEIRS = max(100_000, DRAWS // 100)
SCALES = (0.5, 2.0, 10.0)

OPENDP = """
import json, sys
import opendp.prelude as dp
dp.enable_features("contrib")
draw = dp.m.make_laplace(
    dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int), scale=float(sys.argv[1])
)
print(json.dumps(draw([0] * int(sys.argv[2]))))
"""


def counts(values, edge):
    """Return how often each value in [-edge, edge] occurs, tails merged into the ends."""
    return np.bincount(np.clip(values, -edge, edge) + edge, minlength=2 * edge + 1)


def main():
    words = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
    print(f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}, skdp {skdp.__version__} at {commit}\n")
    print("| noise | scale | draws of ours | of theirs | against | cells | p | seconds |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for scale in SCALES:
        started = time.perf_counter()
        edge = int(np.ceil(scale * np.log(THEIRS / 100)))
        ours = np.zeros(2 * edge + 1, dtype=np.int64)
        for _ in range(max(1, DRAWS // 1_000_000)):
            ours += counts(discrete_laplace(scale, size=min(DRAWS, 1_000_000)), edge)
        n, t = int(ours.sum()), np.exp(-1 / scale)
        k = np.abs(np.arange(-edge, edge + 1))
        exact = (1 - t) / (1 + t) * t**k
        exact[[0, -1]] = t**edge / (1 + t)
        p = stats.chisquare(ours, exact * n).pvalue
        spent = time.perf_counter() - started
        cells = 2 * edge + 1
        print(
            f"| Laplace | {scale:g} | {n} | | exact | {cells} | {p:.3f} | {spent:.1f} |", flush=True
        )
        done = subprocess.run(
            [os.environ["OPENDP"], "-c", OPENDP, str(scale), str(THEIRS)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        theirs = counts(np.array(json.loads(done.stdout)), edge)
        p = stats.chi2_contingency(np.array([ours, theirs])).pvalue
        spent = time.perf_counter() - started
        print(
            f"| Laplace | {scale:g} | {n} | {theirs.sum()} | OpenDP's | {cells} | {p:.3f} "
            f"| {spent:.1f} |", flush=True,
        )  # fmt: skip
        started = time.perf_counter()
        edge = int(np.ceil(4 * scale))
        ours = np.zeros(2 * edge + 1, dtype=np.int64)
        for _ in range(max(1, DRAWS // 1_000_000)):
            ours += counts(rounded_gaussian(scale, size=min(DRAWS, 1_000_000)), edge)
        cuts = np.append(np.append(-np.inf, np.arange(-edge + 0.5, edge)), np.inf)
        exact = np.diff(stats.norm.cdf(cuts / scale))
        p = stats.chisquare(ours, exact * ours.sum()).pvalue
        spent = time.perf_counter() - started
        print(
            f"| Gaussian | {scale:g} | {ours.sum()} | | exact | {2 * edge + 1} | {p:.3f} "
            f"| {spent:.1f} |", flush=True,
        )  # fmt: skip


if __name__ == "__main__":
    main()
