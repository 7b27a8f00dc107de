"""TPC-H with customers as units: which of the 22 queries are answered, how exactly, how fast.

python doc/benchmarks/tpch.py --scale 0.1      writes results/tpch.inc

It needs `pip install tpchgen-cli`. Units are customers; customer, orders and lineitem are private,
the five other tables public. lineitem belongs to orders, and orders to customer. Bounds are those
of the benchmark's specification. Times are of one run each, after one to warm up; error is the
median over cells of |noisy - true| / |true|, of cells in both.
"""

from __future__ import annotations

import argparse
import datetime
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

from skdp import PrivacyBudget
from skdp.exceptions import QueryRefusedError
from skdp.sql import PrivateDatabase

RESULTS = Path(__file__).parent / "results"
TABLES = ("customer", "orders", "lineitem", "nation", "region", "part", "supplier", "partsupp")
DECLARED = {
    "customer": {"unit": "c_custkey", "columns": {"c_acctbal": (-1000, 10_000)}},
    "orders": {
        "owner": ("o_custkey", "customer", "c_custkey"),
        "columns": {"o_totalprice": (0, 600_000)},
    },
    "lineitem": {
        "owner": ("l_orderkey", "orders", "o_orderkey"),
        "columns": {
            "l_quantity": (1, 50),
            "l_extendedprice": (900, 105_000),
            "l_discount": (0, 0.1),
            "l_tax": (0, 0.08),
        },
    },
    **dict.fromkeys(("nation", "region", "part", "supplier", "partsupp"), "public"),
}

