"""`with budget:` counts what workers fit, or they refuse to fit: no fit of a block is uncounted."""

from __future__ import annotations

import functools
import io
import itertools
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import SimpleNamespace

import cloudpickle
import joblib
import numpy as np
import pandas as pd
import pytest
from joblib import Parallel, delayed
from joblib.externals.loky.backend import reduction
from joblib.parallel import BatchedCalls, SequentialBackend
from joblib.pool import CustomizablePickler
from sklearn.model_selection import cross_validate

import skdp
from skdp import DPStandardScaler, PrivacyBudget, _forks, statistics
from skdp.aggregation import DPGroupBy
from skdp.budget import ambient
from skdp.exceptions import UncountedFitWarning
from tests.folding import each

ROOT = Path(__file__).resolve().parents[2]
X = np.random.default_rng(0).random((60, 3))
CANNOT_KNOW = "cannot know whether a `with budget:` there counts the fit"
FORKS = "fork" in multiprocessing.get_all_start_methods()


def scale(budget=None):
    return DPStandardScaler(epsilon=0.25, bounds=(0.0, 1.0), budget=budget).fit(X)


def mean():
    return statistics.mean(X, bounds=(0, 1), epsilon=0.25)


def count_by():
    table = pd.DataFrame({"page": [0, 1] * 5, "user": range(10)})
    by = DPGroupBy("page", "user", keys=[0, 1], epsilon=0.25, max_rows_per_unit=1)
    return by.agg(n="count").fit(table)


MADE = [scale, mean, count_by]
NAMES = ["DPStandardScaler", "mean", "DPGroupBy"]


def make(function):
    """In a worker: make what names no budget, and fit it."""
    function()
    return os.getpid()


def warnings_of(function):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    return [w.category for w in caught if w.category is UncountedFitWarning]


def refused(function, *args):
    """Return how a call is refused, "" if it is not."""
    try:
        function(*args)
    except ValueError as error:
        return str(error)
    return ""


def allowed(function):
    with skdp.config_context(uncounted_fits="allow"):
        return warnings_of(function)


def counted_by(budget, function):
    with budget:
        return make(function)


def zero(estimator, X, y=None):
    return 0.0


def names(budget):
    return sorted(charge.estimator for charge in budget.charges)


def run_alone(code):
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def batch():
    """Return a batch as joblib makes it of a call here."""
    task = ambient._Task(os.getpid, ambient._Call())
    return BatchedCalls([(task, (), {})], (SequentialBackend(), 1))


def marks(pickled):
    """Return what a pickled batch tells its worker, without running it."""
    return vars(pickle.loads(pickled).items[0][0])


# -- joblib ---------------------------------------------------------------------------------------


def wait_for(path):
    deadline = time.monotonic() + 120
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def meet(folder, number, function):
    """Fit at the same time as the other task: each of the two workers has one."""
    (folder / f"{number}").touch()
    wait_for(folder / f"{1 - number}")
    return make(function)


@pytest.mark.parametrize("backend", ["loky", "multiprocessing", "threading"])
def test_joblib_counts_what_tasks_make(backend, tmp_path):
    """In nested blocks, and in workers that stood before the block."""
    numbers = itertools.count()

    def run():
        folder = tmp_path / f"{next(numbers)}"
        folder.mkdir()
        parallel = Parallel(n_jobs=2, backend=backend, batch_size=1)
        fits = enumerate([scale, mean])
        return set(parallel(delayed(meet)(folder, i, one) for i, one in fits))

    outer, inner = PrivacyBudget(10.0), PrivacyBudget(10.0)
    before = run()
    with outer:
        run()
        with inner:
            during = run()
        run()
    run()
    assert names(outer) == ["DPStandardScaler"] * 2 + ["mean"] * 2
    assert names(inner) == ["DPStandardScaler", "mean"]
    assert (os.getpid() in during) == (backend == "threading")
    assert backend != "loky" or during == before


def test_an_uncounted_fit_in_a_worker_warns_beside_a_budget_only():
    ambient._LIVE.clear()

    def run():
        return Parallel(n_jobs=2)(delayed(warnings_of)(one) for one in [scale, mean])

    assert run() == [[], []]
    budget = PrivacyBudget(10.0)
    assert run() == [[UncountedFitWarning]] * 2
    with budget:
        assert run() == [[], []]
    del budget
    ambient._LIVE.clear()
    assert run() == [[], []]


