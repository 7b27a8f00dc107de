"""How often intervals of `DPGroupBy` hold what they say: 10,000 runs a cell.

A cell is an aggregate of a kind of key, under one method and relation. A fit has many keys of each
kind, whose noise is independent, and is repeated. Private keys count where they were found. The
exact integers are computed once. Of a population's means, units are drawn anew for every fit.
Writes results/group_by_coverage.txt.
"""

from __future__ import annotations

import argparse
import datetime
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd

from skdp import PrivacyBudget
from skdp.aggregation import DPGroupBy, _group_by
from skdp.tabular import KeyTerm, check_grouped

RELATIONS = ("add_or_remove_one", "replace_one")
CAP, LOW, HIGH, COPIES = 3, -20.0, 40.0, 25
EDGES = [-20.0, 0.0, 10.0, 40.0]
VALUE = ("v", (LOW, HIGH))
SPEC = {
    "count": "count",
    "distinct_units": "distinct_units",
    **{kind: (kind, *VALUE) for kind in ("sum", "mean", "variance", "std")},
    "median": ("quantile", "v", 0.5, (LOW, HIGH)),
    "q90": ("quantile", "v", 0.9, (LOW, HIGH)),
    "histogram": ("histogram", "v", EDGES),
}
# Units, rows a unit, values: of keys whose rows are many, few and hidden by noise.
KINDS = {
    "normal": (300, lambda g, n: g.normal(8, 9, n)),
    "zero or much": (150, lambda g, n: np.where(g.random(n) < 0.7, 0, g.lognormal(2, 1, n))),
    "0/1": (80, lambda g, n: (g.random(n) < 0.3) * 1.0),
    "constant": (150, lambda g, n: np.full(n, 12.5)),
    "few": (12, lambda g, n: g.normal(8, 9, n)),
}
METHODS = {
    "stated, Laplace": {"delta": 0.0, "keys": True},
    "stated, Gaussian": {"keys": True},
    "laplace": {"key_method": "laplace"},
    "optimal": {"key_method": "optimal"},
    "gaussian": {"key_method": "gaussian"},
    "sips": {"key_method": "sips"},
}


def table(rng, copies=COPIES, same=True):
    """Return rows; copies of a key have the same rows, of other units, or others of their kind."""
    parts = []
    for kind, (units, draw) in KINDS.items():
        for copy in range(copies):
            if not (same and copy):
                rows = 1 + rng.poisson(1.5, units)
                u = np.repeat(np.arange(units), rows)
                v = draw(rng, len(u))
            parts.append(
                pd.DataFrame({"u": u + 10_000 * len(parts), "k": f"{kind} {copy}", "v": v})
            )
    return pd.concat(parts, ignore_index=True)


def truth(rows):
    """Return aggregates of the rows as bounded and clipped, by name and key."""
    rows = rows.assign(w=np.minimum(1, CAP / rows.groupby(["u", "k"]).v.transform("size")))
    keys = tuple(sorted(set(rows.k)))
    terms = [KeyTerm("rows"), KeyTerm("units"), KeyTerm("sum", "v", LOW, HIGH, zero=True)]
    terms.append(KeyTerm("bins", "v", edges=tuple(EDGES)))
    read = check_grouped(rows, by=["k"], unit="u", columns=["v"])
    exact = read.totals(keys, terms, 1, CAP).astype(float)
    out = {}
    for key, (count, units, total, *bins) in zip(keys, exact, strict=True):
        one = rows[rows.k == key]
        v, w = one.v.clip(LOW, HIGH).to_numpy(), one.w.to_numpy()
        mean = np.average(v, weights=w)
        variance = np.average((v - mean) ** 2, weights=w)
        order = np.argsort(v)
        reached = np.cumsum(w[order]) / w.sum()
        out[key] = {
            "count": count, "distinct_units": units, "sum": total * terms[2].grid, "mean": mean,
            "variance": variance, "std": np.sqrt(variance),
            "median": v[order][np.searchsorted(reached, 0.5)],
            "q90": v[order][np.searchsorted(reached, 0.9)],
            **{f"histogram_{i}": part / 1024 for i, part in enumerate(bins)},
        }  # fmt: skip
    return out


def make(method, relation, keys, epsilon):
    options = dict(METHODS[method])
    options["keys"] = list(keys) if options.pop("keys", False) else "private"
    budget = PrivacyBudget(epsilon, 0.5, adjacency=relation, unit="u")
    options |= {"delta": 1e-2} if "delta" not in options else {}
    return DPGroupBy(
        "k",
        "u",
        epsilon=epsilon,
        max_keys_per_unit=1,
        max_rows_per_unit=CAP,
        budget=budget,
        **options,
    )


