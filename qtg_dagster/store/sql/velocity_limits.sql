-- The velocity limits of a network class, with what has left today (UTC).
SELECT l.asset, l.decimals, l.daily_units, coalesce(s.units, 0) AS spent_units, l.set_by, l.reason
FROM qtg.velocity_limits l
LEFT JOIN qtg.velocity_spends s
  ON s.network_class = l.network_class AND s.asset = l.asset AND s.day = (now() AT TIME ZONE 'UTC')::date
WHERE l.network_class = :network_class
ORDER BY l.asset
