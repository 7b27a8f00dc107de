"""A row's image, and whether it is accepted, depend on that row only, in every container."""

from __future__ import annotations

import array
import datetime
import decimal
import fractions
import math
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdp import DPuLSIF, statistics
from skdp.density_ratio import stack_samples
from skdp.model_selection import PerRecordKFold
from skdp.synthetic import Bins, Domain
from skdp.tabular import (
    check_labelled,
    check_public_array,
    check_rows,
    check_samples,
    check_table,
    opaque_rows,
    public_codes,
)
from skdp.tabular.values import number


class Liar(float):
    """A number whose own code says something else, warns, and fails in the end."""

    def __float__(self):
        warnings.warn("SECRET", stacklevel=2)
        raise RuntimeError("SECRET")

    __array__ = __index__ = __float__


class Counter:
    """Is no number, though it would convert to another one each time."""

    count = 0.0

    def __float__(self):
        Counter.count += 1
        return Counter.count

    def __array__(self, dtype=None, copy=None):
        return np.array(float(self))


class Rude(type):
    """A class that fails wherever it can."""

    def __hash__(cls):
        raise SystemExit("SECRET")


class Ruder(metaclass=Rude):
    def _fail(self, *_):
        raise SystemExit("SECRET")

    __len__ = __iter__ = __array__ = __hash__ = __eq__ = __str__ = __repr__ = _fail


LONG = np.longdouble(1) / 3
# What a cell is read as: decided here, one by one.
NUMBERS = [
    (0.1, 0.1),
    (-0.0, 0.0),
    (7, 7.0),
    (2**53 + 1, 2.0**53),
    (2**63, 2.0**63),
    (-(2**64) - 1, -(2.0**64)),
    (True, 1.0),
    (np.bool_(False), 0.0),
    (np.float16(0.1), 0.0999755859375),
    (np.float32(0.7), 0.699999988079071),
    (np.float64(0.7), 0.7),
    (LONG, 1 / 3),
    (np.int8(-5), -5.0),
    (np.uint64(2**64 - 1), 2.0**64),
    (np.int64(2**53 + 1), 2.0**53),
    (decimal.Decimal("0.1"), 0.1),
    (fractions.Fraction(1, 3), 1 / 3),
    (np.array(2.5), 2.5),
    (np.array(2.5, dtype=np.float32), 2.5),
    (Liar(1.5), 1.5),
]
MISSING = [
    (cell, math.nan)
    for cell in (
        None, math.nan, np.float32("nan"), np.longdouble("nan"), np.ma.masked, pd.NA, pd.NaT,
        np.datetime64("NaT"), np.timedelta64("NaT"), decimal.Decimal("NaN"),
        decimal.Decimal("sNaN"),
    )
]  # fmt: skip
INFINITE = [
    (cell, math.inf)
    for cell in (
        math.inf, np.float16("inf"), 10**400, decimal.Decimal("1e999"), np.longdouble("1e4000"),
        fractions.Fraction(10**400, 3),
    )
]  # fmt: skip
NONE = [
    (cell, None)
    for cell in (
        "0.5", "", "nan", "SECRET", np.str_("0.5"), b"0.5", bytearray(b"1"), np.bytes_(b"1"), 1j,
        np.complex64(1 + 2j), np.complex128(1), np.array(1j), np.array("1"), np.array([1.0]),
        datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1), datetime.timedelta(1),
        np.datetime64(1, "D"), np.timedelta64(1, "s"), np.datetime64(1, "ns"),
        pd.Timestamp("2020-01-01"), pd.Timedelta(1), pd.Period("2020-01"), pd.Interval(0, 1),
        np.ma.array(1.0, mask=True), [1.0], (1.0,), {}, {1.0}, object(), Counter(), Ruder(),
        pa.scalar(1.0), np.void(b"1"), float, lambda: 1.0,
    )
]  # fmt: skip
CELLS = NUMBERS + MISSING + INFINITE + NONE


@pytest.mark.parametrize("k", range(len(CELLS)))
def test_what_a_cell_is(k):
    cell, expected = CELLS[k]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if isinstance(cell, Ruder):
            with pytest.raises(SystemExit):
                number(cell)  # which nobody calls outside of `run_isolated`
            return
        found = number(cell)
    if expected is None:
        assert found is None
    else:
        np.testing.assert_array_equal(found, expected)


