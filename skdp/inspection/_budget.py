"""Displays of a budget: what was spent on what, at which delta, and when.

Nothing is released here, and nothing is charged: a display is computed from a ledger.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skdp.budget import PrivacyBudget

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["BudgetDisplay", "PrivacyCurveDisplay", "SpentDisplay", "new_axes"]

_SPENT_COLORS = "tab10"
_REMAINING_COLOR = "0.9"


def new_axes(ax: Axes | None, figsize: tuple[float, float] = (7, 5)) -> tuple[Axes, Figure]:
    """Return the axes to draw on and their figure, both new unless axes are given."""
    try:
        from matplotlib import pyplot
    except ImportError:
        message = "plotting needs matplotlib: python -m pip install matplotlib"
        raise ImportError(message) from None
    if ax is None:
        _, ax = pyplot.subplots(figsize=figsize, layout="constrained")
    return ax, ax.figure  # type: ignore[return-value]  # not on a SubFigure, as far as we plot


class BudgetDisplay:
    """One bar: what each estimator spent of a budget's epsilon, and what remains.

    All charges of an estimator are drawn as one segment. Under accountants that do not add
    epsilons, the segments are scaled so that their sum is what is spent.

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

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the last plot.
    figure_ : matplotlib Figure
        Figure of the last plot.

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

    ax_: Axes
    figure_: Figure

    def __init__(
        self, labels: Sequence[str], epsilons: Any, remaining: float, caption: str = ""
    ) -> None:
        self.labels = tuple(labels)
        self.epsilons: NDArray[np.float64] = np.asarray(epsilons, dtype=np.float64)
        self.remaining = float(remaining)
        self.caption = caption

    @classmethod
    def from_budget(cls, budget: PrivacyBudget, *, ax: Axes | None = None) -> BudgetDisplay:
        """Plot a budget as its ledger stands now.

        Parameters
        ----------
        budget : PrivacyBudget
            Its ledger is read; nothing is charged.
        ax : matplotlib Axes, default=None
            Axes to draw on; a new figure if None.

        Returns
        -------
        display : BudgetDisplay
            The display, already plotted.
        """
        if not isinstance(budget, PrivacyBudget):
            raise TypeError(f"budget must be a PrivacyBudget, got {type(budget).__name__}.")
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
            f"ε = {spent.epsilon:g} of {budget.epsilon:g} and "
            f"δ = {spent.delta:g} of {budget.delta:g} spent"
        )
        display = cls(labels, scaled, remaining.epsilon, caption)
        return display.plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> BudgetDisplay:
        """Draw the bar.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; a new figure if None.

        Returns
        -------
        self : BudgetDisplay
            This display.
        """
        self.ax_, self.figure_ = new_axes(ax, figsize=(8, 1.8))
        from matplotlib import colormaps
        from matplotlib.transforms import ScaledTranslation

        colors = colormaps[_SPENT_COLORS]
        left = 0.0
        for i, (label, epsilon) in enumerate(zip(self.labels, self.epsilons, strict=True)):
            self._segment(left, epsilon, label, colors(i % colors.N))
            left += epsilon
        # What `split` leaves by rounding its shares down is nothing that anyone could draw or use.
        if self.remaining > 1e-9 * left or left == 0:
            self._segment(left, self.remaining, "remaining", _REMAINING_COLOR)
        self.ax_.set_xlim(0, left + self.remaining or 1.0)
        self.ax_.set_yticks([])
        self.ax_.set_xlabel("ε")
        self.ax_.set_title(self.caption)
        below = ScaledTranslation(0, -32 / 72, self.figure_.dpi_scale_trans)  # of the label: 32 pt
        self.ax_.legend(
            loc="upper center",
            bbox_to_anchor=(0.5, 0),
            bbox_transform=self.ax_.transAxes + below,
            ncols=4,
            frameon=False,
            fontsize=9,
        )
        return self

    def _segment(self, left: float, width: float, label: str, color: Any) -> None:
        """Draw one part of the bar; its legend entry carries the amount."""
        self.ax_.barh(
            [0], [width], left=left, color=color, edgecolor="white", label=f"{label}: {width:.3g}"
        )


