-- One plan version as a document: the one asked for, or the newest in use of a template. The text is the same as long as
-- the rows are, so who reads it need not parse it twice.
SELECT v.id AS plan_version_id, v.version, d.plan,
       (SELECT jsonb_object_agg(p.node_key, p.id)
        FROM qtg.movement_plan_nodes p WHERE p.plan_version_id = v.id)::text AS node_ids
FROM qtg.movement_plan_versions v
JOIN qtg.plan_documents d ON d.plan_version_id = v.id
JOIN qtg.movement_templates t ON t.id = v.template_id
WHERE t.template_key = :template_key AND v.retired_at IS NULL
  AND (CAST(:version AS integer) IS NULL OR v.version = CAST(:version AS integer))
ORDER BY v.version DESC
LIMIT 1
