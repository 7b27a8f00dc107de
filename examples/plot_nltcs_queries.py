"""
Many queries, one budget
========================

How many people cannot do this, and that, and a third thing? The National Long Term Care Survey
asked 21,574 people about 16 daily activities. There are 560 sets of three activities, and 8 answers
for each: 4,480 queries. If all are answered at once, the noise must cover what a person changes in
every table. Most tables tell little that others do not, so it should be enough to ask a few.

Run it with ``python examples/plot_nltcs_queries.py``; ``--output`` says where the figure goes.
"""

# %%
# The survey
# ----------
# Each row is a person, each column an activity, and 1 means "cannot". The table is public and is in
# ``tests/data`` of a checkout. Without it, a made-up table of the same size is used.

from __future__ import annotations

import argparse
import gzip
from fractions import Fraction
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

from skdp.budget import PrivacyBudget
from skdp.core import open_session
from skdp.queries import MarginalCells, row_counts
from skdp.synthetic import Domain, MWEMReleaser, PrivateMultiplicativeWeights, conjunctions
from skdp.tabular import check_coded

parser = argparse.ArgumentParser(description="All 3-way tables of the NLTCS under privacy.")
parser.add_argument(
    "--output",
    type=Path,
    default=Path("plot_nltcs_queries.png"),
    help="file the figure is saved to",
)
arguments = parser.parse_args()


def people() -> NDArray[np.int64]:
    """Return the survey, or rows of a similar kind: how frail a person is, then each activity."""
    path = Path("tests/data/nltcs.csv.gz")
    for place in (path, ".." / path):
        if place.exists():
            with gzip.open(place, "rt") as text:
                cells = np.loadtxt(text, delimiter=",", skiprows=1, dtype=np.int64)
            return np.repeat(cells[:, :-1], cells[:, -1], axis=0)
    rng = np.random.default_rng(0)
    frail = rng.normal(size=(21_574, 1))
    return (frail + rng.normal(size=(21_574, 16)) > np.linspace(0.5, 2.0, 16)).astype(np.int64)


X = people()
n, d = X.shape
domain = Domain.binary(d)
queries = conjunctions(3)
work = queries.workload(domain)
table = np.zeros(domain.sizes, dtype=np.int64)
np.add.at(table, tuple(X.T), 1)
exact = work.answers(table) / n
print(f"{n:,} people, {domain.n_cells:,} possible rows, {work.n_queries:,} queries")

# %%
# Noise on every table
# --------------------
# Adding or removing a person changes one cell in each of the 560 tables. The sensitivity is 560 for
# Laplace noise, and the square root of 560 for Gaussian noise. With an equal share for each table,
# skdp uses the same noise.

EPSILONS = (0.1, 1.0)
DELTA = 1e-6
rows = check_coded(X, domain, estimator="example")
budget = PrivacyBudget(100.0, 1e-3, adjacency="add_or_remove_one")


def noise_on_every_table(epsilon: float, delta: float) -> NDArray[np.float64]:
    """Answer every query with independent noise."""
    with open_session(
        rows, estimator="example", epsilon=epsilon, delta=delta, budget=budget
    ) as session:
        share = Fraction(1, len(work.groups))
        cells = [MarginalCells(work.sizes, columns) for columns in work.attribute_sets]
        tables = [row_counts(one, "marginal") for one in cells]
        return np.concatenate([session.answer(t, share).value.reshape(-1) for t in tables]) / n


def mwem(epsilon: float, delta: float) -> NDArray[np.float64]:
    """Answer every query by the distribution that MWEM releases."""
    released = MWEMReleaser(queries, domain=domain, epsilon=epsilon, delta=delta, budget=budget)
    return released.fit(X).predict(queries)


# %%
# A few tables instead
# --------------------
# `MWEMReleaser` starts from "all rows are equally likely". It chooses a table that this gets wrong
# and measures it together with two more columns, which costs the same. Then it fits the weights of
# all 65,536 possible rows to what it has measured so far. A few dozen tables say nearly everything
# about the others.

worst: dict[str, list[float]] = {}
for epsilon in EPSILONS:
    for name, method, delta in (
        ("Laplace noise on each table", noise_on_every_table, 0.0),
        ("Gaussian noise on each table", noise_on_every_table, DELTA),
        ("MWEM", mwem, 0.0),
        ("MWEM, Gaussian noise", mwem, DELTA),
    ):
        error = float(np.abs(method(epsilon, delta) - exact).max())
        worst.setdefault(name, []).append(error)
        print(f"epsilon {epsilon:<4g} {name:<30} largest error {error:.4f}")
uniform = float(np.abs(exact - 1 / 8).max())

# %%
# Questions as they come
# ----------------------
# If you do not know the questions in advance, use `PrivateMultiplicativeWeights`. Where what it has
# learned is good enough, it answers from that, which costs nothing. Where it is not, it measures,
# at most ``n_updates`` times. Here: how many cannot do both of two things, for all 120 pairs.

asked, answers, left = [], [], []
with PrivateMultiplicativeWeights(domain, alpha=0.1, n_updates=15).fit(X) as online:
    for i in range(d):
        for j in range(i):
            if online.n_updates_left_:
                pair = conjunctions(2, monotone=True, columns=[j, i])
                answers.append(online.answer(pair))
                asked.append(float(X[:, i] @ X[:, j]) / n)
                left.append(online.n_updates_left_)
print(f"{len(asked)} questions, {15 - left[-1]} of them measured")

# %%
# The picture
# -----------
# Left: the largest of 4,480 errors. Right: the answers to pairs against the exact ones (those that
# were measured are filled), and the target error.

figure, (left_axis, right_axis) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
styles = {
    "Laplace noise on each table": ("C1", "o", "--"),
    "Gaussian noise on each table": ("C2", "s", "--"),
    "MWEM": ("C0", "o", "-"),
    "MWEM, Gaussian noise": ("C3", "s", "-"),
}
for name, errors in worst.items():
    color, marker, line = styles[name]
    left_axis.loglog(EPSILONS, errors, color=color, marker=marker, linestyle=line, label=name)
left_axis.axhline(uniform, color="grey", linestyle=":", label="uniform distribution")
left_axis.set_xlabel("ε (δ = 1e-6 for Gaussian noise)")
left_axis.set_ylabel("largest error of 4,480 queries")
left_axis.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
left_axis.minorticks_off()
left_axis.set_ylim(top=40)
left_axis.legend(fontsize=8, loc="upper right")
left_axis.set_title("All 3-way tables")

measured = np.diff([15, *left]) < 0
x, y = np.array(asked), np.array(answers)
right_axis.plot([0, x.max()], [0, x.max()], color="grey", linewidth=1)
right_axis.fill_between([0, x.max()], [-0.1, x.max() - 0.1], [0.1, x.max() + 0.1], color="0.93")
right_axis.scatter(x[~measured], y[~measured], facecolors="none", edgecolors="C0", label="free")
right_axis.scatter(x[measured], y[measured], color="C3", label="measured")
right_axis.set_xlabel("exact fraction of people")
right_axis.set_ylabel("answer")
right_axis.set_ylim(0)
right_axis.legend()
right_axis.set_title("Pairs, asked one at a time (ε = 1)")
figure.savefig(arguments.output, dpi=150)
