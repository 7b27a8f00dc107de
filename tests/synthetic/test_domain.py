"""Domains: what a cell's code is, for cells of every kind, and back."""

from __future__ import annotations

import datetime
import decimal
import itertools
import math
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from skdp.synthetic import Bins, Domain
from skdp.tabular import Schema, check_coded, decoded, public_codes, table_schema
from tests.folding import each


def codes(X, domain, **options):
    return public_codes(X, domain, estimator="Test", **options)


class Rude:
    """A cell whose every conversion fails, with a text that nobody may see."""

    def _fail(self, *_):
        raise RuntimeError("SECRET")

    __hash__ = __eq__ = __float__ = __gt__ = __str__ = __repr__ = _fail


class Loud(float):
    """A number that warns when it is read."""

    def __float__(self):
        warnings.warn("SECRET", stacklevel=2)
        return 1.5


# Every cell with its code in Bins([0, 1, 2, 4]) and in the categories ["a", 1, None], clipped, and
# whether it is outside.
CELLS = [
    (0.0, (0, False), (2, True)),
    (-0.0, (0, False), (2, True)),
    (1, (1, False), (1, False)),
    (True, (1, False), (1, False)),
    (1.0, (1, False), (1, False)),
    (np.float32(1), (1, False), (1, False)),
    (np.int8(1), (1, False), (1, False)),
    (decimal.Decimal(1), (1, False), (1, False)),
    (np.nextafter(1, 0), (0, False), (2, True)),
    (4.0, (2, False), (2, True)),
    (np.nextafter(4, 5), (2, True), (2, True)),
    (-1e-300, (0, True), (2, True)),
    (math.inf, (2, True), (2, True)),
    (-math.inf, (0, True), (2, True)),
    (10**400, (2, True), (2, True)),
    (-(10**400), (0, True), (2, True)),
    (math.nan, (0, True), (2, False)),
    (None, (0, True), (2, False)),
    (pd.NA, (0, True), (2, False)),
    (pd.NaT, (0, True), (2, False)),
    (np.float64("nan"), (0, True), (2, False)),
    ("a", (0, True), (0, False)),
    (np.str_("a"), (0, True), (0, False)),
    ("1", (0, True), (2, True)),  # text that reads as a number is none, in any container
    ("b", (0, True), (2, True)),
    (b"a", (0, True), (2, True)),
    ([], (0, True), (2, True)),
    ({}, (0, True), (2, True)),
    ((1, 2), (0, True), (2, True)),
    (1j, (0, True), (2, True)),
    (object(), (0, True), (2, True)),
    (datetime.date(2020, 1, 1), (0, True), (2, True)),
    (Rude(), (0, True), (2, True)),
]
BINS, KINDS = Bins([0, 1, 2, 4]), ["a", 1, None]


@each("i", range(len(CELLS)))
def test_a_cell_is_coded_by_itself(i):
    """Alone, and among all others, in every container that holds objects."""
    cell, number, category = CELLS[i]
    for spec, (code, outside) in ((BINS, number), (KINDS, category)):
        domain = Domain([spec])
        for X in (_column([cell]), pd.DataFrame({"x": pd.Series([cell], dtype=object)})):
            found, strange = domain.codes(0, X[:, 0] if isinstance(X, np.ndarray) else X["x"])
            assert (found[0], strange[0]) == (code, outside)
            assert codes(X, domain)[0, 0] == code
        everything = _column([one[0] for one in CELLS])
        assert codes(everything, domain)[i, 0] == code
        refusing = Domain([spec], outside="refuse")
        if outside:
            with pytest.raises(ValueError, match="outside of the stated domain") as caught:
                codes(_column([cell]), refusing)
            assert "SECRET" not in repr(caught.value)
            assert caught.value.__context__ is None
        else:
            assert codes(_column([cell]), refusing)[0, 0] == code


def _column(cells):
    X = np.empty((len(cells), 1), dtype=object)
    X[:, 0] = cells
    return X


def test_a_cell_may_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert codes(_column([Loud(1.5), np.array([1.5])]), Domain([BINS]))[0, 0] == 1


