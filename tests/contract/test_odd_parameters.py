"""Odd values of every parameter: refused by name before a charge, or accepted and of use.

Each class or function is one test. A class has several cases, which differ in the code that a fit
runs; a value is tried on one of them, and on all of them in the `exhaustive` run.
"""

from __future__ import annotations

import zlib

import pytest
from odd import TABLES, VALUES, Subject, fault
from odd_subjects import BY_CLASS

from tests.folding import each

# Accepted, and of minutes: so many runs, centres, ...
COSTLY = {
    ("DPGridSearchCV", "n_runs", "10**6"),
    ("DPRandomizedSearchCV", "n_runs", "10**6"),
    ("DPRandomizedSearchCV", "n_iter", "10**6"),
    ("DPGroupBy", "keys", "million"),
    ("SmallDBReleaser", "size", "10**6"),
}
# Of fits that take longer, a part of the values.
PARTS = {"DPKernelDensity": 13, "DPSubsampleAggregate": 9, "DPTrainOnRelease": 9}
PARTS |= {"DPMarginalSynthesizer": 9, "private_scorer": 9}
_SLOW_CASES = ("kernel_density]", "kernel_density, users]")


def quick(subjects: list[Subject]) -> list[Subject]:
    """Return the cases whose fits take milliseconds, if there are any."""
    return [one for one in subjects if not one.name.endswith(_SLOW_CASES)] or subjects


def tries(name: str, subjects: list[Subject], parts: int) -> list[tuple[Subject, str, str]]:
    """Return (case, argument, value): every value of an argument, or one of so many parts."""
    found = []
    for argument in dict.fromkeys(key for one in subjects for key in one.arguments):
        having = [one for one in subjects if argument in one.arguments]
        for value in TABLES if argument in having[0].tables else VALUES:
            number = zlib.crc32(f"{name} {argument} {value}".encode())
            if (name, argument, value) not in COSTLY and number % parts == 0:
                found.append((having[number // parts % len(having)], argument, value))
    return found


def check(chosen: list[tuple[Subject, str, str]]) -> None:
    faults, budgets = [], {}
    for subject, argument, value in chosen:
        if (budget := budgets.get(id(subject))) is None or len(budget.charges) > 50:
            budget = budgets[id(subject)] = subject.budget()
        if found := fault(subject, argument, value, budget):
            faults.append(found)
    assert not faults, "\n".join([f"{len(faults)} of {len(chosen)}:", *faults])


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """Odd names of files are made, and deleted, in a folder of the test."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", BY_CLASS)
def test_odd_values_are_refused_before_the_charge(name):
    check(tries(name, quick(BY_CLASS[name]), PARTS.get(name, 6)))


@pytest.mark.exhaustive
@each("name", BY_CLASS)
def test_every_odd_value_on_every_case(name):
    for subject in BY_CLASS[name]:
        check(tries(name, [subject], 1))
