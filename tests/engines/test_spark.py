"""Spark gives what numpy gives, and counts a task that runs twice once.

Outside of CI: a Spark of one machine takes half a minute to start. Skipped where pyspark or a Java
runtime are missing.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from part_cases import Case, compare

from skdp import DPStandardScaler, PrivacyBudget
from skdp.engines import from_spark, read_parquet
from skdp.exceptions import SourceError
from skdp.naive_bayes import DPGaussianNB
from skdp.tabular import KeyTerm, check_grouped

FRAME = pd.DataFrame(np.random.default_rng(0).normal(0, 0.7, (200, 3)), columns=["a", "b", "c"])
FRAME["label"] = np.where(FRAME["a"] > 0, "yes", "no")
X = FRAME[["a", "b", "c"]]
STATED = Case("stated", lambda **p: DPStandardScaler(bounds=(-1, 1), **p))
PLAIN = [Case("scaler", DPStandardScaler)]
BAYES = Case("bayes", lambda **p: DPGaussianNB(classes=["no", "yes"], bounds=(-1, 1), **p))
HOW = {"relation": "add_or_remove_one", "delta": 1e-6}


@pytest.fixture(scope="module")
def spark():
    pyspark = pytest.importorskip("pyspark")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs a Java runtime")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    options = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.python.worker.faulthandler.enabled": "false",
    }
    builder = pyspark.sql.SparkSession.builder.master("local[2,3]")
    for name, value in options.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:
        pytest.skip(f"Spark does not start: {type(error).__name__}")
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.mark.exhaustive
def test_spark(spark):
    frame = spark.createDataFrame(FRAME).repartition(3)
    columns = ["a", "b", "c"]
    compare(STATED, X, None, from_spark(frame).select(columns), None, **HOW)
    compare(PLAIN[0], X, None, from_spark(frame).select(columns), None, **HOW)  # some are gathered
    compare(BAYES, X, FRAME["label"], from_spark(frame), "label", **HOW)
    with pytest.raises(TypeError, match="of Spark"):
        from_spark(FRAME)


@pytest.mark.exhaustive
def test_spark_reads_files_by_itself(spark, tmp_path):
    columns = ["a", "b", "c"]
    for k, start in enumerate(range(0, 200, 40)):
        FRAME[start : start + 40].to_parquet(tmp_path / f"{k}.parquet", row_group_size=15)
    source = read_parquet(tmp_path, engine="spark")
    assert len(source.handles) == 15
    compare(STATED, X, None, source.select(columns), None, **HOW)
    compare(PLAIN[0], X, None, source.select(columns), None, **HOW)
    compare(BAYES, X, FRAME["label"], source, "label", **HOW)
    (tmp_path / "3.parquet").unlink()
    budget = PrivacyBudget(1.0)
    with pytest.raises(SourceError, match="could not be read"):
        DPStandardScaler(bounds=(-1, 1), budget=budget).fit(source.select(columns))
    assert budget.spent.epsilon == 0


def test_spark_without_a_session_is_refused(tmp_path):
    sql = pytest.importorskip("pyspark.sql")
    FRAME.to_parquet(tmp_path / "0.parquet")
    if sql.SparkSession.getActiveSession() is None:
        with pytest.raises(ValueError, match="needs an active session of Spark"):
            read_parquet(tmp_path, engine="spark")


@pytest.mark.exhaustive
def test_totals_of_many_spark_partitions_are_added_up_on_the_workers_first(spark):
    renamed = X.rename(columns={"a": "with.dot"})
    source = from_spark(spark.createDataFrame(renamed).repartition(20))
    compare(STATED, renamed, None, source.select(list(renamed)), None, **HOW)


@pytest.mark.exhaustive
def test_a_spark_task_that_runs_twice_counts_once(spark, tmp_path):
    folder = str(tmp_path)

    def fails_first(batches):
        from pyspark import TaskContext

        context = TaskContext.get()
        yield from batches
        if context.attemptNumber() == 0 and context.partitionId() == 1:
            Path(folder, "failed").touch()
            raise RuntimeError("lost")

    frame = spark.createDataFrame(X).repartition(3)
    frame = frame.mapInArrow(fails_first, frame.schema)
    compare(STATED, X, None, from_spark(frame), None, **HOW)
    assert Path(folder, "failed").exists()


@pytest.mark.exhaustive
def test_rows_of_a_spark_frame_are_grouped_in_this_process(spark):
    g = np.random.default_rng(1)
    town = g.choice(["x", "y"], 300)
    table = pd.DataFrame({"who": g.integers(0, 40, 300), "to.wn": town, "v": g.normal(size=300)})
    terms = [KeyTerm("rows"), KeyTerm("units"), KeyTerm("sum", "v", -1, 1)]
    found = []
    for rows in (table, from_spark(spark.createDataFrame(table).repartition(3))):
        opened = check_grouped(rows, by=["to.wn"], unit="who", columns=["v"])
        opened.secret = 5
        found.append(opened.totals(["x", "y"], terms, 1, 2).tolist())
    assert found[0] == found[1]
