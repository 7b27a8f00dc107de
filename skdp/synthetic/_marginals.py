"""Synthetic tables from noisy marginal tables: `DPMarginalSynthesizer`.

Tables are chosen by the exponential mechanism and measured with noise. The distribution fitted to
them (`_graphical`), its answers and its samples are post-processing. No table has more cells than
`max_cells` allows, however many the domain has.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skdp.base.callers import reported_steps
from skdp.confidence import Released
from skdp.confidence.equations import Noise
from skdp.confidence.limits import NoiseLimits
from skdp.core import Session
from skdp.parameters import Integers, Table
from skdp.planning import Allowance, row_count
from skdp.queries import MAX_TABLE, Cells, MarginalCells, Workload, WorstMarginal, row_counts
from skdp.synthetic._base import LearningMixin, ReleaserMixin, Tables, by_label, documented
from skdp.synthetic._graphical import (
    ITERATIONS,
    LEAST_STD,
    REPLICATES,
    SMOOTHING,
    SMOOTHING_OF_TARGETS,
    AnswerErrors,
    Clique,
    Floats,
    Growth,
    Measurements,
    Model,
    clique_size,
)
from skdp.synthetic._queries import Queries, as_queries, conjunctions, query_names, workload_of
from skdp.tabular import CATEGORIES, Domain

# --- the estimator --------------------------------------------------------------------------------

COUNT = Fraction(1, 50)  # of the allowance, for the number of rows where it is private
# The mean error of single columns, in total variation, is to be at most FACTOR times as large as
# with the whole allowance, or SLACK more. Tables of pairs tell something of single columns, too:
# CREDIT of what they would if each column were in equally many.
FACTOR, SLACK, LEAST_OF_COLUMNS, CREDIT = 1.1, 0.005, Fraction(1, 16), 1 / 2
HIDDEN = 0.5  # of all rows: the noise, in L1, that hides a pair
CHOICE = Fraction(1, 10)  # of a round, for the choice of its table
ROUNDS, ROUNDS_OF_LITTLE_NOISE = 4, 8  # a column, at most, planned
LEAST_ROUNDS = 12  # however much noise: a choice among many pairs is worth more than one good table
NOISE = 0.2  # of all rows: the noise of a table, in L1, that is worth measuring
# Of the noise of a table, in L1: what a distance from the fitted table must exceed to be worth a
# measurement. The fit weighs a table by its noise, so a table helps that has more noise than news.
WORTH = 0.3
WELL = 0.014  # of all rows: the noise, in L1, of a table that needs no better measurement
MOST_OF_PAIRS, LEAST_OF_PAIRS = 0.6, Fraction(1, 10)  # of the remaining allowance
# The larger table, which comes last. Pairs and single columns do not show a dependence of three or
# more columns, such as a parity; no round would choose its table for the pairs in it.
KEPT = Fraction(1, 25)  # of the allowance: a quarter for the choice, the rest for the table
LARGER_NOISE = 0.1  # of all rows: its noise, in L1, at most
NEWS = 0.05  # of all rows: its distance beyond noise and sampling error, at least
MOST_COLUMNS, MOST_COLUMNS_OF_TARGETS = 24, 50
MAX_LARGER, MAX_READ = 20_000, 2**29  # sets; cells of rows that are read to count their tables
MAX_SETS = 2**16
MAX_HELD = 2**24  # cells of all candidates' exact tables
MAX_WORK = 2**22  # cells of a table on the way to a marginal
LARGEST_ANSWER = 2**26  # the same, for queries after the fit
MAX_DATABASE = 2**20  # rows
FORBIDDEN = 2.0**50  # rows: a penalty that no distance outweighs


def planned_rounds(
    cells: Sequence[int], n_columns: int, noise: float, total: float, *, pure: bool
) -> int:
    """Return how many rounds are planned: fewer where the noise of each would be too large.

    `cells` are the sizes of the candidates' tables; `noise` that of a cell if one table were
    measured with the whole allowance; `total` the number of rows.
    """
    needed = max(noise * float(np.median(cells)) / (NOISE * total), 1e-9)
    most = min(ROUNDS * n_columns, len(cells))
    rounds = min(max(1 / needed if pure else 1 / needed**2, min(LEAST_ROUNDS, most)), most)
    if not pure:  # with so little noise, many tables can each be measured twice as well as needed
        more = min(ROUNDS_OF_LITTLE_NOISE * n_columns, len(cells))
        rounds = max(rounds, min(1 / needed, more))
    return int(rounds)


def part_of_pairs(cells: Sequence[int], noise: float, total: float, *, pure: bool) -> Fraction:
    """Return the part of an allowance that tables of so many cells need to be precise enough.

    Examples
    --------
    >>> part_of_pairs([4, 4], 10.0, 1000, pure=True), part_of_pairs([4, 4], 1.0, 16000, pure=True)
    (Fraction(1, 1), Fraction(1, 10))
    """
    size = np.asarray(cells, dtype=np.float64)
    if pure:
        needed = noise * size.sum() / (WELL * total)
    else:
        needed = (noise * np.sqrt(size).mean() * math.sqrt(size.sum()) / (WELL * total)) ** 2
    if needed > MOST_OF_PAIRS:  # the remainder is worth less there than here
        return Fraction(1)
    return max(Fraction(math.ceil(needed * 1000), 1000), LEAST_OF_PAIRS)


class Rounds:
    """The measurements of one fit: which tables are measured, with which share, and the results.

    `candidates` are sets of two and more columns. With a `target` column, its pairs with the others
    are measured first.
    """

    def __init__(
        self,
        session: Session,
        sizes: tuple[int, ...],
        candidates: list[Clique],
        max_cells: int,
        names: Sequence[Any],
        total: float,
        target: int | None = None,
    ) -> None:
        self.session, self.sizes, self.names = session, sizes, names
        self.candidates, self.max_cells = candidates, max_cells
        self.total, self.counted, self.target = total, total, target
        self.measured: dict[Clique, tuple[Floats, float]] = {}
        self.spent = 1 - session.remaining

    def noise(self, share: Fraction) -> float:
        """Return the mean absolute noise of a table's cell."""
        return Allowance.left(self.session, share).mean_cell_noise

    def cells(self, columns: Clique) -> int:
        """Return the number of cells of a table."""
        return math.prod(self.sizes[a] for a in columns)

    def measure(self, columns: Clique, share: Fraction) -> None:
        """Release a table; a second one of the same columns is averaged with the first."""
        name = "table of " + ", ".join(str(self.names[a]) for a in columns)
        release = self.session.answer(row_counts(MarginalCells(self.sizes, columns), name), share)
        self.spent += share
        table, std = np.asarray(release.value).reshape(-1), max(float(release.std), LEAST_STD)
        if columns in self.measured:
            other, std_other = self.measured[columns]
            weight = std_other**2 / (std**2 + std_other**2)
            table = weight * table + (1 - weight) * other
            std = std * std_other / math.hypot(std, std_other)
        self.measured[columns] = (table, std)

    def fitted(self, model: Model | None, max_iter: int) -> Model:
        """Return the distribution fitted to all measurements, starting from `model`."""
        measurements = self.measurements()
        self.total = measurements.total
        return measurements.fitted(model, max_iter)

    def measurements(self) -> Measurements:
        """Return all tables measured so far, and the number of rows."""
        private = self.session.adjacency != "replace_one"
        std = max(Allowance.left(self.session, COUNT).cell_std, LEAST_STD) if private else 0.0
        smoothing = SMOOTHING if self.target is None else SMOOTHING_OF_TARGETS
        pure = self.session.pure
        return Measurements(self.sizes, self.measured, self.counted, std, smoothing, pure)

    def columns(self) -> None:
        """Measure every column: alone, or with a target in a table of both.

        All of them before any pair: with much noise there are few rounds, and a pair is worth
        little if its columns are not known.
        """
        if self.target is not None and any(self.target in s for s in self.candidates):
            self._pairs_with(self.target)
            return
        weights, part, remaining = self._weights(), self._part_of_columns(), 1 - self.spent
        for a, weight in enumerate(weights):
            self.measure((a,), remaining * part * Fraction(weight, sum(weights)))

    def _weights(self) -> list[int]:
        """Return the shares of single columns, up to a factor: the least sum of errors has these.

        The error of a column of k values is about k s, where s is the noise of a cell. Of all parts
        w that add up to 1, sum k / sqrt(w) (Gaussian noise) is least for w ~ k^(2/3), and sum k / w
        (pure) for w ~ k^(1/2).
        """
        power = 1 / 2 if self.session.pure else 2 / 3
        return [math.ceil(1000 * size**power) for size in self.sizes]

    def _part_of_columns(self) -> Fraction:
        """Return the part of the remaining allowance for single columns: the least that suffices.

        Their mean error is to be at most FACTOR times what it is with the whole allowance, or SLACK
        more. So the precision 1 / noise^2 must be this part of that with the whole allowance, where
        a table of two columns, summed over one of k values, has k times the variance.
        """
        if not self.candidates:
            return Fraction(1)
        pure, d, remaining = self.session.pure, len(self.sizes), 1 - self.spent
        weights = np.array(self._weights(), dtype=np.float64)
        weights /= weights.sum()
        noise = self.noise(remaining) / (weights if pure else np.sqrt(weights))
        errors = np.minimum(0.5 * noise * np.array(self.sizes) / self.total, 0.5)
        least = max(float(errors.mean()), 1e-9)
        wanted = 1 / max(FACTOR, 1 + SLACK / least) ** 2
        cells = [self.cells(s) for s in self.candidates]
        of_pairs = 2 * CREDIT * float(1 - CHOICE) * float(np.mean(1 / np.array(self.sizes)))
        for part in np.arange(float(LEAST_OF_COLUMNS), 1.0, 1 / 64):
            precision = part + of_pairs * (1 - part)
            if pure:
                left = self.noise((1 - Fraction(part)) * remaining)
                rounds = planned_rounds(cells, d, left, self.total, pure=True)
                # Most is spent in few of them, with shares that have been doubled.
                rounds = min(rounds, max(3 * d // 4, 1))
                of_rounds = float(1 - CHOICE) * of_pairs * d / rounds
                precision = part**2 + of_rounds * (1 - part) ** 2
            if precision >= wanted:
                return Fraction(float(part))
        return Fraction(63, 64)

    def _pairs_with(self, target: int) -> None:
        """Measure every column with the target: precisely enough, or with the whole remainder.

        If the table of a pair is too large to be a candidate, measure the column alone.
        """
        pairs = [tuple(sorted((a, target))) for a in range(len(self.sizes)) if a != target]
        known = set(self.candidates)
        sets = [s if s in known else tuple(a for a in s if a != target) for s in pairs]
        cells, remaining = [self.cells(s) for s in sets], 1 - self.spent
        part = part_of_pairs(cells, self.noise(remaining), self.total, pure=self.session.pure)
        for s, size in zip(sets, cells, strict=True):
            self.measure(s, remaining * part * Fraction(size, sum(cells)))

    _workload: Workload  # of the candidates

    def run(self) -> Model:
        """Spend the whole allowance; return the fitted distribution."""
        if self._hides_pairs():
            self.candidates = []
        else:  # one for all rounds: exact tables are counted once
            self._workload = Workload(self.sizes, [Cells(s) for s in self.candidates])
        larger = self._larger()
        kept = KEPT * (1 - self.spent) if larger else Fraction(0)
        self.spent += kept
        steps = reported_steps(None)  # all single columns, and each round
        next(steps)
        self.columns()
        next(steps)
        model = self.fitted(None, ITERATIONS[0])
        if self.spent < 1:
            model = self._rounds(model, steps)
        if larger:
            self.spent -= kept
            self._measure_larger(model, larger, kept)
        if self.spent < 1:  # none was chosen
            model, _ = self._round(model, 1 - self.spent)
            next(steps)
        return self.measurements().polished(self.fitted(model, ITERATIONS[1]))

    def _hides_pairs(self) -> bool:
        """Say whether noise hides a pair of median size even with half of the allowance.

        A choice among pairs shows nothing then.
        """
        cells = [self.cells(s) for s in self.candidates if len(s) == 2]
        if self.target is not None or not cells:
            return not self.candidates
        return bool(self.noise((1 - self.spent) / 2) * np.median(cells) > HIDDEN * self.total)

    def _rounds(self, model: Model, steps: Iterator[int]) -> Model:
        """Choose and measure tables until nothing is left; return the fit to all of them."""
        pure, remaining = self.session.pure, 1 - self.spent
        noise = self.noise(remaining * (1 - CHOICE))
        cells = [self.cells(s) for s in self.candidates]
        rounds = planned_rounds(cells, len(self.sizes), noise, self.total, pure=pure)
        share = remaining / rounds
        while self.spent < 1:
            remaining = 1 - self.spent
            # A last round with less than a full share would spend much of it on the choice.
            share = remaining if remaining < 2 * share else share
            model, shown = self._round(model, share)
            if not shown:  # halve the noise
                share *= 2 if pure else 4
            next(steps)
        return model

    def _round(self, model: Model, share: Fraction) -> tuple[Model, bool]:
        """Choose and measure a table; return the new fit, and whether it moved beyond noise."""
        noise = self.noise(share * (1 - CHOICE))
        tables, penalties = self._questions(model, self.candidates, WORTH * noise)
        worst = WorstMarginal(self._workload, np.concatenate(tables), penalties)
        chosen = self.session.answer(worst, share * CHOICE, name="choice of a table")
        self.spent += share * CHOICE
        columns = self.candidates[chosen]
        self.measure(columns, share * (1 - CHOICE))
        model = self.fitted(model, ITERATIONS[0])
        moved = np.abs(self.total * model.marginal(columns) - tables[chosen]).sum()
        return model, bool(moved > WORTH * noise * self.cells(columns))

    def _questions(
        self, model: Model, sets: Sequence[Clique], noise: float
    ) -> tuple[list[Floats], Floats]:
        """Return the model's table of every set, and its penalty: this noise times its cells.

        Sets that would make the model too large cannot be chosen. Single columns, and sets that
        were measured before, always can.
        """
        # `max_cells` does not count the tables of single columns.
        limit = max(self.max_cells + sum(self.sizes), model.tree.n_cells)
        growth = Growth(self.sizes, self.measured, limit)
        tables = []
        penalties = np.full(len(sets), FORBIDDEN)
        for i, s in enumerate(sets):
            largest, together = model.work(s)
            fits = model.tree.n_cells + together <= limit
            if largest <= MAX_WORK and (fits or growth.fits(s)):
                tables.append(self.total * model.marginal(s))
                penalties[i] = noise * tables[i].size
            else:
                tables.append(np.zeros(self.cells(s)))
        return tables, penalties

    def _larger(self) -> list[Clique]:
        """Return the sets of three and four columns of which one may be measured last.

        With a target: that and three others. Smallest first; public, as the number of rows is.
        """
        d, t = len(self.sizes), self.target
        if not self.candidates or d > (MOST_COLUMNS if t is None else MOST_COLUMNS_OF_TARGETS):
            return []
        if t is None:
            sets = [s for k in (3, 4) for s in combinations(range(d), k)]
        else:
            others = (a for a in range(d) if a != t)
            sets = [tuple(sorted((t, *s))) for s in combinations(others, 3)]
        noise = self.noise(KEPT * (1 - self.spent) * 3 / 4)
        most = min(LARGER_NOISE * self.total / noise, self.max_cells / 2, MAX_TABLE)
        cells = {s: self.cells(s) for s in sets}
        small = sorted((s for s in sets if cells[s] <= most), key=cells.__getitem__)
        fitting = np.cumsum([cells[s] for s in small]) <= MAX_HELD
        return small[: min(int(fitting.sum()), MAX_LARGER, int(MAX_READ / max(self.total, 1.0)))]

    def _measure_larger(self, model: Model, larger: Sequence[Clique], share: Fraction) -> None:
        """Choose one of these sets, or none, and measure its table."""
        if sets := [s for s in larger if s not in self.measured]:
            tables, penalties = self._questions(model, sets, self.noise(share * 3 / 4))
            # The counts of rows drawn from the model would be off by this much themselves.
            sampling = [math.sqrt(2 / math.pi) * float(np.sqrt(table).sum()) for table in tables]
            penalties += np.array(sampling) + NEWS * self.total
            workload = Workload(self.sizes, [Cells(s) for s in sets])
            choice = WorstMarginal(workload, np.concatenate(tables), penalties, none=True)
            chosen = self.session.answer(choice, share / 4, name="choice of a larger table")
            self.spent += share / 4
            if chosen is not None:
                self.measure(sets[chosen], share * 3 / 4)


def _sets_of(queries: Any, domain: Domain) -> Iterable[Clique]:
    """Return the sets of columns of queries, or raise naming a query that does not fit."""
    if queries is None:
        return combinations(range(domain.n_columns), min(2, domain.n_columns))
    return set(workload_of(queries, domain).attribute_sets)


def candidate_sets(
    sets: Iterable[Clique], sizes: Sequence[int], max_cells: int, *, strict: bool = True
) -> list[Clique]:
    """Return these sets of columns, and their subsets of two and three columns.

    Sets with too large a table are left out: their subsets stand in for them. If all tables
    together have too many cells, the largest ones of three and more columns are left out. If that
    is not enough, a `strict` call raises a ValueError; otherwise (the budget is charged already)
    the largest pairs are left out, too.
    """
    candidates: set[Clique] = set()
    for columns in sets:
        candidates.add(columns)
        for k in range(2, min(len(columns), 4)):
            candidates.update(combinations(columns, k))
        if len(candidates) > MAX_SETS:
            raise ValueError(
                f"queries: more than {MAX_SETS} sets of columns; name fewer columns, or a lower "
                "order"
            )
    most = min(max_cells, MAX_TABLE)  # a larger table is not measured
    cells = {
        s: math.prod(sizes[a] for a in s)
        for s in candidates
        if len(s) > 1 and clique_size(sizes, s) <= most
    }
    pairs = [s for s in cells if len(s) == 2]
    if strict and (total := sum(cells[s] for s in pairs)) > MAX_HELD:
        raise ValueError(
            f"queries: the tables of all {len(pairs)} sets of columns have {total} cells; at most "
            f"{MAX_HELD} are possible. Name fewer columns, or a domain with fewer values"
        )
    order = sorted(cells, key=lambda s: (len(s) > 2, cells[s], s))  # sizes are public
    fitting = np.cumsum([cells[s] for s in order]) <= MAX_HELD
    return sorted((s for s, fits in zip(order, fitting, strict=True) if fits), key=_by_size)


def _by_size(columns: Sequence[int]) -> tuple[int, Clique]:
    return len(columns), tuple(columns)


_UNCHECKED = "no error where no measured table holds all columns of a query"


@dataclass(frozen=True)
class ShareLimits(NoiseLimits):
    """Intervals of shares of the rows, within [0, 1]."""

    def noise(self, level: float) -> tuple[Floats, Floats]:
        """Return the interval by Laplace noise, or Student's by a spread of few refits."""
        times = max(Noise(1.0, pure=True).width(level), float(stdtrit(REPLICATES, 0.5 + level / 2)))
        half = times * self.std
        return np.clip(self.value - half, 0.0, 1.0), np.clip(self.value + half, 0.0, 1.0)


class TablesMixin(LearningMixin):
    """A fit to noisy tables: their rounds, and what they say of the fitted distribution."""

    def _rounds(
        self, session: Session, sets: Sequence[Clique], max_cells: int, target: int | None = None
    ) -> Rounds:
        """Release the number of rows and the domain; return the rounds, none of which has begun."""
        total = row_count(session, COUNT)
        self.domain_ = domain = self._learn(session, self._plans, self.domain_, total)
        candidates = candidate_sets(sets, domain.sizes, max_cells, strict=False)
        labels = domain.names or range(domain.n_columns)
        return Rounds(session, domain.sizes, candidates, max_cells, labels, total, target)

    def _set_fitted(self, rounds: Rounds) -> None:
        """Set what has been measured, the fitted distribution and its errors."""
        self._model = rounds.run()
        self._errors = AnswerErrors(rounds.measurements(), self._model)
        self.measured_ = by_label(sorted(rounds.measured, key=_by_size), self.domain_)
        self.n_samples_ = int(min(round(rounds.total), MAX_DATABASE))

    @property
    def answer_errors_(self) -> dict[tuple[Any, ...], dict[str, float]]:
        """How far the tables of the fitted distribution are off, by set of `measured_`."""
        check_is_fitted(self)
        sets = sorted(self._errors.measurements.tables, key=_by_size)
        found = self._errors.of_tables()
        parts = [dict(zip(("noise", "misfit"), found[s], strict=True)) for s in sets]
        return dict(zip(by_label(sets, self.domain_), parts, strict=True))


@documented
class DPMarginalSynthesizer(ReleaserMixin, TablesMixin, BaseEstimator):
    """Differentially private synthetic table with any number of columns, from marginal tables.

    First it measures the tables of single columns. Then it chooses and measures tables of two or
    more columns: those that the distribution fitted so far describes worst. Last it may measure one
    table of three or four columns. The result is the most even distribution that is close to all
    measurements.

    Parameters
    ----------
    queries : Queries or None, default=None
        What the synthetic table must answer well: made by `conjunctions`, `thresholds`,
        `intervals`, `parities`, `linear_queries`, or a sum of such. The candidates are the sets of
        columns of the queries, and their subsets of two and three columns. None: all pairs of
        columns. ``conjunctions(3)`` is better for most tables, but slower. Beyond 2**24 cells in
        total, the largest tables of three or more columns are not candidates.
    domain : Domain, mapping or sequence of columns, Bins, int or None, default=None
        The values that each column may have, from public knowledge: a mapping (by name, in any
        order) or a sequence of columns, as `Domain` takes them, or one `Bins` or int k (the whole
        numbers below k) for every column. Columns that a mapping leaves out (all columns with None)
        have public values if their type lists them (booleans, polars' Enum); otherwise the values
        are learned: see Notes. In a mapping, "integer" states that a column has whole numbers,
        whatever its type; their range is learned.
    categories : {"private", "dtype"}, default="private"
        ``"dtype"`` declares that the lists of values in pandas' `category` columns and Arrow's
        dictionaries are public. Such lists usually come from the private rows, unless you have
        stated them yourself.
    max_cells : int, default=65536
        In [8, 2**22]: how many cells the tables of the fitted distribution may have, apart from
        those of single columns. More cells describe more dependences, and take more time. Sets of
        columns with more than about half as many cells are not candidates.

    Attributes
    ----------
    database_ : ndarray or table of shape (n_samples_, n_features)
        A synthetic table in the form and with the types of X, if these can hold all values of the
        domain. `sample` draws further rows.
    n_samples_ : int
        Number of rows: that of X if it is public, otherwise a released number; at most 2**20.
    measured_ : list of tuple
        The sets of columns whose tables were released: by name, or by position if columns have no
        names.
    domain_ : Domain
        The domain of all columns; ``domain_.columns`` shows it by name.
    answer_errors_ : dict
        By set of `measured_`, the part of the rows in a wrong cell of the fitted distribution's
        table: ``"noise"``, the expected part due to noise, and ``"misfit"``, what more than noise
        keeps it from the noisy table. No answer on these columns is off by more than the true part.
        Computed when first asked for: see `answers`.
    domain_source_ : dict
        By column, where its values come from: "stated", "type", "learned numbers" or "selected
        categories".
    learned_ranges_ : dict
        By column of learned numbers or dates: its learned bounds (`low`, `high`), up to where the
        released counts are clear of noise (`clear_low`, `clear_high`), the noisy number of rows
        beyond, with the standard deviation of its noise (`outer_low`, `outer_high`), and what the
        fit warned of (`doubts`).

    {raises}

    See Also
    --------
    conjunctions : Queries on sets of columns.
    SmallDBReleaser : A small table for few cells.

    Notes
    -----
    **Privacy.** *Released*: the number of rows, where it is private (2% of the allowance); the
    table of every single column; then, in each round, the choice of a table and that table; last,
    for 4% of the allowance, the choice of a larger table, or of none, and that table.

    - Single columns get the part with which their mean error is about 1.1 times that with the whole
      allowance, or .005 more (total variation). Columns with many values get more of it. If noise
      would hide pairs, single columns get everything and there are no rounds.
    - A choice takes a tenth of its round. Rounds are planned for at most four a column (eight if
      there is little noise). Whenever a measured table moves the fit by less than noise does, the
      noise of later rounds is halved.
    - The larger table is of any three or four of up to 24 columns. Noise must leave it readable,
      and its distance from the fit must exceed noise and sampling error by 5% of the rows.
      Otherwise that part pays for one more round.

    *Sensitivity* of a table: 1 in L1 and in L2 if a row is added or removed; 2 in L1 and sqrt(2) in
    L2 if one is replaced. The score of a candidate is the L1 distance between its table and the
    fitted table, minus what noise explains; its sensitivity is 1 and 2. *Mechanism*: discrete
    Laplace or rounded Gaussian noise, whichever is less; the exponential mechanism for choices.

    **Domains that are not stated** are learned for 15% of the allowance (30% with few rows), with
    an equal part for each such column. For text and other categories: the values that enough rows
    have, by private selection (`skdp.queries.SelectKeys`; ``delta``, or half of it beside Gaussian
    noise, covers values that only one row has; a row has one key in each column). Missing values
    count as one value; all other values become "other" (None among numbers). For numbers and dates:
    bounds as with `bounds="private"`, quantiles within them, and whether any values are missing; up
    to 16 bins between quantiles, one for 0 alone, and up to four more on each side towards the
    bounds. *The risk*: rare values are lost, and bounds may be far
    from the rows, whose values are then moved into them. Warnings name columns whose released
    counts hardly tell the end of the bounds from noise, or how far rows lie from a value that most
    rows have. They do not find every such column: see ``learned_ranges_``. With ``delta=0``
    categories cannot be selected, and the fit is refused.

    {outside}
    `predict` and `sample` use only the released tables.

    **Cost.** Each round computes the table of every candidate from the fitted distribution. This
    takes about 0.1 ms each, so a second for ``conjunctions(3)`` of 40 columns.

    {rehearsed}

    References
    ----------
    McKenna, Mullins, Sheldon & Miklau 2022, "AIM: an adaptive and iterative mechanism for
    differentially private synthetic data", Section 4.

    McKenna, Miklau & Sheldon 2021, "Winning the NIST contest: a scalable and general approach to
    differentially private synthetic data", Section 3 (select, measure, generate).

    Dudik, Phillips & Schapire 2007, "Maximum entropy density estimation with generalized
    regularization and an application to species distribution modeling", Section 3.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.synthetic import Bins, Domain, DPMarginalSynthesizer, conjunctions
    >>> rng = np.random.default_rng(0)
    >>> hour = rng.integers(0, 24, 20_000)
    >>> delay = rng.exponential(1.0 + hour)
    >>> domain = Domain([24, Bins([0, 5, 15, 30, 60, 500])])
    >>> synthetic = DPMarginalSynthesizer(domain=domain, random_state=0)
    >>> synthetic.fit(np.column_stack([hour, delay])).database_.shape
    (20000, 2)
    >>> late = synthetic.predict(lambda row: row[0] >= 20 and row[1] >= 30)
    >>> bool(abs(late[0] - np.mean((hour >= 20) & (delay >= 30))) < 0.01)
    True
    """

    queries: Any = field(default=None, kw_only=False)
    domain: Any = None
    categories: str = "private"
    max_cells: int = 2**16

    _in_parts = True
    _n_progress_tasks = 1

    _parameter_table: ClassVar[Table] = {
        "categories": CATEGORIES,
        "max_cells": Integers(8, MAX_WORK),
    }

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Charge the budget, release tables and fit a distribution to them.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Private rows, of the types that the domain describes. May be in parts (`skdp.engines`)
            if the whole domain is stated.
        {fit_more}
        """
        with self._all_or_nothing(groups):
            X, domain = self._open_domain(X)
            max_cells = int(self.max_cells)
            sets = list(_sets_of(self.queries, domain))
            candidate_sets(sets, domain.sizes, max_cells)  # every refusal comes before the charge
            rows = self._open_coded(X)
            with self._session(rows) as session:
                self._set_fitted(self._rounds(session, sets, max_cells))
                rng = session.post_processing_rng()
            self.database_ = self._table(self._model.sample(self.n_samples_, rng), rng)
        return self

    def answers(self, queries: Any) -> Released:
        """Answer linear queries as `predict` does, with standard errors and intervals.

        Nothing is released or charged: errors are computed from the measured tables.

        Parameters
        ----------
        queries : Queries, callable, or sequence of these
            As for `predict`. A function of a row needs its columns:
            ``linear_queries(function, columns=[...])``; without them it is of all columns.

        Returns
        -------
        answers : Released
            One entry for each query, which `to_frame` names. The error is relative to the answer of
            the private rows, as moved into the domain. It is NaN where no table of `measured_`
            holds all columns of a query: then the answer rests on independences that nobody has
            checked.

        Raises
        ------
        NotFittedError
            Before `fit`.
        TypeError, ValueError
            If the queries do not fit the domain, or have values outside [0, 1].

        Notes
        -----
        The fitted distribution is measured 10 more times, with fresh noise, and refitted. The error
        is the spread of the refits' answers, at most the noise of the measured tables, with the
        misfit of `answer_errors_`, and with 0.3 times the noise of a table for rare cells. The
        first call takes 10 times as long as the last step of `fit`; refits are kept.

        Rows of `database_` and `sample` are drawn at random, which adds to the error.
        """
        value = self.predict(stated := as_queries(queries))
        works = [part.workload(self.domain_) for part in stated.parts]
        std = np.concatenate([self._errors.std(work) for work in works])
        note = _UNCHECKED if np.isnan(std).any() else ""
        labels = {"query": np.array(query_names(stated, self.domain_), dtype=object)}
        return Released(value, std, self.privacy_, None, note, ShareLimits(value, std), labels)

    def _check_fit(self, domain: Domain, n: int) -> None:
        candidate_sets(_sets_of(self.queries, domain), domain.sizes, int(self.max_cells))

    def _queries(self, domain: Domain) -> Queries:
        if self.queries is None:
            return conjunctions(min(2, domain.n_columns))
        return as_queries(self.queries)

    def _tables(self, sets: Iterable[Sequence[int]]) -> Tables:
        unique = {tuple(s) for s in sets}
        for s in sorted(unique):
            if (cells := self._model.work(s)[0]) > LARGEST_ANSWER:
                raise ValueError(
                    f"queries on columns {by_label([s], self.domain_)[0]} need a table of {cells} "
                    f"cells; at most {LARGEST_ANSWER} are possible. Compute them from rows of "
                    "sample() instead"
                )
        return {s: self._model.marginal(s) for s in unique}

    def _cell_fractions(self, codes: NDArray) -> NDArray[np.float64]:
        return self._model.fractions(codes)

    def _draw(self, n: int, rng: Any) -> NDArray[np.int64]:
        return self._model.sample(n, rng)
