"""A widget for notebooks: error, rows, epsilon and delta; move one, and see the others.

Nothing is released here, nothing private is read, and nothing charged: it asks ``expected_error``
and `choose_epsilon`. ipywidgets is imported when a widget is made.
"""

from __future__ import annotations

import inspect
import math
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import clone

from skdp import statistics
from skdp.budget import guessing_chance
from skdp.inspection._utility import at_most, largest_expected
from skdp.model_selection._choose_epsilon import choose_epsilon

__all__ = ["ErrorExplorer"]

_LOW, _HIGH = 0.01, 10.0
_DELTAS = (0.0, *(10.0**k for k in range(-12, -3)))


def _takes_delta(estimator: Any) -> bool:
    """Say whether an estimator, or a function of `skdp.statistics`, has a delta."""
    if isinstance(estimator, str):
        return "delta" in inspect.signature(getattr(statistics, estimator)).parameters
    return "delta" in estimator.get_params()


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
        # Tells first what is wrong with the arguments.
        choose_epsilon(
            estimator, error=math.inf, n_samples=n_samples, low=_LOW, high=_HIGH, **options
        )
        self._estimator, self._options, self._moving = estimator, options, False
        start = 1.0 if isinstance(estimator, str) else float(estimator.get_params()["epsilon"])
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
        if _takes_delta(estimator):
            stated = options.get("delta", 0.0)
            stated = stated if isinstance(estimator, str) else estimator.get_params()["delta"]
            self.delta = widgets.SelectionSlider(
                options=[(f"{d:g}", d) for d in sorted({*_DELTAS, float(stated)})],
                value=float(stated), description="δ", **kwargs,
            )  # fmt: skip
        self.n_samples = widgets.FloatLogSlider(
            value=n_samples, min=0, max=max(9, math.ceil(math.log10(n_samples))), step=0.01,
            description="rows", readout_format=",.0f",
            **kwargs,
        )  # fmt: skip
        seen = [self._expected(epsilon) for epsilon in (_LOW, self.epsilon.value, _HIGH)]
        known = [error for error in seen if 0 < error < math.inf]
        self.error = widgets.FloatLogSlider(
            value=known[0], min=math.floor(math.log10(min(known))) - 1,
            max=math.ceil(math.log10(max(known))) + 1, step=0.01, description="expected error",
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

    def _expected(self, epsilon: float) -> float:
        """Return the largest expected error of an epsilon."""
        estimator, options = self._arguments()
        return largest_expected(estimator, round(self.n_samples.value), epsilon, options)

    def _follow(self, find: Any) -> None:
        """Move the others after one slider; what this moves is not followed itself."""
        if self._moving:
            return
        self._moving = True
        try:
            self.text.value = find()
        finally:
            self._moving = False

    def _find_error(self) -> str:
        """Show the error of the epsilon that is set."""
        error = self._expected(self.epsilon.value)
        if not np.isfinite(error) or error <= 0:
            return "Too much noise for an answer: more rows or a larger ε are needed."
        self.error.value = min(max(error, 10**self.error.min), 10**self.error.max)
        return self._told(error)

    def _find_epsilon(self) -> str:
        """Show the smallest epsilon that buys the error that is set."""
        estimator, options = self._arguments()
        rows, error = round(self.n_samples.value), self.error.value
        try:
            self.epsilon.value = choose_epsilon(
                estimator, error=error, n_samples=rows, low=_LOW, high=_HIGH, **options
            )
        except ValueError:
            return f"No ε up to {_HIGH:g} has an error this small for {rows:,} rows."
        return self._told(self._expected(self.epsilon.value))

    def _told(self, error: float) -> str:
        """Return what the choice means, in a sentence each."""
        epsilon, delta = self.epsilon.value, 0.0 if self.delta is None else self.delta.value
        chance = at_most(guessing_chance(epsilon, delta))
        return (
            f"Expected error {error:.3g} with ε = {epsilon:.3g}, δ = {delta:g} and "
            f"{round(self.n_samples.value):,} rows.<br>Whoever guesses whether a row is in the "
            f"table is right with a probability of at most {chance}; without the release, of 50%."
        )

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        return self.widget._repr_mimebundle_(**kwargs)
