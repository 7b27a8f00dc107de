"""Distributions with few direct dependences: fitted to noisy tables, and how far off they are.

`Tree` and `Model` hold a distribution over all columns, `fit_model` fits it, and `Measurements` are
the noisy tables. `AnswerErrors` compares both. No row is seen here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import accumulate, combinations, pairwise
from operator import mul
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.utils import check_random_state

from skdp.queries import Workload

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


class Elimination:
    """Columns in the order of elimination: iterates over (column, its bag, cells of the bag)."""

    def __init__(self, sizes: Sequence[int], cliques: Iterable[Clique] = ()) -> None:
        self.sizes = sizes
        self.neighbours = [frozenset([a]) for a in range(len(sizes))]
        self.cells = list(sizes)  # of the bags; -1 once eliminated
        self.waiting: list[tuple[int, int, int]] = []
        for clique in cliques:
            for a in clique:
                self.neighbours[a] |= frozenset(clique)
        for a in range(len(sizes)):
            self.wait(a)

    def wait(self, a: int) -> None:
        """Put a column in the queue, with its bag as it is now."""
        self.cells[a] = math.prod([self.sizes[b] for b in self.neighbours[a]])
        # Of equal bags, that of the column with the most values: it leaves the smallest rest.
        heappush(self.waiting, (self.cells[a], -self.sizes[a], a))

    def with_clique(self, clique: Clique) -> Elimination:
        """Return a copy of the remaining columns, with one more clique among them."""
        copied = copy(self)
        copied.neighbours, copied.cells = self.neighbours.copy(), self.cells.copy()
        copied.waiting = self.waiting.copy()
        for a in clique:
            copied.neighbours[a] |= frozenset(clique)
            copied.wait(a)
        return copied

    def __iter__(self) -> Iterator[tuple[int, frozenset[int], int]]:
        sizes, neighbours, cells, waiting = self.sizes, self.neighbours, self.cells, self.waiting
        while waiting:
            size, _, v = heappop(waiting)  # the smallest bag next
            if size != cells[v]:
                continue  # eliminated, or its bag has changed since
            bag, cells[v] = neighbours[v], -1
            yield v, bag, size
            for a in bag - {v}:
                cells[a] //= sizes[v]
                if more := bag - neighbours[a]:
                    cells[a] *= math.prod([sizes[b] for b in more])
                    neighbours[a] |= more
                neighbours[a] -= {v}
                heappush(waiting, (cells[a], -sizes[a], a))


class Growth:
    """Whether the tree of some cliques and one more has at most `limit` cells."""

    def __init__(self, sizes: Sequence[int], cliques: Iterable[Clique], limit: int) -> None:
        self.limit = limit
        self._before: dict[int, tuple[int, int, Elimination]] = {}
        steps, total = Elimination(sizes, cliques), 0
        for place, (v, _, cells) in enumerate(steps):
            self._before[v] = place, total, steps.with_clique((v,))
            total += cells

    def fits(self, clique: Clique) -> bool:
        """Say whether the tree with this clique, too, is small enough."""
        # Only the bags of these columns grow: all columns before the first of them go as before.
        _, total, remaining = min(self._before[a] for a in clique)
        for _, _, cells in remaining.with_clique(clique):
            total += cells
            if total > self.limit:
                return False
        return True


def clique_size(sizes: Sequence[int], columns: Iterable[int]) -> int:
    """Return the number of cells of the bags of some columns that all depend on each other."""
    return sum(accumulate(sorted([sizes[a] for a in columns]), mul))


class Tree:
    """A junction tree with one bag a column; bags are tables with axes in ascending columns.

    By column: its `bags`, the `parents` whose bag holds the rest of that bag (None for the last of
    a component), these last ones as `roots`, and the columns `below` it. `order` has children
    before parents.
    """

    def __init__(self, sizes: Sequence[int], cliques: Iterable[Clique]) -> None:
        self.sizes = tuple(sizes)
        steps = [step[:2] for step in Elimination(sizes, cliques)]
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
        self.roots = list(range(len(self.sizes)))
        for v in reversed(self.order):
            if (above := self.parents[v]) is not None:
                self.roots[v] = self.roots[above]
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

    def log_conditionals(self, beliefs: list[Floats], scratch: list[Floats]) -> float:
        """Turn the potentials of bags into log p(v | rest of v's bag), in place; by column.

        The distribution is proportional to exp(sum of potentials). Returns the log normaliser.
        `scratch` has tables of the same shapes, and is overwritten.
        """
        total = 0.0
        for v in self.order:
            axis, above, _ = self._places[v]
            belief = beliefs[v]
            top = np.maximum.reduce(belief, axis=axis, keepdims=True)
            odds = np.exp(np.subtract(belief, top, out=scratch[v]), out=scratch[v])
            message = np.add.reduce(odds, axis=axis, keepdims=True)
            np.log(message, out=message)
            message += top
            belief -= message
            if above is None:
                total += message.item()
            else:
                parent, wide, _ = above
                beliefs[parent] += message.reshape(wide)
        return total

    def make_joint(self, tables: Sequence[Floats]) -> None:
        """Turn each bag's conditional distribution of its column into the joint one, in place."""
        for v in reversed(self.order):
            _, above, own = self._places[v]
            if above is not None:
                parent, _, gone = above
                rest = np.add.reduce(tables[parent], axis=gone).reshape(own)
                np.multiply(rest, tables[v], out=tables[v])


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
        self.conditionals = [np.empty(log.shape) for log in logs]
        self.log_normaliser = tree.log_conditionals(logs, self.conditionals)
        for log, chances in zip(logs, self.conditionals, strict=True):
            np.exp(log, out=chances)
        self.joints = [chances.copy() for chances in self.conditionals]
        tree.make_joint(self.joints)
        self._messages: dict[tuple[int, frozenset[int]], tuple[Clique, Floats]] = {}
        self._columns: dict[frozenset[int], tuple[Clique, Floats]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_messages": {}, "_columns": {}}

    def _tops(self, columns: Iterable[int]) -> Iterator[tuple[int, frozenset[int]]]:
        """Return, for every component, the lowest bag that some columns lie in or below."""
        tree, remaining = self.tree, frozenset(columns)
        while remaining:
            v = tree.first(remaining)
            here = remaining & tree.below[tree.roots[v]]
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
        parts = [self._part(v, here) for v, here in self._tops(columns)]
        return _product(parts, columns)[1].reshape(-1) if parts else np.ones(1)

    def _part(self, v: int, columns: frozenset[int]) -> tuple[Clique, Floats]:
        """Return the table of some columns in v's bag or below it; of single columns, once."""
        if (part := self._columns.get(columns)) is None:
            parts = [(self.tree.bags[v], self.joints[v]), *self._from_below(v, columns)]
            part = _product(parts, columns)
            if len(columns) == 1:
                self._columns[columns] = part
        return part

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
        names = sorted({*scope, *other})
        needed = wanted.union(*[columns for columns, _ in parts[i + 1 :]])
        out = tuple([a for a in names if a in needed])
        place = names.index  # einsum numbers at most 52 axes
        axes: list[Any] = [list(map(place, columns)) for columns in (scope, other, out)]
        operands: list[Any] = [table, axes[0], factor, axes[1], axes[2]]
        table, scope = np.einsum(*operands), out
    gone = tuple([i for i, a in enumerate(scope) if a not in wanted])
    if gone:
        table = np.add.reduce(table, axis=gone)
    return tuple([a for a in scope if a in wanted]), table


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
    shares = np.concatenate([np.zeros(0), *(tables[s][0] for s in cliques)]) / total
    ridge = np.zeros(ends[-1])
    for s, part in zip(cliques, parts, strict=True):
        # A table without noise would leave the dual without curvature in its directions.
        ridge[part] = smoothing * max(tables[s][1] / total, 1e-9) ** 2
    # In these units the dual bends about equally in all directions that belong to one cell.
    unit = 1 / np.sqrt(ridge + np.maximum(shares, 0.0))
    # Arrays and views of them that each step uses again: of all bags, and of all cliques.
    logs, cells = np.zeros(tree.n_cells), np.zeros(tree.n_cells)
    beliefs, chances = tree.tables(logs), tree.tables(cells)
    x, fitted = np.zeros(ends[-1]), np.zeros(ends[-1])
    raised, sums = [], []
    for s, part in zip(cliques, parts, strict=True):
        v, wide, gone = tree.where(s)
        raised.append((beliefs[v], x[part].reshape(wide)))
        sums.append((chances[v], gone, fitted[part].reshape(tree.shape(s))))

    def dual(z: Floats) -> tuple[float, Floats]:
        np.multiply(unit, z, out=x)
        logs.fill(0.0)
        for belief, table in raised:
            belief += table
        value = tree.log_conditionals(beliefs, chances)
        np.exp(logs, out=cells)
        tree.make_joint(chances)
        gradient = ridge * x
        value += float(x @ (0.5 * gradient - shares))
        for joint, gone, table in sums:
            np.add.reduce(joint, axis=gone, out=table)
        gradient -= shares
        gradient += fitted
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


# --- noisy tables, and what they say of the fitted distribution -----------------------------------

LEAST_STD = 0.1  # rows: counts are whole numbers, so less noise than this is none
# Of all rows: the weight of evenness beside that of the measurements. Models trained on synthetic
# rows gain by more of it, because a small class has small counts in noise; answers do not.
SMOOTHING, SMOOTHING_OF_TARGETS = 5e-4, 3e-3
ITERATIONS = 50, 400  # in a round, and at the end
# At the end: sweeps over single columns, the L1 distance that needs none, and what stands for 0.
SWEEPS, MET, LEAST_FRACTION = 2, 1e-4, 1e-9

REPLICATES = 10
# Of the noise of a table's cell: how far the fit may be off where replicates do not show it. They
# start from a distribution in which rare cells are rarer than among the rows.
UNSEEN = 0.3


@dataclass(frozen=True)
class Measurements:
    """Noisy tables and the number of rows.

    `tables` has (flat table in rows, standard deviation of its noise) by clique; `counted` is the
    number of rows and `counted_std` the deviation of its noise, 0 where it is public; `smoothing`
    is the weight of evenness, of all rows.
    """

    sizes: tuple[int, ...]
    tables: Mapping[Clique, tuple[Floats, float]]
    counted: float
    counted_std: float
    smoothing: float
    pure: bool

    @property
    def total(self) -> float:
        """The number of rows, if private estimated from its release and from all tables."""
        if not self.counted_std:
            return self.counted
        stds = [self.counted_std]
        stds += [std * math.sqrt(table.size) for table, std in self.tables.values()]
        counts = [self.counted, *(table.sum() for table, _ in self.tables.values())]
        return max(float(np.average(counts, weights=np.array(stds) ** -2.0)), 1.0)

    def fitted(self, model: Model | None, max_iter: int) -> Model:
        """Return the distribution fitted to the tables, starting from `model`."""
        total = self.total
        return fit_model(
            self.sizes,
            self.tables,
            total,
            start=None if model is None else model.potentials,
            smoothing=self.smoothing * total,
            max_iter=max_iter,
        )

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
        for s, (table, std) in self.tables.items():
            if a in s:
                shape = tuple(self.sizes[b] for b in s)
                gone = tuple(i for i, b in enumerate(s) if b != a)
                weight = 1 / (std**2 * math.prod(shape) / self.sizes[a])
                total += weight * table.reshape(shape).sum(axis=gone)
                weights += weight
        return nearest_distribution(total / weights / self.total)

    def consistent(self) -> Measurements:
        """Return tables that agree where they overlap: least squares by their noise.

        The fit is the same, but found in fewer steps: beside the noise that tables share, each has
        noise of its own that no distribution can follow. A table is the sum of its components, one
        for each subset of its columns, with sums of zero along each of them (as in the analysis of
        variance). Components are orthogonal, so each is averaged by itself.
        """
        sums: dict[Clique, Any] = {}
        for s, (table, std) in self.tables.items():
            for part, gone, cells in self._components(s):
                component = table.reshape([self.sizes[a] for a in s]).sum(axis=gone)
                for axis in range(len(part)):
                    component = component - component.mean(axis=axis, keepdims=True)
                weight = 1 / (std**2 * cells)
                total, weights = sums.get(part, (0.0, 0.0))
                sums[part] = total + weight * component, weights + weight
        tables = {}
        for s, (table, std) in self.tables.items():
            whole = np.zeros([self.sizes[a] for a in s])
            for part, gone, cells in self._components(s):
                total, weights = sums[part]
                whole += np.expand_dims(total / weights / cells, gone)
            tables[s] = whole.reshape(table.shape), std
        return replace(self, tables=tables)

    def _components(self, s: Clique) -> Iterator[tuple[Clique, tuple[int, ...], int]]:
        """Yield each subset of columns, the axes of the others, and how many cells these have."""
        for k in range(len(s) + 1):
            for part in combinations(s, k):
                gone = tuple(i for i, a in enumerate(s) if a not in part)
                yield part, gone, math.prod(self.sizes[s[i]] for i in gone)

    def agreeing(self, model: Model) -> Model:
        """Return the same distribution with the potentials that `consistent` tables lead to.

        At an optimum, potentials are residuals over the ridge of `fit_model`. Those of the noise
        that no distribution can follow cancel each other.
        """
        total, potentials = self.total, dict(model.potentials)
        for s, (table, std) in self.consistent().tables.items():
            ridge = self.smoothing * total * max(std / total, 1e-9) ** 2
            potentials[s] = potentials[s] - (self.tables[s][0] - table) / total / ridge
        return Model(model.tree, potentials)

    def again(self, model: Model, rng: Any) -> Measurements:
        """Return the same measurements, with fresh noise, of rows distributed as `model` says."""

        def noise(std: float, size: int) -> Any:
            return (
                rng.laplace(0, std / math.sqrt(2), size) if self.pure else rng.normal(0, std, size)
            )

        total = self.total
        tables = {
            s: (total * model.marginal(s) + noise(std, table.size), std)
            for s, (table, std) in self.tables.items()
        }
        counted = total + float(noise(self.counted_std, 1)[0])
        return replace(self, tables=tables, counted=counted)


@dataclass
class AnswerErrors:
    """How far a fitted distribution may be off, from its measurements alone.

    A parametric bootstrap (Efron & Tibshirani 1993, "An introduction to the bootstrap", Section
    6.5): the fitted distribution is measured again with fresh noise, and refitted. How far the
    refits move is the error due to noise. A fit may also be off because it cannot meet its tables:
    its distance from the noisy table then exceeds that of every refit from its own table. This is
    the misfit. Neither says anything of columns that no table holds together.
    """

    measurements: Measurements
    model: Model
    _refits: list[tuple[Model, Measurements]] = field(default_factory=list, repr=False)
    _misfits: dict[Clique, float] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_refits": [], "_misfits": {}}

    @property
    def refits(self) -> list[tuple[Model, Measurements]]:
        """Refits, each with its measurements: always the same ones, made when first needed."""
        if not self._refits:
            rng = check_random_state(0)  # protects nothing: all of this is post-processing
            start, refits = self.measurements.agreeing(self.model), []
            for _ in range(REPLICATES):
                noisy = self.measurements.again(self.model, rng)
                refit = noisy.consistent().fitted(start, ITERATIONS[1])
                refits.append((noisy.polished(refit), noisy))
            self._refits = refits
        return self._refits

    def _misfit(self, s: Clique) -> float:
        """Return the mean square of a cell's misfit, as a fraction of the rows."""

        def distance(model: Model, noisy: Measurements) -> float:
            return float(np.square(model.marginal(s) - noisy.tables[s][0] / noisy.total).mean())

        if s not in self._misfits:
            own = distance(self.model, self.measurements)
            # A refit that follows its noise is nearer to its table than the model is.
            others = [
                min(distance(refit, noisy), distance(self.model, noisy))
                for refit, noisy in self.refits
            ]
            explained = 2 * max(others) - float(np.mean(others))  # by noise, in 99% of tables
            self._misfits[s] = max(own - explained, 0.0)
        return self._misfits[s]

    def of_tables(self) -> dict[Clique, tuple[float, float]]:
        """Return the parts of the rows in a wrong cell of each measured table: noise, misfit."""
        errors = {}
        for s, (table, _) in self.measurements.tables.items():
            own = self.model.marginal(s)
            noise = np.mean([np.abs(refit.marginal(s) - own).sum() / 2 for refit, _ in self.refits])
            misfit = table.size / 2 * math.sqrt(2 / math.pi * self._misfit(s))
            errors[s] = min(float(noise), 1.0), min(misfit, 1.0)
        return errors

    def std(self, work: Workload) -> Floats:
        """Return the standard errors of answers; NaN where no measured table holds the columns."""
        sizes = {s: math.prod(work.sizes[a] for a in s) for s in work.attribute_sets}
        known = {s: self._cell_variances(s) for s in sizes}
        unknown = {s: np.zeros(sizes[s]) for s, variances in known.items() if variances is None}

        def answers(model: Model) -> Floats:
            tables = {s: model.marginal(s) for s in known if s not in unknown}
            return work.from_marginals({**unknown, **tables})

        own = answers(self.model)
        variance: Floats = np.mean([np.square(answers(m) - own) for m, _ in self.refits], axis=0)
        most, more = [], []
        for group in work.groups:
            # The sum of squares of weights in [0, 1] is at most that of the weights, and a query
            # has the error of its complement.
            size = sizes[group.attributes]
            weights = group.apply(np.ones(size)) / group.one
            weights = np.minimum(weights, size - weights)
            measured, unseen = known[group.attributes] or (math.nan, math.nan)
            most.append(measured * weights)
            more.append(unseen * weights)
        # Where the optimum is flat, refits end before it, and lie further from it than their noise.
        return np.sqrt(np.minimum(variance, np.concatenate(most)) + np.concatenate(more))

    def _cell_variances(self, s: Clique) -> tuple[float, float] | None:
        """Return the variances of a cell: of all tables that hold it, and what refits do not show.

        None if no table holds these columns.
        """
        precision, unseen = 0.0, math.inf
        for other, (table, std) in self.measurements.tables.items():
            if set(s) <= set(other):
                cells = table.size / math.prod(self.measurements.sizes[a] for a in s)
                variance = (std / self.measurements.total) ** 2
                precision += 1 / (cells * variance)
                unseen = min(unseen, cells * (self._misfit(other) + UNSEEN**2 * variance))
        return (1 / precision, unseen) if precision else None
