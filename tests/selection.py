"""Which tests a change can break, read from the imports: `pytest --since=REVISION`.

A test file runs if it imports a module that has changed, directly or through other modules of skdp.
Everything runs where that cannot be known: without such a revision, or where something changed
that all tests share (a helper, data, the configuration, the dependencies). The tests of `ALWAYS`
run whatever changed.
"""

from __future__ import annotations

import ast
import functools
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS, PLUGIN = ROOT / "tests", ROOT / "pytest_skdp.py"

CONTRACT = (
    "tests/contract/test_mutants.py",
    "tests/contract/test_neighbour.py",
    "tests/contract/test_replay.py",
)
# The core's contract, and rules about the whole tree.
ALWAYS = (
    *CONTRACT,
    "tests/contract/test_complete.py",
    "tests/test_docstrings.py",
    "tests/test_imports.py",
    "tests/test_proofs.py",
    "tests/test_readme.py",
    "tests/test_suite.py",
    "tests/verified/",
)
# No test reads these, but for the tests of ALWAYS.
UNREAD = (
    ".github/",
    ".gitignore",
    "doc/",
    "LICENSE",
    "proofs/",
    "skdp/queries/",
    "skdp/core/PROOFS.md",
    "skdp/loss/PROOFS.md",
    "skdp/sql/PROOFS.md",
)


def changed_since(revision: str) -> list[str] | None:
    """Return the files that differ from a revision, untracked ones too; None if it is unknown."""

    def git(*arguments: str) -> list[str]:
        done = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()

    try:
        git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
        differ = git("diff", "--name-only", "--no-renames", revision, "--")
        return sorted({*differ, *git("ls-files", "--others", "--exclude-standard")})
    except (OSError, subprocess.CalledProcessError):
        return None


def selected(changed: Iterable[str] | None) -> set[str] | None:
    """Return the files whose tests must run, relative to the root; None for all of them.

    Files of skdp stand for their doctests.
    """
    if changed is None:
        return None
    modules, tests = set(), set()
    files = {file.relative_to(ROOT).as_posix() for file in sorted((ROOT / "tests").rglob("*.py"))}
    imported = {
        helper.relative_to(ROOT).as_posix() for path in files for helper in helpers(ROOT / path)
    }
    for path in changed:
        name = Path(path).name
        if path.startswith("skdp/") and path.endswith((".py", ".pyi")):
            modules.add(module_name(path.removesuffix("i") if path.endswith("i") else path))
        elif path in files - imported and name.startswith("test_"):
            tests.add(path)
        elif not path.startswith(UNREAD) or path.endswith((".py", ".toml", ".ini", ".cfg")):
            return None
    names = names_used(tree_of(ROOT / "conftest.py"))
    by_all = frozenset(module for name in names for module in resolved(name.rstrip(".")))
    if modules - set(sources()) or modules & closure(by_all):
        return None  # a module is gone, or all tests use it
    tests |= {path for path in files if path.startswith(ALWAYS)}
    for path in files:
        if modules & closure(used_by(path)):
            tests.add(path)
    for module in sources():
        if modules & closure(frozenset({module})):
            tests.add(sources()[module].relative_to(ROOT).as_posix())
    return tests


# --- what imports what ----------------------------------------------------------------------------


def module_name(path: str) -> str:
    """Return the dotted name of a source file: ``skdp.core`` for ``skdp/core/__init__.py``."""
    parts = Path(path).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def sources() -> dict[str, Path]:
    """Return the file of every module of skdp."""
    found = sorted((ROOT / "skdp").rglob("*.py"))
    return {module_name(file.relative_to(ROOT).as_posix()): file for file in found}


@functools.cache
def homes(package: str) -> dict[str, str]:
    """Return the module of each name that a package shows."""
    file = sources()[package]
    stub = file.with_suffix(".pyi")
    tree = ast.parse((stub if stub.exists() else file).read_text(encoding="utf-8"))
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("skdp")
        for alias in node.names
    }


