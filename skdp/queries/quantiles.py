"""Quantiles of every feature: the exponential mechanism over all points of a public lattice.

What is released: for each feature and level a point of a public lattice (the grid of a box, the
multiples of a step, or a grid that is finer near 0), chosen with probability proportional to
exp(-eta * distance of q n to the ranks of the rows there). Points between two neighbouring values
of the rows have one score, so a sorted column gives a short list of candidates with multiplicities;
the choice itself is exact. Many levels are found by recursion: the middle one first, then those to
its left among the rows to its left, and so on. Proofs: quantiles.md.

References
----------
A. Smith (2011), "Privacy-preserving statistical estimation with optimal convergence rates", STOC,
algorithm 2; H. Kaplan, S. Schnapp, U. Stemmer (2022), "Differentially private approximate
quantiles", ICML, algorithm 1; J. Dong, D. Durfee, R. Rogers (2020), "Optimal differential privacy
composition for exponential mechanisms", ICML, section 3 (bounded range).
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.core.clipping import Box, Floats
from skdp.core.mechanisms import Independent
from skdp.core.privacy_filter import Meter, Release, Share, exact_fraction, in_transcript, released
from skdp.core.query import Measurement, Noisy, Query, reviewed
from skdp.core.table import REPLACE_ONE, PrivateTable
from skdp.loss import conversions
from skdp.loss.conversions import pure_mu
from skdp.queries.ranked_columns import (
    SPREAD_BITS,
    Ints,
    Part,
    RankedColumn,
    Runs,
    Scored,
    choose,
    ranked_columns,
)

PRIORS = ("uniform", "log")

_LEVEL_BITS = 20  # levels of long decimals are rounded to so many bits: half a row in a million
_LARGEST_LATTICE = 2**40  # points; with the places below 2**57
_LOG_SPAN = 10  # the log prior is flat below 2**-10 of the largest bound


# --- levels -----------------------------------------------------------------------------------


def check_levels(levels: ArrayLike) -> list[Fraction]:
    """Return strictly increasing levels in [0, 1] as exact fractions of their decimals.

    - raises TypeError, ValueError: not numbers; none, outside of [0, 1] or not strictly increasing.
      The text quotes what is wrong: levels are public.
    """
    rule = "q must be a number in [0, 1] or several of them, strictly increasing"
    try:
        array = np.atleast_1d(np.asarray(levels))
    except ValueError:
        raise ValueError(f"{rule}; got sequences of different lengths") from None
    if array.dtype.kind == "O":  # integers beyond 64 bits, fractions, or no numbers
        floats = [_level_as_float(level, rule) for level in array.flat]
        array = np.array(floats).reshape(array.shape)
    if array.dtype.kind not in "iuf" and array.size:
        raise TypeError(f"{rule}; got {array.dtype.type.__name__}")
    if array.ndim != 1:
        raise ValueError(f"{rule}; got an array of {array.ndim} dimensions")
    if not array.size:
        raise ValueError(f"{rule}; got none")
    floats = [float(level) for level in array]
    for level in floats:
        if not 0.0 <= level <= 1.0:
            raise ValueError(f"{rule}; {level} is not in [0, 1]")
    for level, following in pairwise(floats):
        if following <= level:
            raise ValueError(f"{rule}; {following} comes after {level}")
    return [exact_fraction(level) for level in floats]


def _level_as_float(level: Any, rule: str) -> float:
    """Return one level as a float, infinite if it is too large for one."""
    if isinstance(level, bool) or not isinstance(level, numbers.Real):
        raise TypeError(f"{rule}; got {type(level).__name__}")
    try:
        return float(level)
    except OverflowError:
        return math.inf  # or minus that: neither is in [0, 1]


def rounded_level(level: Fraction) -> Fraction:
    """Return the level, or its nearest multiple of 2**-20 where its denominator is longer."""
    scale = 1 << _LEVEL_BITS
    return level if level.denominator <= scale else Fraction(round(level * scale), scale)


@dataclass(frozen=True)
class Node:
    """One choice of the recursion: the level at `place`, among the rows between two chosen ones.

    Public: a function of the levels alone.

    - `place`: Index of the level that is chosen here.
    - `left`, `right`: Places of the levels chosen before on either side; -1 and n_levels stand for
      the ends.
    - `level`: Relative to the rows between them.
    - `leaf`: Whether nothing is chosen among the parts that this choice makes.
    """

    place: int
    left: int
    right: int
    level: Fraction
    leaf: bool

    @property
    def widest(self) -> int:
        """How far a row more moves a score: b max(q, 1 - q) for the level q = a/b."""
        b = self.level.denominator
        return max(self.level.numerator, b - self.level.numerator)


def recursion(levels: Sequence[Fraction]) -> list[list[Node]]:
    """Return the choices of each round: the middle level first, then the middles of both halves.

    There are floor(log2 m) + 1 rounds.
    """
    m = len(levels)
    bounds = [Fraction(0), *levels, Fraction(1)]  # of places -1 .. m
    rounds: list[list[Node]] = []
    spans = [(-1, m)]
    while spans:
        nodes, halves = [], []
        for left, right in spans:
            place = (left + right) // 2
            low, high = bounds[left + 1], bounds[right + 1]
            # Only the ends can be equal to a level: 0 on the left, 1 on the right.
            level = (levels[place] - low) / (high - low)
            parts = [(a, b) for a, b in ((left, place), (place, right)) if b - a > 1]
            nodes.append(Node(place, left, right, rounded_level(level), not parts))
            halves += parts
        rounds.append(nodes)
        spans = halves
    return rounds


def rates(
    nodes: Sequence[Node], whole: Fraction, half: Fraction, *, replace: bool
) -> list[Fraction]:
    """Return eta of each choice of a round, per integer step of its score.

    Scores are ranks times b, for levels a/b. A row more in a part gives the changes of its scores
    a range of 2 max(a, b - a) at most, a row replaced in it 2 b. A: one part has one row more, and
    may lose `whole`. R: a row is replaced in one part, or leaves one for another, of which each may
    lose `half`. A round of one choice has one part only.
    """
    etas = []
    for node in nodes:
        b = node.level.denominator
        if not replace:
            etas.append(whole / (2 * node.widest))
        elif len(nodes) == 1:
            etas.append(whole / (2 * b))
        else:
            etas.append(min(half / (2 * node.widest), whole / (2 * b)))
    return etas


def allowances(
    level: float | Fraction, parts: int, *, pure: bool
) -> tuple[float, Fraction, Fraction]:
    """Part a release's epsilon, or its mu, between rounds and features.

    - returns `loss`: What a round of one feature may lose: epsilon, or mu.
    - returns `whole, half`: The range that the changes of eta times score may have in one part of
      it alone, and in each of two. A range of epsilon loses epsilon; it is mu-GDP for the mu of
      epsilon / 2, in half of which pure losses are counted: quantiles.md.
    """
    if pure:
        whole = Fraction(level) / parts
        return float(whole), whole, whole / 2
    mu = float(level) / math.sqrt(parts) * (1 - 2**-50)
    whole = 2 * Fraction(conversions.pure_epsilon_from_mu(mu))
    return mu, whole, 2 * Fraction(conversions.pure_part(mu, 2))


def rank_scale(
    levels: ArrayLike, level: float, n_features: int, *, pure: bool, adjacency: str
) -> float:
    """Return the number of ranks off that costs a candidate a factor e, at the worst level.

    For `Quantiles` of n_features features whose release may lose `level`: epsilon, or mu.
    """
    rounds = recursion(check_levels(levels))
    _, whole, half = allowances(level, n_features * len(rounds), pure=pure)
    return float(
        max(
            1 / (eta * node.level.denominator)
            for nodes in rounds
            for node, eta in zip(
                nodes, rates(nodes, whole, half, replace=adjacency == REPLACE_ONE), strict=True
            )
        )
    )


# --- lattices ---------------------------------------------------------------------------------


def piecewise_log2(x: Floats) -> Floats:
    """Return sign(x) times a piecewise linear log2(1 + |x|): k + f where 1 + |x| = 2**k (1 + f).

    Elementwise IEEE operations, so a value's image does not depend on the values beside it.
    """
    mantissa, exponent = np.frexp(1.0 + np.abs(x))
    return np.copysign(exponent - 2 + 2 * mantissa, x)


def piecewise_exp2(y: Floats) -> Floats:
    """Return the x with piecewise_log2(x) = y."""
    whole = np.floor(np.abs(y))
    fraction = np.abs(y) - whole
    return np.copysign(np.ldexp(1.0 + fraction, whole.astype(np.int64)) - 1.0, y)


def multiples(low: float, high: float, step: float) -> tuple[int, int]:
    """Return the first and last whole number whose product with the step lies within the bounds.

    As decimals: 0.3 is three times 0.1, which it is not as a float. The first is above the last
    where there is none.
    """
    exact = exact_fraction(step)
    return math.ceil(exact_fraction(low) / exact), math.floor(exact_fraction(high) / exact)


class Lattice:
    """The public candidates of one feature, numbered 0 .. size - 1 in ascending order.

    - `low`, `high`: Public bounds.
    - `step`: Candidates are the multiples of it within the bounds; None for 2**18 to 2**19 points
      at equal distances. Where no multiple lies within, the one nearest to the middle is the only
      candidate; where there are more than 2**40, or beyond 2**52, the step is ignored.
    - `prior` ({"uniform", "log"}): Without a step: at equal distances in x, or in `piecewise_log2`
      of x over 2**-10 of the largest bound.
    """

    def __init__(self, low: float, high: float, step: float | None, prior: str) -> None:
        self.low, self.high = low, high
        self.step = self.unit = 0.0
        if step is not None and max(abs(low), abs(high)) / step < 2.0**52:
            first, last = multiples(low, high, step)
            if first > last:
                first = last = round((low / 2 + high / 2) / step)
            if last - first < _LARGEST_LATTICE:
                self.step, self.first, self.size = step, first, last - first + 1
                return
        if prior == "log":
            self.unit = max(abs(low), abs(high), 2.0**-1000) * 2.0**-_LOG_SPAN
            ends = piecewise_log2(np.array([low, high]) / self.unit)
            low, high = float(ends[0]), float(ends[1])
        box = Box([low], [high])
        self.center, self.grid, self.half = float(box.center[0]), float(box.grid[0]), box.half[0]
        self.size = 2 * int(self.half) + 1

    def number(self, x: Floats) -> Ints:
        """Return the number of the candidate nearest to each value; a value's own concern."""
        with np.errstate(all="ignore"):
            np.setbufsize(1024)  # as in `fold_span`
            if np.any(self.step):
                steps = np.rint(np.clip(x, self.low, self.high) / self.step)
                shifted = steps - self.first
                return np.clip(shifted, 0, self.size - 1).astype(np.int64)
            if np.any(self.unit):
                x = piecewise_log2(np.clip(x, self.low, self.high) / self.unit)
            steps = x - self.center
            steps /= self.grid
            np.clip(steps, -self.half, self.half, out=steps)
            steps = np.rint(steps, out=steps)
            steps += self.half
            return steps.astype(np.int64)

    def value(self, number: Ints) -> Floats:
        """Return the candidates in user units, within the bounds unless a step has none there."""
        if self.step:
            whole = (number + self.first).astype(np.float64)
            parts = round(1 / self.step) if 2.0**-52 < self.step < 1 else 1
            # Three tenths, not three times the float nearest to a tenth.
            return whole / parts if 1 / parts == self.step else whole * self.step
        with np.errstate(all="ignore"):
            x = self.center + (number - self.half) * self.grid
            if self.unit:
                x = piecewise_exp2(x) * self.unit
        return np.clip(x, self.low, self.high)


