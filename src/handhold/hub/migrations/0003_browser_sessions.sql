-- Browsers that have exchanged a token for a cookie, to look at the review page. Revoking the token ends them.
-- Requests of a tenant have no right to this table.
CREATE TABLE browser_sessions (
    hash bytea PRIMARY KEY,
    token bigint NOT NULL REFERENCES tokens ON DELETE CASCADE,
    expires timestamptz NOT NULL
);
CREATE INDEX browser_sessions_token ON browser_sessions (token);
CREATE INDEX browser_sessions_expires ON browser_sessions (expires);
