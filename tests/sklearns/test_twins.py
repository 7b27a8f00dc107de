"""Every parameter and public method of scikit-learn's estimators is here, or says why it is not."""

from __future__ import annotations

import inspect

import pytest
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV

from skdp import DPGridSearchCV, DPRandomizedSearchCV
from skdp._make_private import _COUNTERPARTS, _HOW

# Each parameter or method that the private one lacks: renamed, dropped or private, and why.
TREES = "dropped: trees of another algorithm, which adds up functions of one and two columns"
FOLDS = "renamed: test_size; with folds, each row would be in several fits"
BATCHES = "private: each batch would be a fit and a charge of its own; it says so"
REFIT = "private: a refit is one more fit, with a charge of its own"
TASKS = ("Classifier", "Regressor")
OF_TREES = dict.fromkeys(
    ("apply", "class_weight", "decision_path", "estimators_samples_", "monotonic_cst"),
    TREES,
)  # fmt: skip
ABSENT: dict[str, dict[str, str]] = {
    "QuantileTransformer": {"ignore_implicit_zeros": "dropped: of sparse tables"},
    "MiniBatchKMeans": {"partial_fit": BATCHES},
    "StandardScaler": {"partial_fit": BATCHES},
    "MinMaxScaler": {"partial_fit": BATCHES},
    "GaussianNB": {"partial_fit": BATCHES},
    "CategoricalNB": {"partial_fit": BATCHES},
    "KernelDensity": {
        "kernel": "dropped: random features are those of the Gaussian kernel",
        "metric": "dropped: random features are those of Euclidean distances",
        "metric_params": "dropped: as metric",
    },
    "LogisticRegression": {
        "l1_ratio": "dropped: the noisy loss is smooth, so that its minimiser can be certified",
        "densify": "dropped: coefficients are dense",
        "sparsify": "dropped: coefficients are dense",
    },
    **{f"{kind}{task}": OF_TREES for kind in ("RandomForest", "ExtraTrees") for task in TASKS},
    **{
        f"HistGradientBoosting{task}": {
            "categorical_features": "renamed: text columns, behind an encoder",
            "class_weight": TREES,
            "interaction_cst": TREES,
            "loss": "dropped: cross entropy, or squares",
            "max_bins": "renamed: n_bins",
            "monotonic_cst": TREES,
            "n_iter_": TREES,
            "quantile": "dropped: of another loss",
            "staged_decision_function": TREES,
            "staged_predict": TREES,
            "staged_predict_proba": TREES,
        }
        for task in TASKS
    },
    "GridSearchCV": {"cv": FOLDS, "refit": REFIT},
    "RandomizedSearchCV": {"cv": FOLDS, "refit": REFIT},
}  # fmt: skip

SEARCHES = ("error_score", "return_train_score")
TWINS = {theirs: (rule.kind, rule.dropped) for theirs, rule in _COUNTERPARTS.items()} | {
    GridSearchCV: (DPGridSearchCV, SEARCHES),
    RandomizedSearchCV: (DPRandomizedSearchCV, SEARCHES),
}


def names(kind: type) -> set[str]:
    """Return the parameters and public methods of a class, without requests of metadata."""
    requests = {name for name in dir(kind) if name.startswith("set_") and "_request" in name}
    methods = {name for name in dir(kind) if not name.startswith("_")} - requests
    methods -= {"infrequent_categories_", "n_features_in_"}  # attributes here
    return set(inspect.signature(kind).parameters) | methods


@pytest.mark.parametrize("theirs", TWINS, ids=lambda kind: kind.__name__)
def test_what_is_not_there_has_its_reason(theirs):
    ours, dropped = TWINS[theirs]
    missing = names(theirs) - names(ours) - set(dropped) - _HOW
    reasons = ABSENT.get(theirs.__name__, {})
    assert missing - set(reasons) == set()
    assert set(reasons) & names(ours) == set()  # none that is there by now
    kinds = {why.partition(":")[0] for why in reasons.values()}
    assert kinds <= {"renamed", "dropped", "private"}
