"""The sparse vector technique: many comparisons with a threshold, of which few may be positive.

Released: for each query one bit, whether the public answer is far from the exact one. Negative bits
are free; `max_above` positive ones are paid for. The bit is |exact - public| + nu >= threshold +
rho, on integers with discrete Laplace noise: rho is drawn once, nu for every query. Guarantee: all
bits together are epsilon-DP for the share's epsilon, whatever the session releases between them (in
a Gaussian session mu-GDP, by the pure epsilon that implies it). Proof: sparse_vector.md.

References
----------
M. Lyu, D. Su, N. Li (2017), "Understanding the sparse vector technique for differential privacy",
PVLDB 10(6), Algorithm 7 and Section 4.2 (how to split epsilon). C. Dwork, A. Roth (2014), "The
algorithmic foundations of differential privacy", Section 3.6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from skdp.core import noise as samplers
from skdp.core.mechanisms import l1
from skdp.core.privacy_filter import Share
from skdp.core.query import Measurement, check_query, reviewed
from skdp.core.sums import RowSum
from skdp.exceptions import PrivacyLeakError
from skdp.queries.workloads import WorkloadAnswer

if TYPE_CHECKING:
    from skdp.core.privacy_filter import Meter
    from skdp.core.table import PrivateTable

__all__ = [
    "AboveThreshold",
    "SparseVector",
    "comparison_margin",
    "threshold_scales",
]

LARGEST_SCALE = 2**52  # of the sampler of discrete Laplace noise


def threshold_scales(
    max_above: int, epsilon: float | Fraction, sensitivity: int = 1
) -> tuple[Fraction, Fraction]:
    """Return the exact scales of rho and nu for a score that moves by at most `sensitivity`.

    With c = `max_above`: sensitivity / epsilon_1 and 2 c sensitivity / epsilon_2, epsilon split
    1 : (2c)**(2/3), which makes the variance of rho - nu smallest.

    - raises ValueError: if max_above is below 1, or the noise would be too large for the sampler.

    Examples
    --------
    >>> rho, nu = threshold_scales(4, 1.0)
    >>> float(rho), float(nu)
    (5.0, 10.0)
    """
    if max_above < 1:
        raise ValueError(f"max_above must be at least 1, got {max_above}")
    e = Fraction(epsilon)
    ratio = Fraction((2 * max_above) ** (2 / 3)).limit_denominator(1000)
    rho = sensitivity * (1 + ratio) / e
    nu = 2 * max_above * sensitivity * (1 + ratio) / (ratio * e)
    if max(rho, nu) > LARGEST_SCALE:
        raise ValueError(
            f"max_above = {max_above} positive answers at epsilon = {float(e):g} need noise beyond "
            "what can be drawn exactly"
        )
    return rho, nu


@reviewed
@dataclass(frozen=True, eq=False)
class SparseVector(Measurement):
    """Comparisons of answers with public ones, at one cost for all; see `AboveThreshold`.

    Guarantee: the share is taken at once. Each score abs(exact - public) moves by at most 1, in
    rows, under both relations.

    - `threshold`: Public, in rows.
    - `max_above`: Number of positive answers after which no query is answered.
    - `one`: Comparisons are in units of 1/one of a row: a multiple of the `one` of every workload.
    """

    name: ClassVar[str] = "above threshold"
    threshold: float
    max_above: int
    one: int = 1

    def measure(self, table: PrivateTable, meter: Meter, share: Share, name: str) -> AboveThreshold:
        return AboveThreshold(self, table, meter, share, name)


class AboveThreshold:
    """Says which public answers are far from the exact ones; the answer to `SparseVector`.

    - `left`: Number of remaining positive answers.
    - `scales` (tuple of two floats): Scales of the noise of the threshold and of a comparison, in
      rows.
    """

    def __init__(
        self, query: SparseVector, table: PrivateTable, meter: Meter, share: Share, name: str
    ) -> None:
        self._table, self._meter, self._name = table, meter, name
        self._one, self._left = int(query.one), int(query.max_above)
        self._threshold = round(Fraction(float(query.threshold)) * self._one)
        fraction, epsilon = meter.take(share, name)
        rho, self._nu = threshold_scales(self._left, epsilon, self._one)
        # Drawn once and never shown: only the bits are released.
        meter.reseed(f"{name}: threshold", np.zeros(1, dtype=np.int64), self._one)
        self._rho = int(samplers.discrete_laplace(rho, entropy=meter.entropy))
        self.scales = (float(rho / self._one), float(self._nu / self._one))
        meter.record(
            name, "sparse vector, discrete Laplace", "score", 1.0, self.scales[1], fraction
        )

    @property
    def left(self) -> int:
        """Number of remaining positive answers."""
        return self._left

    def __repr__(self) -> str:
        return f"AboveThreshold(left={self.left})"

    def __reduce__(self) -> Any:
        raise PrivacyLeakError("comparisons with a threshold cannot be copied or pickled")

    def is_far(self, query: RowSum, public: float) -> bool:
        """Release whether |exact - public| is above the threshold, under noise.

        - `query`: From `workload_answer`.
        - `public`: Public answer, in rows: a function of public values and earlier releases.
        - raises TypeError: if it is another kind of query.
        - raises PrivacyLeakError: if no positive answer remains, the session is closed or belongs
          to another process, or the workload's unit does not divide that of the comparisons.
        """
        answer = query.image if check_query(query) is RowSum else query
        if type(answer) is not WorkloadAnswer:
            raise TypeError(f"query must be a workload_answer, got {type(answer).__name__}")
        factor, remainder = divmod(self._one, answer.workload.one)
        if remainder:
            raise PrivacyLeakError("the workload's unit does not divide that of the comparisons")
        exact = int(answer.table_total(self._table)[0]) * factor
        score = abs(exact - round(Fraction(float(public)) * self._one))

        def compare() -> NDArray:
            nu = int(samplers.discrete_laplace(self._nu, entropy=self._meter.entropy))
            return np.array([score + nu >= self._threshold + self._rho], dtype=np.int64)

        # One comparison at a time: two at once could both take the last positive answer.
        with self._meter.spending(self._name):
            if self._left < 1:
                raise PrivacyLeakError(f"release {self._name!r}: no positive answer is left")
            value = np.array([score], dtype=object if score >= 2**62 else np.int64)
            bit = self._meter.release(self._name, value, float(self._one), l1, compare, (1,))
            far = bool(bit[0])
            self._left -= far
        return far


def comparison_margin(max_above: int, epsilon: float, n_queries: int, beta: float) -> float:
    """Return a bound on the noise of n_queries comparisons, with probability 1 - beta.

    In units of the sensitivity.
    """
    rho, nu = threshold_scales(max_above, epsilon)
    # |rho| and the largest |nu| exceed their parts with probability at most beta / 2 each:
    # P(|L| >= t + 1) <= exp(-t / scale) for discrete Laplace L.
    return float(rho) * math.log(2 / beta) + float(nu) * math.log(2 * n_queries / beta) + 2
