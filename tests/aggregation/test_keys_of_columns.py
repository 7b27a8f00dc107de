"""Stated keys of the type of their column, masked cells, dates; bounds and names of aggregates."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdp import DPKMeans, PrivacyBudget
from skdp.aggregation import DPGroupBy
from skdp.queries import SelectKeys
from skdp.tabular import check_grouped, check_units
from skdp.tabular.cells import key_order

ROWS = 40
USERS = np.arange(ROWS) % 20
TEXTS, NUMBERS = ["a", "b"] * (ROWS // 2), [1, 2] * (ROWS // 2)
DAYS = np.array(["2026-01-01", "2026-01-02"] * (ROWS // 2), dtype="M8[D]")


def containers(cells):
    """Return a table with the cells as keys in every container in memory that declares a type."""
    yield {"u": USERS, "k": np.array(cells)}
    yield {"u": pd.Series(USERS), "k": pd.Series(np.array(cells))}
    yield pd.DataFrame({"u": USERS, "k": pd.array(cells)})
    yield pl.DataFrame({"u": USERS, "k": cells})
    yield pa.table({"u": USERS, "k": pa.array(cells).dictionary_encode()})


def fitted(table, keys, budget=None):
    budget = budget or PrivacyBudget(1000, 0, adjacency="add_or_remove_one", unit="u")
    by = DPGroupBy("k", "u", epsilon=200, delta=0.0, keys=keys, budget=budget)
    return by.set_params(max_keys_per_unit=2, max_rows_per_unit=2).agg(n="count").fit(table)


@pytest.mark.parametrize(
    ("cells", "right", "wrong"),
    [(TEXTS, ["a", "b"], [1, 2]), (NUMBERS, [1, 2.0], ["1", "2"]), (NUMBERS, [1, 2], [True])],
)
def test_stated_keys_of_another_type_are_refused_before_the_charge(cells, right, wrong):
    for table in containers(cells):
        budget = PrivacyBudget(1000, 0, adjacency="add_or_remove_one", unit="u")
        with pytest.raises(TypeError, match="column 'k'"):
            fitted(table, wrong, budget)
        assert budget.spent.epsilon == 0
        assert min(fitted(table, right, budget).to_dict()[right[0]].values()) > 10


def test_stated_dates():
    stated = [np.datetime64("2026-01-01"), np.datetime64("2026-01-02")]
    for unit in ("D", "s", "ns"):
        table = {"u": USERS, "k": DAYS.astype(f"M8[{unit}]")}
        assert min(cell["n"] for cell in fitted(table, stated).to_dict().values()) > 10
        with pytest.raises(TypeError, match="column 'k'"):
            fitted(table, [20454])


def test_a_tuple_is_compared_part_by_part():
    table = {"u": USERS, "a": np.array(NUMBERS), "b": np.array(TEXTS)}
    rows = check_grouped(table, by=["a", "b"], unit="u", columns=[])
    assert rows.stated_keys([(2, "x"), (1.0, "a")]) == ((1, "a"), (2, "x"))
    with pytest.raises(TypeError, match="column 'b'"):
        rows.stated_keys([(1, "a"), (2, 1)])


def test_masked_cells_are_missing():
    masked = np.ma.array(np.arange(ROWS), mask=[True] + [False] * (ROWS - 1))
    plain = {"u": USERS, "k": NUMBERS, "x": np.ones(ROWS)}
    for name in ("u", "k"):
        rows = check_grouped({**plain, name: masked}, by=["k"], unit="u", columns=[])
        (bucket,) = rows.buckets()
        assert bucket.rows.sum() == ROWS - 1
    rows = check_grouped({**plain, "x": masked}, by=["k"], unit="u", columns=["x"])
    assert np.isnan(next(iter(rows.buckets())).columns["x"]).sum() == 1


def test_numpy_dates_are_keys_and_beyond_microseconds_missing():
    rows = check_grouped({"u": USERS, "k": DAYS.astype("M8[ns]")}, by=["k"], unit="u", columns=[])
    keys, counts = rows.key_weights([1], 1, ())
    assert [str(key) for key in keys] == [
        "2026-01-01T00:00:00.000000",
        "2026-01-02T00:00:00.000000",
    ]
    late = np.array([10**17] * ROWS, dtype="M8[s]")
    gone = check_grouped({"u": USERS, "k": late}, by=["k"], unit="u", columns=[])
    assert gone.key_weights([1], 1, ()) == ([], [])
    assert sum(counts) == 20 and SelectKeys(1).max_keys == 1


def test_expected_error_counts_the_share_of_learned_bounds():
    caps = {"keys": [0, 1], "max_keys_per_unit": 1, "max_rows_per_unit": 1}
    learned = DPGroupBy("k", "u", **caps).agg(s=("sum", "x"))
    stated = DPGroupBy("k", "u", **caps).agg(s=("sum", "x", (0, 1)))
    errors = learned.expected_error(bounds={"x": (0, 1)})["s"], stated.expected_error()["s"]
    assert errors[0] > 1.01 * errors[1]


def test_bounds_are_those_of_each_aggregate():
    table = {"u": USERS, "k": NUMBERS, "x": np.linspace(0, 1, ROWS)}
    by = DPGroupBy("k", "u", keys=[1, 2], epsilon=100)
    by = by.agg(a=("mean", "x", (0, 1)), b=("mean", "x", (0, 9)), c=("sum", "x"), n="count")
    bounds = by.fit(table).bounds_
    assert (bounds["a"], bounds["b"], set(bounds)) == ((0, 1), (0, 9), {"a", "b", "c"})


def test_ids_of_the_name_that_stands_for_one_row_are_refused():
    X, ids = np.zeros((ROWS, 1)), pd.Series(USERS, name="row")
    with pytest.raises(ValueError, match="ids are named 'row'"):
        DPKMeans(2, bounds=(-1, 1)).fit(X, groups=ids)
    with pytest.raises(ValueError, match="ids are named 'row'"):
        DPGroupBy("k", "row", keys=[1, 2]).agg(n="count").fit({"row": USERS, "k": NUMBERS})


class Card:
    """An id that equals nothing but itself."""


def test_ids_that_equal_nothing_but_themselves_are_missing():
    """Each row would be a unit of its own: one user, of all of them."""
    day = datetime.date(2026, 1, 1)
    for ids, units in (
        ([Card() for _ in range(5)], 0),
        ([(float("nan"), 1) for _ in range(5)], 0),
        ([("household", i) for i in range(5)], 0),
        ([1j] * 5, 0),
        ([day, Card()], 1),
        ([decimal.Decimal("nan"), 1], 1),
        ([pd.NaT, day], 1),
        ([None, 1], 1),
    ):
        rows = check_grouped({"u": ids, "k": ["a"] * len(ids)}, by=["k"], unit="u", columns=[])
        assert rows._n == units
    table = {"u": np.array([1j] * 5), "k": ["a"] * 5}
    with pytest.raises(TypeError, match="unit column 'u' must hold ids that are numbers"):
        check_grouped(table, by=["k"], unit="u", columns=[])


def test_ids_are_one_where_groups_would_say_so():
    day = datetime.date(2026, 1, 1)
    moments = [day, datetime.datetime(2026, 1, 1), pd.Timestamp(day), np.datetime64(day)]
    for ids in (moments, [1, True, 1.0, np.float32(1)], ["a", np.str_("a")]):
        rows = check_grouped({"u": ids, "k": ["a"] * len(ids)}, by=["k"], unit="u", columns=[])
        assert rows._n == 1
        assert check_units(ids, len(ids), estimator="x").words.size == 1


def test_numbers_beyond_floats_have_one_order():
    """Ties of ranks are broken by it: where two were equal, other rows would break them."""
    far = [10**400, 10**400 + 1, -(10**400), 10**3000]
    assert len({key_order(key) for key in far}) == len(far)
