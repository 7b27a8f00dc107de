"""What may be asked of private rows: queries that carry their sensitivity, measurements.

Each file stands beside its proof. Estimators import from this page only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skdp._lazy import page_of

if TYPE_CHECKING:
    from skdp.queries.best_of_runs import BaseRun, BestOfRuns, BestRun, Repeats, base_level
    from skdp.queries.blocks import BlockVotes, OfBlocks, OnBlocks, vote_bounds
    from skdp.queries.cells import (
        Categories,
        ColumnCells,
        Grid,
        Labelled,
        Labels,
        NormBins,
        additive,
        row_counts,
    )
    from skdp.queries.columns import FilledCells, OfColumn, present_means
    from skdp.queries.grouped_sums import (
        AssignedSums,
        BoxTree,
        ColumnBox,
        Projection,
        Tree,
        column_box,
        column_units,
        squared_offsets,
        tree_box,
    )
    from skdp.queries.histograms import MAX_CELLS, CellQuantile, norm_from_bins
    from skdp.queries.images import (
        LogisticGradient,
        Moments,
        additive_errors,
        additive_gradient,
        label_moments,
        label_sums,
        label_vectors,
        logistic_gradient,
        moments,
        rows_beyond,
        softmax,
        target_moments,
        target_sums,
    )
    from skdp.queries.kernel_means import (
        KernelMap,
        KernelMean,
        LinearImage,
        feature_means,
        whitened_mean,
    )
    from skdp.queries.key_selection import (
        KEY_METHODS,
        MAX_KEYS_PER_UNIT,
        CountedKeys,
        KeyCounts,
        SelectKeys,
        counting_law,
        least_shown,
        select_categories,
        select_classes,
    )
    from skdp.queries.key_totals import (
        MAX_ROWS_PER_UNIT,
        POINT_BITS,
        KeyQuantiles,
        KeyTotals,
        LeftOut,
        UnitShapes,
        UnitSpread,
        rows_off,
        unit_sum,
    )
    from skdp.queries.learned_bounds.decoding import LearnedBox, joined_box
    from skdp.queries.learned_bounds.learning import (
        LearnedBounds,
        LearningPlan,
        NormMedian,
        plan_learning,
    )
    from skdp.queries.learned_domain import (
        DOUBT_FAR,
        DOUBT_ONE_VALUE,
        LearnedRange,
        learn_domain,
        ticks_between,
    )
    from skdp.queries.logistic import (
        LogisticMinimiser,
        LogisticObjective,
        UnitBall,
        least_tau,
        objective_std,
        slope_bound,
    )
    from skdp.queries.quantiles import (
        Lattice,
        NoisyQuantiles,
        Quantiles,
        allowances,
        check_levels,
        multiples,
        rank_scale,
        rates,
        recursion,
    )
    from skdp.queries.ranked_columns import SPREAD_BITS, RankedColumn
    from skdp.queries.samples import NoisySample, PublishedRows
    from skdp.queries.scores import (
        AdditiveScores,
        CategoryScores,
        CodedScoreCells,
        LinearScores,
        MedianScores,
        NormalScores,
        ScoreCells,
        TableScores,
        leads,
        score_counts,
    )
    from skdp.queries.second_moments import GramRelease, SecondMoment, Symmetric
    from skdp.queries.small_databases import (
        MAX_SMALL_TABLES,
        SmallTable,
        ThresholdTable,
        check_small_tables,
        check_threshold_tables,
        largest_threshold_size,
        n_multisets,
        public_tables,
        table_rate,
    )
    from skdp.queries.smooth_sensitivity.ladders import (
        choose_noise,
        laplace_kappa,
        planned_noise,
        student_kappa,
    )
    from skdp.queries.smooth_sensitivity.medians import SmoothMedian, SpanningCost, check_graph
    from skdp.queries.user_functions import basis_mean, function_mean, score_mean
    from skdp.queries.views import LogitBall, StandardBall, TargetBox, WeightedBall, sum_view
    from skdp.queries.workloads import (
        MAX_TABLE,
        QUERY_UNIT,
        AboveThreshold,
        Cells,
        Group,
        Intervals,
        MarginalCells,
        Prefixes,
        SparseVector,
        Weighted,
        Workload,
        WorstMarginal,
        WorstQuery,
        comparison_margin,
        marginals,
        threshold_scales,
        workload_answer,
    )
else:
    __getattr__, __dir__ = page_of(__name__)

__all__ = [
    "DOUBT_FAR", "DOUBT_ONE_VALUE", "KEY_METHODS", "MAX_CELLS", "MAX_KEYS_PER_UNIT",
    "MAX_ROWS_PER_UNIT", "MAX_SMALL_TABLES", "MAX_TABLE", "POINT_BITS", "QUERY_UNIT", "SPREAD_BITS",
    "AboveThreshold", "AdditiveScores", "AssignedSums", "BaseRun", "BestOfRuns", "BestRun",
    "BlockVotes", "BoxTree", "Categories", "CategoryScores", "CellQuantile", "Cells",
    "CodedScoreCells", "ColumnBox", "ColumnCells", "CountedKeys", "FilledCells", "GramRelease",
    "Grid", "Group", "Intervals", "KernelMap", "KernelMean", "KeyCounts", "KeyQuantiles",
    "KeyTotals", "Labelled", "Labels", "Lattice", "LearnedBounds", "LearnedBox", "LearnedRange",
    "LearningPlan", "LeftOut", "LinearImage", "LinearScores", "LogisticGradient",
    "LogisticMinimiser", "LogisticObjective", "LogitBall", "MarginalCells", "MedianScores",
    "Moments", "NoisyQuantiles", "NoisySample", "NormBins", "NormMedian", "NormalScores",
    "OfBlocks", "OfColumn", "OnBlocks", "Prefixes", "Projection", "PublishedRows", "Quantiles",
    "RankedColumn", "Repeats", "ScoreCells", "SecondMoment", "SelectKeys", "SmallTable",
    "SmoothMedian", "SpanningCost", "SparseVector", "StandardBall", "Symmetric", "TableScores",
    "TargetBox", "ThresholdTable", "Tree", "UnitBall", "UnitShapes", "UnitSpread", "Weighted",
    "WeightedBall", "Workload", "WorstMarginal", "WorstQuery", "additive", "additive_errors",
    "additive_gradient", "allowances", "base_level", "basis_mean", "check_graph", "check_levels",
    "check_small_tables", "check_threshold_tables", "choose_noise", "column_box", "column_units",
    "comparison_margin", "counting_law", "feature_means", "function_mean", "joined_box",
    "label_moments", "label_sums", "label_vectors", "laplace_kappa", "largest_threshold_size",
    "leads", "learn_domain", "least_shown", "least_tau", "logistic_gradient", "marginals",
    "moments", "multiples", "n_multisets", "norm_from_bins", "objective_std", "plan_learning",
    "planned_noise", "present_means", "public_tables", "rank_scale", "rates", "recursion",
    "row_counts", "rows_beyond", "rows_off", "score_counts", "score_mean", "select_categories",
    "select_classes", "slope_bound", "softmax", "squared_offsets", "student_kappa", "sum_view",
    "table_rate", "target_moments", "target_sums", "threshold_scales", "ticks_between", "tree_box",
    "unit_sum", "vote_bounds", "whitened_mean", "workload_answer",
]  # fmt: skip
