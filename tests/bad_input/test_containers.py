"""Containers that contradict themselves end no process, and nothing is charged for them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

KINDS = (
    "csr", "csc", "coo", "bsr", "lil", "dok", "dia", "subclasses", "threads", "numpy", "arrow",
    "offsets", "types", "pandas", "polars",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_what_contradicts_itself_is_refused(kind):
    """In a process of its own, which names each case before it is tried."""
    script = Path(__file__).with_name("broken.py")
    done = subprocess.run(
        [sys.executable, script, kind], capture_output=True, text=True, timeout=600, check=False
    )
    lines = done.stdout.splitlines()
    problems = [line for line in lines if line.startswith("PROBLEM")]
    assert not problems, "\n".join(problems[:20])
    assert done.returncode == 0, (
        f"ended with {done.returncode} at {lines[-1:]}: {done.stderr[-999:]}"
    )
