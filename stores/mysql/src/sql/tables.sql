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

-- The holders of locks that several may hold, which one row of @lock stands for: its `owner` is then 'dl1:s' (shared) or
-- 'dl1:p:N' (at most N), and it lasts as long as the last of them. While it does not say so, or has ended, whatever
-- stands here of its key is of the past.
CREATE TABLE IF NOT EXISTS @holder (
    k VARBINARY(1280) NOT NULL,
    owner VARBINARY(160) NOT NULL,
    expires DATETIME(6) NOT NULL,
    PRIMARY KEY (k, owner)
) ENGINE = InnoDB;

-- What the latest holder of a key has published that did.
CREATE TABLE IF NOT EXISTS @value (
    k VARBINARY(1280) NOT NULL PRIMARY KEY,
    owner VARBINARY(128) NOT NULL,
    said VARBINARY(1024) NOT NULL
) ENGINE = InnoDB;

INSERT IGNORE INTO @floor (one, least) VALUES (1, 0);
