-- Let READY nodes through the released breakers that cover them, oldest movement first, as many as have a turn now.
-- A turn comes every 61 s / rate, and a second of them is made up for: at most `rate` in any minute. The breakers'
-- rows are locked, so drains take turns, and each sees what the last one took.
WITH released AS MATERIALIZED (
    SELECT b.id, b.scope, CAST(greatest(0, 1 + floor(b.release_per_minute / 61.0 * extract(epoch FROM
               clock_timestamp() - greatest(b.next_start_at, clock_timestamp() - interval '1 second')))) AS int) AS many
    FROM (SELECT * FROM qtg.breakers
          WHERE network_class = :network_class AND closed_at IS NULL AND released_at IS NOT NULL
          ORDER BY id FOR NO KEY UPDATE) b
),
-- Whose turn it is at each released breaker, but for those that another one holds back: they would wait with a leave
-- that others could use.
waiting AS MATERIALIZED (
    SELECT b.id AS breaker_id, n.id AS node_id, n.scopes
    FROM released b
    CROSS JOIN LATERAL (
        SELECT n.id, n.scopes
        FROM qtg.movement_request_nodes n
        JOIN qtg.movement_requests r ON r.id = n.request_id
        WHERE n.node_state = 'READY' AND n.node_kind <> 'manual' AND b.scope = ANY (n.scopes)
          AND (n.next_look_at IS NULL OR n.next_look_at <= now())
          AND r.request_state IN ('APPROVED', 'EXECUTING') AND r.network_class = :network_class AND r.failed_nodes = 0
          AND NOT EXISTS (SELECT 1 FROM qtg.breaker_starts s WHERE s.breaker_id = b.id AND s.request_node_id = n.id)
          AND NOT EXISTS (
                SELECT 1 FROM qtg.breakers other
                LEFT JOIN released ON released.id = other.id
                LEFT JOIN qtg.breaker_starts s ON s.breaker_id = other.id AND s.request_node_id = n.id
                WHERE other.network_class = :network_class AND other.closed_at IS NULL AND other.scope = ANY (n.scopes)
                  AND coalesce(released.many, 0) = 0 AND s.id IS NULL)
        ORDER BY n.request_created_at, n.id
        LIMIT b.many) n
),
-- A node under several needs a turn at each.
let_through AS (
    INSERT INTO qtg.breaker_starts (breaker_id, request_node_id)
    SELECT w.breaker_id, w.node_id
    FROM waiting w
    WHERE NOT EXISTS (
            SELECT 1 FROM released b
            WHERE b.scope = ANY (w.scopes)
              AND NOT EXISTS (SELECT 1 FROM waiting o WHERE o.breaker_id = b.id AND o.node_id = w.node_id)
              AND NOT EXISTS (SELECT 1 FROM qtg.breaker_starts s
                              WHERE s.breaker_id = b.id AND s.request_node_id = w.node_id))
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
