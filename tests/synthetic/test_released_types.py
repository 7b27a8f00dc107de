"""Released tables: every category is read again as itself, in columns of the types of X."""

from __future__ import annotations

import datetime
import decimal
import math
import pickle
import zoneinfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdp.budget import PrivacyBudget
from skdp.synthetic import Bins, Domain, MWEMReleaser, SmallDBReleaser, conjunctions
from skdp.tabular import decoded, public_codes, table_schema
from tests.folding import each

CONTAINERS = ["numpy", "pandas", "polars", "pyarrow"]
ZONE = zoneinfo.ZoneInfo("America/New_York")
DAYS = pd.date_range("2020-01-01", periods=3)
CATEGORIES = {
    "ints": [5, -1, 2**40],
    "numpy ints": list(np.array([3, 1, 2], dtype=np.int16)),
    "large ints": [2**60 + 1, 2**60, 0],
    "ints and none": [1, None, 0],
    "ints and nan": [1, math.nan, 0],
    "floats": [0.1, -2.5, 1e300],
    "floats and none": [0.1, None, 2.0],
    "floats and nan": [0.1, 2.0, math.nan],
    "numbers": [1, 0.5, decimal.Decimal(3)],
    "text": ["b", "a", ""],
    "text and none": ["b", None, "a"],
    "numbers as text": ["1", "01", None],
    "bools": [True, False],
    "bools and none": [False, None, True],
    "dates": [datetime.date(2020, 1, d) for d in (3, 1, 2)],
    "dates and none": [datetime.date(2020, 1, 1), None],
    "datetimes": [datetime.datetime(2020, 1, d, 5, 6, 7, 8) for d in (3, 1, 2)],
    "timestamps": list(DAYS),
    "index": DAYS,
    "nanoseconds": [pd.Timestamp(2020, 1, 1) + pd.Timedelta(k, "ns") for k in (1, 2, 3)],
    "timestamps and none": [DAYS[1], pd.NaT, DAYS[0]],
    "numpy days": DAYS.to_numpy().astype("M8[D]"),
    "numpy nanoseconds": DAYS.to_numpy().astype("M8[ns]"),
    "of a zone": [datetime.datetime(2020, 1, d, tzinfo=ZONE) for d in (1, 2)],
    "of UTC": [datetime.datetime(2020, 1, d, tzinfo=datetime.UTC) for d in (2, 1)],
    "timestamps of a zone": list(DAYS.tz_localize("Europe/Berlin")),
    "of a zone and none": [datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC), None],
    "times": [datetime.time(3), datetime.time(1, 2, 3, 4)],
    "times and none": [datetime.time(3), None],
    "durations": [datetime.timedelta(3), datetime.timedelta(0, 1, 5)],
    "pandas durations": list(pd.to_timedelta([2, 1], "h")),
    "decimals": [decimal.Decimal("0.50"), decimal.Decimal("1.25")],
    "decimals and none": [decimal.Decimal("0.5"), None],
    "bytes": [b"a", b"\xff"],
    "bytes and none": [b"a", None],
    "none": [None],
}
# What polars and pyarrow have no type for.
MIXED = {"tuples": [(1, 2), (3,)], "text and numbers": ["a", 1, None], "mixed": [b"a", "b", 1.5]}


def again(domain, codes, container, **options):
    """Return the decoded table and the codes that it has."""
    table = decoded(domain, codes, names=domain.names, container=container, **options)
    return table, public_codes(table, domain, estimator="Test")


@each("container", CONTAINERS)
@each("kind", CATEGORIES)
def test_a_released_category_is_itself(kind, container):
    domain = Domain({"a": CATEGORIES[kind]}, outside="refuse")
    size = domain.sizes[0]
    everything = np.arange(size)[:, None]
    # The types of a fitted table are those of the first release; both ways.
    first, found = again(domain, everything, container)
    assert np.array_equal(found, everything)
    _, schema = table_schema(first, estimator="Test")
    for types in ((), schema.types):
        for rows in ([], [0], [size - 1] * 3, [*range(size), 0]):
            codes = np.array(rows, dtype=np.int64)[:, None]
            if not rows:
                table = decoded(domain, codes, names=domain.names, container=container, types=types)
            else:
                table, found = again(domain, codes, container, types=types)
                assert np.array_equal(found, codes)
            # The draw does not decide about types.
            assert table_schema(table, estimator="Test")[1] == schema


