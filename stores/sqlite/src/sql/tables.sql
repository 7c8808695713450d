-- Tables of distlock, version 1.

-- A row for each lease, and for each place that `min_hold` keeps (its owner is then dl1:hold). It lasts while `boot` is
-- the present start of the machine and `ends` lies ahead, in microseconds since that start. `most`: of a semaphore.
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

-- What the latest holder of a key has published that did.
CREATE TABLE IF NOT EXISTS distlock_value_1 (
    k BLOB NOT NULL PRIMARY KEY,
    owner TEXT NOT NULL,
    said TEXT NOT NULL
) STRICT;

-- One row: the last fencing token that was handed out, of all keys. There is nothing else that must not be forgotten.
CREATE TABLE IF NOT EXISTS distlock_fence_1 (
    one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    last INTEGER NOT NULL
) STRICT;
