"""The functions that delete: one bounded batch of one kind a call, and nothing that is not settled.

They run as the schema's owner and are the only way in which any role of ours deletes evidence. Each migration run
declares them anew, like the roles' rights: they belong to the release.
"""

from __future__ import annotations

from sqlalchemy import DDL, event

from qtg_dagster.domain.retention import OURS, Kind
from qtg_dagster.store.schema.base import SCHEMA, metadata
from qtg_dagster.store.schema.retention_rules import CHILDREN, RULES, SETTLED

LARGEST_BATCH = 5000
_AS_OWNER = "LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s'"
# While a function deletes, and not a moment longer, the triggers that guard evidence let it (`triggers.py`). An error
# takes the mark back with all else that was done under it.
_BEGIN = "PERFORM set_config('qtg.retention', 'on', true);"
_END = "PERFORM set_config('qtg.retention', 'off', true);"
_CHECKED = f"""IF (keep >= interval '1 day' AND batch BETWEEN 1 AND {LARGEST_BATCH}) IS NOT TRUE THEN
        RAISE EXCEPTION 'refused: keep % and batch %; a day at least, and 1 to {LARGEST_BATCH} rows', keep, batch
            USING ERRCODE = 'invalid_parameter_value';
    END IF;"""


def _rows_function(kind: Kind) -> str:
    rule = RULES[kind]
    return f"""CREATE OR REPLACE FUNCTION {SCHEMA}.{kind.function}(keep interval, batch integer) RETURNS bigint
{_AS_OWNER} AS $retain$
DECLARE
    gone bigint;
BEGIN
    {_CHECKED}
    {_BEGIN}
    DELETE FROM {SCHEMA}.{rule.table}
    WHERE ctid = ANY (ARRAY(SELECT t.ctid FROM {rule.source} LIMIT batch FOR UPDATE OF t SKIP LOCKED));
    GET DIAGNOSTICS gone = ROW_COUNT;
    {_END}
    RETURN gone;
END
$retain$"""  # noqa: S608 - our own constants


def _deleted(table: str, which: str) -> str:
    return f"""DELETE FROM {SCHEMA}.{table} WHERE {which};
        GET DIAGNOSTICS gone = ROW_COUNT;
        counts := counts || jsonb_build_object('{table}', gone);"""  # noqa: S608 - our own constants


_CHILDREN = "\n        ".join(_deleted(table, which) for table, which in CHILDREN.items())

