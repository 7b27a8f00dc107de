"""What the tests themselves keep to, so that they pass in any order and wherever they are run."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.conftest import TURNS, has_its_turn

TESTS = Path(__file__).resolve().parent
GENERATORS = {"default_rng", "RandomState", "Random", "Generator"}


def is_generator(node: ast.expr) -> bool:
    """Say whether an expression makes a random generator."""
    called = node.func if isinstance(node, ast.Call) else None
    return getattr(called, "attr", getattr(called, "id", None)) in GENERATORS


def shared_generators(tree: ast.Module) -> list[str]:
    """Find functions that draw from a generator of their module: their order would matter."""
    shared = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign) and is_generator(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return [
        f"line {inner.lineno}: {inner.id}"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.Lambda)
        for inner in ast.walk(node)
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load) and inner.id in shared
    ]


@pytest.mark.parametrize("path", sorted(TESTS.rglob("*.py")), ids=lambda p: str(p.name))
def test_no_test_draws_from_the_generator_of_its_module(path):
    assert shared_generators(ast.parse(path.read_text(encoding="utf-8"))) == []


def test_a_shared_generator_is_found():
    assert shared_generators(ast.parse("RNG = np.random.default_rng(0)\ndef f():\n  RNG.normal()"))
    own = "def f():\n  RNG = np.random.default_rng(0)\n  RNG.normal()"
    assert shared_generators(ast.parse(own)) == []


def test_a_file_of_tests_is_read_in_one_sitting():
    lines = {
        path: len(path.read_text(encoding="utf-8").splitlines()) for path in TESTS.rglob("*.py")
    }
    assert [str(path) for path, n in lines.items() if n > 1_000] == []


def test_a_test_in_turn_runs_one_day_in_three():
    for name in ("a.py::test[one]", "a.py::test[two]", "b.py::test"):
        for first in (0, 739_000):
            assert [has_its_turn(name, first + day) for day in range(TURNS)].count(True) == 1
