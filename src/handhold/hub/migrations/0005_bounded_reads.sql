-- The short form of a long record, for lists: `core/listed_records.py`. Those that are there get one from `migrate`.
ALTER TABLE records ADD COLUMN listed bytea;

-- To walk through what a tenant changed, newest first, when most of it matches.
CREATE INDEX changes_received ON changes (tenant, received, workspace, seq);
