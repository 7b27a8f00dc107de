"""``%%dpsql`` in a notebook: a query in a cell, its answer below. Post-processing of `Answer`."""

from __future__ import annotations

import shlex
import sys
from typing import Any

from skdp.sql._database import PrivateDatabase

__all__ = ["dpsql", "load_ipython_extension", "told"]

_USAGE = "%%dpsql DATABASE [--epsilon E] [--delta D] [--explain] [--to NAME] [--progress]"


def told(done: int, steps: int, what: str) -> None:
    """Write how far a query is to the error stream, in one line."""
    end = "\n" if done == steps else ""
    print(f"\r{done}/{steps} {what:<30}", end=end, file=sys.stderr, flush=True)  # noqa: T201


def dpsql(line: str, cell: str, names: dict[str, Any]) -> Any:
    """Answer a cell: its line names a `PrivateDatabase` and parameters; ``--to`` keeps the answer.

    Parameters
    ----------
    line, cell : str
    names : dict
        Of the notebook.

    Returns
    -------
    answer : Answer or str

    Raises
    ------
    ValueError
        If the line does not name a database, or has other options.
    """
    parts = shlex.split(line)
    database = names.get(parts[0]) if parts else None
    if not isinstance(database, PrivateDatabase):
        raise ValueError(
            f"DATABASE must be the name of a variable with a PrivateDatabase. Usage: {_USAGE}"
        )
    parameters: dict[str, Any] = {}
    explain, to = False, ""
    progress: dict[str, Any] = {}
    rest = iter(parts[1:])
    for part in rest:
        if part == "--explain":
            explain = True
        elif part == "--progress":
            progress["progress"] = told
        elif part in ("--epsilon", "--delta"):
            parameters[part[2:]] = _number(part, next(rest, ""))
        elif part == "--to":
            to = next(rest, "")
        else:
            raise ValueError(f"{part!r} is not an option. Usage: {_USAGE}")
    if explain:
        return database.explain(cell, **parameters)
    answer = database.sql(cell, **parameters, **progress)
    if to:
        names[to] = answer
    return answer


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{option} must be followed by a number. Usage: {_USAGE}") from None


def load_ipython_extension(ipython: Any) -> None:
    """Add the SQL magic to a notebook, on ``%load_ext skdp.sql``.

    Parameters
    ----------
    ipython : InteractiveShell
    """

    def magic(line: str, cell: str) -> Any:
        found = dpsql(line, cell, ipython.user_ns)
        return print(found) if isinstance(found, str) else found  # noqa: T201

    ipython.register_magic_function(magic, "cell", "dpsql")
