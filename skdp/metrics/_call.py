"""What the functions of this package share: the check of classes, and one session with one query.

Nothing is released here but by `counted`, which asks for one table of counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._parameters import different_labels
from skdp._public_key import public_key
from skdp.base import CallContext
from skdp.confidence.equations import Floats, Noise
from skdp.core import PrivacyCertificate
from skdp.queries import MAX_TABLE, Marginal
from skdp.tabular import CodedRows

__all__ = ["classes_of", "context_of", "counted"]

_LABELS = (
    "labels must be all classes, from public knowledge: a sequence of different labels of one "
    "type, {least}, none missing"
)


def classes_of(labels: Any, *, exactly: int | None = None) -> tuple[NDArray, NDArray[np.intp]]:
    """Return public classes, sorted, and the place of each given label among them.

    Raises
    ------
    TypeError, ValueError
        If they are no different labels of one type, or not so many.
    """
    least = "at least two" if exactly is None else f"exactly {exactly}, the positive one last"
    problem = _LABELS.format(least=least)
    known, order = different_labels(labels, problem)
    number_fits = known.size >= 2 if exactly is None else known.size == exactly
    if not number_fits:
        raise ValueError(problem)
    if (known.size + 1) ** 2 > MAX_TABLE:
        raise ValueError(f"labels: there must be at most {int(MAX_TABLE**0.5) - 1} classes")
    return known, order


def context_of(name: str, options: Mapping[str, Any]) -> CallContext:
    """Return what a call is, of this moment; raise for wrong privacy parameters."""
    first = {key: options[key] for key in ("epsilon", "delta", "budget", "random_state")}
    units = {key: options[key] for key in ("groups", "max_rows_per_unit")}
    return CallContext(name, **first, **units)


def counted(
    name: str, rows: CodedRows, columns: tuple[int, ...], public: Any, **options: Any
) -> tuple[Floats, Noise, PrivacyCertificate]:
    """Charge, and release the table of counts of some columns of coded rows.

    Parameters
    ----------
    name : str
        Of the function, in ledger and certificate.
    public : object
        What keys seeded noise beside the rows: classes, edges.
    **options
        Privacy parameters of the function.
    """
    context = context_of(name, options)
    context.unit()
    with context.open(rows, lambda: public_key((name, public))) as session:
        release = session.answer(Marginal(rows.sizes, columns))
        noise = Noise(float(np.max(release.std)), session.pure)
        privacy = session.certificate()
    return np.array(release.value, dtype=np.float64), noise, privacy
