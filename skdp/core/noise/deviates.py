"""Normal, Laplace and uniform deviates with unlimited precision: a dyadic prefix and lazy bits.

A deviate is an ideal real number X of which we know a prefix: integers (m, b) with
m * 2**-b <= X < (m + 1) * 2**-b. The bits after the prefix are independent and fair, and are drawn
only when somebody needs them. So a consumer that certifies its decision for the whole interval
has decided for the ideal real number.

Method: rejection from a histogram. The real line is cut into cells of width 1/64. A table of 2**14
entries holds n_i entries for each of the two cells at distance x_i = i/64 from 0, and some for the
tail |x| >= 5. Fourteen fair bits choose an entry, so a cell has probability exactly n_i / 2**14;
the position in the cell is uniform. With h(x) = x**2/2 (normal) or x (Laplace), the point x is
accepted with probability (L / n_i) exp(-h(|x|)), where the integer n_i = ceil(L exp(-h(x_i)))
makes this at most 1. Hence accepted points have density proportional to exp(-h(|x|)), exactly.

The acceptance compares a uniform V with that probability, and never computes more than needed:

1. V < a_i: V's first 8 bits are below the smallest probability in the cell: accepted (95% of all).
   V's first 8 bits at or above the largest: rejected.
2. Else 64 more bits of V, and the probability in float64 with an error bound (`_accept`).
3. Else (once in 2**43) integers: more bits of V and X until the comparison is certain (`_settle`).

An acceptance holds for the whole interval of X's prefix, so the bits that follow stay fair.

Tail. Laplace: given |X| >= 5, |X| - 5 is again exponential (no memory). Normal: propose
|X| = 5 + |Y|/4 with Y a Laplace deviate, and accept with the ratio of the densities (Marsaglia
1964). Both need only exp.

References
----------
J. von Neumann (1951), "Various techniques used in connection with random digits" (rejection,
comparison bit by bit); C. F. F. Karney (2016), "Sampling exactly from the normal distribution",
ACM TOMS 42(1) (deviates with lazily extended digits); G. Marsaglia (1964), "Generating a variable
from the tail of the normal distribution", Technometrics 6(1).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from skdp.core.noise import exact
from skdp.core.noise.entropy import Entropy
from skdp.core.noise.exact import bits_of, exp_bracket

BITS = 48  # of a prefix after the binary point: 6 for the cell, 42 for the position in it
LIMIT = 16  # prefixes with |x| < 16 have at most 52 bits: exact in float64
_TABLE_BITS = 14
_CELL = 64  # cells in a unit
_EDGE = 5  # the tail begins here
_POSITION = np.uint64((1 << 42) - 1)
_LEVEL = {True: 98, False: 124}  # L, the largest with which the table has room for the tail
_BLOCK = 1 << 14  # words a pass: the working arrays stay in the cache
_STEP = 64  # bits an extension adds


@dataclass
class Deviates:
    """A block of deviates.

    - `x` of shape (n,): Prefixes with 48 bits: the ideal deviate k lies in [x[k], x[k] + 2**-48).
    - `held`: k -> (m, b): longer prefixes known already. Where |x| >= 16, x[k] is 0 and only `held`
      is right; so consumers treat every k in `held` as undecided.
    """

    x: np.ndarray
    held: dict[int, tuple[int, int]] = field(default_factory=dict)

    def prefixes(self, where: np.ndarray, bits: int, entropy: Entropy) -> np.ndarray:
        """Return the prefixes at `where` with `bits` bits, as an object array of integers.

        Bits not known yet are drawn and remembered, so asking again gives the same prefix.
        """
        have = [self.held.get(k) for k in where.tolist()]
        start = np.ldexp(self.x[where], BITS).astype(np.int64).astype(object)
        fresh = -(-(bits - BITS) // _STEP)  # words for a deviate of which only x is known
        known = {i: h for i, h in enumerate(have) if h is not None}
        if fresh > 0:
            n = len(have)
            more = entropy.words(fresh * (n - len(known))).reshape(-1, fresh).astype(object)
            if known:
                rows = np.array([i not in known for i in range(n)])
                spread = np.zeros((n, fresh), dtype=object)
                spread[rows] = more
                more = spread
            for word in range(fresh):
                start = (start << _STEP) | more[:, word]
        width = BITS + _STEP * max(fresh, 0)
        for i, k in enumerate(where.tolist()):
            if i in known:
                m, b = known[i]
                while b < bits:
                    m, b = (m << _STEP) | bits_of(entropy, _STEP), b + _STEP
                self.held[k] = (m, b)
                start[i] = m >> (b - bits)
            elif fresh > 0:
                self.held[k] = (start[i], width)
                start[i] >>= width - bits
            else:
                start[i] >>= BITS - bits
        return start


@dataclass(frozen=True)
class _Envelope:
    """The table of one density. Arrays over the 2**14 entries unless said otherwise."""

    normal: bool
    level: int  # L
    entries: tuple[int, ...]  # n_i
    tail_entries: int
    tail_factor: Fraction  # tail acceptance is tail_factor * exp(-h(5) - ...)
    left: np.ndarray  # left end of the signed cell, in units of 2**-48, int64
    sure: np.ndarray  # uint8: V's first byte below this: accept
    never: np.ndarray  # uint16: V's first byte at or above this: reject
    height: np.ndarray  # float64: (L / n_i) exp(-h(x_i)), correct to 2**-52
    near: np.ndarray  # float64: x_i
    tail_from: int  # entries from here on are the tail

    def exponent(self, x: Fraction) -> Fraction:
        """Return h(x)."""
        return x * x / 2 if self.normal else x


def _floor_of_exp(factor: Fraction, x: Fraction) -> int:
    """Return floor(factor * exp(-x)), certainly."""
    bits = 64
    while True:
        lo, hi = exp_bracket(x, bits)
        a = (factor * lo).__floor__() >> bits
        b = (factor * hi).__floor__() >> bits
        if a == b:
            return a
        bits *= 2


@functools.cache
def _envelope(normal: bool) -> _Envelope:
    """Build the table, once."""
    cells = _EDGE * _CELL

    def h(i: int) -> Fraction:
        x = Fraction(i, _CELL)
        return x * x / 2 if normal else x

    def entries_at(level: int) -> list[int]:
        # exp(-h) is irrational for h > 0, so ceil = floor + 1
        return [level] + [_floor_of_exp(Fraction(level), h(i)) + 1 for i in range(1, cells)]

    size = 1 << _TABLE_BITS
    ratio = Fraction(2 * _CELL, 4) if normal else Fraction(2 * _CELL)
    level = _LEVEL[normal]
    n = entries_at(level)
    tail = size - 2 * sum(n)
    tail_factor = level * ratio / max(tail, 1)
    if tail < 1 or _floor_of_exp(tail_factor, h(cells)) > 0:
        raise AssertionError("the table has no room for the tail")

    cell = np.repeat(np.arange(cells), n)
    signed = np.concatenate([cell, -cell - 1])
    sure = [min(255, _floor_of_exp(Fraction(256 * level, n[i]), h(i + 1))) for i in range(cells)]
    never = [256] + [_floor_of_exp(Fraction(256 * level, n[i]), h(i)) + 1 for i in range(1, cells)]
    height = [float(Fraction(level * exp_bracket(h(i), 80)[0], n[i] << 80)) for i in range(cells)]
    tail_height = float(tail_factor * exp_bracket(h(cells), 80)[0] / (1 << 80))
    tail_never = _floor_of_exp(256 * tail_factor, h(cells)) + 1

    def table(values: list, tail_value: float, dtype: type) -> np.ndarray:
        both = np.array(values, dtype=dtype)[np.concatenate([cell, cell])]
        out: np.ndarray = np.concatenate([both, np.full(tail, tail_value, dtype=dtype)])
        out.flags.writeable = False
        return out

    left = np.concatenate([signed.astype(np.int64) << 42, np.zeros(tail, np.int64)])
    return _Envelope(
        normal=normal,
        level=level,
        entries=tuple(n),
        tail_entries=tail,
        tail_factor=tail_factor,
        left=left,
        sure=table(sure, 0, np.uint8),
        never=table(never, tail_never, np.uint16),
        height=table(height, tail_height, np.float64),
        near=table([i / _CELL for i in range(cells)], 0.0, np.float64),
        tail_from=size - tail,
    )


# 1/k! for the Taylor polynomial of exp(-z), degree 10
_INVERSE_FACTORIALS = tuple(1.0 / k for k in range(1, 11))


def _accept(
    env: _Envelope, entry: np.ndarray, x: np.ndarray, byte: np.ndarray, word: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Stage 2: compare V = (byte + word / 2**64) / 256 with the acceptance probability.

    Returns boolean arrays (yes, no); where both are False the comparison is not certain.

    Error bound. With u = 2**-53, |x| exact and x_i = near: z = (|x| - x_i)(|x| + x_i)/2 or
    |x| - x_i, at most 0.0787 in a cell; |x| - x_i is exact (multiples of 2**-48), |x| + x_i and the
    product lose 2u z. The unknown bits of X move z by less than 5.1 * 2**-48. Degree 10 leaves less
    than z**11/11! < 2**-65; Horner's eleven steps 1 - z/k * p, p in [0.9, 1], lose less than 3u
    each and the later ones are damped by z/k: below 2**-50 together. The height is within 2u
    and at most 1, the last product loses u, V is computed within 2u. Together below
    5.1 * 2**-48 + 2**-50 + 8u < 2**-45. We use 2**-44.
    """
    ax = np.abs(x)
    near = env.near[entry]
    z = (ax - near) * (ax + near) * 0.5 if env.normal else ax - near
    poly = np.ones_like(z)
    for k in range(10, 0, -1):
        poly = 1.0 - z * poly * _INVERSE_FACTORIALS[k - 1]
    probability = env.height[entry] * poly
    v = (byte + word * 2.0**-64) * 2.0**-8
    margin = 2.0**-44 + exact.SLACK
    return v < probability - margin, v > probability + margin


