"""Running totals: exact, checked when a ledger is opened, and as cheap after many charges."""

from __future__ import annotations

import contextlib
import sqlite3
import statistics
import time
from fractions import Fraction

import pytest

from skdp.budget import Cost, PrivacyBudget, exact, gdp_mu, ledger, schema
from skdp.budget import budget as budget_module
from skdp.exceptions import LedgerError
from skdp.loss.conversions import Amount, decimal_text
from tests.folding import each

BUDGETS = {
    "basic": {},
    "gdp": {"accountant": "gdp", "separate_delta": 1e-6},
    "zcdp": {"accountant": "zcdp", "separate_delta": 1e-6},
}


def costs(n):
    """Return prices of all kinds, no two of them alike."""
    for i in range(n):
        epsilon = 1e-4 + i * 1e-9
        yield (
            Cost(epsilon),
            Cost(epsilon, 1e-12 + i * 1e-20),
            Cost(epsilon, 1e-12, mu=gdp_mu(0.01, 1e-9) + i * 1e-12),
            2 * Cost(epsilon) + Cost(epsilon / 3, 1e-13, mu=1e-5 / 3),
        )[i % 4]


def rows(path):
    """Return the totals of a ledger file and the sums of its own charges."""
    with sqlite3.connect(path) as connection:
        connection.row_factory = sqlite3.Row
        found = schema.Totals.read(connection), schema.Totals.counted(connection)
    connection.close()
    return found


@pytest.mark.parametrize("accountant", BUDGETS)
def test_the_totals_are_the_exact_sums(tmp_path, accountant):
    path = tmp_path / "a.budget"
    budget = PrivacyBudget(5.0, 1e-5, ledger=path, **BUDGETS[accountant])
    total = Amount()
    for cost in costs(40):
        budget.charge(cost, estimator="Fake")
        total = total + budget._account.accountant.price(cost)
        assert budget._ledger.look().totals.charged == total
    with budget.reserve(Cost(0.3)), budget.reserve(Cost(0.2, 1e-7, mu=0.01)):
        budget.charge(Cost(0.01), estimator="Fake")
        kept, counted = rows(path)
        assert kept == counted
        assert kept.aside.main > 0
    kept, counted = rows(path)
    assert kept == counted == schema.Totals(41, counted.charged, Amount())
    assert PrivacyBudget(5.0, 1e-5, ledger=path, **BUDGETS[accountant]).spent == budget.spent


DAMAGE = {
    "a charge less": "DELETE FROM charges WHERE number = 2",
    "the last charge less": "DELETE FROM charges WHERE number = 3",
    "a charge twice": "INSERT INTO charges SELECT 4, at, pid, estimator, components, seeded,"
    " releases, note, main, apart, skdp_version FROM charges WHERE number = 1",
    "a smaller charge": "UPDATE charges SET main = '0.1' WHERE number = 1",
    "a smaller total": "UPDATE totals SET charged_main = '0.5'",
    "a smaller delta": "UPDATE totals SET charged_apart = '0.0'",
    "nothing set aside": "UPDATE totals SET aside_main = '0'",
    "no totals": "DELETE FROM totals",
    "two totals": "INSERT INTO totals SELECT * FROM totals",
    "no table of totals": "DROP TABLE totals",
}


@each("damage", DAMAGE)
def test_totals_that_are_not_the_sums_are_damage(tmp_path, damage):
    path = tmp_path / "a.budget"
    budget = PrivacyBudget(9.0, 1e-6, ledger=path)
    handle = budget.__reduce__()
    with contextlib.suppress(LedgerError), budget.reserve(Cost(2.0)):
        for _ in range(3):
            budget.charge(Cost(0.5, 1e-8), estimator="Fake")
        with sqlite3.connect(path) as connection:
            connection.execute(DAMAGE[damage])
        connection.close()
        with pytest.raises(LedgerError, match=r"damaged|no usable|not a usable"):
            PrivacyBudget(9.0, 1e-6, ledger=path)
        # and so in a process that gets it in a pickle
        budget_module._LIVE.clear()
        ledger._CHECKED.clear()
        unpickle, arguments = handle
        with pytest.raises(LedgerError):
            unpickle(*arguments).charge(Cost(0.5, 1e-8), estimator="Fake")


