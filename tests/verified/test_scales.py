"""The scales that noise is drawn with: those of the sensitivity over what the share may lose.

Sessions are opened and queries answered as by anybody, but the samplers are replaced: they note
the scale, sigma or rate that they are called with, and return ones. The tables have no rows, so a
noisy integer is the noise alone: it is the step that a statistic was shortened to.

What is noted is compared with a computation of its own here, in exact fractions, which calls no
function of the package: sensitivities of one row from the bounds of the query, of a unit from the
stability of the table, shares from their decimals. The level mu is the root of the condition of
Balle and Wang (2018, Theorem 8), enclosed with 60 digits.
"""

from __future__ import annotations

import copy
import functools
import itertools
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt, sqrt
from typing import Any, ClassVar

import mpmath
import numpy as np
import pytest

from skdp.budget.budget import StandInBudget
from skdp.core import Ball, Box, Count, Mean, Query, Sum, noise, open_session, register_query
from skdp.core import session as session_module
from skdp.core.mechanisms import Cubes, Independent
from skdp.core.units import Unit
from skdp.queries import CellQuantile, Grid, Quantiles, quantiles, row_counts, second_moments
from skdp.tabular import check_rows

ABOUT = (
    "skdp/loss/conversions.py",
    "skdp/core/clipping.py",
    "skdp/core/mechanisms.py",
    "skdp/core/privacy_filter.py",
    "skdp/core/query.py",
    "skdp/core/session.py",
    "skdp/core/sums.py",
    "skdp/core/table.py",
    "skdp/core/units.py",
    "skdp/queries/histograms.py",
    "skdp/queries/quantiles.py",
    "skdp/queries/second_moments.py",
)
NEEDS = ()

R, A = "replace_one", "add_or_remove_one"
EPSILONS = (0.1, 1 / 3, 1.0, 7.3)
TINY_EPSILON = 1e-6
DELTAS = {"pure": 0.0, "gaussian": 1e-6}
COLUMNS = (1, 2, 7, 50)

# How far sigma, and a pure loss in a Gaussian session, may be on the safe side, relatively: levels
# are rounded down, by more where epsilon is tiny.
SIGMA_SLACK = Fraction(1, 10**9)
LOSS_SLACK = 1e-6
TINY_SLACK = Fraction(1, 10**6)


# --- tables, and what of them one unit may change -------------------------------------------------


@dataclass(frozen=True)
class Table:
    """A kind of table without rows.

    Attributes
    ----------
    relation : str
    filtered : bool
        Whether a filter of each row has left the rows.
    most : int or str or None
        Rows of one unit; None where the unit is a row.
    """

    relation: str
    filtered: bool = False
    most: Any = None

    def changed(self, most):
        """Return how many rows one unit replaces, and how many it adds or removes, at most."""
        if self.most is not None:
            return (most if self.relation == R else 0), most
        if self.relation == A:
            return 0, 1
        return 1, int(self.filtered)


TABLES = (
    *(Table(relation, filtered) for relation in (R, A) for filtered in (False, True)),
    *(Table(relation, most=most) for relation in (R, A) for most in (1, 2, 5, "private")),
)
TABLES_OF_ROWS = tuple(table for table in TABLES if table.most is None)


@functools.cache
def rows_of(table, n_columns):
    """Return private rows: none, of so many columns."""
    rows = check_rows(np.empty((0, n_columns)), estimator="checker", allow_empty=True)
    if table.most is not None:
        return rows.of_units(np.empty(0, dtype=np.int64), "checker")
    rows = copy.copy(rows)
    rows.filtered = table.filtered
    return rows


# --- sensitivities of one row ---------------------------------------------------------------------


def root_up(value):
    """Return the least integer whose square is at least `value`."""
    root = isqrt(value)
    return root + (root * root < value)