def _settle(
    env: _Envelope, entry: int, m: int, v: int, v_bits: int, entropy: Entropy
) -> tuple[bool, int, int]:
    """Stage 3: decide one acceptance in integers, drawing bits of V and X as needed.

    `m` is X's prefix with 48 bits, `v` V's prefix with `v_bits` bits. Returns (accepted, m, b).
    """
    b = BITS
    cell = int(env.left[entry]) >> 42
    factor = Fraction(env.level, env.entries[cell if cell >= 0 else ~cell])
    while True:
        magnitude = m if m >= 0 else ~m  # |X| is in [magnitude, magnitude + 1] * 2**-b
        prec = b + 16
        lo = exp_bracket(env.exponent(Fraction(magnitude + 1, 1 << b)), prec)[0]
        hi = exp_bracket(env.exponent(Fraction(magnitude, 1 << b)), prec)[1]
        if Fraction(v + 1, 1 << v_bits) <= factor * lo / (1 << prec):
            return True, m, b
        if Fraction(v, 1 << v_bits) >= factor * hi / (1 << prec):
            return False, m, b
        m, b = (m << _STEP) | bits_of(entropy, _STEP), b + _STEP
        v, v_bits = (v << _STEP) | bits_of(entropy, _STEP), v_bits + _STEP


