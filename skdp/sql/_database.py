"""`PrivateDatabase`: SQL queries become rows, keys and aggregates of `DPGroupBy`.

DuckDB computes the rows before the charge, by SQL that fails on no cell. Sensitivities and noise
are those of `skdp.aggregation.DPGroupBy`. At the end of the module: ``%%dpsql`` in a notebook.
"""

from __future__ import annotations

import argparse
import itertools
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import Any, NoReturn

from skdp._docstrings import shared_texts
from skdp.aggregation import DPGroupBy
from skdp.aggregation._plan import pair_of
from skdp.budget import PrivacyBudget
from skdp.budget.account import charging_for
from skdp.loss.conversions import check_delta, check_positive, loss_text
from skdp.parameters import shown
from skdp.sql._answers import Answer, answer_of, encoded_keys
from skdp.sql._catalog import Catalog, open_catalog, rows_of
from skdp.sql._plan import EVERYTHING, MOST_KEYS, Plan, conditional_notes
from skdp.sql._stages import (
    AFTER,
    PartsError,
    Staged,
    part_of,
    public_answer,
    reads_public_tables_alone,
    staged,
)
from skdp.sql._syntax import parsed, refuse, without_literals

PRIVATE = "private"
_EACH_ROW = "row"  # the column of ids if each row of a table is a unit
_EXAMPLE = {"max_keys_per_unit": 4, "max_rows_per_unit": 8}
_ROWS = '"temp"."main"."skdp_rows_of_query"'
_NO_ROWS = ("distinct_units", "max_rows_per_unit")  # a unit is counted once in a key


