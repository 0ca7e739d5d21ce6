-- Goes on after the CTE `chosen`, rows of nodes: everything their work orders are made of, a row each. Where `chosen`
-- claims them, a node's own columns are those of the claim, and the rest stands as it did when the statement began.
-- A plan's text is on one row of its version.
, numbered AS (
    SELECT n.*, r.plan_version_id, r.request_state, r.intent, r.input_params, r.resolved_bindings, r.compiled_plan_hash,
           r.approval_digest, r.approved_at, row_number() OVER (PARTITION BY r.plan_version_id) AS place_in_version
    FROM chosen n
    JOIN qtg.movement_requests r ON r.id = n.request_id
)
SELECT n.id::text AS node_id, n.request_id::text AS request_id, n.claim_epoch, n.node_state, n.request_state,
       n.intent::text AS intent, n.input_params::text AS input_params, n.resolved_bindings::text AS resolved_bindings,
       n.compiled_plan_hash, n.approval_digest, n.approved_at, n.node_key, n.attempt_no, n.provider_refs::text AS provider_refs,
       n.looks, n.error_code, n.started_at, n.submitted_at, n.facts_digest, now() AS database_now, n.plan_version_id,
       v.version AS template_version,
       CASE WHEN n.place_in_version = 1
            THEN (SELECT d.plan FROM qtg.plan_documents d WHERE d.plan_version_id = v.id) END AS plan,
       (SELECT jsonb_object_agg(s.node_key, jsonb_build_array(s.node_state, s.provider_refs, s.artifacts))::text
        FROM qtg.movement_request_nodes s WHERE s.request_id = n.request_id) AS siblings,
       a.prepared::text AS prepared,
       greatest(a.intended_at, (SELECT s.recorded_at FROM qtg.movement_node_steps s
                                WHERE s.id = a.outcome_step_id AND s.step_kind IN ('recovered', 'operator')))
           AS observed_since
FROM numbered n
JOIN qtg.movement_plan_versions v ON v.id = n.plan_version_id
LEFT JOIN qtg.movement_node_attempts a ON a.request_node_id = n.id AND a.attempt_no = n.attempt_no
