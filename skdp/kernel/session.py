"""The doors: what an estimator may ask of private rows, each with the sensitivity that holds.

A session is opened on checked rows with an allowance (see `skdp.kernel.release`); its methods
compute an exact statistic and release it with noise. Views (`box`, `ball`, `project`) bound rows
and release nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skdp.budget import PrivacyBudget
from skdp.kernel import bounds as _bounds
from skdp.kernel import sampling
from skdp.kernel import statistics as stats
from skdp.kernel.blocks import BlockDoors
from skdp.kernel.containers import cut
from skdp.kernel.doors import released
from skdp.kernel.features import FeatureDoors
from skdp.kernel.groups import GroupDoors, Tree
from skdp.kernel.isolation import attempt
from skdp.kernel.learning import BoundsDoors
from skdp.kernel.protect import (
    GRID_BITS,
    NORM_BITS,
    SUM_BITS,
    Ball,
    Box,
    Floats,
    Projection,
    ScalableView,
    ScaledBox,
    View,
)
from skdp.kernel.queries import QueryDoors
from skdp.kernel.release import Release, Share, exact_fraction
from skdp.kernel.rows import Rows
from skdp.kernel.samples import SampleDoors
from skdp.kernel.small_tables import SmallTableDoors
from skdp.kernel.smooth import SmoothDoors
from skdp.kernel.solve import SolveDoors
from skdp.kernel.sparse_vector import SparseVectorDoors
from skdp.kernel.workload import WorkloadDoors

__all__ = ["GramRelease", "Session", "Tree", "open_session"]


@dataclass(frozen=True)
class GramRelease:
    """A released second moment with the sum and the number of rows from the same noise.

    Attributes
    ----------
    second_moment : ndarray of shape (d, d)
        Noisy sum of (x - c)(x - c)', user units squared.
    total : ndarray of shape (d,)
        Noisy sum of x - c.
    n : float
        Exact number of rows under replace-one, noisy otherwise; at least 1.
    std, diagonal_std : float
        Standard deviation of an off-diagonal entry of ``second_moment``, and of a diagonal one.
    total_std, n_std : float
        The same of an entry of ``total`` and of ``n``.
    noise : str
        ``"gaussian"``, ``"wishart"`` or ``"laplace"``.
    """

    second_moment: Floats
    total: Floats
    n: float
    std: float
    diagonal_std: float
    total_std: float
    n_std: float
    noise: str


class Session(
    BlockDoors,
    BoundsDoors,
    FeatureDoors,
    GroupDoors,
    QueryDoors,
    SampleDoors,
    SmallTableDoors,
    SmoothDoors,
    SolveDoors,
    SparseVectorDoors,
    WorkloadDoors,
):
    """A metered conversation with one table of private rows; open it with `open_session`."""

    # --- views --------------------------------------------------------------------------------

    def box(self, low: ArrayLike, high: ArrayLike, *, per_feature: bool = False) -> Box:
        """Return the view of the rows clipped to a public box (scalars or one per feature)."""
        shape = (self.n_features,)
        return Box(
            np.broadcast_to(low, shape), np.broadcast_to(high, shape), per_feature=per_feature
        )

    def ball(self, center: ArrayLike, radius: float) -> Ball:
        """Return the view of the rows minus a public centre, clipped to an L2 norm."""
        return Ball(np.broadcast_to(center, (self.n_features,)), radius)

    def project(self, view: View, components: ArrayLike, radius: ArrayLike) -> Projection:
        """Return the view projected on released components (k, d) and clipped to a box."""
        return Projection(view, components, radius)

    # --- counts, sums, means ------------------------------------------------------------------

    def count(self, share: Share = None, *, name: str = "count") -> Release:
        """Release the number of rows: exact and free under replace-one, noisy otherwise.

        Guarantee: sensitivity 1 (A), 0 (R).
        """
        if self._replace:
            return released(float(self._rows._n), 0.0)
        exact = np.array([self._rows._n], dtype=np.int64)
        noisy, std = self.scalars(name, exact, 1, 1, share)
        return released(float(noisy[0]), std)

    def sum(
        self, view: ScalableView, share: Share = None, *, norm: str = "l2", name: str = "sum"
    ) -> Release:
        """Release the sum of x - view.center over the rows.

        Guarantee: sensitivity norm (A), 2 norm (R), in L2; in L1 (``norm="l1"``) the sum of the
        half widths, twice that under R. L2: rounded Gaussian, or K-norm if pure; L1: discrete
        Laplace (pure sessions only; Gaussian sessions use L2).
        """
        view = view.at(SUM_BITS)
        exact, _ = stats.exact_sum(self._rows, view)
        unit = float(view.grid.max())
        if norm == "l1":
            l1 = stats.sum_sensitivity(view, self.adjacency, l1=True)
            l2 = stats.sum_sensitivity(view, self.adjacency)
            noisy, std = self.scalars(name, exact, l1, l2**2, share, unit=unit)
        else:
            size = stats.sum_sensitivity(view, self.adjacency)
            noisy, std = self.vector(name, exact, size, share, unit=unit)
        return released(noisy.astype(np.float64) * view.grid, std * view.grid)

    def mean(self, view: ScalableView, share: Share = None, *, name: str = "mean") -> Release:
        """Release the mean of the clipped rows, in user units.

        Guarantee: R: the sum at sensitivity 2 norm over the public n. A: (w n, sum) in one
        release at sensitivity sqrt(w**2 + norm**2), w = norm / 3, then their quotient, clipped to
        the view's box. Never noise of scale 1/n with a private n.
        """
        view = view.at(SUM_BITS)
        exact, n = stats.exact_sum(self._rows, view)
        return self._mean_of(name, view, exact, n, max(1, view.norm // 3), share)

    def moments(
        self, view: Box, share: Share = None, *, name: str = "moments"
    ) -> tuple[Release, Release, float]:
        """Release mean and mean square of every feature, relative to the box; and n.

        With u = (x - centre) / half width in [-1, 1], each row contributes (u, u**2 - 1/2) per
        feature. Guarantee: A: squared L2 sensitivity d (1 + 1/4), and w**2 more for the count;
        R: 2 sqrt(d) (u = 1 against u = -1). In integers: u = q / Q with one grid a feature, u**2 as
        round(q**2 / Q) / Q; proof for the rounded map in kernel/README.md, "Moments".

        Returns
        -------
        mean, mean_square : Release
            Of u, in [-1, 1] and [0, 1].
        n : float
        """
        scaled = ScaledBox(view.low, view.high)
        total, scale, n = stats.exact_moments(self._rows, scaled)
        d = view.n_dims
        size = stats.moments_sensitivity(d, scale, self.adjacency, weight=scale)
        sums, std, count = self._with_count(name, total, n, scale, size, share, 1 / scale)
        values = sums / count / scale
        error = std / count / scale
        mean = np.clip(values[:d], -1.0, 1.0)
        square = np.clip(values[d:] + 0.5, 0.0, 1.0)
        return released(mean, error), released(square, error), count

    # --- histograms, groups, trees, Gram matrices -----------------------------------------------

    def histogram(
        self, view: View, n_bins: int, share: Share = None, *, name: str = "histogram"
    ) -> Release:
        """Release each feature's histogram over n_bins equal cells of the view's box, (d, n_bins).

        Guarantee: a row adds one to a bin of each of d histograms. L1 d, L2 sqrt(d) (A); L1 2d,
        L2 sqrt(2 d) (R).
        """
        exact = stats.grid_histograms(self._rows, view, n_bins)
        size = stats.histogram_sensitivity(view.n_dims, self.adjacency)
        noisy, std = self.scalars(name, exact, size, size, share)
        return released(noisy, std)

    def gram(
        self,
        view: Ball | ScaledBox,
        share: Share = None,
        *,
        tau: float = 0.25,
        noise: str = "auto",
        name: str = "second moment",
    ) -> GramRelease:
        """Release the second moment of x - c with the sum and the count, as one matrix.

        The rows are augmented: z = (x - c, t) with t = tau * radius, so sum zz' holds the second
        moment, t sum(x - c) and n t**2. Guarantee: the exact sensitivities of
        `skdp.kernel.statistics.gram_sensitivity`.

        Parameters
        ----------
        tau : float
            In (0, 1]. Small values cost little noise and measure the mean less well.
        noise : {"auto", "gaussian", "wishart", "laplace"}
            ``"auto"``: Gaussian in a Gaussian session, else Wishart.
        """
        if noise == "auto":
            noise = "wishart" if self.pure else "gaussian"
        view = view.at(self._gram_bits(view, share, noise))
        second, first, n = stats.exact_gram(self._rows, view)
        t = int(min(max(round(tau * view.norm), 1), view.norm))
        d = view.n_dims
        augmented = np.zeros((d + 1, d + 1), dtype=object)
        augmented[:d, :d] = second
        augmented[:d, d] = augmented[d, :d] = t * first
        augmented[d, d] = n * t * t
        step = float(view.grid[0])
        noisy, std = self.symmetric(
            name,
            augmented,
            lambda geometry: stats.gram_sensitivity(view.norm, t, d, self.adjacency, geometry),
            share,
            noise,
            unit=step**2,
        )
        matrix = noisy.astype(np.float64)
        count = float(n) if self._replace else max(1.0, float(matrix[d, d]) / t**2)
        moment = matrix[:d, :d] * step**2
        total = matrix[:d, d] / t * step
        moment.setflags(write=False)
        total.setflags(write=False)
        diagonal = {"gaussian": math.sqrt(2), "wishart": math.sqrt(2), "laplace": 1.0}[noise]
        return GramRelease(
            second_moment=moment,
            total=total,
            n=count,
            std=std * step**2,
            diagonal_std=diagonal * std * step**2,
            total_std=std / t * step,
            n_std=0.0 if self._replace else diagonal * std / t**2,
            noise=noise,
        )

    def _gram_bits(self, view: Ball | ScaledBox, share: Share, noise: str) -> int:
        """Return how many bits a bound of `gram` has: rounding is then below a tenth of the noise.

        Half a step in a row moves a mean product by one step of the bound at most. A public number:
        where the number of rows is private, as many as n epsilon = 10**8 needs.
        """
        if not self._replace:
            return NORM_BITS
        # Noise of a mean product, in squares of the bound of a coordinate.
        spread = math.sqrt(2 * view.n_dims) if noise == "wishart" else 1.0
        per_row = spread * (view.norm / float(view.half[0])) ** 2 / self.level(share)
        needed = math.ceil(math.log2(max(self._rows._n, 1) / per_row)) + 4
        return min(max(needed, GRID_BITS), NORM_BITS)

    # --- bounds and quantiles ------------------------------------------------------------------

    def learn_norm_bound(self, center: ArrayLike, share: Share) -> float:
        """Learn a bound on ||x - center|| privately; always returns something usable, positive.

        Guarantee: a histogram of quarter-octaves; L1 1, L2 1 (A), 2 and sqrt(2) (R).
        """
        where = np.broadcast_to(np.asarray(center, dtype=np.float64), (self.n_features,))
        exact = stats.norm_histogram(self._rows, where)
        size = stats.histogram_sensitivity(1, self.adjacency)
        noisy, std = self.scalars("octaves of the norm", exact, size, size, share)
        return _bounds.norm_from_octaves(noisy, std, stats.NORM_CODES[0])

    def quantile(
        self,
        view: Box,
        q: float,
        share: Share = None,
        *,
        n_cells: int = 4096,
        name: str = "quantile",
    ) -> Release:
        """Release the q-quantile of every feature, as the midpoint of a public cell of its box.

        Exponential mechanism over n_cells equal cells; the score is the distance of q n to the
        interval [rows below, rows below or in the cell]. Guarantee: each feature takes an equal
        part of the share; the score moves by at most max(q, 1 - q) (A), 1 (R), and eta is the
        feature's epsilon over twice that.
        """
        d = view.n_dims
        level = exact_fraction(q)
        cells = stats.grid_histograms(self._rows, view, n_cells)
        a, b = level.numerator, level.denominator
        n = self._rows._n
        # Scores in integers: b times the distance of q n to the ranks of the cell's rows, so that a
        # value that many rows share is as good a median as its rank allows.
        wide = cells.astype(object) if b * n >= 2**60 else cells
        up_to = np.cumsum(wide, axis=1)
        scores = np.maximum(np.maximum(b * (up_to - wide) - a * n, a * n - b * up_to), 0)
        widest = Fraction(1) if self._replace else max(level, 1 - level)
        chosen = self.choices(name, scores, int(b * widest), share)
        width = 2 * view.half * view.grid / n_cells
        value = view.center - view.half * view.grid + (chosen + 0.5) * width
        return released(value, np.full(d, np.nan))

    # --- a user's callable, row by row -----------------------------------------------------------

    def mean_score(
        self,
        score: Callable[[Any, Any], ArrayLike],
        low: float,
        high: float,
        share: Share = None,
        *,
        exact_blocks: bool = False,
        name: str = "score",
    ) -> Release:
        """Release the mean over rows of a user's score of one row, clipped to [low, high].

        The callable gets one row at a time (X and y slices of length one); its exceptions and
        non-finite results become `low`. With ``exact_blocks`` it gets blocks, and must give each
        row the same bits in every block (elementwise ufuncs and ``accumulate`` do; BLAS does not,
        and a row that makes a block fail would change the last bits of its neighbours). Guarantee:
        as `mean` of a one-dimensional box.
        """
        view = Box([low], [high], bits=SUM_BITS)
        step = 4096 if exact_blocks else 1
        total, n = 0, self._rows._n
        self._check_share(share, name)
        with self._foreign(), sampling.lent_generators() as restart:
            for X, y in self._rows.slices(step):
                values = _row_scores(score, X, y, low, restart)
                total += int(view.map(np.clip(values, low, high)[:, None]).sum())
        exact = np.array([total], dtype=np.int64)
        mean = self._mean_of(name, view, exact, n, max(1, view.norm // 2), share)
        return released(np.clip(mean.value[0], low, high), float(mean.std[0]))


def _row_scores(
    score: Callable[[Any, Any], ArrayLike],
    X: Any,
    y: Any,
    default: float,
    restart: Callable[[int], None],
) -> Floats:
    """Apply the user's callable; exceptions and non-finite values become the public default."""
    length = X.shape[0]
    values = attempt(
        lambda: np.asarray(score(X, y), dtype=np.float64).reshape(length), None, restart
    )
    if values is None:
        if length > 1:
            # One bad row must not decide for the others: ask for each row alone.
            one = [_one(X, y, i) for i in range(length)]
            parts = [_row_scores(score, *pair, default, restart) for pair in one]
            return np.concatenate(parts)
        return np.array([default])
    bounded: Floats = np.where(np.isfinite(values), values, default)
    return bounded


