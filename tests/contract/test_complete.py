"""The contract is whole: every estimator and function that the package has is under it.

Found by walking the package, so that nobody has to keep a list.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import runpy
from pathlib import Path

import pytest
from audit_pairs import PAIRS
from calls import CALLS
from cases import make
from estimators import CASES
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

import skdp
from skdp.base import PrivateMixin
from skdp.neighbors import _density as base
from tests.folding import each

ROOT = Path(__file__).resolve().parents[2]


def modules():
    """Return every module of the package."""
    names = [info.name for info in pkgutil.walk_packages(skdp.__path__, "skdp.")]
    return [skdp, *(importlib.import_module(name) for name in names)]


def estimators():
    """Return the public private estimators: what inherits the mixin and is no base of others."""
    found = {
        value
        for module in modules()
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__.startswith("skdp.")
        if issubclass(value, PrivateMixin) and issubclass(value, BaseEstimator)
        if not name.startswith("_") and not inspect.isabstract(value)
    }
    bases = {base for cls in found for base in cls.__mro__[1:]}
    return found - {base for base in bases if "fit" not in vars(base)}


def without_a_case():
    """Return the names of estimators that no case of the contract makes."""
    cased = set()
    for case in CASES:
        made = make(case, 0.0)
        parts = [step for _, step in made.steps] if isinstance(made, Pipeline) else [made]
        cased |= {cls for part in parts for cls in type(part).__mro__}
    return sorted(cls.__name__ for cls in estimators() - cased)


def test_every_estimator_has_a_case(monkeypatch):
    assert len(estimators()) >= 17
    assert without_a_case() == []
    untested = type("DPUntested", (PrivateMixin, BaseEstimator), {"fit": lambda self, X: self})
    untested.__module__ = base.__name__
    monkeypatch.setattr(base, "DPUntested", untested, raising=False)
    assert without_a_case() == ["DPUntested"]


def test_audits_are_selected_by_class(request):
    """As `pytest -k DPKMeans` needs it: pairs have names of their own, "lloyd A"."""
    (pair,) = [one for one in PAIRS if one.name == "lloyd A"]
    hooks = request.config.pluginmanager.get_plugins()
    (classes_of,) = {h.classes_of for h in hooks if hasattr(h, "classes_of")}
    assert "DPKMeans" in classes_of(pair)


def test_every_function_that_costs_something_has_a_case():
    functions = {
        name
        for name in skdp.statistics.__all__
        if inspect.isfunction(function := getattr(skdp.statistics, name))
        and "epsilon" in inspect.signature(function).parameters
    } - {"rows_left_out"}  # which has no rows but users': test_users.py
    assert len(functions) >= 16
    named = {case.name.partition(".")[2] for case in CALLS}
    missing = [f for f in functions if not any(n == f or n.startswith(f"{f}_") for n in named)]
    assert missing == []


def test_names_are_told_apart():
    names = [case.name for case in CASES + CALLS]
    assert len(set(names)) == len(names)


@each("module", [m for m in modules() if "._" not in m.__name__], ids=lambda m: m.__name__)
def test_every_public_name_exists(module):
    """And is documented: names of `__all__`, and what classes among them define in public."""
    for name in getattr(module, "__all__", ()):
        value = getattr(module, name)
        if not callable(value):
            continue
        assert inspect.getdoc(value), name
        if not inspect.isclass(value) or not value.__module__.startswith("skdp."):
            continue
        for method, function in vars(value).items():
            routine = inspect.isroutine(function) or isinstance(function, property)
            if routine and not method.startswith("_"):
                assert inspect.getdoc(getattr(value, method)), f"{name}.{method}"
    assert module.__doc__


@pytest.mark.slow
def test_the_pages_of_estimators_link_to_the_proofs_of_what_they_ask():
    """``python doc/scripts/links.py`` writes them; the page has a guide, too."""
    script = runpy.run_path(str(ROOT / "doc" / "scripts" / "links.py"))
    known, asked = json.loads(script["PROOFS"].read_text("utf-8")), script["fitted_proofs"]()
    assert known.keys() == asked.keys()
    for name, files in asked.items():
        assert set(files) <= set(known[name]), name
    shown = script["links"]()
    for name in skdp.__all__:
        if name.startswith("DP"):
            assert any("Guide" in line for line in shown[name]), name
            assert any("Proofs" in line for line in shown[name]) or name == "DPGroupBy", name
