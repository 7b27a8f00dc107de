"""What may be asked of private rows: queries that carry their sensitivity, measurements.

Each file stands beside its proof. Estimators import from this page only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skdp._lazy import page_of

if TYPE_CHECKING:
    from skdp.queries.best_of_runs import BaseRun, BestOfRuns, BestRun, Repeats, base_level
    from skdp.queries.blocks import BlockVotes, OfBlocks, OnBlocks
    from skdp.queries.cells import (
        CellCounts,
        CellErrors,
        CellGradient,
        ColumnCells,
        LeafCounts,
        SplitTrees,
        TargetMoments,
        additive,
    )
    from skdp.queries.column_sums import sum_view
    from skdp.queries.columns import OfColumn
    from skdp.queries.grouped_sums import (
        AssignedSums,
        ColumnBox,
        NormsBelow,
        SquaredOffsets,
        column_box,
        column_units,
    )
    from skdp.queries.histograms import MAX_CELLS, CellQuantile, EdgeHistogram, LabelSums, NormBound
    from skdp.queries.kernel_maps import KernelMap
    from skdp.queries.kernel_means import BasisMean, FeatureMeans, KernelMean, LinearImage
    from skdp.queries.key_selection import (
        KEY_METHODS,
        MAX_KEYS_PER_UNIT,
        SelectCategories,
        SelectClasses,
        SelectKeys,
    )
    from skdp.queries.key_totals import (
        MAX_ROWS_PER_UNIT,
        KeyTotals,
        LeftOut,
        UnitShapes,
        UnitSpread,
    )
    from skdp.queries.learned_bounds.decoding import LearnedBox
    from skdp.queries.learned_bounds.learning import LearnedBounds, LearningPlan, plan_learning
    from skdp.queries.learned_domain import LearnDomain
    from skdp.queries.learned_ranges import DOUBT_FAR, DOUBT_ONE_VALUE, LearnedRange
    from skdp.queries.linear import (
        LabelCategories,
        LabelCounts,
        LabelMoments,
        LabelVectors,
        LogisticGradient,
        LogitBall,
        StandardBall,
        WeightedBall,
        softmax,
    )
    from skdp.queries.logistic import LogisticMinimiser, UnitBall
    from skdp.queries.moments import Moments
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
    from skdp.queries.ranked_columns import SPREAD_BITS, spread
    from skdp.queries.rows_beyond import RowsBeyond
    from skdp.queries.samples import NoisySample, PublishedRows
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
        cauchy_kappa,
        choose_noise,
        laplace_kappa,
        student_kappa,
    )
    from skdp.queries.smooth_sensitivity.medians import SmoothMedian
    from skdp.queries.smooth_sensitivity.spanning_trees import SpanningCost, check_graph
    from skdp.queries.sparse_vector import (
        AboveThreshold,
        SparseVector,
        comparison_margin,
        threshold_scales,
    )
    from skdp.queries.trees import BoxTree, Projection, Tree, tree_box
    from skdp.queries.user_functions import FunctionMean, ScoreMean
    from skdp.queries.weighted import (
        WeightedCount,
        WeightedGradient,
        WeightedLabelCounts,
        WeightedMean,
        WeightedMoments,
    )
    from skdp.queries.workloads import (
        MAX_TABLE,
        QUERY_UNIT,
        Cells,
        Group,
        Intervals,
        Marginal,
        Prefixes,
        Weighted,
        Workload,
        WorkloadAnswer,
        WorstMarginal,
        WorstQuery,
        cells_noise,
        marginals,
    )
else:
    __getattr__, __dir__ = page_of(
        __name__,
        {
            "best_of_runs": "BaseRun BestOfRuns BestRun Repeats base_level",
            "blocks": "BlockVotes OfBlocks OnBlocks",
            "cells": (
                "CellCounts CellErrors CellGradient ColumnCells LeafCounts SplitTrees "
                "TargetMoments additive"
            ),
            "column_sums": "sum_view",
            "columns": "OfColumn",
            "grouped_sums": (
                "AssignedSums ColumnBox NormsBelow SquaredOffsets column_box column_units"
            ),
            "histograms": "MAX_CELLS CellQuantile EdgeHistogram LabelSums NormBound",
            "kernel_maps": "KernelMap",
            "kernel_means": "BasisMean FeatureMeans KernelMean LinearImage",
            "key_selection": (
                "KEY_METHODS MAX_KEYS_PER_UNIT SelectCategories SelectClasses SelectKeys"
            ),
            "key_totals": "MAX_ROWS_PER_UNIT KeyTotals LeftOut UnitShapes UnitSpread",
            "learned_bounds.decoding": "LearnedBox",
            "learned_bounds.learning": "LearnedBounds LearningPlan plan_learning",
            "learned_domain": "LearnDomain",
            "learned_ranges": "DOUBT_FAR DOUBT_ONE_VALUE LearnedRange",
            "linear": (
                "LabelCategories LabelCounts LabelMoments LabelVectors LogisticGradient LogitBall "
                "StandardBall WeightedBall softmax"
            ),
            "logistic": "LogisticMinimiser UnitBall",
            "moments": "Moments",
            "quantiles": (
                "Lattice NoisyQuantiles Quantiles allowances check_levels multiples rank_scale "
                "rates recursion"
            ),
            "ranked_columns": "SPREAD_BITS spread",
            "rows_beyond": "RowsBeyond",
            "samples": "NoisySample PublishedRows",
            "second_moments": "GramRelease SecondMoment Symmetric",
            "small_databases": (
                "MAX_SMALL_TABLES SmallTable ThresholdTable check_small_tables "
                "check_threshold_tables largest_threshold_size n_multisets public_tables "
                "table_rate"
            ),
            "smooth_sensitivity.ladders": "cauchy_kappa choose_noise laplace_kappa student_kappa",
            "smooth_sensitivity.medians": "SmoothMedian",
            "smooth_sensitivity.spanning_trees": "SpanningCost check_graph",
            "sparse_vector": "AboveThreshold SparseVector comparison_margin threshold_scales",
            "trees": "BoxTree Projection Tree tree_box",
            "user_functions": "FunctionMean ScoreMean",
            "workloads": (
                "MAX_TABLE QUERY_UNIT Cells Group Intervals Marginal Prefixes Weighted Workload "
                "WorkloadAnswer WorstMarginal WorstQuery cells_noise marginals"
            ),
            "weighted": (
                "WeightedCount WeightedGradient WeightedLabelCounts WeightedMean WeightedMoments"
            ),
        },
    )

__all__ = [
    "DOUBT_FAR",
    "DOUBT_ONE_VALUE",
    "KEY_METHODS",
    "MAX_CELLS",
    "MAX_KEYS_PER_UNIT",
    "MAX_ROWS_PER_UNIT",
    "MAX_SMALL_TABLES",
    "MAX_TABLE",
    "QUERY_UNIT",
    "SPREAD_BITS",
    "AboveThreshold",
    "AssignedSums",
    "BaseRun",
    "BasisMean",
    "BestOfRuns",
    "BestRun",
    "BlockVotes",
    "BoxTree",
    "CellCounts",
    "CellErrors",
    "CellGradient",
    "CellQuantile",
    "Cells",
    "ColumnBox",
    "ColumnCells",
    "EdgeHistogram",
    "FeatureMeans",
    "FunctionMean",
    "GramRelease",
    "Group",
    "Intervals",
    "KernelMap",
    "KernelMean",
    "KeyTotals",
    "LabelCategories",
    "LabelCounts",
    "LabelMoments",
    "LabelSums",
    "LabelVectors",
    "Lattice",
    "LeafCounts",
    "LearnDomain",
    "LearnedBounds",
    "LearnedBox",
    "LearnedRange",
    "LearningPlan",
    "LeftOut",
    "LinearImage",
    "LogisticGradient",
    "LogisticMinimiser",
    "LogitBall",
    "Marginal",
    "Moments",
    "NoisyQuantiles",
    "NoisySample",
    "NormBound",
    "NormsBelow",
    "OfBlocks",
    "OfColumn",
    "OnBlocks",
    "Prefixes",
    "Projection",
    "PublishedRows",
    "Quantiles",
    "Repeats",
    "RowsBeyond",
    "ScoreMean",
    "SecondMoment",
    "SelectCategories",
    "SelectClasses",
    "SelectKeys",
    "SmallTable",
    "SmoothMedian",
    "SpanningCost",
    "SparseVector",
    "SplitTrees",
    "SquaredOffsets",
    "StandardBall",
    "Symmetric",
    "TargetMoments",
    "ThresholdTable",
    "Tree",
    "UnitBall",
    "UnitShapes",
    "UnitSpread",
    "Weighted",
    "WeightedBall",
    "WeightedCount",
    "WeightedGradient",
    "WeightedLabelCounts",
    "WeightedMean",
    "WeightedMoments",
    "Workload",
    "WorkloadAnswer",
    "WorstMarginal",
    "WorstQuery",
    "additive",
    "allowances",
    "base_level",
    "cauchy_kappa",
    "cells_noise",
    "check_graph",
    "check_levels",
    "check_small_tables",
    "check_threshold_tables",
    "choose_noise",
    "column_box",
    "column_units",
    "comparison_margin",
    "laplace_kappa",
    "largest_threshold_size",
    "marginals",
    "multiples",
    "n_multisets",
    "plan_learning",
    "public_tables",
    "rank_scale",
    "rates",
    "recursion",
    "softmax",
    "spread",
    "student_kappa",
    "sum_view",
    "table_rate",
    "threshold_scales",
    "tree_box",
]
