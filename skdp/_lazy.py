"""Packages whose modules are imported when a name is first used."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pkgutil import get_data
from typing import Any

__all__ = ["page_of"]


def page_of(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and the ``__dir__`` of a package.

    Its public names are those that its block for type checkers imports, from where it has them.
    None of them may be the name of a module of the package.

    Examples
    --------
    >>> get, names = page_of("skdp.queries")
    >>> get("Labels").__module__, "Labels" in names()
    ('skdp.queries.cells', True)
    """
    block = next(
        node
        for node in ast.parse(get_data(package, "__init__.py") or b"").body
        if isinstance(node, ast.If)
    )
    homes = {
        alias.name: str(node.module)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)  # the next time, Python finds it
        return value

    def names_of() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return get, names_of
