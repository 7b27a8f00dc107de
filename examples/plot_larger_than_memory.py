"""
A table in parts, on two dask workers
=====================================

A table that does not fit into memory is passed to ``fit`` in parts: files, a stream, or the
partitions of a cluster. What a fit learns from its rows are sums of exact integers, in any
order, so it learns the same however the table is cut. Noise is drawn in this process, never where
the rows are.

Run it with ``python examples/plot_larger_than_memory.py``; ``--output`` says where the figure goes,
``--spark`` also fits on Spark, if it is installed.
"""

# %%
# The data
# --------
# A million made-up rows in eight Parquet files. The first fit needs only a reader for Parquet
# (``pip install ".[parquet]"``).

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from skdp import DPPCA, PrivacyBudget
from skdp.engines import from_spark, read_parquet

parser = argparse.ArgumentParser(description="One fit on parts, by several engines.")
parser.add_argument("--output", type=Path, default=Path("plot_larger_than_memory.png"))
parser.add_argument("--spark", action="store_true", help="fit on a local Spark, too")
args = parser.parse_args([] if "sphinx" in sys.modules else None)

folder = tempfile.TemporaryDirectory()
rng = np.random.default_rng(0)
names = ["age", "income", "visits"]
for k in range(8):
    common = rng.normal(size=(125_000, 1))
    rows = 0.8 * common + 0.3 * rng.normal(size=(125_000, 3))
    table = pa.table(dict(zip(names, rows.T, strict=True)))
    pq.write_table(table, Path(folder.name, f"part{k}.parquet"), row_group_size=50_000)

# %%
# Threads, then two workers
# -------------------------
# ``read_parquet`` reads names and types only. The fit reads the files three times: to check them
# and count the rows before the charge, to find a radius that most rows do not exceed, and to
# compute one matrix.

budget = PrivacyBudget(3.0, 1e-5)


def unfitted() -> DPPCA:
    """Return the same estimator for each engine."""
    return DPPCA(2, norm_bound=3.0, center=0.0, delta=1e-7, budget=budget)


fits = {"threads": unfitted().fit(read_parquet(folder.name, columns=names))}

try:
    from dask.distributed import Client, LocalCluster
except ImportError:
    print("dask is not installed: threads only")
else:
    # Threads of this process stand for two machines; give the address of a scheduler instead.
    with LocalCluster(2, processes=False, dashboard_address=None) as cluster, Client(cluster):
        parts = read_parquet(folder.name, columns=names, engine="dask")
        fits["dask"] = unfitted().fit(parts)

if args.spark:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[2]").getOrCreate()
    fits["spark"] = unfitted().fit(from_spark(spark.read.parquet(folder.name)))
    spark.stop()

# %%
# Each release has noise of its own, and each is charged. Without noise they would be equal.

for name, fitted in fits.items():
    print(f"{name:8} {np.round(fitted.explained_variance_, 4)}")
print(f"spent: {budget.spent.epsilon}")

# %%
# A method that needs all rows in one place says so before it reads or charges anything.

try:
    unfitted().fit_transform(read_parquet(folder.name))
except TypeError as error:
    print(error)
print(f"spent: {budget.spent.epsilon}")

figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
width = 0.8 / len(fits)
for i, (name, fitted) in enumerate(fits.items()):
    axis.bar(np.arange(3) + i * width, np.abs(fitted.components_[0]), width, label=name)
axis.set_xticks(np.arange(3) + 0.4 - width / 2, names)
axis.set_ylabel("first component")
figure.legend(loc="outside upper center", ncols=3)
figure.savefig(args.output)
folder.cleanup()
