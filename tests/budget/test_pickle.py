"""Pickling: a stable handle, the live object in this process, the same file in another."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import cloudpickle
import joblib
import pytest
from sklearn.base import BaseEstimator

from skdp.budget import Cost, PrivacyBudget, PrivacyLoss
from skdp.exceptions import SealedBudgetError
from tests.folding import each

ROOT = Path(__file__).resolve().parents[2]


class Model(BaseEstimator):
    """An estimator as far as hashing and pickling go."""

    def __init__(self, epsilon=1.0, budget=None):
        self.epsilon, self.budget = epsilon, budget


def spend(budget, epsilon=1.0):
    return budget.charge(Cost(epsilon), estimator="Fake")


def path_of(budget):
    return Path(budget.__reduce__()[1][0])


def elsewhere(code, budget, folder):
    """Run code in a fresh Python process, where `budget` is the unpickled object."""
    (folder / "budget.pickle").write_bytes(pickle.dumps(budget))
    start = "import pickle, sys\nbudget = pickle.load(open(sys.argv[1], 'rb'))\n"
    done = subprocess.run(
        [sys.executable, "-c", start + code, str(folder / "budget.pickle")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])
def test_unpickling_in_the_same_process_gives_the_live_object(dumps):
    budget = PrivacyBudget(3.0)
    assert pickle.loads(dumps(budget)) is budget
    model, copied = pickle.loads(dumps((Model(budget=budget), Model(budget=budget))))
    assert model.budget is copied.budget is budget


def test_a_pickle_outlives_the_object(tmp_path):
    budget = PrivacyBudget(3.0, ledger=tmp_path / "a.budget")
    spend(budget)
    data = pickle.dumps(budget)
    del budget
    budget = pickle.loads(data)
    assert budget.spent.epsilon == 1
    assert pickle.loads(data) is budget


@each("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_the_handle_never_changes(protocol):
    budget = PrivacyBudget(3.0, 1e-6, accountant="gdp", separate_delta=1e-7)
    before = pickle.dumps(budget, protocol)
    hash_before = joblib.hash(Model(budget=budget)), joblib.hash(budget)
    spend(budget, 0.1)
    with budget.reserve(Cost(0.1)):
        budget.release_reservations()
    assert pickle.dumps(budget, protocol) == before
    assert (joblib.hash(Model(budget=budget)), joblib.hash(budget)) == hash_before
    assert joblib.hash(PrivacyBudget(3.0, 1e-6)) != joblib.hash(PrivacyBudget(3.0, 1e-6))


@pytest.mark.slow
def test_another_process_connects_to_the_same_ledger_and_has_the_same_hash(tmp_path):
    budget = PrivacyBudget(3.0, 1e-6, adjacency="add_or_remove_one")
    spend(budget)
    code = """
import joblib
from skdp.budget import Cost
budget.charge(Cost(0.5), estimator="Other")
again = pickle.loads(pickle.dumps(budget))
print(again is budget, budget.spent, budget.adjacency, joblib.hash(budget), sep="|")
"""
    same, spent, adjacency, digest = elsewhere(code, budget, tmp_path).split("|")
    assert same == "True"
    assert spent == repr(PrivacyLoss(1.5, 0.0))
    assert adjacency == "add_or_remove_one"
    assert digest == joblib.hash(budget)
    assert budget.spent.epsilon == 1.5
    assert [c.estimator for c in budget.charges] == ["Fake", "Other"]
    assert path_of(budget).exists()  # the other process, at its end, left the file alone


SEALED = """
from skdp.budget import Cost
from skdp.exceptions import SealedBudgetError
print(budget.sealed, repr(budget), budget.epsilon, pickle.loads(pickle.dumps(budget)) is budget)
budget._repr_html_()
for call in (
    lambda: budget.charge(Cost(0.5), estimator="Other"),
    lambda: budget.check(Cost(0.5)),
    lambda: budget.reserve(Cost(0.5)),
    lambda: budget.split(a=1),
    lambda: budget.release_reservations(),
    lambda: budget.spent,
    lambda: budget.remaining,
    lambda: budget.charges,
    lambda: budget.reservations,
):
    try:
        call()
    except SealedBudgetError as error:
        assert "nothing can be charged" in str(error)
    else:
        raise SystemExit("no error")
