"""The certificate of a fit: what was released, by which mechanism, at which cost.

It holds public values only: parameters, mechanisms, sensitivities and noise scales. It is what
a fitted estimator keeps as ``privacy_`` and what an auditor reads.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any

from skdp._version import __version__
from skdp.budget.reports import Shown


@dataclass(frozen=True)
class ReleaseRecord:
    """One release of a fit.

    Attributes
    ----------
    name : str
        What was released.
    mechanism : str
        Noise that was added.
    sensitivity : float
        In units of the released value (squared units for second moments); infinite where rows are
        published as they are.
    norm : str
        Norm of the sensitivity.
    scale : float
        Scale of the noise (standard deviation of Gaussian noise, else the mechanism's scale);
        the largest one where entries differ.
    share : float
        Share of the fit's allowance: of epsilon, or of mu squared in a Gaussian fit.
    epsilon, mu : float or None
        What the release may lose: epsilon in a pure fit, mu in a Gaussian one.
    delta : float, default=0.0
        What the release needs of it apart from other noise: the probability with which a
        publication of rows shows any one row, or that of Laplace noise of smooth scale.
    query : str, default=""
        Full name of the query's type, whose file holds its sensitivity and the proof; of two types
        where one asks the other of a table that it has derived.
    reviewed : bool, default=True
        Whether the query is of skdp; of another it is its author who says what it may move.
    """

    name: str
    mechanism: str
    sensitivity: float
    norm: str
    scale: float
    share: float
    epsilon: float | None
    mu: float | None
    delta: float = 0.0
    query: str = ""
    reviewed: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain types; None for what is beyond floats (JSON has no inf).

        The delta is left out where it is 0, and `reviewed` where it is true.
        """
        plain = dict(vars(self))  # of plain types, all of them
        for name in ("sensitivity", "scale"):
            if not math.isfinite(plain[name]):
                plain[name] = None
        for name, usual in (("delta", 0), ("query", ""), ("reviewed", True)):
            if plain[name] == usual:
                del plain[name]
        return plain


@dataclass(frozen=True)
class PrivacyCertificate(Shown):
    """What one fit released about one privacy unit, and the guarantee it carries.

    Attributes
    ----------
    estimator : str
    adjacency : {"replace_one", "add_or_remove_one"}
        Neighbouring relation.
    unit : str
        Privacy unit: ``"row"``, or the name of the ids that say whose a row is.
    epsilon, delta : float
        The fit is (epsilon, delta)-differentially private.
    mu : float or None
        The fit is mu-GDP, which implies the above; None for pure noise. A publication of rows
        stands apart: its delta is in the sum, not in mu.
    seeded : bool
        True if the noise came from ``random_state``, inside ``config_context(noise="seeded")``:
        whoever knows the seed can remove it.
    charged : bool
        Whether a shared budget's ledger holds the charge.
    releases : tuple of ReleaseRecord
    max_rows_per_unit : int or None, default=None
        How many rows of one unit counted; None where the unit is a row.
    skdp_version : str
        The version of skdp that made the fit.
    """

    estimator: str
    adjacency: str
    unit: str
    epsilon: float
    delta: float
    mu: float | None
    seeded: bool
    charged: bool
    releases: tuple[ReleaseRecord, ...]
    max_rows_per_unit: int | None = None
    skdp_version: str = __version__

    def to_dict(self) -> dict[str, Any]:
        """Return the certificate as plain types; without `max_rows_per_unit` if a unit is a row."""
        plain = {**asdict(self), "releases": tuple(record.to_dict() for record in self.releases)}
        if self.max_rows_per_unit is None:
            del plain["max_rows_per_unit"]
        return plain

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the certificate as JSON."""
        return json.dumps(self.to_dict(), indent=indent)
