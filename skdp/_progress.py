"""Callbacks of scikit-learn 1.9 and later: told of fits, and how many blocks or steps are done.

Nothing private is passed on. A callback gets the estimator, whose attributes are public or released
at every moment, and names and numbers of tasks; rows, labels and the blocks' models are never
among its arguments. When it is called depends on how long tasks take, which is not protected.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Self

__all__ = ["CallbackSupportMixin", "Progress", "listener", "tell_callbacks", "told_steps"]

if TYPE_CHECKING:

    class CallbackSupportMixin:
        """That of scikit-learn, whose types are not stated."""

        def set_callbacks(self, *callbacks: Any) -> Self: ...

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]: ...

else:
    try:
        from sklearn.callback import CallbackSupportMixin, with_callbacks
    except ImportError:  # scikit-learn before 1.9: nothing can be told

        class CallbackSupportMixin:
            """Stands in for that of scikit-learn; there is no ``set_callbacks`` then."""

        def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
            return method


def tell_callbacks(kind: type[Any]) -> None:
    """Have the fit that a class defines tell callbacks of its begin, its end and its steps."""
    fit = vars(kind).get("fit")
    if inspect.isfunction(fit):
        kind.fit = _telling(fit)


def _telling(fit: Callable[..., Any]) -> Callable[..., Any]:
    @with_callbacks
    def heard(self: Any, *args: Any, **options: Any) -> Any:
        context = self._init_callback_context(max_subtasks=self._n_progress_tasks)
        with Progress(self, context, self._progress_task):
            return fit(self, *args, **options)

    @functools.wraps(fit)
    def told(self: Any, *args: Any, **options: Any) -> Any:
        if hasattr(self, "_callback_fit_ctx"):  # the fit of a base, within one that tells already
            return fit(self, *args, **options)
        if getattr(self, "_skl_callbacks", None):  # as `set_callbacks` keeps them
            return heard(self, *args, **options)
        # What is fitted within another fit is none of that one's steps.
        before = _CURRENT.set(None)
        try:
            return fit(self, *args, **options)
        finally:
            _CURRENT.reset(before)

    return told


class Progress:
    """The tasks of a fit as callbacks see them: the fit, its blocks (or steps), each block.

    In its ``with`` block `told_steps` tells of steps.

    Parameters
    ----------
    estimator : estimator
        That is fitted.
    context : sklearn.callback.CallbackContext
        Of its fit, with one task below it if it has blocks or steps.
    name : str, default="block"
        Of a task.
    """

    def __init__(self, estimator: Any, context: Any, name: str = "block") -> None:
        self._estimator = estimator
        self._name = name
        self._root = context
        self._tasks: Any = None
        context.call_on_fit_task_begin(estimator=estimator)

    def _one_more(self, done: int, n_tasks: int | None) -> None:
        estimator = self._estimator
        if self._tasks is None:
            self._tasks = self._root.subcontext(f"{self._name}s", max_subtasks=n_tasks)
            self._tasks.call_on_fit_task_begin(estimator=estimator)
        task = self._tasks.subcontext(self._name)
        task.call_on_fit_task_begin(estimator=estimator)
        task.call_on_fit_task_end(estimator=estimator)
        if done == n_tasks:
            self._end_tasks()

    def _end_tasks(self) -> None:
        if self._tasks is not None:
            self._tasks.call_on_fit_task_end(estimator=self._estimator)
        self._tasks = None

    def __enter__(self) -> None:
        self._before = _CURRENT.set(self._one_more)

    def __exit__(self, *raised: object) -> None:
        _CURRENT.reset(self._before)
        if raised[0] is None:
            self._end_tasks()  # whose number nobody knew
            self._root.call_on_fit_task_end(estimator=self._estimator)


# What the fit of this thread tells of its blocks or steps.
_CURRENT: ContextVar[Callable[[int, int | None], None] | None] = ContextVar(
    "progress", default=None
)


def listener() -> Callable[[int, int | None], None] | None:
    """Return what queries on blocks call, ``(done, n_tasks)``; None if nobody listens."""
    return _CURRENT.get()


def told_steps(n_steps: int | None) -> Iterator[int]:
    """Yield the numbers of steps, and tell callbacks of the fit around them of each that is done.

    Parameters
    ----------
    n_steps : int or None
        Public, or computed from what was released; None where it shows on the way.
    """
    told = _CURRENT.get()
    for step in itertools.count() if n_steps is None else range(n_steps):
        yield step
        if told is not None:
            told(step + 1, n_steps)
