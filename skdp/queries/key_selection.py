"""Private selection of keys: the groups of a table that may be named.

Released: the keys in which enough units have rows, by one of four methods. The probability that any
key of a single unit is shown is at most the session's separate delta, over all its keys, all rounds
and both units of a replacement. The share pays for everything else. Proofs: key_selection.md.

``"laplace"``: units counted, discrete Laplace noise, a threshold. ``"optimal"``: each key kept
with the largest probability that differential privacy allows (the best rule where a unit has one
key). ``"gaussian"``: a unit's keys share a weight of L2 norm 1, Gaussian noise, a threshold.
``"sips"``: the same in rounds; keys that were found leave, and what their units gave to them
goes to their other keys.

`CountedKeys` releases keys together with their counts: one noise serves for both.

References
----------
D. Desfontaines, J. Voss, B. Gipson, C. Mandayam (2022), "Differentially private partition
selection", PoPETs 2022(1), Theorem 2. S. Gopi, P. Gulhane, J. Kulkarni, J. H. Shen, M. Shokouhi,
S. Yekhanin (2020), "Differentially private set union", ICML. M. Swanberg, D. Desfontaines, S. Haney
(2023), "DP-SIPS: a simpler, more scalable mechanism for differentially private partition
selection", PoPETs 2023(4).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from skdp.core import mechanisms
from skdp.core import noise as samplers
from skdp.core.clipping import isqrt_up
from skdp.core.noise.exact import exp_bracket
from skdp.core.privacy_filter import Meter, Share, exact_fraction, in_transcript
from skdp.core.query import Measurement, reviewed
from skdp.core.table import REPLACE_ONE, PrivateTable, Stability
from skdp.loss import conversions
from skdp.tabular.cells import key_order

KEY_METHODS = ("laplace", "optimal", "gaussian", "sips")
MAX_KEYS_PER_UNIT = 2**14
ROUNDS = (0.1, 0.3, 0.6)  # of the share and of delta, in "sips"
WEIGHT_BITS = 30  # of the weight of a unit with one key
_MOST_NOISE = 2.0**52  # the samplers' largest deviation
_PROBABILITY_BITS = 160
_SMALLEST_DELTA = Fraction(1, 10**30)  # far above the last bit of probabilities and of tails
_SMALLEST_OF_COUNTS = Fraction(1, 10**250)  # a float; tails get more bits for it
_LONGEST_TABLE = 2**17  # of probabilities: 2 log(1/delta) / epsilon a key
_NOT_POSITIVE = "a share of epsilon and a delta of the keys must be above 0"


def usable_method(method: str, max_keys: int, epsilon: float, *, gaussian: bool) -> str:
    """Return the stated method, or the one that ``"auto"`` chooses, from public numbers only.

    ``"laplace"`` replaces ``"optimal"`` if the table of the latter would be too long.

    - `epsilon`: That a pure release may lose for all keys of a unit.
    - `gaussian`: Whether the session has Gaussian noise.
    """
    if method not in ("auto", "optimal"):
        return method
    if method == "auto" and gaussian:
        # Further rounds only help units with several keys.
        return "gaussian" if max_keys == 1 else "sips"
    # Entries: 2 log(1/delta) / epsilon a key, of twice as many keys where units are replaced.
    table = 2 * 80.0 * 2 * max_keys / epsilon
    return "optimal" if table < _LONGEST_TABLE else "laplace"


def least_shown(
    max_keys: int,
    level: float,
    delta: float,
    *,
    pure: bool,
    replace: bool,
    weight: float | None = None,
) -> float:
    """Return about how many units have a key that shows with a chance of a half.

    With the method that ``"auto"`` stands for; a public function, by which plans compare noise.

    - `level`: Epsilon, or mu where noise is Gaussian.
    - `delta`: Of the keys of one unit.
    - `replace`: Whether one unit is replaced, and not added or removed.
    - `weight`: One over the mean weight that a unit gives to a key in the last of several rounds.
      None: for units with `max_keys` keys, half of them (in orders of magnitude) found before.

    Examples
    --------
    >>> round(least_shown(1, 1.0, 1e-6, pure=True, replace=False))
    14
    """
    units = 2 if replace else 1
    if pure:  # where the two recursions of the optimal probabilities meet
        epsilon, each = level / (max_keys * units), delta / (max_keys * units)
        growth = math.expm1(min(epsilon, 700.0))
        return 1 + math.log((growth + 2 * each) / (growth + 2) / each) / epsilon
    noise = -float(ndtri(delta / units)) * math.sqrt(units) / level
    if weight is None and max_keys == 1:
        return 1 + noise
    return noise / math.sqrt(ROUNDS[-1]) * (max_keys**0.25 if weight is None else weight)


def key_weights(max_keys: int) -> list[int]:
    """Return the weight of a key of a unit with 1, 2, ... keys: n squares of it are at most 2**60.

    Examples
    --------
    >>> key_weights(4)[3] * 2 == key_weights(4)[0]
    True
    """
    return [math.isqrt((1 << 2 * WEIGHT_BITS) // n) for n in range(1, max_keys + 1)]


def laplace_threshold(max_keys: int, scale: Fraction, delta: Fraction) -> int:
    """Return the least count at which 1 + noise stays below it but with this probability.

    Of all of `max_keys` independent draws: P(X >= k) = q**k / (1 + q), q = exp(-1 / scale), of
    which the upper bound exp(-k / scale) is taken where it is close enough.
    """
    if scale <= 0 or delta <= 0:
        raise ValueError(_NOT_POSITIVE)
    each = delta / max_keys  # (1 - each)**max_keys >= 1 - delta
    k = max(1, math.floor(float(scale) * (-math.log(float(each)) - math.log(2)) - 2))
    while not _laplace_tail(k, scale) <= each:
        k += 1
    return 1 + k


def _laplace_tail(k: int, scale: Fraction) -> Fraction:
    """Return P(X >= k) of discrete Laplace noise, k >= 1, rounded up."""
    unit = 1 << 200
    above = Fraction(exp_bracket(Fraction(k) / scale, 200)[1], unit)
    return above / (1 + Fraction(exp_bracket(1 / scale, 200)[0], unit))


@functools.lru_cache(maxsize=64)
def keeping_probabilities(epsilon: Fraction, delta: Fraction) -> tuple[int, ...]:
    """Return the optimal probabilities of a key that 0, 1, 2, ... units have, times 2**160.

    p(0) = 0, p(n) = min(e**eps p(n - 1) + delta, 1 - e**-eps (1 - p(n - 1) - delta), 1), each step
    rounded down, so that (epsilon, delta) holds for the integers as they are. The last one is 1.

    - raises ValueError: if the table would be too long.
    """
    if epsilon <= 0 or delta <= 0:
        raise ValueError(_NOT_POSITIVE)
    unit = 1 << _PROBABILITY_BITS
    high = max(exp_bracket(epsilon, _PROBABILITY_BITS)[1], 1)  # not below e**-eps
    step = math.floor(delta * unit)
    table = [0]
    while table[-1] < unit:
        if len(table) > _LONGEST_TABLE:
            raise ValueError(
                "epsilon for one key is so small that the optimal rule has no table; take another "
                "method or fewer keys a unit"
            )
        last = table[-1]
        # 1 / high is at most e**eps; high is at least e**-eps.
        up = last * unit // high + step
        down = unit - -(-high * max(unit - last - step, 0) // unit)
        table.append(min(up, down, unit))
    return tuple(table)


def gaussian_threshold(weights: list[int], sigma: float, delta: float) -> int:
    """Return T: keys of one unit alone stay below it, but with probability delta together.

    For a unit of n such keys, of weight w_n each: 1 - (1 - P(w_n + N >= T - 1/2))**n <= delta for
    every n. A unit that shares some of its keys has fewer that are its own, at no larger weight.
    """
    if not sigma > 0 or not 0 < delta < 1:
        raise ValueError(_NOT_POSITIVE)
    n = np.arange(1, len(weights) + 1)
    each = -np.expm1(math.log1p(-delta * (1 - 1e-9)) / n)
    above = np.array(weights, dtype=np.float64) + sigma * (-ndtri(each) * (1 + 1e-9) + 1e-9)
    return math.ceil(float(above.max()) + 0.5) + 1


def _holder(keys: list[Any], totals: list[int]) -> NDArray:
    """Return the totals of all keys for a transcript: which keys there are is private."""
    return in_transcript(lambda: list(zip(keys, totals, strict=True)))


def _distance(power: int) -> Callable[[NDArray, NDArray], float]:
    """Return the L1 or L2 distance of totals by key; a key that is missing has 0."""

    def distance(a: NDArray, b: NDArray) -> float:
        first, second = dict(a[0]), dict(b[0])
        moved = sum(
            abs(first.get(key, 0) - second.get(key, 0)) ** power for key in {*first, *second}
        )
        return float(moved) if power == 1 else math.sqrt(moved)

    return distance


def _as_released(keys: list[Any]) -> NDArray:
    """Return keys in an array of one object; their number is decided by noise."""
    out = np.empty(1, dtype=object)
    out[0] = keys
    return out


def _check_keyed(table: PrivateTable, most: int | None, max_keys: int) -> None:
    """Refuse tables whose rows have no keys, or more of them than a query counts.

    `most` is how many a row has: any number, if it is None.
    """
    if not 1 <= max_keys <= MAX_KEYS_PER_UNIT:
        raise ValueError(f"max_keys must be in [1, {MAX_KEYS_PER_UNIT}]")
    if most == 0:
        raise TypeError("keys are selected from rows that have keys")
    if most is None and table.stability not in (Stability(1, 0), Stability(0, 1)):
        raise TypeError("keys are selected from a table whose rows are units")
    if most is not None and max_keys < most:  # all keys of a row count
        raise ValueError(f"max_keys must be at least {most}, the keys that a row may have")


@reviewed
@dataclass(frozen=True, eq=False)
class SelectKeys(Measurement):
    """The keys that may be named, sorted; see the methods in this module's description.

    Rows have keys in one of three ways: a row is a unit with any number of keys (from
    `skdp.tabular.check_grouped`), it has at most one key a column (categories), or it has one
    label. Labels get their codes by the released keys, a function of each label alone.

    Guarantee: the share's level for keys that several rows have; the session's separate delta for
    keys of a single row. It is for a step of the table. Where a unit is several steps, the filter
    gives each a part of the share and of the separate delta.

    - `max_keys`: Keys of a row that count; where it has more, they are chosen uniformly among its
      keys.
    - `method` ({"auto", "laplace", "optimal", "gaussian", "sips"}): ``"gaussian"`` and ``"sips"``
      need a session with Gaussian noise.
    - `name`: Of the release.
    - `looks`: Parts of the share, which add up to at most 1: of the first look, and of further
      looks while fewer than `enough` keys are found. The answer is what all looks found. Each look
      has an equal part of the separate delta; the parts of looks that are not needed stay in the
      allowance.
    - returns: Of labels: the array of classes, sorted. There may be none.
    """

    max_keys: int
    method: str = "auto"
    name: str = "keys"  # type: ignore[misc]
    looks: tuple[float, ...] = (1.0,)
    enough: int = 1

    def measure(self, table: PrivateTable, meter: Meter, share: Share, name: str) -> Any:
        if not 1 <= self.max_keys <= MAX_KEYS_PER_UNIT or self.method not in ("auto", *KEY_METHODS):
            raise ValueError(
                f"max_keys must be in [1, {MAX_KEYS_PER_UNIT}], method one of the four"
            )
        if not self.looks or min(self.looks) <= 0 or sum(map(exact_fraction, self.looks)) > 1:
            raise ValueError("looks must be parts of the share, above 0, of at most 1 together")
        _check_keyed(table, getattr(table.rows, "keys_per_row", 0), self.max_keys)
        keys = self._selected(table, meter, share, name)
        coded = getattr(table.rows, "take_classes", None)
        return keys if coded is None else coded(keys)

    def _selected(self, table: PrivateTable, meter: Meter, share: Share, name: str) -> list[Any]:
        delta = exact_fraction(meter.separate_delta)
        if delta < _SMALLEST_DELTA:
            if not meter.claimed_separate_delta:
                raise ValueError("private keys need a delta of their own, separate_delta")
            return []  # next to nothing is left of it for one step: nothing may be named
        fraction = meter.fraction(share)
        meter.take_separate_delta(delta, name)
        found: list[Any] = []
        for i, part in enumerate(self.looks):
            title = f"{name}, look {i + 1}" if i else name
            one_look = delta / len(self.looks)
            keys = self._one_look(table, meter, fraction * exact_fraction(part), title, one_look)
            found += [key for key in keys if key not in found]
            if len(found) >= self.enough:
                break
        return sorted(found, key=key_order) if len(self.looks) > 1 else found

    def _one_look(
        self, table: PrivateTable, meter: Meter, fraction: Fraction, name: str, delta: Fraction
    ) -> list[Any]:
        level = meter.level(fraction)
        epsilon = level if meter.pure else conversions.pure_epsilon_from_mu(level)
        method = self.method
        if meter.pure and method in ("gaussian", "sips"):
            method = "auto"
        method = usable_method(method, self.max_keys, epsilon, gaussian=not meter.pure)
        if method in ("gaussian", "sips"):
            rounds = ROUNDS if method == "sips" else (1.0,)
            return self._weighed(table, meter, fraction, name, delta, rounds)
        return self._counted(table, meter, fraction, name, delta, optimal=method == "optimal")

    def _counted(
        self,
        table: PrivateTable,
        meter: Meter,
        fraction: Fraction,
        name: str,
        delta: Fraction,
        *,
        optimal: bool,
    ) -> list[Any]:
        """Count rows by key: max_keys counts move by one (A), twice as many (R).

        Then add Laplace noise, or keep each key with its optimal probability.
        """
        rows_moved = 2 if table.relation == REPLACE_ONE else 1
        moved = self.max_keys * rows_moved
        level = meter.level(fraction)
        fraction, epsilon = meter.take(fraction, name)
        if optimal:
            what, epsilon_of_key = "optimal selection", epsilon / moved
            if not meter.pure:
                epsilon_of_key = Fraction(conversions.pure_part(level, moved))
            scale = 1 / epsilon_of_key
            probabilities = keeping_probabilities(epsilon_of_key, delta / moved)
        else:
            what, scale = "discrete Laplace, threshold", Fraction(moved) / epsilon
            threshold = laplace_threshold(self.max_keys, scale, delta / rows_moved)
        keys, counts = table.rows.key_weights([1] * self.max_keys, table.rows.salt(0), ())

        def choose() -> NDArray:
            if optimal:
                return _with_probability(keys, counts, probabilities, meter)
            drawn = samplers.discrete_laplace(scale, len(keys), entropy=meter.entropy)
            return _above(keys, counts, drawn, threshold)

        passed = meter.release(name, _holder(keys, counts), moved, _distance(1), choose, (1,))
        meter.record(name, what, "L1", moved, float(scale), fraction, delta=float(delta))
        return list(passed[0])

    def _weighed(
        self,
        table: PrivateTable,
        meter: Meter,
        fraction: Fraction,
        name: str,
        delta: Fraction,
        rounds: tuple[float, ...],
    ) -> list[Any]:
        """Weigh keys, a row's by one over the root of their number, in rounds."""
        weights = key_weights(self.max_keys)
        largest = weights[0]
        # Under R both rows may have keys of their own.
        rows_moved = 2 if table.relation == REPLACE_ONE else 1
        moved = isqrt_up(2 * largest**2) if rows_moved == 2 else largest
        selected: list[Any] = []
        for i, part in enumerate(rounds):
            title = name if len(rounds) == 1 else f"{name}, round {i + 1}"
            split = exact_fraction(part)
            taken, _ = meter.take(fraction * split, title)
            sigma = mechanisms.sigma_up(moved, meter.level(taken))
            limit = float(delta / rows_moved * split) * (1 - 1e-12)
            threshold = gaussian_threshold(weights, sigma, limit)
            keys, totals = table.rows.key_weights(weights, table.rows.salt(i), tuple(selected))

            def choose(
                keys: list[Any] = keys,
                totals: list[int] = totals,
                sigma: float = sigma,
                threshold: int = threshold,
            ) -> NDArray:
                if sigma > _MOST_NOISE:  # a fact of the plan: the threshold is out of reach
                    return _as_released([])
                drawn = samplers.rounded_gaussian(sigma, len(keys), entropy=meter.entropy)
                return _above(keys, totals, drawn, threshold)

            passed = meter.release(title, _holder(keys, totals), moved, _distance(2), choose, (1,))
            what, spent = "weighted Gaussian, threshold", float(delta * split)
            meter.record(title, what, "L2", moved / largest, sigma / largest, taken, delta=spent)
            selected += list(passed[0])
        return sorted(selected, key=key_order)