@each(
    "column",
    [
        np.array([0.5, 3.0, -1.0, np.nan]),
        np.array([0.5, 3.0, -1.0, np.nan], dtype=np.float32),
        np.array([0, 3, 9, 1], dtype=np.int8),
        np.array([0, 3, 9, 1], dtype=np.uint64),
        np.array([True, False, True, True]),
        np.array([0.5, 3.0, -1.0, np.nan], dtype=np.float16),
    ],
    ids=lambda column: column.dtype.name,
)
@each("spec", [BINS, KINDS, 2, [True, False], [0.5, 3, 1]])
def test_every_container_gives_the_same_codes(column, spec):
    domain = Domain([spec])
    expected = codes(_column(column.tolist()), domain)
    plain = column.dtype.kind != "f" or column.dtype.itemsize > 2
    tables = [column[:, None], pd.DataFrame({"x": column}), column[:, None].tolist()]
    tables += [np.asfortranarray(np.column_stack([column, column]))[:, :1]]
    if plain:
        tables += [pl.DataFrame({"x": column}), pa.table({"x": column})]
        tables += [pd.DataFrame({"x": pd.array(column).astype(object)})]
    if column.dtype.kind in "iu":
        tables += [pd.DataFrame({"x": pd.array(column, dtype="Int64")})]
    for X in tables:
        assert np.array_equal(codes(X, domain), expected)


@pytest.mark.parametrize("missing", [False, True])
def test_text_in_every_container(missing):
    cells = ["JFK", "EWR", None if missing else "LGA", "???", "JFK"]
    domain = Domain({"origin": ["EWR", "JFK", "LGA", None]}, other={"origin": "LGA"})
    expected = np.array([1, 0, 3 if missing else 2, 2, 1])
    tables = [
        np.array(cells, dtype=object)[:, None],
        [[cell] for cell in cells],
        pd.DataFrame({"origin": cells}),
        pd.DataFrame({"origin": pd.Categorical(cells)}),
        pd.DataFrame({"origin": pd.array(cells, dtype="string")}),
        pl.DataFrame({"origin": cells}),
        pl.DataFrame({"origin": pl.Series(cells, dtype=pl.Categorical)}),
        pa.table({"origin": cells}),
        pa.table({"origin": pa.array(cells).dictionary_encode()}),
    ]
    if not missing:
        tables.append(np.array(cells)[:, None])
    for X in tables:
        assert np.array_equal(codes(X, domain)[:, 0], expected)


@pytest.mark.parametrize("unit", ["D", "s", "us", "ns"])
def test_dates(unit):
    days = np.array(["2020-01-01", "2020-01-02", "NaT"], dtype=f"datetime64[{unit}]")
    domain = Domain([[datetime.datetime(2020, 1, 2), None, "other"]])
    for X in (days[:, None], pd.DataFrame({"day": days})):
        assert codes(X, domain)[:, 0].tolist() == [2, 0, 1]
    # No number: the ticks of a clock are none.
    assert codes(days[:, None].astype(object), Domain([BINS]))[2, 0] == 0


def test_rows_far_behind_the_first_block_and_many_categories():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 300, size=(70_000, 2))
    found = check_coded(X, Domain([300, 2]), estimator="Test")
    assert np.array_equal(found.codes(0, 70_000)[:, 0], X[:, 0])
    assert np.array_equal(found.codes(65_000, 70_000)[:, 1], np.minimum(X[65_000:, 1], 1))
    assert found.sizes == (300, 2)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=9, unique=True).map(sorted),
    st.lists(st.floats(allow_nan=False), min_size=1, max_size=9),
)
def test_bins_hold_their_lower_edge(edges, values):
    bins = Bins(edges)
    found, outside = bins.codes(np.array(values))
    for value, code, strange in zip(values, found, outside, strict=True):
        assert strange == (value < edges[0] or value > edges[-1])
        if not strange:
            assert edges[code] <= value
            assert value < edges[code + 1] or (code == bins.size - 1 and value == edges[-1])
        else:
            assert code == (0 if value < edges[0] else bins.size - 1)


