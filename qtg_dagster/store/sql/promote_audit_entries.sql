-- Entries become events behind the head, in the order of :ids, and are marked in the same statement. now() is that of
-- take_audit_entries: both run in one transaction, and it is hashed.
WITH links AS (
    SELECT * FROM unnest(CAST(:ids AS bigint[]), CAST(:previous AS text[]), CAST(:hashes AS text[]))
        WITH ORDINALITY AS link(outbox_id, previous_hash, row_hash, place)
),
written AS (
    INSERT INTO qtg.audit_events
        (network_class, sequence, outbox_id, actor, action, subject_type, subject_id, details, occurred_at, promoted_at,
         previous_hash, row_hash)
    SELECT o.network_class, CAST(:after AS bigint) + links.place, o.id, o.actor, o.action, o.subject_type, o.subject_id,
           o.details, o.occurred_at, now(), links.previous_hash, links.row_hash
    FROM links JOIN qtg.audit_outbox o ON o.id = links.outbox_id
    RETURNING outbox_id
),
marked AS (
    UPDATE qtg.audit_outbox o SET promoted_at = now() FROM links
    WHERE o.id = links.outbox_id AND o.promoted_at IS NULL
    RETURNING o.id
)
SELECT (SELECT count(*) FROM written) AS written, (SELECT count(*) FROM marked) AS marked
