"""Keys of every type, in every container: what is charged is delivered, in the type it came in.

And no cell decides for another row: whatever one user's cells are, the integers of all other rows
stay, and whether a fit is refused stays.
"""

from __future__ import annotations

import datetime as dt
import decimal
import fractions
import math
import uuid

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdp import DPKMeans, PrivacyBudget
from skdp.aggregation import DPGroupBy
from skdp.engines import from_arrays, from_dask
from skdp.tabular import KeyTerm, check_grouped
from tests.folding import each

duckdb = pytest.importorskip("duckdb")
dask = pytest.importorskip("dask.dataframe")

N = 60
DAYS = [dt.date(2024, 1, 1), dt.date(1969, 12, 31), dt.date(9999, 12, 31)]
NOON = [dt.datetime(2024, 1, day, 12) for day in (1, 2, 3)]
BERLIN = "Europe/Berlin"
MICRO = [np.datetime64(one, "us") for one in NOON]
IDS = [uuid.UUID(int=i) for i in (1, 2, 2**100)]
BIG = [2**127 - 1, -(2**127), 2**64]

# Name of a type: an Arrow column of three cells, and the keys that a fit has to name.
ARROW = {
    "text": (pa.array(["a", "", "é\0\U0001f600"]), None),
    "large text": (pa.array(["a", "b", "c"], pa.large_string()), None),
    "dictionary": (pa.array(["a", "b", "a c"]).dictionary_encode(), None),
    "int8": (pa.array([-128, 0, 127], pa.int8()), None),
    "uint64": (pa.array([0, 2**63, 2**64 - 1], pa.uint64()), None),
    "float16": (pa.array(np.array([0.1, 0.2, -0.0], np.float16)), [float(np.float16(0.1)),
                float(np.float16(0.2)), 0.0]),
    "float32": (pa.array([0.1, 2.5, math.inf], pa.float32()), [float(np.float32(0.1)), 2.5,
                math.inf]),
    "float64": (pa.array([-math.inf, 0.1, 3.0]), None),
    "boolean": (pa.array([True, False, True]), [True, False]),
    "decimal": (pa.array([decimal.Decimal("0.25"), decimal.Decimal("1.50"), decimal.Decimal(7)],
                pa.decimal128(10, 2)), None),
    "date32": (pa.array(DAYS), None),
    "date64": (pa.array(DAYS, pa.date64()), None),
    "timestamp[s]": (pa.array(NOON, pa.timestamp("s")), MICRO),
    "timestamp[us]": (pa.array(NOON, pa.timestamp("us")), MICRO),
    "timestamp[ns]": (pa.array([1, 10**18, 10**18 + 1], pa.int64()).cast(pa.timestamp("ns")),
                      [np.datetime64(1, "ns"), np.datetime64(10**15, "us"),
                       np.datetime64(10**18 + 1, "ns")]),
    "zoned": (pa.array(NOON, pa.timestamp("us", "UTC")).cast(pa.timestamp("us", BERLIN)), MICRO),
    "time": (pa.array([dt.time(1), dt.time(2, 3, 4, 5), dt.time(23, 59)]), None),
    "duration": (pa.array([1, 2, 10**9], pa.duration("us")),
                 [np.timedelta64(one, "us") for one in (1, 2, 10**9)]),
    "binary": (pa.array([b"", b"\xff", b"ab"]), None),
}  # fmt: skip


def rows_of(cells):
    """Return an Arrow table in which each cell has N users."""
    column = pa.chunked_array([cells] * N)
    return pa.table({"u": range(3 * N), "k": column, "v": np.ones(3 * N)})


def fitted(table, keys="private", **options):
    budget = PrivacyBudget(1e6, 0.1, adjacency="add_or_remove_one", unit="u")
    options = {"epsilon": 50.0, "delta": 1e-6, **options}
    by = DPGroupBy("k", "u", keys=keys, budget=budget, **options)
    return by.set_params(max_keys_per_unit=1, max_rows_per_unit=1).agg(n="count").fit(table)


def counts(by):
    return {(type(key), str(key)): round(cells["n"]) for key, cells in by.to_dict().items()}


