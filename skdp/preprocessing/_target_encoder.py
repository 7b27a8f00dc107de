"""`DPTargetEncoder`: categories as the mean of a bounded target among their rows.

A fit releases mean and mean square of the target, and for each category of each column the number
of its rows and the sum of their targets. What is set from these, and what `transform` makes, is
post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.base.classifiers import (
    COUNT_SHARE,
    FEW_ROWS,
    POINT_SHARE,
    finite_squares,
    learning_size,
    warn_of_column,
)
from skdp.base.expected_error import (
    NOISELESS,
    Fresh,
    check_pair,
    made_once,
    mean_error,
    repeated,
)
from skdp.base.transformers import (
    Codes,
    Floats,
    input_names,
)
from skdp.core import Session
from skdp.exceptions import warn_caller
from skdp.parameters import (
    Reals,
    Table,
    check_bounds,
    check_classes,
    check_size,
    naming,
)
from skdp.planning import Allowance, row_count
from skdp.preprocessing._encoders import Encoder, documented, specs_of
from skdp.queries import (
    ColumnCells,
    LearnedBounds,
    OfColumn,
    row_counts,
    target_moments,
    target_sums,
)
from skdp.tabular import (
    Bins,
    Domain,
    cell_key,
    check_categorical,
    check_labels,
    checked,
    take,
)

__all__ = ["DPTargetEncoder"]

_CELLS = 2**15  # into which the range of the target is divided
# Of what is left then, where bounds are learned: from, to; and so many rows times epsilon.
_BOUNDS = 0.1, 0.5, 500.0
_MOMENTS = 0.2  # of what is left then
_HIDDEN = 0.05  # noise of the mean, relative to half the learned range
_LEAST_COUNT = 0.25  # the least ratio of what counts and sums weigh
_SEEN = 10.0  # a category has a standard error if its count is above this many of its deviations
_NARROWEST = 2.0**-34  # the least width of a range, relative to its ends: cells differ then
_ROUNDS = 5
_POINT_ALONE = (
    "{}: rows times epsilon are so few that all categories are encoded as one point amid the "
    "targets. State target_bounds, or take a larger epsilon"
)
_CONTINUOUS, _BINARY = "continuous", "binary"


@dataclass(frozen=True)
class TargetSums:
    """What a fit releases of the target, relative to its range: from -1 to 1.

    - `mean`, `variance`, `mean_std`: Of the target, and the noise of its mean.
    - `sums`, `counts`: Of the categories of each column.
    """

    mean: float
    variance: float
    mean_std: float
    sums: list[Floats]
    counts: list[Floats]
    sum_std: float
    count_std: float

    def between(self, sums: Floats, counts: Floats) -> tuple[float, float]:
        """Return the variance of the means of a column's categories, a low and a high estimate.

        A category of N rows has the sum N delta + noise, relative to the mean. Its square is, on
        average, N**2 tau + N (variance - tau) + noise**2, with tau the variance of the means. It
        weighs as it does in the likelihood of tau. One deviation of the noise of all squares (of
        Laplace noise, the larger one) is taken off or added: encodings follow the low estimate, so
        that they do not follow noise, and errors the high one.
        """
        noise = self.sum_std**2 + (self.mean * self.count_std) ** 2
        n, away = np.maximum(counts, 0.0), sums - self.mean * counts
        squares = away**2 - noise - self.variance * n
        sizes = n**2  # which noise makes larger, and tau smaller
        tau = high = self.variance / 2.0
        for _ in range(_ROUNDS):
            weights = (n / (n**2 * tau + n * (self.variance - tau) + noise)) ** 2
            margin = noise * math.sqrt(5.0 * float(weights @ weights))
            total, size = float(weights @ squares), max(float(weights @ sizes), 1e-300)
            high = min(max(total + margin, 0.0) / size, self.variance)
            if total <= margin:
                return 0.0, high
            tau = min((total - margin) / size, self.variance)
        return tau, high

    def encoded(self, j: int, smooth: Any) -> tuple[Floats, Floats]:
        """Return the shrunk means of a column's categories, and their standard errors.

        With D, the sum relative to the mean, of noise v, they are mean + D N / (N**2 + N m + v /
        tau): m is `smooth`, or the ratio of the variance within categories and that between them.
        """
        sums, counts = self.sums[j], np.maximum(self.counts[j], 0.0)
        tau, high = self.between(sums, self.counts[j])
        if tau <= 0.0:
            factor = np.zeros_like(counts)
        else:
            within = max(self.variance - tau, 0.0)
            prior = within / tau if isinstance(smooth, str) else float(smooth)
            noise = self.sum_std**2 + (self.mean**2 + tau) * self.count_std**2
            bottom = counts**2 + counts * prior + noise / tau
            factor = counts / bottom
        means = np.clip(self.mean + (sums - self.mean * self.counts[j]) * factor, -1.0, 1.0)
        return means, self._errors(counts, factor, high, means)

    def _errors(self, counts: Floats, factor: Floats, tau: float, means: Floats) -> Floats:
        """Return the deviations of shrunk means from the means of the categories' own rows."""
        n = np.maximum(counts, 1.0)
        kept = counts * factor
        noise = self.sum_std**2 + (means * self.count_std) ** 2
        own = tau + self.variance / n  # how far the means of rows are from the mean
        error = np.sqrt((1.0 - kept) ** 2 * (own + self.mean_std**2) + factor**2 * noise)
        return np.where(counts < _SEEN * self.count_std, math.nan, error)


