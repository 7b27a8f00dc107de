"""Searches over users: folds of whole users, groups that arrive, and splitters that are refused."""

from __future__ import annotations

import contextlib
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    LeavePGroupsOut,
    LeavePOut,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline, make_union

from skdp.budget import PrivacyBudget
from skdp.cluster import DPKMeans
from skdp.decomposition import DPPCA
from skdp.exceptions import FoldsWarning
from skdp.model_selection import (
    PerRecordKFold,
    check_pipeline,
    cross_val_cost,
    private_scorer,
    search_cost,
)
from skdp.preprocessing import DPStandardScaler
from tests.folding import each

RELATIONS = ("replace_one", "add_or_remove_one")
GROUP_SPLITTERS = [
    GroupKFold(3), StratifiedGroupKFold(3), LeaveOneGroupOut(), LeavePGroupsOut(2),
    GroupShuffleSplit(3),
]  # fmt: skip

rng = np.random.default_rng(0)
X = rng.uniform(size=(300, 2))
USERS = rng.integers(0, 40, 300)


def budget_of(relation="add_or_remove_one", **options):
    return PrivacyBudget(1e4, adjacency=relation, unit="user_id", **options)


def search_of(budget, cv=None, *, routed=True, **options):
    kmeans = DPKMeans(epsilon=1.0, bounds=(0.0, 1.0), budget=budget)
    scorer = private_scorer("neg_inertia", epsilon=0.5, bounds=2.0, budget=budget)
    if routed:
        kmeans.set_fit_request(groups=True)
        scorer.set_score_request(groups=True)
    cv = PerRecordKFold(3, random_state=0) if cv is None else cv
    return GridSearchCV(kmeans, {"n_clusters": [2, 3]}, scoring=scorer, cv=cv, **options)


@contextlib.contextmanager
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


# --- folds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ids",
    [USERS, [f"user {i}" for i in USERS], USERS.astype(float), pd.Series(USERS), pl.Series(USERS)],
    ids=["ints", "text", "floats", "pandas", "polars"],
)
def test_a_user_is_in_one_fold(ids):
    for _, test in PerRecordKFold(4, random_state=1).split(X, groups=ids):
        users = np.asarray(ids)
        assert not np.isin(users[test], np.delete(users, test)).any()


def test_the_fold_of_a_user_depends_on_the_id_alone():
    """Two hundred users; each is removed, and no other moves. Containers and rows do not count."""
    cv = PerRecordKFold(5, random_state=2)
    users = np.random.default_rng(1).integers(0, 200, 1000)
    rows = np.zeros((1000, 1))

    def fold_of(ids):
        folds = {}
        for k, (_, test) in enumerate(cv.split(np.zeros((len(ids), 1)), groups=ids)):
            folds |= dict.fromkeys(np.asarray(ids)[test].tolist(), k)
        return folds

    whole = fold_of(users)
    assert len(whole) > 190
    for one in range(200):
        left = fold_of(users[users != one])
        assert left == {user: fold for user, fold in whole.items() if user != one}
    assert fold_of([1, 2, 3]) == {i: whole[i] for i in (1, 2, 3)}
    objects = np.array([1.0, 2, "x", 3], dtype=object)
    for _, test in cv.split(rows[:4], groups=objects):
        for i in set(test.tolist()) & {0, 1, 3}:
            assert whole[int(objects[i])] == next(
                k for k, (_, t) in enumerate(cv.split(rows[:4], groups=objects)) if i in t
            )


def test_folds_of_users_are_fair():
    """chi-square of 4,000 users in 5 folds; false alarms 1e-7, a fixed seed."""
    from scipy import stats

    ids = np.arange(4000)
    cv = PerRecordKFold(5, random_state=3)
    sizes = [len(test) for _, test in cv.split(np.zeros((4000, 1)), groups=ids)]
    assert stats.chisquare(sizes).pvalue > 1e-7


