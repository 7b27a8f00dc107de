"""Read what each proof says of itself: its claim, the code, the tests, and the planted bugs.

A proof begins with its heading and a quotation: the claim in one sentence, then a paragraph
``Code: ... Tests: ... Planted bug: ...``. ``write(folder)`` leaves the table of all of them in
``evidence.inc``, for "How we know"; `tests/test_proofs.py` compares them with the repository.
`figures` are what the checkers of `tests/verified` have counted, for any page.
"""

from __future__ import annotations

import json
import re
import runpy
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *(ROOT / "skdp" / package / "PROOFS.md" for package in ("core", "loss", "sql")),
    *sorted((ROOT / "skdp" / "queries").glob("*.md")),
]
_CLAIM = re.compile(r"^(#{1,3}) (.+)\n\n((?:>.*\n)+)", re.MULTILINE)


class Claim(NamedTuple):
    """What stands at the head of a proof."""

    title: str
    text: str
    code: list[str]
    tests: list[str]
    bugs: list[str]
    theorems: list[str]  # of Coq, named before the next heading


def claims(page: Path) -> list[Claim]:
    """Return the claims of a page of proofs."""
    text, found = page.read_text(encoding="utf-8"), []
    for match in _CLAIM.finditer(text):
        quoted = re.sub(r"^> ?", "", match[3], flags=re.MULTILINE)
        claim, reference = (re.sub(r"\s+", " ", one).strip() for one in quoted.split("\n\n"))
        parts = re.fullmatch(r"Code: (.+)\. Tests: (.+)\. Planted bugs?: (.+)\.", reference)
        assert parts, f"{page.name}, {match[2]}: not 'Code: ... Tests: ... Planted bug: ...'"
        proof = re.split(rf"^#{{1,{len(match[1])}}} ", text[match.end() :], flags=re.MULTILINE)[0]
        theorems = ",".join(re.findall(r"\[Coq: ([^\]]+)\]", proof))
        found.append(
            Claim(
                match[2],
                claim,
                re.findall(r"`([^`]+)`", parts[1]),
                re.findall(r"`([^`]+)`", parts[2]),
                re.findall(r"“([^”]+)”", parts[3]),
                re.findall(r"[\w.]+", theorems),
            )
        )
    return found


def table() -> str:
    """Return all claims as a table in Markdown."""
    lines = ["| claim, and bugs that its tests catch | code, tests, checkers |", "|---|---|"]
    for claim in (claim for page in PAGES for claim in claims(page)):
        anchor = re.sub(r"[^\w\- ]", "", claim.title.lower()).replace(" ", "-")
        checkers = [f"`{Path(test).stem}`" for test in claim.tests if "/verified/" in test]
        if claim.theorems:
            checkers.insert(0, f"Coq ({len(claim.theorems)})")
        tests = [f"`{Path(test).stem}`" for test in claim.tests if "/verified/" not in test]
        code = [f"`{file.removeprefix('skdp/')}`" for file in claim.code]
        left = f"**[{claim.title}](proofs.md#{anchor})**: {claim.text}<br>*Planted: "
        right = f"{', '.join(code)}<br>*Tests*: {', '.join(tests)}<br>*Checkers*: "
        lines.append(f"| {left}{'; '.join(claim.bugs)}* | {right}{', '.join(checkers) or 'none'} |")
    return "\n".join(lines) + "\n"


def figures() -> dict[str, str]:
    """Return numbers for the pages, as ``{{ name }}``: of planted bugs, and of what was checked."""
    contract, verified = ROOT / "tests" / "contract", ROOT / "tests" / "verified"
    sys.path.insert(0, str(contract))
    planted = runpy.run_path(str(contract / "planted.py"))["MUTANTS"]
    verified_bugs = runpy.run_path(str(verified / "planted_bugs.py"))["BUGS"]
    sys.path.remove(str(contract))
    counted = {"planted_bugs": len(planted), "verified_bugs": len(verified_bugs)}
    checkers = json.loads((verified / "checked.json").read_text(encoding="utf-8"))["checkers"]
    for file, checker in checkers.items():
        for test in checker["passed"].values():
            for what, number in test.items():
                name = f"{file.removeprefix('test_').removesuffix('.py')}_{what}"
                counted[name] = counted.get(name, 0) + number
    return {name: f"{number:,}" for name, number in counted.items() if isinstance(number, int)}


def write(folder: Path) -> None:
    """Write the table, and a list of all pages of proofs, for the documentation."""
    folder.joinpath("evidence.inc").write_text(table(), encoding="utf-8")
    # A path that begins with a slash is one from the folder of conf.py.
    names = [f"/../{page.relative_to(ROOT)}" for page in PAGES]
    pages = [f"```{{include}} {name}\n:heading-offset: 1\n```\n" for name in names]
    folder.joinpath("proofs.inc").write_text("\n".join(pages), encoding="utf-8")


if __name__ == "__main__":
    print(table())
