"""Public docstrings: numpydoc, complete, and with what each class says about privacy."""

from __future__ import annotations

import dataclasses
import inspect
import pkgutil
import re
from importlib import import_module
from pathlib import Path
from typing import Self

from numpydoc.validate import validate

import skdp
from skdp._docstrings import SHARED_TEXTS, filled, shared_texts
from skdp.base import PrivateMixin
from tests.folding import each

# For authors of estimators: their docstrings say what holds, not all that numpydoc asks for.
ROOT = Path(skdp.__file__).parent
INNER = {
    f"skdp.{x}"
    for x in (
        "base",
        "confidence",
        "core",
        "parameters",
        "planning",
        "queries",
        "tabular",
        "user_code",
    )
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
    undocumented.__doc__ = None
    assert "GL08" in {code for code, _ in validate("skdp.undocumented")["errors"]}


# What every estimator and function says of a parameter that they share; more may follow.
WORDING = {
    "epsilon": "Privacy loss of a fit; finite, above 0.",
    "epsilon, delta": "Privacy loss of the call",
    "delta": "In [0, 1).",
    "weight_bound": "The largest weight, from public knowledge; above 0.",
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
    if name.endswith("private_train_test_split"):  # neither a fit nor a call: it releases nothing
        return
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


# --- shared texts, which the source has once ------------------------------------------------------


def test_shared_texts_are_filled_in_once():
    doc = """Do it.

    Parameters
    ----------
    budget : PrivacyBudget
    delta : float
        ... Zero is best.
    epsilon : float
        Of the call.
    other : int

    Returns
    -------
    groups : ndarray
    """
    lines = filled(doc).splitlines()
    budget = lines.index("    budget : PrivacyBudget")
    assert " ".join(" ".join(lines[budget + 1 : budget + 3]).split()) == SHARED_TEXTS["budget"]
    delta, epsilon = lines.index("    delta : float"), lines.index("    epsilon : float")
    text = " ".join(" ".join(lines[delta + 1 : epsilon]).split())
    assert text == f"{SHARED_TEXTS['delta']} Zero is best."
    assert lines[lines.index("    epsilon : float") + 1] == "        Of the call."
    assert lines[lines.index("    groups : ndarray") + 1] == "    "  # of Returns: no parameter
    assert filled(filled(doc)) == filled(doc)
    assert max(map(len, lines)) <= 100


def test_a_line_with_a_name_is_replaced_by_its_block():
    doc = """Do it.

    Parameters
    ----------
    {privacy}
    {unknown}
    """
    lines = filled(doc).splitlines()
    assert lines[4] == "    groups : array-like of shape (n_samples,), default=None"
    assert lines[-2] == "    {unknown}"
    assert SHARED_TEXTS["budget"] in " ".join(filled(doc).split())


@each("name", public_objects())
def test_no_block_is_left_out(name):
    assert re.findall(r"\{[a-z_]+\}", doc_of(name).partition("\nExamples\n")[0]) == []


def test_shared_texts_reach_classes_methods_and_functions():
    class Fitted(PrivateMixin):
        """Fit it.

        Attributes
        ----------
        privacy_ : PrivacyCertificate
        """

        def fit(self, X, groups=None) -> Self:
            """Fit."""

        def _inner(self, groups):
            """Fit.

            Parameters
            ----------
            groups : array-like
            """

    @shared_texts
    def called(budget):
        """Call it.

        Parameters
        ----------
        budget : PrivacyBudget
        """

    assert SHARED_TEXTS["privacy_"] in Fitted.__doc__
    # What the signature says is written by nobody.
    entries = [line for line in Fitted.fit.__doc__.splitlines() if line[:1] not in ("", " ", "-")]
    assert [entry.partition(" : ")[0] for entry in entries] == [
        "Fit.", "Parameters", "X", "groups", "Returns", "self"
    ]  # fmt: skip
    assert "Id of the unit" in Fitted.fit.__doc__
    assert "Id of the unit" not in Fitted._inner.__doc__
    assert "Budget to charge" in called.__doc__


# Packages that leave shared texts to the table.
LEFT_TO_THE_TABLE = {
    "base", "cluster", "decomposition", "density_ratio", "discriminant_analysis", "ensemble",
    "feature_selection", "impute", "linear_model", "naive_bayes", "neighbors", "preprocessing",
    "synthetic",
}  # fmt: skip


def leaves_to_the_table(name: str) -> bool:
    return name.startswith("skdp.") and name.split(".")[1] in LEFT_TO_THE_TABLE


@each("name", [name for name in public_objects() if leaves_to_the_table(name)])
def test_no_shared_parameter_is_without_its_text(name):
    for head, body in sections(name):
        if head not in ("Parameters", "Attributes"):
            continue
        entries = re.split(r"\n(?=\S)", body)
        for entry in entries:
            first, _, description = entry.partition("\n")
            assert first.partition(" : ")[0] not in SHARED_TEXTS or description.strip(), first


def sections(name: str) -> list[tuple[str, str]]:
    """Return the sections of a docstring with their texts."""
    return re.findall(r"^(\w+)\n-{3,}\n((?:.*\n?)*?)(?=^\w+\n-{3,}|\Z)", doc_of(name), re.M)


def doc_of(name: str) -> str:
    module, _, attribute = name.rpartition(".")
    if module in MODULES:
        return inspect.getdoc(getattr(import_module(module), attribute)) or ""
    module, _, owner = module.rpartition(".")
    return inspect.getdoc(getattr(getattr(import_module(module), owner), attribute)) or ""


@each(
    "path",
    sorted(p for d in LEFT_TO_THE_TABLE for p in (*ROOT.glob(f"{d}.py"), *ROOT.glob(f"{d}/*.py"))),
)
def test_the_source_has_a_long_shared_text_once(path):
    source = " ".join(path.read_text(encoding="utf-8").split())
    assert [name for name, text in SHARED_TEXTS.items() if len(text) > 60 and text in source] == []
