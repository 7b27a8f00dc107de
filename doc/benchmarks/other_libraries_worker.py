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
            try:
                fitted = models.KMeans(n_clusters=2, epsilon=1.0, bounds=(0, 1)).fit(X)
            except TypeError:  # releases before 0.3 want a list
                fitted = models.KMeans(n_clusters=2, epsilon=1.0, bounds=[(0, 1)]).fit(X)
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
        try:
            fitted = models.GaussianNB(epsilon=1.0, bounds=(0, 1)).fit(X, np.array(y))
        except TypeError:  # releases before 0.3
            fitted = models.GaussianNB(1.0, [(0, 1)]).fit(X, np.array(y))
        return list(fitted.classes_)

    def linear(X):
        y = np.zeros(len(X))
        fitted = models.LinearRegression(
            epsilon=1.0, bounds_X=(0, 100), bounds_y=(0, 1), fit_intercept=False
        )
        return fitted.fit(np.array(X), y + 1).coef_

    def of_tool(name):
        def run(t):
            tool = getattr(tools, name)
            try:
                return tool(np.array(t), epsilon=1.0, bounds=(0, 1))
            except TypeError:  # releases before 0.3
                return tool(np.array(t), epsilon=1.0, range=1.0)

        return run

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
        "median, nearly all the same": (
            of_tool("median"), [0.0] * 2982 + [1.0, 1.0], [0.0] * 2983 + [1.0], 1.0, 0.0,
        ),
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


def smartnoise_cases():
    import pandas as pd
    import snsql

    columns = {
        "u": {"type": "int", "private_id": True},
        "x": {"type": "float", "lower": 0.0, "upper": 1.0},
        "k": {"type": "string"},
    }
    meta = {"": {"d": {"t": {"row_privacy": False, "max_ids": 1, "rows": 20, **columns}}}}

    def asked(sql, delta=1e-6, first_row=1):
        readers = {}  # of each table, since a reader takes a while to make

        def run(rows):
            if id(rows) not in readers:
                frame = pd.DataFrame(rows, columns=["u", "x", "k"])
                privacy = snsql.Privacy(epsilon=1.0, delta=delta)
                readers[id(rows)] = snsql.from_df(frame, privacy=privacy, metadata=meta)
            return [list(row) for row in readers[id(rows)].execute(sql)[first_row:]]

        return run

    half = [(i, float(i > 9), "a") for i in range(20)]
    nan = [*half[:-1], (19, float("nan"), "a")]
    rare = [*half, (20, 1.0, "b")]
    keys = asked("SELECT k, COUNT(*) AS n FROM d.t GROUP BY k", delta=0.02)
    return {
        "SQL, COUNT(*)": (asked("SELECT COUNT(*) FROM d.t"), half, half[:-1], 1.0, 0.0),
        "SQL, SUM": (asked("SELECT SUM(x) FROM d.t"), half, half[:-1], 1.0, 0.0),
        "SQL, AVG": (asked("SELECT AVG(x) FROM d.t"), half, half[:-1], 1.0, 0.0),
        "SQL, SUM, a missing cell": (asked("SELECT SUM(x) FROM d.t"), half, nan, 1.0, 0.0),
        "SQL, a rare key": (lambda t: sorted(row[0] for row in keys(t)), half, rare, 1.0, 0.02),
    }