@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from(CONTAINERS), st.sampled_from(sorted(CATEGORIES)))
def test_any_types_of_x(data, container, kind):
    """A type of X that cannot hold the categories is left, for one that can."""
    domain = Domain({"a": CATEGORIES[kind], "b": [1, 2]}, outside="refuse")
    other = data.draw(st.sampled_from(sorted(CATEGORIES)))
    unlike = decoded(Domain([CATEGORIES[other]]), np.zeros((1, 1), int), container=container)
    _, schema = table_schema(unlike, estimator="Test")
    codes = np.array(data.draw(st.lists(st.integers(0, domain.sizes[0] - 1), min_size=1)))
    codes = np.column_stack([codes, codes % 2])
    _, found = again(domain, codes, container, types=schema.types * 2)
    assert np.array_equal(found, codes)


@each("container", CONTAINERS)
@each("kind", MIXED)
def test_text_only_where_there_is_no_type(kind, container):
    domain = Domain({"a": MIXED[kind]})
    codes = np.arange(domain.sizes[0])[:, None]
    table = decoded(domain, codes, names=["a"], container=container)
    if container in ("numpy", "pandas"):
        assert np.array_equal(public_codes(table, domain, estimator="Test"), codes)
        return
    texts = [None if value is None else str(value) for value in MIXED[kind]]
    cells = table["a"].to_list() if container == "polars" else table["a"].to_pylist()
    assert cells == texts


WHOLE = Bins([0, 2, 7], integer=True)
HALVES = Bins([0, 0.5, 1.0])
EMPTY = pd.Series([], dtype=object)
TYPES = [
    ("Int64", [0, 1, None], "pandas"),
    ("Int64", WHOLE, "pandas"),
    ("int64", WHOLE, "pandas"),
    ("uint8", WHOLE, "pandas"),
    ("float32", HALVES, "pandas"),
    ("float32", WHOLE, "pandas"),
    ("Float32", HALVES, "pandas"),
    ("category", ["a", "b", None], "pandas"),
    ("category", [3, 1], "pandas"),
    ("boolean", [True, False, None], "pandas"),
    ("bool", [0, 1], "pandas"),
    ("string", ["a", "b"], "pandas"),
    ("string[pyarrow]", ["a", None], "pandas"),
    ("object", ["a", "b"], "pandas"),
    ("object", [1, 2], "pandas"),
    ("float64", [0, 1, None], "pandas"),
    ("datetime64[us]", list(DAYS), "pandas"),
    ("datetime64[ns, UTC]", list(DAYS.tz_localize("UTC")), "pandas"),
    ("timedelta64[s]", [datetime.timedelta(1)], "pandas"),
    ("int64[pyarrow]", [0, None], "pandas"),
    ("int64[pyarrow]", WHOLE, "pandas"),
    (pl.Int64, [0, 1, None], "polars"),
    (pl.Int8, [0, 1], "polars"),
    (pl.Int64, WHOLE, "polars"),
    (pl.Float32, HALVES, "polars"),
    (pl.Boolean, [0, 1, None], "polars"),
    (pl.Categorical, ["a", "b", None], "polars"),
    (pl.Datetime("ms"), list(DAYS), "polars"),
    (pl.Datetime("us", "UTC"), list(DAYS.tz_localize("UTC")), "polars"),
    (pl.Date, list(DAYS), "polars"),
    (pl.Time, [datetime.time(1)], "polars"),
    (pl.Decimal(10, 2), [decimal.Decimal("0.5"), None], "polars"),
    (pl.Duration("ms"), [datetime.timedelta(1)], "polars"),
    (pa.int64(), [0, 1, None], "pyarrow"),
    (pa.int16(), WHOLE, "pyarrow"),
    (pa.float32(), HALVES, "pyarrow"),
    (pa.date32(), list(DAYS), "pyarrow"),
    (pa.timestamp("s"), list(DAYS), "pyarrow"),
    (pa.timestamp("us", "UTC"), list(DAYS.tz_localize("UTC")), "pyarrow"),
    (pa.large_string(), ["a", None], "pyarrow"),
    (pa.decimal128(10, 2), [decimal.Decimal("0.5")], "pyarrow"),
    (pa.time64("us"), [datetime.time(1)], "pyarrow"),
    (pa.dictionary(pa.int8(), pa.string()), ["a", "b", None], "pyarrow"),
    (np.dtype(np.int64), WHOLE, "numpy"),
    (np.dtype(np.float64), [0, 1], "numpy"),
    (np.dtype(np.float64), [0, 1, None], "numpy"),
    (np.dtype(np.float32), HALVES, "numpy"),
    (np.dtype(bool), 2, "numpy"),
    (np.dtype("M8[D]"), list(DAYS), "numpy"),
]


def _empty(dtype, container):
    """Return a table of no rows with a column of a type."""
    if container == "pandas":
        return pd.DataFrame({"a": EMPTY.astype(dtype)})
    if container == "polars":
        return pl.DataFrame({"a": pl.Series([], dtype=dtype)})
    if container == "pyarrow":
        return pa.table({"a": pa.array([], dtype)})
    return np.zeros((0, 1), dtype)


