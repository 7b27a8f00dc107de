"""Configuration of the documentation: ``python -m sphinx -W doc doc/_build``."""

from __future__ import annotations

import re
import runpy
import sys
import tomllib
from pathlib import Path

import joblib
from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

project = "skdp"
author = "The skdp developers"
copyright = f"2026, {author}"  # noqa: A001
release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_templates", "auto_examples/GALLERY_HEADER.rst"]
templates_path = ["_templates"]
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 3

html_theme = "pydata_sphinx_theme"
html_title = "skdp"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["skdp.css"]
html_math_renderer = "mathml"
html_sidebars = {"get_started": []}  # nothing lies below it
html_theme_options = {
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "navbar_end": ["theme-switcher"],
}

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
runpy.run_path(str(ROOT / "doc" / "scripts" / "house.py"))["write"](ROOT / "doc" / "generated")


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


def _inline_math(writer: nodes.NodeVisitor, node: nodes.math) -> None:
    """Write MathML, which browsers draw without a script, also where there is no internet."""
    writer.body.append(convert(node.astext()))
    raise nodes.SkipNode


def _block_math(writer: nodes.NodeVisitor, node: nodes.math_block) -> None:
    writer.body.append(f"<div>{convert(node.astext(), display='block')}</div>")
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Called by Sphinx; 400 is before numpydoc."""
    app.add_html_math_renderer("mathml", (_inline_math, None), (_block_math, None))
    app.connect("autodoc-process-docstring", _literal_names, priority=400)
