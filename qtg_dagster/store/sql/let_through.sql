-- Let READY nodes through the released breakers that cover them, oldest movement first, as many as have a turn now.
-- A turn comes every 61 s / rate, and a second of them is made up for: at most `rate` in any minute. The breakers'
-- rows are locked, so drains take turns, and each sees what the last one took.
WITH released AS MATERIALIZED (
    SELECT b.id, b.scope, greatest(0, 1 + floor(b.release_per_minute / 61.0 * extract(epoch FROM
               clock_timestamp() - greatest(b.next_start_at, clock_timestamp() - interval '1 second')))) AS many
    FROM (SELECT * FROM qtg.breakers
          WHERE network_class = :network_class AND closed_at IS NULL AND released_at IS NOT NULL
          ORDER BY id FOR NO KEY UPDATE) b
),
-- Each pair of a waiting node and a released breaker that has not let it through yet.
waiting AS MATERIALIZED (
    SELECT n.id AS node_id, b.id AS breaker_id, b.many,
           row_number() OVER (PARTITION BY b.id ORDER BY n.request_created_at, n.id) AS turn
    FROM released b
    JOIN qtg.movement_request_nodes n ON b.scope = ANY (n.scopes)
    JOIN qtg.movement_requests r ON r.id = n.request_id
    WHERE n.node_state = 'READY' AND n.node_kind <> 'manual' AND (n.next_look_at IS NULL OR n.next_look_at <= now())
      AND r.request_state IN ('APPROVED', 'EXECUTING') AND r.network_class = :network_class AND r.failed_nodes = 0
      AND NOT EXISTS (SELECT 1 FROM qtg.breaker_starts s WHERE s.breaker_id = b.id AND s.request_node_id = n.id)
      -- Not those that another breaker holds back: they would wait with a leave that others could use.
      AND NOT EXISTS (
            SELECT 1 FROM qtg.breakers h
            LEFT JOIN released ON released.id = h.id
            LEFT JOIN qtg.breaker_starts s ON s.breaker_id = h.id AND s.request_node_id = n.id
            WHERE h.network_class = :network_class AND h.closed_at IS NULL AND h.scope = ANY (n.scopes)
              AND coalesce(released.many, 0) = 0 AND s.id IS NULL)
),
let_through AS (
    INSERT INTO qtg.breaker_starts (breaker_id, request_node_id)
    SELECT breaker_id, node_id FROM waiting
    WHERE node_id NOT IN (SELECT node_id FROM waiting WHERE turn > many)
    ON CONFLICT (breaker_id, request_node_id) DO NOTHING
    RETURNING breaker_id
),
took_turns AS (
    UPDATE qtg.breakers b
    SET let_through = b.let_through + t.many,
        next_start_at = greatest(b.next_start_at, clock_timestamp() - interval '1 second')
                        + t.many * interval '61 seconds' / b.release_per_minute
    FROM (SELECT breaker_id, count(*) AS many FROM let_through GROUP BY breaker_id) t
    WHERE b.id = t.breaker_id
),
-- Who has not started in ten minutes waits for another turn.
forgotten AS (
    DELETE FROM qtg.breaker_starts s USING released
    WHERE s.breaker_id = released.id AND s.started_at < now() - interval '10 minutes'
)
SELECT count(*) AS let_through FROM let_through
