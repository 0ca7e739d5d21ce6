-- What a person decided about a movement, with all that follows, in one statement: about one that this transaction has
-- locked, or, with :pending, about one that still waits for approval once this statement has locked it; else nothing.
-- :moves is a JSON array of {node_key, to_state, step_kind, facts, actor, refs}; every other part may be NULL or empty.
-- A journal row's id is drawn first, so that the node can point at the row that proves its state.
WITH standing AS MATERIALIZED (
    SELECT id FROM qtg.movement_requests
    WHERE id = CAST(:request_id AS uuid)
      AND (NOT CAST(:pending AS boolean)
           OR request_state = 'PENDING_APPROVAL' AND (expires_at <= now()) IS NOT TRUE)
    FOR NO KEY UPDATE
),
chosen AS (
    SELECT n.id, n.node_state AS from_state, nextval('qtg.movement_node_steps_id_seq') AS step_id,
           item.to_state, item.step_kind, item.facts, item.actor, item.refs
    FROM jsonb_to_recordset(CAST(:moves AS jsonb)) AS item(
        node_key text, to_state text, step_kind text, facts jsonb, actor text, refs jsonb)
    CROSS JOIN standing
    JOIN qtg.movement_request_nodes n ON n.request_id = standing.id AND n.node_key = item.node_key
    FOR NO KEY UPDATE OF n
),
moved AS (
    UPDATE qtg.movement_request_nodes n
    SET node_state = chosen.to_state, next_look_at = NULL, runner_id = NULL, in_flight_key = NULL,
        provider_refs = n.provider_refs || chosen.refs, claim_epoch = n.claim_epoch + 1,
        evidence_step_id = CASE WHEN chosen.to_state IN ('COMPLETED', 'FAILED') THEN chosen.step_id
                                ELSE n.evidence_step_id END,
        completed_at = CASE WHEN chosen.to_state = 'COMPLETED' THEN now() ELSE n.completed_at END
    FROM chosen
    WHERE n.id = chosen.id
    RETURNING n.attempt_no, chosen.*
),
journal AS (
    INSERT INTO qtg.movement_node_steps
        (id, request_node_id, attempt_no, step_kind, from_state, to_state, facts, actor)
    SELECT step_id, id, attempt_no, step_kind, from_state, to_state, facts, actor
    FROM moved
),
request AS (
    UPDATE qtg.movement_requests r
    SET request_state = coalesce(CAST(:state AS text), r.request_state),
        current_frontier = coalesce(CAST(:frontier AS text[]), r.current_frontier),
        approved_at = CASE WHEN CAST(:state AS text) = 'APPROVED' THEN now() ELSE r.approved_at END,
        finished_at = CASE WHEN CAST(:finished AS boolean) THEN now() ELSE r.finished_at END
    FROM standing
    WHERE r.id = standing.id
      AND (CAST(:state AS text) IS NOT NULL OR CAST(:frontier AS text[]) IS NOT NULL)
),
told AS (
    INSERT INTO qtg.movement_callback_outbox (request_id, event_type, payload, callback_url)
    SELECT id, event ->> 'event_type', event -> 'payload', CAST(:callback_url AS text)
    FROM standing CROSS JOIN jsonb_array_elements(CAST(:callbacks AS jsonb)) AS event
    WHERE CAST(:callback_url AS text) IS NOT NULL
),
approval AS (
    INSERT INTO qtg.movement_approvals (request_id, decision, actor, reason, compiled_plan_hash, approval_digest)
    SELECT id, x.decision, x.actor, x.reason, x.compiled_plan_hash, x.approval_digest
    FROM standing CROSS JOIN jsonb_to_record(CAST(:approval AS jsonb)) AS x(
        decision text, actor text, reason text, compiled_plan_hash text, approval_digest text)
    WHERE CAST(:approval AS jsonb) IS NOT NULL
),
deed AS (
    INSERT INTO qtg.audit_outbox (network_class, actor, action, subject_type, subject_id, details)
    SELECT x.network_class, x.actor, x.action, 'movement_request', :request_id, x.details
    FROM standing CROSS JOIN jsonb_to_record(CAST(:deed AS jsonb)) AS x(network_class text, actor text, action text, details jsonb)
    WHERE CAST(:deed AS jsonb) IS NOT NULL
),
woken AS (
    SELECT pg_notify('qtg_wake', kind) FROM standing CROSS JOIN unnest(CAST(:wake AS text[])) AS kind
)
SELECT (SELECT count(*) FROM standing) AS decided, (SELECT count(*) FROM woken) AS woken
