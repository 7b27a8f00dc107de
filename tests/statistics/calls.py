"""Every private statistic, called on one table."""

from __future__ import annotations

import numpy as np

from skdp import statistics
from skdp.budget.budget import StandInBudget

ADJACENCIES = ("replace_one", "add_or_remove_one")
NOISELESS = 1e12
LOW, HIGH = np.array([-60.0, 2.0, 1e6]), np.array([300.0, 24.0, 3e6])
WHOLE = {"bounds": (LOW, HIGH)}

UNMETERED = {adjacency: StandInBudget(adjacency) for adjacency in ADJACENCIES}


def labels(X):
    """Return labels that are functions of rows, so that neighbours have neighbouring labels."""
    column = np.asarray(X, dtype=float)[:, 1]
    return (column > 12).astype(int) + (column > 16)


def asked(X, **options):
    with statistics.query_session(X, n_queries=2, **options) as session:
        first = session.ask(lambda row: row[0] > 100)
        session.ask(lambda row: row[1] / 24)
    return first


def subset(X, **options):
    return statistics.subset_sums(X, labels(X), classes=[2, 0, 1], **options)


def described(X, nan_policy="omit", **options):
    """Return the means of a description, which always leaves out missing cells."""
    return statistics.describe(X, **options).numbers["mean"]


# name, call(X, **options), options
CALLS = [
    ("count", statistics.count, {}),
    ("count_nonzero", statistics.count_nonzero, {}),
    ("count_nonzero", lambda X, **o: statistics.count_nonzero(X, axis=None, **o), {}),
    ("sum", statistics.sum, WHOLE),
    ("sum", lambda X, **o: statistics.sum(X, axis=None, **o), WHOLE),
    ("mean", statistics.mean, WHOLE),
    ("mean", statistics.mean, {}),
    ("mean", lambda X, **o: statistics.mean(X, axis=None, **o), WHOLE),
    ("var", statistics.var, WHOLE),
    ("std", statistics.std, WHOLE),
    ("covariance", statistics.covariance, WHOLE),
    ("correlation", statistics.correlation, WHOLE),
    ("histogram", lambda X, **o: statistics.histogram(np.asarray(X)[:, 0], **o)[0],
     {"bounds": (-60, 300)}),
    ("histogram2d", lambda X, **o: statistics.histogram2d(np.asarray(X)[:, :2], **o)[0],
     {"bounds": (LOW[:2], HIGH[:2])}),
    ("histogramdd", lambda X, **o: statistics.histogramdd(X, 3, **o)[0], WHOLE),
    ("histogramdd", lambda X, **o: statistics.histogramdd(X, 3, **o)[0], {}),
    ("subset_sums", subset, WHOLE),
    ("subset_sums", subset, {}),
    ("quantile", lambda X, **o: statistics.quantile(X, [0.1, 0.5, 0.9], **o), WHOLE),
    ("median", statistics.median, WHOLE),
    ("describe", described, WHOLE),
    ("query_session", asked, {}),
]  # fmt: skip
IDS = [f"{i}-{name}" for i, (name, _, _) in enumerate(CALLS)]
