-- Hold a movement whose approval window has closed undecided; one that somebody else holds, or has decided on, is left.
SELECT r.id
FROM qtg.movement_requests r
WHERE r.id = CAST(:request_id AS uuid) AND r.network_class = :network_class
  AND r.request_state = 'PENDING_APPROVAL' AND r.expires_at <= now()
FOR NO KEY UPDATE SKIP LOCKED
