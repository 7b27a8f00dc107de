"""Count the trusted code and draw which package imports which; the documentation runs this.

``python doc/scripts/house.py`` prints the figures; ``write(folder)`` leaves ``trusted_base.inc``
and ``imports.svg`` there. Lines of code hold a token of code: no comment, no docstring.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "skdp"
# What sees rows or money, from below: a package imports those to its left only.
TRUSTED = ("budget", "core", "engines", "tabular", "user_code", "queries")
BELOW = (*TRUSTED, "planning", "base")
# Says which rows are whose, above the estimators: a wrong line of it breaks the promise, too.
ABOVE = ("sql",)


def code_lines(path: Path) -> int:
    """Return the number of lines of a file that hold code."""
    source = path.read_text(encoding="utf-8")
    documented: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            documented.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    silent = {
        tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
        tokenize.ENDMARKER,
    }  # fmt: skip
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in silent:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - documented)


def trusted_base() -> dict[str, int]:
    """Return the lines of code of each trusted package."""
    return {
        name: sum(map(code_lines, (PACKAGE / name).rglob("*.py"))) for name in (*TRUSTED, *ABOVE)
    }


def part(path: Path) -> str:
    """Return the package or module of skdp that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports() -> Counter[tuple[str, str]]:
    """Return how many files of one package import from another."""
    found: Counter[tuple[str, str]] = Counter()
    for path in PACKAGE.rglob("*.py"):
        here = part(path)
        there = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("skdp."):
                there.add(node.module.split(".")[1])
        found.update((here, name) for name in there if name != here)
    return found


def table() -> str:
    """Return the figures as a table in Markdown."""
    lines = trusted_base()
    rows = "".join(f"| `skdp/{name}` | {n:,} |\n" for name, n in lines.items())
    return (
        "| package | lines of code |\n|---|---|\n"
        f"{rows}| **the core, which everyone must trust** | **{lines['core']:,}** |\n"
        f"| **all that sees rows or money** | **{sum(lines.values()):,}** |\n"
    )


def draw(path: Path) -> None:
    """Draw the packages in layers, and arrows for what imports what."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    groups: Counter[tuple[str, str]] = Counter()
    for (one, other), n in imports().items():
        pair = tuple(x if x in BELOW else "estimators and functions" for x in (one, other))
        listed = not {"__init__", "exceptions"} & {one, other}
        if pair[0] != pair[1] and pair[1] in BELOW and listed:
            groups[pair] += n
    names = [*BELOW, "estimators and functions"]
    place = {name: i for i, name in enumerate(names)}
    figure, axes = plt.subplots(figsize=(7.5, 5.5))
    for (one, other), n in groups.items():
        bend = 0.25 if place[one] - place[other] == 1 else 0.45
        axes.annotate(
            "", xy=(0, place[other] + 0.12), xytext=(0, place[one] - 0.12),
            arrowprops={"arrowstyle": "->", "color": "#888", "lw": 0.6 + n / 12,
                        "connectionstyle": f"arc3,rad={bend}"},
        )  # fmt: skip
    for name, y in place.items():
        face = "#cfe3f5" if name in TRUSTED else "#eeeeee"
        box = {"boxstyle": "round,pad=0.4", "facecolor": face, "edgecolor": "#666"}
        axes.text(0, y, name, ha="center", va="center", bbox=box, fontsize=11)
    axes.set(xlim=(-1.6, 1.6), ylim=(-0.6, len(names) - 0.4))
    axes.axis("off")
    axes.set_title(
        "Arrows: imports, thicker where more files do. Blue: sees rows or money.", size=9
    )
    figure.savefig(path, bbox_inches="tight")
    plt.close(figure)


def write(folder: Path) -> None:
    """Write the table and the drawing for the documentation."""
    folder.joinpath("trusted_base.inc").write_text(table(), encoding="utf-8")
    draw(folder / "imports.svg")


if __name__ == "__main__":
    sys.stdout.write(table())