def containers(table, name):
    """Yield the table in every container that has the type."""
    yield "arrow", table
    yield "parts", from_arrays([table.slice(0, N), table.slice(N)])
    if name not in ("float16", "date64"):
        if name != "duration":  # which are INTERVAL: refused by their type
            yield "duckdb", duckdb.from_arrow(table)
        yield "polars", pl.from_arrow(table)
    if name not in ("large text", "date64", "dictionary"):
        yield "pandas with Arrow", table.to_pandas(types_mapper=pd.ArrowDtype)
    if name not in ("timestamp[s]", "date64"):
        yield "pandas", table.to_pandas()
    if name in ("int8", "uint64", "float16", "float32", "float64", "boolean"):
        yield "numpy", {one: table[one].to_numpy() for one in table.column_names}


@each("name", ARROW)
def test_keys_of_every_type_come_back_as_they_came(name):
    cells, want = ARROW[name]
    want = cells.to_pylist() if want is None else want
    table = rows_of(cells)
    for container, one in containers(table, name):
        by = fitted(one)
        found = counts(by)
        if (container, name) == ("pandas", "decimal"):  # objects, which are read by their value
            want = [0.25, 1.5, 7]
        assert set(found) == {(type(key), str(key)) for key in want}, (container, by.keys_)
        assert all(abs(n - N * 3 / len(want)) < N for n in found.values()), container
        again = fitted(one, by.keys_)  # released keys are keys that may be stated
        assert set(counts(again)) == set(found), container
        assert min(counts(again).values()) > N / 2, container
        column = by.table_["k"]
        if container == "arrow":
            assert column.type in (cells.type, getattr(cells.type, "value_type", None))
        elif container == "polars":
            assert column.dtype == one["k"].dtype or name == "dictionary"
        elif container.startswith("pandas") and one["k"].dtype != object and name != "dictionary":
            assert column.dtype == one["k"].dtype, container
        elif container == "numpy":
            assert isinstance(column, list)


def test_types_that_databases_have():
    engine = duckdb.connect()
    for sql, want in (
        ("[170141183460469231731687303715884105727, -3]::HUGEINT[]", [2**127 - 1, -3]),
        ("[340282366920938463463374607431768211455]::UHUGEINT[]", [2**128 - 1]),
        (f"['{IDS[0]}', '{IDS[2]}']::UUID[]", [IDS[0], IDS[2]]),
        ("['x', 'y']::ENUM('x', 'y')[]", ["x", "y"]),
        ("['2024-01-01 12:00:00+00']::TIMESTAMPTZ[]", MICRO[:1]),
        ("['2024-01-01 12:00:00']::TIMESTAMP_NS[]", MICRO[:1]),
        ("['12:00:00']::TIME[]", [dt.time(12)]),
        ("[0.10, 2.50]::DECIMAL(30, 2)[]", [decimal.Decimal("0.10"), decimal.Decimal("2.50")]),
    ):
        engine.execute(
            f"CREATE OR REPLACE TABLE t AS SELECT range AS u, ({sql})[1 + range % {len(want)}] "
            f"AS k FROM range({N * len(want)})"
        )
        for keys in ("private", want):
            by = fitted(engine.table("t"), keys)
            assert sorted(map(str, by.keys_)) == sorted(map(str, want)), sql
            assert all(abs(row["n"] - N) < N / 2 for row in by.to_dict().values())


def test_intervals_of_pandas_and_categories_of_any_type():
    values = np.tile([0.5, 1.5, 2.5], N)
    cut = pd.Series(pd.cut(values, [0, 1, 2, 3]))
    for column in (cut, cut.astype(object), cut.astype(pd.IntervalDtype("int64", "right"))):
        by = fitted(pd.DataFrame({"u": range(3 * N), "k": column}))
        assert by.keys_ == [pd.Interval(i, i + 1) for i in range(3)]
        assert list(by.table_["k"]) == by.keys_
        assert min(counts(fitted(pd.DataFrame({"u": range(3 * N), "k": column}), by.keys_)
                          ).values()) > N / 2  # fmt: skip
    odd = pd.Series(pd.Categorical([1, "1", 2.5] * N))
    assert fitted(pd.DataFrame({"u": range(3 * N), "k": odd})).keys_ == [1, 2.5, "1"]


