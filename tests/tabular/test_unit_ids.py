"""Ids of units: who is one unit, in every container, and what is refused without quoting an id."""

from __future__ import annotations

import datetime
import decimal
import fractions
import uuid

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdp.tabular import check_units, name_of_ids
from tests.folding import each

SECRET = "alice@example.org"


def codes(groups, n=None):
    n = len(groups) if n is None else n
    found = check_units(groups, n, estimator="DPThing")
    assert found.words.size == found.codes.max(initial=-1) + 1
    return found.codes.tolist()


def same(a, b):
    """Whether two lists of codes put the same rows together."""
    return len(set(zip(a, b, strict=True))) == len(set(a)) == len(set(b))


TEXT = ["b", "a", "b", "c", "a"]
NUMBERS = [3, 1, 3, 2, 1]
DATES = [datetime.date(2020, 1, i) for i in NUMBERS]
CONTAINERS = {
    "list": list,
    "tuple": tuple,
    "numpy": np.array,
    "objects": lambda v: np.array(v, dtype=object),
    "pandas": pd.Series,
    "pandas, shuffled index": lambda v: pd.Series(v, index=[9, 9, 1, 0, 5]),
    "pandas index": pd.Index,
    "pandas table": lambda v: pd.DataFrame({"id": v}),
    "category": lambda v: pd.Series(v, dtype="category"),
    "arrow in pandas": lambda v: pd.Series(pd.arrays.ArrowExtensionArray(pa.array(v))),
    "polars": pl.Series,
    "polars table": lambda v: pl.DataFrame({"id": v}),
    "pyarrow": pa.array,
    "pyarrow chunks": lambda v: pa.chunked_array([v[:2], v[2:]]),
    "pyarrow table": lambda v: pa.table({"id": v}),
    "dictionary": lambda v: pa.array(v).dictionary_encode(),
}


@each("container", CONTAINERS)
@each("values", [TEXT, NUMBERS, DATES], ids=["text", "numbers", "dates"])
def test_every_container_has_the_same_units(container, values):
    assert same(codes(CONTAINERS[container](values), 5), [0, 1, 0, 2, 1])


@each(
    ("a", "b", "equal"),
    [
        (1, "1", False),
        (1, 1.0, True),
        (1, True, True),
        (1, np.int8(1), True),
        (1, decimal.Decimal(1), True),
        (1, fractions.Fraction(1), True),
        (0.0, -0.0, True),
        (0.1, decimal.Decimal("0.1"), True),
        (2**53, 2**53 + 1, False),
        (2**70, 2**70, True),
        ("a", b"a", False),
        ("a", np.str_("a"), True),
        ("\u00e9", "e\u0301", False),
        (uuid.UUID(int=1), uuid.UUID(int=1), True),
        (uuid.UUID(int=1), 1, False),
        (datetime.date(2020, 1, 1), np.datetime64("2020-01-01"), True),
        (datetime.date(2020, 1, 1), pd.Timestamp("2020-01-01"), True),
        (datetime.date(2020, 1, 1), "2020-01-01", False),
        (float("inf"), float("inf"), True),
    ],
)
def test_which_ids_are_one_unit(a, b, equal):
    found = codes([a, b, "somebody else"])
    assert (found[0] == found[1]) is equal
    words = check_units([a, b], 2, estimator="x")
    assert words.words.size == (1 if equal else 2)


def test_a_text_of_its_own_class_is_its_text():
    class Name(str):
        __slots__ = ()

        def __eq__(self, other):
            return False

        def __hash__(self):
            raise RuntimeError(SECRET)

    assert codes([Name("a"), "a", Name("b")]) == [0, 0, 1]


