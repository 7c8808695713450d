-- Tables of distlock, version 1. `@` stands for the schema.

-- A row for each key that was ever locked. A lock is held while `owner` is set and `expires` lies in the future. The
-- row stays when the lock is free, because fencing tokens of the key must go on rising; old ones are removed. Who
-- changes it locks it FOR NO KEY UPDATE first; who gives the key to anybody locks it FOR UPDATE, too (is_asserted_1).
CREATE TABLE IF NOT EXISTS @.lock_1 (
    key bytea PRIMARY KEY,
    -- 0: exclusive; -1: shared; above: limited to so many holders.
    kind integer NOT NULL DEFAULT 0,
    -- NULL: free. '': held by those in holder_1.
    owner text COLLATE "C",
    -- When the last lease ends; of a free lock: when it became free.
    expires timestamptz NOT NULL,
    -- The last fencing token that was handed out, and the first that the present owner has got.
    fence bigint NOT NULL,
    fence_from bigint NOT NULL,
    -- Somebody may stand in waiter_1.
    queued boolean NOT NULL DEFAULT false
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

-- The holders of shared and limited locks.
CREATE TABLE IF NOT EXISTS @.holder_1 (
    key bytea NOT NULL,
    owner text COLLATE "C" NOT NULL,
    expires timestamptz NOT NULL,
    PRIMARY KEY (key, owner)
) WITH (fillfactor = 70);

-- Who waits. The lower `place` is served first.
CREATE TABLE IF NOT EXISTS @.waiter_1 (
    key bytea NOT NULL,
    owner text COLLATE "C" NOT NULL,
    place bigint GENERATED ALWAYS AS IDENTITY,
    kind integer NOT NULL,
    fences integer NOT NULL,
    -- Names the connection that listens, which holds the advisory lock of this number while it lives.
    channel bigint NOT NULL,
    claim bigint NOT NULL,
    dies timestamptz NOT NULL,
    PRIMARY KEY (key, place),
    -- Finds a place without a look at those of the key that have gone, which stay in the table until it is vacuumed.
    UNIQUE (key, owner)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

-- No fencing token of a key that was pruned is above this.
CREATE TABLE IF NOT EXISTS @.floor_1 (
    fence bigint NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS floor_1_one ON @.floor_1 ((true));
INSERT INTO @.floor_1 VALUES (0) ON CONFLICT DO NOTHING;

-- A function in SQL is written into the statement that calls it, if its body is no less immutable than it says; else it
-- is parsed with every call.

-- Every command that changes something
-- - is refused if it comes too late, because its sender has given it up;
-- - waits for a row that another transaction has locked for half a second at most (`lock_timeout`): a request for one
--   attempt waits a second in all, and is told that the key is busy;
-- - counts as committed when the caller says so (`sync` is a `synchronous_commit`; NULL: as the server is set).
CREATE OR REPLACE FUNCTION @.settle_1(sync text) RETURNS text LANGUAGE sql AS $$
    SELECT set_config('lock_timeout', '500', true)
        || CASE WHEN sync IS NULL THEN '' ELSE set_config('synchronous_commit', sync, true) END
$$;

-- Fencing tokens that are handed out survive a crash of the server, whatever else does.
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
