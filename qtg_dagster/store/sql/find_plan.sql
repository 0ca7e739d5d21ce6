-- One plan version as a document: that of a movement, or the one asked for or newest in use of a template. The text is the same as long
-- as the rows are, so who reads it need not parse it twice.
SELECT v.id AS plan_version_id, v.version, t.template_key,
       (SELECT jsonb_object_agg(p.node_key, p.id)
        FROM qtg.movement_plan_nodes p WHERE p.plan_version_id = v.id)::text AS node_ids,
       jsonb_build_object(
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
       )::text AS plan
FROM qtg.movement_plan_versions v
JOIN qtg.movement_templates t ON t.id = v.template_id
WHERE (v.id = (SELECT plan_version_id FROM qtg.movement_requests WHERE id = CAST(:request_id AS uuid))
       OR t.template_key = CAST(:template_key AS text) AND v.retired_at IS NULL
          AND (CAST(:version AS integer) IS NULL OR v.version = CAST(:version AS integer)))
ORDER BY v.version DESC
LIMIT 1