def steps_in(width, bits, largest):
    """Return how many whole steps there are in `width`, where `largest` has 2**bits or more.

    A step is a power of two, and `largest` has less than 2**(bits + 1) of them.
    """
    step = Fraction(1)
    while largest / step < 2**bits:
        step /= 2
    while largest / step >= 2 ** (bits + 1):
        step *= 2
    return width // step


@dataclass(frozen=True)
class Asked:
    """A query, and by how much one row moves it.

    Attributes
    ----------
    query : Query or Choice
    moved : dict
        By relation: (L1 or None, squared L2) of one row; of a choice, by how much a score moves.
    n_columns : int
        Of the rows.
    entries : int
        Of the answer; rows of scores, of a choice.
    counts : bool
        Whether the number of rows is one entry more where it is private.
    samplers : tuple of str
        With which noise a pure session may answer.
    box : dict or None
        By relation: how much the largest changes of `parts` parts add up to, for one row. With a
        private number of rows it counts as much as the largest change of an entry does.
    """

    query: Any
    moved: dict
    n_columns: int = 1
    entries: int = 1
    counts: bool = False
    samplers: tuple = ("k_norm",)
    box: dict | None = None
    parts: int = 1

    def changes(self, replaced, added):
        """Return how many rows one unit changes, by relation.

        Where rows are replaced the number of rows counts as much as leaves an added row no further
        than a replaced one, and no more.
        """
        if self.counts and replaced:
            return [(max(replaced, added), R)]
        return [(k, relation) for k, relation in ((replaced, R), (added, A)) if k]

    def size(self, replaced, added):
        """Return (L1, squared L2) for all rows that one unit changes."""
        changes = [(k, *self.moved[relation]) for k, relation in self.changes(replaced, added)]
        sizes = [(k * (l1 or 0), k * k * squared) for k, l1, squared in changes]
        return tuple(max(size) for size in zip(*sizes, strict=True))

    def pure_noise(self, replaced, added):
        """Return the deviations at epsilon 1 of each kind of noise, and the size of the box."""
        (l1, squared), m = self.size(replaced, added), self.entries + (self.counts and added > 0)
        least = {"k_norm": sqrt((m + 1) * squared), "discrete_laplace": sqrt(2) * l1}
        least = {name: least[name] for name in self.samplers}
        if self.box is None:
            return least, 0
        box = max(k * self.box[relation] for k, relation in self.changes(replaced, added))
        width = m // self.parts
        return least | {"cube": box * sqrt((width + 1) * (width + 2) / 3)}, box


