"""The machine-checked proofs: what PROOFS.md names is proved, of the modules as they are.

Coq and Gappa need not be installed: then the committed result, `proofs/checked.json`, must name the
hashes of the files that stand in the tree.
"""

import importlib
import json
import os
import pkgutil
import re
import runpy
import shutil
import subprocess
import sys

import pytest

import skdp
from proofs import record
from proofs.hashes import ROOT, changed, digests
from skdp.core.query import Choice, Derived, Measurement, Query, reviewed_types
from skdp.loss.accountants import ACCOUNTANTS

PAGE = ROOT / "skdp" / "core" / "PROOFS.md"

# The theorems that each section of the page names, in this order. Who adds or removes one changes
# this table too, so that no claim loses its theorem unnoticed.
EXPECTED = {
    "Exact sums": (
        "Sums.total_order", "Sums.total_chunks", "Sums.clip_bound", "Sums.box_norm",
    ),
    "Sums": (
        "KNorm.cube_dp", "Stability.total_moves_parts",
        "Sums.sum_L1_A", "Sums.sum_L1_R", "Sums.sum_L2_A", "Sums.sum_L2_R", "Queries.sum_well",
        "Sums.with_count_bound", "Sums.with_count_replaced", "Queries.mean_well",
        "Sums.free_count",
    ),
    "Metering": (
        "Session.shares_fit", "Privacy.filter_dp", "Session.session_of_queries_dp",
        "Session.squares_fit", "Curves.filter_within",
    ),
    "Stability": (
        "Views.in_place_stable", "Views.one_row_more_stable", "Views.filtered_stable_R",
        "Views.filtered_stable_A", "Views.kept_rows_stable_R", "Views.kept_rows_stable_A",
        "Stability.moved_by", "Stability.total_moves_L1", "Stability.total_moves_L2",
        "Stability.score_moves", "Stability.unit_in_steps", "Stability.unit_dp",
        "Privacy.group_dp",
    ),
    "Units of many rows": (
        "Views.bounded_R", "Views.bounded_A", "Queries.rows_per_unit_well",
        "Views.chosen_first_dp_R", "Views.chosen_first_dp_A",
    ),
    "Noise on integers": (
        "Laplace.laplace_dp", "Laplace.noise_mass_1", "Laplace.kept_is_lap", "KNorm.k_norm_dp",
        "KNorm.cube_dp", "KNorm.k_noise_mass_1", "Sums.shortened_L1", "Sums.shortened_L2",
        "KNorm.shortened_parts",
    ),
    "Exponential mechanism": (
        "Choice.choice_dp", "Choice.choices_dp", "Choice.choice_ratio",
    ),
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
    """Return theorems that a page names and no file proves, and sections with unexpected names."""
    found = {title: tuple(names) for title, names in named(page).items() if names}
    known = {f"{file}.{name}" for file, names in proved.items() for name in names}
    unknown = {name for names in found.values() for name in names} - known
    titles = found.keys() | EXPECTED.keys()
    return sorted(unknown), sorted(t for t in titles if found.get(t) != EXPECTED.get(t))


def test_each_pure_claim_names_its_theorems():
    assert missing(PAGE.read_text("utf-8"), record.proved()) == ([], [])


def test_each_query_that_is_no_sum_says_why():
    for module in pkgutil.walk_packages(skdp.__path__, "skdp."):
        if module.name.startswith(("skdp.core", "skdp.queries")):
            importlib.import_module(module.name)
    kinds = Query | Choice | Measurement | Derived
    names = {kind.__name__ for kind in reviewed_types() if issubclass(kind, kinds)} - {"RowSum"}
    text = PAGE.read_text("utf-8").partition("## Queries of other types")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(names)
    assert len(names) <= 28
    assert sum(issubclass(kind, Measurement) for kind in reviewed_types()) <= 18


def test_each_proof_names_its_code_its_tests_and_a_bug_that_they_catch(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tests" / "contract")
    planted = importlib.import_module("planted").MUTANTS
    bugs = importlib.import_module("tests.verified.planted_bugs").BUGS
    evidence = runpy.run_path(str(ROOT / "doc" / "scripts" / "evidence.py"))
    caught = {bug.name: {test.partition("::")[0] for test in bug.tests} for bug in planted + bugs}
    assert {*evidence["PAGES"]} == {*(ROOT / "skdp").rglob("*.md")}
    claims = []
    for page in evidence["PAGES"]:
        assert evidence["claims"](page), page
        claims += evidence["claims"](page)
    for claim in claims:
        assert ". " not in claim.text, "a claim is one sentence"
        assert [name for name in claim.code + claim.tests if not (ROOT / name).exists()] == []
        for bug in claim.bugs:
            tests = {name if "/" in name else f"tests/contract/{name}" for name in caught[bug]}
            assert tests & {*claim.tests}, f"{claim.title}: its tests do not catch {bug!r}"
    code = {ROOT / name for claim in claims for name in claim.code}
    files = [
        f for part in ("core", "loss", "queries") for f in (ROOT / "skdp" / part).rglob("*.py")
    ]
    unnamed = [f for f in files if f.name != "__init__.py" and not code & {f, f.parent}]
    assert unnamed == [], "no claim is about these files"
    titles = " ".join(claim.title for claim in claims)
    assert [name for name in ACCOUNTANTS if f'"{name}"' not in titles] == []


def test_no_page_types_a_figure_of_the_checkers():
    figures = runpy.run_path(str(ROOT / "doc" / "scripts" / "evidence.py"))["figures"]()
    pages = [*(ROOT / "doc").glob("*.md"), *ROOT.glob("*.md"), ROOT / "tests/verified/README.md"]
    texts = {page.name: page.read_text("utf-8") for page in pages if page.name != "CHANGELOG.md"}
    large = [number for number in figures.values() if "," in number]
    assert [(page, n) for page, text in texts.items() for n in large if n in text] == []
    named = {name for text in texts.values() for name in re.findall(r"\{\{ (\w+) \}\}", text)}
    assert "neighbours_pairs" in named
    assert named <= figures.keys()


def test_a_missing_theorem_is_found():
    page, proved = PAGE.read_text("utf-8"), record.proved()
    file, name = record.MAIN[0].split(".")
    proved[file].remove(name)
    assert missing(page, proved) == ([record.MAIN[0]], [])
    # One tag of a section that has others, and all tags of a section.
    one = page.replace("[Coq: Choice.choice_ratio]", "")
    assert missing(one, record.proved()) == ([], ["Exponential mechanism"])
    section = re.sub(r"\[Coq: (Choice[^\]]+)\]", r"(\1)", page)
    assert missing(section, record.proved()) == ([], ["Exponential mechanism"])
    other = page + "\n## Another section\n[Coq: Choice.choice_dp]\n"
    assert missing(other, record.proved()) == ([], ["Another section"])
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


def test_the_committed_statements_are_complete():
    text = record.STATEMENTS.read_text("utf-8")
    hashes = json.loads(record.RESULT.read_text("utf-8"))["hashes"]["statements"]
    assert hashes == digests([record.STATEMENTS])
    assert record.unstated(text) == []
    for name in record.MAIN:
        command, statement = f"Check @{name}.", f"{name}\n     : forall"
        assert statement in text
        assert record.unstated(text.replace(command, "")) == [command]
    # The definitions that the main theorems are about, down to the noise.
    for name in (
        "Privacy.dp", "Session.asks_queries", "Session.asked", "Session.session", "Session.opened",
        "Session.mechanism", "Queries.well", "Queries.answer", "Stability.near", "Laplace.lap",
        "KNorm.k_noise", "KNorm.density", "Choice.choose", "Views.unit_replaced",
    ):  # fmt: skip
        assert f"Print {name}." in record.statement_questions()


def test_statements_stand_below_their_names():
    commands = record.statement_questions()
    printed = "".join(
        f"thing {i} = \n1 + {i}\n\nArguments thing d%nat_scope\n  f\n{record.BREAK}"
        for i in range(len(commands))
    )
    text = record.statements(printed)
    assert text.startswith(f"{commands[0]}\nthing 0 =\n1 + 0\n\n{commands[1]}\nthing 1 =\n1 + 1\n")
    assert record.unstated(text) == []
    with pytest.raises(SystemExit, match="another number of statements"):
        record.statements(printed.replace(record.BREAK, "", 1))


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
