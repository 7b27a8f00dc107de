"""Any scikit-learn estimator made private by sample and aggregate: `DPSubsampleAggregate`.

A fit releases an aggregate over models fitted on disjoint blocks of the private rows: of their
votes or predictions at public rows, or of their parameters. A row is in one block, so it changes
one of many models, whatever the estimator does with it.
"""

from __future__ import annotations

import math
from dataclasses import field
from functools import partial
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, is_classifier
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from skdp.base import PrivateMixin, check_bounds
from skdp.base.callers import listener
from skdp.base.classifiers import ExactScoreMixin, warn_of_column
from skdp.base.expected_error import ExpectedErrorMixin
from skdp.core import Ball, Box, Mean, Session, UserFunction
from skdp.ensemble._blocks import (
    AUTO,
    COUNT_SHARE,
    MOST_TOGETHER,
    SCORES,
    SMOOTH,
    Floats,
    Noise,
    Parameters,
    Plan,
    Prediction,
    Scores,
    Vote,
    check_model,
    check_noise,
    directions,
    parameters_of,
    planned,
    probe,
    radius,
    restored,
    seeded,
    stated,
    with_tags_of,
)
from skdp.parameters import Integers, Table, check_classes, check_parameter, naming
from skdp.planning import Allowance, row_count
from skdp.queries import BlockVotes, CellQuantile, OfBlocks, OnBlocks, SmoothMedian
from skdp.tabular import as_table, check_labelled, check_public_array
from skdp.user_code import suppress_warnings


def _has_model_method(name: str) -> Any:
    """Return a check that the model behind `predict` has a method."""

    def has(self: DPSubsampleAggregate) -> bool:
        wanted = self.estimator if self.student is None else self.student
        getattr(wanted, name)  # its own AttributeError says more than ours
        if name == "decision_function" and self.output != "parameters":
            raise AttributeError("decision_function needs output='parameters'")
        return True

    return has


_MEDIAN_CELLS = 1024
AGGREGATES: dict[str, tuple[str, Any]] = {
    "mean": ("mean of blocks", Mean),
    "median": ("median of blocks", partial(CellQuantile, q=0.5, n_cells=_MEDIAN_CELLS)),
    SMOOTH: ("smooth median of blocks", SmoothMedian),
}


