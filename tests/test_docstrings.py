"""Public docstrings: numpydoc, complete, and with what each class says about privacy."""

from __future__ import annotations

import dataclasses
import inspect
import pkgutil
import re
from importlib import import_module

from numpydoc.validate import validate

import skdp
from tests.folding import each

# For authors of estimators: their docstrings say what holds, not all that numpydoc asks for.
INNER = {
    f"skdp.{x}"
    for x in ("base", "confidence", "core", "planning", "queries", "tabular", "user_code")
}
MODULES = [
    "skdp",
    *(
        name
        for _, name, _ in pkgutil.iter_modules(skdp.__path__, "skdp.")
        if not name.startswith("skdp._") and name not in INNER
    ),
]

# What numpydoc calls them: no docstring; sections out of order, unknown or misspelt; parameters
# missing, unknown, out of order or without type; summary that does not end in a full stop; no
# Returns or Yields.
CHECKS = {"GL05", "GL06", "GL07", "GL08", "PR01", "PR02", "PR03", "PR04", "RT01", "SS03", "YD01"}


def public_objects() -> list[str]:
    """Return the dotted names of public classes, their own public methods, and functions."""
    names = []
    for module in MODULES:
        for name in getattr(import_module(module), "__all__", ()):
            value = getattr(import_module(module), name)
            if not callable(value):
                continue
            names.append(f"{module}.{name}")
            if inspect.isclass(value):
                names += [
                    f"{module}.{name}.{method}"
                    for method, function in inspect.getmembers(value, inspect.isroutine)
                    if not method.startswith("_")
                    and getattr(function, "__module__", "").startswith("skdp.")
                ]
    return sorted(names)


def is_result(name: str) -> bool:
    """Say whether this is a tuple or a dataclass: something that skdp returns."""
    module, _, attribute = name.rpartition(".")
    value = getattr(import_module(module), attribute) if module in MODULES else None
    return dataclasses.is_dataclass(value) or hasattr(value, "_fields")


@each("name", public_objects())
def test_numpydoc(name):
    result = validate(name)
    # What a result object holds is documented once, under Attributes: nobody constructs it.
    known = {"PR01"} if "\nAttributes\n---" in result["docstring"] and is_result(name) else set()
    errors = [(code, text) for code, text in result["errors"] if code in CHECKS - known]
    assert errors == []


@each("name", [name for name in skdp.__all__ if name.startswith("DP") or name.endswith("Releaser")])
def test_an_estimator_says_what_it_releases_and_shows_how_it_is_used(name):
    doc = inspect.getdoc(getattr(skdp, name))
    for phrase in ("**Privacy", "eleased*", "ensitivity*", "echanism*", "harged*"):
        assert phrase in doc, phrase
    for section in ("Parameters", "Attributes", "Raises", "References", "Examples"):
        assert f"\n{section}\n{'-' * len(section)}\n" in doc
    assert ">>> " in doc


def test_the_check_finds_what_is_missing(monkeypatch):
    def undocumented(a):
        """Return something without saying what."""
        return a

    monkeypatch.setattr(skdp, "undocumented", undocumented, raising=False)
    codes = {code for code, _ in validate("skdp.undocumented")["errors"]}
    assert {"PR01", "RT01"} <= codes & CHECKS


# What every estimator and function says of a parameter that they share; more may follow.
WORDING = {
    "epsilon": "Privacy loss of a fit; finite, above 0.",
    "epsilon, delta": "Privacy loss of the call",
    "delta": "In [0, 1).",
    "weight_bound": "The largest weight, from public knowledge; above 0. Needed for a fit with "
    "`sample_weight`.",
    "budget": "Budget to charge; it also sets the neighbouring relation. None: the budget of an "
    "enclosing ``with budget:`` block, if there is one.",
    "random_state": "Seeds post-processing, and noise only inside "
    '``skdp.config_context(noise="seeded")``.',
    "nan_policy": (
        '``"omit"``: leave out rows with missing cells',
        # of scalers
        '``"omit"``: the statistics of a column are of the cells that it has',
        '``"omit"``: the quantiles of a column are of the cells that are not missing',
    ),
    "n_rows": '``"private"``: the number of rows is protected, so X may be a selection of rows by '
    'private values. ``"public"``: anyone may know the number of rows; less noise. Not possible '
    'under "add_or_remove_one".',
}
_BOUNDS = (
    "from public knowledge: two numbers, two arrays, or a mapping from column name to (low, high)"
)
LEARNED = (
    f"Range of each column, {_BOUNDS}",
    # of DPGroupBy, whose columns have no order
    "Range of each column, from public knowledge: a mapping from column name to (low, high)",
)


def shared() -> list[tuple[str, str, str]]:
    """Return (name of estimator or function, parameter, what its docstring says of it)."""
    found = []
    for name in public_objects():
        module, _, attribute = name.rpartition(".")
        value = getattr(import_module(module), attribute) if module in MODULES else None
        if not callable(value) or (inspect.isclass(value) and issubclass(value, Exception)):
            continue
        known = inspect.signature(value).parameters
        if not {"epsilon", "budget", "random_state"} <= set(known) or "fit" in known:
            continue
        for entry in re.finditer(r"^([\w, ]+) : (.*)\n((?: +.*\n)+)", inspect.getdoc(value), re.M):
            first = entry[1].partition(",")[0]
            if first in known:
                found.append((name, entry[1], " ".join(entry[3].split())))
    return found


@each(("name", "parameter", "text"), shared())
def test_shared_parameters_have_one_wording(name, parameter, text):
    private = name.endswith(("private_scorer", "PrivateScorer"))
    if parameter in WORDING and not (private and parameter == "epsilon"):  # of a call, not a fit
        assert text.startswith(WORDING[parameter])
    module, _, attribute = name.rpartition(".")
    known = inspect.signature(getattr(import_module(module), attribute)).parameters
    if parameter == "bounds" and known["bounds"].default == "private":
        assert text.startswith(LEARNED)


def test_shared_parameters_are_found():
    names = {parameter for _, parameter, _ in shared()}
    assert names >= {*WORDING, "bounds"}
