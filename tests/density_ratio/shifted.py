"""Two samples, of which one is shifted against the other."""

from __future__ import annotations

import numpy as np

from skdp.density_ratio import stack_samples


def samples(seed=0, n=4000, N=200, d=2):
    rng = np.random.default_rng(seed)
    public, private = rng.normal(0, 1, (N, d)), rng.normal(0.6, 0.7, (n, d))
    return public, private, *stack_samples(private=private, public=public)


def ratio_of(public, d=2):
    """Return the true ratio of `samples`."""
    log = np.sum(public**2, axis=1) / 2 - np.sum((public - 0.6) ** 2, axis=1) / 2 / 0.49
    return np.exp(log) / 0.7**d
