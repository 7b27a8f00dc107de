"""Displays of budgets and expected errors, a widget, and the base of all displays.

matplotlib and ipywidgets are imported when something is shown.
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom
from sklearn.base import clone

from skdp import statistics
from skdp._docstrings import documenter
from skdp.budget import PrivacyBudget, guessing_chance
from skdp.loss.conversions import rounded_amount
from skdp.model_selection._choose_epsilon import answers, choose_epsilon

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

_SPENT_COLORS = "tab10"
_REMAINING_COLOR = "0.9"
_LOW, _HIGH = 0.01, 10.0  # epsilons of the sliders
_DELTAS = (0.0, *(10.0**k for k in range(-12, -3)))

documented = documenter(
    {
        "attributes": """
            Attributes
            ----------
            ax_ : matplotlib Axes
                Axes of the last plot.
            figure_ : matplotlib Figure
                Figure of the last plot.
            """,
        "ax": """
            ax : matplotlib Axes, default=None
                Axes to draw on; a new figure if None.
            """,
        "display": """
            Returns
            -------
            display : instance of the class
                The display, already plotted.
            """,
        "plotted": "{ax}\n\n{display}",
        "read_budget": """
            budget : PrivacyBudget
                Its ledger is read; nothing is charged.
            """,
        "scores": """
            released : skdp.metrics.ScoreHistogram
                Noisy counts of scores.
            """,
        "level": """
            level : float, default=0.95
                Level of the intervals.
            """,
        "population": """
            population : bool, default=False
                Draw the intervals for the population instead of those for noise only.
            """,
        "name": """
            name : str, default=""
                Name of the model, for the legend.
            """,
        "privacy_options": """
            **privacy
                Arguments of `skdp.metrics.score_histogram`: epsilon, delta, budget, groups, ...
            """,
    }
)


@documented
class Display(ABC):
    """A figure that `plot` draws; `ax_` and `figure_` are those of the last plot."""

    ax_: Axes
    figure_: Figure
    _size = (7.0, 5.0)

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        {plotted}
        """
        try:
            from matplotlib import pyplot
        except ImportError:
            message = "plotting needs matplotlib: python -m pip install matplotlib"
            raise ImportError(message) from None
        if ax is None:
            _, ax = pyplot.subplots(figsize=self._size, layout="constrained")
        self.ax_ = ax
        self.figure_ = ax.figure  # type: ignore[assignment]  # not on a SubFigure
        self._draw()
        return self

    @abstractmethod
    def _draw(self) -> None:
        """Draw on `ax_`."""


# --- budgets --------------------------------------------------------------------------------------


def _check_budget(budget: Any) -> None:
    if not isinstance(budget, PrivacyBudget):
        raise TypeError(f"budget must be a PrivacyBudget, got {type(budget).__name__}.")


