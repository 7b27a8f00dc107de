"""Displays of error: against epsilon before a fit, of intervals that were released, of components.

Nothing is released here: a display is computed from public numbers, from fitted attributes, or from
what was released of rows that are nobody's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from skdp import statistics
from skdp.budget import guessing_chance
from skdp.inspection._budget import new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["ComponentsDisplay", "IntervalDisplay", "PrivacyUtilityDisplay"]

Floats = NDArray[np.float64]


def largest_expected(
    estimator: Any, n_samples: int, epsilon: float, options: dict[str, Any]
) -> float:
    """Return the largest expected error; NaN where there is too much noise for an answer."""
    try:
        if isinstance(estimator, str):
            found = statistics.expected_error(estimator, n_samples, epsilon=epsilon, **options)
        else:
            model = clone(estimator).set_params(epsilon=epsilon)
            found = model.expected_error(n_samples, **options)
    except ValueError:
        return float("nan")
    return float(np.max(np.asarray(found, dtype=np.float64)))


def at_most(chance: float) -> str:
    """Return a probability in percent, rounded up."""
    return f"{math.ceil(1000 * chance - 1e-9) / 10:g}%"


class PrivacyUtilityDisplay:
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

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the last plot.
    figure_ : matplotlib Figure
        Figure of the last plot.

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

    ax_: Axes
    figure_: Figure

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
        ax : matplotlib Axes, default=None
            Axes to draw on; a new figure if None.
        **options
            Arguments of ``expected_error``: ``n_features``, ``like``, ... If there are several
            errors, the largest is drawn.

        Returns
        -------
        display : PrivacyUtilityDisplay
            The display, already plotted.

        Raises
        ------
        TypeError
            If the estimator has no ``expected_error``.
        ValueError
            If no epsilon has an answer; the message is that of ``expected_error`` at the largest.
        """
        if not isinstance(estimator, str) and not hasattr(estimator, "expected_error"):
            raise TypeError(f"{type(estimator).__name__} has no expected_error to draw")
        grid = np.geomspace(0.1, 10.0, 10) if epsilons is None else epsilons
        asked = np.atleast_1d(np.asarray(grid, dtype=np.float64))
        sizes = np.atleast_1d(np.asarray(n_samples))
        errors = np.array(
            [[largest_expected(estimator, int(n), float(e), options) for e in asked] for n in sizes]
        )
        if np.isnan(errors).all():  # says what is wrong with the arguments
            n, e = int(sizes.max()), float(asked.max())
            if isinstance(estimator, str):
                statistics.expected_error(estimator, n, epsilon=e, **options)
            else:
                clone(estimator).set_params(epsilon=e).expected_error(n, **options)
        name = estimator if isinstance(estimator, str) else type(estimator).__name__
        return cls(asked, sizes, errors, name).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> PrivacyUtilityDisplay:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; a new figure if None.

        Returns
        -------
        self : PrivacyUtilityDisplay
            This display.
        """
        self.ax_, self.figure_ = new_axes(ax, figsize=(6, 4.5))
        for n, curve in zip(self.n_samples, self.errors, strict=True):
            self.ax_.plot(self.epsilons, curve, ".-", label=f"{int(n):,} rows")
        self.ax_.set_xscale("log")
        self.ax_.set_yscale("log")
        shown = [e for e in (0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0) if self._holds(e)]
        self.ax_.set_xticks(shown, [f"{e:g}" for e in shown])
        self.ax_.set_xlabel("ε")
        self.ax_.set_ylabel(f"expected error of {self.name}" if self.name else "expected error")
        top = self.ax_.secondary_xaxis("top")
        top.set_xticks(shown, [at_most(guessing_chance(e)) for e in shown])
        top.set_xlabel("an attacker's guess is right at most", fontsize=9)
        for axis in (self.ax_, top):
            axis.minorticks_off()
        self.ax_.legend(frameon=False, fontsize=9)
        return self

    def _holds(self, epsilon: float) -> bool:
        return bool(0.99 * self.epsilons.min() <= epsilon <= 1.01 * self.epsilons.max())


class IntervalDisplay:
    """How often intervals contain the truth, against their nominal level.

    For repeated releases on rows that belong to nobody, so that the truth is known.

    Parameters
    ----------
    levels : array-like of shape (n_levels,)
        Level of the intervals.
    shares : array-like of shape (n_levels,)
        Shares of the intervals that contain the truth.
    n_runs : int
        Number of releases.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the last plot.
    figure_ : matplotlib Figure
        Figure of the last plot.

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

    ax_: Axes
    figure_: Figure

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
        releases : sequence of skdp.statistics.Released or skdp.metrics.Estimate
            Repeated releases on the same rows; for arrays, every entry counts.
        truth : float or array-like
            The exact value without noise, for rows that are public or made up.
        levels : array-like, default=None
            None: 0.5 to 0.99.
        ax : matplotlib Axes, default=None
            Axes to draw on; a new figure if None.

        Returns
        -------
        display : IntervalDisplay
            The display, already plotted.
        """
        asked = [0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99] if levels is None else levels
        grid = np.asarray(asked, dtype=np.float64)
        exact = np.asarray(truth, dtype=np.float64)

        def share(level: float) -> float:
            ends = [one.interval(level) for one in releases]
            return float(np.mean([(low <= exact) & (exact <= high) for low, high in ends]))

        return cls(grid, [share(float(level)) for level in grid], len(releases)).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> IntervalDisplay:
        """Draw the shares; those of correct intervals are in the band or above it, 19 times in 20.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; a new figure if None.

        Returns
        -------
        self : IntervalDisplay
            This display.
        """
        self.ax_, self.figure_ = new_axes(ax, figsize=(5, 4.5))
        low, high = (binom.ppf(p, self.n_runs, self.levels) / self.n_runs for p in (0.025, 0.975))
        self.ax_.fill_between(
            self.levels, low, high, color="0.85", label=f"{self.n_runs} runs of exact intervals"
        )
        self.ax_.plot(self.levels, self.levels, color="0.4", linestyle="--", linewidth=1)
        self.ax_.plot(self.levels, self.shares, "o-", label="these intervals")
        self.ax_.set_xlabel("level of the interval")
        self.ax_.set_ylabel("share that holds the truth")
        self.ax_.legend(frameon=False, loc="lower right", fontsize=9)
        return self


class ComponentsDisplay:
    """Variances along private principal components, and which of them noise hides.

    Parameters
    ----------
    variances : array-like of shape (n_components,)
        Released variances, in decreasing order, corrected for noise.
    n_resolved : int
        Number of components (the first ones) that are clear of the noise.
    noise_level : float, default=nan
        The largest variance that noise alone would show, before the correction.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the last plot.
    figure_ : matplotlib Figure
        Figure of the last plot.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPPCA
    >>> from skdp.inspection import ComponentsDisplay
    >>> X = np.random.default_rng(0).normal(size=(5000, 4)) * [3, 2, 0.1, 0.1]
    >>> pca = DPPCA(center=0.0, norm_bound=10.0, epsilon=5.0, delta=1e-6).fit(X)
    >>> ComponentsDisplay.from_estimator(pca).variances.shape
    (4,)
    """

    ax_: Axes
    figure_: Figure

    def __init__(
        self, variances: ArrayLike, n_resolved: int, noise_level: float = float("nan")
    ) -> None:
        self.variances: Floats = np.asarray(variances, dtype=np.float64)
        self.n_resolved = int(n_resolved)
        self.noise_level = float(noise_level)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None) -> ComponentsDisplay:
        """Plot the spectrum of a fitted `DPPCA`.

        Parameters
        ----------
        estimator : DPPCA
            Fitted.
        ax : matplotlib Axes, default=None
            Axes to draw on; a new figure if None.

        Returns
        -------
        display : ComponentsDisplay
            The display, already plotted.
        """
        check_is_fitted(estimator, ["explained_variance_", "n_resolved_", "noise_level_"])
        display = cls(estimator.explained_variance_, estimator.n_resolved_, estimator.noise_level_)
        return display.plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> ComponentsDisplay:
        """Draw a bar for each component; those that noise hides are hollow.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; a new figure if None.

        Returns
        -------
        self : ComponentsDisplay
            This display.
        """
        self.ax_, self.figure_ = new_axes(ax, figsize=(6, 4))
        place = np.arange(1, self.variances.size + 1)
        seen = place <= self.n_resolved
        for mask, fill, label in (
            (seen, True, "clear of the noise"),
            (~seen, False, "about as good as a random direction"),
        ):
            if mask.any():
                face = "tab:blue" if fill else "none"
                self.ax_.bar(
                    place[mask], self.variances[mask], color=face, edgecolor="tab:blue", label=label
                )
        if np.isfinite(self.noise_level):
            self.ax_.set_title(
                f"noise alone shows up to {self.noise_level:.3g} before it is taken off",
                fontsize=10,
            )
        self.ax_.set_xlabel("component")
        self.ax_.set_ylabel("variance along it")
        self.ax_.legend(frameon=False, fontsize=9)
        return self
