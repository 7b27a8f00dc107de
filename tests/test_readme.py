"""The code that people copy is run: the Python blocks of the README and of guides with numbers.

The blocks of a page are run in order in one namespace, as a reader runs them, in an empty folder.
All other pages with code are run as the documentation is built (`doc/scripts/outputs.py`).
"""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import skdp
from skdp.base import PrivateMixin

ROOT = Path(__file__).resolve().parents[1]


def blocks(page: str, language: str) -> list[str]:
    """Return the fenced code of a language, in order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)


def run(page: str, n_blocks: int, namespace: dict) -> dict:
    code = blocks(page, "python")
    assert len(code) == n_blocks
    for number, block in enumerate(code):
        exec(compile(block, f"{page}, block {number}", "exec", dont_inherit=True), namespace)
    return namespace


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_readme():
    names = run("README.md", 1, {})
    assert [c.estimator for c in names["budget"].charges] == ["DPStandardScaler", "DPKMeans"]
    assert names["budget"].spent.epsilon == 1.0
    assert names["pipe"][-1].cluster_centers_.shape == (5, 2)
    assert blocks("doc/index.md", "python") == blocks("README.md", "python")


def test_get_started():
    names = run("doc/get_started.md", 6, {})
    assert names["kmeans"].cluster_centers_.shape == (3, 2)
    assert names["price"].epsilon == 2.7  # as the page computes it
    assert names["budget"].spent.epsilon == 2.7


@pytest.mark.slow
def test_accountants(capsys):
    names = run("doc/accountants.md", 4, {})
    said = capsys.readouterr().out.splitlines()
    page = (ROOT / "doc/accountants.md").read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if line.startswith("| 100 pure, ε = 0.1 |"))
    for line in said[:5]:  # the page shows what its code prints
        assert f" {line.split()[1]} " in row
    assert "epsilon=2.77" in said[5]
    assert "# 102 more fits" in page
    assert said[6] == "1.0"  # three parts at the cost of one
    assert said[7] == "102"
    assert names["budget"].accountant == "gdp_residue"


def test_choose_epsilon(capsys):
    run("doc/choose_epsilon.md", 6, {})
    page = (ROOT / "doc/choose_epsilon.md").read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if line.startswith("| right with"))
    for line in capsys.readouterr().out.splitlines()[:6]:  # the page shows what its code prints
        assert f" {line.split()[1]} " in row


def test_sharing_a_ledger():
    names: dict = {}
    exec(compile(blocks("doc/many_hosts.md", "python")[0], "doc/many_hosts.md", "exec"), names)
    (charge,) = names["budget"].charges
    assert charge.note == "Ben, model of readmissions"


def test_users():
    names = run("doc/users.md", 6, {})
    assert names["budget"].spent.epsilon == 5.8  # 4 calls, 7 fits, 6 scores
    assert names["budget"].unit == "user_id"
    assert names["stated"].privacy.max_rows_per_unit == 10
    assert names["kmeans"].max_rows_per_unit_ >= 8
    assert names["search"].best_estimator_.privacy_.unit == "user_id"


def test_evaluating_privately(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run("doc/evaluate.md", 5, {})
    assert names["budget"].spent.epsilon == pytest.approx(2.0)
    low, high = names["auc"].interval()
    assert 0 <= low < high <= 1


def test_preprocessing():
    names = run("doc/preprocessing.md", 3, {})
    assert names["budget"].spent.epsilon == 5.0
    found = names["columns"].get_feature_names_out()
    assert "job__job_infrequent_sklearn" in found
    assert "job__job_beekeeper" not in found


def test_predict():
    names = run("doc/predict.md", 5, {})
    assert names["budget"].spent.epsilon == 2.5


def test_density_ratio():
    names = run("doc/density_ratio.md", 1, {})
    assert names["weights"].shape == (2000,)
    assert names["budget"].spent.epsilon == 0.5
    assert 0 < names["ratio"].noise_std_ < 1
    assert 10 < names["ratio"].effective_sample_size_ < 2000


@pytest.mark.slow
def test_add_an_estimator():
    names: dict = {"__name__": "doc.add_an_estimator"}
    code = "\n".join(blocks("doc/add_an_estimator.md", "python"))
    assert code.count("n_runs=4000") == 1
    exec(compile(code.replace("n_runs=4000", "n_runs=500"), "<page>", "exec", 0, True), names)
    result = names["result"]  # seeded, so the same in every run
    assert result.passed
    assert 0 < result.epsilon_lower <= result.epsilon == 1.0
    # Standard errors of about 0.002 at epsilon = 1.
    np.testing.assert_allclose(names["model"].coef_, [0.5, -0.1], atol=0.05)
    page = (ROOT / "doc/add_an_estimator.md").read_text(encoding="utf-8")
    offered = {*re.findall(r"`(_\w+)`", page.split("to subclasses.")[1].split("All other")[0])}
    used = set(re.findall(r"\b_[a-z]\w+", "".join(blocks("doc/add_an_estimator.md", "python"))))
    assert used - {"_fit"} <= offered <= {*dir(PrivateMixin)}


def test_set_up_is_two_commands():
    commands = "".join(blocks("README.md", "bash")).splitlines()
    assert commands == [
        'python -m pip install ".[examples]" && python examples/plot_private_pipeline.py',
        'python -m pip install ".[test]" && python -m pytest',
    ]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"examples", "test", "doc"} <= project["optional-dependencies"].keys()


@pytest.mark.parametrize("page", ["README.md", "SECURITY.md", "CONTRIBUTING.md", "GOVERNANCE.md"])
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+)", text)
    assert links
    for link in links:
        assert link.startswith("https://") or (ROOT / link).exists(), link


def test_readme_names_every_estimator():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    page = (ROOT / "doc" / "estimators.md").read_text(encoding="utf-8")
    estimators = [name for name in import_module("skdp").__all__ if name.startswith("DP")]
    assert estimators
    for name in estimators:
        assert f"`{name}`" in text
        assert f".{name}` |" in page


@pytest.mark.parametrize(
    "module",
    [
        "",
        ".density_ratio",
        ".ensemble",
        ".neighbors",
        ".quantile",
        ".statistics",
        ".synthetic",
        ".model_selection",
        ".inspection",
        ".audit",
    ],
)
def test_api_page_names_everything_public(module):
    text = (ROOT / "doc" / "api.md").read_text(encoding="utf-8")
    entries = re.findall(r"^   ([A-Za-z_.0-9]+)$", text, flags=re.MULTILINE)
    assert len(entries) == len(set(entries))
    documented = {entry.rpartition(".")[2] for entry in entries}
    names = {name for name in import_module(f"skdp{module}").__all__ if not name.startswith("_")}
    assert names
    assert names <= documented


def test_every_public_name_is_stable_or_experimental():
    page = (ROOT / "doc" / "support.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (Stable|Experimental): [\w, ]+ \| (.*) \|$", page, re.M)
    classes = {name: kind for kind, row in rows for name in re.findall(r"`([\w.]+)`", row)}
    assert len(classes) == sum(row.count("`") for _, row in rows) / 2  # each name stands once
    modules = {f"skdp.{name}": import_module(f"skdp.{name}") for name in skdp._SUBMODULES}
    pages = {name: getattr(module, "__all__", ()) for name, module in modules.items()}
    assert classes.keys() <= pages.keys() | set(skdp.__all__).union(*pages.values())
    for name in {*skdp.__all__}.union(*pages.values()):
        homes = {classes[page] for page in pages.keys() & classes.keys() if name in pages[page]}
        assert len({classes[name]} if name in classes else homes) == 1, (name, homes)
