"""Unconstrained least-squares importance fitting on released moments: pure functions.

Nothing is released here and no private row is seen. The model is w(x) = w0 + a.f(x) with features
f; the criterion is J(w) = E_public[w**2] / 2 - E_private[w] (Kanamori, Hido & Sugiyama 2009, eq.
5), whose only private part is h, the mean of the features over the private rows. The public part is
exact; h is known up to noise of a known covariance, which the criterion takes into account, so
that choosing the ridge and the features by it is post-processing and costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skdp.base.nystroem import LEAST_SIGNAL

Floats = NDArray[np.float64]

# A ridge is judged by J plus so many standard deviations of what noise makes of J, lest a small
# ridge wins by luck: where both samples were alike and noise was strong, the worst tenth of the
# weights was half as wrong as with 0; 0.5 and more shrank too much elsewhere.
CAUTION = 0.25


@dataclass(frozen=True)
class Moments:
    """What the least-squares fit needs to know of both samples, for one set of features.

    Attributes
    ----------
    second : ndarray of shape (b, b)
        Mean of f f' over the public rows (H of the source).
    first : ndarray of shape (b,)
        Mean of f over the public rows.
    rows : ndarray of shape (m, b)
        Features of some public rows, on which leaving one out is tried.
    n_public : int
        Number of public rows behind `second`.
    private : ndarray of shape (b,)
        Released mean of f over the private rows (h of the source).
    noise : ndarray of shape (b, r)
        The noise in `private` is noise @ z, z of mean 0 and covariance I.
    n_private : float
        Number of private rows, exact or released; at least 1.
    """

    second: Floats
    first: Floats
    rows: Floats
    n_public: int
    private: Floats
    noise: Floats
    n_private: float


def solve(moments: Moments, alpha: float, baseline: float) -> tuple[Floats, Floats]:
    """Return the minimiser a of J(w0 + a.f) + alpha |a|**2 / 2, and what noise does to it.

    With w0 = 0 it is uLSIF's (H + alpha I)^-1 h, eq. 15 of the source before truncation.

    Returns
    -------
    coef : ndarray of shape (b,)
    noise : ndarray of shape (b, r)
        The noise in coef is noise @ z, z of mean 0 and covariance I.
    """
    values, basis = np.linalg.eigh(moments.second)  # a ridge on top of it is never singular
    inverse = 1.0 / (np.maximum(values, 0.0) + alpha)
    sides = np.column_stack([moments.private - baseline * moments.first, moments.noise])
    solved = basis @ (inverse[:, None] * (basis.T @ sides))
    return solved[:, 0], solved[:, 1:]


def criterion(moments: Moments, alphas: Floats, baseline: float) -> tuple[Floats, Floats]:
    """Return the leave-one-out criterion J of every ridge, corrected for noise; lower is better.

    Leaving a public row out changes the public moments by a rank one term, so that one
    eigendecomposition serves all (Sherman & Morrison). With h + e for h, E[e] = 0 and Cov(e) = S,
    the term -h'a is too small by tr(A^-1 S), A = H + alpha I: the private rows would judge
    themselves. So that trace is added (Mallows' Cp), with S the covariance of the noise plus that
    of sampling, which is estimated under the fitted weights on the public rows. In directions in
    which public rows vary less than the noise there is no h to be seen: h'a counts as 0 there, a
    little too little gain, because the difference of two huge traces would decide otherwise.

    To second order J is -g'B g up to constants, g the noisy side of the normal equations and B =
    A^-1 - A^-1 H A^-1 / 2; noise of covariance S gives it the variance 2 tr(BSBS) + 4 g'BSBg.

    Returns
    -------
    J : ndarray of shape (n_alphas,)
    std : ndarray of shape (n_alphas,)
        What the noise in the private moments makes of J.
    """
    n = moments.n_public
    others = max(n - 1, 1)
    values, basis = np.linalg.eigh(moments.second)
    values = np.maximum(values, 0.0)
    rows = moments.rows @ basis
    private = moments.private @ basis
    # h minus the public mean without row i is start + baseline f_i / (n - 1).
    start = private - baseline * (moments.first @ basis) * (n / others)
    noise = basis.T @ moments.noise
    seen = values >= LEAST_SIGNAL**2 * np.square(noise).sum(axis=1)
    own_noise = noise * seen[:, None]
    side = private - baseline * (moments.first @ basis)
    result, std = np.empty(len(alphas)), np.empty(len(alphas))
    for k, alpha in enumerate(alphas):
        inverse = 1.0 / (values * (n / others) + alpha)
        scaled = rows * inverse
        leverage = np.minimum(np.einsum("ij,ij->i", scaled, rows) / others, 1 - 1e-9)
        gain = 1.0 / (others * (1.0 - leverage))
        fit = scaled @ start + baseline * leverage  # f_i' A^-1 (h - public mean without row i)
        own = scaled @ (private * seen)
        left_out = fit / (1.0 - leverage)
        linear = (private * seen) @ (inverse * start) + own * (baseline / others + fit * gain)
        weights = np.maximum(baseline + left_out, 0.0)
        total = weights.sum()
        spread = 0.0
        if total > 0:
            weights /= total
            mean = weights @ rows
            variance = weights @ rows**2 - mean**2
            spread = float(inverse @ np.maximum(variance, 0.0)) / moments.n_private
        trace = float(np.sum(inverse[:, None] * own_noise**2))
        both = np.einsum("ij,ij->i", scaled @ noise, scaled @ own_noise)
        trace += float(np.mean(both * gain))
        quadratic = 0.5 * np.mean((baseline + left_out) ** 2)
        result[k] = quadratic - baseline - np.mean(linear) + trace + spread
        form = inverse * (1.0 - 0.5 * values * inverse)  # B, diagonal here
        inner = own_noise.T @ (form[:, None] * own_noise)  # tr(BSBS) = |N'BN|**2, S = NN'
        linear_part = np.square(own_noise.T @ (form * side)).sum()
        std[k] = np.sqrt(2.0 * np.square(inner).sum() + 4.0 * linear_part)
    return result, std


def choose(every: Sequence[Moments], alphas: Floats, baseline: float) -> tuple[int, float]:
    """Return which features and which ridge the criterion likes best; the largest if it cannot."""
    best = (math.inf, 0, float(alphas.max()))
    if len(every) == len(alphas) == 1:
        return best[1:]
    for j, moments in enumerate(every):
        loss, std = criterion(moments, alphas, baseline)
        values = loss + CAUTION * std
        k = int(np.argmin(values))
        if values[k] < best[0]:
            best = (float(values[k]), j, float(alphas[k]))
    return best[1:]


def median_distance(rows: Floats) -> float:
    """Return the median Euclidean distance of distinct rows; 1 if all are the same."""
    unit = float(np.abs(rows).max(initial=0.0)) or 1.0
    rows = rows / unit  # squares of huge rows would overflow
    square = np.einsum("ij,ij->i", rows, rows)
    distances = square[:, None] + square - 2.0 * (rows @ rows.T)
    scale = float(square.max(initial=0.0)) * 1e-12
    apart = distances[np.triu_indices(len(rows), 1)]
    apart = apart[apart > scale]
    return float(np.sqrt(np.median(apart))) * unit if apart.size else 1.0
