"""Keeps experiment trackers away from what skdp runs inside of a fit.

mlflow's autolog replaces ``fit`` of every estimator of scikit-learn and of other libraries by one
that writes parameters and ``score(X)`` of the training rows to its server. Inside of a private fit
that would be exact scores of models of a few private rows (`DPSubsampleAggregate`), or a model of
released points in the place of the fit itself (`DPKMeans`).

Guarantee: nothing here weakens a release; where mlflow is not imported, nothing is done.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator

__all__ = ["untracked"]

_lock = threading.Lock()
_inside = 0  # blocks that are open, in all threads: mlflow's switch is one for the process
_switched_off = contextlib.ExitStack()


def _switch_off() -> None:
    mlflow = sys.modules.get("mlflow.utils.autologging_utils")
    switch = getattr(mlflow, "disable_autologging", None)
    # Leaving mlflow's block switches logging on, also for those who had switched it off before.
    if switch is not None and not getattr(mlflow, "_AUTOLOGGING_GLOBALLY_DISABLED", False):
        _switched_off.enter_context(switch())


@contextlib.contextmanager
def untracked() -> Iterator[None]:
    """Switch mlflow's autologging off while code of others runs inside of a fit.

    Examples
    --------
    >>> with untracked():
    ...     pass  # nothing that is fitted here is logged
    """
    global _inside
    with _lock:
        if _inside == 0:
            _switch_off()
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _switched_off.close()
