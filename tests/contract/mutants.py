"""Planted bugs: each breaks privacy somewhere, and named tests of the contract must catch it.

A mutant replaces text in the source of functions: what is planted is what somebody might write.
Its tests run in a fork of a process that has collected all of them, where the functions of one
module have the code of the text that is planted. If that text is not there (exactly as often as it
should be), or if something else than functions would change, planting fails loudly, and the table
in `planted` has to follow the library.

    python tests/contract/mutants.py                  # all of them: a table, and exit status 0 or 1
    python tests/contract/mutants.py NAME [NAME ...]  # these
    python tests/contract/mutants.py --alone NAME ... # without the tests on the library as it is

`test_mutants` plants them in parts, alone: the suite that it is of runs the tests anyway.
"""

from __future__ import annotations

import gc
import importlib
import inspect
import os
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import pytest
from planted import MUTANTS, Mutant

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Errors of text that does not run: whatever it breaks, no test has looked at it.
CRASHES = (
    *("Attribute", "Import", "Index", "Key", "ModuleNotFound", "Name", "NotImplemented"),
    *("Recursion", "Syntax", "Type", "UnboundLocal", "ZeroDivision"),
)


# --- planting -----------------------------------------------------------------------------------


class NotPlanted(Exception):
    """The library's source has changed: the table of mutants has to follow it."""


def changed_source(mutant: Mutant) -> tuple[str, str]:
    """Return the source of the mutant's module, and the same with the bug in it."""
    file = ROOT.joinpath(*mutant.module.split("."))
    file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
    source = planted = file.read_text(encoding="utf-8")
    for old, new in mutant.changes:
        if planted.count(old) != 1:
            raise NotPlanted(f"{mutant.name!r}: {planted.count(old)} times: {old!r}")
        planted = planted.replace(old, new)
    return source, planted


