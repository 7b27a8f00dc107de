"""The same integers from every container, in any order of rows and any number of buckets."""

from __future__ import annotations

import gc
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import skdp
from skdp import PrivacyBudget
from skdp.aggregation import DPGroupBy
from skdp.engines import from_arrays, from_dask, from_stream, read_parquet
from skdp.exceptions import SourceError
from skdp.tabular import KeyTerm, check_grouped, contributions, grouping

duckdb = pytest.importorskip("duckdb")
dask = pytest.importorskip("dask.dataframe")

LOW, HIGH = -2.0, 1.5
TERMS = (
    KeyTerm("rows"),
    KeyTerm("units"),
    KeyTerm("filled", "v"),
    KeyTerm("sum", "v", LOW, HIGH, zero=True),
    KeyTerm("square", "v", LOW, HIGH),
    KeyTerm("bins", "v", edges=(LOW, 0.0, 1.0, HIGH)),
    KeyTerm("leaves", "v", LOW, HIGH, depth=3),
    KeyTerm("between", "v", LOW, HIGH, cuts=((1, 2**20), (7, 2**19), (0, 1))),
    KeyTerm("about", "v", LOW, HIGH, centers=(-(2**29), 0, 2**29)),
)
POINTS = KeyTerm("points", "v", LOW, HIGH)
TEXTS = ("a", "b", "it's", "é\0", "")
KINDS = {  # of ids, and of keys
    "numbers": (int, lambda k: k - 2),
    "texts": (lambda u: f"user {u}", TEXTS.__getitem__),
    "floats": (lambda u: u / 7, lambda k: k / 2 - 0.5),
    "booleans": (lambda u: u > 2, lambda k: k > 2),
    "two keys": (int, lambda k: (k % 2, TEXTS[k])),
}

cells = st.one_of(
    st.just(float("nan")),
    st.floats(-3, 3),
    st.sampled_from([0.0, -0.0, LOW, HIGH, 1e300, -1e300, 5e-324, float("inf")]),
)
row = st.tuples(st.integers(0, 4), st.integers(0, 4), cells)


def table_of(rows, kind):
    """Return a pandas table with ids and keys of a kind, and its columns of keys."""
    id_of, key_of = KINDS[kind]
    keys = [key_of(k) for _, k, _ in rows]
    parts = list(zip(*keys, strict=True)) if isinstance(keys[0], tuple) else [keys]
    columns = {f"k{i}": list(part) for i, part in enumerate(parts)}
    values = {"u": [id_of(u) for u, _, _ in rows], "v": [v for _, _, v in rows]}
    table = pd.DataFrame({**columns, **values})
    texts = [name for name in table if isinstance(table[name].iloc[0], str)]
    return table.astype(dict.fromkeys(texts, "string")), list(columns)


