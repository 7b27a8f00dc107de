"""Packages whose modules are imported when a name is first used."""

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

    `names` are its public names, separated by blanks, by the module that holds them. None of them
    may be the name of a module of the package.

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
        setattr(sys.modules[package], name, value)  # the next time, Python finds it
        return value

    def names_of() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return get, names_of
