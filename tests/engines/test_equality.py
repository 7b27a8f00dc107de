"""A fit on parts, however they are cut and of whatever kind, is the fit on the whole table."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from part_cases import CASES, Case, compare, cut_at, parts_of, travelling
from sklearn.base import clone

from skdp import DPPCA, DPStandardScaler
from skdp.engines import from_arrays
from skdp.linear_model import DPRidge
from skdp.naive_bayes import DPGaussianNB
from skdp.queries.learned_bounds import learning
from skdp.tabular import Rows
from skdp.tabular.parts import PartsRows

N = 70


def _names(case):
    return case.name


@pytest.mark.parametrize("case", CASES, ids=_names)
def test_parts_have_the_same_exact_answers(case):
    rng = np.random.default_rng(len(case.name))
    X, y = case.table(rng.normal(0, 0.7, (N, case.n_features)))
    turn = CASES.index(case)
    relation = case.relations[turn % len(case.relations)]
    cuts = rng.integers(0, N + 1, size=9)  # some parts are empty, some rows alone
    source, y_parts = parts_of(case, X, y, cuts)
    y_parts = None if y_parts is None else travelling(y_parts)
    delta = (0.0, 1e-5)[turn // 2 % 2]
    compare(case, X, y, travelling(source), y_parts, relation=relation, delta=delta)


@st.composite
def tables(draw):
    """Draw rows, labels, how they are cut, and a kind for each part that holds the same numbers."""
    n = draw(st.integers(1, 40))
    rows = st.lists(st.integers(-40, 40), min_size=2 * n, max_size=2 * n)
    X = np.array(draw(rows), dtype=np.float64).reshape(n, 2) / 8
    cuts = draw(st.one_of(st.just(range(1, n)), st.lists(st.integers(0, n), max_size=30)))
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=5))
    return X, draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)), list(cuts), kinds


def _frame(X):
    return pd.DataFrame(X, columns=["a", "b"])


KINDS = {
    "float64": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "fortran": np.asfortranarray,
    "object": lambda X: X.astype(object),
    "longdouble": lambda X: X.astype(np.longdouble),
}
NAMED = {
    "pandas": _frame,
    "nullable": lambda X: _frame(X).astype("Float64"),
    "arrow": lambda X: pa.Table.from_pandas(_frame(X), preserve_index=False),
    "arrow32": lambda X: pa.Table.from_pandas(_frame(X).astype("float32"), preserve_index=False),
    "polars": lambda X: pl.DataFrame(X, schema=["a", "b"]),
    "other_order": lambda X: _frame(X)[["b", "a"]],
}


def _kinds(X, cuts, kinds, known):
    names = sorted(known)
    picked = [known[names[sorted(KINDS).index(kind) % len(names)]] for kind in kinds]
    pieces = cut_at(X, cuts)
    return from_arrays(
        [picked[i % len(picked)](piece) for i, piece in enumerate(pieces)],
        columns=["a", "b"] if known is NAMED else None,
    )


@settings(max_examples=4)
@given(tables())
def test_any_partition_of_any_kind_is_the_table(drawn):
    _is_the_table(drawn)


@pytest.mark.exhaustive
@settings(max_examples=2000)
@given(tables())
def test_any_of_very_many_partitions_is_the_table(drawn):
    _is_the_table(drawn)


def _is_the_table(drawn):
    X, y, cuts, kinds = drawn
    mean = Case("mean", lambda **p: DPStandardScaler(bounds=(-5, 5), **p))
    gram = Case("gram", lambda **p: DPPCA(1, **p))
    sums = Case("labels", lambda **p: DPGaussianNB(classes=[0, 1], bounds=(-5, 5), **p))
    how = {"relation": "add_or_remove_one", "delta": 1e-5}
    for known in (KINDS, NAMED):
        source = _kinds(X, cuts, kinds, known)
        for case in (mean, gram):
            compare(case, X, None, source, None, **how)
        labels = from_arrays(cut_at(np.array(y), cuts))
        compare(sums, X, np.array(y), source, labels, **how)


def test_a_target_is_a_column_of_the_parts():
    rng = np.random.default_rng(0)
    frame = _frame(rng.normal(size=(60, 2)))
    frame["c"] = np.where(frame["a"] > 0, "yes", "no")
    parts = from_arrays([frame[:10], pa.Table.from_pandas(frame[10:], preserve_index=False)])
    bayes = Case("bayes", lambda **p: DPGaussianNB(classes=["no", "yes"], bounds=(-3, 3), **p))
    compare(bayes, frame[["a", "b"]], frame["c"], parts, "c", relation="replace_one", delta=0.0)
    fitted = DPGaussianNB(classes=["no", "yes"], bounds={"b": (-3, 3), "a": (-2, 2)})
    assert list(fitted.fit(parts, "c").feature_names_in_) == ["a", "b"]
    ridge = Case("ridge", lambda **p: DPRidge(bounds=(-3, 3), target_bounds=(-3, 3), **p))
    numbers = parts.select(["a", "b"])
    compare(ridge, frame[["a"]], frame["b"], numbers, "b", relation="replace_one", delta=1e-5)


def test_seeded_noise_does_not_depend_on_the_parts():
    X = np.random.default_rng(0).normal(size=(200, 2))
    first = DPPCA(random_state=0).fit(from_arrays([X[:150], X[150:]]))
    other = DPPCA(random_state=0).fit(travelling(from_arrays([X[100:], X[:0], X[:100]])))
    another = DPPCA(random_state=0).fit(from_arrays([X[:150], X[150:] * 2]))
    assert np.array_equal(first.components_, other.components_)
    assert not np.array_equal(first.mean_, another.mean_)


def test_a_random_part_of_very_many_rows_is_the_same(monkeypatch):
    # Learned bounds look at a part of the rows, drawn where the noise is: position by position.
    for name in ("_MANY", "_MOST", "_RANKS"):
        monkeypatch.setattr(learning, name, 64)
    X = np.random.default_rng(1).normal(size=(3000, 2))
    whole = DPStandardScaler(random_state=0, epsilon=50.0)
    monkeypatch.setattr(PartsRows, "digest", lambda self: b"")
    monkeypatch.setattr(Rows, "digest", lambda self: b"")
    parts = travelling(from_arrays(cut_at(X, [5, 1700, 1700, 2999])))
    cut = clone(whole).fit(parts)
    assert np.array_equal(whole.fit(X).mean_, cut.mean_)
    assert not np.array_equal(whole.fit(X[::-1]).mean_, cut.mean_)
