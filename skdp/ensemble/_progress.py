"""Callbacks of scikit-learn 1.9 and later: they are told how many blocks are done.

Nothing private is passed on. A callback gets the estimator, whose attributes are public or released
at every moment, and names and numbers of tasks; rows, labels and the blocks' models are never
among its arguments. When it is called depends on how long blocks take, which is not protected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["BlockProgress", "CallbackSupportMixin", "with_callbacks"]

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in for that of scikit-learn; there is no ``set_callbacks`` then."""

        def _init_callback_context(self, **options: Any) -> None:
            return None

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method."""
        return method


class BlockProgress:
    """The tasks of a fit as callbacks see them: the fit, its blocks, each block.

    To be made within a method that `with_callbacks` decorates, before anything that restores the
    estimator's attributes.

    Parameters
    ----------
    estimator : estimator
        That is fitted.
    context : sklearn.callback.CallbackContext or None
        Of its fit, with one task below it; None before scikit-learn 1.9.
    """

    def __init__(self, estimator: Any, context: Any) -> None:
        self._estimator = estimator
        self._root = context
        self._blocks: Any = None
        if context is not None:
            context.call_on_fit_task_begin(estimator=estimator)

    @property
    def of_blocks(self) -> Callable[[int, int], None] | None:
        """What the queries on blocks call, ``(done, n_blocks)``; None if nobody listens."""
        listening = getattr(
            self._estimator, "_skl_callbacks", None
        )  # as `set_callbacks` keeps them
        return self._one_more if self._root is not None and listening else None

    def _one_more(self, done: int, n_blocks: int) -> None:
        estimator = self._estimator
        if done == 1:
            self._blocks = self._root.subcontext("blocks", max_subtasks=n_blocks)
            self._blocks.call_on_fit_task_begin(estimator=estimator)
        block = self._blocks.subcontext("block")
        block.call_on_fit_task_begin(estimator=estimator)
        block.call_on_fit_task_end(estimator=estimator)
        if done == n_blocks:
            self._blocks.call_on_fit_task_end(estimator=estimator)

    def end(self) -> None:
        """Tell that the fit is done."""
        if self._root is not None:
            self._root.call_on_fit_task_end(estimator=self._estimator)
