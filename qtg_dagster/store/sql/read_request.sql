-- A movement, how it stands, and the plan that it was made from, also when that is retired. Exact under its lock alone.
SELECT r.id::text AS request_id, r.network_class, r.request_state, r.intent, r.input_params, r.resolved_bindings,
       r.compiled_plan_hash, r.approval_digest, r.expires_at, r.expires_at <= now() AS expired, r.callback_url,
       r.requested_by, v.id AS plan_version_id, v.version, d.plan,
       (SELECT jsonb_object_agg(p.node_key, p.id)
        FROM qtg.movement_plan_nodes p WHERE p.plan_version_id = v.id)::text AS node_ids,
       (SELECT jsonb_object_agg(n.node_key, n.node_state)
        FROM qtg.movement_request_nodes n
        WHERE n.request_id = r.id) AS node_states,
       (SELECT jsonb_agg(jsonb_build_array(n.node_key, a.attempt_no, coalesce(a.outcome, 'not known'))
                         ORDER BY a.attempt_no)
        FROM qtg.movement_node_attempts a
        JOIN qtg.movement_request_nodes n ON n.id = a.request_node_id
        WHERE n.request_id = r.id
          AND coalesce(a.outcome, '') NOT IN ('NOT_SENT', 'REJECTED', 'FAILED')) AS open_attempts,
       (SELECT array_agg(p.actor ORDER BY p.decided_at)
        FROM qtg.movement_approvals p WHERE p.request_id = r.id AND p.decision = 'approved') AS approved_by,
       (SELECT array_agg(entry.key ORDER BY entry.key)
        FROM (SELECT executor_key AS key, network_class, health_state FROM qtg.executor_registry
              UNION ALL
              SELECT signer_key, network_class, health_state FROM qtg.signer_registry) AS entry
        WHERE entry.network_class = r.network_class AND entry.health_state = 'down'
          AND entry.key IN (SELECT value FROM jsonb_each_text(r.resolved_bindings))) AS down
FROM qtg.movement_requests r
JOIN qtg.movement_plan_versions v ON v.id = r.plan_version_id
JOIN qtg.plan_documents d ON d.plan_version_id = v.id
WHERE r.id = CAST(:request_id AS uuid) AND r.network_class = :network_class
