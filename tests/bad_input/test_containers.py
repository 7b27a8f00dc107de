"""Containers that contradict themselves end no process, and nothing is charged for them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# Together in one process: its imports take longer than most of them.
KINDS = (
    ("csr", "csc", "coo", "bsr", "lil", "dok", "dia", "subclasses", "threads", "numpy"),
    ("arrow", "offsets", "types", "pandas", "polars"),
)


@pytest.mark.parametrize("kinds", KINDS, ids=["arrays", "tables"])
def test_what_contradicts_itself_is_refused(kinds):
    """In a process of its own, which names each case before it is tried."""
    script = Path(__file__).with_name("broken.py")
    done = subprocess.run(
        [sys.executable, script, *kinds], capture_output=True, text=True, timeout=600, check=False
    )
    lines = done.stdout.splitlines()
    problems = [line for line in lines if line.startswith("PROBLEM")]
    assert not problems, "\n".join(problems[:20])
    assert done.returncode == 0, (
        f"ended with {done.returncode} at {lines[-1:]}: {done.stderr[-999:]}"
    )
