"""Kernels and bases at public rows, and least squares on the released means of these features.

Which features are released is decided in `skdp.base.nystroem`.
"""

from __future__ import annotations

import contextlib
import copy
import math
import pickle
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    OneHotEncoder,
    PolynomialFeatures,
    SplineTransformer,
)

from skdp.base import check_bounds
from skdp.base.nystroem import LEAST_SIGNAL
from skdp.budget import PrivacyBudget
from skdp.budget.ambient import outside_level
from skdp.density_ratio._base import check_candidates
from skdp.exceptions import PublishedRowsWarning
from skdp.loss.conversions import round_up
from skdp.queries import KernelMap
from skdp.tabular import as_dense
from skdp.user_code import suppress_warnings

Floats = NDArray[np.float64]

_TRIED_ROWS = 2048  # public rows on which leaving one out is tried
_BLOCK_VALUES = 2**20

# --- feature values of public rows ----------------------------------------------------------------


@dataclass
class KernelValues:
    """Kernel values at public (or released) centres, scale by scale."""

    map: KernelMap
    gammas: Floats

    def chunks(self, values: Floats) -> Iterator[tuple[slice, Floats]]:
        """Yield the features of the caller's rows, block by block."""
        step = max(1, _BLOCK_VALUES // self.map.n_dims)
        for start in range(0, len(values), step):
            part = slice(start, start + step)
            yield part, self.map.evaluate(values[part])


# Transformers that give a row the same bits in every block, which may therefore be mapped at once.
_ELEMENTWISE = (KBinsDiscretizer, OneHotEncoder, PolynomialFeatures, SplineTransformer)


def is_elementwise(transformer: Any) -> bool:
    """Tell whether a transformer gives a row the same bits in every block."""
    if type(transformer) is Pipeline:
        return all(is_elementwise(step) for _, step in transformer.steps)
    if type(transformer) is FeatureUnion:
        return all(is_elementwise(step) for _, step in transformer.transformer_list)
    if type(transformer) is ColumnTransformer:
        steps = [step for _, step, _ in transformer.transformers]
        return all(is_elementwise(step) for step in [*steps, transformer.remainder])
    if isinstance(transformer, str):
        return transformer in ("drop", "passthrough")
    return type(transformer) in _ELEMENTWISE


@dataclass
class BasisValues:
    """Outputs of a public transformer, clipped to their stated bounds (b,).

    The transformer is fitted on the public rows. Every call gets a copy of it, so it remembers no
    row. It gets new tables of float64 with the names of the columns, so no type, category or index
    of the caller's table, which holds private rows too, reaches it.
    """

    transformer: Any
    low: Floats
    high: Floats
    columns: list[str] | None

    gammas = np.array([math.nan])

    def transforming(self) -> Callable[[Floats], Any]:
        """Return a function that maps rows with a fresh copy of the transformer each time."""
        fresh = copier(self.transformer)
        return lambda values: fresh().transform(as_table(values, self.columns))

    def chunks(self, values: Floats) -> Iterator[tuple[slice, Floats]]:
        """Yield the features of the caller's rows, mapped as private rows are, block by block."""
        transform = self.transforming()
        step = max(1, _BLOCK_VALUES // max(len(self.low), values.shape[1]))
        with suppress_warnings():
            for start in range(0, len(values), step):
                part = slice(start, start + step)
                yield part, self._outputs(transform, values[part])

    def _outputs(self, transform: Callable[[Floats], Any], values: Floats) -> Floats:
        """Return clipped features; a row that fails has the middle of the bounds."""
        outputs = None
        with contextlib.suppress(Exception):
            outputs = dense(transform(values.copy()))
        if outputs is None or outputs.shape != (len(values), len(self.low)):
            if len(values) > 1:
                parts = [self._outputs(transform, values[i : i + 1]) for i in range(len(values))]
                return np.concatenate(parts)
            outputs = np.full((len(values), len(self.low)), math.nan)
        failed = ~np.isfinite(outputs).all(axis=1)
        outputs = np.clip(outputs, self.low, self.high)
        outputs[failed] = self.low / 2 + self.high / 2
        return outputs


def copier(transformer: Any) -> Callable[[], Any]:
    """Return a function that gives a fresh copy of a fitted transformer; TypeError if none can."""
    try:
        pickled = pickle.dumps(transformer)
        pickle.loads(pickled)
    except Exception:  # noqa: BLE001  a lambda inside, or whatever a class refuses with
        with contextlib.suppress(Exception):
            copy.deepcopy(transformer)
            return lambda: copy.deepcopy(transformer)
        raise TypeError("basis must be a transformer that can be pickled or copied") from None
    return lambda: pickle.loads(pickled)


def as_table(values: Floats, columns: list[str] | None) -> Any:
    """Return rows as a new array or, with names, as a new pandas table; all float64."""
    values = np.array(values, dtype=np.float64, order="C")
    if columns is None:
        return values
    # A table of pandas exists only if pandas has been imported.
    return sys.modules["pandas"].DataFrame(values, columns=columns)


def dense(output: Any) -> Floats:
    """Return a transformer's output as a float array."""
    return np.array(as_dense(output, "the output of basis"), dtype=np.float64)


def fit_basis(basis: Any, bounds: Any, X: Any, public: Floats) -> BasisValues | None:
    """Fit a clone of a basis on the public rows only, and check its stated bounds.

    Of X, which the caller passed, only the names of the columns are used.
    """
    if basis is None:
        return None
    known = hasattr(basis, "fit") and hasattr(basis, "transform")
    if isinstance(basis, type) or not known:
        raise TypeError(f"basis must be a transformer or None, got {type(basis).__name__}")
    if _spends(basis):
        raise ValueError("basis must be a transformer that spends no privacy budget")
    columns = list(X.columns) if hasattr(X, "iloc") and hasattr(X, "columns") else None
    with suppress_warnings():
        fitted = clone(basis).fit(as_table(public, columns))
        outputs = dense(copier(fitted)().transform(as_table(public, columns)))
    if outputs.ndim != 2 or len(outputs) != len(public) or outputs.shape[1] == 0:
        raise ValueError("basis must give one row of features for every row")
    text = (
        "basis_bounds must be a pair (low, high) of numbers within 1e9 of 0, or of one number "
        f"for each of the {outputs.shape[1]} outputs of basis, low <= high"
    )
    try:
        pair = check_bounds(bounds, outputs.shape[1])
    except (TypeError, ValueError):
        raise ValueError(text) from None
    if pair is None or max(np.abs(side).max() for side in pair) > 1e9:
        raise ValueError(text)
    return BasisValues(fitted, *pair, columns)


def _spends(estimator: Any) -> bool:
    """Say whether an estimator, or one inside it, has a budget or a cost."""
    inside = [estimator, *getattr(estimator, "get_params", dict)().values()]
    return any(hasattr(part, "privacy_cost") or isinstance(part, PrivacyBudget) for part in inside)


@dataclass
class PublicMoments:
    """Moments of the public rows' features, and the features of some rows."""

    second: Floats
    first: Floats
    tried: Floats
    n: int


def public_moments(features: KernelValues | BasisValues, values: Floats) -> PublicMoments:
    """Return moments of the public rows' features, computed in blocks."""
    n = len(values)
    tried = np.unique(np.linspace(0, n - 1, min(n, _TRIED_ROWS)).astype(np.intp))
    second: Any = 0.0
    first: Any = 0.0
    rows = []
    for part, block in features.chunks(values):
        second = second + block.T @ block
        first = first + block.sum(axis=0)
        inside = tried[(tried >= part.start) & (tried < part.stop)] - part.start
        rows.append(block[inside])
    return PublicMoments(second / n, first / n, np.vstack(rows), n)


# --- least squares on released moments ------------------------------------------------------------

# The model is w(x) = w0 + a.f(x) with features f; the criterion is J(w) = E_public[w**2] / 2 -
# E_private[w] (Kanamori, Hido & Sugiyama 2009, eq. 5), whose only private part is h, the mean of
# the features over the private rows. The public part is exact; h is known up to noise of a known
# covariance, which the criterion takes into account. So ridge and features are chosen by it as
# post-processing, at no cost.

# A ridge is judged by J plus so many standard deviations of what noise makes of J, lest a small
# ridge wins by luck: where both samples were alike and noise was strong, the worst tenth of the
# weights was half as wrong as with 0; 0.5 and more shrank too much elsewhere.
CAUTION = 0.25


@dataclass(frozen=True)
class Moments:
    """Moments of both samples, for one set of features f.

    `second` (b, b) and `first` (b,) are means of f f' and f over `n_public` public rows (H of the
    source), `rows` (m, b) features of some of these, on which leaving one out is tried. `private`
    (b,) is the released mean of f over `n_private` private rows (h of the source); the noise in it
    is noise @ z, z of mean 0 and covariance I.
    """

    second: Floats
    first: Floats
    rows: Floats
    n_public: int
    private: Floats
    noise: Floats
    n_private: float


def solve(moments: Moments, alpha: float, baseline: float) -> tuple[Floats, Floats]:
    """Return the minimiser a of J(w0 + a.f) + alpha |a|**2 / 2, and the matrix of its noise.

    With w0 = 0 it is uLSIF's (H + alpha I)^-1 h, eq. 15 of the source before truncation. The noise
    in a is matrix @ z, z of mean 0 and covariance I.
    """
    values, basis = np.linalg.eigh(moments.second)  # a ridge on top of it is never singular
    inverse = 1.0 / (np.maximum(values, 0.0) + alpha)
    sides = np.column_stack([moments.private - baseline * moments.first, moments.noise])
    solved = basis @ (inverse[:, None] * (basis.T @ sides))
    return solved[:, 0], solved[:, 1:]


def criterion(moments: Moments, alphas: Floats, baseline: float) -> tuple[Floats, Floats]:
    """Return the leave-one-out criterion J of every ridge, and its standard deviation; low is good.

    Leaving a public row out changes the public moments by a rank one term, so that one
    eigendecomposition serves all (Sherman & Morrison). With h + e for h, E[e] = 0 and Cov(e) = S,
    the term -h'a is too small by tr(A^-1 S), A = H + alpha I: the private rows would judge
    themselves. So that trace is added (Mallows' Cp), with S the covariance of the noise plus that
    of sampling, which is estimated under the fitted weights on the public rows. In directions in
    which public rows vary less than the noise, h'a counts as 0, a little too little gain, because
    the difference of two huge traces would decide otherwise.

    To second order J is -g'B g up to constants, g the noisy side of the normal equations and B =
    A^-1 - A^-1 H A^-1 / 2; noise of covariance S gives it the variance 2 tr(BSBS) + 4 g'BSBg.
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
        products = np.einsum("ij,ij->i", scaled @ noise, scaled @ own_noise)
        trace += float(np.mean(products * gain))
        quadratic = 0.5 * np.mean((baseline + left_out) ** 2)
        result[k] = quadratic - baseline - np.mean(linear) + trace + spread
        form = inverse * (1.0 - 0.5 * values * inverse)  # B, diagonal here
        inner = own_noise.T @ (form[:, None] * own_noise)  # tr(BSBS) = |N'BN|**2, S = NN'
        linear_part = np.square(own_noise.T @ (form * side)).sum()
        std[k] = np.sqrt(2.0 * np.square(inner).sum() + 4.0 * linear_part)
    return result, std


def choose(every: Sequence[Moments], alphas: Floats, baseline: float) -> tuple[int, float]:
    """Return the best features and ridge by the criterion; the largest ridge if it cannot tell."""
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
    distances = distances[np.triu_indices(len(rows), 1)]
    positive = distances[distances > scale]
    return float(np.sqrt(np.median(positive))) * unit if positive.size else 1.0


# --- centers and rates of kernels -----------------------------------------------------------------

PUBLISHED = "published_private_rows"
_SCALES = (1.0, 0.5)  # private choice of the bandwidth: these times the median public distance


def box_of_centers(stated: tuple[Floats, Floats] | None, public: Floats) -> tuple[Floats, Floats]:
    """Return the public box of noisy centres: the stated one, or that of the public rows."""
    if stated is None:
        far = 1e100  # the noise has a scale of its own beyond
        return public.min(axis=0).clip(-far, far), public.max(axis=0).clip(-far, far)
    if max(np.abs(side).max() for side in stated) > 1e100:
        raise ValueError("bounds must be 'public' or a pair (low, high) within 1e100 of 0")
    return stated


def refuse_published(adjacency: str, rate: float | None, many: bool) -> None:
    """Refuse to publish rows of units with many rows, or at a private rate."""
    if many:
        raise ValueError(
            f"centers must not be {PUBLISHED!r} where a unit has many rows (groups): each would be "
            "published with a probability of its own"
        )
    if adjacency == "add_or_remove_one" and rate is None:
        raise ValueError(
            f"sampling_rate must be given for centers={PUBLISHED!r} under "
            "'add_or_remove_one': delta = n_centers / n would publish the number of rows"
        )


def warn_published() -> None:
    """Warn the caller of a fit that it publishes rows."""
    warnings.warn(
        f"centers={PUBLISHED!r} publishes raw private rows: each private row ends "
        "up in centers_ with the probability charged as delta.",
        PublishedRowsWarning,
        stacklevel=outside_level(),
    )


def published_delta(rate: Fraction, delta: float) -> float:
    """Return the share of the private rows that is published, rounded up; refuse a smaller delta.

    The nearest float to the share is enough: the charge is rounded up.
    """
    if delta < float(rate):
        raise ValueError(
            f"delta must be at least {round_up(rate)!r}, the share of the private rows that "
            f"centers={PUBLISHED!r} publishes, got {delta!r}"
        )
    return round_up(rate)


def stated_centers(centers: Any, n_features: int, most: int) -> Floats | None:
    """Return centres that the user states, or None for a word."""
    if isinstance(centers, str):
        return None
    text = "centers must be 'public', 'noisy', an array of shape (n_centers, n_features)"
    stated = np.zeros((0, 0))
    good = True
    try:
        stated = np.asarray(centers, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        good = False
    good = good and stated.ndim == 2 and 0 < len(stated) <= most
    if not good or stated.shape[1] != n_features or not np.isfinite(stated).all():
        raise ValueError(f"{text} of finite numbers, or {PUBLISHED!r}")
    return stated


def rates_of(gamma: Any, kernel: str, public: Floats) -> Floats:
    """Return the rates to choose from, ascending; they depend on public rows only."""
    stated = check_candidates(gamma, "gamma")
    if stated is not None:
        return np.unique(stated)
    sample = np.unique(np.linspace(0, len(public) - 1, min(len(public), 500)).astype(np.intp))
    typical = median_distance(public[sample])
    rates = 1.0 / (np.array(_SCALES) * min(max(typical, 1e-100), 1e100))
    return rates if kernel == "laplacian" else 0.5 * rates**2