def objects(table):
    """Return an array of these cells, which numpy must not look into."""
    X = np.empty((len(table), len(table[0])), dtype=object)
    for i, row in enumerate(table):
        for j, cell in enumerate(row):
            X[i, j] = cell
    return X


def pandas_objects(table):
    X = objects(table)
    return pd.DataFrame({name: pd.Series(X[:, j], dtype=object) for j, name in enumerate("ab")})


def pandas_mixed(table):
    """Return two columns of objects with a column of floats, and one of short floats."""
    return pandas_objects(table).assign(c=np.arange(len(table)) / 7, d=np.float32(0.7))


CONTAINERS = {
    "lists": lambda table: [list(row) for row in table],
    "tuples": lambda table: tuple(tuple(row) for row in table),
    "lists and tuples": lambda table: [
        tuple(row) if i % 2 else list(row) for i, row in enumerate(table)
    ],
    "rows of objects": lambda table: list(objects(table)),
    "array": objects,
    "Fortran": lambda table: np.asfortranarray(objects(table)),
    "pandas": pandas_objects,
    "pandas mixed": pandas_mixed,
    "polars": lambda table: pl.DataFrame(  # which calls a class that fails itself
        {name: pl.Series(list(column), dtype=pl.Object) for name, column in zip("ab", zip(*table))}  # noqa: B905
    ),
}
# pyarrow and numpy have no objects; rows of arrays have a type each, as wide as the row needs.


def outcome(read):
    """Return what `read` gives, or the type and text of its error, which stands alone."""
    raised = None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return read()
        except (TypeError, ValueError) as error:
            raised = error
    assert raised.__cause__ is None
    assert raised.__context__ is None
    assert "SECRET" not in str(raised)
    return type(raised), str(raised)


def image(X):
    return np.concatenate(list(check_rows(X, estimator="T").chunks()))[:, :2]


def kept(X):
    """Return the rows without missing cells, where those with some are left out."""
    rows, _ = check_table(X, estimator="T", omit=True, allow_empty=True)
    return np.concatenate([np.empty((0, rows.n_features)), *rows.chunks()])[:, :2]


def not_a_number(X):
    """Return the refusal of what is no number: it tells of the types of columns, not of cells."""
    kind, text = outcome(lambda: check_rows([["x"]], estimator="T"))
    if isinstance(X, pd.DataFrame):
        types = {name: column.dtype for name, column in X.items() if column.dtype == object}
        text += "".join(f" The type of column {name!r} is {t}." for name, t in types.items())
    elif getattr(X, "name", None) is not None:  # of polars
        text += f" The type of column {X.name!r} is {X.dtype}."
    return kind, text


NOT_FINITE = outcome(lambda: check_rows([[np.nan]], estimator="T"))
# Where missing cells are left out, what is infinite is all that can be wrong with a number.
INFINITE = outcome(lambda: check_table([[np.inf]], estimator="T", omit=True))
POSITIONS = st.integers(0, len(CELLS) - 1)


def without_rude(container, cells):
    """Return the container, or nothing where the library itself calls the class that fails."""
    try:
        return container(cells)
    except SystemExit:
        return None


@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
@settings(max_examples=30)
@given(table=st.lists(st.tuples(POSITIONS, POSITIONS), min_size=1, max_size=6))
def test_rows_are_read_one_by_one(container, table):
    cells = [[CELLS[a][0], CELLS[b][0]] for a, b in table]
    wanted = [[CELLS[a][1], CELLS[b][1]] for a, b in table]
    none = any(None in row for row in wanted)
    missing = [not none and bool(np.isnan(row).any()) for row in wanted]
    infinite = [not none and bool(np.isinf(row).any()) for row in wanted]

    if (X := without_rude(container, cells)) is None:
        return
    found = outcome(lambda: image(X))
    if none or any(missing) or any(infinite):
        # One text, whichever row it is, and however many there are.
        assert found == (not_a_number(X) if none else NOT_FINITE)
    else:
        np.testing.assert_array_equal(found, wanted)

    found = outcome(lambda: kept(X))
    if none or any(infinite):
        assert found == (not_a_number(X) if none else INFINITE)
    else:
        whole = [row for row, gone in zip(wanted, missing, strict=True) if not gone]
        np.testing.assert_array_equal(found, np.reshape(whole, (-1, 2)))


