"""Any scikit-learn estimator, trained on a private synthetic table: `DPTrainOnRelease`.

A fit releases noisy tables of every column with the target, and of pairs and triples of columns,
chosen one after the other by the exponential mechanism. Synthetic rows follow from these. Last, it
releases how often the fitted distribution is right, which calibrates probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field, replace
from fractions import Fraction
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, is_classifier, is_regressor
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.metrics import r2_score
from sklearn.utils import Tags, check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from skdp.base import check_integer
from skdp.base.calibration import Recalibration, SoftLabels, calibration_share
from skdp.base.classifiers import warn_of_column
from skdp.core import Session
from skdp.ensemble._blocks import Floats, check_model, seeded, with_tags_of
from skdp.exceptions import warn_at_end
from skdp.parameters import Integers, Table, naming
from skdp.planning import Allowance
from skdp.queries import LearnedBounds, OfColumn, TableScores
from skdp.synthetic._base import (
    check_domain,
    check_learnable,
    plans_of,
    unstated,
)
from skdp.synthetic._marginals import (
    MAX_WORK,
    Rounds,
    TablesMixin,
    candidate_sets,
)
from skdp.tabular import (
    CATEGORIES,
    KEYS,
    NUMBER,
    OTHER,
    Bins,
    ColumnPlan,
    Domain,
    Schema,
    check_coded,
    check_coded_target,
    check_uncoded,
    column_plans,
    decoded,
    stand_in,
    table_schema,
    take,
    target_column,
    without_column,
)
from skdp.user_code import or_raise, suppress_warnings

_PROBE_ROWS = 200
_CALIBRATION_ROWS = (2000, 20_000)  # synthetic rows, at least and at most
_LEAST_CHANCE = 1e-6
_ENOUGH_ROWS = 20
_CONSTANT = (
    "{}: estimator could not be fitted on the synthetic rows, and is a constant ({}). See domain_; "
    "any other estimator can be fitted on released_xy(), at no further cost"
)

# Rows over the noise of a cell of three tables a column, below which a model of numbers is worse
# than one number; and the share of the table that gives this number.
_FEW, _POINT_SHARE = 120.0, Fraction(3, 4)
_POINT_ALONE = (
    "{}: rows times epsilon are so few that about the median of the target is all that is "
    "predicted. Take about {} times as many rows or as large an epsilon, or fewer columns"
)
_UNREADABLE = (
    "{}.{}: the fitted estimator does not take these rows. Expected 2D array (reshape your data) "
    "of the columns that it was fitted on, with numbers or text as in the domain, without NaN or "
    "infinity unless the estimator takes them; y and sample_weight with one entry for each row"
)


def _logs(chances: Floats) -> Floats:
    """Return logarithms of an estimator's probabilities, which may be 0."""
    logs: Floats = np.log(np.clip(chances, _LEAST_CHANCE, 1.0))
    return logs


def _has_model_method(name: str) -> Any:
    """Return a check that the model behind `predict` has a method."""

    def has(self: DPTrainOnRelease) -> bool:
        getattr(getattr(self, "estimator_", self.estimator), name)  # its own error says more
        return True

    return has