@each(
    "groups",
    [
        ["a", None, "b"],
        [1.0, float("nan"), 2.0],
        np.array([1.0, np.nan, 2.0]),
        np.array(["2020-01-01", "NaT", "2020-01-02"], dtype="M8[D]"),
        np.ma.masked_array([1, 2, 3], [False, True, False]),
        pd.Series(["a", None, "b"]),
        pd.Series([1, None, 3], dtype="Int64"),
        pd.Series(["a", pd.NA, "b"], dtype="string"),
        pl.Series(["a", None, "b"]),
        pa.array([1, None, 2]),
        [1, decimal.Decimal("NaN"), 2],
    ],
    ids=range(11),
)
def test_missing_ids_are_refused_with_the_way_out_or_have_no_code(groups):
    with pytest.raises(ValueError, match=r"DPThing: groups must have an id for every row.*public"):
        check_units(groups, 3, estimator="DPThing")
    units = check_units(groups, 3, estimator="DPThing", adjacency="add_or_remove_one")
    assert (units.codes >= 0).tolist() == [True, False, True]
    assert units.words.size == units.codes.max() + 1 == 2


def test_filled_ids_are_one_unit():
    assert codes(pd.Series(["a", None, "b", None]).fillna("unknown")) == [1, 3, 2, 3] or same(
        codes(pd.Series(["a", None, "b", None]).fillna("unknown")), [0, 1, 2, 1]
    )


class Odd:
    def __hash__(self):
        raise RuntimeError(SECRET)


@each(
    "groups",
    [
        [[SECRET], [1], [2]],
        [{SECRET: 1}, 1, 2],
        [{SECRET}, 1, 2],
        [Odd(), 1, 2],
        [object(), 1, 2],
        [1j, 1, 2],
        [(SECRET, 1), 1, 2],
        [lambda: SECRET, 1, 2],
        pd.Series([{SECRET: 1}, None, 2]),
        pl.Series([{"a": SECRET}, {"a": "b"}, {"a": "c"}]),
        np.array([1j, 2j, 3j]),
    ],
    ids=range(11),
)
def test_what_is_no_id_is_refused_and_not_quoted(groups):
    with pytest.raises((TypeError, ValueError)) as caught:
        check_units(groups, 3, estimator="DPThing")
    assert "DPThing: groups must " in str(caught.value)
    error = caught.value
    while error is not None:
        assert SECRET not in str(error)
        error = error.__context__


@each(
    ("groups", "text"),
    [
        (np.zeros((3, 2)), "one-dimensional"),
        (pd.DataFrame({"a": [1, 2, 3], "b": [1, 2, 3]}), "one-dimensional"),
        ("abc", "one-dimensional"),
        (3, "one-dimensional"),
        ([1, 2], "as many entries"),
        (np.arange(4), "as many entries"),
        ([], "as many entries"),
    ],
)
def test_other_shapes_are_refused(groups, text):
    with pytest.raises(ValueError, match=text):
        check_units(groups, 3, estimator="DPThing")


def test_names():
    assert name_of_ids(pd.Series([1], name="user_id")) == "user_id"
    assert name_of_ids(pl.Series("user_id", [1])) == "user_id"
    assert name_of_ids(pd.DataFrame({"user_id": [1]})) == "user_id"
    assert name_of_ids(pa.table({"user_id": [1]})) == "user_id"
    for unnamed in ([1], np.array([1]), pd.Series([1]), pl.Series([1]), pd.Series([1], name=3)):
        assert name_of_ids(unnamed) is None


def test_numbers_of_any_size_are_read_at_once():
    huge = decimal.Decimal("1e999999999")  # its digits would fill the memory
    with pytest.raises(ValueError, match="some ids are missing"):
        codes([huge, 1, huge])


@pytest.mark.parametrize(
    "ids",
    [
        # Equal, but of units that no number of nanoseconds has.
        [np.timedelta64(1, "Y"), np.timedelta64(12, "M")],
        [np.datetime64(5, "ps"), np.datetime64(5000, "fs")],
        # Two ids that would be one as floats.
        [np.longdouble(1) + np.finfo(np.longdouble).eps, np.longdouble(1)],
        np.longdouble(1) + np.finfo(np.longdouble).eps * np.array([1, 0]),
    ],
    ids=["spans", "moments", "long floats", "array of long floats"],
)
def test_what_has_no_value_to_compare_is_refused(ids):
    if np.finfo(np.longdouble).eps == np.finfo(float).eps and "long" in str(type(ids[0])):
        pytest.skip("this machine has no longer floats")
    with pytest.raises(ValueError, match="groups must have an id for every row"):
        codes(ids)
