-- Lock a movement and read where all its nodes stand; later statements of the transaction may rely on it.
WITH request AS (
    SELECT id, request_state FROM qtg.movement_requests WHERE id = CAST(:request_id AS uuid) FOR NO KEY UPDATE
)
SELECT request.request_state,
       (SELECT jsonb_object_agg(n.node_key, n.node_state)
        FROM qtg.movement_request_nodes n WHERE n.request_id = request.id) AS node_states
FROM request
