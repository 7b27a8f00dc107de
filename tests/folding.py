"""Tests that try many cases as one item of pytest.

An item costs milliseconds of fixtures, collection and traffic between processes, whatever it tests.
`each` is for rules with hundreds of cases of a millisecond: one item tries all of them, and its
failure names every case that fails.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from skdp.budget import ambient
from skdp.core.noise import entropy

SHOWN = 10  # failing cases that a failure lists


def each(
    names: str | Sequence[str],
    cases: Iterable[Any],
    *,
    ids: Callable[[Any], Any] | Sequence[str] | None = None,
) -> Callable[[Any], Any]:
    """Try every case in one item: `pytest.mark.parametrize`, folded.

    A case starts like an item of its own: with a fresh `monkeypatch` and `tmp_path`, with no
    warning shown and no budget made yet, and with bits of noise that depend on its label alone.
    Other fixtures are made once an item, so a folded test takes none that a case changes
    (`tests/test_suite.py` lists those that it may take).

    Parameters
    ----------
    names : str or sequence of str
        Parameters of the test, as for `parametrize`.
    cases : iterable
        Values, or `pytest.param` with an id and no marks.
    ids : callable or sequence of str, default=None
        Labels of the cases, as for `parametrize`.
    """
    single = isinstance(names, str) and "," not in names
    argnames = [name.strip() for name in names.split(",")] if isinstance(names, str) else [*names]
    listed = list(cases)
    labelled = dict(_labelled(listed, single, ids))
    assert len(labelled) == len(listed), "two cases have one label"

    def fold(test: Any) -> Any:
        signature = inspect.signature(test)
        missing = set(argnames) - set(signature.parameters)
        assert labelled, f"{test.__name__} has no cases"
        assert not missing, f"{test.__name__} has no parameters {missing}"

        @functools.wraps(test)
        def every(**fixtures: Any) -> None:
            failed, skipped = {}, {}
            for label, values in labelled.items():
                with _fresh(fixtures, label) as given:
                    try:
                        test(**given, **dict(zip(argnames, values, strict=True)))
                    except pytest.skip.Exception as reason:
                        skipped[label] = reason
                    except pytest.xfail.Exception as reason:  # of an item, not of a case
                        failed[label] = AssertionError(f"xfail: {reason}")
                    except (Exception, pytest.fail.Exception) as error:
                        failed[label] = error
            _report(failed, len(labelled))
            if len(skipped) == len(labelled):
                raise next(iter(skipped.values()))

        kept = [p for name, p in signature.parameters.items() if name not in argnames]
        every.folded = True  # type: ignore[attr-defined]
        every.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return every

    return fold


def _labelled(cases: list[Any], single: bool, ids: Any) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield (label, values) of each case; labels differ."""
    seen: dict[str, int] = {}
    listed = None if ids is None or callable(ids) else list(ids)
    for i, case in enumerate(cases):
        if hasattr(case, "marks"):  # pytest.param
            assert not case.marks, "a folded case has no marks"
            values, label = case.values, case.id
        else:
            values, label = ((case,) if single else tuple(case)), None
        if label is None and ids is not None:
            chosen = [ids(value) for value in values] if listed is None else [listed[i]]
            named = zip(chosen, values if listed is None else chosen, strict=True)
            label = "-".join(_short(v) if name is None else str(name) for name, v in named)
        if label is None:
            label = "-".join(_short(value) for value in values)
        seen[label] = seen.get(label, 0) + 1
        yield (label if seen[label] == 1 else f"{label} ({seen[label]})"), values


def _short(value: Any) -> str:
    """Return a label of a value: itself where it is short, else the name of its type."""
    text = getattr(value, "__name__", None) or getattr(value, "name", None)
    if not isinstance(text, str):
        text = str(value) if isinstance(value, str | int | float | None) else ""
    return text if 0 < len(text) <= 60 else type(value).__name__


@contextmanager
def _fresh(fixtures: dict[str, Any], label: str) -> Iterator[dict[str, Any]]:
    """Hand a case the item's fixtures as if they were its own."""
    # Of conftest.py; there is none where noise is the system's.
    restart = getattr(entropy.os, "restart", None)
    if restart is not None:
        restart(label)
    ambient._LIVE.clear()  # budgets of other cases: beside one, a fit without a budget warns
    given = dict(fixtures)
    with warnings.catch_warnings():
        if "tmp_path" in given:
            given["tmp_path"] = given["tmp_path"] / str(len(list(given["tmp_path"].iterdir())))
            given["tmp_path"].mkdir()
        if "recwarn" in given:
            given["recwarn"].clear()
        if "monkeypatch" not in given:
            yield given
            return
        with given["monkeypatch"].context() as patched:
            given["monkeypatch"] = patched
            yield given


def _report(failed: dict[str, BaseException], n: int) -> None:
    """Raise what failed: the error itself where it is one, else a list of the cases."""
    if not failed:
        return
    label, first = next(iter(failed.items()))
    if len(failed) == 1:
        first.add_note(f"the case {label!r}, the only one of {n} that fails")
        raise first
    lines = [
        f"  {label}: {type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}"
        for label, error in list(failed.items())[:SHOWN]
    ]
    more = [f"  and {len(failed) - SHOWN} more"] if len(failed) > SHOWN else []
    text = "\n".join([f"{len(failed)} of {n} cases fail:", *lines, *more])
    raise AssertionError(text) from first
