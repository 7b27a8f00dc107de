"""The import graph: imports go downwards, and noise and charges each have one place.

The rules are read from the syntax tree, so code that is never run is checked too. Each rule is
also shown a snippet that breaks it.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import skdp
from tests.folding import each

PACKAGE = Path(__file__).resolve().parents[1] / "skdp"
SOURCES = sorted(PACKAGE.rglob("*.py"))

# Trusted: they see rows, or draw noise. Everybody else imports from their pages only.
TRUSTED = ("core", "engines", "tabular", "user_code", "queries")
# A module may import modules of a lower layer, and of its own layer.
LAYERS = {
    "_version": 0,
    "_forks": 0,
    "exceptions": 0,
    "_config": 0,
    "_docstrings": 0,
    "_lazy": 0,
    "parameters": 0,
    "_threads": 0,
    "loss": 0.5,
    "budget": 1,
    "core": 2,
    "user_code": 3,
    "tabular": 3,
    "engines": 3.5,
    "queries": 5,
    "confidence": 5.5,
    "base": 6,
    "planning": 6,
}
ESTIMATORS = 7  # every public module that is not named here
TOP = {"audit", "inspection", "ledger"}  # may import anything, and are imported by nobody

THIRD_PARTY = {"numpy", "scipy", "sklearn", "joblib", "threadpoolctl"}
# Optional dependencies, imported inside the function that needs them.
OPTIONAL = {
    "inspection": {"matplotlib", "pandas"},
    "audit": {"hypothesis", "pytest"},
    "budget": {"pandas", "psycopg"},
    "confidence": {"pandas"},
    "linear_model": {"pandas"},
    "model_selection": {"pandas"},
    "statistics": {"pandas"},
    "tabular": {"duckdb"},
    "sql": {"duckdb", "sqlglot"},
}

RANDOM = {"numpy.random", "random", "secrets", "os.urandom"}
# Types may be named (in annotations and isinstance) everywhere: no number comes from a type.
RANDOM_TYPES = {"numpy.random.Generator", "numpy.random.RandomState"}


def module_name(path: Path) -> str:
    """Return the dotted name of a source file, ``skdp.core`` for ``skdp/core/__init__.py``."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in SOURCES}


def part(module: str) -> str:
    """Return the first name below ``skdp``: ``core`` for ``skdp.core.session``."""
    return module.partition(".")[2].partition(".")[0]


def layer(module: str) -> int:
    return LAYERS.get(part(module), ESTIMATORS)


def is_sampler(module: str) -> bool:
    return module.startswith("skdp.core.noise")


def is_estimator(module: str) -> bool:
    """Say whether this is an estimator, or what estimators share without reading the stack."""
    if module.startswith("skdp.base."):
        return module not in {"skdp.base.callers", "skdp.base.mixin"}
    if part(module) == "confidence":
        return True
    return layer(module) == ESTIMATORS and part(module) not in TOP


def imports(tree: ast.AST) -> Iterator[tuple[ast.stmt, str]]:
    """Yield each import, wherever it stands, with the dotted name of what it imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import"
            for alias in node.names:
                yield node, f"{node.module}.{alias.name}"


def target(name: str) -> str:
    """Return the module of skdp that a dotted name refers to, itself or the longest prefix."""
    while name not in MODULES and "." in name:
        name = name.rpartition(".")[0]
    return name


def uses(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Yield every dotted name that the code reads, with import aliases resolved.

    Attributes are yielded whole, ``numpy.random.default_rng`` for ``np.random.default_rng``.
    """
    aliases = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                aliases[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"

    def dotted(node: ast.AST) -> str | None:
        if isinstance(node, ast.Name):
            return aliases.get(node.id)
        if isinstance(node, ast.Attribute):
            head = dotted(node.value)
            return None if head is None else f"{head}.{node.attr}"
        return None

    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name) and id(node) not in inner:
            name = dotted(node)
            if name is not None:
                yield node, name


