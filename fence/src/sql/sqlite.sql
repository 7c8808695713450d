CREATE TABLE IF NOT EXISTS distlock_fence (
    key   TEXT    PRIMARY KEY NOT NULL,
    token INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS distlock_once (
    key       TEXT    PRIMARY KEY NOT NULL,
    result    TEXT    NOT NULL,
    arguments BLOB,
    token     INTEGER NOT NULL,
    expires   INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS distlock_once_expires ON distlock_once (expires);
