"""Every estimator: with columns, `check_pipeline` finds something where the fit is refused."""

from __future__ import annotations

import inspect
import warnings
import zlib

import numpy as np
import pytest
from cases import rows
from estimators import CASES
from odd import VALUES, limited
from odd_subjects import OF_BASES, N, public_class
from test_odd_parameters import COSTLY

from skdp import PrivacyBudget, check_pipeline

PART = 40  # of all odd values, one of so many
LARGE = ("long range", "million")  # copies of them take long
NOT_TRIED = {"budget", "random_state", "n_jobs"}


def privacy():
    budget = PrivacyBudget(1e6, 0.5)
    return budget, {"epsilon": 1.0, "delta": 1e-5, "budget": budget, "random_state": None}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_finding_where_fit_is_refused_and_none_elsewhere(case):
    made = case.make(**privacy()[1])
    if isinstance(made, OF_BASES) or "sample_weight" in inspect.getsource(type(made).fit)[:400]:
        pytest.skip("its fit is that of the tests")
    base = public_class(made)
    X, y = case.table(rows(N, case.n_features, 0))
    labels = {} if y is None else {"y": np.asarray(y)}
    tries = [("epsilon", lambda: 1.0)]
    for name in set(made.get_params(deep=False)) - NOT_TRIED:
        for value, of in VALUES.items():
            chosen = zlib.crc32(f"{case.name} {name} {value}".encode()) % PART == 0
            if chosen and value not in LARGE and (base.__name__, name, value) not in COSTLY:
                tries.append((name, of))
    for name, of in tries:
        _, options = privacy()
        error = None
        with limited(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                base.fit(case.make(**options).set_params(**{name: of()}), X, **labels)
            except (TypeError, ValueError) as refusal:
                error = refusal
            budget, options = privacy()
            tried = case.make(**options).set_params(**{name: of()})
            empty = {key: column[:0] for key, column in labels.items()}
            found = check_pipeline(tried, X[:0], **empty, n_rows=N)
        found = [one for one in found if one.severity == "high"]
        assert bool(found) == (error is not None), (name, of(), error, found)
        assert not budget.charges
