"""Processor time of a fit over that of what it replaces, by rows and by columns, on one thread.

    python doc/benchmarks/speed.py [--peer PYTHON] [--most ROWS]
    python doc/benchmarks/speed.py --profile [ROWS COLUMNS]

Each cell is the smallest of three fits (of one, if it takes five seconds) over scikit-learn's
smallest in the same run, on the same rows: `bounds` stated and delta = 0, bounds learned and
delta = 1e-6, and diffprivlib's with bounds stated, if PYTHON is an interpreter that has it (beside
a scikit-learn that it works with). Rows are normal and clipped to [-4, 4]. A row of the table ends
where a fit takes longer than a minute, or would do so by what the one before took. With more than a
million rows there is one fit of each. `--profile` samples the stack every millisecond and tells
which part of skdp a fit spends its time in. Writes results/speed.txt and doc/figures/speed.png.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import json
import platform
import signal
import subprocess
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import sklearn
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import NearestCentroid
from sklearn.preprocessing import (
    KBinsDiscretizer,
    MinMaxScaler,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from threadpoolctl import threadpool_limits

HERE = Path(__file__).parent
BOX, SIDE, CLASSES = (-4.0, 4.0), {"bounds": (-4.0, 4.0)}, {"classes": [0, 1]}
TARGET = {"target_bounds": (-5.0, 5.0)}
AVERAGED = {"subsample": None, "quantile_method": "averaged_inverted_cdf"}
# What is replaced, the name of ours, what is stated, which target is fitted.
FITS = {
    "mean": (lambda: Mean(), "", SIDE, None),
    "StandardScaler": (StandardScaler, "DPStandardScaler", SIDE, None),
    "MinMaxScaler": (MinMaxScaler, "DPMinMaxScaler", SIDE, None),
    "RobustScaler": (RobustScaler, "DPRobustScaler", SIDE, None),
    "QuantileTransformer": (
        lambda: QuantileTransformer(subsample=None), "DPQuantileTransformer", SIDE, None),
    "KBinsDiscretizer": (
        lambda: KBinsDiscretizer(encode="ordinal", **AVERAGED), "DPKBinsDiscretizer", SIDE, None),
    "SimpleImputer": (SimpleImputer, "DPSimpleImputer", SIDE, None),
    "SelectKBest": (lambda: SelectKBest(k=1), "DPSelectKBest", SIDE | CLASSES, "labels"),
    "KMeans": (lambda: KMeans(8, random_state=0), "DPKMeans", SIDE, None),
    "PCA": (lambda: PCA(1), "DPPCA", {"center": 0.0}, None),
    "LinearRegression": (LinearRegression, "DPLinearRegression", SIDE | TARGET, "numbers"),
    "Ridge": (Ridge, "DPRidge", SIDE | TARGET, "numbers"),
    "LogisticRegression": (LogisticRegression, "DPLogisticRegression", SIDE | CLASSES, "labels"),
    "GaussianNB": (GaussianNB, "DPGaussianNB", SIDE | CLASSES, "labels"),
    "NearestCentroid": (NearestCentroid, "DPNearestCentroid", SIDE | CLASSES, "labels"),
    "LinearDiscriminantAnalysis": (
        LinearDiscriminantAnalysis, "DPLinearDiscriminantAnalysis", SIDE | CLASSES, "labels"),
    "HistGradientBoosting": (
        HistGradientBoostingClassifier, "DPExplainableBoostingClassifier", SIDE | CLASSES,
        "labels"),
}  # fmt: skip
OTHERS = {"SelectKBest": {"k": 1}, "KMeans": {"n_clusters": 8}, "PCA": {"n_components": 1}}
ROWS, COLUMNS = (10**3, 10**4, 10**5, 10**6, 10**7), (1, 10, 100, 2000)
FEW_COLUMNS, FEW_ROWS = 5, 5000
LONGEST = 60  # seconds on the clock
PARTS = {  # of a profile: the first folder that a path begins with
    "mapping": ("tabular", "core/clipping", "core/table", "engines"),
    "summing": ("core/sums", "core/query", "queries"),
    "noise": ("core/noise", "core/mechanisms"),
    "ledger": ("budget", "core/session", "core/privacy_filter", "core/certificate"),
    "planning": ("loss", "planning", "base/context", "base/mixin", "parameters"),
}


class Mean:
    """numpy.mean of each column, as a fit."""

    def fit(self, X):
        self.mean_ = np.mean(X, axis=0)
        return self


def rows(n, d):
    """Return X, and targets by name."""
    rng = np.random.default_rng(0)
    X = np.clip(rng.standard_normal((n, d)), *BOX)
    z = X @ rng.standard_normal(d) / np.sqrt(d)
    noisy = z + rng.standard_normal(n) / 2
    return X, {"labels": (noisy > 0).astype(int), "numbers": np.clip(noisy, -5, 5), None: None}


def fitted(make, X, y):
    """Return the least seconds of a processor, and by how many bytes memory rose at most."""
    least, rise = np.inf, 0
    for _ in range(3 if len(X) <= 10**6 else 1):
        estimator = make()
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")
        before, started = resident("VmRSS"), time.process_time()
        signal.alarm(LONGEST)
        estimator.fit(X) if y is None else estimator.fit(X, y)
        signal.alarm(0)
        least = min(least, time.process_time() - started)
        rise = max(rise, resident("VmHWM") - before)
        if least > 5:
            break
    return least, rise


def too_long(*_):
    raise TimeoutError


def resident(what):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(what))


def ours(name, d, *, stated):
    """Return what makes our estimator."""
    import skdp
    from skdp.statistics import mean

    _, kind, facts, _ = FITS[name]
    facts = dict(facts) if stated else {}
    if name == "PCA" and stated:
        facts["norm_bound"] = 1.2 * float(np.sqrt(d))
    facts |= {"epsilon": 1.0, "delta": 0.0 if stated else 1e-6}
    if not kind:
        return lambda: Function(lambda X: mean(X, axis=0, **facts))
    return lambda: getattr(skdp, kind)(**OTHERS.get(name, {}), **facts)


class Function:
    """A call of one array, as a fit."""

    def __init__(self, call):
        self.call = call

    def fit(self, X):
        self.result_ = self.call(X)


def theirs(name, d):
    """Return what makes diffprivlib's estimator; None if it has none."""
    from diffprivlib import models, tools

    norm = 1.2 * float(np.sqrt(d))
    sides = (np.full(d, BOX[0]), np.full(d, BOX[1]))
    made = {
        "mean": lambda: Function(lambda X: tools.mean(X, axis=0, bounds=sides)),
        "StandardScaler": lambda: models.StandardScaler(bounds=sides),
        "KMeans": lambda: models.KMeans(8, bounds=sides),
        "PCA": lambda: models.PCA(1, data_norm=norm, bounds=sides),
        "LinearRegression": lambda: models.LinearRegression(bounds_X=sides, bounds_y=(-5.0, 5.0)),
        "LogisticRegression": lambda: models.LogisticRegression(data_norm=norm),
        "GaussianNB": lambda: models.GaussianNB(bounds=sides),
    }
    return made.get(name)


