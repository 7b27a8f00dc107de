"""The errors and warnings of skdp. Their messages contain public values only.

Each class derives from the built-in class that callers of scikit-learn would catch for the same
reason, so existing error handling keeps working.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Any

__all__ = [
    "BudgetExceededError",
    "FoldsWarning",
    "LargeDeltaWarning",
    "LedgerError",
    "NonPrivatePartWarning",
    "PrivacyLeakError",
    "PublicRowCountWarning",
    "PublishedRowsWarning",
    "QueryRefusedError",
    "SealedBudgetError",
    "SeededNoiseWarning",
    "SourceError",
    "UncountedFitWarning",
]


class BudgetExceededError(ValueError):
    """The privacy budget does not cover the requested charge; nothing was charged for it.

    Earlier fits stay charged, such as those of the earlier steps of a pipeline. What to do then is
    in "Get started", "When nothing is left".

    Parameters
    ----------
    message : str, default=""
        What does not fit, and what to do.
    cost : skdp.budget.Cost, default=None
        The price that does not fit, where it is one of a ledger.
    remaining : skdp.budget.PrivacyLoss, default=None
        What was left.
    """

    def __init__(self, message: str = "", *, cost: Any = None, remaining: Any = None) -> None:
        super().__init__(message)
        self.cost, self.remaining = cost, remaining


class SealedBudgetError(RuntimeError):
    """The budget's ledger is not reachable from here, so nothing can be charged to it.

    A model that was pickled with its budget, and loaded where the ledger does not exist, can still
    predict and transform. Fitting it raises this error.
    """


class LedgerError(RuntimeError):
    """The ledger cannot be used: not a ledger, read-only, locked, the disk is full, no answer.

    No noise was drawn. Nothing was charged, unless the message says that a server did not answer a
    commit: such a charge may count.
    """


class PrivacyLeakError(RuntimeError):
    """Code asked a session for private information that no release covers: a bug in the caller.

    Examples are a number of rows that is private, or a release beyond the session's allowance.
    Nothing was released.
    """


class QueryRefusedError(ValueError):
    """A query cannot be answered privately, or is not valid SQL; nothing was charged.

    The message says why, where in the query, and what would work. It depends only on the query and
    the declared tables, never on a row.
    """


class SourceError(RuntimeError):
    """A table in parts cannot be read, or has changed since it was checked.

    The message is fixed, and quotes neither a cell nor the part. Nothing is released; what was
    charged stays charged.
    """


class FoldsWarning(UserWarning):
    """A search or cross-validation whose folds are not neighbouring, so its charges do not add up.

    If the number of rows is private and folds are drawn by position or by labels, one more record
    moves other records between folds. All of these change fits that are priced for one record.
    """


class LargeDeltaWarning(UserWarning):
    """A delta is 1/n or more for the n rows of a table, whose number is public or stated.

    Such a delta permits publishing a row. It should be far below 1/n.
    """


class NonPrivatePartWarning(UserWarning):
    """A private fit inside a caller that shows its rows without noise; no budget pays for that.

    Examples are `GridSearchCV` with a scorer that is not private, and a pipeline with a plain
    `StandardScaler`. It comes before the fit is charged, once a process for each kind of caller
    and each reason. Filter it where the rows are public.
    """


class PublicRowCountWarning(UserWarning):
    """A fit under "replace_one" shows a number of rows that is not known to be public.

    Under this relation the number of rows of the table is public, but not that of a table that was
    filtered by private values.
    """


class PublishedRowsWarning(UserWarning):
    """A fit publishes raw private rows, because this was requested explicitly.

    Each private row is published with the probability that was charged as delta.
    """


class SeededNoiseWarning(UserWarning):
    """A fit that charges a budget draws its noise from ``random_state``.

    This happens only inside ``skdp.config_context(noise="seeded")``. Whoever knows the seed can
    subtract the noise, so leave the context for anything that you publish.
    """


class UncountedFitWarning(UserWarning):
    """A fit names no budget in a process that has one, so no ledger counts what it releases."""


# --- where a warning points -----------------------------------------------------------------------

_LIBRARIES = ("skdp", "sklearn", "joblib", "contextlib")


def outside_level() -> int:
    """Return the `stacklevel` of the first caller outside skdp and the libraries that run it."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] not in _LIBRARIES:
            return level
        level, frame = level + 1, frame.f_back
    return level


def warn_caller(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn the first caller outside skdp and the libraries that run it."""
    warnings.warn(text, category, stacklevel=outside_level())


# What a fit holds back; None outside of fits, and where warnings are turned off.
LATE: ContextVar[list[tuple[str, type[Warning]]] | None] = ContextVar("late", default=None)


def warn_at_end(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the first caller outside skdp; inside a fit, when what it paid for is kept."""
    late = LATE.get()
    if late is None:
        warn_caller(text, category)
    else:
        late.append((text, category))


@contextmanager
def warnings_at_end() -> Iterator[None]:
    """Hold back what `warn_at_end` says until the block ends without an error.

    A filter may make errors of warnings, and an error inside a fit undoes it.
    """
    late: list[tuple[str, type[Warning]]] = []
    outer = LATE.set(late)
    try:
        yield
    finally:
        LATE.reset(outer)
    for text, category in late:
        warn_caller(text, category)


def action_of_filters(text: str, category: type[Warning], frame: FrameType) -> str:
    """Return the current filters' action for a warning at this frame's line, such as "ignore"."""
    module = frame.f_globals.get("__name__", "")
    for action, message, kind, where, line in warnings.filters:
        if (
            issubclass(category, kind)
            and (message is None or re.match(message, text))
            and (where is None or re.match(where, module))
            and line in (0, frame.f_lineno)
        ):
            return action  # the first of the list counts
    return "default"
