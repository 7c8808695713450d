-- What becomes of the row of a key when an owner asks for it: it is let in, or told that somebody else is in the way.
-- One reading of the clock: UTC_TIMESTAMP stands still while a statement waits for a row. So no two parts of it can decide
-- differently, and what it decides by a clock that is a little late keeps others out for longer, never for shorter.
--
-- Parameters: owner, tokens, owner, owner, ttl. Times in microseconds.
-- Answers by the number that LAST_INSERT_ID tells without a second statement:
--   first token * 4 + 1 (acquired) or + 2 (held already), or the remaining time * 4 + 3 (busy).
-- No number: there is no row, or it came too late, and did nothing. A busy row is not changed: nothing is written.
--
-- Each assignment may see what those before it have assigned, or not (sql_mode SIMULTANEOUS_ASSIGNMENT): to these, it is
-- the same. Hence a row is free here only if its end has passed, also one that was released: one whose end lies ahead,
-- because the clock was set back since, is told to be busy, and `end_now` mends it. Were it let in here, the last
-- assignment could not tell it from a row that was its owner's before, and would keep that end.
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
