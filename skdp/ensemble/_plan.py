"""How many blocks and queries a fit takes: from the noise that its aggregate will have.

Nothing is released here. Everything is computed from parameters and from numbers of rows that are
public, or released before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from skdp.planning import Allowance
from skdp.queries import choose_noise

SCORES = "scores"
SMOOTH = "smooth_median"

COUNT_SHARE = 0.05  # where the number of rows is private: what the number of blocks needs of it

# "auto": the noise as a part of a unanimous vote, or of half a width.
_AIM = {"vote": 0.25, "mean": 0.05, "median": 0.05, SCORES: 0.1, SMOOTH: 0.05}
_LEAST_BLOCKS = 10
_LEAST_ROWS_OF_SCORES = 10  # of a block: a mean of many rough scores is better than of few good
_LOUD_SCORES = 0.2  # the noise of all directions, as a part of unanimous scores
_MOST_DIRECTIONS = 33
_HEARD = 0.5  # noise of a margin up to which votes teach a student
_ENOUGH_QUERIES = 100
_LEAST_ROWS = 20  # of a block
_PLANNED_ROWS = 50  # of a block, when queries are chosen
MOST_QUERIES = 1000

MOST_TOGETHER = 8192  # numbers of one release of vectors


@dataclass(frozen=True)
class Noise:
    """The noise of an aggregate of several numbers under one allowance.

    Attributes
    ----------
    how : {"vote", "scores", "mean", "median", "smooth_median"}
    n_classes : int
        Of votes.
    allowance : Allowance
    """

    how: str
    n_classes: int
    allowance: Allowance

    @property
    def mu(self) -> float | None:
        """Of Gaussian noise; None of pure one."""
        return self.allowance.mu

    def _each(self, numbers: int) -> float:
        """Return the pure epsilon of each of several releases."""
        return self.allowance.part(Fraction(1, numbers)).pure_epsilon

    def _smooth(self, numbers: int) -> tuple[float, float]:
        """Return beta and kappa of smooth noise; ValueError if epsilon is too small for it."""
        noise = choose_noise("cauchy", self._each(numbers))
        return float(noise.beta), float(noise.kappa)

    def _std(self, numbers: int) -> float:
        """Return the standard deviation in blocks: of a margin, or of a sum in half widths.

        Of a median, that of its rank times 2.
        """
        if self.how == "median" or (self.how == "vote" and self.n_classes > 2 and self.mu is None):
            # Choices in a Gaussian session may have twice the rate (quantiles.md).
            each = self._each(numbers) * (1 if self.mu is None else 2)
            # Odds of exp(each / 2) a vote: logistic, and exp(-each / 2) a rank on either side.
            spread = 4 * math.sqrt(2) if self.how == "median" else 2 * math.pi / math.sqrt(3)
            return spread / each
        return self.allowance.vector_std(2 * math.sqrt(numbers), numbers)

    def error(self, numbers: int, blocks: int) -> float:
        """Return the noise as a part of what unanimous blocks give.

        Of a smooth median, whose noise depends on the blocks: its scale over half the width if they
        are unanimous, the least it can be. The smooth sensitivity is the width then, less a factor
        exp(-beta) for each of blocks / 2 changes.
        """
        if self.how != SMOOTH:
            return self._std(numbers) / blocks
        beta, kappa = self._smooth(numbers)
        return 2 * kappa * math.exp(-beta * (blocks // 2))

    def wanted(self, numbers: int) -> int:
        """Return the least number of blocks whose error is the one that is aimed at."""
        aim = _AIM[self.how]
        if self.how != SMOOTH:
            return math.ceil(self._std(numbers) / aim)
        beta, kappa = self._smooth(numbers)
        return max(1, 2 * math.ceil(math.log(2 * kappa / aim) / beta))


def number_of_queries(
    noise: Noise, n: int, blocks: int | None, queries: int | None, most: int
) -> int:
    """Return the number of queries.

    Parameters
    ----------
    n : int
        Number of rows, public or released; 0 if it is neither, and then nothing is automatic.
    blocks, queries : int or None
        As stated; None for automatic.
    most : int
        Number of public rows.
    """
    if queries is not None:
        return min(queries, most)
    blocks = n // _PLANNED_ROWS if blocks is None else blocks
    low, high = min(10, most), min(MOST_QUERIES, most)
    while low < high:  # the largest with little enough noise; it grows with their number
        middle = (low + high + 1) // 2
        if noise.wanted(middle) <= blocks:
            low = middle
        else:
            high = middle - 1
    return low


def number_of_blocks(noise: Noise, n: int, stated: int | None, numbers: int) -> int:
    """Return the number of blocks for this many queries or parameters; `n` as above."""
    if stated is None:
        rows = _LEAST_ROWS_OF_SCORES if noise.how == SCORES else _LEAST_ROWS
        stated = max(min(noise.wanted(numbers), n // rows), _LEAST_BLOCKS)
    return min(stated, n) if n else stated


def number_of_directions(noise: Noise, n: int, blocks: int | None, most: int) -> tuple[int, int]:
    """Return the numbers of blocks and of directions in which scores are released.

    Parameters
    ----------
    n, blocks
        As above.
    most : int
        Number of public rows that are asked.
    """
    each = 1 if noise.n_classes == 2 else noise.n_classes
    most = min(most, _MOST_DIRECTIONS, max(MOST_TOGETHER // each, 1))
    blocks = number_of_blocks(noise, n, blocks, most * each)
    number = most
    while number > 2 and noise.error(number * each, blocks) > _LOUD_SCORES:
        number -= 1
    return blocks, number


def votes_are_heard(noise: Noise, blocks: int, queries: int, stated: int | None, most: int) -> bool:
    """Say whether votes on as many queries teach a student enough; else scores teach it more."""
    enough = min(_ENOUGH_QUERIES if stated is None else stated, most)
    return queries >= enough and noise.error(queries, blocks) <= _HEARD


@dataclass(frozen=True)
class Plan:
    """What a fit will ask, decided by public or released numbers.

    Attributes
    ----------
    noise : Noise
        It knows the way of aggregating.
    blocks, queries : int
        Of parameters, `queries` is their number.
    numbers : int
        That noise is for: queries or parameters, or the directions of scores.
    """

    noise: Noise
    blocks: int
    queries: int
    numbers: int


def planned(
    how: str,
    n_classes: int,
    allowance: Allowance,
    n: int,
    blocks: int | None,
    queries: int | None,
    n_public: int,
    n_numbers: int | None,
) -> Plan:
    """Return what is asked of how many blocks.

    Parameters
    ----------
    how : str
        The way of aggregating; ``"auto"``: votes where they are heard, else scores.
    n_classes : int
        0 where there are none.
    allowance : Allowance
        Of the aggregate.
    n : int
        Number of rows, public or released; 0 if it is neither, and then nothing is automatic.
    blocks, queries : int or None
        As stated; None for automatic.
    n_public : int
    n_numbers : int or None
        Of parameters; None for predictions.
    """
    if how == "auto":
        voted = planned("vote", n_classes, allowance, n, blocks, queries, n_public, None)
        if votes_are_heard(voted.noise, voted.blocks, voted.queries, queries, n_public):
            return voted
        how = SCORES
    noise = Noise(how, n_classes, allowance)
    if how == SCORES:
        asked = min(MOST_QUERIES if queries is None else queries, n_public)
        found, number = number_of_directions(noise, n, blocks, asked)
        return Plan(noise, found, asked, number)
    if n_numbers is None:
        n_numbers = number_of_queries(noise, n, blocks, queries, n_public)
    return Plan(noise, number_of_blocks(noise, n, blocks, n_numbers), n_numbers, n_numbers)


def check_noise(noise: Noise, queries: int | None, n_public: int, n_numbers: int | None) -> None:
    """Refuse before the charge what the session would refuse after it."""
    if noise.how != SMOOTH:
        return
    if n_numbers is None:
        n_numbers = min(MOST_QUERIES if queries is None else queries, n_public)
    try:
        noise.error(n_numbers, 1)
    except ValueError:
        raise ValueError(
            f"epsilon must be larger for a smooth median of {n_numbers} numbers"
        ) from None
