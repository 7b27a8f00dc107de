"""Pages of names whose modules are imported when a name is first asked for.

An estimator that asks two queries is there before the other forty are
read: import time is that of what is used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["page_of"]


def page_of(
    package: str, names: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and the ``__dir__`` of a package.

    Parameters
    ----------
    package : str
        Its name.
    names : mapping of str to str
        By the name of a module below it: what the package shows of it, separated by blanks. None
        of these may be the name of a module of the package, which would hide it.

    Examples
    --------
    >>> get, names = page_of("skdp.loss", {"conversions": "check_delta"})
    >>> get("check_delta").__module__, "check_delta" in names()
    ('skdp.loss.conversions', True)
    """
    homes = {name: module for module, shown in names.items() for name in shown.split()}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)  # so that it is asked for once
        return value

    def names_of() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return get, names_of
