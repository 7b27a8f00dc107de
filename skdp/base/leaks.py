"""Leaks: what callers of scikit-learn show of private rows without noise.

The budget counts what a private estimator charges. A caller that fits it (a pipeline, a search, a
meta-estimator, a function) may compute something else from the same rows. `leaks_of` and
`leaks_of_function` tell what, from its parameters. `skdp.check_pipeline` reports leaks, and a fit
that charges a budget warns of them. Classes are known by name: nothing is imported for this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from sklearn.utils import get_tags


class Leak(NamedTuple):
    """What a caller shows without noise, and what to do instead."""

    what: str
    way_out: str


# --- the estimators inside a caller -------------------------------------------------------------


def has_price(part: Any) -> bool:
    """Say whether this charges by itself: its class has a ``privacy_cost``."""
    # Of the class, because some wrappers (yellowbrick's) pass on every attribute.
    return not isinstance(part, type) and hasattr(type(part), "privacy_cost")


def is_search(estimator: Any) -> bool:
    """Say whether this is one of scikit-learn's searches (by its parameters)."""
    if not hasattr(estimator, "get_params") or isinstance(estimator, type):
        return False
    names = estimator.get_params(deep=False)
    return {"estimator", "cv", "refit", "scoring"} <= names.keys() and (
        "param_grid" in names or "param_distributions" in names
    )


def is_halving(search: Any) -> bool:
    """Say whether a search is one of successive halving."""
    return "aggressive_elimination" in search.get_params(deep=False)


def _name_in(estimator: Any, names: Any) -> str:
    """Return which of these classes of scikit-learn an estimator is, or inherits; "" for none."""
    for kind in type(estimator).__mro__:
        if kind.__name__ in names and kind.__module__.partition(".")[0] == "sklearn":
            return str(kind.__name__)
    return ""


# Containers that fit each of their steps once: the parameters that hold (name, step[, columns]),
# and those that are a step.
_CONTAINERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Pipeline": ("steps", ()),
    "FeatureUnion": ("transformer_list", ()),
    "ColumnTransformer": ("transformers", ("remainder",)),
    "TransformedTargetRegressor": ("", ("regressor", "transformer")),
    "VotingClassifier": ("estimators", ()),
    "VotingRegressor": ("estimators", ()),
    "FixedThresholdClassifier": ("", ("estimator",)),
}


def steps_of(estimator: Any) -> list[tuple[str, Any, Any]] | None:
    """Return the steps that a container fits once each, as (name, step, columns); else None."""
    kind = _name_in(estimator, _CONTAINERS)
    if not kind:
        return None
    several, single = _CONTAINERS[kind]
    steps: list[tuple[str, Any, Any]] = []
    for step in getattr(estimator, several) if several else ():
        name, inner, *columns = step
        steps.append((name, inner, columns[0] if columns else None))
    remaining = "all others" if kind == "ColumnTransformer" else None
    return steps + [(name, getattr(estimator, name), remaining) for name in single]


def scorers_in(scoring: Any) -> list[Any]:
    """Return the scorers of a ``scoring`` argument, names and None included."""
    if isinstance(scoring, Mapping):
        return list(scoring.values())
    if isinstance(scoring, list | tuple | set):
        return list(scoring)
    return [scoring]


def scores_are_private(scoring: Any) -> bool:
    """Say whether each scorer of a ``scoring`` argument is a private one."""
    return all(has_price(scorer) for scorer in scorers_in(scoring))


def is_frozen(estimator: Any) -> bool:
    """Say whether an estimator is never fitted again."""
    return bool(_name_in(estimator, ("FrozenEstimator",)))


def nested(estimator: Any) -> list[tuple[str, Any]]:
    """Return the estimators among the parameters of a meta-estimator."""
    estimators = []
    for name, value in estimator.get_params(deep=False).items():
        for item in value if isinstance(value, list | tuple) else [value]:
            named = isinstance(item, tuple) and len(item) >= 2 and isinstance(item[0], str)
            label, inner = item[:2] if named else (name, item)
            if hasattr(inner, "fit") and not isinstance(inner, type):
                estimators.append((label, inner))
    return estimators


def holds_private(estimator: Any) -> bool:
    """Say whether an estimator is private, or fits a private one inside it."""
    if has_price(estimator):
        return True
    if is_frozen(estimator) or not hasattr(estimator, "get_params") or isinstance(estimator, type):
        return False
    return any(holds_private(inner) for _, inner in nested(estimator))


