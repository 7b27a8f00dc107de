"""Privacy bugs that the checkers of this folder must catch, each with the test that must fail.

They are planted by `plant.py`, in the way of the contract's (`tests/contract/planted.py`).
"""

from __future__ import annotations

from planted import Mutant

CHOICE = "tests/verified/test_choice.py::"
CLIPPING = "tests/verified/test_clipping.py::"
CONVERSIONS = "tests/verified/test_conversions.py::"
COQ = "tests/verified/test_coq_link.py::"
FILTER = "tests/verified/test_filter.py::"
INTEGERS = "tests/verified/test_integers.py::"
NEIGHBOURS = "tests/verified/test_neighbours.py::"
NOISE = "tests/verified/test_noise.py::"
SCALES = "tests/verified/test_scales.py::"


def _bug(name: str, module: str, old: str, new: str, *tests: str) -> Mutant:
    return Mutant(name, f"skdp.{module}", ((old, new),), tests)


BUGS = (
    # --- noise ------------------------------------------------------------------------------------
    _bug(
        "a first byte is accepted by the near end of a cell", "core.noise.deviates",
        "_floor_of_exp(Fraction(256 * level, n[i]), h(i + 1))",
        "_floor_of_exp(Fraction(256 * level, n[i]), h(i))",
        f"{NOISE}test_first_words",
    ),
    _bug(
        "the normal density is off by a ten-millionth", "core.noise.deviates",
        "(ax + near) * 0.5 if", "(ax + near) * 0.5000001 if",
        f"{NOISE}test_thresholds",
    ),
    _bug(
        "entries of one cell lie in the next", "core.noise.deviates",
        "left = np.concatenate([signed.astype(np.int64) << 42",
        "left = np.concatenate([(signed + (signed == 7)).astype(np.int64) << 42",
        f"{NOISE}test_thresholds",
    ),
    _bug(
        "negative noise is rounded down", "core.noise.additive",
        "out[part] = y  # the conversion truncates", "out[part] = np.floor(y)",
        f"{NOISE}test_a_draw_is_composed_of_these_parts",
    ),
    _bug(
        "minus zero is kept", "core.noise.additive",
        "again = zero[_negative(drawn, zero)]", "again = zero[:0]",
        f"{NOISE}test_a_draw_is_composed_of_these_parts",
    ),
    # --- choices ----------------------------------------------------------------------------------
    _bug(
        "a uniform integer may be n", "core.noise.exact",
        "        if value < n:", "        if value <= n:",
        f"{CHOICE}test_uniform_integers_are_uniform",
    ),
    _bug(
        "weights are those of a rate that is 1% larger", "core.noise.exponential",
        "x = rate * (digit << (_DIGIT * k))",
        "x = rate * (digit << (_DIGIT * k)) * Fraction(101, 100)",
        f"{CHOICE}test_exponential_mechanism",
    ),
    # --- the filter -------------------------------------------------------------------------------
    _bug(
        "the last share may be larger than what remains", "core.privacy_filter",
        "if self._shares.spent + fraction > 1:", "if self._shares.spent > 1:",
        f"{FILTER}test_every_sequence_of_requests[pure]",
    ),
    _bug(
        "levels are rounded up", "core.privacy_filter",
        "return math.sqrt(float(fraction)) * self.mu * (1 - 2**-50)",
        "return math.sqrt(float(fraction)) * self.mu * (1 + 2**-50)",
        f"{FILTER}test_every_sequence_of_requests[gaussian]",
    ),
    _bug(
        "the separate delta may be taken again", "core.privacy_filter",
        "self._filter._separate_delta_is_spent = self._filter._is_paid = True",
        "self._filter._is_paid = True",
        f"{FILTER}test_every_sequence_of_requests[pure, separate delta]",
    ),
    _bug(
        "what remains is kept twice: the old allowance is not emptied", "core.privacy_filter",
        "            old.spent = Fraction(1)", "            pass",
        f"{FILTER}test_every_sequence_of_requests[pure]",
        f"{FILTER}test_every_sequence_of_requests[gaussian]",
    ),
    _bug(
        "all of an allowance is kept, not what remains of it", "core.privacy_filter",
        "self._shares = _Shares(old.part * (1 - old.spent))", "self._shares = _Shares(old.part)",
        f"{FILTER}test_every_sequence_of_requests[pure]",
    ),
    _bug(
        "half a step is a step", "core.privacy_filter",
        "    if type(steps) is not int or steps < 1:", "    if steps < 0.5:",
        f"{FILTER}test_every_sequence_of_requests[pure]",
    ),
    _bug(
        "several steps make no more of a delta than one", "core.privacy_filter",
        "return sum(math.exp(i * each) for i in range(self._steps)) * (1 + 2**-40)  # upwards",
        "return 1.0",
        f"{FILTER}test_every_sequence_of_requests[pure, separate delta]",
        f"{FILTER}test_every_sequence_of_requests[gaussian, separate delta]",
    ),
    # --- scales -----------------------------------------------------------------------------------
    _bug(
        "Laplace noise has half of its scale", "core.mechanisms",
        "samplers.discrete_laplace(scale,", "samplers.discrete_laplace(scale / 2,",
        f"{SCALES}test_noise[pure]",
    ),
    _bug(
        "K-norm noise has half of its scale", "core.mechanisms",
        "samplers.k_norm(d, scale,",
        "samplers.k_norm(d, scale / 2,",
        f"{SCALES}test_noise[pure]",
    ),
    _bug(
        "Gaussian noise has half of its sigma", "core.mechanisms",
        "samplers.rounded_gaussian(scale,", "samplers.rounded_gaussian(scale / 2,",
        f"{SCALES}test_noise[gaussian]",
    ),
    _bug(
        "choices have twice their rate", "core.mechanisms",
        "eta = each / (2 * sensitivity)", "eta = each / sensitivity",
        f"{SCALES}test_choices[pure]",
        f"{SCALES}test_choices[gaussian]",
    ),
    _bug(
        "every share buys the whole epsilon", "core.privacy_filter",
        "return fraction, fraction * self._epsilon_of_step",
        "return fraction, self._epsilon_of_step",
        f"{SCALES}test_noise[pure]",
        f"{SCALES}test_choices[pure]",
    ),
    _bug(
        "shares of a rest are of the whole level", "core.privacy_filter",
        "return whole * math.sqrt(part) * (1 - 2**-50) / self._steps",
        "return whole / self._steps",
        f"{SCALES}test_noise[gaussian]",
    ),
    _bug(
        "Wishart noise has half of its scale", "queries.second_moments",
        "scale = size / (2 * epsilon)", "scale = size / (4 * epsilon)",
        f"{SCALES}test_symmetric_matrices[pure]",
        f"{SCALES}test_symmetric_matrices[gaussian]",
    ),
    _bug(
        "a matrix under half the Laplace noise", "queries.second_moments",
        "            scale = size / epsilon\n", "            scale = size / (2 * epsilon)\n",
        f"{SCALES}test_symmetric_matrices[pure]",
    ),
    _bug(
        "a matrix under half the Gaussian noise", "queries.second_moments",
        "scale = sigma_up(size, level)", "scale = sigma_up(size / 2, level)",
        f"{SCALES}test_symmetric_matrices[gaussian]",
    ),
    _bug(
        "a row that moves between parts is counted in one", "queries.quantiles",
        "etas.append(min(half / (2 * node.widest), whole / (2 * b)))",
        "etas.append(whole / (2 * b))",
        f"{SCALES}test_quantiles_by_rounds[pure]",
        f"{SCALES}test_quantiles_by_rounds[gaussian]",
    ),
    # --- sensitivities ----------------------------------------------------------------------------
    _bug(
        "a shortened sensitivity is rounded down", "core.mechanisms",
        "return -(-sensitivity >> bits) + moved if bits",
        "return (sensitivity >> bits) + moved if bits",
        f"{COQ}test_shortened_statistics",
        f"{INTEGERS}test_a_shortened_statistic",
    ),
    _bug(
        "shortening rounds down", "core.mechanisms",
        "return (exact.astype(object) + (1 << (bits - 1))) >> bits",
        "return exact.astype(object) >> bits",
        f"{COQ}test_shortened_statistics",
    ),
    _bug(
        "several added rows count as one", "core.query",
        "            (ADD_OR_REMOVE_ONE, stability.additions),",
        "            (ADD_OR_REMOVE_ONE, min(1, stability.additions)),",
        f"{COQ}test_sensitivities_of_a_stability",
        f"{INTEGERS}test_a_query_moves_by_no_more_than_moved_by",
    ),
    _bug(
        "a replaced row is one step", "core.table",
        "return max(2 * self.replacements, self.additions)",
        "return max(self.replacements, self.additions)",
        f"{INTEGERS}test_steps_of_a_stability",
    ),
    # --- row maps ---------------------------------------------------------------------------------
    _bug(
        "a box is clipped at twice its upper end", "core.clipping",
        "        np.clip(q, -half, half, out=q)\n        return np.rint(q, out=q)\n\n\n@review",
        "        np.clip(q, -half, 2 * half, out=q)\n        return np.rint(q, out=q)\n\n\n@review",
        f"{CLIPPING}test_box_maps_every_double_to_a_bounded_integer",
    ),
    _bug(
        "rows that rounding takes out of a ball stay", "core.clipping",
        "    z[over] = again\n",
        "    pass\n",
        f"{CLIPPING}test_clip_to_norm_on_every_row_of_a_grid",
    ),
    # --- queries ----------------------------------------------------------------------------------
    _bug(
        "a replaced row moves a sum by its norm", "core.sums",
        "return 4 * int(self.view.norm) ** 2 if", "return int(self.view.norm) ** 2 if",
        f"{NEIGHBOURS}test_queries_of_rows[replace_one]",
    ),
    _bug(
        "the count of a mean has no sensitivity", "core.sums",
        "blocks * norm2 + self.constant**2", "blocks * norm2",
        f"{NEIGHBOURS}test_queries_of_rows[add_or_remove_one]",
    ),
    _bug(
        "a replaced unit moves totals by key once", "queries.key_totals",
        "return self.max_keys * term_bound(self._term, self.max_rows)[2]",
        "return self.max_keys * term_bound(self._term, self.max_rows)[1]",
        f"{NEIGHBOURS}test_queries_of_other_tables[replace_one]",
    ),
    _bug(
        "a unit keeps one row more than stated", "core.units",
        "return np.sort(order[drawn][place < most])", "return np.sort(order[drawn][place <= most])",
        f"{NEIGHBOURS}test_queries_of_other_tables[add_or_remove_one]",
    ),
    # --- conversions ------------------------------------------------------------------------------
    _bug(
        "the epsilon of a Gaussian level is rounded up", "loss.conversions",
        "float(log_ndtr(mu / 2) - log_ndtr(-mu / 2)) * (1 - 1e-9)",
        "float(log_ndtr(mu / 2) - log_ndtr(-mu / 2)) * (1 + 1e-9)",
        f"{CONVERSIONS}test_pure_conversions_are_rounded_towards_privacy",
    ),
    _bug(
        "the Gaussian level is that of a larger epsilon", "loss.conversions",
        "epsilon, delta = down(epsilon), down(delta)",
        "epsilon, delta = epsilon * (1 + 1e-8), delta",
        f"{CONVERSIONS}test_gdp_mu_is_never_too_large",
    ),
)  # fmt: skip
