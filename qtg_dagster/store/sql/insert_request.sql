-- A movement that waits for approval, with its nodes and who asked for it; nothing when its idempotency key is taken.
WITH request AS (
    INSERT INTO qtg.movement_requests
        (network_class, plan_version_id, request_state, idempotency_key, body_hash, intent, input_params,
         resolved_bindings, compiled_plan_hash, approval_digest, requested_by, reason, callback_url, expires_at)
    VALUES (:network_class, :plan_version_id, 'PENDING_APPROVAL', CAST(:idempotency_key AS text), :body_hash,
            CAST(:intent AS jsonb), CAST(:input_params AS jsonb), CAST(:resolved_bindings AS jsonb),
            :compiled_plan_hash, :approval_digest, :requested_by, :reason, CAST(:callback_url AS text),
            now() + make_interval(secs => :ttl_seconds))
    ON CONFLICT DO NOTHING
    RETURNING id, expires_at
),
nodes AS (
    INSERT INTO qtg.movement_request_nodes
        (request_id, plan_node_id, node_key, node_kind, executor_key, node_state, serialization_key, scopes)
    SELECT request.id, x.plan_node_id, x.node_key, x.node_kind, x.executor_key, 'BLOCKED', x.serialization_key, x.scopes
    FROM request, jsonb_to_recordset(CAST(:nodes AS jsonb)) AS x(
        plan_node_id bigint, node_key text, node_kind text, executor_key text, serialization_key text, scopes text[])
),
deed AS (
    INSERT INTO qtg.audit_outbox (network_class, actor, action, subject_type, subject_id, details)
    SELECT :network_class, :requested_by, 'create', 'movement_request', request.id::text, CAST(:details AS jsonb)
    FROM request
)
SELECT id::text AS request_id, expires_at,
       (SELECT jsonb_object_agg(entry.key, entry.health_state)
        FROM (SELECT executor_key AS key, network_class, health_state FROM qtg.executor_registry
              UNION ALL
              SELECT signer_key, network_class, health_state FROM qtg.signer_registry) AS entry
        WHERE entry.network_class = :network_class AND entry.health_state IN ('down', 'unknown')
          AND entry.key IN (SELECT value FROM jsonb_each_text(CAST(:resolved_bindings AS jsonb)))) AS unwell
FROM request
