"""Error of private densities against the same estimates without noise, in the same run.

A cell is the mean over seeds of the integrated absolute error (twice the total variation distance)
or of the integrated squared error, against the true density that the rows are drawn from. Beside
the private densities stands scikit-learn's KernelDensity with the bandwidth that is best for the
truth, of those that are half a power of two apart: an oracle, and without noise. Ratios are over
it. The histogram has its own number of bins.

Run: ``python doc/benchmarks/density.py [seeds]``.
"""

from __future__ import annotations

import sys

import numpy as np
from scipy.stats import lognorm, norm
from sklearn.base import clone
from sklearn.neighbors import KernelDensity

from skdp import DPHistogramDensity, DPKernelDensity, config_context

DELTA = 1e-6
POINTS = 1000


def normal(rng, n):
    return rng.normal(size=n)


def peaks(rng, n):
    return np.where(rng.random(n) < 0.7, rng.normal(0, 1, n), rng.normal(5, 0.2, n))


def skewed(rng, n):
    return rng.lognormal(np.log(20), 1, n)


DENSITIES = {
    "normal": (normal, norm.pdf, (-5, 5)),
    "two peaks": (peaks, lambda x: 0.7 * norm.pdf(x) + 0.3 * norm.pdf(x, 5, 0.2), (-5, 10)),
    "lognormal": (skewed, lambda x: lognorm.pdf(x, 1, scale=20), (0, 400)),
}
KINDS = {
    "kernel, delta": DPKernelDensity(delta=DELTA),
    "kernel": DPKernelDensity(),
    "cells": DPKernelDensity(features="cells"),
    "histogram": DPHistogramDensity(),
}


def errors(values, truth, width):
    """Return the integrated absolute and squared error."""
    gap = values - truth
    return np.array([np.abs(gap).mean() * width, np.square(gap).mean() * width])


def oracle(x, grid, truth, width):
    """Return the errors of KernelDensity with the best bandwidth for each."""
    found = []
    for j in range(6, 17):
        density = KernelDensity(bandwidth=width * 2.0 ** (-j / 2), rtol=1e-3).fit(x[:, None])
        found.append(errors(np.exp(density.score_samples(grid[:, None])), truth, width))
    return np.min(found, axis=0)


def main(seeds: int) -> None:
    """Print a line for each density, number of rows, epsilon and measure of error."""
    print(f"epsilon, delta = {DELTA:g} where it is above 0, replace_one; mean of {seeds} seeds")
    print("KDE: scikit-learn without noise, best bandwidth; the others as multiples of its error")
    print("abs: integrated absolute error; square: integrated squared error\n")
    print(
        f"{'density':<11}{'n':>7}{'eps':>5}{'':>8}{'KDE':>10}" + "".join(f"{k:>15}" for k in KINDS)
    )
    for name, (draw, pdf, (low, high)) in DENSITIES.items():
        width = high - low
        grid = low + width * (np.arange(POINTS) + 0.5) / POINTS
        truth = pdf(grid)
        truth = truth / (truth.mean() * width)  # of the rows within the bounds
        for n in (1_000, 10_000):
            samples = [draw(np.random.default_rng(seed), n) for seed in range(seeds)]
            base = np.mean([oracle(x, grid, truth, width) for x in samples], axis=0)
            for epsilon in (0.1, 1.0):
                found = []
                for kind in KINDS.values():
                    kind.set_params(bounds=(low, high), epsilon=epsilon)
                    parts = [
                        errors(
                            clone(kind)
                            .set_params(random_state=seed)
                            .fit(x[:, None])
                            .pdf(grid[:, None]),
                            truth,
                            width,
                        )
                        for seed, x in enumerate(samples)
                    ]
                    found.append(np.mean(parts, axis=0))
                for which, title in enumerate(("abs", "square")):
                    ratios = "".join(f"{e[which] / base[which]:>15.2f}" for e in found)
                    line = f"{name:<11}{n:>7}{epsilon:>5}{title:>8}{base[which]:>10.3g}{ratios}"
                    print(line, flush=True)


if __name__ == "__main__":
    with config_context(noise="seeded"):  # so that the tables repeat themselves
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 11)
