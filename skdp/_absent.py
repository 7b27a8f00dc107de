"""Why a private estimator is without something that scikit-learn's own has, and what to use.

Nothing is released here: the texts are public and the same for all rows.
"""

from __future__ import annotations

_ROWS = "it says of each private row where it lies"
_PARTIAL_FIT = (
    "a batch is a fit of its own, with its own charge. Fit all rows at once; those that do not "
    "fit into memory go to fit in parts, as skdp.engines.read_parquet(...) or from_stream(...)"
)
_RUNS = (
    "a private search releases its best run only, and what the others had would cost as much as "
    "each of them. A search over post-processing of one release has it for free: "
    "GridSearchCV(...).fit(*DPTrainOnRelease(...).fit(df).released_xy())"
)

# By the name of a class, then by that of the attribute. "" stands for every class.
_ABSENT: dict[str, dict[str, str]] = {
    "": {"partial_fit": _PARTIAL_FIT},
    "DPKMeans": {
        "labels_": f"{_ROWS}. predict(X) labels rows that you may see",
        "inertia_": (
            "it is an exact sum over private rows. -score(X) has it for rows that you may see; "
            "private_scorer('neg_inertia', ...) releases a private one"
        ),
    },
    "DPKernelDensity": {
        "tree_": "it holds the private rows. score_samples(X) and pdf(X) answer without them"
    },
    "DPQuantileTransformer": {
        "n_quantiles_": "it depends on the number of rows. quantiles_ has as many as n_quantiles"
    },
    "DPStandardScaler": {"n_samples_seen_": "the number of rows may be private"},
    "DPMinMaxScaler": {"n_samples_seen_": "the number of rows may be private"},
    "DPGridSearchCV": {"cv_results_": _RUNS, "best_index_": _RUNS},
    "DPRandomizedSearchCV": {"cv_results_": _RUNS, "best_index_": _RUNS},
}


def why_absent(kind: type, name: str) -> str:
    """Return the message of an AttributeError, or "" for what nobody expects."""
    for owner in (*(base.__name__ for base in kind.__mro__), ""):
        reason = _ABSENT.get(owner, {}).get(name)
        if reason:
            return f"{kind.__name__} has no {name}: {reason}."
    return ""
