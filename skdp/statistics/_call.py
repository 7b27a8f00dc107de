"""What the functions of this package share: docstrings, checks, the session, the result.

Every function checks its arguments and rows first, then opens one session, which charges once,
under the function's name.
"""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self, TypedDict, TypeVar

import numpy as np

from skdp._docstrings import documenter
from skdp.base import CallContext, check_bounds, check_integer
from skdp.base.context import public_key
from skdp.budget import PrivacyBudget
from skdp.confidence import Released as Released
from skdp.confidence import Source
from skdp.confidence.equations import Floats as Floats
from skdp.confidence.equations import Pair as Pair
from skdp.confidence.limits import MeanLimits, QuantileLimits
from skdp.core import PrivacyCertificate, Session
from skdp.parameters import FLAG, check_parameter, check_parameters, shown
from skdp.planning import Allowance, bounds_in
from skdp.queries import LearnedBox
from skdp.tabular import ONE_PLACE, Rows, check_table

T = TypeVar("T")

_NOT_LEARNED = "std is NaN where bounds could not be learned well enough: "
# Functions whose queries read rows by `fold` and `gathered` only, so that they may be in parts.
IN_PARTS = frozenset(
    {"correlation", "count", "count_nonzero", "covariance", "histogram", "histogram2d"}
    | {"histogramdd", "mean", "median", "quantile", "std", "subset_sums", "sum", "var"}
)
LARGEST_BOUND = 1e100  # so that sums and squares of bounded values are finite

# --- docstrings and signatures --------------------------------------------------------------------

_with_blocks = documenter(
    {
        "X": """
            X : array-like or table of shape (n_samples,) or (n_samples, n_features)
                Private rows, finite numbers.
            """,
        "variables": """
            X : array-like or table of shape (n_samples,) or (n_samples, n_features)
                Private rows of finite numbers; the columns are the variables.
            """,
        "of_columns": """
            axis : {0}, default=0
                Of each column.
            {keepdims}
            """,
        "axis": """
            axis : {0, None}, default=0
                0: for each column. None: for all cells together.
            {keepdims}
            """,
        "keepdims": """
            keepdims : bool, default=False
                Keep the axis of the rows, with length 1.
            """,
        "dispersion": """
            Parameters
            ----------
            {X}
            {of_columns}
            ddof : int, default=0
                The divisor is the number of rows minus this.
            {bounds}
            {rows}

            Returns
            -------
            released : Released
                At least 0.

            {raises}
            """,
        "bounds": """
            bounds : "private" or tuple (low, high) or mapping, default="private"
                Range of each column, from public knowledge: two numbers, two arrays, or a mapping
                from column name to (low, high); values beyond them count as the nearest bound.
                ``"private"`` learns them (see `Released`).
            """,
        "ranges": """
            bounds : "private" or tuple (low, high) or mapping, default="private"
                Range of each column, from public knowledge: two numbers, two arrays, or a mapping
                from column name to (low, high); ``"private"`` learns them, for 5 to 72% of the
                allowance.
            """,
        "cells": """
            {ranges}
                Not used for edges.
            """,
        "candidates": """
            step : float, default=None
                Answers are multiples of `step`: for integers, use 1. None: a fine grid between the
                bounds.
            intervals : bool, default=False
                True: find quantiles from counts of rows in cells, so that `Released.interval` and
                `Released.population_interval` are known at any level. Without intervals the value
                is found by the exponential mechanism, and is off by fewer ranks: of 5,000 normal
                values at epsilon = 1 the median by 1 instead of 10.
            """,
        "rows": """
            nan_policy : {"raise", "omit"}, default="raise"
                ``"omit"``: leave out rows with missing cells.
            n_rows : {"private", "public"}, default="private"
            {privacy}
            """,
        "raises": """
            Raises
            ------
            TypeError, ValueError
                If an argument is out of range; nothing is charged then.
            {charge_raises}
            """,
        # Rows of examples.
        "table": """
            >>> import numpy as np
            >>> from skdp import statistics
            >>> x = np.random.default_rng(0).uniform(size=(4000, 2))
            """,
        "uniform": """
            >>> import numpy as np
            >>> from skdp import statistics
            >>> x = np.random.default_rng(0).uniform(-1, 1, size=10000)
            """,
        "ages": """
            >>> import numpy as np
            >>> from skdp import statistics
            >>> ages = np.random.default_rng(0).integers(18, 90, size=5000)
            """,
    }
)


