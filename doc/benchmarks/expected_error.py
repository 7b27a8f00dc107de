"""Predicted and actual errors: `expected_error` against the root mean square error of calls.

Each line is a function or estimator, a table, a number of rows: the prediction from other rows of
the same kind, the measured error, and their ratio. Run: python doc/benchmarks/expected_error.py
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import numpy as np

from skdp import DPStandardScaler, PrivacyBudget, statistics

REPEATS = 60
LIMIT = 1.3
Line = tuple[str, str, int, float, float]


def tables(n: int, seed: int) -> dict[str, np.ndarray]:
    """Return columns in [0, 1]."""
    rng = np.random.default_rng([seed, n])
    return {
        "uniform": rng.random((n, 2)),
        "binary": (rng.random((n, 2)) < 0.3) * 1.0,
        "skewed": np.minimum(rng.exponential(0.2, (n, 2)), 1.0),
    }


def rms(errors: list[np.ndarray]) -> float:
    """Return the root mean square of all entries."""
    return float(np.sqrt(np.mean(np.square(errors))))


def of_statistics() -> Iterator[Line]:
    """Compare the functions of `skdp.statistics` and the standard scaler."""
    exact: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "sum": lambda X: X.sum(axis=0),
        "mean": lambda X: X.mean(axis=0),
        "var": lambda X: X.var(axis=0),
        "std": lambda X: X.std(axis=0),
        "covariance": lambda X: np.cov(X.T),
        "correlation": lambda X: np.corrcoef(X.T),
    }
    for n in (2000, 20_000):
        for kind, X in tables(n, 0).items():
            like = tables(1000, 1)[kind]
            for name, truth in exact.items():
                more = {"bounds": (0.0, 1.0), "epsilon": 3.0}
                predicted = rms([statistics.expected_error(name, n, like=like, **more)])
                call = getattr(statistics, name)
                off = [call(X, **more).value - truth(X) for _ in range(REPEATS)]
                yield name, kind, n, predicted, rms(off)
            for relation in ("replace_one", "add_or_remove_one"):
                budget = PrivacyBudget(1e6, adjacency=relation)
                scaler = DPStandardScaler(bounds=(0.0, 1.0), epsilon=1.0, budget=budget)
                predicted = scaler.expected_error(n, 2, like=like)
                off = [scaler.fit(X).mean_ - X.mean(axis=0) for _ in range(REPEATS)]
                yield f"DPStandardScaler, {relation}", kind, n, predicted, rms(off)


PARTS = (of_statistics,)

if __name__ == "__main__":
    warnings.simplefilter("ignore")  # made-up rows: no ledger counts them
    for part in PARTS:
        for name, kind, n, predicted, actual in part():
            ratio = predicted / actual
            mark = "" if 1 / LIMIT <= ratio <= LIMIT else "  beyond 1.3"
            print(f"{name:36}{kind:10}{n:>7}{predicted:12.3g}{actual:12.3g}{ratio:7.2f}{mark}")
