"""What tests of replays share: the check, the public rows, and a leaky fit that is found out."""

from __future__ import annotations

import numpy as np
import pytest
from cases import Case, make

from skdp.audit import replay_check

D = 3
SECRET = 0.123456789
PUBLIC = np.random.default_rng(7).normal(size=(5, D))


def check_replay(estimator, case, private, replaced, **public):
    """Replace all private rows; where there are public ones too, these stay.

    Tables of two lengths have their private rows at other places: nothing may be made of these.
    """
    X, y = case.table(private)
    other, y_other = case.table(replaced, places=len(private) != len(replaced))
    replay_check(estimator, X, other, y=y, y_other=y_other, **public)


def found_in(leaky, relation="replace_one"):
    X = np.full((6, D), 0.5)
    other = np.full((6 if relation == "replace_one" else 9, D), -SECRET)
    estimator = make(Case("leaky", leaky), 0.0, relation)
    with pytest.raises(AssertionError) as caught:
        replay_check(estimator, X, other, X_public=PUBLIC)
    return caught.value
