-- Lock movements, always in the same order; only a later statement of the transaction sees what committed meanwhile.
SELECT id::text AS request_id, request_state
FROM qtg.movement_requests
WHERE id = ANY (CAST(:request_ids AS uuid[]))
ORDER BY id
FOR NO KEY UPDATE
