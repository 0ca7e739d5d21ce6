"""The ledger: balanced lines, posted by the database in the commits of the transitions that prove them.

Whoever moves a node, engine, operator or plain SQL, posts with it: no caller can forget. What may follow a departure
was written down with the attempt (`domain/ledger.py`), so the triggers decide nothing that the plan does not say.
"""

from __future__ import annotations

from sqlalchemy import (
    DDL,
    BigInteger,
    CheckConstraint,
    Column,
    Index,
    Integer,
    Numeric,
    SmallInteger,
    Table,
    UniqueConstraint,
    event,
    text,
)
from sqlalchemy.dialects.postgresql import UUID

from qtg_dagster.domain.ledger import EntryKind
from qtg_dagster.store.schema.base import metadata, not_empty, one_of, serial_key, timestamp, words
from qtg_dagster.store.schema.triggers import append_only_trigger

ledger_lines = Table(
    "ledger_lines",
    metadata,
    serial_key(),
    # The books outlive the movements' rows, so nothing here refers to them by a constraint; `qtg ledger verify` looks
    # that each line's movement stands or has a tombstone.
    Column("request_id", UUID(as_uuid=False), nullable=False),
    # The node and attempt whose money it is; `step_id` may be another node's, which saw it.
    Column("request_node_id", UUID(as_uuid=False), nullable=False),
    Column("attempt_no", Integer, nullable=False),
    words("entry_kind"),
    words("from_account"),
    words("to_account"),
    words("asset"),
    Column("decimals", SmallInteger, nullable=False),
    Column("base_units", Numeric(78, 0), nullable=False),
    Column("step_id", BigInteger),
    timestamp("posted_at", now=True),
    one_of("entry_kind", EntryKind),
    not_empty("from_account"),
    not_empty("to_account"),
    not_empty("asset"),
    CheckConstraint("base_units > 0", name="moves_something"),
    CheckConstraint("from_account <> to_account", name="moves_somewhere"),
    UniqueConstraint("request_node_id", "attempt_no", "entry_kind"),
    Index("ix_ledger_lines_departures", "request_id", postgresql_where=text("entry_kind = 'departure'")),
    Index("ix_ledger_lines_request_id", "request_id", "id"),
)

BASE_UNITS = """CREATE OR REPLACE FUNCTION qtg.base_units(amount text, decimals integer) RETURNS numeric
LANGUAGE sql IMMUTABLE AS $units$
    SELECT CASE WHEN units = trunc(units) THEN trunc(units) END
    FROM (SELECT CASE WHEN amount ~ '^(0|[1-9][0-9]{0,40})([.][0-9]{1,36})?$'
                      THEN amount::numeric * ('1e' || decimals)::numeric END AS units) AS exact
$units$"""

POST_LINE = """CREATE OR REPLACE FUNCTION qtg.post_line(
    of_attempt qtg.ledger_lines, kind text, source text, target text, in_asset text, with_decimals integer,
    units numeric, step bigint
) RETURNS boolean LANGUAGE plpgsql AS $post$
BEGIN
    IF units IS NULL OR units <= 0 THEN
        RETURN false;
    END IF;
    INSERT INTO qtg.ledger_lines (request_id, request_node_id, attempt_no, entry_kind, from_account, to_account,
                                  asset, decimals, base_units, step_id)
    VALUES (of_attempt.request_id, of_attempt.request_node_id, of_attempt.attempt_no, kind, source, target,
            in_asset, with_decimals, units, step)
    ON CONFLICT (request_node_id, attempt_no, entry_kind) DO NOTHING;
    RETURN FOUND;
END
$post$"""

POST_DEPARTURE = """CREATE OR REPLACE FUNCTION qtg.post_departure() RETURNS trigger LANGUAGE plpgsql AS $post$
BEGIN
    INSERT INTO qtg.ledger_lines (request_id, request_node_id, attempt_no, entry_kind, from_account, to_account,
                                  asset, decimals, base_units, step_id)
    SELECT n.request_id, n.id, NEW.attempt_no, 'departure', NEW.ledger ->> 'source', 'transit:' || n.request_id,
           NEW.ledger ->> 'asset', (NEW.ledger ->> 'decimals')::integer, (NEW.ledger ->> 'units')::numeric,
           (SELECT max(s.id) FROM qtg.movement_node_steps s WHERE s.request_node_id = n.id)
    FROM qtg.movement_request_nodes n
    WHERE n.id = NEW.request_node_id
    ON CONFLICT (request_node_id, attempt_no, entry_kind) DO NOTHING;
    RETURN NULL;
END
$post$"""

