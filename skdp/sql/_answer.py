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
    """What a query released, as a table of DuckDB; nothing private is in it.

    Attributes
    ----------
    relation : duckdb.DuckDBPyRelation
        In a database of its own. Beside a number ``x`` stand ``x_low`` and ``x_high``: its
        interval, which holds in 95% of releases (measured: 94.3 to 100, by aggregate) the number
        for the rows as bounded and clipped, and in at least 95% where it is computed from several;
        NULL where that cannot be had. Beside a mean ``x_population_low`` and
        ``x_population_high``.
    privacy_ : PrivacyCertificate or None
        Of the last release; None where only public tables, or released subqueries, were read.
    sql : str
        The query as it was asked.
    rewritten : str
        The rows that were aggregated, as SQL of DuckDB.
    notes : list of str
        What the answer has otherwise than the query says.
    max_keys_per_unit_, max_rows_per_unit_ : int or None
        What a unit counted for.
    bounds_ : dict
        Of each expression that was clipped, to what.
    left_out_ : dict
        How much of the rows bounding left out, with intervals.
    subqueries : list of Answer
        What subqueries that aggregate over units released, before the rest, each with its part of
        the price.
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
        """Return the answer as a data frame of pandas.

        Returns
        -------
        table : pandas.DataFrame
        """
        return self.relation.df()

    def to_polars(self) -> Any:
        """Return the answer as a data frame of polars.

        Returns
        -------
        table : polars.DataFrame
        """
        return self.relation.pl()

    def to_arrow(self) -> Any:
        """Return the answer as a table of pyarrow.

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
        """Return what was released: query, rows that were aggregated, bounding, releases.

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
