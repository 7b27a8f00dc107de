"""Estimators with their worst pairs of tables, which `test_audit` audits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from calls import Called
from cases import budget_of, two_samples
from sklearn.base import BaseEstimator
from sklearn.dummy import DummyRegressor
from sklearn.preprocessing import PolynomialFeatures
from toys import Toy

from skdp import statistics
from skdp.cluster import DPKMeans
from skdp.core.transcript import record, replay
from skdp.decomposition import DPPCA
from skdp.density_ratio import DPLogisticRatio, DPuLSIF
from skdp.ensemble import (
    DPExplainableBoostingClassifier,
    DPExplainableBoostingRegressor,
    DPTrainOnRelease,
)
from skdp.neighbors import DPHistogramDensity, DPKernelDensity
from skdp.preprocessing import DPMinMaxScaler, DPStandardScaler
from skdp.quantile import DPMedian, DPQuantile
from skdp.synthetic import (
    Domain,
    DPEmpiricalCDF,
    DPMarginalSynthesizer,
    MWEMReleaser,
    PrivateMultiplicativeWeights,
    SmallDBReleaser,
    conjunctions,
)

CONFIDENCE = 1 - 3e-6
PURE = {"epsilon": 4.0}
# mu = 1.8: events are neither rare nor common. The accountant asks for Gaussian noise.
GAUSS = {"epsilon": 4.0, "delta": 0.05, "budget": budget_of("replace_one", None, "gdp")}
GAUSS_A = {**GAUSS, "budget": budget_of("add_or_remove_one", None, "gdp")}


class Recorded(BaseEstimator):
    """Fits an estimator and keeps the log-likelihood ratio of all its releases together.

    The best test there is (Neyman & Pearson). It is a function of the releases: the exact
    statistics in it are those of both public tables, whichever was fitted; asked for with the same
    earlier releases, as adaptive composition has it.
    """

    def __init__(
        self, estimator: Any, X: Any, X_neighbour: Any, y: Any = None, y_neighbour: Any = None
    ) -> None:
        self.estimator = estimator
        self.X = X
        self.X_neighbour = X_neighbour
        self.y = y
        self.y_neighbour = y_neighbour

    def _marks(self, of_first: bool) -> list[Any]:
        y = self.y if of_first else self.y_neighbour
        return [] if y is None else [y]

    def privacy_cost(self) -> Any:
        return self.estimator.privacy_cost()

    def fit(self, X: Any, y: Any = None) -> Recorded:
        on_first = np.array_equal(X, self.X)
        with record() as transcript:
            self.estimator.fit(X, *self._marks(on_first))
        released = self.estimator.privacy_
        levels = {r.name: r.epsilon if r.mu is None else r.mu for r in released.releases}
        with replay(transcript) as other:
            self.estimator.fit(self.X_neighbour if on_first else self.X, *self._marks(not on_first))
        first, second = (transcript, other) if on_first else (other, transcript)
        self.score_ = 0.0
        for a, b in zip(first.entries, second.entries, strict=True):
            # The sensitivity of a joint release of counts and sums is in units of its loss.
            level = levels.get(a.name, a.sensitivity)
            near = a.distance(a.released, a.exact) * level / a.sensitivity
            far = b.distance(a.released, b.exact) * level / a.sensitivity
            self.score_ += (far**2 - near**2) / 2 if released.mu else far - near
        return self


@dataclass(frozen=True)
class Pair:
    """An estimator with its worst pair of tables.

    Attributes
    ----------
    statistic : str, callable or None
        Fitted attribute, or function of the fit, that tells the tables apart; None for the
        likelihood ratio of releases.
    factor : float
        The variant's: how much more it loses than it claims.
    public : ndarray or None
        Public rows behind those of both tables, which are the private ones of two samples then.
    labels : pair of ndarray or None
        Of the rows of both tables.
    """

    name: str
    estimator: Any
    X: np.ndarray
    X_neighbour: np.ndarray
    statistic: Any
    n_runs: int
    factor: float = 1.5
    public: np.ndarray | None = None
    labels: tuple[np.ndarray, np.ndarray] | None = None

    def tables(self) -> tuple[Any, Any, Any, Any]:
        """Return X, X_neighbour, y, y_neighbour."""
        if self.public is None:
            return self.X, self.X_neighbour, *(self.labels or (None, None))
        (X, y), (other, y_other) = (two_samples(x, self.public) for x in (self.X, self.X_neighbour))
        return X, other, y, y_other


A = {"budget": budget_of("add_or_remove_one")}
ZEROS = np.zeros((8, 1))
UP, DOWN = np.append(ZEROS, [[1.0]], axis=0), np.append(ZEROS, [[-1.0]], axis=0)
MANY = np.zeros((60, 1))
BOX = {"bounds": (-1, 1)}
BALL = {"norm_bound": 1.0, "center": 0.0}
LLOYD = {"algorithm": "lloyd", "max_iter": 1, **BOX}

# Quartiles of five values: the row that moves from 1 to -1 turns the odds of the two empty regions
# beside each quartile from e**(epsilon/4) to its inverse. A tenth of epsilon goes to the bounds.
FIVE = np.repeat([-1.0, -0.5, 0.0, 0.5, 1.0], [49, 1, 99, 1, 50])[:, None]
FIVE_MOVED = np.append(FIVE[:-1], [[-1.0]], axis=0)


def quartiles_below(fitted):
    """Return how many of the released quartiles lie in the lower of their two regions."""
    if hasattr(fitted, "quantiles_"):
        return float((fitted.quantiles_[0, 0] < -0.5) + (fitted.quantiles_[2, 0] < 0.5))
    return float((fitted.data_min_[0] < -0.5) + (fitted.data_max_[0] < 0.5))


THREE = DPQuantile(epsilon=8.0, **BOX)
QUARTILES = DPMinMaxScaler(q=0.25, epsilon=16.0)

# Of two gaps between rows the one is a rank nearer to the median than the other, then a rank
# further (R), or as near (A). Their widths are such that the upper one is neither rare nor common.
GAPS = np.array([[-1.0], [0.8], [1.0], [1.0]]), np.array([[-1.0], [-1.0], [0.8], [1.0]])
GAPS_A = np.array([[-1.0], [-1.0], [0.1], [1.0]]), np.array([[-1.0], [0.1], [1.0]])


def beyond_gap(fitted):
    """Return 1 if a private median lies in the upper gap."""
    replaced = fitted.budget is None or fitted.budget.adjacency == "replace_one"
    return float(fitted.median_[0] > (0.8 if replaced else 0.1))


# Two samples. Stated parameters, and a baseline that no noise pushes below 0: then coef_ is linear
# in what was released.
KERNEL = {"gamma": 1.0, "alpha": 1.0, "baseline": 10.0}
CENTERS = np.array([[0.0], [100.0]])
MOVED = np.zeros((9, 1)), np.append(ZEROS, [[100.0]], axis=0)
ADDED = MOVED[1], ZEROS
VARIANT_B = DPuLSIF(noise="independent", **PURE, **KERNEL)
VARIANT_A = DPuLSIF("noisy", n_centers=1, noise="independent", **BOX, **PURE, **KERNEL)
PAIRED = np.array([[-1.0], [-1.0]]), np.array([[-1.0], [1.0]])
OF_BASIS = DPuLSIF(
    basis=PolynomialFeatures(1, include_bias=False), basis_bounds=(-1, 1), baseline=10.0, alpha=1.0,
    **PURE,
)  # fmt: skip
LOGISTIC = DPLogisticRatio(10.0, **{**GAUSS, "epsilon": 10.0}, **BOX)
POLES = np.array([[1.0]]), np.array([[-1.0]])


def centre_and_mean(fitted):
    """Return the log-likelihood ratio of the two releases of variant A on `PAIRED`.

    One of two rows is sampled, at epsilon / 2 amplified by 2; Laplace noise for a box of width 2.
    The mean over two rows of one kernel value has Laplace noise at epsilon / 2.
    """
    half = fitted.epsilon / 2
    amplified = math.log1p(2 * math.expm1(half))
    c = float(fitted.centers_[0, 0])
    at_public, left, right = (math.exp(-((c - x) ** 2)) for x in (0.0, -1.0, 1.0))
    # From the coefficient, (h - baseline k) / (k**2 + alpha) with k at the public row, back to h.
    h = float(fitted.coef_[0]) * (at_public**2 + fitted.alpha) + fitted.baseline * at_public
    sampled = math.log(0.5 + 0.5 * math.exp(amplified * (abs(c + 1) - abs(c - 1)) / 2))
    return sampled + 2 * half * (abs(h - left) - abs(h - (left + right) / 2))


# Kernels four bandwidths apart hardly overlap: a row that goes from one to the other moves the mean
# features by all of sqrt(2).
LONG = {"bandwidth": 1.0, "bounds": (0, 4)}
ENDS = np.array([[0.0]]), np.array([[4.0]])


def ends(fitted):
    """Return the difference of the released kernel density at both ends, its likelihood ratio."""
    return float(fitted.coef_ @ np.diff(np.exp(-((fitted.centers_ - [0.0, 4.0]) ** 2) / 2))[:, 0])


def moved(fitted):
    """Return the log-likelihood ratio of Laplace noise on the cells at both ends, up to scale."""
    first, last = (fitted.coef_[np.argmin(np.abs(fitted.centers_ - x))] for x in (0.0, 4.0))
    return abs(first) - abs(first - 1.0) + abs(last - 1.0) - abs(last)


# Of 301 tables of one point, that at the least value gets better by a row and all others worse, so
# the odds of the rare one show nearly all of epsilon.
CDF = {"bounds": (0, 1), "n_cells": 301, "size": 1}
THIRDS = np.array([[0.0], [0.0], [1.0]]), np.zeros((3, 1))


def least(fitted):
    """Return 1 if the released value is the least one."""
    return float(fitted.database_[0, 0] == 0.0)


def lines(fitted):
    """Return slope and intercept of the logarithm of the weights."""
    return [fitted.coef_[0], fitted.intercept_]


# The table of one point in the first cell says how many rows are there. A row that comes there
# makes it better by one and all other tables worse by one (R). A row more (A) moves scores one way
# only, so that half of epsilon is all that tables of one point can show.
FIRST = {"queries": conjunctions(1, monotone=True, values=0), "size": 1}
SMALL_R = SmallDBReleaser(**FIRST, domain=Domain([8]), **PURE)
SMALL_A = SmallDBReleaser(**FIRST, domain=Domain([50]), epsilon=8.0, **A)
FIRST_CELL, NEXT_CELL = np.zeros((1, 1)), np.ones((1, 1))


def in_first_cell(fitted):
    """Return 1 if the released point is in the first cell."""
    return float(fitted.database_[0, 0] == 0)


# All rows but one in the first of two cells: nothing is chosen, and the odds of the cells grow with
# the difference of the noisy counts. It shows most of what Laplace noise on both of them loses.
ONE_TABLE = MWEMReleaser(conjunctions(1), domain=2, **PURE)
ONE_TABLE_GAUSS = MWEMReleaser(conjunctions(1), domain=2, **GAUSS)
CELLS = np.zeros((30, 1), dtype=int), np.repeat([[0], [1]], [29, 1], axis=0)


class Online(PrivateMultiplicativeWeights):
    """Asks five times for the part of the rows in the second cell, then keeps what it said."""

    def fit(self, X, y=None):
        with super().fit(X):
            for _ in range(5):
                if self.n_updates_left_:
                    answer = self.answer(conjunctions(1, monotone=True))
            # What is shown is mostly that it was far, and after how many questions.
            self.shown_ = -10.0 * self.n_answers_ if self.n_updates_left_ == 0 else -100.0
            self.shown_ += min(max(answer, 0.0), 1.0)
        return self


# One column: nothing is chosen, and the odds of its two cells grow with the difference of the noisy
# counts.
OF_ONE = DPMarginalSynthesizer(domain=2, **PURE)
OF_ONE_GAUSS = DPMarginalSynthesizer(domain=2, **GAUSS)
BOTH_CELLS = np.repeat([[0], [1]], 15, axis=0), np.repeat([[0], [1]], [14, 16], axis=0)


def second_cell(fitted):
    """Return the part of the second cell."""
    return float(fitted.predict(conjunctions(1))[1])


# One column beside the target, of one value: all that is measured is the target's table.
TRAINED = DPTrainOnRelease(DummyRegressor(), domain=[1, 2], **GAUSS)
ONE_VALUE = np.zeros((30, 1), dtype=int)
BOTH_LABELS = np.repeat([0, 1], 15), np.repeat([0, 1], [14, 16])


def trained_mean(fitted):
    """Return the mean of the target in many synthetic rows."""
    return float(fitted.released_xy(4000, random_state=0)[1].mean())


def difference(fitted):
    """Return the logarithm of the odds of the two cells."""
    return float(np.diff(np.log(fitted.weights_))[0])


# Models of labels and numbers: the row has the label, or the number, that the others have not.
LABELS = {"classes": [0, 1], **BOX}
TWO_LABELS = np.append(np.zeros(8, dtype=int), [1]), np.zeros(8, dtype=int)
NUMBERS = np.append(np.zeros(8), [1.0]), np.append(np.zeros(8), [-1.0])
BOOSTED = DPExplainableBoostingClassifier(2, **GAUSS_A, **LABELS)
BOOSTED_NUMBERS = DPExplainableBoostingRegressor(2, **GAUSS, **BOX, target_bounds=(-1, 1))

# Audits of DPSubsampleAggregate are in tests/ensemble/test_claim.py: their worst pair needs a model
# that one row turns, and the variant another sensitivity.
PAIRS = [
    Pair("min-max scaler R", QUARTILES, FIVE, FIVE_MOVED, quartiles_below, 2000, 4.0),
    # Choices: an event that shows all of the loss is rare, so few runs show it in part.
    Pair("median R", DPMedian(**PURE, **BOX), *GAPS, beyond_gap, 1000, 2.5),
    Pair("median A", DPMedian(**PURE, **BOX, **A), *GAPS_A, beyond_gap, 2000, 2.0),
    Pair("median R, delta", DPMedian(**GAUSS, **BOX), *GAPS, beyond_gap, 1000, 2.5),
    Pair("small table R", SMALL_R, FIRST_CELL, NEXT_CELL, in_first_cell, 2000, 2.0),
    Pair("small table A", SMALL_A, FIRST_CELL, FIRST_CELL[:0], in_first_cell, 2000, 4.0),
    # Three quartiles: two rounds with half of epsilon each, of which one shows.
    Pair("quartiles R", THREE, FIVE, FIVE_MOVED, quartiles_below, 750, 5.0),
    Pair("toy R", Toy(**PURE), UP[-1:], DOWN[-1:], "mean_", 2000),
    Pair("marginals R", OF_ONE, *BOTH_CELLS, second_cell, 1000, 2.0),
    Pair("marginals R, delta", OF_ONE_GAUSS, *BOTH_CELLS, second_cell, 500, 2.0),
    Pair(
        "train on release R, delta",
        TRAINED,
        ONE_VALUE,
        ONE_VALUE,
        trained_mean,
        130,
        3.0,
        labels=BOTH_LABELS,
    ),
    Pair("mwem R", ONE_TABLE, *CELLS, difference, 2000, 2.0),
    Pair("mwem R, delta", ONE_TABLE_GAUSS, *CELLS, difference, 4000),
    # The threshold's noise and one comparison's show a part of their loss in any one event.
    Pair(
        "online R",
        Online(2, alpha=0.4, n_updates=1, epsilon=8.0),
        np.array([[0], [1]]),
        np.array([[1], [1]]),
        "shown_",
        1500,
        5.0,
    ),
    Pair("empirical cdf R", DPEmpiricalCDF(**PURE, **CDF), *THIRDS, least, 750, 2.5),
    # K-norm noise in two dimensions and Wishart noise: their log-likelihood ratio is the full
    # epsilon only in the direction of the change, so few runs show it. Hence factor 2.
    Pair("toy A", Toy(**PURE, **A), UP, ZEROS, None, 3000, 2.0),
    Pair("standard scaler R", DPStandardScaler(**PURE, **BOX), UP, DOWN, None, 1200, 2.0),
    Pair("pca A", DPPCA(**PURE, **BALL, **A), UP, ZEROS, None, 1800, 2.0),
    Pair("lloyd A", DPKMeans(1, **PURE, **LLOYD, **A), UP, ZEROS, None, 4000),
    Pair("one centre A", DPKMeans(1, **PURE, **BOX, **A), UP, ZEROS, None, 4000, 2.0),
    Pair("toy R, delta", Toy(**GAUSS), UP[-1:], DOWN[-1:], "mean_", 1500),
    Pair("toy A, delta", Toy(**GAUSS_A), UP, ZEROS, "mean_", 3200),
    Pair("standard scaler R, delta", DPStandardScaler(**GAUSS, **BOX), UP, DOWN, "mean_", 1500),
    Pair("pca R, delta", DPPCA(**GAUSS, **BALL), np.eye(2), np.eye(2)[[0, 0]], None, 1200),
    Pair("pca A, delta", DPPCA(**GAUSS_A, **BALL), UP, ZEROS, None, 2800),
    Pair("lloyd A, delta", DPKMeans(1, **GAUSS_A, **LLOYD), UP, ZEROS, None, 3600),
    Pair("lloyd R, delta", DPKMeans(1, **GAUSS, **LLOYD), UP[-1:], DOWN[-1:], None, 600, 2.0),
    # Twelve releases, of which a replaced row moves each by a part of its sensitivity only.
    Pair(
        "tree R, delta",
        DPKMeans(2, **GAUSS, **BOX),
        np.append(MANY, [[1.0]], axis=0),
        np.append(MANY, [[-1.0]], axis=0),
        None,
        600,
        4.0,
    ),
    # Two samples: all private rows at one public centre, of which one moves to the other centre.
    Pair("ulsif R, delta", DPuLSIF(**GAUSS, **KERNEL), *MOVED, "coef_", 1500, public=CENTERS),
    # K-norm noise in three dimensions, and 2% of the allowance for a count of its own.
    Pair("ulsif A", DPuLSIF(**PURE, **KERNEL, **A), *ADDED, None, 1200, 4.0, public=CENTERS),
    Pair("ulsif, variant B, R", VARIANT_B, *MOVED, "coef_", 700, 2.0, public=CENTERS[:1]),
    # Two releases, of a sampled centre and of the mean there. Both show all of their loss only
    # where the centre falls on the side of the row that moved.
    Pair("ulsif, variant A, R", VARIANT_A, *PAIRED, centre_and_mean, 1000, 4.0, public=CENTERS[:1]),
    Pair("ulsif of a basis, R", OF_BASIS, UP, DOWN, "coef_", 300, 3.0, public=UP),
    # Output perturbation: the bound on the minimiser is for rows with a gradient of norm 1 each,
    # which these have half of.
    Pair("kernel density R, delta", DPKernelDensity(**GAUSS, **LONG), *ENDS, ends, 1500),
    Pair(
        "cells of a density R",
        DPKernelDensity(features="cells", **PURE, **LONG),
        *ENDS,
        moved,
        2000,
    ),
    Pair(
        "histogram density A",
        DPHistogramDensity(bins=2, bounds=(-1, 1), **PURE, **A),
        UP[-1:],
        UP[:0],
        None,
        2500,
    ),
    # A row that is there in both tables may be missing in others: the claim is for two steps.
    Pair(
        "sum without gaps R",
        Called(statistics.sum, {"bounds": (-1, 1), "nan_policy": "omit"}, **PURE),
        UP[-1:],
        DOWN[-1:],
        lambda fitted: float(fitted.released_.value[0]),
        2000,
    ),
    Pair("boosting A, delta", BOOSTED, UP, ZEROS, None, 3000, 2.0, labels=TWO_LABELS),
    Pair(
        "boosting of numbers R, delta", BOOSTED_NUMBERS, UP, DOWN, None, 1500, 2.0, labels=NUMBERS
    ),
    Pair("logistic R, delta", LOGISTIC, *POLES, lines, 900, 4.0, public=np.vstack(POLES)),
]