def containers(table, folder):
    """Yield the rows in every container, in this order and others."""
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    back = arrow.take(pa.array(np.arange(len(table))[::-1]))
    step = max(len(table) // 3, 1)
    cut = [back.slice(i, step) for i in range(0, len(table), step)]
    path = folder / "rows.parquet"
    pa.parquet.write_table(back, path, row_group_size=step)
    yield "dict of arrays", {name: table[name].to_numpy() for name in table}
    yield "pandas", table.iloc[::-1].reset_index(drop=True)
    yield "polars", pl.from_arrow(back)
    yield "arrow", arrow
    yield "arrow in chunks", pa.concat_tables(cut)
    yield "duckdb", duckdb.from_arrow(arrow)
    yield "duckdb, another order", duckdb.from_arrow(back)
    yield "parquet", str(path)
    yield "row groups", read_parquet(path)
    yield "parts of arrow", from_arrays(cut)
    yield "parts of pandas", from_arrays([table[:step], table[step:]])
    yield "parts of polars", from_arrays([pl.from_arrow(one) for one in cut])
    yield "parts with dictionaries", from_arrays([_with_dictionaries(one) for one in cut])
    yield "stream", from_stream(lambda: back.to_reader(max_chunksize=2))
    yield "dask", from_dask(dask.from_pandas(table, npartitions=2))


def _with_dictionaries(table):
    columns = [table[name] for name in table.column_names]
    coded = [one if name == "v" else one.dictionary_encode() for name, one in
             zip(table.column_names, columns, strict=True)]  # fmt: skip
    return pa.table(coded, names=table.column_names)


def integers(table, by, secret=5):
    """Return all that queries may ask of a table, and close it."""
    rows = check_grouped(table, by=by, unit="u", columns=["v"])
    rows.secret = secret
    keys, counts = rows.key_weights([9, 5, 3], 1, ())
    found = [
        keys,
        counts,
        rows.key_weights([1, 1], 2, tuple(keys[:1])),
        rows.totals(keys[:3], TERMS, 2, 2).tolist(),
        [list(map(str, part)) for part in rows.points_by_key(keys[:3], POINTS, 2, 2)],
        rows.left_out(keys[:3], 2, 2, 2, 3).tolist(),
        rows.shapes(keys[:3], (1, 2, 3), (1, 2, 5)).tolist(),
        rows.shapes(None, (1, 2, 3), (1, 2, 5)).tolist(),
        rows.spread("v", (-4.0, -1.0, 0.0, 1.0, 4.0)).tolist(),
        rows._n,
    ]
    rows.close()
    return found


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Few rows are held in memory, the others in this folder."""
    monkeypatch.setattr(grouping, "MOST_IN_MEMORY", 1)
    monkeypatch.setattr(grouping, "BUCKETS", 7)
    monkeypatch.setattr(grouping, "_TOGETHER", 5)
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(
    max_examples=2,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(rows=st.lists(row, min_size=1, max_size=30))
def test_every_container_has_the_same_integers(kind, rows, small, monkeypatch, tmp_path):
    table, by = table_of(rows, kind)
    expected = integers(table, by)
    # Seven buckets in files, or blocks of one bucket in memory.
    for limit, block in ((1, 2**17), (2**24, 3)):
        monkeypatch.setattr(grouping, "MOST_IN_MEMORY", limit)
        monkeypatch.setattr(contributions, "_BLOCK", block)
        for name, given_rows in containers(table, tmp_path):
            assert integers(given_rows, by) == expected, (name, limit)
    assert list(small.iterdir()) == []


def test_blocks_have_whole_units_and_the_same_integers(monkeypatch):
    table = people().to_pandas()
    expected = integers(table, ["k"])
    for size, most in ((1, 90), (7, 90), (100, 3), (10**6, 1)):
        monkeypatch.setattr(contributions, "_BLOCK", size)
        assert integers(table, ["k"]) == expected
        rows = check_grouped(table, by=["k"], unit="u", columns=["v"])
        units = [frozenset(block.unit.tolist()) for block in rows.buckets()]
        assert sum(map(len, units)) == len(frozenset.union(*units)) == 90
        assert 1 < len(units) <= most or len(units) == most == 1


# --- rows in a temporary folder -------------------------------------------------------------------


def people(n=400):
    g = np.random.default_rng(3)
    return pa.table(
        {"u": g.integers(0, 90, n), "k": g.choice(["x", "y", "z"], n), "v": g.normal(size=n)}
    )


def asked(budget, **options):
    by = DPGroupBy("k", "u", epsilon=20.0, delta=1e-3, budget=budget, random_state=4, **options)
    return by.agg(n="count", m=("mean", "v", (-3, 3)), q=("quantile", "v", 0.5, (-3, 3)))


def of_users():
    return PrivacyBudget(20.0, 1e-3, adjacency="add_or_remove_one", unit="u")


def test_a_seeded_fit_is_the_same_from_buckets_in_files(small, monkeypatch):
    found = []
    for limit in (2**24, 1):
        monkeypatch.setattr(grouping, "MOST_IN_MEMORY", limit)
        for table in (duckdb.from_arrow(people()), from_arrays([people()])):
            with skdp.config_context(noise="seeded"):
                found.append(asked(of_users()).fit(table).to_dict())
    assert found[0] == found[1] == found[2] == found[3]
    assert list(small.iterdir()) == []


def test_rows_beyond_the_limit_are_in_files_that_only_their_owner_reads(small):
    rows = check_grouped(duckdb.from_arrow(people()), by=["k"], unit="u", columns=["v"])
    (folder,) = small.iterdir()
    assert folder.stat().st_mode & 0o077 == 0
    files = {path.name for path in folder.rglob("*") if path.is_file()}
    assert files == {f"{name}.npy" for name in ("start", "unit", "key", "rows", "words", "v0")}
    assert len(list(rows.buckets())) == 7
    units = [frozenset(one.words[one.unit].tolist()) for one in rows.buckets()]
    assert sum(map(len, units)) == len(frozenset.union(*units)) == rows._n == 90
    rows.close()
    assert not folder.exists()


def test_a_table_that_nobody_closes_leaves_no_file(small):
    rows = check_grouped(duckdb.from_arrow(people()), by=["k"], unit="u", columns=["v"])
    assert list(small.iterdir())
    del rows
    gc.collect()
    assert not list(small.iterdir())


def test_ctrl_c_while_rows_are_read_leaves_no_file(small):
    def read(part):
        yield people()
        if part:
            assert list(small.iterdir())
            raise KeyboardInterrupt

    source = from_arrays([people()])
    source = type(source)((0, 1), read, source.engine, source.heads)
    budget = of_users()
    with pytest.raises(KeyboardInterrupt):
        asked(budget).fit(source)
    assert list(small.iterdir()) == [] and budget.spent.epsilon == 0


@pytest.mark.parametrize("columns", [(0,), (1,), (2,), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("spilled", [False, True])
def test_rows_with_missing_ids_and_keys_leave(columns, spilled, small, monkeypatch):
    """In every container; without ``dropna`` a missing key is one of its own."""
    if not spilled:
        monkeypatch.setattr(grouping, "MOST_IN_MEMORY", 2**24)
    table = pa.table(
        {"u": [1, 2, 3, 4] * 5, "j": ["a", "b"] * 10, "k": [1, 2] * 10, "v": [0.5] * 20}
    )
    odd, left = table, [row for row in range(20) if row not in (0, 7)]
    for i in columns:
        cells = [None if row in (0, 7) else cell for row, cell in enumerate(table[i].to_pylist())]
        odd = odd.set_column(i, table.column_names[i], pa.array(cells, table[i].type))
    whole = integers(table.take(left), ["j", "k"])
    for given_rows in (odd, odd.to_pandas(), duckdb.from_arrow(odd), from_arrays([odd])):
        assert integers(given_rows, ["j", "k"]) == whole
        rows = check_grouped(given_rows, by=["j", "k"], unit="u", columns=[], dropna=False)
        found = {key for key in rows.key_weights([9, 5, 3], 1, ())[0] if None in key}
        assert bool(found) == (0 not in columns)
        rows.close()
    assert list(small.iterdir()) == []


@pytest.mark.parametrize("where", ["stated keys", "a later part"])
def test_a_table_that_is_refused_leaves_no_file(where, small):
    table, n = people(), 400
    budget, options = of_users(), {}
    if where == "stated keys":
        options, text, error = {"keys": [1, 2]}, "must be of its type", TypeError
    given_rows = duckdb.from_arrow(table)
    if where == "a later part":
        parts = [table, table.set_column(2, "v", pa.array([7] * n))]
        given_rows = from_arrays([table, table])
        given_rows = type(given_rows)(
            (0, 1), lambda i: [parts[i]], given_rows.engine, given_rows.heads
        )
        text, error = "could not be read", SourceError
    with pytest.raises(error, match=text):
        asked(budget, **options).fit(given_rows)
    assert list(small.iterdir()) == [] and budget.spent.epsilon == 0


def test_files_that_are_gone_are_told_by_a_fixed_text(small, monkeypatch):
    right = grouping._loaded

    def gone(path):
        if path.name == "v0.npy" and budget.spent.epsilon:
            path.unlink(missing_ok=True)
        return right(path)

    budget = of_users()
    monkeypatch.setattr(grouping, "_loaded", gone)
    with pytest.raises(SourceError, match=r"temporary files .* what was charged stays") as caught:
        asked(budget).fit(duckdb.from_arrow(people()))
    assert caught.value.__cause__ is caught.value.__context__ is None
    # The histograms of units were charged and failed; the rest was not asked for.
    assert budget.spent.epsilon == 1 and list(small.iterdir()) == []


def test_a_folder_that_cannot_be_written_costs_nothing(small, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(Path(small) / "none"))
    budget = of_users()
    with pytest.raises(SourceError, match="temporary files could not be written"):
        asked(budget).fit(duckdb.from_arrow(people()))
    assert budget.spent.epsilon == 0
