"""A transcript of releases, by which audits record a fit and replay it on other rows.

Guarantee: nothing here weakens a release. A transcript is active only inside ``record()`` or
``replay()``; it lives in a context variable, is never stored in an estimator, and *holds exact
statistics of private rows*, so it belongs in tests and audits on data made for them.

Replay returns the recorded releases and draws no noise: a fit on other rows then has to end in
the same fitted attributes, or it read something that no session released. Comparing the exact
statistics of two transcripts gives each release's true sensitivity on that pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from skdp.budget import Cost, PrivacyBudget
from skdp.core.privacy_filter import TRANSCRIPT
from skdp.exceptions import PrivacyLeakError


@dataclass(frozen=True)
class Entry:
    """One release: what was exact, what bounds its change, what came out.

    - `exact`: The exact integers before noise (private).
    - `sensitivity`: Declared bound on ``distance(exact, exact')`` for neighbouring rows.
    - `distance`: The norm in which the bound holds.
    - `released`: The integers after noise.
    """

    name: str
    exact: NDArray
    sensitivity: float
    distance: Callable[[NDArray, NDArray], float]
    released: NDArray


@dataclass
class Opened:
    """One session: what it may lose, and who paid for it.

    - `budget`: That the cost was charged to; None if nobody counts it.
    - `releases`: How many it has made so far; one that makes none costs nothing.
    - `inner`: Whether another session has paid for it: what is fitted inside of a measurement.
    """

    estimator: str
    cost: Cost
    budget: PrivacyBudget | None
    releases: int = 0
    inner: bool = field(default_factory=lambda: _INNER.get())


@dataclass
class Transcript:
    """The releases of everything that ran while the transcript was active, in order.

    `sessions` has every session that was opened meanwhile, whoever opened it.
    """

    entries: list[Entry] = field(default_factory=list)
    sessions: list[Opened] = field(default_factory=list)
    source: list[Entry] | None = None  # recorded entries to be replayed

    def opened(self, estimator: str, cost: Cost, budget: PrivacyBudget | None) -> Opened:
        """Note a session; return what counts its releases."""
        self.sessions.append(Opened(estimator, cost, budget))
        return self.sessions[-1]

    def note(
        self,
        name: str,
        exact: NDArray,
        sensitivity: float,
        distance: Callable[[NDArray, NDArray], float],
        released: NDArray,
    ) -> None:
        """Note a release."""
        self.entries.append(Entry(name, exact.copy(), sensitivity, distance, released.copy()))

    def next_released(self, name: str, shape: tuple[int, ...]) -> NDArray | None:
        """Return the recorded release that stands at this position, or None when recording."""
        if self.source is None:
            return None
        position = len(self.entries)
        if position >= len(self.source):
            raise PrivacyLeakError(f"replay: release {name!r} was not made in the recorded fit")
        entry = self.source[position]
        if entry.name != name or np.shape(entry.released) != shape:
            raise PrivacyLeakError(
                f"replay: release {position} is {name!r} of shape {shape}, recorded was "
                f"{entry.name!r} of shape {np.shape(entry.released)}"
            )
        return entry.released


_INNER: ContextVar[bool] = ContextVar("skdp_inner_sessions", default=False)


@contextmanager
def inner_sessions() -> Iterator[None]:
    """Mark the sessions that are opened in the block as paid for by the one that is open."""
    token = _INNER.set(True)
    try:
        yield
    finally:
        _INNER.reset(token)


@contextmanager
def _active(transcript: Transcript) -> Iterator[Transcript]:
    token = TRANSCRIPT.set(transcript)
    try:
        yield transcript
    finally:
        TRANSCRIPT.reset(token)


def record() -> AbstractContextManager[Transcript]:
    """Record every release made in the block."""
    return _active(Transcript())


def replay(recorded: Transcript) -> AbstractContextManager[Transcript]:
    """Return the recorded releases, in order, instead of new ones."""
    return _active(Transcript(source=recorded.entries))
