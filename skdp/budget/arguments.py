"""The checks of what a user hands to a budget, other than numbers (`skdp.loss.conversions`).

Each check raises an error that names the parameter and what it may be.
"""

from __future__ import annotations

import dataclasses
import json
import numbers
import os
from collections.abc import Mapping, Sequence

from skdp.budget.files import is_url
from skdp.budget.schema import Terms
from skdp.budget.urls import check_no_secret, check_path, normal_url
from skdp.exceptions import LedgerError
from skdp.loss.accountants import ACCOUNTANTS
from skdp.loss.conversions import check_delta, check_positive, exact
from skdp.parameters import shown


def path_of(ledger: object) -> str:
    """Return the absolute path of a file that the user named, or raise."""
    if not isinstance(ledger, str | os.PathLike) or isinstance(os.fspath(ledger), bytes):
        raise TypeError("ledger must be None, a str or an os.PathLike of str: a file's path.")
    name = os.fspath(ledger)
    if not name or "\0" in name:
        raise ValueError("ledger must be None or the path of a file; got an empty or odd name.")
    check_path(name, explicit=not isinstance(ledger, str))
    return os.path.realpath(name)


def ledger_path(ledger: object, must_exist: bool) -> str:
    """Return the absolute path (or the URL) of the ledger that the user named, or raise."""
    if is_url(ledger):
        return normal_url(str(ledger))
    path = path_of(ledger)
    if os.path.exists(path) and not os.path.isfile(path):
        raise LedgerError(f"ledger must be the path of a file; {path} is a directory or device.")
    if must_exist and not os.path.exists(path):
        raise LedgerError(f"ledger must exist, because must_exist=True; {path} does not.")
    if not os.path.isdir(os.path.dirname(path)):
        raise LedgerError(f"ledger must lie in a directory that exists; {path} does not.")
    return path


def check_choice(value: object, name: str, allowed: Sequence[str]) -> str:
    """Return one of the words that are allowed, or raise."""
    if not isinstance(value, str) or value not in allowed:
        words = ", ".join(map(repr, allowed))
        raise ValueError(f"{name} must be one of {words}; got {shown(value)}.")
    return value


def check_n_rows(value: object) -> tuple[int, ...]:
    """Return the numbers of rows that a user states, in order, each once."""
    if value is None:
        return ()
    message = "n_rows must be None, an integer of at least 1, or a list of such."
    stated = (value,) if isinstance(value, numbers.Integral) else value
    if not isinstance(stated, list | tuple | set | frozenset) or not stated:
        raise TypeError(message)
    if any(isinstance(n, bool) or not isinstance(n, numbers.Integral) for n in stated):
        raise TypeError(message)
    if not all(1 <= int(n) < 2**63 for n in stated):
        raise ValueError(message)
    return tuple(sorted({int(n) for n in stated}))


def checked_terms(
    epsilon: object,
    delta: object,
    adjacency: object,
    accountant: object,
    separate_delta: object,
    plans: object,
    unit: object = None,
) -> Terms:
    """Return the terms of a budget, or raise; whether its accountant can keep them is its own."""
    terms = Terms(
        check_positive(epsilon, "epsilon"),
        check_delta(delta),
        check_choice(adjacency, "adjacency", ("replace_one", "add_or_remove_one")),
        check_choice(accountant, "accountant", tuple(ACCOUNTANTS)),
        check_delta(separate_delta, "separate_delta"),
        unit=check_unit(unit),
    )
    if ACCOUNTANTS[terms.accountant].planned:
        return dataclasses.replace(terms, plans=check_plans(plans, terms))
    if plans is not None:
        raise ValueError('plans must be None but under accountant="pld".')
    return terms


def check_unit(unit: object) -> str | None:
    """Return the name of the privacy unit, or None for one row, or raise."""
    if unit is None:
        return None
    if not isinstance(unit, str):
        raise TypeError(
            "unit must be None (one row) or the name of the column of ids, such as 'user_id'; got "
            f"{type(unit).__name__}."
        )
    if not unit.strip():
        raise ValueError("unit must be None or a name; got an empty one.")
    if unit.strip() == "row":  # which certificates and displays say of one row
        raise ValueError("unit must be None if it is one row; 'row' cannot be the name of ids.")
    return check_text(unit, "unit")


def check_plans(plans: object, terms: Terms) -> tuple[tuple[float, float], ...]:
    """Return the (epsilon, delta) of each plan, or raise; by default one plan has all."""
    if plans is None:
        return ((terms.epsilon, terms.delta),)
    message = (
        "plans must be None or a list of pairs (epsilon, delta), each with epsilon > 0 and delta "
        "in (0, 1), one for each plan"
    )
    if not isinstance(plans, list | tuple) or not plans:
        raise TypeError(message + ".")
    parts = []
    for pair in plans:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise TypeError(message + ".")
        part = check_positive(pair[0], "epsilon of a plan"), check_delta(pair[1])
        if not part[1]:
            raise ValueError(message + "; got a delta of 0.")
        parts.append(part)
    for i, (name, whole) in enumerate((("epsilon", terms.epsilon), ("delta", terms.delta))):
        if sum(exact(part[i]) for part in parts) > exact(whole):
            raise ValueError(f"The {name}s of all plans must add up to at most {whole!r}.")
    return tuple(parts)


def checked_facts(dataset: object, n_rows: object, terms: Terms) -> dict[str, str]:
    """Return what a ledger says beside its terms, or raise."""
    facts: dict[str, str] = {}
    if dataset is not None:
        facts["dataset"] = check_public(dataset, "dataset")
        if not dataset:
            raise ValueError("dataset must be None or a name; got an empty one.")
    counts = check_n_rows(n_rows)
    if counts:
        if terms.unit is not None:
            raise ValueError(
                f"n_rows must be None where the unit is {terms.unit!r}: how many rows one unit has "
                "is private."
            )
        if terms.adjacency != "replace_one":
            raise ValueError(
                'n_rows must be None under adjacency="add_or_remove_one", where the number of '
                "rows is private."
            )
        facts["n_rows"] = json.dumps(counts)
    return facts


def check_text(value: object, name: str) -> str:
    """Return a str, or raise."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str; got {type(value).__name__}.")
    return value


def check_public(value: object, name: str) -> str:
    """Return a str that stands in the ledger, or raise if it holds the login of a connection."""
    text = check_text(value, name)
    check_no_secret(text, name)
    return text


def ledgers_of_parts(parts: object) -> dict[str, str]:
    """Return the path of each part's ledger, or raise; {} where parts are names alone."""
    if not isinstance(parts, Mapping):
        return {}
    paths = {name: ledger_path(path, must_exist=False) for name, path in parts.items()}
    if len(set(paths.values())) < len(paths):
        raise ValueError("each of parts must have a ledger of its own; two have the same path.")
    return paths


def check_parts(parts: object) -> list[str]:
    """Return the names of disjoint parts, or raise."""
    if isinstance(parts, str) or not isinstance(parts, Mapping | Sequence) or not len(parts):
        raise TypeError("parts must be a list of names, or a dict of names and ledgers' paths.")
    names = [check_text(name, "a name of parts") for name in parts]
    if len(set(names)) < len(names) or not all(names):
        raise ValueError("parts must be different names, none of them empty.")
    return names
