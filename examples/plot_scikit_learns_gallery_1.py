"""
scikit-learn's gallery, side by side: unsupervised
==================================================

Five examples of scikit-learn's own gallery, each written once as a function of the estimators'
constructors. It runs with scikit-learn's classes on the left and with ours on the right. Only
imports, constructors and budgets differ.

Every private estimator gets δ = 10⁻⁶. The ε of each figure stands in its title, with the number of
rows n. **Small tables need a large ε**: 150 irises cannot be described well at ε = 1. As in
scikit-learn's figures, points and labels drawn are the raw rows, and scores are computed on raw
rows. Only the fitted models are private.
"""

from functools import partial
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import homogeneity_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, StandardScaler

import skdp


def private(estimator: Any, epsilon: float, **facts: Any) -> Any:
    """Return a constructor of `estimator` with its budget and the facts that are public."""
    return partial(estimator, epsilon=epsilon, delta=1e-6, **facts)


def side_by_side(title: str, example: Any, plain: list[Any], ours: list[Any]) -> None:
    """Draw `example` with scikit-learn's constructors on the left and with ours on the right."""
    fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained", sharex=True, sharey=True)
    fig.suptitle(title)
    for ax, name, constructors in zip(axes, ["scikit-learn", "skdp"], [plain, ours], strict=True):
        note = example(ax, *constructors)
        ax.set_title(f"{name}: {note}" if note else name)
    plt.show()


# %%
# Iris clusters
# -------------
# After ``plot_cluster_iris``. Sizes in centimetres are public to this extent: no sepal or petal
# is longer than 8 cm.
iris = load_iris()


def iris_clusters(ax: Any, KMeans: Any) -> None:
    """Colour petals by cluster; crosses are the centers."""
    model = KMeans(n_clusters=3).fit(iris.data)
    ax.scatter(iris.data[:, 3], iris.data[:, 2], c=model.predict(iris.data), s=14)
    ax.plot(model.cluster_centers_[:, 3], model.cluster_centers_[:, 2], "kx", ms=10, mew=2)
    ax.set(xlabel="petal width (cm)", ylabel="petal length (cm)")


side_by_side(
    "Iris clusters, n = 150, ε = 20",
    iris_clusters,
    [partial(KMeans, n_init=10)],
    [private(skdp.DPKMeans, 20, bounds=(0, 8))],
)

# %%
# PCA of digits
# -------------
# Two principal components of 64 pixels. A pixel is between 0 and 16 by the file's format, so every
# row lies within 64 of the middle: the square root of 64 times 8².
digits = load_digits()


def digits_pca(ax: Any, PCA: Any) -> str:
    """Project the digits on two components. The sign of a component means nothing; we fix it."""
    model = PCA(n_components=2).fit(digits.data)
    signs = np.sign(model.components_[:, [19, 36]].diagonal())
    projected = model.transform(digits.data) * signs
    ax.scatter(*projected.T, c=digits.target, cmap="tab10", s=5)
    ax.set(xlabel="first component", ylabel="second component")
    return f"{model.explained_variance_ratio_.sum():.0%} of variance explained"


side_by_side(
    "PCA of digits, n = 1,797, ε = 4",
    digits_pca,
    [PCA],
    [private(skdp.DPPCA, 4, center=8.0, norm_bound=64.0)],
)

# %%
# K-means of digits
# -----------------
# After ``plot_kmeans_digits``: clusters of the two components, as regions of the plane. A
# homogeneity of 1 would say that every cluster holds one digit only.


def digits_kmeans(ax: Any, PCA: Any, KMeans: Any) -> str:
    """Draw the regions of ten clusters in the plane of two components."""
    model = make_pipeline(PCA(n_components=2), KMeans(n_clusters=10)).fit(digits.data)
    projected, kmeans = model[0].transform(digits.data), model[-1]
    x, y = np.meshgrid(np.linspace(-35, 35, 250), np.linspace(-35, 35, 250))
    regions = kmeans.predict(np.column_stack([x.ravel(), y.ravel()])).reshape(x.shape)
    ax.imshow(regions, extent=(-35, 35, -35, 35), cmap="Paired", origin="lower", alpha=0.7)
    ax.plot(*projected.T, "k.", ms=2)
    ax.plot(*kmeans.cluster_centers_.T, "wx", ms=9, mew=3)
    return f"homogeneity {homogeneity_score(digits.target, model.predict(digits.data)):.2f}"


