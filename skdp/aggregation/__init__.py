"""Aggregates by key of rows that belong to people: GROUP BY, private for each as a whole."""

from __future__ import annotations

from skdp.aggregation._group_by import DPGroupBy

__all__ = ["DPGroupBy"]
