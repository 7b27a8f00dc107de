"""What a loss means, in a sentence: how much surer an attacker may become.

Nothing is released here: public numbers only.
"""

from __future__ import annotations

import math

from skdp.loss.conversions import guessing_chance

__all__ = ["attacker_sentence"]


def attacker_sentence(epsilon: float, delta: float, adjacency: str, unit: str | None = None) -> str:
    """Say what a loss lets an attacker do; nothing where nothing was lost.

    Parameters
    ----------
    epsilon, delta : float
    adjacency : {"replace_one", "add_or_remove_one", ""}
        Empty where it is not known.
    unit : str, default=None
        None: a row.

    Examples
    --------
    >>> attacker_sentence(1.0, 0.0, "add_or_remove_one").partition("beforehand, ")[2]
    'is right with a probability of at most 73.2%.'
    """
    if not epsilon and not delta:
        return ""
    chance = guessing_chance(epsilon, min(delta, 1.0)) if math.isfinite(epsilon) else 1.0
    unit = "row" if unit is None else unit
    guess = {
        "replace_one": f"between two contents of one {unit}",
        "add_or_remove_one": f"whether one {unit} is in the table",
    }.get(adjacency, f"between two tables that one {unit} tells apart")
    return (
        f"Whoever knows all the rest and guesses {guess}, with even chances beforehand, is right "
        f"with a probability of at most {math.ceil(1000 * chance) / 10:g}%."
    )
