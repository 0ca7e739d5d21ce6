-- Late writes changed nothing; keep what they would have said.
INSERT INTO qtg.movement_node_steps (request_node_id, attempt_no, step_kind, facts, runner_id, claim_epoch)
SELECT n.id, n.attempt_no, 'fenced', CAST(:facts AS jsonb), :runner_id, :claim_epoch
FROM qtg.movement_request_nodes n
WHERE n.id = CAST(:node_id AS uuid)