def test_bad_groups_are_told():
    cv = PerRecordKFold(3)
    with pytest.raises(ValueError, match="PerRecordKFold: groups must have as many"):
        list(cv.split(X, groups=USERS[:5]))
    # Fits leave rows without an id out, or refuse them.
    folds = [test.tolist() for _, test in cv.split(X[:4], groups=["a", None, "b", None])]
    assert sorted(i for fold in folds for i in fold) == [0, 1, 2, 3]
    assert sum({1, 3} <= set(fold) for fold in folds) == 1


# --- groups arrive --------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_routed_search_delivers_users_and_its_price_is_what_it_charges(relation):
    budget = budget_of(relation)
    with routing():
        search = search_of(budget)
        price = search_cost(search, groups=USERS)
        assert price.note == ""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", message=".*centres coincide")
            with budget.reserve(price):
                search.fit(X, groups=pd.Series(USERS, name="user_id"))
    assert budget.spent.epsilon == price.epsilon == 6 * 1.0 + 6 * 0.5 + 1.0
    assert search.best_estimator_.privacy_.unit == "user_id"
    assert search.best_estimator_.max_rows_per_unit_ >= 1
    assert all(charge.estimator for charge in budget.charges)


def test_a_routed_pipeline_delivers_users():
    budget = budget_of()
    with routing():
        pipeline = make_pipeline(
            DPStandardScaler(bounds=(0, 1), budget=budget).set_fit_request(groups=True),
            DPPCA(1, budget=budget).set_fit_request(groups=True),
        )
        pipeline.fit(X, groups=USERS)
        cross_validate(
            pipeline, X, params={"groups": USERS}, cv=PerRecordKFold(2),
            scoring=lambda *a, **k: 0.0, error_score="raise",
        )  # fmt: skip
    assert pipeline[-1].privacy_.unit == "user_id"
    assert len(budget.charges) == 6
    plain = make_pipeline(DPStandardScaler(bounds=(0, 1), budget=budget))
    plain.fit(X, dpstandardscaler__groups=USERS)


def test_a_search_that_delivers_no_users_is_refused_before_the_charge():
    budget = budget_of()
    search = search_of(budget, routed=False)
    with pytest.raises(ValueError, match="enable_metadata_routing=True"):
        search.fit(X, groups=USERS)
    assert budget.spent.epsilon == 0
    (found,) = (one for one in check_pipeline(search) if "gets no groups" in one.what and
                one.severity == "high" and "DPKMeans" in one.what)  # fmt: skip
    assert "set_fit_request(groups=True)" in found.way_out
    with routing():
        assert not any("gets no groups" in one.what for one in check_pipeline(search_of(budget)))


@pytest.mark.parametrize(
    ("wrap", "argument"),
    [
        (make_pipeline, "dpstandardscaler__groups"),
        (lambda step: make_pipeline(make_pipeline(step)), "pipeline__dpstandardscaler__groups"),
        (make_union, "groups"),
        (lambda step: make_pipeline(make_union(step)), "featureunion__groups"),
        (lambda step: make_column_transformer((step, [0, 1])), None),
    ],
)
def test_a_step_that_may_get_no_users_is_named(wrap, argument):
    """What is said of the call is true of it, with and without metadata routing."""
    budget = budget_of()
    step = DPStandardScaler(bounds=(0, 1), budget=budget)
    whole = wrap(step)
    (found,) = check_pipeline(whole)
    assert found.where.endswith("dpstandardscaler (DPStandardScaler)")
    assert "'user_id'" in found.what
    assert found.severity == ("high" if argument is None else "medium")
    with pytest.raises(ValueError, match="no groups= say"):
        whole.fit(X)
    assert budget.spent.epsilon == 0
    if argument is not None:
        assert f"fit(..., {argument}=ids)" in found.way_out
        whole.fit(X, **{argument: USERS})
    with routing():
        (found,) = check_pipeline(whole)
        assert found.severity == "high"
        assert found.way_out.startswith(".set_fit_request(groups=True)")
        step.set_fit_request(groups=True)
        assert not check_pipeline(whole)
        whole.fit(X, groups=USERS)
    assert not check_pipeline(wrap(DPStandardScaler(bounds=(0, 1), budget=PrivacyBudget(1.0))))