def against_the_arrow(module: str, tree: ast.AST) -> list[str]:
    found = []
    for node, name in imports(tree):
        if not f"{name}.".startswith("skdp."):
            continue
        imported = target(name)
        if part(imported) in TOP and part(module) != part(imported):
            found.append(f"line {node.lineno}: {imported} is imported by nobody")
        elif part(module) in TOP or module == "skdp":
            continue  # the tools above everything, and the list of public names
        elif imported == "skdp":
            found.append(f"line {node.lineno}: imports the package itself")
        elif layer(imported) > layer(module):
            found.append(f"line {node.lineno}: {module} imports {imported}, which stands above it")
        elif layer(module) > LAYERS["queries"] and (
            part(imported) in TRUSTED and imported.count(".") > 1
        ):
            found.append(f"line {node.lineno}: reaches past a page of skdp into {imported}")
        elif is_sampler(module) and part(imported) == "core" and not is_sampler(imported):
            found.append(f"line {node.lineno}: the samplers know nothing of {imported}")
    return found


def not_public(module: str, tree: ast.AST) -> list[str]:
    """Find imports of private names of other libraries, and of undeclared dependencies."""
    found = []
    allowed = THIRD_PARTY | OPTIONAL.get(part(module), set())
    for node, name in imports(tree):
        top, *rest = name.split(".")
        if top == "skdp" or top in sys.stdlib_module_names:
            continue
        if top not in allowed:
            found.append(f"line {node.lineno}: {top} is no dependency of skdp")
        if any(piece.startswith("_") for piece in rest):
            found.append(f"line {node.lineno}: {name} is private to {top}")
    return found


def randomness(tree: ast.AST) -> list[str]:
    """Find sources of random numbers; naming a type is none, calling it is."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    found = []
    for node, name in uses(tree):
        source = any(name == known or name.startswith(f"{known}.") for known in RANDOM)
        if source and (name not in RANDOM_TYPES or id(node) in called):
            found.append(f"line {node.lineno}: {name}")
    return found


def charges(tree: ast.AST) -> list[str]:
    """Find calls of anything named ``charge``."""
    return [
        f"line {node.lineno}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and getattr(node.func, "attr", getattr(node.func, "id", None)) == "charge"
    ]


def reaching_in(tree: ast.AST) -> list[str]:
    """Find private attributes of objects other than ``self`` and ``cls``, dunders aside."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            dunder = node.attr.startswith("__") and node.attr.endswith("__")
            own = isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}
            parent = isinstance(node.value, ast.Call) and (
                getattr(node.value.func, "id", None) == "super"
            )
            if not (dunder or own or parent):
                found.append(f"line {node.lineno}: .{node.attr}")
    return found


def holding_the_filter(tree: ast.AST) -> list[str]:
    """Find what only a session may hold: the privacy filter, and ways to it from a meter."""
    inner = {"PrivacyFilter", "_filter", "_keep_rest"}
    named = (
        (node, getattr(node, "attr", getattr(node, "id", getattr(node, "name", None))))
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute | ast.Name | ast.alias)
    )
    return [f"line {node.lineno}: {name}" for node, name in named if name in inner]


def where(condition: object) -> list[str]:
    """Return the modules for which the condition holds; there must be some."""
    found = [module for module in MODULES if condition(module)]
    assert found
    return found


@functools.cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


@each("module", MODULES)
def test_imports_go_downwards(module):
    assert against_the_arrow(module, tree_of(module)) == []


@each("module", MODULES)
def test_only_public_names_of_declared_dependencies(module):
    assert not_public(module, tree_of(module)) == []


@each("module", where(lambda m: not is_sampler(m) and part(m) != "audit"))
def test_randomness_comes_from_the_samplers(module):
    # skdp.audit is left out: it makes data to test estimators with, which is nobody's.
    assert randomness(tree_of(module)) == []


@each("module", where(lambda m: m != "skdp.core.privacy_filter"))
def test_only_a_release_charges(module):
    assert charges(tree_of(module)) == []


@each("module", where(is_estimator))
def test_estimators_use_public_names_only(module):
    assert reaching_in(tree_of(module)) == []


