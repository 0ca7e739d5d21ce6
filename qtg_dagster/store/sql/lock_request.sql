-- Hold a movement against everybody who moves it. What is decided on is read by a later statement: the one that waited for
-- the lock does not see what was committed meanwhile.
SELECT FROM qtg.movement_requests
WHERE id = CAST(:request_id AS uuid) AND network_class = :network_class
FOR NO KEY UPDATE
