-- Movements whose approval window has closed undecided, longest over first; held by nobody, so each is looked at again
-- under its lock. :but are ids that the caller has had already.
SELECT r.id::text AS request_id
FROM qtg.movement_requests r
WHERE r.request_state = 'PENDING_APPROVAL' AND r.expires_at <= now() AND r.network_class = :network_class
  AND NOT r.id = ANY (CAST(CAST(:but AS text[]) AS uuid[]))
ORDER BY r.expires_at, r.id
LIMIT :batch