FLAT = {
    "list": list,
    "tuple": tuple,
    "array": lambda cells: objects([[c] for c in cells])[:, 0],
    "series": lambda cells: pd.Series(objects([[c] for c in cells])[:, 0], dtype=object),
    "polars": lambda cells: pl.Series(cells, dtype=pl.Object),
    "index": lambda cells: pd.Index(objects([[c] for c in cells])[:, 0], dtype=object),
}


@pytest.mark.parametrize("container", FLAT.values(), ids=FLAT)
@settings(max_examples=30)
@given(column=st.lists(POSITIONS, min_size=1, max_size=6))
def test_columns_are_read_cell_by_cell(container, column):
    # A list or an array among the cells of a list makes rows of it, for one row as for many.
    column = [k for k in column if not isinstance(CELLS[k][0], list | tuple)]
    column = [k for k in column if getattr(CELLS[k][0], "shape", ()) == ()] or [0]
    cells, wanted = [CELLS[k][0] for k in column], [CELLS[k][1] for k in column]
    if (X := without_rude(container, cells)) is None:
        return
    found = outcome(lambda: kept(X))
    if None in wanted or np.isinf(np.array(wanted)).any():
        assert found == (not_a_number(X) if None in wanted else INFINITE)
    else:
        whole = [value for value in wanted if not math.isnan(value)]
        np.testing.assert_array_equal(found, np.reshape(whole, (-1, 1)))


@given(table=st.lists(POSITIONS, min_size=1, max_size=6))
@settings(max_examples=30)
def test_codes_are_those_of_each_cell_alone(table):
    domain = Domain([Bins([-3.0, 0.0, 0.5, 2.0**60]), [0.1, 7, "SECRET", None, b"0.5"]])
    cells = [[CELLS[k][0], CELLS[k][0]] for k in table]
    together = public_codes(cells, domain, estimator="T")
    for i, row in enumerate(cells):
        np.testing.assert_array_equal(public_codes([row], domain, estimator="T")[0], together[i])
    np.testing.assert_array_equal(
        public_codes(pandas_objects(cells), domain, estimator="T"), together
    )


def test_a_short_float_is_its_category_in_lists_too():
    domain = Domain([[0.1, 0.5, 0.0]])
    for X in ([[np.float32(0.1)], [0.5]], np.array([[0.1], [0.5]], dtype=np.float32)):
        assert public_codes(X, domain, estimator="T").ravel().tolist() == [0, 1]


@given(private=st.lists(POSITIONS, max_size=4), public=st.lists(POSITIONS, min_size=1, max_size=3))
def test_a_private_cell_does_not_move_public_rows(private, public):
    public = [[CELLS[k][0]] for k in public if k < len(NUMBERS)] or [[0.5]]
    cells = [[CELLS[k][0]] for k in private]
    # A row may be refused, but no other one is read as anything else.
    try:
        X, y = stack_samples(private=cells, public=public)
    except ValueError:
        assert any(isinstance(c, list | tuple | np.ndarray) for (c,) in cells)
        return
    alone = check_public_array(public, estimator="T")
    np.testing.assert_array_equal(check_public_array(X[y == 0], estimator="T"), alone)
    found = outcome(lambda: check_samples(X, y, estimator="T", allow_empty=True)[1])
    if not isinstance(found, tuple):
        np.testing.assert_array_equal(found, alone)


@given(table=st.lists(st.tuples(POSITIONS, POSITIONS), min_size=1, max_size=6))
def test_folds_are_those_of_each_record_alone(table):
    odd = (Counter, Ruder, pa.Scalar, np.void, type, Liar, type(lambda: 0))
    table = [pair for pair in table if not any(isinstance(CELLS[k][0], odd) for k in pair)]
    cells = [[CELLS[a][0], CELLS[b][0]] for a, b in table]
    complex_ = any(np.iscomplexobj(c) for row in cells for c in row)
    splitter = PerRecordKFold(3, random_state=0)

    def fold(X):
        return [k for _, test in splitter.split(X) for k in test.tolist()], [
            len(test) for _, test in splitter.split(X)
        ]

    if not cells or complex_ or any(type(c) is object for row in cells for c in row):
        return
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        folds = [test.tolist() for _, test in splitter.split(cells)]
        for i, row in enumerate(cells):
            (own,) = (k for k, (_, test) in enumerate(splitter.split([row])) if len(test))
            assert i in folds[own]