def select_classes(*looks: float) -> SelectKeys:
    """Return the query of the classes of labels: those that enough rows have.

    With `looks`, parts of the share, it looks again while fewer than two are found.
    """
    return SelectKeys(1, "auto", "classes", looks or (1.0,), 2)


def select_categories(n_columns: int) -> SelectKeys:
    """Return the query of the categories of columns, as a list of (column, family, value)."""
    # In rounds, the rare values of a row get the weight of its common ones, which were found.
    return SelectKeys(n_columns, "auto", "categories")


# --- keys with their counts -----------------------------------------------------------------------


class KeyCounts(NamedTuple):
    """Keys with noisy counts above a threshold, and the law of the noise.

    - `keys`: Sorted.
    - `counts` of shape (n_keys,): The noisy counts, each at least `threshold`.
    - `pure`: Whether noise is discrete Laplace of this scale, within [1 - threshold, threshold -
      1], or rounded Gaussian noise with this deviation.
    """

    keys: list[Any]
    counts: NDArray[np.float64]
    pure: bool
    scale: float
    threshold: int

    @property
    def std(self) -> float:
        """The standard deviation of the noise, as if it had no bounds."""
        return mechanisms.laplace_std(self.scale) if self.pure else self.scale


def largest_noise(scale: Fraction, max_rows: int, moved_keys: int, delta: Fraction) -> int:
    """Return B: discrete Laplace noise within [-B, B] hides `moved_keys` counts.

    Each count moves by `max_rows` at most. K P(B - r < X <= B) <= delta for K keys and r rows,
    where P(X = x) is proportional to q**abs(x), q = exp(-1 / scale): certified in fractions. B is
    the least such number, or next to it.

    Examples
    --------
    >>> largest_noise(Fraction(1), 1, 1, Fraction(1, 10**6))
    14
    """
    if scale <= 0 or delta <= 0:
        raise ValueError(_NOT_POSITIVE)
    each = delta / moved_keys
    bound = max(max_rows, math.floor(_noise_estimate(float(scale), max_rows, float(each))) - 2)
    step = max(1, bound >> 48)  # a float may be off by so much
    bits = max(200, 100 + each.denominator.bit_length() - each.numerator.bit_length())
    while not _outside(bound, scale, max_rows, bits) <= each:
        bound += step
    return bound


