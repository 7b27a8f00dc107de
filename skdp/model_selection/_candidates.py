"""The candidates of scikit-learn's searches, and how many of them are fitted how often.

Nothing is released here and no row is read.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.utils import check_random_state

from skdp.base.leaks import is_halving
from skdp.model_selection._splits import number_of_splits, splitter_of

_MOST_CHOICES = 1000  # candidates that are priced one by one where the draw is not known


def candidates_of(
    search: Any, n_samples: int | None = None, groups: Any = None
) -> tuple[list[Any], int | None]:
    """Return the candidates of a search, or (what they may be, how many) if they are random.

    Raises
    ------
    TypeError, ValueError
        If they cannot be known, with the reason and the way out.
    """
    chosen, number = _choices(search, n_samples, groups)
    made = [clone(search.estimator).set_params(**clone(choice, safe=False)) for choice in chosen]
    return made, number


def _choices(
    search: Any, n_samples: int | None, groups: Any
) -> tuple[list[dict[str, Any]], int | None]:
    """Return the parameters of the candidates, or (what they may be, how many) if random."""
    params = search.get_params(deep=False)
    if "param_grid" in params:
        found, number = list(ParameterGrid(params["param_grid"])), None
    else:
        found, number = _drawn(search, params, n_samples, groups)
    if params.get("resource", "n_samples") != "n_samples":
        # The resource grows from round to round; no round uses more than max_resources.
        found = [{**one, params["resource"]: params["max_resources"]} for one in found]
    return found, number


def _drawn(
    search: Any, params: Mapping[str, Any], n_samples: int | None, groups: Any
) -> tuple[list[dict[str, Any]], int | None]:
    """Return what is drawn from lists and distributions, or what may be, and how many are."""
    halving = is_halving(search)
    number = _first_round(params, n_samples, groups) if halving else int(params["n_iter"])
    random_state, distributions = params["random_state"], params["param_distributions"]
    known = check_random_state(random_state) is not check_random_state(None)
    # A halving search draws again from a generator that it shares with its splitter.
    if known and not (halving and isinstance(random_state, np.random.RandomState)):
        sampler = ParameterSampler(distributions, number, random_state=copy.deepcopy(random_state))
        return list(sampler), None
    # Any parameter may change the cost, so all that may be drawn are priced.
    grids = [distributions] if isinstance(distributions, Mapping) else list(distributions)
    drawn = [name for grid in grids for name, values in grid.items() if hasattr(values, "rvs")]
    if drawn:
        raise ValueError(
            f"random_state must be an int to price a search that draws {drawn[0]} from a "
            "distribution"
        )
    grid = ParameterGrid(grids)
    if len(grid) > _MOST_CHOICES:
        raise ValueError(
            f"random_state must be an int to price a search with more than {_MOST_CHOICES} "
            "candidates to draw from"
        )
    return list(grid), min(number, len(grid)) if halving else number


def _first_round(params: Mapping[str, Any], n_samples: int | None, groups: Any) -> int:
    """Return how many candidates a random halving search begins with, at most."""
    if params["n_candidates"] != "exhaust":
        return int(params["n_candidates"])
    least, most = params["min_resources"], params["max_resources"]
    if least == "exhaust":
        raise ValueError("n_candidates and min_resources cannot be both 'exhaust'")
    by_rows = params["resource"] == "n_samples"
    if most == "auto" or (by_rows and least == "smallest"):
        if not by_rows:
            raise ValueError("max_resources must be an integer for a resource other than rows")
        if n_samples is None:
            raise ValueError(
                "n_samples must be given to price a search with n_candidates='exhaust', whose "
                "number of candidates depends on it; or state n_candidates"
            )
    most = n_samples if most == "auto" else most
    if least == "smallest":
        # Times the number of classes in y, which is not known: at least one.
        splits = number_of_splits(splitter_of(params["cv"]), n_samples, groups) if by_rows else 0
        least = max(2 * splits, 1)
    if most < least:
        raise ValueError(f"min_resources={least} is more than there is: max_resources={most}")
    return int(most // least)


def halving_fits(n_candidates: int, factor: float) -> int:
    """Return an upper bound of the candidates that successive halving fits, over all rounds."""
    fits, left = 0, n_candidates
    for _ in range(1 + math.floor(math.log(n_candidates, factor))):
        fits += left
        left = math.ceil(left / factor)
    return fits
