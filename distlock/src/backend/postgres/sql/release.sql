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
        ELSIF is_free OR (w.kind <> 0 AND w.kind = l.kind AND @.has_room_1(l.key, w.kind)) THEN
            DELETE FROM @.waiter_1 WHERE key = l.key AND place = w.place;
            IF is_free THEN
                l.kind := w.kind;
                l.owner := CASE WHEN w.kind = 0 THEN w.owner ELSE '' END;
                l.expires := now;
                l.fence_from := l.fence + 1;
            END IF;
            IF w.kind <> 0 THEN
                INSERT INTO @.holder_1 VALUES (l.key, w.owner, now + @.ms_1(w.claim));
            END IF;
            l.expires := greatest(l.expires, now + @.ms_1(w.claim));
            PERFORM @.tell_1(w.channel, w.owner, l.fence + 1, l.key);
            l.fence := l.fence + w.fences;
            is_free := false;
            EXIT WHEN w.kind = 0;
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
    w @.waiter_1;
    was text := set_config('lock_timeout', '1000', true)
        || CASE WHEN sync IS NULL THEN '' ELSE set_config('synchronous_commit', sync, true) END;
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
    IF clock_timestamp() > not_after THEN
        PERFORM @.too_late_1();
    END IF;
    IF l.key IS NULL THEN
        -- The first statement has done it.
        RETURN true;
    END IF;
    IF l.kind <> 0 OR l.owner IS DISTINCT FROM who OR l.expires <= clock_timestamp() THEN
        RETURN @.leave_1(l, who, keep, clock_timestamp());
    END IF;
    IF keep IS NOT NULL THEN
        UPDATE @.lock_1 SET owner = 'dl1:hold', expires = clock_timestamp() + @.ms_1(keep), fence_from = l.fence + 1
            WHERE key = k;
        RETURN true;
    END IF;
    -- To the next in line, if that asks for an exclusive lock: by the fewest statements.
    DELETE FROM @.waiter_1 WHERE key = k AND kind = 0
        AND place = (SELECT place FROM @.waiter_1 WHERE key = k ORDER BY place LIMIT 1)
        RETURNING * INTO w;
    IF w.dies > clock_timestamp() AND NOT pg_try_advisory_xact_lock_shared(w.channel) THEN
        UPDATE @.lock_1 SET owner = w.owner, expires = clock_timestamp() + @.ms_1(w.claim),
            fence = l.fence + w.fences, fence_from = l.fence + 1 WHERE key = k
            RETURNING @.tell_1(w.channel, w.owner, l.fence + 1, k) INTO was;
        RETURN true;
    END IF;
    l.owner := NULL;
    PERFORM @.serve_1(l, clock_timestamp());
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
    was text := set_config('lock_timeout', '1000', true);
BEGIN
    IF sync IS NOT NULL THEN
        was := set_config('synchronous_commit', sync, true);
    END IF;
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
