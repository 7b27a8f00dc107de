"""Tables as users have them: containers, values, domains, labels; checked before any charge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skdp._lazy import page_of

if TYPE_CHECKING:
    from skdp.tabular.cells import (
        MISSING,
        cell_key,
        identity,
        is_missing,
        key_order,
        read_cell,
    )
    from skdp.tabular.coding import (
        CodedRows,
        check_coded,
        check_coded_target,
        check_errors,
        check_outcomes,
        check_scores,
        public_codes,
        target_column,
    )
    from skdp.tabular.columns import column_of_values, shown_key, with_texts
    from skdp.tabular.containers import (
        array_of_rows,
        as_table,
        checked,
        holds_numbers,
        is_listed,
        is_parts,
        keeps_types,
        never_held,
        table_of,
        type_name,
    )
    from skdp.tabular.dealt import WholeUnits, dealt_rows, whole_units
    from skdp.tabular.domain import Bins, Domain, about
    from skdp.tabular.encoding import Schema, decoded, table_schema, without_column
    from skdp.tabular.grouping import check_grouped
    from skdp.tabular.keyed import (
        array_of_cells,
        cell_codes,
        check_categorical,
        check_keyed,
        column_cells,
    )
    from skdp.tabular.keys import split_by_key
    from skdp.tabular.labels import (
        check_labelled,
        check_labelled_table,
        check_labels,
        check_unselected,
        check_with_target,
        label_codes,
        with_weights,
    )
    from skdp.tabular.opaque import opaque_rows
    from skdp.tabular.parts import ONE_PLACE, refuse_parts
    from skdp.tabular.rows import (
        Rows,
        check_marks,
        check_public_array,
        check_rows,
        check_samples,
        check_table,
    )
    from skdp.tabular.sparse_rows import as_dense, check_sparse, dense_blocks
    from skdp.tabular.terms import KeyTerm
    from skdp.tabular.units import UnitCounts, Units, check_units, name_of_ids
    from skdp.tabular.unstated import (
        CATEGORIES,
        KEYS,
        NUMBERS,
        OTHER,
        ColumnPlan,
        UncodedRows,
        check_columns,
        check_uncoded,
        column_plans,
        stand_in,
        stated_columns,
    )
else:
    __getattr__, __dir__ = page_of(
        __name__,
        {
            "coding": (
                "CodedRows check_coded check_coded_target check_errors check_outcomes check_scores "
                "public_codes target_column"
            ),
            "columns": "column_of_values shown_key with_texts",
            "containers": "array_of_rows as_table checked holds_numbers is_listed is_parts "
            "keeps_types never_held table_of type_name",
            "dealt": "WholeUnits dealt_rows whole_units",
            "domain": "Bins Domain about",
            "encoding": "Schema decoded table_schema without_column",
            "terms": "KeyTerm",
            "cells": "MISSING cell_key identity is_missing key_order read_cell",
            "grouping": "check_grouped",
            "keyed": ("array_of_cells cell_codes check_categorical check_keyed column_cells"),
            "keys": "split_by_key",
            "labels": (
                "check_labelled check_labelled_table check_labels check_unselected "
                "check_with_target label_codes with_weights"
            ),
            "opaque": "opaque_rows",
            "parts": "ONE_PLACE refuse_parts",
            "rows": "Rows check_marks check_public_array check_rows check_samples check_table",
            "sparse_rows": "as_dense check_sparse dense_blocks",
            "units": "UnitCounts Units check_units name_of_ids",
            "unstated": (
                "CATEGORIES KEYS NUMBERS OTHER ColumnPlan UncodedRows check_columns check_uncoded "
                "column_plans stand_in stated_columns"
            ),
        },
    )

__all__ = [
    "CATEGORIES",
    "KEYS",
    "MISSING",
    "NUMBERS",
    "ONE_PLACE",
    "OTHER",
    "Bins",
    "CodedRows",
    "ColumnPlan",
    "Domain",
    "KeyTerm",
    "Rows",
    "Schema",
    "UncodedRows",
    "UnitCounts",
    "Units",
    "WholeUnits",
    "about",
    "array_of_cells",
    "array_of_rows",
    "as_dense",
    "as_table",
    "cell_codes",
    "cell_key",
    "check_categorical",
    "check_coded",
    "check_coded_target",
    "check_columns",
    "check_errors",
    "check_grouped",
    "check_keyed",
    "check_labelled",
    "check_labelled_table",
    "check_labels",
    "check_marks",
    "check_outcomes",
    "check_public_array",
    "check_rows",
    "check_samples",
    "check_scores",
    "check_sparse",
    "check_table",
    "check_uncoded",
    "check_units",
    "check_unselected",
    "check_with_target",
    "checked",
    "column_cells",
    "column_of_values",
    "column_plans",
    "dealt_rows",
    "decoded",
    "dense_blocks",
    "holds_numbers",
    "identity",
    "is_listed",
    "is_missing",
    "is_parts",
    "keeps_types",
    "key_order",
    "label_codes",
    "name_of_ids",
    "never_held",
    "opaque_rows",
    "public_codes",
    "read_cell",
    "refuse_parts",
    "shown_key",
    "split_by_key",
    "stand_in",
    "stated_columns",
    "table_of",
    "table_schema",
    "target_column",
    "type_name",
    "whole_units",
    "with_texts",
    "with_weights",
    "without_column",
]
