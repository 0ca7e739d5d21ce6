-- How many nodes wait for each kind of drain. One look per kind, each over its own partial index: finished nodes,
-- however many, are never read. A horizon below zero counts what has waited for so long.
SELECT
    (SELECT count(*) FROM qtg.movement_request_nodes n JOIN qtg.movement_requests r ON r.id = n.request_id
     WHERE n.node_state = 'READY' AND n.node_kind <> 'manual'
       AND r.request_state IN ('APPROVED', 'EXECUTING') AND r.network_class = :network_class
       AND NOT EXISTS (SELECT 1 FROM qtg.movement_request_nodes failed
                       WHERE failed.request_id = n.request_id AND failed.node_state = 'FAILED')
       -- What a breaker holds back is no work, until it is closed or a turn comes.
       AND NOT EXISTS (
            SELECT 1 FROM qtg.breakers b
            WHERE b.network_class = r.network_class AND b.closed_at IS NULL AND b.scope = ANY (n.scopes)
              AND (b.released_at IS NULL OR b.next_start_at > now() + make_interval(secs => :horizon)
                   AND NOT EXISTS (SELECT 1 FROM qtg.breaker_starts s
                                   WHERE s.breaker_id = b.id AND s.request_node_id = n.id)))
       AND coalesce(n.next_look_at, n.updated_at) <= now() + make_interval(secs => :horizon)) AS dispatch,
    (SELECT count(*) FROM qtg.movement_request_nodes n JOIN qtg.movement_requests r ON r.id = n.request_id
     WHERE n.node_state IN ('SUBMITTED', 'OBSERVING')
       AND r.request_state = 'EXECUTING' AND r.network_class = :network_class
       AND coalesce(n.next_look_at, n.updated_at) <= now() + make_interval(secs => :horizon)) AS observe,
    (SELECT count(*) FROM qtg.movement_request_nodes n JOIN qtg.movement_requests r ON r.id = n.request_id
     WHERE n.node_state IN ('UNKNOWN', 'SUBMITTING')
       AND r.request_state = 'EXECUTING' AND r.network_class = :network_class
       AND (n.node_state = 'SUBMITTING' AND n.updated_at <= now() + make_interval(secs => :horizon)
            OR n.node_state = 'UNKNOWN'
               AND coalesce(n.next_look_at, n.updated_at) <= now() + make_interval(secs => :horizon))) AS recover