@each("module", where(lambda m: m not in ("skdp.core.privacy_filter", "skdp.core.session")))
def test_only_a_session_holds_the_privacy_filter(module):
    assert holding_the_filter(tree_of(module)) == []


def for_types_only(tree: ast.AST) -> set[int]:
    """Return the ids of statements under ``if TYPE_CHECKING``, which never run."""
    return {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and getattr(node.test, "id", None) == "TYPE_CHECKING"
        for statement in node.body
        for inner in ast.walk(statement)
    }


@pytest.mark.slow
def test_the_graph_has_no_cycle():
    graph = {}
    for module in MODULES:
        tree = tree_of(module)
        never = for_types_only(tree)
        graph[module] = {
            target(name)
            for node, name in imports(tree)
            if f"{name}.".startswith("skdp.") and id(node) not in never
        }
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " imports ".join((*path, module))
        if module not in done:
            for imported in graph[module] - {module}:
                visit(imported, (*path, module))
            done.add(module)

    for module in MODULES:
        visit(module, ())


def circles(graph: dict[str, set[str]]) -> set[frozenset[str]]:
    """Return the sets of nodes that reach each other."""

    def reached(start: str) -> set[str]:
        known, fresh = set[str](), [start]
        while fresh:
            new = graph.get(fresh.pop(), set()) - known
            known |= new
            fresh += new
        return known

    reach = {node: reached(node) for node in graph}
    return {
        frozenset(other for other in reach[node] if node in reach.get(other, ()))
        for node in graph
        if node in reach[node]
    }


def test_packages_do_not_import_in_a_circle():
    graph: dict[str, set[str]] = {}
    for module in MODULES.keys() - {"skdp"}:
        tree = tree_of(module)
        never = for_types_only(tree)
        names = {target(n) for node, n in imports(tree) if id(node) not in never}
        others = {part(name) for name in names if name.startswith("skdp.")}
        graph.setdefault(part(module), set()).update(others - {part(module)})
    assert circles(graph) == set()
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == {frozenset("abc")}


def test_the_top_level_is_seen_at_a_glance():
    assert len({part(module) for module in MODULES} - {""}) <= 42


def test_skdp_imports_neither_matplotlib_nor_pandas_at_module_level():
    for module in MODULES:
        for node in tree_of(module).body:
            for _, name in imports(node) if isinstance(node, ast.Import | ast.ImportFrom) else ():
                assert name.partition(".")[0] not in {"matplotlib", "pandas"}, module


@each(
    ("rule", "code"),
    [
        (lambda tree: against_the_arrow("skdp.budget.x", tree), "from skdp import core"),
        (lambda tree: against_the_arrow("skdp.core.x", tree), "def f():\n import skdp.base"),
        (lambda tree: against_the_arrow("skdp.cluster", tree), "import skdp.core.noise"),
        (
            lambda tree: against_the_arrow("skdp.cluster", tree),
            "from skdp.core.noise import rounded_gaussian",
        ),
        (lambda tree: against_the_arrow("skdp.base", tree), "import skdp"),
        (lambda tree: against_the_arrow("skdp", tree), "from skdp import inspection"),
        (
            lambda tree: against_the_arrow("skdp.core.noise.x", tree),
            "from skdp.core import session",
        ),
        (lambda tree: not_public("skdp.cluster", tree), "from sklearn.cluster import _kmeans"),
        (lambda tree: not_public("skdp.cluster", tree), "import pandas"),
        (randomness, "import numpy as np\nnp.random.default_rng(0)"),
        (randomness, "import numpy as np\nnp.random.RandomState(0)"),
        (randomness, "from numpy.random import default_rng as d\nd()"),
        (randomness, "from numpy import random as r\nx = r.laplace"),
        (randomness, "import random\nrandom.random()"),
        (randomness, "import secrets\nf(secrets.token_bytes)"),
        (randomness, "from os import urandom\nurandom(8)"),
        (randomness, "import os as o\no.urandom(8)"),
        (charges, "self.budget.charge(cost)"),
        (charges, "charge(cost)"),
        (reaching_in, "rows._X"),
        (reaching_in, "session._tree(x)._values"),
        (holding_the_filter, "meter._filter.claimed_mu"),
        (holding_the_filter, "from skdp.core.privacy_filter import PrivacyFilter"),
        (holding_the_filter, "f(meter)._keep_rest()"),
    ],
)
def test_each_rule_finds_what_it_forbids(rule, code):
    assert rule(ast.parse(code)) != []


