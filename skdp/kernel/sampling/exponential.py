"""The exponential mechanism over a public list of candidates, exactly distributed.

P(i) is proportional to multiplicity_i * exp(-eta * score_i), scores integers, lower is better. With
scores of sensitivity s and eta = epsilon / (2 s) the choice is epsilon-DP (McSherry & Talwar 2007).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from .entropy import Entropy, resolve
from .exact import as_rational, bits_of, exp_bracket

__all__ = ["exponential_mechanism"]


def exponential_mechanism(
    scores: Any, eta: Any, multiplicities: Any = None, *, entropy: Entropy | None = None
) -> int:
    """Slow version."""
    rate = as_rational(eta, "eta", Fraction(0), Fraction(1 << 100))
    s = [int(v) for v in scores]
    m = [1] * len(s) if multiplicities is None else [int(v) for v in multiplicities]
    source = resolve(entropy)
    low = min(v for v, k in zip(s, m) if k > 0)
    v, bits = bits_of(source, 64), 64
    while True:
        prec = bits + 64 + sum(m).bit_length()
        pairs = {v: exp_bracket(rate * (v - low), prec) for v in set(s) if v >= low}
        lo = np.cumsum(np.array([k * pairs[x][0] if k else 0 for x, k in zip(s, m)], dtype=object))
        hi = np.cumsum(np.array([k * pairs[x][1] if k else 0 for x, k in zip(s, m)], dtype=object))
        a = int(np.searchsorted(hi * (1 << bits), v * lo[-1], side="right"))
        b = int(np.searchsorted(lo * (1 << bits), (v + 1) * hi[-1], side="left"))
        if a == b:
            return a
        v, bits = (v << 64) | bits_of(source, 64), bits + 64
