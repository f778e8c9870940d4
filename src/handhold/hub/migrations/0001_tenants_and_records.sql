-- Tenants, their workspaces and tokens; the chains of records; what was uploaded.
-- A request of a tenant runs as handhold_tenant, for which row-level security shows that tenant's rows only.

DO $$ BEGIN
    CREATE ROLE handhold_tenant NOLOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;  -- roles belong to the server, not to this database
END $$;
DO $$ BEGIN
    EXECUTE format('GRANT handhold_tenant TO %I', current_user);
END $$;

CREATE TABLE tenants (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    retention_days integer CHECK (retention_days > 0),  -- NULL: for ever
    max_records bigint,                                 -- NULL: no limit
    max_bytes bigint,
    created timestamptz NOT NULL DEFAULT now()
);

-- The head of each chain. An append moves it by compare-and-swap, in the transaction that inserts the records.
CREATE TABLE workspaces (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant bigint NOT NULL REFERENCES tenants ON DELETE CASCADE,
    name text NOT NULL,
    generation integer NOT NULL DEFAULT 1,
    record bigint NOT NULL DEFAULT 0,
    digest bytea NOT NULL DEFAULT decode(repeat('00', 32), 'hex'),
    diverged_at bigint NOT NULL DEFAULT 0,
    claimed bigint NOT NULL DEFAULT 0,
    seen timestamptz NOT NULL DEFAULT now(),
    stored_records bigint NOT NULL DEFAULT 0,
    stored_bytes bigint NOT NULL DEFAULT 0,
    UNIQUE (tenant, name)
) WITH (fillfactor = 70);  -- the head is updated in place

CREATE TABLE tokens (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    hash bytea NOT NULL UNIQUE,
    tenant bigint NOT NULL REFERENCES tenants ON DELETE CASCADE,
    workspace bigint REFERENCES workspaces ON DELETE CASCADE,  -- NULL: all of the tenant's
    role text NOT NULL CHECK (role IN ('agent', 'reader', 'admin')),
    created timestamptz NOT NULL DEFAULT now(),
    expires timestamptz,
    CHECK (role <> 'agent' OR workspace IS NOT NULL)
);
CREATE INDEX tokens_tenant ON tokens (tenant);

-- By the month in which the hub got them: dropping a month is dropping a table.
CREATE TABLE records (
    tenant bigint NOT NULL,
    workspace bigint NOT NULL,
    generation integer NOT NULL,
    record bigint NOT NULL,
    received timestamptz NOT NULL,
    seq bigint NOT NULL,
    kind text NOT NULL,
    session bytea,           -- of a call
    is_committed boolean,    -- of an outcome
    digest bytea NOT NULL,
    line bytea NOT NULL,
    PRIMARY KEY (workspace, generation, record, received)
) PARTITION BY RANGE (received);
CREATE INDEX records_seq ON records (workspace, generation, seq);
CREATE INDEX records_session ON records (workspace, session, seq) WHERE kind = 'call';
CREATE INDEX records_tenant ON records (tenant, received) WHERE kind = 'call';

CREATE TABLE changes (
    tenant bigint NOT NULL,
    workspace bigint NOT NULL,
    generation integer NOT NULL,
    seq bigint NOT NULL,
    received timestamptz NOT NULL,
    path bytea NOT NULL      -- its first 1000 bytes
) PARTITION BY RANGE (received);
CREATE INDEX changes_path ON changes (tenant, path, received);
CREATE INDEX changes_workspace ON changes (workspace);

-- The calls that an undo or a redo reversed.
CREATE TABLE reversals (
    tenant bigint NOT NULL,
    workspace bigint NOT NULL REFERENCES workspaces ON DELETE CASCADE,
    generation integer NOT NULL,
    seq bigint NOT NULL,
    call bigint NOT NULL,
    received timestamptz NOT NULL,
    PRIMARY KEY (workspace, generation, call, seq)
);

-- Batches of a chain that is no continuation, as they came.
CREATE TABLE diverged (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant bigint NOT NULL,
    workspace bigint NOT NULL REFERENCES workspaces ON DELETE CASCADE,
    received timestamptz NOT NULL DEFAULT now(),
    digest bytea NOT NULL,
    line bytea NOT NULL,
    UNIQUE (workspace, digest)
);

CREATE TABLE contents (
    tenant bigint NOT NULL,
    workspace bigint NOT NULL REFERENCES workspaces ON DELETE CASCADE,
    hash bytea NOT NULL,
    size bigint NOT NULL,
    used timestamptz NOT NULL DEFAULT now(),  -- when it was uploaded or asked for; retention looks at that
    PRIMARY KEY (workspace, hash)
);
CREATE INDEX contents_used ON contents (tenant, used);

CREATE FUNCTION add_partitions(month date) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    first date := date_trunc('month', month);
    parent text;
    child text;
BEGIN
    FOREACH parent IN ARRAY ARRAY['records', 'changes'] LOOP
        child := format('%s_%s', parent, to_char(first, 'YYYYMM'));
        IF to_regclass(child) IS NULL THEN
            EXECUTE format(
                'CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)',
                child, parent, first::timestamp AT TIME ZONE 'UTC', (first + interval '1 month') AT TIME ZONE 'UTC'
            );
        END IF;
    END LOOP;
END $$;

-- The second wall: even a query of ours that forgets its condition sees one tenant only.
GRANT SELECT ON tenants TO handhold_tenant;
GRANT SELECT, INSERT, UPDATE ON workspaces, contents TO handhold_tenant;
GRANT SELECT, INSERT, DELETE ON tokens TO handhold_tenant;
GRANT SELECT, INSERT ON records, changes, reversals, diverged TO handhold_tenant;
DO $$
DECLARE
    each text;
BEGIN
    FOREACH each IN ARRAY ARRAY['workspaces', 'tokens', 'records', 'changes', 'reversals', 'diverged', 'contents'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', each);
        EXECUTE format(
            'CREATE POLICY own_tenant ON %I TO handhold_tenant
             USING (tenant = nullif(current_setting(''handhold.tenant'', true), '''')::bigint)', each
        );
    END LOOP;
END $$;
ALTER TABLE tenants ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON tenants TO handhold_tenant
    USING (id = nullif(current_setting('handhold.tenant', true), '')::bigint);
