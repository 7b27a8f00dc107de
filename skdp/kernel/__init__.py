"""Private rows are seen and noise is drawn here, and nowhere else.

rows --protect--> bounded integers --statistic--> exact integers with a sensitivity
--release--> noisy numbers. What each module claims and why it holds is in ``README.md`` beside
this file. Estimators import from this page only.
"""

from skdp.kernel.blocks import as_table, check_labelled, label_codes
from skdp.kernel.bounds import LearnedBox
from skdp.kernel.calibration import gdp_mu, pure_epsilon_from_mu, pure_mu
from skdp.kernel.certificate import PrivacyCertificate, ReleaseRecord
from skdp.kernel.coding import (
    CodedRows,
    Schema,
    check_coded,
    decoded,
    public_codes,
    table_schema,
)
from skdp.kernel.domain import Bins, Domain, about
from skdp.kernel.features import (
    BasisMean,
    FeatureMeans,
    KernelMap,
    KernelMean,
    LinearImage,
)
from skdp.kernel.gaps import open_session_with_gaps
from skdp.kernel.groups import (
    AssignedSums,
    BoxTree,
    ColumnBox,
    NormsBelow,
    SquaredOffsets,
    Tree,
    column_box,
    column_units,
    tree_box,
)
from skdp.kernel.isolation import quiet
from skdp.kernel.learning import LearnedBounds, LearningPlan, plan_learning
from skdp.kernel.order import smooth_sensitivity
from skdp.kernel.protect import Ball, Box, Projection, ScaledBox
from skdp.kernel.quantiles import (
    SPREAD_BITS,
    Lattice,
    NoisyQuantiles,
    Quantiles,
    allowances,
    check_levels,
    multiples,
    rank_scale,
    rates,
    recursion,
    spread,
)
from skdp.kernel.queries import (
    MAX_CELLS,
    CellQuantile,
    EdgeHistogram,
    FunctionMean,
    LabelSums,
    NormBound,
    ScoreMean,
    check_labelled_table,
    check_table,
    sum_view,
)
from skdp.kernel.query import (
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
from skdp.kernel.release import Release, released
from skdp.kernel.rows import (
    Rows,
    check_marks,
    check_public_array,
    check_rows,
    check_samples,
    opaque_rows,
)
from skdp.kernel.samples import NoisySample, PublishedRows
from skdp.kernel.sampling import public_generator
from skdp.kernel.session import Session, open_session
from skdp.kernel.small_tables import (
    MAX_SMALL_TABLES,
    check_small_tables,
    check_threshold_tables,
    largest_threshold_size,
    n_multisets,
    public_tables,
    table_rate,
)
from skdp.kernel.smooth import (
    SmoothMedian,
    SpanningCost,
    cauchy_kappa,
    choose_noise,
    laplace_kappa,
    student_kappa,
)
from skdp.kernel.solve import LogisticMinimiser, UnitBall
from skdp.kernel.spanning import check_graph
from skdp.kernel.sparse_vector import AboveThreshold, comparison_margin, threshold_scales
from skdp.kernel.sums import Count, GramRelease, Mean, Moments, SecondMoment, Sum
from skdp.kernel.table import PrivateTable
from skdp.kernel.trackers import untracked
from skdp.kernel.values import array_of_rows, is_missing
from skdp.kernel.workload import (
    MAX_TABLE,
    QUERY_UNIT,
    Cells,
    ExactAnswers,
    Group,
    Intervals,
    Prefixes,
    Weighted,
    Workload,
    cells_noise,
    marginals,
)

__all__ = [
    "MAX_CELLS",
    "MAX_SMALL_TABLES",
    "MAX_TABLE",
    "QUERY_UNIT",
    "SPREAD_BITS",
    "AboveThreshold",
    "AssignedSums",
    "Ball",
    "BasisMean",
    "Bins",
    "Box",
    "BoxTree",
    "CellQuantile",
    "Cells",
    "Choice",
    "CodedRows",
    "ColumnBox",
    "Count",
    "Domain",
    "EdgeHistogram",
    "ExactAnswers",
    "FeatureMeans",
    "FunctionMean",
    "GramRelease",
    "Group",
    "Independent",
    "Intervals",
    "KernelMap",
    "KernelMean",
    "LabelSums",
    "Lattice",
    "LearnedBounds",
    "LearnedBox",
    "LearningPlan",
    "LinearImage",
    "LogisticMinimiser",
    "Mean",
    "Measurement",
    "Moments",
    "Noisy",
    "NoisyQuantiles",
    "NoisySample",
    "NormBound",
    "NormsBelow",
    "Prefixes",
    "PrivacyCertificate",
    "PrivateTable",
    "Projection",
    "PublishedRows",
    "Quantiles",
    "Query",
    "Release",
    "ReleaseRecord",
    "Rows",
    "ScaledBox",
    "Schema",
    "ScoreMean",
    "SecondMoment",
    "Session",
    "SmoothMedian",
    "SpanningCost",
    "Spherical",
    "SquaredOffsets",
    "Sum",
    "Symmetric",
    "Terms",
    "Tree",
    "UnitBall",
    "UserFunction",
    "Weighted",
    "Workload",
    "about",
    "allowances",
    "array_of_rows",
    "as_table",
    "cauchy_kappa",
    "cells_noise",
    "check_coded",
    "check_graph",
    "check_labelled",
    "check_labelled_table",
    "check_levels",
    "check_marks",
    "check_public_array",
    "check_rows",
    "check_samples",
    "check_small_tables",
    "check_table",
    "check_threshold_tables",
    "choose_noise",
    "column_box",
    "column_units",
    "comparison_margin",
    "decoded",
    "gdp_mu",
    "is_missing",
    "label_codes",
    "laplace_kappa",
    "largest_threshold_size",
    "marginals",
    "multiples",
    "n_multisets",
    "opaque_rows",
    "open_session",
    "open_session_with_gaps",
    "plan_learning",
    "public_codes",
    "public_generator",
    "public_tables",
    "pure_epsilon_from_mu",
    "pure_mu",
    "quiet",
    "rank_scale",
    "rates",
    "recursion",
    "register_query",
    "released",
    "smooth_sensitivity",
    "spread",
    "student_kappa",
    "sum_view",
    "table_rate",
    "table_schema",
    "threshold_scales",
    "tree_box",
    "untracked",
]