# --- what a choice may lose ----------------------------------------------------------------------


def range_of_change(a: Runs, b: Runs) -> int:
    """Return by how much the scores of all points of a part change, from least to most."""
    at = np.union1d(a.starts[a.lengths > 0], b.starts[b.lengths > 0])
    sides = []
    for runs in (a, b):
        live = runs.lengths > 0
        where = np.searchsorted(runs.starts[live], at, side="right") - 1
        sides.append(runs.scores[live][where].astype(object))
    change = sides[0] - sides[1]
    return int(change.max()) - int(change.min())


# --- the queries ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Round:
    """A round of the recursion with what it may lose."""

    nodes: list[Node]
    etas: list[Fraction]
    loss: float  # epsilon, or mu in a Gaussian session
    distance: Callable[[NDArray, NDArray], float]


def rounds_of(
    table: PrivateTable,
    meter: Meter,
    choices: list[list[Node]],
    fraction: Fraction,
    epsilon: Fraction,
    d: int,
) -> list[_Round]:
    """Return the rounds of one feature with their rates and bounds on their losses."""
    level = epsilon if meter.mu is None else meter.level(fraction)
    loss, whole, half = allowances(level, d * len(choices), pure=meter.pure)
    rounds = []
    for nodes in choices:
        etas = rates(nodes, whole, half, replace=table.n_is_public)
        rounds.append(_Round(nodes, etas, loss, loss_between(etas, pure=meter.pure)))
    return rounds


