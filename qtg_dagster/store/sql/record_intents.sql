-- The write-ahead: READY -> SUBMITTING of nodes of different movements, with all that is needed to repeat or find each
-- action, in one commit. :intents is a JSON array of objects as store/moves.py writes them.
-- The movement's row is locked and judged as it stands then: a cancel, or a sibling's failure, changes that row, so it
-- and an intent exclude each other, whichever came first; one that somebody holds is left out, so that it does not keep
-- the others waiting. A breaker likewise: who opens one locks its table against the row locks that are meant here, and
-- so waits for every intent that has not seen it. Fenced: only the claimant of the epoch writes.
WITH item AS MATERIALIZED (
    SELECT x.*
    FROM jsonb_to_recordset(CAST(:intents AS jsonb)) AS x(
        node_id uuid, request_id uuid, runner_id bigint, claim_epoch bigint, attempt_no integer, idempotency_key text,
        prepared text, payload_hash text, provider_refs jsonb, facts jsonb, signer_key text, signer_address text,
        ledger text, nonce_chain text, nonce_sender text, nonce bigint)
),
request AS (
    SELECT r.id, r.request_state, r.callback_url, r.network_class, item.*
    FROM item
    JOIN qtg.movement_requests r ON r.id = item.request_id
    WHERE r.request_state IN ('APPROVED', 'EXECUTING') AND r.failed_nodes = 0
    FOR NO KEY UPDATE OF r SKIP LOCKED
),
nonce_held AS (
    SELECT v.id, item.node_id, item.payload_hash
    FROM item
    JOIN qtg.evm_nonce_reservation v
      ON v.chain = item.nonce_chain AND v.sender = item.nonce_sender AND v.nonce = item.nonce
    WHERE v.request_node_id = item.node_id AND v.attempt_no = item.attempt_no AND v.reservation_state = 'RESERVED'
    FOR NO KEY UPDATE OF v
),
stopped AS (
    SELECT n.id
    FROM request
    JOIN qtg.movement_request_nodes n ON n.id = request.node_id
    JOIN qtg.breakers b ON b.network_class = request.network_class AND b.scope = ANY (n.scopes)
    WHERE b.closed_at IS NULL AND (b.released_at IS NULL OR NOT EXISTS (
              SELECT 1 FROM qtg.breaker_starts s WHERE s.breaker_id = b.id AND s.request_node_id = n.id))
    FOR KEY SHARE OF b
),
moved AS (
    UPDATE qtg.movement_request_nodes n
    SET node_state = 'SUBMITTING', attempt_no = request.attempt_no, started_at = coalesce(n.started_at, now()),
        provider_refs = request.provider_refs, error_code = NULL, error_message = NULL, looks = 0, next_look_at = NULL
    FROM request
    WHERE n.id = request.node_id AND n.request_id = request.id AND n.node_state = 'READY'
      AND n.runner_id = request.runner_id AND n.claim_epoch = request.claim_epoch
      AND (request.nonce IS NULL OR n.id IN (SELECT node_id FROM nonce_held))
      AND n.id NOT IN (SELECT id FROM stopped)
    RETURNING request.*
),
attempt AS (
    INSERT INTO qtg.movement_node_attempts
        (request_node_id, attempt_no, idempotency_key, prepared, payload_hash, signer_key, signer_address, ledger)
    SELECT node_id, attempt_no, idempotency_key, CAST(prepared AS jsonb), payload_hash, signer_key, signer_address,
           CAST(ledger AS jsonb)
    FROM moved
),
step AS (
    INSERT INTO qtg.movement_node_steps
        (request_node_id, attempt_no, step_kind, from_state, to_state, facts, runner_id, claim_epoch)
    SELECT node_id, attempt_no, 'intent', 'READY', 'SUBMITTING', facts, runner_id, claim_epoch
    FROM moved
),
reservation AS (
    UPDATE qtg.evm_nonce_reservation v
    SET reservation_state = 'BOUND', payload_hash = nonce_held.payload_hash, bound_at = now()
    FROM nonce_held
    WHERE v.id = nonce_held.id AND nonce_held.node_id IN (SELECT node_id FROM moved)
),
begun AS (
    UPDATE qtg.movement_requests r
    SET request_state = 'EXECUTING'
    FROM request
    WHERE r.id = request.id AND request.request_state = 'APPROVED' AND r.id IN (SELECT request_id FROM moved)
    RETURNING r.id, r.callback_url
),
told AS (
    INSERT INTO qtg.movement_callback_outbox (request_id, event_type, payload, callback_url)
    SELECT id, 'request_state_changed', jsonb_build_object('request_id', id, 'request_state', 'EXECUTING'), callback_url
    FROM begun
    WHERE callback_url IS NOT NULL
)
SELECT item.node_id::text AS node_id, item.node_id IN (SELECT node_id FROM moved) AS moved,
       item.nonce IS NULL OR item.node_id IN (SELECT node_id FROM nonce_held) AS nonce_held,
       item.node_id IN (SELECT node_id FROM stopped) AS stopped
FROM item