REVENUE = "l_extendedprice * (1 - l_discount)"
QUERIES = {
    1: f"""SELECT l_returnflag, l_linestatus, SUM(l_quantity) AS sum_qty,
        SUM(l_extendedprice) AS sum_base_price, SUM({REVENUE}) AS sum_disc_price,
        SUM({REVENUE} * (1 + l_tax)) AS sum_charge, AVG(l_quantity) AS avg_qty,
        AVG(l_extendedprice) AS avg_price, AVG(l_discount) AS avg_disc, COUNT(*) AS count_order
        FROM lineitem WHERE l_shipdate <= DATE '1998-12-01' - INTERVAL '90' DAY
        GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus""",
    2: """SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
        FROM part, supplier, partsupp, nation, region WHERE p_partkey = ps_partkey
        AND s_suppkey = ps_suppkey AND p_size = 15 AND p_type LIKE '%BRASS'
        AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'EUROPE'
        AND ps_supplycost = (SELECT MIN(ps_supplycost) FROM partsupp, supplier, nation, region
        WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey AND s_nationkey = n_nationkey
        AND n_regionkey = r_regionkey AND r_name = 'EUROPE')
        ORDER BY s_acctbal DESC, n_name, s_name, p_partkey LIMIT 100""",
    3: f"""SELECT l_orderkey, SUM({REVENUE}) AS revenue, o_orderdate, o_shippriority
        FROM customer, orders, lineitem WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey
        AND l_orderkey = o_orderkey AND o_orderdate < DATE '1995-03-15'
        AND l_shipdate > DATE '1995-03-15' GROUP BY l_orderkey, o_orderdate, o_shippriority
        ORDER BY revenue DESC, o_orderdate LIMIT 10""",
    4: """SELECT o_orderpriority, COUNT(*) AS order_count FROM orders
        WHERE o_orderdate >= DATE '1993-07-01'
        AND o_orderdate < DATE '1993-07-01' + INTERVAL '3' MONTH
        AND EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey
        AND l_commitdate < l_receiptdate) GROUP BY o_orderpriority ORDER BY o_orderpriority""",
    5: f"""SELECT n_name, SUM({REVENUE}) AS revenue
        FROM customer, orders, lineitem, supplier, nation, region WHERE c_custkey = o_custkey
        AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey AND c_nationkey = s_nationkey
        AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'ASIA'
        AND o_orderdate >= DATE '1994-01-01'
        AND o_orderdate < DATE '1994-01-01' + INTERVAL '1' YEAR
        GROUP BY n_name ORDER BY revenue DESC""",
    6: """SELECT SUM(l_extendedprice * l_discount) AS revenue FROM lineitem
        WHERE l_shipdate >= DATE '1994-01-01'
        AND l_shipdate < DATE '1994-01-01' + INTERVAL '1' YEAR
        AND l_discount BETWEEN 0.06 - 0.01 AND 0.06 + 0.01 AND l_quantity < 24""",
    7: f"""SELECT supp_nation, cust_nation, l_year, SUM(volume) AS revenue FROM (
        SELECT n1.n_name AS supp_nation, n2.n_name AS cust_nation,
        EXTRACT(YEAR FROM l_shipdate) AS l_year, {REVENUE} AS volume
        FROM supplier, lineitem, orders, customer, nation n1, nation n2
        WHERE s_suppkey = l_suppkey AND o_orderkey = l_orderkey AND c_custkey = o_custkey
        AND s_nationkey = n1.n_nationkey AND c_nationkey = n2.n_nationkey
        AND ((n1.n_name = 'FRANCE' AND n2.n_name = 'GERMANY')
        OR (n1.n_name = 'GERMANY' AND n2.n_name = 'FRANCE'))
        AND l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31') AS shipping
        GROUP BY supp_nation, cust_nation, l_year ORDER BY supp_nation, cust_nation, l_year""",
    8: f"""SELECT o_year, SUM(CASE WHEN nation = 'BRAZIL' THEN volume ELSE 0 END) / SUM(volume)
        AS mkt_share FROM (SELECT EXTRACT(YEAR FROM o_orderdate) AS o_year, {REVENUE} AS volume,
        n2.n_name AS nation FROM part, supplier, lineitem, orders, customer, nation n1, nation n2,
        region WHERE p_partkey = l_partkey AND s_suppkey = l_suppkey AND l_orderkey = o_orderkey
        AND o_custkey = c_custkey AND c_nationkey = n1.n_nationkey
        AND n1.n_regionkey = r_regionkey AND r_name = 'AMERICA' AND s_nationkey = n2.n_nationkey
        AND o_orderdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'
        AND p_type = 'ECONOMY ANODIZED STEEL') AS all_nations GROUP BY o_year ORDER BY o_year""",
    9: f"""SELECT nation, o_year, SUM(amount) AS sum_profit FROM (SELECT n_name AS nation,
        EXTRACT(YEAR FROM o_orderdate) AS o_year, {REVENUE} - ps_supplycost * l_quantity AS amount
        FROM part, supplier, lineitem, partsupp, orders, nation WHERE s_suppkey = l_suppkey
        AND ps_suppkey = l_suppkey AND ps_partkey = l_partkey AND p_partkey = l_partkey
        AND o_orderkey = l_orderkey AND s_nationkey = n_nationkey AND p_name LIKE '%green%')
        AS profit GROUP BY nation, o_year ORDER BY nation, o_year DESC""",
    10: f"""SELECT c_custkey, c_name, SUM({REVENUE}) AS revenue, c_acctbal, n_name, c_address,
        c_phone, c_comment FROM customer, orders, lineitem, nation WHERE c_custkey = o_custkey
        AND l_orderkey = o_orderkey AND o_orderdate >= DATE '1993-10-01'
        AND o_orderdate < DATE '1993-10-01' + INTERVAL '3' MONTH AND l_returnflag = 'R'
        AND c_nationkey = n_nationkey GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name,
        c_address, c_comment ORDER BY revenue DESC LIMIT 20""",
    11: """SELECT ps_partkey, SUM(ps_supplycost * ps_availqty) AS value
        FROM partsupp, supplier, nation WHERE ps_suppkey = s_suppkey
        AND s_nationkey = n_nationkey AND n_name = 'GERMANY' GROUP BY ps_partkey
        HAVING SUM(ps_supplycost * ps_availqty) > (SELECT SUM(ps_supplycost * ps_availqty) * 0.001
        FROM partsupp, supplier, nation WHERE ps_suppkey = s_suppkey
        AND s_nationkey = n_nationkey AND n_name = 'GERMANY') ORDER BY value DESC""",
    12: """SELECT l_shipmode, SUM(CASE WHEN o_orderpriority = '1-URGENT'
        OR o_orderpriority = '2-HIGH' THEN 1 ELSE 0 END) AS high_line_count,
        SUM(CASE WHEN o_orderpriority <> '1-URGENT' AND o_orderpriority <> '2-HIGH'
        THEN 1 ELSE 0 END) AS low_line_count FROM orders, lineitem
        WHERE o_orderkey = l_orderkey AND l_shipmode IN ('MAIL', 'SHIP')
        AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate
        AND l_receiptdate >= DATE '1994-01-01'
        AND l_receiptdate < DATE '1994-01-01' + INTERVAL '1' YEAR
        GROUP BY l_shipmode ORDER BY l_shipmode""",
    13: """SELECT c_count, COUNT(*) AS custdist FROM (SELECT c_custkey, COUNT(o_orderkey)
        FROM customer LEFT OUTER JOIN orders ON c_custkey = o_custkey
        AND o_comment NOT LIKE '%special%requests%' GROUP BY c_custkey) AS c_orders (c_custkey,
        c_count) GROUP BY c_count ORDER BY custdist DESC, c_count DESC""",
    14: f"""SELECT 100.00 * SUM(CASE WHEN p_type LIKE 'PROMO%' THEN {REVENUE} ELSE 0 END)
        / SUM({REVENUE}) AS promo_revenue FROM lineitem, part WHERE l_partkey = p_partkey
        AND l_shipdate >= DATE '1995-09-01'
        AND l_shipdate < DATE '1995-09-01' + INTERVAL '1' MONTH""",
    15: f"""WITH revenue AS (SELECT l_suppkey AS supplier_no, SUM({REVENUE}) AS total_revenue
        FROM lineitem WHERE l_shipdate >= DATE '1996-01-01'
        AND l_shipdate < DATE '1996-01-01' + INTERVAL '3' MONTH GROUP BY l_suppkey)
        SELECT s_suppkey, s_name, s_address, s_phone, total_revenue FROM supplier, revenue
        WHERE s_suppkey = supplier_no AND total_revenue = (SELECT MAX(total_revenue) FROM revenue)
        ORDER BY s_suppkey""",
    16: """SELECT p_brand, p_type, p_size, COUNT(DISTINCT ps_suppkey) AS supplier_cnt
        FROM partsupp, part WHERE p_partkey = ps_partkey AND p_brand <> 'Brand#45'
        AND p_type NOT LIKE 'MEDIUM POLISHED%' AND p_size IN (49, 14, 23, 45, 19, 3, 36, 9)
        AND ps_suppkey NOT IN (SELECT s_suppkey FROM supplier
        WHERE s_comment LIKE '%Customer%Complaints%') GROUP BY p_brand, p_type, p_size
        ORDER BY supplier_cnt DESC, p_brand, p_type, p_size""",
    17: """SELECT SUM(l_extendedprice) / 7.0 AS avg_yearly FROM lineitem, part
        WHERE p_partkey = l_partkey AND p_brand = 'Brand#23' AND p_container = 'MED BOX'
        AND l_quantity < (SELECT 0.2 * AVG(l_quantity) FROM lineitem
        WHERE l_partkey = p_partkey)""",
    18: """SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, SUM(l_quantity)
        FROM customer, orders, lineitem WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem
        GROUP BY l_orderkey HAVING SUM(l_quantity) > 300) AND c_custkey = o_custkey
        AND o_orderkey = l_orderkey GROUP BY c_name, c_custkey, o_orderkey, o_orderdate,
        o_totalprice ORDER BY o_totalprice DESC, o_orderdate LIMIT 100""",
    19: f"""SELECT SUM({REVENUE}) AS revenue FROM lineitem, part WHERE p_partkey = l_partkey
        AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON'
        AND ((p_brand = 'Brand#12' AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG')
        AND l_quantity >= 1 AND l_quantity <= 11 AND p_size BETWEEN 1 AND 5)
        OR (p_brand = 'Brand#23' AND p_container IN ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK')
        AND l_quantity >= 10 AND l_quantity <= 20 AND p_size BETWEEN 1 AND 10)
        OR (p_brand = 'Brand#34' AND p_container IN ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG')
        AND l_quantity >= 20 AND l_quantity <= 30 AND p_size BETWEEN 1 AND 15))""",
    20: """SELECT s_name, s_address FROM supplier, nation WHERE s_suppkey IN (SELECT ps_suppkey
        FROM partsupp WHERE ps_partkey IN (SELECT p_partkey FROM part WHERE p_name LIKE 'forest%')
        AND ps_availqty > (SELECT 0.5 * SUM(l_quantity) FROM lineitem
        WHERE l_partkey = ps_partkey AND l_suppkey = ps_suppkey
        AND l_shipdate >= DATE '1994-01-01'
        AND l_shipdate < DATE '1994-01-01' + INTERVAL '1' YEAR))
        AND s_nationkey = n_nationkey AND n_name = 'CANADA' ORDER BY s_name""",
    21: """SELECT s_name, COUNT(*) AS numwait FROM supplier, lineitem l1, orders, nation
        WHERE s_suppkey = l1.l_suppkey AND o_orderkey = l1.l_orderkey AND o_orderstatus = 'F'
        AND l1.l_receiptdate > l1.l_commitdate AND EXISTS (SELECT * FROM lineitem l2
        WHERE l2.l_orderkey = l1.l_orderkey AND l2.l_suppkey <> l1.l_suppkey)
        AND NOT EXISTS (SELECT * FROM lineitem l3 WHERE l3.l_orderkey = l1.l_orderkey
        AND l3.l_suppkey <> l1.l_suppkey AND l3.l_receiptdate > l3.l_commitdate)
        AND s_nationkey = n_nationkey AND n_name = 'SAUDI ARABIA'
        GROUP BY s_name ORDER BY numwait DESC, s_name LIMIT 100""",
    22: """SELECT cntrycode, COUNT(*) AS numcust, SUM(c_acctbal) AS totacctbal FROM (
        SELECT SUBSTRING(c_phone, 1, 2) AS cntrycode, c_acctbal FROM customer
        WHERE SUBSTRING(c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17')
        AND c_acctbal > (SELECT AVG(c_acctbal) FROM customer WHERE c_acctbal > 0.00
        AND SUBSTRING(c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17'))
        AND NOT EXISTS (SELECT * FROM orders WHERE o_custkey = c_custkey)) AS custsale
        GROUP BY cntrycode ORDER BY cntrycode""",
}
VARIANTS = {
    3: (
        "by month instead of by order",
        f"""SELECT DATE_TRUNC('month', o_orderdate) AS m, SUM({REVENUE}) AS revenue
        FROM customer, orders, lineitem WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey
        AND l_orderkey = o_orderkey AND o_orderdate < DATE '1995-03-15'
        AND l_shipdate > DATE '1995-03-15' GROUP BY 1 ORDER BY m""",
    ),
    10: (
        "by nation instead of by customer",
        f"""SELECT n_name, SUM({REVENUE}) AS revenue FROM customer, orders, lineitem, nation
        WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey
        AND o_orderdate >= DATE '1993-10-01'
        AND o_orderdate < DATE '1993-10-01' + INTERVAL '3' MONTH AND l_returnflag = 'R'
        AND c_nationkey = n_nationkey GROUP BY n_name ORDER BY n_name""",
    ),
    15: (
        "the largest noisy revenue, without MAX",
        f"""SELECT s_name, SUM({REVENUE}) AS total_revenue FROM lineitem, supplier
        WHERE l_suppkey = s_suppkey AND l_shipdate >= DATE '1996-01-01'
        AND l_shipdate < DATE '1996-01-01' + INTERVAL '3' MONTH
        GROUP BY s_name ORDER BY total_revenue DESC LIMIT 1""",
    ),
    17: (
        "below a fifth of the mean quantity of all these parts instead of each",
        """WITH typical AS (SELECT AVG(l_quantity) AS q FROM lineitem, part
        WHERE p_partkey = l_partkey AND p_brand = 'Brand#23' AND p_container = 'MED BOX')
        SELECT SUM(l_extendedprice) / 7.0 AS avg_yearly FROM lineitem, part, typical
        WHERE p_partkey = l_partkey AND p_brand = 'Brand#23' AND p_container = 'MED BOX'
        AND l_quantity < 0.2 * q""",
    ),
    18: (
        "by month instead of by order, of orders above 200",
        """SELECT DATE_TRUNC('month', o_orderdate) AS m, SUM(l_quantity) AS q
        FROM customer, orders, lineitem WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem
        GROUP BY l_orderkey HAVING SUM(l_quantity) > 200) AND c_custkey = o_custkey
        AND o_orderkey = l_orderkey GROUP BY 1 ORDER BY m""",
    ),
    22: (
        "the mean of balances stated",
        """SELECT SUBSTRING(c_phone, 1, 2) AS cntrycode, COUNT(*) AS numcust,
        SUM(c_acctbal) AS totacctbal FROM customer
        WHERE SUBSTRING(c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17')
        AND c_acctbal > 5000 AND NOT EXISTS (SELECT * FROM orders WHERE o_custkey = c_custkey)
        GROUP BY 1 ORDER BY cntrycode""",
    ),
}


