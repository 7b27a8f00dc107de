"""What the Coq files prove, and the committed result that says so.

`proofs/check` runs this beside the provers; `tests/test_proofs.py` uses it where there is none.
Standard library only.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from proofs.hashes import ROOT, digests

__all__ = [
    "MAIN", "MODULES", "ORDER", "RESULT", "STATEMENTS", "TABLE", "forbidden", "result",
    "statement_questions", "theorems", "unstated",
]  # fmt: skip

COQ = ROOT / "proofs" / "coq"
GAPPA = ROOT / "proofs" / "gappa"
RESULT = ROOT / "proofs" / "checked.json"
TABLE = ROOT / "proofs" / "table.txt"
STATEMENTS = ROOT / "proofs" / "statements.txt"

# The Coq files, each after those that it needs.
ORDER = (
    "Sums", "Privacy", "Curves", "Laplace", "Choice", "KNorm", "Stability", "Queries", "Session",
    "Views", "Table",
)  # fmt: skip

# What the others lead to.
MAIN = (
    "Session.session_of_queries_dp",
    "Session.session_of_queries_event",
    "Views.chosen_first_dp_R",
    "Views.chosen_first_dp_A",
)

# The modules of which a proof restates a function: who changes one looks whether the statement is
# still about the same function. Not among them: `noise.exact` and `noise.entropy`, the conversions
# and amounts of `skdp.budget`. No theorem restates anything of theirs.
MODULES = (
    "skdp/core/clipping.py",
    "skdp/core/mechanisms.py",
    "skdp/core/noise/additive.py",
    "skdp/core/noise/deviates.py",
    "skdp/core/noise/exponential.py",
    "skdp/core/noise/vectors.py",
    "skdp/core/privacy_filter.py",
    "skdp/core/query.py",
    "skdp/core/session.py",
    "skdp/core/sums.py",
    "skdp/core/table.py",
    "skdp/core/units.py",
    "skdp/queries/histograms.py",
    "skdp/queries/images.py",
)

# What Coq's real numbers and functions rest on.
_ALLOWED = frozenset(
    {
        "ClassicalDedekindReals.sig_forall_dec",
        "ClassicalDedekindReals.sig_not_dec",
        "Classical_Prop.classic",
        "FunctionalExtensionality.functional_extensionality_dep",
    }
)
_PROVED = re.compile(r"^\s*(?:Theorem|Lemma|Corollary)\s+(\w+)", re.MULTILINE)
# Text of which Coq prints the statement (lemmas are steps on the way) or the whole definition.
_STATED = re.compile(
    r"(?:^|\.)\s*(Theorem|Corollary|Proposition|(?:Co)?Fixpoint|(?:Co)?Inductive|Definition|Variant"
    r"|Record|Structure|Class|Instance|Function)\s+(\w+)",
    re.MULTILINE,
)
_PRINT_ONLY_TYPE = frozenset({"Theorem", "Corollary", "Proposition"})
# Coq prints these lines between two statements.
BREAK = "     = tt\n     : unit\n"
_FORBIDDEN = re.compile(
    r"\b(Admitted|admit|give_up|Axioms?|Parameters?|Conjectures?|Abort|Unset\s+\w+\s+Checking)\b"
)


def _without_comments(text: str) -> str:
    """Return the text of a Coq file without its comments, which may be nested."""
    parts, depth, start = [], 0, 0
    for mark in re.finditer(r"\(\*|\*\)", text):
        if depth == 0:
            parts.append(text[start : mark.start()])
        depth += 1 if mark[0] == "(*" else -1
        start = mark.end()
    return "".join([*parts, text[start:]])


def theorems(text: str) -> list[str]:
    """Return the names of the theorems, lemmas and corollaries of a Coq file's text."""
    return _PROVED.findall(_without_comments(text))


def forbidden(text: str) -> list[str]:
    """Return the words of a Coq file's text by which something is left without a proof."""
    return _FORBIDDEN.findall(_without_comments(text))


def proved() -> dict[str, list[str]]:
    """Return the theorems of each Coq file."""
    found = {name: theorems((COQ / f"{name}.v").read_text("utf-8")) for name in ORDER}
    return {name: names for name, names in found.items() if names}


def check_sources() -> None:
    """Raise if a file is not among those that are compiled, or leaves something without a proof."""
    files = {file.stem: file for file in COQ.glob("*.v")}
    if set(files) != set(ORDER):
        raise SystemExit(
            f"proofs/record.py: ORDER and proofs/coq differ: {set(files) ^ set(ORDER)}"
        )
    for name, file in files.items():
        words = forbidden(file.read_text("utf-8"))
        if words:
            raise SystemExit(f"{name}.v leaves something without a proof: {', '.join(words)}")


