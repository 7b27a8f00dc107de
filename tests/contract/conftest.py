"""Puts the registry of estimators within reach of the contract tests, and selects by class.

``pytest -k DPMedian`` selects every test with a case of this class, and every audit in a module
that imports it, whatever the cases are called.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
CLASSES = pytest.StashKey[dict[int, set[str]]]()


def classes_of(case: Any) -> set[str]:
    """Return the names of the classes of skdp that a case or a pair of tables is about."""
    from cases import make

    model = getattr(case, "estimator", None)
    if model is None:
        model = make(case, 0.0, case.relations[0])
    models = [model, *getattr(model, "get_params", dict)().values()]
    kinds = [kind for one in models for kind in type(one).__mro__]
    return {kind.__name__ for kind in kinds if kind.__module__.startswith("skdp.")}


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let ``-k`` find an item by the classes that it tests."""
    known = item.config.stash.setdefault(CLASSES, {})  # a case is one object, in many items
    for value in getattr(getattr(item, "callspec", None), "params", {}).values():
        if type(value).__name__ in ("Case", "Pair"):
            if id(value) not in known:
                known[id(value)] = classes_of(value)
            item.extra_keyword_matches.update(known[id(value)])
    test = inspect.unwrap(getattr(item, "function", len))
    if {"audit", "audited"} & {*getattr(getattr(test, "__code__", None), "co_names", ())}:
        names = vars(item.module)  # type: ignore[attr-defined]
        item.extra_keyword_matches.update(name for name in names if name.startswith("DP"))
