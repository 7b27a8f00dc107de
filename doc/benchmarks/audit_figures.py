"""What audits prove about each estimator, beside what it claims.

Each estimator of the contract's audits is fitted on its worst known pair of tables at epsilon =
0.5, 1 and 4 (with delta = 1e-6 where noise is Gaussian), as often as SECONDS of a processor allow.
"moved" is the largest distance of an exact statistic over its sensitivity on that pair
(`neighbour_check`); an epsilon or a mu is proved, of the one that is
claimed. Prints the table that ``results/audit_figures.inc`` keeps.

    PYTHONPATH=.:tests/contract python doc/benchmarks/audit_figures.py [SECONDS [NAME...]]
"""

from __future__ import annotations

import datetime
import subprocess
import sys
import time
import warnings

from audit_pairs import PAIRS, Recorded
from sklearn.base import clone

import skdp
from skdp.audit import audit, neighbour_check

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
NAMES = sys.argv[2:]
CONFIDENCE = 0.999
EPSILONS = (0.5, 1.0, 4.0)
MOST = 40_000


def at(pair, epsilon):
    """Return the pair's estimator at an epsilon, ready for its statistic."""
    estimator = clone(pair.estimator)
    names = estimator.get_params()
    changes = {"epsilon": epsilon}
    if names.get("delta"):
        changes["delta"] = 1e-6
    estimator.set_params(**changes)
    return estimator


def found(pair, epsilon):
    """Return the largest distance, what is seen, and what is proved, of which claim and runs."""
    X, other, y, y_other = pair.tables()
    estimator = at(pair, epsilon)
    moved = neighbour_check(estimator, X, other, y=y, y_neighbour=y_other)
    largest = max((one.distance / one.sensitivity for one in moved if one.sensitivity), default=0.0)
    statistic, who = pair.statistic, estimator
    if statistic is None:
        statistic, who = "score_", Recorded(estimator, X, other, y, y_other)
    options = {"y": y, "y_neighbour": y_other, "random_state": 0, "confidence": CONFIDENCE}
    started = time.process_time()
    audit(who, X, other, statistic, n_runs=20, **options)
    once = (time.process_time() - started) / 40
    runs = int(min(MOST, max(100, SECONDS / (2 * once))))
    result = audit(who, X, other, statistic, n_runs=runs, **options)
    proved, claim = (
        (result.epsilon_lower, result.epsilon)
        if result.mu is None
        else (result.mu_lower, result.mu)
    )
    seen = "releases" if pair.statistic is None else "output"
    what = "ε" if result.mu is None else "μ"
    text = f"{what} {proved:.3f} of {claim:.3g} ({proved / claim:.0%})"
    return largest, seen, text, runs, not result.refuted


def row(pair):
    """Return the line of an estimator: its figures at three epsilons."""
    moved, seen, texts, runs, passed = zip(*(found(pair, e) for e in EPSILONS), strict=True)
    holds = "yes" if all(passed) else "**no**"
    shown = f"{min(moved):.2f} | {seen[0]} | {' | '.join(texts)} | {min(runs)} | {holds}"
    return f"| {pair.name} | {shown} |"


def main():
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    print(
        f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}, skdp {skdp.__version__} at {commit}, "
        f"confidence {CONFIDENCE} a row, {SECONDS:g} seconds of one core a row.\n"
    )
    heads = " | ".join(f"ε = {epsilon:g}" for epsilon in EPSILONS)
    print(f"| estimator and relation | moved | seen | {heads} | runs | holds |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    with warnings.catch_warnings(), skdp.config_context(noise="seeded"):
        warnings.simplefilter("ignore")
        for pair in [p for p in PAIRS if not NAMES or p.name in NAMES]:
            print(row(pair), flush=True)


if __name__ == "__main__":
    main()