def in_threads(function):
    return Parallel(n_jobs=2, backend="threading")(delayed(function)() for _ in range(2))


@pytest.mark.slow
def test_threads_of_a_worker_are_counted_as_it_is():
    budget = PrivacyBudget(10.0)

    def run():
        return Parallel(n_jobs=2)(delayed(in_threads)(mean) for _ in range(2))

    with budget:
        run()
    assert names(budget) == ["mean"] * 4
    run()
    assert names(budget) == ["mean"] * 4


def test_a_table_of_users_is_counted_too():
    budget = PrivacyBudget(10.0, 1e-5, unit="user")
    with budget:
        Parallel(n_jobs=2)(delayed(make)(count_by) for _ in range(2))
    assert names(budget) == ["DPGroupBy"] * 2


def fit_later(number, folder):
    (folder / f"started {number}").touch()
    wait_for(folder / "go")
    scale()


@pytest.mark.slow
def test_a_task_that_outlives_its_block_is_charged_to_it(tmp_path):
    budget, other = PrivacyBudget(10.0), PrivacyBudget(10.0)
    with budget:
        parallel = Parallel(n_jobs=2, return_as="generator_unordered")
        found = parallel(delayed(fit_later)(i, tmp_path) for i in range(2))
        for i in range(2):
            wait_for(tmp_path / f"started {i}")
    with other:
        (tmp_path / "go").touch()
        list(found)
    assert names(budget) == ["DPStandardScaler"] * 2
    assert names(other) == []


def fit_when(go):
    wait_for(go)
    return make(scale)


# Pickling in joblib's threads, in one task after the other, or when joblib asks for more.
@each("backend", ["loky", "threading", "sequential"])
@each("pre_dispatch", ["all", 2])
def test_the_block_is_that_of_the_call_for_all_of_its_tasks(backend, pre_dispatch, tmp_path):
    """Whichever block a generator is consumed in, and whenever its tasks are sent."""
    inside, outside, other = PrivacyBudget(10.0), PrivacyBudget(10.0), PrivacyBudget(10.0)
    options = {"return_as": "generator", "pre_dispatch": pre_dispatch, "batch_size": 1}
    with joblib.parallel_config(backend, n_jobs=1 if backend == "sequential" else 2):
        for budget, around in [(inside, threading.Lock()), (outside, other)]:
            go = tmp_path / f"{id(budget)}"
            with budget:
                found = Parallel(**options)(delayed(fit_when)(go) for _ in range(6))
            with around:
                go.touch()
                assert len(list(found)) == 6
    assert names(inside) == names(outside) == ["DPStandardScaler"] * 6
    assert names(other) == []


