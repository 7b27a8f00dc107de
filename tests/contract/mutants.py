"""Planted bugs: each breaks privacy somewhere, and named tests of the contract must catch it.

A mutant replaces text in the source of one module while it is imported, in a process of its own:
what is planted is what somebody might write. If the text is not there (exactly as often as it
should be) planting fails loudly, and the table in `planted` has to follow the library.

    python tests/contract/mutants.py                  # all of them: a table, and exit status 0 or 1
    python tests/contract/mutants.py NAME [NAME ...]  # these
    python tests/contract/mutants.py --alone NAME ... # without the tests on the library as it is
    python tests/contract/mutants.py --write          # all, and keep the table in mutants.md

`test_mutants` plants them in parts, alone: the suite that it is of runs the tests anyway.
"""

from __future__ import annotations

import datetime
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

from planted import MUTANTS, Mutant

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESULTS = HERE / "mutants.md"
DOES_NOT_RUN = ("Attribute", "Import", "ModuleNotFound", "Name", "Syntax", "UnboundLocal")


# --- planting -----------------------------------------------------------------------------------


class NotPlanted(Exception):
    """The library's source has changed: the table of mutants has to follow it."""


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a module with the text of a mutant in its source; no bytecode is read or written."""

    mutant: Mutant

    def get_code(self, fullname: str) -> CodeType:
        source = Path(self.path).read_text(encoding="utf-8")
        for old, new in self.mutant.changes:
            if source.count(old) != 1:
                raise NotPlanted(f"{self.mutant.name!r}: {source.count(old)} times: {old!r}")
            source = source.replace(old, new)
        return compile(source, self.path, "exec")


class _Finder:
    """Finds the mutant's module first."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self._mutant.module:
            return None
        parts = ROOT.joinpath(*name.split("."))
        file = parts / "__init__.py" if parts.is_dir() else parts.with_suffix(".py")
        loader = _Loader(name, str(file))
        loader.mutant = self._mutant
        return importlib.util.spec_from_file_location(name, file, loader=loader)


def plant(name: str) -> None:
    """Plant a mutant in this process; its module must not have been imported yet."""
    (mutant,) = [one for one in MUTANTS if one.name == name]
    if mutant.module in sys.modules:
        raise NotPlanted(f"{mutant.module} has been imported already")
    sys.meta_path.insert(0, _Finder(mutant))  # type: ignore[arg-type]


# --- running ------------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """What became of a mutant: `escaped` are the tests that did not fail."""

    name: str
    caught: bool
    seconds: float
    escaped: tuple[str, ...]
    output: str


def nodes(tests: Sequence[str]) -> tuple[str, ...]:
    """Return the tests' names as pytest takes them, from the root."""
    return tuple(t if t.startswith("tests/") else f"tests/contract/{t}" for t in tests)


class _Failures:
    """A plugin that collects which tests failed when they were called."""

    def __init__(self) -> None:
        self.failed: set[str] = set()
        self.passed: set[str] = set()

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call":
            (self.failed if report.failed else self.passed).add(report.nodeid)


def run_here(name: str | None, tests: Sequence[str]) -> int:
    """Plant a mutant, run its tests in this process, and say which failed."""
    import pytest

    os.chdir(ROOT)
    if name is not None:
        plant(name)
    seen = _Failures()
    status = pytest.main(
        # Plain asserts: to rewrite them, pytest would load the modules of skdp, whose plugin it
        # finds, from their files.
        [
            "-q",
            "-n",
            "0",
            "-p",
            "no:cacheprovider",
            "--tb=line",
            "--assert=plain",
            "-m",
            "",
            *nodes(tests),
        ],
        [seen],
    )
    for node in sorted(seen.failed):
        print(f"FAILED-IN-MUTANT {node}")
    for node in sorted(seen.passed):
        print(f"PASSED-IN-MUTANT {node}")
    return int(status)


def run(mutant: Mutant) -> Outcome:
    """Plant a mutant in a process of its own and run its tests: all of them have to fail."""
    start = time.perf_counter()
    _, output = forked(mutant.name, mutant.tests)
    failed = {
        line.partition(" ")[2] for line in output.splitlines() if line.startswith("FAILED-IN-")
    }
    escaped = tuple(node for node in nodes(mutant.tests) if node not in failed)
    if any(f"{one}Error: " in output for one in DOES_NOT_RUN):  # that catches nothing
        escaped = nodes(mutant.tests)
    return Outcome(mutant.name, not escaped, time.perf_counter() - start, escaped, output)


def forked(name: str | None, tests: Sequence[str]) -> tuple[int, str]:
    """Run `run_here` in a fork of this process; return its status and what it wrote.

    This process has imported what skdp needs, and nothing of skdp: that is most of the time.
    """
    assert not any(module.partition(".")[0] == "skdp" for module in sys.modules)
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            status = 70
            try:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
                status = run_here(name, tests)
                sys.stdout.flush()
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        _, ended = os.waitpid(pid, 0)
        file.seek(0)
        return os.waitstatus_to_exitcode(ended), file.read()


def prepare() -> None:
    """Import what skdp and its tests import."""
    for module in (
        "hypothesis", "hypothesis.extra.numpy", "joblib", "numpydoc.validate", "pandas", "polars",
        "pytest", "scipy.optimize", "scipy.special", "scipy.stats", "sklearn.cluster",
        "sklearn.decomposition", "sklearn.linear_model", "sklearn.pipeline",
        "sklearn.preprocessing", "sklearn.tree", "sklearn.utils.estimator_checks",
        "_pytest.doctest",
    ):  # fmt: skip
        importlib.import_module(module)


def sound(tests: Sequence[str]) -> str:
    """Run tests without any mutant; return the end of the output if one does not pass."""
    status, output = forked(None, tests)
    return "" if status == 0 else output[-4000:]


def table(outcomes: Sequence[Outcome]) -> str:
    """Return what became of mutants, as a table."""
    lines = ["| mutant | caught | seconds |", "|---|---|---|"]
    for one in outcomes:
        word = "yes" if one.caught else "**no**"
        lines.append(f"| {one.name} | {word} | {one.seconds:.1f} |")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    os.environ["OMP_NUM_THREADS"] = "1"
    prepare()
    wanted = [name for name in arguments if name not in ("--write", "--alone")]
    if unknown := set(wanted) - {one.name for one in MUTANTS}:
        print("no such mutant:", *sorted(unknown))
        return 2
    chosen = [one for one in MUTANTS if not wanted or one.name in wanted]
    outcomes = []
    for mutant in chosen:
        outcomes.append(run(mutant))
        last = outcomes[-1]
        print(f"{'caught' if last.caught else 'MISSED'} {last.seconds:5.1f} s  {last.name}")
        if not last.caught:
            print("   ", *last.escaped, "\n", last.output[-1500:])
        sys.stdout.flush()
    broken = ""
    if "--alone" not in arguments:
        broken = sound(sorted({test for mutant in chosen for test in mutant.tests}))
        print(broken or "the tests pass without them")
    if "--write" in arguments:
        commit = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True,
            check=True,
        ).stdout.strip()  # fmt: skip
        caught = sum(one.caught for one in outcomes)
        RESULTS.write_text(
            f"# Planted bugs\n\n{caught} of {len(outcomes)} caught; the tests "
            f"{'do not all pass' if broken else 'pass'} without them. "
            f"{datetime.date.today().isoformat()}, commit {commit}, "
            f"`python tests/contract/mutants.py --write`.\n\n{table(outcomes)}\n",
            encoding="utf-8",
        )
    return int(bool(broken) or not all(one.caught for one in outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
