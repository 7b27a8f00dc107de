"""Ledgers and certificates as people read them.

The modules of this package are imported where something is shown, so that a fit does not wait for
them.
"""

from __future__ import annotations


class Shown:
    """Shows a certificate: as text where it is printed, as a table in notebooks."""

    def __str__(self) -> str:
        from skdp.budget.reports.html import certificate_text

        return certificate_text(self)

    def _repr_html_(self) -> str:
        from skdp.budget.reports.html import certificate_html

        return certificate_html(self)