def test_a_call_outside_is_not_counted_by_a_later_block(tmp_path):
    budget = PrivacyBudget(10.0)
    parallel = Parallel(n_jobs=2, return_as="generator", pre_dispatch="all", batch_size=1)
    found = parallel(delayed(fit_when)(tmp_path / "go") for _ in range(6))
    with budget:
        (tmp_path / "go").touch()
        assert len(list(found)) == 6
    assert names(budget) == []


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_two_blocks_of_two_threads_do_not_mix_in_workers(backend):
    budgets = [PrivacyBudget(10.0) for _ in range(2)]
    entered, answers = threading.Barrier(2), []

    def run(budget):
        with budget:
            entered.wait(120)
            parallel = Parallel(n_jobs=2, backend=backend, batch_size=1)
            answers.append(parallel(delayed(refused)(scale, one) for one in [None, budget]))
            entered.wait(120)

    threads = [threading.Thread(target=run, args=(budget,)) for budget in budgets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [["", ""]] * 2
    assert [names(budget) for budget in budgets] == [["DPStandardScaler"] * 2] * 2


def test_a_call_whose_block_nobody_can_tell_is_refused_in_workers():
    budgets = [PrivacyBudget(10.0) for _ in range(2)]
    entered, end = threading.Barrier(3), threading.Event()

    def run(budget):
        with budget:
            entered.wait(120)
            end.wait(120)

    threads = [threading.Thread(target=run, args=(budget,)) for budget in budgets]
    for thread in threads:
        thread.start()
    entered.wait(120)
    made = batch()
    end.set()
    for thread in threads:
        thread.join()
    assert marks(pickle.dumps(made)) == {ambient._OUTSIDE: None}


def test_tasks_that_fit_nothing_do_not_ask_for_the_ledger(monkeypatch):
    """Whose server may be silent; nor do their own calls of joblib."""
    budget = PrivacyBudget(1.0)
    with budget:
        found = Parallel(n_jobs=2)(delayed(in_threads)(os.getpid) for _ in range(2))
        pickled = pickle.dumps(batch())
    assert len(found) == 2

    def attach(*args, **kwargs):
        raise AssertionError("the ledger was opened")

    monkeypatch.setattr(PrivacyBudget, "_attach", attach)
    assert pickle.loads(pickled)() == [os.getpid()]
    block = ambient.enter(ambient._Sent(pickle.dumps(budget)))
    try:
        assert in_threads(os.getpid) == [os.getpid()] * 2
    finally:
        ambient.leave(block)


def test_a_search_without_any_budget_goes_on_in_workers():
    ambient._LIVE.clear()
    with joblib.parallel_config("loky"):
        found = cross_validate(
            DPStandardScaler(bounds=(0, 1)), X, scoring=zero, cv=2, n_jobs=2, error_score="raise"
        )
    assert found["test_score"].tolist() == [0.0, 0.0]


def test_a_process_that_has_not_imported_budgets_has_no_block(monkeypatch):
    """Its batches tell nothing: a script that uses skdp in its workers only."""
    budget = PrivacyBudget(10.0)
    monkeypatch.setattr(Parallel, "__call__", ambient._parallel)
    fits = Parallel(n_jobs=2)(delayed(refused)(one) for one in [scale, mean])
    assert fits == ["", ""]
    # But where that process is a worker, which was told nothing.
    monkeypatch.setattr(ambient, "current_process", lambda: SimpleNamespace(name="LokyProcess-1:1"))
    monkeypatch.setattr(_forks, "knows_parents", lambda: False)
    bare = BatchedCalls([(refused, (scale,), {})], (SequentialBackend(), 1))
    assert CANNOT_KNOW in bare()[0]
    assert budget.charges == []


def test_a_private_search_does_not_lose_fits_to_workers():
    """What its runs fit is seen by nobody in other processes, so it is refused there."""
    budget = PrivacyBudget(10.0)
    with budget, ambient.only_here(PrivacyBudget(10.0)):
        made = batch()
    assert marks(pickle.dumps(made)) == {ambient._OUTSIDE: None}


def loky_dumps(made):
    return bytes(reduction.dumps(made))


def pool_dumps(made):
    stream = io.BytesIO()
    CustomizablePickler(stream).dump(made)
    return stream.getvalue()


def dask_dumps(made):
    from distributed.protocol.pickle import dumps

    return dumps(made)


@each(
    "dumps",
    [pickle.dumps, cloudpickle.dumps, loky_dumps, pool_dumps, dask_dumps, ForkingPickler.dumps],
)
def test_every_pickler_of_joblibs_backends_takes_the_block_along(dumps):
    budget = PrivacyBudget(1.0)
    with budget:
        made = batch()
    loaded = pickle.loads(bytes(dumps(made)))
    assert loaded.items[0][0].args[0].budget() is budget
    assert loaded() == [os.getpid()]
    outside = bytes(dumps(batch()))
    assert marks(outside) == {ambient._OUTSIDE: True}
    assert pickle.loads(outside)() == [os.getpid()]
    assert b"skdp." not in outside  # other tasks go to workers without skdp, too


# -- processes that joblib does not start ---------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_worker_that_cannot_know_refuses(method):
    budget = PrivacyBudget(10.0)
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        for inside in (False, True):
            with budget if inside else threading.Lock():
                for one, name in zip(MADE, NAMES, strict=True):
                    found = pool.submit(refused, one).result()
                    assert found.startswith(f"{name}: budget must be stated here")
                    assert CANNOT_KNOW in found
                    assert all(way in found for way in ("budget=", "with budget:", "'allow'"))
        assert budget.charges == []
        pool.submit(make, functools.partial(scale, budget)).result()
        pool.submit(counted_by, budget, mean).result()
        with budget:
            plain = DPStandardScaler(epsilon=0.25, bounds=(0.0, 1.0))
            pool.submit(plain.fit, X).result()
        assert names(budget) == ["DPStandardScaler"] * 2 + ["mean"]
        assert pool.submit(allowed, mean).result() == []
        assert CANNOT_KNOW in pool.submit(refused, mean).result()
    assert len(budget.charges) == 3


@pytest.mark.slow
def test_dask_counts_or_refuses(tmp_path):
    from dask.distributed import Client, LocalCluster

    budget = PrivacyBudget(10.0)
    options = {"n_workers": 1, "threads_per_worker": 2, "dashboard_address": ":0"}
    with (
        LocalCluster(local_directory=str(tmp_path), **options) as cluster,
        Client(cluster) as client,
        joblib.parallel_config("dask"),
    ):

        def run():
            return Parallel(n_jobs=2)(delayed(make)(one) for one in [scale, mean])

        with budget:
            during = run()
            assert CANNOT_KNOW in client.submit(refused, mean, pure=False).result()
            plain = DPStandardScaler(epsilon=0.25, bounds=(0.0, 1.0))
            client.submit(plain.fit, X, pure=False).result()
        assert os.getpid() not in during
        assert names(budget) == ["DPStandardScaler"] * 2 + ["mean"]
        assert CANNOT_KNOW in client.submit(refused, mean, pure=False).result()
        client.submit(counted_by, budget, mean, pure=False).result()
        run()  # outside of all blocks
    assert len(budget.charges) == 4


def test_threads_of_dask_and_spark_do_not_take_blocks_of_other_tasks(monkeypatch):
    budget = PrivacyBudget(10.0)
    worker = SimpleNamespace(address="tcp://10.0.0.1:8786")
    fake = {
        "distributed": SimpleNamespace(get_worker=lambda: worker),
        "pyspark": SimpleNamespace(TaskContext=SimpleNamespace(get=object)),
    }
    for name, module in fake.items():
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, name, module)
            with budget:
                scale()
                with ThreadPoolExecutor(1) as pool:
                    assert CANNOT_KNOW in pool.submit(refused, scale).result()
    worker.address = "inproc://10.0.0.1/1/1"  # whose tasks are of this process
    monkeypatch.setitem(sys.modules, "distributed", fake["distributed"])
    with budget, ThreadPoolExecutor(1) as pool:
        pool.submit(scale).result()
    assert len(budget.charges) == 3