# --- what learns from rows without noise --------------------------------------------------------

ANY = "DPSubsampleAggregate makes any estimator private"
LEARNS = "learns from private rows without noise, and keeps what it learned in the fitted model"
RESAMPLES = (
    "makes new rows of private ones or leaves some out, by looking at others: one row "
    "counts several times in the steps behind it, while the ledger says epsilon once"
)
_INVERSE = "warns (check_inverse=True) if its functions are not inverse at private"
_UNCHECKED = "check_inverse=False"
NO_RESAMPLING = "class_weight= in the estimator, or no resampling"

_INSTEAD = {
    "CategoricalNB": "DPCategoricalNB",
    "ExtraTreesClassifier": "DPExplainableBoostingClassifier",
    "ExtraTreesRegressor": "DPExplainableBoostingRegressor",
    "GaussianNB": "DPGaussianNB",
    "KBinsDiscretizer": "DPKBinsDiscretizer",
    "KMeans": "DPKMeans",
    "KernelDensity": "DPKernelDensity",
    "HistGradientBoostingClassifier": "DPExplainableBoostingClassifier",
    "HistGradientBoostingRegressor": "DPExplainableBoostingRegressor",
    "LinearDiscriminantAnalysis": "DPLinearDiscriminantAnalysis",
    "LinearRegression": "DPLinearRegression",
    "LogisticRegression": "DPLogisticRegression",
    "MaxAbsScaler": "DPMinMaxScaler",
    "MinMaxScaler": "DPMinMaxScaler",
    "MiniBatchKMeans": "DPKMeans",
    "NearestCentroid": "DPNearestCentroid",
    "OneHotEncoder": "DPOneHotEncoder, or categories= that you state",
    "OrdinalEncoder": "DPOrdinalEncoder, or categories= that you state",
    "PCA": "DPPCA",
    "QuantileTransformer": "DPQuantileTransformer",
    "Ridge": "DPRidge",
    "RandomForestClassifier": "DPExplainableBoostingClassifier",
    "RandomForestRegressor": "DPExplainableBoostingRegressor",
    "RobustScaler": "DPRobustScaler",
    "SelectKBest": "DPSelectKBest",
    "SimpleImputer": "DPSimpleImputer, or strategy='constant' with a fill_value that you state and "
    "keep_empty_features=True",
    "StandardScaler": "DPStandardScaler",
    "TargetEncoder": "DPTargetEncoder",
    "TruncatedSVD": "DPPCA",
}

_DECLARED = (
    f"{ANY}; if its fit takes nothing from rows, declare that with scikit-learn's tag "
    "requires_fit=False (__sklearn_tags__)"
)

# Classes whose fit reads the number of columns only, and may draw from random_state: the
# parameter by which they read rows if it is a word, and the words by which they do not.
_COLUMNS_ONLY: dict[str, tuple[str, tuple[str, ...]]] = {
    "GaussianRandomProjection": ("n_components", ()),  # "auto" reads the number of rows
    "MissingIndicator": ("features", ("all",)),
    "PolynomialCountSketch": ("", ()),
    "PolynomialFeatures": ("", ()),
    "RBFSampler": ("gamma", ()),  # "scale" reads the variance
    "SkewedChi2Sampler": ("", ()),
    "SparseRandomProjection": ("n_components", ()),
    "SplineTransformer": ("knots", ()),
}
_ENCODERS = {"OneHotEncoder": "ignore", "OrdinalEncoder": "use_encoded_value"}


def instead_of(estimator: Any) -> str:
    """Return the private counterpart of an estimator that learns without noise."""
    kinds = [kind.__name__ for kind in type(estimator).__mro__]
    declares = not hasattr(estimator, "predict") and not _own_kind(estimator)
    other = _DECLARED if declares else ANY
    return next((_INSTEAD[kind] for kind in kinds if kind in _INSTEAD), other)


def _own_kind(estimator: Any) -> str:
    """Return the class if scikit-learn has it; "" for one of others, which may inherit it."""
    kind = type(estimator)
    return kind.__name__ if kind.__module__.partition(".")[0] == "sklearn" else ""


