"""The machine-checked proofs: what PROOFS.md names is proved, of the modules as they are.

Coq and Gappa need not be installed: then the committed result, `proofs/checked.json`, must name the
hashes of the files that stand in the tree.
"""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from proofs import record
from proofs.hashes import ROOT, changed, digests

PAGE = ROOT / "skdp" / "core" / "PROOFS.md"

# Sections that claim pure differential privacy, or what it rests on; each names its theorems.
PURE = {
    "Exact sums", "Sums", "Metering", "Stability", "Units of many rows", "Noise on integers",
    "Exponential mechanism",
}  # fmt: skip


def named(page):
    """Return the theorems that each section of a page names, as `[Coq: File.theorem, ...]`."""
    sections = re.split(r"^## (.+)$", page, flags=re.MULTILINE)[1:]
    return {
        title: [
            theorem
            for names in re.findall(r"\[Coq: ([^\]]+)\]", text)
            for theorem in re.split(r",\s*", names)
        ]
        for title, text in zip(sections[::2], sections[1::2], strict=True)
    }


def missing(page, proved):
    """Return theorems that a page names and no file proves, and sections that name none."""
    found = named(page)
    known = {f"{file}.{name}" for file, names in proved.items() for name in names}
    unknown = {name for names in found.values() for name in names} - known
    return sorted(unknown), sorted(PURE - {title for title, names in found.items() if names})


def test_each_pure_claim_names_its_theorem():
    assert missing(PAGE.read_text("utf-8"), record.proved()) == ([], [])


def test_a_missing_theorem_is_found():
    page, proved = PAGE.read_text("utf-8"), record.proved()
    file, name = record.MAIN[0].split(".")
    proved[file].remove(name)
    assert missing(page, proved) == ([record.MAIN[0]], [])
    section = re.sub(r"\[Coq: (Choice[^\]]+)\]", r"(\1)", page)
    assert missing(section, record.proved()) == ([], ["Exponential mechanism"])
    # A theorem in a comment is none, however deep the comment is.
    text = "(* Theorem a : x. (* Lemma b : y. *) Lemma c : z. *)\nTheorem d : t.\n Corollary e : u."
    assert record.theorems(text) == ["d", "e"]


def test_nothing_is_left_without_a_proof():
    record.check_sources()
    planted = "Lemma x : 1 = 2. Proof. admit. Admitted. Axiom y : False. Parameter z : nat."
    assert record.forbidden(planted) == ["admit", "Admitted", "Axiom", "Parameter"]
    assert record.forbidden("(* Axioms of the reals, (* nothing *) admit *) Qed.") == []


def test_axioms_beyond_the_real_numbers_are_found(capsys):
    real = "Axioms:\nClassical_Prop.classic\n  : forall P : Prop, P \\/ ~ P\n"
    answers = real * (len(record.MAIN) + 1)
    record.check_assumptions(answers)
    assert "Classical_Prop.classic" in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r"more than real numbers: Session\.cheat$"):
        record.check_assumptions(answers + "Session.cheat : False\n")
    with pytest.raises(SystemExit, match="otherwise than expected"):
        record.check_assumptions(real)


def test_the_committed_result_is_about_these_files():
    committed = json.loads(record.RESULT.read_text("utf-8"))
    hashes = committed["hashes"]
    differ = [file for part in hashes.values() for file in changed(part)]
    assert not differ, (
        f"{', '.join(differ)} changed since the proofs were checked. Look whether the theorems "
        "still state what the code does (proofs/README.md), then run proofs/check --write."
    )
    expected = record.result(committed["coq"], committed["gappa"])
    assert committed == expected, "proofs were added or removed: run proofs/check --write"


def test_a_changed_file_is_found(tmp_path):
    (tmp_path / "a.py").write_bytes(b"one\ntwo\n")
    (tmp_path / "b.py").write_bytes(b"one\n")
    before = digests(["a.py", "b.py"], tmp_path)
    (tmp_path / "a.py").write_bytes(b"one\r\ntwo\r\n")
    assert changed(before, tmp_path) == []
    (tmp_path / "a.py").write_bytes(b"one\ntwo \n")
    (tmp_path / "b.py").unlink()
    assert changed(before, tmp_path) == ["a.py", "b.py"]


def reason_to_skip():
    """Say why the provers cannot run here; the committed result is compared with the files then."""
    if not (shutil.which("coqc") and shutil.which("gappa")):
        return "no Coq or no Gappa here: only the committed result was compared with the files"
    here = subprocess.check_output(["coqc", "--print-version"], text=True).split()[0]
    checked = json.loads(record.RESULT.read_text("utf-8"))["coq"]
    # Other versions print otherwise, and may know a lemma under another name.
    if here.split(".")[:2] != checked.split(".")[:2]:
        return f"the proofs are for Coq {checked}, and Coq {here} is here"
    return ""


@pytest.mark.slow
def test_the_provers_confirm_it():
    reason = reason_to_skip()
    if reason:
        pytest.skip(reason)
    before = sorted(record.COQ.parent.rglob("*"))
    environment = {**os.environ, "PYTHON": sys.executable}
    done = subprocess.run(
        [record.COQ.parent / "check"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(record.COQ.parent.rglob("*")) == before
