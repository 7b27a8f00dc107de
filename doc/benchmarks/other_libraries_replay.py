"""Record and replay over diffprivlib: what depends on rows without having passed a mechanism.

    PYTHONPATH=. FOLDER/diffprivlib-0.6.6/bin/python doc/benchmarks/other_libraries_replay.py

One pair of runs decides (`skdp.audit.replay_mechanism`); the environment has diffprivlib and what
skdp needs. Prints the table that ``results/other_libraries.md`` keeps.
"""

from __future__ import annotations

import datetime
import time
import warnings
from importlib.metadata import version

import numpy as np
from diffprivlib import models, tools

from skdp.audit import Primitive, replay_mechanism

warnings.simplefilter("ignore")

NAMES = (
    "laplace.Laplace", "laplace.LaplaceTruncated", "laplace.LaplaceFolded",
    "laplace.LaplaceBoundedDomain", "geometric.Geometric", "geometric.GeometricTruncated",
    "geometric.GeometricFolded", "gaussian.GaussianAnalytic", "exponential.PermuteAndFlip",
    "bingham.Bingham", "vector.Vector",
)  # fmt: skip


def sensitivity(arguments):
    return float(getattr(arguments["self"], "sensitivity", np.nan))


def settings(arguments):
    """Return what a mechanism was made with; its generator is its own."""
    made = arguments["self"]
    keys = ("epsilon", "delta", "sensitivity", "lower", "upper")
    return [type(made).__name__, *(repr(getattr(made, key, None)) for key in keys)]


PRIMITIVES = [
    Primitive(f"diffprivlib.mechanisms.{name}.randomise", "value", sensitivity, None, settings)
    for name in NAMES
    if "PermuteAndFlip" not in name and "Vector" not in name and "Bingham" not in name
]


def column(*values):
    return np.array(values, dtype=float)[:, None]


def kmeans(what):
    def run(X, rng):
        return getattr(models.KMeans(2, epsilon=1.0, bounds=(0, 1)).fit(X), what)

    return run


def bayes(pair, rng):
    X, y = pair
    fitted = models.GaussianNB(epsilon=1.0, bounds=(0, 1)).fit(X, y)
    return [fitted.classes_, fitted.theta_]


def linear(X, rng):
    fitted = models.LinearRegression(
        epsilon=1.0, bounds_X=(0, 100), bounds_y=(0, 1), fit_intercept=False
    )
    return fitted.fit(X, np.ones(len(X))).coef_


def scaler(X, rng):
    fitted = models.StandardScaler(epsilon=1.0, bounds=(0, 1)).fit(X)
    return [fitted.mean_, fitted.var_]


def histogram(X, rng):
    return tools.histogram(X[:, 0], epsilon=1.0, bins=4, range=(0, 1))


def mean(X, rng):
    return tools.mean(X[:, 0], epsilon=1.0, bounds=(0, 1))


EDGE = column(0, 0, 0, 0, 0), column(0, 0, 0, 0, 1)
MANY = column(*[0, 1] * 10), column(*[0, 1] * 9, 0, 0)
X6 = column(0, 0, 0, 1, 1, 1)
Y6 = np.array([0, 0, 0, 1, 1, 1]), np.array([0, 0, 0, 1, 1, 2])
NAN = column(0, 1, 0, 1), column(0, 1, 0, np.nan)
CASES = [
    ("k-means, centres", kmeans("cluster_centers_"), EDGE),
    ("k-means, centres, many rows", kmeans("cluster_centers_"), MANY),
    ("k-means, inertia_", kmeans("inertia_"), MANY),
    ("k-means, labels_", kmeans("labels_"), MANY),
    ("naive Bayes, classes read off y", bayes, ((X6, Y6[0]), (X6, Y6[1]))),
    ("linear regression", linear, (column(*[0.0] * 5), column(0, 0, 0, 0, 100))),
    ("standard scaler", scaler, MANY),
    ("mean", mean, MANY),
    ("mean, a missing cell", mean, NAN),
    ("histogram", histogram, MANY),
]


def main():
    name = f"diffprivlib-{version('diffprivlib')}"
    print(f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}\n")
    print("| library | mechanism | releases | found | seconds |")
    print("|---|---|---|---|---|")
    for case, run, (first, second) in CASES:
        started, problems, most = time.perf_counter(), {}, 0
        for seed in range(10):
            found = replay_mechanism(run, first, second, PRIMITIVES, random_state=seed)
            problems.update(dict.fromkeys(found.problems))
            most = max(most, found.n_releases)
        spent = time.perf_counter() - started
        what = "; ".join(list(problems)[:3]) or "nothing"
        print(f"| {name} | {case} | {most} | {what} | {spent:.1f} |", flush=True)


if __name__ == "__main__":
    main()