@pytest.mark.parametrize("container", ["numpy", "pandas", "polars", "pyarrow"])
def test_decoded_is_coded_again_to_the_same_cells(container):
    domain = Domain(
        {
            "age": Bins([0, 18, 65, 120], integer=True),
            "pay": Bins.regular(-1, 1, 7),
            "origin": ["x", None, "y"],
            "kind": [3, 1],
        }
    )
    rng = np.random.default_rng(0)
    codes_ = np.column_stack([rng.integers(0, k, 50) for k in domain.sizes])
    for draw in (None, np.random.default_rng(1), np.random.RandomState(1)):
        table = decoded(domain, codes_, names=domain.names, container=container, rng=draw)
        assert np.array_equal(codes(table, domain), codes_)
        assert codes(table, Domain(_specs(domain), outside="refuse")).shape == (50, 4)
    if container == "pandas":
        assert [table.dtypes.iloc[j] for j in (0, 1, 3)] == [np.float64, np.float64, np.int64]
        assert (table["age"] % 1 == 0).all()
    numbers = decoded(Domain([3, Bins([0, 1])]), codes_[:, :2] % [[3, 1]])
    assert numbers.dtype == np.float64


def _specs(domain):
    return {name: domain.column(j) for j, name in enumerate(domain.names)}


def test_names_and_positions():
    domain = Domain({"a": 2, "b": [1, 2, 3]})
    assert domain.names == ("a", "b")
    assert [domain.position(c) for c in ("a", "b", 0, 1)] == [0, 1, 0, 1]
    for column in ("c", 2, -1, True, None, 0.0):
        with pytest.raises(ValueError, match="has no column"):
            Domain([2, 2]).position(column)
    frame = pd.DataFrame({"b": [1], "a": [0]})
    with pytest.raises(ValueError, match=r"columns of the domain, in its order: \['a', 'b'\]"):
        codes(frame, domain)
    assert codes(frame[["a", "b"]], domain).tolist() == [[0, 0]]
    assert codes(frame[["a", "b"]].to_numpy(), domain).tolist() == [[0, 0]]
    assert codes(frame, Domain([5, 5])).tolist() == [[1, 0]]
    # Names that are no text are names, too.
    assert Domain({7: 2, 9: 3}).position(9) == 1


def test_schemas():
    frame = pd.DataFrame({"a": [1], "b": ["x"]})
    frame["b"] = frame["b"].astype("string")
    objects = (np.dtype(object),) * 2
    for X, names, container, types in (
        (frame, ("a", "b"), "pandas", (np.dtype(np.int64), pd.StringDtype())),
        (pl.from_pandas(frame), ("a", "b"), "polars", (pl.Int64(), pl.String())),
        (pa.Table.from_pandas(frame), ("a", "b"), "pyarrow", (pa.int64(), pa.string())),
        (frame.to_numpy(), None, "numpy", objects),
        (frame.to_numpy().tolist(), None, "numpy", objects),
    ):
        _, schema = table_schema(X, estimator="Test")
        assert schema.types[1] in (types[1], pa.large_string())
        assert schema == Schema(2, names, container, (types[0], schema.types[1]))
        assert pickle.loads(pickle.dumps(schema)) == schema


def test_equality_clones_and_pickles():
    domain = Domain({"a": 2, "b": Bins([0, 1, 2]), "c": ["x", None]}, other={"c": "x"})
    assert pickle.loads(pickle.dumps(domain)) == domain
    assert hash(pickle.loads(pickle.dumps(domain))) == hash(domain)
    assert clone(domain, safe=False) is domain
    assert domain != Domain({"a": 2, "b": Bins([0, 1, 2]), "c": ["x", None]})
    assert domain != Domain({"a": 2, "b": Bins([0, 1, 3]), "c": ["x", None]}, other={"c": "x"})
    assert Domain.binary(3) == Domain([2, 2, 2])
    assert Domain.binary(["a", "b"]) == Domain({"a": 2, "b": 2})
    assert Bins([0, 1]) != Bins([0, 1], integer=True)
    assert Domain([2]) != [2]
    assert (repr(Domain([2, 3])), repr(BINS)) == ("Domain(2 columns, 6 cells)",
                                                  "Bins(3 cells from 0 to 4)")  # fmt: skip


