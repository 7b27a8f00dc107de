"""`check_pipeline` with columns: it finds what a fit refuses, all at once, and nothing else."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skdp import DPPCA, DPKMeans, DPStandardScaler, PrivacyBudget, check_pipeline, statistics
from skdp.impute import DPSimpleImputer
from skdp.linear_model import DPLogisticRegression, DPRidge
from skdp.model_selection import DPGridSearchCV, private_scorer
from skdp.naive_bayes import DPGaussianNB
from skdp.preprocessing import DPOneHotEncoder

N = 60
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {"age": RNG.uniform(20, 80, N), "pay": RNG.normal(size=N), "city": ["Bern", "Rom"] * (N // 2)}
)
NUMBERS = TABLE[["age", "pay"]]
Y = pd.Series(np.where(TABLE["age"] > 50, "old", "young"), name="y")
AGES = {"age": (0, 100), "pay": (-4, 4)}


def budget(epsilon=100.0, delta=1e-5, **terms):
    return PrivacyBudget(epsilon, delta, **terms)


def mixed(ledger, **encoder):
    encode = DPOneHotEncoder(budget=ledger, **encoder)
    scale = DPStandardScaler(bounds=AGES, budget=ledger)
    columns = [("numbers", scale, ["age", "pay"]), ("text", encode, ["city"])]
    return ColumnTransformer(columns, sparse_threshold=0)


# What fit refuses: (estimator of a budget, table, y), and a word of the finding.
WRONG = {
    "text and no delta": (lambda b: mixed(b, delta=0.0), TABLE, None, "delta"),
    "a column that is not there": (
        lambda b: DPStandardScaler(bounds={"ag": (0, 1)}, budget=b), NUMBERS, None, "ag",
    ),
    "too few columns in bounds": (
        lambda b: DPKMeans(2, bounds=([0] * 3, [1] * 3), budget=b), NUMBERS, None, "bounds",
    ),
    "numbers wanted": (lambda b: DPKMeans(2, bounds=(0, 1), budget=b), TABLE, None, "city"),
    "dates": (
        lambda b: DPStandardScaler(bounds=(0, 1), budget=b),
        NUMBERS.assign(day=pd.Timestamp("2020-01-01")), None, "dates",
    ),
    "a name twice": (
        lambda b: DPStandardScaler(bounds=AGES, budget=b),
        NUMBERS.set_axis(["age", "age"], axis=1), None, "same name",
    ),
    "an epsilon of 0": (lambda b: DPRidge(epsilon=0, budget=b), NUMBERS, TABLE["pay"], "epsilon"),
    "too many components": (lambda b: DPPCA(5, budget=b), NUMBERS, None, "n_components"),
    "too large an epsilon": (
        lambda b: DPStandardScaler(bounds=AGES, epsilon=101.0, budget=b), NUMBERS, None, "epsilon",
    ),
    "together too much": (
        lambda b: make_pipeline(
            DPStandardScaler(bounds=AGES, epsilon=60.0, budget=b),
            DPKMeans(2, bounds=(-3, 3), epsilon=60.0, budget=b),
        ),
        NUMBERS, None, "epsilon=120",
    ),
    "names that a step loses": (
        lambda b: make_pipeline(
            DPStandardScaler(bounds=AGES, budget=b), DPKMeans(2, bounds=AGES, budget=b)
        ),
        NUMBERS, None, "bounds",
    ),
    "no classes": (
        lambda b: DPLogisticRegression(delta=0.0, budget=b), NUMBERS, Y, "classes",
    ),
    "a column that no step has": (
        lambda b: ColumnTransformer([("a", DPStandardScaler(budget=b), ["height"])]),
        NUMBERS, None, "height",
    ),
    "a constant for text": (
        lambda b: DPSimpleImputer(bounds=AGES, budget=b), TABLE, None, "city",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_fit_refuses_is_found_before(name):
    make, table, y, word = WRONG[name]
    ledger = budget()
    found = check_pipeline(
        make(ledger), table.iloc[:0], None if y is None else y.iloc[:0], n_rows=N
    )
    assert any(one.severity == "high" and word in one.what for one in found), found
    assert not ledger.charges
    with pytest.raises(Exception, match=r"."):
        make(ledger).fit(table, y)


RIGHT = {
    "mixed": (lambda b: make_pipeline(mixed(b), DPGaussianNB(budget=b)), TABLE, Y),
    "names that are kept": (
        lambda b: make_pipeline(
            DPStandardScaler(bounds=AGES, budget=b).set_output(transform="pandas"),
            DPKMeans(2, bounds=AGES, budget=b),
        ),
        NUMBERS, None,
    ),
    "functions": (
        lambda b: make_pipeline(
            FunctionTransformer(np.exp), FeatureUnion([("a", DPPCA(1, budget=b))]),
            DPRidge(budget=b),
        ),
        NUMBERS, TABLE["pay"],
    ),
    "a private search": (
        lambda b: DPGridSearchCV(
            DPKMeans(2, bounds=(-3, 3), budget=b), {"n_clusters": [2, 3]},
            scoring=private_scorer("neg_inertia", epsilon=1.0, bounds=10.0, budget=b), budget=b,
        ),
        NUMBERS, None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_where_nothing_is_found_the_fit_is_accepted(name):
    make, table, y = RIGHT[name]
    ledger = budget()
    found = check_pipeline(
        make(ledger), table.iloc[:0], None if y is None else y.iloc[:0], n_rows=N
    )
    assert not [one for one in found if "function" not in one.what], found
    assert not ledger.charges
    make(ledger).fit(table, y)


def test_all_steps_are_told_at_once():
    ledger = budget(1.0)
    steps = [
        ("text", DPOneHotEncoder(delta=0.0, budget=ledger), ["city"]),
        ("numbers", DPStandardScaler(bounds={"ag": (0, 1)}, budget=ledger), ["age"]),
        ("open", StandardScaler(), ["pay"]),
    ]
    pipe = make_pipeline(ColumnTransformer(steps), DPKMeans(2, epsilon=-1.0, budget=ledger))
    text = repr(check_pipeline(pipe, TABLE.iloc[:0]))
    for word in ("categories", "'ag'", "StandardScaler", "epsilon must be"):
        assert word in text


def test_units_and_other_containers():
    ledger = budget(unit="patient")
    ids = pd.Series(np.arange(N) // 2, name="patient")
    scaler = DPStandardScaler(bounds=AGES, budget=ledger)
    assert not check_pipeline(scaler, NUMBERS.iloc[:0], groups=ids.iloc[:0])
    for groups in (None, ids.iloc[:0].rename("person")):
        assert "patient" in repr(check_pipeline(scaler, NUMBERS.iloc[:0], groups=groups))
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = make_pipeline(DPKMeans(2, bounds=(0, 9), budget=ledger).set_fit_request(groups=True))
        assert not check_pipeline(pipe, NUMBERS.iloc[:0], groups=ids.iloc[:0])
    polars, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    tables = (
        polars.from_pandas(TABLE)[:0], pa.Table.from_pandas(TABLE)[:0], NUMBERS.to_numpy()[:0],
    )  # fmt: skip
    for table, wrong in zip(tables, (True, True, False), strict=True):
        found = check_pipeline(DPKMeans(2, bounds=(0, 9), budget=budget()), table)
        assert bool(found) == wrong, found
    with pytest.raises(ValueError, match="X must be given"):
        check_pipeline(scaler, n_rows=3)
    with pytest.raises(TypeError, match="X must be a table"):
        check_pipeline(scaler, [[1.0]])


def test_nothing_is_charged_whatever_a_step_does():
    ledger = budget()

    def asks(X):
        statistics.mean(X, bounds=(0, 1), budget=ledger)
        return X

    with ledger:
        found = check_pipeline(make_pipeline(FunctionTransformer(asks), DPKMeans(2)), NUMBERS)
    assert "a dry run charges no ledger" in repr(found) and not ledger.charges
