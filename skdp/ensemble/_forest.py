"""A private random forest: `DPRandomForestClassifier`.

A fit releases bounds, unless stated; the number of rows of each class and of each cell of each
column; and the number of rows of each class in each leaf of trees whose splits are drawn at random
among those cells.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from skdp.base.batch_invariant import row_sums
from skdp.base.classifiers import Floats, LabelledClassifier, class_counts
from skdp.budget import PrivacyBudget
from skdp.core import Session
from skdp.ensemble._boosting import even_cuts
from skdp.parameters import MOST_NUMBERS, Integers, Table, check_size
from skdp.planning import Allowance
from skdp.queries import ColumnCells, Labelled, Leaves, SplitTrees, row_counts

__all__ = ["DPRandomForestClassifier"]

_CELLS, _CELLS_SHARE, _CELL_NOISE = 64, 0.1, 2.0
_TREES, _PURE_TREES = 100, 10
_LEAF_NOISE, _DEEPEST = 4.0, 10  # rows of a leaf, at least, in standard errors of its count
_PRIOR = 4.0  # weight of the shares of the classes in each leaf, in standard errors of a count


def random_trees(
    rng: np.random.Generator, cells: ColumnCells, counts: Floats, n_trees: int, depth: int
) -> SplitTrees:
    """Draw splits, each at a random row of a random column that has two cells with rows.

    A node without such a column sends all rows to the left.
    """
    # Cumulative counts of rows, and of cells with rows, for each column.
    starts, inner = cells.starts, 2**depth - 1
    d, widest = len(cells.cuts), max(cells.sizes)
    rows = np.zeros((d, widest + 1))
    filled = np.zeros((d, widest + 1), dtype=np.int64)
    for j, size in enumerate(cells.sizes):
        own = counts[starts[j] : starts[j + 1]]
        rows[j, 1 : size + 1] = np.cumsum(own)
        filled[j, 1 : size + 1] = np.cumsum(own > 0)
    rows, filled = (np.maximum.accumulate(sums, axis=1) for sums in (rows, filled))
    all_columns = np.arange(d)
    columns = np.zeros((n_trees, inner), dtype=np.int64)
    cuts = np.full((n_trees, inner), math.inf)
    for tree in range(n_trees):
        low = np.zeros((2 * inner + 1, d), dtype=np.int64)
        high = np.zeros_like(low)
        high[0] = cells.sizes
        for node in range(inner):
            left, right = 2 * node + 1, 2 * node + 2
            low[left] = low[right] = low[node]
            high[left] = high[right] = high[node]
            able = np.flatnonzero(
                filled[all_columns, high[node]] - filled[all_columns, low[node]] > 1
            )
            if not able.size:
                high[right] = low[node]  # no rows
                continue
            j = int(able[rng.integers(able.size)])
            a, b = int(low[node, j]), int(high[node, j])
            row = rng.uniform(rows[j, a], rows[j, b])
            place = int(np.searchsorted(rows[j, a + 1 : b + 1], row)) + a + int(rng.integers(2))
            # A cut after the first cell with rows and before the last leaves rows on both sides.
            first = int(np.searchsorted(filled[j], filled[j, a], side="right"))
            last = int(np.searchsorted(filled[j], filled[j, b])) - 1
            place = min(max(place, first), last)
            columns[tree, node], cuts[tree, node] = j, cells.cuts[j][place - 1]
            high[left, j] = low[right, j] = place
    return SplitTrees(columns, cuts, d)


class DPRandomForestClassifier(LabelledClassifier):
    """A forest of trees whose splits are drawn at random, with private counts in their leaves.

    The private counterpart of scikit-learn's ``ExtraTreesClassifier(max_features=1)``: splits do
    not depend on the labels, so most of the allowance is left for the leaves. If each column is
    informative by itself, `DPExplainableBoostingClassifier` is more accurate.

    Parameters
    ----------
    n_estimators : int or "auto", default="auto"
        Number of trees, in [1, 1000]. ``"auto"`` takes 100 if `delta` is above 0, otherwise 10.
        The noise grows with the number of trees (with its square root if noise is Gaussian).
    max_depth : int or "auto", default="auto"
        Number of splits from root to leaf, in [1, 10]. ``"auto"`` takes the largest number at which
        the average leaf still has four standard errors of its count, by the released number of
        rows.
    classes : "private" or array-like of shape (n_classes,), default="private"
    bounds : "private" or tuple (low, high) or mapping, default="private"
    epsilon : float, default=1.0
    delta : float or None, default=None
    max_rows_per_unit : int or "private", default="private"
    budget : PrivacyBudget or None, default=None
    random_state : int, RandomState or None, default=None
        ... The splits are drawn from it, too.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    class_count_ : ndarray of shape (n_classes,)
        Noisy number of rows of each class, at least 1.
    n_estimators_, max_depth_ : int
        Number of trees, and their depth.
    split_columns_, split_cuts_ : ndarray of shape (n_estimators_, 2**max_depth_ - 1)
        For each inner node, the column that it splits and the cut, in the units of X. The root
        comes first, then the nodes level by level. Values of at least the cut go right; a cut of
        infinity sends all rows left.
    leaf_count_ : ndarray of shape (n_classes, n_estimators_, 2**max_depth_)
        Noisy number of rows of each class in each leaf, from left to right. It may be negative.
    leaf_count_std_error_ : float
        Standard error of each of these counts.
    bounds_ : tuple of two ndarrays of shape (n_features,)
    n_features_in_, feature_names_in_ : int, ndarray of shape (n_features_in_,)
    max_rows_per_unit_ : int
    privacy_ : skdp.core.PrivacyCertificate

    Raises
    ------
    TypeError, ValueError
        In `fit`, before anything is charged: if a parameter is out of range, if `classes` is
        private and delta is 0, if X is not a dense table of finite numbers, or if a label is
        missing.
    BudgetExceededError, SealedBudgetError, LedgerError

    See Also
    --------
    DPExplainableBoostingClassifier : Usually more accurate.

    Notes
    -----
    **Privacy.** A row and its label are protected together. *Released*: classes and bounds, if not
    stated; the number of rows of each class (2% of the allowance, or 12% where rows are few); the
    number of rows in each of 64 equal cells of each column (10%), from which the splits are drawn;
    and the number of rows of each class in each leaf of T trees. *Sensitivity* of the latter: T in
    L1 and sqrt(T) in L2 if a row is added or removed; 2 T in L1 and sqrt(2 T) in L2 if one is
    replaced. That of the cells is the same, with the number of columns d instead of T. *Mechanism*:
    discrete Laplace or rounded Gaussian noise, whichever is less (with ``n_estimators="auto"``,
    Gaussian if delta is above 0). *Charged*: at most (epsilon, delta), once, before any noise, to
    ``budget``.

    The probabilities of a leaf are shrunk towards those of all rows, which have a weight of about
    four standard errors of a count. Trees are combined by the geometric mean of probabilities.

    References
    ----------
    Jagannathan, Pillaipakkamnatt & Wright 2012, "A practical differentially private random decision
    tree classifier", Transactions on Data Privacy 5 (random splits, noisy counts in leaves; here
    cuts follow released counts).

    ``skdp/core/PROOFS.md``, "Sums" (the sensitivities).

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.ensemble import DPRandomForestClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(20_000, 2))
    >>> y = X[:, 0] * X[:, 1] > 0
    >>> model = DPRandomForestClassifier(
    ...     classes=[False, True], bounds=(-1, 1), delta=1e-6, random_state=0
    ... ).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """

    _parameter_table: ClassVar[Table] = {
        "n_estimators": ("auto", Integers(1, 1000)),
        "max_depth": ("auto", Integers(1, _DEEPEST)),
    }

    def __init__(
        self,
        n_estimators: Any = "auto",
        *,
        max_depth: Any = "auto",
        classes: Any = "private",
        bounds: Any = "private",
        epsilon: float = 1.0,
        delta: float | None = None,
        max_rows_per_unit: Any = "private",
        budget: PrivacyBudget | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.classes = classes
        self.bounds = bounds
        self.epsilon = epsilon
        self.delta = delta
        self.max_rows_per_unit = max_rows_per_unit
        self.budget = budget
        self.random_state = random_state

    @property
    def _n_releases(self) -> int:
        return 5

    def _noise_of(self, allowance: Allowance, n_features: int | None) -> float:
        if isinstance(self.n_estimators, str):  # pure noise allows few trees
            return math.nan
        return allowance.bins_std(int(self.n_estimators))

    def _fit(self, session: Session, public: Any, n_classes: int) -> None:
        self._bounds(session, public)
        counts, spread = class_counts(session, n_classes)
        self.class_count_ = counts
        cells = ColumnCells(even_cuts(*self.bounds_, _CELLS))
        counted = session.answer(row_counts(Labelled(cells), "counts of cells"), _CELLS_SHARE)
        # Cells whose count noise may explain count as empty, so that no split isolates them.
        seen = _CELL_NOISE * float(np.mean(counted.std))
        weights = np.where(counted.value > seen, counted.value, 0.0)
        n_trees, depth = self._size(Allowance.left(session), float(counts.sum()), n_classes)
        trees = random_trees(session.post_processing_rng(), cells, weights, n_trees, depth)
        leaves = session.answer(row_counts(Leaves(trees, n_classes), "counts of leaves"))
        self.n_estimators_, self.max_depth_ = n_trees, depth
        self.split_columns_, self.split_cuts_ = trees.columns, trees.cuts
        self.leaf_count_ = np.array(leaves.value)
        self.leaf_count_std_error_ = std = float(np.mean(leaves.std))
        parts = (counts + spread) / (counts + spread).sum()
        rows = np.maximum(self.leaf_count_, 0.0) + (_PRIOR * std + 1.0) * parts[:, None, None]
        logs = np.log(rows) - np.log(rows.sum(axis=0))
        self._trees, self._logs = trees, logs.reshape(n_classes, -1)

    def _check_size(self, n_features: int, n_classes: int) -> None:
        super()._check_size(n_features, n_classes)
        trees = _TREES if isinstance(self.n_estimators, str) else int(self.n_estimators)
        depth = 1 if isinstance(self.max_depth, str) else int(self.max_depth)
        check_size("classes, n_estimators and max_depth", n_classes * trees * 2**depth)

    def _size(self, allowance: Allowance, n: float, n_classes: int = 2) -> tuple[int, int]:
        """Return the number of trees, and their depth, from public and released numbers."""
        trees, depth = self.n_estimators, self.max_depth
        if isinstance(trees, str):
            trees = _PURE_TREES if allowance.pure else _TREES
        if isinstance(depth, str):
            stumps = np.zeros((int(trees), 1))  # noise is that of trees of any depth
            counts = Leaves(SplitTrees(stumps.astype(np.int64), stumps, 1), n_classes)
            noise = allowance.query_std(row_counts(counts, "counts of leaves"))
            leaves = n / (_LEAF_NOISE * noise + 1.0)
            depth = min(max(math.floor(math.log2(max(leaves, 1.0))), 1), _DEEPEST)
            while depth > 1 and trees * n_classes * 2**depth > MOST_NUMBERS:  # in memory
                depth -= 1
        return int(trees), int(depth)

    def _logits(self, X: Any) -> Floats:
        values = self._public_array(X)
        leaves = self._trees.leaves(values)
        logs = np.stack([row_sums(own[leaves]) for own in self._logs], axis=1) / leaves.shape[1]
        return logs[:, 1:] - logs[:, :1] if logs.shape[1] == 2 else logs
