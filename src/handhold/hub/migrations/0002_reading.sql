-- What the review page lists and filters by, and totals by session and turn. Records that came before have none of it:
-- their calls are found by number and by path only.

ALTER TABLE records
    ADD COLUMN at bigint,      -- microseconds since 1970, by the sandbox's clock
    ADD COLUMN turn bytea,     -- of a call, as `session` in at most 1000 bytes
    ADD COLUMN tool bytea,     -- of a call
    ADD COLUMN verdict text,   -- of an intent or an outcome
    ADD COLUMN files integer,  -- of an intent
    ADD COLUMN time_us bigint; -- of an outcome
CREATE INDEX records_tool ON records (workspace, generation, session, tool, seq) WHERE kind = 'call';
CREATE INDEX records_asked ON records (workspace, generation, verdict, seq) WHERE verdict IN ('approved', 'refused');

DROP INDEX changes_workspace;
CREATE INDEX changes_workspace ON changes (workspace, generation, path, seq);
CREATE INDEX reversals_seq ON reversals (workspace, generation, seq);

-- An append adds to these, in its transaction. `received` is when it did, give or take a day: retention looks at that.
CREATE TABLE session_totals (
    tenant bigint NOT NULL,
    workspace bigint NOT NULL REFERENCES workspaces ON DELETE CASCADE,
    generation integer NOT NULL,
    session bytea NOT NULL,
    first_at bigint NOT NULL,
    last_at bigint NOT NULL,
    last_seq bigint NOT NULL,
    calls bigint NOT NULL,
    turns bigint NOT NULL,
    failed bigint NOT NULL,
    changes bigint NOT NULL,            -- calls that changed files
    undone bigint NOT NULL DEFAULT 0,   -- of these
    received timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (workspace, generation, session)
) WITH (fillfactor = 70);
CREATE INDEX session_totals_last ON session_totals (workspace, generation, last_seq);
CREATE INDEX session_totals_received ON session_totals (tenant, received);

CREATE TABLE turn_totals (
    tenant bigint NOT NULL,
    workspace bigint NOT NULL,
    generation integer NOT NULL,
    session bytea NOT NULL,
    turn bytea NOT NULL,
    first_at bigint NOT NULL,
    last_at bigint NOT NULL,
    calls bigint NOT NULL,
    received timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (workspace, generation, session, turn),
    FOREIGN KEY (workspace, generation, session) REFERENCES session_totals ON DELETE CASCADE
) WITH (fillfactor = 70);
CREATE INDEX turn_totals_received ON turn_totals (tenant, received);

CREATE TABLE session_tools (
    tenant bigint NOT NULL,
    workspace bigint NOT NULL,
    generation integer NOT NULL,
    session bytea NOT NULL,
    tool bytea NOT NULL,
    PRIMARY KEY (workspace, generation, session, tool),
    FOREIGN KEY (workspace, generation, session) REFERENCES session_totals ON DELETE CASCADE
);

GRANT SELECT, INSERT, UPDATE ON session_totals, turn_totals TO handhold_tenant;
GRANT SELECT, INSERT ON session_tools TO handhold_tenant;
DO $$
DECLARE
    each text;
BEGIN
    FOREACH each IN ARRAY ARRAY['session_totals', 'turn_totals', 'session_tools'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', each);
        EXECUTE format(
            'CREATE POLICY own_tenant ON %I TO handhold_tenant
             USING (tenant = nullif(current_setting(''handhold.tenant'', true), '''')::bigint)', each
        );
    END LOOP;
END $$;
