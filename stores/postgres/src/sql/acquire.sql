-- Acquisition.

-- Inserts the row of a key.
CREATE OR REPLACE FUNCTION @.make_row_1(k bytea) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    least bigint;
BEGIN
    INSERT INTO @.lock_1 (key, expires, fence, fence_from) VALUES (k, clock_timestamp(), 0, 1)
        ON CONFLICT DO NOTHING;
    IF FOUND THEN
        -- Read after the insertion, which waits for a transaction that prunes this key.
        SELECT fence INTO least FROM @.floor_1;
        UPDATE @.lock_1 SET fence = least, fence_from = least + 1 WHERE key = k AND least > 0;
    END IF;
END $$;

-- Returns whether a transaction asserts the key (see assert_held_1). The caller has locked the row FOR NO KEY UPDATE. If
-- the result is true, the lock must not be granted. The caller does not wait for that transaction, which may stay open
-- for long. If it is false, no transaction can assert the key before the caller's transaction ends.
CREATE OR REPLACE FUNCTION @.is_asserted_1(k bytea) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM @.lock_1 WHERE key = k FOR UPDATE SKIP LOCKED;
    RETURN NOT FOUND;
END $$;

-- Adds `who` to the queue of a key, or extends its queue entry. The caller has locked the row of the key. `queued`:
-- whether the queue may have other entries. Returns whether no entry in front of it is alive.
CREATE OR REPLACE FUNCTION @.enqueue_1(
    k bytea, queued boolean, who text, what integer, want integer, via bigint, claims bigint, now timestamptz,
    until timestamptz
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    mine bigint;
    was text;
BEGIN
    -- The waiter enters the queue again if the entry is lost in a crash.
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

-- Removes `who` from the queue. Returns whether it had an entry.
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

-- The reply if another owner holds the lock. (Without the cast to text, `||` is not immutable.)
CREATE OR REPLACE FUNCTION @.busy_1(holder text, ends timestamptz, now timestamptz, front boolean)
RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT 'busy ' || greatest(0, extract(epoch FROM ends - now) * 1000000)::bigint::text
        || CASE WHEN front THEN ' 1 ' ELSE ' 0 ' END || holder
$$;

-- The reply while a transaction asserts the key. No client is notified when that transaction ends, so the first waiter
-- polls if the holder has this name. The other waiters wait for the given time before they ask again.
CREATE OR REPLACE FUNCTION @.asserted_1(front boolean) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT 'busy 1000000' || CASE WHEN front THEN ' 1 ' ELSE ' 0 ' END || 'a transaction that asserts it'
$$;

-- Acquires the lock for `who`, or returns its holder. `via`: the channel on which the grant is sent; NULL: do not queue.
-- Replies: acquired FENCE, held FENCE, busy MICROSECONDS FRONT HOLDER, kind KIND.
CREATE OR REPLACE FUNCTION @.acquire_1(
    k bytea, who text, ttl bigint, what integer, want integer, via bigint, claims bigint, entry bigint,
    not_after timestamptz, sync text
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    last bigint;
    now timestamptz;
    was text := @.settle_1(sync);
BEGIN
    was := @.fence_durably_1(want);
    -- An exclusive lock on a free key takes two statements, which read only the columns that they need. If the row is
    -- locked, take_1 continues. It distinguishes a transaction that changes the row from one that asserts the key.
    SELECT fence INTO last FROM @.lock_1
        WHERE key = k AND what = 0 AND kind = 0 AND owner IS NULL AND NOT queued FOR UPDATE SKIP LOCKED;
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

-- The rest of acquire_1: a new key, a key with another holder, a locked row, or another kind of lock.
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
        -- If the key is busy and the caller does not queue, nothing is written.
        SELECT * INTO l FROM @.lock_1
            WHERE key = k AND (via IS NOT NULL OR owner IS NULL OR owner = who OR expires <= now OR kind <> 0)
            FOR NO KEY UPDATE;
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
    IF l.kind <> 0 AND l.owner IS NOT NULL AND l.expires <= now THEN
        -- The lease of its last holder decides.
        SELECT coalesce(max(expires), l.expires) INTO l.expires FROM @.holder_1 WHERE key = k;
    END IF;
    is_ours := l.kind = 0 AND l.owner IS NOT DISTINCT FROM who AND l.expires > now;
    IF what = 0 AND (is_ours OR l.owner IS NULL OR l.expires <= now) THEN
        IF NOT is_ours AND @.is_asserted_1(k) THEN
            RETURN @.asserted_1(via IS NULL
                OR @.enqueue_1(k, l.queued, who, what, want, via, claims, now, now + @.ms_1(entry)));
        END IF;
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

-- The request is for an exclusive lock, or an exclusive lock is held.
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
            ORDER BY expires DESC, owner DESC LIMIT 1;
    END IF;
    RETURN @.busy_1(holder, l.expires, now, front);
END $$;

-- The request is for a shared or limited lock, and no exclusive lock is held.
CREATE OR REPLACE FUNCTION @.join_1(
    l @.lock_1, who text, what integer, ttl bigint, via bigint, claims bigint, now timestamptz, until timestamptz
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    ends timestamptz := now + @.ms_1(ttl);
    -- When the caller's own lease ends; NULL: it has none.
    mine timestamptz;
    front boolean := true;
    first @.holder_1;
BEGIN
    DELETE FROM @.holder_1 WHERE key = l.key AND expires <= now;
    IF l.owner IS NOT NULL AND l.expires > now THEN
        IF l.kind <> what THEN
            RETURN 'kind ' || l.kind;
        END IF;
        UPDATE @.holder_1 SET expires = greatest(expires, ends) WHERE key = l.key AND owner = who
            RETURNING expires INTO mine;
        IF mine IS NULL AND (NOT @.has_room_1(l.key, what) OR @.others_wait_1(l.key, who, now)) THEN
            IF via IS NOT NULL THEN
                front := @.enqueue_1(l.key, l.queued, who, what, 0, via, claims, now, until);
            END IF;
            SELECT * INTO first FROM @.holder_1 WHERE key = l.key ORDER BY expires, owner LIMIT 1;
            RETURN @.busy_1(first.owner, first.expires, now, front);
        END IF;
        -- The row expires with the lease of the last holder.
        ends := greatest(ends, mine, l.expires);
    ELSIF @.is_asserted_1(l.key) THEN
        RETURN @.asserted_1(via IS NULL
            OR @.enqueue_1(l.key, l.queued, who, what, 0, via, claims, now, until));
    END IF;
    IF mine IS NULL THEN
        INSERT INTO @.holder_1 VALUES (l.key, who, now + @.ms_1(ttl));
    END IF;
    UPDATE @.lock_1 SET kind = what, owner = '', expires = ends, fence_from = l.fence + 1 WHERE key = l.key;
    IF l.queued THEN
        PERFORM @.dequeue_1(l.key, who);
    END IF;
    RETURN CASE WHEN mine IS NULL THEN 'acquired 0' ELSE 'held 0' END;
END $$;

-- Returns whether a shared or limited lock has room for another holder. The caller has removed expired holders.
CREATE OR REPLACE FUNCTION @.has_room_1(k bytea, what integer) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN what < 0 OR (SELECT count(*) FROM @.holder_1 WHERE key = k) < what;
END $$;

-- Returns whether a waiter in front of `who` is alive. If `who` does not wait, any waiter counts.
CREATE OR REPLACE FUNCTION @.others_wait_1(k bytea, who text, now timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN EXISTS (SELECT FROM @.waiter_1 WHERE key = k AND dies > now AND owner <> who AND place <
        coalesce((SELECT place FROM @.waiter_1 WHERE key = k AND owner = who), 9223372036854775807));
END $$;

-- Acquires several unfenced locks in order, and stops at the first that it cannot acquire. Returns a line for each.
CREATE OR REPLACE FUNCTION @.acquire_all_1(
    ks bytea[], whos text[], ttls bigint[], whats integer[], vias bigint[], claims bigint[], entries bigint[],
    not_after timestamptz, sync text
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    said text;
    lines text[] := '{}';
    durable text := coalesce(sync, current_setting('synchronous_commit'));
BEGIN
    FOR i IN 1..cardinality(ks) LOOP
        said := @.acquire_1(ks[i], whos[i], ttls[i], whats[i], 0, vias[i], claims[i], entries[i], not_after, sync);
        lines := lines || said;
        EXIT WHEN said NOT LIKE 'acquired %' AND said NOT LIKE 'held %';
    END LOOP;
    -- A queue entry for the last key must not make the acquired locks less durable.
    PERFORM set_config('synchronous_commit', durable, true) WHERE cardinality(lines) > 1;
    RETURN array_to_string(lines, E'\n');
END $$;