POST_OUTCOME = """CREATE OR REPLACE FUNCTION qtg.post_outcome() RETURNS trigger LANGUAGE plpgsql AS $post$
DECLARE
    gone qtg.ledger_lines;
    plan record;
    rest numeric;
    fee numeric;
    part numeric;
    step bigint;
    arrived boolean;
    returned boolean;
BEGIN
    FOR gone IN SELECT * FROM qtg.ledger_lines
                WHERE request_id = NEW.request_id AND entry_kind = 'departure' ORDER BY id LOOP
        step := coalesce(step, CASE WHEN NEW.node_state = 'READY' THEN
            (SELECT max(s.id) FROM qtg.movement_node_steps s WHERE s.request_node_id = NEW.id)
            ELSE NEW.evidence_step_id END);
        SELECT gone.base_units - coalesce(sum(base_units) FILTER (WHERE from_account = gone.to_account), 0),
               coalesce(bool_or(entry_kind = 'arrival'), false), coalesce(bool_or(entry_kind = 'return'), false)
        INTO rest, arrived, returned
        FROM qtg.ledger_lines
        WHERE request_node_id = gone.request_node_id AND attempt_no = gone.attempt_no;
        FOR plan IN
            SELECT f.* FROM qtg.movement_node_attempts a,
                 jsonb_to_recordset(a.ledger -> 'follow_ups') AS f(
                     node text, state text, post text, account text, amount text, codes jsonb, asset text,
                     decimals integer)
            WHERE a.request_node_id = gone.request_node_id AND a.attempt_no = gone.attempt_no
              AND f.node = NEW.node_key AND f.state = NEW.node_state AND NOT returned
        LOOP
            CASE plan.post
            WHEN 'gas' THEN
                IF gone.attempt_no = NEW.attempt_no THEN
                    PERFORM qtg.post_line(gone, 'gas', gone.from_account, plan.account, plan.asset, plan.decimals,
                        qtg.base_units(NEW.provider_refs ->> plan.amount, plan.decimals), step);
                END IF;
            WHEN 'return' THEN
                IF plan.codes ? NEW.error_code THEN
                    PERFORM qtg.post_line(gone, 'return', gone.to_account, gone.from_account, gone.asset,
                        gone.decimals, rest, step);
                END IF;
            WHEN 'withheld' THEN
                fee := qtg.base_units(NEW.provider_refs ->> 'withdrawal_fee', gone.decimals);
                part := least(fee, greatest(0, gone.base_units - coalesce(
                    qtg.base_units(NEW.provider_refs ->> 'withdrawal_amount', gone.decimals), gone.base_units)));
                IF NOT arrived AND qtg.post_line(gone, 'withheld', gone.to_account, plan.account, gone.asset,
                                                 gone.decimals, part, step) THEN
                    rest := rest - part;
                END IF;
                PERFORM qtg.post_line(gone, 'charge', gone.from_account, plan.account, gone.asset, gone.decimals,
                    fee - part, step);
            WHEN 'arrival' THEN
                part := CASE WHEN plan.amount IS NULL THEN rest
                             ELSE qtg.base_units(NEW.provider_refs ->> plan.amount, gone.decimals) END;
                IF qtg.post_line(gone, 'arrival', gone.to_account, plan.account, gone.asset, gone.decimals,
                                 part, step) THEN
                    PERFORM qtg.post_line(gone, 'shortfall', gone.to_account, 'fee:on the way', gone.asset,
                        gone.decimals, rest - part, step);
                END IF;
            ELSE NULL;
            END CASE;
        END LOOP;
        IF gone.request_node_id = NEW.id AND NEW.node_state <> 'COMPLETED' THEN
            PERFORM qtg.post_line(gone, 'return', gone.to_account, gone.from_account, gone.asset, gone.decimals,
                rest, step);
        END IF;
    END LOOP;
    RETURN NULL;
END
$post$"""

ON_ATTEMPT = """CREATE TRIGGER ledger_departure AFTER INSERT ON qtg.movement_node_attempts
FOR EACH ROW WHEN (NEW.ledger ? 'units') EXECUTE FUNCTION qtg.post_departure()"""

ON_OUTCOME = """CREATE TRIGGER ledger_outcome AFTER UPDATE OF node_state ON qtg.movement_request_nodes
FOR EACH ROW WHEN (OLD.node_state IS DISTINCT FROM NEW.node_state AND (NEW.node_state IN ('COMPLETED', 'FAILED')
    OR (NEW.node_state = 'READY' AND OLD.node_state = 'SUBMITTING'))) EXECUTE FUNCTION qtg.post_outcome()"""

STATEMENTS = (
    BASE_UNITS,
    POST_LINE,
    POST_DEPARTURE,
    POST_OUTCOME,
    ON_ATTEMPT,
    ON_OUTCOME,
    append_only_trigger("ledger_lines"),
)

for _statement in STATEMENTS:
    _ddl: DDL = DDL(_statement.replace("%", "%%"))  # type: ignore[no-untyped-call]
    event.listen(metadata, "after_create", _ddl)
