-- Lets an owner in beside others, or tells that somebody is in the way. One transaction, which is sent as a whole: the
-- server carries it out to its end even if the process that has sent it stops, so the row is locked for a moment only.
--
-- Everybody locks the row of the key first: so its holders stay as they are to the end of the transaction.
-- Answers: 1 acquired, 2 held already, 3 busy, 0 nothing was done: there is no row, or it came too late.
--
-- make_row: for a key of which no row is known. kind: what stands for this kind of lock. most: how many may hold it.
START TRANSACTION;
{make_row}
-- 1: the key is free; 2: it is held as this kind of lock; 0: as another one.
SELECT MAX(CASE
        WHEN owner = '-' OR expires <= UTC_TIMESTAMP(6) THEN 1
        WHEN owner = {kind} THEN 2
        ELSE 0 END)
    INTO @distlock_state FROM @lock WHERE k = {key} FOR UPDATE;
DELETE FROM @holder
    WHERE k = {key} AND (@distlock_state = 1 OR @distlock_state = 2 AND expires <= UTC_TIMESTAMP(6));
-- The row may have been waited for: so the time is read now.
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
