"""What is told before the charge and after it: fixed texts, no cell, no place."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.pipeline import make_pipeline

from tests.folding import each

sys.path.insert(0, str(Path(__file__).parent))
from part_cases import ALL, MORE, REFUSED, make, travelling

from skdp import DPKMeans, DPStandardScaler, PrivacyBudget, statistics
from skdp.aggregation import DPGroupBy
from skdp.base import PrivateMixin
from skdp.core import Sum
from skdp.core.clipping import Box
from skdp.core.table import PrivateTable, _added, added, stability_of, total_dtype
from skdp.engines import Source, Threads, from_arrays, from_stream, read_parquet
from skdp.exceptions import PrivacyLeakError, SourceError
from skdp.linear_model import DPRidge
from skdp.naive_bayes import DPGaussianNB
from skdp.quantile import DPMedian
from skdp.tabular import check_rows
from skdp.tabular.parts import PartsRows, itself

X = np.random.default_rng(0).normal(size=(40, 2))
PARTS = from_arrays([X[:9], X[9:]])
BOUNDS = {"bounds": (-3, 3)}


class Unread(Threads):
    """An engine that must not be asked."""

    def map_add(self, task, parts):
        raise AssertionError("the parts were read")


@each("case", REFUSED, ids=lambda case: case.name)
def test_what_needs_one_place_is_refused_before_anything_is_read(case):
    source = Source(PARTS.handles, itself, Unread(), PARTS.heads)
    budget = PrivacyBudget(10.0, 1e-3)
    # Smooth sensitivity with Laplace noise needs a delta.
    estimator = case.make(epsilon=1.0, delta=1e-6, budget=budget, random_state=None)
    with pytest.raises(TypeError, match="does not take X in parts"):
        estimator.fit(source, source)
    assert budget.spent.epsilon == 0


@each("case", [c for c in ALL if c not in MORE], ids=lambda case: case.name)
def test_every_fit_says_whether_rows_may_be_in_parts(case):
    estimator = make(case, 0.0)
    if not isinstance(estimator, PrivateMixin) or not type(estimator).__module__.startswith("skdp"):
        pytest.skip("no fit of skdp")
    text = " ".join(type(estimator).fit.__doc__.split())
    allowed = "May be in parts (`skdp.engines`)"
    assert (allowed in text) != ("Rows in parts (`skdp.engines`) are refused" in text)
    if not estimator._one_place():
        assert allowed in text
    else:  # its parameters may be why
        assert allowed + "." not in text


def test_functions_that_need_one_place_say_so():
    with pytest.raises(TypeError, match="one place"):
        statistics.query_session(PARTS, n_queries=1)
    fitted = DPRidge(target_bounds=(-3, 3), **BOUNDS).fit(X, X[:, 0])
    with pytest.raises(TypeError, match="as many rows in memory"):
        fitted.predict(PARTS)
    with pytest.raises(TypeError, match="mechanism='exponential'"):
        DPMedian(mechanism="smooth").fit(PARTS)


def test_what_gives_rows_back_is_refused_before_the_charge():
    budget = PrivacyBudget(1.0)
    scaler = DPStandardScaler(budget=budget, **BOUNDS)
    for ask in (
        scaler.fit_transform,
        DPKMeans(2, budget=budget, **BOUNDS).fit_predict,
        make_pipeline(scaler, DPKMeans(2, budget=budget, **BOUNDS)).fit,
    ):
        with pytest.raises(TypeError, match="as many rows as it gets"):
            ask(PARTS)
    assert budget.spent.epsilon == 0
    assert make_pipeline(scaler).fit(PARTS)[0].n_features_in_ == 2


def test_rows_of_users_are_refused_before_the_charge():
    budget = PrivacyBudget(1.0, unit="user_id")
    with pytest.raises(TypeError, match="groups= needs all rows in one place"):
        DPStandardScaler(budget=budget, **BOUNDS).fit(PARTS, groups=np.arange(40))
    with pytest.raises(ValueError, match="no groups="):
        DPStandardScaler(budget=budget, **BOUNDS).fit(PARTS)
    assert budget.spent.epsilon == 0


@pytest.mark.parametrize(
    ("bad", "error"), [(np.nan, ValueError), (np.inf, ValueError), ("secret", TypeError)]
)
def test_the_text_does_not_tell_where_a_bad_cell_lies(bad, error):
    texts = set()
    for row in (0, 8, 9, 39):
        cells = X.astype(object)
        cells[row, 1] = bad
        for cuts in (9, 30):
            budget = PrivacyBudget(1.0)
            source = travelling(from_arrays([cells[:cuts], cells[cuts:]]))
            with pytest.raises(error) as caught:
                DPStandardScaler(budget=budget, **BOUNDS).fit(source)
            assert budget.spent.epsilon == 0
            assert caught.value.__context__ is None
            texts.add(str(caught.value))
    assert len(texts) == 1
    assert "secret" not in texts.pop()


def test_of_several_problems_always_the_same_is_told():
    cells = X.astype(object)
    for first, second in ((0, 39), (39, 0), (3, 4)):
        twice = cells.copy()
        twice[first, 0], twice[second, 0] = np.nan, "text"
        with pytest.raises(TypeError):
            DPStandardScaler().fit(from_arrays([twice[:9], twice[9:]]))
    frame = pd.DataFrame(X, columns=["a", "b"])
    for where in (0, 39):
        one = frame.copy()
        one.loc[39 - where, "a"], one.loc[where, "b"] = np.nan, np.inf
        with pytest.raises(ValueError, match="Input X contains"):
            DPRidge().fit(from_arrays([one[:20], one[20:]]), "b")


def test_targets():
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    frame["t"] = "text"
    parts = from_arrays([frame])
    with pytest.raises(ValueError, match="name of a column of X"):
        DPRidge().fit(parts, "other")
    with pytest.raises(TypeError, match="numeric"):  # X has the text
        DPRidge().fit(parts, "b")
    with pytest.raises(ValueError, match="real numbers"):
        DPRidge().fit(parts, "t")
    with pytest.raises(TypeError, match="name of a column"):
        DPRidge().fit(PARTS, X[:, 0])
    with pytest.raises(TypeError, match="X must be in parts"):
        DPRidge().fit(X, from_arrays([X[:, 0]]))
    with pytest.raises(ValueError, match="requires y"):
        DPRidge().fit(PARTS, None)
    with pytest.raises(TypeError, match="sample_weight has no meaning for rows in parts"):
        DPRidge(weight_bound=1.0).fit(parts, "b", sample_weight=np.ones(len(X)))
    with pytest.raises(ValueError, match="as many parts"):
        DPRidge().fit(PARTS, from_arrays([X[:, 0]]))
    for y in (X[:8, 0], X[:10, 0]):
        with pytest.raises(ValueError, match="same number of rows"):
            DPRidge().fit(PARTS, from_arrays([y, X[9:, 0]]))
    with pytest.raises(ValueError, match="missing an entry"):
        DPGaussianNB(classes=[0, 1]).fit(PARTS, from_arrays([X[:9, 0] * np.nan, X[9:, 0]]))


def test_schemas():
    one, other = pd.DataFrame({"a": [1.0], "b": [2.0]}), pd.DataFrame({"a": [1.0]})
    with pytest.raises(ValueError, match="same columns"):
        DPStandardScaler().fit(from_arrays([one, other]))
    with pytest.raises(ValueError, match="same number of columns"):
        DPStandardScaler().fit(from_arrays([X, X[:, :1]]))
    with pytest.raises(ValueError, match="without names"):
        DPStandardScaler().fit(from_arrays([X], columns=["a"]))
    with pytest.raises(TypeError, match="'t' is of dates"):
        DPStandardScaler().fit(from_arrays([pd.DataFrame({"t": pd.to_datetime(["2020-01-01"])})]))
    with pytest.raises(ValueError, match="0 sample"):
        DPStandardScaler().fit(from_arrays([X[:0]]))
    with pytest.raises(TypeError, match="sequence of names"):
        from_arrays([one], columns="a")
    with pytest.raises(ValueError, match="at least one array"):
        from_arrays([])
    with pytest.raises(TypeError, match="arrays or tables"):
        from_arrays([[1.0]])
    with pytest.raises(TypeError, match="opens the rows anew"):
        from_stream(pa.table({"a": [1.0]}).to_reader())
    with pytest.raises(FileNotFoundError):
        read_parquet("nowhere/*.parquet")
    with pytest.raises(ValueError, match="engine"):
        read_parquet("nowhere", engine="cluster")


class Changing:
    """A reader whose parts are others from some pass on."""

    def __init__(self, after, later):
        self.after, self.later, self.passes = after, later, 0

    def __call__(self, handle):
        self.passes += 1
        if self.passes > self.after:
            yield from self.later(handle)
        else:
            yield handle


def _gone(handle):
    raise FileNotFoundError("secret-17.5")
    yield


@each(
    "later",
    [
        _gone,
        lambda X: [X[1:]],
        lambda X: [X, X[:1]],
        lambda X: [pd.DataFrame({"a": ["secret-17.5"] * len(X)})],
        lambda X: [X[:, :1]],
        lambda X: [],
    ],
    ids=["gone", "shorter", "longer", "text", "narrower", "empty"],
)
@each("after", [0, 1, 2])
def test_parts_that_change_end_in_a_fixed_text(after, later):
    source = Source((X,), Changing(after, later), Threads(1), PARTS.heads)
    budget = PrivacyBudget(1.0)
    scaler = DPStandardScaler(budget=budget)  # learns its bounds: several passes
    if after == 0:
        try:
            scaler.fit(source)
        except (SourceError, TypeError, ValueError) as error:
            text, spent = str(error), budget.spent.epsilon
        else:  # the parts have been others from the start
            text, spent = "", 0
        assert "17.5" not in text
        assert spent == 0
        return
    with pytest.raises(SourceError, match="could not be read again") as caught:
        scaler.fit(source)
    assert caught.value.__context__ is None
    assert budget.spent.epsilon == 1.0  # nothing is refunded
    assert not hasattr(scaler, "mean_")


def test_rows_that_move_to_another_part_are_noticed():
    """Positions among all rows would be those of other rows."""
    passes = []

    def read(handle):
        passes.append(handle)
        at = 10 if len(passes) <= 2 else 11
        yield X[:at] if handle == 0 else X[at:]

    budget = PrivacyBudget(1.0)
    source = Source((0, 1), read, Threads(1), PARTS.heads * 2)
    with pytest.raises(SourceError, match="could not be read again"):
        DPStandardScaler(bounds=(-1, 1), budget=budget).fit(source)
    assert budget.spent.epsilon == 1.0


class Broken(Threads):
    def map_add(self, task, parts):
        raise RuntimeError("a worker died over the row secret-17.5")


def test_an_engine_that_fails_says_nothing_of_its_own():
    budget = PrivacyBudget(1.0)
    with pytest.raises(SourceError, match="Nothing was charged") as caught:
        DPStandardScaler(budget=budget).fit(Source((X,), itself, Broken(), PARTS.heads))
    assert caught.value.__context__ is None
    assert budget.spent.epsilon == 0


def test_rows_in_parts_have_one_door():
    rows = check_rows(PARTS, estimator="test", one_place="")
    for read in (rows.spans, rows.chunk, rows.chunks, rows.slices, rows.codes, rows.labelled):
        with pytest.raises(PrivacyLeakError):
            read(0, 1)
    table = PrivateTable(rows, stability_of("replace_one"))
    assert table.in_parts
    for private in (rows, table):
        with pytest.raises(PrivacyLeakError):
            private.__reduce__()
    assert "40" not in repr(rows)
    assert "40" not in repr(PARTS)
    for ask in (len, list, np.asarray):
        with pytest.raises(TypeError):
            ask(PARTS)


def test_totals_are_widened_when_they_are_added_and_only_then():
    big = np.array([2**61, 1])
    assert _added(big, big).tolist() == [2**62, 2]
    assert _added(big, big).dtype == object
    assert _added(_added(big, big), big).tolist() == [3 * 2**61, 3]
    least = np.array([-(2**63)])
    assert _added(least, least).tolist() == [-(2**64)]
    small = np.array([1, 2])
    assert _added(small, small).dtype == np.int64
    narrow = np.array([2**30], dtype=np.int32)
    assert _added(narrow, narrow).tolist() == [2**31]
    hashes = np.array([2**63 + 5], dtype=np.uint64)
    assert added([hashes], [hashes])[0].tolist() == [10]  # these wrap around, as they should

    def read(handle):
        yield np.full((handle, 1), 1.0)

    sizes = (2**20 + 7, 5, 2**20)
    source = Source(sizes, read, Threads(1), (np.zeros((0, 1)),))
    rows: PartsRows = check_rows(source, estimator="test", one_place="")
    # In memory so many rows of so large numbers are added up as Python integers.
    assert total_dtype(rows, 2**41) is np.int64
    largest = 2**41

    def add(block, totals):
        totals[0] += np.int64(largest) * len(block)

    (total,) = rows.fold(add, lambda: [np.zeros(1, dtype=np.int64)])
    assert total.tolist() == [largest * sum(sizes)]
    assert total.dtype == object
    table = PrivateTable(rows, stability_of("replace_one"))
    view = Box([0.0], [2.0], bits=20)
    memory = check_rows(np.ones((sum(sizes), 1)), estimator="test")
    exact = Sum(view).exact(PrivateTable(memory, stability_of("replace_one")))
    assert Sum(view).exact(table).tolist() == exact.tolist()


# --- one schema in all parts, files and passes ----------------------------------------------------


def test_files_with_other_columns_are_refused(tmp_path):
    pq.write_table(pa.table({"a": [1.0, 2.0], "b": [1, 2]}), tmp_path / "0.parquet")
    for other in (
        pa.table({"b": [1, 2], "a": [1.0, 2.0]}),
        pa.table({"a": pa.array([1.0], pa.float32()), "b": [1]}),
        pa.table({"a": ["1.0"], "b": [1]}),
        pa.table({"a": [1.0], "c": [1]}),
    ):
        pq.write_table(other, tmp_path / "1.parquet")
        with pytest.raises(ValueError, match="the same columns, in one order and of the same"):
            read_parquet(tmp_path)
        by = DPGroupBy("b", None, keys=[1]).agg(n="count")
        with pytest.raises(ValueError, match="the same columns, in one order and of the same"):
            by.fit(tmp_path)
        pq.write_table(pa.table({"a": [1.0, 2.0], "b": [1, 2]}), tmp_path / "2.parquet")
        with pytest.raises(ValueError, match="the same columns, in one order and of the same"):
            by.fit(tmp_path)  # a file between two equal ones
        (tmp_path / "2.parquet").unlink()
    pq.write_table(pa.table({"b": [1, 2], "a": [1.0, 2.0]}), tmp_path / "1.parquet")
    assert len(read_parquet(tmp_path, columns=["a", "b"]).handles) == 2
    (tmp_path / "1.parquet").unlink()
    by.set_params(epsilon=100.0, delta=0.0).fit(tmp_path)  # a folder of one file
    assert abs(by.to_dict()[1]["n"] - 1) < 1


@each("odd", [pa.array(["0.5"] * 9), pa.array([1] * 9), pa.array([0.5] * 9, pa.float32())])
def test_a_later_batch_or_pass_of_another_type_is_an_error(odd):
    rows = pa.table({"x": np.linspace(0, 1, 900)})
    other = pa.table({"x": odd})
    passes = []

    def stream(at):
        def read():
            passes.append(1)
            tables = [rows, other] if len(passes) >= at else [rows]
            return [batch for table in tables for batch in table.to_batches()]

        return read

    for at, text, spent in (
        (2, "could not be read. Nothing was", 0),
        (3, "as they were checked", 1),
    ):
        passes.clear()
        budget = PrivacyBudget(5)
        with pytest.raises(SourceError, match=text):
            DPStandardScaler(bounds=(0, 1), budget=budget).fit(from_stream(stream(at)))
        assert budget.spent.epsilon == spent


def test_the_footer_of_a_file_is_read_once(tmp_path, monkeypatch):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"x": np.linspace(0, 1, 4000)}), path, row_group_size=20)
    source, real, opened = read_parquet(path), pq.ParquetFile, []
    source = dataclasses.replace(source, engine=Threads(1))  # several may begin at the same time

    def counted(file, **options):
        opened.append(options.get("metadata") is None)
        return real(file, **options)

    monkeypatch.setattr(pq, "ParquetFile", counted)
    DPStandardScaler(bounds=(0, 1)).fit(source)
    assert len(opened) >= 200 and sum(opened) == 1
