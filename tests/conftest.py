"""Makes drawn examples the same in every run: what passes here passes everywhere.

`pytest --hypothesis-profile=default` draws other examples each time, to look for more.
"""

from __future__ import annotations

import datetime
import os
import zlib

import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")

TURNS = 3


def has_its_turn(name: str, day: int) -> bool:
    """Say whether a test that is run one day in three is run on this one."""
    return (zlib.crc32(name.encode()) + day) % TURNS == 0


@pytest.fixture(autouse=True)
def _in_turn(request: pytest.FixtureRequest) -> None:
    """Skip `in_turn` and `statistical` tests on two days of three, but not where all are asked for.

    Here and not in the collection: processes that share the tests may start on different days.
    """
    shared = any(request.node.get_closest_marker(m) for m in ("in_turn", "statistical"))
    if not shared or "SKDP_EVERY_TURN" in os.environ:
        return
    today = datetime.datetime.now(datetime.UTC).toordinal()
    if not has_its_turn(request.node.nodeid, today):
        pytest.skip("not its turn today; SKDP_EVERY_TURN=1 runs all")
