"""Cells of odd types, and what becomes of rows of them."""

from __future__ import annotations

import warnings

import numpy as np

from skdp.tabular import check_rows, check_table


class Counter:
    """Is no number, though it would convert to another one each time."""

    count = 0.0

    def __float__(self):
        Counter.count += 1
        return Counter.count

    def __array__(self, dtype=None, copy=None):
        return np.array(float(self))


def outcome(read):
    """Return what `read` gives, or the type and text of its error, which stands alone."""
    raised = None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return read()
        except (TypeError, ValueError) as error:
            raised = error
    assert raised.__cause__ is None
    assert raised.__context__ is None
    assert "SECRET" not in str(raised)
    return type(raised), str(raised)


def image(X):
    return np.concatenate(list(check_rows(X, estimator="T").chunks()))[:, :2]


def kept(X):
    """Return the rows without missing cells, where those with some are left out."""
    rows, _ = check_table(X, estimator="T", omit=True, allow_empty=True)
    return np.concatenate([np.empty((0, rows.n_features)), *rows.chunks()])[:, :2]
