-- Tables of distlock, version 1. `@` stands for the schema.

-- A row for each key that was ever locked. A lock is held while `owner` is set and `expires` lies in the future. The
-- row stays when the lock is free, because fencing tokens of the key must rise. Old rows are removed. A transaction locks
-- the row FOR NO KEY UPDATE before it changes it. Before it grants the lock, it also locks it FOR UPDATE (is_asserted_1).
CREATE TABLE IF NOT EXISTS @.lock_1 (
    key bytea PRIMARY KEY,
    -- 0: exclusive; -1: shared; above 0: limited to this number of holders.
    kind integer NOT NULL DEFAULT 0,
    -- NULL: free. '': held by the owners in holder_1.
    owner text COLLATE "C",
    -- When the last lease ends. If the lock is free: when it became free.
    expires timestamptz NOT NULL,
    -- The last fencing token that was issued, and the first token of the current owner.
    fence bigint NOT NULL,
    fence_from bigint NOT NULL,
    -- Whether waiter_1 may have entries for the key.
    queued boolean NOT NULL DEFAULT false
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

-- The holders of shared and limited locks.
CREATE TABLE IF NOT EXISTS @.holder_1 (
    key bytea NOT NULL,
    owner text COLLATE "C" NOT NULL,
    expires timestamptz NOT NULL,
    PRIMARY KEY (key, owner)
) WITH (fillfactor = 70);

-- The waiters. The lowest `place` is served first.
CREATE TABLE IF NOT EXISTS @.waiter_1 (
    key bytea NOT NULL,
    owner text COLLATE "C" NOT NULL,
    place bigint GENERATED ALWAYS AS IDENTITY,
    kind integer NOT NULL,
    fences integer NOT NULL,
    -- Names the connection that listens. It holds the advisory lock with this number until it ends.
    channel bigint NOT NULL,
    claim bigint NOT NULL,
    dies timestamptz NOT NULL,
    PRIMARY KEY (key, place),
    -- Finds an entry without reading deleted entries of the key, which stay in the table until it is vacuumed.
    UNIQUE (key, owner)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

-- No fencing token of a removed row is above this number.
CREATE TABLE IF NOT EXISTS @.floor_1 (
    fence bigint NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS floor_1_one ON @.floor_1 ((true));
INSERT INTO @.floor_1 VALUES (0) ON CONFLICT DO NOTHING;

-- PostgreSQL inlines an SQL function if its body is at least as immutable as the function is declared. Otherwise, it
-- parses the function for each call.

-- Every command that changes something
-- - is refused if it arrives too late, because its sender no longer waits for it;
-- - waits at most half a second for a row that another transaction has locked (`lock_timeout`): a request with a single
--   attempt waits a second in all, and gets the reply that the key is busy;
-- - is committed as durably as `sync` says (a value of `synchronous_commit`; NULL: the server's setting).
CREATE OR REPLACE FUNCTION @.settle_1(sync text) RETURNS text LANGUAGE sql AS $$
    SELECT set_config('lock_timeout', '500', true)
        || CASE WHEN sync IS NULL THEN '' ELSE set_config('synchronous_commit', sync, true) END
$$;

-- Issued fencing tokens survive a crash of the server, even if other changes do not.
CREATE OR REPLACE FUNCTION @.fence_durably_1(fences integer) RETURNS text LANGUAGE sql AS $$
    SELECT CASE WHEN fences > 0 AND current_setting('synchronous_commit') = 'off'
        THEN set_config('synchronous_commit', 'local', true) END
$$;

CREATE OR REPLACE FUNCTION @.too_late_1() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'distlock: the command came too late' USING ERRCODE = 'DL001';
END $$;

CREATE OR REPLACE FUNCTION @.ms_1(ms bigint) RETURNS interval LANGUAGE sql IMMUTABLE AS $$
    SELECT ms * interval '1 millisecond'
$$;
