"""Configuration of the documentation: ``python -m sphinx -W doc doc/_build``."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path
from xml.etree import ElementTree

import joblib
from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

project = "skdp"
author = "The skdp developers"
copyright = f"2026, {author}"  # noqa: A001
about = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
release = about["version"]

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist", "substitution"]
evidence = runpy.run_path(str(ROOT / "doc" / "scripts" / "evidence.py"))
myst_substitutions = evidence["figures"]()
measured = runpy.run_path(str(ROOT / "doc" / "scripts" / "measured.py"))
myst_substitutions["measured"] = measured["measured"]()
myst_heading_anchors = 3

smartquotes = False  # they make default=”basic” of default="basic", which cannot be pasted

html_theme = "pydata_sphinx_theme"
html_title = "skdp"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["skdp.css"]
html_math_renderer = "mathml"
# Nothing lies below these pages, or too many names.
html_sidebars = {page: [] for page in ("index", "get_started", "changelog", "api", "generated/*")}
html_theme_options = {
    "logo": {"text": f"skdp {release}"},
    "navigation_with_keys": False,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "navbar_end": ["theme-switcher", "navbar-icon-links"],
    "header_links_before_dropdown": 7,
}
if "Repository" in about.get("urls", {}):
    html_theme_options["github_url"] = about["urls"]["Repository"]
copybutton_selector = "div:not(.output):not(.sphx-glr-script-out) > div.highlight > pre"
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

autodoc_typehints = "none"  # the docstrings say types, shapes and units
autosummary_generate = True
autosummary_context = {
    "links": runpy.run_path(str(ROOT / "doc" / "scripts" / "links.py"))["links"]()
}
toc_object_entries_show_parents = "hide"  # "fit()", which fits the margin, not "DPKMeans.fit()"
numpydoc_show_class_members = False  # the template lists them

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "copyfile_regex": r"index\.rst",  # the sections of the gallery
    "backreferences_dir": "generated/examples",  # which example uses what
    "doc_module": ("skdp",),
    "download_all_examples": False,
    "show_signature": False,
    "parallel": joblib.cpu_count() if joblib.cpu_count() > 1 else False,
}

# The tables that the scripts of doc/benchmarks/ printed when they were last run by hand.
tables = []
for result in sorted((ROOT / "doc" / "benchmarks" / "results").glob("*.txt")):
    # A path that begins with a slash is one from the folder of this file.
    include = f"```{{literalinclude}} /benchmarks/results/{result.name}\n:language: text\n```\n"
    tables.append(f"## {result.stem.replace('_', ' ')}\n\n{include}")
(ROOT / "doc" / "generated").mkdir(exist_ok=True)
(ROOT / "doc" / "generated" / "tables.inc").write_text("\n".join(tables), encoding="utf-8")
GENERATED = ROOT / "doc" / "generated"
runpy.run_path(str(ROOT / "doc" / "scripts" / "house.py"))["write"](GENERATED)
evidence["write"](GENERATED)
# Runs beside the gallery; the first page that is read waits for it.
outputs = ROOT / "doc" / "scripts" / "outputs.py"
running = subprocess.Popen([sys.executable, str(outputs), str(GENERATED)])


def _show_outputs(app: Sphinx, page: str, source: list[str]) -> None:
    """Put beneath each block of Python what it gives."""
    if running.wait():
        raise RuntimeError("the code of a page failed")
    source[0] = runpy.run_path(str(outputs))["insert"](page, source[0], GENERATED)


def _literal_names(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list):
    """Make ``n_features_in_`` in a shape a name; reStructuredText would take it for a link.

    Inherited texts of scikit-learn refer to labels of its own pages: names, too.
    """
    for number, line in enumerate(lines):
        if getattr(obj, "__module__", "").startswith("sklearn."):
            line = re.sub(
                r":(?:ref|term):`(?:([^`<]+?) *<[\w-]+>|([\w-]+))`",
                lambda m: m[1] or f"``{m[2]}``",
                line,
            )
        lines[number] = re.sub(
            r"(?<=of shape \()[^)`]*(?=\))", lambda m: re.sub(r"\b\w+_\b", r"``\g<0>``", m[0]), line
        )


def _is_no_text(app: Sphinx, what: str, name: str, obj: object, *_: object) -> bool | None:
    """Leave out fields of named tuples and types, whose texts are Python's own."""
    return True if type(obj).__name__ == "_tuplegetter" or name == "dtype" else None


def _public_signature(
    app: Sphinx, what: str, name: str, obj: object, _: object, text: str, to: str
):
    """Leave private parameters and the names of default factories out of a signature."""
    return text and re.sub(r", _\w+=\w+", "", text.replace("=<factory>", "=...")), to


# latex2mathml takes some signs for letters and does not say which of two bars opens.
BARS = {r"\lvert": "\ue000", r"\rvert": "\ue001", r"\lVert": "\ue002", r"\rVert": "\ue003"}
OPENING = {"\ue000": "|", "\ue002": "‖", "⌊": "⌊", "⌈": "⌈", "(": "(", "[": "["}
CLOSING = {"\ue001": "|", "\ue003": "‖", "⌋": "⌋", "⌉": "⌉", ")": ")", "]": "]"}
RELATIONS = set("=<>≤≥∝∈→≈⪯⪰")
SIGNED = RELATIONS | set(OPENING.values()) | {","}  # a minus after these is a sign