@each(("dtype", "spec", "container"), TYPES, ids=repr)
def test_a_table_like_x(dtype, spec, container):
    X = _empty(dtype, container)
    _, schema = table_schema(X, estimator="Test")
    assert pickle.loads(pickle.dumps(schema)) == schema
    domain = Domain({"a": spec}, outside="refuse")
    codes = np.array([0, domain.sizes[0] - 1, 0])[:, None]
    for rng in (None, np.random.default_rng(0)):
        table, found = again(domain, codes, container, types=schema.types, rng=rng)
        assert np.array_equal(found, codes)
        if container == "pandas" and dtype == "category":
            # Of the domain, in its order.
            stated = [value for value in spec if value is not None]
            assert table["a"].cat.categories.tolist() == stated
        elif container == "numpy":
            assert table.dtype == dtype
        else:
            assert table_schema(table, estimator="Test")[1] == schema


def test_enumerations_have_the_categories_of_the_domain():
    X = pl.DataFrame({"a": pl.Series(["x"], dtype=pl.Enum(["x", "secret"]))})
    _, schema = table_schema(X, estimator="Test")
    table = decoded(
        Domain({"a": ["x", "y"]}), np.array([[1]]), names=["a"], container="polars",
        types=schema.types,
    )  # fmt: skip
    assert table["a"].dtype == pl.Enum(["x", "y"])
    assert b"secret" not in pickle.dumps(schema)


def test_a_schema_holds_no_value_of_a_column():
    named = np.dtype(np.int64, metadata={"note": "secret"})
    nested = pa.table({"a": [{"secret": 1}], "b": [["secret"]]})
    for X in (
        pd.DataFrame({"a": pd.Categorical(["secret", "b"], ordered=True)}),
        pd.DataFrame({"a": pd.arrays.SparseArray([7.25, 7.25], fill_value=7.25)}),
        np.zeros((2, 1), dtype=named),
        nested,
        pl.from_arrow(nested),
        pa.table({"a": pa.array(["secret"]).dictionary_encode()}),
    ):
        schema = table_schema(X, estimator="Test")[1]
        assert b"secret" not in pickle.dumps(schema)
        assert "secret" not in repr(schema)
        assert "7.25" not in repr(schema)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=9, unique=True).map(sorted),
    st.sampled_from([np.float16, np.float32, np.float64, np.int8, np.int64]),
    st.integers(0, 2**32),
)
def test_points_of_bins_of_any_type_lie_in_their_cells(edges, dtype, seed):
    domain = Domain([Bins(edges)], outside="refuse")
    codes = np.random.default_rng(seed).integers(0, len(edges) - 1, size=(30, 1))
    for rng in (None, np.random.default_rng(seed)):
        table = decoded(domain, codes, types=(np.dtype(dtype),), rng=rng)
        assert np.array_equal(public_codes(table, domain, estimator="Test"), codes)


# --- the estimators -------------------------------------------------------------------------------


def small(domain, **options):
    return SmallDBReleaser(
        conjunctions(1), size=5, domain=domain, random_state=0, **{"epsilon": 100.0, **options}
    )


@each("table", [lambda c: pd.DataFrame(c), lambda c: pl.DataFrame(c), lambda c: pa.table(c)])
@each("outside", ["clip", "refuse"])
def test_a_release_knows_its_own_rows(table, outside):
    X = table({"d": [DAYS[0].to_pydatetime()] * 100})
    released = small(Domain({"d": DAYS}, outside=outside)).fit(X)
    assert released.predict(released.database_[:1])[0] == 1.0
    again = pickle.loads(pickle.dumps(released))
    assert again.predict(released.database_[:1])[0] == 1.0
    schemas = [table_schema(t, estimator="Test")[1] for t in (X, released.database_)]
    assert schemas[0] == schemas[1]
    assert table_schema(again.sample(2), estimator="Test")[1] == schemas[0]


@pytest.mark.parametrize("kind", ["small", "mwem"])
def test_a_release_has_the_types_of_x(kind):
    X = pd.DataFrame(
        {
            "age": pd.array([20, None, 70], dtype="Int64"),
            "origin": pd.Categorical(["JFK", "secret", None]),
            "on": pd.array([True, None, False], dtype="boolean"),
        }
    )
    stated = {"age": Bins([0, 18, 120], integer=True), "origin": ["JFK", "EWR"], "on": [True, None]}
    estimator = small(Domain(stated))
    if kind == "mwem":
        estimator = MWEMReleaser(conjunctions(1), domain=Domain(stated), random_state=0)
    table = pickle.loads(pickle.dumps(estimator.fit(X))).sample(4)
    assert [str(dtype) for dtype in table.dtypes] == ["Int64", "category", "boolean"]
    assert table["origin"].cat.categories.tolist() == ["JFK", "EWR"]
    assert b"secret" not in pickle.dumps(estimator)


