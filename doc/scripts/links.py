"""What the page of an estimator links to: its guide, and the proofs of its queries.

``python doc/scripts/links.py`` writes `proofs.json` anew: it fits the cases of the contract and
notes which queries their certificates name. A test compares. Guides are stated here.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import warnings
from collections import defaultdict
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROOFS = Path(__file__).with_name("proofs.json")

# By the module of an estimator, or its name.
GUIDES = {
    "cluster": "get_started", "decomposition": "get_started", "preprocessing": "preprocessing",
    "impute": "preprocessing", "feature_selection": "preprocessing", "quantile": "quantiles",
    "linear_model": "predict", "naive_bayes": "predict", "discriminant_analysis": "predict",
    "ensemble": "predict", "model_selection": "private_search", "density_ratio": "density_ratio",
    "synthetic": "synthetic", "aggregation": "group_by", "sql": "sql",
    "DPNearestCentroid": "predict", "DPKernelDensity": "synthetic",
    "DPHistogramDensity": "synthetic", "DPSubsampleAggregate": "quantiles",
    "DPQuantileTransformer": "preprocessing", "DPRobustScaler": "preprocessing",
}  # fmt: skip


def title(page: Path) -> str:
    """Return the heading of a page in Markdown."""
    return next(line[2:] for line in page.read_text("utf-8").splitlines() if line.startswith("# "))


def anchor(heading: str) -> str:
    """Return the id that a heading has on a page."""
    return re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-")


def proof_of(query: str) -> list[str]:
    """Return the files with the proofs of a query, which is named by its module and type."""
    module = query.partition(":")[0].rpartition(".")[0]
    if module.startswith("skdp.core"):
        return ["core/PROOFS.md"]
    path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    said = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    found = re.findall(r"(\w+)\.md", said)
    return sorted(
        {"core/PROOFS.md" if name == "PROOFS" else f"queries/{name}.md" for name in found}
    )


def fitted_proofs() -> dict[str, list[str]]:
    """Return the proofs of the queries that the fits of the contract's cases have asked."""
    sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "contract")]
    import cases
    import estimators

    import skdp

    found: dict[str, set[str]] = defaultdict(set)
    for case in estimators.CASES:
        for delta in cases.DELTAS:
            model = cases.make(case, delta, case.relations[0])
            X, y = case.table(cases.rows(60, case.n_features, 3))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(X) if y is None else model.fit(X, y)
            kinds = [one.__name__ for one in type(model).__mro__ if one.__name__ in skdp.__all__]
            if not kinds:  # a pipeline, or a toy of the tests
                continue
            for one in getattr(getattr(model, "privacy_", None), "releases", ()):
                for query in filter(None, one.query.split(", ")):
                    found[kinds[0]].update(proof_of(query))
    return {name: sorted(files) for name, files in sorted(found.items())}


def links() -> dict[str, list[str]]:
    """Return the links of each estimator, as lines of reStructuredText."""
    proofs = json.loads(PROOFS.read_text("utf-8"))
    sys.path.insert(0, str(ROOT))
    import skdp

    found = {}
    for name, home in skdp._HOMES.items():
        guide = GUIDES.get(name) or GUIDES.get(home.split(".")[0])
        lines = [f"Guide: :doc:`/{guide}`"] if guide and name[0].isupper() else []
        if name in proofs:
            pages = [(title(ROOT / "skdp" / file), file) for file in proofs[name]]
            lines.append(
                "Proofs: "
                + ", ".join(f"`{head} <../proofs.html#{anchor(head)}>`__" for head, _ in pages)
            )
        if lines:
            found[name] = lines
    return found


if __name__ == "__main__":
    # What a fit asks may depend on what was released before: several fits.
    runs = [fitted_proofs() for _ in range(5)]
    known = {name: sorted({*chain.from_iterable(run[name] for run in runs)}) for name in runs[0]}
    PROOFS.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