# -- forked children ------------------------------------------------------------------------------


class Forked:
    """A child of this process, forked here; it fits, and answers how it was refused, when asked."""

    def __init__(self, function=scale):
        ask, self._ask = os.pipe()
        self._answer, answer = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                while os.read(ask, 1):
                    os.write(answer, (refused(function) or "fitted").encode().ljust(1000))
            finally:
                os._exit(0)
        os.close(ask)
        os.close(answer)

    def fits(self):
        os.write(self._ask, b"?")
        text = os.read(self._answer, 1000).decode().strip()
        assert text == "fitted" or CANNOT_KNOW in text or "several threads" in text, text
        return text == "fitted"

    def __enter__(self):
        return self

    def __exit__(self, *error):
        os.write(self._ask, b"")
        os.close(self._ask)
        os.close(self._answer)
        os.kill(self._pid, 9)
        os.waitpid(self._pid, 0)


@pytest.mark.skipif(not FORKS, reason="the platform has no fork")
def test_a_forked_child_charges_the_block_until_another_may_be_meant():
    budget, other = PrivacyBudget(10.0), PrivacyBudget(10.0)
    with Forked() as before:
        assert before.fits()  # no block, and there was none since
        with budget:
            assert not before.fits()
            with Forked() as inside:
                assert inside.fits()
                with other:
                    assert not inside.fits()
                    with Forked() as nested:
                        assert nested.fits()
                assert not inside.fits()
            nested = Forked()
        with nested:
            assert nested.fits()  # it may have been started inside the block
            with other:
                assert not nested.fits()
        assert not before.fits()
        with Forked() as after:
            assert after.fits()
    assert len(budget.charges) == 2
    assert len(other.charges) == 1


@pytest.mark.skipif(not FORKS, reason="the platform has no fork")
def test_children_of_forked_children_know_no_more_than_these():
    def grandchild():
        with Forked() as child:
            if not child.fits():
                raise ValueError(CANNOT_KNOW)

    budget = PrivacyBudget(10.0)
    with Forked(grandchild) as child:
        assert child.fits()
        with budget:
            assert not child.fits()
    with budget, Forked(grandchild) as child:
        assert child.fits()
    assert len(budget.charges) == 1


