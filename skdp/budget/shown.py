"""How a certificate is shown.

Nothing is released here: a certificate holds public values only. What shows them is imported where
it is used, so that a fit does not pay for it.
"""

from __future__ import annotations

__all__ = ["Shown"]


class Shown:
    """How a certificate is shown: as a text where it is printed, as a table in notebooks."""

    def __str__(self) -> str:
        from skdp.budget.reports.html import certificate_text  # not before it is shown

        return certificate_text(self)

    def _repr_html_(self) -> str:
        from skdp.budget.reports.html import certificate_html

        return certificate_html(self)
