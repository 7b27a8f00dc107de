"""Private scores and GROUP BY of tables in parts are those of the whole table, to the last bit."""

from __future__ import annotations

import io
import sys
import warnings
from pathlib import Path

import cloudpickle
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import BaseEstimator
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from tests.folding import each

sys.path.insert(0, str(Path(__file__).parent))
from part_cases import travelling

from skdp import DPKMeans, DPStandardScaler, PrivacyBudget
from skdp.aggregation import DPGroupBy
from skdp.core.transcript import record
from skdp.engines import Source, Threads, from_arrays, from_dask, from_stream, read_parquet
from skdp.exceptions import SourceError
from skdp.model_selection import private_scorer

N = 240


def people(n=N, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.normal(size=n), "town": rng.choice(["x", "y", "z"], n)})
    frame["owns"] = np.where(frame["age"] + (frame["town"] == "x") > 0, "yes", "no")
    frame["who"] = rng.integers(0, n // 3, n)
    return frame


PEOPLE = people()
FEATURES = ["age", "town"]
ARROW = pa.Table.from_pandas(PEOPLE, preserve_index=False)


@pytest.fixture(scope="module")
def model():
    encoder = make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough")
    return make_pipeline(encoder, LogisticRegression()).fit(PEOPLE[FEATURES], PEOPLE["owns"])


def exact(scorer, *arguments):
    with record() as transcript:
        score = scorer(*arguments)
    assert 0 <= score <= 1 or scorer.metric != "accuracy"
    return [(e.name, e.sensitivity, np.asarray(e.exact).tolist()) for e in transcript.entries]


def cut(table, *at):
    return [table[a:b] for a, b in zip((0, *at), (*at, len(table)), strict=True)]


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_scores_of_rows_of_any_kind(model, relation):
    budget = PrivacyBudget(100.0, adjacency=relation)
    scorer = private_scorer("accuracy", epsilon=1.0, budget=budget)
    few, arrow = PEOPLE[:60], ARROW[:60]  # a model of scikit-learn predicts each row alone
    whole = exact(scorer, model, few[FEATURES], few["owns"])
    named = few[[*FEATURES, "owns"]]
    parts = {
        "pandas": from_arrays(cut(named, 3, 3, 40)),
        "arrow": from_arrays(cut(arrow.select([*FEATURES, "owns"]), 50)),
        "columns": from_arrays(cut(few, 50, 51), columns=[*FEATURES, "owns"]),
        "stream": from_stream(lambda: arrow.to_reader(max_chunksize=17), columns=named.columns),
    }
    for kind, source in parts.items():
        assert exact(scorer, model, travelling(source), "owns") == whole, kind
    labels = from_arrays(cut(few["owns"].to_numpy(), 20, 30))
    source = from_arrays(cut(few[FEATURES], 20, 30))
    assert exact(scorer, model, travelling(source), travelling(labels)) == whole
    assert budget.spent.epsilon == len(parts) + 2


class NoBudget(cloudpickle.CloudPickler):
    """Fails where a budget travels; an estimator that predicts is public, and may."""

    def persistent_id(self, obj):
        if isinstance(obj, PrivacyBudget):
            raise AssertionError("a budget travels")


class Looking(Threads):
    looked = 0

    def map_add(self, task, parts):
        NoBudget(io.BytesIO()).dump(task)
        self.looked += 1
        return super().map_add(task, parts)


def test_what_travels_has_no_budget():
    X = np.random.default_rng(0).normal(size=(90, 2))
    budget = PrivacyBudget(10.0)
    pipeline = make_pipeline(
        DPStandardScaler(bounds=(-3, 3), budget=budget),
        DPKMeans(2, bounds=(-3, 3), budget=budget),
    )
    pipeline.fit(X)
    scorer = private_scorer("neg_inertia", epsilon=1.0, bounds=50.0, budget=budget)
    source = from_arrays(cut(X, 40))
    engine = Looking(2)
    source = Source(source.handles, source.reader, engine, source.heads)
    assert exact(scorer, pipeline, source) == exact(scorer, pipeline, X)
    assert engine.looked == 2  # the check and the pass
    assert pipeline[0].budget is budget is pipeline[1].budget


class Moody(BaseEstimator):
    """Predicts by what it has seen before: NumPy's global generator, and whether it may fail."""

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def predict(self, X):
        if X[0, 0] > 1:
            raise RuntimeError(f"secret {X[0, 0]}")
        return np.array([float(np.random.random() < 0.5 + X[0, 1])])


def test_code_that_fails_or_draws_is_the_same_in_parts(recwarn):
    X = np.random.default_rng(1).normal(size=(60, 2))
    y = np.ones(60)
    warnings.simplefilter("always")
    scorer = private_scorer("accuracy", epsilon=1.0)
    before = np.random.get_state()[1].tolist()
    parts = from_arrays(cut(X, 7, 30)), from_arrays(cut(y, 7, 30))
    assert exact(scorer, Moody().fit(X), *parts) == exact(scorer, Moody().fit(X), X, y)
    assert np.random.get_state()[1].tolist() == before
    assert not [one for one in recwarn if "secret" in str(one.message)]


def test_seeded_scores_do_not_depend_on_the_parts(model):
    frame = PEOPLE[[*FEATURES, "owns"]]
    scorer = private_scorer("accuracy", epsilon=1.0, random_state=0)
    one, other = (scorer(model, from_arrays(cut(frame, *at)), "owns") for at in ((9,), (50, 60)))
    assert one == other
    moved = frame.replace({"town": {"y": "z"}})
    assert scorer(model, from_arrays(cut(moved, 9)), "owns") != one


def test_seeded_scores_do_not_depend_on_dtypes():
    """Parts of other dtypes that hold the same numbers draw the same noise."""
    rng = np.random.default_rng(3)
    X, y = rng.integers(0, 5, (90, 2)), rng.integers(0, 2, 90)
    model = LogisticRegression().fit(X, y)
    scorer = private_scorer("accuracy", epsilon=1.0, random_state=0)
    scores = {
        scorer(model, from_arrays(cut(X.astype(kind), 9)), from_arrays(cut(y.astype(target), 9)))
        for kind in ("i8", "f8", "i2", "f4")
        for target in ("i8", "u1")
    }
    assert len(scores) == 1


@each(
    ("X", "y", "error", "text"),
    [
        (from_arrays([PEOPLE]), PEOPLE["owns"], TypeError, "name of a column of X"),
        (PEOPLE, from_arrays([PEOPLE]), TypeError, "so X must be in parts"),
        (from_arrays([PEOPLE]), "wealth", ValueError, "name of a column of X, got 'wealth'"),
        (from_arrays([PEOPLE]), None, TypeError, "y must be given"),
        (from_arrays([PEOPLE[FEATURES]]), from_arrays([np.ones(3)]), ValueError, "same number"),
        (from_arrays([PEOPLE[FEATURES][:0]]), from_arrays([np.ones(0)]), ValueError, "0 sample"),
        (Source((1,), lambda _: 1 / 0, from_arrays([PEOPLE]).engine, (PEOPLE[:0],)), "owns",
         SourceError, "could not be read"),
    ],
)  # fmt: skip
def test_refusals_cost_nothing(model, X, y, error, text):
    budget = PrivacyBudget(1.0)
    with pytest.raises(error, match=text):
        private_scorer("accuracy", epsilon=1.0, budget=budget)(model, X, y)
    with pytest.raises(TypeError, match="all rows in one place"):
        budget = PrivacyBudget(1.0, unit="who")
        scorer = private_scorer("accuracy", epsilon=1.0, budget=budget)
        scorer(model, from_arrays([PEOPLE]), "owns", groups=PEOPLE["who"])
    assert budget.spent.epsilon == 0


# --- GROUP BY -------------------------------------------------------------------------------------


def asked(budget):
    by = DPGroupBy(by="town", unit="who", epsilon=20.0, delta=1e-3, budget=budget, random_state=0)
    return by.agg(rows="count", age=("mean", "age", (-3, 3)), high=("quantile", "age", 0.9))


def of_users():
    return PrivacyBudget(20.0, 1e-3, adjacency="add_or_remove_one", unit="who")


def grouped(table):
    budget = of_users()
    by = asked(budget).fit(table)
    assert budget.spent.epsilon == 20
    found = by.table_
    found = found.to_pandas() if hasattr(found, "to_pandas") else pd.DataFrame(found)
    return found.to_dict("list")


def test_groups_of_parts_are_those_of_a_relation(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    dask = pytest.importorskip("dask.dataframe")
    table = ARROW.select(["town", "who", "age"])
    pq.write_table(table, tmp_path / "people.parquet", row_group_size=50)
    typed = PEOPLE.astype({"town": "string"})
    with duckdb.connect() as connection:
        whole = grouped(connection.from_arrow(table))
    assert len(whole["town"]) == 3
    parts = {
        "arrow": from_arrays(cut(table, 7)),
        "columns in another order": from_arrays(cut(ARROW, 7, 90)),
        "pandas": from_arrays(cut(typed, 100)),
        "polars": from_arrays([pl.from_arrow(one) for one in cut(table, 11)]),
        "parquet": read_parquet(tmp_path),
        "stream": from_stream(lambda: table.to_reader(max_chunksize=13)),
        "dask": from_dask(dask.from_pandas(typed, npartitions=3)),
        "files that dask's workers see": read_parquet(tmp_path, engine="dask"),
    }
    for kind, source in parts.items():
        np.testing.assert_equal(grouped(source), whole, kind)  # NaN with NaN


def test_parts_that_cannot_be_grouped_cost_nothing():
    anything = PEOPLE.astype({"town": object})
    floats = ARROW.set_column(0, "age", ARROW["age"].cast(pa.float32()))
    for source, error, text in (
        (from_arrays([PEOPLE.to_numpy()]), TypeError, "names of columns"),
        (from_arrays([anything]), TypeError, "type of column 'town' does not say"),
        (from_arrays([ARROW, floats]), ValueError, "of the same types"),
        (from_arrays([ARROW.select(["town", "age"])]), ValueError, "no column 'who'"),
    ):
        budget = of_users()
        with pytest.raises(error, match=text):
            asked(budget).fit(source)
        assert budget.spent.epsilon == 0, text


def test_a_batch_of_other_types_ends_in_a_fixed_text():
    batches = [ARROW[:20], ARROW[20:].set_column(3, "who", pa.array(["secret"] * (N - 20)))]
    source = Source((0, 1), lambda k: [batches[k]], from_arrays([ARROW]).engine, (ARROW[:0],))
    budget = of_users()
    with pytest.raises(SourceError, match="could not be read as they were checked") as caught:
        asked(budget).fit(source)
    assert "secret" not in repr(caught.getrepr(style="long", chain=True).reprcrash)
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert budget.spent.epsilon == 0


def test_a_part_that_is_gone_is_told_by_a_fixed_text():
    def read(handle):
        if handle:
            raise FileNotFoundError("secret")
        yield ARROW

    budget = of_users()
    source = Source((0, 1), read, from_arrays([ARROW]).engine, (ARROW[:0],) * 2)
    with pytest.raises(SourceError, match="a part is gone") as caught:
        asked(budget).fit(source)
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert "secret" not in str(caught.value)
    assert budget.spent.epsilon == 0


def test_parts_are_read_once_and_before_the_charge():
    """So rows cannot change, nor a cell fail, between what bounds a user and what is added up."""
    budget, seen = of_users(), []

    def read(handle):
        assert budget.spent.epsilon == 0
        seen.append(handle)
        yield ARROW[handle : handle + 50]

    handles = tuple(range(0, N, 50))
    source = Source(handles, read, from_arrays([ARROW]).engine, (ARROW[:0],) * len(handles))
    asked(budget).fit(source)
    assert tuple(seen) == handles and budget.spent.epsilon == 20


@each("name", ["town", "who", "age"])
def test_a_column_that_changes_its_type_in_a_later_batch_is_refused(name):
    at = ARROW.column_names.index(name)
    other = pa.array([7] * N, pa.int16() if name != "town" else pa.int64())
    later = ARROW.set_column(at, name, other)
    budget = of_users()
    source = Source((ARROW, later), lambda batch: [batch], from_arrays([ARROW]).engine,
                    (ARROW[:0],) * 2)  # fmt: skip
    with pytest.raises(SourceError, match="columns of other types"):
        asked(budget).fit(source)
    assert budget.spent.epsilon == 0


def test_keys_are_refused_alike_in_memory_and_in_parts(tmp_path):
    table = ARROW.set_column(1, "town", pa.array([[1], [2]] * (N // 2)))
    table = table.replace_schema_metadata()
    path = tmp_path / "keys.parquet"
    pq.write_table(table, path)
    for one in (table, pl.from_arrow(table), str(path), from_arrays([table])):
        budget = of_users()
        with pytest.raises(TypeError, match="keys of column 'town' cannot be of its type"):
            asked(budget).fit(one)
        assert budget.spent.epsilon == 0