def questions() -> str:
    """Return Coq's text that asks what the theorems rest on: the main ones, and all together."""
    names = [f"{file}.{name}" for file, found in proved().items() for name in found]
    modules = " ".join(name for name in ORDER if name != "Table")
    asked = "".join(f"Print Assumptions {name}.\n" for name in (*MAIN, "all_theorems"))
    every = ",\n  ".join(f"@{name}" for name in names)
    return f"From Skdp Require {modules}.\nDefinition all_theorems := (\n  {every}).\n{asked}"


def statement_questions() -> list[str]:
    """Return Coq's commands that print the main theorems, all other theorems, and definitions."""
    commands = [f"Check @{name}." for name in MAIN]
    for file in ORDER:
        if file == "Table":
            continue
        text = _without_comments((COQ / f"{file}.v").read_text("utf-8"))
        for kind, name in _STATED.findall(text):
            if kind in _PRINT_ONLY_TYPE:
                commands.append(f"Check @{file}.{name}.")
            else:
                commands.append(f"Print {file}.{name}.")
    return list(dict.fromkeys(commands))


def statements_source() -> str:
    """Return a Coq file that prints all statements, each followed by the lines of `BREAK`."""
    modules = " ".join(name for name in ORDER if name != "Table")
    # The proofs' own notations are not imported, so that none can hide what it stands for.
    head = (
        "Require Import Reals ZArith QArith Qreals List Permutation.\n"
        f"From Skdp Require {modules}.\nOpen Scope R_scope.\n"
        "Set Printing Width 100.\nSet Printing Depth 100000.\n"
    )
    return head + "".join(f"{command}\nEval cbv in tt.\n" for command in statement_questions())


def statements(answers: str) -> str:
    """Return what Coq printed, each statement below the command that asked for it."""
    commands, parts = statement_questions(), answers.split(BREAK)
    if len(parts) != len(commands) + 1 or parts[-1].strip():
        raise SystemExit("Coq printed another number of statements than it was asked for")
    entries = []
    for command, part in zip(commands, parts, strict=False):
        # "Arguments" says how Coq parses arguments, which is no part of a statement.
        text = re.sub(r"^Arguments .*\n(?: .*\n)*", "", part, flags=re.MULTILINE)
        lines = [line.rstrip() for line in text.strip("\n").splitlines()]
        entries.append("\n".join([command, *lines, ""]))
    return "\n".join(entries)


def unstated(text: str) -> list[str]:
    """Return the commands of `statement_questions` that have no entry in the text of a file."""
    return [command for command in statement_questions() if f"\n{command}\n" not in f"\n{text}"]


def check_assumptions(answers: str) -> None:
    """Raise if a theorem rests on more than real numbers; `answers` is what Coq printed."""
    blocks = answers.split("Axioms:\n")[1:]
    if len(blocks) != len(MAIN) + 1:
        raise SystemExit(f"Coq answered otherwise than expected:\n{answers}")
    named = {line.split()[0] for line in "".join(blocks).splitlines() if line[:1].strip()}
    if named - _ALLOWED:
        beyond = ", ".join(sorted(named - _ALLOWED))
        raise SystemExit(f"theorems rest on more than real numbers: {beyond}")
    count = sum(map(len, proved().values()))
    print(f"{count} theorems, which rest on nothing but the axioms of Coq's real numbers:")
    print("".join(f"  {axiom}\n" for axiom in sorted(named)), end="")


def result(coq: str, gappa: str) -> dict[str, object]:
    """Return what a run of the provers has shown, and of which files."""
    sources = [*COQ.glob("*.v"), *GAPPA.glob("*.g")]
    return {
        "about": "written by proofs/check --write",
        "coq": coq,
        "gappa": gappa,
        "theorems": proved(),
        "bounds": sorted(file.stem for file in GAPPA.glob("*.g")),
        "hashes": {
            "proofs": digests(sources),
            "table": digests([TABLE]),
            "statements": digests([STATEMENTS]),
            "modules": digests(MODULES),
        },
    }


def main(task: str, *arguments: str) -> None:
    """Do one step of `proofs/check`."""
    if task == "sources":
        check_sources()
    elif task == "order":
        print(*ORDER)
    elif task == "questions":
        print(questions(), end="")
    elif task == "assumptions":
        check_assumptions(Path(arguments[0]).read_text("utf-8"))
    elif task == "statements_source":
        print(statements_source(), end="")
    elif task == "statements":
        print(statements(Path(arguments[0]).read_text("utf-8")), end="")
    elif task == "write":
        RESULT.write_text(json.dumps(result(*arguments), indent=1) + "\n", "utf-8")
    else:
        raise SystemExit(f"unknown task: {task}")


if __name__ == "__main__":
    main(*sys.argv[1:])
