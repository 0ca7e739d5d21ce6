-- A late write changed nothing; keep what it would have said.
INSERT INTO qtg.movement_node_steps (request_node_id, attempt_no, step_kind, facts, runner_id, claim_epoch)
SELECT id, attempt_no, 'fenced', CAST(:facts AS jsonb), :runner_id, :claim_epoch
FROM qtg.movement_request_nodes
WHERE id = CAST(:node_id AS uuid)
