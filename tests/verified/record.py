"""Run all checkers, and keep what passed in `checked.json`.

    python tests/verified/record.py

It takes about a minute and a half, and needs the extra ``verified``. The result names what each
checker has checked, with which tools, and the hashes of the modules that it is about: where the
tools are not installed, `test_checked.py` compares these hashes with the tree.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import platform
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))

from proofs.hashes import changed, digests  # noqa: E402

RESULT = HERE / "checked.json"
# Tests of this folder that are about the checkers.
NO_CHECKERS = ("test_checked.py", "test_mutants.py")
# By the name under which a tool is imported: that of its package.
TOOLS = {"bitwuzla": "bitwuzla", "flint": "python-flint", "z3": "z3-solver"}


def checkers() -> list[Path]:
    """Return the files of checkers."""
    return sorted(file for file in HERE.glob("test_*.py") if file.name not in NO_CHECKERS)


def missing_tools() -> set[str]:
    """Return the tools that are not installed."""
    return {tool for tool in TOOLS if importlib.util.find_spec(tool) is None}


def files_of(about: tuple[str, ...]) -> list[Path]:
    """Return files by path; of a folder all modules in it."""
    files: list[Path] = []
    for path in about:
        whole = ROOT / path
        files += sorted(whole.rglob("*.py")) if whole.is_dir() else [whole]
    return files


class _Collector:
    """A plugin of pytest that keeps what each checker reports."""

    def __init__(self) -> None:
        self.modules: dict[str, Any] = {}
        self.passed: dict[str, dict[str, Any]] = {}
        self.bad: list[str] = []
        self._seconds = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: Any) -> Iterator[None]:
        self.modules[item.path.name] = item.module
        start = time.process_time()
        try:
            return (yield)
        finally:
            self._seconds = time.process_time() - start

    def pytest_runtest_logreport(self, report: Any) -> None:
        if not report.passed:
            self.bad.append(f"{report.outcome}: {report.nodeid}")
        elif report.when == "call":
            file, _, name = report.nodeid.partition("::")
            figures = {"processor_seconds": round(self._seconds, 1), **dict(report.user_properties)}
            self.passed.setdefault(Path(file).name, {})[name] = figures


def result_of(collector: _Collector) -> dict[str, Any]:
    """Return what has passed, with what, and of which files."""
    found: dict[str, Any] = {}
    for name, passed in sorted(collector.passed.items()):
        module = collector.modules[name]
        found[name] = {
            "needs": list(module.NEEDS),
            "passed": dict(sorted(passed.items())),
            "hashes": digests([HERE / name, *files_of(module.ABOUT)]),
        }
    return {
        "about": "written by tests/verified/record.py",
        **versions(),
        "helpers": digests(helpers()),
        "checkers": found,
    }


def helpers() -> list[Path]:
    """Return the files of this folder that are no tests."""
    return [file for file in HERE.glob("*.py") if not file.name.startswith("test_")]


def versions() -> dict[str, Any]:
    """Return the versions of Python and of the tools."""
    names = (*TOOLS.values(), "numpy", "scipy")
    tools = {name: importlib.metadata.version(name) for name in names}
    return {"python": platform.python_version(), "tools": tools}


def is_of_this_tree() -> bool:
    """Say whether all checkers have passed here: the same text, helpers, tools and versions."""
    if missing_tools():
        return False
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    found = result["checkers"]
    recorded = dict(result["helpers"])
    for checker in found.values():
        recorded |= checker["hashes"]
    modules = files_of(("skdp/core", "skdp/queries", "skdp/tabular"))
    return (
        {key: result[key] for key in ("python", "tools")} == versions()
        and set(found) == {file.name for file in checkers()}
        and not changed(recorded)
        and digests([*helpers(), *modules]).items() <= recorded.items()
    )


def main() -> int:
    """Run the checkers; write the result if all of them pass."""
    if missing := missing_tools():
        print("not installed:", *(TOOLS[tool] for tool in sorted(missing)))
        return 2
    os.chdir(ROOT)
    collector = _Collector()
    options = ["-q", "-n", "0", "-m", "", "-p", "no:cacheprovider"]
    status = pytest.main([*options, *map(str, checkers())], [collector])
    if status or collector.bad:
        print(*collector.bad, "nothing is written", sep="\n")
        return 1
    text = json.dumps(result_of(collector), indent=1)
    RESULT.write_text(text + "\n", encoding="utf-8")
    times = [figures["processor_seconds"] for file in collector.passed.values()
             for figures in file.values()]  # fmt: skip
    print(f"{len(times)} checkers, {sum(times):.0f} processor seconds: {RESULT.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
