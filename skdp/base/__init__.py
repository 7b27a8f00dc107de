"""The base class of private estimators, and what their authors need beside it."""

from skdp.base.context import CallContext
from skdp.base.mixin import AmbientBudgetMixin as AmbientBudgetMixin
from skdp.base.mixin import (
    PrivateMixin,
    check_without_rows,
    in_precision_of,
    keeps_precision,
    refuse_units,
    request_groups,
    unchanged_on_error,
)
from skdp.parameters import (
    PRIVATE,
    check_bounds,
    check_integer,
    columns_of_bounds,
    labels_of_bounds,
    names_of,
)

__all__ = [
    "PRIVATE", "CallContext", "PrivateMixin", "check_bounds", "check_integer", "check_without_rows",
    "columns_of_bounds", "in_precision_of", "keeps_precision", "labels_of_bounds", "names_of",
    "refuse_units", "request_groups", "unchanged_on_error",
]  # fmt: skip
