"""`describe`: a first look at a private table, for one charge."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from html import escape
from typing import Any

import numpy as np

from skdp._docstrings import shared_texts
from skdp.base import check_bounds
from skdp.base.context import public_key
from skdp.budget import PrivacyBudget
from skdp.confidence import Released
from skdp.confidence.equations import Source, moment_errors, root_error
from skdp.core import Box, PrivacyCertificate, RowSum, Session, Sum
from skdp.exceptions import warn_caller
from skdp.parameters import BoundsWithRisk
from skdp.planning import Allowance, learned_before
from skdp.queries import (
    CountedKeys,
    FilledCells,
    LearnedBounds,
    MarginalCells,
    OfColumn,
    Quantiles,
    moments,
    rank_scale,
    row_counts,
    sum_view,
    ticks_between,
)
from skdp.statistics._call import LARGEST_BOUND, Call, documented
from skdp.tabular import (
    CATEGORIES,
    KEYS,
    MOMENT,
    NUMBER,
    NUMBERS,
    ONE_PLACE,
    OTHER,
    UNITS,
    Bins,
    ColumnPlan,
    check_uncoded,
    column_plans,
    is_missing,
    listed,
    refuse_parts,
    stand_in,
    table_schema,
)

__all__ = ["Description", "describe"]

_COUNT = Fraction(1, 50)  # of everything: the number of rows, where it is private
# Of the part of a column of numbers: missing cells, then bounds (at most); of what is left moments
# and zeros, and the rest for quantiles.
_MISSING, _BOUNDS, _MOMENTS, _ZEROS = (
    Fraction(1, 20),
    Fraction(1, 2),
    Fraction(1, 2),
    Fraction(1, 12),
)
# The outer quantiles, as far out as the noise allows.
_OUTER = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1)
_CELLS = 16  # of a column of numbers in `Description.domain`
_CLEAR = 13.0  # ranks, in scales of the noise, that keep a quantile among the rows
_BARS = 8  # of the picture of a column of categories
_TEXT = (
    "describe: the categories of columns {columns} are not known. State them, categories={{"
    "{column!r}: [...]}}, or give delta=1e-6, or a budget with delta: values that enough rows have "
    "are then counted. Under accountants other than 'basic' the budget needs separate_delta, too"
)
_NONE_SHOWN = (
    "describe: no value of columns {columns} has enough rows to be shown. State categories=, or "
    "take more rows or a larger epsilon"
)
_UNSURE = (
    "describe: the learned bounds of columns {columns} may be far off, and with them all that is "
    "shown of these columns: {why}"
)
_FAR = 0.1  # an error of a mean, in widths of the bounds: noise decides all that is shown
_NOISY = (
    "describe: noise hides columns {columns}: the error of a mean is more than a tenth of the "
    "width of its bounds. State closer bounds=, or take more rows or a larger epsilon, so that "
    "rows times epsilon are about {needed:,.0f}"
)
_NO_ERROR = "the error of a quantile depends on the rows near it"


@shared_texts
@dataclass(frozen=True, eq=False, repr=False)
class Description:
    """What `describe` released of a table.

    Attributes
    ----------
    n_rows : Released
        Exact where the number of rows is public.
    missing : Released of shape (n_columns,)
        Share of the rows without a value.
    numbers : dict of Released of shape (n_number_columns,)
        Of the columns of numbers and dates, without their missing cells: ``"mean"``, ``"std"``,
        quantiles as ``"25%"``, and ``"zeros"``, the share of cells that are 0 (NaN for dates).
        Dates are in days since 1970 and their ``"std"`` in days, durations in minutes; `to_frame`
        has ``Timestamp`` and ``Timedelta``. For the least and the greatest value
        there are the outermost quantiles that the noise allows, as ``"1%"`` and ``"99%"``.
    counts : dict of Released
        By column of categories: how many rows have each, the most frequent ones first; of private
        categories those that may be shown.
    bounds : dict
        (low, high) of each column of numbers, stated or learned, as other calls take them. With
        learned bounds the errors of means, variances and fitted numbers of later calls on the same
        rows include what the rows beyond may weigh; not those of some of the rows, nor of
        `DPGroupBy`, which are of values as clipped. ``tuple(bounds["pay"])``, or an array, states
        plain bounds.
    domain : dict
        The values of each column, as ``domain`` of `DPMarginalSynthesizer` takes them.
    privacy : skdp.core.PrivacyCertificate
    """

    n_rows: Released
    missing: Released
    numbers: Mapping[str, Released]
    counts: Mapping[Any, Released]
    bounds: Mapping[Any, tuple[float, float]]
    domain: Mapping[Any, Any]
    privacy: PrivacyCertificate
    kinds: Mapping[Any, str]  # of columns of numbers: whether they are dates or durations

    def to_frame(self, *, std: bool = False) -> Any:
        """Return a table as of ``DataFrame.describe(include="all")``, with missing and zero shares.

        Parameters
        ----------
        std : bool, default=False
            Return the standard errors instead. Those of dates are ``Timedelta``.

        Returns
        -------
        frame : pandas.DataFrame
            A column for each column, a row for each statistic. ``shown`` is the number of
            categories in `counts`, ``freq`` the noisy count of the first. ``std`` has the divisor n
            (``ddof=0``).

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError:
            raise ImportError("to_frame needs pandas: pip install pandas.") from None
        rows = ["count", "missing", "shown", "top", "freq", *self.numbers]
        cells: dict[Any, dict[str, Any]] = {}
        for j, label in enumerate(self.missing.labels["column"].tolist()):
            missing = (self.missing.std if std else self.missing.value)[j]
            n = float(self.n_rows.std if std else self.n_rows.value)
            whole = float(self.n_rows.value)
            count = math.hypot(n, whole * missing) if std else whole * (1.0 - missing)
            cells[label] = {"count": count, "missing": missing}
            if label in self.counts:
                cells[label] |= self._of_categories(self.counts[label], std=std)
        for name, answer in self.numbers.items():
            values = answer.std if std else answer.value
            for label, value in zip(answer.labels["column"].tolist(), values, strict=True):
                kind = self.kinds.get(label, NUMBER)
                if kind != NUMBER and math.isfinite(value):
                    is_length = std or name == "std" or kind != MOMENT
                    of_kind = pd.Timedelta if is_length else pd.Timestamp
                    with contextlib.suppress(OverflowError, ValueError):  # 292 years, at most
                        value = of_kind(round(value * UNITS[kind]), unit="us").floor("s")
                cells[label][name] = value
        return pd.DataFrame(cells, index=rows)

    @staticmethod
    def _of_categories(counts: Released, *, std: bool) -> dict[str, Any]:
        known = [i for i, c in enumerate(counts.labels["category"]) if not is_missing(c)]
        if not known:
            return {} if std else {"shown": 0}
        first = known[0]
        if std:
            return {"freq": counts.std[first]}
        top = counts.labels["category"][first]
        return {"shown": len(known), "top": top, "freq": counts.value[first]}

    def to_html(self) -> str:
        """Return the table with a picture of each column.

        Numbers have bars of equal areas between their quantiles, categories bars of their counts.
        """
        frame = self.to_frame()
        errors = self.to_frame(std=True)
        head = "".join(f"<th>{escape(str(name))}</th>" for name in ("column", "", *frame.index))
        body = []
        for label in frame.columns:
            cells = [
                f"<td>{_shown(frame.loc[name, label], errors.loc[name, label])}</td>"
                for name in frame.index
            ]
            picture = f"<td>{self._picture(label)}</td>"
            body.append(f"<tr><th>{escape(str(label))}</th>{picture}{''.join(cells)}</tr>")
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
        return f'<div style="overflow-x:auto;white-space:nowrap">{table}</div>'

    _repr_html_ = to_html

    def __repr__(self) -> str:
        return f"Description of {len(self.missing)} columns\n{self.to_frame()!r}"

    def _picture(self, label: Any) -> str:
        if label in self.counts:
            values = np.maximum(self.counts[label].value[:_BARS], 0.0)
            edges = np.arange(len(values) + 1.0)
        else:
            names = [name for name in self.numbers if name.endswith("%")]
            column = self.numbers["mean"].labels["column"].tolist().index(label)
            ends = np.array([self.numbers[name].value[column] for name in names])
            shares = np.diff([float(name[:-1]) for name in names])
            # Quantiles that are equal, as of many zeros, make one bar of the least width.
            width = np.maximum(np.diff(ends), max((ends[-1] - ends[0]) / 50.0, 1e-300))
            edges, values = np.concatenate([[0.0], np.cumsum(width)]), shares / width
        if not len(values) or not values.max() > 0.0:
            return ""
        x, height = 80.0 * edges / edges[-1], 24.0 * values / values.max()
        bars = "".join(
            f'<rect x="{a:.1f}" y="{24 - h:.1f}" width="{max(b - a - 0.5, 0.5):.1f}" '
            f'height="{h:.1f}" fill="currentColor" opacity=".6"/>'
            for a, b, h in zip(x[:-1], x[1:], height, strict=True)
        )
        size = 'width="80" height="24" style="min-width:80px"'
        return f'<svg {size} role="img" aria-hidden="true">{bars}</svg>'


