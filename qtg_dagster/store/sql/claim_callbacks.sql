-- Claim up to :batch callbacks to deliver: of each movement the oldest that is not settled, receivers in turn. A receiver
-- has at most :per_receiver in flight, over all runners (who hangs for longer than an attempt takes, :longest, does not
-- count: what he claimed stays his, the receiver's room does not); a suspect one (slow or failing of late) has one, and all suspects
-- together take no more than :suspect_room. What this runner claimed and is not :in_work was lost: it is claimed anew.
-- OFFSET 0 and NOT IN keep the planner to the indexes on movements and ids, whatever it believes of a table that fills and
-- empties within minutes.
-- The unlocked list is a hint; the locked pick repeats every condition. Row locks end with this statement.
WITH RECURSIVE live AS MATERIALIZED (
    SELECT runner_id FROM qtg.live_runners
),
receivers AS (
    (SELECT receiver FROM qtg.movement_callback_outbox
     WHERE network_class = :network_class AND status = 'pending'
     ORDER BY receiver LIMIT 1)
    UNION ALL
    SELECT (SELECT o.receiver FROM qtg.movement_callback_outbox o
            WHERE o.network_class = :network_class AND o.status = 'pending' AND o.receiver > receivers.receiver
            ORDER BY o.receiver LIMIT 1)
    FROM receivers
    WHERE receivers.receiver IS NOT NULL
),
busy AS MATERIALIZED (
    SELECT receiver, count(*) AS many
    FROM qtg.movement_callback_outbox
    WHERE runner_id IS NOT NULL AND network_class = :network_class
      AND CASE WHEN runner_id = :runner_id THEN id = ANY (CAST(:in_work AS bigint[]))
               ELSE runner_id IN (SELECT runner_id FROM live)
                    AND claimed_at > now() - make_interval(secs => :longest) END
    GROUP BY receiver
),
room AS MATERIALIZED (
    SELECT receiver, receiver = ANY (CAST(:suspects AS text[])) AS suspect,
           CASE WHEN receiver = ANY (CAST(:suspects AS text[])) THEN 1 ELSE :per_receiver END
           - coalesce((SELECT many FROM busy WHERE busy.receiver = receivers.receiver), 0) AS free
    FROM receivers
    WHERE receiver IS NOT NULL
),
candidates AS (
    SELECT c.id, c.next_attempt_at, room.suspect,
           row_number() OVER (PARTITION BY room.receiver ORDER BY c.next_attempt_at, c.id) AS turn
    FROM room
    CROSS JOIN LATERAL (
        SELECT o.id, o.next_attempt_at
        FROM qtg.movement_callback_outbox o
        WHERE o.network_class = :network_class AND o.receiver = room.receiver AND o.status = 'pending'
          AND o.next_attempt_at <= now()
          AND CASE WHEN o.runner_id = :runner_id THEN o.id <> ALL (CAST(:in_work AS bigint[]))
                   ELSE o.runner_id IS NULL OR o.runner_id NOT IN (SELECT runner_id FROM live) END
          AND NOT EXISTS (
                SELECT 1 FROM qtg.movement_callback_outbox e
                WHERE e.request_id = o.request_id AND e.id <> o.id AND e.status NOT IN ('delivered', 'dlq')
                  AND (e.sequence < o.sequence
                       OR CASE WHEN e.runner_id = :runner_id THEN e.id = ANY (CAST(:in_work AS bigint[]))
                               ELSE e.runner_id IN (SELECT runner_id FROM live) END)
                OFFSET 0)
        ORDER BY o.next_attempt_at, o.id
        LIMIT greatest(room.free, 0)) AS c
),
placed AS (
    SELECT id, turn, next_attempt_at, suspect,
           row_number() OVER (PARTITION BY suspect ORDER BY turn, next_attempt_at, id) AS place
    FROM candidates
),
picked AS (
    SELECT o.id
    FROM qtg.movement_callback_outbox o
    WHERE o.id = ANY (ARRAY(
            SELECT id FROM placed WHERE NOT suspect OR place <= :suspect_room
            ORDER BY turn, next_attempt_at, id LIMIT :batch))
      AND o.status NOT IN ('delivered', 'dlq') AND o.next_attempt_at <= now()
      AND CASE WHEN o.runner_id = :runner_id THEN o.id <> ALL (CAST(:in_work AS bigint[]))
               ELSE o.runner_id IS NULL OR o.runner_id NOT IN (SELECT runner_id FROM live) END
    FOR NO KEY UPDATE OF o SKIP LOCKED
)
UPDATE qtg.movement_callback_outbox o
SET runner_id = :runner_id, claim_epoch = o.claim_epoch + 1, claimed_at = now()
FROM picked
WHERE o.id = picked.id
RETURNING o.id, o.claim_epoch, o.request_id::text AS request_id, o.event_id::text AS event_id, o.event_type, o.sequence,
          o.callback_url, o.receiver, o.body, o.callback_timestamp, o.callback_nonce::text AS callback_nonce, o.attempts