@documented
class BudgetDisplay(Display):
    """One bar: the epsilon of a budget that each estimator spent, and the remainder.

    All charges of an estimator are drawn as one segment. Under accountants that do not add
    epsilons, the segments are scaled so that their sum is the spent epsilon.

    Parameters
    ----------
    labels : sequence of str
        Names of the segments, without the remainder.
    epsilons : array-like of shape (n_segments,)
        Epsilon of each segment.
    remaining : float
        Epsilon that remains.
    caption : str, default=""
        Title of the plot.

    {attributes}

    See Also
    --------
    skdp.PrivacyBudget : The budget; in a notebook it displays itself.

    Examples
    --------
    >>> from skdp import DPKMeans, PrivacyBudget
    >>> from skdp.inspection import BudgetDisplay
    >>> budget = PrivacyBudget(epsilon=1.0)
    >>> _ = DPKMeans(2, epsilon=0.25, bounds=(0, 1), budget=budget).fit([[0.1], [0.9]])
    >>> display = BudgetDisplay.from_budget(budget)
    >>> display.labels, display.epsilons.tolist(), display.remaining
    (('DPKMeans',), [0.25], 0.75)
    """

    def __init__(
        self, labels: Sequence[str], epsilons: Any, remaining: float, caption: str = ""
    ) -> None:
        self.labels = tuple(labels)
        self.epsilons: Floats = np.asarray(epsilons, dtype=np.float64)
        self.remaining = float(remaining)
        self.caption = caption

    @classmethod
    def from_budget(cls, budget: PrivacyBudget, *, ax: Axes | None = None) -> BudgetDisplay:
        """Plot a budget as its ledger stands now.

        Parameters
        ----------
        {read_budget}
        {plotted}
        """
        _check_budget(budget)
        spent, remaining = budget.spent, budget.remaining
        epsilons: dict[str, float] = {}
        counts: dict[str, int] = {}
        for charge in budget.charges:
            name = charge.estimator
            epsilons[name] = epsilons.get(name, 0.0) + charge.epsilon
            counts[name] = counts.get(name, 0) + 1
        total = sum(epsilons.values())
        # Rounded so that a sum of decimals in floating point shows as the decimal it is.
        scaled = [round(e * spent.epsilon / total, 12) for e in epsilons.values()]
        labels = [name if counts[name] == 1 else f"{counts[name]} × {name}" for name in epsilons]
        caption = (
            f"ε = {rounded_amount(spent.epsilon):g} of {rounded_amount(budget.epsilon):g} and "
            f"δ = {rounded_amount(spent.delta):g} of {rounded_amount(budget.delta):g} spent"
        )
        display = cls(labels, scaled, remaining.epsilon, caption)
        return display.plot(ax=ax)

    _size = (8, 1.8)

    def _draw(self) -> None:
        from matplotlib import colormaps
        from matplotlib.transforms import ScaledTranslation

        colors = colormaps[_SPENT_COLORS]
        end = 0.0
        for i, (label, epsilon) in enumerate(zip(self.labels, self.epsilons, strict=True)):
            self._segment(end, epsilon, label, colors(i % colors.N))
            end += epsilon
        # A remainder that `split` leaves by rounding its shares down is too small to draw or use.
        if self.remaining > 1e-9 * end or end == 0:
            self._segment(end, self.remaining, "remaining", _REMAINING_COLOR)
        width = end + self.remaining or 1.0
        self.ax_.set(xlim=(0, width), yticks=[], xlabel="ε", title=self.caption)
        below = ScaledTranslation(0, -32 / 72, self.figure_.dpi_scale_trans)  # of the label: 32 pt
        self.ax_.legend(
            loc="upper center",
            bbox_to_anchor=(0.5, 0),
            bbox_transform=self.ax_.transAxes + below,
            ncols=4,
            frameon=False,
            fontsize=9,
        )

    def _segment(self, left: float, width: float, label: str, color: Any) -> None:
        """Draw one part of the bar; its legend entry carries the amount."""
        self.ax_.barh(
            [0], [width], left=left, color=color, edgecolor="white", label=f"{label}: {width:.3g}"
        )


@documented
class PrivacyCurveDisplay(Display):
    """The spent budget, as epsilon for every delta.

    Parameters
    ----------
    deltas : array-like of shape (n_points,)
        Ascending, above 0.
    epsilons : array-like of shape (n_points,)
        The epsilon for each delta; infinite values are left out of the plot.
    point : tuple of float, default=None
        The (epsilon, delta) of the budget, which is marked.
    caption : str, default=""
        Title of the plot.

    {attributes}

    Examples
    --------
    >>> from skdp import PrivacyBudget
    >>> from skdp.budget import Cost
    >>> from skdp.inspection import PrivacyCurveDisplay
    >>> budget = PrivacyBudget(5.0, 1e-6, accountant="gdp")
    >>> _ = budget.charge(10 * Cost(0.1), estimator="DPMedian")
    >>> display = PrivacyCurveDisplay.from_budget(budget)
    >>> bool(display.epsilons[0] > display.epsilons[-1])
    True
    """

    def __init__(
        self,
        deltas: Any,
        epsilons: Any,
        point: tuple[float, float] | None = None,
        caption: str = "",
    ) -> None:
        self.deltas: Floats = np.asarray(deltas, dtype=np.float64)
        self.epsilons: Floats = np.asarray(epsilons, dtype=np.float64)
        self.point, self.caption = point, caption

    @classmethod
    def from_budget(
        cls, budget: PrivacyBudget, *, n_points: int = 41, ax: Axes | None = None
    ) -> PrivacyCurveDisplay:
        """Plot the charges to a budget, as its ledger stands now.

        Parameters
        ----------
        {read_budget}
        n_points : int, default=41
            Number of deltas, from 1e-12 to 0.1.
        {plotted}
        """
        _check_budget(budget)
        deltas = np.geomspace(1e-12, 0.1, n_points)
        caption = f"spent under the accountant {budget.accountant}"
        point = (budget.epsilon, budget.delta)
        return cls(deltas, budget.curve(deltas.tolist()), point, caption).plot(ax=ax)

    def _draw(self) -> None:
        finite = np.isfinite(self.epsilons)
        self.ax_.plot(self.deltas[finite], self.epsilons[finite], label="spent")
        if self.point is not None and self.point[1] > 0:
            self.ax_.plot([self.point[1]], [self.point[0]], "o", color="black", label="budget")
        self.ax_.set(xscale="log", xlabel="δ", ylabel="ε", title=self.caption)
        self.ax_.set_ylim(bottom=0)
        self.ax_.legend(frameon=False)