def _shown(cell: Any, error: Any) -> str:
    if isinstance(cell, float):
        if math.isnan(cell):
            return ""
        if not (isinstance(error, float) and 0.0 < error < 1e9):
            return f"{cell:,.6g}"
        digits = 1 - math.floor(math.log10(error))  # two of the error
        cell, error = round(cell, digits), round(error, digits)
        return f"{cell:,.{max(digits, 0)}f} ± {error:,.{max(digits, 0)}f}"
    # A date with its error, a `Timedelta`.
    return escape(f"{cell} ± {error}" if hasattr(error, "total_seconds") else str(cell))


@documented
def describe(
    X: Any,
    *,
    bounds: Any = "private",
    categories: Any = "private",
    n_rows: str = "private",
    groups: Any = None,
    max_rows_per_unit: Any = "private",
    epsilon: float = 1.0,
    delta: float | None = None,
    budget: PrivacyBudget | None = None,
    random_state: Any = None,
) -> Description:
    """Return a first look at a table, as ``DataFrame.describe(include="all")`` would.

    Parameters
    ----------
    X : array-like or table of shape (n_samples,) or (n_samples, n_features)
        Private rows: numbers, dates, text, booleans, with missing cells.
    bounds : "private" or tuple (low, high) or mapping, default="private"
        Range of each column, from public knowledge: two numbers, two arrays, or a mapping from
        column name to (low, high), of columns of numbers; a mapping may state some of them.
        ``"private"`` learns the others.
    categories : "private", "dtype" or mapping, default="private"
        Values of columns that are no numbers: a mapping from column to a list. ``"private"`` shows
        those that enough rows have, which needs delta; ``"dtype"`` takes the lists of types.
    n_rows : {"private", "public"}, default="private"
    {privacy}

    {raises}

    Notes
    -----
    **Precision.** Each column has an equal part of the allowance, so a delta helps. Of 10 columns
    of numbers (learned bounds, epsilon = 1, delta = 1e-6, ``n_rows="public"``) the standard error
    of a mean was .03 of its column's interquartile range with 5,000 rows (up to .1 in nine of ten
    columns; one in five had none), .015 with 10,000 and .004 with 40,000; actual errors were about
    half of that. With delta = 0 errors are known from about 40,000 rows on (.013); state `bounds`
    then. Of ten kinds of columns (5,000 to 100,000 rows, 25 tables each) the standard error of a
    mean was .7 to 1.8 times the actual one, that of a standard deviation .8 to 6.5 times (2.1 in
    the median column): a few rows far out may weigh much in a square. State `bounds` for less.

    **Privacy.** *Released*: the number of rows where it is private; of each column of numbers the
    number of missing cells, bounds if they are not stated, the sums of values and of their squares,
    the number of cells that are not 0, and five quantiles; of each other column the number of rows
    of each stated category, or the counts of those that reach a threshold. *Sensitivity*: of each
    of these as of `count`, `var`, `count_nonzero` and `quantile`, of rows that have a value there;
    of counted categories one row for each column. *Mechanism*: discrete Laplace, K-norm or rounded
    Gaussian noise, and the exponential mechanism. Proofs: ``skdp/queries/columns.md``,
    ``skdp/queries/key_selection.md``.

    Examples
    --------
    >>> import numpy as np
    >>> import skdp
    >>> ages = np.random.default_rng(0).integers(18, 90, size=(20000, 1))
    >>> look = skdp.describe(ages, bounds=(0, 120), random_state=0)
    >>> bool(abs(look.numbers["mean"].value[0] - ages.mean()) < 5 * look.numbers["mean"].std[0])
    True
    >>> look.bounds
    {0: (0.0, 120.0)}
    """
    call = Call(
        "describe", epsilon, delta, budget, random_state, n_rows=n_rows,
        groups=groups, max_rows_per_unit=max_rows_per_unit,
    )  # fmt: skip
    refuse_parts(X, "describe", ONE_PLACE)
    X, schema = table_schema(_two_dimensional(X), estimator="describe")
    labels = list(schema.names or range(schema.n_columns))
    by_name = isinstance(categories, Mapping)
    if not by_name and categories not in CATEGORIES:
        raise ValueError("categories must be 'private', 'dtype' or a mapping from column to values")
    source = CATEGORIES[0] if by_name else categories
    plans = column_plans(categories if by_name else None, X, schema, categories=source)
    stated = _stated_bounds(bounds, plans)
    keyed = [plan.label for plan in plans if plan.source == KEYS]
    if keyed and not call.allowed_delta:
        raise ValueError(_TEXT.format(columns=keyed, column=keyed[0]))
    named = schema.names is not None
    rows = check_uncoded(X, plans, named=named, allow_empty=call.allows_empty)
    rows.filtered = n_rows == "private"

    def noise(allowance: Allowance) -> float:
        # Of a column's sums, which are but one of several releases.
        return allowance.part(_MOMENTS / len(plans)).moments_std(1)

    gaussian, separate = call.split_delta(noise, learns=bool(keyed))
    key = ("describe", repr(bounds), repr(categories))
    opened = call.open(
        rows, lambda: public_key(key), delta=gaussian, separate_delta=separate if keyed else 0.0
    )
    with opened as session:
        look = _Look(session, plans, stated, stand_in(plans, named=named))
        look.run()
        privacy = session.certificate()
    none = [labels[j] for j, counts in look.counts.items() if not counts]
    if none:
        warn_caller(_NONE_SHOWN.format(columns=listed(none)))
    if why := look.why_no_error():
        unsure = [labels[j] for j, column in look.columns.items() if math.isnan(column["mean"][1])]
        warn_caller(_UNSURE.format(columns=listed(unsure), why=why))
    if needed := look.rows_needed():
        text = float(f"{max(needed.values()) * call.epsilon:.1e}")
        message = _NOISY.format(columns=listed([labels[j] for j in needed]), needed=text)
        warn_caller(message)
    return look.described(privacy, labels)


