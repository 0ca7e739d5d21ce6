-- Of the next :most entries of the outbox behind :after: the last one's id, and those that are marked and have no event.
WITH page AS (
    SELECT id, network_class, promoted_at FROM qtg.audit_outbox WHERE id > :after ORDER BY id LIMIT :most
)
SELECT max(id) AS last_id,
       array_agg(id ORDER BY id) FILTER (
           WHERE network_class = :network_class AND promoted_at IS NOT NULL
             AND NOT EXISTS (SELECT 1 FROM qtg.audit_events e WHERE e.outbox_id = page.id)) AS strays
FROM page
