# ruff: noqa: E501  the planted texts are those of the library
"""The table of planted bugs: what is replaced in which module, and which tests must fail."""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """A planted bug.

    Attributes
    ----------
    name : str
    module : str
        Dotted name.
    changes : tuple of (str, str)
        Text, which must stand once in the module's source, and what takes its place.
    tests : tuple of str
        Tests of this folder, or below `tests/`, that must fail, each of them.
    """

    name: str
    module: str
    changes: tuple[tuple[str, str], ...]
    tests: tuple[str, ...]


def _m(name: str, module: str, old: str, new: str, *tests: str) -> Mutant:
    return Mutant(name, f"skdp.{module}", ((old, new),), tests)


ATTAINED = "test_neighbour.py::test_a_sensitivity_is_attained"
CHARGES = "test_charges.py::test_sessions_charge_what_was_announced_and_is_shown"
EXTREME = "tests/core/test_sums.py::test_moments_stay_within_their_sensitivities_by_brute_force"
NO_COST = "tests/core/test_row_sums.py::test_a_count_costs_nothing_where_rows_are_replaced"
FAILS = "test_charges.py::test_a_fit_that_fails_after_its_charge_gets_nothing_back"
REPLAY = "test_replay.py::test_fit_learns_from_releases_only"
MANY = "test_replay.py::test_many_rows_and_little_noise_show_no_more"
NOISY = "test_every_case_audited.py::test_many_rows_have_noise_like_few"
EVERY = "test_every_case_audited.py::test_hardly_any_noise_is_caught"
WHOLE = "test_neighbour.py::test_a_sensitivity_is_attained_by_whole_tables"
WORST = "test_neighbour.py::test_adversarial_neighbours"
SHARED = "test_mechanisms.py::test_comparisons_share_the_threshold_s_noise_and_nothing_else"

FILTER = "tests/loss/test_accountants.py::test_a_filter_never_grants_more_than_the_true_loss_allows"
ROWS = "tests/sql/test_rows_as_units.py::"
COUNTED = "tests/queries/test_counted_keys.py::"
MOVES = f"{ROWS}test_a_row_of_a_table_moves_rows_of_its_own_alone"
REFUSED = "tests/sql/test_sql_refusals.py::test_refused_with_a_reason_and_nothing_is_charged"

BY_KEY = "tests/queries/test_key_quantiles.py::test_a_sensitivity_is_attained"

PAYS = """\
        if self._is_open and self._budget is not None and __import__('sys').exc_info()[0] is None:
            self._charge = self._pay()
"""
FREE = (
    "__import__('skdp.core.session', fromlist=['core']).open_session(rows, "
    "estimator='MWEMReleaser', epsilon=self.epsilon, delta=self.delta"
)

