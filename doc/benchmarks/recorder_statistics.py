"""The statistical part of the PETS 2026 recorder (Re:cord-play), unmodified, over fits of skdp.

A fit on a table is the recorder's mechanism; it is recorded on one table, replayed on the worst
known neighbour, and `run_distributional_audit` draws fits on both. What it proves at epsilon = 1
(delta = 1e-6 where noise is Gaussian) is shown, and for three fits with noise of epsilon = 4, whose
claim of 1 is false. Prints the table that ``results/recorder_statistics.inc`` keeps.

    git clone https://github.com/ObliviousAI/dp-recorder FOLDER; pip install tqdm seaborn graphviz
    PYTHONPATH=.:tests/contract:FOLDER/src python doc/benchmarks/recorder_statistics.py [SECONDS]
"""

from __future__ import annotations

import contextlib
import datetime
import io
import subprocess
import sys
import time
import warnings

import numpy as np
from audit_figures import at
from audit_pairs import PAIRS
from dp_recorder.auditing.audit_primitives import Auditor, audit_spec
from dp_recorder.auditing.privacy_converter import PrivacyConverter
from sklearn.base import clone

import skdp

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
ALPHA = 1e-3


def audited(pair, epsilon):
    """Return runs, the recorder's bound on epsilon, and its delta at epsilon = 1."""
    X, other, y, y_other = pair.tables()
    estimator = at(pair, epsilon)

    @audit_spec(kind="fit", input_arg="table", sensitivity_arg="moved", metric_fn=lambda a, b: 0.0)
    def fit(table, moved):
        rows, labels = table
        fitted = clone(estimator)
        fitted.fit(rows) if labels is None else fitted.fit(rows, labels)
        seen = pair.statistic
        value = seen(fitted) if callable(seen) else getattr(fitted, seen)
        return np.asarray(value, dtype=float).ravel()

    started = time.process_time()
    fit((X, y), 1.0)
    once = time.process_time() - started
    runs = int(min(8000, max(200, SECONDS / once)))
    auditor = Auditor()
    for table in ((X, y), (other, y_other)):
        with auditor:
            fit(table, 1.0)
        auditor.set_replay()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        auditor.run_distributional_audit(n_samples=runs, alpha=ALPHA)
    (entry,) = auditor.log
    delta = PrivacyConverter(entry.tradeoff_curve).get_delta_from_epsilon(1.0)
    return runs, entry.empirical_epsilon_lb, delta


def main():
    warnings.simplefilter("ignore")
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    print(
        f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}, skdp {skdp.__version__} at {commit}, "
        f"confidence {1 - ALPHA} a row; of the runs half learn and half decide.\n"
    )
    print("| fit and relation | noise of ε | ε proved | δ proved at ε = 1 | runs | ε = 1 refuted |")
    print("|---|---|---|---|---|---|")
    false = 0
    for pair in PAIRS:
        for epsilon in (1.0, 4.0) if false < 3 else (1.0,):
            try:
                runs, proved, delta = audited(pair, epsilon)
            except Exception:  # noqa: BLE001  no vector of numbers: not for this recorder
                continue
            false += epsilon > 1
            claimed = at(pair, epsilon).get_params().get("delta") or 0.0
            said = "yes" if delta > claimed + 1e-9 else "no"
            print(
                f"| {pair.name} | {epsilon:g} | {proved:.2f} | {delta:.4f} | {runs} | {said} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