def _bins(low: float, high: float) -> Bins:
    """Return the cells of the target's range; a range without width gets one."""
    least = max(_NARROWEST * max(abs(low), abs(high)), 1e-290)
    if high - low < least:
        low, high = low - least, high + least
    return Bins.regular(low, high, _CELLS)


@documented
class DPTargetEncoder(Encoder):
    """Encode each cell as the mean of the target among the rows of its category, shrunk.

    The private counterpart of scikit-learn's ``TargetEncoder``. Unlike there, `fit_transform` is
    `fit` and then `transform`, without cross-fitting: noise bounds what the target of a row does to
    its own encoding, and small categories are shrunk to the mean by more than their noise.

    Parameters
    ----------
    {categories}
    target_type : {"auto", "continuous", "binary"}, default="auto"
        ``"auto"``: binary if `classes` are stated or y is of booleans, else continuous. For several
        classes, fit one encoder for each label, to ``y == label``.
    smooth : "auto" or float, default="auto"
        How many rows of the mean are added to each category. ``"auto"``: as many as the released
        variances within and between categories ask for. What noise asks for is added to either.
    classes : array-like of shape (2,) or None, default=None
        The labels of a binary target, from public knowledge; None: False and True, or 0 and 1.
        What is encoded is the share of the second one; another label counts as the first.
    target_bounds : "private" or tuple (low, high), default="private"
        Range of a continuous target, from public knowledge; targets beyond it count as the nearest
        bound. ``"private"`` learns it, for a tenth of the allowance, or more if rows are few.

    Attributes
    ----------
    encodings_ : list of ndarray
        The encoding of each category, by column.
    encodings_std_error_ : list of ndarray
        Standard errors of `encodings_`, relative to the means of the bounded targets of the rows of
        each category: due to noise, and to shrinkage. NaN for categories of few rows.
    categories_ : list of ndarray
        Categories of each column: as stated, or the selected ones in order, numbers before text. If
        missing cells are a category, it is NaN, at the end.
    target_mean_ : float
        The mean of the bounded target: what unknown categories are encoded as.
    target_mean_std_error_ : float
        Due to noise. NaN if bounds were learned of so few rows that noise hides the mean:
        `target_mean_` and all encodings are a point amid the targets then, and a warning says so.
    target_type_ : str
    classes_ : ndarray of shape (2,) or None
        The second one is that of which shares are encoded; None if the target is continuous.
    target_bounds_ : tuple of two floats
        Stated or learned; (0, 1) if the target is binary.

    Raises
    ------
    TypeError, ValueError
        In `fit`, before anything is charged: if a parameter is out of range, if categories are
        private and ``delta=0``, if a column holds dates, if X is not a table, or if a target is
        missing or infinite.

    See Also
    --------
    DPOneHotEncoder : One column for each category.

    Notes
    -----
    **Privacy.** A row and its target are protected together. *Released*, in one session at one
    charge: categories (half of the allowance) and bounds of the target, if they are not stated;
    mean and mean square of the target (a fifth of what is left); the number of rows of each
    category, and the sum of their targets, of all columns together. *Sensitivity* of counts and
    sums, for d columns, a target being in [-1, 1] relative to its range: d in L1 and sqrt(d) in L2
    if a row is added or removed; 2 d and, of counts, sqrt(2 d), of sums 2 sqrt(d) if one is
    replaced. *Mechanism*: Laplace or rounded Gaussian noise. Counts get more, the further the
    released mean is from the middle of the range. Categories that are not stated are selected:
    {selection}

    {alike}

    **Expected error.** The root mean square of what noise adds to the encodings of `like`, a pair
    (X, y), in the unit of y.

    {references}

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.preprocessing import DPTargetEncoder
    >>> rng = np.random.default_rng(0)
    >>> city = rng.choice(["Bern", "Oslo", "Rome"], size=(6000, 1))
    >>> y = np.where(city[:, 0] == "Oslo", 8.0, 3.0) + rng.normal(size=6000)
    >>> encoder = DPTargetEncoder(categories=[["Bern", "Oslo", "Rome"]], target_bounds=(0, 12))
    >>> bool(np.abs(encoder.fit(city, y).encodings_[0] - [3, 8, 3]).max() < 0.2)
    True
    >>> bool(encoder.transform([["Paris"]])[0, 0] == encoder.target_mean_)
    True
    """

    categories: Any = "private"
    target_type: str = "auto"
    smooth: Any = "auto"
    classes: Any = None
    target_bounds: Any = "private"

    _missing_is_category = True
    _tags = ("target_tags.required",)
    # What the other encoders let a user choose.
    dtype, handle_unknown, min_frequency, max_categories = np.float64, "value", None, None

    _parameter_table: ClassVar[Table] = {
        "target_type": ("auto", _CONTINUOUS, _BINARY),
        "smooth": ("auto", Reals(0, math.inf, "[)")),
    }

    def _is_free(self) -> bool:
        return False

    def _noise_of(self, allowance: Allowance, n_features: int | None) -> float:
        return math.nan if n_features is None else allowance.bins_std(n_features)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._stated_classes()
        self._stated_target()

    def _stated_classes(self) -> NDArray[Any] | None:
        """Return the stated labels of a binary target, or None; or raise."""
        if self.classes is None:
            return None
        classes = check_classes(self.classes)
        if len(classes) != 2 or self.target_type == _CONTINUOUS:
            raise ValueError(
                "classes must be the two labels of a binary target; of several classes, fit one "
                "DPTargetEncoder for each, to y == label"
            )
        return classes

    def _stated_target(self) -> tuple[float, float] | None:
        """Return the stated bounds of the target, or None; or raise."""
        with naming("target_bounds"):
            stated = check_bounds(self.target_bounds, 1)
            if stated is None:
                return None
            bounds = float(stated[0][0]), float(stated[1][0])
            _bins(*bounds)
        return bounds

    def _numbers(self, y: Any, n: int) -> tuple[Floats, tuple[float, float] | None]:
        """Return the targets as numbers and their stated bounds, and set what they are."""
        classes, name = self._stated_classes(), type(self).__name__
        dtype = str(getattr(y, "dtype", getattr(y, "type", ""))).lower()
        of_booleans = dtype.startswith("bool")
        binary = self.target_type == _BINARY or (of_booleans and self.target_type == "auto")
        if classes is None and binary:
            classes = np.array([False, True] if of_booleans else [0, 1])
        self.classes_ = classes
        self.target_type_ = _CONTINUOUS if classes is None else _BINARY
        targets, _ = check_labels(y, n, estimator=name, classes=classes)
        warn_of_column(y)
        if classes is None:
            return targets.reshape(-1, 1), self._stated_target()
        return (targets == 1).astype(np.float64).reshape(-1, 1), (0.0, 1.0)

    def fit(self, X: ArrayLike, y: ArrayLike, *, groups: Any = None) -> Self:  # type: ignore[override]
        """Charge the budget and fit.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Private rows: text, numbers, booleans, missing cells. Rows in parts (`skdp.engines`) are
            refused.
        y : array-like of shape (n_samples,)
            Private targets: finite numbers, or labels of two classes.
        """
        with self._all_or_nothing(groups):
            table, schema, categories, private = self._read(X)
            targets, bounds = self._numbers(y, int(table.shape[0]))
            check_size("categories", sum(map(len, categories.values())))
            rows = self._uncoded(table, schema, categories, private, targets)
            with self._session(rows) as session, np.errstate(all="ignore"):
                if private:
                    categories |= self._chosen(session, private)
                self._release(session, categories, bounds)
            self._set_categories(categories, schema)
            self._group(None)
        self._warn_of_none(private, schema)
        if self.target_type_ == _CONTINUOUS and math.isnan(self.target_mean_std_error_):
            # Decided by released numbers, so a warning may tell it.
            warn_caller(_POINT_ALONE.format(type(self).__name__))
        return self

    def _release(self, session: Session, categories: dict[int, list[Any]], bounds: Any) -> None:
        """Release bounds, moments, counts and sums, and set the encodings."""
        d = len(categories)
        amid: float | None = None
        if bounds is None:
            n = row_count(session, COUNT_SHARE)
            size = learning_size(session, n) * float(session.remaining)
            if size < FEW_ROWS:
                self._release_point(session, categories, n)
                return
            share = min(max(_BOUNDS[2] / size, _BOUNDS[0]), _BOUNDS[1])
            query = OfColumn(d, LearnedBounds(n, audit=False))
            share *= float(session.remaining)
            box = session.answer(query, share, name="bounds of the target")
            ends = finite_squares((box.low, box.high))
            bounds, amid = (float(ends[0][0]), float(ends[1][0])), float(box.middle[0])
        bins = _bins(*bounds)
        low, high = float(bins.edges[0]), float(bins.edges[-1])
        half, center = high / 2 - low / 2, low / 2 + high / 2
        columns, specs = specs_of(categories)
        session.code_rows(Domain([*specs, bins]))
        last = _CELLS - 1.0
        share = _MOMENTS * float(session.remaining)
        mean, square, _ = session.answer(target_moments(0.0, last), share)
        middle, mean_std = float(mean.value[0]), float(np.mean(mean.std))
        if amid is not None and mean_std > _HIDDEN:
            # Learned bounds of few rows may be far too wide; this point is amid the rows.
            middle, mean_std = min(max((amid - center) / half, -1.0), 1.0), math.nan
        cells = ColumnCells(tuple(np.arange(1.0, len(spec)) - 0.5 for spec in specs), 1)
        # The noise of a count weighs as much as the mean of its category is away from the middle.
        weight = max(abs(middle), _LEAST_COUNT)
        share = float(session.remaining) * weight / (1.0 + weight)
        counted = session.answer(row_counts(cells, "rows of categories"), share)
        summed = session.answer(target_sums(0.0, last, cells))
        places = self._cells(columns, categories)
        sums, counts = (
            [numbers[start + place] for start, place in zip(cells.starts, places, strict=False)]
            for numbers in (summed.value[0], counted.value)
        )
        released = TargetSums(
            middle,
            max(float(square.value[0]) - middle**2, float(np.mean(square.std))),
            mean_std,
            sums,
            counts,
            float(np.mean(summed.std)),
            float(np.mean(counted.std)),
        )
        encoded = [released.encoded(j, self.smooth) for j in range(d)]
        if math.isnan(mean_std):
            encoded = [(np.full(len(means), middle), errors) for means, errors in encoded]
        self.target_bounds_ = bounds
        self.target_mean_ = center + middle * half
        self.target_mean_std_error_ = released.mean_std * half
        self.encodings_ = [center + means * half for means, _ in encoded]
        self.encodings_std_error_ = [errors * half for _, errors in encoded]

    def _release_point(self, session: Session, categories: dict[int, list[Any]], n: float) -> None:
        """Release a point amid the targets, and encode all categories by it.

        Bounds of so few rows would miss most of the targets, or be far too wide.
        """
        query = OfColumn(len(categories), LearnedBounds(n, point=True))
        box = session.answer(query, POINT_SHARE, name="point amid the targets")
        low, high = finite_squares((box.low, box.high))
        self.target_bounds_ = float(low[0]), float(high[0])
        self.target_mean_, self.target_mean_std_error_ = float(box.middle[0]), math.nan
        sizes = [len(self._shown(categories[j])) for j in range(len(categories))]
        self.encodings_ = [np.full(size, self.target_mean_) for size in sizes]
        self.encodings_std_error_ = [np.full(size, math.nan) for size in sizes]

    def _cells(
        self, columns: list[dict[Any, Any]], categories: dict[int, list[Any]]
    ) -> list[Codes]:
        """Return the cell of each category, by column."""
        places = []
        for j, column in enumerate(columns):
            place = {value: i for i, value in enumerate(column)}
            keys = [cell_key(value) for value in self._shown(categories[j])]
            places.append(np.array([place[key[1]] for key in keys if key], dtype=np.int64))
        return places

    def _error_of_fit(self, n: int, n_features: int | None, like: Any) -> float:
        check_pair(self, like)
        name = f"{type(self).__name__}.expected_error(like=...)"
        table, _ = check_categorical(like[0], estimator=name)
        y = np.asarray(checked(like[1], "like"))
        if y.shape != (table.shape[0],):
            raise ValueError("like: y must have one entry for each row of X")
        exact = made_once(len(y), n)

        def once(fresh: Fresh, number: int) -> float:
            rows = np.sort(repeated(len(y), n, number))
            drawn = take(table, rows)

            def encoded(**options: Any) -> Floats:
                return fresh(number, **options).fit(drawn, y[rows]).transform(table)

            plain = exact(number, lambda: encoded(epsilon=NOISELESS))
            return float(np.sqrt(np.mean((encoded() - plain) ** 2)))

        return mean_error(self, once)

    def transform(self, X: ArrayLike) -> Floats:
        """Return the encodings of cells: `target_mean_` for unknown categories."""
        codes, _ = self._encoded(X)
        columns = [
            np.append(encodings, self.target_mean_)[column]  # -1 is the last
            for encodings, column in zip(self.encodings_, codes.T, strict=True)
        ]
        return np.stack(columns, axis=1)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns, which are those of X."""
        return np.array(input_names(self, input_features), dtype=object)
