-- Tables of distlock, version 1.

-- A row for each lease, and for each lock that `min_hold` keeps taken (with the owner dl1:hold). It is valid while `boot`
-- is the current start of the machine and `ends`, in microseconds since that start, lies in the future. `most`: the limit
-- of a semaphore.
CREATE TABLE IF NOT EXISTS distlock_lease_1 (
    k BLOB NOT NULL,
    owner TEXT NOT NULL,
    kind INTEGER NOT NULL,
    most INTEGER NOT NULL,
    boot TEXT NOT NULL,
    began INTEGER NOT NULL,
    ends INTEGER NOT NULL,
    host TEXT,
    pid INTEGER NOT NULL,
    program TEXT
) STRICT;
CREATE INDEX IF NOT EXISTS distlock_lease_1_k ON distlock_lease_1 (k);

-- The value that was last published for a key, and the holder that has published it.
CREATE TABLE IF NOT EXISTS distlock_value_1 (
    k BLOB NOT NULL PRIMARY KEY,
    owner TEXT NOT NULL,
    said TEXT NOT NULL
) STRICT;

-- One row: the last fencing token that was issued for any key. No other data must survive.
CREATE TABLE IF NOT EXISTS distlock_fence_1 (
    one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    last INTEGER NOT NULL
) STRICT;
