"""The privacy loss of diffprivlib's Bingham sampler, computed from its acceptance rule.

python doc/benchmarks/bingham.py

It draws u from the angular central Gaussian of Omega = I + 2 A / b and accepts it with probability
exp(-u'Au) / (u'Omega u)^(d/2) / M; the right one has the last factor above the line (Kent, Ganeiber
and Mardia 2013, equation 3.4). So what comes out has the density exp(-u'Au) (u'Omega u)^(-d) times
a constant, which is computed here by Gauss-Jacobi quadrature. The two matrices differ by one row of
norm 1 that is replaced: k e1 e1' + e2 e2' and (k + 1) e1 e1'. The loss is that of the point e2, in
parts of the claimed epsilon; of each k of a grid, the worst is shown. Where diffprivlib is
installed, the mean squares of 20,000 draws are held against the density.
"""

from __future__ import annotations

from datetime import date

import numpy as np
from scipy import optimize, special

DIMENSIONS = (2, 3, 4, 5, 10, 30, 64, 100)
EPSILONS = (0.1, 1.0, 4.0)


def squares(d):
    """Return nodes and weights of (u1^2, u2^2, the rest) of uniform points of the sphere."""

    def beta(a, b, n):
        x, weights = special.roots_jacobi(n, b - 1, a - 1)
        return (1 + x) / 2, weights / weights.sum()

    first, of_first = beta(0.5, (d - 1) / 2, 400)
    if d == 2:
        return np.column_stack([first, 1 - first, 0 * first]), of_first
    part, of_part = beta(0.5, (d - 2) / 2, 200)
    first, part = np.repeat(first, len(part)), np.tile(part, len(first))
    nodes = np.column_stack([first, (1 - first) * part, (1 - first) * (1 - part)])
    return nodes, (of_first[:, None] * of_part).ravel()


def log_density(nodes, k, second, epsilon, d, power):
    """Return the log density at nodes, but for a constant; the right sampler has power 0."""
    A = epsilon / 4 * (max(k, second) - np.array([k, second, 0.0]))
    times = np.array([1, 1, d - 2])
    b = optimize.brentq(lambda b: (times / (b + 2 * A)).sum() - 1, 1e-9, d + 1)
    return -nodes @ A - power * np.log1p(2 * nodes @ A / b)


def loss(k, epsilon, d, rule, power):
    """Return the log of the ratio of both densities at e2."""
    nodes, weights = rule
    found = []
    for one, second in ((k, 1.0), (k + 1, 0.0)):
        logs = log_density(nodes, one, second, epsilon, d, power)
        total = logs.max() + np.log((np.exp(logs - logs.max()) * weights).sum())
        at = log_density(np.array([[0.0, 1.0, 0.0]]), one, second, epsilon, d, power)[0]
        found.append(at - total)
    return found[0] - found[1]


def drawn(d=5, k=9.4, epsilon=1.0, n=20_000):
    """Hold draws of the library against the density that is computed."""
    try:
        from diffprivlib import __version__
        from diffprivlib.mechanisms import Bingham
    except ImportError:
        print("diffprivlib is not installed: no draws")
        return
    matrix = np.diag([k, 1.0] + [0.0] * (d - 2))
    made = Bingham(epsilon=epsilon, random_state=0)
    draws = np.array([made.randomise(matrix) for _ in range(n)]) ** 2
    nodes, weights = squares(d)
    print(f"\n{n:,} draws of diffprivlib {__version__}, d = {d}, k = {k}, epsilon = {epsilon}:")
    for name, power in (("as computed here", d), ("if it were right", 0)):
        logs = log_density(nodes, k, 1.0, epsilon, d, power)
        mass = np.exp(logs - logs.max()) * weights
        mean = (mass / mass.sum()) @ nodes[:, 0]
        z = (draws[:, 0].mean() - mean) / (draws[:, 0].std() / n**0.5)
        print(f"mean of u1^2 {draws[:, 0].mean():.4f}, {name} {mean:.4f} (z = {z:.1f})")


def main():
    print(f"{date.today()}; largest loss of a replaced row over the claimed epsilon, by dimension")
    print(f"{'':24}" + "".join(f"{d:>7}" for d in DIMENSIONS))
    grid = np.geomspace(1, 3000, 80)
    for name, right in (("diffprivlib's rule", False), ("the right rule", True)):
        for epsilon in EPSILONS:
            row = []
            for d in DIMENSIONS:
                rule, power = squares(d), 0 if right else d
                row.append(max(loss(k, epsilon, d, rule, power) for k in grid) / epsilon)
            cells = "".join(f"{one:7.2f}" for one in row)
            print(f"{name:18} {epsilon:5}{cells}", flush=True)
    drawn()


if __name__ == "__main__":
    main()
