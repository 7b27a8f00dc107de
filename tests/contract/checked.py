"""Estimators that scikit-learn's checks can run on: what has to be stated is stated for them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier
from toys import ToyRatio

from skdp.density_ratio import DPLogisticRatio, DPuLSIF
from skdp.discriminant_analysis import DPLinearDiscriminantAnalysis
from skdp.ensemble import (
    DPExplainableBoostingClassifier,
    DPSubsampleAggregate,
    DPTrainOnRelease,
)
from skdp.feature_selection import DPSelectKBest
from skdp.linear_model import DPLogisticRegression
from skdp.naive_bayes import DPCategoricalNB, DPGaussianNB
from skdp.neighbors import DPNearestCentroid
from skdp.preprocessing import (
    DPOneHotEncoder,
    DPOrdinalEncoder,
    DPTargetEncoder,
)
from skdp.synthetic import (
    Bins,
)


class _Marked:
    """Fits an estimator of two samples on whatever targets scikit-learn's checks bring.

    Rows are marked in turn, public and private, because marks other than 0 and 1 are refused.
    None and targets of another length go through as they are.
    """

    def fit(self, X: Any, y: Any = None) -> Any:
        return super().fit(X, _in_turn(X, y))  # type: ignore[misc]

    def score(self, X: Any, y: Any = None) -> float:
        return super().score(X, _in_turn(X, y))  # type: ignore[misc]


def _in_turn(X: Any, y: Any) -> Any:
    n = np.shape(X)[0] if np.ndim(X) else 0
    return np.arange(n) % 2 if np.ndim(y) and len(y) == n else y


class MarkedToyRatio(_Marked, ToyRatio):
    pass


class MarkedDPuLSIF(_Marked, DPuLSIF):
    pass


class MarkedDPLogisticRatio(_Marked, DPLogisticRatio):
    pass


class CheckedAggregate(DPSubsampleAggregate):
    """States what is public from the rows that scikit-learn's checks bring, whatever they are."""

    def fit(self, X: Any, y: Any = None) -> Any:
        stated = self.classes, self.public, self.bounds
        try:
            self.public, self.bounds, self.classes = np.zeros((5, 1)), (-1.0, 1.0), [0, 1]
            try:
                table, targets = np.asarray(X), np.asarray(y)
                if np.iscomplexobj(table) or np.iscomplexobj(targets):
                    raise TypeError
                self.public = table.astype(float)
                if is_classifier(self.estimator):
                    found = np.unique(targets)
                    self.classes = found if len(found) > 1 else [0, 1]
                elif self.output == "predictions":
                    self.bounds = float(np.min(targets)), float(np.max(targets))
                else:
                    self.bounds = (-100.0, 100.0)
            except (TypeError, ValueError):
                pass  # bad input, which the fit has to refuse
            return super().fit(X, y)
        finally:
            self.classes, self.public, self.bounds = stated


class CheckedVote(CheckedAggregate):
    pass


class CheckedPrediction(CheckedAggregate):
    pass


class CheckedParameters(CheckedAggregate):
    pass


class _Classes:
    """States the classes that scikit-learn's checks bring, whatever they are."""

    def fit(self, X: Any, y: Any = None, **weights: Any) -> Any:
        stated, self.classes = self.classes, [0, 1]
        try:
            try:
                found = np.unique(np.asarray(y))
                self.classes = found if y is not None and len(found) > 1 else [0, 1]
            except (TypeError, ValueError):
                pass  # bad input, which the fit has to refuse
            return super().fit(X, y, **weights)  # type: ignore[misc]
        finally:
            self.classes = stated


class CheckedBoosting(_Classes, DPExplainableBoostingClassifier):
    pass


class CheckedLogisticRegression(_Classes, DPLogisticRegression):
    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Any:
        return super().fit(X, y, sample_weight=sample_weight)


class CheckedGaussianNB(_Classes, DPGaussianNB):
    pass


class CheckedNearestCentroid(_Classes, DPNearestCentroid):
    pass


class CheckedDiscriminantAnalysis(_Classes, DPLinearDiscriminantAnalysis):
    pass


class CheckedSelectKBest(_Classes, DPSelectKBest):
    pass


class _Categories:
    """States the categories that scikit-learn's checks bring, whatever they are."""

    def fit(self, X: Any, y: Any = None) -> Any:
        stated, self.categories = self.categories, [[0.0]]
        try:
            try:
                table = np.asarray(X)
                if table.ndim == 2 and not np.iscomplexobj(table):
                    self.categories = [np.unique(one.astype(float)) for one in table.T]
            except (TypeError, ValueError):
                pass  # bad input, which the fit has to refuse
            return super().fit(X, y)  # type: ignore[misc]
        finally:
            self.categories = stated


class CheckedOneHotEncoder(_Categories, DPOneHotEncoder):
    pass


class CheckedOrdinalEncoder(_Categories, DPOrdinalEncoder):
    pass


class CheckedTargetEncoder(_Categories, DPTargetEncoder):
    pass


class CheckedCategoricalNB(_Classes, DPCategoricalNB):
    """States the categories, too."""

    def fit(self, X: Any, y: Any = None) -> Any:
        stated, self.categories = self.categories, [[0.0]]
        try:
            try:
                table = np.asarray(X)
                if table.ndim == 2 and not np.iscomplexobj(table):
                    columns = table.astype(float).T
                    self.categories = [
                        np.unique(one[np.isfinite(one)]) if np.isfinite(one).any() else [0.0]
                        for one in columns
                    ]
            except (TypeError, ValueError):
                pass  # bad input, which the fit has to refuse
            return super().fit(X, y)
        finally:
            self.categories = stated


class CheckedTrainOnRelease(DPTrainOnRelease):
    """States the domain of what scikit-learn's checks bring, whatever it is."""

    def fit(self, X: Any, y: Any = None) -> Any:
        stated, self.domain = self.domain, 2
        try:
            try:
                table, targets = np.asarray(X), np.asarray(y)
                if table.ndim == 2 and not np.iscomplexobj(table):
                    columns: list[Any] = []
                    for one in table.astype(float).T:
                        good = one[np.isfinite(one)]
                        low, high = (good.min(), good.max()) if good.size else (0.0, 1.0)
                        columns.append(Bins.regular(float(low) - 0.01, float(high) + 0.01, 6))
                    classes = [0, 1]
                    if y is not None:
                        found = np.unique(targets)
                        classes = found if len(found) > 1 else classes
                    self.domain = [*columns, classes]
            except (TypeError, ValueError):
                pass  # bad input, which the fit has to refuse
            return super().fit(X, y)
        finally:
            self.domain = stated
