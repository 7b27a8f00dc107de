"""Other libraries: what they do with a private estimator works, or is refused before a charge.

Where a library is not installed, a stand-in makes the same calls.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import types

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans
from sklearn.ensemble import AdaBoostClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skdp import (
    DPPCA,
    BudgetExceededError,
    DPKMeans,
    DPLogisticRatio,
    DPLogisticRegression,
    DPStandardScaler,
    DPSubsampleAggregate,
    PrivacyBudget,
    check_pipeline,
    statistics,
)
from skdp.user_code import untracked

X = np.random.default_rng(0).normal(size=(300, 2))
Y = (X[:, 0] > 0).astype(int)


def kmeans(budget, **params):
    return DPKMeans(2, bounds=(-5, 5), epsilon=1.0, budget=budget, **params)


# --- skops --------------------------------------------------------------------------------------


def through_skops(made):
    sio = pytest.importorskip("skops.io")
    data = sio.dumps(made)
    return sio.loads(data, trusted=sio.get_untrusted_types(data=data))


@pytest.mark.parametrize("ledger", [None, "file"])
def test_skops_takes_a_fitted_estimator_with_its_budget(ledger, tmp_path):
    budget = PrivacyBudget(2.5, ledger=None if ledger is None else tmp_path / "a.budget")
    fitted = make_pipeline(DPStandardScaler(bounds=(-5, 5), budget=budget), kmeans(budget)).fit(X)
    loaded = through_skops(fitted)
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))
    assert loaded[-1].privacy_ == fitted[-1].privacy_
    # The same ledger: what is left of it is left for both.
    assert loaded[-1].budget.spent == budget.spent
    with pytest.raises(BudgetExceededError):
        loaded[-1].fit(X)
    DPKMeans(2, bounds=(-5, 5), epsilon=0.5, budget=loaded[0].budget).fit(X)
    assert budget.spent.epsilon == 2.5
    assert len(budget.charges) == 3


def test_skops_where_the_ledger_is_gone_gives_a_sealed_budget(tmp_path):
    sio = pytest.importorskip("skops.io")
    budget = PrivacyBudget(2.0, ledger=tmp_path / "a.budget")
    data = sio.dumps(kmeans(budget).fit(X))
    state = {**budget.__getstate__(), "path": str(tmp_path / "gone.budget"), "ledger_id": "other"}
    elsewhere = PrivacyBudget.__new__(PrivacyBudget)
    elsewhere.__setstate__(state)
    assert elsewhere.sealed
    assert not sio.loads(data, trusted=sio.get_untrusted_types(data=data)).budget.sealed


def test_a_state_moves_no_budget_to_another_ledger():
    one, other = PrivacyBudget(1.0), PrivacyBudget(9.0)
    with pytest.raises(RuntimeError, match="stays with its ledger"):
        one.__setstate__(other.__getstate__())
    empty = PrivacyBudget.__new__(PrivacyBudget)
    with pytest.raises(ValueError, match="not the state of a PrivacyBudget"):
        empty.__setstate__({"epsilon": 1.0})
    assert one.epsilon == 1.0


# --- trackers -----------------------------------------------------------------------------------


@pytest.fixture
def logged(monkeypatch):
    """Replace ``fit`` as mlflow's autolog does; the list has what it would log."""
    entries = []
    module = types.ModuleType("mlflow.utils.autologging_utils")
    module._AUTOLOGGING_GLOBALLY_DISABLED = False

    @contextlib.contextmanager
    def disable_autologging():
        module._AUTOLOGGING_GLOBALLY_DISABLED = True
        try:
            yield
        finally:
            module._AUTOLOGGING_GLOBALLY_DISABLED = False

    module.disable_autologging = disable_autologging
    monkeypatch.setitem(sys.modules, "mlflow.utils.autologging_utils", module)
    for kind in (KMeans, LogisticRegression):

        def patched(self, X, *args, _fit=kind.fit, **kwargs):
            fitted = _fit(self, X, *args, **kwargs)
            if not module._AUTOLOGGING_GLOBALLY_DISABLED:
                entries.append((type(self).__name__, len(X)))
            return fitted

        monkeypatch.setattr(kind, "fit", patched)
    return entries, module


@pytest.mark.slow
def test_no_tracker_sees_what_is_fitted_inside(logged):
    entries, _ = logged
    kmeans(None).fit(X)
    for jobs in (None, 2):
        DPSubsampleAggregate(
            LogisticRegression(), public=X[:20], classes=[0, 1], n_blocks=10, n_jobs=jobs
        ).fit(X, Y)
    with statistics.query_session(X[:, 0], n_queries=1) as session:
        session.ask(lambda x: LogisticRegression().fit(X, Y).predict(X[:1])[0])
    assert entries == []
    LogisticRegression().fit(X, Y)  # afterwards it logs again
    assert entries == [("LogisticRegression", 300)]


def test_a_tracker_logs_again_after_an_error(logged):
    entries, module = logged
    with pytest.raises(ValueError, match="epsilon"):
        DPKMeans(2, epsilon=-1.0).fit(X)
    assert not module._AUTOLOGGING_GLOBALLY_DISABLED
    KMeans(2).fit(X)
    assert entries == [("KMeans", 300)]


