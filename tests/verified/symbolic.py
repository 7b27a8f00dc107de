"""Run shipped functions on symbolic numbers, and ask a solver for a counterexample.

A function that compares two symbolic numbers takes both ways: it runs once for every sequence of
answers (a *path*). On each path the solver gets what was assumed about the inputs, the answers of
the path, and the negation of the claim. If the solver proves that no input meets all three, on
every path, the claim holds for all inputs.

`SymbolicDouble` is an IEEE 754 double (rounding to nearest, ties to even). NumPy calls its
operators when it stands in an object array, so the shipped code runs with numpy itself.
`SymbolicInteger` is an integer of any size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

# Pytest imports this file in search of doctests.
bitwuzla = pytest.importorskip("bitwuzla", reason="needs the extra 'verified'")
z3 = pytest.importorskip("z3", reason="needs the extra 'verified'")

DOUBLE, TO_NEAREST = z3.Float64(), z3.RNE()
MILLISECONDS = 100_000  # for one query to a solver; the slowest takes about half a second

# --- paths --------------------------------------------------------------------------------------


class Paths:
    """The answers to comparisons of the run in progress, and the paths still to be run."""

    def __init__(self) -> None:
        self.pending: list[list[bool]] = [[]]
        self.planned: list[bool] = []
        self.answers: list[tuple[bool, Any]] = []

    def start(self) -> None:
        """Begin the next path."""
        self.planned, self.answers = self.pending.pop(), []

    def decide(self, condition: Any) -> bool:
        """Answer a comparison as planned; a new one with True, and plan the other answer."""
        position = len(self.answers)
        if position < len(self.planned):
            answer = self.planned[position]
        else:
            answer = True
            self.pending.append([*(earlier for earlier, _ in self.answers), False])
        self.answers.append((answer, condition))
        return answer

    def conditions(self) -> list[Any]:
        """Return what the answers of this path say about the inputs."""
        return [condition if answer else z3.Not(condition) for answer, condition in self.answers]


_PATHS = Paths()


def counterexample(
    run: Callable[[], Any],
    assumptions: Sequence[Any],
    claim: Callable[[Any], Any],
    ask: Callable[[z3.Solver], str],
) -> tuple[int, str]:
    """Return the number of paths that were run, and "none" or why the claim is not proved.

    A path on which the function raises must be one that no assumed input takes.

    Parameters
    ----------
    run : callable
        Calls the shipped function on symbolic inputs.
    assumptions : sequence of z3 conditions on the inputs
    claim : callable
        From the result of `run` to the condition that must hold.
    ask : callable
        `bitwuzla_answer` or `z3_answer`.
    """
    global _PATHS
    _PATHS, n_paths = Paths(), 0
    while _PATHS.pending:
        _PATHS.start()
        try:
            claimed, kind = claim(run()), "found"
        except Exception as error:  # no input that is assumed may come here
            claimed, kind = z3.BoolVal(False), f"raised {error!r}"
        solver = z3.Solver()
        solver.add(*assumptions, *_PATHS.conditions(), z3.Not(claimed))
        answer, n_paths = ask(solver), n_paths + 1
        if answer != "unsat":
            return n_paths, kind if answer == "sat" else answer
    return n_paths, "none"


def bitwuzla_answer(solver: z3.Solver) -> str:
    """Ask Bitwuzla about conditions on doubles: z3 alone takes 200 times as long."""
    text = "(set-logic QF_FP)\n" + solver.sexpr()
    options = bitwuzla.Options()
    options.set(bitwuzla.Option.TIME_LIMIT_PER, MILLISECONDS)
    parser = bitwuzla.Parser(bitwuzla.TermManager(), options)
    parser.parse(text, True, False)
    return str(parser.bitwuzla().check_sat()).rpartition(".")[2].lower()


def z3_answer(solver: z3.Solver) -> str:
    """Ask z3."""
    solver.set("timeout", MILLISECONDS)
    return str(solver.check())


# --- doubles ------------------------------------------------------------------------------------


def double(value: Any) -> Any:
    """Return the solver's term of a symbolic or an ordinary double."""
    return value.term if isinstance(value, SymbolicDouble) else z3.FPVal(float(value), DOUBLE)


