-- Renewal, inspection, pruning, assertions.

-- Renews leases for their ttls from now, and shortens none. Returns a character for each: 1 renewed, 0 not held.
CREATE OR REPLACE FUNCTION @.renew_1(ks bytea[], whos text[], ttls bigint[], not_after timestamptz, sync text)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    now timestamptz;
    said text := '';
    is_shared boolean;
    was text := @.settle_1(sync);
BEGIN
    FOR i IN 1..cardinality(ks) LOOP
        now := clock_timestamp();
        IF now > not_after THEN
            PERFORM @.too_late_1();
        END IF;
        UPDATE @.lock_1 SET expires = greatest(expires, now + @.ms_1(ttls[i]))
            WHERE key = ks[i] AND owner = whos[i] AND expires > now;
        IF NOT FOUND THEN
            -- The row of the key is locked first, as in all other functions.
            SELECT true INTO is_shared FROM @.lock_1 WHERE key = ks[i] AND owner = '' FOR NO KEY UPDATE;
            IF FOUND THEN
                now := clock_timestamp();
                IF now > not_after THEN
                    PERFORM @.too_late_1();
                END IF;
                WITH renewed AS (
                    UPDATE @.holder_1 SET expires = greatest(expires, now + @.ms_1(ttls[i]))
                        WHERE key = ks[i] AND owner = whos[i] AND expires > now RETURNING key, expires
                )
                UPDATE @.lock_1 l SET expires = greatest(l.expires, renewed.expires)
                    FROM renewed WHERE l.key = renewed.key;
            END IF;
        END IF;
        said := said || CASE WHEN FOUND THEN '1' ELSE '0' END;
    END LOOP;
    RETURN said;
END $$;

-- Returns a row for each holder of the lock, each with the number of waiters.
CREATE OR REPLACE FUNCTION @.inspect_1(k bytea)
RETURNS TABLE (kind integer, holder text, micros bigint, waiters bigint) LANGUAGE sql STABLE AS $$
    SELECT l.kind, h.owner, (extract(epoch FROM h.expires - t.now) * 1000000)::bigint,
        (SELECT count(*) FROM @.waiter_1 w WHERE w.key = k AND w.dies > t.now)
    FROM (SELECT clock_timestamp() AS now OFFSET 0) t, @.lock_1 l, LATERAL (
        SELECT l.owner, l.expires WHERE l.kind = 0
        UNION ALL
        SELECT o.owner, o.expires FROM @.holder_1 o WHERE o.key = k AND l.kind <> 0
    ) h
    WHERE l.key = k AND l.owner IS NOT NULL AND h.expires > t.now
$$;

-- Removes rows of keys that have been free for a day, at most `most`. Their fencing tokens rise nevertheless.
-- Processes of distlock 0.1.0 call it. Later versions send a statement that follows the primary key.
CREATE OR REPLACE FUNCTION @.prune_1(most integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    removed bigint;
    highest bigint;
    old timestamptz := clock_timestamp() - interval '1 day';
BEGIN
    -- Entries of processes that have died.
    DELETE FROM @.waiter_1 WHERE dies < old + interval '23 hours';
    DELETE FROM @.holder_1 WHERE expires < old + interval '23 hours';
    WITH idle AS (
        SELECT key FROM @.lock_1 WHERE expires < old LIMIT most FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM @.lock_1 WHERE key IN (SELECT key FROM idle) RETURNING fence
    )
    SELECT count(*), max(fence) INTO removed, highest FROM gone;
    UPDATE @.floor_1 SET fence = highest WHERE fence < highest;
    RETURN removed;
END $$;

-- For transactions that write what a lock protects. Fails unless the fencing token belongs to the current owner of the
-- lock. Until the transaction ends, the lock is not granted to another owner. An owner whose lease has expired is
-- accepted until the lock is granted again, because its transaction is still the first one. The tokens of one owner are
-- not ordered: it hands its lease from one of its sections to the next.
CREATE OR REPLACE FUNCTION @.assert_held_1(lock_key text, token bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    k bytea := convert_to(lock_key, 'UTF8');
BEGIN
    -- The first statement does not wait for a transaction that releases the lock. So a second statement reads the row
    -- again, and sees what was committed before the row was locked. With a snapshot of the whole transaction, it sees
    -- the older row. The lock has not been granted to another owner since then.
    PERFORM FROM @.lock_1 WHERE key = k FOR KEY SHARE;
    PERFORM FROM @.lock_1 WHERE key = k AND owner IS NOT NULL AND token BETWEEN fence_from AND fence;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'distlock: `%` is not held with fencing token %', lock_key, token USING ERRCODE = 'DL002';
    END IF;
END $$;

-- The revision of these functions. A client with a later revision replaces them. A client with an earlier one uses them.
-- This function is created last, so it exists only if all others do.
CREATE OR REPLACE FUNCTION @.installed_1() RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT 2';