def sizes(most):
    by_rows = [(n, FEW_COLUMNS) for n in ROWS if n <= most]
    return by_rows, [(FEW_ROWS, d) for d in COLUMNS if most >= FEW_ROWS]


def measure_peer(most):
    """Print diffprivlib's seconds of every cell; runs in its own interpreter."""
    seconds = {}
    for axis in sizes(most):
        ended = set()
        for n, d in axis:
            X, targets = rows(n, d)
            for name, (*_, target) in FITS.items():
                if (make := theirs(name, d)) is None or name in ended:
                    continue
                try:
                    seconds[f"{name} {n} {d}"], _ = fitted(make, X, targets[target])
                except (TimeoutError, ValueError, np.linalg.LinAlgError):
                    ended.add(name)
    print(json.dumps(seconds))


def measure(most, peer):
    """Yield the name, rows, columns, three ratios and the rise of memory of each cell."""
    for axis in sizes(most):
        before = {}  # the longest fit of a name, and how many cells X had
        for n, d in axis:
            X, targets = rows(n, d)
            for name, (replaced, *_, target) in FITS.items():
                took, cells = before.get(name, (0.0, 1))
                if took * X.size / cells > LONGEST or (name == "SelectKBest" and d == 1):
                    continue
                y = targets[target]
                try:
                    base, _ = fitted(replaced, X, y)
                    stated, rise = fitted(ours(name, d, stated=True), X, y)
                    learned, more = fitted(ours(name, d, stated=False), X, y)
                except TimeoutError:
                    before[name] = np.inf, 1
                    continue
                before[name] = max(base, stated, learned), X.size
                other = peer.get(f"{name} {n} {d}", np.nan)
                found = [took / base for took in (stated, learned, other)]
                yield name, n, d, found, max(rise, more)


