-- The write-ahead: READY -> SUBMITTING with all that is needed to repeat or find the action, in one commit of its own.
-- The movement's row is locked first and judged as it stands then: a cancel, or a sibling's failure, changes that row,
-- so it and an intent exclude each other, whichever came first. A breaker likewise: who opens one locks its table
-- against the row locks that are meant here, and so waits for every intent that has not seen it.
WITH request AS (
    SELECT id, request_state, callback_url, network_class
    FROM qtg.movement_requests
    WHERE id = CAST(:request_id AS uuid) AND request_state IN ('APPROVED', 'EXECUTING') AND failed_nodes = 0
    FOR NO KEY UPDATE
),
nonce_held AS (
    SELECT id
    FROM qtg.evm_nonce_reservation
    WHERE chain = CAST(:nonce_chain AS text) AND sender = CAST(:nonce_sender AS text)
      AND nonce = CAST(:nonce AS bigint) AND request_node_id = CAST(:node_id AS uuid)
      AND attempt_no = :attempt_no AND reservation_state = 'RESERVED'
    FOR NO KEY UPDATE
),
held AS (
    SELECT b.scope
    FROM request
    JOIN qtg.movement_request_nodes n ON n.id = CAST(:node_id AS uuid)
    JOIN qtg.breakers b ON b.network_class = request.network_class AND b.scope = ANY (n.scopes)
    WHERE b.closed_at IS NULL AND (b.released_at IS NULL OR NOT EXISTS (
              SELECT 1 FROM qtg.breaker_starts s WHERE s.breaker_id = b.id AND s.request_node_id = n.id))
    FOR KEY SHARE OF b
),
moved AS (
    UPDATE qtg.movement_request_nodes n
    SET node_state = 'SUBMITTING', attempt_no = :attempt_no, started_at = coalesce(n.started_at, now()),
        provider_refs = CAST(:provider_refs AS jsonb), error_code = NULL, error_message = NULL, looks = 0,
        next_look_at = NULL
    FROM request
    WHERE n.id = CAST(:node_id AS uuid) AND n.request_id = request.id AND n.node_state = 'READY'
      AND n.runner_id = :runner_id AND n.claim_epoch = :claim_epoch
      AND (CAST(:nonce AS bigint) IS NULL OR EXISTS (SELECT 1 FROM nonce_held))
      AND NOT EXISTS (SELECT 1 FROM held)
    RETURNING n.id
),
attempt AS (
    INSERT INTO qtg.movement_node_attempts
        (request_node_id, attempt_no, idempotency_key, prepared, payload_hash, signer_key, signer_address, ledger)
    SELECT id, :attempt_no, :idempotency_key, CAST(:prepared AS jsonb), :payload_hash,
           CAST(:signer_key AS text), CAST(:signer_address AS text), CAST(:ledger AS jsonb)
    FROM moved
),
step AS (
    INSERT INTO qtg.movement_node_steps
        (request_node_id, attempt_no, step_kind, from_state, to_state, facts, runner_id, claim_epoch)
    SELECT id, :attempt_no, 'intent', 'READY', 'SUBMITTING', CAST(:facts AS jsonb), :runner_id, :claim_epoch
    FROM moved
),
reservation AS (
    UPDATE qtg.evm_nonce_reservation v
    SET reservation_state = 'BOUND', payload_hash = :payload_hash, bound_at = now()
    FROM nonce_held
    WHERE v.id = nonce_held.id AND EXISTS (SELECT 1 FROM moved)
),
begun AS (
    UPDATE qtg.movement_requests r
    SET request_state = 'EXECUTING'
    FROM request
    WHERE r.id = request.id AND request.request_state = 'APPROVED' AND EXISTS (SELECT 1 FROM moved)
    RETURNING r.id, r.callback_url
),
told AS (
    INSERT INTO qtg.movement_callback_outbox (request_id, event_type, payload, callback_url)
    SELECT id, 'request_state_changed', jsonb_build_object('request_id', id, 'request_state', 'EXECUTING'), callback_url
    FROM begun
    WHERE callback_url IS NOT NULL
)
SELECT (SELECT count(*) FROM moved) AS moved, (SELECT min(scope) FROM held) AS held_by,
       CAST(:nonce AS bigint) IS NULL OR EXISTS (SELECT 1 FROM nonce_held) AS nonce_held
