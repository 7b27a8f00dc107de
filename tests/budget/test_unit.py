"""The unit of a budget: stated once, kept by ledger, pickles and copies, and shown."""

from __future__ import annotations

import pickle
import sqlite3

import pytest
from sklearn.base import clone

from skdp import ledger as viewer
from skdp.budget import Cost, PrivacyBudget, ledger
from skdp.preprocessing import DPStandardScaler


def test_the_unit_is_stored_and_compared_on_reopening(tmp_path):
    path = tmp_path / "a.budget"
    budget = PrivacyBudget(1.0, unit="user_id", ledger=path)
    assert budget.unit == "user_id"
    assert PrivacyBudget(1.0, unit="user_id", ledger=path).unit == "user_id"
    for other in (None, "visit_id"):
        with pytest.raises(ValueError, match="unit=user_id, not"):
            PrivacyBudget(1.0, unit=other, ledger=path)


def test_a_ledger_without_a_unit_is_none_of_users(tmp_path):
    path = tmp_path / "a.budget"
    PrivacyBudget(1.0, ledger=path)
    with pytest.raises(ValueError, match="unit=None, not user_id"):
        PrivacyBudget(1.0, unit="user_id", ledger=path)


def test_an_older_ledger_opens_with_a_row_as_its_unit(tmp_path):
    path = tmp_path / "a.budget"
    PrivacyBudget(1.0, ledger=path).charge(Cost(0.25), estimator="A")
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE ledger DROP COLUMN unit")
        connection.execute("PRAGMA user_version = 3")
    connection.close()
    ledger._CHECKED.clear()
    budget = PrivacyBudget(1.0, ledger=path)
    assert budget.unit is None
    assert budget.remaining.epsilon == 0.75


@pytest.mark.parametrize("unit", [None, "user_id"])
def test_pickles_copies_and_states_keep_the_unit(tmp_path, unit):
    budget = PrivacyBudget(1.0, unit=unit, ledger=tmp_path / "a.budget")
    assert clone(DPStandardScaler(budget=budget)).budget is budget
    assert pickle.loads(pickle.dumps(budget)) is budget
    state = budget.__getstate__()
    copied = PrivacyBudget.__new__(PrivacyBudget)
    copied.__setstate__(state)
    assert copied.unit == unit


def test_pickles_are_read_where_no_budget_lives(tmp_path):
    from skdp.budget.opening import Handle

    budget = PrivacyBudget(1.0, unit="user_id", ledger=tmp_path / "a.budget")
    state = Handle.of(budget._account).state()
    assert Handle.from_state(state).terms.unit == "user_id"
    plain = Handle.of(PrivacyBudget(1.0)._account).state()
    assert Handle.from_state(dict(list(plain.items())[:7])).terms.unit is None  # of 0.1


def test_the_unit_is_shown(tmp_path):
    path = tmp_path / "a.budget"
    budget = PrivacyBudget(1.0, unit="user_id", ledger=path)
    assert "unit='user_id'" in repr(budget)
    assert "unit user_id" in budget._repr_html_()
    assert "unit one row" in PrivacyBudget(1.0)._repr_html_()
    assert "unit user_id" in viewer.show(path)


@pytest.mark.parametrize(
    ("unit", "error"),
    [
        ("", ValueError),
        (" ", ValueError),
        ("row", ValueError),
        (3, TypeError),
        (["a"], TypeError),
    ],
)
def test_other_units_are_refused(unit, error):
    with pytest.raises(error, match="unit must be None"):
        PrivacyBudget(1.0, unit=unit)


def test_numbers_of_rows_are_private_where_units_have_several():
    with pytest.raises(ValueError, match="how many rows one unit has"):
        PrivacyBudget(1.0, unit="user_id", n_rows=100)
