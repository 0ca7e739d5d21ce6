-- A page of a chain in its order, each row beside the outbox entry that it was made of: `same`, or what is not.
SELECT e.previous_hash, e.network_class, e.sequence, e.outbox_id,
       to_char(e.occurred_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS occurred_at,
       to_char(e.promoted_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS promoted_at,
       e.actor, e.action, e.subject_type, e.subject_id, e.details::text AS details, e.row_hash,
       CASE WHEN o.id IS NULL AND e.promoted_at < now() - make_interval(days => :kept_days) THEN 'deleted'
            WHEN o.id IS NULL THEN 'absent'
            WHEN o.promoted_at IS NULL THEN 'unmarked'
            WHEN (o.network_class, o.actor, o.action, o.subject_type, o.subject_id, o.details, o.occurred_at)
                 IS DISTINCT FROM
                 (e.network_class, e.actor, e.action, e.subject_type, e.subject_id, e.details, e.occurred_at)
            THEN 'different'
            ELSE 'same' END AS entry
FROM qtg.audit_events e
LEFT JOIN qtg.audit_outbox o ON o.id = e.outbox_id
WHERE e.network_class = :network_class AND e.sequence > :after AND e.sequence <= :until
ORDER BY e.sequence
LIMIT :most