def loss_between(etas: Sequence[Fraction], *, pure: bool) -> Callable[[NDArray, NDArray], float]:
    """Return what choices lose between two tables of scores."""

    def distance(a: NDArray, b: NDArray) -> float:
        losses = [
            eta * range_of_change(runs, other)
            for eta, runs, other in zip(etas, a[0], b[0], strict=True)
        ]
        if pure:
            return float(sum(losses))
        return math.hypot(*(pure_mu(float(x) / 2) for x in losses if x), 0.0)

    return distance


def _find(
    meter: Meter,
    label: str,
    column: RankedColumn,
    ends: dict[int, int],
    rounds: Sequence[_Round],
    m: int,
) -> Ints:
    """Return the chosen candidates of one feature at all levels, round by round.

    `ends` are the first points of the lattice and behind it, or of the part of each label.
    """
    # Places chosen so far, with the ends at nodes below 0 and from m on.
    chosen = {node: (point << SPREAD_BITS) - (node >= m) for node, point in ends.items()}
    below = column.below[np.searchsorted(column.points, list(ends.values()))]
    cuts = dict(zip(ends, below.tolist(), strict=True))  # how many rows are left of each
    for number, step in enumerate(rounds):
        parts = [_part(column, node, chosen, cuts) for node in step.nodes]

        def draw(
            parts: list[tuple[Scored, int, int]] = parts, etas: list[Fraction] = step.etas
        ) -> NDArray:
            return np.array(
                [
                    choose(scored, eta, meter.entropy, points=points) << bits
                    for (scored, bits, points), eta in zip(parts, etas, strict=True)
                ],
                dtype=np.int64,
            )

        # The number of runs tells of the rows.
        exact = in_transcript(lambda: [scored(None).runs() for scored, *_ in parts])  # noqa: B023
        title = label if len(rounds) == 1 else f"{label}, round {number}"
        places = meter.release(title, exact, step.loss, step.distance, draw, (len(step.nodes),))
        for node, place in zip(step.nodes, places.tolist(), strict=True):
            chosen[node.place] = place
            if not node.leaf:
                cuts[node.place] = column.rows_below(place)
    return np.array([chosen[i] >> SPREAD_BITS for i in range(m)], dtype=np.int64)


