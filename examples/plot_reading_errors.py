"""
Error before a fit, after it, and of its intervals
==================================================

Three questions about noise, each with a figure: which error does an epsilon buy, which components
of a private PCA does noise hide, and do intervals contain the truth as often as they state?

Run it with ``python examples/plot_reading_errors.py``; ``--output`` says where the figure goes.
"""

# %%
# Before a fit: error against epsilon
# -----------------------------------
# ``expected_error`` reads no row, and nothing is charged. The axis on top of the first panel says
# how often the best attacker guesses right whether a row is in the table, if both are equally
# likely beforehand.

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from skdp import DPPCA, statistics
from skdp.inspection import ComponentsDisplay, IntervalDisplay, PrivacyUtilityDisplay

parser = argparse.ArgumentParser(description="Errors before a fit, after it, and of intervals.")
parser.add_argument(
    "--output",
    type=Path,
    default=Path("plot_reading_errors.png"),
    help="file the figure is saved to",
)
arguments = parser.parse_args()

stated: dict[str, Any] = {"bounds": (0, 1), "n_rows": "public"}
print(statistics.expected_error("mean", 1_000, epsilon=1.0, **stated))

# %%
# After a fit: components that noise hides
# ----------------------------------------
# The fit says how many components stand out of its noise. The others are drawn hollow in the
# second panel.

X = load_digits().data
pca = DPPCA(12, center=5.0, norm_bound=60.0, epsilon=1.0, delta=1e-6).fit(X)
print(f"{pca.n_resolved_} of {pca.n_components_} components are clear of the noise")

# %%
# Of intervals: how often they hold the truth
# -------------------------------------------
# For made-up rows the truth is known. The width of an interval is that of Laplace noise or of
# Gaussian noise, whichever is wider, so at low levels intervals contain the truth more often than
# they state.

x = np.linspace(0, 1, 500)
means = [statistics.mean(x, bounds=(0, 1)) for _ in range(300)]

# %%
# All three, drawn
# ----------------

figure, axes = plt.subplots(1, 3, figsize=(16, 4.5), layout="constrained")
PrivacyUtilityDisplay.from_estimator("mean", n_samples=[200, 1_000, 10_000], ax=axes[0], **stated)
ComponentsDisplay.from_estimator(pca, ax=axes[1])
IntervalDisplay.from_releases(means, x.mean(), ax=axes[2])
figure.savefig(arguments.output, dpi=120)
