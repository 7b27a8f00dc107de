"""DPSubsampleAggregate: any scikit-learn estimator made private by sample and aggregate.

Releases what models fitted on disjoint blocks of the private rows agree on: their votes or
predictions at public rows, or their parameters. A row is in one block, so it changes one of many
models, whatever the estimator does with it: pure epsilon-DP or (epsilon, delta)-DP.
"""

from __future__ import annotations

import copy
import math
import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.exceptions import DataConversionWarning
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import Tags, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from skdp import kernel
from skdp.base import PrivateMixin, check_bounds, check_integer
from skdp.budget import PrivacyBudget

__all__ = ["DPSubsampleAggregate"]

Floats = NDArray[np.float64]

AUTO = "auto"
_COUNT_SHARE = 0.05  # where the number of rows is private: what the number of blocks needs of it
# "auto": the standard deviation of the noise, as a part of a unanimous vote or of half a width.
_NOISE = {"vote": 0.25, "mean": 0.05, "median": 0.05}
_LEAST_BLOCKS = 10
_LEAST_ROWS = 20  # "auto": rows of a block, at least; and as planned when queries are chosen
_PLANNED_ROWS = 50
_MOST_QUERIES = 1000
_PROBE_ROWS = 200
_FAR = 1e300
_COLUMN = (
    "A column-vector y was passed when a 1d array was expected. Please change the shape of y to "
    "(n_samples, ), for example using ravel()."
)


# --- what is run on a block -------------------------------------------------------------------


def _seeded(estimator: Any, seed: int) -> Any:
    """Return a clone in which every random state that is not stated is this seed."""
    made = clone(estimator)
    unset = {
        name: seed
        for name, value in made.get_params(deep=True).items()
        if value is None and name.rpartition("__")[2] == "random_state"
    }
    return made.set_params(**unset) if unset else made


def _predicted(fitted: Any, queries: Any) -> NDArray:
    """Predict a copy: what works in place would pass something on to the next block."""
    return np.asarray(fitted.predict(copy.deepcopy(queries)))


@dataclass(frozen=True)
class _Vote:
    """Fits on a block and returns the codes of its predictions at the queries."""

    estimator: Any
    queries: Any
    n_queries: int
    classes: NDArray

    def __call__(self, X: Any, codes: NDArray, seed: int) -> NDArray:
        known = codes >= 0
        if not known.all():
            X, codes = kernel.as_table(np.asarray(X)[known], X), codes[known]
        present = np.unique(codes)
        if present.size <= 1:  # few estimators take that; the vote is clear
            return np.full(self.n_queries, present[0] if present.size else -1)
        fitted = _seeded(self.estimator, seed).fit(X, self.classes[codes])
        return kernel.label_codes(_predicted(fitted, self.queries), self.classes)


@dataclass(frozen=True)
class _Prediction:
    """Fits on a block, with clipped targets, and returns its predictions at the queries."""

    estimator: Any
    queries: Any
    low: float
    high: float

    def __call__(self, X: Any, y: NDArray, seed: int) -> NDArray:
        fitted = _seeded(self.estimator, seed).fit(X, np.clip(y, self.low, self.high))
        return _predicted(fitted, self.queries)


@dataclass(frozen=True)
class _Parameters:
    """Fits on a block and returns ``coef_`` and ``intercept_`` in a row."""

    estimator: Any
    classes: NDArray | None
    n_coefs: int
    n_intercepts: int

    def __call__(self, X: Any, y: NDArray, seed: int) -> NDArray:
        if self.classes is not None:
            known = y >= 0
            X, y = kernel.as_table(np.asarray(X)[known], X), y[known]
            present = np.unique(y)
            if present.size == 1:  # an intercept says so; it will be clipped
                side = 1 if self.n_intercepts == 1 else np.arange(self.n_intercepts)
                one = np.where(present[0] == side, _FAR, -_FAR)
                return np.append(np.zeros(self.n_coefs), one)
            y = self.classes[y]
        return _parameters(_seeded(self.estimator, seed).fit(X, y))


