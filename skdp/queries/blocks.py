"""Votes, means and medians of what user code answers on disjoint blocks of rows.

Released: a vote among the answers of the blocks, or the mean or the median of vectors that they
return, clipped to a public box. Guarantee: a row is in one block, so it changes one of the answers.
Proofs: blocks.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from skdp.core.clipping import SUM_BITS, Box, isqrt_up
from skdp.core.mechanisms import exponential_mechanism, independent_noise, l2_noise
from skdp.core.privacy_filter import Release, Share, released
from skdp.core.query import Measurement, reviewed
from skdp.queries.smooth_sensitivity.ladders import Ladder, smooth_release
from skdp.queries.smooth_sensitivity.medians import order_halves, quantile_log_smooth
from skdp.user_code.blocks import OnBlocks, _block_outputs, _clipped

if TYPE_CHECKING:
    from skdp.core.privacy_filter import PrivacyFilter
    from skdp.core.table import PrivateTable

__all__ = [
    "BlockMean",
    "BlockMedian",
    "BlockSmoothMedian",
    "BlockVotes",
]

_STEP_BITS = 12  # a vote has so many steps, so that square roots lose less than 1/8000


@reviewed
@dataclass(frozen=True, eq=False)
class BlockVotes(Measurement):
    """The winner of each of several votes that disjoint blocks take part in.

    A block has one vote in each; a number that is no class is an abstention. Guarantee: one
    row changes one block, which changes at most one vote a query into another, under both
    relations: L2 sensitivity of all queries' counts sqrt(2 n_queries). With two classes, the
    difference of the counts is released (sensitivity 2 sqrt(n_queries)); with more, all
    counts under Gaussian noise, or in a pure session the winners by the exponential mechanism
    at an equal part of epsilon each, a count moving by at most 1.

    Returns
    -------
    winners : ndarray of shape (n_queries,)
        Codes.
    counts : Release or None
        Of shape (n_queries, n_classes), up to the same number for all classes of a query;
        None after the exponential mechanism.
    """

    name: ClassVar[str] = "votes of blocks"
    run: OnBlocks
    n_queries: int
    n_classes: int

    def measure(
        self, table: PrivateTable, meter: PrivacyFilter, share: Share, name: str
    ) -> tuple[NDArray[np.int64], Release | None]:
        run, n_queries, n_classes = self.run, self.n_queries, self.n_classes
        meter.check(share, name)
        codes = _block_outputs(table, meter, run, n_queries)
        votes = np.stack([(codes == k).sum(axis=0) for k in range(n_classes)], axis=1)
        if n_classes == 2:
            exact = (votes[:, 1] - votes[:, 0]).astype(np.int64) << _STEP_BITS
            size = isqrt_up(4 * n_queries << (2 * _STEP_BITS))
            step = 2.0**-_STEP_BITS
            noisy, std = l2_noise(meter, name, exact, size, share, unit=step)
            half = noisy.astype(np.float64) * step / 2
            winners = (half > 0).astype(np.int64)
            return winners, released(np.stack([-half, half], axis=1), std * step / 2)
        if meter.pure:
            return exponential_mechanism(meter, name, -votes, 1, share), None
        noisy, std = independent_noise(meter, name, votes, 2 * n_queries, 2 * n_queries, share)
        return noisy.argmax(axis=1), released(noisy.astype(np.float64), std)


@reviewed
@dataclass(frozen=True, eq=False)
class BlockMean(Measurement):
    """The mean over disjoint blocks of a vector that each returns, clipped to a view.

    Guarantee: one row changes the vector of one block, to any other in the view, under both
    relations: L2 sensitivity of the sum 2 norm. The number of blocks is public.

    Returns
    -------
    mean : Release, value and std of shape (view.n_dims,)
        The std is of the noise before each number is clipped to the view's half width.
    """

    name: ClassVar[str] = "mean of blocks"
    run: OnBlocks
    view: Any

    def measure(
        self, table: PrivateTable, meter: PrivacyFilter, share: Share, name: str
    ) -> Release:
        run, view = self.run, self.view
        meter.check(share, name)
        view = view.at(SUM_BITS)
        q = _clipped(table, meter, run, view)
        exact = q.astype(np.int64).sum(axis=0)
        size = max(1, 2 * view.norm)
        noisy, std = l2_noise(meter, name, exact, size, share, unit=float(view.grid.max()))
        steps = np.clip(noisy.astype(np.float64) / run.n_blocks, -view.half, view.half)
        return released(view.center + steps * view.grid, std / run.n_blocks * view.grid)


@reviewed
@dataclass(frozen=True, eq=False)
class BlockMedian(Measurement):
    """The median over disjoint blocks of each coordinate of a vector in a box.

    Exponential mechanism over n_cells equal cells of each coordinate's interval, as
    `CellQuantile`. Guarantee: under both relations one of the n_blocks values is replaced,
    which moves a rank by at most 1; each coordinate takes an equal part of the share.

    Returns
    -------
    median : Release, value of shape (view.n_dims,)
        Midpoints of cells.
    """

    name: ClassVar[str] = "median of blocks"
    run: OnBlocks
    view: Box
    n_cells: int = 1024

    def measure(
        self, table: PrivateTable, meter: PrivacyFilter, share: Share, name: str
    ) -> Release:
        run, view, n_cells = self.run, self.view, self.n_cells
        meter.check(share, name)
        q = _clipped(table, meter, run, view)
        # Exact: integers of at most 2**18 times n_cells.
        cells = (q + view.half) * n_cells // (2 * view.half + 1)
        where = cells.astype(np.int64) + np.arange(view.n_dims) * n_cells
        counts = np.bincount(where.ravel(), minlength=view.n_dims * n_cells)
        counts = counts.reshape(view.n_dims, n_cells)
        up_to = np.cumsum(counts, axis=1)
        # Twice the distance of m / 2 to the ranks of the cell's values.
        scores = np.maximum(
            np.maximum(2 * (up_to - counts) - run.n_blocks, run.n_blocks - 2 * up_to), 0
        )
        chosen = exponential_mechanism(meter, name, scores.astype(np.int64), 2, share)
        width = 2 * view.half * view.grid / n_cells
        value = view.center - view.half * view.grid + (chosen + 0.5) * width
        return released(value, np.full(view.n_dims, np.nan))


@reviewed
@dataclass(frozen=True, eq=False)
class BlockSmoothMedian(Measurement):
    """The median over disjoint blocks of each coordinate, under smooth noise.

    Guarantee: under both relations one of the n_blocks values of a coordinate is replaced, and
    their number is public: the smooth sensitivity is that of replaced values, as
    `SmoothMedian` has it for replaced rows. Each coordinate takes an equal part of the
    share.

    Returns
    -------
    median : Release, value of shape (view.n_dims,)
        In the box; std is NaN, as the noise's scale is private.

    Raises
    ------
    ValueError
        If the noise is unknown or its scale out of range; no block has been run then.
    """

    name: ClassVar[str] = "smooth median of blocks"
    run: OnBlocks
    view: Box
    noise: str = "cauchy"
    nu: int = 3

    def measure(
        self, table: PrivateTable, meter: PrivacyFilter, share: Share, name: str
    ) -> Release:
        run, view, noise, nu = self.run, self.view, self.noise, self.nu
        half = order_halves(view)

        def statistic(ladders: list[Ladder]) -> tuple[NDArray, list[int]]:
            columns = _clipped(table, meter, run, view).astype(np.int32).T
            pairs = [
                quantile_log_smooth(x.copy(), Fraction(1, 2), -h, h, ladder, replace=True)
                for x, h, ladder in zip(columns, half, ladders, strict=True)
            ]
            return np.array([f for f, _ in pairs], dtype=np.int64), [j for _, j in pairs]

        noisy = smooth_release(
            meter,
            name,
            [max(1, 2 * h) for h in half],
            statistic,
            share,
            noise=noise,
            nu=nu,
            unit=float(view.grid.max()),
        )
        steps = np.array([min(max(int(v), -h), h) for v, h in zip(noisy, half, strict=True)])
        return released(view.center + steps * view.grid, np.full(view.n_dims, np.nan))
