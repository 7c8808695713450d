-- Acquires a lock that several owners may hold, or reports that it is busy. The transaction is sent as a whole, so the
-- server completes it even if the client stops, and the row is locked only for a moment.
--
-- Every transaction locks the row of the key first, so the holders do not change until it ends.
-- Reply: 1 acquired, 2 held already, 3 busy, 0 nothing was changed: there is no row, or the command came too late.
--
-- make_row: inserts the row, if the client does not know that it exists. kind: the marker of this kind of lock. most: the
-- maximum number of holders.
START TRANSACTION;
{make_row}
-- 1: the key is free; 2: it is held as this kind of lock; 0: it is held as another kind.
SELECT MAX(CASE
        WHEN owner = '-' OR expires <= UTC_TIMESTAMP(6) THEN 1
        WHEN owner = {kind} THEN 2
        ELSE 0 END)
    INTO @distlock_state FROM @lock WHERE k = {key} FOR UPDATE;
DELETE FROM @holder
    WHERE k = {key} AND (@distlock_state = 1 OR @distlock_state = 2 AND expires <= UTC_TIMESTAMP(6));
-- The transaction may have waited for the row, so the time is read now.
SELECT CASE
        WHEN @distlock_state IS NULL OR UTC_TIMESTAMP(6) > {not_after} THEN 0
        WHEN @distlock_state = 0 THEN 3
        WHEN MAX(owner = {owner}) THEN 2
        WHEN COUNT(*) < {most} THEN 1
        ELSE 3 END
    INTO @distlock_said FROM @holder WHERE k = {key};
INSERT INTO @holder (k, owner, expires)
    SELECT {key}, {owner}, UTC_TIMESTAMP(6) + INTERVAL {ttl} MICROSECOND FROM DUAL WHERE @distlock_said IN (1, 2)
    ON DUPLICATE KEY UPDATE expires = GREATEST(expires, UTC_TIMESTAMP(6) + INTERVAL {ttl} MICROSECOND);
UPDATE @lock SET owner = {kind}, expires = (SELECT MAX(expires) FROM @holder WHERE k = {key}), fence_from = fence + 1
    WHERE k = {key} AND @distlock_said IN (1, 2);
SELECT @distlock_said;
COMMIT AND NO CHAIN NO RELEASE
