"""Many copies of one real movement, rows and all, by plain SQL: what the tables hold after a long time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql
from sqlalchemy.engine import make_url

from qtg_dagster.domain.errors import ConfigurationError

_MAPS = """
    CREATE TEMP TABLE new_request AS SELECT gen_random_uuid() AS id FROM generate_series(1, {many});
    CREATE TEMP TABLE new_node AS
        SELECT r.id AS request, n.id AS old, gen_random_uuid() AS id
        FROM new_request r, qtg.movement_request_nodes n WHERE n.request_id = {model};
    CREATE TEMP TABLE new_step AS
        SELECT n.id AS node, s.id AS old, nextval('qtg.movement_node_steps_id_seq') AS id
        FROM new_node n JOIN qtg.movement_node_steps s ON s.request_node_id = n.old;
    CREATE INDEX ON new_step (node, old);
    ANALYZE new_node, new_step;
"""
_COPIES = (
    ("movement_requests", "new_request n WHERE o.id = {model}", {"id": "n.id"}),
    (
        "movement_request_nodes",
        "new_node n WHERE o.id = n.old",
        {
            "id": "n.id",
            "request_id": "n.request",
            "evidence_step_id": "(SELECT s.id FROM new_step s WHERE s.node = n.id AND s.old = o.evidence_step_id)",
        },
    ),
    (
        "movement_node_attempts",
        "new_node n WHERE o.request_node_id = n.old",
        {
            "id": "nextval('qtg.movement_node_attempts_id_seq')",
            "request_node_id": "n.id",
            "idempotency_key": "md5(n.id::text || o.attempt_no)",
        },
    ),
    (
        "movement_node_steps",
        "new_step n WHERE o.id = n.old",
        {"id": "n.id", "request_node_id": "n.node"},
    ),
)


@contextmanager
def as_superuser(url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A session without triggers and foreign keys, which takes a superuser: the embedded server's, or the URL's own."""
    parsed = make_url(url)
    as_whom = parsed if parsed.host or parsed.password else parsed.set(username="postgres")
    with psycopg.connect(as_whom.render_as_string(hide_password=False), autocommit=True) as connection:
        try:
            connection.execute("SET session_replication_role = replica")
        except psycopg.errors.InsufficientPrivilege as refused:
            raise ConfigurationError("--url: filling the tables needs a superuser; leave --url out") from refused
        yield connection


def copies_of(url: str, request_id: str, many: int) -> None:
    """Add `many` copies of a movement with its nodes, attempts and steps, then ANALYZE.

    Triggers and foreign keys are off meanwhile.
    """
    with as_superuser(url) as connection:
        given = {"many": sql.Literal(many), "model": sql.Literal(request_id)}
        connection.execute(sql.SQL(_MAPS).format(**given))
        for table, source, replaced in _COPIES:
            columns = [
                str(name)
                for (name,) in connection.execute(
                    "SELECT column_name FROM information_schema.columns WHERE table_schema = 'qtg' "
                    "AND table_name = %s AND is_generated = 'NEVER'",
                    [table],
                )
            ]
            values = [sql.SQL(replaced[name]) if name in replaced else sql.Identifier("o", name) for name in columns]
            connection.execute(
                sql.SQL("INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE SELECT {} FROM {} o, ").format(
                    sql.Identifier("qtg", table),
                    sql.SQL(", ").join(map(sql.Identifier, columns)),
                    sql.SQL(", ").join(values),
                    sql.Identifier("qtg", table),
                )
                + sql.SQL(source).format(**given)
            )
        connection.execute("VACUUM ANALYZE")
