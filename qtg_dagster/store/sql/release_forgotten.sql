-- Give back what a live runner holds without working on it: a claim whose answer was lost, a release that failed.
-- Nobody else could: to all others its holder lives.
UPDATE qtg.movement_request_nodes
SET runner_id = NULL, claimed_at = NULL, claim_epoch = claim_epoch + 1,
    next_look_at = CASE WHEN CAST(:delay AS double precision) > 0 THEN now() + make_interval(secs => :delay)
                        ELSE next_look_at END,
    in_flight_key = CASE WHEN node_state = 'READY' THEN NULL ELSE in_flight_key END
WHERE runner_id = :runner_id AND NOT id = ANY (CAST(:in_work AS uuid[]))
  AND node_state IN ('READY', 'SUBMITTING', 'SUBMITTED', 'OBSERVING', 'UNKNOWN')
