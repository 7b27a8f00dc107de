"""What must be trusted: bounded rows, exact sums, the charge, the meter and the noise.

What each module claims and why it holds is in ``PROOFS.md`` beside this file.
"""

from __future__ import annotations

from skdp.core.calibration import pure_epsilon_from_mu
from skdp.core.certificate import PrivacyCertificate, ReleaseRecord
from skdp.core.clipping import Ball, Box, Projection, ScaledBox
from skdp.core.isolation import suppress_warnings, untracked
from skdp.core.noise import public_generator
from skdp.core.privacy_filter import Release, check_allowance, released
from skdp.core.query import (
    Choice,
    Independent,
    Measurement,
    Noisy,
    Query,
    Spherical,
    Symmetric,
    Terms,
    UserFunction,
    register_query,
)
from skdp.core.session import Session, check_unit, open_session
from skdp.core.sums import Count, GramRelease, Mean, Moments, SecondMoment, Sum
from skdp.core.table import PrivateTable
from skdp.core.units import PRIVATE_ROWS, Unit

__all__ = [
    "PRIVATE_ROWS",
    "Ball",
    "Box",
    "Choice",
    "Count",
    "GramRelease",
    "Independent",
    "Mean",
    "Measurement",
    "Moments",
    "Noisy",
    "PrivacyCertificate",
    "PrivateTable",
    "Projection",
    "Query",
    "Release",
    "ReleaseRecord",
    "ScaledBox",
    "SecondMoment",
    "Session",
    "Spherical",
    "Sum",
    "Symmetric",
    "Terms",
    "Unit",
    "UserFunction",
    "check_allowance",
    "check_unit",
    "open_session",
    "public_generator",
    "pure_epsilon_from_mu",
    "register_query",
    "released",
    "suppress_warnings",
    "untracked",
]