@documented
class SpentDisplay(Display):
    """The spent part of a budget's epsilon over time.

    Parameters
    ----------
    times : sequence of datetime.datetime
        Times of the charges, in order.
    epsilons : array-like of shape (n_charges,)
        The epsilon spent after each charge.
    total : float
        Epsilon of the budget, drawn as a line.

    {attributes}

    Examples
    --------
    >>> from skdp import PrivacyBudget
    >>> from skdp.budget import Cost
    >>> from skdp.inspection import SpentDisplay
    >>> budget = PrivacyBudget(1.0)
    >>> for _ in range(3):
    ...     _ = budget.charge(Cost(0.25), estimator="DPMedian")
    >>> SpentDisplay.from_budget(budget).epsilons.tolist()
    [0.25, 0.5, 0.75]
    """

    def __init__(self, times: Sequence[Any], epsilons: Any, total: float) -> None:
        self.times = tuple(times)
        self.epsilons: Floats = np.asarray(epsilons, dtype=np.float64)
        self.total = float(total)

    @classmethod
    def from_budget(cls, budget: PrivacyBudget, *, ax: Axes | None = None) -> SpentDisplay:
        """Plot a budget as its ledger stands now.

        Parameters
        ----------
        {read_budget}
        {plotted}
        """
        _check_budget(budget)
        history = budget.history()
        epsilons = [loss.epsilon for _, loss in history]
        return cls([when for when, _ in history], epsilons, budget.epsilon).plot(ax=ax)

    def _draw(self) -> None:
        self.ax_.step(self.times, self.epsilons, where="post", marker=".", label="spent")
        self.ax_.axhline(self.total, color="black", linestyle="--", label="budget")
        self.ax_.set(ylim=(0, 1.05 * self.total), ylabel="ε")
        self.ax_.tick_params(axis="x", rotation=30)
        self.ax_.legend(frameon=False)


# --- expected errors ------------------------------------------------------------------------------


def _expected(estimator: Any, n_samples: int, epsilon: float, options: dict[str, Any]) -> float:
    """Return the largest expected error; raises where there is too much noise for an answer."""
    error = answers(estimator, n_samples, options)(epsilon)
    return float(np.max(np.asarray(error, dtype=np.float64)))


def _expected_or_nan(
    estimator: Any, n_samples: int, epsilon: float, options: dict[str, Any]
) -> float:
    try:
        return _expected(estimator, n_samples, epsilon, options)
    except ValueError:
        return float("nan")


def _at_most(chance: float) -> str:
    """Return a probability in percent, rounded up."""
    return f"{math.ceil(1000 * chance - 1e-9) / 10:g}%"


