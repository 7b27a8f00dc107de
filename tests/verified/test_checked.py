"""The committed result of the checkers is complete, and is about this tree.

Where their tools are installed the checkers themselves run, on a text that is not that of the
result. Where a tool is missing, the hashes of
the committed result stand in for those that need it: they must be those of the tree.
"""

from __future__ import annotations

import ast
import json

from proofs.hashes import changed
from tests.verified import record
from tests.verified.record import RESULT, checkers, missing_tools

NEXT = (
    "changed since the checkers ran: install the extra 'verified' and run "
    "python tests/verified/record.py"
)


def stale(result, missing):
    """Return the files that have changed, of checkers that cannot run without missing tools."""
    files = {}
    for checker in result["checkers"].values():
        if missing.intersection(checker["needs"]):
            files |= checker["hashes"] | result["helpers"]
    return changed(files)


def functions_of(file):
    """Return the names of the tests in a file."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def test_the_committed_result_is_of_this_tree():
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    recorded = {
        file: {name.partition("[")[0] for name in checker["passed"]}
        for file, checker in result["checkers"].items()
    }
    assert recorded == {file.name: functions_of(file) for file in checkers()}
    files = stale(result, missing_tools())
    assert not files, f"{', '.join(files)} {NEXT}"


def test_another_module_is_found():
    """A changed module is found where a tool is missing that its checker needs, not elsewhere."""
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    result["helpers"] = {}
    for checker in result["checkers"].values():
        checker["hashes"] = {}
    result["checkers"]["test_clipping.py"]["hashes"] = {"skdp/core/clipping.py": "another"}
    assert stale(result, {"z3"}) == ["skdp/core/clipping.py"]
    assert stale(result, {"flint"}) == []
    assert stale(result, set()) == []


def test_checkers_are_left_out_on_the_text_on_which_they_have_passed_alone(monkeypatch, tmp_path):
    """Not on another text of a module, a new module, another version, or without one checker."""
    if missing_tools():  # without the extra "verified" there is nothing to compare
        assert not record.is_of_this_tree()
        return
    of_all = record.files_of(("skdp/core", "skdp/queries", "skdp/tabular"))
    hashes = record.digests(of_all)
    here = {
        **record.versions(),
        "helpers": record.digests(record.helpers()),
        "checkers": {file.name: {"hashes": hashes} for file in checkers()},
    }

    def holds(**changes):
        monkeypatch.setattr(record, "RESULT", tmp_path / "checked.json")
        record.RESULT.write_text(json.dumps(here | changes), encoding="utf-8")
        return record.is_of_this_tree()

    assert holds()
    assert not holds(python="3.0")
    assert not holds(helpers={})
    assert not holds(checkers=dict(list(here["checkers"].items())[1:]))
    for other in (record.digests(of_all[1:]), hashes | {"skdp/core/clipping.py": "another"}):
        assert not holds(checkers={key: {"hashes": other} for key in here["checkers"]})
