-- Tables of distlock, version 1. `@` stands for the schema.

-- A row for each key that was ever locked. A lock is held while `owner` is set and `expires` lies in the future. The
-- row stays when the lock is free, because fencing tokens of the key must go on rising; prune_1 removes old ones.
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
-- - waits for a row that somebody else has locked for a second at most (`lock_timeout`);
-- - counts as committed when the caller says so (`sync` is a `synchronous_commit`; NULL: as the server is set).
CREATE OR REPLACE FUNCTION @.settle_1(sync text) RETURNS text LANGUAGE sql AS $$
    SELECT set_config('lock_timeout', '1000', true)
        || CASE WHEN sync IS NULL THEN '' ELSE set_config('synchronous_commit', sync, true) END
$$;

CREATE OR REPLACE FUNCTION @.too_late_1() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'distlock: the command came too late' USING ERRCODE = 'DL001';
END $$;

CREATE OR REPLACE FUNCTION @.ms_1(ms bigint) RETURNS interval LANGUAGE sql IMMUTABLE AS $$
    SELECT ms * interval '1 millisecond'
$$;
-- Acquisition.

-- Makes the row of a key. Who gives the key to anybody first locks the row FOR UPDATE, which waits for those who hold it
-- FOR KEY SHARE (see assert_held_1). Renewals do not, nor does a release that nobody waits for.
CREATE OR REPLACE FUNCTION @.make_row_1(k bytea) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    least bigint;
BEGIN
    INSERT INTO @.lock_1 (key, expires, fence, fence_from) VALUES (k, clock_timestamp(), 0, 1)
        ON CONFLICT DO NOTHING;
    IF FOUND THEN
        -- Read after the insertion, which waits for a transaction that prunes this very key.
        SELECT fence INTO least FROM @.floor_1;
        UPDATE @.lock_1 SET fence = least, fence_from = least + 1 WHERE key = k AND least > 0;
    END IF;
END $$;