def test_lists_and_parts_of_dask_have_the_keys_of_their_cells():
    cells = [dt.date(2024, 1, 1), decimal.Decimal("0.1"), fractions.Fraction(1, 3)] * N
    by = fitted({"u": list(range(3 * N)), "k": cells})
    assert set(by.keys_) == {cells[0], 0.1, cells[2]}
    frame = pd.DataFrame({"u": range(3 * N), "k": pd.array(["a", "b", "c"] * N, "string")})
    assert fitted(from_dask(dask.from_pandas(frame, npartitions=3))).keys_ == ["a", "b", "c"]


# --- stated keys ----------------------------------------------------------------------------------


@each(
    ("column", "stated", "right"),
    [
        (np.array([1, 2, 2] * N), ["1"], [1.0]),
        (np.array([1, 2, 2] * N), [True], [np.int8(1)]),
        (np.array([1, 2, 2] * N), [1.5], [decimal.Decimal(1)]),
        (np.array([0.1, 0.2, 0.2] * N, np.float32), ["0.1"], [0.1]),
        (np.array(["a", "b", "b"] * N), [1], ["a"]),
        (np.array([True, False] * N), [1], [True]),
        (np.array(DAYS * N, "M8[D]"), ["2024-01-01"], [DAYS[0]]),
        (np.array(DAYS * N, "M8[D]"), [dt.datetime(2024, 1, 1, 1)], [dt.datetime(2024, 1, 1)]),
        (np.array(NOON * N, "M8[ns]"), [NOON[0].replace(tzinfo=dt.UTC)], [NOON[0]]),
        (pd.Series(NOON * N).dt.tz_localize(BERLIN), [NOON[0]],
         [NOON[0].replace(tzinfo=dt.timezone(dt.timedelta(hours=1)))]),
        (pa.chunked_array([ARROW["decimal"][0]] * N), [0.125], [0.25]),
        (pa.chunked_array([ARROW["binary"][0]] * N), ["ab"], [b"ab"]),
    ],
)  # fmt: skip
def test_stated_keys_are_converted_where_that_is_exact_and_else_refused(column, stated, right):
    n = len(column)
    table = {"u": np.arange(n), "k": column}
    assert fitted(table, right).to_dict().popitem()[1]["n"] > N / 3
    budget = PrivacyBudget(10, 0.1, adjacency="add_or_remove_one", unit="u")
    with pytest.raises(TypeError, match="stated keys of column 'k' must be of its type"):
        DPGroupBy("k", "u", keys=stated, budget=budget).agg(n="count").fit(table)
    assert budget.spent.epsilon == 0


def test_keys_may_be_a_series_or_lists_of_each_column():
    table = {"u": np.arange(4 * N), "k": np.array([1, 2] * 2 * N), "j": np.array(["a"] * 4 * N)}
    assert fitted(table, pd.Series([2, 1])).keys_ == [1, 2]
    assert fitted(table, {"k": [1, 3]}).keys_ == [1, 3]
    by = DPGroupBy(["k", "j"], "u", keys={"j": ["a", "b"], "k": [1]}).agg(n="count")
    assert by.fit(table).keys_ == [(1, "a"), (1, "b")]
    with pytest.raises(ValueError, match="a list for each of the columns"):
        by.set_params(keys={"j": ["a"]}).fit(table)


def test_stated_types_make_each_cell_one_of_them_or_missing():
    cells = [1, "1", 2.5, True, dt.date(2024, 1, 1), b"x", 10**5000] * N
    table = pd.DataFrame({"u": range(7 * N), "k": pd.Series(cells, dtype=object)})
    for kind, want in {
        "text": ["1", "2.5", "2024-01-01", "true"],
        "integer": [1],
        "float": [1.0, 2.5],
        "boolean": [True],
        "date": [dt.date(2024, 1, 1)],
        "timestamp": [np.datetime64("2024-01-01", "us")],
    }.items():
        assert set(fitted(table, types={"k": kind}).keys_) == set(want), kind
    for wrong in ({"k": "number"}, {"v": "text"}, ["text"]):
        with pytest.raises((TypeError, ValueError), match="types"):
            fitted(table, types=wrong)