def _two_dimensional(X: Any) -> Any:
    """Return a column as a table."""
    if hasattr(X, "to_frame") and not hasattr(X, "columns"):
        return X.to_frame()
    return X.reshape(-1, 1) if isinstance(X, np.ndarray) and X.ndim == 1 else X


def _stated_bounds(bounds: Any, plans: Sequence[ColumnPlan]) -> dict[Any, tuple[float, float]]:
    """Return the stated bounds of columns of numbers."""
    labels = [plan.label for plan in plans if plan.source == NUMBERS]
    if isinstance(bounds, Mapping):
        if unknown := [label for label in bounds if label not in labels]:
            raise ValueError(f"bounds: no columns of numbers are {unknown[:5]}")
        labels = [label for label in labels if label in bounds]
    if not labels:
        return {}
    pair = check_bounds(bounds, len(labels), labels)
    if pair is None:
        return {}
    if max(np.abs(pair[0]).max(), np.abs(pair[1]).max()) > LARGEST_BOUND:
        raise ValueError(f"bounds: low and high must be within {LARGEST_BOUND:g} of 0")
    learned = getattr(pair, "learned", (None,) * len(labels))
    ends = zip(pair[0].tolist(), pair[1].tolist(), strict=True)
    return {
        label: ends if box is None else BoundsWithRisk(*ends, (box,))
        for label, ends, box in zip(labels, ends, learned, strict=True)
    }


