"""Callbacks of scikit-learn 1.9 and later: they are told how many blocks or steps are done.

Nothing private is passed on. A callback gets the estimator, whose attributes are public or released
at every moment, and names and numbers of tasks; rows, labels and the blocks' models are never
among its arguments. When it is called depends on how long tasks take, which is not protected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

__all__ = ["CallbackSupportMixin", "Progress", "told_steps", "with_callbacks"]

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


class Progress:
    """The tasks of a fit as callbacks see them: the fit, its blocks (or steps), each block.

    To be made within a method that `with_callbacks` decorates, before anything that restores the
    estimator's attributes. In its ``with`` block `told_steps` tells of steps.

    Parameters
    ----------
    estimator : estimator
        That is fitted.
    context : sklearn.callback.CallbackContext or None
        Of its fit, with one task below it; None before scikit-learn 1.9.
    name : str, default="block"
        Of a task.
    """

    def __init__(self, estimator: Any, context: Any, name: str = "block") -> None:
        self._estimator = estimator
        self._name = name
        self._root = context
        self._tasks: Any = None
        if context is not None:
            context.call_on_fit_task_begin(estimator=estimator)

    @property
    def of_tasks(self) -> Callable[[int, int], None] | None:
        """What queries on blocks call, ``(done, n_tasks)``; None if nobody listens."""
        listening = getattr(
            self._estimator, "_skl_callbacks", None
        )  # as `set_callbacks` keeps them
        return self._one_more if self._root is not None and listening else None

    def _one_more(self, done: int, n_tasks: int) -> None:
        estimator = self._estimator
        if done == 1:
            self._tasks = self._root.subcontext(f"{self._name}s", max_subtasks=n_tasks)
            self._tasks.call_on_fit_task_begin(estimator=estimator)
        task = self._tasks.subcontext(self._name)
        task.call_on_fit_task_begin(estimator=estimator)
        task.call_on_fit_task_end(estimator=estimator)
        if done == n_tasks:
            self._tasks.call_on_fit_task_end(estimator=estimator)

    def __enter__(self) -> None:
        self._before = _CURRENT.set(self.of_tasks)

    def __exit__(self, *raised: object) -> None:
        _CURRENT.reset(self._before)
        if raised[0] is None:
            self.end()

    def end(self) -> None:
        """Tell that the fit is done."""
        if self._root is not None:
            self._root.call_on_fit_task_end(estimator=self._estimator)


# What the fit of this thread tells of its steps.
_CURRENT: ContextVar[Callable[[int, int], None] | None] = ContextVar("progress", default=None)


def told_steps(n_steps: int) -> Iterator[int]:
    """Yield the numbers of steps, and tell callbacks of the fit around them of each that is done.

    Parameters
    ----------
    n_steps : int
        Public, or computed from what was released.
    """
    told = _CURRENT.get()
    for step in range(n_steps):
        yield step
        if told is not None:
            told(step + 1, n_steps)