def _parameters(fitted: Any) -> Floats:
    parts = [np.ravel(getattr(fitted, name)) for name in ("coef_", "intercept_")]
    return np.asarray(np.concatenate(parts), dtype=np.float64)


# --- checks -----------------------------------------------------------------------------------


def _check_model(value: Any, name: str) -> None:
    """Refuse what is no classifier or regressor, and what would charge a budget in each block."""
    good = not isinstance(value, type) and all(
        hasattr(value, name) for name in ("fit", "predict", "get_params", "__sklearn_tags__")
    )
    if not good or not (is_classifier(value) or is_regressor(value)):
        raise TypeError(
            f"{name} must be a scikit-learn classifier or regressor with fit and predict, "
            f"got {value.__name__ if isinstance(value, type) else type(value).__name__}"
        )
    if any(hasattr(v, "privacy_cost") for v in [value, *value.get_params(deep=True).values()]):
        raise TypeError(f"{name} must not be private itself: its blocks are protected here")


def _check_auto(value: Any, name: str) -> int | None:
    """Return an integer parameter of at least 1, or None for ``"auto"``."""
    if isinstance(value, str):
        if value != AUTO:
            raise ValueError(f"{name} must be 'auto' or an integer of at least 1, got {value!r}")
        return None
    return check_integer(value, name, low=1)


def _check_classes(classes: Any) -> NDArray:
    """Return the public class labels, sorted."""
    problem = ""
    found: NDArray = np.empty(0)
    try:
        found = np.unique(np.asarray(classes))
    except TypeError:
        problem = "classes must be labels of one type"
    if classes is None or np.ndim(classes) != 1:
        problem = (
            "classes must be given for a classifier: all class labels, from public knowledge, "
            "because those that occur in y are private"
        )
    elif not problem and len(found) < 2:
        problem = "classes must hold at least two class labels"
    if problem:
        raise ValueError(problem)
    check_classification_targets(found)
    return found


def _has_model_method(name: str) -> Any:
    """Return a check that the model behind `predict` has a method."""

    def has(self: DPSubsampleAggregate) -> bool:
        wanted = self.estimator if self.student is None else self.student
        getattr(wanted, name)  # its own AttributeError says more than ours
        if name == "decision_function" and self.output != "parameters":
            raise AttributeError("decision_function needs output='parameters'")
        return True

    return has


# --- the estimator ----------------------------------------------------------------------------