class Options(TypedDict, total=False):
    """What most functions take by keyword: missing cells, the number of rows, privacy."""

    nan_policy: str
    n_rows: str
    groups: Any
    max_rows_per_unit: Any
    epsilon: float
    delta: float | None
    budget: PrivacyBudget | None
    random_state: Any


def documented(function: T) -> T:
    """Fill the docstring of a function, and name its `Options`, with defaults, in its signature."""
    if inspect.isfunction(function):
        signature, known = inspect.signature(function), inspect.signature(Call).parameters
        *own, last = signature.parameters.values()
        if last.annotation == "Unpack[Options]":
            shared = [
                known[name].replace(kind=last.KEYWORD_ONLY) for name in Options.__annotations__
            ]
            signature = signature.replace(parameters=[*own, *shared])
            function.__signature__ = signature  # type: ignore[attr-defined]
    return _with_blocks(function)


# --- arguments and the session -------------------------------------------------------------------


def check_axis(axis: Any, keepdims: Any = False, *, all_cells: bool = False) -> bool:
    """Return whether to add up all cells (axis=None); refuse an axis that leaves single rows."""
    check_parameter(keepdims, "keepdims", FLAG)
    if axis is None and all_cells:
        return True
    if isinstance(axis, bool) or not (isinstance(axis, numbers.Integral) and axis == 0):
        allowed = "0 (each column) or None (all cells)" if all_cells else "0 (each column)"
        raise ValueError(f"axis must be {allowed}: one row is what is protected, got {shown(axis)}")
    return False


def check_ddof(ddof: Any) -> int:
    """Return the delta degrees of freedom."""
    return check_integer(ddof, "ddof", low=0, high=2**53)


@dataclass(frozen=True)
class Call(CallContext):
    """A call with its treatment of missing cells and of the number of rows."""

    epsilon: float = 1.0
    nan_policy: str = "raise"
    n_rows: str = "private"

    @classmethod
    def of(cls, name: str, options: Options) -> Self:
        """Return the call of a function by its keywords, which are `Options`."""
        if unknown := sorted(set(options) - set(Options.__annotations__)):
            raise TypeError(f"{name}() got an unexpected keyword argument {unknown[0]!r}")
        return cls(name, **options)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_parameters(self, {"nan_policy": ("raise", "omit"), "n_rows": ("private", "public")})
        if self.n_rows == "public" and self.omits:
            raise ValueError(
                "n_rows must be 'private' with nan_policy='omit': how many rows have missing cells "
                "is private"
            )
        if self.n_rows == "public" and self.counts_users:
            raise ValueError(
                "n_rows must be 'private' with groups: how many rows a unit has is private"
            )
        if self.n_rows == "public" and self.adjacency == "add_or_remove_one":
            raise ValueError(
                "n_rows must be 'private' for a budget of the relation 'add_or_remove_one', which "
                "protects the number of rows"
            )

    @property
    def omits(self) -> bool:
        """Whether rows with missing cells are left out."""
        return self.nan_policy == "omit"

    @property
    def steps(self) -> int:
        """How many rows of X are added or removed if one row of the whole table changes."""
        return 2 if self.n_rows == "private" and self.adjacency == "replace_one" else 1

    @property
    def allows_empty(self) -> bool:
        """Whether an empty table is accepted, because the number of rows is private."""
        return self.n_rows == "private"

    def table(self, X: Any) -> tuple[Rows, bool]:
        """Return the private rows, and whether they are one flat column."""
        return check_table(X, **self.entrance)

    @property
    def entrance(self) -> dict[str, Any]:
        """Options of the check of the rows."""
        # A row may be selected by its values as well as left out for its missing cells.
        return {
            "estimator": self.name,
            "allow_empty": self.allows_empty,
            "omit": self.omits,
            "filtered": self.n_rows == "private",
            "one_place": "" if self.name in IN_PARTS else ONE_PLACE,
        }

    @property
    def _relation(self) -> str:
        return "add_or_remove_one" if self.n_rows == "private" else super()._relation

    def opened(self, rows: Rows, public: Any, **options: Any) -> Session:
        """Charge the budget and return the session; `public` keys seeded noise."""
        key = (self.nan_policy, self.n_rows, public)
        return self.open(rows, lambda: public_key(key), **options)

    @contextmanager
    def bounded(
        self,
        rows: Rows,
        bounds: Any,
        public: Any,
        noise: Callable[[Allowance], float],
        *,
        audit: bool = True,
    ) -> Iterator[tuple[Session, Floats, Floats, LearnedBox | None]]:
        """Yield a session with bounds, and the learned box if they are not stated.

        `noise` is that of what is asked within the bounds; see `split_delta`.
        """
        stated = self.stated(bounds, rows.n_features, rows.names)

        def least(allowance: Allowance) -> float:
            return noise(allowance) if stated else allowance.learning_std(rows.n_features)

        with self.opened(rows, (bounds, public), noise=least) as session:
            pair, learned = bounds_in(session, stated, errors=audit, share=None)
            yield session, *pair, learned

    @staticmethod
    def stated(bounds: Any, n_features: int, names: Sequence[Any] | None = None) -> Pair | None:
        """Return stated bounds, or None for ``"private"``."""
        stated = check_bounds(bounds, n_features, names)
        if stated is not None and max(np.abs(stated[0]).max(), np.abs(stated[1]).max()) > (
            LARGEST_BOUND
        ):
            raise ValueError(f"bounds: low and high must be within {LARGEST_BOUND:g} of 0")
        return stated


