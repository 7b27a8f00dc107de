"""Public features: their values at public rows. What is released of them: `skdp.base.nystroem`.

Nothing is released here and no private row is seen: everything is computed from public centres, a
public basis and public rows.
"""

from __future__ import annotations

import contextlib
import copy
import math
import pickle
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
from skdp.budget import PrivacyBudget
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

    @property
    def n_scales(self) -> int:
        return len(self.gammas)

    def chunks(self, values: Floats) -> Iterator[tuple[slice, Floats]]:
        """Yield the features of the caller's rows, block by block."""
        step = max(1, _BLOCK_VALUES // self.map.n_dims)
        for start in range(0, len(values), step):
            part = slice(start, start + step)
            yield part, self.map.evaluate(values[part])


# Transformers that give a row the same bits in every block, which may therefore be mapped at once.
_ELEMENTWISE = (KBinsDiscretizer, OneHotEncoder, PolynomialFeatures, SplineTransformer)


def is_elementwise(transformer: Any) -> bool:
    """Say whether a transformer is made of those that give a row the same bits in every block."""
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
    """Outputs of a public transformer, clipped to their stated bounds.

    The transformer is fitted on the public rows and never used itself: every call gets a copy, so
    that it remembers no row, and a table of float64 with nothing but the names of the columns, so
    that types, categories or an index of the caller's table, which private rows have a part in,
    do not reach it.

    Attributes
    ----------
    transformer : transformer
        Fitted.
    low, high : ndarray of shape (b,)
    columns : list of str or None
        Names, if the caller's table is one of pandas.
    """

    transformer: Any
    low: Floats
    high: Floats
    columns: list[str] | None

    gammas = np.array([math.nan])
    n_scales = 1

    def transforming(self) -> Callable[[Floats], Any]:
        """Return a function that maps rows with a fresh copy of the transformer each time."""
        fresh = copier(self.transformer)
        return lambda values: fresh().transform(as_table(values, self.columns))

    def chunks(self, values: Floats) -> Iterator[tuple[slice, Floats]]:
        """Yield the features of the caller's rows; as private rows are mapped, so are these."""
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
    """Return a function that gives a fresh copy of a fitted transformer.

    Raises
    ------
    TypeError
        If it can be neither pickled nor copied.
    """
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
    # Nobody holds a table of pandas that has not been imported.
    return sys.modules["pandas"].DataFrame(values, columns=columns)


def dense(output: Any) -> Floats:
    """Return a transformer's output as a float array."""
    return np.array(as_dense(output, "the output of basis"), dtype=np.float64)


def fit_basis(basis: Any, bounds: Any, X: Any, public: Floats) -> BasisValues | None:
    """Fit a clone of a basis on the public rows only, and check its stated bounds.

    Parameters
    ----------
    basis : transformer or None
        None gives None.
    bounds : tuple (low, high)
        Of its outputs.
    X : array-like or table
        What the caller passed; only the names of its columns are used.
    public : ndarray of shape (n_public, n_features)

    Raises
    ------
    TypeError, ValueError
        Naming ``basis`` or ``basis_bounds``.
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
    """What the fit needs of the public sample: moments of its feature values."""

    second: Floats
    first: Floats
    tried: Floats
    n: int


def public_moments(features: KernelValues | BasisValues, values: Floats) -> PublicMoments:
    """Return moments of the public rows' features in blocks, and the features of some rows."""
    n = len(values)
    tried = np.unique(np.linspace(0, n - 1, min(n, _TRIED_ROWS)).astype(np.intp))
    second: Any = 0.0
    first: Any = 0.0
    kept = []
    for part, block in features.chunks(values):
        second = second + block.T @ block
        first = first + block.sum(axis=0)
        inside = tried[(tried >= part.start) & (tried < part.stop)] - part.start
        kept.append(block[inside])
    return PublicMoments(second / n, first / n, np.vstack(kept), n)
