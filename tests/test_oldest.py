"""The oldest versions that are tested are those that pyproject.toml allows."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import skdp

ROOT = Path(__file__).resolve().parents[1]
PINNED = ROOT / ".ci" / "oldest.txt"


def allowed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = (one for name in ("polars", "sql") for one in project["optional-dependencies"][name])
    found = (re.match(r"([\w-]+)(?:\[.*\])?>=([\d.]+)", one) for one in
             [*project["dependencies"], *extras])  # fmt: skip
    return {one[1]: one[2] for one in found if one}


def test_what_is_installed_is_allowed():
    """A package of these that is not installed is an extra."""
    for name in ("numpy", "scipy", "scikit-learn", "joblib"):
        have, least = (
            tuple(map(int, re.findall(r"\d+", version)[:2]))
            for version in (metadata.version(name), allowed()[name])
        )
        assert have >= least, name


def test_the_pinned_versions_are_the_oldest():
    if not PINNED.exists():
        pytest.skip("no checkout: the list is beside the scripts of CI")
    least = allowed()
    for line in PINNED.read_text(encoding="utf-8").split():
        name, _, version = line.partition("==")
        assert version.split(".")[: least[name].count(".") + 1] == least[name].split("."), line


def test_the_version_is_the_same_everywhere():
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    version = whole["project"]["version"]
    command = [sys.executable, "-m", "skdp"]
    told = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert told.stdout == f"skdp {skdp.__version__}\n" == f"skdp {version}\n"
    report = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert re.search(rf"^numpy +{re.escape(metadata.version('numpy'))}$", report, re.M)
    for path in (ROOT / "CITATION.cff", ROOT / "conda" / "meta.yaml"):
        if path.exists():  # not beside the wheel
            (other,) = re.findall(r'^ *version: "?([^"\n]+)', path.read_text("utf-8"), re.M)
            assert other == version, path.name


def test_the_conda_recipe_needs_what_pyproject_does():
    recipe = ROOT / "conda" / "meta.yaml"
    if not recipe.exists():
        pytest.skip("no checkout: the recipe is not in the wheel")
    text = recipe.read_text(encoding="utf-8")
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = whole["project"]
    run = re.search(r"  run:\n((?:    - .*\n)+)", text)
    host = re.search(r"  host:\n((?:    - .*\n)+)", text)
    assert run is not None and host is not None
    needed = [one.replace(" ", "") for one in re.findall(r"- (.*)", run[1])]
    assert needed == [f"python{project['requires-python']}", *project["dependencies"]]
    for built in whole["build-system"]["requires"]:
        assert built in [one.replace(" ", "") for one in re.findall(r"- (.*)", host[1])]
    assert f"summary: {project['description']}" in text
