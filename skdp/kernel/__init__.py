"""Private rows are seen and noise is drawn here, and nowhere else.

rows --protect--> bounded integers --statistic--> exact integers with a sensitivity
--release--> noisy numbers. What each module claims and why it holds is in ``README.md`` beside
this file. Estimators import from this page only.
"""

from skdp.kernel.blocks import as_table, check_labelled, label_codes
from skdp.kernel.calibration import gdp_mu, pure_epsilon_from_mu, pure_mu
from skdp.kernel.certificate import PrivacyCertificate, ReleaseRecord
from skdp.kernel.features import KernelMap, LinearImage
from skdp.kernel.gaps import open_session_with_gaps
from skdp.kernel.order import smooth_sensitivity
from skdp.kernel.protect import Ball, Box, Projection
from skdp.kernel.quantiles import check_levels, rank_scale
from skdp.kernel.queries import MAX_CELLS, ScaledBall, check_labelled_table, check_table
from skdp.kernel.release import Release
from skdp.kernel.rows import (
    Rows,
    check_marks,
    check_public_array,
    check_rows,
    check_samples,
    opaque_rows,
)
from skdp.kernel.sampling import public_generator
from skdp.kernel.session import GramRelease, Session, Tree, open_session, quiet
from skdp.kernel.smooth import cauchy_kappa, choose_noise, laplace_kappa, student_kappa
from skdp.kernel.solve import UnitBall
from skdp.kernel.spanning import check_graph

__all__ = [
    "MAX_CELLS",
    "Ball",
    "Box",
    "GramRelease",
    "KernelMap",
    "LinearImage",
    "PrivacyCertificate",
    "Projection",
    "Release",
    "ReleaseRecord",
    "Rows",
    "ScaledBall",
    "Session",
    "Tree",
    "UnitBall",
    "as_table",
    "cauchy_kappa",
    "check_graph",
    "check_labelled",
    "check_labelled_table",
    "check_levels",
    "check_marks",
    "check_public_array",
    "check_rows",
    "check_samples",
    "check_table",
    "choose_noise",
    "gdp_mu",
    "label_codes",
    "laplace_kappa",
    "opaque_rows",
    "open_session",
    "open_session_with_gaps",
    "public_generator",
    "pure_epsilon_from_mu",
    "pure_mu",
    "quiet",
    "rank_scale",
    "smooth_sensitivity",
    "student_kappa",
]