class DPTrainOnRelease(TablesMixin, BaseEstimator):
    """Train any classifier or regressor on a private synthetic table made for its target.

    First it measures the table of every column together with the target, with as much of the
    allowance as that needs. With the rest it measures pairs and triples of columns, one after the
    other, preferring those that the distribution fitted so far describes worst, and last one table
    of the target with three others, if they tell more of it than all pairs do. Then `estimator` is
    trained on synthetic rows drawn from the fitted distribution. Only this one release is charged:
    other models, searches and refits on `released_xy` are free.

    Parameters
    ----------
    estimator : classifier or regressor
        Any scikit-learn estimator, also a pipeline or a search, fitted on synthetic rows in the
        form of X. If it cannot read text, it needs a step that encodes text.
    target : name or int, default=None
        The column of `domain` to predict; None: the last column.
    domain : Domain, mapping or sequence of columns, Bins, int or None, default=None
        The values that each column may have, including the target, from public knowledge. A mapping
        (by name, in any order) or a sequence of columns, as `Domain` takes them. A single `Bins` or
        int k (the whole numbers below k) holds for every column. A target with `Bins` is a number:
        the middle of its bin. The values of columns that a mapping leaves out (of all columns with
        None) are public if their type lists them (booleans, polars' Enum), else learned: see Notes.
    categories : {"private", "dtype"}, default="private"
        ``"dtype"`` declares that the lists of values in pandas' `category` columns and Arrow's
        dictionaries are public. Unless you stated them, they come from the private rows.
    max_cells : int, default=65536
        In [8, 2**22]. How many cells the tables of the fitted distribution may have, apart from
        those of single columns. More cells can describe more, and take more time.

    Attributes
    ----------
    estimator_ : estimator
        `estimator`, fitted on `released_xy`; a constant predictor if it cannot be fitted, for
        example because all synthetic rows have the same label, or for numbers of few rows.
    classes_ : ndarray of shape (n_classes,)
        Only for classifiers: the labels of the synthetic rows, sorted.
    target_ : int
        Position of the target in `domain_`.
    n_samples_ : int
        Number of synthetic rows: that of X, released where it is private; at most 2**20.
    measured_ : list of tuple
        The sets of columns whose tables were released: by name, or by position in `domain_` if
        columns have no names.
    answer_errors_ : dict
        As in `skdp.synthetic.DPMarginalSynthesizer`.
    domain_ : Domain
    domain_source_ : dict
        For each column, where its values come from: "stated", "type", "learned numbers" or
        "selected categories".
    learned_ranges_ : dict
        As in `skdp.synthetic.DPMarginalSynthesizer`.
    n_features_in_, feature_names_in_ : int, ndarray of shape (n_features_in_,)
        Number of columns without the target; their names, if X has names that are strings.
    max_rows_per_unit_ : int
    privacy_ : skdp.core.PrivacyCertificate

    Raises
    ------
    TypeError, ValueError
        In `fit`, before anything is charged: if a parameter is out of range, if the estimator
        cannot be fitted on made-up rows of the domain, or if X does not have the columns of the
        domain.

    See Also
    --------
    skdp.synthetic.DPMarginalSynthesizer : A synthetic table for any purpose.
    skdp.linear_model.DPLogisticRegression : One model, without a domain.

    Notes
    -----
    **Privacy.** A row and its target are protected together. *Released*: the number of rows, where
    it is private (2% of the allowance); the table of every column with the target, with as large a
    share (from 10% of the allowance to all of it) as brings its noise to 1.4% of the rows; then, in
    each round, the choice of a table to measure, and that table; last, for 4% of the allowance, the
    choice of a table of the target and three other columns, or of none, and that table; for a
    classifier also counts for its probabilities (below). *Sensitivity* of a table: 1 in L1 and in
    L2 if a row is added or removed; 2 in L1 and sqrt(2) in L2 if one is replaced. *Sensitivity* of
    a candidate's score: 1 if a row is added or removed, 2 if one is replaced. *Mechanism*: discrete
    Laplace or rounded Gaussian noise, whichever is less; the exponential mechanism for choices.

    **Few rows.** A model of numbers is worse than one number where rows are below 120 times the
    noise of a cell of three tables a column (about n * epsilon = 1,000 times the columns at delta
    = 0). Then 3/4 of the allowance releases a point amid the targets, or the table of a target with
    stated bins. All predictions are this point, about the median, and a warning says so.

    **Probabilities.** `predict_proba` of a classifier is calibrated. For the last 2 to 10% of the
    allowance the fit releases how many rows the fitted distribution classifies rightly and wrongly,
    in bins between quantiles of *synthetic* leads (sensitivity 1; 2 in L1 for replaced rows).
    Synthetic rows get probabilities from these counts, and intercept and slope of the estimator's
    logits (several classes: one slope) are fitted to them. The order of rows stays. `predict`,
    `decision_function` and `score` are the estimator's own. Nothing is released for an estimator
    without `predict_proba`.

    **Scores on synthetic rows**, such as ``cv_results_`` of a search, are good for choosing between
    models, but may be higher or lower than scores on private rows. `score` is exact: on private
    rows it is as private as the rows are. Use `skdp.model_selection.private_scorer`, or public
    rows.

    **Domains that are not stated** are learned as `skdp.synthetic.DPMarginalSynthesizer` does it,
    at the same price and with the same risk; half of what learning takes is for a target that is a
    number. The labels of a classifier's target are selected like
    other categories; synthetic rows with a label that was not found are left out, unless no label
    was found.

    Two errors depend on the values in the rows, and reveal that there is such a cell: for a missing
    target in `y`, and for a value outside a domain with ``outside="refuse"``.

    References
    ----------
    McKenna, Mullins, Sheldon & Miklau 2022, "AIM: an adaptive and iterative mechanism for
    differentially private synthetic data", Section 4.

    ``skdp/queries/workloads.md`` (sensitivities of tables and of choices).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> from skdp import Bins, DPTrainOnRelease
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20_000, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "late", "on time")
    >>> cells = Bins.regular(-1, 1, 8)
    >>> model = DPTrainOnRelease(
    ...     HistGradientBoostingClassifier(max_iter=20),
    ...     domain=[cells, cells, ["late", "on time"]],
    ...     epsilon=1.0,
    ...     delta=1e-6,
    ... ).fit(X, y)
    >>> model.predict([[0.7, 0.7], [-0.7, 0.7]])
    array(['late', 'on time'], dtype='<U7')
    >>> X_synthetic, y_synthetic = model.released_xy()
    >>> X_synthetic.shape, y_synthetic.shape
    ((20000, 2), (20000,))
    """

    estimator: Any = field(kw_only=False)
    target: Any = None
    domain: Any = None
    categories: str = "private"
    max_cells: int = 2**16

    target_: int = field(init=False)
    _point: float | None = field(init=False)  # all that is predicted, where rows are few
    _times_short: float = field(init=False)  # how many times as many rows a model needs

    _n_progress_tasks = 1

    _parameter_table: ClassVar[Table] = {
        "estimator": check_model,
        "categories": CATEGORIES,
        "max_cells": Integers(8, MAX_WORK),
    }

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags: a classifier or a regressor as the estimator is."""
        tags = with_tags_of(self.estimator, super().__sklearn_tags__())
        tags.input_tags.string = tags.input_tags.categorical = tags.input_tags.allow_nan = True
        if tags.classifier_tags is not None:
            tags.classifier_tags.multi_label = False
        return tags

    # --- fitting ------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Charge the budget, release tables, and train the estimator on synthetic rows.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Private rows; without `y`, with the target among their columns. Rows in parts
            (`skdp.engines`) are refused.
        y : array-like of shape (n_samples,), default=None
            Private targets, if they are not a column of X.
        """
        with self._all_or_nothing(groups):
            rows = self._open_release(X, y)
            domain, max_cells = self.domain_, int(self.max_cells)
            every = range(domain.n_columns)
            sets = [s for s in combinations(every, min(3, len(every))) if self.target_ in s]
            candidate_sets(sets, domain.sizes, max_cells)  # refuses too many cells
            self._rehearse(type(self).__name__)
            with self._session(rows) as session:
                rounds = self._rounds(session, sets, max_cells, self.target_)
                if self._times_short > 1.0 and self._point is None:
                    rounds.measure((self.target_,), _POINT_SHARE * session.remaining)
                    self._point = self._median(*rounds.measured[self.target_,])
                n_classes = self._n_classes
                if n_classes > 1:
                    rounds.spent += calibration_share(session, rounds.total, n_classes)
                self._set_fitted(rounds)
                rng = session.post_processing_rng()
                self._seed = int(rng.integers(0, 2**31 - 1))
                soft = None if n_classes < 2 else self._soft_labels(session, rounds)
            self.estimator_ = self._trained() if self._point is None else self._constant()
            self._recalibration = None if soft is None else self._recalibrated(soft)
            if is_classifier(self.estimator):
                self.classes_ = np.asarray(self.estimator_.classes_)
        return self

    def _open_release(self, X: Any, y: Any) -> Any:
        """Check parameters and rows, code them; record schema and domain. Charges nothing."""
        self._check_parameters()
        name = type(self).__name__
        X, schema = table_schema(X, estimator=name)
        column = None
        if y is not None and unstated(self.domain, schema, schema.n_columns + 1) is not None:
            column = target_column(y, int(X.shape[0]), name)
        self._plans = self._plans_of(X, schema, column)
        if self._plans is None:
            self.domain_ = domain = self._stated_domain(schema, y is None)
        else:
            check_learnable(self, self._plans)
            self.domain_ = domain = stand_in(self._plans, named=schema.names is not None)
            self.target_ = self._position(domain)
        if domain.n_columns < 2:
            raise ValueError("domain must have the target and at least one other column")
        if is_classifier(self.estimator):
            classes = domain.column(self.target_)
            if isinstance(classes, Bins):
                raise ValueError(
                    "domain: the target of a classifier must have a list of classes, not Bins"
                )
            if not self._selects_classes:
                check_classification_targets(np.asarray(classes))
        if y is None and self._plans is None and schema.n_columns == domain.n_columns - 1:
            raise ValueError(
                f"{name} requires y to be passed, but the target y is None: X has as many "
                "columns as the domain without the target"
            )
        warn_of_column(y)
        rows = self._coded(X, y, column)
        if y is None:
            X, schema = without_column(X, schema, self.target_)
        self._schema = schema
        validate_data(self, X, skip_check_array=True)
        # A domain that cannot be decoded into the form of X is refused here.
        self._decoded(np.zeros((0, domain.n_columns), dtype=np.int64), None)
        return rows

    def _coded(self, X: Any, y: Any, column: NDArray | None) -> Any:
        """Return the rows as codes of the domain; not coded if the domain has to be learned."""
        domain, empty = self.domain_, self._allow_empty
        if self._plans is not None and any(plan.learned for plan in self._plans):
            named = domain.names is not None
            target = None if column is None else (column, self.target_)
            return check_uncoded(X, self._plans, named=named, allow_empty=empty, target=target)
        if y is None:
            return check_coded(X, domain, **self._entrance, one_place=self._one_place())
        return check_coded_target(X, y, domain, self.target_, **self._entrance)

    def _stated_domain(self, schema: Schema, in_X: bool) -> Domain:
        """Return the stated domain in the order of the columns of X; set the target's position."""
        domain = check_domain(self.domain, schema.n_columns + (not in_X))
        self.target_ = at = self._position(domain)
        if domain.names is None or schema.names is None:
            return domain
        target = domain.names[at]
        names = list(schema.names) if in_X else [n for n in schema.names if n != target]
        if names != [name for name in domain.names if in_X or name != target]:
            domain = domain.ordered(names if in_X else [*names, target])
            self.target_ = domain.position(target)
        return domain

    def _plans_of(self, X: Any, schema: Schema, column: NDArray | None) -> list[ColumnPlan] | None:
        """Return the source of the values of each column and the target; None if all are stated."""
        stated = unstated(self.domain, schema, schema.n_columns + (column is not None))
        if stated is None:
            return None
        names, classes = schema.names, is_classifier(self.estimator)
        if column is None:
            labels = range(schema.n_columns) if names is None else names
            target = labels[-1] if self.target is None else self.target
            if target not in labels and isinstance(target, int) and target < len(labels):
                target = labels[target]
            return plans_of(self, stated, X, schema, labels=[target] if classes else [])
        # The target is the last of all columns.
        label = schema.n_columns if names is None else "target"
        if isinstance(self.target, str):
            label = self.target
        elif names is None and self.target not in (None, label):
            raise ValueError(f"target must be None or {label}, the column after those of X")
        columns = {key: spec for key, spec in stated.items() if key != label}
        of_target = {0: stated[label]} if label in stated else {}
        plans = plans_of(self, columns, X, schema)
        y_schema = Schema(1, None, "numpy", (column.dtype,))
        (plan,) = column_plans(of_target, column, y_schema, labels=[0] if classes else [])
        # A missing target is refused where it is a number.
        return [*plans, replace(plan, label=label, missing=plan.missing and classes)]

    @property
    def _selects_classes(self) -> bool:
        """Whether the labels of the target are selected; then the last code is none of them."""
        plans = getattr(self, "_plans", None)
        return plans is not None and plans[self.target_].source == KEYS

    def _position(self, domain: Domain) -> int:
        """Return the position of the target, or raise naming it."""
        if self.target is None:
            return domain.n_columns - 1
        try:
            with naming("target"):
                return domain.position(self.target)
        except ValueError as error:
            raise ValueError(f"target: {error}") from None

    def _rehearse(self, name: str) -> None:
        """Refuse an estimator that cannot be fitted on made-up rows of the domain."""
        domain = self.domain_
        rng = check_random_state(0)
        draws = (rng.randint(size, size=_PROBE_ROWS) for size in domain.sizes)
        codes = np.column_stack(list(draws)).astype(np.int64)
        classes = max(domain.sizes[self.target_] - self._selects_classes, 1)
        codes[:, self.target_] = np.arange(_PROBE_ROWS) % classes
        X, y = self._decoded(codes, rng)
        text = (  # without the text of the error, which may list categories
            f"{name}: estimator cannot be fitted on made-up rows of the domain. Columns of text "
            "need a step that encodes them, such as OneHotEncoder(handle_unknown='ignore'). "
            "Nothing was charged for this fit."
        )
        with suppress_warnings():
            or_raise(
                lambda: seeded(self.estimator, 0).fit(X, y).predict(X), lambda: ValueError(text)
            )

    def _trained(self) -> Any:
        """Return the estimator fitted on the release, or a constant predictor."""
        X, y = self.released_xy()
        if is_regressor(self.estimator) and y.dtype.kind == "f" and np.isfinite(y).any():
            X, y = take(X, np.flatnonzero(np.isfinite(y))), y[np.isfinite(y)]
        with suppress_warnings():
            try:
                return seeded(self.estimator, self._seed).fit(X, y)
            except Exception as error:  # noqa: BLE001  synthetic rows may have one label only
                problem = f"{type(error).__name__}: {error}"
                constant = DummyClassifier() if is_classifier(self.estimator) else DummyRegressor()
                if self._selects_classes and None in y.tolist():  # which no label is beside text
                    y = np.array([OTHER if label is None else label for label in y.tolist()])
                constant.fit(X, y)
        if self._plans is not None:  # it may not take the learned values
            warn_at_end(_CONSTANT.format(type(self).__name__, problem))
        return constant

    def _foremost(self) -> int | None:
        return self.target_ if is_regressor(self.estimator) else None

    def _learn(
        self, session: Session, plans: Sequence[ColumnPlan] | None, stated: Domain, n: float
    ) -> Domain:
        """Return the domain; of few rows, release one point amid targets that are not stated."""
        bins, t = stated.column(self.target_), self.target_
        self._times_short, self._point = 0.0, None
        if is_regressor(self.estimator) and isinstance(bins, Bins) and bins.kind == NUMBER:
            noise = Allowance.left(session).bins_std(3 * stated.n_columns)
            self._times_short = _FEW * noise / max(n, 1.0)
        if self._times_short > 1.0 and plans is not None and plans[t].learned:
            query = OfColumn(t, LearnedBounds(n, point=True))
            box = session.answer(query, _POINT_SHARE, name="point amid the targets")
            self._point = float(box.middle[0])
        return super()._learn(session, plans, stated, n)

    def _median(self, counts: Floats, std: float) -> float:
        """Return about the median of the target, from noisy counts of its bins."""
        sums = np.cumsum(np.where(counts > std, counts, 0.0))
        code = int(np.searchsorted(sums, sums[-1] / 2))
        return float(self.domain_.values(self.target_, np.array([code]))[0])

    def _constant(self) -> Any:
        """Return a model of one number, and warn."""
        X, y = self.released_xy()
        times = f"{float(f'{math.ceil(self._times_short):.1e}'):,.0f}"
        warn_at_end(_POINT_ALONE.format(type(self).__name__, times))
        return DummyRegressor(strategy="constant", constant=self._point).fit(X, np.zeros(len(y)))

    # --- probabilities --------------------------------------------------------------------------

    @property
    def _n_classes(self) -> int:
        """How many classes have calibrated probabilities: 0 without any."""
        if not (is_classifier(self.estimator) and hasattr(self.estimator, "predict_proba")):
            return 0
        return self.domain_.sizes[self.target_] - self._selects_classes

    def _public_codes(self) -> tuple[NDArray, Any]:
        """Return codes of synthetic rows for the calibration, and what draws points of bins.

        They are not the rows that the estimator is trained on, of which it is too sure.
        """
        rng = check_random_state(self._seed ^ 1)
        n = min(max(self.n_samples_, _CALIBRATION_ROWS[0]), _CALIBRATION_ROWS[1])
        return self._model.sample(n, rng), rng

    def _soft_labels(self, session: Session, rounds: Rounds) -> SoftLabels:
        """Release how often the fitted distribution is right, with all that is left."""
        model, t, sizes, k = self._model, self.target_, self.domain_.sizes, self._n_classes
        with_target = [v for v, bag in enumerate(model.tree.bags) if t in bag]
        logs = tuple(np.log(np.maximum(model.conditionals[v], 1e-300)) for v in with_target)
        bags = tuple(model.tree.bags[v] for v in with_target)
        scores = TableScores(tuple(sizes), t, k, bags, logs)
        codes, _ = self._public_codes()
        shares = model.marginal((t,))[:k]
        # Each table with the target has counts of the classes: sums of cells.
        precision = sum(
            sizes[t] / (std**2 * table.size)
            for columns, (table, std) in rounds.measured.items()
            if t in columns
        )
        spread = 1 / math.sqrt(precision) if precision else rounds.total
        return SoftLabels.released(
            session, scores, codes, shares / shares.sum(), rounds.total, spread
        )

    def _recalibrated(self, soft: SoftLabels) -> Recalibration | None:
        """Return what calibrates the estimator; None if it has no probabilities of two classes."""
        codes, rng = self._public_codes()
        X, _ = self._decoded(codes, rng)
        labels = self.domain_.values(self.target_, np.arange(self._n_classes)).tolist()
        try:
            found = [labels.index(label) for label in self.estimator_.classes_.tolist()]
            with suppress_warnings():
                chances = np.asarray(self.estimator_.predict_proba(X), dtype=np.float64)
        except Exception:  # noqa: BLE001  synthetic rows: any failure is the estimator's
            return None
        if len(found) < 2 or not np.isfinite(chances).all():
            return None
        return soft.of(found).of_estimator(_logs(chances))

    # --- synthetic rows -------------------------------------------------------------------------

    def released_xy(self, n_samples: int | None = None, random_state: Any = None) -> Any:
        """Return synthetic rows and targets, for any model and any search, at no further cost.

        Parameters
        ----------
        n_samples : int, default=None
            None: `n_samples_`, and two rows of each class that none of them has (not where a public
            number of rows is below 20).
        random_state : int, RandomState or None, default=None
            None: the rows that `estimator_` was trained on. Otherwise new rows are drawn.

        Returns
        -------
        X : ndarray or table of shape (n_samples, n_features)
            In the form of the fitted rows. With `Bins`, a random point of the bin.
        y : ndarray of shape (n_samples,)
            With `Bins`, the middle of the bin.
        """
        check_is_fitted(self, "_model")
        n = self.n_samples_
        if n_samples is not None:
            n = check_integer(n_samples, "n_samples", low=1)
        rng = check_random_state(self._seed if random_state is None else random_state)
        codes, t = self._model.sample(max(n, 1), rng), self.target_
        if self._selects_classes:
            known = codes[:, t] < self.domain_.sizes[t] - 1
            codes = codes[known] if known.any() else codes
        known_few = n < _ENOUGH_ROWS and not self._allow_empty  # two more would be many
        if n_samples is None and is_classifier(self.estimator) and not known_few:
            # A model that does not know a class is sure that it has no rows. Of one row some models
            # take no class.
            classes = np.arange(self.domain_.sizes[t] - self._selects_classes)
            absent = np.repeat(np.setdiff1d(classes, codes[:, t]), 2)
            more = self._model.sample(absent.size, rng) if absent.size else codes[:0]
            more[:, t] = absent
            codes = np.concatenate([codes, more])
        return self._decoded(codes, rng)

    def _decoded(self, codes: NDArray, rng: Any) -> tuple[Any, NDArray]:
        """Return released codes as a table like X, and targets."""
        domain, t = self.domain_, self.target_
        others = [j for j in range(domain.n_columns) if j != t]
        part, form = domain.of(others), self._schema
        names = form.names or part.names
        options: Any = {"names": names, "container": form.container, "types": form.types}
        X = decoded(part, codes[:, others], rng=rng, **options)
        y = domain.values(t, codes[:, t])
        if self._selects_classes and y.dtype == object:
            y = np.array(y.tolist(), dtype=object if None in y.tolist() else None)
        return X, y

    # --- predicting -----------------------------------------------------------------------------

    def _features(self, X: Any) -> Any:
        """Return the caller's own rows, without the target where it is among their columns."""
        check_is_fitted(self)
        X, schema = table_schema(X, estimator=type(self).__name__)
        names, target = self.domain_.names, self.target_
        if names is not None and schema.names is not None and names[target] in schema.names:
            X, _ = without_column(X, schema, schema.names.index(names[target]))
        validate_data(self, X, reset=False, skip_check_array=True)
        if X.shape[0] == 0:
            raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
        return X

    def _called(self, X: Any, method: str, *more: Any, **options: Any) -> Any:
        """Call the fitted estimator; its own errors, which may quote cells, are replaced."""
        rows = self._features(X)
        return or_raise(
            lambda: getattr(self.estimator_, method)(rows, *more, **options),
            lambda: ValueError(_UNREADABLE.format(type(self).__name__, method)),
        )

    def predict(self, X: Any) -> NDArray:
        """Return labels or numbers for any rows, at no further cost.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            A column with the name of the target is left out.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Numbers within the bins of the target.
        """
        return self._within_bins(np.asarray(self._called(X, "predict")))

    def _within_bins(self, y: NDArray) -> NDArray:
        """Return predicted numbers, clipped to the ends of the target's bins.

        No training row is beyond them, but a linear model extrapolates.
        """
        column = self.domain_.column(self.target_)
        if self._point is not None:  # which learned bins of few rows may miss
            return y
        if is_classifier(self.estimator) or not isinstance(column, Bins) or y.dtype.kind != "f":
            return y
        return np.clip(y, column.edges[0], column.edges[-1])

    @available_if(_has_model_method("predict_proba"))
    def predict_proba(self, X: Any) -> Floats:
        """Return calibrated probabilities of the classes."""
        chances = np.asarray(self._called(X, "predict_proba"))
        calibration = self._recalibration
        return chances if calibration is None else calibration.of_logs(_logs(chances))

    @available_if(_has_model_method("decision_function"))
    def decision_function(self, X: Any) -> Floats:
        """Return the decision function of the estimator."""
        return np.asarray(self._called(X, "decision_function"))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the score of the fitted estimator on the caller's rows.

        Returns
        -------
        score : float
            Of a regressor without a scorer of its own: R2 of `predict`. Exact, so as private as the
            rows are. On `released_xy` it is a score on synthetic rows.
        """
        if is_regressor(self.estimator) and not hasattr(self.estimator_, "scorer_"):
            y_pred = self.predict(X)
            return or_raise(
                lambda: float(r2_score(y, y_pred, sample_weight=sample_weight)),
                lambda: ValueError(_UNREADABLE.format(type(self).__name__, "score")),
            )
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        return float(self._called(X, "score", y, **weights))
