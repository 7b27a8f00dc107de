"""Plant one privacy bug at a time and run the checkers that must catch it.

    python tests/verified/plant.py                  # all of them; exit status 0 or 1
    python tests/verified/plant.py NAME [NAME ...]  # these
    python tests/verified/plant.py --write          # all, and keep the table in mutants.md

The bugs are in `planted_bugs.py`. Each is planted in a process of its own, by the contract's
`mutants.py`: the text of one module is replaced while it is imported.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESULTS = HERE / "mutants.md"
TOOLS = ("bitwuzla", "flint", "z3")

sys.path[:0] = [str(ROOT), str(HERE.parent / "contract")]

import mutants  # noqa: E402  the contract's

from tests.verified.planted_bugs import BUGS  # noqa: E402


def main(arguments: list[str]) -> int:
    """Plant the named bugs, or all; return 0 if each was caught."""
    os.environ["OMP_NUM_THREADS"] = "1"
    names = [one for one in arguments if one != "--write"]
    if unknown := set(names) - {bug.name for bug in BUGS}:
        print("no such bug:", *sorted(unknown))
        return 2
    mutants.MUTANTS = BUGS  # not before: pytest imports this file, too, when it looks for doctests
    mutants.prepare()
    for tool in TOOLS:
        importlib.import_module(tool)
    outcomes = []
    for bug in BUGS:
        if names and bug.name not in names:
            continue
        outcome = mutants.run(bug)
        outcomes.append(outcome)
        print(f"{'caught' if outcome.caught else 'MISSED'} {outcome.seconds:5.1f} s  {bug.name}")
        if not outcome.caught:
            print("   ", *outcome.escaped, "\n", outcome.output[-1500:])
        sys.stdout.flush()
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
