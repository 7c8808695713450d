CREATE TABLE IF NOT EXISTS distlock_fence (
    key   TEXT    PRIMARY KEY NOT NULL,
    token INTEGER NOT NULL
);
