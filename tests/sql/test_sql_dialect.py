"""The source's spelling: options, ANON_ aggregates, clamps of what a unit has in a key."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skdp import PrivacyBudget
from skdp.exceptions import QueryRefusedError
from skdp.sql import PrivateDatabase
from tests.folding import each
from tests.sql.shop import database, shop

ACCESS_LOGS = """
SELECT WITH ANONYMIZATION OPTIONS(epsilon=0.1, delta=1e-12)
browser_agent,
ANON_COUNT(* CLAMPED BETWEEN 0 AND 1) AS visits -- global sensitivity
FROM access_logs
GROUP BY browser_agent;
"""


def access_logs(users=200_000):
    """Return visits of people by browser; one browser has one user, with a thousand visits."""
    rng = np.random.default_rng(0)
    agents = ["Mozilla/5.0", "AppleWebKit/537.36", "Chrome/77.0"]
    browser = rng.choice(agents, users, p=[0.25, 0.2, 0.55])
    times = rng.integers(1, 4, users)
    frame = pd.DataFrame({"username": np.arange(users).astype(str), "browser_agent": browser})
    frame = frame.loc[np.repeat(np.arange(users), times)]
    alone = pd.DataFrame({"username": ["ann"] * 1000, "browser_agent": ["Mozilla/1.22"] * 1000})
    return pd.concat([frame, alone], ignore_index=True), dict(zip(*np.unique(browser, return_counts=True), strict=True))  # fmt: skip # noqa: E501


@pytest.mark.slow
def test_the_access_log_of_the_source():
    logs, users = access_logs()
    budget = PrivacyBudget(1, 1e-9, adjacency="add_or_remove_one", unit="username")
    db = PrivateDatabase(
        {"access_logs": logs}, tables={"access_logs": {"unit": "username"}}, budget=budget
    )
    answer = db.sql(ACCESS_LOGS)
    found = answer.to_dict()
    assert (budget.spent.epsilon, budget.spent.delta) == (0.1, 1e-12)
    assert found["browser_agent"] == sorted(users)  # and none that one person alone has
    for name, visits, low, high in zip(*found.values(), strict=True):
        assert low <= visits <= high
        assert abs(visits - users[name]) < 6 * (high - low)
        assert high - low < 10_000
    assert answer.max_rows_per_unit_ == 1


@pytest.mark.slow
def test_what_a_unit_has_in_a_key_is_clamped_as_a_whole():
    con = shop()
    db = database(con)
    true = con.execute(
        "SELECT sum(least(n, 3)), sum(greatest(least(s, 50), 1)), avg(least(a, 60)) FROM (SELECT "
        "count(*) n, sum(minutes) s, avg(minutes) a FROM visits GROUP BY uid) WHERE a IS NOT NULL"
    ).fetchone()
    query = (
        "SELECT WITH ANONYMIZATION OPTIONS(epsilon = 300, delta=0) ANON_COUNT(* CLAMPED BETWEEN 0 "
        "AND 3) AS n, ANON_SUM(minutes CLAMPED BETWEEN 1 AND 50) s, ANON_AVG(minutes CLAMPED "
        "BETWEEN 0 AND 60) a, COUNT(DISTINCT uid) AS u FROM visits WHERE minutes IS NOT NULL"
    )
    row = db.sql(query).to_dict()
    plain = con.execute(
        "SELECT sum(least(n, 3)) FROM (SELECT count(minutes) n FROM visits GROUP BY uid)"
    ).fetchone()
    assert row["n"][0] == pytest.approx(float(plain[0]), rel=0.02)
    assert row["s"][0] == pytest.approx(float(true[1]), rel=0.02)
    assert row["a"][0] == pytest.approx(float(true[2]), rel=0.02)
    named = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=300, delta=0, max_groups_contributed=2)\n"
        "COUNT(*, contribution_bounds_per_group => (0, 3)) AS n, "
        "SUM(minutes, contribution_bounds_per_group=>(1, 50)) AS s FROM visits "
        "WHERE minutes IS NOT NULL"
    )
    again = db.sql(named).to_dict()
    assert again["n"][0] == pytest.approx(row["n"][0], rel=0.02)
    assert again["s"][0] == pytest.approx(row["s"][0], rel=0.02)


@pytest.mark.slow
def test_quantiles_and_variances_and_learned_clamps():
    db = database()
    row = db.sql(
        "SELECT WITH ANONYMIZATION OPTIONS(epsilon=100, delta=1e-9) ANON_PERCENTILE(minutes, 0.5 "
        "CLAMPED BETWEEN 0 AND 100) p, ANON_VAR(minutes CLAMPED BETWEEN 0 AND 100) v FROM visits"
    )
    assert row.bounds_ == {"minutes": (0.0, 100.0)}
    learned = db.sql(
        "SELECT WITH ANONYMIZATION OPTIONS(epsilon=100, delta=1e-3, kappa=2) browser, "
        "ANON_SUM(minutes) AS s FROM visits GROUP BY browser"
    )
    assert learned.max_keys_per_unit_ == 2
    assert learned.max_rows_per_unit_ == 1


@each(
    ("query", "why"),
    [
        ("SELECT WITH ANONYMIZATION COUNT(*) FROM visits", "OPTIONS"),
        (
            "SELECT WITH ANONYMIZATION OPTIONS(epsilon=x) COUNT(*) FROM visits",
            "must be set to a number",
        ),
        ("SELECT WITH ANONYMIZATION OPTIONS(eps=1) COUNT(*) FROM visits", "not an option"),
        ("SELECT WITH ANONYMIZATION OPTIONS(epsilon=1, epsilon=2) 1 FROM visits", "twice"),
        ("SELECT WITH ANONYMIZATION OPTIONS(epsilon=1", "closing parenthesis"),
        ("SELECT ANON_COUNT(* CLAMPED BETWEEN 0 AND 1) FROM visits", "cannot be parsed"),
        (
            (
                "SELECT WITH ANONYMIZATION OPTIONS(epsilon=1) ANON_COUNT(* CLAMPED BETWEEN 3 AND 1) "  # noqa: E501
                "FROM visits"
            ),
            "lower number first",
        ),
        (
            (
                "SELECT WITH ANONYMIZATION OPTIONS(epsilon=1) ANON_COUNT(* CLAMPED BETWEEN 0 AND x) "  # noqa: E501
                "FROM visits"
            ),
            "must be literal numbers",
        ),
        (
            (
                "SELECT WITH ANONYMIZATION OPTIONS(epsilon=1) ANON_COUNT(*), ANON_VAR(minutes) "
                "FROM visits"
            ),
            "in a query of their own",
        ),
        (
            "SELECT COUNT(*) FROM (SELECT WITH ANONYMIZATION OPTIONS(epsilon=1) uid FROM visits)",
            "only at the start",
        ),
        (
            "SELECT WITH ANONYMIZATION OPTIONS(epsilon=1) ANON_QUANTILES(minutes, 3) FROM visits",
            "not on the list",
        ),
        (
            (
                "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) "
                "SUM(minutes, contribution_bounds_per_group => 3) FROM visits"
            ),
            "must be the last argument",
        ),
    ],
)
def test_refusals(query, why):
    db = database(shop(users=3))
    with pytest.raises(QueryRefusedError, match=why):
        db.sql(query)
    assert db.budget.spent.epsilon == 0


def test_an_epsilon_is_stated_once():
    with pytest.raises(ValueError, match="given twice"):
        database(shop(users=3)).sql(
            "SELECT WITH ANONYMIZATION OPTIONS(epsilon=1) COUNT(*) FROM visits", epsilon=2
        )