# Whole trees only. A row of one that somebody has locked leaves the tree for a later pass; what is decided on is
# looked at again once all is locked, in a snapshot of its own: nobody can add to a movement whose row is locked.
_MOVEMENTS = f"""CREATE OR REPLACE FUNCTION {SCHEMA}.{Kind.MOVEMENTS.function}(
    keep interval, after_at timestamptz, after_id uuid, batch integer,
    OUT examined integer, OUT deleted integer, OUT held integer, OUT locked integer, OUT failed integer,
    OUT problem text, OUT counts jsonb, OUT last_at timestamptz, OUT last_id uuid
) {_AS_OWNER} AS $retain$
DECLARE
    seen uuid[];
    free uuid[];
    busy uuid[];
    trees uuid[];
    members uuid[];
    gone bigint;
BEGIN
    {_CHECKED}
    counts := '{{}}';
    SELECT array_agg(r.id ORDER BY r.finished_at, r.id), count(*) INTO seen, examined
    FROM (SELECT t.id, t.finished_at FROM qtg.movement_requests t
          WHERE t.finished_at IS NOT NULL AND t.finished_at < now() - keep
            AND (t.finished_at, t.id) > (after_at, after_id)
          ORDER BY t.finished_at, t.id LIMIT batch) AS r;
    last_id := coalesce(seen[examined], after_id);
    last_at := coalesce((SELECT t.finished_at FROM qtg.movement_requests t WHERE t.id = seen[examined]), after_at);
    SELECT coalesce(array_agg(r.id), '{{}}') INTO free
    FROM (SELECT t.id FROM qtg.movement_requests t WHERE t.id = ANY (seen) FOR UPDATE SKIP LOCKED) AS r;
    WITH ours AS MATERIALIZED (
        SELECT n.id FROM qtg.movement_request_nodes n WHERE n.request_id = ANY (free) FOR UPDATE SKIP LOCKED
    ),
    told AS MATERIALIZED (
        SELECT c.id FROM qtg.movement_callback_outbox c WHERE c.request_id = ANY (free) FOR UPDATE SKIP LOCKED
    )
    SELECT coalesce(array_agg(b.request_id), '{{}}') INTO busy
    FROM (SELECT n.request_id FROM qtg.movement_request_nodes n
          WHERE n.request_id = ANY (free) AND NOT n.id = ANY (ARRAY(SELECT o.id FROM ours o))
          UNION
          SELECT c.request_id FROM qtg.movement_callback_outbox c
          WHERE c.request_id = ANY (free) AND NOT c.id = ANY (ARRAY(SELECT o.id FROM told o))) AS b;
    SELECT coalesce(array_agg(t.id), '{{}}') INTO trees
    FROM qtg.movement_requests t
    WHERE t.id = ANY (free) AND NOT t.id = ANY (busy) AND {SETTLED};
    locked := examined - cardinality(free) + cardinality(busy);
    held := cardinality(free) - cardinality(busy) - cardinality(trees);
    deleted := cardinality(trees);
    failed := 0;
    IF deleted = 0 THEN
        RETURN;
    END IF;
    SELECT array_agg(n.id) INTO members FROM qtg.movement_request_nodes n WHERE n.request_id = ANY (trees);
    BEGIN
        {_BEGIN}
        INSERT INTO qtg.movement_tombstones
            (request_id, network_class, idempotency_key, body_hash, template_key, template_version,
             compiled_plan_hash, approval_digest, request_state, requested_by, approved_by, rejected_by, nodes,
             created_at, approved_at, finished_at, expires_at)
        SELECT t.id, t.network_class, t.idempotency_key, t.body_hash, m.template_key, v.version,
               t.compiled_plan_hash, t.approval_digest, t.request_state, t.requested_by,
               ARRAY(SELECT a.actor FROM qtg.movement_approvals a
                     WHERE a.request_id = t.id AND a.decision = 'approved' ORDER BY a.decided_at),
               ARRAY(SELECT a.actor FROM qtg.movement_approvals a
                     WHERE a.request_id = t.id AND a.decision = 'rejected' ORDER BY a.decided_at),
               (SELECT coalesce(jsonb_object_agg(n.id, jsonb_build_object('key', n.node_key, 'state', n.node_state)),
                                '{{}}')
                FROM qtg.movement_request_nodes n WHERE n.request_id = t.id),
               t.created_at, t.approved_at, t.finished_at, t.expires_at
        FROM qtg.movement_requests t
        JOIN qtg.movement_plan_versions v ON v.id = t.plan_version_id
        JOIN qtg.movement_templates m ON m.id = v.template_id
        WHERE t.id = ANY (trees);
        INSERT INTO qtg.evm_nonce_floors AS f (chain, sender, nonce)
        SELECT v.chain, v.sender, max(v.nonce) FROM qtg.evm_nonce_reservation v
        WHERE v.request_node_id = ANY (members) AND v.reservation_state IN ('BOUND', 'CLOSED')
        GROUP BY v.chain, v.sender
        ON CONFLICT (chain, sender) DO UPDATE SET nonce = greatest(f.nonce, excluded.nonce);
        {_CHILDREN}
        -- A node names the step that proves its state, and a step its node: they go in one statement.
        WITH steps AS (
            DELETE FROM qtg.movement_node_steps s WHERE s.request_node_id = ANY (members) RETURNING 1
        ),
        nodes AS (
            DELETE FROM qtg.movement_request_nodes n WHERE n.id = ANY (members) RETURNING 1
        )
        SELECT counts || jsonb_build_object('movement_node_steps', (SELECT count(*) FROM steps),
                                            'movement_request_nodes', (SELECT count(*) FROM nodes)) INTO counts;
        {_deleted("movement_requests", "id = ANY (trees)")}
        {_END}
    EXCEPTION WHEN OTHERS THEN
        failed := deleted;
        deleted := 0;
        counts := '{{}}';
        problem := SQLERRM;
    END;
END
$retain$"""  # noqa: S608 - our own constants

FUNCTIONS = tuple(_MOVEMENTS if kind is Kind.MOVEMENTS else _rows_function(kind) for kind in OURS)

for _function in FUNCTIONS:
    _ddl: DDL = DDL(_function.replace("%", "%%"))  # type: ignore[no-untyped-call]
    event.listen(metadata, "after_create", _ddl)
