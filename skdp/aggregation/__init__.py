"""Private GROUP BY: aggregates by key of rows that belong to people, protecting each person."""

from __future__ import annotations

from skdp.aggregation._group_by import DPGroupBy

__all__ = ["DPGroupBy"]
