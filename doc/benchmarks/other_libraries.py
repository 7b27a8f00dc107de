"""Audits of other libraries, each in an environment of its own: what is found, what is missed.

    python doc/benchmarks/other_libraries.py FOLDER NAME[=WORD]...

FOLDER has a virtual environment for each NAME, ``diffprivlib-0.6.6`` or ``opendp-0.16.0``; with
WORD only mechanisms whose name has it run. Each
mechanism runs on two neighbouring tables under its claim; `skdp.audit.bound_from_outputs` sees the
outputs alone. What is expected stands in `KNOWN`, from the libraries' own issue lists. Prints the
table that ``results/other_libraries.md`` keeps.
"""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
import time
from pathlib import Path

from skdp.audit import bound_from_outputs

WORKER = Path(__file__).with_name("other_libraries_worker.py")
RUNS = {"k-means": 400, "PCA": 200, "Bingham": 400, "linear": 100, "naive": 200, "SQL": 400}
RUNS |= {"median, nearly": 400, "covariance": 800}
DEFAULT_RUNS = 2000
CONFIDENCE = 0.9999

# What the libraries' issue lists or papers name; a dash where the mechanism is thought right.
KNOWN = {
    ("diffprivlib", "Laplace, last bits"): "issues 19 and 94",
    ("diffprivlib", "Gaussian, last bits"): "issue 94",
    ("diffprivlib", "k-means, inertia_"): "exact statistic kept",
    ("diffprivlib", "k-means, labels_"): "exact statistic kept",
    ("diffprivlib", "median, a missing cell"): "issue 80",
    ("diffprivlib", "median, nearly all the same"): "issue 107",
    ("diffprivlib", "mean, a missing cell"): "NaN in, NaN out",
    ("pipelinedp", "sum, a missing cell"): "NaN in, NaN out",
    ("diffprivlib", "naive Bayes, classes read off y"): "domain inference",
    ("diffprivlib", "linear regression, sensitivity of squares"): "issues 104 and 105",
    ("smartnoise-synth-1.0.4", "covariance, a cell beyond its bounds"): "issue 622",
}


def ask(folder: Path, name: str, *arguments: str) -> str:
    command = [str(folder / name / "bin" / "python"), str(WORKER), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return done.stdout


def main() -> None:
    folder = Path(sys.argv[1])
    print(f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}, confidence {CONFIDENCE} a row.\n")
    print("| library | mechanism | known | claim | bound | verdict | runs | seconds |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for wanted in sys.argv[2:]:
        name, _, only = wanted.partition("=")
        library = name.rpartition("-")[0]
        cases = json.loads(ask(folder, name, library, "list", "0"))
        for case in (one for one in cases if only in one):
            runs = next((n for key, n in RUNS.items() if case.startswith(key)), DEFAULT_RUNS)
            started = time.perf_counter()
            known = KNOWN.get((name, case), KNOWN.get((library, case), "–"))
            try:
                got = json.loads(ask(folder, name, library, case, str(runs)))
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                print(f"| {name} | {case} | {known} | | | does not run ({error}) | | |", flush=True)
                continue
            bound = bound_from_outputs(
                got["first"], got["second"], epsilon=got["epsilon"], delta=got["delta"],
                confidence=CONFIDENCE,
            )  # fmt: skip
            refuted = bound.refutes(epsilon=got["epsilon"])
            verdict = "**found**" if refuted else ("missed" if known != "–" else "nothing")
            raised = sum(str(one).startswith("raised ") for one in got["first"])
            if raised == len(got["first"]):
                verdict = f"does not run ({got['first'][0]})"
            claim = f"{got['epsilon']:g}" + (f", {got['delta']:g}" if got["delta"] else "")
            print(
                f"| {name} | {case} | {known} | {claim} | {bound.epsilon:.2f} | {verdict} "
                f"| {runs} | {time.perf_counter() - started:.1f} |",
                flush=True,
            )  # fmt: skip


if __name__ == "__main__":
    main()
