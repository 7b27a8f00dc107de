"""The integer functions of the Coq proofs are those of the package, on every point of a domain.

`proofs/table.txt` holds values that Coq computed from the very definitions that its theorems are
about (`proofs/coq/Table.v`). Here the shipped functions are called with the same arguments.
"""

from __future__ import annotations

import ast
import itertools
import re
from pathlib import Path

import numpy as np
import pytest

from skdp.core.clipping import isqrt_up
from skdp.core.mechanisms import Independent, after_shortening, shortened
from skdp.core.query import Query, moved_by
from skdp.core.table import REPLACE_ONE, Stability

ABOUT = (
    "proofs/table.txt",
    "skdp/core/clipping.py",
    "skdp/core/mechanisms.py",
    "skdp/core/query.py",
)
NEEDS = ()
TABLE = Path(__file__).resolve().parents[2] / "proofs" / "table.txt"


@pytest.fixture(scope="module")
def coq():
    """Return the four lists of `proofs/coq/Table.v`, in their order."""
    text = TABLE.read_text(encoding="utf-8")
    lists = re.findall(r"=\s*(\[.*?\])\s*:\s*list", text, re.DOTALL)
    assert len(lists) == 4
    return [ast.literal_eval(one.replace(";", ",").replace("\n", " ")) for one in lists]


def test_square_roots_rounded_up(coq, record_property):
    """`isqrt_up` for 0 to 1100."""
    assert [isqrt_up(value) for value in range(len(coq[0]))] == coq[0]
    assert len(coq[0]) == 1101
    record_property("values", len(coq[0]))


def test_shortened_statistics(coq, record_property):
    """`shortened` for -70 to 70, `after_shortening` for sensitivities of 1 to 131; 1 to 6 bits.

    Statistics are int64 and Python integers; rounding may move them by 3 steps.
    """
    values = np.arange(-70, 71)
    for bits, statistics, sizes in zip(range(1, 7), coq[1], coq[2], strict=True):
        for dtype in (np.int64, object):
            assert shortened(values.astype(dtype), bits).tolist() == statistics
        assert [after_shortening(size, bits, 3) for size in range(1, 132)] == sizes
    record_property("values", 2 * sum(map(len, coq[1])) + sum(map(len, coq[2])))


def test_sensitivities_of_a_stability(coq, record_property):
    """`moved_by` for sensitivities and numbers of changed rows from 0 to 4 (one at least)."""

    class Stated(Query):
        """A query with the sensitivities that stand in its attributes."""

        def __init__(self, replaced, added):
            self.replaced, self.added = replaced, added

        def sensitivity(self, relation):
            size = self.replaced if relation == REPLACE_ONE else self.added
            return Independent(size, size**2)

    n_values = 0
    points = itertools.product(range(5), repeat=4)
    for (replacements, additions, replaced, added), proved in zip(points, coq[3], strict=True):
        if replacements + additions == 0:
            continue  # no stability
        size = moved_by(Stated, Stated(replaced, added), Stability(replacements, additions))
        assert (size.l1, size.l2_squared) == (proved, proved**2)
        n_values += 1
    record_property("values", n_values)
