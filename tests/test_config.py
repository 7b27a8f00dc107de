"""`config_context(noise="seeded")`: what it reaches, and that nothing else seeds noise.

The suite runs inside the context (conftest.py); ``system_noise`` is how everybody else runs.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import pickle
import threading

import joblib
import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.utils.parallel import Parallel as SklearnParallel
from sklearn.utils.parallel import delayed as sklearn_delayed

import skdp
from skdp import DPKMeans, DPStandardScaler, PrivacyBudget, SeededNoiseWarning, statistics
from skdp.core import open_session
from skdp.core.transcript import record, replay
from skdp.model_selection import private_scorer
from skdp.tabular import check_rows
from tests.folding import each

X = np.random.default_rng(0).normal(size=(200, 2))
Y = np.arange(200) % 2


def scaler(**params):
    return DPStandardScaler(bounds=(-5, 5), **{"random_state": 0, **params})


def model():
    return make_pipeline(scaler(random_state=None), LogisticRegression())


def zero(estimator, X, y=None):
    return 0.0


def means(fitted):
    return fitted.mean_.tolist()


# --- outside ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("system_noise")
class TestOutside:
    def test_no_random_state_seeds_noise(self):
        for state in (0, np.random.RandomState(0), None):
            fits = [scaler(random_state=state).fit(X) for _ in range(3)]
            assert len({tuple(means(fit)) for fit in fits}) == 3
            assert not any(fit.privacy_.seeded for fit in fits)

    def test_nor_that_of_a_function_or_of_a_scorer(self):
        answers = {statistics.mean(X, bounds=(-5, 5), random_state=0).value[0] for _ in range(3)}
        assert len(answers) == 3
        fitted = DPKMeans(2, bounds=(-5, 5)).fit(X)
        scorer = private_scorer("neg_inertia", epsilon=1.0, bounds=100.0, random_state=0)
        assert len({scorer(fitted, X) for _ in range(3)}) == 3

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "ensemble",
        [
            BaggingClassifier(model(), n_estimators=2, random_state=0),
            BaggingClassifier(model(), n_estimators=2, random_state=0, n_jobs=2),
            VotingClassifier([("a", model()), ("b", model())]),
        ],
        ids=["bagging", "bagging in workers", "voting"],
    )
    def test_an_ensemble_seeds_no_noise(self, ensemble):
        first, second = clone(ensemble).fit(X, Y), clone(ensemble).fit(X, Y)
        scalers = [member[0] for fitted in (first, second) for member in fitted.estimators_]
        assert not any(one.privacy_.seeded for one in scalers)
        assert len({tuple(means(one)) for one in scalers}) == 4

    def test_nothing_is_marked_and_nothing_warns(self, recwarn):
        budget = PrivacyBudget(2.0)
        scaler(budget=budget).fit(X)
        assert not budget.charges[0].seeded
        assert not any(issubclass(w.category, SeededNoiseWarning) for w in recwarn)

    def test_post_processing_is_seeded(self):
        with record() as transcript:
            DPKMeans(4, bounds=(-5, 5)).fit(X)
        with replay(transcript):  # the same releases
            first = DPKMeans(4, bounds=(-5, 5), random_state=3).fit(X)
        with replay(transcript):
            second = DPKMeans(4, bounds=(-5, 5), random_state=3).fit(X)
        np.testing.assert_array_equal(first.cluster_centers_, second.cluster_centers_)
        rows = check_rows(X, estimator="test")
        draws = [
            open_session(rows, estimator="test", epsilon=1.0, random_state=state)
            .post_processing_rng()
            .integers(2**62)
            for state in (1, 1, 2, None, None)
        ]
        assert draws[0] == draws[1]
        assert len(set(draws)) == 4

    def test_the_config_says_so(self):
        assert skdp.get_config() == {"noise": "system", "uncounted_fits": "warn"}


# --- inside -------------------------------------------------------------------------------------


def test_a_random_state_repeats_the_noise_and_is_marked():
    budget = PrivacyBudget(2.0)
    first = scaler(random_state=7, budget=budget).fit(X)
    assert means(first) == means(scaler(random_state=7, budget=PrivacyBudget(9.0)).fit(X))
    assert first.privacy_.seeded
    assert budget.charges[0].seeded
    assert not scaler(random_state=None).fit(X).privacy_.seeded


@pytest.mark.usefixtures("system_noise")
def test_the_warning_names_the_context():
    with (
        skdp.config_context(noise="seeded"),
        pytest.warns(SeededNoiseWarning, match="config_context"),
    ):
        scaler(budget=PrivacyBudget(2.0)).fit(X)


@pytest.mark.usefixtures("system_noise")
def test_contexts_nest_and_end_with_an_error():
    def noise():
        return skdp.get_config()["noise"]

    with skdp.config_context(noise="seeded"):
        with skdp.config_context(noise="system"):
            assert noise() == "system"
            with skdp.config_context(noise="seeded"):
                assert noise() == "seeded"
            assert noise() == "system"
        assert noise() == "seeded"
    with pytest.raises(ZeroDivisionError), skdp.config_context(noise="seeded"):
        raise ZeroDivisionError
    assert noise() == "system"


@each("value", ["seed", "", False, True, 0, ["seeded"]])
def test_a_wrong_setting_is_refused(value):
    with pytest.raises(ValueError, match="noise must be 'seeded' or 'system'"):
        skdp.config_context(noise=value).__enter__()
    with pytest.raises(ValueError, match="uncounted_fits must be 'allow' or 'warn'"):
        skdp.config_context(uncounted_fits=value).__enter__()


def _settings(*_):
    return skdp.get_config()


@pytest.mark.usefixtures("system_noise")
def test_settings_do_not_change_each_other():
    seeded, allow = {"noise": "seeded"}, {"uncounted_fits": "allow"}
    before = sklearn.get_config()
    with skdp.config_context(**seeded):
        with skdp.config_context(**allow):
            assert skdp.get_config() == seeded | allow
            with skdp.config_context(noise="system"):
                assert skdp.get_config() == {"noise": "system"} | allow
            with skdp.config_context(uncounted_fits="warn"), skdp.config_context():
                assert skdp.get_config() == seeded | {"uncounted_fits": "warn"}
            tasks = (sklearn_delayed(_settings)(i) for i in range(2))
            assert SklearnParallel(n_jobs=2)(tasks) == [seeded | allow] * 2
        assert skdp.get_config() == seeded | {"uncounted_fits": "warn"}
    assert sklearn.get_config() == before


def test_the_configuration_of_scikit_learn_stays_as_it_is():
    with skdp.config_context(noise="system"):
        before = sklearn.get_config()
        with skdp.config_context(noise="seeded"):
            assert sklearn.get_config() == before
            sklearn.set_config(assume_finite=False)
        assert sklearn.get_config() == before


@pytest.mark.parametrize("backend", ["threading", "loky", "multiprocessing"])
def test_it_reaches_the_workers_of_scikit_learn(backend):
    with joblib.parallel_config(backend, n_jobs=2):
        here, there = (
            cross_validate(scaler(), X, scoring=zero, cv=2, return_estimator=True, n_jobs=n)
            for n in (1, 2)
        )
    assert all(fit.privacy_.seeded for fit in there["estimator"])
    assert [means(fit) for fit in here["estimator"]] == [means(fit) for fit in there["estimator"]]


@pytest.mark.usefixtures("system_noise")
@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_workers_forget_it(backend):
    def fits():
        run = cross_validate(scaler(), X, scoring=zero, cv=2, return_estimator=True, n_jobs=2)
        return [fit.privacy_.seeded for fit in run["estimator"]]

    with joblib.parallel_config(backend, n_jobs=2):
        with skdp.config_context(noise="seeded"):
            assert fits() == [True, True]
        assert fits() == [False, False]


def test_it_does_not_reach_other_threads():
    found = []
    thread = threading.Thread(target=lambda: found.append(scaler().fit(X).privacy_.seeded))
    thread.start()
    thread.join()
    assert found == [False]


@pytest.mark.usefixtures("system_noise")
def test_nothing_carries_it_out_of_the_block():
    with skdp.config_context(noise="seeded"):
        estimator = scaler().fit(X)
        taken = sklearn.get_config()
        saved = pickle.dumps((estimator, clone(estimator)))
    for loaded in pickle.loads(saved):
        assert not loaded.fit(X).privacy_.seeded
    with sklearn.config_context(**taken):  # a configuration that was kept
        assert not scaler().fit(X).privacy_.seeded


def test_a_session_keeps_the_noise_that_it_was_opened_with():
    with skdp.config_context(noise="system"):
        with skdp.config_context(noise="seeded"):
            session = statistics.query_session(X[:, 0], n_queries=1, random_state=0)
        with session:
            session.ask(lambda x: x > 0)
        assert session.privacy_.seeded


def _is_seeded(_):
    return skdp.get_config()["noise"]


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="the platform has no fork"
)
def test_a_process_forked_inside_the_block_is_outside_of_it(system_noise):
    context = multiprocessing.get_context("fork")
    with skdp.config_context(noise="seeded"):
        pool = context.Pool(1)
        try:
            inside = pool.map(_is_seeded, [0])
        except BaseException:
            pool.terminate()
            raise
    with pool:
        assert inside == pool.map(_is_seeded, [0]) == ["system"]


def test_other_tasks_of_the_thread_are_outside_of_it(system_noise):
    def is_seeded():
        return scaler().fit(X).privacy_.seeded

    async def run():
        inside, asked = asyncio.Event(), asyncio.Event()

        async def entering():
            with skdp.config_context(noise="seeded"):
                inside.set()
                await asked.wait()
                return is_seeded(), await asyncio.create_task(created()), bagged()

        async def created():
            return is_seeded()

        def bagged():  # threads of scikit-learn, within a task
            voters = VotingClassifier([(str(i), model()) for i in range(2)], n_jobs=2)
            for step in voters.estimators:
                step[1].set_params(dpstandardscaler__random_state=0)
            with joblib.parallel_config("threading"):
                voters.fit(X, Y)
            return all(one[0].privacy_.seeded for one in voters.estimators_)

        async def other():
            await inside.wait()
            found = is_seeded()
            asked.set()
            return found

        outside = asyncio.create_task(other())
        return await entering(), await outside, is_seeded()

    assert asyncio.run(run()) == ((True, True, True), False, False)


def test_padded_blocks_end_at_multiples_of_the_stated_time(monkeypatch):
    """Blocks of any length, failures included, by a clock that sleeps too short."""
    now = [100.0]

    def sleep(seconds):
        now[0] += min(seconds, 0.3)

    monkeypatch.setattr("skdp._config.time.monotonic", lambda: now[0])
    monkeypatch.setattr("skdp._config.time.sleep", sleep)
    for took, ends in [(0.0, 2.0), (0.1, 2.0), (1.9, 2.0), (2.0, 2.0), (2.5, 4.0), (7.0, 8.0)]:
        started = now[0]
        with skdp.pad_time(2.0):
            now[0] += took
        assert now[0] - started == pytest.approx(ends, abs=1e-9)
    started = now[0]
    with pytest.raises(ZeroDivisionError), skdp.pad_time(2):
        raise ZeroDivisionError
    assert now[0] - started == pytest.approx(2.0, abs=1e-9)


@each("seconds", [0, -1.0, np.nan, np.inf, 5e-324, 1e-7, 1e300, True, "1", None])
def test_padded_blocks_need_a_time(seconds):
    with pytest.raises((TypeError, ValueError), match="seconds must be a"):
        skdp.pad_time(seconds).__enter__()