# --- containers that have types -----------------------------------------------------------------

VALUES = [[0.5, 3.0], [1.25, 2.0], [0.75, 7.0]]
A, B = zip(*VALUES, strict=True)
TYPED = {
    "memory map": None,
    "matrix": np.array(VALUES).view(np.matrix),
    "big endian": np.array(VALUES, dtype=">f4"),
    "long double": np.array(VALUES, dtype=np.longdouble),
    "rows of arrays": [np.array(VALUES[0]), np.array(VALUES[1], np.float16), tuple(VALUES[2])],
    "pandas types": pd.DataFrame({"a": pd.array(A, "Float32"), "b": pd.array(B, "Int64")}),
    "pandas numpy types": pd.DataFrame({"a": np.float32(A), "b": np.int8(B)}),
    "pandas arrow": pd.DataFrame(
        {"a": pd.array(A, pd.ArrowDtype(pa.float32())), "b": pd.array(B, pd.ArrowDtype(pa.int8()))}
    ),
    "pandas arrow decimals": pd.DataFrame(
        {
            "a": pd.array([decimal.Decimal(v) for v in A], pd.ArrowDtype(pa.decimal128(9, 3))),
            "b": pd.array(B, pd.ArrowDtype(pa.int8())).astype(
                pd.ArrowDtype(pa.dictionary(pa.int8(), pa.int8()))
            ),
        }
    ),
    "pandas categories": pd.DataFrame({"a": pd.Categorical(A), "b": pd.Categorical(B)}),
    "pandas sparse": pd.DataFrame({"a": pd.arrays.SparseArray(A), "b": B}),
    "pandas objects": pd.DataFrame({"a": pd.Series(A, dtype=object), "b": np.uint64(B)}),
    "polars types": pl.DataFrame({"a": pl.Series(A, dtype=pl.Float32), "b": np.uint8(B)}),
    "polars decimals": pl.DataFrame({"a": [decimal.Decimal(v) for v in A], "b": np.int64(B)}),
    "polars objects": pl.DataFrame({"a": pl.Series(A, dtype=pl.Object), "b": B}),
    "pyarrow types": pa.table({"a": pa.array(A, pa.float32()), "b": pa.array(map(int, B))}),
    "pyarrow half": pa.table({"a": pa.array(np.float16(A)), "b": pa.array(B, pa.float64())}),
    "pyarrow chunks": pa.table({"a": pa.chunked_array([A[:1], A[1:]]), "b": list(B)}),
    "pyarrow decimals": pa.table({"a": [decimal.Decimal(v) for v in A], "b": list(B)}),
    "pyarrow dictionary": pa.table({"a": pa.array(A).dictionary_encode(), "b": list(B)}),
    "pyarrow dictionaries": pa.table(
        {
            "a": pa.chunked_array(
                [pa.array(A[:2]).dictionary_encode(), pa.array(A[2:]).dictionary_encode()]
            ),
            "b": list(B),
        }
    ),
    "pyarrow batch": pa.record_batch({"a": list(A), "b": list(B)}),
}


@pytest.mark.parametrize("name", TYPED)
def test_every_type_of_column_gives_the_same_numbers(name, tmp_path):
    X = TYPED[name]
    if name == "memory map":
        np.array(VALUES, dtype=np.float32).tofile(tmp_path / "rows")
        X = np.memmap(tmp_path / "rows", dtype=np.float32, shape=(3, 2), mode="r")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = check_rows(X, estimator="T")
        np.testing.assert_array_equal(np.concatenate(list(rows.chunks())), VALUES)
        np.testing.assert_array_equal(check_public_array(X, estimator="T"), VALUES)
        np.testing.assert_array_equal(kept(X), VALUES)