def learns_nothing(estimator: Any) -> bool:
    """Say whether what a public transformer does with one row depends on that row only."""
    kind, params = _own_kind(estimator), estimator.get_params(deep=False)
    if kind in _ENCODERS:
        rare = [params.get(name) for name in ("min_frequency", "max_categories")]
        stated = params["categories"]
        return rare == [None, None] and not (isinstance(stated, str) and stated == "auto")
    if kind == "SimpleImputer":
        # Otherwise it drops the columns in which every row is missing.
        keeps_columns = params["keep_empty_features"] and not params["add_indicator"]
        return bool(params["strategy"] == "constant" and keeps_columns)
    if kind in _COLUMNS_ONLY:
        name, words = _COLUMNS_ONLY[kind]
        return not isinstance(params.get(name), str) or params[name] in words
    if hasattr(estimator, "predict") or kind == "PatchExtractor":
        return False  # a Gaussian process predicts before it is fitted, and learns all the same
    try:
        return not get_tags(estimator).requires_fit
    except AttributeError:  # an estimator without tags, or a wrapper of nothing
        return False


def telling_leaks(step: Any) -> Iterator[Leak]:
    """Yield what a step that learns nothing tells of private rows in a warning."""
    functions = _name_in(step, ("FunctionTransformer",)) and (step.func, step.inverse_func)
    if functions and None not in functions and step.check_inverse:
        yield Leak(f"{_INVERSE} rows", _UNCHECKED)


def quoted_cells(step: Any) -> Iterator[Leak]:
    """Yield what a step that learns nothing tells of private rows in an error."""
    kind, params = _own_kind(step), step.get_params(deep=False)
    if kind in _ENCODERS and params["handle_unknown"] == "error" and learns_nothing(step):
        yield Leak(
            "quotes cells of private rows in its error, if they are in none of the categories "
            "stated (handle_unknown='error')",
            f"handle_unknown={_ENCODERS[kind]!r}; or DP{kind} with these categories, which charges "
            "nothing and names the column only",
        )


def _open_parts(step: Any, name: str) -> Iterator[Leak]:
    """Yield what learns without noise in a step with nothing private inside, or in its steps."""
    if step is None or isinstance(step, str | type) or is_frozen(step):
        return  # "drop", "passthrough"
    kind = type(step).__name__
    if holds_private(step) or not hasattr(step, "fit"):
        return  # a caller inside warns when it fits
    if (steps := steps_of(step)) is not None:
        for inner_name, inner, _ in steps:
            yield from _open_parts(inner, f"{name}__{inner_name}")
    elif hasattr(step, "fit_resample"):
        yield Leak(f"its step {name!r} ({kind}) {RESAMPLES}", NO_RESAMPLING)
    elif not hasattr(step, "get_params") or not learns_nothing(step):
        yield Leak(f"its step {name!r} ({kind}) {LEARNS}", instead_of(step))
    else:
        for what, way_out in telling_leaks(step):
            yield Leak(f"its step {name!r} ({kind}) {what}", way_out)


# --- what callers do ----------------------------------------------------------------------------

EXACT_CLASSES = "classes_ are the labels that occur in y, without noise"
_PUBLIC_CLASSES = "a public set of classes, each of which occurs in y"
EXACT_SPARSE = "sparse_output_ says whether most cells of the output are zero, without noise"
_SPARSE = "sparse_output"  # the parameter of encoders
_SCORES = (
    "its scores are exact functions of private folds, and so is the choice: best_params_, "
    "best_score_ and cv_results_ are not private"
)
_PRIVATE_SCORER = "scoring=private_scorer(...)"
HALVES = (
    "its rounds follow from the number of rows, which is private, and its rows are drawn by "
    "position, so that folds are not neighbouring"
)


def whole(name: str) -> str:
    """Return the way out for a meta-estimator: all of it on each block of the rows."""
    return f"{ANY}: {name}, of estimators that are not private, inside it"


UNKNOWN = "fits the estimators inside it an unknown number of times, on unknown rows"
PRICE_IT = "a privacy_cost method for it that counts these fits"

