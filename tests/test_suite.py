"""What the tests themselves keep to, so that they pass in any order and wherever they are run."""

from __future__ import annotations

import ast
import os
import warnings
from pathlib import Path

import pytest

from skdp.core.noise import entropy
from tests import selection
from tests.folding import each

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


@each("path", sorted(TESTS.rglob("*.py")), ids=lambda p: str(p.name))
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


# --- many cases in one item -----------------------------------------------------------------------


def outcome(test, **fixtures):
    """Return the text of what a folded test raises; None if it passes."""
    try:
        test(**fixtures)
    except (Exception, pytest.fail.Exception) as error:
        return "\n".join([str(error), *getattr(error, "__notes__", ())])
    return None


def test_every_case_is_tried_and_every_failure_is_named():
    tried = []

    @each("number", range(5))
    @each(("letter", "more"), [pytest.param("a", 1, id="first"), ("b", 2)])
    def wrong(number, letter, more):
        tried.append((number, letter, more))
        assert number != 3
        assert (number, letter) != (1, "b")

    text = outcome(wrong)
    assert len(tried) == 10
    assert text.startswith("2 of 5 cases fail:")  # the outer list; what the inner one says follows
    assert "1: AssertionError" in text
    assert "3: AssertionError: 2 of 2 cases fail" in text


def test_one_failing_case_fails_as_itself():
    @each("number", [1, 0, 2], ids=["one", "none", "two"])
    def wrong(number):
        assert 1 / number

    with pytest.raises(ZeroDivisionError) as caught:
        wrong()
    assert caught.value.__notes__ == ["the case 'none', the only one of 3 that fails"]

    @each("number", [1])
    def nothing_raised(number):
        with pytest.raises(ValueError):
            pass

    assert "DID NOT RAISE" in outcome(nothing_raised)


def test_a_case_starts_like_an_item(monkeypatch, tmp_path):
    seen = []

    @each("number", [0, 1])
    def alone(number, monkeypatch, tmp_path):
        assert not list(tmp_path.iterdir()) and "SKDP_A_CASE" not in os.environ
        monkeypatch.setenv("SKDP_A_CASE", "1")
        (tmp_path / "file").touch()
        with warnings.catch_warnings(record=True) as caught:
            warnings.warn("once a place", stacklevel=1)
        seen.append((entropy.os.urandom(8), len(caught)))

    for i in range(2):
        (tmp_path / str(i)).mkdir()
        alone(monkeypatch=monkeypatch, tmp_path=tmp_path / str(i))
    bits, shown = zip(*seen, strict=True)
    assert bits[:2] == bits[2:] and bits[0] != bits[1]  # by the label, in every run
    assert shown == (1,) * 4


def test_cases_may_skip_but_not_all_of_them():
    @each("number", [0, 1])
    def skips(number, least):
        if number >= least:
            pytest.skip("nothing to test")

    assert outcome(skips, least=1) is None
    with pytest.raises(pytest.skip.Exception):
        skips(least=0)


def test_a_list_without_cases_or_of_another_test_is_refused():
    with pytest.raises(AssertionError, match="one label"):
        each("name", ["a", "a", "a (2)"])(lambda name: None)
    with pytest.raises(AssertionError, match="no cases"):
        each("number", [])(lambda number: None)
    with pytest.raises(AssertionError, match="no parameters"):
        each("number", [1])(lambda other: None)
    with pytest.raises(AssertionError, match="no marks"):
        each("number", [pytest.param(1, marks=pytest.mark.slow)])(lambda number: None)


# Fixtures of one item that each case of a folded test has anew, or does not change.
RENEWED = {
    "_close_figures", "_no_budget_of_another_test", "_the_same_bits", "capfd", "capsys",
    "monkeypatch", "record_property", "recwarn", "request", "slack", "system_noise", "tmp_path",
}  # fmt: skip


def test_a_folded_test_takes_no_fixture_that_a_case_changes(request):
    """Of all tests of this run: run the whole suite to know."""
    wrong = set()
    for item in request.session.items:
        if getattr(getattr(item, "function", None), "folded", False):
            given = item.callspec.params if hasattr(item, "callspec") else {}
            for name, found in item._fixtureinfo.name2fixturedefs.items():
                if name not in RENEWED | set(given) and found[-1].scope == "function":
                    wrong.add(f"{item.nodeid}: {name}")
    assert wrong == set()


# --- what a change can break ----------------------------------------------------------------------


def test_everything_runs_where_nobody_can_know():
    assert selection.changed_since("no-such-revision") is None
    assert selection.selected(None) is None
    # The last ones: what conftest.py uses, a test file that others import, a module that is gone.
    for shared in ("pyproject.toml", "conftest.py", "tests/views.py", "tests/contract/cases.py",
                   "tests/data/x.json", ".ci/run", "pytest_skdp.py", "skdp/core/clipping.py",
                   "tests/sql/test_sql_fuzz.py", "skdp/no_such_module.py"):  # fmt: skip
        assert selection.selected(["skdp/cluster/_kmeans.py", shared]) is None


@each(
    ("changed", "runs", "does_not"),
    [
        ("skdp/cluster/_kmeans.py", "tests/cluster/test_kmeans.py", "tests/sql/test_sql_rows.py"),
        # through a helper, through other modules, through a page of names, and by a patched name
        (
            "skdp/cluster/_lloyd.py",
            "tests/contract/test_charges.py",
            "tests/quantile/test_quantile.py",
        ),
        (
            "skdp/queries/images.py",
            "tests/contract/test_users.py",
            "tests/test_oldest.py",
        ),
        ("skdp/sql/_plan.py", "tests/sql/test_sql_rows.py", "tests/cluster/test_kmeans.py"),
        (
            "tests/cluster/test_kmeans.py",
            "tests/cluster/test_kmeans.py",
            "tests/test_decomposition.py",
        ),
        ("doc/support.md", "tests/test_readme.py", "tests/cluster/test_kmeans.py"),
        ("skdp/cluster/_kmeans.py", "skdp/cluster/_kmeans.py", "skdp/decomposition.py"),
        # scripts that a test runs, and the plugin of pytest
        (
            "skdp/cluster/_kmeans.py",
            "tests/sklearns/test_substituted.py",
            "tests/quantile/test_quantile.py",
        ),
        ("skdp/tabular/rows.py", "tests/bad_input/test_containers.py", "tests/test_oldest.py"),
        ("skdp/audit/_black_box.py", "tests/audit/test_plugin.py", "tests/cluster/test_kmeans.py"),
    ],
)
def test_what_imports_a_change_runs(changed, runs, does_not):
    files = selection.selected([changed])
    assert runs in files
    assert does_not not in files


def test_the_core_s_contract_always_runs():
    files = selection.selected(["doc/support.md"])
    for name in ("mutants", "neighbour", "replay"):
        assert f"tests/contract/test_{name}.py" in files