GAPS = {
    "pandas Int64": pd.DataFrame({"a": pd.array([1, None, 2**53 + 1], "Int64")}),
    "pandas boolean": pd.DataFrame({"a": pd.array([True, None, False], "boolean")}),
    "pandas arrow": pd.DataFrame({"a": pd.array([1, None, 3], pd.ArrowDtype(pa.int64()))}),
    "pandas arrow bool": pd.DataFrame({"a": pd.array([1, None, 0], pd.ArrowDtype(pa.bool_()))}),
    "pandas categories": pd.DataFrame({"a": pd.Categorical([1, None, 3])}),
    "polars": pl.DataFrame({"a": [1, None, 3]}),
    "polars bool": pl.DataFrame({"a": [True, None, False]}),
    "polars short": pl.DataFrame({"a": pl.Series([1, None, 3], dtype=pl.Int8)}),
    "pyarrow": pa.table({"a": [1, None, 3]}),
    "pyarrow bool": pa.table({"a": [True, None, False]}),
    "pyarrow dictionary": pa.table({"a": pa.array([1, None, 3]).dictionary_encode()}),
    "pandas column": pd.Series([1, None, 3], dtype="Int64"),
    "polars column": pl.Series([1, None, 3]),
    "pyarrow column": pa.chunked_array([[1, None], [3]]),
    "pyarrow array": pa.array([True, None, False]),
    "masked constants": list(np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0])),
    "masked rows": list(np.ma.array([[1.0], [2.0], [3.0]], mask=[[0], [1], [0]])),
}


@pytest.mark.parametrize("X", GAPS.values(), ids=GAPS)
def test_missing_cells_of_every_type(X):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(kept(X)) == 2


MASKED = np.ma.array([[1.0], [2.0]], mask=[[0], [1]])
REFUSED = {
    "pandas dates": pd.DataFrame({"a": pd.to_datetime(["2020-01-01"] * 2)}),
    "pandas zone": pd.DataFrame({"a": pd.to_datetime(["2020-01-01"] * 2, utc=True)}),
    "pandas periods": pd.DataFrame({"a": pd.period_range("2020-01-01", periods=2)}),
    "pandas intervals": pd.DataFrame({"a": pd.interval_range(0, 2)}),
    "pandas durations": pd.DataFrame({"a": pd.to_timedelta([1, 2])}),
    "pandas strings": pd.DataFrame({"a": pd.array(["1", "2"], "string")}),
    "pandas no strings": pd.DataFrame({"a": pd.array([None, None], "string")}),
    "pandas arrow strings": pd.DataFrame({"a": pd.array(["1", "2"], pd.ArrowDtype(pa.string()))}),
    "pandas arrow dates": pd.DataFrame(
        {"a": pd.array([datetime.date(2020, 1, 1)], pd.ArrowDtype(pa.date32()))}
    ),
    "pandas text categories": pd.DataFrame({"a": pd.Categorical(["1", "2"])}),
    "polars text": pl.DataFrame({"a": ["1", "2"]}),
    "polars times": pl.DataFrame({"a": [datetime.time(1)]}),
    "polars lists": pl.DataFrame({"a": [[1.0], [2.0]]}),
    "polars bytes": pl.DataFrame({"a": [b"1"]}),
    "pyarrow text": pa.table({"a": ["1", "2"]}),
    "pyarrow dates": pa.table({"a": [datetime.date(1, 1, 1)]}),
    "pyarrow text dictionary": pa.table({"a": pa.array(["1"]).dictionary_encode()}),
    "pyarrow lists": pa.table({"a": [[1.0], [2.0]]}),
    "text": np.array([["1"], ["2"]]),
    "bytes": np.array([[b"1"], [b"2"]]),
    "variable text": np.array([["1"], ["2"]], dtype=getattr(np.dtypes, "StringDType", np.str_)()),
    "masked": MASKED,
    "subclass of masked": MASKED.view(type("Sub", (np.ma.MaskedArray,), {})),
}


@pytest.mark.parametrize("X", REFUSED.values(), ids=REFUSED)
def test_types_that_are_no_numbers_are_refused_everywhere(X):
    for read in (image, kept, lambda X: check_public_array(X, estimator="T")):
        kind, text = outcome(lambda read=read: read(X))
        assert kind is TypeError
        assert "numeric" in text or "masked" in text


