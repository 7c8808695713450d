CREATE TABLE IF NOT EXISTS distlock_fence (
    key   text   PRIMARY KEY,
    token bigint NOT NULL
);
