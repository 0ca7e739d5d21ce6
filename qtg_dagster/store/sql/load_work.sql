-- Everything the work orders of some nodes are made of, a row each; a plan's text stands on one row of its version.
WITH chosen AS MATERIALIZED (
    SELECT n.*, r.plan_version_id,
           row_number() OVER (PARTITION BY r.plan_version_id) AS place_in_version
    FROM qtg.movement_request_nodes n
    JOIN qtg.movement_requests r ON r.id = n.request_id
    WHERE n.id = ANY (CAST(:node_ids AS uuid[]))
)
SELECT r.request_state, r.intent::text AS intent, r.input_params::text AS input_params,
       r.resolved_bindings::text AS resolved_bindings, r.compiled_plan_hash, r.approval_digest,
       n.id::text AS node_id, n.node_key, n.node_state, n.attempt_no, n.provider_refs::text AS provider_refs,
       n.looks, n.error_code, n.started_at, n.submitted_at, n.facts_digest, now() AS database_now,
       n.plan_version_id, v.version AS template_version,
       CASE WHEN n.place_in_version = 1 THEN jsonb_build_object(
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
       )::text END AS plan,
       (SELECT jsonb_object_agg(s.node_key, jsonb_build_array(s.node_state, s.provider_refs, s.artifacts))::text
        FROM qtg.movement_request_nodes s WHERE s.request_id = r.id) AS siblings,
       a.prepared::text AS prepared,
       greatest(a.intended_at, (SELECT s.recorded_at FROM qtg.movement_node_steps s
                                WHERE s.id = a.outcome_step_id AND s.step_kind IN ('recovered', 'operator')))
           AS observed_since
FROM chosen n
JOIN qtg.movement_requests r ON r.id = n.request_id
JOIN qtg.movement_plan_versions v ON v.id = n.plan_version_id
JOIN qtg.movement_templates t ON t.id = v.template_id
LEFT JOIN qtg.movement_node_attempts a ON a.request_node_id = n.id AND a.attempt_no = n.attempt_no