@shared_texts
class PrivateDatabase:
    """Private tables that are queried in SQL; each privacy unit is protected as a whole.

    A unit (a user) may have rows in several tables. A query on any of these tables is one release
    of `skdp.aggregation.DPGroupBy`. One charge covers all rows of a unit in it. Or each row of a
    table is a unit by itself, as in estimators without ``groups``: ``{"unit": None}``.

    Parameters
    ----------
    database : DuckDB connection, path of a DuckDB file, or dict
        A dict from names to tables of pandas, polars or pyarrow, or to paths of Parquet files.
    tables : dict
        The tables that may be queried; all others are refused. For each table ``"public"``, or a
        dict with either ``"unit"`` (the column of ids; None if each row is a unit) or ``"owner"``
        (a column, the table that it refers to, and the key of that table). From public knowledge,
        it may also have ``"columns"`` (the bounds of numeric columns), ``"keys"`` (all values of a
        column to group by) and ``"types"`` (of pandas columns of objects or categories, which are
        text otherwise: "text", "boolean", "integer", "float", "date" or "timestamp"; a cell that is
        none is NULL).
    budget : PrivacyBudget
        Budget to charge. With a unit where tables name a column of ids, without one where each row
        is a unit. How many units have rows is private under both relations, because WHERE decides
        it; with ``adjacency="replace_one"`` noise is up to twice as large.
    engine : {"duckdb"}, default="duckdb"
        Leave it out: DuckDB computes the rows of every query. Version 0.3 removes this parameter.
    log_literals : bool, default=False
        The ledger holds the text and the caps of each query. Its literals, which may name people,
        are written as ``<text>``, ``<number>``, ``<date>`` or ``<time>``; True: as they are.

    See Also
    --------
    skdp.aggregation.DPGroupBy : Runs every query.

    Notes
    -----
    **Privacy.** Released: keys, and aggregates by key of the bounded rows. Sensitivities,
    mechanisms and proofs are those of `DPGroupBy`. Every row of a query belongs to one unit, and
    depends only on rows of this unit and on public tables. How many rows there are is bounded.
    Charged: (epsilon, delta) for each query, after the rows were computed and before any noise. If
    subqueries are released first, the whole price is set aside before, and each part is charged an
    equal share. Messages depend only on the query and the declarations. Only the answers are
    protected: whoever holds the connection can read the tables.

    References
    ----------
    R. J. Wilson, C. Y. Zhang, W. Lam, D. Desfontaines, D. Simmons-Marengo, B. Gipson (2020),
    "Differentially private SQL with bounded user contribution", PoPETs 2020(2), Sections 2 and 3.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from skdp import PrivacyBudget
    >>> from skdp.sql import PrivateDatabase
    >>> rng = np.random.default_rng(0)
    >>> visits = pd.DataFrame(
    ...     {"uid": rng.integers(0, 3000, 9000), "browser": rng.choice(["a", "b"], 9000)}
    ... )
    >>> budget = PrivacyBudget(3, 1e-5, adjacency="add_or_remove_one", unit="uid")
    >>> db = PrivateDatabase({"visits": visits}, tables={"visits": {"unit": "uid"}}, budget=budget)
    >>> answer = db.sql(
    ...     "SELECT browser, COUNT(*) AS n FROM visits GROUP BY browser", epsilon=1, delta=1e-6
    ... )
    >>> answer.columns
    ['browser', 'n', 'n_low', 'n_high']
    """

    def __init__(
        self,
        database: Any,
        *,
        tables: Mapping[str, Any],
        budget: PrivacyBudget,
        engine: str = "duckdb",
        log_literals: bool = False,
    ) -> None:
        if not isinstance(budget, PrivacyBudget):
            raise TypeError(
                f"budget must be a PrivacyBudget, got {type(budget).__name__}. Make one with "
                "PrivacyBudget(..., unit='user_id'), or without unit if each row is a unit"
            )
        if not (isinstance(engine, str) and engine == "duckdb"):
            raise ValueError(
                f"engine must be 'duckdb', got {shown(engine)}: DuckDB computes the rows of every "
                "query. Leave engine out, and pass tables of polars in the dict: "
                "PrivateDatabase({'visits': frame}, tables=..., budget=...). DuckDB reads them "
                "through Arrow, lazy frames too. Nothing was charged"
            )
        if not isinstance(log_literals, bool):
            raise TypeError(f"log_literals must be a bool, got {type(log_literals).__name__}")
        self._log_literals = log_literals
        self.budget = budget
        self._catalog = open_catalog(database, tables)
        _check_unit(self._catalog, budget.unit)

    def sql(
        self,
        query: str,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        max_keys_per_unit: Any = PRIVATE,
        max_rows_per_unit: Any = PRIVATE,
        bounds: Mapping[str, tuple[float, float]] | None = None,
        key_method: str = "auto",
        random_state: Any = None,
        progress: Callable[[int, int, str], Any] | None = None,
    ) -> Answer:
        """Answer a query: one SELECT.

        Parameters
        ----------
        query : str
        epsilon, delta : float or None, default=None
            Privacy loss of the query, including everything that it releases. None: as stated in its
            OPTIONS, otherwise 1 and 1e-6. Without GROUP BY, or with declared keys, delta may be 0.
        max_keys_per_unit, max_rows_per_unit : "private" or int, default="private"
            The largest number of keys in which a unit counts, and of its rows that count in each
            key. ``"private"``: chosen from noisy histograms of units.
        bounds : dict, default=None
            Bounds of the aggregated expressions, by their text: ``{"minutes * 2": (0, 480)}``. They
            take precedence over declared bounds.
        key_method : {"auto", "laplace", "optimal", "gaussian", "sips"}, default="auto"
            How keys are found: see `skdp.aggregation.DPGroupBy`.
        random_state : int or None, default=None
            Seeds noise only inside ``skdp.config_context(noise="seeded")``: for tests.
        progress : callable or None, default=None
            Called before each step and at the end, with the number of finished steps, the number of
            all steps, and the next step. Its exceptions are ignored, because otherwise an answer
            that was charged would be lost.

        Raises
        ------
        QueryRefusedError
            If the query cannot be answered privately. The message says what is refused, where,
            why, and what to write instead. Nothing was charged.
        BudgetExceededError
            Nothing was charged.
        RuntimeError
            If DuckDB cannot compute the rows (memory, disk, a closed connection). If parts of the
            query had been released by then, the error has them as ``subqueries``.
        """
        if not (progress is None or callable(progress)):
            raise TypeError(f"progress must be a function or None, got {type(progress).__name__}")
        stated = {"epsilon": epsilon, "delta": delta, "max_keys_per_unit": max_keys_per_unit}
        stated |= {"max_rows_per_unit": max_rows_per_unit, "key_method": key_method}
        with self._catalog.one_state() as catalog:
            result = self._planned(catalog, query, bounds, stated)
            if result is None:
                return public_answer(catalog, query)
            parts, fits = result
            for by in fits:
                by.set_params(random_state=random_state)
            costs = [by.privacy_cost() for by in fits]  # bad parameters raise before a row is read
            price = self.budget.reserve(costs, note="parts of a query") if len(costs) > 1 else None
            with price or nullcontext():
                catalog.check_unchanged([table for plan in parts.plans for table in plan.tables])
                whole = self._log_literals
                text = " ".join(query.split()) if whole else without_literals(parsed(query)[0])
                told = partial(charging_for, literals=whole)
                notes = [_note(text, fits, i) for i in range(len(fits))]
                return _released(catalog, query, parts, fits, progress, map(told, notes))

    def explain(
        self,
        query: str,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        max_keys_per_unit: Any = PRIVATE,
        max_rows_per_unit: Any = PRIVATE,
        bounds: Mapping[str, tuple[float, float]] | None = None,
        key_method: str = "auto",
        rows_per_key: float | None = None,
    ) -> str:
        """Describe what a query would cost, bound and release; nothing private is read or charged.

        Parameters
        ----------
        query : str
        epsilon, delta : float or None, default=None
        max_keys_per_unit, max_rows_per_unit : "private" or int, default="private"
        bounds : dict, default=None
        key_method : str, default="auto"
        rows_per_key : float, default=None
            Approximate number of rows of a key, for the errors of means and quantiles.

        Raises
        ------
        QueryRefusedError
            As in `sql`.
        """
        stated = {"epsilon": epsilon, "delta": delta, "max_keys_per_unit": max_keys_per_unit}
        stated |= {"max_rows_per_unit": max_rows_per_unit, "key_method": key_method}
        with self._catalog.one_state() as catalog:
            result = self._planned(catalog, query, bounds, stated)
        if result is None:
            return "reads public tables alone: nothing is charged, no noise is added"
        parts, fits = result
        texts = [
            _explained(plan, by, rows_per_key, parts.subqueries)
            for plan, by in zip(parts.plans, fits, strict=True)
        ]
        if len(texts) > 1 or parts.last is None:
            cost = sum((by.privacy_cost() for by in fits[1:]), fits[0].privacy_cost())
            name = "released in parts, one after the other, each at an equal part of the price"
            texts.insert(0, f"{name}: together {loss_text(cost)}")
            texts += [f"after that: {AFTER}"] * (parts.last is None)
        return "\n\n".join(texts)

    def _left_keys(self, catalog: Catalog, plan: Plan) -> list[Any]:
        """Return the keys that public tables state."""
        text = (
            "DuckDB could not read the keys from the public tables on the left of LEFT JOIN; "
            "nothing was charged"
        )
        result = rows_of(catalog.reader, str(plan.left_keys), text)
        if not 0 < len(result) <= MOST_KEYS:
            many = f"more than {MOST_KEYS:,}" if result else "no"
            refuse(
                None,
                f"the public tables on the left of LEFT JOIN have {many} keys",
                f"change the conditions on them in WHERE, so that 1 to {MOST_KEYS:,} keys are left",
            )
        # The order of DuckDB's threads is not fixed, and seeded noise needs a fixed order.
        return sorted((key[0] if len(key) == 1 else key for key in result), key=repr)

    def _planned(
        self,
        catalog: Catalog,
        query: str,
        bounds: Mapping[str, tuple[float, float]] | None,
        stated: dict[str, Any],
    ) -> tuple[Staged, list[DPGroupBy]] | None:
        """Return a query in parts and their aggregations; None if only public tables are read.

        `stated` has the other parameters of the call, and gets the options of the query.
        """
        select, options = parsed(query)
        if reads_public_tables_alone(select, catalog):
            return None
        if bounds is not None and not isinstance(bounds, Mapping):
            raise TypeError(
                "bounds must be a dict from the text of aggregated expressions to pairs of "
                "numbers, such as {'x': (0, 1)}"
            )
        boxes = {
            name: pair_of(pair, f"bounds of {name!r}") for name, pair in (bounds or {}).items()
        }
        unit = self.budget.unit or _EACH_ROW
        parts = staged(query, select, catalog, unit, boxes, anonymized=options.used)
        for name, value in options.values:
            if stated[name] not in (None, PRIVATE):
                raise ValueError(
                    f"{name} is given twice: in the OPTIONS of the query, and as a parameter. Give "
                    "it in one place"
                )
            stated[name] = int(value) if name.startswith("max") and value.is_integer() else value
        n_parts = len(parts.plans)
        return parts, [self._aggregation(catalog, plan, n_parts, stated) for plan in parts.plans]

    def _aggregation(
        self, catalog: Catalog, plan: Plan, parts: int, stated: dict[str, Any]
    ) -> DPGroupBy:
        """Return the aggregation of one part of a query, at its share of the price."""
        keys: Any = PRIVATE
        max_keys, max_rows = stated["max_keys_per_unit"], stated["max_rows_per_unit"]
        if plan.once:
            for name in _EXAMPLE:
                if stated[name] not in (PRIVATE, 1):
                    plan.notes.append(f"{name} has no effect: each row is a unit, and counts once")
            max_keys = max_rows = PRIVATE
        if not plan.keys:
            if max_keys not in (PRIVATE, 1):
                note = "kappa (max_keys_per_unit) has no effect: without GROUP BY there is one key"
                plan.notes.append(note)
            keys, max_keys = [EVERYTHING], PRIVATE if plan.once else 1
        elif plan.left_keys is not None:
            keys = self._left_keys(catalog, plan)
        elif plan.keys_known:
            keys = encoded_keys(plan)
        epsilon = 1.0 if stated["epsilon"] is None else stated["epsilon"]
        delta = 1e-6 if stated["delta"] is None else stated["delta"]
        if parts > 1:
            epsilon = part_of(check_positive(epsilon, "epsilon"), parts)
            delta = part_of(check_delta(delta), parts)
        return RowsOfQuery(
            plan.by,
            None if plan.once else self.budget.unit or _EACH_ROW,
            epsilon=epsilon,
            delta=delta,
            keys=keys,
            max_keys_per_unit=max_keys,
            max_rows_per_unit=1 if plan.per_unit else max_rows,
            key_method=stated["key_method"],
            budget=self.budget,
        ).agg(**{aggregate.name: aggregate.given(plan.bounds) for aggregate in plan.aggregates})