@each(
    "X",
    [
        pd.DataFrame({"a": pd.Series(["b"], dtype="string")}),
        pl.DataFrame({"a": ["b"]}),
        pa.table({"a": ["b"]}),
    ],
    ids=["pandas", "polars", "pyarrow"],
)
@each("kind", ["small", "mwem"])
def test_what_a_table_cannot_hold_is_told_before_the_charge(X, kind):
    domain = Domain({"a": ["\ud800", "b"]})
    for epsilon in (1.0, 1e-3):
        budget = PrivacyBudget(epsilon=10.0)
        estimator = small(domain, epsilon=epsilon, budget=budget)
        if kind == "mwem":
            estimator = MWEMReleaser(conjunctions(1), domain=domain, budget=budget)
        try:
            estimator.fit(X)
        except ValueError as error:
            assert "domain: column 'a' has categories that a" in str(error)  # noqa: PT017
            assert budget.spent.epsilon == 0
        else:  # a container that can
            assert estimator.sample(3).shape == (3, 1)


@pytest.mark.parametrize(
    "domain", [[2, 2, 2], (2, 2, 2), [[0, 1], 2, Bins([0, 0.5, 1])], {"a": 2, "b": 2, "c": 2}]
)
def test_domains_as_lists_and_mappings(domain):
    X = np.zeros((20, 3), dtype=int)
    fitted = small(domain).fit(X)
    assert fitted.domain_ == Domain(domain)
    assert small(domain).error_bound(1000) == small(Domain(domain)).error_bound(1000)
    with pytest.raises(ValueError, match="X has 2 features"):
        small(domain).fit(X[:, :2])


def test_the_error_is_that_of_the_domain_that_is_stated_now():
    X = np.zeros((20, 3), dtype=int)
    fitted = small(Domain([2, 2, 2])).fit(X)
    larger = small(Domain([3, 3])).error_bound(1000)
    assert fitted.set_params(domain=Domain([3, 3])).error_bound(1000) == larger
    # Of a domain that is the same in every column, the fit tells how many there are.
    expected = small(5).error_bound(1000, 3)
    assert fitted.set_params(domain=5).error_bound(1000) == expected
    assert fitted.error_bound(1000, 2) == small(5).error_bound(1000, 2)
    with pytest.raises(TypeError, match="domain must be"):
        fitted.set_params(domain=None).error_bound(1000)
    for estimator in (small(Domain([2, 2, 2])), small([2, 2, 2]), small([2, 2, 2]).fit(X)):
        assert estimator.error_bound(1000, 3) == small(2).error_bound(1000, 3)
        with pytest.raises(ValueError, match="n_features must be the number of columns of domain"):
            estimator.error_bound(1000, 99)
    with pytest.raises(ValueError, match="n_features must be given"):
        small(2).error_bound(1000)


@pytest.mark.parametrize("container", ["numpy", "polars", "pyarrow", "dictionary"])
def test_what_one_cell_decides_of_a_type_is_left_behind(container):
    """The length of the longest text, the digits of decimals, the width of a dictionary's index."""

    def texts(extra):
        return np.array([["x"], ["y"], ["x" * extra]])

    def decimals(extra):
        return [decimal.Decimal("1.5"), decimal.Decimal("2.25"), decimal.Decimal(extra)]

    def dictionary(n):
        kinds = pd.Series([f"c{i}" for i in range(n)] + ["x", "y"], dtype="category")
        return pa.Table.from_pandas(pd.DataFrame({"a": kinds}))

    number = Domain([[decimal.Decimal("1.5"), decimal.Decimal("2.25"), decimal.Decimal("7")]])
    domain, first, second = {
        "numpy": lambda: (Domain([["x", "y"]]), texts(1), texts(37)),
        "polars": lambda: (
            number, *[pl.DataFrame({"a": decimals(one)}) for one in ("7", "123456.789")]
        ),
        "pyarrow": lambda: (
            number, *[pa.table({"a": pa.array(decimals(one))}) for one in ("7", "123456.789")]
        ),
        "dictionary": lambda: (Domain([["x", "y"]]), dictionary(120), dictionary(140)),
    }[container]()  # fmt: skip
    released = [
        MWEMReleaser(conjunctions(1), domain=domain, random_state=0).fit(X) for X in (first, second)
    ]
    known = [pickle.dumps(one._schema) for one in released]
    assert known[0] == known[1]
    types = [str(getattr(one.sample(5), "schema", "")) for one in released]
    assert types[0] == types[1]
