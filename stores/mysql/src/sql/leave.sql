-- Ends the lease of one of several holders. The transaction is sent as a whole, as in enter.sql.
-- Reply: 1 released; 0 nothing was changed: the owner does not hold the lock, or the command came too late.
--
-- keep: inserts a holder that takes its place for `min_hold`.
START TRANSACTION;
SELECT MAX((owner = 'dl1:s' OR owner LIKE 'dl1:p:%') AND expires > UTC_TIMESTAMP(6))
    INTO @distlock_state FROM @lock WHERE k = {key} FOR UPDATE;
SELECT COUNT(*) INTO @distlock_said FROM @holder
    WHERE k = {key} AND owner = {owner} AND expires > UTC_TIMESTAMP(6)
    AND @distlock_state = 1 AND UTC_TIMESTAMP(6) <= {not_after};
DELETE FROM @holder
    WHERE k = {key} AND @distlock_said = 1 AND (owner = {owner} OR expires <= UTC_TIMESTAMP(6));
{keep}
-- The lock is free after its last holder.
UPDATE @lock SET
        owner = IF(EXISTS (SELECT 1 FROM @holder WHERE k = {key}), owner, '-'),
        expires = COALESCE((SELECT MAX(expires) FROM @holder WHERE k = {key}), UTC_TIMESTAMP(6))
    WHERE k = {key} AND @distlock_said = 1;
SELECT @distlock_said;
COMMIT AND NO CHAIN NO RELEASE
