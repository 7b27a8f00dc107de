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
from collections.abc import Callable
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "skdp"
# What sees rows or money, from below: a package imports those to its left only.
TRUSTED = ("loss", "budget", "core", "engines", "user_code", "tabular", "queries")
# How much a release may lose, and how losses add up: as much of the core as the noise is.
ACCOUNTING = ("conversions", "accountants", "pld")
BELOW = ("parameters", *TRUSTED, "planning", "base")
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
    """Return the lines of code of each trusted package, and of the accounting by itself."""
    lines: Counter[str] = Counter()
    for path in PACKAGE.rglob("*.py"):
        lines["accounting" if is_accounting(path) else part(path)] += code_lines(path)
    return {name: lines[name] for name in ("accounting", *TRUSTED, *ABOVE)}


def is_accounting(path: Path) -> bool:
    """Say whether a file converts or adds up privacy losses."""
    return part(path) == "loss" and path.stem in ACCOUNTING


def files_of(fit: Callable[[], object]) -> list[str]:
    """Return the trusted files that a fit runs code of; of the budget, only the accounting."""
    found: set[Path] = set()

    def note(frame: object, event: str, argument: object) -> None:
        found.add(Path(frame.f_code.co_filename))

    fit()  # once before: what is imported for the first time runs code of its own
    sys.setprofile(note)
    try:
        fit()
    finally:
        sys.setprofile(None)
    read = set(TRUSTED) - {"loss", "budget"}
    files = [path for path in found if PACKAGE in path.parents]
    return sorted(
        str(path.relative_to(PACKAGE))
        for path in files
        if part(path) in read or is_accounting(path)
    )


def fits() -> dict[str, list[str]]:
    """Return the trusted files of two fits."""
    import warnings

    import numpy as np

    import skdp
    from skdp import statistics

    X = np.random.default_rng(0).normal(size=(500, 5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "`DPPCA`": files_of(lambda: skdp.DPPCA(2, delta=1e-6).fit(X)),
            "a median with stated bounds": files_of(lambda: statistics.median(X, bounds=(-3, 3))),
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
    titles = {"accounting": "`skdp/loss`: " + ", ".join(f"`{name}`" for name in ACCOUNTING)}
    titles |= {"loss": "`skdp/loss`: the rest", "budget": "`skdp/budget`: ledgers and reports"}
    rows = "".join(f"| {titles.get(x, f'`skdp/{x}`')} | {n:,} |\n" for x, n in lines.items())
    everyone = lines["core"] + lines["accounting"]
    return (
        "| package | lines of code |\n|---|---|\n"
        f"{rows}| **core and accounting, which everyone must trust** | **{everyone:,}** |\n"
        f"| **all that sees rows or money** | **{sum(lines.values()):,}** |\n"
        "\nFiles of it that a fit runs, the ledger's left out: "
        + "; ".join(f"{len(files)} for {name}" for name, files in fits().items())
        + ".\n"
    )


def draw(path: Path) -> None:
    """Draw which package imports which, as a table: nothing stands above the diagonal."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np

    names = ["estimators", *reversed(BELOW)]
    files = np.zeros((len(names), len(names)), dtype=int)
    for (one, other), n in imports().items():
        here, there = (x if x in BELOW else "estimators" for x in (one, other))
        if here != there and there != "estimators" and "__init__" not in (one, other):
            files[names.index(here), names.index(there)] += n
    figure, axes = plt.subplots(figsize=(7.2, 4.6))
    axes.imshow(np.log1p(files), cmap="Blues", vmax=2 * np.log1p(files.max()), aspect="auto")
    for i, j in np.argwhere(files):
        axes.text(j, i, files[i, j], ha="center", va="center", fontsize=10)
    axes.set_xticks(range(len(names)), names, rotation=30, ha="right")
    axes.set_yticks(range(len(names)), names)
    for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        label.set_fontweight("bold" if label.get_text() in TRUSTED else "normal")
    axes.set_xlabel("is imported, by so many files")
    axes.set_ylabel("imports")
    axes.set_title(
        "Each package imports those to its right only. Bold: sees rows or money.", size=10
    )
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    figure.savefig(path, bbox_inches="tight")
    plt.close(figure)


def write(folder: Path) -> None:
    """Write the table and the drawing for the documentation."""
    folder.joinpath("trusted_base.inc").write_text(table(), encoding="utf-8")
    draw(folder / "imports.svg")


if __name__ == "__main__":
    sys.stdout.write(table())
