-- Where all nodes of a movement stand; exact only under the movement's lock, taken by an earlier statement.
SELECT jsonb_object_agg(node_key, node_state) AS node_states
FROM qtg.movement_request_nodes
WHERE request_id = CAST(:request_id AS uuid)
