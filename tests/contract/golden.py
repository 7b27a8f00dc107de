"""What seeded fits release, written down: a change of the code that changes a bit shows here.

``python tests/contract/golden.py`` records `golden.json.gz` anew; commit it with the reason. With
``--check`` it compares and prints what differs, with ``--part 2/4`` in every fourth fit. Every
estimator and every function of the contract is fitted with a seed under both relations, with and
without delta, on three tables. Of each release the exact integers, the sensitivity and the released
integers are compared to the last bit, of each fitted attribute the numbers to 1e-9.

Integers behind a spectrum or an iteration depend on the last bits of floats, so on the versions of
numpy and of its BLAS, and on which of its kernels BLAS picks for the processor. The script starts
itself anew with kernels that every processor with AVX2 has. The record names the versions, and
`test_golden` is skipped elsewhere.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import math
import os
import platform
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parent))
from calls import CALLS
from cases import DELTAS, RELATIONS
from estimators import CASES

import skdp
from skdp.budget import PrivacyBudget
from skdp.core.transcript import record

FILE = Path(__file__).with_name("golden.json.gz")
SEED = 7
TABLES = ("normal", "mixed", "short")
# Read by BLAS and by numpy when they are loaded; else they take the processor's newest.
KERNELS = {"OPENBLAS_CORETYPE": "Haswell", "NPY_DISABLE_CPU_FEATURES": "X86_V4"}


def machine() -> dict[str, str]:
    """Return what the last bits of floats may depend on."""
    kernels = ""
    for line in Path("/proc/cpuinfo").read_text().splitlines() if sys.platform == "linux" else ():
        if line.startswith("flags"):
            flags = set(line.split())
            kernels = " ".join(sorted(flags & {"avx2", "fma"}))
            break
    return {
        "machine": f"{platform.machine()} {kernels}",
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }


def table(kind: str, d: int) -> np.ndarray:
    """Return rows: normal, columns of unlike kinds, or few."""
    rng = np.random.default_rng(len(kind))
    if kind == "normal":
        return rng.normal(0, 0.7, (400, d))
    if kind == "short":
        return rng.normal(0, 0.7, (31, d))
    X = rng.normal(0, 0.7, (1500, d))
    X[:, 0] = rng.random(1500) < 0.3
    X[:, 1 % d] = np.where(rng.random(1500) < 0.6, 0.0, np.exp(rng.normal(0, 1, 1500)))
    return X


def short_hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def numbers_of(value: Any) -> list[Any] | None:
    """Return the shape of an array and three sums of it, with the size of its entries; or None."""
    try:
        flat = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    shape, flat = list(flat.shape), np.nan_to_num(flat.ravel(), nan=-7.25)
    weights = np.random.default_rng(flat.size).normal(size=(3, flat.size))
    with np.errstate(all="ignore"):
        return [shape, *(weights @ flat).tolist(), float(np.abs(flat).sum())]


def fitted(estimator: Any) -> dict[str, Any]:
    """Return the numbers of everything that is fitted, one level of tuples and objects deep."""
    if isinstance(estimator, Pipeline):
        return {f"{k}.{name}": v for k, step in estimator.steps for name, v in fitted(step).items()}
    out: dict[str, Any] = {}
    for name, value in sorted(vars(estimator).items()):
        if not name.endswith("_") or name.startswith("_") or name == "privacy_":
            continue
        parts = value if isinstance(value, tuple | list) else (value,)
        for k, part in enumerate(parts):
            for label, piece in (("", part), (".value", getattr(part, "value", None)),
                                 (".std", getattr(part, "std", None))):  # fmt: skip
                found = None if piece is None or callable(piece) else numbers_of(piece)
                if found is not None:
                    out[f"{name}[{k}]{label}"] = found
    return out


def outcome(case: Any, delta: float, relation: str, kind: str) -> Any:
    """Return what one seeded fit released and holds, or the class of the error that it raised."""
    budget = None
    if delta > 0:  # with an accountant that asks for Gaussian noise
        terms = {"accountant": "gdp", "separate_delta": 5e-3}
        budget = PrivacyBudget(1e3, 1e-2, adjacency=relation, **terms)
    elif relation != "replace_one":
        budget = PrivacyBudget(1e3, 1e-2, adjacency=relation)
    epsilon = 2.0
    estimator: BaseEstimator = case.make(
        epsilon=epsilon, delta=delta, budget=budget, random_state=SEED
    )
    X, y = case.table(table(kind, case.n_features))
    with (
        threadpool_limits(1),  # the last bits of products depend on it
        warnings.catch_warnings(),
        skdp.config_context(noise="seeded"),
        record() as transcript,
    ):
        warnings.simplefilter("ignore")
        try:
            estimator.fit(X, y)
        except Exception as error:
            return f"{type(error).__name__}"
    releases = [
        [
            entry.name,
            list(np.shape(entry.released)),
            short_hash(repr(np.asarray(entry.exact).tolist())),
            repr(float(entry.sensitivity)),
            short_hash(repr(np.asarray(entry.released).tolist())),
        ]
        for entry in transcript.entries
    ]
    return {"releases": releases, "fitted": fitted(estimator)}


def cells() -> list[tuple[str, Any, float, str, str]]:
    return [
        (f"{case.name}|{relation}|{delta:g}|{kind}", case, delta, relation, kind)
        for case in CASES + CALLS
        for relation in RELATIONS
        if relation in case.relations
        for delta in DELTAS
        for kind in TABLES
    ]


def close(a: list[Any], b: list[Any]) -> bool:
    """Say whether two arrays agree to 1e-9 of the size of their entries."""
    if a[0] != b[0]:
        return False
    size = max(abs(a[-1]), abs(b[-1]), 1e-300)
    return all(
        x == y or abs(x - y) <= 1e-9 * size or (math.isnan(x) and math.isnan(y))
        for x, y in zip(a[1:], b[1:], strict=True)
    )


def differences(name: str, old: Any, new: Any) -> list[str]:
    """Return in words what one fit does otherwise."""
    if isinstance(old, str) or isinstance(new, str):
        return [] if old == new else [f"{name}: was {str(old)[:60]}, is {str(new)[:60]}"]
    out = []
    before, after = old["releases"], new["releases"]
    if [r[0] for r in before] != [r[0] for r in after]:
        out.append(f"{name}: releases {[r[0] for r in before]} -> {[r[0] for r in after]}")
    else:
        fields = ("name", "shape", "exact integers", "sensitivity", "released integers")
        for one, two in zip(before, after, strict=True):
            wrong = [f for f, x, y in zip(fields, one, two, strict=True) if x != y]
            if wrong:
                out.append(f"{name}: {one[0]}: {', '.join(wrong)}")
                break
    for key in sorted(set(old["fitted"]) | set(new["fitted"])):
        a, b = old["fitted"].get(key), new["fitted"].get(key)
        if a is None or b is None:
            out.append(f"{name}: attribute {key} {'is new' if a is None else 'is gone'}")
        elif not close(a, b):
            out.append(f"{name}: attribute {key}: {a} -> {b}")
    return out


def load() -> dict[str, Any]:
    held: dict[str, Any] = json.loads(gzip.decompress(FILE.read_bytes()))
    return held


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare instead of recording")
    parser.add_argument("--only", default="", help="names of cases, or parts of them, by comma")
    parser.add_argument("--part", default="1/1", help="k/m: every m-th fit, from the k-th")
    options = parser.parse_args()
    first, step = map(int, options.part.split("/"))
    wanted = [one for one in options.only.split(",") if one]
    chosen = [c for c in cells() if not wanted or any(one in c[0] for one in wanted)]
    chosen = chosen[first - 1 :: step]
    found = {name: outcome(*cell) for name, *cell in chosen}
    if options.check:
        held = load()["cells"]
        wrong = [d for name in found for d in differences(name, held.get(name, "?"), found[name])]
        print("\n".join(wrong) or f"{len(found)} fits as recorded")
        return int(bool(wrong))
    held = load()["cells"] if (wanted or step > 1) and FILE.exists() else {}
    content = {"where": machine(), "skdp": skdp.__version__, "cells": {**held, **found}}
    FILE.write_bytes(gzip.compress(json.dumps(content).encode(), mtime=0))
    print(f"{len(found)} fits recorded")
    return 0


if __name__ == "__main__":
    if any(os.environ.get(name) != value for name, value in KERNELS.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **KERNELS})
    sys.exit(main())