def test_an_object_that_hides_a_masked_array_is_refused():
    class Holder:
        def __array__(self, dtype=None, copy=None):
            return MASKED

    assert outcome(lambda: image(Holder()))[0] is TypeError


def test_a_type_that_is_refused_names_its_column():
    with pytest.raises(TypeError, match="column 'when' is of dates"):
        check_rows(pd.DataFrame({"a": [1.0], "when": [pd.Timestamp(0)]}), estimator="T")


def test_categories_are_named_by_column():
    table = pd.DataFrame({"a": [1.0, 2.0], "sex": pd.Categorical(["SECRET", "m"])})
    wanted = "column 'sex' is category"
    reads = (image, kept, lambda X: check_public_array(X, estimator="T"))
    for read in reads:
        assert wanted in outcome(lambda read=read: read(table))[1]
    assert wanted in outcome(lambda: kept(table["sex"]))[1]
    many = pd.DataFrame({f"c{i}": pd.Categorical(["SECRET"]) for i in range(20)})
    assert outcome(lambda: image(many))[1].count("category") == 5
    numbers = table.assign(sex=pd.Categorical([3, 4]))
    np.testing.assert_array_equal(image(numbers), [[1, 3], [2, 4]])


def test_own_code_of_a_subclass_does_not_run():
    class Nosy(np.ndarray):
        def __getitem__(self, key):
            raise RuntimeError("SECRET")

        def __array_ufunc__(self, *args, **kwargs):
            raise RuntimeError("SECRET")

    class Nosier(Nosy):  # as a cell
        @property
        def ndim(self):
            raise RuntimeError("SECRET")

        dtype = astype = __class__ = ndim

    assert number(np.array(0.5).view(Nosier)) == 0.5
    assert number(np.array([0.5]).view(Nosier)) is None
    assert number(np.array("x").view(Nosier)) is None

    X = np.array(VALUES).view(Nosy)
    np.testing.assert_array_equal(image(X), VALUES)
    assert statistics.mean(X, bounds=(0, 9)).value.shape == (2,)


# --- what is released ---------------------------------------------------------------------------


def test_one_cell_of_text_does_not_move_a_histogram():
    rows = [[np.float32(0.7)]] * 1000
    counts = statistics.histogram([*rows, [0.5]], [0, 0.7, 1], epsilon=1000.0)[0].value
    assert np.abs(counts - [1001, 0]).max() < 3  # the nearest float below 0.7
    with pytest.raises(TypeError, match="numeric"):
        statistics.histogram([*rows, ["0.5"]], [0, 0.7, 1], epsilon=1000.0)


@pytest.mark.slow
def test_a_private_cell_does_not_move_the_candidates_of_a_bandwidth():
    public = [[np.float32(v)] for v in (0.1, 0.7, 0.3)]
    y = [1, 1, 0, 0, 0]
    gammas = []
    for cell in (np.float32(0.5), decimal.Decimal("0.5"), np.longdouble(0.5), 1, True):
        X = [[np.float32(0.2)], [cell], *public]
        gammas.append({DPuLSIF(epsilon=1e-3, random_state=k).fit(X, y).gamma_ for k in range(20)})
    assert len(set.union(*gammas)) < 20
    with pytest.raises(TypeError, match="numeric"):
        DPuLSIF(epsilon=1e-3).fit([[np.float32(0.2)], ["0.5"], *public], y)


@pytest.mark.parametrize("label", [None, math.nan, np.ma.masked, "x", 1j, Counter(), pd.NA])
def test_a_label_is_decided_by_itself(label):
    classes = np.array([0.5, 1.0])
    labels = [0.5, np.float32(1), 1, True, decimal.Decimal("0.5")]
    codes = [0, 1, 1, 1, 0]

    def read(labels):
        X = np.zeros((len(labels), 1))
        return outcome(lambda: check_labelled(X, labels, estimator="T", classes=classes))

    for place in (0, 2, 5):
        made = read([*labels[:place], label, *labels[place:]])
        if isinstance(made, tuple):
            assert made == read([label])
        else:
            assert made._y.tolist() == [*codes[:place], -1, *codes[place:]]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_label_of_several_is_refused_wherever_it_stands(place):
    labels = [0.5, 1.0]
    labels.insert(place, [1.0])
    found = outcome(lambda: check_labelled(np.zeros((3, 1)), labels, estimator="T"))
    assert found == (ValueError, "y must be one-dimensional, of shape (n_samples,).")