class RowsOfQuery(DPGroupBy):
    """The aggregation of the rows of a query; their number is private."""

    def _check_unit(self, context: Any) -> None:
        """Pass: the unit was checked when tables were declared."""

    def _checked(self, table: Any, context: Any, aggregates: Any) -> Any:
        rows = super()._checked(table, context, aggregates)
        if self.budget.unit is None:
            rows.unit_name = None
        return rows


def _check_unit(catalog: Catalog, unit: str | None) -> None:
    """Raise for tables with another unit than that of the budget, and say what would fit."""
    for table in catalog.tables.values():
        if table.unit is not None and unit is None:
            column = table.columns[table.unit].name
            raise ValueError(
                f"table {table.name!r} has the unit {column!r}, but the budget protects one row. "
                f"Write budget=PrivacyBudget(..., unit={column!r}); or, if each row is a unit, "
                f"tables={{{table.name!r}: {{'unit': None}}}}"
            )
        if table.row_id and unit is not None:
            raise ValueError(
                f"each row of table {table.name!r} is a unit, but the budget protects all rows of "
                f"one {unit!r}. Write tables={{{table.name!r}: {{'unit': {unit!r}}}}} (the column "
                "of its ids); or, if each row is a unit, budget=PrivacyBudget(...) without unit"
            )


