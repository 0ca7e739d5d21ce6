-- A movement's own row, to be shown: nothing may be decided on it.
SELECT r.id::text AS request_id, r.network_class, r.request_state, r.intent, r.input_params, r.resolved_bindings,
       r.compiled_plan_hash, r.approval_digest, r.expires_at, r.expires_at <= now() AS expired, r.callback_url,
       r.requested_by
FROM qtg.movement_requests r
WHERE r.id = CAST(:request_id AS uuid) AND r.network_class = :network_class
