-- Claim up to :batch READY nodes, oldest movement first, one per serialization key; none of a movement in which a
-- node has FAILED: what is in flight there settles, nothing new begins. None that an open breaker holds back.
-- The unlocked list is a hint; the locked pick repeats every condition. Row locks end with this statement.
-- OFFSET 0 has the planner walk the READY nodes in their order and look at each one's movement, never the other way.
WITH live AS MATERIALIZED (
    SELECT runner_id FROM qtg.live_runners
),
standing AS MATERIALIZED (
    SELECT id, scope, released_at FROM qtg.breakers WHERE network_class = :network_class AND closed_at IS NULL
),
candidates AS (
    SELECT n.id, n.serialization_key, n.request_created_at
    FROM qtg.movement_request_nodes n
    CROSS JOIN LATERAL (
        SELECT FROM qtg.movement_requests r
        WHERE r.id = n.request_id AND r.request_state IN ('APPROVED', 'EXECUTING') AND r.failed_nodes = 0
          AND r.network_class = :network_class
        OFFSET 0) AS going
    WHERE n.node_state = 'READY' AND n.node_kind <> 'manual'
      AND (n.next_look_at IS NULL OR n.next_look_at <= now())
      AND (n.runner_id IS NULL OR n.runner_id <> :runner_id AND n.runner_id NOT IN (SELECT runner_id FROM live))
      AND (n.serialization_key IS NULL OR NOT EXISTS (
            SELECT 1 FROM qtg.movement_request_nodes other
            WHERE other.in_flight_key = n.serialization_key AND other.id <> n.id))
      AND NOT EXISTS (
            SELECT 1 FROM standing b
            WHERE b.scope = ANY (n.scopes) AND (b.released_at IS NULL OR NOT EXISTS (
                  SELECT 1 FROM qtg.breaker_starts s WHERE s.breaker_id = b.id AND s.request_node_id = n.id)))
    ORDER BY n.request_created_at, n.id
    LIMIT :batch * 2 + 16
),
first_of_key AS (
    SELECT id, row_number() OVER (
               PARTITION BY coalesce(serialization_key, id::text) ORDER BY request_created_at, id) AS place,
           request_created_at
    FROM candidates
),
picked AS (
    SELECT n.id
    FROM qtg.movement_request_nodes n
    WHERE n.id = ANY (ARRAY(
            SELECT id FROM first_of_key WHERE place = 1 ORDER BY request_created_at, id LIMIT :batch))
      AND n.node_state = 'READY'
      AND (n.next_look_at IS NULL OR n.next_look_at <= now())
      AND (n.runner_id IS NULL OR n.runner_id <> :runner_id AND n.runner_id NOT IN (SELECT runner_id FROM live))
    FOR NO KEY UPDATE OF n SKIP LOCKED
),
-- A runner that died between its claim and its intent left the key on a node that nobody will claim any more.
orphaned AS (
    SELECT n.id
    FROM qtg.movement_request_nodes n
    JOIN qtg.movement_requests r ON r.id = n.request_id
    WHERE n.in_flight_key IS NOT NULL AND n.node_state = 'READY'
      AND (n.runner_id IS NULL OR n.runner_id <> :runner_id AND n.runner_id NOT IN (SELECT runner_id FROM live))
      AND (r.request_state NOT IN ('APPROVED', 'EXECUTING') OR r.failed_nodes > 0
           OR EXISTS (SELECT 1 FROM standing b WHERE b.scope = ANY (n.scopes) AND b.released_at IS NULL))
      AND n.id NOT IN (SELECT id FROM picked)
    FOR NO KEY UPDATE OF n SKIP LOCKED
),
freed AS (
    UPDATE qtg.movement_request_nodes n
    SET runner_id = NULL, claimed_at = NULL, in_flight_key = NULL
    FROM orphaned
    WHERE n.id = orphaned.id AND n.node_state = 'READY'
),
chosen AS (
    UPDATE qtg.movement_request_nodes n
    SET runner_id = :runner_id, claim_epoch = n.claim_epoch + 1, claimed_at = now(), in_flight_key = n.serialization_key
    FROM picked
    WHERE n.id = picked.id
    RETURNING n.*
)
