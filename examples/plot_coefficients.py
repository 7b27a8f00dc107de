"""
Coefficients to publish
=======================

What is an hour of practice worth? A private regression, with intervals for the population that the
rows were drawn from, and for the rows at hand.

Run it with ``python examples/plot_coefficients.py``; ``--output`` says where the figure goes.
"""

# %%
# One fit
# -------
# Bounds are stated from public knowledge. Age has no effect here.

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp import DPLinearRegression, PrivacyBudget

parser = argparse.ArgumentParser(description="A private regression with intervals.")
parser.add_argument("--output", type=Path, default=Path("plot_coefficients.png"))
arguments = parser.parse_args()

rng = np.random.default_rng(0)
n = 20_000
practice = rng.gamma(3.0, 2.0, n)
age = 20 + 3 * practice + rng.uniform(0, 25, n)
people = pd.DataFrame({"practice": practice, "age": age, "taught": rng.integers(0, 2, n)})
score = 40 + 2 * practice + 3 * people["taught"] + rng.normal(0, 10, n)

bounds = {"practice": (0, 30), "age": (20, 135), "taught": (0, 1)}
model = DPLinearRegression(
    bounds=bounds, target_bounds=(0, 140), epsilon=2.0, budget=PrivacyBudget(2.0)
).fit(people, score)
print(model.summary())

# %%
# Two questions, two intervals
# ----------------------------
# Intervals of the population add the sampling error. Both come from the same release.

figure, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
for shift, of in ((0.1, "population"), (-0.1, "rows")):
    table = model.summary(of=of).to_frame().drop(index="intercept")
    place = np.arange(len(table)) + shift
    ax.hlines(place, table["low"], table["high"], color=f"C{int(shift < 0)}", label=of)
    ax.plot(table["coef"], place, "o", color=f"C{int(shift < 0)}")
ax.plot([2, 0, 3], range(3), "k|", ms=20, label="true")
ax.axvline(0, color="grey", lw=0.8)
ax.set(yticks=range(3), yticklabels=table.index, xlabel="points (95% intervals)")
ax.legend()
figure.savefig(arguments.output, dpi=120)
