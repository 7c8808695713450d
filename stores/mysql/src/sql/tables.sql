-- Tables of distlock, version 1.

-- A row for each key that was ever locked. A lock is held while `owner` is not '-' and `expires`, in UTC, lies in the
-- future. The row stays when the lock is free, because fencing tokens of the key must rise. `fence` is the last token that
-- was issued, `fence_from` the first token of the current owner.
CREATE TABLE IF NOT EXISTS @lock (
    k VARBINARY(1280) NOT NULL PRIMARY KEY,
    owner VARBINARY(128) NOT NULL,
    expires DATETIME(6) NOT NULL,
    fence BIGINT NOT NULL,
    fence_from BIGINT NOT NULL
) ENGINE = InnoDB;

-- One row. No fencing token of a removed row is above `least`.
CREATE TABLE IF NOT EXISTS @floor (
    one TINYINT NOT NULL PRIMARY KEY,
    least BIGINT NOT NULL
) ENGINE = InnoDB;

-- The holders of shared and limited locks. The row of the key in @lock has the `owner` 'dl1:s' (shared) or 'dl1:p:N' (at
-- most N), and expires with the last lease. If that row has another `owner` or has expired, the rows here are obsolete.
CREATE TABLE IF NOT EXISTS @holder (
    k VARBINARY(1280) NOT NULL,
    owner VARBINARY(160) NOT NULL,
    expires DATETIME(6) NOT NULL,
    PRIMARY KEY (k, owner)
) ENGINE = InnoDB;

-- The value that was last published for a key, and the holder that has published it.
CREATE TABLE IF NOT EXISTS @value (
    k VARBINARY(1280) NOT NULL PRIMARY KEY,
    owner VARBINARY(128) NOT NULL,
    said VARBINARY(1024) NOT NULL
) ENGINE = InnoDB;

INSERT IGNORE INTO @floor (one, least) VALUES (1, 0);