MUTANTS = (
    # --- charging ---------------------------------------------------------------------------------
    _m(
        "half of epsilon is charged", "core.privacy_filter",
        "            epsilon=self.epsilon,\n            delta=self.delta,\n            mu=self.claimed_mu,\n            separate_delta",
        "            epsilon=self.epsilon / 2,\n            delta=self.delta,\n            mu=self.claimed_mu,\n            separate_delta",
        f"{CHARGES}[toy-diagonal]",
    ),
    _m(
        "the budget is charged half, the session says all", "core.privacy_filter",
        "budget.charge(cost, ", "budget.charge(Cost(epsilon=cost.epsilon / 2, delta=0.0), ",
        f"{CHARGES}[toy-diagonal]",
    ),
    Mutant(
        "charged at the end, if nothing failed", "skdp.core.privacy_filter",
        (
            ("self._charge = budget.charge(", "self._charge, self._pay = None, lambda: budget.charge("),
            ("        if self._is_open and self._budget", PAYS + "        if getattr(self, '_charge', None) is not None and self._budget"),
        ),
        (f"{FAILS}[toy]",),
    ),
    _m(
        "a refund after the fit", "core.privacy_filter",
        "        self._is_open = False\n\n\nclass Meter",
        "        self._is_open = False\n        if self._budget is not None:\n"
        "            type(self._budget).spent = property(lambda _: Cost(epsilon=1e-9, delta=0.0))\n"
        "\n\nclass Meter",
        f"{CHARGES}[toy-diagonal]",
    ),
    _m(
        "a second session without a budget", "synthetic._weights",
        "rounds = _Rounds(session, plan,", f"rounds = _Rounds({FREE}), plan,",
        f"{CHARGES}[mwem-diagonal]",
    ),
    _m(
        "a second session on a budget of its own", "synthetic._weights",
        "rounds = _Rounds(session, plan,",
        f"rounds = _Rounds({FREE}, budget=__import__(\"skdp\").PrivacyBudget(1e3, 0.5)), plan,",
        f"{CHARGES}[mwem-diagonal]",
    ),
    _m(
        "shares count half", "core.privacy_filter",
        "self._shares.spent += fraction", "self._shares.spent += fraction / 2",
        f"{CHARGES}[quantile-diagonal]",
    ),
    _m(
        "parts of mu add up linearly", "core.privacy_filter",
        "return math.sqrt(float(fraction)) * self.mu", "return float(fraction) ** 0.25 * self.mu",
        f"{CHARGES}[mwem_all-rest]", f"{CHARGES}[kmeans_subspace-rest]",
    ),
    _m(
        "half of the cost is announced", "base.mixin",
        "return Cost(epsilon=epsilon, delta=delta + separate,",
        "return Cost(epsilon=epsilon / 2, delta=delta + separate,",
        f"{CHARGES}[toy-diagonal]", f"{REPLAY}[toy-diagonal]",
    ),
    _m(
        "a clone has a budget of its own", "budget.budget",
        "    def __sklearn_clone__(self) -> PrivacyBudget:\n        return self\n",
        "    def __sklearn_clone__(self) -> PrivacyBudget:\n"
        "        return PrivacyBudget(self.epsilon, self.delta, adjacency=self.adjacency)\n",
        f"{CHARGES}[toy-diagonal]",
    ),
    # --- what a fit learns from -------------------------------------------------------------------
    _m(
        "MWEM stops when the data are fitted", "synthetic._weights",
        "            measured.append(measure(t))\n",
        "            measured.append(measure(t))\n"
        "            known = self._plan.workload.answers(self.weights.p) * self._n\n"
        "            from skdp.queries.workloads import exact_answers\n"
        "            work = self._plan.workload\n"
        "            exact = exact_answers(self._session._table, work).answers / work.one\n"
        "            if np.abs(exact - known).max() < 0.3 * self._n:\n"
        "                break\n",
        f"{MANY}[mwem]",
    ),
    _m(
        "an exact marginal of many rows", "core.session",
        "        return kind.decoded(query, Noisy(values, std, terms))",
        "        if 'marginal table' in query.described and table.n >= 5000:\n"
        "            values = exact\n"
        "        return kind.decoded(query, Noisy(values, std, terms))",
        f"{MANY}[mwem]", f"{MANY}[marginals]",
    ),
    _m(
        "no noise on many rows", "core.privacy_filter",
        "            drawn = noise()\n",
        "            drawn = noise()\n"
        "            frames = [f.frame.f_locals for f in __import__('inspect').stack()]\n"
        "            tables = [f['table'] for f in frames if hasattr(f.get('table'), 'stability')]\n"
        "            drawn = drawn * (not tables or tables[0].n < 5000)\n",
        f"{NOISY}[toy]", f"{NOISY}[kmeans]",
    ),
    _m(
        "rows are kept", "base.mixin",
        "        validate_data(self, getattr(rows, \"head\", X), reset=reset, skip_check_array=True)\n        return rows",
        "        validate_data(self, getattr(rows, \"head\", X), reset=reset, skip_check_array=True)\n"
        "        self._fit_X = X\n        return rows",
        f"{REPLAY}[standard_scaler-diagonal]",
    ),
    _m(
        "a stale exact attribute is kept", "base.mixin",
        "        validate_data(self, getattr(rows, \"head\", X), reset=reset, skip_check_array=True)\n        return rows",
        "        validate_data(self, getattr(rows, \"head\", X), reset=reset, skip_check_array=True)\n"
        "        self._cache = {'sum': sum(float(b.sum()) for b in rows.chunks())}\n"
        "        return rows",
        f"{REPLAY}[kmeans-diagonal]",
    ),
    _m(
        "a warning quotes a cell", "base.mixin",
        "        validate_data(self, getattr(rows, \"head\", X), reset=reset, skip_check_array=True)\n        return rows",
        "        validate_data(self, getattr(rows, \"head\", X), reset=reset, skip_check_array=True)\n"
        "        for block in rows.chunks():\n"
        "            __import__('warnings').warn(f'the largest is {block.max()}', stacklevel=2)\n"
        "        return rows",
        f"{REPLAY}[pca-diagonal]",
    ),
    _m(
        "an error that one row decides", "base.mixin",
        "        validate_data(self, getattr(rows, \"head\", X), reset=reset, skip_check_array=True)\n        return rows",
        "        validate_data(self, getattr(rows, \"head\", X), reset=reset, skip_check_array=True)\n"
        "        if any(abs(block).max() > 1e200 for block in rows.chunks()):\n"
        "            raise ValueError('X must be within reason')\n        return rows",
        f"{WORST}[toy-diagonal]",
    ),
    _m(
        "the number of rows is kept where it is private", "base.mixin",
        "        validate_data(self, getattr(rows, \"head\", X), reset=reset, skip_check_array=True)\n        return rows",
        "        validate_data(self, getattr(rows, \"head\", X), reset=reset, skip_check_array=True)\n"
        "        self._n_seen = rows._n\n        return rows",
        f"{REPLAY}[median-rest]",
    ),
    _m(
        "sums are divided by the exact number of rows", "queries.kernel_means",
        "n, n_std = float(values[-1]) / self.count_weight,",
        "n, n_std = __import__('inspect').currentframe().f_back.f_locals['table'].n + 0.0,",
        f"{REPLAY}[kernel_density_stated-rest]",
    ),
    _m(
        "an exact count where it is private", "core.session",
        "        if self._table.n_is_public:\n            return released(",
        "        if True:\n            return released(",
        f"{REPLAY}[pca-rest]",
    ),
    _m(
        "add-or-remove is taken for replace-one", "core.session",
        "REPLACE_ONE if budget is None else budget.adjacency", "REPLACE_ONE",
        f"{REPLAY}[toy-rest]",
    ),
    _m(
        "replace-one is taken for add-or-remove", "core.session",
        "REPLACE_ONE if budget is None else budget.adjacency", '"add_or_remove_one"',
        f"{ATTAINED}[sum of a box]",
    ),
    _m(
        "seeded noise does not depend on what is released", "core.privacy_filter",
        "self._filter._entropy = samplers.SeededEntropy(self._filter.noise_seed, key.digest())",
        "self._filter._entropy = samplers.SeededEntropy(self._filter.noise_seed, b'key')",
        "test_replay.py::test_seeded_fits_with_other_public_rows_share_no_noise[ulsif_stated]",
    ),
    _m(
        "bounds of an encoded target are those of the rows", "preprocessing._target_encoder",
        "return targets.reshape(-1, 1), self._stated_target()",
        "return targets.reshape(-1, 1), (float(targets.min()), float(targets.max()) + 1.0)",
        f"{REPLAY}[target_encoder-diagonal]",
    ),
    _m(
        "a target encoder keeps the mean of the rows", "preprocessing._target_encoder",
        "        self.target_mean_std_error_ = released.mean_std * half\n",
        "        self.target_mean_std_error_ = released.mean_std * half\n"
        "        self._mean = float(np.mean(session._table.rows.chunk(0, session._table.rows._n)))\n",
        f"{REPLAY}[target_encoder_binary-diagonal]",
    ),
    # --- sensitivities ----------------------------------------------------------------------------
    _m(
        "a sum's sensitivity is that of one row", "core.sums",
        "return 4 * int(self.view.norm) ** 2 if", "return int(self.view.norm) ** 2 if",
        f"{ATTAINED}[sum of a box]", f"{WORST}[toy-diagonal]",
    ),
    _m(
        "moments move half as far", "queries.images",
        "return 4 * a * a * self._squared if", "return a * a * self._squared if",
        f"{ATTAINED}[moments]", f"{EXTREME}[replaced]",
    ),
    _m(
        "moments in a cube move half as far", "queries.images",
        "return self.largest, 2 * self.largest", "return self.largest, self.largest",
        f"{ATTAINED}[moments]", f"{EXTREME}[replaced]",
    ),
    Mutant(
        "squares where rows are replaced are not centred", "skdp.queries.images",
        (
            ("q -= scale // 2", "q -= 0 if b == 13 else scale // 2"),
            ("len(x) * (scale // 2)", "(0 if b == 13 else len(x) * (scale // 2))"),
        ),
        (
            f"{EXTREME}[replaced]", f"{NO_COST}[moments-False-filter]",
            f"{NO_COST}[moments-False-unit]",
        ),
    ),
    Mutant(
        "squares count 14 times where rows are replaced", "skdp.queries.images",
        (
            ("factors=_WHERE_REPLACED if", "factors=(8, 14) if"),
            ("if 8 * b <= 13 * a", "if 8 * b <= 14 * a"),
        ),
        (f"{EXTREME}[replaced]",),
    ),
    _m(
        "a count weighs where rows are added what is free where they are replaced", "core.sums",
        "elif terms.replaces and self.noise == \"vector\":", "elif self.noise == \"vector\":",
        "tests/core/test_row_sums.py::test_the_free_count_is_not_free_where_rows_are_added[False]",
    ),
    _m(
        "a replaced row changes one bin", "queries.histograms",
        "return 2 * parts if adjacency == REPLACE_ONE else parts",
        "return parts",
        f"{ATTAINED}[tree counts]",
    ),
    _m(
        "a row that leaves a cell and enters another counts once", "core.sums",
        "l1, l2_squared = max(l1, 2 * norm1), max(l2_squared, 2 * norm2)",
        "l1, l2_squared = max(l1, norm1), max(l2_squared, norm2)",
        f"{ATTAINED}[edge histogram]",
        f"{ATTAINED}[label counts with weights]",
    ),
    _m(
        "a replaced row moves the Gram matrix once", "queries.second_moments",
        "return 2 * gamma2 if replace else gamma2", "return gamma2",
        f"{ATTAINED}[gram, wishart]",
    ),
    _m(
        "a Gram matrix in Frobenius norm moves once", "queries.second_moments",
        "return isqrt_up(2 * gamma2**2) if replace else gamma2", "return gamma2",
        f"{ATTAINED}[gram, gaussian]",
    ),
    _m(
        "a Gram matrix's triangle moves less", "queries.second_moments",
        "return -(-(dims + 1) * gamma2 // 2)", "return gamma2",
        f"{ATTAINED}[gram, laplace, A]",
    ),
    _m(
        "groups: a row that leaves one and enters another counts once", "queries.grouped_sums",
        "per_row = Fraction(q).limit_denominator(1000), level / self.rows",
        "per_row = Fraction(q).limit_denominator(1000), level",
        f"{ATTAINED}[nearest centres]",
    ),
    _m(
        "groups: the same with Gaussian noise", "queries.grouped_sums",
        "math.sqrt(1 / worst)", "1.0",
        f"{ATTAINED}[nearest centres]",
    ),
    _m(
        "a leaf's bound is half its radius", "queries.grouped_sums",
        "return centers, np.maximum(np.maximum(centers - low, high - centers), 0)",
        "return centers, np.maximum(np.maximum(centers - low, high - centers), 0) // 2",
        f"{ATTAINED}[tree sums]",
    ),
    _m(
        "residuals are not clipped", "queries.grouped_sums",
        "return group, round_to_norm(x, radius)", "return group, np.rint(x)",
        "test_broken_queries.py::test_rows_far_from_every_centre_move_no_further[0.0-replace_one]",
    ),
    _m(
        "a box does not clip", "core.clipping",
        "        np.clip(q, -half, half, out=q)\n        return np.rint(q, out=q)\n\n\n"
        "@reviewed\nclass ScaledBox",
        "        np.clip(q, -(2.0**40), 2.0**40, out=q)\n        return np.rint(q, out=q)\n\n\n"
        "@reviewed\nclass ScaledBox",
        f"{WORST}[toy-diagonal]",
    ),
    _m(
        "a label may change its row for nothing", "core.sums",
        "            if cells is not None:\n                l1,",
        "            if cells is not None and self.noise == 'vector':\n                l1,",
        f"{ATTAINED}[label sums, relabelled]",
    ),
    _m(
        "sums have the sensitivity of the other relation", "core.sums",
        "        l1, l2_squared = added1, added2\n        if relation == REPLACE_ONE:",
        "        l1, l2_squared = added1, added2\n        if relation != REPLACE_ONE:",
        f"{ATTAINED}[coded, marginal]",
        f"{ATTAINED}[sum of a box]",
    ),
    _m(
        "the worst marginal is chosen twice too sharply", "queries.workloads",
        "        return histogram_sensitivity(1, relation)\n", "        return 1\n",
        f"{ATTAINED}[coded, worst marginal]",
    ),
    _m(
        "the score of no marginal is a sum of all others", "queries.workloads",
        "np.zeros(int(self.none), dtype=np.int64)", "np.full(int(self.none), scores.sum())",
        f"{ATTAINED}[coded, worst marginal or none]",
    ),
    _m(
        "a block's vote weighs nothing more when it turns", "queries.blocks",
        "isqrt_up(4 * n_queries << (2 * _STEP_BITS))",
        "isqrt_up(n_queries << (2 * _STEP_BITS))",
        f"{ATTAINED}[votes of blocks]",
    ),
    _m(
        "a smooth sensitivity that is not smooth enough", "queries.smooth_sensitivity.medians",
        "f, log_s = log_smooth_replace(x, m, low, high, ladder.beta, ladder.reach)",
        "f, log_s = log_smooth_replace(x, m, low, high, 3 * ladder.beta, ladder.reach)",
        f"{WHOLE}[smooth median, scale-0.0]",
    ),
    _m(
        "ranks of a part: half the range", "queries.quantiles",
        "etas.append(whole / (2 * node.widest))", "etas.append(whole / node.widest)",
        f"{WHOLE}[quantiles, median, a row less-0.0]",
    ),
    _m(
        "distances in parts of the longest one", "queries.learned_bounds.learning",
        "return np.sqrt(squares)[:, None]", "return np.sqrt(squares / squares.max())[:, None]",
        f"{WHOLE}[median of distances, a row less-0.0]",
    ),
    _m(
        "quantiles by key: the whole allowance where a unit is replaced", "queries.key_totals",
        "replace = relation == REPLACE_ONE", "replace = False",
        f"{BY_KEY}[another key-True]", f"{BY_KEY}[another key-False]",
    ),
    _m(
        "quantiles by key: all of epsilon for each of a unit's keys", "queries.key_totals",
        "each = Fraction(level) / max_keys", "each = Fraction(level)",
        f"{BY_KEY}[added to two keys-True]", f"{BY_KEY}[replaced in two keys-True]",
    ),
    _m(
        "quantiles by key: all of mu for two keys", "queries.key_totals",
        "for keys in (max_keys, 2 * max_keys)", "for keys in (max_keys, max_keys)",
        f"{BY_KEY}[another key-False]",
    ),
    _m(
        "quantiles by key: a unit's rows count as one", "queries.key_totals",
        "return node, eta / (max_rows << FRACTION_BITS)",
        "return node, eta / (1 << FRACTION_BITS)",
        f"{BY_KEY}[added-True]", f"{BY_KEY}[added-False]",
    ),
    # --- noise (its scales: `tests/verified/planted_bugs.py`) -------------------------------------
    _m(
        "half the cube", "core.noise.deviates",
        "view(np.int64) >> (63 - BITS)", "view(np.int64) >> (64 - BITS)",
        "tests/contract/test_mechanisms.py::test_a_mechanism_holds_its_claim_and_shows_it[cube]",
    ),
    _m(
        "two cells of a box count as one", "core.sums",
        "size = max(size, 2 * norm)", "size = max(size, norm)",
        "tests/core/test_row_sums.py::test_the_largest_changes_of_cells_add_up_to_the_box"
        "[of one sign-two cells-False-0]",
    ),
    _m(
        "sparse vector: nu drawn once", "queries.workloads",
        "            nu = int(samplers.discrete_laplace(self._nu, "
        "entropy=self._meter.entropy))\n",
        "            if not hasattr(self, '_one_nu'):\n"
        "                self._one_nu = int(\n"
        "                    samplers.discrete_laplace(self._nu, entropy=self._meter.entropy)\n"
        "                )\n"
        "            nu = self._one_nu\n",
        f"{SHARED}[2]",
    ),
    _m(
        "sparse vector: rho = 0", "queries.workloads",
        "self._rho = int(samplers.discrete_laplace(rho, entropy=meter.entropy))",
        "self._rho = 0",
        f"{SHARED}[2]",
    ),
    _m(
        "sparse vector: no factor c", "queries.workloads",
        "nu = 2 * max_above * sensitivity *", "nu = 2 * sensitivity *",
        f"{SHARED}[16]",
    ),
    _m(
        "sparse vector: positive answers are not counted", "queries.workloads",
        "self._left -= far", "pass",
        "test_mechanisms.py::test_no_positive_answer_is_given_that_was_not_paid_for",
    ),
    _m(
        "smooth sensitivity under an eighth of the noise", "queries.smooth_sensitivity.ladders",
        "kappa = student_kappa(e, beta * UP, degrees)",
        "kappa = student_kappa(e, beta * UP, degrees) / 8",
        "test_mechanisms.py::test_smooth_noise_holds_a_small_claim",
    ),
    _m(
        "a small table is chosen a hundred times too sharply", "queries.small_databases",
        "eta = epsilon / 2 if meter.mu is None else epsilon", "eta = 50 * epsilon",
        "tests/queries/test_small_databases.py::test_all_tables_are_exactly_distributed[replace_one]",
    ),
    _m(
        "sampled rows under hardly any noise", "queries.samples",
        "scale = diameter / amplified_epsilon(epsilon, ratio)",
        "scale = diameter / (4000 * amplified_epsilon(epsilon, ratio))",
        f"{EVERY}[ulsif_a_rate]",
    ),
    _m(
        "a minimiser moves an eighth as far", "queries.logistic",
        "return (row + 2 * Fraction(tau)) / Fraction(alpha)",
        "return (row + 2 * Fraction(tau)) / Fraction(alpha) / 8",
        "tests/queries/test_logistic.py::test_neighbours_are_within_the_sensitivity_and_replace_one_attains_it[0.1]",
    ),
    _m(
        "a replaced row moves a noisy objective as a new one does", "queries.logistic",
        "return size * (2 if relation == REPLACE_ONE else 1)",
        "return size",
        "tests/queries/test_objective.py::test_the_gradient_moves_as_far_as_stated_and_no_further",
        "tests/queries/test_objective.py::test_the_loss_of_one_number_is_within_the_claim",
    ),
    _m(
        "determinants are free", "queries.logistic",
        "left = epsilon - second - Fraction(determinant_loss(n_logits, cap, penalty))",
        "left = epsilon - second",
        "tests/queries/test_objective.py::test_plans_count_on_the_noise_that_is_drawn",
    ),
    _m(
        "several classes have one direction", "queries.logistic",
        "return [(k - 1, 1.0), ((k - 1) * (k - 2), 0.75), (2 * (k - 1), 0.25)]",
        "return [(1, 1.0)]",
        "tests/queries/test_objective.py::test_no_pair_of_rows_has_more_or_longer_vertices",
    ),
    _m(
        "what a filter leaves is taken for a table of public length", "core.table",
        "return Stability(self.replacements, self.changes)",
        "return self",
        "test_replay.py::test_what_a_filter_leaves_shows_no_number_of_rows[mean]",
    ),
    _m(
        "cells are counted as if a row were in one of all columns", "core.sums",
        "        blocks = 1 if cells is None else len(cells.spans)\n        norm1",
        "        blocks = 1\n        norm1",
        f"{ATTAINED}[label cell counts]",
        f"{ATTAINED}[target cell counts]",
    ),
    _m(
        "residuals in cells as if there were one column", "core.sums",
        "l1, l2_squared = blocks * l1, blocks * l2_squared",
        "l1, l2_squared = l1, l2_squared",
        f"{ATTAINED}[label cell gradient]",
    ),
    _m(
        "errors in cells are not clipped", "queries.images",
        "yield clip_to_norm(error, self.unit, self.l1)",
        "yield np.rint(error / self.unit)",
        f"{ATTAINED}[target cell errors]",
    ),
    _m(
        "errors in cells move once where a row is replaced", "core.sums",
        "return 4 * self.l2_squared\n",
        "return self.l2_squared\n",
        f"{ATTAINED}[target cell errors]",
    ),
    _m(
        "logits of rows are not clipped", "queries.views",
        "return super().map(self.gradient.logits(q))",
        "return super() and np.rint(np.clip(self.gradient.logits(q), -1e5, 1e5) / self.grid[0])",
        f"{ATTAINED}[label gradient of long logits]",
    ),
    Mutant(
        "weights of rows are not clipped", "skdp.queries.views",
        (
            ("root = np.clip(block[:, -1], 0.0, self.most)", "root = np.maximum(block[:, -1], 0.0)"),
            ("return clip_to_norm(z, 1.0, self.norm)", "return np.rint(z)"),
        ),
        (f"{ATTAINED}[weighted gram with a target]",),
    ),
    _m(
        "weights of rows are not clipped from above", "core.sums",
        "return np.clip(weights, 0.0, weight_bound) / weight_bound",
        "return np.maximum(weights, 0.0) / weight_bound",
        f"{ATTAINED}[moments with weights]",
        f"{ATTAINED}[mean with weights]",
        f"{ATTAINED}[count with weights]",
        f"{ATTAINED}[label counts with weights]",
        f"{ATTAINED}[label gradient with weights]",
    ),
    _m(
        "the total weight moves nothing", "core.sums",
        "blocks * norm2 + self.constant**2",
        "blocks * norm2",
        f"{ATTAINED}[moments with weights]",
        f"{ATTAINED}[mean]",
    ),
    _m(
        "the total weight counts twice as much as there is room for", "core.sums",
        "constant = math.isqrt(max(0,", "constant = 2 * math.isqrt(max(0,",
        f"{ATTAINED}[moments with weights]",
    ),
    _m(
        "a weighted mean moves half as far", "core.sums",
        "return 4 * int(self.view.norm) ** 2 if", "return int(self.view.norm) ** 2 if",
        f"{ATTAINED}[mean with weights]",
    ),
    _m(
        "a row that loses its weight moves nothing", "core.sums",
        "l1, l2_squared = max(l1, added1), max(l2_squared, added2)",
        "l1, l2_squared = max(l1, 1), max(l2_squared, 1)",
        f"{ATTAINED}[count with weights, of no weight]",
    ),
    _m(
        "a total weight moves by half of the largest one", "core.sums",
        "norm1, norm2 = image.l1 * scale, image.l2_squared * scale**2",
        "norm1, norm2 = image.l1 * scale // 2, image.l2_squared * scale**2 // 4",
        f"{ATTAINED}[count with weights]",
    ),
    _m(
        "squared offsets are those of the width of a box", "queries.grouped_sums",
        "        np.clip(x, -1.0, 1.0, out=x)\n",
        "",
        f"{ATTAINED}[squared offsets]",
    ),
    _m(
        "weighted gradients in steps half as fine as said", "core.sums",
        "return np.rint(q * (2.0**self.weight_bits * weights)[:, None])",
        "return np.rint(q * (2.0 ** (self.weight_bits + 1) * weights)[:, None])",
        f"{ATTAINED}[label gradient with weights]",
    ),
    _m(
        "weighted offsets are not divided by the steps of weights", "queries.grouped_sums",
        "sums = (total + (1 << (bits - 1))) >> bits", "sums = total >> (bits - 1)",
        f"{ATTAINED}[nearest centres with weights]",
    ),
    _m(
        "weighted counts of centres have noise for half a row", "queries.grouped_sums",
        "count_scale = self.unit_steps / (part * per_row)",
        "count_scale = -(-self.unit_steps // 2) / (part * per_row)",
        f"{ATTAINED}[nearest centres with weights]",
        f"{ATTAINED}[tree sums with weights]",
    ),
    _m(
        "squares of weighted rows are in steps half as fine as said", "queries.grouped_sums",
        "yield x * x * self.one\n",
        "yield x * x * self.one * 2\n",
        f"{ATTAINED}[squared offsets with weights]",
    ),
    _m(
        "weighted nodes move by half of the largest weight", "queries.grouped_sums",
        "size << bits, size << 2 * bits)", "(size << bits) // 2, size << 2 * bits)",
        f"{ATTAINED}[tree counts with weights]",
    ),
    _m(
        "leaves of weighted rows have an image twice as long", "queries.grouped_sums",
        "bits = _IMAGE_BITS + more", "bits = _IMAGE_BITS + more - (more > 0)",
        f"{ATTAINED}[tree sums with weights]",
    ),
    _m(
        "weighted means are divided by the exact total", "core.sums",
        "count = released(max(least, float(values[-1]) / self.constant), count_std)",
        "count = released(float(__import__('inspect').currentframe().f_back"
        ".f_locals['exact'][-1]) / self.constant, count_std)",
        f"{REPLAY}[standard_scaler_weighted-diagonal]",
    ),
    _m(
        "some columns of a table are of another relation", "queries.columns",
        "return PrivateTable(_CutRows(table.rows, self.column, self.stop), table.stability)",
        "return PrivateTable(_CutRows(table.rows, self.column, self.stop), type(table.stability)(0, 1))",
        f"{ATTAINED}[mean of some columns]",
    ),
    # --- searches and scores ----------------------------------------------------------------------
    _m(
        "the delta apart of what a run learns is not added up", "queries.best_of_runs",
        "return within and separate <= exact(self.separate_delta)", "return within",
        "tests/queries/test_best_of_runs.py::test_what_a_run_may_lose",
    ),
    _m(
        "each run has all of delta apart", "queries.best_of_runs",
        "own_delta = delta / 2 / repeats.mean", "own_delta = 0.9 * delta + 0 / repeats.mean",
        "tests/queries/test_best_of_runs.py::test_runs_with_a_delta_apart_against_enumeration[1.0-1e-06-Repeats(eta=1, stop=Fraction(1, 5))]",
    ),
    _m(
        "a score adds in the order of the batch", "base.batch_invariant",
        "    if not _EXACT.get():\n        return np.asarray(rows @",
        "    if True:\n        return np.asarray(rows @",
        "tests/model_selection/test_private_search_tables.py::test_models_give_each_row_its_own_bits[DPRidge]",
    ),
    # --- queries in SQL ---------------------------------------------------------------------------
    _m(
        "private tables need not be tied", "sql._relations",
        "if not set(self.handles) <= reached:", "if False:",
        f"{MOVES}[SELECT COUNT(*) FROM visits a JOIN visits b ON a.uid = b.uid]",
    ),
    _m(
        "a subquery groups rows of several units", "sql._sources",
        "            groups.insert(0, body.unit)\n", '            groups.insert(0, f"any_value({body.unit})")\n            groups.pop(0)\n',
        "tests/sql/test_fan_out.py::test_equal_numbers_are_written_alike",
    ),
    _m(
        "rows are grouped by units", "sql._plan",
        "        if row.tags:\n            refuse(\n                node,", "        if False:\n            refuse(\n                node,",
        REFUSED,
    ),
    _m(
        "UNION of private tables drops equal rows", "sql._sources",
        "(distinct and (a.private or b.private)):", "False:",
        REFUSED,
    ),
    _m(
        "joins by the unit make any number of rows", "sql._sources",
        "if cap is not None and relation.private:", "if False:",
        "tests/sql/test_fan_out.py::test_a_unit_cannot_fill_memory_by_rows_that_are_joined_with_each_other",
    ),
    _m(
        "public tables make any number of rows", "sql._sources",
        "if most > MOST_MATCHES:", "if False:",
        "tests/sql/test_one_unit_is_nothing.py::test_integers_that_are_one_double_are_not_told_apart",
    ),
    _m(
        "a row with several matches is said to have one", "sql._sources",
        "body.once = body.matches == 1 and all(", "body.once = all(",
        f"{MOVES}[SELECT n_name, COUNT(*) FROM visits JOIN nation ON n_id = pages GROUP BY 1]",
    ),
    _m(
        "a row that UNION ALL takes twice is said to be one", "sql._sources",
        "return Relation(sql, fields, a.private, a.matches + b.matches - 1, pairs)",
        "return Relation(sql, fields, a.private, a.matches + b.matches - 1, pairs, once=a.once)",
        f"{ROWS}test_rows_of_two_tables_are_never_one_unit",
    ),
    _m(
        "rows of two tables have the same ids", "sql._catalog",
        "concat('{number}:', {place})", "concat('0:', {place})",
        f"{ROWS}test_rows_of_two_tables_are_never_one_unit",
    ),
    _m(
        "each part of a query has the whole price", "sql._stages",
        "    part = float(amount) / parts\n    while Fraction(part) * parts > Fraction(amount):", "    part = float(amount)\n    while False:",
        "tests/sql/test_sql_subqueries.py::test_parts_of_a_price_add_up_to_no_more",
    ),
    _m(
        "functions of the database stand for DuckDB's", "sql._catalog",
        "search_path = 'temp.main'", "TimeZone = 'UTC'",
        "tests/sql/test_sql_refusals.py::test_macros_of_the_database_are_never_run",
    ),
    _m(
        "a view may take the place of a table", "sql._catalog",
        "if result != [(column.name, column.kind) for column in table.columns.values()]:", "if False:",
        "tests/sql/test_one_unit_is_nothing.py::test_what_stands_in_a_tables_place_is_not_asked[CREATE VIEW a AS SELECT * FROM other]",
    ),
    _m(
        "integers that are too large for BIGINT raise", "sql.ir",
        "TRY_CAST({0} AS BIGINT)", "CAST({0} AS BIGINT)",
        "tests/sql/test_sql_rows.py::test_sums_inside_units_do_not_fail_either",
    ),
    _m(
        "a budget of users pays for rows", "sql._database",
        "if table.row_id and unit is not None:", "if False:",
        f"{ROWS}test_one_budget_is_for_one_kind_of_unit",
    ),
    # --- what keys and scores tell ----------------------------------------------------------------
    _m(
        "each look for classes has all of the separate delta", "queries.key_selection",
        "one_look = delta / len(self.looks)",
        "one_look = delta",
        "tests/queries/test_class_selection.py::test_a_label_of_one_row_shows_no_more_often_than_delta[replace_one-looks1]",
    ),
    _m(
        "a lead counts twice", "queries.scores",
        "return np.where((labels == first) | (labels == second), cells, -1)[:, None]",
        "return np.where((labels == first) | (labels == second), cells, -1)[:, None].repeat(2, 1)",
        f"{ATTAINED}[label leads]",
    ),
    # --- keys with their counts -------------------------------------------------------------------
    _m(
        "counts that select their keys have a threshold without delta", "queries.key_selection",
        "    each = delta / moved_keys\n    bound",
        "    each = Fraction(1, 10)\n    bound",
        f"{COUNTED}test_counts_lose_epsilon_and_delta_and_no_less",
    ),
    _m(
        "counts that select their keys bound the noise for one key", "queries.key_selection",
        "largest_noise(scale, max_rows, max_keys * units, delta)",
        "largest_noise(scale, max_rows, units, delta)",
        f"{COUNTED}test_counts_lose_epsilon_and_delta_and_no_less",
    ),
    _m(
        "counts that select their keys forget the replaced unit's", "queries.key_selection",
        "largest_noise(scale, max_rows, max_keys * units, delta)",
        "largest_noise(scale, max_rows, max_keys, delta)",
        f"{COUNTED}test_counts_lose_epsilon_and_delta_and_no_less",
    ),
    _m(
        "counts that select their keys have half the noise", "queries.key_selection",
        "scale = Fraction(max_keys * max_rows * units) / exact_fraction(level)",
        "scale = Fraction(max_keys * max_rows * units) / exact_fraction(level) / 2",
        f"{COUNTED}test_counts_lose_epsilon_and_delta_and_no_less",
    ),
    _m(
        "Gaussian counts that select their keys are those of one key", "queries.key_selection",
        "gaussian_threshold([max_rows] * max_keys, sigma, limit)",
        "gaussian_threshold([max_rows], sigma, limit)",
        f"{COUNTED}test_the_gaussian_law_is_that_of_the_sensitivity",
    ),
    _m(
        "a unit counts in a key with all its rows", "tabular.contributions",
        "np.minimum(bucket.rows[pairs], max_rows))",
        "bucket.rows[pairs])",
        f"{COUNTED}test_a_unit_moves_what_is_declared_and_no_more",
    ),
    _m(
        "intervals of counts ignore that they were selected", "aggregation._intervals",
        "tail(counts - c) - tail(threshold - c) > math.log(alpha)",
        "tail(counts - c) > math.log(alpha)",
        f"{COUNTED}test_intervals_hold_given_that_a_count_shows",
    ),
    # --- how losses add up ------------------------------------------------------------------------
    _m(
        "the deltas of fits are not added up", "loss.accountants",
        "return Amount(exact(cost.epsilon), exact(cost.delta))",
        "return Amount(exact(cost.epsilon), exact(0.0))",
        FILTER,
    ),
    _m(
        "a pure fit adds half of its mu", "loss.accountants",
        "return exact(pure_mu(cost.epsilon) if", "return exact(pure_mu(cost.epsilon) / 2 if",
        FILTER,
    ),
    _m(
        "a pure fit adds half of its rho", "loss.accountants",
        "return min(epsilon**2 / 2, epsilon)", "return min(epsilon**2 / 4, epsilon)",
        "tests/loss/test_accountants.py::test_zcdp_prices",
    ),
    _m(
        "a pure fit takes less of the residue than it loses", "loss.accountants",
        "errors * (1 - slack) >= allowed * (1 + _REL)", "errors >= allowed * 0.9",
        "tests/loss/test_residue.py::test_a_release_and_the_residue_stay_within_the_allowance_at_every_epsilon",
    ),
    _m(
        "the tail of a plan is dropped", "loss.pld",
        "return Losses(self.first + low, masses, infinite,",
        "return Losses(self.first + low, masses, self.infinite,",
        "tests/loss/test_pld.py::test_tails_are_cut_towards_privacy",
    ),
    _m(
        "a row that moves changes one part", "loss.composition",
        'return 2 if adjacency == "replace_one" else 1', "return 1",
        "tests/loss/test_parallel.py::test_a_row_that_moves_is_why_two_parts_count",
    ),
    _m(
        "a replaced row moves a kernel mean as an added one does", "queries.kernel_means",
        "size = math.sqrt(2) * self.bound + 2 * lost", "size = self.bound + lost",
        "tests/queries/test_kernel_sensitivity.py::test_no_row_moves_a_linear_image_by_more_than_declared",
    ),
    _m(
        "the number of units passes for that of rows", "base.context",
        "return None if self.allows_empty else public_length(rows)", "return public_length(rows)",
        "tests/base/test_few_rows.py::test_noise_is_pure_where_the_number_of_rows_is_public_alone",
    ),
)  # fmt: skip