def _released(
    catalog: Catalog,
    query: str,
    parts: Staged,
    fits: list[DPGroupBy],
    progress: Callable[[int, int, str], Any] | None,
    notes: Iterable[AbstractContextManager[None]],
) -> Answer:
    """Release the parts of a query one after the other, and return the last answer.

    For each part: rows, the charge, noise. PartsError if a part fails after others were charged.
    """
    subqueries = parts.subqueries
    answers: list[Answer] = []
    steps = itertools.count()

    def tell(what: str) -> None:
        with suppress(Exception):
            if progress is not None:
                progress(next(steps), 2 * len(fits), what)

    failed, cursor = "", catalog.reader
    try:
        for i, (plan, by, note) in enumerate(zip(parts.plans, fits, notes, strict=True)):
            tell(f"rows of part {i + 1} of {len(fits)}")
            _compute(cursor, plan)
            tell(f"release of part {i + 1} of {len(fits)}")
            with note:
                by.fit(cursor.table(_ROWS))
            cursor.execute(f"DROP TABLE {_ROWS}")
            answers.append(answer_of(plan, by, subqueries))
            if i < len(subqueries):
                subqueries[i].answer = answers[i]
                subqueries[i].put(cursor)
        if parts.last is None:
            answers.append(public_answer(catalog, query, parts.tree, subqueries))
            answers[-1].notes.append(AFTER)
            for subquery in subqueries:
                answers[-1].notes += conditional_notes(subquery.plan, subqueries)
    except Exception as error:
        if not answers:
            raise
        failed = type(error).__name__
    if failed:
        before = "1 subquery was" if len(answers) == 1 else f"{len(answers)} subqueries were"
        raise PartsError(
            f"a part of the query failed ({failed}) after {before} released and charged. The "
            "answers so far are in the attribute `subqueries` of this error",
            answers,
        )
    answers[-1].subqueries = answers[:-1]
    tell("done")
    return answers[-1]


