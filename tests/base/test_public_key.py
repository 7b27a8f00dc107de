"""Keys of seeded noise: stable where nothing public changed, different where something did."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression

from skdp import DPKMeans, PrivacyBudget
from skdp.base.context import public_key
from skdp.synthetic import Domain, conjunctions
from tests.folding import each


class Early(BaseEstimator):
    def __init__(self, size=2, *, budget=None, random_state=None):
        self.size, self.budget, self.random_state = size, budget, random_state


class Late(BaseEstimator):
    def __init__(self, size=2, *, shape="round", budget=None, random_state=None):
        self.size, self.shape, self.budget, self.random_state = size, shape, budget, random_state


Late.__name__ = "Early"


def test_a_new_parameter_a_moved_class_a_budget_and_a_seed_change_no_key():
    key = public_key(Early(3))
    assert public_key(Late(3)) == key != public_key(Late(3, shape="square"))
    assert public_key(Early(3, budget=PrivacyBudget(1.0), random_state=4)) == key
    Early.__module__ = "elsewhere"
    assert public_key(Early(3)) == key


@each(
    ("one", "other"),
    [
        (1, True),
        (1, 1.0),
        ("1", 1),
        ((1, 2), [1, 2]),
        ((1, (2,)), ((1, 2),)),
        (np.zeros(2), np.zeros((2, 1))),
        (np.zeros(2), np.zeros(2, dtype=np.float32)),
        (np.array(["ab", "c"], dtype=object), np.array(["a", "bc"], dtype=object)),
        ({"a": 1}, {"a": 2}),
        (("ab", "c"), ("a", "bc")),
        (pd.DataFrame({"a": [1]}), pd.DataFrame({"b": [1]})),
        (LogisticRegression(C=2), LogisticRegression()),
        (DPKMeans(2, bounds=(0, 1)), DPKMeans(2, bounds=(0, 2))),
        (conjunctions(1), conjunctions(2)),
        (Domain({"a": ["x", "y"]}), Domain({"a": ["x", "z"]})),
        (partial(max, 1), partial(max, 2)),
    ],
)
def test_what_differs_has_another_key(one, other):
    assert public_key(one) != public_key(other)
    assert public_key(one) == public_key(one)


def test_what_is_fitted_counts_where_it_is_asked_for():
    one, other = LogisticRegression(), LogisticRegression()
    one.coef_, other.coef_ = np.ones(2), np.zeros(2)
    assert public_key(one) == public_key(other)
    assert public_key(one, fitted=True) != public_key(other, fitted=True)
