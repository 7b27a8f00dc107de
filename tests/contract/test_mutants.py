"""Planted bugs are caught: eight in turn here, all of them outside of CI (see `mutants`).

Which eight follows from the day, so that each has its turn every week or so. A failure prints the
command that plants the same ones again.
"""

from __future__ import annotations

import datetime
import subprocess
import sys

import pytest
from mutants import HERE, ROOT, NotPlanted, nodes, plant
from planted import MUTANTS

IN_TURN = 8


def of_day(day: int) -> list[str]:
    """Return the names that have their turn on a day."""
    n = len(MUTANTS)
    return [MUTANTS[(day * IN_TURN + i) % n].name for i in range(IN_TURN)]


def check(names):
    command = [sys.executable, str(HERE / "mutants.py"), *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout[-6000:]}{done.stderr[-2000:]}"


@pytest.mark.slow
@pytest.mark.parametrize("half", [0, 1])
def test_eight_in_turn_are_caught(half):
    check(of_day(datetime.datetime.now(datetime.UTC).toordinal())[half::2])


@pytest.mark.exhaustive
def test_all_are_caught():
    check([])


def test_every_mutant_has_its_turn():
    turns = {name for day in range(len(MUTANTS)) for name in of_day(day)}
    assert turns == {mutant.name for mutant in MUTANTS}
    assert len(turns) == len(MUTANTS) >= 40


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
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