class _Look:
    """The releases of a description, in one session."""

    def __init__(
        self,
        session: Session,
        plans: Sequence[ColumnPlan],
        stated: Mapping[Any, tuple[float, float]],
        domain: Any,
    ) -> None:
        self.session, self.plans, self.domain = session, plans, domain
        self.bounds = dict(stated)  # with those that are learned, by label
        self.missing: dict[int, tuple[float, float]] = {}  # rows without a value, and the error
        self.columns: dict[int, dict[str, Any]] = {}  # of numbers: (value, error) by statistic
        self.counts: dict[int, list[tuple[Any, float, float]]] = {}  # (category, count, error)

    def run(self) -> None:
        """Release everything."""
        session, plans = self.session, self.plans
        self.n, self.n_std = 0.0, 0.0
        if session.adjacency == "replace_one":
            self.n = float(session.n_rows)
        else:
            count = session.row_count(_COUNT)
            self.n, self.n_std = max(float(count.value), 1.0), float(count.std)
        part = session.remaining / len(plans)
        keyed = [j for j, plan in enumerate(plans) if plan.source == KEYS]
        numbers = [j for j, plan in enumerate(plans) if plan.source == NUMBERS]
        if nullable := tuple(j for j in numbers if plans[j].missing) + tuple(keyed):
            self._count_missing(nullable, part * len(nullable) * _MISSING)
        if keyed:
            self._count_keys(keyed, part * len(keyed) * (1 - _MISSING))
        coded = [j for j, plan in enumerate(plans) if plan.source not in (KEYS, NUMBERS)]
        if coded:
            session.code_rows(self.domain)
        for j in coded:
            self._count_known(j, part)
        self.levels = self._levels(part)
        unstated = [j for j in numbers if plans[j].label not in self.bounds]
        if unstated:
            self._learn_bounds(unstated, part * len(unstated) * (1 - _MISSING) * _BOUNDS)
        part = session.remaining / max(len(numbers), 1)
        for j in numbers:
            self._summarise(j, part)

    def _learn_bounds(self, columns: list[int], share: Fraction) -> None:
        """Learn the bounds of columns of numbers."""
        counts = np.array([self._rows_with(j) for j in columns])
        query = OfColumn(tuple(columns), LearnedBounds(n=float(counts.mean())))
        box = self.session.answer(query, share, name="bounds").of_counts(counts)
        for k, j in enumerate(columns):
            ends = float(box.low[k]), float(box.high[k])
            if self.plans[j].integer:
                ends = float(math.floor(ends[0])), float(math.ceil(ends[1]))
            self.bounds[self.plans[j].label] = BoundsWithRisk(*ends, (box.column(k, *ends),))

    def _count_missing(self, columns: tuple[int, ...], share: Fraction) -> None:
        """Count the missing cells of columns that are not stated."""
        query = RowSum(FilledCells(columns, missing=True), noise="entries", name="missing values")
        release = self.session.answer(query, share)
        for j, value in zip(columns, release.value.tolist(), strict=True):
            self.missing[j] = min(max(value, 0.0), self.n), float(np.max(release.std))

    def _rows_with(self, j: int) -> float:
        """Return about how many rows have a value in a column."""
        return max(self.n - self.missing.get(j, (0.0, 0.0))[0], 1.0)

    def _levels(self, part: Fraction) -> list[float]:
        """Return the levels of the quantiles of all columns, by what is public or released."""
        session, missing = self.session, any(plan.missing for plan in self.plans)
        left = part * (1 - _MISSING) * (1 - _BOUNDS) * (1 - _MOMENTS - _ZEROS)
        inner = [0.25, 0.5, 0.75]
        for level in _OUTER:
            levels = [level, *inner, 1.0 - level]
            size, relation = session.level(left), session.adjacency
            ranks = _CLEAR * rank_scale(levels, size, 1, pure=session.pure, adjacency=relation)
            if missing and relation == "replace_one":  # a replaced row is two steps there
                ranks *= 1.5
            if ranks <= level * min(self._rows_with(j) for j in range(len(self.plans))):
                return levels
        return inner

    def _count_keys(self, columns: list[int], share: Fraction) -> None:
        """Count the categories that enough rows have."""
        found = self.session.answer(CountedKeys(len(columns), 1, "categories"), share)
        for j in columns:
            counted = [
                (value, float(count), float(found.std))
                for (k, _, value), count in zip(found.keys, found.counts, strict=True)
                if k == j
            ]
            self._set_counts(j, counted)

    def _count_known(self, j: int, share: Fraction) -> None:
        """Count stated categories."""
        query = row_counts(MarginalCells(tuple(self.domain.sizes), (j,)), "counts")
        release = self.session.answer(query, share, name=f"counts of {self.plans[j].label}")
        errors = np.broadcast_to(release.std, release.value.shape)
        values = zip(self.domain.column(j), release.value.tolist(), errors.tolist(), strict=True)
        self._set_counts(j, list(values))

    def _set_counts(self, j: int, counted: list[tuple[Any, float, float]]) -> None:
        self.counts[j] = sorted(counted, key=lambda entry: -entry[1])
        none = [entry[1:] for entry in counted if is_missing(entry[0])]
        if none and self.plans[j].source != KEYS:
            self.missing[j] = none[0]

    def _summarise(self, j: int, part: Fraction) -> None:
        """Release bounds, moments, zeros and quantiles of a column of numbers."""
        plan = self.plans[j]

        def answer(query: Any, share: Fraction, what: str) -> Any:
            return self.session.answer(OfColumn(j, query), share, name=f"{what} of {plan.label}")

        bounds = self.bounds[plan.label]
        sides = np.array([bounds[0]]), np.array([bounds[1]])
        first, second, count = answer(moments(*sides), part * _MOMENTS, "moments")
        n, n_std = float(count.value), float(count.std)
        column = self.columns[j] = {"bounds": bounds, "rows": n}
        self._set_moments(j, sides, (first, second), n, n_std)
        zeros, error = math.nan, math.nan
        if plan.kind == NUMBER:
            view = sum_view(0.0, 1.0, 1, nonzero=True, about_zero=True)
            other = answer(Sum(view), part * _ZEROS, "cells that are not 0")
            zeros = min(max(1.0 - float(other.value[0]) / n, 0.0), 1.0)
            error = math.hypot(float(np.max(other.std)), (1.0 - zeros) * n_std) / n
        column["zeros"] = zeros, error
        query = Quantiles(Box(*sides, per_feature=True), self.levels, 1.0 if plan.integer else None)
        left = part * (1 - _MOMENTS - _ZEROS)
        values = np.array(answer(query, left, "quantiles").value).ravel()
        if bounds[0] >= 0.0:  # more zeros than rows up to a quantile: it is 0
            values[np.array(self.levels) < zeros - 2.0 * error] = 0.0
        for level, value in zip(self.levels, values.tolist(), strict=True):
            column[f"{100.0 * level:g}%"] = value, math.nan

    def _set_moments(self, j: int, sides: Any, released: Any, n: float, n_std: float) -> None:
        """Set the mean and the standard deviation of a column, from its released moments."""
        column = self.columns[j]
        (low, high), (first, second) = sides, released
        half = high / 2 - low / 2
        noise = float(np.max(first.std)), float(np.max(second.std)), n_std / n
        mean_error, variance_error = moment_errors(first.value, second.value, *noise)
        mean = np.clip(low / 2 + high / 2 + half * first.value, low, high)
        variance = np.maximum(second.value - first.value**2, 0.0) * half**2
        mean_error, variance_error = half * mean_error, half**2 * variance_error
        column["clipping"] = 0.0
        if (box := learned_before(column["bounds"])) is not None:
            column["clipping"] = float(box.mean_error()[0])
            mean_error = np.hypot(mean_error, column["clipping"])
            variance_error = np.hypot(variance_error, box.square_errors(mean))
        error = root_error(variance, variance_error)
        column["mean"] = float(mean[0]), float(mean_error[0])
        column["std"] = float(np.sqrt(variance)[0]), float(error[0])

    def why_no_error(self) -> str:
        """Return what to do where bounds could not be learned; "" if the errors of means are known.

        With stated bounds they are.
        """
        for column in self.columns.values():
            box = learned_before(column["bounds"])
            if box is not None and math.isnan(column["mean"][1]):
                return box.why_no_error
        return ""

    def rows_needed(self) -> dict[int, float]:
        """Return about how many rows each column needs whose mean has too large an error."""
        needed = {}
        for j, column in self.columns.items():
            low, high = column["bounds"]
            times = column["mean"][1] / max((high - low) * _FAR, 1e-300)
            if times > 1.0:  # never of NaN
                needed[j] = times * column["rows"]
        return needed

    def described(self, privacy: PrivacyCertificate, labels: list[Any]) -> Description:
        """Return the description."""

        def released(pairs: Any, of: str, labels: list[Any], note: str = "") -> Released:
            pairs = np.array(list(pairs), dtype=np.float64).reshape(-1, 2)
            cells = np.empty(len(labels), dtype=object)
            cells[:] = labels
            return Released(pairs[:, 0], pairs[:, 1], privacy, None, note, labels={of: cells})

        def summable(answer: Released, shared: Any = 0.0, clipping: Any = 0.0) -> Released:
            """Return an answer of a release of its own, so that errors of its sums are known."""
            noise = np.sqrt(
                np.maximum(answer.std**2 - np.square(shared) - np.square(clipping), 0.0)
            )
            parts: Any = {"shared": shared, "clipping": clipping, "uncorrelated": True}
            return replace(answer, errors=Source.of_session(privacy, noise, **parts))

        n, columns = self.n, self.columns
        shares = []
        for j in range(len(labels)):
            count, error = self.missing.get(j, (0.0, 0.0))
            share = min(max(count / n, 0.0), 1.0)
            shares.append((share, math.hypot(error, share * self.n_std) / n))
        names = [labels[j] for j in columns]
        numbers = {}
        quantiles = [f"{100.0 * level:g}%" for level in self.levels]
        for name in ("mean", "std", *quantiles, "zeros") if columns else ():
            pairs = [column[name] for column in columns.values()]
            note = _NO_ERROR if name in quantiles else ""
            if name == "mean":
                note = self.why_no_error()
            numbers[name] = released(pairs, "column", names, note)
        if columns:
            clipping = np.array([column["clipping"] for column in columns.values()])
            numbers["mean"] = summable(numbers["mean"], clipping=clipping)
        counts = {
            labels[j]: summable(
                released([entry[1:] for entry in entries], "category", [e[0] for e in entries])
            )
            for j, entries in self.counts.items()
        }
        missing = released(shares, "column", labels)
        return Description(
            n_rows=Released(np.array(n), np.array(self.n_std), privacy),
            missing=summable(missing, shared=missing.value * self.n_std / n),
            numbers=numbers,
            counts=counts,
            bounds={labels[j]: column["bounds"] for j, column in columns.items()},
            domain={label: self._spec(j) for j, label in enumerate(labels)},
            privacy=privacy,
            kinds={labels[j]: self.plans[j].kind for j in columns},
        )

    def _spec(self, j: int) -> Any:
        """Return the values of a column as a domain takes them."""
        plan = self.plans[j]
        if plan.source == KEYS:
            values = [value for value, _, _ in self.counts[j]]
            return [*values, OTHER if plan.text else None]
        if plan.source != NUMBERS:
            return plan.spec
        low, high = self.columns[j]["bounds"]
        if not low < high:
            low, high = low - 0.5, high + 0.5
        edges = np.linspace(low, high, _CELLS + 1)
        if plan.kind != NUMBER:
            return ticks_between(edges, plan)
        return Bins.regular(low, high, _CELLS, integer=plan.integer, missing=plan.missing)
