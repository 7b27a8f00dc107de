"""One table of what parameters may be: the sets, the alternatives, the wording of refusals."""

from __future__ import annotations

import inspect
from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import skdp
from skdp.base import PrivateMixin
from skdp.parameters import FLAG, FRACTION, STEP, Integers, Reals, check_parameter
from tests.folding import each

INT, AUTO = "x must be an integer of at least 1", "x must be 'auto' or an integer of at least 1"


@each(
    ("value", "allowed", "wanted"),
    [
        (3, (Integers(1, 3),), 3),
        (np.int8(1), (None, Integers(1)), 1),
        (None, (None, Integers(1)), None),
        (-1, (Integers(1), Integers(high=-1)), -1),
        ("auto", ("auto", Integers(1)), "auto"),
        (1, (Reals(0, 1),), 1.0),
        (Fraction(1, 4), (FRACTION,), 0.25),
        (np.float32(0.5), STEP, 0.5),
        (np.True_, (FLAG,), True),
        (7, (lambda value, name: (name, value),), ("x", 7)),
    ],
)
def test_what_is_allowed_is_returned_as_a_python_number(value, allowed, wanted):
    found = check_parameter(value, "x", *allowed)
    assert found == wanted
    assert type(found) is type(wanted)


@each(
    ("value", "allowed", "error", "text"),
    [
        (0, (Integers(1, 3),), ValueError, INT + " and at most 3, got 0"),
        (True, (Integers(1),), TypeError, INT + ", got bool"),
        (2.0, ("auto", Integers(1)), TypeError, AUTO + ", got float"),
        ("all", ("auto", Integers(1)), ValueError, AUTO + ", got 'all'"),
        ("all", (Integers(1),), TypeError, INT + ", got str"),
        (None, ("a", "b", "c"), ValueError, "x must be 'a', 'b' or 'c', got None"),
        (0, (FRACTION,), ValueError, r"x must be a number in (0, 1), got 0"),
        (1, (FRACTION,), ValueError, r"x must be a number in (0, 1), got 1"),
        (float("nan"), (Reals(0, 1),), ValueError, "x must be a number in [0, 1], got nan"),
        (10**400, STEP, ValueError, "x must be None or a number in (0, inf), got int"),
        (np.inf, STEP, ValueError, "x must be None or a number in (0, inf), got inf"),
        (np.True_, (Reals(0, 1),), TypeError, "x must be a number in [0, 1], got bool"),
        (1j, (Reals(0, 1),), TypeError, "x must be a number in [0, 1], got complex"),
        (1, (FLAG,), TypeError, "x must be True or False, got int"),
    ],
)  # fmt: skip
def test_what_is_refused_is_told_in_one_wording(value, allowed, error, text):
    with pytest.raises(error) as caught:
        check_parameter(value, "x", *allowed)
    assert str(caught.value) == text


PUBLIC = [getattr(skdp, name) for name in skdp.__all__]
ESTIMATORS = [
    kind
    for kind in PUBLIC
    if inspect.isclass(kind) and issubclass(kind, PrivateMixin) and issubclass(kind, BaseEstimator)
]


@each("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_tables_name_parameters_that_are_there_and_take_their_defaults(kind):
    defaults = inspect.signature(kind).parameters
    assert ESTIMATORS
    tables = [vars(one).get("_parameter_table", {}) for one in kind.__mro__]
    for name, allowed in (item for table in tables for item in table.items()):
        default = defaults[name].default
        if default is not inspect.Parameter.empty:
            check_parameter(default, name, *(allowed if isinstance(allowed, tuple) else (allowed,)))
