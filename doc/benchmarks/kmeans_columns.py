"""K-means on columns of different width, and on tables too small for the noise.

Prints four tables:

1. Age (0 to 120), income (0 to 200,000) and a 0/1 column, 5,000 rows, k = 4: the error of a centre
   as the mean of its rows, in half widths of the bounds, root mean square over rows (a cluster
   counts by its rows) and over clusters; how often it is above three of its standard errors; and
   the inertia over scikit-learn's KMeans.
2. The same rows with stated bounds and scaled beforehand: the error over a column's own residual.
3. Wine, breast cancer, iris and digits, raw and scaled to [0, 1], bounds at the extremes: inertia
   over that of one private mean at the same cost, medians; cells above 1.1 are marked.
4. `expected_error` over what happened on a private table, asked with as many public rows.

Run it with ``python doc/benchmarks/kmeans_columns.py``; ``--runs`` sets the fits a cell
(default 9), ``--tables`` picks tables of the second part.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import sklearn
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

import skdp
from skdp import DPKMeans, PrivacyBudget

RELATIONS = ("add_or_remove_one", "replace_one")
DELTAS = (0.0, 1e-6)
SMALL = {"wine": load_wine, "cancer": load_breast_cancer, "iris": load_iris, "digits": load_digits}


def nearest(X: np.ndarray, centers: np.ndarray) -> tuple[np.ndarray, float]:
    """Return each row's centre and the inertia, one centre at a time."""
    best, labels = np.full(len(X), np.inf), np.zeros(len(X), dtype=int)
    for j, center in enumerate(centers):
        distance = np.square(X - center).sum(axis=1)
        labels[distance < best] = j
        np.minimum(best, distance, out=best)
    return labels, float(best.sum())


def fitted(X, k, bounds, epsilon, delta, relation):
    """Return a fit with a budget of its own."""
    budget = PrivacyBudget(epsilon, delta, adjacency=relation)
    return DPKMeans(k, bounds=bounds, epsilon=epsilon, delta=delta, budget=budget).fit(X)


def errors(X, model):
    """Return errors of centres as means of their rows, their standard errors, and sizes."""
    labels, total = nearest(X, model.cluster_centers_)
    found = [j for j in range(len(model.cluster_centers_)) if (labels == j).any()]
    off = [model.cluster_centers_[j] - X[labels == j].mean(axis=0) for j in found]
    size = [(labels == j).sum() for j in found]
    return np.array(off), model.cluster_centers_std_[found], np.array(size), total


def mixed(seed: int, n: int) -> np.ndarray:
    """Return ages, incomes and a 0/1 column."""
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(40, 12, n), 18, 90)
    return np.c_[age, np.clip(rng.lognormal(10, 0.8, n), 0, 200_000), rng.random(n) < 0.3]


def columns_table(runs: int) -> None:
    """Print the errors of unscaled columns."""
    low, high = np.zeros(3), np.array([120.0, 200_000.0, 1.0])
    half = (high - low) / 2
    X = mixed(1, 5000)
    exact = KMeans(4, n_init=10, random_state=0).fit(X).inertia_
    print("Age, income, 0/1: 5,000 rows, k = 4; errors in half widths")
    print(f"{'':34}{'rms over rows':>24}{'rms over clusters':>24}{'> 3 std':>9}{'inertia':>9}")
    for relation in RELATIONS:
        for delta in DELTAS:
            for epsilon in (0.3, 1.0, 3.0):
                off, std, size, ratio = [], [], [], []
                for _ in range(runs):
                    model = fitted(X, 4, (low, high), epsilon, delta, relation)
                    one = errors(X, model)
                    off.append(one[0]), std.append(one[1]), size.append(one[2])
                    ratio.append(one[3] / exact)
                off, std, size = map(np.concatenate, (off, std, size))
                rows = np.sqrt(np.average((off / half) ** 2, axis=0, weights=size))
                clusters = np.sqrt(np.mean((off / half) ** 2, axis=0))
                beyond = np.mean(np.abs(off) > 3 * std)
                label = f"{relation}, delta {delta:g}, eps {epsilon:g}"
                cells = [" ".join(f"{v:.3f}" for v in part) for part in (rows, clusters)]
                cells += [f"{100 * beyond:.1f}%", f"{np.median(ratio):.3f}"]
                print(
                    f"{label:34}{cells[0]:>24}{cells[1]:>24}{cells[2]:>9}{cells[3]:>9}", flush=True
                )


