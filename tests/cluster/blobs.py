"""Blobs to be clustered, a seeded DPKMeans, and centres beside others."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from skdp import PrivacyBudget
from skdp.cluster import DPKMeans

A, R = "add_or_remove_one", "replace_one"


def dpkmeans(n_clusters=8, *, adjacency=R, epsilon=1.0, delta=0.0, **params):
    """Return a seeded DPKMeans with a budget of its own, which sets the relation."""
    budget = PrivacyBudget(epsilon, delta, adjacency=adjacency)
    params = {"random_state": 0, "bounds": (-1.5, 1.5), **params}
    return DPKMeans(n_clusters, epsilon=epsilon, delta=delta, budget=budget, **params)


def blobs(seed, n=20_000, d=2, k=8, std=0.06):
    rng = np.random.default_rng(seed)
    centers = rng.uniform(-1, 1, size=(k, d))
    return centers[rng.integers(k, size=n)] + std * rng.normal(size=(n, d))


def matched(model, centers):
    """Return the order that puts a model's centres beside the given ones."""
    distances = np.square(centers[:, None, :] - model.cluster_centers_).sum(axis=2)
    return linear_sum_assignment(distances)[1]


def four_corners():
    """Four well separated blobs near the corners of a square, and their centres."""
    rng = np.random.default_rng(0)
    centers = np.array([[-1, -1], [-1, 1], [1, -1], [1, 1]]) * 0.8
    return np.repeat(centers, 500, axis=0) + 0.05 * rng.normal(size=(2000, 2)), centers