def _settle_tail(env: _Envelope, v: int, v_bits: int, entropy: Entropy) -> tuple[bool, int, int]:
    """Decide a tail entry of the normal density: returns (accepted, m, b) of X.

    X = 5 + Y/4 for a Laplace deviate Y >= 0, mirrored for Y < 0. Entries times density of the
    proposal times acceptance must equal L * 64 * exp(-x**2/2): the acceptance is
    (L * 64 * 2 / (4 * tail entries)) exp(-x**2/2 + |y|), and -x**2/2 + |y| =
    -25/2 - u - u**2/2 with u = |y|/4.
    """
    base = Fraction(_EDGE * _EDGE, 2)
    lo, hi = exp_bracket(base, 128)
    if Fraction(v, 1 << v_bits) >= env.tail_factor * hi / (1 << 128):
        return False, 0, BITS  # most end here, before Y is drawn
    y = draw_laplace(1, entropy)
    zero = np.zeros(1, dtype=np.intp)
    b = BITS
    while True:
        m = int(y.prefixes(zero, b, entropy)[0])
        magnitude = m if m >= 0 else ~m
        u_lo, u_hi = Fraction(magnitude, 4 << b), Fraction(magnitude + 1, 4 << b)
        prec = b + 16
        lo = exp_bracket(base + (_EDGE - 4) * u_hi + u_hi * u_hi / 2, prec)[0]
        hi = exp_bracket(base + (_EDGE - 4) * u_lo + u_lo * u_lo / 2, prec)[1]
        yes = Fraction(v + 1, 1 << v_bits) <= env.tail_factor * lo / (1 << prec)
        no = Fraction(v, 1 << v_bits) >= env.tail_factor * hi / (1 << prec)
        if yes or no:
            m, b = y.held.get(0, (m, b))  # every bit drawn so far stays
            edge = _EDGE << (b + 2)
            return yes, m + edge if m >= 0 else m - edge, b + 2
        b += _STEP
        v, v_bits = (v << _STEP) | bits_of(entropy, _STEP), v_bits + _STEP


