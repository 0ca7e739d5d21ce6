-- That something was refused before it could have an effect, and why.
INSERT INTO qtg.audit_outbox (network_class, actor, action, subject_type, subject_id, details)
SELECT network_class, 'engine', 'refuse', 'movement_request', id::text,
       jsonb_build_object('compiled_plan_hash', compiled_plan_hash, 'approval_digest', approval_digest)
       || CAST(:details AS jsonb)
FROM qtg.movement_requests
WHERE id = CAST(:request_id AS uuid)