@pytest.mark.skipif(not FORKS, reason="the platform has no fork")
def test_a_child_of_several_threads_in_blocks_takes_none_of_them():
    budgets = [PrivacyBudget(10.0) for _ in range(2)]
    entered, end = threading.Event(), threading.Event()

    def run():
        with budgets[1]:
            entered.set()
            end.wait(120)

    thread = threading.Thread(target=run)
    with budgets[0]:
        thread.start()
        entered.wait(120)
        with Forked() as child:
            assert not child.fits()
        end.set()
        thread.join()
    assert [budget.charges for budget in budgets] == [[], []]


@pytest.mark.skipif(not FORKS, reason="the platform has no fork")
def test_pools_of_forked_workers_are_counted_as_their_children_are():
    context = multiprocessing.get_context("fork")
    budget = PrivacyBudget(10.0)
    with context.Pool(1) as before, budget, context.Pool(1) as inside:
        assert CANNOT_KNOW in before.apply(refused, (mean,))
        before.apply(scale, (budget,))
        before.apply(counted_by, (budget, mean))
        inside.apply(make, (mean,))
    with budget, ProcessPoolExecutor(1, mp_context=context) as pool:
        pool.submit(make, scale).result()
    assert names(budget) == ["DPStandardScaler"] * 2 + ["mean"] * 2


def fork_later(go):
    wait_for(go)
    with Forked() as child:
        return child.fits()


@pytest.mark.skipif(not FORKS, reason="the platform has no fork")
def test_a_child_of_a_task_of_joblib_charges_the_block_of_its_call(tmp_path):
    budget = PrivacyBudget(10.0)
    with budget:
        parallel = Parallel(n_jobs=2, backend="threading", return_as="generator")
        found = parallel(delayed(fork_later)(tmp_path / "go") for _ in range(1))
    (tmp_path / "go").touch()
    assert list(found) == [True]
    assert names(budget) == ["DPStandardScaler"]


EARLY = """
import multiprocessing, sys
import skdp

def mean():
    try:
        skdp.statistics.mean([[0.5]] * 60, bounds=(0, 1), epsilon=0.25)
    except ValueError as error:
        return str(error)
    return "fitted"

with multiprocessing.get_context("fork").Pool(1) as pool:
    assert "skdp.budget" not in sys.modules and "joblib" not in sys.modules
    print(pool.apply(mean))
    with skdp.PrivacyBudget(1.0):
        print(pool.apply(mean))
"""


@pytest.mark.slow
@pytest.mark.skipif(not FORKS, reason="the platform has no fork")
def test_a_child_forked_before_budgets_are_imported_knows_its_parent():
    """It fits where there is no block, and is refused where the parent has entered one since."""
    done = run_alone(EARLY)
    first, second = done.stdout.splitlines()
    assert first == "fitted", done.stderr
    assert CANNOT_KNOW in second


# -- reentrance -----------------------------------------------------------------------------------

INTERRUPTED = """
import atexit, gc, os, signal, sys
import numpy as np
from skdp import DPStandardScaler, PrivacyBudget
from skdp.aggregation import DPGroupBy
from skdp.budget import ambient

X = np.random.default_rng(0).random((60, 3))
outer, inner = PrivacyBudget(1e6), PrivacyBudget(1e6)
fits = 0

def fit():
    global fits
    with inner:
        DPStandardScaler(bounds=(0.0, 1.0), epsilon=1.0).fit(X)
    fits += 1

class Fits:
    def __del__(self):
        fit()

def interrupt():
    # A signal, then a destructor that the garbage collector calls.
    signal.raise_signal(signal.SIGTERM)
    cycle = [Fits()]
    cycle.append(cycle)
    del cycle
    gc.collect(0)

def each_line(frame, event, arg):
    if frame.f_code.co_filename == ambient.__file__:
        if event == "line":
            sys.settrace(None)
            interrupt()
            sys.settrace(each_line)
        return each_line

signal.signal(signal.SIGTERM, lambda *_: fit())
sys.settrace(each_line)
with outer:
    with ambient.only_here(inner):
        pass
    assert ambient.ambient_budget() is outer
sys.settrace(None)
assert ambient.ambient_budget() is None
assert fits > 40
assert inner.spent.epsilon == fits and outer.spent.epsilon == 0
atexit.register(lambda: (fit(), print("fitted at exit", flush=True)))
"""


@pytest.mark.slow
def test_blocks_are_entered_and_fits_counted_in_the_midst_of_any_line_of_blocks():
    """From a signal handler, a destructor and at exit; a lock would hang."""
    done = run_alone(INTERRUPTED)
    assert done.stdout == "fitted at exit\n", done.stderr
