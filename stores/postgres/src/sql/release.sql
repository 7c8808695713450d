-- Release, and what comes after it.

-- Tells one that waits that the key is its own, with this fencing token.
CREATE OR REPLACE FUNCTION @.tell_1(via bigint, who text, token bigint, k bytea) RETURNS void LANGUAGE sql AS $$
    SELECT pg_notify('distlock_' || via, who || ' ' || token || ' ' || encode(k, 'hex'))
$$;

-- Tells one that waits that the key is free, and that it has to ask for it.
CREATE OR REPLACE FUNCTION @.tell_free_1(via bigint, who text, k bytea) RETURNS void LANGUAGE sql AS $$
    SELECT pg_notify('distlock_' || via, who || ' free ' || encode(k, 'hex'))
$$;

-- Serves the queue of a key whose row the caller has locked: lets in as many from its front as go together with the
-- holders, and tells them. Writes the row.
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
            -- Nobody listens any more for what it would be told.
            DELETE FROM @.waiter_1 WHERE key = l.key AND place = w.place;
        ELSIF NOT may_give THEN
            -- A transaction asserts the key: the first that waits keeps its place, and looks after it.
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
        SELECT * INTO l FROM @.lock_1 WHERE key = k AND (owner = who OR queued OR kind <> 0) FOR NO KEY UPDATE;
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
