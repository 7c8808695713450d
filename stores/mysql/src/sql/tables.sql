-- Tables of distlock, version 1.

-- A row for each key that was ever locked. A lock is held while `owner` is not '-' and `expires`, in UTC, lies in the
-- future. The row stays when the lock is free, because fencing tokens of the key must go on rising. `fence` is the last
-- token that was handed out, `fence_from` the first that the present owner has got.
CREATE TABLE IF NOT EXISTS @lock (
    k VARBINARY(1280) NOT NULL PRIMARY KEY,
    owner VARBINARY(128) NOT NULL,
    expires DATETIME(6) NOT NULL,
    fence BIGINT NOT NULL,
    fence_from BIGINT NOT NULL
) ENGINE = InnoDB;

-- One row. No fencing token of a key whose row was removed is above this.
CREATE TABLE IF NOT EXISTS @floor (
    one TINYINT NOT NULL PRIMARY KEY,
    least BIGINT NOT NULL
) ENGINE = InnoDB;

INSERT IGNORE INTO @floor (one, least) VALUES (1, 0);
