-- How many callbacks could be begun on now or within the horizon, counted up to a thousand.
WITH live AS MATERIALIZED (
    SELECT runner_id FROM qtg.live_runners
)
SELECT count(*) AS waiting
FROM (SELECT FROM qtg.movement_callback_outbox o
      WHERE o.network_class = :network_class AND o.status = 'pending'
        AND o.next_attempt_at <= now() + make_interval(secs => :horizon)
        AND (o.runner_id IS NULL OR o.runner_id NOT IN (SELECT runner_id FROM live))
        AND NOT EXISTS (
              SELECT 1 FROM qtg.movement_callback_outbox e
              WHERE e.request_id = o.request_id AND e.sequence < o.sequence AND e.status NOT IN ('delivered', 'dlq')
              OFFSET 0)
      LIMIT 1000) AS due