class PrivacyCurveDisplay:
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

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the last plot.
    figure_ : matplotlib Figure
        Figure of the last plot.

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

    ax_: Axes
    figure_: Figure

    def __init__(
        self,
        deltas: Any,
        epsilons: Any,
        point: tuple[float, float] | None = None,
        caption: str = "",
    ) -> None:
        self.deltas: NDArray[np.float64] = np.asarray(deltas, dtype=np.float64)
        self.epsilons: NDArray[np.float64] = np.asarray(epsilons, dtype=np.float64)
        self.point, self.caption = point, caption

    @classmethod
    def from_budget(
        cls, budget: PrivacyBudget, *, n_points: int = 41, ax: Axes | None = None
    ) -> PrivacyCurveDisplay:
        """Plot what was charged to a budget, as its ledger stands now.

        Parameters
        ----------
        budget : PrivacyBudget
            Its ledger is read; nothing is charged.
        n_points : int, default=41
            Number of deltas, from 1e-12 to 0.1.
        ax : matplotlib Axes, default=None
            Axes to draw on; a new figure if None.

        Returns
        -------
        display : PrivacyCurveDisplay
            The display, already plotted.
        """
        if not isinstance(budget, PrivacyBudget):
            raise TypeError(f"budget must be a PrivacyBudget, got {type(budget).__name__}.")
        deltas = np.geomspace(1e-12, 0.1, n_points)
        caption = f"spent under the accountant {budget.accountant}"
        point = (budget.epsilon, budget.delta)
        return cls(deltas, budget.curve(deltas.tolist()), point, caption).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> PrivacyCurveDisplay:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; a new figure if None.

        Returns
        -------
        self : PrivacyCurveDisplay
            This display.
        """
        self.ax_, self.figure_ = new_axes(ax)
        shown = np.isfinite(self.epsilons)
        self.ax_.plot(self.deltas[shown], self.epsilons[shown], label="spent")
        if self.point is not None and self.point[1] > 0:
            self.ax_.plot([self.point[1]], [self.point[0]], "o", color="black", label="budget")
        self.ax_.set_xscale("log")
        self.ax_.set_ylim(bottom=0)
        self.ax_.set_xlabel("δ")
        self.ax_.set_ylabel("ε")
        self.ax_.set_title(self.caption)
        self.ax_.legend(frameon=False)
        return self


class SpentDisplay:
    """The spent part of a budget's epsilon over time.

    Parameters
    ----------
    times : sequence of datetime.datetime
        Times of the charges, in order.
    epsilons : array-like of shape (n_charges,)
        The epsilon spent after each charge.
    total : float
        Epsilon of the budget, drawn as a line.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the last plot.
    figure_ : matplotlib Figure
        Figure of the last plot.

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

    ax_: Axes
    figure_: Figure

    def __init__(self, times: Sequence[Any], epsilons: Any, total: float) -> None:
        self.times = tuple(times)
        self.epsilons: NDArray[np.float64] = np.asarray(epsilons, dtype=np.float64)
        self.total = float(total)

    @classmethod
    def from_budget(cls, budget: PrivacyBudget, *, ax: Axes | None = None) -> SpentDisplay:
        """Plot a budget as its ledger stands now.

        Parameters
        ----------
        budget : PrivacyBudget
            Its ledger is read; nothing is charged.
        ax : matplotlib Axes, default=None
            Axes to draw on; a new figure if None.

        Returns
        -------
        display : SpentDisplay
            The display, already plotted.
        """
        if not isinstance(budget, PrivacyBudget):
            raise TypeError(f"budget must be a PrivacyBudget, got {type(budget).__name__}.")
        history = budget.history()
        epsilons = [loss.epsilon for _, loss in history]
        return cls([when for when, _ in history], epsilons, budget.epsilon).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> SpentDisplay:
        """Draw the steps.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; a new figure if None.

        Returns
        -------
        self : SpentDisplay
            This display.
        """
        self.ax_, self.figure_ = new_axes(ax)
        self.ax_.step(self.times, self.epsilons, where="post", marker=".", label="spent")
        self.ax_.axhline(self.total, color="black", linestyle="--", label="budget")
        self.ax_.set_ylim(0, 1.05 * self.total)
        self.ax_.set_ylabel("ε")
        self.ax_.tick_params(axis="x", rotation=30)
        self.ax_.legend(frameon=False)
        return self
