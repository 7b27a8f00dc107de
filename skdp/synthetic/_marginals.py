"""Synthetic tables from noisy marginal tables: `DPMarginalSynthesizer`.

Tables are chosen by the exponential mechanism and measured with noise. The distribution fitted to
them, its answers and its samples are post-processing. No table has more cells than `max_cells`
allows, however many the domain has.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from heapq import heapify, heappop, heappush
from itertools import combinations, pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.base import BaseEstimator

from skdp.base.callers import reported_steps
from skdp.budget import PrivacyBudget
from skdp.core import PrivacyCertificate, Session
from skdp.parameters import Integers, Table
from skdp.planning import Allowance, row_count
from skdp.queries import MAX_TABLE, Cells, MarginalCells, Workload, WorstMarginal, row_counts
from skdp.synthetic._base import LearningMixin, ReleaserMixin, Tables, by_label, documented
from skdp.synthetic._queries import Queries, as_queries, conjunctions, workload_of
from skdp.tabular import CATEGORIES, Domain

# --- distributions with few direct dependences ----------------------------------------------------

# Columns are eliminated one by one. The bag of a column holds it and all later columns that it
# still depends on directly. Bags form a junction tree, and the distribution is the product of one
# conditional table a column: p(x) = prod p(x_v | bag of v without v). So no table is larger than a
# bag, however many cells the domain has. A clique is a set of columns whose table was measured.
#
# Koller & Friedman 2009, "Probabilistic graphical models", Sections 9.3 and 10.4 (elimination and
# clique trees). Dudik, Phillips & Schapire 2007, "Maximum entropy density estimation with
# generalized regularization", Section 3 (the relaxed fit and its dual). McKenna, Sheldon & Miklau
# 2019, "Graphical-model based estimation and inference for differential privacy", Section 4.

Clique = tuple[int, ...]
Floats = NDArray[np.float64]


def eliminate(
    sizes: Sequence[int], cliques: Iterable[Clique]
) -> Iterator[tuple[int, frozenset[int], int]]:
    """Yield (column, its bag, cells of the bag) in the order of elimination: smallest bag next."""
    neighbours: list[set[int]] = [{a} for a in range(len(sizes))]
    for clique in cliques:
        for a in clique:
            neighbours[a].update(clique)
    cells = [math.prod(sizes[b] for b in bag) for bag in neighbours]
    # Of equal bags, that of the column with the most values: it leaves the smallest rest.
    waiting = [(cells[a], -sizes[a], a) for a in range(len(sizes))]
    heapify(waiting)
    while waiting:
        size, _, v = heappop(waiting)
        if size != cells[v]:
            continue  # eliminated, or its bag has changed since
        bag, cells[v] = frozenset(neighbours[v]), -1
        yield v, bag, size
        for a in bag - {v}:
            cells[a] = cells[a] // sizes[v] * math.prod(sizes[b] for b in bag - neighbours[a])
            neighbours[a] = (neighbours[a] | bag) - {v}
            heappush(waiting, (cells[a], -sizes[a], a))


def tree_size(sizes: Sequence[int], cliques: Iterable[Clique]) -> int:
    """Return the number of cells of all bags of the tree that holds these cliques."""
    return sum(cells for _, _, cells in eliminate(sizes, cliques))


def clique_size(sizes: Sequence[int], columns: Iterable[int]) -> int:
    """Return the number of cells of the bags of some columns that all depend on each other."""
    return int(np.cumprod(sorted(sizes[a] for a in columns), dtype=object).sum())


class Tree:
    """A junction tree with one bag a column; bags are tables with axes in ascending columns.

    By column: its `bags`, the `parents` whose bag holds the rest of that bag (None for the last of
    a component), and the columns `below` it. `order` has children before parents.
    """

    def __init__(self, sizes: Sequence[int], cliques: Iterable[Clique]) -> None:
        self.sizes = tuple(sizes)
        steps = [step[:2] for step in eliminate(sizes, cliques)]
        self.order = [v for v, _ in steps]
        self.place = {v: i for i, v in enumerate(self.order)}
        self.bags: list[Clique] = [()] * len(self.sizes)
        self.parents: list[int | None] = [None] * len(self.sizes)
        self.children: list[list[int]] = [[] for _ in self.sizes]
        below: list[set[int]] = [{v} for v in range(len(self.sizes))]
        for v, bag in steps:
            self.bags[v] = tuple(sorted(bag))
            if rest := bag - {v}:
                parent = self.first(rest)
                self.parents[v] = parent
                self.children[parent].append(v)
                below[parent] |= below[v]
        self.below = [frozenset(columns) for columns in below]
        self.n_cells = sum(math.prod(self.shape(bag)) for bag in self.bags)
        self.around = [b.union(bag) for b, bag in zip(self.below, self.bags, strict=True)]
        self._places = [self._place(v) for v in range(len(self.sizes))]

    def first(self, columns: Iterable[int]) -> int:
        """Return the column that is eliminated first; its bag holds the others if any bag does."""
        return min(columns, key=self.place.__getitem__)

    def shape(self, columns: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of a table of some columns."""
        return tuple(self.sizes[a] for a in columns)

    def tables(self, cells: Floats) -> list[Floats]:
        """Return the tables of all bags as views of one array."""
        ends = np.cumsum([math.prod(self.shape(bag)) for bag in self.bags])
        parts = np.split(cells, ends[:-1]) if self.bags else []
        return [part.reshape(self.shape(bag)) for part, bag in zip(parts, self.bags, strict=True)]

    def where(self, clique: Clique) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """Return whose bag holds a clique, its shape that broadcasts there, and the other axes."""
        v = self.first(clique)
        wide = tuple(self.sizes[a] if a in clique else 1 for a in self.bags[v])
        return v, wide, tuple(i for i, a in enumerate(self.bags[v]) if a not in clique)

    def _place(self, v: int) -> tuple[int, Any, tuple[int, ...]]:
        """Return v's axis in its bag, where the rest of the bag lies in the parent's, its shape."""
        rest = tuple(a for a in self.bags[v] if a != v)
        own = tuple(self.sizes[a] if a != v else 1 for a in self.bags[v])
        return self.bags[v].index(v), self.where(rest) if rest else None, own

    def log_conditionals(self, beliefs: list[Floats]) -> float:
        """Turn the potentials of bags into log p(v | rest of v's bag), in place; by column.

        The distribution is proportional to exp(sum of potentials). Returns the log normaliser.
        """
        total = 0.0
        for v in self.order:
            axis, above, _ = self._places[v]
            belief = beliefs[v]
            top = np.maximum.reduce(belief, axis=axis, keepdims=True)
            message = np.add.reduce(np.exp(belief - top), axis=axis, keepdims=True)
            np.log(message, out=message)
            message += top
            belief -= message
            if above is None:
                total += message.item()
            else:
                parent, wide, _ = above
                beliefs[parent] += message.reshape(wide)
        return total

    def joints(self, conditionals: Sequence[Floats]) -> list[Floats]:
        """Return the joint distribution of every bag from its column's conditional one."""
        joints = list(conditionals)
        for v in reversed(self.order):
            _, above, own = self._places[v]
            if above is not None:
                parent, _, gone = above
                joints[v] = np.add.reduce(joints[parent], axis=gone).reshape(own) * conditionals[v]
        return joints


