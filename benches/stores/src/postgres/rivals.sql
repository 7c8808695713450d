-- The simplest lock: a row with a lease.
CREATE TABLE lease (key text PRIMARY KEY, token text, fence bigint NOT NULL, expires timestamptz NOT NULL);

-- A queue with direct grants, and nothing else. It handles neither several kinds of locks, nor dead waiters, nor late
-- commands.
CREATE TABLE held (key text PRIMARY KEY, token text, fence bigint NOT NULL DEFAULT 0, expires timestamptz);
CREATE TABLE waits (key text, place bigint GENERATED ALWAYS AS IDENTITY, token text, channel text, PRIMARY KEY (key, place));

CREATE FUNCTION take(k text, who text, via text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    h held;
BEGIN
    SELECT * INTO h FROM held WHERE key = k FOR UPDATE;
    IF NOT FOUND THEN
        INSERT INTO held (key) VALUES (k) ON CONFLICT DO NOTHING;
        SELECT * INTO h FROM held WHERE key = k FOR UPDATE;
    END IF;
    IF h.token IS NULL OR h.expires <= clock_timestamp() THEN
        UPDATE held SET token = who, fence = fence + 1, expires = clock_timestamp() + interval '30 s' WHERE key = k;
        RETURN true;
    END IF;
    PERFORM set_config('synchronous_commit', 'off', true);
    INSERT INTO waits (key, token, channel) VALUES (k, who, via);
    RETURN false;
END $$;

CREATE FUNCTION give(k text, who text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    w waits;
BEGIN
    PERFORM FROM held WHERE key = k AND token = who FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT * INTO w FROM waits WHERE key = k ORDER BY place LIMIT 1;
    IF FOUND THEN
        DELETE FROM waits WHERE key = k AND place = w.place;
        UPDATE held SET token = w.token, fence = fence + 1, expires = clock_timestamp() + interval '30 s' WHERE key = k;
        PERFORM pg_notify(w.channel, w.token);
    ELSE
        PERFORM set_config('synchronous_commit', 'off', true);
        UPDATE held SET token = NULL WHERE key = k;
    END IF;
END $$;
