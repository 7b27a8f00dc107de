"""Boosting beside DP-EBM and diffprivlib on a census: area under the ROC curve.

Run: ``python doc/benchmarks/boosting.py FILE [--seeds N]``; `interpret-core` and `diffprivlib`
are the peers. Writes results/boosting.txt. FILE, table and split are those of
``train_on_release.py``; delta = 1e-6, rows added or removed. All are given the same ranges of
numbers; categories are codes here, and nominal columns for DP-EBM, which takes their values for
public. The forest of diffprivlib knows epsilon alone. Nothing is tuned: all have their defaults.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import statistics
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
import sklearn
from diffprivlib.models import RandomForestClassifier as PeerForest
from interpret.privacy import DPExplainableBoostingClassifier as Peer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from train_on_release import EDGES, census

import skdp
from skdp import DPExplainableBoostingClassifier, PrivacyBudget

OUT = Path(__file__).with_name("results") / "boosting.txt"
N_TRAIN = 39_073


def measured(fits, X, y, seeds):
    """Return median and range of the area on the last rows, and the median seconds of a fit."""
    areas, seconds = [], []
    for seed in range(seeds):
        started = time.perf_counter()
        model = fits(seed)
        seconds.append(time.perf_counter() - started)
        areas.append(roc_auc_score(y, model.predict_proba(X)[:, 1]))
    low, high = min(areas), max(areas)
    return f"{statistics.median(areas):.3f} {low:.3f}-{high:.3f} {statistics.median(seconds):.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    table = census(given.file)
    y = (table.pop("income") == "high").to_numpy().astype(int)
    text = [name for name in table if name not in EDGES]
    nominal = table.assign(**{name: table[name].astype(str) for name in text})
    codes = table.copy()
    bounds = {name: (edges[0], edges[-1]) for name, edges in EDGES.items()}
    for name in text:
        values = sorted(table[name].unique())
        codes[name] = table[name].map({value: i for i, value in enumerate(values)})
        bounds[name] = (0, len(values) - 1)
    codes = codes.astype(np.float64)
    train, test = slice(None, N_TRAIN), slice(N_TRAIN, None)
    kinds = ["nominal" if name in text else "continuous" for name in table]
    ranges = {name: bounds[name] for name in EDGES}

    def ours(epsilon, delta, stated):
        def fit(seed):
            return DPExplainableBoostingClassifier(
                classes=[0, 1],
                bounds=stated,
                epsilon=epsilon,
                delta=delta,
                budget=PrivacyBudget(epsilon, 1e-5, adjacency="add_or_remove_one"),
            ).fit(codes[train], y[train])

        return fit

    def peer(epsilon):
        def fit(seed):
            return Peer(
                epsilon=epsilon,
                delta=1e-6,
                feature_types=kinds,
                privacy_bounds=ranges,
                random_state=seed,
            ).fit(nominal[train], y[train])

        return fit

    def peer_forest(epsilon):
        def fit(seed):
            low, high = zip(*(bounds[name] for name in codes), strict=True)
            return PeerForest(
                epsilon=epsilon,
                bounds=(list(low), list(high)),
                classes=[0, 1],
                random_state=seed,
            ).fit(codes[train].to_numpy(), y[train])

        return fit

    lines = [
        (
            f"# {datetime.date.today().isoformat()}, skdp {skdp.__version__}, interpret-core "
            f"{version('interpret-core')}, diffprivlib {version('diffprivlib')}, scikit-learn "
            f"{sklearn.__version__}, Python {platform.python_version()}"
        ),
        (
            f"# medians of {given.seeds} fits, range; {len(table)} rows, {table.shape[1]} columns; "
            "delta = 1e-6 (pure: 0), add_or_remove_one"
        ),
        "estimator epsilon AUC range fit_s",
    ]
    exact = HistGradientBoostingClassifier(random_state=0).fit(codes[train], y[train])
    area = roc_auc_score(y[test], exact.predict_proba(codes[test])[:, 1])
    lines.append(f"HistGradientBoostingClassifier - {area:.3f} - -")
    for epsilon in (0.1, 0.3, 1.0):
        for name, fits, rows in (
            ("ours", ours(epsilon, 1e-6, bounds), codes),
            ("ours,learned_bounds", ours(epsilon, 1e-6, "private"), codes),
            ("ours,pure", ours(epsilon, 0.0, bounds), codes),
            ("DP-EBM", peer(epsilon), nominal),
            ("forest,diffprivlib,pure", peer_forest(epsilon), codes),
        ):
            found = measured(fits, rows[test], y[test], given.seeds)
            lines.append(f"{name} {epsilon:g} {found}")
            print(lines[-1], flush=True)
    OUT.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
