-- Moves of nodes of different movements, with all that follows from them, in one statement and one commit.
-- :moves is a JSON array of objects as store/moves.py writes them. Fenced: only the claimant of the epoch writes.
-- A journal row's id is drawn first, so that the node can point at the row that proves its state.
WITH item AS MATERIALIZED (
    SELECT x.*, nextval('qtg.movement_node_steps_id_seq') AS step_id
    FROM jsonb_to_recordset(CAST(:moves AS jsonb)) AS x(
        node_id uuid, request_id uuid, node_key text, runner_id bigint, claim_epoch bigint,
        from_state text, to_state text, step_kind text, facts jsonb, facts_digest text, journaled boolean,
        provider_refs jsonb, artifacts jsonb, error_code text, error_message text, look_after double precision,
        keep_key boolean, attempt_outcome text, release_nonce boolean, ready_keys jsonb, request_state text,
        request_finished boolean, callbacks jsonb)
),
moved AS (
    UPDATE qtg.movement_request_nodes n
    SET node_state = item.to_state,
        provider_refs = n.provider_refs || item.provider_refs,
        artifacts = n.artifacts || item.artifacts,
        error_code = item.error_code, error_message = item.error_message, facts_digest = item.facts_digest,
        looks = CASE WHEN n.node_state = item.to_state
                          AND n.error_code IS NOT DISTINCT FROM item.error_code THEN n.looks + 1 ELSE 0 END,
        next_look_at = now() + make_interval(secs => item.look_after),
        runner_id = NULL, claimed_at = NULL,
        in_flight_key = CASE WHEN item.keep_key THEN n.in_flight_key END,
        evidence_step_id = CASE WHEN item.to_state IN ('COMPLETED', 'FAILED') THEN item.step_id
                                ELSE n.evidence_step_id END,
        submitted_at = CASE WHEN item.to_state = 'SUBMITTED' THEN coalesce(n.submitted_at, now())
                            ELSE n.submitted_at END,
        completed_at = CASE WHEN item.to_state = 'COMPLETED' THEN now() ELSE n.completed_at END
    FROM item
    WHERE n.id = item.node_id AND n.node_state = item.from_state
      AND n.runner_id = item.runner_id AND n.claim_epoch = item.claim_epoch
    RETURNING n.attempt_no, n.serialization_key, item.*
),
journal AS (
    INSERT INTO qtg.movement_node_steps
        (id, request_node_id, attempt_no, step_kind, from_state, to_state, facts, runner_id, claim_epoch)
    SELECT step_id, node_id, attempt_no, step_kind, from_state, nullif(to_state, from_state), facts,
           runner_id, claim_epoch
    FROM moved
    WHERE journaled
),
attempt AS (
    UPDATE qtg.movement_node_attempts a
    SET outcome = moved.attempt_outcome, outcome_step_id = moved.step_id, outcome_at = now()
    FROM moved
    WHERE moved.attempt_outcome IS NOT NULL
      AND a.request_node_id = moved.node_id AND a.attempt_no = moved.attempt_no
),
released AS (
    UPDATE qtg.evm_nonce_reservation v
    SET reservation_state = 'RELEASED', evidence_step_id = moved.step_id, released_at = now()
    FROM moved
    WHERE moved.release_nonce AND v.request_node_id = moved.node_id AND v.reservation_state = 'RESERVED'
      AND NOT EXISTS (SELECT 1 FROM qtg.signer_journal j
                      WHERE j.chain = v.chain AND j.sender = v.sender AND j.nonce = v.nonce)
),
readied AS (
    UPDATE qtg.movement_request_nodes n
    SET node_state = 'READY', next_look_at = NULL
    FROM moved
    WHERE moved.ready_keys IS NOT NULL AND n.request_id = moved.request_id
      AND moved.ready_keys ? n.node_key AND n.node_state = 'BLOCKED'
    RETURNING n.id, moved.node_key AS after
),
readied_journal AS (
    INSERT INTO qtg.movement_node_steps (request_node_id, attempt_no, step_kind, from_state, to_state, facts)
    SELECT id, 0, 'readied', 'BLOCKED', 'READY', jsonb_build_object('after', after)
    FROM readied
),
request AS (
    UPDATE qtg.movement_requests r
    SET request_state = coalesce(moved.request_state, r.request_state),
        current_frontier = CASE WHEN moved.ready_keys IS NULL THEN r.current_frontier
                                ELSE ARRAY(SELECT jsonb_array_elements_text(moved.ready_keys)) END,
        finished_at = CASE WHEN moved.request_finished THEN now() ELSE r.finished_at END
    FROM moved
    WHERE r.id = moved.request_id AND (moved.request_state IS NOT NULL OR moved.ready_keys IS NOT NULL)
    RETURNING r.id, r.callback_url, moved.callbacks
),
told AS (
    INSERT INTO qtg.movement_callback_outbox (request_id, event_type, payload, callback_url)
    SELECT request.id, event ->> 'event_type', event -> 'payload', request.callback_url
    FROM request, jsonb_array_elements(request.callbacks) AS event
    WHERE request.callback_url IS NOT NULL
),
-- Whoever lets go of a serialization key lets the next in line for it begin.
woken AS (
    SELECT pg_notify('qtg_wake', kind)
    FROM (SELECT unnest(CAST(:wake AS text[])) AS kind WHERE EXISTS (SELECT 1 FROM moved)
          UNION
          SELECT 'dispatch' FROM moved
          WHERE serialization_key IS NOT NULL AND from_state IN ('READY', 'SUBMITTING', 'UNKNOWN') AND NOT keep_key
         ) AS kinds
)
SELECT (SELECT array_agg(node_id::text) FROM moved) AS moved, (SELECT count(*) FROM woken) AS woken
