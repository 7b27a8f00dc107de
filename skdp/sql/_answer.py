"""Answers: released numbers as a table, with an interval beside each. Post-processing."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass, field
from typing import Any

from skdp.core import PrivacyCertificate

__all__ = ["Answer"]


@dataclass(eq=False, repr=False)
class Answer:
    """The released answer of a query, as a DuckDB table; it contains nothing private.

    Attributes
    ----------
    relation : duckdb.DuckDBPyRelation
        A relation in a database of its own. Every number ``x`` has an interval, ``x_low`` to
        ``x_high``. In 95% of releases (measured: 94.3 to 100%, depending on the aggregate) it
        contains the number for the bounded and clipped rows without noise; in at least 95% if ``x``
        is computed from several aggregates. NULL if there is no interval: also where rows, keys or
        values behind ``x`` depend on what a subquery released with noise, as in ``WHERE minutes >
        (SELECT AVG(minutes) FROM visits)``. That noise is in no interval; `notes` names the column,
        the subquery and the released value. A mean also has ``x_population_low`` and
        ``x_population_high``.
    privacy_ : PrivacyCertificate or None
        Certificate of the last release; None if only public tables or released subqueries were
        read.
    sql : str
        The query as it was asked.
    rewritten : str
        DuckDB's SQL for the rows that were aggregated.
    notes : list of str
        How the answer differs from what the query says: for counts and sums with private limits on
        what a unit contributes, also that intervals are of the rows within them, not of all.
    max_keys_per_unit_, max_rows_per_unit_ : int or None
        The bounds on the contribution of a unit.
    bounds_ : dict
        For each clipped expression, its bounds.
    left_out_ : dict
        How many rows were left out by bounding contributions, with intervals.
    subqueries : list of Answer
        Answers of subqueries that aggregate over units. They were released before the rest, each
        for its part of the price.
    """

    relation: Any
    sql: str
    rewritten: str
    notes: list[str]
    privacy_: PrivacyCertificate | None = None
    max_keys_per_unit_: int | None = None
    max_rows_per_unit_: int | None = None
    bounds_: dict[str, tuple[float, float]] = field(default_factory=dict)
    left_out_: dict[str, float] = field(default_factory=dict)
    subqueries: list[Answer] = field(default_factory=list)

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self.relation.columns)

    def to_pandas(self) -> Any:
        """Return the answer as a pandas data frame.

        Returns
        -------
        table : pandas.DataFrame
        """
        return self.relation.df()

    def to_polars(self) -> Any:
        """Return the answer as a polars data frame.

        Returns
        -------
        table : polars.DataFrame
        """
        return self.relation.pl()

    def to_arrow(self) -> Any:
        """Return the answer as a pyarrow table.

        Returns
        -------
        table : pyarrow.Table
        """
        return self.relation.to_arrow_table()

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return the rows as tuples.

        Returns
        -------
        rows : list of tuple
        """
        rows: list[tuple[Any, ...]] = self.relation.fetchall()
        return rows

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the answer as a dict of lists.

        Returns
        -------
        columns : dict
        """
        rows = self.fetchall()
        return {name: [row[i] for row in rows] for i, name in enumerate(self.columns)}

    def certificate(self) -> dict[str, Any]:
        """Return a description of the release: query, aggregated rows, bounding, releases.

        Returns
        -------
        certificate : dict
            Of plain types.
        """
        return {
            "query": self.sql,
            "rows": self.rewritten,
            "notes": self.notes,
            "bounding": {
                "max_keys_per_unit": self.max_keys_per_unit_,
                "max_rows_per_unit": self.max_rows_per_unit_,
                "bounds": {name: list(pair) for name, pair in self.bounds_.items()},
                "left_out": self.left_out_,
            },
            "privacy": None if self.privacy_ is None else self.privacy_.to_dict(),
            "subqueries": [one.certificate() for one in self.subqueries],
        }

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the certificate as JSON.

        Parameters
        ----------
        indent : int, default=None

        Returns
        -------
        text : str
        """
        return json.dumps(self.certificate(), indent=indent)

    def __len__(self) -> int:
        return len(self.fetchall())

    def __repr__(self) -> str:
        notes = "".join(f"\n({note})" for note in self.notes)
        return f"{self.relation}{notes}"

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        return str(self.to_pandas().to_html(index=False)) + notes
