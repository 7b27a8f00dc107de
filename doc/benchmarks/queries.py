"""Error of all 3-way conjunctions of 16 columns, by each releaser, beside noise on each table.

The table is that of the National Long Term Care Survey (21,574 people, 16 columns of zeros and
ones; tests/data/nltcs.csv.gz), as in Hardt, Ligett & McSherry 2012. Queries are the 4,480 cells of
its 560 3-way tables. A cell shows the largest error of a query, then the mean one, as fractions of
the people, each the median over seeds; behind it the range of the largest error.

Noise on each table: a row is in one cell of each, so the L1 sensitivity of all is 560 (1120 if a
row is replaced) and the L2 sensitivity sqrt(560) (sqrt(1120)). The goal: at both epsilons MWEM's
largest error is below that of Laplace noise, of Gaussian noise (delta = 1e-6) and of the uniform
distribution. Errors are not cut to [0, 1]; what counts is below 1 anyway.

The online mechanism is asked 300 of the queries, in random order; its errors are those of its
answers, and of its predictions once it has no updates left.

SmallDB cannot list the tables of 2**16 cells; it chooses from a public list of 1,000 random ones.
The theory behind it wants all tables: here it is no better than the best of its list.

A method is a function of (epsilon, delta, adjacency, seed) that returns all answers, NaN where it
has not been asked; another one joins by a line in `methods`.

Run: ``python doc/benchmarks/queries.py [--seeds 11] [--relations ...] [--methods ...]``.
"""

from __future__ import annotations

import argparse
import gzip
import time
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from skdp import config_context
from skdp.budget import PrivacyBudget
from skdp.core import open_session
from skdp.exceptions import BudgetExceededError
from skdp.queries import MarginalCells, row_counts
from skdp.synthetic import (
    Domain,
    DPMarginalSynthesizer,
    MWEMReleaser,
    PrivateMultiplicativeWeights,
    SmallDBReleaser,
    conjunctions,
    linear_queries,
)
from skdp.tabular import check_coded

Floats = NDArray[np.float64]
Method = Callable[[float, float, str, int], Floats]
DATA = Path(__file__).parents[2] / "tests" / "data" / "nltcs.csv.gz"
DELTA = 1e-6
DOMAIN = Domain.binary(16)
QUERIES = conjunctions(3)
WORK = QUERIES.workload(DOMAIN)


def people() -> NDArray[np.int64]:
    """Return one row a person."""
    with gzip.open(DATA, "rt") as text:
        cells = np.loadtxt(text, delimiter=",", skiprows=1, dtype=np.int64)
    return np.repeat(cells[:, :-1], cells[:, -1], axis=0)


X = people()
N = len(X)


def exact_answers() -> Floats:
    """Return the exact fractions."""
    table = np.zeros(DOMAIN.sizes, dtype=np.int64)
    np.add.at(table, tuple(X.T), 1)
    return WORK.answers(table) / N


EXACT = exact_answers()


def budget(adjacency: str) -> PrivacyBudget:
    """Return a budget of the relation, large enough."""
    return PrivacyBudget(1e3, 0.1, adjacency=adjacency)


def uniform(epsilon: float, delta: float, adjacency: str, seed: int) -> Floats:
    """Answer as if all cells were equally likely."""
    return np.full(WORK.n_queries, 1 / 8)


def noise(epsilon: float, delta: float, adjacency: str, seed: int) -> Floats:
    """Answer all queries with independent noise on each of their tables."""
    rows = check_coded(X, DOMAIN, estimator="noise")
    with open_session(
        rows,
        estimator="noise",
        epsilon=epsilon,
        delta=delta,
        budget=budget(adjacency),
        random_state=seed,
    ) as session:
        share = Fraction(1, len(WORK.groups))
        tables = [row_counts(MarginalCells(WORK.sizes, s), "table") for s in WORK.attribute_sets]
        return np.concatenate([session.answer(t, share).value.reshape(-1) for t in tables]) / N