def test_scored_rows_of_lists_have_one_form():
    rows = opaque_rows([[np.float32(0.7), "a"], (1, None)], ["x", 2])
    assert rows._X.dtype == object
    assert isinstance(rows._X[0, 0], np.float32)
    assert rows._y.tolist() == ["x", 2]
    with pytest.raises(ValueError, match="as many cells in each row"):
        opaque_rows([[1, 2], [3]])


def test_labels_in_columns_of_every_library():
    classes = np.array(["a", "b"])
    for y in (
        pa.array(["a", "b"]),
        pa.chunked_array([["a"], ["b"]]),
        pa.table({"y": ["a", "b"]}),
        pa.array(["a", "b"]).dictionary_encode(),
        pl.Series(["a", "b"], dtype=pl.Categorical),
        pl.DataFrame({"y": ["a", "b"]}),
        pd.DataFrame({"y": ["a", "b"]}),
        pd.Series(["a", "b"], dtype="category"),
        [["a"], ["b"]],
        np.array([["a"], ["b"]]),
    ):
        rows = check_labelled(np.zeros((2, 1)), y, estimator="T", classes=classes)
        assert rows._y.tolist() == [0, 1]
    for y in (pa.table({"y": [1.0], "z": [1.0]}), np.ma.array([1.0], mask=[1])):
        found = outcome(lambda y=y: check_labelled(np.zeros((1, 1)), y, estimator="T"))
        assert found == (ValueError, "y must be one-dimensional, of shape (n_samples,).")


def test_an_array_of_python_s_own_is_a_column():
    for column in (array.array("f", [0.5, 2.0]), memoryview(np.array([0.5, 2.0])), (0.5, 2)):
        assert kept(column).tolist() == [[0.5], [2.0]]


INTEGERS_WITH_NULLS = {
    "pandas": lambda cells: pd.Series(cells, dtype="Int64"),
    "pandas arrow": lambda cells: pd.Series(cells, dtype="int64[pyarrow]"),
    "pandas categorical": lambda cells: pd.Series(cells, dtype="category"),
    "pandas frame": lambda cells: pd.DataFrame({"y": pd.Series(cells, dtype="Int64")}),
    "polars": lambda cells: pl.Series("y", cells),
    "polars frame": lambda cells: pl.DataFrame({"y": cells}),
    "pyarrow": lambda cells: pa.array(cells, type=pa.int64()),
}


@pytest.mark.parametrize("make", INTEGERS_WITH_NULLS.values(), ids=INTEGERS_WITH_NULLS)
def test_a_missing_label_changes_no_other(make):
    """Beyond 2**53 labels would merge in an array of floats, which one missing cell makes."""
    classes = [2**53, 2**53 + 1]

    def sums(labels):
        return statistics.subset_sums(
            np.ones(100), make(labels), classes=classes, bounds=(0, 1), nan_policy="omit",
            epsilon=1e3,
        ).value.ravel()  # fmt: skip

    np.testing.assert_allclose(sums([2**53 + 1] * 100), [0, 100], atol=0.5)
    np.testing.assert_allclose(sums([2**53 + 1] * 99 + [None]), [0, 99], atol=0.5)


@pytest.mark.parametrize("make", INTEGERS_WITH_NULLS.values(), ids=INTEGERS_WITH_NULLS)
def test_a_missing_target_changes_no_other_of_a_scorer(make):
    rows = [opaque_rows(np.ones((3, 1)), make([2**53 + 1, 2**53, last])) for last in (7, None)]
    seen = [[next(iter(np.ravel(y))) for _, y in one.slices(1)][:2] for one in rows]
    assert seen[0] == seen[1] == [2**53 + 1, 2**53]


def test_a_cell_of_pyarrow_does_not_decide_whether_samples_go_together():
    public = pa.table({"a": [0.5, 1.5]})
    for cell in (1, 2**53 + 1):
        stacked, marks = stack_samples(private=pa.table({"a": [cell, 2]}), public=public)
        assert stacked.num_rows == marks.size == 4