def _part(
    column: RankedColumn, node: Node, chosen: dict[int, int], cuts: dict[int, int]
) -> tuple[Scored, int, int]:
    """Return the scores of a part's places; at a leaf its points, as nothing is parted there.

    And the bits of a place in a point, and how many there are.
    """
    bits = SPREAD_BITS if node.leaf else 0
    low, high = chosen[node.left] >> bits, chosen[node.right] >> bits
    first, stop = cuts[node.left], cuts[node.right]

    def scored(reach: int | None) -> Part:
        return column.part(first, stop, low, high, node.level, spread=not node.leaf, reach=reach)

    return scored, bits, high - low + 1


@reviewed
@dataclass(frozen=True, eq=False)
class Quantiles(Measurement):
    """The quantiles of every feature at some levels, by the exponential mechanism.

    Guarantee: each feature takes an equal part of the share, and each round of the recursion an
    equal part of that (of epsilon; of mu squared in a Gaussian session). Without rows every
    candidate is as likely as any other.

    - `view`: Its bounds are those of the candidates; a value beyond counts as the nearest bound.
    - `levels`: Strictly increasing, in [0, 1].
    - `step`: Candidates are its multiples: 1.0 for integers, whose quantiles are then as precise as
      they are. A value between two multiples counts as the nearest.
    - `prior` ({"uniform", "log"}): Without a step: whether the candidates lie at equal distances,
      or at distances that grow with the distance from 0 (ten powers of two). Public knowledge of
      heavy tails: what noise chooses on few rows is then not far out.
    - `n_labels`: The quantiles, of one level, of the rows of each label.
    - returns of shape (n_features, n_levels): Ascending in each row; std is NaN, as the error
      depends on the rows. With labels the shape is (n_features, n_labels).
    - raises TypeError, ValueError: if an argument is out of range; nothing has been taken from the
      allowance.
    """

    name: ClassVar[str] = "quantiles"
    view: Box
    levels: Any
    step: float | None = None
    prior: str = "uniform"
    n_labels: int | None = None

    def measure(self, table: PrivateTable, meter: Meter, share: Share, name: str) -> Release:
        view, levels, step, prior = self.view, self.levels, self.step, self.prior
        exact_levels = check_levels(levels)
        if step is not None and not (math.isfinite(step) and step > 0):
            raise ValueError("step must be a finite number above 0")
        if prior not in PRIORS:
            raise ValueError(f"prior must be 'uniform' or 'log', got {prior!r}")
        d, m, choices = view.n_dims, len(exact_levels), recursion(exact_levels)
        if self.n_labels is not None:
            if m > 1:
                raise ValueError("q must be one level for the rows of each label")
            # Labels part the rows: one choice in each part, all of one round.
            m, ((node,),) = self.n_labels, choices
            choices = [[replace(node, place=k, left=-1 - k, right=m + k) for k in range(m)]]
        fraction, epsilon = meter.take(share, name)
        rounds = rounds_of(table, meter, choices, fraction, epsilon, d)
        lattices = [
            Lattice(float(low), float(high), step, prior)
            for low, high in zip(view.low, view.high, strict=True)
        ]
        values = np.empty((d, m))
        for j, column in ranked_columns(table, lattices, self.n_labels):
            label = name if d == 1 else f"{name}, feature {j}"
            size = lattices[j].size
            ends = {-1: 0, m: size}
            if self.n_labels is not None:
                ends = {-1 - k: k * size for k in range(m)} | {
                    m + k: (k + 1) * size for k in range(m)
                }
            points = _find(meter, label, column, ends, rounds, m)
            values[j] = lattices[j].value(points % size)
        # In ranks: a score is b times a rank.
        every = [pair for step in rounds for pair in zip(step.nodes, step.etas, strict=True)]
        moved = max(Fraction(node.widest, node.level.denominator) for node, _ in every)
        scale = max(1 / (eta * node.level.denominator) for node, eta in every)
        meter.record(
            name,
            "exponential mechanism",
            "ranks",
            1.0 if table.n_is_public else float(moved),
            float(scale),
            fraction,
        )
        return released(values, np.full((d, m), np.nan))