def test_what_was_switched_off_before_stays_off(logged):
    entries, module = logged
    with module.disable_autologging():
        kmeans(None).fit(X)
        KMeans(2).fit(X)
    assert entries == []


def test_two_threads_switch_it_off_for_as_long_as_either_needs(logged):
    _, module = logged
    inside, leave = threading.Event(), threading.Event()

    def first():
        with untracked():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=first)
    thread.start()
    inside.wait(10)
    with untracked():
        leave.set()
        thread.join()
        assert module._AUTOLOGGING_GLOBALLY_DISABLED
    assert not module._AUTOLOGGING_GLOBALLY_DISABLED


@pytest.mark.slow
def test_mlflow_itself(tmp_path, monkeypatch):
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    import mlflow
    import mlflow.sklearn

    mlflow.set_tracking_uri(f"file://{tmp_path}")
    mlflow.set_experiment("private")
    mlflow.sklearn.autolog(log_datasets=False, log_models=False, silent=True)
    try:
        kmeans(None).fit(X)
        DPSubsampleAggregate(LogisticRegression(), public=X[:20], classes=[0, 1], n_blocks=10).fit(
            X, Y
        )
        assert mlflow.search_runs(output_format="list") == []
        pipe = make_pipeline(DPStandardScaler(bounds=(-5, 5)), kmeans(None)).fit(X)
        (run,) = mlflow.search_runs(output_format="list")
        assert run.data.tags["estimator_class"] == "sklearn.pipeline.Pipeline"
        assert run.data.params["dpkmeans__epsilon"] == "1.0"
    finally:
        mlflow.sklearn.autolog(disable=True, silent=True)
    assert pipe[-1].cluster_centers_.shape == (2, 2)


# --- yellowbrick --------------------------------------------------------------------------------


def calling(module, estimator):
    """Fit from a function of another module, as a visualizer does."""
    made = types.ModuleType(module)
    exec("def fit(estimator, X):\n    return estimator.fit(X)\n", made.__dict__)
    return lambda: made.fit(estimator, X)


def test_a_visualizer_of_clusters_is_refused_before_the_charge():
    budget = PrivacyBudget(9.0)
    module = "yellowbrick.cluster.elbow"
    for made in (kmeans(budget), make_pipeline(kmeans(budget))):
        with pytest.raises(TypeError, match="DPKMeans is not fitted by yellowbrick"):
            calling(module, made)()
    with pytest.raises(TypeError, match="importances"):
        calling("yellowbrick.model_selection.importances", DPPCA(2, budget=budget))()
    assert budget.charges == []
    calling("yellowbrick.features.manifold", kmeans(budget))()  # draws what is transformed
    calling("yellowbrick_of_mine.cluster", kmeans(budget))()
    assert len(budget.charges) == 2
    marked = DPLogisticRatio(bounds=(-5, 5), budget=budget)  # has coef_
    made = types.ModuleType("yellowbrick.model_selection.importances")
    exec("def fit(estimator, X, y):\n    return estimator.fit(X, y)\n", made.__dict__)
    made.fit(marked, X, Y)
    assert len(budget.charges) == 3


def test_yellowbrick_itself():
    cluster = pytest.importorskip("yellowbrick.cluster")
    importances = pytest.importorskip("yellowbrick.model_selection")
    budget = PrivacyBudget(9.0)
    more = {"force_model": True}  # yellowbrick 1.5 knows no clusterer of scikit-learn 1.9
    for visualizer in (
        cluster.KElbowVisualizer(kmeans(budget), k=(2, 4), **more),
        cluster.SilhouetteVisualizer(kmeans(budget), **more),
        cluster.InterclusterDistance(kmeans(budget), **more),
        importances.FeatureImportances(DPPCA(2, budget=budget)),
    ):
        with pytest.raises(TypeError, match="is not fitted by yellowbrick"):
            visualizer.fit(X)
        (one,) = (f for f in check_pipeline(visualizer) if f.severity == "high")
        assert one.where == type(visualizer).__name__
    assert budget.charges == []


def test_a_wrapper_that_passes_on_every_attribute_has_no_price():
    class Wrapper(BaseEstimator):
        def __init__(self, estimator=None):
            self.estimator = estimator

        def __getattr__(self, name):
            if name.startswith("__") or name == "estimator":
                raise AttributeError(name)
            return getattr(self.estimator, name)

        def fit(self, X, y=None):
            return self

    (one,) = check_pipeline(Wrapper(kmeans(PrivacyBudget(1.0))))
    assert one.where == "Wrapper"
    assert "an unknown number of times" in one.what


def test_boosting_by_errors_on_all_rows_is_refused():
    """Its weights move with every row, and no ledger would see it."""
    X = np.random.default_rng(0).normal(size=(60, 2))
    budget = PrivacyBudget(10.0)
    model = DPLogisticRegression(classes=[0, 1], bounds=(-3, 3), weight_bound=1.0, budget=budget)
    with pytest.raises(TypeError, match="AdaBoost weighs a row by the errors"):
        AdaBoostClassifier(model, n_estimators=2).fit(X, X[:, 0] > 0)
    assert budget.spent.epsilon == 0
