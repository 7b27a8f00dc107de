"""A database in which others may make schemas: nothing of theirs is executed, or hides a ledger.

Every trap calls one function, which notes that it ran where no rollback removes the note.
"""

from __future__ import annotations

import pytest

from skdp import PrivacyBudget, ledger
from skdp.budget import Cost, postgres
from skdp.exceptions import LedgerError
from tests.budget.server import start_server

pytestmark = pytest.mark.slow

TRAP = """
CREATE FUNCTION evil.run(what text) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_catalog.pg_advisory_lock_shared(4242);  -- outlives a rollback, in read-only ones too
    BEGIN
        PERFORM pg_catalog.nextval('evil.ran');
    EXCEPTION WHEN OTHERS THEN NULL;
    END;
    RETURN what;
END $$
"""


@pytest.fixture(scope="module")
def server():
    one = start_server()
    one.sql("CREATE SCHEMA evil", "CREATE SEQUENCE evil.ran", TRAP)
    one.sql(
        "CREATE FUNCTION evil.fires() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM evil.run('x'); RETURN NEW; END $$"
    )
    yield one
    one.close()


@pytest.fixture
def name(server):
    name.number += 1
    server.sql("SELECT setval('evil.ran', 1, false)")
    return f"h{name.number}"


name.number = 0


def ran(server):
    """Say whether a trap was sprung."""
    (called,) = server.sql("SELECT is_called FROM evil.ran")[0]
    (locks,) = server.sql("SELECT count(*) FROM pg_locks WHERE objid = 4242")[0]
    return called or locks > 0


def forget():
    """Close all connections, as in a new process, and check all ledgers again."""
    for _, connection in postgres._OPEN.values():
        connection.close()
    postgres._OPEN.clear()
    postgres._CHECKED.clear()


def test_a_trap_is_noticed(server, name):
    assert not ran(server)
    server.sql("SELECT evil.run('x')")
    assert ran(server)


def test_ledgers_of_other_schemas_are_not_read(server, name):
    # The erased ledger is this client's own: views run with the rights of who reads them.
    PrivacyBudget(1.0, ledger=server.url(name)).charge(Cost(1.0), estimator="A")
    server.sql(
        f"CREATE SCHEMA {name}evil",
        f"CREATE FUNCTION {name}evil.erase() RETURNS text LANGUAGE sql AS $$ DELETE FROM"
        f" {name}.charges; UPDATE {name}.totals SET charges = 0, charged_main = '0';"
        f" SELECT evil.run('table of {name}') $$",
        f"CREATE VIEW {name}evil.ledger AS SELECT {name}evil.erase() AS dataset, 'x' AS id",
        f"CREATE TABLE {name}evil.skdp_format (version bigint)",
        f"CREATE SCHEMA {name}view",
        f"CREATE VIEW {name}view.skdp_format AS SELECT evil.run('x') AS version",
        f"CREATE VIEW {name}view.ledger AS SELECT evil.run('x') AS dataset, 'x' AS id",
    )
    budget = PrivacyBudget(1.0, ledger=server.url(f"{name}b"), dataset=f"table of {name}")
    budget.charge(Cost(0.1), estimator="A")
    PrivacyBudget(1.0, ledger=server.url(name), dataset=f"other table of {name}")
    assert not ran(server)
    assert PrivacyBudget.open(server.url(name)).spent.epsilon == 1.0