def result(
    value: Any,
    std: Any,
    privacy: PrivacyCertificate,
    *,
    flat: bool = False,
    across: bool = False,
    keepdims: bool = False,
    bounds: Pair | None = None,
    learned: LearnedBox | None = None,
    note: str = "",
    limits: MeanLimits | QuantileLimits | None = None,
    names: Sequence[Any] | None = None,
    labels: Mapping[str, Any] | None = None,
    shared: Any = 0.0,
    clipping: Any = 0.0,
    uncorrelated: bool = False,
) -> Released:
    """Return a result with noise of its own; that of a flat column, or of all cells, is a number.

    With `keepdims` an axis of length 1 stands for the rows, and one for the columns of X unless it
    is `flat`, as in numpy. `learned` says why errors are NaN. `labels`
    of entries broadcast to the shape of `value`, `names` are those of columns. `shared` and
    `clipping` are parts of `std`; with `uncorrelated` see `Source`.
    """
    array = np.array(value, dtype=np.float64)
    cells = dict(labels or {})
    if names is not None and not flat and not across:
        cells["column"] = np.empty(len(names), dtype=object)
        cells["column"][:] = names
    cells = {name: np.broadcast_to(label, array.shape) for name, label in cells.items()}
    error = np.broadcast_to(np.asarray(std, dtype=np.float64), array.shape)
    shared, clipping = (np.broadcast_to(part, array.shape).ravel() for part in (shared, clipping))
    noise = np.sqrt(np.maximum(np.square(error.ravel()) - np.square(shared) - clipping**2, 0.0))
    parts: Any = {"shared": shared, "clipping": clipping, "uncorrelated": uncorrelated}
    errors = Source.of_session(privacy, noise, **parts)
    if flat or (across and not keepdims):
        array, error = array[..., 0], error[..., 0]
        limits = None if limits is None else limits.at((..., 0))
        cells = {name: label[..., 0] for name, label in cells.items()}
    if keepdims:
        axis = array.ndim if flat else array.ndim - 1
        array, error = np.expand_dims(array, axis), np.expand_dims(error, axis)
    shape = np.shape(array)
    cells = {name: np.reshape(label, shape) for name, label in cells.items()}
    if learned is not None and bool(np.any(np.isnan(error) & np.isfinite(array))):
        note = _NOT_LEARNED + learned.why_no_error
    shaped: Any = None if limits is None else limits.shaped(shape)
    return Released(array, error, privacy, bounds, note, shaped, cells, errors)