def _one(X: Any, y: Any, i: int) -> tuple[Any, Any]:
    """Return row i of a slice, as a slice of length one."""
    return cut(X, i, i + 1), None if y is None else cut(y, i, i + 1)


def open_session(
    rows: Rows,
    *,
    estimator: str,
    epsilon: float,
    delta: float = 0.0,
    delta_apart: float = 0.0,
    budget: PrivacyBudget | None = None,
    random_state: Any = None,
    context: str = "",
) -> Session:
    """Charge (epsilon, delta + delta_apart) to the budget and return a session on the rows.

    Guarantee: the charge is in the ledger before any noise is drawn; everything the session
    releases is (epsilon, delta + delta_apart)-differentially private together.

    Parameters
    ----------
    rows : Rows
        From `check_rows`.
    estimator : str
        Name in ledger and certificate.
    epsilon, delta : float
        Valid (`skdp.base` checks them for estimators).
    delta_apart : float, default=0.0
        For one release with a delta of its own (`SampleDoors.published_rows`, or Laplace noise in
        `SmoothDoors`); other noise has none of it.
    budget : PrivacyBudget or None
        Shared ledger; None means the fit stands alone, under replace-one.
    random_state : None, int or RandomState
        Seeds post-processing; and noise, which is then reproducible and marked so, but only inside
        ``skdp.config_context(noise="seeded")``.
    context : str
        Public parameters of the fit; keys the stream of seeded noise.

    Returns
    -------
    session : Session
        A context manager.

    Raises
    ------
    BudgetExceededError, SealedBudgetError, LedgerError
        Nothing was charged then.
    """
    return Session(
        rows,
        estimator=estimator,
        epsilon=epsilon,
        delta=delta,
        delta_apart=delta_apart,
        budget=budget,
        random_state=random_state,
        context=context,
    )
