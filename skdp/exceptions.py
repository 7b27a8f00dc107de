"""The errors and warnings of skdp. Their texts hold public values only.

Nothing is released here. Every class derives from the built-in that a caller of
scikit-learn would catch for the same reason, so that existing error handling keeps working.
"""

from __future__ import annotations

__all__ = [
    "BudgetExceededError",
    "FoldsWarning",
    "LedgerError",
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

    Fits before it stay charged, such as those of the earlier steps of a pipeline.
    """


class SealedBudgetError(RuntimeError):
    """The budget's ledger is not reachable from here, so nothing can be charged to it.

    A model that was pickled with its budget and loaded where the ledger is gone still
    predicts and transforms; fitting it raises this error.
    """


class LedgerError(RuntimeError):
    """The ledger file cannot be used: not a ledger, read-only, locked, or the disk is full.

    Nothing was charged, and no noise was drawn.
    """


class PrivacyLeakError(RuntimeError):
    """Code asked a session for something that no release pays for.

    Examples are the number of rows where the neighbouring relation makes it private, or a
    release beyond the session's allowance. It marks a bug in the caller; nothing was released.
    """


class QueryRefusedError(ValueError):
    """A query asks for what cannot be answered privately, or is no SQL; nothing was charged.

    The text says why, where in the query, and what would work. It depends on the query and on the
    declared tables, never on a row.
    """


class SourceError(RuntimeError):
    """A table in parts cannot be read, or no longer as it was when it was checked.

    Files may vanish or grow, and engines fail, where a table in memory cannot. The text is fixed
    and quotes neither a cell nor the part. Nothing is released; what was charged stays charged.
    """


class FoldsWarning(UserWarning):
    """A search or cross-validation whose folds are not neighbouring, so its charges do not add up.

    Where the number of rows is private, one record more moves others between folds drawn by
    position or by labels: each of them changes fits that are priced for one record.
    """


class PublicRowCountWarning(UserWarning):
    """A fit under "replace_one" shows a number of rows that is not known to be public.

    Under that relation the number of rows of the table counts as public. That of a table filtered
    by private values is not.
    """


class PublishedRowsWarning(UserWarning):
    """A fit publishes raw private rows, because it was asked for by the name that says so.

    Each private row is shown to everybody with the probability that was charged as delta.
    """


class SeededNoiseWarning(UserWarning):
    """A fit that charges a budget draws its noise from ``random_state``.

    That happens inside ``skdp.config_context(noise="seeded")`` only. Whoever knows the seed can
    subtract the noise: leave the context for any release that leaves your hands.
    """


class UncountedFitWarning(UserWarning):
    """A fit names no budget, in a process that has one: no ledger counts what it releases."""