SWAPS = {
    "view": [
        "ALTER TABLE {n}.ledger RENAME TO old",
        "CREATE VIEW {n}.ledger AS SELECT * FROM {n}.old WHERE evil.run('x') = 'x'",
    ],
    "view of totals": [
        "ALTER TABLE {n}.totals RENAME TO old",
        "CREATE VIEW {n}.totals AS SELECT * FROM {n}.old WHERE evil.run('x') = 'x'",
    ],
    "view of the format": [
        "ALTER TABLE {n}.skdp_format RENAME TO old",
        "CREATE VIEW {n}.skdp_format AS SELECT * FROM {n}.old WHERE evil.run('x') = 'x'",
    ],
    "materialized view": [
        "ALTER TABLE {n}.plans RENAME TO old",
        "CREATE MATERIALIZED VIEW {n}.plans AS SELECT * FROM {n}.old",
    ],
    "rule": [
        "CREATE RULE r AS ON INSERT TO {n}.charges DO ALSO SELECT evil.run('x')",
    ],
    "trigger": [
        "CREATE TRIGGER t BEFORE INSERT ON {n}.charges FOR EACH ROW EXECUTE FUNCTION evil.fires()",
    ],
    "trigger of commits": [
        "CREATE TRIGGER t AFTER INSERT ON {n}.commits EXECUTE FUNCTION evil.fires()",
    ],
    "policy": [
        "ALTER TABLE {n}.totals ENABLE ROW LEVEL SECURITY",
        "ALTER TABLE {n}.totals FORCE ROW LEVEL SECURITY",
        "CREATE POLICY p ON {n}.totals USING (evil.run('x') = 'x')",
    ],
    "default": ["ALTER TABLE {n}.charges ALTER COLUMN host SET DEFAULT evil.run('x')"],
    "column with a default": [
        "ALTER TABLE {n}.commits ADD COLUMN more text",
        "ALTER TABLE {n}.commits ALTER COLUMN more SET DEFAULT evil.run('x')",
    ],
    "constraint": [
        "ALTER TABLE {n}.commits ADD CHECK (evil.run(key) = key) NOT VALID",
    ],
    "index": [
        (
            "CREATE FUNCTION evil.pure(text) RETURNS text LANGUAGE sql IMMUTABLE AS"
            " $$ SELECT evil.run($1) $$"
        ),
        "CREATE INDEX ON {n}.commits (evil.pure(key))",
    ],
    "partial index": [
        (
            "CREATE FUNCTION evil.also(text) RETURNS boolean LANGUAGE sql IMMUTABLE AS"
            " $$ SELECT evil.run($1) = $1 $$"
        ),
        "CREATE INDEX ON {n}.commits (key) WHERE evil.also(key)",
    ],
    "domain": [
        "CREATE DOMAIN evil.word AS text",
        "ALTER TABLE {n}.commits ALTER COLUMN key TYPE evil.word",
        "ALTER DOMAIN evil.word ADD CHECK (evil.run('x') = 'x') NOT VALID",
    ],
    "child": [
        "CREATE TABLE {n}.more () INHERITS ({n}.totals)",
    ],
    "operator": [
        (
            "CREATE FUNCTION {n}.equal(bigint, smallint) RETURNS boolean LANGUAGE sql AS"
            " $$ SELECT evil.run('x') = 'x' $$"
        ),
        "CREATE OPERATOR {n}.= (LEFTARG = bigint, RIGHTARG = smallint, FUNCTION = {n}.equal)",
    ],
    "function": [
        "CREATE FUNCTION {n}.count(text) RETURNS text LANGUAGE sql AS $$ SELECT evil.run('x') $$",
    ],
    "owner": [
        "CREATE ROLE {n}_other",
        "ALTER TABLE {n}.charges OWNER TO {n}_other",
    ],
    "table is gone": ["DROP TABLE {n}.draws"],
}


@pytest.mark.parametrize("swap", SWAPS)
def test_a_ledger_whose_tables_are_not_as_they_were_made_is_refused(server, name, swap):
    url = server.url(name)
    budget = PrivacyBudget(1.0, ledger=url, dataset=f"table of {name}")
    budget.charge(Cost(0.1), estimator="A")
    server.sql(*[one.format(n=name) for one in SWAPS[swap]])
    server.sql("SELECT setval('evil.ran', 1, false)")  # making a trap may spring it
    for use in (
        lambda: budget.charge(Cost(0.1), estimator="A"),
        lambda: budget.spent,
        lambda: PrivacyBudget(1.0, ledger=url),
        lambda: ledger.show(url),
    ):
        forget()
        with pytest.raises(LedgerError, match="is not used, because"):
            use()
        assert not ran(server)
    # Another ledger goes on, whatever lies beside it.
    beside = PrivacyBudget(1.0, ledger=server.url(f"{name}b"), dataset=f"other than {name}")
    beside.charge(Cost(0.1), estimator="A")
    assert not ran(server)


