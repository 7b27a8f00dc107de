"""Private SQL from the command line and from a notebook's cell."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from skdp import PrivacyBudget
from skdp.sql import PrivateDatabase, _database
from skdp.sql.__main__ import main
from skdp.sql._database import dpsql, load_ipython_extension
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
    out, err = capsys.readouterr()
    assert "charged once: epsilon=2.0" in out and "give rows_per_key= (--rows-per-key" in out
    assert "SELECT" not in out and "add_or_remove_one" in err
    assert main([*given, QUERY, "--explain", "--rows-per-key", "500", "--verbose"]) == 0
    out, err = capsys.readouterr()
    assert "half width of mean" in out and "rows: SELECT" in out and not err.count("new ledger")
    assert main([*given, QUERY, "--certificate", str(paper)]) == 0
    assert capsys.readouterr().out.startswith("n,n_low,n_high,m,m_low")
    assert json.loads(paper.read_text())["privacy"]["charged"]
    assert main([*given, "--epsilon", "0.1", QUERY, "--progress"]) == 0
    assert "2/2 done" in capsys.readouterr().err
    assert main([*given, QUERY]) == 4
    err = capsys.readouterr().err
    assert "price of this query is epsilon=2.0" in err and "smaller --epsilon" in err
    assert not [word for word in ("DPGroupBy", "pipeline", "budget.") if word in err]
    assert main([*given, "SELECT MAX(x) FROM rows"]) == 3
    assert "MAX(x) would show the value of one row" in capsys.readouterr().err
    assert main([str(tmp_path / "none.parquet"), *given[1:], QUERY]) == 1
    with pytest.raises(SystemExit, match="2"):
        main([*given, QUERY, "--format", "xml"])
    text = tmp_path / "rows.csv"
    frame.to_csv(text)
    assert main([str(text), QUERY]) == 2
    assert "neither a Parquet file" in capsys.readouterr().err
    assert not (tmp_path / "rows.csv.budget").exists()


def test_a_file_and_a_query_are_enough(tmp_path, capsys):
    file = tmp_path / "rows.parquet"
    frame = pd.DataFrame({"user": range(500), "town": ["Bern", "Rom"] * 250, "x": [0.5] * 500})
    frame.to_parquet(file)
    assert main([str(file), "SELECT COUNT(*) AS n FROM rows", "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert abs(json.loads(out)[0]["n"] - 500) < 100
    for said in ("epsilon=5.0, delta=1e-05", "epsilon 1 (--epsilon)", "each row by itself"):
        assert said in err
    lands = pd.DataFrame({"name": ["Bern", "Rom"], "land": ["CH", "IT"]})
    lands.to_parquet(tmp_path / "t.parquet")
    query = "SELECT land, COUNT(*) FROM rows JOIN towns ON town = name WHERE town <> 'Anna' "
    query += "GROUP BY land"
    more = ["--public", f"towns={tmp_path / 't.parquet'}", "--epsilon", "2", "--delta", "1e-6"]
    assert main([str(file), query, *more]) == 0
    assert "CH" in capsys.readouterr().out
    charges = PrivacyBudget.open(f"{file}.budget").charges
    assert len(charges) == 2 and "town <> <text>" in charges[1].note
    for wrong in (["--unit", "user"], ["--public", "towns"], ["--epsilon", "-1"]):
        assert main([str(file), query, *more, *wrong]) == 2


def test_a_ledger_names_queries_and_nobody_in_them(tmp_path):
    tables = {"visits": {"unit": "uid", "columns": {"minutes": (0, 240)}}}
    visits = pd.DataFrame(
        {"uid": range(400), "who": "Anna", "minutes": 5, "day": pd.Timestamp("2020-01-01")}
    )
    query = """
        SELECT COUNT(*) AS n, AVG(minutes * 3.25) /* Berta */ FROM visits
        WHERE who IN ('Anna', 'Claire') OR who LIKE 'Dora%' OR "minutes" > 1234
            OR day = DATE '1999-12-31' OR day > TIMESTAMP '1999-12-31 11:59:00' -- Eva
    """
    named = ("Anna", "Berta", "Claire", "Dora", "1234", "1999", "Eva", "3.25")
    for log in (False, True):
        budget = PrivacyBudget(9, 1e-4, unit="uid")
        db = PrivateDatabase({"visits": visits}, tables=tables, budget=budget, log_literals=log)
        answer = db.sql(query, max_rows_per_unit=3)
        budget.report(tmp_path / "r.html", certificates=[answer])
        assert json.loads((tmp_path / "r.json").read_text())["fits"][0]["charge"] == 1
        note = budget.charges[0].note
        texts = [note, *((tmp_path / name).read_text() for name in ("r.html", "r.json"))]
        assert "max_keys_per_unit=1, max_rows_per_unit=3" in note
        assert budget.to_frame()["note"].tolist() == [note]
        if log:
            assert "'Claire'" in note
            continue
        assert not [name for name in named for text in texts if name in text]
        assert "who IN (<text>, ...)" in note and '"minutes" > <number>' in note
        assert "day = <date>" in note and "day > <time>" in note
    with pytest.raises(TypeError, match="log_literals"):
        PrivateDatabase({"visits": visits}, tables=tables, budget=budget, log_literals=1)


def test_the_magic(capsys):
    names = {"db": database(shop(users=30))}
    cell = "SELECT COUNT(*) AS n FROM visits"
    assert "epsilon=2.0" in dpsql("db --epsilon 2 --explain", cell, names)
    answer = dpsql("db --epsilon 2 --delta 1e-6 --to kept", cell, names)
    assert names["kept"] is answer
    for line in ("", "nope", "db --eps 2", "db --epsilon"):
        with pytest.raises(ValueError):
            dpsql(line, cell, names)

    dpsql("db --progress", cell, names)
    assert "\r1/2 release of part 1 of 1" in capsys.readouterr().err

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


def test_a_query_tells_its_steps_and_no_listener_stops_it():
    db = database(shop(users=30))
    query = "SELECT COUNT(*) FROM visits WHERE minutes > (SELECT AVG(minutes) FROM visits)"
    heard = []

    def listen(*step):
        heard.append(step)
        raise ValueError

    answer = db.sql(query, epsilon=4, progress=listen)
    assert len(answer.fetchall()) == 1
    assert heard == [
        (0, 4, "rows of part 1 of 2"),
        (1, 4, "release of part 1 of 2"),
        (2, 4, "rows of part 2 of 2"),
        (3, 4, "release of part 2 of 2"),
        (4, 4, "done"),
    ]
    with pytest.raises(TypeError, match="progress must be a function"):
        db.sql(query, progress=True)


def test_what_was_released_before_a_failure_is_written_out(tmp_path, capsys, monkeypatch):
    pd.DataFrame({"user": range(50), "x": [0.5] * 50}).to_parquet(tmp_path / "rows.parquet")
    compute, calls = _database._compute, []

    def fails(*args):
        calls.append(1)
        if len(calls) > 1:
            raise RuntimeError
        return compute(*args)

    monkeypatch.setattr(_database, "_compute", fails)
    query = "SELECT COUNT(*) FROM rows WHERE x >= (SELECT AVG(x) AS mean FROM rows)"
    given = [str(tmp_path / "rows.parquet"), query, "--unit", "user", "--total", "3", "1e-5"]
    assert main([*given, "--ledger", str(tmp_path / "spent")]) == 1
    out, err = capsys.readouterr()
    assert out.startswith("mean,mean_low,mean_high")
    assert "1 subquery was released" in err