_PER_CLASS = "fits once for each class that occurs in y: the number of charges tells how many"
_CHOOSES = "chooses by scores on private rows, as often as they tell it to"
# What shows private rows whatever its parameters are.
_LEAKS = {
    "AdaBoostClassifier": "weighs rows by the errors made on them, which are private",
    "AdaBoostRegressor": (
        "draws rows with replacement by the errors made on them: one row counts several times, "
        "and which one is private"
    ),
    "CalibratedClassifierCV": "fits its calibration on private rows without noise",
    "IterativeImputer": "fits once for each column with missing cells, in rounds, without noise",
    "OneVsOneClassifier": f"{_PER_CLASS}; each fit is on the rows of two classes only",
    "OneVsRestClassifier": _PER_CLASS,
    "OutputCodeClassifier": _PER_CLASS,
    "RANSACRegressor": "draws rows until its exact errors on private rows are small enough",
    "SelfTrainingClassifier": "labels rows and fits again, as often as private rows tell it to",
    "TunedThresholdClassifierCV": "chooses its threshold by scores on private rows",
}
_LEAKS |= dict.fromkeys(
    (
        "Birch",
        "GradientBoostingClassifier",
        "GradientBoostingRegressor",
        "LinearDiscriminantAnalysis",
        "QuadraticDiscriminantAnalysis",
    ),
    f"is not private with a private estimator inside: it {LEARNS}",
)
# What every fit inside is charged for, as often as it takes place: nobody knows before how often.
_PER_OUTPUT = "fits once for each column of y, which no cost can know"
_UNPRICED = {
    "BaggingClassifier": "fits n_estimators members, which no cost counts",
    "BaggingRegressor": "fits n_estimators members, which no cost counts",
    "ClassifierChain": _PER_OUTPUT,
    "MultiOutputClassifier": _PER_OUTPUT,
    "MultiOutputRegressor": _PER_OUTPUT,
    "RegressorChain": _PER_OUTPUT,
    "RFE": "fits once for each number of columns, which no cost can know",
    "RFECV": _CHOOSES,
    "SelectFromModel": "chooses columns by a fitted estimator: put that before it, in the pipeline",
    "SequentialFeatureSelector": _CHOOSES,
    "StackingClassifier": (
        "fits every member once on all rows and once a fold (stratified by y unless cv says "
        "otherwise), and its final_estimator on their predictions for private rows"
    ),
    "StackingRegressor": (
        "fits every member once on all rows and once a fold, and its final_estimator on their "
        "predictions for private rows"
    ),
}
_SEARCHES = (
    "GridSearchCV", "HalvingGridSearchCV", "HalvingRandomSearchCV", "RandomizedSearchCV",
)  # fmt: skip


def _draws_rows(meta: Any, private_n: bool) -> Iterator[str]:
    """Yield how a meta-estimator draws the rows of its members."""
    params = meta.get_params(deep=False)
    if "estimator" not in params:
        return
    # Members that take weights are handed the number of times, which their bound limits.
    bound = getattr(params["estimator"], "weight_bound", None)
    if bound is not None and not isinstance(bound, str) and not private_n:
        return
    if params.get("bootstrap") is True:
        yield (
            "draws rows with replacement (bootstrap=True): one row counts several times, while "
            "the ledger says epsilon once"
        )
    elif private_n and params.get("max_samples") not in (None, 1.0):
        yield "fits on rows drawn by position, in a number that follows from that of the table"


def _meta_leaks(meta: Any, private_n: bool) -> Iterator[str]:
    """Yield what a meta-estimator that is no container shows of private rows."""
    yield from _draws_rows(meta, private_n)
    if kind := _name_in(meta, _LEAKS):
        yield _LEAKS[kind]
    kind = _name_in(meta, _UNPRICED)
    if kind.startswith("Stacking") and not holds_private(meta.final_estimator):
        yield _UNPRICED[kind] + ", without noise"
    if kind in ("RFECV", "SequentialFeatureSelector") and not scores_are_private(meta.scoring):
        yield _CHOOSES
    if kind in ("BaggingClassifier", "StackingClassifier"):
        yield EXACT_CLASSES


def what_it_does(meta: Any, private_n: bool = True) -> str:
    """Return what a meta-estimator does that no cost covers; "" if it is not known."""
    leaks = "; ".join(_meta_leaks(meta, private_n))
    return leaks or _UNPRICED.get(_name_in(meta, _UNPRICED), "")