def test_a_missing_key_is_a_group_without_dropna():
    for column in (
        pd.Series([1.0, None] * N),
        pd.Series(["a", None] * N, dtype=object),
        pa.array([1, None] * N),
        pl.Series(["a", None] * N),
    ):
        table = {"u": np.arange(2 * N), "k": column}
        assert None not in fitted(table).keys_
        by = fitted(table, dropna=False)
        assert by.keys_[-1] is None and by.to_dict()[None]["n"] > N / 2
        assert len(fitted(table, [None], dropna=False).keys_) == 1


# --- one row, one outcome -------------------------------------------------------------------------


class Card:
    """An object that raises whatever is asked of it."""

    def __eq__(self, other):
        raise ValueError("Mr. Secret")

    def __hash__(self):
        raise ValueError("Mr. Secret")


ODD = [
    None, math.nan, pd.NA, pd.NaT, 1, 1.0, True, 2.5, decimal.Decimal(1), decimal.Decimal("sNaN"),
    decimal.Decimal("1e999999999"), decimal.Decimal("-1e-999999999"), fractions.Fraction(1, 3),
    10**5000, -(2**63), 2**64, "1", "a", "\ud800", "", b"a", dt.date(2024, 1, 1), NOON[0],
    dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=14))), pd.Timestamp.max,
    np.datetime64("NaT"), np.datetime64(2**62, "Y"), np.timedelta64(1, "Y"), dt.timedelta.max,
    dt.time(1, tzinfo=dt.UTC), np.float16("inf"), np.longdouble("0.1"), 1j, (1, 2), [1], {1: 2},
    Card(), uuid.UUID(int=7), pd.Interval(0, 1), pd.Period("2024"), np.array(3), np.array([1, 2]),
    np.str_("a"), np.bool_(False), np.void(b"ab"), object(), int, np.ma.masked,
]  # fmt: skip


def in_container(ids, keys, kind):
    if kind == "lists":
        return {"u": ids, "k": keys}
    columns = {}
    for name, cells in (("u", ids), ("k", keys)):
        column = np.empty(len(cells), dtype=object)
        for i, cell in enumerate(cells):
            column[i] = cell
        columns[name] = column
    return columns if kind == "objects" else pd.DataFrame(columns)


def integers(table):
    """Return the totals by key, of rows that a fit may have, and the text of an error."""
    try:
        rows = check_grouped(table, by=["k"], unit="u", columns=[])
    except Exception as error:
        return repr(error)
    rows.secret = 5
    found = zip(*rows.key_weights([1] * 9, 3, ()), strict=True)
    keys = (1, 2, "a", "b", 2.5, dt.date(2024, 1, 1))
    totals = rows.totals(keys, (KeyTerm("rows"), KeyTerm("units")), 2, 3).tolist()
    return {(type(key), str(key)): n for key, n in found}, totals


@pytest.mark.filterwarnings("ignore")
@each("kind", ["lists", "objects", "frame"])
@settings(max_examples=60, deadline=None, database=None, derandomize=True)
@given(odd=st.lists(st.integers(0, len(ODD) - 1), min_size=1, max_size=3), at=st.integers(0, 12),
       as_id=st.booleans())  # fmt: skip
def test_cells_of_one_user_change_nothing_for_others(kind, odd, at, as_id):
    """With them, no more than their own keys move, by one unit each; nothing raises."""
    ids = [f"user {i % 4}" for i in range(12)]
    keys = [1, 2, "a", "b", 2.5, dt.date(2024, 1, 1)] * 2
    cells = [ODD[i] for i in odd]
    before = integers(in_container(ids, keys, kind))
    own = cells if as_id else ["the odd user"] * len(cells)
    more = [1] * len(cells) if as_id else cells
    after = integers(
        in_container([*ids[:at], *own, *ids[at:]], [*keys[:at], *more, *keys[at:]], kind)
    )
    assert not isinstance(after, str), after
    moved = {key: n - before[0].get(key, 0) for key, n in after[0].items()}
    assert all(n in range(len(cells) + 1) for n in moved.values())
    assert sum(moved.values()) <= len(cells)
    rows = np.array(after[1]) - np.array(before[1])
    assert (rows >= 0).all() and rows[:, 1].sum() <= (len(cells) if as_id else 2)


# --- a row as the unit ----------------------------------------------------------------------------


