-- Give a node back, for others or for later; a stale epoch gives nothing back.
UPDATE qtg.movement_request_nodes
SET runner_id = NULL, claimed_at = NULL,
    next_look_at = CASE WHEN CAST(:delay AS double precision) > 0 THEN now() + make_interval(secs => :delay)
                        ELSE next_look_at END,
    in_flight_key = CASE WHEN node_state = 'READY' THEN NULL ELSE in_flight_key END
WHERE id = CAST(:node_id AS uuid) AND runner_id = :runner_id AND claim_epoch = :claim_epoch
