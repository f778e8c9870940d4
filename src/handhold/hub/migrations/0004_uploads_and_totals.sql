-- Every upload has an object of its own, so that removing one never takes away what was uploaded since.
-- Empty: uploaded before this version, with a key of the hash alone.
ALTER TABLE contents ADD COLUMN upload text NOT NULL DEFAULT '';

-- The bounds of what is kept apart are for the current generation; earlier rows belong to none.
ALTER TABLE diverged ADD COLUMN generation integer NOT NULL DEFAULT 0;

-- Tenants whose objects are to be removed once more: an upload may have ended after their deletion.
CREATE TABLE deleted_tenants (
    id bigint PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT now()
);

-- Retention did not subtract records, and diverged records were not counted.
UPDATE workspaces SET stored_records = found.records, stored_bytes = found.bytes
FROM (
    SELECT workspace, sum(records)::bigint AS records, sum(bytes)::bigint AS bytes FROM (
        SELECT id AS workspace, 0 AS records, 0 AS bytes FROM workspaces
        UNION ALL SELECT workspace, count(*), sum(length(line)) FROM records GROUP BY workspace
        UNION ALL SELECT workspace, 0, sum(length(line)) FROM diverged GROUP BY workspace
        UNION ALL SELECT workspace, 0, sum(size) FROM contents GROUP BY workspace
    ) AS parts GROUP BY workspace
) AS found
WHERE id = found.workspace AND (stored_records, stored_bytes) IS DISTINCT FROM (found.records, found.bytes);
