"""How often intervals of quantiles hold, and how wide they are.

First, for kinds of columns, numbers of rows, epsilon, delta and levels q: the share of
`statistics.quantile(..., intervals=True)` whose intervals at 95% hold the quantile of the rows, and
that of the population. Then, for the median of a normal column: how many rows are in the interval,
by how many ranks the value is off, with the exponential mechanism beside it, and the width of the
population's interval over that without privacy.

    python doc/benchmarks/intervals.py [--runs 300]

Takes 2 to 5 ms a call: six minutes on one core.
"""

from __future__ import annotations

import argparse
import itertools
import platform
import subprocess
from datetime import datetime

import numpy as np

import skdp
from skdp import statistics

KINDS = {
    "ages": (lambda g, n: g.integers(18, 90, size=n).astype(float), (0, 120)),
    "normal": (lambda g, n: g.normal(size=n), (-8, 8)),
    "lognormal(6, 1.5)": (lambda g, n: g.lognormal(6, 1.5, size=n), (0, 1e6)),
    "0/1, 50%": (lambda g, n: (g.random(n) < 0.5).astype(float), (0, 1)),
    "0/1, 30%": (lambda g, n: (g.random(n) < 0.3).astype(float), (0, 1)),
    "near 3 or 97": (
        lambda g, n: np.where(g.random(n) < 0.5, 3.0, 97.0) + g.normal(size=n) * 0.01,
        (0, 100),
    ),
    "90% zeros, lognormal(3, 1)": (
        lambda g, n: np.where(g.random(n) < 0.9, 0.0, g.lognormal(3, 1, size=n)),
        (0, 1e4),
    ),
}
PRICES = ((0.3, 0.0), (2.0, 0.0), (2.0, 1e-6))
Z = 1.96


def held(g, name, n, price, q, runs):
    """Return in how many runs intervals at 95% hold: of the rows, of the population."""
    draw, bounds = KINDS[name]
    big = draw(g, 1_000_000)
    of_all = [np.quantile(big, q, method=method) for method in ("inverted_cdf", "linear")]
    found = np.zeros(2)
    for _ in range(runs):
        x = draw(g, n)
        answer = statistics.quantile(
            x, q, intervals=True, bounds=bounds, epsilon=price[0], delta=price[1], n_rows="public"
        )
        low, high = answer.interval()
        found[0] += low <= np.quantile(x, q) <= high
        low, high = answer.population_interval()
        found[1] += any(low <= one <= high for one in of_all)
    return found / runs


def widths(g, n, epsilon, runs):
    """Return medians over runs: rows in the interval, ranks off of two ways, relative width."""
    x = g.normal(50, 15, size=n)
    ask = {"bounds": (0, 120), "epsilon": epsilon, "n_rows": "public"}
    plain = 2 * Z * np.sqrt(np.pi / 2) * 15 / np.sqrt(n)
    found = []
    for _ in range(runs):
        answer = statistics.median(x, intervals=True, **ask)
        other = statistics.median(x, **ask)
        low, high = answer.interval()
        rows = np.count_nonzero((x >= low) & (x <= high))
        off = [abs(np.count_nonzero(x < float(one)) - n / 2) for one in (answer, other)]
        found.append((rows, *off, np.ptp(answer.population_interval()) / plain))
    return np.median(found, axis=0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=300)
    runs = parser.parse_args().runs
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    print("# Intervals of quantiles\n")
    print(
        f"skdp {skdp.__version__}, numpy {np.__version__}, Python {platform.python_version()}, "
        f"commit {commit}, {datetime.now():%Y-%m-%d}; {runs} calls a cell\n"
    )
    print("| column | rows | epsilon | delta | q | of the rows | of the population |")
    print("|---|---|---|---|---|---|---|")
    g = np.random.default_rng(1)
    every = []
    for name, n, price, q in itertools.product(KINDS, (200, 2000), PRICES, (0.5, 0.9, 0.99)):
        share = held(g, name, n, price, q, runs)
        every.append(share)
        print(f"| {name} | {n} | {price[0]} | {price[1]} | {q} | {share[0]:.1%} | {share[1]:.1%} |")
    least, mean = np.min(every, axis=0), np.mean(every, axis=0)
    print(f"\n- least: {least[0]:.1%} of the rows, {least[1]:.1%} of the population")
    print(f"- mean: {mean[0]:.1%} of the rows, {mean[1]:.1%} of the population\n")
    print("| rows | epsilon | rows in the interval | value off by ranks | exponential mechanism "
          "off by | population, width over that without privacy |")  # fmt: skip
    print("|---|---|---|---|---|---|")
    for n, epsilon in itertools.product((1000, 5000, 50_000), (0.1, 1.0)):
        rows, off, other, wide = widths(g, n, epsilon, runs)
        print(f"| {n} | {epsilon} | {rows:.0f} | {off:.0f} | {other:.0f} | {wide:.2f} |")


if __name__ == "__main__":
    main()