def _mathml(tex: str, display: str = "inline") -> ElementTree.Element:
    """MathML of a formula, with the kinds and spaces of signs that the converter leaves out."""
    for command, char in BARS.items():
        tex = tex.replace(command, f"{char} ")
    xml = convert(tex, display=display).replace(' xmlns="http://www.w3.org/1998/Math/MathML"', "")
    math = ElementTree.fromstring(xml)
    for parent in math.iter():
        row = list(parent)
        for before, sign, after in zip([None, *row], row, [*row[1:], None], strict=False):
            text = sign.text or ""
            if sign.tag not in ("mi", "mo"):
                continue
            if text in OPENING or text in CLOSING:
                sign.tag = "mo"
                sign.text = (OPENING | CLOSING)[text]
                sign.set("form", "prefix" if text in OPENING else "postfix")
                sign.attrib.setdefault("stretchy", "false")
            elif text in RELATIONS or text in "/±":
                sign.tag = "mo"
                if text == "/":
                    sign.attrib |= {"lspace": "0em", "rspace": "0em"}
            elif text in "∞…":
                sign.tag = "mi"
            elif text in "+−±" and (before is None or before.text in SIGNED):
                sign.attrib |= {"form": "prefix"}
            elif len(text) > 1 and text.isalpha():  # log, max
                sign.tag = "mo"
                left = before is not None and before.tag != "mo"
                right = after is not None and after.text not in ("(", ")")
                sign.attrib |= {"lspace": f"{left * 0.17}em", "rspace": f"{right * 0.17}em"}
        for script in parent[1:] if parent.tag in ("msub", "msup", "msubsup") else ():
            for prime in script.iterfind(".//mi[.='′']"):
                prime.set("mathsize", "150%")  # hardly seen where there is no font for formulas
    return math


def _html(math: ElementTree.Element) -> str:
    return ElementTree.tostring(math, encoding="unicode", short_empty_elements=False)


def _size(parts: list[ElementTree.Element]) -> int:
    return sum(len("".join(part.itertext())) for part in parts)


def _cut(parts: list[ElementTree.Element], signs: set[str], within: bool) -> list[list]:
    """Cut a row after signs, also within brackets or not; no piece is very short."""
    pieces, depth = [[]], 0
    for place, part in enumerate(parts):
        pieces[-1].append(part)
        for sign in part.iter("mo"):
            depth += sign.get("form") == "prefix" and sign.text in OPENING.values()
            depth -= sign.get("form") == "postfix"
        after = part.text in signs and part.tag == "mo" and part.get("form") != "prefix"
        long = min(_size(pieces[-1]), _size(parts[place + 1 :])) > 5
        if after and long and (within or not depth):
            part.set("form", "infix")
            pieces.append([])
    return pieces


def _inline_math(writer: nodes.NodeVisitor, node: nodes.math) -> None:
    """Write MathML, which browsers draw without a script, also where there is no internet.

    No browser breaks it, so a formula that is long on a telephone is written as several.
    """
    pieces = [list(_mathml(node.astext())[0])]
    signs = set("+−,")
    for most, cuts in (15, (RELATIONS, False)), (36, (signs, False)), (36, (signs, True)):
        cut = [_cut(piece, *cuts) if _size(piece) > most else [piece] for piece in pieces]
        pieces = list(chain.from_iterable(cut))
    rows = []
    for piece in pieces:
        math = ElementTree.Element("math")
        ElementTree.SubElement(math, "mrow").extend(piece)
        rows.append(_html(math))
    writer.body.append("<wbr>".join(rows))
    raise nodes.SkipNode


def _block_math(writer: nodes.NodeVisitor, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="formula">{_html(_mathml(node.astext(), "block"))}</div>')
    raise nodes.SkipNode


def _keep_together(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Put a formula and what touches it, as in "($x$)-th", into one span, which is not broken."""
    for math in list(doctree.findall(nodes.math)):
        parent, span = math.parent, nodes.inline(classes=["formula"])
        place = parent.index(math)
        parent[place] = span
        span += math
        if place and isinstance(parent[place - 1], nodes.Text):
            text = parent[place - 1].astext()
            touching = re.search(r"\S*\Z", text)[0]
            parent[place - 1] = nodes.Text(text[: len(text) - len(touching)])
            span.insert(0, nodes.Text(touching))
        if place + 1 < len(parent) and isinstance(parent[place + 1], nodes.Text):
            text = parent[place + 1].astext()
            touching = re.match(r"\S*", text)[0]
            parent[place + 1] = nodes.Text(text[len(touching) :])
            span += nodes.Text(touching)


def setup(app: Sphinx) -> None:
    """Called by Sphinx; 400 is before numpydoc."""
    app.add_html_math_renderer("mathml", (_inline_math, None), (_block_math, None))
    app.connect("source-read", _show_outputs)
    app.connect("doctree-resolved", _keep_together)
    app.connect("autodoc-process-docstring", _literal_names, priority=400)
    app.connect("autodoc-skip-member", _is_no_text)
    app.connect("autodoc-process-signature", _public_signature)