def mwem(epsilon: float, delta: float, adjacency: str, seed: int) -> Floats:
    """Answer by MWEM with its defaults."""
    released = MWEMReleaser(
        QUERIES,
        domain=DOMAIN,
        epsilon=epsilon,
        delta=delta,
        budget=budget(adjacency),
        random_state=seed,
    ).fit(X)
    return released.predict(QUERIES)


def marginals(epsilon: float, delta: float, adjacency: str, seed: int) -> Floats:
    """Answer by the graphical model of measured marginal tables, with its defaults."""
    released = DPMarginalSynthesizer(
        QUERIES,
        domain=DOMAIN,
        epsilon=epsilon,
        delta=delta,
        budget=budget(adjacency),
        random_state=seed,
    ).fit(X)
    return released.predict(QUERIES)


def small_table(epsilon: float, delta: float, adjacency: str, seed: int) -> Floats:
    """Answer by one of 1,000 public random tables."""
    released = SmallDBReleaser(
        QUERIES,
        alpha=0.1,
        domain=DOMAIN,
        candidates=1000,
        epsilon=epsilon,
        budget=budget(adjacency),
        random_state=seed,
    ).fit(X)
    return released.predict(QUERIES)


def online(epsilon: float, delta: float, adjacency: str, seed: int) -> Floats:
    """Ask 300 of the queries, one at a time."""
    fitted = PrivateMultiplicativeWeights(
        DOMAIN,
        alpha=0.1 if epsilon >= 1 else 0.25,
        epsilon=epsilon,
        delta=delta,
        budget=budget(adjacency),
        random_state=seed,
    )
    order = np.random.default_rng(seed).permutation(WORK.n_queries)[:300]
    answers = np.full(WORK.n_queries, np.nan)
    with fitted.fit(X):
        for query in order.tolist():
            where, place = WORK.locate(query)
            group = WORK.groups[where]
            ask = group.coefficients(WORK.sizes, np.array([place]))
            asked = linear_queries(ask, columns=group.attributes)
            try:
                answers[query] = fitted.answer(asked)
            except BudgetExceededError:
                answers[query] = fitted.predict(asked)[0]
    return answers


def methods() -> dict[str, tuple[Method, float]]:
    """Return each method with its delta."""
    return {
        "uniform": (uniform, 0.0),
        "laplace": (noise, 0.0),
        "gaussian": (noise, DELTA),
        "small table": (small_table, 0.0),
        "online": (online, 0.0),
        "online, delta": (online, DELTA),
        "mwem": (mwem, 0.0),
        "mwem, delta": (mwem, DELTA),
        "marginals": (marginals, 0.0),
        "marginals, delta": (marginals, DELTA),
    }


def main(seeds: int, relations: list[str], names: list[str]) -> None:
    """Print the tables of some relations and methods."""
    warnings.simplefilter("ignore")  # seeds are marked; here they are wanted
    for adjacency in relations:
        print(f"\n{adjacency}, {seeds} seeds; delta = {DELTA:g} where there is one")
        print(f"{'':<16}{'epsilon':>8}{'largest':>9}{'mean':>9}{'range of largest':>20}{'s':>7}")
        for epsilon in (0.1, 1.0):
            for name in names:
                method, delta = methods()[name]
                start = time.perf_counter()
                errors = np.array(
                    [np.abs(method(epsilon, delta, adjacency, s) - EXACT) for s in range(seeds)]
                )
                largest = np.nanmax(errors, axis=1)
                each = (time.perf_counter() - start) / seeds
                print(
                    f"{name:<16}{epsilon:>8g}{np.median(largest):>9.4f}"
                    f"{np.median(np.nanmean(errors, axis=1)):>9.4f}"
                    f"{f'{largest.min():.4f} .. {largest.max():.4f}':>20}{each:>7.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=11)
    parser.add_argument("--relations", nargs="+", default=["add_or_remove_one", "replace_one"])
    parser.add_argument("--methods", nargs="+", default=list(methods()))
    stated = parser.parse_args()
    with config_context(noise="seeded"):  # so that the tables repeat themselves
        main(stated.seeds, stated.relations, stated.methods)
