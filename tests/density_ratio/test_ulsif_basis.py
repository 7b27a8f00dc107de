"""DPuLSIF with a basis of the user's: mapped row by row, and what it may see and keep."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import make_column_transformer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    OneHotEncoder,
    PolynomialFeatures,
    SplineTransformer,
)

from skdp import DPuLSIF, PrivacyBudget
from skdp.core.transcript import record, replay
from skdp.density_ratio import stack_samples
from skdp.density_ratio._ulsif import is_elementwise
from tests.density_ratio.shifted import samples
from tests.folding import each

# --- a basis ---------------------------------------------------------------------------------


def test_a_basis_of_any_transformer_is_mapped_row_by_row_and_fails_row_by_row():
    public, private, X, y = samples(n=300)

    def fragile(table):
        table = np.asarray(table)
        if len(table) == 1 and table[0, 0] > 1.0:
            raise ValueError("a private cell")
        return np.column_stack([table[:, 0] > 0, table[:, 1] > 0]).astype(float)

    basis = FunctionTransformer(fragile)
    ratio = DPuLSIF(basis=basis, basis_bounds=(0, 1), epsilon=1e6, random_state=0)
    with record() as transcript:
        ratio.fit(X, y)
    good = private[:, 0] <= 1.0
    expected = np.where(good, private[:, 1] > 0, 0.5).mean() - 0.5
    view = transcript.entries[-1].exact
    assert view[1] / 2.0**32 / 300 == pytest.approx(expected, abs=1e-8)


def test_basis_with_names_in_a_pipeline_of_columns():
    from sklearn.compose import make_column_transformer

    public, private, _, _ = samples(n=500)
    frame = {"private": private, "public": public}
    X, y = stack_samples(**{k: pd.DataFrame(v, columns=["a", "b"]) for k, v in frame.items()})
    basis = make_column_transformer(
        (KBinsDiscretizer(3), ["a"]), (SplineTransformer(4), ["b"]), sparse_threshold=0
    )
    ratio = DPuLSIF(basis=basis, basis_bounds=(0, 1), epsilon=5.0, random_state=0).fit(X, y)
    assert list(ratio.feature_names_in_) == ["a", "b"]
    assert ratio.centers_ is None
    assert ratio.gamma_ is None
    assert ratio.predict(X[y == 0]).shape == (200,)


def test_basis_is_fitted_on_public_rows_only():
    public, private, X, y = samples(n=500)
    ratio = DPuLSIF(basis=KBinsDiscretizer(3), basis_bounds=(0, 1), random_state=0).fit(X, y)
    edges = KBinsDiscretizer(3).fit(public).bin_edges_
    for found, expected in zip(ratio._features.transformer.bin_edges_, edges, strict=True):
        np.testing.assert_array_equal(found, expected)


@each(
    "basis",
    [
        PolynomialFeatures(3),
        SplineTransformer(5, extrapolation="continue"),
        SplineTransformer(5, extrapolation="periodic"),
        KBinsDiscretizer(4),
        KBinsDiscretizer(4, encode="ordinal"),
        OneHotEncoder(handle_unknown="ignore"),
    ],
    ids=str,
)
def test_transformers_that_are_mapped_in_blocks_give_a_row_the_same_bits_alone(basis):
    """What `_ELEMENTWISE` rests on: blocks of any length and order, to the last bit."""
    rng = np.random.default_rng(0)
    public = rng.normal(size=(100, 3)).round(0 if isinstance(basis, OneHotEncoder) else 9)
    rows = rng.normal(size=(257, 3)) * 3
    basis.fit(public)

    def outputs(part):
        made = basis.transform(part)
        return np.asarray(made.toarray() if hasattr(made, "toarray") else made)

    whole = outputs(rows)
    alone = np.vstack([outputs(rows[i : i + 1]) for i in range(257)])
    assert np.array_equal(whole, alone)
    order = rng.permutation(257)
    assert np.array_equal(outputs(rows[order]), whole[order])
    assert np.array_equal(outputs(rows[3:20]), whole[3:20])


# --- a basis is the user's code: it must not remember, nor see more than it may ---------------


class Remembering(TransformerMixin, BaseEstimator):
    """Keeps the rows that it transforms, writes into them, and counts its calls."""

    def fit(self, X, y=None):
        self.kept_ = [X]
        return self

    def transform(self, X):
        self.kept_.append(X.copy())
        made = np.column_stack([X[:, 0] > 0, np.full(len(X), len(self.kept_) % 2)]).astype(float)
        X[:] = 777.0
        return made


def test_a_basis_that_remembers_keeps_no_private_row_and_moves_no_other():
    """Contiguous samples, too: the public part of a table must not be a view of all of it."""
    public, private, _, _ = samples(n=200)
    X = np.vstack([private, public])
    y = np.r_[np.ones(200), np.zeros(200)]
    before = X.copy()
    exact = []
    for changed in (False, True):
        table = X.copy()
        table[0] += 5.0 * changed
        ratio = DPuLSIF(basis=Remembering(), basis_bounds=(0, 1), epsilon=9.0, random_state=0)
        with record() as transcript:
            ratio.fit(table, y)
        exact.append((transcript.entries[-1].exact, transcript.entries[-1].sensitivity))
        pickled = pickle.dumps(ratio)
        assert not any(row.tobytes() in pickled for row in private)
        assert all(len(kept) == 200 for kept in ratio._features.transformer.kept_)
    assert np.array_equal(X, before)
    (first, sensitivity), (second, _) = exact
    assert np.linalg.norm((first - second).astype(float)) <= sensitivity


def test_a_basis_with_a_generator_of_its_own_moves_by_one_row_only():
    """A transformer that draws as it transforms would shift the draws of all rows after a gap."""
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    def hide(X):
        return np.where(X > 1.0, np.nan, X)

    public, private, _, _ = samples(n=60, N=60)
    basis = make_pipeline(
        FunctionTransformer(hide),
        IterativeImputer(sample_posterior=True, random_state=0, max_iter=1),
    )
    tables = [private, np.vstack([[[5.0, 0.0]], private[1:]])]
    entries = []
    for table in tables:
        X, y = stack_samples(private=table, public=public)
        with record() as transcript:
            DPuLSIF(basis=basis, basis_bounds=(-1, 1), random_state=0).fit(X, y)
        entries.append(transcript.entries[-1])
    distance = entries[0].distance(entries[0].exact, entries[1].exact)
    assert distance <= entries[0].sensitivity


@pytest.mark.parametrize("kind", ["list", "categorical", "index", "dtype"])
def test_types_of_the_table_that_private_rows_decide_do_not_reach_the_basis(kind):
    """Replay: the fitted attributes are the same whatever the private rows are."""

    def frames(values):
        frame = pd.DataFrame({"c": values})
        if kind == "list":
            return [[v] for v in values]
        if kind == "categorical":
            return frame.astype("category")
        if kind == "index":
            frame.index = np.arange(len(frame)) + int(values[0])
        return frame

    def widths(X):
        names = pd.get_dummies(X, columns=["c"]).columns if hasattr(X, "columns") else [0]
        return np.full((len(X), 2), float(len(names) + str(getattr(X, "dtype", "")).count("int")))

    y = np.r_[1, np.zeros(6)]
    tables = [frames([v, 0, 1, 2, 0, 1, 2]) for v in (1, 2.5 if kind != "categorical" else 7)]
    basis = make_pipeline(FunctionTransformer(widths))
    fits = []
    with record() as transcript:
        fits.append(DPuLSIF(basis=basis, basis_bounds=(0, 9), random_state=0).fit(tables[0], y))
    with replay(transcript):
        fits.append(DPuLSIF(basis=basis, basis_bounds=(0, 9), random_state=0).fit(tables[1], y))
    assert np.array_equal(fits[0].coef_, fits[1].coef_)


def test_rows_that_a_basis_fails_on_are_alike_in_both_samples_and_in_predict():
    """Two samples of one distribution, where the logarithm of some rows is not finite."""
    values = np.tile([0.0, np.e], 300)[:, None]
    X, y = stack_samples(private=np.repeat(values, 10, axis=0), public=values)
    ratio = DPuLSIF(
        basis=FunctionTransformer(np.log), basis_bounds=(-2, 2), epsilon=1e4, alpha=1e-4,
        random_state=0,
    ).fit(X, y)  # fmt: skip
    np.testing.assert_allclose(ratio.predict(values), 1.0, atol=0.02)
    strict = DPuLSIF(basis=OneHotEncoder(), basis_bounds=(0, 1), random_state=0).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(strict.predict([[777.125], [0.0]])).all()
        assert np.isfinite(strict.score([[777.125], [0.0], [np.e]], [1, 0, 0]))


def test_a_basis_that_spends_a_budget_or_cannot_be_copied_is_refused():
    from skdp import DPStandardScaler

    class Locked(FunctionTransformer):
        def __reduce__(self):
            raise RuntimeError("no copies")

        def __deepcopy__(self, memo):
            raise RuntimeError("no copies")

        def __sklearn_clone__(self):
            return self

    _, _, X, y = samples(n=100)
    ledger = PrivacyBudget(10.0)
    private = DPStandardScaler(bounds=(-3, 3), budget=ledger)
    for basis in (private, make_pipeline(private)):
        with pytest.raises(ValueError, match="spends no privacy budget"):
            DPuLSIF(basis=basis, basis_bounds=(-3, 3), budget=ledger).fit(X, y)
    with pytest.raises(TypeError, match="can be pickled or copied"):
        DPuLSIF(basis=Locked(), basis_bounds=(-3, 3), budget=ledger).fit(X, y)
    assert not ledger.charges


@pytest.mark.parametrize("make", [make_pipeline, FeatureUnion])
def test_compositions_of_elementwise_transformers_are_mapped_in_blocks(make):
    steps = [SplineTransformer(4), PolynomialFeatures(2)]
    basis = make(*steps) if make is make_pipeline else make([("a", steps[0]), ("b", steps[1])])
    assert is_elementwise(basis)
    assert not is_elementwise(make_pipeline(SplineTransformer(), FunctionTransformer()))
    assert is_elementwise(make_column_transformer((SplineTransformer(), [0]), remainder="drop"))
