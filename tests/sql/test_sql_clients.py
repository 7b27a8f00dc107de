"""Private SQL from the command line and from a notebook's cell."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from skdp.sql.__main__ import main
from skdp.sql._magic import dpsql, load_ipython_extension
from tests.sql.shop import database, shop

QUERY = "SELECT COUNT(*) AS n, AVG(x) AS m FROM rows WHERE x > 0"


def test_the_command_line(tmp_path, capsys):
    frame = pd.DataFrame({"user": range(500), "x": [0.5] * 500})
    frame.to_parquet(tmp_path / "rows.parquet")
    paper = tmp_path / "certificate.json"
    given = [
        *(str(tmp_path / "rows.parquet"), "--unit", "user", "--ledger", str(tmp_path / "spent")),
        *("--total", "3", "1e-5", "--bounds", "x", "0", "1", "--epsilon", "2"),
    ]
    assert main([*given, QUERY, "--explain"]) == 0
    assert "charged once: epsilon 2" in capsys.readouterr().out
    assert main([*given, QUERY, "--certificate", str(paper)]) == 0
    assert capsys.readouterr().out.startswith("n,n_low,n_high,m,m_low")
    assert json.loads(paper.read_text())["privacy"]["charged"]
    assert main([*given, QUERY]) == 2
    assert "budget" in capsys.readouterr().err
    assert main([*given, "SELECT MAX(x) FROM rows"]) == 2
    assert "MAX shows one row" in capsys.readouterr().err
    assert main([str(tmp_path / "none.parquet"), *given[1:], QUERY]) == 2


def test_the_magic():
    names = {"db": database(shop(users=30))}
    cell = "SELECT COUNT(*) AS n FROM visits"
    assert "epsilon 2" in dpsql("db --epsilon 2 --explain", cell, names)
    answer = dpsql("db --epsilon 2 --delta 1e-6 --to kept", cell, names)
    assert names["kept"] is answer
    for line in ("", "nope", "db --eps 2", "db --epsilon"):
        with pytest.raises(ValueError):
            dpsql(line, cell, names)

    class Shell:
        user_ns = names

        def register_magic_function(self, function, kind, name):
            self.found = function, kind, name

    shell = Shell()
    load_ipython_extension(shell)
    function, kind, name = shell.found
    assert (kind, name) == ("cell", "dpsql")
    assert len(function("db", cell)) == 1
    assert function("db --explain", cell) is None
