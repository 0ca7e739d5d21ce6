-- Where all nodes of some movements stand; exact only under the movements' locks, taken by an earlier statement.
SELECT request_id::text AS request_id, jsonb_object_agg(node_key, node_state)::text AS node_states
FROM qtg.movement_request_nodes
WHERE request_id = ANY (CAST(:request_ids AS uuid[]))
GROUP BY request_id