def of_view(view, norm, half, n_columns):
    """Return a sum and a mean of rows whose norm and largest entry have so many steps."""
    weight = max(1, norm // 3)
    least = max(1, norm)
    sums = {R: (None, max(1, 2 * norm) ** 2), A: (None, least**2)}
    means = {R: sums[R], A: (None, root_up(weight**2 + norm**2) ** 2)}
    box = {R: max(1, 2 * half), A: max(1, half)}
    return [
        Asked(Sum(view), sums, n_columns, n_columns, box=box),
        Asked(Mean(view), means, n_columns, n_columns, counts=True, box=box),
    ]


def sums_and_means():
    """Return sums and means of boxes and balls."""
    found = of_view(Box([0.25], [0.25]), 0, 0, 1)
    for d in COLUMNS:
        widths = np.array([(j % 5 + 1) / 3 if j != 3 else 0.0 for j in range(d)])
        exact = [Fraction(w) for w in widths]
        steps = [steps_in(w, 31, max(exact)) for w in exact]
        norm = root_up(sum(s * s for s in steps))
        found += of_view(Box(-widths, widths), norm, max(steps), d)
        radius = 1.7 * d
        norm = steps_in(Fraction(radius), 30, Fraction(radius))
        found += of_view(Ball(np.zeros(d), radius), norm, norm, d)
    return found


@register_query
@dataclass(frozen=True)
class Stated(Query):
    """Integers that are 0 for every table, with any stated sensitivity."""

    name: ClassVar[str] = "stated"
    entries: int
    replaced: tuple
    added: tuple
    or_spherical: bool
    box: tuple | None = None
    parts: int = 1

    def exact(self, table):
        return np.zeros(self.entries, dtype=np.int64)

    def sensitivity(self, relation):
        size = self.replaced if relation == R else self.added
        cubes = None if self.box is None else Cubes(self.box[relation == A], self.parts)
        return Independent(*size, or_spherical=self.or_spherical, cubes=cubes)

    def decoded(self, noisy):
        return noisy.values


def stated(entries, replaced, added, *, or_spherical=False, box=None, parts=1):
    """Return a query of independent entries with these (L1, squared L2), and boxes."""
    return Asked(
        Stated(entries, replaced, added, or_spherical, box and (box[R], box[A]), parts),
        {R: replaced, A: added},
        entries=entries,
        samplers=("discrete_laplace", "k_norm") if or_spherical else ("discrete_laplace",),
        box=box,
        parts=parts,
    )


LAPLACE = ("discrete_laplace",)
HUGE = 10**18 + 1  # noise of it has so many steps that the statistic is shortened
QUERIES = (
    Asked(Count(), {R: (1, 1), A: (1, 1)}, samplers=LAPLACE),
    *(
        Asked(
            row_counts(Grid((np.linspace(0.0, 1.0, bins + 1),)), "histogram"),
            {R: (2, 2), A: (1, 1)},
            entries=bins,
            samplers=LAPLACE,
        )
        for bins in (1, 10)
    ),
    *sums_and_means(),
    stated(3, (12, 50), (7, 21)),
    stated(3, (7, 21), (12, 50)),
    stated(50, (100, 50), (100, 50), or_spherical=True),
    stated(50, (200, 50), (200, 50), or_spherical=True),
    stated(2, (HUGE, HUGE**2), (HUGE, HUGE**2)),
    stated(7, (7 * HUGE, 7 * HUGE**2), (HUGE, HUGE**2), or_spherical=True),
    stated(12, (40, 200), (20, 100), or_spherical=True, box={R: 4, A: 3}, parts=4),
    stated(
        *(6, (9 * HUGE, 9 * HUGE**2), (9 * HUGE, 8 * HUGE**2)),
        or_spherical=True,
        box={R: 2 * HUGE, A: HUGE},
        parts=2,
    ),
)


def quantile(q, numerator, denominator, d):
    """Return the choice of a quantile of every one of d columns, at a level that is a fraction."""
    moved = {R: denominator, A: max(numerator, denominator - numerator)}
    return Asked(CellQuantile(Box(-np.ones(d), np.ones(d)), q, 5), moved, d, d)


CHOICES = (
    *(quantile(0.5, 1, 2, d) for d in COLUMNS),
    quantile(0.1, 1, 10, 2),
    quantile(0.999, 999, 1000, 7),
)

# What a count takes before, and the share of the query; None is the rest.
SHARES = (
    (None, None),
    (None, 0.1),
    (None, 1 / 3),
    (None, Fraction(1, 3)),
    (None, 0.7),
    (0.3, None),
    (0.1, 0.7),
)


def decimal(value):
    """Return a number as the fraction of its shortest decimal, which is what is charged."""
    return value if isinstance(value, Fraction) else Fraction(repr(value))


# --- levels ---------------------------------------------------------------------------------------


def real(value):
    """Return a fraction as a number of 60 digits."""
    return mpmath.mpf(value.numerator) / value.denominator


@functools.cache
def level_of(epsilon, delta):
    """Return the largest mu for which mu-GDP gives (epsilon, delta)-DP, a little below.

    delta(mu) = Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu), which grows with mu,
    is at most delta there, and above delta at mu (1 + 2**-80).
    """
    e, d = real(decimal(epsilon)), real(decimal(delta))

    def private(mu):
        a, b = real(mu) / 2, e / real(mu)
        return mpmath.ncdf(a - b) - mpmath.exp(e) * mpmath.ncdf(-a - b) <= d

    low, high = Fraction(0), Fraction(64)
    assert not private(high)
    while high - low > low / 2**80:
        middle = (low + high) / 2
        low, high = (middle, high) if private(middle) else (low, middle)
    return low


@functools.cache
def pure_loss_of(squared_level):
    """Return the largest epsilon for which epsilon-DP releases are mu-GDP, from mu squared.

    Phi(mu/2) = exp(epsilon)/(1 + exp(epsilon)).
    """
    half = mpmath.sqrt(real(squared_level)) / 2
    return mpmath.log(mpmath.ncdf(half) / mpmath.ncdf(-half))


@pytest.fixture(autouse=True)
def _digits():
    with mpmath.workdps(60):
        yield


# --- what is drawn --------------------------------------------------------------------------------


class Drawn:
    """The samplers that take the place of the shipped ones, and what they were called with.

    Attributes
    ----------
    calls : list of (str, Fraction, float or ndarray)
        Which sampler, and its scale, sigma or rate.
    values : ndarray
        The integers of the last answer, with noise.
    """

    def __init__(self):
        self.calls = []
        self.values = None

    def discrete_laplace(self, scale, size=None, *, entropy=None):
        self.calls.append(("discrete_laplace", scale))
        return np.ones(size, dtype=np.int64)

    def k_norm(self, shape_d, scale, size=None, *, cube=False, entropy=None):
        self.calls.append(("cube" if cube else "k_norm", scale))
        return np.ones((size, shape_d), dtype=np.int64)

    def rounded_gaussian(self, sigma, size=None, *, entropy=None):
        self.calls.append(("rounded_gaussian", sigma))
        return np.ones(size, dtype=np.int64)

    def exponential_mechanism(self, scores, eta, *, entropy=None):
        self.calls.append(("exponential_mechanism", eta))
        return min(3, len(scores) - 1)

    def symmetrized_wishart(self, d, scale, *, entropy=None):
        self.calls.append(("symmetrized_wishart", scale))
        return np.ones((d, d), dtype=np.int64)

    def choose(self, scored, eta, entropy, **options):
        self.calls.append(("choose", eta))
        return 0

    def noisy(self, values, *rest):
        """Note the integers of an answer."""
        self.values = values
        return self.shipped_noisy(values, *rest)

    def taken(self):
        """Return the calls since the last time."""
        calls, self.calls = self.calls, []
        return calls


@pytest.fixture
def drawn(monkeypatch):
    """Put the samplers of `Drawn` where the mechanisms look for theirs."""
    one = Drawn()
    for name in ("discrete_laplace", "k_norm", "rounded_gaussian", "exponential_mechanism"):
        monkeypatch.setattr(noise, name, getattr(one, name))
    monkeypatch.setattr(second_moments, "symmetrized_wishart", one.symmetrized_wishart)
    monkeypatch.setattr(quantiles, "choose", one.choose)
    one.shipped_noisy = session_module.Noisy
    monkeypatch.setattr(session_module, "Noisy", one.noisy)
    return one


# --- comparisons ----------------------------------------------------------------------------------


@dataclass
class Allowance:
    """What a session may lose: epsilon, or mu; and the part of it that its shares are of."""

    epsilon: float
    delta: float
    part: Fraction = Fraction(1)

    @property
    def pure(self):
        return self.delta == 0

    @property
    def slack(self):
        """By how much its mu may be rounded down, relatively."""
        return TINY_SLACK if self.epsilon == TINY_EPSILON else SIGMA_SLACK

    def of(self, share):
        """Return the epsilon that a share may lose, or the square of its mu."""
        whole = decimal(self.epsilon) if self.pure else level_of(self.epsilon, self.delta) ** 2
        return share * self.part * whole

    def check_scale(self, scale, size, share):
        """Compare the scale of pure noise with what its sensitivity asks for."""
        assert isinstance(scale, Fraction | int)
        if self.pure:
            assert scale == size / self.of(share)
        else:
            self.check_loss(Fraction(size) / scale, self.of(share))

    def check_loss(self, loss, squared_level):
        """Compare a pure loss with the largest that a Gaussian level implies."""
        most = pure_loss_of(squared_level)
        assert most * (1 - LOSS_SLACK - real(self.slack)) <= real(loss) <= most

    def check_sigma(self, sigma, squared, share):
        """Compare a sigma with what a squared L2 sensitivity asks for."""
        reached = Fraction(float(sigma)) ** 2 * self.of(share)
        assert squared <= reached <= squared * (1 + self.slack) ** 2

    def check_rates(self, calls, m, size, share):
        """Compare the rates of the m choices of an answer with what their scores ask for.

        Log-ratios of probabilities range over 2 rate size at most, which is GDP like a pure release
        of rate size: PROOFS.md, "Exponential mechanism".
        """
        assert [name for name, _ in calls] == ["exponential_mechanism"] * m
        for _, rate in calls:
            if self.pure:
                assert rate == self.of(share) / m / (2 * size)
            else:
                self.check_loss(rate * size, self.of(share) / m)


def step_of(values):
    """Return what one step of noise is in the steps of the statistic: a power of two."""
    (step,) = {int(value) for value in np.ravel(values)}
    assert step > 0
    assert step & (step - 1) == 0
    return step


def shortened(size, step, moved):
    """Return a sensitivity in steps, each of several of the statistic, that rounding adds to."""
    return size if step == 1 else -(-size // step) + moved


def check_noise(drawn, allowance, asked, changed, share):
    """Compare the noise of an answer with what its query asks for; return the step of it."""
    ((name, scale),) = drawn.taken()
    l1, squared = asked.size(*changed)
    entries = asked.entries + (asked.counts and changed[1] > 0)
    assert drawn.values.size == entries
    step = step_of(drawn.values)
    l2_short = shortened(root_up(squared), step, root_up(entries))
    if not allowance.pure:
        assert name == "rounded_gaussian"
        allowance.check_sigma(scale, squared if step == 1 else l2_short**2, share)
        return step
    least, box = asked.pure_noise(*changed)
    assert least[name] <= min(least.values()) * (1 + 1e-9)
    sizes = {"k_norm": l2_short, "discrete_laplace": shortened(l1, step, entries)}
    sizes["cube"] = shortened(box, step, asked.parts - 1)
    allowance.check_scale(scale, sizes[name], share)
    return step


def opened(drawn, table, n_columns, allowance):
    """Open a session; return it with what one unit may change of its table.

    Where the rows of a unit are chosen, the choice is compared, and shares are of the rest.
    """
    unit = None if table.most is None else Unit("user", table.most)
    session = open_session(
        rows_of(table, n_columns),
        estimator="checker",
        epsilon=allowance.epsilon,
        delta=allowance.delta,
        budget=StandInBudget(table.relation, None if unit is None else unit.name),
        unit=unit,
    )
    if table.most == "private":
        allowance.check_rates(drawn.taken(), 1, 100 if table.relation == R else 99, Fraction(1, 10))
        allowance.part = Fraction(9, 10)
    return session, table.changed(session.max_rows_per_unit)


COUNT = QUERIES[0]


def share_after(drawn, session, allowance, changed, before, share):
    """Return a share as a fraction, after a count has taken (and been compared for) its own."""
    left = Fraction(1)
    if before is not None:
        session.answer(COUNT.query, before)
        check_noise(drawn, allowance, COUNT, changed, decimal(before))
        left -= decimal(before)
    return left if share is None else decimal(share)


def sessions(queries):
    """Yield every combination of a table, an epsilon and shares, each with every second query.

    The number of shares is odd, so a query meets every share, and every pair of a table and an
    epsilon.
    """
    combinations = itertools.chain(
        itertools.product(TABLES, EPSILONS, SHARES),
        # Of units of many rows so little would be refused.
        itertools.product(TABLES_OF_ROWS, [TINY_EPSILON], SHARES),
    )
    for place, combination in enumerate(combinations):
        for asked in queries[place % 2 :: 2]:
            yield *combination, asked


@pytest.mark.slow
@pytest.mark.parametrize("claim", DELTAS)
def test_noise(claim, drawn, record_property):
    """Noise has the scale that the sensitivity over the loss of the share is, not less.

    Domain: counts, histograms, sums and means of boxes and balls in 1 to 50 dimensions, queries of
    several entries with stated sensitivities, shortened ones among them; 4 epsilons (and 1e-6, for
    rows), 7 ways to share, 12 kinds of tables: both relations, filtered rows, units of 1, 2, 5 or a
    private number of rows. Every query meets each of these, in half of all combinations. Method:
    exact fractions; equality for pure noise, for sigma an inequality of squares (at most 1e-9
    above, 1e-6 for a tiny epsilon).
    """
    delta, n_answers, steps, names = DELTAS[claim], 0, set(), set()
    for table, epsilon, (before, share), asked in sessions(QUERIES):
        allowance = Allowance(epsilon, delta)
        session, changed = opened(drawn, table, asked.n_columns, allowance)
        part = share_after(drawn, session, allowance, changed, before, share)
        session.answer(asked.query, share)
        names.update(name for name, _ in drawn.calls)
        steps.add(check_noise(drawn, allowance, asked, changed, part))
        n_answers += 1
    pure = {"discrete_laplace", "k_norm", "cube"}
    assert names == (pure if delta == 0 else {"rounded_gaussian"})
    assert len(steps) > 1, "nothing was shortened"
    record_property("answers", n_answers)
    record_property("most_bits_dropped", max(steps).bit_length() - 1)


@pytest.mark.slow
@pytest.mark.parametrize("claim", DELTAS)
def test_choices(claim, drawn, record_property):
    """Choices have the rate of their part of the share, not more.

    Domain: quantiles of 1 to 50 columns (a choice each, under one share) at 3 levels, and the
    choice of the rows a unit; epsilons, shares and tables as of `test_noise`. Method: as there.
    """
    delta, n_choices = DELTAS[claim], 0
    for table, epsilon, (before, share), asked in sessions(CHOICES):
        allowance = Allowance(epsilon, delta)
        session, (replaced, added) = opened(drawn, table, asked.n_columns, allowance)
        part = share_after(drawn, session, allowance, (replaced, added), before, share)
        session.answer(asked.query, share)
        size = max(replaced * asked.moved[R], added * asked.moved[A])
        allowance.check_rates(drawn.taken(), asked.entries, size, part)
        n_choices += asked.entries
    record_property("choices", n_choices)


# Of the choices of each round, for some levels, the level a/b among the rows between two points
# that were chosen before: max(a, b - a), by which one row more moves a score of it, and b.
ROUNDS = {
    (0.5,): [[(1, 2)]],
    (0.9,): [[(9, 10)]],
    (0.25, 0.5, 0.75): [[(1, 2)], [(1, 2), (1, 2)]],
    (0.1, 0.5): [[(9, 10)], [(5, 9)]],
    (0.1, 0.2, 0.9): [[(4, 5)], [(1, 2), (7, 8)]],
}


@pytest.mark.slow
@pytest.mark.parametrize("claim", DELTAS)
def test_quantiles_by_rounds(claim, drawn, record_property):
    """Quantiles divide a share between columns and rounds; no round loses more than its part.

    A choice loses what its rate times the range of the changes of its scores is. A row more or less
    is in one part of a round, and changes the scores there over a range of 2 max(a, b - a); another
    row in its place does so over 2 b in one part, or leaves one for another, each a half.

    Domain: 5 tuples of levels, 1 and 3 columns; epsilons, shares and tables as of `test_noise`.
    Method: as there; the largest rate that is allowed is the one that is taken.
    """
    delta, n_choices = DELTAS[claim], 0
    asked = [(levels, d) for levels in ROUNDS for d in (1, 3)]
    for table, epsilon, (before, share), (levels, d) in sessions(asked):
        allowance = Allowance(epsilon, delta)
        session, (replaced, added) = opened(drawn, table, d, allowance)
        part = share_after(drawn, session, allowance, (replaced, added), before, share)
        session.answer(Quantiles(Box(-np.ones(d), np.ones(d)), levels), share)
        calls, rounds = iter(drawn.taken()), ROUNDS[levels]
        steps = max(2 * replaced, added) if added else replaced
        each = allowance.of(part) / (d * len(rounds))
        each /= steps if allowance.pure else steps**2
        for nodes in rounds * d:
            for widest, b in nodes:
                name, rate = next(calls)
                assert name == "choose"
                allowed = [(widest, each)] if added else [(b, each)]
                if not added and len(nodes) > 1:
                    allowed.append((widest, each / 2))
                if allowance.pure:
                    assert rate == min(one / (2 * size) for size, one in allowed)
                else:
                    size, one = min(allowed, key=lambda pair: pure_loss_of(pair[1]) / pair[0])
                    allowance.check_loss(rate * size, one)
                n_choices += 1
        assert next(calls, None) is None
    record_property("choices", n_choices)


# Of a change of a symmetric matrix: by which norm each noise is scaled, and how much the rounding
# of its d x d entries, each by less than one step, adds to this norm.
GEOMETRIES = {
    "gaussian": ("rounded_gaussian", "frobenius", lambda d: d),
    "wishart": ("symmetrized_wishart", "nuclear", lambda d: root_up(d**3)),
    "laplace": ("discrete_laplace", "upper_l1", lambda d: d * (d + 1) // 2),
}


@pytest.mark.parametrize("claim", DELTAS)
def test_symmetric_matrices(claim, drawn, record_property):
    """The noise on symmetric matrices, too: Gaussian, Wishart and Laplace.

    Domain: matrices of 1 to 20 columns, sensitivities of 1 to 3 and 10**18 + 1 to + 3, stated for
    each norm; epsilons and shares of `test_noise`. Method: as there. Off the diagonal the variance
    of Gaussian noise is half as large.
    """
    delta, n_answers, steps, table = DELTAS[claim], 0, set(), Table(R)
    for epsilon, (before, share), d, size in itertools.product(
        (*EPSILONS, TINY_EPSILON), SHARES, (1, 2, 7, 20), (1, HUGE)
    ):
        sizes = {"frobenius": size, "nuclear": size + 1, "upper_l1": size + 2}
        for kind, (sampler, geometry, moved) in GEOMETRIES.items():
            if kind == "gaussian" and delta == 0:
                continue
            allowance = Allowance(epsilon, delta)
            session, changed = opened(drawn, table, 1, allowance)
            part = share_after(drawn, session, allowance, changed, before, share)
            bounds = second_moments.Symmetric(**sizes, noise=kind)
            exact = np.zeros((d, d), dtype=object)
            values, _ = bounds.noised(session._meter, "s", exact, share)
            ((name, scale),) = drawn.taken()
            assert name == sampler
            short = shortened(sizes[geometry], step := step_of(values), moved(d))
            if kind == "gaussian":
                row, column = np.triu_indices(d)
                for sigma, twice in {*zip(scale.tolist(), (row != column).tolist(), strict=True)}:
                    allowance.check_sigma(sigma, Fraction(short**2, 1 + twice), part)
            else:
                # Two Wishart matrices of scale c lose 1 / (2 c) per unit of the nuclear norm.
                allowance.check_scale(scale * 2 if kind == "wishart" else scale, short, part)
            steps.add(step)
            n_answers += 1
    assert len(steps) > 1, "nothing was shortened"
    record_property("answers", n_answers)
