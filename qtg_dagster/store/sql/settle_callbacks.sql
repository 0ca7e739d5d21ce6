-- What became of attempts, in one commit; only the claimant of the epoch writes. :outcomes is a JSON array of objects as
-- store/callbacks.py writes them. Later events of a movement wait as long as the one before them: who looks for what is
-- due need not pass over all that stands behind a receiver that is down. Whether they do is no condition of the order.
WITH settled AS (
    UPDATE qtg.movement_callback_outbox o
    SET status = x.status, attempts = x.attempts, last_status = x.last_status, last_error = x.last_error,
        last_attempt_at = now(), next_attempt_at = now() + make_interval(secs => x.wait),
        delivered_at = CASE WHEN x.status = 'delivered' THEN now() ELSE o.delivered_at END,
        runner_id = NULL, claimed_at = NULL
    FROM jsonb_to_recordset(CAST(:outcomes AS jsonb)) AS x(
        id bigint, claim_epoch bigint, status text, attempts integer, wait double precision, last_status integer,
        last_error text)
    WHERE o.id = x.id AND o.runner_id = :runner_id AND o.claim_epoch = x.claim_epoch
    RETURNING o.id, o.request_id, o.sequence, o.status, o.next_attempt_at
),
later AS (
    UPDATE qtg.movement_callback_outbox f
    SET next_attempt_at = settled.next_attempt_at
    FROM settled
    WHERE f.request_id = settled.request_id AND f.sequence > settled.sequence AND f.runner_id IS NULL
      AND f.status NOT IN ('delivered', 'dlq')
      AND CASE WHEN settled.status = 'pending' THEN f.next_attempt_at < settled.next_attempt_at
               ELSE f.next_attempt_at > settled.next_attempt_at END
)
SELECT id FROM settled
