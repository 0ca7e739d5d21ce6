-- What became of an attempt; only the claimant of the epoch writes.
UPDATE qtg.movement_callback_outbox
SET status = :status, attempts = :attempts, last_status = :last_status, last_error = :last_error,
    last_attempt_at = now(), next_attempt_at = now() + make_interval(secs => :wait),
    delivered_at = CASE WHEN :status = 'delivered' THEN now() ELSE delivered_at END,
    runner_id = NULL, claimed_at = NULL
WHERE id = :id AND runner_id = :runner_id AND claim_epoch = :claim_epoch
