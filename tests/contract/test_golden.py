"""Seeded fits release what they released when the record was made, to the last bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import golden
import pytest

pytestmark = pytest.mark.slow

PARTS = 2


@pytest.fixture(scope="module", autouse=True)
def _recorded_here():
    where = golden.load()["where"]
    if where != golden.machine():
        pytest.skip(f"recorded with {where}: floats may differ in their last bits here")


@pytest.mark.parametrize("k", range(1, PARTS + 1))
def test_the_record(k):
    """tests/contract/golden.py records it anew, with a reason in the commit.

    Rows of the normal table are like those of the others: the script by itself compares all.
    """
    # A process of its own: its BLAS has the kernels of the record, and its noise no other seed.
    script = Path(golden.__file__)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script, "--check", "--part", f"{k}/{PARTS}",
         "--only", "|mixed,|short"],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            **golden.KERNELS,  # else the script would start itself anew
            "PYTHONPATH": str(script.parents[2]),
            "OMP_NUM_THREADS": "1",
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_record_tells_fits_apart():
    held = golden.load()["cells"]
    one, other = (held[f"pca|replace_one|{delta}|normal"] for delta in ("0", "1e-05"))
    assert golden.differences("pca", one, one) == []
    assert golden.differences("pca", one, other)