@reviewed
@dataclass(frozen=True, eq=False)
class NoisyQuantiles(Query):
    """Order statistics under noise for the whole width of the box: for comparison.

    The value of rank ceil(q n) of the clipped rows, the lower bound if there are none. One row
    may move it from one bound to the other, which is its global sensitivity under both
    relations: noise is of the size of the box, whatever n.

    Guarantee: L1 m times the sum of the widths, squared L2 m times that of their squares.

    - returns of shape (n_features, n_levels): Clipped to the box; std is that of the noise before.
    """

    name: ClassVar[str] = "noisy quantiles"
    view: Box
    levels: Any

    @property
    def _lattices(self) -> list[Lattice]:
        bounds = zip(self.view.low, self.view.high, strict=True)
        return [Lattice(float(low), float(high), None, "uniform") for low, high in bounds]

    @property
    def entries(self) -> int:
        """How many integers are released, once the query is prepared."""
        return self.view.n_dims * len(check_levels(self.levels))

    def exact(self, table: PrivateTable) -> NDArray:
        n, levels = table.n, check_levels(self.levels)
        ranks = [min(max(math.ceil(q * n), 1), n) for q in levels]
        exact = np.zeros((self.view.n_dims, len(levels)), dtype=np.int64)
        if n:
            for j, column in ranked_columns(table, self._lattices):
                exact[j] = column.at_ranks(ranks)
        return exact

    def sensitivity(self, relation: str) -> Independent:
        m, widths = len(check_levels(self.levels)), [lattice.size - 1 for lattice in self._lattices]
        return Independent(max(1, m * sum(widths)), max(1, m * sum(w * w for w in widths)))

    def decoded(self, noisy: Noisy) -> Release:
        lattices, steps = self._lattices, noisy.values.astype(np.float64)
        inside = [np.clip(row, 0, a.size - 1) for row, a in zip(steps, lattices, strict=True)]
        values = [a.value(row.astype(np.int64)) for row, a in zip(inside, lattices, strict=True)]
        with np.errstate(over="ignore"):  # of a box as wide as floats are
            error = noisy.std * np.array([lattice.grid for lattice in lattices])
        return released(np.array(values), np.repeat(error[:, None], steps.shape[1], axis=1))