@each(
    ("columns", "options", "error", "match"),
    [
        ("ab", {}, TypeError, "mapping or a sequence"),
        (7, {}, TypeError, "mapping or a sequence"),
        ([], {}, ValueError, "at least one column"),
        ([[]], {}, ValueError, "1 to 65536 categories"),
        ([0], {}, ValueError, "1 to 65536 values"),
        ([2**16 + 1], {}, ValueError, "1 to 65536 values"),
        ([True], {}, TypeError, "got bool"),
        ([2.5], {}, TypeError, "got float"),
        (["ab"], {}, TypeError, "got str"),
        ([{"a": 1}], {}, TypeError, "got dict"),
        ([["a", "a"]], {}, ValueError, "must be distinct"),
        ([[1, True]], {}, ValueError, "must be distinct"),
        ([[None, math.nan]], {}, ValueError, "must be distinct"),
        ([[[1], [2]]], {}, TypeError, "categories of column 0 must be text"),
        ([2], {"outside": "ignore"}, ValueError, "outside must be 'clip' or 'refuse'"),
        ([2], {"other": {0: 5}}, ValueError, "other of column 0 must be one of its categories"),
        ([2], {"other": {1: 0}}, ValueError, "names no column of the domain: 1"),
        ([BINS], {"other": {0: 5}}, ValueError, "other of column 0 must be a number within"),
        ([BINS], {"other": {0: math.nan}}, ValueError, "other of column 0 must be a number within"),
        ([BINS], {"other": {0: 10**400}}, ValueError, "other of column 0 must be a number within"),
        ([BINS], {"other": {0: "1"}}, ValueError, "other of column 0 must be a number within"),
        ([2], {"other": [1]}, TypeError, "other must be a mapping from column name"),
        ([2], {"other": 1}, TypeError, "other must be a mapping from column name"),
        (b"ab", {}, TypeError, "mapping or a sequence"),
    ],
)
def test_bad_domains(columns, options, error, match):
    with pytest.raises(error, match=match):
        Domain(columns, **options)


@each(
    ("edges", "error"),
    [
        ([1.0], ValueError),
        ([], ValueError),
        ([1, 1], ValueError),
        ([2, 1], ValueError),
        ([0, math.nan], ValueError),
        ([0, math.inf], ValueError),
        ([[0, 1]], ValueError),
        (np.arange(2**16 + 1), ValueError),
        ("ab", TypeError),
        (["a", "b"], TypeError),
        (None, (TypeError, ValueError)),
    ],
    ids=repr,
)
def test_bad_bins(edges, error):
    with pytest.raises(error, match="edges must be"):
        Bins(edges)


@each("n_cells", [0, -1, 2.0, True, "3", 2**16, 10**12])
def test_bad_numbers_of_bins(n_cells):
    with pytest.raises(ValueError, match="n_cells"):
        Bins.regular(0, 1, n_cells)


@each(
    ("low", "high", "error", "match"),
    [
        ("a", 0, TypeError, "low must be a finite number, got str"),
        (0, None, TypeError, "high must be a finite number, got NoneType"),
        (True, 2, TypeError, "low must be"),
        (0, [1], TypeError, "high must be"),
        (1, 1, ValueError, "low must be below high"),
        (2, 1, ValueError, "low must be below high"),
        (math.nan, 1, ValueError, "low must be below high"),
        (0, math.inf, ValueError, "low must be below high"),
        (0, 10**400, ValueError, "low must be below high"),
        (-1e308, 1e308, ValueError, "no further apart than the largest float"),
    ],
)
def test_bad_ends_of_regular_bins(low, high, error, match):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(error, match=match):
            Bins.regular(low, high, 4)
        with pytest.raises(ValueError, match="edges must"):
            Bins([-1e308, 1e308])


def test_points_of_bins_lie_in_their_cells():
    """Also where no float lies between the edges."""
    edges = [1.0]
    for _ in range(8):
        edges.append(np.nextafter(edges[-1], 2.0))
    bins = Bins(edges)
    for rng in (None, *map(np.random.default_rng, range(20))):
        assert np.array_equal(bins.codes(bins.values(np.arange(8), rng))[0], np.arange(8))


def test_where_what_is_no_number_goes():
    cells = _column([math.nan, None, pd.NA, "b", Rude(), -5, 9, 0.5])
    given = [1, 1, 1, 1, 1, 0, 2, 0]
    domain = Domain({"a": BINS, "b": BINS}, other={"a": 1.5})
    assert codes(np.hstack([cells, cells]), domain)[:, 0].tolist() == given
    assert codes(np.hstack([cells, cells]), domain)[:, 1].tolist() == [0, 0, 0, 0, 0, 0, 2, 0]
    floats = np.array([[math.nan, math.nan], [0.5, 3.0]])
    for X in (floats, pd.DataFrame(floats, columns=["a", "b"]), floats.astype(np.float32)):
        assert codes(X, domain).tolist() == [[1, 0], [0, 2]]
    nullable = pl.DataFrame({"a": [None, 3], "b": [None, 3]})
    assert codes(nullable, domain).tolist() == [[1, 0], [2, 2]]
    assert domain.column(0) == BINS
    assert domain != Domain({"a": BINS, "b": BINS})
    assert pickle.loads(pickle.dumps(domain)) == domain
    with pytest.raises(ValueError, match="outside of the stated domain"):
        codes(floats, Domain([BINS, BINS], other={0: 1.5}, outside="refuse"))


