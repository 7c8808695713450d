-- Renewal, and what looks at locks.

-- Makes leases last for their ttls from now, unless they last longer. One character for each: 1 renewed, 0 not held.
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
            -- In the order of all others: the row first.
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

-- Who holds the key: a row for each, and in each how many wait.
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

-- Removes rows of keys that have been free for a day, at most so many; their fencing tokens go on rising all the same.
-- Called by processes of distlock 0.1.0; later ones send a statement that follows the primary key.
CREATE OR REPLACE FUNCTION @.prune_1(most integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    removed bigint;
    highest bigint;
    old timestamptz := clock_timestamp() - interval '1 day';
BEGIN
    -- Of processes that have died.
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

-- For transactions that write what a lock protects: fails unless the fencing token belongs to the present owner of the
-- lock, and keeps the lock from being given to anybody else until the transaction ends.
CREATE OR REPLACE FUNCTION @.assert_held_1(lock_key text, token bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    k bytea := convert_to(lock_key, 'UTF8');
BEGIN
    -- This waits for nobody who releases the lock. So it is looked at again, by a statement that sees what was committed
    -- before the row was locked; in a transaction that goes on to see what it saw first, nobody has got it since.
    PERFORM FROM @.lock_1 WHERE key = k FOR KEY SHARE;
    PERFORM FROM @.lock_1 WHERE key = k AND owner IS NOT NULL AND token BETWEEN fence_from AND fence;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'distlock: `%` is not held with fencing token %', lock_key, token USING ERRCODE = 'DL002';
    END IF;
END $$;

-- The revision of all of these functions: a client that knows a later one replaces them, and an earlier one works with
-- them. Created last: it is there when all of the above is.
CREATE OR REPLACE FUNCTION @.installed_1() RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT 2';
