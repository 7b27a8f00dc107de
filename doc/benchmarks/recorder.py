"""The recorder of the PETS 2026 paper (Re:cord-play), unmodified, over skdp.

Every release of skdp passes one function; it is handed to the recorder as its primitive, with the
statistic, the sensitivity and the distance that the release is made with. Each case of the contract
is fitted on a table, and again on neighbours of it while the recorder returns the first releases:
it says whether calls, parameters of noise or fitted numbers differ, and whether a statistic moved
by more than its sensitivity. Then bugs are planted (``tests/contract/mutants.py``), each in a
process of its own, and the recorder is run until it finds something.

    git clone https://github.com/ObliviousAI/dp-recorder FOLDER; pip install tqdm seaborn graphviz
    PYTHONPATH=.:tests/contract:FOLDER/src python doc/benchmarks/recorder.py [--mutants [NAME...]]

References
----------
Cebere, Erb, Desfontaines, Bellet & Fitzsimons 2026, "Privacy in theory, bugs in practice: grey-box
auditing of differential privacy libraries", PETS.
"""

from __future__ import annotations

import contextlib
import datetime
import io
import os
import subprocess
import sys
import time
import warnings

import numpy as np

ROWS = 30


def neighbours(X, relation):
    """Return tables that differ from X in one row: of these, and at the ends of the numbers."""
    d = X.shape[1]
    others = [np.full(d, 0.5), np.full(d, 1e300), np.full(d, -1e300), np.resize([5e-324, -1.0], d)]
    if relation == "replace_one":
        return [np.vstack([row, X[1:]]) for row in others]
    return [X[1:], X[:-1], *(np.vstack([X, row]) for row in others)]


def with_nan(X, relation):
    """Return a neighbour of which one row misses all values."""
    kept = X[1:] if relation == "replace_one" else X
    return np.vstack([np.full(X.shape[1], np.nan), kept])


def through_recorder(audit_spec):
    """Let every release of skdp pass a primitive of the recorder."""
    from skdp.core.privacy_filter import Meter

    original = Meter.release

    def release(self, name, exact, sensitivity, distance, make, shape):
        @audit_spec(
            kind=f"{name} {shape}",
            input_arg="exact",
            sensitivity_arg="sensitivity",
            metric_fn=distance,
        )
        def primitive(exact, sensitivity):
            return make()

        moved = sensitivity * self._steps

        def recorded():
            return primitive(exact, moved)

        return original(self, name, exact, sensitivity, distance, recorded, shape)

    Meter.release = release


def numbers(fitted):
    """Return what a fit shows in numbers, as text of all digits."""
    found = vars(fitted) if hasattr(fitted, "__dict__") else {"value": fitted}
    kinds = (np.ndarray, float, int, list, tuple)
    shown = {k: v for k, v in found.items() if isinstance(v, kinds)}
    with np.printoptions(threshold=sys.maxsize, floatmode="unique"):
        return repr(shown)


def checked(case, delta, relation):
    """Record on a table, replay on its neighbours; return what the recorder says, and counts."""
    from cases import make, rows
    from dp_recorder.auditing.audit_primitives import Auditor, ensure_equality

    from skdp.audit._statistical import fitted_clone, subject_of
    from skdp.core.transcript import record

    X = rows(ROWS, case.n_features, 0)
    recorder = Auditor()
    subject = subject_of(make(case, delta, relation), seed=0)

    def fit(private):
        with recorder, record():  # some statistics are written out for a transcript only
            ensure_equality(fitted=numbers(fitted_clone(subject, *case.table(private))[0]))

    fit(X)
    releases = sum(entry.kind != "EQ" for entry in recorder.log)
    problems, pairs = [], neighbours(X, relation)
    if not releases:  # nothing private: all that it needs is stated
        return [], 0, 0, 0
    refused = 0
    for place, other in enumerate([*pairs, with_nan(X, relation)]):
        recorder.set_replay()
        try:
            fit(other)
            if recorder._cursor != len(recorder.log):
                raise AssertionError("a release less than recorded")
            recorder.validate_records()
        except Exception as error:  # noqa: BLE001  whatever it says is what is found
            if place == len(pairs) and isinstance(error, ValueError) and not recorder._cursor:
                refused += 1  # a missing value, before any release: stated in "sharp edges"
                continue
            said = str(error).splitlines() or [""]
            problems.append(f"{case.name}, {relation}, delta={delta}: {said[0][:150]}")
    return problems, releases, len(pairs) + 1, refused


def sweep(stop=False):
    """Return problems, and numbers of configurations, releases, pairs and refusals."""
    from calls import CALLS
    from cases import DELTAS, RELATIONS
    from dp_recorder.auditing.audit_primitives import audit_spec
    from estimators import CASES

    through_recorder(audit_spec)
    problems, counted = [], np.zeros(4, int)
    for case in CASES + CALLS:
        for relation in case.relations:
            for delta in DELTAS:
                found, *numbers_of = checked(case, delta, relation)
                problems += found
                counted += 1, *numbers_of
                if problems and stop:
                    return problems, counted
    assert set(RELATIONS) == {"replace_one", "add_or_remove_one"}
    return problems, counted


def planted(mutant):
    """Plant a bug in a fork of this process; return what the recorder says, or nothing."""
    from mutants import plant

    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            sys.stdout = sys.stderr = io.StringIO()
            plant(mutant)
            problems, _ = sweep(stop=True)
            said = problems[0] if problems else ""
        except BaseException as error:  # noqa: BLE001  of a fork, which ends here
            said = f"(skdp itself refuses: {type(error).__name__}: {error})"
        os.write(writing, said[:500].encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(child, 0)
    return said


def main():
    warnings.simplefilter("ignore")
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    today = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"
    if "--mutants" in sys.argv:
        from planted import MUTANTS

        print("| planted bug | found | seconds | what the recorder says |\n|---|---|---|---|")
        wanted = sys.argv[sys.argv.index("--mutants") + 1 :]
        for mutant in [one for one in MUTANTS if not wanted or one.name in wanted]:
            started = time.perf_counter()
            said = planted(mutant)
            took = time.perf_counter() - started
            word = "yes" if said else "no"
            print(f"| {mutant.name} | {word} | {took:.0f} | {said} |", flush=True)
        return
    started = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):  # one of the recorder's metrics prints
        problems, (cases, releases, pairs, refused) = sweep()
    import skdp

    print(
        f"{today}, skdp {skdp.__version__} at {commit}: {cases} configurations of the contract, "
        f"{pairs} pairs of neighbours, {releases} releases a round, {refused} pairs refused before "
        "any release since a cell is NaN, "
        f"{time.perf_counter() - started:.0f} s. {len(problems)} problems.\n"
    )
    for problem in problems:
        print(f"- {problem}")


if __name__ == "__main__":
    main()
