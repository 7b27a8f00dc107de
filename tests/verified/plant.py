"""Plant one privacy bug at a time and run the checkers that must catch it.

    python tests/verified/plant.py                  # all of them; exit status 0 or 1
    python tests/verified/plant.py NAME [NAME ...]  # these
    python tests/verified/plant.py --write          # all, and keep the table in mutants.md

The bugs are in `planted_bugs.py`. Each is planted in a process of its own, by the contract's
`mutants.py`: functions of one module have the code of another text.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESULTS = HERE / "mutants.md"
TOOLS = ("bitwuzla", "flint", "z3")

sys.path[:0] = [str(ROOT), str(HERE.parent / "contract")]

import mutants  # noqa: E402  of the contract

from tests.verified.planted_bugs import BUGS  # noqa: E402


def main(arguments: list[str]) -> int:
    """Plant the named bugs, or all; return 0 if each was caught."""
    names = [one for one in arguments if one != "--write"]
    if unknown := set(names) - {bug.name for bug in BUGS}:
        print("no such bug:", *sorted(unknown))
        return 2
    for tool in TOOLS:
        importlib.import_module(tool)
    outcomes, _ = mutants.run([bug for bug in BUGS if not names or bug.name in names])
    caught = sum(outcome.caught for outcome in outcomes)
    print(f"{caught} of {len(outcomes)} caught")
    if "--write" in arguments:
        RESULTS.write_text(
            f"# Planted bugs\n\n{caught} of {len(outcomes)} caught by the checkers of this folder. "
            f"`python tests/verified/plant.py --write`\n\n{mutants.table(outcomes)}\n",
            encoding="utf-8",
        )
    return int(caught < len(outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