def covariance_cases():
    import importlib.util
    from pathlib import Path

    import pandas as pd

    # The file alone: the package wants PyTorch, its model a scikit-learn of long ago.
    package = Path(importlib.util.find_spec("snsynth").origin).parent
    spec = importlib.util.spec_from_file_location("cov", package / "models/dp_covariance.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def covariance(*upper):
        def run(rows):
            bounds = pd.DataFrame([[0.0] * len(upper), list(upper)])
            names = list(range(len(upper)))
            made = module.DPcovariance(len(rows), names, bounds, 1.0)
            return made.release(pd.DataFrame(rows, columns=names, dtype=float))

        return run

    few, wide = [[0.0, 0.0]] * 10, [[0.0, 0.0, 0.0]] * 10
    return {
        "covariance": (covariance(1, 1), few, [*few[1:], [1.0, 1.0]], 1.0, 0.0),
        "covariance, a cell beyond its bounds": (
            covariance(1, 1), few, [*few[1:], [100.0, 100.0]], 1.0, 0.0,
        ),
        "covariance, first entry": (
            lambda rows: covariance(1, 1)(rows)[0], few, [*few[1:], [1.0, 0.0]], 1.0, 0.0,
        ),
        "covariance, three columns of unlike ranges": (
            covariance(1, 100, 1), wide, [*wide[1:], [0.0, 100.0, 0.0]], 1.0, 0.0,
        ),
    }  # fmt: skip


def tumult_cases():
    import pandas as pd
    from tmlt.core.domains.numpy_domains import NumpyFloatDomain
    from tmlt.core.domains.pandas_domains import PandasSeriesDomain
    from tmlt.core.measurements import noise_mechanisms as noise
    from tmlt.core.measurements.pandas_measurements.series import NoisyQuantile
    from tmlt.core.measures import PureDP

    number = NumpyFloatDomain()
    laplace = noise.AddLaplaceNoise(number, 1)
    # Of sigma = 4.2247: epsilon = 1 at delta = 1e-6.
    gaussian = noise.AddGaussianNoise(number, "17.8482")
    geometric = noise.AddGeometricNoise(1)
    middle = NoisyQuantile(PandasSeriesDomain(number), PureDP(), 0.5, 0, 1, 1)
    half = [0.0] * 10 + [1.0] * 10
    return {
        "Laplace, last bits": (laplace, 0.0, 1.0, 1.0, 0.0),
        "Gaussian, last bits": (gaussian, 0.0, 1.0, 1.0, 1e-6),
        "geometric": (geometric, 0, 1, 1.0, 0.0),
        "quantile": (lambda t: middle(pd.Series(t)), half, half[:-1], 1.0, 0.0),
        "quantile, many ties": (
            lambda t: middle(pd.Series(t)), [0.0] * 1491 + [1.0], [0.0] * 1492 + [1.0], 1.0, 0.0,
        ),
    }  # fmt: skip


def pipelinedp_cases():
    import pipeline_dp as p

    def asked(metric, delta=0.0, public=("a",)):
        def run(rows):
            accountant = p.NaiveBudgetAccountant(total_epsilon=1.0, total_delta=delta)
            engine = p.DPEngine(accountant, p.LocalBackend())
            columns = p.DataExtractors(
                privacy_id_extractor=lambda r: r[0],
                partition_extractor=lambda r: r[1],
                value_extractor=lambda r: r[2],
            )
            wanted = p.AggregateParams(
                metrics=[metric], max_partitions_contributed=1, max_contributions_per_partition=1,
                min_value=0, max_value=1, noise_kind=p.NoiseKind.LAPLACE,
            )  # fmt: skip
            answer = engine.aggregate(rows, wanted, columns, public_partitions=public)
            accountant.compute_budgets()
            found = sorted((key, list(values)) for key, values in answer)
            return [key for key, _ in found] if public is None else found[0][1]

        return run

    half = [(i, "a", float(i > 9)) for i in range(20)]
    nan = [*half[:-1], (19, "a", float("nan"))]
    rare = [*half, (20, "b", 1.0)]
    m = p.Metrics
    return {
        "count": (asked(m.COUNT), half, half[:-1], 1.0, 0.0),
        "sum": (asked(m.SUM), half, half[:-1], 1.0, 0.0),
        "mean": (asked(m.MEAN), half, half[:-1], 1.0, 0.0),
        "median": (asked(m.PERCENTILE(50)), half, half[:-1], 1.0, 0.0),
        "sum, a missing cell": (asked(m.SUM), half, nan, 1.0, 0.0),
        "a rare key": (asked(m.PRIVACY_ID_COUNT, 0.02, None), half, rare, 1.0, 0.02),
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
    cases = {
        "diffprivlib": diffprivlib_cases, "opendp": opendp_cases, "pipelinedp": pipelinedp_cases,
        "python-dp": pydp_cases, "smartnoise": smartnoise_cases,
        "smartnoise-synth": covariance_cases, "tumult": tumult_cases,
    }  # fmt: skip
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