@each("relation", ["replace_one", "add_or_remove_one"])
def test_rows_are_units_beside_an_estimator_of_one_budget(relation):
    g = np.random.default_rng(0)
    table = pd.DataFrame({"k": g.choice(["x", "y"], 600), "v": g.normal(size=600)})
    budget = PrivacyBudget(30.0, 1e-3, adjacency=relation)
    DPKMeans(2, bounds=(-4, 4), budget=budget).fit(table[["v"]])
    for keys in ("private", ["x", "y", "z"]):
        by = DPGroupBy("k", None, keys=keys, epsilon=10.0, budget=budget)
        by = by.agg(n="count", m=("mean", "v", (-4, 4)))
        for given_rows in (table, duckdb.from_arrow(pa.Table.from_pandas(table))):
            result = by.set_params(epsilon=5.0).fit(given_rows).to_dict()
            assert abs(result["x"]["n"] - (table.k == "x").sum()) < 20
            assert (by.max_keys_per_unit_, by.max_rows_per_unit_) == (1, 1)
            assert by.privacy_.unit == "row"
    assert float(budget.spent.epsilon) <= 1 + 4 * 5.0 + 1e-9


def test_rows_as_units_and_a_budget_of_users_do_not_mix():
    budget = PrivacyBudget(1, unit="u")
    with pytest.raises(ValueError, match=r"Write unit='u', or hand in budget=PrivacyBudget"):
        DPGroupBy("k", None, keys=[1], budget=budget).agg(n="count").fit({"k": [1, 2]})
    with pytest.raises(ValueError, match="each row is a unit, so max_rows_per_unit is 1"):
        DPGroupBy("k", None, keys=[1], max_rows_per_unit=2).agg(n="count").fit({"k": [1, 2]})
    assert budget.spent.epsilon == 0


def test_relations_that_read_other_columns_or_types_than_they_name_are_refused():
    """One person would be many: DuckDB reads the first of two names, and pandas' types by cells."""
    for relation, text in (
        (duckdb.sql("SELECT range AS id, 7 AS \"ID\", 'a' AS k FROM range(9)"), "in case alone"),
        (duckdb.from_df(pd.DataFrame({"ID": [1, 1.0], "k": ["a", "a"]}, dtype=object)), "pandas"),
    ):
        with pytest.raises(ValueError, match=text):
            check_grouped(relation, by=["k"], unit="ID", columns=[])
    column = pl.Series([10**9 + i for i in (0, 0)], dtype=pl.Object)
    parts = from_arrays([pl.DataFrame({"ID": column, "k": ["a", "a"]})])
    categories = from_arrays([pd.DataFrame({"ID": [1, 2], "k": pd.Categorical([1, "SECRET"])})])
    for table in (parts, categories):
        with pytest.raises(TypeError, match="does not say what it holds"):
            check_grouped(table, by=["k"], unit="ID", columns=[])


def test_keys_that_a_type_shows_otherwise_are_shown_as_they_are():
    """Rounded or cut, two of them would be one."""
    for column, keys in (
        (np.array([2**60, 5] * N), [2**60 + 1, 2**60, None]),
        (np.array([True, False] * N), [True, False, None]),
        (np.array(["2024-01-01"] * 2 * N, "M8[s]"), [np.datetime64("2024-01-01T00:00:00.5")]),
    ):
        table = pd.DataFrame({"u": range(2 * N), "k": column})
        by = fitted(table, keys, dropna=False)
        assert sorted(map(str, by.table_["k"])) == sorted(
            str(pd.Timestamp(key)) if isinstance(key, np.datetime64) else str(key)
            for key in by.keys_
        )


def test_a_stated_moment_between_two_of_the_unit_of_a_column_is_not_cut():
    noon = np.datetime64("2024-01-01T12:00:00", "us")
    for column in (pa.array([NOON[0]] * N, pa.timestamp("s")), pl.Series([NOON[0]] * N)):
        near = noon + np.timedelta64(1, "ns" if isinstance(column, pl.Series) else "us")
        table = {"u": np.arange(N), "k": column}
        kind = pa.table if isinstance(column, pa.Array) else pl.DataFrame
        by = fitted(kind(table), [noon, near])
        assert by.keys_ == [noon, near]
        assert len(set(map(str, by.table_["k"].to_list() if kind is pl.DataFrame
                           else by.table_["k"].to_pylist()))) == 2  # fmt: skip