"""


@pytest.mark.slow
@pytest.mark.parametrize("fate", ["gone", "replaced", "text"])
def test_where_the_ledger_is_gone_the_budget_is_sealed(tmp_path, fate):
    path = tmp_path / "a.budget"
    budget = PrivacyBudget(3.0, ledger=path)
    spend(budget)
    path.unlink()
    if fate == "replaced":
        PrivacyBudget(3.0, ledger=path)
    if fate == "text":
        path.write_text("a text")
    shown = elsewhere(SEALED, budget, tmp_path)
    assert shown.startswith("True PrivacyBudget(epsilon=3.0, delta=0.0, ledger=")
    assert f"{str(path)!r}, sealed)" in shown


def test_a_sealed_budget_works_again_where_the_ledger_is_back(tmp_path):
    path = tmp_path / "a.budget"
    budget = PrivacyBudget(3.0, ledger=path)
    data = pickle.dumps(budget)
    del budget
    shutil.move(path, tmp_path / "b.budget")
    budget = pickle.loads(data)
    assert repr(budget).endswith(", sealed)")
    assert budget.sealed
    with pytest.raises(SealedBudgetError):
        spend(budget)
    shutil.move(tmp_path / "b.budget", path)
    assert not budget.sealed
    spend(budget)
    assert budget.spent.epsilon == 1


@pytest.mark.slow
def test_a_temporary_ledger_ends_with_the_process_that_made_it(tmp_path):
    code = """
import multiprocessing, os, pickle, sys
from skdp.budget import Cost, PrivacyBudget, ledger

ledger._MEMORY_FOLDER = ""  # as where there is no file system in memory

def make():
    global other
    other = PrivacyBudget(3.0)
    assert os.path.exists(other.__reduce__()[1][0])

budget = PrivacyBudget(3.0)
path = budget.__reduce__()[1][0]
if os.fork() == 0:
    budget.charge(Cost(1.0), estimator="Child")
    sys.exit()  # runs the exit handlers of the child
os.wait()
assert os.path.exists(path) and budget.spent.epsilon == 1
data = pickle.dumps(budget)
del budget
assert pickle.loads(data).spent.epsilon == 1  # it lives as long as the process, not the object
child = multiprocessing.get_context("fork").Process(target=make)
child.start()
child.join()
assert child.exitcode == 0
name = os.path.basename(path)
alive = name.rpartition("-")[0] + ".process"
# And not the child's own.
assert sorted(os.listdir(os.path.dirname(path))) == [name, name + ".lock", alive]
print(path)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    path = Path(done.stdout.strip())
    assert path.parent == tmp_path.resolve()
    assert os.listdir(tmp_path) == []


COLLECTED = """
import os, pickle, sys
from skdp.budget import Cost, PrivacyBudget, ledger

ledger._MEMORY_FOLDER = ""  # as where there is no file system in memory

def files():
    return [name for name in sorted(os.listdir(os.environ["TMPDIR"])) if name.endswith("budget")]

for _ in range(5):
    budget = PrivacyBudget(3.0)
    budget.charge(Cost(1.0), estimator="x")
assert files() == []  # in memory
data = pickle.dumps(budget)
assert len(files()) == 1
del budget
assert pickle.loads(data).spent.epsilon == 1  # somebody else might hold that pickle
budget = PrivacyBudget(3.0)
if os.fork() == 0:
    del budget
    os._exit(0)
os.wait()
assert budget.spent.epsilon == 0  # no child removes it
del budget
assert len(files()) == 2  # and neither do we: a child might still charge it
"""


@pytest.mark.slow
def test_a_temporary_ledger_that_nobody_else_can_hold_goes_with_its_budget(tmp_path):
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", COLLECTED], env=env, check=True)
    assert os.listdir(tmp_path) == []


LEAVES = """
import os, pickle, signal, sys
from skdp.budget import Cost, PrivacyBudget, ledger

ledger._MEMORY_FOLDER = ""  # as where there is no file system in memory
budget = PrivacyBudget(3.0)
pickle.dumps(budget)
budget.charge(Cost(1.0), estimator="x")
how = sys.argv[1]
if how == "waits":
    print("ready", flush=True)
    sys.stdin.read()
    assert budget.spent.epsilon == 1
if how == "is killed":
    os.kill(os.getpid(), signal.SIGKILL)
if how == "its child is killed":  # and holds nothing of its parent
    if os.fork() == 0:
        pickle.dumps(PrivacyBudget(3.0))
        os.kill(os.getpid(), signal.SIGKILL)
    os.wait()
    os._exit(0)
if how == "leaves at once":
    os._exit(0)
"""


@pytest.mark.slow
def test_what_a_killed_process_leaves_the_next_one_removes(tmp_path):
    """And nothing of a process that lives."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", LEAVES]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([*command, "waits"], env=env, **pipes) as alive:
        assert alive.stdout.readline() == "ready\n"
        held = set(os.listdir(tmp_path))
        assert len(held) == 3  # a ledger, its sidecar, and what says that the process is alive
        for how in ("is killed", "leaves at once", "its child is killed"):
            subprocess.run([*command, how], env=env, check=False)
            assert set(os.listdir(tmp_path)) > held
        subprocess.run([*command, "exits"], env=env, check=True)
        assert set(os.listdir(tmp_path)) == held
        alive.communicate("")
    assert alive.returncode == 0
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_a_named_ledger_stays(tmp_path):
    code = "from skdp.budget import PrivacyBudget as P; P(1.0, ledger='a.budget')"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], env=env, cwd=tmp_path, check=True)
    assert "a.budget" in os.listdir(tmp_path)