@documented
class PrivacyUtilityDisplay(Display):
    """Expected error against epsilon, with a curve for each number of rows.

    Above each epsilon, the plot shows how often the best attacker guesses correctly whether a row
    is in the table, if both cases were equally likely beforehand.

    Parameters
    ----------
    epsilons : array-like of shape (n_epsilons,)
        Ascending, above 0.
    n_samples : array-like of shape (n_curves,)
        Numbers of rows.
    errors : array-like of shape (n_curves, n_epsilons)
        Expected errors; NaN if noise leaves no answer.
    name : str, default=""
        Name of the quantity that has these errors.

    {attributes}

    See Also
    --------
    skdp.choose_epsilon : The epsilon that gives a stated error.

    Examples
    --------
    >>> from skdp import DPStandardScaler
    >>> from skdp.inspection import PrivacyUtilityDisplay
    >>> display = PrivacyUtilityDisplay.from_estimator(
    ...     DPStandardScaler(bounds=(0, 100)), n_samples=[1_000, 10_000], n_features=3
    ... )
    >>> bool(display.errors[1, 0] < display.errors[0, 0])
    True
    """

    def __init__(
        self, epsilons: ArrayLike, n_samples: ArrayLike, errors: ArrayLike, name: str = ""
    ) -> None:
        self.epsilons: Floats = np.asarray(epsilons, dtype=np.float64)
        self.n_samples = np.asarray(n_samples)
        self.errors: Floats = np.asarray(errors, dtype=np.float64)
        if self.errors.shape != (self.n_samples.size, self.epsilons.size):
            raise ValueError("errors must have a row for each n_samples, a column for each epsilon")
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        n_samples: int | Sequence[int],
        epsilons: ArrayLike | None = None,
        ax: Axes | None = None,
        **options: Any,
    ) -> PrivacyUtilityDisplay:
        """Compute the expected errors of an estimator, and plot them; nothing is charged.

        Parameters
        ----------
        estimator : estimator or str
            An estimator with ``expected_error``, or the name of a function of `skdp.statistics`. If
            fits are rehearsed to estimate the error, this is repeated for each epsilon of each
            curve.
        n_samples : int or sequence of int
            A number of rows for each curve.
        epsilons : array-like, default=None
            None: ten from 0.1 to 10.
        {ax}
        **options
            Arguments of ``expected_error``: ``n_features``, ``like``, ... If there are several
            errors, the largest is drawn.

        {display}

        Raises
        ------
        TypeError
            If the estimator has no ``expected_error``.
        ValueError
            If no epsilon has an answer; the message is that of ``expected_error`` at the largest.
        """
        grid = np.geomspace(0.1, 10.0, 10) if epsilons is None else epsilons
        levels = np.atleast_1d(np.asarray(grid, dtype=np.float64))
        sizes = np.atleast_1d(np.asarray(n_samples))
        errors = np.array(
            [
                [_expected_or_nan(estimator, int(n), float(e), options) for e in levels]
                for n in sizes
            ]
        )
        if np.isnan(errors).all():  # raises the error that says why
            _expected(estimator, int(sizes.max()), float(levels.max()), options)
        name = estimator if isinstance(estimator, str) else type(estimator).__name__
        return cls(levels, sizes, errors, name).plot(ax=ax)

    _size = (6, 4.5)

    def _draw(self) -> None:
        for n, curve in zip(self.n_samples, self.errors, strict=True):
            self.ax_.plot(self.epsilons, curve, ".-", label=f"{int(n):,} rows")
        error = f"expected error of {self.name}" if self.name else "expected error"
        self.ax_.set(xscale="log", yscale="log", xlabel="ε", ylabel=error)
        low, high = 0.99 * self.epsilons.min(), 1.01 * self.epsilons.max()
        shown = [e for e in (0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0) if low <= e <= high]
        self.ax_.set_xticks(shown, [f"{e:g}" for e in shown])
        top = self.ax_.secondary_xaxis("top")
        top.set_xticks(shown, [_at_most(guessing_chance(e)) for e in shown])
        top.set_xlabel("an attacker's guess is right at most", fontsize=9)
        for axis in (self.ax_, top):
            axis.minorticks_off()
        self.ax_.legend(frameon=False, fontsize=9)


