"""Every engine that is installed gives what numpy gives, and counts every part once."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from part_cases import Case, compare, fit

from skdp import DPPCA, DPKMeans, DPStandardScaler, PrivacyBudget
from skdp.engines import Source, Threads, from_arrays, from_dask, from_stream, read_parquet
from skdp.exceptions import SourceError
from skdp.linear_model import DPLogisticRegression
from skdp.synthetic import Bins, DPMarginalSynthesizer
from skdp.tabular import check_rows, parts

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.normal(0, 0.7, size=(200, 3)), columns=["a", "b", "c"])
FRAME["label"] = np.where(FRAME["a"] > 0, "yes", "no")
X = FRAME[["a", "b", "c"]]
LABELLED = Case(
    "classes", lambda **p: DPLogisticRegression(classes=["no", "yes"], bounds=(-1, 1), **p)
)
PLAIN = [
    Case("scaler", DPStandardScaler),
    Case("pca", DPPCA),
    Case("kmeans", lambda **p: DPKMeans(2, **p)),
    Case("marginals", lambda **p: DPMarginalSynthesizer(domain=Bins.regular(-1, 1, 3), **p)),
]
HOW = {"relation": "add_or_remove_one", "delta": 1e-6}


def agrees(source, y="label", cases=PLAIN):
    """Compare fits on a source, with its label where there is one, with those on the frame."""
    for case in cases:
        compare(case, X, None, source.select(["a", "b", "c"]), None, **HOW)
    if y:
        compare(LABELLED, X, FRAME["label"], source, y, **HOW)


@pytest.fixture
def files(tmp_path):
    """Return a folder of Parquet files with several row groups, one file without rows."""
    for k, (start, stop) in enumerate([(0, 90), (90, 90), (90, 91), (91, 200)]):
        table = pa.Table.from_pandas(FRAME[start:stop], preserve_index=False)
        if k == 3:  # other columns in another order
            table = table.select(["label", "c", "b", "a"]).append_column(
                "more", pa.array(["text"] * (stop - start))
            )
        pq.write_table(table, tmp_path / f"part{k}.parquet", row_group_size=40)
    return tmp_path


@pytest.mark.slow
def test_parquet(files):
    agrees(read_parquet(files, columns=["a", "b", "c", "label"]))
    by_pattern = read_parquet(str(files / "*.parquet"), columns=["a", "b", "c", "label"])
    assert len(by_pattern.handles) >= 3 + 1 + 3
    agrees(by_pattern, cases=PLAIN[:1])
    with pytest.raises(ValueError, match="'more' is missing in one"):
        DPStandardScaler().fit(read_parquet(files, columns=["a", "more"]))


@pytest.mark.parametrize("what", ["vanishes", "grows", "is cut"])
def test_files_that_change_in_mid_fit(files, what):
    path = files / "part3.parquet"

    class Meanwhile(Threads):
        passes = 0

        def map_add(self, task, parts):
            self.passes += 1
            if self.passes == 3:
                if what == "vanishes":
                    path.unlink()
                elif what == "grows":
                    table = pq.read_table(path)
                    pq.write_table(pa.concat_tables([table, table[:30]]), path, row_group_size=70)
                else:
                    path.write_bytes(path.read_bytes()[:200])
            return super().map_add(task, parts)

    source = read_parquet(files, columns=["a", "b"])
    source = Source(source.handles, source.reader, Meanwhile(), source.heads, source.columns)
    budget = PrivacyBudget(1.0)
    with pytest.raises(SourceError, match="could not be read again") as caught:
        DPStandardScaler(budget=budget).fit(source)
    assert str(files) not in str(caught.value)
    assert budget.spent.epsilon == 1.0


@pytest.mark.slow
def test_streams(files):
    table = pa.Table.from_pandas(FRAME, preserve_index=False)
    agrees(from_stream(lambda: table.to_reader(max_chunksize=17)), cases=PLAIN[:2])
    agrees(from_stream(lambda: iter(table.to_batches(max_chunksize=50))), cases=PLAIN[:1])
    one = ds.dataset(files, schema=table.schema)
    agrees(from_stream(lambda: one.scanner(batch_size=33).to_reader()), cases=PLAIN[:1])


def test_polars(files):
    pl = pytest.importorskip("polars")
    agrees(from_stream(lambda: pl.from_pandas(FRAME)), cases=PLAIN[:1])


@pytest.mark.slow
def test_duckdb(files):
    duckdb = pytest.importorskip("duckdb")
    query = f"SELECT a, b, c, label FROM read_parquet('{files}/*.parquet', union_by_name=true)"

    def opened():
        return duckdb.connect().sql(query)

    agrees(from_stream(opened), cases=PLAIN[:2])


# --- dask -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_dask(files):
    dd = pytest.importorskip("dask.dataframe")
    frame = dd.from_pandas(FRAME, npartitions=10)
    agrees(from_dask(frame), y=None, cases=PLAIN[:2])
    agrees(read_parquet(files, columns=["a", "b", "c"], engine="dask"), y=None, cases=PLAIN[:1])
    compare(LABELLED, X, FRAME["label"], from_dask(frame[["a", "b", "c"]]),
            from_dask(frame["label"]), **HOW)  # fmt: skip
    array = pytest.importorskip("dask.array").from_array(X.to_numpy(), chunks=(33, 2))
    compare(PLAIN[0], X.to_numpy(), None, from_dask(array), None, **HOW)
    with pytest.raises(TypeError, match="of dask"):
        from_dask(FRAME)


def test_dask_reads_the_parts_in_every_pass():
    # With pure tasks, dask would take the totals of an earlier pass for those of this one.
    dask = pytest.importorskip("dask")
    seen = []

    def partition(k):
        seen.append(k)
        return np.full((3, 1), float(k))

    class Delayed:
        _meta = np.zeros((0, 1))

        def to_delayed(self):
            return [dask.delayed(partition, pure=True)(k) for k in range(4)]

    rows = check_rows(from_dask(Delayed()), estimator="test", one_place="")
    one = [np.zeros(1, dtype=np.int64)]

    def add(block, totals):
        totals[0] += int(block.sum())

    assert sorted(seen) == [0, 1, 2, 3]
    for k in (2, 3):
        (total,) = rows.fold(add, lambda: [one[0].copy()])
        assert total.tolist() == [18]
        assert sorted(seen) == sorted([0, 1, 2, 3] * k)


@pytest.mark.slow
def test_a_dask_worker_that_dies_changes_nothing(files):
    pytest.importorskip("distributed")
    from dask.distributed import Client, LocalCluster

    source = read_parquet(files, columns=["a", "b", "c"], engine="dask")
    mark = files / "died"

    class Dying:
        """Ends the worker's process, the first time that it reads this part."""

        def __init__(self, reader):
            self.reader = reader

        def __call__(self, handle):
            if handle[1] == 1 and not mark.exists():
                mark.touch()
                os._exit(1)
            yield from self.reader(handle)

    with (
        LocalCluster(2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        dying = Source(
            source.handles, Dying(source.reader), source.engine, source.heads, source.columns
        )
        compare(PLAIN[0], X, None, dying, None, **HOW)
    assert mark.exists()


# --- another skdp where the rows are -----------------------------------------------------------


class Elsewhere(Threads):
    """An engine that says that it has other machines."""

    remote = True


def _elsewhere(monkeypatch, patched):
    class Skewed(Elsewhere):
        def map_add(self, task, parts):
            with pytest.MonkeyPatch.context() as there:
                patched(there)
                return super().map_add(task, parts)

    parts = from_arrays([X.to_numpy()])
    return Source(parts.handles, parts.reader, Skewed(1), parts.heads)


def test_another_version_is_refused_before_the_charge(monkeypatch):
    def other(there):
        there.setattr(parts, "_versions", lambda: ("0.1", "1.26"))

    budget = PrivacyBudget(1.0)
    with pytest.raises(SourceError, match="same versions"):
        DPStandardScaler(budget=budget).fit(_elsewhere(monkeypatch, other))
    assert budget.spent.epsilon == 0


def test_other_arithmetic_is_seen_in_the_image_of_public_rows(monkeypatch):
    from skdp.core import clipping

    def other(there):
        there.setattr(clipping.ScaledBox, "map", lambda self, block: np.ones_like(block))

    scaler = DPStandardScaler(bounds=(-1, 1))
    with pytest.raises(SourceError, match="could not be read again"):
        scaler.fit(_elsewhere(monkeypatch, other))
    transcript, error = fit(scaler, _elsewhere(monkeypatch, lambda there: None))
    assert error is None
    assert transcript.entries
