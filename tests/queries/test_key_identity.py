"""One unit's cells decide nothing about the keys, ids and ranks of others."""

from __future__ import annotations

import datetime
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from skdp.aggregation import DPGroupBy
from skdp.queries.key_selection import keeping_probabilities
from skdp.tabular import check_grouped
from skdp.tabular.cells import key_order
from skdp.tabular.contributions import KeyTerm


def opened(table, secret=5):
    rows = check_grouped(table, by=["k"], unit="u", columns=[])
    rows.secret = secret
    return rows


def units_in(table, keys, most=10):
    return opened(table).totals(keys, [KeyTerm("units")], most, 1).ravel().tolist()


@pytest.mark.parametrize("odd", ["x", 0.5, True, 10**400])
def test_a_cell_of_another_type_leaves_other_keys_and_ids(odd):
    ids = [2**53 + i for i in range(6)]
    keys = [1] * 3 + [2] * 3
    more = {"k": [odd, *keys], "u": [odd, *ids]}
    assert units_in({"k": keys, "u": ids}, (1, 2)) == [3, 3]
    for table in (more, pd.DataFrame({name: pd.Series(more[name], dtype=object) for name in more})):
        assert units_in(table, (1, 2)) == [3, 3]
        found, counts = opened(table).key_weights([1] * 4, 7, ())
        shown = {repr(key): count for key, count in zip(found, counts, strict=True)}
        assert shown == {"1": 3, "2": 3, repr(odd): 1}


def test_the_first_of_equal_keys_does_not_name_them():
    for first in (1, 1.0):
        table = pd.DataFrame({"k": pd.Series([first, 1, 1.0], dtype=object), "u": [1, 2, 3]})
        assert repr(opened(table).key_weights([1], 7, ())[0]) == "[1]"
    assert key_order(-(10**400)) < key_order(0) < key_order(10**3000)


def test_a_dictionary_that_holds_a_value_twice_splits_no_unit():
    pa = pytest.importorskip("pyarrow")
    twice = pa.DictionaryArray.from_arrays(pa.array(range(5)), pa.array(["a"] * 5))
    same = pa.array(["a"] * 5)
    for table in (pa.table({"u": twice, "k": same}), pa.table({"u": same, "k": twice})):
        assert units_in(table, ("a",)) == [1]


def test_equal_dates_are_one_key():
    """A date is another key than midnight; a moment is one in every time zone."""
    day, noon = datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1, 12)
    here = datetime.timezone(datetime.timedelta(hours=1))
    cells = [day, np.datetime64("2020", "Y"), noon, pd.Timestamp(noon), np.datetime64(noon, "ns")]
    cells.append(datetime.datetime(2020, 1, 1, 13, tzinfo=here))
    table = pd.DataFrame({"k": pd.Series(cells, dtype=object), "u": range(6)})
    assert units_in(table, (day, np.datetime64(noon, "us"))) == [2, 4]


@pytest.mark.parametrize("place", [0, 60])
def test_a_unit_more_leaves_the_ranks_of_others(place):
    table = pd.DataFrame({"k": np.tile(range(8), 60), "u": np.repeat(range(60), 8) * 7 % 61})
    one = pd.DataFrame({"k": [99], "u": [1000]})
    more = pd.concat([table[: 8 * place], one, table[8 * place :]], ignore_index=True)
    keys, rows = (*range(8), 99), [opened(table), opened(more)]
    before, after = (each.totals(keys, [KeyTerm("units")], 1, 1).ravel() for each in rows)
    assert abs(after - before).sum() == 1
    before, after = (dict(zip(*each.key_weights([1], 7, ()), strict=True)) for each in rows)
    assert after == {**before, 99: 1}


@pytest.mark.parametrize("ids", ["numbers", "texts"])
def test_the_key_in_which_a_unit_counts_is_uniform_and_drawn_anew_for_each_salt(ids):
    """Within five standard deviations of 1,000 units in each of 64 cells; seeded by the secret."""
    units, n_keys = 64_000, 8
    names = np.arange(units)
    names = names if ids == "numbers" else np.char.add("user ", names.astype(str))
    table = {"u": np.repeat(names, n_keys), "k": np.tile(range(n_keys), units)}
    rows = opened(table)
    first = []
    for salt in (rows.salt(-1), rows.salt(-2)):
        drawn = []
        for bucket in rows.buckets():
            chosen, place, _ = rows._ranked(bucket, salt, np.arange(n_keys))
            drawn.append(bucket.key[chosen[place == 0]])
        first.append(np.concatenate(drawn))
    cells = np.bincount(first[0] * n_keys + first[1], minlength=n_keys**2)
    assert cells.sum() == units
    assert np.abs(cells - units / n_keys**2).max() < 5 * np.sqrt(units / n_keys**2)


@pytest.mark.parametrize("epsilon", [1, 110, 200, 2000])
def test_a_key_of_one_unit_is_kept_with_delta_at_any_epsilon(epsilon):
    p = keeping_probabilities(Fraction(epsilon), Fraction(1, 10**6))
    assert 0 < p[1] * 10**6 <= 2**160


def test_stated_and_learned_bounds_of_a_column_fit_the_allowance():
    rng = np.random.default_rng(0)
    table = {"u": rng.integers(0, 300, 900), "k": rng.integers(0, 2, 900), "x": rng.random(900)}
    by = DPGroupBy("k", "u", keys=[0, 1]).agg(a=("mean", "x", (0, 1)), b=("mean", "x"))
    assert len(by.fit(table).table_["a"]) == 2


def test_columns_may_have_the_names_that_sql_uses():
    duckdb = pytest.importorskip("duckdb")
    sql = "SELECT range % 5 AS u, range % 3 AS k, range * 1.0 AS code FROM range(60)"
    connection = duckdb.connect()
    table = connection.execute(f"CREATE TABLE rows AS {sql}").table("rows")
    by = DPGroupBy("k", "u", keys=[0, 1]).agg(a=("sum", "code", (0, 1)), b=("mean", "code", (0, 1)))
    assert len(by.fit(table).keys_) == 2
    assert (
        len(DPGroupBy("code", "u", epsilon=99, delta=1e-6).fit(table).keys_) == 0
    )  # decimals, once each