def _pass(
    env: _Envelope, x: np.ndarray, held: dict[int, tuple[int, int]], entropy: Entropy
) -> tuple[np.ndarray, np.ndarray]:
    """Propose one deviate for every place of `x`; return the places (rejected, Laplace tail).

    Bits of the word: 63..50 the entry, 49..8 the position in the cell, 7..0 the start of V.
    """
    words = entropy.words(x.size)
    entry = (words >> np.uint64(50)).view(np.int64)
    byte = (words & np.uint64(255)).astype(np.uint8)
    position = ((words >> np.uint64(8)) & _POSITION).view(np.int64)
    np.multiply(env.left.take(entry) + position, 2.0**-BITS, out=x)  # exact: 52 bits
    open_ = np.flatnonzero(byte >= env.sure.take(entry))
    if not open_.size:
        return open_, open_

    o_entry, o_byte = entry[open_], byte[open_]
    never = o_byte >= env.never[o_entry]
    rejected = [open_[never]]
    open_, o_entry, o_byte = open_[~never], o_entry[~never], o_byte[~never]
    more = entropy.words(open_.size)
    in_tail = o_entry >= env.tail_from
    yes, no = _accept(env, o_entry, np.where(in_tail, 0.0, x[open_]), o_byte, more)
    if env.normal:  # decided exactly below
        yes &= ~in_tail
        no &= ~in_tail
    rejected.append(open_[no])
    tail = open_[yes & in_tail]
    late = []
    for i in np.flatnonzero(~(yes | no)).tolist():
        k, e = int(open_[i]), int(o_entry[i])
        v = (int(o_byte[i]) << 64) | int(more[i])
        if not in_tail[i]:
            m = int(np.ldexp(x[k], BITS))
            accepted, m, b = _settle(env, e, m, v, 72, entropy)
        elif env.normal:
            accepted, m, b = _settle_tail(env, v, 72, entropy)
            x[k] = (m >> (b - BITS)) * 2.0**-BITS if abs(m) >> b < LIMIT - 1 else 0.0
        else:
            accepted, m, b = _settle_constant(env, v, 72, entropy), 0, BITS
        if not accepted:
            late.append(k)
        elif in_tail[i] and not env.normal:
            tail = np.append(tail, k)
        elif b > BITS:
            held[k] = (m, b)
    rejected.append(np.array(late, dtype=np.intp))
    # sorted, so that the order of later draws does not depend on which stage decided
    return np.sort(np.concatenate(rejected)), np.sort(tail)


def _settle_constant(env: _Envelope, v: int, v_bits: int, entropy: Entropy) -> bool:
    """Decide a tail entry of the Laplace density: V < tail_factor * exp(-5)."""
    while True:
        lo, hi = exp_bracket(Fraction(_EDGE), v_bits + 16)
        scale = 1 << (v_bits + 16)
        if Fraction(v + 1, 1 << v_bits) <= env.tail_factor * lo / scale:
            return True
        if Fraction(v, 1 << v_bits) >= env.tail_factor * hi / scale:
            return False
        v, v_bits = (v << _STEP) | bits_of(entropy, _STEP), v_bits + _STEP


def _draw(env: _Envelope, n: int, entropy: Entropy) -> Deviates:
    """Draw `n` deviates: pass over all, then over what was rejected, until nothing is left."""
    out = Deviates(np.empty(n))
    tails: list[np.ndarray] = []
    todo: np.ndarray | None = None
    while todo is None or todo.size:
        again: list[np.ndarray] = []
        for start in range(0, n if todo is None else todo.size, _BLOCK):
            if todo is None:
                where = None
                x = out.x[start : start + _BLOCK]
            else:
                where = todo[start : start + _BLOCK]
                x = np.empty(where.size)
            held: dict[int, tuple[int, int]] = {}
            rejected, tail = _pass(env, x, held, entropy)
            if where is None:
                rejected, tail = rejected + start, tail + start
                out.held.update((k + start, h) for k, h in held.items())
            else:
                out.x[where] = x
                rejected, tail = where[rejected], where[tail]
                out.held.update((int(where[k]), h) for k, h in held.items())
            again.append(rejected)
            tails.append(tail)
        todo = np.concatenate(again) if again else np.empty(0, np.intp)
    if tails and (where := np.concatenate(tails)).size:
        beyond = _draw(env, where.size, entropy)  # Laplace: X = Y +- 5, of the sign of Y
        far = beyond.x + np.where(beyond.x < 0, -float(_EDGE), float(_EDGE))
        for i in np.flatnonzero(np.abs(far) >= LIMIT - 1).tolist():
            m, b = beyond.held.get(i, (int(np.ldexp(beyond.x[i], BITS)), BITS))
            beyond.held[i] = (m, b)
        for i, (m, b) in beyond.held.items():
            m += (_EDGE if m >= 0 else -_EDGE) << b
            out.held[int(where[i])] = (m, b)
            far[i] = (m >> (b - BITS)) * 2.0**-BITS if abs(m) >> b < LIMIT - 1 else 0.0
        out.x[where] = far
    return out


def draw_normal(n: int, entropy: Entropy) -> Deviates:
    """Draw `n` standard normal deviates."""
    return _draw(_envelope(True), n, entropy)


def draw_laplace(n: int, entropy: Entropy) -> Deviates:
    """Draw `n` standard Laplace deviates (density exp(-|x|)/2); |X| is a standard exponential."""
    return _draw(_envelope(False), n, entropy)


def draw_uniform(n: int, entropy: Entropy) -> Deviates:
    """Draw `n` deviates that are uniform in [-1, 1)."""
    prefixes = entropy.words(n).view(np.int64) >> (63 - BITS)  # signed: in [-2**48, 2**48)
    return Deviates(prefixes * 2.0**-BITS)