@each(
    ("rule", "code"),
    [
        (lambda tree: against_the_arrow("skdp.cluster", tree), "from skdp import core, queries"),
        (
            lambda tree: against_the_arrow("skdp.inspection", tree),
            "import skdp.core.privacy_filter",
        ),
        (lambda tree: not_public("skdp.cluster", tree), "from __future__ import annotations"),
        (randomness, "import numpy as np\ndef f(r: np.random.Generator): pass"),
        (charges, "budget.charges"),
        (holding_the_filter, "from skdp.core.privacy_filter import Meter\nMeter.take"),
        (reaching_in, "self._x, cls._y, super()._z, type(self).__name__"),
    ],
)
def test_no_rule_forbids_what_is_allowed(rule, code):
    assert rule(ast.parse(code)) == []


def test_every_public_name_is_imported_when_it_is_used():
    """``import skdp`` imports nothing else; type checkers are told the same names."""
    code = "import sys, skdp; print([m for m in sys.modules if m.startswith(('skdp.', 'sklearn'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['skdp._forks', 'skdp._version']"
    stub = ast.parse((PACKAGE / "__init__.pyi").read_text(encoding="utf-8"))
    told = {
        alias.name: node.module.removeprefix("skdp.")
        for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }  # fmt: skip
    told.pop("__version__")
    assert told == skdp._HOMES
    for name in (*skdp.__all__, *skdp._SUBMODULES):
        assert getattr(skdp, name) is not None
    assert {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()} <= {
        *skdp._SUBMODULES
    }
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        skdp.nothing  # noqa: B018


@pytest.mark.parametrize("package", ["queries", "tabular"])
def test_pages_of_trusted_names_show_what_type_checkers_are_told(package):
    """`page_of` imports a name from where the block for type checkers has it."""
    page = importlib.import_module(f"skdp.{package}")
    tree = ast.parse((PACKAGE / package / "__init__.py").read_text(encoding="utf-8"))
    (told,) = (node for node in tree.body if isinstance(node, ast.If))
    names = {
        alias.name: node.module
        for node in told.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }  # fmt: skip
    assert sorted(names) == sorted(page.__all__)
    assert set(names) <= set(dir(page))
    for name, module in names.items():
        assert getattr(page, name) is getattr(importlib.import_module(module), name)
        assert f"skdp.{package}.{name}" not in MODULES  # which would hide the name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        page.nothing  # noqa: B018


def test_an_estimator_imports_what_it_uses_alone():
    """Import time: those of other estimators' queries are read when they are first asked for."""
    code = "import sys; from skdp import DPKMeans; print([m for m in sys.modules if 'skdp' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for module in (
        "queries.small_databases",
        "queries.samples",
        "tabular.domain",
        "budget.reports.html",
    ):
        assert f"skdp.{module}" in MODULES
        assert f"'skdp.{module}'" not in done.stdout


def test_a_file_is_read_in_one_sitting():
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    assert [str(path) for path, n in lines.items() if n > 1_000] == []


def house():
    """Return the script that counts the trusted code for the documentation."""
    path = PACKAGE.parent / "doc" / "scripts" / "house.py"
    spec = importlib.util.spec_from_file_location("house", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_core_stays_an_afternoon():
    """What must be trusted by everyone, and what a fit runs of it: both as small as promised."""
    script = house()
    lines = script.trusted_base()
    assert lines["core"] <= 2_900
    assert lines["accounting"] <= 620
    files = script.fits()
    assert {"core/session.py", "loss/conversions.py"} <= set(files["`DPPCA`"])
    assert max(map(len, files.values())) <= 19
