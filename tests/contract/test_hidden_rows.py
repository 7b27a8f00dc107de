"""Rows in places that a comparison by value does not reach: replay finds them there, too."""

from __future__ import annotations

from collections import defaultdict, deque
from functools import partial

import numpy as np
import pandas as pd
from cases import Case, make, rows
from replays import SECRET, D, found_in
from toys import Toy

from skdp.audit import replay_check
from tests.folding import each


class Array(np.ndarray):
    """Each of these may carry attributes beside its content."""


class Number(float):
    pass


class Pair(tuple):
    pass


class Table(dict):
    pass


class Bag(set):
    pass


class Items(list):
    pass


class Hidden:
    __slots__ = ("__kept",)

    def __init__(self, kept):
        self.__kept = kept


def with_rows(value, rows):
    value.rows = rows.copy()
    return value


def closure(rows):
    kept = float(rows.sum())
    return lambda: kept


def frozen(rows):
    values = np.zeros(3)
    values.flags.writeable = bool(rows[0, 0] > 0)
    return values


def caught(rows):
    try:
        raise ValueError("public")
    except ValueError as error:
        return error


def renamed(rows):
    frame = pd.DataFrame({"a": [1.0, 2.0]})
    frame.attrs["sum"] = float(rows.sum())
    return frame


def by_metadata(rows):
    return np.zeros(2, dtype=np.dtype("f8", metadata={"sum": float(rows.sum())}))


HIDING = {
    "array subclass": lambda rows: with_rows(np.zeros(2).view(Array), rows),
    "float subclass": lambda rows: with_rows(Number(1), rows),
    "tuple subclass": lambda rows: with_rows(Pair((1, 2)), rows),
    "dict subclass": lambda rows: with_rows(Table(a=1), rows),
    "list subclass": lambda rows: with_rows(Items([1]), rows),
    "set subclass": lambda rows: with_rows(Bag({1}), rows),
    "content of a set": lambda rows: with_rows(Bag({float(rows.sum())}), np.zeros(1)),
    "content of a dict": lambda rows: with_rows(Table(a=float(rows.sum())), np.zeros(1)),
    "type in a set": lambda rows: {1} if rows[0, 0] > 0 else {1.0},
    "factory": lambda rows: defaultdict(partial(float, rows.sum())),
    "under a mask": lambda rows: np.ma.array([rows.sum(), 1.0], mask=[True, False]),
    "the mask": lambda rows: np.ma.array([1.0, 1.0], mask=[bool(rows[0, 0] > 0), False]),
    "base": lambda rows: np.vstack([np.zeros(rows.shape[1]), rows])[:1],
    "base of a window": lambda rows: np.lib.stride_tricks.as_strided(
        np.append(0.0, rows), (1,), (8,)
    ),
    "base of a record": lambda rows: np.array([(0.0,), (rows.sum(),)], dtype=[("a", float)])[0],
    "flags": frozen,
    "order in memory": lambda rows: np.zeros((2, 2), order="F" if rows[0, 0] > 0 else "C"),
    "metadata": by_metadata,
    "slot": lambda rows: Hidden(float(rows.sum())),
    "closure": closure,
    "function attribute": lambda rows: with_rows(lambda: 0, rows),
    "partial": lambda rows: partial(max, float(rows.sum())),
    "queue": lambda rows: deque([float(rows.sum())]),
    "traceback": caught,
    "frame": lambda rows: pd.DataFrame({"a": [float(rows.sum())]}),
    "frame's index": lambda rows: pd.DataFrame({"a": [0.0]}, index=[float(rows.sum())]),
    "frame's columns": lambda rows: pd.DataFrame({float(rows.sum()): [0.0]}),
    "frame's type": lambda rows: pd.Series([1], dtype=int if rows[0, 0] > 0 else float),
    "frame's attrs": renamed,
    "categories": lambda rows: pd.Categorical([0.0], categories=[0.0, float(rows.sum())]),
}


class Holds(Toy):
    """Keeps what a function of rows returns; not a parameter, so that clones need not copy it."""

    hide = None

    def fit(self, X, y=None):
        super().fit(X)
        self.held_ = type(self).hide(np.array(X))
        return self


@each("place", HIDING)
def test_a_leak_is_found_wherever_it_hides(place):
    leaky = type("Leaky", (Holds,), {"hide": staticmethod(HIDING[place])})
    error = found_in(leaky)
    assert "held_" in str(error)
    assert str(SECRET) not in f"{error} {error.__cause__}"


@each("place", [place for place in HIDING if place != "traceback"])
def test_the_same_places_are_no_leak_without_rows(place):
    """A false alarm would be one here: made anew in each fit, of public numbers only."""
    hide = HIDING[place]
    public = type("Public", (Holds,), {"hide": staticmethod(lambda X: hide(np.ones((6, D))))})
    replay_check(make(Case("public", public), 0.0), np.full((6, D), 0.5), np.zeros((6, D)))


def test_frames_of_releases_are_no_leak():
    class Framed(Toy):
        def fit(self, X, y=None):
            super().fit(X)
            self.table_ = pd.DataFrame({"mean": self.mean_, "name": list("abc")})
            self.table_.attrs["unit"] = "m"
            self.series_ = self.table_["mean"].rename("x")
            self.by_name_ = self.table_.set_index("name").loc["b":]
            self.kinds_ = self.table_["name"].astype("category")
            self.dates_ = pd.date_range("2020-01-01", periods=3)
            self.masked_ = np.ma.masked_less(self.mean_, 0)
            return self

    case = Case("framed", Framed)
    for relation, n in (("replace_one", 9), ("add_or_remove_one", 5)):
        replay_check(make(case, 0.0, relation), rows(9, D, 0), rows(n, D, 1))
