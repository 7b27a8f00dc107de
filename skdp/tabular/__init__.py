"""Tables as users have them: containers, values, domains, labels; checked before any charge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skdp._lazy import page_of

if TYPE_CHECKING:
    from skdp.tabular.cells import MISSING, cell_key, identity, is_missing, read_cell
    from skdp.tabular.coding import (
        CodedRows,
        Schema,
        check_coded,
        check_coded_target,
        check_errors,
        check_outcomes,
        check_scores,
        decoded,
        public_codes,
        table_schema,
        target_column,
        without_column,
    )
    from skdp.tabular.columns import column_of_values, shown_key, stated_type, with_types
    from skdp.tabular.containers import (
        array_of,
        array_of_rows,
        as_table,
        checked,
        cut,
        holds_numbers,
        is_listed,
        keeps_types,
        listed,
        never_held,
        table_of,
        take,
        type_name,
    )
    from skdp.tabular.contributions import KeyTerm
    from skdp.tabular.domain import MOMENT, NUMBER, Bins, Domain, about
    from skdp.tabular.grouping import check_grouped
    from skdp.tabular.labels import (
        check_labelled,
        check_labelled_table,
        check_labels,
        check_unselected,
        check_with_target,
        label_codes,
        with_weights,
    )
    from skdp.tabular.parts import ONE_PLACE, is_parts, refuse_parts
    from skdp.tabular.records import WholeUnits, dealt_rows, opaque_rows, split_by_key
    from skdp.tabular.relation_plans import mixed_types
    from skdp.tabular.rows import (
        NotNumericError,
        Rows,
        UnitCounts,
        Units,
        as_dense,
        check_marks,
        check_public_array,
        check_rows,
        check_samples,
        check_sparse,
        check_table,
        check_units,
        dense_blocks,
        name_of_ids,
        public_length,
    )
    from skdp.tabular.unstated import (
        CATEGORIES,
        KEYS,
        NUMBERS,
        OTHER,
        UNITS,
        ColumnPlan,
        array_of_cells,
        cell_codes,
        check_categorical,
        check_columns,
        check_keyed,
        check_uncoded,
        column_cells,
        column_plans,
        leaves_open,
        stand_in,
        stated_columns,
        with_missing,
    )
else:
    __getattr__, __dir__ = page_of(__name__)

__all__ = [
    "CATEGORIES", "KEYS", "MISSING", "MOMENT", "NUMBER", "NUMBERS", "ONE_PLACE", "OTHER", "UNITS",
    "Bins", "CodedRows", "ColumnPlan", "Domain", "KeyTerm", "NotNumericError", "Rows", "Schema",
    "UnitCounts", "Units", "WholeUnits", "about", "array_of", "array_of_cells", "array_of_rows",
    "as_dense", "as_table", "cell_codes", "cell_key", "check_categorical", "check_coded",
    "check_coded_target", "check_columns", "check_errors", "check_grouped", "check_keyed",
    "check_labelled", "check_labelled_table", "check_labels", "check_marks", "check_outcomes",
    "check_public_array", "check_rows", "check_samples", "check_scores", "check_sparse",
    "check_table", "check_uncoded", "check_units", "check_unselected", "check_with_target",
    "checked", "column_cells", "column_of_values", "column_plans", "cut", "dealt_rows", "decoded",
    "dense_blocks", "holds_numbers", "identity", "is_listed", "is_missing", "is_parts",
    "keeps_types", "label_codes", "leaves_open", "listed", "mixed_types", "name_of_ids",
    "never_held", "opaque_rows", "public_codes", "public_length", "read_cell", "refuse_parts",
    "shown_key", "split_by_key", "stand_in", "stated_columns", "stated_type", "table_of",
    "table_schema", "take", "target_column", "type_name", "with_missing", "with_types",
    "with_weights", "without_column",
]  # fmt: skip
