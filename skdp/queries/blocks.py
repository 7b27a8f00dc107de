"""Votes among, and queries of, what user code answers on disjoint blocks of rows.

Released: a vote among the answers of the blocks, or the mean or a quantile of vectors that they
return, clipped to public bounds. Guarantee: a row is in one block, so it changes one of the
answers. Proofs: blocks.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from skdp.core.clipping import isqrt_up
from skdp.core.mechanisms import exponential_mechanism, independent_noise, l2_noise
from skdp.core.privacy_filter import Release, Share, released
from skdp.core.query import Measurement, reviewed
from skdp.core.session import Session
from skdp.core.sums import Mean
from skdp.core.table import PrivateTable, Stability
from skdp.queries.histograms import CellQuantile
from skdp.queries.smooth_sensitivity.medians import SmoothMedian
from skdp.user_code.blocks import BlockAnswers, OnBlocks, block_outputs

if TYPE_CHECKING:
    from skdp.core.privacy_filter import PrivacyFilter

__all__ = [
    "BlockVotes",
    "OfBlocks",
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
        codes = block_outputs(table, meter, run, n_queries)
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
class OfBlocks(Measurement):
    """A query of the table of what disjoint blocks answer, one row a block.

    A block returns a vector of as many numbers as the query's view has dimensions; what is not
    finite is the view's centre. Guarantee: one row changes the answer of one block, under both
    relations, and the number of blocks is public: a table of n_blocks rows under replace-one,
    Stability(1, 0), whatever the relation of the rows. So the query's own guarantee holds.

    Attributes
    ----------
    run : OnBlocks
    query : Mean, CellQuantile or SmoothMedian

    Returns
    -------
    answer : what the query returns
    """

    name: ClassVar[str] = "answers of blocks"
    run: OnBlocks
    query: Any

    def measure(self, table: PrivateTable, meter: PrivacyFilter, share: Share, name: str) -> Any:
        if type(self.query) not in _OF_BLOCKS:
            known = ", ".join(kind.__name__ for kind in _OF_BLOCKS)
            raise TypeError(f"query must be one of {known}, got {type(self.query).__name__}")
        meter.check(share, name)
        answers = BlockAnswers(table, meter, self.run, self.query.view.center)
        return Session(PrivateTable(answers, Stability(1, 0)), meter).answer(
            self.query, share, name=name
        )


_OF_BLOCKS = (Mean, CellQuantile, SmoothMedian)  # they read the rows of a view, and no labels
