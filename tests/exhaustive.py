"""Run the tests that CI leaves out, and write down what came of them.

    python tests/exhaustive.py                                  # all of them: hours
    python tests/exhaustive.py tests/contract/test_audit.py     # some: their lines are replaced

The results, with date and commit, stand in exhaustive.md beside this file.
"""

from __future__ import annotations

import datetime
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "tests" / "exhaustive.md"
HEAD = """# Tests that CI leaves out

`python tests/exhaustive.py` runs them and writes this page; seconds are of one core.

| test | cases | passed | skipped | failed | seconds | date | commit |
|---|---|---|---|---|---|---|---|
"""


def rows() -> dict[str, str]:
    """Return the lines that stand there, by the test that they are about."""
    lines = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []
    return {line.split("|")[1].strip(): line for line in lines if line.startswith("| `")}


def run(arguments: list[str]) -> tuple[int, dict[str, Counter[str]]]:
    """Return the status of pytest, and what became of the cases of each test."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-m", "exhaustive", f"--junitxml={report}"]
        status = subprocess.run([*command, *arguments], cwd=ROOT, check=False).returncode
        found: dict[str, Counter[str]] = {}
        for case in ElementTree.parse(report).iter("testcase"):
            name = case.get("name", "").partition("[")[0]
            counts = found.setdefault(f"`{case.get('classname')}.{name}`", Counter())
            kinds = {child.tag for child in case}
            counts["failed" if kinds & {"failure", "error"} else
                   "skipped" if "skipped" in kinds else "passed"] += 1  # fmt: skip
            counts["ms"] += round(1000 * float(case.get("time", 0)))
    return status, found


def main(arguments: list[str]) -> int:
    """Run and write; return the status of pytest."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    status, found = run(arguments)
    lines, today = rows(), datetime.date.today().isoformat()
    for name, c in found.items():
        numbers = (c["passed"] + c["skipped"] + c["failed"], c["passed"], c["skipped"], c["failed"])
        cells = (name, *numbers, round(c["ms"] / 1000), today, commit.stdout.strip())
        lines[name] = "| " + " | ".join(map(str, cells)) + " |"
    RESULTS.write_text(HEAD + "\n".join(lines[k] for k in sorted(lines)) + "\n", encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
