"""Runs one mechanism of another library on two neighbouring tables; for `other_libraries.py`.

It needs that library and numpy only, and runs on old versions of Python. Prints one line of JSON.
"""

import json
import sys
import time
import warnings

import numpy as np

warnings.simplefilter("ignore")


def column(*values):
    return np.array(values, dtype=float)[:, None]


ONES, MOVED = column(0, 0, 0, 0, 1, 1, 1, 1), column(0, 0, 0, 0, 1, 1, 1, 0)
FLAT = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
TURNED = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])


def diffprivlib_cases():
    from diffprivlib import mechanisms, models, tools

    def drawn(name):
        def run(x):
            kind = getattr(mechanisms, name)
            named = {"epsilon": 1.0, "sensitivity": 1 if name == "Geometric" else 1.0}
            if name.startswith("Gaussian"):
                named["delta"] = 1e-6
            try:
                made = kind(**named)
            except TypeError:  # releases before 0.4 set parameters one by one
                made = kind().set_epsilon_delta(1.0, named.get("delta", 0.0)).set_sensitivity(1)
            return made.randomise(x)

        return run

    def bingham(matrix):
        try:
            made = mechanisms.Bingham(epsilon=1.0, sensitivity=1.0)
        except TypeError:
            made = mechanisms.Bingham().set_epsilon(1).set_sensitivity(1)
        return np.abs(made.randomise(np.array(matrix)))

    def kmeans(what):
        def run(X):
            fitted = models.KMeans(2, epsilon=1.0, bounds=(0, 1)).fit(X)
            return getattr(fitted, what)

        return run

    def pca(X):
        named = {"epsilon": 1.0, "data_norm": 1.0, "n_components": 1}
        try:
            fitted = models.PCA(centered=True, **named).fit(X)
        except TypeError:
            fitted = models.PCA(bounds=(0, 1), **named).fit(X)
        return [np.abs(fitted.components_), fitted.explained_variance_]

    def forest_classes(y):
        X = np.resize([0.0, 1.0], (len(y), 1))
        fitted = models.GaussianNB(epsilon=1.0, bounds=(0, 1)).fit(X, np.array(y))
        return list(fitted.classes_)

    def linear(X):
        y = np.zeros(len(X))
        fitted = models.LinearRegression(
            epsilon=1.0, bounds_X=(0, 100), bounds_y=(0, 1), fit_intercept=False
        )
        return fitted.fit(np.array(X), y + 1).coef_

    def of_tool(name, *args):
        return lambda t: getattr(tools, name)(np.array(t), *args, epsilon=1.0, bounds=(0, 1))

    half = [0.0] * 10 + [1.0] * 10
    nan = float("nan")
    return {
        "Laplace, last bits": (drawn("Laplace"), 0.0, 1.0, 1.0, 0.0),
        "Gaussian, last bits": (drawn("Gaussian"), 0.0, 1.0, 1.0, 1e-6),
        "geometric": (drawn("Geometric"), 0, 1, 1.0, 0.0),
        "Bingham": (bingham, [[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]], 1.0, 0.0),
        "k-means, centres": (kmeans("cluster_centers_"), ONES, MOVED, 1.0, 0.0),
        "k-means, inertia_": (kmeans("inertia_"), ONES, MOVED, 1.0, 0.0),
        "k-means, labels_": (kmeans("labels_"), ONES, MOVED, 1.0, 0.0),
        "PCA": (pca, FLAT, TURNED, 1.0, 0.0),
        "median": (of_tool("median"), half, [*half[:-1], 0.0], 1.0, 0.0),
        "median, a missing cell": (of_tool("median"), half, [*half[:-1], nan], 1.0, 0.0),
        "mean": (of_tool("mean"), half, [*half[:-1], 0.0], 1.0, 0.0),
        "mean, a missing cell": (of_tool("mean"), half, [*half[:-1], nan], 1.0, 0.0),
        "naive Bayes, classes read off y": (
            forest_classes, [0, 0, 1, 1, 1], [0, 0, 1, 1, 2], 1.0, 0.0,
        ),
        "linear regression, sensitivity of squares": (
            linear, np.full((5, 1), 0.0), np.vstack([np.zeros((4, 1)), [[100.0]]]), 1.0, 0.0,
        ),
    }  # fmt: skip


def opendp_cases():
    import opendp.prelude as dp

    dp.enable_features("contrib", "floating-point", "honest-but-curious")
    number = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    laplace = dp.m.make_laplace(*number, scale=1.0)
    gaussian = dp.m.make_gaussian(*number, scale=1 / 0.23670438066296767)
    whole = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    geometric = dp.m.make_laplace(*whole, scale=1.0)
    return {
        "Laplace, last bits": (laplace, 0.0, 1.0, 1.0, 0.0),
        "Gaussian, last bits": (gaussian, 0.0, 1.0, 1.0, 1e-6),
        "geometric": (geometric, 0, 1, 1.0, 0.0),
    }


def pydp_cases():
    import pydp.algorithms.laplacian as lap

    def mean(t):
        return lap.BoundedMean(
            epsilon=1.0, lower_bound=0, upper_bound=1, dtype="float"
        ).quick_result(list(t))

    def count(t):
        return lap.Count(epsilon=1.0, dtype="float").quick_result(list(t))

    def total(t):
        return lap.BoundedSum(
            epsilon=1.0, lower_bound=0, upper_bound=1, dtype="float"
        ).quick_result(list(t))

    def median(t):
        return lap.Median(epsilon=1.0, lower_bound=0, upper_bound=1, dtype="float").quick_result(
            list(t)
        )

    half = [0.0] * 10 + [1.0] * 10
    nan = float("nan")
    return {
        "count": (count, half, half[:-1], 1.0, 0.0),
        "sum": (total, half, half[:-1], 1.0, 0.0),
        "sum, a missing cell": (total, half, [*half, nan], 1.0, 0.0),
        "mean": (mean, half, half[:-1], 1.0, 0.0),
        "median": (median, half, half[:-1], 1.0, 0.0),
    }


def plain(value):
    """Return an output in what JSON holds; floats keep all of their bits."""
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return value.item()
    return value


def main():
    library, case, runs = sys.argv[1], sys.argv[2], int(sys.argv[3])
    cases = {"diffprivlib": diffprivlib_cases, "opendp": opendp_cases, "python-dp": pydp_cases}
    table = cases[library]()
    if case == "list":
        print(json.dumps(list(table)))
        return
    run, first, second, epsilon, delta = table[case]
    started = time.perf_counter()
    outputs = []
    for one in (first, second):
        outputs.append([])
        for _ in range(runs):
            try:
                outputs[-1].append(plain(run(one)))
            except Exception as error:  # noqa: BLE001  # what it raises is seen, too
                outputs[-1].append("raised " + type(error).__name__ + ": " + str(error)[:80])
    print(json.dumps({
        "first": outputs[0], "second": outputs[1], "epsilon": epsilon, "delta": delta,
        "seconds": time.perf_counter() - started,
    }))  # fmt: skip


main()
