-- Entries that are to be promoted next, and the head that they follow; asked under the promoter's lock, in a statement
-- of its own, so that it sees what the last holder committed. Whatever is visible and unmarked is taken: an entry whose
-- transaction ended late is late, and never skipped. Ordered as the index of what waits, not as the primary key.
SELECT o.id, o.network_class, o.actor, o.action, o.subject_type, o.subject_id, o.details::text AS details,
       to_char(o.occurred_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS occurred_at,
       to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS promoted_at,
       head.sequence AS head_sequence, head.row_hash AS head_hash
FROM qtg.audit_outbox o
LEFT JOIN (SELECT sequence, row_hash FROM qtg.audit_events WHERE network_class = :network_class
           ORDER BY sequence DESC LIMIT 1) AS head ON true
WHERE o.network_class = :network_class AND o.promoted_at IS NULL
ORDER BY o.promoted_at, o.id
LIMIT :most
