"""A row's image, and whether it is accepted, depend on that row only, in every container."""

from __future__ import annotations

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

from skdp.density_ratio import stack_samples
from skdp.model_selection import PerRecordKFold
from skdp.synthetic import Bins, Domain
from skdp.tabular import check_public_array, check_rows, check_samples, check_table, public_codes
from skdp.tabular.cells import number
from tests.folding import each
from tests.tabular.cells import Counter, image, kept, outcome


class Liar(float):
    """A number whose own code says something else, warns, and fails in the end."""

    def __float__(self):
        warnings.warn("SECRET", stacklevel=2)
        raise RuntimeError("SECRET")

    __array__ = __index__ = __float__


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


@each("k", range(len(CELLS)))
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
