"""Distributions of many columns with few direct dependences: fitted to tables, asked, sampled.

Nothing private is seen here: everything is computed from a public domain and released tables.

A set of columns whose table was measured is a clique. Columns are eliminated one after the other;
the bag of a column holds it and all columns, eliminated later, that it still depends on directly.
Bags form a junction tree, and the distribution is the product of one conditional table a column:
p(x) = prod p(x_v | bag of v without v). So no table is larger than a bag, however many cells the
domain has.

References
----------
Koller & Friedman 2009, "Probabilistic graphical models", Sections 9.3 and 10.4 (elimination and
clique trees). Dudik, Phillips & Schapire 2007, "Maximum entropy density estimation with generalized
regularization", Section 3 (the relaxed fit and its dual). McKenna, Sheldon & Miklau 2019,
"Graphical-model based estimation and inference for differential privacy", Section 4.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Clique = tuple[int, ...]
Floats = NDArray[np.float64]


def eliminate(sizes: Sequence[int], cliques: Iterable[Clique]) -> list[tuple[int, frozenset[int]]]:
    """Return (column, its bag) in the order of elimination: always the smallest bag next.

    Parameters
    ----------
    sizes : sequence of int
        Numbers of values of the columns.
    cliques : iterable of tuple of int
        Sets of columns that some bag must hold.
    """
    near: list[set[int]] = [set() for _ in sizes]
    for clique in cliques:
        for a in clique:
            near[a].update(clique)
    for a, around in enumerate(near):
        around.add(a)
    cost = [math.prod(sizes[b] for b in around) for around in near]
    left = set(range(len(sizes)))
    order = []
    while left:
        v = min(left, key=lambda a: (cost[a], -sizes[a], a))
        left.remove(v)
        bag = near[v]
        order.append((v, frozenset(bag)))
        for a in bag - {v}:
            near[a] = (near[a] | bag) - {v}
            cost[a] = math.prod(sizes[b] for b in near[a])
    return order


def tree_size(sizes: Sequence[int], cliques: Iterable[Clique]) -> int:
    """Return the number of cells of all bags of the tree that holds these cliques."""
    return sum(math.prod(sizes[a] for a in bag) for _, bag in eliminate(sizes, cliques))


def clique_size(sizes: Sequence[int], columns: Iterable[int]) -> int:
    """Return the number of cells of the bags of some columns that all depend on each other."""
    return int(np.cumprod(sorted(sizes[a] for a in columns), dtype=object).sum())


class Tree:
    """A junction tree with one bag a column; bags are tables with axes in ascending columns.

    Parameters
    ----------
    sizes : sequence of int
    cliques : iterable of tuple of int

    Attributes
    ----------
    order : list of int
        Columns in the order of elimination: children before parents.
    bags : list of tuple of int
        By column.
    parents : list of int or None
        By column: whose bag holds the rest of its bag; None for the last of a component.
    """

    def __init__(self, sizes: Sequence[int], cliques: Iterable[Clique]) -> None:
        self.sizes = tuple(sizes)
        steps = eliminate(sizes, cliques)
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
        self._up = [self._place(v) for v in range(len(self.sizes))]

    def _place(self, v: int) -> tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Return where v is in its bag, and how the rest of the bag lies in the parent's and in it.

        The last three: the shape that broadcasts to the parent's bag, the axes to sum out of it,
        and the shape that broadcasts to v's own bag.
        """
        bag, parent = self.bags[v], self.parents[v]
        above = () if parent is None else self.bags[parent]
        rest = [a for a in bag if a != v]
        wide = tuple(self.sizes[a] if a in rest else 1 for a in above)
        gone = tuple(i for i, a in enumerate(above) if a not in rest)
        own = tuple(self.sizes[a] if a != v else 1 for a in bag)
        return bag.index(v), wide, gone, own

    def first(self, columns: Iterable[int]) -> int:
        """Return the column that is eliminated first; its bag holds the others if any bag does."""
        return min(columns, key=self.place.__getitem__)

    def shape(self, columns: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of a table of some columns."""
        return tuple(self.sizes[a] for a in columns)

    def where(self, clique: Clique) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """Return whose bag holds a clique, its shape that broadcasts there, and the other axes."""
        v = self.first(clique)
        wide = tuple(self.sizes[a] if a in clique else 1 for a in self.bags[v])
        return v, wide, tuple(i for i, a in enumerate(self.bags[v]) if a not in clique)

    def log_conditionals(self, beliefs: list[Floats]) -> float:
        """Turn the potentials of bags into log p(v | rest of v's bag), in place.

        Parameters
        ----------
        beliefs : list of ndarray
            By column; the distribution is proportional to the exponential of their sum.

        Returns
        -------
        log_normaliser : float
        """
        total = 0.0
        for v in self.order:
            axis, wide, _, _ = self._up[v]
            belief = beliefs[v]
            top = belief.max(axis=axis, keepdims=True)
            message = np.exp(belief - top).sum(axis=axis, keepdims=True)
            np.log(message, out=message)
            message += top
            belief -= message
            parent = self.parents[v]
            if parent is None:
                total += message.item()
            else:
                beliefs[parent] += message.reshape(wide)
        return total

    def joints(self, conditionals: Sequence[Floats]) -> list[Floats]:
        """Return the joint distribution of every bag from its column's conditional one."""
        found: list[Floats] = [np.zeros(0)] * len(self.sizes)
        for v in reversed(self.order):
            parent = self.parents[v]
            if parent is None:
                found[v] = conditionals[v]
            else:
                _, _, gone, own = self._up[v]
                found[v] = found[parent].sum(axis=gone).reshape(own) * conditionals[v]
        return found


class Model:
    """A distribution over all columns as a product of conditional tables.

    Parameters
    ----------
    tree : Tree
    potentials : mapping from clique to flat table
        The distribution is proportional to the exponential of their sum.

    Attributes
    ----------
    conditionals, joints : list of ndarray
        By column: its distribution given the rest of its bag, and that of the whole bag.
    log_normaliser : float
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
        tree, left = self.tree, frozenset(columns)
        while left:
            root = v = tree.first(left)
            while (parent := tree.parents[root]) is not None:
                root = parent
            here = left & tree.below[root]
            while (parent := tree.parents[v]) is not None and not here <= tree.around[v]:
                v = parent
            yield v, here
            left -= here

    def work(self, columns: Iterable[int]) -> tuple[int, int]:
        """Return the cells of the largest table, and of all, that `marginal` makes for columns.

        The second number and the cells of all bags are together about a bound on the tree that has
        these columns in a bag, too: its bags are those here, with what a message carries.
        """
        tree = self.tree
        scopes = [frozenset(columns)]
        for top, here in self._tops(columns):
            scopes.append(here.union(tree.bags[top]))
            for a in here:  # every bag on the way up carries what was below it
                v: int | None = a
                while v is not None and v not in tree.bags[top]:
                    scopes.append((here & tree.below[v]).union(tree.bags[v]))
                    v = tree.parents[v]
        cells = [math.prod(tree.sizes[a] for a in scope) for scope in scopes]
        return max(cells), sum(cells) + clique_size(tree.sizes, scopes[0])

    def marginal(self, columns: Iterable[int]) -> Floats:
        """Return the flat table of any columns, ascending.

        Messages that carry some of the columns towards the root are kept for later questions.
        """
        scope: Clique = ()
        found: Floats = np.ones(())
        for v, here in self._tops(columns):
            parts = [(self.tree.bags[v], self.joints[v]), *self._from_below(v, here)]
            part = _product(parts, here)
            scope, found = _product([(scope, found), part], {*scope, *here})
        return found.reshape(-1)

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
            keep = (set(bag) - {v}) | columns
            self._messages[key] = _product(parts, keep)
        return self._messages[key]

    def fractions(self, codes: NDArray) -> Floats:
        """Return the probability of each row of codes, shape (n, n_columns)."""
        found = np.ones(len(codes))
        for v, bag in enumerate(self.tree.bags):
            found *= self.conditionals[v][tuple(codes[:, a] for a in bag)]
        return found

    def sample(self, n: int, rng: Any) -> NDArray[np.int64]:
        """Return the codes of n rows, shape (n, n_columns).

        Each row has the model's distribution. Rows with the same values so far share the next
        column's values out as evenly as chance allows, so that tables of the sample are nearer to
        the model's than those of independent rows.

        Parameters
        ----------
        rng : RandomState or Generator
        """
        tree = self.tree
        codes = np.zeros((n, len(tree.sizes)), dtype=np.int64)
        for v in reversed(tree.order):
            rest = [a for a in tree.bags[v] if a != v]
            table = np.moveaxis(self.conditionals[v], tree.bags[v].index(v), -1)
            below = np.cumsum(table.reshape(-1, tree.sizes[v]), axis=1)[:, :-1]
            given = np.zeros(n, dtype=np.int64)
            for a in rest:
                given = given * tree.sizes[a] + codes[:, a]
            order = rng.permutation(n)
            order = order[np.argsort(given[order], kind="stable")]
            group = given[order]
            count = np.bincount(group, minlength=len(below))
            rank = np.arange(n) - (np.cumsum(count) - count)[group]
            place = (rank + rng.uniform(size=n)) / count[group]
            # One search for all groups: group g has the interval [g, g + 1).
            edges = (below + np.arange(len(below))[:, None]).reshape(-1)
            drawn = np.searchsorted(edges, group + place, side="right") - group * below.shape[1]
            codes[order, v] = np.clip(drawn, 0, tree.sizes[v] - 1)
        return codes


def _product(parts: Sequence[tuple[Clique, Floats]], keep: Iterable[int]) -> tuple[Clique, Floats]:
    """Multiply tables and sum out all columns but some; return (columns, table)."""
    kept = set(keep)
    scope, found = parts[0]
    for i, (other, table) in enumerate(parts[1:], start=1):
        later = {a for columns, _ in parts[i + 1 :] for a in columns}
        names = sorted({*scope, *other})
        number = {a: k for k, a in enumerate(names)}
        out = tuple(a for a in names if a in kept or a in later)
        axes: list[Any] = [[number[a] for a in columns] for columns in (scope, other, out)]
        operands: list[Any] = [found, axes[0], table, axes[1], axes[2]]
        found = np.einsum(*operands)
        scope = out
    gone = tuple(i for i, a in enumerate(scope) if a not in kept)
    if gone:
        found = found.sum(axis=gone)
    return tuple(a for a in scope if a in kept), found


def fit_model(
    sizes: Sequence[int],
    tables: Mapping[Clique, tuple[Floats, float]],
    total: float,
    *,
    start: Mapping[Clique, Floats] | None = None,
    smoothing: float = 1.0,
    max_iter: int = 100,
) -> Model:
    """Fit the distribution that comes near to measured tables and is otherwise as even as possible.

    Minimises sum |total p_S - y_S|^2 / (2 std_S^2) + smoothing * KL(p | uniform) over all
    distributions p. The minimiser is a product of exponentials of one table a clique; these solve
    the dual problem, which is smooth and strongly concave, and which L-BFGS solves.

    Parameters
    ----------
    sizes : sequence of int
    tables : mapping from clique to (flat table in rows, standard deviation of its noise)
    total : float
        Number of rows, or its estimate.
    start : mapping from clique to flat table, default=None
        Potentials to begin with.
    smoothing : float
        Above 0: the weight of evenness.
    max_iter : int

    Returns
    -------
    model : Model
    """
    tree = Tree(sizes, tables)
    cliques = list(tables)
    ends = np.cumsum([0, *(tables[s][0].size for s in cliques)])
    parts = [slice(a, b) for a, b in pairwise(ends)]
    places = [tree.where(s) for s in cliques]
    shares = np.concatenate([np.zeros(0), *(tables[s][0] for s in cliques)]) / total
    ridge = np.zeros(ends[-1])
    for s, part in zip(cliques, parts, strict=True):
        ridge[part] = smoothing * max(tables[s][1] / total, 1e-9) ** 2

    # In these units the dual bends about equally in all directions that belong to one cell.
    unit = 1 / np.sqrt(ridge + np.maximum(shares, 0.0))

    def dual(z: Floats) -> tuple[float, Floats]:
        x = unit * z
        beliefs = [np.zeros(tree.shape(bag)) for bag in tree.bags]
        for part, (v, wide, _) in zip(parts, places, strict=True):
            beliefs[v] += x[part].reshape(wide)
        value = tree.log_conditionals(beliefs)
        joints = tree.joints([np.exp(log) for log in beliefs])
        gradient = ridge * x
        value += float(x @ (0.5 * gradient - shares))
        gradient -= shares
        for part, (v, _, gone) in zip(parts, places, strict=True):
            gradient[part] += joints[v].sum(axis=gone).reshape(-1)
        return value, unit * gradient

    x0 = np.zeros(ends[-1])
    for s, part in zip(cliques, parts, strict=True):
        if start is not None and s in start:
            x0[part] = start[s]
    options = {"maxiter": max_iter, "maxcor": 60}  # memory pays: tables overlap
    result = minimize(dual, x0 / unit, jac=True, method="L-BFGS-B", options=options)
    found = unit * result.x
    return Model(tree, {s: found[part] for s, part in zip(cliques, parts, strict=True)})
