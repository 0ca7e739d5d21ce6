-- Everything one node's work order is made of, in one row.
SELECT r.id::text AS request_id, r.request_state, r.intent, r.input_params, r.resolved_bindings,
       r.compiled_plan_hash, r.approval_digest, r.current_frontier, r.callback_url,
       t.template_key, v.version AS template_version,
       n.id::text AS node_id, n.node_key, n.node_state, n.attempt_no, n.claim_epoch, n.provider_refs, n.looks, n.error_code,
       n.started_at, n.submitted_at, n.facts_digest, n.updated_at, now() AS database_now,
       (SELECT jsonb_build_object(
            'template_key', t.template_key, 'title', v.title, 'description', v.description,
            'parameters', v.parameters, 'risk_controls', v.risk_controls,
            'nodes', (SELECT jsonb_agg(jsonb_build_object(
                          'node_key', p.node_key, 'node_kind', p.node_kind, 'action_type', p.action_type,
                          'executor_key', p.executor_key, 'signer_role', p.signer_role,
                          'config', p.config, 'timeout_policy', p.timeout_policy) ORDER BY p.position)
                      FROM qtg.movement_plan_nodes p WHERE p.plan_version_id = v.id),
            'edges', coalesce((SELECT jsonb_agg(jsonb_build_object(
                          'from_node', e.from_node, 'to_node', e.to_node) ORDER BY e.id)
                      FROM qtg.movement_plan_edges e WHERE e.plan_version_id = v.id), '[]'::jsonb)
       )::text) AS plan,
       (SELECT jsonb_object_agg(s.node_key, jsonb_build_object(
            'state', s.node_state, 'refs', s.provider_refs, 'artifacts', s.artifacts))
        FROM qtg.movement_request_nodes s WHERE s.request_id = r.id) AS siblings,
       (SELECT a.prepared FROM qtg.movement_node_attempts a
        WHERE a.request_node_id = n.id AND a.attempt_no = n.attempt_no) AS prepared,
       (SELECT a.intended_at FROM qtg.movement_node_attempts a
        WHERE a.request_node_id = n.id AND a.attempt_no = n.attempt_no) AS attempted_at
FROM qtg.movement_request_nodes n
JOIN qtg.movement_requests r ON r.id = n.request_id
JOIN qtg.movement_plan_versions v ON v.id = r.plan_version_id
JOIN qtg.movement_templates t ON t.id = v.template_id
WHERE n.id = CAST(:node_id AS uuid)
