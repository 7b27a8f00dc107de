"""Linear models and naive Bayes beside those of diffprivlib, on digits, breast cancer and flights.

Run: ``python doc/benchmarks/diffprivlib_models.py [--seeds N]`` with `diffprivlib`. Writes
results/diffprivlib_models.txt. Tables, bounds and splits are those of ``linear_model.py``. Medians
over seeds; a fifth of the rows is for testing. diffprivlib knows epsilon alone, so ours is measured
without delta, too; one row is replaced. All are given the same bounds; diffprivlib's logistic
regression, which needs a norm, has columns scaled to [0, 1] by them and the root of their number.
Nothing is tuned: all have their defaults.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import statistics
import warnings
from pathlib import Path

import diffprivlib
import numpy as np
import sklearn
from diffprivlib.models import GaussianNB, LinearRegression, LogisticRegression
from linear_model import EPSILONS, breast_cancer, digits, flights, measured, r_squared
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import skdp
from skdp import PrivacyBudget
from skdp.linear_model import DPLinearRegression, DPLogisticRegression
from skdp.naive_bayes import DPGaussianNB

OUT = Path(__file__).with_name("results") / "diffprivlib_models.txt"


def accuracy(model, X, y):
    return float(np.mean(model.predict(X) == y)), float("nan")


def sides(bounds, d):
    return tuple(np.broadcast_to(np.asarray(side, dtype=float), d) for side in bounds)


def ours(kind, **facts):
    def make(epsilon, delta, bounds):
        budget = PrivacyBudget(1e6, 0.5, adjacency="replace_one")
        return kind(epsilon=epsilon, delta=delta, budget=budget, bounds=bounds, **facts)

    return make


def their_logistic(epsilon, delta, bounds):
    low, high = bounds
    scale = FunctionTransformer(lambda X: (np.clip(X, low, high) - low) / (high - low))
    return make_pipeline(
        scale, LogisticRegression(epsilon=epsilon, data_norm=float(np.sqrt(len(low))))
    )


def their_bayes(epsilon, delta, bounds):
    return GaussianNB(epsilon=epsilon, bounds=bounds)


def their_line(epsilon, delta, bounds):
    return LinearRegression(epsilon=epsilon, bounds_X=bounds, bounds_y=(-120, 1440))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=21)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = [
        (
            f"# {datetime.date.today()}, skdp {skdp.__version__}, "
            f"diffprivlib {diffprivlib.__version__}, scikit-learn {sklearn.__version__}, "
            f"numpy {np.__version__}, Python {platform.python_version()}"
        ),
        "# medians and quartiles; replace_one; a fifth of the rows is for testing",
        "table epsilon delta estimator measure median quartiles fit_s seeds",
    ]
    tables = [
        ("digits", digits(), range(10), options.seeds),
        ("breast_cancer", breast_cancer(), [0, 1], options.seeds),
    ]
    runs = []
    for name, (X, y, bounds), classes, seeds in tables:
        for label, make, deltas in (
            ("DPLogisticRegression", ours(DPLogisticRegression, classes=classes), (1e-6, 0.0)),
            ("diffprivlib.LogisticRegression", their_logistic, (0.0,)),
            ("DPGaussianNB", ours(DPGaussianNB, classes=classes), (1e-6, 0.0)),
            ("diffprivlib.GaussianNB", their_bayes, (0.0,)),
        ):
            for delta in deltas:
                runs.append((name, X, y, bounds, label, make, delta, accuracy, "accuracy", seeds))
    X, y, bounds = flights()
    few = max(options.seeds // 4, 3)
    for label, make, deltas in (
        ("DPLinearRegression", ours(DPLinearRegression, target_bounds=(-120, 1440)), (1e-6, 0.0)),
        ("diffprivlib.LinearRegression", their_line, (0.0,)),
    ):
        for delta in deltas:
            runs.append(("flights", X, y, bounds, label, make, delta, r_squared, "R2", few))
    for name, X, y, bounds, label, make, delta, score, measure, seeds in runs:
        both = sides(bounds, X.shape[1])
        for epsilon in EPSILONS:
            try:
                found = [
                    measured(make(epsilon, delta, both), X, y, seed, score) for seed in range(seeds)
                ]
            except ValueError as error:
                lines.append(f"{name} {epsilon:g} {delta:g} {label} refused: {error}")
                print(lines[-1], flush=True)
                continue
            values = [one[0] for one in found]
            low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
            seconds = statistics.median(one[-1] for one in found)
            lines.append(
                f"{name} {epsilon:g} {delta:g} {label} {measure} {middle:.3f} "
                f"{low:.3f}-{high:.3f} {seconds:.3f} {seeds}"
            )
            print(lines[-1], flush=True)
    OUT.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