def test_who_passes_no_ids_is_told_how():
    """An estimator's message names the ways of pipelines; a function's names its own argument."""
    from skdp import statistics

    budget = budget_of()
    scaler = make_pipeline(DPStandardScaler(bounds=(0, 1), budget=budget))
    with pytest.raises(ValueError, match=r"fit\(X, groups=ids\).*fit\(X, <step>__groups=ids\)"):
        scaler.fit(X)
    scaler.fit(X, dpstandardscaler__groups=USERS)
    with pytest.raises(ValueError, match=r"Pass the ids: mean\(\.\.\., groups=ids\)\. Nothing"):
        statistics.mean(X, bounds=(0, 1), budget=budget)
    statistics.mean(X, bounds=(0, 1), budget=budget, groups=USERS)


def test_a_scorer_of_users_needs_them():
    budget = budget_of()
    kmeans = DPKMeans(2, bounds=(0.0, 1.0), budget=budget).fit(X, groups=USERS)
    scorer = private_scorer("neg_inertia", epsilon=0.5, bounds=2.0, budget=budget)
    spent = budget.spent.epsilon
    with pytest.raises(ValueError, match="set_score_request"):
        scorer(kmeans, X)
    assert budget.spent.epsilon == spent
    assert -2.0 <= scorer(kmeans, pd.DataFrame(X), groups=USERS) <= 0.0
    y = pd.Series(["a", "b"] * 150, index=np.arange(300)[::-1])

    class Says:
        def predict(self, rows):
            return np.array(["a"] * len(rows))

    accuracy = private_scorer("accuracy", epsilon=1e4, max_rows_per_unit=3)
    users = np.repeat([0, 1], 150)
    score = accuracy(Says(), X, y, groups=users)
    assert 0.0 <= score <= 1.0
    # Six rows count, whichever: a score of so many rows is a multiple of a sixth.
    assert abs(score * 6 - round(score * 6)) < 1e-2
    copied = clone(scorer.set_score_request(groups=True))
    assert copied.get_metadata_routing().score.requests == {"groups": True}


# --- splitters that users decide together --------------------------------------------------------


@each("relation", RELATIONS)
@each("cv", GROUP_SPLITTERS, ids=lambda cv: type(cv).__name__)
def test_splitters_of_groups_are_refused_everywhere(cv, relation):
    budget = budget_of(relation)
    name = type(cv).__name__
    with routing():
        search = search_of(budget, cv)
        with pytest.raises(ValueError, match=f"cv: {name} .*PerRecordKFold"):
            search_cost(search, groups=USERS)
        with pytest.raises(ValueError, match=f"cv: {name} .*PerRecordKFold"):
            cross_val_cost(search.estimator, cv, groups=USERS)
        found = [one for one in check_pipeline(search) if f"cv: {name}" in one.what]
        assert found[0].severity == "high"
        # StratifiedGroupKFold and the like come with labels in scikit-learn's own searches.
        y = np.random.default_rng(2).integers(0, 2, 300)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(ValueError, match=f"{name} "):
                search.fit(X, y, groups=USERS % 5)
            with pytest.raises(ValueError, match=f"DPKMeans: {name} "):
                cross_val_score(
                    search.estimator.set_params(n_clusters=2), X, y, cv=cv,
                    params={"groups": USERS % 5}, scoring=search.scoring, error_score="raise",
                )  # fmt: skip
    assert budget.spent.epsilon == 0


def test_splitters_of_groups_are_refused_where_fits_run_elsewhere():
    """In another process a fit sees no search; the clone that is sent there is made here."""

    class Mine(GroupKFold):
        pass

    budget = budget_of("replace_one")
    with routing():
        for cv in (GroupKFold(3), Mine(3)):
            search = search_of(budget, cv).set_params(n_jobs=2)
            with pytest.raises(ValueError, match="GroupKFold balances its folds"):
                search.fit(X, groups=USERS % 5)
            with pytest.raises(ValueError, match="GroupKFold balances its folds"):
                cross_val_score(
                    search.estimator, X, cv=cv, params={"groups": USERS % 5},
                    scoring=search.scoring, n_jobs=2,
                )  # fmt: skip
    assert budget.spent.epsilon == 0


