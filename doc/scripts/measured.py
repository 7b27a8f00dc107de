"""Measured figures of the home page, read from the result files of doc/benchmarks."""

from __future__ import annotations

import re
from pathlib import Path

RESULTS = Path(__file__).resolve().parents[1] / "benchmarks" / "results"
OURS, DIFFPRIVLIB, OPENDP = "skdp", "diffprivlib", "opendp"


def date(name: str) -> str:
    """Return the date on which a result was measured."""
    return re.search(r"\d{4}-\d\d-\d\d", RESULTS.joinpath(name).read_text("utf-8"))[0]


def times(models: list[str], column: int) -> dict[str, str]:
    """Return the processor time of fits with stated bounds, in times of scikit-learn's."""
    text = RESULTS.joinpath("speed.txt").read_text("utf-8")
    parts = {OURS: text.partition("\nstated")[2], DIFFPRIVLIB: text.partition("\ndiffprivlib\n")[2]}
    return {
        library: ", ".join(
            re.search(rf"^{model} +(.*)$", part, re.MULTILINE)[1].split()[column]
            for model in models
        )
        for library, part in parts.items()
    }


def errors_of_means() -> dict[str, str]:
    """Return the noise of the means of 1 and of 20 columns at epsilon 1, in times of ours."""
    lines = RESULTS.joinpath("noise_claims.txt").read_text("utf-8").splitlines()
    at = next(n for n, line in enumerate(lines) if re.match(r"mean +R +1 ", line))
    # The cells of delta = 0 end at characters 48, 75, ...: 1, 2, 5, 20 and 100 columns.
    ends = 48, 48 + 3 * 27
    cells = [[float(line[end - 8 : end]) for end in ends] for line in lines[at : at + 3]]
    names = (OURS, OPENDP, DIFFPRIVLIB)
    return {
        name: ", ".join(f"{own / ours:.2g}" for own, ours in zip(row, cells[0], strict=True))
        for name, row in zip(names, cells, strict=True)
    }


def accuracies() -> dict[str, str]:
    """Return the accuracy of logistic regressions on breast cancer at epsilon 1, delta 0."""
    text = RESULTS.joinpath("diffprivlib_models.txt").read_text("utf-8")
    row = r"^breast_cancer 1 0 {}LogisticRegression accuracy (\S+)"
    names = {OURS: "DP", DIFFPRIVLIB: r"diffprivlib\."}
    return {x: re.search(row.format(name), text, re.MULTILINE)[1] for x, name in names.items()}


def audits() -> dict[str, str]:
    """Return how many of the audited claims of the newest version of a library were refuted."""
    found: dict[str, list[bool]] = {}
    for line in RESULTS.joinpath("other_libraries.inc").read_text("utf-8").splitlines():
        if row := re.match(r"\| (diffprivlib-0\.6\.6|opendp-0\.16\.0) \|", line):
            found.setdefault(row[1].partition("-")[0], []).append("**found**" in line)
    return {library: f"{sum(rows)} of {len(rows)}" for library, rows in found.items()}


def measured() -> dict[str, dict[str, str]]:
    """Return all figures by name and library, each with its date; and the number of estimators."""
    import skdp

    models = ["StandardScaler", "KMeans", "LogisticRegression"]
    return {
        "estimators": {OURS: str(sum(name.startswith("DP") for name in skdp.__all__))},
        "time": times(models, 2) | {"date": date("speed.txt")},
        "noise": errors_of_means() | {"date": date("noise_claims.txt")},
        "accuracy": accuracies() | {"date": date("diffprivlib_models.txt")},
        "audit": audits() | {"date": date("other_libraries.inc")},
    }


if __name__ == "__main__":
    for name, figures in measured().items():
        print(name, figures)
