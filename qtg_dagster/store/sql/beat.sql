-- One pass of a worker, failed when :error is given.
INSERT INTO qtg.worker_heartbeats AS w
    (network_class, worker, last_attempt_at, last_success_at, last_outcome, last_duration_ms, last_items,
     consecutive_errors, last_error)
VALUES (:network_class, :worker, now(), CASE WHEN CAST(:error AS text) IS NULL THEN now() END,
        CASE WHEN CAST(:error AS text) IS NULL THEN 'ok' ELSE 'error' END, :duration_ms, :items,
        CASE WHEN CAST(:error AS text) IS NULL THEN 0 ELSE 1 END, CAST(:error AS text))
ON CONFLICT (network_class, worker) DO UPDATE
SET last_attempt_at = excluded.last_attempt_at,
    last_success_at = coalesce(excluded.last_success_at, w.last_success_at),
    last_outcome = excluded.last_outcome, last_duration_ms = excluded.last_duration_ms,
    last_items = excluded.last_items, last_error = excluded.last_error,
    consecutive_errors = CASE WHEN excluded.last_error IS NULL THEN 0 ELSE w.consecutive_errors + 1 END
