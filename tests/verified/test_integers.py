"""Sensitivities are right for all integers: shipped functions on symbolic integers.

z3 looks for a counterexample on every path. The functions are short and have no loops; those that
take square roots call C code, and `test_coq_link` compares them on a domain instead.
"""

from __future__ import annotations

from skdp.core.mechanisms import Independent, after_shortening
from skdp.core.query import Query, moved_by
from skdp.core.table import REPLACE_ONE, Stability

ABOUT = ("skdp/core/mechanisms.py", "skdp/core/query.py", "skdp/core/table.py")
NEEDS = ("bitwuzla", "z3")


def test_a_shortened_statistic(symbolic, record_property):
    """`after_shortening` is the least s with (s - moved) 2**bits >= sensitivity.

    Domain: all sensitivities above 0, all `moved` of at least 0, 1 to 40 bits.
    """
    import z3

    size, moved = symbolic.integers("sm")
    n_paths = 0
    for bits in range(1, 41):

        def least(result, bits=bits):
            short, step = symbolic.integer(result) - moved, 2**bits
            return z3.And(short * step >= size, (short - 1) * step < size)

        n, found = symbolic.counterexample(
            lambda bits=bits: after_shortening(
                symbolic.SymbolicInteger(size), bits, symbolic.SymbolicInteger(moved)
            ),
            [size > 0, moved >= 0],
            least,
            symbolic.z3_answer,
        )
        assert found == "none"
        n_paths += n
    record_property("paths", n_paths)


def stability(symbolic, replacements, additions):
    """Return a `Stability` of symbolic numbers."""
    return Stability(symbolic.SymbolicInteger(replacements), symbolic.SymbolicInteger(additions))


def part_of_both(replacements, additions, replaced, added):
    """Say that `replaced` and `added` rows are a change that the stability allows."""
    import z3

    return [
        replacements >= 0,
        additions >= 0,
        replacements + additions >= 1,
        replaced >= 0,
        added >= 0,
        z3.Implies(replacements == 0, replaced == 0),
        z3.Implies(additions == 0, added == 0),
        # i / replacements + j / additions <= 1; with one of both alone, that one.
        z3.If(
            additions == 0,
            replaced <= replacements,
            z3.If(
                replacements == 0,
                added <= additions,
                replaced * additions + added * replacements <= replacements * additions,
            ),
        ),
    ]


def test_steps_of_a_stability(symbolic, record_property):
    """No change that a stability allows is of more than `Stability.steps` steps.

    A replaced row is two steps where rows may be added or removed. Domain: all integers.
    """
    import z3

    r, a, i, j = symbolic.integers("raij")

    n_paths, found = symbolic.counterexample(
        lambda: stability(symbolic, r, a).steps,
        part_of_both(r, a, i, j),
        lambda steps: z3.If(a == 0, i, 2 * i + j) <= symbolic.integer(steps),
        symbolic.z3_answer,
    )
    record_property("paths", n_paths)
    assert found == "none"


def test_a_query_moves_by_no_more_than_moved_by(symbolic, record_property):
    """The L1 bound of `moved_by` covers every change that a stability allows.

    Domain: all stabilities, all sensitivities of at least 0 for either relation. A change of i
    replaced and j added or removed rows moves the answer by i times one and j times the other.
    """
    r, a, i, j, by_replaced, by_added = symbolic.integers("raijxy")

    class Stated(Query):
        """A query with symbolic sensitivities."""

        def sensitivity(self, relation):
            size = symbolic.SymbolicInteger(by_replaced if relation == REPLACE_ONE else by_added)
            return Independent(size, size * size)

    n_paths, found = symbolic.counterexample(
        lambda: moved_by(Stated, Stated(), stability(symbolic, r, a)).l1,
        [*part_of_both(r, a, i, j), by_replaced >= 0, by_added >= 0],
        lambda bound: i * by_replaced + j * by_added <= symbolic.integer(bound),
        symbolic.z3_answer,
    )
    record_property("paths", n_paths)
    assert found == "none"


def test_a_false_claim_about_steps_is_refuted(symbolic):
    """Control: that a replaced row is one step has a counterexample."""
    r, a, i, j = symbolic.integers("raij")
    _, found = symbolic.counterexample(
        lambda: stability(symbolic, r, a).additions,
        part_of_both(r, a, i, j),
        lambda additions: i + j <= symbolic.integer(additions),
        symbolic.z3_answer,
    )
    assert found == "found"