class DPSubsampleAggregate(ExactScoreMixin, ExpectedErrorMixin, PrivateMixin, BaseEstimator):
    """Make any classifier or regressor private by fitting it on disjoint blocks of the rows.

    Clones of `estimator` are fitted on disjoint blocks. With ``output="predictions"`` they predict
    public rows, and votes, mean scores, means or medians of their predictions are released with
    noise. A `student` is fitted on the public rows with these answers; `predict` uses the student.
    With ``output="parameters"`` the ``coef_`` and ``intercept_`` of linear models are aggregated,
    and no public rows are needed.

    Parameters
    ----------
    estimator : classifier or regressor
        Any scikit-learn estimator. It must not pass anything from one fit to another (in files or
        global variables). It gets float64 values: in a table if X is a pandas or polars table.
    public : array-like or table of shape (n_public, n_features), default=None
        Public rows without labels, as similar to the private ones as possible. Needed for
        ``output="predictions"``. Columns in the order of X, with the same names if both have names.
    student : classifier or regressor, default=None
        Fitted on public rows with private answers; None takes a clone of `estimator`.
    output : {"predictions", "parameters"}, default="predictions"
        What is aggregated over the models of the blocks.
    aggregate : {"auto", "vote", "scores", "mean", "median", "smooth_median"}, default="auto"
        For predictions of classifiers: ``"vote"``, whose noise grows with the number of queries, or
        ``"scores"``, the mean of the blocks' probabilities (0 or 1 if `estimator` has none) along a
        few directions in which the public rows differ most. Its noise does not grow with the number
        of queries, so it suits few private rows; differences outside these directions are lost.
        ``"auto"`` takes votes if 100 queries (or `n_queries`, or all) have noise of at most half a
        unanimous vote. For other outputs: ``"mean"`` (also ``"auto"``); ``"median"`` of each
        number, which a few outlying blocks do not change, but whose noise grows faster with the
        number of numbers; or ``"smooth_median"``, whose noise is small only if nearly all blocks
        agree closely and there are few numbers.
    n_blocks : int or "auto", default="auto"
        More blocks mean less noise and worse models. ``"auto"`` brings the noise (see
        `expected_error`) to a quarter of a unanimous vote, a tenth of unanimous scores, or 5% of
        half the width of `bounds`. It keeps at least 20 rows in each block (10 for scores), but
        takes at least 10 blocks.
    n_queries : int or "auto", default="auto"
        Number of public rows, chosen at random, that the blocks predict. The noise of votes grows
        with it (with its square root if delta > 0). ``"auto"`` takes as many as blocks of 50 rows
        can answer at the above noise, from 10 to 1000; for scores all rows, at most 1000.
    classes : array-like, default=None
        For classifiers: all labels, from public knowledge. Rows with other labels are left out.
    bounds : tuple (low, high), default=None
        For means and medians: range of the aggregated numbers, from public knowledge. Values
        outside are clipped, and with ``output="predictions"`` so are the targets. For parameters:
        two numbers, or two arrays with an entry for each ``coef_`` (row by row) and ``intercept_``.
    n_jobs : int, default=None
        Number of blocks fitted at the same time, by joblib. It does not change the charge.

    Attributes
    ----------
    student_ : estimator
        Used by `predict`: the student, or the linear model with the released parameters. A constant
        predictor if the student cannot be fitted (if all answers are equal, say).
    n_blocks_ : int
        Number of blocks.
    queries_ : ndarray of shape (n_queries,)
        Positions of the rows of `public` that were predicted; not with ``output="parameters"``.
    answers_ : ndarray of shape (n_queries,)
        The released answers for them: labels or numbers.
    votes_ : ndarray of shape (n_queries, n_classes) or None
        Noisy counts, up to a constant for each query. None if only the winners (more than two
        classes and delta = 0) or scores were released.
    scores_ : ndarray of shape (n_queries, n_classes)
        Only with scores: the noisy mean scores, in [0, 1].
    coef_, intercept_ : ndarray
        With ``output="parameters"``: the released parameters, in the shapes of `estimator`.
    classes_ : ndarray of shape (n_classes,)
        For classifiers: `classes`, sorted.

    Raises
    ------
    TypeError, ValueError
        In `fit`, before anything is charged: if a parameter is out of range, if the estimator has
        no predict or cannot be fitted on made-up targets, or if X or y are not finite numbers or
        differ in length.

    Notes
    -----
    **Privacy.** *Released*: votes, for each query (with two classes, the difference of their votes;
    with more, all counts if delta > 0, else the winner); or the mean of scores in a few directions;
    or the mean or median of predictions or parameters. Under ``"add_or_remove_one"`` with
    ``n_blocks="auto"`` or ``n_queries="auto"`` also the number of rows, for 5% of the allowance.
    *Sensitivity*: a row is in one block and may change its model in any way, under both relations.
    So one vote of each query may change (L2: 2 sqrt(n_queries) for differences, sqrt(2 n_queries)
    for counts, 1 for one count), or one of n_blocks vectors may change within its bounds (the
    diagonal of the bounds for a sum, twice the radius of their ball for scores, 1 for a rank,
    smooth sensitivity for a smooth median). *Mechanism*: rounded Gaussian noise if delta > 0, else
    K-norm noise; the exponential mechanism for winners and medians; Cauchy noise, which is pure,
    for smooth medians. Rows are assigned to blocks at random: under ``"replace_one"`` by their
    positions, otherwise by an independent draw for each row. The student sees public rows and
    released answers only.

    No error depends on the values in the rows. A block with a single class votes for it. A block
    without rows, or whose fit fails, abstains, or counts as the middle of `bounds`. Warnings and
    output of fits are dropped. The guarantee does not cover files and global variables that fits
    write. `score` is exact: on private rows it is as private as the rows are.

    With scikit-learn 1.9 or later ``set_callbacks(ProgressBar())`` shows how many blocks are done.
    Callbacks get the estimator and numbers of tasks, never rows, labels or models of blocks. Those
    of `estimator` are not called. If a callback raises, the fit ends, and stays charged.

    **Expected error.** The standard deviation of the noise of an answer, divided by the answer of
    unanimous blocks, without any rows. For votes: of the margin between two classes, over the
    number of blocks. For scores: of the difference of two classes' mean scores, the root mean
    square over public rows. For a mean: over half the width of its bounds. Not available for
    medians and winners of votes (more than two classes, delta = 0), whose noise depends on how far
    the blocks agree. It does not include the error of models that are fitted on one block only.

    References
    ----------
    Nissim, Raskhodnikova & Smith 2007, "Smooth sensitivity and sampling in private data analysis",
    section 2 (smooth sensitivity) and section 4 (sample and aggregate).

    Papernot, Abadi, Erlingsson, Goodfellow & Talwar 2017, "Semi-supervised knowledge transfer for
    deep learning from private training data", section 2 (votes, and the student).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from skdp.ensemble import DPSubsampleAggregate
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20_000, 2))
    >>> y = np.where(X[:, 0] > 0, "late", "on time")
    >>> model = DPSubsampleAggregate(
    ...     DecisionTreeClassifier(max_depth=3),
    ...     public=rng.uniform(-1, 1, (200, 2)),
    ...     classes=["late", "on time"],
    ...     epsilon=1.0,
    ...     delta=1e-6,
    ... ).fit(X, y)
    >>> model.predict([[0.7, 0.0], [-0.7, 0.0]])
    array(['late', 'on time'], dtype='<U7')
    >>> round(model.expected_error(20_000), 2)
    0.25
    """

    estimator: Any = field(kw_only=False)
    public: Any = None
    student: Any = None
    output: str = "predictions"
    aggregate: str = "auto"
    n_blocks: Any = "auto"
    n_queries: Any = "auto"
    classes: Any = None
    bounds: Any = None
    n_jobs: int | None = None

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags: a classifier or a regressor as the estimator is."""
        return with_tags_of(self.estimator, super().__sklearn_tags__())

    _progress_task, _n_progress_tasks = "block", 1

    _parameter_table: ClassVar[Table] = {
        "estimator": check_model,
        "output": ("predictions", "parameters"),
        "n_blocks": (AUTO, Integers(1, 2**22)),
        "n_queries": (AUTO, Integers(1, 2**40)),
        "n_jobs": (None, Integers(1, 2**16), Integers(-(2**16), -1)),
    }

    @property
    def _votes(self) -> bool:
        return is_classifier(self.estimator) and self.output == "predictions"

    @property
    def _how(self) -> str:
        """The way of aggregating; ``"auto"`` where it depends on the number of rows."""
        aggregate: str = self.aggregate
        return aggregate if aggregate != AUTO or self._votes else "mean"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        allowed = (AUTO, SCORES, "vote") if self._votes else (AUTO, "mean", "median", SMOOTH)
        what = "classifier" if is_classifier(self.estimator) else "regressor"
        name = f"aggregate for {self.output} of a {what}"
        check_parameter(self.aggregate, name, *allowed)
        if self.student is not None:
            check_model(self.student, "student")
            if is_classifier(self.student) != is_classifier(self.estimator):
                raise TypeError("student must be a classifier where estimator is, and only then")
        if self.output == "predictions" and self.public is None:
            raise ValueError(
                "public must be given for output='predictions': public rows, which the models of "
                "the blocks predict"
            )
        if not self._votes and self.bounds is None:
            raise ValueError(
                "bounds must be a pair (low, high), from public knowledge, of what is aggregated"
            )

    def _public_rows(self, n_features: int) -> Floats:
        """Return the public rows as floats; no rows where parameters are aggregated."""
        if self.output == "parameters":
            return np.empty((0, n_features))
        name = f"{type(self).__name__}(public=...)"
        rows = check_public_array(self.public, estimator=name)
        if rows.shape[1] != n_features:
            raise ValueError(f"public has {rows.shape[1]} columns, X has {n_features} features")
        if hasattr(self, "feature_names_in_"):
            problem = ""
            try:
                with suppress_warnings():  # rows without names are taken in the order of X
                    validate_data(self, self.public, reset=False, skip_check_array=True)
            except ValueError as error:
                problem = str(error)
            if problem:
                raise ValueError(f"public must have the columns of X in the same order. {problem}")
        return rows

    def _bounds_of(self, n_numbers: int) -> tuple[Floats, Floats]:
        bounds = check_bounds(self.bounds, n_numbers)
        if bounds is None:
            raise ValueError("bounds must be a pair (low, high): they are not learned here")
        return bounds

    def _probe(self, public: Floats, like: Any, classes: NDArray | None) -> Any:
        """Fit the estimator on public rows with made-up targets, or raise."""
        targets = self._bounds_of(1) if classes is None and len(public) else None
        return probe(self.estimator, self.output, public, like, classes, targets)

    @property
    def _is_auto(self) -> bool:
        queries = self.output == "predictions" and self.n_queries == AUTO
        return queries or self.n_blocks == AUTO

    def _noise_of(self, allowance: Allowance, n_features: int | None) -> float:
        return math.nan  # with Gaussian noise many more queries can be answered

    def _left(self) -> Allowance:
        """Return the allowance of the aggregate, less what counting the rows takes."""
        counted = self._adjacency == "add_or_remove_one" and self._is_auto
        return self._allowance().part(1.0 - COUNT_SHARE if counted else 1.0)

    def _planned(
        self, how: str, n_classes: int, n: int, n_public: int, n_numbers: int | None
    ) -> Plan:
        """Return the numbers of blocks and queries; `how` is that of `_how`."""
        blocks, queries = stated(self.n_blocks), stated(self.n_queries)
        return planned(how, n_classes, self._left(), n, blocks, queries, n_public, n_numbers)

    def fit(self, X: Any, y: Any, *, groups: Any = None) -> Self:
        """Fit on disjoint blocks of private rows and release what their models agree on.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Private rows, finite numbers. Rows in parts (`skdp.engines`) are refused.
        y : array-like of shape (n_samples,)
            Labels or targets of the rows, also private.
        groups : array-like of shape (n_samples,), default=None
            Id of the unit that each row belongs to; needed for a budget with a `unit`.
        """
        with self._all_or_nothing(groups):
            self._check_parameters()
            how = self._how
            classes = check_classes(self.classes) if is_classifier(self.estimator) else None
            warn_of_column(y)
            rows = check_labelled(X, y, classes=classes, **self._entrance)
            validate_data(self, X, skip_check_array=True)
            like = X if hasattr(self, "feature_names_in_") else None
            with naming("public"):
                public = self._public_rows(rows.n_features)
            model = self._probe(public, like, classes)
            n_numbers = parameters_of(model).size if self.output == "parameters" else None
            n_classes = 0 if classes is None else len(classes)
            if how in (AUTO, SCORES) and n_classes > MOST_TOGETHER:
                raise ValueError(
                    f"classes: scores are released of at most {MOST_TOGETHER} classes, got "
                    f"{n_classes}; aggregate='vote' takes more"
                )
            if n_numbers is not None and n_numbers > MOST_TOGETHER:
                raise ValueError(
                    f"estimator has {n_numbers} parameters, and at most {MOST_TOGETHER} can be "
                    "released"
                )
            bounds: tuple[Floats, Floats] | None = None
            if how not in (AUTO, "vote", SCORES):
                bounds = self._bounds_of(n_numbers or 1)
                noise = Noise(how, n_classes, self._left())
                check_noise(noise, stated(self.n_queries), len(public), n_numbers)
            with self._session(rows) as session:
                needed = session.adjacency == "replace_one" or self._is_auto
                n = round(row_count(session, COUNT_SHARE)) if needed else 0
                plan = self._planned(how, n_classes, n, len(public), n_numbers)
                self.n_blocks_, n_numbers, how = plan.blocks, plan.queries, plan.noise.how
                listen = listener()
                progress = None if listen is None else UserFunction(listen)
                on_blocks = partial(OnBlocks, n_jobs=self.n_jobs, progress=progress)
                if classes is not None:
                    self.classes_ = classes
                if self.output == "parameters":
                    self._release_parameters(session, model, how, bounds, on_blocks)
                else:
                    rng = session.post_processing_rng()
                    chosen = rng.permutation(len(public))[:n_numbers]
                    self.queries_ = np.sort(chosen)
                    queries = as_table(public[self.queries_], like)
                    self.votes_: Floats | None = None
                    if how == SCORES:
                        basis = directions(public[self.queries_], plan.numbers)
                        self._release_scores(session, queries, basis, on_blocks)
                    else:
                        self._release_answers(session, queries, how, bounds, on_blocks)
                    self._fit_student(queries, session)
        return self

    def _run(self, on_blocks: Any, task: Any) -> OnBlocks:
        return cast(OnBlocks, on_blocks(UserFunction(task), self.n_blocks_))

    def _release_parameters(
        self, session: Session, model: Any, how: str, bounds: Any, on_blocks: Any
    ) -> None:
        """Aggregate parameters and put them into the model that was fitted on public rows."""
        view = Box(*bounds, per_feature=True)
        classes = self.classes_ if is_classifier(self.estimator) else None
        task = Parameters(self.estimator, classes, np.size(model.coef_), np.size(model.intercept_))
        name, query = AGGREGATES[how]
        values = session.answer(OfBlocks(self._run(on_blocks, task), query(view)), name=name).value
        self.coef_ = values[: np.size(model.coef_)].reshape(np.shape(model.coef_)).copy()
        self.intercept_ = values[self.coef_.size :].reshape(np.shape(model.intercept_)).copy()
        model.coef_, model.intercept_ = self.coef_.copy(), self.intercept_.copy()
        self.student_ = model

    def _release_scores(
        self, session: Session, queries: Any, basis: Floats, on_blocks: Any
    ) -> None:
        """Release the blocks' mean scores of the classes, in the directions of a public basis."""
        n_classes = len(self.classes_)
        width = basis.shape[1] * (1 if n_classes == 2 else n_classes)
        task = Scores(self.estimator, queries, len(self.queries_), self.classes_, basis)
        view = Ball(np.zeros(width), radius(n_classes))
        mean = OfBlocks(self._run(on_blocks, task), Mean(view))
        parts = session.answer(mean, name="mean scores of blocks").value
        self.scores_ = restored(parts, basis, n_classes)
        self.answers_ = self.classes_[self.scores_.argmax(axis=1)]

    def _release_answers(
        self, session: Session, queries: Any, how: str, bounds: Any, on_blocks: Any
    ) -> None:
        """Release what the blocks answer for public rows."""
        n_queries = len(self.queries_)
        if how == "vote":
            task = Vote(self.estimator, queries, n_queries, self.classes_)
            winners, votes = session.answer(
                BlockVotes(self._run(on_blocks, task), n_queries, len(self.classes_))
            )
            self.answers_ = self.classes_[winners]
            if votes is not None:
                self.votes_ = votes.value
            return
        low, high = (float(side[0]) for side in bounds)
        view = Box(np.full(n_queries, low), np.full(n_queries, high))
        predict = Prediction(self.estimator, queries, low, high)
        name, query = AGGREGATES[how]
        of_blocks = OfBlocks(self._run(on_blocks, predict), query(view))
        self.answers_ = session.answer(of_blocks, name=name).value.copy()

    def _fit_student(self, queries: Any, session: Session) -> None:
        """Fit the student, or a constant predictor, on public rows and released answers."""
        model = self.estimator if self.student is None else self.student
        seed = int(session.post_processing_rng().integers(0, 2**31 - 1))
        with suppress_warnings():
            try:
                student = seeded(model, seed).fit(queries, self.answers_)
                student.predict(queries)
            except Exception:  # noqa: BLE001  answers may be all equal, or too few
                constant = DummyClassifier() if is_classifier(model) else DummyRegressor()
                student = constant.fit(queries, self.answers_)
        self.student_ = student

    def _from_student(self, X: Any, method: str) -> Any:
        values = self._public_array(X)
        named = hasattr(self, "feature_names_in_")
        return getattr(self.student_, method)(as_table(values, X if named else None))

    def predict(self, X: Any) -> NDArray:
        """Return the student's labels or numbers for any rows, at no further cost."""
        check_is_fitted(self)
        return np.asarray(self._from_student(X, "predict"))

    @available_if(_has_model_method("predict_proba"))
    def predict_proba(self, X: Any) -> Floats:
        """Return the student's probabilities of the classes.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            In the order of `classes_`; zero for a class that won no query.
        """
        check_is_fitted(self)
        known = np.asarray(self._from_student(X, "predict_proba"))
        probabilities = np.zeros((len(known), len(self.classes_)))
        probabilities[:, np.searchsorted(self.classes_, self.student_.classes_)] = known
        return probabilities

    @available_if(_has_model_method("decision_function"))
    def decision_function(self, X: Any) -> Floats:
        """Return the decision function of a linear classifier with released parameters."""
        check_is_fitted(self)
        return np.asarray(self._from_student(X, "decision_function"))

    def _expected_error(self, n: int, d: int, like: Any) -> float:
        how = self._how
        classes = check_classes(self.classes) if is_classifier(self.estimator) else None
        n_classes = 0 if classes is None else len(classes)
        public = self._public_rows(d)
        numbers = None
        if self.output == "parameters":
            numbers = parameters_of(self._probe(public, None, classes)).size
        if how not in (AUTO, "vote", SCORES):
            noise = Noise(how, n_classes, self._left())
            check_noise(noise, stated(self.n_queries), len(public), numbers)
        plan = self._planned(how, n_classes, n, len(public), numbers)
        if plan.noise.how in ("median", SMOOTH):
            raise ValueError(
                f"aggregate={plan.noise.how!r} has no expected error: its noise depends on how "
                "far the blocks agree, which is private. aggregate='mean' has one"
            )
        if plan.noise.how == "vote" and n_classes > 2 and plan.noise.mu is None:
            raise ValueError(
                f"votes for {n_classes} classes with delta=0 have no expected error: how well "
                "winners are chosen depends on how far the blocks agree. State delta > 0, which "
                "releases counts, or aggregate='scores'"
            )
        width = n_classes if plan.noise.how == SCORES and n_classes > 2 else 1
        return plan.noise.error(plan.numbers * width, plan.blocks)