DATES = pd.to_datetime(["2020-01-01", "2020-01-02"])
TEMPORAL = {
    "numpy": DATES.to_numpy()[:, None],
    "numpy durations": (DATES - DATES[0]).to_numpy()[:, None],
    "pandas": pd.DataFrame({"x": DATES}),
    "pandas zone": pd.DataFrame({"x": DATES.tz_localize("UTC")}),
    "pandas durations": pd.DataFrame({"x": DATES - DATES[0]}),
    "pandas periods": pd.DataFrame({"x": DATES.to_period("D")}),
    "pandas arrow": pd.DataFrame({"x": pd.Series(DATES, dtype="timestamp[us][pyarrow]")}),
    "polars": pl.DataFrame({"x": DATES.to_numpy()}),
    "polars dates": pl.DataFrame({"x": list(DATES.date)}),
    "polars times": pl.DataFrame({"x": [datetime.time(1), datetime.time(2)]}),
    "pyarrow": pa.table({"x": DATES.to_numpy()}),
    "pyarrow dates": pa.table({"x": list(DATES.date)}),
    "pyarrow times": pa.table({"x": [datetime.time(1), datetime.time(2)]}),
    "pyarrow durations": pa.table({"x": [datetime.timedelta(1), datetime.timedelta(2)]}),
}
TEXT = {
    "numpy": np.array([["1"], ["2"]]),
    "pandas": pd.DataFrame({"x": pd.array(["1", "2"], dtype="string")}),
    "pandas arrow": pd.DataFrame({"x": pd.array(["1", "2"], dtype="string[pyarrow]")}),
    "polars": pl.DataFrame({"x": ["1", "2"]}),
    "polars categories": pl.DataFrame({"x": pl.Series(["1", "2"], dtype=pl.Categorical)}),
    "polars enumeration": pl.DataFrame({"x": pl.Series(["1", "2"], dtype=pl.Enum(["1", "2"]))}),
    "pyarrow": pa.table({"x": ["1", "2"]}),
    "pyarrow dictionary": pa.table({"x": pa.array(["1", "2"]).dictionary_encode()}),
}


@each("X", TEMPORAL.values(), ids=TEMPORAL)
def test_dates_are_no_numbers(X):
    """A column's type is public, and all its rows would go to one cell."""
    match = "dates, times or durations.*column ('x'|0).*Bins.*convert them to numbers"
    for outside in ("clip", "refuse"):
        with pytest.raises(TypeError, match=match):
            codes(X, Domain([BINS], outside=outside))
    assert codes(X, Domain([["a", "b"]])).tolist() == [[1], [1]]


@each("X", TEXT.values(), ids=TEXT)
@each("spec", [BINS, [1, 2]], ids=["bins", "categories"])
def test_text_is_no_number(X, spec):
    with pytest.raises(TypeError, match=r"text.*column ('x'|0).*(Bins|no text among)"):
        codes(X, Domain([spec]))
    assert codes(X, Domain([["2", "1"]])).tolist() == [[1], [0]]


def test_objects_are_decided_cell_by_cell():
    for cells in (["1", DATES[0]], [DATES[0], DATES[1]], ["1", "x"]):
        for X in (_column(cells), pd.DataFrame({"x": pd.Series(cells, dtype=object)})):
            codes(X, Domain([BINS]))


def test_the_rows_of_a_table_are_refused_without_a_charge_by_their_shape():
    for X, match in (
        (np.zeros((3, 2)), "X has 2 features, but the domain of Test has 1 columns"),
        (np.zeros((0, 1)), "0 sample"),
        (np.zeros(3), "2D array"),
        (np.zeros((3, 1), complex), "Complex data"),
    ):
        with pytest.raises(ValueError, match=match):
            codes(X, Domain([2]))
    assert codes(np.zeros((0, 1)), Domain([2]), allow_empty=True).shape == (0, 1)


