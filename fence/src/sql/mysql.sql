CREATE TABLE IF NOT EXISTS distlock_fence (
    `key` varbinary(1280) PRIMARY KEY,
    token bigint          NOT NULL
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS distlock_once (
    `key`     varbinary(1280) PRIMARY KEY,
    result    mediumtext CHARACTER SET utf8mb4 NOT NULL,
    arguments varbinary(32),
    token     bigint NOT NULL,
    expires   bigint NOT NULL,
    INDEX distlock_once_expires (expires)
) ENGINE = InnoDB;
