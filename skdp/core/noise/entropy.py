"""Where random bits come from.

Every sampler of this package is a function of a stream of independent fair bits and of nothing
else. By default the stream is the operating system's (``os.urandom``). A seeded stream exists for
tests and teaching; a fit that uses one is marked by the session. This is the only module of skdp
that touches ``os.urandom`` and ``numpy.random``.

Nothing here sees private data: `SeededEntropy` takes a digest that the core makes of the data
and the parameters, and uses it for nothing but the noise stream.
"""

from __future__ import annotations

import hashlib
import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np


class Entropy(Protocol):
    """A stream of independent fair bits."""

    def bytes(self, n: int) -> bytes:
        """Return the next `n` bytes."""

    def words(self, n: int) -> np.ndarray:
        """Return the next `n` 64-bit words as a uint64 array of shape (n,)."""


class OSEntropy:
    """The operating system's generator, ``os.urandom``; safe over fork and threads."""

    def bytes(self, n: int) -> bytes:
        """Return `n` bytes from the operating system."""
        return os.urandom(n)

    def words(self, n: int) -> np.ndarray:
        """Return `n` 64-bit words from the operating system, shape (n,), uint64."""
        return np.frombuffer(os.urandom(8 * n), dtype=np.uint64)

    def __repr__(self) -> str:
        return "OSEntropy()"


class SeededEntropy:
    """A reproducible stream for tests and teaching; **not** for real releases.

    Philox4x64 under a 128-bit key that is the SHAKE-256 hash of (seed, digest). Whoever knows the
    seed and the digest knows the noise. The digest (of the data and the parameters, made by the
    kernel) keeps two fits with one seed from sharing their noise.

    - `seed`: Any integer, negative ones included.
    - `digest`: What separates this stream from others with the same seed.
    """

    def __init__(self, seed: int, digest: bytes = b"") -> None:
        text = str(int(seed)).encode()
        key = hashlib.shake_256(b"skdp noise|" + text + b"|" + bytes(digest)).digest(16)
        self._bits = np.random.Philox(key=np.frombuffer(key, dtype="<u8"))
        self._lock = threading.RLock()  # two threads must never read the same words

    def bytes(self, n: int) -> bytes:
        """Return the next `n` bytes of the stream (whole words are consumed)."""
        return self.words(-(-n // 8)).tobytes()[:n]

    def words(self, n: int) -> np.ndarray:
        """Return the next `n` words of the stream, shape (n,), uint64."""
        with self._lock:
            return self._bits.random_raw(n)

    def __repr__(self) -> str:
        return "SeededEntropy(...)"  # the seed would give the noise away


def resolve(entropy: Entropy | None) -> Entropy:
    """Return `entropy`, or the operating system's when it is None."""
    return OSEntropy() if entropy is None else entropy


_GLOBAL: Any = np.random  # numpy's global generator, whose stubs lack two functions
_LENT = threading.RLock()


def _unlock() -> None:
    """Start a forked child with a lock that none of its missing threads holds."""
    global _LENT
    _LENT = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)


@contextmanager
def lent_generators() -> Iterator[Callable[[int], None]]:
    """Lend the global generators of numpy and Python to a user's code, and put them back.

    How much code draws from them may depend on the rows that it sees: left alone, they would carry
    that on to the next rows, and out of the core. One thread at a time has them.

    - yields: ``restart(seed)`` sets both to a public state.
    """
    lent = np.random.MT19937(0)

    def restart(seed: int) -> None:
        if _GLOBAL.get_bit_generator() is not lent:  # code may have put in one of its own
            _GLOBAL.set_bit_generator(lent)
        _GLOBAL.seed(seed)
        random.seed(seed)

    with _LENT:
        own, state = _GLOBAL.get_bit_generator(), _GLOBAL.get_state(legacy=False)
        before = random.getstate()
        _GLOBAL.set_bit_generator(lent)
        try:
            yield restart
        finally:
            _GLOBAL.set_bit_generator(own)
            _GLOBAL.set_state(state)  # a pending normal variate is here only
            random.setstate(before)


def public_generator(seed_material: bytes | None) -> np.random.Generator:
    """Return a numpy generator for data-independent randomness of post-processing.

    Never use it for noise: its floating-point variates are not exactly distributed.

    - `seed_material`: Public bytes (a random_state and the releases so far), or None for fresh
      randomness.
    """
    if seed_material is None:
        material = os.urandom(32)
    else:
        material = hashlib.shake_256(b"skdp public|" + bytes(seed_material)).digest(32)
    return np.random.Generator(np.random.PCG64(int.from_bytes(material, "little")))