class SymbolicDouble:
    """A double of unknown value; arithmetic makes terms, a comparison decides a path."""

    def __init__(self, term: Any) -> None:
        self.term = term

    def __sub__(self, other: Any) -> SymbolicDouble:
        return SymbolicDouble(z3.fpSub(TO_NEAREST, self.term, double(other)))

    def __rsub__(self, other: Any) -> SymbolicDouble:
        return SymbolicDouble(z3.fpSub(TO_NEAREST, double(other), self.term))

    def __mul__(self, other: Any) -> SymbolicDouble:
        return SymbolicDouble(z3.fpMul(TO_NEAREST, self.term, double(other)))

    def __rmul__(self, other: Any) -> SymbolicDouble:
        return SymbolicDouble(z3.fpMul(TO_NEAREST, double(other), self.term))

    def __truediv__(self, other: Any) -> SymbolicDouble:
        return SymbolicDouble(z3.fpDiv(TO_NEAREST, self.term, double(other)))

    def __rtruediv__(self, other: Any) -> SymbolicDouble:
        return SymbolicDouble(z3.fpDiv(TO_NEAREST, double(other), self.term))

    def __neg__(self) -> SymbolicDouble:
        return SymbolicDouble(z3.fpNeg(self.term))

    def __lt__(self, other: Any) -> bool:
        return _PATHS.decide(z3.fpLT(self.term, double(other)))

    def __gt__(self, other: Any) -> bool:
        return _PATHS.decide(z3.fpGT(self.term, double(other)))

    def __le__(self, other: Any) -> bool:
        return _PATHS.decide(z3.fpLEQ(self.term, double(other)))

    def __ge__(self, other: Any) -> bool:
        return _PATHS.decide(z3.fpGEQ(self.term, double(other)))

    def rint(self) -> SymbolicDouble:
        """Round to the nearest integer; ``numpy.rint`` calls it on each entry."""
        return SymbolicDouble(z3.fpRoundToIntegral(TO_NEAREST, self.term))


def doubles(names: str) -> list[Any]:
    """Return terms for doubles with these one-letter names, any value."""
    return [z3.FP(name, DOUBLE) for name in names]


def array_of(*terms: Any) -> np.ndarray:
    """Return an object array of symbolic doubles."""
    array = np.empty(len(terms), dtype=object)
    array[:] = [SymbolicDouble(term) for term in terms]
    return array


def is_finite(term: Any) -> Any:
    """Neither NaN nor infinite."""
    return z3.And(z3.Not(z3.fpIsNaN(term)), z3.Not(z3.fpIsInf(term)))


def is_whole(term: Any) -> Any:
    """Equal to its nearest integer."""
    return z3.fpEQ(z3.fpRoundToIntegral(TO_NEAREST, term), term)


class NumpyForSymbols:
    """NumPy, with a `rint` that also takes plain floats among symbolic ones.

    ``numpy.clip`` puts its bounds, which are plain floats, into the object array; ``numpy.rint``
    of an object array then finds floats, which have no method `rint`.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def rint(self, values: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Round every entry of a table to the nearest integer."""
        rounded = np.empty(values.shape, dtype=object)
        for place, value in np.ndenumerate(values):
            symbolic = isinstance(value, SymbolicDouble)
            rounded[place] = value.rint() if symbolic else float(np.rint(value))
        if out is None:
            return rounded
        out[...] = rounded
        return out


# --- integers -----------------------------------------------------------------------------------


def integer(value: Any) -> Any:
    """Return the solver's term of a symbolic or an ordinary integer."""
    return value.term if isinstance(value, SymbolicInteger) else z3.IntVal(int(value))


class SymbolicInteger:
    """An integer of unknown value; arithmetic makes terms, a comparison decides a path.

    A shift to the right by a known number of bits is the division by a power of two that rounds
    down, as in Python: z3's division by a positive number rounds down, too.
    """

    def __init__(self, term: Any) -> None:
        self.term = term

    def __add__(self, other: Any) -> SymbolicInteger:
        return SymbolicInteger(self.term + integer(other))

    __radd__ = __add__

    def __sub__(self, other: Any) -> SymbolicInteger:
        return SymbolicInteger(self.term - integer(other))

    def __rsub__(self, other: Any) -> SymbolicInteger:
        return SymbolicInteger(integer(other) - self.term)

    def __mul__(self, other: Any) -> SymbolicInteger:
        return SymbolicInteger(self.term * integer(other))

    __rmul__ = __mul__

    def __neg__(self) -> SymbolicInteger:
        return SymbolicInteger(-self.term)

    def __rshift__(self, bits: int) -> SymbolicInteger:
        return SymbolicInteger(self.term / z3.IntVal(2**bits))

    def __bool__(self) -> bool:
        return _PATHS.decide(self.term != 0)

    def __lt__(self, other: Any) -> bool:
        return _PATHS.decide(self.term < integer(other))

    def __gt__(self, other: Any) -> bool:
        return _PATHS.decide(self.term > integer(other))

    def __le__(self, other: Any) -> bool:
        return _PATHS.decide(self.term <= integer(other))

    def __ge__(self, other: Any) -> bool:
        return _PATHS.decide(self.term >= integer(other))

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return _PATHS.decide(self.term == integer(other))


def integers(names: str) -> list[Any]:
    """Return terms for integers with these one-letter names, any value."""
    return [z3.Int(name) for name in names]
