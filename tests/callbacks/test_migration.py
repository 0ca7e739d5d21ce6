"""Callbacks that were written before there was a courier are delivered like all others."""

from __future__ import annotations

import json
from typing import Any

import psycopg
from alembic import command
from psycopg.rows import dict_row

from qtg_dagster.callbacks.document import Callback
from qtg_dagster.store import migrate

_MOVEMENTS = """
    WITH t AS (INSERT INTO qtg.movement_templates (template_key) VALUES ('t') RETURNING id),
    v AS (INSERT INTO qtg.movement_plan_versions (template_id, version, graph_hash, title, description)
          SELECT id, 1, 'g', 't', '' FROM t RETURNING id)
    INSERT INTO qtg.movement_requests (network_class, plan_version_id, request_state, body_hash, compiled_plan_hash,
        approval_digest, requested_by, reason, callback_url)
    SELECT 'sandbox', id, 'PENDING_APPROVAL', 'b', 'c', 'd', 'ada', '', url
    FROM v, unnest(ARRAY['https://One.example:8443/hook', 'https://two.example/']) AS url
    RETURNING id, callback_url
"""
_TELL = """
    INSERT INTO qtg.movement_callback_outbox (request_id, event_type, payload, callback_url, status)
    VALUES (%(id)s, 'request_state_changed',
            jsonb_build_object('request_id', %(id)s::uuid, 'request_state', 'APPROVED'),
            %(url)s, %(status)s)
"""


def upgrade_to(url: str, revision: str) -> None:
    engine = migrate._engine(url)
    with engine.connect() as connection:
        connection.exec_driver_sql("CREATE SCHEMA qtg")
        connection.commit()
        config = migrate._config()
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        connection.commit()
    engine.dispose()


def test_what_stood_in_the_outbox_is_numbered_addressed_and_due(empty_database_url: str) -> None:
    upgrade_to(empty_database_url, "0012")
    with psycopg.connect(empty_database_url, row_factory=dict_row) as connection:
        one, two = connection.execute(_MOVEMENTS).fetchall()
        for movement, status in ((one, "delivered"), (two, "pending"), (one, "pending")):
            connection.execute(_TELL, {"id": movement["id"], "url": movement["callback_url"], "status": status})
    migrate.upgrade(empty_database_url)
    with psycopg.connect(empty_database_url, row_factory=dict_row) as connection:
        connection.execute(_TELL, {"id": one["id"], "url": one["callback_url"], "status": "pending"})
        rows: list[dict[str, Any]] = connection.execute(
            "SELECT *, next_attempt_at <= now() AS due FROM qtg.movement_callback_outbox ORDER BY id"
        ).fetchall()
    assert [(row["request_id"], row["sequence"], row["receiver"], row["status"], row["due"]) for row in rows] == [
        (one["id"], 1, "one.example:8443", "delivered", True),
        (two["id"], 1, "two.example", "pending", True),
        (one["id"], 2, "one.example:8443", "pending", True),
        (one["id"], 3, "one.example:8443", "pending", True),
    ]
    assert len({row["event_id"] for row in rows}) == 4
    for row in rows:
        told = Callback.model_validate_json(row["body"])
        assert (told.event_id, told.sequence, told.request_id) == (row["event_id"], row["sequence"], row["request_id"])
        assert json.loads(row["body"]).keys() == json.loads(rows[-1]["body"]).keys()
