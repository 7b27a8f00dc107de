"""The version of skdp, which ledgers and certificates carry."""

from __future__ import annotations

__version__ = "0.2.0.dev0"