def test_a_domain_of_any_size_has_a_repr():
    assert repr(Domain([200] * 150)) == "Domain(150 columns, about 10**345 cells)"
    assert repr(Domain([2, 3])) == "Domain(2 columns, 6 cells)"


DAYS = np.array([["2020-01-01"], ["2020-01-03"], ["1999-12-31"]], dtype="M8[D]")
KNOWN_DAYS = {
    "numpy days": np.array(["2020-01-01", "2020-01-02", "2020-01-03"], dtype="M8[D]"),
    "numpy nanoseconds": np.array(["2020-01-01", "2020-01-02", "2020-01-03"], dtype="M8[ns]"),
    "dates": [datetime.date(2020, 1, d) for d in (1, 2, 3)],
    "datetimes": [datetime.datetime(2020, 1, d) for d in (1, 2, 3)],
    "timestamps": [pd.Timestamp(2020, 1, d) for d in (1, 2, 3)],
}


@each("known", KNOWN_DAYS)
@each(
    "table",
    [
        lambda days: days,
        lambda days: days.astype("M8[ns]"),
        lambda days: days.astype(object),
        lambda days: pd.DataFrame({"day": days[:, 0].astype("M8[ns]")}),
        lambda days: pl.DataFrame({"day": days[:, 0]}),
        lambda days: pa.table({"day": days[:, 0]}),
    ],
)
def test_a_day_is_a_day_however_it_is_held(known, table):
    domain = Domain([[*KNOWN_DAYS[known], "other"]])
    assert codes(table(DAYS), domain)[:, 0].tolist() == [0, 2, 3]


def test_one_cell_that_its_container_cannot_read_decides_about_itself_only(capfd):
    far = pl.DataFrame({"day": pl.Series([0, 10_000_000, 1], dtype=pl.Int32).cast(pl.Date)})
    arrow = pa.table({"day": pa.array([0, 10_000_000, 1], pa.int32()).cast(pa.date32())})
    domain = Domain([[datetime.date(1970, 1, 1), datetime.date(1970, 1, 2), "other"]])
    for table in (far, arrow):
        assert codes(table, domain)[:, 0].tolist() == [0, 2, 1]
    seconds = np.array([[0], [2**62]]).astype("M8[s]")
    assert codes(seconds, domain)[:, 0].tolist() == [0, 2]
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_a_cell_may_raise_anything(error):
    class Hostile:
        def __hash__(self):
            raise error("cell")

        def __float__(self):
            raise error("cell")

    X = np.array([[Hostile()], [1]], dtype=object)
    assert codes(X, Domain([3]))[:, 0].tolist() == [2, 1]
    assert codes(X, Domain([Bins([0, 1, 2])]))[:, 0].tolist() == [0, 1]


def test_numbers_of_32_bits_are_their_categories():
    domain = Domain([[0.1, 0.2, 0.7]], outside="refuse")
    assert codes(np.array([[0.7], [0.1]], dtype=np.float32), domain)[:, 0].tolist() == [2, 0]


def test_an_array_of_text_for_numbers_is_refused():
    with pytest.raises(TypeError, match="array of text"):
        codes(np.array([["f", 0], ["m", 1]]), Domain([["f", "m"], 2]))
    assert codes(np.array([["f", 0]], dtype=object), Domain([["f", "m"], 2])).tolist() == [[0, 0]]


@each("container", ["numpy", "pandas", "polars", "pyarrow"])
@each(
    "column",
    [[0, 0.5, 1, None], [1, 2, "other"], [(1, 2), (3,)], [True, False, None], [b"a", "b", 1.5]],
)
def test_any_draw_of_categories_makes_a_table(container, column):
    """A type that the drawn values decide could fail after the charge."""
    domain = Domain([column, 2])
    for first in itertools.product(range(len(column)), repeat=3):
        table = decoded(
            domain, np.column_stack([first, [0, 1, 0]]), names=["a", "b"], container=container
        )
        assert table.shape == (3, 2)


@pytest.mark.parametrize("column", [(18, 90), ["a", "b"], Bins([18, 30, 90]), range(3), 4])
def test_a_list_of_names_beside_columns_is_refused(column):
    for columns in ([("age", column)], [3, ("age", column)]):
        with pytest.raises(TypeError, match=r"'age' beside its column.* mapping"):
            Domain(columns)


def test_a_tuple_of_two_texts_is_two_categories():
    assert Domain([("no", "yes"), ["age", 4]]).sizes == (2, 2)