class Mine(GroupKFold):
    """A splitter of somebody's own, which balances by groups, too."""


class Held(LeaveOneOut):
    """One of somebody's own that fits once a row."""


@pytest.mark.parametrize("cv", [Mine(3), Held(), LeaveOneOut(), LeavePOut(1)], ids=repr)
def test_what_tells_of_users_is_refused_by_any_name(cv):
    """Not noted only: also of a subclass before the search, and of a splitter of rows in it."""
    budget = budget_of("add_or_remove_one")
    few, ids = X[:20], USERS[:20] % 5
    with routing():
        search = search_of(budget, cv)
        with pytest.raises(ValueError, match=r"cv: (GroupKFold|LeaveOneOut|LeavePOut) "):
            search_cost(search, n_samples=20, groups=ids)
        high = [one.what for one in check_pipeline(search) if one.severity == "high"]
        assert any(what.startswith("cv: ") for what in high)
        with pytest.raises(ValueError, match=r"DPKMeans: (GroupKFold|LeaveOneOut|LeavePOut) "):
            search.fit(few, groups=ids)
        with pytest.raises(ValueError, match=r"DPKMeans: (GroupKFold|LeaveOneOut|LeavePOut) "):
            cross_val_score(
                search.estimator, few, cv=cv, params={"groups": ids}, scoring=search.scoring,
                error_score="raise",
            )  # fmt: skip
    assert budget.spent.epsilon == 0


def test_splitters_by_position_are_noted():
    with routing():
        price = search_cost(search_of(budget_of("replace_one"), KFold(3)), groups=USERS)
        with pytest.raises(ValueError, match="which is private if users have many"):
            search_cost(search_of(budget_of("replace_one"), LeaveOneOut()), 300)
        stated = search_cost(search_of(budget_of(), [(np.arange(100), np.arange(100, 200))]))
    assert "a user more moves the rows of others" in price.note
    assert "stated splits give neighbouring folds only if the fold of each user" in stated.note


@each("cv", [KFold(3), 3, ShuffleSplit(2), StratifiedKFold(3)])
@each(("relation", "unit"), [("add_or_remove_one", None), ("replace_one", "who"), (None, None)])
def test_a_search_whose_folds_move_others_warns(cv, relation, unit):
    """One row more changes up to three rows of each part: the charges are for one."""
    terms = {} if relation is None else {"adjacency": relation, "unit": unit}
    budget = PrivacyBudget(1e3, 0.1, **terms)
    model = DPKMeans(2, bounds=(0.0, 1.0), delta=1e-6, max_rows_per_unit=5, budget=budget)
    told = []
    with routing():
        model.set_fit_request(groups=unit is not None)
        for splitter in (cv, PerRecordKFold(3), [(np.arange(100), np.arange(100, 200))]):
            search = GridSearchCV(model, {"n_clusters": [2]}, cv=splitter, scoring=_nothing)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                search.fit(X, np.arange(len(X)) % 2, **({"groups": USERS} if unit else {}))
            told.append({str(w.message) for w in caught if w.category is FoldsWarning})
            assert {w.filename for w in caught if w.category is FoldsWarning} <= {__file__}
    assert [len(texts) for texts in told] == [1 if terms else 0, 0, 0]
    if terms:
        assert "PerRecordKFold" in told[0].pop()


def _nothing(model, X, y=None):
    return 0.0


def test_group_splitters_of_public_groups_stay():
    """Where the budget protects single rows, groups are public, and so are folds by them."""
    budget = PrivacyBudget(100.0)
    search = GridSearchCV(
        DPKMeans(bounds=(0.0, 1.0), budget=budget), {"n_clusters": [2]}, cv=GroupKFold(3)
    ).fit(X, groups=USERS)
    assert search.best_estimator_.privacy_.unit == "row"
