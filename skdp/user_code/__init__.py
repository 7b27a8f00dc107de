"""Where a user's callables run on private rows: isolated, silent, their results clipped."""

from __future__ import annotations

from skdp.user_code.blocks import OnBlocks

__all__ = [
    "OnBlocks",
]
