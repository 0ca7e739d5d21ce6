-- Lock a movement; only a later statement of the transaction sees what committed while this one waited.
SELECT request_state FROM qtg.movement_requests WHERE id = CAST(:request_id AS uuid) FOR NO KEY UPDATE
