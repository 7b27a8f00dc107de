"""Run the Python of the guides and show beneath each block what it gives.

``python doc/scripts/outputs.py FOLDER`` runs the blocks of each page in order, as readers do, and
writes ``outputs.json`` and figures to the folder. A page whose code has not changed keeps its
outputs. ``insert`` puts them into the text of a page.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import io
import json
import os
import re
import sys
import tempfile
import warnings
from pathlib import Path

DOC = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
FIRST_BLOCKS = {"many_hosts": 1, "add_an_estimator": 0}  # the rest needs a server, or a minute
MOST_LINES = 24


def value_of(code: str, namespace: dict) -> None:
    """Run a block; print every expression that stands alone, as an interpreter does."""
    for node in ast.parse(code).body:
        if not isinstance(node, ast.Expr):
            exec(compile(ast.Module([node], []), "<block>", "exec", dont_inherit=True), namespace)
            continue
        value = eval(compile(ast.Expression(node.value), "<block>", "eval"), namespace)
        values = [value] if len(repr(value)) < 88 or not isinstance(value, tuple) else value
        for one in values:
            text = repr(one)
            # No fitted estimators, no objects that are drawn, nothing that fills a page.
            if one is not None and not hasattr(one, "fit") and text[0] != "<" and len(text) < 1500:
                print(text.replace(f"{Path.cwd()}/", ""))


def run(page: Path, folder: Path) -> list[dict]:
    """Return what each block of a page gives: its text, and the names of its figures."""
    import matplotlib.pyplot as plt

    namespace: dict = {"__name__": f"doc.{page.stem}"}
    given = []
    for number, code in enumerate(BLOCK.findall(page.read_text("utf-8"))):
        text, figures = io.StringIO(), []
        if number < FIRST_BLOCKS.get(page.stem, number + 1):
            try:
                with contextlib.redirect_stdout(text):
                    value_of(code, namespace)
            except Exception as error:
                error.add_note(f"{page.name}, block {number}")
                raise
        for figure in plt.get_fignums():
            figures.append(f"{page.stem}_{number}_{figure}.png")
            plt.figure(figure).savefig(folder / figures[-1], dpi=100, bbox_inches="tight")
        plt.close("all")
        lines = [line.rstrip() for line in text.getvalue().strip("\n").splitlines()]
        if len(lines) > MOST_LINES:
            lines[MOST_LINES - 1 :] = ["..."]
        given.append({"text": "\n".join(lines), "figures": figures})
    return given


def main(folder: Path) -> None:
    """Run the pages whose code has changed."""
    import numpy as np
    import pandas as pd

    warnings.simplefilter("ignore")
    np.set_printoptions(legacy="1.25", linewidth=88, precision=4)
    pd.set_option("display.expand_frame_repr", False, "display.max_columns", 7)
    pd.set_option("display.max_rows", 12, "display.precision", 4)
    path = folder.resolve() / "outputs.json"
    known = json.loads(path.read_text("utf-8")) if path.exists() else {}
    pages = {}
    for page in sorted(DOC.glob("*.md")):
        code = "".join(BLOCK.findall(page.read_text("utf-8")))
        key = hashlib.sha256(code.encode()).hexdigest()
        if not code:
            continue
        pages[page.stem] = known.get(page.stem)
        if not pages[page.stem] or pages[page.stem]["key"] != key:
            with tempfile.TemporaryDirectory() as empty, contextlib.chdir(empty):
                pages[page.stem] = {"key": key, "given": run(page, path.parent)}
    path.write_text(json.dumps(pages, indent=1), encoding="utf-8")


def insert(page: str, text: str, folder: Path) -> str:
    """Return the text of a page with the output beneath each block."""
    known = json.loads((folder / "outputs.json").read_text("utf-8"))
    given = iter(known[page]["given"] if page in known else [])

    def beneath(match: re.Match) -> str:
        output = next(given)
        shown = match[0]
        if output["text"]:
            shown += f"\n```{{code-block}} text\n:class: output\n{output['text']}\n```\n"
        return shown + "".join(f"\n![What this draws](generated/{x})\n" for x in output["figures"])

    return BLOCK.sub(beneath, text) if page in known else text


if __name__ == "__main__":
    os.environ.setdefault("MPLBACKEND", "Agg")
    main(Path(sys.argv[1]))
