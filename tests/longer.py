"""Write the tests that the shorter runs leave out to longer.txt, from the times of a whole run.

    python -m pytest -m "not exhaustive" --junitxml=times.xml -o junit_duration_report=total
    python -m tests.longer times.xml

Take the times on an idle machine. The shortest tests that fit together into the one-minute run stay
in it, and the shortest that fit into the run of five minutes in that. The core's `CONTRACT` is in
the latter, whatever it takes. The root's ``conftest.py`` marks the others by this list. No test
looks at times: it would fail on a machine that is busy.
"""

from __future__ import annotations

import argparse
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

from tests.selection import CONTRACT

TESTS = Path(__file__).resolve().parent
LIST = TESTS / "longer.txt"
# Seconds of tests, of two cores; starting, collecting and reporting come to about 40 more.
QUICK, MINUTES = 25, 390


def node_of(case: ElementTree.Element) -> str:
    """Return the name of a test as pytest has it, without its parameters."""
    parts = case.get("classname", "").split(".")
    for i in range(len(parts), 0, -1):
        file = TESTS.parent.joinpath(*parts[:i]).with_suffix(".py")
        if file.exists():
            path = file.relative_to(TESTS.parent).as_posix()
            return "::".join([path, *parts[i:], case.get("name", "").partition("[")[0]])
    return ""


def times(report: Path) -> Counter[str]:
    """Return how long all items of each test took together, doctests left out."""
    found: Counter[str] = Counter()
    for case in ElementTree.parse(report).iter("testcase"):
        chosen = any(one.get("name") == "run" for one in case.iter("property"))  # `ci` by itself
        if (node := node_of(case)).startswith("tests/") and not chosen:
            found[node] += float(case.get("time", 0))
    return found


def marks(took: Counter[str]) -> dict[str, str]:
    """Return the marker of each test that one of the shorter runs leaves out."""
    found, spent = {}, 0.0
    always = [name for name in took if name.startswith(CONTRACT)]
    minutes = MINUTES - sum(took[name] for name in always)
    for name, seconds in sorted(took.items(), key=lambda pair: pair[1]):
        spent += seconds if name not in always else 0.0
        if spent > minutes and name not in always:
            found[name] = "ci"
        elif spent > QUICK or (name in always and seconds > 1.0):
            found[name] = "slow"
    return found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("report", type=Path)
    took = times(parser.parse_args(arguments).report)
    found = marks(took)
    lines = [f"{found[name]} {name}" for name in sorted(found)]
    LIST.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for mark in ("slow", "ci"):
        names = [name for name in found if found[name] == mark]
        seconds = sum(took[name] for name in names)
        print(f"{mark}: {len(names)} tests, {seconds:.0f} s of {sum(took.values()):.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