def make_old(path, charges, open_reservation=True):
    """Write a ledger as skdp 0.1 did, with `charges` (epsilon, delta)."""
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 1")
        connection.executescript(
            """
            CREATE TABLE ledger (
                id TEXT NOT NULL, created TEXT NOT NULL, epsilon TEXT NOT NULL,
                delta TEXT NOT NULL, adjacency TEXT NOT NULL, accountant TEXT NOT NULL,
                delta_apart TEXT NOT NULL);
            CREATE TABLE charges (
                number INTEGER PRIMARY KEY, at TEXT NOT NULL, pid INTEGER NOT NULL,
                estimator TEXT NOT NULL, components TEXT NOT NULL, seeded INTEGER NOT NULL,
                releases TEXT NOT NULL, note TEXT NOT NULL, main TEXT NOT NULL,
                apart TEXT NOT NULL);
            CREATE TABLE reservations (
                number INTEGER PRIMARY KEY, at TEXT NOT NULL, pid INTEGER NOT NULL,
                components TEXT NOT NULL, note TEXT NOT NULL,
                unused_main TEXT NOT NULL, unused_apart TEXT NOT NULL, closed TEXT);
            """
        )
        terms = ("old", "2026-01-01T00:00:00+00:00", "5.0", "1e-05")
        connection.execute(
            "INSERT INTO ledger VALUES (?, ?, ?, ?, 'replace_one', 'basic', '0.0')", terms
        )
        for number, (epsilon, delta) in enumerate(charges, 1):
            connection.execute(
                "INSERT INTO charges VALUES (?, ?, 1, 'DPPCA', ?, 0, '[]', '', ?, ?)",
                (
                    number,
                    terms[1],
                    f"[[1, {epsilon!r}, {delta!r}, null, 0.0]]",
                    decimal_text(exact(epsilon)),
                    decimal_text(exact(delta)),
                ),
            )
        if open_reservation:
            connection.execute(
                "INSERT INTO reservations VALUES (1, ?, 1, '[[1, 2.0, 0.0, null, 0.0]]', '',"
                " '2.0', '0', NULL)",
                (terms[1],),
            )
    connection.close()


def test_a_ledger_of_0_1_is_brought_up_to_date(tmp_path):
    path = tmp_path / "a.budget"
    make_old(path, [(0.1, 0.0), (0.2, 1e-7)])
    budget = PrivacyBudget(5.0, 1e-5, ledger=path)
    assert budget._ledger.look().totals.charged == Amount(Fraction(3, 10), exact(1e-7))
    assert budget.remaining.epsilon == 2.7  # nobody has a token of what 0.1 set aside
    assert [c.skdp_version for c in budget.charges] == ["0.1.0", "0.1.0"]
    charge = budget.charge(Cost(0.5), estimator="DPKMeans")
    assert (charge.number, charge.skdp_version) == (3, "0.2.0.dev0")
    assert budget.release_reservations() == 1
    assert budget.remaining.epsilon == 4.2
    with sqlite3.connect(path) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    connection.close()
    assert version == 4  # 0.1 refuses all but 1
    kept, counted = rows(path)
    assert kept == counted


def test_a_pickle_of_0_1_connects_to_its_ledger(tmp_path):
    path = tmp_path / "a.budget"
    make_old(path, [(0.1, 0.0)], open_reservation=False)
    unpickle = PrivacyBudget(1.0).__reduce__()[0]
    budget = unpickle(str(path), "old", 5.0, 1e-5, "replace_one", "basic", 0.0)
    assert budget.spent.epsilon == 0.1
    assert not budget.sealed


@pytest.mark.parametrize("damage", ["DELETE FROM charges WHERE number = 1", None])
def test_a_damaged_ledger_of_0_1_stays_as_it_is(tmp_path, damage):
    path = tmp_path / "a.budget"
    make_old(path, [(0.1, 0.0), (0.2, 1e-7)])
    with sqlite3.connect(path) as connection:
        connection.execute(damage or "UPDATE charges SET main = 'x'")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="damaged"):
        PrivacyBudget(5.0, 1e-5, ledger=path)
    assert path.read_bytes() == before


def fill(budget, n):
    """Give a ledger in memory n charges and closed reservations, as if each had been made."""
    text = "[[1, 0.001, 0.0, null, 0.0]]"
    with budget._ledger._transaction(write=True) as connection:
        for number in range(1, n + 1):
            main = decimal_text(Fraction(1, 1000) + Fraction(number, 10**9))
            connection.execute(
                "INSERT INTO charges VALUES (?, 't', 1, 'x', ?, 0, '[]', '', ?, '0', 'v')",
                (number, text, main),
            )
            connection.execute(
                "INSERT INTO reservations VALUES (?, 't', 1, ?, '', '1', '0', 't', 'hash')",
                (number, text),
            )
        schema.Totals.counted(connection).write(connection)
        connection.execute("COMMIT")


def price_of_a_charge(budget):
    """Return the median processor time of a charge that also draws from a reservation."""
    times = []
    with budget.reserve(Cost(50.0)):
        for i in range(60):
            start = time.thread_time()
            budget.charge(Cost(0.001 + i * 1e-7), estimator="x")
            times.append(time.thread_time() - start)
    return statistics.median(times)


@pytest.mark.slow
def test_a_charge_costs_the_same_after_100_000():
    few, many = PrivacyBudget(1e6), PrivacyBudget(1e6)
    fill(few, 75)
    fill(many, 100_000)
    ratios = [price_of_a_charge(many) / price_of_a_charge(few) for _ in range(3)]
    assert min(ratios) < 2
