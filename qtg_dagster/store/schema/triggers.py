"""Guards inside the database: illegal moves and rewritten history are refused, whoever tries.

Both are generated: the moves from `domain.states`, so the database and the engine cannot disagree.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from sqlalchemy import DDL, event

from qtg_dagster.domain.states import (
    INITIAL_NODE_STATE,
    INITIAL_REQUEST_STATE,
    NODE_MOVES,
    REQUEST_MOVES,
)
from qtg_dagster.store.schema.base import SCHEMA, metadata

State = TypeVar("State", bound=StrEnum)

#: Tables whose rows are evidence: nobody updates or deletes them.
APPEND_ONLY = (
    "movement_node_steps",
    "movement_approvals",
    "audit_events",
    "audit_verifications",
    "signer_journal",
    "signer_spends",
)


#: A failed node stops its movement from starting others: the movement's own row says so, whoever moved the node.
COUNT_FAILED = f"""CREATE OR REPLACE FUNCTION {SCHEMA}.count_failed() RETURNS trigger LANGUAGE plpgsql AS $count$
BEGIN
    UPDATE {SCHEMA}.movement_requests
    SET failed_nodes = failed_nodes + CASE WHEN NEW.node_state = 'FAILED' THEN 1 ELSE -1 END
    WHERE id = NEW.request_id;
    RETURN NULL;
END
$count$"""  # noqa: S608 - our own constant
COUNT_FAILED_TRIGGER = (
    f"CREATE TRIGGER count_failed AFTER UPDATE OF node_state ON {SCHEMA}.movement_request_nodes FOR EACH ROW "
    "WHEN ((OLD.node_state = 'FAILED') <> (NEW.node_state = 'FAILED')) "
    f"EXECUTE FUNCTION {SCHEMA}.count_failed()"
)


def guard_function(
    table: str,
    column: str,
    moves: Mapping[State, frozenset[State]],
    initial: State,
    *,
    declared_in: str = "domain/states.py",
) -> str:
    """SQL of the trigger function that lets only declared moves through and counts them."""
    legal = sorted(f"{old}>{new}" for old, targets in moves.items() for new in targets)
    pairs = ",\n        ".join(f"'{pair}'" for pair in legal)
    return f"""CREATE OR REPLACE FUNCTION {SCHEMA}.guard_{table}() RETURNS trigger LANGUAGE plpgsql AS $guard$
BEGIN
    NEW.updated_at := now();
    IF TG_OP = 'INSERT' THEN
        IF NEW.{column} <> '{initial}' THEN
            RAISE EXCEPTION '{table} must begin as {initial}, not %', NEW.{column} USING ERRCODE = 'check_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF NEW.{column} IS DISTINCT FROM OLD.{column} THEN
        IF NOT (OLD.{column} || '>' || NEW.{column}) = ANY (ARRAY[
        {pairs}
        ]) THEN
            RAISE EXCEPTION '{table}: % may not become %', OLD.{column}, NEW.{column}
                USING ERRCODE = 'check_violation', HINT = 'legal moves are declared in {declared_in}';
        END IF;
        NEW.state_version := OLD.state_version + 1;
    END IF;
    RETURN NEW;
END
$guard$"""


def guard_trigger(table: str) -> str:
    """SQL that puts the guard on its table."""
    return (
        f"CREATE TRIGGER guard_{table} BEFORE INSERT OR UPDATE ON {SCHEMA}.{table} "
        f"FOR EACH ROW EXECUTE FUNCTION {SCHEMA}.guard_{table}()"
    )


#: Evidence of which the functions of retention may delete what has settled; of the rest, nobody deletes anything.
DELETED_IN_TIME = ("movement_node_steps", "movement_approvals", "core_deaths", "core_group_events")

REFUSE_REWRITE = f"""CREATE OR REPLACE FUNCTION {SCHEMA}.refuse_rewrite() RETURNS trigger LANGUAGE plpgsql AS $guard$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('qtg.retention', true) = 'on' AND TG_TABLE_NAME IN
        ({", ".join(f"'{table}'" for table in DELETED_IN_TIME)}) THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION '%.% is append-only', TG_TABLE_SCHEMA, TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
END
$guard$"""


def append_only_trigger(table: str) -> str:
    """SQL that refuses UPDATE and DELETE on a table of evidence."""
    return (
        f"CREATE TRIGGER append_only_{table} BEFORE UPDATE OR DELETE ON {SCHEMA}.{table} "
        f"FOR EACH ROW EXECUTE FUNCTION {SCHEMA}.refuse_rewrite()"
    )


def statements() -> list[str]:
    """All guards, in the order they are created."""
    return [
        guard_function("movement_request_nodes", "node_state", NODE_MOVES, INITIAL_NODE_STATE),
        guard_trigger("movement_request_nodes"),
        guard_function("movement_requests", "request_state", REQUEST_MOVES, INITIAL_REQUEST_STATE),
        guard_trigger("movement_requests"),
        COUNT_FAILED,
        COUNT_FAILED_TRIGGER,
        REFUSE_REWRITE,
        *(append_only_trigger(table) for table in APPEND_ONLY),
    ]


for _statement in statements():
    _ddl: DDL = DDL(_statement.replace("%", "%%"))  # type: ignore[no-untyped-call]
    event.listen(metadata, "after_create", _ddl)
