"""What a plan may count on: allowances, their noise, numbers of rows, bounds.

An estimator plans with the same `Allowance` before a fit (`expected_error`) and in it. All noise is
that of `Allowance.query_std`: what a session would draw for a query, by the query's own
sensitivity. The session derives sensitivities and calibrates noise by itself. `row_count` and
`bounds_in` query an open session.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skdp.core import (
    Ball,
    Box,
    Mean,
    Session,
    Stability,
    Terms,
    check_allowance,
    moved_by,
)
from skdp.exceptions import warn_at_end
from skdp.loss.conversions import pure_epsilon_from_mu, pure_part
from skdp.parameters import PRIVATE, BoundsWithRisk

if TYPE_CHECKING:  # what learns bounds is imported when they are learned
    from skdp.queries import LearnedBox

__all__ = [
    "LEARNING_SHARE", "Allowance", "bounds_in", "learned_before", "pure_is_less", "row_count",
    "weight_bound_in",
]  # fmt: skip

_WEIGHT_SHARE = 0.2  # of the allowance, at most, for a bound of weights
_LEAST_WEIGHT, _LARGEST_WEIGHT = 1e-150, 1e150  # if a bound is learned
_NO_WEIGHTS = (
    "the learned bound of sample_weight is the least that there is (weight_bound_): hardly any "
    "weight is above 0. Weights below 0 count as 0; state weight_bound, or leave weights out"
)
LEARNING_SHARE = 0.5  # of the allowance, at most, for bounds that only say where rows are

_OF_LEARNING = 0.6  # of the allowance: a typical part of one count

# Largest eigenvalue of W1 - W2 over d, W_i Wishart of about d degrees of freedom and scale 1: the
# edge of the free difference of two Marchenko-Pastur laws of ratio 1. Its R-transform is
# 2 z / (1 - z**2), so the edge is the minimum over z in (0, 1) of (1 + z**2) / (z - z**3).
WISHART_EDGE = math.sqrt((11 + 5 * math.sqrt(5)) / 2)
SEMICIRCLE_EDGE = math.sqrt(8)  # of the same variance, 2 d + 2 off the diagonal
_NORM_BITS = 20  # steps of a row of norm 1, when a Gram matrix is planned


@dataclass(frozen=True)
class Allowance:
    """What releases may lose: a pure epsilon, or a mu of Gaussian differential privacy.

    - `epsilon`: Not used where there is a mu.
    - `mu`: Of releases with Gaussian noise.
    - `replaces`: With "add_or_remove_one": whether a row may be replaced, too, as where the number
      of rows is private though the caller's table has one that is public. For `query_std` alone.

    Examples
    --------
    >>> Allowance(1.0).part(0.25).level, Allowance(1.0, mu=0.5).part(0.25).level
    (0.25, 0.25)
    """

    epsilon: float
    mu: float | None = None
    adjacency: str = "replace_one"
    replaces: bool = False

    @classmethod
    def left(cls, session: Session, share: Any = None) -> Allowance:
        """Return what a release of this share may lose; None: of all that is left."""
        level, adjacency = session.level(share), session.adjacency
        return cls(level, None if session.pure else level, adjacency)

    @property
    def pure(self) -> bool:
        """Whether noise is that of pure differential privacy."""
        return self.mu is None

    @property
    def replace(self) -> bool:
        """Whether a row is replaced between neighbours: the number of rows is public."""
        return self.adjacency == "replace_one"

    @property
    def level(self) -> float:
        """Epsilon where noise is pure, mu where it is Gaussian."""
        return self.epsilon if self.mu is None else self.mu

    def part(self, share: float | Fraction) -> Allowance:
        """Return the allowance of a share: epsilons add up, squares of mu do."""
        part = float(share)
        mu = None if self.mu is None else self.mu * math.sqrt(part)
        return replace(self, epsilon=self.epsilon * part, mu=mu)

    @property
    def pure_epsilon(self) -> float:
        """The epsilon of a pure release that this covers."""
        return self.epsilon if self.mu is None else pure_epsilon_from_mu(self.mu)

    # --- standard deviations of noise -------------------------------------------------------------

    @property
    def _terms(self) -> Terms:
        stability = Stability(int(self.replace or self.replaces), int(not self.replace))
        return Terms(stability, self.pure, self.level, 1 if self.replace else None)

    def query_std(self, query: Any, unit: Callable[[Any], float] | None = None) -> float:
        """Return that of an entry of the answer, by the query's own sensitivity.

        In user units; where columns have steps of their own, in those of the widest. Of counts and
        sums released together it is that of the sums. `unit` says what a step of the prepared
        query is worth.
        """
        try:
            query = query.prepared(self._terms)
        except OverflowError:  # for a level near 0
            return math.inf
        size = moved_by(type(query), query, self._terms.stability)
        return self.std(size, query.entries) * float(query.unit if unit is None else unit(query))

    def std(self, sensitivity: Any, entries: int) -> float:
        """Return that of an entry, in steps, of as many with this sensitivity."""
        try:
            std = sensitivity.std(entries, self.level, pure=self.pure)
        except OverflowError:  # for a level near 0
            return math.inf
        return float(np.max(np.atleast_1d(std)[..., -1]))

    @property
    def cell_std(self) -> float:
        """That of a count of one of many disjoint bins."""
        from skdp.queries import Labels, row_counts

        return self.query_std(row_counts(Labels(2), "cells"))

    @property
    def cell_scale(self) -> float:
        """The scale of Laplace noise of `cell_std`, or this where noise is Gaussian."""
        return self.cell_std * (math.sqrt(0.5) if self.pure else 1.0)

    @property
    def mean_cell_noise(self) -> float:
        """The mean absolute noise of a count of one of many disjoint bins."""
        return self.cell_std * math.sqrt(0.5 if self.pure else 2 / math.pi)

    def moments_std(self, size: int) -> float:
        """Return that of a sum of values in half widths, of so many columns; squares have less."""
        from skdp.queries import moments

        return self.query_std(moments(np.full(size, -1.0), np.ones(size)))

    def variance_std(self, size: int) -> float:
        """Return that of a sum of squares, in half widths, of so many columns.

        The noise of a variance is this where the mean is in the middle of the bounds.
        """
        from skdp.queries import moments

        # Elsewhere the sum of values adds noise, of which a larger part is saved by Gaussian noise
        # than of that of squares. So where squares have less noise under Gaussian noise, variances
        # have, wherever the mean is. Measured with both moments instead (mean in the middle, 20
        # columns, epsilon .1, rows added or removed): 1.40 times the error of pure noise.
        query = moments(np.full(size, -1.0), np.ones(size))
        return self.query_std(query, lambda query: float(query.image.unit[size]))

    def box_std(self, size: int) -> float:
        """Return that of a sum of values of so many columns, in half widths of their bounds."""
        return self.query_std(Mean(Box(np.full(size, -1.0), np.ones(size), per_feature=True)))

    def ball_std(self, size: int) -> float:
        """Return that of a sum of rows of so many columns, in a ball of radius 1."""
        return self.query_std(Mean(Ball(np.zeros(size), 1.0)))

    def bins_std(self, columns: int) -> float:
        """Return that of a count of one of the bins of each of several columns."""
        from skdp.queries import ColumnCells, row_counts

        return self.query_std(row_counts(ColumnCells((np.zeros(1),) * columns), "cells"))

    def learning_std(self, columns: int) -> float:
        """Return about that of the counts from which bounds of columns are learned."""
        # Learning has several parts, and pure noise grows faster the more there are. In fits of
        # 5,000 and 20,000 rows at epsilon 0.3 and 1, errors of means were equal at 3 columns.
        return self.part(_OF_LEARNING).bins_std(columns)

    def choice_scale(self, choices: int) -> float:
        """Return how much worse than the best candidate each of several choices easily is.

        For scores that move by one.
        """
        if self.mu is None:
            return 2 / self.part(1 / choices).level
        return 1 / pure_part(self.level, choices)

    def gram_std(self, size: int) -> float:
        """Return about the largest eigenvalue of the noise on a Gram matrix; see there."""
        return self.spectral_edge(size, self.gram_noise("auto", size))

    def spectral_edge(self, size: int, noise: str) -> float:
        """Return about the largest eigenvalue of the noise on a Gram matrix of rows of norm 1.

        - `size`: Columns.
        - `noise` ({"gaussian", "wishart", "laplace"})
        """
        from skdp.queries import Symmetric

        sensitivity = Symmetric.of(2**_NORM_BITS, 0, size, self.adjacency, noise)
        std = self.std(sensitivity, size**2) * 4.0**-_NORM_BITS  # off the diagonal
        if noise == "wishart":  # of scale 1 this deviation is sqrt(2 size + 2)
            return WISHART_EDGE * size * std / math.sqrt(2 * size + 2)
        return 2 * std * math.sqrt(size)

    def gram_noise(self, noise: str, size: int) -> str:
        """Return the noise on a Gram matrix: for ``"auto"`` that of the smaller edge."""
        if noise != "auto":
            return noise
        choices = ["wishart"] if self.pure else ["gaussian", "wishart"]
        return min(choices, key=lambda name: self.spectral_edge(size, name))


def pure_is_less(
    epsilon: float,
    delta: float,
    budget: Any,
    noise: Callable[[Allowance], float],
    adjacency: str | None = None,
    *,
    replaces: bool = False,
) -> bool:
    """Say whether a call draws pure noise, though it may use delta: where this is no more noise.

    The one rule of all calls, decided before the charge by public facts. An accountant other than
    "basic" adds up Gaussian noise, and pure noise of the same size costs it several times as much
    (mu = 1.23 instead of .237 at (1, 1e-6)): there noise stays Gaussian.

    - `epsilon`, `delta`: Of all noise of the call, without what learning keys or classes takes of
      delta.
    - `noise`: The deviation of the noise on what the call is for, under an allowance.
    - `adjacency`: Of the rows that the noise is for; None: that of the budget.
    - `replaces`: As of `Allowance`.
    """
    if delta == 0:
        return True
    if budget is not None and budget.accountant != "basic":
        return False
    if adjacency is None:
        adjacency = "replace_one" if budget is None else budget.adjacency
    pure = Allowance(epsilon, None, adjacency, replaces)
    gaussian = Allowance(epsilon, check_allowance(epsilon, delta), adjacency, replaces)
    try:
        return noise(pure) <= noise(gaussian)
    except (ArithmeticError, ValueError):  # of an epsilon or a number of columns that is refused
        return False


def row_count(session: Session, share: Any, learned: LearnedBox | None = None) -> float:
    """Return the number of rows, at least 1: public, known with learned bounds, or released."""
    if session.adjacency != "replace_one" and learned is not None:
        return learned.n
    return max(1.0, float(session.row_count(share).value))


def learned_before(bounds: tuple[Any, Any]) -> LearnedBox | None:
    """Return what an earlier call learned of these bounds, as `BoundsWithRisk` has it, or None."""
    if not isinstance(bounds, BoundsWithRisk):
        return None
    from skdp.queries import joined_box

    return joined_box(bounds.learned, *map(np.atleast_1d, bounds))


def weight_bound_in(session: Session, stated: Any, column: int | None = None) -> float | None:
    """Return the stated bound of weights, or learn it if that is "private"; None without weights.

    - `column`: That of the weights, if they are one.
    """
    if stated != PRIVATE:
        return None if stated is None else float(stated)
    from skdp.queries import LearnedBounds, OfColumn

    learning = LearnedBounds(audit=False)
    weights = ("weights", None) if column is None else (column, column + 1)
    query = OfColumn(weights[0], learning, weights[1])
    box = session.answer(query, _WEIGHT_SHARE)
    bound = float(np.clip(box.high[0], _LEAST_WEIGHT, _LARGEST_WEIGHT))
    if bound == _LEAST_WEIGHT:  # released, so that a warning reveals nothing more
        warn_at_end(_NO_WEIGHTS)
    return bound


def bounds_in(
    session: Session,
    stated: tuple[NDArray[np.float64], NDArray[np.float64]] | None,
    *,
    errors: bool = False,
    share: Any = None,
    **options: Any,
) -> tuple[tuple[NDArray[np.float64], NDArray[np.float64]], LearnedBox | None]:
    """Return the stated bounds, or learn them: with `errors` as closely as those ask for.

    And what was learned, here or in the `describe` that stated bounds are from; or None.

    - `share`: The most that they may take; None: what `LearnedBounds` takes by itself, and with
      `errors` at most four fifths of what is left.
    - `**options`: Of `LearnedBounds`.
    """
    if stated is not None:
        return stated, learned_before(stated)
    from skdp.queries import LearnedBounds

    if errors and share is None:
        share = session.remaining * Fraction(4, 5)
    learned = session.answer(LearnedBounds(audit=errors, **options), share)
    return (learned.low, learned.high), learned