def made(scale: float, folder: Path) -> duckdb.DuckDBPyConnection:
    """Return a database with the tables."""
    beside = Path(sys.executable).parent / "tpchgen-cli"
    program = shutil.which("tpchgen-cli") or str(beside)
    subprocess.run(
        [program, "parquet", "-s", str(scale), f"--output-dir={folder}"],
        check=True,
        capture_output=True,
    )
    con = duckdb.connect(":memory:")
    for name in TABLES:
        con.execute(f"CREATE TABLE {name} AS SELECT * FROM '{folder}/{name}.parquet'")
    return con


def fastest(run, times: int = 3) -> tuple[float, object]:
    """Return the least time of several runs, and what the last returned."""
    spent = []
    for _ in range(times):
        start = time.perf_counter()
        found = run()
        spent.append(time.perf_counter() - start)
    return min(spent), found


def compared(con, query: str, answer) -> tuple[str, str]:
    """Return the median relative error of cells, and how many keys were found."""
    found = con.execute(query)
    names = [one[0].lower() for one in found.description]
    true = found.fetchall()
    columns = [i for i, name in enumerate(answer.columns) if name.lower() in names]
    rows = [tuple(row[i] for i in columns) for row in answer.fetchall()]
    plain = {i for i, name in enumerate(answer.columns) if f"{name}_low" not in answer.columns}
    keys = [k for k, i in enumerate(columns) if i in plain]
    by_key = {tuple(str(row[k]) for k in keys): row for row in rows}
    errors = []
    for row in true:
        mine = by_key.get(tuple(_text(row[k]) for k in keys))
        for k in range(len(columns)):
            if mine is not None and k not in keys and row[k] and mine[k] is not None:
                errors.append(abs(float(mine[k]) - float(row[k])) / abs(float(row[k])))
    error = f"{statistics.median(errors):.1%}" if errors else "–"
    return error, f"{len(rows)} of {len(true)}"


