"""What `check_pipeline` finds, worst first, as text and as a table for notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

HIGH, MEDIUM, LOW = "high", "medium", "low"
_ORDER = (HIGH, MEDIUM, LOW)


@dataclass(frozen=True)
class Finding:
    """One thing that `check_pipeline` found.

    Parameters
    ----------
    severity : {"high", "medium", "low"}
        As in the guide's "sharp edges". "high": the guarantee is lost without notice. "medium":
        something else leaks, or utility is lost. "low": a surprise.
    where : str
        The step (by the name that ``set_params`` takes), its class, and its columns, if any.
    what : str
        What is wrong.
    way_out : str
        What to do instead.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> import skdp
    >>> skdp.check_pipeline(StandardScaler())[0].way_out
    'DPStandardScaler'
    """

    severity: str
    where: str
    what: str
    way_out: str

    def __str__(self) -> str:
        return f"[{self.severity}] {self.where}: {self.what}. Instead: {self.way_out}."


class PipelineCheck(Sequence[Finding]):
    """The findings of `check_pipeline`, worst first; empty (and so false) if there are none.

    Parameters
    ----------
    findings : iterable of Finding

    Examples
    --------
    >>> from skdp import DPKMeans, PrivacyBudget, check_pipeline
    >>> check_pipeline(DPKMeans(budget=PrivacyBudget(1.0)))
    check_pipeline: nothing found
    """

    def __init__(self, findings: Iterable[Finding] = ()) -> None:
        unique = dict.fromkeys(findings)
        self.findings = tuple(sorted(unique, key=lambda one: _ORDER.index(one.severity)))

    def __len__(self) -> int:
        return len(self.findings)

    def __getitem__(self, item: Any) -> Any:
        return self.findings[item]

    def __repr__(self) -> str:
        if not self.findings:
            return "check_pipeline: nothing found"
        number = f"{len(self)} finding{'s' if len(self) > 1 else ''}"
        return "\n".join([f"check_pipeline: {number}", *(f"  {one}" for one in self.findings)])

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_html(self) -> str:
        """Return the findings as a table for notebooks.

        Returns
        -------
        page : str
        """
        if not self.findings:
            return "<p>check_pipeline: nothing found</p>"
        body = "".join(
            "<tr>"
            + "".join(
                f'<td style="text-align:left">{html.escape(cell)}</td>'
                for cell in (one.severity, one.where, one.what, one.way_out)
            )
            + "</tr>"
            for one in self.findings
        )
        head = "".join(
            f'<th scope="col">{n}</th>' for n in ("severity", "where", "what", "instead")
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
