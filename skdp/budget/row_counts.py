"""The numbers of rows that count as public under the relation "replace_one".

Nothing is released here. Under "replace_one" the number of rows of the table is public, and every
fit shows the one it saw. That of a *filtered* table is not, as far as the filter reads private
values. So a budget knows the numbers of the table that were stated, or the first one it saw, and
says so once where a fit has another number. It is a reminder and no proof: a filter may hit a
number that is expected.
"""

from __future__ import annotations

import os
import warnings

from skdp.budget import ambient
from skdp.exceptions import LargeDeltaWarning, PublicRowCountWarning

__all__ = ["RowCounts", "is_part", "warn_unexpected"]

_PARTS = sorted(
    {(j, k) for k in range(2, 11) for j in (1, k - 1)} | {(j, 10) for j in range(1, 10)}
)


def is_part(part: int, whole: int) -> bool:
    """Say whether a table of `whole` rows has a part of `part` rows in a cross-validation.

    That is: one part out of k or all but one, for k up to 10; tenths, for other training and test
    sets; one row alone or all but one. A fraction of a row is rounded either way, as folds do.

    Parameters
    ----------
    part, whole : int
        Numbers of rows.

    Returns
    -------
    is_part : bool
    """
    if part >= whole:
        return part == whole
    if part in (1, whole - 1):
        return True
    return any(part in (whole * j // k, -(-whole * j // k)) for j, k in _PARTS)


class RowCounts:
    """The numbers of rows of one table.

    Parameters
    ----------
    stated : tuple of int
        As the user stated them.
    binds : bool
        Whether the first number that is seen counts, where none is stated. Not in workers, which
        see folds first.
    """

    def __init__(self, stated: tuple[int, ...], *, binds: bool) -> None:
        self.stated, self.binds, self.warned = stated, binds, False
        self._pid = os.getpid()
        self._whole: int | None = None  # the largest number, of which others may be parts
        self._last: int | None = None

    def expects(self, n_rows: int) -> bool:
        """Note a number of rows; return False, once, if it belongs to no table that is known."""
        if self.warned:
            return True
        if self.stated:
            expected = any(is_part(n_rows, whole) for whole in self.stated)
        elif not self.binds or os.getpid() != self._pid:
            return True
        elif self._whole is None or is_part(self._whole, n_rows):
            self._whole, expected = n_rows, True  # what was seen before was a fold of this one
        else:
            # Training folds differ by one row; or it is the test fold of the last training fold.
            wholes = (self._whole, self._whole + 1)
            expected = any(is_part(n_rows, whole) for whole in wholes) or (
                self._last is not None and is_part(self._last, self._last + n_rows)
            )
        self._last, self.warned = n_rows, not expected
        return expected


def warn_unexpected(name: str) -> None:
    """Warn that an estimator or function of this name shows a number of rows not yet public."""
    warnings.warn(
        f"{name} shows a number of rows that is not that of the table of this budget, nor of a "
        'part of it in a cross-validation. Under adjacency="replace_one" the number of rows '
        "counts as public; that of a table that was filtered by private values is not public. If "
        "this number is public, state it: PrivacyBudget(..., n_rows=[...]); else use "
        'adjacency="add_or_remove_one".',
        PublicRowCountWarning,
        stacklevel=ambient.outside_level(),
    )


def warn_of_delta(name: str, delta: float, n_rows: int) -> None:
    """Warn of a delta of 1/n or more, for n rows, with which the publication of a row is private.

    Whoever publishes each row with probability 1/n is (0, 1/n)-private.
    """
    if delta * n_rows >= 1:
        warnings.warn(
            f"{name}: delta={delta:g} is 1/n or more for n={n_rows} rows: such a delta permits "
            "publishing a row. State one that is far below 1/n.",
            LargeDeltaWarning,
            stacklevel=ambient.outside_level(),
        )
