-- Nodes that are claimed already, for `work_of_chosen`.
WITH chosen AS MATERIALIZED (
    SELECT n.* FROM qtg.movement_request_nodes n WHERE n.id = ANY (CAST(:node_ids AS uuid[]))
)