def relative_table(runs: int) -> None:
    """Print errors over the columns' own residuals, beside those of columns scaled beforehand."""
    high = np.array([120.0, 200_000.0, 1.0])
    X = mixed(1, 5000)
    low = np.zeros(3)
    tables = {"as they are": (X, low, high), "scaled": (X / high, low, np.ones(3))}
    print("\nErrors (rms over rows) over the column's residual, eps 1: as they are, scaled, ratio")
    for relation in RELATIONS:
        for delta in DELTAS:
            found = []
            for rows, least, most in tables.values():
                squares = []
                for _ in range(runs):
                    model = fitted(rows, 4, (least, most), 1.0, delta, relation)
                    labels, _ = nearest(rows, model.cluster_centers_)
                    own = [j for j in range(4) if (labels == j).any()]
                    by = {j: rows[labels == j].mean(axis=0) for j in own}
                    means = np.array([by[j] for j in labels])
                    centers = model.cluster_centers_[labels]
                    error = np.square(centers - means).mean(axis=0)
                    residual = np.square(rows - means).mean(axis=0)
                    residual[residual == 0] = np.nan  # centres tell the values of a 0/1 column
                    squares.append(error / residual)
                found.append(np.sqrt(np.mean(squares, axis=0)))
            parts = [*found, found[0] / found[1]]
            cells = "".join(f"{' '.join(f'{v:.3f}' for v in part):>24}" for part in parts)
            print(f"{f'{relation}, delta {delta:g}':34}{cells}", flush=True)


def small_table(runs: int, names: list[str]) -> None:
    """Print the inertia over that of one private mean."""
    epsilons = (0.1, 0.3, 1.0, 3.0)
    heads = [f"eps {e:g}, k = {k}" for e in epsilons for k in (3, 8)]
    print("\nInertia over that of DPKMeans(1) at the same cost, medians (*: above 1.1)")
    print(f"{'':46}" + "".join(f"{head:>15}" for head in heads))
    above = cells = 0
    for name in names:
        raw = SMALL[name]().data
        spread = np.maximum(np.ptp(raw, axis=0), 1e-9)
        for scale, X in (("raw", raw), ("scaled", (raw - raw.min(axis=0)) / spread)):
            bounds = X.min(axis=0), X.max(axis=0)
            for relation in RELATIONS:
                for delta in DELTAS:
                    line = []
                    for epsilon in epsilons:
                        medians = []
                        for k in (1, 3, 8):
                            fits = [
                                fitted(X, k, bounds, epsilon, delta, relation) for _ in range(runs)
                            ]
                            centers = [np.unique(m.cluster_centers_, axis=0) for m in fits]
                            medians.append(np.median([nearest(X, c)[1] for c in centers]))
                        line += [medians[1] / medians[0], medians[2] / medians[0]]
                    above += sum(r > 1.1 for r in line)
                    cells += len(line)
                    label = f"{name}, {scale}, {relation}, delta {delta:g}"
                    shown = [f"{r:.2f}" + ("*" if r > 1.1 else " ") for r in line]
                    print(f"{label:46}" + "".join(f"{s:>15}" for s in shown), flush=True)
    print(f"{above} of {cells} cells above 1.1")


def expected_table(runs: int) -> None:
    """Print expected errors over what happened."""
    low, high = np.zeros(3), np.array([120.0, 200_000.0, 1.0])
    print(
        "\nexpected_error(like=public rows) and what happened (median of fits), k = 4, delta 1e-6"
    )
    for n in (1000, 5000, 20_000):
        X, public = mixed(1, n), mixed(2, n)
        for epsilon in (0.3, 1.0, 3.0):
            squares = []
            for _ in range(runs):
                model = fitted(X, 4, (low, high), epsilon, 1e-6, RELATIONS[1])
                off, _, size, _ = errors(X, model)
                relative = np.mean((off / ((high - low) / 2)) ** 2, axis=1)
                squares.append(np.average(relative, weights=size))
            happened = float(np.sqrt(np.median(squares)))
            model = DPKMeans(4, bounds=(low, high), epsilon=epsilon, delta=1e-6)
            expected = model.expected_error(n, like=public)
            print(
                f"n {n:6d}, eps {epsilon:g}: expected {expected:.4f}, happened {happened:.4f}, "
                f"ratio {expected / happened:.2f}",
                flush=True,
            )


def main() -> None:
    """Print every table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=9, help="fits a cell")
    parser.add_argument("--tables", nargs="*", default=list(SMALL), choices=list(SMALL))
    parser.add_argument("--only", choices=["columns", "small"], help="a part of the tables")
    options = parser.parse_args()
    print(
        f"skdp {skdp.__version__}, scikit-learn {sklearn.__version__}, {time.strftime('%Y-%m-%d')}"
    )
    print(f"{options.runs} fits a cell\n")
    if options.only != "small":
        columns_table(options.runs)
        relative_table(options.runs)
        expected_table(options.runs)
    if options.only != "columns":
        small_table(options.runs, options.tables)


if __name__ == "__main__":
    main()