def resolved(name: str) -> Iterator[str]:
    """Yield the modules of skdp behind a dotted name, and the packages on the way to them.

    A package without a name of it stands for all that it shows.
    """
    package = name
    while package not in sources():
        package, _, _ = package.rpartition(".")
        if not package:
            return
    yield from (".".join(package.split(".")[: i + 1]) for i in range(package.count(".") + 1))
    if sources()[package].name != "__init__.py":
        return
    shown, attribute = homes(package), name.removeprefix(package).lstrip(".").partition(".")[0]
    for home in [shown[attribute]] if attribute in shown else [] if attribute else shown.values():
        if home != name and not name.startswith(f"{home}."):
            yield from resolved(home)


def names_used(tree: ast.AST) -> Iterator[str]:
    """Yield the dotted names of skdp that code imports, with the attributes that it reads.

    A module whose name stands alone somewhere, as in ``vars(skdp)``, is yielded as a whole.
    """
    aliases = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "skdp":
                    if "." in alias.name:
                        yield f"{alias.name}." if alias.name in sources() else alias.name
                    aliases[alias.asname or "skdp"] = alias.name if alias.asname else "skdp"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "skdp":
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                if name in sources() and sources()[name].name == "__init__.py":
                    aliases[alias.asname or alias.name] = name
                else:
                    yield name
    read = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            read[id(node.value)] = node.attr
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in aliases:
            attribute = read.get(id(node))
            yield aliases[node.id] + (f".{attribute}" if attribute else "")


@functools.cache
def imports(module: str) -> frozenset[str]:
    """Return the modules that a module of skdp imports, wherever the import stands.

    A page of names imports none of what it shows: who asks for a name imports its module.
    """
    body = [
        node
        for node in tree_of(sources()[module]).body
        if not (isinstance(node, ast.If) and getattr(node.test, "id", None) == "TYPE_CHECKING")
    ]
    names = names_used(ast.Module(body, []))
    return frozenset(found for name in names for found in resolved(name.rstrip(".")))


@functools.cache
def closure(modules: frozenset[str]) -> frozenset[str]:
    """Return modules with all that they import."""
    known, fresh = set(modules), list(modules)
    while fresh:
        for name in imports(fresh.pop()) - known:
            known.add(name)
            fresh.append(name)
    return frozenset(known)


@functools.cache
def used_by(path: str) -> frozenset[str]:
    """Return the modules of skdp that a test file uses, by itself or through helpers."""
    seen, todo, found = set(), [ROOT / path], set()
    while todo:
        file = todo.pop()
        if file in seen:
            continue
        seen.add(file)
        tree = tree_of(file)
        names = [*names_used(tree), *names_quoted(tree)]
        found |= {module for name in names for module in resolved(name.rstrip("."))}
        todo += helpers(file)
    return frozenset(found)


@functools.cache
def tree_of(file: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(file.read_text(encoding="utf-8"))


def names_quoted(tree: ast.AST) -> Iterator[str]:
    """Yield the dotted names of skdp in strings: code of other processes, and what is patched."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"\bskdp(?:\.\w+)+", node.value)
            for module, names in re.findall(r"from (skdp[\w.]*) import ([\w, ]+)", node.value):
                yield from (f"{module}.{name}" for name in re.findall(r"(\w+)(?: as \w+)?", names))
            if re.search(r"\bimport skdp\b", node.value):
                yield "skdp"


@functools.cache
def helpers(file: Path) -> frozenset[Path]:
    """Return the files that a test file imports, by path or as a neighbour, and scripts it runs."""
    return frozenset(_helpers(tree_of(file), file.parent))


def _helpers(tree: ast.AST, folder: Path) -> Iterator[Path]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if re.fullmatch(r"tests(\.\w+)+", node.value):
                names = [node.value]
            elif node.value.endswith(".py") and "test_" not in node.value:
                yield from (f for f in (folder / node.value, ROOT / node.value) if f.is_file())
                continue
            else:
                continue
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            for start in (ROOT, folder):
                file = start.joinpath(*name.split(".")).with_suffix(".py")
                if file.is_file() and (TESTS in file.parents or file == PLUGIN):
                    yield file