class Model:
    """A distribution over all columns, proportional to exp(sum of `potentials`).

    `potentials` has one flat table a clique. By column, `conditionals` is its distribution given
    the rest of its bag, `joints` that of the bag.
    """

    def __init__(self, tree: Tree, potentials: Mapping[Clique, Floats]) -> None:
        self.tree = tree
        self.potentials = dict(potentials)
        logs = [np.zeros(tree.shape(bag)) for bag in tree.bags]
        for clique, table in potentials.items():
            v, wide, _ = tree.where(clique)
            logs[v] += table.reshape(wide)
        self.log_normaliser = tree.log_conditionals(logs)
        self.conditionals = [np.exp(log) for log in logs]
        self.joints = tree.joints(self.conditionals)
        self._messages: dict[tuple[int, frozenset[int]], tuple[Clique, Floats]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_messages": {}}

    def _tops(self, columns: Iterable[int]) -> Iterator[tuple[int, frozenset[int]]]:
        """Return, for every component, the lowest bag that some columns lie in or below."""
        tree, remaining = self.tree, frozenset(columns)
        while remaining:
            root = v = tree.first(remaining)
            while (parent := tree.parents[root]) is not None:
                root = parent
            here = remaining & tree.below[root]
            while (parent := tree.parents[v]) is not None and not here <= tree.around[v]:
                v = parent
            yield v, here
            remaining -= here

    def work(self, columns: Iterable[int]) -> tuple[int, int]:
        """Return the cells of the largest table, and of all, that `marginal` makes for columns.

        The second number plus the tree's cells is about a bound on a tree with these columns in a
        bag: its bags are those here, with the columns of a message.
        """
        tree = self.tree
        scopes = [frozenset(columns)]
        for top, here in self._tops(columns):
            scopes.append(here.union(tree.bags[top]))
            for a in here:  # every bag on the way up carries the columns below it
                v: int | None = a
                while v is not None and v not in tree.bags[top]:
                    scopes.append((here & tree.below[v]).union(tree.bags[v]))
                    v = tree.parents[v]
        cells = [math.prod(tree.sizes[a] for a in scope) for scope in scopes]
        return max(cells), sum(cells) + clique_size(tree.sizes, scopes[0])

    def marginal(self, columns: Iterable[int]) -> Floats:
        """Return the flat table of any columns, ascending; messages are cached for later calls."""
        scope: Clique = ()
        table: Floats = np.ones(())
        for v, here in self._tops(columns):
            part = _product([(self.tree.bags[v], self.joints[v]), *self._from_below(v, here)], here)
            scope, table = _product([(scope, table), part], {*scope, *here})
        return table.reshape(-1)

    def _from_below(self, v: int, columns: frozenset[int]) -> list[tuple[Clique, Floats]]:
        """Return the messages to v's bag that carry these columns."""
        inside = ((c, columns & self.tree.below[c]) for c in self.tree.children[v])
        return [self._message(c, some) for c, some in inside if some]

    def _message(self, v: int, columns: frozenset[int]) -> tuple[Clique, Floats]:
        """Return the table of some columns below v given the rest of v's bag."""
        key = (v, columns)
        if key not in self._messages:
            bag = self.tree.bags[v]
            parts = [(bag, self.conditionals[v]), *self._from_below(v, columns)]
            self._messages[key] = _product(parts, (set(bag) - {v}) | columns)
        return self._messages[key]

    def fractions(self, codes: NDArray) -> Floats:
        """Return the probability of each row of codes, shape (n, n_columns)."""
        result = np.ones(len(codes))
        for v, bag in enumerate(self.tree.bags):
            result *= self.conditionals[v][tuple(codes[:, a] for a in bag)]
        return result

    def sample(self, n: int, rng: Any) -> NDArray[np.int64]:
        """Return the codes of n rows, shape (n, n_columns), each from the model's distribution.

        Rows with the same values so far share the next column's values out as evenly as chance
        allows, so tables of the sample are nearer to the model's than those of independent rows.
        """
        tree = self.tree
        codes = np.zeros((n, len(tree.sizes)), dtype=np.int64)
        for v in reversed(tree.order):
            table = np.moveaxis(self.conditionals[v], tree.bags[v].index(v), -1)
            below = np.cumsum(table.reshape(-1, tree.sizes[v]), axis=1)[:, :-1]
            given = np.zeros(n, dtype=np.int64)
            for a in tree.bags[v]:
                if a != v:
                    given = given * tree.sizes[a] + codes[:, a]
            order = rng.permutation(n)
            order = order[np.argsort(given[order], kind="stable")]
            group = given[order]
            count = np.bincount(group, minlength=len(below))
            rank = np.arange(n) - (np.cumsum(count) - count)[group]
            # The k-th of m rows of a group draws from the k-th of m equal parts of [0, 1).
            place = (rank + rng.uniform(size=n)) / count[group]
            # One search for all groups: group g has the interval [g, g + 1).
            edges = (below + np.arange(len(below))[:, None]).reshape(-1)
            drawn = np.searchsorted(edges, group + place, side="right") - group * below.shape[1]
            codes[order, v] = np.clip(drawn, 0, tree.sizes[v] - 1)
        return codes


def _product(parts: Sequence[tuple[Clique, Floats]], keep: Iterable[int]) -> tuple[Clique, Floats]:
    """Multiply tables and sum out all columns but `keep`; return (columns, table)."""
    wanted = set(keep)
    scope, table = parts[0]
    for i, (other, factor) in enumerate(parts[1:], start=1):
        later = {a for columns, _ in parts[i + 1 :] for a in columns}
        names = sorted({*scope, *other})
        number = {a: k for k, a in enumerate(names)}
        out = tuple(a for a in names if a in wanted or a in later)
        axes: list[Any] = [[number[a] for a in columns] for columns in (scope, other, out)]
        operands: list[Any] = [table, axes[0], factor, axes[1], axes[2]]
        table, scope = np.einsum(*operands), out
    gone = tuple(i for i, a in enumerate(scope) if a not in wanted)
    return tuple(a for a in scope if a in wanted), table.sum(axis=gone) if gone else table


def fit_model(
    sizes: Sequence[int],
    tables: Mapping[Clique, tuple[Floats, float]],
    total: float,
    *,
    start: Mapping[Clique, Floats] | None = None,
    smoothing: float = 1.0,
    max_iter: int = 100,
) -> Model:
    """Fit the distribution near to measured tables that is otherwise as even as possible.

    Minimises sum |total p_S - y_S|^2 / (2 std_S^2) + smoothing * KL(p | uniform) over all
    distributions p: a product of exponentials of one table a clique, which L-BFGS finds by the
    smooth, strongly concave dual. `tables` has (flat table in rows, standard deviation of its
    noise) by clique; `total` is the number of rows; `start` has potentials to begin with.
    """
    tree, cliques = Tree(sizes, tables), list(tables)
    ends = np.cumsum([0, *(tables[s][0].size for s in cliques)])
    parts = [slice(a, b) for a, b in pairwise(ends)]
    places = [tree.where(s) for s in cliques]
    shares = np.concatenate([np.zeros(0), *(tables[s][0] for s in cliques)]) / total
    ridge = np.zeros(ends[-1])
    for s, part in zip(cliques, parts, strict=True):
        # A table without noise would leave the dual without curvature in its directions.
        ridge[part] = smoothing * max(tables[s][1] / total, 1e-9) ** 2
    # In these units the dual bends about equally in all directions that belong to one cell.
    unit = 1 / np.sqrt(ridge + np.maximum(shares, 0.0))
    cells = np.zeros(tree.n_cells)  # of all bags, used again in each step
    beliefs, conditionals = tree.tables(cells), tree.tables(chances := np.zeros(tree.n_cells))

    def dual(z: Floats) -> tuple[float, Floats]:
        x = unit * z
        cells.fill(0.0)
        for part, (v, wide, _) in zip(parts, places, strict=True):
            beliefs[v] += x[part].reshape(wide)
        value = tree.log_conditionals(beliefs)
        np.exp(cells, out=chances)
        joints = tree.joints(conditionals)
        gradient = ridge * x
        value += float(x @ (0.5 * gradient - shares))
        gradient -= shares
        for part, (v, _, gone) in zip(parts, places, strict=True):
            gradient[part] += np.add.reduce(joints[v], axis=gone).reshape(-1)
        return value, unit * gradient

    x0 = np.zeros(ends[-1])
    for s, part in zip(cliques, parts, strict=True):
        if start is not None and s in start:
            x0[part] = start[s]
    options = {"maxiter": max_iter, "maxcor": 60}  # memory pays: tables overlap
    result = minimize(dual, x0 / unit, jac=True, method="L-BFGS-B", options=options)
    potentials = unit * result.x
    return Model(tree, {s: potentials[part] for s, part in zip(cliques, parts, strict=True)})


def nearest_distribution(values: Floats) -> Floats:
    """Return the distribution that is nearest to some numbers, in the sum of squares.

    Examples
    --------
    >>> nearest_distribution(np.array([0.7, 0.5, -0.2])).round(3).tolist()
    [0.6, 0.4, 0.0]
    """
    descending = np.sort(values)[::-1]
    excess = (np.cumsum(descending) - 1) / np.arange(1, values.size + 1)
    return np.maximum(values - excess[np.flatnonzero(descending > excess)[-1]], 0.0)


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
# Of all rows: the weight of evenness beside that of the measurements. Models trained on synthetic
# rows gain by more of it, because a small class has small counts in noise; answers do not.
SMOOTHING, SMOOTHING_OF_TARGETS = 5e-4, 3e-3
ITERATIONS = 50, 400  # in a round, and at the end
# The larger table, which comes last. Pairs and single columns do not show a dependence of three or
# more columns, such as a parity; no round would choose its table for the pairs in it.
KEPT = Fraction(1, 25)  # of the allowance: a quarter for the choice, the rest for the table
LARGER_NOISE = 0.1  # of all rows: its noise, in L1, at most
NEWS = 0.05  # of all rows: its distance beyond noise and sampling error, at least
MOST_COLUMNS, MOST_COLUMNS_OF_TARGETS = 24, 50
MAX_LARGER, MAX_READ = 20_000, 2**29  # sets; cells of rows that are read to count their tables
# At the end: sweeps over single columns, the L1 distance that needs none, and what stands for 0.
SWEEPS, MET, LEAST_FRACTION = 2, 1e-4, 1e-9
LEAST_STD = 0.1  # rows: counts are whole numbers, so less noise than this is none
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

    def _count_again(self) -> float:
        """Return the number of rows, estimated from its release and from all tables, if private."""
        if self.session.adjacency == "replace_one":
            return self.counted
        stds = [max(Allowance.left(self.session, COUNT).cell_std, LEAST_STD)]
        stds += [std * math.sqrt(table.size) for table, std in self.measured.values()]
        counts = [self.counted, *(table.sum() for table, _ in self.measured.values())]
        return max(float(np.average(counts, weights=np.array(stds) ** -2.0)), 1.0)

    def fitted(self, model: Model | None, max_iter: int) -> Model:
        """Return the distribution fitted to all measurements, starting from `model`."""
        self.total = self._count_again()
        return fit_model(
            self.sizes,
            self.measured,
            self.total,
            start=None if model is None else model.potentials,
            smoothing=(SMOOTHING if self.target is None else SMOOTHING_OF_TARGETS) * self.total,
            max_iter=max_iter,
        )

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
        return self.polished(self.fitted(model, ITERATIONS[1]))

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
        worst = WorstMarginal(self._workload, tables, penalties)
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
        tables = []
        penalties = np.full(len(sets), FORBIDDEN)
        for i, s in enumerate(sets):
            largest, together = model.work(s)
            fits = model.tree.n_cells + together <= limit
            if largest <= MAX_WORK and (
                fits or tree_size(self.sizes, [*self.measured, s]) <= limit
            ):
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
            choice = WorstMarginal(workload, tables, penalties, none=True)
            chosen = self.session.answer(choice, share / 4, name="choice of a larger table")
            self.spent += share / 4
            if chosen is not None:
                self.measure(sets[chosen], share * 3 / 4)

    def polished(self, model: Model) -> Model:
        """Return the distribution with the best estimates of single columns.

        A fit ends before the tables of single columns are met where there is little noise. Each is
        set to the mean of all tables that hold its column, weighed by their noise: iterative
        proportional fitting (Deming & Stephan 1940), which keeps all other dependences.
        """
        potentials = model.potentials
        for _ in range(SWEEPS):
            for s in [s for s in potentials if len(s) == 1]:
                wanted = np.maximum(self._column(s[0]), LEAST_FRACTION)
                found = np.maximum(model.marginal(s), LEAST_FRACTION)
                if np.abs(wanted - found).sum() > MET:
                    potentials = {**potentials, s: potentials[s] + np.log(wanted / found)}
                    model = Model(model.tree, potentials)
        return model

    def _column(self, a: int) -> Floats:
        """Return the fractions of a column's values, estimated from all tables that hold it."""
        total, weights = np.zeros(self.sizes[a]), 0.0
        for s, (table, std) in self.measured.items():
            if a in s:
                shape = tuple(self.sizes[b] for b in s)
                gone = tuple(i for i, b in enumerate(s) if b != a)
                weight = 1 / (std**2 * self.cells(s) / self.sizes[a])
                total += weight * table.reshape(shape).sum(axis=gone)
                weights += weight
        return nearest_distribution(total / weights / self.total)


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


@documented
class DPMarginalSynthesizer(ReleaserMixin, LearningMixin, BaseEstimator):
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
    epsilon : float, default=1.0
    delta : float or None, default=None
    {fit}

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
    domain_source_ : dict
        By column, where its values come from: "stated", "type", "learned numbers" or "selected
        categories".
    learned_ranges_ : dict
        By column of learned numbers or dates: its learned bounds (`low`, `high`), up to where the
        released counts are clear of noise (`clear_low`, `clear_high`), the noisy number of rows
        beyond, with the standard deviation of its noise (`outer_low`, `outer_high`), and what the
        fit warned of (`doubts`).
    {fitted}

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
    *Charged*: at most (epsilon, delta), once, before any noise, to ``budget``.

    **Domains that are not stated** are learned for 15% of the allowance (30% with few rows), with
    an equal part for each such column. For text and other categories: the values that enough rows
    have, by private selection (`skdp.queries.SelectKeys`; ``delta``, or half of it beside Gaussian
    noise, covers values that only one row has; a row has one key in each column). Missing values
    count as one value; all other values become "other" (None among numbers). For numbers and dates:
    bounds as with `bounds="private"`, quantiles within them, and whether any values are missing; up
    to 16 bins, one of them for 0 alone. *The risk*: rare values are lost, and bounds may be far
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

    _in_parts = True
    _n_progress_tasks = 1

    database_: Any
    n_samples_: int
    measured_: list[tuple[Any, ...]]
    privacy_: PrivacyCertificate

    def __init__(
        self,
        queries: Any = None,
        *,
        domain: Any = None,
        categories: str = "private",
        max_cells: int = 2**16,
        epsilon: float = 1.0,
        delta: float | None = None,
        max_rows_per_unit: Any = "private",
        budget: PrivacyBudget | None = None,
        random_state: Any = None,
    ) -> None:
        self.queries = queries
        self.domain = domain
        self.categories = categories
        self.max_cells = max_cells
        self.epsilon = epsilon
        self.delta = delta
        self.max_rows_per_unit = max_rows_per_unit
        self.budget = budget
        self.random_state = random_state

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

        Returns
        -------
        self : DPMarginalSynthesizer
        """
        with self._all_or_nothing(groups):
            X, domain = self._open_domain(X)
            max_cells = int(self.max_cells)
            sets = list(_sets_of(self.queries, domain))
            candidate_sets(sets, domain.sizes, max_cells)  # every refusal comes before the charge
            rows = self._open_coded(X)
            names = domain.names or range(domain.n_columns)
            delta, separate = self._deltas(domain.n_columns)
            with self._session(rows, delta=delta, separate_delta=separate) as session:
                total = row_count(session, COUNT)
                self.domain_ = domain = self._learn(session, self._plans, domain, total)
                candidates = candidate_sets(sets, domain.sizes, max_cells, strict=False)
                rounds = Rounds(session, domain.sizes, candidates, max_cells, names, total)
                self._model = rounds.run()
                self.privacy_ = session.certificate()
                rng = session.post_processing_rng()
            self.measured_ = by_label(sorted(rounds.measured, key=_by_size), domain)
            self.n_samples_ = int(min(round(rounds.total), MAX_DATABASE))
            self.database_ = self._table(self._model.sample(self.n_samples_, rng), rng)
        return self

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
