-- Release, and the grant to the next waiter.

-- Notifies a waiter that the lock was granted to it, with this fencing token.
CREATE OR REPLACE FUNCTION @.tell_1(via bigint, who text, token bigint, k bytea) RETURNS void LANGUAGE sql AS $$
    SELECT pg_notify('distlock_' || via, who || ' ' || token || ' ' || encode(k, 'hex'))
$$;

-- Notifies a waiter that the key is free, so that it requests the lock again.
CREATE OR REPLACE FUNCTION @.tell_free_1(via bigint, who text, k bytea) RETURNS void LANGUAGE sql AS $$
    SELECT pg_notify('distlock_' || via, who || ' free ' || encode(k, 'hex'))
$$;

-- Serves the queue of a key whose row the caller has locked. Grants the lock to the waiters at the front that are
-- compatible with the holders, and notifies them. Writes the row.
CREATE OR REPLACE FUNCTION @.serve_1(l @.lock_1, now timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    w @.waiter_1;
    is_free boolean;
    may_give boolean;
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
    may_give := NOT l.queued OR NOT is_free OR NOT @.is_asserted_1(l.key);
    WHILE l.queued LOOP
        SELECT * INTO w FROM @.waiter_1 WHERE key = l.key ORDER BY place LIMIT 1;
        IF NOT FOUND THEN
            l.queued := false;
        ELSIF w.dies <= now OR pg_try_advisory_xact_lock_shared(w.channel) THEN
            -- The waiter has expired, or its connection no longer listens.
            DELETE FROM @.waiter_1 WHERE key = l.key AND place = w.place;
        ELSIF NOT may_give THEN
            -- A transaction asserts the key. The first waiter keeps its entry, and polls.
            PERFORM @.tell_free_1(w.channel, w.owner, l.key);
            EXIT;
        ELSIF is_free AND w.kind = 0 THEN
            told := @.fence_durably_1(w.fences);
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
            told := @.fence_durably_1(w.fences);
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

-- Ends the lease of `who`, or removes its queue entry, and grants the lock to the next waiter. `keep`: for this time,
-- the lock stays held without an owner. Returns whether `who` had a lease or an entry.
CREATE OR REPLACE FUNCTION @.release_1(k bytea, who text, keep bigint, not_after timestamptz, sync text)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    l @.lock_1;
    now timestamptz;
    was text := @.settle_1(sync);
BEGIN
    -- Without a waiter, one statement is enough. If a crash loses the release, the lock expires after its ttl.
    UPDATE @.lock_1 SET owner = NULL, expires = clock_timestamp()
        WHERE key = k AND owner = who AND kind = 0 AND NOT queued AND expires > clock_timestamp() AND keep IS NULL
        RETURNING set_config('synchronous_commit', 'off', true) INTO was;
    IF NOT FOUND THEN
        SELECT * INTO l FROM @.lock_1 WHERE key = k AND (owner = who OR queued OR kind <> 0) FOR NO KEY UPDATE;
        IF NOT FOUND THEN
            RETURN false;
        END IF;
    END IF;
    -- The statement may have waited for the row.
    now := clock_timestamp();
    IF now > not_after THEN
        PERFORM @.too_late_1();
    END IF;
    IF l.key IS NULL THEN
        -- The first statement has released the lock.
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

-- The rest of release_1: `who` is a holder of a shared or limited lock, or a waiter.
CREATE OR REPLACE FUNCTION @.leave_1(l @.lock_1, who text, keep bigint, now timestamptz)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    did boolean := false;
BEGIN
    IF l.kind <> 0 AND l.owner IS NOT NULL THEN
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
        -- The lock may be granted to the waiters behind it now.
        IF l.kind = 0 THEN
            l.owner := NULL;
        END IF;
        PERFORM @.serve_1(l, now);
    END IF;
    RETURN did;
END $$;

-- Releases the lock, whichever owner holds it, and grants it to the next waiter. Returns whether it was held.
CREATE OR REPLACE FUNCTION @.force_release_1(k bytea, not_after timestamptz, sync text)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    l @.lock_1;
    now timestamptz;
    held boolean;
    was text := @.settle_1(sync);
BEGIN
    SELECT * INTO l FROM @.lock_1 WHERE key = k FOR NO KEY UPDATE;
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