def _noise_estimate(scale: float, max_rows: int, each: float) -> float:
    """Return about the B at which P(B - max_rows < X <= B) is `each`, in floats."""
    # q**B (q**-(r - 1) (1 - q**r) + 2 q each) = each (1 + q)
    q, top = math.exp(-1 / scale), (max_rows - 1) / scale
    if top > 600.0:
        return max_rows - 1 - scale * math.log(each * (1 + q))
    weight = math.exp(top) * -math.expm1(-max_rows / scale) + 2 * q * each
    return scale * (math.log(weight) - math.log(each * (1 + q)))


def _outside(bound: int, scale: Fraction, max_rows: int, bits: int) -> Fraction:
    """Return P(bound - max_rows < X <= bound) of noise within the bound, rounded up.

    The sum of q**x over these x is q**(B - r + 1) (1 - q**r) / (1 - q), and over all x of
    q**abs(x) it is (1 + q - 2 q**(B + 1)) / (1 - q).
    """
    unit = 1 << bits

    def power(k: int, end: int) -> Fraction:
        return Fraction(exp_bracket(Fraction(k) / scale, bits)[end], unit)

    above = power(bound - max_rows + 1, 1) * (1 - power(max_rows, 0))
    below = 1 + power(1, 0) - 2 * power(bound + 1, 1)
    return above / below if below > 0 else Fraction(1)