def container_leaks(container: Any) -> Iterator[Leak]:
    """Yield what a container shows of private rows, whatever its steps are."""
    kind = _name_in(container, _CONTAINERS)
    functions = kind == "TransformedTargetRegressor" and (container.func, container.inverse_func)
    if functions and functions != (None, None) and container.check_inverse:
        yield Leak(f"{_INVERSE} targets", _UNCHECKED)
    if kind == "VotingClassifier":
        yield Leak(EXACT_CLASSES, _PUBLIC_CLASSES)
    if kind == "ColumnTransformer" and container.sparse_threshold:
        params = container.get_params().items()
        if any(value is True for name, value in params if name.endswith(_SPARSE)):
            yield Leak(EXACT_SPARSE, "sparse_threshold=0, or sparse_output=False of its encoders")


def search_leaks(search: Any) -> Iterator[Leak]:
    """Yield what the scores of a search show of private rows."""
    if not scores_are_private(search.scoring):
        yield Leak(_SCORES, _PRIVATE_SCORER)


def leaks_of(caller: Any, private_n: bool) -> Iterator[Leak]:
    """Yield what a caller that fits a private estimator shows of private rows.

    `private_n`: whether the number of rows is private.
    """
    if has_price(caller) or is_frozen(caller):
        return
    name = type(caller).__name__
    if is_search(caller):
        yield from search_leaks(caller)
        yield from _open_parts(caller.estimator, "estimator")
        if private_n and is_halving(caller) and caller.resource == "n_samples":
            yield Leak(HALVES, "GridSearchCV or RandomizedSearchCV with PerRecordKFold")
    elif (steps := steps_of(caller)) is not None:
        for step_name, step, _ in steps:
            yield from _open_parts(step, step_name)
        yield from container_leaks(caller)
    elif what := "; ".join(_meta_leaks(caller, private_n)):
        yield Leak(what, whole(name))
    elif not is_known(caller) and any(holds_private(inner) for _, inner in nested(caller)):
        yield Leak(UNKNOWN, PRICE_IT)


def is_known(caller: Any) -> bool:
    """Say whether it is known what this class of scikit-learn, or one it inherits, does."""
    known = (*_CONTAINERS, *_LEAKS, *_UNPRICED, *_SEARCHES, "FrozenEstimator")
    return bool(_name_in(caller, known)) or is_search(caller)


# --- functions ----------------------------------------------------------------------------------

_SHUFFLES = "gives each row a value of another: one row counts twice, and the ledger says once"
_EXACT = "shows exact functions of the rows that it is given"
_OWN_ROWS = "call it with public rows"


# Functions that fit or score an estimator that they are given, and displays whose
# ``from_estimator`` does; with the kind of their leaks.
FUNCTIONS = {
    "cross_val_predict": "predictions",
    "cross_val_score": "scores",
    "cross_validate": "scores",
    "learning_curve": "sizes",
    "partial_dependence": "exact",
    "permutation_importance": "importances",
    "permutation_test_score": "permutations",
    "validation_curve": "scores",
    "DecisionBoundaryDisplay": "exact",
    "LearningCurveDisplay": "sizes",
    "PartialDependenceDisplay": "exact",
    "ValidationCurveDisplay": "scores",
}
# Those that fit nothing, and ask a fitted estimator for predictions.
ASKING = ("from_estimator", "partial_dependence", "permutation_importance")


def leaks_of_function(name: str, arguments: Mapping[str, Any], private_n: bool) -> Iterator[Leak]:
    """Yield what a function of scikit-learn (of `FUNCTIONS`, by name) shows of private rows.

    `private_n`: whether the number of rows is private.
    """
    kind, private = FUNCTIONS[name], scores_are_private(arguments.get("scoring"))
    if kind in ("scores", "sizes", "permutations") and not private:
        yield Leak("its scores are exact functions of private folds", _PRIVATE_SCORER)
    if kind == "sizes" and private_n:
        yield Leak(
            "the sizes of its parts follow from the number of rows, which is private",
            "validation_curve, or a budget with adjacency='replace_one'",
        )
    if kind == "permutations":
        yield Leak(_SHUFFLES, "cross_val_score with scoring=private_scorer(...)")
    if kind == "predictions":
        yield Leak(
            "its predictions for private rows are private data, and so is what follows from them",
            "cross_val_score with scoring=private_scorer(...), or skdp.metrics on the predictions",
        )
    if kind in ("exact", "importances"):
        yield Leak(_SHUFFLES if kind == "importances" and private else _EXACT, _OWN_ROWS)
    yield from _open_parts(arguments.get("estimator"), "estimator")