side_by_side(
    "K-means of digits, n = 1,797, ε = 4 + 4",
    digits_kmeans,
    [PCA, partial(KMeans, n_init=10)],
    [
        private(skdp.DPPCA, 4, center=8.0, norm_bound=64.0),
        private(skdp.DPKMeans, 4, bounds=(-64, 64)),
    ],
)

# %%
# Discretization
# --------------
# After ``plot_discretization``: a straight line, and a step for every bin. scikit-learn's example
# has 100 rows; here are 2,000.
rng = np.random.default_rng(42)
x = rng.uniform(-3, 3, size=(2000, 1))
y = np.sin(x[:, 0]) + rng.normal(size=len(x)) / 3


def discretization(ax: Any, Bins: Any, Line: Any, Steps: Any) -> None:
    """Fit a line before and after binning."""
    grid = np.linspace(-3, 3, 1000)[:, None]
    binned = make_pipeline(Bins(n_bins=10, encode="onehot-dense"), Steps())
    ax.plot(x, y, "k.", ms=2, alpha=0.3)
    ax.plot(grid, Line().fit(x, y).predict(grid), label="linear regression")
    ax.plot(grid, binned.fit(x, y).predict(grid), label="linear regression on bins")
    ax.legend(loc="lower right", fontsize=8)


side_by_side(
    "Discretization, n = 2,000, ε = 1 for the line, 1 + 1 for the steps",
    discretization,
    [KBinsDiscretizer, LinearRegression, LinearRegression],
    [
        private(skdp.DPKBinsDiscretizer, 1, bounds=(-3, 3)),
        private(skdp.DPLinearRegression, 1, bounds=(-3, 3), target_bounds=(-2, 2)),
        private(skdp.DPLinearRegression, 1, bounds=(0, 1), target_bounds=(-2, 2)),
    ],
)

# %%
# Feature union
# -------------
# After ``plot_feature_stacker``: principal components and the best single features, concatenated.
# scikit-learn's example ends in a support vector machine on iris. This has no private counterpart,
# so both sides end in a logistic regression, on the 569 tumours of the breast cancer table.
cancer = load_breast_cancer()
train, test, y_train, y_test = train_test_split(cancer.data, cancer.target, random_state=0)
# Upper limits of radius, texture and so on, taken as public: means, standard errors, worst values.
LARGEST = [
    *[30, 40, 200, 2500, 0.2, 0.4, 0.5, 0.2, 0.3, 0.1],
    *[3, 5, 25, 550, 0.04, 0.2, 0.4, 0.06, 0.08, 0.03],
    *[40, 50, 260, 4500, 0.3, 1.2, 1.3, 0.3, 0.7, 0.21],
]


def feature_union(ax: Any, Scaler: Any, PCA: Any, Select: Any, Classifier: Any) -> str:
    """Draw the probability of every class, by class, on test rows."""
    union = FeatureUnion([("pca", PCA(n_components=2)), ("best", Select(k=2))])
    model = Pipeline([("scale", Scaler()), ("features", union), ("model", Classifier())])
    model.fit(train, y_train)
    chances = model.predict_proba(test)[:, 1]
    for label, name in enumerate(cancer.target_names):
        ax.hist(chances[y_test == label], np.linspace(0, 1, 21), alpha=0.6, label=name)
    ax.set(xlabel="predicted probability of a benign tumour", ylabel="test rows")
    ax.legend(fontsize=8)
    return f"accuracy {model.score(test, y_test):.2f}"


side_by_side(
    "Feature union, n = 426, ε = 3 + 3 + 3 + 3",
    feature_union,
    [StandardScaler, PCA, SelectKBest, LogisticRegression],
    [
        private(skdp.DPStandardScaler, 3, bounds=([0] * 30, LARGEST)),
        private(skdp.DPPCA, 3, center=0.0, norm_bound=8.0),
        private(skdp.DPSelectKBest, 3, classes=[0, 1], bounds=(-4, 4)),
        private(skdp.DPLogisticRegression, 3, classes=[0, 1], bounds=(-8, 8)),
    ],
)
