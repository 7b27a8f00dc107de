"""What must be trusted: bounded rows, exact sums, the charge, the meter and the noise.

What each module claims and why it holds is in ``PROOFS.md`` beside this file.
"""

from __future__ import annotations

from skdp.core.certificate import PrivacyCertificate
from skdp.core.clipping import Ball, Box, ScaledBox
from skdp.core.mechanisms import Independent, Spherical
from skdp.core.noise import public_generator
from skdp.core.privacy_filter import Release, check_allowance, current_transcript, released
from skdp.core.query import (
    Choice,
    Measurement,
    Noisy,
    Query,
    Terms,
    UserFunction,
    moved_by,
    register_query,
)
from skdp.core.session import Session, check_unit, open_session
from skdp.core.sums import Count, Mean, RowSum, Sum
from skdp.core.table import PrivateTable, Stability
from skdp.core.units import PRIVATE_ROWS, Unit

__all__ = [
    "PRIVATE_ROWS",
    "Ball",
    "Box",
    "Choice",
    "Count",
    "Independent",
    "Mean",
    "Measurement",
    "Noisy",
    "PrivacyCertificate",
    "PrivateTable",
    "Query",
    "Release",
    "RowSum",
    "ScaledBox",
    "Session",
    "Spherical",
    "Stability",
    "Sum",
    "Terms",
    "Unit",
    "UserFunction",
    "check_allowance",
    "check_unit",
    "current_transcript",
    "moved_by",
    "open_session",
    "public_generator",
    "register_query",
    "released",
]
