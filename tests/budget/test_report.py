"""The report for who signs: its facts are those of the ledger, and it quotes no value."""

from __future__ import annotations

import json
import sqlite3

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import skdp
from skdp import PrivacyBudget, statistics
from skdp.exceptions import LedgerError


def report(budget, folder, certificates=()):
    budget.report(folder / "r.html", certificates=certificates)
    return (folder / "r.html").read_text(), json.loads((folder / "r.json").read_text())


@pytest.fixture
def rows():
    return pd.DataFrame(np.random.default_rng(0).normal(size=(400, 2)), columns=["age", "<b>pay"])


def test_it_says_what_the_ledger_says(rows, tmp_path):
    budget = PrivacyBudget(4.0, 1e-5, dataset="a <study>", n_rows=400)
    y = np.where(rows["age"] > 0, "Zurich", "Atlantis")
    with budget:
        pipe = make_pipeline(
            skdp.DPStandardScaler(bounds=(-4, 4), epsilon=0.5),
            FunctionTransformer(feature_names_out="one-to-one"),
            skdp.DPGaussianNB(epsilon=1.0, delta=1e-6),
        ).fit(rows, y)
        mean = statistics.mean(rows, bounds=(-4, 4), epsilon=0.25)
    page, facts = report(budget, tmp_path, {"model": pipe, "mean": mean})
    assert facts["spent"] == {"epsilon": 1.75, "delta": budget.spent.delta}
    assert [c["step"] for c in facts["charges"]] == [
        "model.dpstandardscaler", "model.dpgaussiannb", "mean",
    ]  # fmt: skip
    assert [c["releases"] for c in facts["charges"]] == [list(c.releases) for c in budget.charges]
    scaler, step, model, answer = facts["fits"]
    assert scaler["columns"] == ["age", "<b>pay"] and scaler["bounds"]["age"] == [-4.0, 4.0]
    assert list(model["bounds"]) == ["age", "<b>pay"]  # though it was fitted to an array
    assert not step["private"] and any("FunctionTransformer" in text for text in facts["remarks"])
    assert model["learned"] == ["bounds", "keys, categories or classes"] and answer["charge"] == 3
    assert all(finding["level"] != "wrong" for finding in facts["verified"])
    assert facts["promise"][0].startswith("One row of the table is protected. A person with")
    for text in (page, json.dumps(facts)):  # values of classes are only counted
        assert "Zurich" not in text and "Atlantis" not in text
    assert "<b>" not in page.replace("<b>The ledger is sound.</b>", "") and "<study>" not in page
    assert "<script" not in page and "The ledger is sound." in page


def test_it_tells_what_a_signer_must_know(rows, tmp_path):
    budget = PrivacyBudget(4.0, unit="patient", adjacency="add_or_remove_one")
    with skdp.config_context(noise="seeded"):
        ids = pd.Series(np.arange(400) // 4, name="patient")
        statistics.mean(
            rows, bounds=(-4, 4), groups=ids, epsilon=0.5, budget=budget, random_state=0
        )
    other = skdp.DPStandardScaler(bounds=(-4, 4)).fit(rows)
    _, facts = report(budget, tmp_path, [other])
    assert (
        facts["promise"][0]
        == "Each patient is protected as a whole: all rows of one patient together."
    )
    text = " ".join(facts["remarks"])
    assert "seed" in text and "#1 mean" in text
    assert "Not among the charges of this ledger" in text and "DPStandardScaler" in text


def test_a_changed_ledger_is_not_called_sound(rows, tmp_path):
    budget = PrivacyBudget(4.0, ledger=tmp_path / "l.budget")
    statistics.mean(rows, bounds=(-4, 4), epsilon=0.5, budget=budget)
    with sqlite3.connect(tmp_path / "l.budget") as connection:
        connection.execute("UPDATE charges SET main = '0.25'")
    page, facts = report(budget, tmp_path)
    assert any(finding["level"] == "wrong" for finding in facts["verified"])
    assert "NOT sound" in page


def test_a_ledger_with_a_trigger_is_not_signed(rows, tmp_path):
    """Even if it was made after the budget was opened: it may delete charges as they come."""
    budget = PrivacyBudget(4.0, ledger=tmp_path / "l.budget")
    statistics.mean(rows, bounds=(-4, 4), epsilon=0.5, budget=budget)
    with sqlite3.connect(tmp_path / "l.budget") as connection:
        connection.execute(
            "CREATE TRIGGER t AFTER INSERT ON charges BEGIN DELETE FROM charges; END"
        )
    with pytest.raises(LedgerError, match="triggers"):
        report(budget, tmp_path)


def test_what_is_no_certificate_is_refused(rows, tmp_path):
    budget = PrivacyBudget(4.0)
    with pytest.raises(TypeError, match="got int"):
        report(budget, tmp_path, [3])
    with pytest.raises(ValueError, match="html"):
        budget.report(tmp_path / "r.pdf")
    assert not list(tmp_path.iterdir())


def test_charges_as_a_frame(rows):
    budget = PrivacyBudget(4.0)
    assert budget.to_frame().empty
    for epsilon in (0.5, 0.25):
        statistics.mean(rows, bounds=(-4, 4), epsilon=epsilon, budget=budget)
    frame = budget.to_frame()
    assert frame["epsilon"].tolist() == [0.5, 0.25] and frame.index.tolist() == [1, 2]
    assert frame["estimator"].eq("mean").all() and frame["releases"].eq(1).all()