def held(fits, exact, spec, shown):
    """Return (times held, runs) by (aggregate, kind of key)."""
    counts = {}
    for _ in range(fits):
        for key, cells in shown(spec).items():
            for name, true in exact[key].items():
                if f"{name}_low" not in cells:
                    continue
                cell = counts.setdefault((name, key.rpartition(" ")[0]), [0, 0])
                # Sums of rounded values: off by less than half a step each.
                low, high = cells[f"{name}_low"] - 1e-5, cells[f"{name}_high"] + 1e-5
                cell[0] += int(low <= true <= high)
                cell[1] += 1
    return counts


def coverage(method, relation, fits, epsilon, spec=SPEC):
    rows = table(np.random.default_rng(1))
    exact = truth(rows)
    read = check_grouped(rows, by=["k"], unit="u", columns=["v"])
    original = _group_by.check_grouped
    _group_by.check_grouped = lambda *_, **__: read
    try:
        return held(
            fits,
            exact,
            spec,
            lambda spec: make(method, relation, exact, epsilon).agg(**spec).fit(rows).to_dict(),
        )
    finally:
        _group_by.check_grouped = original


def population(method, relation, fits, epsilon):
    """Return how often the second interval holds the mean of the population."""
    rng = np.random.default_rng(2)
    many = table(rng, 400, same=False)
    many["w"] = np.minimum(1, CAP / many.groupby(["u", "k"]).v.transform("size"))
    kinds = many.k.str.rpartition(" ")[0]
    means = {
        kind: np.average(v.clip(LOW, HIGH), weights=many.w[v.index])
        for kind, v in many.v.groupby(kinds)
    }
    counts = {}
    for _ in range(fits):
        rows = table(rng, same=False)
        found = (
            make(method, relation, sorted(set(rows.k)), epsilon)
            .agg(mean=SPEC["mean"])
            .fit(rows)
            .to_dict()
        )
        for key, cells in found.items():
            kind = key.rpartition(" ")[0]
            cell = counts.setdefault(("mean, population", kind), [0, 0])
            cell[0] += int(
                cells["mean_population_low"] <= means[kind] <= cells["mean_population_high"]
            )
            cell[1] += 1
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--epsilon", type=float, default=8.0)
    parser.add_argument("--aggregates", nargs="*", default=list(SPEC))
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--to", default="group_by_coverage.txt")
    options = parser.parse_args()
    fits = -(-options.runs // COPIES)
    lines = []
    spec = {name: SPEC[name] for name in options.aggregates}
    for method in options.methods:
        for relation in RELATIONS:
            cells = coverage(method, relation, fits, options.epsilon, spec)
            if METHODS[method].get("keys") and "mean" in spec:
                cells |= population(method, relation, fits, options.epsilon)
            for (name, kind), (times, runs) in cells.items():
                lines.append((method, relation, name, kind, times / runs, runs))
                print(*lines[-1], flush=True)
    write(lines, options)


def write(lines, options):
    found = pd.DataFrame(lines, columns=["method", "relation", "aggregate", "key", "held", "runs"])
    found = found[found.runs >= options.runs / 2]
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout
    pairs = [(method, relation) for method in options.methods for relation in RELATIONS]
    first = (
        f"{options.runs:,} runs a cell, epsilon {options.epsilon:g}, delta 0 or 0.01: in how many "
        f"percent intervals of 95% held; {datetime.date.today()}, commit {commit.strip()}. The "
        f"least and the largest of the kinds of keys ({', '.join(KINDS)}). Keys that were found in "
        "less than half of the runs are left out."
    )
    header = " | ".join(f"{method}, {relation[:7]}" for method, relation in pairs)
    text = [first, "", f"| aggregate | {header} |", "|---" * (1 + len(pairs)) + "|"]
    for name, part in found.groupby("aggregate", sort=False):
        cells = []
        for method, relation in pairs:
            of = part[(part.method == method) & (part.relation == relation)].held * 100
            cells.append(f"{of.min():.1f}-{of.max():.1f}" if len(of) else "")
        text.append(f"| {name} | " + " | ".join(cells) + " |")
    by_kind = found.groupby(["aggregate", "key"], sort=False).held.agg(["min", "max"]) * 100
    text += [
        "",
        "By kind of key, over methods and relations:",
        "",
        by_kind.round(1).to_string(),
        "",
    ]
    (Path(__file__).parent / "results" / options.to).write_text("\n".join(text), encoding="utf-8")


if __name__ == "__main__":
    main()
