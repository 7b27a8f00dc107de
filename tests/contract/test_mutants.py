"""Planted bugs are caught: those of the core in every run, all of them in CI (see `mutants`).

A failure prints the command that plants the same ones again.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
from mutants import HERE, ROOT, NotPlanted, changed_source, nodes, plant
from planted import MUTANTS, Mutant

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
    changed_source(mutant)
    for node in nodes(mutant.tests):
        file, _, test = node.partition("::")
        assert f"def {test.partition('[')[0]}(" in (ROOT / file).read_text(encoding="utf-8")


@each(
    ("old", "new", "match"),
    [
        ("no such text", "", "0 times"),
        ("def gdp_mu(", "def another(", "more than functions"),
        ("def gdp_mu(", "EPSILON = 0\n\n\ndef gdp_mu(", "more than functions"),
    ],
)
def test_planting_fails_loudly(old, new, match):
    with pytest.raises(NotPlanted, match=match):
        plant(Mutant("a bug", "skdp.loss.conversions", ((old, new),), ()))


@pytest.mark.slow
def test_a_mutant_that_crashes_is_not_caught():
    test = "tests/loss/test_amounts.py::test_a_float_is_the_decimal_that_was_typed"
    for new, caught in (("repr(value), 1", False), ("repr(2 * value)", True)):
        mutant = ("a bug", "skdp.loss.conversions", (("repr(value)", new),), (test,))
        text = f"import mutants; print(mutants.run([mutants.Mutant{mutant}])[0][0].caught)"
        command = [sys.executable, "-c", text]
        done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=True)
        assert done.stdout.split()[-1] == str(caught), done.stdout[-2000:]


@pytest.mark.slow
def test_a_mutant_that_nobody_knows_is_no_success():
    command = [sys.executable, str(HERE / "mutants.py"), "no such mutant"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
