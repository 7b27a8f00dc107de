"""List the tests that take more than a second and bear no marker, from a log of durations.

    python -m pytest --durations=0 --durations-min=0.05 > log
    python tests/unmarked.py log

The exit status is 1 where there are any. Take the log on an idle machine. No test looks at times:
it would fail on a machine that is busy.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MARKED = "slow or statistical or exhaustive"
LINE = re.compile(r"^\s*(\d+\.\d+)s (?:call|setup|teardown) +(\S.*?)\s*$")


def seconds(log: str) -> dict[str, float]:
    """Return how long each test of a log took, with what was set up for it."""
    found: dict[str, float] = defaultdict(float)
    for line in log.splitlines():
        if match := LINE.match(line):
            found[match[2]] += float(match[1])
    return dict(found)


def marked() -> set[str]:
    """Return the tests that bear a marker."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", "-m", MARKED]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return {line for line in done.stdout.splitlines() if "::" in line}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("log", type=Path)
    parser.add_argument("--seconds", type=float, default=1.0)
    options = parser.parse_args()
    took, known = seconds(options.log.read_text(encoding="utf-8", errors="replace")), marked()
    if not took:
        parser.error(f"{options.log} lists no durations.")
    slow = {test: time for test, time in took.items() if time > options.seconds}
    without = sorted(slow.keys() - known, key=slow.__getitem__, reverse=True)
    for test in without:
        print(f"{slow[test]:8.2f}s {test}")
    quick = sum(time for test, time in took.items() if test not in known)
    print(f"{len(without)} without a marker; those without take {quick:.0f}s of "
          f"{sum(took.values()):.0f}s in all.")  # fmt: skip
    return bool(without)


if __name__ == "__main__":
    sys.exit(main())