@documented
class IntervalDisplay(Display):
    """How often intervals contain the truth, against their nominal level.

    For repeated releases on made-up or public rows, so that the truth is known. Shares of
    correct intervals are in the band or above it, 19 times in 20.

    Parameters
    ----------
    levels : array-like of shape (n_levels,)
        Level of the intervals.
    shares : array-like of shape (n_levels,)
        Shares of the intervals that contain the truth.
    n_runs : int
        Number of releases.

    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import statistics
    >>> from skdp.inspection import IntervalDisplay
    >>> x = np.linspace(0, 1, 500)
    >>> runs = [statistics.mean(x, bounds=(0, 1)) for _ in range(100)]
    >>> display = IntervalDisplay.from_releases(runs, 0.5)
    >>> bool((display.shares > display.levels - 0.25).all())
    True
    """

    def __init__(self, levels: ArrayLike, shares: ArrayLike, n_runs: int) -> None:
        self.levels: Floats = np.asarray(levels, dtype=np.float64)
        self.shares: Floats = np.asarray(shares, dtype=np.float64)
        self.n_runs = int(n_runs)

    @classmethod
    def from_releases(
        cls,
        releases: Sequence[Any],
        truth: ArrayLike,
        *,
        levels: ArrayLike | None = None,
        ax: Axes | None = None,
    ) -> IntervalDisplay:
        """Count which intervals contain the truth, and plot the shares.

        Parameters
        ----------
        releases : sequence of skdp.statistics.Released
            Repeated releases on the same rows; for arrays, every entry counts.
        truth : float or array-like
            The exact value without noise, for rows that are public or made up.
        levels : array-like, default=None
            None: 0.5 to 0.99.
        {plotted}
        """
        default = [0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99]
        grid = np.asarray(default if levels is None else levels, dtype=np.float64)
        exact = np.asarray(truth, dtype=np.float64)

        def share(level: float) -> float:
            ends = [released.interval(level) for released in releases]
            return float(np.mean([(low <= exact) & (exact <= high) for low, high in ends]))

        return cls(grid, [share(float(level)) for level in grid], len(releases)).plot(ax=ax)

    _size = (5, 4.5)

    def _draw(self) -> None:
        low, high = (binom.ppf(p, self.n_runs, self.levels) / self.n_runs for p in (0.025, 0.975))
        self.ax_.fill_between(
            self.levels, low, high, color="0.85", label=f"{self.n_runs} runs of exact intervals"
        )
        self.ax_.plot(self.levels, self.levels, color="0.4", linestyle="--", linewidth=1)
        self.ax_.plot(self.levels, self.shares, "o-", label="these intervals")
        self.ax_.set(xlabel="level of the interval", ylabel="share that holds the truth")
        self.ax_.legend(frameon=False, loc="lower right", fontsize=9)


