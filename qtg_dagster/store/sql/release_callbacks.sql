-- Give callbacks back as they were: another runner may begin on them at once.
UPDATE qtg.movement_callback_outbox
SET runner_id = NULL, claimed_at = NULL
WHERE runner_id = :runner_id AND id = ANY (CAST(:ids AS bigint[]))