class DPSubsampleAggregate(PrivateMixin, BaseEstimator):
    """Make any classifier or regressor private by fitting it on disjoint blocks of the rows.

    Clones of `estimator` are fitted on disjoint blocks and aggregated under noise; then they are
    thrown away. With ``output="predictions"`` they answer for public rows: classifiers vote,
    predictions of regressors are averaged or their median is taken. A `student` is fitted on
    public rows and private answers, and `predict` is the student's: free, for any rows. With
    ``output="parameters"`` the ``coef_`` and ``intercept_`` of linear models are aggregated, and
    no public rows are needed.

    Parameters
    ----------
    estimator : classifier or regressor
        Of any kind. It must not pass anything from one fit to another (in files or in global
        variables). What it is given is float64, in a table where X is a pandas or polars one.
    public : array-like or table of shape (n_public, n_features), default=None
        Public rows, which resemble the private ones as far as possible, without labels. Needed
        for ``output="predictions"``.
    student : classifier or regressor, default=None
        Fitted on public rows with private answers; None takes a clone of `estimator`.
    output : {"predictions", "parameters"}, default="predictions"
        What of the blocks' models is aggregated.
    aggregate : {"auto", "vote", "mean", "median"}, default="auto"
        ``"vote"`` for predictions of classifiers, and for them only. Else ``"mean"``, which
        ``"auto"`` takes, or ``"median"`` of each number, which a few wild blocks do not move, but
        whose noise grows faster with their number.
    n_blocks : int or "auto", default="auto"
        More blocks: less noise, and worse models. ``"auto"`` takes as many as make the standard
        deviation of the noise (see `expected_error`) a quarter of a unanimous vote, or 5% of half
        the width of `bounds`, at least 10, but leaves 20 rows to a block where that allows 10.
    n_queries : int or "auto", default="auto"
        How many public rows (chosen at random) are asked, at most all. Noise grows with their
        number, and with its root only where delta > 0. ``"auto"`` takes as many as blocks of 50
        rows can answer at that noise, at least 10 and at most 1000.
    classes : array-like, default=None
        For classifiers: all labels, from public knowledge. Rows with another label are left out.
    bounds : tuple (low, high), default=None
        For means and medians: where the aggregated numbers lie, from public knowledge; what is
        beyond is clipped, and so are targets of ``output="predictions"``. For parameters a number
        each, or one number per entry of ``coef_`` (row by row) and ``intercept_``.
    n_jobs : int, default=None
        Blocks that are fitted at the same time, by joblib. Charged once, whatever it is.
    epsilon : float, default=1.0
        Privacy loss of a fit; finite, above 0.
    delta : float, default=0.0
        In [0, 1). Above zero, noise is Gaussian, and many more queries can be answered.
    budget : PrivacyBudget or None, default=None
        What the fit is charged to; it also says which tables are neighbours. None: the fit stands
        alone, under ``"replace_one"``.
    random_state : int, RandomState or None, default=None
        None takes noise from the operating system. Otherwise noise can be reproduced, and removed,
        by whoever knows the seed: for tests and teaching.

    Attributes
    ----------
    student_ : estimator
        What `predict` asks: the student, or the linear model with released parameters. Where the
        student cannot be fitted, say because all answers are equal, a constant.
    n_blocks_ : int
        Number of blocks.
    queries_ : ndarray of shape (n_queries,)
        Which rows of `public` were asked; not with ``output="parameters"``.
    answers_ : ndarray of shape (n_queries,)
        What was released for them: labels or numbers.
    votes_ : ndarray of shape (n_queries, n_classes) or None
        Noisy counts, up to the same number for all classes of a query; None if the winners alone
        were released (more than two classes and delta = 0).
    coef_, intercept_ : ndarray
        With ``output="parameters"``: as released, in the shapes of `estimator`.
    classes_ : ndarray of shape (n_classes,)
        For classifiers: `classes`, sorted.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X has names that are strings.
    privacy_ : skdp.kernel.PrivacyCertificate
        What was released, by which mechanism, at which price.

    Raises
    ------
    TypeError, ValueError
        In `fit`, before anything is charged: a parameter out of its range, an estimator without
        predict or one that cannot be fitted on made-up targets, X or y not finite numbers or of
        different lengths.
    BudgetExceededError, SealedBudgetError, LedgerError
        In `fit`, if the budget cannot grant (epsilon, delta).

    Notes
    -----
    **Privacy.** *Released*: for each query the difference of the votes for two classes; for more
    classes all counts (delta > 0) or the winner; the mean over blocks of predictions or
    parameters, or their median. Under ``"add_or_remove_one"`` with ``n_blocks="auto"`` or
    ``n_queries="auto"`` also the number of rows, for 5% of the allowance. *Sensitivity*: a row is
    in one block and changes its model in any way, under both relations; so one vote a query is
    changed into another (L2 2 sqrt(n_queries) for differences, sqrt(2 n_queries) for counts, 1 for
    one count), or one of n_blocks vectors within its bounds (their diagonal for a sum, 1 for a
    rank). *Mechanism*: rounded Gaussian noise if delta > 0, else K-norm noise; the exponential
    mechanism for winners and medians. *Charged*: (epsilon, delta), once, before any noise, to
    `budget`. Blocks are dealt out at random: under ``"replace_one"`` by the places of rows, else
    by an independent draw a row. The student sees public rows and released answers only.

    Nothing raises and nothing is said because of what the rows hold. A block with one class votes
    for it; one without rows, or whose fit fails, abstains, or counts as the middle of `bounds`.
    Warnings and output of fits are dropped. What the estimator's code writes to files or keeps in
    global variables is outside of the promise.

    `score` of private rows is exact, and so as private as they are.

    References
    ----------
    Nissim, Raskhodnikova & Smith 2007, "Smooth sensitivity and sampling in private data analysis",
    section 4 (sample and aggregate).

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
    """

    def __init__(
        self,
        estimator: Any,
        *,
        public: Any = None,
        student: Any = None,
        output: str = "predictions",
        aggregate: str = "auto",
        n_blocks: Any = "auto",
        n_queries: Any = "auto",
        classes: Any = None,
        bounds: Any = None,
        n_jobs: int | None = None,
        epsilon: float = 1.0,
        delta: float = 0.0,
        budget: PrivacyBudget | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.public = public
        self.student = student
        self.output = output
        self.aggregate = aggregate
        self.n_blocks = n_blocks
        self.n_queries = n_queries
        self.classes = classes
        self.bounds = bounds
        self.n_jobs = n_jobs
        self.epsilon = epsilon
        self.delta = delta
        self.budget = budget
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags: a classifier or a regressor as the estimator is."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        if hasattr(self.estimator, "__sklearn_tags__"):
            inner = get_tags(self.estimator)
            tags.estimator_type = inner.estimator_type
            tags.classifier_tags = inner.classifier_tags
            tags.regressor_tags = inner.regressor_tags
        return tags

    # --- checks, before anything is charged -----------------------------------------------------

    def _check_parameters(self) -> str:
        """Check what can be judged without rows, and return the way of aggregating."""
        self._check_privacy_parameters()
        _check_model(self.estimator, "estimator")
        votes = is_classifier(self.estimator) and self.output == "predictions"
        if self.output not in ("predictions", "parameters"):
            raise ValueError(f"output must be 'predictions' or 'parameters', got {self.output!r}")
        allowed = (AUTO, "vote") if votes else (AUTO, "mean", "median")
        if self.aggregate not in allowed:
            raise ValueError(
                f"aggregate must be one of {allowed} for {self.output} of a "
                f"{'classifier' if is_classifier(self.estimator) else 'regressor'}, "
                f"got {self.aggregate!r}"
            )
        if self.student is not None:
            _check_model(self.student, "student")
            if is_classifier(self.student) != is_classifier(self.estimator):
                raise TypeError(
                    "student must be a classifier where estimator is one, and only then"
                )
        if self.output == "predictions" and self.public is None:
            raise ValueError(
                "public must be given for output='predictions': public rows, for which the blocks "
                "are asked"
            )
        if not votes and self.bounds is None:
            raise ValueError(
                "bounds must be a pair (low, high), from public knowledge, of what is aggregated"
            )
        _check_auto(self.n_blocks, "n_blocks")
        _check_auto(self.n_queries, "n_queries")
        if self.n_jobs is not None:
            check_integer(self.n_jobs, "n_jobs", low=-(2**20))
        if self.aggregate != AUTO:
            return self.aggregate
        return "vote" if votes else "mean"

    def _public_rows(self, n_features: int) -> Floats:
        """Return the public rows as floats; none where parameters are aggregated."""
        if self.output == "parameters":
            return np.empty((0, n_features))
        name = f"{type(self).__name__}(public=...)"
        rows = kernel.check_public_array(self.public, estimator=name)
        if rows.shape[1] != n_features:
            raise ValueError(f"public has {rows.shape[1]} columns, X has {n_features} features")
        return rows

    def _stated_bounds(self, n_numbers: int) -> tuple[Floats, Floats]:
        bounds = check_bounds(self.bounds, n_numbers)
        if bounds is None:
            raise ValueError("bounds must be a pair (low, high): they are not learned here")
        return bounds

    def _probe(self, public: Floats, like: Any, classes: NDArray | None) -> Any:
        """Fit the estimator on public rows with made-up targets, or raise.

        An estimator that cannot be fitted would fail in every block, after the charge. Returns the
        fitted estimator, whose parameters have the shapes of those of the blocks.
        """
        rng = kernel.public_generator(b"probe")
        rows = rng.normal(size=(_PROBE_ROWS, public.shape[1]))
        if len(public):
            rows = public[np.arange(max(_PROBE_ROWS, len(public))) % len(public)]
        X = kernel.as_table(rows, like)
        if classes is not None:
            y = classes[np.arange(len(rows)) % len(classes)]
        else:
            low, high = self._stated_bounds(1) if len(public) else (-1.0, 1.0)
            y = np.clip(rng.uniform(low, high, size=len(rows)), low, high)
        with kernel.quiet():
            fitted = _seeded(self.estimator, 0).fit(X, y)
            good = np.shape(fitted.predict(X)) == y.shape
        if not good:
            raise ValueError("estimator must predict one label or number a row")
        linear = all(hasattr(fitted, name) for name in ("coef_", "intercept_"))
        if self.output == "parameters" and not linear:
            raise TypeError(
                "estimator must have coef_ and intercept_ for output='parameters', as linear "
                f"models have; {type(fitted).__name__} has not"
            )
        return fitted

    # --- how many blocks ------------------------------------------------------------------------

    def _noise(self, numbers: int, how: str, n_classes: int, share: float = 1.0) -> float:
        """Return the standard deviation of noise, in blocks: of a margin, or of a sum.

        Sums in half widths of the bounds; of a median, that of its rank times 2.
        """
        epsilon, mu = float(self.epsilon) * share, None
        if self.delta > 0:
            mu = kernel.gdp_mu(float(self.epsilon), float(self.delta)) * math.sqrt(share)
        if how == "median" or (how == "vote" and n_classes > 2 and mu is None):
            each = epsilon / numbers
            if mu is not None:
                each = kernel.pure_epsilon_from_mu(mu / math.sqrt(numbers))
            # Odds of exp(each / 2) a vote: logistic, and exp(-each / 2) a rank on either side.
            return (4 * math.sqrt(2) if how == "median" else 2 * math.pi / math.sqrt(3)) / each
        if mu is not None:
            return 2 * math.sqrt(numbers) / mu
        return 2 * math.sqrt(numbers * (numbers + 1)) / epsilon

    def _share(self) -> float:
        """Return the part of the allowance that is left for the aggregate."""
        counted = self._adjacency == "add_or_remove_one" and self._is_auto
        return 1.0 - _COUNT_SHARE if counted else 1.0

    @property
    def _is_auto(self) -> bool:
        queries = self.output == "predictions" and self.n_queries == AUTO
        return queries or self.n_blocks == AUTO

    def _plan(
        self, n: int, n_public: int, n_numbers: int | None, how: str, n_classes: int
    ) -> tuple[int, int]:
        """Return the numbers of blocks and of queries (or, if stated, of parameters).

        Parameters
        ----------
        n : int
            Public or released; 0 if it is neither, and then nothing is ``"auto"``.
        """
        share = self._share()
        stated = _check_auto(self.n_blocks, "n_blocks")
        queries = _check_auto(self.n_queries, "n_queries") if n_numbers is None else n_numbers
        if n_numbers is None and queries is not None:
            queries = min(queries, n_public)
        if queries is None:
            blocks = n // _PLANNED_ROWS if stated is None else stated
            low, high = min(10, n_public), min(_MOST_QUERIES, n_public)
            while low < high:  # the largest with little enough noise; it grows with their number
                middle = (low + high + 1) // 2
                if self._noise(middle, how, n_classes, share) <= _NOISE[how] * blocks:
                    low = middle
                else:
                    high = middle - 1
            queries = low
        if stated is None:
            wanted = math.ceil(self._noise(queries, how, n_classes, share) / _NOISE[how])
            stated = max(min(wanted, n // _LEAST_ROWS), _LEAST_BLOCKS)
        return (min(stated, n) if n else stated), queries

    # --- fit ------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> Self:
        """Fit on disjoint blocks of private rows and release what their models agree on.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Private rows, finite numbers.
        y : array-like of shape (n_samples,)
            Their labels or targets, private too.

        Returns
        -------
        self : DPSubsampleAggregate
        """
        with self._all_or_nothing():
            how = self._check_parameters()
            classes = _check_classes(self.classes) if is_classifier(self.estimator) else None
            if getattr(y, "shape", ())[1:] == (1,):
                warnings.warn(_COLUMN, DataConversionWarning, stacklevel=2)
            rows = kernel.check_labelled(
                X, y, estimator=type(self).__name__, classes=classes, allow_empty=self._allow_empty
            )
            validate_data(self, X, skip_check_array=True)
            like = X if hasattr(self, "feature_names_in_") else None
            public = self._public_rows(rows.n_features)
            model = self._probe(public, like, classes)
            n_numbers = _parameters(model).size if self.output == "parameters" else None
            bounds = None if how == "vote" else self._stated_bounds(n_numbers or 1)
            with self._session(rows) as session:
                n = self._rows_to_plan_with(session)
                n_classes = 0 if classes is None else len(classes)
                self.n_blocks_, n_numbers = self._plan(n, len(public), n_numbers, how, n_classes)
                if classes is not None:
                    self.classes_ = classes
                if self.output == "parameters":
                    self._release_parameters(session, model, how, bounds, classes)
                else:
                    rng = session.post_processing_rng()
                    chosen = rng.permutation(len(public))[:n_numbers]
                    self.queries_ = np.sort(chosen)
                    asked = kernel.as_table(public[self.queries_], like)
                    self._release_answers(session, asked, how, bounds)
                    self._fit_student(asked, session)
                self.privacy_ = session.certificate()
        return self

    def _rows_to_plan_with(self, session: kernel.Session) -> int:
        """Return the number of rows: public, or released where it is needed, else 0."""
        if self._adjacency == "replace_one":
            return session.n_rows
        if not self._is_auto:
            return 0
        return max(1, round(float(session.count(_COUNT_SHARE).value)))

    def _release_parameters(
        self, session: kernel.Session, model: Any, how: str, bounds: Any, classes: NDArray | None
    ) -> None:
        """Aggregate parameters and put them into the model that was fitted on public rows."""
        view = kernel.Box(*bounds, per_feature=True)
        door = session.block_mean if how == "mean" else session.block_median
        task = _Parameters(self.estimator, classes, np.size(model.coef_), np.size(model.intercept_))
        values = door(task, self.n_blocks_, view, n_jobs=self.n_jobs).value
        self.coef_ = values[: np.size(model.coef_)].reshape(np.shape(model.coef_)).copy()
        self.intercept_ = values[self.coef_.size :].reshape(np.shape(model.intercept_)).copy()
        model.coef_, model.intercept_ = self.coef_.copy(), self.intercept_.copy()
        self.student_ = model

    def _release_answers(self, session: kernel.Session, asked: Any, how: str, bounds: Any) -> None:
        """Release what the blocks answer for public rows."""
        n_queries = len(self.queries_)
        if how == "vote":
            task = _Vote(self.estimator, asked, n_queries, self.classes_)
            winners, votes = session.block_votes(
                task, self.n_blocks_, n_queries, len(self.classes_), n_jobs=self.n_jobs
            )
            self.answers_ = self.classes_[winners]
            self.votes_ = None if votes is None else votes.value
            return
        low, high = (float(side[0]) for side in bounds)
        view = kernel.Box(np.full(n_queries, low), np.full(n_queries, high))
        door = session.block_mean if how == "mean" else session.block_median
        predict = _Prediction(self.estimator, asked, low, high)
        self.answers_ = door(predict, self.n_blocks_, view, n_jobs=self.n_jobs).value.copy()

    def _fit_student(self, asked: Any, session: kernel.Session) -> None:
        """Fit the student on public rows and released answers; a constant if it cannot be."""
        model = self.estimator if self.student is None else self.student
        seed = int(session.post_processing_rng().integers(0, 2**31 - 1))
        with kernel.quiet():
            try:
                student = _seeded(model, seed).fit(asked, self.answers_)
                student.predict(asked)
            except Exception:  # noqa: BLE001  answers may be all equal, or too few
                constant = DummyClassifier() if is_classifier(model) else DummyRegressor()
                student = constant.fit(asked, self.answers_)
        self.student_ = student

    # --- what a fit is for ----------------------------------------------------------------------

    def _ask(self, X: Any, method: str) -> Any:
        values = self._public_array(X)
        named = hasattr(self, "feature_names_in_")
        return getattr(self.student_, method)(kernel.as_table(values, X if named else None))

    def predict(self, X: Any) -> NDArray:
        """Return the student's labels or numbers for any rows, at no further cost.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        return np.asarray(self._ask(X, "predict"))

    @available_if(_has_model_method("predict_proba"))
    def predict_proba(self, X: Any) -> Floats:
        """Return the student's probabilities of the classes.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            In the order of `classes_`; zero for a class that won no query.
        """
        check_is_fitted(self)
        known = np.asarray(self._ask(X, "predict_proba"))
        probabilities = np.zeros((len(known), len(self.classes_)))
        probabilities[:, np.searchsorted(self.classes_, self.student_.classes_)] = known
        return probabilities

    @available_if(_has_model_method("decision_function"))
    def decision_function(self, X: Any) -> Floats:
        """Return the decision function of a linear classifier with released parameters.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)

        Returns
        -------
        values : ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        check_is_fitted(self)
        return np.asarray(self._ask(X, "decision_function"))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy (classifiers) or R squared (regressors) on rows of the caller's own.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float
            Exact: as private as the rows are.
        """
        measure = accuracy_score if is_classifier(self.estimator) else r2_score
        return float(measure(y, self.predict(X), sample_weight=sample_weight))

    def expected_error(self, n_samples: int, n_features: int | None = None) -> float:
        """Return the noise of an answer as a part of what unanimous blocks would give.

        Nothing is fitted, read or charged: it answers whether epsilon is enough. The error of
        models that see one block each comes on top.

        Parameters
        ----------
        n_samples : int
            Number of rows, as far as it is public.
        n_features : int, default=None
            Number of columns; ``n_features_in_`` after `fit`.

        Returns
        -------
        error : float
            Standard deviation of the noise on the margin between two classes over the number of
            blocks; of a mean over half the width of its bounds; of the rank of a median over half
            the number of blocks.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.linear_model import LinearRegression
        >>> from skdp.ensemble import DPSubsampleAggregate
        >>> model = DPSubsampleAggregate(
        ...     LinearRegression(), output="parameters", bounds=(-5, 5), n_blocks=100
        ... )
        >>> round(model.expected_error(10_000, n_features=3), 3)
        0.089
        """
        how = self._check_parameters()
        n, d = self._sizes(n_samples, n_features)
        classes = _check_classes(self.classes) if is_classifier(self.estimator) else None
        n_classes = 0 if classes is None else len(classes)
        public = self._public_rows(d)
        numbers = None
        if self.output == "parameters":
            numbers = _parameters(self._probe(public, None, classes)).size
        blocks, numbers = self._plan(n, len(public), numbers, how, n_classes)
        return self._noise(numbers, how, n_classes, self._share()) / blocks