def functions(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a module's functions and methods; what they hold is part of theirs."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            if inner.co_flags & inspect.CO_OPTIMIZED:
                yield inner
            else:  # the body of a class
                yield from functions(inner)


def says(code: CodeType, *, inside: bool = True) -> tuple[Any, ...]:
    """Return what a code does, whatever its lines; without its functions, what is around them."""
    constants = [
        says(one, inside=inside) if isinstance(one, CodeType) else (type(one), repr(one))
        for one in code.co_consts
        if inside or not isinstance(one, CodeType) or not one.co_flags & inspect.CO_OPTIMIZED
    ]
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return code.co_code, code.co_flags, names, tuple(constants)


@cache
def living_functions() -> dict[str, list[FunctionType]]:
    """Return the functions of this process by their file: forks have the same ones."""
    found = defaultdict(list)
    for one in gc.get_objects():
        if type(one) is FunctionType:
            found[one.__code__.co_filename].append(one)
    return found


def plant(mutant: Mutant) -> None:
    """Give the functions of this process the code of the mutant's text."""
    file = importlib.import_module(mutant.module).__file__
    old, new = (compile(text, str(file), "exec") for text in changed_source(mutant))
    if says(old, inside=False) != says(new, inside=False):
        raise NotPlanted(f"{mutant.name!r} changes more than functions")
    changed = {
        (one.co_qualname, one.co_firstlineno): other
        for one, other in zip(functions(old), functions(new), strict=True)
        if says(one) != says(other)
    }
    found = set()
    for one in living_functions()[str(file)]:
        place = one.__code__.co_qualname, one.__code__.co_firstlineno
        if place in changed:
            one.__code__ = changed[place]
            found.add(place)
    if not changed or found != changed.keys():
        raise NotPlanted(f"{mutant.name!r}: nothing has the code of {changed.keys() - found}")


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


class _Forks:
    """A plugin that runs the collected tests of each mutant in a fork of this process."""

    def __init__(self, mutants: Sequence[Mutant], *, sound: bool) -> None:
        self.mutants = mutants
        self.sound = sound
        self.outcomes: list[Outcome] = []
        self.broken = ""
        self._failed: set[str] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed:  # while they were collected: pytest says so
            return None
        items = {item.nodeid: item for item in session.items}
        for mutant in self.mutants:
            importlib.import_module(mutant.module)
        living_functions()
        gc.freeze()  # what a fork looks at is copied for it
        for mutant in self.mutants:
            if unknown := set(nodes(mutant.tests)) - items.keys():
                raise NotPlanted(f"{mutant.name!r} has no tests {sorted(unknown)}")
            self.outcomes.append(self._outcome(mutant, items))
        if self.sound:
            failed, output = self._forked(None, list(items.values()))
            self.broken = output[-4000:] if failed else ""
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            print(f"{report.nodeid} {report.when}\n{report.longreprtext}")
            if report.when == "call":
                self._failed.add(report.nodeid)

    def _outcome(self, mutant: Mutant, items: dict[str, pytest.Item]) -> Outcome:
        """Plant a mutant and run its tests: all of them have to fail."""
        start = time.perf_counter()
        names = nodes(mutant.tests)
        failed, output = self._forked(mutant, [items[name] for name in names])
        if any(f"{one}Error: " in output for one in CRASHES):  # that catches nothing
            failed = set()
        escaped = tuple(name for name in names if name not in failed)
        one = Outcome(mutant.name, not escaped, time.perf_counter() - start, escaped, output)
        print(f"{'caught' if one.caught else 'MISSED'} {one.seconds:5.1f} s  {one.name}")
        if not one.caught:
            print("   ", *one.escaped, "\n", one.output[-1500:])
        return one

    def _forked(self, mutant: Mutant | None, items: Sequence[pytest.Item]) -> tuple[set[str], str]:
        """Run tests in a fork; return the names of those that fail, and what it wrote."""
        with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
            sys.stdout.flush()
            pid = os.fork()
            if pid == 0:
                try:
                    os.dup2(file.fileno(), 1)
                    os.dup2(file.fileno(), 2)
                    if mutant is not None:
                        plant(mutant)
                    for item in items:
                        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
                    print("\n".join(["", *(f"FAILED-IN-MUTANT {one}" for one in self._failed)]))
                except BaseException:
                    traceback.print_exc()
                finally:
                    sys.stdout.flush()
                    os._exit(0)
            os.waitpid(pid, 0)
            file.seek(0)
            output = file.read()
        lines = output.splitlines()
        return {one.partition(" ")[2] for one in lines if one.startswith("FAILED-IN-")}, output


def run(mutants: Sequence[Mutant], *, sound: bool = False) -> tuple[list[Outcome], str]:
    """Plant mutants; return what became of them, and what fails of their tests without them."""
    os.environ["OMP_NUM_THREADS"] = "1"
    os.chdir(ROOT)
    tests = sorted({node for mutant in mutants for node in nodes(mutant.tests)})
    forks = _Forks(mutants, sound=sound)
    options = ["-q", "-n", "0", "-p", "no:cacheprovider", "-s", "--tb=line", "-m", ""]
    status = pytest.main([*options, *tests], [forks])
    if status:
        raise NotPlanted(f"the tests were not collected: {status}")
    return forks.outcomes, forks.broken


def table(outcomes: Sequence[Outcome]) -> str:
    """Return what became of mutants, as a table."""
    lines = ["| mutant | caught | seconds |", "|---|---|---|"]
    for one in outcomes:
        word = "yes" if one.caught else "**no**"
        lines.append(f"| {one.name} | {word} | {one.seconds:.1f} |")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    wanted = [name for name in arguments if name != "--alone"]
    if unknown := set(wanted) - {one.name for one in MUTANTS}:
        print("no such mutant:", *sorted(unknown))
        return 2
    chosen = [one for one in MUTANTS if not wanted or one.name in wanted]
    outcomes, broken = run(chosen, sound="--alone" not in arguments)
    if "--alone" not in arguments:
        print(broken or "the tests pass without them")
    return int(bool(broken) or not all(one.caught for one in outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
