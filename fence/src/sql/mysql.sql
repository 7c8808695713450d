CREATE TABLE IF NOT EXISTS distlock_fence (
    `key` varbinary(1280) PRIMARY KEY,
    token bigint          NOT NULL
) ENGINE = InnoDB;
