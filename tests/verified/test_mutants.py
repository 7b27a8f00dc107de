"""Privacy bugs that are planted on purpose make the checkers fail (see `planted_bugs.py`)."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.verified.planted_bugs import BUGS
from tests.verified.record import HERE, ROOT, TOOLS


def test_what_is_replaced_is_there():
    """A change of the library shows here at once, before anything is planted."""
    for bug in BUGS:
        source = (ROOT / bug.module.replace(".", "/")).with_suffix(".py").read_text("utf-8")
        for old, _ in bug.changes:
            assert source.count(old) == 1, (bug.name, old)


@pytest.mark.slow
def test_planted_bugs_are_caught():
    """All of them, each in a process of its own: about 30 processor seconds."""
    for tool in TOOLS:
        pytest.importorskip(tool, reason="needs the extra 'verified'")
    command = [sys.executable, str(HERE / "plant.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout[-6000:]}{done.stderr[-2000:]}"
