"""Why a private estimator is without something that scikit-learn's own has, and what to use.

Weights of rows, too: a fit that has no `sample_weight` says so, instead of Python, whose text
would not say why. It is not in the signatures, by which scikit-learn tells who takes weights.

Nothing is released here: the texts are public and the same for all rows.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

_ROWS = "it would reveal where each private row lies"
_PARTIAL_FIT = (
    "each batch would be a fit of its own, with its own charge. Fit all rows at once; if they do "
    "not fit into memory, pass them in parts: skdp.engines.read_parquet(...) or from_stream(...)"
)
_RUNS = (
    "a private search releases only its best run; each other run would cost as much again. A "
    "search on synthetic rows from one release has it for free: "
    "GridSearchCV(...).fit(*DPTrainOnRelease(...).fit(df).released_xy())"
)

# By the name of a class, then by that of the attribute. "" stands for every class.
_ABSENT: dict[str, dict[str, str]] = {
    "": {"partial_fit": _PARTIAL_FIT},
    "DPKMeans": {
        "labels_": f"{_ROWS}. predict(X) labels rows that you may see",
        "inertia_": (
            "it is an exact sum over private rows. -score(X) computes it for rows that you may "
            "see; private_scorer('neg_inertia', ...) releases a private one"
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


_WEIGHTS = (
    "{name} takes no sample_weight: the weight of a row is private, and it would scale the "
    "influence of the row, so noise would have to cover the largest weight. Leave weights out; "
    "or sample rows by weight before the fit: keep each row with probability min(weight / w, 1), "
    "independently of the others, for a w from public knowledge, and fit the kept rows with a "
    "budget of adjacency='add_or_remove_one'. Nothing was charged for this fit."
)
_FITS = ("fit", "fit_predict", "fit_transform")


def refuse_weights(kind: type) -> None:
    """Have the fits that a class defines refuse `sample_weight` by name, if they do not take it.

    What takes any name hands it on, to a fit that takes weights or refuses them.
    """
    for name in _FITS:
        fit = vars(kind).get(name)
        if not inspect.isfunction(fit):
            continue
        known = inspect.signature(fit).parameters
        hands_on = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in known.values())
        if not hands_on and "sample_weight" not in known:
            setattr(kind, name, _without_weights(fit))


def _without_weights(fit: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fit)
    def unweighted(self: Any, *args: Any, sample_weight: Any = None, **options: Any) -> Any:
        if sample_weight is not None:
            raise TypeError(_WEIGHTS.format(name=type(self).__name__))
        return fit(self, *args, **options)

    return unweighted