def test_names_are_looked_up_in_the_catalog_first_whatever_the_database_says(server, name):
    trap = "LANGUAGE sql AS $$ SELECT evil.run('x') $$"
    equal = "RETURNS boolean LANGUAGE sql AS $$ SELECT evil.run('x') = 'x' $$"
    server.sql(
        f"CREATE SCHEMA {name}first",
        f"CREATE FUNCTION {name}first.current_setting(text) RETURNS text {trap}",
        f"CREATE FUNCTION {name}first.set_config(text, text, boolean) RETURNS text {trap}",
        f"CREATE FUNCTION {name}first.hashtext(text) RETURNS text {trap}",
        f"CREATE FUNCTION {name}first.equal(text, text) {equal}",
        f"CREATE OPERATOR {name}first.= (LEFTARG = text, RIGHTARG = text,"
        f" FUNCTION = {name}first.equal)",
        f"CREATE FUNCTION {name}first.same(name, name) {equal}",
        f"CREATE OPERATOR {name}first.= (LEFTARG = name, RIGHTARG = name,"
        f" FUNCTION = {name}first.same)",
        f"CREATE DOMAIN {name}first.text AS pg_catalog.text CHECK (evil.run('x') = 'x')",
        f"CREATE ROLE {name}_client SUPERUSER LOGIN",
        f"ALTER ROLE {name}_client SET search_path = {name}first, pg_catalog, public",
        "SELECT setval('evil.ran', 1, false)",
    )
    url = server.url(name, user=f"{name}_client")
    budget = PrivacyBudget(1.0, ledger=url, dataset=f"table of {name}")
    with budget.reserve(Cost(0.3)):
        budget.charge(Cost(0.1), estimator="A")
    assert PrivacyBudget.open(url).spent.epsilon == 0.1
    assert len(budget.charges) == 1
    ledger.show(url)
    assert not ran(server)


# --- the registry ---------------------------------------------------------------------------------


def test_whoever_comes_first_cannot_hide_ledgers_of_others(server, name):
    data = f"table of {name}"
    server.sql(
        f"CREATE ROLE {name}_mallory LOGIN",
        f"CREATE ROLE {name}_anna LOGIN",
        f"GRANT CREATE ON DATABASE postgres TO {name}_mallory, {name}_anna",
    )
    PrivacyBudget(1.0, ledger=server.url(f"{name}m", user=f"{name}_mallory"), dataset="m")
    PrivacyBudget(1.0, ledger=server.url(name, user=f"{name}_anna"), dataset=data)
    import psycopg

    plain = server.url(name, user=f"{name}_mallory").partition("?")[0]
    with psycopg.connect(plain) as connection, pytest.raises(psycopg.Error):
        connection.execute(f"COMMENT ON TABLE {name}.skdp_format IS NULL")
    # Mallory may not read Anna's ledger; the name of its data set is hers all the same.
    with pytest.raises(LedgerError, match="One table has one ledger"):
        PrivacyBudget(1.0, ledger=server.url(f"{name}n", user=f"{name}_mallory"), dataset=data)
    with pytest.raises(LedgerError, match="One table has one ledger"):
        PrivacyBudget(1.0, ledger=server.url(f"{name}o"), dataset=data)


def test_ledgers_from_before_the_registry_are_noticed_and_registered(server, name):
    def comment(schema):
        return server.sql(f"SELECT obj_description('{schema}.skdp_format'::regclass)")[0][0]

    data = f"table of {name}"
    PrivacyBudget(1.0, ledger=server.url(name), dataset=data)
    server.sql(f"COMMENT ON TABLE {name}.skdp_format IS NULL")
    with pytest.raises(LedgerError, match="One table has one ledger"):  # of the same role
        PrivacyBudget(1.0, ledger=server.url(f"{name}b"), dataset=data)
    server.sql(f"COMMENT ON TABLE {name}.skdp_format IS 'a remark'")
    PrivacyBudget.open(server.url(name))
    assert comment(name).startswith("skdp ledger")
    assert data not in comment(name)  # everybody in the database can read it
    server.sql(f"CREATE ROLE {name}_bob LOGIN", f"GRANT CREATE ON DATABASE postgres TO {name}_bob")
    with pytest.raises(LedgerError, match="One table has one ledger"):
        PrivacyBudget(1.0, ledger=server.url(f"{name}c", user=f"{name}_bob"), dataset=data)


def test_a_name_that_a_ledger_gets_later_is_registered(server, name):
    data = f"table of {name}"
    PrivacyBudget(1.0, ledger=server.url(name))
    PrivacyBudget(1.0, ledger=server.url(name), dataset=data)
    with pytest.raises(LedgerError, match="One table has one ledger"):
        PrivacyBudget(1.0, ledger=server.url(f"{name}b"), dataset=data)
    PrivacyBudget(1.0, ledger=server.url(f"{name}c"))
    with pytest.raises(LedgerError, match="One table has one ledger"):
        PrivacyBudget(1.0, ledger=server.url(f"{name}c"), dataset=data)
    assert PrivacyBudget.open(server.url(f"{name}c")).dataset is None