-- Puts `who` into the queue of a key whose row the caller has locked, or keeps the place alive. `queued`: whether
-- somebody may stand there already. Whether nobody alive stands in front.
CREATE OR REPLACE FUNCTION @.enqueue_1(
    k bytea, queued boolean, who text, what integer, want integer, via bigint, claims bigint, now timestamptz,
    until timestamptz
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    mine bigint;
    was text;
BEGIN
    -- A place that is lost in a crash is asked for again.
    INSERT INTO @.waiter_1 AS w (key, owner, kind, fences, channel, claim, dies)
        VALUES (k, who, what, want, via, claims, until)
        ON CONFLICT (key, owner) DO UPDATE SET kind = excluded.kind, fences = excluded.fences,
            channel = excluded.channel, claim = excluded.claim, dies = excluded.dies
        RETURNING w.place, set_config('synchronous_commit', 'off', true) INTO mine, was;
    IF queued THEN
        RETURN NOT EXISTS (SELECT FROM @.waiter_1 WHERE key = k AND place < mine AND dies > now);
    END IF;
    UPDATE @.lock_1 SET queued = true WHERE key = k;
    RETURN true;
END $$;

-- Removes `who` from the queue. Whether it stood there.
CREATE OR REPLACE FUNCTION @.dequeue_1(k bytea, who text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM @.waiter_1 WHERE key = k AND owner = who;
    IF FOUND THEN
        UPDATE @.lock_1 SET queued = false
            WHERE key = k AND NOT EXISTS (SELECT FROM @.waiter_1 WHERE key = k);
        RETURN true;
    END IF;
    RETURN false;
END $$;

-- What `who` is told when somebody else is in the way. (Without the cast to text, `||` is not immutable.)
CREATE OR REPLACE FUNCTION @.busy_1(holder text, ends timestamptz, now timestamptz, front boolean)
RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT 'busy ' || greatest(0, extract(epoch FROM ends - now) * 1000000)::bigint::text
        || CASE WHEN front THEN ' 1 ' ELSE ' 0 ' END || holder
$$;

-- Lets `who` in, or tells who is in the way. `via`: the channel to be told by; NULL: do not queue.
-- Answers: acquired FENCE, held FENCE, busy MICROSECONDS FRONT HOLDER, kind KIND.
CREATE OR REPLACE FUNCTION @.acquire_1(
    k bytea, who text, ttl bigint, what integer, want integer, via bigint, claims bigint, entry bigint,
    not_after timestamptz, sync text
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    last bigint;
    now timestamptz;
    was text := @.settle_1(sync);
BEGIN
    -- An exclusive lock on a key that nobody has: by two statements, which look at no column that they do not need.
    SELECT fence INTO last FROM @.lock_1
        WHERE key = k AND what = 0 AND kind = 0 AND owner IS NULL AND NOT queued FOR UPDATE;
    IF FOUND THEN
        now := clock_timestamp();
        IF now > not_after THEN
            PERFORM @.too_late_1();
        END IF;
        UPDATE @.lock_1 SET owner = who, fence = last + want, fence_from = last + 1, expires = now + @.ms_1(ttl)
            WHERE key = k;
        RETURN 'acquired ' || last + 1;
    END IF;
    RETURN @.take_1(k, who, ttl, what, want, via, claims, entry, not_after);
END $$;

-- The rest of acquire_1: a new key, somebody in the way, or another kind of lock.
CREATE OR REPLACE FUNCTION @.take_1(
    k bytea, who text, ttl bigint, what integer, want integer, via bigint, claims bigint, entry bigint,
    not_after timestamptz
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    l @.lock_1;
    now timestamptz := clock_timestamp();
    is_ours boolean;
BEGIN
    LOOP
        -- A look that finds the key busy writes nothing.
        SELECT * INTO l FROM @.lock_1
            WHERE key = k AND (via IS NOT NULL OR owner IS NULL OR owner = who OR expires <= now OR kind <> 0)
            FOR UPDATE;
        EXIT WHEN FOUND;
        SELECT * INTO l FROM @.lock_1 WHERE key = k AND owner <> who AND expires > now AND kind = 0;
        IF FOUND THEN
            RETURN CASE WHEN what > 0 AND l.owner <> 'dl1:hold' THEN 'kind 0'
                ELSE @.busy_1(l.owner, l.expires, now, true) END;
        END IF;
        PERFORM @.make_row_1(k);
    END LOOP;
    now := clock_timestamp();
    IF now > not_after THEN
        PERFORM @.too_late_1();
    END IF;
    is_ours := l.kind = 0 AND l.owner = who AND l.expires > now;
    IF what = 0 AND (is_ours OR l.owner IS NULL OR l.expires <= now) THEN
        IF l.kind <> 0 THEN
            DELETE FROM @.holder_1 WHERE key = k;
        END IF;
        UPDATE @.lock_1 SET kind = 0, owner = who, fence = l.fence + want,
            fence_from = CASE WHEN is_ours THEN l.fence_from ELSE l.fence + 1 END,
            expires = CASE WHEN is_ours THEN greatest(l.expires, now + @.ms_1(ttl)) ELSE now + @.ms_1(ttl) END
            WHERE key = k;
        IF l.queued THEN
            PERFORM @.dequeue_1(k, who);
        END IF;
        RETURN CASE WHEN is_ours THEN 'held ' ELSE 'acquired ' END || l.fence + 1;
    END IF;
    IF what = 0 OR (l.kind = 0 AND l.owner IS NOT NULL AND l.expires > now) THEN
        RETURN @.excluded_1(l, who, what, want, via, claims, now, now + @.ms_1(entry));
    END IF;
    RETURN @.join_1(l, who, what, ttl, via, claims, now, now + @.ms_1(entry));
END $$;

-- An exclusive lock is asked for, or is in the way.
CREATE OR REPLACE FUNCTION @.excluded_1(
    l @.lock_1, who text, what integer, want integer, via bigint, claims bigint, now timestamptz, until timestamptz
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    front boolean := true;
    holder text := l.owner;
BEGIN
    IF l.kind > 0 OR (what > 0 AND l.owner <> 'dl1:hold') THEN
        RETURN 'kind ' || l.kind;
    END IF;
    IF via IS NOT NULL THEN
        front := @.enqueue_1(l.key, l.queued, who, what, want, via, claims, now, until);
    END IF;
    IF l.kind <> 0 THEN
        SELECT owner INTO holder FROM @.holder_1 WHERE key = l.key AND expires > now
            ORDER BY expires DESC, owner LIMIT 1;
    END IF;
    RETURN @.busy_1(holder, l.expires, now, front);
END $$;

-- A shared or limited lock is asked for, and no exclusive one is in the way.
CREATE OR REPLACE FUNCTION @.join_1(
    l @.lock_1, who text, what integer, ttl bigint, via bigint, claims bigint, now timestamptz, until timestamptz
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    ends timestamptz := now + @.ms_1(ttl);
    front boolean := true;
    first @.holder_1;
    word text := 'acquired ';
BEGIN
    DELETE FROM @.holder_1 WHERE key = l.key AND expires <= now;
    IF l.owner IS NOT NULL AND l.expires > now THEN
        IF l.kind <> what THEN
            RETURN 'kind ' || l.kind;
        END IF;
        UPDATE @.holder_1 SET expires = greatest(expires, ends) WHERE key = l.key AND owner = who
            RETURNING expires INTO ends;
        IF FOUND THEN
            word := 'held ';
        ELSIF NOT @.has_room_1(l.key, what) OR @.others_wait_1(l.key, who, now) THEN
            IF via IS NOT NULL THEN
                front := @.enqueue_1(l.key, l.queued, who, what, 0, via, claims, now, until);
            END IF;
            SELECT * INTO first FROM @.holder_1 WHERE key = l.key ORDER BY expires, owner LIMIT 1;
            RETURN @.busy_1(first.owner, first.expires, now, front);
        END IF;
        ends := greatest(ends, l.expires);
    END IF;
    IF word = 'acquired ' THEN
        INSERT INTO @.holder_1 VALUES (l.key, who, now + @.ms_1(ttl));
    END IF;
    UPDATE @.lock_1 SET kind = what, owner = '', expires = ends, fence_from = l.fence + 1 WHERE key = l.key;
    IF l.queued THEN
        PERFORM @.dequeue_1(l.key, who);
    END IF;
    RETURN word || 0;
END $$;

-- Whether one more can hold a lock that is shared or limited. Dead holders were removed before.
CREATE OR REPLACE FUNCTION @.has_room_1(k bytea, what integer) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN what < 0 OR (SELECT count(*) FROM @.holder_1 WHERE key = k) < what;
END $$;

-- Whether somebody alive stands in front of `who`, or anywhere if `who` does not wait.
CREATE OR REPLACE FUNCTION @.others_wait_1(k bytea, who text, now timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN EXISTS (SELECT FROM @.waiter_1 WHERE key = k AND dies > now AND owner <> who AND place <
        coalesce((SELECT place FROM @.waiter_1 WHERE key = k AND owner = who), 9223372036854775807));
END $$;

-- Takes several unfenced locks, in order, up to and including the first that is not acquired. One line for each.
CREATE OR REPLACE FUNCTION @.acquire_all_1(
    ks bytea[], whos text[], ttls bigint[], whats integer[], vias bigint[], claims bigint[], entries bigint[],
    not_after timestamptz, sync text
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    said text;
    lines text[] := '{}';
BEGIN
    FOR i IN 1..cardinality(ks) LOOP
        said := @.acquire_1(ks[i], whos[i], ttls[i], whats[i], 0, vias[i], claims[i], entries[i], not_after, sync);
        lines := lines || said;
        EXIT WHEN said NOT LIKE 'acquired %' AND said NOT LIKE 'held %';
    END LOOP;
    RETURN array_to_string(lines, E'\n');
END $$;
-- Release, and what comes after it.

-- Tells one that waits that the key is its own, with this fencing token.
CREATE OR REPLACE FUNCTION @.tell_1(via bigint, who text, token bigint, k bytea) RETURNS void LANGUAGE sql AS $$
    SELECT pg_notify('distlock_' || via, who || ' ' || token || ' ' || encode(k, 'hex'))
$$;

-- Serves the queue of a key whose row the caller has locked: lets in as many from its front as go together with the
-- holders, and tells them. Writes the row.
CREATE OR REPLACE FUNCTION @.serve_1(l @.lock_1, now timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    w @.waiter_1;
    is_free boolean;
    told text;
BEGIN
    IF l.kind <> 0 THEN
        DELETE FROM @.holder_1 WHERE key = l.key AND expires <= now;
        SELECT max(expires) INTO l.expires FROM @.holder_1 WHERE key = l.key;
        IF l.expires IS NULL THEN
            l.owner := NULL;
        END IF;
    END IF;
    is_free := l.owner IS NULL;
    WHILE l.queued LOOP
        SELECT * INTO w FROM @.waiter_1 WHERE key = l.key ORDER BY place LIMIT 1;
        IF NOT FOUND THEN
            l.queued := false;
        ELSIF w.dies <= now OR pg_try_advisory_xact_lock_shared(w.channel) THEN
            -- Nobody listens any more for what it would be told.
            DELETE FROM @.waiter_1 WHERE key = l.key AND place = w.place;
        ELSIF is_free AND w.kind = 0 THEN
            DELETE FROM @.waiter_1 WHERE key = l.key AND place = w.place;
            UPDATE @.lock_1 SET kind = 0, owner = w.owner, expires = now + @.ms_1(w.claim),
                fence = l.fence + w.fences, fence_from = l.fence + 1 WHERE key = l.key
                RETURNING @.tell_1(w.channel, w.owner, l.fence + 1, l.key) INTO told;
            RETURN;
        ELSIF w.kind <> 0 AND (is_free OR (w.kind = l.kind AND @.has_room_1(l.key, w.kind))) THEN
            DELETE FROM @.waiter_1 WHERE key = l.key AND place = w.place;
            IF is_free THEN
                l.kind := w.kind;
                l.owner := '';
                l.expires := now;
                l.fence_from := l.fence + 1;
                is_free := false;
            END IF;
            INSERT INTO @.holder_1 VALUES (l.key, w.owner, now + @.ms_1(w.claim));
            l.expires := greatest(l.expires, now + @.ms_1(w.claim));
            PERFORM @.tell_1(w.channel, w.owner, l.fence + 1, l.key);
            l.fence := l.fence + w.fences;
        ELSE
            EXIT;
        END IF;
    END LOOP;
    UPDATE @.lock_1 SET kind = l.kind, owner = l.owner, expires = coalesce(l.expires, now), fence = l.fence,
        fence_from = l.fence_from, queued = l.queued WHERE key = l.key;
END $$;

-- Ends the lease of `who`, or its place in the queue, and lets the next in. `keep`: the key, or the place, stays taken
-- by nobody for so long. Whether there was something to end.
CREATE OR REPLACE FUNCTION @.release_1(k bytea, who text, keep bigint, not_after timestamptz, sync text)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    l @.lock_1;
    now timestamptz;
    was text := @.settle_1(sync);
BEGIN
    -- Nobody waits: by one statement. A release that is lost in a crash leaves a lock that ends with its ttl.
    UPDATE @.lock_1 SET owner = NULL, expires = clock_timestamp()
        WHERE key = k AND owner = who AND kind = 0 AND NOT queued AND expires > clock_timestamp() AND keep IS NULL
        RETURNING set_config('synchronous_commit', 'off', true) INTO was;
    IF NOT FOUND THEN
        SELECT * INTO l FROM @.lock_1 WHERE key = k AND (owner = who OR queued OR kind <> 0) FOR UPDATE;
        IF NOT FOUND THEN
            RETURN false;
        END IF;
    END IF;
    -- It may have waited for the row.
    now := clock_timestamp();
    IF now > not_after THEN
        PERFORM @.too_late_1();
    END IF;
    IF l.key IS NULL THEN
        -- The first statement has done it.
        RETURN true;
    END IF;
    IF l.kind <> 0 OR l.owner IS DISTINCT FROM who OR l.expires <= now THEN
        RETURN @.leave_1(l, who, keep, now);
    END IF;
    IF keep IS NOT NULL THEN
        UPDATE @.lock_1 SET owner = 'dl1:hold', expires = now + @.ms_1(keep), fence_from = l.fence + 1
            WHERE key = k;
        RETURN true;
    END IF;
    l.owner := NULL;
    PERFORM @.serve_1(l, now);
    RETURN true;
END $$;

-- The rest of release_1: a holder of a shared or limited lock, or somebody who waits.
CREATE OR REPLACE FUNCTION @.leave_1(l @.lock_1, who text, keep bigint, now timestamptz)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    did boolean := false;
BEGIN
    IF l.kind <> 0 AND l.owner IS NOT NULL AND l.expires > now THEN
        DELETE FROM @.holder_1 WHERE key = l.key AND owner = who AND expires > now;
        did := FOUND;
        IF did AND keep IS NOT NULL THEN
            INSERT INTO @.holder_1 VALUES (l.key, 'dl1:hold:' || who, now + @.ms_1(keep))
                ON CONFLICT (key, owner) DO UPDATE SET expires = now + @.ms_1(keep);
        END IF;
    END IF;
    IF NOT did AND @.dequeue_1(l.key, who) THEN
        did := true;
        SELECT queued INTO l.queued FROM @.lock_1 WHERE key = l.key;
    END IF;
    IF did AND (l.kind <> 0 OR l.owner IS NULL OR l.expires <= now) THEN
        -- Those behind it may get in now.
        IF l.kind = 0 THEN
            l.owner := NULL;
        END IF;
        PERFORM @.serve_1(l, now);
    END IF;
    RETURN did;
END $$;

-- Frees the key, whichever owner holds it, and lets the next in. Returns whether somebody held it.
CREATE OR REPLACE FUNCTION @.force_release_1(k bytea, not_after timestamptz, sync text)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    l @.lock_1;
    now timestamptz;
    held boolean;
    was text := @.settle_1(sync);
BEGIN
    SELECT * INTO l FROM @.lock_1 WHERE key = k FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    now := clock_timestamp();
    IF now > not_after THEN
        PERFORM @.too_late_1();
    END IF;
    held := l.owner IS NOT NULL AND l.expires > now;
    DELETE FROM @.holder_1 WHERE key = k;
    l.owner := NULL;
    PERFORM @.serve_1(l, now);
    RETURN held;
END $$;
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
    WHERE l.key = k AND l.owner IS NOT NULL AND l.expires > t.now AND h.expires > t.now
$$;

-- Removes rows of keys that have been free for a day, at most so many; their fencing tokens go on rising all the same.
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

-- Created last: it is there when all of the above is.
CREATE OR REPLACE FUNCTION @.installed_1() RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT 1';
