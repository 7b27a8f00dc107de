"""Write the tests that the one-minute run leaves out to longer.txt, from a log of durations.

    SKDP_EVERY_TURN=1 python -m pytest --durations=0 --durations-min=0.01 > log
    python tests/longer.py log

They are those whose cases take more than .08 s on average; the root's
``conftest.py`` marks them as slow. Take the log on an idle machine. No test looks at times: it
would fail on a machine that is busy.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from pathlib import Path

LIST = Path(__file__).with_name("longer.txt")
LINE = re.compile(r"^\s*(\d+\.\d+)s (?:call|setup|teardown) +(\S.*?)\s*$")
LONGER = 0.08


def seconds(log: str) -> dict[str, float]:
    """Return how long each test of a log took, with what was set up for it."""
    found: dict[str, float] = defaultdict(float)
    for line in log.splitlines():
        if match := LINE.match(line):
            found[match[2]] += float(match[1])
    return dict(found)


def longer(took: dict[str, float]) -> list[str]:
    """Return the tests whose cases take long on average, by name."""
    cases: dict[str, list[float]] = defaultdict(list)
    for test, time in took.items():
        cases[test.partition("[")[0]].append(time)
    return sorted(name for name, times in cases.items() if sum(times) > LONGER * len(times))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("log", type=Path)
    options = parser.parse_args()
    took = seconds(options.log.read_text(encoding="utf-8", errors="replace"))
    if not took:
        parser.error(f"{options.log} lists no durations.")
    names = longer(took)
    LIST.write_text("\n".join(names) + "\n", encoding="utf-8")
    print(f"{len(names)} tests are longer than {LONGER} s.")


if __name__ == "__main__":
    main()