def _compute(cursor: Any, plan: Plan) -> None:
    """Compute the rows that are aggregated, before any charge."""
    text = (
        "DuckDB could not compute the rows of the query, for example for lack of memory or disk "
        "space; nothing was charged"
    )
    rows_of(cursor, f"CREATE TEMP TABLE {_ROWS} AS {plan.rows}", text)


def _note(text: str, fits: Sequence[DPGroupBy], i: int) -> str:
    """Return what the ledger says of a part of a query: its text and its caps."""
    part = f"part {i + 1} of {len(fits)} of " if len(fits) > 1 else ""
    caps = [f"{name}={getattr(fits[i], name)}" for name in _EXAMPLE] if fits[i].unit else []
    return f"{part}{text}" + (f" [{', '.join(caps)}]" if caps else "")


# --- explain: no private row is read --------------------------------------------------------------


def _explained(plan: Plan, by: Any, rows_per_key: float | None, subqueries: Sequence[Any]) -> str:
    """Return a text on the cost, bounds and errors of a plan."""
    cost = by.privacy_cost()
    names = ", ".join(table.name for table in plan.tables if not table.public)
    lines = [
        f"charged once: {loss_text(cost)}",
        f"protected: {_protected(by)} {names}",
        f"keys: {_keys(plan)}",
    ]
    if by.unit is not None:
        caps = by.max_keys_per_unit, by.max_rows_per_unit
        lines.append(f"max_keys_per_unit: {caps[0]}, max_rows_per_unit: {caps[1]}")
    shown = {}
    for aggregate in plan.aggregates:
        bounds = plan.bounds.get(aggregate.column)
        if aggregate.column and not aggregate.counts_rows:
            what = f"clipped to [{bounds[0]:g}, {bounds[1]:g}]" if bounds else "bounds are learned"
            shown[aggregate.column] = f"{aggregate.column}: {what}"
    lines += list(shown.values())
    lines += _errors(plan, by, rows_per_key)
    lines += [f"note: {note}" for note in (*plan.notes, *conditional_notes(plan, subqueries))]
    return "\n".join([*lines, f"rows: {plan.rows}"])


def _protected(by: Any) -> str:
    if by.unit is None:
        return "each row by itself, in"
    if by.budget.unit is None:
        return "each row, and all rows that are joined to it or that it owns, in"
    return f"all rows of one {by.unit} together, in"


