-- Claim up to :batch SUBMITTED or OBSERVING nodes that are due, oldest movement first.
WITH live AS MATERIALIZED (
    SELECT runner_id FROM qtg.live_runners
),
candidates AS (
    SELECT n.id
    FROM qtg.movement_request_nodes n
    CROSS JOIN LATERAL (
        SELECT FROM qtg.movement_requests r
        WHERE r.id = n.request_id AND r.request_state = 'EXECUTING' AND r.network_class = :network_class
        OFFSET 0) AS going
    WHERE n.node_state IN ('SUBMITTED', 'OBSERVING')
      AND (n.next_look_at IS NULL OR n.next_look_at <= now())
      AND (n.runner_id IS NULL OR n.runner_id <> :runner_id AND n.runner_id NOT IN (SELECT runner_id FROM live))
    ORDER BY n.request_created_at, n.id
    LIMIT :batch
),
picked AS (
    SELECT n.id
    FROM qtg.movement_request_nodes n
    WHERE n.id = ANY (ARRAY(SELECT id FROM candidates))
      AND n.node_state IN ('SUBMITTED', 'OBSERVING')
      AND (n.next_look_at IS NULL OR n.next_look_at <= now())
      AND (n.runner_id IS NULL OR n.runner_id <> :runner_id AND n.runner_id NOT IN (SELECT runner_id FROM live))
    FOR NO KEY UPDATE OF n SKIP LOCKED
),
chosen AS (
    UPDATE qtg.movement_request_nodes n
    SET runner_id = :runner_id, claim_epoch = n.claim_epoch + 1, claimed_at = now()
    FROM picked
    WHERE n.id = picked.id
    RETURNING n.*
)