def _text(value: object) -> str:
    return str(value)


def line(number: int, con, db, epsilon: float) -> tuple[str, float | None]:
    """Return a line of the table, and the ratio of times."""
    what, query, parameters = "answered", QUERIES[number], {"epsilon": epsilon, "delta": 1e-6}
    reason = ""
    try:
        db.explain(query)
    except QueryRefusedError as error:
        reason = str(error).split(": ", 1)[-1].partition(". ")[0]
        if number not in VARIANTS:
            return f"| {number} | refused: {reason} | | | | |", None
        what, query = f"variant: {VARIANTS[number][0]}", VARIANTS[number][1]
    plain, _ = fastest(lambda: con.execute(query).fetchall())
    private, answer = fastest(lambda: db.sql(query, **parameters), 2)
    if answer.privacy_ is None and not answer.subqueries:
        return f"| {number} | public | exact | | {plain:.2f} | {private:.2f} |", None
    error, keys = compared(con, query, answer)
    if keys.startswith("0 of"):
        what = f"{what}; no key has enough customers"
    text = f"| {number} | {what} | {error} | {keys} | {plain:.2f} | {private:.2f} |"
    return text, private / plain


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--epsilon", type=float, default=1.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        con = made(given.scale, Path(folder))
    budget = PrivacyBudget(10**6, 0.5, adjacency="add_or_remove_one", unit="c_custkey")
    db = PrivateDatabase(con, tables=DECLARED, budget=budget)
    lines, ratios = [], []
    for number in QUERIES:
        text, ratio = line(number, con, db, given.epsilon)
        print(text, flush=True)
        lines.append(text)
        ratios += [] if ratio is None else [ratio]
    head = (
        f"TPC-H at scale {given.scale:g}, customers as units, ε = {given.epsilon:g} and δ = 1e-6 a "
        f"query, everything else by default; {datetime.date.today()}, DuckDB "
        f"{duckdb.__version__}. {len(ratios)} of the 19 queries that touch private tables are "
        f"answered, some as variants. The median time is {statistics.median(ratios):.1f} times "
        "that of plain DuckDB.\n\n"
        "| query | what | median error of a cell | keys found | plain, s | private, s |\n"
        "|---|---|---|---|---|---|\n"
    )
    (RESULTS / "tpch.inc").write_text(head + "\n".join(lines) + "\n")
    print(head)


if __name__ == "__main__":
    main()
