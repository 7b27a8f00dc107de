"""Quantiles of a session, and their scores and probabilities in the plainest way."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from skdp import core
from skdp.budget.budget import StandInBudget
from skdp.queries import Quantiles, ranked_columns
from skdp.tabular import check_rows
from tests.views import box_of

A = "add_or_remove_one"

# The table of the literature: one zero more or less makes the median another value.
PAIR = np.array([0.0, 0, 0, 1, 1, 1, 1]), np.array([0.0, 0, 0, 0, 1, 1, 1])


def open_session(x, adjacency="replace_one", *, epsilon=1.0, delta=0.0, **options):
    x = np.asarray(x, dtype=np.float64)
    rows = check_rows(x[:, None] if x.ndim == 1 else x, estimator="T", allow_empty=True)
    budget = None
    if adjacency == A:
        budget = StandInBudget(A)
    return core.open_session(
        rows, estimator="T", epsilon=epsilon, delta=delta, budget=budget, **options
    )


def ask(session, levels, low=0.0, high=6.0, *, share=None, **options):
    view = box_of(session, low, high, per_feature=True)
    return session.answer(Quantiles(view, levels, **options), share).value


def oracle_scores(values, candidates, level, n):
    """Return the distance of q n to the ranks of each candidate, one candidate at a time."""
    target = level * n
    scores = []
    for c in candidates:
        low, high = sum(v < c for v in values), sum(v <= c for v in values)
        scores.append(max(low - target, target - high, Fraction(0)))
    return scores


def score_runs(ordered, low, high, level):
    """Score all points from low to high by the sorted values of a part, all within.

    The score of a point is the integer b times the distance of q n, q = a/b, to [values below,
    values below or equal].
    """
    n = ordered.size
    first = np.flatnonzero(np.append(n > 0, ordered[1:] != ordered[:-1]))
    return ranked_columns.Part(ordered[first], np.append(first, n), n, low, high, level).runs()


def spread(numbers):
    """Sort a column and spread the rows of one point over its 2**16 places, nearly evenly.

    The j-th row of a point (j = 1, 2, ...) has place reverse(j): 1/2, 1/4, 3/4, 1/8, ... of the
    way. Returns the sorted point * 2**16 + place. Guarantee: a function of the multiset of values;
    a row more in the column is a row more at one place, and moves no other.
    """
    ordered = np.sort(numbers)
    if not ordered.size:
        return ordered
    starts = np.concatenate([[0], np.flatnonzero(ordered[1:] != ordered[:-1]) + 1])
    lengths = np.diff(np.append(starts, ordered.size))
    rank = np.arange(1, ordered.size + 1) - np.repeat(starts, lengths)
    ordered <<= ranked_columns.SPREAD_BITS
    ordered += ranked_columns.reversed_bits(rank)
    return np.sort(ordered)