def _bounded_laplace(scale: Fraction, bound: int, n: int, entropy: Any) -> NDArray:
    """Draw n integers x in [-bound, bound] with weights exp(-abs(x) / scale), exactly.

    A scale below 1: draws beyond the bound are drawn again. Otherwise, abs(Y) - 1 of a draw Y that
    is not 0 has weights q**k, k = 0, 1, ..., and the sign of Y is fair; the remainder k of the
    former by bound + 1 has weights q**k again, as those of k, k + bound + 1, ... add up to a
    multiple of q**k. With the sign, k and -k have equal weights, and 0 has them twice: one of the
    two is drawn again.
    """
    out, todo = np.zeros(n, dtype=np.int64), np.arange(n)
    while todo.size:
        drawn = np.asarray(samplers.discrete_laplace(scale, todo.size, entropy=entropy))
        size, negative = np.abs(drawn), drawn < 0
        if scale < 1:
            out[todo] = np.where(size <= bound, drawn, 0)
            again = size > bound
        else:
            rest = (size - 1) % (bound + 1)
            out[todo] = np.where(negative, -rest, rest)
            again = (size == 0) | (negative & (rest == 0))
        todo = todo[again.astype(bool)]
    return out


def counting_law(
    max_keys: int, max_rows: int, level: Any, delta: Any, *, pure: bool, replace: bool
) -> tuple[Any, int]:
    """Return the scale of the noise on counts that select their keys, and the threshold.

    A public function of public numbers, with which plans compute what `CountedKeys` draws.

    - `level`: Epsilon, or mu where noise is Gaussian.
    - `delta`: Of the keys of one unit.
    - `replace`: Whether one unit is replaced, and not added or removed.
    - returns `scale`: Of discrete Laplace noise, or a standard deviation.
    - returns `threshold`: The least noisy count that shows.
    """
    units = 2 if replace else 1
    delta = exact_fraction(delta)
    if pure:
        scale = Fraction(max_keys * max_rows * units) / exact_fraction(level)
        return scale, largest_noise(scale, max_rows, max_keys * units, delta) + 1
    # The root in steps of 2**-30, rounded up.
    moved = isqrt_up((max_rows**2 * max_keys * units) << 2 * WEIGHT_BITS)
    sigma = mechanisms.sigma_up(moved, float(level)) / 2**WEIGHT_BITS
    limit = float(delta / units) * (1 - 1e-12)
    return sigma, gaussian_threshold([max_rows] * max_keys, sigma, limit)


