"""Rate of the exact samplers against numpy's floating-point ones, in the same process.

A million samples a call, one thread, best of several, entropy from the operating system included.
numpy's samplers are fast and not private: their values are floats whose last bits tell the noise
(Mironov 2012). The last column is the goal of at least 1/8 of numpy's rate.

Run: ``python doc/benchmarks/noise_rate.py [samples] [repetitions]``.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy: one thread

import sys
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from skdp.core import noise as sampling
from skdp.queries.second_moments import symmetrized_wishart

GOAL = 1 / 8
SCALES: list[tuple[str, int | float | Fraction]] = [
    ("1", 1),
    ("2.5", 2.5),
    ("2**10", 2**10),
    ("2**20", 2**20),
    ("2**40", 2**40),
    ("1000/3", Fraction(1000, 3)),
    ("3*2**20/7", Fraction(3 * 2**20, 7)),
    ("2**40/3 (float)", 2.0**40 / 3),
]


def seconds(call: Callable[[], object]) -> float:
    """Time one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def best_pair(ours: Callable[[], object], peer: Callable[[], object], times: int) -> list[float]:
    """Return the best times of both, taken in turn so that a busy machine slows both."""
    pairs = [(seconds(ours), seconds(peer)) for _ in range(times)]
    return [min(column) for column in zip(*pairs, strict=True)]


def main(samples: int = 1_000_000, times: int = 7) -> list[float]:
    """Print the tables and return the ratios at 2**10 and more."""
    generator = np.random.default_rng()
    entropy = sampling.OSEntropy()
    sampling.discrete_laplace(3, 10)  # builds the tables once
    sampling.rounded_gaussian(3, 10)
    bytes_alone = min(seconds(lambda: entropy.words(samples)) for _ in range(times))
    print(f"{samples} samples a call, best of {times}, milliseconds; numpy {np.__version__}")
    print(f"8 bytes a sample from os.urandom alone: {bytes_alone * 1e3:.1f} ms\n")
    print(f"{'sampler':<18}{'scale':<18}{'skdp':>8}{'numpy':>8}{'rate over numpy':>18}  >= 1/8")
    ratios = []
    for name, scale in SCALES:
        for sampler, peer in (
            (sampling.discrete_laplace, generator.laplace),
            (sampling.rounded_gaussian, generator.normal),
        ):
            ours, theirs = best_pair(
                lambda f=sampler, s=scale: f(s, samples),
                lambda f=peer, s=float(scale): f(scale=s, size=samples),
                times,
            )
            ratio = theirs / ours
            if scale >= 2**10:
                ratios.append(ratio)
            print(
                f"{sampler.__name__:<18}{name:<18}{ours * 1e3:>8.1f}{theirs * 1e3:>8.1f}"
                f"{ratio:>11.3f} = 1/{1 / ratio:<4.1f}  {'yes' if ratio >= GOAL else 'no'}"
            )
    print(f"\n{'vectors and matrices':<40}{'ms':>8}")
    scores = generator.integers(0, 10**6, 10_000)
    for name, call in (
        ("k_norm, 20000 x 10, scale 2**20", lambda: sampling.k_norm(10, 2**20, 20_000)),
        ("k_norm, 20000 x 10, scale 2**40", lambda: sampling.k_norm(10, 2**40, 20_000)),
        ("k_norm, 100 x 1000, scale 2**30", lambda: sampling.k_norm(1000, 2**30, 100)),
        ("symmetrized_wishart, 64, scale 2**40", lambda: symmetrized_wishart(64, 2**40)),
        ("symmetrized_wishart, 784, scale 2**45", lambda: symmetrized_wishart(784, 2**45)),
        (
            "exponential_mechanism, 10000 candidates",
            lambda: sampling.exponential_mechanism(scores, 1e-3),
        ),
    ):
        print(f"{name:<40}{min(seconds(call) for _ in range(3)) * 1e3:>8.1f}")
    return ratios


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:]))
