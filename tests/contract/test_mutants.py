"""Planted bugs are caught: those of the core in every run, all of them in CI (see `mutants`).

A failure prints the command that plants the same ones again.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
from mutants import HERE, ROOT, NotPlanted, nodes, plant
from planted import MUTANTS

from tests.folding import each

CORE = [m.name for m in MUTANTS if m.module.startswith(("skdp.core.", "skdp.budget."))]
OTHERS = [m.name for m in MUTANTS if m.name not in CORE]


def check(names):
    command = [sys.executable, str(HERE / "mutants.py"), "--alone", *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout[-6000:]}{done.stderr[-2000:]}"


def test_bugs_of_the_core_are_caught():
    check(CORE)


@pytest.mark.ci
@pytest.mark.parametrize("part", range(2))
def test_bugs_elsewhere_are_caught(part):
    check(OTHERS[part::2])


def test_there_are_many():
    assert len(CORE) >= 20
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 80


@each("mutant", MUTANTS, ids=lambda m: m.name)
def test_what_is_replaced_is_there(mutant):
    """Read from the source, without planting: a change of the library shows here at once."""
    file = ROOT.joinpath(*mutant.module.split("."))
    file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
    source = file.read_text(encoding="utf-8")
    for old, new in mutant.changes:
        assert source.count(old) == 1
        source = source.replace(old, new)
    compile(source, str(file), "exec")
    for node in nodes(mutant.tests):
        file, _, test = node.partition("::")
        assert f"def {test.partition('[')[0]}(" in (ROOT / file).read_text(encoding="utf-8")


def test_planting_fails_loudly():
    with pytest.raises(NotPlanted, match="imported already"):
        plant(MUTANTS[0].name)  # this process has the library
    assert not any(type(finder).__name__ == "_Finder" for finder in sys.meta_path)


@pytest.mark.slow
def test_a_mutant_that_nobody_knows_is_no_success():
    command = [sys.executable, str(HERE / "mutants.py"), "no such mutant"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
