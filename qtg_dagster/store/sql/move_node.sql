-- One node's move with all that follows from it, in one statement. Fenced: only the claimant of the epoch writes.
-- The journal row's id is drawn first, so that the node can point at the row that proves its state.
WITH step AS (
    SELECT nextval('qtg.movement_node_steps_id_seq') AS id
),
moved AS (
    UPDATE qtg.movement_request_nodes n
    SET node_state = CAST(:to_state AS text),
        provider_refs = n.provider_refs || CAST(:provider_refs AS jsonb),
        artifacts = n.artifacts || CAST(:artifacts AS jsonb),
        error_code = CAST(:error_code AS text), error_message = CAST(:error_message AS text),
        facts_digest = CAST(:facts_digest AS text),
        looks = CASE WHEN n.node_state = CAST(:to_state AS text)
                          AND n.error_code IS NOT DISTINCT FROM CAST(:error_code AS text) THEN n.looks + 1 ELSE 0 END,
        next_look_at = now() + make_interval(secs => CAST(:look_after AS double precision)),
        runner_id = NULL, claimed_at = NULL,
        in_flight_key = CASE WHEN CAST(:keep_key AS boolean) THEN n.in_flight_key END,
        evidence_step_id = CASE WHEN CAST(:to_state AS text) IN ('COMPLETED', 'FAILED') THEN step.id ELSE n.evidence_step_id END,
        submitted_at = CASE WHEN CAST(:to_state AS text) = 'SUBMITTED' THEN coalesce(n.submitted_at, now()) ELSE n.submitted_at END,
        completed_at = CASE WHEN CAST(:to_state AS text) = 'COMPLETED' THEN now() ELSE n.completed_at END
    FROM step
    WHERE n.id = CAST(:node_id AS uuid) AND n.node_state = CAST(:from_state AS text)
      AND n.runner_id = :runner_id AND n.claim_epoch = :claim_epoch
    RETURNING n.id, n.request_id, n.attempt_no, step.id AS step_id
),
journal AS (
    INSERT INTO qtg.movement_node_steps
        (id, request_node_id, attempt_no, step_kind, from_state, to_state, facts, runner_id, claim_epoch)
    SELECT step_id, id, attempt_no, :step_kind, CAST(:from_state AS text),
           CASE WHEN CAST(:to_state AS text) <> CAST(:from_state AS text) THEN CAST(:to_state AS text) END,
           CAST(:facts AS jsonb), :runner_id, :claim_epoch
    FROM moved
    WHERE CAST(:journaled AS boolean)
),
attempt AS (
    UPDATE qtg.movement_node_attempts a
    SET outcome = CAST(:attempt_outcome AS text), outcome_step_id = moved.step_id, outcome_at = now()
    FROM moved
    WHERE CAST(:attempt_outcome AS text) IS NOT NULL
      AND a.request_node_id = moved.id AND a.attempt_no = moved.attempt_no
),
released AS (
    UPDATE qtg.evm_nonce_reservation v
    SET reservation_state = 'RELEASED', evidence_step_id = moved.step_id, released_at = now()
    FROM moved
    WHERE CAST(:release_nonce AS boolean) AND v.request_node_id = moved.id AND v.reservation_state = 'RESERVED'
      AND NOT EXISTS (SELECT 1 FROM qtg.signer_journal j
                      WHERE j.chain = v.chain AND j.sender = v.sender AND j.nonce = v.nonce)
),
readied AS (
    UPDATE qtg.movement_request_nodes n
    SET node_state = 'READY', next_look_at = NULL
    FROM moved
    WHERE n.request_id = moved.request_id AND n.node_key = ANY (CAST(:ready_keys AS text[]))
      AND n.node_state = 'BLOCKED'
    RETURNING n.id
),
readied_journal AS (
    INSERT INTO qtg.movement_node_steps (request_node_id, attempt_no, step_kind, from_state, to_state, facts)
    SELECT id, 0, 'readied', 'BLOCKED', 'READY', jsonb_build_object('after', CAST(:node_key AS text))
    FROM readied
),
request AS (
    UPDATE qtg.movement_requests r
    SET request_state = coalesce(CAST(:request_state AS text), r.request_state),
        current_frontier = coalesce(CAST(:frontier AS text[]), r.current_frontier),
        finished_at = CASE WHEN CAST(:request_finished AS boolean) THEN now() ELSE r.finished_at END
    FROM moved
    WHERE r.id = moved.request_id
      AND (CAST(:request_state AS text) IS NOT NULL OR CAST(:frontier AS text[]) IS NOT NULL)
    RETURNING r.id, r.callback_url
),
told AS (
    INSERT INTO qtg.movement_callback_outbox (request_id, event_type, payload, callback_url)
    SELECT request.id, event ->> 'event_type', event -> 'payload', request.callback_url
    FROM request, jsonb_array_elements(CAST(:callbacks AS jsonb)) AS event
    WHERE request.callback_url IS NOT NULL
),
woken AS (
    SELECT pg_notify('qtg_wake', kind) FROM moved, unnest(CAST(:wake AS text[])) AS kind
)
SELECT (SELECT count(*) FROM moved) AS moved, (SELECT count(*) FROM woken) AS woken