def figure(found, path):
    import matplotlib.pyplot as plt

    fig, panels = plt.subplots(2, 3, figsize=(11, 6.5), sharey=True, layout="constrained")
    titles = ("bounds stated", "bounds learned", "diffprivlib")
    lines, marks = ("-", "--"), "os^vDP*X"
    for across, axes in enumerate(panels):
        for which, ax in enumerate(axes):
            for k, name in enumerate(FITS):
                cells = [
                    (n if across == 0 else d, ratios[which])
                    for one, n, d, ratios, _ in found
                    if one == name and (d == FEW_COLUMNS if across == 0 else n == FEW_ROWS)
                ]
                if any(np.isfinite(ratio) for _, ratio in cells):
                    style = {"color": f"C{k % 10}", "ls": lines[k // 10], "marker": marks[k % 8]}
                    ax.plot(*zip(*cells, strict=True), **style, ms=4, lw=1, label=name)
            ax.axhline(1.0, color="0.5", lw=0.8)
            ax.set(xscale="log", yscale="log", xlabel=("rows", "columns")[across])
            ax.set_title(titles[which] if across == 0 else "", fontsize=10)
    for axes, fixed in zip(panels, (f"{FEW_COLUMNS} columns", f"{FEW_ROWS:,} rows"), strict=True):
        axes[0].set_ylabel(f"times scikit-learn's processor time\n{fixed}")
    handles, labels = panels[0][0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=6, fontsize=8)
    fig.savefig(path, dpi=110)


def part_of(frame):
    """Return which part of skdp the innermost of its frames belongs to; None if there is none."""
    while frame is not None:
        _, _, path = frame.f_code.co_filename.rpartition("/skdp/")
        if path and "/site-packages/" not in path and path.endswith(".py"):
            parts = (part for part, starts in PARTS.items() if path.startswith(starts))
            return next(parts, "estimator")
        frame = frame.f_back
    return "elsewhere"


def profile(n, d):
    """Print the shares of each part of skdp in the time of fits, for every row of the table."""
    X, targets = rows(n, d)
    counts = Counter()
    signal.signal(signal.SIGPROF, lambda _, frame: counts.update([part_of(frame)]))
    parts = [*PARTS, "estimator", "elsewhere"]
    print(f"{n} x {d}, % of processor time\n{'':34}" + "".join(f"{part:>10}" for part in parts))
    for name, (*_, target) in FITS.items():
        for stated in (True, False):
            make, y = ours(name, d, stated=stated), targets[target]
            fitted(make, X, y)
            counts.clear()
            signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
            started = time.process_time()
            while time.process_time() - started < 0.5:
                fitted(make, X, y)
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            total = max(sum(counts.values()), 1)
            shares = "".join(f"{100 * counts[part] / total:10.0f}" for part in parts)
            print(f"{name:27}{('learned', 'stated')[stated]:7}{shares}", flush=True)


def table(found):
    """Return a line a fit: ratios by rows, then by columns."""
    lines = []
    for which, title in enumerate(("stated, delta = 0", "learned, delta = 1e-6", "diffprivlib")):
        cells = {(name, n, d): ratios[which] for name, n, d, ratios, _ in found}
        sizes_found = list(dict.fromkeys((n, d) for _, n, d, *_ in found))
        lines += ["", title, " " * 27 + "".join(f"{f'{n:.0e} x {d}':>13}" for n, d in sizes_found)]
        for name in FITS:
            ratios = [cells.get((name, n, d), np.nan) for n, d in sizes_found]
            if not np.isnan(ratios).all():
                shown = ("-" if np.isnan(ratio) else f"{ratio:.2g}" for ratio in ratios)
                lines.append(f"{name:27}" + "".join(f"{text:>13}" for text in shown))
    largest = max(n * d for _, n, d, *_ in found)
    rises = {name: rise for name, n, d, _, rise in found if n * d == largest}
    lines += ["", f"most memory above X of {largest * 8 / 1e6:.0f} MB, MB"]
    return lines + [f"{name:27}{rise / 1e6:13.0f}" for name, rise in rises.items()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--peer", help="an interpreter that has diffprivlib")
    parser.add_argument("--most", type=lambda text: int(float(text)), default=ROWS[-1])
    parser.add_argument("--profile", nargs="*", type=lambda text: int(float(text)), metavar="SIZE")
    parser.add_argument("--be-peer", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, too_long)
    with threadpool_limits(1):
        if options.be_peer:
            measure_peer(options.most)
        elif options.profile is not None:
            profile(*(options.profile or (10**5, 5)))
        else:
            compare(options.most, options.peer)


def compare(most, interpreter):
    import skdp

    peer, beside = {}, ""
    if interpreter:
        command = [interpreter, __file__, "--be-peer", "--most", str(most)]
        peer = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        beside = ", diffprivlib beside them"
    found = list(measure(most, peer))
    today = datetime.datetime.now(datetime.UTC)
    versions = f"skdp {skdp.__version__}, scikit-learn {sklearn.__version__}{beside}"
    about = f"{today:%Y-%m-%d}, Python {platform.python_version()}, {versions}; seed 0, one thread"
    text = "\n".join([about, "Times scikit-learn's processor time.", *table(found), ""])
    (HERE / "results" / "speed.txt").write_text(text)
    figure(found, HERE.parent / "figures" / "speed.png")
    print(text)


if __name__ == "__main__":
    main()
