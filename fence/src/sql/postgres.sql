CREATE TABLE IF NOT EXISTS distlock_fence (
    key   text   PRIMARY KEY,
    token bigint NOT NULL
);
CREATE TABLE IF NOT EXISTS distlock_once (
    key       text   PRIMARY KEY,
    result    text   NOT NULL,
    arguments bytea,
    token     bigint NOT NULL,
    expires   bigint NOT NULL
);
CREATE INDEX IF NOT EXISTS distlock_once_expires ON distlock_once (expires);
