"""Private GROUP BY: aggregates by key, protecting all rows of each person."""

from __future__ import annotations

from skdp.aggregation._group_by import DPGroupBy

__all__ = ["DPGroupBy"]
