-- The assignments of the UPDATE by which an owner acquires a lock, or learns that it is busy.
-- The statement reads the clock once: UTC_TIMESTAMP does not change while it waits for a row. So all its parts decide
-- alike. If it has waited, its time is too early, so it may report an expired lock as busy, but never a held one as free.
--
-- Parameters: owner, tokens, owner, owner, ttl. Times in microseconds.
-- Reply: the number of LAST_INSERT_ID, which needs no second statement:
--   first token * 4 + 1 (acquired) or + 2 (held already), or the remaining time * 4 + 3 (busy).
-- No number: there is no row, or the statement came too late and changed nothing. A busy row is not written.
--
-- Whether an assignment sees the values of the assignments before it depends on the sql_mode SIMULTANEOUS_ASSIGNMENT. The
-- result is the same. For this, a row counts as free only if it has expired, even after its release. If the clock was set
-- back after the release, the row expires in the future, so it is reported as busy, and `end_now` corrects it. If it were
-- acquired here, the last assignment could not distinguish it from a lock that its owner held before, and would keep the
-- old expiry.
    fence_from = IF(expires <= UTC_TIMESTAMP(6), fence + 1, fence_from),
    fence = CASE LAST_INSERT_ID(IF(
            expires <= UTC_TIMESTAMP(6),
            (fence + 1) * 4 + 1,
            IF(owner = ?, (fence + 1) * 4 + 2, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires) * 4 + 3)
        )) MOD 4
        WHEN 3 THEN fence ELSE fence + ? END,
    owner = IF(expires <= UTC_TIMESTAMP(6), ?, owner),
    expires = IF(
        expires <= UTC_TIMESTAMP(6) OR owner = ?,
        GREATEST(expires, UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND),
        expires
    )