class ErrorExplorer:
    """Sliders for epsilon, delta, the number of rows and the expected error, in a notebook.

    If you move epsilon, delta or the rows, the error follows. If you move the error, epsilon
    follows: the smallest that gives this error. The text below shows how often the best attacker
    guesses correctly whether a row is in the table.

    Parameters
    ----------
    estimator : estimator or str
        An estimator with ``expected_error`` and a parameter `epsilon`, or the name of a function of
        `skdp.statistics`.
    n_samples : int
        The initial number of rows, as far as it is public.
    **options
        Arguments of ``expected_error``: ``n_features``, ``like``, and for a function of
        `skdp.statistics` its parameters.

    Attributes
    ----------
    epsilon, delta, n_samples, error : ipywidgets sliders
        ``epsilon.value`` is the chosen epsilon. `delta` is None if the estimator takes none. If
        there are several errors, `error` is the largest, in the unit of ``expected_error``.
    text : ipywidgets.HTML
        What the choice means.
    widget : ipywidgets.VBox
        All of these; a notebook shows it.

    Raises
    ------
    ImportError
        Without ipywidgets: ``pip install "skdp[notebook]"``.
    TypeError, ValueError
        As `choose_epsilon`, if the estimator has no expected error for these options.

    See Also
    --------
    skdp.choose_epsilon : The same search, without a notebook.
    PrivacyUtilityDisplay : The error against epsilon, as a figure.

    Notes
    -----
    **Privacy.** *Released*: nothing. *Sensitivity*, *mechanism*: none, as no private row is read.
    *Charged*: nothing. The rows of ``like`` and the number of rows must be public.

    If fits are rehearsed to estimate the error, each move takes as long as these fits, and a move
    of the error as long as a dozen of them.

    Examples
    --------
    >>> from skdp import DPStandardScaler
    >>> from skdp.inspection import ErrorExplorer
    >>> explorer = ErrorExplorer(DPStandardScaler(bounds=(0, 100)), n_samples=5_000, n_features=3)
    >>> explorer.epsilon.value = 2.0  # as if it were moved
    >>> bool(explorer.error.value < 0.002)
    True
    """

    def __init__(self, estimator: Any, *, n_samples: int, **options: Any) -> None:
        try:
            widgets = import_module("ipywidgets")
        except ImportError:
            raise ImportError(
                'ErrorExplorer needs ipywidgets: pip install "skdp[notebook]".'
            ) from None
        # The first error is about the arguments, if they are wrong.
        choose_epsilon(
            estimator, error=math.inf, n_samples=n_samples, low=_LOW, high=_HIGH, **options
        )
        self._estimator, self._options, self._moving = estimator, options, False
        is_name = isinstance(estimator, str)
        known = inspect.signature(getattr(statistics, estimator)).parameters if is_name else {}
        stated = options if is_name else estimator.get_params()
        start = 1.0 if is_name else float(stated["epsilon"])
        kwargs = {
            "continuous_update": False,
            "style": {"description_width": "9em"},
            "layout": {"width": "36em"},
        }
        self.epsilon = widgets.FloatLogSlider(
            value=min(max(start, _LOW), _HIGH), min=math.log10(_LOW), max=math.log10(_HIGH),
            step=0.01, description="ε", readout_format=".3g", **kwargs,
        )  # fmt: skip
        self.delta = None
        if "delta" in (known if is_name else stated):
            delta = float(stated.get("delta") or 0.0)
            self.delta = widgets.SelectionSlider(
                options=[(f"{d:g}", d) for d in sorted({*_DELTAS, delta})],
                value=delta, description="δ", **kwargs,
            )  # fmt: skip
        self.n_samples = widgets.FloatLogSlider(
            value=n_samples, min=0, max=max(9, math.ceil(math.log10(n_samples))), step=0.01,
            description="rows", readout_format=",.0f",
            **kwargs,
        )  # fmt: skip
        errors = [self._error_at(epsilon) for epsilon in (_LOW, self.epsilon.value, _HIGH)]
        finite = [error for error in errors if 0 < error < math.inf]
        self.error = widgets.FloatLogSlider(
            value=finite[0], min=math.floor(math.log10(min(finite))) - 1,
            max=math.ceil(math.log10(max(finite))) + 1, step=0.01, description="expected error",
            readout_format=".3g", **kwargs,
        )  # fmt: skip
        self.text = widgets.HTML()
        sliders = [self.epsilon, self.delta, self.n_samples, self.error]
        sliders = [slider for slider in sliders if slider is not None]
        self.widget = widgets.VBox([*sliders, self.text])
        for slider in sliders:
            follow = self._find_epsilon if slider is self.error else self._find_error
            slider.observe(lambda change, follow=follow: self._follow(follow), names="value")
        self._follow(self._find_error)

    def _arguments(self) -> tuple[Any, dict[str, Any]]:
        """Return the estimator and the options at the delta of the slider."""
        if self.delta is None:
            return self._estimator, self._options
        if isinstance(self._estimator, str):
            return self._estimator, {**self._options, "delta": self.delta.value}
        return clone(self._estimator).set_params(delta=self.delta.value), self._options

    def _error_at(self, epsilon: float) -> float:
        estimator, options = self._arguments()
        return _expected_or_nan(estimator, round(self.n_samples.value), epsilon, options)

    def _follow(self, find: Any) -> None:
        """Move the others after one slider; their own moves are not followed."""
        if self._moving:
            return
        self._moving = True
        try:
            self.text.value = find()
        finally:
            self._moving = False

    def _find_error(self) -> str:
        """Show the error of the epsilon that is set."""
        error = self._error_at(self.epsilon.value)
        if not np.isfinite(error) or error <= 0:
            return "Too much noise for an answer: more rows or a larger ε are needed."
        self.error.value = min(max(error, 10**self.error.min), 10**self.error.max)
        return self._meaning(error)

    def _find_epsilon(self) -> str:
        """Show the smallest epsilon that gives the error that is set."""
        estimator, options = self._arguments()
        rows, error = round(self.n_samples.value), self.error.value
        try:
            self.epsilon.value = choose_epsilon(
                estimator, error=error, n_samples=rows, low=_LOW, high=_HIGH, **options
            )
        except ValueError:
            return f"No ε up to {_HIGH:g} has an error this small for {rows:,} rows."
        return self._meaning(self._error_at(self.epsilon.value))

    def _meaning(self, error: float) -> str:
        """Explain the choice in two sentences."""
        epsilon, delta = self.epsilon.value, 0.0 if self.delta is None else self.delta.value
        chance = _at_most(guessing_chance(epsilon, delta))
        return (
            f"Expected error {error:.3g} with ε = {rounded_amount(epsilon, 3):g}, δ = {delta:g} "
            f"and {round(self.n_samples.value):,} rows.<br>Whoever guesses whether a row is in the "
            f"table is right with a probability of at most {chance}; without the release, of 50%."
        )

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        return self.widget._repr_mimebundle_(**kwargs)