def _keys(plan: Plan) -> str:
    if not plan.keys:
        return "none, one row for all"
    labels = ", ".join(key.label for key in plan.keys)
    how = "found privately, rare ones are not shown"
    if plan.keys_known:
        how = "declared"
    if plan.left_keys is not None:
        how = "all in the public tables; COUNT(*) of a key without private rows is 0, in SQL 1"
    return f"{labels} ({how})"


def _errors(plan: Plan, by: Any, rows_per_key: float | None) -> list[str]:
    """Return the half widths of intervals; with private caps, for two examples of caps."""
    needs_rows = {a.kind for a in plan.aggregates} & {"mean", "variance", "std", "quantile"}
    if needs_rows and not rows_per_key:
        way = "rows_per_key= (--rows-per-key on the command line)"
        return [f"errors: give {way} to see how large they would be"]
    private = [name for name in _EXAMPLE if not isinstance(getattr(by, name), int)]
    unbounded = {a.column for a in plan.aggregates if a.column} - set(plan.bounds)
    guesses = dict.fromkeys(unbounded, (0.0, 1.0))

    def widths(caps: dict[str, int]) -> dict[str, float]:
        caps = {name: caps[name] for name in private}
        result: dict[str, float] = by.expected_error(
            rows_per_key=rows_per_key, bounds=guesses, **caps
        )
        return result

    smallest = dict.fromkeys(_EXAMPLE, 1)
    examples = [(caps, widths(caps)) for caps in (smallest, _EXAMPLE)]
    lines = []
    for aggregate in plan.aggregates:
        name, column = aggregate.name, aggregate.column
        if column in unbounded:
            continue
        text = f"half width of {aggregate.kind}{f'({column})' if column else ''}"
        if len({result[name] for _, result in examples}) == 1:
            lines.append(f"{text}: about {examples[0][1][name]:.4g}")
            continue
        caps_of = [cap for cap in private if (aggregate.kind, cap) != _NO_ROWS]
        listed = "; ".join(
            f"about {result[name]:.4g} with {' and '.join(f'{cap}={caps[cap]}' for cap in caps_of)}"
            for caps, result in examples
        )
        lines.append(
            f"{text}: not known before the fit, which finds {' and '.join(caps_of)} privately. It "
            f"is {listed}. State them to know it"
        )
    return lines


def print_progress(done: int, steps: int, what: str) -> None:
    """Write the progress of a query to the error stream, in one line."""
    end = "\n" if done == steps else ""
    print(f"\r{done}/{steps} {what:<30}", end=end, file=sys.stderr, flush=True)  # noqa: T201


class _Line(argparse.ArgumentParser):
    """The parser of the line of a cell."""

    def error(self, message: str) -> NoReturn:
        """Raise ValueError: a notebook goes on."""
        raise ValueError(f"{message}. {self.format_usage()}")


def dpsql(line: str, cell: str, names: dict[str, Any]) -> Any:
    """Answer a cell of a notebook with these `names`; its line has the database and parameters."""
    parser = _Line("%%dpsql", add_help=False, allow_abbrev=False)
    parser.add_argument("DATABASE")
    for option in ("--epsilon", "--delta"):
        parser.add_argument(option, type=float)
    for option in ("--explain", "--progress"):
        parser.add_argument(option, action="store_true")
    parser.add_argument("--to", metavar="NAME")
    given = parser.parse_args(shlex.split(line))
    database = names.get(given.DATABASE)
    if not isinstance(database, PrivateDatabase):
        parser.error("DATABASE must be the name of a variable with a PrivateDatabase")
    price = {"epsilon": given.epsilon, "delta": given.delta}
    if given.explain:
        return database.explain(cell, **price)
    answer = database.sql(cell, **price, progress=print_progress if given.progress else None)
    if given.to:
        names[given.to] = answer
    return answer


def load_ipython_extension(ipython: Any) -> None:
    """Add the SQL magic to a notebook, on ``%load_ext skdp.sql``.

    Parameters
    ----------
    ipython : IPython.InteractiveShell
        The notebook.
    """

    def magic(line: str, cell: str) -> Any:
        result = dpsql(line, cell, ipython.user_ns)
        return print(result) if isinstance(result, str) else result  # noqa: T201

    ipython.register_magic_function(magic, "cell", "dpsql")