@reviewed
@dataclass(frozen=True, eq=False)
class CountedKeys(Measurement):
    """The keys whose noisy counts reach a threshold, with these counts: one noise for both.

    Rows have keys as in `SelectKeys`. A row adds to at most `max_keys` counts, at most `max_rows`
    to each: its rows under that key (a unit of `skdp.tabular.check_grouped`), or 1.

    Guarantee: the share's level and the session's separate delta together, for a step of the
    table; key_selection.md, "Counted keys".

    - `max_keys`: Keys of a row that count; where it has more, they are chosen uniformly among its
      keys.
    - `max_rows`: 1: each key counts rows of the table, which may be units.
    - `name`: Of the release.
    """

    max_keys: int
    max_rows: int = 1
    name: str = "counted keys"  # type: ignore[misc]

    def measure(self, table: PrivateTable, meter: Meter, share: Share, name: str) -> KeyCounts:
        most = getattr(table.rows, "keys_per_row", 0)
        _check_keyed(table, most, self.max_keys)
        if not 1 <= self.max_rows <= MAX_KEYS_PER_UNIT or (most is not None and self.max_rows > 1):
            raise ValueError("max_rows must be 1, or for tables of units at most 2**14")
        delta = exact_fraction(meter.separate_delta)
        if not meter.claimed_separate_delta:
            raise ValueError("private keys need a delta of their own, separate_delta")
        pure, replace = meter.pure, table.relation == REPLACE_ONE
        if delta < _SMALLEST_OF_COUNTS:  # next to nothing is left of it for one step
            return KeyCounts([], np.empty(0), pure, math.inf, 1)
        meter.take_separate_delta(delta, name)
        fraction, epsilon = meter.take(share, name)
        scale, threshold = counting_law(
            self.max_keys,
            self.max_rows,
            epsilon if pure else meter.level(fraction),
            delta,
            pure=pure,
            replace=replace,
        )
        if self.max_rows == 1:
            keys, counts = table.rows.key_weights([1] * self.max_keys, table.rows.salt(-2), ())
        else:
            keys, counts = table.rows.key_counts(self.max_keys, self.max_rows)

        def choose() -> NDArray:
            if pure:
                drawn = _bounded_laplace(scale, threshold - 1, len(keys), meter.entropy)
            else:
                drawn = samplers.rounded_gaussian(scale, len(keys), entropy=meter.entropy)
            return _as_released(_counted_above(keys, counts, drawn, threshold))

        units = 2 if replace else 1
        moved: float
        if pure:
            norm, moved, what = "L1", self.max_keys * self.max_rows * units, "truncated Laplace"
        else:
            norm, what = "L2", "Gaussian"
            moved = math.sqrt(self.max_keys * units) * self.max_rows * (1 + 2**-50)
        distance = _distance(1 if pure else 2)
        passed = meter.release(name, _holder(keys, counts), moved, distance, choose, (1,))
        what = f"{what}, threshold"
        meter.record(name, what, norm, moved, float(scale), fraction, delta=float(delta))
        released = list(passed[0])
        values = np.array([value for _, value in released], dtype=np.float64)
        return KeyCounts([key for key, _ in released], values, pure, float(scale), threshold)


def _counted_above(
    keys: list[Any], totals: list[int], drawn: NDArray, threshold: int
) -> list[tuple[Any, int]]:
    """Return the keys whose noisy totals reach the threshold, with these totals."""
    noisy = np.array(totals, dtype=object) + drawn.astype(object)
    pairs = zip(keys, noisy.tolist(), strict=True)
    return [(key, int(total)) for key, total in pairs if total >= threshold]


def _above(keys: list[Any], totals: list[int], drawn: NDArray, threshold: int) -> NDArray:
    """Return the keys whose noisy totals reach the threshold."""
    return _as_released([key for key, _ in _counted_above(keys, totals, drawn, threshold)])


def _with_probability(
    keys: list[Any], counts: list[int], probabilities: tuple[int, ...], meter: Meter
) -> NDArray:
    """Return keys, each kept with the probability of its count, in units of 2**-160."""
    source = samplers.OSEntropy() if meter.entropy is None else meter.entropy
    last = len(probabilities) - 1
    words = (int.from_bytes(source.bytes(_PROBABILITY_BITS // 8), "little") for _ in keys)
    return _as_released(
        [
            key
            for key, count, word in zip(keys, counts, words, strict=True)
            if word < probabilities[min(count, last)]
        ]
    )
